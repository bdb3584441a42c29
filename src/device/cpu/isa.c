/* Instruction sets: what the processor has, what WEFT_ISA allows, which tables follow. Feature bits decide, never the
 * model: hypervisors change model numbers. */
#include <string.h>
#include "base/env.h"
#include "device/cpu/cpu.h"
#include "kernel/attention/attention.h"
#include "kernel/batchnorm/batchnorm.h"
#include "kernel/conv/conv.h"
#include "kernel/copy/copy.h"
#include "kernel/ew/ew.h"
#include "kernel/fused/fused.h"
#include "kernel/gemm/gemm.h"
#include "kernel/index/index.h"
#include "kernel/optim/optim.h"
#include "kernel/pool2d/pool2d.h"
#include "kernel/reduce/reduce.h"
#include "kernel/roof/roof.h"
#include "kernel/row/row.h"

static const char *const names[WFI_ISAS] = { "portable", "avx2", "avx512", "avx512bf16", "amx" };

const char *wfi_isa_name(wfi_isa isa)
{
    return names[isa];
}

static wfi_isa has(void)
{
#if defined __x86_64__
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return WFI_ISA_PORTABLE;
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512bw") ||
        !__builtin_cpu_supports("avx512vl") || !__builtin_cpu_supports("avx512dq"))
        return WFI_ISA_AVX2;
    if (!__builtin_cpu_supports("avx512bf16"))
        return WFI_ISA_AVX512;
    return wfi_gemm_amx_permit() ? WFI_ISA_AMX : WFI_ISA_AVX512BF16;
#else
    return WFI_ISA_PORTABLE;
#endif
}

wfi_isa wfi_isa_best(void)
{
    const char *cap = wfi_env_get("WEFT_ISA");
    wfi_isa best = has();
    for (int i = 0; cap && i < WFI_ISAS; i++)
        if (!strcmp(cap, names[i]) && (wfi_isa)i < best)
            return (wfi_isa)i;
    return best;
}

#define TABLES(set)                                                                                                    \
    do {                                                                                                               \
        d->gemm = &wfi_gemm_##set;                                                                                     \
        d->conv = &wfi_conv_##set;                                                                                     \
        d->pool2d = &wfi_pool2d_##set;                                                                                 \
        d->ew = &wfi_ew_##set;                                                                                         \
        d->fused = &wfi_fused_##set;                                                                                   \
        d->copy = &wfi_copy_##set;                                                                                     \
        d->reduce = &wfi_reduce_##set;                                                                                 \
        d->row = &wfi_row_##set;                                                                                       \
        d->batchnorm = &wfi_batchnorm_##set;                                                                           \
        d->index = &wfi_index_##set;                                                                                   \
        d->optim = &wfi_optim_##set;                                                                                   \
        d->attention = &wfi_attention_##set;                                                                           \
        d->roof = &wfi_roof_##set;                                                                                     \
    } while (0)

void wfi_cpu_choose(wfi_cpu *d, wfi_isa isa)
{
    d->isa = isa;
    TABLES(portable);
#if defined __x86_64__
    if (isa == WFI_ISA_AVX2)
        TABLES(avx2);
    if (isa >= WFI_ISA_AVX512)
        TABLES(avx512);
    d->gemm_pairs = isa >= WFI_ISA_AVX512BF16 ? &wfi_gemm_pairs : NULL;
    d->gemm_amx = isa == WFI_ISA_AMX ? &wfi_gemm_amx : NULL;
    d->conv_amx = isa == WFI_ISA_AMX ? &wfi_conv_amx : NULL;
    d->attention_amx = isa == WFI_ISA_AMX ? &wfi_attention_amx : NULL;
    d->gemm_split = isa == WFI_ISA_AMX ? &wfi_gemm_split : NULL;
#endif
}
