/* pool2d_real.h - windows over channels-last pixels of type T. Other layouts and types pass through a worker's scratch:
 * rows are gathered into channels-last blocks of a few vectors, results are put back. Included once a source. */
#include "kernel/conv/conv_simd.h"
#include "kernel/conv/conv_span.h"

#if T_IS_FLOAT
typedef int32_t I __attribute__((vector_size(4 * WFI_LANES)));
#else
typedef int64_t I __attribute__((vector_size(4 * WFI_LANES)));
#endif

enum { BLOCK_BYTES = 128 * 1024 };

/* The taps of one window that lie inside the input, seen from the first of them. */
typedef struct win {
    int64_t kh, kw;   /* taps */
    int64_t row, col; /* elements of x from tap to tap */
    int64_t drow, dcol;
    T count; /* average: what the sum is divided by */
} win;

WFI_INLINE V choose(I take, V a, V b)
{
    return (V)(((I)a & take) | ((I)b & ~take));
}

/* ---- one pixel: nv vectors of channels, then `tail` single ones ---- */

WFI_INLINE void max_taps(const int64_t kh, const int64_t kw, const win *w, const T *x, T *y, int64_t nv)
{
    for (int64_t j = 0; j < nv; j++, x += L, y += L) {
        V m = load(x);
        for (int64_t k = 0; k < kh; k++) {
            for (int64_t i = k == 0; i < kw; i++) {
                V v = load(x + k * w->row + i * w->col);
                m = choose((v > m) | (v != v), v, m); /* m NaN: nothing is larger, another NaN is as good */
            }
        }
        store(y, m);
    }
}

static void max_pixel(const win *w, const T *x, T *y, int64_t nv, int64_t tail)
{
    if (w->kh == 2 && w->kw == 2) {
        max_taps(2, 2, w, x, y, nv);
    } else if (w->kh == 3 && w->kw == 3) {
        max_taps(3, 3, w, x, y, nv);
    } else {
        max_taps(w->kh, w->kw, w, x, y, nv);
    }
    x += nv * L;
    y += nv * L;
    for (int64_t j = 0; j < tail; j++) {
        T m = x[j];
        for (int64_t k = 0; k < w->kh; k++) {
            for (int64_t i = 0; i < w->kw; i++) {
                T v = x[k * w->row + i * w->col + j];
                m = v > m || v != v ? v : m;
            }
        }
        y[j] = m;
    }
}

static void avg_pixel(const win *w, const T *x, T *y, int64_t nv, int64_t tail)
{
    V count = splat(w->count);
    for (int64_t j = 0; j < nv; j++) {
        V s = { 0 };
        for (int64_t k = 0; k < w->kh; k++) {
            for (int64_t i = 0; i < w->kw; i++) {
                s += load(x + k * w->row + i * w->col + j * L);
            }
        }
        store(y + j * L, s / count);
    }
    for (int64_t j = nv * L; j < nv * L + tail; j++) {
        T s = 0;
        for (int64_t k = 0; k < w->kh; k++) {
            for (int64_t i = 0; i < w->kw; i++) {
                s += x[k * w->row + i * w->col + j];
            }
        }
        y[j] = s / w->count;
    }
}

/* dx[tap] += dy where x has its first maximum. only: every dx is in one window, so it is written instead. */
WFI_INLINE void max_grad_taps(const int64_t kh, const int64_t kw, const bool only, const win *w, const T *x,
                              const T *dy, T *dx, int64_t nv)
{
    for (int64_t j = 0; j < nv; j++, x += L, dy += L, dx += L) {
        V m = load(x), g = load(dy);
        I at_tap = { 0 };
        int32_t t = 0;
        for (int64_t k = 0; k < kh; k++) {
            for (int64_t i = 0; i < kw; i++, t++) {
                V v = load(x + k * w->row + i * w->col);
                I take = (v > m) | ((v != v) & (m == m));
                m = choose(take, v, m);
                at_tap = ((at_tap - at_tap + t) & take) | (at_tap & ~take);
            }
        }
        t = 0;
        for (int64_t k = 0; k < kh; k++) {
            for (int64_t i = 0; i < kw; i++, t++) {
                T *p = dx + k * w->drow + i * w->dcol;
                V d = (V)((I)g & (at_tap == (at_tap - at_tap + t)));
                store(p, (only ? (V){ 0 } : load(p)) + d); /* adding +0 changes nothing: no sum from +0 is ever -0 */
            }
        }
    }
}

static void max_grad_pixel(const win *w, bool only, const T *x, const T *dy, T *dx, int64_t nv, int64_t tail)
{
    if (w->kh == 2 && w->kw == 2 && only) {
        max_grad_taps(2, 2, true, w, x, dy, dx, nv);
    } else if (w->kh == 3 && w->kw == 3 && !only) {
        max_grad_taps(3, 3, false, w, x, dy, dx, nv);
    } else {
        max_grad_taps(w->kh, w->kw, only, w, x, dy, dx, nv);
    }
    for (int64_t j = nv * L; j < nv * L + tail; j++) {
        T m = x[j];
        T *best = dx + j;
        for (int64_t k = 0; k < w->kh; k++) {
            for (int64_t i = 0; i < w->kw; i++) {
                T v = x[k * w->row + i * w->col + j];
                T *p = dx + k * w->drow + i * w->dcol + j;
                if (only) {
                    *p = 0;
                }
                if (v > m || (v != v && m == m)) {
                    m = v;
                    best = p;
                }
            }
        }
        *best += dy[j];
    }
}

static void avg_grad_pixel(const win *w, const T *dy, T *dx, int64_t c)
{
    for (int64_t k = 0; k < w->kh; k++) {
        for (int64_t i = 0; i < w->kw; i++) {
            T *p = dx + k * w->drow + i * w->dcol;
            for (int64_t j = 0; j < c; j++) {
                p[j] += dy[j] / w->count;
            }
        }
    }
}

/* ---- rows and chunks ---- */

/* Does the worker's code read or write the tensor itself? */
WFI_INLINE bool in_place(const conv_plane *p, int64_t c)
{
    return is_native(p->dtype) && (p->s[1] == 1 || c == 1);
}

WFI_INLINE int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Elements of the window that count: per axis, those inside the input or inside the padded input. */
WFI_INLINE int64_t counted(const wfi_window *w, int64_t start, int64_t inside, bool pad)
{
    int64_t end = w->in + w->hi - start; /* >= 1 */
    return pad ? smaller(w->kernel, (end - 1) / w->dilation + 1) : inside;
}

/* Columns 0 .. ow-1 of output row oy. rows: the input row of the first valid tap; the column strides are in v. */
typedef void pixel_fn(const pool2d_core *c, const win *v, const T *x, T *y, T *dx, int64_t chan, bool only);

WFI_INLINE void each_pixel(const pool2d_core *c, win *v, int64_t oy, const T *x, int64_t yp, T *y, T *dx, int64_t chan,
                           bool only, pixel_fn *pixel)
{
    int64_t ky, kye, sy = oy * c->h.stride - c->h.lo;
    wfi_window_taps(&c->h, sy, &ky, &kye);
    v->kh = kye - ky;
    int64_t rows = counted(&c->h, sy, v->kh, c->count_pad), step = v->col / c->w.dilation;
    int64_t dstep = v->dcol / c->w.dilation, span = (c->w.kernel - 1) * c->w.dilation;
    for (int64_t ox = 0; ox < c->ow; ox++) {
        int64_t kx = 0, kxe = c->w.kernel, sx = ox * c->w.stride - c->w.lo;
        if (sx < 0 || sx + span >= c->w.in) { /* else the window is whole, and no division is needed to see it */
            wfi_window_taps(&c->w, sx, &kx, &kxe);
        }
        v->kw = kxe - kx;
        int64_t first = sx + kx * c->w.dilation;
        if (!c->max) {
            v->count = (T)(rows * counted(&c->w, sx, v->kw, c->count_pad));
        }
        pixel(c, v, x + first * step, y + ox * yp, dx + first * dstep, chan, only);
    }
}

static void forward_pixel(const pool2d_core *c, const win *v, const T *x, T *y, T *dx, int64_t chan, bool only)
{
    (void)dx, (void)only;
    if (c->max) {
        max_pixel(v, x, y, chan / L, chan % L);
    } else {
        avg_pixel(v, x, y, chan / L, chan % L);
    }
}

static void backward_pixel(const pool2d_core *c, const win *v, const T *x, T *y, T *dx, int64_t chan, bool only)
{
    if (c->max) {
        max_grad_pixel(v, only, x, y, dx, chan / L, chan % L);
    } else {
        avg_grad_pixel(v, y, dx, chan);
    }
}

typedef struct pool_job {
    const pool2d_core *c;
    void *const *args;
    char *scratch;
} pool_job;

static void forward_chunk(void *arg, int64_t chunk, int worker)
{
    const pool_job *job = arg;
    const pool2d_core *c = job->c;
    int64_t ncb = (c->c + c->cb - 1) / c->cb, nrb = (c->oh + c->rb - 1) / c->rb;
    int64_t c0 = chunk % ncb * c->cb, nc = smaller(c->c - c0, c->cb), oy = chunk / ncb % nrb * c->rb,
            n = chunk / ncb / nrb;
    T *buf = (T *)(void *)(job->scratch + (size_t)worker * c->worker_bytes);
    T *row = (T *)(void *)((char *)buf + c->y_place);
    const void *x = at(job->args[1], n * c->x.s[0] + c0 * c->x.s[1], c->x.dtype);
    bool xin = in_place(&c->x, c->c), yin = in_place(&c->y, c->c);
    int64_t xc = xin ? c->x.s[3] : c->cb, xr = xin ? c->x.s[2] : c->w.in * c->cb, have = 0; /* rows gathered so far */
    int64_t first = oy * c->h.stride - c->h.lo, end = smaller(c->oh, oy + c->rb);
    first = first > 0 ? first : 0;
    have = first;
    for (; oy < end; oy++) {
        int64_t ky, kye, sy = oy * c->h.stride - c->h.lo;
        win v = { .row = c->h.dilation * xr, .col = c->w.dilation * xc };
        wfi_window_taps(&c->h, sy, &ky, &kye);
        for (; !xin && have <= sy + (kye - 1) * c->h.dilation; have++) {
            copy_pixels(buf + (have - first) * xr, c->cb, at(x, have * c->x.s[2], c->x.dtype), c->x.s[3], c->x.s[1],
                        c->w.in, nc, c->x.dtype);
        }
        void *y = at_mut(job->args[0], n * c->y.s[0] + c0 * c->y.s[1] + oy * c->y.s[2], c->y.dtype);
        const T *rows =
            xin ? (const T *)x + (sy + ky * c->h.dilation) * xr : buf + (sy + ky * c->h.dilation - first) * xr;
        each_pixel(c, &v, oy, rows, yin ? c->y.s[3] : c->cb, yin ? y : row, NULL, nc, false, forward_pixel);
        if (!yin) {
            put_pixels(y, c->y.s[3], c->y.s[1], row, c->cb, c->ow, nc, c->y.dtype);
        }
    }
}

/* Every dx belongs to exactly one window: nothing to clear, nothing to add. */
static bool tiled(const wfi_window *w, int64_t out)
{
    return w->lo == 0 && w->dilation == 1 && w->stride == w->kernel && w->in == out * w->kernel;
}

static void clear(T *dx, int64_t y0, int64_t y1, int64_t w, int64_t row, int64_t col, int64_t c)
{
    for (int64_t y = y0; y < y1; y++) {
        for (int64_t x = 0; x < w; x++) {
            memset(dx + y * row + x * col, 0, (size_t)c * sizeof(T));
        }
    }
}

static void backward_chunk(void *arg, int64_t chunk, int worker)
{
    const pool_job *job = arg;
    const pool2d_core *c = job->c;
    int64_t ncb = (c->c + c->cb - 1) / c->cb, c0 = chunk % ncb * c->cb, nc = smaller(c->c - c0, c->cb), n = chunk / ncb;
    char *mine = job->scratch + (size_t)worker * c->worker_bytes;
    T *buf = (T *)(void *)mine, *row = (T *)(void *)(mine + c->y_place), *plane = (T *)(void *)(mine + c->dx_place);
    const void *x = c->max ? at(job->args[1], n * c->x.s[0] + c0 * c->x.s[1], c->x.dtype) : NULL;
    const void *dy = at(job->args[c->max ? 2 : 1], n * c->y.s[0] + c0 * c->y.s[1], c->y.dtype);
    void *dx = at_mut(job->args[0], n * c->dx.s[0] + c0 * c->dx.s[1], c->dx.dtype);
    bool xin = c->max && in_place(&c->x, c->c), yin = in_place(&c->y, c->c), din = in_place(&c->dx, c->c);
    bool only = c->max && tiled(&c->h, c->oh) && tiled(&c->w, c->ow);
    int64_t xc = xin ? c->x.s[3] : c->cb, xr = xin ? c->x.s[2] : c->w.in * c->cb;
    int64_t dc = din ? c->dx.s[3] : c->cb, dr = din ? c->dx.s[2] : c->w.in * c->cb;
    T *d = din ? dx : plane;
    int64_t ready = only ? c->h.in : 0; /* rows of dx that may be added to; cleared no sooner than needed */
    for (int64_t oy = 0; oy < c->oh; oy++) {
        int64_t ky, kye, sy = oy * c->h.stride - c->h.lo;
        win v = {
            .row = c->h.dilation * xr, .col = c->w.dilation * xc, .drow = c->h.dilation * dr, .dcol = c->w.dilation * dc
        };
        wfi_window_taps(&c->h, sy, &ky, &kye);
        int64_t first = sy + ky * c->h.dilation, end = sy + (kye - 1) * c->h.dilation + 1;
        if (ready < end) {
            clear(d, ready, end, c->w.in, dr, dc, nc);
            ready = end;
        }
        for (int64_t k = ky; c->max && !xin && k < kye; k++) { /* tap row k goes to buffer row k */
            copy_pixels(buf + k * xr, c->cb, at(x, (sy + k * c->h.dilation) * c->x.s[2], c->x.dtype), c->x.s[3],
                        c->x.s[1], c->w.in, nc, c->x.dtype);
        }
        if (!xin) {
            v.row = xr;
        }
        const void *src = at(dy, oy * c->y.s[2], c->y.dtype);
        if (!yin) {
            copy_pixels(row, c->cb, src, c->y.s[3], c->y.s[1], c->ow, nc, c->y.dtype);
        }
        each_pixel(c, &v, oy, xin ? (const T *)x + first * xr : buf + ky * xr, yin ? c->y.s[3] : c->cb,
                   yin ? (T *)(uintptr_t)src : row, d + first * dr, nc, only, backward_pixel);
    }
    clear(d, ready, c->h.in, c->w.in, dr, dc, nc);
    for (int64_t y = 0; !din && y < c->h.in; y++) {
        put_pixels(at_mut(dx, y * c->dx.s[2], c->dx.dtype), c->dx.s[3], c->dx.s[1], plane + y * dr, c->cb, c->w.in, nc,
                   c->dx.dtype);
    }
}

static bool places(pool2d_core *c, int64_t xrows, int64_t yrow, int64_t dxrows)
{
    size_t x, y, d, all;
    if (!wfi_ck_mul((size_t)xrows, (size_t)c->w.in, &x) || !wfi_ck_mul(x, (size_t)c->cb * sizeof(T), &x) ||
        !wfi_ck_align(x, 64, &x) || !wfi_ck_mul((size_t)yrow, (size_t)c->cb * sizeof(T), &y) ||
        !wfi_ck_align(y, 64, &y) || !wfi_ck_mul((size_t)dxrows, (size_t)c->w.in, &d) ||
        !wfi_ck_mul(d, (size_t)c->cb * sizeof(T), &d) || !wfi_ck_align(d, 64, &d) || !wfi_ck_add(x, y, &c->dx_place) ||
        !wfi_ck_add(c->dx_place, d, &c->worker_bytes) || !wfi_ck_mul(c->worker_bytes, (size_t)c->threads, &all)) {
        return false;
    }
    c->y_place = x;
    return true;
}

static bool plan_forward(pool2d_core *c)
{
    bool xin = in_place(&c->x, c->c), yin = in_place(&c->y, c->c);
    int64_t span = (c->h.kernel - 1) * c->h.dilation + 1, row;
    c->cb = xin && yin ? c->c : smaller(c->c, 2 * L);
    c->cb = xin && yin ? c->cb : (c->cb + L - 1) / L * L;
    c->cb = c->cb > 0 ? c->cb : 1;
    row = c->h.stride * c->w.in * c->cb * (int64_t)sizeof(T); /* input bytes an output row */
    c->rb = row < BLOCK_BYTES && row > 0 ? BLOCK_BYTES / row : 1;
    c->rb = smaller(c->rb, c->oh);
    if (c->n > 0 && c->threads > 1 && c->n * ((c->oh + c->rb - 1) / c->rb) < 4 * c->threads) {
        int64_t want = (4 * c->threads + c->n - 1) / c->n;
        c->rb = want < c->oh ? c->oh / want : 1;
    }
    return places(c, xin ? 0 : smaller((c->rb - 1) * c->h.stride + span, c->h.in), yin ? 0 : c->ow, 0);
}

static bool plan_backward(pool2d_core *c)
{
    bool xin = !c->max || in_place(&c->x, c->c), yin = in_place(&c->y, c->c), din = in_place(&c->dx, c->c);
    int64_t all = (c->c + L - 1) / L * L;
    c->cb = xin && yin && din ? all : smaller(all, L);
    if (c->n < 2 * c->threads) {
        c->cb = smaller(c->cb, (all / c->threads + L - 1) / L * L);
    }
    c->cb = c->cb > 0 ? c->cb : L;
    c->rb = c->oh;
    return places(c, xin ? 0 : c->h.kernel, yin ? 0 : c->ow, din ? 0 : c->h.in);
}

static void run_chunks(const pool2d_core *c, void *const *args, const wfi_run *run, int64_t chunks, wfi_chunk_fn *fn)
{
    pool_job job = { c, args, run->scratch };
    wfi_pool_run(wfi_pool_threads(run->pool) <= c->threads ? run->pool : NULL, chunks, fn, &job);
}

static void forward(const pool2d_core *c, void *const *args, const wfi_run *run)
{
    run_chunks(c, args, run, c->n * ((c->c + c->cb - 1) / c->cb) * ((c->oh + c->rb - 1) / c->rb), forward_chunk);
}

static void backward(const pool2d_core *c, void *const *args, const wfi_run *run)
{
    run_chunks(c, args, run, c->n * ((c->c + c->cb - 1) / c->cb), backward_chunk);
}
