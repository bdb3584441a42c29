/* attn_amx_emulated.c - attention on the tile unit with its tile operations in scalar C: for tests on machines without
 * it.
 */
#define WFI_AMX_EMULATED 1
#undef WFI_ISA
#define WFI_ISA amx_emulated
#include "kernel/attention/attn_amx.c"
