/* batch_norm_train_grad(x, dy, mean, var; weight, eps): the gradients of batch_norm_train by x, weight and bias from
 * that of y, with h = (x - mean) / sqrt(var + eps) and means over all axes but the channels: dx = weight / sqrt(var +
 * eps) * (dy - mean(dy) - h * mean(dy * h)), dweight = sum(dy * h), dbias = sum(dy). */
#include "ops/batch_norm_parts.h"

static wf_tensor *sum_of(wf_tensor *x, const char *s)
{
    return wf_sum_(x, not_channels(wfi_shape(x).n), WF_OPTS(wf_sum_opts, .keep = false), s);
}

static wf_tensor *narrow(wf_tensor *t, wf_dtype type, const char *s)
{
    return wfi_dtype(t) == type ? t : wf_cast_(t, type, s);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0], *dy = wide(v->in[1], s), *weight = v->nin > 4 ? v->in[4] : NULL;
    wf_dtype type = wfi_dtype(x);
    int32_t ndim = wfi_shape(x).n;
    wf_tensor *rstd = rstd_of(v->in[3], v->a->batch_norm_train_grad.eps, s), *scale = rstd;
    wf_tensor *d = wf_sub_(wide(x, s), by_channel(v->in[2], ndim, s), s);
    wf_tensor *dbias = sum_of(dy, s), *dweight = wf_mul_(sum_of(wf_mul_(dy, d, s), s), rstd, s);
    wf_tensor *n = wfi_like(dbias, per_channel(x));
    if (weight)
        scale = wf_mul_(scale, wide(weight, s), s);
    wf_tensor *slope = by_channel(wf_div_(wf_mul_(dweight, rstd, s), n, s), ndim, s);
    wf_tensor *inner = wf_sub_(dy, by_channel(wf_div_(dbias, n, s), ndim, s), s);
    inner = wf_sub_(inner, wf_mul_(d, slope, s), s);
    v->out[1] = narrow(dweight, type, s);
    v->out[2] = narrow(dbias, type, s);
    return narrow(wf_mul_(inner, by_channel(scale, ndim, s), s), type, s);
}

const wf_op_def wf_op_batch_norm_train_grad = {
    .call = "x, dy, mean, var; weight:tensor?, eps=1e-5",
    .axes = "x[n! c ..s!] dy[n! c ..s!] mean[c] var[c] weight[c] -> dx[n! c ..s!] dweight[c] dbias[c]",
    .outputs = "dx, dweight, dbias",
    .types = "float float wide wide float -> float float float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .onnx = "",
    .samples =
        "f32[3,5,4,2] f32[3,5,4,2] f32[5] f32[5]=1..2 f32[5]; f64[4,3,6] f64[4,3,6] f64[3] f64[3]=1..2 eps=1e-3; "
        "f32[6,7] f32[6,7] f32[7] f32[7]=1..2; f64[2,2,3,3] f64[2,2,3,3] f64[2] f64[2]=1..2 f64[2]",
};
