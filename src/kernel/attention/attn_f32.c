/* attn_f32.c - attention in f32, in blocks of queries and keys.
 *
 * The tile of scores is kept transposed, [key][query]: maxima and sums run down its columns, K, V, Q and dY are read as
 * they lie, and only the blocks of Q and dY are packed, with the scale folded in. One register tile serves all seven
 * products. Rows that are not f32, not dense or not a multiple of a vector are copied block by block. */
#include <string.h>
#include "kernel/attention/attn_part.h"
#include "kernel/attention/attn_tile.h"

#define KEYS ((int64_t)WFI_ATTENTION_KEYS)
/* Queries a block, forward and gradient: the scores of a block stay in the second cache, the packed operands in the
 * first. These change no bit. */
enum { FORWARD_QUERIES = 96, GRAD_QUERIES = VL == 16 ? 64 : 48 };

/* ---- the desk: scratch of one worker ---- */

typedef struct desk {
    float *qt, *gt;          /* packed blocks of Q and dY: [panel][e or d][NR] */
    float *s, *g;            /* scores, then weights; gradients of weights, then of scores: [KEYS][lds] */
    float *m, *l, *top, *al; /* [qb]: whole maximum, sum, maximum, factor; in the gradient m: lse, l: delta */
    float *k, *v, *q, *dy;   /* copies of blocks, padded to whole vectors; y: o */
    float *o, *dq;           /* [qb][padded] sums */
    float *dk, *dv;          /* [t][padded] sums */
    double *plain;
    int64_t lds, e, d; /* padded to whole vectors */
} desk;

static bool copied(const params *p, int slot)
{
    int64_t n = slot == WFI_ATTN_Q || slot == WFI_ATTN_K || slot == WFI_ATTN_DQ || slot == WFI_ATTN_DK ? p->e : p->d;
    return p->type[slot] != WF_F32 || p->o[slot].col != 1 || n % VL;
}

static float *take(char *base, size_t *at, int64_t floats)
{
    float *r = base ? (float *)(void *)(base + *at) : NULL;
    *at += (size_t)round_up(floats, 16) * 4;
    return r;
}

/* Sets out the desk from `base`, if it is given; returns its size. */
static size_t set_desk(const params *p, bool grad, char *base, desk *z)
{
    int64_t qb = round_up(p->qb, NR);
    size_t at = 0;
    memset(z, 0, sizeof *z);
    z->e = round_up(p->e, VL), z->d = round_up(p->d, VL);
    z->lds = qb / 16 % 2 ? qb : qb + 16; /* an odd number of lines: columns fall into all sets of the cache */
    z->qt = take(base, &at, qb * p->e);
    z->s = take(base, &at, KEYS * z->lds);
    z->m = take(base, &at, qb), z->l = take(base, &at, qb), z->top = take(base, &at, qb), z->al = take(base, &at, qb);
    if (copied(p, WFI_ATTN_K))
        z->k = take(base, &at, KEYS * z->e);
    if (copied(p, WFI_ATTN_V))
        z->v = take(base, &at, KEYS * z->d);
    if (copied(p, WFI_ATTN_Q))
        z->q = take(base, &at, qb * z->e);
    if (!grad) {
        z->o = take(base, &at, qb * z->d);
        z->plain = (double *)(void *)take(base, &at, 2 * plain_desk(p));
        return at;
    }
    z->gt = take(base, &at, qb * p->d);
    z->g = take(base, &at, KEYS * z->lds);
    if (copied(p, WFI_ATTN_DY))
        z->dy = take(base, &at, qb * z->d);
    if (copied(p, WFI_ATTN_DQ))
        z->dq = take(base, &at, qb * z->e);
    if (copied(p, WFI_ATTN_DK))
        z->dk = take(base, &at, p->t * z->e);
    if (copied(p, WFI_ATTN_DV))
        z->dv = take(base, &at, p->t * z->d);
    return at;
}

const char *WFI_K(wfi_attn_declines)(const params *p, bool grad)
{
    (void)p, (void)grad;
    return NULL;
}
size_t WFI_K(wfi_attn_desk)(const params *p, bool grad)
{
    desk z;
    return set_desk(p, grad, NULL, &z);
}
int64_t WFI_K(wfi_attn_block)(int64_t s, bool grad)
{
    int64_t max = grad ? GRAD_QUERIES : FORWARD_QUERIES, n = (s + max - 1) / max;
    return n <= 1 ? most(s, 1) : round_up((s + n - 1) / n, NR);
}

/* ---- rows in and out ---- */

static void widen(float *to, const char *from, wf_dtype type, int64_t n, int64_t col)
{
    const float *f = (const float *)(const void *)from;
    const uint16_t *u = (const uint16_t *)(const void *)from;
    int64_t i = 0;
    for (; col == 1 && i + VL <= n; i += VL)
        st(to + i, type == WF_F32 ? ld(f + i) : type == WF_BF16 ? wfi_bf16_ld(u + i) : wfi_f16_ld(u + i));
    for (; i < n; i++)
        to[i] = type == WF_F32 ? f[i * col] : type == WF_BF16 ? wfi_bf16_wide(u[i * col]) : wfi_f16_wide(u[i * col]);
}
static void narrow(char *to, const float *from, wf_dtype type, int64_t n, int64_t col)
{
    float *f = (float *)(void *)to;
    uint16_t *u = (uint16_t *)(void *)to;
    int64_t i = 0;
    for (; col == 1 && i + VL <= n; i += VL) {
        if (type == WF_F32)
            st(f + i, ld(from + i));
        else if (type == WF_BF16)
            wfi_bf16_st(u + i, ld(from + i));
        else
            wfi_f16_st(u + i, ld(from + i));
    }
    for (; i < n; i++) {
        if (type == WF_F32)
            f[i * col] = from[i];
        else
            u[i * col] = type == WF_BF16 ? wfi_bf16_narrow(from[i]) : wfi_f16_narrow(from[i]);
    }
}
static char *row_at(const params *p, const head *h, int slot, int64_t row)
{
    return h->at[slot] + row * p->o[slot].row * (p->type[slot] == WF_F32 ? 4 : 2);
}

typedef struct rows {
    float *p;
    int64_t ld;
} rows;

/* Rows from .. from + n - 1 of an operand: where they lie, or copied and padded with zeros. */
static rows rows_of(const params *p, const head *h, int slot, int64_t from, int64_t n, int64_t width, float *copy)
{
    if (!copy)
        return (rows){ (float *)(void *)row_at(p, h, slot, from), p->o[slot].row };
    int64_t pad = round_up(width, VL);
    for (int64_t i = 0; i < n; i++) {
        widen(copy + i * pad, row_at(p, h, slot, from + i), p->type[slot], width, p->o[slot].col);
        for (int64_t c = width; c < pad; c++)
            copy[i * pad + c] = 0;
    }
    return (rows){ copy, pad };
}
/* Where sums of these rows are made. */
static rows sums_of(const params *p, const head *h, int slot, int64_t from, int64_t width, float *copy)
{
    if (!copy)
        return (rows){ (float *)(void *)row_at(p, h, slot, from), p->o[slot].row };
    return (rows){ copy, round_up(width, VL) };
}
static void clear(rows r, int64_t n, int64_t width)
{
    for (int64_t i = 0; i < n; i++)
        memset(r.p + i * r.ld, 0, (size_t)width * 4);
}
static void store_rows(const params *p, const head *h, int slot, int64_t from, int64_t n, int64_t width, rows r)
{
    for (int64_t i = 0; i < n; i++)
        narrow(row_at(p, h, slot, from + i), r.p + i * r.ld, p->type[slot], width, p->o[slot].col);
}

/* n rows of `width` -> panels [ceil(n / NR)][width][NR], times c, zeros beyond n */
static void pack(rows x, int64_t n, int64_t width, float c, float *to)
{
    for (int64_t j = 0; j < n; j += NR, to += width * NR) {
        for (int64_t b = 0; b < NR; b += VL) {
            int64_t w = 0;
            for (; w + VL <= width; w += VL) {
                V r[VL];
                for (int i = 0; i < VL; i++)
                    r[i] = j + b + i < n ? ld(x.p + (j + b + i) * x.ld + w) * set1(c) : (V){ 0 };
                wfi_transpose4((wfi_vi4 *)r);
                for (int i = 0; i < VL; i++)
                    st(to + (w + i) * NR + b, r[i]);
            }
            for (; w < width; w++)
                for (int i = 0; i < VL; i++)
                    to[w * NR + b + i] = j + b + i < n ? x.p[(j + b + i) * x.ld + w] * c : 0;
        }
    }
}

/* ---- one block of queries against one block of keys ---- */

typedef struct block {
    int64_t q0, nq, k0, nk;
    int64_t rel; /* key rel + i of this block is the last that query i of this block sees */
    bool cut;    /* some pair is not seen */
} block;

static block block_at(const params *p, int64_t q0, int64_t nq, int64_t k0, int64_t end)
{
    block b = { .q0 = q0, .nq = nq, .k0 = k0, .nk = least(KEYS, end - k0), .rel = p->t };
    if (p->causal) {
        b.rel = q0 + p->t - p->s - k0;
        b.cut = b.nk - 1 > b.rel;
    }
    return b;
}
/* Keys that queries q0 .. q0 + nq - 1 see, counted from key 0. */
static int64_t keys_of(const params *p, int64_t q0, int64_t nq)
{
    return p->causal ? most(0, least(p->t, q0 + nq + p->t - p->s)) : p->t;
}
/* Rows of the tile of scores that are needed in the panel that begins with query j of the block: whole tiles, up to the
 * last row that a tile of queries which reaches into the next panel wants. */
static int64_t rows_needed(const block *b, int64_t j)
{
    int64_t n = b->rel + j + NR + (NR % MR ? MR - 1 : 0);
    return !b->cut ? b->nk : n <= 0 ? 0 : least(b->nk, round_up(n, MR));
}

static void scores(const desk *z, const block *b, rows a, int64_t e, const float *qt, float *out, float *top, bool cut)
{
    for (int64_t j = 0; j < b->nq; j += NR) {
        score_tile t = { .b = qt + j * e, .top = top ? top + j : NULL, .lda = a.ld, .ldo = z->lds, .e = e };
        for (int64_t i = 0, n = rows_needed(b, j); i < n; i += MR) {
            t.a = a.p + i * a.ld;
            t.out = out + i * z->lds + j;
            t.cut = cut ? i - b->rel - j : -MR;
            score_fns[least(MR, n - i) - 1](&t);
        }
    }
}

/* One register tile: n rows from `row`, columns c .. of `width`. */
static void sum_block(sum_tile *t, const float *a, const float *b, rows out, int64_t row, int64_t n, int64_t c,
                      int64_t width)
{
    t->a = a, t->b = b + c;
    t->out = out.p + row * out.ld + c;
    t->in = t->in ? t->out : NULL;
    t->ldo = out.ld;
    sum_fns[width - c >= NR][n - 1](t);
}
/* Rows are queries: out[i] += sum over the keys of s[key][i] * x[key]. */
static void sum_keys(const desk *z, const block *b, const float *s, rows x, rows out, int64_t width, bool first)
{
    for (int64_t i = 0; i < b->nq; i += MR) {
        int64_t k = b->cut ? least(b->nk, b->rel + i + MR) : b->nk;
        for (int64_t c = 0; k > 0 && c < width; c += NR) {
            sum_tile t = { .in = first ? NULL : out.p, .ai = 1, .ap = z->lds, .bs = x.ld, .k = k };
            sum_block(&t, s + i, x.p, out, i, least(MR, b->nq - i), c, width);
        }
    }
}
/* Rows are keys: out[i] += sum over the queries of s[i][query] * x[query]. */
static void sum_queries(const desk *z, const block *b, const float *s, rows x, rows out, int64_t width)
{
    for (int64_t c = 0; c < width; c += NR)
        for (int64_t i = 0; i < b->nk; i += MR) {
            int64_t from = b->cut ? most(0, i - b->rel) : 0; /* the first query that sees key i */
            if (from >= b->nq)
                break;
            sum_tile t = { .in = out.p, .ai = z->lds, .ap = 1, .bs = x.ld, .k = b->nq - from };
            sum_block(&t, s + i * z->lds + from, x.p + from * x.ld, out, i, least(MR, b->nk - i), c, width);
        }
}

/* Adds the mask to a block of scores, and raises the maxima if `top`. */
static void add_mask(const params *p, const head *h, const desk *z, const block *b, float *top)
{
    const operand *o = &p->o[WFI_ATTN_MASK];
    wf_dtype type = p->type[WFI_ATTN_MASK];
    int64_t bytes = type == WF_BOOL ? 1 : type == WF_F32 ? 4 : 2;
    for (int64_t i = 0; i < b->nk; i++)
        for (int64_t j = 0; j < b->nq; j++) {
            const char *at = h->at[WFI_ATTN_MASK] + ((b->q0 + j) * o->row + (b->k0 + i) * o->col) * bytes;
            float *x = z->s + i * z->lds + j, add;
            if (b->cut && i > b->rel + j)
                continue; /* this part of the tile may not even be computed */
            if (type == WF_BOOL)
                add = *at ? 0 : -INF;
            else
                widen(&add, at, type, 1, 1);
            *x = WFI_FMAF(add, LOG2E, *x);
            if (top && *x > top[j])
                top[j] = *x;
        }
}

/* ---- forward ---- */

WFI_INLINE void weigh_rows(int g, float *s, int64_t lds, V *l, const V *m127)
{
    V x[GROUP];
    EACH x[i] = ld(s + i / NV * lds + i % NV * VL);
    exp2_less(g, x, m127);
    EACH
    {
        st(s + i / NV * lds + i % NV * VL, x[i]);
        l[i % NV] += x[i];
    }
}
/* Scores become weights, sums and maxima go on. Returns whether a maximum has grown. */
static bool weigh(const desk *z, const block *b)
{
    bool grown = false;
    for (int64_t j = 0; j < b->nq; j += NR) {
        V m[NV], l[NV];
        WFI_UNROLL for (int h = 0; h < NV; h++)
        {
            V old = ld(z->m + j + VL * h), al;
            m[h] = larger(ceiling(ld(z->top + j + VL * h)), old);
            al = pow2(old - m[h]);
            st(z->al + j + VL * h, al);
            st(z->m + j + VL * h, m[h]);
            l[h] = al * ld(z->l + j + VL * h);
            m[h] -= set1(127.f);
        }
        float *s = z->s + j;
        int64_t n = rows_needed(b, j), i = 0;
        for (; i + GROUP / NV <= n; i += GROUP / NV, s += GROUP / NV * z->lds)
            weigh_rows(GROUP, s, z->lds, l, m);
        for (; i < n; i++, s += z->lds)
            weigh_rows(NV, s, z->lds, l, m);
        WFI_UNROLL for (int h = 0; h < NV; h++) st(z->l + j + VL * h, l[h]);
    }
    for (int64_t j = 0; j < b->nq; j++)
        grown |= z->al[j] != 1;
    return grown;
}
static void scale_rows(const desk *z, int64_t nq)
{
    for (int64_t i = 0; i < nq; i++)
        if (z->al[i] != 1)
            for (int64_t c = 0; c < z->d; c += VL)
                st(z->o + i * z->d + c, ld(z->o + i * z->d + c) * set1(z->al[i]));
}

static void finish(const params *p, const head *h, const desk *z, int64_t q0, int64_t nq)
{
    float *lse = z->al;
    WFI_K(wfi_attn_lse)(nq, z->m, z->l, lse);
    for (int64_t i = 0; i < nq; i++) {
        float *o = z->o + i * z->d, l = z->l[i];
        char *to = h->at[WFI_ATTN_LSE] + (q0 + i) * p->o[WFI_ATTN_LSE].row * 4;
        bool unseen = z->top[i] == -INF && l == 0;
        if (!unseen && (z->m[i] > -FLOOR || (z->top[i] != -INF && z->top[i] <= FLOOR))) {
            WFI_K(wfi_attn_plain_row)(p, h, q0 + i, z->plain);
            continue;
        }
        for (int64_t c = 0; c < z->d; c += VL)
            st(o + c, unseen ? (V){ 0 } : ld(o + c) / set1(l));
        narrow(row_at(p, h, WFI_ATTN_Y, q0 + i), o, p->type[WFI_ATTN_Y], p->d, p->o[WFI_ATTN_Y].col);
        *(float *)(void *)to = unseen ? -INF : lse[i];
    }
}

void WFI_K(wfi_attn_forward)(const params *p, const head *h, int64_t q0, char *base)
{
    desk z;
    set_desk(p, false, base, &z);
    int64_t nq = least(p->qb, p->s - q0), w = round_up(nq, NR), end = keys_of(p, q0, nq);
    for (int64_t i = 0; i < w; i++)
        z.m[i] = FLOOR, z.l[i] = 0, z.top[i] = -INF;
    pack(rows_of(p, h, WFI_ATTN_Q, q0, nq, p->e, z.q), nq, p->e, (float)p->scale * LOG2E, z.qt);
    for (int64_t k0 = 0; k0 < end; k0 += KEYS) {
        block b = block_at(p, q0, nq, k0, end);
        rows k = rows_of(p, h, WFI_ATTN_K, k0, b.nk, p->e, z.k);
        scores(&z, &b, k, p->e, z.qt, z.s, p->mask ? NULL : z.top, b.cut);
        if (p->mask)
            add_mask(p, h, &z, &b, z.top);
        if (weigh(&z, &b) && k0)
            scale_rows(&z, nq);
        rows v = rows_of(p, h, WFI_ATTN_V, k0, b.nk, p->d, z.v);
        sum_keys(&z, &b, z.s, v, (rows){ z.o, z.d }, z.d, !k0);
    }
    finish(p, h, &z, q0, nq);
}

/* ---- gradient ---- */

WFI_INLINE void grad_rows(int g, float *s, float *ds, int64_t lds, const V *lse, const V *delta)
{
    V x[GROUP];
    const V m[NV] = { set1(-127.f), set1(-127.f) };
    EACH x[i] = ld(s + i / NV * lds + i % NV * VL) - lse[i % NV];
    exp2_less(g, x, m);
    EACH
    {
        float *d = ds + i / NV * lds + i % NV * VL;
        st(s + i / NV * lds + i % NV * VL, x[i]);
        st(d, x[i] * (ld(d) - delta[i % NV]));
    }
}
/* Scores become weights p, and g (dp) becomes p * (dp - delta). */
static void weigh_grad(const desk *z, const block *b)
{
    for (int64_t j = 0; j < b->nq; j += NR) {
        V lse[NV], delta[NV];
        WFI_UNROLL for (int h = 0; h < NV; h++)
        {
            lse[h] = ld(z->m + j + VL * h);
            delta[h] = ld(z->l + j + VL * h);
        }
        int64_t n = rows_needed(b, j), i = 0;
        for (; i + GROUP / NV <= n; i += GROUP / NV)
            grad_rows(GROUP, z->s + i * z->lds + j, z->g + i * z->lds + j, z->lds, lse, delta);
        for (; i < n; i++)
            grad_rows(NV, z->s + i * z->lds + j, z->g + i * z->lds + j, z->lds, lse, delta);
    }
}

/* lse in units of log2, +inf (weight 0) where nothing is seen; delta times scale. */
static void read_stats(const params *p, const head *h, const desk *z, int64_t q0, int64_t nq)
{
    const operand *o = &p->o[WFI_ATTN_STATS];
    for (int64_t i = 0, w = round_up(nq, NR); i < w; i++) {
        const float *at = (const float *)(const void *)h->at[WFI_ATTN_STATS] + (q0 + i) * o->row;
        z->m[i] = i < nq ? at[0] * LOG2E : 0;
        z->l[i] = i < nq ? at[o->col] * (float)p->scale : 0;
        if (z->m[i] == -INF)
            z->m[i] = INF, z->l[i] = 0;
    }
}

static void grad_queries(const params *p, const head *h, const desk *z, int64_t q0, rows dk, rows dv)
{
    int64_t nq = least(p->qb, p->s - q0), end = keys_of(p, q0, nq);
    rows q = rows_of(p, h, WFI_ATTN_Q, q0, nq, p->e, z->q), dy = rows_of(p, h, WFI_ATTN_DY, q0, nq, p->d, z->dy);
    rows dq = sums_of(p, h, WFI_ATTN_DQ, q0, p->e, z->dq);
    pack(q, nq, p->e, (float)p->scale * LOG2E, z->qt);
    pack(dy, nq, p->d, (float)p->scale, z->gt);
    read_stats(p, h, z, q0, nq);
    clear(dq, nq, z->e);
    for (int64_t k0 = 0; k0 < end; k0 += KEYS) {
        block b = block_at(p, q0, nq, k0, end);
        rows k = rows_of(p, h, WFI_ATTN_K, k0, b.nk, p->e, z->k), v = rows_of(p, h, WFI_ATTN_V, k0, b.nk, p->d, z->v);
        scores(z, &b, k, p->e, z->qt, z->s, NULL, b.cut);
        if (p->mask)
            add_mask(p, h, z, &b, NULL);
        scores(z, &b, v, p->d, z->gt, z->g, NULL, false);
        weigh_grad(z, &b);
        sum_queries(z, &b, z->s, dy, (rows){ dv.p + k0 * dv.ld, dv.ld }, z->d);
        sum_queries(z, &b, z->g, q, (rows){ dk.p + k0 * dk.ld, dk.ld }, z->e);
        sum_keys(z, &b, z->g, k, dq, z->e, false);
    }
    if (z->dq)
        store_rows(p, h, WFI_ATTN_DQ, q0, nq, p->e, dq);
}

void WFI_K(wfi_attn_grad)(const params *p, const head *h, char *base)
{
    desk z;
    set_desk(p, true, base, &z);
    rows dk = sums_of(p, h, WFI_ATTN_DK, 0, p->e, z.dk), dv = sums_of(p, h, WFI_ATTN_DV, 0, p->d, z.dv);
    clear(dk, p->t, z.e);
    clear(dv, p->t, z.d);
    for (int64_t q0 = 0; q0 < p->s; q0 += p->qb)
        grad_queries(p, h, &z, q0, dk, dv);
    if (z.dk)
        store_rows(p, h, WFI_ATTN_DK, 0, p->t, p->e, dk);
    if (z.dv)
        store_rows(p, h, WFI_ATTN_DV, 0, p->t, p->d, dv);
}
