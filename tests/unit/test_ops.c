/* Every operator on every sample: the reference in doubles, eager, lazy (first sight and two replays), captured, on one
 * to three threads, for the element types that apply, on operands in every layout, with sizes of zero, and first and
 * second gradients against finite differences. Modes and threads must agree bit for bit.
 *
 *     test_ops [NAME]     only operators whose name contains NAME
 *
 * Tolerances against the reference, relative to max(1, |value|): f64 1e-11, f32 3e-5, f16 6e-3, bf16 4e-2, or what the
 * sample says; whole numbers, truth values and what only moves elements are exact. */
#include "refeval.h"

typedef struct sample {
    const char *op, *text;
    bool large; /* ours: sizes that are split over threads; no finite differences */
} sample;
static const sample samples[] = {
#define WFI_SAMPLE(op, text) { #op, text, false },
#include "samples.inc"
#undef WFI_SAMPLE
#include "large_samples.inc"
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static const char *only = ""; /* part of an operator's name */

/* ---- one operator with its operands ---- */

typedef struct cell {
    const char *name, *text;
    const wfi_op_info *op;
    wfi_op id;
    wfi_attrs a;
    int nin, nout;
    operand in[REF_IN];
    void *data[3][REF_IN]; /* sets A, B, and A with one value along the first axis of real operands; NULL: not given */
    wf_ref_tensor out[REF_OUT]; /* types; d unused */
    double tol;                 /* < 0: by type */
    bool own_type, large;
    int index;
} cell;

static void cell_free(cell *k)
{
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < REF_IN; i++)
            free(k->data[s][i]);
    memset(k->data, 0, sizeof k->data);
}

static void die(const cell *k, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void die(const cell *k, const char *format, ...)
{
    char text[1024], types[128] = "";
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    for (int i = 0; i < k->nin && i < 8; i++)
        snprintf(types + strlen(types), sizeof types - strlen(types), " %s", wf_dtype_name(k->in[i].dtype));
    fail_msg("%s, sample %s (as%s): %s", k->name, k->text, types, text);
    abort();
}

/* ---- contexts: each mode with one, two and three threads ---- */

static wf_ctx *eager[3], *lazy[3];
static ref_env env;

static void open_all(void)
{
    for (int t = 0; t < 3; t++) {
        eager[t] = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_EAGER, .threads = t + 1 });
        lazy[t] = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = t + 1 });
        assert_true(eager[t] && lazy[t]);
    }
    env.ctx = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 1 });
    assert_non_null(env.ctx);
}
static void close_all(void)
{
    for (int t = 0; t < 3; t++) {
        assert_int_equal(wf_ctx_close(eager[t]), WF_OK);
        assert_int_equal(wf_ctx_close(lazy[t]), WF_OK);
    }
    assert_int_equal(wf_ctx_close(env.ctx), WF_OK);
    ref_cut(&env.pool, NULL);
}

/* ---- types ---- */

/* The first operand whose class leaves a choice gets type t, and all others of that class. `follow`: other real
 * operands become f64 beside f64, else f32. */
static bool retype(cell *k, wf_dtype t, bool follow)
{
    int lead = 0;
    while (lead < k->nin && (class_of(k->op, lead) >= WFI_T_EXACT || class_of(k->op, lead) == WFI_T_BOOL))
        lead++;
    if (lead == k->nin || !class_holds(class_of(k->op, lead), t))
        return false;
    for (int i = 0; i < k->nin; i++) {
        if (!k->in[i].dtype)
            continue;
        if (class_of(k->op, i) == class_of(k->op, lead))
            k->in[i].dtype = t;
        else if (follow && class_of(k->op, i) < WFI_T_EXACT && (k->in[i].dtype == WF_F32 || k->in[i].dtype == WF_F64))
            k->in[i].dtype = t == WF_F64 ? WF_F64 : WF_F32;
    }
    return true;
}

static wf_ref_tensor tensor_of(const cell *k, int set, int i)
{
    if (!k->in[i].dtype)
        return (wf_ref_tensor){ .d = NULL };
    wf_ref_tensor t = ref_new(&env.pool, k->in[i].dtype, k->in[i].ndim, k->in[i].dim);
    if (k->data[set][i])
        ref_load(&t, k->data[set][i]);
    return t;
}

static bool bind(cell *k)
{
    wf_ref_tensor in[REF_IN];
    wfi_axis_inst x;
    ref_block *mark = env.pool.head;
    for (int i = 0; i < k->nin; i++)
        in[i] = tensor_of(k, 0, i);
    bool ok = ref_infer(&env, k->id, &k->a, k->nin, in, &x, k->out);
    ref_cut(&env.pool, mark);
    return ok;
}

static void store(cell *k, int set, int i, const wf_ref_tensor *t)
{
    for (int64_t j = 0; j < t->n; j++)
        wfi_dtype_store(k->in[i].dtype, k->data[set][i], j, t->d[j]);
}

/* Operands that are results of other operators must fit to their neighbours. */
static void fit_operands(cell *k, int set)
{
    ref_block *mark = env.pool.head;
    wf_ref_tensor in[REF_IN], out[REF_OUT];
    for (int i = 0; i < k->nin; i++)
        in[i] = tensor_of(k, set, i);
    if (k->id == WFI_OP_extreme_grad) { /* y is the maximum */
        wfi_attr_max a = { .axes = k->a.extreme_grad.axes, .keep = k->a.extreme_grad.keep };
        assert_true(ref_op(&env, WFI_OP_max, &a, 1, in, out));
        store(k, set, 1, &out[0]);
    }
    if (k->id == WFI_OP_attention_grad) { /* stats of the forward pass: lse, and the sum of dy * y */
        wfi_attr_attention a = { .scale = k->a.attention_grad.scale, .causal = k->a.attention_grad.causal };
        wf_ref_tensor four[4] = { in[0], in[1], in[2], { .d = NULL } };
        if (!ref_op(&env, WFI_OP_attention, &a, 4, four, out))
            die(k, "%s", env.err);
        int64_t d = out[0].dim[out[0].ndim - 1];
        for (int64_t r = 0; r < out[1].n; r++) {
            in[3].d[2 * r] = out[1].d[r];
            in[3].d[2 * r + 1] = 0;
            for (int64_t j = 0; j < d; j++)
                in[3].d[2 * r + 1] += in[4].d[r * d + j] * out[0].d[r * d + j];
        }
        store(k, set, 3, &in[3]);
    }
    ref_cut(&env.pool, mark);
}

static void fill(cell *k, uint64_t seed)
{
    rng r = { seed };
    for (int set = 0; set < 2; set++)
        for (int i = 0; i < k->nin; i++)
            if (k->in[i].dtype)
                k->data[set][i] = operand_fill(&k->in[i], &r);
    for (int i = 0; i < k->nin; i++) {
        if (!k->in[i].dtype)
            continue;
        int64_t n = operand_elements(&k->in[i]), rows = k->in[i].ndim ? k->in[i].dim[0] : 1;
        size_t each = wf_dtype_bytes(k->in[i].dtype), bytes = (size_t)n * each;
        char *p = calloc(bytes + 8, 1);
        assert_non_null(p);
        memcpy(p, k->data[0][i], bytes);
        for (int64_t row = 1; row < rows && !k->in[i].modulo; row++)
            memcpy(p + bytes / (size_t)rows * (size_t)row, p, bytes / (size_t)rows);
        k->data[2][i] = p;
    }
    for (int set = 0; set < 3; set++)
        fit_operands(k, set);
}

static double tolerance(const cell *k, wf_dtype out)
{
    if (!wfi_dtype_is_float(out) || (k->op->flags & WFI_OP_MOVE && k->id != WFI_OP_cast))
        return 0;
    if (k->tol >= 0 && k->own_type)
        return k->tol;
    wf_dtype t = out;
    for (int i = 0; i < k->nin; i++) /* narrow operands make narrow intermediate results */
        if (k->in[i].dtype == WF_BF16 || k->in[i].dtype == WF_F16)
            t = k->in[i].dtype;
    if (k->id == WFI_OP_attention_grad && t == WF_F64) /* stats are f32 */
        return 1e-5;
    return t == WF_F64 ? 1e-11 : t == WF_F32 ? 3e-5 : t == WF_F16 ? 6e-3 : 4e-2;
}

/* Sample i as a cell with element type t (WF_DTYPE_NONE: as it stands). False: that type does not apply. */
static bool make(cell *k, int i, wf_dtype t)
{
    char rest[256], unknown[128], err[WFI_AXIS_ERR];
    for (int follow = 0; follow < 2; follow++) {
        memset(k, 0, sizeof *k);
        k->name = samples[i].op;
        k->text = samples[i].text;
        k->large = samples[i].large;
        k->index = i;
        k->id = (wfi_op)wfi_op_find(samples[i].op);
        k->op = &wfi_op_table[k->id];
        k->nout = k->op->nout;
        k->nin = sample_operands(samples[i].text, k->in, rest, sizeof rest);
        for (int j = k->nin; j < k->op->nin_max && !(k->op->flags & WFI_OP_MANY); j++)
            k->in[k->nin++] = (operand){ .dtype = WF_DTYPE_NONE };
        if (!wfi_op_attr_parse(k->op, rest, &k->a, unknown, sizeof unknown, err, sizeof err))
            die(k, "%s", err);
        k->tol = strncmp(unknown, "tol=", 4) ? -1 : strtod(unknown + 4, NULL);
        k->own_type = true;
        wf_dtype was = k->in[0].dtype;
        if (t) {
            if (!k->nin || !retype(k, t, follow))
                return false;
            k->own_type = k->in[0].dtype == was;
        }
        if (bind(k))
            break;
        if (!t)
            die(k, "%s", env.err);
        if (follow)
            return false;
    }
    return true;
}

/* ---- running ---- */

typedef enum layout { PLAIN, TURNED, STRIDED, FLIPPED, SHIFTED, SPREAD, LAYOUTS } layout;
static const char *const layout_name[] = { "contiguous", "transposed", "strided", "flipped", "shifted", "broadcast" };

static void axis_dims(const operand *o, wf_dims *d)
{
    *d = (wf_dims){ .n = o->ndim };
    memcpy(d->d, o->dim, sizeof d->d);
}

/* Copies data (dims d) to where[index map] by walking all positions: to[at(position)] = from[position]. */
static void scatter_copy(const wf_dims *d, size_t each, const char *from, char *to, const int64_t *stride, int64_t off)
{
    int64_t at[WF_RANK_MAX] = { 0 }, n = 1;
    for (int32_t i = 0; i < d->n; i++)
        n *= d->d[i];
    for (int64_t e = 0; e < n; e++) {
        int64_t p = off;
        for (int32_t i = 0; i < d->n; i++)
            p += at[i] * stride[i];
        memcpy(to + (size_t)p * each, from + (size_t)e * each, each);
        for (int32_t i = d->n - 1; i >= 0 && ++at[i] == d->d[i]; i--)
            at[i] = 0;
    }
}

static wf_tensor *leaf(wf_ctx *c, const cell *k, int set, int i, layout how)
{
    const operand *o = &k->in[i];
    wf_dims d, e;
    axis_dims(o, &d);
    const char *from = k->data[set][i];
    int64_t n = operand_elements(o), stride[WF_RANK_MAX], off = 0;
    size_t each = wf_dtype_bytes(o->dtype);
    if (how == PLAIN || o->ndim == 0 || n == 0)
        return wf_tensor_from(c, o->dtype, d, from);
    wf_dims axes = { .n = d.n, .d = { 0 } };
    e = d;
    int64_t total = 1;
    int32_t last = d.n - 1;
    if (how == TURNED)
        for (int32_t j = 0; j < d.n; j++) {
            e.d[j] = d.d[last - j];
            axes.d[j] = last - j;
        }
    if (how == STRIDED)
        e.d[last] = 2 * d.d[last] + 1;
    if (how == SHIFTED)
        e.d[0] = d.d[0] + 2;
    if (how == SPREAD && !o->modulo)
        e.d[0] = 1;
    for (int32_t j = last; j >= 0; j--) {
        stride[j] = total;
        total *= e.d[j];
        axes.d[j] = how == TURNED ? last - j : j;
    }
    if (how == TURNED)
        for (int32_t j = 0; j < d.n / 2; j++) {
            int64_t s = stride[j];
            stride[j] = stride[last - j];
            stride[last - j] = s;
        }
    if (how == STRIDED) {
        stride[last] = 2;
        off = 1;
    }
    if (how == SHIFTED)
        off = stride[0];
    if (how == FLIPPED)
        for (int32_t j = 0; j < d.n; j++) {
            off += stride[j] * (d.d[j] - 1);
            stride[j] = -stride[j];
        }
    char *p = malloc((size_t)total * each + 1);
    assert_non_null(p);
    memset(p, o->dtype == WF_BOOL ? 1 : 0xff, (size_t)total * each); /* what must not be read: NaN, -1 */
    wf_dims walk = d;
    if (how == SPREAD && !o->modulo)
        walk.d[0] = 1;
    scatter_copy(&walk, each, from, p, stride, off);
    wf_tensor *t = wf_tensor_from(c, o->dtype, e, p);
    free(p);
    switch (how) {
    case TURNED: return wf_permute(t, axes);
    case STRIDED: return wf_slice(t, -1, 1, d.d[last], .step = 2);
    case FLIPPED: return wf_flip(t, axes);
    case SHIFTED: return wf_slice(t, 0, 1, d.d[0]);
    case SPREAD: return o->modulo ? t : wf_broadcast_to(t, d);
    default: return t;
    }
}

typedef struct results {
    int n;
    wf_dtype dtype[3 * REF_IN];
    int64_t elements[3 * REF_IN];
    void *data[3 * REF_IN];
} results;
static void results_free(results *r)
{
    for (int i = 0; i < r->n; i++)
        free(r->data[i]);
    r->n = 0;
}

static void fetch(wf_ctx *c, const cell *k, int n, wf_tensor **t, results *r)
{
    r->n = 0;
    for (int i = 0; i < n; i++) {
        wf_dims d = wf_tensor_dims(t[i]);
        int64_t e = 1;
        for (int32_t j = 0; j < d.n; j++)
            e *= d.d[j];
        r->dtype[i] = wf_tensor_dtype(t[i]);
        r->elements[i] = e;
        size_t bytes = (size_t)e * wf_dtype_bytes(r->dtype[i]);
        r->data[i] = malloc(bytes + 1);
        assert_non_null(r->data[i]);
        r->n = i + 1;
        if (wf_read(c, t[i], r->data[i], bytes) != WF_OK)
            die(k, "reading a result: %s", wf_error(c));
    }
}

typedef void program(wf_ctx *c, wf_tensor *const *in, wf_tensor **out, void *user); /* a ref_build */

static void forward(wf_ctx *c, wf_tensor *const *in, wf_tensor **out, void *user)
{
    const cell *k = user;
    wfi_emit_n(c, k->id, k->op->attr_bytes ? &k->a : NULL, k->op->attr_bytes, k->nin, in, k->nout, out, WF_SITE);
}

/* One step. False: an error is pending. */
static bool step(wf_ctx *c, cell *k, int set, layout how, program *build, int nout, results *r)
{
    wf_tensor *in[REF_IN] = { NULL }, *out[3 * REF_IN] = { NULL };
    wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
    for (int i = 0; i < k->nin; i++)
        if (k->in[i].dtype)
            in[i] = leaf(c, k, set, i, how);
    build(c, in, out, k);
    for (int i = 0; i < nout; i++)
        out[i] = wf_scope_return(c, s, out[i]);
    bool ok = wf_scope_end(c, s) == WF_OK;
    if (ok)
        fetch(c, k, nout, out, r);
    wf_scope_end(c, around);
    return ok;
}

static void must_step(wf_ctx *c, cell *k, int set, layout how, program *build, int nout, results *r, const char *what)
{
    if (!step(c, k, set, how, build, nout, r))
        die(k, "%s, %s operands: %s", what, layout_name[how], wf_error(c));
}

static void must_equal(const cell *k, const results *want, const results *got, const char *what)
{
    if (want->n != got->n)
        die(k, "%s: %d results, %d were wanted", what, got->n, want->n);
    for (int i = 0; i < want->n; i++) {
        if (want->dtype[i] != got->dtype[i] || want->elements[i] != got->elements[i])
            die(k, "%s: result %d is %s[%lld], eager gave %s[%lld]", what, i, wf_dtype_name(got->dtype[i]),
                (long long)got->elements[i], wf_dtype_name(want->dtype[i]), (long long)want->elements[i]);
        int64_t e = first_difference(want->dtype[i], want->elements[i], want->data[i], got->data[i]);
        if (e >= 0)
            die(k, "%s: result %d, element %lld is %.17g; eager on one thread gave %.17g", what, i, (long long)e,
                wfi_dtype_load(got->dtype[i], got->data[i], e), wfi_dtype_load(want->dtype[i], want->data[i], e));
    }
}

typedef struct captured {
    cell *k;
    program *build;
} captured;
static bool capture_body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    const captured *b = user;
    wf_tensor *all[REF_IN] = { NULL };
    for (int i = 0, n = 0; i < b->k->nin; i++)
        if (b->k->in[i].dtype)
            all[i] = in[n++];
    b->build(c, all, out, b->k);
    return wf_error_status(c) == WF_OK;
}

static void run_captured(wf_ctx *c, cell *k, program *build, int nout, const results *want, const results *want_b,
                         const char *what)
{
    captured b = { k, build };
    wf_fn *f = NULL;
    for (int round = 0; round < 3; round++) {
        wf_tensor *in[REF_IN], *out[3 * REF_IN] = { NULL };
        int n = 0;
        results r;
        wf_scope around = wf_scope_begin(c, "around", .group = true);
        for (int i = 0; i < k->nin; i++)
            if (k->in[i].dtype)
                in[n++] = leaf(c, k, round == 2, i, PLAIN);
        if (!f && !(f = wf_capture(c, capture_body, &b, n, in, nout)))
            die(k, "%s: %s", what, wf_error(c));
        if (wf_fn_call(f, in, out) != WF_OK)
            die(k, "%s, call %d: %s", what, round, wf_error(c));
        fetch(c, k, nout, out, &r);
        must_equal(k, round == 2 ? want_b : want, &r, what);
        results_free(&r);
        wf_scope_end(c, around);
    }
}

/* Eager on one thread is the yardstick: every other mode must give its bits. */
static void run_modes(cell *k, program *build, int nout, results *a)
{
    results b, r;
    static const char *const n[] = { "1 thread", "2 threads", "3 threads" };
    char what[64];
    must_step(eager[0], k, 0, PLAIN, build, nout, a, "eager");
    must_step(eager[0], k, 1, PLAIN, build, nout, &b, "eager");
    for (int t = 1; t < 3; t++) {
        snprintf(what, sizeof what, "eager, %s", n[t]);
        must_step(eager[t], k, 0, PLAIN, build, nout, &r, what);
        must_equal(k, a, &r, what);
        results_free(&r);
    }
    for (int t = 0; t < 3; t++) {
        if (t && !k->large && k->index % 2 != t - 1) /* small ones: a fixed pattern of thread counts */
            continue;
        for (int round = 0; round < 3; round++) {
            snprintf(what, sizeof what, "lazy, %s, step %d", n[t], round + 1);
            must_step(lazy[t], k, round == 2, PLAIN, build, nout, &r, what);
            must_equal(k, round == 2 ? &b : a, &r, what);
            results_free(&r);
        }
    }
    int t = k->index % 3;
    snprintf(what, sizeof what, "captured in a lazy context, %s", n[t]);
    run_captured(lazy[t], k, build, nout, a, &b, what);
    snprintf(what, sizeof what, "captured in an eager context, %s", n[(t + 1) % 3]);
    run_captured(eager[(t + 1) % 3], k, build, nout, a, &b, what);
    results_free(&b);
}

static void run_layouts(cell *k, const results *plain)
{
    results spread, r;
    must_step(eager[0], k, 2, PLAIN, forward, k->nout, &spread, "eager");
    for (int how = TURNED; how < LAYOUTS; how++) {
        int set = how == SPREAD ? 2 : 0;
        const results *want = how == SPREAD ? &spread : plain;
        char what[64];
        snprintf(what, sizeof what, "%s operands, eager", layout_name[how]);
        must_step(eager[0], k, set, (layout)how, forward, k->nout, &r, "eager");
        must_equal(k, want, &r, what);
        results_free(&r);
        wf_ctx *c = lazy[k->index % 3];
        for (int round = 0; round < 2 && (how + k->index) % 2 == 0; round++) {
            snprintf(what, sizeof what, "%s operands, lazy, step %d", layout_name[how], round + 1);
            must_step(c, k, set, (layout)how, forward, k->nout, &r, "lazy");
            must_equal(k, want, &r, what);
            results_free(&r);
        }
    }
    results_free(&spread);
}

static void against_reference(cell *k, const results *got)
{
    ref_block *mark = env.pool.head;
    wf_ref_tensor in[REF_IN], out[REF_OUT];
    for (int i = 0; i < k->nin; i++)
        in[i] = tensor_of(k, 0, i);
    env.rounded = true;
    if (!ref_op(&env, k->id, &k->a, k->nin, in, out))
        die(k, "reference: %s", env.err);
    for (int i = 0; i < k->nout; i++) {
        if (out[i].dtype != got->dtype[i] || out[i].n != got->elements[i])
            die(k, "result %d has another type than the operator's map says", i);
        int64_t e = first_outside(&out[i], got->data[i], tolerance(k, out[i].dtype));
        if (e >= 0)
            die(k, "result %d, element %lld is %.17g, the reference gives %.17g", i, (long long)e,
                wfi_dtype_load(out[i].dtype, got->data[i], e), out[i].d[e]);
    }
    ref_cut(&env.pool, mark);
}

static bool chosen(int i)
{
    return strstr(samples[i].op, only) != NULL;
}

static const wf_dtype types[] = { WF_DTYPE_NONE, WF_F64, WF_F32, WF_BF16, WF_F16, WF_I64, WF_I32, WF_U8, WF_BOOL };

/* Each sample in each type: modes, threads, layouts, the reference. */
static void every_sample(void **state)
{
    (void)state;
    int cells = 0;
    cell k;
    open_all();
    for (int i = 0; i < SAMPLES; i++) {
        if (!chosen(i))
            continue;
        wf_dtype own = WF_DTYPE_NONE;
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            if ((samples[i].large && types[t]) || (types[t] && types[t] == own) || !make(&k, i, types[t]))
                continue;
            if (!types[t])
                own = k.in[0].dtype;
            results a;
            fill(&k, (uint64_t)i * 1000 + t);
            run_modes(&k, forward, k.nout, &a);
            against_reference(&k, &a);
            run_layouts(&k, &a);
            results_free(&a);
            cell_free(&k);
            cells++;
        }
    }
    assert_true(cells > 0);
    close_all();
}

/* ---- gradients ---- */

typedef struct gradient {
    cell *k;
    int nwrt;
    int wrt[REF_IN]; /* operands */
    double *weight;  /* random numbers by which results are weighted */
} gradient;
static gradient grad_of;

/* sum of t * fixed random numbers, in the type of t */
static wf_tensor *projected(wf_ctx *c, wf_tensor *t, int salt)
{
    wf_dims d = wf_tensor_dims(t);
    int64_t n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= d.d[i];
    operand o = { .dtype = wf_tensor_dtype(t), .ndim = d.n, .lo = -1, .hi = 1, .range = true };
    memcpy(o.dim, d.d, sizeof o.dim);
    /* the weights come from the numbers 0, 1, ... by arithmetic, so that they need no leaf: sin(i * 1.7 + salt) */
    wf_tensor *w = wf_arange(c, o.dtype, n);
    w = wf_sin(wf_add(wf_mul(w, wf_scalar(c, 1.7)), wf_scalar(c, salt)));
    return wf_sum(wf_mul(t, wf_detach(wf_reshape(w, d))), WF_NO_DIMS);
}

static bool is_real(wf_dtype t)
{
    return t == WF_F64 || t == WF_F32 || t == WF_BF16 || t == WF_F16;
}

/* Results: L, the first gradients, P, the second ones. */
static void differentiate(wf_ctx *c, wf_tensor *const *in, wf_tensor **out, void *user)
{
    cell *k = user;
    wf_tensor *y[REF_OUT] = { NULL }, *wrt[REF_IN], *loss = NULL, *p = NULL;
    int n = grad_of.nwrt;
    forward(c, in, y, k);
    for (int i = 0; i < n; i++)
        wrt[i] = in[grad_of.wrt[i]];
    wf_dtype t = k->in[grad_of.wrt[0]].dtype;
    for (int i = 0; i < k->nout; i++)
        if (y[i] && is_real(wf_tensor_dtype(y[i]))) {
            wf_tensor *s = projected(c, y[i], i + 1);
            s = wf_cast(s, t);
            loss = loss ? wf_add(loss, s) : s;
        }
    out[0] = loss;
    if (wf_grad(loss, n, wrt, out + 1) != WF_OK)
        return;
    for (int i = 0; i < n; i++) {
        wf_tensor *s = wf_cast(projected(c, out[1 + i], 10 + i), t);
        p = p ? wf_add(p, s) : s;
    }
    out[1 + n] = p;
    (void)wf_grad(p, n, wrt, out + 2 + n);
}

/* Does a finite difference by operand i mean anything? */
static bool smooth(const cell *k, int i)
{
    if (k->id == WFI_OP_extreme_grad)
        return i == 2; /* which elements are extreme is a constant */
    return k->id != WFI_OP_gate || i == 0;
}

static void finite_differences(cell *k, const ref_program *p, wf_ref_tensor *in, const wf_ref_tensor *out)
{
    rng r = { (uint64_t)k->index };
    int n = grad_of.nwrt;
    for (int w = 0; w < n; w++) {
        int i = grad_of.wrt[w];
        wf_ref_tensor *x = &in[i];
        for (int64_t probe = 0; smooth(k, i) && probe < (x->n < 8 ? x->n : 8); probe++) {
            int64_t e = x->n <= 8 ? probe : rng_below(&r, x->n);
            double was = x->d[e], h = 1e-5 * (fabs(was) > 1 ? fabs(was) : 1), up[2], down[2];
            wf_ref_tensor *o = calloc(p->nout, sizeof *o);
            assert_non_null(o);
            ref_block *mark = env.pool.head;
            x->d[e] = was + h;
            if (!ref_run(&env, p, in, o))
                die(k, "%s", env.err);
            up[0] = o[0].d[0];
            up[1] = o[1 + n].d[0];
            x->d[e] = was - h;
            ref_run(&env, p, in, o);
            down[0] = o[0].d[0];
            down[1] = o[1 + n].d[0];
            x->d[e] = was;
            free(o);
            ref_cut(&env.pool, mark);
            for (int order = 0; order < 2; order++) {
                double fd = (up[order] - down[order]) / (2 * h), an = out[(order ? 2 + n : 1) + w].d[e];
                if (!isfinite(up[order]) || !isfinite(down[order]))
                    continue; /* a row that sees nothing has the logarithm of 0 */
                double scale = 1 + fabs(an) + 1e-3 * fabs(up[order]);
                if (!(fabs(fd - an) <= 2e-5 * scale))
                    die(k, "%s gradient by operand %d, element %lld (%.9g): the rule gives %.12g, differences %.12g",
                        order ? "second" : "first", i, (long long)e, was, an, fd);
            }
        }
    }
}

static bool gradient_applies(cell *k)
{
    if (k->op->def->nograd || !k->op->def->grad)
        return false;
    grad_of.nwrt = 0;
    bool real = false;
    for (int i = 0; i < k->nout; i++)
        real |= is_real(k->out[i].dtype);
    for (int i = 0; i < k->nin; i++)
        if (k->in[i].dtype && is_real(k->in[i].dtype) && operand_elements(&k->in[i]))
            grad_of.wrt[grad_of.nwrt++] = i;
    return real && grad_of.nwrt > 0;
}

/* Rules against differences, in doubles by the interpreter; the library's f64 against the interpreter; f32 and f64 the
 * same bits in every mode. */
static void gradients(void **state)
{
    (void)state;
    int checked = 0;
    cell k;
    open_all();
    env.rounded = false;
    for (int i = 0; i < SAMPLES; i++)
        for (int wide = 1; wide >= 0; wide--) {
            if (!chosen(i) || samples[i].large || !make(&k, i, wide ? WF_F64 : WF_F32) || !gradient_applies(&k))
                continue;
            int n = grad_of.nwrt, nout = 2 + 2 * n;
            results a;
            fill(&k, (uint64_t)i + 77);
            run_modes(&k, differentiate, nout, &a);
            if (wide) {
                ref_program p;
                wf_ref_tensor in[REF_IN], out[3 * REF_IN];
                double loose = k.id == WFI_OP_attention || k.id == WFI_OP_attention_grad ? 2e-5 : 1e-9;
                if (k.id == WFI_OP_cast && is_real(k.out[0].dtype)) /* results are rounded to a narrow type */
                    loose = k.out[0].dtype == WF_F32 ? 1e-5 : 1;
                for (int j = 0; j < k.nin; j++)
                    in[j] = tensor_of(&k, 0, j);
                if (!ref_record(&env, differentiate, &k, k.nin, in, nout, &p) || !ref_run(&env, &p, in, out))
                    die(&k, "%s", env.err);
                for (int j = 0; j < nout; j++) {
                    int64_t e = first_outside(&out[j], a.data[j], loose);
                    if (e >= 0)
                        die(&k, "gradients, result %d of %d, element %lld is %.15g, the reference gives %.15g", j, nout,
                            (long long)e, wfi_dtype_load(out[j].dtype, a.data[j], e), out[j].d[e]);
                }
                finite_differences(&k, &p, in, out);
                ref_program_free(&p);
                ref_cut(&env.pool, NULL);
                checked++;
            }
            results_free(&a);
            cell_free(&k);
        }
    assert_true(checked > 0 || *only);
    close_all();
}

/* ---- sizes of zero ---- */

/* Each size of a sample becomes 0 wherever it stands: either all modes give the result of the reference, or all of them
 * the same error. */
static void zero_sizes(void **state)
{
    (void)state;
    int empty = 0;
    cell k;
    open_all();
    env.rounded = true;
    for (int i = 0; i < SAMPLES; i++) {
        if (!chosen(i) || samples[i].large || !make(&k, i, WF_DTYPE_NONE))
            continue;
        int64_t size[32];
        int n = 0;
        for (int j = 0; j < k.nin; j++)
            for (int32_t d = 0; d < k.in[j].ndim && n < 32; d++) {
                bool seen = k.in[j].dim[d] == 0;
                for (int s = 0; s < n; s++)
                    seen |= size[s] == k.in[j].dim[d];
                if (!seen)
                    size[n++] = k.in[j].dim[d];
            }
        for (int s = 0; s < n; s++) {
            make(&k, i, WF_DTYPE_NONE);
            for (int j = 0; j < k.nin; j++)
                for (int32_t d = 0; d < k.in[j].ndim; d++)
                    if (k.in[j].dim[d] == size[s])
                        k.in[j].dim[d] = 0;
            if (!bind(&k))
                continue;
            rng r = { (uint64_t)i };
            for (int j = 0; j < k.nin; j++)
                if (k.in[j].dtype)
                    k.data[0][j] = operand_fill(&k.in[j], &r);
            results a, b;
            bool ok = step(eager[1], &k, 0, PLAIN, forward, k.nout, &a);
            char first[512];
            snprintf(first, sizeof first, "%s", ok ? "" : wf_error(eager[1]));
            wf_error_clear(eager[1]);
            for (int round = 0; round < 3; round++) {
                bool same = step(lazy[1], &k, 0, PLAIN, forward, k.nout, &b);
                if (ok != same)
                    die(&k, "size %lld as 0: eager %s, lazy %s (%s)", (long long)size[s], ok ? "runs" : "fails",
                        same ? "runs" : "fails", ok ? wf_error(lazy[1]) : first);
                size_t line = strcspn(first, "\n");
                if (!ok && strncmp(first, wf_error(lazy[1]), line))
                    die(&k, "eager says %s, lazy %s", first, wf_error(lazy[1]));
                if (!ok)
                    wf_error_clear(lazy[1]);
                else {
                    must_equal(&k, &a, &b, "size 0, lazy");
                    results_free(&b);
                }
            }
            if (ok) {
                against_reference(&k, &a);
                results_free(&a);
                empty++;
            }
            cell_free(&k);
        }
        cell_free(&k);
    }
    assert_true(empty > 20 || *only);
    close_all();
}

int main(int argc, char **argv)
{
    if (argc > 1)
        only = argv[1];
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_sample), cmocka_unit_test(gradients),
                                        cmocka_unit_test(zero_sizes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
