/* A library composite (gradients, an optimiser's step) is one event and a body of records. On a known trace the body
 * is one jump; only its host numbers are refreshed. */
#include <string.h>
#include "record/emit.h"
#include "record/record.h"

wfi_composite wfi_composite_begin(wf_ctx *c, uint32_t event, uint32_t payload, uint32_t a, uint32_t b,
                                  const double *numbers, const char *site)
{
    wfi_composite k = { .owner = c->r.owner, .open = true, .autocast = c->autocast };
    c->autocast = WF_DTYPE_NONE; /* the event tells the trace */
    c->vserial++;                /* values remembered before need not be those after: the body may be skipped */
    if (c->run_now || c->status != WF_OK)
        return k;
    if (!wfi_emit_record(c, WFI_KEY(event, payload, 0), a, b, WFI_NONE, 0, site))
        return k;
    wfi_trace *t = c->r.tr;
    k.at = t ? (uint32_t)(c->r.cursor - c->r.base) - 1 : c->r.n - 1;
    c->r.owner = k.at;
    if (!t || !t->rec[k.at].skip)
        return k;
    uint32_t end = t->rec[k.at].skip;
    c->r.cursor = c->r.base + end;
    k.known = true;
    for (uint32_t i = 0; i < t->nlive; i++)
        if (t->live[i].slot > k.at && t->live[i].slot < end)
            memcpy(c->r.host[i], numbers + t->live[i].at, t->live[i].n * sizeof *numbers);
    return k;
}

static bool add_live(wf_ctx *c, uint32_t slot, uint32_t at, uint32_t n, size_t *index)
{
    for (size_t i = 0; c->r.tr && i < c->r.tr->nlive; i++)
        if (c->r.tr->live[i].slot == slot)
            return *index = i, true;
    if (!wfi_mem_grow(c->mem, &c->r.live, &c->r.cap_live, c->r.nlive + 1, sizeof *c->r.live) ||
        !wfi_mem_grow(c->mem, &c->r.host, &c->r.cap_host, c->r.nlive + 1, sizeof *c->r.host))
        return false;
    *index = c->r.nlive;
    c->r.live[c->r.nlive++] = (wfi_live){ slot, at, n };
    return true;
}

wf_tensor *wfi_composite_host(wf_ctx *c, const double *numbers, uint32_t at, uint32_t n, const char *site)
{
    if (c->status != WF_OK)
        return NULL;
    int64_t dim = n;
    uint32_t type = wfi_ids_type(&c->ids, WF_F64, 1, &dim), layout = type ? wfi_ids_dense(&c->ids, type) : 0;
    if (!layout)
        return wfi_error_memory(c, "a type", site), NULL;
    if (c->run_now) {
        wfi_buf *buf = wfi_buf_new(c, n * sizeof *numbers);
        if (!buf)
            return NULL;
        memcpy(buf->data, numbers + at, n * sizeof *numbers);
        return wfi_emit_leaf(c, type, buf, layout, site);
    }
    wf_tensor *h = wfi_emit_record(c, WFI_KEY(WFI_EV_HOST, type, 0), WFI_NONE, WFI_NONE, WFI_NONE, type, site);
    size_t i;
    if (!h)
        return NULL;
    if (!add_live(c, (uint32_t)h->tag & WFI_NONE, at, n, &i))
        return wfi_error_memory(c, "host numbers", site), NULL;
    memcpy(c->r.host[i], numbers + at, n * sizeof *numbers);
    return h;
}

void wfi_composite_out(wf_ctx *c, wf_tensor *t, const char *site)
{
    if (!c->run_now && c->status == WF_OK)
        wfi_emit_record(c, WFI_KEY(WFI_EV_OUT, 0, 0), t ? (uint32_t)t->tag & WFI_NONE : WFI_NONE, WFI_NONE, WFI_NONE, 0,
                        site);
}

uint32_t wfi_composite_outs(wf_ctx *c, const wfi_composite *k, uint32_t n, wf_tensor **out)
{
    const wfi_rec *base = c->r.base;
    uint32_t end = base[k->at].skip;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t ord = base[end - n + i].in[0];
        out[i] = ord == WFI_NONE ? NULL : c->r.H[ord];
        if (out[i])
            out[i]->tag = c->r.stag | ord;
    }
    return n;
}

wf_status wfi_composite_end(wf_ctx *c, wfi_composite *k)
{
    if (!c->run_now) {
        if (c->status != WF_OK) { /* an error inside drops the whole composite */
            if (k->at < c->error_n && c->error_n <= c->r.n && c->r.owner == k->at)
                c->error_n = c->r.n = k->at;
        } else if (!c->r.tr)
            c->r.scratch[k->at].skip = c->r.n;
    }
    c->r.owner = k->owner;
    c->autocast = k->autocast;
    c->vserial++;
    k->open = false;
    return c->status;
}
