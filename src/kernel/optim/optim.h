/* optim.h - optimiser steps, fused: one walk over a parameter, its state and its gradient.
 *
 *     wfi_optim_spec s = { .kind = WFI_OPTIM_ADAMW, .threads = 2,
 *                          .v = { &w, &m, &v, &w, &m, &v, &g, &weight, &f64x8 } };
 *     const char *why = k->prepare(&s, params, &scratch);
 *     ... k->run(params, (void *[]){ w2, m2, v2, w, m, v, g, weight, scalars }, &run);
 *
 * Slots that may be missing have a NULL view and no address among the arguments of a run.
 *
 * Results may lie exactly on the operands that they follow (in place). Operands have the sizes of w, any strides and
 * any float types; f64 parameters are computed in f64, all others in f32, each result rounded once to its type.
 *
 * The gradient is divided by `weight`, one element of any computed type (a loss is a pair: sum and weight), or
 * scalars[7] where it is not given. With weight 0 there was no sample: results equal their operands. The scalars may
 * have any stride.
 *
 * adamw { w2, m2, v2, w, m, v, g, weight?, scalars }, scalars f64[8] = { lr, beta1, beta2, eps, weight_decay,
 *       correction1 = 1 - beta1^t, correction2 = 1 - beta2^t, weight? }, t = 1 at the first step:
 *           m2 = m + (1 - beta1) * (g - m)
 *           v2 = beta2 * v + (1 - beta2) * (g * g)
 *           w2 = w * (1 - lr * weight_decay) - lr / correction1 * (m2 / (sqrt(v2) / sqrt(correction2) + eps))
 *       Loshchilov and Hutter, "Decoupled weight decay regularization", arXiv:1711.05101, algorithm 2, in the
 *       arrangement of PyTorch's torch.optim.AdamW.
 * sgd   { w2, b2?, w, b?, g, weight?, scalars }, scalars f64[8] = { lr, momentum, weight_decay, unused... }:
 *           d = g + weight_decay * w
 *           b2 = momentum * b + d (b: zeros at the first step), then d = b2, or with nesterov d = d + momentum * b2
 *           w2 = w - lr * d
 *       without b2 and b there is no momentum. As torch.optim.SGD with dampening 0; Sutskever et al., "On the
 * importance of initialization and momentum in deep learning", 2013. */
#ifndef WFI_KERNEL_OPTIM_H
#define WFI_KERNEL_OPTIM_H
#include "kernel/kernel.h"

typedef enum wfi_optim_kind { WFI_OPTIM_ADAMW = 0, WFI_OPTIM_SGD = 1, WFI_OPTIM_COUNT = 2 } wfi_optim_kind;

enum { WFI_OPTIM_SLOTS = 9 };

typedef struct wfi_optim_spec {
    wfi_optim_kind kind;
    int32_t threads;
    bool nesterov; /* sgd */
    bool no_decay; /* the weight decay counts as 0 */
    const wfi_view *v[WFI_OPTIM_SLOTS];
} wfi_optim_spec;

typedef struct wfi_optim_kernels {
    const char *(*prepare)(const wfi_optim_spec *s, void *params, size_t *scratch);
    wfi_kernel_fn *run;
    wfi_kernel_fn *run_list; /* of a wfi_kernel_list, whose scalars and kinds may differ */
} wfi_optim_kernels;

extern const wfi_optim_kernels wfi_optim_portable, wfi_optim_avx2, wfi_optim_avx512;

#endif
