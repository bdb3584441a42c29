/* Optimiser steps: one fused walk over a parameter, its gradient and its state. The kernels have their numbers in
 * another order than the operators' h: they are put in place on the stack of each run. */
#include <string.h>
#include "device/cpu/cpu.h"
#include "kernel/optim/optim.h"

typedef struct step {
    char own[WFI_PARAMS_MAX]; /* the kernel's parameters */
    wfi_kernel_fn *fn;
    bool decay;
} step;

static const wfi_view one_f64 = { .dtype = WF_F64 }, numbers = { .dtype = WF_F64, .ndim = 1, .dim = { 8 }, .stride = { 1 } };

static const char *bind(const wfi_cpu *d, wfi_bind *b, const wfi_optim_spec *s, wfi_kernel_fn *run, bool decay)
{
    step *p = b->params;
    const char *why = d->optim->prepare(s, p->own, &b->scratch);
    p->fn = d->optim->run;
    p->decay = decay;
    b->fn = run;
    b->params_bytes = sizeof *p;
    b->inplace = 1; /* w2 over w */
    return why;
}

/* Results lie as their operands do, so that they can take their buffers. */
static void like_operands(wfi_bind *b, const int *operand)
{
    for (int32_t i = 0; i < b->nout; i++)
        wfi_impl_keep_layout(&b->in[operand[i]], &b->out[i]);
}

/* Command: w2, m2, v2, w, g, m, v, h. Kernel: w2, m2, v2, w, m, v, g, weight, numbers. */
static void run_adamw(const void *params, void *const *args, const wfi_run *run)
{
    const step *p = params;
    double h[8];
    memcpy(h, args[7], sizeof h);
    if (!p->decay)
        h[4] = 0;
    void *at[] = { args[0], args[1], args[2], args[3], args[5], args[6], args[4], &h[7], h };
    p->fn(p->own, at, run);
}

static const char *adamw(const wfi_cpu *d, wfi_bind *b)
{
    static const int operand[] = { 0, 2, 3 };
    like_operands(b, operand);
    wfi_optim_spec s = { .kind = WFI_OPTIM_ADAMW, .threads = b->threads,
                         .v = { &b->out[0], &b->out[1], &b->out[2], &b->in[0], &b->in[2], &b->in[3], &b->in[1], &one_f64,
                                &numbers } };
    b->inplace_of[1] = 1u << 2;
    b->inplace_of[2] = 1u << 3;
    return bind(d, b, &s, run_adamw, b->attr->adamw_step.decay);
}

/* Command: w2, w, g, weight, h. Kernel: w2, -, w, -, g, weight, numbers. */
static void run_sgd(const void *params, void *const *args, const wfi_run *run)
{
    const step *p = params;
    double h[8];
    memcpy(h, args[4], sizeof h);
    double k[8] = { h[0], 0, h[4] };
    void *at[] = { args[0], NULL, args[1], NULL, args[2], args[3], k };
    p->fn(p->own, at, run);
}

static const char *sgd(const wfi_cpu *d, wfi_bind *b)
{
    static const int operand[] = { 0 };
    like_operands(b, operand);
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD, .threads = b->threads,
                         .v = { &b->out[0], NULL, &b->in[0], NULL, &b->in[1], &b->in[2], &numbers } };
    return bind(d, b, &s, run_sgd, true);
}

/* Command: w2, m2, w, g, m, weight, h. Kernel: w2, m2, w, m, g, weight, numbers. */
static void run_momentum(const void *params, void *const *args, const wfi_run *run)
{
    const step *p = params;
    double h[8];
    memcpy(h, args[6], sizeof h);
    double k[8] = { h[0], h[1], h[4] };
    void *at[] = { args[0], args[1], args[2], args[4], args[3], args[5], k };
    p->fn(p->own, at, run);
}

static const char *momentum(const wfi_cpu *d, wfi_bind *b)
{
    static const int operand[] = { 0, 2 };
    like_operands(b, operand);
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD, .threads = b->threads, .nesterov = b->attr->sgd_momentum_step.nesterov,
                         .v = { &b->out[0], &b->out[1], &b->in[0], &b->in[2], &b->in[1], &b->in[3], &numbers } };
    b->inplace_of[1] = 1u << 2;
    return bind(d, b, &s, run_momentum, true);
}

static const wfi_impl impls[] = {
    { WFI_OP_adamw_step, "cpu.adamw", "", adamw },
    { WFI_OP_sgd_step, "cpu.sgd", "", sgd },
    { WFI_OP_sgd_momentum_step, "cpu.sgd_momentum", "", momentum },
};
const wfi_impl_list wfi_impls_optim = { impls, sizeof impls / sizeof *impls };
