/* norm_together.h - moments of several rows at once: one alone waits for its own chains of additions, not for the
 * adders. With the many registers of AVX-512. Included after norm_math.h with the same FT, FI, FN.
 *
 * `rows` is a constant in each use, even, and at most MOST_TOGETHER. */

/* Rows that came before and are written meanwhile, so that memory is never idle (y NULL: none). */
typedef struct FN(late) {
    FT *y[MOST_TOGETHER];
    const FT *x[MOST_TOGETHER], *gamma, *beta;
    FN(vec) first[MOST_TOGETHER], rstd[MOST_TOGETHER], shift[MOST_TOGETHER];
} FN(late);

/* The elements from i on, a group or the last `left` < 32 of them, of half of the rows. */
WFI_INLINE void FN(write_late)(const FN(late) * o, int rows, int half, int64_t i, int64_t left)
{
    const int from = half * rows / 2;
    WFI_UNROLL for (int k = 0; k < FN(NV); k++)
    {
        int64_t at = i + k * FN(VN);
        if (k * FN(VN) >= left) {
            break;
        }
        FN(vec) g = FN(ld)(o->gamma + at), b = FN(ld)(o->beta + at);
        WFI_UNROLL for (int q = from; q < from + rows / 2; q++) FN(STREAM)(
            o->y[q] + at, FN(FMA)(FN(FMA)(FN(ld)(o->x[q] + at) - o->first[q], o->rstd[q], o->shift[q]), g, b));
    }
}

/* One group of each row is added up: x itself, or deviations from `first` and their squares. left: elements from x on.
 */
WFI_INLINE void FN(add_together)(FN(lanes) * a, const FT *const *x, int rows, int64_t at, int64_t left)
{
    WFI_UNROLL for (int q = 0; q < rows; q++) WFI_UNROLL for (int k = 0; k < FN(NV); k++)
    {
        const FT *p = x[q] + at + k * FN(VN);
        a[q].v[k] += left >= LANES ? FN(ld)(p) : FN(PART)(p, left - k * FN(VN), FN(splat)(0));
    }
}
WFI_INLINE void FN(deviate_together)(FN(lanes) * a, FN(lanes) * b, const FN(vec) * first, const FT *const *x, int rows,
                                     int64_t at, int64_t left)
{
    WFI_UNROLL for (int q = 0; q < rows; q++) WFI_UNROLL for (int k = 0; k < FN(NV); k++)
    {
        const FT *p = x[q] + at + k * FN(VN);
        FN(vec) d = (left >= LANES ? FN(ld)(p) : FN(PART)(p, left - k * FN(VN), first[q])) - first[q];
        a[q].v[k] += d;
        b[q].v[k] = FN(FMA)(d, d, b[q].v[k]);
    }
}
/* Half of the rows that follow these at the same distance; if they lie elsewhere, nothing is lost. */
WFI_INLINE void FN(fetch_together)(const FT *const *x, int rows, int half, int64_t i)
{
    const uintptr_t after = (uintptr_t)rows * ((uintptr_t)x[1] - (uintptr_t)x[0]);
    const int from = half * rows / 2;
    WFI_UNROLL for (int q = from; q < from + rows / 2; q++) FN(fetch)((const void *)((uintptr_t)(x[q] + i) + after));
}

/* moments_of several rows of at most BLOCK elements. */
WFI_INLINE void FN(moments_together)(FN(moments) * r, const FT *const *x, int rows, int64_t n, double eps,
                                     const FN(late) * late)
{
    FN(lanes) a[MOST_TOGETHER], b[MOST_TOGETHER];
    FN(vec) first[MOST_TOGETHER];
    WFI_UNROLL for (int q = 0; q < rows; q++) a[q] = (FN(lanes)){ { { 0 } } };
    for (int64_t i = 0; i < n; i += LANES) {
        FN(add_together)(a, x, rows, i, n - i);
        FN(fetch_together)(x, rows, 0, i);
        if (late) {
            FN(write_late)(late, rows, 0, i, n - i);
        }
    }
    WFI_UNROLL for (int q = 0; q < rows; q++)
    {
        r[q].first = FN(lanes_sum)(&a[q]) / (FT)n;
        first[q] = FN(splat)(r[q].first);
        a[q] = b[q] = (FN(lanes)){ { { 0 } } };
    }
    for (int64_t i = 0; i < n; i += LANES) {
        FN(deviate_together)(a, b, first, x, rows, i, n - i);
        FN(fetch_together)(x, rows, 1, i);
        if (late) {
            FN(write_late)(late, rows, 1, i, n - i);
        }
    }
    WFI_UNROLL for (int q = 0; q < rows; q++)
        FN(moments_end)(&r[q], x[q], n, eps, FN(lanes_sum)(&a[q]), FN(lanes_sum)(&b[q]));
}
