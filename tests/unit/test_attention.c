/* Fused attention: against the definition in f64, for every type, mask, layout, thread count and instruction set; on
 * the tile unit of AMX, the real one and emulated. */
#include "layouts.h"
#include "kernel/attention/attention.h"
#include "kernel/gemm/gemm.h"

static const wfi_attention_kernels *const tables[ISAS] = ISA_TABLES(wfi_attention);

enum mask { NO_MASK, BOOL_MASK, FLOAT_MASK };

typedef struct shape {
    int64_t b, h, s, t, e, d;
} shape;

typedef struct trial {
    shape n;
    wf_dtype type;
    bool causal;
    enum mask mask;
    double scale, size; /* size: of the elements of q and k */
    enum layout layout;
} trial;

enum { Q, K, V, DY, MASK, Y, LSE, STATS, DQ, DK, DV, TENSORS };

/* All tensors of one trial, and their values, or what is right, in doubles (row-major). */
typedef struct set_of {
    tensor t[TENSORS];
    double *want[TENSORS];
} set_of;

static wf_dims dims_of(const trial *w, int which)
{
    shape n = w->n;
    switch (which) {
    case Q:
    case DQ: return (wf_dims){ 4, { n.b, n.h, n.s, n.e } };
    case K:
    case DK: return (wf_dims){ 4, { n.b, n.h, n.t, n.e } };
    case V:
    case DV: return (wf_dims){ 4, { n.b, n.h, n.t, n.d } };
    case MASK: return (wf_dims){ 4, { n.b, n.h, n.s, n.t } };
    case LSE: return (wf_dims){ 3, { n.b, n.h, n.s } };
    case STATS: return (wf_dims){ 4, { n.b, n.h, n.s, 2 } };
    default: return (wf_dims){ 4, { n.b, n.h, n.s, n.d } };
    }
}
static wf_dtype type_of(const trial *w, int which)
{
    return which == LSE || which == STATS ? WF_F32
           : which == MASK                ? (w->mask == BOOL_MASK ? WF_BOOL : WF_F32)
                                          : w->type;
}

static set_of make(const trial *w)
{
    set_of x;
    memset(&x, 0, sizeof x);
    for (int i = 0; i < TENSORS; i++) {
        x.t[i] = tensor_new(type_of(w, i), dims_of(w, i), w->layout);
        int64_t n = elements(&x.t[i].v);
        x.want[i] = calloc((size_t)n + 1, sizeof(double));
        assert_non_null(x.want[i]);
        for (int64_t k = 0; i <= MASK && k < n; k++) {
            double v = random_real() * (i == Q || i == K ? w->size : 1);
            if (i == MASK)
                v = w->mask == BOOL_MASK ? random_below(4) > 0 : random_below(5) ? v : -INFINITY;
            set(&x.t[i], k, as_type(type_of(w, i), v));
        }
    }
    return x;
}
static void drop(set_of *x)
{
    for (int i = 0; i < TENSORS; i++) {
        tensor_free(&x->t[i]);
        free(x->want[i]);
    }
}

/* One query: weights over the keys in doubles; false if nothing is seen. */
static bool weights(const trial *w, const set_of *x, int64_t bh, int64_t i, double *p, double *lse)
{
    shape n = w->n;
    double top = -INFINITY, sum = 0, scale = w->scale != 0 ? w->scale : 1 / sqrt((double)(n.e ? n.e : 1));
    for (int64_t j = 0; j < n.t; j++) {
        double s = 0, mask = w->mask ? x->want[MASK][(bh * n.s + i) * n.t + j] : 0;
        for (int64_t c = 0; c < n.e; c++)
            s += x->want[Q][(bh * n.s + i) * n.e + c] * x->want[K][(bh * n.t + j) * n.e + c];
        p[j] = s * scale + (w->mask == BOOL_MASK ? (mask != 0 ? 0 : -INFINITY) : mask);
        if (w->causal && j > i + n.t - n.s)
            p[j] = -INFINITY;
        top = p[j] > top ? p[j] : top;
    }
    for (int64_t j = 0; j < n.t; j++)
        sum += p[j] = top == -INFINITY ? 0 : exp(p[j] - top);
    for (int64_t j = 0; j < n.t; j++)
        p[j] = sum > 0 ? p[j] / sum : 0;
    *lse = top + log(sum);
    return sum > 0;
}

static void define_query(const trial *w, const set_of *x, int64_t bh, int64_t i, double *p)
{
    shape n = w->n;
    int64_t row = bh * n.s + i;
    double *y = x->want[Y] + row * n.d, delta = 0, scale = w->scale != 0 ? w->scale : 1 / sqrt((double)(n.e ? n.e : 1));
    weights(w, x, bh, i, p, &x->want[LSE][row]);
    for (int64_t j = 0; j < n.t; j++)
        for (int64_t c = 0; c < n.d; c++)
            y[c] += p[j] * x->want[V][(bh * n.t + j) * n.d + c];
    for (int64_t c = 0; c < n.d; c++)
        delta += y[c] * x->want[DY][row * n.d + c];
    x->want[STATS][2 * row] = x->want[LSE][row];
    x->want[STATS][2 * row + 1] = delta;
    for (int64_t j = 0; j < n.t; j++) {
        double dp = 0, ds;
        for (int64_t c = 0; c < n.d; c++)
            dp += x->want[DY][row * n.d + c] * x->want[V][(bh * n.t + j) * n.d + c];
        ds = p[j] * (dp - delta) * scale;
        for (int64_t c = 0; c < n.d; c++)
            x->want[DV][(bh * n.t + j) * n.d + c] += p[j] * x->want[DY][row * n.d + c];
        for (int64_t c = 0; c < n.e; c++) {
            x->want[DQ][row * n.e + c] += ds * x->want[K][(bh * n.t + j) * n.e + c];
            x->want[DK][(bh * n.t + j) * n.e + c] += ds * x->want[Q][row * n.e + c];
        }
    }
}
static void define(const trial *w, const set_of *x)
{
    double *p = calloc((size_t)w->n.t + 1, sizeof *p);
    assert_non_null(p);
    for (int i = 0; i <= MASK; i++)
        for (int64_t k = 0; k < elements(&x->t[i].v); k++)
            x->want[i][k] = get(&x->t[i], k);
    for (int64_t bh = 0; bh < w->n.b * w->n.h; bh++)
        for (int64_t i = 0; i < w->n.s; i++)
            define_query(w, x, bh, i, p);
    free(p);
}

/* Both passes; stats from what is right, in f32. */
static void run_on(const wfi_attention_kernels *k, const trial *w, set_of *x, int threads)
{
    const wfi_view *mask = w->mask ? &x->t[MASK].v : NULL;
    wfi_attention_spec s = { .v = { [WFI_ATTN_Q] = &x->t[Q].v,
                                    [WFI_ATTN_K] = &x->t[K].v,
                                    [WFI_ATTN_V] = &x->t[V].v,
                                    [WFI_ATTN_MASK] = mask,
                                    [WFI_ATTN_Y] = &x->t[Y].v,
                                    [WFI_ATTN_LSE] = &x->t[LSE].v },
                             .scale = w->scale,
                             .causal = w->causal,
                             .threads = threads };
    _Alignas(64) char params[WFI_PARAMS_MAX];
    size_t scratch = 0;
    assert_null(k->prepare(&s, params, &scratch));
    tensor *t = x->t;
    run_kernel(k->run, params, (void *[]){ t[Y].at, t[LSE].at, t[Q].at, t[K].at, t[V].at, t[MASK].at }, scratch,
               threads);
    for (int64_t i = 0; i < elements(&t[STATS].v); i++)
        set(&t[STATS], i, x->want[STATS][i]);
    wfi_attention_spec g = { .v = { [WFI_ATTN_Q] = &t[Q].v,
                                    [WFI_ATTN_K] = &t[K].v,
                                    [WFI_ATTN_V] = &t[V].v,
                                    [WFI_ATTN_MASK] = mask,
                                    [WFI_ATTN_STATS] = &t[STATS].v,
                                    [WFI_ATTN_DY] = &t[DY].v,
                                    [WFI_ATTN_DQ] = &t[DQ].v,
                                    [WFI_ATTN_DK] = &t[DK].v,
                                    [WFI_ATTN_DV] = &t[DV].v },
                             .scale = w->scale,
                             .causal = w->causal,
                             .threads = threads };
    assert_null(k->prepare_grad(&g, params, &scratch));
    run_kernel(k->run_grad, params,
               (void *[]){ t[DQ].at, t[DK].at, t[DV].at, t[Q].at, t[K].at, t[V].at, t[STATS].at, t[DY].at, t[MASK].at },
               scratch, threads);
}

static void run(int isa, const trial *w, set_of *x, int threads)
{
    run_on(tables[isa], w, x, threads);
}

/* How far a result may be from the definition: a few roundings of the largest value, and that of the type. */
static double tolerance(const trial *w, int which, double want, double largest, double parts)
{
    (void)parts;
    double f32 = which == LSE ? 2e-6 : 6e-6, type = w->type == WF_BF16 ? 0x1p-8 : w->type == WF_F16 ? 0x1p-11 : 0;
    if (w->type == WF_F64)
        return which == LSE ? 1e-7 * (1 + fabs(want)) : 1e-13 * (1 + largest);
    double size = w->size * w->size * sqrt((double)(w->n.e ? w->n.e : 1)) / 4; /* of the scores: they round too */
    return f32 * (1 + largest) * (1 + size / 8) + (which == LSE ? 0 : type * fabs(want) + (type > 0 ? 1e-7 : 0));
}
typedef double allowed(const trial *w, int which, double want, double largest, double parts);
static void compare_within(const trial *w, const set_of *x, const char *who, int number, allowed *error, double parts)
{
    static const int results[] = { Y, LSE, DQ, DK, DV };
    static const char *const names[] = { "y", "lse", "dq", "dk", "dv" };
    for (int r = 0; r < 5; r++) {
        const tensor *t = &x->t[results[r]];
        const double *want = x->want[results[r]];
        double largest = 0;
        for (int64_t i = 0; i < elements(&t->v); i++)
            largest = isfinite(want[i]) && fabs(want[i]) > largest ? fabs(want[i]) : largest;
        for (int64_t i = 0; i < elements(&t->v); i++) {
            double is = get(t, i);
            if (!same(is, want[i]) && !(fabs(is - want[i]) <= error(w, results[r], want[i], largest, parts)))
                fail_msg("%s %d, type %d, [%d,%d,%d,%d,%d,%d] causal %d mask %d layout %d: %s[%lld] is %.9g, not %.9g",
                         who, number, (int)w->type, (int)w->n.b, (int)w->n.h, (int)w->n.s, (int)w->n.t, (int)w->n.e,
                         (int)w->n.d, w->causal, (int)w->mask, (int)w->layout, names[r], (long long)i, is, want[i]);
        }
    }
}
static void compare(const trial *w, const set_of *x, int isa)
{
    compare_within(w, x, "isa", isa, tolerance, 0);
}
static void check_guards(set_of *x)
{
    for (int i = Y; i < TENSORS; i++)
        check_guard(&x->t[i]);
}

static void check(const trial *w)
{
    set_of x = make(w);
    define(w, &x);
    for (int isa = 0; isa < ISAS; isa++)
        if (has_isa(isa)) {
            run(isa, w, &x, 1 + isa % 3);
            compare(w, &x, isa);
        }
    check_guards(&x);
    drop(&x);
}

/* ---- tests ---- */

static const shape shapes[] = {
    { 1, 1, 1, 1, 1, 1 },     { 1, 2, 5, 7, 8, 4 },       { 2, 1, 7, 5, 3, 9 },       { 1, 1, 33, 31, 16, 16 },
    { 1, 1, 97, 95, 64, 64 }, { 1, 2, 100, 193, 32, 48 }, { 1, 1, 130, 130, 17, 33 }, { 1, 1, 1, 300, 64, 32 },
    { 1, 1, 200, 3, 31, 65 }, { 2, 2, 64, 128, 32, 32 },  { 1, 1, 16, 96, 128, 80 },  { 1, 1, 289, 97, 5, 20 },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static void the_definition(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int causal = 0; causal < 2; causal++)
            check(&(trial){ .n = shapes[i], .type = WF_F32, .causal = causal, .size = 2 });
}
static void other_types(void **state)
{
    (void)state;
    static const wf_dtype types[] = { WF_BF16, WF_F16, WF_F64 };
    for (int i = 0; i < SHAPES; i++)
        for (int k = 0; k < 3; k++)
            check(&(trial){ .n = shapes[i], .type = types[k], .causal = (i + k) % 2, .size = 1.5 });
}
static void layouts(void **state)
{
    (void)state;
    for (int l = ROWS; l < LAYOUTS; l++)
        for (int i = 1; i < SHAPES; i += 2) {
            check(&(trial){ .n = shapes[i], .type = WF_F32, .causal = l % 2, .size = 2, .layout = (enum layout)l });
            check(&(trial){ .n = shapes[i],
                            .type = i % 4 == 1 ? WF_BF16 : WF_F64,
                            .causal = !(l % 2),
                            .size = 1,
                            .layout = (enum layout)l });
        }
}
static void masks(void **state)
{
    (void)state;
    for (int i = 0; i < SHAPES; i++)
        for (int m = BOOL_MASK; m <= FLOAT_MASK; m++)
            check(&(trial){ .n = shapes[i],
                            .type = i % 3 ? WF_F32 : WF_F64,
                            .causal = i % 2,
                            .mask = (enum mask)m,
                            .size = 2,
                            .scale = 0.3,
                            .layout = (enum layout)(i % LAYOUTS) });
}

/* Scores that rise along the keys, so that the maximum grows in every block; and large ones of both signs. */
static void growing(void **state)
{
    (void)state;
    trial w = { .n = { 1, 1, 50, 400, 16, 24 }, .type = WF_F32, .size = 6 };
    set_of x = make(&w);
    for (int64_t j = 0; j < w.n.t; j++)
        for (int64_t c = 0; c < w.n.e; c++)
            set(&x.t[K], j * w.n.e + c, (double)(j / 16) * (c == 0 ? 0.5 : 0.01));
    for (int64_t i = 0; i < w.n.s; i++)
        set(&x.t[Q], i * w.n.e, i % 2 ? 4 : -4);
    define(&w, &x);
    for (int isa = 0; isa < ISAS; isa++)
        if (has_isa(isa)) {
            run(isa, &w, &x, 2);
            compare(&w, &x, isa);
        }
    drop(&x);
}

/* Scores beyond 2^21: only one key counts. All equal below -2^21: the mean. Infinite or NaN: that row alone is NaN. */
static void far_scores(void **state)
{
    (void)state;
    trial w = { .n = { 1, 1, 40, 120, 8, 16 }, .type = WF_F32, .size = 1 };
    for (int isa = 0; isa < ISAS; isa++) {
        if (!has_isa(isa))
            continue;
        set_of x = make(&w);
        for (int64_t j = 0; j < w.n.t; j++)
            for (int64_t c = 0; c < w.n.e; c++)
                set(&x.t[K], j * w.n.e + c, c ? 0.25 : j == 100 ? 2 : 1);
        for (int64_t i = 0; i < w.n.s; i++)
            for (int64_t c = 0; c < w.n.e; c++)
                set(&x.t[Q], i * w.n.e + c,
                    i == 3 && !c   ? 1e9
                    : i == 5       ? (c == 0 ? 0 : -1e9)
                    : i == 7 && !c ? NAN
                    : i == 9 && !c ? INFINITY
                                   : 0.1);
        run(isa, &w, &x, 2);
        for (int64_t i = 0; i < w.n.s; i++)
            for (int64_t c = 0; c < w.n.d; c++) {
                double y = get(&x.t[Y], i * w.n.d + c), mean = 0;
                for (int64_t j = 0; j < w.n.t; j++)
                    mean += get(&x.t[V], j * w.n.d + c) / (double)w.n.t;
                if (i == 7 || i == 9)
                    assert_true(isnan(y));
                else if (i == 3)
                    assert_true(fabs(y - get(&x.t[V], 100 * w.n.d + c)) < 1e-6);
                else if (i == 5)
                    assert_true(fabs(y - mean) < 1e-6);
                else
                    assert_true(isfinite(y));
            }
        drop(&x);
    }
}

/* Queries that see nothing: zeros, -inf, and no gradient; everything else as it was without them. */
static void nothing_seen(void **state)
{
    (void)state;
    for (int type = 0; type < 2; type++) {
        trial w = { .n = { 1, 2, 70, 40, 8, 16 }, .type = type ? WF_F64 : WF_F32, .causal = true, .size = 1 };
        set_of x = make(&w);
        define(&w, &x);
        for (int isa = 0; isa < ISAS; isa++) {
            if (!has_isa(isa))
                continue;
            run(isa, &w, &x, 1);
            compare(&w, &x, isa);
            for (int64_t c = 0; c < 30 * w.n.d; c++)
                assert_true(get(&x.t[Y], c) == 0);
            for (int64_t c = 0; c < 30 * w.n.e; c++)
                assert_true(get(&x.t[DQ], c) == 0);
            for (int64_t i = 0; i < 30; i++)
                assert_true(get(&x.t[LSE], i) == -INFINITY);
        }
        drop(&x);
    }
    trial none = { .n = { 1, 2, 5, 0, 4, 3 }, .type = WF_F32, .size = 1 };
    check(&none);
    none.n = (shape){ 2, 0, 5, 4, 4, 3 };
    check(&none);
    none.n = (shape){ 2, 1, 0, 4, 4, 3 };
    check(&none);
    none.n = (shape){ 2, 1, 3, 4, 0, 3 };
    check(&none);
}

static void same_results(const set_of *a, const set_of *b)
{
    static const int results[] = { Y, LSE, DQ, DK, DV };
    for (int r = 0; r < 5; r++)
        for (int64_t i = 0; i < elements(&a->t[results[r]].v); i++)
            assert_true(same(get(&a->t[results[r]], i), get(&b->t[results[r]], i)));
}
static void copy_operands(const set_of *from, set_of *to)
{
    for (int i = Q; i <= DY; i++)
        for (int64_t k = 0; k < elements(&from->t[i].v); k++)
            set(&to->t[i], k, get(&from->t[i], k));
    memcpy(to->want[STATS], from->want[STATS], (size_t)elements(&from->t[STATS].v) * sizeof(double));
}

/* Threads and layouts change no bit. */
static void one_result(void **state)
{
    (void)state;
    static const shape n[] = { { 2, 3, 150, 130, 64, 32 }, { 1, 2, 99, 250, 20, 40 }, { 3, 1, 40, 64, 33, 16 } };
    for (int i = 0; i < 3; i++)
        for (int isa = 0; isa < ISAS; isa++)
            for (int causal = 0; causal < 2 && has_isa(isa); causal++) {
                trial w = { .n = n[i], .type = i == 2 ? WF_BF16 : WF_F32, .causal = causal, .size = 2 };
                set_of x = make(&w);
                define(&w, &x);
                run(isa, &w, &x, 1);
                for (int k = 0; k < 2 + LAYOUTS - 1; k++) {
                    w.layout = k < 2 ? ROWS : (enum layout)(k - 1);
                    set_of z = make(&w);
                    copy_operands(&x, &z);
                    run(isa, &w, &z, k < 2 ? k + 2 : 1);
                    same_results(&x, &z);
                    drop(&z);
                }
                drop(&x);
            }
}

/* Heads inside the rows of one product [B, T, 3, H, D], results inside rows [B, T, H, D]: the same bits as apart. */
static void heads_in_rows(void **state)
{
    (void)state;
    trial w = { .n = { 2, 3, 70, 70, 32, 32 }, .type = WF_F32, .causal = true, .size = 2 };
    shape n = w.n;
    for (int isa = 0; isa < ISAS; isa++) {
        if (!has_isa(isa))
            continue;
        set_of x = make(&w), z = make(&w);
        define(&w, &x);
        tensor whole[2], plain[2];
        for (int i = 0; i < 2; i++) {
            whole[i] = tensor_new(WF_F32, WF_DIMS(n.b, n.s, 3, n.h, n.d), ROWS);
            plain[i] = tensor_new(WF_F32, WF_DIMS(n.b, n.s, n.h, n.d), ROWS);
        }
        int in_rows[] = { Q, K, V, DQ, DK, DV, Y, DY };
        tensor own[8];
        for (int i = 0; i < 8; i++) {
            tensor *t = &z.t[in_rows[i]], *from = i < 6 ? &whole[i / 3] : &plain[i - 6];
            own[i] = *t;
            int64_t row = i < 6 ? 3 * n.h * n.d : n.h * n.d;
            t->at = from->at + (i < 6 ? i % 3 * n.h * n.d * 4 : 0);
            int64_t strides[4] = { n.s * row, n.d, row, 1 };
            memcpy(t->v.stride, strides, sizeof strides);
        }
        copy_operands(&x, &z);
        run(isa, &w, &x, 1);
        run(isa, &w, &z, 2);
        same_results(&x, &z);
        for (int i = 0; i < 8; i++)
            z.t[in_rows[i]] = own[i];
        for (int i = 0; i < 2; i++) {
            check_guard(&whole[i]);
            check_guard(&plain[i]);
            tensor_free(&whole[i]);
            tensor_free(&plain[i]);
        }
        drop(&x);
        drop(&z);
    }
}

/* Keys and values that all heads share: stride 0. */
static void shared_keys(void **state)
{
    (void)state;
    trial w = { .n = { 2, 3, 20, 30, 16, 8 }, .type = WF_F32, .size = 2 };
    set_of x = make(&w);
    x.t[K].v.stride[1] = x.t[V].v.stride[1] = 0;
    define(&w, &x);
    for (int isa = 0; isa < ISAS; isa++)
        if (has_isa(isa)) {
            run(isa, &w, &x, 3);
            compare(&w, &x, isa);
        }
    drop(&x);
}

static void reasons(void **state)
{
    (void)state;
    trial w = { .n = { 1, 1, 3, 4, 5, 6 }, .type = WF_F32, .size = 1 };
    set_of x = make(&w);
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    wfi_attention_spec s = { .v = { [WFI_ATTN_Q] = &x.t[Q].v,
                                    [WFI_ATTN_K] = &x.t[K].v,
                                    [WFI_ATTN_V] = &x.t[V].v,
                                    [WFI_ATTN_Y] = &x.t[Y].v,
                                    [WFI_ATTN_LSE] = &x.t[LSE].v },
                             .threads = 1 };
    wfi_attention_spec bad = s;
    bad.v[WFI_ATTN_LSE] = NULL;
    assert_non_null(tables[0]->prepare(&bad, params, &scratch));
    bad = s;
    bad.v[WFI_ATTN_K] = &x.t[V].v;
    assert_non_null(tables[0]->prepare(&bad, params, &scratch));
    bad = s;
    bad.v[WFI_ATTN_LSE] = &x.t[Y].v;
    assert_non_null(tables[0]->prepare(&bad, params, &scratch));
    bad = s;
    wfi_view f64 = x.t[Q].v;
    f64.dtype = WF_F64;
    bad.v[WFI_ATTN_Q] = &f64;
    assert_non_null(tables[0]->prepare(&bad, params, &scratch));
    assert_non_null(tables[0]->prepare_grad(&s, params, &scratch));
    drop(&x);
}

/* ---- on the tile unit ---- */

extern const wfi_attention_kernels wfi_attention_plain_emulated; /* attention_emulated.c */

/* Without vectors; with them, where the processor has them; the unit itself. NULL: not here. */
enum { UNITS = 3 };
static const wfi_attention_kernels *unit(int i)
{
#if defined __x86_64__
    if (i == 1)
        return has_isa(2) ? &wfi_attention_amx_emulated : NULL;
    if (i == 2)
        return wfi_gemm_amx_permit() ? &wfi_attention_amx : NULL;
#endif
    return i == 0 ? &wfi_attention_plain_emulated : NULL;
}

/* Weights, their gradients and results are rounded to 8 bits. A row of y is a mean of values below 1; gradients are
 * sums of parts that may be larger than they are, within a factor of `parts`. */
static double rough(const trial *w, int which, double want, double largest, double parts)
{
    double sum = which == Y ? 0x1p-8 : 0x1p-9 * parts * largest;
    (void)w;
    return which == LSE ? 2e-5 * (1 + largest) : 0x1p-8 * fabs(want) + sum + 1e-6;
}
static void check_tiles(const trial *w)
{
    set_of x = make(w);
    define(w, &x);
    for (int i = 0; i < UNITS; i++)
        if (unit(i)) {
            run_on(unit(i), w, &x, 1 + i);
            compare_within(w, &x, "unit", i, rough, 8);
        }
    check_guards(&x);
    drop(&x);
}

static const shape tile_shapes[] = {
    { 1, 1, 16, 16, 16, 16 },  { 1, 2, 33, 70, 16, 33 },  { 2, 1, 64, 64, 64, 64 }, { 1, 2, 100, 193, 32, 48 },
    { 1, 1, 130, 65, 65, 17 }, { 1, 1, 17, 300, 40, 32 }, { 1, 1, 70, 20, 31, 65 }, { 1, 1, 600, 40, 16, 16 },
};
enum { TILE_SHAPES = sizeof tile_shapes / sizeof *tile_shapes };

static void tiles(void **state)
{
    (void)state;
    for (int i = 0; i < TILE_SHAPES; i++)
        for (int causal = 0; causal < 2; causal++)
            check_tiles(&(trial){ .n = tile_shapes[i],
                                  .type = WF_BF16,
                                  .causal = causal,
                                  .size = 1.5,
                                  .scale = i % 3 == 1 ? -0.3 : 0,
                                  .layout = (enum layout)((i + causal) % LAYOUTS) });
}
static void tiles_masked(void **state)
{
    (void)state;
    for (int i = 0; i < TILE_SHAPES; i++)
        for (int m = BOOL_MASK; m <= FLOAT_MASK; m++)
            check_tiles(&(trial){ .n = tile_shapes[i],
                                  .type = WF_BF16,
                                  .causal = (i + m) % 2,
                                  .mask = (enum mask)m,
                                  .size = 1.5,
                                  .layout = (enum layout)(i % LAYOUTS) });
}

/* Scores that rise along the keys; queries that see nothing; scores of both signs beyond the fast range. */
static void tiles_edges(void **state)
{
    (void)state;
    trial w = { .n = { 1, 1, 50, 400, 16, 24 }, .type = WF_BF16, .size = 6 };
    for (int far = 0; far < 2; far++) {
        set_of x = make(&w);
        for (int64_t j = 0; j < w.n.t; j++)
            for (int64_t c = 0; c < w.n.e; c++)
                set(&x.t[K], j * w.n.e + c, as_type(WF_BF16, (double)(j / 16) * (c == 0 ? 0.5 : 0.01)));
        for (int64_t i = 0; i < w.n.s; i++)
            set(&x.t[Q], i * w.n.e, (i % 2 ? 4 : -4) * (far ? 1e7 : 1));
        define(&w, &x);
        for (int i = 0; i < UNITS; i++)
            if (unit(i)) {
                run_on(unit(i), &w, &x, 2);
                for (int64_t k = 0; far && k < elements(&x.t[Y].v); k++)
                    assert_true(fabs(get(&x.t[Y], k) - x.want[Y][k]) <= 0x1p-7);
                if (!far)
                    compare_within(&w, &x, "unit", i, rough, 64); /* keys are up to 12.5 */
            }
        drop(&x);
    }
    w = (trial){ .n = { 1, 2, 90, 40, 16, 16 }, .type = WF_BF16, .causal = true, .size = 1 };
    set_of x = make(&w);
    define(&w, &x);
    for (int i = 0; i < UNITS; i++)
        if (unit(i)) {
            run_on(unit(i), &w, &x, 1);
            compare_within(&w, &x, "unit", i, rough, 8);
            for (int64_t k = 0; k < 50 * w.n.d; k++)
                assert_true(get(&x.t[Y], k) == 0 && get(&x.t[DQ], k) == 0);
            for (int64_t k = 0; k < 50; k++)
                assert_true(get(&x.t[LSE], k) == -INFINITY);
        }
    drop(&x);
}

/* Threads and layouts change no bit, and the emulation has those of the unit. */
static void tiles_one_result(void **state)
{
    (void)state;
    static const shape n[] = { { 2, 3, 150, 130, 64, 32 }, { 1, 2, 99, 250, 20, 40 }, { 1, 1, 700, 64, 33, 16 } };
    for (int i = 0; i < 3; i++)
        for (int causal = 0; causal < 2; causal++) {
            trial w = { .n = n[i], .type = WF_BF16, .causal = causal, .size = 2 };
            set_of first = make(&w);
            define(&w, &first);
            bool ran = false;
            for (int u = 1; u < UNITS; u++)
                for (int k = 0; unit(u) && k < 2 + LAYOUTS; k++) {
                    if (!ran)
                        run_on(unit(u), &w, &first, 1);
                    ran = true;
                    trial v = w;
                    v.layout = k < 2 ? ROWS : (enum layout)(k - 2);
                    set_of z = make(&v);
                    copy_operands(&first, &z);
                    run_on(unit(u), &v, &z, k < 2 ? k + 2 : 1);
                    same_results(&first, &z);
                    drop(&z);
                }
            drop(&first);
        }
}

static void tiles_decline(void **state)
{
    (void)state;
    static const trial what[] = {
        { .n = { 1, 1, 15, 64, 32, 32 }, .type = WF_BF16, .size = 1 },
        { .n = { 1, 1, 64, 64, 8, 32 }, .type = WF_BF16, .size = 1 },
        { .n = { 1, 1, 64, 64, 32, 32 }, .type = WF_F16, .size = 1 },
        { .n = { 1, 1, 64, 64, 32, 32 }, .type = WF_F32, .size = 1 },
    };
    for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
        set_of x = make(&what[i]);
        char params[WFI_PARAMS_MAX];
        size_t scratch;
        wfi_attention_spec s = { .v = { [WFI_ATTN_Q] = &x.t[Q].v,
                                        [WFI_ATTN_K] = &x.t[K].v,
                                        [WFI_ATTN_V] = &x.t[V].v,
                                        [WFI_ATTN_Y] = &x.t[Y].v,
                                        [WFI_ATTN_LSE] = &x.t[LSE].v },
                                 .threads = 1 };
        assert_non_null(wfi_attention_plain_emulated.prepare(&s, params, &scratch));
        drop(&x);
    }
}

static int start(void **state)
{
    const char *s = getenv("WEFT_TEST_SEED");
    random_state = s ? strtoull(s, NULL, 0) : 20240607;
    print_message("seed %llu\n", (unsigned long long)random_state);
    return pools_up(state);
}
int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_definition), cmocka_unit_test(other_types), cmocka_unit_test(layouts),
        cmocka_unit_test(masks),          cmocka_unit_test(growing),     cmocka_unit_test(far_scores),
        cmocka_unit_test(nothing_seen),   cmocka_unit_test(one_result),  cmocka_unit_test(heads_in_rows),
        cmocka_unit_test(shared_keys),    cmocka_unit_test(reasons),     cmocka_unit_test(tiles),
        cmocka_unit_test(tiles_masked),   cmocka_unit_test(tiles_edges), cmocka_unit_test(tiles_one_result),
        cmocka_unit_test(tiles_decline),
    };
    return cmocka_run_group_tests(tests, start, pools_down);
}
