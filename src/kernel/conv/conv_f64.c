/* conv_f64.c - convolution computed in f64: the source of conv_f32.c with wider lanes. */
#include "base/hash.h"
#include "kernel/conv/conv_core.h"
#include "kernel/conv/window.h"
#define T          double
#define T_IS_FLOAT 0
#include "kernel/conv/conv_real.h"

const conv_real WFI_K(wfi_conv_f64) = { room, run_core, pack_core, wroom, run_weight, traits, wtraits };
