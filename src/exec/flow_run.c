/* Runs FLOW nodes: their functions are planned once for each combination of layouts, and a kernel carries out the
 * plans' commands as often as it must, changing only the addresses that move from one time to the next.
 *
 * Everything that a run writes is in the command's scratch, so that the same plan may run at several places:
 *
 *     carries that take turns with the results | of each plan: its argument table, addresses patched last, kept panels
 *     | the plans' arena (they share it) | scratch of their commands
 *
 * A carry is read from one place and written to another, by turns, so that the last one ends up in the result. */
#include <string.h>
#include "base/dtype.h"
#include "plan/plan.h"
#include "record/record.h"

enum { ALIGN = 64 };

typedef struct copy { /* a result that no command writes where it goes */
    uint32_t out;
    uint32_t ext; /* the storage it lies in, by its place among the plan's ext; WFI_NO_VALUE: arena or constant ... */
    bool konst;   /* ... */
    size_t at;    /* ... and where: bytes */
    size_t bytes; /* memcpy, where fn is NULL */
    size_t scratch;
    wfi_kernel_fn *fn;
    const void *params;
} copy;

typedef struct room {         /* an operand that is kept as a kernel rearranged it, for the time of a run */
    uint32_t cmd, arg, input; /* input: of the function */
    const wfi_keep *how;
    size_t at; /* in the scratch */
} room;

typedef struct part { /* one function */
    wfi_plan *plan;
    const wfi_func *f;
    uint32_t *slot; /* of each ext: input number, or nin + number of the result */
    copy *copy;
    uint32_t ncopy;
    room *room;
    uint32_t nroom;
    size_t table, last; /* in the scratch */
} part;

typedef struct carry {
    size_t bytes, at;       /* at: where it lies every other time, in the scratch */
    const wfi_bound *enter; /* copies an operand that is not row-major; NULL: it is */
} carry;

typedef struct wfi_flow_prog {
    struct wfi_flow_prog *next;
    uint32_t attr, nin;
    uint32_t *layout; /* of the operands, offsets left out */
    const wfi_flow *flow;
    part part[2];
    carry *carry;
    wfi_keep keep;     /* the first room, where it may outlive the run */
    int64_t *seq_step; /* bytes from slice to slice */
    size_t *stack_step;
    size_t arena, inner, scratch; /* in the scratch; the last: its bytes */
    bool faults;
} prog;

/* ---- one time round ---- */

typedef struct state {
    const prog *p;
    char *scratch;
    wfi_run run; /* of the commands inside */
    void **in, **out;
    char pad[ALIGN];
} state;

static void **table_of(const state *s, const part *q)
{
    return (void **)(void *)(s->scratch + q->table);
}

/* Arguments in the arena and constants stay where they are. */
static void begin_part(const state *s, const part *q)
{
    const wfi_plan *p = q->plan;
    void **table = table_of(s, q);
    for (uint32_t i = 0; i < p->nargs; i++) {
        const wfi_plan_arg *w = &p->where[i];
        table[i] = NULL;
        if (w->storage == WFI_NO_VALUE)
            continue;
        const wfi_storage *t = &p->storage[w->storage];
        if (t->place == WFI_PLACE_ARENA)
            table[i] = s->scratch + s->p->arena + t->offset + w->offset;
        else if (t->place == WFI_PLACE_CONST)
            table[i] = (char *)&p->konst[t->id] + w->offset;
    }
    memset(s->scratch + q->last, 0, p->next * sizeof(void *));
}

static void patch(const state *s, const part *q)
{
    const wfi_plan *p = q->plan;
    void **table = table_of(s, q), **last = (void **)(void *)(s->scratch + q->last);
    for (uint32_t e = 0; e < p->next; e++) {
        char *at = q->slot[e] < q->f->nin ? s->in[q->slot[e]] : s->out[q->slot[e] - q->f->nin];
        if (at == last[e])
            continue;
        last[e] = at;
        for (uint32_t j = p->ext_arg0[e]; j < p->ext_arg0[e + 1]; j++)
            table[p->ext_args[j]] = at + p->where[p->ext_args[j]].offset;
    }
}

static const char *copy_from(const state *s, const part *q, const copy *k)
{
    if (k->ext != WFI_NO_VALUE)
        return (const char *)((void **)(void *)(s->scratch + q->last))[k->ext] + k->at;
    return k->konst ? (const char *)q->plan->konst + k->at : s->scratch + s->p->arena + k->at;
}

static void copy_out(const state *s, const part *q)
{
    for (uint32_t i = 0; i < q->ncopy; i++) {
        const copy *k = &q->copy[i];
        void *args[2] = { s->out[k->out], NULL };
        const char *from = copy_from(s, q, k);
        memcpy(&args[1], &from, sizeof from);
        if (k->fn)
            k->fn(k->params, args, &s->run);
        else
            memcpy(args[0], from, k->bytes);
    }
}

/* False: a command failed. */
static bool once(const state *s, const part *q)
{
    const wfi_plan *p = q->plan;
    void **table = table_of(s, q);
    patch(s, q);
    for (const wfi_cmd *k = p->run, *end = k + p->nrun; k < end; k++) {
        k->fn(k->params, table + (k->args - p->args), &s->run);
        if (__builtin_expect(k->faults, 0) && atomic_load_explicit(&s->run.fault->set, memory_order_relaxed)) {
            if (!s->run.fault->op)
                s->run.fault->op = p->graph.node[k->node].op + 1;
            return false;
        }
    }
    copy_out(s, q);
    return true;
}

/* ---- the kernels ---- */

static prog *prog_of(const void *params)
{
    prog *p;
    memcpy(&p, params, sizeof p);
    return p;
}

static state begin(const prog *p, const wfi_run *run)
{
    state s = { .p = p, .scratch = run->scratch, .run = *run };
    s.run.scratch = s.scratch + p->inner;
    s.in = (void **)run->scratch;
    s.out = s.in + p->part[0].f->nin;
    return s;
}

static void run_call(const void *params, void *const *args, const wfi_run *run)
{
    const prog *p = prog_of(params);
    const uint32_t nout = wfi_flow_nout(p->flow), lead = wfi_flow_lead(p->flow);
    const part *q = &p->part[lead && !*(const uint8_t *)args[nout]];
    const state s = begin(p, run);
    memcpy(s.out, args, nout * sizeof *args);
    memcpy(s.in, args + nout + lead, q->f->nin * sizeof *args);
    begin_part(&s, q);
    (void)once(&s, q);
}

static void fill_room(const state *s, const part *q, const room *r, void *to)
{
    void **table = table_of(s, q);
    const wfi_cmd *k = &q->plan->cmd[r->cmd];
    table[r->arg] = to;
    r->how->fill(k->params, table + (k->args - q->plan->args), &s->run);
}

/* kept: the first one, filled already; NULL: it is not. */
static void fill_rooms(const state *s, const part *q, void *kept)
{
    if (q->nroom)
        patch(s, q);
    for (uint32_t i = 0; i < q->nroom; i++)
        if (!i && kept)
            table_of(s, q)[q->room[i].arg] = kept;
        else
            fill_room(s, q, &q->room[i], s->scratch + q->room[i].at);
}

/* Where carry i is written in time t of n, counted from the end where n is known. */
static void *carry_to(const state *s, void *const *args, uint32_t i, bool result)
{
    return result ? args[i] : s->scratch + s->p->carry[i].at;
}

static void carry_enter(const state *s, void *const *args, void *const *operand, bool result)
{
    for (uint32_t i = 0; i < s->p->flow->ncarry; i++) {
        const carry *k = &s->p->carry[i];
        s->in[i] = operand[i];
        if (!k->enter)
            continue;
        void *pair[2] = { carry_to(s, args, i, result), operand[i] };
        k->enter->fn(k->enter->params, pair, &s->run);
        s->in[i] = pair[0];
    }
}

/* Nothing was done at all: the carries are what came. */
static void pass_through(const state *s, void *const *args)
{
    for (uint32_t i = 0; i < s->p->flow->ncarry; i++)
        if (s->in[i] != args[i])
            memcpy(args[i], s->in[i], s->p->carry[i].bytes);
}

/* kept: as fill_rooms has it */
static void scan(const void *params, void *const *args, const wfi_run *run, void *kept)
{
    const prog *p = prog_of(params);
    const wfi_flow *f = p->flow;
    const part *q = &p->part[0];
    const uint32_t nout = wfi_flow_nout(f), lead = wfi_flow_lead(f);
    void *const *operand = args + nout + lead;
    const state s = begin(p, run);
    int64_t n = f->count;
    if (f->counted) {
        int64_t said = *(const int64_t *)args[nout];
        n = said < 0 ? 0 : said < n ? said : n;
    }
    carry_enter(&s, args, operand, !(n & 1)); /* the first time writes to the other place */
    if (!n) {
        pass_through(&s, args);
        return;
    }
    memcpy(s.in + f->ncarry + f->nseq, operand + f->ncarry + f->nseq, f->nfree * sizeof *args);
    begin_part(&s, q);
    for (int64_t t = 0; t < n; t++) {
        const int64_t at = f->reverse ? n - 1 - t : t;
        for (uint32_t i = 0; i < f->nseq; i++)
            s.in[f->ncarry + i] = (char *)operand[f->ncarry + i] + at * p->seq_step[i];
        for (uint32_t i = 0; i < f->ncarry; i++)
            s.out[i] = carry_to(&s, args, i, !((n - 1 - t) & 1));
        for (uint32_t i = 0; i < f->nstack; i++)
            s.out[f->ncarry + i] = (char *)args[f->ncarry + i] + (size_t)at * p->stack_step[i];
        if (!t)
            fill_rooms(&s, q, kept);
        if (!once(&s, q))
            return;
        memcpy(s.in, s.out, f->ncarry * sizeof *s.in);
    }
}

static void run_scan(const void *params, void *const *args, const wfi_run *run)
{
    scan(params, args, run, NULL);
}

/* The room that outlives the run stands behind the operands. */
static void run_scan_kept(const void *params, void *const *args, const wfi_run *run)
{
    const prog *p = prog_of(params);
    scan(params, args, run, args[wfi_flow_nout(p->flow) + p->nin]);
}

static void fill_scan(const void *params, void *const *args, const wfi_run *run)
{
    const prog *p = prog_of(params);
    const part *q = &p->part[0];
    const wfi_flow *f = p->flow;
    const uint32_t nout = wfi_flow_nout(f), first = f->ncarry + f->nseq;
    const state s = begin(p, run);
    memset(s.in, 0, first * sizeof *s.in);
    memset(s.out, 0, q->f->nout * sizeof *s.out);
    memcpy(s.in + first, args + nout + wfi_flow_lead(f) + first, f->nfree * sizeof *args);
    begin_part(&s, q);
    patch(&s, q);
    fill_room(&s, q, &q->room[0], args[nout + p->nin]);
}

/* The predicate: one bool, behind its plan's last addresses. */
static bool goes_on(const state *s, bool *yes)
{
    const part *q = &s->p->part[1];
    void *const first = s->out[0];
    uint8_t said = 0;
    s->out[0] = &said;
    const bool ok = once(s, q);
    s->out[0] = first;
    *yes = said != 0;
    return ok;
}

static void run_while(const void *params, void *const *args, const wfi_run *run)
{
    const prog *p = prog_of(params);
    const wfi_flow *f = p->flow;
    const uint32_t nout = wfi_flow_nout(f);
    void *const *operand = args + nout;
    const state s = begin(p, run);
    int64_t t = 0;
    carry_enter(&s, args, operand, false);
    memcpy(s.in + f->ncarry, operand + f->ncarry, f->nfree * sizeof *args);
    for (int k = 0; k < 2; k++)
        begin_part(&s, &p->part[k]);
    for (; !f->bounded || t < f->count; t++) {
        bool yes;
        if (!goes_on(&s, &yes))
            return;
        if (!yes)
            break;
        for (uint32_t i = 0; i < f->ncarry; i++)
            s.out[i] = carry_to(&s, args, i, !(t & 1));
        for (uint32_t i = 0; i < f->nstack; i++)
            s.out[f->ncarry + i] = (char *)args[f->ncarry + i] + (size_t)t * p->stack_step[i];
        if (!t)
            fill_rooms(&s, &p->part[0], NULL);
        if (!once(&s, &p->part[0]))
            return;
        memcpy(s.in, s.out, f->ncarry * sizeof *s.in);
    }
    pass_through(&s, args);
    memcpy(args[f->ncarry + f->nstack], &t, sizeof t);
}

/* ---- planning ---- */

static size_t up(size_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* A kernel that makes a layout row-major; *fn NULL: it is. */
static const wfi_bound *straighten(wf_ctx *c, uint32_t layout)
{
    return wfi_bound_get(c, WFI_KEY(WFI_OP_contiguous, 0, 1), 1, &layout, NULL, NULL);
}

static uint32_t ext_of(const wfi_plan *p, uint32_t storage)
{
    for (uint32_t e = 0; e < p->next; e++)
        if (p->ext[e] == storage)
            return e;
    return WFI_NO_VALUE;
}

static bool add_copy(wf_ctx *c, part *q, const wfi_plan_out *o)
{
    const wfi_plan *p = q->plan;
    const wfi_storage *s = &p->storage[o->storage];
    const wfi_layout *l = wfi_layout_at(&c->ids, o->layout);
    const wfi_bound *b = straighten(c, o->layout);
    if (!b)
        return false;
    copy *k = &q->copy[q->ncopy++];
    *k = (copy){ .out = o->id,
                 .ext = ext_of(p, o->storage),
                 .konst = s->place == WFI_PLACE_CONST,
                 .bytes = wfi_type_at(&c->ids, l->type)->bytes,
                 .scratch = b->scratch,
                 .fn = b->fn,
                 .params = b->params };
    k->at = (size_t)(s->place == WFI_PLACE_ARENA   ? (int64_t)s->offset + l->start
                     : s->place == WFI_PLACE_CONST ? (int64_t)(s->id * sizeof *p->konst) + l->start
                                                   : l->start);
    return true;
}

/* Which input or result stands behind each storage outside the arena, and which results must be copied. */
static bool connect(wf_ctx *c, part *q)
{
    const wfi_plan *p = q->plan;
    q->slot = wfi_mem_array(c->mem, (size_t)p->next + 1, sizeof *q->slot);
    q->copy = wfi_mem_array(c->mem, (size_t)p->nout + 1, sizeof *q->copy);
    if (!q->slot || !q->copy)
        return wfi_error_memory(c, "the plan of a body", NULL), false;
    for (uint32_t e = 0; e < p->next; e++) {
        const wfi_storage *s = &p->storage[p->ext[e]];
        q->slot[e] = s->place == WFI_PLACE_INPUT ? s->id : WFI_NO_VALUE;
    }
    for (uint32_t i = 0; i < p->nout; i++) {
        const wfi_plan_out *o = &p->out[i];
        const wfi_layout *l = wfi_layout_at(&c->ids, o->layout);
        const uint32_t e = ext_of(p, o->storage);
        if (p->storage[o->storage].place == WFI_PLACE_FRESH && q->slot[e] == WFI_NO_VALUE && l->contiguous &&
            !l->offset && wfi_type_at(&c->ids, l->type)->bytes == p->storage[o->storage].bytes)
            q->slot[e] = q->f->nin + o->id;
        else if (!add_copy(c, q, o))
            return false;
    }
    return true;
}

/* Operands that are the same every time round and that a kernel rearranges are rearranged once. */
static bool make_rooms(wf_ctx *c, part *q, uint32_t first_free)
{
    const wfi_plan *p = q->plan;
    if (!(q->room = wfi_mem_array(c->mem, (size_t)p->ncmd + 1, sizeof *q->room)))
        return wfi_error_memory(c, "the plan of a body", NULL), false;
    for (uint32_t k = 0, run = 0; k < p->ncmd && !wfi_trail_skips(&p->trail, "keep", 0); k++) {
        const wfi_node *n = &p->graph.node[p->cmd_node[k]];
        const wfi_keep *how = p->cmd_keep[k];
        if (!how || wfi_plan_strip_of(p, k))
            continue;
        const wfi_storage *s = &p->storage[p->value_storage[p->graph.in[n->in0 + (uint32_t)how->operand]]];
        if (s->place != WFI_PLACE_INPUT || s->id < first_free)
            continue;
        q->room[q->nroom++] = (room){
            .cmd = k, .arg = (uint32_t)(p->cmd[k].args - p->args) + n->nout + n->nin, .input = s->id, .how = how
        };
        if (how->bytes > q->room[0].how->bytes) { /* the largest comes first */
            const room largest = q->room[q->nroom - 1];
            q->room[q->nroom - 1] = q->room[0];
            q->room[0] = largest;
        }
        while (p->run0[run + 1] <= k)
            run++;
        p->run[run].fn = how->fn;
    }
    return true;
}

static bool plan_part(wf_ctx *c, prog *p, int which, uint32_t func)
{
    part *q = &p->part[which];
    const wfi_flow *f = p->flow;
    q->f = wfi_func_at(&c->ids, func);
    uint32_t *layout = wfi_mem_array(c->mem, (size_t)q->f->nin + 1, sizeof *layout);
    bool ok = layout != NULL;
    for (uint32_t i = 0; ok && i < q->f->nin; i++) {
        const uint32_t l = p->layout[wfi_flow_lead(f) + i], type = wfi_func_types(q->f)[i];
        if (i < f->ncarry)
            layout[i] = wfi_ids_dense(&c->ids, type);
        else if (i < f->ncarry + f->nseq && which == 0)
            layout[i] = wfi_ids_layout(&c->ids, type, wfi_layout_at(&c->ids, l)->stride + 1, 0);
        else
            layout[i] = l;
        ok = layout[i] != 0;
    }
    if (!ok)
        wfi_error_memory(c, "the plan of a body", NULL);
    ok = ok && (q->plan = wfi_plan_func(c, q->f, layout)) && connect(c, q) &&
         (!wfi_flow_stacks(f) || which || make_rooms(c, q, f->ncarry + f->nseq));
    wfi_mem_free(c->mem, layout);
    return ok;
}

static bool plan_carries(wf_ctx *c, prog *p)
{
    const wfi_flow *f = p->flow;
    p->carry = wfi_mem_zalloc(c->mem, ((size_t)f->ncarry + 1) * sizeof *p->carry);
    p->seq_step = wfi_mem_array(c->mem, (size_t)f->nseq + 1, sizeof *p->seq_step);
    p->stack_step = wfi_mem_array(c->mem, (size_t)f->nstack + 1, sizeof *p->stack_step);
    if (!p->carry || !p->seq_step || !p->stack_step)
        return wfi_error_memory(c, "the plan of a body", NULL), false;
    const wfi_func *body = p->part[0].f;
    for (uint32_t i = 0; i < f->ncarry; i++) {
        const wfi_bound *b = straighten(c, p->layout[wfi_flow_lead(f) + i]);
        if (!b)
            return false;
        p->carry[i].bytes = wfi_type_at(&c->ids, wfi_func_types(body)[i])->bytes;
        p->carry[i].enter = b->fn ? b : NULL;
    }
    for (uint32_t i = 0; i < f->nseq; i++) {
        const wfi_layout *l = wfi_layout_at(&c->ids, p->layout[wfi_flow_lead(f) + f->ncarry + i]);
        p->seq_step[i] = l->stride[0] * (int64_t)wf_dtype_bytes(wfi_type_at(&c->ids, l->type)->dtype);
    }
    for (uint32_t i = 0; i < f->nstack; i++)
        p->stack_step[i] = wfi_type_at(&c->ids, wfi_func_out_type(body, f->ncarry + i))->bytes;
    return true;
}

/* The scratch: what stands where. */
static void place(prog *p)
{
    size_t at = up(((size_t)p->part[0].f->nin + p->part[0].f->nout + 1) * sizeof(void *)), arena = 0, inner = 0;
    for (uint32_t i = 0; i < p->flow->ncarry; i++) {
        p->carry[i].at = at;
        at += up(p->carry[i].bytes);
        if (p->carry[i].enter && p->carry[i].enter->scratch > inner)
            inner = p->carry[i].enter->scratch;
    }
    for (int k = 0; k < 2 && p->part[k].plan; k++) {
        part *q = &p->part[k];
        const wfi_plan *plan = q->plan;
        q->table = at;
        q->last = at + up((plan->nargs + (size_t)1) * sizeof(void *));
        at = q->last + up((plan->next + (size_t)1) * sizeof(void *));
        for (uint32_t i = 0; i < q->nroom; i++) {
            q->room[i].at = at;
            at += up(q->room[i].how->bytes);
        }
        for (uint32_t i = 0; i < q->ncopy; i++)
            inner = q->copy[i].scratch > inner ? q->copy[i].scratch : inner;
        arena = plan->arena > arena ? plan->arena : arena;
        for (uint32_t i = 0; i < plan->nrun; i++) {
            inner = plan->run[i].bytes > inner ? plan->run[i].bytes : inner;
            p->faults |= plan->run[i].faults;
        }
    }
    p->arena = at;
    p->inner = at + up(arena);
    p->scratch = p->inner + up(inner);
}

static void prog_free(wf_ctx *c, prog *p)
{
    for (int k = 0; k < 2; k++) {
        wfi_plan_free(c, p->part[k].plan);
        wfi_mem_free(c->mem, p->part[k].slot);
        wfi_mem_free(c->mem, p->part[k].copy);
        wfi_mem_free(c->mem, p->part[k].room);
    }
    wfi_mem_free(c->mem, p->layout);
    wfi_mem_free(c->mem, p->carry);
    wfi_mem_free(c->mem, p->seq_step);
    wfi_mem_free(c->mem, p->stack_step);
    wfi_mem_free(c->mem, p);
}

void wfi_flow_drop(wf_ctx *c)
{
    for (prog *p = c->prog, *next; p; p = next) {
        next = p->next;
        prog_free(c, p);
    }
    c->prog = NULL;
}

static prog *prog_new(wf_ctx *c, uint32_t attr, uint32_t nin, const uint32_t *layout)
{
    prog *p = wfi_mem_zalloc(c->mem, sizeof *p);
    if (!p || !(p->layout = wfi_mem_array(c->mem, (size_t)nin + 1, sizeof *p->layout))) {
        wfi_mem_free(c->mem, p);
        return wfi_error_memory(c, "the plan of a body", NULL), NULL;
    }
    p->attr = attr;
    p->nin = nin;
    p->flow = wfi_attr_data(&c->ids, attr);
    memcpy(p->layout, layout, nin * sizeof *layout);
    if (!plan_part(c, p, 0, p->flow->func) || (p->flow->other && !plan_part(c, p, 1, p->flow->other)) ||
        !plan_carries(c, p)) {
        prog_free(c, p);
        return NULL;
    }
    place(p);
    if (p->flow->kind == WFI_FLOW_SCAN && p->part[0].nroom)
        p->keep = (wfi_keep){ .operand = (int32_t)(wfi_flow_lead(p->flow) + p->part[0].room[0].input),
                              .bytes = p->part[0].room[0].how->bytes,
                              .fill = fill_scan,
                              .fn = run_scan_kept };
    p->next = c->prog;
    return c->prog = p;
}

/* Where an operand begins in its buffer does not matter to the plan. */
static bool without_offsets(wf_ctx *c, uint32_t nin, const uint32_t *layout, uint32_t *plain)
{
    for (uint32_t i = 0; i < nin; i++) {
        const wfi_layout *l = wfi_layout_at(&c->ids, layout[i]);
        plain[i] = l->offset ? wfi_ids_layout(&c->ids, l->type, l->stride, 0) : layout[i];
        if (!plain[i])
            return wfi_error_memory(c, "a layout", NULL), false;
    }
    return true;
}

bool wfi_flow_bind(wf_ctx *c, wfi_bound *e, const uint32_t *layout, const char *site)
{
    static wfi_kernel_fn *const kernel[] = { run_call, run_call, run_scan, run_while };
    static const char *const name[] = { "flow.call", "flow.cond", "flow.scan", "flow.while" };
    uint32_t plain[WFI_NODE_INS];
    const uint32_t attr = WFI_KEY_PAYLOAD(e->key);
    if (!without_offsets(c, e->nin, layout, plain))
        return false;
    prog *p = c->prog;
    while (p && !(p->attr == attr && p->nin == e->nin && !memcmp(p->layout, plain, e->nin * sizeof *plain)))
        p = p->next;
    if (!p && !(p = prog_new(c, attr, e->nin, plain)))
        return false;
    prog **params = wfi_arena_alloc(&c->bound_data, sizeof(prog *));
    if (!params || !wfi_queue_reserve(c->queue, p->scratch))
        return wfi_error_memory(c, "the plan of a body", site), false;
    *params = p;
    e->params = params;
    e->fn = kernel[p->flow->kind];
    e->impl = name[p->flow->kind];
    e->order = "";
    e->scratch = p->scratch;
    e->faults = p->faults;
    e->keep = p->keep;
    for (uint32_t i = 0; i < e->nout; i++)
        if (!(e->out[i].layout = wfi_ids_dense(&c->ids, e->out[i].type)))
            return wfi_error_memory(c, "a layout", site), false;
    return true;
}
