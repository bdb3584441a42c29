/* gemm_tile.h - the register tiles of one accumulator type. A template: included by gemm_f32.c and its like after
 *
 *     #define T      float         the accumulator
 *     #define V      wfi_vf4       its vector
 *     #define LANE   4             bytes of T
 *     #define FMA    WFI_FMA_F32   (V a, V b, V c)
 *     #define MR     14            rows and ...
 *     #define NV     2             ... vectors of the tile: MR * NV accumulators, NV of b, a broadcast
 *     #define TILES  wfi_gemm_tiles_f32
 *
 * Rows and vectors are constants at each use of tile(), so that every loop but the one over k is unrolled and the
 * accumulators stay in registers. */
#include "kernel/gemm/gemm_lanes.h"

WFI_INLINE void read_ahead(const wfi_tile *t, int mr, int nv)
{
    const char *p = t->pf, *q = t->pf2;
    for (int64_t i = 0; i < t->npf; i++, p += t->pfs) {
        __builtin_prefetch(p, 0, 2);
        if (NR * LANE > 64)
            __builtin_prefetch(p + 64, 0, 2);
    }
    for (int64_t i = 0; i < t->npf2; i++)
        __builtin_prefetch(q + 64 * i, 0, 2);
    if (t->next) {
        WFI_UNROLL for (int i = 0; i < mr * nv * WFI_VB / 64; i++) __builtin_prefetch((const char *)t->next + 64 * i, 1);
    }
    if (t->out != t->in) {
        const T *o = t->out;
        WFI_UNROLL for (int i = 0; i < mr; i++)
        {
            __builtin_prefetch(o + i * t->ldo, 1);
            __builtin_prefetch(o + i * t->ldo + VL * nv - 1, 1);
        }
    }
}

WFI_INLINE void tile(const wfi_tile *t, int mr, int nv, int masked, int packed)
{
    V r[MR][NV];
    MASK m[NV];
    const T *in = t->in, *b = t->b;
    const char *row[(MR + 2) / 3]; /* every third row of a: the two after it are one and two strides away */
    const int64_t ai = packed ? LANE : t->ai * LANE, ap = packed ? mr * LANE : t->ap * LANE;
    const int64_t bs = packed ? NR : t->bs;
    const T *f = b + t->ahead * t->bs;
    WFI_UNROLL for (int j = 0; j < nv; j++) m[j] = LANES(t->n - VL * j);
    if (in) {
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] =
            masked ? LDM(in + i * t->ldi + VL * j, m[j]) : ld(in + i * t->ldi + VL * j);
    } else {
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] = (V){ 0 };
    }
    if (packed)
        read_ahead(t, mr, nv);
    WFI_UNROLL for (int g = 0; g < (mr + 2) / 3; g++) row[g] = (const char *)t->a + (packed ? 0 : 3 * g * ai);
    WFI_KLOOP for (int64_t p = t->k; p > 0; p--)
    {
        V x[NV];
        WFI_UNROLL for (int j = 0; j < nv; j++)
        {
            x[j] = masked ? LDM(b + VL * j, m[j]) : ld(b + VL * j);
            WFI_PIN(x[j]);
        }
        if (!packed)
            WFI_UNROLL for (int j = 0; j < nv; j++) __builtin_prefetch(f + VL * j);
        WFI_UNROLL for (int i = 0; i < mr; i++)
        {
            V y = set1(*(const T *)(packed ? row[0] + i * LANE : row[i / 3] + (i % 3) * ai));
            WFI_PIN(y);
            WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] = FMA(y, x[j], r[i][j]);
        }
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) WFI_PIN(r[i][j]);
        b += bs;
        f += bs;
        if (packed)
            row[0] += ap;
        else
            WFI_UNROLL for (int g = 0; g < (mr + 2) / 3; g++) row[g] += ap;
    }
    T *out = t->out;
    WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++)
    {
        if (masked)
            STM(out + i * t->ldo + VL * j, m[j], r[i][j]);
        else
            st(out + i * t->ldo + VL * j, r[i][j]);
    }
}

#define EACH_ROWS_4(F)  F(1) F(2) F(3) F(4)
#define EACH_ROWS_6(F)  EACH_ROWS_4(F) F(5) F(6)
#define EACH_ROWS_8(F)  EACH_ROWS_6(F) F(7) F(8)
#define EACH_ROWS_12(F) EACH_ROWS_8(F) F(9) F(10) F(11) F(12)
#define EACH_ROWS_14(F) EACH_ROWS_12(F) F(13) F(14)
#define EACH_ROWS__(n, F) EACH_ROWS_##n(F)
#define EACH_ROWS_(n, F)  EACH_ROWS__(n, F)
#define EACH_ROWS(F)      EACH_ROWS_(MR, F)

#define TILE_FN static __attribute__((noinline)) void
#define DEFINE(q)                                                                                                      \
    TILE_FN packed_##q(const wfi_tile *t)                                                                              \
    {                                                                                                                  \
        tile(t, q, NV, 0, 1);                                                                                          \
    }                                                                                                                  \
    TILE_FN any_1_##q(const wfi_tile *t)                                                                               \
    {                                                                                                                  \
        tile(t, q, 1, 0, 0);                                                                                           \
    }                                                                                                                  \
    TILE_FN any_2_##q(const wfi_tile *t)                                                                               \
    {                                                                                                                  \
        tile(t, q, 2, 0, 0);                                                                                           \
    }                                                                                                                  \
    TILE_FN any_1_masked_##q(const wfi_tile *t)                                                                        \
    {                                                                                                                  \
        tile(t, q, 1, 1, 0);                                                                                           \
    }                                                                                                                  \
    TILE_FN any_2_masked_##q(const wfi_tile *t)                                                                        \
    {                                                                                                                  \
        tile(t, q, 2, 1, 0);                                                                                           \
    }
EACH_ROWS(DEFINE)
#undef DEFINE

#define PACKED(q)   packed_##q,
#define ANY_1(q)    any_1_##q,
#define ANY_2(q)    any_2_##q,
#define MASKED_1(q) any_1_masked_##q,
#define MASKED_2(q) any_2_masked_##q,
#ifndef TILES
#define TILES tiles
static
#endif
const wfi_gemm_tiles WFI_K(TILES) = {
    .packed = { EACH_ROWS(PACKED) },
    .any = { { { EACH_ROWS(ANY_1) }, { EACH_ROWS(ANY_2) } }, { { EACH_ROWS(MASKED_1) }, { EACH_ROWS(MASKED_2) } } },
};
