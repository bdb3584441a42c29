/* What a step became, asked from outside. */
#include "explain/report.h"
#include <string.h>
#include "plan/certificate.h"
#include "plan/sites.h"

static void write_report(const wfi_report *r, bool json, wfi_text *t)
{
    (json ? wfi_report_json : wfi_report_text)(r, t);
}

/* The plan that ran last for a step of that name, NULL: none. */
static wfi_plan *plan_of(const wf_ctx *c, const char *scope)
{
    if (!scope)
        return c->last_plan;
    for (const wfi_trace *t = c->newest; t; t = t->older) /* the last used first */
        if (t->plan && t->plan->runs && wfi_str_eq(t->plan->scope, scope))
            return t->plan;
    return NULL;
}

static void certificate(wf_ctx *c, const wfi_plan *p, wfi_text *t)
{
    char err[256] = "";
    if (wfi_certificate_write(p, t, err, sizeof err))
        return;
    t->oom = true;
    if (strcmp(err, "out of memory") != 0)
        wfi_error_set(c, WF_ERR_STATE, "", NULL, "a plan is wrong (this is a fault of Weft): %s", err);
}

const char *wf_explain_plan_(wf_ctx *c, const wf_explain_opts *o)
{
    static const wf_explain_opts plain;
    o = o ? o : &plain;
    wfi_plan *p = c ? plan_of(c, o->scope) : NULL;
    if (!p)
        return NULL;
    wfi_text t = { .mem = c->mem };
    wfi_report r;
    if (c->last && c->last->plan == p)
        (void)wfi_plan_take_sites(c, p, c->last);
    if (o->certificate)
        certificate(c, p, &t);
    else if (o->buffers)
        wfi_plan_print(p, true, &t);
    else if (wfi_report_make(c, p, &r))
        write_report(&r, o->json, &t);
    else
        t.oom = true;
    if (!o->buffers && !o->certificate)
        wfi_report_free(&r);
    wfi_mem_free(c->mem, c->explain);
    c->explain = t.p;
    return t.oom ? NULL : c->explain;
}

void wfi_explain_last(wf_ctx *c, wfi_plan *p)
{
    wfi_report r;
    wfi_text t = { .mem = c->mem };
    if (!p->runs || !wfi_log_on(&c->log, "plan"))
        return;
    if (wfi_report_make(c, p, &r)) {
        write_report(&r, false, &t);
        wfi_text_addc(&t, '\n');
        if (!t.oom)
            wfi_log_text(&c->log, "plan", t.p);
    }
    wfi_text_free(&t);
    wfi_report_free(&r);
}
