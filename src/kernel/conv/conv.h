/* conv.h - 2-d convolution: forward, input gradient, weight gradient.
 *
 *     x[n, c, h, w]  w[o, c/groups, kh, kw]  y[n, o, oh, ow]       (logical order; any strides)
 *
 * Each of the three is a family of layout, prepare and run (kernel/kernel.h):
 *     wfi_view y;                                                   // chooses y's shape and strides
 *     if ((why = k->forward.layout(&at, &x, &w, &y)) == NULL)
 *         why = k->forward.prepare(&at, &x, &w, &y, threads, params, &params_bytes, &scratch_bytes);
 *     k->forward.run(params, (void *[]){ yp, xp, wp }, &run);
 *
 * Types: f32; f64; bf16 and f16 (computed in f32, rounded once). All three operands have the same type.
 * An empty batch and zero channels are fine: sums over nothing are +0.
 *
 * Order of the sums (the bits depend on nothing else; FMA machines agree among themselves):
 *  - forward: one ascending fma chain from +0 over (kh, kw, c), c fastest. Kernel rows that lie outside the input are
 *    skipped; columns that lie outside enter as fma(0, w, acc), so an infinite or NaN weight there makes a NaN.
 *  - input gradient: the forward rule applied to dy and the flipped kernel with o and c exchanged: one chain over
 *    (kh, kw, o), kh and kw descending, o ascending. Taps that a stride leaves out are skipped, kernel rows whose
 *    dy row lies outside too; columns outside enter as fma(0, w, acc).
 *  - weight gradient: per block of WFI_CONV_ROWS output rows of one image, one chain from +0 over its (oy, ox) of
 *    fma(x, dy, acc); rows whose x row lies outside are skipped. Columns outside are skipped where a group has
 *    WFI_CONV_SKIP channels of input, else they enter as fma(0, dy, acc): an infinite or NaN dy there makes a NaN.
 *    The block results are added, from +0, in order of (n, block).
 *
 * On the tile unit (wfi_conv_amx; products of tiles: kernel/gemm/amx_tile.h) sums have steps of 32 terms; taps outside
 * add nothing:
 *  - `amx pairs`, bf16: one product of tiles a step. `f32_bf16x3`, f32 in three parts (kernel/gemm/amx_pack.h): six, of
 *    parts (2, 0) (1, 0) (1, 1) (0, 1) (0, 2) (0, 0) of the operands, at each step.
 *  - forward and input gradient: one chain over the taps as above, for each tap the channels by 32.
 *  - weight gradient: chains over blocks of rows or over the pixels of 32 images, from +0, added in order; what a block
 * is depends on the logical shape alone (conv_tiled_weight.h). Where the numbers of an operand cannot be split, all of
 * it is done by the plain kernel instead, which depends on the data alone. Which parts take a convolution: see
 * declined() in conv_amx.c, by the logical shape alone. */
#ifndef WFI_KERNEL_CONV_CONV_H
#define WFI_KERNEL_CONV_CONV_H
#include "kernel/choice.h"
#include "kernel/kernel.h"

#define WFI_CONV_ROWS 8
#define WFI_CONV_SKIP 16

typedef struct wfi_conv_attrs {
    int64_t stride_h, stride_w;                       /* >= 1 */
    int64_t pad_top, pad_left, pad_bottom, pad_right; /* >= 0 */
    int64_t dilation_h, dilation_w;                   /* >= 1 */
    int64_t groups;                                   /* divides c and o */
} wfi_conv_attrs;

/* Sets the strides that the kernel likes best in `out` (channels last; dw: contiguous). forward also sets its dtype
 * and sizes; the gradients want dtype and sizes in it. Returns NULL or the reason why the operands do not fit. */
typedef const char *wfi_conv_layout_fn(const wfi_conv_attrs *at, const wfi_view *a, const wfi_view *b, wfi_view *out);

/* out may have any strides (those of layout are the fastest) that do not make elements overlap. threads: the most
 * that a run's pool may have. params: WFI_PARAMS_MAX bytes, of which *params_bytes are used. */
typedef const char *wfi_conv_prepare_fn(const wfi_conv_attrs *at, const wfi_view *a, const wfi_view *b,
                                        const wfi_view *out, int threads, void *params, size_t *params_bytes,
                                        size_t *scratch_bytes);

typedef struct wfi_conv_family {
    wfi_conv_layout_fn *layout;
    wfi_conv_prepare_fn *prepare;
    wfi_kernel_fn *run;
    const wfi_choices *choices;
} wfi_conv_family;

typedef struct wfi_conv_kernels {
    wfi_conv_family forward;     /* a = x,  b = w;  args: y, x, w */
    wfi_conv_family input_grad;  /* a = dy, b = w;  args: dx, dy, w */
    wfi_conv_family weight_grad; /* a = x,  b = dy; args: dw, x, dy */
    /* forward with weights that are packed once for many runs: bytes of the room for them (0: not these), by the
     * parameters; packing; the run. args: y, x, w, room. */
    size_t (*keep_bytes)(const void *params);
    wfi_kernel_fn *keep, *run_kept;
} wfi_conv_kernels;

extern const wfi_conv_kernels wfi_conv_portable, wfi_conv_avx2, wfi_conv_avx512;
/* On the tile unit, where the channels are many: bf16, and f32 in three parts. Usable once wfi_gemm_amx_permit()
 * (kernel/gemm/gemm.h) has returned true. The other is the same with the unit's instructions in plain C. */
extern const wfi_conv_kernels wfi_conv_amx, wfi_conv_amx_emulated;

#endif
