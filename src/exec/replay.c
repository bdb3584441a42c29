/* Runs a plan: reserves everything first, patches the addresses that changed, submits the commands, hands out what
 * leaves the step. Nothing is allocated once the buffers of one run have gone back to the free lists. */
#include <string.h>
#include "base/clock.h"
#include "exec/profile.h"

/* The arena is not to be had: what it would be for is what the user can change. */
static bool no_arena(wf_ctx *c, const wfi_plan *p)
{
    wfi_text t = { .mem = c->mem, .max = 2000 };
    (void)wfi_error_memory(c, "the step's intermediate values", NULL);
    wfi_error_add(c, "; they need %zu bytes", p->arena);
    if (wfi_plan_print_peak(p, 6, &t)) { /* even this text may not be had */
        wfi_plan_print_remedies(c, p, &t);
        wfi_error_add(c, "\n  %s", wfi_text_str(&t));
    }
    if (p->graph.budget)
        wfi_error_add(c, "  what can be computed again is not kept already");
    wfi_text_free(&t);
    return false;
}

static bool reserve_arena(wf_ctx *c, wfi_plan *p)
{
    if (p->arena > c->arena_cap) {
        wfi_buf_trim(c); /* what earlier steps left, like the smaller arena, would only stand beside it */
        wfi_mem_free(c->mem, c->arena);
        c->arena = wfi_mem_alloc(c->mem, p->arena);
        c->arena_cap = c->arena ? p->arena : 0;
        if (!c->arena)
            return no_arena(c, p);
    }
    if (p->base == c->arena && (p->base || !p->arena) && p->runs)
        return true;
    for (uint32_t i = 0; i < p->nargs; i++) {
        const wfi_plan_arg *w = &p->where[i];
        if (w->storage == WFI_NO_VALUE)
            continue;
        const wfi_storage *s = &p->storage[w->storage];
        if (s->place == WFI_PLACE_ARENA)
            p->args[i] = (char *)c->arena + s->offset + w->offset;
        else if (s->place == WFI_PLACE_CONST)
            p->args[i] = &p->konst[s->id];
    }
    p->base = c->arena;
    return true;
}

/* A variable that the step writes in place, but whose buffer somebody else holds, gets a copy of its own. */
static void *own_var(wf_ctx *c, wf_var *v)
{
    v->version++;
    if (v->buf->refs == 1 && !v->buf->keep)
        return v->buf->data;
    size_t bytes = wfi_type_at(&c->ids, v->type)->bytes;
    wfi_buf *b = wfi_buf_new(c, bytes);
    if (!b)
        return NULL;
    memcpy(b->data, v->buf->data, bytes);
    wfi_buf_unref(c, v->buf);
    v->buf = b;
    return b->data;
}

static void *find(wf_ctx *c, wfi_plan *p, uint32_t i)
{
    const wfi_storage *s = &p->storage[p->ext[i]];
    switch ((wfi_place)s->place) {
    case WFI_PLACE_VAR: return s->written ? own_var(c, c->var[s->id]) : c->var[s->id]->buf->data;
    case WFI_PLACE_INPUT: return c->r.H[s->id]->buf->data;
    case WFI_PLACE_SCALAR: return &c->r.H[s->id]->u.imm;
    case WFI_PLACE_HOST: return c->r.host[s->id];
    case WFI_PLACE_FRESH: p->fresh[i] = wfi_buf_new(c, s->bytes); return p->fresh[i] ? p->fresh[i]->data : NULL;
    default: return NULL;
    }
}

static bool patch(wf_ctx *c, wfi_plan *p)
{
    for (uint32_t i = 0; i < p->next; i++) {
        char *at = find(c, p, i);
        if (!at)
            return false;
        if (at == p->ext_ptr[i])
            continue;
        p->ext_ptr[i] = at;
        for (uint32_t j = p->ext_arg0[i]; j < p->ext_arg0[i + 1]; j++)
            p->args[p->ext_args[j]] = at + p->where[p->ext_args[j]].offset;
    }
    return true;
}

/* Operands that are kept rearranged are rearranged again where their variable has changed. */
static void refresh(wf_ctx *c, wfi_plan *p)
{
    for (uint32_t i = 0; i < p->nkept; i++) {
        wfi_kept *k = &p->kept[i];
        if (!k->room || k->version == c->var[k->var]->version)
            continue;
        wfi_cmd fill = p->cmd[k->cmd];
        fill.fn = k->how->fill;
        (void)c->rt->device->api->submit(c->queue, &fill, 1, NULL, 0, 0);
        k->version = c->var[k->var]->version;
    }
}

static wfi_buf *buffer_of(wf_ctx *c, wfi_plan *p, const wfi_plan_out *o)
{
    const wfi_storage *s = &p->storage[o->storage];
    if (s->place == WFI_PLACE_FRESH)
        return p->fresh[o->ext];
    if (s->place == WFI_PLACE_VAR)
        return p->fresh[o->ext] ? p->fresh[o->ext] : c->var[s->id]->buf;
    if (s->place == WFI_PLACE_INPUT)
        return c->r.H[s->id]->buf;
    wfi_buf *b = wfi_buf_new(c, s->bytes); /* a number that leaves the step: its own buffer */
    if (!b)
        return NULL;
    const void *from = s->place == WFI_PLACE_CONST  ? (void *)&p->konst[s->id]
                       : s->place == WFI_PLACE_HOST ? (void *)c->r.host[s->id]
                                                    : (void *)&c->r.H[s->id]->u.imm;
    memcpy(b->data, from, s->bytes);
    b->refs = 0;
    return b;
}

/* A variable that becomes another one's value is held, so that the order of the assignments does not matter: two may
 * change places. */
static void hold_old(wf_ctx *c, wfi_plan *p)
{
    for (uint32_t i = 0; i < p->nout; i++) {
        const wfi_storage *s = &p->storage[p->out[i].storage];
        uint32_t ext = p->out[i].ext;
        if (!p->out[i].assign || s->place != WFI_PLACE_VAR || s->id == p->out[i].id || p->fresh[ext])
            continue;
        p->fresh[ext] = c->var[s->id]->buf;
        p->fresh[ext]->refs++;
    }
}

/* Results first, with the variables' old buffers; then the assignments, all of them. */
static wf_status hand_out(wf_ctx *c, wfi_plan *p)
{
    if (p->settled)
        return WF_OK;
    hold_old(c, p);
    for (int assign = 0; assign < 2; assign++)
        for (uint32_t i = 0; i < p->nout; i++) {
            const wfi_plan_out *o = &p->out[i];
            if (o->assign != assign || o->settled)
                continue;
            wf_tensor view = { .ctx = c,
                               .layout = o->layout,
                               .type = wfi_layout_at(&c->ids, o->layout)->type,
                               .buf = buffer_of(c, p, o) };
            if (!view.buf)
                return c->status;
            if (assign) {
                view.buf->refs++;
                wf_status s = wfi_run_assign(c, c->var[o->id], &view);
                wfi_buf_unref(c, view.buf);
                if (s != WF_OK)
                    return s;
            } else if (!c->r.H[o->id]->layout || c->r.H[o->id]->buf != view.buf) {
                wf_tensor *h = c->r.H[o->id];
                view.buf->refs++;
                wfi_buf_unref(c, h->buf);
                h->buf = view.buf;
                h->type = view.type;
                h->layout = view.layout;
            }
        }
    return WF_OK;
}

wf_status wfi_replay(wf_ctx *c, wfi_trace *t)
{
    wfi_plan *p = t->plan;
    uint64_t start = WFI_UNLIKELY(c->profile) ? wfi_clock_ns() : 0;
    bool ready = reserve_arena(c, p) && patch(c, p);
    if (ready) {
        if (!p->runs) {
            wfi_plan_keep_room(c->mem, p);
            p->taken = atomic_load(&c->mem->live);
        }
        refresh(c, p);
        p->runs++;
        c->st.replayed++;
        c->st.commands += p->ncmd;
        c->st.arena_bytes = p->arena;
        c->st.arena_bound = p->bound;
        c->last_plan = p;
        wfi_profile *timed = WFI_UNLIKELY(c->profile) ? wfi_profile_of(c, p) : NULL;
        wf_status s =
            c->rt->device->api->submit(c->queue, timed ? timed->cmd : p->run, timed ? timed->n : p->nrun, NULL, 0, 0);
        if (s == WF_OK) {
            hand_out(c, p);
            if (timed)
                wfi_profile_add(timed, p, start);
        } else {
            uint32_t prov = p->graph.node[c->queue->fault.node].prov, owner = t->rec[prov].owner;
            wf_tensor *h = c->r.H[owner == WFI_NONE ? prov : owner];
            wfi_run_fault(c, WFI_KEY_OP(t->rec[prov].key), h ? h->site : NULL);
        }
    }
    for (uint32_t i = 0; i < p->next; i++)
        if (p->fresh[i]) {
            wfi_buf_unref(c, p->fresh[i]);
            p->fresh[i] = NULL;
        }
    return c->status;
}
