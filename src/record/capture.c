/* Captured functions: a body is recorded once, on the side, and its records are emitted again at every call. So a call
 * is nothing but ordinary calls: it joins an open step, can be differentiated, and outside a step is a step of its own
 * that replays a plan from its second call on.
 *
 * Variables are held by id: a call sees their values of that moment and its assignments take effect. What the body
 * used from outside was computed before and is held as a constant. Numbers of optimisers (rates) are asked for anew. */
#include "record/capture.h"
#include <string.h>
#include "base/dtype.h"
#include "record/emit.h"
#include "record/flow_rec.h"

enum { OUT_MAX = 4096 };

struct wf_fn {
    wfi_owned owned;
    wf_ctx *ctx;
    const char *site;
    int32_t nin, nout;
    uint32_t n; /* records; the first nin are the inputs */
    uint32_t nlive;
    wfi_rec *rec;
    wfi_live *live;
    uint32_t *out;    /* records */
    wf_tensor **map;  /* during a call: the handle of each record */
    wfi_buf **held;   /* of each record: the contents of a leaf from outside; else NULL */
    uint64_t *number; /* of each record: a number's bits */
    uint32_t nheld;
};

/* ---- recording on the side ---- */

bool wfi_capture_begin(wf_ctx *c, wfi_aside *a, const char *name, const char *site)
{
    a->open = false;
    if (c->status != WF_OK)
        return false;
    if (c->depth + 1 >= WFI_SCOPE_MAX) {
        wfi_error_set(c, WF_ERR_STATE, name, site, "too many scopes are open");
        return false;
    }
    *a = (wfi_aside){ .r = c->r,
                      .keybits = c->keybits,
                      .body = c->body,
                      .step_depth = c->step_depth,
                      .depth = c->depth,
                      .run_now = c->run_now,
                      .in_step = c->in_step,
                      .notape = c->notape,
                      .autocast = c->autocast,
                      .open = true };
    c->frame[++c->depth] = (wfi_frame){ .name = name,
                                        .site = site,
                                        .serial = ++c->serial,
                                        .own0 = (uint32_t)c->nown,
                                        .around = c->autocast,
                                        .contract = c->contract };
    c->step_depth = c->depth;
    c->in_step = true;
    c->run_now = c->notape = false;
    c->keybits = 0;
    c->body = NULL;
    c->r = (wfi_steprec){ .cursor = &wfi_record_sentinel, .owner = WFI_NONE, .recording_only = true };
    wfi_step_tag(c);
    c->vserial++;
    return wfi_steprec_grow(c, 64);
}

/* Leaves that the recording took in get their places in the step that waited back. */
static void restore_tags(wf_ctx *c, const wfi_aside *a)
{
    uint32_t n = a->r.tr ? (uint32_t)(a->r.cursor - a->r.base) : a->r.n;
    for (uint32_t i = 0; i < c->r.n; i++) {
        const wf_tensor *h = c->r.H[i];
        if (!h || !(h->flags & WFI_H_HELD))
            continue;
        wf_tensor *t = h->u.next;
        t->tag = WFI_NONE;
        for (uint32_t j = 0; j < n; j++) {
            const wf_tensor *was = a->r.H[j];
            if (WFI_KEY_OP(a->r.base[j].key) == WFI_EV_INPUT && was && was->buf == h->buf && was->layout == h->layout)
                t->tag = a->r.stag | j;
        }
    }
}

static void free_recording(wf_ctx *c)
{
    for (size_t i = 0; i < c->r.cap; i++)
        wfi_handle_unref(c, c->r.H[i]);
    wfi_mem_free(c->mem, c->r.H);
    wfi_mem_free(c->mem, c->r.scratch);
    wfi_mem_free(c->mem, c->r.live);
    wfi_mem_free(c->mem, c->r.host);
}

void wfi_capture_end(wf_ctx *c, wfi_aside *a)
{
    if (!a->open)
        return;
    uint32_t mine = a->depth + 1;
    if (c->depth > mine) /* scopes that the body left open */
        (void)wf_scope_end(c, (wf_scope){ mine + 1, c->frame[mine + 1].serial });
    while (c->nown > c->frame[mine].own0) {
        wf_tensor *h = c->own[--c->nown];
        if (h) {
            h->own = WFI_NONE;
            wfi_handle_unref(c, h);
        }
    }
    restore_tags(c, a);
    free_recording(c);
    c->depth = a->depth;
    c->step_depth = a->step_depth;
    c->in_step = a->in_step;
    c->run_now = a->run_now;
    c->notape = a->notape;
    c->keybits = a->keybits;
    c->body = a->body;
    c->r = a->r;
    c->autocast = a->autocast;
    c->vserial++;
    a->open = false;
    if (c->status == WF_OK)
        return;
    if (c->r.tr) /* as wfi_error_set does: what stands before the error is ours */
        wfi_trace_leave(c, (uint32_t)(c->r.cursor - c->r.base));
    c->error_n = c->r.n;
    c->r.cursor = &wfi_record_sentinel;
}

wf_tensor *wfi_capture_input(wf_ctx *c, uint32_t type, const char *site)
{
    uint32_t layout = type ? wfi_ids_dense(&c->ids, type) : 0;
    if (!layout)
        return wfi_error_memory(c, "a type", site), NULL;
    return wfi_emit_record(c, WFI_KEY(WFI_EV_INPUT, layout, 0), WFI_NONE, WFI_NONE, WFI_NONE, type, site);
}

/* ---- capture ---- */

static void drop(wfi_owned *o)
{
    wf_fn *f = (wf_fn *)o;
    wf_ctx *c = f->ctx;
    for (uint32_t i = 0; f->held && i < f->n; i++)
        wfi_buf_unref(c, f->held[i]);
    void *const parts[] = { f->rec, f->live, f->out, f->map, f->held, f->number, f };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(c->mem, parts[i]);
}

static void *copy(wf_ctx *c, const void *from, size_t n, size_t each)
{
    void *p = wfi_mem_array(c->mem, n ? n : 1, each);
    if (p && n)
        memcpy(p, from, n * each);
    return p;
}

/* A leaf from outside is kept; memory that was only lent is copied. */
static bool hold(wf_fn *f, uint32_t i)
{
    wf_ctx *c = f->ctx;
    const wf_tensor *h = c->r.H[i];
    if (!h->buf) {
        wfi_error_set(c, WF_ERR_STATE, "wf_capture", f->site, "the body uses a tensor that has no value yet");
        return false;
    }
    if (WFI_BUF_BORROWED(h->buf)) {
        if (!(f->held[i] = wfi_buf_new(c, h->buf->bytes)))
            return false;
        memcpy(f->held[i]->data, h->buf->data, h->buf->bytes);
    } else {
        f->held[i] = h->buf;
        h->buf->refs++;
    }
    f->nheld++;
    return true;
}

static bool keep_leaves(wf_fn *f)
{
    wf_ctx *c = f->ctx;
    for (uint32_t i = (uint32_t)f->nin; i < f->n; i++) {
        uint32_t op = WFI_KEY_OP(f->rec[i].key);
        if (op == WFI_EV_INPUT && !hold(f, i))
            return false;
        if (op == WFI_EV_SCALAR)
            f->number[i] = c->r.H[i]->u.imm;
        if (op == WFI_EV_RETAIN) {
            wfi_error_set(c, WF_ERR_STATE, "wf_capture", c->r.H[i]->site,
                          "a captured body cannot retain a tensor: make it one of its outputs");
            return false;
        }
    }
    return true;
}

/* Takes what was recorded. */
static bool take(wf_fn *f, wf_tensor *const *out)
{
    wf_ctx *c = f->ctx;
    for (int32_t i = 0; i < f->nout; i++) {
        if (!out[i])
            wfi_error_set(c, WF_ERR_ARG, "wf_capture", f->site, "the body left output %d at NULL", (int)i);
        else
            f->out[i] = wfi_emit_bind(c, out[i], WF_F32, f->site);
        if (c->status != WF_OK)
            return false;
    }
    f->n = c->r.n;
    f->nlive = (uint32_t)c->r.nlive;
    f->rec = copy(c, c->r.scratch, f->n, sizeof *f->rec);
    f->live = copy(c, c->r.live, f->nlive, sizeof *f->live);
    f->held = wfi_mem_zalloc(c->mem, ((size_t)f->n + 1) * sizeof *f->held);
    f->map = wfi_mem_zalloc(c->mem, ((size_t)f->n + 1) * sizeof *f->map);
    f->number = wfi_mem_zalloc(c->mem, ((size_t)f->n + 1) * sizeof *f->number);
    if (!f->rec || !f->live || !f->held || !f->map || !f->number)
        return wfi_error_memory(c, "a captured function", f->site), false;
    return keep_leaves(f);
}

static bool record(wf_fn *f, wf_body *body, void *user, const uint32_t *type)
{
    wf_ctx *c = f->ctx;
    wf_tensor **in = wfi_mem_zalloc(c->mem, ((size_t)f->nin + 1) * sizeof *in);
    wf_tensor **out = wfi_mem_zalloc(c->mem, ((size_t)f->nout + 1) * sizeof *out);
    bool ok = in && out;
    if (!ok)
        wfi_error_memory(c, "a captured function", f->site);
    for (int32_t i = 0; ok && i < f->nin; i++)
        ok = (in[i] = wfi_capture_input(c, type[i], f->site)) != NULL;
    if (ok && !body(user, c, in, out)) {
        ok = false;
        wfi_error_set(c, WF_ERR_ARG, "wf_capture", f->site, "the body reported a failure");
    }
    ok = ok && c->status == WF_OK && take(f, out);
    wfi_mem_free(c->mem, in);
    wfi_mem_free(c->mem, out);
    return ok;
}

static uint32_t *types_like(wf_ctx *c, int32_t n, wf_tensor *const *like, const char *site)
{
    uint32_t *type = wfi_mem_zalloc(c->mem, ((size_t)n + 1) * sizeof *type);
    if (!type)
        wfi_error_memory(c, "a captured function", site);
    for (int32_t i = 0; type && i < n; i++) {
        if (like[i] && like[i]->ctx == c && !(like[i]->flags & WFI_H_DEAD))
            type[i] = wfi_tensor_type(like[i]);
        if (!type[i])
            wfi_error_set(c, WF_ERR_ARG, "wf_capture", site, "the example of input %d is %s", (int)i,
                          !like[i]            ? "NULL"
                          : like[i]->ctx != c ? "of another context"
                                              : "of a scope that has ended");
    }
    return type;
}

wf_fn *wf_capture_(wf_ctx *c, wf_body *body, void *user, int32_t nin, wf_tensor *const *like, int32_t nout,
                   const char *site)
{
    if (!c || c->status != WF_OK)
        return NULL;
    if (!body || nin < 0 || nout < 0 || nin > OUT_MAX || nout > OUT_MAX || (nin && !like)) {
        wfi_error_set(c, WF_ERR_ARG, "wf_capture", site,
                      !body ? "the body is NULL" : "%d inputs and %d outputs, 0 to %d can be", (int)nin, (int)nout,
                      OUT_MAX);
        return NULL;
    }
    wf_fn *f = wfi_mem_zalloc(c->mem, sizeof *f);
    uint32_t *type = f ? types_like(c, nin, like, site) : NULL;
    if (!f || !(f->out = wfi_mem_zalloc(c->mem, ((size_t)nout + 1) * sizeof *f->out)))
        wfi_error_memory(c, "a captured function", site);
    wfi_aside aside = { .open = false };
    bool ok = false;
    if (c->status == WF_OK) {
        f->ctx = c;
        f->site = site;
        f->nin = nin;
        f->nout = nout;
        ok = wfi_capture_begin(c, &aside, "capture", site) && record(f, body, user, type);
    }
    wfi_capture_end(c, &aside);
    wfi_mem_free(c->mem, type);
    if (!ok) {
        if (f) {
            f->ctx = c;
            drop(&f->owned);
        }
        return NULL;
    }
    f->owned = (wfi_owned){ .drop = drop, .order = 1 };
    wfi_ctx_own(c, &f->owned);
    return f;
}

/* ---- the call ---- */

typedef struct call {
    wf_fn *f;
    wf_ctx *c;
    const char *site;
    uint64_t keybits;
    bool notape;
    double number[WFI_OPTIM_NUMBERS]; /* of the optimiser whose step is being emitted */
} call;

static bool emit_op(call *k, uint32_t i)
{
    wf_fn *f = k->f;
    wf_ctx *c = k->c;
    const wfi_rec *r = &f->rec[i];
    uint32_t op = WFI_KEY_OP(r->key), id = WFI_KEY_PAYLOAD(r->key), at[WFI_BIND_IN],
             nin = wfi_run_operands(f->rec, i, at);
    wf_tensor *in[WFI_BIND_IN], *out[WFI_BIND_OUT];
    for (uint32_t j = 0; j < nin; j++)
        in[j] = at[j] == WFI_NONE ? NULL : f->map[at[j]];
    const wfi_attr_item *a = id ? wfi_attr_at(&c->ids, id) : NULL;
    bool no_grad = r->key & WFI_KEY_NOGRAD;
    c->keybits = no_grad ? WFI_KEY_NOGRAD : k->keybits;
    c->notape = no_grad || k->notape;
    uint32_t nout = wfi_op_table[op].nout;
    bool ok = wfi_emit_n(c, (wfi_op)op, a ? a->data : NULL, a ? a->bytes : 0, (int32_t)nin, in, (int32_t)nout, out,
                         k->site) != NULL;
    for (uint32_t j = 0; ok && j < nout; j++)
        f->map[i + j] = out[j];
    return ok;
}

static bool emit_flow(call *k, uint32_t i)
{
    wf_fn *f = k->f;
    wf_ctx *c = k->c;
    const wfi_rec *r = &f->rec[i];
    uint32_t at[WFI_NODE_INS], nin = wfi_run_operands(f->rec, i, at);
    wf_tensor *in[WFI_NODE_INS];
    for (uint32_t j = 0; j < nin; j++)
        in[j] = f->map[at[j]];
    bool no_grad = r->key & WFI_KEY_NOGRAD;
    c->keybits = no_grad ? WFI_KEY_NOGRAD : k->keybits;
    c->notape = no_grad || k->notape;
    return wfi_flow_emit(c, wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(r->key)), in, f->map + i, k->site);
}

static wf_tensor *emit_held(call *k, uint32_t i)
{
    wfi_buf *buf = k->f->held[i];
    buf->refs++;
    return wfi_emit_leaf(k->c, k->f->rec[i].type, buf, WFI_KEY_PAYLOAD(k->f->rec[i].key), k->site);
}

static wf_tensor *emit_host(call *k, uint32_t i)
{
    for (uint32_t j = 0; j < k->f->nlive; j++)
        if (k->f->live[j].slot == i)
            return wfi_composite_host(k->c, k->number, k->f->live[j].at, k->f->live[j].n, k->site);
    return NULL;
}

static wf_tensor *emit_scalar(call *k, uint32_t i)
{
    wf_dtype dtype = wfi_type_at(&k->c->ids, k->f->rec[i].type)->dtype;
    return wf_scalar_(k->c, wfi_dtype_load(dtype, &k->f->number[i], 0), k->site);
}

static wf_tensor *emit_const(call *k, uint32_t payload, uint32_t type)
{
    const double *value = wfi_attr_data(&k->c->ids, payload);
    return wfi_emit_const(k->c, wfi_type_at(&k->c->ids, type)->dtype, *value, k->site);
}

static bool emit_one(call *k, uint32_t i)
{
    wf_fn *f = k->f;
    const wfi_rec *r = &f->rec[i];
    uint32_t op = WFI_KEY_OP(r->key), payload = WFI_KEY_PAYLOAD(r->key);
    if (op < WFI_OP_COUNT)
        return emit_op(k, i);
    if (op == WFI_EV_FLOW)
        return emit_flow(k, i);
    switch (op) {
    case WFI_EV_VALUE: return (f->map[i] = wf_value_(k->c->var[payload], k->site)) != NULL;
    case WFI_EV_INPUT: return i < (uint32_t)f->nin || (f->map[i] = emit_held(k, i)) != NULL;
    case WFI_EV_CONST: return (f->map[i] = emit_const(k, payload, r->type)) != NULL;
    case WFI_EV_SCALAR: return (f->map[i] = emit_scalar(k, i)) != NULL;
    case WFI_EV_HOST: return (f->map[i] = emit_host(k, i)) != NULL;
    case WFI_EV_ASSIGN: return wf_assign_(k->c->var[payload], f->map[r->in[0]], k->site) == WF_OK;
    case WFI_EV_OPTIM: wfi_optim_again(k->c, f->rec, i, k->number); return true;
    default: return true; /* scopes, arguments, parts: nothing to be done again */
    }
}

static wf_status emit_all(wf_fn *f, wf_tensor *const *in, wf_tensor **out, const char *site)
{
    wf_ctx *c = f->ctx;
    call k = { .f = f, .c = c, .site = site, .keybits = c->keybits, .notape = c->notape };
    for (int32_t i = 0; i < f->nin; i++)
        f->map[i] = in[i];
    bool ok = true;
    wf_dtype around = wfi_autocast_set(c, WF_DTYPE_NONE); /* the casts were captured */
    for (uint32_t i = 0; ok && i < f->n; i++)
        ok = emit_one(&k, i);
    wfi_autocast_set(c, around);
    c->keybits = k.keybits;
    c->notape = k.notape;
    if (!ok || c->status != WF_OK)
        return c->status != WF_OK ? c->status : WF_ERR_STATE;
    for (int32_t i = 0; i < f->nout; i++)
        out[i] = f->map[f->out[i]];
    return WF_OK;
}

/* Outside a step the call is one: recorded in eager mode as well, so that it runs as a plan. */
static wf_status own_step(wf_fn *f, wf_tensor *const *in, wf_tensor **out, const char *site)
{
    wf_ctx *c = f->ctx;
    wf_mode mode = c->mode;
    wfi_steprec tape = c->r;
    if (mode == WF_EAGER)
        c->r = c->captured;
    c->mode = WF_LAZY;
    wf_scope s = wf_scope_begin_(c, "captured", NULL, site);
    wf_status st = emit_all(f, in, out, site);
    for (int32_t i = 0; i < f->nout && st == WF_OK; i++)
        out[i] = wf_scope_return(c, s, out[i]);
    st = wf_scope_end(c, s);
    c->mode = mode;
    if (mode == WF_EAGER) {
        c->captured = c->r;
        c->r = tape;
    }
    return st;
}

static bool check_input(wf_fn *f, int32_t i, wf_tensor *t, const char *site)
{
    wf_ctx *c = f->ctx;
    if (!t)
        wfi_error_set(c, WF_ERR_ARG, "wf_fn_call", site, "input %d is NULL", (int)i);
    else if (t->ctx != c || (t->flags & WFI_H_DEAD))
        wfi_error_set(c, t->ctx != c ? WF_ERR_ARG : WF_ERR_STATE, "wf_fn_call", site, "input %d belongs to %s", (int)i,
                      t->ctx != c ? "another context" : "a scope that has ended");
    else {
        uint32_t want = f->rec[i].type, got = wfi_tensor_type(t);
        if (got == want)
            return true;
        const wfi_type *w = wfi_type_at(&c->ids, want);
        if (t->flags & WFI_H_WEAK && w->ndim == 0)
            return true;
        char a[96], b[96];
        wf_dtype dtype = got ? wfi_type_at(&c->ids, got)->dtype : WF_DTYPE_NONE;
        wfi_error_set(c, dtype != w->dtype ? WF_ERR_DTYPE : WF_ERR_SHAPE, "wf_fn_call", site,
                      "input %d is %s, the function was captured for %s", (int)i,
                      got ? wfi_type_text(&c->ids, got, a, sizeof a) : "?", wfi_type_text(&c->ids, want, b, sizeof b));
        wfi_error_add(c, "\n  captured at %s with %d inputs and %u constants", f->site, (int)f->nin, f->nheld);
        if (t->site)
            wfi_error_add(c, "\n  input %d: made at %s", (int)i, t->site);
    }
    return false;
}

wf_status wf_fn_call_(wf_fn *f, wf_tensor *const *in, wf_tensor **out, const char *site)
{
    if (!f || (f->nin && !in) || (f->nout && !out))
        return WF_ERR_ARG;
    wf_ctx *c = f->ctx;
    for (int32_t i = 0; i < f->nout; i++)
        out[i] = NULL;
    for (int32_t i = 0; i < f->nin && c->status == WF_OK; i++)
        (void)check_input(f, i, in[i], site);
    if (c->status != WF_OK)
        return c->status;
    wf_status st = c->in_step ? emit_all(f, in, out, site) : own_step(f, in, out, site);
    for (int32_t i = 0; i < f->nout && st != WF_OK; i++)
        out[i] = NULL;
    return st;
}
