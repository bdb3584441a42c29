/* Matrix products. */
#include <string.h>
#include "device/cpu/cpu.h"
#include "kernel/gemm/gemm.h"

/* Operands get the batch axes of the result, with stride 0 where they repeat. */
static void with_batch(const wfi_view *v, const wfi_view *y, wfi_view *out)
{
    wfi_view like = *y;
    like.dim[y->ndim - 2] = v->dim[v->ndim - 2];
    like.dim[y->ndim - 1] = v->dim[v->ndim - 1];
    wfi_impl_broadcast(v, &like, out);
    for (int k = 1; k <= 2; k++) /* a matrix axis of size 1 is not a repeated one */
        out->stride[y->ndim - k] = v->stride[v->ndim - k];
}

static const char *matmul(const wfi_cpu *d, wfi_bind *b)
{
    wfi_view x, w;
    with_batch(&b->in[0], b->out, &x);
    with_batch(&b->in[1], b->out, &w);
    b->fn = d->gemm->run;
    b->params_bytes = sizeof(wfi_gemm);
    return d->gemm->prepare(&x, &w, b->out, b->threads, b->params, &b->scratch);
}

static const char *matmul_amx(const wfi_cpu *d, wfi_bind *b)
{
    if (!d->amx)
        return "no tile unit";
    wfi_view x, w;
    with_batch(&b->in[0], b->out, &x);
    with_batch(&b->in[1], b->out, &w);
    b->fn = wfi_gemm_amx.run;
    b->params_bytes = sizeof(wfi_gemm);
    return wfi_gemm_amx.prepare(&x, &w, b->out, b->threads, b->params, &b->scratch);
}

static const wfi_impl impls[] = {
    { WFI_OP_matmul, "cpu.gemm.amx", "amx pairs", matmul_amx },
    { WFI_OP_matmul, "cpu.gemm", "ascending fma chain", matmul },
};
const wfi_impl_list wfi_impls_gemm = { impls, sizeof impls / sizeof *impls };
