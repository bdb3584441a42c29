/* attn_run.c - what is decided about an attention before it runs, and how it is shared out. */
#include "kernel/attention/attention.h"
#include <string.h>
#include "base/ck.h"
#include "kernel/attention/attn_part.h"

/* ---- prepare ---- */

static int64_t bytes_of(wf_dtype t)
{
    return t == WF_F64 ? 8 : t == WF_F32 ? 4 : t == WF_BOOL ? 1 : 2;
}
static bool is_float(wf_dtype t)
{
    return t == WF_F64 || t == WF_F32 || t == WF_BF16 || t == WF_F16;
}

/* Dimensions behind the batch: rows n, columns m (m < 0: none). */
static bool shaped(const wfi_view *v, const wfi_view *q, int64_t n, int64_t m)
{
    int b = q->ndim - 2;
    if (v->ndim != b + (m < 0 ? 1 : 2) || v->dim[b] != n || (m >= 0 && v->dim[b + 1] != m))
        return false;
    for (int i = 0; i < b; i++)
        if (v->dim[i] != q->dim[i])
            return false;
    return true;
}

/* Is slot i used? The mask is optional. */
static bool has_slot(int i, bool grad)
{
    return i <= WFI_ATTN_V || i == WFI_ATTN_MASK || (grad ? i > WFI_ATTN_MASK : i < WFI_ATTN_MASK);
}

static const char *check(const wfi_attention_spec *s, bool grad)
{
    const wfi_view *const *v = s->v, *q = v[WFI_ATTN_Q];
    for (int i = 0; i < WFI_ATTN_SLOTS; i++) {
        bool f32 = i == WFI_ATTN_LSE || i == WFI_ATTN_STATS;
        if (!has_slot(i, grad) || i == WFI_ATTN_MASK)
            continue;
        if (!v[i])
            return "an operand is missing";
        if (f32 ? v[i]->dtype != WF_F32 : !is_float(v[i]->dtype) || (v[i]->dtype == WF_F64) != (q->dtype == WF_F64))
            return "only floats have attention, f64 is not mixed with narrower types, and lse is f32";
    }
    if (q->ndim < 2 || q->ndim - 2 > WFI_ATTENTION_BATCH)
        return "too many or too few dimensions";
    int64_t n = q->dim[q->ndim - 2], e = q->dim[q->ndim - 1];
    int64_t t = v[WFI_ATTN_K]->dim[q->ndim - 2], d = v[WFI_ATTN_V]->dim[q->ndim - 1];
    bool fits = shaped(v[WFI_ATTN_K], q, t, e) && shaped(v[WFI_ATTN_V], q, t, d);
    if (grad)
        fits = fits && shaped(v[WFI_ATTN_DY], q, n, d) && shaped(v[WFI_ATTN_STATS], q, n, 2) &&
               shaped(v[WFI_ATTN_DQ], q, n, e) && shaped(v[WFI_ATTN_DK], q, t, e) && shaped(v[WFI_ATTN_DV], q, t, d);
    else
        fits = fits && shaped(v[WFI_ATTN_Y], q, n, d) && shaped(v[WFI_ATTN_LSE], q, n, -1);
    const wfi_view *mask = v[WFI_ATTN_MASK];
    if (mask && mask->dtype != WF_BOOL && (!is_float(mask->dtype) || (mask->dtype == WF_F64 && q->dtype != WF_F64)))
        return "a mask is bool or float";
    return fits && (!mask || shaped(mask, q, n, t)) ? NULL : "sizes do not fit";
}

static void strides(params *p, const wfi_attention_spec *s, bool grad)
{
    for (int i = 0; i < WFI_ATTN_SLOTS; i++) {
        const wfi_view *v = s->v[i];
        if (!v || !has_slot(i, grad))
            continue;
        operand *o = &p->o[i];
        p->type[i] = (uint8_t)v->dtype;
        for (int b = 0; b < p->nbatch; b++)
            o->step[b] = v->stride[b];
        o->row = v->stride[p->nbatch];
        o->col = i == WFI_ATTN_LSE ? 0 : v->stride[p->nbatch + 1];
    }
}

static const char *prepare_any(const wfi_attention_spec *s, bool grad, void *out, size_t *scratch)
{
    const char *why = check(s, grad);
    if (why)
        return why;
    const wfi_view *q = s->v[WFI_ATTN_Q];
    params p;
    memset(&p, 0, sizeof p);
    p.nbatch = q->ndim - 2;
    p.batches = 1;
    for (int b = 0; b < p.nbatch; b++)
        p.batches *= p.batch[b] = q->dim[b];
    p.s = q->dim[p.nbatch], p.e = q->dim[p.nbatch + 1];
    p.t = s->v[WFI_ATTN_K]->dim[p.nbatch], p.d = s->v[WFI_ATTN_V]->dim[p.nbatch + 1];
    p.wide = p.e > p.d ? p.e : p.d;
    p.scale = s->scale != 0 ? s->scale : 1 / __builtin_sqrt(p.e ? (double)p.e : 1.);
    p.causal = s->causal, p.mask = s->v[WFI_ATTN_MASK];
    p.threads = s->threads > 0 ? s->threads : 1;
    strides(&p, s, grad);
    if ((why = WFI_K(wfi_attn_declines)(&p, grad)))
        return why;
    bool fast = p.type[WFI_ATTN_Q] != WF_F64;
    p.qb = fast ? WFI_K(wfi_attn_block)(p.s, grad) : p.s;
    p.blocks = p.s && p.qb ? (p.s + p.qb - 1) / p.qb : 0;
    p.each = fast ? WFI_K(wfi_attn_desk)(&p, grad) : (size_t)plain_desk(&p) * 8;
    p.each = (p.each + 127) & ~(size_t)63;
    if (!wfi_ck_mul(p.each, (size_t)p.threads, scratch))
        return "too large";
    memcpy(out, &p, sizeof p);
    return NULL;
}
static const char *prepare(const wfi_attention_spec *s, void *out, size_t *scratch)
{
    return prepare_any(s, false, out, scratch);
}
static const char *prepare_grad(const wfi_attention_spec *s, void *out, size_t *scratch)
{
    return prepare_any(s, true, out, scratch);
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    char *base[WFI_ATTN_SLOTS];
    char *scratch;
} job;

static head head_at(const job *j, int64_t number)
{
    head h;
    memcpy(h.at, j->base, sizeof h.at);
    for (int b = j->p->nbatch; b-- > 0;) {
        int64_t i = number % j->p->batch[b];
        number /= j->p->batch[b];
        for (int k = 0; k < WFI_ATTN_SLOTS; k++)
            if (h.at[k])
                h.at[k] += i * j->p->o[k].step[b] * bytes_of(j->p->type[k]);
    }
    return h;
}

static void forward_chunk(void *arg, int64_t chunk, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    char *desk = j->scratch + p->each * (size_t)worker;
    head h = head_at(j, chunk / p->blocks);
    int64_t q0 = chunk % p->blocks * p->qb;
    if (p->type[WFI_ATTN_Q] != WF_F64) {
        WFI_K(wfi_attn_forward)(p, &h, q0, desk);
        return;
    }
    for (int64_t i = q0; i < p->s; i++)
        WFI_ATTN_PLAIN(wfi_attn_plain_row)(p, &h, i, (double *)(void *)desk);
}
static void grad_chunk(void *arg, int64_t chunk, int worker)
{
    const job *j = arg;
    char *desk = j->scratch + j->p->each * (size_t)worker;
    head h = head_at(j, chunk);
    if (j->p->type[WFI_ATTN_Q] != WF_F64)
        WFI_K(wfi_attn_grad)(j->p, &h, desk);
    else
        WFI_ATTN_PLAIN(wfi_attn_plain_grad)(j->p, &h, (double *)(void *)desk);
}

static wfi_pool *pool_for(const wfi_run *run, int threads)
{
    return wfi_pool_threads(run->pool) <= threads ? run->pool : NULL;
}

static void run_forward(const void *params_, void *const *args, const wfi_run *run)
{
    job j = { .p = params_, .scratch = run->scratch };
    static const uint8_t slot[] = { WFI_ATTN_Y, WFI_ATTN_LSE, WFI_ATTN_Q, WFI_ATTN_K, WFI_ATTN_V, WFI_ATTN_MASK };
    for (int i = 0; i < 5 + j.p->mask; i++)
        j.base[slot[i]] = args[i];
    wfi_pool_run(pool_for(run, j.p->threads), j.p->batches * j.p->blocks, forward_chunk, &j);
}
static void run_grad(const void *params_, void *const *args, const wfi_run *run)
{
    job j = { .p = params_, .scratch = run->scratch };
    static const uint8_t slot[] = { WFI_ATTN_DQ, WFI_ATTN_DK,    WFI_ATTN_DV, WFI_ATTN_Q,   WFI_ATTN_K,
                                    WFI_ATTN_V,  WFI_ATTN_STATS, WFI_ATTN_DY, WFI_ATTN_MASK };
    for (int i = 0; i < 8 + j.p->mask; i++)
        j.base[slot[i]] = args[i];
    wfi_pool_run(pool_for(run, j.p->threads), j.p->batches, grad_chunk, &j);
}

const wfi_attention_kernels WFI_K(wfi_attention) = {
    .order = WFI_ATTN_ORDER,
    .prepare = prepare,
    .run = run_forward,
    .prepare_grad = prepare_grad,
    .run_grad = run_grad,
};
