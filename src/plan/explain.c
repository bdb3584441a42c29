/* What the last step became, asked from outside. */
#include "plan/plan.h"
#include "record/record.h"

static const char *site(void *user, uint32_t prov)
{
    wf_ctx *c = user;
    uint32_t owner = c->last && prov < c->last->n ? c->last->rec[prov].owner : WFI_NONE;
    wf_tensor *h = prov < c->r.cap ? c->r.H[owner == WFI_NONE ? prov : owner] : NULL;
    return h ? h->site : NULL;
}

const char *wf_explain_plan(wf_ctx *c)
{
    if (!c || !c->last_plan)
        return NULL;
    wfi_text t = { .mem = c->mem };
    wfi_plan_print(c->last_plan, c->last && c->last->plan == c->last_plan ? site : NULL, c, &t);
    wfi_mem_free(c->mem, c->explain);
    c->explain = t.p;
    return t.oom ? NULL : c->explain;
}
