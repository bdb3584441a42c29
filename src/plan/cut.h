/* cut.h - along which leading axes a node can be carried out piece by piece: from its axis map. */
#ifndef WFI_PLAN_CUT_H
#define WFI_PLAN_CUT_H
#include "graph/graph.h"

enum { WFI_CUT_SLOTS = WFI_OP_INS + WFI_OP_OUTS };

/* Results, then operands. An axis along which a node can be cut is parallel: pieces of the results depend on pieces of
 * the operands, or on whole operands that do not have it. It leads in everything that has it. */
typedef struct wfi_cut {
    int32_t axes;                     /* leading axes of the results that it can be cut along */
    int64_t dim[WF_RANK_MAX];         /* their sizes */
    uint64_t sliced[WF_RANK_MAX + 1]; /* [n]: bit k is set where slot k has the first n of them; else it has none */
} wfi_cut;

/* axes = 0: not at all. */
wfi_cut wfi_cut_of(const wfi_graph *g, const wfi_node *n);

#endif
