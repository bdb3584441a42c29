/* gemm_i32.c - products of i32, which wrap: computed without sign. */
#include "kernel/gemm/gemm_part.h"
#include "kernel/gemm/gemm_vec.h"

#define WRAP(c, a, b) ((c) += (a) * (b))
#define T             uint32_t
#define V             wfi_vu4
#define LANE          4
#define FMA           WRAP
#include "kernel/gemm/gemm_tile.h"

#define E          uint32_t
#define WIDE(x)    (x)
#define LDE(p)     ld(p)
#define LDEM(p, n) LDM(p, LANES(n))
#ifdef __AVX2__
#define LDE4(p) wfi_f32_ld4(p)
#endif
#define IN_PLACE   1
#define TYPE       wfi_gemm_i32
#define TILE_TABLE WFI_K(tiles)
#include "kernel/gemm/gemm_loops.h"
