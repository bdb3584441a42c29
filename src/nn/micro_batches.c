/* Micro-batches: gradients and weights are added up in variables, so that every one may be a step of its own, and the
 * update divides the sum of all gradients by the sum of all weights. */
#include <string.h>
#include "nn/optimiser.h"

static bool totals(wf_optim *p, const char *site)
{
    for (size_t i = 0; i < p->n && p->c->status == WF_OK; i++) {
        wfi_optim_slot *s = &p->slot[i];
        if (p->grad[i] && !s->total)
            s->total = wfi_optim_state(p, "grad_sum", s->param->path.text, wfi_optim_wide(wf_var_dtype(s->param->var)),
                                       wf_var_dims(s->param->var), site);
    }
    if (!p->total_weight && p->c->status == WF_OK)
        p->total_weight = wfi_optim_state(p, "weight_sum", "", WF_F32, WF_NO_DIMS, site);
    return p->c->status == WF_OK;
}

static void body_accumulate(wf_optim *p, wf_loss loss, const char *site)
{
    wf_ctx *c = p->c;
    if (!wfi_optim_sweep(p, loss, "wf_optim_accumulate", site) || !totals(p, site))
        return;
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++) {
        wf_var *total = p->slot[i].total;
        if (!p->grad[i])
            continue;
        wf_tensor *g = p->grad[i];
        if (wfi_dtype(g) != wf_var_dtype(total))
            g = wf_cast_(g, wf_var_dtype(total), site);
        p->made[i] = wf_add_(wfi_optim_now(c, total, site), g, site);
    }
    wf_tensor *w = wf_add_(wfi_optim_now(c, p->total_weight, site), wfi_optim_weight(c, loss.weight, site), site);
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++)
        if (p->grad[i])
            wf_assign_(p->slot[i].total, p->made[i], site);
    if (c->status == WF_OK)
        wf_assign_(p->total_weight, w, site);
    if (c->status == WF_OK)
        wfi_optim_set_reached(p, p->grad);
}

wf_status wf_optim_accumulate_(wf_optim *p, wf_loss loss, const char *site)
{
    if (!p)
        return WF_ERR_ARG;
    wf_ctx *c = p->c;
    if (!wfi_optim_check(c, loss, "wf_optim_accumulate", site) || !wfi_optim_gather(p))
        return c->status;
    loss.weight = wfi_optim_take(c, loss.weight, site);
    wfi_optim_body o =
        wfi_optim_open(c, WFI_EV_OPTIM, p->id << 2 | WFI_OPTIM_ACCUMULATE, wfi_optim_ordinal(c, loss.sum),
                       wfi_optim_ordinal(c, loss.weight), p->number, site);
    if (o.k.known)
        wfi_optim_read_reached(p, &o.k, true);
    else if (c->status == WF_OK)
        body_accumulate(p, loss, site);
    wf_status st = wfi_optim_close(c, &o, false);
    if (st == WF_OK)
        wfi_optim_count_totals(p, false);
    return st;
}

/* The number of the set of parameters whose totals hold something: part of what the record says, because the body
 * depends on it. UINT32_MAX and a pending error: out of memory. */
static uint32_t set_number(wf_optim *p, const char *site)
{
    wf_ctx *c = p->c;
    if (p->set_bytes < p->n) { /* sets of fewer parameters are no longer comparable, but keep their numbers */
        size_t bytes = p->n;
        uint8_t *sets = wfi_mem_zalloc(c->mem, (p->nset + 1) * bytes);
        if (!sets)
            return wfi_error_memory(c, "an optimiser", site), UINT32_MAX;
        for (size_t i = 0; i < p->nset; i++)
            memcpy(sets + i * bytes, p->sets + i * p->set_bytes, p->set_bytes);
        wfi_mem_free(c->mem, p->sets);
        p->sets = sets;
        p->set_bytes = bytes;
        p->cap_sets = (p->nset + 1) * bytes;
    }
    for (size_t i = 0; i < p->nset; i++) {
        bool same = true;
        for (size_t k = 0; k < p->n && same; k++)
            same = p->sets[i * p->set_bytes + k] == p->slot[k].summed;
        if (same)
            return (uint32_t)i;
    }
    if (!wfi_mem_grow(c->mem, &p->sets, &p->cap_sets, (p->nset + 1) * p->set_bytes, 1))
        return wfi_error_memory(c, "an optimiser", site), UINT32_MAX;
    for (size_t k = 0; k < p->set_bytes; k++)
        p->sets[p->nset * p->set_bytes + k] = k < p->n && p->slot[k].summed;
    return (uint32_t)p->nset++;
}

static void body_totals(wf_optim *p, const char *site)
{
    wf_ctx *c = p->c;
    for (size_t i = 0; i < p->n; i++) {
        const wfi_optim_slot *s = &p->slot[i];
        p->grad[i] = s->summed ? wfi_optim_now(c, s->total, site) : NULL;
        wf_dtype dtype = wf_var_dtype(s->param->var);
        if (p->grad[i] && wfi_dtype(p->grad[i]) != dtype)
            p->grad[i] = wf_cast_(p->grad[i], dtype, site);
    }
    wfi_optim_update(p, p->grad, wfi_optim_now(c, p->total_weight, site), site);
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++) {
        wf_var *total = p->slot[i].total;
        if (p->slot[i].summed)
            wf_assign_(total,
                       wf_broadcast_to_(wfi_emit_const(c, wf_var_dtype(total), 0, site), wf_var_dims(total), site),
                       site);
    }
    if (c->status == WF_OK)
        wf_assign_(p->total_weight, wfi_emit_const(c, WF_F32, 0, site), site);
    if (c->status == WF_OK)
        wfi_optim_set_reached(p, p->grad);
}

wf_status wf_optim_step_accumulated_(wf_optim *p, const char *site)
{
    if (!p)
        return WF_ERR_ARG;
    wf_ctx *c = p->c;
    if (c->status != WF_OK)
        return c->status;
    bool some = false;
    for (size_t i = 0; i < p->n; i++)
        some |= p->slot[i].summed;
    if (!some)
        wfi_error_set(c, WF_ERR_STATE, "wf_optim_step_accumulated", site,
                      "nothing was accumulated: wf_optim_accumulate comes first");
    uint32_t set = c->status == WF_OK ? set_number(p, site) : 0;
    if (c->status != WF_OK)
        return c->status;
    wfi_optim_body o =
        wfi_optim_open(c, WFI_EV_OPTIM, p->id << 2 | WFI_OPTIM_STEP_TOTALS, set, WFI_NONE, p->number, site);
    if (o.k.known)
        wfi_optim_read_reached(p, &o.k, false);
    else if (c->status == WF_OK)
        body_totals(p, site);
    wf_status st = wfi_optim_close(c, &o, false);
    if (st == WF_OK && !c->r.recording_only)
        wfi_optim_count_totals(p, true);
    return st;
}
