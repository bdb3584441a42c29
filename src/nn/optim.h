/* optim.h - the numbers of an optimiser's step: inputs of the step, never part of a plan. */
#ifndef WFI_NN_OPTIM_H
#define WFI_NN_OPTIM_H
#include "record/record.h"

enum {
    WFI_OPTIM_NUMBERS = 8,
    WFI_OPTIM_LR = 0,
    WFI_ADAMW_BETA1 = 1,
    WFI_ADAMW_BETA2 = 2,
    WFI_ADAMW_EPS = 3,
    WFI_ADAMW_DECAY = 4,
    WFI_ADAMW_BIAS = 5, /* 1 - beta1^t, 1 - beta2^t, and the weight of the loss: put in there in the step */
    WFI_SGD_MOMENTUM = 1,
    WFI_SGD_DECAY = 2
};

/* The OPTIM composite rec[at] of a captured function is called again: its numbers, as they are now. */
void wfi_optim_again(wf_ctx *c, const wfi_rec *rec, uint32_t at, double number[WFI_OPTIM_NUMBERS]);

#endif
