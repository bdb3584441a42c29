/* conv_core.h - what conv.c hands to the code that computes: one dense convolution without any operator's meaning.
 *
 * The forward run is one such core. The input gradient is stride_h * stride_w of them, one for each phase (the dx
 * pixels that share a remainder by the stride): within a phase the taps are regular again, with stride 1. */
#ifndef WFI_KERNEL_CONV_CONV_CORE_H
#define WFI_KERNEL_CONV_CONV_CORE_H
#include "kernel/conv/conv.h"
#include "kernel/isa.h"

typedef struct conv_plane {
    wf_dtype dtype;
    int64_t s[4]; /* strides in elements: n, channel, row, column */
} conv_plane;

/* What may be chosen otherwise (kernel/choice.h). 0: as the rule says. */
enum {
    WAY_BLOCK,   /* KiB of input under a block of output; of the weight gradient: of the sums of a part */
    WAY_ORDER,   /* 1: all panels of an output row, then the next row; 2: all rows of a panel. Of the weight gradient:
                  * threads   take 1: parts of dw; 2: blocks, whose results are added after */
    WAY_READ,    /* 2: rows are buffered, although x could be read as it lies */
    WAY_PIECES,  /* blocks for each thread, at least */
    WAY_PANELS,  /* parts into which the panels are cut; of the weight gradient: panels of a part, at most */
    WAY_THREADS, /* at most */
    WAYS
};
_Static_assert((int)WAYS <= (int)WFI_KNOBS, "WAYS");

/* out[n, j, oy, ox] = sum over ky, kx, k of in[n, k, oy*sh + ky*dh - pt, ox*sw + kx*dw - pl] * w[ky, kx, k, j] */
typedef struct conv_core {
    conv_plane x, y;
    wf_dtype wtype;
    int32_t threads;
    int64_t n, groups;
    int64_t ci, ih, iw; /* channels of a group; size of the input */
    int64_t co, oh, ow; /* the same of the output */
    int64_t kh, kw;     /* taps; kh or kw may be 0: the output is zero */
    int64_t sh, sw, dh, dw;
    int64_t pt, pl; /* may be negative: the first window starts inside */
    int64_t y0;     /* output element of this phase's [0, 0, 0, 0] */
    /* weights: element (ky, kx, k, j) of group g is w[wh * (k0h + ky*kdh) + ww * (k0w + kx*kdw) + wk*k + wj*j + wg*g]
     */
    int64_t wh, ww, wk, wj, wg;
    int64_t k0h, k0w, kdh, kdw;
    int64_t fh, fw; /* size of the whole kernel */
    wfi_choice way;
} conv_core;

/* dw[j, k, ky, kx] of each group; x, y as above, y being dy. */
typedef struct conv_wgrad {
    conv_core c;
    conv_plane dw; /* strides: j (output channel), k, ky, kx */
} conv_wgrad;

/* Where a run finds its pieces in scratch, in bytes; the last is the whole. */
typedef struct conv_room {
    size_t seg, weights, worker, worker_bytes, all;
    size_t kept; /* of packed weights that may be kept; 0: none */
} conv_room;

typedef struct conv_wroom {
    size_t acc, part, worker, worker_bytes, all;
    size_t pack, sums; /* inside a worker's */
} conv_wroom;

/* Scratch for a core; false: the sizes overflow. */
typedef bool conv_room_fn(const conv_core *c, conv_room *r);
/* weights: packed already (conv_pack_fn), or NULL */
typedef void conv_run_fn(const conv_core *c, const conv_room *r, void *const *args, const void *weights,
                         const wfi_run *run);
typedef void conv_pack_fn(const conv_core *c, const void *w, void *weights, const wfi_run *run);
typedef bool conv_wroom_fn(const conv_core *c, conv_wroom *r);
typedef void conv_wrun_fn(const conv_wgrad *g, const conv_wroom *r, void *const *args, const wfi_run *run);
typedef void conv_traits_fn(const conv_core *c, wfi_traits *t);

/* One set for f32, bf16 and f16, one for f64. */
typedef struct conv_real {
    conv_room_fn *room;
    conv_run_fn *run;
    conv_pack_fn *pack;
    conv_wroom_fn *wroom;
    conv_wrun_fn *wrun;
    conv_traits_fn *traits, *wtraits;
} conv_real;
extern const conv_real WFI_K(wfi_conv_f32), WFI_K(wfi_conv_f64);

#endif
