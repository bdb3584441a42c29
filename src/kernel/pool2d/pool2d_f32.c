/* pool2d_f32.c - pooling computed in f32, and bf16 and f16 widened. */
#include "kernel/pool2d/pool2d_core.h"
#define T          float
#define T_IS_FLOAT 1
#include "kernel/pool2d/pool2d_real.h"

const pool2d_real WFI_K(wfi_pool2d_f32) = { plan_forward, plan_backward, forward, backward };
