/* batchnorm_rows.h - the passes of batchnorm.c for one compute type FT. Loops run over the channels of a tile, which
 * lie side by side; the compiler makes vectors of them. */

/* Rows whose elements of one channel lie side by side, as in channels-first images: FT[n][TILE] at `rows`, channels
 * `step` bytes apart at `at`. They are turned by squares of a cache line's width. */
static void FN(turn)(FT *rows, char *at, int64_t step, int64_t n, int64_t w, bool out)
{
    enum { SQUARE = 64 / sizeof(FT) };
    for (int64_t i0 = 0; i0 < n; i0 += SQUARE) {
        for (int64_t k0 = 0; k0 < w; k0 += SQUARE) {
            int64_t in = least(SQUARE, n - i0), kn = least(SQUARE, w - k0);
            for (int64_t k = 0; k < kn; k++) {
                FT *line = (FT *)(void *)(at + (k0 + k) * step) + i0, *column = rows + i0 * TILE + k0 + k;
                for (int64_t i = 0; i < in; i++) {
                    if (out) {
                        line[i] = column[i * TILE];
                    } else {
                        column[i * TILE] = line[i];
                    }
                }
            }
        }
    }
}

static bool FN(turned)(const params *p, int slot, int op)
{
    return is_native(p->type[slot]) && nest_step(&p->rows, op) == (int64_t)sizeof(FT);
}

/* All rows of a piece that lie so, to or from FT[ROWS][TILE]. */
static void FN(turn_piece)(const job *j, const piece *q, int slot, int op, FT *rows, bool out)
{
    const params *p = j->p;
    cursor c;
    nest_at(&p->rows, q->r0, &c);
    for (int64_t i = 0, n; i < q->n; i += n) {
        n = least(nest_left(&p->rows, &c), q->n - i);
        char *at = (char *)j->args[slot] + c.off[op] + q->c0 * p->step[slot];
        FN(turn)(rows + i * TILE, at, p->step[slot], n, q->w, out);
        nest_next(&p->rows, &c, n);
    }
}

/* Pointers to rows of an operand: to the tensor itself, or to copies of type FT in `desk`, FT[ROWS][TILE]. */
static void FN(rows_of)(const job *j, const piece *q, int slot, int op, FT *desk, const FT **row)
{
    const params *p = j->p;
    bool direct = is_native(p->type[slot]) && (p->step[slot] == (int64_t)sizeof(FT) || q->w == 1);
    cursor c;
    if (!direct && FN(turned)(p, slot, op)) {
        FN(turn_piece)(j, q, slot, op, desk, false);
        for (int64_t i = 0; i < q->n; i++) {
            row[i] = desk + i * TILE;
        }
        return;
    }
    nest_at(&p->rows, q->r0, &c);
    for (int64_t i = 0; i < q->n; i++) {
        const char *at = (const char *)j->args[slot] + c.off[op] + q->c0 * p->step[slot];
        row[i] = direct ? (const FT *)(const void *)at : desk + i * TILE;
        if (!direct) {
            load_line(p->as, desk + i * TILE, at, p->type[slot], q->w, p->step[slot]);
        }
        nest_next(&p->rows, &c, 1);
    }
}

/* Rows i .. i + 3; those that are not there read as `none`. */
WFI_INLINE void FN(group)(const FT *const *row, int64_t i, int64_t n, const FT *none, const FT *g[GROUP])
{
    for (int64_t k = 0; k < GROUP; k++) {
        g[k] = i + k < n ? row[i + k] : none;
    }
}

/* sum: of x */
static void FN(sum_rows)(const FT *const *row, int64_t n, const FT *zeros, int64_t w, FT *restrict sum)
{
    memset(sum, 0, (size_t)w * sizeof(FT));
    for (int64_t i = 0; i < n; i += GROUP) {
        const FT *x[GROUP];
        FN(group)(row, i, n, zeros, x);
        for (int64_t k = 0; k < w; k++) {
            sum[k] += (x[0][k] + x[1][k]) + (x[2][k] + x[3][k]);
        }
    }
}

/* d1: sum of x - m, d2: of its square */
static void FN(deviations)(const FT *const *row, int64_t n, const FT *m, int64_t w, FT *restrict d1, FT *restrict d2)
{
    memset(d1, 0, (size_t)w * sizeof(FT));
    memset(d2, 0, (size_t)w * sizeof(FT));
    for (int64_t i = 0; i < n; i += GROUP) {
        const FT *x[GROUP];
        FN(group)(row, i, n, m, x);
        for (int64_t k = 0; k < w; k++) {
            FT a = x[0][k] - m[k], b = x[1][k] - m[k], c = x[2][k] - m[k], d = x[3][k] - m[k];
            d1[k] += (a + b) + (c + d);
            d2[k] += FMA(a, a, b * b) + FMA(c, c, d * d);
        }
    }
}

/* s1: sum of dy, s2: of dy * (x - m) */
static void FN(dots)(const FT *const *dy, const FT *const *row, int64_t n, const FT *m, const FT *zeros, int64_t w,
                     FT *restrict s1, FT *restrict s2)
{
    memset(s1, 0, (size_t)w * sizeof(FT));
    memset(s2, 0, (size_t)w * sizeof(FT));
    for (int64_t i = 0; i < n; i += GROUP) {
        const FT *x[GROUP], *g[GROUP];
        FN(group)(row, i, n, m, x);
        FN(group)(dy, i, n, zeros, g);
        for (int64_t k = 0; k < w; k++) {
            FT a = x[0][k] - m[k], b = x[1][k] - m[k], c = x[2][k] - m[k], d = x[3][k] - m[k];
            s1[k] += (g[0][k] + g[1][k]) + (g[2][k] + g[3][k]);
            s2[k] += FMA(g[0][k], a, g[1][k] * b) + FMA(g[2][k], c, g[3][k] * d);
        }
    }
}

/* Mean and sum of squared differences of one channel whose squares leave the range of FT. */
static void FN(wide_channel)(const FT *const *row, int64_t n, int64_t k, double *mean, double *squares)
{
    double s = 0, d2 = 0;
    for (int64_t i = 0; i < n; i++) {
        s += (double)row[i][k];
    }
    *mean = s / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = (double)row[i][k] - *mean;
        d2 += d * d;
    }
    *squares = d2;
}

static void FN(block_moments)(const job *j, const piece *q, const FT *const *row, FT *line)
{
    FT *m = line + TILE, *d1 = m + TILE, *d2 = d1 + TILE;
    double *mean = j->part + q->b * 2 * j->p->n + q->c0, *squares = mean + j->p->n, n = (double)q->n;
    double low = j->p->eps > 1e-30 ? -1 : 1e-30;
    FN(sum_rows)(row, q->n, line, q->w, m);
    for (int64_t k = 0; k < q->w; k++) {
        m[k] = m[k] / (FT)q->n;
    }
    FN(deviations)(row, q->n, m, q->w, d1, d2);
    for (int64_t k = 0; k < q->w; k++) {
        mean[k] = (double)m[k] + (double)d1[k] / n;
        squares[k] = (double)d2[k] - (double)d1[k] * ((double)d1[k] / n);
    }
    for (int64_t k = 0; k < q->w && sizeof(FT) == 4; k++) {
        if (!((double)d2[k] < 3e38 && (double)d2[k] > low)) {
            FN(wide_channel)(row, q->n, k, &mean[k], &squares[k]);
        }
    }
}

/* Pass 1. */
static void FN(block_sums)(const job *j, const piece *q, char *desk)
{
    const params *p = j->p;
    FT *x = (FT *)(void *)desk, *dy = x + ROWS * TILE, *line = dy + ROWS * TILE;
    const FT *row[ROWS], *grad[ROWS];
    memset(line, 0, TILE * sizeof(FT));
    FN(rows_of)(j, q, X, OP_X, x, row);
    if (p->kind == WFI_BATCHNORM_TRAIN) {
        FN(block_moments)(j, q, row, line);
        return;
    }
    FT *m = line + TILE, *s1 = m + TILE, *s2 = s1 + TILE;
    double *to1 = j->part + q->b * 2 * p->n + q->c0, *to2 = to1 + p->n;
    FN(rows_of)(j, q, DY, OP_DY, dy, grad);
    load_line(p->as, m, (const char *)j->args[GRAD_MEAN] + q->c0 * p->step[GRAD_MEAN], p->type[GRAD_MEAN], q->w,
              p->step[GRAD_MEAN]);
    FN(dots)(grad, row, q->n, m, line, q->w, s1, s2);
    for (int64_t k = 0; k < q->w; k++) {
        to1[k] = (double)s1[k];
        to2[k] = (double)s2[k];
    }
}

/* A vector of the channels, or `other` where it is not given. */
static void FN(channels)(const job *j, int slot, int64_t c0, int64_t w, FT *to, FT other)
{
    const params *p = j->p;
    if (p->type[slot]) {
        load_line(p->as, to, (const char *)j->args[slot] + c0 * p->step[slot], p->type[slot], w, p->step[slot]);
        return;
    }
    for (int64_t k = 0; k < w; k++) {
        to[k] = other;
    }
}

static void FN(put_channels)(const job *j, int slot, int64_t c0, int64_t w, const FT *from)
{
    const params *p = j->p;
    if (p->type[slot]) {
        store_line(p->as, (char *)j->args[slot] + c0 * p->step[slot], from, p->type[slot], w, p->step[slot]);
    }
}

/* Mean and sum of squared differences over all blocks. */
static void FN(join_moments)(const job *j, int64_t c0, int64_t w, double *mean, double *squares)
{
    const params *p = j->p;
    memset(mean, 0, (size_t)w * sizeof(double));
    memset(squares, 0, (size_t)w * sizeof(double));
    for (int64_t b = 0; b < p->blocks; b++) {
        const double *m = j->part + b * 2 * p->n + c0;
        double n = (double)least(ROWS, p->nrows - b * ROWS);
        for (int64_t k = 0; k < w; k++) {
            mean[k] += n * m[k];
        }
    }
    for (int64_t k = 0; k < w; k++) {
        mean[k] /= (double)p->nrows;
    }
    for (int64_t b = 0; b < p->blocks; b++) {
        const double *m = j->part + b * 2 * p->n + c0, *q = m + p->n;
        double n = (double)least(ROWS, p->nrows - b * ROWS);
        for (int64_t k = 0; k < w; k++) {
            double d = m[k] - mean[k];
            squares[k] += q[k] + n * d * d;
        }
    }
}

/* y = (x - hi) * scale + shift: hi is the rounded mean, shift makes up for what rounding left. */
static void FN(join_train)(const job *j, int64_t c0, int64_t w)
{
    const params *p = j->p;
    double mean[TILE], squares[TILE];
    FT gamma[TILE], beta[TILE], var[TILE];
    FT *hi = (FT *)(void *)j->coef + c0, *scale = hi + p->n, *shift = scale + p->n;
    FN(join_moments)(j, c0, w, mean, squares);
    FN(channels)(j, TRAIN_GAMMA, c0, w, gamma, 1);
    FN(channels)(j, TRAIN_BETA, c0, w, beta, 0);
    for (int64_t k = 0; k < w; k++) {
        double v = squares[k] / (double)p->nrows, full = (double)gamma[k] / __builtin_sqrt(v + p->eps);
        hi[k] = (FT)mean[k];
        scale[k] = (FT)full;
        shift[k] = (FT)((double)beta[k] + ((double)hi[k] - mean[k]) * full);
        var[k] = (FT)v;
    }
    FN(put_channels)(j, 1, c0, w, hi);
    FN(put_channels)(j, 2, c0, w, var);
}

/* dx = scale * dy + slope * (x - mean) + shift */
static void FN(join_grad)(const job *j, int64_t c0, int64_t w)
{
    const params *p = j->p;
    double s1[TILE] = { 0 }, s2[TILE] = { 0 }, n = (double)p->nrows;
    FT gamma[TILE], var[TILE], dgamma[TILE], dbeta[TILE];
    FT *scale = (FT *)(void *)j->coef + c0, *slope = scale + p->n, *shift = slope + p->n;
    for (int64_t b = 0; b < p->blocks; b++) {
        const double *a = j->part + b * 2 * p->n + c0;
        for (int64_t k = 0; k < w; k++) {
            s1[k] += a[k];
            s2[k] += a[k + p->n];
        }
    }
    FN(channels)(j, GRAD_GAMMA, c0, w, gamma, 1);
    FN(channels)(j, GRAD_VAR, c0, w, var, 1);
    for (int64_t k = 0; k < w; k++) {
        double r = 1 / __builtin_sqrt((double)var[k] + p->eps), full = (double)gamma[k] * r;
        scale[k] = (FT)full;
        slope[k] = (FT)(-(full * r * r * (s2[k] / n)));
        shift[k] = (FT)(-(full * (s1[k] / n)));
        dgamma[k] = (FT)(s2[k] * r);
        dbeta[k] = (FT)s1[k];
    }
    FN(put_channels)(j, 1, c0, w, dgamma);
    FN(put_channels)(j, 2, c0, w, dbeta);
}

/* Pass 2, for the channels of a tile. */
static void FN(join)(const job *j, int64_t c0, int64_t w)
{
    if (j->p->kind == WFI_BATCHNORM_TRAIN) {
        FN(join_train)(j, c0, w);
    } else {
        FN(join_grad)(j, c0, w);
    }
}

static void FN(train_row)(FT *y, const FT *x, const FT *restrict hi, const FT *restrict scale, const FT *restrict shift,
                          int64_t w)
{
    for (int64_t k = 0; k < w; k++) {
        y[k] = FMA(x[k] - hi[k], scale[k], shift[k]);
    }
}

static void FN(grad_row)(FT *dx, const FT *x, const FT *dy, const FT *restrict m, const FT *restrict scale,
                         const FT *restrict slope, const FT *restrict shift, int64_t w)
{
    for (int64_t k = 0; k < w; k++) {
        dx[k] = FMA(dy[k], scale[k], FMA(x[k] - m[k], slope[k], shift[k]));
    }
}

/* Pass 3. */
static void FN(block_result)(const job *j, const piece *q, char *desk)
{
    const params *p = j->p;
    FT *copy = (FT *)(void *)desk, *copy2 = copy + ROWS * TILE, *m = copy2 + ROWS * TILE, *line = m + TILE;
    FT *result = line + TILE; /* FT[ROWS][TILE] */
    const FT *a = (const FT *)(const void *)j->coef + q->c0, *b = a + p->n, *c = b + p->n;
    const FT *x[ROWS], *dy[ROWS];
    bool direct = is_native(p->type[OUT]) && (p->step[OUT] == (int64_t)sizeof(FT) || q->w == 1);
    bool turned = !direct && FN(turned)(p, OUT, OP_OUT);
    FN(rows_of)(j, q, X, OP_X, copy, x);
    if (p->kind == WFI_BATCHNORM_GRAD) {
        FN(rows_of)(j, q, DY, OP_DY, copy2, dy);
        FN(channels)(j, GRAD_MEAN, q->c0, q->w, m, 0);
    }
    cursor at;
    nest_at(&p->rows, q->r0, &at);
    for (int64_t i = 0; i < q->n; i++) {
        char *out = (char *)j->args[OUT] + at.off[OP_OUT] + q->c0 * p->step[OUT];
        FT *to = direct ? (FT *)(void *)out : turned ? result + i * TILE : line;
        if (p->kind == WFI_BATCHNORM_GRAD) {
            FN(grad_row)(to, x[i], dy[i], m, a, b, c, q->w);
        } else {
            FN(train_row)(to, x[i], a, b, c, q->w);
        }
        if (!direct && !turned) {
            store_line(p->as, out, line, p->type[OUT], q->w, p->step[OUT]);
        }
        nest_next(&p->rows, &at, 1);
    }
    if (turned) {
        FN(turn_piece)(j, q, OUT, OP_OUT, result, true);
    }
}
