/* pool2d_core.h - what pool2d.c hands to the code that computes. */
#ifndef WFI_KERNEL_POOL2D_POOL2D_CORE_H
#define WFI_KERNEL_POOL2D_POOL2D_CORE_H
#include "kernel/conv/conv_core.h"
#include "kernel/conv/window.h"
#include "kernel/pool2d/pool2d.h"

typedef struct pool2d_core {
    conv_plane x, y, dx; /* y: dy in the gradients; x unused in the gradient of the average */
    wfi_window h, w;
    int64_t n, c, oh, ow;
    bool max, count_pad;
    int32_t threads;
    /* how the work is cut, set by `plan` */
    int64_t cb, rb;               /* channels and output rows of a chunk */
    size_t worker_bytes, y_place; /* scratch of a worker: rows of x, then (at y_place) a row of y, ... */
    size_t dx_place;              /* ... then the dx of cb channels */
} pool2d_core;

typedef struct pool2d_real {
    /* Set the plan; false: the sizes overflow. */
    bool (*plan_forward)(pool2d_core *c);
    bool (*plan_backward)(pool2d_core *c);
    void (*forward)(const pool2d_core *c, void *const *args, const wfi_run *run);  /* y, x */
    void (*backward)(const pool2d_core *c, void *const *args, const wfi_run *run); /* dx, [x,] dy */
} pool2d_real;
extern const pool2d_real WFI_K(wfi_pool2d_f32), WFI_K(wfi_pool2d_f64);

#endif
