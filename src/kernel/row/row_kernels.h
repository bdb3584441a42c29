/* row_kernels.h - one row of each kind. Included after norm_math.h with the same FT, FI, FN.
 *
 * Loops over whole vectors end with the same arithmetic on single elements; BOTH_WAYS makes a loop that writes past the
 * caches and one that does not. */
#ifndef BOTH_WAYS
#define BOTH_WAYS(call, ...) (c->stream ? call(__VA_ARGS__, true) : call(__VA_ARGS__, false))
#endif

WFI_INLINE void FN(scale_out)(FT *y, const FT *e, int64_t n, FT s, bool stream)
{
    FN(vec) sv = FN(splat)(s);
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int k = 0; k < FN(NV); k++) {
            FN(out)(y + i + k * FN(VN), FN(ld)(e + i + k * FN(VN)) * sv, stream);
        }
    }
    for (; i < n; i++) {
        y[i] = e[i] * s;
    }
}

static void FN(softmax)(const row *c)
{
    const FT *x = c->at[1];
    FT *e = c->e, *y = c->at[0];
    FT s = 1 / FN(exp_sum)(e, x, c->n, FN(row_max)(x, c->n), c->part, c->next[1], true);
    BOTH_WAYS(FN(scale_out), y, e, c->n, s);
}

WFI_INLINE void FN(softmax_grad_out)(FT *dx, const FT *y, const FT *dy, int64_t n, FT s, bool stream)
{
    FN(vec) sv = FN(splat)(s);
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(out)(dx + i, FN(ld)(y + i) * (FN(ld)(dy + i) - sv), stream);
    }
    for (; i < n; i++) {
        dx[i] = y[i] * (dy[i] - s);
    }
}

static void FN(softmax_grad)(const row *c)
{
    const FT *y = c->at[1], *dy = c->at[2];
    FT *dx = c->at[0], s = FN(row_dot)(dy, y, c->n, c->part, c->next[2], c->next[1]);
    BOTH_WAYS(FN(softmax_grad_out), dx, y, dy, c->n, s);
}

WFI_INLINE void FN(minus_out)(FT *y, const FT *x, int64_t n, FT m, FT l, bool stream)
{
    FN(vec) mv = FN(splat)(m), lv = FN(splat)(l);
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(out)(y + i, (FN(ld)(x + i) - mv) - lv, stream);
    }
    for (; i < n; i++) {
        y[i] = (x[i] - m) - l;
    }
}

static void FN(log_softmax)(const row *c)
{
    const FT *x = c->at[1];
    FT *y = c->at[0], m = FN(row_max)(x, c->n);
    FT l = FN(wfi_log)(FN(exp_sum)(NULL, x, c->n, m, c->part, c->next[1], false));
    BOTH_WAYS(FN(minus_out), y, x, c->n, m, l);
}

static void FN(log_softmax_grad)(const row *c)
{
    const FT *y = c->at[1], *dy = c->at[2];
    FT *dx = c->at[0], s = FN(row_sum)(dy, c->n, 0, c->part, c->next[2]);
    for (int64_t i = 0; i < c->n; i += LANES) {
        FT t[LANES];
        int64_t n = least(LANES, c->n - i);
        if (c->next[1]) {
            FN(fetch)((const FT *)c->next[1] + i);
        }
        FN(padded)(t, y + i, n, 0);
        for (int k = 0; k < LANES; k++) {
            t[k] = FN(wfi_exp)(t[k]);
        }
        for (int64_t k = 0; k < n; k++) {
            dx[i + k] = dy[i + k] - t[k] * s;
        }
    }
}

/* The loss of a row whose label counts. */
static void FN(xent)(const row *c)
{
    const FT *x = c->at[2];
    FT m = FN(row_max)(x, c->n), a = (FT)c->p->smoothing;
    FT l = FN(wfi_log)(FN(exp_sum)(NULL, x, c->n, m, c->part, c->next[2], false));
    FT loss = l - (x[c->label] - m);
    if (a > 0) {
        loss = (1 - a) * loss + a * (l - FN(row_sum)(x, c->n, m, c->part, NULL) / (FT)c->n);
    }
    *(FT *)c->at[0] = loss;
}

static void FN(xent_grad)(const row *c)
{
    const FT *x = c->at[1];
    FT *e = c->e, *dx = c->at[0], g = *(const FT *)c->at[3], a = (FT)c->p->smoothing, low = a / (FT)c->n;
    if (g == 0) {
        memset(dx, 0, (size_t)c->n * sizeof(FT));
        return;
    }
    FT s = FN(exp_sum)(e, x, c->n, FN(row_max)(x, c->n), c->part, c->next[1], true);
    s = 1 / s;
    FN(vec) sv = FN(splat)(s), lv = FN(splat)(low), gv = FN(splat)(g);
    int64_t i = 0;
    for (; i + FN(VN) <= c->n; i += FN(VN)) {
        FN(st)(dx + i, (FN(ld)(e + i) * sv - lv) * gv);
    }
    for (; i < c->n; i++) {
        dx[i] = (e[i] * s - low) * g;
    }
    dx[c->label] = (e[c->label] * s - low - (1 - a)) * g;
}

/* y = h * gamma + beta */
WFI_INLINE void FN(norm_out)(FT *y, const FT *x, const FT *gamma, const FT *beta, int64_t n, const FN(moments) * r,
                             bool stream)
{
    FN(vec) first = FN(splat)(r->first), rstd = FN(splat)(r->rstd), shift = FN(splat)(r->shift);
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(vec) h = FN(FMA)(FN(ld)(x + i) - first, rstd, shift);
        if (gamma && beta) {
            h = FN(FMA)(h, FN(ld)(gamma + i), FN(ld)(beta + i));
        } else if (gamma) {
            h = h * FN(ld)(gamma + i);
        } else if (beta) {
            h = h + FN(ld)(beta + i);
        }
        FN(out)(y + i, h, stream);
    }
    for (; i < n; i++) {
        FT h = FN(SCALAR_FMA)(x[i] - r->first, r->rstd, r->shift);
        y[i] = gamma && beta ? FN(SCALAR_FMA)(h, gamma[i], beta[i]) : gamma ? h * gamma[i] : beta ? h + beta[i] : h;
    }
}

/* A wide row: h is made in f64. */
static void FN(norm_wide)(const row *c, const FN(moments) * r)
{
    const FT *gamma = c->at[4], *beta = c->at[5];
    FT *y = c->at[0];
    FN(standard_wide)(y, c->at[3], c->n, r);
    for (int64_t i = 0; i < c->n; i++) {
        FT h = y[i];
        y[i] = gamma && beta ? FN(SCALAR_FMA)(h, gamma[i], beta[i]) : gamma ? h * gamma[i] : beta ? h + beta[i] : h;
    }
}

static void FN(norm)(const row *c)
{
    const FT *x = c->at[3], *gamma = c->at[4], *beta = c->at[5];
    FT *y = c->at[0];
    FN(moments) r;
    FN(moments_of)(&r, x, c->n, c->p->eps, c->part, c->part_room, c->next[3]);
    *(FT *)c->at[1] = r.mean;
    *(FT *)c->at[2] = r.rstd;
    if (r.wide) {
        FN(norm_wide)(c, &r);
    } else if (gamma && beta) {
        BOTH_WAYS(FN(norm_out), y, x, gamma, beta, c->n, &r);
    } else if (gamma) {
        FN(norm_out)(y, x, gamma, NULL, c->n, &r, false);
    } else if (beta) {
        FN(norm_out)(y, x, NULL, beta, c->n, &r, false);
    } else {
        BOTH_WAYS(FN(norm_out), y, x, NULL, NULL, c->n, &r);
    }
}

/* g = dy * gamma and its two sums, the second with h; g is written if gamma is there. */
WFI_INLINE void FN(norm_sums)(const row *c, FT *g, const FT *dy, const FT *gamma, const FT *h, FT *a, FT *b)
{
    for (int64_t i = 0; i < c->n && gamma; i += LANES) {
        FT group[2][LANES];
        int64_t n = least(LANES, c->n - i);
        const FT *p = n < LANES ? FN(padded)(group[0], dy + i, n, 0) : dy + i;
        const FT *q = n < LANES ? FN(padded)(group[1], gamma + i, n, 0) : gamma + i;
        for (int k = 0; k < FN(NV); k++) {
            FN(st)(g + i + k * FN(VN), FN(ld)(p + k * FN(VN)) * FN(ld)(q + k * FN(VN)));
        }
    }
    const FT *from = gamma ? g : dy;
    *a = FN(row_sum)(from, c->n, 0, c->part, c->next[3]) / (FT)c->n;
    *b = FN(row_dot)(from, h, c->n, c->part, NULL, NULL) / (FT)c->n;
}

/* dx = rstd * (g - a - h * b) */
WFI_INLINE void FN(norm_grad_out)(FT *dx, const FT *g, const FT *h, int64_t n, FT rstd, FT a, FT b, bool stream)
{
    FN(vec) av = FN(splat)(a), bv = FN(splat)(-b), rv = FN(splat)(rstd);
    int64_t i = 0;
    for (; i + FN(VN) <= n; i += FN(VN)) {
        FN(out)(dx + i, FN(FMA)(FN(ld)(h + i), bv, FN(ld)(g + i) - av) * rv, stream);
    }
    for (; i < n; i++) {
        dx[i] = FN(SCALAR_FMA)(h[i], -b, g[i] - a) * rstd;
    }
}

static void FN(norm_grad)(const row *c)
{
    const FT *x = c->at[1], *gamma = c->at[2], *dy = c->at[3];
    FT *dx = c->at[0], *h = c->e, *g = h + c->pitch, a, b;
    FN(moments) r;
    FN(moments_of)(&r, x, c->n, c->p->eps, c->part, c->part_room, c->next[1]);
    FN(standard)(h, x, c->n, &r);
    FN(norm_sums)(c, g, dy, gamma, h, &a, &b);
    BOTH_WAYS(FN(norm_grad_out), dx, gamma ? g : dy, h, c->n, r.rstd, a, b);
}
