/* body.h - what a fused node does: element-wise operators over one index space, whose results live no longer than the
 * node unless they leave it. A body is interned as the node's attribute, so equal bodies are one. Plain data. */
#ifndef WFI_GRAPH_BODY_H
#define WFI_GRAPH_BODY_H
#include <stddef.h>
#include "graph/graph.h"

enum { WFI_BODY_OPS = 64, WFI_BODY_INS = 32, WFI_BODY_OUTS = 4 };

typedef struct wfi_body_op {
    uint16_t op;    /* wfi_op, an element-wise primitive */
    uint16_t dtype; /* of the result */
    uint16_t nin;
    uint16_t in[3]; /* below the body's nin: an operand of the node; else nin + the number of an earlier op */
} wfi_body_op;

typedef struct wfi_body {
    uint32_t nin, nout, nop;
    uint32_t out[WFI_BODY_OUTS];  /* ops whose results leave, ascending; 0 from nout on */
    uint32_t type[WFI_BODY_OUTS]; /* of those results */
    wfi_body_op op[WFI_BODY_OPS];
} wfi_body;

/* Bytes that are interned: the ops that there are. */
static inline size_t wfi_body_bytes(const wfi_body *b)
{
    return offsetof(wfi_body, op) + b->nop * sizeof *b->op;
}

/* A number that names the body by what it does over which shapes (in_type[nin]: of the operands): the same in every
 * process of one build, never 0. */
uint32_t wfi_body_id(const wfi_ids *ids, const wfi_body *b, const uint32_t *in_type);
uint32_t wfi_body_node_id(const wfi_graph *g, const wfi_node *n); /* of a FUSED node */

#endif
