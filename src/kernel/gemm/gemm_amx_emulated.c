/* gemm_amx_emulated.c - the AMX product with its tile operations in scalar C: for tests on machines without the unit.
 */
#define WFI_AMX_EMULATED 1
#include "kernel/gemm/gemm_amx.c"
