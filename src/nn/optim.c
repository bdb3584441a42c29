/* Optimisers. A step is one composite: gradients by the reverse sweep, one update operator for every parameter that is
 * reached, and the assignments. On a known trace its body is skipped and only the numbers (rates) are refreshed.
 *
 * Everything that a step changes is a variable: moments, totals of micro-batches, and the powers of the betas from
 * which the bias corrections come. So a step whose weight turns out to be 0, a step that fails and a step inside a
 * captured function all leave exactly the state that they should, without the host knowing. */
#include "nn/optim.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "nn/model.h"

typedef enum kind { STEP = 0, APPLY = 1, ACCUMULATE = 2, STEP_TOTALS = 3 } kind; /* low bits of the record's payload */

typedef struct slot { /* a parameter that the optimiser looks after */
    wfi_param *param;
    wf_var *m, *v; /* first and second moment; NULL: not needed yet */
    wf_var *total; /* of gradients over micro-batches; NULL: none yet */
    bool reached;  /* by the last step */
    bool summed;   /* the total holds something */
} slot;

struct wf_optim {
    wfi_owned owned;
    wf_ctx *c;
    wf_model *model;
    uint32_t id;
    bool sgd, nesterov;
    double number[WFI_OPTIM_NUMBERS];
    char *only; /* NULL: all */
    slot *slot;
    size_t n, cap;
    uint32_t seen;            /* parameters of the model when slots were gathered */
    wf_var **var;             /* scratch of a step, each [n] */
    wf_tensor **grad, **made; /* made[3 n]: new weight and moments */
    size_t cap_var, cap_grad, cap_made;
    wf_var *power;        /* f64[2]: beta1^t, beta2^t */
    wf_var *total_weight; /* f32[] */
    uint32_t trace, at;   /* the composite whose reach `reached` shows */
    uint8_t *sets;        /* sets of parameters that totals were stepped for: a record names them by number */
    size_t nset, cap_sets, set_bytes;
    wfi_text *unreached;
};

/* ---- making ---- */

static void drop(wfi_owned *o)
{
    wf_optim *p = (wf_optim *)o;
    wf_ctx *c = p->c;
    wfi_nn *nn = c->extra[0];
    if (nn && p->id < nn->nopt)
        nn->opt[p->id] = NULL;
    if (p->unreached)
        wfi_text_free(p->unreached);
    void *const parts[] = { p->only, p->slot, p->var, p->grad, p->made, p->sets, p->unreached, p };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(c->mem, parts[i]);
}

static double real(double v, double otherwise)
{
    return v == WF_ZERO ? 0 : v != 0 ? v : otherwise; /* NOLINT: exact on purpose */
}

/* A name with one * at its end, or a whole path. */
static bool check_only(wf_optim *p, const char *call, const char *only, const char *site)
{
    wf_ctx *c = p->c;
    if (!only)
        return true;
    size_t n = strlen(only);
    const char *star = strchr(only, '*');
    if (!n || (star && star != only + n - 1)) {
        wfi_error_set(c, WF_ERR_ARG, call, site,
                      ".only is \"%.100s\": a path, or a beginning with one * behind it, was expected", only);
        return false;
    }
    p->only = wfi_mem_alloc(c->mem, n + 1);
    if (!p->only)
        return wfi_error_memory(c, "an optimiser", site), false;
    memcpy(p->only, only, n + 1);
    return true;
}

static wf_optim *optim_new(wf_model *m, const char *call, const char *only, bool named, const char *site)
{
    if (!m || m->root->ctx->status != WF_OK)
        return NULL;
    wf_ctx *c = m->root->ctx;
    wfi_nn *nn = wfi_nn_of(c);
    if (!named)
        wfi_error_set(c, WF_ERR_ARG, call, site, "options need names: .lr = 1e-3");
    if (m->root->thawed)
        wfi_error_set(c, WF_ERR_ARG, call, site, "the model has frozen weights, which no optimiser may change");
    if (c->status != WF_OK)
        return NULL;
    wf_optim *p = wfi_mem_zalloc(c->mem, sizeof *p);
    if (!p || !wfi_mem_grow(c->mem, &nn->opt, &nn->cap_opt, nn->nopt + 1, sizeof(wf_optim *))) {
        wfi_mem_free(c->mem, p);
        return wfi_error_memory(c, "an optimiser", site), NULL;
    }
    p->c = c;
    p->model = m;
    p->id = (uint32_t)nn->nopt;
    p->trace = 0;
    p->owned = (wfi_owned){ .drop = drop, .order = 5 };
    p->unreached = wfi_mem_zalloc(c->mem, sizeof *p->unreached);
    if (!p->unreached || !check_only(p, call, only, site)) {
        if (!p->unreached)
            wfi_error_memory(c, "an optimiser", site);
        p->id = UINT32_MAX;
        drop(&p->owned);
        return NULL;
    }
    p->unreached->mem = c->mem;
    nn->opt[nn->nopt++] = p;
    wfi_ctx_own(c, &p->owned);
    return p;
}

static bool in_range(wf_optim *p, const char *call, const char *what, double v, double below, const char *site)
{
    if (v >= 0 && v < below)
        return true;
    char text[WFI_STR_NUMBER];
    wfi_str_f64(text, v);
    wfi_error_set(p->c, WF_ERR_ARG, call, site, ".%s is %s: 0 or more%s was expected", what, text,
                  below == 1 ? ", and less than 1," : "");
    return false;
}

wf_optim *wf_adamw_(wf_model *m, const wf_adamw_opts *o, const char *site)
{
    static const wf_adamw_opts plain;
    o = o ? o : &plain;
    wf_optim *p = optim_new(m, "wf_adamw", o->only, !o->unnamed, site);
    if (!p)
        return NULL;
    p->number[WFI_OPTIM_LR] = real(o->lr, 1e-3);
    p->number[WFI_ADAMW_BETA1] = real(o->beta1, 0.9);
    p->number[WFI_ADAMW_BETA2] = real(o->beta2, 0.999);
    p->number[WFI_ADAMW_EPS] = real(o->eps, 1e-8);
    p->number[WFI_ADAMW_DECAY] = real(o->weight_decay, 0.01);
    bool ok = in_range(p, "wf_adamw", "lr", p->number[WFI_OPTIM_LR], INFINITY, site) &&
              in_range(p, "wf_adamw", "beta1", p->number[WFI_ADAMW_BETA1], 1, site) &&
              in_range(p, "wf_adamw", "beta2", p->number[WFI_ADAMW_BETA2], 1, site) &&
              in_range(p, "wf_adamw", "eps", p->number[WFI_ADAMW_EPS], INFINITY, site) &&
              in_range(p, "wf_adamw", "weight_decay", p->number[WFI_ADAMW_DECAY], INFINITY, site);
    return ok ? p : NULL;
}

wf_optim *wf_sgd_(wf_model *m, const wf_sgd_opts *o, const char *site)
{
    static const wf_sgd_opts plain;
    o = o ? o : &plain;
    wf_optim *p = optim_new(m, "wf_sgd", o->only, !o->unnamed, site);
    if (!p)
        return NULL;
    p->sgd = true;
    p->nesterov = o->nesterov;
    p->number[WFI_OPTIM_LR] = real(o->lr, 1e-2);
    p->number[WFI_SGD_MOMENTUM] = real(o->momentum, 0);
    p->number[WFI_SGD_DECAY] = real(o->weight_decay, 0);
    bool ok = in_range(p, "wf_sgd", "lr", p->number[WFI_OPTIM_LR], INFINITY, site) &&
              in_range(p, "wf_sgd", "momentum", p->number[WFI_SGD_MOMENTUM], INFINITY, site) &&
              in_range(p, "wf_sgd", "weight_decay", p->number[WFI_SGD_DECAY], INFINITY, site);
    if (ok && o->nesterov && p->number[WFI_SGD_MOMENTUM] <= 0) {
        wfi_error_set(p->c, WF_ERR_ARG, "wf_sgd", site, ".nesterov needs a momentum");
        return NULL;
    }
    return ok ? p : NULL;
}

void wf_optim_set_lr(wf_optim *opt, double lr)
{
    if (opt)
        opt->number[WFI_OPTIM_LR] = lr;
}

double wf_optim_lr(const wf_optim *opt)
{
    return opt ? opt->number[WFI_OPTIM_LR] : NAN;
}

/* ---- parameters and their state ---- */

static bool wanted(const wf_optim *p, const wfi_param *q)
{
    if (q->frozen || !q->var->trainable)
        return false;
    if (!p->only)
        return true;
    const char *name = wfi_param_below(p->model, q);
    size_t n = strlen(p->only);
    return p->only[n - 1] == '*' ? !strncmp(name, p->only, n - 1) : !strcmp(name, p->only);
}

/* Parameters made since the last step join. */
static bool gather(wf_optim *p)
{
    wf_ctx *c = p->c;
    const wfi_root *r = p->model->root;
    uint32_t first, n = wfi_params_of(p->model, &first);
    if (n == p->seen)
        return true;
    size_t most = p->n + n;
    if (!wfi_mem_grow(c->mem, &p->slot, &p->cap, most, sizeof *p->slot) ||
        !wfi_mem_grow(c->mem, &p->var, &p->cap_var, most, sizeof *p->var) ||
        !wfi_mem_grow(c->mem, &p->grad, &p->cap_grad, most, sizeof *p->grad) ||
        !wfi_mem_grow(c->mem, &p->made, &p->cap_made, 3 * most, sizeof *p->made))
        return wfi_error_memory(c, "an optimiser", NULL), false;
    size_t had = p->n;
    for (uint32_t i = 0; i < n; i++) {
        wfi_param *q = r->sorted[first + i];
        bool known = !wanted(p, q);
        for (size_t k = 0; k < had && !known; k++)
            known = p->slot[k].param == q;
        if (!known) {
            p->var[p->n] = q->var;
            p->slot[p->n++] = (slot){ .param = q };
        }
    }
    p->seen = n;
    p->trace = 0;
    return true;
}

/* "optim0.exp_avg.PATH" */
static wf_var *state(wf_optim *p, const char *what, const char *path, wf_dtype dtype, wf_dims dims, const char *site)
{
    char name[WFI_PATH_MAX + 100];
    snprintf(name, sizeof name, "optim%u.%s%s%s", p->id, what, *path ? "." : "", path);
    wf_var *v = wf_var_new_(p->c, name, dtype, dims, NULL, site);
    if (v)
        v->trainable = false;
    return v;
}

static wf_dtype wide(wf_dtype t) /* 16-bit gradients are added up in f32 */
{
    return t == WF_F16 || t == WF_BF16 ? WF_F32 : t;
}

static bool moments(wf_optim *p, slot *s, const char *site)
{
    const wf_var *w = s->param->var;
    wf_dims dims = wf_var_dims(w);
    wf_dtype dtype = wide(wf_var_dtype(w));
    const char *path = s->param->path.text;
    if (p->sgd && p->number[WFI_SGD_MOMENTUM] > 0 && !s->m)
        s->m = state(p, "momentum_buffer", path, dtype, dims, site);
    if (!p->sgd && !s->m)
        s->m = state(p, "exp_avg", path, dtype, dims, site);
    if (!p->sgd && !s->v)
        s->v = state(p, "exp_avg_sq", path, dtype, dims, site);
    if (!p->sgd && !p->power) {
        p->power = state(p, "power", "", WF_F64, WF_DIMS(2), site);
        for (int i = 0; p->power && i < 2; i++)
            ((double *)p->power->buf->data)[i] = 1;
    }
    return p->c->status == WF_OK;
}

/* ---- the body of a step ---- */

/* The value without a place on the tape: an update has no history. */
static wf_tensor *now(wf_ctx *c, wf_var *v, const char *site)
{
    if (!c->run_now)
        return wf_value_(v, site);
    v->buf->refs++;
    return wfi_emit_leaf(c, v->type, v->buf, wfi_ids_dense(&c->ids, v->type), site);
}

/* h with the bias corrections and the weight of this step; *power: the betas' new powers. A weight of 0 is no step. */
static wf_tensor *corrections(wf_optim *p, wf_tensor *h, wf_tensor *weight, wf_tensor **power, const char *site)
{
    wf_tensor *was = now(p->c, p->power, site), *beta = wf_slice_(h, 0, WFI_ADAMW_BETA1, 2, NULL, site);
    wf_tensor *none = wf_eq_(weight, wfi_like(weight, 0), site);
    *power = wf_where_(none, was, wf_mul_(was, beta, site), site);
    wf_tensor *bias = wf_sub_(wfi_like(h, 1), *power, site);
    wf_tensor *w = wf_reshape_(wf_cast_(weight, WF_F64, site), WF_DIMS(1), site);
    wf_tensor *const part[3] = { wf_slice_(h, 0, 0, WFI_ADAMW_BIAS, NULL, site), bias, w };
    return wf_concat_(3, part, 0, site);
}

static bool update_one(wf_optim *p, size_t i, wf_tensor *g, wf_tensor *weight, wf_tensor *h, const char *site)
{
    slot *s = &p->slot[i];
    wf_ctx *c = p->c;
    wf_tensor **made = p->made + 3 * i, *w = now(c, s->param->var, site);
    made[0] = made[1] = made[2] = NULL;
    if (!p->sgd)
        made[0] = wf_adamw_step_(
            w, now(c, s->m, site), now(c, s->v, site), g, h,
            WF_OPTS(wf_adamw_step_opts, .decay = wf_var_dims(s->param->var).n >= 2, .m2 = &made[1], .v2 = &made[2]),
            site);
    else if (s->m)
        made[0] =
            wf_sgd_momentum_step_(w, now(c, s->m, site), g, weight, h,
                                  WF_OPTS(wf_sgd_momentum_step_opts, .nesterov = p->nesterov, .m2 = &made[1]), site);
    else
        made[0] = wf_sgd_step_(w, g, weight, h, site);
    return made[0] != NULL;
}

/* grads[n] of the sum, NULL: not reached. All results are made before anything is assigned. */
static void update(wf_optim *p, wf_tensor *const *grads, wf_tensor *weight, const char *site)
{
    wf_ctx *c = p->c;
    wf_tensor *h = wfi_composite_host(c, p->number, 0, WFI_OPTIM_NUMBERS, site), *power = NULL;
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++)
        if (grads[i])
            (void)moments(p, &p->slot[i], site);
    if (!p->sgd && c->status == WF_OK)
        h = corrections(p, h, weight, &power, site);
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++)
        if (grads[i] && !update_one(p, i, grads[i], weight, h, site))
            return;
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++) {
        const slot *s = &p->slot[i];
        if (!grads[i])
            continue;
        wf_assign_(s->param->var, p->made[3 * i], site);
        if (p->made[3 * i + 1])
            wf_assign_(s->m, p->made[3 * i + 1], site);
        if (p->made[3 * i + 2])
            wf_assign_(s->v, p->made[3 * i + 2], site);
    }
    if (power)
        wf_assign_(p->power, power, site);
}

static void set_reached(wf_optim *p, wf_tensor *const *grads)
{
    for (size_t i = 0; i < p->n; i++)
        p->slot[i].reached = grads[i] != NULL;
    p->trace = 0;
}

/* What the body of the composite at rec[at] assigns shows what it reaches. total: totals instead of parameters. */
static void scan_reached(wf_optim *p, const wfi_rec *rec, uint32_t at, bool total)
{
    wf_ctx *c = p->c;
    uint32_t serial = ++c->sweep;
    for (size_t i = 0; i < p->n; i++) {
        wf_var *v = total ? p->slot[i].total : p->slot[i].param->var;
        p->slot[i].reached = false;
        if (v) {
            v->mark = serial;
            v->slot = (uint32_t)i;
        }
    }
    for (uint32_t i = at; i < rec[at].skip; i++) {
        const wfi_rec *r = &rec[i];
        if (WFI_KEY_OP(r->key) != WFI_EV_ASSIGN)
            continue;
        const wf_var *v = c->var[WFI_KEY_PAYLOAD(r->key)];
        if (v->mark == serial)
            p->slot[v->slot].reached = true;
    }
}

/* A body that was skipped. */
static void read_reached(wf_optim *p, const wfi_composite *k, bool total)
{
    const wf_ctx *c = p->c;
    if (p->trace == c->r.tr->id && p->at == k->at)
        return;
    scan_reached(p, c->r.base, k->at, total);
    p->trace = c->r.tr->id;
    p->at = k->at;
}

static void count_totals(wf_optim *p, bool step)
{
    for (size_t i = 0; i < p->n; i++)
        p->slot[i].summed = !step && (p->slot[i].summed || p->slot[i].reached);
}

void wfi_optim_again(wf_ctx *c, const wfi_rec *rec, uint32_t at, double number[WFI_OPTIM_NUMBERS])
{
    const wfi_nn *nn = c->extra[0];
    uint32_t payload = WFI_KEY_PAYLOAD(rec[at].key), id = payload >> 2, what = payload & 3;
    wf_optim *p = nn && id < nn->nopt ? nn->opt[id] : NULL;
    if (!p)
        return;
    memcpy(number, p->number, sizeof p->number);
    scan_reached(p, rec, at, what == ACCUMULATE);
    p->trace = 0;
    if (what >= ACCUMULATE)
        count_totals(p, what == STEP_TOTALS);
}

/* ---- the calls ---- */

typedef struct body { /* around the body of a composite */
    wfi_composite k;
    uint64_t keybits;
    bool notape;
    size_t own;
} body;

static body open_body(wf_ctx *c, uint32_t event, uint32_t payload, uint32_t a, uint32_t b, const double *number,
                      const char *site)
{
    body o = { .keybits = c->keybits, .notape = c->notape, .own = c->nown };
    o.k = wfi_composite_begin(c, event, payload, a, b, number, site);
    c->keybits = WFI_KEY_NOGRAD;
    c->notape = true;
    return o;
}

/* keep: the number of handles that outlive the body (they stand at the end of the scope's list). */
static wf_status close_body(wf_ctx *c, body *o, bool keep)
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

static bool check_loss(wf_ctx *c, wf_loss loss, const char *call, const char *site)
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
static wf_tensor *taken(wf_ctx *c, wf_tensor *t, const char *site)
{
    if (c->run_now)
        return t->flags & WFI_H_WEAK ? wfi_emit_const(c, WF_F32, t->u.weak, site) : t;
    uint32_t ord = wfi_emit_bind(c, t, WF_F32, site);
    return ord == WFI_NONE ? NULL : c->r.H[ord];
}

static uint32_t ordinal(const wf_ctx *c, const wf_tensor *t)
{
    return c->run_now || !t ? WFI_NONE : (uint32_t)t->tag & WFI_NONE;
}

/* The weight as the kernels want it: f32[]. */
static wf_tensor *plain_weight(wf_ctx *c, wf_tensor *w, const char *site)
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

static bool sweep(wf_optim *p, wf_loss loss, const char *call, const char *site)
{
    return wfi_sweep_vars(p->c, (uint32_t)loss.sum->tag & WFI_NONE, (uint32_t)p->n, p->var, p->grad, site) == WF_OK &&
           any(p, p->grad, call, site);
}

static void body_step(wf_optim *p, wf_loss loss, const char *site)
{
    wf_ctx *c = p->c;
    if (sweep(p, loss, "wf_optim_step", site))
        update(p, p->grad, plain_weight(c, loss.weight, site), site);
    if (c->status == WF_OK)
        set_reached(p, p->grad);
}

wf_status wf_optim_step_(wf_optim *p, wf_loss loss, const char *site)
{
    if (!p)
        return WF_ERR_ARG;
    wf_ctx *c = p->c;
    if (!check_loss(c, loss, "wf_optim_step", site) || !gather(p))
        return c->status;
    loss.weight = taken(c, loss.weight, site);
    body o =
        open_body(c, WFI_EV_OPTIM, p->id << 2 | STEP, ordinal(c, loss.sum), ordinal(c, loss.weight), p->number, site);
    if (o.k.known)
        read_reached(p, &o.k, false);
    else if (c->status == WF_OK)
        body_step(p, loss, site);
    return close_body(c, &o, false);
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
    if (!check_loss(c, loss, "wf_grads_of", site))
        return c->status;
    /* which parameters these are is a function of the view and of their number: they only grow */
    body o = open_body(c, WFI_EV_GRAD, 0x80000000u | m->id, ordinal(c, loss.sum), n, NULL, site);
    if (o.k.known)
        wfi_composite_outs(c, &o.k, n, out);
    else if (c->status == WF_OK)
        body_grads(c, m, loss, first, n, out, site);
    return close_body(c, &o, true);
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
        if (p->grad[i] && !(p->grad[i] = taken(c, p->grad[i], site)))
            return;
    for (size_t i = 0; i < p->n && !c->run_now; i += 3)
        if (!wfi_emit_record(c, WFI_KEY(WFI_EV_ARG, 0, 0), ordinal(c, p->grad[i]),
                             i + 1 < p->n ? ordinal(c, p->grad[i + 1]) : WFI_NONE,
                             i + 2 < p->n ? ordinal(c, p->grad[i + 2]) : WFI_NONE, 0, site))
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
    if (c->status != WF_OK || !gather(p) || !sort_grads(p, grads, site) || !any(p, p->grad, "wf_optim_apply", site))
        return c->status;
    weight = weight ? taken(c, weight, site) : NULL;
    name_grads(p, site);
    body o = open_body(c, WFI_EV_OPTIM, p->id << 2 | APPLY, ordinal(c, weight), (uint32_t)p->n, p->number, site);
    if (o.k.known)
        read_reached(p, &o.k, false);
    else if (c->status == WF_OK) {
        update(p, p->grad, plain_weight(c, weight, site), site);
        if (c->status == WF_OK)
            set_reached(p, p->grad);
    }
    return close_body(c, &o, false);
}

/* ---- micro-batches ---- */

static bool totals(wf_optim *p, const char *site)
{
    for (size_t i = 0; i < p->n && p->c->status == WF_OK; i++) {
        slot *s = &p->slot[i];
        if (p->grad[i] && !s->total)
            s->total = state(p, "grad_sum", s->param->path.text, wide(wf_var_dtype(s->param->var)),
                             wf_var_dims(s->param->var), site);
    }
    if (!p->total_weight && p->c->status == WF_OK)
        p->total_weight = state(p, "weight_sum", "", WF_F32, WF_NO_DIMS, site);
    return p->c->status == WF_OK;
}

static void body_accumulate(wf_optim *p, wf_loss loss, const char *site)
{
    wf_ctx *c = p->c;
    if (!sweep(p, loss, "wf_optim_accumulate", site) || !totals(p, site))
        return;
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++) {
        wf_var *total = p->slot[i].total;
        if (!p->grad[i])
            continue;
        wf_tensor *g = p->grad[i];
        if (wfi_dtype(g) != wf_var_dtype(total))
            g = wf_cast_(g, wf_var_dtype(total), site);
        p->made[i] = wf_add_(now(c, total, site), g, site);
    }
    wf_tensor *w = wf_add_(now(c, p->total_weight, site), plain_weight(c, loss.weight, site), site);
    for (size_t i = 0; i < p->n && c->status == WF_OK; i++)
        if (p->grad[i])
            wf_assign_(p->slot[i].total, p->made[i], site);
    if (c->status == WF_OK)
        wf_assign_(p->total_weight, w, site);
    if (c->status == WF_OK)
        set_reached(p, p->grad);
}

wf_status wf_optim_accumulate_(wf_optim *p, wf_loss loss, const char *site)
{
    if (!p)
        return WF_ERR_ARG;
    wf_ctx *c = p->c;
    if (!check_loss(c, loss, "wf_optim_accumulate", site) || !gather(p))
        return c->status;
    loss.weight = taken(c, loss.weight, site);
    body o = open_body(c, WFI_EV_OPTIM, p->id << 2 | ACCUMULATE, ordinal(c, loss.sum), ordinal(c, loss.weight),
                       p->number, site);
    if (o.k.known)
        read_reached(p, &o.k, true);
    else if (c->status == WF_OK)
        body_accumulate(p, loss, site);
    wf_status st = close_body(c, &o, false);
    if (st == WF_OK)
        count_totals(p, false);
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
        const slot *s = &p->slot[i];
        p->grad[i] = s->summed ? now(c, s->total, site) : NULL;
        wf_dtype dtype = wf_var_dtype(s->param->var);
        if (p->grad[i] && wfi_dtype(p->grad[i]) != dtype)
            p->grad[i] = wf_cast_(p->grad[i], dtype, site);
    }
    update(p, p->grad, now(c, p->total_weight, site), site);
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
        set_reached(p, p->grad);
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
    body o = open_body(c, WFI_EV_OPTIM, p->id << 2 | STEP_TOTALS, set, WFI_NONE, p->number, site);
    if (o.k.known)
        read_reached(p, &o.k, false);
    else if (c->status == WF_OK)
        body_totals(p, site);
    wf_status st = close_body(c, &o, false);
    if (st == WF_OK && !c->r.recording_only)
        count_totals(p, true);
    return st;
}

const char *wf_optim_unreached(const wf_optim *p)
{
    if (!p)
        return "";
    wfi_text_cut(p->unreached, 0);
    for (size_t i = 0; i < p->n; i++)
        if (!p->slot[i].reached) {
            if (p->unreached->n)
                wfi_text_addc(p->unreached, '\n');
            wfi_text_add(p->unreached, p->slot[i].param->path.text);
        }
    return wfi_text_str(p->unreached);
}
