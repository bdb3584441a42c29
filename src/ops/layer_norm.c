/* layer_norm(x; weight, bias, eps=1e-5): (x - mean) / sqrt(variance + eps) * weight + bias along the last axis.
 * x: float[..., n], weight and bias: float[n]. The variance is the mean of squared differences, in two corrected
 * passes; a row that leaves the range of f32 is done in f64. Ba, Kiros and Hinton, arXiv:1607.06450. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_dims last = WF_DIMS(-1);
    const char *site = v->site;
    wf_tensor *x = v->in[0], *d = wf_sub_(x, wf_mean_(x, last, WF_OPTS(wf_mean_opts, .keep = true), site), site);
    d = wf_sub_(d, wf_mean_(d, last, WF_OPTS(wf_mean_opts, .keep = true), site), site);
    wf_tensor *var = wf_mean_(wf_mul_(d, d, site), last, WF_OPTS(wf_mean_opts, .keep = true), site);
    double eps = v->a->layer_norm.eps;
    wf_tensor *y = wf_mul_(d, wf_rsqrt_(wf_add_(var, wfi_like(var, eps), site), site), site);
    if (v->nin > 1 && v->in[1])
        y = wf_mul_(y, v->in[1], site);
    if (v->nin > 2 && v->in[2])
        y = wf_add_(y, v->in[2], site);
    return y;
}

static void grad(const wf_vjp *v)
{
    wf_tensor *w = v->nin > 1 ? v->in[1] : NULL;
    double eps = v->a->layer_norm.eps > 0 ? v->a->layer_norm.eps : WF_ZERO;
    if (v->want[0])
        v->gin[0] =
            wf_layer_norm_grad_(v->in[0], v->g, WF_OPTS(wf_layer_norm_grad_opts, .weight = w, .eps = eps), v->site);
    bool gamma = v->nin > 1 && v->want[1], beta = v->nin > 2 && v->want[2];
    if (gamma || beta) {
        wf_tensor *dbeta = NULL;
        wf_tensor *dgamma = wf_layer_norm_param_grad_(
            v->in[0], v->g, WF_OPTS(wf_layer_norm_param_grad_opts, .eps = eps, .dbeta = &dbeta), v->site);
        if (gamma)
            v->gin[1] = dgamma;
        if (beta)
            v->gin[2] = dbeta;
    }
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* two sums over a row, two products */
{
    (void)c;
    wfi_op_cost_each(x, 0, 8, cost);
}

const wf_op_def wf_op_layer_norm = {
    .call = "x; weight:tensor?, bias:tensor?, eps=1e-5",
    .axes = "x[.. n!] weight[n!] bias[n!] -> y[.. n!]",
    .types = "float",
    .lower = lower,
    .grad = grad,
    .cost = cost,
    .autocast = "full",
    .onnx = "LayerNormalization 17",
    .samples = "f32[4,7]; f32[3,65] f32[65] f32[65]; f64[2,3,5] f64[5] f64[5] eps=1e-3; f64[3,9] f64[9]; "
               "bf16[4,33] bf16[33] bf16[33] tol=4e-2",
};
