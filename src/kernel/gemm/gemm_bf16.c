/* gemm_bf16.c - products of bf16: operands are widened exactly where they are packed, the tiles are those of f32. */
#include "kernel/gemm/gemm_part.h"
#include "kernel/gemm/gemm_vec.h"

#define T    float
#define V    wfi_vf4
#define LANE 4
#define FMA  WFI_FMA_F32
#include "kernel/gemm/gemm_lanes.h"

#define E               uint16_t
#define WIDE(x)         wfi_bf16_wide(x)
#define LDE(p)          wfi_bf16_ld(p)
#define LDEM(p, n)      wfi_bf16_ldm(p, n)
#define NARROW(x)       wfi_bf16_narrow(x)
#define NARROW_ST(p, v) wfi_bf16_st(p, v)
#ifdef __AVX2__
#define LDE4(p) wfi_bf16_ld4(p)
#endif
#define IN_PLACE   0
#define TYPE       wfi_gemm_bf16
#define TILE_TABLE WFI_K(wfi_gemm_tiles_f32)
#include "kernel/gemm/gemm_loops.h"
