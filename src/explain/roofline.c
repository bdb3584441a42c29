#include "explain/roofline.h"
#include <string.h>
#include "graph/body.h"
#include "ops/cost.h"

/* What was touched when. Times count from 1; weight holds, at the time when a storage was touched last, the bytes that
 * it brought to the caches (a Fenwick tree), so that a sum over later times is what has come in since. */
typedef struct account {
    const wfi_plan *p;
    const wfi_roofs *r;
    double *weight;
    uint32_t *last; /* of each storage: when it was touched last; 0: never, or something lies over it */
    double *bytes;  /* of each storage: what it brought then */
    uint32_t now, times;
    uint32_t strip; /* when the group began that runs strip by strip; UINT32_MAX: there is none */
} account;

/* ---- the work of one node ---- */

/* Elements that lie in memory for a value: what repeats lies there once. */
static double elements(const wfi_plan *p, uint32_t v)
{
    const wfi_layout *l = wfi_layout_at(p->graph.ids, p->value_layout[v]);
    const wfi_type *t = wfi_type_at(p->graph.ids, l->type);
    double n = 1;
    for (int32_t i = 0; i < t->ndim; i++)
        n *= l->stride[i] ? (double)t->dim[i] : t->dim[i] ? 1 : 0;
    return n;
}

static double element_bytes(const wfi_plan *p, uint32_t v)
{
    return (double)wf_dtype_bytes(wfi_type_at(p->graph.ids, p->graph.value[v].type)->dtype);
}

/* Operations of node n, and elements that it reads of each operand. */
static double node_flops(const wfi_plan *p, const wfi_node *n, double *read)
{
    const wfi_graph *g = &p->graph;
    for (uint32_t i = 0; i < n->nin; i++)
        read[i] = g->in[n->in0 + i] == WFI_NO_VALUE ? 0 : elements(p, g->in[n->in0 + i]);
    if (n->op == WFI_NODE_FUSED) {
        const wfi_body *b = wfi_attr_data(g->ids, n->payload);
        double ops = 0;
        for (uint32_t q = 0; q < b->nop; q++)
            ops += wfi_cost_of_code(wfi_op_table[b->op[q].op].def->primitive);
        return ops * (double)wfi_type_at(g->ids, g->value[n->out0].type)->elements;
    }
    if (n->op == WFI_NODE_FLOW)
        return wfi_cost_of_flow(g->ids, wfi_attr_data(g->ids, n->payload));
    wfi_axis_shape shape[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    wfi_cost cost;
    wfi_graph_operands(g, n, shape, dtype);
    if (n->op >= WFI_OP_COUNT ||
        !wfi_op_cost(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), n->nin, shape, dtype, &cost))
        return 0;
    for (uint32_t i = 0; i < n->nin; i++)
        read[i] = cost.read[i] < read[i] ? cost.read[i] : read[i];
    return cost.flops;
}

/* ---- where it comes from ---- */

static void weigh(account *a, uint32_t time, double bytes)
{
    for (; time <= a->times; time += time & (~time + 1))
        a->weight[time] += bytes;
}

/* Bytes that have come in up to a time. */
static double up_to(const account *a, uint32_t time)
{
    double sum = 0;
    for (; time; time -= time & (~time + 1))
        sum += a->weight[time];
    return sum;
}

static void forget(account *a, uint32_t s)
{
    if (a->last[s])
        weigh(a, a->last[s], -a->bytes[s]);
    a->last[s] = 0;
}

/* A place of the arena gets new contents: what lay there is gone, but its lines are in the caches. */
static uint32_t lies_over(account *a, uint32_t s)
{
    const wfi_storage *mine = &a->p->storage[s];
    uint32_t last = a->last[s];
    for (uint32_t o = 0; o < a->p->nstorage; o++) {
        const wfi_storage *other = &a->p->storage[o];
        if (!a->last[o] || o == s || other->place != WFI_PLACE_ARENA || other->offset >= mine->offset + mine->bytes ||
            mine->offset >= other->offset + other->bytes)
            continue;
        last = a->last[o] > last ? a->last[o] : last;
        forget(a, o);
    }
    return last;
}

enum { STRIP_LEVEL = 1 }; /* L2: what is touched again within a strip comes from there */

/* The level of memory that a storage comes from when command q touches so many bytes of it. */
static int level_of(account *a, uint32_t q, uint32_t s, double bytes)
{
    const wfi_storage *storage = &a->p->storage[s];
    const bool begins = storage->place == WFI_PLACE_ARENA && storage->first == q;
    const uint32_t last = begins ? lies_over(a, s) : a->last[s];
    double since = up_to(a, a->times) - up_to(a, last) + bytes;
    int level = 0;
    while (level + 1 < a->r->levels && (!last || since > (double)a->r->level[level].bytes))
        level++;
    return level > STRIP_LEVEL && a->last[s] > a->strip ? STRIP_LEVEL : level;
}

static void touch(account *a, uint32_t s, double bytes)
{
    if (a->p->storage[s].place == WFI_PLACE_STRIP)
        return;
    forget(a, s);
    a->last[s] = ++a->now;
    a->bytes[s] = bytes;
    weigh(a, a->now, bytes);
}

/* ---- time ---- */

typedef struct sums {
    double flops[WF_DTYPE_COUNT];
    double level[WFI_ROOF_LEVELS]; /* seconds */
} sums;

static void access(account *a, uint32_t q, uint32_t v, double bytes, bool write, wfi_work *w, sums *s)
{
    if (a->p->storage[a->p->value_storage[v]].place == WFI_PLACE_STRIP)
        return; /* a strip of it at a time: it does not leave the caches */
    const int level = level_of(a, q, a->p->value_storage[v], bytes);
    const double rate = write ? a->r->level[level].write : a->r->level[level].read;
    s->level[level] += rate > 0 ? bytes / rate : 0;
    *(write ? &w->written : &w->read) += bytes;
}

static void add_command(account *a, uint32_t q, wfi_work *w, sums *s)
{
    const wfi_plan *p = a->p;
    const wfi_node *n = &p->graph.node[p->cmd_node[q]];
    const uint32_t *in = p->graph.in + n->in0;
    double bytes[WFI_NODE_INS], flops = node_flops(p, n, bytes);
    s->flops[wfi_type_at(p->graph.ids, p->graph.value[n->out0].type)->dtype] += flops;
    w->flops += flops;
    for (uint32_t i = 0; i < n->nin; i++)
        if (in[i] != WFI_NO_VALUE)
            access(a, q, in[i], bytes[i] *= element_bytes(p, in[i]), false, w, s);
    for (uint32_t i = 0; i < n->nout; i++)
        access(a, q, n->out0 + i, elements(p, n->out0 + i) * element_bytes(p, n->out0 + i), true, w, s);
    for (uint32_t i = 0; i < n->nin; i++)
        if (in[i] != WFI_NO_VALUE)
            touch(a, p->value_storage[in[i]], bytes[i]);
    for (uint32_t i = 0; i < n->nout; i++)
        touch(a, p->value_storage[n->out0 + i], elements(p, n->out0 + i) * element_bytes(p, n->out0 + i));
}

static void finish(const account *a, const sums *s, wfi_work *w)
{
    int most = 0;
    for (int i = 0; i < a->r->levels; i++) {
        w->bytes_ns += s->level[i] * 1e9;
        most = s->level[i] > s->level[most] ? i : most;
    }
    for (int t = 0; t < WF_DTYPE_COUNT; t++)
        w->flops_ns += a->r->flops[t] > 0 ? s->flops[t] / a->r->flops[t] * 1e9 : 0;
    w->ns = w->bytes_ns > w->flops_ns ? w->bytes_ns : w->flops_ns;
    w->by = w->bytes_ns > w->flops_ns ? a->r->level[most].name : "flops";
}

bool wfi_roofline(wfi_mem *mem, const wfi_plan *p, const wfi_roofs *r, wfi_work *work)
{
    account a = { .p = p, .r = r, .times = 2 * p->nargs };
    a.weight = wfi_mem_zalloc(mem, ((size_t)a.times + 1) * sizeof *a.weight);
    a.last = wfi_mem_zalloc(mem, ((size_t)p->nstorage + 1) * sizeof *a.last);
    a.bytes = wfi_mem_zalloc(mem, ((size_t)p->nstorage + 1) * sizeof *a.bytes);
    const bool ok = a.weight && a.last && a.bytes;
    for (int replay = 0; ok && replay < 2; replay++) /* the first one fills the caches */
        for (uint32_t i = 0; i < p->nrun; i++) {
            sums s = { { 0 }, { 0 } };
            work[i] = (wfi_work){ .flops = 0 };
            a.strip = wfi_plan_strip_of(p, p->run0[i]) ? a.now : UINT32_MAX;
            for (uint32_t q = p->run0[i]; q < p->run0[i + 1]; q++)
                add_command(&a, q, &work[i], &s);
            finish(&a, &s, &work[i]);
        }
    wfi_mem_free(mem, a.weight);
    wfi_mem_free(mem, a.last);
    wfi_mem_free(mem, a.bytes);
    return ok;
}
