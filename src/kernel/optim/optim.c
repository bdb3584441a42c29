/* Optimiser steps over parameters of any layout and type. */
#define NEST_OPS 7
#include "kernel/optim/optim.h"
#include "kernel/reduce/lines.h"

enum { PIECE = 512 }; /* elements brought in at a time, if they are not used in place */

typedef struct params {
    nest all;
    int64_t n;
    wf_dtype type[NEST_OPS];
    wf_dtype weight_type;
    wfi_optim_kind kind;
    compute as;
    int32_t threads;
    bool there[NEST_OPS];
    bool direct[NEST_OPS];
    bool in_place; /* all operands are direct: lines need no cutting */
    bool momentum, nesterov;
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
 * from: the operand that a result equals if there is nothing to do. */
static const struct kind {
    int moving, results;
    int8_t from[3];
} kinds[WFI_OPTIM_COUNT] = { { 7, 3, { 3, 4, 5 } }, { 5, 2, { 2, 3, 0 } } };

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
    if (why || (why = view_fault(s->v[k->moving])) || (why = view_fault(s->v[k->moving + 1]))) {
        return why;
    }
    const wfi_view *weight = s->v[k->moving], *scalars = s->v[k->moving + 1];
    if (view_elements(weight) != 1 || compute_of(weight->dtype) == AS_NONE) {
        return "the weight must be one number";
    }
    if (scalars->dtype != WF_F64 || scalars->ndim != 1 || scalars->dim[0] != 8 || scalars->stride[0] != 1) {
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
    p.kind = s->kind, p.threads = s->threads > 0 ? s->threads : 1, p.momentum = momentum, p.nesterov = s->nesterov;
    p.as = w->dtype == WF_F64 ? AS_F64 : AS_F32;
    p.weight_type = s->v[k->moving]->dtype;
    p.n = view_elements(w);
    for (int i = 0; i < k->moving; i++) {
        v[i] = s->v[i];
        p.there[i] = v[i] != NULL;
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
        p.in_place &= p.direct[i] || !p.there[i];
    }
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

/* One piece: operands in, step, results out. */
static void piece(const job *j, char *desk, const cursor *c, int64_t n)
{
    const params *p = j->p;
    const struct kind *k = &kinds[p->kind];
    line l = { .n = n };
    for (int i = 0; i < k->moving; i++) {
        if (!p->there[i]) {
            continue;
        }
        char *at = j->args[i] + c->off[i];
        l.at[i] = p->direct[i] ? at : desk + i * PIECE * 8;
        if (i >= k->results && !p->direct[i]) {
            load_line(p->as, l.at[i], at, p->type[i], n, nest_step(&p->all, i));
        }
    }
    if (j->weight == 0) {
        for (int i = 0; i < k->results; i++) {
            if (p->there[i] && l.at[i] != l.at[k->from[i]]) {
                memcpy(l.at[i], l.at[k->from[i]], (size_t)(n * (p->as == AS_F32 ? 4 : 8)));
            }
        }
    } else if (p->as == AS_F32) {
        step_f32(p, &l, j->s, j->weight);
    } else {
        step_f64(p, &l, j->s, j->weight);
    }
    for (int i = 0; i < k->results; i++) {
        if (p->there[i] && !p->direct[i]) {
            store_line(p->as, j->args[i] + c->off[i], l.at[i], p->type[i], n, nest_step(&p->all, i));
        }
    }
}

static void chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    char *desk = p->in_place ? NULL : j->workers + (size_t)worker * NEST_OPS * PIECE * 8;
    int64_t i = number * j->per, end = least(p->n, i + j->per);
    cursor c;
    nest_at(&p->all, i, &c);
    while (i < end) {
        int64_t n = least(end - i, nest_left(&p->all, &c));
        n = p->in_place ? n : least(n, PIECE);
        piece(j, desk, &c, n);
        nest_next(&p->all, &c, n);
        i += n;
    }
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    const struct kind *k = &kinds[p->kind];
    if (p->n == 0) {
        return;
    }
    job j = { .p = p, .workers = r->scratch };
    for (int i = 0; i < k->moving; i++) {
        j.args[i] = p->there[i] ? args[i] : NULL;
    }
    if (is_float(p->weight_type)) {
        load_f64(&j.weight, args[k->moving], p->weight_type, 1, 0);
    } else {
        int64_t w;
        load_i64(&w, args[k->moving], p->weight_type, 1, 0);
        j.weight = (double)w;
    }
    memcpy(j.s, args[k->moving + 1], sizeof j.s);
    j.per = p->n < 65536 ? (p->n < 16384 ? 16384 : (p->n / 4 + 63) & ~(int64_t)63) : 32768;
    wfi_pool_run(pool_for(r, p->threads), (p->n + j.per - 1) / j.per, chunk, &j);
}

extern const wfi_optim_kernels WFI_K(wfi_optim);
const wfi_optim_kernels WFI_K(wfi_optim) = { prepare, run };
