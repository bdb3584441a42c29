#include "graph/graph.h"
#include <string.h>
#include "base/hash.h"
#include "graph/body.h"
#include "graph/flow.h"

void wfi_graph_init(wfi_graph *g, wfi_mem *mem, wfi_ids *ids)
{
    *g = (wfi_graph){ .mem = mem, .ids = ids };
}

void wfi_graph_free(wfi_graph *g)
{
    if (!g->mem)
        return;
    wfi_mem_free(g->mem, g->node);
    wfi_mem_free(g->mem, g->value);
    wfi_mem_free(g->mem, g->in);
    wfi_mem_free(g->mem, g->member);
    *g = (wfi_graph){ 0 };
}

/* Equal nodes over equal operands have equal hashes; interned ids never enter, contents do. */
static uint64_t node_hash(const wfi_graph *g, const wfi_node *n)
{
    uint64_t h = wfi_hash64(&n->op, sizeof n->op, n->nin);
    if (n->op == WFI_NODE_FUSED) {
        const wfi_body *b = wfi_attr_data(g->ids, n->payload);
        h = wfi_hash64(b->out, sizeof *b->out * b->nout, h);
        h = wfi_hash64(b->op, sizeof *b->op * b->nop, h);
    } else if (n->op == WFI_NODE_FLOW) {
        uint64_t w = wfi_flow_hash(g->ids, wfi_attr_data(g->ids, n->payload));
        h = wfi_hash64(&w, sizeof w, h);
    } else if (n->op < WFI_OP_COUNT || n->op == WFI_NODE_CONST) {
        if (n->payload) {
            const wfi_attr_item *a = wfi_attr_at(g->ids, n->payload);
            h = wfi_hash64(a->data, a->bytes, h);
        }
    } else
        h = wfi_hash64(&n->payload, sizeof n->payload, h);
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = g->in[n->in0 + i];
        uint64_t w[2] = { 0, 0 };
        if (v != WFI_NO_VALUE) {
            w[0] = g->node[g->value[v].node].hash;
            w[1] = v - g->node[g->value[v].node].out0;
        }
        h = wfi_hash64(w, sizeof w, h);
    }
    for (uint32_t i = 0; i < n->nout; i++) {
        const wfi_type *t = wfi_type_at(g->ids, g->value[n->out0 + i].type);
        h = wfi_hash64(t->dim, sizeof t->dim[0] * (size_t)t->ndim, h + (uint64_t)t->dtype);
    }
    return h;
}

uint32_t wfi_graph_add(wfi_graph *g, uint32_t op, uint32_t payload, uint32_t nin, const uint32_t *in, uint32_t nout,
                       const uint32_t *out_type, uint32_t prov)
{
    if (!wfi_mem_grow(g->mem, &g->node, &g->cap_node, g->nnode + 1, sizeof *g->node) ||
        !wfi_mem_grow(g->mem, &g->value, &g->cap_value, g->nvalue + nout, sizeof *g->value) ||
        !wfi_mem_grow(g->mem, &g->in, &g->cap_in, g->nin + nin, sizeof *g->in))
        return WFI_NO_VALUE;
    wfi_node n = { .op = op,
                   .payload = payload,
                   .in0 = (uint32_t)g->nin,
                   .out0 = (uint32_t)g->nvalue,
                   .nin = (uint16_t)nin,
                   .nout = (uint16_t)nout,
                   .prov = prov };
    if (nin)
        memcpy(g->in + g->nin, in, nin * sizeof *in);
    g->nin += nin;
    for (uint32_t i = 0; i < nout; i++)
        g->value[g->nvalue++] = (wfi_value){ out_type[i], (uint32_t)g->nnode };
    n.hash = node_hash(g, &n);
    g->node[g->nnode++] = n;
    return nout ? n.out0 : (uint32_t)g->nnode - 1;
}

void wfi_type_describe(const wfi_ids *ids, uint32_t type, wfi_axis_shape *shape, wf_dtype *dtype)
{
    *shape = (wfi_axis_shape){ .ndim = -1 };
    *dtype = WF_DTYPE_NONE;
    if (!type)
        return;
    const wfi_type *t = wfi_type_at(ids, type);
    *dtype = t->dtype;
    shape->dtype = wf_dtype_name(t->dtype);
    shape->ndim = t->ndim;
    memcpy(shape->dim, t->dim, sizeof shape->dim);
}

void wfi_graph_operands(const wfi_graph *g, const wfi_node *n, wfi_axis_shape *shape, wf_dtype *dtype)
{
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        wfi_type_describe(g->ids, v == WFI_NO_VALUE ? 0 : g->value[v].type, &shape[i], &dtype[i]);
    }
}

bool wfi_graph_copy(wfi_graph *g, const wfi_graph *from, uint32_t k, uint32_t *value)
{
    const wfi_node *n = &from->node[k];
    uint32_t in[WFI_NODE_INS], type[WFI_NODE_OUTS];
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = from->in[n->in0 + i];
        in[i] = v == WFI_NO_VALUE ? v : value[v];
    }
    for (uint32_t i = 0; i < n->nout; i++)
        type[i] = from->value[n->out0 + i].type;
    uint32_t v = wfi_graph_add(g, n->op, n->payload, n->nin, in, n->nout, type, n->prov);
    if (v == WFI_NO_VALUE)
        return false;
    g->node[g->nnode - 1].flags = n->flags;
    for (uint32_t i = 0; i < n->nmember; i++)
        if (!wfi_graph_member(g, from->member[n->member0 + i]))
            return false;
    for (uint32_t i = 0; i < n->nout; i++)
        value[n->out0 + i] = v + i;
    return true;
}

/* Counted two places up: while user[] is filled, user0[v + 1] goes from where v's users begin to where they end. */
void wfi_graph_users(const wfi_graph *g, const uint32_t *root, uint32_t *user0, uint32_t *user)
{
    for (size_t i = 0; i < g->nin; i++)
        if (g->in[i] != WFI_NO_VALUE)
            user0[(root ? root[g->in[i]] : g->in[i]) + 2]++;
    for (size_t v = 0; v < g->nvalue; v++)
        user0[v + 1] += user0[v];
    for (uint32_t k = 0; k < g->nnode; k++)
        for (uint32_t i = 0; i < g->node[k].nin; i++) {
            uint32_t v = g->in[g->node[k].in0 + i];
            if (v != WFI_NO_VALUE)
                user[user0[(root ? root[v] : v) + 1]++] = k;
        }
}

bool wfi_graph_member(wfi_graph *g, uint32_t prov)
{
    wfi_node *n = &g->node[g->nnode - 1];
    if (!wfi_mem_grow(g->mem, &g->member, &g->cap_member, g->nmember + 1, sizeof *g->member))
        return false;
    if (!n->nmember)
        n->member0 = (uint32_t)g->nmember;
    g->member[g->nmember++] = prov;
    n->nmember++;
    return true;
}

uint64_t wfi_graph_hash(const wfi_graph *g, uint32_t k)
{
    return node_hash(g, &g->node[k]);
}
