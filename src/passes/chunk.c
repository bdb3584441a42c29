/* Chunks.
 *
 *     v2 = matmul v0 v1 : f32[4096,8192]             v2 = slice v0 axis=0 start=0 len=1024 ...
 *     v3 = exp v2 : f32[4096,8192]                   v3 = matmul v2 v1 : f32[1024,8192]
 *     v4 = sum v3 axes=[1] : f32[4096]           ->  v4 = exp v3 : f32[1024,8192]
 *                                                    v5 = sum v4 axes=[1] : f32[1024]
 *                                                    ... three more times ...
 *                                                    v18 = concat v5 v9 v13 v17 axis=0 : f32[4096]
 *
 * A region grows from a large value: whoever makes or uses it becomes a member, and with it the other large values that
 * the member touches along the same axis. A value that somebody cannot take in parts stays whole, and the region is
 * grown again without it. Members run where the last of them stood; what depends on them and stood before that comes
 * behind, and nothing may lead out of the region and back into it. */
#include "passes/chunk.h"
#include <string.h>
#include "ops/op.h"
#include "passes/chunk_region.h"
#include "passes/recompute.h"
#include "passes/trail.h"

static const size_t large_value = (size_t)32 << 20, part_value = (size_t)8 << 20; /* where nothing else is said */
enum { PARTS_MAX = 256, JOIN = WFI_OP_INS, ROUNDS = 16, TRIES = 16 };

static const wfi_reason uneven = { "uneven", "no number of parts divides the axes that would be cut", "chunk" },
                        elsewhere = { "elsewhere", "memory is needed most where it is not there", "chunk" };

/* ---- where ---- */

/* How many parts: the fewest into which every axis can be cut and of which none is larger than `part`. 0: none. */
static int64_t parts_of(const wfi_region *r, size_t part)
{
    const int64_t want = (int64_t)((r->largest + part - 1) / part);
    for (int64_t n = want < 2 ? 2 : want; n <= r->common && n <= PARTS_MAX && n <= 4 * want; n++)
        if (r->common % n == 0)
            return n;
    return r->common > 1 && r->common < want ? r->common : 0;
}

/* ---- writing ---- */

typedef struct chunker {
    const wfi_graph *g;
    wfi_graph *out;
    uint32_t *value; /* of each value of g: the same in out */
    uint32_t *part;  /* of each value that a member makes: the part in the making; a chain: so far */
    uint32_t *piece; /* of each value that leaves the region: its parts */
    uint8_t *late;   /* of each node: it depends on a member, and stands before the last one */
    wfi_region r;
    int64_t parts, at;
    struct {
        uint32_t value, part;
        int32_t axis;
    } cut[WFI_REGION_MEMBERS * 4]; /* operands of this part that come from outside */
    uint32_t ncut;
} chunker;

static uint32_t add(chunker *c, uint32_t op, const wfi_attrs *attr, uint32_t nin, const uint32_t *in, uint32_t type,
                    uint32_t prov)
{
    const uint32_t id = attr ? wfi_ids_attr(c->g->ids, op, attr, wfi_op_table[op].attr_bytes) : 0;
    return (id || !attr) && type ? wfi_graph_add(c->out, op, id, nin, in, 1, &type, prov) : WFI_NO_VALUE;
}

/* A type with axis `axis` of another size. */
static uint32_t resized(const wfi_graph *g, uint32_t type, int32_t axis, int64_t size)
{
    const wfi_type *t = wfi_type_at(g->ids, type);
    int64_t dim[WF_RANK_MAX];
    memcpy(dim, t->dim, sizeof dim);
    dim[axis] = size;
    return wfi_ids_type(g->ids, t->dtype, t->ndim, dim);
}

/* This part of value v, which somebody outside makes. */
static uint32_t slice(chunker *c, uint32_t v, int32_t axis, uint32_t prov)
{
    for (uint32_t i = 0; i < c->ncut; i++)
        if (c->cut[i].value == v && c->cut[i].axis == axis)
            return c->cut[i].part;
    const int64_t len = wfi_type_at(c->g->ids, c->g->value[v].type)->dim[axis] / c->parts;
    wfi_attrs a;
    memset(&a, 0, sizeof a);
    a.slice.axis = axis, a.slice.start = c->at * len, a.slice.len = len, a.slice.step = 1;
    const uint32_t part =
        add(c, WFI_OP_slice, &a, 1, &c->value[v], resized(c->g, c->g->value[v].type, axis, len), prov);
    if (part != WFI_NO_VALUE)
        c->out->node[c->out->nnode - 1].flags = WFI_NODE_PART;
    if (c->ncut < sizeof c->cut / sizeof *c->cut) {
        c->cut[c->ncut].value = v, c->cut[c->ncut].axis = axis;
        c->cut[c->ncut++].part = part;
    }
    return part;
}

static bool write_member(chunker *c, const wfi_member *m)
{
    const wfi_graph *g = c->g;
    const wfi_node *n = &g->node[m->node];
    uint32_t in[WFI_NODE_INS + 1] = { 0 }, type[WFI_NODE_OUTS], nin = 0, op = n->op, payload;
    if (m->chain && c->at) { /* goes on with the chains of the parts before */
        op = WFI_OP_matmul_add;
        in[nin++] = c->part[n->out0];
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        uint32_t *at = &in[nin++];
        if (v == WFI_NO_VALUE)
            *at = v;
        else if (c->r.member[g->value[v].node])
            *at = c->part[v];
        else if (m->in[i] >= 0)
            *at = slice(c, v, m->in[i], n->prov);
        else
            *at = c->value[v];
        if (v != WFI_NO_VALUE && *at == WFI_NO_VALUE)
            return false;
    }
    for (uint32_t i = 0; i < n->nout; i++) {
        const uint32_t whole = g->value[n->out0 + i].type;
        type[i] =
            m->out[i] < 0 ? whole : resized(g, whole, m->out[i], wfi_type_at(g->ids, whole)->dim[m->out[i]] / c->parts);
        if (!type[i])
            return false;
    }
    if (!wfi_region_attr(g, m, c->parts, &payload))
        return false;
    const uint32_t v = wfi_graph_add(c->out, op, payload, nin, in, n->nout, type, n->prov);
    if (v == WFI_NO_VALUE)
        return false;
    c->out->node[c->out->nnode - 1].flags = n->flags | (m->chain && c->at == c->parts - 1 ? 0u : WFI_NODE_PART);
    for (uint32_t i = 0; i < n->nout; i++) {
        const uint32_t mine = n->out0 + i;
        c->part[mine] = v + i;
        if (c->r.leaves[mine])
            c->piece[(c->r.leaves[mine] - 1) * (uint32_t)c->parts + (uint32_t)c->at] = v + i;
    }
    return true;
}

/* The pieces of a value as one; more than a node takes are joined in steps. */
static uint32_t joined(chunker *c, uint32_t *piece, uint32_t n, uint32_t v, int32_t axis)
{
    const wfi_node *made = &c->g->node[c->g->value[v].node];
    const uint32_t prov = made->prov + (v - made->out0);
    wfi_attrs a;
    memset(&a, 0, sizeof a);
    a.concat.axis = axis;
    while (n > 1) {
        uint32_t m = 0;
        for (uint32_t i = 0, take; i < n; i += take) {
            int64_t size = 0;
            take = n - i < JOIN ? n - i : JOIN;
            for (uint32_t k = 0; k < take; k++)
                size += wfi_type_at(c->g->ids, c->out->value[piece[i + k]].type)->dim[axis];
            const uint32_t type = resized(c->g, c->g->value[v].type, axis, size);
            const uint32_t one = take == 1 ? piece[i] : add(c, WFI_OP_concat, &a, take, piece + i, type, prov);
            if (one == WFI_NO_VALUE)
                return one;
            if (take > 1)
                c->out->node[c->out->nnode - 1].flags = take < n ? WFI_NODE_PART : 0;
            piece[m++] = one;
        }
        n = m;
    }
    return *piece;
}

/* All parts of all members, one part after the other, and what leaves them. */
static bool write_region(chunker *c)
{
    const wfi_graph *g = c->g;
    bool ok = true;
    for (c->at = 0; ok && c->at < c->parts; c->at++) {
        c->ncut = 0;
        for (uint32_t i = 0; ok && i < c->r.n; i++)
            ok = write_member(c, &c->r.m[i]);
    }
    for (uint32_t i = 0; ok && i < c->r.n; i++) {
        const wfi_node *n = &g->node[c->r.m[i].node];
        for (uint32_t o = 0; ok && o < n->nout; o++) {
            const uint32_t v = n->out0 + o;
            if (c->r.m[i].out[o] < 0)
                c->value[v] = c->part[v];
            else if (c->r.leaves[v])
                ok = (c->value[v] = joined(c, c->piece + (c->r.leaves[v] - 1) * (uint32_t)c->parts, (uint32_t)c->parts,
                                           v, c->r.m[i].out[o])) != WFI_NO_VALUE;
        }
    }
    return ok;
}

static void find_late(chunker *c)
{
    const wfi_graph *g = c->g;
    for (uint32_t k = 0; k < c->r.m[c->r.n - 1].node; k++)
        for (uint32_t i = 0; i < g->node[k].nin && !c->r.member[k]; i++) {
            const uint32_t v = g->in[g->node[k].in0 + i], from = v == WFI_NO_VALUE ? k : g->value[v].node;
            c->late[k] |= c->late[from] || c->r.member[from];
        }
}

static bool write_all(chunker *c)
{
    const uint32_t last = c->r.m[c->r.n - 1].node;
    bool ok = true;
    find_late(c);
    for (uint32_t k = 0; ok && k < c->g->nnode; k++) {
        if (k == last) {
            ok = write_region(c);
            for (uint32_t j = c->r.m[0].node; ok && j < last; j++)
                ok = !c->late[j] || wfi_graph_copy(c->out, c->g, j, c->value);
        } else if (!c->r.member[k] && !c->late[k])
            ok = wfi_graph_copy(c->out, c->g, k, c->value);
    }
    return ok;
}

/* One region of g, in parts. */
static bool cut_one(const wfi_graph *g, wfi_graph *out, const wfi_region *r, int64_t parts)
{
    chunker c = { .g = g, .out = out, .r = *r, .parts = parts };
    c.value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *c.value);
    c.part = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *c.part);
    c.piece = wfi_mem_array(g->mem, ((size_t)r->nleave + 1) * (size_t)parts, sizeof *c.piece);
    c.late = wfi_mem_zalloc(g->mem, g->nnode + 1);
    bool ok = c.value && c.part && c.piece && c.late && write_all(&c);
    wfi_mem_free(g->mem, c.value);
    wfi_mem_free(g->mem, c.part);
    wfi_mem_free(g->mem, c.piece);
    wfi_mem_free(g->mem, c.late);
    return ok;
}

/* ---- the pass ---- */

static bool copy_all(const wfi_graph *g, wfi_graph *out)
{
    uint32_t *value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *value);
    bool ok = value;
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        ok = wfi_graph_copy(out, g, k, value);
    wfi_mem_free(g->mem, value);
    return ok;
}

/* The next region from value *seed on that can be cut: into how many parts; 0: there is none. */
static int64_t find(wfi_region *r, uint32_t *seed, size_t part, wfi_trail *trail)
{
    for (; *seed < r->g->nvalue; ++*seed) {
        if (!wfi_region_grow(r, *seed, trail))
            continue;
        const int64_t parts = parts_of(r, part);
        if (parts && wfi_region_fits(r, parts))
            return parts;
        wfi_trail_note(trail, &uneven, r->g, r->m[0].node, r->m[0].node);
    }
    return 0;
}

/* Cuts the first region that lowers the peak. *done: there is none, and next was not made. */
static bool cut_next(const wfi_graph *g, wfi_graph *next, size_t large, size_t part, wfi_trail *trail, bool *done)
{
    wfi_region r;
    int64_t parts;
    uint32_t seed = 0;
    const size_t before = wfi_recompute_peak(g);
    bool ok = wfi_region_new(&r, g, large);
    *done = true;
    for (int tries = 0; ok && *done && tries < TRIES && (parts = find(&r, &seed, part, trail)) > 0; tries++, seed++) {
        wfi_graph_init(next, g->mem, g->ids);
        next->budget = g->budget;
        next->split = g->split;
        ok = cut_one(g, next, &r, parts);
        *done = !ok || wfi_recompute_peak(next) >= before;
        if (*done)
            wfi_graph_free(next);
        if (ok && *done)
            wfi_trail_note(trail, &elsewhere, g, r.m[0].node, r.m[0].node);
    }
    wfi_region_free(&r);
    return ok;
}

/* Region after region, until there is none; then the reasons are left why not more. */
bool wfi_chunk(const wfi_graph *g, wfi_graph *out)
{
    const size_t large = g->large ? g->large : large_value, part = g->large ? (g->large + 1) / 2 : part_value;
    wfi_graph now = { .nnode = 0 }, next;
    const wfi_graph *from = g;
    bool ok = true, done = false;
    for (int round = 0; ok && !done && round < ROUNDS; round++) {
        ok = cut_next(from, &next, large, part, NULL, &done);
        if (!ok || done)
            break;
        if (from != g)
            wfi_graph_free(&now);
        now = next;
        from = &now;
    }
    if (ok && done && out->trail)
        ok = cut_next(from, &next, large, part, out->trail, &done);
    ok = ok && copy_all(from, out);
    if (from != g)
        wfi_graph_free(&now);
    return ok;
}
