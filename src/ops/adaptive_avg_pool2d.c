/* adaptive_avg_pool2d(x, height, width): the mean of windows that are chosen so that the result has a given size.
 * x: [N, C, H, W] -> [N, C, height, width]. Window i of an axis begins at floor(i H / height) and ends before
 * ceil((i + 1) H / height), as in PyTorch; height = width = 1 is the mean of each channel (ONNX: GlobalAveragePool). */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const wfi_attr_adaptive_avg_pool2d *a = &c->a->adaptive_avg_pool2d;
    const wfi_axis_shape *x = &c->in[0];
    if (x->ndim != 4)
        snprintf(err, bytes, "adaptive_avg_pool2d: x has %d axes; x[N,C,H,W] was expected", (int)x->ndim);
    else if (a->height < 1 || a->width < 1)
        snprintf(err, bytes, "adaptive_avg_pool2d: height %lld and width %lld must be at least 1", (long long)a->height,
                 (long long)a->width);
    else if (x->dim[2] < 1 || x->dim[3] < 1)
        snprintf(err, bytes, "adaptive_avg_pool2d: images of %lld x %lld have no elements", (long long)x->dim[2],
                 (long long)x->dim[3]);
    else
        return true;
    return false;
}

static wf_tensor *mean_of(wf_tensor *x, wf_dims axes, const char *s)
{
    return wf_mean_(x, axes, WF_OPTS(wf_mean_opts, .keep = true), s);
}

/* Windows of unequal size along one axis: each cut out and averaged, all joined, at most 16 at a time. */
static wf_tensor *windows(wf_tensor *x, int32_t axis, int64_t out, const char *s)
{
    enum { MOST = 16 };
    wf_tensor *part[MOST + 1], *y = NULL;
    int64_t in = wfi_shape(x).d[axis], i = 0;
    while (i < out) {
        int32_t n = 0;
        if (y)
            part[n++] = y;
        for (int32_t k = 0; k < MOST && i < out; k++, i++) {
            int64_t a = i * in / out, b = ((i + 1) * in + out - 1) / out;
            part[n++] = mean_of(wf_slice_(x, axis, a, b - a, NULL, s), WF_DIMS(axis), s);
        }
        y = n > 1 ? wf_concat_(n, part, axis, s) : part[0];
    }
    return y;
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_tensor *x = v->in[0];
    wf_dims d = wfi_shape(x);
    int64_t h = v->a->adaptive_avg_pool2d.height, w = v->a->adaptive_avg_pool2d.width;
    if (h == 1 && w == 1)
        return mean_of(x, WF_DIMS(2, 3), s);
    if (d.d[2] % h == 0 && d.d[3] % w == 0 && d.d[2] / h <= INT32_MAX && d.d[3] / w <= INT32_MAX)
        return wf_avg_pool2d_(x,
                              WF_OPTS(wf_avg_pool2d_opts, .kernel_h = (int32_t)(d.d[2] / h),
                                      .kernel_w = (int32_t)(d.d[3] / w), .stride_h = (int32_t)(d.d[2] / h),
                                      .stride_w = (int32_t)(d.d[3] / w)),
                              s);
    return windows(windows(x, 2, h, s), 3, w, s);
}

const wf_op_def wf_op_adaptive_avg_pool2d = {
    .call = "x, height:i64, width:i64",
    .axes = "x[.. c h! w!] -> y[.. c p! q!]; p=height, q=width",
    .types = "float",
    .lower = lower,
    .check = check,
    .grad = wfi_grad_lowered,
    .onnx = "",
    .samples = "f32[2,3,6,8] height=1 width=1; f64[1,2,6,8] height=3 width=2; f32[2,3,7,5] height=3 width=2; "
               "f64[1,2,3,4] height=5 width=3; bf16[2,3,6,5] height=1 width=1 tol=2e-2",
};
