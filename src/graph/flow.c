#include "graph/flow.h"
#include <string.h>
#include "base/hash.h"

/* ---- functions ---- */

typedef struct packed {
    wfi_func *f;
    wfi_func_node *node;
    uint32_t *type, *ref, *out;
    size_t bytes;
} packed;

static bool is_node(const wfi_node *n)
{
    return n->op < WFI_NODE_INPUT || n->op == WFI_NODE_CONST;
}

static bool make_room(const wfi_graph *g, packed *p)
{
    wfi_func head = { .zero = 0 };
    for (size_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        head.nin += n->op == WFI_NODE_INPUT;
        head.nout += n->op == WFI_NODE_RESULT;
        head.nnode += is_node(n);
        head.nref += is_node(n) ? n->nin : 0;
    }
    head.nvalue = (uint32_t)g->nvalue;
    p->bytes =
        sizeof head + head.nnode * sizeof *p->node + ((size_t)head.nvalue + head.nref + head.nout) * sizeof *p->type;
    if (!(p->f = wfi_mem_zalloc(g->mem, p->bytes)))
        return false;
    *p->f = head;
    p->node = (wfi_func_node *)(p->f + 1);
    p->type = (uint32_t *)(p->node + head.nnode);
    p->ref = p->type + head.nvalue;
    p->out = p->ref + head.nref;
    return true;
}

/* number[v]: of each value of the graph, its number in the function. */
static void fill(const wfi_graph *g, packed *p, uint32_t *number)
{
    uint32_t k = 0, ref = 0, next = p->f->nin;
    for (size_t i = 0; i < g->nnode; i++) {
        const wfi_node *n = &g->node[i];
        for (uint32_t o = 0; o < n->nout; o++) {
            number[n->out0 + o] = n->op == WFI_NODE_INPUT ? n->payload : next++;
            p->type[number[n->out0 + o]] = g->value[n->out0 + o].type;
        }
        if (n->op == WFI_NODE_RESULT)
            p->out[n->payload] = number[g->in[n->in0]];
        if (!is_node(n))
            continue;
        p->node[k++] = (wfi_func_node){ n->op, n->payload, ref, n->nin, n->nout, n->flags & WFI_NODE_NO_HISTORY };
        for (uint32_t j = 0; j < n->nin; j++) {
            uint32_t v = g->in[n->in0 + j];
            p->ref[ref++] = v == WFI_NO_VALUE ? v : number[v];
        }
    }
}

/* Hashes of the graph's nodes are of contents; inputs enter by their numbers. */
static uint64_t hash_of(const wfi_graph *g)
{
    uint64_t h = g->nvalue;
    for (size_t k = 0; k < g->nnode; k++) {
        const uint64_t w[2] = { g->node[k].hash, g->node[k].flags & WFI_NODE_NO_HISTORY };
        h = wfi_hash64(w, sizeof w, h);
    }
    return h;
}

uint32_t wfi_func_intern(wfi_graph *g)
{
    packed p;
    uint32_t id = 0, *number = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *number);
    if (number && make_room(g, &p)) {
        fill(g, &p, number);
        p.f->hash = hash_of(g);
        id = wfi_ids_attr(g->ids, WFI_FUNC_ATTR, p.f, p.bytes);
        wfi_mem_free(g->mem, p.f);
    }
    wfi_mem_free(g->mem, number);
    return id;
}

bool wfi_func_graph(const wfi_func *f, wfi_graph *g)
{
    const wfi_func_node *node = wfi_func_nodes(f);
    const uint32_t *type = wfi_func_types(f), *ref = wfi_func_refs(f), *out = wfi_func_outs(f);
    for (uint32_t i = 0; i < f->nin; i++)
        if (wfi_graph_add(g, WFI_NODE_INPUT, i, 0, NULL, 1, type + i, i) == WFI_NO_VALUE)
            return false;
    for (uint32_t k = 0; k < f->nnode; k++) {
        const wfi_func_node *n = &node[k];
        if (wfi_graph_add(g, n->op, n->attr, n->nin, ref + n->in0, n->nout, type + g->nvalue, f->nin + k) ==
            WFI_NO_VALUE)
            return false;
        g->node[g->nnode - 1].flags = n->flags;
    }
    for (uint32_t i = 0; i < f->nout; i++)
        if (wfi_graph_add(g, WFI_NODE_RESULT, i, 1, out + i, 0, NULL, f->nin + f->nnode + i) == WFI_NO_VALUE)
            return false;
    return true;
}

uint32_t wfi_func_widen(wfi_ids *ids, uint32_t id, uint32_t at, uint32_t n, const uint32_t *type)
{
    const wfi_func *f = wfi_func_at(ids, id);
    wfi_graph from, to;
    uint32_t wide = 0;
    if (!n)
        return id;
    wfi_graph_init(&from, ids->mem, ids);
    wfi_graph_init(&to, ids->mem, ids);
    uint32_t *value = wfi_mem_array(ids->mem, (size_t)f->nvalue + 1, sizeof *value);
    bool ok = value && wfi_func_graph(f, &from);
    for (size_t k = 0; ok && k < from.nnode; k++) {
        if (k == at)
            for (uint32_t i = 0; ok && i < n; i++)
                ok = wfi_graph_add(&to, WFI_NODE_INPUT, at + i, 0, NULL, 1, type + i, 0) != WFI_NO_VALUE;
        if (from.node[k].op != WFI_NODE_INPUT) {
            ok = ok && wfi_graph_copy(&to, &from, (uint32_t)k, value);
            continue;
        }
        const uint32_t number = from.node[k].payload + (from.node[k].payload >= at ? n : 0);
        value[k] = ok ? wfi_graph_add(&to, WFI_NODE_INPUT, number, 0, NULL, 1, &from.value[k].type, 0) : WFI_NO_VALUE;
        ok = value[k] != WFI_NO_VALUE;
    }
    if (ok)
        wide = wfi_func_intern(&to);
    wfi_mem_free(ids->mem, value);
    wfi_graph_free(&from);
    wfi_graph_free(&to);
    return wide;
}

/* ---- nodes ---- */

uint32_t wfi_flow_stacked(wfi_ids *ids, uint32_t type, int64_t n)
{
    const wfi_type *t = wfi_type_at(ids, type);
    int64_t dim[WF_RANK_MAX + 1] = { n };
    if (t->ndim == WF_RANK_MAX)
        return 0;
    memcpy(dim + 1, t->dim, (size_t)t->ndim * sizeof *dim);
    return wfi_ids_type(ids, t->dtype, t->ndim + 1, dim);
}

uint32_t wfi_flow_in_type(wfi_ids *ids, const wfi_flow *f, uint32_t i)
{
    const wfi_func *body = wfi_func_at(ids, f->func);
    if (wfi_flow_lead(f) && i-- == 0)
        return wfi_ids_type(ids, f->counted ? WF_I64 : WF_BOOL, 0, NULL);
    const uint32_t type = wfi_func_types(body)[i];
    return i >= f->ncarry && i < f->ncarry + f->nseq ? wfi_flow_stacked(ids, type, f->count) : type;
}

uint32_t wfi_flow_out_type(wfi_ids *ids, const wfi_flow *f, uint32_t i)
{
    if (i == f->ncarry + f->nstack)
        return wfi_ids_type(ids, WF_I64, 0, NULL);
    const uint32_t type = wfi_func_out_type(wfi_func_at(ids, f->func), i);
    return i >= f->ncarry && wfi_flow_stacks(f) ? wfi_flow_stacked(ids, type, f->count) : type;
}

uint64_t wfi_flow_hash(const wfi_ids *ids, const wfi_flow *f)
{
    wfi_flow plain = *f;
    plain.func = plain.other = 0;
    const uint64_t w[2] = { wfi_func_at(ids, f->func)->hash, f->other ? wfi_func_at(ids, f->other)->hash : 0 };
    return wfi_hash64(w, sizeof w, wfi_hash64(&plain, sizeof plain, f->kind));
}

const char *wfi_flow_name(const wfi_flow *f)
{
    static const char *const name[] = { "call", "cond", "scan", "while" };
    return name[f->kind];
}
