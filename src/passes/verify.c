/* The verifier: what must hold of every graph, whichever pass wrote it. */
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "graph/body.h"
#include "graph/flow.h"
#include "ops/op.h"
#include "passes/graph_text.h"

typedef struct checker {
    const wfi_graph *g;
    size_t at;
    char *err;
    size_t err_bytes;
} checker;

static const char oom[] = "out of memory"; /* the one text that does not name a node */

static bool wrong(const checker *k, const char *what)
{
    const wfi_node *n = &k->g->node[k->at];
    snprintf(k->err, k->err_bytes, "node %zu (%s): %s", k->at,
             n->op < WFI_OP_COUNT      ? wfi_op_table[n->op].name
             : n->op == WFI_NODE_FUSED ? "fused"
             : n->op == WFI_NODE_FLOW  ? "flow"
                                       : "leaf",
             what);
    return false;
}

static bool operands(const checker *k, const wfi_node *n)
{
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = k->g->in[n->in0 + i];
        if (v != WFI_NO_VALUE && v >= n->out0)
            return wrong(k, "an operand does not stand before its use");
    }
    for (uint32_t i = 0; i < n->nout; i++)
        if (k->g->value[n->out0 + i].node != k->at)
            return wrong(k, "a result belongs to another node");
    return true;
}

static bool results(const checker *k, const wfi_node *n)
{
    const wfi_graph *g = k->g;
    const wfi_op_info *op = &wfi_op_table[n->op];
    const void *attr = wfi_attr_data(g->ids, n->payload);
    wfi_axis_shape shape[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS], rtype[WFI_NODE_OUTS];
    wfi_axis_inst x;
    char err[WFI_AXIS_ERR];
    wfi_graph_operands(g, n, shape, dtype);
    if (!wfi_op_types(op, attr, n->nin, dtype, rtype, err, sizeof err) ||
        !wfi_op_bind(op, attr, n->nin, shape, dtype, NULL, &x, err, sizeof err))
        return wrong(k, err);
    for (uint32_t i = 0; i < n->nout; i++) {
        const wfi_type *t = wfi_type_at(g->ids, g->value[n->out0 + i].type);
        bool same = t->dtype == rtype[i] && t->ndim == x.nd[x.nin + (int)i];
        for (int32_t d = 0; same && d < t->ndim; d++)
            same = t->dim[d] == x.d[x.nin + (int)i][d].size;
        if (!same)
            return wrong(k, "the type of a result is not what the operator gives");
    }
    return true;
}

/* Does an operand of type v repeat over a result of type t? */
static bool spreads(const wfi_type *v, const wfi_type *t)
{
    bool fits = v->ndim <= t->ndim;
    for (int32_t d = 0; fits && d < v->ndim; d++)
        fits = v->dim[d] == 1 || v->dim[d] == t->dim[d + t->ndim - v->ndim];
    return fits;
}

static bool body_op(const checker *k, const wfi_node *n, const wfi_body *b, uint32_t q)
{
    const wfi_graph *g = k->g;
    const wfi_body_op *o = &b->op[q];
    wf_dtype dtype[3], made[WFI_BODY_OUTS];
    char err[WFI_AXIS_ERR];
    if (!wfi_op_pointwise(o->op) || o->nin != wfi_op_table[o->op].nin_max)
        return wrong(k, "an op of the body is no element-wise operator, or has not its operands");
    for (int i = 0; i < o->nin; i++) {
        if (o->in[i] >= b->nin + q)
            return wrong(k, "an op of the body reads what comes later");
        dtype[i] = o->in[i] < b->nin ? wfi_type_at(g->ids, g->value[g->in[n->in0 + o->in[i]]].type)->dtype
                                     : (wf_dtype)b->op[o->in[i] - b->nin].dtype;
    }
    made[0] = (wf_dtype)o->dtype;
    if (!wfi_op_pointwise_type(o->op, o->nin, dtype, made, err, sizeof err))
        return wrong(k, err);
    return made[0] == (wf_dtype)o->dtype || wrong(k, "an op of the body has another type than its operator gives");
}

static bool fused(const checker *k, const wfi_node *n)
{
    const wfi_graph *g = k->g;
    const wfi_body *b = n->payload ? wfi_attr_data(g->ids, n->payload) : NULL;
    if (!b || b->nin != n->nin || b->nout != n->nout || !b->nout || b->nop > WFI_BODY_OPS)
        return wrong(k, "the body does not belong to the node");
    const wfi_type *space = wfi_type_at(g->ids, g->value[n->out0].type);
    for (uint32_t q = 0; q < b->nop; q++)
        if (!body_op(k, n, b, q))
            return false;
    for (uint32_t i = 0; i < b->nout; i++) {
        const wfi_type *t = wfi_type_at(g->ids, g->value[n->out0 + i].type);
        if (b->out[i] >= b->nop || b->type[i] != g->value[n->out0 + i].type ||
            t->dtype != (wf_dtype)b->op[b->out[i]].dtype || t->ndim != space->ndim ||
            memcmp(t->dim, space->dim, sizeof *t->dim * (size_t)t->ndim))
            return wrong(k, "the type of a result is not what the body gives");
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = g->in[n->in0 + i];
        if (v == WFI_NO_VALUE || !spreads(wfi_type_at(g->ids, g->value[v].type), space))
            return wrong(k, "an operand does not fit the index space");
    }
    return true;
}

/* ---- control flow ---- */

/* A function as a graph of its own; what: which one. */
static bool function(const checker *k, uint32_t id, const char *what)
{
    const wfi_ids *ids = k->g->ids;
    char inner[WFI_AXIS_ERR], text[WFI_AXIS_ERR + 32];
    if (!id || id > ids->attrs.n || wfi_attr_at(ids, id)->op != WFI_FUNC_ATTR)
        return wrong(k, "it has no function");
    wfi_graph g;
    wfi_graph_init(&g, k->g->mem, k->g->ids);
    const bool made = wfi_func_graph(wfi_func_at(ids, id), &g), ok = made && wfi_graph_verify(&g, inner, sizeof inner);
    wfi_graph_free(&g);
    if (ok)
        return true;
    if (!made || !strcmp(inner, oom))
        return snprintf(k->err, k->err_bytes, "%s", oom), false;
    snprintf(text, sizeof text, "in its %s: %s", what, inner);
    return wrong(k, text);
}

/* The second function sees what the first one sees, and gives the same (COND), or whether it goes on (WHILE). */
static bool second(const checker *k, const wfi_flow *f)
{
    const wfi_ids *ids = k->g->ids;
    const wfi_func *a = wfi_func_at(ids, f->func), *b = wfi_func_at(ids, f->other);
    bool same = a->nin == b->nin && !memcmp(wfi_func_types(a), wfi_func_types(b), a->nin * sizeof(uint32_t));
    if (!same)
        return wrong(k, "its functions have not the same inputs");
    if (f->kind == WFI_FLOW_WHILE) {
        const wfi_type *t = b->nout == 1 ? wfi_type_at(ids, wfi_func_out_type(b, 0)) : NULL;
        return (t && t->dtype == WF_BOOL && t->ndim == 0) || wrong(k, "its predicate does not give one bool");
    }
    same = a->nout == b->nout;
    for (uint32_t i = 0; same && i < a->nout; i++)
        same = wfi_func_out_type(a, i) == wfi_func_out_type(b, i);
    return same || wrong(k, "its functions have not the same results");
}

static bool flow_types(const checker *k, const wfi_node *n, const wfi_flow *f)
{
    const wfi_graph *g = k->g;
    const wfi_func *body = wfi_func_at(g->ids, f->func);
    for (uint32_t i = 0; i < f->ncarry; i++)
        if (wfi_func_types(body)[i] != wfi_func_out_type(body, i))
            return wrong(k, "a carry does not stay as it is");
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        if (v == WFI_NO_VALUE || g->value[v].type != wfi_flow_in_type(g->ids, f, i))
            return wrong(k, "the type of an operand is not what the function takes");
    }
    for (uint32_t i = 0; i < n->nout; i++)
        if (g->value[n->out0 + i].type != wfi_flow_out_type(g->ids, f, i))
            return wrong(k, "the type of a result is not what the function gives");
    return true;
}

static bool flow(const checker *k, const wfi_node *n)
{
    const wfi_ids *ids = k->g->ids;
    const wfi_attr_item *a = n->payload && n->payload <= ids->attrs.n ? wfi_attr_at(ids, n->payload) : NULL;
    const wfi_flow *f = a ? a->data : NULL;
    if (!a || a->op != WFI_NODE_FLOW || a->bytes != sizeof *f || f->kind > WFI_FLOW_WHILE)
        return wrong(k, "it has no attribute of control flow");
    const bool loop = f->kind >= WFI_FLOW_SCAN, two = f->kind == WFI_FLOW_COND || f->kind == WFI_FLOW_WHILE;
    if (!function(k, f->func, "function") || (two && !function(k, f->other, "second function")))
        return false;
    const wfi_func *body = wfi_func_at(ids, f->func);
    if ((!loop && (f->ncarry || f->nseq || f->count != 1)) || f->count < 0 || f->nres > f->nstack ||
        (f->counted && f->kind != WFI_FLOW_SCAN) || (f->kind == WFI_FLOW_WHILE && (f->nseq || !f->ncarry)) ||
        (f->kind == WFI_FLOW_WHILE && f->nstack && !f->bounded) || (!two && f->other))
        return wrong(k, "its attribute contradicts itself");
    if (body->nin != f->ncarry + f->nseq + f->nfree || body->nout != f->ncarry + f->nstack ||
        n->nin != wfi_flow_nin(f) || n->nout != wfi_flow_nout(f))
        return wrong(k, "the number of operands or results is not the function's");
    return (!two || second(k, f)) && flow_types(k, n, f);
}

static bool node(const checker *k)
{
    const wfi_node *n = &k->g->node[k->at];
    if (n->nin > WFI_NODE_INS || n->nout > WFI_NODE_OUTS || n->in0 + n->nin > k->g->nin ||
        n->out0 + n->nout > k->g->nvalue)
        return wrong(k, "operands or results lie outside the graph");
    if (!operands(k, n))
        return false;
    if (n->op != WFI_NODE_FLOW && (n->nin > WFI_OP_INS || n->nout > WFI_OP_OUTS))
        return wrong(k, "it has more operands or results than operators can have");
    if (n->op < WFI_OP_COUNT) {
        const wfi_op_info *op = &wfi_op_table[n->op];
        if (n->nin < op->nin_min || (op->nin_max != 255 && n->nin > op->nin_max) || n->nout != op->nout)
            return wrong(k, "the number of operands or results is not the operator's");
        if ((op->attr_bytes != 0) != (n->payload != 0))
            return wrong(k, op->attr_bytes ? "the attribute is missing" : "there is an attribute too many");
        if (!results(k, n))
            return false;
    } else if (n->op == WFI_NODE_FUSED || n->op == WFI_NODE_FLOW) {
        if (!(n->op == WFI_NODE_FUSED ? fused : flow)(k, n))
            return false;
    } else if (n->op < WFI_NODE_INPUT || n->op > WFI_NODE_RESULT || n->nout != (n->op < WFI_NODE_ASSIGN ? 1 : 0) ||
               n->nin != (n->op < WFI_NODE_ASSIGN ? 0 : 1))
        return wrong(k, "no node of this kind");
    return n->hash == wfi_graph_hash(k->g, (uint32_t)k->at) || wrong(k, "the structural hash does not fit");
}

/* A variable has one type: what is assigned to it has the type that it is read with. */
static bool variables(const checker *k)
{
    const wfi_graph *g = k->g;
    const wfi_node *n = &g->node[k->at];
    if (n->op != WFI_NODE_ASSIGN)
        return true;
    for (size_t i = 0; i < g->nnode; i++)
        if (g->node[i].op == WFI_NODE_VAR && g->node[i].payload == n->payload &&
            g->value[g->node[i].out0].type != g->value[g->in[n->in0]].type)
            return wrong(k, "the value assigned has not the variable's type");
    return true;
}

bool wfi_graph_verify(const wfi_graph *g, char *err, size_t err_bytes)
{
    checker k = { g, 0, err, err_bytes };
    for (; k.at < g->nnode; k.at++)
        if (!node(&k) || !variables(&k))
            return false;
    return true;
}
