/* Fused attention and its gradient. */
#include "device/cpu/cpu.h"
#include "kernel/attention/attention.h"

/* v with the batch dimensions of `like`, which has the same last ones (own: how many, of v). */
static wfi_view batched(const wfi_view *v, const wfi_view *like, int32_t own)
{
    wfi_view r = *like;
    int32_t batch = like->ndim - 2, extra = batch - (v->ndim - own);
    r.dtype = v->dtype;
    r.ndim = batch + own;
    for (int32_t i = 0; i < r.ndim; i++) {
        int32_t from = i - extra;
        if (i >= batch)
            r.dim[i] = v->dim[from];
        r.stride[i] = from < 0 || (i < batch && v->dim[from] == 1) ? 0 : v->stride[from];
    }
    return r;
}

/* Dense strides for `out`, its axes in the order in which they lie in `like`: heads that come out of rows go back into
 * rows, so that the permutation behind the attention stays a view. The last axis remains the innermost. */
static void follow(const wfi_view *like, wfi_view *out)
{
    int32_t order[WF_RANK_MAX], n = out->ndim - 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t k = i;
        for (; k > 0 && like->stride[order[k - 1]] < like->stride[i]; k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    int64_t step = out->dim[n];
    out->stride[n] = 1;
    for (int32_t i = n; i-- > 0;) {
        out->stride[order[i]] = step;
        step *= out->dim[order[i]] > 0 ? out->dim[order[i]] : 1;
    }
}

/* Does it have the shape of `like` without broadcasting? Then its layout is worth following. */
static bool alike(const wfi_view *v, const wfi_view *like)
{
    for (int32_t i = 0; v->ndim == like->ndim && i < v->ndim - 2; i++)
        if (v->dim[i] != like->dim[i] || (v->dim[i] > 1 && v->stride[i] <= 0))
            return false;
    return v->ndim == like->ndim && v->stride[v->ndim - 2] > 0;
}

static const char *forward(const wfi_attention_kernels *kernels, wfi_bind *b)
{
    const wfi_attr_attention *a = &b->attr->attention;
    bool masked = b->nin > 3 && b->in[3].dtype != WF_DTYPE_NONE;
    wfi_view *y = &b->out[0];
    if (alike(&b->in[0], y))
        follow(&b->in[0], y);
    wfi_view q = batched(&b->in[0], y, 2), k = batched(&b->in[1], y, 2), v = batched(&b->in[2], y, 2), mask;
    if (masked)
        mask = batched(&b->in[3], y, 2);
    wfi_attention_spec s = { .v = { [WFI_ATTN_Q] = &q,
                                    [WFI_ATTN_K] = &k,
                                    [WFI_ATTN_V] = &v,
                                    [WFI_ATTN_Y] = y,
                                    [WFI_ATTN_LSE] = &b->out[1],
                                    [WFI_ATTN_MASK] = masked ? &mask : NULL },
                             .scale = a->scale,
                             .causal = a->causal,
                             .threads = b->threads };
    b->fn = kernels->run;
    b->params_bytes = WFI_PARAMS_MAX;
    return kernels->prepare(&s, b->params, &b->scratch);
}

static const char *gradient(const wfi_attention_kernels *kernels, wfi_bind *b)
{
    const wfi_attr_attention_grad *a = &b->attr->attention_grad;
    wfi_view in[5];
    for (int32_t i = 0; i < 5; i++)
        in[i] = batched(&b->in[i], &b->out[0], 2);
    for (int32_t i = 0; i < 3; i++)
        if (alike(&b->in[i], &b->out[i]))
            follow(&b->in[i], &b->out[i]);
    wfi_attention_spec s = { .v = { [WFI_ATTN_Q] = &in[0],
                                    [WFI_ATTN_K] = &in[1],
                                    [WFI_ATTN_V] = &in[2],
                                    [WFI_ATTN_STATS] = &in[3],
                                    [WFI_ATTN_DY] = &in[4],
                                    [WFI_ATTN_DQ] = &b->out[0],
                                    [WFI_ATTN_DK] = &b->out[1],
                                    [WFI_ATTN_DV] = &b->out[2] },
                             .scale = a->scale,
                             .causal = a->causal,
                             .threads = b->threads };
    b->fn = kernels->run_grad;
    b->params_bytes = WFI_PARAMS_MAX;
    return kernels->prepare_grad(&s, b->params, &b->scratch);
}

static const char no_unit[] = "no tile unit";

static const char *attention(const wfi_cpu *d, wfi_bind *b)
{
    return forward(d->attention, b);
}
static const char *attention_amx(const wfi_cpu *d, wfi_bind *b)
{
    return d->attention_amx ? forward(d->attention_amx, b) : no_unit;
}
static const char *attention_grad(const wfi_cpu *d, wfi_bind *b)
{
    return gradient(d->attention, b);
}
static const char *attention_grad_amx(const wfi_cpu *d, wfi_bind *b)
{
    return d->attention_amx ? gradient(d->attention_amx, b) : no_unit;
}

#define ORDER     "attention"
#define ORDER_AMX "attention amx pairs"
static const wfi_impl impls[] = {
    { WFI_OP_attention, "cpu.attention.amx", ORDER_AMX, attention_amx },
    { WFI_OP_attention, "cpu.attention", ORDER, attention },
    { WFI_OP_attention_grad, "cpu.attention_grad.amx", ORDER_AMX, attention_grad_amx },
    { WFI_OP_attention_grad, "cpu.attention_grad", ORDER, attention_grad },
};
const wfi_impl_list wfi_impls_attention = { impls, sizeof impls / sizeof *impls };
