/* The convolution of conv_amx.c with its tile instructions in plain C, for tests on machines without the unit. */
#define WFI_AMX_EMULATED 1
#define OTHERWISE        wfi_conv_f32_avx512
#define NAME             wfi_conv_amx_emulated
#include "kernel/conv/conv_amx.c"
