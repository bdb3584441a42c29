/* The verifier: what must hold of every graph, whichever pass wrote it. */
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "graph/body.h"
#include "ops/op.h"
#include "passes/graph_text.h"

typedef struct checker {
    const wfi_graph *g;
    size_t at;
    char *err;
    size_t err_bytes;
} checker;

static bool wrong(const checker *k, const char *what)
{
    const wfi_node *n = &k->g->node[k->at];
    snprintf(k->err, k->err_bytes, "node %zu (%s): %s", k->at,
             n->op < WFI_OP_COUNT      ? wfi_op_table[n->op].name
             : n->op == WFI_NODE_FUSED ? "fused"
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
    wf_dtype dtype[3], made[WFI_NODE_OUTS];
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

static bool node(const checker *k)
{
    const wfi_node *n = &k->g->node[k->at];
    if (n->nin > WFI_NODE_INS || n->nout > WFI_NODE_OUTS || n->in0 + n->nin > k->g->nin ||
        n->out0 + n->nout > k->g->nvalue)
        return wrong(k, "operands or results lie outside the graph");
    if (!operands(k, n))
        return false;
    if (n->op < WFI_OP_COUNT) {
        const wfi_op_info *op = &wfi_op_table[n->op];
        if (n->nin < op->nin_min || (op->nin_max != 255 && n->nin > op->nin_max) || n->nout != op->nout)
            return wrong(k, "the number of operands or results is not the operator's");
        if ((op->attr_bytes != 0) != (n->payload != 0))
            return wrong(k, op->attr_bytes ? "the attribute is missing" : "there is an attribute too many");
        if (!results(k, n))
            return false;
    } else if (n->op == WFI_NODE_FUSED) {
        if (!fused(k, n))
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
