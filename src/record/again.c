#include "record/again.h"
#include <string.h>

static wfi_known *slot(wf_ctx *c, uint32_t trace, uint32_t from)
{
    return &c->known[(trace * 0x9e3779b1u + from * 0x85ebca6bu) >> 24];
}
_Static_assert(WFI_KNOWN_CALLS == 1 << 8, "slots are chosen by eight bits");

static inline uint32_t ordinal(const wf_ctx *c, const wf_tensor *t)
{
    return t && wfi_in_step(c, t) ? (uint32_t)t->tag & WFI_NONE : WFI_NONE;
}

static bool same_text(const char *text, uint32_t n, const char *name)
{
    uint32_t i = 0;
    while (i < n && name[i] == text[i]) /* a shorter name ends with 0, which is no character of text */
        i++;
    return i == n && !name[i];
}

static inline bool same(const wf_ctx *c, const wfi_known *e, const wfi_call *k)
{
    return e->trace == k->trace && e->from == k->from && e->what == k->what && e->args[0] == k->args[0] &&
           e->args[1] == k->args[1] && e->keybits == c->keybits && k->in[0]->tag == (c->r.stag | e->in[0]) &&
           (k->in[1] ? k->in[1]->tag == (c->r.stag | e->in[1]) : e->in[1] == WFI_NONE) &&
           (!k->name || same_text(e->name, e->name_n, k->name));
}

bool wfi_again(wf_ctx *c, wfi_call *k, uint32_t nout, wf_tensor **out, const char *site)
{
    const wfi_trace *t = c->r.tr;
    k->trace = 0;
    if (!t || c->status != WF_OK)
        return false;
    k->trace = t->id;
    k->from = (uint32_t)(c->r.cursor - c->r.base);
    const wfi_known *e = slot(c, k->trace, k->from);
    if (!same(c, e, k))
        return false;
    for (uint32_t i = k->from; i < e->to; i++) {
        wf_tensor *h = c->r.H[i];
        h->tag = c->r.stag | i;
        h->site = site;
        if (WFI_KEY_OP(t->rec[i].key) == WFI_EV_VALUE)
            wfi_value_remember(c, c->var[WFI_KEY_PAYLOAD(t->rec[i].key)], h);
    }
    c->r.cursor = c->r.base + e->to;
    for (uint32_t i = 0; i < nout; i++)
        out[i] = c->r.H[e->out[i]];
    return true;
}

static bool keeps(const wfi_rec *r)
{
    const uint32_t op = WFI_KEY_OP(r->key);
    return wfi_rec_runs(op) || op == WFI_EV_VALUE || op == WFI_EV_CONST || op == WFI_EV_ARG || op == WFI_EV_PART;
}

void wfi_again_keep(wf_ctx *c, const wfi_call *k, const char *name, uint32_t n, uint32_t nout, wf_tensor *const *out)
{
    const wfi_trace *t = c->r.tr;
    if (!t || t->id != k->trace || c->status != WF_OK || nout > 2)
        return;
    wfi_known e = { .what = k->what,
                    .name = name,
                    .name_n = n,
                    .args = { k->args[0], k->args[1] },
                    .keybits = c->keybits,
                    .trace = k->trace,
                    .from = k->from,
                    .to = (uint32_t)(c->r.cursor - c->r.base),
                    .in = { ordinal(c, k->in[0]), ordinal(c, k->in[1]) } };
    bool ok = e.in[0] != WFI_NONE && (!k->in[1] || e.in[1] != WFI_NONE);
    for (uint32_t i = e.from; i < e.to; i++)
        ok = ok && keeps(&t->rec[i]);
    for (uint32_t i = 0; i < nout; i++)
        ok = ok && (e.out[i] = ordinal(c, out[i])) != WFI_NONE;
    if (ok)
        *slot(c, e.trace, e.from) = e;
}

bool wfi_again_enter(wf_ctx *c, wf_tensor *t, const char *site)
{
    return c->run_now || wfi_in_step(c, t) || wfi_emit_bind(c, t, WF_F32, site) != WFI_NONE;
}
