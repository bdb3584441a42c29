/* log_softmax(x, axis): x - max - log(sum(exp(x - max))) along axis. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_dims shape = wfi_shape(v->in[0]);
    int32_t k = v->a->log_softmax.axis < 0 ? v->a->log_softmax.axis + shape.n : v->a->log_softmax.axis;
    if (shape.d[k] == 0) /* nothing has no largest element, and needs none */
        return wf_contiguous_(v->in[0], v->site);
    wf_dims axis = WF_DIMS(v->a->log_softmax.axis);
    wf_tensor *top = wf_max_(v->in[0], axis, WF_OPTS(wf_max_opts, .keep = true), v->site);
    wf_tensor *d = wf_sub_(v->in[0], wf_detach_(top, v->site), v->site);
    wf_tensor *sum = wf_sum_(wf_exp_(d, v->site), axis, WF_OPTS(wf_sum_opts, .keep = true), v->site);
    return wf_sub_(d, wf_log_(sum, v->site), v->site);
}

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_log_softmax_grad_(v->y, v->g, v->a->log_softmax.axis, v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* exp, maximum, sums */
{
    (void)c;
    wfi_op_cost_each(x, 0, 22, cost);
}

const wf_op_def wf_op_log_softmax = {
    .call = "x, axis",
    .axes = "x[..a n!@axis] -> y[..a n!@axis]",
    .types = "float",
    .lower = lower,
    .grad = grad,
    .cost = cost,
    .autocast = "full",
    .onnx = "LogSoftmax 13",
    .samples = "f32[4,7] axis=-1; f64[2,3,5] axis=1; f16[4,65] axis=-1 tol=4e-3; f32[10,0] axis=1",
};
