/* A step: gradients of the loss, one update for every parameter, the assignments, as one composite; and its parts. */
#include <string.h>
#include "nn/optimiser.h"

wfi_optim_body wfi_optim_open(wf_ctx *c, uint32_t event, uint32_t payload, uint32_t a, uint32_t b, const double *number,
                              const char *site)
{
    wfi_optim_body o = { .keybits = c->keybits, .notape = c->notape, .own = c->nown };
    o.k = wfi_composite_begin(c, event, payload, a, b, number, site);
    c->keybits = WFI_KEY_NOGRAD;
    c->notape = true;
    return o;
}

/* keep: the number of handles that outlive the body (they stand at the end of the scope's list). */
wf_status wfi_optim_close(wf_ctx *c, wfi_optim_body *o, bool keep)
{
    c->keybits = o->keybits;
    c->notape = o->notape;
    while (c->run_now && !keep && c->nown > o->own) { /* temporaries die here */
        wf_tensor *h = c->own[--c->nown];
        if (h) {
            h->own = WFI_NONE;
            wfi_handle_unref(c, h);
        }
    }
    return wfi_composite_end(c, &o->k);
}

bool wfi_optim_check(wf_ctx *c, wf_loss loss, const char *call, const char *site)
{
    const wf_tensor *const part[2] = { loss.sum, loss.weight };
    static const char *const name[2] = { "loss.sum", "loss.weight" };
    char text[96];
    if (c->status != WF_OK)
        return false;
    for (int i = 0; i < 2; i++) {
        const wf_tensor *t = part[i];
        if (!t)
            wfi_error_set(c, WF_ERR_ARG, call, site, "%s is NULL", name[i]);
        else if (t->ctx != c)
            wfi_error_set(c, WF_ERR_ARG, call, site, "%s belongs to another context", name[i]);
        else if (t->flags & WFI_H_DEAD)
            wfi_error_set(c, WF_ERR_STATE, call, site, "%s belongs to a scope that has ended", name[i]);
        else if (!c->in_step || (i == 0 && !wfi_in_step(c, t)))
            wfi_error_set(
                c, WF_ERR_STATE, call, site, "%s",
                c->in_step ? "the loss was not made in this step, or in a no_grad scope: it has no history"
                           : "no step is open, so no history was kept: begin a scope before the forward computation");
        else {
            uint32_t type = wfi_tensor_type(t);
            const wfi_type *ty = type ? wfi_type_at(&c->ids, type) : NULL;
            if (!ty || ty->elements != 1 || ty->dtype > WF_BF16)
                wfi_error_set(c, WF_ERR_SHAPE, call, site, "%s is %s: one element of a float type was expected",
                              name[i], ty ? wfi_type_text(&c->ids, type, text, sizeof text) : "?");
        }
        if (c->status != WF_OK)
            return false;
    }
    return true;
}

/* Taken into the step before the composite begins, a mere number as f32: the body may be skipped. NULL: an error. */
wf_tensor *wfi_optim_take(wf_ctx *c, wf_tensor *t, const char *site)
{
    if (c->run_now)
        return t->flags & WFI_H_WEAK ? wfi_emit_const(c, WF_F32, t->u.weak, site) : t;
    uint32_t ord = wfi_emit_bind(c, t, WF_F32, site);
    return ord == WFI_NONE ? NULL : c->r.H[ord];
}

uint32_t wfi_optim_ordinal(const wf_ctx *c, const wf_tensor *t)
{
    return c->run_now || !t ? WFI_NONE : (uint32_t)t->tag & WFI_NONE;
}

/* The weight as the kernels want it: f32[]. */
wf_tensor *wfi_optim_weight(wf_ctx *c, wf_tensor *w, const char *site)
{
    if (!w)
        return wfi_emit_const(c, WF_F32, 1, site);
    if (wfi_dtype(w) != WF_F32)
        w = wf_cast_(w, WF_F32, site);
    if (w && wfi_shape(w).n)
        w = wf_reshape_(w, WF_NO_DIMS, site);
    return w;
}

static bool any(wf_optim *p, wf_tensor *const *grads, const char *call, const char *site)
{
    for (size_t i = 0; i < p->n; i++)
        if (grads[i])
            return true;
    if (p->c->status == WF_OK)
        wfi_error_set(p->c, WF_ERR_ARG, call, site,
                      p->n ? "the loss depends on none of the optimiser's %zu parameters"
                           : "the optimiser has no parameters (%zu): the model has none that it may change",
                      p->n);
    return false;
}

bool wfi_optim_sweep(wf_optim *p, wf_loss loss, const char *call, const char *site)
{
    return wfi_sweep_vars(p->c, (uint32_t)loss.sum->tag & WFI_NONE, (uint32_t)p->n, p->var, p->grad, site) == WF_OK &&
           any(p, p->grad, call, site);
}

static void body_step(wf_optim *p, wf_loss loss, const char *site)
{
    wf_ctx *c = p->c;
    if (wfi_optim_sweep(p, loss, "wf_optim_step", site))
        wfi_optim_update(p, p->grad, wfi_optim_weight(c, loss.weight, site), site);
    if (c->status == WF_OK)
        wfi_optim_set_reached(p, p->grad);
}

wf_status wf_optim_step_(wf_optim *p, wf_loss loss, const char *site)
{
    if (!p)
        return WF_ERR_ARG;
    wf_ctx *c = p->c;
    if (!wfi_optim_check(c, loss, "wf_optim_step", site) || !wfi_optim_gather(p))
        return c->status;
    loss.weight = wfi_optim_take(c, loss.weight, site);
    wfi_optim_body o = wfi_optim_open(c, WFI_EV_OPTIM, p->id << 2 | WFI_OPTIM_STEP, wfi_optim_ordinal(c, loss.sum),
                                      wfi_optim_ordinal(c, loss.weight), p->number, site);
    if (o.k.known)
        wfi_optim_read_reached(p, &o.k, false);
    else if (c->status == WF_OK)
        body_step(p, loss, site);
    return wfi_optim_close(c, &o, false);
}

/* ---- its parts ---- */

static void body_grads(wf_ctx *c, wf_model *m, wf_loss loss, uint32_t first, uint32_t n, wf_tensor **out,
                       const char *site)
{
    wf_var **var = wfi_mem_array(c->mem, (size_t)n + 1, sizeof *var);
    if (!var) {
        wfi_error_memory(c, "the gradient", site);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        var[i] = m->root->sorted[first + i]->var;
    (void)wfi_sweep_vars(c, (uint32_t)loss.sum->tag & WFI_NONE, n, var, out, site);
    for (uint32_t i = 0; i < n; i++)
        wfi_composite_out(c, out[i], site);
    wfi_mem_free(c->mem, var);
}

wf_status wf_grads_of_(wf_loss loss, wf_model *m, wf_tensor **out, const char *site)
{
    if (!m)
        return WF_ERR_ARG;
    wf_ctx *c = m->root->ctx;
    uint32_t first, n = wfi_params_of(m, &first);
    for (uint32_t i = 0; out && i < n; i++)
        out[i] = NULL;
    if (c->status == WF_OK && !out && n)
        wfi_error_set(c, WF_ERR_ARG, "wf_grads_of", site, "out is NULL: room for %u tensors was expected", n);
    if (!wfi_optim_check(c, loss, "wf_grads_of", site))
        return c->status;
    /* which parameters these are is a function of the view and of their number: they only grow */
    wfi_optim_body o =
        wfi_optim_open(c, WFI_EV_GRAD, 0x80000000u | m->id, wfi_optim_ordinal(c, loss.sum), n, NULL, site);
    if (o.k.known)
        wfi_composite_outs(c, &o.k, n, out);
    else if (c->status == WF_OK)
        body_grads(c, m, loss, first, n, out, site);
    return wfi_optim_close(c, &o, true);
}

/* Gradients in the order of the model -> of the slots. */
static bool sort_grads(wf_optim *p, wf_tensor *const *grads, const char *site)
{
    wf_ctx *c = p->c;
    const wfi_root *r = p->model->root;
    uint32_t first, n = wfi_params_of(p->model, &first);
    uint32_t serial = ++c->sweep;
    for (size_t i = 0; i < p->n; i++) {
        p->grad[i] = NULL;
        p->var[i]->mark = serial;
        p->var[i]->slot = (uint32_t)i;
    }
    for (uint32_t i = 0; i < n; i++) {
        const wf_var *v = r->sorted[first + i]->var;
        wf_tensor *g = grads[i];
        if (!g || v->mark != serial)
            continue;
        if (g->ctx != c || (g->flags & WFI_H_DEAD) || wfi_tensor_type(g) != v->type) {
            char want[96], got[96];
            wfi_error_set(c, WF_ERR_SHAPE, "wf_optim_apply", site, "the gradient for %s (%s) is %s", v->name,
                          wfi_type_text(&c->ids, v->type, want, sizeof want),
                          g->ctx != c || (g->flags & WFI_H_DEAD)
                              ? "of another context or scope"
                              : wfi_type_text(&c->ids, wfi_tensor_type(g), got, sizeof got));
            return false;
        }
        p->grad[v->slot] = g;
    }
    return true;
}

/* Names the gradients in the trace: three a record, before the composite. */
static void name_grads(wf_optim *p, const char *site)
{
    wf_ctx *c = p->c;
    for (size_t i = 0; i < p->n; i++)
        if (p->grad[i] && !(p->grad[i] = wfi_optim_take(c, p->grad[i], site)))
            return;
    for (size_t i = 0; i < p->n && !c->run_now; i += 3)
        if (!wfi_emit_record(c, WFI_KEY(WFI_EV_ARG, 0, 0), wfi_optim_ordinal(c, p->grad[i]),
                             i + 1 < p->n ? wfi_optim_ordinal(c, p->grad[i + 1]) : WFI_NONE,
                             i + 2 < p->n ? wfi_optim_ordinal(c, p->grad[i + 2]) : WFI_NONE, 0, site))
            return;
}

wf_status wf_optim_apply_(wf_optim *p, wf_tensor *const *grads, wf_tensor *weight, const char *site)
{
    if (!p)
        return WF_ERR_ARG;
    wf_ctx *c = p->c;
    if (c->status != WF_OK)
        return c->status;
    if (!grads)
        wfi_error_set(c, WF_ERR_ARG, "wf_optim_apply", site, "the gradients are NULL");
    if (weight && (weight->ctx != c || (weight->flags & WFI_H_DEAD) ||
                   wfi_type_at(&c->ids, wfi_tensor_type(weight))->elements != 1))
        wfi_error_set(c, WF_ERR_SHAPE, "wf_optim_apply", site, "the weight is no single number of this context");
    if (c->status != WF_OK || !wfi_optim_gather(p) || !sort_grads(p, grads, site) ||
        !any(p, p->grad, "wf_optim_apply", site))
        return c->status;
    weight = weight ? wfi_optim_take(c, weight, site) : NULL;
    name_grads(p, site);
    wfi_optim_body o = wfi_optim_open(c, WFI_EV_OPTIM, p->id << 2 | WFI_OPTIM_APPLY, wfi_optim_ordinal(c, weight),
                                      (uint32_t)p->n, p->number, site);
    if (o.k.known)
        wfi_optim_read_reached(p, &o.k, false);
    else if (c->status == WF_OK) {
        wfi_optim_update(p, p->grad, wfi_optim_weight(c, weight, site), site);
        if (c->status == WF_OK)
            wfi_optim_set_reached(p, p->grad);
    }
    return wfi_optim_close(c, &o, false);
}
