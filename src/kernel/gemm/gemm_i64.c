/* gemm_i64.c - products of i64, which wrap: computed without sign. */
#include "kernel/gemm/gemm_part.h"
#include "kernel/gemm/gemm_vec.h"

#define WRAP(c, a, b) ((c) += (a) * (b))
#define T             uint64_t
#define V             wfi_vu8
#define LANE          8
#define FMA           WRAP
#include "kernel/gemm/gemm_tile.h"

#define E          uint64_t
#define WIDE(x)    (x)
#define LDE(p)     ld(p)
#define LDEM(p, n) LDM(p, LANES(n))
#define IN_PLACE   1
#define TYPE       wfi_gemm_i64
#define TILE_TABLE WFI_K(tiles)
#include "kernel/gemm/gemm_loops.h"
