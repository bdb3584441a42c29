/* attention_emulated.c - attention on the tile unit, the unit emulated, compiled without vectors: part of
 * test_attention, for machines that have neither. */
#define WFI_AMX_EMULATED     1
#define WFI_ISA              plain_emulated
#define WFI_ATTN_PLAIN(name) name##_portable
#include "kernel/attention/attn_amx.c"
