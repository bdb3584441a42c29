/* Operands that a kernel rearranges before it computes, weights into panels say, are kept rearranged from run to run
 * where nothing but a variable stands behind them and the step leaves that alone: in inference. They are rearranged
 * again when the variable has changed, before the commands of the run. What is computed is the same to the bit. */
#include "plan/plan.h"

/* Does the step give the variable another value? */
static bool changes(const wfi_plan *p, uint32_t var)
{
    for (uint32_t i = 0; i < p->nout; i++)
        if (p->out[i].assign && p->out[i].id == var)
            return true;
    return false;
}

static bool wanted(const wfi_plan *p, uint32_t q, uint32_t *var)
{
    const wfi_node *n = &p->graph.node[p->cmd_node[q]];
    if (!p->cmd_keep[q] || wfi_plan_strip_of(p, q))
        return false;
    const uint32_t v = p->graph.in[n->in0 + (uint32_t)p->cmd_keep[q]->operand];
    const wfi_storage *s = &p->storage[p->value_storage[v]];
    *var = s->id;
    return s->place == WFI_PLACE_VAR && !s->written && !changes(p, s->id);
}

bool wfi_plan_keep(wfi_mem *m, wfi_plan *p)
{
    uint32_t n = 0, var;
    if (wfi_trail_skips(&p->trail, "keep", 0))
        return true;
    for (uint32_t q = 0; q < p->ncmd; q++)
        n += wanted(p, q, &var);
    if (n && !(p->kept = wfi_mem_array(m, n, sizeof *p->kept)))
        return false;
    for (uint32_t q = 0; q < p->ncmd; q++)
        if (wanted(p, q, &var))
            p->kept[p->nkept++] = (wfi_kept){ .cmd = q, .var = var, .how = p->cmd_keep[q], .version = UINT64_MAX };
    return true;
}

void wfi_plan_keep_room(wfi_mem *m, wfi_plan *p)
{
    for (uint32_t i = 0, run = 0; i < p->nkept; i++) {
        wfi_kept *k = &p->kept[i];
        const wfi_node *n = &p->graph.node[p->cmd_node[k->cmd]];
        if (!(k->room = wfi_mem_alloc(m, k->how->bytes)))
            continue;
        while (p->run0[run + 1] <= k->cmd)
            run++;
        p->args[(p->cmd[k->cmd].args - p->args) + n->nout + n->nin] = k->room;
        p->cmd[k->cmd].fn = k->how->fn;
        p->run[run].fn = k->how->fn;
    }
}
