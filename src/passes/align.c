/* Alignment of shapes.
 *
 *     v3 = add v2 v1 : f32[6,4]                     v3 = reshape v2 shape=[2,3,4] : f32[2,3,4]
 *     v4 = reshape v3 shape=[2,3,4] : f32[2,3,4]    v4 = add v3 v1 : f32[2,3,4]
 *     v5 = relu v4 : f32[2,3,4]                 ->  v5 = relu v4 : f32[2,3,4]
 *     v6 = reshape v5 shape=[6,4] : f32[6,4]        v6 = reshape v5 shape=[6,4] : f32[6,4]
 *     v7 = matmul v6 v0 : f32[6,8]                  v7 = matmul v6 v0 : f32[6,8]
 *
 * Only the names of places change, so every number stays what it was. A reshape that keeps the last axis is a view of
 * what lies row by row; others may be copies, and are left where they are. */
#include "passes/align.h"
#include <string.h>
#include "ops/op.h"
#include "passes/views.h"

typedef struct aligner {
    const wfi_graph *g;
    wfi_graph *out;
    uint32_t *head;   /* of each node: a member of its component (union-find) */
    uint32_t *finest; /* of each head: the node whose shape the component takes */
    uint32_t *value;  /* of each value: the same in out; WFI_NO_VALUE: not written yet */
    uint32_t *moved;  /* of each value of a member: in out, in the component's shape; WFI_NO_VALUE: as it was */
} aligner;

static bool is_ew(const wfi_node *n)
{
    return wfi_op_pointwise(n->op) && n->nout == 1;
}

static const wfi_type *type_of(const wfi_graph *g, uint32_t v)
{
    return wfi_type_at(g->ids, g->value[v].type);
}

static bool same_dims(const wfi_type *a, const wfi_type *b)
{
    return a->ndim == b->ndim && !memcmp(a->dim, b->dim, sizeof *a->dim * (size_t)a->ndim);
}

/* What v is, but for its shape: behind reshapes that keep the last axis. */
static uint32_t behind(const wfi_graph *g, uint32_t v)
{
    for (;;) {
        const wfi_node *n = &g->node[g->value[v].node];
        if (!wfi_op_renames(n->op))
            return v;
        const wfi_type *to = type_of(g, v), *from = type_of(g, g->in[n->in0]);
        if (!to->ndim || !from->ndim || to->dim[to->ndim - 1] != from->dim[from->ndim - 1])
            return v;
        v = g->in[n->in0];
    }
}

/* ---- components ---- */

static uint32_t head_of(aligner *a, uint32_t k)
{
    while (a->head[k] != k)
        k = a->head[k] = a->head[a->head[k]];
    return k;
}

static void unite(aligner *a, uint32_t j, uint32_t k)
{
    const wfi_graph *g = a->g;
    j = head_of(a, j);
    k = head_of(a, k);
    if (j == k)
        return;
    const uint32_t low = j < k ? j : k, high = j < k ? k : j;
    const int32_t rank = type_of(g, g->node[a->finest[low]].out0)->ndim;
    a->head[high] = low;
    if (type_of(g, g->node[a->finest[high]].out0)->ndim > rank)
        a->finest[low] = a->finest[high];
}

static void find_components(aligner *a)
{
    const wfi_graph *g = a->g;
    for (uint32_t k = 0; k < g->nnode; k++)
        a->head[k] = a->finest[k] = k;
    for (uint32_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        for (uint32_t i = 0; is_ew(n) && i < n->nin; i++) {
            const uint32_t v = g->in[n->in0 + i], b = behind(g, v), m = g->value[b].node;
            const int64_t elements = type_of(g, n->out0)->elements;
            if (is_ew(&g->node[m]) && elements > 1 && type_of(g, b)->elements == elements)
                unite(a, m, k);
        }
    }
}

/* ---- shapes ---- */

/* An operand of dims t, broadcast to shape s, as it is broadcast to shape f of the same elements: d[0 .. f->ndim).
 * Where the axes of s that it repeats over are not axes of f: false. */
static bool spread(const wfi_type *t, const wfi_type *s, const wfi_type *f, int64_t *d)
{
    int32_t i = 0, j = 0;
    const int32_t missing = s->ndim - t->ndim;
    while (i < s->ndim || j < f->ndim) { /* runs of axes with one product on both sides */
        int64_t left = 1, right = 1;
        const int32_t i0 = i, j0 = j;
        bool whole = true, one = true;
        do {
            if (left <= right && i < s->ndim)
                left *= s->dim[i++];
            else if (j < f->ndim)
                right *= f->dim[j++];
            else if (i < s->ndim)
                left *= s->dim[i++];
        } while (left != right);
        for (int32_t k = i0; k < i; k++) {
            const int64_t mine = k < missing ? 1 : t->dim[k - missing];
            whole = whole && mine == s->dim[k];
            one = one && mine == 1;
        }
        if (!whole && !one)
            return false;
        for (int32_t k = j0; k < j; k++)
            d[k] = whole ? f->dim[k] : 1;
    }
    return true;
}

/* Can node k run over its component's shape? */
static bool can_move(aligner *a, uint32_t k, const wfi_type **shape)
{
    const wfi_graph *g = a->g;
    const wfi_node *n = &g->node[k];
    const wfi_type *s = type_of(g, n->out0), *f = type_of(g, g->node[a->finest[head_of(a, k)]].out0);
    int64_t d[WF_RANK_MAX];
    *shape = f;
    for (uint32_t i = 0; i < n->nin; i++) {
        const wfi_type *t = type_of(g, g->in[n->in0 + i]);
        if (t->elements != s->elements && !spread(t, s, f, d))
            return false;
    }
    return true;
}

/* ---- writing ---- */

static uint32_t reshape(aligner *a, uint32_t v, int32_t ndim, const int64_t *dim, uint32_t prov)
{
    const wfi_type *t = type_of(a->out, v);
    const uint32_t type = wfi_ids_type(a->g->ids, t->dtype, ndim, dim);
    if (!type || a->out->value[v].type == type)
        return type ? v : WFI_NO_VALUE;
    wfi_attrs attr;
    memset(&attr, 0, sizeof attr);
    attr.reshape.shape.n = ndim;
    memcpy(attr.reshape.shape.d, dim, (size_t)ndim * sizeof *dim);
    const uint32_t id = wfi_ids_attr(a->g->ids, WFI_OP_reshape, &attr, wfi_op_table[WFI_OP_reshape].attr_bytes);
    return id ? wfi_graph_add(a->out, WFI_OP_reshape, id, 1, &v, 1, &type, prov) : WFI_NO_VALUE;
}

/* Value v of g in out, in its own shape; reshapes are written when they are asked for. */
static uint32_t as_it_was(aligner *a, uint32_t v)
{
    const wfi_graph *g = a->g;
    if (v == WFI_NO_VALUE || a->value[v] != WFI_NO_VALUE)
        return v == WFI_NO_VALUE ? v : a->value[v];
    const wfi_node *n = &g->node[g->value[v].node];
    const uint32_t b = behind(g, v);
    const wfi_type *t = type_of(g, v);
    if (a->moved[b] != WFI_NO_VALUE)
        return a->value[v] = reshape(a, a->moved[b], t->ndim, t->dim, n->prov);
    if (as_it_was(a, g->in[n->in0]) == WFI_NO_VALUE || !wfi_graph_copy(a->out, g, g->value[v].node, a->value))
        return WFI_NO_VALUE;
    return a->value[v];
}

/* The record that value v is: what is another shape of it comes from there as well. */
static uint32_t record_of(const wfi_graph *g, uint32_t v)
{
    const wfi_node *n = &g->node[g->value[v].node];
    return n->prov + (v - n->out0);
}

/* Operand v of node n as it enters in shape f. */
static uint32_t in_shape(aligner *a, const wfi_node *n, uint32_t v, const wfi_type *f)
{
    const wfi_graph *g = a->g;
    const wfi_type *t = type_of(g, v), *s = type_of(g, n->out0);
    const uint32_t b = behind(g, v);
    int64_t d[WF_RANK_MAX];
    if (a->moved[b] != WFI_NO_VALUE && same_dims(type_of(a->out, a->moved[b]), f))
        return a->moved[b];
    const uint32_t from = as_it_was(a, same_dims(type_of(g, b), f) ? b : v);
    if (from == WFI_NO_VALUE)
        return from;
    if (t->elements == s->elements)
        return reshape(a, from, f->ndim, f->dim, record_of(g, v));
    (void)spread(t, s, f, d);
    int32_t ones = 0; /* leading ones that it may do without */
    while (ones < f->ndim - 1 && d[ones] == 1)
        ones++;
    return t->elements == 1 || t->ndim == 0 ? from : reshape(a, from, f->ndim - ones, d + ones, record_of(g, v));
}

static bool move_node(aligner *a, uint32_t k, const wfi_type *f)
{
    const wfi_graph *g = a->g;
    const wfi_node *n = &g->node[k];
    uint32_t in[WFI_NODE_INS];
    for (uint32_t i = 0; i < n->nin; i++)
        if ((in[i] = in_shape(a, n, g->in[n->in0 + i], f)) == WFI_NO_VALUE)
            return false;
    const uint32_t type = wfi_ids_type(g->ids, type_of(g, n->out0)->dtype, f->ndim, f->dim);
    const uint32_t v = type ? wfi_graph_add(a->out, n->op, n->payload, n->nin, in, 1, &type, n->prov) : WFI_NO_VALUE;
    if (v == WFI_NO_VALUE)
        return false;
    a->out->node[a->out->nnode - 1].flags = n->flags;
    a->moved[n->out0] = v;
    if (same_dims(type_of(g, n->out0), f))
        a->value[n->out0] = v;
    return true;
}

static bool write_node(aligner *a, uint32_t k)
{
    const wfi_graph *g = a->g;
    const wfi_node *n = &g->node[k];
    const wfi_type *shape;
    if (wfi_op_renames(n->op))
        return true;
    if (is_ew(n) && type_of(g, n->out0)->elements > 1 && can_move(a, k, &shape))
        return move_node(a, k, shape);
    for (uint32_t i = 0; i < n->nin; i++)
        if (g->in[n->in0 + i] != WFI_NO_VALUE && as_it_was(a, g->in[n->in0 + i]) == WFI_NO_VALUE)
            return false;
    return wfi_graph_copy(a->out, g, k, a->value);
}

bool wfi_align(const wfi_graph *g, wfi_graph *out)
{
    const size_t nn = g->nnode + 1, nv = g->nvalue + 1;
    aligner a = { .g = g,
                  .out = out,
                  .head = wfi_mem_array(g->mem, nn, sizeof *a.head),
                  .finest = wfi_mem_array(g->mem, nn, sizeof *a.finest),
                  .value = wfi_mem_array(g->mem, nv, sizeof *a.value),
                  .moved = wfi_mem_array(g->mem, nv, sizeof *a.moved) };
    bool ok = a.head && a.finest && a.value && a.moved;
    if (ok) {
        memset(a.value, 0xff, nv * sizeof *a.value);
        memset(a.moved, 0xff, nv * sizeof *a.moved);
        find_components(&a);
    }
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        ok = write_node(&a, k);
    void *const parts[] = { a.head, a.finest, a.value, a.moved };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(g->mem, parts[i]);
    return ok;
}
