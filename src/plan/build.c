/* Graph -> plan: storages, donation, in-place variables, offsets, argument tables.
 *
 * Commands stand in the order of the graph. A value's storage is the arena, unless it is a leaf, or leaves the step: a
 * result or an assigned value gets a fresh buffer in every run, which the handle or the variable then takes over
 * without a copy. A variable is written in its own buffer where nothing can ask for the old value any more and no
 * command behind could still fail. */
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/dtype.h"
#include "base/env.h"
#include "plan/sites.h"
#include "plan/builder.h"
#include "plan/lower.h"
#include "plan/strip.h"
#include "plan/watch.h"

typedef wfi_plan_builder builder;

static uint32_t new_storage(builder *b, wfi_place place, uint32_t id, size_t bytes, uint32_t first)
{
    wfi_plan *p = b->p;
    if (!wfi_mem_grow(b->c->mem, &p->storage, &b->cap_storage, (size_t)p->nstorage + 1, sizeof *p->storage))
        return WFI_NO_VALUE;
    p->storage[p->nstorage] =
        (wfi_storage){ .place = (uint8_t)place, .id = id, .bytes = bytes, .first = first, .last = first };
    return p->nstorage++;
}

static bool leaf_storage(builder *b, const wfi_node *n)
{
    static const wfi_place place[] = { WFI_PLACE_INPUT, WFI_PLACE_SCALAR, WFI_PLACE_HOST, WFI_PLACE_CONST,
                                       WFI_PLACE_VAR };
    const wfi_graph *g = b->g;
    uint32_t v = n->out0, id = n->payload;
    const wfi_type *t = wfi_type_at(g->ids, g->value[v].type);
    if (n->op == WFI_NODE_VAR && b->of_var[id] != WFI_NO_VALUE) { /* one storage, however often it is asked for */
        b->p->value_storage[v] = b->of_var[id];
        return (b->p->value_layout[v] = wfi_ids_dense(g->ids, g->value[v].type)) != 0;
    }
    if (n->op == WFI_NODE_CONST) {
        const double *value = wfi_attr_data(g->ids, id);
        b->p->konst[b->p->nkonst] = 0;
        wfi_dtype_store(t->dtype, &b->p->konst[b->p->nkonst], 0, *value);
        id = b->p->nkonst++;
    }
    b->p->value_storage[v] = new_storage(b, place[n->op - WFI_NODE_INPUT], id, t->bytes, 0);
    if (n->op == WFI_NODE_VAR)
        b->of_var[id] = b->p->value_storage[v];
    b->p->value_layout[v] = n->op != WFI_NODE_INPUT ? wfi_ids_dense(g->ids, g->value[v].type)
                            : b->in_layout          ? b->in_layout[id]
                                                    : b->c->r.H[id]->layout;
    return b->p->value_storage[v] != WFI_NO_VALUE && b->p->value_layout[v];
}

/* Finds the kernels, and where results are views of operands. */
static bool bind_node(builder *b, uint32_t k)
{
    const wfi_graph *g = b->g;
    const wfi_node *n = &g->node[k];
    wfi_plan *p = b->p;
    uint32_t layout[WFI_NODE_INS];
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = g->in[n->in0 + i];
        layout[i] = v == WFI_NO_VALUE ? 0 : p->value_layout[v];
    }
    const wfi_bound *e = wfi_bound_get(b->c, WFI_KEY(n->op, n->payload, n->nin), n->nin, layout, NULL, NULL);
    if (!e)
        return false;
    b->bound[k] = e;
    for (uint32_t i = 0; i < n->nout; i++) {
        p->value_layout[n->out0 + i] = e->out[i].layout;
        p->value_storage[n->out0 + i] = e->alias >= 0 ? p->value_storage[g->in[n->in0 + (uint32_t)e->alias]]
                                                      : new_storage(b, WFI_PLACE_ARENA, 0, e->out[i].bytes, p->ncmd);
        if (p->value_storage[n->out0 + i] == WFI_NO_VALUE)
            return false;
    }
    b->cmd_of[k] = WFI_NO_VALUE;
    if (!e->fn)
        return true;
    b->cmd_of[k] = p->ncmd;
    if (e->faults && wfi_plan_may_fail(b, k))
        b->last_fault = p->ncmd + 1;
    for (uint32_t i = 0; i < n->nin; i++)
        if (g->in[n->in0 + i] != WFI_NO_VALUE)
            p->storage[p->value_storage[g->in[n->in0 + i]]].last = p->ncmd;
    for (uint32_t i = 0; i < n->nout; i++) {
        wfi_storage *s = &p->storage[p->value_storage[n->out0 + i]];
        s->last = s->last < p->ncmd ? p->ncmd : s->last;
    }
    p->ncmd++;
    p->nargs += wfi_plan_places(n, e);
    return true;
}

static bool add_out(builder *b, wfi_plan_out o)
{
    wfi_plan *p = b->p;
    if (!wfi_mem_grow(b->c->mem, &p->out, &b->cap_out, (size_t)p->nout + 1, sizeof *p->out))
        return false;
    p->out[p->nout++] = o;
    return true;
}

/* Does a value fill its storage, row-major? What a function gives is written where the caller wants it. */
static bool fills(const builder *b, uint32_t v)
{
    const wfi_layout *l = wfi_layout_at(b->g->ids, b->p->value_layout[v]);
    return l->contiguous && !l->offset &&
           wfi_type_at(b->g->ids, l->type)->bytes == b->p->storage[b->p->value_storage[v]].bytes;
}

/* Everything that leaves the step moves out of the arena. */
static bool effects(builder *b)
{
    for (size_t k = 0; k < b->g->nnode; k++) {
        const wfi_node *n = &b->g->node[k];
        if (n->op != WFI_NODE_ASSIGN && n->op != WFI_NODE_RESULT)
            continue;
        uint32_t v = b->g->in[n->in0], s = b->p->value_storage[v];
        if (b->p->storage[s].place == WFI_PLACE_ARENA && (!b->in_layout || fills(b, v)))
            b->p->storage[s].place = WFI_PLACE_FRESH;
        b->p->storage[s].last = b->p->ncmd;
        if (!add_out(b, (wfi_plan_out){ .storage = s,
                                        .layout = b->p->value_layout[v],
                                        .id = n->payload,
                                        .assign = n->op == WFI_NODE_ASSIGN }))
            return false;
    }
    return true;
}

static bool offsets(builder *b)
{
    wfi_plan *p = b->p;
    wfi_memplan_item *item = wfi_mem_array(b->c->mem, (size_t)p->nstorage + 1, sizeof *item);
    uint32_t n = 0;
    if (!item)
        return false;
    for (uint32_t s = 0; s < p->nstorage; s++)
        if (p->storage[s].place == WFI_PLACE_ARENA)
            item[n++] = (wfi_memplan_item){ p->storage[s].bytes, p->reuse ? p->storage[s].first : 0,
                                            p->reuse ? p->storage[s].last : p->ncmd, 0 };
    p->arena = wfi_memplan(b->c->mem, item, n, &p->bound);
    n = 0;
    for (uint32_t s = 0; p->arena != SIZE_MAX && s < p->nstorage; s++)
        if (p->storage[s].place == WFI_PLACE_ARENA)
            p->storage[s].offset = item[n++].offset;
    wfi_mem_free(b->c->mem, item);
    return p->arena != SIZE_MAX;
}

/* ---- the flat form ---- */

static void put_arg(builder *b, uint32_t *at, uint32_t value)
{
    wfi_plan *p = b->p;
    wfi_plan_arg a = { WFI_NO_VALUE, 0 };
    if (value != WFI_NO_VALUE) {
        const wfi_layout *l = wfi_layout_at(b->g->ids, p->value_layout[value]);
        a.storage = p->value_storage[value];
        a.offset = l->start;
    }
    p->where[*at] = a;
    p->args[(*at)++] = NULL;
}

static bool flatten(builder *b)
{
    wfi_plan *p = b->p;
    wfi_mem *m = b->c->mem;
    p->cmd = wfi_mem_array(m, (size_t)p->ncmd + 1, sizeof *p->cmd);
    p->cmd_node = wfi_mem_array(m, (size_t)p->ncmd + 1, sizeof *p->cmd_node);
    p->cmd_impl = wfi_mem_array(m, (size_t)p->ncmd + 1, sizeof *p->cmd_impl);
    p->cmd_list = wfi_mem_array(m, (size_t)p->ncmd + 1, sizeof *p->cmd_list);
    p->cmd_keep = wfi_mem_array(m, (size_t)p->ncmd + 1, sizeof *p->cmd_keep);
    p->cmd_how = wfi_mem_array(m, (size_t)p->ncmd + 1, sizeof *p->cmd_how);
    p->args = wfi_mem_array(m, (size_t)p->nargs + 1, sizeof *p->args);
    p->where = wfi_mem_array(m, (size_t)p->nargs + 1, sizeof *p->where);
    if (!p->cmd || !p->cmd_node || !p->cmd_impl || !p->cmd_list || !p->cmd_keep || !p->cmd_how || !p->args || !p->where)
        return false;
    uint32_t at = 0;
    for (size_t k = 0; k < b->g->nnode; k++) {
        const wfi_node *n = &b->g->node[k];
        if (!b->bound[k] || b->cmd_of[k] == WFI_NO_VALUE)
            continue;
        uint32_t q = b->cmd_of[k];
        p->cmd[q] = (wfi_cmd){ .fn = b->bound[k]->fn,
                               .params = b->bound[k]->params,
                               .args = p->args + at,
                               .bytes = b->bound[k]->scratch,
                               .node = (uint32_t)k,
                               .kind = WFI_CMD_KERNEL,
                               .faults = b->bound[k]->faults };
        p->cmd_node[q] = (uint32_t)k;
        p->cmd_impl[q] = b->bound[k]->impl;
        p->cmd_list[q] = b->bound[k]->list;
        p->cmd_keep[q] = b->bound[k]->keep.bytes ? &b->bound[k]->keep : NULL;
        p->cmd_how[q] = b->bound[k]->how;
        for (uint32_t i = 0; i < n->nout; i++)
            put_arg(b, &at, n->out0 + i);
        for (uint32_t i = 0; i < n->nin; i++)
            put_arg(b, &at, b->g->in[n->in0 + i]);
        if (p->cmd_keep[q])
            put_arg(b, &at, WFI_NO_VALUE);
    }
    return true;
}

static bool is_ext(const wfi_storage *s)
{
    return s->place != WFI_PLACE_NONE && s->place != WFI_PLACE_ARENA && s->place != WFI_PLACE_CONST &&
           s->place != WFI_PLACE_STRIP;
}

static bool externals(builder *b)
{
    wfi_plan *p = b->p;
    wfi_mem *m = b->c->mem;
    uint32_t n = 0, *index = wfi_mem_array(m, (size_t)p->nstorage + 1, sizeof *index);
    for (uint32_t s = 0; s < p->nstorage; s++)
        n += is_ext(&p->storage[s]);
    p->ext = wfi_mem_array(m, (size_t)n + 1, sizeof *p->ext);
    p->ext_arg0 = wfi_mem_zalloc(m, ((size_t)n + 2) * sizeof *p->ext_arg0);
    p->ext_args = wfi_mem_array(m, (size_t)p->nargs + 1, sizeof *p->ext_args);
    p->ext_ptr = wfi_mem_zalloc(m, ((size_t)n + 1) * sizeof *p->ext_ptr);
    p->fresh = wfi_mem_zalloc(m, ((size_t)n + 1) * sizeof *p->fresh);
    bool ok = index && p->ext && p->ext_arg0 && p->ext_args && p->ext_ptr && p->fresh;
    for (uint32_t s = 0; ok && s < p->nstorage; s++) {
        index[s] = p->next;
        if (is_ext(&p->storage[s]))
            p->ext[p->next++] = s;
    }
    for (uint32_t i = 0; ok && i < p->nout; i++)
        p->out[i].ext = is_ext(&p->storage[p->out[i].storage]) ? index[p->out[i].storage] : 0;
    for (uint32_t i = 0; ok && i < p->nargs; i++)
        if (p->where[i].storage != WFI_NO_VALUE && is_ext(&p->storage[p->where[i].storage]))
            p->ext_arg0[index[p->where[i].storage] + 1]++;
    for (uint32_t i = 0; ok && i < p->next; i++)
        p->ext_arg0[i + 1] += p->ext_arg0[i];
    for (uint32_t i = p->nargs; ok && i-- > 0;) /* filled from the back: ext_arg0 ends where it should begin */
        if (p->where[i].storage != WFI_NO_VALUE && is_ext(&p->storage[p->where[i].storage]))
            p->ext_args[--p->ext_arg0[index[p->where[i].storage] + 1]] = i;
    for (uint32_t i = 0; ok && i < p->next; i++)
        p->ext_arg0[i] = p->ext_arg0[i + 1];
    if (ok) {
        uint32_t total = 0;
        for (uint32_t i = 0; i < p->nargs; i++)
            total += p->where[i].storage != WFI_NO_VALUE && is_ext(&p->storage[p->where[i].storage]);
        p->ext_arg0[p->next] = total;
    }
    wfi_mem_free(m, index);
    return ok;
}

/* What a run has to hand out, and what is in its place already: a variable that was written in its own buffer. A view
 * of its old value (flipped, say) is to be copied. */
static void settle(builder *b)
{
    wfi_plan *p = b->p;
    p->settled = true;
    for (uint32_t i = 0; i < p->nout; i++) {
        wfi_plan_out *o = &p->out[i];
        const wfi_storage *s = &p->storage[o->storage];
        const wfi_layout *l = wfi_layout_at(b->g->ids, o->layout);
        o->settled = o->assign && s->place == WFI_PLACE_VAR && s->id == o->id &&
                     (s->written || (l->contiguous && l->offset == 0));
        p->settled = p->settled && o->settled;
    }
}

/* Debug builds, and WEFT_CHECK=1, have every graph verified and every plan checked. */
static bool checking(void)
{
#ifdef WEFT_DEBUG
    return true;
#else
    return wfi_env_flag("WEFT_CHECK");
#endif
}

/* A graph or a plan is not what it must be. Without memory nothing was shown: the step runs record by record. */
static bool refused(wf_ctx *c, const char *why)
{
    if (strcmp(why, "out of memory") != 0)
        wfi_error_set(c, WF_ERR_STATE, "", NULL, "a plan is wrong (this is a fault of Weft): %s", why);
    return false;
}

/* A list of passes that names one that is not there is the user's mistake. */
static bool right_list(wf_ctx *c, const char *variable)
{
    size_t n;
    const char *word = wfi_passes_unknown(wfi_env_get(variable), c->more_pass, &n);
    if (word)
        wfi_error_set(c, WF_ERR_ARG, "", NULL, "%s names \"%.*s\", which is no pass; docs/environment.md lists them",
                      variable, (int)(n < 40 ? n : 40), word);
    return !word;
}

/* The graph that is planned: the trace or the function, and what the passes make of it. */
static bool graph(wf_ctx *c, wfi_plan *p, const wfi_trace *t, const wfi_func *f, size_t budget, size_t large)
{
    char err[512] = "out of memory";
    wfi_watch w;
    wfi_passes_opts o = { .check = checking(), .more = c->more_pass, .user = &w };
    p->trail = (wfi_trail){ .mem = c->mem, .skip = wfi_env_get("WEFT_SKIP") };
    p->scope = c->frame[c->step_depth].name;
    wfi_graph_init(&p->graph, c->mem, &c->ids);
    p->graph.trail = &p->trail;
    p->graph.budget = budget;
    p->graph.large = large;
    p->graph.split = c->split;
    if (!right_list(c, "WEFT_SKIP") || !right_list(c, "WEFT_DUMP") || (t && !wfi_plan_take_sites(c, p, t)))
        return false;
    if (wfi_watch_begin(&w, c, p))
        o.watch = wfi_watch_pass;
    uint64_t start = wfi_clock_ns();
    bool ok = t ? wfi_lower_trace(c, t, &p->graph) : wfi_func_graph(f, &p->graph);
    wfi_trail_time(&p->trail, "lower", wfi_clock_ns() - start, t ? t->n : f->nnode, p->graph.nnode);
    ok = ok && (wfi_passes(&p->graph, &o, err, sizeof err) || refused(c, err));
    wfi_watch_end(&w);
    return ok;
}

static bool proven(builder *b)
{
    char err[256];
    return !checking() || wfi_plan_check(b->c->mem, b->p, err, sizeof err) || refused(b->c, err);
}

static bool build(builder *b)
{
    wfi_plan *p = b->p;
    for (size_t k = 0; k < b->g->nnode; k++) {
        const wfi_node *n = &b->g->node[k];
        b->cmd_of[k] = WFI_NO_VALUE;
        if (n->op < WFI_NODE_INPUT ? !bind_node(b, (uint32_t)k) : n->nout && !leaf_storage(b, n))
            return false;
    }
    if (!effects(b))
        return false;
    if (p->reuse && !wfi_plan_inplace(b))
        return false;
    if (!wfi_plan_strips(b) || !offsets(b) || !flatten(b) || !externals(b) || !wfi_plan_keep(b->c->mem, p) ||
        !wfi_plan_join(b->c->mem, p))
        return false;
    settle(b);
    return proven(b);
}

/* What is planned: a step or a function, of which t or f is NULL. */
typedef struct source {
    const wfi_trace *t;
    const wfi_func *f;
    const uint32_t *in_layout; /* of the function's inputs */
} source;

/* budget: what the graph is made to fit, by estimate. large: bytes of values that are made in parts. */
static wfi_plan *plan(wf_ctx *c, source from, size_t budget, size_t large)
{
    wfi_plan *p = wfi_mem_zalloc(c->mem, sizeof *p);
    if (!p)
        return NULL;
    const char *reuse = wfi_env_get("WEFT_REUSE");
    p->reuse = !reuse || wfi_env_flag("WEFT_REUSE");
    bool ok = graph(c, p, from.t, from.f, budget, large);
    size_t nn = p->graph.nnode + 1, nv = p->graph.nvalue + 1;
    builder b = { .c = c,
                  .p = p,
                  .g = &p->graph,
                  .in_layout = from.in_layout,
                  .bound = wfi_mem_zalloc(c->mem, nn * sizeof *b.bound),
                  .cmd_of = wfi_mem_array(c->mem, nn, sizeof *b.cmd_of),
                  .of_var = wfi_mem_array(c->mem, (size_t)c->nvar + 1, sizeof *b.of_var) };
    p->value_storage = wfi_mem_array(c->mem, nv, sizeof *p->value_storage);
    p->value_layout = wfi_mem_array(c->mem, nv, sizeof *p->value_layout);
    p->konst = wfi_mem_array(c->mem, nn, sizeof *p->konst);
    ok = ok && b.bound && b.cmd_of && b.of_var && p->value_storage && p->value_layout && p->konst;
    for (size_t i = 0; ok && i <= c->nvar; i++)
        b.of_var[i] = WFI_NO_VALUE;
    uint64_t start = wfi_clock_ns();
    ok = ok && build(&b);
    wfi_trail_time(&p->trail, "memory", wfi_clock_ns() - start, p->graph.nnode, p->ncmd);
    wfi_mem_free(c->mem, b.bound);
    wfi_mem_free(c->mem, b.cmd_of);
    wfi_mem_free(c->mem, b.of_var);
    wfi_mem_free(c->mem, b.looked);
    if (!ok) { /* the step still runs, record by record */
        wfi_plan_free(c, p);
        return NULL;
    }
    return p;
}

wfi_plan *wfi_plan_func(wf_ctx *c, const wfi_func *f, const uint32_t *layout)
{
    static const uint32_t none = 0; /* of a function without inputs */
    wfi_plan *p = plan(c, (source){ .f = f, .in_layout = layout ? layout : &none }, 0, 0);
    if (!p)
        wfi_error_memory(c, "the plan of a body", NULL); /* unless there is an error already */
    return p;
}

/* What was asked for, and what the runtime's limit leaves, if that is less. */
static size_t budget_of(const wf_ctx *c)
{
    const size_t idle = c->arena_cap + c->free_bytes, live = atomic_load(&c->mem->live), limit = c->mem->limit;
    if (!limit)
        return c->budget;
    const size_t used = live > idle ? live - idle : 0, margin = limit / 64; /* for what is no arena */
    const size_t room = limit > used + margin ? limit - used - margin : 1;
    return c->budget && c->budget < room ? c->budget : room;
}

/* Takes q for p if it needs less. */
static wfi_plan *smaller(wf_ctx *c, wfi_plan *p, wfi_plan *q)
{
    const bool better = q && (!p || q->arena < p->arena);
    wfi_plan_free(c, better ? p : q);
    return better ? q : p;
}

/* The plan has the last word and not the estimate that passes go by: while it does not fit, another is made for a bound
 * that is smaller by what was missing and a little more; then smaller values are made in parts as well. The smallest
 * plan is kept. */
static wfi_plan *fit(wf_ctx *c, const wfi_trace *t, wfi_plan *p, size_t budget)
{
    for (int parts = 0; parts < 2 && p && budget; parts++) {
        double bound = (double)budget;
        for (int more = parts ? 0 : 1; more < 5 && p->arena > budget; more++) {
            const double share = (double)budget / (double)p->arena;
            bound *= more == 0 ? 1 : share < 0.97 ? share : 0.97;
            p = smaller(c, p, plan(c, (source){ .t = t }, (size_t)bound, parts ? budget / 8 : 0));
        }
    }
    return p;
}

wfi_plan *wfi_plan_fit(wf_ctx *c, const wfi_trace *t, size_t budget)
{
    return fit(c, t, plan(c, (source){ .t = t }, budget, 0), budget);
}

wfi_plan *wfi_plan_new(wf_ctx *c, wfi_trace *t)
{
    wfi_plan *p = plan(c, (source){ .t = t }, budget_of(c), 0);
    const size_t budget = budget_of(c); /* with the plan itself taken off */
    p = fit(c, t, p, budget);
    if (p) {
        p->graph.budget = budget; /* what was asked for, for the report */
        wfi_watch_tell(c, p);
        wfi_plan_foresee(c, p);
        c->st.plans++;
    }
    return p;
}

void wfi_plan_free(wf_ctx *c, wfi_plan *p)
{
    if (!p)
        return;
    if (c->last_plan == p)
        c->last_plan = NULL;
    void *const parts[] = { p->cmd,      p->cmd_node, p->cmd_impl,      p->args,         p->where,
                            p->storage,  p->ext,      p->ext_arg0,      p->ext_args,     p->ext_ptr,
                            p->fresh,    p->out,      p->value_storage, p->value_layout, p->konst,
                            p->cmd_list, p->run,      p->run0,          p->list,         p->item,
                            p->cmd_how,  p->site,     p->cmd_keep,      p->kept,         p->strip };
    for (uint32_t i = 0; i < p->nkept; i++)
        wfi_mem_free(c->mem, p->kept[i].room);
    for (uint32_t i = 0; i < p->nstrip; i++)
        wfi_plan_strip_free(c->mem, &p->strip[i]);
    wfi_graph_free(&p->graph);
    wfi_trail_free(&p->trail);
    wfi_profile_free(c, p->profile);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(c->mem, parts[i]);
    wfi_mem_free(c->mem, p);
}
