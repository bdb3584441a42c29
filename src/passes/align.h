/* align.h - element-wise operators that only reshapes part get one shape, so that they can be one kernel. */
#ifndef WFI_PASSES_ALIGN_H
#define WFI_PASSES_ALIGN_H
#include "graph/graph.h"

/* Writes g to out (initialised, empty). Operators that are linked by reshapes which keep the last axis (as those of a
 * linear layer over more than one leading axis) run over the finest of their shapes; reshapes move to where something
 * else needs another shape, and vanish in between. What cannot be said in that shape stays. False: out of memory. */
bool wfi_align(const wfi_graph *g, wfi_graph *out);

#endif
