/* layer_norm_param_grad(x, dy; eps): the gradients of layer_norm by weight and bias: sums over all rows of
 * dy * (x - mean) * rstd, and of dy. -> dgamma[n], dbeta[n]. */
#include "ops/op.h"

static wf_tensor *mean(wf_tensor *x, const char *site)
{
    return wf_mean_(x, WF_DIMS(-1), WF_OPTS(wf_mean_opts, .keep = true), site);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0], *dy = v->in[1], *d = wf_sub_(x, mean(x, s), s);
    wf_dims rows = { 0, { 0 } }, shape = wfi_shape(x);
    for (int32_t i = 0; i + 1 < shape.n; i++)
        rows.d[rows.n++] = i;
    d = wf_sub_(d, mean(d, s), s);
    wf_tensor *var = mean(wf_mul_(d, d, s), s);
    wf_tensor *r = wf_rsqrt_(wf_add_(var, wfi_like(var, v->a->layer_norm_param_grad.eps), s), s), *h = wf_mul_(d, r, s);
    wf_tensor *dgamma = wf_mul_(dy, h, s);
    v->out[1] = rows.n ? wf_sum_(dy, rows, WF_OPTS(wf_sum_opts, .keep = false), s) : wf_contiguous_(dy, s);
    return rows.n ? wf_sum_(dgamma, rows, WF_OPTS(wf_sum_opts, .keep = false), s) : dgamma;
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    (void)c;
    wfi_op_cost_each(x, 0, 10, cost);
}

const wf_op_def wf_op_layer_norm_param_grad = {
    .call = "x, dy; eps=1e-5",
    .axes = "x[.. n!] dy[.. n!] -> dgamma[n!] dbeta[n!]",
    .outputs = "dgamma, dbeta",
    .types = "float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .cost = cost,
    .onnx = "",
    .samples = "f32[4,7] f32[4,7]; f64[2,3,5] f64[2,3,5] eps=1e-3",
};
