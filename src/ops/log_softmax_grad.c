/* log_softmax_grad(y, dy, axis): the gradient of log_softmax from its result: dy - exp(y) * sum(dy) along axis. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_dims axis = WF_DIMS(v->a->log_softmax_grad.axis);
    wf_tensor *sum = wf_sum_(v->in[1], axis, WF_OPTS(wf_sum_opts, .keep = true), v->site);
    return wf_sub_(v->in[1], wf_mul_(wf_exp_(v->in[0], v->site), sum, v->site), v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* exp, sums */
{
    (void)c;
    wfi_op_cost_each(x, 0, 21, cost);
}

const wf_op_def wf_op_log_softmax_grad = {
    .call = "y, dy, axis",
    .axes = "y[..a n!@axis] dy[..a n!@axis] -> dx[..a n!@axis]",
    .types = "float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .cost = cost,
    .onnx = "",
    .samples = "f32[4,7] f32[4,7] axis=-1; f64[2,3,5] f64[2,3,5] axis=1",
};
