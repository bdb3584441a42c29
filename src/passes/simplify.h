/* simplify.h - what need not be computed, or not twice. */
#ifndef WFI_PASSES_SIMPLIFY_H
#define WFI_PASSES_SIMPLIFY_H
#include "graph/graph.h"

/* Writes g to out (initialised, empty): nodes that are equal become one; operators that give an operand as it is, bit
 * for bit, go (x * 1, x / 1, x - 0, -(-x), a reshape to the same shape, detach); then what no result and no assignment
 * needs is left out. False: out of memory. */
bool wfi_simplify(const wfi_graph *g, wfi_graph *out);

#endif
