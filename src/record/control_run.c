/* Control flow where nothing is recorded: the callbacks run, each time anew. What a time round has made and what is not
 * carried on is let go. */
#include <string.h>
#include "record/control_flow.h"
#include "record/emit.h"

/* The new carries become the scope's in place of everything that was made since `mark`. */
static bool keep_carries(wf_ctx *c, size_t mark, uint32_t n, wf_tensor *const *carry)
{
    wf_tensor *keep[WFI_NODE_OUTS];
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        wf_tensor *h = carry[i];
        if (h->own == WFI_NONE || h->own < mark)
            continue; /* not made here, or taken already */
        c->own[h->own] = NULL;
        h->own = WFI_NONE;
        keep[kept++] = h;
    }
    while (c->nown > mark) {
        wf_tensor *h = c->own[--c->nown];
        if (h) {
            h->own = WFI_NONE;
            wfi_handle_unref(c, h);
        }
    }
    bool ok = true;
    for (uint32_t i = 0; i < kept; i++)
        if (!ok || !wfi_handle_own(c, keep[i])) {
            wfi_handle_unref(c, keep[i]);
            ok = false;
        }
    return ok || (wfi_error_memory(c, "a carry", NULL), false);
}

static bool carries(wf_ctx *c, const wfi_control *k, uint32_t n, const uint32_t *type, wf_tensor *const *was,
                    wf_tensor **is)
{
    for (uint32_t i = 0; i < n; i++) {
        if (is[i]->flags & WFI_H_WEAK && !(is[i] = wfi_emit_weak(c, is[i], WF_F32, k->site)))
            return false;
        if (!wfi_control_carry(c, k->call, (int32_t)i, type[i], was[i]->site, wfi_tensor_type(is[i]), is[i]->site,
                               k->site))
            return false;
    }
    return true;
}

/* Row t of a stack: y. */
static bool put_row(wf_ctx *c, const wfi_control *k, wf_tensor **stack, int64_t steps, int64_t t, uint32_t i,
                    wf_tensor *y)
{
    if (y->flags & WFI_H_WEAK && !(y = wfi_emit_weak(c, y, WF_F32, k->site)))
        return false;
    const uint32_t type = wfi_tensor_type(y);
    const uint32_t whole = wfi_flow_stacked(&c->ids, type, steps);
    char a[192], b[192];
    if (!whole)
        return wfi_error_set(c, WF_ERR_SHAPE, k->call, k->site,
                             "y %u has too many axes or elements when %lld of them are stacked", i, (long long)steps),
               false;
    if (!*stack) {
        wfi_buf *buf = wfi_buf_new(c, wfi_type_at(&c->ids, whole)->bytes);
        if (!buf || !(*stack = wfi_emit_leaf(c, whole, buf, wfi_ids_dense(&c->ids, whole), k->site)))
            return false;
    }
    if ((*stack)->type != whole) {
        wfi_error_set(c, WF_ERR_SHAPE, k->call, k->site, "y %u is %s in step %lld, the stack is %s", i,
                      wfi_type_text(&c->ids, type, a, sizeof a), (long long)t,
                      wfi_type_text(&c->ids, (*stack)->type, b, sizeof b));
        return false;
    }
    char *row = (char *)(*stack)->buf->data + (size_t)t * wfi_type_at(&c->ids, type)->bytes;
    return wfi_run_copy(c, y, row, k->site) == WF_OK;
}

/* Slice t of x along its first axis. */
static wf_tensor *slice(wf_ctx *c, wf_tensor *x, int64_t t, uint32_t type, const char *site)
{
    const wfi_type *s = wfi_type_at(&c->ids, type);
    wf_dims dims = { s->ndim, { 0 } };
    memcpy(dims.d, s->dim, sizeof dims.d);
    return wf_reshape_(wf_slice_(x, 0, t, 1, NULL, site), dims, site);
}

bool wfi_control_scan(wf_ctx *c, const wfi_control *k, wf_body *body, const wf_scan_opts *o, int64_t steps,
                      const uint32_t *type, wf_tensor *const *in, wf_tensor **out)
{
    const uint32_t nc = (uint32_t)o->ncarry, nx = (uint32_t)o->nxs, ny = (uint32_t)o->nys;
    wf_tensor *now[WFI_NODE_INS], *got[WFI_NODE_OUTS];
    memcpy(now, in, nc * sizeof *in);
    memset(out + nc, 0, ny * sizeof *out);
    const size_t first = c->nown;
    for (int64_t n = 0; n < steps; n++) {
        const int64_t t = o->reverse ? steps - 1 - n : n;
        for (uint32_t i = 0; i < nx; i++)
            if (!(now[nc + i] = slice(c, in[nc + i], t, type[nc + i], k->site)))
                return false;
        if (!wfi_control_body(c, k, body, now, nc + ny, got) || !carries(c, k, nc, type, now, got))
            return false;
        for (uint32_t i = 0; i < ny; i++)
            if (!put_row(c, k, &out[nc + i], steps, t, i, got[nc + i]))
                return false;
        memcpy(got + nc, out + nc, ny * sizeof *got); /* stacks stay as the carries do */
        if (!keep_carries(c, first, nc + ny, got))
            return false;
        memcpy(now, got, nc * sizeof *now);
    }
    memcpy(out, now, nc * sizeof *out);
    return true;
}

bool wfi_control_while(wf_ctx *c, const wfi_control *k, wf_body *more, wf_body *body, const wf_while_opts *o,
                       wf_tensor *const *in, wf_tensor **out)
{
    const uint32_t nc = (uint32_t)o->ncarry;
    wf_tensor *now[WFI_NODE_INS], *got[WFI_NODE_OUTS];
    uint32_t type[WFI_NODE_INS];
    int64_t trips = 0;
    for (uint32_t i = 0; i < nc; i++) {
        now[i] = in[i];
        type[i] = wfi_tensor_type(in[i]);
    }
    const size_t mark = c->nown;
    for (; !o->max || trips < o->max; trips++) {
        if (!wfi_control_body(c, k, more, now, 1, got) ||
            !wfi_control_bool(c, k, wfi_tensor_type(got[0]), got[0]->site))
            return false;
        if (wf_item_(c, got[0], k->site) == 0)
            break;
        if (!wfi_control_body(c, k, body, now, nc, got) || !carries(c, k, nc, type, now, got) ||
            !keep_carries(c, mark, nc, got))
            return false;
        memcpy(now, got, nc * sizeof *now);
    }
    memcpy(out, now, nc * sizeof *out);
    return (out[nc] = wf_tensor_from_(c, WF_I64, WF_NO_DIMS, &trips, NULL, k->site)) != NULL;
}
