/* What is not needed of control flow: results that nobody uses, what only they need inside, and operands that are not
 * read then.
 *
 *     v3 v4 = scan v0 v1 v2 func=f0 carry=1 seq=1 res=1 count=9      v3 = scan v0 v1 v2 func=f1 carry=1 seq=1 count=9
 *     result 5 v3                                                ->  result 5 v3
 *
 * A node that gives what its gradient would read gives it no more where no gradient is asked for. Carries stay: their
 * last value is what the next time round begins with. Bodies inside bodies are pruned when the body is planned. */
#include "passes/prune.h"
#include <string.h>
#include "graph/flow.h"

typedef struct pruner {
    const wfi_graph *g;
    wfi_graph *out;
    uint8_t *need;   /* of each value */
    uint8_t *node;   /* of each node */
    uint32_t *value; /* of each value of g: the same in out */
} pruner;

typedef struct kept { /* of one FLOW node */
    wfi_flow flow;
    uint8_t in[WFI_NODE_INS], out[WFI_NODE_OUTS];
} kept;

/* ---- a function ---- */

static bool is_stack(const wfi_flow *f, uint32_t result)
{
    return result >= f->ncarry && result < f->ncarry + f->nstack;
}

/* Marks what the results that are kept need; input[]: inputs among it, added to what is there. */
static bool find_used(const wfi_graph *g, const wfi_func *f, const wfi_flow *n, const uint8_t *out, uint8_t *value,
                      uint8_t *input, bool all)
{
    wfi_graph fg;
    wfi_graph_init(&fg, g->mem, g->ids);
    const bool ok = wfi_func_graph(f, &fg);
    for (uint32_t i = 0; ok && i < f->nout; i++)
        value[wfi_func_outs(f)[i]] |= all || !is_stack(n, i) || out[i];
    for (size_t k = fg.nnode; ok && k-- > 0;) {
        const wfi_node *m = &fg.node[k];
        bool used = false;
        for (uint32_t i = 0; i < m->nout; i++)
            used |= value[m->out0 + i];
        for (uint32_t i = 0; used && i < m->nin; i++)
            if (fg.in[m->in0 + i] != WFI_NO_VALUE)
                value[fg.in[m->in0 + i]] = 1;
    }
    for (uint32_t i = 0; ok && i < f->nin; i++)
        input[i] |= value[i] || i < n->ncarry;
    wfi_graph_free(&fg);
    return ok;
}

/* The function with the results and inputs that are kept. 0: out of memory. */
static uint32_t reduced(const wfi_graph *g, const wfi_func *f, const wfi_flow *n, const uint8_t *out,
                        const uint8_t *used, const uint8_t *input, bool all)
{
    wfi_graph from, to;
    uint32_t id = 0, nin = 0, nout = 0, *value = wfi_mem_array(g->mem, (size_t)f->nvalue + 1, sizeof *value);
    wfi_graph_init(&from, g->mem, g->ids);
    wfi_graph_init(&to, g->mem, g->ids);
    bool ok = value && wfi_func_graph(f, &from);
    for (uint32_t k = 0; ok && k < from.nnode; k++) {
        const wfi_node *m = &from.node[k];
        bool keep = false;
        for (uint32_t i = 0; i < m->nout; i++)
            keep |= used[m->out0 + i];
        if (m->op == WFI_NODE_INPUT) {
            if (input[m->payload])
                ok = (value[m->out0] = wfi_graph_add(&to, WFI_NODE_INPUT, nin++, 0, NULL, 1, &from.value[m->out0].type,
                                                     0)) != WFI_NO_VALUE;
        } else if (m->op == WFI_NODE_RESULT) {
            if (all || !is_stack(n, m->payload) || out[m->payload])
                ok =
                    wfi_graph_add(&to, WFI_NODE_RESULT, nout++, 1, &value[from.in[m->in0]], 0, NULL, 0) != WFI_NO_VALUE;
        } else if (keep)
            ok = wfi_graph_copy(&to, &from, k, value);
    }
    if (ok)
        id = wfi_func_intern(&to);
    wfi_mem_free(g->mem, value);
    wfi_graph_free(&from);
    wfi_graph_free(&to);
    return id;
}

/* ---- a node ---- */

static void count_kept(const wfi_flow *f, kept *k)
{
    const uint32_t lead = wfi_flow_lead(f), seq0 = lead + f->ncarry, free0 = seq0 + f->nseq;
    k->flow.nseq = k->flow.nfree = k->flow.nstack = k->flow.nres = 0;
    for (uint32_t i = seq0; i < free0 + f->nfree; i++)
        *(i < free0 ? &k->flow.nseq : &k->flow.nfree) += k->in[i];
    for (uint32_t i = f->ncarry; i < f->ncarry + f->nstack; i++) {
        k->flow.nstack += k->out[i];
        k->flow.nres += k->out[i] && i >= f->ncarry + f->nstack - f->nres;
    }
}

/* What stays of node n. A predicate's function gives what it gave. */
static bool look(const pruner *p, const wfi_node *n, kept *k)
{
    const wfi_graph *g = p->g;
    const wfi_flow *f = wfi_attr_data(g->ids, n->payload);
    const uint32_t lead = wfi_flow_lead(f), id[2] = { f->func, f->other };
    bool ok = true, whole = true;
    uint8_t *used[2] = { NULL, NULL };
    memset(k, 0, sizeof *k);
    k->flow = *f;
    for (uint32_t i = 0; i < n->nout; i++) {
        k->out[i] = p->need[n->out0 + i] || !is_stack(f, i);
        whole &= k->out[i];
    }
    for (uint32_t i = 0; i < lead; i++)
        k->in[i] = 1;
    for (int j = 0; ok && j < 2 && id[j]; j++) {
        const wfi_func *func = wfi_func_at(g->ids, id[j]);
        used[j] = wfi_mem_zalloc(g->mem, (size_t)func->nvalue + 1);
        ok = used[j] && find_used(g, func, f, k->out, used[j], k->in + lead, j && f->kind == WFI_FLOW_WHILE);
    }
    for (uint32_t i = 0; i < n->nin; i++)
        whole &= k->in[i];
    for (int j = 0; ok && !whole && j < 2 && id[j]; j++) {
        *(j ? &k->flow.other : &k->flow.func) =
            reduced(g, wfi_func_at(g->ids, id[j]), f, k->out, used[j], k->in + lead, j && f->kind == WFI_FLOW_WHILE);
        ok = (j ? k->flow.other : k->flow.func) != 0;
    }
    count_kept(f, k);
    wfi_mem_free(g->mem, used[0]);
    wfi_mem_free(g->mem, used[1]);
    return ok;
}

static bool write_flow(pruner *p, const wfi_node *n, const kept *k)
{
    uint32_t in[WFI_NODE_INS], type[WFI_NODE_OUTS], nin = 0, nout = 0;
    for (uint32_t i = 0; i < n->nin; i++)
        if (k->in[i])
            in[nin++] = p->value[p->g->in[n->in0 + i]];
    for (uint32_t i = 0; i < n->nout; i++)
        if (k->out[i])
            type[nout++] = p->g->value[n->out0 + i].type;
    const uint32_t attr = wfi_ids_attr(p->g->ids, WFI_NODE_FLOW, &k->flow, sizeof k->flow);
    uint32_t v = attr ? wfi_graph_add(p->out, n->op, attr, nin, in, nout, type, n->prov) : WFI_NO_VALUE;
    if (v == WFI_NO_VALUE)
        return false;
    p->out->node[p->out->nnode - 1].flags = n->flags;
    for (uint32_t i = 0; i < n->nout; i++)
        if (k->out[i]) {
            p->value[n->out0 + i] = v++;
            if (!wfi_graph_member(p->out, n->nmember ? p->g->member[n->member0 + i] : n->prov + i))
                return false;
        }
    return true;
}

/* From the end: which nodes are needed, and which operands of them. */
static bool find_needed(pruner *p, kept *k)
{
    for (size_t i = p->g->nnode; i-- > 0;) {
        const wfi_node *n = &p->g->node[i];
        p->node[i] = n->nout == 0;
        for (uint32_t o = 0; o < n->nout; o++)
            p->node[i] |= p->need[n->out0 + o];
        if (!p->node[i])
            continue;
        if (n->op == WFI_NODE_FLOW && !look(p, n, k))
            return false;
        for (uint32_t j = 0; j < n->nin; j++)
            if (p->g->in[n->in0 + j] != WFI_NO_VALUE && (n->op != WFI_NODE_FLOW || k->in[j]))
                p->need[p->g->in[n->in0 + j]] = 1;
    }
    return true;
}

bool wfi_prune(const wfi_graph *g, wfi_graph *out)
{
    pruner p = { .g = g,
                 .out = out,
                 .need = wfi_mem_zalloc(g->mem, g->nvalue + 1),
                 .node = wfi_mem_zalloc(g->mem, g->nnode + 1),
                 .value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *p.value) };
    kept *k = wfi_mem_alloc(g->mem, sizeof *k);
    bool ok = p.need && p.node && p.value && k && find_needed(&p, k);
    for (uint32_t i = 0; ok && i < g->nnode; i++) {
        const wfi_node *n = &g->node[i];
        if (!p.node[i])
            continue;
        ok = n->op == WFI_NODE_FLOW ? look(&p, n, k) && write_flow(&p, n, k) : wfi_graph_copy(out, g, i, p.value);
    }
    void *const parts[] = { p.need, p.node, p.value, k };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(g->mem, parts[i]);
    return ok;
}
