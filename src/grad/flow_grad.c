/* Gradients of control flow. The gradient of a function is a function: its nodes are recorded again on the side, swept,
 * and what the sweep recorded is cut off; it is made once for each function and what is asked of it.
 *
 *     call      by a call, whose operands are the results' gradients and those values of the body that rules read
 *     scan      by a scan the other way round: the carries' gradients are its carries; gradients of what is free add up
 *               in further carries, from -0, which adds nothing; values of the body come as stacks that the scan gave
 *     while     by the reversed scan over as many steps as were made; it must be bounded, for the stacks' sake
 *     cond      by a cond over the gradients of both functions, which compute again what they need
 *
 * A value that hangs on nothing but free operands, and a view, are not stacked but made again. The gradient of a matrix
 * that a scan multiplies by is not added up round by round: its factors are stacked, and one product over all rounds
 * follows,
 *
 *     dw = dw + transpose(h) g, T times      ->      dw = transpose(all h) (all g) */
#include <string.h>
#include "base/dtype.h"
#include "passes/views.h"
#include "record/flow_rec.h"

typedef struct asked { /* of a function; compared as bytes */
    uint32_t func, kind, ncarry, nseq;
    uint32_t counted;             /* how often it goes round is not known */
    uint8_t want[WFI_NODE_INS];   /* inputs */
    uint8_t given[WFI_NODE_OUTS]; /* results whose gradient comes */
    uint8_t must[WFI_NODE_INS];   /* COND: inputs whose gradient is a result even if it is 0 */
} asked;

typedef struct wfi_flow_back {
    struct wfi_flow_back *next;
    asked key;
    uint32_t back; /* the function */
    uint8_t reached[WFI_NODE_INS];
    uint8_t product[WFI_NODE_INS]; /* inputs whose gradient is one product over all rounds */
    uint32_t nuse, nuse_seq;       /* values of the function that it reads; the first ones come slice by slice */
    uint32_t use[WFI_NODE_INS];
    uint32_t extended, nres; /* with the values that the gradient reads as results; 0: not made yet */
} back;

static bool loops(uint32_t kind)
{
    return kind >= WFI_FLOW_SCAN;
}

static bool is_float(const wf_ctx *c, uint32_t type)
{
    return wfi_dtype_is_float(wfi_type_at(&c->ids, type)->dtype);
}

static wf_tensor *filled(wf_ctx *c, uint32_t type, double value, const char *site)
{
    const wfi_type *t = wfi_type_at(&c->ids, type);
    wf_dims dims = { t->ndim, { 0 } };
    memcpy(dims.d, t->dim, sizeof dims.d);
    wf_tensor *x = wfi_emit_const(c, t->dtype, value, site);
    return x && t->ndim ? wf_broadcast_to_(x, dims, site) : x;
}

/* ---- one function ---- */

typedef struct deriver {
    wf_ctx *c;
    const wfi_func *f;
    back *e;
    const char *site;
    wfi_recording rec;
    wf_tensor *in[WFI_NODE_INS], *gout[WFI_NODE_OUTS], *begin[WFI_NODE_INS], *g[WFI_NODE_INS];
    wf_tensor *left[WFI_NODE_INS], *right[WFI_NODE_INS]; /* of a product: transpose(left) right */
    wf_tensor **value;
    uint32_t forward; /* records from here on are the gradient's */
    uint32_t *number; /* of each record below: the value that it is; WFI_NO_VALUE: none */
    uint8_t *free;    /* of each record below: it hangs on free inputs alone */
    uint8_t *need;    /* of all records */
} deriver;

static bool is_free(const deriver *d, uint32_t input)
{
    return loops(d->e->key.kind) && input >= d->e->key.ncarry + d->e->key.nseq;
}

static bool is_seq(const deriver *d, uint32_t input)
{
    return loops(d->e->key.kind) && input >= d->e->key.ncarry && !is_free(d, input);
}

static bool inputs(deriver *d)
{
    const asked *k = &d->e->key;
    for (uint32_t i = 0; i < d->f->nin; i++)
        if (!(d->in[i] = wfi_capture_input(d->c, wfi_func_types(d->f)[i], d->site)))
            return false;
    for (uint32_t o = 0; o < d->f->nout; o++)
        if (k->given[o] && !(d->gout[o] = wfi_capture_input(d->c, wfi_func_out_type(d->f, o), d->site)))
            return false;
    for (uint32_t i = 0; i < d->f->nin; i++)
        if (k->want[i] && is_free(d, i) && !(d->begin[i] = wfi_capture_input(d->c, wfi_func_types(d->f)[i], d->site)))
            return false;
    return true;
}

static bool sweep(deriver *d)
{
    wf_tensor *out[WFI_NODE_OUTS], *wrt[WFI_NODE_INS] = { NULL }, *begin[WFI_NODE_INS] = { NULL }, *g[WFI_NODE_INS];
    uint32_t n = 0, at[WFI_NODE_INS];
    for (uint32_t o = 0; o < d->f->nout; o++)
        out[o] = d->value[wfi_func_outs(d->f)[o]];
    for (uint32_t i = 0; i < d->f->nin; i++)
        if (d->e->key.want[i]) {
            wrt[n] = d->in[i];
            begin[n] = d->begin[i];
            at[n++] = i;
        }
    if (!wfi_sweep_given(d->c, d->f->nout, out, d->gout, n, wrt, begin, g, d->site))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        d->g[at[i]] = g[i];
        d->e->reached[at[i]] = g[i] != NULL;
    }
    return true;
}

/* ---- gradients that are a product over all rounds ---- */

static uint32_t op_of(const deriver *d, uint32_t i)
{
    return WFI_KEY_OP(d->c->r.scratch[i].key);
}

/* Two transposes are none. */
static uint32_t straight(const deriver *d, uint32_t i)
{
    const wfi_rec *rec = d->c->r.scratch;
    while (op_of(d, i) == WFI_OP_transpose && op_of(d, rec[i].in[0]) == WFI_OP_transpose)
        i = rec[rec[i].in[0]].in[0];
    return i;
}

static bool is_matrix(const deriver *d, uint32_t i)
{
    return wfi_type_at(&d->c->ids, d->c->r.scratch[i].type)->ndim == 2;
}

/* Is the gradient of free input i no more than begin + transpose(left) right, of matrices? */
static void find_product(deriver *d, uint32_t i)
{
    const wfi_rec *rec = d->c->r.scratch;
    const uint32_t sum = (uint32_t)d->g[i]->tag & WFI_NONE;
    if (op_of(d, sum) != WFI_OP_add || rec[sum].in[0] != ((uint32_t)d->begin[i]->tag & WFI_NONE))
        return;
    const uint32_t m = straight(d, rec[sum].in[1]), a = rec[m].in[0];
    if (op_of(d, m) != WFI_OP_matmul || !is_matrix(d, m) || op_of(d, a) != WFI_OP_transpose || !is_matrix(d, a) ||
        !is_matrix(d, rec[m].in[1]))
        return;
    d->left[i] = d->c->r.H[rec[a].in[0]];
    d->right[i] = d->c->r.H[rec[m].in[1]];
    d->g[i] = NULL;
    d->e->product[i] = 1;
}

/* What the records of the forward part are. */
static void classify(deriver *d)
{
    const wfi_rec *rec = d->c->r.scratch;
    memset(d->number, 0xff, d->forward * sizeof *d->number);
    for (uint32_t v = d->f->nvalue; v-- > 0;)
        d->number[d->value[v]->tag & WFI_NONE] = v;
    for (uint32_t i = 0; i < d->forward; i++) {
        const uint32_t op = WFI_KEY_OP(rec[i].key);
        uint32_t in[WFI_NODE_INS], nin = wfi_rec_runs(op) ? wfi_run_operands(rec, i, in) : 0;
        bool free = wfi_rec_runs(op) || op == WFI_EV_CONST;
        if (op == WFI_EV_INPUT)
            free = d->number[i] != WFI_NO_VALUE && is_free(d, d->number[i]);
        if (op == WFI_EV_PART)
            free = d->free[rec[i].in[0]];
        for (uint32_t k = 0; k < nin; k++)
            free &= in[k] == WFI_NONE || d->free[in[k]];
        d->free[i] = free;
    }
}

/* Is record i made again in the gradient? */
static bool again(const deriver *d, uint32_t i)
{
    const uint32_t op = WFI_KEY_OP(d->c->r.scratch[i].key);
    if (i >= d->forward)
        return true;
    if (op == WFI_EV_INPUT)
        return false;
    return d->e->key.kind == WFI_FLOW_COND || d->free[i] || wfi_op_views(op);
}

static void need_one(deriver *d, const wf_tensor *t)
{
    if (t)
        d->need[t->tag & WFI_NONE] = 1;
}

/* Values of the forward part that the gradient reads: e->use, slices first. */
static bool find_used(deriver *d)
{
    const wfi_rec *rec = d->c->r.scratch;
    back *e = d->e;
    for (uint32_t i = 0; i < d->f->nin; i++) {
        need_one(d, d->g[i]);
        need_one(d, d->left[i]);
        need_one(d, d->right[i]);
    }
    for (uint32_t i = d->c->r.n; i-- > 0;) {
        const uint32_t op = WFI_KEY_OP(rec[i].key);
        uint32_t in[WFI_NODE_INS], nin = 0;
        if (!d->need[i] || !again(d, i))
            continue;
        if (op == WFI_EV_PART)
            in[nin++] = rec[i].in[0];
        else if (wfi_rec_runs(op))
            nin = wfi_run_operands(rec, i, in);
        for (uint32_t k = 0; k < nin; k++)
            if (in[k] != WFI_NONE)
                d->need[in[k]] = 1;
    }
    for (int seq = 1; seq >= 0; seq--) {
        for (uint32_t i = 0; i < d->forward; i++) {
            const uint32_t v = d->number[i];
            const bool slice = v != WFI_NO_VALUE && loops(e->key.kind) && !(v < d->f->nin && is_free(d, v));
            if (!d->need[i] || again(d, i) || v == WFI_NO_VALUE || slice != (seq == 1))
                continue;
            if (e->nuse == WFI_NODE_INS)
                return false;
            e->use[e->nuse++] = v;
        }
        if (seq)
            e->nuse_seq = e->nuse;
    }
    return true;
}

static bool add(wf_tensor **list, uint32_t *n, uint32_t most, wf_tensor *t)
{
    if (!t || *n == most)
        return false;
    list[(*n)++] = t;
    return true;
}

/* The function: what leads from gradients and used values to gradients. */
static bool cut(deriver *d)
{
    const asked *k = &d->e->key;
    const bool loop = loops(k->kind);
    wf_tensor *in[WFI_NODE_INS], *out[WFI_NODE_OUTS];
    uint32_t nin = 0, nout = 0;
    bool ok = true;
    for (uint32_t o = 0; o < d->f->nout; o++)
        if (k->given[o] && (!loop || o < k->ncarry))
            ok &= add(in, &nin, WFI_NODE_INS, d->gout[o]);
    for (uint32_t i = 0; loop && i < d->f->nin; i++)
        if (d->g[i] && is_free(d, i))
            ok &= add(in, &nin, WFI_NODE_INS, d->begin[i]);
    for (uint32_t o = k->ncarry; loop && o < d->f->nout; o++)
        if (k->given[o])
            ok &= add(in, &nin, WFI_NODE_INS, d->gout[o]);
    for (uint32_t i = 0; k->kind == WFI_FLOW_COND && i < d->f->nin; i++)
        ok &= add(in, &nin, WFI_NODE_INS, d->in[i]);
    for (uint32_t i = 0; k->kind != WFI_FLOW_COND && i < d->e->nuse; i++)
        ok &= add(in, &nin, WFI_NODE_INS, d->value[d->e->use[i]]);
    for (uint32_t i = 0; ok && i < d->f->nin; i++) { /* gradients that carry on, then sums, then slices */
        const bool carry = loop && i < k->ncarry && k->want[i], zero = carry || k->must[i];
        if (!d->g[i] && zero)
            d->g[i] = filled(d->c, wfi_func_types(d->f)[i], 0, d->site);
        if (carry || (!loop && d->g[i]))
            ok &= add(out, &nout, WFI_NODE_OUTS, d->g[i]);
    }
    for (int seq = 0; loop && seq < 2; seq++)
        for (uint32_t i = k->ncarry; ok && i < d->f->nin; i++)
            if (d->g[i] && is_seq(d, i) == (seq == 1))
                ok &= add(out, &nout, WFI_NODE_OUTS, d->g[i]);
    for (uint32_t i = 0; ok && i < d->f->nin; i++)
        if (k->kind == WFI_FLOW_SCAN && d->left[i])
            ok = add(out, &nout, WFI_NODE_OUTS, d->left[i]) && add(out, &nout, WFI_NODE_OUTS, d->right[i]);
    if (!ok || !nout)
        return ok;
    d->e->back = wfi_flow_finish(d->c, &d->rec, nin, in, nout, out, "gradient", d->site);
    return d->e->back != 0;
}

static bool record(deriver *d)
{
    wf_ctx *c = d->c;
    (void)wfi_autocast_set(c, WF_DTYPE_NONE); /* the function has its casts; until the recording ends */
    if (!inputs(d) || !wfi_flow_inline(c, d->f, d->in, d->value, d->site))
        return false;
    d->forward = c->r.n;
    d->number = wfi_mem_array(c->mem, (size_t)d->forward + 1, sizeof *d->number);
    d->free = wfi_mem_zalloc(c->mem, (size_t)d->forward + 1);
    if (!d->number || !d->free || !sweep(d) || !(d->need = wfi_mem_zalloc(c->mem, (size_t)c->r.n + 1)))
        return false;
    const asked *k = &d->e->key;
    for (uint32_t i = 0; k->kind == WFI_FLOW_SCAN && !k->counted && i < d->f->nin; i++)
        if (d->g[i] && is_free(d, i))
            find_product(d, i);
    classify(d);
    return find_used(d) && cut(d);
}

/* A sweep in the middle of a sweep: the one that waits keeps its lists. */
static bool derive(deriver *d)
{
    wf_ctx *c = d->c;
    wf_tensor **adj = c->adj;
    uint32_t *mark = c->mark;
    const size_t cap_adj = c->cap_adj, cap_mark = c->cap_mark;
    c->adj = NULL;
    c->mark = NULL;
    c->cap_adj = c->cap_mark = 0;
    d->value = wfi_mem_zalloc(c->mem, ((size_t)d->f->nvalue + 1) * sizeof *d->value);
    bool ok = wfi_flow_begin(c, &d->rec, "gradient", d->site) && d->value && record(d);
    if (!ok)
        wfi_error_memory(c, "a gradient", d->site); /* unless there is an error already */
    wfi_flow_end(c, &d->rec);
    wfi_flow_free(c, &d->rec);
    void *const parts[] = { d->value, d->number, d->free, d->need, c->adj, c->mark };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(c->mem, parts[i]);
    c->adj = adj;
    c->mark = mark;
    c->cap_adj = cap_adj;
    c->cap_mark = cap_mark;
    return ok;
}

static back *back_of(wf_ctx *c, const asked *key, const char *site)
{
    for (back *e = c->back; e; e = e->next)
        if (!memcmp(&e->key, key, sizeof *key))
            return e;
    back *e = wfi_mem_zalloc(c->mem, sizeof *e);
    deriver *d = e ? wfi_mem_zalloc(c->mem, sizeof *d) : NULL;
    if (!d) {
        wfi_mem_free(c->mem, e);
        return wfi_error_memory(c, "a gradient", site), NULL;
    }
    e->key = *key;
    *d = (deriver){ .c = c, .f = wfi_func_at(&c->ids, key->func), .e = e, .site = site };
    bool ok = derive(d);
    wfi_mem_free(c->mem, d);
    if (!ok) {
        wfi_mem_free(c->mem, e);
        return NULL;
    }
    e->next = c->back;
    return c->back = e;
}

void wfi_flow_forget(wf_ctx *c)
{
    for (back *e = c->back, *next; e; e = next) {
        next = e->next;
        wfi_mem_free(c->mem, e);
    }
    c->back = NULL;
}

/* ---- what the forward node gives for it ---- */

/* The stack that holds value v of the function; WFI_NO_VALUE: none does. */
static uint32_t stack_of(const wfi_func *f, const wfi_flow *n, uint32_t v)
{
    for (uint32_t o = n->ncarry; o < f->nout; o++)
        if (wfi_func_outs(f)[o] == v)
            return o;
    return WFI_NO_VALUE;
}

/* Comes value v as an operand of the node, as it is? */
static bool is_operand(const wfi_func *f, const wfi_flow *n, uint32_t v)
{
    return v < f->nin && (!loops(n->kind) || v >= n->ncarry);
}

/* f with what e uses as further results; *more: how many. 0: an error. */
static uint32_t with_used(wf_ctx *c, const wfi_flow *n, const back *e, uint32_t *more, const char *site)
{
    const wfi_func *f = wfi_func_at(&c->ids, n->func);
    wfi_graph g;
    uint32_t nout = f->nout, id = 0;
    wfi_graph_init(&g, c->mem, &c->ids);
    bool ok = wfi_func_graph(f, &g);
    for (uint32_t i = 0; ok && i < e->nuse; i++)
        if (!is_operand(f, n, e->use[i]) && stack_of(f, n, e->use[i]) == WFI_NO_VALUE)
            ok = wfi_graph_add(&g, WFI_NODE_RESULT, nout++, 1, &e->use[i], 0, NULL, 0) != WFI_NO_VALUE;
    *more = nout - f->nout;
    id = ok ? *more ? wfi_func_intern(&g) : n->func : 0;
    wfi_graph_free(&g);
    if (!id)
        wfi_error_memory(c, "a gradient", site);
    return id;
}

static void ask_all(wf_ctx *c, const wfi_flow *n, asked *k, bool *any)
{
    const wfi_func *f = wfi_func_at(&c->ids, n->func);
    bool in = false, out = false;
    *k = (asked){ .func = n->func, .kind = n->kind, .ncarry = n->ncarry, .nseq = n->nseq };
    k->counted = n->counted;
    for (uint32_t i = 0; i < f->nin; i++)
        in |= k->want[i] = is_float(c, wfi_func_types(f)[i]);
    for (uint32_t o = 0; o < f->nout; o++)
        out |= k->given[o] = is_float(c, wfi_func_out_type(f, o));
    *any = in && out;
}

bool wfi_flow_extend(wf_ctx *c, wfi_flow *n, const char *site)
{
    asked key;
    bool any;
    if (n->nres || n->kind == WFI_FLOW_COND || (n->kind == WFI_FLOW_WHILE && !n->bounded))
        return true;
    ask_all(c, n, &key, &any);
    back *e = any ? back_of(c, &key, site) : NULL;
    if (!e)
        return !any;
    if (!e->extended && !(e->extended = with_used(c, n, e, &e->nres, site)))
        return false;
    n->func = e->extended;
    n->nres = e->nres;
    n->nstack += e->nres;
    return true;
}

/* ---- the rule ---- */

typedef struct rule {
    wf_ctx *c;
    const wfi_flow *n;
    const wfi_func *f;
    const wf_vjp *v;
    uint32_t lead;
    wf_tensor *const *out; /* results of the node, or of one like it that gives all that is used */
    wf_tensor *in[WFI_NODE_INS], *got[WFI_NODE_OUTS];
    uint32_t nin;
} rule;

static void ask(const rule *r, asked *k)
{
    const wf_vjp *v = r->v;
    *k = (asked){ .func = r->n->func, .kind = r->n->kind, .ncarry = r->n->ncarry, .nseq = r->n->nseq };
    k->counted = r->n->counted;
    for (uint32_t i = 0; i < r->f->nin; i++)
        k->want[i] = is_float(r->c, wfi_func_types(r->f)[i]) && (i < r->n->ncarry || v->want[r->lead + i]);
    for (uint32_t o = 0; o < r->f->nout; o++)
        k->given[o] = is_float(r->c, wfi_func_out_type(r->f, o)) && (o < r->n->ncarry || v->gout[o]);
}

static bool push(rule *r, wf_tensor *t)
{
    if (!t || r->nin == WFI_NODE_INS)
        return false;
    r->in[r->nin++] = t;
    return true;
}

/* Gradients that were not asked for before: the node is computed again with more results. */
static bool results_with_used(rule *r, const back *e, wf_tensor **room)
{
    wfi_flow n = *r->n;
    uint32_t more;
    if (!(n.func = with_used(r->c, r->n, e, &more, r->v->site)))
        return false;
    if (!more)
        return true;
    n.nstack += more;
    n.nres += more;
    if (!wfi_flow_emit(r->c, &n, r->v->in, room, r->v->site))
        return false;
    r->out = room;
    r->f = wfi_func_at(&r->c->ids, n.func);
    return true;
}

static bool push_used(rule *r, const wfi_flow *n, const back *e, uint32_t from, uint32_t to)
{
    bool ok = true;
    for (uint32_t i = from; ok && i < to; i++) {
        const uint32_t v = e->use[i];
        ok = push(r, is_operand(r->f, n, v) ? r->v->in[r->lead + v] : r->out[stack_of(r->f, n, v)]);
    }
    return ok;
}

/* CALL: operands are all free; results the gradients that are reached. */
static bool call(rule *r, const back *e)
{
    const wfi_flow n = *r->n;
    wf_tensor *room[WFI_NODE_OUTS];
    const uint32_t nin = r->f->nin, nout = r->f->nout;
    bool ok = results_with_used(r, e, room);
    for (uint32_t o = 0; ok && o < nout; o++)
        if (e->key.given[o])
            ok = push(r, r->v->gout[o]);
    ok = ok && push_used(r, &n, e, 0, e->nuse);
    wfi_flow b = { .kind = WFI_FLOW_CALL, .func = e->back, .nfree = r->nin, .count = 1 };
    b.nstack = ok ? wfi_func_at(&r->c->ids, b.func)->nout : 0;
    if (!ok || !wfi_flow_call(r->c, b, r->in, r->got, r->v->site))
        return false;
    for (uint32_t i = 0, k = 0; i < nin; i++)
        if (e->reached[i])
            r->v->gin[i] = r->got[k++];
    return true;
}

static bool cond(rule *r, asked *k)
{
    wf_ctx *c = r->c;
    asked other = *k;
    other.func = r->n->other;
    back *a = back_of(c, k, r->v->site), *b = a ? back_of(c, &other, r->v->site) : NULL;
    if (!b)
        return false;
    for (uint32_t i = 0; i < r->f->nin; i++)
        k->must[i] = other.must[i] = a->reached[i] | b->reached[i];
    bool any = a->back || b->back;
    if (!any)
        return true;
    if (!(a = back_of(c, k, r->v->site)) || !(b = back_of(c, &other, r->v->site)))
        return false;
    bool ok = push(r, r->v->in[0]);
    for (uint32_t o = 0; ok && o < r->f->nout; o++)
        if (k->given[o])
            ok = push(r, r->v->gout[o]);
    for (uint32_t i = 0; ok && i < r->f->nin; i++)
        ok = push(r, r->v->in[1 + i]);
    wfi_flow n = { .kind = WFI_FLOW_COND, .func = a->back, .other = b->back, .nfree = r->nin - 1, .count = 1 };
    n.nstack = wfi_func_at(&c->ids, n.func)->nout;
    if (!ok || !wfi_flow_call(c, n, r->in, r->got, r->v->site))
        return false;
    for (uint32_t i = 0, j = 0; i < r->f->nin; i++)
        if (k->must[i])
            r->v->gin[1 + i] = r->got[j++];
    return true;
}

/* [T,k,n] as [T k,n] */
static wf_tensor *all_rows(wf_tensor *x, const char *site)
{
    const wf_dims d = wfi_shape(x);
    return wf_reshape_(x, WF_DIMS(d.d[0] * d.d[1], d.d[2]), site);
}

static bool reversed(rule *r, const back *e)
{
    wf_ctx *c = r->c;
    const wf_vjp *v = r->v;
    const wfi_flow n = *r->n;
    const wfi_func *f = r->f;
    wf_tensor *room[WFI_NODE_OUTS];
    const bool counted = n.kind == WFI_FLOW_WHILE || n.counted;
    bool ok = results_with_used(r, e, room);
    if (counted)
        ok = ok && push(r, n.counted ? v->in[0] : v->out[v->nout - 1]);
    for (uint32_t o = 0; ok && o < n.ncarry; o++)
        if (e->key.given[o])
            ok = push(r, v->gout[o] ? v->gout[o] : filled(c, wfi_func_out_type(f, o), -0.0, v->site));
    for (uint32_t i = n.ncarry + n.nseq; ok && i < f->nin; i++)
        if (e->reached[i] && !e->product[i])
            ok = push(r, filled(c, wfi_func_types(f)[i], -0.0, v->site));
    wfi_flow b = {
        .kind = WFI_FLOW_SCAN, .func = e->back, .reverse = !n.reverse, .counted = counted, .count = n.count
    };
    b.ncarry = r->nin - counted;
    for (uint32_t o = n.ncarry; ok && o < f->nout; o++)
        if (e->key.given[o])
            ok = push(r, v->gout[o]);
    ok = ok && push_used(r, &n, e, 0, e->nuse_seq);
    b.nseq = r->nin - counted - b.ncarry;
    ok = ok && push_used(r, &n, e, e->nuse_seq, e->nuse);
    b.nfree = r->nin - counted - b.ncarry - b.nseq;
    b.nstack = ok ? wfi_func_at(&c->ids, b.func)->nout - b.ncarry : 0;
    if (!ok || !wfi_flow_call(c, b, r->in, r->got, v->site))
        return false;
    uint32_t k = 0;
    for (uint32_t i = 0; i < n.ncarry; i++)
        if (e->key.want[i])
            v->gin[r->lead + i] = r->got[k++];
    for (int seq = 0; seq < 2; seq++)
        for (uint32_t i = n.ncarry; i < f->nin; i++)
            if (e->reached[i] && !e->product[i] && (i < n.ncarry + n.nseq) == (seq == 1))
                v->gin[r->lead + i] = r->got[k++];
    for (uint32_t i = n.ncarry + n.nseq; i < f->nin; i++)
        if (e->product[i]) {
            wf_tensor *left = all_rows(r->got[k++], v->site), *right = all_rows(r->got[k++], v->site);
            v->gin[r->lead + i] = wf_matmul_(wf_transpose_(left, v->site), right, v->site);
        }
    return true;
}

void wfi_flow_rule(wf_ctx *c, const wfi_flow *n, const wf_vjp *v)
{
    if (n->kind == WFI_FLOW_WHILE && !n->bounded) {
        wfi_error_set(c, WF_ERR_UNSUPPORTED, "while", v->site,
                      "its gradient needs to know how often it may go round: give .max; it stands at %s",
                      v->y && v->y->site ? v->y->site : "?");
        return;
    }
    rule *r = wfi_mem_zalloc(c->mem, sizeof *r);
    if (!r) {
        (void)wfi_error_memory(c, "a gradient", v->site);
        return;
    }
    *r = (rule){ .c = c, .n = n, .f = wfi_func_at(&c->ids, n->func), .v = v, .lead = wfi_flow_lead(n), .out = v->out };
    asked key;
    ask(r, &key);
    bool ok;
    if (n->kind == WFI_FLOW_COND)
        ok = cond(r, &key);
    else {
        const back *e = back_of(c, &key, v->site);
        ok = e && (!e->back || (n->kind == WFI_FLOW_CALL ? call(r, e) : reversed(r, e)));
    }
    if (!ok)
        wfi_error_memory(c, "a gradient", v->site); /* unless there is an error already */
    wfi_mem_free(c->mem, r);
}
