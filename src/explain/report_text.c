/* A report for people: columns, one line a command, then what stayed apart and what the passes did. Numbers do not
 * follow the locale. */
#include <string.h>
#include "explain/report.h"

enum { LINES_MAX = 6, PAIRS_MAX = 3, KINDS_MAX = 12, FREEDOMS_MAX = 24, WHAT_MAX = 28, KERNEL_MAX = 25 };

/* ---- cells ---- */

/* Pads what was added since `from` to a width; numbers stand to the right. */
static void pad(wfi_text *t, size_t from, size_t width, bool right)
{
    const size_t n = t->n - from;
    if (t->oom || n >= width)
        return;
    wfi_text_fill(t, ' ', width - n);
    if (right && !t->oom) {
        memmove(t->p + from + width - n, t->p + from, n);
        memset(t->p + from, ' ', width - n);
    }
}

/* Three digits and a unit: 512, 3.78 k, 1.05 G. */
static void amount(wfi_text *t, double v, size_t width)
{
    static const char units[] = " kMGTPE";
    const size_t from = t->n;
    int u = 0;
    while (v >= 999.5 && units[u + 1]) {
        v /= 1000;
        u++;
    }
    wfi_text_fixed(t, v, !u || v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2);
    wfi_text_addc(t, ' ');
    wfi_text_addc(t, units[u]);
    pad(t, from, width, true);
}

static void micros(wfi_text *t, double ns, size_t width)
{
    const size_t from = t->n;
    const double us = ns / 1e3;
    wfi_text_fixed(t, us, us >= 99.95 ? 0 : us >= 9.995 ? 1 : 2);
    pad(t, from, width, true);
}

static void percent(wfi_text *t, double part, double whole, size_t width)
{
    const size_t from = t->n;
    if (whole > 0) {
        wfi_text_fixed(t, part / whole * 100, 0);
        wfi_text_add(t, " %");
    } else
        wfi_text_addc(t, '-');
    pad(t, from, width, true);
}

static void word(wfi_text *t, const char *s, size_t width)
{
    const size_t from = t->n;
    wfi_text_add(t, s);
    if (t->n - from > width && !t->oom) {
        wfi_text_cut(t, from + width - 3);
        wfi_text_add(t, "...");
    }
    pad(t, from, width, false);
}

/* ---- what stands above ---- */

/* What is computed a second time rather than kept, and whether that was enough. */
static void recomputed(const wfi_plan *p, wfi_text *t)
{
    uint32_t n = 0;
    for (size_t k = 0; k < p->graph.nnode; k++)
        n += p->graph.node[k].op < WFI_NODE_INPUT && p->graph.node[k].flags & WFI_NODE_NO_MERGE;
    if (n)
        wfi_text_addf(t, "; %u values are computed again and not kept", n);
    if (!p->graph.budget)
        return;
    wfi_text_add(t, "; asked for: ");
    amount(t, (double)p->graph.budget, 0);
    wfi_text_add(t, p->arena > p->graph.budget ? "B, which this step cannot be made to fit" : "B");
}

static void head(const wfi_report *r, wfi_text *t)
{
    const wfi_plan *p = r->p;
    wfi_text_addf(t, "step %s: %u commands in %u submissions, from %u records; ran %llu times\n",
                  p->scope ? p->scope : "?", (unsigned)p->ncmd, (unsigned)p->nrun, (unsigned)p->nsite,
                  (unsigned long long)p->runs);
    wfi_text_add(t, "memory: an arena of ");
    amount(t, (double)p->arena, 0);
    wfi_text_add(t, "B; no plan of this order can do with less than ");
    amount(t, (double)p->bound, 0);
    wfi_text_add(t, "B (");
    wfi_text_fixed(t, p->bound ? (double)p->arena / (double)p->bound : 1, 3);
    wfi_text_add(t, " x)");
    recomputed(p, t);
    wfi_text_add(t, "\nruntime: ");
    amount(t, (double)(p->there + p->arena + p->renewed), 0);
    wfi_text_add(t, "B foreseen before the first run, ");
    amount(t, (double)p->taken, 0);
    wfi_text_add(t, "B taken in it");
    wfi_text_addf(t, "\nmachine: %s, %d thread%s: ", r->roofs->name, r->roofs->threads,
                  r->roofs->threads > 1 ? "s" : "");
    amount(t, r->roofs->flops[WF_F32], 0);
    wfi_text_add(t, "flop/s of f32; read and write ");
    for (int i = 0; i < r->roofs->levels; i++) {
        wfi_text_addf(t, "%s%s ", i ? ", " : "", r->roofs->level[i].name);
        wfi_text_fixed(t, r->roofs->level[i].read / 1e9, 0);
        wfi_text_add(t, " and ");
        wfi_text_fixed(t, r->roofs->level[i].write / 1e9, 0);
    }
    wfi_text_add(t, " GB/s\n");
    if (r->folder)
        for (uint32_t i = 0; i < p->nsite; i++)
            if (p->site[i]) {
                wfi_text_addf(t, "lines: of %.*s\n", (int)r->folder, p->site[i]);
                break;
            }
}

static void whole(const wfi_report *r, wfi_text *t)
{
    if (!r->time) {
        wfi_text_add(t, "not timed: WEFT_LOG=plan, or .profile = true when the context is made\n");
        return;
    }
    wfi_text_addf(t, "a replay takes ");
    micros(t, r->time->whole.best, 0);
    wfi_text_add(t, " us at best, ");
    micros(t, r->time->whole.sum / (double)r->time->runs, 0);
    wfi_text_addf(t, " us on average of %llu; commands take ", (unsigned long long)r->time->runs);
    micros(t, r->best, 0);
    wfi_text_add(t, " us of it, and ");
    micros(t, r->all.ns, 0);
    wfi_text_add(t, " us at least on this machine\n");
}

/* ---- commands ---- */

static bool stood_before(const wfi_report *r, uint32_t run, uint32_t q, const wfi_line *line)
{
    const wfi_plan *p = r->p;
    wfi_line other;
    for (uint32_t k = p->run0[run]; k < q; k++)
        for (uint32_t i = 0; wfi_plan_node_line(p, &p->graph, &p->graph.node[p->cmd_node[k]], i, &other); i++)
            if (other.grad == line->grad && !strcmp(other.site, line->site))
                return true;
    return false;
}

static void lines_of_run(const wfi_report *r, uint32_t run, wfi_text *t)
{
    const wfi_plan *p = r->p;
    uint32_t n = 0;
    wfi_line line;
    for (uint32_t q = p->run0[run]; q < p->run0[run + 1]; q++)
        for (uint32_t i = 0; wfi_plan_node_line(p, &p->graph, &p->graph.node[p->cmd_node[q]], i, &line); i++) {
            if (stood_before(r, run, q, &line))
                continue;
            if (n < LINES_MAX)
                wfi_text_addf(t, "%s%s%s", n ? ", " : "", line.grad ? "gradient of " : "", line.site + r->folder);
            n++;
        }
    if (n > LINES_MAX)
        wfi_text_addf(t, " and %u more", (unsigned)(n - LINES_MAX));
}

/* "cpu.gemm"; "cpu.fused: generated C"; "in 64 strips" */
static void kernel(const wfi_plan *p, uint32_t q, wfi_text *t)
{
    const wfi_plan_strip *strip = wfi_plan_strip_of(p, q);
    wfi_text k = { .mem = t->mem };
    if (strip)
        wfi_text_addf(&k, "in %lld strips", (long long)strip->s.count);
    else
        wfi_text_add(&k, p->cmd_impl[q]);
    if (p->cmd_how[q] && !strip)
        wfi_text_addf(&k, ": %s", atomic_load_explicit(p->cmd_how[q], memory_order_acquire));
    word(t, wfi_text_str(&k), KERNEL_MAX);
    t->oom |= k.oom;
    wfi_text_free(&k);
}

static void row(const wfi_report *r, uint32_t run, wfi_text *t)
{
    const wfi_plan *p = r->p;
    const uint32_t q = p->run0[run], result = wfi_plan_strip_of(p, q) ? p->run0[run + 1] - 1 : q;
    const wfi_node *n = &p->graph.node[p->cmd_node[result]];
    const wfi_work *w = &r->work[run];
    const double best = r->time ? r->time->spent[run].best : 0;
    wfi_text what = { .mem = t->mem };
    char type[192];
    wfi_text_addf(t, "%4u", (unsigned)q);
    if (r->time) {
        micros(t, best, 10);
        micros(t, r->time->spent[run].sum / (double)r->time->runs, 10);
        percent(t, best, r->best, 7);
    }
    micros(t, w->ns, 10);
    if (r->time)
        percent(t, w->ns, best, 8);
    wfi_text_add(t, "  ");
    word(t, w->by, 7);
    amount(t, w->read + w->written, 9);
    amount(t, w->flops, 9);
    wfi_text_add(t, "  ");
    kernel(p, q, t);
    wfi_text_addc(t, ' ');
    wfi_report_what(p, run, &what);
    word(t, wfi_text_str(&what), WHAT_MAX);
    wfi_text_addc(t, ' ');
    word(t, wfi_type_text(p->graph.ids, p->graph.value[n->out0].type, type, sizeof type), 20);
    wfi_text_addc(t, ' ');
    lines_of_run(r, run, t);
    wfi_text_addc(t, '\n');
    t->oom |= what.oom;
    wfi_text_free(&what);
}

static void commands(const wfi_report *r, wfi_text *t)
{
    wfi_text_addf(t, "%s  least us%s  by         bytes     flop  %-*s %-*s %-20s lines\n",
                  r->time ? "   #   best us   mean us  share" : "   #", r->time ? " of roof" : "", KERNEL_MAX, "kernel",
                  WHAT_MAX, "what", "result");
    for (uint32_t i = 0; i < r->p->nrun; i++)
        row(r, i, t);
    wfi_text_add(t, " all");
    if (r->time) {
        micros(t, r->best, 10);
        micros(t, r->mean, 10);
        percent(t, r->best, r->best, 7);
    }
    micros(t, r->all.ns, 10);
    if (r->time)
        percent(t, r->all.ns, r->best, 8);
    wfi_text_fill(t, ' ', 9);
    amount(t, r->all.read + r->all.written, 9);
    amount(t, r->all.flops, 9);
    wfi_text_addc(t, '\n');
}

/* ---- what stayed apart ---- */

static bool same_kind(const wfi_note *a, const wfi_note *b)
{
    return a->why == b->why && a->op[0] == b->op[0] && a->op[1] == b->op[1];
}

static void pair(const wfi_report *r, const wfi_note *n, wfi_text *t)
{
    for (int i = 0; i < 2; i++) {
        wfi_line line = wfi_plan_line(r->p, n->prov[i]);
        wfi_text_addf(t, "%s%s%s", i ? " -> " : "", line.grad ? "gradient of " : "",
                      line.site ? line.site + r->folder : "?");
    }
}

/* Bytes of the value that goes through memory. */
static double note_bytes(const wfi_report *r, const wfi_note *n)
{
    const wfi_plan *p = r->p;
    const uint32_t type = n->prov[0] < p->nsite ? p->trace->rec[n->prov[0]].type : 0;
    return type ? (double)wfi_type_at(p->graph.ids, type)->bytes : 0;
}

/* The group that runs strip by strip with the node of this record. */
static const wfi_plan_strip *strip_with(const wfi_plan *p, uint32_t prov)
{
    for (uint32_t i = 0; i < p->nstrip; i++)
        for (uint32_t q = p->strip[i].from; q < p->strip[i].to; q++) {
            const wfi_node *n = &p->graph.node[p->cmd_node[q]];
            for (uint32_t m = 0; m < n->nmember; m++)
                if (p->graph.member[n->member0 + m] == prov)
                    return &p->strip[i];
            if (n->prov == prov)
                return &p->strip[i];
        }
    return NULL;
}

/* Both run in the same strips: what one makes for the other stays in the caches. */
static bool together(const wfi_plan *p, const wfi_note *n)
{
    const wfi_plan_strip *a = p->nstrip ? strip_with(p, n->prov[0]) : NULL;
    return a && a == strip_with(p, n->prov[1]);
}

typedef struct kind { /* notes that are alike */
    size_t first, count;
    double bytes;
} kind;

/* whole_values: what is not made in parts, and not what is no one kernel. */
static size_t list_kinds(const wfi_report *r, kind *k, bool whole_values)
{
    const wfi_trail *trail = &r->p->trail;
    size_t n = 0;
    for (size_t i = 0; i < trail->nnote; i++) {
        size_t at = 0;
        if (together(r->p, &trail->note[i]) || (trail->note[i].why->pass != NULL) != whole_values)
            continue;
        while (at < n && !same_kind(&trail->note[k[at].first], &trail->note[i]))
            at++;
        if (at == n)
            k[n++] = (kind){ .first = i };
        k[at].count++;
        k[at].bytes += note_bytes(r, &trail->note[i]);
    }
    return n;
}

static void write_kind(const wfi_report *r, const kind *k, wfi_text *t)
{
    const wfi_trail *trail = &r->p->trail;
    const wfi_note *n = &trail->note[k->first];
    size_t shown = 0;
    amount(t, k->bytes, 9);
    wfi_text_addf(t, "B  %s -> %s: %s, %s; ", wfi_op_table[n->op[0]].name, wfi_op_table[n->op[1]].name, n->why->code,
                  n->why->text);
    for (size_t i = k->first; i < trail->nnote && shown < PAIRS_MAX; i++)
        if (same_kind(&trail->note[i], n)) {
            wfi_text_add(t, shown++ ? ", " : "");
            pair(r, &trail->note[i], t);
        }
    if (k->count > PAIRS_MAX)
        wfi_text_addf(t, " and %zu more", k->count - PAIRS_MAX);
    wfi_text_addc(t, '\n');
}

/* The kinds with most bytes first. */
static void apart(const wfi_report *r, bool whole_values, wfi_text *t)
{
    kind *k = wfi_mem_array(t->mem, r->p->trail.nnote + 1, sizeof *k);
    size_t n = k ? list_kinds(r, k, whole_values) : 0;
    if (n)
        wfi_text_add(t, whole_values ? "large, and not made in parts, because:\n"
                                     : "through memory, because they are not one kernel:\n");
    for (size_t i = 0; i < n && i < KINDS_MAX; i++) {
        size_t most = i;
        for (size_t at = i; at < n; at++)
            most = k[at].bytes > k[most].bytes ? at : most;
        const kind top = k[most];
        k[most] = k[i];
        k[i] = top;
        write_kind(r, &top, t);
    }
    if (n > KINDS_MAX)
        wfi_text_addf(t, "  and %zu kinds more (WEFT_LOG=fusion lists all)\n", n - KINDS_MAX);
    t->oom |= !k;
    wfi_mem_free(t->mem, k);
}

/* What strict would have computed in another way. */
static void freedoms(const wfi_report *r, wfi_text *t)
{
    const wfi_trail *trail = &r->p->trail;
    for (size_t i = 0; i < trail->nfreedom; i++) {
        const wfi_freedom *f = &trail->freedom[i];
        const wfi_line line = wfi_plan_line(r->p, f->prov);
        if (!i)
            wfi_text_add(t, "freedoms of the contract fast:\n");
        if (i == FREEDOMS_MAX) {
            wfi_text_addf(t, "  and %zu more\n", trail->nfreedom - i);
            break;
        }
        wfi_text_addf(t, "  %s: %s, %s; %s%s\n", wfi_op_table[f->op].name, f->what->code, f->what->text,
                      line.grad ? "gradient of " : "", line.site ? line.site + r->folder : "?");
    }
}

static void passes(const wfi_report *r, wfi_text *t)
{
    const wfi_trail *trail = &r->p->trail;
    double all = 0;
    wfi_text_add(t, "making the plan:");
    for (uint32_t i = 0; i < trail->ntime; i++) {
        const wfi_pass_time *s = &trail->time[i];
        wfi_text_addf(t, "%s %s %u -> %u in ", i ? "," : "", s->pass, (unsigned)s->before, (unsigned)s->after);
        micros(t, (double)s->ns, 0);
        all += (double)s->ns;
    }
    wfi_text_add(t, "; ");
    micros(t, all, 0);
    wfi_text_add(t, " us\n");
}

void wfi_report_text(const wfi_report *r, wfi_text *t)
{
    head(r, t);
    whole(r, t);
    commands(r, t);
    apart(r, false, t);
    apart(r, true, t);
    freedoms(r, t);
    if (r->p->arena >= 1 << 20)
        (void)wfi_plan_print_peak(r->p, 8, t);
    passes(r, t);
}
