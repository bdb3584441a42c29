/* Recompute. Memory is estimated on the graph: each value lives from its node to its last use, views live in what they
 * look at, an element-wise result takes the place of an operand of its size that dies. Round by round, values across
 * the position of the peak are cut in two, until that no longer lowers the peak.
 *
 *     v2 = exp v1 : f32[4096,4096]             v2 = exp v1 : f32[4096,4096]
 *     v3 = sum v2 axes=all : f32[]             v3 = sum v2 axes=all : f32[]
 *     v4 = (the peak, which uses v1)       ->  v4 = (the peak, which uses v1)
 *     v5 = mul v4 v2 : f32[4096,4096]          v5 = exp v1 : f32[4096,4096]
 *                                              v6 = mul v4 v5 : f32[4096,4096]
 *
 * Recomputing what moves more than it computes is what PyTorch's compiler does by default (min-cut partitioner);
 * cutting at the peak, by bytes saved for the time it takes, follows Checkmate's greedy baselines (Jain et al., 2020).
 */
#include "passes/recompute.h"
#include <string.h>
#include "ops/cost.h"
#include "passes/views.h"

#define NONE 0xffffffffu

enum { ROUNDS = 32, DEPTH = 40, FUEL = 400 };

static const double bytes_s = 1e10, flops_s = 1e11; /* only their ratio counts, and that to a power of ten */
static const double free_share = 0.02;              /* of the step's time, without a budget */
static const size_t small_step = (size_t)32 << 20;  /* without a budget, steps below this peak are left alone */
static const size_t small_value = (size_t)64 << 10; /* and so are values below this; with one, a thousandth of it */

/* Of a value that has memory of its own; views belong to their root. */
typedef struct span {
    size_t bytes;         /* 0: a leaf, a view, what leaves the step, or too small to count */
    uint32_t first, last; /* nodes */
    uint32_t cut;         /* uses behind this node take the second one; NONE: there is one */
    uint32_t from, to;    /* life of the second one */
} span;

/* What a node takes, once somebody has asked. */
typedef struct work {
    double seconds;
    bool known, cheap; /* it moves more than it computes */
} work;

typedef struct remat {
    const wfi_graph *g;
    wfi_graph *out;
    work *w;                /* of each node */
    uint32_t *root;         /* of each value */
    span *s, *before;       /* of each value; before the last round */
    uint32_t *use0, *use;   /* nodes that use value v or a view of it: use[use0[v] .. use0[v + 1]) */
    size_t *live;           /* bytes, at each node */
    uint32_t *cand;         /* values that a round may cut */
    double *price;          /* seconds of each candidate, by value */
    uint32_t *value, *late; /* of each value: in out; its second one in out */
    double total, spent;    /* seconds: of the step; of what is computed again */
} remat;

/* ---- what lives when ---- */

static void find_spans(remat *m)
{
    const wfi_graph *g = m->g;
    const size_t small = g->budget ? g->budget / 1000 : small_value;
    for (uint32_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        for (uint32_t i = 0; i < n->nin; i++) {
            uint32_t v = g->in[n->in0 + i];
            if (v == WFI_NO_VALUE)
                continue;
            span *s = &m->s[m->root[v]];
            s->last = k;
            if (n->nout == 0) /* it leaves the step: its memory is a variable's or a buffer of its own */
                s->bytes = 0;
        }
        for (uint32_t i = 0; i < n->nout; i++) {
            uint32_t v = n->out0 + i;
            size_t bytes = wfi_type_at(g->ids, g->value[v].type)->bytes;
            m->root[v] = wfi_op_views(n->op) ? m->root[g->in[n->in0]] : v;
            m->s[v] = (span){ .first = k, .last = k, .cut = NONE };
            if (m->root[v] == v && n->op < WFI_OP_COUNT && bytes > small)
                m->s[v].bytes = bytes;
        }
    }
}

/* ---- what it takes ---- */

static work measure(const wfi_graph *g, const wfi_node *n)
{
    wfi_axis_shape shape[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    wfi_cost cost;
    double bytes = 0;
    wfi_graph_operands(g, n, shape, dtype);
    if (n->op >= WFI_OP_COUNT || wfi_op_views(n->op) ||
        !wfi_op_cost(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), n->nin, shape, dtype, &cost))
        return (work){ .known = true };
    for (uint32_t i = 0; i < n->nin; i++)
        bytes += cost.read[i] * (double)wf_dtype_bytes(dtype[i]);
    for (uint32_t i = 0; i < n->nout; i++)
        bytes += (double)wfi_type_at(g->ids, g->value[n->out0 + i].type)->bytes;
    double move = bytes / bytes_s, compute = cost.flops / flops_s;
    return (work){ .seconds = compute > move ? compute : move, .known = true, .cheap = compute <= move };
}

static const work *work_of(const remat *m, uint32_t node)
{
    work *w = &m->w[node];
    if (!w->known)
        *w = measure(m->g, &m->g->node[node]);
    return w;
}

static const work *work_for(const remat *m, uint32_t value)
{
    return work_of(m, m->g->value[value].node);
}

/* ---- the peak ---- */

/* The last node at which the value needs its memory: not the one that puts an equally large result in its place, as
 * element-wise operators do, and others that work row by row. */
static uint32_t end_of(const remat *m, const span *s, uint32_t last)
{
    const wfi_node *n = &m->g->node[last];
    bool replaced = last > s->first && n->op < WFI_OP_COUNT && m->s[n->out0].bytes == s->bytes &&
                    !(wfi_op_table[n->op].flags & WFI_OP_MOVE) && work_of(m, last)->cheap;
    return replaced ? last - 1 : last;
}

/* Bytes at each node; returns where they are most. */
static uint32_t profile(remat *m)
{
    const size_t nn = m->g->nnode;
    memset(m->live, 0, (nn + 1) * sizeof *m->live);
    for (uint32_t v = 0; v < m->g->nvalue; v++) {
        const span *s = &m->s[v];
        if (!s->bytes)
            continue;
        m->live[s->first] += s->bytes;
        m->live[end_of(m, s, s->last) + 1] -= s->bytes; /* wraps, as the sum does back */
        if (s->cut != NONE) {
            m->live[s->from] += s->bytes;
            m->live[s->to + 1] -= s->bytes;
        }
    }
    uint32_t peak = 0;
    for (uint32_t k = 1; k < nn; k++) {
        m->live[k] += m->live[k - 1];
        peak = m->live[k] > m->live[peak] ? k : peak;
    }
    return peak;
}

/* ---- one cut ---- */

/* First use behind the peak; *last: the last one up to it. NONE: there is none, or the value is not there yet. */
static uint32_t first_late(const remat *m, uint32_t v, uint32_t peak, uint32_t *last)
{
    const span *s = &m->s[v];
    uint32_t late = NONE;
    *last = s->first;
    for (uint32_t i = m->use0[v]; i < m->use0[v + 1] && late == NONE; i++)
        if (m->use[i] > peak)
            late = m->use[i];
        else
            *last = m->use[i];
    return s->first < peak && *last < peak ? late : NONE;
}

/* What one cut would take. */
typedef struct bill {
    bool pay;      /* do it, and not only ask */
    uint32_t fuel; /* values that may still be looked at */
    uint32_t at;   /* the node before which everything is made */
    double price;  /* seconds */
} bill;

static bool operands_there(remat *m, uint32_t v, bill *b, uint32_t depth);

/* Is value r there at node b->at, or can it be made there? */
static bool there(remat *m, uint32_t r, size_t bytes, bill *b, uint32_t depth)
{
    span *s = &m->s[r];
    const uint32_t at = b->at;
    if (!s->bytes || s->last >= at)
        return true; /* leaves, and what is small, may live on */
    if (b->fuel == 0 || depth > DEPTH)
        return false;
    b->fuel--;
    if (s->cut == NONE && s->bytes <= bytes / 4) { /* little against what is saved */
        if (b->pay)
            s->last = at;
        return true;
    }
    if (s->cut == NONE && (!m->g->budget || !operands_there(m, r, b, depth + 1)))
        return false;
    if (s->cut != NONE && (at <= s->cut || (at < s->from && !operands_there(m, r, b, depth + 1))))
        return false;
    b->price += s->cut == NONE ? work_for(m, r)->seconds : 0;
    if (b->pay && s->cut == NONE) {
        s->cut = s->last;
        s->from = s->to = at;
    } else if (b->pay) {
        s->from = at < s->from ? at : s->from;
        s->to = at > s->to ? at : s->to;
    }
    return true;
}

static bool operands_there(remat *m, uint32_t v, bill *b, uint32_t depth)
{
    const wfi_graph *g = m->g;
    const wfi_node *n = &g->node[g->value[v].node];
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t o = g->in[n->in0 + i];
        if (o != WFI_NO_VALUE && !there(m, m->root[o], m->s[v].bytes, b, depth))
            return false;
    }
    return true;
}

/* The seconds that it takes to make v again behind the peak; < 0: it cannot be. pay: it is cut there. */
static double cut(remat *m, uint32_t v, uint32_t peak, bool pay)
{
    span *s = &m->s[v];
    uint32_t last, late = first_late(m, v, peak, &last);
    bill b = { .fuel = FUEL, .at = late };
    if (late == NONE || s->cut != NONE || !operands_there(m, v, &b, 0))
        return -1;
    if (pay) {
        bill again = { .pay = true, .fuel = FUEL, .at = late };
        (void)operands_there(m, v, &again, 0);
        s->cut = peak;
        s->from = late;
        s->to = s->last;
        s->last = last;
    }
    return b.price + work_for(m, v)->seconds;
}

/* ---- rounds ---- */

static bool may_cut(remat *m, uint32_t v, uint32_t peak)
{
    const span *s = &m->s[v];
    if (!s->bytes || s->cut != NONE || m->g->node[m->g->value[v].node].flags & WFI_NODE_NO_MERGE)
        return false;
    if (!m->g->budget && !work_for(m, v)->cheap)
        return false;
    m->price[v] = cut(m, v, peak, false);
    return m->price[v] >= 0;
}

/* Cheap ones first, and of equal ones the earlier, which others may be made from. */
static int by_price(const remat *m, uint32_t a, uint32_t b)
{
    double x = m->price[a] / (double)m->s[a].bytes, y = m->price[b] / (double)m->s[b].bytes;
    return x < y ? -1 : x > y ? 1 : a < b ? -1 : 1;
}

static void sort_candidates(const remat *m, uint32_t *c, uint32_t n)
{
    for (uint32_t gap = n / 2; gap; gap /= 2)
        for (uint32_t i = gap; i < n; i++) {
            uint32_t x = c[i], j = i;
            for (; j >= gap && by_price(m, x, c[j - gap]) < 0; j -= gap)
                c[j] = c[j - gap];
            c[j] = x;
        }
}

/* Cuts values across the peak, until it is as low as is wanted. False: nothing could be cut. */
static bool one_round(remat *m, uint32_t peak, size_t want)
{
    const size_t most = m->live[peak];
    uint32_t n = 0;
    size_t saved = 0;
    for (uint32_t v = 0; v < m->g->nvalue; v++)
        if (may_cut(m, v, peak))
            m->cand[n++] = v;
    sort_candidates(m, m->cand, n);
    bool any = false;
    for (uint32_t i = 0; i < n && most - saved > want; i++) {
        uint32_t v = m->cand[i];
        if (!m->g->budget && m->spent + m->price[v] > free_share * m->total)
            continue;
        double price = cut(m, v, peak, true);
        if (price >= 0) {
            saved += m->s[v].bytes;
            m->spent += price;
            any = true;
        }
    }
    return any;
}

/* Rounds until no node needs more than is wanted, or a round does not help. Returns the bytes of the peak then; what
 * did not help is taken back. */
static size_t lower(remat *m, size_t want)
{
    uint32_t peak = profile(m);
    for (int round = 0; round < ROUNDS && m->live[peak] > want; round++) {
        const size_t was = m->live[peak];
        memcpy(m->before, m->s, (m->g->nvalue + 1) * sizeof *m->s);
        bool any = one_round(m, peak, want);
        peak = profile(m);
        if (any && m->live[peak] < was)
            continue;
        memcpy(m->s, m->before, (m->g->nvalue + 1) * sizeof *m->s);
        return was;
    }
    return m->live[peak];
}

/* With a budget the peak is lowered by a tenth at a time: what is cut first is what is worth most, and where the budget
 * cannot be met the last step that helped stands. */
static void choose(remat *m)
{
    const size_t budget = m->g->budget;
    size_t most = m->live[profile(m)];
    if (most <= (budget ? budget : small_step))
        return;
    for (uint32_t k = 0; k < m->g->nnode; k++)
        m->total += work_of(m, k)->seconds;
    if (!budget)
        (void)lower(m, 0);
    for (size_t want = most, got = most; budget && got > budget && got <= want; most = got) {
        want = most / 10 * 9 > budget ? most / 10 * 9 : budget;
        got = lower(m, want);
    }
}

/* ---- writing ---- */

static uint32_t second(remat *m, uint32_t v, uint32_t at, bool *ok);

/* Value v as node `at` is to see it. */
static uint32_t seen_at(remat *m, uint32_t v, uint32_t at, bool *ok)
{
    const span *s = v == WFI_NO_VALUE ? NULL : &m->s[m->root[v]];
    if (!s || s->cut == NONE || at <= s->cut)
        return v == WFI_NO_VALUE ? v : m->value[v];
    return m->late[v] != WFI_NO_VALUE ? m->late[v] : second(m, v, at, ok);
}

static uint32_t second(remat *m, uint32_t v, uint32_t at, bool *ok)
{
    const wfi_graph *g = m->g;
    const wfi_node *n = &g->node[g->value[v].node];
    uint32_t in[WFI_NODE_INS], type[WFI_NODE_OUTS];
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = seen_at(m, g->in[n->in0 + i], at, ok);
    for (uint32_t i = 0; i < n->nout; i++)
        type[i] = g->value[n->out0 + i].type;
    uint32_t made = wfi_graph_add(m->out, n->op, n->payload, n->nin, in, n->nout, type, n->prov);
    if (made == WFI_NO_VALUE)
        return *ok = false, WFI_NO_VALUE;
    m->out->node[m->out->nnode - 1].flags = n->flags | WFI_NODE_NO_MERGE;
    for (uint32_t i = 0; i < n->nout; i++)
        if (m->s[n->out0 + i].cut != NONE || wfi_op_views(n->op))
            m->late[n->out0 + i] = made + i;
    return m->late[v];
}

static bool write_all(remat *m)
{
    const wfi_graph *g = m->g;
    bool ok = true;
    for (uint32_t k = 0; ok && k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        uint32_t kept[WFI_NODE_INS];
        for (uint32_t i = 0; i < n->nin && !wfi_op_views(n->op); i++) { /* the copy takes operands from value[] */
            uint32_t v = g->in[n->in0 + i];
            if (v == WFI_NO_VALUE)
                continue;
            kept[i] = m->value[v];
            m->value[v] = seen_at(m, v, k, &ok);
        }
        ok = ok && wfi_graph_copy(m->out, g, k, m->value);
        for (uint32_t i = n->nin; i-- > 0 && !wfi_op_views(n->op);)
            if (g->in[n->in0 + i] != WFI_NO_VALUE)
                m->value[g->in[n->in0 + i]] = kept[i];
    }
    return ok;
}

/* ---- the pass ---- */

/* Either does it or, without `out`, only looks. *peak: bytes before anything was cut. */
static bool run(const wfi_graph *g, wfi_graph *out, size_t *peak)
{
    const size_t nv = g->nvalue + 3, nn = g->nnode + 2;
    remat m = { .g = g, .out = out };
    struct {
        void *at;
        size_t bytes;
    } part[] = {
        { &m.w, nn * sizeof *m.w },         { &m.root, nv * sizeof *m.root },         { &m.s, nv * sizeof *m.s },
        { &m.before, nv * sizeof *m.s },    { &m.use0, nv * sizeof *m.use0 },         { &m.live, nn * sizeof *m.live },
        { &m.cand, nv * sizeof *m.cand },   { &m.use, (g->nin + 1) * sizeof *m.use }, { &m.late, nv * sizeof *m.late },
        { &m.price, nv * sizeof *m.price }, { &m.value, nv * sizeof *m.value },
    };
    bool ok = true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        void *p = wfi_mem_zalloc(g->mem, part[i].bytes);
        memcpy(part[i].at, &p, sizeof p);
        ok = ok && p;
    }
    if (ok) {
        memset(m.late, 0xff, nv * sizeof *m.late);
        find_spans(&m);
        wfi_graph_users(g, m.root, m.use0, m.use);
        *peak = m.live[profile(&m)];
        if (out) {
            choose(&m);
            ok = write_all(&m);
        }
    }
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        void *p;
        memcpy(&p, part[i].at, sizeof p);
        wfi_mem_free(g->mem, p);
    }
    return ok;
}

bool wfi_recompute(const wfi_graph *g, wfi_graph *out)
{
    size_t peak;
    return run(g, out, &peak);
}

size_t wfi_recompute_peak(const wfi_graph *g)
{
    size_t peak = 0;
    (void)run(g, NULL, &peak);
    return peak;
}

/* A group moves what goes in and out of it. */
static double fused_seconds(const wfi_graph *g, const wfi_node *n)
{
    double bytes = 0;
    for (uint32_t i = 0; i < n->nin; i++)
        bytes += (double)wfi_type_at(g->ids, g->value[g->in[n->in0 + i]].type)->bytes;
    for (uint32_t i = 0; i < n->nout; i++)
        bytes += (double)wfi_type_at(g->ids, g->value[n->out0 + i].type)->bytes;
    return bytes / bytes_s;
}

double wfi_recompute_seconds(const wfi_graph *g)
{
    double all = 0;
    for (uint32_t k = 0; k < g->nnode; k++)
        all += g->node[k].op == WFI_NODE_FUSED ? fused_seconds(g, &g->node[k]) : measure(g, &g->node[k]).seconds;
    return all;
}
