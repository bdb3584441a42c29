/* squeeze(x, axes): without the given axes, each of which must have size 1. A view: nothing is copied. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_reshape_(v->g, wfi_shape(v->in[0]), v->site);
}

const wf_op_def wf_op_squeeze = {
    .call = "x, axes:dims",
    .axes = "x[..a 1@axes] -> y[..a]",
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "Squeeze 13",
    .samples = "f32[3,1,4] axes=[1]; f64[1,5] axes=[0]; i32[2,1] axes=[-1]",
};
