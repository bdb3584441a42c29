/* Learnt traces form a tree: each left its parent at record `fork`, and is found there by its first own record. */
#include <string.h>
#include "base/hash.h"
#include "record/record.h"

enum { TRACES_MAX = 4096 };
#define TRACE_BYTES_MAX ((size_t)256 << 20)

static uint64_t exit_hash(const wfi_trace *t, uint32_t k, const wfi_rec *w)
{
    uint64_t h[3] = { w->key, (uint64_t)w->in[0] | (uint64_t)w->in[1] << 32, (uint64_t)w->in[2] | (uint64_t)k << 32 };
    return wfi_hash64(h, sizeof h, t ? t->id : 0);
}

static bool here(const wfi_rec *r, const wfi_rec *w)
{
    return r->key == w->key && r->in[0] == w->in[0] && r->in[1] == w->in[1] && r->in[2] == w->in[2];
}

/* The trace whose own records (not a copied prefix) contain record k - 1: exits hang there. */
static wfi_trace *canonical(wfi_trace *t, uint32_t k)
{
    while (t && k <= t->fork)
        t = t->parent;
    return t;
}

wfi_trace *wfi_trace_exit(wf_ctx *c, uint32_t k, const wfi_rec *want)
{
    wfi_trace *t = canonical(c->r.tr, k), *u;
    if (t && k < t->n && here(&t->rec[k], want))
        return t;
    if (!c->exit_tab)
        return NULL;
    for (uint64_t i = exit_hash(t, k, want); (u = c->exit_tab[i & c->exit_mask]); i++)
        if (u->fork == k && u->parent == t && here(&u->rec[k], want))
            return u;
    return NULL;
}

void wfi_trace_leave(wf_ctx *c, uint32_t k)
{
    wfi_trace *t = c->r.tr;
    c->st.side_exits++;
    c->r.from = canonical(t, k);
    c->r.at = k;
    c->r.tr = NULL;
    c->r.cursor = &wfi_record_sentinel;
    c->r.base = c->r.scratch;
    if (!wfi_steprec_grow(c, (size_t)k + 1)) {
        c->r.n = 0;
        return;
    }
    memcpy(c->r.scratch, t->rec, k * sizeof *t->rec);
    c->r.n = k;
    wfi_var_pending(c, 0, k);
    c->r.nlive = 0;
    for (uint32_t i = 0; i < t->nlive && t->live[i].slot < k; i++)
        if (wfi_mem_grow(c->mem, &c->r.live, &c->r.cap_live, c->r.nlive + 1, sizeof *c->r.live))
            c->r.live[c->r.nlive++] = t->live[i];
}

static bool tab_grow(wf_ctx *c)
{
    uint32_t mask = c->exit_mask ? c->exit_mask * 2 + 1 : 255;
    wfi_trace **tab = wfi_mem_zalloc(c->mem, ((size_t)mask + 1) * sizeof(wfi_trace *));
    if (!tab)
        return false;
    wfi_mem_free(c->mem, c->exit_tab);
    c->exit_tab = tab;
    c->exit_mask = mask;
    return true;
}

static void tab_put(wf_ctx *c, wfi_trace *t)
{
    uint64_t i = exit_hash(t->parent, t->fork, &t->rec[t->fork]);
    while (c->exit_tab[i & c->exit_mask])
        i++;
    c->exit_tab[i & c->exit_mask] = t;
}

static void tab_rebuild(wf_ctx *c)
{
    memset(c->exit_tab, 0, ((size_t)c->exit_mask + 1) * sizeof *c->exit_tab);
    for (wfi_trace *t = c->newest; t; t = t->older)
        tab_put(c, t);
}

static void unlink_trace(wf_ctx *c, wfi_trace *t)
{
    *(t->newer ? &t->newer->older : &c->newest) = t->older;
    *(t->older ? &t->older->newer : &c->oldest) = t->newer;
}

static void link_newest(wf_ctx *c, wfi_trace *t)
{
    t->newer = NULL;
    t->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = t;
    c->newest = t;
}

void wfi_trace_used(wf_ctx *c, wfi_trace *t)
{
    if (c->newest == t)
        return;
    unlink_trace(c, t);
    link_newest(c, t);
}

static void trace_free(wf_ctx *c, wfi_trace *t)
{
    if (t->plan) {
        wfi_explain_last(c, t->plan);
        wfi_plan_free(c, t->plan);
    }
    wfi_mem_free(c->mem, t->rec);
    wfi_mem_free(c->mem, t->live);
    wfi_mem_free(c->mem, t->leaf);
    wfi_mem_free(c->mem, t);
}

/* Makes room: the least recently used traces that no other hangs from go first. */
static void evict(wf_ctx *c)
{
    bool any = false;
    for (wfi_trace *t = c->oldest, *newer;
         t && (c->ntrace > TRACES_MAX * 3 / 4 || c->trace_bytes > TRACE_BYTES_MAX / 4 * 3); t = newer) {
        newer = t->newer;
        if (t->children || t == c->last)
            continue;
        for (wfi_trace *u = c->newest; u; u = u->older)
            if (u->succ == t)
                u->succ = NULL;
        unlink_trace(c, t);
        if (t->parent)
            t->parent->children--;
        c->ntrace--;
        c->trace_bytes -= t->bytes;
        trace_free(c, t);
        any = true;
    }
    if (any)
        tab_rebuild(c);
}

static void content_hash(wf_ctx *c, wfi_trace *t)
{
    uint64_t h[2] = { 0x243f6a8885a308d3u, 0x13198a2e03707344u };
    for (uint32_t i = 0; i < t->n; i++) {
        const wfi_rec *r = &t->rec[i];
        uint64_t w[3] = { WFI_KEY_OP(r->key), (uint64_t)r->in[0] | (uint64_t)r->in[1] << 32, r->in[2] };
        h[0] = wfi_hash64(w, sizeof w, h[0]);
        uint32_t op = WFI_KEY_OP(r->key), payload = WFI_KEY_PAYLOAD(r->key);
        if (op == WFI_EV_FLOW)
            h[1] = wfi_hash_mix(h[1], wfi_flow_hash(&c->ids, wfi_attr_data(&c->ids, payload)));
        if ((op < WFI_OP_COUNT || op == WFI_EV_CONST) && payload) {
            const wfi_attr_item *a = wfi_attr_at(&c->ids, payload);
            h[1] = wfi_hash64(a->data, a->bytes, h[1]);
        }
        if (r->type) {
            const wfi_type *ty = wfi_type_at(&c->ids, r->type);
            h[1] = wfi_hash64(ty->dim, sizeof *ty->dim * (size_t)ty->ndim, h[1] + (uint64_t)ty->dtype);
        }
    }
    t->hash[0] = h[0];
    t->hash[1] = h[1];
}

/* What the end of a step wants to know of a trace without walking over it each time. */
static bool look_through(wf_ctx *c, wfi_trace *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t op = WFI_KEY_OP(t->rec[i].key);
        t->reads |= op == WFI_EV_READ;
        t->keeps |= op == WFI_EV_RETURN || op == WFI_EV_RETAIN;
        t->nleaf += op == WFI_EV_INPUT;
    }
    t->leaf = wfi_mem_array(c->mem, (size_t)t->nleaf + 1, sizeof *t->leaf);
    for (uint32_t i = 0, k = 0; t->leaf && i < t->n; i++)
        if (WFI_KEY_OP(t->rec[i].key) == WFI_EV_INPUT)
            t->leaf[k++] = i;
    return t->leaf != NULL;
}

wfi_trace *wfi_trace_learn(wf_ctx *c)
{
    if (c->ntrace >= TRACES_MAX || c->trace_bytes > TRACE_BYTES_MAX)
        evict(c);
    if ((!c->exit_tab || c->ntrace * 2 > c->exit_mask) && tab_grow(c))
        tab_rebuild(c);
    uint32_t n = c->r.n;
    wfi_trace *t = wfi_mem_zalloc(c->mem, sizeof *t);
    if (!t || !c->exit_tab || !(t->rec = wfi_mem_array(c->mem, (size_t)n + 1, sizeof *t->rec)) ||
        (c->r.nlive && !(t->live = wfi_mem_array(c->mem, c->r.nlive, sizeof *t->live)))) {
        if (t)
            trace_free(c, t);
        return NULL;
    }
    t->id = ++c->next_trace;
    t->n = n;
    t->fork = c->r.at;
    t->parent = c->r.from;
    memcpy(t->rec, c->r.scratch, n * sizeof *t->rec);
    t->rec[n] = wfi_record_sentinel;
    t->nlive = (uint32_t)c->r.nlive;
    if (t->nlive)
        memcpy(t->live, c->r.live, t->nlive * sizeof *t->live);
    if (!look_through(c, t)) {
        trace_free(c, t);
        return NULL;
    }
    content_hash(c, t);
    t->bytes = sizeof *t + (n + 1) * sizeof *t->rec + t->nlive * sizeof *t->live;
    c->trace_bytes += t->bytes;
    c->ntrace++;
    if (t->parent)
        t->parent->children++;
    link_newest(c, t);
    tab_put(c, t);
    return t;
}

void wfi_trace_free_all(wf_ctx *c)
{
    while (c->newest) {
        wfi_trace *t = c->newest;
        c->newest = t->older;
        trace_free(c, t);
    }
    c->oldest = c->last = NULL;
    c->ntrace = 0;
    wfi_mem_free(c->mem, c->exit_tab);
    c->exit_tab = NULL;
    c->exit_mask = 0;
}
