/* pool2d_f64.c - pooling computed in f64. */
#include "kernel/pool2d/pool2d_core.h"
#define T          double
#define T_IS_FLOAT 0
#include "kernel/pool2d/pool2d_real.h"

const pool2d_real WFI_K(wfi_pool2d_f64) = { plan_forward, plan_backward, forward, backward };
