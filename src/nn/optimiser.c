/* Optimisers. A step is one composite: gradients by the reverse sweep, one update operator for every parameter that is
 * reached, and the assignments. On a known trace its body is skipped and only the numbers (rates) are refreshed.
 *
 * Everything that a step changes is a variable: moments, totals of micro-batches, and the powers of the betas from
 * which the bias corrections come. So a step whose weight turns out to be 0, a step that fails and a step inside a
 * captured function all leave exactly the state that they should, without the host knowing. */
#include "nn/optimiser.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

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
bool wfi_optim_gather(wf_optim *p)
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
            p->slot[p->n++] = (wfi_optim_slot){ .param = q };
        }
    }
    p->seen = n;
    p->trace = 0;
    return true;
}

/* "optim0.exp_avg.PATH" */
wf_var *wfi_optim_state(wf_optim *p, const char *what, const char *path, wf_dtype dtype, wf_dims dims, const char *site)
{
    char name[WFI_PATH_MAX + 100];
    snprintf(name, sizeof name, "optim%u.%s%s%s", p->id, what, *path ? "." : "", path);
    wf_var *v = wf_var_new_(p->c, name, dtype, dims, NULL, site);
    if (v)
        v->trainable = false;
    return v;
}

wf_dtype wfi_optim_wide(wf_dtype t) /* 16-bit gradients are added up in f32 */
{
    return t == WF_F16 || t == WF_BF16 ? WF_F32 : t;
}

static bool moments(wf_optim *p, wfi_optim_slot *s, const char *site)
{
    const wf_var *w = s->param->var;
    wf_dims dims = wf_var_dims(w);
    wf_dtype dtype = wfi_optim_wide(wf_var_dtype(w));
    const char *path = s->param->path.text;
    if (p->sgd && p->number[WFI_SGD_MOMENTUM] > 0 && !s->m)
        s->m = wfi_optim_state(p, "momentum_buffer", path, dtype, dims, site);
    if (!p->sgd && !s->m)
        s->m = wfi_optim_state(p, "exp_avg", path, dtype, dims, site);
    if (!p->sgd && !s->v)
        s->v = wfi_optim_state(p, "exp_avg_sq", path, dtype, dims, site);
    if (!p->sgd && !p->power) {
        p->power = wfi_optim_state(p, "power", "", WF_F64, WF_DIMS(2), site);
        for (int i = 0; p->power && i < 2; i++)
            ((double *)p->power->buf->data)[i] = 1;
    }
    return p->c->status == WF_OK;
}

/* ---- the body of a step ---- */

/* The value without a place on the tape: an update has no history. */
wf_tensor *wfi_optim_now(wf_ctx *c, wf_var *v, const char *site)
{
    if (!c->run_now)
        return wf_value_(v, site);
    v->buf->refs++;
    return wfi_emit_leaf(c, v->type, v->buf, wfi_ids_dense(&c->ids, v->type), site);
}

/* h with the bias corrections and the weight of this step; *power: the betas' new powers. A weight of 0 is no step. */
static wf_tensor *corrections(wf_optim *p, wf_tensor *h, wf_tensor *weight, wf_tensor **power, const char *site)
{
    wf_tensor *was = wfi_optim_now(p->c, p->power, site), *beta = wf_slice_(h, 0, WFI_ADAMW_BETA1, 2, NULL, site);
    wf_tensor *none = wf_eq_(weight, wfi_like(weight, 0), site);
    *power = wf_where_(none, was, wf_mul_(was, beta, site), site);
    wf_tensor *bias = wf_sub_(wfi_like(h, 1), *power, site);
    wf_tensor *w = wf_reshape_(wf_cast_(weight, WF_F64, site), WF_DIMS(1), site);
    wf_tensor *const part[3] = { wf_slice_(h, 0, 0, WFI_ADAMW_BIAS, NULL, site), bias, w };
    return wf_concat_(3, part, 0, site);
}

static bool update_one(wf_optim *p, size_t i, wf_tensor *g, wf_tensor *weight, wf_tensor *h, const char *site)
{
    wfi_optim_slot *s = &p->slot[i];
    wf_ctx *c = p->c;
    wf_tensor **made = p->made + 3 * i, *w = wfi_optim_now(c, s->param->var, site);
    made[0] = made[1] = made[2] = NULL;
    if (!p->sgd)
        made[0] = wf_adamw_step_(
            w, wfi_optim_now(c, s->m, site), wfi_optim_now(c, s->v, site), g, h,
            WF_OPTS(wf_adamw_step_opts, .decay = wf_var_dims(s->param->var).n >= 2, .m2 = &made[1], .v2 = &made[2]),
            site);
    else if (s->m)
        made[0] =
            wf_sgd_momentum_step_(w, wfi_optim_now(c, s->m, site), g, weight, h,
                                  WF_OPTS(wf_sgd_momentum_step_opts, .nesterov = p->nesterov, .m2 = &made[1]), site);
    else
        made[0] = wf_sgd_step_(w, g, weight, h, site);
    return made[0] != NULL;
}

/* grads[n] of the sum, NULL: not reached. All results are made before anything is assigned. */
void wfi_optim_update(wf_optim *p, wf_tensor *const *grads, wf_tensor *weight, const char *site)
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
        const wfi_optim_slot *s = &p->slot[i];
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

void wfi_optim_set_reached(wf_optim *p, wf_tensor *const *grads)
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
void wfi_optim_read_reached(wf_optim *p, const wfi_composite *k, bool total)
{
    const wf_ctx *c = p->c;
    if (p->trace == c->r.tr->id && p->at == k->at)
        return;
    scan_reached(p, c->r.base, k->at, total);
    p->trace = c->r.tr->id;
    p->at = k->at;
}

void wfi_optim_count_totals(wf_optim *p, bool step)
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
    scan_reached(p, rec, at, what == WFI_OPTIM_ACCUMULATE);
    p->trace = 0;
    if (what >= WFI_OPTIM_ACCUMULATE)
        wfi_optim_count_totals(p, what == WFI_OPTIM_STEP_TOTALS);
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
