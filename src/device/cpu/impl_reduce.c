/* Reductions over any axes of any layout. */
#include "device/cpu/cpu.h"
#include "kernel/reduce/reduce.h"

static const char *reduce(const wfi_cpu *d, wfi_bind *b, wfi_reduce_kind kind, wf_dims axes)
{
    b->fn = d->reduce->run;
    b->params_bytes = WFI_PARAMS_MAX;
    return d->reduce->prepare(kind, b->in, wfi_impl_axes(axes, b->in->ndim), b->out, b->threads, b->params,
                              &b->scratch);
}

#define REDUCE(name, kind)                                                                                             \
    static const char *bind_##name(const wfi_cpu *d, wfi_bind *b)                                                      \
    {                                                                                                                  \
        return reduce(d, b, kind, b->attr->name.axes);                                                                 \
    }
REDUCE(prod, WFI_REDUCE_PROD)
REDUCE(mean, WFI_REDUCE_MEAN)
REDUCE(max, WFI_REDUCE_MAX)
REDUCE(min, WFI_REDUCE_MIN)
REDUCE(any, WFI_REDUCE_ANY)
REDUCE(all, WFI_REDUCE_ALL)
REDUCE(logsumexp, WFI_REDUCE_LOGSUMEXP)

/* Sums of narrow whole numbers: added in i64, the low bits kept. */
typedef struct narrow_sum {
    wfi_kernel_fn *run;
    size_t at; /* in scratch, bytes: i64[n] */
    int64_t n;
    wf_dtype to;
    _Alignas(64) char params[WFI_PARAMS_MAX];
} narrow_sum;

static void run_narrow_sum(const void *params, void *const *args, const wfi_run *run)
{
    const narrow_sum *p = params;
    int64_t *wide = (int64_t *)((char *)run->scratch + p->at);
    p->run(p->params, (void *const[]){ wide, args[1] }, run);
    for (int64_t i = 0; i < p->n; i++)
        if (p->to == WF_I32)
            ((int32_t *)args[0])[i] = (int32_t)(uint32_t)wide[i];
        else
            ((uint8_t *)args[0])[i] = (uint8_t)wide[i];
}

static const char *bind_sum(const wfi_cpu *d, wfi_bind *b)
{
    if (b->out->dtype != WF_I32 && b->out->dtype != WF_U8)
        return reduce(d, b, WFI_REDUCE_SUM, b->attr->sum.axes);
    narrow_sum *p = b->params;
    *p = (narrow_sum){ .run = d->reduce->run, .n = 1, .to = b->out->dtype };
    wfi_view y = *b->out;
    y.dtype = WF_I64;
    for (int32_t i = 0; i < y.ndim; i++)
        p->n *= y.dim[i];
    const char *why = d->reduce->prepare(WFI_REDUCE_SUM, b->in, wfi_impl_axes(b->attr->sum.axes, b->in->ndim), &y,
                                         b->threads, p->params, &b->scratch);
    p->at = (b->scratch + 63) & ~(size_t)63;
    b->scratch = p->at + (size_t)p->n * sizeof(int64_t);
    b->fn = run_narrow_sum;
    b->params_bytes = sizeof *p;
    return why;
}

static const char *bind_argmax(const wfi_cpu *d, wfi_bind *b)
{
    return reduce(d, b, WFI_REDUCE_ARGMAX, WF_DIMS(b->attr->argmax.axis));
}

static const char *bind_argmin(const wfi_cpu *d, wfi_bind *b)
{
    return reduce(d, b, WFI_REDUCE_ARGMIN, WF_DIMS(b->attr->argmin.axis));
}

static const char *extreme_grad(const wfi_cpu *d, wfi_bind *b)
{
    wfi_impl_keep_layout(&b->in[0], b->out);
    b->fn = d->reduce->maxgrad_run;
    b->params_bytes = WFI_PARAMS_MAX;
    return d->reduce->maxgrad_prepare(b->out, &b->in[0], wfi_impl_axes(b->attr->extreme_grad.axes, b->in->ndim),
                                      &b->in[1], &b->in[2], b->threads, b->params, &b->scratch);
}

#define LANES "32 lanes, one tree"
static const wfi_impl impls[] = {
    { WFI_OP_sum, "cpu.sum", LANES, bind_sum },
    { WFI_OP_prod, "cpu.prod", LANES, bind_prod },
    { WFI_OP_mean, "cpu.mean", LANES, bind_mean },
    { WFI_OP_max, "cpu.max", "", bind_max },
    { WFI_OP_min, "cpu.min", "", bind_min },
    { WFI_OP_any, "cpu.any", "", bind_any },
    { WFI_OP_all, "cpu.all", "", bind_all },
    { WFI_OP_logsumexp, "cpu.logsumexp", LANES, bind_logsumexp },
    { WFI_OP_argmax, "cpu.argmax", "", bind_argmax },
    { WFI_OP_argmin, "cpu.argmin", "", bind_argmin },
    { WFI_OP_extreme_grad, "cpu.extreme_grad", "", extreme_grad },
};
const wfi_impl_list wfi_impls_reduce = { impls, sizeof impls / sizeof *impls };
