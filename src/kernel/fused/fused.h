/* fused.h - several element-wise rows over one index space, tile by tile: what one row makes for the next stays in L1.
 * The tile machine. Each row is the function that runs it alone (kernel/ew), so its results have the same bits. Instead
 * of the rows one function may do all of them (wfi_code), again with the same bits.
 *
 *     wfi_fused_spec s = { .nin = 2, .nout = 1, .nop = 2, .view = { y, a, b }, .out = { 1 },
 *                          .op = { { .fn = add, .in = { 0, 1 }, .arity = 2, .dtype = WF_F32 },
 *                                  { .fn = relu, .in = { 2 }, .arity = 1, .dtype = WF_F32 } } };
 *     const char *why = wfi_fused_avx2.prepare(&s, params, &scratch);
 *     ... wfi_fused_avx2.run(params, (void *[]){ y_data, a_data, b_data }, &run);
 *
 * Inputs come broadcast to the results' shape (stride 0 repeats); results have one layout. A result may take the place
 * of an input where wfi_fused_inplace says so. */
#ifndef WFI_KERNEL_FUSED_FUSED_H
#define WFI_KERNEL_FUSED_FUSED_H
#include <stdatomic.h>
#include "kernel/copy/copy.h"
#include "kernel/ew/ew.h"

enum { WFI_FUSED_IN = 32, WFI_FUSED_OUT = 4, WFI_FUSED_OPS = 64 };

#define WFI_FUSED_CAST WFI_ROWOF_COUNT /* in place of a row: the operand as another type */

typedef struct wfi_fused_op {
    wfi_ew_fn *fn;  /* NULL for casts */
    wf_dtype dtype; /* of the result */
    uint8_t row;    /* WFI_ROWOF_..., WFI_FUSED_CAST */
    uint8_t arity;
    uint8_t in[3]; /* below nin: an input; else nin + the number of an earlier op */
} wfi_fused_op;

typedef struct wfi_fused_spec {
    int32_t nin, nout, nop, threads;
    const wfi_view *view[WFI_FUSED_OUT + WFI_FUSED_IN]; /* results, then inputs */
    uint8_t out[WFI_FUSED_OUT];                         /* ops whose results leave */
    wfi_fused_op op[WFI_FUSED_OPS];
} wfi_fused_spec;

#define WFI_FUSED_PARAMS 8192 /* bytes of params, at most */

/* All ops of a group over n elements that lie together. at: results, then inputs, each contiguous or one element, as it
 * was made for; a result may be an input. streams: results go past the caches; they are aligned to 64 bytes. */
typedef void wfi_fused_fn(void *const *at, int64_t n, int streams);

/* Such a function, which may appear at any time, from another thread. */
typedef struct wfi_code {
    _Atomic(wfi_fused_fn *) fn; /* NULL: not there (yet) */
    _Atomic(const char *) how;  /* what runs, and why; lives as long as this */
} wfi_code;

typedef struct wfi_fused_kernels {
    const char *(*prepare)(const wfi_fused_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run; /* args: results, inputs */
    /* Which inputs are single elements wherever ops run: what a function for the group must know. */
    uint32_t (*splat)(const void *params);
    /* The tiles, or whole runs where nothing has to be brought together, go to code->fn as soon as it is there. */
    void (*attach)(void *params, const wfi_code *code);
} wfi_fused_kernels;

extern const wfi_fused_kernels wfi_fused_portable, wfi_fused_avx2, wfi_fused_avx512;

/* May result k take the place of input i, if their layouts are the same? Not if a later op still reads the input. */
static inline bool wfi_fused_inplace(const wfi_fused_spec *s, int k, int i)
{
    const wfi_fused_op *made = &s->op[s->out[k]];
    if (made->row == WFI_FUSED_CAST && made->in[0] == i)
        return false;
    if (wf_dtype_bytes(s->view[s->nout + i]->dtype) != wf_dtype_bytes(s->view[k]->dtype))
        return false;
    for (int q = s->out[k] + 1; q < s->nop; q++)
        for (int a = 0; a < s->op[q].arity; a++)
            if (s->op[q].in[a] == i)
                return false;
    return true;
}

#endif
