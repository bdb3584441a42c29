/* flow_text.h - what the text of a graph says of control flow: the functions' names, and the attributes of a node.
 *
 *     v3 v4 = scan v0 v1 v2 func=f0 carry=1 seq=1 count=64 : f32[8] f32[64,8]
 *
 * Words that are 0 are left out: func, other, carry, seq, res, reverse, counted, bounded, count. */
#ifndef WFI_PASSES_FLOW_TEXT_H
#define WFI_PASSES_FLOW_TEXT_H
#include "base/text.h"
#include "graph/flow.h"

typedef struct wfi_flow_names { /* id[i] is called f<i> */
    wfi_mem *mem;
    uint32_t *id;
    uint32_t n;
    size_t cap;
} wfi_flow_names;

bool wfi_flow_name_add(wfi_flow_names *names, uint32_t id); /* false: out of memory */
/* Names the functions of f that have no name yet, those that they use first. False: out of memory. */
bool wfi_flow_name_all(const wfi_ids *ids, const wfi_flow *f, wfi_flow_names *names);
int wfi_flow_kind_of(const char *name); /* -1: none */

void wfi_flow_print(const wfi_flow *f, const wfi_flow_names *names, wfi_text *t);
/* Reads words "carry=1". False: one error text. */
bool wfi_flow_parse(const char *kind, int n, char *const *word, const wfi_flow_names *names, uint32_t nin,
                    uint32_t nout, wfi_flow *f, char *err, size_t err_bytes);

#endif
