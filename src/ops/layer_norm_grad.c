/* layer_norm_grad(x, dy; weight, eps): the gradient of layer_norm by x, with h = (x - mean) * rstd and g = dy * weight:
 * rstd * (g - mean(g) - h * mean(g * h)). */
#include "ops/op.h"

static wf_tensor *mean(wf_tensor *x, const char *site)
{
    return wf_mean_(x, WF_DIMS(-1), WF_OPTS(wf_mean_opts, .keep = true), site);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0], *g = v->in[1], *d = wf_sub_(x, mean(x, s), s);
    if (v->nin > 2 && v->in[2])
        g = wf_mul_(g, v->in[2], s);
    d = wf_sub_(d, mean(d, s), s);
    wf_tensor *var = mean(wf_mul_(d, d, s), s);
    wf_tensor *r = wf_rsqrt_(wf_add_(var, wfi_like(var, v->a->layer_norm_grad.eps), s), s), *h = wf_mul_(d, r, s);
    wf_tensor *inner = wf_sub_(wf_sub_(g, mean(g, s), s), wf_mul_(h, mean(wf_mul_(g, h, s), s), s), s);
    return wf_mul_(r, inner, s);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* four sums over a row */
{
    (void)c;
    wfi_op_cost_each(x, 0, 14, cost);
}

const wf_op_def wf_op_layer_norm_grad = {
    .call = "x, dy; weight:tensor?, eps=1e-5",
    .axes = "x[.. n!] dy[.. n!] weight[n!] -> dx[.. n!]",
    .types = "float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .cost = cost,
    .onnx = "",
    .samples = "f32[4,7] f32[4,7]; f64[2,3,5] f64[2,3,5] f64[5] eps=1e-3",
};
