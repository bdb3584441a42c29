#include "plan/watch.h"
#include <string.h>
#include "base/env.h"
#include "base/file.h"
#include "graph/body.h"
#include "passes/graph_text.h"

bool wfi_watch_begin(wfi_watch *w, wf_ctx *c, const wfi_plan *p)
{
    const char *check = wfi_env_get("WEFT_CHECK");
    *w = (wfi_watch){ .c = c,
                      .p = p,
                      .dump = wfi_env_get("WEFT_DUMP"),
                      .folder = wfi_env_get("WEFT_DUMP_DIR"),
                      .reference = check && wfi_list_has(check, "ref", 3) };
    w->reference &= p->trace != NULL; /* of a function nothing is known that could be computed */
    return w->dump || w->reference;
}

void wfi_watch_end(wfi_watch *w)
{
    wfi_reference_free(w->c->mem, &w->was);
}

/* ---- dumps ---- */

static void lines_of(void *user, const wfi_node *n, wfi_text *t)
{
    const wfi_watch *w = ((void **)user)[0];
    wfi_plan_print_lines(w->p, ((void **)user)[1], n, t);
}

static const char *scope_of(const wfi_plan *p)
{
    return p->scope ? p->scope : "?";
}

/* "DIR/step-3-fuse-before.txt"; what is no plain character of a name becomes _ */
static void dump_name(const wfi_watch *w, const char *pass, const char *when, wfi_text *name)
{
    wfi_text_addf(name, "%s/", w->folder);
    for (const char *s = scope_of(w->p); *s; s++)
        wfi_text_addc(name, (*s >= '0' && *s <= '9') || ((*s | 32) >= 'a' && (*s | 32) <= 'z') ? *s : '_');
    wfi_text_addf(name, "-%llu-%s-%s.txt", (unsigned long long)w->c->st.plans + 1, pass, when);
}

static void dump(wfi_watch *w, const char *pass, const char *when, const wfi_graph *g)
{
    wfi_text t = { .mem = w->c->mem }, name = { .mem = w->c->mem };
    wfi_file f = { .mem = w->c->mem };
    const void *user[2] = { w, g };
    wfi_text_addf(&t, "# step %s, plan %llu, %s %s: %zu nodes\n", scope_of(w->p),
                  (unsigned long long)w->c->st.plans + 1, when, pass, g->nnode);
    wfi_graph_print_noted(g, lines_of, user, &t);
    if (w->folder)
        dump_name(w, pass, when, &name);
    else
        wfi_text_addc(&t, '\n');
    if (t.oom || name.oom || !w->folder || wfi_file_write(&f, name.p, t.p, t.n) != WF_OK)
        wfi_log_text(&w->c->log, "dump", t.oom ? "out of memory\n" : w->folder && f.why[0] ? f.why : t.p);
    wfi_text_free(&t);
    wfi_text_free(&name);
}

static bool dumps(const wfi_watch *w, const char *pass)
{
    return w->dump && (wfi_list_has(w->dump, pass, strlen(pass)) || wfi_list_has(w->dump, "all", 3));
}

/* ---- the reference ---- */

static bool compare(wfi_watch *w, const char *pass, const wfi_graph *g, char *err, size_t err_bytes)
{
    wfi_reference_run now;
    uint32_t node;
    char what[384];
    if (w->lost)
        return true;
    const bool known = w->was.value != NULL && w->freedoms == w->p->trail.nfreedom;
    w->freedoms = w->p->trail.nfreedom;
    w->lost = !wfi_reference_eval(w->c, g, w->p->nsite, &now);
    bool differs = known && !w->lost && wfi_reference_differs(g, &now, &w->was, &node, what, sizeof what);
    wfi_reference_free(w->c->mem, &w->was);
    w->was = now;
    if (!differs)
        return true;
    wfi_text t = { .mem = w->c->mem };
    wfi_text_addf(&t, "pass %s changes values: ", pass);
    wfi_graph_print_op(g, &g->node[node], &t);
    wfi_text_addf(&t, " gives %s; it comes from ", what);
    size_t n = t.n;
    wfi_plan_print_lines(w->p, g, &g->node[node], &t);
    if (t.n == n)
        wfi_text_add(&t, "no line of the program");
    (void)wfi_str_copy(err, err_bytes, wfi_text_str(&t));
    wfi_text_free(&t);
    return false;
}

bool wfi_watch_pass(void *user, const char *pass, const wfi_graph *before, const wfi_graph *after, char *err,
                    size_t err_bytes)
{
    wfi_watch *w = user;
    if (dumps(w, pass)) {
        if (before)
            dump(w, pass, "before", before);
        dump(w, pass, "after", after);
    }
    return !w->reference || compare(w, pass, after, err, err_bytes);
}

/* ---- the log ---- */

static void tell_passes(const wfi_plan *p, wfi_text *t)
{
    wfi_text_addf(t, "passes of step %s\n", scope_of(p));
    for (uint32_t i = 0; i < p->trail.ntime; i++) {
        const wfi_pass_time *s = &p->trail.time[i];
        wfi_text_addf(t, "  %-12s %6u -> %6u  %10.1f us\n", s->pass, (unsigned)s->before, (unsigned)s->after,
                      (double)s->ns / 1e3);
    }
}

static void tell_group(const wfi_plan *p, const wfi_node *n, wfi_text *t)
{
    const wfi_graph *g = &p->graph;
    wfi_text_addf(t, "fused %08x ", (unsigned)wfi_body_node_id(g, n));
    wfi_graph_print_op(g, n, t);
    wfi_text_add(t, " at ");
    wfi_plan_print_lines(p, g, n, t);
    wfi_text_addc(t, '\n');
}

static void tell_fusion(const wfi_plan *p, wfi_text *t)
{
    for (size_t k = 0; k < p->graph.nnode; k++)
        if (p->graph.node[k].op == WFI_NODE_FUSED)
            tell_group(p, &p->graph.node[k], t);
    for (size_t i = 0; i < p->trail.nnote; i++) {
        const wfi_note *n = &p->trail.note[i];
        wfi_line a = wfi_plan_line(p, n->prov[0]), b = wfi_plan_line(p, n->prov[1]);
        wfi_text_addf(t, "%s %s %s at %s -> %s at %s: %s\n", n->why->pass ? "whole" : "apart", n->why->code,
                      wfi_op_table[n->op[0]].name, a.site ? a.site : "?", wfi_op_table[n->op[1]].name,
                      b.site ? b.site : "?", n->why->text);
    }
}

void wfi_watch_tell(wf_ctx *c, const wfi_plan *p)
{
    static const struct {
        const char *topic;
        void (*tell)(const wfi_plan *p, wfi_text *t);
    } all[] = { { "passes", tell_passes }, { "fusion", tell_fusion } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        wfi_text t = { .mem = c->mem };
        if (!wfi_log_on(&c->log, all[i].topic))
            continue;
        all[i].tell(p, &t);
        if (!t.oom && t.n)
            wfi_log_text(&c->log, all[i].topic, t.p);
        wfi_text_free(&t);
    }
}
