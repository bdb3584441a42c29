#include "explain/report.h"
#include <sched.h>
#include <string.h>
#include "graph/body.h"
#include "graph/flow.h"

const wfi_roofs *wfi_report_roofs(wf_ctx *c)
{
    wf_runtime *rt = c->rt;
    for (;;) {
        int known = 0;
        if (atomic_compare_exchange_strong(&rt->roofs_known, &known, 1)) {
            bool ok = rt->device->api->roofs(rt->device, &rt->roofs);
            atomic_store(&rt->roofs_known, ok ? 2 : 0);
            return ok ? &rt->roofs : NULL;
        }
        if (known == 2)
            return &rt->roofs;
        sched_yield(); /* another context measures */
    }
}

static size_t common_folder(const wfi_plan *p)
{
    const char *first = NULL;
    size_t n = 0;
    for (uint32_t i = 0; i < p->nsite; i++) {
        const char *s = p->site[i];
        if (!s)
            continue;
        if (!first) {
            const char *slash = strrchr(first = s, '/');
            n = slash ? (size_t)(slash + 1 - s) : 0;
        }
        size_t same = 0;
        while (same < n && s[same] == first[same])
            same++;
        for (n = same; n && first[n - 1] != '/'; n--)
            ;
    }
    return n;
}

bool wfi_report_make(wf_ctx *c, const wfi_plan *p, wfi_report *r)
{
    *r = (wfi_report){ .c = c, .p = p, .roofs = wfi_report_roofs(c), .time = p->profile, .folder = common_folder(p) };
    r->work = wfi_mem_array(c->mem, (size_t)p->nrun + 1, sizeof *r->work);
    if (!r->roofs || !r->work || !wfi_roofline(c->mem, p, r->roofs, r->work))
        return false;
    if (r->time && !r->time->runs)
        r->time = NULL;
    for (uint32_t i = 0; i < p->nrun; i++) {
        r->all.flops += r->work[i].flops;
        r->all.read += r->work[i].read;
        r->all.written += r->work[i].written;
        r->all.ns += r->work[i].ns;
        r->best += r->time ? r->time->spent[i].best : 0;
        r->mean += r->time ? r->time->spent[i].sum / (double)r->time->runs : 0;
    }
    return true;
}

void wfi_report_free(wfi_report *r)
{
    wfi_mem_free(r->c->mem, r->work);
    r->work = NULL;
}

static void what(const wfi_plan *p, const wfi_node *n, wfi_text *t)
{
    if (n->op == WFI_NODE_FUSED) {
        const wfi_body *b = wfi_attr_data(p->graph.ids, n->payload);
        for (uint32_t q = 0; q < b->nop; q++)
            wfi_text_addf(t, "%s%s", q ? ", " : "", wfi_op_table[b->op[q].op].name);
    } else if (n->op == WFI_NODE_FLOW)
        wfi_text_add(t, wfi_flow_name(wfi_attr_data(p->graph.ids, n->payload)));
    else
        wfi_text_add(t, wfi_op_table[n->op].name);
}

void wfi_report_what(const wfi_plan *p, uint32_t run, wfi_text *t)
{
    const uint32_t from = p->run0[run], to = p->run0[run + 1];
    const bool strips = wfi_plan_strip_of(p, from) != NULL;
    for (uint32_t q = from; q < (strips ? to : from + 1); q++) {
        wfi_text_add(t, q > from ? "; " : "");
        what(p, &p->graph.node[p->cmd_node[q]], t);
    }
    if (to - from > 1 && !strips)
        wfi_text_addf(t, " x%u", (unsigned)(to - from));
}
