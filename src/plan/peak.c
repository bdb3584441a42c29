/* What holds memory at the peak. */
#include <string.h>
#include "passes/graph_text.h"
#include "plan/plan.h"

uint32_t wfi_plan_peak_of(const wfi_plan *p, size_t *live)
{
    uint32_t at = 0;
    for (uint32_t s = 0; s < p->nstorage; s++)
        if (p->storage[s].place == WFI_PLACE_ARENA) {
            live[p->storage[s].first] += p->storage[s].bytes;
            live[p->storage[s].last + 1] -= p->storage[s].bytes; /* wraps, as the sum does back */
        }
    for (uint32_t q = 1; q < p->ncmd; q++) {
        live[q] += live[q - 1];
        at = live[q] > live[at] ? q : at;
    }
    return at;
}

bool wfi_plan_holds(const wfi_storage *s, uint32_t cmd)
{
    return s->place == WFI_PLACE_ARENA && s->bytes && s->first <= cmd && cmd <= s->last;
}

/* The largest storage alive at a command that is smaller than `before`, or as large and behind it. */
static uint32_t next_largest(const wfi_plan *p, uint32_t cmd, uint32_t before)
{
    uint32_t best = WFI_NO_VALUE;
    for (uint32_t s = 0; s < p->nstorage; s++) {
        const size_t bytes = p->storage[s].bytes;
        if (!wfi_plan_holds(&p->storage[s], cmd) ||
            (before != WFI_NO_VALUE &&
             (bytes > p->storage[before].bytes || (bytes == p->storage[before].bytes && s <= before))))
            continue;
        if (best == WFI_NO_VALUE || bytes > p->storage[best].bytes)
            best = s;
    }
    return best;
}

void wfi_plan_print_mib(wfi_text *t, size_t bytes)
{
    const bool little = bytes < 32 << 10;
    wfi_text_fixed(t, (double)bytes / (little ? 1 << 10 : 1 << 20), bytes < 10 << 20 ? 2 : 0);
    wfi_text_add(t, little ? " KiB" : " MiB");
}

static void print_node(const wfi_plan *p, const wfi_node *n, wfi_text *t)
{
    wfi_graph_print_op(&p->graph, n, t);
    if (n->nout) {
        char type[128];
        wfi_text_addf(t, " : %s", wfi_type_text(p->graph.ids, p->graph.value[n->out0].type, type, sizeof type));
    }
    wfi_text_add(t, "  # ");
    wfi_plan_print_lines(p, &p->graph, n, t);
}

bool wfi_plan_print_peak(const wfi_plan *p, uint32_t most, wfi_text *t)
{
    size_t *live = wfi_mem_zalloc(p->graph.mem, ((size_t)p->ncmd + 2) * sizeof *live), rest = 0;
    if (!live)
        return false;
    const uint32_t at = wfi_plan_peak_of(p, live);
    wfi_text_add(t, "the arena's peak, ");
    wfi_plan_print_mib(t, p->ncmd ? live[at] : 0);
    if (p->ncmd) {
        wfi_text_addf(t, ", is at command %u: ", at);
        print_node(p, &p->graph.node[p->cmd_node[at]], t);
    }
    uint32_t more = 0, s = WFI_NO_VALUE;
    for (uint32_t k = 0; k < p->nstorage; k++)
        if (wfi_plan_holds(&p->storage[k], at)) {
            rest += p->storage[k].bytes;
            more++;
        }
    for (uint32_t n = 0; n < most && (s = next_largest(p, at, s)) != WFI_NO_VALUE; n++) {
        uint32_t v = 0;
        while (p->value_storage[v] != s) /* the first is the one that was computed; views come later */
            v++;
        wfi_text_add(t, "\n    ");
        wfi_plan_print_mib(t, p->storage[s].bytes);
        wfi_text_add(t, "  ");
        print_node(p, &p->graph.node[p->graph.value[v].node], t);
        rest -= p->storage[s].bytes;
        more--;
    }
    if (more) {
        wfi_text_add(t, "\n    ");
        wfi_plan_print_mib(t, rest);
        wfi_text_addf(t, "  in %u more", more);
    }
    wfi_text_addc(t, '\n');
    wfi_mem_free(p->graph.mem, live);
    return true;
}
