/* axis.c - binding: an axis map and the shapes of operands -> factors with sizes, every dimension affine in them.
 *
 * In order: the lengths of runs from the ranks; the items of each operand laid over its dimensions; then a few rounds
 * in which size rules and dimensions give sizes to factors, or are checked against them; then coefficients and bounds.
 */
#include "graph/axis_tmpl.h"
#include "base/ck.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { UNKNOWN = -1 }; /* a size that nothing has given yet; negative sizes never get this far */

typedef struct binder {
    wfi_axis_inst *x;
    const char *op;
    int nin;
    const wfi_axis_shape *in;
    const wf_dims *attr;
    wfi_syms *syms;
    char *err;
    size_t err_bytes;
    int all;                                      /* the attribute that means all dimensions, -1 */
    wf_dims every;                                /* ... and its value, 0 1 2 ... */
    int run[WFI_AXIS_NAMES];                      /* length of each run, -1: not yet known */
    int64_t dimsize[WFI_AXIS_NAMES][WF_RANK_MAX]; /* of dimensions with a name of their own */
    axis_tmpl t;
} binder;

/* ---- errors ---- */

typedef struct number_text {
    char s[48];
} number_text;
static const char *show(const binder *b, int64_t size, number_text *t)
{
    return wfi_sym_text(b->syms, size, t->s, sizeof t->s);
}
static int operand_of(const wfi_axis_inst *x, int slot, int copy) /* in the list that bind was given */
{
    int copies = x->operands - x->nin + 1;
    return x->many < 0 || slot < x->many ? slot : slot == x->many ? slot + copy : slot + copies - 1;
}
static size_t put_shape(const wfi_syms *syms, const wfi_axis_shape *s, char *o, size_t cap)
{
    size_t n = (size_t)snprintf(o, cap, "%s[", s->dtype ? s->dtype : "");
    char v[48];
    for (int i = 0; i < s->ndim && n < cap; i++)
        n += (size_t)snprintf(o + n, cap - n, "%s%s", i ? "," : "", wfi_sym_text(syms, s->dim[i], v, sizeof v));
    if (n < cap)
        n += (size_t)snprintf(o + n, cap - n, "]");
    return n < cap ? n : cap - 1;
}
const char *wfi_axis_shapes_text(const uint8_t *map, int nin, const wfi_axis_shape *in, const wfi_syms *syms,
                                 char *text, size_t bytes)
{
    size_t n = 0;
    int slots = wfi_axis_inputs(map), many = -1;
    if (bytes)
        *text = 0;
    for (int o = 0; o < slots; o++)
        if (wfi_axis_many(map, o))
            many = o;
    wfi_axis_inst x = { .operands = nin, .nin = (int8_t)slots, .many = (int8_t)many };
    for (int i = 0; i < nin && n + 40 < bytes; i++) {
        int slot = wfi_axis_slot(&x, i);
        if (in[i].ndim < 0)
            continue;
        n += (size_t)snprintf(text + n, bytes - n, "%s%s", n ? ", " : "", wfi_axis_operand_name(map, slot));
        if (slot == many)
            n += (size_t)snprintf(text + n, bytes - n, "%d", i - many);
        n += (size_t)snprintf(text + n, bytes - n, " is ");
        n += put_shape(syms, &in[i], text + n, bytes - n);
    }
    return text;
}
__attribute__((format(printf, 2, 3))) static bool oops(binder *b, const char *format, ...)
{
    char shapes[256];
    va_list v;
    va_start(v, format);
    size_t n = (size_t)snprintf(b->err, b->err_bytes, "%s: ", b->op);
    if (n < b->err_bytes)
        n += (size_t)vsnprintf(b->err + n, b->err_bytes - n, format, v);
    va_end(v);
    wfi_axis_shapes_text(wfi_axis_map_of(b->x), b->nin, b->in, b->syms, shapes, sizeof shapes);
    if (n < b->err_bytes && *shapes)
        snprintf(b->err + n, b->err_bytes - n, "; %s", shapes);
    return false;
}
static const char *slot_name(const binder *b, int slot)
{
    return b->t.name[b->t.op[slot].name];
}
static bool too_large(binder *b)
{
    return oops(b, "a size is too large (at most 2^47 elements in a dimension or in all)");
}

/* ---- values ---- */

static const wf_dims *attr(const binder *b, int id)
{
    return id < 0 || id >= b->t.nattr || !b->attr ? NULL : id == b->all ? &b->every : &b->attr[id];
}
static bool present(const binder *b, const axis_item *it)
{
    const wf_dims *a = attr(b, it->when);
    return !a || (a->n > 0 && a->d[0] != 0);
}
static int find_factor(const wfi_axis_inst *x, int name, int k)
{
    for (int i = 0; i < x->nf; i++)
        if (x->f[i].name == name && x->f[i].k == k)
            return i;
    return -1;
}
static int factor(binder *b, int name, int k) /* -1: too many */
{
    wfi_axis_inst *x = b->x;
    int i = find_factor(x, name, k);
    if (i >= 0)
        return i;
    if (x->nf == WFI_AXIS_FACTORS)
        return -1;
    x->f[x->nf] = (wfi_axis_factor){ .size = UNKNOWN, .name = (int8_t)name, .k = (int8_t)k, .operand = -1, .dim = -1 };
    return x->nf++;
}
/* A dimension, factor or attribute of that name; *v is UNKNOWN if nothing has given it yet. False: a bad list. */
static bool value(binder *b, int id, int k, int64_t *v)
{
    const wf_dims *a = attr(b, id);
    if (a) {
        if (a->n == 0 || (k >= a->n && a->n != 1))
            return oops(b, "%s has %d entries; needed %d", b->t.name[id], (int)a->n, k < 0 ? 1 : k + 1);
        *v = a->d[k < 0 || a->n == 1 ? 0 : k];
        return (*v >= -WFI_DIM_MAX && *v <= WFI_DIM_MAX) || wfi_sym_is(*v) ||
               oops(b, "%s is out of range", b->t.name[id]);
    }
    *v = b->dimsize[id][k < 0 ? 0 : k];
    for (int i = 0; *v == UNKNOWN && i < b->x->nf; i++)
        if (b->x->f[i].name == id && (b->x->f[i].k == k || k < 0 || b->x->f[i].k < 0))
            *v = b->x->f[i].size;
    return true;
}
static bool op2(binder *b, char op, int64_t y, int64_t z, int64_t *r)
{
    if (op == '/' && z == 0)
        return oops(b, "a size is divided by zero");
    if (!wfi_sym_op(b->syms, op, y, z, r))
        return too_large(b);
    return wfi_sym_is(*r) || (*r >= -4 * WFI_DIM_MAX && *r <= 4 * WFI_DIM_MAX) || too_large(b);
}
static bool eval(binder *b, const axis_rule *r, int k, int64_t *v) /* *v UNKNOWN: not yet */
{
    int64_t s[AXIS_CODES];
    int n = 0;
    for (int i = 0; i < r->n; i++) {
        const axis_code *c = &b->t.code[r->first + i];
        if (c->op == 'n')
            s[n++] = c->arg;
        else if (c->op == 'v') {
            if (!value(b, c->arg, k, &s[n]))
                return false;
            if (s[n] == UNKNOWN && !attr(b, c->arg))
                return *v = UNKNOWN, true;
            n++;
        } else {
            n--;
            if (!op2(b, c->op, s[n - 1], s[n], &s[n - 1]))
                return false;
        }
    }
    *v = s[0];
    return true;
}

/* ---- ranks and runs ---- */

/* How many dimensions the item covers; -1: not known yet. */
static int length(const binder *b, const axis_item *it)
{
    const wf_dims *a = attr(b, it->at);
    if (!present(b, it))
        return 0;
    if (!it->run)
        return a && it->n == 0 ? a->n : 1;
    return a ? a->n : b->run[axis_run_name(&b->t, it)];
}
static bool rank_input(binder *b, int slot)
{
    wfi_axis_inst *x = b->x;
    const axis_operand *o = &b->t.op[slot];
    const axis_item *open = NULL;
    const wfi_axis_shape *s = &b->in[operand_of(x, slot, 0)];
    int fixed = 0;
    x->nd[slot] = s->ndim < 0 ? -1 : (int8_t)s->ndim;
    if (s->ndim < 0)
        return true;
    for (int i = 0; i < o->n; i++) {
        const axis_item *it = &b->t.item[o->first + i];
        bool all = b->all >= 0 && it->at == b->all && b->every.n < 0;
        int len = all || (it->run && axis_is_bcast(&b->t, it)) ? -1 : length(b, it);
        if (len >= 0)
            fixed += len;
        else if (!open || all)
            open = it;
        else if (b->all < 0 || open->at != b->all)
            return oops(b, "nothing gives the number of dimensions of %s", slot_name(b, slot));
    }
    if (open ? s->ndim < fixed : s->ndim != fixed)
        return oops(b, "%s has %d dimensions; needed %s%d", slot_name(b, slot), (int)s->ndim, open ? "at least " : "",
                    fixed);
    if (!open)
        return true;
    int len = s->ndim - fixed, id = axis_run_name(&b->t, open);
    if (b->all >= 0 && open->at == b->all && b->every.n < 0)
        for (b->every.n = 0; b->every.n < len; b->every.n++)
            b->every.d[b->every.n] = b->every.n;
    if (id >= 0 && len > b->run[id])
        b->run[id] = len;
    for (int i = 0; i < o->n; i++) { /* beside a run that takes all, others are empty */
        id = axis_run_name(&b->t, &b->t.item[o->first + i]);
        if (id >= 0 && b->run[id] < 0)
            b->run[id] = 0;
    }
    return true;
}
/* A run that is in results only is as long as the attribute list in its rule. */
static void rank_new_run(binder *b, int id)
{
    for (int r = 0; r < b->t.nrule; r++)
        for (int c = 0; b->t.rule[r].name == id && b->run[id] < 0 && c < b->t.rule[r].n; c++) {
            const axis_code *k = &b->t.code[b->t.rule[r].first + c];
            const wf_dims *a = k->op == 'v' ? attr(b, k->arg) : NULL;
            if (a)
                b->run[id] = a->n;
        }
}
static bool rank_result(binder *b, int slot)
{
    const axis_operand *o = &b->t.op[slot];
    int rank = 0;
    for (int i = 0; i < o->n; i++) {
        const axis_item *it = &b->t.item[o->first + i];
        int id = axis_run_name(&b->t, it);
        if (id >= 0 && b->run[id] < 0 && axis_is_bcast(&b->t, it))
            b->run[id] = 0;
        if (id >= 0 && b->run[id] < 0)
            rank_new_run(b, id);
        int len = length(b, it);
        if (len < 0)
            return oops(b, "nothing gives the number of dimensions of %s", slot_name(b, slot));
        rank += len;
    }
    if (rank > WF_RANK_MAX)
        return oops(b, "%s would have %d dimensions; at most %d", slot_name(b, slot), rank, WF_RANK_MAX);
    b->x->nd[slot] = (int8_t)rank;
    return true;
}
static bool ranks(binder *b)
{
    const axis_tmpl *t = &b->t;
    for (int i = 0; i < t->nitem; i++) { /* runs that an attribute places are as long as that */
        const wf_dims *a = attr(b, t->item[i].at);
        int id = axis_run_name(t, &t->item[i]);
        if (id >= 0 && a && a->n >= 0)
            b->run[id] = a->n;
    }
    for (int o = 0; o < t->nin; o++)
        if (!rank_input(b, o))
            return false;
    if (b->all >= 0 && b->every.n < 0)
        return oops(b, "%s: nothing says what all dimensions are", t->name[b->all]);
    for (int o = t->nin; o < t->nslot; o++)
        if (!rank_result(b, o))
            return false;
    return true;
}

/* ---- items over dimensions ---- */

static bool bad_axis(binder *b, const axis_item *it, int64_t v, int slot, bool twice)
{
    return oops(b, "%s is %lld, which is %s; %s has %d dimensions", b->t.name[it->at], (long long)v,
                twice ? "given twice" : "out of range", slot_name(b, slot), (int)b->x->nd[slot]);
}
/* Dimension pos of the slot gets item it, the k-th of its run. */
static bool lay(binder *b, int slot, const axis_item *it, int pos, int k)
{
    wfi_axis_inst *x = b->x;
    wfi_axis_dim *d = &x->d[slot][pos];
    bool input = slot < x->nin;
    int64_t size = input ? b->in[operand_of(x, slot, 0)].dim[pos] : UNKNOWN;
    *d = (wfi_axis_dim){
        .size = size, .look = -1, .marks = it->marks, .item = (int8_t)(it - &b->t.item[b->t.op[slot].first])
    };
    for (int o = 0; it->look >= 0 && o < x->nin; o++)
        if (b->t.op[o].name == it->look)
            d->look = (int8_t)o;
    for (int j = 0; j < it->n; j++) {
        const axis_term *t = &b->t.term[it->first + j];
        if (t->name < 0)
            continue;
        int f = factor(b, t->name, it->run ? k : -1);
        if (f < 0)
            return oops(b, "more than %d axes in all", WFI_AXIS_FACTORS);
        d->f[d->n++] = (int8_t)f;
        x->f[f].marks |= (it->marks | t->marks) & (WFI_WHOLE | WFI_ORDERED | WFI_POSITION);
        if (it->look >= 0)
            x->f[f].marks |= WFI_LOOKED;
        if (input)
            x->f[f].in = true;
        else
            x->f[f].out = true;
    }
    if (it->dim < 0 || !input)
        return true;
    int64_t *own = &b->dimsize[it->dim][it->run ? k : 0];
    if (b->t.op[slot].many) /* concat: the sizes of all copies add up */
        for (int c = 1; c <= x->operands - x->nin; c++) {
            const wfi_axis_shape *s = &b->in[operand_of(x, slot, c)];
            if (pos < s->ndim && !op2(b, '+', size, s->dim[pos], &size))
                return false;
        }
    if (*own != UNKNOWN && *own != size)
        return oops(b, "two operands give axis %s different sizes", b->t.name[it->dim]);
    *own = size;
    return true;
}
static bool place_item(binder *b, int slot, const axis_item *it, int skip, uint32_t *used)
{
    wfi_axis_inst *x = b->x;
    const wf_dims *a = attr(b, it->at);
    int len = length(b, it), next = 0;
    if (a && it->run == false && it->n > 0 && a->n != 1)
        return oops(b, "%s has %d entries; needed 1", b->t.name[it->at], (int)a->n);
    for (int k = skip; k < len; k++) {
        int64_t pos = a ? a->d[k] + (a->d[k] < 0 ? x->nd[slot] : 0) : 0;
        if (a && (pos < 0 || pos >= x->nd[slot] || (*used >> pos & 1)))
            return bad_axis(b, it, a->d[k], slot, pos >= 0 && pos < x->nd[slot]);
        while (!a && (*used >> next & 1))
            next++;
        if (!a)
            pos = next;
        *used |= 1u << pos;
        if (!lay(b, slot, it, (int)pos, k))
            return false;
    }
    return true;
}
static bool place(binder *b, int slot)
{
    const axis_operand *o = &b->t.op[slot];
    uint32_t used = 0;
    for (int pass = 0; pass < 2; pass++) /* first what attributes place, then the rest in order */
        for (int i = 0; i < o->n; i++) {
            const axis_item *it = &b->t.item[o->first + i];
            if ((pass == 0) != (attr(b, it->at) != NULL))
                continue;
            int skip = 0;
            if (axis_is_bcast(&b->t, it) && slot < b->x->nin) { /* right-aligned in the full run */
                int own = b->x->nd[slot];
                for (int j = 0; j < o->n; j++)
                    own -= j == i ? 0 : length(b, &b->t.item[o->first + j]);
                skip = length(b, it) - own;
            }
            if (!place_item(b, slot, it, skip, &used))
                return false;
        }
    return true;
}

/* ---- sizes ---- */

static bool differ(binder *b, int f, int slot, int i)
{
    wfi_axis_inst *x = b->x;
    const wfi_axis_factor *g = &x->f[f];
    char name[32];
    number_text t1, t2;
    const char *mine = show(b, x->d[slot][i].size, &t1), *other = show(b, g->size, &t2);
    wfi_axis_factor_name(x, f, name, sizeof name);
    if (g->operand < 0)
        return oops(b, "%s[%d] is %s; needed %s (axis %s)", slot_name(b, slot), i - x->nd[slot], mine, other, name);
    if (*b->t.name[g->name] == 0)
        return oops(b, "shapes do not broadcast: %s[%d] is %s, %s[%d] is %s", slot_name(b, g->operand),
                    g->dim - x->nd[g->operand], other, slot_name(b, slot), i - x->nd[slot], mine);
    return oops(b, "sizes of axis %s differ: %s[%d] is %s, %s[%d] is %s", name, slot_name(b, g->operand),
                g->dim - x->nd[g->operand], other, slot_name(b, slot), i - x->nd[slot], mine);
}
static void give(wfi_axis_inst *x, int f, int64_t size, int slot, int i)
{
    x->f[f].size = size;
    x->f[f].operand = (int8_t)slot;
    x->f[f].dim = (int8_t)i;
}
/* The product of the factors that are known; *open is the one that is not, -1 none, -2 several. */
static bool known_part(binder *b, const wfi_axis_dim *d, int64_t *known, int *open)
{
    *known = 1;
    *open = -1;
    for (int j = 0; j < d->n; j++) {
        int64_t size = b->x->f[d->f[j]].size;
        if (size == UNKNOWN)
            *open = *open == -1 ? d->f[j] : -2;
        else if (!op2(b, '*', *known, size, known))
            return false;
    }
    return true;
}
static bool divide(binder *b, int f, int64_t known, int slot, int i)
{
    wfi_axis_dim *d = &b->x->d[slot][i];
    int64_t q = 0, back = -1;
    number_text t1, t2;
    if (known != 0 && (!op2(b, '/', d->size, known, &q) || !op2(b, '*', q, known, &back)))
        return false;
    if (back != d->size)
        return oops(b, "%s[%d] is %s; it must be a multiple of %s", slot_name(b, slot), i - b->x->nd[slot],
                    show(b, d->size, &t1), show(b, known, &t2));
    give(b->x, f, q, slot, i);
    return true;
}
static bool solve_bcast(binder *b, int f, int slot, int i)
{
    wfi_axis_inst *x = b->x;
    int64_t size = x->d[slot][i].size;
    if (x->f[f].size == size || size == 1)
        return true;
    if (x->f[f].size != 1)
        return differ(b, f, slot, i);
    give(x, f, size, slot, i);
    return true;
}
/* One dimension: gives sizes to factors, checks them, or (in a result) learns its own. */
static bool solve(binder *b, int slot, int i)
{
    wfi_axis_inst *x = b->x;
    wfi_axis_dim *d = &x->d[slot][i];
    const axis_item *it = &b->t.item[b->t.op[slot].first + d->item];
    bool input = slot < x->nin;
    number_text t;
    int64_t known;
    int open;
    if (it->n == 0) {
        if (!input)
            d->size = 1;
        return d->size == 1 ||
               oops(b, "%s[%d] is %s; needed 1", slot_name(b, slot), i - x->nd[slot], show(b, d->size, &t));
    }
    if (it->dim >= 0)
        return input || value(b, it->dim, it->run ? x->f[d->f[0]].k : -1, &d->size);
    if (!known_part(b, d, &known, &open) || open == -2)
        return open == -2;
    if (open == -1) {
        if (!input && d->size == UNKNOWN)
            d->size = known;
        if (input && !it->merged && axis_is_bcast(&b->t, it))
            return solve_bcast(b, d->f[0], slot, i);
        return d->size == known || (it->merged ? oops(b, "%s[%d] is %s; needed %lld", slot_name(b, slot),
                                                      i - x->nd[slot], show(b, d->size, &t), (long long)known)
                                               : differ(b, d->f[0], slot, i));
    }
    return !input || divide(b, open, known, slot, i);
}
/* "h is 1, kernel_h is 4": what a rule made a size from. */
static void parts_of_rule(binder *b, const axis_rule *r, int k, char *text, size_t bytes)
{
    size_t n = 0;
    number_text t;
    for (int i = 0; i < r->n && n < bytes; i++) {
        const axis_code *c = &b->t.code[r->first + i];
        int64_t v = UNKNOWN;
        bool again = false;
        for (int j = 0; j < i; j++)
            again |= b->t.code[r->first + j].op == 'v' && b->t.code[r->first + j].arg == c->arg;
        if (c->op == 'v' && !again && value(b, c->arg, k, &v) && (v != UNKNOWN || attr(b, c->arg)))
            n += (size_t)snprintf(text + n, bytes - n, "%s%s is %s", n ? ", " : "", b->t.name[c->arg], show(b, v, &t));
    }
}
/* A rule made a size of 0 or less. If the axis moves a window over an input, the window is larger than that. */
static bool negative(binder *b, const axis_rule *r, int f, int64_t size)
{
    wfi_axis_inst *x = b->x;
    char name[32] = "", window[64] = "", parts[200] = "";
    number_text t1, t2, t3;
    for (int o = x->nin; o < x->nslot && !*name; o++)
        for (int i = 0; i < x->nd[o]; i++)
            if (x->d[o][i].n == 1 && x->d[o][i].f[0] == f)
                snprintf(name, sizeof name, "%s[%d]", slot_name(b, o), i - x->nd[o]);
    if (!*name)
        wfi_axis_factor_name(x, f, name, sizeof name);
    for (int o = 0; o < x->nin; o++)
        for (int i = 0; i < x->nd[o]; i++) {
            const wfi_axis_dim *d = &x->d[o][i];
            const axis_item *it = &b->t.item[b->t.op[o].first + d->item];
            if (it->merged || d->n < 2 || (d->f[0] != f && d->f[1] != f))
                continue;
            const wfi_axis_factor *k = &x->f[d->f[d->f[0] == f]];
            if (k->operand >= 0)
                snprintf(window, sizeof window, "%s[%d] is %s", slot_name(b, k->operand), k->dim - x->nd[k->operand],
                         show(b, k->size, &t3));
            else
                snprintf(window, sizeof window, "%s is %s", b->t.name[k->name], show(b, k->size, &t3));
            return oops(b, "the window is larger than the input: %s would be %s; %s[%d] is %s, %s", name,
                        show(b, size, &t1), slot_name(b, o), i - x->nd[o], show(b, d->size, &t2), window);
        }
    parts_of_rule(b, r, x->f[f].k, parts, sizeof parts);
    return oops(b, "%s would be %s%s%s", name, show(b, size, &t1), *parts ? ": " : "", parts);
}
static bool in_window(const binder *b, int f)
{
    const wfi_axis_inst *x = b->x;
    for (int o = 0; o < x->nin; o++)
        for (int i = 0; i < x->nd[o]; i++) {
            const wfi_axis_dim *d = &x->d[o][i];
            if (!b->t.item[b->t.op[o].first + d->item].merged && d->n > 1 && (d->f[0] == f || d->f[1] == f))
                return true;
        }
    return false;
}
static bool apply_rule(binder *b, const axis_rule *r)
{
    wfi_axis_inst *x = b->x;
    bool hit = false;
    for (int f = 0; f < x->nf; f++) {
        int64_t v;
        if (x->f[f].name != r->name)
            continue;
        hit = true;
        if (!eval(b, r, x->f[f].k, &v))
            return false;
        if (v == UNKNOWN) {
            bool all = true; /* -1 may be the value itself */
            for (int c = 0; c < r->n; c++) {
                const axis_code *k = &b->t.code[r->first + c];
                int64_t part = 0;
                if (k->op == 'v' && !attr(b, k->arg) && (!value(b, k->arg, x->f[f].k, &part) || part == UNKNOWN))
                    all = false;
            }
            if (all)
                return negative(b, r, f, v);
            continue;
        }
        if (!wfi_sym_is(v) && (v < 0 || (v == 0 && in_window(b, f))))
            return negative(b, r, f, v);
        if (v > WFI_DIM_MAX)
            return too_large(b);
        if (x->f[f].size == UNKNOWN)
            x->f[f].size = v;
        else if (x->f[f].size != v) {
            int64_t have = x->f[f].size;
            int o = x->f[f].operand, i = x->f[f].dim;
            x->f[f].size = v;
            x->f[f].operand = -1;
            (void)have;
            return o < 0 ? oops(b, "the rules of axis %s contradict each other", b->t.name[r->name])
                         : differ(b, f, o, i);
        }
    }
    for (int k = 0; !hit && k < WF_RANK_MAX; k++)
        if (b->run[r->name] < 0 ? k < 1 : k < b->run[r->name])
            if (b->dimsize[r->name][k] == UNKNOWN && !eval(b, r, k, &b->dimsize[r->name][k]))
                return false;
    return true;
}
static bool sizes(binder *b)
{
    wfi_axis_inst *x = b->x;
    for (int round = 0; round < 3; round++) {
        for (int r = 0; r < b->t.nrule; r++)
            if (!apply_rule(b, &b->t.rule[r]))
                return false;
        for (int o = 0; o < (round ? x->nslot : x->nin); o++)
            for (int i = 0; i < x->nd[o]; i++)
                if (!solve(b, o, i))
                    return false;
    }
    for (int f = 0; f < x->nf; f++)
        if (x->f[f].size == UNKNOWN)
            return oops(b, "nothing gives the size of axis %s", b->t.name[x->f[f].name]);
    return true;
}
/* The copies of a variadic operand are like the first, but for the dimension whose sizes add up. */
static bool copies(binder *b)
{
    wfi_axis_inst *x = b->x;
    int m = x->many;
    number_text t1, t2;
    for (int c = 1; m >= 0 && c <= x->operands - x->nin; c++) {
        const wfi_axis_shape *s = &b->in[operand_of(x, m, c)];
        if (s->ndim != x->nd[m])
            return oops(b, "%s%d has %d dimensions, %s0 has %d", slot_name(b, m), c, (int)s->ndim, slot_name(b, m),
                        (int)x->nd[m]);
        for (int i = 0; i < s->ndim; i++)
            if (s->dim[i] != x->d[m][i].size && b->t.item[b->t.op[m].first + x->d[m][i].item].dim < 0)
                return oops(b, "sizes differ: %s0[%d] is %s, %s%d[%d] is %s", slot_name(b, m), i - x->nd[m],
                            show(b, x->d[m][i].size, &t1), slot_name(b, m), c, i - x->nd[m], show(b, s->dim[i], &t2));
    }
    return true;
}

/* ---- coefficients and bounds ---- */

static bool bounds(binder *b, int slot, int i)
{
    wfi_axis_inst *x = b->x;
    const wfi_axis_dim *d = &x->d[slot][i];
    int64_t lo = d->off, hi = d->off;
    number_text t;
    if (wfi_sym_is(d->size) || wfi_sym_is(d->off))
        return true;
    for (int j = 0; j < d->n; j++) {
        int64_t e, size = x->f[d->f[j]].size;
        if (wfi_sym_is(size) || wfi_sym_is(d->c[j]) || size == 0)
            return true;
        if (!wfi_ck_mul64(d->c[j], size - 1, &e) || !wfi_ck_add64(e < 0 ? lo : hi, e, e < 0 ? &lo : &hi))
            return too_large(b);
    }
    return (lo >= 0 && hi < d->size) || oops(b, "reads %s[%d] at %lld..%lld; it has %s", slot_name(b, slot),
                                             i - x->nd[slot], (long long)lo, (long long)hi, show(b, d->size, &t));
}
static bool affine(binder *b, int slot, int i)
{
    wfi_axis_inst *x = b->x;
    wfi_axis_dim *d = &x->d[slot][i];
    const axis_item *it = &b->t.item[b->t.op[slot].first + d->item];
    int k = it->run && d->n ? x->f[d->f[0]].k : -1, n = 0;
    for (int j = 0; j < it->n; j++) {
        const axis_term *t = &b->t.term[it->first + j];
        int64_t c = t->num;
        if (t->coef >= 0 && !value(b, t->coef, k, &c))
            return false;
        if (t->sign < 0 && !op2(b, '-', 0, c, &c))
            return false;
        if (t->name >= 0)
            d->c[n++] = c;
        else if (!op2(b, '+', d->off, c, &d->off))
            return false;
    }
    if (it->merged) {
        int64_t c = 1;
        for (int j = d->n - 1; j >= 0; j--) {
            d->c[j] = c;
            if (!op2(b, '*', c, x->f[d->f[j]].size, &c))
                return false;
        }
    }
    if (!it->merged && it->dim < 0 && d->n == 1 && d->size != x->f[d->f[0]].size)
        d->n = 0; /* broadcast */
    return it->dim < 0 || (it->marks & (WFI_GUARD | WFI_WRAP)) || d->look >= 0 || bounds(b, slot, i);
}
/* All sizes within limits: dimensions, and elements of each result. */
static bool limits(binder *b)
{
    wfi_axis_inst *x = b->x;
    for (int o = x->nin; o < x->nslot; o++) {
        int64_t n = 1;
        bool empty = false;
        for (int i = 0; i < x->nd[o]; i++) {
            int64_t v = x->d[o][i].size, hi = wfi_sym_hi(b->syms, v);
            number_text t;
            if (v < 0 && !wfi_sym_is(v))
                return oops(b, "%s[%d] would be %s", slot_name(b, o), i - x->nd[o], show(b, v, &t));
            empty |= v == 0;
            if (hi > WFI_DIM_MAX || (!empty && !wfi_sym_is(v) && (!wfi_ck_mul64(n, v, &n) || n > WFI_DIM_MAX)))
                return too_large(b);
        }
    }
    return true;
}
static bool inputs(binder *b)
{
    wfi_axis_inst *x = b->x;
    const axis_tmpl *t = &b->t;
    for (int o = 0; o < t->nslot; o++)
        if (t->op[o].many)
            x->many = (int8_t)o;
    if (x->many < 0 ? b->nin != t->nin : b->nin < t->nin) {
        snprintf(b->err, b->err_bytes, "%s: %d operands given; it takes %s%d", b->op, b->nin,
                 x->many < 0 ? "" : "at least ", t->nin);
        return false;
    }
    for (int i = 0; i < b->nin; i++)
        for (int d = 0; d < b->in[i].ndim; d++)
            if (b->in[i].ndim > WF_RANK_MAX ||
                (!wfi_sym_is(b->in[i].dim[d]) && (b->in[i].dim[d] < 0 || b->in[i].dim[d] > WFI_DIM_MAX))) {
                snprintf(b->err, b->err_bytes, "%s: operand %d has a bad shape", b->op, i);
                return false;
            }
    for (int i = 0; i < t->nattr && b->attr; i++) {
        if (b->attr[i].n > WF_RANK_MAX) {
            snprintf(b->err, b->err_bytes, "%s: %s has %d entries; at most %d", b->op, t->name[i], (int)b->attr[i].n,
                     WF_RANK_MAX);
            return false;
        }
        if (b->attr[i].n < 0)
            b->all = i;
    }
    return true;
}

bool wfi_axis_bind(const uint8_t *map, const char *op, int nin, const wfi_axis_shape *in, const wf_dims *attrs,
                   wfi_syms *syms, wfi_axis_inst *x, char *err, size_t err_bytes)
{
    binder b = { .x = x,
                 .op = op,
                 .nin = nin,
                 .in = in,
                 .attr = attrs,
                 .syms = syms,
                 .err = err,
                 .err_bytes = err_bytes,
                 .all = -1 };
    wfi_axis_tmpl_unpack(map, &b.t);
    x->map = map;
    x->operands = nin;
    x->nin = (int8_t)b.t.nin;
    x->nslot = (int8_t)b.t.nslot;
    x->nf = 0;
    x->many = -1;
    b.every.n = -1;
    memset(b.dimsize, -1, (size_t)b.t.nname * sizeof b.dimsize[0]);
    for (int i = 0; i < b.t.nname; i++)
        b.run[i] = -1;
    if (!inputs(&b))
        return false;
    for (int i = b.t.nattr; i < b.t.nname && x->many >= 0; i++)
        if (strcmp(b.t.name[i], "count") == 0) /* copies of the variadic operand */
            for (int k = 0; k < WF_RANK_MAX; k++)
                b.dimsize[i][k] = x->operands - x->nin + 1;
    if (!ranks(&b))
        return false;
    for (int o = 0; o < x->nslot; o++)
        if (x->nd[o] >= 0 && !place(&b, o))
            return false;
    if (!sizes(&b) || !copies(&b))
        return false;
    for (int o = 0; o < x->nslot; o++)
        for (int i = 0; i < x->nd[o]; i++)
            if (!affine(&b, o, i))
                return false;
    return limits(&b);
}

void wfi_axis_drop_ones(wfi_axis_inst *x)
{
    for (int o = 0; o < x->nslot; o++)
        for (int i = 0; i < x->nd[o]; i++) {
            wfi_axis_dim *d = &x->d[o][i];
            int8_t n = 0;
            for (int j = 0; j < d->n; j++)
                if (x->f[d->f[j]].size != 1) {
                    d->f[n] = d->f[j];
                    d->c[n++] = d->c[j];
                }
            d->n = n;
        }
}
