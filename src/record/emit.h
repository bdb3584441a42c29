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

/* In emit.c: the eager forms of the two below, and the lazy ones where an operand enters the step here, or where
 * nothing is predicted. */
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
