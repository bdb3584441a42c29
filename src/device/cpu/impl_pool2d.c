/* Pooling of images. Results keep the layout of the images. */
#include "device/cpu/cpu.h"
#include "kernel/pool2d/pool2d.h"

#define ATTRS(a)                                                                                                       \
    { (a).kernel_h, (a).kernel_w, (a).stride_h, (a).stride_w, (a).pad_h, (a).pad_w, (a).dilation_h, (a).dilation_w }

/* Channels last in, channels last out. */
static void like_layout(const wfi_view *x, wfi_view *y)
{
    if (x->ndim != 4 || x->stride[1] != 1 || x->dim[1] == 1)
        return;
    y->stride[1] = 1;
    y->stride[3] = y->dim[1];
    y->stride[2] = y->dim[1] * y->dim[3];
    y->stride[0] = y->dim[1] * y->dim[3] * y->dim[2];
}

static const char *max_pool(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_pool2d_attrs at = ATTRS(b->attr->max_pool2d);
    like_layout(b->in, b->out);
    b->fn = d->pool2d->max_run;
    return d->pool2d->max_prepare(&at, &b->in[0], b->out, b->params, &b->params_bytes, &b->scratch);
}

static const char *max_pool_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_pool2d_attrs at = ATTRS(b->attr->max_pool2d_grad);
    wfi_impl_keep_layout(&b->in[0], b->out);
    b->fn = d->pool2d->max_grad_run;
    return d->pool2d->max_grad_prepare(&at, &b->in[0], &b->in[1], b->out, b->params, &b->params_bytes, &b->scratch);
}

static const char *max_pool_pick(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_pool2d_attrs at = ATTRS(b->attr->max_pool2d_pick);
    like_layout(b->in, b->out);
    b->fn = d->pool2d->max_pick_run;
    return d->pool2d->max_pick_prepare(&at, &b->in[0], &b->in[1], b->out, b->params, &b->params_bytes, &b->scratch);
}

#define FIRST "first maximum, windows in order"
static const wfi_impl impls[] = {
    { WFI_OP_max_pool2d, "cpu.max_pool2d", "", max_pool },
    { WFI_OP_max_pool2d_grad, "cpu.max_pool2d_grad", FIRST, max_pool_grad },
    { WFI_OP_max_pool2d_pick, "cpu.max_pool2d_pick", "", max_pool_pick },
};
const wfi_impl_list wfi_impls_pool2d = { impls, sizeof impls / sizeof *impls };
