/* row.h - softmax, cross entropy and layer norm: kernels that see one row, all elements along one axis, at a time.
 *
 *     wfi_row_spec s = { .kind = WFI_ROW_SOFTMAX, .axis = 1, .threads = 2, .v = { &y, &x } };
 *     const char *why = k->prepare(&s, params, &scratch);
 *     ... k->run(params, (void *[]){ y_data, x_data }, &run);
 *
 * v and args have the same order, given below; an optional operand that is absent is NULL in both. Operands with rows
 * have the sizes of x and any strides; per-row operands have them without the axis (or with 1 there); per-column
 * operands are vectors along it. Outputs may lie exactly on an input with rows.
 *
 * Sums over a row: 32 lanes and one tree, as in fold.h. 16-bit types are computed in f32 and rounded once. */
#ifndef WFI_KERNEL_ROW_H
#define WFI_KERNEL_ROW_H
#include "kernel/choice.h"
#include "kernel/kernel.h"

/* m: the largest element of the row; s = sum(exp(x - m)); n: the length of the row; l: the label.
 *
 * softmax           { y, x }                     y = exp(x - m) * (1 / s). A row of -inf gives NaN.
 * softmax_grad      { dx, y, dy }                dx = y * (dy - sum(dy * y))
 * log_softmax       { y, x }                     y = (x - m) - log(s)
 * log_softmax_grad  { dx, y, dy }                dx = dy - exp(y) * sum(dy)
 * xent              { loss, weight?, x, labels } loss = log(s) - (x[l] - m); with smoothing a:
 *                                                (1 - a) * that + a * (log(s) - sum(x - m) / n)
 *                                                weight = 1; both 0 where the label is ignored
 * xent_grad         { dx, x, labels, g }         dx = g * (exp(x - m) * (1 / s) - a / n - (1 - a) * [column == l]);
 *                                                exactly 0 where g is 0 or the label is ignored
 * norm              { y, mean?, rstd?, x, gamma?, beta? }  y = (x - mean) * rstd * gamma + beta,
 *                                                rstd = 1 / sqrt(variance + eps)
 * norm_grad         { dx, x, gamma?, dy }        dx = rstd * (g - sum(g) / n - h * sum(g * h) / n),
 *                                                g = dy * gamma, h = (x - mean) * rstd, computed again from x
 * norm_param_grad   { dgamma?, dbeta?, x, dy }   dgamma = sum over rows of dy * h, dbeta of dy
 *
 * Labels are i64 or i32, loss, weight, mean, rstd and g any float. A label outside 0 .. n-1 that is not `ignore` is a
 * fault (wfi_fault_index) and counts as ignored.
 *
 * Mean and variance: the mean m1 of x, then d = x - m1, and both are corrected by the mean of d, so that a large offset
 * costs no digits. A row that leaves the range of f32 is computed again in f64. */
typedef enum wfi_row_kind {
    WFI_ROW_SOFTMAX = 0,
    WFI_ROW_SOFTMAX_GRAD = 1,
    WFI_ROW_LOG_SOFTMAX = 2,
    WFI_ROW_LOG_SOFTMAX_GRAD = 3,
    WFI_ROW_XENT = 4,
    WFI_ROW_XENT_GRAD = 5,
    WFI_ROW_NORM = 6,
    WFI_ROW_NORM_GRAD = 7,
    WFI_ROW_NORM_PARAM_GRAD = 8,
    WFI_ROW_COUNT = 9
} wfi_row_kind;

enum { WFI_ROW_SLOTS = 6 };

typedef struct wfi_row_spec {
    wfi_row_kind kind;
    int32_t axis;
    int32_t threads;
    const wfi_view *v[WFI_ROW_SLOTS];
    int64_t ignore;   /* xent: the label that does not count */
    double smoothing; /* xent: 0 .. 1 */
    double eps;       /* norm */
} wfi_row_spec;

typedef struct wfi_row_kernels {
    const char *(*prepare)(const wfi_row_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run;
    const wfi_choices *choices;
} wfi_row_kernels;

extern const wfi_row_kernels wfi_row_portable, wfi_row_avx2, wfi_row_avx512;

#endif
