/* Fusion. Groups grow along edges, in the order of the graph; then each is written out as one node where its last
 * member stood.
 *
 *     v2 = add v0 v1 : f32[8,32]          v2 = fused(add i0 i1; relu t0) v0 v1 : f32[8,32]
 *     v3 = relu v2 : f32[8,32]        ->  result 5 v2
 *     result 5 v3
 */
#include "passes/fuse.h"
#include <string.h>
#include "ops/op.h"
#include "passes/trail.h"

enum { OPERANDS_MAX = 16 }; /* of a group, results included: their tiles are in L1 together */

typedef struct fuser {
    const wfi_graph *g;
    wfi_graph *out;
    uint32_t *leader;       /* of each node: the first member of its group */
    uint32_t *next;         /* the member after it, WFI_NO_VALUE: none */
    uint32_t *last;         /* of each leader: the last member */
    uint32_t *count;        /* of each leader: members */
    uint32_t *user0, *user; /* user[user0[v] .. user0[v + 1]): the nodes that use value v */
    uint32_t *value;        /* of each value: the same in `out` */
} fuser;

static bool fusable(const wfi_graph *g, const wfi_node *n)
{
    return wfi_op_pointwise(n->op) && n->nin <= 3 && n->nout == 1 &&
           wfi_type_at(g->ids, g->value[n->out0].type)->elements > 0;
}

static bool same_shape(const wfi_graph *g, const wfi_node *a, const wfi_node *b)
{
    const wfi_type *s = wfi_type_at(g->ids, g->value[a->out0].type), *t = wfi_type_at(g->ids, g->value[b->out0].type);
    return s->ndim == t->ndim && !memcmp(s->dim, t->dim, sizeof *s->dim * (size_t)s->ndim);
}

/* ---- may two groups be one? ---- */

static const wfi_reason kind = { "kind", "only element-wise operators run as one kernel", NULL },
                        shape = { "shape", "they run over different index spaces", NULL },
                        length = { "length", "the kernel would have more operators than a body holds", NULL },
                        operands = { "operands", "the kernel would have too many operands and results", NULL },
                        order = { "order", "something between them needs a value of one for the other", NULL };

static bool inside(const fuser *f, uint32_t node, uint32_t a, uint32_t b)
{
    return f->leader[node] == a || f->leader[node] == b;
}

/* Is value v used outside the two groups? *early: before node `last`, that is before the group runs. */
static bool used_outside(const fuser *f, uint32_t v, uint32_t a, uint32_t b, uint32_t last, bool *early)
{
    bool used = false;
    for (uint32_t i = f->user0[v]; i < f->user0[v + 1]; i++)
        if (!inside(f, f->user[i], a, b)) {
            used = true;
            *early = *early || f->user[i] < last;
        }
    return used;
}

/* Why two groups cannot be one, NULL: they can. A group runs where its last member stands. So everything that uses a
 * result of it stands behind that member, no path leads out of a group and back, and the order of the graph stays one
 * in which operands come first. */
static const wfi_reason *refusal(const fuser *f, uint32_t a, uint32_t b)
{
    uint32_t seen[OPERANDS_MAX], n = 0, outs = 0, last = f->last[a] > f->last[b] ? f->last[a] : f->last[b];
    bool early = false;
    if (f->count[a] + f->count[b] > WFI_BODY_OPS)
        return &length;
    for (int side = 0; side < 2; side++)
        for (uint32_t k = side ? b : a; k != WFI_NO_VALUE; k = f->next[k]) {
            const wfi_node *m = &f->g->node[k];
            outs += used_outside(f, m->out0, a, b, last, &early);
            for (uint32_t i = 0; i < m->nin; i++) {
                uint32_t v = f->g->in[m->in0 + i], j = 0;
                if (inside(f, f->g->value[v].node, a, b))
                    continue;
                while (j < n && seen[j] != v)
                    j++;
                if (j == OPERANDS_MAX)
                    return &operands;
                seen[j] = v;
                n += j == n;
            }
        }
    return early ? &order : outs > WFI_BODY_OUTS || n + outs > OPERANDS_MAX ? &operands : NULL;
}

/* Why node k and node m, which makes an operand of it, cannot be in one group. */
static const wfi_reason *edge_refusal(const fuser *f, uint32_t m, uint32_t k)
{
    const wfi_node *a = &f->g->node[m], *b = &f->g->node[k];
    if (!fusable(f->g, a) || !fusable(f->g, b))
        return &kind;
    return same_shape(f->g, a, b) ? refusal(f, f->leader[m], f->leader[k]) : &shape;
}

/* Members stay in the order of their numbers. */
static void join(fuser *f, uint32_t a, uint32_t b)
{
    uint32_t head = a < b ? a : b, x = a, y = b, *at = &head;
    while (x != WFI_NO_VALUE || y != WFI_NO_VALUE) {
        uint32_t *from = y == WFI_NO_VALUE || x < y ? &x : &y;
        *at = *from;
        at = &f->next[*from];
        *from = *at;
    }
    *at = WFI_NO_VALUE;
    f->count[head] = f->count[a] + f->count[b];
    f->last[head] = f->last[a] > f->last[b] ? f->last[a] : f->last[b];
    for (uint32_t k = head; k != WFI_NO_VALUE; k = f->next[k])
        f->leader[k] = head;
}

static void grow(fuser *f)
{
    for (uint32_t k = 0; k < f->g->nnode; k++) {
        const wfi_node *n = &f->g->node[k];
        for (uint32_t i = 0; fusable(f->g, n) && i < n->nin; i++) {
            uint32_t m = f->g->value[f->g->in[n->in0 + i]].node;
            if (f->leader[m] != f->leader[k] && !edge_refusal(f, m, k))
                join(f, f->leader[m], f->leader[k]);
        }
    }
}

/* A note on each value that an element-wise operator makes or uses and that still goes through memory. */
static void leave_reasons(const fuser *f)
{
    const wfi_graph *g = f->g;
    for (uint32_t k = 0; k < g->nnode; k++)
        for (uint32_t i = 0; g->node[k].op < WFI_OP_COUNT && i < g->node[k].nin; i++) {
            uint32_t v = g->in[g->node[k].in0 + i], m = v == WFI_NO_VALUE ? k : g->value[v].node;
            if (f->leader[m] == f->leader[k] || g->node[m].op >= WFI_OP_COUNT ||
                (!fusable(g, &g->node[m]) && !fusable(g, &g->node[k])))
                continue;
            const wfi_reason *why = edge_refusal(f, m, k);
            wfi_trail_note(f->out->trail, why ? why : &order, g, m, k);
        }
}

/* ---- writing ---- */

/* The place of value v among the operands of the node. */
static uint16_t operand(wfi_body *b, uint32_t *in, uint32_t v)
{
    uint32_t i = 0;
    while (i < b->nin && in[i] != v)
        i++;
    in[i] = v;
    b->nin += i == b->nin;
    return (uint16_t)i;
}

/* Is this group one that WEFT_SKIP leaves out? in: values of `out`. */
static bool left_out(const fuser *f, const wfi_body *b, const uint32_t *in)
{
    uint32_t type[OPERANDS_MAX + 1];
    if (!f->out->trail || !f->out->trail->skip)
        return false;
    for (uint32_t i = 0; i < b->nin; i++)
        type[i] = f->out->value[in[i]].type;
    return wfi_trail_skips(f->out->trail, "fuse", wfi_body_id(f->g->ids, b, type));
}

static bool write_fused(fuser *f, uint32_t group)
{
    const wfi_graph *g = f->g;
    wfi_body b = { .nin = 0 };
    uint32_t in[OPERANDS_MAX + 1], node[WFI_BODY_OPS];
    for (uint32_t k = group; k != WFI_NO_VALUE; k = f->next[k]) /* operands first: ops are numbered behind them */
        for (uint32_t i = 0; i < g->node[k].nin; i++)
            if (f->leader[g->value[g->in[g->node[k].in0 + i]].node] != group)
                operand(&b, in, f->value[g->in[g->node[k].in0 + i]]);
    for (uint32_t k = group; k != WFI_NO_VALUE; k = f->next[k]) {
        const wfi_node *n = &g->node[k];
        wfi_body_op *o = &b.op[b.nop];
        *o = (wfi_body_op){ .op = (uint16_t)n->op,
                            .dtype = (uint16_t)wfi_type_at(g->ids, g->value[n->out0].type)->dtype,
                            .nin = n->nin };
        for (uint32_t i = 0; i < n->nin; i++) {
            uint32_t v = g->in[n->in0 + i], m = g->value[v].node, q = 0;
            while (q < b.nop && node[q] != m)
                q++;
            o->in[i] = q < b.nop ? (uint16_t)(b.nin + q) : operand(&b, in, f->value[v]);
        }
        bool early = false;
        if (used_outside(f, n->out0, group, group, 0, &early)) {
            b.out[b.nout] = b.nop;
            b.type[b.nout++] = g->value[n->out0].type;
        }
        node[b.nop++] = k;
    }
    if (left_out(f, &b, in)) {
        bool ok = true;
        for (uint32_t i = 0; ok && i < b.nop; i++)
            ok = wfi_graph_copy(f->out, g, node[i], f->value);
        return ok;
    }
    uint32_t attr = wfi_ids_attr(g->ids, WFI_NODE_FUSED, &b, wfi_body_bytes(&b));
    uint32_t v = attr ? wfi_graph_add(f->out, WFI_NODE_FUSED, attr, b.nin, in, b.nout, b.type, g->node[node[0]].prov)
                      : WFI_NO_VALUE;
    if (v == WFI_NO_VALUE)
        return false;
    for (uint32_t i = 0; i < b.nop; i++)
        f->out->node[f->out->nnode - 1].flags |= g->node[node[i]].flags & WFI_NODE_PART;
    for (uint32_t i = 0; i < b.nop; i++)
        if (!wfi_graph_member(f->out, g->node[node[i]].prov))
            return false;
    for (uint32_t i = 0; i < b.nout; i++)
        f->value[g->node[node[b.out[i]]].out0] = v + i;
    return true;
}

static bool write_all(fuser *f)
{
    bool ok = true;
    for (uint32_t k = 0; ok && k < f->g->nnode; k++) {
        uint32_t l = f->leader[k];
        if (f->count[l] == 1)
            ok = wfi_graph_copy(f->out, f->g, k, f->value);
        else if (f->last[l] == k)
            ok = write_fused(f, l);
    }
    return ok;
}

/* ---- the pass ---- */

bool wfi_fuse(const wfi_graph *g, wfi_graph *out)
{
    const size_t nn = g->nnode + 1;
    fuser f = { .g = g, .out = out };
    struct {
        uint32_t **at;
        size_t n;
    } part[] = { { &f.leader, nn },          { &f.next, nn },         { &f.last, nn },
                 { &f.count, nn },           { &f.user, g->nin + 1 }, { &f.user0, g->nvalue + 2 },
                 { &f.value, g->nvalue + 1 } };
    bool ok = true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        ok = (*part[i].at = wfi_mem_zalloc(g->mem, part[i].n * sizeof **part[i].at)) && ok;
    for (uint32_t k = 0; ok && k < g->nnode; k++) {
        f.leader[k] = f.last[k] = k;
        f.next[k] = WFI_NO_VALUE;
        f.count[k] = 1;
    }
    if (ok) {
        wfi_graph_users(g, NULL, f.user0, f.user);
        grow(&f);
        if (out->trail)
            leave_reasons(&f);
        ok = write_all(&f);
    }
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        wfi_mem_free(g->mem, *part[i].at);
    return ok;
}
