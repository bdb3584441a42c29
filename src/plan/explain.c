/* What the last step became, asked from outside. */
#include "plan/sites.h"

const char *wf_explain_plan(wf_ctx *c)
{
    if (!c || !c->last_plan)
        return NULL;
    wfi_text t = { .mem = c->mem };
    if (c->last && c->last->plan == c->last_plan)
        (void)wfi_plan_take_lines(c, c->last_plan, c->last);
    wfi_plan_print(c->last_plan, true, &t);
    wfi_mem_free(c->mem, c->explain);
    c->explain = t.p;
    return t.oom ? NULL : c->explain;
}
