/* A plan as text. */
#include <string.h>
#include "ops/op.h"
#include "passes/graph_text.h"
#include "plan/plan.h"

static const char *const place_name[] = { "-", "arena", "var", "input", "scalar", "host", "const", "fresh", "strip" };

const char *wfi_plan_place_name(uint8_t place)
{
    return place_name[place];
}

static void print_place(const wfi_plan *p, uint32_t v, wfi_text *t)
{
    const wfi_storage *s = &p->storage[p->value_storage[v]];
    const wfi_layout *l = wfi_layout_at(p->graph.ids, p->value_layout[v]);
    wfi_text_addf(t, "v%u@%s", v, place_name[s->place]);
    if (s->place == WFI_PLACE_ARENA || s->place == WFI_PLACE_STRIP)
        wfi_text_addf(t, "+%zu", s->offset);
    else
        wfi_text_addf(t, ".%u", s->id);
    if (!l->contiguous)
        wfi_text_addc(t, '~'); /* not row-major */
}

static void print_values(const wfi_plan *p, const uint32_t *v, uint32_t n, uint32_t first, wfi_text *t)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t x = v ? v[i] : first + i;
        wfi_text_addc(t, ' ');
        if (x == WFI_NO_VALUE)
            wfi_text_addc(t, '_');
        else
            print_place(p, x, t);
    }
}

/* joined: it runs with the command before */
static void print_command(const wfi_plan *p, uint32_t q, bool joined, wfi_text *t)
{
    const wfi_node *n = &p->graph.node[p->cmd_node[q]];
    char type[128];
    wfi_text_addf(t, "%4u%c %-24s", q, joined ? '+' : ' ', p->cmd_impl[q]);
    print_values(p, NULL, n->nout, n->out0, t);
    wfi_text_add(t, " = ");
    wfi_graph_print_op(&p->graph, n, t);
    print_values(p, p->graph.in + n->in0, n->nin, 0, t);
    wfi_text_addf(t, " : %s", wfi_type_text(p->graph.ids, p->graph.value[n->out0].type, type, sizeof type));
}

void wfi_plan_print(const wfi_plan *p, bool lines, wfi_text *t)
{
    wfi_text_addf(t, "plan: %u commands, %zu nodes; arena %zu bytes, at most %zu are live at once", p->ncmd,
                  p->graph.nnode, p->arena, p->bound);
    if (p->bound)
        wfi_text_addf(t, " (%.3f)", (double)p->arena / (double)p->bound);
    size_t kept = 0;
    for (uint32_t i = 0; i < p->nkept; i++)
        kept += p->kept[i].room ? p->kept[i].how->bytes : 0;
    if (kept)
        wfi_text_addf(t, "; %zu bytes of weights are kept in panels", kept);
    wfi_text_addf(t, "; ran %llu times\n", (unsigned long long)p->runs);
    for (uint32_t q = 0, run = 0; q < p->ncmd; q++) {
        run += q == p->run0[run + 1];
        print_command(p, q, q > p->run0[run], t);
        size_t before = t->n;
        if (lines) {
            wfi_text_add(t, "  # ");
            wfi_plan_print_lines(p, &p->graph, &p->graph.node[p->cmd_node[q]], t);
            if (t->n == before + 4)
                wfi_text_cut(t, before);
        }
        wfi_text_addc(t, '\n');
    }
    for (uint32_t i = 0; i < p->nout; i++) {
        const wfi_storage *s = &p->storage[p->out[i].storage];
        wfi_text_addf(t, "%s %u from %s.%u%s\n", p->out[i].assign ? "assign" : "result", p->out[i].id,
                      place_name[s->place], s->id, s->place == WFI_PLACE_VAR && s->written ? ", in place" : "");
    }
}
