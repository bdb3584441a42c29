/* gemm_tile.h - the register tiles of one accumulator type. A template: included by gemm_f32.c and its like after
 *
 *     #define T      float         the accumulator
 *     #define V      wfi_vf4       its vector
 *     #define LANE   4             bytes of T
 *     #define FMA    WFI_FMA_F32   (V c, SV a, SV b): c += a * b
 *     #define S      float         (perhaps, with SV) the operands of a step, where they are not T
 *     #define TILES  wfi_gemm_tiles_f32
 *
 * Rows and vectors are constants at each use of tile(), so that every loop but the one over k is unrolled and the
 * accumulators stay in registers. */
#include "kernel/gemm/gemm_lanes.h"

WFI_INLINE void read_ahead(const wfi_tile *t, int mr, int nv)
{
    const char *p = t->pf;
    for (int64_t i = 0; i < t->npf; i++, p += t->pfs) {
        WFI_UNROLL for (int j = 0; j < NR * LANE; j += 64) __builtin_prefetch(p + j, 0, 2);
    }
    if (t->next) {
        WFI_UNROLL for (int i = 0; i < mr * nv * WFI_VB / 64; i++)
            __builtin_prefetch((const char *)t->next + 64 * i, 1);
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

/* What is known about the strides: nothing; a contiguous along k; both packed. */
enum { ANY, ALONG, PACKED };

WFI_INLINE SV element(const char *const *row, int i, int u, int64_t ai, int mode, int mr)
{
    return set1(*(const S *)(mode == PACKED ? row[0] + (u * mr + i) * LANE : row[i / 3] + (i % 3) * ai + u * LANE));
}
/* r += column of a x row of b, x[]; the u-th of several steps. */
WFI_INLINE void step(V r[MR][NV], const SV *x, const char *const *row, int u, int64_t ai, int mr, int nv, int mode)
{
    WFI_UNROLL for (int i = 0; i < mr; i++)
    {
        SV y = element(row, i, u, ai, mode, mr);
        WFI_PIN(y);
        WFI_UNROLL for (int j = 0; j < nv; j++) FMA(r[i][j], y, x[j]);
    }
}
WFI_INLINE void row_of_b(SV *x, const S *b, int nv, int masked, const MASK *m)
{
    WFI_UNROLL for (int j = 0; j < nv; j++)
    {
        x[j] = masked ? (SV)LDM(b + VL * j, m[j]) : lds(b + VL * j);
        WFI_PIN(x[j]);
    }
}

WFI_SPECIAL void tile(const wfi_tile *t, int mr, int nv, int masked, int mode)
{
    V r[MR][NV];
    MASK m[NV];
    const T *in = t->in;
    const S *b = t->b;
    const int groups = mode == PACKED ? 1 : (mr + 2) / 3;
    const char *row[(MR + 2) / 3]; /* every third row of a: the two after it are one and two strides away */
    const int64_t ai = mode == PACKED ? LANE : t->ai * LANE;
    int64_t ap = mode == PACKED ? mr * LANE : mode == ALONG ? LANE : t->ap * LANE;
    const int64_t bs = mode == PACKED ? NR : t->bs;
    const S *f = b + t->ahead * t->bs;
    if (mode == ANY)
        WFI_OPAQUE(ap);
    WFI_UNROLL for (int j = 0; j < nv; j++) m[j] = LANES(t->n - VL * j);
    if (in) {
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] =
            masked ? LDM(in + i * t->ldi + VL * j, m[j]) : ld(in + i * t->ldi + VL * j);
    } else {
        WFI_UNROLL for (int i = 0; i < mr; i++) WFI_UNROLL for (int j = 0; j < nv; j++) r[i][j] = (V){ 0 };
    }
    if (mode == PACKED && t->pf)
        read_ahead(t, mr, nv);
    WFI_UNROLL for (int g = 0; g < groups; g++) row[g] = (const char *)t->a + 3 * g * ai;
    SV x[2][NV];
    int64_t p = t->k;
#if WFI_GEMM_EARLY
    /* Rows of b are loaded a step before their use: with two hardware threads a core the scheduler sees little more. */
    const char *pf = t->next_b;
    const int64_t pfs = t->next_bs;
    if (mode != ANY && p > WFI_GEMM_STEPS) {
        row_of_b(x[0], b, nv, masked, m);
        WFI_KLOOP for (; p > WFI_GEMM_STEPS; p -= WFI_GEMM_STEPS)
        {
            __builtin_prefetch(pf, 0, 2);
            pf += pfs;
            if (mode == PACKED)
                WFI_UNROLL for (int j = 0; j < mr * WFI_GEMM_STEPS * LANE; j += 64)
                    __builtin_prefetch(row[0] + 512 + j);
            WFI_UNROLL for (int u = 0; u < WFI_GEMM_STEPS; u++)
            {
                b += bs;
                row_of_b(x[(u + 1) & 1], b, nv, masked, m);
                step(r, x[u & 1], row, u, ai, mr, nv, mode);
            }
            WFI_UNROLL for (int g = 0; g < groups; g++) row[g] += ap * WFI_GEMM_STEPS;
        }
    }
#elif WFI_GEMM_STEPS > 1
    if (mode != ANY && (T)0.5 != 0) { /* integers: compilers add several steps up first, and spill */
        WFI_KLOOP for (; p >= WFI_GEMM_STEPS; p -= WFI_GEMM_STEPS)
        {
            WFI_UNROLL for (int u = 0; u < WFI_GEMM_STEPS; u++)
            {
                row_of_b(x[0], b, nv, masked, m);
                step(r, x[0], row, u, ai, mr, nv, mode);
                b += bs;
            }
            WFI_UNROLL for (int g = 0; g < groups; g++) row[g] += ap * WFI_GEMM_STEPS;
        }
    }
#endif
    WFI_KLOOP for (; p > 0; p--)
    {
        row_of_b(x[0], b, nv, masked, m);
        step(r, x[0], row, 0, ai, mr, nv, mode);
        if (mode == ANY) {
            WFI_UNROLL for (int j = 0; j < nv; j++) __builtin_prefetch(f + VL * j);
            f += bs;
        }
        b += bs;
        WFI_UNROLL for (int g = 0; g < groups; g++) row[g] += ap;
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

#define EACH_ROWS_4(F)    F(1) F(2) F(3) F(4)
#define EACH_ROWS_6(F)    EACH_ROWS_4(F) F(5) F(6)
#define EACH_ROWS_8(F)    EACH_ROWS_6(F) F(7) F(8)
#define EACH_ROWS__(n, F) EACH_ROWS_##n(F)
#define EACH_ROWS_(n, F)  EACH_ROWS__(n, F)
#define EACH_ROWS(F)      EACH_ROWS_(MR, F)

#define TILE_FN static __attribute__((noinline)) void
#define DEFINE(q)                                                                                                      \
    TILE_FN packed_##q(const wfi_tile *t)                                                                              \
    {                                                                                                                  \
        tile(t, q, NV, 0, PACKED);                                                                                     \
    }                                                                                                                  \
    TILE_FN along_##q(const wfi_tile *t)                                                                               \
    {                                                                                                                  \
        tile(t, q, NV, 0, ALONG);                                                                                      \
    }
#define DEFINE_ANY(q, nv)                                                                                              \
    TILE_FN any_##q##_##nv(const wfi_tile *t)                                                                          \
    {                                                                                                                  \
        tile(t, q, nv, 0, ANY);                                                                                        \
    }                                                                                                                  \
    TILE_FN masked_##q##_##nv(const wfi_tile *t)                                                                       \
    {                                                                                                                  \
        tile(t, q, nv, 1, ANY);                                                                                        \
    }
#define DEFINE_1(q) DEFINE_ANY(q, 1)
#define DEFINE_2(q) DEFINE_ANY(q, 2)
#define DEFINE_3(q) DEFINE_ANY(q, 3)
EACH_ROWS(DEFINE)
EACH_ROWS(DEFINE_1)
EACH_ROWS(DEFINE_2)
#if WFI_GEMM_NV > 2
EACH_ROWS(DEFINE_3)
#endif

#define NAME_PACKED(q)   packed_##q,
#define NAME_ALONG(q)    along_##q,
#define NAME_ANY_1(q)    any_##q##_1,
#define NAME_ANY_2(q)    any_##q##_2,
#define NAME_ANY_3(q)    any_##q##_3,
#define NAME_MASKED_1(q) masked_##q##_1,
#define NAME_MASKED_2(q) masked_##q##_2,
#define NAME_MASKED_3(q) masked_##q##_3,
#ifndef TILES
#define TILES tiles
static
#endif
    const wfi_gemm_tiles WFI_K(TILES) = {
        .packed = { EACH_ROWS(NAME_PACKED) },
        .along = { EACH_ROWS(NAME_ALONG) },
#if WFI_GEMM_NV > 2
        .any = { { { EACH_ROWS(NAME_ANY_1) }, { EACH_ROWS(NAME_ANY_2) }, { EACH_ROWS(NAME_ANY_3) } },
                 { { EACH_ROWS(NAME_MASKED_1) }, { EACH_ROWS(NAME_MASKED_2) }, { EACH_ROWS(NAME_MASKED_3) } } },
#else
    .any = { { { EACH_ROWS(NAME_ANY_1) }, { EACH_ROWS(NAME_ANY_2) } },
             { { EACH_ROWS(NAME_MASKED_1) }, { EACH_ROWS(NAME_MASKED_2) } } },
#endif
    };
