/* Records run one by one, with the same bound kernels that plans use: the first sight of a trace, steps that are read
 * in the middle, and what stands before an error. Buffers die after their last use. */
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "base/hash.h"
#include "record/record.h"

void wfi_run_fault(wf_ctx *c, uint32_t op, const char *site)
{
    wfi_fault *f = &c->queue->fault;
    const uint32_t inside = f->op;
    f->op = 0;
    if (inside)
        op = inside - 1;
    if (f->status == WF_ERR_INDEX)
        wfi_error_set(c, WF_ERR_INDEX, op < WFI_OP_COUNT ? wfi_op_table[op].name : "", site,
                      "index %lld at position %lld is outside 0..%lld", (long long)f->value, (long long)f->position,
                      (long long)f->size - 1);
    else
        wfi_error_set(c, f->status, op < WFI_OP_COUNT ? wfi_op_table[op].name : "", site, "the kernel failed");
    if (inside)
        wfi_error_add(c, ", in a body");
    atomic_store(&f->set, 0);
}

wf_status wfi_run_bound(wf_ctx *c, const wfi_bound *b, void **args, const char *site, uint32_t op)
{
    wfi_cmd cmd = { .fn = b->fn, .params = b->params, .args = args, .bytes = b->scratch, .faults = b->faults };
    c->st.commands++;
    wf_status s = c->rt->device->api->submit(c->queue, &cmd, 1, NULL, 0, 0);
    if (WFI_UNLIKELY(s != WF_OK))
        wfi_run_fault(c, op, site);
    return s;
}

static const char *site_of(wf_ctx *c, uint32_t i)
{
    uint32_t owner = c->r.base[i].owner;
    wf_tensor *h = c->r.H[owner == WFI_NONE ? i : owner];
    return h ? h->site : NULL;
}

/* Operands of record i in order; returns how many. */
uint32_t wfi_run_operands(const wfi_rec *base, uint32_t i, uint32_t *in)
{
    const wfi_rec *r = &base[i];
    uint32_t nin = WFI_KEY_NIN(r->key), args = nin > 3 ? (nin - 3 + 2) / 3 : 0;
    for (uint32_t k = 0; k < nin; k++)
        in[k] = k < 3 ? r->in[k] : base[i - args + (k - 3) / 3].in[(k - 3) % 3];
    return nin;
}

static bool set_number(wf_ctx *c, wf_tensor *h, uint32_t type, const void *bits, size_t bytes)
{
    if (!(h->buf = wfi_buf_new(c, bytes)))
        return false;
    memcpy(h->buf->data, bits, bytes);
    h->type = type;
    return (h->layout = wfi_ids_dense(&c->ids, type)) != 0;
}

static bool run_leaf(wf_ctx *c, uint32_t i, const wfi_rec *r, wf_tensor *h)
{
    uint32_t payload = WFI_KEY_PAYLOAD(r->key);
    switch (WFI_KEY_OP(r->key)) {
    case WFI_EV_VALUE: {
        wf_tensor *from = r->in[0] == WFI_NONE ? NULL : c->r.H[r->in[0]];
        h->buf = from ? from->buf : c->var[payload]->buf;
        h->type = c->var[payload]->type;
        h->layout = from ? from->layout : wfi_ids_dense(&c->ids, h->type);
        h->buf->refs++;
        return h->layout != 0;
    }
    case WFI_EV_SCALAR: return set_number(c, h, r->type, &h->u.imm, 8);
    case WFI_EV_CONST: {
        const double *value = wfi_attr_data(&c->ids, payload);
        uint64_t bits = 0;
        wfi_dtype_store(wfi_type_at(&c->ids, r->type)->dtype, &bits, 0, *value);
        return set_number(c, h, r->type, &bits, 8);
    }
    case WFI_EV_HOST:
        for (size_t k = 0; k < (c->r.tr ? c->r.tr->nlive : c->r.nlive); k++) {
            const wfi_live *l = c->r.tr ? &c->r.tr->live[k] : &c->r.live[k];
            if (l->slot == i)
                return set_number(c, h, r->type, c->r.host[k], 8 * l->n);
        }
        return false;
    default: return true;
    }
}

static bool run_op(wf_ctx *c, uint32_t i, const wfi_rec *r)
{
    uint32_t in[WFI_NODE_INS], layout[WFI_NODE_INS], nin = wfi_run_operands(c->r.base, i, in);
    void *args[WFI_NODE_OUTS + WFI_NODE_INS];
    wf_tensor *made[WFI_NODE_INS];
    for (uint32_t k = 0; k < nin; k++) {
        made[k] = in[k] == WFI_NONE ? NULL : c->r.H[in[k]];
        layout[k] = made[k] ? made[k]->layout : 0;
    }
    const char *site = site_of(c, i);
    const wfi_bound *b = wfi_bound_get(c, r->key, nin, layout, site, made);
    if (!b)
        return false;
    for (uint32_t k = 0; k < b->nout; k++) {
        wf_tensor *h = c->r.H[i + k];
        if (b->alias >= 0) {
            h->buf = made[b->alias]->buf;
            h->buf->refs++;
        } else if (!(h->buf = wfi_buf_new(c, b->out[k].bytes)))
            return false;
        h->type = b->out[k].type;
        h->layout = b->out[k].layout;
        args[k] = h->buf->data;
    }
    if (!b->fn)
        return true;
    for (uint32_t k = 0; k < nin; k++)
        args[b->nout + k] = made[k] ? wfi_tensor_at(c, made[k]->buf, made[k]->layout) : NULL;
    return wfi_run_bound(c, b, args, site, WFI_KEY_OP(r->key)) == WF_OK;
}

/* mark[i]: the last record that uses i, 0 where i is not needed. Kept ones: n. */
static void find_uses(wf_ctx *c, uint32_t n, uint32_t want, bool last, uint32_t *mark)
{
    memset(mark, 0, n * sizeof *mark);
    if (want != WFI_NONE)
        mark[want] = n;
    for (uint32_t i = n; i-- > 0;) {
        const wfi_rec *r = &c->r.base[i];
        uint32_t op = WFI_KEY_OP(r->key), in[WFI_NODE_INS], nin = 0;
        if (op == WFI_EV_ASSIGN || (last && (op == WFI_EV_RETURN || op == WFI_EV_RETAIN)))
            mark[r->in[0]] = n;
        if (!mark[i])
            continue;
        if (wfi_rec_runs(op))
            nin = wfi_run_operands(c->r.base, i, in);
        else if (op == WFI_EV_PART || (op == WFI_EV_VALUE && r->in[0] != WFI_NONE))
            in[nin++] = r->in[0];
        for (uint32_t k = 0; k < nin; k++)
            if (in[k] != WFI_NONE && !mark[in[k]])
                mark[in[k]] = i;
    }
}

static bool set_var(wf_ctx *c, wf_var *v, const wf_tensor *t)
{
    const wfi_layout *l = wfi_layout_at(&c->ids, t->layout);
    if (l->contiguous && l->offset == 0 && !WFI_BUF_BORROWED(t->buf)) {
        t->buf->refs++;
        wfi_buf_unref(c, v->buf);
        v->buf = t->buf;
        v->version++;
        wfi_autocast_forget(v);
        return true;
    }
    wfi_buf *buf = wfi_buf_new(c, wfi_type_at(&c->ids, v->type)->bytes);
    if (!buf || wfi_run_copy(c, t, buf->data, NULL) != WF_OK) {
        if (buf)
            wfi_buf_unref(c, buf);
        return false;
    }
    wfi_buf_unref(c, v->buf);
    v->buf = buf;
    v->version++;
    wfi_autocast_forget(v);
    return true;
}

wf_status wfi_run_assign(wf_ctx *c, wf_var *v, const wf_tensor *t)
{
    return set_var(c, v, t) ? WF_OK : c->status;
}

/* Row-major copy of t into `to`. */
wf_status wfi_run_copy(wf_ctx *c, const wf_tensor *t, void *to, const char *site)
{
    const wfi_layout *l = wfi_layout_at(&c->ids, t->layout);
    const wfi_type *ty = wfi_type_at(&c->ids, l->type);
    if (l->contiguous) {
        memcpy(to, wfi_tensor_at(c, t->buf, t->layout), ty->bytes);
        return WF_OK;
    }
    wfi_view in, out;
    uint32_t dense = wfi_ids_dense(&c->ids, l->type);
    if (!dense)
        return wfi_error_memory(c, "a layout", site);
    wfi_layout_view(&c->ids, t->layout, &in);
    wfi_layout_view(&c->ids, dense, &out);
    wfi_bind b = { .op = WFI_OP_contiguous,
                   .nin = 1,
                   .nout = 1,
                   .in = &in,
                   .out = &out,
                   .threads = c->rt->threads,
                   .params = c->bind_params,
                   .alias = -1 };
    const char *why = c->rt->device->api->module_load(c->rt->device, &b);
    if (why) {
        wfi_error_set(c, WF_ERR_UNSUPPORTED, "copy", site, "%s", why);
        return c->status;
    }
    if (!wfi_queue_reserve(c->queue, b.scratch))
        return wfi_error_memory(c, "scratch memory", site);
    void *args[2] = { to, wfi_tensor_at(c, t->buf, t->layout) };
    wfi_cmd cmd = { .fn = b.fn, .params = c->bind_params, .args = args };
    return c->rt->device->api->submit(c->queue, &cmd, 1, NULL, 0, 0);
}

/* Old contents of variables that later records may still ask for. */
static bool bind_values(wf_ctx *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const wfi_rec *r = &c->r.base[i];
        if (WFI_KEY_OP(r->key) == WFI_EV_VALUE && r->in[0] == WFI_NONE && !c->r.H[i]->buf &&
            !run_leaf(c, i, r, c->r.H[i]))
            return wfi_error_memory(c, "the step", NULL), false;
    }
    return true;
}

static bool run_one(wf_ctx *c, uint32_t i, const uint32_t *mark)
{
    const wfi_rec *r = &c->r.base[i];
    uint32_t op = WFI_KEY_OP(r->key);
    wf_tensor *h = c->r.H[i];
    bool parts = false;
    for (uint32_t k = 1, n = wfi_rec_runs(op) ? wfi_rec_nout(&c->ids, r->key) : 0; k < n; k++)
        parts |= mark[i + k] != 0;
    if ((!mark[i] && !parts) || !h || h->buf)
        return true;
    if (wfi_rec_runs(op) ? run_op(c, i, r) : run_leaf(c, i, r, h))
        return true;
    wfi_error_memory(c, "the step", NULL); /* unless there is an error already */
    return false;
}

static void drop_used(wf_ctx *c, uint32_t i, const uint32_t *mark)
{
    uint32_t in[WFI_NODE_INS], nin = 0;
    if (wfi_rec_runs(WFI_KEY_OP(c->r.base[i].key)) && (nin = wfi_run_operands(c->r.base, i, in)))
        for (uint32_t k = 0; k < nin; k++)
            if (in[k] != WFI_NONE && mark[in[k]] == i && c->r.H[in[k]]->buf) {
                wfi_buf_unref(c, c->r.H[in[k]]->buf);
                c->r.H[in[k]]->buf = NULL;
            }
}

wf_status wfi_run_records(wf_ctx *c, uint32_t n, uint32_t want, bool last)
{
    if (!wfi_mem_grow(c->mem, &c->mark, &c->cap_mark, (size_t)n + 1, sizeof *c->mark))
        return wfi_error_memory(c, "the step", NULL);
    uint32_t *mark = c->mark;
    find_uses(c, n, want, last, mark);
    if (!bind_values(c, n))
        return c->status;
    for (uint32_t i = 0; i < n; i++) {
        if (!run_one(c, i, mark))
            return c->status != WF_OK ? c->status : WF_ERR_MEMORY;
        if (last)
            drop_used(c, i, mark);
    }
    for (uint32_t i = 0; i < n; i++) {
        const wfi_rec *r = &c->r.base[i];
        if (WFI_KEY_OP(r->key) == WFI_EV_ASSIGN && !set_var(c, c->var[WFI_KEY_PAYLOAD(r->key)], c->r.H[r->in[0]]))
            return c->status;
    }
    return WF_OK;
}
