/* optimiser.h - what the files of the optimisers share.
 *
 *   optimiser.c       making, state, the update of all parameters, which ones a step reached
 *   optimiser_step.c  the public calls of a step and of its parts
 *   micro_batches.c   totals over several steps
 */
#ifndef WFI_NN_OPTIMISER_H
#define WFI_NN_OPTIMISER_H
#include "base/text.h"
#include "nn/model.h"
#include "record/capture.h"

/* The numbers of a step: inputs, never part of a plan. */
enum {
    WFI_OPTIM_LR = 0,
    WFI_ADAMW_BETA1 = 1,
    WFI_ADAMW_BETA2 = 2,
    WFI_ADAMW_EPS = 3,
    WFI_ADAMW_DECAY = 4,
    WFI_ADAMW_BIAS = 5, /* 1 - beta1^t, 1 - beta2^t, and the weight of the loss: put in there in the step */
    WFI_SGD_MOMENTUM = 1,
    WFI_SGD_DECAY = 2
};

/* Low bits of an OPTIM record's payload; the rest is the optimiser's number. */
enum { WFI_OPTIM_STEP = 0, WFI_OPTIM_APPLY = 1, WFI_OPTIM_ACCUMULATE = 2, WFI_OPTIM_STEP_TOTALS = 3 };

typedef struct wfi_optim_slot { /* a parameter that the optimiser looks after */
    wfi_param *param;
    wf_var *m, *v; /* first and second moment; NULL: not needed yet */
    wf_var *total; /* of gradients over micro-batches; NULL: none yet */
    bool reached;  /* by the last step */
    bool summed;   /* the total holds something */
} wfi_optim_slot;

struct wf_optim {
    wfi_owned owned;
    wf_ctx *c;
    wf_model *model;
    uint32_t id;
    bool sgd, nesterov;
    double number[WFI_OPTIM_NUMBERS];
    char *only; /* NULL: all */
    wfi_optim_slot *slot;
    size_t n, cap;
    uint32_t seen;            /* parameters of the model when slots were gathered */
    wf_var **var;             /* scratch of a step, each [n] */
    wf_tensor **grad, **made; /* made[3 n]: new weight and moments */
    size_t cap_var, cap_grad, cap_made;
    wf_var *power;        /* f64[2]: beta1^t, beta2^t */
    wf_var *total_weight; /* f32[] */
    uint32_t trace, at;   /* the composite whose reach `reached` shows */
    uint8_t *sets;        /* sets of parameters that totals were stepped for: a record names them by number */
    size_t nset, cap_sets, set_bytes;
    wfi_text *unreached;
};

typedef struct wfi_optim_body { /* around the body of a composite */
    wfi_composite k;
    uint64_t keybits;
    bool notape;
    size_t own;
} wfi_optim_body;

/* ---- optimiser.c ---- */
bool wfi_optim_gather(wf_optim *p); /* parameters made since the last step join */
wf_var *wfi_optim_state(wf_optim *p, const char *what, const char *path, wf_dtype dtype, wf_dims dims,
                        const char *site);
wf_dtype wfi_optim_wide(wf_dtype t); /* of sums and moments: 16-bit types keep them in f32 */
wf_tensor *wfi_optim_now(wf_ctx *c, wf_var *v, const char *site);
/* grads[n] of the sum, NULL: not reached. All results are made before anything is assigned. */
void wfi_optim_update(wf_optim *p, wf_tensor *const *grads, wf_tensor *weight, const char *site);
void wfi_optim_set_reached(wf_optim *p, wf_tensor *const *grads);
void wfi_optim_read_reached(wf_optim *p, const wfi_composite *k, bool total); /* of a body that was skipped */
void wfi_optim_count_totals(wf_optim *p, bool step);

/* ---- optimiser_step.c ---- */
wfi_optim_body wfi_optim_open(wf_ctx *c, uint32_t event, uint32_t payload, uint32_t a, uint32_t b, const double *number,
                              const char *site);
wf_status wfi_optim_close(wf_ctx *c, wfi_optim_body *o, bool keep);
bool wfi_optim_check(wf_ctx *c, wf_loss loss, const char *call, const char *site);
wf_tensor *wfi_optim_take(wf_ctx *c, wf_tensor *t, const char *site);
uint32_t wfi_optim_ordinal(const wf_ctx *c, const wf_tensor *t);
wf_tensor *wfi_optim_weight(wf_ctx *c, wf_tensor *w, const char *site);              /* as the kernels want it: f32[] */
bool wfi_optim_sweep(wf_optim *p, wf_loss loss, const char *call, const char *site); /* -> p->grad */

#endif
