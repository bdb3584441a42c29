/* gemm.h - matrix products c[.., m, n] = a[.., m, k] b[.., k, n], of any strides, over up to six batch dimensions.
 *
 * Order class `chain`: each element of c is one ascending chain of fused multiply-adds over k that starts at +0 (in
 * portable code a*b+c with two roundings), rounded once to c's type at the end. Integers wrap. No blocking, stride,
 * edge or thread count changes a bit; three loops with fmaf are the oracle. k = 0 gives +0.
 *
 *     wfi_gemm g;
 *     size_t scratch;
 *     const char *why = wfi_gemm_avx2.prepare(&a, &b, &c, threads, &g, &scratch);
 *     if (!why)
 *         wfi_gemm_avx2.run(&g, (void *[]){ c_data, a_data, b_data }, &run);
 */
#ifndef WFI_KERNEL_GEMM_GEMM_H
#define WFI_KERNEL_GEMM_GEMM_H
#include "kernel/choice.h"
#include "kernel/isa.h"
#include "kernel/kernel.h"

#define WFI_GEMM_BATCH_MAX 6

typedef enum wfi_gemm_tier {
    WFI_GEMM_NOTHING = 0, /* no element: nothing to do */
    WFI_GEMM_SMALL = 1,   /* both operands read where they lie */
    WFI_GEMM_PLACE = 2,   /* a where it lies, blocks of b packed */
    WFI_GEMM_PACKED = 3,  /* both packed, down the columns of c: a panel of b in L1, a block of a in L2 */
    WFI_GEMM_ROWS = 4,    /* m <= 4, b read once, row by row */
    WFI_GEMM_COLS = 5,    /* m <= 4, b read once, transposed in registers */
    WFI_GEMM_ACROSS = 6,  /* both packed, along the rows of c: rows of a in L1, a block of b in L2 */
    WFI_GEMM_TIERS = 7
} wfi_gemm_tier;

/* What prepare decides. Plain data. If `swapped`, a and b have changed places (the transposed product is run). */
typedef struct wfi_gemm {
    int32_t dtype;     /* of a and b */
    int32_t out_dtype; /* of c: the same, or f32 for bf16 and f16 */
    int32_t tier;
    int32_t kind; /* row of the table of element types */
    int32_t swapped;
    int32_t plain; /* c has the accumulator's type and c_n == 1: tiles are written straight into it */
    int32_t onto;  /* chains begin at what c holds, and not at +0 (wfi_gemm_onto) */
    int64_t m, n, k;
    int64_t a_m, a_k, b_k, b_n, c_m, c_n; /* strides, elements */
    int32_t nbatch, threads;
    int32_t pool; /* threads of the pool that prepare was told */
    int32_t reserved;
    int64_t batch[WFI_GEMM_BATCH_MAX]; /* sizes, and strides in elements */
    int64_t a_batch[WFI_GEMM_BATCH_MAX], b_batch[WFI_GEMM_BATCH_MAX], c_batch[WFI_GEMM_BATCH_MAX];
    int64_t batches;          /* product of batch[] */
    int64_t parts_m, parts_n; /* each product is cut into parts_m x parts_n, columns in multiples of nr */
    int64_t nr;
    int64_t chunks;       /* pieces of work for the pool: batches * parts, or fewer with several batches in one */
    int64_t kb, mb, nb;   /* sizes of the blocks of k, m and n */
    int64_t sb, ns;       /* rows and columns of a superblock, within which chains wait */
    int64_t ahead;        /* rows of b to read ahead */
    int64_t keep;         /* packed b is kept for the next superblock */
    int64_t pb_at, cs_at; /* bytes from the start of a worker's scratch: packed b, waiting chains */
    int64_t each;         /* bytes of scratch a worker */
} wfi_gemm;

/* Has a prepared product go on with the chains that end in c: k may be cut into runs, and no bit changes. Of element
 * types that are their own accumulator, in class `chain`. */
static inline bool wfi_gemm_onto(wfi_gemm *g)
{
    g->onto = 1;
    return g->dtype == g->out_dtype && g->dtype != WF_BF16 && g->dtype != WF_F16;
}

typedef struct wfi_gemm_kernels {
    const char *name;  /* "gemm avx2" */
    const char *order; /* the order class: implementations of one class give the same bits on one instruction set */
    /* Views of equal rank >= 2, batch dimensions first and equal to c's (stride 0 where an operand repeats); c must not
     * overlap a or b. threads is the pool's. NULL: accepted, and *scratch bytes are wanted; else why not. */
    const char *(*prepare)(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch);
    wfi_kernel_fn *run; /* args: c, a, b */
    /* The same for a b that is packed once for many runs: bytes of the room for it (0: this product packs no b),
     * packing, the run. args: c, a, b, room. NULL: never. */
    size_t (*keep_bytes)(const wfi_gemm *g);
    wfi_kernel_fn *keep, *run_kept;
    const wfi_choices *choices; /* NULL: there are none */
} wfi_gemm_kernels;

extern const wfi_gemm_kernels wfi_gemm_portable, wfi_gemm_avx2, wfi_gemm_avx512;
/* Plans a product of f32 anew that another implementation described; run it with the kernels of that name. False: it
 * wants more scratch than there can be. */
bool wfi_gemm_plan_portable(wfi_gemm *g, size_t *scratch);
bool wfi_gemm_plan_avx2(wfi_gemm *g, size_t *scratch);
bool wfi_gemm_plan_avx512(wfi_gemm *g, size_t *scratch);

/* bf16, two values of k in one instruction of AVX512_BF16; order class `bf16 chain` (gemm_pairs.c). */
extern const wfi_gemm_kernels wfi_gemm_pairs;

/* bf16 on the tile unit; order class `amx pairs` (gemm_amx.c). Usable once wfi_gemm_amx_permit() has returned true. */
extern const wfi_gemm_kernels wfi_gemm_amx;
/* The products that are split, where it is asked for: by the logical shape alone, splitting a number takes as long as
 * some 60 of its products save. */
static inline bool wfi_gemm_splits(int64_t m, int64_t n, int64_t k)
{
    const int64_t most = (int64_t)1 << 20, x = m < most ? m : most, y = n < most ? n : most;
    return x >= 32 && y >= 32 && k >= 64 && x * y >= 64 * (x + y);
}
/* f32 there, as products of three bf16 each; order class `f32_bf16x3`. What cannot be split runs on wfi_gemm_avx512. */
extern const wfi_gemm_kernels wfi_gemm_split;
/* The same with their instructions in plain C: packing and edges are tested with them on every machine. */
extern const wfi_gemm_kernels wfi_gemm_amx_emulated, wfi_gemm_split_emulated;
/* Asks the CPU whether it has AMX with bf16, and the kernel for its registers (for this process, once is enough). */
bool wfi_gemm_amx_permit(void);

#endif
