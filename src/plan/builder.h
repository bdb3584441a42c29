/* builder.h - a plan in the making. */
#ifndef WFI_PLAN_BUILDER_H
#define WFI_PLAN_BUILDER_H
#include "plan/plan.h"
#include "record/record.h"

/* Indices that a command looked up, each between 0 and rows - 1 if it did not fail. */
typedef struct wfi_looked {
    uint32_t value;
    int64_t rows;
} wfi_looked;

typedef struct wfi_plan_builder {
    wf_ctx *c;
    wfi_plan *p;
    const wfi_graph *g;
    const wfi_bound **bound;   /* of each node; NULL: no operator */
    uint32_t *cmd_of;          /* of each node: its command, or WFI_NO_VALUE */
    const uint32_t *in_layout; /* a function: the layouts of its inputs; NULL: a step */
    uint32_t *of_var;          /* of each variable: its storage, or WFI_NO_VALUE */
    size_t cap_storage, cap_out;
    uint32_t last_fault; /* the last command that may fail; 0: none, else its number + 1 */
    wfi_looked *looked;  /* so far */
    size_t nlooked, cap_looked;
} wfi_plan_builder;

/* May node k, the next command, which says that it can fail, do so behind those before it (faults.c)? */
bool wfi_plan_may_fail(wfi_plan_builder *b, uint32_t k);

/* A plan whose arena has that many bytes if one can be had, else the smallest; for the trace of the step that is
 * running. NULL: none. */
wfi_plan *wfi_plan_fit(wf_ctx *c, const wfi_trace *t, size_t budget);

/* Before the first run: what the step will need, for the statistics and for whoever listens to topic "memory". */
void wfi_plan_foresee(wf_ctx *c, wfi_plan *p);

/* Arguments of the command of a node: its results, its operands, and a room where its kernel could keep an operand
 * rearranged. */
static inline uint32_t wfi_plan_places(const wfi_node *n, const wfi_bound *e)
{
    return n->nout + n->nin + (e->keep.bytes ? 1u : 0u);
}

/* Storages that may be one become one: an assigned value is born in its variable's own buffer, a result takes the
 * buffer of an operand that dies (inplace.c). False: out of memory. */
bool wfi_plan_inplace(wfi_plan_builder *b);

#endif
