/* batch_norm_train(x; weight, bias, eps=1e-5): (x - mean) / sqrt(var + eps) * weight + bias for each channel, with the
 * mean and the variance of this x over all axes but the channels, as in training. -> y, mean, var.
 * x: float[N, C, ...], weight and bias: float[C]; mean and var: f64[C] for f64, else f32[C]. var is the mean of squared
 * differences (times n / (n - 1) it is what running statistics keep). Without elements mean and var are NaN.
 * Blocks of 128 elements of a channel have corrected means and sums of squares of their own, which are joined in f64.
 * Ioffe and Szegedy, arXiv:1502.03167; joining: Chan, Golub, LeVeque 1979. */
#include "ops/batch_norm_parts.h"

static wf_tensor *mean_of(wf_tensor *x, bool keep, const char *s)
{
    return wf_mean_(x, not_channels(wfi_shape(x).n), WF_OPTS(wf_mean_opts, .keep = keep), s);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0], *weight = v->nin > 1 ? v->in[1] : NULL, *bias = v->nin > 2 ? v->in[2] : NULL;
    int32_t ndim = wfi_shape(x).n;
    wf_tensor *d = wide(x, s), *off = mean_of(d, false, s);
    d = wf_sub_(d, by_channel(off, ndim, s), s);
    wf_tensor *rest = mean_of(d, false, s); /* what rounding left in the mean */
    d = wf_sub_(d, by_channel(rest, ndim, s), s);
    v->out[1] = wf_add_(off, rest, s);
    v->out[2] = mean_of(wf_mul_(d, d, s), false, s);
    wf_tensor *scale = rstd_of(v->out[2], v->a->batch_norm_train.eps, s);
    if (weight)
        scale = wf_mul_(scale, wide(weight, s), s);
    wf_tensor *y = wf_mul_(d, by_channel(scale, ndim, s), s);
    if (bias)
        y = wf_add_(y, by_channel(wide(bias, s), ndim, s), s);
    return wfi_dtype(y) == wfi_dtype(x) ? y : wf_cast_(y, wfi_dtype(x), s);
}

/* What the gradients of mean and var add to that of x: gmean / n + gvar * 2 (x - mean) / n. */
static wf_tensor *through_statistics(const wf_vjp *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0], *sum = NULL;
    int32_t ndim = wfi_shape(x).n;
    wf_tensor *n = wfi_like(v->out[1], per_channel(x));
    if (v->gout[1])
        sum = wf_broadcast_to_(by_channel(wf_div_(v->gout[1], n, s), ndim, s), wfi_shape(x), s);
    if (v->gout[2]) {
        wf_tensor *two = wf_div_(wf_mul_(v->gout[2], wfi_like(v->gout[2], 2), s), n, s);
        wf_tensor *d = wf_sub_(wide(x, s), by_channel(v->out[1], ndim, s), s);
        d = wf_mul_(by_channel(two, ndim, s), d, s);
        sum = sum ? wf_add_(sum, d, s) : d;
    }
    return sum && wfi_dtype(sum) != wfi_dtype(x) ? wf_cast_(sum, wfi_dtype(x), s) : sum;
}

static void grad(const wf_vjp *v)
{
    double eps = v->a->batch_norm_train.eps > 0 ? v->a->batch_norm_train.eps : WF_ZERO;
    wf_tensor *weight = v->nin > 1 ? v->in[1] : NULL, *all[3] = { NULL, NULL, NULL };
    if (v->g)
        all[0] = wf_batch_norm_train_grad_(
            v->in[0], v->g, v->out[1], v->out[2],
            WF_OPTS(wf_batch_norm_train_grad_opts, .weight = weight, .eps = eps, .dweight = &all[1], .dbias = &all[2]),
            v->site);
    wf_tensor *more = v->want[0] ? through_statistics(v) : NULL;
    if (more)
        all[0] = all[0] ? wf_add_(all[0], more, v->site) : more;
    for (int32_t i = 0; i < v->nin; i++)
        if (v->want[i])
            v->gin[i] = all[i];
}

const wf_op_def wf_op_batch_norm_train = {
    .call = "x; weight:tensor?, bias:tensor?, eps=1e-5",
    .axes = "x[n! c ..s!] weight[c] bias[c] -> y[n! c ..s!] mean[c] var[c]",
    .outputs = "y, mean, var",
    .types = "float float float -> float wide wide",
    .lower = lower,
    .grad = grad,
    .autocast = "full",
    .onnx = "BatchNormalization 15 training_mode=1",
    .samples = "f32[3,5,4,2] f32[5] f32[5]; f64[4,3,6] f64[3] f64[3] eps=1e-3; f32[6,7]; f64[5,2,3,3] f64[2]; "
               "bf16[2,9,3,5] bf16[9] bf16[9] tol=6e-2",
};
