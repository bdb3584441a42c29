/* reduce.h - sums, products, extremes and their like over any set of axes of a view with any strides.
 *
 *     char params[WFI_PARAMS_MAX];
 *     size_t scratch;
 *     const char *why = k->prepare(WFI_REDUCE_SUM, &x, 1u << 1, &y, threads, params, &scratch);
 *     ... k->run(params, (void *[]){ y_data, x_data }, &run);
 *
 * The order of every combination is that of fold.h over the row-major index of the reduced axes, whatever the strides
 * and threads. 16-bit floats are combined in f32, the others in their own type, integers in i64 (wrapping). */
#ifndef WFI_KERNEL_REDUCE_H
#define WFI_KERNEL_REDUCE_H
#include "kernel/kernel.h"

/*                 x            y                      over nothing
 * sum, prod       float        a float                0, 1
 *                 integer      i64                    0, 1
 * squares         as sum       sum of x * x, each square rounded, then added
 * mean            float        a float                NaN (0 / 0); the sum is divided by the count, rounded once
 * max, min        any          the same               declined: there is no value. NaN wins.
 * any, all        any          bool                   0, 1; x != 0 counts as true, NaN does, too
 * argmax, argmin  any          i64                    declined. The first of equals wins, the first NaN before all.
 * logsumexp       float        a float                -inf; m + log(sum(exp(x - m))), m the maximum, 0 if infinite */
typedef enum wfi_reduce_kind {
    WFI_REDUCE_SUM = 0,
    WFI_REDUCE_PROD = 1,
    WFI_REDUCE_SQUARES = 2,
    WFI_REDUCE_MEAN = 3,
    WFI_REDUCE_MAX = 4,
    WFI_REDUCE_MIN = 5,
    WFI_REDUCE_ANY = 6,
    WFI_REDUCE_ALL = 7,
    WFI_REDUCE_ARGMAX = 8,
    WFI_REDUCE_ARGMIN = 9,
    WFI_REDUCE_LOGSUMEXP = 10,
    WFI_REDUCE_COUNT = 11
} wfi_reduce_kind;

typedef struct wfi_reduce_kernels {
    /* axes: bit d is set if axis d of x is reduced. y has the other axes, with or without the reduced ones as 1.
     * args of run: { y, x }. */
    const char *(*prepare)(wfi_reduce_kind kind, const wfi_view *x, uint32_t axes, const wfi_view *y, int threads,
                           void *params, size_t *scratch);
    wfi_kernel_fn *run;
    /* The gradient of max and min: dx = x == y ? dy / (how many of the group are equal to y) : 0. Ties are counted in
     * i64 and share equally; NaN equals NaN. Floats only; y and dy as in prepare. args: { dx, x, y, dy }. */
    const char *(*maxgrad_prepare)(const wfi_view *dx, const wfi_view *x, uint32_t axes, const wfi_view *y,
                                   const wfi_view *dy, int threads, void *params, size_t *scratch);
    wfi_kernel_fn *maxgrad_run;
} wfi_reduce_kernels;

extern const wfi_reduce_kernels wfi_reduce_portable, wfi_reduce_avx2, wfi_reduce_avx512;

#endif
