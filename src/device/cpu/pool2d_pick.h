/* pool2d_pick.h - the gradient of the gradient of max pooling: the elements of g at the maxima of x.
 * x, g: [N,C,H,W], y: [N,C,OH,OW], any strides. As rare as it is, one plain loop serves every layout. */
#ifndef WFI_DEVICE_CPU_POOL2D_PICK_H
#define WFI_DEVICE_CPU_POOL2D_PICK_H
#include "kernel/pool2d/pool2d.h"

typedef struct wfi_pool2d_pick {
    wfi_pool2d_attrs at;
    wfi_view x, g, y;
} wfi_pool2d_pick;

/* NULL: accepted. args of run: { y, x, g } */
const char *wfi_pool2d_pick_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *g, const wfi_view *y,
                                    wfi_pool2d_pick *p);
void wfi_pool2d_pick_run(const void *params, void *const *args, const wfi_run *run);

#endif
