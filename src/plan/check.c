/* The plan checker. It knows nothing of how the plan was made: it walks the commands with a model of memory in which
 * every storage holds at most one computed value, and a write ends the life of whatever shares a byte with it. */
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "ops/op.h"
#include "plan/plan.h"

typedef struct model {
    const wfi_plan *p;
    uint32_t *root;  /* of each value: the computed value that it is (a view of), or a leaf */
    uint32_t *holds; /* of each storage: the value in it now, WFI_NO_VALUE: none */
    char *err;
    size_t err_bytes;
} model;

static bool wrong(const model *m, uint32_t cmd, uint32_t value, const char *what)
{
    snprintf(m->err, m->err_bytes, "command %u, value v%u: %s", cmd, value, what);
    return false;
}

/* Bytes [lo, hi) of its storage that a value's elements touch. */
static bool extent(const wfi_graph *g, uint32_t layout, int64_t *lo, int64_t *hi)
{
    const wfi_layout *l = wfi_layout_at(g->ids, layout);
    const wfi_type *t = wfi_type_at(g->ids, l->type);
    int64_t size = (int64_t)wf_dtype_bytes(t->dtype);
    *lo = *hi = l->offset * size;
    if (t->elements == 0)
        return false;
    for (int32_t i = 0; i < t->ndim; i++) {
        int64_t reach = (t->dim[i] - 1) * l->stride[i] * size;
        *(reach < 0 ? lo : hi) += reach;
    }
    *hi += size;
    return true;
}

static bool inside(const model *m, uint32_t cmd, uint32_t v)
{
    const wfi_plan *p = m->p;
    const wfi_storage *s = &p->storage[p->value_storage[v]];
    int64_t lo, hi;
    if (s->place == WFI_PLACE_NONE)
        return wrong(m, cmd, v, "it has no memory");
    if (extent(&p->graph, p->value_layout[v], &lo, &hi) && s->place != WFI_PLACE_INPUT &&
        (lo < 0 || hi > (int64_t)s->bytes))
        return wrong(m, cmd, v, "it reaches outside its storage");
    if (s->place == WFI_PLACE_ARENA && s->offset + s->bytes > p->arena)
        return wrong(m, cmd, v, "its storage reaches outside the arena");
    return true;
}

static bool overlap(const wfi_storage *a, const wfi_storage *b)
{
    return a->place == WFI_PLACE_ARENA && b->place == WFI_PLACE_ARENA && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

static void write_to(const model *m, uint32_t storage, uint32_t v)
{
    const wfi_plan *p = m->p;
    for (uint32_t s = 0; s < p->nstorage; s++)
        if (s != storage && overlap(&p->storage[s], &p->storage[storage]))
            m->holds[s] = WFI_NO_VALUE;
    m->holds[storage] = v;
}

static bool reads(const model *m, uint32_t cmd, uint32_t v)
{
    uint32_t root = m->root[v];
    if (root == WFI_NO_VALUE)
        return wrong(m, cmd, v, "nothing has computed it");
    return inside(m, cmd, v) &&
           (m->holds[m->p->value_storage[v]] == root || wrong(m, cmd, v, "its memory holds something else by now"));
}

/* Views have no command: their root is the operand whose storage they share. What computes is no view, even where its
 * result took the storage of an operand. */
static void view_roots(const model *m, const wfi_node *n)
{
    const wfi_plan *p = m->p;
    if (n->op == WFI_NODE_FUSED || (n->op < WFI_OP_COUNT && wfi_op_table[n->op].flags & WFI_OP_EW))
        return;
    for (uint32_t o = n->out0; o < n->out0 + n->nout; o++)
        for (uint32_t i = 0; i < n->nin; i++) {
            uint32_t v = p->graph.in[n->in0 + i];
            if (v != WFI_NO_VALUE && p->value_storage[v] == p->value_storage[o]) {
                m->root[o] = m->root[v];
                break;
            }
        }
}

static bool command(const model *m, uint32_t cmd, const wfi_node *n)
{
    const wfi_plan *p = m->p;
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = p->graph.in[n->in0 + i];
        if (v != WFI_NO_VALUE && !reads(m, cmd, v))
            return false;
    }
    for (uint32_t o = n->out0; o < n->out0 + n->nout; o++) {
        if (!inside(m, cmd, o))
            return false;
        for (uint32_t k = n->out0; k < o; k++)
            if (p->value_storage[k] == p->value_storage[o] ||
                overlap(&p->storage[p->value_storage[k]], &p->storage[p->value_storage[o]]))
                return wrong(m, cmd, o, "two results of one command share memory");
    }
    for (uint32_t o = n->out0; o < n->out0 + n->nout; o++)
        for (uint32_t i = 0; i < n->nin; i++) { /* a result over an operand: the same bytes, or none */
            uint32_t v = p->graph.in[n->in0 + i];
            if (v == WFI_NO_VALUE)
                continue;
            uint32_t sv = p->value_storage[v], so = p->value_storage[o];
            if (sv != so && overlap(&p->storage[sv], &p->storage[so]))
                return wrong(m, cmd, o, "it overlaps an operand of its command");
        }
    for (uint32_t o = n->out0; o < n->out0 + n->nout; o++) {
        m->root[o] = o;
        write_to(m, p->value_storage[o], o);
    }
    return true;
}

static bool walk(const model *m)
{
    const wfi_plan *p = m->p;
    uint32_t cmd = 0;
    for (size_t k = 0; k < p->graph.nnode; k++) {
        const wfi_node *n = &p->graph.node[k];
        if (n->op == WFI_NODE_ASSIGN || n->op == WFI_NODE_RESULT)
            continue;
        if (n->op >= WFI_NODE_INPUT) {
            uint32_t s = p->value_storage[n->out0];
            m->root[n->out0] = m->holds[s] == WFI_NO_VALUE ? n->out0 : m->holds[s];
            m->holds[s] = m->root[n->out0]; /* a variable that is asked for twice is one value */
        } else if (cmd < p->ncmd && p->cmd_node[cmd] == k) {
            if (!command(m, cmd++, n))
                return false;
        } else
            view_roots(m, n);
    }
    if (cmd != p->ncmd)
        return wrong(m, cmd, 0, "commands do not stand in the order of the graph");
    for (size_t k = 0; k < p->graph.nnode; k++) {
        const wfi_node *n = &p->graph.node[k];
        if ((n->op == WFI_NODE_ASSIGN || n->op == WFI_NODE_RESULT) && !reads(m, cmd, p->graph.in[n->in0]))
            return false;
    }
    return true;
}

/* Does command b touch what command a writes? */
static bool touches(const wfi_plan *p, uint32_t a, uint32_t b)
{
    const wfi_node *na = &p->graph.node[p->cmd_node[a]], *nb = &p->graph.node[p->cmd_node[b]];
    for (uint32_t o = 0; o < na->nout; o++)
        for (uint32_t i = 0; i < nb->nout + nb->nin; i++) {
            uint32_t v = i < nb->nout ? nb->out0 + i : p->graph.in[nb->in0 + i - nb->nout];
            uint32_t s = p->value_storage[na->out0 + o], t = v == WFI_NO_VALUE ? v : p->value_storage[v];
            if (t != WFI_NO_VALUE && (s == t || overlap(&p->storage[s], &p->storage[t])))
                return true;
        }
    return false;
}

/* ---- strips ---- */

/* Bytes that kernel k of a group touches of argument i: [*lo, *hi) of the storage in strip 0, *step further in the
 * next. False: nothing of it is in memory that strips share. */
static bool strip_bytes(const wfi_plan *p, const wfi_plan_strip *t, uint32_t k, uint32_t i, int64_t *lo, int64_t *hi)
{
    const wfi_plan_arg *w = &p->where[(uint32_t)(p->cmd[t->from].args - p->args) + t->kernel[k].arg0 + i];
    const wfi_node *n = &p->graph.node[p->cmd_node[t->from + k]];
    const wfi_strip_arg *a = &t->arg[t->kernel[k].arg0 + i];
    const uint32_t v = i < n->nout ? n->out0 + i : p->graph.in[n->in0 + i - n->nout];
    if (w->storage == WFI_NO_VALUE || !extent(&p->graph, p->value_layout[v], lo, hi))
        return false;
    if (a->step) /* a piece: as far as the whole less the other pieces */
        *hi -= a->step * (t->s.count - 1);
    return true;
}

static uint32_t storage_at(const wfi_plan *p, const wfi_plan_strip *t, uint32_t k, uint32_t i)
{
    return p->where[(uint32_t)(p->cmd[t->from].args - p->args) + t->kernel[k].arg0 + i].storage;
}

/* Kernel k writes argument i; kernel j reads or writes argument o. No strip may meet another one there. */
static bool strips_part(const model *m, const wfi_plan_strip *t, uint32_t k, uint32_t i, uint32_t j, uint32_t o)
{
    const wfi_plan *p = m->p;
    const uint32_t sa = storage_at(p, t, k, i), sb = storage_at(p, t, j, o);
    const wfi_strip_arg *a = &t->arg[t->kernel[k].arg0 + i], *b = &t->arg[t->kernel[j].arg0 + o];
    int64_t lo, hi, lo2, hi2;
    if (sb == WFI_NO_VALUE || (sa != sb && !overlap(&p->storage[sa], &p->storage[sb])))
        return true;
    if (p->storage[sa].place == WFI_PLACE_STRIP) /* each worker has its own; the pieces must fit there */
        return sa == sb && a->local == b->local && a->local == p->storage[sa].offset;
    if (sa != sb || !strip_bytes(p, t, k, i, &lo, &hi) || !strip_bytes(p, t, j, o, &lo2, &hi2))
        return sa == sb;
    return a->step == b->step && a->step > 0 && (lo < lo2 ? lo : lo2) + a->step >= (hi > hi2 ? hi : hi2);
}

/* Values that lie in a worker's scratch: pieces that do not meet and end before the scratch of the kernels. */
static bool strip_locals(const model *m, const wfi_plan_strip *t)
{
    const wfi_plan *p = m->p;
    for (uint32_t s = 0; s < p->nstorage; s++) {
        const wfi_storage *a = &p->storage[s];
        if (a->place != WFI_PLACE_STRIP || a->first < t->from || a->first >= t->to)
            continue;
        const size_t end = a->offset + a->bytes / (size_t)t->s.count;
        if (a->last >= t->to || end > t->s.scratch_at)
            return false;
        for (uint32_t o = 0; o < s; o++) {
            const wfi_storage *b = &p->storage[o];
            if (b->place == WFI_PLACE_STRIP && b->first >= t->from && b->first < t->to && b->offset < end &&
                a->offset < b->offset + b->bytes / (size_t)t->s.count)
                return false;
        }
    }
    return true;
}

static bool strips(const model *m, const wfi_plan_strip *t)
{
    const wfi_plan *p = m->p;
    for (uint32_t k = 0; k < t->s.n; k++)
        for (uint32_t i = 0; i < p->graph.node[p->cmd_node[t->from + k]].nout; i++)
            for (uint32_t j = 0; j < t->s.n; j++)
                for (uint32_t o = 0; o < t->kernel[j].nargs; o++)
                    if (!strips_part(m, t, k, i, j, o))
                        return wrong(m, t->from + k, p->graph.node[p->cmd_node[t->from + k]].out0 + i,
                                     "one strip touches what another one writes");
    return strip_locals(m, t) || wrong(m, t->from, 0, "its values do not fit in the scratch of a strip");
}

/* Commands that run as one must not depend on their order; and all commands run, once. */
static bool runs(const model *m)
{
    const wfi_plan *p = m->p;
    uint32_t at = 0, strip = 0;
    for (uint32_t r = 0; r < p->nrun; at = p->run0[++r]) {
        if (p->run0[r] != at || p->run0[r + 1] <= at)
            return wrong(m, at, 0, "it is not run once");
        if (strip < p->nstrip && p->strip[strip].from == at) {
            if (p->strip[strip].to != p->run0[r + 1])
                return wrong(m, at, 0, "it is not run once");
            if (!strips(m, &p->strip[strip++]))
                return false;
            continue;
        }
        for (uint32_t a = at; a < p->run0[r + 1]; a++)
            for (uint32_t b = at; b < p->run0[r + 1]; b++)
                if (a != b && touches(p, a, b))
                    return wrong(m, b, p->graph.node[p->cmd_node[b]].out0, "it runs beside what it needs");
    }
    return at == p->ncmd || wrong(m, at, 0, "it is not run once");
}

bool wfi_plan_check(wfi_mem *mem, const wfi_plan *p, char *err, size_t err_bytes)
{
    model m = { p, wfi_mem_array(mem, p->graph.nvalue + 1, sizeof *m.root),
                wfi_mem_array(mem, (size_t)p->nstorage + 1, sizeof *m.holds), err, err_bytes };
    bool ok = m.root && m.holds;
    if (!ok)
        snprintf(err, err_bytes, "out of memory");
    for (size_t i = 0; ok && i < p->graph.nvalue; i++)
        m.root[i] = WFI_NO_VALUE;
    for (uint32_t i = 0; ok && i < p->nstorage; i++)
        m.holds[i] = WFI_NO_VALUE;
    ok = ok && walk(&m) && runs(&m);
    wfi_mem_free(mem, m.root);
    wfi_mem_free(mem, m.holds);
    return ok;
}
