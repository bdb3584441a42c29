/* unsqueeze(x, axes): with new axes of size 1 at the given places of the result. A view: nothing is copied. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_reshape_(v->g, wfi_shape(v->in[0]), v->site);
}

const wf_op_def wf_op_unsqueeze = {
    .call = "x, axes:dims",
    .axes = "x[..a] -> y[..a 1@axes]",
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "Unsqueeze 13",
    .samples = "f32[3,4] axes=[1]; f64[5] axes=[0]; i32[2] axes=[-1]",
};
