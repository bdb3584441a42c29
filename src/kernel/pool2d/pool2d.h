/* pool2d.h - maximum and average over windows, and their gradients.
 *
 *     x[n, c, h, w] -> y[n, c, oh, ow]       (logical order; any strides; y keeps x's layout)
 *
 * A window must start inside the input or the leading padding, and must hold at least one element of the input;
 * anything else is an error of prepare. Padding is never a value: the maximum runs over the elements that exist.
 *
 * Types: f32, f64; bf16 and f16 (sums in f32, rounded once).
 *  - maximum: NaN counts as larger than everything; of equal maxima (NaNs, zeros of either sign) the first in (kh, kw)
 *    order wins. The gradient goes to that element alone; where windows overlap, it is added in (oh, ow) order from +0.
 *  - average: the sum in (kh, kw) order from +0, divided once by the number of elements of the window: those inside the
 *    input, or with count_pad those inside the padded input. Gradient: dy / number, added in (oh, ow) order from +0. */
#ifndef WFI_KERNEL_POOL2D_POOL2D_H
#define WFI_KERNEL_POOL2D_POOL2D_H
#include "kernel/kernel.h"

typedef struct wfi_pool2d_attrs {
    int64_t kernel_h, kernel_w;                       /* >= 1 */
    int64_t stride_h, stride_w;                       /* >= 1 */
    int64_t pad_top, pad_left, pad_bottom, pad_right; /* >= 0 */
    int64_t dilation_h, dilation_w;                   /* >= 1 */
    bool ceil;                                        /* round the output size up */
    bool count_pad;                                   /* average: padding counts in the divisor */
} wfi_pool2d_attrs;

/* As wfi_conv_layout_fn and wfi_conv_prepare_fn (kernel/conv/conv.h). b is NULL where there is no second input. The
 * gradients want dtype and sizes in `out`, the forward functions set them. */
typedef const char *wfi_pool2d_layout_fn(const wfi_pool2d_attrs *at, const wfi_view *a, const wfi_view *b,
                                         wfi_view *out);
typedef const char *wfi_pool2d_prepare_fn(const wfi_pool2d_attrs *at, const wfi_view *a, const wfi_view *b,
                                          const wfi_view *out, int threads, void *params, size_t *params_bytes,
                                          size_t *scratch_bytes);

typedef struct wfi_pool2d_family {
    wfi_pool2d_layout_fn *layout;
    wfi_pool2d_prepare_fn *prepare;
    wfi_kernel_fn *run;
} wfi_pool2d_family;

typedef struct wfi_pool2d_kernels {
    wfi_pool2d_family max_forward;  /* a = x;         args: y, x */
    wfi_pool2d_family max_backward; /* a = x, b = dy; args: dx, x, dy */
    wfi_pool2d_family avg_forward;  /* a = x;         args: y, x */
    wfi_pool2d_family avg_backward; /* a = dy;        args: dx, dy */
} wfi_pool2d_kernels;

extern const wfi_pool2d_kernels wfi_pool2d_portable, wfi_pool2d_avx2, wfi_pool2d_avx512;

#endif
