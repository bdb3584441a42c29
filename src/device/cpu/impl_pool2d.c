/* Pooling of images. Results keep the layout of the images. */
#include "device/cpu/cpu.h"
#include "kernel/pool2d/pool2d.h"
#include "device/cpu/pool2d_pick.h"

#define ATTRS(a)                                                                                                       \
    {                                                                                                                  \
        .kernel_h = (a).kernel_h, .kernel_w = (a).kernel_w, .stride_h = (a).stride_h, .stride_w = (a).stride_w,        \
        .pad_top = (a).pad_h, .pad_left = (a).pad_w, .pad_bottom = (a).pad_h, .pad_right = (a).pad_w,                  \
        .dilation_h = (a).dilation_h, .dilation_w = (a).dilation_w, .ceil = true                                       \
    }

/* The kernels check the sizes of the result themselves: with `ceil` set they allow what either rounding gives. */
static const char *pool(const wfi_pool2d_family *f, const wfi_pool2d_attrs *at, wfi_bind *b, const wfi_view *second)
{
    wfi_view want = *b->out;
    wfi_pool2d_attrs a = *at;
    for (int ceil = 0; ceil < 2; ceil++) {
        a.ceil = ceil;
        *b->out = want;
        const char *why = f->layout(&a, &b->in[0], second, b->out);
        bool same = b->out->dim[2] == want.dim[2] && b->out->dim[3] == want.dim[3];
        if (!why && same)
            why = f->prepare(&a, &b->in[0], second, b->out, b->threads, b->params, &b->params_bytes, &b->scratch);
        if (!why && same) {
            b->fn = f->run;
            return NULL;
        }
    }
    return "the sizes of the windows do not fit";
}

static const char *max_pool(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_pool2d_attrs at = ATTRS(b->attr->max_pool2d);
    return pool(&d->pool2d->max_forward, &at, b, NULL);
}

static const char *max_pool_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_pool2d_attrs at = ATTRS(b->attr->max_pool2d_grad);
    return pool(&d->pool2d->max_backward, &at, b, &b->in[1]);
}

static const char *max_pool_pick(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_pool2d_attrs at = ATTRS(b->attr->max_pool2d_pick);
    (void)d;
    b->fn = wfi_pool2d_pick_run;
    b->params_bytes = sizeof(wfi_pool2d_pick);
    return wfi_pool2d_pick_prepare(&at, &b->in[0], &b->in[1], b->out, b->params);
}

/* The average leaves the pad out of its divisor if asked to. */
static const char *avg_pool(const wfi_cpu *d, wfi_bind *b)
{
    wfi_pool2d_attrs at = ATTRS(b->attr->avg_pool2d);
    at.count_pad = !b->attr->avg_pool2d.exclude_pad;
    return pool(&d->pool2d->avg_forward, &at, b, NULL);
}

static const char *avg_pool_grad(const wfi_cpu *d, wfi_bind *b)
{
    wfi_pool2d_attrs at = ATTRS(b->attr->avg_pool2d_grad);
    at.count_pad = !b->attr->avg_pool2d_grad.exclude_pad;
    return pool(&d->pool2d->avg_backward, &at, b, NULL);
}

#define FIRST "first maximum, windows in order"
static const wfi_impl impls[] = {
    { WFI_OP_max_pool2d, "cpu.max_pool2d", "", max_pool },
    { WFI_OP_max_pool2d_grad, "cpu.max_pool2d_grad", FIRST, max_pool_grad },
    { WFI_OP_max_pool2d_pick, "cpu.max_pool2d_pick", "", max_pool_pick },
    { WFI_OP_avg_pool2d, "cpu.avg_pool2d", "elements in order", avg_pool },
    { WFI_OP_avg_pool2d_grad, "cpu.avg_pool2d_grad", "windows in order", avg_pool_grad },
};
const wfi_impl_list wfi_impls_pool2d = { impls, sizeof impls / sizeof *impls };
