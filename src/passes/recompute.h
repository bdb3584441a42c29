/* recompute.h - values that are cheap to compute again are not kept across the peak of memory.
 *
 * What the forward part leaves for the gradients is alive at the peak. A value of it that operands alive anyway give
 * again for little is computed a second time, right before its first use behind the peak, and its memory is free in
 * between. The second node carries WFI_NODE_NO_MERGE and the provenance of the first; it runs the same kernel, so its
 * bits are the same.
 *
 * Without a budget (g->budget 0) only what costs next to nothing is taken: operators that move more than they compute,
 * and together at most 2 % of the step's estimated time. With one, whatever it takes, cheapest first, until the values
 * fit, or nothing is left that would help. */
#ifndef WFI_PASSES_RECOMPUTE_H
#define WFI_PASSES_RECOMPUTE_H
#include "graph/graph.h"

/* Writes g to out (initialised, empty). False: out of memory. */
bool wfi_recompute(const wfi_graph *g, wfi_graph *out);

/* The bytes that the values of g take at once where that is most, by the estimate that the pass goes by; leaves and
 * what leaves the step are not counted. 0 without memory. */
size_t wfi_recompute_peak(const wfi_graph *g);

/* Estimated seconds of all nodes, to be compared with those of other graphs. */
double wfi_recompute_seconds(const wfi_graph *g);

#endif
