/* Convolutions: forward and both gradients. Results lie as the kernels like them best, channels last. */
#include "device/cpu/cpu.h"
#include "kernel/conv/conv.h"

#define ATTRS(a)                                                                                                       \
    {                                                                                                                  \
        .stride_h = (a).stride_h, .stride_w = (a).stride_w, .pad_top = (a).pad_h, .pad_left = (a).pad_w,               \
        .pad_bottom = (a).pad_h, .pad_right = (a).pad_w, .dilation_h = (a).dilation_h, .dilation_w = (a).dilation_w,   \
        .groups = (a).groups                                                                                           \
    }

static const char *conv(const wfi_conv_family *f, const wfi_conv_attrs *at, const wfi_cpu *d, wfi_bind *b)
{
    wf_dtype dtype = b->out->dtype;
    const char *why = f->layout(at, &b->in[0], &b->in[1], b->out);
    b->out->dtype = dtype;
    b->fn = f->run;
    why =
        why ? why : f->prepare(at, &b->in[0], &b->in[1], b->out, b->threads, b->params, &b->params_bytes, &b->scratch);
    return why ? why : wfi_impl_choose(d, b, f->choices, b->params);
}

static const char *forward(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_conv_attrs at = ATTRS(b->attr->conv2d);
    const char *why = conv(&d->conv->forward, &at, d, b);
    if (!why)
        b->keep = (wfi_keep){ 1, d->conv->keep_bytes(b->params), d->conv->keep, d->conv->run_kept };
    return why;
}

static const char *input_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_conv_attrs at = ATTRS(b->attr->conv2d_input_grad);
    return conv(&d->conv->input_grad, &at, d, b);
}

static const char *weight_grad(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_conv_attrs at = ATTRS(b->attr->conv2d_weight_grad);
    return conv(&d->conv->weight_grad, &at, d, b);
}

static const wfi_impl impls[] = {
    { WFI_OP_conv2d, "cpu.conv", "ascending fma chain kh kw c", forward },
    { WFI_OP_conv2d_input_grad, "cpu.conv.input_grad", "ascending fma chain kh kw o", input_grad },
    { WFI_OP_conv2d_weight_grad, "cpu.conv.weight_grad", "blocks of 8 rows", weight_grad },
};
const wfi_impl_list wfi_impls_conv = { impls, sizeof impls / sizeof *impls };
