/* Schedule.
 *
 *     v4 = matmul v2 v3 : f32[4096,4096]            v4 = matmul v2 v3 : f32[4096,4096]
 *     v5 = matmul v2 v0 : f32[64,4096]              v5 = matmul v2 v0 : f32[64,4096]
 *     v6 = matmul v5 v3 : f32[64,4096]          ->  v6 = sgd_step v0 v1 v4 : f32[4096,4096]
 *     v7 = sgd_step v0 v1 v4 : f32[4096,4096]       v7 = matmul v5 v3 : f32[64,4096]
 *     assign 0 v7                                   assign 0 v6
 *
 * Each node has a place, its number at first, and nodes of one place stand in the order of their numbers. A node that
 * is moved takes the place of the last one that it needs; what little it needs besides, and nobody needs later, comes
 * with it. */
#include "passes/schedule.h"
#include <string.h>
#include "ops/op.h"
#include "passes/recompute.h"
#include "passes/views.h"

static const size_t small_step = (size_t)32 << 20, small_value = (size_t)64 << 10;

typedef struct scheduler {
    const wfi_graph *g;
    uint32_t *root;         /* of each value: the one whose memory it looks at */
    uint32_t *user0, *user; /* of roots */
    uint32_t *place;        /* of each node */
    uint32_t *early;        /* of each node: the first place that it could have */
} scheduler;

static size_t bytes_of(const scheduler *s, uint32_t v)
{
    return wfi_type_at(s->g->ids, s->g->value[v].type)->bytes;
}

static const wfi_node *maker(const scheduler *s, uint32_t v)
{
    return &s->g->node[s->g->value[v].node];
}

static bool is_leaf(const wfi_node *n)
{
    return n->nout && n->op >= WFI_NODE_INPUT;
}

/* Does value v only leave the step? Then its memory is a variable's, or a buffer of its own. */
static bool only_leaves(const scheduler *s, uint32_t v)
{
    const uint32_t from = s->user0[v], to = s->user0[v + 1];
    for (uint32_t i = from; i < to; i++)
        if (s->g->node[s->user[i]].nout)
            return false;
    return to > from;
}

/* Bytes that die with node k, less those that it makes. */
static int64_t freed(const scheduler *s, uint32_t k, bool *leaves)
{
    const wfi_node *n = &s->g->node[k];
    int64_t bytes = 0;
    *leaves = n->nout > 0;
    for (uint32_t o = 0; o < n->nout; o++)
        if (!only_leaves(s, n->out0 + o)) {
            *leaves = false;
            bytes -= (int64_t)bytes_of(s, n->out0 + o);
        }
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = s->g->in[n->in0 + i], r = v == WFI_NO_VALUE ? v : s->root[v];
        bool again = v == WFI_NO_VALUE || is_leaf(maker(s, r));
        for (uint32_t j = 0; j < i && !again; j++)
            again = s->g->in[n->in0 + j] != WFI_NO_VALUE && s->root[s->g->in[n->in0 + j]] == r;
        if (!again && s->user[s->user0[r + 1] - 1] == k)
            bytes += (int64_t)bytes_of(s, r);
    }
    return bytes;
}

/* Where node k could stand: behind what it needs and, if it gives variables their new values, behind those who need the
 * old ones. */
static uint32_t earliest(const scheduler *s, uint32_t k, bool leaves)
{
    const wfi_node *n = &s->g->node[k];
    uint32_t at = 0;
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = s->g->in[n->in0 + i];
        if (v == WFI_NO_VALUE)
            continue;
        const uint32_t r = s->root[v], made = s->early[s->g->value[v].node];
        at = made > at ? made : at;
        for (uint32_t u = s->user0[r]; leaves && maker(s, r)->op == WFI_NODE_VAR && u < s->user0[r + 1]; u++)
            if (s->user[u] < k && s->place[s->user[u]] > at)
                at = s->place[s->user[u]];
    }
    return at;
}

/* What node k needs comes with it. */
static void pull(const scheduler *s, uint32_t k, uint32_t at)
{
    const wfi_node *n = &s->g->node[k];
    s->place[k] = at;
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = s->g->in[n->in0 + i];
        if (v != WFI_NO_VALUE && s->place[s->g->value[v].node] > at)
            pull(s, s->g->value[v].node, at);
    }
}

/* Views, leaves and small values may stand anywhere behind what they need. */
static bool moves_along(const scheduler *s, const wfi_node *n)
{
    if (is_leaf(n) || (n->op < WFI_OP_COUNT && wfi_op_views(n->op)))
        return true;
    for (uint32_t o = 0; o < n->nout; o++)
        if (bytes_of(s, n->out0 + o) > 256)
            return false;
    return n->nout > 0;
}

/* all: not only what leaves the step. */
static void find_places(const scheduler *s, size_t much, bool all)
{
    for (uint32_t k = 0; k < s->g->nnode; k++) {
        const wfi_node *n = &s->g->node[k];
        bool leaves;
        s->place[k] = s->early[k] = k;
        if (n->op < WFI_NODE_INPUT && freed(s, k, &leaves) >= (int64_t)much && (leaves || all))
            pull(s, k, earliest(s, k, leaves));
        s->early[k] = moves_along(s, n) ? earliest(s, k, false) : s->place[k];
    }
}

/* Nodes by place, a counting sort. */
static bool write(const scheduler *s, wfi_graph *out)
{
    const wfi_graph *g = s->g;
    uint32_t *at = wfi_mem_zalloc(g->mem, (g->nnode + 2) * sizeof *at);
    uint32_t *order = wfi_mem_array(g->mem, g->nnode + 1, sizeof *order);
    uint32_t *value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *value);
    bool ok = at && order && value;
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        at[s->place[k] + 1]++;
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        at[k + 1] += at[k];
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        order[at[s->place[k]]++] = k;
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        ok = wfi_graph_copy(out, g, order[k], value);
    wfi_mem_free(g->mem, at);
    wfi_mem_free(g->mem, order);
    wfi_mem_free(g->mem, value);
    return ok;
}

static void find_roots(const scheduler *s)
{
    const wfi_graph *g = s->g;
    for (uint32_t v = 0; v < g->nvalue; v++) {
        const wfi_node *n = maker(s, v);
        s->root[v] = n->op < WFI_OP_COUNT && wfi_op_views(n->op) ? s->root[g->in[n->in0]] : v;
    }
}

/* The peak that is left when what is cheap, or what a budget asks for, is computed again. SIZE_MAX: out of memory. */
static size_t peak_left(const wfi_graph *g)
{
    wfi_graph out;
    wfi_graph_init(&out, g->mem, g->ids);
    out.budget = g->budget;
    const size_t peak = wfi_recompute(g, &out) ? wfi_recompute_peak(&out) : SIZE_MAX;
    wfi_graph_free(&out);
    return peak;
}

/* Orders: as it is; what leaves the step is moved; all is moved. A later one is taken where it needs less, with a
 * budget the second one also where it needs as much: less has to be computed again then. */
static bool best(const scheduler *s, wfi_graph *out)
{
    const wfi_graph *g = s->g;
    const size_t small = g->budget ? g->budget / 1000 : small_value, none = SIZE_MAX / 2;
    int take = -1;
    bool ok = true;
    if (wfi_recompute_peak(g) > (g->budget ? g->budget : small_step)) {
        size_t least = peak_left(g);
        for (int all = 0; ok && all < 2; all++) {
            wfi_graph moved;
            wfi_graph_init(&moved, g->mem, g->ids);
            moved.budget = g->budget;
            find_places(s, small, all);
            ok = write(s, &moved);
            const size_t left = ok ? peak_left(&moved) : SIZE_MAX;
            if (left < least - least / 50 || (g->budget && !all && left <= least)) {
                least = left;
                take = all;
            }
            wfi_graph_free(&moved);
        }
    }
    find_places(s, take < 0 ? none : small, take > 0);
    return ok && write(s, out);
}

bool wfi_schedule(const wfi_graph *g, wfi_graph *out)
{
    const size_t nn = g->nnode + 1, nv = g->nvalue + 2;
    scheduler s = { .g = g,
                    .root = wfi_mem_array(g->mem, nv, sizeof *s.root),
                    .user0 = wfi_mem_zalloc(g->mem, nv * sizeof *s.user0),
                    .user = wfi_mem_array(g->mem, g->nin + 1, sizeof *s.user),
                    .place = wfi_mem_array(g->mem, nn, sizeof *s.place),
                    .early = wfi_mem_array(g->mem, nn, sizeof *s.early) };
    bool ok = s.root && s.user0 && s.user && s.place && s.early;
    if (ok) {
        find_roots(&s);
        wfi_graph_users(g, s.root, s.user0, s.user);
        ok = best(&s, out);
    }
    void *const parts[] = { s.root, s.user0, s.user, s.place, s.early };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(g->mem, parts[i]);
    return ok;
}
