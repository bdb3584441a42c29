/* The calls of control.h: what is given is checked, bodies are recorded and the node is emitted. Where nothing is
 * recorded, the callbacks simply run (control_run.c). */
#include "record/control_flow.h"
#include <string.h>
#include "base/dtype.h"
#include "record/emit.h"

/* ---- what is given ---- */

bool wfi_control_ready(wf_ctx *c, const char *call, bool bodies, int32_t nin, const void *in, int32_t nout,
                       const void *out, const char *site)
{
    if (!c || c->status != WF_OK)
        return false;
    if (!bodies)
        wfi_error_set(c, WF_ERR_ARG, call, site, "a body is NULL");
    else if (nin < 0 || nin > WFI_NODE_INS || nout < 0 || nout > WFI_NODE_OUTS)
        wfi_error_set(c, WF_ERR_ARG, call, site, "%d inputs and %d results; 0 to %d and 0 to %d can be", (int)nin,
                      (int)nout, WFI_NODE_INS, WFI_NODE_OUTS);
    else if ((nin && !in) || (nout && !out))
        wfi_error_set(c, WF_ERR_ARG, call, site, "an array of tensors is NULL");
    return c->status == WF_OK;
}

bool wfi_control_operand(wf_ctx *c, const char *call, const char *what, int32_t i, wf_tensor *t, wf_tensor **made,
                         const char *site)
{
    *made = NULL;
    if (!t)
        wfi_error_set(c, WF_ERR_ARG, call, site, "%s %d is NULL", what, (int)i);
    else if (t->ctx != c || wfi_stale(c, t))
        wfi_error_set(c, t->ctx != c ? WF_ERR_ARG : WF_ERR_STATE, call, site, "%s %d belongs to %s", what, (int)i,
                      t->ctx != c ? "another context" : "a scope that has ended");
    else
        *made = t->flags & WFI_H_WEAK ? wfi_emit_weak(c, t, WF_F32, site) : t;
    return *made != NULL;
}

static const char *type_text(wf_ctx *c, uint32_t type, char *text, size_t bytes)
{
    return type ? wfi_type_text(&c->ids, type, text, bytes) : "?";
}

/* A carry must come out as it went in. made: the line that gave it. */
bool wfi_control_carry(wf_ctx *c, const char *call, int32_t i, uint32_t was, const char *was_site, uint32_t is,
                       const char *is_site, const char *site)
{
    char a[192], b[192];
    if (was == is)
        return true;
    const bool shape = wfi_type_at(&c->ids, was)->dtype == wfi_type_at(&c->ids, is)->dtype;
    if (wfi_error_set(c, shape ? WF_ERR_SHAPE : WF_ERR_DTYPE, call, site,
                      "carry %d goes in as %s and comes out as %s: it must stay the same", (int)i,
                      type_text(c, was, a, sizeof a), type_text(c, is, b, sizeof b)))
        wfi_error_add(c, "\n  goes in: made at %s\n  comes out: made at %s", was_site ? was_site : "?",
                      is_site ? is_site : "?");
    return false;
}

/* Has the body given all of its outputs? */
static bool given(wf_ctx *c, const char *call, bool said, uint32_t nout, wf_tensor *const *out, const char *site)
{
    if (c->status != WF_OK) {
        wfi_error_add(c, "\n  in a body of %s, %s", call, site);
        return false;
    }
    if (!said)
        return wfi_error_set(c, WF_ERR_ARG, call, site, "the body reported a failure"), false;
    for (uint32_t i = 0; i < nout; i++)
        if (!out[i])
            return wfi_error_set(c, WF_ERR_ARG, call, site, "the body left output %u at NULL: it has %u", i, nout),
                   false;
        else if (out[i]->ctx != c || wfi_stale(c, out[i]))
            return wfi_error_set(c, WF_ERR_ARG, call, site, "output %u of the body belongs to %s", i,
                                 out[i]->ctx != c ? "another context" : "a scope that has ended"),
                   false;
    return true;
}

bool wfi_control_body(wf_ctx *c, const wfi_control *k, wf_body *body, wf_tensor *const *in, uint32_t nout,
                      wf_tensor **out)
{
    memset(out, 0, nout * sizeof *out);
    const bool said = body(k->user, c, in, out);
    return given(c, k->call, said, nout, out, k->site);
}

wf_status wfi_control_done(wf_ctx *c, bool ok, int32_t n, wf_tensor **out)
{
    for (int32_t i = 0; !ok && i < n; i++)
        out[i] = NULL;
    return c->status;
}

/* ---- bodies ---- */

typedef struct recorded {
    wfi_recording rec;
    uint32_t func, nout;
    const char *site[WFI_NODE_OUTS]; /* of the outputs */
} recorded;

static bool record(wf_ctx *c, const wfi_control *k, recorded *r, wf_body *body, uint32_t nin, const uint32_t *type,
                   uint32_t nout)
{
    wf_tensor *in[WFI_NODE_INS], *out[WFI_NODE_OUTS];
    bool ok = wfi_flow_begin(c, &r->rec, k->call, k->site);
    r->func = 0;
    r->nout = nout;
    for (uint32_t i = 0; ok && i < nin; i++)
        ok = (in[i] = wfi_capture_input(c, type[i], k->site)) != NULL;
    ok = ok && wfi_control_body(c, k, body, in, nout, out);
    for (uint32_t i = 0; ok && i < nout; i++)
        r->site[i] = out[i]->site;
    if (ok)
        r->func = wfi_flow_finish(c, &r->rec, nin, in, nout, out, k->call, k->site);
    wfi_flow_end(c, &r->rec);
    return r->func != 0;
}

static bool push_leaves(wf_ctx *c, const wfi_control *k, const recorded *r, wf_tensor **in, uint32_t *nin)
{
    for (size_t i = 0; i < r->rec.nleaf; i++) {
        if (*nin == WFI_NODE_INS)
            return wfi_error_set(c, WF_ERR_UNSUPPORTED, k->call, k->site,
                                 "what the body uses from outside counted, it has more than %d inputs", WFI_NODE_INS),
                   false;
        if (!(in[*nin] = wfi_flow_leaf(c, &r->rec, i, k->site)))
            return false;
        ++*nin;
    }
    return true;
}

static void types_of(wf_ctx *c, uint32_t n, wf_tensor *const *in, uint32_t *type)
{
    (void)c;
    for (uint32_t i = 0; i < n; i++)
        type[i] = wfi_tensor_type(in[i]);
}

/* Two functions over the same inputs: what each uses from outside is an input of both. nin: those they have in common.
 */
static bool unite(wf_ctx *c, const wfi_control *k, recorded *a, recorded *b, uint32_t nin)
{
    const uint32_t na = (uint32_t)a->rec.nleaf, nb = (uint32_t)b->rec.nleaf;
    const uint32_t *ta = wfi_func_types(wfi_func_at(&c->ids, a->func)) + nin,
                   *tb = wfi_func_types(wfi_func_at(&c->ids, b->func)) + nin;
    a->func = wfi_func_widen(&c->ids, a->func, nin + na, nb, tb);
    b->func = wfi_func_widen(&c->ids, b->func, nin, na, ta);
    return (a->func && b->func) || (wfi_error_memory(c, "a body", k->site), false);
}

/* ---- call ---- */

static bool call_node(wf_ctx *c, const wfi_control *k, wf_body *body, uint32_t nin, wf_tensor **in, uint32_t nout,
                      wf_tensor **out)
{
    recorded r;
    uint32_t type[WFI_NODE_INS];
    types_of(c, nin, in, type);
    bool ok = record(c, k, &r, body, nin, type, nout) && push_leaves(c, k, &r, in, &nin);
    wfi_flow f = { .kind = WFI_FLOW_CALL, .func = r.func, .nfree = nin, .nstack = nout, .count = 1 };
    ok = ok && wfi_flow_call(c, f, in, out, k->site);
    wfi_flow_free(c, &r.rec);
    return ok;
}

wf_status wf_call_(wf_ctx *c, wf_body *body, void *user, int32_t nin, wf_tensor *const *in, int32_t nout,
                   wf_tensor **out, const char *site)
{
    const wfi_control k = { "wf_call", site, user };
    wf_tensor *made[WFI_NODE_INS];
    if (!wfi_control_ready(c, k.call, body != NULL, nin, in, nout, out, site))
        return c ? c->status : WF_ERR_ARG;
    bool ok = true;
    for (int32_t i = 0; ok && i < nin; i++)
        ok = wfi_control_operand(c, k.call, "input", i, in[i], &made[i], site);
    if (ok && !nout)
        ok = wfi_error_set(c, WF_ERR_ARG, k.call, site, "a body without results does nothing") && false;
    ok = ok && (wfi_control_runs(c) ? wfi_control_body(c, &k, body, made, (uint32_t)nout, out)
                                    : call_node(c, &k, body, (uint32_t)nin, made, (uint32_t)nout, out));
    return wfi_control_done(c, ok, nout, out);
}

/* ---- cond ---- */

static bool same_results(wf_ctx *c, const wfi_control *k, const recorded *a, const recorded *b)
{
    const wfi_func *fa = wfi_func_at(&c->ids, a->func), *fb = wfi_func_at(&c->ids, b->func);
    char ta[192], tb[192];
    for (uint32_t i = 0; i < fa->nout; i++) {
        const uint32_t x = wfi_func_out_type(fa, i), y = wfi_func_out_type(fb, i);
        if (x == y)
            continue;
        const bool shape = wfi_type_at(&c->ids, x)->dtype == wfi_type_at(&c->ids, y)->dtype;
        if (wfi_error_set(c, shape ? WF_ERR_SHAPE : WF_ERR_DTYPE, k->call, k->site,
                          "result %u is %s where the predicate is true, %s where it is false: they must be alike", i,
                          type_text(c, x, ta, sizeof ta), type_text(c, y, tb, sizeof tb)))
            wfi_error_add(c, "\n  true: made at %s\n  false: made at %s", a->site[i] ? a->site[i] : "?",
                          b->site[i] ? b->site[i] : "?");
        return false;
    }
    return true;
}

/* in[0]: the predicate; nin: the others */
static bool cond_node(wf_ctx *c, const wfi_control *k, wf_body *const body[2], uint32_t nin, wf_tensor **in,
                      uint32_t nout, wf_tensor **out)
{
    recorded r[2] = { { .func = 0 }, { .func = 0 } };
    uint32_t type[WFI_NODE_INS], n = nin + 1;
    types_of(c, nin, in + 1, type);
    bool ok = record(c, k, &r[0], body[0], nin, type, nout) && record(c, k, &r[1], body[1], nin, type, nout) &&
              same_results(c, k, &r[0], &r[1]) && unite(c, k, &r[0], &r[1], nin) && push_leaves(c, k, &r[0], in, &n) &&
              push_leaves(c, k, &r[1], in, &n);
    wfi_flow f = {
        .kind = WFI_FLOW_COND, .func = r[0].func, .other = r[1].func, .nfree = n - 1, .nstack = nout, .count = 1
    };
    ok = ok && wfi_flow_call(c, f, in, out, k->site);
    wfi_flow_free(c, &r[0].rec);
    wfi_flow_free(c, &r[1].rec);
    return ok;
}

/* A predicate is one bool. */
bool wfi_control_bool(wf_ctx *c, const wfi_control *k, uint32_t type, const char *made)
{
    const wfi_type *t = wfi_type_at(&c->ids, type);
    char text[192];
    if (t->dtype == WF_BOOL && t->ndim == 0)
        return true;
    if (wfi_error_set(c, t->dtype == WF_BOOL ? WF_ERR_SHAPE : WF_ERR_DTYPE, k->call, k->site,
                      "the predicate is %s, bool[] was expected", type_text(c, type, text, sizeof text)))
        wfi_error_add(c, "\n  predicate: made at %s", made ? made : "?");
    return false;
}

wf_status wf_cond_(wf_ctx *c, wf_tensor *pred, wf_body *then, wf_body *otherwise, void *user, int32_t nin,
                   wf_tensor *const *in, int32_t nout, wf_tensor **out, const char *site)
{
    const wfi_control k = { "wf_cond", site, user };
    wf_body *const body[2] = { then, otherwise };
    wf_tensor *made[WFI_NODE_INS];
    if (!wfi_control_ready(c, k.call, then && otherwise, nin, in, nout, out, site))
        return c ? c->status : WF_ERR_ARG;
    bool ok = wfi_control_operand(c, k.call, "predicate", 0, pred, &made[0], site) &&
              wfi_control_bool(c, &k, wfi_tensor_type(made[0]), made[0]->site);
    for (int32_t i = 0; ok && i < nin && i + 1 < WFI_NODE_INS; i++)
        ok = wfi_control_operand(c, k.call, "input", i, in[i], &made[i + 1], site);
    if (ok && !nout)
        ok = wfi_error_set(c, WF_ERR_ARG, k.call, site, "a body without results does nothing") && false;
    if (ok && wfi_control_runs(c)) {
        const bool yes = wf_item_(c, made[0], site) != 0;
        ok = wfi_control_body(c, &k, body[!yes], made + 1, (uint32_t)nout, out);
    } else
        ok = ok && cond_node(c, &k, body, (uint32_t)nin, made, (uint32_t)nout, out);
    return wfi_control_done(c, ok, nout, out);
}

/* ---- scan ---- */

/* The types of the body's inputs, and how many steps there are. */
static bool scan_types(wf_ctx *c, const wfi_control *k, const wf_scan_opts *o, wf_tensor *const *in, uint32_t *type,
                       int64_t *steps)
{
    *steps = o->length;
    types_of(c, (uint32_t)o->ncarry, in, type);
    for (int32_t i = 0; i < o->nxs; i++) {
        wf_tensor *x = in[o->ncarry + i];
        char text[192];
        const uint32_t whole = wfi_tensor_type(x);
        const wfi_type *t = wfi_type_at(&c->ids, whole);
        if (!t->ndim || (t->dim[0] != *steps && (i || o->length))) {
            if (wfi_error_set(c, WF_ERR_SHAPE, k->call, k->site, "x %d is %s, a first axis of %lld was expected",
                              (int)i, type_text(c, whole, text, sizeof text), (long long)*steps))
                wfi_error_add(c, "\n  x %d: made at %s", (int)i, x->site ? x->site : "?");
            return false;
        }
        *steps = t->dim[0];
        if (!(type[o->ncarry + i] = wfi_ids_type(&c->ids, t->dtype, t->ndim - 1, t->dim + 1)))
            return wfi_error_memory(c, "a type", k->site), false;
    }
    return true;
}

static bool scan_node(wf_ctx *c, const wfi_control *k, wf_body *body, const wf_scan_opts *o, int64_t steps,
                      const uint32_t *type, wf_tensor **in, wf_tensor **out)
{
    recorded r;
    uint32_t nin = (uint32_t)(o->ncarry + o->nxs), nout = (uint32_t)(o->ncarry + o->nys), n = nin;
    bool ok = record(c, k, &r, body, nin, type, nout);
    for (int32_t i = 0; ok && i < o->ncarry; i++)
        ok = wfi_control_carry(c, k->call, i, type[i], in[i]->site,
                               wfi_func_out_type(wfi_func_at(&c->ids, r.func), (uint32_t)i), r.site[i], k->site);
    for (uint32_t i = (uint32_t)o->ncarry; ok && i < nout; i++)
        if (!wfi_flow_stacked(&c->ids, wfi_func_out_type(wfi_func_at(&c->ids, r.func), i), steps))
            ok = wfi_error_set(c, WF_ERR_SHAPE, k->call, k->site,
                               "y %d has too many axes or elements when %lld of them are stacked",
                               (int)i - (int)o->ncarry, (long long)steps) &&
                 false;
    ok = ok && push_leaves(c, k, &r, in, &n);
    wfi_flow f = { .kind = WFI_FLOW_SCAN,
                   .func = r.func,
                   .ncarry = (uint32_t)o->ncarry,
                   .nseq = (uint32_t)o->nxs,
                   .nfree = n - nin,
                   .nstack = (uint32_t)o->nys,
                   .reverse = o->reverse,
                   .count = steps };
    ok = ok && wfi_flow_call(c, f, in, out, k->site);
    wfi_flow_free(c, &r.rec);
    return ok;
}

static bool scan(wf_ctx *c, const wfi_control *k, wf_body *body, const wf_scan_opts *o, wf_tensor **out)
{
    wf_tensor *in[WFI_NODE_INS];
    uint32_t type[WFI_NODE_INS];
    int64_t steps;
    if (o->unnamed)
        return wfi_error_set(c, WF_ERR_ARG, k->call, k->site, "options need names: .carry = h"), false;
    if ((o->nxs && !o->xs) || (o->nys && !o->ys) || o->nxs < 0 || o->nys < 0 || o->length < 0 ||
        o->ncarry + o->nxs > WFI_NODE_INS || o->ncarry + o->nys > WFI_NODE_OUTS || !(o->ncarry + o->nys))
        return wfi_error_set(c, WF_ERR_ARG, k->call, k->site,
                             "%d xs, %d ys, length %lld: arrays must be given, and something must come out",
                             (int)o->nxs, (int)o->nys, (long long)o->length),
               false;
    for (int32_t i = 0; i < o->ncarry + o->nxs; i++)
        if (!wfi_control_operand(c, k->call, i < o->ncarry ? "carry" : "x", i < o->ncarry ? i : i - o->ncarry,
                                 i < o->ncarry ? o->carry[i] : o->xs[i - o->ncarry], &in[i], k->site))
            return false;
    if (!scan_types(c, k, o, in, type, &steps))
        return false;
    if (steps && wfi_control_runs(c)) /* without a step nothing would be known of the results */
        return wfi_control_scan(c, k, body, o, steps, type, in, out);
    return scan_node(c, k, body, o, steps, type, in, out);
}

wf_status wf_scan_(wf_ctx *c, wf_body *body, void *user, const wf_scan_opts *o, const char *site)
{
    static const wf_scan_opts plain;
    const wfi_control k = { "wf_scan", site, user };
    wf_tensor *out[2 * WFI_NODE_OUTS];
    o = o ? o : &plain;
    if (!wfi_control_ready(c, k.call, body != NULL, o->ncarry, o->carry, o->ncarry, o->carry, site))
        return c ? c->status : WF_ERR_ARG;
    const bool ok = scan(c, &k, body, o, out);
    for (int32_t i = 0; ok && i < o->ncarry + o->nys; i++)
        *(i < o->ncarry ? &o->carry[i] : &o->ys[i - o->ncarry]) = out[i];
    if (!ok)
        wfi_control_done(c, false, o->ncarry, o->carry);
    return wfi_control_done(c, ok, o->nys > 0 && o->ys ? o->nys : 0, o->ys);
}

/* ---- while ---- */

static bool while_node(wf_ctx *c, const wfi_control *k, wf_body *more, wf_body *body, const wf_while_opts *o,
                       wf_tensor **in, wf_tensor **out)
{
    recorded r[2] = { { .func = 0 }, { .func = 0 } };
    uint32_t type[WFI_NODE_INS], nc = (uint32_t)o->ncarry, n = nc;
    types_of(c, nc, in, type);
    bool ok = record(c, k, &r[0], body, nc, type, nc) && record(c, k, &r[1], more, nc, type, 1) &&
              wfi_control_bool(c, k, wfi_func_out_type(wfi_func_at(&c->ids, r[1].func), 0), r[1].site[0]);
    for (uint32_t i = 0; ok && i < nc; i++)
        ok = wfi_control_carry(c, k->call, (int32_t)i, type[i], in[i]->site,
                               wfi_func_out_type(wfi_func_at(&c->ids, r[0].func), i), r[0].site[i], k->site);
    ok = ok && unite(c, k, &r[0], &r[1], nc) && push_leaves(c, k, &r[0], in, &n) && push_leaves(c, k, &r[1], in, &n);
    wfi_flow f = { .kind = WFI_FLOW_WHILE,
                   .func = r[0].func,
                   .other = r[1].func,
                   .ncarry = nc,
                   .nfree = n - nc,
                   .bounded = o->max > 0,
                   .count = o->max };
    ok = ok && wfi_flow_call(c, f, in, out, k->site);
    wfi_flow_free(c, &r[0].rec);
    wfi_flow_free(c, &r[1].rec);
    return ok;
}

wf_status wf_while_(wf_ctx *c, wf_body *more, wf_body *body, void *user, const wf_while_opts *o, const char *site)
{
    static const wf_while_opts plain;
    const wfi_control k = { "wf_while", site, user };
    wf_tensor *in[WFI_NODE_INS], *out[WFI_NODE_OUTS + 1];
    o = o ? o : &plain;
    if (!wfi_control_ready(c, k.call, body && more, o->ncarry, o->carry, o->ncarry, o->carry, site))
        return c ? c->status : WF_ERR_ARG;
    bool ok = !o->unnamed || (wfi_error_set(c, WF_ERR_ARG, k.call, site, "options need names: .carry = h"), false);
    if (ok && (o->ncarry < 1 || o->max < 0))
        ok = wfi_error_set(c, WF_ERR_ARG, k.call, site, "%d carries and .max of %lld: at least one and 0 were expected",
                           (int)o->ncarry, (long long)o->max) &&
             false;
    for (int32_t i = 0; ok && i < o->ncarry; i++)
        ok = wfi_control_operand(c, k.call, "carry", i, o->carry[i], &in[i], site);
    ok = ok && (wfi_control_runs(c) ? wfi_control_while(c, &k, more, body, o, in, out)
                                    : while_node(c, &k, more, body, o, in, out));
    for (int32_t i = 0; ok && i < o->ncarry; i++)
        o->carry[i] = out[i];
    if (o->trips)
        *o->trips = ok ? out[o->ncarry] : NULL;
    return wfi_control_done(c, ok, o->ncarry, o->carry);
}
