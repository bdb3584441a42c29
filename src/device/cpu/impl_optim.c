/* Optimiser steps: one walk over a parameter, its state and its gradient, in place where the plan allows it. */
#include "device/cpu/cpu.h"
#include "kernel/optim/optim.h"

static const char *step(const wfi_cpu *d, wfi_bind *b, const wfi_optim_spec *s)
{
    b->params_bytes = WFI_PARAMS_MAX;
    b->inplace = 1; /* the new weight on the old one, the moments likewise */
    b->inplace_of[1] = 2;
    b->inplace_of[2] = 4;
    b->fn = d->optim->run;
    b->list = d->optim->run_list;
    return d->optim->prepare(s, b->params, &b->scratch);
}

/* { w2, m2, v2, w, m, v, g, h }: the weight is h[7] */
static const char *adamw(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *in = b->in, *out = b->out;
    wfi_optim_spec s = { .kind = WFI_OPTIM_ADAMW,
                         .threads = b->threads,
                         .no_decay = !b->attr->adamw_step.decay,
                         .v = { &out[0], &out[1], &out[2], &in[0], &in[1], &in[2], &in[3], NULL, &in[4] } };
    return step(d, b, &s);
}

/* { w2, w, g, weight, h }: there is no momentum */
static const char *sgd(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *in = b->in;
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD,
                         .threads = b->threads,
                         .v = { b->out, NULL, &in[0], NULL, &in[1], &in[2], &in[3] } };
    return step(d, b, &s);
}

/* { w2, m2, w, m, g, weight, h } */
static const char *sgd_momentum(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view *in = b->in, *out = b->out;
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD,
                         .threads = b->threads,
                         .nesterov = b->attr->sgd_momentum_step.nesterov,
                         .v = { &out[0], &out[1], &in[0], &in[1], &in[2], &in[3], &in[4] } };
    return step(d, b, &s);
}

static const wfi_impl impls[] = {
    { WFI_OP_adamw_step, "cpu.optim.adamw", "", adamw },
    { WFI_OP_sgd_step, "cpu.optim.sgd", "", sgd },
    { WFI_OP_sgd_momentum_step, "cpu.optim.sgd_momentum", "", sgd_momentum },
};
const wfi_impl_list wfi_impls_optim = { impls, sizeof impls / sizeof *impls };
