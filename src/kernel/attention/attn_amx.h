/* attn_amx.h - what attention on the tile unit works on: the desk of a worker, packed blocks, vectors of 64 queries
 * against 64 keys. Included by attn_amx.c.
 *
 * Scores lie transposed, [key][query]: maxima and sums run down columns, a pair of rows makes a row of pairs for the
 * next product, and K, V, Q and dY are packed as they lie, only once a block. */
#ifndef WFI_KERNEL_ATTENTION_AMX_H
#define WFI_KERNEL_ATTENTION_AMX_H
#define WFI_ATTN_ORDER "attention amx pairs"
#ifndef WFI_ATTN_PLAIN
#define WFI_ATTN_PLAIN(name) name##_avx512
#endif
#include "kernel/attention/attn_part.h"
#include "kernel/attention/attn_vec.h"
#include "kernel/gemm/amx_pack.h"

enum {
    SIDE = WFI_AMX_SIDE,
    BLOCK = 64, /* keys, and in the gradient queries, that are done at a time */
    FEW = 32,   /* queries that are done at a time forward: with 64 keys, all that is touched stays in L1 */
    PARTS = BLOCK / SIDE,
    SUPER = 512,     /* queries that share the packing of keys in the forward pass; changes no bit */
    PAIR = 2,        /* vectors of queries side by side */
    ROWS_AT_ONCE = 4 /* keys whose exponentials are in flight */
};

/* ---- the desk: scratch of one worker ---- */

/* Blocks of scores, and in the gradient of keys, have several places: while the vector units turn scores into weights,
 * the tile unit makes the scores of the block that comes next and the sums of the one before. */
enum { KEYS_AT_ONCE = 3, SCORES_AT_ONCE = 2 };

typedef struct key_block {
    uint16_t *k, *v, *kk; /* rows of K, of V, of K^T */
    float *dk, *dv;       /* [BLOCK][e], [BLOCK][d] */
} key_block;

typedef struct score_block {
    float *s, *dp;            /* [BLOCK][BLOCK]: scores, gradients of weights */
    uint16_t *p, *ds, *pairs; /* weights and gradients of scores as rows; either as pairs of keys */
} score_block;

typedef struct amx_desk {
    uint16_t *q, *g;         /* panels of queries' columns: Q and dY, all that the worker does */
    uint16_t *qq, *gg;       /* gradient: panels of columns of Q and dY, along the queries */
    float *m, *l, *top, *al; /* of the queries: whole maximum, sum, largest score, factor; gradient: lse, delta */
    float *o;                /* gradient: dq, transposed, [query block][e][BLOCK]; forward: y, [2][d][FEW] */
    float *rows;             /* [BLOCK][d or e] */
    uint16_t *kt, *vt;       /* forward: K and V^T of all blocks of keys */
    double *plain;
    key_block keys[KEYS_AT_ONCE];
    score_block scores[SCORES_AT_ONCE];
    int64_t e, d; /* padded to SIDE */
} amx_desk;

static void *take(char *base, size_t *at, int64_t bytes)
{
    void *r = base ? base + *at : NULL;
    *at += (size_t)round_up(bytes, 64);
    return r;
}

/* Sets out the desk from `base`, if it is given; returns its size. */
static size_t set_desk(const params *p, bool grad, char *base, amx_desk *z)
{
    size_t at = base ? (size_t)(-(uintptr_t)base & 63) : 63;
    memset(z, 0, sizeof *z);
    z->e = round_up(p->e, SIDE), z->d = round_up(p->d, SIDE);
    const int64_t n = round_up(p->qb, BLOCK), t = round_up(p->t, BLOCK), square = BLOCK * BLOCK;
    for (int i = 0; i < SCORES_AT_ONCE; i++) {
        score_block *s = &z->scores[i];
        s->s = take(base, &at, square * 4), s->pairs = take(base, &at, square * 2);
        if (grad)
            s->dp = take(base, &at, square * 4), s->p = take(base, &at, square * 2),
            s->ds = take(base, &at, square * 2);
    }
    z->m = take(base, &at, n * 4), z->l = take(base, &at, n * 4);
    z->o = take(base, &at, grad ? n * z->e * 4 : 2 * FEW * z->d * 4);
    z->q = take(base, &at, n * z->e * 2);
    z->rows = take(base, &at, BLOCK * (grad ? z->e : z->d) * 4);
    if (!grad) {
        z->top = take(base, &at, n * 4), z->al = take(base, &at, n * 4);
        z->kt = take(base, &at, t * z->e * 2), z->vt = take(base, &at, t * z->d * 2);
        z->plain = take(base, &at, 8 * plain_desk(p));
        return at;
    }
    for (int i = 0; i < KEYS_AT_ONCE; i++) {
        key_block *k = &z->keys[i];
        k->k = take(base, &at, BLOCK * z->e * 2);
        k->v = take(base, &at, BLOCK * z->d * 2), k->kk = take(base, &at, BLOCK * z->e * 2);
        k->dk = take(base, &at, BLOCK * z->e * 4), k->dv = take(base, &at, BLOCK * z->d * 4);
    }
    z->g = take(base, &at, n * z->d * 2);
    z->qq = take(base, &at, n * z->e * 2), z->gg = take(base, &at, n * z->d * 2);
    return at;
}

/* ---- operands ---- */

static const uint16_t *row_at(const params *p, const head *h, int slot, int64_t row)
{
    return (const uint16_t *)(const void *)h->at[slot] + row * p->o[slot].row;
}

/* `panels` panels of 32 rows of an operand each, or (across) of 32 of its columns; `pairs`: as a right operand. n rows
 * from `from` and w columns are there, the rest is zeros; panels are k deep. */
static void pack(const params *p, const head *h, int slot, int64_t from, int64_t n, int64_t w, bool across, bool pairs,
                 int64_t panels, int64_t k, uint16_t *to)
{
    const operand *o = &p->o[slot];
    const wfi_amx_lines lines = { .dtype = WF_BF16, .line = across ? o->col : o->row, .k = across ? o->row : o->col };
    const int64_t count = across ? w : n, deep = across ? n : w, size = SIDE * k;
    for (int64_t i = 0; i < panels; i++, to += size) {
        wfi_amx_lines l = lines;
        l.src = row_at(p, h, slot, from) + i * SIDE * l.line;
        const int64_t left = most(0, least(SIDE, count - i * SIDE)), there = left ? round_up(deep, SIDE) : 0;
        if (left)
            wfi_amx_pack(&l, left, deep, pairs, to, NULL);
        memset(to + SIDE * there, 0, (size_t)(size - SIDE * there) * 2);
    }
}

/* out[32 rows][32 columns] (+)= a b, `rows` times `columns` such squares: panels of `steps` times 32; b_step: bf16 from
 * one panel of b to the next. */
typedef struct product {
    const uint16_t *a, *b;
    float *out;
    int64_t rows, columns, steps, b_step, ld;
    bool add;
} product;

/* Products that run between the vectors of a block, a phase at a time: 32 of k of one square, or its way to memory.
 * Then the vectors behind a phase fit into what the processor looks ahead while the tile unit works. */
typedef struct queue {
    product todo[5];
    int64_t n, at;         /* of todo */
    int64_t i, j, k;       /* what comes next: square and phase of todo[at] */
    int64_t phases, done;  /* of all */
    const uint16_t *a, *b; /* operands of the phase */
} queue;

static void clear(queue *w)
{
    w->n = w->at = w->i = w->j = w->k = w->phases = w->done = 0;
}
static void later(queue *w, product t)
{
    w->todo[w->n++] = t;
    w->phases += t.rows * t.columns * (t.steps + 1);
}
WFI_INLINE void begin_square(wfi_tile_file *f, queue *w, const product *t, const float *c)
{
    w->a = t->a + w->i * t->steps * WFI_AMX_STEP, w->b = t->b + w->j * t->b_step;
    if (t->add)
        wfi_amx_load(f, c, t->ld * 4);
    else
        wfi_amx_zero(f);
}
WFI_INLINE void one_phase(wfi_tile_file *f, queue *w)
{
    const product *t = &w->todo[w->at];
    float *c = t->out + w->i * SIDE * t->ld + w->j * SIDE;
    w->done++;
    if (!w->k)
        begin_square(f, w, t, c);
    if (w->k++ < t->steps) {
        wfi_amx_step(f, w->a, w->b);
        w->a += WFI_AMX_STEP, w->b += WFI_AMX_STEP;
        return;
    }
    wfi_amx_store(f, c, t->ld * 4);
    w->k = 0;
    if (++w->j == t->columns)
        w->j = 0, w->i++;
    if (w->i == t->rows)
        w->i = 0, w->at++;
}
/* Does what is due when `part` of `all` steps are done. */
WFI_INLINE void proceed(wfi_tile_file *f, queue *w, int64_t part, int64_t all)
{
    for (const int64_t due = w->phases * part / all; w->done < due;)
        one_phase(f, w);
}

/* ---- vectors ---- */

#if defined __AVX512BF16__ && !defined WFI_AMX_EMULATED
/* Low and high halves of each lane: a and b. */
WFI_INLINE VI two_bf16(V a, V b)
{
    const __m512i turn = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                                          21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (VI)_mm512_permutexvar_epi16(turn, (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a));
}
WFI_INLINE void st_bf16(uint16_t *p, V v)
{
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh((__m512)v));
}
#else
WFI_INLINE wfi_vu4 to_bf16(V v)
{
    wfi_vu4 u = (wfi_vu4)v, nan = (wfi_vu4)((u & 0x7fffffff) > 0x7f800000);
    return (nan & (u | 0x400000)) | (~nan & (u + 0x7fff + (u >> 16 & 1)));
}
WFI_INLINE VI two_bf16(V a, V b)
{
    return (VI)(to_bf16(a) >> 16 | (to_bf16(b) & 0xffff0000));
}
WFI_INLINE void st_bf16(uint16_t *p, V v)
{
    wfi_bf16_st(p, v);
}
#endif

WFI_INLINE void st_lanes(uint16_t *p, VI v)
{
    memcpy(p, &v, sizeof v);
}
/* Where the pair of rows 2 i and 2 i + 1 goes in pairs of keys, from query j; where row i goes in rows of queries. */
WFI_INLINE uint16_t *pair_at(uint16_t *to, int64_t i, int64_t j)
{
    return to + ((j / SIDE * PARTS + i / 16) * 2 + j / 16 % 2) * WFI_AMX_TILE + i % 16 * 32 + j % 16 * 2;
}
WFI_INLINE uint16_t *line_at(uint16_t *to, int64_t i, int64_t j)
{
    return to + ((i / SIDE * PARTS + j / SIDE) * 2 + i / 16 % 2) * WFI_AMX_TILE + i % 16 * 32 + j % SIDE;
}

/* x[i] = 2^x[i] * 2^n[i] for |x| <= 1/2 and a whole n >= -127 (then 0), given as t = MAGIC + n + 127: exp2_less of
 * attn_vec.h, but good to 2.6e-6 only, which bf16 does not see. */
/* Is a below 1 in some lane? */
WFI_INLINE bool some_below_one(V a)
{
#if defined __AVX512F__
    return _mm512_cmp_ps_mask((__m512)a, _mm512_set1_ps(1), _CMP_LT_OQ) != 0;
#else
    bool some = false;
    for (int i = 0; i < VL; i++)
        some |= a[i] < 1;
    return some;
#endif
}

#define ALL WFI_UNROLL for (int i = 0; i < PAIR * ROWS_AT_ONCE; i++)
WFI_INLINE void exp2_short(V *x, const V *t)
{
    V q[PAIR * ROWS_AT_ONCE];
    ALL q[i] = muladd(set1(0.00957010221f), x[i], set1(0.0559178591f));
    ALL q[i] = muladd(q[i], x[i], set1(0.240247443f));
    ALL q[i] = muladd(q[i], x[i], set1(0.693121791f));
    ALL q[i] = muladd(q[i], x[i], set1(0.999999285f));
    ALL x[i] = q[i] * (V)((VI)t[i] << 23);
}

#endif
