/* optim_kernels.h - optimiser steps on a line, for one compute type. Included after fold.h and vec_ops.h with the same
 * FT, FI, FN. The scalar code at the end of a line does what the vectors do, operation by operation. */

/* x / by has the bits of x * (1 / by) where `by` is a power of two, as most batches are: no bit is lost in either. */
typedef struct FN(share) {
    FT by, inverse;
    bool exact;
} FN(share);

static FN(share) FN(share_of)(double weight)
{
    const FT by = (FT)weight, inverse = 1 / by;
    const FI mantissa = sizeof(FT) == 4 ? (FI)0x7fffff : (FI)0xfffffffffffff, huge = sizeof(FT) == 4 ? 254 : 2046;
    FI bits;
    memcpy(&bits, &by, sizeof bits);
    const FI power = bits / (mantissa + 1);
    return (FN(share)){ by, inverse, (bits & mantissa) == 0 && power > 0 && power < huge - 1 };
}

static void FN(adamw)(const line *l, const double *s, double weight)
{
    const FT *w = l->at[3], *m = l->at[4], *v = l->at[5], *g = l->at[6];
    FT *w2 = l->at[0], *m2 = l->at[1], *v2 = l->at[2];
    const FT keep = (FT)(1 - s[0] * s[4]), c1 = (FT)(1 - s[1]), b2 = (FT)s[2], c2 = (FT)(1 - s[2]), eps = (FT)s[3];
    const FT step = (FT)(-s[0] / s[5]), root = (FT)(1 / __builtin_sqrt(s[6]));
    const FN(share) share = FN(share_of)(weight);
    const int64_t n = l->n; /* the stores might change l, for all that the compiler knows */
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(vec) a = FN(ld)(m + i), b = FN(ld)(v + i), d = FN(ld)(g + i), p = FN(ld)(w + i);
        d = share.exact ? d * FN(splat)(share.inverse) : d / FN(splat)(share.by);
        a = FN(FMA)(d - a, FN(splat)(c1), a);
        b = FN(FMA)(b, FN(splat)(b2), FN(splat)(c2) * (d * d));
        FN(vec) q = a / FN(FMA)(FN(SQRT)(b), FN(splat)(root), FN(splat)(eps));
        FN(st)(m2 + i, a);
        FN(st)(v2 + i, b);
        FN(st)(w2 + i, FN(FMA)(q, FN(splat)(step), p * FN(splat)(keep)));
    }
    for (; i < n; i++) {
        FT a = m[i], b = v[i], d = g[i], p = w[i];
        d = share.exact ? d * share.inverse : d / share.by;
        a = FN(SCALAR_FMA)(d - a, c1, a);
        b = FN(SCALAR_FMA)(b, b2, c2 * (d * d));
        m2[i] = a;
        v2[i] = b;
        w2[i] = FN(SCALAR_FMA)(a / FN(SCALAR_FMA)(FN(wfi_sqrt)(b), root, eps), step, p * keep);
    }
}

WFI_INLINE void FN(sgd)(const line *l, const double *s, double weight, bool momentum, bool nesterov)
{
    const FT *w = l->at[2], *m = l->at[3], *g = l->at[4];
    FT *w2 = l->at[0], *m2 = l->at[1];
    const FT step = (FT)-s[0], mu = (FT)s[1], decay = (FT)s[2];
    const FN(share) share = FN(share_of)(weight);
    const int64_t n = l->n; /* the stores might change l, for all that the compiler knows */
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(vec) d = FN(ld)(g + i), p = FN(ld)(w + i);
        d = share.exact ? d * FN(splat)(share.inverse) : d / FN(splat)(share.by);
        d = FN(FMA)(p, FN(splat)(decay), d);
        if (momentum) {
            FN(vec) b = FN(FMA)(FN(ld)(m + i), FN(splat)(mu), d);
            FN(st)(m2 + i, b);
            d = nesterov ? FN(FMA)(b, FN(splat)(mu), d) : b;
        }
        FN(st)(w2 + i, FN(FMA)(d, FN(splat)(step), p));
    }
    for (; i < n; i++) {
        FT d = g[i], p = w[i];
        d = share.exact ? d * share.inverse : d / share.by;
        d = FN(SCALAR_FMA)(p, decay, d);
        if (momentum) {
            FT b = FN(SCALAR_FMA)(m[i], mu, d);
            m2[i] = b;
            d = nesterov ? FN(SCALAR_FMA)(b, mu, d) : b;
        }
        w2[i] = FN(SCALAR_FMA)(d, step, p);
    }
}

static void FN(step)(const params *p, const line *l, const double *s, double weight)
{
    if (p->kind == WFI_OPTIM_ADAMW) {
        FN(adamw)(l, s, weight);
    } else if (!p->momentum) {
        FN(sgd)(l, s, weight, false, false);
    } else if (p->nesterov) {
        FN(sgd)(l, s, weight, true, true);
    } else {
        FN(sgd)(l, s, weight, true, false);
    }
}
