/* batch_norm_parts.h - what the lowerings of batch norm share. Channels are axis 1; statistics are `wide`: f64 for f64,
 * else f32. */
#ifndef WFI_OPS_BATCH_NORM_PARTS_H
#define WFI_OPS_BATCH_NORM_PARTS_H
#include "ops/op.h"

/* t in the type of statistics. */
static inline wf_tensor *wide(wf_tensor *t, const char *s)
{
    wf_dtype type = wfi_dtype(t);
    return type == WF_F32 || type == WF_F64 ? t : wf_cast_(t, WF_F32, s);
}

/* t[c] as [c, 1, ...], so that it broadcasts to x[n, c, ...] of ndim axes. */
static inline wf_tensor *by_channel(wf_tensor *t, int32_t ndim, const char *s)
{
    wf_dims d = { ndim - 1, { t ? wfi_shape(t).d[0] : 0 } };
    for (int32_t i = 1; i < d.n; i++)
        d.d[i] = 1;
    return t && ndim > 2 ? wf_reshape_(t, d, s) : t;
}

/* All axes but that of the channels. */
static inline wf_dims not_channels(int32_t ndim)
{
    wf_dims d = { 0, { 0 } };
    for (int32_t i = 0; i < ndim; i++)
        if (i != 1)
            d.d[d.n++] = i;
    return d;
}

/* How many elements a channel has. */
static inline double per_channel(wf_tensor *x)
{
    wf_dims d = wfi_shape(x);
    double n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= i == 1 ? 1 : (double)d.d[i];
    return n;
}

/* 1 / sqrt(var + eps) */
static inline wf_tensor *rstd_of(wf_tensor *var, double eps, const char *s)
{
    return wf_rsqrt_(wf_add_(var, wfi_like(var, eps), s), s);
}

#endif
