/* lower.h - from a learnt trace to the graph that is planned: what no result and no assignment needs is left out. */
#ifndef WFI_PLAN_LOWER_H
#define WFI_PLAN_LOWER_H
#include "graph/graph.h"
#include "record/record.h"

/* False: out of memory. */
bool wfi_lower_trace(wf_ctx *c, const wfi_trace *t, wfi_graph *g);

#endif
