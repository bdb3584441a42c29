#include "passes/chunk_region.h"
#include <string.h>
#include "kernel/gemm/gemm.h"
#include "ops/op.h"
#include "passes/views.h"

#define REASON(code, text)                                                                                             \
    {                                                                                                                  \
        code, text, "chunk"                                                                                            \
    }
static const wfi_reason leaves = REASON("leaves", "it leaves the step whole"),
                        whole = REASON("whole", "that axis is needed whole or in order"),
                        sums = REASON("sums", "it is summed along that axis, and not by a product"),
                        shape = REASON("shape", "a change of shape takes the axis apart"),
                        both = REASON("both", "the value is needed in parts and whole"),
                        many = REASON("many", "there are more operators around it than a region holds"),
                        order = REASON("order", "something outside needs a part of it for another part"),
                        as_one = REASON("parts", "it is a product whose f32 numbers are split, as a whole"),
                        gain = REASON("gain", "too little of it would be saved");

static const wfi_type *type_of(const wfi_graph *g, uint32_t v)
{
    return wfi_type_at(g->ids, g->value[v].type);
}

/* ---- one operator: where is the axis in its other operands and results? ---- */

/* The axis of t that begins where so many elements stand before it, counted over leading axes. */
static int32_t axis_behind(const wfi_type *t, int64_t before)
{
    int64_t n = 1;
    for (int32_t k = 0; k < t->ndim && n <= before; n *= t->dim[k++])
        if (n == before && t->dim[k] > 1)
            return k;
    return -1;
}

static int64_t elements_before(const wfi_type *t, int32_t axis)
{
    int64_t n = 1;
    for (int32_t k = 0; k < axis; k++)
        n *= t->dim[k];
    return n;
}

/* A reshape keeps the order of elements: equal parts of an axis are equal parts of one that begins at the same place.
 */
static const wfi_reason *rename_axes(const wfi_graph *g, const wfi_node *n, bool out, int32_t axis, wfi_member *m)
{
    const wfi_type *in = type_of(g, g->in[n->in0]), *to = type_of(g, n->out0);
    const int64_t before = elements_before(out ? to : in, axis);
    m->in[0] = (int8_t)axis_behind(in, before);
    m->out[0] = (int8_t)axis_behind(to, before);
    return m->in[0] < 0 || m->out[0] < 0 ? &shape : NULL;
}

/* The dimension of a slot that is factor f and nothing else; -1: f is not in it; -2: it is, in another way. */
static int plain_axis(const wfi_axis_inst *x, int slot, int f)
{
    int at = -1;
    for (int i = 0; i < x->nd[slot]; i++)
        for (int j = 0; j < x->d[slot][i].n; j++)
            if (x->d[slot][i].f[j] == f) {
                const wfi_axis_dim *d = &x->d[slot][i];
                if (at != -1 || !wfi_axis_plain(d) || d->marks || d->size != x->f[f].size)
                    return -2;
                at = i;
            }
    return at;
}

/* Sums that can be cut: chains of multiply-adds in the element type itself. */
static bool goes_on(const wfi_graph *g, const wfi_node *n)
{
    const wf_dtype t = type_of(g, n->out0)->dtype;
    return n->op == WFI_OP_matmul && (t == WF_F32 || t == WF_F64);
}

/* A product whose class of sums and whose way (by the range of all its numbers) belong to the whole. */
static bool split_whole(const wfi_graph *g, const wfi_node *n)
{
    const wfi_type *y = type_of(g, n->out0);
    if (!g->split || y->dtype != WF_F32)
        return false;
    if (n->op == WFI_OP_conv2d || n->op == WFI_OP_conv2d_input_grad || n->op == WFI_OP_conv2d_weight_grad)
        return true;
    if (n->op != WFI_OP_matmul)
        return false;
    const wfi_type *a = type_of(g, g->in[n->in0]);
    return wfi_gemm_splits(y->dim[y->ndim - 2], y->dim[y->ndim - 1], a->dim[a->ndim - 1]);
}

const wfi_reason *wfi_region_axes(const wfi_graph *g, uint32_t k, bool out, uint32_t place, int32_t axis, wfi_member *m)
{
    const wfi_node *n = &g->node[k];
    wfi_axis_shape shapes[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    wfi_axis_inst x;
    char err[WFI_AXIS_ERR];
    *m = (wfi_member){ .node = k };
    memset(m->in, -1, sizeof m->in);
    memset(m->out, -1, sizeof m->out);
    if (split_whole(g, n))
        return &as_one;
    if (wfi_op_renames(n->op))
        return rename_axes(g, n, out, axis, m);
    wfi_graph_operands(g, n, shapes, dtype);
    if (!wfi_op_bind(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), n->nin, shapes, dtype, NULL, &x, err,
                     sizeof err))
        return &whole;
    const int slot = out ? x.nin + (int)place : wfi_axis_slot(&x, (int)place);
    const int f = wfi_axis_alone(&x, slot, axis);
    if (f < 0)
        return &whole;
    for (uint32_t i = 0; i < n->nin; i++) {
        const int at = plain_axis(&x, wfi_axis_slot(&x, (int)i), f);
        if (at == -2)
            return &whole;
        m->in[i] = (int8_t)at;
    }
    for (uint32_t i = 0; i < n->nout; i++) {
        const int at = plain_axis(&x, x.nin + (int)i, f);
        if (at == -2 || (at == -1 && x.f[f].out))
            return &whole;
        m->out[i] = (int8_t)at;
    }
    m->chain = !x.f[f].out;
    return m->chain && !goes_on(g, n) ? &sums : NULL;
}

bool wfi_region_attr(const wfi_graph *g, const wfi_member *m, int64_t parts, uint32_t *attr)
{
    const wfi_node *n = &g->node[m->node];
    wfi_attrs a;
    *attr = n->payload;
    if (n->op != WFI_OP_reshape && n->op != WFI_OP_broadcast_to)
        return true;
    memset(&a, 0, sizeof a); /* their attribute is the shape of the result */
    memcpy(&a, wfi_attr_data(g->ids, n->payload), wfi_op_table[n->op].attr_bytes);
    int64_t *d = n->op == WFI_OP_reshape ? a.reshape.shape.d : a.broadcast_to.shape.d;
    d[m->out[0]] = d[m->out[0]] > 0 ? d[m->out[0]] / parts : d[m->out[0]];
    return (*attr = wfi_ids_attr(g->ids, n->op, &a, wfi_op_table[n->op].attr_bytes)) != 0;
}

static bool member_fits(const wfi_region *r, const wfi_member *m, int64_t parts)
{
    const wfi_graph *g = r->g;
    const wfi_node *n = &g->node[m->node];
    wfi_axis_shape shapes[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    wfi_axis_inst x;
    char err[WFI_AXIS_ERR];
    uint32_t attr;
    wfi_graph_operands(g, n, shapes, dtype);
    for (uint32_t i = 0; i < n->nin; i++)
        if (m->in[i] >= 0)
            shapes[i].dim[m->in[i]] /= parts;
    if (!wfi_region_attr(g, m, parts, &attr) || !wfi_op_bind(&wfi_op_table[n->op], wfi_attr_data(g->ids, attr), n->nin,
                                                             shapes, dtype, NULL, &x, err, sizeof err))
        return false;
    for (uint32_t i = 0; i < n->nout; i++) {
        const wfi_type *t = type_of(g, n->out0 + i);
        for (int32_t k = 0; k < t->ndim; k++)
            if (x.d[x.nin + (int)i][k].size != (k == m->out[i] ? t->dim[k] / parts : t->dim[k]))
                return false;
    }
    return true;
}

bool wfi_region_fits(const wfi_region *r, int64_t parts)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (!member_fits(r, &r->m[i], parts))
            return false;
    return true;
}

/* ---- growing ---- */

typedef struct cut {
    uint32_t value;
    int8_t axis;
} cut;

typedef struct growth {
    wfi_region *r;
    cut todo[WFI_REGION_MEMBERS * 4];
    uint32_t n;
} growth;

static bool is_operator(const wfi_graph *g, uint32_t node)
{
    return g->node[node].op < WFI_OP_COUNT;
}

static bool refuse(wfi_region *r, const wfi_reason *why, uint32_t value, uint32_t use)
{
    r->blame.why = why;
    r->blame.make = r->g->value[value].node;
    r->blame.use = is_operator(r->g, use) ? use : r->blame.make; /* what leaves the step is no operator */
    return false;
}

/* A large value that an operator makes is not to exist as a whole, if that can be. */
static bool want(growth *w, uint32_t v, int8_t axis)
{
    wfi_region *r = w->r;
    if (axis < 0 || r->whole[v] || type_of(r->g, v)->bytes < r->large || !is_operator(r->g, r->g->value[v].node))
        return true;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->todo[i].value == v)
            return w->todo[i].axis == axis || refuse(r, &both, v, r->g->value[v].node);
    if (w->n == sizeof w->todo / sizeof *w->todo)
        return refuse(r, &many, v, r->g->value[v].node);
    w->todo[w->n++] = (cut){ v, axis };
    return true;
}

/* Node k, which makes v (out) or uses it as operand `place`, takes it in parts. */
static bool join(growth *w, uint32_t k, uint32_t v, bool out, uint32_t place, int8_t axis)
{
    wfi_region *r = w->r;
    const wfi_node *n = &r->g->node[k];
    if (r->member[k]) {
        const wfi_member *m = &r->m[r->member[k] - 1];
        return (out ? m->out[place] : m->in[place]) == axis || refuse(r, &both, v, k);
    }
    wfi_member m;
    const wfi_reason *why = !is_operator(r->g, k)        ? &leaves
                            : r->n == WFI_REGION_MEMBERS ? &many
                                                         : wfi_region_axes(r->g, k, out, place, axis, &m);
    if (why)
        return refuse(r, why, v, k);
    r->m[r->n++] = m;
    r->member[k] = (uint8_t)r->n;
    for (uint32_t i = 0; i < n->nin; i++)
        if (r->g->in[n->in0 + i] != WFI_NO_VALUE && !want(w, r->g->in[n->in0 + i], m.in[i]))
            return false;
    for (uint32_t i = 0; i < n->nout; i++)
        if (!want(w, n->out0 + i, m.out[i]))
            return false;
    return true;
}

/* Everybody who makes or uses what is wanted in parts. *bad: the value for which somebody cannot. */
static bool settle(growth *w, uint32_t *bad)
{
    wfi_region *r = w->r;
    const wfi_graph *g = r->g;
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t v = *bad = w->todo[i].value, made = g->value[v].node;
        const int8_t axis = w->todo[i].axis;
        if (!join(w, made, v, true, v - g->node[made].out0, axis))
            return false;
        for (uint32_t u = r->user0[v]; u < r->user0[v + 1]; u++) {
            const wfi_node *n = &g->node[r->user[u]];
            for (uint32_t k = 0; k < n->nin; k++)
                if (g->in[n->in0 + k] == v && !join(w, r->user[u], v, false, k, axis))
                    return false;
        }
    }
    return true;
}

static void find_ends(const wfi_region *r, uint32_t *first, uint32_t *last)
{
    *first = *last = r->m[0].node;
    for (uint32_t i = 1; i < r->n; i++) {
        *first = r->m[i].node < *first ? r->m[i].node : *first;
        *last = r->m[i].node > *last ? r->m[i].node : *last;
    }
}

/* What lies between members becomes one. */
static bool close_paths(growth *w)
{
    wfi_region *r = w->r;
    const wfi_graph *g = r->g;
    for (bool more = true; more;) {
        uint32_t first, last, bad;
        more = false;
        find_ends(r, &first, &last);
        memset(r->up + first, 0, last - first + 1);
        memset(r->down + first, 0, last - first + 1);
        for (uint32_t k = last + 1; k-- > first;) /* operands stand before their uses */
            for (uint32_t i = 0; i < g->node[k].nin && (r->up[k] || r->member[k]); i++) {
                const uint32_t v = g->in[g->node[k].in0 + i];
                if (v != WFI_NO_VALUE && g->value[v].node >= first)
                    r->up[g->value[v].node] = 1;
            }
        for (uint32_t k = first; k <= last && !more; k++)
            for (uint32_t i = 0; i < g->node[k].nin && !more; i++) {
                const uint32_t v = g->in[g->node[k].in0 + i], made = v == WFI_NO_VALUE ? 0 : g->value[v].node;
                if (v == WFI_NO_VALUE || made < first || !(r->down[made] || r->member[made]))
                    continue;
                r->down[k] = 1;
                if (r->member[k] || !r->up[k])
                    continue;
                const wfi_member *m = r->member[made] ? &r->m[r->member[made] - 1] : NULL;
                const int8_t axis = m ? m->out[v - g->node[made].out0] : -1;
                if (axis < 0)
                    return refuse(r, &order, v, k);
                if (!join(w, k, v, false, i, axis) || !settle(w, &bad))
                    return false;
                more = true;
            }
    }
    return true;
}

/* Members in the order of the graph. */
static void sort(wfi_region *r)
{
    for (uint32_t i = 1; i < r->n; i++) {
        const wfi_member m = r->m[i];
        uint32_t j = i;
        for (; j && r->m[j - 1].node > m.node; j--)
            r->m[j] = r->m[j - 1];
        r->m[j] = m;
    }
    for (uint32_t i = 0; i < r->n; i++)
        r->member[r->m[i].node] = (uint8_t)(i + 1);
}

/* Each member gets the parts that the other makes. */
static bool agree(wfi_region *r)
{
    const wfi_graph *g = r->g;
    for (uint32_t i = 0; i < r->n; i++) {
        const wfi_node *n = &g->node[r->m[i].node];
        for (uint32_t k = 0; k < n->nin; k++) {
            const uint32_t v = g->in[n->in0 + k], made = v == WFI_NO_VALUE ? 0 : g->value[v].node;
            if (v == WFI_NO_VALUE || !r->member[made])
                continue;
            const int8_t axis = r->m[r->member[made] - 1].out[v - g->node[made].out0];
            if (axis < 0 || axis != r->m[i].in[k])
                return refuse(r, &both, v, r->m[i].node);
        }
    }
    return true;
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t c = a % b;
        a = b, b = c;
    }
    return a;
}

static bool used_outside(const wfi_region *r, uint32_t v)
{
    for (uint32_t u = r->user0[v]; u < r->user0[v + 1]; u++)
        if (!r->member[r->user[u]])
            return true;
    return false;
}

/* What is saved, what leaves, and into how many parts it can go. False: it saves too little. */
static bool weigh(wfi_region *r)
{
    const wfi_graph *g = r->g;
    size_t saved = 0, joined = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        const wfi_node *n = &g->node[r->m[i].node];
        for (uint32_t k = 0; k < n->nin; k++)
            if (r->m[i].in[k] >= 0)
                r->common = gcd(r->common, type_of(g, g->in[n->in0 + k])->dim[r->m[i].in[k]]);
        for (uint32_t k = 0; k < n->nout; k++) {
            const uint32_t v = n->out0 + k;
            const size_t bytes = type_of(g, v)->bytes;
            if (r->m[i].out[k] < 0)
                continue;
            r->common = gcd(r->common, type_of(g, v)->dim[r->m[i].out[k]]);
            if (used_outside(r, v)) {
                r->leaves[v] = ++r->nleave;
                joined += bytes;
            } else if (bytes >= r->large && !wfi_op_views(n->op)) {
                saved += bytes;
                r->largest = bytes > r->largest ? bytes : r->largest;
            }
        }
    }
    return (saved >= r->large && saved > 2 * joined) || refuse(r, &gain, g->node[r->m[0].node].out0, r->m[0].node);
}

static void clear(wfi_region *r)
{
    memset(r->member, 0, r->g->nnode + 1);
    memset(r->leaves, 0, (r->g->nvalue + 1) * sizeof *r->leaves);
    r->n = r->nleave = 0;
    r->largest = 0;
    r->common = 0;
}

/* What cannot be cut stays whole, and the rest is tried again. */
static bool grow_along(wfi_region *r, uint32_t seed, int8_t axis)
{
    uint32_t bad = seed;
    memset(r->whole, 0, r->g->nvalue + 1);
    for (int tries = 0; tries < WFI_REGION_MEMBERS; tries++) {
        growth w = { .r = r };
        clear(r);
        (void)want(&w, seed, axis);
        if (!settle(&w, &bad)) {
            if (bad == seed)
                return false;
            r->whole[bad] = 1;
            continue;
        }
        if (!close_paths(&w))
            return false;
        sort(r);
        return agree(r) && weigh(r);
    }
    return false;
}

bool wfi_region_grow(wfi_region *r, uint32_t seed, wfi_trail *trail)
{
    const wfi_graph *g = r->g;
    const wfi_type *t = type_of(g, seed);
    const uint32_t made = g->value[seed].node;
    if (t->bytes < r->large || !is_operator(g, made) || wfi_op_views(g->node[made].op))
        return false;
    for (int8_t axis = 0; axis < t->ndim; axis++)
        if (t->dim[axis] > 1 && grow_along(r, seed, axis))
            return true;
    if (r->blame.why)
        wfi_trail_note(trail, r->blame.why, g, r->blame.make, r->blame.use);
    return false;
}

bool wfi_region_new(wfi_region *r, const wfi_graph *g, size_t large)
{
    *r = (wfi_region){ .g = g, .large = large };
    r->member = wfi_mem_zalloc(g->mem, g->nnode + 1);
    r->whole = wfi_mem_zalloc(g->mem, g->nvalue + 1);
    r->up = wfi_mem_zalloc(g->mem, g->nnode + 1);
    r->down = wfi_mem_zalloc(g->mem, g->nnode + 1);
    r->leaves = wfi_mem_zalloc(g->mem, (g->nvalue + 1) * sizeof *r->leaves);
    r->user0 = wfi_mem_zalloc(g->mem, (g->nvalue + 2) * sizeof *r->user0);
    r->user = wfi_mem_array(g->mem, g->nin + 1, sizeof *r->user);
    if (!r->member || !r->whole || !r->up || !r->down || !r->leaves || !r->user0 || !r->user)
        return false;
    wfi_graph_users(g, NULL, r->user0, r->user);
    return true;
}

void wfi_region_free(wfi_region *r)
{
    void *const parts[] = { r->member, r->whole, r->up, r->down, r->leaves, r->user0, r->user };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(r->g->mem, parts[i]);
}
