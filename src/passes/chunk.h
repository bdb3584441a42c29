/* chunk.h - large values that only a few row-by-row operators see are made, used and forgotten in parts.
 *
 * The logits of a large vocabulary are the example: the product that makes them, their loss, its gradient and the two
 * products behind it are run for a part of the rows at a time, so that neither the logits nor their gradient exist as a
 * whole. Nothing in here knows that: a region is whatever operators make and use a large value, if one of its axes is,
 * by their axis maps, cut in all of them.
 *
 *   - An axis that is parallel in an operator is cut: each part is a smaller node of the same kind, with the same bits.
 *     What the region gives on to others is joined from its parts.
 *   - An axis that a product sums over is cut as well: each part goes on with the chains of the one before
 *     (matmul_add), so that every element stays the one ascending chain that it was.
 *   - Everything else that makes or uses a value has it stay whole, and leaves a reason.
 *
 * Values of 32 MiB and more are cut (or of g->large, where a budget is not met otherwise), if they stand where memory
 * is needed most. */
#ifndef WFI_PASSES_CHUNK_H
#define WFI_PASSES_CHUNK_H
#include "graph/graph.h"

/* Writes g to out (initialised, empty). False: out of memory. */
bool wfi_chunk(const wfi_graph *g, wfi_graph *out);

#endif
