/* batchnorm.h - batch norm in training and its gradients: statistics of every channel over all other axes.
 *
 *     wfi_batchnorm_spec s = { .kind = WFI_BATCHNORM_TRAIN, .threads = 2, .eps = 1e-5, .v = { &y, &mean, &var, &x } };
 *     const char *why = k->prepare(&s, params, &scratch);
 *     ... k->run(params, (void *[WFI_BATCHNORM_SLOTS]){ y_data, mean_data, var_data, x_data }, &run);
 *
 * v and args have the same order, given below; an optional operand that is absent is NULL in both. x, dy, y and dx have
 * one shape of two axes or more and any strides; axis 1 is the channels'; the others are vectors along it.
 *
 * A *row* is one element of every channel; rows are counted row-major over the other axes. The order of a sum over rows
 * is one for all layouts and threads: groups of four rows, (0 + 1) + (2 + 3), are added ascending within a block of 128
 * rows; blocks are joined ascending in f64. 16-bit types are computed in f32 and rounded once.
 *
 * Mean and variance of a block: the mean m of its rows, then d = x - m, and both are corrected by the mean of d, so
 * that a large offset costs no digits; a block that leaves the range of f32 is done in f64. Blocks are joined by their
 * means and sums of squared differences (Chan, Golub, LeVeque 1979), so that x is read from memory once for the
 * statistics. */
#ifndef WFI_KERNEL_BATCHNORM_H
#define WFI_KERNEL_BATCHNORM_H
#include "kernel/kernel.h"

/* train  { y, mean, var, x, gamma?, beta? }            y = (x - mean) / sqrt(var + eps) * gamma + beta
 * grad   { dx, dgamma, dbeta, x, dy, mean, var, gamma? }
 *        with d = x - mean, r = 1 / sqrt(var + eps), n rows: dgamma = r sum(dy d), dbeta = sum(dy),
 *        dx = gamma r (dy - sum(dy) / n - d r^2 sum(dy d) / n)
 *
 * mean and var: f64 for f64, else f32. Without rows mean and var are NaN, dgamma and dbeta 0. y may lie exactly on x,
 * dx on x or dy. */
typedef enum wfi_batchnorm_kind { WFI_BATCHNORM_TRAIN = 0, WFI_BATCHNORM_GRAD = 1 } wfi_batchnorm_kind;

enum { WFI_BATCHNORM_SLOTS = 8 };

typedef struct wfi_batchnorm_spec {
    wfi_batchnorm_kind kind;
    int32_t threads;
    const wfi_view *v[WFI_BATCHNORM_SLOTS];
    double eps;
} wfi_batchnorm_spec;

typedef struct wfi_batchnorm_kernels {
    const char *(*prepare)(const wfi_batchnorm_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run;
} wfi_batchnorm_kernels;

extern const wfi_batchnorm_kernels wfi_batchnorm_portable, wfi_batchnorm_avx2, wfi_batchnorm_avx512;

#endif
