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

/* m = max(x), which the row before may have found, and sum(exp(x - m)); x is operand `slot`, e as in exp_sum. late: the
 * row before left its result to be written meanwhile. */
WFI_INLINE FT FN(max_and_exps)(const row *c, int slot, FT *e, FT *m, bool late)
{
    const FT *x = c->at[slot], *next = c->next[slot];
    FN(beside) b = { .next = next, .after = 2 * (uintptr_t)next - (uintptr_t)x };
    for (int k = 0; k < FN(NV); k++) {
        b.top.v[k] = FN(splat)((FT)-__builtin_inff());
    }
    if (late) {
        b.y = c->carry->owed->y, b.e = c->carry->owed->from, b.scale = FN(splat)((FT)c->carry->owed->scale);
    }
    *m = c->carry->of == x ? (FT)c->carry->max : FN(row_max)(x, c->n);
    FT s = FN(exp_sum)(e, x, c->n, *m, c->part, &b, e != NULL);
    c->carry->of = next, c->carry->max = next ? (double)FN(lanes_top)(&b.top) : 0;
    return s;
}

static void FN(softmax)(const row *c)
{
    FT *y = c->at[0], *e = c->e, m;
    owed *o = c->carry->owed;
    e += o->from == e ? c->pitch : 0;
    FT s = 1 / FN(max_and_exps)(c, 1, e, &m, true);
    o->y = NULL;
    if (c->stream) {
        *o = (owed){ .y = y, .from = e, .scale = (double)s };
    } else {
        FN(scale_out)(y, e, c->n, s, false);
    }
}
static void FN(softmax_settle)(const row *c, const owed *o)
{
    FN(scale_out)(o->y, o->from, c->n, (FT)o->scale, true);
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
    FT *y = c->at[0], m, l = FN(wfi_log)(FN(max_and_exps)(c, 1, NULL, &m, false));
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
    FT m, l = FN(wfi_log)(FN(max_and_exps)(c, 2, NULL, &m, false)), a = (FT)c->p->smoothing;
    FT loss = l - (x[c->label] - m);
    if (a > 0) {
        loss = (1 - a) * loss + a * (l - FN(row_sum)(x, c->n, m, c->part, NULL) / (FT)c->n);
    }
    *(FT *)c->at[0] = loss;
}

static void FN(xent_grad)(const row *c)
{
    FT *e = c->e, *dx = c->at[0], m, g = *(const FT *)c->at[3], a = (FT)c->p->smoothing, low = a / (FT)c->n;
    if (g == 0) {
        memset(dx, 0, (size_t)c->n * sizeof(FT));
        return;
    }
    FT s = 1 / FN(max_and_exps)(c, 1, e, &m, false);
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

static void FN(norm_end)(const row *c, const FN(moments) * r)
{
    const FT *x = c->at[3], *gamma = c->at[4], *beta = c->at[5];
    FT *y = c->at[0];
    *(FT *)c->at[1] = r->mean;
    *(FT *)c->at[2] = r->rstd;
    if (r->wide) {
        FN(norm_wide)(c, r);
    } else if (gamma && beta) {
        BOTH_WAYS(FN(norm_out), y, x, gamma, beta, c->n, r);
    } else if (gamma) {
        FN(norm_out)(y, x, gamma, NULL, c->n, r, false);
    } else if (beta) {
        FN(norm_out)(y, x, NULL, beta, c->n, r, false);
    } else {
        BOTH_WAYS(FN(norm_out), y, x, NULL, NULL, c->n, r);
    }
}

static void FN(norm)(const row *c)
{
    FN(moments) r;
    FN(moments_of)(&r, c->at[3], c->n, c->p->eps, c->part, c->part_room, c->next[3]);
    FN(norm_end)(c, &r);
}
#ifdef __AVX512F__
/* Results that are written past the caches wait for the rows that come next. */
static bool FN(norm_owe)(const row *c, const FN(moments) * r, int rows)
{
    for (int q = 0; q < rows; q++) {
        if (!c[q].stream || r[q].wide || !c->at[4] || !c->at[5]) {
            return false;
        }
    }
    for (int q = 0; q < rows; q++) {
        *(FT *)c[q].at[1] = r[q].mean;
        *(FT *)c[q].at[2] = r[q].rstd;
        c->carry->owed[q] = (owed){ c[q].at[0], c[q].at[3], (double)r[q].first, (double)r[q].rstd, (double)r[q].shift };
    }
    return true;
}

WFI_INLINE void FN(norm_together)(const row *c, int rows)
{
    FN(moments) r[MOST_TOGETHER];
    FN(late) late = { .gamma = c->at[4], .beta = c->at[5] };
    const FT *x[MOST_TOGETHER];
    owed *o = c->carry->owed;
    bool owes = o->y != NULL;
    for (int q = 0; q < rows; q++) {
        x[q] = c[q].at[3];
        late.y[q] = o[q].y, late.x[q] = o[q].from;
        late.first[q] = FN(splat)((FT)o[q].first);
        late.rstd[q] = FN(splat)((FT)o[q].scale);
        late.shift[q] = FN(splat)((FT)o[q].shift);
        o[q].y = NULL;
    }
    if (owes) {
        FN(moments_together)(r, x, rows, c->n, c->p->eps, &late);
    } else {
        FN(moments_together)(r, x, rows, c->n, c->p->eps, NULL);
    }
    if (FN(norm_owe)(c, r, rows)) {
        return;
    }
    for (int q = 0; q < rows; q++) {
        FN(norm_end)(&c[q], &r[q]);
    }
}
static void FN(norm_two)(const row *c)
{
    FN(norm_together)(c, 2);
}
static inline void FN(norm_four)(const row *c) /* f32: of f64 two fill the registers */
{
    FN(norm_together)(c, 4);
}
static void FN(norm_settle)(const row *c, const owed *o)
{
    FN(moments) r = { .first = (FT)o->first, .rstd = (FT)o->scale, .shift = (FT)o->shift };
    FN(norm_out)(o->y, o->from, c->at[4], c->at[5], c->n, &r, true);
}
#endif

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
