/* softmax(x, axis): exp(x - max) / sum(exp(x - max)) along axis.
 * A row of -inf gives NaN. Streams each row once: arXiv:1805.02867. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_dims axis = WF_DIMS(v->a->softmax.axis);
    wf_tensor *x = v->in[0], *e = wf_exp(wf_sub(x, wf_max(x, axis, .keep = true)));
    return wf_div(e, wf_sum(e, axis, .keep = true));
}
static void grad(const wf_vjp *v) /* gx = y * (g - sum(g * y)) */
{
    wf_tensor *gy = wf_zmul(v->g, v->y);
    v->gin[0] = wf_sub(gy, wf_mul(v->y, wf_sum(gy, WF_DIMS(v->a->softmax.axis), .keep = true)));
}

const wf_op_def wf_op_softmax = {
    .call = "x, axis",
    .axes = "x[..a n!@axis] -> y[..a n!@axis]",
    .types = "float",
    .lower = lower,
    .grad = grad,
    .onnx = "Softmax 13",
    .samples = "f32[4,7] axis=-1; f32[2,3,5] axis=1; f16[4,513] axis=-1 tol=2e-3",
};
