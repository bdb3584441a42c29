/* emit.h - the few instructions that a call costs on a known trace. */
#ifndef WFI_RECORD_EMIT_H
#define WFI_RECORD_EMIT_H
#include "record/record.h"

static inline wf_tensor *wfi_hit(wf_ctx *c, const wfi_rec *r, const char *site)
{
    uint64_t ord = (uint64_t)(r - c->r.base);
    wf_tensor *h = c->r.H[ord];
    c->r.cursor = r + 1;
    h->tag = c->r.stag | ord;
    h->site = site;
    return h;
}

/* ---- eager.c ---- */

/* A new tensor of the innermost scope, which takes buf over. */
static inline wf_tensor *wfi_eager_handle(wf_ctx *c, uint32_t op, uint32_t type, uint32_t layout, wfi_buf *buf,
                                          const char *site)
{
    wf_tensor *h = wfi_handle_new(c);
    if (WFI_UNLIKELY(!h)) {
        wfi_buf_unref(c, buf);
        return NULL;
    }
    h->buf = buf;
    h->type = type;
    h->layout = layout;
    h->site = site;
    h->op = (uint16_t)op;
    if (WFI_UNLIKELY(!wfi_handle_own(c, h))) {
        wfi_handle_unref(c, h);
        return NULL;
    }
    return h;
}
/* An operator now; out[nout]. Its first result, NULL and a pending error. */
wf_tensor *wfi_eager_call(wf_ctx *c, wfi_op op, const void *attr, size_t attr_bytes, uint32_t nin, wf_tensor *const *in,
                          uint32_t nout, wf_tensor **out, const char *site);

/* One that was bound by the caller. */
wf_tensor *wfi_eager_bound(wf_ctx *c, const wfi_bound *b, uint32_t nin, wf_tensor *const *in, wf_tensor **out,
                           const char *site);

/* ---- what both modes need, in emit.c ---- */

/* Are all operands there that must be? False: the error is set. */
bool wfi_emit_given(wf_ctx *c, wfi_op op, int32_t nin, wf_tensor *const *in, const char *site);
bool wfi_emit_alive(wf_ctx *c, const wf_tensor *t, const char *site); /* else an error: of another context, or dead */
wf_dtype wfi_emit_adopted(wf_ctx *c, uint32_t nin, wf_tensor *const *in); /* the type that a number among them gets */
wf_tensor *wfi_emit_weak(wf_ctx *c, wf_tensor *t, wf_dtype dtype, const char *site); /* a number as a tensor */
/* The operators that a composite consists of, called in its place. */
wf_tensor *wfi_emit_lowered(wf_ctx *c, uint64_t key, uint32_t nin, wf_tensor *const *in, wf_tensor **out,
                            const char *site);

/* ---- the calls of most operators ---- */

/* The eager forms of the two below (eager.c), and the lazy ones where an operand enters the step here, or where nothing
 * is predicted (emit.c). */
wf_tensor *wfi_eager2(wf_ctx *c, wfi_op op, wf_tensor *a, wf_tensor *b, const char *site);
wf_tensor *wfi_eager1(wf_ctx *c, wfi_op op, wf_tensor *a, const char *site);
wf_tensor *wfi_lazy2(wf_ctx *c, wfi_op op, wf_tensor *a, wf_tensor *b, const char *site);
wf_tensor *wfi_lazy1(wf_ctx *c, wfi_op op, wf_tensor *a, const char *site);

/* An operator of two operands without attributes. */
static inline wf_tensor *wfi_emit2(wfi_op op, wf_tensor *a, wf_tensor *b, const char *site)
{
    if (WFI_LIKELY(a && b)) {
        wf_ctx *c = a->ctx;
        const wfi_rec *r = c->r.cursor;
        if (WFI_LIKELY(r->key == WFI_KEY(op, 0, 2) && a->tag == (c->r.stag | r->in[0]) &&
                       b->tag == (c->r.stag | r->in[1])))
            return wfi_hit(c, r, site);
        if (c->run_now)
            return wfi_eager2(c, op, a, b, site);
        return wfi_lazy2(c, op, a, b, site);
    }
    wf_tensor *in[2] = { a, b };
    return wfi_emit(NULL, op, NULL, 0, 2, in, site);
}

static inline wf_tensor *wfi_emit1(wfi_op op, wf_tensor *a, const char *site)
{
    if (WFI_LIKELY(a != NULL)) {
        wf_ctx *c = a->ctx;
        const wfi_rec *r = c->r.cursor;
        if (WFI_LIKELY(r->key == WFI_KEY(op, 0, 1) && a->tag == (c->r.stag | r->in[0])))
            return wfi_hit(c, r, site);
        if (c->run_now)
            return wfi_eager1(c, op, a, site);
        return wfi_lazy1(c, op, a, site);
    }
    return wfi_emit(NULL, op, NULL, 0, 1, &a, site);
}

#endif
