/* Neighbouring commands whose kernel may run several nodes at once, and which do not touch each other's memory, are
 * submitted as one: the updates of all parameters of a model, say. What they compute is the same to the bit.
 *
 *       14  cpu.sum                v35@arena+64 = sum v34@arena+0 : f32[32]
 *       15  cpu.optim.sgd          v41@var.1 = sgd_step v1@var.1 v35@arena+64 ...
 *       16+ cpu.optim.sgd          v42@var.0 = sgd_step v0@var.0 v39@arena+256 ...     with the command above */
#include "plan/plan.h"

/* What the run in the making touches. A storage's number is that of the last run (from 1) that did. */
typedef struct joiner {
    wfi_plan *p;
    uint32_t *touched, *written;   /* of each storage */
    uint32_t *arena, *arena_write; /* those in the arena: all of them; the written ones */
    uint32_t narena, narena_write;
} joiner;

typedef struct operands {
    const wfi_plan_arg *arg;
    uint32_t n, nout; /* the first nout are written */
} operands;

static operands operands_of(const wfi_plan *p, uint32_t q)
{
    const wfi_node *n = &p->graph.node[p->cmd_node[q]];
    return (operands){ p->where + (p->cmd[q].args - p->args), n->nout + n->nin, n->nout };
}

static bool meets(const wfi_plan *p, uint32_t s, const uint32_t *list, uint32_t n)
{
    const wfi_storage *a = &p->storage[s];
    for (uint32_t i = 0; i < n; i++) {
        const wfi_storage *b = &p->storage[list[i]];
        if (a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes)
            return true;
    }
    return false;
}

/* Does command q read what the run writes, or write what it touches? */
static bool collides(const joiner *j, uint32_t q, uint32_t run)
{
    const wfi_plan *p = j->p;
    const operands o = operands_of(p, q);
    for (uint32_t i = 0; i < o.n; i++) {
        uint32_t s = o.arg[i].storage;
        const bool writes = i < o.nout;
        if (s == WFI_NO_VALUE)
            continue;
        if ((writes ? j->touched[s] : j->written[s]) == run)
            return true;
        if (p->storage[s].place == WFI_PLACE_ARENA &&
            (writes ? meets(p, s, j->arena, j->narena) : meets(p, s, j->arena_write, j->narena_write)))
            return true;
    }
    return false;
}

static void take(joiner *j, uint32_t q, uint32_t run)
{
    const wfi_plan *p = j->p;
    const operands o = operands_of(p, q);
    for (uint32_t i = 0; i < o.n; i++) {
        uint32_t s = o.arg[i].storage;
        if (s == WFI_NO_VALUE)
            continue;
        if (p->storage[s].place == WFI_PLACE_ARENA && j->touched[s] != run)
            j->arena[j->narena++] = s;
        if (p->storage[s].place == WFI_PLACE_ARENA && i < o.nout && j->written[s] != run)
            j->arena_write[j->narena_write++] = s;
        j->touched[s] = run;
        j->written[s] = i < o.nout ? run : j->written[s];
    }
}

/* Commands [from, to) as one. */
static void put_run(wfi_plan *p, uint32_t from, uint32_t to)
{
    wfi_cmd *r = &p->run[p->nrun];
    wfi_kernel_list *list = &p->list[p->nrun];
    p->run0[p->nrun++] = from;
    *r = p->cmd[from];
    if (to - from == 1)
        return;
    *list = (wfi_kernel_list){ p->item + from, to - from };
    r->fn = p->cmd_list[from];
    r->params = list;
    for (uint32_t q = from; q < to; q++) {
        p->item[q] = (wfi_kernel_item){ p->cmd[q].params, p->cmd[q].args };
        r->bytes = p->cmd[q].bytes > r->bytes ? p->cmd[q].bytes : r->bytes;
    }
}

/* A group that runs strip by strip (strip.c) is one. */
static void put_strips(wfi_plan *p, const wfi_plan_strip *t)
{
    wfi_cmd *r = &p->run[p->nrun];
    p->run0[p->nrun++] = t->from;
    *r = p->cmd[t->from];
    r->fn = wfi_strips_run;
    r->params = &t->s;
    r->bytes = t->bytes;
}

static void join(joiner *j, bool skip)
{
    wfi_plan *p = j->p;
    uint32_t strip = 0;
    for (uint32_t from = 0, to; from < p->ncmd; from = to) {
        if (strip < p->nstrip && p->strip[strip].from == from) {
            to = p->strip[strip].to;
            put_strips(p, &p->strip[strip++]);
            continue;
        }
        const uint32_t run = p->nrun + 1;
        to = from + 1;
        j->narena = j->narena_write = 0;
        if (p->cmd_list[from] && !skip)
            for (take(j, from, run); to < p->ncmd && p->cmd_list[to] == p->cmd_list[from] && !p->cmd[to].faults; to++) {
                if (collides(j, to, run))
                    break;
                take(j, to, run);
            }
        put_run(p, from, to);
    }
    p->run0[p->nrun] = p->ncmd;
}

bool wfi_plan_join(wfi_mem *m, wfi_plan *p)
{
    const size_t n = (size_t)p->ncmd + 1, ns = (size_t)p->nstorage + 1;
    joiner j = { .p = p,
                 .touched = wfi_mem_zalloc(m, ns * sizeof *j.touched),
                 .written = wfi_mem_zalloc(m, ns * sizeof *j.written),
                 .arena = wfi_mem_array(m, ns, sizeof *j.arena),
                 .arena_write = wfi_mem_array(m, ns, sizeof *j.arena_write) };
    p->run = wfi_mem_array(m, n, sizeof *p->run);
    p->run0 = wfi_mem_array(m, n, sizeof *p->run0);
    p->item = wfi_mem_array(m, n, sizeof *p->item);
    p->list = wfi_mem_array(m, n, sizeof *p->list);
    const bool ok = j.touched && j.written && j.arena && j.arena_write && p->run && p->run0 && p->item && p->list;
    if (ok)
        join(&j, wfi_trail_skips(&p->trail, "join", 0) || !p->trace); /* lists have addresses, a function has none */
    wfi_mem_free(m, j.touched);
    wfi_mem_free(m, j.written);
    wfi_mem_free(m, j.arena);
    wfi_mem_free(m, j.arena_write);
    return ok;
}
