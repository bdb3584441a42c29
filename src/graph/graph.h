/* graph.h - the graph: nodes and values with 32-bit ids in arrays, types and attributes interned.
 *
 * Passes read one graph and write another; nothing is changed in place. Nodes stand in an order in which every operand
 * comes before its use. A node carries its provenance: the record of the step that it came from. */
#ifndef WFI_GRAPH_GRAPH_H
#define WFI_GRAPH_GRAPH_H
#include "graph/axis.h"
#include "graph/ids.h"
#include "ops_enum.h"

/* Nodes that are no operators share the number space above them. */
enum {
    WFI_NODE_FLOW = 0x7ffe,  /* a function that is called, chosen or repeated; payload: attribute wfi_flow (flow.h) */
    WFI_NODE_FUSED = 0x7fff, /* several operators; payload: attribute wfi_body (body.h) */
    WFI_NODE_INPUT = 0x8000, /* a leaf of the step; payload: record */
    WFI_NODE_SCALAR,         /* a host number; payload: record */
    WFI_NODE_HOST,           /* host numbers of a composite: f64[n]; payload: index */
    WFI_NODE_CONST,          /* payload: attribute {f64 value, dtype} */
    WFI_NODE_VAR,            /* the value of a variable when the step begins; payload: variable */
    WFI_NODE_ASSIGN,         /* in[0] becomes the variable `payload` when the step ends */
    WFI_NODE_RESULT          /* in[0] outlives the step; payload: record */
};

typedef struct wfi_node {
    uint32_t op;      /* wfi_op or WFI_NODE_... */
    uint32_t payload; /* operators: the attribute (0: none) */
    uint32_t in0;     /* operands: g->in[in0 .. in0 + nin) are values; WFI_NO_VALUE: not given */
    uint32_t out0;    /* results: values out0 .. out0 + nout */
    uint16_t nin, nout;
    uint32_t flags;
    uint32_t prov;             /* record of the step; FUSED: of the first member */
    uint32_t member0, nmember; /* FUSED: records of all members, g->member[member0 .. member0 + nmember); FLOW: of the
                                * results, where some were left out */
    uint64_t hash;             /* structural: operator, attribute, operands' hashes, types */
} wfi_node;

#define WFI_NO_VALUE 0xffffffffu
enum {
    WFI_NODE_NO_MERGE = 1,  /* a recompute clone: common subexpressions leave it alone */
    WFI_NODE_PART = 2,      /* its results are not yet what its record gave, but a part of it */
    WFI_NODE_FAST = 4,      /* recorded under the contract `fast` (passes/relax.h) */
    WFI_NODE_NO_HISTORY = 8 /* of a function: gradients do not go through it */
};

typedef struct wfi_value {
    uint32_t type;
    uint32_t node;
} wfi_value;

typedef struct wfi_graph {
    wfi_mem *mem;
    wfi_ids *ids;
    wfi_node *node;
    wfi_value *value;
    uint32_t *in;
    uint32_t *member;
    size_t nnode, nvalue, nin, nmember;
    size_t cap_node, cap_value, cap_in, cap_member;
    size_t budget;           /* bytes that values should take at once (passes/recompute.h); 0: as it comes */
    size_t large;            /* bytes from which on values are made in parts (passes/chunk.h); 0: 32 MiB */
    bool split;              /* products of f32 may be made of parts: their sums are no chains */
    struct wfi_trail *trail; /* borrowed: what passes leave behind (passes/trail.h); NULL: nobody asks */
} wfi_graph;

enum { WFI_NODE_INS = 192, WFI_NODE_OUTS = 128 }; /* at most, which only control flow comes near */
enum { WFI_OP_INS = 32, WFI_OP_OUTS = 4 };        /* of operators, as devices see them (WFI_BIND_IN, WFI_BIND_OUT) */

/* A type as axis maps see it; 0: an operand that was not given. */
void wfi_type_describe(const wfi_ids *ids, uint32_t type, wfi_axis_shape *shape, wf_dtype *dtype);
/* The operands of node n, in order. */
void wfi_graph_operands(const wfi_graph *g, const wfi_node *n, wfi_axis_shape *shape, wf_dtype *dtype);

void wfi_graph_init(wfi_graph *g, wfi_mem *mem, wfi_ids *ids);
void wfi_graph_free(wfi_graph *g);

/* Appends a node; its results get the types out_type[nout]. Returns the first result's value, or the node's number for
 * nodes without results; WFI_NO_VALUE: out of memory. */
uint32_t wfi_graph_add(wfi_graph *g, uint32_t op, uint32_t payload, uint32_t nin, const uint32_t *in, uint32_t nout,
                       const uint32_t *out_type, uint32_t prov);

/* Copies node k of another graph over the same ids. value[]: of each value of `from`, the same in g; the results are
 * set. False: out of memory. */
bool wfi_graph_copy(wfi_graph *g, const wfi_graph *from, uint32_t k, uint32_t *value);

/* Which nodes use each value: user[user0[v] .. user0[v + 1]), in order. user0[nvalue + 2] comes cleared, user has room
 * for g->nin. root: of each value, the one that its uses count for; NULL: itself. */
void wfi_graph_users(const wfi_graph *g, const uint32_t *root, uint32_t *user0, uint32_t *user);

/* Adds a record to those of the last node. False: out of memory. */
bool wfi_graph_member(wfi_graph *g, uint32_t prov);

/* What node k's hash must be. */
uint64_t wfi_graph_hash(const wfi_graph *g, uint32_t k);

#endif
