/* Scopes and steps: where a step begins, what its end runs, and who outlives it. */
#include <string.h>
#include <unistd.h>
#include "record/record.h"

bool wfi_step_check(wf_ctx *c)
{
    if (WFI_UNLIKELY(c->rt->ours ? !*c->rt->ours : c->pid != (int32_t)getpid()))
        wfi_error_set(c, WF_ERR_STATE, "", NULL, "this context was made before fork: a child cannot use it");
    if (WFI_UNLIKELY(atomic_load_explicit(&c->interrupted, memory_order_relaxed)) &&
        atomic_exchange(&c->interrupted, 0))
        wfi_error_set(c, WF_ERR_INTERRUPTED, "", NULL, "interrupted");
    return c->status == WF_OK;
}

void wfi_step_tag(wf_ctx *c)
{
    enum { BLOCK = 1024 };
    if (WFI_UNLIKELY(c->step == c->step_end)) {
        c->step = atomic_fetch_add_explicit(&c->rt->step, BLOCK, memory_order_relaxed);
        c->step_end = c->step + BLOCK;
    }
    c->r.stag = ++c->step << 24;
}

void wfi_step_start(wf_ctx *c)
{
    wfi_steprec *r = &c->r;
    wfi_step_tag(c);
    r->n = r->done = r->at = 0;
    c->call = 0;
    r->nlive = 0;
    r->owner = WFI_NONE;
    r->from = NULL;
    c->vserial++;
    wfi_trace *t = NULL;
    if (c->mode == WF_LAZY && !r->recording_only && c->last)
        t = c->last->succ ? c->last->succ : c->last;
    r->tr = c->status == WF_OK ? t : NULL;
    r->base = r->tr ? r->tr->rec : r->scratch;
    r->cursor = r->tr ? r->tr->rec : &wfi_record_sentinel;
    r->at = 0;
    r->autocast = WF_DTYPE_NONE;
    r->contract = WF_STRICT;
    wfi_autocast_note(c);
    wfi_contract_note(c);
}

/* No step is open: calls run at once and are not remembered. */
static void step_stop(wf_ctx *c)
{
    c->in_step = false;
    c->run_now = true;
    c->r.tr = NULL;
    c->r.cursor = &wfi_record_sentinel;
    c->r.base = c->r.scratch;
    c->r.n = 0;
    c->r.owner = WFI_NONE;
    wfi_step_tag(c);
    c->vserial++;
}

/* While a step ends, the upper half of a result's flags holds how many scopes around the step it outlives. */
enum { UP_SHIFT = 8 };
#define UP_OF(h) ((uint32_t)(h)->flags >> UP_SHIFT)

static wf_tensor *kept_find(wf_ctx *c, uint32_t ord)
{
    for (size_t i = 0; i < c->nkept; i++)
        if (((uint32_t)c->kept[i]->tag & WFI_NONE) == ord)
            return c->kept[i];
    return NULL;
}

/* The handle of record ord leaves the step: another one takes its place. */
static wf_tensor *kept_new(wf_ctx *c, uint32_t ord)
{
    wf_tensor *h = c->r.H[ord], *fresh;
    if (!h || !h->buf || !wfi_mem_grow(c->mem, &c->kept, &c->cap_kept, c->nkept + 1, sizeof *c->kept) ||
        !(fresh = wfi_handle_new(c)))
        return NULL;
    c->r.H[ord] = fresh;
    c->kept[c->nkept++] = h;
    h->tag = c->r.stag | ord;
    h->op = (uint16_t)WFI_KEY_OP(c->r.base[ord].key);
    h->refs = 0;
    h->flags = 0;
    return h;
}

/* Handles that were returned or retained leave the step with their buffers. */
static void keep_results(wf_ctx *c, uint32_t n)
{
    c->nkept = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t op = WFI_KEY_OP(c->r.base[i].key), ord = c->r.base[i].in[0];
        if (op != WFI_EV_RETURN && op != WFI_EV_RETAIN)
            continue;
        wf_tensor *h = kept_find(c, ord);
        if (!h && !(h = kept_new(c, ord))) {
            wfi_error_memory(c, "a result of the step", NULL);
            break;
        }
        if (op == WFI_EV_RETAIN)
            h->refs++;
        else {
            uint32_t up = WFI_KEY_PAYLOAD(c->r.base[i].key);
            h->refs += !(h->flags & WFI_H_RETURNED);
            if (up > UP_OF(h) || !(h->flags & WFI_H_RETURNED))
                h->flags = (uint16_t)((h->flags & 0xff) | WFI_H_RETURNED | up << UP_SHIFT);
        }
    }
}

static void free_value(wf_ctx *c, uint32_t ord)
{
    wf_tensor *h = c->r.H[ord];
    if (!h)
        return;
    wfi_buf_unref(c, h->buf);
    h->buf = NULL;
    h->layout = 0;
    h->spare = 0;
}

static void free_step_values(wf_ctx *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        free_value(c, i);
}

/* After a replay only leaves and results have a buffer. */
static void free_leaves(wf_ctx *c, const wfi_trace *t)
{
    for (uint32_t i = 0; i < t->nleaf; i++)
        free_value(c, t->leaf[i]);
    for (uint32_t i = 0; t->keeps && i < t->n; i++) {
        uint32_t op = WFI_KEY_OP(t->rec[i].key);
        if (op == WFI_EV_RETURN || op == WFI_EV_RETAIN)
            free_value(c, t->rec[i].in[0]);
    }
}

/* What was returned belongs to the scope around from now on. */
static void settle_results(wf_ctx *c)
{
    for (size_t i = 0; i < c->nkept; i++) {
        wf_tensor *h = c->kept[i];
        bool returned = h->flags & WFI_H_RETURNED;
        uint32_t up = UP_OF(h);
        h->flags &= (1 << UP_SHIFT) - 1;
        h->tag = WFI_NONE;
        for (; h->spare && h->refs > (returned ? 1u : 0u); h->spare--) /* retained and released within the step */
            h->refs--;
        h->spare = up ? c->step_depth - up : 0; /* as a value that an eager step returns further out */
        if (returned && !wfi_handle_own(c, h))
            h->refs--;
        if (h->refs == 0)
            wfi_handle_drop(c, h);
    }
    c->nkept = 0;
}

#ifdef WEFT_DEBUG
static void check_borrowed(wf_ctx *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        wf_tensor *h = c->r.H[i];
        if (h && h->buf && (h->flags & WFI_H_BORROWED) && WFI_BUF_BORROWED(h->buf) &&
            wfi_tensor_hash(c, h) != h->u.hash)
            wfi_error_set(c, WF_ERR_STATE, "", c->frame[c->step_depth].site,
                          "borrowed memory was changed before the step that uses it ran; it was lent at %s", h->site);
    }
}
#endif

/* A plan takes a few microseconds a record. Where records move so much that this is nothing, a step is planned when it
 * is first seen: its memory is that of the plan from the start. So it is where memory is bounded. */
static bool worth_planning(wf_ctx *c, const wfi_trace *t)
{
    enum { RECORD_BYTES = 128 << 10 };
    size_t bytes = 0;
    if (c->budget || c->mem->limit)
        return true;
    for (uint32_t i = 0; i < t->n; i++)
        if (wfi_rec_runs(WFI_KEY_OP(t->rec[i].key)) && t->rec[i].type)
            bytes += wfi_type_at(&c->ids, t->rec[i].type)->bytes;
    return bytes / RECORD_BYTES > t->n;
}

static wf_status end_lazy(wf_ctx *c)
{
    bool failed = c->status != WF_OK;
    wfi_trace *t = NULL;
    if (!failed && wfi_step_check(c))
        wfi_emit_record(c, WFI_KEY(WFI_EV_STEP, 0, 0), WFI_NONE, WFI_NONE, WFI_NONE, 0, NULL);
    failed = failed || c->status != WF_OK;
    uint32_t n = failed ? c->error_n : c->r.tr ? c->r.tr->n : c->r.n;
#ifdef WEFT_DEBUG
    check_borrowed(c, n);
    failed = failed || c->status != WF_OK;
#endif
    c->st.steps++;
    if (failed) {
        if (c->status != WF_ERR_INTERRUPTED && c->status != WF_ERR_MEMORY)
            (void)wfi_run_records(c, n, WFI_NONE, false); /* what stands before the error counts */
        free_step_values(c, c->r.tr ? c->r.tr->n : c->r.n);
        c->last = NULL;
        return c->status;
    }
    bool known = c->r.tr != NULL;
    t = known ? c->r.tr : wfi_trace_learn(c);
    bool plain = t && !t->reads && !c->r.done && (known || worth_planning(c, t));
    if (plain && !t->plan)
        t->plan = wfi_plan_new(c, t);
    bool replayed = plain && t->plan && c->status == WF_OK;
    if (replayed)
        (void)wfi_replay(c, t);
    else if (c->status == WF_OK)
        (void)wfi_run_records(c, n, WFI_NONE, true);
    c->nkept = 0;
    if (c->status == WF_OK && (!t || t->keeps))
        keep_results(c, n);
    if (replayed)
        free_leaves(c, t);
    else
        free_step_values(c, n);
    settle_results(c);
    if (t) {
        t->seen++;
        wfi_trace_used(c, t);
        if (c->last)
            c->last->succ = t;
    }
    c->last = t;
    return c->status;
}

static void end_eager(wf_ctx *c)
{
    for (uint32_t i = 0; i < c->r.n; i++)
        if (c->r.H[i]) {
            wfi_handle_unref(c, c->r.H[i]);
            c->r.H[i] = NULL;
        }
    c->st.steps++;
    (void)wfi_step_check(c);
}

wf_scope wf_scope_begin_(wf_ctx *c, const char *name, const wf_scope_opts *o, const char *site)
{
    wf_scope none = { 0, 0 };
    if (!c)
        return none;
    static const wf_scope_opts plain;
    if (!o)
        o = &plain;
    if (o->unnamed)
        wfi_error_set(c, WF_ERR_ARG, "wf_scope_begin", site, "options need names: .group = true");
    if (!wfi_autocast_allows(o->autocast))
        wfi_error_set(c, WF_ERR_ARG, "wf_scope_begin", site, ".autocast is %s: bf16, f16 or f32 (nothing is cast)%s",
                      wf_dtype_name(o->autocast), " was expected");
    uint32_t same = 0;
    for (uint32_t i = 1; i <= c->depth; i++)
        same += c->frame[i].site == site;
    if (same >= WFI_SITE_MAX || c->depth + 1 >= WFI_SCOPE_MAX) {
        wfi_error_set(c, WF_ERR_STATE, "wf_scope_begin", site,
                      "scope %s is open %u times here: a wf_scope_end is missing", name ? name : "?", same);
        return none;
    }
    c->frame[++c->depth] =
        (wfi_frame){ name, site, ++c->serial, (uint32_t)c->nown, o->group, o->no_grad, c->autocast, c->contract };
    if (!o->group && !c->step_depth) {
        (void)wfi_step_check(c);
        c->step_depth = c->depth;
        c->in_step = true;
        c->run_now = c->mode == WF_EAGER && !c->r.recording_only;
        wfi_step_start(c);
    } else if (c->step_depth && !c->run_now)
        wfi_emit_record(c, WFI_KEY(WFI_EV_BEGIN, o->no_grad, 0), WFI_NONE, WFI_NONE, WFI_NONE, 0, site);
    if (o->no_grad) {
        c->keybits = WFI_KEY_NOGRAD;
        c->notape = true;
    }
    wfi_autocast_set(c, wfi_autocast_of(o->autocast, c->autocast));
    return (wf_scope){ c->depth, c->serial };
}

/* The innermost scope ends: its tensors die, those that were returned move to the one around. */
static void end_frame(wf_ctx *c)
{
    const wfi_frame *f = &c->frame[c->depth];
    size_t w = f->own0;
    for (size_t i = w; i < c->nown; i++) {
        wf_tensor *h = c->own[i];
        if (!h)
            continue;
        if (h->flags & WFI_H_RETURNED) {
            if (c->depth <= h->spare || !h->spare) { /* else it goes on, to the scope around an outer one */
                h->flags &= (uint16_t)~WFI_H_RETURNED;
                h->spare = 0;
            }
            h->own = (uint32_t)w;
            c->own[w++] = h;
        } else {
            h->own = WFI_NONE;
            wfi_handle_unref(c, h);
        }
    }
    c->nown = w;
    c->depth--;
    c->notape = false;
    for (uint32_t i = 1; i <= c->depth; i++)
        c->notape |= c->frame[i].no_grad;
    c->keybits = c->notape ? WFI_KEY_NOGRAD : 0;
    wfi_autocast_set(c, f->around);
    c->contract = f->contract;
    wfi_contract_note(c);
}

wf_status wf_scope_end(wf_ctx *c, wf_scope s)
{
    if (!c)
        return WF_ERR_ARG;
    if (!s.depth || s.depth > c->depth || c->frame[s.depth].serial != s.serial)
        return c->status; /* an outer scope has repaired it already */
    if (c->r.recording_only && s.depth <= c->step_depth) {
        wfi_error_set(c, WF_ERR_STATE, "wf_scope_end", c->frame[s.depth].site,
                      "a captured body cannot end a scope around it");
        return c->status;
    }
    while (c->depth >= s.depth) {
        bool step = c->depth == c->step_depth;
        if (!step && c->step_depth && !c->run_now)
            wfi_emit_record(c, WFI_KEY(WFI_EV_END, 0, 0), WFI_NONE, WFI_NONE, WFI_NONE, 0, NULL);
        if (step) {
            if (c->run_now)
                end_eager(c);
            else
                (void)end_lazy(c);
            step_stop(c);
            c->step_depth = 0;
        }
        end_frame(c);
    }
    return c->status;
}

static bool ours(wf_ctx *c, const wf_tensor *t, const char *call)
{
    if (t->ctx == c && !wfi_stale(c, t))
        return true;
    wfi_error_set(c, t->ctx != c ? WF_ERR_ARG : WF_ERR_STATE, call, t->site, "the tensor belongs to %s",
                  t->ctx != c ? "another context" : "a scope that has ended");
    return false;
}

wf_tensor *wf_scope_return(wf_ctx *c, wf_scope s, wf_tensor *t)
{
    if (!c || !t || c->status != WF_OK)
        return NULL;
    if (!s.depth || s.depth > c->depth || c->frame[s.depth].serial != s.serial) {
        wfi_error_set(c, WF_ERR_STATE, "wf_scope_return", t->site, "the scope has ended");
        return NULL;
    }
    if (!ours(c, t, "wf_scope_return"))
        return NULL;
    if (!c->run_now && (wfi_in_step(c, t) || (t->flags & WFI_H_WEAK))) {
        if (s.depth > c->step_depth || (c->r.recording_only && s.depth != c->step_depth))
            return t; /* what is recorded lives until the step ends */
        uint64_t key = WFI_KEY(WFI_EV_RETURN, c->step_depth - s.depth, 1);
        uint32_t ord = wfi_emit_bind(c, t, WF_F32, t->site);
        if (ord == WFI_NONE || !wfi_emit_record(c, key, ord, WFI_NONE, WFI_NONE, 0, t->site))
            return NULL;
        return c->r.H[ord];
    }
    if (t->own != WFI_NONE && t->own >= c->frame[s.depth].own0) {
        if (!(t->flags & WFI_H_RETURNED) || s.depth < t->spare)
            t->spare = s.depth;
        t->flags |= WFI_H_RETURNED;
    }
    return t;
}

wf_tensor *wf_retain(wf_ctx *c, wf_tensor *t)
{
    if (!c || !t || c->status != WF_OK || !ours(c, t, "wf_retain"))
        return NULL;
    if (!c->run_now && (wfi_in_step(c, t) || (t->flags & WFI_H_WEAK))) {
        uint32_t ord = wfi_emit_bind(c, t, WF_F32, t->site);
        if (ord == WFI_NONE || !wfi_emit_record(c, WFI_KEY(WFI_EV_RETAIN, 0, 1), ord, WFI_NONE, WFI_NONE, 0, t->site))
            return NULL;
        return c->r.H[ord];
    }
    t->refs++;
    return t;
}

void wf_release(wf_ctx *c, wf_tensor *t)
{
    if (!c || !t || (t->flags & WFI_H_DEAD))
        return;
    if (!c->run_now && wfi_in_step(c, t) && c->r.H[t->tag & WFI_NONE] == t) {
        t->spare++; /* retained in this step: given back when it ends */
        return;
    }
    if (t->refs == 1 && t->own != WFI_NONE) { /* the scope's own reference, given back early */
        c->own[t->own] = NULL;
        t->own = WFI_NONE;
    }
    wfi_handle_unref(c, t);
}
