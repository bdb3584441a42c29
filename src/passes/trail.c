#include "passes/trail.h"
#include <stdio.h>
#include <string.h>
#include "base/log.h"

bool wfi_trail_skips(const wfi_trail *t, const char *pass, uint32_t item)
{
    char name[64];
    if (!t || !t->skip)
        return false;
    int n =
        item ? snprintf(name, sizeof name, "%s:%08x", pass, (unsigned)item) : snprintf(name, sizeof name, "%s", pass);
    return wfi_list_has(t->skip, name, (size_t)n);
}

void wfi_trail_note(wfi_trail *t, const wfi_reason *why, const wfi_graph *g, uint32_t make, uint32_t use)
{
    if (!t || !wfi_mem_grow(t->mem, &t->note, &t->cap_note, t->nnote + 1, sizeof *t->note))
        return;
    const wfi_node *a = &g->node[make], *b = &g->node[use];
    t->note[t->nnote++] = (wfi_note){ why, { a->op, b->op }, { a->prov, b->prov } };
}

void wfi_trail_freedom(wfi_trail *t, const wfi_reason *what, const wfi_node *n)
{
    if (t && wfi_mem_grow(t->mem, &t->freedom, &t->cap_freedom, t->nfreedom + 1, sizeof *t->freedom))
        t->freedom[t->nfreedom++] = (wfi_freedom){ what, n->op, n->prov };
}

void wfi_trail_time(wfi_trail *t, const char *pass, uint64_t ns, size_t before, size_t after)
{
    if (t && t->ntime < WFI_TRAIL_PASSES)
        t->time[t->ntime++] = (wfi_pass_time){ pass, ns, (uint32_t)before, (uint32_t)after };
}

void wfi_trail_free(wfi_trail *t)
{
    wfi_mem_free(t->mem, t->note);
    wfi_mem_free(t->mem, t->freedom);
    t->note = NULL;
    t->freedom = NULL;
    t->nnote = t->cap_note = t->nfreedom = t->cap_freedom = 0;
}
