/* gemm_f32.c - products of f32. */
#include "kernel/gemm/gemm_part.h"
#include "kernel/gemm/gemm_vec.h"

#define T     float
#define V     wfi_vf4
#define LANE  4
#define FMA   WFI_FMA_F32
#define TILES wfi_gemm_tiles_f32
#include "kernel/gemm/gemm_tile.h"

#define E          float
#define WIDE(x)    (x)
#define LDE(p)     ld(p)
#define LDEM(p, n) LDM(p, LANES(n))
#ifdef __AVX2__
#define LDE4(p) wfi_f32_ld4(p)
#endif
#define IN_PLACE   1
#define TYPE       wfi_gemm_f32
#define TILE_TABLE WFI_K(wfi_gemm_tiles_f32)
#include "kernel/gemm/gemm_loops.h"
