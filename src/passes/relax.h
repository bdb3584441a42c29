/* relax.h - what the contract `fast` allows. */
#ifndef WFI_PASSES_RELAX_H
#define WFI_PASSES_RELAX_H
#include "graph/graph.h"

/* Writes g to out (initialised, empty). Nodes that were recorded under `fast` (WFI_NODE_FAST) may be computed in
 * another way, the others not; each freedom that is taken is told to the trail. False: out of memory. */
bool wfi_relax(const wfi_graph *g, wfi_graph *out);

#endif
