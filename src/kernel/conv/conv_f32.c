/* conv_f32.c - convolution computed in f32: f32 itself, and bf16 and f16 widened. */
#include "base/hash.h"
#include "kernel/conv/conv_core.h"
#include "kernel/conv/window.h"
#define T          float
#define T_IS_FLOAT 1
#include "kernel/conv/conv_real.h"

const conv_real WFI_K(wfi_conv_f32) = { room, run_core, pack_core, wroom, run_weight, traits, wtraits };
