/* gemm_part.h - what the files of a product share: one tile, one part, and the tables of functions for each type. */
#ifndef WFI_KERNEL_GEMM_PART_H
#define WFI_KERNEL_GEMM_PART_H
#include "kernel/gemm/gemm.h"

/* One register tile: out[i][j] = chain over p < k of a[i*ai + p*ap] * b[p*bs + j] that continues in[i][j] (NULL: +0).
 * Strides in elements. Everything is of the accumulator's type. */
typedef struct wfi_tile {
    int64_t k;
    const void *a;
    int64_t ai, ap;
    const void *b;
    int64_t bs;
    const void *in;
    int64_t ldi;
    void *out;
    int64_t ldo;
    int64_t n;     /* columns; fewer than the tile's width only where it is masked */
    int64_t ahead; /* unpacked b: rows of b to read ahead */
    const char
        *next_b; /* unrolled tiles read ahead: a line, next_bs bytes further in each round, of the next block of b */
    int64_t next_bs;
    const char *pf; /* tier PACKED reads ahead: npf lines, pfs bytes apart, of the next panel of b (NULL: nothing), */
    int64_t pfs, npf;
    const char *next; /* and the next waiting chains (NULL: none) */
} wfi_tile;
typedef void wfi_tile_fn(const wfi_tile *t);

/* Rows and vectors of the register tile: rows * vectors accumulators, the vectors of b and a broadcast must fit in the
 * registers. With 3 vectors a step of k has 11 loads for 24 fmas (14 rows of 2 vectors: 16 for 28); that and fewer
 * steps of the loop pay where two hardware threads share a core: of the six instructions a cycle that Zen 3 starts each
 * thread gets three, and a step of 12 fmas in 6 cycles is 23 instructions rolled, 20.75 unrolled. */
#if defined __AVX512F__
#define WFI_GEMM_MR    8
#define WFI_GEMM_NV    3
#define WFI_GEMM_STEPS 4 /* of k, unrolled */
#define WFI_GEMM_EARLY 1 /* registers for two rows of b: each is loaded a step before its use */
#elif defined __AVX2__
#define WFI_GEMM_MR    6
#define WFI_GEMM_NV    2
#define WFI_GEMM_STEPS 4
#define WFI_GEMM_EARLY 0
#else
#define WFI_GEMM_MR    4
#define WFI_GEMM_NV    2
#define WFI_GEMM_STEPS 1
#define WFI_GEMM_EARLY 0
#endif
typedef struct wfi_gemm_tiles {
    wfi_tile_fn *packed[WFI_GEMM_MR];              /* [rows - 1]: full width; both operands packed */
    wfi_tile_fn *along[WFI_GEMM_MR];               /* full width; a contiguous along k */
    wfi_tile_fn *any[2][WFI_GEMM_NV][WFI_GEMM_MR]; /* [masked][vectors - 1][rows - 1] */
} wfi_gemm_tiles;

/* A part of one product: m x n elements of c. */
typedef struct wfi_gemm_part {
    const char *a, *b;
    char *c;
    int64_t m, n;
    char *scratch;
    char *kept; /* columns of b, packed before by a wfi_gemm_keep_fn; NULL: they are not */
} wfi_gemm_part;
typedef void wfi_gemm_part_fn(const wfi_gemm *g, const wfi_gemm_part *p);
/* Packs n columns of b, a part of them, in the order in which the tiers walk them. Returns the bytes; to NULL: only
 * counts them. */
typedef int64_t wfi_gemm_keep_fn(const wfi_gemm *g, const char *b, int64_t n, char *to);

/* An element type: shape of its register tile, and one function a tier (NULL: this type has no such tier). */
typedef struct wfi_gemm_type {
    int32_t mr, nr, lanes; /* of the accumulator */
    int32_t bytes;         /* of the accumulator */
    int32_t per;           /* values of k in a step of the tiles, which takes `bytes` from each operand */
    wfi_gemm_part_fn *tier[WFI_GEMM_TIERS];
    wfi_gemm_keep_fn *keep;
} wfi_gemm_type;

extern const wfi_gemm_tiles WFI_K(wfi_gemm_tiles_f32);
extern const wfi_gemm_type WFI_K(wfi_gemm_f32), WFI_K(wfi_gemm_f64), WFI_K(wfi_gemm_i32), WFI_K(wfi_gemm_i64),
    WFI_K(wfi_gemm_bf16), WFI_K(wfi_gemm_f16), WFI_K(wfi_gemm_bf16_pairs);

/* Blocks, in elements of k, m and n (and bytes where it says so). A panel of b (kc x nr) is to fill half of L1, a block
 * of a (mc x kc) half of L2; sb rows of chains and nc columns of b live in L3. */
#if defined __AVX512F__ /* L1 48 KiB (or 32), L2 1 MiB or more */
#define WFI_GEMM_KC       256
#define WFI_GEMM_MC_BYTES (448 * 1024)
#define WFI_GEMM_NC_BYTES (4096)
#define WFI_GEMM_SB       1024
#elif defined __AVX2__ /* L1 32 KiB, L2 512 KiB or more */
#define WFI_GEMM_KC       256
#define WFI_GEMM_MC_BYTES (256 * 1024)
#define WFI_GEMM_NC_BYTES (4096)
#define WFI_GEMM_SB       512
#else
#define WFI_GEMM_KC       256
#define WFI_GEMM_MC_BYTES (128 * 1024)
#define WFI_GEMM_NC_BYTES (2048)
#define WFI_GEMM_SB       512
#endif
/* Tiers PLACE and ACROSS: a block of b, at most kc2 deep, fills a good third of L2; chains of sb2 rows and ns bytes of
 * columns wait. L2 is also what tier SMALL may fill. */
#define WFI_GEMM_SB2      1024
#define WFI_GEMM_NS_BYTES 8192
#if defined __AVX512F__
#define WFI_GEMM_KC2         1024
#define WFI_GEMM_BLOCK_BYTES (600 * 1024)
#define WFI_GEMM_SMALL_BYTES (768 * 1024)
#else
#define WFI_GEMM_KC2         384
#define WFI_GEMM_BLOCK_BYTES (288 * 1024)
#define WFI_GEMM_SMALL_BYTES (256 * 1024)
#endif
/* Tier ROWS: elements of c that stay in L1 while rows of b go by. */
#define WFI_GEMM_COLUMNS 4096

#endif
