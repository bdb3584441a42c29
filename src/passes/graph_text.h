/* graph_text.h - the stable text of a graph, and the way back.
 *
 *     v0 = input 0 : f32[8,16]                    leaf; the number is its payload (record, variable ...)
 *     v1 = var 3 : f32[16,32]
 *     v2 = const 0.5 : f32[]
 *     v3 = matmul v0 v1 : f32[8,32]
 *     v4 = softmax v3 axis=-1 : f32[8,32]
 *     v5 v6 = cross_entropy_rows v3 v7 ignore=0 has_ignore=false smoothing=0 : f32[8] f32[8]
 *     v8 = layer_norm v4 _ v1 eps=1e-5 : f32[8,32]   _ is an operand that was not given
 *     v9 = fused(mul i0 i1; add t0 i2) v1 v2 v4 : f32[8,32]   operands are i0, i1 ..., earlier ops t0, t1 ...; an op
 *                                             before the last whose result leaves has `out` before it
 *     func f0 : f32[4] f32[2,4]               a function: the types of its inputs v0, v1, ...; values are its own
 *       v2 = add v0 v1 : f32[2,4]             with ! behind it: gradients do not go through
 *       return v2
 *     v10 = call v3 v9 func=f0 : f32[2,4]     a node that calls, chooses or repeats functions (graph/flow.h)
 *     assign 3 v8                                 variable 3 becomes v8 when the step ends
 *     result 12 v5                                v5 outlives the step as record 12
 *
 * One node a line, operands before their uses; # begins a comment. Parsing what was printed gives the same graph. */
#ifndef WFI_PASSES_GRAPH_TEXT_H
#define WFI_PASSES_GRAPH_TEXT_H
#include "base/text.h"
#include "graph/graph.h"

/* "matmul", "scan", or "fused(mul i0 i1; add t0 i2)": operands of the node are i0, i1, ..., results of earlier ops t0,
 * ... */
void wfi_graph_print_op(const wfi_graph *g, const wfi_node *n, wfi_text *t);
void wfi_graph_print(const wfi_graph *g, wfi_text *t); /* t->oom tells if memory ran out */
/* The same with a comment behind each node: what `note` adds to t. */
void wfi_graph_print_noted(const wfi_graph *g, void (*note)(void *user, const wfi_node *n, wfi_text *t), void *user,
                           wfi_text *t);
/* g: initialised and empty. False: one error text "line 3: ..."; g is then to be freed by the caller as it is. */
bool wfi_graph_parse(const char *text, wfi_graph *g, char *err, size_t err_bytes);

/* Every node: known operator, number of operands, operands before uses, types as the operator's map and types rule give
 * them, structural hash; every variable assigned a value of one type. False: one text that names the node, or
 * "out of memory" (functions are looked at as graphs of their own). */
bool wfi_graph_verify(const wfi_graph *g, char *err, size_t err_bytes);

#endif
