/* The eager call: what stands here in most steps, found without a look-up; bind, run, tape. */
#include <string.h>
#include "record/emit.h"
#include "record/record.h"

/* ---- the tape ---- */

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

/* The place of an operand on the tape. */
static inline uint32_t tape_of(wf_ctx *c, wf_tensor *h)
{
    static const uint32_t none[3] = { WFI_NONE, WFI_NONE, WFI_NONE };
    if (!wfi_in_step(c, h) && !wfi_emit_track(c, h, WFI_KEY(WFI_EV_INPUT, h->layout, 0), none))
        return WFI_NONE;
    return (uint32_t)h->tag & WFI_NONE;
}

/* Operands beyond the third: three a record, before the operator's. */
static bool tape_more(wf_ctx *c, uint32_t nin, const uint32_t *ord)
{
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
    return true;
}

static bool tape(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, uint32_t nout, wf_tensor *const *out)
{
    uint32_t ord[WFI_NODE_INS + 3] = { WFI_NONE, WFI_NONE, WFI_NONE };
    for (uint32_t i = 0; i < nin; i++)
        ord[i] = in[i] ? tape_of(c, in[i]) : WFI_NONE;
    if (!tape_more(c, nin, ord) || !track(c, out[0], key, ord))
        return false;
    const uint32_t first[3] = { (uint32_t)out[0]->tag & WFI_NONE, WFI_NONE, WFI_NONE };
    for (uint32_t k = 1; k < nout; k++)
        if (!track(c, out[k], WFI_KEY(WFI_EV_PART, k, 1) | c->keybits, first))
            return false;
    return true;
}

/* ---- a bound operator ---- */

static inline bool taping(const wf_ctx *c)
{
    return c->in_step && !c->notape;
}

/* Result k; alias: the operand that it is a view of, or NULL. */
static inline __attribute__((always_inline)) wf_tensor *result(wf_ctx *c, const wfi_bound *b, uint32_t k,
                                                               const wf_tensor *alias, const char *site)
{
    wfi_buf *buf;
    if (alias) {
        buf = alias->buf;
        buf->refs++;
    } else if (WFI_UNLIKELY(!(buf = wfi_buf_take(c, b->out[k].cls, b->out[k].bytes))))
        return NULL;
    return wfi_eager_handle(c, WFI_KEY_OP(b->key), b->out[k].type, b->out[k].layout, buf, site);
}

static inline void *operand(const wfi_bound *b, uint32_t i, const wf_tensor *t)
{
    return (char *)t->buf->data + b->in_offset[i];
}

static inline void start_kernel(wf_ctx *c, const wfi_bound *b, void **args)
{
    const wfi_run run = { .pool = c->rt->device->pool, .scratch = c->queue->scratch, .fault = &c->queue->fault };
    c->st.commands++;
    b->fn(b->params, args, &run);
}

static wf_tensor *run(wf_ctx *c, const wfi_bound *b, uint32_t nin, wf_tensor *const *in, uint32_t nout, wf_tensor **out,
                      const char *site)
{
    void *args[WFI_NODE_OUTS + WFI_NODE_INS];
    for (uint32_t k = 0; k < nout; k++) {
        if (WFI_UNLIKELY(!(out[k] = result(c, b, k, k == 0 && b->alias >= 0 ? in[b->alias] : NULL, site))))
            return NULL;
        args[k] = out[k]->buf->data;
    }
    for (uint32_t i = 0; b->fn && i < nin; i++)
        args[nout + i] = in[i] ? operand(b, i, in[i]) : NULL;
    if (WFI_UNLIKELY(b->faults)) {
        if (wfi_run_bound(c, b, args, site, WFI_KEY_OP(b->key)) != WF_OK)
            return NULL;
    } else if (b->fn)
        start_kernel(c, b, args);
    return !taping(c) || tape(c, b->key | c->keybits, nin, in, nout, out) ? out[0] : NULL;
}

wf_tensor *wfi_eager_bound(wf_ctx *c, const wfi_bound *b, uint32_t nin, wf_tensor *const *in, wf_tensor **out,
                           const char *site)
{
    return run(c, b, nin, in, b->nout, out, site);
}

/* ---- the call ---- */

/* Where the call that comes keeps what it was bound to. In a step calls are counted, as most steps are alike; outside
 * each operator has one place. */
static inline const wfi_bound **near_of(wf_ctx *c, wfi_op op)
{
    return &c->near[(c->in_step ? c->call++ : (uint32_t)op) % WFI_NEAR_CALLS];
}

static inline bool fits_one(const wf_ctx *c, const wf_tensor *t, uint32_t layout)
{
    return t->layout == layout && layout && t->ctx == c && !(t->flags & (WFI_H_WEAK | WFI_H_DEAD));
}

static inline bool fits(const wf_ctx *c, const wfi_bound *b, uint32_t nin, wf_tensor *const *in)
{
    for (uint32_t i = 0; i < nin; i++)
        if (in[i] ? !fits_one(c, in[i], b->in[i]) : b->in[i] != 0)
            return false;
    return true;
}

static inline bool same_call(const wfi_bound *b, wfi_op op, const void *attr, size_t attr_bytes, uint32_t nin)
{
    return b && WFI_KEY_OP(b->key) == (uint32_t)op && b->nin == nin &&
           (!attr_bytes || !memcmp(b->attr, attr, attr_bytes)); /* an operator's attributes have one size */
}

/* Numbers become tensors; false: an error. */
static bool operands(wf_ctx *c, uint32_t nin, wf_tensor *const *in, wf_tensor **made, const char *site)
{
    for (uint32_t i = 0; i < nin; i++) {
        made[i] = in[i];
        if (!in[i])
            continue;
        if (in[i]->flags & WFI_H_WEAK) {
            if (!(made[i] = wfi_emit_weak(c, in[i], wfi_emit_adopted(c, nin, in), site)))
                return false;
        } else if ((in[i]->ctx != c || !in[i]->buf) && !wfi_emit_alive(c, in[i], site))
            return false;
    }
    return true;
}

static const wfi_bound *bind(wf_ctx *c, wfi_op op, const void *attr, size_t attr_bytes, uint32_t nin,
                             wf_tensor *const *in, const char *site)
{
    uint32_t layout[WFI_BIND_IN], id = 0;
    for (uint32_t i = 0; i < nin; i++)
        layout[i] = in[i] ? in[i]->layout : 0;
    if (attr_bytes && !(id = wfi_ids_attr(&c->ids, op, attr, attr_bytes)))
        return wfi_error_memory(c, "an attribute", site), NULL;
    return wfi_bound_get(c, WFI_KEY(op, id, nin), nin, layout, site, in);
}

/* What this place did not do last. */
static __attribute__((noinline)) wf_tensor *call(wf_ctx *c, const wfi_bound **near, wfi_op op, const void *attr,
                                                 size_t attr_bytes, uint32_t nin, wf_tensor *const *in, uint32_t nout,
                                                 wf_tensor **out, const char *site)
{
    wf_tensor *made[WFI_BIND_IN], *casts[WFI_BIND_IN];
    const wfi_bound *b = *near;
    if (!wfi_emit_given(c, op, (int32_t)nin, in, site))
        return NULL;
    if (wfi_autocasts(c, op)) {
        if (!wfi_autocast(c, op, nin, in, casts, site))
            return NULL;
        in = casts;
    }
    if (!operands(c, nin, in, made, site))
        return NULL;
    if (!same_call(b, op, attr, attr_bytes, nin) || !fits(c, b, nin, made)) {
        if (!(b = bind(c, op, attr, attr_bytes, nin, made, site)))
            return NULL;
        *near = b;
    }
    return b->lower ? wfi_emit_lowered(c, b->key, nin, made, out, site) : run(c, b, nin, made, nout, out, site);
}

wf_tensor *wfi_eager_call(wf_ctx *c, wfi_op op, const void *attr, size_t attr_bytes, uint32_t nin, wf_tensor *const *in,
                          uint32_t nout, wf_tensor **out, const char *site)
{
    const wfi_bound **near = near_of(c, op), *b = *near;
    if (WFI_LIKELY(same_call(b, op, attr, attr_bytes, nin) && fits(c, b, nin, in) && !b->lower && !c->autocast))
        return run(c, b, nin, in, nout, out, site);
    return call(c, near, op, attr, attr_bytes, nin, in, nout, out, site);
}

static __attribute__((noinline)) wf_tensor *call_small(wf_ctx *c, const wfi_bound **near, wfi_op op, wf_tensor *x,
                                                       wf_tensor *y, const char *site)
{
    wf_tensor *const in[2] = { x, y };
    wf_tensor *out[WFI_BIND_OUT];
    return call(c, near, op, NULL, 0, y ? 2 : 1, in, 1, out, site);
}

/* Of one (y is NULL) or two operands without attributes, as short as it can be. */
static inline __attribute__((always_inline)) wf_tensor *small(wf_ctx *c, wfi_op op, wf_tensor *x, wf_tensor *y,
                                                              const char *site)
{
    const wfi_bound **near = near_of(c, op), *b = *near;
    if (WFI_UNLIKELY(c->status != WF_OK))
        return NULL;
    if (WFI_UNLIKELY(!b || b->key != WFI_KEY(op, 0, y ? 2 : 1) || !fits_one(c, x, b->in[0]) ||
                     (y && !fits_one(c, y, b->in[1])) || b->lower || b->faults || c->autocast))
        return call_small(c, near, op, x, y, site);
    wf_tensor *h = result(c, b, 0, b->alias < 0 ? NULL : b->alias == 0 ? x : y, site);
    if (WFI_UNLIKELY(!h))
        return NULL;
    if (b->fn) {
        void *args[3] = { h->buf->data, operand(b, 0, x), y ? operand(b, 1, y) : NULL };
        start_kernel(c, b, args);
    }
    if (!taping(c))
        return h;
    const uint32_t first = tape_of(c, x), ord[3] = { first, y ? tape_of(c, y) : WFI_NONE, WFI_NONE };
    return track(c, h, b->key | c->keybits, ord);
}

wf_tensor *wfi_eager2(wf_ctx *c, wfi_op op, wf_tensor *a, wf_tensor *b, const char *site)
{
    return small(c, op, a, b, site);
}

wf_tensor *wfi_eager1(wf_ctx *c, wfi_op op, wf_tensor *a, const char *site)
{
    return small(c, op, a, NULL, site);
}
