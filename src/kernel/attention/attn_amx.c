/* attn_amx.c - attention of bf16 on the tile unit of AMX.
 *
 * Order class `attention amx pairs`: that of attention.h, with these differences. Products are those of amx_tile.h (two
 * chains over the even and the odd of each 32), over e from 0, over blocks of 32 keys, over blocks of 32 queries.
 * Scores are multiplied by scale * log2(e) in f32. The maximum is looked at after each 64 keys. Weights p, and ds = p *
 * (dp - delta) without the scale, are rounded to bf16 for their products; the sum of p ascends over f32. dq and dk are
 * multiplied by the scale at the end. Keys that are not seen count as weights of 0; blocks of 64 keys and 64 queries of
 * which nothing is seen are left out. */
#include "kernel/attention/attn_amx.h"
#include <string.h>

const char *WFI_K(wfi_attn_declines)(const params *p, bool grad)
{
    for (int i = 0; i < WFI_ATTN_SLOTS; i++) {
        const bool used = i <= WFI_ATTN_V || (grad ? i > WFI_ATTN_STATS : i == WFI_ATTN_Y);
        if (used && p->type[i] != WF_BF16)
            return "not all of bf16";
    }
    /* by the logical shape alone: the other class has other bits */
    return p->s < 16 || p->t < 16 || p->e < 16 || p->d < 16 ? "too small for tiles" : NULL;
}
size_t WFI_K(wfi_attn_desk)(const params *p, bool grad)
{
    amx_desk z;
    return set_desk(p, grad, NULL, &z);
}
int64_t WFI_K(wfi_attn_block)(int64_t s, bool grad)
{
    const int64_t n = (s + SUPER - 1) / SUPER;
    return grad || n <= 1 ? most(s, 1) : round_up((s + n - 1) / n, BLOCK);
}

/* ---- one block of queries against one block of keys ---- */

typedef struct block {
    int64_t q0, nq, k0, nk;
    int64_t rel;  /* key rel + i of this block is the last that query i of this block sees */
    int64_t part; /* query q0 of the operands is query `part` of the desk */
} block;

/* Queries from .. end - 1 of the operands against all keys that they see, `step` queries and BLOCK keys at a time. */
typedef struct walk {
    const params *p;
    int64_t from, end, step;
} walk;

static block block_at(const walk *w, int64_t q0, int64_t k0)
{
    return (block){ .q0 = q0,
                    .nq = least(w->step, w->end - q0),
                    .k0 = k0,
                    .nk = least(BLOCK, w->p->t - k0),
                    .rel = w->p->causal ? q0 + w->p->t - w->p->s - k0 : BLOCK,
                    .part = q0 - w->from };
}
static bool seen(const block *b)
{
    return b->rel + b->nq > 0;
}

/* What scores are multiplied by to be in units of log2; its sign is in Q. */
static float unit(const params *p)
{
    const float u = (float)p->scale * LOG2E;
    return u < 0 ? -u : u;
}

/* Scores become units of log2, with the mask. */
static void mask_scores(const params *p, const head *h, float *s, int64_t ld, const block *b)
{
    const operand *o = &p->o[WFI_ATTN_MASK];
    const wf_dtype type = p->type[WFI_ATTN_MASK];
    const int64_t bytes = type == WF_BOOL ? 1 : type == WF_F32 ? 4 : 2;
    for (int64_t i = 0; i < b->nk; i++)
        for (int64_t j = 0; j < b->nq; j++) {
            const char *at = h->at[WFI_ATTN_MASK] + ((b->q0 + j) * o->row + (b->k0 + i) * o->col) * bytes;
            float add;
            uint16_t half;
            memcpy(&half, at, bytes == 1 ? 1 : 2);
            if (type == WF_BOOL)
                add = *at ? 0 : -INF;
            else if (type == WF_F32)
                memcpy(&add, at, 4);
            else
                add = type == WF_BF16 ? wfi_bf16_wide(half) : wfi_f16_wide(half);
            s[i * ld + j] = WFI_FMAF(add, LOG2E, s[i * ld + j] * unit(p));
        }
}
static void hide(float *s, int64_t ld, const block *b)
{
    for (int64_t i = 0; i < BLOCK; i++) {
        const int64_t n = i >= b->nk ? ld : least(ld, i - b->rel); /* queries that do not see key i */
        for (int64_t j = 0; j < n; j++)
            s[i * ld + j] = -INF;
    }
}
/* [key][query], ld queries */
static product scores(const amx_desk *z, const block *b, const uint16_t *keys, float *to, int64_t ld)
{
    return (product){ .a = keys,
                      .b = z->q + b->part * z->e,
                      .b_step = SIDE * z->e,
                      .rows = PARTS,
                      .columns = ld / SIDE,
                      .steps = z->e / SIDE,
                      .out = to,
                      .ld = ld };
}
/* -inf where nothing is seen. What scores are to be multiplied by still is the result. */
static float masked(const params *p, const head *h, float *s, int64_t ld, const block *b)
{
    if (p->mask)
        mask_scores(p, h, s, ld, b);
    if (b->nk < BLOCK || b->rel < BLOCK - 1)
        hide(s, ld, b);
    return p->mask ? 1 : unit(p);
}
/* Queries from q0 as columns of the desk, with the sign of the scale. */
static void pack_queries(const params *p, const head *h, const amx_desk *z, int64_t q0, int64_t n)
{
    const int64_t panels = round_up(n, BLOCK) / SIDE;
    pack(p, h, WFI_ATTN_Q, q0, n, p->e, false, true, panels, z->e, z->q);
    for (int64_t i = 0; p->scale < 0 && i < panels * SIDE * z->e; i++)
        z->q[i] ^= 0x8000;
}

/* ---- forward ---- */

/* Scores of PAIR vectors of queries from column j become weights, as pairs of keys; sums and maxima go on. */
WFI_INLINE void weigh_columns(const amx_desk *z, const block *b, const score_block *x, int64_t j, float by,
                              wfi_tile_file *f, queue *w)
{
    float *const s = x->s + j, *const m = z->m + b->part + j, *const l = z->l + b->part + j,
                 *const top = z->top + b->part + j;
    V high[PAIR], magic[PAIR], low[PAIR], sum[PAIR]; /* magic: MAGIC of exponents less m */
    WFI_UNROLL for (int c = 0; c < PAIR; c++) high[c] = set1(-INF);
    for (int64_t i = 0; i < BLOCK; i++)
        WFI_UNROLL for (int c = 0; c < PAIR; c++) high[c] = larger(ld(s + i * FEW + VL * c), high[c]);
    WFI_UNROLL for (int c = 0; c < PAIR; c++)
    {
        high[c] = larger(high[c] * set1(by), ld(top + VL * c));
        const V old = ld(m + VL * c), new = larger(ceiling(high[c]), old), al = pow2(old - new);
        st(top + VL * c, high[c]);
        st(m + VL * c, new);
        st(z->al + b->part + j + VL * c, al);
        sum[c] = al * ld(l + VL * c);
        magic[c] = set1(MAGIC + 127.f) - new;
        low[c] = (new - set1(127.f)) * set1(1 / by); /* weights below 2^-127 are 0; NaN stays */
    }
    for (int64_t i0 = 0; i0 < BLOCK; i0 += ROWS_AT_ONCE) {
        const float *at = s + i0 * FEW;
        V v[PAIR * ROWS_AT_ONCE], t[PAIR * ROWS_AT_ONCE];
        ALL v[i] = larger(low[i % PAIR], ld(at + i / PAIR * FEW + i % PAIR * VL));
        ALL t[i] = muladd(v[i], set1(by), magic[i % PAIR]);
        ALL v[i] = muladd(v[i], set1(by), magic[i % PAIR] - t[i]);
        exp2_short(v, t);
        ALL sum[i % PAIR] += v[i];
        WFI_UNROLL for (int r = 0; r < ROWS_AT_ONCE; r += 2) WFI_UNROLL for (int c = 0; c < PAIR; c++)
            st_lanes(pair_at(x->pairs, (i0 + r) / 2, j + VL * c), two_bf16(v[PAIR * r + c], v[PAIR * (r + 1) + c]));
        proceed(f, w, j / VL / PAIR * BLOCK + i0 + ROWS_AT_ONCE, BLOCK * FEW / VL / PAIR);
    }
    WFI_UNROLL for (int c = 0; c < PAIR; c++) st(l + VL * c, sum[c]);
}
/* Where maxima have grown, the sums so far change their unit. */
static void rescale(const amx_desk *z, const block *b, float *o)
{
    for (int64_t j = 0; j < FEW; j += VL) {
        const V al = ld(z->al + b->part + j);
        const bool grown = some_below_one(al);
        for (int64_t c = 0; grown && c < z->d; c++)
            st(o + c * FEW + j, ld(o + c * FEW + j) * al);
    }
}

/* to[i][c] = from[c][i], n queries, `width` rows of `from` (multiples of 16) */
static void turn(const float *from, int64_t n, int64_t width, float *to)
{
    for (int64_t c = 0; c < width; c += VL)
        for (int64_t i = 0; i < n; i += VL) {
            V r[VL];
            for (int k = 0; k < VL; k++)
                r[k] = ld(from + (c + k) * n + i);
            wfi_transpose4((wfi_vi4 *)r);
            for (int k = 0; k < VL; k++)
                st(to + (i + k) * width + c, r[k]);
        }
}
/* A row times `by`, to where it belongs. */
static void store_row(const params *p, const head *h, int slot, int64_t row, int64_t n, const float *x, float by)
{
    uint16_t *to = (uint16_t *)(void *)h->at[slot] + row * p->o[slot].row;
    int64_t i = 0, col = p->o[slot].col;
    for (; col == 1 && i + VL <= n; i += VL)
        wfi_bf16_st(to + i, ld(x + i) * set1(by));
    for (; i < n; i++)
        to[i * col] = wfi_bf16_narrow(x[i] * by);
}

/* A block of queries is done. */
static void finish(const params *p, const head *h, const amx_desk *z, const block *b, float *o)
{
    float lse[FEW], *rows = z->rows;
    const float *m = z->m + b->part, *l = z->l + b->part, *top = z->top + b->part;
    WFI_ATTN_PLAIN(wfi_attn_lse)(b->nq, m, l, lse);
    for (int64_t j = 0; j < FEW; j += VL)
        for (int64_t c = 0; c < z->d; c++)
            st(o + c * FEW + j, ld(o + c * FEW + j) / ld(l + j));
    turn(o, FEW, z->d, rows);
    for (int64_t i = 0; i < b->nq; i++) {
        const bool unseen = top[i] == -INF && l[i] == 0; // NOLINT: exact on purpose
        if (!unseen && (m[i] > -FLOOR || (top[i] != -INF && top[i] <= FLOOR))) {
            WFI_ATTN_PLAIN(wfi_attn_plain_row)(p, h, b->q0 + i, z->plain);
            continue;
        }
        if (unseen)
            memset(rows + i * z->d, 0, (size_t)z->d * 4);
        store_row(p, h, WFI_ATTN_Y, b->q0 + i, p->d, rows + i * z->d, 1);
        char *to = h->at[WFI_ATTN_LSE] + (b->q0 + i) * p->o[WFI_ATTN_LSE].row * 4;
        *(float *)(void *)to = unseen ? -INF : lse[i];
    }
}

/* All keys that somebody sees. */
static void pack_all_keys(const walk *w, const head *h, const amx_desk *z)
{
    const params *p = w->p;
    const block last = block_at(w, w->end - 1, 0);
    for (int64_t k0 = 0; k0 < p->t && (!p->causal || k0 <= last.rel); k0 += BLOCK) {
        const int64_t nk = least(BLOCK, p->t - k0);
        pack(p, h, WFI_ATTN_K, k0, nk, p->e, false, false, PARTS, z->e, z->kt + k0 * z->e);
        pack(p, h, WFI_ATTN_V, k0, nk, p->d, true, false, z->d / SIDE, BLOCK, z->vt + k0 * z->d);
    }
}
/* y, transposed: [d][query] += V^T p */
static product values(const amx_desk *z, const block *b, const score_block *s, float *o)
{
    return (product){ .a = z->vt + b->k0 * z->d,
                      .b = s->pairs,
                      .rows = z->d / SIDE,
                      .columns = 1,
                      .steps = PARTS,
                      .out = o,
                      .ld = FEW,
                      .add = b->k0 > 0 };
}
static float *output(const amx_desk *z, const block *b)
{
    return z->o + b->part / FEW % 2 * FEW * z->d;
}
static void begin(const amx_desk *z, const block *b)
{
    for (int64_t i = b->part; i < b->part + FEW; i++)
        z->m[i] = FLOOR, z->l[i] = 0, z->top[i] = -INF;
}

/* The block after b of which something is seen: keys inside, queries outside. False: there is none. */
static bool next_keys(const walk *w, block *b)
{
    *b = block_at(w, b->q0, b->k0 + BLOCK);
    if (b->k0 < w->p->t && seen(b))
        return true;
    do
        *b = block_at(w, b->q0 + FEW, 0);
    while (b->q0 < w->end && !seen(b));
    return b->q0 < w->end;
}
/* Queries that see nothing. */
static void unseen(const walk *w, const head *h, const amx_desk *z)
{
    for (int64_t q0 = w->from; q0 < w->end; q0 += FEW) {
        const block b = block_at(w, q0, 0);
        if (seen(&b))
            break;
        begin(z, &b);
        finish(w->p, h, z, &b, z->o);
    }
}

/* All blocks of the walk. The scores of the next one and the sums of the last are made while one is weighed. */
static void forward(const walk *w, const head *h, const amx_desk *z, wfi_tile_file *f)
{
    block last = { .k0 = 0 }, b, next = block_at(w, w->from - FEW, w->p->t);
    bool more = next_keys(w, &next);
    queue todo;
    clear(&todo);
    if (more) {
        later(&todo, scores(z, &next, z->kt + next.k0 * z->e, z->scores[0].s, FEW));
        proceed(f, &todo, 1, 1);
    }
    for (int64_t i = 0; more; i++, last = b) {
        const score_block *now = &z->scores[i % SCORES_AT_ONCE], *other = &z->scores[(i + 1) % SCORES_AT_ONCE];
        clear(&todo);
        if (i)
            later(&todo, values(z, &last, other, output(z, &last)));
        b = next;
        if ((more = next_keys(w, &next)))
            later(&todo, scores(z, &next, z->kt + next.k0 * z->e, other->s, FEW));
        const float by = masked(w->p, h, now->s, FEW, &b);
        if (!b.k0)
            begin(z, &b);
        for (int64_t j = 0; j < FEW; j += PAIR * VL)
            weigh_columns(z, &b, now, j, by, f, &todo);
        if (b.k0)
            rescale(z, &b, output(z, &b));
        else if (i)
            finish(w->p, h, z, &last, output(z, &last));
        if (!more) {
            clear(&todo);
            later(&todo, values(z, &b, now, output(z, &b)));
            proceed(f, &todo, 1, 1);
            finish(w->p, h, z, &b, output(z, &b));
        }
    }
}

void WFI_K(wfi_attn_forward)(const params *p, const head *h, int64_t q0, char *base)
{
    amx_desk z;
    set_desk(p, false, base, &z);
    const walk w = { p, q0, least(p->s, q0 + p->qb), FEW };
    pack_all_keys(&w, h, &z);
    pack_queries(p, h, &z, q0, w.end - q0);
    unseen(&w, h, &z);
    WFI_TILES_ON();
    forward(&w, h, &z, WFI_TILE_FILE);
    WFI_TILES_OFF();
}

/* ---- gradient ---- */

/* Scores become weights p, and dp becomes ds = p * (dp - delta), for PAIR vectors of queries from column j. */
WFI_INLINE void weigh_grad(const amx_desk *z, const block *b, const score_block *x, int64_t j, float by,
                           wfi_tile_file *f, queue *w)
{
    V lse[PAIR], delta[PAIR];
    WFI_UNROLL for (int c = 0; c < PAIR; c++)
    {
        lse[c] = ld(z->m + b->part + j + VL * c);
        delta[c] = ld(z->l + b->part + j + VL * c);
    }
    for (int64_t i0 = 0; i0 < BLOCK; i0 += ROWS_AT_ONCE) {
        const float *s = x->s + i0 * BLOCK + j, *dp = x->dp + i0 * BLOCK + j;
        V v[PAIR * ROWS_AT_ONCE], t[PAIR * ROWS_AT_ONCE];
        ALL v[i] = muladd(ld(s + i / PAIR * BLOCK + i % PAIR * VL), set1(by), -lse[i % PAIR]);
        ALL v[i] = larger(set1(-127.f), v[i]);
        ALL t[i] = v[i] + set1(MAGIC);
        ALL v[i] -= t[i] - set1(MAGIC);
        ALL t[i] += set1(127.f);
        exp2_short(v, t);
        ALL st_bf16(line_at(x->p, i0 + i / PAIR, j + i % PAIR * VL), v[i]);
        ALL v[i] *= ld(dp + i / PAIR * BLOCK + i % PAIR * VL) - delta[i % PAIR];
        ALL st_bf16(line_at(x->ds, i0 + i / PAIR, j + i % PAIR * VL), v[i]);
        WFI_UNROLL for (int r = 0; r < ROWS_AT_ONCE; r += 2) WFI_UNROLL for (int c = 0; c < PAIR; c++)
            st_lanes(pair_at(x->pairs, (i0 + r) / 2, j + VL * c), two_bf16(v[PAIR * r + c], v[PAIR * (r + 1) + c]));
        proceed(f, w, (j / VL / PAIR * BLOCK + i0 + ROWS_AT_ONCE), BLOCK * BLOCK / VL / PAIR);
    }
}

/* lse in units of log2, +inf (weight 0) where nothing is seen or no query is. */
static void read_stats(const params *p, const head *h, const amx_desk *z)
{
    const operand *o = &p->o[WFI_ATTN_STATS];
    for (int64_t i = 0, n = round_up(p->s, BLOCK); i < n; i++) {
        const float *at = (const float *)(const void *)h->at[WFI_ATTN_STATS] + i * o->row;
        const bool none = i >= p->s || at[0] == -INF;
        z->m[i] = none ? INF : at[0] * LOG2E;
        z->l[i] = none ? 0 : at[o->col];
    }
}

static void pack_keys(const params *p, const head *h, const amx_desk *z, const block *b, const key_block *k)
{
    pack(p, h, WFI_ATTN_K, b->k0, b->nk, p->e, false, false, PARTS, z->e, k->k);
    pack(p, h, WFI_ATTN_V, b->k0, b->nk, p->d, false, false, PARTS, z->d, k->v);
    pack(p, h, WFI_ATTN_K, b->k0, b->nk, p->e, true, false, z->e / SIDE, BLOCK, k->kk);
    memset(k->dk, 0, (size_t)(BLOCK * z->e) * 4);
    memset(k->dv, 0, (size_t)(BLOCK * z->d) * 4);
}
static void store_keys(const params *p, const head *h, const amx_desk *z, const block *b, const key_block *k)
{
    for (int64_t i = 0; i < b->nk; i++) {
        store_row(p, h, WFI_ATTN_DK, b->k0 + i, p->e, k->dk + i * z->e, (float)p->scale);
        store_row(p, h, WFI_ATTN_DV, b->k0 + i, p->d, k->dv + i * z->d, 1);
    }
}
static key_block *keys_of(amx_desk *z, const block *b)
{
    return &z->keys[b->k0 / BLOCK % KEYS_AT_ONCE];
}
/* dp = V dY^T, [key][query] */
static product weights_grad(amx_desk *z, const block *b, float *to)
{
    return (product){ .a = keys_of(z, b)->v,
                      .b = z->g + b->part * z->d,
                      .b_step = SIDE * z->d,
                      .rows = PARTS,
                      .columns = PARTS,
                      .steps = z->d / SIDE,
                      .out = to,
                      .ld = BLOCK };
}
/* out[key][n] += rows . columns: dv of p and dY, dk of ds and Q. across: panels of all queries. */
static product keys_grad(const params *p, const block *b, const uint16_t *rows, const uint16_t *columns, float *to,
                         int64_t n)
{
    return (product){ .a = rows,
                      .b = columns + b->part * SIDE,
                      .b_step = round_up(p->s, BLOCK) * SIDE,
                      .rows = PARTS,
                      .columns = n / SIDE,
                      .steps = PARTS,
                      .out = to,
                      .ld = n,
                      .add = true };
}
/* dq, transposed: [e][query] += K^T ds */
static product queries_grad(amx_desk *z, const block *b, const score_block *s)
{
    return (product){ .a = keys_of(z, b)->kk,
                      .b = s->pairs,
                      .b_step = BLOCK * SIDE,
                      .rows = z->e / SIDE,
                      .columns = PARTS,
                      .steps = PARTS,
                      .out = z->o + b->part * z->e,
                      .ld = BLOCK,
                      .add = true };
}
static void later_sums(const params *p, amx_desk *z, const block *b, const score_block *s, queue *w)
{
    const key_block *k = keys_of(z, b);
    later(w, keys_grad(p, b, s->p, z->gg, k->dv, z->d));
    later(w, keys_grad(p, b, s->ds, z->qq, k->dk, z->e));
    later(w, queries_grad(z, b, s));
}
static void later_scores(amx_desk *z, const block *b, const score_block *s, queue *w)
{
    later(w, scores(z, b, keys_of(z, b)->k, s->s, BLOCK));
    later(w, weights_grad(z, b, s->dp));
}

/* The block after b of which something is seen: queries inside, keys outside. False: there is none. */
static bool next_queries(const walk *w, block *b)
{
    int64_t q0 = b->q0 + BLOCK;
    for (int64_t k0 = b->k0; k0 < w->p->t; k0 += BLOCK, q0 = 0)
        for (; q0 < w->end; q0 += BLOCK) {
            *b = block_at(w, q0, k0);
            if (seen(b))
                return true;
        }
    return false;
}

/* As forward. */
static void gradient(const walk *w, const head *h, amx_desk *z, wfi_tile_file *f)
{
    block last = { .k0 = 0 }, b, next = block_at(w, -BLOCK, 0);
    bool more = next_queries(w, &next);
    queue todo;
    clear(&todo);
    if (more) {
        pack_keys(w->p, h, z, &next, keys_of(z, &next));
        later_scores(z, &next, &z->scores[0], &todo);
        proceed(f, &todo, 1, 1);
    }
    for (int64_t i = 0; more; i++, last = b) {
        const score_block *now = &z->scores[i % SCORES_AT_ONCE], *other = &z->scores[(i + 1) % SCORES_AT_ONCE];
        clear(&todo);
        if (i)
            later_sums(w->p, z, &last, other, &todo);
        b = next;
        more = next_queries(w, &next);
        if (more && next.k0 != b.k0)
            pack_keys(w->p, h, z, &next, keys_of(z, &next));
        const float by = masked(w->p, h, now->s, BLOCK, &b);
        if (more)
            later_scores(z, &next, other, &todo);
        for (int64_t j = 0; j < BLOCK; j += PAIR * VL)
            weigh_grad(z, &b, now, j, by, f, &todo);
        if (i && last.k0 != b.k0)
            store_keys(w->p, h, z, &last, keys_of(z, &last));
        if (!more) {
            clear(&todo);
            later_sums(w->p, z, &b, now, &todo);
            proceed(f, &todo, 1, 1);
            store_keys(w->p, h, z, &b, keys_of(z, &b));
        }
    }
}

void WFI_K(wfi_attn_grad)(const params *p, const head *h, char *base)
{
    amx_desk z;
    set_desk(p, true, base, &z);
    const int64_t n = round_up(p->s, BLOCK);
    memset(z.o, 0, (size_t)(n * z.e) * 4);
    pack_queries(p, h, &z, 0, p->s);
    pack(p, h, WFI_ATTN_DY, 0, p->s, p->d, false, true, n / SIDE, z.d, z.g);
    pack(p, h, WFI_ATTN_Q, 0, p->s, p->e, true, true, z.e / SIDE, n, z.qq);
    pack(p, h, WFI_ATTN_DY, 0, p->s, p->d, true, true, z.d / SIDE, n, z.gg);
    read_stats(p, h, &z);
    WFI_TILES_ON();
    gradient(&(walk){ p, 0, p->s, BLOCK }, h, &z, WFI_TILE_FILE);
    WFI_TILES_OFF();
    for (int64_t q0 = 0; q0 < p->s; q0 += BLOCK) {
        turn(z.o + q0 * z.e, BLOCK, z.e, z.rows);
        for (int64_t i = 0; i < least(BLOCK, p->s - q0); i++)
            store_row(p, h, WFI_ATTN_DQ, q0 + i, p->e, z.rows + i * z.e, (float)p->scale);
    }
}

#include "kernel/attention/attn_run.c"
