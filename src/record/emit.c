/* A call: compare it with the prediction, leave the trace, or record; in eager mode, run it. */
#include "record/emit.h"
#include <string.h>
#include "base/dtype.h"
#include "record/record.h"

const wfi_rec wfi_record_sentinel = { .key = ~(uint64_t)0, .in = { WFI_NONE, WFI_NONE, WFI_NONE }, .owner = WFI_NONE };

bool wfi_steprec_grow(wf_ctx *c, size_t need)
{
    wfi_steprec *r = &c->r;
    if (need <= r->cap)
        return true;
    if (need >= WFI_NONE) {
        wfi_error_set(c, WF_ERR_UNSUPPORTED, "", NULL, "a step holds at most %u calls", WFI_NONE - 1);
        return false;
    }
    bool mine = r->base == r->scratch;
    size_t had = r->cap, cap_h = r->cap;
    if (!wfi_mem_grow(c->mem, &r->scratch, &r->cap_rec, need + 1, sizeof *r->scratch) ||
        !wfi_mem_grow(c->mem, &r->H, &cap_h, need + 1, sizeof *r->H)) {
        if (mine)
            r->base = r->scratch;
        wfi_error_memory(c, "the step's records", NULL);
        return false;
    }
    if (mine)
        r->base = r->scratch;
    for (size_t i = had; i < cap_h; i++)
        r->H[i] = NULL;
    r->cap = (cap_h < r->cap_rec ? cap_h : r->cap_rec) - 1;
    return true;
}

/* Ordinals of a lazy step have handles that stay with them from step to step. */
static wf_tensor *handle_of(wf_ctx *c, size_t ord)
{
    if (WFI_UNLIKELY(!c->r.H[ord]))
        c->r.H[ord] = wfi_handle_new(c);
    return c->r.H[ord];
}

static inline wf_tensor *append(wf_ctx *c, const wfi_rec *w, const char *site)
{
    if (WFI_UNLIKELY(c->r.n >= c->r.cap) && !wfi_steprec_grow(c, (size_t)c->r.n + 1))
        return NULL;
    wf_tensor *h = handle_of(c, c->r.n);
    if (!h)
        return NULL;
    c->r.scratch[c->r.n] = *w;
    h->tag = c->r.stag | c->r.n++;
    h->site = site;
    return h;
}

static bool here(const wfi_rec *r, const wfi_rec *w)
{
    return r->key == w->key && r->in[0] == w->in[0] && r->in[1] == w->in[1] && r->in[2] == w->in[2];
}

wf_tensor *wfi_emit_record(wf_ctx *c, uint64_t key, uint32_t a, uint32_t b, uint32_t d, uint32_t type, const char *site)
{
    wfi_rec w = { .key = key, .in = { a, b, d }, .type = type, .owner = c->r.owner };
    const wfi_rec *r = c->r.cursor;
    if (here(r, &w))
        return wfi_hit(c, r, site);
    if (c->status != WF_OK)
        return NULL;
    if (c->r.tr) {
        uint32_t k = (uint32_t)(r - c->r.base);
        wfi_trace *u = wfi_trace_exit(c, k, &w);
        if (u) {
            c->r.tr = u;
            c->r.base = u->rec;
            return wfi_hit(c, &u->rec[k], site);
        }
        wfi_trace_leave(c, k);
        w.owner = c->r.owner;
    }
    return append(c, &w, site);
}

uint32_t wfi_tensor_type(const wf_tensor *t)
{
    const wf_ctx *c = t->ctx;
    if (t->layout)
        return t->type;
    if (!c->run_now && wfi_in_step(c, t))
        return c->r.base[t->tag & WFI_NONE].type;
    const wfi_rec *r = c->body ? wfi_flow_outer(c, t) : NULL;
    return r ? r->type : t->type;
}

/* ---- composites that are taken apart ---- */

wf_tensor *wfi_emit_lowered(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, wf_tensor **out,
                            const char *site)
{
    const wfi_op_info *op = &wfi_op_table[WFI_KEY_OP(key)];
    wf_args v = {
        .in = in, .nin = (int32_t)nin, .a = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(key)), .site = site, .out = out
    };
    wf_dtype around = wfi_autocast_set(c, WF_DTYPE_NONE);
    out[0] = op->def->lower(&v);
    wfi_autocast_set(c, around);
    return out[0];
}

/* ---- operands ---- */

/* The type of a single number; the layout 0: out of memory. */
static uint32_t scalar_type(wf_ctx *c, wf_dtype dtype, uint32_t *layout)
{
    if (WFI_UNLIKELY(!c->scalar[dtype]))
        c->scalar[dtype] = wfi_ids_type(&c->ids, dtype, 0, NULL);
    *layout = c->scalar[dtype] ? wfi_ids_dense(&c->ids, c->scalar[dtype]) : 0;
    return c->scalar[dtype];
}

wf_tensor *wfi_emit_weak(wf_ctx *c, wf_tensor *t, wf_dtype dtype, const char *site)
{
    uint32_t layout, type = scalar_type(c, dtype, &layout);
    if (!layout)
        return wfi_error_memory(c, "a type", site), NULL;
    uint64_t bits = 0;
    wfi_dtype_store(dtype, &bits, 0, t->u.weak);
    if (c->run_now) {
        wfi_buf *buf = wfi_buf_new(c, sizeof bits);
        if (!buf)
            return NULL;
        memcpy(buf->data, &bits, sizeof bits);
        return wfi_eager_handle(c, WFI_EV_SCALAR, type, layout, buf, site);
    }
    wf_tensor *h = wfi_emit_record(c, WFI_KEY(WFI_EV_SCALAR, type, 0), WFI_NONE, WFI_NONE, WFI_NONE, type, site);
    if (h)
        h->u.imm = bits;
    return h;
}

bool wfi_emit_alive(wf_ctx *c, const wf_tensor *t, const char *site)
{
    if (t->ctx != c)
        wfi_error_set(c, WF_ERR_ARG, "", site, "an operand belongs to another context; it was made at %s",
                      t->site ? t->site : "?");
    else if (!t->buf || (t->flags & WFI_H_DEAD))
        wfi_error_set(c, WF_ERR_STATE, "", site,
                      "an operand belongs to a scope that has ended; return it with wf_scope_return or keep it with "
                      "wf_retain");
    else
        return true;
    return false;
}

/* The record's handle stands for t in this step. */
static inline void take_leaf(wf_ctx *c, wf_tensor *record, wf_tensor *t)
{
    t->buf->refs++;
    wfi_buf_unref(c, record->buf);
    record->buf = t->buf;
    record->type = t->type;
    record->layout = t->layout;
    t->tag = record->tag;
}

uint32_t wfi_emit_bind(wf_ctx *c, wf_tensor *t, wf_dtype weak, const char *site)
{
    if (t->flags & WFI_H_WEAK && !(t->flags & WFI_H_DEAD) && t->ctx == c) {
        t = wfi_emit_weak(c, t, weak, site);
        return t ? (uint32_t)t->tag & WFI_NONE : WFI_NONE;
    }
    if (wfi_in_step(c, t))
        return (uint32_t)t->tag & WFI_NONE;
    if (c->body)
        return wfi_flow_lift(c, t, site);
    if (!wfi_emit_alive(c, t, site))
        return WFI_NONE;
    wf_tensor *i =
        wfi_emit_record(c, WFI_KEY(WFI_EV_INPUT, t->layout, 0), WFI_NONE, WFI_NONE, WFI_NONE, t->type, t->site);
    if (!i)
        return WFI_NONE;
    take_leaf(c, i, t);
    if (c->r.recording_only) { /* the end of the capture gives t its place in the step that waits back */
        i->u.next = t;
        i->flags |= WFI_H_HELD;
    }
    return (uint32_t)i->tag & WFI_NONE;
}

wf_dtype wfi_emit_adopted(wf_ctx *c, uint32_t nin, wf_tensor *const *in)
{
    wf_dtype any = WF_F32;
    for (uint32_t i = 0; i < nin; i++)
        if (in[i] && !(in[i]->flags & WFI_H_WEAK) && wfi_tensor_type(in[i])) {
            any = wfi_type_at(&c->ids, wfi_tensor_type(in[i]))->dtype;
            if (any != WF_BOOL)
                return any;
        }
    return any == WF_BOOL && nin > 1 ? WF_F32 : any;
}

/* ---- the call ---- */

static wf_tensor *lazy_op(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, uint32_t nout, wf_tensor **out,
                          const char *site)
{
    uint32_t ord[WFI_BIND_IN + 3];
    wf_dtype weak = WF_DTYPE_NONE;
    for (uint32_t i = 0; i < nin; i++) {
        ord[i] = WFI_NONE;
        if (!in[i])
            continue;
        if (in[i]->flags & WFI_H_WEAK && !weak)
            weak = wfi_emit_adopted(c, nin, in);
        if ((ord[i] = wfi_emit_bind(c, in[i], weak, site)) == WFI_NONE)
            return NULL;
    }
    ord[nin] = ord[nin + 1] = ord[nin + 2] = WFI_NONE;
    key |= c->keybits;
    const wfi_rec *r = c->r.cursor;
    uint32_t type[WFI_BIND_OUT] = { 0 };
    bool predicted = nin <= 3 && r->key == key && r->in[0] == ord[0] && r->in[1] == (nin > 1 ? ord[1] : WFI_NONE) &&
                     r->in[2] == (nin > 2 ? ord[2] : WFI_NONE);
    if (!predicted) {
        uint32_t in_type[WFI_BIND_IN];
        for (uint32_t i = 0; i < nin; i++)
            in_type[i] = ord[i] == WFI_NONE ? 0 : c->r.base[ord[i]].type;
        const wfi_infer *inf = wfi_infer_get(c, key, nin, in_type, site, in);
        if (!inf)
            return NULL;
        if (inf->lower)
            return wfi_emit_lowered(c, key, nin, in, out, site);
        if (nin <= 2 && nout == 1 && WFI_KEY_PAYLOAD(key) == 0)
            c->inferred[WFI_KEY_OP(key)] = inf;
        memcpy(type, inf->type, sizeof type);
        for (uint32_t i = 3; i < nin; i += 3)
            if (!wfi_emit_record(c, WFI_KEY(WFI_EV_ARG, 0, 0), ord[i], i + 1 < nin ? ord[i + 1] : WFI_NONE,
                                 i + 2 < nin ? ord[i + 2] : WFI_NONE, 0, site))
                return NULL;
    }
    out[0] = wfi_emit_record(c, key, ord[0], nin > 1 ? ord[1] : WFI_NONE, nin > 2 ? ord[2] : WFI_NONE, type[0], site);
    for (uint32_t k = 1; k < nout && out[0]; k++) {
        uint32_t part = type[k];
        const wfi_rec *q = c->r.cursor;
        if (!part && c->r.tr) /* predicted: the record that follows has it */
            part = q->type;
        if (!(out[k] = wfi_emit_record(c, WFI_KEY(WFI_EV_PART, k, 1) | c->keybits, (uint32_t)out[0]->tag & WFI_NONE,
                                       WFI_NONE, WFI_NONE, part, site)))
            return NULL;
    }
    return out[0];
}

static bool optional(const wfi_op_info *op, int32_t i)
{
    return i >= op->nin_min && !(op->flags & WFI_OP_MANY);
}

bool wfi_emit_given(wf_ctx *c, wfi_op o, int32_t nin, wf_tensor *const *in, const char *site)
{
    const wfi_op_info *op = &wfi_op_table[o];
    if (nin > WFI_BIND_IN) {
        wfi_error_set(c, WF_ERR_ARG, op->name, site, "%d operands, at most %d can be given", (int)nin, WFI_BIND_IN);
        return false;
    }
    for (int32_t i = 0; i < nin; i++)
        if (!in[i] && !optional(op, i)) {
            wfi_error_set(c, WF_ERR_ARG, op->name, site, "%s is NULL",
                          op->flags & WFI_OP_MANY ? "an operand" : op->operand[i]);
            return false;
        }
    return true;
}

wf_tensor *wfi_emit_n(wf_ctx *c, wfi_op o, const void *attr, size_t attr_bytes, int32_t nin, wf_tensor *const *in,
                      int32_t nout, wf_tensor **out, const char *site)
{
    for (int32_t i = 0; i < nout; i++)
        out[i] = NULL;
    for (int32_t i = 0; !c && i < nin; i++)
        c = in[i] ? in[i]->ctx : NULL;
    if (!c || c->status != WF_OK)
        return NULL;
    if (c->run_now)
        return wfi_eager_call(c, o, attr, attr_bytes, (uint32_t)nin, in, (uint32_t)nout, out, site);
    if (!wfi_emit_given(c, o, nin, in, site))
        return NULL;
    wf_tensor *made[WFI_BIND_IN];
    if (wfi_autocasts(c, o)) {
        if (!wfi_autocast(c, o, (uint32_t)nin, in, made, site))
            return NULL;
        in = made;
    }
    uint32_t id = 0;
    if (attr_bytes) {
        const wfi_rec *r = c->r.cursor; /* comparing with the prediction is cheaper than hashing */
        uint32_t guess = WFI_KEY_OP(r->key) == (uint32_t)o ? WFI_KEY_PAYLOAD(r->key) : 0;
        if (guess && !memcmp(wfi_attr_data(&c->ids, guess), attr, attr_bytes))
            id = guess;
        else if (!(id = wfi_ids_attr(&c->ids, o, attr, attr_bytes)))
            return wfi_error_memory(c, "an attribute", site), NULL;
    }
    return lazy_op(c, WFI_KEY(o, id, nin), (uint32_t)nin, in, (uint32_t)nout, out, site);
}

wf_tensor *wfi_emit(wf_ctx *c, wfi_op op, const void *attr, size_t attr_bytes, int32_t nin, wf_tensor *const *in,
                    const char *site)
{
    wf_tensor *out[WFI_BIND_OUT];
    return wfi_emit_n(c, op, attr, attr_bytes, nin, in, 1, out, site);
}

wf_tensor *wfi_emit_refuse(wf_ctx *c, wfi_op op, int32_t nin, wf_tensor *const *in, const char *site, const char *what)
{
    for (int32_t i = 0; !c && i < nin; i++)
        c = in[i] ? in[i]->ctx : NULL;
    if (c)
        wfi_error_set(c, WF_ERR_ARG, wfi_op_table[op].name, site, "%s", what);
    return NULL;
}

/* ---- small operators off the known path, as short as it can be ---- */

/* Records an operator without attributes whose operands are in the step and of the types that it had last. NULL,
 * without an error: not so. */
static inline wf_tensor *record_small(wf_ctx *c, wfi_op op, uint32_t nin, uint32_t a, uint32_t b, const char *site)
{
    const wfi_infer *e = c->inferred[op];
    if (c->r.tr || !e || e->nin != nin || e->in[0] != c->r.base[a].type || (nin > 1 && e->in[1] != c->r.base[b].type) ||
        c->status != WF_OK || wfi_autocasts(c, op))
        return NULL;
    const wfi_rec w = {
        .key = WFI_KEY(op, 0, nin) | c->keybits, .in = { a, b, WFI_NONE }, .type = e->type[0], .owner = c->r.owner
    };
    return append(c, &w, site);
}

/* Is t in this step, or does the trace say that it comes in now? */
static inline bool enters(wf_ctx *c, wf_tensor *t)
{
    if (wfi_in_step(c, t))
        return true;
    const wfi_rec *r = c->r.cursor;
    if (r->key != WFI_KEY(WFI_EV_INPUT, t->layout, 0) || t->ctx != c || !t->buf || !c->r.tr ||
        t->flags & (WFI_H_WEAK | WFI_H_DEAD))
        return false;
    take_leaf(c, wfi_hit(c, r, t->site), t);
    return true;
}

wf_tensor *wfi_lazy2(wf_ctx *c, wfi_op op, wf_tensor *a, wf_tensor *b, const char *site)
{
    if (enters(c, a) && enters(c, b)) {
        const wfi_rec *r = c->r.cursor;
        if (r->key == WFI_KEY(op, 0, 2) && a->tag == (c->r.stag | r->in[0]) && b->tag == (c->r.stag | r->in[1]))
            return wfi_hit(c, r, site);
        wf_tensor *h = record_small(c, op, 2, (uint32_t)a->tag & WFI_NONE, (uint32_t)b->tag & WFI_NONE, site);
        if (h)
            return h;
    }
    wf_tensor *in[2] = { a, b };
    return wfi_emit(c, op, NULL, 0, 2, in, site);
}

wf_tensor *wfi_lazy1(wf_ctx *c, wfi_op op, wf_tensor *a, const char *site)
{
    wf_tensor *h = wfi_in_step(c, a) ? record_small(c, op, 1, (uint32_t)a->tag & WFI_NONE, WFI_NONE, site) : NULL;
    return h ? h : wfi_emit(c, op, NULL, 0, 1, &a, site);
}

/* ---- constants and leaves ---- */

typedef struct const_attr {
    double value;
    int64_t dtype;
} const_attr;

wf_tensor *wfi_emit_const(wf_ctx *c, wf_dtype dtype, double value, const char *site)
{
    if (c->status != WF_OK)
        return NULL;
    const_attr a = { value, dtype };
    uint64_t bits = 0;
    wfi_dtype_store(dtype, &bits, 0, value);
    const wfi_rec *r = c->r.cursor; /* comparing with the prediction is cheaper than hashing */
    if (WFI_KEY_OP(r->key) == WFI_EV_CONST && !memcmp(wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(r->key)), &a, sizeof a)) {
        wf_tensor *h = wfi_hit(c, r, site);
        h->u.imm = bits;
        return h;
    }
    uint32_t layout, type = scalar_type(c, dtype, &layout);
    if (!layout)
        return wfi_error_memory(c, "a type", site), NULL;
    if (!c->run_now) {
        uint32_t id = wfi_ids_attr(&c->ids, WFI_EV_CONST, &a, sizeof a);
        if (!id)
            return wfi_error_memory(c, "a constant", site), NULL;
        wf_tensor *h = wfi_emit_record(c, WFI_KEY(WFI_EV_CONST, id, 0), WFI_NONE, WFI_NONE, WFI_NONE, type, site);
        if (h)
            h->u.imm = bits;
        return h;
    }
    wfi_buf *buf = wfi_buf_new(c, sizeof bits);
    if (!buf)
        return NULL;
    memcpy(buf->data, &bits, sizeof bits);
    return wfi_eager_handle(c, WFI_EV_CONST, type, layout, buf, site);
}

wf_tensor *wfi_emit_leaf(wf_ctx *c, uint32_t type, wfi_buf *buf, uint32_t layout, const char *site)
{
    if (!layout) {
        wfi_buf_unref(c, buf);
        return wfi_error_memory(c, "a layout", site), NULL;
    }
    if (c->run_now)
        return wfi_eager_handle(c, WFI_EV_INPUT, type, layout, buf, site);
    wf_tensor *h = wfi_emit_record(c, WFI_KEY(WFI_EV_INPUT, layout, 0), WFI_NONE, WFI_NONE, WFI_NONE, type, site);
    if (!h) {
        wfi_buf_unref(c, buf);
        return NULL;
    }
    wfi_buf_unref(c, h->buf);
    h->buf = buf;
    h->type = type;
    h->layout = layout;
    return h;
}

wf_tensor *wfi_like(wf_tensor *t, double value)
{
    return t ? wfi_emit_const(t->ctx, wfi_dtype(t), value, t->site) : NULL;
}

bool wfi_made_by(wf_tensor *t, wfi_op op)
{
    const wf_ctx *c = t->ctx;
    return wfi_in_step(c, t) && WFI_KEY_OP(c->r.base[t->tag & WFI_NONE].key) == (uint32_t)op;
}

wf_dims wfi_shape(wf_tensor *t)
{
    return wf_tensor_dims(t);
}

wf_dtype wfi_dtype(wf_tensor *t)
{
    return wf_tensor_dtype(t);
}
