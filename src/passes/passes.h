/* passes.h - the passes that a step's graph goes through before it is planned, in their order. */
#ifndef WFI_PASSES_PASSES_H
#define WFI_PASSES_PASSES_H
#include "graph/graph.h"

/* Replaces g by what the passes make of it. WEFT_SKIP names passes that are left out (simplify,fuse). check: the
 * verifier looks at the graph before the first and after each. False: err has the reason, "out of memory" or what is
 * wrong. */
bool wfi_passes(wfi_graph *g, bool check, char *err, size_t err_bytes);

#endif
