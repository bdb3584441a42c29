/* Leaves, reads and variables. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "base/hash.h"
#include "record/emit.h"
#include "record/record.h"

/* ---- making ---- */

uint64_t wfi_tensor_hash(wf_ctx *c, const wf_tensor *t)
{
    return wfi_hash64(t->buf->data, wfi_type_at(&c->ids, t->type)->bytes, 1);
}

static wfi_buf *lend(wf_ctx *c, const void *host, size_t bytes)
{
    union {
        const void *in;
        void *out;
    } p = { host }; /* inputs are never written through */
    wfi_buf *b = wfi_buf_new(c, 1);
    if (!b)
        return NULL;
    b->keep = b;
    b->data = p.out;
    b->bytes = bytes;
    return b;
}

static uint32_t checked_type(wf_ctx *c, const char *call, wf_dtype dtype, wf_dims dims, const char *site)
{
    if (c->status != WF_OK)
        return 0;
    if (!wf_dtype_bytes(dtype)) {
        wfi_error_set(c, WF_ERR_DTYPE, call, site, "%d is no element type", (int)dtype);
        return 0;
    }
    if (dims.n < 0 || dims.n > WF_RANK_MAX) {
        wfi_error_set(c, WF_ERR_SHAPE, call, site, "%d dimensions, 0 to %d can be", (int)dims.n, WF_RANK_MAX);
        return 0;
    }
    for (int32_t i = 0; i < dims.n; i++)
        if (dims.d[i] < 0) {
            wfi_error_set(c, WF_ERR_SHAPE, call, site, "dimension %d is %lld, which is below 0", (int)i,
                          (long long)dims.d[i]);
            return 0;
        }
    uint32_t type = wfi_ids_type(&c->ids, dtype, dims.n, dims.d);
    if (!type && wfi_ids_fits(dtype, dims.n, dims.d))
        wfi_error_memory(c, "a type", site);
    else if (!type)
        wfi_error_set(c, WF_ERR_SHAPE, call, site, "the product of the dimensions is too large");
    return type;
}

wf_tensor *wf_tensor_from_(wf_ctx *c, wf_dtype dtype, wf_dims dims, const void *host, const wf_from_opts *o,
                           const char *site)
{
    if (!c)
        return NULL;
    if (o && o->unnamed)
        wfi_error_set(c, WF_ERR_ARG, "wf_tensor_from", site, "options need names: .borrow = true");
    uint32_t type = checked_type(c, "wf_tensor_from", dtype, dims, site);
    if (!type)
        return NULL;
    const wfi_type *t = wfi_type_at(&c->ids, type);
    if (!host && t->elements) {
        wfi_error_set(c, WF_ERR_ARG, "wf_tensor_from", site, "host memory is NULL");
        return NULL;
    }
    bool borrow = o && o->borrow && t->elements;
    wfi_buf *buf = borrow ? lend(c, host, t->bytes) : wfi_buf_new(c, t->bytes);
    if (!buf)
        return NULL;
    if (!borrow && t->bytes)
        memcpy(buf->data, host, t->bytes);
    wf_tensor *h = wfi_emit_leaf(c, type, buf, wfi_ids_dense(&c->ids, type), site);
#ifdef WEFT_DEBUG
    if (h && borrow && !c->run_now) {
        h->flags |= WFI_H_BORROWED;
        h->u.hash = wfi_tensor_hash(c, h);
    }
#endif
    return h;
}

wf_tensor *wf_scalar_(wf_ctx *c, double value, const char *site)
{
    if (!c || c->status != WF_OK)
        return NULL;
    wf_tensor *h = wfi_handle_new(c);
    if (!h)
        return NULL;
    h->flags = WFI_H_WEAK;
    h->u.weak = value;
    h->site = site;
    h->op = WFI_EV_SCALAR;
    h->type = c->scalar[WF_F32];
    if (!wfi_handle_own(c, h)) {
        wfi_handle_unref(c, h);
        return NULL;
    }
    return h;
}

/* ---- looking ---- */

wf_dtype wf_tensor_dtype(const wf_tensor *t)
{
    uint32_t type = t && !(t->flags & WFI_H_DEAD) ? wfi_tensor_type(t) : 0;
    return type ? wfi_type_at(&t->ctx->ids, type)->dtype : WF_DTYPE_NONE;
}

static wf_dims dims_of(const wf_ctx *c, uint32_t type)
{
    wf_dims d = WF_NO_DIMS; /* its padding, too: attributes are compared as bytes */
    if (!type)
        return d;
    const wfi_type *ty = wfi_type_at(&c->ids, type);
    d.n = ty->ndim;
    memcpy(d.d, ty->dim, sizeof d.d);
    return d;
}

wf_dims wf_tensor_dims(const wf_tensor *t)
{
    return t && !(t->flags & WFI_H_DEAD) ? dims_of(t->ctx, wfi_tensor_type(t)) : WF_NO_DIMS;
}

wf_ctx *wf_tensor_ctx(const wf_tensor *t)
{
    return t ? t->ctx : NULL;
}

wf_status wfi_tensor_compute(wf_ctx *c, wf_tensor *t, const char *site)
{
    if (c->status != WF_OK)
        return c->status;
    if (t->ctx == c && t->buf && t->layout)
        return WF_OK;
    if (c->run_now || !wfi_in_step(c, t)) {
        wfi_error_set(c, WF_ERR_STATE, "", site,
                      "the tensor belongs to a scope that has ended, or to another context; return it with "
                      "wf_scope_return or keep it with wf_retain");
        return c->status;
    }
    if (c->r.recording_only) {
        wfi_error_set(c, WF_ERR_STATE, "", site,
                      "a value cannot be read while a function is captured: it is not computed");
        return c->status;
    }
    if (!wfi_step_check(c))
        return c->status;
    uint32_t ord = (uint32_t)t->tag & WFI_NONE;
    if (!wfi_emit_record(c, WFI_KEY(WFI_EV_READ, 0, 1), ord, WFI_NONE, WFI_NONE, 0, site))
        return c->status;
    uint32_t n = c->r.tr ? (uint32_t)(c->r.cursor - c->r.base) : c->r.n;
    c->r.done = n;
    wf_status s = wfi_run_records(c, n, ord, false);
    return s == WF_OK && !t->buf ? WF_ERR_STATE : s;
}

static wf_tensor *readable(wf_ctx *c, wf_tensor *t, const char *call, const char *site)
{
    if (!c || c->status != WF_OK)
        return NULL;
    if (!t) {
        wfi_error_set(c, WF_ERR_ARG, call, site, "the tensor is NULL");
        return NULL;
    }
    if (t->ctx != c || wfi_stale(c, t)) {
        wfi_error_set(c, WF_ERR_STATE, call, site, "the tensor belongs to %s",
                      t->ctx != c ? "another context" : "a scope that has ended");
        return NULL;
    }
    return t;
}

double wf_item_(wf_ctx *c, wf_tensor *t, const char *site)
{
    if (!readable(c, t, "wf_item", site))
        return NAN;
    if (t->flags & WFI_H_WEAK)
        return t->u.weak;
    const wfi_type *ty = wfi_type_at(&c->ids, wfi_tensor_type(t));
    char text[96];
    if (ty->elements != 1) {
        wfi_error_set(c, WF_ERR_SHAPE, "wf_item", site, "the tensor is %s: one element was expected",
                      wfi_type_text(&c->ids, wfi_tensor_type(t), text, sizeof text));
        return NAN;
    }
    if (wfi_tensor_compute(c, t, site) != WF_OK)
        return NAN;
    return wfi_dtype_load(ty->dtype, wfi_tensor_at(c, t->buf, t->layout), 0);
}

wf_status wf_read_(wf_ctx *c, wf_tensor *t, void *buffer, size_t bytes, const char *site)
{
    if (!readable(c, t, "wf_read", site))
        return c ? c->status : WF_ERR_ARG;
    double weak = t->u.weak;
    if (t->flags & WFI_H_WEAK) { /* reads as the f32 it would be */
        float f = (float)weak;
        if (bytes == sizeof f && buffer)
            return memcpy(buffer, &f, sizeof f), WF_OK;
    }
    const wfi_type *ty = wfi_type_at(&c->ids, wfi_tensor_type(t));
    char text[96];
    if (bytes != ty->bytes || (!buffer && bytes)) {
        wfi_error_set(c, WF_ERR_ARG, "wf_read", site, "%s needs a buffer of %zu bytes, got %zu%s",
                      wfi_type_text(&c->ids, wfi_tensor_type(t), text, sizeof text), ty->bytes, bytes,
                      buffer ? "" : " at NULL");
        return c->status;
    }
    if (wfi_tensor_compute(c, t, site) != WF_OK)
        return c->status;
    return bytes ? wfi_run_copy(c, t, buffer, site) : WF_OK;
}

wf_status wf_eval_(wf_ctx *c, wf_tensor *t, const char *site)
{
    if (!readable(c, t, "wf_eval", site))
        return c ? c->status : WF_ERR_ARG;
    return t->flags & WFI_H_WEAK ? WF_OK : wfi_tensor_compute(c, t, site);
}

/* ---- variables ---- */

wf_var *wfi_var_make(wf_ctx *c, const char *name, uint32_t type, const char *site)
{
    if (!wfi_mem_grow(c->mem, &c->var, &c->cap_var, c->nvar + 1, sizeof *c->var))
        return wfi_error_memory(c, "a variable", site), NULL;
    wf_var *v = wfi_mem_zalloc(c->mem, sizeof *v);
    size_t n = strlen(name) + 1;
    if (!v || !(v->name = wfi_mem_alloc(c->mem, n))) {
        wfi_mem_free(c->mem, v);
        return wfi_error_memory(c, "a variable", site), NULL;
    }
    memcpy(v->name, name, n);
    v->ctx = c;
    v->site = site;
    v->type = type;
    v->id = (uint32_t)c->nvar;
    v->trainable = wfi_type_at(&c->ids, type)->dtype <= WF_BF16;
    c->var[c->nvar++] = v;
    return v;
}

wf_var *wf_var_new_(wf_ctx *c, const char *name, wf_dtype dtype, wf_dims dims, const void *host, const char *site)
{
    if (!c)
        return NULL;
    uint32_t type = checked_type(c, "wf_var_new", dtype, dims, site);
    if (!type)
        return NULL;
    size_t bytes = wfi_type_at(&c->ids, type)->bytes;
    wfi_buf *buf = wfi_buf_new(c, bytes);
    if (!buf)
        return NULL;
    wf_var *v = wfi_var_make(c, name ? name : "", type, site);
    if (!v) {
        wfi_buf_unref(c, buf);
        return NULL;
    }
    if (host)
        memcpy(buf->data, host, bytes);
    else
        memset(buf->data, 0, bytes);
    v->buf = buf;
    return v;
}

wf_tensor *wf_value_(wf_var *v, const char *site)
{
    if (WFI_UNLIKELY(!v))
        return NULL;
    wf_ctx *c = v->ctx;
    if (v->val_serial == c->vserial && (v->val & WFI_TAG_STEP) == c->r.stag)
        return c->r.H[v->val & WFI_NONE];
    uint64_t key = WFI_KEY(WFI_EV_VALUE, v->id, 0);
    const wfi_rec *r = c->r.cursor;
    wf_tensor *h;
    if (WFI_LIKELY(r->key == key)) /* on a known path the pending version is known, too */
        h = wfi_hit(c, r, site);
    else if (c->status != WF_OK)
        return NULL;
    else if (c->run_now) {
        bool assigned = c->in_step && (v->cur & WFI_TAG_STEP) == c->r.stag; /* history goes on through it */
        const uint32_t from[3] = { assigned ? (uint32_t)v->cur & WFI_NONE : WFI_NONE, WFI_NONE, WFI_NONE };
        v->buf->refs++;
        h = wfi_emit_leaf(c, v->type, v->buf, wfi_ids_dense(&c->ids, v->type), site);
        if (!h || !c->in_step)
            return h;
        h->op = WFI_EV_VALUE;
        if (!wfi_emit_track(c, h, key, from))
            return NULL;
    } else {
        uint32_t from = (v->cur & WFI_TAG_STEP) == c->r.stag ? (uint32_t)v->cur & WFI_NONE : WFI_NONE;
        if (c->r.tr) { /* leaving the trace may restore assignments of its prefix */
            wfi_rec w = { .key = key, .in = { from, WFI_NONE, WFI_NONE } };
            uint32_t k = (uint32_t)(r - c->r.base);
            if (!wfi_trace_exit(c, k, &w)) {
                wfi_trace_leave(c, k);
                from = (v->cur & WFI_TAG_STEP) == c->r.stag ? (uint32_t)v->cur & WFI_NONE : WFI_NONE;
            }
        }
        h = wfi_emit_record(c, key, from, WFI_NONE, WFI_NONE, v->type, site);
    }
    if (h)
        wfi_value_remember(c, v, h);
    return h;
}

void wfi_var_pending(wf_ctx *c, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        if (WFI_KEY_OP(c->r.base[i].key) == WFI_EV_ASSIGN)
            c->var[WFI_KEY_PAYLOAD(c->r.base[i].key)]->cur = c->r.stag | c->r.base[i].in[0];
}

wf_status wf_assign_(wf_var *v, wf_tensor *t, const char *site)
{
    if (!v)
        return WF_ERR_ARG;
    wf_ctx *c = v->ctx;
    if (c->status != WF_OK)
        return c->status;
    if (!t) {
        wfi_error_set(c, WF_ERR_ARG, "wf_assign", site, "the value for variable %s is NULL", v->name);
        return c->status;
    }
    if (!readable(c, t, "wf_assign", site))
        return c->status;
    wf_dtype dtype = wfi_type_at(&c->ids, v->type)->dtype;
    if (!(t->flags & WFI_H_WEAK) && wfi_tensor_type(t) != v->type) {
        char want[96], got[96];
        wfi_error_set(c, wf_tensor_dtype(t) == dtype ? WF_ERR_SHAPE : WF_ERR_DTYPE, "wf_assign", site,
                      "variable %s is %s, the value is %s", v->name, wfi_type_text(&c->ids, v->type, want, sizeof want),
                      wfi_type_text(&c->ids, wfi_tensor_type(t), got, sizeof got));
        wfi_error_add(c, "\n  %s: made at %s\n  value: %s", v->name, v->site, t->site);
        return c->status;
    }
    if (c->run_now) {
        if (t->flags & WFI_H_WEAK)
            t = wfi_emit_const(c, dtype, t->u.weak, site);
        if (t && wfi_tensor_compute(c, t, site) == WF_OK)
            (void)wfi_run_assign(c, v, t);
        v->cur = t && c->in_step && wfi_in_step(c, t) ? t->tag : 0;
        c->vserial++;
        return c->status;
    }
    uint32_t ord = wfi_emit_bind(c, t, dtype, site);
    if (ord == WFI_NONE || !wfi_emit_record(c, WFI_KEY(WFI_EV_ASSIGN, v->id, 1), ord, WFI_NONE, WFI_NONE, 0, site))
        return c->status;
    v->cur = c->r.stag | ord;
    v->val_serial = 0;
    return WF_OK;
}

const char *wf_var_name(const wf_var *v)
{
    return v ? v->name : "";
}
wf_dtype wf_var_dtype(const wf_var *v)
{
    return v ? wfi_type_at(&v->ctx->ids, v->type)->dtype : WF_DTYPE_NONE;
}
wf_dims wf_var_dims(const wf_var *v)
{
    return v ? dims_of(v->ctx, v->type) : WF_NO_DIMS;
}
