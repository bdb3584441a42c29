/* softmax(x, axis): exp(x - max) / sum(exp(x - max)) along axis.
 * A row of -inf gives NaN. Streams each row once: arXiv:1805.02867. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_dims shape = wfi_shape(v->in[0]);
    int32_t k = v->a->softmax.axis < 0 ? v->a->softmax.axis + shape.n : v->a->softmax.axis;
    if (shape.d[k] == 0) /* nothing has no largest element, and needs none */
        return wf_contiguous_(v->in[0], v->site);
    wf_dims axis = WF_DIMS(v->a->softmax.axis);
    wf_tensor *top = wf_max_(v->in[0], axis, WF_OPTS(wf_max_opts, .keep = true), v->site);
    wf_tensor *e = wf_exp_(wf_sub_(v->in[0], wf_detach_(top, v->site), v->site), v->site);
    return wf_div_(e, wf_sum_(e, axis, WF_OPTS(wf_sum_opts, .keep = true), v->site), v->site);
}

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_softmax_grad_(v->y, v->g, v->a->softmax.axis, v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* exp, maximum, sums */
{
    (void)c;
    wfi_op_cost_each(x, 0, 22, cost);
}

const wf_op_def wf_op_softmax = {
    .call = "x, axis",
    .axes = "x[..a n!@axis] -> y[..a n!@axis]",
    .types = "float",
    .lower = lower,
    .grad = grad,
    .cost = cost,
    .autocast = "full",
    .onnx = "Softmax 13",
    .samples = "f32[4,7] axis=-1; f32[2,3,5] axis=1; f16[4,513] axis=-1 tol=2e-3",
};
