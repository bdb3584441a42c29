/* The tile kernel with its instructions in plain C: for tests on machines without the unit. */
#define WFI_AMX_EMULATED
#include "kernel/gemm/gemm_amx.c"
