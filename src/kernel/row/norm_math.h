/* norm_math.h - mean and deviation of a row. Included after row_math.h with the same FT, FI, FN. */

/* h = (x - mean) * rstd is fma(x - first, rstd, shift): first is the rounded mean, shift = -(mean - first) * rstd. */
typedef struct FN(moments) {
    FT first, rstd, shift;
    FT mean;
    bool wide; /* the row left the range of FT: use these */
    double mean_wide, rstd_wide;
} FN(moments);

/* The same in f64, for rows whose squares overflow or underflow in f32. */
static void FN(moments_wide)(FN(moments) * r, const FT *x, int64_t n, double eps)
{
    double mean = 0, d1 = 0, d2 = 0, lane[LANES];
    for (int pass = 0; pass < 3; pass++) {
        for (int k = 0; k < LANES; k++) {
            lane[k] = 0;
        }
        for (int64_t i = 0; i < n; i++) {
            double d = (double)x[i] - mean;
            lane[i % LANES] += pass < 2 ? d : d * d;
        }
        for (int s = LANES / 2; s >= 1; s /= 2) {
            for (int k = 0; k < s; k++) {
                lane[k] += lane[k + s];
            }
        }
        if (pass == 0) {
            mean = lane[0] / (double)n;
        } else if (pass == 1) {
            d1 = lane[0];
        } else {
            d2 = lane[0];
        }
    }
    double variance = (d2 - d1 * (d1 / (double)n)) / (double)n;
    r->wide = true;
    r->mean_wide = mean + d1 / (double)n;
    r->rstd_wide = 1 / __builtin_sqrt((variance > 0 || variance != variance ? variance : 0) + eps);
    r->mean = (FT)r->mean_wide;
    r->rstd = (FT)r->rstd_wide;
}

/* d1 = sum(x - first), d2 = sum((x - first)^2) */
WFI_INLINE void FN(deviations)(const FT *x, int64_t n, FT first, FT *part, int64_t part_room, const FT *next, FT *d1,
                               FT *d2)
{
    FT group[LANES];
    int64_t blocks = 0;
    FN(vec) mv = FN(splat)(first);
    FT *part2 = part + part_room;
    part[0] = part2[0] = 0;
    for (int64_t i = 0; i < n; blocks++) {
        int64_t end = least(n, i + BLOCK);
        FN(lanes) a = { { { 0 } } }, b = { { { 0 } } };
        for (; i < end; i += LANES) {
            const FT *from = end - i < LANES ? FN(padded)(group, x + i, end - i, first) : x + i;
            if (next) {
                FN(fetch)(next + i);
            }
            for (int k = 0; k < FN(NV); k++) {
                FN(vec) d = FN(ld)(from + k * FN(VN)) - mv;
                a.v[k] += d;
                b.v[k] = FN(FMA)(d, d, b.v[k]);
            }
        }
        part[blocks] = FN(lanes_sum)(&a);
        part2[blocks] = FN(lanes_sum)(&b);
    }
    *d1 = FN(parts)(OP_SUM, part, blocks);
    *d2 = FN(parts)(OP_SUM, part2, blocks);
}

/* From the sums of the deviations from r->first */
WFI_INLINE void FN(moments_end)(FN(moments) * r, const FT *x, int64_t n, double eps, FT d1, FT d2)
{
    FT count = (FT)n, off = d1 / count, variance = (d2 - d1 * off) / count;
    variance = (variance > 0 ? variance : 0) + (FT)eps;
    r->wide = false;
    r->rstd = 1 / FN(wfi_sqrt)(variance);
    r->shift = -(off * r->rstd);
    r->mean = r->first + off;
    if (sizeof(FT) == 4 && !(d2 < (FT)3e38 && variance > (FT)1e-30)) {
        FN(moments_wide)(r, x, n, eps);
    }
}

/* x: FT[n], n >= 1; part: room for two results a block, part_room each. */
WFI_INLINE void FN(moments_of)(FN(moments) * r, const FT *x, int64_t n, double eps, FT *part, int64_t part_room,
                               const FT *next)
{
    FT d1, d2;
    r->first = FN(row_sum)(x, n, 0, part, NULL) / (FT)n;
    FN(deviations)(x, n, r->first, part, part_room, next, &d1, &d2);
    FN(moments_end)(r, x, n, eps, d1, d2);
}

/* h of n elements of a wide row */
static void FN(standard_wide)(FT *h, const FT *x, int64_t n, const FN(moments) * r)
{
    for (int64_t i = 0; i < n; i++) {
        h[i] = (FT)(((double)x[i] - r->mean_wide) * r->rstd_wide);
    }
}

/* h of n elements; may lie on x */
static void FN(standard)(FT *h, const FT *x, int64_t n, const FN(moments) * r)
{
    if (r->wide) {
        FN(standard_wide)(h, x, n, r);
        return;
    }
    FN(vec) first = FN(splat)(r->first), rstd = FN(splat)(r->rstd), shift = FN(splat)(r->shift);
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(st)(h + i, FN(FMA)(FN(ld)(x + i) - first, rstd, shift));
    }
    for (; i < n; i++) {
        h[i] = FN(SCALAR_FMA)(x[i] - r->first, r->rstd, r->shift);
    }
}
