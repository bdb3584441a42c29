/* A report for programs: one JSON object. Times are nanoseconds, sizes bytes, rates per second. */
#include "explain/report.h"
#include "graph/body.h"

static void member(wfi_text *t, bool first, const char *name)
{
    wfi_text_addf(t, "%s\"%s\":", first ? "" : ",", name);
}

static void number(wfi_text *t, bool first, const char *name, double v)
{
    member(t, first, name);
    wfi_text_f64(t, v);
}

static void string(wfi_text *t, bool first, const char *name, const char *v)
{
    member(t, first, name);
    wfi_text_json(t, v);
}

static void machine(const wfi_roofs *m, wfi_text *t)
{
    member(t, false, "machine");
    wfi_text_addc(t, '{');
    string(t, true, "name", m->name);
    number(t, false, "threads", m->threads);
    member(t, false, "flops");
    wfi_text_addc(t, '{');
    number(t, true, "f64", m->flops[WF_F64]);
    number(t, false, "f32", m->flops[WF_F32]);
    number(t, false, "bf16", m->flops[WF_BF16]);
    wfi_text_add(t, "}");
    member(t, false, "levels");
    wfi_text_addc(t, '[');
    for (int i = 0; i < m->levels; i++) {
        wfi_text_add(t, i ? ",{" : "{");
        string(t, true, "name", m->level[i].name);
        if (i + 1 < m->levels)
            number(t, false, "bytes", (double)m->level[i].bytes);
        number(t, false, "read", m->level[i].read);
        number(t, false, "write", m->level[i].write);
        wfi_text_addc(t, '}');
    }
    wfi_text_add(t, "]}");
}

static void line(wfi_text *t, bool first, const wfi_line *l)
{
    wfi_text_add(t, first ? "{" : ",{");
    string(t, true, "line", l->site);
    wfi_text_addf(t, ",\"gradient\":%s}", l->grad ? "true" : "false");
}

static void node(const wfi_plan *p, uint32_t q, wfi_text *t)
{
    const wfi_node *n = &p->graph.node[p->cmd_node[q]];
    char type[192];
    wfi_line l;
    wfi_text op = { .mem = t->mem };
    wfi_graph_print_op(&p->graph, n, &op);
    string(t, true, "op", wfi_text_str(&op));
    t->oom |= op.oom;
    wfi_text_free(&op);
    if (n->op == WFI_NODE_FUSED)
        wfi_text_addf(t, ",\"group\":\"%08x\"", (unsigned)wfi_body_node_id(&p->graph, n));
    member(t, false, "results");
    wfi_text_addc(t, '[');
    for (uint32_t i = 0; i < n->nout; i++) {
        wfi_text_add(t, i ? "," : "");
        wfi_text_json(t, wfi_type_text(p->graph.ids, p->graph.value[n->out0 + i].type, type, sizeof type));
    }
    wfi_text_addc(t, ']');
    member(t, false, "lines");
    wfi_text_addc(t, '[');
    for (uint32_t i = 0; wfi_plan_node_line(p, &p->graph, n, i, &l); i++)
        line(t, i == 0, &l);
    wfi_text_addc(t, ']');
}

static void submission(const wfi_report *r, uint32_t run, wfi_text *t)
{
    const wfi_plan *p = r->p;
    const wfi_work *w = &r->work[run];
    string(t, true, "kernel", p->cmd_impl[p->run0[run]]);
    if (p->cmd_how[p->run0[run]])
        string(t, false, "how", atomic_load_explicit(p->cmd_how[p->run0[run]], memory_order_acquire));
    const wfi_plan_strip *strip = wfi_plan_strip_of(p, p->run0[run]);
    if (strip)
        number(t, false, "strips", (double)strip->s.count);
    number(t, false, "read", w->read);
    number(t, false, "written", w->written);
    number(t, false, "flop", w->flops);
    number(t, false, "least_ns", w->ns);
    string(t, false, "by", w->by);
    if (r->time) {
        const wfi_spent *s = &r->time->spent[run];
        number(t, false, "best_ns", s->best);
        number(t, false, "mean_ns", s->sum / (double)r->time->runs);
        if (s->best > 0)
            number(t, false, "of_roof", w->ns / s->best);
    }
    member(t, false, "nodes");
    wfi_text_addc(t, '[');
    for (uint32_t q = p->run0[run]; q < p->run0[run + 1]; q++) {
        wfi_text_add(t, q > p->run0[run] ? ",{" : "{");
        node(p, q, t);
        wfi_text_addc(t, '}');
    }
    wfi_text_addc(t, ']');
}

static void freedoms(const wfi_plan *p, wfi_text *t)
{
    member(t, false, "freedoms");
    wfi_text_addc(t, '[');
    for (size_t i = 0; i < p->trail.nfreedom; i++) {
        const wfi_freedom *f = &p->trail.freedom[i];
        const wfi_line at = wfi_plan_line(p, f->prov);
        wfi_text_add(t, i ? ",{" : "{");
        string(t, true, "what", f->what->code);
        string(t, false, "text", f->what->text);
        string(t, false, "op", wfi_op_table[f->op].name);
        member(t, false, "line");
        line(t, true, &at);
        wfi_text_addc(t, '}');
    }
    wfi_text_addc(t, ']');
}

static void notes(const wfi_plan *p, wfi_text *t)
{
    member(t, false, "apart");
    wfi_text_addc(t, '[');
    for (size_t i = 0; i < p->trail.nnote; i++) {
        const wfi_note *n = &p->trail.note[i];
        wfi_line make = wfi_plan_line(p, n->prov[0]), use = wfi_plan_line(p, n->prov[1]);
        wfi_text_add(t, i ? ",{" : "{");
        string(t, true, "why", n->why->code);
        string(t, false, "text", n->why->text);
        string(t, false, "make", wfi_op_table[n->op[0]].name);
        string(t, false, "use", wfi_op_table[n->op[1]].name);
        member(t, false, "lines");
        wfi_text_addc(t, '[');
        line(t, true, &make);
        line(t, false, &use);
        wfi_text_add(t, "]}");
    }
    wfi_text_addc(t, ']');
}

static void passes(const wfi_plan *p, wfi_text *t)
{
    member(t, false, "passes");
    wfi_text_addc(t, '[');
    for (uint32_t i = 0; i < p->trail.ntime; i++) {
        wfi_text_add(t, i ? ",{" : "{");
        string(t, true, "pass", p->trail.time[i].pass);
        number(t, false, "ns", (double)p->trail.time[i].ns);
        number(t, false, "before", p->trail.time[i].before);
        number(t, false, "after", p->trail.time[i].after);
        wfi_text_addc(t, '}');
    }
    wfi_text_addc(t, ']');
}

void wfi_report_json(const wfi_report *r, wfi_text *t)
{
    const wfi_plan *p = r->p;
    wfi_text_addc(t, '{');
    string(t, true, "step", p->scope);
    number(t, false, "runs", (double)p->runs);
    number(t, false, "records", p->nsite);
    number(t, false, "arena", (double)p->arena);
    number(t, false, "arena_bound", (double)p->bound);
    number(t, false, "foreseen", (double)(p->there + p->arena + p->renewed));
    number(t, false, "taken", (double)p->taken);
    machine(r->roofs, t);
    if (r->time) {
        number(t, false, "timed_runs", (double)r->time->runs);
        number(t, false, "replay_best_ns", r->time->whole.best);
        number(t, false, "replay_mean_ns", r->time->whole.sum / (double)r->time->runs);
    }
    number(t, false, "least_ns", r->all.ns);
    member(t, false, "commands");
    wfi_text_addc(t, '[');
    for (uint32_t i = 0; i < p->nrun; i++) {
        wfi_text_add(t, i ? ",\n {" : "\n {");
        submission(r, i, t);
        wfi_text_addc(t, '}');
    }
    wfi_text_add(t, "]");
    notes(p, t);
    freedoms(p, t);
    passes(p, t);
    wfi_text_add(t, "}\n");
}
