/* attention_parts.h - what the lowerings of attention and attention_grad share. */
#ifndef WFI_OPS_ATTENTION_PARTS_H
#define WFI_OPS_ATTENTION_PARTS_H
#include <math.h>
#include "ops/op.h"

/* The operands in the type of computation: 16-bit types are widened first and rounded once at the end. */
typedef struct attn {
    wf_tensor *q, *k, *v, *mask;
    double scale;
    bool causal;
    const char *site;
} attn;

static inline wf_tensor *attn_wide(wf_tensor *t, const char *site)
{
    return t && wfi_dtype(t) != WF_F64 && wfi_dtype(t) != WF_F32 ? wf_cast_(t, WF_F32, site) : t;
}
static inline double attn_scale(double scale, wf_tensor *q)
{
    wf_dims d = wfi_shape(q);
    double e = d.n ? (double)d.d[d.n - 1] : 1;
    return scale != 0 ? scale : 1 / sqrt(e > 0 ? e : 1);
}

/* i - s >= j - t; bool[s, t] */
static inline wf_tensor *attn_past(wf_tensor *q, wf_tensor *k, const char *site)
{
    wf_dims dq = wfi_shape(q), dk = wfi_shape(k);
    int64_t s = dq.d[dq.n - 2], t = dk.d[dk.n - 2];
    wf_tensor *i = wf_unsqueeze_(wf_arange_(wf_tensor_ctx(q), WF_I64, s, site), WF_DIMS(1), site);
    wf_tensor *j = wf_arange_(wf_tensor_ctx(q), WF_I64, t, site);
    return wf_le_(j, wf_add_(i, wfi_like(i, (double)(t - s)), site), site);
}

static inline wf_tensor *attn_scores(const attn *a)
{
    const char *s = a->site;
    wf_tensor *x = wf_matmul_(a->q, wf_transpose_(a->k, s), s);
    x = wf_mul_(x, wfi_like(x, a->scale), s);
    if (a->mask && wfi_dtype(a->mask) == WF_BOOL)
        x = wf_where_(a->mask, x, wfi_like(x, -HUGE_VAL), s);
    else if (a->mask)
        x = wf_add_(x, wf_cast_(a->mask, wfi_dtype(x), s), s);
    return a->causal ? wf_where_(attn_past(a->q, a->k, s), x, wfi_like(x, -HUGE_VAL), s) : x;
}

/* exp(score - lse), 0 in rows where every score is -inf; *lse: float[.., s, 1]. */
static inline wf_tensor *attn_weights(const attn *a, wf_tensor **lse)
{
    const char *s = a->site;
    wf_dims last = WF_DIMS(-1);
    wf_tensor *x = attn_scores(a);
    if (wfi_shape(x).n && !wfi_shape(x).d[wfi_shape(x).n - 1]) { /* no key: no maximum */
        *lse = wf_log_(wf_sum_(x, last, WF_OPTS(wf_sum_opts, .keep = true), s), s);
        return x;
    }
    wf_tensor *top = wf_detach_(wf_max_(x, last, WF_OPTS(wf_max_opts, .keep = true), s), s);
    top = wf_where_(wf_eq_(top, wfi_like(top, -HUGE_VAL), s), wfi_like(top, 0), top, s);
    wf_tensor *e = wf_exp_(wf_sub_(x, top, s), s), *sum = wf_sum_(e, last, WF_OPTS(wf_sum_opts, .keep = true), s);
    *lse = wf_add_(top, wf_log_(sum, s), s);
    return wf_div_(e, wf_where_(wf_eq_(sum, wfi_like(sum, 0), s), wfi_like(sum, 1), sum, s), s);
}

/* The gradient of the scores (before the mask): p * (dp - sum(p * dp) + dlse); dy or dlse may be NULL. */
static inline wf_tensor *attn_scores_grad(const attn *a, wf_tensor *dy, wf_tensor *dlse, wf_tensor **weights)
{
    const char *s = a->site;
    wf_tensor *lse, *p = *weights = attn_weights(a, &lse), *ds = NULL;
    if (dy) {
        wf_tensor *dp = wf_matmul_(dy, wf_transpose_(a->v, s), s);
        wf_tensor *sum = wf_sum_(wf_mul_(p, dp, s), WF_DIMS(-1), WF_OPTS(wf_sum_opts, .keep = true), s);
        ds = wf_mul_(p, wf_sub_(dp, sum, s), s);
    }
    if (dlse) {
        wf_tensor *part = wf_cast_(wf_unsqueeze_(dlse, WF_DIMS(-1), s), wfi_dtype(p), s);
        part = wf_mul_(p, part, s);
        ds = ds ? wf_add_(ds, part, s) : part;
    }
    return ds;
}

/* dq, dk from the gradient of the scores. */
static inline wf_tensor *attn_dq(const attn *a, wf_tensor *ds)
{
    wf_tensor *r = wf_matmul_(ds, a->k, a->site);
    return wf_mul_(r, wfi_like(r, a->scale), a->site);
}
static inline wf_tensor *attn_dk(const attn *a, wf_tensor *ds)
{
    wf_tensor *r = wf_matmul_(wf_transpose_(ds, a->site), a->q, a->site);
    return wf_mul_(r, wfi_like(r, a->scale), a->site);
}

/* Each pair of a query and a key that it sees: `products` products of vectors, and its exponential. Operands 0 and 1
 * are q[.., s, e] and k[.., t, e], operand 2 is v[.., t, d]. */
static inline void attn_cost(const wf_op_case *c, const wfi_axis_inst *x, bool causal, double products, wfi_cost *cost)
{
    const wfi_axis_shape *q = &c->in[0], *k = &c->in[1], *v = &c->in[2];
    double e = (double)q->dim[q->ndim - 1], d = (double)v->dim[v->ndim - 1];
    double s = (double)q->dim[q->ndim - 2], t = (double)k->dim[k->ndim - 2];
    double keys = causal && t >= s ? t - s + (s + 1) / 2 : t;
    double queries = e > 0 ? (double)wfi_axis_elements(x, 0, NULL) / e : 0;
    cost->flops = queries * keys * (products * (e + d) + 18);
}

#endif
