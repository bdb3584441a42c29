/* The reverse sweep: from a loss back over the records of the step, calling each operator's rule. The rules are
 * written with the public builders, so gradients run or are recorded like anything else, and gradients of gradients
 * are ordinary. Shapes are fitted here: a rule may ignore broadcasting. */
#include <string.h>
#include "record/record.h"

typedef struct sweep {
    wf_ctx *c;
    uint32_t loss;
    const char *site;
    uint32_t vars; /* their mark, where gradients of variables are wanted; else 0 */
} sweep;

static bool is_float(const wf_ctx *c, uint32_t type)
{
    return type && wfi_type_at(&c->ids, type)->dtype <= WF_BF16;
}

/* In a lazy step the handle of a record inside a skipped body has not been handed out yet. */
static wf_tensor *handle(wf_ctx *c, uint32_t ord)
{
    wf_tensor *h = ord == WFI_NONE ? NULL : c->r.H[ord];
    if (h && !c->run_now)
        h->tag = c->r.stag | ord;
    return h;
}

static void set_adj(wf_ctx *c, uint32_t ord, wf_tensor *g)
{
    wf_tensor *was = c->adj[ord];
    c->adj[ord] = g;
    if (c->run_now) {
        if (g)
            g->refs++;
        if (was)
            wfi_handle_unref(c, was);
    }
}

/* Sums or repeats g so that it has the shape `want`. */
static wf_tensor *fit(wf_tensor *g, wf_dims want, const char *site)
{
    wf_dims have = wfi_shape(g), sum = WF_NO_DIMS, shape = want;
    int32_t extra = have.n - want.n;
    bool same = extra == 0 && !memcmp(have.d, want.d, (size_t)want.n * sizeof want.d[0]);
    if (same)
        return g;
    for (int32_t i = 0; i < have.n; i++)
        if (i < extra || (want.d[i - extra] == 1 && have.d[i] != 1))
            sum.d[sum.n++] = i;
    if (sum.n)
        g = wf_sum_(g, sum, WF_OPTS(wf_sum_opts, .keep = extra <= 0), site);
    if (g && extra > 0 && wfi_shape(g).n != want.n)
        g = wf_reshape_(g, want, site);
    have = wfi_shape(g);
    if (g && (have.n != shape.n || memcmp(have.d, shape.d, (size_t)shape.n * sizeof shape.d[0])))
        g = wf_broadcast_to_(g, shape, site);
    return g;
}

static void add_to(sweep *s, uint32_t ord, wf_tensor *g)
{
    wf_ctx *c = s->c;
    uint32_t type = c->r.base[ord].type;
    if (g && wfi_tensor_type(g) != type) {
        const wfi_type *t = wfi_type_at(&c->ids, type);
        wf_dims want = { t->ndim, { 0 } };
        memcpy(want.d, t->dim, sizeof want.d);
        g = fit(g, want, s->site);
    }
    if (g && c->adj[ord])
        g = wf_add_(c->adj[ord], g, s->site);
    if (g)
        set_adj(c, ord, g);
}

static void lowered_rule(sweep *s, const wf_vjp *v, const wfi_op_info *op);

void wfi_grad_lowered(const wf_vjp *v)
{
    (void)v; /* a mark: the sweep takes the lowering apart instead of calling a rule */
}

static uint32_t records(const wf_ctx *c)
{
    return c->r.tr ? (uint32_t)(c->r.cursor - c->r.base) : c->r.n;
}

/* Operators from record lo on belong to the gradient of record i: that tells the line they come from. */
static void mark_rule(wf_ctx *c, uint32_t lo, uint32_t i)
{
    for (uint32_t k = lo; !c->run_now && !c->r.tr && k < c->r.n; k++)
        if (wfi_rec_runs(WFI_KEY_OP(c->r.scratch[k].key)) && !c->r.scratch[k].skip)
            c->r.scratch[k].skip = i + 1;
}

static void one_rule(sweep *s, uint32_t i)
{
    wf_ctx *c = s->c;
    wfi_rec r = c->r.base[i];
    const wfi_op_info *op = WFI_KEY_OP(r.key) < WFI_OP_COUNT ? &wfi_op_table[WFI_KEY_OP(r.key)] : NULL;
    uint32_t in[WFI_NODE_INS], nin = wfi_run_operands(c->r.base, i, in), nout = wfi_rec_nout(&c->ids, r.key);
    wf_tensor *hin[WFI_NODE_INS], *gin[WFI_NODE_INS], *out[WFI_NODE_OUTS], *gout[WFI_NODE_OUTS];
    bool want[WFI_NODE_INS], any = false;
    for (uint32_t k = 0; k < nin; k++) {
        hin[k] = handle(c, in[k]);
        gin[k] = NULL;
        want[k] = in[k] != WFI_NONE && c->mark[in[k]];
    }
    for (uint32_t k = 0; k < nout; k++) {
        out[k] = handle(c, i + k);
        gout[k] = c->adj[i + k];
        any |= gout[k] != NULL;
    }
    if (!any || (op && !op->def->grad))
        return;
    size_t mark = c->nown;
    uint32_t lo = records(c);
    wf_vjp v = { .in = hin,
                 .nin = (int32_t)nin,
                 .nout = (int32_t)nout,
                 .y = out[0],
                 .g = gout[0],
                 .out = out,
                 .gout = gout,
                 .want = want,
                 .gin = gin,
                 .a = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(r.key)),
                 .site = s->site };
    if (!op)
        wfi_flow_rule(c, (const wfi_flow *)v.a, &v);
    else if (op->def->grad == wfi_grad_lowered)
        lowered_rule(s, &v, op);
    else
        op->def->grad(&v);
    for (uint32_t k = 0; k < nin && c->status == WF_OK; k++)
        if (want[k] && gin[k])
            add_to(s, in[k], gin[k]);
    mark_rule(c, lo, i);
    if (c->run_now) /* temporaries of the rule die here */
        while (c->nown > mark) {
            wf_tensor *h = c->own[--c->nown];
            if (h) {
                h->own = WFI_NONE;
                wfi_handle_unref(c, h);
            }
        }
}

/* c->mark[i]: a wanted leaf is reached from record i. The caller has marked the leaves. */
static void spread_need(wf_ctx *c, uint32_t lo, uint32_t hi)
{
    uint32_t *need = c->mark;
    bool parts = false;
    for (uint32_t i = lo; i <= hi; i++) {
        const wfi_rec *r = &c->r.base[i];
        uint32_t op = WFI_KEY_OP(r->key), in[WFI_NODE_INS], nin = 0;
        parts |= op == WFI_EV_PART;
        if (need[i] || (r->key & WFI_KEY_NOGRAD && wfi_rec_runs(op)) || (!is_float(c, r->type) && op != WFI_EV_FLOW))
            continue;
        if (wfi_rec_runs(op)) {
            nin = wfi_run_operands(c->r.base, i, in);
            if (op < WFI_OP_COUNT && !wfi_op_table[op].def->grad)
                continue;
        } else if (op == WFI_EV_PART || (op == WFI_EV_VALUE && r->in[0] != WFI_NONE))
            in[nin++] = r->in[0];
        for (uint32_t k = 0; k < nin; k++)
            need[i] |= in[k] != WFI_NONE && need[in[k]];
    }
    for (uint32_t i = lo; parts && i <= hi; i++) { /* later results of a node, where only they are differentiable */
        const wfi_rec *r = &c->r.base[i];
        uint32_t op = WFI_KEY_OP(r->key);
        for (uint32_t k = 1, n = wfi_rec_runs(op) ? wfi_rec_nout(&c->ids, r->key) : 0; k < n && i + k <= hi; k++)
            need[i] |= need[i + k];
    }
}

/* Room for records lo .. hi, cleared. */
static bool clear(sweep *s, uint32_t lo, uint32_t hi)
{
    wf_ctx *c = s->c;
    size_t n = (size_t)hi + 1 + WFI_NODE_OUTS;
    if (!wfi_mem_grow(c->mem, &c->mark, &c->cap_mark, n, sizeof *c->mark) ||
        !wfi_mem_grow(c->mem, &c->adj, &c->cap_adj, n, sizeof *c->adj)) {
        wfi_error_memory(c, "the gradient", s->site);
        return false;
    }
    memset(c->mark + lo, 0, (n - lo) * sizeof *c->mark);
    memset(c->adj + lo, 0, (n - lo) * sizeof *c->adj);
    return true;
}

/* Rules of records hi .. lo, last first. */
static void walk(sweep *s, uint32_t lo, uint32_t hi)
{
    wf_ctx *c = s->c;
    for (uint32_t i = hi + 1; i-- > lo && c->status == WF_OK;) {
        uint32_t op = WFI_KEY_OP(c->r.base[i].key), from = c->r.base[i].in[0];
        if (!c->mark[i])
            continue;
        if (wfi_rec_runs(op))
            one_rule(s, i);
        else if (op == WFI_EV_VALUE && from != WFI_NONE && c->adj[i] && c->mark[from] && !(s->vars && c->mark[i] == 2))
            add_to(s, from, c->adj[i]);
        if (wfi_rec_runs(op) && c->run_now && c->mark[i] != 2) /* an adjoint dies after its last use */
            set_adj(c, i, NULL);
    }
}

/* The gradient of a composite without a rule of its own: its lowering is recorded again behind everything else, and
 * swept like the rest; what reaches the operands goes to their adjoints. */
static void lowered_rule(sweep *s, const wf_vjp *v, const wfi_op_info *op)
{
    wf_ctx *c = s->c;
    bool notape = c->notape;
    uint64_t keybits = c->keybits;
    wf_tensor *out[WFI_BIND_OUT] = { NULL };
    uint32_t lo = records(c);
    c->notape = false;
    c->keybits = 0;
    wf_args a = { .in = v->in, .nin = v->nin, .a = v->a, .site = s->site, .out = out };
    out[0] = op->def->lower(&a);
    c->notape = notape;
    c->keybits = keybits;
    uint32_t n = records(c);
    if (c->status != WF_OK || n == lo || !clear(s, lo, n - 1))
        return;
    spread_need(c, lo, n - 1);
    for (int32_t k = 0; k < v->nout; k++) {
        uint32_t ord = out[k] ? (uint32_t)out[k]->tag & WFI_NONE : WFI_NONE;
        if (ord != WFI_NONE && ord >= lo && v->gout[k] && c->mark[ord])
            set_adj(c, ord, v->gout[k]);
    }
    walk(s, lo, n - 1);
    for (uint32_t i = lo; i < n; i++)
        set_adj(c, i, NULL);
}

static void backward(sweep *s)
{
    wf_ctx *c = s->c;
    spread_need(c, 0, s->loss);
    if (!c->mark[s->loss] || c->status != WF_OK)
        return;
    const wfi_type *t = wfi_type_at(&c->ids, c->r.base[s->loss].type);
    wf_dims shape = { t->ndim, { 0 } };
    memcpy(shape.d, t->dim, sizeof shape.d);
    wf_tensor *one = wfi_emit_const(c, t->dtype, 1, s->site);
    set_adj(c, s->loss, one ? fit(one, shape, s->site) : NULL);
    walk(s, 0, s->loss);
}

/* Results belong to the scope; everything else that the sweep held is let go. */
static wf_tensor *take(wf_ctx *c, wf_tensor *g)
{
    if (c->run_now && g && g->own == WFI_NONE) {
        g->refs++;
        if (!wfi_handle_own(c, g)) {
            wfi_handle_unref(c, g);
            return NULL;
        }
    }
    return g;
}

static void finish(sweep *s)
{
    for (uint32_t i = 0; i <= s->loss; i++)
        set_adj(s->c, i, NULL);
}

/* Every value that a wanted variable had in this step is a leaf, also one that was assigned before in this step. */
static void want_vars(wf_ctx *c, uint32_t loss, uint32_t serial)
{
    for (uint32_t i = 0; i <= loss; i++) {
        const wfi_rec *r = &c->r.base[i];
        if (WFI_KEY_OP(r->key) == WFI_EV_VALUE)
            c->mark[i] = c->var[WFI_KEY_PAYLOAD(r->key)]->mark == serial ? 2 : 0;
    }
}

/* A variable that was asked for its value several times has an adjoint at each of them. */
static void gather_vars(sweep *s, wf_tensor **out)
{
    wf_ctx *c = s->c;
    for (uint32_t i = 0; i <= s->loss && c->status == WF_OK; i++) {
        const wfi_rec *r = &c->r.base[i];
        if (WFI_KEY_OP(r->key) != WFI_EV_VALUE || !c->adj[i] || c->var[WFI_KEY_PAYLOAD(r->key)]->mark != s->vars)
            continue;
        uint32_t k = c->var[WFI_KEY_PAYLOAD(r->key)]->slot;
        out[k] = out[k] ? wf_add_(out[k], c->adj[i], s->site) : take(c, c->adj[i]);
    }
}

wf_status wfi_sweep_vars(wf_ctx *c, uint32_t loss, uint32_t n, wf_var *const *var, wf_tensor **out, const char *site)
{
    uint32_t serial = ++c->sweep;
    sweep s = { c, loss, site, serial };
    bool notape = c->notape;
    uint64_t keybits = c->keybits;
    c->notape = true; /* what an optimiser asks for carries no history: memory goes back as the sweep goes on */
    c->keybits = WFI_KEY_NOGRAD;
    for (uint32_t i = 0; i < n; i++) {
        out[i] = NULL;
        var[i]->mark = serial;
        var[i]->slot = i;
    }
    if (clear(&s, 0, loss)) {
        want_vars(c, loss, serial);
        backward(&s);
        gather_vars(&s, out);
        finish(&s);
    }
    c->notape = notape;
    c->keybits = keybits;
    return c->status;
}

wf_status wfi_sweep_records(wf_ctx *c, uint32_t loss, uint32_t n, wf_tensor *const *wrt, wf_tensor **out,
                            const char *site)
{
    sweep s = { c, loss, site, 0 };
    if (!clear(&s, 0, loss))
        return c->status;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ord = (uint32_t)wrt[i]->tag & WFI_NONE;
        if (ord <= loss)
            c->mark[ord] = 2;
    }
    backward(&s);
    for (uint32_t i = 0; i < n && c->status == WF_OK; i++) {
        uint32_t ord = (uint32_t)wrt[i]->tag & WFI_NONE;
        wf_tensor *g = ord <= loss ? c->adj[ord] : NULL;
        out[i] = g ? take(c, g) : fit(wfi_like(wrt[i], 0), wfi_shape(wrt[i]), site);
    }
    finish(&s);
    return c->status;
}

bool wfi_sweep_given(wf_ctx *c, uint32_t nout, wf_tensor *const *out, wf_tensor *const *gout, uint32_t n,
                     wf_tensor *const *wrt, wf_tensor *const *begin, wf_tensor **g, const char *site)
{
    const uint32_t last = records(c) - 1;
    sweep s = { c, last, site, 0 };
    if (!clear(&s, 0, last))
        return false;
    for (uint32_t i = 0; i < n; i++)
        c->mark[wrt[i]->tag & WFI_NONE] = 2;
    spread_need(c, 0, last);
    for (uint32_t i = 0; i < n; i++)
        set_adj(c, (uint32_t)wrt[i]->tag & WFI_NONE, begin[i]);
    for (uint32_t i = 0; i < nout; i++)
        if (gout[i] && c->mark[out[i]->tag & WFI_NONE])
            add_to(&s, (uint32_t)out[i]->tag & WFI_NONE, gout[i]);
    walk(&s, 0, last);
    for (uint32_t i = 0; i < n; i++) {
        g[i] = c->adj[wrt[i]->tag & WFI_NONE];
        g[i] = g[i] == begin[i] ? NULL : g[i];
    }
    finish(&s);
    return c->status == WF_OK;
}

static bool in_history(wf_ctx *c, wf_tensor *t, const char *what, const char *site)
{
    if (!t)
        wfi_error_set(c, WF_ERR_ARG, "wf_grad", site, "%s is NULL", what);
    else if (t->ctx != c)
        wfi_error_set(c, WF_ERR_ARG, "wf_grad", site, "%s belongs to another context", what);
    else if (!c->in_step)
        wfi_error_set(c, WF_ERR_STATE, "wf_grad", site,
                      "no step is open, so no history was kept: begin a scope before the forward computation");
    else if (!wfi_in_step(c, t) && !strcmp(what, "the loss"))
        wfi_error_set(c, WF_ERR_STATE, "wf_grad", site,
                      "the loss was not made in this step (%s): history ends with the step or in a no_grad scope",
                      t->site ? t->site : "?");
    return c->status == WF_OK;
}

static bool check_loss(wf_ctx *c, wf_tensor *loss, const char *site)
{
    uint32_t type = wfi_stale(c, loss) ? 0 : wfi_tensor_type(loss);
    char text[96];
    if (type && (wfi_type_at(&c->ids, type)->elements != 1 || !is_float(c, type))) {
        wfi_error_set(c, WF_ERR_SHAPE, "wf_grad", site, "the loss is %s: one element of a float type was expected",
                      wfi_type_text(&c->ids, type, text, sizeof text));
        return false;
    }
    return in_history(c, loss, "the loss", site);
}

wf_status wf_grad_(wf_tensor *loss, int32_t n, wf_tensor *const *wrt, wf_tensor **out, const char *site)
{
    if (!loss || n < 0 || (n && (!wrt || !out)))
        return WF_ERR_ARG;
    wf_ctx *c = loss->ctx;
    for (int32_t i = 0; i < n; i++)
        out[i] = NULL;
    if (c->status != WF_OK || !check_loss(c, loss, site))
        return c->status;
    for (int32_t i = 0; i < n; i++) {
        static const uint32_t none[3] = { WFI_NONE, WFI_NONE, WFI_NONE };
        if (!in_history(c, wrt[i], "a tensor to differentiate by", site))
            return c->status;
        if (c->run_now
                ? !wfi_in_step(c, wrt[i]) && !wfi_emit_track(c, wrt[i], WFI_KEY(WFI_EV_INPUT, wrt[i]->layout, 0), none)
                : wfi_emit_bind(c, wrt[i], WF_F32, site) == WFI_NONE)
            return c->status;
    }
    for (int32_t i = 0; i < n && !c->run_now; i += 3)
        wfi_emit_record(c, WFI_KEY(WFI_EV_ARG, 0, 0), (uint32_t)wrt[i]->tag & WFI_NONE,
                        i + 1 < n ? (uint32_t)wrt[i + 1]->tag & WFI_NONE : WFI_NONE,
                        i + 2 < n ? (uint32_t)wrt[i + 2]->tag & WFI_NONE : WFI_NONE, 0, site);
    uint32_t ord = (uint32_t)loss->tag & WFI_NONE;
    wfi_composite k = wfi_composite_begin(c, WFI_EV_GRAD, (uint32_t)n, ord, WFI_NONE, NULL, site);
    if (k.known)
        wfi_composite_outs(c, &k, (uint32_t)n, out);
    else {
        wfi_sweep_records(c, ord, (uint32_t)n, wrt, out, site);
        for (int32_t i = 0; i < n; i++)
            wfi_composite_out(c, out[i], site);
    }
    return wfi_composite_end(c, &k);
}
