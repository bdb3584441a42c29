/* flow.h - control flow: functions as interned data, and the nodes that call, choose or repeat them.
 *
 * A function is a small graph: inputs, operators, results. It is interned by its contents, so that the 24 equal layers
 * of a transformer are one function, and what is made of it (a plan, its gradient) is made once. It knows nothing of
 * variables and of the step around it: what a body uses from outside has become one more input of the function and one
 * more operand of the node.
 *
 * One kind of node carries all of control flow:
 *
 *     operands   [lead] [carry ...] [seq ...] [free ...]         inputs of the function   [carry] [slice of seq] [free]
 *     results    [carry ...] [stack ...] [trips]                 its results              [carry] [stack]
 *
 *     CALL    once. No carries, no sequences; what it gives are the function's results as they are
 *     COND    once: `func` where the lead, a bool[], is true, else `other`. Otherwise as CALL
 *     SCAN    `count` times, over the first axis of the sequences, results stacked along a new first axis. reverse:
 * from the last slice to the first. counted: the lead, an i64[], says how often (at most `count`); the rows of stacks
 * behind that are not written WHILE   while `other` over [carry] [free] gives true, at most `count` times where
 * bounded; trips: i64[], how often
 *
 * The last nres of the stacks are there for the gradient alone: values of the body that its reverse rule reads. */
#ifndef WFI_GRAPH_FLOW_H
#define WFI_GRAPH_FLOW_H
#include "graph/graph.h"

enum { WFI_FUNC_ATTR = 0x7ffd }; /* what functions are interned as */

typedef enum wfi_flow_kind {
    WFI_FLOW_CALL = 0,
    WFI_FLOW_COND = 1,
    WFI_FLOW_SCAN = 2,
    WFI_FLOW_WHILE = 3
} wfi_flow_kind;

typedef struct wfi_flow { /* the attribute of a FLOW node: compared as bytes, without holes */
    uint32_t kind;
    uint32_t func, other; /* attributes wfi_func; other: 0 where there is none */
    uint32_t ncarry, nseq, nfree;
    uint32_t nstack, nres;
    uint32_t reverse, counted, bounded, zero;
    int64_t count;
} wfi_flow;

typedef struct wfi_func_node {
    uint32_t op, attr; /* an operator, CONST or FLOW */
    uint32_t in0;      /* operands: ref[in0 .. in0 + nin) are values */
    uint16_t nin, nout;
    uint32_t flags; /* WFI_NODE_NO_HISTORY */
} wfi_func_node;

/* Values: the inputs, then the results of the nodes, in order. Behind the struct stand
 * node[nnode], type[nvalue], ref[nref], out[nout]. */
typedef struct wfi_func {
    uint64_t hash; /* of what it does: the same in every process */
    uint32_t nin, nout, nnode, nvalue, nref, zero;
} wfi_func;

static inline const wfi_func_node *wfi_func_nodes(const wfi_func *f)
{
    return (const wfi_func_node *)(f + 1);
}
static inline const uint32_t *wfi_func_types(const wfi_func *f)
{
    return (const uint32_t *)(wfi_func_nodes(f) + f->nnode);
}
static inline const uint32_t *wfi_func_refs(const wfi_func *f)
{
    return wfi_func_types(f) + f->nvalue;
}
static inline const uint32_t *wfi_func_outs(const wfi_func *f)
{
    return wfi_func_refs(f) + f->nref;
}
static inline uint32_t wfi_func_out_type(const wfi_func *f, uint32_t i)
{
    return wfi_func_types(f)[wfi_func_outs(f)[i]];
}
static inline const wfi_func *wfi_func_at(const wfi_ids *ids, uint32_t id)
{
    return (const wfi_func *)wfi_attr_data(ids, id);
}

/* Interns what a graph does. Its leaves are INPUT (payload: number of the input, each once and all of them) and CONST,
 * its effects RESULT (payload: number of the result). 0: out of memory. */
uint32_t wfi_func_intern(wfi_graph *g);
/* The way back; g is initialised and empty. Provenance is the function's node. False: out of memory. */
bool wfi_func_graph(const wfi_func *f, wfi_graph *g);

/* The same function with n more inputs, of these types, that it does not use, before its input `at`. 0: out of memory.
 */
uint32_t wfi_func_widen(wfi_ids *ids, uint32_t id, uint32_t at, uint32_t n, const uint32_t *type);

static inline uint32_t wfi_flow_lead(const wfi_flow *f)
{
    return f->kind == WFI_FLOW_COND || f->counted;
}
static inline uint32_t wfi_flow_nin(const wfi_flow *f)
{
    return wfi_flow_lead(f) + f->ncarry + f->nseq + f->nfree;
}
static inline uint32_t wfi_flow_nout(const wfi_flow *f)
{
    return f->ncarry + f->nstack + (f->kind == WFI_FLOW_WHILE);
}
static inline bool wfi_flow_stacks(const wfi_flow *f) /* else its results are the function's */
{
    return f->kind >= WFI_FLOW_SCAN;
}
/* The types of operand i and of result i. 0: out of memory, or it is too large. */
uint32_t wfi_flow_in_type(wfi_ids *ids, const wfi_flow *f, uint32_t i);
uint32_t wfi_flow_out_type(wfi_ids *ids, const wfi_flow *f, uint32_t i);
/* [n, ...type] */
uint32_t wfi_flow_stacked(wfi_ids *ids, uint32_t type, int64_t n);
uint64_t wfi_flow_hash(const wfi_ids *ids, const wfi_flow *f); /* of what it does */
const char *wfi_flow_name(const wfi_flow *f);                  /* "scan" */

#endif
