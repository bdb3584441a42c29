/* conv_amx.c - convolution on the tile unit of AMX: bf16, and f32 in three bf16 parts. */
#ifndef WFI_AMX_EMULATED
#include <immintrin.h>
#endif
#include "kernel/conv/conv.h"
#include "kernel/conv/conv_core.h"
#include "kernel/conv/window.h"
#define T          float
#define T_IS_FLOAT 1
#include "kernel/conv/conv_simd.h"
#include "kernel/conv/conv_span.h"
#include "kernel/conv/conv_pack.h"
#ifndef OTHERWISE
#define OTHERWISE wfi_conv_f32_avx512
#define NAME      wfi_conv_amx
#endif
extern const conv_real OTHERWISE; /* computes what is not for tiles */
#include "kernel/gemm/amx_pack.h"
#include "kernel/conv/conv_split.h"
#include "kernel/conv/conv_block.h"
#include "kernel/conv/conv_tiled.h"
#include "kernel/conv/conv_tiled_run.h"
#include "kernel/conv/conv_tiled_weight.h"

static const conv_real tiles = { tiled_room, tiled_run, tiled_keep, tiled_wroom, tiled_wrun, NULL, NULL };

static const conv_real *real_of(wf_dtype t)
{
    (void)t;
    return &tiles;
}

/* Multiply-adds for each value that is brought into a buffer, below which bringing costs more than tiles save; and what
 * the rows under one output row may take: longer rows are not cut. */
enum { USES_FORWARD = 256, USES_WEIGHT = 160, USES_BF16 = 32, ROW_BYTES = 4 << 20 };

/* By the logical shape alone. */
static const char *declined(const conv_core *c, bool weight)
{
    const double taps = (double)c->kh * (double)c->kw, ci = (double)c->ci, co = (double)c->co;
    const double uses = weight ? taps * ci * co / (ci + co) : taps * co;
    const double rows = (double)(c->kh - 1) * (double)c->dh + 1,
                 over = (double)c->ow * (double)c->sw + (double)c->kw * (double)c->dw;
    const double cols = (double)c->iw > over ? (double)c->iw : over;
    if (c->wtype != WF_F32 && c->wtype != WF_BF16) {
        return "not for tiles: element type";
    }
    if (c->groups != 1 || c->ci % CHAN != 0 || c->co % CHAN != 0 || c->ci == 0 || c->co == 0) {
        return "not for tiles: channels";
    }
    if ((double)c->n * (double)c->oh * (double)c->ow < SIDE) {
        return "not for tiles: few pixels";
    }
    if (uses < (c->wtype == WF_BF16 ? USES_BF16 : weight ? USES_WEIGHT : USES_FORWARD)) {
        return "not for tiles: little to do for each value";
    }
    if (rows * cols * ci * 6 > ROW_BYTES || (double)c->ow * co * 6 > ROW_BYTES || taps * ci * co > (1 << 30)) {
        return "not for tiles: rows are long or weights many";
    }
    return NULL;
}

#include "kernel/conv/conv_family.h"

const wfi_conv_kernels NAME = CONV_FAMILIES(NULL, NULL, NULL);
