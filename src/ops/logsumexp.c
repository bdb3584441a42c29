/* logsumexp(x, axes): log(sum(exp(x))) along the given axes, of all of them if none are given (WF_NO_DIMS), without
 * overflow: the maximum is taken out first. .keep leaves those axes in place with size 1. */
#include "ops/op.h"

static bool has_some(wf_dims shape, wf_dims axes)
{
    bool some = true;
    for (int32_t i = 0; i < axes.n; i++)
        some &= shape.d[axes.d[i]] != 0;
    return some;
}

static wf_tensor *lower(const wf_args *v)
{
    const wfi_attr_logsumexp *a = &v->a->logsumexp;
    const char *s = v->site;
    wf_dims axes = wfi_axes(a->axes, wfi_shape(v->in[0]).n);
    if (!has_some(wfi_shape(v->in[0]), axes)) /* the logarithm of 0 */
        return wf_log_(wf_sum_(v->in[0], axes, WF_OPTS(wf_sum_opts, .keep = a->keep), s), s);
    wf_tensor *top = wf_detach_(wf_max_(v->in[0], axes, WF_OPTS(wf_max_opts, .keep = true), s), s);
    wf_tensor *finite = wf_where_(wf_isfinite_(top, s), top, wfi_like(top, 0), s);
    wf_tensor *e = wf_exp_(wf_sub_(v->in[0], finite, s), s);
    wf_tensor *y = wf_add_(wf_log_(wf_sum_(e, axes, WF_OPTS(wf_sum_opts, .keep = true), s), s), finite, s);
    return a->keep || !axes.n ? y : wf_squeeze_(y, axes, s);
}

static void grad(const wf_vjp *v) /* g * exp(x - y) */
{
    const wfi_attr_logsumexp *a = &v->a->logsumexp;
    wf_dims axes = wfi_axes(a->axes, wfi_shape(v->in[0]).n);
    wf_tensor *y = a->keep ? v->y : wf_unsqueeze_(v->y, axes, v->site);
    wf_tensor *g = a->keep ? v->g : wf_unsqueeze_(v->g, axes, v->site);
    v->gin[0] = wf_zmul_(g, wf_exp_(wf_sub_(v->in[0], y, v->site), v->site), v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* exp, maximum, sum */
{
    (void)c;
    wfi_op_cost_each(x, 0, 21, cost);
}

const wf_op_def wf_op_logsumexp = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r!@axes] -> y[..a 1@axes&keep]",
    .types = "float",
    .lower = lower,
    .grad = grad,
    .cost = cost,
    .autocast = "full",
    .onnx = "ReduceLogSumExp 18",
    .samples = "f32[4,7] axes=1; f64[2,3,5] axes=0,2 keep=true; f64[3,4]",
};
