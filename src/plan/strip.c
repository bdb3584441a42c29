/* Neighbouring commands that go over the same rows one after the other become one that goes over them once, strip by
 * strip: a strip is small enough for L2, so what one command makes for the next does not come back from memory, and
 * what nobody else needs has no place there at all.
 *
 *      3  cpu.ew                   v5@strip+0 = mul v0@input.0 v0@input.0 : f32[4096,1024]
 *      4+ cpu.mean                 v6@strip+65536 = mean v5@strip+0 : f32[4096,1]
 *      5+ cpu.fused                v9@arena+0 = fused(add i0 i1; rsqrt t0; mul t1 i2) v6@strip+65536 ... :
 * f32[4096,1024]
 *
 * Which axes can be cut is read off the axis maps (cut.c). The kernels are the same ones, bound once more for the shape
 * of a strip; the order of a sum is a function of the rows' length alone, so the bits are the same. */
#include "plan/strip.h"
#include <string.h>
#include "ops/op.h"

enum {
    STRIP_BYTES = 64 << 10, /* of all operands of a strip */
    WHOLE_BYTES = 32 << 10, /* of operands that every strip reads */
    GAIN_BYTES = 256 << 10, /* that pass from command to command, at least: less stays in the caches anyway */
    STRIP_LEAST = 16 << 10, /* smaller ones would be calls and little else */
    STRIP_MOST = 256 << 10, /* half of a small L2 */
    STREAM_BYTES = 8 << 20, /* of a result that a command alone would write past the caches */
    COUNT_MOST = 65536,
    COMMANDS = 32 /* of a group */
};

typedef struct member {
    uint32_t node, nargs;
    wfi_cut cut;
} member;

typedef struct stripper {
    wfi_plan_builder *b;
    wfi_plan *p;
    uint32_t *node_of; /* of each command */
    uint32_t *touched; /* of each storage: the number of the last group (from 1) that has it ... */
    uint32_t *written; /* ... that writes it */
    uint32_t *counted; /* ... the number of the last count of bytes that has it */
    uint32_t group, count_no;
    member m[COMMANDS];
    uint32_t n;
    int64_t gain;
    int64_t count; /* strips */
} stripper;

/* ---- pieces of values ---- */

/* An operand of a command, or a result. */
static uint32_t value_at(const wfi_graph *g, const wfi_node *n, uint32_t slot)
{
    return slot < n->nout ? n->out0 + slot : g->in[n->in0 + slot - n->nout];
}

/* Whether `count` strips cut the leading axes: *axis is the one that is divided, those before it are taken apart. */
static bool divides(const wfi_cut *c, int64_t count, int32_t *axis)
{
    for (*axis = 0; *axis < c->axes; ++*axis) {
        const int64_t d = c->dim[*axis];
        if (d && count % d == 0 && *axis + 1 < c->axes && count / d > 1) {
            count /= d;
            continue;
        }
        return d && d % count == 0;
    }
    return false;
}

/* The piece of a value that strip 0 takes, and the bytes to the next one. False: its pieces do not follow each other in
 * even steps. */
static bool piece(const wfi_ids *ids, uint32_t layout, int32_t axis, int64_t count, wfi_view *v, int64_t *step)
{
    wfi_layout_view(ids, layout, v);
    int64_t all = v->stride[axis] * v->dim[axis];
    for (int32_t i = axis - 1; i >= 0; i--) {
        if (v->dim[i] > 1 && v->stride[i] != all)
            return false;
        all *= v->dim[i];
        count /= v->dim[i];
        v->dim[i] = 1;
    }
    v->dim[axis] /= count;
    *step = v->stride[axis] * v->dim[axis] * (int64_t)wf_dtype_bytes(v->dtype);
    return true;
}

/* Bytes that the elements of a view reach over; 0: there are strides below 0. */
static int64_t reach(const wfi_view *v)
{
    int64_t last = 0;
    for (int32_t i = 0; i < v->ndim; i++) {
        if (v->dim[i] > 1 && v->stride[i] < 0)
            return 0;
        last += (v->dim[i] - 1) * v->stride[i];
    }
    return (last + 1) * (int64_t)wf_dtype_bytes(v->dtype);
}

/* Is strip i of the value all that it has in bytes [i * step, (i + 1) * step) of its storage? Only then may a storage
 * be written in the group that has others of its values. */
static bool aligned(const stripper *s, uint32_t v, const wfi_view *view, int64_t step, int64_t count)
{
    const wfi_layout *l = wfi_layout_at(s->b->g->ids, s->p->value_layout[v]);
    const int64_t bytes = reach(view);
    return l->offset == 0 && bytes > 0 && bytes <= step &&
           step * count == (int64_t)s->p->storage[s->p->value_storage[v]].bytes;
}

/* ---- may a command join? ---- */

static bool cut_of(const stripper *s, uint32_t q, member *m)
{
    const wfi_graph *g = s->b->g;
    const wfi_node *n = &g->node[s->node_of[q]];
    const wfi_bound *e = s->b->bound[s->node_of[q]];
    if (e->faults || e->list || n->nout + n->nin > WFI_STRIP_ARGS || n->nout + n->nin > WFI_CUT_SLOTS)
        return false;
    *m = (member){ .node = s->node_of[q], .nargs = n->nout + n->nin, .cut = wfi_cut_of(g, n) };
    return m->cut.axes > 0;
}

/* Can the member be cut into so many strips? *bytes: of its pieces, each storage once. */
static bool member_fits(stripper *s, const member *m, int64_t count, int64_t *bytes)
{
    const wfi_graph *g = s->b->g;
    const wfi_node *n = &g->node[m->node];
    int32_t axis;
    int64_t all = 0;
    if (!divides(&m->cut, count, &axis))
        return false;
    for (uint32_t k = 0; k < m->nargs; k++) {
        const uint32_t v = value_at(g, n, k);
        const bool sliced = m->cut.sliced[axis + 1] >> k & 1;
        wfi_view view;
        int64_t step;
        if (v == WFI_NO_VALUE)
            continue;
        const uint32_t at = s->p->value_storage[v];
        const bool mixed = s->written[at] == s->group;
        if (!sliced) {
            all += (int64_t)wfi_type_at(g->ids, g->value[v].type)->bytes;
            if (mixed || all > WHOLE_BYTES)
                return false;
            continue;
        }
        if (!piece(g->ids, s->p->value_layout[v], axis, count, &view, &step) ||
            (mixed && !aligned(s, v, &view, step, count)))
            return false;
        *bytes += s->counted[at] == s->count_no ? 0 : reach(&view);
        s->counted[at] = s->count_no;
    }
    return true;
}

static bool fits(stripper *s, int64_t count, int64_t *bytes)
{
    *bytes = 0;
    s->count_no++;
    for (uint32_t i = 0; i < s->n; i++)
        if (!member_fits(s, &s->m[i], count, bytes))
            return false;
    return true;
}

/* Strips that are small enough: few, but several for each thread. Where the rows are long (an image), as small as they
 * get. False: there is no such number. */
static bool choose_count(stripper *s)
{
    const wfi_cut *c = &s->m[0].cut;
    const int64_t enough = 4 * (int64_t)s->b->c->rt->threads;
    int64_t before = 1, bytes, chosen = INT64_MAX; /* bytes of a strip, so far */
    for (int32_t axis = 0; axis < c->axes; before *= c->dim[axis++])
        for (int64_t m = 1; m <= c->dim[axis] && m <= COUNT_MOST; m++) {
            if (c->dim[axis] % m || before * m == 1 || !fits(s, before * m, &bytes) || bytes > STRIP_MOST)
                continue;
            if (chosen <= STRIP_BYTES && bytes < STRIP_LEAST)
                return true;
            s->count = before * m;
            chosen = bytes;
            if (bytes <= STRIP_BYTES && s->count >= enough)
                return true;
        }
    return chosen <= STRIP_MOST;
}

/* Marks what the newest member touches. Bytes that it has in common with the members before it are the gain. */
static void take(stripper *s)
{
    const wfi_graph *g = s->b->g;
    const member *m = &s->m[s->n - 1];
    const wfi_node *n = &g->node[m->node];
    for (uint32_t k = 0; k < m->nargs; k++) {
        const uint32_t v = value_at(g, n, k);
        if (v == WFI_NO_VALUE)
            continue;
        const uint32_t at = s->p->value_storage[v];
        if (s->touched[at] == s->group && k >= n->nout && m->cut.sliced[m->cut.axes] >> k & 1)
            s->gain += (int64_t)wfi_type_at(g->ids, g->value[v].type)->bytes;
        s->touched[at] = s->group;
        s->written[at] = k < n->nout ? s->group : s->written[at];
    }
}

static bool connected(const stripper *s, const member *m)
{
    const wfi_graph *g = s->b->g;
    const wfi_node *n = &g->node[m->node];
    for (uint32_t k = n->nout; k < m->nargs; k++) {
        const uint32_t v = value_at(g, n, k);
        if (v != WFI_NO_VALUE && s->touched[s->p->value_storage[v]] == s->group && m->cut.sliced[m->cut.axes] >> k & 1)
            return true;
    }
    return false;
}

/* Forgets the group and has the first n members take their places again. */
static void again(stripper *s, uint32_t n)
{
    s->group++;
    s->gain = 0;
    for (s->n = 0; s->n < n;) {
        s->n++;
        take(s);
    }
}

/* Commands [from, to) that can be one. */
static uint32_t grow(stripper *s, uint32_t from)
{
    uint32_t to = from;
    again(s, 0);
    for (; to < s->p->ncmd && s->n < COMMANDS; to++) {
        if (!cut_of(s, to, &s->m[s->n]) || (s->n && !connected(s, &s->m[s->n])))
            break;
        const int64_t count = s->count;
        s->n++;
        take(s);
        if (!choose_count(s)) {
            s->count = count;
            again(s, s->n - 1);
            break;
        }
    }
    return to;
}

/* ---- the group as one command ---- */

/* A kernel for one strip, with the bits of the whole. False: there is none, as for products that are split by the range
 * of all their numbers: another order class answers. */
static bool bind_piece(stripper *s, const member *m, wfi_strips *t, wfi_strip_kernel *e, wfi_strip_arg *arg, void **own)
{
    wf_ctx *c = s->b->c;
    const wfi_graph *g = s->b->g;
    const wfi_node *n = &g->node[m->node];
    const wfi_bound *all = s->b->bound[m->node];
    wfi_view view[WFI_CUT_SLOTS], out[WFI_NODE_OUTS];
    int32_t axis;
    (void)divides(&m->cut, s->count, &axis);
    for (uint32_t k = 0; k < m->nargs; k++) {
        const uint32_t v = value_at(g, n, k);
        wfi_view *at = &view[k < n->nout ? n->nin + k : k - n->nout];
        arg[k] = (wfi_strip_arg){ 0, WFI_STRIP_SHARED };
        *at = (wfi_view){ .dtype = WF_DTYPE_NONE };
        if (v == WFI_NO_VALUE)
            continue;
        if (!(m->cut.sliced[axis + 1] >> k & 1))
            wfi_layout_view(g->ids, s->p->value_layout[v], at);
        else
            (void)piece(g->ids, s->p->value_layout[v], axis, s->count, at, &arg[k].step);
        const wfi_storage *st = &s->p->storage[s->p->value_storage[v]];
        if (st->place == WFI_PLACE_STRIP)
            arg[k] = (wfi_strip_arg){ 0, st->offset };
    }
    memcpy(out, view + n->nin, n->nout * sizeof *out); /* where the results must lie */
    wfi_bind bind = { .op = n->op,
                      .attr = wfi_attr_data(g->ids, n->payload),
                      .nin = n->nin,
                      .nout = n->nout,
                      .in = view,
                      .out = view + n->nin,
                      .threads = 1,
                      .params = c->bind_params,
                      .alias = -1,
                      .order = "" };
    for (int32_t k = 0; k < bind.nout; k++) /* devices begin with row-major results and may choose others */
        for (int64_t i = bind.out[k].ndim - 1, dense = 1; i >= 0; dense *= bind.out[k].dim[i--])
            bind.out[k].stride[i] = dense;
    if (c->rt->device->api->module_load(c->rt->device, &bind) || !bind.fn || bind.faults ||
        strcmp(bind.order, all->order) != 0)
        return false;
    for (int32_t k = 0; k < bind.nout; k++) {
        if (all->out[k].inplace & ~(k ? bind.inplace_of[k] : bind.inplace))
            return false;
        for (int32_t i = 0; i < out[k].ndim; i++)
            if (out[k].dim[i] > 1 && out[k].stride[i] != bind.out[k].stride[i])
                return false;
    }
    *own = wfi_mem_alloc(c->mem, bind.params_bytes + 1);
    if (!*own)
        return false;
    memcpy(*own, bind.params, bind.params_bytes);
    *e = (wfi_strip_kernel){ .fn = bind.fn, .params = *own, .nargs = m->nargs };
    t->each = bind.scratch > t->each ? bind.scratch : t->each; /* the largest, until places are known */
    return true;
}

static size_t up(size_t n)
{
    return (n + 63) / 64 * 64;
}

static bool inside(const wfi_storage *st, uint32_t from, uint32_t to)
{
    return st->place == WFI_PLACE_ARENA && st->first >= from && st->last < to;
}

/* Values that live within the group only lie in a worker's scratch. Returns their bytes. */
static size_t place_locals(stripper *s, uint32_t from, uint32_t to)
{
    size_t at = 0;
    for (uint32_t q = from; q < to; q++) {
        const wfi_node *n = &s->b->g->node[s->node_of[q]];
        for (uint32_t k = 0; k < n->nout; k++) {
            wfi_storage *st = &s->p->storage[s->p->value_storage[n->out0 + k]];
            if (!inside(st, from, to))
                continue;
            st->place = WFI_PLACE_STRIP;
            st->offset = at;
            at += up(st->bytes / (size_t)s->count);
        }
    }
    return at;
}

static void undo_locals(stripper *s, uint32_t from, uint32_t to)
{
    for (uint32_t q = from; q < to; q++) {
        const wfi_node *n = &s->b->g->node[s->node_of[q]];
        for (uint32_t k = 0; k < n->nout; k++) {
            wfi_storage *st = &s->p->storage[s->p->value_storage[n->out0 + k]];
            if (st->place == WFI_PLACE_STRIP)
                st->place = WFI_PLACE_ARENA, st->offset = 0;
        }
    }
}

/* Strips come in no order: everything that the group touches is alive as long as it runs. */
static void lengthen(stripper *s, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t k = 0; k < s->m[i].nargs; k++) {
            const uint32_t v = value_at(s->b->g, &s->b->g->node[s->m[i].node], k);
            if (v == WFI_NO_VALUE)
                continue;
            wfi_storage *st = &s->p->storage[s->p->value_storage[v]];
            st->first = st->first > from && st->first < to ? from : st->first;
            st->last = st->last < to - 1 && st->last >= from ? to - 1 : st->last;
        }
}

void wfi_plan_strip_free(wfi_mem *mem, wfi_plan_strip *t)
{
    for (uint32_t i = 0; i < t->s.n && t->own; i++)
        wfi_mem_free(mem, t->own[i]);
    wfi_mem_free(mem, t->own);
    wfi_mem_free(mem, t->kernel);
    wfi_mem_free(mem, t->arg);
    *t = (wfi_plan_strip){ .from = 0 };
}

static uint32_t places(const stripper *s, const member *m)
{
    return wfi_plan_places(&s->b->g->node[m->node], s->b->bound[m->node]);
}

/* What does not stay within the group is written in pieces that later ones need in the caches: large results do not go
 * past them any more, and their lines are read before they are written. */
static int64_t loss(stripper *s, uint32_t from, uint32_t to)
{
    int64_t bytes = 0;
    s->count_no++;
    for (uint32_t i = 0; i < s->n; i++) {
        const wfi_node *n = &s->b->g->node[s->m[i].node];
        for (uint32_t k = 0; k < n->nout; k++) {
            const uint32_t at = s->p->value_storage[n->out0 + k];
            const wfi_storage *st = &s->p->storage[at];
            if (st->bytes >= STREAM_BYTES && !inside(st, from, to) && s->counted[at] != s->count_no)
                bytes += (int64_t)st->bytes;
            s->counted[at] = s->count_no;
        }
    }
    return bytes;
}

/* False: out of memory, or some kernel declines; nothing has changed. */
static bool make(stripper *s, uint32_t from, uint32_t to, wfi_plan_strip *t)
{
    wfi_mem *mem = s->b->c->mem;
    uint32_t nargs = 0;
    for (uint32_t i = 0; i < s->n; i++)
        nargs += places(s, &s->m[i]);
    *t = (wfi_plan_strip){ .from = from,
                           .to = to,
                           .own = wfi_mem_zalloc(mem, s->n * sizeof *t->own),
                           .kernel = wfi_mem_array(mem, s->n, sizeof *t->kernel),
                           .arg = wfi_mem_array(mem, nargs, sizeof *t->arg) };
    t->s = (wfi_strips){
        .count = s->count, .n = s->n, .threads = s->b->c->rt->threads, .kernel = t->kernel, .arg = t->arg
    };
    bool ok = t->own && t->kernel && t->arg;
    const size_t locals = ok ? place_locals(s, from, to) : 0;
    for (uint32_t i = 0, at = 0; ok && i < s->n; i++) {
        ok = bind_piece(s, &s->m[i], &t->s, &t->kernel[i], t->arg + at, &t->own[i]);
        t->kernel[i].arg0 = at;
        at += places(s, &s->m[i]);
    }
    t->s.scratch_at = up(locals);
    t->s.each = up(locals) + up(t->s.each);
    t->bytes = t->s.each * (size_t)(t->s.threads > 0 ? t->s.threads : 1);
    if (ok && wfi_queue_reserve(s->b->c->queue, t->bytes))
        return true;
    undo_locals(s, from, to);
    wfi_plan_strip_free(mem, t);
    return false;
}

static bool find(stripper *s)
{
    wfi_plan *p = s->p;
    size_t cap = 0;
    for (uint32_t from = 0, to; from<p->ncmd; from = to> from ? to : from + 1) {
        to = grow(s, from);
        if (s->n < 2 || s->gain - loss(s, from, to) < GAIN_BYTES)
            continue;
        if (!wfi_mem_grow(s->b->c->mem, &p->strip, &cap, (size_t)p->nstrip + 1, sizeof *p->strip))
            return false;
        if (make(s, from, to, &p->strip[p->nstrip])) {
            lengthen(s, from, to);
            p->nstrip++;
        }
    }
    return true;
}

bool wfi_plan_strips(wfi_plan_builder *b)
{
    wfi_mem *m = b->c->mem;
    const size_t ns = (size_t)b->p->nstorage + 1;
    if (!b->p->reuse || wfi_trail_skips(&b->p->trail, "strip", 0))
        return true;
    stripper *s = wfi_mem_zalloc(m, sizeof *s);
    if (!s)
        return false;
    s->b = b, s->p = b->p;
    s->node_of = wfi_mem_array(m, (size_t)b->p->ncmd + 1, sizeof *s->node_of);
    s->touched = wfi_mem_zalloc(m, ns * sizeof *s->touched);
    s->written = wfi_mem_zalloc(m, ns * sizeof *s->written);
    s->counted = wfi_mem_zalloc(m, ns * sizeof *s->counted);
    bool ok = s->node_of && s->touched && s->written && s->counted;
    for (uint32_t k = 0; ok && k < b->g->nnode; k++)
        if (b->bound[k] && b->cmd_of[k] != WFI_NO_VALUE)
            s->node_of[b->cmd_of[k]] = k;
    ok = ok && find(s);
    void *const parts[] = { s->node_of, s->touched, s->written, s->counted, s };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        wfi_mem_free(m, parts[i]);
    return ok;
}
