/* What a step needs before it has run, and what can be done about it, with its price. */
#include "base/log.h"
#include "ops/op.h"
#include "passes/chunk_region.h"
#include "passes/recompute.h"
#include "passes/views.h"
#include "plan/builder.h"
#include "plan/watch.h"

/* ---- what is needed ---- */

/* Bytes of the runtime while the plan runs: what is there now but for what the run will use again, the arena, new
 * buffers, rearranged weights. */
static void foresee(wf_ctx *c, wfi_plan *p)
{
    const size_t live = atomic_load(&c->mem->live), idle = c->arena_cap + c->free_bytes;
    p->there = live > idle ? live - idle : 0;
    p->renewed = 0;
    for (uint32_t s = 0; s < p->nstorage; s++)
        if (p->storage[s].place == WFI_PLACE_FRESH)
            p->renewed += p->storage[s].bytes;
    for (uint32_t i = 0; i < p->nkept; i++)
        p->renewed += p->kept[i].how->bytes;
    c->st.foreseen_bytes = p->there + p->arena + p->renewed;
}

/* ---- a smaller batch ---- */

/* The axis of each result of node n that grows with the batch, -1: none. axis: of each value. */
static void follow_batch(const wfi_graph *g, uint32_t k, int8_t *axis)
{
    const wfi_node *n = &g->node[k];
    wfi_member m;
    for (uint32_t o = 0; o < n->nout; o++)
        axis[n->out0 + o] = -1;
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        if (v == WFI_NO_VALUE || axis[v] < 0)
            continue;
        const wfi_type *from = wfi_type_at(g->ids, g->value[v].type);
        if (n->op == WFI_NODE_FUSED || n->op == WFI_OP_slice || n->op == WFI_OP_concat) { /* aligned from the right */
            for (uint32_t o = 0; o < n->nout; o++)
                axis[n->out0 + o] =
                    (int8_t)(axis[v] + wfi_type_at(g->ids, g->value[n->out0 + o].type)->ndim - from->ndim);
        } else if (n->op < WFI_OP_COUNT) {
            (void)wfi_region_axes(g, k, false, i, axis[v], &m);
            for (uint32_t o = 0; o < n->nout; o++)
                axis[n->out0 + o] = m.out[o];
        }
        return;
    }
}

/* The first axis of the first operand that the program hands in; 0: there is none. */
static int64_t batch_of(const wfi_graph *g)
{
    for (uint32_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        const wfi_type *t = n->op == WFI_NODE_INPUT ? wfi_type_at(g->ids, g->value[n->out0].type) : NULL;
        if (t && t->ndim && t->dim[0] > 1)
            return t->dim[0];
    }
    return 0;
}

/* Bytes that are alive at the peak and grow with the batch. */
static size_t batch_bytes(const wfi_plan *p, int64_t batch)
{
    const wfi_graph *g = &p->graph;
    size_t bytes = 0;
    size_t *live = wfi_mem_zalloc(g->mem, ((size_t)p->ncmd + 2) * sizeof *live);
    int8_t *axis = wfi_mem_alloc(g->mem, g->nvalue + 1);
    uint8_t *seen = wfi_mem_zalloc(g->mem, (size_t)p->nstorage + 1);
    const uint32_t at = live ? wfi_plan_peak_of(p, live) : 0;
    for (uint32_t k = 0; live && axis && seen && k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        if (n->op == WFI_NODE_INPUT) {
            const wfi_type *t = wfi_type_at(g->ids, g->value[n->out0].type);
            axis[n->out0] = t->ndim && t->dim[0] == batch ? 0 : -1;
        } else
            follow_batch(g, k, axis);
        for (uint32_t o = 0; o < n->nout; o++) {
            const uint32_t s = p->value_storage[n->out0 + o];
            if (!seen[s]++ && axis[n->out0 + o] >= 0 && wfi_plan_holds(&p->storage[s], at))
                bytes += p->storage[s].bytes;
        }
    }
    wfi_mem_free(g->mem, live);
    wfi_mem_free(g->mem, axis);
    wfi_mem_free(g->mem, seen);
    return bytes;
}

static void smaller_batch(const wfi_plan *p, wfi_text *t)
{
    const int64_t batch = batch_of(&p->graph);
    const size_t bytes = batch ? batch_bytes(p, batch) : 0;
    if (!bytes)
        return;
    wfi_text_add(t, "  a smaller batch: ");
    wfi_plan_print_mib(t, bytes / (size_t)batch);
    wfi_text_addf(t, " less for each of the %lld\n", (long long)batch);
}

/* ---- computing again ---- */

static double percent_more(const wfi_plan *p, const wfi_plan *q)
{
    const double was = wfi_recompute_seconds(&p->graph), is = wfi_recompute_seconds(&q->graph);
    return was > 0 && is > was ? 100 * (is / was - 1) : 0;
}

/* Plans for half of the arena, and for as little as can be. */
static void budgets(wf_ctx *c, const wfi_plan *p, wfi_text *t)
{
    size_t last = p->arena;
    for (size_t part = 2; part <= 16; part *= 8) {
        wfi_plan *q = wfi_plan_fit(c, p->trace, p->arena / part);
        if (q && q->arena < last - last / 50) {
            wfi_text_add(t, "  .memory_budget of ");
            wfi_plan_print_mib(t, q->arena);
            wfi_text_add(t, ": ");
            wfi_plan_print_mib(t, p->arena - q->arena);
            wfi_text_addf(t, " less, about %.0f %% more to compute%s\n", percent_more(p, q),
                          part > 2 ? "; less cannot be had so" : "");
            last = q->arena;
        }
        wfi_plan_free(c, q);
    }
}

/* ---- what stays whole ---- */

static void whole(const wfi_plan *p, wfi_text *t)
{
    for (size_t i = 0, told = 0; p->trace && i < p->trail.nnote && told < 3; i++) {
        const wfi_note *n = &p->trail.note[i];
        const uint32_t type = n->why->pass && n->prov[0] < p->nsite ? p->trace->rec[n->prov[0]].type : 0;
        if (!type)
            continue;
        const wfi_line line = wfi_plan_line(p, n->prov[0]);
        wfi_text_add(t, "  ");
        wfi_plan_print_mib(t, wfi_type_at(p->graph.ids, type)->bytes);
        wfi_text_addf(t, " of %s at %s%s in parts, but: %s\n", wfi_op_table[n->op[0]].name,
                      line.grad ? "gradient of " : "", line.site ? line.site : "?", n->why->text);
        told++;
    }
}

void wfi_plan_print_remedies(wf_ctx *c, const wfi_plan *p, wfi_text *t)
{
    if (!p->graph.budget && p->arena >= 64 << 10)
        budgets(c, p, t);
    smaller_batch(p, t);
    whole(p, t);
}

/* ---- before the first run ---- */

void wfi_plan_foresee(wf_ctx *c, wfi_plan *p)
{
    wfi_text t = { .mem = c->mem };
    foresee(c, p);
    if (!wfi_log_on(&c->log, "memory"))
        return;
    wfi_text_addf(&t, "memory of step %s: ", p->scope ? p->scope : "?");
    wfi_plan_print_mib(&t, c->st.foreseen_bytes);
    wfi_text_add(&t, " foreseen: ");
    wfi_plan_print_mib(&t, p->there);
    wfi_text_add(&t, " that are there, an arena of ");
    wfi_plan_print_mib(&t, p->arena);
    wfi_text_add(&t, ", ");
    wfi_plan_print_mib(&t, p->renewed);
    wfi_text_add(&t, " of new buffers\n");
    (void)wfi_plan_print_peak(p, 8, &t);
    const size_t before = t.n;
    wfi_plan_print_remedies(c, p, &t);
    if (t.n == before)
        wfi_text_add(&t, "  nothing would make it less\n");
    if (!t.oom)
        wfi_log_text(&c->log, "memory", t.p);
    wfi_text_free(&t);
}
