#include "device/cpu/pool2d_pick.h"
#include <string.h>
#include "base/dtype.h"

const char *wfi_pool2d_pick_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *g, const wfi_view *y,
                                    wfi_pool2d_pick *p)
{
    if (x->ndim != 4 || g->ndim != 4 || y->ndim != 4 || !wfi_dtype_is_float(x->dtype) || wf_dtype_bytes(x->dtype) < 2)
        return "images of floats have four axes";
    *p = (wfi_pool2d_pick){ *at, *x, *g, *y };
    return NULL;
}

/* Where the first maximum of window (oh, ow) stands: element offsets in x and g; false: nothing lies inside. */
static bool find(const wfi_pool2d_pick *p, const void *x, int64_t base, int64_t oh, int64_t ow, int64_t *h, int64_t *w)
{
    double best = 0;
    bool any = false;
    for (int64_t k = 0; k < p->at.kernel_h * p->at.kernel_w; k++) {
        int64_t i = oh * p->at.stride_h - p->at.pad_top + k / p->at.kernel_w * p->at.dilation_h;
        int64_t j = ow * p->at.stride_w - p->at.pad_left + k % p->at.kernel_w * p->at.dilation_w;
        if (i < 0 || i >= p->x.dim[2] || j < 0 || j >= p->x.dim[3])
            continue;
        double v = wfi_dtype_load(p->x.dtype, x, base + i * p->x.stride[2] + j * p->x.stride[3]);
        if (any && !(v > best) && !(v != v && best == best))
            continue;
        best = v;
        *h = i;
        *w = j;
        any = true;
    }
    return any;
}

void wfi_pool2d_pick_run(const void *params, void *const *args, const wfi_run *run)
{
    const wfi_pool2d_pick *p = params;
    size_t size = wf_dtype_bytes(p->x.dtype);
    int64_t n = p->y.dim[0] * p->y.dim[1] * p->y.dim[2] * p->y.dim[3];
    (void)run;
    for (int64_t e = 0; e < n; e++) {
        int64_t ow = e % p->y.dim[3], oh = e / p->y.dim[3] % p->y.dim[2], h = 0, w = 0;
        int64_t c = e / p->y.dim[3] / p->y.dim[2] % p->y.dim[1], b = e / p->y.dim[3] / p->y.dim[2] / p->y.dim[1];
        char *to =
            (char *)args[0] +
            (b * p->y.stride[0] + c * p->y.stride[1] + oh * p->y.stride[2] + ow * p->y.stride[3]) * (int64_t)size;
        if (find(p, args[1], b * p->x.stride[0] + c * p->x.stride[1], oh, ow, &h, &w))
            memcpy(to,
                   (char *)args[2] +
                       (b * p->g.stride[0] + c * p->g.stride[1] + h * p->g.stride[2] + w * p->g.stride[3]) *
                           (int64_t)size,
                   size);
        else
            memset(to, 0, size);
    }
}
