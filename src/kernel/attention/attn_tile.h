/* attn_tile.h - the register tiles of attention, MR rows of NR columns. Rows and vectors are constants at each use, so
 * that all loops but the one along the chain are unrolled. Included by attn_f32.c. */
#include "kernel/attention/attn_vec.h"

/* r += sum over p of a[i * ai + p * ap] * b[p * bs + column], ascending. */
WFI_INLINE void products(int mr, int nv, int64_t k, const float *a, int64_t ai, int64_t ap, const float *b, int64_t bs,
                         V r[MR][NV])
{
    const float *row[(MR + 2) / 3]; /* every third row: the two after it are one and two strides away */
    WFI_UNROLL for (int g = 0; g < (mr + 2) / 3; g++) row[g] = a + 3 * g * ai;
    WFI_KLOOP for (int64_t p = k; p > 0; p--)
    {
        V x[NV];
        WFI_UNROLL for (int j = 0; j < nv; j++)
        {
            x[j] = ld(b + VL * j);
            WFI_PIN(x[j]);
        }
        WFI_UNROLL for (int i = 0; i < mr; i++)
        {
            V y = set1(row[i / 3][i % 3 * ai]);
            WFI_PIN(y);
            WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] = muladd(y, x[j], r[i][j]);
        }
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) WFI_PIN(r[i][j]);
        b += bs;
        WFI_UNROLL for (int g = 0; g < (mr + 2) / 3; g++) row[g] += ap;
    }
}

/* Scores of mr keys (rows of a, as they lie) and NR queries (packed: b[e][NR]). */
typedef struct score_tile {
    const float *a, *b;
    float *out, *top; /* top: the column maxima to raise, or NULL */
    int64_t lda, ldo, e;
    int64_t cut; /* column c of row i is not seen where c < cut + i */
} score_tile;

WFI_INLINE void score_rows(const score_tile *t, int mr)
{
    V r[MR][NV];
    WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < NV; j++) r[i][j] = (V){ 0 };
    products(mr, NV, t->e, t->a, t->lda, 1, t->b, NR, r);
    if (t->cut > -mr) {
        V column = iota();
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < NV; j++) r[i][j] =
            pick((VI)(column < set1((float)(t->cut + i - VL * j))), set1(-INF), r[i][j]);
    }
    WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < NV; j++)
        st(t->out + i * t->ldo + VL * j, r[i][j]);
    if (t->top)
        WFI_UNROLL for (int j = 0; j < NV; j++)
        {
            V x = ld(t->top + VL * j);
            WFI_UNROLL for (int i = 0; i < mr; i++) x = larger(r[i][j], x);
            st(t->top + VL * j, x);
        }
}

/* out[i][column] = (in or 0) + the chain over k */
typedef struct sum_tile {
    const float *a, *b, *in;
    float *out;
    int64_t ai, ap, bs, ldo, k;
} sum_tile;

WFI_INLINE void sum_rows(const sum_tile *t, int mr, int nv)
{
    V r[MR][NV];
    if (t->in)
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] =
            ld(t->in + i * t->ldo + VL * j);
    else
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] = (V){ 0 };
    products(mr, nv, t->k, t->a, t->ai, t->ap, t->b, t->bs, r);
    WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++)
        st(t->out + i * t->ldo + VL * j, r[i][j]);
}

#define EACH_ROWS_4(F)    F(1) F(2) F(3) F(4)
#define EACH_ROWS_6(F)    EACH_ROWS_4(F) F(5) F(6)
#define EACH_ROWS_8(F)    EACH_ROWS_6(F) F(7) F(8)
#define EACH_ROWS__(n, F) EACH_ROWS_##n(F)
#define EACH_ROWS_(n, F)  EACH_ROWS__(n, F)
#define EACH_ROWS(F)      EACH_ROWS_(WFI_ATTN_MR, F)
#define TILE_FN           static __attribute__((noinline)) void
#define DEFINE(q)                                                                                                      \
    TILE_FN score_##q(const score_tile *t)                                                                             \
    {                                                                                                                  \
        score_rows(t, q);                                                                                              \
    }                                                                                                                  \
    TILE_FN narrow_##q(const sum_tile *t)                                                                              \
    {                                                                                                                  \
        sum_rows(t, q, 1);                                                                                             \
    }                                                                                                                  \
    TILE_FN wide_##q(const sum_tile *t)                                                                                \
    {                                                                                                                  \
        sum_rows(t, q, NV);                                                                                            \
    }
EACH_ROWS(DEFINE)
#undef DEFINE
#define SCORE(q)  score_##q,
#define NARROW(q) narrow_##q,
#define WIDE(q)   wide_##q,
typedef void score_fn(const score_tile *t);
typedef void sum_fn(const sum_tile *t);
static score_fn *const score_fns[MR] = { EACH_ROWS(SCORE) };
static sum_fn *const sum_fns[2][MR] = { { EACH_ROWS(NARROW) }, { EACH_ROWS(WIDE) } };
