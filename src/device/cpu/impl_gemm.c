/* Matrix products. */
#include <string.h>
#include "device/cpu/cpu.h"
#include "kernel/copy/copy.h"
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

static const char *with(const wfi_cpu *d, const wfi_gemm_kernels *gemm, wfi_bind *b)
{
    wfi_view x, w;
    with_batch(&b->in[0], b->out, &x);
    with_batch(&b->in[1], b->out, &w);
    b->fn = gemm->run;
    b->params_bytes = sizeof(wfi_gemm);
    const char *why = gemm->prepare(&x, &w, b->out, b->threads, b->params, &b->scratch);
    why = why ? why : wfi_impl_choose(d, b, gemm->choices, b->params);
    if (!why && gemm->keep_bytes)
        b->keep = (wfi_keep){ 1, gemm->keep_bytes(b->params), gemm->keep, gemm->run_kept };
    return why;
}
static const char *matmul_amx(const wfi_cpu *d, wfi_bind *b)
{
    return d->gemm_amx ? with(d, d->gemm_amx, b) : "no tile unit";
}
static const char *matmul_split(const wfi_cpu *d, wfi_bind *b)
{
    if (!b->split)
        return "f32 as parts is not asked for";
    return d->gemm_split ? with(d, d->gemm_split, b) : "no tile unit";
}
static const char *matmul_pairs(const wfi_cpu *d, wfi_bind *b)
{
    return d->gemm_pairs ? with(d, d->gemm_pairs, b) : "no dot products of bf16";
}
static const char *matmul(const wfi_cpu *d, wfi_bind *b)
{
    return with(d, d->gemm, b);
}

/* Chains that begin at c: it is copied to the result, where that is not in its place already, and they go on there. */
typedef struct onto_gemm {
    wfi_gemm product;
    wfi_copy first;
    wfi_kernel_fn *run, *copy;
} onto_gemm;

static void run_onto(const void *params, void *const *args, const wfi_run *run)
{
    const onto_gemm *p = params;
    if (args[0] != args[1])
        p->copy(&p->first, args, run);
    p->run(&p->product, (void *[]){ args[0], args[2], args[3] }, run);
}

static const char *matmul_add(const wfi_cpu *d, wfi_bind *b)
{
    onto_gemm *p = b->params;
    wfi_view c, x, w;
    size_t none;
    wfi_impl_broadcast(&b->in[0], b->out, &c);
    with_batch(&b->in[1], b->out, &x);
    with_batch(&b->in[2], b->out, &w);
    b->fn = run_onto;
    b->params_bytes = sizeof *p;
    p->run = d->gemm->run;
    p->copy = d->copy->run;
    const char *why = d->gemm->prepare(&x, &w, b->out, b->threads, &p->product, &b->scratch);
    if (!why && !wfi_gemm_onto(&p->product))
        why = "sums are rounded to a narrower type";
    if (!why)
        why = d->copy->prepare(&c, b->out, b->threads, &p->first, &none);
    b->inplace = 1;
    return why;
}

/* Products of u8, which no kernel is built for: plain loops, the low bits kept. */
typedef struct bytes_gemm {
    wfi_view x, w, y;
} bytes_gemm;

static int64_t batch_offset(const wfi_view *v, int64_t e) /* elements to matrix number e of the leading axes */
{
    int64_t off = 0;
    for (int32_t k = v->ndim - 3; k >= 0; k--) {
        off += e % v->dim[k] * v->stride[k];
        e /= v->dim[k];
    }
    return off;
}

static void run_bytes(const void *params, void *const *args, const wfi_run *run)
{
    const bytes_gemm *p = params;
    const int r = p->y.ndim - 2, c = p->y.ndim - 1;
    int64_t batches = 1;
    (void)run;
    for (int k = 0; k < r; k++)
        batches *= p->y.dim[k];
    for (int64_t e = 0; e < batches; e++) {
        const uint8_t *x = (const uint8_t *)args[1] + batch_offset(&p->x, e);
        const uint8_t *w = (const uint8_t *)args[2] + batch_offset(&p->w, e);
        uint8_t *y = (uint8_t *)args[0] + batch_offset(&p->y, e);
        for (int64_t i = 0; i < p->y.dim[r]; i++)
            for (int64_t j = 0; j < p->y.dim[c]; j++) {
                uint32_t sum = 0;
                for (int64_t k = 0; k < p->x.dim[c]; k++)
                    sum += (uint32_t)x[i * p->x.stride[r] + k * p->x.stride[c]] *
                           w[k * p->w.stride[r] + j * p->w.stride[c]];
                y[i * p->y.stride[r] + j * p->y.stride[c]] = (uint8_t)sum;
            }
    }
}

static const char *matmul_bytes(const wfi_cpu *d, wfi_bind *b)
{
    (void)d;
    if (b->out->dtype != WF_U8)
        return "not u8";
    bytes_gemm *p = b->params;
    with_batch(&b->in[0], b->out, &p->x);
    with_batch(&b->in[1], b->out, &p->w);
    p->y = *b->out;
    b->fn = run_bytes;
    b->params_bytes = sizeof *p;
    return NULL;
}

static const wfi_impl impls[] = {
    { WFI_OP_matmul, "cpu.gemm.amx", "amx pairs", matmul_amx },
    { WFI_OP_matmul, "cpu.gemm.bf16x3", "f32_bf16x3", matmul_split },
    { WFI_OP_matmul, "cpu.gemm.pairs", "ascending fma chain, tiny values zero", matmul_pairs },
    { WFI_OP_matmul, "cpu.gemm", "ascending fma chain", matmul },
    { WFI_OP_matmul, "cpu.gemm.u8", "", matmul_bytes },
    { WFI_OP_matmul_add, "cpu.gemm.onto", "ascending fma chain", matmul_add },
};
const wfi_impl_list wfi_impls_gemm = { impls, sizeof impls / sizeof *impls };
