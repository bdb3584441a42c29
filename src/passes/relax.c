/* The freedoms of `fast`. Element-wise operators on 16-bit types are computed in f32, and what one makes for the next
 * is not rounded in between; a division by what is broadcast becomes a product with its reciprocal. Casts that nobody
 * needs any more are left out by the next pass.
 *
 *     v1 = add v0 v0 : bf16[8]            v1 = cast v0 dtype=f32 : f32[8]
 *     v2 = tanh v1 : bf16[8]              v2 = add v1 v1 : f32[8]
 *     result 5 v2                    ->   v3 = cast v2 dtype=bf16 : bf16[8]      (goes)
 *                                         v4 = tanh v2 : f32[8]
 *                                         v5 = cast v4 dtype=bf16 : bf16[8]
 *                                         result 5 v5
 */
#include "passes/relax.h"
#include <string.h>
#include "ops/op.h"
#include "passes/trail.h"

typedef struct relaxer {
    const wfi_graph *g;
    wfi_graph *out;
    uint32_t *value; /* of each value of g: the same in out */
    uint32_t *wide;  /* of each value of g: as f32 in out, not rounded if an operator of this pass made it; or none */
} relaxer;

static const wfi_reason unrounded = { "unrounded", "16-bit values stay f32 between element-wise operators", NULL },
                        reciprocal = { "reciprocal", "a division became a product with the reciprocal", NULL };

static bool is_low(const wfi_graph *g, uint32_t v)
{
    const wf_dtype d = wfi_type_at(g->ids, g->value[v].type)->dtype;
    return d == WF_BF16 || d == WF_F16;
}

static uint32_t type_as(const wfi_graph *g, uint32_t v, wf_dtype dtype)
{
    const wfi_type *t = wfi_type_at(g->ids, g->value[v].type);
    return wfi_ids_type(g->ids, dtype, t->ndim, t->dim);
}

/* A node of one result, for the record of n, on the way to what that gave. Its value; WFI_NO_VALUE: out of memory. */
static uint32_t add(relaxer *r, const wfi_node *n, uint32_t op, uint32_t attr, uint32_t nin, const uint32_t *in,
                    uint32_t type)
{
    const uint32_t v = type ? wfi_graph_add(r->out, op, attr, nin, in, 1, &type, n->prov) : WFI_NO_VALUE;
    if (v != WFI_NO_VALUE)
        r->out->node[r->out->nnode - 1].flags = n->flags | WFI_NODE_PART;
    return v;
}

/* The node that was written last gives what n gave. False: it was not written. */
static bool gives(relaxer *r, const wfi_node *n, uint32_t v)
{
    r->value[n->out0] = v;
    if (v != WFI_NO_VALUE)
        r->out->node[r->out->nnode - 1].flags = n->flags;
    return v != WFI_NO_VALUE;
}

static uint32_t cast(relaxer *r, const wfi_node *n, uint32_t v, wf_dtype to)
{
    const wfi_attr_cast a = { .dtype = to };
    const uint32_t attr = wfi_ids_attr(r->g->ids, WFI_OP_cast, &a, sizeof a);
    return attr ? add(r, n, WFI_OP_cast, attr, 1, &v, type_as(r->out, v, to)) : WFI_NO_VALUE;
}

/* An element-wise operator whose floats are all of 16 bits. */
static bool is_narrow(const wfi_graph *g, const wfi_node *n)
{
    bool some = false;
    if (n->op >= WFI_OP_COUNT || !(wfi_op_table[n->op].flags & WFI_OP_EW) || n->nout != 1)
        return false;
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        const wf_dtype d = wfi_type_at(g->ids, g->value[v].type)->dtype;
        if (!is_low(g, v) && d != WF_BOOL)
            return false;
        some = some || is_low(g, v);
    }
    return some;
}

/* Has the value lost nothing to its 16 bits? One that was cast from them has. */
static bool is_unrounded(const relaxer *r, uint32_t v)
{
    return r->wide[v] != WFI_NO_VALUE && r->out->node[r->out->value[r->wide[v]].node].op != WFI_OP_cast;
}

static bool widen(relaxer *r, const wfi_node *n)
{
    const wfi_graph *g = r->g;
    const bool rounds = is_low(g, n->out0);
    uint32_t in[WFI_NODE_INS];
    bool inner = false;
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        in[i] = r->value[v];
        if (!is_low(g, v))
            continue;
        inner = inner || is_unrounded(r, v);
        if (r->wide[v] == WFI_NO_VALUE && (r->wide[v] = cast(r, n, r->value[v], WF_F32)) == WFI_NO_VALUE)
            return false;
        in[i] = r->wide[v];
    }
    const uint32_t type = rounds ? type_as(g, n->out0, WF_F32) : g->value[n->out0].type;
    const uint32_t y = add(r, n, n->op, n->payload, n->nin, in, type);
    if (inner)
        wfi_trail_freedom(r->out->trail, &unrounded, n);
    if (y == WFI_NO_VALUE || !rounds)
        return gives(r, n, y);
    r->wide[n->out0] = y;
    return gives(r, n, cast(r, n, y, wfi_type_at(g->ids, g->value[n->out0].type)->dtype));
}

static bool is_float(const wfi_graph *g, uint32_t v)
{
    const wf_dtype d = wfi_type_at(g->ids, g->value[v].type)->dtype;
    return d == WF_F64 || d == WF_F32;
}

/* Fewer divisions than results. */
static bool divides_by_few(const wfi_graph *g, const wfi_node *n)
{
    if (n->op != WFI_OP_div || !is_float(g, n->out0))
        return false;
    return wfi_type_at(g->ids, g->value[g->in[n->in0 + 1]].type)->elements <
           wfi_type_at(g->ids, g->value[n->out0].type)->elements;
}

static bool invert(relaxer *r, const wfi_node *n)
{
    const wfi_graph *g = r->g;
    const uint32_t a = r->value[g->in[n->in0]], b = r->value[g->in[n->in0 + 1]];
    const uint32_t inverse = add(r, n, WFI_OP_reciprocal, 0, 1, &b, r->out->value[b].type);
    if (inverse == WFI_NO_VALUE)
        return false;
    wfi_trail_freedom(r->out->trail, &reciprocal, n);
    return gives(r, n, add(r, n, WFI_OP_mul, 0, 2, (const uint32_t[]){ a, inverse }, g->value[n->out0].type));
}

static bool one(relaxer *r, uint32_t k)
{
    const wfi_graph *g = r->g;
    const wfi_node *n = &g->node[k];
    if (n->flags & WFI_NODE_FAST && n->op < WFI_OP_COUNT) {
        const uint32_t x = n->nin ? g->in[n->in0] : WFI_NO_VALUE;
        if (is_narrow(g, n))
            return widen(r, n);
        if (divides_by_few(g, n))
            return invert(r, n);
        if (n->op == WFI_OP_cast && is_low(g, x) && is_unrounded(r, x) &&
            r->out->value[r->wide[x]].type == g->value[n->out0].type) {
            r->value[n->out0] = r->wide[x];
            wfi_trail_freedom(r->out->trail, &unrounded, n);
            return true;
        }
    }
    return wfi_graph_copy(r->out, g, k, r->value);
}

bool wfi_relax(const wfi_graph *g, wfi_graph *out)
{
    relaxer r = { .g = g, .out = out };
    r.value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *r.value);
    r.wide = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *r.wide);
    bool ok = r.value && r.wide;
    if (ok)
        memset(r.wide, 0xff, (g->nvalue + 1) * sizeof *r.wide);
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        ok = one(&r, k);
    wfi_mem_free(g->mem, r.value);
    wfi_mem_free(g->mem, r.wide);
    return ok;
}
