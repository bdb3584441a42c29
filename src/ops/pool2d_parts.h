/* pool2d_parts.h - what max_pool2d and avg_pool2d ask of their arguments. */
#ifndef WFI_OPS_POOL2D_PARTS_H
#define WFI_OPS_POOL2D_PARTS_H
#include <stdio.h>
#include "ops/op.h"

/* The eight numbers of a window, rows before columns. */
typedef struct pool2d_window {
    int64_t kernel[2], stride[2], pad[2], dilation[2];
} pool2d_window;

#define POOL2D_WINDOW(a)                                                                                               \
    {                                                                                                                  \
        { (a)->kernel_h, (a)->kernel_w }, { (a)->stride_h, (a)->stride_w }, { (a)->pad_h, (a)->pad_w },                \
        {                                                                                                              \
            (a)->dilation_h, (a)->dilation_w                                                                           \
        }                                                                                                              \
    }

/* Elements from the first tap of a window to its last. */
static inline int64_t pool2d_span(const pool2d_window *w, int i)
{
    return (w->kernel[i] - 1) * w->dilation[i] + 1;
}

static inline bool pool2d_is_below(const int64_t v[2], int64_t least)
{
    return v[0] < least || v[1] < least;
}

/* False: x is not images, or the window does not fit; `err` says what op expected. */
static inline bool pool2d_check(const char *op, const wfi_axis_shape *x, const pool2d_window *w, char *err,
                                size_t bytes)
{
    const int64_t *k = w->kernel, *s = w->stride, *p = w->pad, *d = w->dilation;
    if (x->ndim != 4) {
        snprintf(err, bytes, "%s: x has %d axes; x[N,C,H,W] was expected", op, (int)x->ndim);
        return false;
    }
    if (pool2d_is_below(k, 1) || pool2d_is_below(s, 1) || pool2d_is_below(d, 1)) {
        snprintf(err, bytes, "%s: kernel %d, %d, stride %d, %d and dilation %d, %d must all be at least 1", op,
                 (int)k[0], (int)k[1], (int)s[0], (int)s[1], (int)d[0], (int)d[1]);
        return false;
    }
    if (pool2d_is_below(p, 0) || 2 * p[0] > pool2d_span(w, 0) || 2 * p[1] > pool2d_span(w, 1)) {
        snprintf(err, bytes, "%s: pad %d, %d must be from 0 to half the kernel", op, (int)p[0], (int)p[1]);
        return false;
    }
    const int64_t height = x->dim[2] + 2 * p[0], width = x->dim[3] + 2 * p[1];
    if (height < pool2d_span(w, 0) || width < pool2d_span(w, 1)) {
        snprintf(err, bytes, "%s: kernel %d, %d is larger than the padded images of %lld x %lld", op, (int)k[0],
                 (int)k[1], (long long)height, (long long)width);
        return false;
    }
    return true;
}

#endif
