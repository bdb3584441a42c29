/* Optimiser steps: one walk over a parameter, its state and its gradient, in place where the plan allows it. */
#include <string.h>
#include "device/cpu/cpu.h"
#include "kernel/optim/optim.h"

/* h: the operand with the scalars; the kernel sees a dense copy. */
static const char *step(const wfi_cpu *d, wfi_bind *b, const wfi_view *h, const wfi_optim_spec *s)
{
    int64_t stride = h->stride[0];
    memcpy((char *)b->params + WFI_PARAMS_MAX, &stride, sizeof stride);
    b->params_bytes = WFI_PARAMS_MAX + sizeof stride;
    b->inplace = 1; /* the new weight on the old one, the moments likewise */
    b->inplace_of[1] = 2;
    b->inplace_of[2] = 4;
    return d->optim->prepare(s, b->params, &b->scratch);
}

/* The kernels want an address for every slot, the operators have fewer operands. */
typedef struct slots {
    void *at[WFI_OPTIM_SLOTS];
    double h[8];
} slots;

/* The scalars of operand `arg` into s->h: their stride stands behind the kernel's parameters. */
static void scalars(const void *params, void *const *args, int arg, slots *s)
{
    int64_t stride;
    memcpy(&stride, (const char *)params + WFI_PARAMS_MAX, sizeof stride);
    for (int64_t k = 0; k < 8; k++)
        s->h[k] = ((const double *)args[arg])[k * stride];
}

/* args: { w2, m2, v2, w, m, v, g, h }: the weight is h[7] */
static void adamw_decay_slots(const void *params, void *const *args, slots *s)
{
    memcpy(s->at, args, 7 * sizeof *args);
    scalars(params, args, 7, s);
    s->at[7] = &s->h[7];
    s->at[8] = s->h;
}

static void adamw_plain_slots(const void *params, void *const *args, slots *s)
{
    adamw_decay_slots(params, args, s);
    s->h[4] = 0; /* no weight decay */
}

/* args: { w2, w, g, weight, h }: there is no momentum */
static void sgd_slots(const void *params, void *const *args, slots *s)
{
    *s = (slots){ .at = { args[0], NULL, args[1], NULL, args[2], args[3], s->h } };
    scalars(params, args, 4, s);
}

/* args: { w2, m2, w, m, g, weight, h } */
static void momentum_slots(const void *params, void *const *args, slots *s)
{
    *s = (slots){ .at = { args[0], args[1], args[2], args[3], args[4], args[5], s->h } };
    scalars(params, args, 6, s);
}

#define WRAP(name, set)                                                                                                \
    static void name##_##set(const void *params, void *const *args, const wfi_run *run)                                \
    {                                                                                                                  \
        slots s;                                                                                                       \
        name##_slots(params, args, &s);                                                                                \
        wfi_optim_##set.run(params, s.at, run);                                                                        \
    }
WRAP(adamw_decay, portable)
WRAP(adamw_plain, portable)
WRAP(sgd, portable)
WRAP(momentum, portable)
#if defined __x86_64__
WRAP(adamw_decay, avx2)
WRAP(adamw_plain, avx2)
WRAP(sgd, avx2)
WRAP(momentum, avx2)
WRAP(adamw_decay, avx512)
WRAP(adamw_plain, avx512)
WRAP(sgd, avx512)
WRAP(momentum, avx512)
#define CHOOSE(name, isa)                                                                                              \
    ((isa) == WFI_ISA_PORTABLE ? name##_portable : (isa) == WFI_ISA_AVX2 ? name##_avx2 : name##_avx512)
#else
#define CHOOSE(name, isa) name##_portable
#endif

static wfi_view dense(const wfi_view *h)
{
    wfi_view v = *h;
    v.stride[0] = 1;
    return v;
}

static const char *adamw(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view weight = { .dtype = WF_F64 }, h = dense(&b->in[4]), *in = b->in, *out = b->out;
    wfi_optim_spec s = { .kind = WFI_OPTIM_ADAMW,
                         .threads = b->threads,
                         .v = { &out[0], &out[1], &out[2], &in[0], &in[1], &in[2], &in[3], &weight, &h } };
    const char *why = step(d, b, &in[4], &s);
    b->fn = b->attr->adamw_step.decay ? CHOOSE(adamw_decay, d->isa) : CHOOSE(adamw_plain, d->isa);
    return why;
}

static const char *sgd(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view h = dense(&b->in[3]);
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD,
                         .threads = b->threads,
                         .v = { b->out, NULL, &b->in[0], NULL, &b->in[1], &b->in[2], &h } };
    const char *why = step(d, b, &b->in[3], &s);
    b->fn = CHOOSE(sgd, d->isa);
    return why;
}

static const char *sgd_momentum(const wfi_cpu *d, wfi_bind *b)
{
    const wfi_view h = dense(&b->in[4]), *in = b->in, *out = b->out;
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD,
                         .threads = b->threads,
                         .nesterov = b->attr->sgd_momentum_step.nesterov,
                         .v = { &out[0], &out[1], &in[0], &in[1], &in[2], &in[3], &h } };
    const char *why = step(d, b, &in[4], &s);
    b->fn = CHOOSE(momentum, d->isa);
    return why;
}

static const wfi_impl impls[] = {
    { WFI_OP_adamw_step, "cpu.optim.adamw", "", adamw },
    { WFI_OP_sgd_step, "cpu.optim.sgd", "", sgd },
    { WFI_OP_sgd_momentum_step, "cpu.optim.sgd_momentum", "", sgd_momentum },
};
const wfi_impl_list wfi_impls_optim = { impls, sizeof impls / sizeof *impls };
