/* Optimiser steps over parameters of any layout and type. */
#define NEST_OPS 7
#include "kernel/optim/optim.h"
#include "kernel/reduce/lines.h"

enum {
    PIECE = 512,  /* elements brought in at a time, if they are not used in place */
    ALONE = 16384 /* elements that one thread does faster than several */
};

typedef struct params {
    nest all;
    int64_t n, stride; /* elements; of the scalars */
    wf_dtype type[NEST_OPS];
    wf_dtype weight_type;
    wfi_optim_kind kind;
    compute as;
    int32_t threads;
    int8_t arg[WFI_OPTIM_SLOTS]; /* the address of each slot among those that a run is given; -1: none */
    bool direct[NEST_OPS];
    bool in_place; /* all operands are direct: lines need no cutting */
    bool flat;     /* ... and one line holds everything */
    bool momentum, nesterov, no_decay;
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

/* n elements of each operand, as they are computed. */
typedef struct line {
    void *at[NEST_OPS];
    int64_t n;
} line;

#define FT    float
#define FI    int32_t
#define FN(x) x##_f32
#include "kernel/reduce/fold.h"
#include "kernel/optim/optim_kernels.h"
#undef FT
#undef FI
#undef FN
#define FT    double
#define FI    int64_t
#define FN(x) x##_f64
#include "kernel/reduce/fold.h"
#include "kernel/optim/optim_kernels.h"
#undef FT
#undef FI
#undef FN

/* moving: operands with elements, of which the first `results` are written; then weight and scalars.
 * from: the operand that a result equals if there is nothing to do. decay: the scalar that is the weight decay. */
static const struct kind {
    int moving, results;
    int8_t from[3];
    int8_t decay;
} kinds[WFI_OPTIM_COUNT] = { { 7, 3, { 3, 4, 5 }, 4 }, { 5, 2, { 2, 3, 0 }, 2 } };

/* ---- prepare ---- */

static const char *check(const wfi_optim_spec *s, bool momentum)
{
    const struct kind *k = &kinds[s->kind];
    const wfi_view *w = s->v[k->from[0]];
    const char *why = view_fault(w);
    for (int i = 0; i < k->moving && !why; i++) {
        if (s->kind == WFI_OPTIM_SGD && !momentum && (i == 1 || i == 3)) {
            continue;
        }
        why = view_fault(s->v[i]);
        if (!why && !is_float(s->v[i]->dtype)) {
            why = "only floats are optimised";
        }
        if (!why && !same_dims(s->v[i], w)) {
            why = "the sizes of the operands differ";
        }
    }
    const wfi_view *weight = s->v[k->moving], *scalars = s->v[k->moving + 1];
    if (why || (weight && (why = view_fault(weight))) || (why = view_fault(scalars))) {
        return why;
    }
    if (weight && (view_elements(weight) != 1 || compute_of(weight->dtype) == AS_NONE)) {
        return "the weight must be one number";
    }
    if (scalars->dtype != WF_F64 || scalars->ndim != 1 || scalars->dim[0] != 8) {
        return "the scalars must be f64[8]";
    }
    return NULL;
}

static const char *prepare(const wfi_optim_spec *s, void *out, size_t *scratch)
{
    if (s->kind < 0 || s->kind >= WFI_OPTIM_COUNT) {
        return "no such optimiser";
    }
    bool momentum = s->kind == WFI_OPTIM_ADAMW || s->v[1] || s->v[3];
    const char *why = check(s, momentum);
    if (why) {
        return why;
    }
    const struct kind *k = &kinds[s->kind];
    const wfi_view *w = s->v[k->from[0]], *v[NEST_OPS] = { NULL };
    params p;
    memset(&p, 0, sizeof p);
    p.kind = s->kind, p.threads = s->threads > 0 ? s->threads : 1;
    p.momentum = momentum, p.nesterov = s->nesterov, p.no_decay = s->no_decay;
    p.as = w->dtype == WF_F64 ? AS_F64 : AS_F32;
    p.weight_type = s->v[k->moving] ? s->v[k->moving]->dtype : WF_DTYPE_NONE;
    p.stride = s->v[k->moving + 1]->stride[0];
    p.n = view_elements(w);
    for (int i = 0, given = 0; i < k->moving + 2; i++) {
        p.arg[i] = s->v[i] ? (int8_t)given++ : -1;
    }
    for (int i = 0; i < k->moving; i++) {
        v[i] = s->v[i];
        p.type[i] = v[i] ? v[i]->dtype : WF_DTYPE_NONE;
    }
    for (int d = 0; d < w->ndim; d++) {
        nest_push(&p.all, w->dim[d], v, (int[NEST_OPS]){ d, d, d, d, d, d, d });
    }
    nest_sort(&p.all, k->from[0]);
    nest_close(&p.all);
    p.in_place = true;
    for (int i = 0; i < k->moving; i++) {
        bool alone = p.all.dim[p.all.nd - 1] == 1;
        p.direct[i] =
            p.type[i] == (p.as == AS_F32 ? WF_F32 : WF_F64) && (alone || nest_step(&p.all, i) == bytes_of(p.type[i]));
        p.in_place &= p.direct[i] || p.arg[i] < 0;
    }
    p.flat = p.in_place && p.all.nd == 1;
    *scratch = p.in_place ? 0 : (size_t)p.threads * NEST_OPS * PIECE * 8;
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    char *args[NEST_OPS];
    char *workers;
    double s[8], weight;
    int64_t per;
} job;

/* One step on a line that lies as it is computed. */
static void step(const job *j, const line *l)
{
    const params *p = j->p;
    const struct kind *k = &kinds[p->kind];
    if (j->weight != 0) {
        if (p->as == AS_F32) {
            step_f32(p, l, j->s, j->weight);
        } else {
            step_f64(p, l, j->s, j->weight);
        }
        return;
    }
    for (int i = 0; i < k->results; i++) {
        if (p->arg[i] >= 0 && l->at[i] != l->at[k->from[i]]) {
            memcpy(l->at[i], l->at[k->from[i]], (size_t)(l->n * (p->as == AS_F32 ? 4 : 8)));
        }
    }
}

/* One piece: operands in, step, results out. */
static void piece(const job *j, char *desk, const cursor *c, int64_t n)
{
    const params *p = j->p;
    const struct kind *k = &kinds[p->kind];
    line l = { .n = n };
    for (int i = 0; i < k->moving; i++) {
        if (p->arg[i] < 0) {
            continue;
        }
        char *at = j->args[i] + c->off[i];
        l.at[i] = p->direct[i] ? at : desk + i * PIECE * 8;
        if (i >= k->results && !p->direct[i]) {
            load_line(p->as, l.at[i], at, p->type[i], n, nest_step(&p->all, i));
        }
    }
    step(j, &l);
    for (int i = 0; i < k->results; i++) {
        if (p->arg[i] >= 0 && !p->direct[i]) {
            store_line(p->as, j->args[i] + c->off[i], l.at[i], p->type[i], n, nest_step(&p->all, i));
        }
    }
}

/* Elements i .. i+n-1 of operands that lie as they are computed, in one line. */
static void flat(const job *j, int64_t i, int64_t n)
{
    line l = { .n = n };
    const int64_t off = i * (j->p->as == AS_F32 ? 4 : 8);
    for (int k = 0; k < kinds[j->p->kind].moving; k++) {
        l.at[k] = j->args[k] ? j->args[k] + off : NULL;
    }
    step(j, &l);
}

static void chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    char *desk = p->in_place ? NULL : j->workers + (size_t)worker * NEST_OPS * PIECE * 8;
    int64_t i = number * j->per, end = least(p->n, i + j->per);
    cursor c;
    if (p->flat) {
        flat(j, i, end - i);
        return;
    }
    nest_at(&p->all, i, &c);
    while (i < end) {
        int64_t n = least(end - i, nest_left(&p->all, &c));
        n = p->in_place ? n : least(n, PIECE);
        piece(j, desk, &c, n);
        nest_next(&p->all, &c, n);
        i += n;
    }
}

static double weight_of(const params *p, const double *s, void *const *args)
{
    int slot = kinds[p->kind].moving;
    double weight = s[7];
    int64_t whole;
    if (p->arg[slot] < 0) {
        return weight;
    }
    if (is_float(p->weight_type)) {
        load_f64(&weight, args[p->arg[slot]], p->weight_type, 1, 0);
        return weight;
    }
    load_i64(&whole, args[p->arg[slot]], p->weight_type, 1, 0);
    return (double)whole;
}

static void set_numbers(job *j, const params *p, void *const *args)
{
    const struct kind *k = &kinds[p->kind];
    const double *s = args[p->arg[k->moving + 1]];
    for (int i = 0; i < 8; i++) {
        j->s[i] = s[i * p->stride];
    }
    j->weight = weight_of(p, j->s, args);
    j->s[k->decay] = p->no_decay ? 0 : j->s[k->decay];
}

static void set_places(job *j, const params *p, void *const *args)
{
    j->p = p;
    for (int i = 0; i < NEST_OPS; i++) {
        j->args[i] = i < kinds[p->kind].moving && p->arg[i] >= 0 ? args[p->arg[i]] : NULL;
    }
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    job j = { .workers = r->scratch };
    if (p->n == 0) {
        return;
    }
    set_places(&j, p, args);
    set_numbers(&j, p, args);
    j.per = p->n < 65536 ? (p->n < ALONE ? ALONE : (p->n / 4 + 63) & ~(int64_t)63) : 32768;
    if (p->n <= j.per) {
        chunk(&j, 0, 0);
    } else {
        wfi_pool_run(pool_for(r, p->threads), (p->n + j.per - 1) / j.per, chunk, &j);
    }
}

/* ---- a list of parameters ---- */

typedef struct list_job {
    const wfi_kernel_list *list;
    void *scratch;
    uint32_t per; /* items of a chunk */
} list_job;

/* A parameter that is one chunk, or nothing. */
static bool is_small(const params *p)
{
    return p->n < ALONE;
}

/* Do both read the same numbers, and read them alike? */
static bool same_numbers(const wfi_kernel_item *a, const wfi_kernel_item *b)
{
    const params *p = a->params, *q = b->params;
    const int weight = kinds[p->kind].moving, scalars = weight + 1;
    return p->kind == q->kind && p->stride == q->stride && p->no_decay == q->no_decay &&
           p->weight_type == q->weight_type && a->args[p->arg[scalars]] == b->args[q->arg[scalars]] &&
           (p->arg[weight] < 0 || (q->arg[weight] >= 0 && a->args[p->arg[weight]] == b->args[q->arg[weight]]));
}

static void small_item(job *j, const params *p, void *const *args, int worker)
{
    if (!p->flat) {
        set_places(j, p, args);
        chunk(j, 0, worker);
        return;
    }
    line l = { .n = p->n };
    for (int i = 0; i < kinds[p->kind].moving; i++) {
        l.at[i] = p->arg[i] >= 0 ? args[p->arg[i]] : NULL;
    }
    j->p = p;
    step(j, &l);
}

static void small_chunk(void *arg, int64_t number, int worker)
{
    const list_job *l = arg;
    const uint32_t first = (uint32_t)number * l->per;
    const wfi_kernel_item *it = l->list->item + first, *before = NULL;
    const wfi_kernel_item *end = l->list->item + least(l->list->n, (int64_t)first + l->per);
    job j = { .workers = l->scratch, .per = ALONE };
    for (; it < end; it++) {
        const params *p = it->params;
        if (!is_small(p) || !p->n) {
            continue;
        }
        if (!before || !same_numbers(before, it)) {
            set_numbers(&j, p, it->args);
        }
        small_item(&j, p, it->args, worker);
        before = it;
    }
}

/* Large parameters one after the other, cut into chunks; small ones side by side, if there is enough of them. */
static void run_list(const void *list_, void *const *args, const wfi_run *r)
{
    list_job l = { list_, r->scratch, 1 };
    int64_t small = 0;
    int threads = INT32_MAX;
    (void)args;
    for (uint32_t i = 0; i < l.list->n; i++) {
        const params *p = l.list->item[i].params;
        threads = p->threads < threads ? p->threads : threads;
        if (is_small(p)) {
            small += p->n;
        } else {
            run(p, l.list->item[i].args, r);
        }
    }
    if (small < ALONE) {
        l.per = l.list->n;
        small_chunk(&l, 0, 0);
    } else {
        wfi_pool_run(pool_for(r, threads), l.list->n, small_chunk, &l);
    }
}

extern const wfi_optim_kernels WFI_K(wfi_optim);
const wfi_optim_kernels WFI_K(wfi_optim) = { prepare, run, run_list };
