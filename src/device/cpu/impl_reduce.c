/* Reductions over any axes of any layout. */
#include "device/cpu/cpu.h"
#include "kernel/reduce/reduce.h"

static const char *reduce(const wfi_cpu *d, wfi_bind *b, wfi_reduce_kind kind, wf_dims axes)
{
    b->fn = d->reduce->run;
    b->params_bytes = WFI_PARAMS_MAX;
    return d->reduce->prepare(kind, b->in, wfi_impl_axes(axes, b->in->ndim), b->out, b->threads, b->params, &b->scratch);
}

#define REDUCE(name, kind)                                                                                             \
    static const char *bind_##name(const wfi_cpu *d, wfi_bind *b)                                                      \
    {                                                                                                                  \
        return reduce(d, b, kind, b->attr->name.axes);                                                                 \
    }
REDUCE(sum, WFI_REDUCE_SUM)
REDUCE(prod, WFI_REDUCE_PROD)
REDUCE(mean, WFI_REDUCE_MEAN)
REDUCE(max, WFI_REDUCE_MAX)
REDUCE(min, WFI_REDUCE_MIN)
REDUCE(any, WFI_REDUCE_ANY)
REDUCE(all, WFI_REDUCE_ALL)
REDUCE(logsumexp, WFI_REDUCE_LOGSUMEXP)

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
