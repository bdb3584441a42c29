/* attn_plain.c - attention one query at a time in f64: the path of f64, and of rows whose scores leave the range of the
 * fast path. */
#include "base/dtype.h"
#include "kernel/attention/attn_part.h"
#include "kernel/vmath.h"

static double get(wf_dtype t, const char *p, int64_t i)
{
    switch (t) {
    case WF_F64: return ((const double *)(const void *)p)[i];
    case WF_F32: return (double)((const float *)(const void *)p)[i];
    case WF_BF16: return (double)wfi_bf16_to_f32(((const uint16_t *)(const void *)p)[i]);
    case WF_F16: return (double)wfi_f16_to_f32(((const uint16_t *)(const void *)p)[i]);
    case WF_BOOL: return p[i] ? 0. : -WFI_INF_F64;
    default: return 0;
    }
}
static void put(wf_dtype t, char *p, int64_t i, double x)
{
    switch (t) {
    case WF_F64: ((double *)(void *)p)[i] = x; break;
    case WF_F32: ((float *)(void *)p)[i] = (float)x; break;
    case WF_BF16: ((uint16_t *)(void *)p)[i] = wfi_f64_to_bf16(x); break;
    case WF_F16: ((uint16_t *)(void *)p)[i] = wfi_f64_to_f16(x); break;
    default: break;
    }
}

/* Row `row` of an operand as doubles: where it lies, or in buf. */
static const double *line(const params *p, const head *h, int slot, int64_t row, int64_t n, double *buf)
{
    const operand *o = &p->o[slot];
    if (p->type[slot] == WF_F64 && o->col == 1)
        return (const double *)(const void *)h->at[slot] + row * o->row;
    for (int64_t c = 0; c < n; c++)
        buf[c] = get(p->type[slot], h->at[slot], row * o->row + c * o->col);
    return buf;
}

static double dot(const double *a, const double *b, int64_t n)
{
    double x = 0;
    for (int64_t c = 0; c < n; c++)
        x = WFI_FMA(a[c], b[c], x);
    return x;
}

/* Weights of query i: w[j] = exp(score - lse), w: f64[t]. Returns the number of keys that can be seen; *sum is 0 if
 * there is nothing to see. */
static int64_t weights(const params *p, const head *h, int64_t i, double *w, double *desk, double *lse)
{
    const operand *mask = &p->o[WFI_ATTN_MASK];
    int64_t n = keys_seen(p, i);
    const double *q = line(p, h, WFI_ATTN_Q, i, p->e, desk);
    double m = -WFI_INF_F64, l = 0;
    for (int64_t j = 0; j < n; j++) {
        w[j] = dot(q, line(p, h, WFI_ATTN_K, j, p->e, desk + p->wide), p->e) * p->scale;
        if (h->at[WFI_ATTN_MASK])
            w[j] += get(p->type[WFI_ATTN_MASK], h->at[WFI_ATTN_MASK], i * mask->row + j * mask->col);
        m = w[j] > m || w[j] != w[j] ? w[j] : m;
    }
    *lse = m;
    if (m == -WFI_INF_F64)
        return 0;
    for (int64_t j = 0; j < n; j++)
        l += w[j] = wfi_exp_f64(w[j] - m);
    for (int64_t j = 0; j < n; j++)
        w[j] /= l;
    *lse = m + wfi_log_f64(l);
    return n;
}

void WFI_K(wfi_attn_plain_row)(const params *p, const head *h, int64_t i, double *desk)
{
    double *w = desk + 4 * p->wide, *sum = desk + 2 * p->wide, lse;
    int64_t n = weights(p, h, i, w, desk, &lse);
    for (int64_t c = 0; c < p->d; c++)
        sum[c] = 0;
    for (int64_t j = 0; j < n; j++) {
        const double *v = line(p, h, WFI_ATTN_V, j, p->d, desk + p->wide);
        for (int64_t c = 0; c < p->d; c++)
            sum[c] = WFI_FMA(w[j], v[c], sum[c]);
    }
    const operand *y = &p->o[WFI_ATTN_Y];
    for (int64_t c = 0; c < p->d; c++)
        put(p->type[WFI_ATTN_Y], h->at[WFI_ATTN_Y], i * y->row + c * y->col, sum[c]);
    put(WF_F32, h->at[WFI_ATTN_LSE], i * p->o[WFI_ATTN_LSE].row, lse);
}

static void clear_rows(const params *p, const head *h, int slot, int64_t rows, int64_t n)
{
    const operand *o = &p->o[slot];
    for (int64_t j = 0; j < rows; j++)
        for (int64_t c = 0; c < n; c++)
            put(p->type[slot], h->at[slot], j * o->row + c * o->col, 0);
}
static void add_row(const params *p, const head *h, int slot, int64_t row, int64_t n, double a, const double *x)
{
    const operand *o = &p->o[slot];
    for (int64_t c = 0; c < n; c++) {
        int64_t at = row * o->row + c * o->col;
        put(p->type[slot], h->at[slot], at, WFI_FMA(a, x[c], get(p->type[slot], h->at[slot], at)));
    }
}

/* One query's part of all three gradients. */
static void grad_row(const params *p, const head *h, int64_t i, double *desk)
{
    double *w = desk + 4 * p->wide, *ds = w + p->t, *key = desk + p->wide, *sum = desk + 3 * p->wide, lse, delta = 0;
    int64_t n = weights(p, h, i, w, desk, &lse);
    const double *q = line(p, h, WFI_ATTN_Q, i, p->e, desk);
    const double *dy = line(p, h, WFI_ATTN_DY, i, p->d, desk + 2 * p->wide);
    for (int64_t j = 0; j < n; j++) {
        ds[j] = dot(dy, line(p, h, WFI_ATTN_V, j, p->d, key), p->d);
        delta = WFI_FMA(w[j], ds[j], delta);
    }
    for (int64_t c = 0; c < p->e; c++)
        sum[c] = 0;
    for (int64_t j = 0; j < n; j++) {
        double g = w[j] * (ds[j] - delta) * p->scale;
        const double *k = line(p, h, WFI_ATTN_K, j, p->e, key);
        for (int64_t c = 0; c < p->e; c++)
            sum[c] = WFI_FMA(g, k[c], sum[c]);
        add_row(p, h, WFI_ATTN_DK, j, p->e, g, q);
        add_row(p, h, WFI_ATTN_DV, j, p->d, w[j], dy);
    }
    const operand *dq = &p->o[WFI_ATTN_DQ];
    for (int64_t c = 0; c < p->e; c++)
        put(p->type[WFI_ATTN_DQ], h->at[WFI_ATTN_DQ], i * dq->row + c * dq->col, sum[c]);
}
void WFI_K(wfi_attn_plain_grad)(const params *p, const head *h, double *desk)
{
    clear_rows(p, h, WFI_ATTN_DK, p->t, p->e);
    clear_rows(p, h, WFI_ATTN_DV, p->t, p->d);
    for (int64_t i = 0; i < p->s; i++)
        grad_row(p, h, i, desk);
}

void WFI_K(wfi_attn_lse)(int64_t n, const float *m, const float *l, float *to)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = WFI_FMAF(m[i], 0.693147181f, wfi_log_f32(l[i]));
}
