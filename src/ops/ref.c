/* ref.c - reference evaluations that follow from the axis map: every point of the iteration space, in doubles. Slow and
 * plain on purpose; they define what the kernels must give. */
#include "ops/op.h"
#include <math.h>

typedef struct walk {
    const wf_ref *r;
    const wfi_axis_inst *x;
    int64_t at[WFI_AXIS_FACTORS];
    int order[WFI_AXIS_FACTORS], n; /* factors that are loops: results' first, so that sums run innermost */
    int operands;
} walk;

static bool loops(const walk *w, int f)
{
    return !(w->x->f[f].marks & WFI_LOOKED);
}
static void begin(walk *w, const wf_ref *r)
{
    *w = (walk){ .r = r, .x = r->x, .operands = r->nin };
    for (int pass = 0; pass < 2; pass++)
        for (int f = 0; f < w->x->nf; f++)
            if (loops(w, f) && w->x->f[f].out == (pass == 0))
                w->order[w->n++] = f;
}
static bool empty(const walk *w)
{
    for (int i = 0; i < w->n; i++)
        if (w->x->f[w->order[i]].size == 0)
            return true;
    return false;
}
static bool step(walk *w)
{
    for (int i = w->n - 1; i >= 0; i--) {
        int f = w->order[i];
        if (++w->at[f] < w->x->f[f].size)
            return true;
        w->at[f] = 0;
    }
    return false;
}
static int64_t element(const walk *w, int slot, const wf_ref_tensor *t, int64_t before);

/* The position that one dimension has now; -1: outside, so it reads the fill and writes nothing. */
static int64_t position(const walk *w, const wfi_axis_dim *d, int64_t size, int64_t before)
{
    int64_t p = d->off - before;
    for (int j = 0; j < d->n; j++)
        if (d->look < 0)
            p += d->c[j] * w->at[d->f[j]];
    if (d->look >= 0) {
        const wf_ref_tensor *index = &w->r->in[d->look];
        int64_t e = element(w, d->look, index, 0);
        p = e < 0 ? -1 : (int64_t)index->d[e];
        return p < -size || p >= size ? -1 : p < 0 ? p + size : p;
    }
    if (d->marks & WFI_WRAP && size > 0)
        p = (p % size + size) % size;
    return p >= 0 && p < size ? p : -1;
}
/* before: where this copy of a variadic operand begins on the axis whose sizes add up. */
static int64_t element(const walk *w, int slot, const wf_ref_tensor *t, int64_t before)
{
    int64_t e = 0;
    for (int i = 0; i < t->ndim; i++) {
        const wfi_axis_dim *d = &w->x->d[slot][i];
        int64_t p = position(w, d, t->dim[i], d->marks & WFI_GUARD ? before : 0);
        if (p < 0)
            return -1;
        e = e * t->dim[i] + p;
    }
    return e;
}
static bool is_index(const walk *w, int slot)
{
    for (int s = 0; s < w->x->nslot; s++)
        for (int i = 0; i < w->x->nd[s]; i++)
            if (w->x->d[s][i].look == slot)
                return true;
    return false;
}
/* The product of the data operands at this point; of a variadic operand, the copy that is there. */
static double product(const walk *w, bool *inside)
{
    double v = 1;
    int64_t before = 0;
    bool many = false;
    *inside = true;
    for (int i = 0; i < w->operands; i++) {
        const wf_ref_tensor *t = &w->r->in[i];
        int slot = wfi_axis_slot(w->x, i);
        if (!t->d || is_index(w, slot))
            continue;
        bool copy = w->x->many >= 0 && slot == w->x->many;
        int64_t e = element(w, slot, t, before);
        for (int k = 0; copy && k < t->ndim; k++)
            if (w->x->d[slot][k].marks & WFI_GUARD)
                before += t->dim[k];
        if (copy) {
            if (e >= 0)
                v = many ? v : v * t->d[e];
            many |= e >= 0;
        } else if (e < 0) { /* the fill is 0 */
            v = 0;
            *inside = false;
        } else
            v *= t->d[e];
    }
    return w->x->many >= 0 && !many ? 0 : v;
}
static void reduce(const wf_ref *r, double identity, double (*op)(double, double), bool fill)
{
    walk w;
    wf_ref_tensor *y = &r->out[0];
    begin(&w, r);
    for (int64_t i = 0; i < y->n; i++)
        y->d[i] = identity;
    if (empty(&w))
        return;
    do {
        bool inside;
        double v = product(&w, &inside);
        int64_t e = element(&w, w.x->nin, y, 0);
        if (e >= 0 && (inside || fill))
            y->d[e] = op(y->d[e], v);
    } while (step(&w));
}
static double add(double a, double b)
{
    return a + b;
}
static double mul(double a, double b)
{
    return a * b;
}
static double larger(double a, double b)
{
    return a != a ? a : b != b ? b : a > b ? a : b;
}
static double smaller(double a, double b)
{
    return a != a ? a : b != b ? b : a < b ? a : b;
}
void wfi_ref_sum(const wf_ref *r)
{
    reduce(r, 0, add, true);
}
void wfi_ref_max(const wf_ref *r)
{
    reduce(r, -INFINITY, larger, false);
}
void wfi_ref_min(const wf_ref *r)
{
    reduce(r, INFINITY, smaller, false);
}
void wfi_ref_prod(const wf_ref *r)
{
    reduce(r, 1, mul, true);
}
void wfi_ref_ew(const wf_ref *r, wfi_ref_value *value)
{
    walk w;
    begin(&w, r);
    if (empty(&w))
        return;
    do {
        double v[3] = { 0 };
        for (int i = 0; i < r->nin && i < 3; i++)
            v[i] = r->in[i].d[element(&w, i, &r->in[i], 0)];
        r->out[0].d[element(&w, w.x->nin, &r->out[0], 0)] = value(v[0], v[1], v[2]);
    } while (step(&w));
}
