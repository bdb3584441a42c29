/* conv_family.h - the three families: checks, phases of the input gradient, parameters. Included once a source, which
 * says what computes: real_of(dtype), and what it leaves to others: declined(core, is it the
 * weight gradient). */
#include <string.h>
#include "kernel/conv/window.h"

#define EXTENT_MAX ((int64_t)1 << 31) /* of channels, rows and columns with their padding */

typedef struct fwd_params {
    conv_core core;
    conv_room room;
} fwd_params;

typedef struct igrad_params {
    conv_core core; /* common to the phases */
    conv_room room; /* the largest of each piece */
    wfi_conv_attrs at;
    int64_t kh, kw, h, w; /* whole kernel, size of dx */
} igrad_params;

typedef struct wgrad_params {
    conv_wgrad grad;
    conv_wroom room;
} wgrad_params;

_Static_assert(sizeof(fwd_params) <= WFI_PARAMS_MAX, "fwd_params");
_Static_assert(sizeof(igrad_params) <= WFI_PARAMS_MAX, "igrad_params");
_Static_assert(sizeof(wgrad_params) <= WFI_PARAMS_MAX, "wgrad_params");

/* Checks x and w and computes the output's sizes. */
static const char *sizes(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *w, int64_t *oh, int64_t *ow)
{
    const char *why;
    if (x->ndim != 4 || w->ndim != 4) {
        return "convolution needs x[n, c, h, w] and w[o, c/groups, kh, kw]";
    }
    if (x->dtype != w->dtype) {
        return "element types differ";
    }
    if (x->dtype != WF_F32 && x->dtype != WF_F64 && x->dtype != WF_BF16 && x->dtype != WF_F16) {
        return "convolution is computed in f32, f64, bf16 and f16 only";
    }
    if (at->groups < 1 || w->dim[0] % at->groups != 0 || x->dim[1] % at->groups != 0) {
        return "groups must divide the channels of input and output";
    }
    if (w->dim[1] != x->dim[1] / at->groups) {
        return "the weight's channels are not those of the input over groups";
    }
    why = wfi_window_out(&(wfi_window){ .in = x->dim[2],
                                        .kernel = w->dim[2],
                                        .stride = at->stride_h,
                                        .lo = at->pad_top,
                                        .hi = at->pad_bottom,
                                        .dilation = at->dilation_h },
                         oh);
    if (why == NULL) {
        why = wfi_window_out(&(wfi_window){ .in = x->dim[3],
                                            .kernel = w->dim[3],
                                            .stride = at->stride_w,
                                            .lo = at->pad_left,
                                            .hi = at->pad_right,
                                            .dilation = at->dilation_w },
                             ow);
    }
    if (why != NULL) {
        return why;
    }
    if (x->dim[1] > EXTENT_MAX || w->dim[0] > EXTENT_MAX || x->dim[2] + at->pad_top + at->pad_bottom > EXTENT_MAX ||
        x->dim[3] + at->pad_left + at->pad_right > EXTENT_MAX || at->dilation_h > EXTENT_MAX ||
        at->dilation_w > EXTENT_MAX || at->stride_h > EXTENT_MAX || at->stride_w > EXTENT_MAX) {
        return "channels, rows or columns exceed 2^31";
    }
    return NULL;
}

static const char *check_y(const wfi_view *x, const wfi_view *w, const wfi_view *y, int64_t oh, int64_t ow)
{
    if (y->ndim != 4 || y->dtype != x->dtype) {
        return "the output must be of the input's type and have four dimensions";
    }
    if (y->dim[0] != x->dim[0] || y->dim[1] != w->dim[0] || y->dim[2] != oh || y->dim[3] != ow) {
        return "the sizes are not those of the convolution's output";
    }
    return NULL;
}

static void channels_last(wfi_view *v)
{
    int64_t c = v->dim[1] > 0 ? v->dim[1] : 1, w = v->dim[3] > 0 ? v->dim[3] : 1, h = v->dim[2] > 0 ? v->dim[2] : 1;
    v->stride[1] = 1;
    v->stride[3] = c;
    v->stride[2] = c * w;
    v->stride[0] = c * w * h;
}

static conv_plane plane(const wfi_view *v)
{
    conv_plane p = { .dtype = v->dtype };
    for (int i = 0; i < 4; i++) {
        p.s[i] = v->dim[i] == 1 ? (i == 1 ? 1 : 0) : v->stride[i];
    }
    return p;
}

/* ---- forward ---- */

static const char *fwd_layout(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *w, wfi_view *y)
{
    int64_t oh, ow;
    const char *why = sizes(at, x, w, &oh, &ow);
    if (why == NULL) {
        *y = (wfi_view){ .dtype = x->dtype, .ndim = 4, .dim = { x->dim[0], w->dim[0], oh, ow } };
        channels_last(y);
    }
    return why;
}

static void fwd_core(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *w, const wfi_view *y, int threads,
                     conv_core *c)
{
    *c = (conv_core){
        .x = plane(x),
        .y = plane(y),
        .wtype = w->dtype,
        .threads = threads > 1 ? threads : 1,
        .n = x->dim[0],
        .groups = at->groups,
        .ci = w->dim[1],
        .ih = x->dim[2],
        .iw = x->dim[3],
        .co = w->dim[0] / at->groups,
        .oh = y->dim[2],
        .ow = y->dim[3],
        .kh = w->dim[2],
        .kw = w->dim[3],
        .sh = at->stride_h,
        .sw = at->stride_w,
        .dh = at->dilation_h,
        .dw = at->dilation_w,
        .pt = at->pad_top,
        .pl = at->pad_left,
        .wh = w->stride[2],
        .ww = w->stride[3],
        .wk = w->stride[1],
        .wj = w->stride[0],
        .wg = w->dim[0] / at->groups * w->stride[0],
        .kdh = 1,
        .kdw = 1,
        .fh = w->dim[2],
        .fw = w->dim[3],
    };
}

static const char *fwd_prepare(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *w, const wfi_view *y,
                               int threads, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    fwd_params *p = params;
    int64_t oh, ow;
    const char *why = sizes(at, x, w, &oh, &ow);
    why = why != NULL ? why : check_y(x, w, y, oh, ow);
    if (why != NULL) {
        return why;
    }
    fwd_core(at, x, w, y, threads, &p->core);
    if ((why = declined(&p->core, false)) != NULL) {
        return why;
    }
    if (!real_of(x->dtype)->room(&p->core, &p->room)) {
        return "sizes overflow";
    }
    *params_bytes = sizeof *p;
    *scratch_bytes = p->room.all;
    return NULL;
}

static void fwd_run(const void *params, void *const *args, const wfi_run *run)
{
    const fwd_params *p = params;
    real_of(p->core.wtype)->run(&p->core, &p->room, args, NULL, run);
}

/* ... with weights that were packed before */
static size_t fwd_keep_bytes(const void *params)
{
    return ((const fwd_params *)params)->room.kept;
}

static void fwd_keep(const void *params, void *const *args, const wfi_run *run)
{
    const fwd_params *p = params;
    real_of(p->core.wtype)->pack(&p->core, args[2], args[3], run);
}

static void fwd_run_kept(const void *params, void *const *args, const wfi_run *run)
{
    const fwd_params *p = params;
    real_of(p->core.wtype)->run(&p->core, &p->room, args, args[3], run);
}

/* ---- input gradient ---- */

static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t t = a % b;
        a = b;
        b = t;
    }
    return a;
}

/* One axis of a phase. dx position p + s * j takes tap k from dy position (p + s * j + pad - k * d) / s where that is
 * whole: every (s / gcd)-th k. They are walked from the largest down, so that dy positions rise by d / gcd. */
typedef struct axis_phase {
    int64_t size; /* dx positions of the phase */
    int64_t taps, tap0, tap_step, dilation, pad;
} axis_phase;

static axis_phase phase(int64_t p, int64_t size, int64_t s, int64_t d, int64_t pad, int64_t kernel)
{
    int64_t g = gcd(s, d), every = s / g, k = kernel - 1;
    axis_phase a = { .size = p < size ? (size - p + s - 1) / s : 0, .tap_step = -every, .dilation = d / g };
    for (int64_t tries = 0; tries < every && k >= 0 && (p + pad - k * d) % s != 0; tries++) {
        k--;
    }
    if (k >= 0 && (p + pad - k * d) % s == 0) {
        a.taps = k / every + 1;
        a.tap0 = k;
        a.pad = -((p + pad - k * d) / s);
    }
    return a;
}

static void phase_core(const igrad_params *p, int64_t py, int64_t px, conv_core *c)
{
    const wfi_conv_attrs *at = &p->at;
    axis_phase h = phase(py, p->h, at->stride_h, at->dilation_h, at->pad_top, p->kh);
    axis_phase w = phase(px, p->w, at->stride_w, at->dilation_w, at->pad_left, p->kw);
    *c = p->core;
    c->oh = h.size;
    c->ow = w.size;
    c->kh = w.taps > 0 ? h.taps : 0;
    c->kw = h.taps > 0 ? w.taps : 0;
    c->sh = c->sw = 1;
    c->dh = h.dilation;
    c->dw = w.dilation;
    c->pt = h.pad;
    c->pl = w.pad;
    c->y0 = py * c->y.s[2] + px * c->y.s[3];
    c->y.s[2] *= at->stride_h;
    c->y.s[3] *= at->stride_w;
    c->k0h = h.tap0;
    c->k0w = w.tap0;
    c->kdh = h.tap_step;
    c->kdw = w.tap_step;
}

static int64_t phases(int64_t stride, int64_t size)
{
    return stride < size ? stride : size;
}

static const char *igrad_check(const wfi_conv_attrs *at, const wfi_view *dy, const wfi_view *w, const wfi_view *dx)
{
    int64_t oh, ow;
    const char *why = sizes(at, dx, w, &oh, &ow);
    return why != NULL ? why : check_y(dx, w, dy, oh, ow);
}

static const char *igrad_layout(const wfi_conv_attrs *at, const wfi_view *dy, const wfi_view *w, wfi_view *dx)
{
    const char *why = igrad_check(at, dy, w, dx);
    if (why == NULL) {
        channels_last(dx);
    }
    return why;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Every phase begins at the same places of scratch. */
static bool igrad_room(igrad_params *p)
{
    size_t seg = 0, weights = 0, worker = 0, all, most = 0;
    for (int64_t y = 0; y < phases(p->at.stride_h, p->h); y++) {
        for (int64_t x = 0; x < phases(p->at.stride_w, p->w); x++) {
            conv_core c;
            conv_room r;
            phase_core(p, y, x, &c);
            if (!real_of(c.wtype)->room(&c, &r)) {
                return false;
            }
            seg = larger(seg, r.weights);
            weights = larger(weights, r.worker - r.weights);
            worker = larger(worker, r.worker_bytes);
            most = larger(most, r.all);
        }
    }
    p->room = (conv_room){ .seg = 0, .weights = seg, .worker_bytes = worker };
    if (!wfi_ck_add(seg, weights, &p->room.worker) || !wfi_ck_mul(worker, (size_t)p->core.threads, &all) ||
        !wfi_ck_add(all, p->room.worker, &all)) {
        return false;
    }
    p->room.all = larger(all, most);
    return true;
}

static const char *igrad_prepare(const wfi_conv_attrs *at, const wfi_view *dy, const wfi_view *w, const wfi_view *dx,
                                 int threads, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    igrad_params *p = params;
    conv_core *c = &p->core;
    const char *why = igrad_check(at, dy, w, dx);
    if (why != NULL) {
        return why;
    }
    *p = (igrad_params){ .at = *at, .kh = w->dim[2], .kw = w->dim[3], .h = dx->dim[2], .w = dx->dim[3] };
    fwd_core(at, dy, w, dx, threads, c); /* then o and c change places */
    c->ci = w->dim[0] / at->groups;
    c->co = w->dim[1];
    c->wk = w->stride[0];
    c->wj = w->stride[1];
    if ((why = declined(c, false)) != NULL) {
        return why;
    }
    if (!igrad_room(p)) {
        return "sizes overflow";
    }
    *params_bytes = sizeof *p;
    *scratch_bytes = p->room.all;
    return NULL;
}

static void igrad_run(const void *params, void *const *args, const wfi_run *run)
{
    const igrad_params *p = params;
    for (int64_t y = 0; y < phases(p->at.stride_h, p->h); y++) {
        for (int64_t x = 0; x < phases(p->at.stride_w, p->w); x++) {
            conv_core c;
            phase_core(p, y, x, &c);
            real_of(c.wtype)->run(&c, &p->room, args, NULL, run);
        }
    }
}

/* ---- weight gradient ---- */

static const char *wgrad_check(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *dy, const wfi_view *dw)
{
    int64_t oh, ow;
    const char *why = sizes(at, x, dw, &oh, &ow);
    return why != NULL ? why : check_y(x, dw, dy, oh, ow);
}

static const char *wgrad_layout(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *dy, wfi_view *dw)
{
    const char *why = wgrad_check(at, x, dy, dw);
    int64_t stride = 1;
    for (int i = 3; why == NULL && i >= 0; i--) {
        dw->stride[i] = stride;
        stride *= dw->dim[i] > 0 ? dw->dim[i] : 1;
    }
    return why;
}

static const char *wgrad_prepare(const wfi_conv_attrs *at, const wfi_view *x, const wfi_view *dy, const wfi_view *dw,
                                 int threads, void *params, size_t *params_bytes, size_t *scratch_bytes)
{
    wgrad_params *p = params;
    const char *why = wgrad_check(at, x, dy, dw);
    if (why != NULL) {
        return why;
    }
    fwd_core(at, x, dw, dy, threads, &p->grad.c);
    p->grad.dw = plane(dw);
    p->grad.dw.s[1] = dw->stride[1];
    if ((why = declined(&p->grad.c, true)) != NULL) {
        return why;
    }
    if (!real_of(x->dtype)->wroom(&p->grad.c, &p->room)) {
        return "sizes overflow";
    }
    *params_bytes = sizeof *p;
    *scratch_bytes = p->room.all;
    return NULL;
}

static void wgrad_run(const void *params, void *const *args, const wfi_run *run)
{
    const wgrad_params *p = params;
    real_of(p->grad.c.wtype)->wrun(&p->grad, &p->room, args, run);
}

/* With the other ways of each part (kernel/choice.h; NULL: none). */
#define CONV_FAMILIES(fwd_ways, igrad_ways, wgrad_ways)                                                                \
    {                                                                                                                  \
        .forward = { fwd_layout, fwd_prepare, fwd_run, fwd_ways },                                                     \
        .input_grad = { igrad_layout, igrad_prepare, igrad_run, igrad_ways },                                          \
        .weight_grad = { wgrad_layout, wgrad_prepare, wgrad_run, wgrad_ways }, .keep_bytes = fwd_keep_bytes,           \
        .keep = fwd_keep, .run_kept = fwd_run_kept,                                                                    \
    }
