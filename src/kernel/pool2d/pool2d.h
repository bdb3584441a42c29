/* pool2d.h - max pooling of images: forward, and the gradient.
 *
 * x[N,C,H,W] -> y[N,C,OH,OW], any strides. A window starts inside the image or its leading pad; what lies outside the
 * image takes no part. A NaN in the window gives NaN; of equal elements the first counts (rows before columns).
 * gradient: dx = the sum of dy over the windows in which the element is that first maximum, added in the order of the
 * windows, from +0; 16-bit types in f32, rounded once. */
#ifndef WFI_KERNEL_POOL2D_H
#define WFI_KERNEL_POOL2D_H
#include "kernel/kernel.h"

typedef struct wfi_pool2d_attrs {
    int64_t kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w; /* all >= 1, pads >= 0 */
} wfi_pool2d_attrs;

typedef struct wfi_pool2d_kernels {
    /* y: dtype of x, sizes of the result, any strides. args: { y, x } */
    const char *(*max_prepare)(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *y, void *params,
                               size_t *params_bytes, size_t *scratch);
    wfi_kernel_fn *max_run;
    /* args: { dx, x, dy } */
    const char *(*max_grad_prepare)(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *dy,
                                    const wfi_view *dx, void *params, size_t *params_bytes, size_t *scratch);
    wfi_kernel_fn *max_grad_run;
    /* y = g where x has the first maximum of each window. args: { y, x, g } */
    const char *(*max_pick_prepare)(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *g,
                                    const wfi_view *y, void *params, size_t *params_bytes, size_t *scratch);
    wfi_kernel_fn *max_pick_run;
} wfi_pool2d_kernels;

extern const wfi_pool2d_kernels wfi_pool2d_portable, wfi_pool2d_avx2, wfi_pool2d_avx512;

#endif
