/* From a node back to the lines of the program. */
#include <string.h>
#include "plan/sites.h"

bool wfi_plan_take_sites(wf_ctx *c, wfi_plan *p, const wfi_trace *t)
{
    if (!p->site && !(p->site = wfi_mem_zalloc(c->mem, ((size_t)t->n + 1) * sizeof *p->site)))
        return false;
    p->trace = t;
    p->nsite = t->n;
    for (uint32_t i = 0; i < t->n && i < c->r.cap; i++)
        p->site[i] = c->r.H[i] ? c->r.H[i]->site : NULL;
    return true;
}

wfi_line wfi_plan_line(const wfi_plan *p, uint32_t record)
{
    wfi_line line = { NULL, false };
    if (record >= p->nsite)
        return line;
    const wfi_rec *rec = p->trace->rec;
    while (wfi_rec_runs(WFI_KEY_OP(rec[record].key)) && rec[record].skip) {
        record = rec[record].skip - 1; /* always an earlier one */
        line.grad = true;
    }
    line.site = p->site[rec[record].owner == WFI_NONE ? record : rec[record].owner];
    return line;
}

static bool same(wfi_line a, wfi_line b)
{
    return a.grad == b.grad && (a.site == b.site || (a.site && b.site && !strcmp(a.site, b.site)));
}

bool wfi_plan_node_line(const wfi_plan *p, const wfi_graph *g, const wfi_node *n, uint32_t i, wfi_line *line)
{
    const uint32_t *record = n->nmember ? g->member + n->member0 : &n->prov, count = n->nmember ? n->nmember : 1;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t j = 0;
        *line = wfi_plan_line(p, record[k]);
        while (j < k && !same(wfi_plan_line(p, record[j]), *line))
            j++;
        if (line->site && j == k && !i--)
            return true;
    }
    return false;
}

void wfi_plan_print_lines(const wfi_plan *p, const wfi_graph *g, const wfi_node *n, wfi_text *t)
{
    wfi_line line;
    for (uint32_t i = 0; wfi_plan_node_line(p, g, n, i, &line); i++)
        wfi_text_addf(t, "%s%s%s", i ? ", " : "", line.grad ? "gradient of " : "", line.site);
}
