#include "plan/lower.h"
#include <string.h>

typedef struct lowering {
    wf_ctx *c;
    const wfi_trace *t;
    wfi_graph *g;
    uint8_t *need;   /* of each record */
    uint32_t *value; /* of each record: its value in the graph */
    bool fast;       /* the contract of the records at hand */
} lowering;

static void find_needed(lowering *l)
{
    for (uint32_t i = l->t->n; i-- > 0;) {
        const wfi_rec *r = &l->t->rec[i];
        uint32_t op = WFI_KEY_OP(r->key), in[WFI_NODE_INS], nin = 0;
        if (op == WFI_EV_ASSIGN || op == WFI_EV_RETURN || op == WFI_EV_RETAIN) {
            l->need[i] = l->need[r->in[0]] = 1;
            continue;
        }
        for (uint32_t k = 1, n = wfi_rec_runs(op) ? wfi_rec_nout(&l->c->ids, r->key) : 0; k < n; k++)
            l->need[i] |= l->need[i + k];
        if (!l->need[i])
            continue;
        if (wfi_rec_runs(op))
            nin = wfi_run_operands(l->t->rec, i, in);
        else if (op == WFI_EV_VALUE && r->in[0] != WFI_NONE)
            in[nin++] = r->in[0];
        for (uint32_t k = 0; k < nin; k++)
            if (in[k] != WFI_NONE)
                l->need[in[k]] = 1;
    }
}

static bool leaf(lowering *l, uint32_t i, uint32_t op, uint32_t payload)
{
    uint32_t type = l->t->rec[i].type;
    l->value[i] = wfi_graph_add(l->g, op, payload, 0, NULL, 1, &type, i);
    return l->value[i] != WFI_NO_VALUE;
}

static bool host(lowering *l, uint32_t i)
{
    for (uint32_t k = 0; k < l->t->nlive; k++)
        if (l->t->live[k].slot == i)
            return leaf(l, i, WFI_NODE_HOST, k);
    return false;
}

static bool operator_(lowering *l, uint32_t i)
{
    const wfi_rec *r = &l->t->rec[i];
    uint32_t op = WFI_KEY_OP(r->key), in[WFI_NODE_INS], nin = wfi_run_operands(l->t->rec, i, in);
    uint32_t type[WFI_NODE_OUTS], nout = wfi_rec_nout(&l->c->ids, r->key);
    for (uint32_t k = 0; k < nin; k++)
        in[k] = in[k] == WFI_NONE ? WFI_NO_VALUE : l->value[in[k]];
    for (uint32_t k = 0; k < nout; k++)
        type[k] = l->t->rec[i + k].type;
    uint32_t v = wfi_graph_add(l->g, op, WFI_KEY_PAYLOAD(r->key), nin, in, nout, type, i);
    if (v != WFI_NO_VALUE && l->fast)
        l->g->node[l->g->nnode - 1].flags |= WFI_NODE_FAST;
    for (uint32_t k = 0; v != WFI_NO_VALUE && k < nout; k++)
        l->value[i + k] = v + k;
    return v != WFI_NO_VALUE;
}

static bool effect(lowering *l, uint32_t i, uint32_t op, uint32_t payload)
{
    return wfi_graph_add(l->g, op, payload, 1, &l->value[l->t->rec[i].in[0]], 0, NULL, i) != WFI_NO_VALUE;
}

static bool one(lowering *l, uint32_t i)
{
    const wfi_rec *r = &l->t->rec[i];
    uint32_t op = WFI_KEY_OP(r->key), payload = WFI_KEY_PAYLOAD(r->key);
    if (op == WFI_EV_CONTRACT)
        l->fast = payload == WF_FAST;
    if (!l->need[i])
        return true;
    if (wfi_rec_runs(op))
        return operator_(l, i);
    switch (op) {
    case WFI_EV_VALUE:
        if (r->in[0] != WFI_NONE)
            l->value[i] = l->value[r->in[0]];
        return r->in[0] != WFI_NONE || leaf(l, i, WFI_NODE_VAR, payload);
    case WFI_EV_INPUT: return leaf(l, i, WFI_NODE_INPUT, i);
    case WFI_EV_SCALAR: return leaf(l, i, WFI_NODE_SCALAR, i);
    case WFI_EV_CONST: return leaf(l, i, WFI_NODE_CONST, payload);
    case WFI_EV_HOST: return host(l, i);
    case WFI_EV_ASSIGN: return effect(l, i, WFI_NODE_ASSIGN, payload);
    case WFI_EV_RETURN:
    case WFI_EV_RETAIN: return effect(l, i, WFI_NODE_RESULT, r->in[0]);
    default: return true;
    }
}

bool wfi_lower_trace(wf_ctx *c, const wfi_trace *t, wfi_graph *g)
{
    lowering l = { .c = c,
                   .t = t,
                   .g = g,
                   .need = wfi_mem_zalloc(c->mem, t->n + 1),
                   .value = wfi_mem_array(c->mem, t->n + 1, sizeof *l.value) };
    bool ok = l.need && l.value;
    if (ok)
        find_needed(&l);
    for (uint32_t i = 0; ok && i < t->n; i++)
        ok = one(&l, i);
    wfi_mem_free(c->mem, l.need);
    wfi_mem_free(c->mem, l.value);
    return ok;
}
