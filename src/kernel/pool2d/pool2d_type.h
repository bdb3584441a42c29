/* pool2d_type.h - the loops for one element type. The includer defines T (stored), A (computed), I (an integer as wide
 * as A), LOAD, STORE and NAME(x). */

enum { NAME(block) = 64 }; /* channels that are done together where they lie side by side */

/* Channels c0 .. c0 + n of one window, side by side: best element and where it stands, row by row. */
WFI_INLINE void NAME(window)(const pool *p, const T *x, int64_t n, int64_t h0, int64_t w0, A *best, I *where)
{
    bool first = true;
    for (int64_t i = 0; i < p->at.kernel_h; i++) {
        int64_t h = h0 + i * p->at.dilation_h;
        if (h < 0 || h >= p->h)
            continue;
        for (int64_t j = 0; j < p->at.kernel_w; j++) {
            int64_t w = w0 + j * p->at.dilation_w;
            if (w < 0 || w >= p->w)
                continue;
            const T *v = x + h * p->x_h + w * p->x_w;
            I at = (I)(i * p->at.kernel_w + j);
            if (first) {
                for (int64_t k = 0; k < n; k++) {
                    best[k] = LOAD(v[k]);
                    where[k] = at;
                }
            } else {
                for (int64_t k = 0; k < n; k++) {
                    A a = LOAD(v[k]), b = best[k];
                    bool take = (a > b) | ((a != a) & (b == b));
                    best[k] = take ? a : b;
                    where[k] = take ? at : where[k];
                }
            }
            first = false;
        }
    }
}

/* One channel, elements anywhere. Returns the place of the maximum in the window. */
WFI_INLINE int64_t NAME(window1)(const pool *p, const T *x, int64_t h0, int64_t w0, A *best)
{
    int64_t where = -1;
    A b = 0;
    for (int64_t i = 0; i < p->at.kernel_h; i++) {
        int64_t h = h0 + i * p->at.dilation_h;
        for (int64_t j = 0; h >= 0 && h < p->h && j < p->at.kernel_w; j++) {
            int64_t w = w0 + j * p->at.dilation_w;
            if (w < 0 || w >= p->w)
                continue;
            A a = LOAD(x[h * p->x_h + w * p->x_w]);
            if (where < 0 || a > b || (a != a && b == b)) {
                b = a;
                where = i * p->at.kernel_w + j;
            }
        }
    }
    *best = b;
    return where;
}

/* ---- forward: one output row of one image ---- */

static void NAME(row)(const pool *p, const T *x, T *y, int64_t h0)
{
    A best[NAME(block)];
    I where[NAME(block)];
    for (int64_t o = 0; o < p->ow; o++) {
        int64_t w0 = o * p->at.stride_w - p->at.pad_w;
        T *to = y + o * p->y_w;
        if (p->side) {
            for (int64_t c = 0; c < p->c; c += NAME(block)) {
                int64_t n = p->c - c < NAME(block) ? p->c - c : NAME(block);
                NAME(window)(p, x + c, n, h0, w0, best, where);
                for (int64_t k = 0; k < n; k++)
                    to[c + k] = STORE(best[k]);
            }
        } else {
            for (int64_t c = 0; c < p->c; c++) {
                NAME(window1)(p, x + c * p->x_c, h0, w0, best);
                to[c * p->y_c] = STORE(best[0]);
            }
        }
    }
}

/* ---- gradient: all windows of one image, channels c0 .. c0 + n ---- */

static void NAME(grad_side)(const pool *p, const T *x, const T *dy, T *dx, int64_t n)
{
    A best[NAME(block)];
    I where[NAME(block)];
    for (int64_t h = 0; h < p->h; h++)
        for (int64_t w = 0; w < p->w; w++)
            memset(dx + h * p->d_h + w * p->d_w, 0, (size_t)n * sizeof *dx);
    for (int64_t oh = 0; oh < p->oh; oh++)
        for (int64_t ow = 0; ow < p->ow; ow++) {
            int64_t h0 = oh * p->at.stride_h - p->at.pad_h, w0 = ow * p->at.stride_w - p->at.pad_w;
            const T *g = dy + oh * p->y_h + ow * p->y_w;
            NAME(window)(p, x, n, h0, w0, best, where);
            for (int64_t k = 0; k < p->at.kernel_h * p->at.kernel_w; k++) {
                int64_t h = h0 + k / p->at.kernel_w * p->at.dilation_h, w = w0 + k % p->at.kernel_w * p->at.dilation_w;
                if (h < 0 || h >= p->h || w < 0 || w >= p->w)
                    continue;
                T *to = dx + h * p->d_h + w * p->d_w;
                for (int64_t c = 0; c < n; c++)
                    to[c] = STORE(LOAD(to[c]) + (where[c] == (I)k ? LOAD(g[c]) : (A)0));
            }
        }
}

/* One element gathers from the windows that cover it: no order of windows but the right one, one rounding. */
static void NAME(grad_one)(const pool *p, const T *x, const T *dy, T *dx)
{
    for (int64_t h = 0; h < p->h; h++)
        for (int64_t w = 0; w < p->w; w++) {
            A sum = 0, best;
            for (int64_t oh = 0; oh < p->oh; oh++) {
                int64_t h0 = oh * p->at.stride_h - p->at.pad_h, i = h - h0;
                if (i < 0 || i % p->at.dilation_h || i / p->at.dilation_h >= p->at.kernel_h)
                    continue;
                for (int64_t ow = 0; ow < p->ow; ow++) {
                    int64_t w0 = ow * p->at.stride_w - p->at.pad_w, j = w - w0;
                    if (j < 0 || j % p->at.dilation_w || j / p->at.dilation_w >= p->at.kernel_w)
                        continue;
                    int64_t at = i / p->at.dilation_h * p->at.kernel_w + j / p->at.dilation_w;
                    if (NAME(window1)(p, x, h0, w0, &best) == at)
                        sum += LOAD(dy[oh * p->y_h + ow * p->y_w]);
                }
            }
            dx[h * p->d_h + w * p->d_w] = STORE(sum);
        }
}

/* y = g where x has the maximum of the window (the gradient of the gradient). */
static void NAME(pick)(const job *j, int64_t chunk)
{
    const pool *p = j->p;
    int64_t n = chunk / p->oh, oh = chunk % p->oh, h0 = oh * p->at.stride_h - p->at.pad_h;
    for (int64_t c = 0; c < p->c; c++)
        for (int64_t ow = 0; ow < p->ow; ow++) {
            A best;
            int64_t w0 = ow * p->at.stride_w - p->at.pad_w;
            int64_t k = NAME(window1)(p, (const T *)j->x + n * p->x_n + c * p->x_c, h0, w0, &best);
            int64_t h = h0 + k / p->at.kernel_w * p->at.dilation_h, w = w0 + k % p->at.kernel_w * p->at.dilation_w;
            ((T *)j->y)[n * p->y_n + c * p->y_c + oh * p->y_h + ow * p->y_w] =
                k < 0 ? STORE((A)0) : ((const T *)j->dx)[n * p->d_n + c * p->d_c + h * p->d_h + w * p->d_w];
        }
}

static void NAME(forward)(const job *j, int64_t chunk)
{
    const pool *p = j->p;
    int64_t n = chunk / p->oh, oh = chunk % p->oh;
    NAME(row)(p, (const T *)j->x + n * p->x_n, (T *)j->y + n * p->y_n + oh * p->y_h,
              oh * p->at.stride_h - p->at.pad_h);
}

static void NAME(backward)(const job *j, int64_t chunk)
{
    const pool *p = j->p;
    int64_t parts = p->side ? (p->c + NAME(block) - 1) / NAME(block) : p->c, n = chunk / parts, part = chunk % parts;
    int64_t c = p->side ? part * NAME(block) : part;
    const T *x = (const T *)j->x + n * p->x_n + c * p->x_c, *dy = (const T *)j->y + n * p->y_n + c * p->y_c;
    T *dx = (T *)j->dx + n * p->d_n + c * p->d_c;
    if (p->side)
        NAME(grad_side)(p, x, dy, dx, p->c - c < NAME(block) ? p->c - c : NAME(block));
    else
        NAME(grad_one)(p, x, dy, dx);
}
#undef T
#undef A
#undef I
#undef LOAD
#undef STORE
#undef NAME
