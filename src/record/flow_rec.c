/* Bodies of control-flow calls. A body is recorded on the side, like a captured function; what it uses from outside,
 * variables, numbers and tensors, becomes further inputs, so that equal bodies over different weights are one function.
 * The node that calls it is one record of the step. */
#include "record/flow_rec.h"
#include <string.h>
#include "base/dtype.h"
#include "record/emit.h"

/* ---- recording ---- */

bool wfi_flow_begin(wf_ctx *c, wfi_recording *b, const char *name, const char *site)
{
    *b = (wfi_recording){ .around = c->body, .vserial = c->vserial };
    if (!wfi_capture_begin(c, &b->aside, name, site))
        return false;
    c->body = b;
    return true;
}

/* The step around that t belongs to, as it is put away; NULL: none of them. */
static const wfi_steprec *step_of(const wf_ctx *c, const wf_tensor *t)
{
    for (const wfi_recording *b = c->body; b; b = b->around)
        if ((t->tag & WFI_TAG_STEP) == b->aside.r.stag)
            return &b->aside.r;
    return NULL;
}

const wfi_rec *wfi_flow_outer(const wf_ctx *c, const wf_tensor *t)
{
    const wfi_steprec *r = t->tag == WFI_NONE ? NULL : step_of(c, t);
    return r && r->base ? &r->base[t->tag & WFI_NONE] : NULL;
}

uint32_t wfi_flow_lift(wf_ctx *c, wf_tensor *t, const char *site)
{
    wfi_recording *b = c->body;
    if ((t->ctx != c || t->flags & WFI_H_DEAD || !step_of(c, t)) && !wfi_emit_alive(c, t, site))
        return WFI_NONE;
    wf_tensor *in = wfi_capture_input(c, wfi_tensor_type(t), t->site);
    if (!in)
        return WFI_NONE;
    if (!wfi_mem_grow(c->mem, &b->lift, &b->cap_lift, b->nlift + 1, sizeof *b->lift)) {
        wfi_error_memory(c, "a body", site);
        return WFI_NONE;
    }
    const uint32_t record = (uint32_t)in->tag & WFI_NONE;
    b->lift[b->nlift++] = (wfi_lift){ t, t->tag, record };
    t->tag = in->tag;
    return record;
}

void wfi_flow_end(wf_ctx *c, wfi_recording *b)
{
    for (size_t i = b->nlift; i-- > 0;)
        b->lift[i].t->tag = b->lift[i].tag;
    b->nlift = 0;
    wfi_capture_end(c, &b->aside);
    c->vserial = b->vserial; /* the body has remembered none */
}

void wfi_flow_free(wf_ctx *c, wfi_recording *b)
{
    for (size_t i = 0; i < b->nleaf; i++)
        wfi_buf_unref(c, b->leaf[i].buf);
    wfi_mem_free(c->mem, b->lift);
    wfi_mem_free(c->mem, b->leaf);
    b->lift = NULL;
    b->leaf = NULL;
}

/* ---- records -> function ---- */

typedef struct maker {
    wf_ctx *c;
    wfi_recording *b;
    const char *name, *site;
    wfi_graph g;
    uint8_t *need;   /* of each record */
    uint32_t *value; /* of each record: its value in g, WFI_NO_VALUE: not there yet */
} maker;

static void find_needed(maker *m, uint32_t nout, const uint32_t *out)
{
    const wfi_rec *rec = m->c->r.scratch;
    for (uint32_t i = 0; i < nout; i++)
        m->need[out[i]] = 1;
    for (uint32_t i = m->c->r.n; i-- > 0;) {
        const uint32_t op = WFI_KEY_OP(rec[i].key);
        uint32_t in[WFI_NODE_INS], nin = 0;
        for (uint32_t k = 1, n = wfi_rec_runs(op) ? wfi_rec_nout(&m->c->ids, rec[i].key) : 0; k < n; k++)
            m->need[i] |= m->need[i + k] && m->value[i + k] == WFI_NO_VALUE;
        if (!m->need[i] || m->value[i] != WFI_NO_VALUE)
            continue;
        if (wfi_rec_runs(op))
            nin = wfi_run_operands(rec, i, in);
        for (uint32_t k = 0; k < nin; k++)
            if (in[k] != WFI_NONE)
                m->need[in[k]] = 1;
    }
}

static bool add_input(maker *m, uint32_t record, uint32_t number)
{
    const uint32_t type = m->c->r.scratch[record].type;
    m->value[record] = wfi_graph_add(&m->g, WFI_NODE_INPUT, number, 0, NULL, 1, &type, record);
    return m->value[record] != WFI_NO_VALUE;
}

/* A tensor that was made in the body: its contents. */
static bool hold(maker *m, uint32_t i, wfi_leaf *l)
{
    wf_ctx *c = m->c;
    const wf_tensor *h = c->r.H[i];
    if (!h->buf) {
        wfi_error_set(c, WF_ERR_STATE, m->name, m->site, "the body uses a tensor that has no value yet");
        return false;
    }
    if (WFI_BUF_BORROWED(h->buf)) {
        if (!(l->buf = wfi_buf_new(c, h->buf->bytes)))
            return false;
        memcpy(l->buf->data, h->buf->data, h->buf->bytes);
    } else {
        l->buf = h->buf;
        l->buf->refs++;
    }
    return true;
}

/* Record i becomes an input behind nin others, unless it is the value of a variable that is one already. */
static bool add_leaf(maker *m, uint32_t i, uint32_t nin)
{
    wf_ctx *c = m->c;
    wfi_recording *b = m->b;
    const wfi_rec *r = &c->r.scratch[i];
    const uint32_t payload = WFI_KEY_PAYLOAD(r->key);
    wfi_leaf l = { .op = WFI_KEY_OP(r->key), .type = r->type };
    if (!wfi_mem_grow(c->mem, &b->leaf, &b->cap_leaf, b->nleaf + 1, sizeof *b->leaf))
        return false;
    if (l.op == WFI_EV_VALUE) {
        l.var = c->var[payload];
        for (uint32_t k = 0; k < b->nleaf; k++)
            if (b->leaf[k].var == l.var)
                return m->value[i] = nin + k, true; /* the inputs are the first values */
    }
    if (l.op == WFI_EV_SCALAR)
        l.bits = c->r.H[i]->u.imm;
    if (l.op == WFI_EV_INPUT) {
        for (size_t k = 0; k < b->nlift && !l.t; k++)
            if (b->lift[k].record == i)
                l.t = b->lift[k].t;
        l.layout = payload;
        if (!l.t && !hold(m, i, &l))
            return false;
    }
    b->leaf[b->nleaf++] = l;
    return add_input(m, i, nin + (uint32_t)b->nleaf - 1);
}

static bool add_node(maker *m, uint32_t i)
{
    const wfi_rec *rec = m->c->r.scratch, *r = &rec[i];
    const uint32_t op = WFI_KEY_OP(r->key);
    if (op == WFI_EV_CONST) {
        m->value[i] = wfi_graph_add(&m->g, WFI_NODE_CONST, WFI_KEY_PAYLOAD(r->key), 0, NULL, 1, &r->type, i);
        return m->value[i] != WFI_NO_VALUE;
    }
    uint32_t in[WFI_NODE_INS], type[WFI_NODE_OUTS], nin = wfi_run_operands(rec, i, in),
                                                    nout = wfi_rec_nout(&m->c->ids, r->key);
    for (uint32_t k = 0; k < nin; k++)
        in[k] = in[k] == WFI_NONE ? WFI_NO_VALUE : m->value[in[k]];
    for (uint32_t k = 0; k < nout; k++)
        type[k] = rec[i + k].type;
    uint32_t v = wfi_graph_add(&m->g, op, WFI_KEY_PAYLOAD(r->key), nin, in, nout, type, i);
    if (v == WFI_NO_VALUE)
        return false;
    if (r->key & WFI_KEY_NOGRAD)
        m->g.node[m->g.nnode - 1].flags = WFI_NODE_NO_HISTORY;
    for (uint32_t k = 0; k < nout; k++)
        if (m->value[i + k] == WFI_NO_VALUE)
            m->value[i + k] = v + k;
    return true;
}

/* Bodies have no effects. */
static bool pure(maker *m)
{
    for (uint32_t i = 0; i < m->c->r.n; i++) {
        const uint32_t op = WFI_KEY_OP(m->c->r.scratch[i].key);
        if (op != WFI_EV_ASSIGN && op != WFI_EV_RETAIN && op != WFI_EV_RETURN)
            continue;
        wfi_error_set(m->c, WF_ERR_STATE, m->name, m->c->r.H[i]->site, "a body cannot %s: make it one of its outputs",
                      op == WFI_EV_ASSIGN   ? "assign to a variable"
                      : op == WFI_EV_RETAIN ? "retain a tensor"
                                            : "return a tensor to a scope around it");
        return false;
    }
    return true;
}

static bool is_leaf(uint32_t op)
{
    return op == WFI_EV_VALUE || op == WFI_EV_INPUT || op == WFI_EV_SCALAR;
}

/* Inputs first, then the leaves, then everything else. */
static bool build(maker *m, uint32_t nin, const uint32_t *in, uint32_t nout, const uint32_t *out)
{
    const wfi_rec *rec = m->c->r.scratch;
    for (uint32_t i = 0; i < nin; i++)
        if (!add_input(m, in[i], i))
            return false;
    find_needed(m, nout, out);
    for (uint32_t i = 0; i < m->c->r.n; i++)
        if (m->need[i] && m->value[i] == WFI_NO_VALUE && is_leaf(WFI_KEY_OP(rec[i].key)) && !add_leaf(m, i, nin))
            return false;
    for (uint32_t i = 0; i < m->c->r.n; i++) {
        const uint32_t op = WFI_KEY_OP(rec[i].key);
        if (m->need[i] && m->value[i] == WFI_NO_VALUE && (wfi_rec_runs(op) || op == WFI_EV_CONST) && !add_node(m, i))
            return false;
    }
    for (uint32_t i = 0; i < nout; i++)
        if (wfi_graph_add(&m->g, WFI_NODE_RESULT, i, 1, &m->value[out[i]], 0, NULL, out[i]) == WFI_NO_VALUE)
            return false;
    return true;
}

uint32_t wfi_flow_finish(wf_ctx *c, wfi_recording *b, uint32_t nin, wf_tensor *const *in, uint32_t nout,
                         wf_tensor *const *out, const char *name, const char *site)
{
    uint32_t id = 0, at[WFI_NODE_INS], to[WFI_NODE_OUTS];
    maker m = { .c = c, .b = b, .name = name, .site = site };
    for (uint32_t i = 0; i < nin; i++)
        at[i] = (uint32_t)in[i]->tag & WFI_NONE;
    for (uint32_t i = 0; i < nout; i++)
        if ((to[i] = wfi_emit_bind(c, out[i], WF_F32, site)) == WFI_NONE)
            return 0;
    m.need = wfi_mem_zalloc(c->mem, (size_t)c->r.n + 1);
    m.value = wfi_mem_array(c->mem, (size_t)c->r.n + 1, sizeof *m.value);
    wfi_graph_init(&m.g, c->mem, &c->ids);
    if (m.need && m.value) {
        memset(m.value, 0xff, ((size_t)c->r.n + 1) * sizeof *m.value);
        if (pure(&m) && build(&m, nin, at, nout, to))
            id = wfi_func_intern(&m.g);
    }
    if (!id)
        wfi_error_memory(c, "a body", site); /* unless there is an error already */
    wfi_graph_free(&m.g);
    wfi_mem_free(c->mem, m.need);
    wfi_mem_free(c->mem, m.value);
    return c->status == WF_OK ? id : 0;
}

wf_tensor *wfi_flow_leaf(wf_ctx *c, const wfi_recording *b, size_t i, const char *site)
{
    const wfi_leaf *l = &b->leaf[i];
    if (l->var)
        return wf_value_(l->var, site);
    if (l->t)
        return l->t;
    if (l->buf) {
        l->buf->refs++;
        return wfi_emit_leaf(c, l->type, l->buf, l->layout, site);
    }
    const wf_dtype dtype = wfi_type_at(&c->ids, l->type)->dtype;
    wf_tensor *t = wf_scalar_(c, wfi_dtype_load(dtype, &l->bits, 0), site);
    return t ? wfi_emit_weak(c, t, dtype, site) : NULL;
}

/* ---- the node ---- */

bool wfi_flow_history(const wf_ctx *c)
{
    return c->run_now ? c->in_step && !c->notape : !(c->keybits & WFI_KEY_NOGRAD);
}

static bool emit_eager(wf_ctx *c, const wfi_flow *f, uint64_t key, wf_tensor *const *in, wf_tensor **out,
                       const char *site)
{
    uint32_t layout[WFI_NODE_INS];
    const uint32_t nin = wfi_flow_nin(f);
    for (uint32_t i = 0; i < nin; i++) {
        if (!in[i]->buf && !wfi_emit_alive(c, in[i], site))
            return false;
        layout[i] = in[i]->layout;
    }
    const wfi_bound *b = wfi_bound_get(c, key, nin, layout, site, in);
    return b && wfi_eager_bound(c, b, nin, in, out, site);
}

static bool emit_lazy(wf_ctx *c, const wfi_flow *f, uint64_t key, wf_tensor *const *in, wf_tensor **out,
                      const char *site)
{
    uint32_t ord[WFI_NODE_INS + 3];
    const uint32_t nin = wfi_flow_nin(f), nout = wfi_flow_nout(f);
    for (uint32_t i = 0; i < nin; i++)
        if ((ord[i] = wfi_emit_bind(c, in[i], WF_F32, site)) == WFI_NONE)
            return false;
    ord[nin] = ord[nin + 1] = ord[nin + 2] = WFI_NONE;
    for (uint32_t i = 3; i < nin; i += 3)
        if (!wfi_emit_record(c, WFI_KEY(WFI_EV_ARG, 0, 0), ord[i], ord[i + 1], ord[i + 2], 0, site))
            return false;
    key |= c->keybits;
    for (uint32_t k = 0; k < nout; k++) {
        const uint32_t type = wfi_flow_out_type(&c->ids, f, k);
        if (!type)
            return wfi_error_memory(c, "a type", site), false;
        out[k] = k ? wfi_emit_record(c, WFI_KEY(WFI_EV_PART, k, 1) | c->keybits, (uint32_t)out[0]->tag & WFI_NONE,
                                     WFI_NONE, WFI_NONE, type, site)
                   : wfi_emit_record(c, key, nin ? ord[0] : WFI_NONE, nin > 1 ? ord[1] : WFI_NONE,
                                     nin > 2 ? ord[2] : WFI_NONE, type, site);
        if (!out[k])
            return false;
    }
    return true;
}

/* Numbers become tensors of the types that the function has. */
static bool adopt(wf_ctx *c, const wfi_flow *f, wf_tensor *const *in, wf_tensor **made, const char *site)
{
    for (uint32_t i = 0, n = wfi_flow_nin(f); i < n; i++) {
        made[i] = in[i];
        if (!(in[i]->flags & WFI_H_WEAK) || in[i]->flags & WFI_H_DEAD)
            continue;
        const uint32_t type = wfi_flow_in_type(&c->ids, f, i);
        if (!type)
            return wfi_error_memory(c, "a type", site), false;
        if (!(made[i] = wfi_emit_weak(c, in[i], wfi_type_at(&c->ids, type)->dtype, site)))
            return false;
    }
    return true;
}

bool wfi_flow_emit(wf_ctx *c, const wfi_flow *f, wf_tensor *const *in, wf_tensor **out, const char *site)
{
    const uint32_t nin = wfi_flow_nin(f), nout = wfi_flow_nout(f);
    if (c->status != WF_OK)
        return false;
    if (nin > WFI_NODE_INS || nout > WFI_NODE_OUTS || !nout) {
        wfi_error_set(c, WF_ERR_UNSUPPORTED, wfi_flow_name(f), site,
                      "the body has %u inputs and %u results, what it uses from outside and what its gradient needs "
                      "counted; %d and 1 to %d can be",
                      nin, nout, WFI_NODE_INS, WFI_NODE_OUTS);
        return false;
    }
    const uint32_t id = wfi_ids_attr(&c->ids, WFI_NODE_FLOW, f, sizeof *f);
    if (!id)
        return wfi_error_memory(c, "a body", site), false;
    wf_tensor *made[WFI_NODE_INS];
    return adopt(c, f, in, made, site) &&
           (c->run_now ? emit_eager : emit_lazy)(c, f, WFI_KEY(WFI_EV_FLOW, id, nin), made, out, site);
}

bool wfi_flow_call(wf_ctx *c, wfi_flow f, wf_tensor *const *in, wf_tensor **out, const char *site)
{
    wf_tensor *all[WFI_NODE_OUTS];
    const uint32_t nout = wfi_flow_nout(&f), trips = f.kind == WFI_FLOW_WHILE, plain = nout - trips;
    if (nout <= WFI_NODE_OUTS && wfi_flow_history(c) && !wfi_flow_extend(c, &f, site))
        return false;
    if (!wfi_flow_emit(c, &f, in, all, site))
        return false;
    memcpy(out, all, plain * sizeof *out);
    if (trips)
        out[plain] = all[wfi_flow_nout(&f) - 1];
    return true;
}

bool wfi_flow_inline(wf_ctx *c, const wfi_func *f, wf_tensor *const *in, wf_tensor **value, const char *site)
{
    const uint64_t keybits = c->keybits;
    const uint32_t *ref = wfi_func_refs(f);
    uint32_t next = f->nin;
    bool ok = true;
    for (uint32_t i = 0; i < f->nin; i++)
        value[i] = in[i];
    for (uint32_t k = 0; ok && k < f->nnode; k++) {
        const wfi_func_node *n = &wfi_func_nodes(f)[k];
        const wfi_attr_item *a = n->attr ? wfi_attr_at(&c->ids, n->attr) : NULL;
        wf_tensor *arg[WFI_NODE_INS];
        for (uint32_t j = 0; j < n->nin; j++)
            arg[j] = ref[n->in0 + j] == WFI_NO_VALUE ? NULL : value[ref[n->in0 + j]];
        c->keybits = keybits | (n->flags & WFI_NODE_NO_HISTORY ? WFI_KEY_NOGRAD : 0);
        if (n->op == WFI_NODE_CONST)
            ok = (value[next] = wfi_emit_const(c, wfi_type_at(&c->ids, wfi_func_types(f)[next])->dtype,
                                               *(const double *)a->data, site)) != NULL;
        else if (n->op == WFI_NODE_FLOW)
            ok = wfi_flow_emit(c, a->data, arg, value + next, site);
        else
            ok = wfi_emit_n(c, (wfi_op)n->op, a ? a->data : NULL, a ? a->bytes : 0, n->nin, arg, n->nout, value + next,
                            site) != NULL;
        next += n->nout;
    }
    c->keybits = keybits;
    return ok;
}
