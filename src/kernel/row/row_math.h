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

WFI_INLINE void FN(fetch)(const void *next)
{
    for (int64_t at = 0; at < (int64_t)(LANES * sizeof(FT)); at += 64) {
        __builtin_prefetch((const char *)next + at);
    }
}

/* The largest of a vector; never -0. */
WFI_INLINE FT FN(top)(FN(vec) v)
{
    FT t[FN(VN)];
    FN(st)(t, v);
    for (int s = FN(VN) / 2; s >= 1; s /= 2) {
        for (int i = 0; i < s; i++) {
            t[i] = t[i + s] > t[i] ? t[i + s] : t[i];
        }
    }
    return t[0] + 0;
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
    return FN(top)(FN(FAST_MAX)(FN(FAST_MAX)(a[0], a[1]), FN(FAST_MAX)(a[2], a[3])));
}

/* Exps are made in lock step, so many at a time, and in runs before they are added up. With 32 registers a run is a
 * step; with 16, exponentials want them all. */
#ifdef __AVX512F__
enum { FN(EXP_STEP) = 2 * LANES, FN(EXP_RUN) = 2 * LANES };
#define APART WFI_INLINE
#else
enum { FN(EXP_STEP) = LANES, FN(EXP_RUN) = 4 * LANES };
#define APART static __attribute__((noinline))
#endif

/* exp of n elements minus m, none of which is larger than m; n: a multiple of 32, constant, whole steps or less */
WFI_INLINE void FN(exps)(FT *e, const FT *x, int n, FN(vec) m)
{
    const int step = n < FN(EXP_STEP) ? n : FN(EXP_STEP);
    for (int i = 0; i < n; i += step) {
        if (sizeof(FT) == 4) {
            exp_down_group((float *)(void *)(e + i), (const float *)(const void *)(x + i), (vec_f32)m, step);
            continue;
        }
        for (int k = 0; k < step; k += FN(VN)) {
            FN(st)(e + i + k, FN(ld)(x + i + k) - m);
        }
        for (int k = 0; k < step; k++) {
            e[i + k] = FN(wfi_exp)(e[i + k]);
        }
    }
}

APART void FN(exp_run)(FT *e, const FT *x, FN(vec) m)
{
    FN(exps)(e, x, FN(EXP_RUN), m);
}
#undef APART

WFI_INLINE void FN(add_groups)(FN(lanes) * a, const FT *x, int n)
{
    for (int i = 0; i < n; i += LANES) {
        for (int k = 0; k < FN(NV); k++) {
            a->v[k] += FN(ld)(x + i + k * FN(VN));
        }
    }
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

WFI_INLINE FT FN(lanes_top)(const FN(lanes) * a)
{
    FN(vec) v = a->v[0];
    for (int k = 1; k < FN(NV); k++) {
        v = FN(FAST_MAX)(v, a->v[k]);
    }
    return FN(top)(v);
}

/* What is done beside the exponentials of a row, which keep the multipliers busy and leave memory idle. For the next
 * row, if there is one: its largest element is found, and the row after it fetched; rows mostly lie at equal distances,
 * and if not, nothing is lost. For the row before: y = e * scale, past the caches (y NULL: nothing). */
typedef struct FN(beside) {
    const FT *next;
    uintptr_t after;
    FN(lanes) top;
    FT *y;
    const FT *e;
    FN(vec) scale;
} FN(beside);

/* Elements at .. at + n, n: a multiple of 32, constant */
WFI_INLINE void FN(work_beside)(FN(beside) * b, int64_t at, int n)
{
    for (int i = 0; i < n && b->next; i += LANES) {
        for (int k = 0; k < FN(NV); k++) {
            b->top.v[k] = FN(FAST_MAX)(FN(ld)(b->next + at + i + k * FN(VN)), b->top.v[k]);
        }
        FN(fetch)((const void *)(b->after + (uintptr_t)(at + i) * sizeof(FT)));
    }
    for (int i = 0; i < n && b->y; i += FN(VN)) {
        FN(STREAM)(b->y + at + i, FN(ld)(b->e + at + i) * b->scale);
    }
}
/* The last n < 32 elements of the row; y has whole vectors of them. */
WFI_INLINE void FN(end_beside)(FN(beside) * b, int64_t at, int64_t n)
{
    for (int k = 0; k < FN(NV) && b->next; k++) {
        FN(vec) low = FN(splat)((FT)-__builtin_inff());
        FN(vec) x = FN(PART)(b->next + at + k * FN(VN), n - k * FN(VN), low);
        b->top.v[k] = FN(FAST_MAX)(x, b->top.v[k]);
    }
    for (int64_t i = at; i < at + n && b->y; i += FN(VN)) {
        FN(STREAM)(b->y + i, FN(ld)(b->e + i) * b->scale);
    }
}

/* sum(exp(x - m)); the terms go to e (room for n rounded up to 32) if keep. */
WFI_INLINE FT FN(exp_sum)(FT *e, const FT *x, int64_t n, FT m, FT *part, FN(beside) * beside, bool keep)
{
    FT group[LANES], run[FN(EXP_RUN)];
    int64_t blocks = 0;
    FN(vec) mv = FN(splat)(m);
    part[0] = 0;
    for (int64_t i = 0; i < n; blocks++) {
        int64_t end = least(n, i + BLOCK);
        FN(lanes) a = { { { 0 } } };
        for (; i + FN(EXP_RUN) <= end; i += FN(EXP_RUN)) {
            FT *to = keep ? e + i : run;
            FN(exp_run)(to, x + i, mv);
            FN(add_groups)(&a, to, FN(EXP_RUN));
            FN(work_beside)(beside, i, FN(EXP_RUN));
        }
        for (; i < end; i += LANES) {
            FT *to = keep ? e + i : run;
            bool whole = end - i >= LANES;
            FN(exps)(to, whole ? x + i : FN(padded)(group, x + i, end - i, (FT)-__builtin_inff()), LANES, mv);
            FN(add_groups)(&a, to, LANES);
            if (whole) {
                FN(work_beside)(beside, i, LANES);
            } else {
                FN(end_beside)(beside, i, end - i);
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
