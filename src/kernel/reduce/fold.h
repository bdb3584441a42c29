/* fold.h - combining many elements in the one order that the numeric contract allows. Included once for each
 * accumulator type, with FT (the type), FI (the signed integer of its size) and FN(name) (name with a suffix).
 *
 * The order: lane = index mod 32 combines ascending from the identity; then the tree 16, 8, 4, 2, 1 (lane i with lane
 * i + step). More than BLOCK elements: each block so, then the results of the blocks by the same rule. A lane that got
 * no element holds the identity, and combining with it changes no bit, so such lanes may be left out: a sum starts
 * from +0 and therefore never is -0. */

#ifndef WFI_KERNEL_FOLD_ONCE
#define WFI_KERNEL_FOLD_ONCE
#include "kernel/reduce/vec_ops.h"
#include "kernel/vmath.h"
enum { LANES = 32, BLOCK = 65536 };
typedef enum fold_op { OP_SUM, OP_SQUARES, OP_PROD, OP_MAX, OP_MIN, OP_OR, OP_AND, OP_COUNT } fold_op;
#define FOLD_VEC_BYTES (WFI_LANES * 4)
#endif

enum { FN(VN) = FOLD_VEC_BYTES / sizeof(FT), FN(NV) = LANES / FN(VN) };
typedef FT FN(vec) __attribute__((vector_size(FOLD_VEC_BYTES)));
typedef FT FN(loose) __attribute__((vector_size(FOLD_VEC_BYTES), aligned(sizeof(FT)), may_alias));
typedef FI FN(mask) __attribute__((vector_size(FOLD_VEC_BYTES)));
typedef FT FN(loose8) __attribute__((vector_size(8 * sizeof(FT)), aligned(sizeof(FT)), may_alias));
typedef FT FN(loose4) __attribute__((vector_size(4 * sizeof(FT)), aligned(sizeof(FT)), may_alias));

WFI_INLINE FN(vec) FN(ld)(const FT *p)
{
    return *(const FN(loose) *)p;
}
WFI_INLINE void FN(st)(FT *p, FN(vec) v)
{
    *(FN(loose) *)p = v;
}
WFI_INLINE FN(vec) FN(splat)(FT x)
{
    return x - (FN(vec)){ 0 }; /* x - 0 is x for every x, also for -0 */
}
WFI_INLINE FN(vec) FN(pick)(FN(mask) m, FN(vec) a, FN(vec) b)
{
    return (FN(vec))((m & (FN(mask))a) | (~m & (FN(mask))b));
}

#ifndef FOLD_INT
/* NaN wins, and +0 is above -0, as in the element-wise maximum: so their order does not matter. */
WFI_INLINE FN(vec) FN(vmax)(FN(vec) a, FN(vec) x)
{
    FN(vec) both = (FN(vec))((FN(mask))a & (FN(mask))x);
    return FN(pick)(x == a, both, FN(pick)((x > a) | (x != x), x, a));
}
WFI_INLINE FN(vec) FN(vmin)(FN(vec) a, FN(vec) x)
{
    FN(vec) both = (FN(vec))((FN(mask))a | (FN(mask))x);
    return FN(pick)(x == a, both, FN(pick)((x < a) | (x != x), x, a));
}
#endif

WFI_INLINE FN(vec) FN(comb)(fold_op op, FN(vec) a, FN(vec) x)
{
#ifdef FOLD_INT
    typedef uint64_t wrap __attribute__((vector_size(FOLD_VEC_BYTES)));
    switch (op) {
    case OP_SUM: return (FN(vec))((wrap)a + (wrap)x);
    case OP_SQUARES: return (FN(vec))((wrap)a + (wrap)x * (wrap)x);
    case OP_PROD: return (FN(vec))((wrap)a * (wrap)x);
    case OP_MAX: return FN(pick)(x > a, x, a);
    case OP_MIN: return FN(pick)(x < a, x, a);
    case OP_OR: return a | x;
    default: return a & x;
    }
#else
    switch (op) {
    case OP_SUM: return a + x;
    case OP_SQUARES: return a + x * x;
    case OP_PROD: return a * x;
    case OP_MAX: return FN(vmax)(a, x);
    default: return FN(vmin)(a, x);
    }
#endif
}

WFI_INLINE FT FN(comb1)(fold_op op, FT a, FT x)
{
#ifdef FOLD_INT
    switch (op) {
    case OP_SUM: return (FT)((uint64_t)a + (uint64_t)x);
    case OP_SQUARES: return (FT)((uint64_t)a + (uint64_t)x * (uint64_t)x);
    case OP_PROD: return (FT)((uint64_t)a * (uint64_t)x);
    case OP_MAX: return x > a ? x : a;
    case OP_MIN: return x < a ? x : a;
    case OP_OR: return a | x;
    default: return a & x;
    }
#else
    switch (op) {
    case OP_SUM: return a + x;
    case OP_SQUARES: return a + x * x;
    case OP_PROD: return a * x;
    case OP_MAX: return FN(wfi_max)(a, x);
    default: return FN(wfi_min)(a, x);
    }
#endif
}

WFI_INLINE FT FN(identity)(fold_op op)
{
    switch (op) {
    case OP_PROD:
    case OP_AND: return 1;
#ifdef FOLD_INT
    case OP_MAX: return INT64_MIN;
    case OP_MIN: return INT64_MAX;
#else
    case OP_MAX: return (FT)-__builtin_inff();
    case OP_MIN: return (FT)__builtin_inff();
#endif
    default: return 0;
    }
}

/* acc: FT[32]; x: FT[32 * groups]. */
WFI_INLINE void FN(groups)(fold_op op, FT *acc, const FT *x, int64_t groups)
{
    FN(vec) a[FN(NV)];
    for (int k = 0; k < FN(NV); k++) {
        a[k] = FN(ld)(acc + k * FN(VN));
    }
    for (int64_t g = 0; g < groups; g++, x += LANES) {
        for (int k = 0; k < FN(NV); k++) {
            a[k] = FN(comb)(op, a[k], FN(ld)(x + k * FN(VN)));
        }
    }
    for (int k = 0; k < FN(NV); k++) {
        FN(st)(acc + k * FN(VN), a[k]);
    }
}

#ifndef FOLD_INT
/* The tree of a sum over 32 lanes. */
WFI_INLINE FT FN(sum_tree)(const FT *a)
{
    FT t[8];
    const FN(loose8) *v = (const FN(loose8) *)a;
    *(FN(loose8) *)t = (v[0] + v[2]) + (v[1] + v[3]);
    FN(loose4) w = *(const FN(loose4) *)t + *(const FN(loose4) *)(t + 4);
    return (w[0] + w[2]) + (w[1] + w[3]);
}
#endif

/* The tree over 32 lanes. */
WFI_INLINE FT FN(tree)(fold_op op, FT *a)
{
#ifndef FOLD_INT
    if (op == OP_SUM) {
        return FN(sum_tree)(a);
    }
#endif
    for (int s = LANES / 2; s >= 1; s /= 2) {
        for (int i = 0; i < s; i++) {
            a[i] = FN(comb1)(op, a[i], a[i + s]);
        }
    }
    return a[0];
}

/* The first n elements of a vector at p, the others are those of v. */
WFI_INLINE FN(vec) FN(part_of)(const FT *p, int64_t n, FN(vec) v)
{
    FT t[FN(VN)];
    FN(st)(t, v);
    for (int64_t i = 0; i < n && i < FN(VN); i++) {
        t[i] = p[i];
        __asm__("" ::: "memory"); /* else it becomes a call of memcpy, which costs more than the copy */
    }
    return FN(ld)(t);
}

/* n <= BLOCK elements that lie side by side. */
WFI_INLINE FT FN(block)(fold_op op, fold_op tree_op, const FT *x, int64_t n)
{
    FT acc[LANES];
    FN(vec) a[FN(NV)], id = FN(splat)(FN(identity)(op));
    for (int k = 0; k < FN(NV); k++) {
        a[k] = id;
    }
    for (; n >= LANES; n -= LANES, x += LANES) {
        for (int k = 0; k < FN(NV); k++) {
            a[k] = FN(comb)(op, a[k], FN(ld)(x + k * FN(VN)));
        }
    }
    for (int k = 0; k < FN(NV) && n; k++) {
        a[k] = FN(comb)(op, a[k], FN(PART)(x + k * FN(VN), n - k * FN(VN), id));
    }
    for (int k = 0; k < FN(NV); k++) {
        FN(st)(acc + k * FN(VN), a[k]);
    }
    return FN(tree)(tree_op, acc);
}

/* Results of blocks, part: FT[n], n >= 1, overwritten. */
static inline FT FN(parts)(fold_op op, FT *part, int64_t n)
{
    while (n > 1) {
        int64_t m = 0;
        for (int64_t i = 0; i < n; i += BLOCK) {
            part[m++] = FN(block)(op, op, part + i, least(BLOCK, n - i));
        }
        n = m;
    }
    return part[0];
}

/* acc: FT[32][pitch], rows of w <= pitch; rows i = 0 .. rows-1 of x lie `step` bytes apart, row i belongs to lane
 * (lane + i) mod 32. */
WFI_INLINE void FN(columns)(fold_op op, FT *acc, int64_t pitch, int64_t lane, const char *x, int64_t step, int64_t w,
                            int64_t rows)
{
    for (int64_t i = 0; i < rows; i++, x += step) {
        FT *a = acc + ((lane + i) & (LANES - 1)) * pitch;
        const FT *b = (const FT *)(const void *)x;
        int64_t j = 0;
        for (; j + FN(VN) <= w; j += FN(VN)) {
            FN(st)(a + j, FN(comb)(op, FN(ld)(a + j), FN(ld)(b + j)));
        }
        for (; j < w; j++) {
            a[j] = FN(comb1)(op, a[j], b[j]);
        }
    }
}

/* The tree over the first `lanes` rows of acc; the result is row 0. */
WFI_INLINE void FN(column_tree)(fold_op op, FT *acc, int64_t pitch, int64_t lanes, int64_t w)
{
    for (int64_t s = LANES / 2; s >= 1; s /= 2) {
        int64_t rows = least(s, lanes - s);
        for (int64_t i = 0; i < rows; i++) {
            FN(columns)(op, acc + i * pitch, pitch, 0, (const char *)(acc + (i + s) * pitch), 0, w, 1);
        }
    }
}

/* The tree over rows <= LANES lanes, a vector or a number each. */
#define FOLD_THIN_TREE(COMB)                                                                                           \
    for (int64_t s = LANES / 2; s >= 1; s /= 2) {                                                                      \
        for (int64_t i = 0; i < least(s, rows - s); i++) {                                                             \
            a[i] = COMB(tree_op, a[i], a[i + s]);                                                                      \
        }                                                                                                              \
    }

/* At most eight rows: registers are enough. Lanes without a row hold the identity, which changes no bit. n: columns
 * that there are, at most a vector of them. */
WFI_INLINE FN(vec) FN(thin8)(fold_op op, fold_op tree_op, const char *x, int64_t step, int64_t n, int64_t rows)
{
    const FN(vec) id = FN(splat)(FN(identity)(op));
    FN(vec) a[8];
    for (int i = 0; i < 8; i++) {
        const FT *at = (const FT *)(const void *)(x + i * step);
        a[i] = i >= rows ? id : FN(comb)(op, id, n == FN(VN) ? FN(ld)(at) : FN(PART)(at, n, id));
    }
    for (int s = 4; s >= 1; s /= 2) {
        for (int i = 0; i < s; i++) {
            a[i] = FN(comb)(tree_op, a[i], a[i + s]);
        }
    }
    return a[0];
}

/* Results y: FT[w] of a few columns: rows i = 0 .. rows-1 <= LANES of x, each `step` bytes apart, are a lane each. */
WFI_INLINE void FN(thin)(fold_op op, fold_op tree_op, FT *y, const char *x, int64_t step, int64_t w, int64_t rows)
{
    int64_t j = 0;
    for (; rows <= 8 && j + FN(VN) <= w; j += FN(VN), x += FOLD_VEC_BYTES) {
        FN(st)(y + j, FN(thin8)(op, tree_op, x, step, FN(VN), rows));
    }
    for (; j + FN(VN) <= w; j += FN(VN), x += FOLD_VEC_BYTES) {
        FN(vec) a[LANES], id = FN(splat)(FN(identity)(op));
        for (int64_t i = 0; i < rows; i++) {
            a[i] = FN(comb)(op, id, FN(ld)((const FT *)(const void *)(x + i * step)));
        }
        FOLD_THIN_TREE(FN(comb))
        FN(st)(y + j, a[0]);
    }
    if (rows <= 8 && j < w) {
        const FN(vec) last = FN(thin8)(op, tree_op, x, step, w - j, rows);
        for (int64_t i = 0; j < w; i++, j++) {
            y[j] = last[i];
        }
    }
    for (; j < w; j++, x += sizeof(FT)) {
        FT a[LANES];
        for (int64_t i = 0; i < rows; i++) {
            a[i] = FN(comb1)(op, FN(identity)(op), *(const FT *)(const void *)(x + i * step));
        }
        FOLD_THIN_TREE(FN(comb1))
        y[j] = a[0];
    }
}
#undef FOLD_THIN_TREE
