/* refeval.h - what the tests of operators share: the reference interpreter, samples, numbers and comparisons.
 *
 * The interpreter evaluates operators in doubles, one after the other: primitives by the reference of their
 * definition, composites by their lowering, which is recorded on the side (nothing runs) and evaluated in turn. With
 * `rounded` every result is rounded to its type, else real numbers keep what a double holds, so that formulas can be
 * compared with finite differences. */
#ifndef WEFT_TEST_REFEVAL_H
#define WEFT_TEST_REFEVAL_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/dtype.h"
#include "graph/axis_use.h"
#include "record/capture.h"
#include "record/record.h"

enum { REF_IN = WFI_BIND_IN, REF_OUT = WFI_BIND_OUT };

/* ---- numbers ---- */

typedef struct rng {
    uint64_t s;
} rng;
static inline uint64_t rng_next(rng *r) /* splitmix64 */
{
    uint64_t z = (r->s += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
static inline double rng_unit(rng *r) /* 0 .. 1 */
{
    return (double)(rng_next(r) >> 11) * 0x1p-53;
}
static inline int64_t rng_below(rng *r, int64_t n)
{
    return (int64_t)(rng_next(r) % (uint64_t)n);
}

/* ---- memory of the interpreter: freed all at once ---- */

typedef struct ref_block {
    struct ref_block *next;
    double pad; /* keeps d aligned */
    double d[];
} ref_block;
typedef struct ref_pool {
    ref_block *head;
} ref_pool;

static inline double *ref_doubles(ref_pool *p, int64_t n)
{
    ref_block *b = malloc(sizeof *b + (size_t)(n > 0 ? n : 1) * sizeof(double));
    assert_non_null(b);
    b->next = p->head;
    p->head = b;
    return b->d;
}
static inline void ref_cut(ref_pool *p, ref_block *mark) /* frees what was taken since */
{
    while (p->head != mark) {
        ref_block *b = p->head;
        p->head = b->next;
        free(b);
    }
}

static inline wf_ref_tensor ref_new(ref_pool *p, wf_dtype dtype, int32_t ndim, const int64_t *dim)
{
    wf_ref_tensor t = { .n = 1, .ndim = ndim, .dtype = dtype };
    for (int32_t i = 0; i < ndim; i++)
        t.n *= t.dim[i] = dim[i];
    t.d = ref_doubles(p, t.n);
    memset(t.d, 0, (size_t)t.n * sizeof *t.d);
    return t;
}

/* v as an element of that type. Whole numbers wrap as the kernels' do. */
static inline double ref_round(wf_dtype t, double v)
{
    uint64_t bits = 0;
    if (wfi_dtype_is_int(t))
        wfi_dtype_store_i64(t, &bits, 0, wfi_f64_to_i64(v));
    else
        wfi_dtype_store(t, &bits, 0, v);
    return wfi_dtype_load(t, &bits, 0);
}

static inline void ref_load(wf_ref_tensor *t, const void *bytes)
{
    for (int64_t i = 0; i < t->n; i++)
        t->d[i] = wfi_dtype_load(t->dtype, bytes, i);
}

/* ---- one operator ---- */

typedef struct ref_env {
    wf_ctx *ctx; /* where lowerings are recorded; no step is open in it */
    ref_pool pool;
    bool rounded;
    char err[WFI_AXIS_ERR];
} ref_env;

/* A recorded program: records, and which of them are results. */
typedef struct ref_program {
    wfi_rec *rec;
    double *number; /* of CONST and SCALAR records */
    uint32_t n, nin, nout;
    uint32_t out[REF_IN * 3];
} ref_program;

static inline void ref_program_free(ref_program *p)
{
    free(p->rec);
    free(p->number);
    p->rec = NULL;
    p->number = NULL;
}

static inline bool ref_op(ref_env *e, uint32_t op, const void *attr, int nin, const wf_ref_tensor *in,
                          wf_ref_tensor *out);
static inline bool ref_run(ref_env *e, const ref_program *p, const wf_ref_tensor *in, wf_ref_tensor *out);

/* Shapes and types of the results; false: e->err. */
static inline bool ref_infer(ref_env *e, uint32_t op, const void *attr, int nin, const wf_ref_tensor *in,
                             wfi_axis_inst *x, wf_ref_tensor *out)
{
    const wfi_op_info *o = &wfi_op_table[op];
    wfi_axis_shape shape[REF_IN];
    wf_dtype dtype[REF_IN], result[REF_OUT];
    assert_true(nin <= REF_IN);
    for (int i = 0; i < nin; i++) {
        dtype[i] = in[i].d ? in[i].dtype : WF_DTYPE_NONE;
        shape[i] = (wfi_axis_shape){ .dtype = wf_dtype_name(dtype[i]), .ndim = in[i].d ? in[i].ndim : -1 };
        memcpy(shape[i].dim, in[i].dim, sizeof shape[i].dim);
    }
    if (!wfi_op_types(o, attr, nin, dtype, result, e->err, sizeof e->err) ||
        !wfi_op_bind(o, attr, nin, shape, dtype, NULL, x, e->err, sizeof e->err))
        return false;
    for (int k = 0; k < o->nout; k++) {
        wf_dims d = wfi_axis_result(x, k);
        out[k] = ref_new(&e->pool, result[k], d.n, d.d);
    }
    return true;
}

/* Takes what was recorded in the open capture. */
static inline void ref_take(wf_ctx *c, ref_program *p)
{
    p->n = c->r.n;
    p->rec = malloc(((size_t)p->n + 1) * sizeof *p->rec);
    p->number = calloc((size_t)p->n + 1, sizeof *p->number);
    assert_true(p->rec && p->number);
    memcpy(p->rec, c->r.scratch, p->n * sizeof *p->rec);
    for (uint32_t i = 0; i < p->n; i++) {
        uint32_t ev = WFI_KEY_OP(p->rec[i].key);
        if (ev == WFI_EV_CONST)
            p->number[i] = *(const double *)wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(p->rec[i].key));
        else if (ev == WFI_EV_SCALAR)
            p->number[i] = wfi_dtype_load(wfi_type_at(&c->ids, p->rec[i].type)->dtype, &c->r.H[i]->u.imm, 0);
    }
}

typedef void ref_build(wf_ctx *c, wf_tensor *const *in, wf_tensor **out, void *user);

/* Records what `build` does with operands like in[nin]. False: an error is pending, its text is in e->err. */
static inline bool ref_record(ref_env *e, ref_build *build, void *user, int nin, const wf_ref_tensor *in, int nout,
                              ref_program *p)
{
    wf_ctx *c = e->ctx;
    wfi_aside a = { .open = false };
    wf_tensor *h[REF_IN] = { NULL }, *out[REF_IN * 3] = { NULL };
    bool ok = wfi_capture_begin(c, &a, "reference", "refeval.h:1");
    *p = (ref_program){ .nin = (uint32_t)nin, .nout = (uint32_t)nout };
    for (int i = 0; ok && i < nin; i++)
        if (in[i].d)
            ok = (h[i] = wfi_capture_input(c, wfi_ids_type(&c->ids, in[i].dtype, in[i].ndim, in[i].dim),
                                           "refeval.h:2")) != NULL;
    if (ok)
        build(c, h, out, user);
    for (int k = 0; ok && c->status == WF_OK && k < nout; k++) {
        if (!out[k])
            fail_msg("a lowering left result %d at NULL", k);
        p->out[k] = wfi_emit_bind(c, out[k], WF_F32, "refeval.h:3");
    }
    ok = ok && c->status == WF_OK;
    if (ok)
        ref_take(c, p);
    wfi_capture_end(c, &a);
    if (!ok) {
        snprintf(e->err, sizeof e->err, "%s", wf_error(c) ? wf_error(c) : "?");
        wf_error_clear(c);
    }
    return ok;
}

typedef struct ref_lowering {
    const wfi_op_info *op;
    const void *attr;
    int nin;
} ref_lowering;

static inline void ref_lower(wf_ctx *c, wf_tensor *const *in, wf_tensor **out, void *user)
{
    const ref_lowering *l = user;
    (void)c;
    wf_args v = { .in = in, .nin = l->nin, .a = l->attr, .site = "refeval.h:4", .out = out };
    out[0] = l->op->def->lower(&v);
}

static inline void ref_settle(const ref_env *e, wf_ref_tensor *t, bool from_float)
{
    bool real = wfi_dtype_is_float(t->dtype);
    if (real && !e->rounded)
        return;
    for (int64_t i = 0; i < t->n; i++) {
        if (!real && from_float) { /* a cast: out of range gives the nearest */
            uint64_t bits = 0;
            wfi_dtype_store(t->dtype, &bits, 0, t->d[i]);
            t->d[i] = wfi_dtype_load(t->dtype, &bits, 0);
        } else
            t->d[i] = ref_round(t->dtype, t->d[i]);
    }
}

/* out[nout] is allocated from the pool. False: the operator refuses, e->err says why. */
static inline bool ref_op(ref_env *e, uint32_t op, const void *attr, int nin, const wf_ref_tensor *in,
                          wf_ref_tensor *out)
{
    const wfi_op_info *o = &wfi_op_table[op];
    static const wfi_attrs none;
    wfi_axis_inst x;
    if (!attr)
        attr = &none;
    if (!ref_infer(e, op, attr, nin, in, &x, out))
        return false;
    if (o->def->lower) {
        ref_program p;
        ref_lowering l = { o, attr, nin };
        wf_ref_tensor got[REF_OUT];
        bool ok = ref_record(e, ref_lower, &l, nin, in, o->nout, &p);
        if (ok) {
            bool rounded = e->rounded; /* inside of a composite nothing is rounded: kernels do it their way */
            e->rounded = false;
            ok = ref_run(e, &p, in, got);
            e->rounded = rounded;
            ref_program_free(&p);
        }
        for (int k = 0; ok && k < o->nout; k++) {
            if (got[k].ndim != out[k].ndim ||
                memcmp(got[k].dim, out[k].dim, (size_t)out[k].ndim * sizeof *out[k].dim) ||
                got[k].dtype != out[k].dtype)
                fail_msg("%s: result %d of the lowering has another type than the map says", o->name, k);
            out[k] = got[k];
            ref_settle(e, &out[k], false);
        }
        return ok;
    }
    wf_ref r = { .in = in, .out = out, .nin = nin, .nout = o->nout, .a = attr, .x = &x };
    o->def->ref(&r);
    for (int k = 0; k < o->nout; k++)
        ref_settle(e, &out[k], op == WFI_OP_cast && wfi_dtype_is_float(in[0].dtype));
    return true;
}

static inline wf_ref_tensor ref_number(ref_env *e, uint32_t type, double v)
{
    wf_ref_tensor t = ref_new(&e->pool, wfi_type_at(&e->ctx->ids, type)->dtype, 0, NULL);
    t.d[0] = v;
    ref_settle(e, &t, false);
    return t;
}

/* Runs a recorded program on in[p->nin]; out[p->nout]. */
static inline bool ref_run(ref_env *e, const ref_program *p, const wf_ref_tensor *in, wf_ref_tensor *out)
{
    wf_ref_tensor *v = calloc((size_t)p->n + REF_OUT + 1, sizeof *v);
    uint32_t used = 0;
    bool ok = v != NULL;
    for (uint32_t i = 0; ok && i < p->n; i++) {
        const wfi_rec *r = &p->rec[i];
        uint32_t op = WFI_KEY_OP(r->key), at[REF_IN];
        if (op < WFI_OP_COUNT) {
            wf_ref_tensor arg[REF_IN], res[REF_OUT];
            uint32_t n = wfi_run_operands(p->rec, i, at);
            for (uint32_t k = 0; k < n; k++)
                arg[k] = at[k] == WFI_NONE ? (wf_ref_tensor){ .d = NULL } : v[at[k]];
            ok = ref_op(e, op, wfi_attr_data(&e->ctx->ids, WFI_KEY_PAYLOAD(r->key)), (int)n, arg, res);
            for (uint32_t k = 0; ok && k < wfi_op_table[op].nout; k++)
                v[i + k] = res[k];
        } else if (op == WFI_EV_INPUT) {
            while (used < p->nin && !in[used].d)
                used++;
            assert_true(used < p->nin);
            v[i] = in[used++];
        } else if (op == WFI_EV_CONST || op == WFI_EV_SCALAR)
            v[i] = ref_number(e, r->type, p->number[i]);
    }
    for (uint32_t k = 0; ok && k < p->nout; k++)
        out[k] = v[p->out[k]];
    free(v);
    return ok;
}

/* ---- samples ---- */

typedef struct operand {
    wf_dtype dtype;
    int32_t ndim;
    int64_t dim[WF_RANK_MAX];
    int64_t modulo; /* > 0: whole numbers below it */
    double lo, hi;
    bool range; /* lo and hi were given */
} operand;

/* "f32[2,3]=-1..1 i64[4]%5 axis=1" -> operands, and the words after them. */
static inline int sample_operands(const char *text, operand *o, char *rest, size_t bytes)
{
    char copy[512], *save = NULL;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", text);
    *rest = 0;
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *b = strchr(w, '['), *eq = strchr(w, '=');
        if (!b || (eq && eq < b)) {
            snprintf(rest + strlen(rest), bytes - strlen(rest), "%s ", w);
            continue;
        }
        *b++ = 0;
        o[n] = (operand){ .dtype = wf_dtype_of(w) };
        for (char *e; *b && *b != ']'; b = *e == ',' ? e + 1 : e)
            o[n].dim[o[n].ndim++] = strtoll(b, &e, 10);
        if (b[1] == '%')
            o[n].modulo = strtoll(b + 2, NULL, 10);
        else if (b[1] == '=') {
            char *e;
            o[n].lo = strtod(b + 2, &e);
            if (e[0] != '.' || e[1] != '.') /* "1..9": strtod takes the first point */
                e--;
            while (*e == '.')
                e++;
            o[n].hi = strtod(e, NULL);
            o[n].range = true;
        }
        n++;
    }
    return n;
}

static inline int64_t operand_elements(const operand *o)
{
    int64_t n = 1;
    for (int32_t i = 0; i < o->ndim; i++)
        n *= o->dim[i];
    return n;
}

static inline double operand_value(const operand *o, rng *r)
{
    double lo = o->range ? o->lo : -2, hi = o->range ? o->hi : 2;
    if (o->modulo > 0)
        return (double)rng_below(r, o->modulo);
    if (o->dtype == WF_BOOL)
        return (double)rng_below(r, 2);
    if (wfi_dtype_is_float(o->dtype))
        return ref_round(o->dtype, lo + (hi - lo) * rng_unit(r));
    if (!o->range) {
        lo = -9;
        hi = 9;
    }
    if (o->dtype == WF_U8 && lo < 0)
        lo = 0;
    return floor(lo + (hi - lo + 1) * rng_unit(r) * (1 - 1e-9));
}

static inline void *operand_fill(const operand *o, rng *r)
{
    int64_t n = operand_elements(o);
    char *p = calloc((size_t)(n ? n : 1), 8);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        wfi_dtype_store(o->dtype, p, i, operand_value(o, r));
    return p;
}

/* ---- classes of element types ---- */

static inline bool class_holds(int cls, wf_dtype t)
{
    switch (cls) {
    case WFI_T_FLOAT: return t == WF_F64 || t == WF_F32 || t == WF_BF16 || t == WF_F16;
    case WFI_T_NUM: return t <= WF_U8;
    case WFI_T_INT: return t == WF_I64 || t == WF_I32; /* indices */
    case WFI_T_ALL: return t <= WF_BOOL;
    case WFI_T_ANY: return true;
    case WFI_T_WIDE: return t == WF_F64 || t == WF_F32;
    default: return false;
    }
}

static inline int class_of(const wfi_op_info *op, int i)
{
    return op->tin[1] == WFI_T_END || (op->flags & WFI_OP_MANY) ? op->tin[0] : op->tin[i < 8 ? i : 7];
}

/* ---- comparisons ---- */

static inline bool same_element(wf_dtype t, const void *a, const void *b, int64_t i)
{
    size_t each = wf_dtype_bytes(t);
    if (!memcmp((const char *)a + (size_t)i * each, (const char *)b + (size_t)i * each, each))
        return true;
    double x = wfi_dtype_load(t, a, i), y = wfi_dtype_load(t, b, i);
    return wfi_dtype_is_float(t) && isnan(x) && isnan(y);
}

/* The first of n elements that differs in its bits (NaN equals NaN); -1: none. */
static inline int64_t first_difference(wf_dtype t, int64_t n, const void *a, const void *b)
{
    if (!memcmp(a, b, (size_t)n * wf_dtype_bytes(t)))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (!same_element(t, a, b, i))
            return i;
    return -1;
}

/* The first element that is further than tol * max(1, |want|) from what was wanted; -1: none. */
static inline int64_t first_outside(const wf_ref_tensor *want, const void *got, double tol)
{
    double big = wfi_dtype_is_float(want->dtype) ? ref_round(want->dtype, 1e300) : 0;
    (void)big;
    for (int64_t i = 0; i < want->n; i++) {
        double w = want->d[i], g = wfi_dtype_load(want->dtype, got, i), m = fabs(w) > 1 ? fabs(w) : 1;
        if (w == g || (isnan(w) && isnan(g)))
            continue;
        if (!(fabs(w - g) <= tol * m))
            return i;
    }
    return -1;
}

#endif
