/* Convolutions: forward and both gradients. Results lie as the kernels like them best, channels last. */
#include "device/cpu/cpu.h"
#include "kernel/conv/conv.h"

#define ATTRS(a)                                                                                                       \
    {                                                                                                                  \
        .stride_h = (a).stride_h, .stride_w = (a).stride_w, .pad_top = (a).pad_h, .pad_left = (a).pad_w,               \
        .pad_bottom = (a).pad_h, .pad_right = (a).pad_w, .dilation_h = (a).dilation_h, .dilation_w = (a).dilation_w,   \
        .groups = (a).groups                                                                                           \
    }

typedef const char *part_fn(const wfi_cpu *d, const wfi_conv_kernels *k, wfi_bind *b);

static const char *with(const wfi_cpu *d, const wfi_conv_family *f, const wfi_conv_attrs *at, wfi_bind *b)
{
    wf_dtype dtype = b->out->dtype;
    const char *why = f->layout(at, &b->in[0], &b->in[1], b->out);
    b->out->dtype = dtype;
    b->fn = f->run;
    why =
        why ? why : f->prepare(at, &b->in[0], &b->in[1], b->out, b->threads, b->params, &b->params_bytes, &b->scratch);
    return why ? why : wfi_impl_choose(d, b, f->choices, b->params);
}

static const char *forward(const wfi_cpu *d, const wfi_conv_kernels *k, wfi_bind *b)
{
    const wfi_conv_attrs at = ATTRS(b->attr->conv2d);
    const char *why = with(d, &k->forward, &at, b);
    if (!why)
        b->keep = (wfi_keep){ 1, k->keep_bytes(b->params), k->keep, k->run_kept };
    return why;
}

static const char *input_grad(const wfi_cpu *d, const wfi_conv_kernels *k, wfi_bind *b)
{
    const wfi_conv_attrs at = ATTRS(b->attr->conv2d_input_grad);
    return with(d, &k->input_grad, &at, b);
}

static const char *weight_grad(const wfi_cpu *d, const wfi_conv_kernels *k, wfi_bind *b)
{
    const wfi_conv_attrs at = ATTRS(b->attr->conv2d_weight_grad);
    return with(d, &k->weight_grad, &at, b);
}

/* On the tile unit bf16 and f32 have order classes of their own. */
static const char *tiled(const wfi_cpu *d, wfi_bind *b, wf_dtype type, part_fn *part)
{
    if (b->out->dtype != type)
        return "element type";
    if (type == WF_F32 && !b->split)
        return "f32 as parts is not asked for";
    return d->conv_amx ? part(d, d->conv_amx, b) : "no tile unit";
}

#define EACH(part)                                                                                                     \
    static const char *part##_amx(const wfi_cpu *d, wfi_bind *b)                                                       \
    {                                                                                                                  \
        return tiled(d, b, WF_BF16, part);                                                                             \
    }                                                                                                                  \
    static const char *part##_bf16x3(const wfi_cpu *d, wfi_bind *b)                                                    \
    {                                                                                                                  \
        return tiled(d, b, WF_F32, part);                                                                              \
    }                                                                                                                  \
    static const char *part##_plain(const wfi_cpu *d, wfi_bind *b)                                                     \
    {                                                                                                                  \
        return part(d, d->conv, b);                                                                                    \
    }
EACH(forward)
EACH(input_grad)
EACH(weight_grad)

static const wfi_impl impls[] = {
    { WFI_OP_conv2d, "cpu.conv.amx", "amx pairs kh kw c", forward_amx },
    { WFI_OP_conv2d, "cpu.conv.bf16x3", "f32_bf16x3 kh kw c", forward_bf16x3 },
    { WFI_OP_conv2d, "cpu.conv", "ascending fma chain kh kw c", forward_plain },
    { WFI_OP_conv2d_input_grad, "cpu.conv.input_grad.amx", "amx pairs kh kw o", input_grad_amx },
    { WFI_OP_conv2d_input_grad, "cpu.conv.input_grad.bf16x3", "f32_bf16x3 kh kw o", input_grad_bf16x3 },
    { WFI_OP_conv2d_input_grad, "cpu.conv.input_grad", "ascending fma chain kh kw o", input_grad_plain },
    { WFI_OP_conv2d_weight_grad, "cpu.conv.weight_grad.amx", "amx pairs, blocks of rows", weight_grad_amx },
    { WFI_OP_conv2d_weight_grad, "cpu.conv.weight_grad.bf16x3", "f32_bf16x3, blocks of rows", weight_grad_bf16x3 },
    { WFI_OP_conv2d_weight_grad, "cpu.conv.weight_grad", "blocks of 8 rows", weight_grad_plain },
};
const wfi_impl_list wfi_impls_conv = { impls, sizeof impls / sizeof *impls };
