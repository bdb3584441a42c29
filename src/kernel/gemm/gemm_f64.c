/* gemm_f64.c - products of f64. */
#include "kernel/gemm/gemm_part.h"
#include "kernel/gemm/gemm_vec.h"

#define T    double
#define V    wfi_vf8
#define LANE 8
#define FMA  WFI_FMA_F64
#include "kernel/gemm/gemm_tile.h"

#define E          double
#define WIDE(x)    (x)
#define LDE(p)     ld(p)
#define LDEM(p, n) LDM(p, LANES(n))
#define IN_PLACE   1
#define TYPE       wfi_gemm_f64
#define TILE_TABLE WFI_K(tiles)
#include "kernel/gemm/gemm_loops.h"
