/* pool2d.c - checks, layouts and parameters of pooling; pool2d_real.h computes. */
#include "kernel/pool2d/pool2d.h"
#include <string.h>
#include "kernel/pool2d/pool2d_core.h"

_Static_assert(sizeof(pool2d_core) <= WFI_PARAMS_MAX, "pool2d_core");

#define EXTENT_MAX ((int64_t)1 << 31)

static const pool2d_real *real_of(wf_dtype t)
{
    return t == WF_F64 ? &WFI_K(wfi_pool2d_f64) : &WFI_K(wfi_pool2d_f32);
}

/* One axis: its size, and that no window lies wholly in the padding. */
static const char *axis(const wfi_window *w, int64_t *out)
{
    const char *why = wfi_window_out(w, out);
    if (why != NULL) {
        return why;
    }
    if (w->in + w->lo + w->hi > EXTENT_MAX || w->stride > EXTENT_MAX || w->dilation > EXTENT_MAX) {
        return "rows or columns exceed 2^31";
    }
    if ((*out - 1) * w->stride - w->lo >= w->in || w->lo > (w->kernel - 1) * w->dilation) {
        return "a window lies wholly in the padding";
    }
    for (int64_t start = -w->lo; start < 0; start += w->stride) {
        int64_t a, b;
        wfi_window_taps(w, start, &a, &b);
        if (a >= b) {
            return "a window lies wholly in the padding";
        }
    }
    return NULL;
}

static wfi_window window_h(const wfi_pool2d_attrs *at, int64_t in)
{
    return (wfi_window){ in, at->kernel_h, at->stride_h, at->pad_top, at->pad_bottom, at->dilation_h, at->ceil };
}

static wfi_window window_w(const wfi_pool2d_attrs *at, int64_t in)
{
    return (wfi_window){ in, at->kernel_w, at->stride_w, at->pad_left, at->pad_right, at->dilation_w, at->ceil };
}

static const char *sizes(const wfi_pool2d_attrs *at, const wfi_view *x, pool2d_core *c)
{
    const char *why;
    if (x->ndim != 4) {
        return "pooling needs x[n, c, h, w]";
    }
    if (x->dtype != WF_F32 && x->dtype != WF_F64 && x->dtype != WF_BF16 && x->dtype != WF_F16) {
        return "pooling is computed in f32, f64, bf16 and f16 only";
    }
    if (x->dim[1] > EXTENT_MAX) {
        return "channels exceed 2^31";
    }
    *c = (pool2d_core){ .h = window_h(at, x->dim[2]),
                        .w = window_w(at, x->dim[3]),
                        .n = x->dim[0],
                        .c = x->dim[1],
                        .count_pad = at->count_pad };
    why = axis(&c->h, &c->oh);
    return why != NULL ? why : axis(&c->w, &c->ow);
}

static const char *same_sizes(const wfi_view *v, const wfi_view *like, int64_t h, int64_t w)
{
    if (v->ndim != 4 || v->dtype != like->dtype) {
        return "operands must be of one type and have four dimensions";
    }
    if (v->dim[0] != like->dim[0] || v->dim[1] != like->dim[1] || v->dim[2] != h || v->dim[3] != w) {
        return "the sizes are not those of the pooled output";
    }
    return NULL;
}

static int64_t magnitude(int64_t s)
{
    return s < 0 ? -s : s;
}

/* Dense strides in the order of like's: channels last if its channels are closer than its columns. */
static void keep_layout(wfi_view *v, const wfi_view *like)
{
    int64_t c = v->dim[1] > 0 ? v->dim[1] : 1, h = v->dim[2] > 0 ? v->dim[2] : 1, w = v->dim[3] > 0 ? v->dim[3] : 1;
    bool last = like->dim[1] > 1 && like->dim[3] > 1
                    ? magnitude(like->stride[1]) < magnitude(like->stride[3])
                    : like->dim[1] > 1 && like->dim[2] > 1 && magnitude(like->stride[1]) < magnitude(like->stride[2]);
    v->stride[0] = c * h * w;
    v->stride[1] = last ? 1 : h * w;
    v->stride[2] = last ? c * w : w;
    v->stride[3] = last ? c : 1;
}

static conv_plane plane(const wfi_view *v)
{
    conv_plane p = { .dtype = v->dtype };
    for (int i = 0; i < 4; i++) {
        p.s[i] = v->dim[i] == 1 ? (i == 1 ? 1 : 0) : v->stride[i];
    }
    return p;
}

static const char *finish(pool2d_core *c, bool planned, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    if (!planned) {
        return "sizes overflow";
    }
    memcpy(params, c, sizeof *c);
    *params_bytes = sizeof *c;
    *scratch_bytes = c->worker_bytes * (size_t)c->threads;
    return NULL;
}

/* ---- forward ---- */

static const char *forward_layout(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *b, wfi_view *y)
{
    pool2d_core c;
    const char *why = sizes(at, x, &c);
    (void)b;
    if (why == NULL) {
        *y = (wfi_view){ .dtype = x->dtype, .ndim = 4, .dim = { x->dim[0], x->dim[1], c.oh, c.ow } };
        keep_layout(y, x);
    }
    return why;
}

static const char *forward_prepare(bool max, const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *y,
                                   int threads, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    pool2d_core c;
    const char *why = sizes(at, x, &c);
    why = why != NULL ? why : same_sizes(y, x, c.oh, c.ow);
    if (why != NULL) {
        return why;
    }
    c.max = max;
    c.threads = threads > 1 ? threads : 1;
    c.x = plane(x);
    c.y = plane(y);
    return finish(&c, real_of(x->dtype)->plan_forward(&c), params, params_bytes, scratch_bytes);
}

static const char *max_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *b, const wfi_view *y,
                               int threads, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    (void)b;
    return forward_prepare(true, at, x, y, threads, params, params_bytes, scratch_bytes);
}

static const char *avg_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *b, const wfi_view *y,
                               int threads, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    (void)b;
    return forward_prepare(false, at, x, y, threads, params, params_bytes, scratch_bytes);
}

static void forward_run(const void *params, void *const *args, const wfi_run *run)
{
    const pool2d_core *c = params;
    real_of(c->y.dtype)->forward(c, args, run);
}

/* ---- backward ---- */

/* x: of the maximum, else NULL. */
static const char *backward_core(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *dy, const wfi_view *dx,
                                 int threads, pool2d_core *c)
{
    const char *why = sizes(at, dx, c);
    why = why != NULL ? why : same_sizes(dy, dx, c->oh, c->ow);
    if (why == NULL && x != NULL) {
        why = same_sizes(x, dx, dx->dim[2], dx->dim[3]);
    }
    if (why != NULL) {
        return why;
    }
    c->max = x != NULL;
    c->threads = threads > 1 ? threads : 1;
    c->x = x != NULL ? plane(x) : (conv_plane){ .dtype = dx->dtype };
    c->y = plane(dy);
    c->dx = plane(dx);
    return NULL;
}

static const char *max_backward_layout(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *dy, wfi_view *dx)
{
    pool2d_core c;
    const char *why = backward_core(at, x, dy, dx, 1, &c);
    if (why == NULL) {
        keep_layout(dx, x);
    }
    return why;
}

static const char *max_backward_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *dy,
                                        const wfi_view *dx, int threads, void *params, size_t *params_bytes,
                                        size_t *scratch_bytes)
{
    pool2d_core c;
    const char *why = backward_core(at, x, dy, dx, threads, &c);
    return why != NULL ? why : finish(&c, real_of(dx->dtype)->plan_backward(&c), params, params_bytes, scratch_bytes);
}

static const char *avg_backward_layout(const wfi_pool2d_attrs *at, const wfi_view *dy, const wfi_view *b, wfi_view *dx)
{
    pool2d_core c;
    const char *why = backward_core(at, NULL, dy, dx, 1, &c);
    (void)b;
    if (why == NULL) {
        keep_layout(dx, dy);
    }
    return why;
}

static const char *avg_backward_prepare(const wfi_pool2d_attrs *at, const wfi_view *dy, const wfi_view *b,
                                        const wfi_view *dx, int threads, void *params, size_t *params_bytes,
                                        size_t *scratch_bytes)
{
    pool2d_core c;
    const char *why = backward_core(at, NULL, dy, dx, threads, &c);
    (void)b;
    return why != NULL ? why : finish(&c, real_of(dx->dtype)->plan_backward(&c), params, params_bytes, scratch_bytes);
}

static void backward_run(const void *params, void *const *args, const wfi_run *run)
{
    const pool2d_core *c = params;
    real_of(c->dx.dtype)->backward(c, args, run);
}

const wfi_pool2d_kernels WFI_K(wfi_pool2d) = {
    .max_forward = { forward_layout, max_prepare, forward_run },
    .max_backward = { max_backward_layout, max_backward_prepare, backward_run },
    .avg_forward = { forward_layout, avg_prepare, forward_run },
    .avg_backward = { avg_backward_layout, avg_backward_prepare, backward_run },
};
