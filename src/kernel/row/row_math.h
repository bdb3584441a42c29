/* row_math.h - passes over one row of an accumulator type. Included after fold.h with the same FT, FI, FN.
 *
 * `part` has room for one result per block of the row. `next`, if not NULL, is the next row: it is fetched while this
 * one is computed. */

#include "kernel/reduce/exp_down.h"

/* The last n < 32 elements of a row as a full group. */
WFI_INLINE const FT *FN(padded)(FT *group, const FT *x, int64_t n, FT pad)
{
    for (int k = 0; k < FN(NV); k++) {
        FN(st)(group + k * FN(VN), FN(PART)(x + k * FN(VN), n - k * FN(VN), FN(splat)(pad)));
    }
    return group;
}

/* 32 lanes in registers. */
typedef struct FN(lanes) {
    FN(vec) v[FN(NV)];
} FN(lanes);

WFI_INLINE FT FN(lanes_sum)(const FN(lanes) * a)
{
    FT acc[LANES];
    for (int k = 0; k < FN(NV); k++) {
        FN(st)(acc + k * FN(VN), a->v[k]);
    }
    return FN(sum_tree)(acc);
}

WFI_INLINE void FN(fetch)(const FT *next)
{
    for (int64_t at = 0; at < (int64_t)(LANES * sizeof(FT)); at += 64) {
        __builtin_prefetch((const char *)next + at);
    }
}

/* The largest of a vector. */
WFI_INLINE FT FN(top)(FN(vec) v)
{
    FT t[FN(VN)];
    FN(st)(t, v);
    for (int s = FN(VN) / 2; s >= 1; s /= 2) {
        for (int i = 0; i < s; i++) {
            t[i] = t[i + s] > t[i] ? t[i + s] : t[i];
        }
    }
    return t[0];
}

/* The largest element; -inf of nothing; never -0. */
static inline FT FN(row_max)(const FT *x, int64_t n)
{
    FT m = (FT)-__builtin_inff();
    FN(vec) a[4] = { FN(splat)(m), FN(splat)(m), FN(splat)(m), FN(splat)(m) };
    int64_t i = 0;
    for (; i + 4 * FN(VN) <= n; i += 4 * FN(VN)) {
        for (int k = 0; k < 4; k++) {
            a[k] = FN(FAST_MAX)(FN(ld)(x + i + k * FN(VN)), a[k]);
        }
    }
    for (; i + FN(VN) <= n; i += FN(VN)) {
        a[0] = FN(FAST_MAX)(FN(ld)(x + i), a[0]);
    }
    if (i < n) {
        a[1] = FN(FAST_MAX)(FN(PART)(x + i, n - i, FN(splat)(m)), a[1]);
    }
    return FN(top)(FN(FAST_MAX)(FN(FAST_MAX)(a[0], a[1]), FN(FAST_MAX)(a[2], a[3]))) + 0;
}

/* exp of 32 elements minus m, none of which is larger than m */
WFI_INLINE void FN(exp_group)(FT *e, const FT *x, FN(vec) m)
{
    if (sizeof(FT) == 4) {
        exp_down_group((float *)(void *)e, (const float *)(const void *)x, (vec_f32)m);
        return;
    }
    for (int k = 0; k < FN(NV); k++) {
        FN(st)(e + k * FN(VN), FN(ld)(x + k * FN(VN)) - m);
    }
    for (int k = 0; k < LANES; k++) {
        e[k] = FN(wfi_exp)(e[k]);
    }
}

enum { FN(EXP_RUN) = 8 * LANES }; /* exps that are made before they are added up: not both wants all registers */

/* sum(exp(x - m)); the terms go to e (room for n rounded up to 32) if keep. */
WFI_INLINE FT FN(exp_sum)(FT *e, const FT *x, int64_t n, FT m, FT *part, const FT *next, bool keep)
{
    FT group[LANES], run[FN(EXP_RUN)];
    int64_t blocks = 0;
    FN(vec) mv = FN(splat)(m);
    part[0] = 0;
    for (int64_t i = 0; i < n; blocks++) {
        int64_t end = least(n, i + BLOCK);
        FN(lanes) a = { { { 0 } } };
        while (i < end) {
            const FT *terms = keep ? e + i : run;
            FT *to = keep ? e + i : run;
            int64_t stop = least(end, i + FN(EXP_RUN));
            for (; i < stop; i += LANES, to += LANES) {
                const FT *from = end - i < LANES ? FN(padded)(group, x + i, end - i, (FT)-__builtin_inff()) : x + i;
                FN(exp_group)(to, from, mv);
                if (next) {
                    FN(fetch)(next + i);
                }
            }
            for (; terms < to; terms += LANES) {
                for (int k = 0; k < FN(NV); k++) {
                    a.v[k] += FN(ld)(terms + k * FN(VN));
                }
            }
        }
        part[blocks] = FN(lanes_sum)(&a);
    }
    return FN(parts)(OP_SUM, part, blocks);
}

/* sum(x - m) */
static inline FT FN(row_sum)(const FT *x, int64_t n, FT m, FT *part, const FT *next)
{
    FT group[LANES];
    int64_t blocks = 0;
    FN(vec) mv = FN(splat)(m);
    part[0] = 0;
    for (int64_t i = 0; i < n; blocks++) {
        int64_t end = least(n, i + BLOCK);
        FN(lanes) a = { { { 0 } } };
        for (; i < end; i += LANES) {
            const FT *from = end - i < LANES ? FN(padded)(group, x + i, end - i, m) : x + i;
            if (next) {
                FN(fetch)(next + i);
            }
            for (int k = 0; k < FN(NV); k++) {
                a.v[k] += FN(ld)(from + k * FN(VN)) - mv;
            }
        }
        part[blocks] = FN(lanes_sum)(&a);
    }
    return FN(parts)(OP_SUM, part, blocks);
}

/* sum(a * b), each product rounded */
static inline FT FN(row_dot)(const FT *x, const FT *y, int64_t n, FT *part, const FT *next_x, const FT *next_y)
{
    FT group[2][LANES];
    int64_t blocks = 0;
    part[0] = 0;
    for (int64_t i = 0; i < n; blocks++) {
        int64_t end = least(n, i + BLOCK);
        FN(lanes) a = { { { 0 } } };
        for (; i < end; i += LANES) {
            const FT *p = x + i, *q = y + i;
            if (end - i < LANES) {
                p = FN(padded)(group[0], p, end - i, 0);
                q = FN(padded)(group[1], q, end - i, 0);
            }
            if (next_x) {
                FN(fetch)(next_x + i);
            }
            if (next_y) {
                FN(fetch)(next_y + i);
            }
            for (int k = 0; k < FN(NV); k++) {
                a.v[k] += FN(ld)(p + k * FN(VN)) * FN(ld)(q + k * FN(VN));
            }
        }
        part[blocks] = FN(lanes_sum)(&a);
    }
    return FN(parts)(OP_SUM, part, blocks);
}

/* Writes a vector; stream: past the caches, p aligned to it. */
WFI_INLINE void FN(out)(FT *p, FN(vec) v, bool stream)
{
    if (stream) {
        FN(STREAM)(p, v);
    } else {
        FN(st)(p, v);
    }
}
