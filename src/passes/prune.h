/* prune.h - leaves out results of control flow that nobody uses. */
#ifndef WFI_PASSES_PRUNE_H
#define WFI_PASSES_PRUNE_H
#include "passes/trail.h"

bool wfi_prune(const wfi_graph *g, wfi_graph *out); /* false: out of memory */

#endif
