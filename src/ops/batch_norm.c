/* batch_norm(x, mean, var; weight, bias, eps=1e-5): (x - mean) / sqrt(var + eps) * weight + bias for each channel, with
 * statistics that are given, as in inference.
 * x: float[N, C, ...], weight and bias: float[C], mean and var: f64[C] for f64, else f32[C]. Computed as x * scale +
 * shift in the type of the statistics and rounded once, so that it can become a part of what stands around it.
 * batch_norm_train makes the statistics from x. Ioffe and Szegedy, arXiv:1502.03167. */
#include "ops/batch_norm_parts.h"

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0], *weight = v->nin > 3 ? v->in[3] : NULL, *bias = v->nin > 4 ? v->in[4] : NULL;
    int32_t ndim = wfi_shape(x).n;
    wf_tensor *scale = rstd_of(v->in[2], v->a->batch_norm.eps, s);
    if (weight)
        scale = wf_mul_(scale, wide(weight, s), s);
    wf_tensor *shift = wf_mul_(v->in[1], scale, s);
    shift = bias ? wf_sub_(wide(bias, s), shift, s) : wf_neg_(shift, s);
    wf_tensor *y = wf_mul_(wide(x, s), by_channel(scale, ndim, s), s);
    y = wf_add_(y, by_channel(shift, ndim, s), s);
    return wfi_dtype(y) == wfi_dtype(x) ? y : wf_cast_(y, wfi_dtype(x), s);
}

const wf_op_def wf_op_batch_norm = {
    .call = "x, mean, var; weight:tensor?, bias:tensor?, eps=1e-5",
    .axes = "x[n c ..s] mean[c] var[c] weight[c] bias[c] -> y[n c ..s]",
    .types = "float wide wide float float -> float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .autocast = "full",
    .onnx = "BatchNormalization 15",
    .samples = "f32[3,5,4,2] f32[5] f32[5]=1..2; f64[4,3,6] f64[3] f64[3]=1..2 f64[3] f64[3] eps=1e-3; "
               "f32[6,7] f32[7] f32[7]=1..2 f32[7]; bf16[2,9,3,5] f32[9] f32[9]=1..2 bf16[9] bf16[9] tol=4e-2",
};
