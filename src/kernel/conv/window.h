/* window.h - how many windows fit: the output size of convolutions and pooling, with checked arithmetic.
 *
 *     int64_t oh;
 *     const char *why = wfi_window_out(&(wfi_window){ .in = 56, .kernel = 3, .stride = 1, .lo = 1, .hi = 1, .dilation =
 * 1 }, &oh);
 */
#ifndef WFI_KERNEL_CONV_WINDOW_H
#define WFI_KERNEL_CONV_WINDOW_H
#include "base/ck.h"

/* One axis. Window o covers the input positions o * stride - lo + k * dilation, k = 0 .. kernel-1. */
typedef struct wfi_window {
    int64_t in;       /* size of the input, >= 0 */
    int64_t kernel;   /* >= 1 */
    int64_t stride;   /* >= 1 */
    int64_t lo, hi;   /* padding in front and behind, >= 0 */
    int64_t dilation; /* >= 1 */
    bool ceil;        /* round up: a last window may run over the end */
} wfi_window;

#define WFI_WINDOW_BELOW_1 "size below 1: the kernel is larger than the padded input"

/* Sets *out to the number of windows, at least 1, and returns NULL, or returns the reason why there is none.
 * Rounding up, a last window must still start inside the input or the leading padding. */
static inline const char *wfi_window_out(const wfi_window *w, int64_t *out)
{
    int64_t span, padded, n;
    if (w->kernel < 1 || w->stride < 1 || w->dilation < 1) {
        return "kernel, stride and dilation must be at least 1";
    }
    if (w->in < 0 || w->lo < 0 || w->hi < 0) {
        return "sizes and padding must not be negative";
    }
    if (!wfi_ck_mul64(w->kernel - 1, w->dilation, &span) || !wfi_ck_add64(w->in, w->lo, &padded) ||
        !wfi_ck_add64(padded, w->hi, &padded) || !wfi_ck_add64(padded, w->stride, &n) || n > WFI_DIM_MAX ||
        span > WFI_DIM_MAX || w->dilation > WFI_DIM_MAX) {
        return "sizes overflow";
    }
    n = padded - span - 1 + (w->ceil ? w->stride - 1 : 0);
    if (n < 0) {
        return WFI_WINDOW_BELOW_1;
    }
    n = n / w->stride + 1;
    if (w->ceil && (n - 1) * w->stride >= w->in + w->lo) {
        n--;
    }
    if (n < 1) {
        return WFI_WINDOW_BELOW_1;
    }
    *out = n;
    return NULL;
}

/* The taps of the window that starts at `start` (= o * stride - lo) that lie inside the input: first .. end-1. */
static inline void wfi_window_taps(const wfi_window *w, int64_t start, int64_t *first, int64_t *end)
{
    int64_t a = start >= 0 ? 0 : (-start + w->dilation - 1) / w->dilation;
    int64_t b = start >= w->in ? 0 : (w->in - 1 - start) / w->dilation + 1;
    b = b < w->kernel ? b : w->kernel;
    *first = a < b ? a : b;
    *end = b;
}

#endif
