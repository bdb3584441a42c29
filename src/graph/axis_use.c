/* axis_use.c - what is read off a bound axis map. Each consumer is small because the map says the rest. */
#include "graph/axis_use.h"
#include "graph/axis_tmpl.h"
#include <stdio.h>
#include <string.h>

wf_dims wfi_axis_result(const wfi_axis_inst *x, int r)
{
    wf_dims s = { x->nd[x->nin + r], { 0 } };
    for (int i = 0; i < s.n; i++)
        s.d[i] = x->d[x->nin + r][i].size;
    return s;
}

/* ---- broadcasting undone ---- */

/* Where the broadcast run of a slot begins and how many of its dimensions the operand has; 0 and 0 if there is none. */
static void run_place(const wfi_axis_inst *x, int slot, int *begin, int *own)
{
    axis_tmpl t;
    wfi_axis_tmpl_unpack(wfi_axis_map_of(x), &t);
    *begin = *own = 0;
    for (int i = 0; i < t.op[slot].n; i++)
        if (axis_is_bcast(&t, &t.item[t.op[slot].first + i])) {
            bool first = true;
            for (int d = 0; d < x->nd[slot]; d++)
                if (x->d[slot][d].item == i) {
                    *begin = first ? d : *begin;
                    first = false;
                    ++*own;
                } else if (first && x->d[slot][d].item < i)
                    *begin = d + 1;
        }
}
bool wfi_axis_undo_of(const wfi_axis_inst *x, int operand, wf_dims own_dims, wf_dims g, wfi_axis_undo *u)
{
    int begin, own, extra = g.n - own_dims.n;
    run_place(x, wfi_axis_slot(x, operand), &begin, &own);
    *u = (wfi_axis_undo){ .shape = own_dims };
    u->kept.n = own_dims.n;
    for (int i = 0; i < own_dims.n; i++) { /* dimension j of g stands over dimension i of the operand */
        int j = i < begin ? i : i + extra;
        int64_t have = extra < 0 && i >= begin && i < begin - extra ? 1 : g.d[j], want = own_dims.d[i];
        bool missing = extra < 0 && i >= begin && i < begin - extra;
        if (have != want && have != 1 && want != 1)
            return false;
        if (want == 1 && have != 1)
            u->sum.d[u->sum.n++] = j;
        u->kept.d[i] = want == 1 ? 1 : have;
        u->expand |= have != want && want != 1;
        u->reshape |= missing;
    }
    for (int j = begin; j < begin + extra; j++)
        u->sum.d[u->sum.n++] = j;
    u->reshape |= extra > 0;
    for (int i = 1; i < u->sum.n; i++) /* ascending */
        for (int j = i; j > 0 && u->sum.d[j] < u->sum.d[j - 1]; j--) {
            int64_t t = u->sum.d[j];
            u->sum.d[j] = u->sum.d[j - 1];
            u->sum.d[j - 1] = t;
        }
    return true;
}

/* ---- vmap ---- */

static bool vmap_shape(const wfi_axis_inst *x, const axis_tmpl *t, int slot, bool batched, int64_t size,
                       const wfi_axis_shape *in, wfi_axis_shape *out, bool *expand)
{
    const axis_item *lead = &t->item[t->op[slot].first];
    bool named = !axis_is_bcast(t, lead);
    int pad = 0;
    for (int f = 0; f < x->nf && !named; f++)
        pad += x->f[f].name == axis_run_name(t, lead);
    for (int i = 0; i < x->nd[slot] && !named; i++)
        pad -= x->d[slot][i].item == 0;
    if (1 + pad + in->ndim > WF_RANK_MAX)
        return false;
    *out = (wfi_axis_shape){ .dtype = in->dtype };
    out->dim[out->ndim++] = batched || named ? size : 1;
    for (int i = 0; i < pad; i++)
        out->dim[out->ndim++] = 1;
    for (int i = 0; i < in->ndim; i++)
        out->dim[out->ndim++] = in->dim[i];
    *expand = named && !batched;
    return true;
}
bool wfi_axis_vmap(const uint8_t *map, const char *op, int nin, const wfi_axis_shape *in, const bool *batched,
                   int64_t size, wf_dims *attr, wfi_syms *syms, wfi_axis_shape *out, bool *expand, char *err,
                   size_t err_bytes)
{
    wfi_axis_inst x;
    axis_tmpl t;
    if (!wfi_axis_bind(map, op, nin, in, attr, syms, &x, err, err_bytes))
        return false;
    wfi_axis_tmpl_unpack(map, &t);
    for (int r = t.nin; r < t.nslot; r++)
        if (!wfi_axis_leading_run(map, r)) {
            snprintf(err, err_bytes, "%s: %s has no batch dimensions, so it cannot be mapped over a batch", op,
                     wfi_axis_operand_name(map, r));
            return false;
        }
    for (int i = 0; i < nin; i++) {
        int slot = wfi_axis_slot(&x, i);
        out[i] = in[i];
        expand[i] = false;
        if (in[i].ndim < 0)
            continue;
        if (!wfi_axis_leading_run(map, slot)) {
            if (!batched[i]) /* every example reads the same one */
                continue;
            snprintf(err, err_bytes, "%s: %s has no batch dimensions, so it cannot be mapped over a batch", op,
                     wfi_axis_operand_name(map, slot));
            return false;
        }
        if (!vmap_shape(&x, &t, slot, batched[i], size, &in[i], &out[i], &expand[i])) {
            snprintf(err, err_bytes, "%s: %s would have more than %d dimensions", op, wfi_axis_operand_name(map, slot),
                     WF_RANK_MAX);
            return false;
        }
    }
    uint32_t done = 0; /* each attribute once, even if several items stand where it says */
    for (int i = 0; i < t.nitem; i++) {
        int at = t.item[i].at;
        if (at < 0 || (done >> at & 1))
            continue;
        done |= 1u << at;
        int rank = -1; /* "all" must not take the batch */
        for (int o = 0; o < t.nin && attr[at].n < 0; o++)
            for (int j = 0; j < t.op[o].n; j++)
                if (t.op[o].first + j == i)
                    rank = x.nd[o];
        for (attr[at].n = attr[at].n < 0 ? 0 : attr[at].n; attr[at].n < rank; attr[at].n++)
            attr[at].d[attr[at].n] = attr[at].n;
        for (int k = 0; k < attr[at].n; k++)
            attr[at].d[k] += attr[at].d[k] >= 0;
    }
    return true;
}

/* ---- fusion ---- */

typedef struct fuse {
    const wfi_axis_member *m;
    int n;
    uint64_t *nodes; /* of each class, at its root: the members that have a factor in it */
    int16_t *up;     /* union-find over (member, factor) */
} fuse;

size_t wfi_axis_fuse_bytes(int n)
{
    return (size_t)n * WFI_AXIS_FACTORS * (sizeof(uint64_t) + sizeof(int16_t));
}
static int root(const fuse *u, int a)
{
    while (u->up[a] != a) {
        u->up[a] = u->up[u->up[a]];
        a = u->up[a];
    }
    return a;
}
static void join(const fuse *u, int a, int b)
{
    a = root(u, a);
    b = root(u, b);
    if (a == b || (u->nodes[a] & u->nodes[b])) /* x + transpose(x) must not make one axis of two */
        return;
    u->up[b] = (int16_t)a;
    u->nodes[a] |= u->nodes[b];
}
/* Two slots that hold one value walk it together. */
static void join_slots(const fuse *u, int p, int ps, int q, int qs)
{
    const wfi_axis_inst *x = u->m[p].x, *y = u->m[q].x;
    if (x->nd[ps] != y->nd[qs])
        return;
    for (int i = 0; i < x->nd[ps]; i++) {
        const wfi_axis_dim *a = &x->d[ps][i], *b = &y->d[qs][i];
        if (wfi_axis_plain(a) && wfi_axis_plain(b) && x->f[a->f[0]].size == y->f[b->f[0]].size)
            join(u, p * WFI_AXIS_FACTORS + a->f[0], q * WFI_AXIS_FACTORS + b->f[0]);
    }
}
static void unify(const fuse *u)
{
    for (int i = 0; i < u->n * WFI_AXIS_FACTORS; i++) {
        u->up[i] = (int16_t)i;
        u->nodes[i] = 1ull << (i / WFI_AXIS_FACTORS);
    }
    for (int q = 0; q < u->n; q++)
        for (int o = 0; o < u->m[q].x->operands; o++) {
            int32_t v = u->m[q].in[o];
            const wfi_axis_inst *y = u->m[q].x;
            for (int p = 0; p < q; p++) {
                const wfi_axis_inst *x = u->m[p].x;
                for (int r = x->nin; r < x->nslot; r++)
                    if (u->m[p].out[r - x->nin] == v)
                        join_slots(u, p, r, q, wfi_axis_slot(y, o));
                for (int k = 0; k < x->operands; k++)
                    if (u->m[p].in[k] == v)
                        join_slots(u, p, wfi_axis_slot(x, k), q, wfi_axis_slot(y, o));
            }
        }
}
/* Whether member i iterates over the class with that root, and in parallel. */
static bool iterates(const fuse *u, int i, int cls, bool *parallel)
{
    const wfi_axis_inst *x = u->m[i].x;
    bool hit = false;
    *parallel = false;
    for (int f = 0; f < x->nf; f++)
        if (x->f[f].size != 1 && !(x->f[f].marks & WFI_LOOKED) && root(u, i * WFI_AXIS_FACTORS + f) == cls) {
            hit = true;
            *parallel |= x->f[f].out;
        }
    return hit;
}
static const char *refuse_member(const fuse *u, int i, char *why, size_t bytes)
{
    const wfi_axis_member *m = &u->m[i];
    char name[32];
    if (!m->scalar)
        return snprintf(why, bytes, "%s has no scalar code", m->name), why;
    for (int f = 0; f < m->x->nf; f++)
        if (m->x->f[f].marks & (WFI_WHOLE | WFI_ORDERED) && m->x->f[f].size != 1)
            return snprintf(why, bytes, "%s needs axis %s whole or in order", m->name,
                            wfi_axis_factor_name(m->x, f, name, sizeof name)),
                   why;
    for (int o = 0; o < m->x->operands; o++)
        for (int p = 0; p < u->n; p++)
            for (int r = 0; r < u->m[p].x->nslot - u->m[p].x->nin; r++) {
                int slot = wfi_axis_slot(m->x, o);
                for (int d = 0; u->m[p].out[r] == m->in[o] && d < m->x->nd[slot]; d++)
                    if (m->x->d[slot][d].n && !wfi_axis_plain(&m->x->d[slot][d]))
                        return snprintf(why, bytes, "%s reads %s through a window or a look-up", m->name, u->m[p].name),
                               why;
            }
    return NULL;
}
const char *wfi_axis_fusable(const wfi_axis_member *m, int n, void *scratch, char *why, size_t bytes)
{
    fuse u = { .m = m, .n = n, .nodes = scratch };
    if (n < 1 || n > 64)
        return snprintf(why, bytes, "a group has 1 to 64 members"), why;
    u.up = (int16_t *)(void *)(u.nodes + n * WFI_AXIS_FACTORS);
    unify(&u);
    for (int i = 0; i < n; i++)
        if (refuse_member(&u, i, why, bytes))
            return why;
    bool only_rows[64] = { 0 }, only_all[64] = { 0 }; /* what member i iterates over: exactly R, exactly S */
    memset(only_rows, true, (size_t)n);
    memset(only_all, true, (size_t)n);
    bool rows = false, any = false;
    for (int c = 0; c < n * WFI_AXIS_FACTORS; c++) {
        if (c % WFI_AXIS_FACTORS >= m[c / WFI_AXIS_FACTORS].x->nf || root(&u, c) != c)
            continue;
        bool in_rows = true, in_all = false, parallel, hit[64];
        for (int i = 0; i < n; i++) {
            hit[i] = iterates(&u, i, c, &parallel);
            in_rows &= parallel;
            in_all |= hit[i];
        }
        any |= in_all;
        rows |= in_rows;
        for (int i = 0; i < n; i++) {
            only_rows[i] &= hit[i] == in_rows;
            only_all[i] &= hit[i] == in_all;
        }
    }
    if (!rows && any)
        return snprintf(why, bytes, "no axis is parallel in every member"), why;
    for (int i = 0; i < n; i++)
        if (!only_rows[i] && !only_all[i])
            return snprintf(why, bytes, "%s iterates neither over the row axes nor over all axes", m[i].name), why;
    return NULL;
}

/* ---- cost, halo, lint ---- */

static int64_t times(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}
int64_t wfi_axis_points(const wfi_axis_inst *x, const wfi_syms *syms)
{
    int64_t n = 1;
    for (int f = 0; f < x->nf; f++)
        if (!(x->f[f].marks & WFI_LOOKED))
            n = times(n, wfi_sym_hi(syms, x->f[f].size));
    return n;
}
int64_t wfi_axis_elements(const wfi_axis_inst *x, int slot, const wfi_syms *syms)
{
    int64_t n = 1;
    for (int i = 0; i < x->nd[slot]; i++)
        n = times(n, wfi_sym_hi(syms, x->d[slot][i].size));
    return x->nd[slot] < 0 ? 0 : n;
}
bool wfi_axis_reduces(const wfi_axis_inst *x)
{
    for (int f = 0; f < x->nf; f++)
        if (x->f[f].in && !x->f[f].out && x->f[f].size != 1 && !(x->f[f].marks & WFI_LOOKED))
            return true;
    return false;
}
bool wfi_axis_halo(const wfi_axis_inst *x, int slot, int i, int64_t *low, int64_t *high)
{
    const wfi_axis_dim *d = &x->d[slot][i];
    int64_t span = 0;
    axis_tmpl t;
    wfi_axis_tmpl_unpack(wfi_axis_map_of(x), &t);
    if (d->n < 2 || t.item[t.op[slot].first + d->item].merged)
        return false;
    for (int j = 0; j < d->n; j++)
        if (wfi_sym_is(d->c[j]) || wfi_sym_is(x->f[d->f[j]].size))
            return false;
    for (int j = 1; j < d->n; j++)
        span += d->c[j] * (x->f[d->f[j]].size - 1);
    *low = -d->off;
    *high = span + d->off - d->c[0] + 1;
    return true;
}
const char *wfi_axis_lint(const wfi_axis_inst *x, char *factor, size_t bytes)
{
    for (int f = 0; f < x->nf; f++)
        for (int o = 0; o < x->nin && x->f[f].in && !x->f[f].out && !(x->f[f].marks & (WFI_WHOLE | WFI_LOOKED)); o++) {
            bool has = x->nd[o] < 0;
            for (int i = 0; i < x->nd[o]; i++)
                for (int j = 0; j < x->d[o][i].n; j++)
                    has |= x->d[o][i].f[j] == f;
            for (int p = 0; p < x->nslot; p++)
                for (int i = 0; i < x->nd[p]; i++)
                    has |= x->d[p][i].look == o; /* indices are no data */
            if (!has) {
                wfi_axis_factor_name(x, f, factor, bytes);
                return wfi_axis_operand_name(wfi_axis_map_of(x), o);
            }
        }
    return NULL;
}
