/* attention.h - fused attention: y = softmax(scale * q k^T + mask) v, and its gradient, without ever storing the
 * matrix of scores.
 *
 *     wfi_attention_spec s = { .v = { [WFI_ATTN_Y] = &y, [WFI_ATTN_LSE] = &lse, [WFI_ATTN_Q] = &q, ... },
 *                              .causal = true, .threads = 2 };
 *     const char *why = k->prepare(&s, params, &scratch);
 *     ... k->run(params, (void *[]){ y_data, lse_data, q_data, k_data, v_data }, &run);
 *
 * Shapes: q[.., s, e], k[.., t, e], v[.., t, d], y and dy[.., s, d], lse f32[.., s], mask[.., s, t]; up to six equal
 * batch dimensions first (a repeated operand has stride 0 there; a result must not). Any strides; operands are
 * f32, bf16, f16 (computed in f32, rounded once) or all f64. lse = log(sum(exp(scores))), natural logarithm.
 * stats f32[.., s, 2]: lse, and delta = sum(y * dy) over d; f64 computes them again.
 *
 * scale 0 means 1 / sqrt(e). With `causal`, query i sees the keys 0 .. i + t - s: the last query sees all of them. The
 * mask is bool (false: not seen) or float (added to the scaled score). A query that sees no key, or only scores of
 * -inf, has a row of zeros, lse = -inf, and gives no gradient.
 *
 * Order class `attention`, with z = scale * log2(e) folded into q and everything in units of log2:
 *   scores     x[i][j]: one ascending chain of fused multiply-adds over e, from +0; then the mask is added
 *   maximum    m[i] = ceil(the largest x[i][j] so far), looked at after each WFI_ATTENTION_KEYS keys counted from key
 * 0; at least -2^21 weights    p = 2^x * 2^-m; below 2^-127 they are 0. When m grows by n, all sums so far are
 * multiplied by 2^-n, which is exact, so that their bits do not depend on what has been the maximum on the way y one
 * ascending chain over the keys, divided by the sum of p, which ascends over the keys too gradient   p = 2^(x - lse);
 * dp[i][j]: one chain over d of v and dy * scale; ds = p * (dp - delta * scale); dq one chain over the keys of ds * k;
 * dk and dv one chain each over the queries of ds * q, p * dy Keys that are not seen are left out of all chains or add
 * exactly +0 or -0 to them. Portable code has a*b+c for every fused multiply-add. f64 takes the largest score of all
 * keys instead of m, and has no blocks. A row of f32 with a score beyond 2^21 (in log2 units) is done in f64. */
#ifndef WFI_KERNEL_ATTENTION_ATTENTION_H
#define WFI_KERNEL_ATTENTION_ATTENTION_H
#include "kernel/kernel.h"

#define WFI_ATTENTION_KEYS  96
#define WFI_ATTENTION_BATCH 6

enum {
    WFI_ATTN_Q,
    WFI_ATTN_K,
    WFI_ATTN_V,
    WFI_ATTN_Y,
    WFI_ATTN_LSE,
    WFI_ATTN_MASK,  /* NULL: none */
    WFI_ATTN_STATS, /* from here on the gradient's own operands and results; it has no y and no lse */
    WFI_ATTN_DY,
    WFI_ATTN_DQ,
    WFI_ATTN_DK,
    WFI_ATTN_DV,
    WFI_ATTN_SLOTS
};

typedef struct wfi_attention_spec {
    const wfi_view *v[WFI_ATTN_SLOTS];
    double scale;
    bool causal;
    int32_t threads; /* of the pool that will run it */
} wfi_attention_spec;

typedef struct wfi_attention_kernels {
    const char *order; /* the order class */
    const char *(*prepare)(const wfi_attention_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run; /* args: y, lse, q, k, v, mask? */
    const char *(*prepare_grad)(const wfi_attention_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run_grad; /* args: dq, dk, dv, q, k, v, stats, dy, mask? */
} wfi_attention_kernels;

extern const wfi_attention_kernels wfi_attention_portable, wfi_attention_avx2, wfi_attention_avx512;
/* bf16 only, on the tile unit (attn_amx.c has its order class); declines small ones. The second emulates the unit. */
extern const wfi_attention_kernels wfi_attention_amx, wfi_attention_amx_emulated;

#endif
