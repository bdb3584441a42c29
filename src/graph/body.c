#include "graph/body.h"
#include "base/hash.h"

static uint64_t add_type(const wfi_ids *ids, uint32_t type, uint64_t h)
{
    const wfi_type *t = wfi_type_at(ids, type);
    return wfi_hash64(t->dim, (size_t)t->ndim * sizeof *t->dim, h ^ ((uint64_t)t->dtype << 32 | (uint32_t)t->ndim));
}

uint32_t wfi_body_id(const wfi_ids *ids, const wfi_body *b, const uint32_t *in_type)
{
    uint64_t h = wfi_hash64(b->op, b->nop * sizeof *b->op, b->nop);
    h = wfi_hash64(b->out, b->nout * sizeof *b->out, h);
    for (uint32_t i = 0; i < b->nin; i++)
        h = add_type(ids, in_type[i], h);
    for (uint32_t i = 0; i < b->nout; i++)
        h = add_type(ids, b->type[i], h);
    uint32_t id = (uint32_t)(h ^ h >> 32);
    return id ? id : 1;
}

uint32_t wfi_body_node_id(const wfi_graph *g, const wfi_node *n)
{
    uint32_t type[WFI_BODY_INS];
    for (uint32_t i = 0; i < n->nin; i++)
        type[i] = g->value[g->in[n->in0 + i]].type;
    return wfi_body_id(g->ids, wfi_attr_data(g->ids, n->payload), type);
}
