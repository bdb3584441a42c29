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
    return t->type;
}

/* ---- eager ---- */

static inline wf_tensor *track(wf_ctx *c, wf_tensor *h, uint64_t key, const uint32_t in[3])
{
    if (WFI_UNLIKELY(c->r.n >= c->r.cap) && !wfi_steprec_grow(c, (size_t)c->r.n + 1))
        return NULL;
    c->r.scratch[c->r.n] = (wfi_rec){ .key = key, .in = { in[0], in[1], in[2] }, .type = h->type, .owner = c->r.owner };
    c->r.H[c->r.n] = h;
    h->refs++;
    h->tag = c->r.stag | c->r.n++;
    return h;
}

wf_tensor *wfi_emit_track(wf_ctx *c, wf_tensor *h, uint64_t key, const uint32_t in[3])
{
    return track(c, h, key, in);
}

static inline uint32_t tape_of(wf_ctx *c, wf_tensor *h)
{
    static const uint32_t none[3] = { WFI_NONE, WFI_NONE, WFI_NONE };
    if (!wfi_in_step(c, h) && !wfi_emit_track(c, h, WFI_KEY(WFI_EV_INPUT, h->layout, 0), none))
        return WFI_NONE;
    return (uint32_t)h->tag & WFI_NONE;
}

static inline wf_tensor *eager_new(wf_ctx *c, uint32_t op, uint32_t type, uint32_t layout, wfi_buf *buf,
                                   const char *site)
{
    wf_tensor *h = wfi_handle_new(c);
    if (!h) {
        wfi_buf_unref(c, buf);
        return NULL;
    }
    h->buf = buf;
    h->type = type;
    h->layout = layout;
    h->site = site;
    h->op = (uint16_t)op;
    if (!wfi_handle_own(c, h)) {
        wfi_handle_unref(c, h);
        return NULL;
    }
    return h;
}

static inline bool tape(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, uint32_t nout,
                        wf_tensor *const *out)
{
    uint32_t ord[WFI_BIND_IN + 3];
    for (uint32_t i = 0; i < nin + 3; i++)
        ord[i] = i < nin && in[i] ? tape_of(c, in[i]) : WFI_NONE;
    for (uint32_t i = 3; i < nin; i += 3) {
        uint32_t n = c->r.n;
        if (n >= c->r.cap && !wfi_steprec_grow(c, (size_t)n + 1))
            return false;
        c->r.scratch[n] =
            (wfi_rec){ .key = WFI_KEY(WFI_EV_ARG, 0, 0),
                       .in = { ord[i], i + 1 < nin ? ord[i + 1] : WFI_NONE, i + 2 < nin ? ord[i + 2] : WFI_NONE },
                       .owner = c->r.owner };
        c->r.H[n] = NULL;
        c->r.n++;
    }
    if (!wfi_emit_track(c, out[0], key | c->keybits, ord))
        return false;
    uint32_t first[3] = { (uint32_t)out[0]->tag & WFI_NONE, WFI_NONE, WFI_NONE };
    for (uint32_t k = 1; k < nout; k++)
        if (!wfi_emit_track(c, out[k], WFI_KEY(WFI_EV_PART, k, 1) | c->keybits, first))
            return false;
    return true;
}

static wf_tensor *lowered(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, uint32_t nout, wf_tensor **out,
                          const char *site)
{
    const wfi_op_info *op = &wfi_op_table[WFI_KEY_OP(key)];
    wf_args v = {
        .in = in, .nin = (int32_t)nin, .a = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(key)), .site = site, .out = out
    };
    (void)nout;
    return out[0] = op->def->lower(&v);
}

static wf_tensor *eager_op(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, uint32_t nout, wf_tensor **out,
                           const char *site)
{
    uint32_t layout[WFI_BIND_IN];
    void *args[WFI_BIND_OUT + WFI_BIND_IN];
    for (uint32_t i = 0; i < nin; i++)
        layout[i] = in[i] ? in[i]->layout : 0;
    const wfi_bound *b = wfi_bound_get(c, key, nin, layout, site, in);
    if (!b)
        return NULL;
    if (b->lower)
        return lowered(c, key, nin, in, nout, out, site);
    if (nin <= 2 && nout == 1 && WFI_KEY_PAYLOAD(key) == 0 && !b->faults)
        c->recent[WFI_KEY_OP(key)] = b;
    for (uint32_t k = 0; k < nout; k++) {
        wfi_buf *buf;
        if (k == 0 && b->alias >= 0) {
            buf = in[b->alias]->buf;
            buf->refs++;
        } else if (!(buf = wfi_buf_new(c, wfi_type_at(&c->ids, b->type[k])->bytes)))
            return NULL;
        if (!(out[k] = eager_new(c, WFI_KEY_OP(key), b->type[k], b->layout[k], buf, site)))
            return NULL;
        args[k] = b->alias >= 0 ? NULL : buf->data;
    }
    if (b->fn) {
        for (uint32_t i = 0; i < nin; i++)
            args[nout + i] = in[i] ? wfi_tensor_at(c, in[i]->buf, in[i]->layout) : NULL;
        if (wfi_run_bound(c, b, args, site, WFI_KEY_OP(key)) != WF_OK)
            return NULL;
    }
    if (c->in_step && !c->notape && !tape(c, key, nin, in, nout, out))
        return NULL;
    return out[0];
}

/* ---- operands ---- */

static wf_tensor *weak_made(wf_ctx *c, wf_tensor *t, wf_dtype dtype, const char *site)
{
    uint32_t type = wfi_ids_type(&c->ids, dtype, 0, NULL), layout = type ? wfi_ids_dense(&c->ids, type) : 0;
    if (!layout)
        return wfi_error_memory(c, "a type", site), NULL;
    uint64_t bits = 0;
    wfi_dtype_store(dtype, &bits, 0, t->u.weak);
    if (c->run_now) {
        wfi_buf *buf = wfi_buf_new(c, sizeof bits);
        if (!buf)
            return NULL;
        memcpy(buf->data, &bits, sizeof bits);
        return eager_new(c, WFI_EV_SCALAR, type, layout, buf, site);
    }
    wf_tensor *h = wfi_emit_record(c, WFI_KEY(WFI_EV_SCALAR, type, 0), WFI_NONE, WFI_NONE, WFI_NONE, type, site);
    if (h)
        h->u.imm = bits;
    return h;
}

static bool alive(wf_ctx *c, const wf_tensor *t, const char *site)
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
        t = weak_made(c, t, weak, site);
        return t ? (uint32_t)t->tag & WFI_NONE : WFI_NONE;
    }
    if (wfi_in_step(c, t))
        return (uint32_t)t->tag & WFI_NONE;
    if (!alive(c, t, site))
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

static wf_dtype adopted(wf_ctx *c, uint32_t nin, wf_tensor *const *in)
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
            weak = adopted(c, nin, in);
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
            return lowered(c, key, nin, in, nout, out, site);
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

static wf_tensor *null_operand(wf_ctx *c, const wfi_op_info *op, int32_t i, const char *site)
{
    wfi_error_set(c, WF_ERR_ARG, op->name, site, "%s is NULL", op->flags & WFI_OP_MANY ? "an operand" : op->operand[i]);
    return NULL;
}

static bool optional(const wfi_op_info *op, int32_t i)
{
    return i >= op->nin_min && !(op->flags & WFI_OP_MANY);
}

wf_tensor *wfi_emit_n(wf_ctx *c, wfi_op o, const void *attr, size_t attr_bytes, int32_t nin, wf_tensor *const *in,
                      int32_t nout, wf_tensor **out, const char *site)
{
    const wfi_op_info *op = &wfi_op_table[o];
    for (int32_t i = 0; i < nout; i++)
        out[i] = NULL;
    for (int32_t i = 0; !c && i < nin; i++)
        c = in[i] ? in[i]->ctx : NULL;
    if (!c || c->status != WF_OK)
        return NULL;
    if (nin > WFI_BIND_IN) {
        wfi_error_set(c, WF_ERR_ARG, op->name, site, "%d operands, at most %d can be given", (int)nin, WFI_BIND_IN);
        return NULL;
    }
    for (int32_t i = 0; i < nin; i++)
        if (!in[i] && !optional(op, i))
            return null_operand(c, op, i, site);
    uint32_t id = 0;
    if (attr_bytes) {
        const wfi_rec *r = c->r.cursor; /* comparing with the prediction is cheaper than hashing */
        uint32_t guess = WFI_KEY_OP(r->key) == (uint32_t)o ? WFI_KEY_PAYLOAD(r->key) : 0;
        if (guess && !memcmp(wfi_attr_data(&c->ids, guess), attr, attr_bytes))
            id = guess;
        else if (!(id = wfi_ids_attr(&c->ids, o, attr, attr_bytes)))
            return wfi_error_memory(c, "an attribute", site), NULL;
    }
    uint64_t key = WFI_KEY(o, id, nin);
    if (!c->run_now)
        return lazy_op(c, key, (uint32_t)nin, in, (uint32_t)nout, out, site);
    wf_tensor *made[WFI_BIND_IN];
    for (int32_t i = 0; i < nin; i++) {
        made[i] = in[i];
        if (!in[i])
            continue;
        if (WFI_UNLIKELY(in[i]->flags & WFI_H_WEAK)) {
            if (!(made[i] = weak_made(c, in[i], adopted(c, (uint32_t)nin, in), site)))
                return NULL;
        } else if (WFI_UNLIKELY(in[i]->ctx != c || !in[i]->buf) && !alive(c, in[i], site))
            return NULL;
    }
    return eager_op(c, key, (uint32_t)nin, made, (uint32_t)nout, out, site);
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

/* ---- the eager call of small operators, as short as it can be ----
 * Each operator remembers what it was bound to last; the same layouts again need no look-up. */

static inline wf_tensor *eager_small(wf_ctx *c, uint64_t key, const wfi_bound *e, wf_tensor *const *in, uint32_t nin,
                                     const char *site)
{
    wfi_buf *buf;
    if (e->alias >= 0) {
        buf = in[e->alias]->buf;
        buf->refs++;
    } else if (WFI_UNLIKELY(!(buf = wfi_buf_new(c, e->bytes))))
        return NULL;
    wf_tensor *h = eager_new(c, WFI_KEY_OP(key), e->type[0], e->layout[0], buf, site);
    if (WFI_UNLIKELY(!h))
        return NULL;
    if (e->fn) {
        void *args[3] = { buf->data };
        for (uint32_t i = 0; i < nin; i++)
            args[1 + i] = (char *)in[i]->buf->data + e->in_offset[i];
        const wfi_run run = { .pool = c->rt->device->pool, .scratch = c->queue->scratch, .fault = &c->queue->fault };
        c->st.commands++;
        e->fn(e->params, args, &run);
    }
    if (c->in_step && !c->notape) {
        const uint32_t ord[3] = { tape_of(c, in[0]), nin > 1 ? tape_of(c, in[1]) : WFI_NONE, WFI_NONE };
        return track(c, h, key | c->keybits, ord);
    }
    return h;
}

wf_tensor *wfi_eager2(wf_ctx *c, wfi_op op, wf_tensor *a, wf_tensor *b, const char *site)
{
    const wfi_bound *e = c->recent[op];
    wf_tensor *in[2] = { a, b };
    if (WFI_LIKELY(e && e->in[0] == a->layout && e->in[1] == b->layout && a->layout && b->layout &&
                   !((a->flags | b->flags) & (WFI_H_WEAK | WFI_H_DEAD)) && a->ctx == c && b->ctx == c &&
                   c->status == WF_OK))
        return eager_small(c, e->key, e, in, 2, site);
    return wfi_emit(c, op, NULL, 0, 2, in, site);
}

wf_tensor *wfi_eager1(wf_ctx *c, wfi_op op, wf_tensor *a, const char *site)
{
    const wfi_bound *e = c->recent[op];
    if (WFI_LIKELY(e && e->in[0] == a->layout && a->layout && !(a->flags & (WFI_H_WEAK | WFI_H_DEAD)) && a->ctx == c &&
                   c->status == WF_OK))
        return eager_small(c, e->key, e, &a, 1, site);
    return wfi_emit(c, op, NULL, 0, 1, &a, site);
}

/* ---- small operators off the known path, as short as it can be ---- */

/* Records an operator without attributes whose operands are in the step and of the types that it had last. NULL,
 * without an error: not so. */
static inline wf_tensor *record_small(wf_ctx *c, wfi_op op, uint32_t nin, uint32_t a, uint32_t b, const char *site)
{
    const wfi_infer *e = c->inferred[op];
    if (c->r.tr || !e || e->nin != nin || e->in[0] != c->r.base[a].type || (nin > 1 && e->in[1] != c->r.base[b].type) ||
        c->status != WF_OK)
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
    uint32_t type = wfi_ids_type(&c->ids, dtype, 0, NULL), layout = type ? wfi_ids_dense(&c->ids, type) : 0;
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
    return eager_new(c, WFI_EV_CONST, type, layout, buf, site);
}

wf_tensor *wfi_emit_leaf(wf_ctx *c, uint32_t type, wfi_buf *buf, uint32_t layout, const char *site)
{
    if (!layout) {
        wfi_buf_unref(c, buf);
        return wfi_error_memory(c, "a layout", site), NULL;
    }
    if (c->run_now)
        return eager_new(c, WFI_EV_INPUT, type, layout, buf, site);
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
