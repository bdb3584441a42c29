/* transpose(x): the last two axes exchanged. x: [..., m, n] -> [..., n, m]. A view: nothing is copied. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_transpose_(v->g, v->site);
}

const wf_op_def wf_op_transpose = {
    .call = "x",
    .axes = "x[.. m n] -> y[.. n m]",
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "",
    .samples = "f32[3,5]; f64[2,3,4]; i64[1,7]; bf16[2,1,3]",
};
