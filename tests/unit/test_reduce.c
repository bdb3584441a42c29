/* Reductions against plain loops in the stated order: every kind, type and layout, any axes, 1 to 3 threads. */
#include "layouts.h"
#include "kernel/reduce/reduce.h"

static const wfi_reduce_kernels *const tables[ISAS] = ISA_TABLES(wfi_reduce);
static bool wide; /* the accumulator is f64 */

/* ---- the reference: a value is computed as double and rounded to the accumulator after each operation ---- */

static double acc(double x)
{
    return wide ? x : (double)(float)x;
}
/* m is for extremes: NaN wins, +0 above -0. */
static double combine(wfi_reduce_kind k, double a, double x)
{
    switch (k) {
    case WFI_REDUCE_SUM:
    case WFI_REDUCE_MEAN:
    case WFI_REDUCE_LOGSUMEXP: return acc(a + x);
    case WFI_REDUCE_SQUARES: return acc(a + acc(x * x));
    case WFI_REDUCE_PROD: return acc(a * x);
    case WFI_REDUCE_MAX:
    case WFI_REDUCE_ARGMAX: return isnan(a) || isnan(x) ? NAN : a == x ? (signbit(a) ? x : a) : a > x ? a : x;
    case WFI_REDUCE_MIN:
    case WFI_REDUCE_ARGMIN: return isnan(a) || isnan(x) ? NAN : a == x ? (signbit(a) ? a : x) : a < x ? a : x;
    case WFI_REDUCE_ANY: return a != 0 || x != 0;
    default: return a != 0 && x != 0;
    }
}
static double identity(wfi_reduce_kind k)
{
    switch (k) {
    case WFI_REDUCE_PROD:
    case WFI_REDUCE_ALL: return 1;
    case WFI_REDUCE_MAX:
    case WFI_REDUCE_ARGMAX: return -INFINITY;
    case WFI_REDUCE_MIN:
    case WFI_REDUCE_ARGMIN: return INFINITY;
    default: return 0;
    }
}
static double fold_block(wfi_reduce_kind k, const double *x, int64_t n)
{
    double lane[32];
    for (int i = 0; i < 32; i++) {
        lane[i] = identity(k);
    }
    for (int64_t i = 0; i < n; i++) {
        lane[i % 32] = combine(k, lane[i % 32], x[i]);
    }
    k = k == WFI_REDUCE_SQUARES ? WFI_REDUCE_SUM : k;
    for (int s = 16; s >= 1; s /= 2) {
        for (int i = 0; i < s; i++) {
            lane[i] = combine(k, lane[i], lane[i + s]);
        }
    }
    return lane[0];
}
static double fold(wfi_reduce_kind k, const double *x, int64_t n)
{
    if (n <= 65536) {
        return fold_block(k, x, n);
    }
    int64_t m = 0;
    double *part = malloc((size_t)(n / 65536 + 1) * sizeof *part);
    for (int64_t i = 0; i < n; i += 65536) {
        part[m++] = fold_block(k, x + i, n - i < 65536 ? n - i : 65536);
    }
    double r = fold(k == WFI_REDUCE_SQUARES ? WFI_REDUCE_SUM : k, part, m);
    free(part);
    return r;
}
static double expected(wfi_reduce_kind k, const double *x, int64_t n)
{
    double r = fold(k, x, n);
    if (k == WFI_REDUCE_MEAN) {
        return acc(r / acc((double)n));
    }
    if (k == WFI_REDUCE_ARGMAX || k == WFI_REDUCE_ARGMIN) {
        for (int64_t i = 0; i < n; i++) {
            if (x[i] == r || (isnan(x[i]) && isnan(r))) {
                return (double)i;
            }
        }
    }
    if (k == WFI_REDUCE_LOGSUMEXP) { /* only near: in doubles */
        double m = -INFINITY, s = 0;
        for (int64_t i = 0; i < n; i++) {
            m = fmax(m, x[i]);
        }
        m = isinf(m) ? 0 : m;
        for (int64_t i = 0; i < n; i++) {
            s += exp(x[i] - m);
        }
        return m + log(s);
    }
    return r;
}

/* ---- one check ---- */

static wf_dtype result_type(wfi_reduce_kind k, wf_dtype x)
{
    bool real = x == WF_F32 || x == WF_F64 || x == WF_BF16 || x == WF_F16;
    switch (k) {
    case WFI_REDUCE_SUM:
    case WFI_REDUCE_PROD:
    case WFI_REDUCE_SQUARES: return real ? x : WF_I64;
    case WFI_REDUCE_ANY:
    case WFI_REDUCE_ALL: return WF_BOOL;
    case WFI_REDUCE_ARGMAX:
    case WFI_REDUCE_ARGMIN: return WF_I64;
    default: return x;
    }
}

/* Row-major numbers of the elements of x that go into output o. */
static int64_t members(const wfi_view *x, uint32_t axes, int64_t o, int64_t *at)
{
    int64_t n = 0, total = elements(x);
    for (int64_t i = 0; i < total; i++) {
        int64_t rest = i, kept = 0, unit = 1;
        for (int d = x->ndim - 1; d >= 0; d--) {
            if (!(axes >> d & 1)) {
                kept += rest % x->dim[d] * unit;
                unit *= x->dim[d];
            }
            rest /= x->dim[d];
        }
        if (kept == o) {
            at[n++] = i;
        }
    }
    return n;
}

static wf_dims kept_dims(const wfi_view *x, uint32_t axes, bool keep)
{
    wf_dims r = { 0, { 0 } };
    for (int d = 0; d < x->ndim; d++) {
        if (!(axes >> d & 1)) {
            r.d[r.n++] = x->dim[d];
        } else if (keep) {
            r.d[r.n++] = 1;
        }
    }
    return r;
}

static void check_value(wfi_reduce_kind k, wf_dtype t, double is, double want)
{
    if (k != WFI_REDUCE_LOGSUMEXP) {
        if (!same(is, want)) {
            print_error("kind %d type %d: %.17g, expected %.17g\n", k, t, is, want);
        }
        assert_true(same(is, want));
    } else if (isfinite(want)) {
        double eps = t == WF_F64 ? 1e-14 : t == WF_F32 ? 1e-6 : t == WF_F16 ? 1e-3 : 8e-3;
        assert_true(fabs(is - want) <= eps * (1 + fabs(want)));
    } else {
        assert_true(same(is, want));
    }
}

static void check(wfi_reduce_kind k, const tensor *x, uint32_t axes, bool keep, enum layout out)
{
    int64_t total = elements(&x->v);
    tensor y = tensor_new(result_type(k, x->v.dtype), kept_dims(&x->v, axes, keep), out);
    int64_t outputs = elements(&y.v), *at = malloc((size_t)(total + 1) * sizeof *at);
    double *v = malloc((size_t)(total + 1) * sizeof *v), *want = malloc((size_t)(outputs + 1) * sizeof *want);
    wide = x->v.dtype != WF_F32 && x->v.dtype != WF_BF16 && x->v.dtype != WF_F16;
    for (int64_t o = 0; o < outputs; o++) {
        int64_t n = members(&x->v, axes, o, at);
        for (int64_t i = 0; i < n; i++) {
            v[i] = get(x, at[i]);
        }
        want[o] = as_type(y.v.dtype, expected(k, v, n));
        want[o] += y.v.dtype == WF_I64 || y.v.dtype == WF_I32 ? 0.0 : -0.0; /* integers have no -0 */
    }
    for (int isa = 0; isa < ISAS; isa++) {
        for (int threads = 1; threads <= 3 && has_isa(isa); threads++) {
            char params[WFI_PARAMS_MAX];
            size_t scratch = 0;
            assert_null(tables[isa]->prepare(k, &x->v, axes, &y.v, threads, params, &scratch));
            run_kernel(tables[isa]->run, params, (void *[]){ y.at, x->at }, scratch, threads);
            for (int64_t o = 0; o < outputs; o++) {
                check_value(k, x->v.dtype, get(&y, o), want[o]);
            }
            check_guard(&y);
        }
    }
    tensor_free(&y);
    free(at), free(v), free(want);
}

/* Small enough to be exact in integers, uneven enough to show the order in floats. */
static double sample(wf_dtype t, wfi_reduce_kind k)
{
    switch (t) {
    case WF_BOOL: return (double)random_below(2);
    case WF_U8: return (double)random_below(k == WFI_REDUCE_PROD ? 3 : 200);
    case WF_I64:
    case WF_I32: return (double)(random_below(k == WFI_REDUCE_PROD ? 3 : 2000) - 1);
    default: break;
    }
    if (k == WFI_REDUCE_ANY || k == WFI_REDUCE_ALL) {
        return random_below(9) ? as_type(t, random_real()) : 0;
    }
    return as_type(t, k == WFI_REDUCE_PROD ? 1 + random_real() / 16 : random_real() * ldexp(1, (int)random_below(8)));
}

static const wf_dtype all_types[] = { WF_F32, WF_F64, WF_BF16, WF_F16, WF_I64, WF_I32, WF_U8, WF_BOOL };

static bool applies(wfi_reduce_kind k, wf_dtype t)
{
    bool real = t == WF_F32 || t == WF_F64 || t == WF_BF16 || t == WF_F16;
    return real || (k != WFI_REDUCE_MEAN && k != WFI_REDUCE_LOGSUMEXP);
}

static void every_kind(wf_dtype t, wf_dims s, uint32_t axes, enum layout l, bool specials)
{
    for (int k = 0; k < WFI_REDUCE_COUNT; k++) {
        if (!applies(k, t)) {
            continue;
        }
        tensor x = tensor_new(t, s, l);
        for (int64_t i = 0; i < elements(&x.v); i++) {
            set(&x, i, sample(t, k));
        }
        if (specials && applies(WFI_REDUCE_MEAN, t) && elements(&x.v) > 3) {
            static const double odd[] = { NAN, INFINITY, -INFINITY, -0.0, 0.0 };
            for (int i = 0; i < 3; i++) {
                set(&x, random_below(elements(&x.v)), odd[random_below(5)]);
            }
        }
        check(k, &x, axes, random_below(2), (enum layout)random_below(LAYOUTS));
        tensor_free(&x);
    }
}

/* ---- tests ---- */

static void test_random_shapes(void **state)
{
    (void)state;
    random_state = 20240801;
    print_message("seed %llu\n", (unsigned long long)random_state);
    for (int turn = 0; turn < 150; turn++) {
        wf_dims s = { (int32_t)random_below(5), { 0 } };
        for (int d = 0; d < s.n; d++) {
            s.d[d] = 1 + random_below(s.n > 2 ? 7 : 45);
        }
        every_kind(all_types[turn % 8], s, random_bits() & ((1u << s.n) - 1), (enum layout)(turn / 8 % LAYOUTS),
                   turn % 3 == 0);
    }
}

static void test_lengths(void **state)
{
    (void)state;
    static const int64_t n[] = { 1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 511, 512, 513, 1000 };
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        for (int t = 0; t < 4; t++) {
            every_kind(all_types[t], WF_DIMS(3, n[i]), 2, ROWS, false);
            every_kind(all_types[t], WF_DIMS(n[i], n[i] < 40 ? 37 : 5), 1, ROWS, false);
            every_kind(all_types[t], WF_DIMS(5, n[i]), 1, ROWS, false);
        }
    }
}

/* Images: the gradient of a bias, over N, H, W. */
static void test_channels(void **state)
{
    (void)state;
    for (int l = 0; l < LAYOUTS; l++) {
        every_kind(WF_F32, WF_DIMS(3, 20, 5, 7), 1 | 4 | 8, (enum layout)l, false);
        every_kind(WF_BF16, WF_DIMS(2, 3, 8, 8), 1 | 4 | 8, (enum layout)l, false);
    }
}

/* More than one block of 65,536: by rows, by columns, and with many outputs. */
static void test_blocks(void **state)
{
    (void)state;
    static const wfi_reduce_kind kinds[] = { WFI_REDUCE_SUM,    WFI_REDUCE_SQUARES,   WFI_REDUCE_MAX,
                                             WFI_REDUCE_ARGMIN, WFI_REDUCE_LOGSUMEXP, WFI_REDUCE_MEAN };
    static const int64_t sizes[] = { 65536, 65537, 200000 };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
            for (int way = 0; way < 3; way++) {
                tensor x = tensor_new(n == 1 ? WF_F64 : WF_F32, way ? WF_DIMS(sizes[n], 5) : WF_DIMS(2, sizes[n]),
                                      way == 2 ? REVERSED : ROWS);
                for (int64_t i = 0; i < elements(&x.v); i++) {
                    set(&x, i, sample(x.v.dtype, kinds[k]));
                }
                check(kinds[k], &x, way ? 1 : 2, false, ROWS);
                tensor_free(&x);
            }
        }
    }
}

/* A sum over a repeated axis (stride 0), and over all of a slice. */
static void test_strides(void **state)
{
    (void)state;
    tensor x = tensor_new(WF_F32, WF_DIMS(3, 4), ROWS);
    for (int64_t i = 0; i < 12; i++) {
        set(&x, i, (double)i);
    }
    tensor turned = x, middle = x, column = x, again = x; /* C11 */
    turned.v.dim[0] = 4, turned.v.dim[1] = 3, turned.v.stride[0] = 1, turned.v.stride[1] = 4;
    middle.v.dim[1] = 2, middle.at += 4;
    column.v.dim[0] = 4, column.v.dim[1] = 1, column.v.stride[0] = 1, column.at += 16;
    again.v.dim[0] = 1000, again.v.stride[0] = 0;
    check(WFI_REDUCE_SUM, &turned, 3, false, ROWS);
    check(WFI_REDUCE_SUM, &again, 1, false, ROWS);
    check(WFI_REDUCE_SUM, &again, 3, true, ROWS);
    for (int isa = 0; isa < ISAS; isa++) {
        const tensor *v[3] = { &turned, &middle, &column };
        static const float want[3] = { 66, 33, 22 };
        for (int i = 0; i < 3 && has_isa(isa); i++) {
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            float y = -1;
            assert_null(
                tables[isa]->prepare(WFI_REDUCE_SUM, &v[i]->v, 3, &(wfi_view){ .dtype = WF_F32 }, 2, params, &scratch));
            run_kernel(tables[isa]->run, params, (void *[]){ &y, v[i]->at }, scratch, 2);
            assert_true(y == want[i]);
        }
    }
    tensor_free(&x);
}

static double one(wfi_reduce_kind k, int isa, wf_dtype t, int64_t n, const double *v, double fill)
{
    tensor x = tensor_new(t, WF_DIMS(n), ROWS), y = tensor_new(result_type(k, t), WF_NO_DIMS, ROWS);
    for (int64_t i = 0; i < n; i++) {
        set(&x, i, v ? v[i] : fill);
    }
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    assert_null(tables[isa]->prepare(k, &x.v, 1, &y.v, 3, params, &scratch));
    run_kernel(tables[isa]->run, params, (void *[]){ y.at, x.at }, scratch, 3);
    double r = get(&y, 0);
    tensor_free(&x), tensor_free(&y);
    return r;
}

/* C04, C05: the first NaN wins, else the first of equals. */
static void test_arg_cases(void **state)
{
    (void)state;
    const double a[] = { 3, NAN, 1, 5 }, b[] = { 1, 2, NAN }, c[] = { -1, -2, NAN }, e[] = { 2, 3, 0, 3, 3 },
                 f[] = { 1, 3, 1, 3, 1 };
    static const int64_t lengths[] = { 8, 33, 1000 };
    for (int isa = 0; isa < ISAS; isa++) {
        for (int k = WFI_REDUCE_ARGMAX; k <= WFI_REDUCE_ARGMIN && has_isa(isa); k++) {
            assert_true(one(k, isa, WF_F32, 4, a, 0) == 1);
            assert_true(one(k, isa, WF_F64, 3, b, 0) == 2);
            assert_true(one(k, isa, WF_BF16, 3, c, 0) == 2);
            assert_true(one(k, isa, WF_F32, 61, NULL, NAN) == 0);
            assert_true(one(k, isa, WF_I32, 16, NULL, 7) == 0);
            for (int i = 0; i < 3; i++) {
                double v[1000];
                for (int64_t j = 0; j < lengths[i]; j++) {
                    v[j] = j == lengths[i] / 2 ? NAN : (double)j;
                }
                assert_true(one(k, isa, WF_F32, lengths[i], v, 0) == (double)(lengths[i] / 2));
            }
        }
        if (has_isa(isa)) {
            assert_true(one(WFI_REDUCE_ARGMAX, isa, WF_F32, 5, e, 0) == 1);
            assert_true(one(WFI_REDUCE_ARGMAX, isa, WF_U8, 5, f, 0) == 1);
        }
    }
}

/* C10: narrow types need a wide accumulator. */
static void test_wide_accumulator(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS; isa++) {
        if (has_isa(isa)) {
            assert_true(one(WFI_REDUCE_MEAN, isa, WF_F16, 70000, NULL, 1) == 1);
            assert_true(one(WFI_REDUCE_SUM, isa, WF_F16, 3000, NULL, 1) == 3000);
            assert_true(one(WFI_REDUCE_SUM, isa, WF_BF16, 1000, NULL, 1) == 1000);
            assert_true(one(WFI_REDUCE_SUM, isa, WF_U8, 100000, NULL, 255) == 25500000);
        }
    }
}

/* C14: nothing to reduce, or no outputs. */
static void test_empty(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS; isa++) {
        for (int k = 0; k < WFI_REDUCE_COUNT && has_isa(isa); k++) {
            tensor x = tensor_new(WF_F32, WF_DIMS(0, 10), ROWS);
            tensor y = tensor_new(result_type(k, WF_F32), WF_DIMS(10), ROWS),
                   z = tensor_new(y.v.dtype, WF_DIMS(0), ROWS);
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            const char *why = tables[isa]->prepare(k, &x.v, 1, &y.v, 2, params, &scratch);
            bool none = k == WFI_REDUCE_MAX || k == WFI_REDUCE_MIN || k == WFI_REDUCE_ARGMAX || k == WFI_REDUCE_ARGMIN;
            assert_int_equal(why != NULL, none);
            if (!why) {
                run_kernel(tables[isa]->run, params, (void *[]){ y.at, x.at }, scratch, 2);
                double want = k == WFI_REDUCE_PROD || k == WFI_REDUCE_ALL ? 1
                              : k == WFI_REDUCE_MEAN                      ? NAN
                              : k == WFI_REDUCE_LOGSUMEXP                 ? -INFINITY
                                                                          : 0;
                for (int64_t i = 0; i < 10; i++) {
                    assert_true(same(get(&y, i), want));
                }
            }
            assert_null(tables[isa]->prepare(k, &x.v, 2, &z.v, 2, params, &scratch));
            run_kernel(tables[isa]->run, params, (void *[]){ z.at, x.at }, scratch, 2);
            check_guard(&z);
            tensor_free(&x), tensor_free(&y), tensor_free(&z);
        }
    }
}

static void test_declines(void **state)
{
    (void)state;
    wfi_view x = { WF_I32, 2, { 3, 4 }, { 4, 1 } }, y = { WF_I32, 1, { 3 }, { 1 } },
             s = { WF_F8E4M3, 2, { 3, 4 }, { 4, 1 } };
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    assert_non_null(tables[0]->prepare(WFI_REDUCE_SUM, &x, 2, &y, 1, params, &scratch));  /* wants i64 */
    assert_non_null(tables[0]->prepare(WFI_REDUCE_MEAN, &x, 2, &y, 1, params, &scratch)); /* wants floats */
    assert_non_null(tables[0]->prepare(WFI_REDUCE_MAX, &x, 1, &y, 1, params, &scratch));  /* sizes */
    assert_non_null(tables[0]->prepare(WFI_REDUCE_MAX, &s, 2, &y, 1, params, &scratch));  /* storage only */
    assert_null(tables[0]->prepare(WFI_REDUCE_MAX, &x, 2, &y, 1, params, &scratch));
}

/* ---- the gradient of max ---- */

static void check_maxgrad(wf_dtype t, wf_dims s, uint32_t axes, enum layout l, bool keep)
{
    tensor x = tensor_new(t, s, l), dx = tensor_new(t, s, (enum layout)random_below(LAYOUTS));
    tensor y = tensor_new(t, kept_dims(&x.v, axes, keep), ROWS),
           dy = tensor_new(t, kept_dims(&x.v, axes, keep), REVERSED);
    int64_t total = elements(&x.v), outputs = elements(&y.v), *at = malloc((size_t)total * sizeof *at);
    double *want = malloc((size_t)total * sizeof *want);
    for (int64_t i = 0; i < total; i++) {
        set(&x, i, random_below(20) ? (double)random_below(5) : NAN);
    }
    for (int64_t o = 0; o < outputs; o++) {
        int64_t n = members(&x.v, axes, o, at), ties = 0;
        double m = -INFINITY;
        for (int64_t i = 0; i < n; i++) {
            m = combine(WFI_REDUCE_MAX, m, get(&x, at[i]));
        }
        set(&y, o, m), set(&dy, o, random_real());
        for (int64_t i = 0; i < n; i++) {
            double v = get(&x, at[i]);
            ties += v == m || (isnan(v) && isnan(m));
        }
        for (int64_t i = 0; i < n; i++) {
            double v = get(&x, at[i]), g = get(&dy, o) / (double)ties;
            want[at[i]] = v == m || (isnan(v) && isnan(m)) ? as_type(t, t == WF_F64 ? g : (double)(float)g) : 0;
        }
    }
    for (int isa = 0; isa < ISAS; isa++) {
        for (int threads = 1; threads <= 3 && has_isa(isa); threads++) {
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            assert_null(tables[isa]->maxgrad_prepare(&dx.v, &x.v, axes, &y.v, &dy.v, threads, params, &scratch));
            run_kernel(tables[isa]->maxgrad_run, params, (void *[]){ dx.at, x.at, y.at, dy.at }, scratch, threads);
            for (int64_t i = 0; i < total; i++) {
                assert_true(same(get(&dx, i), want[i]));
            }
            check_guard(&dx);
        }
    }
    tensor_free(&x), tensor_free(&dx), tensor_free(&y), tensor_free(&dy);
    free(at), free(want);
}

static void test_maxgrad(void **state)
{
    (void)state;
    random_state = 77;
    for (int turn = 0; turn < 80; turn++) {
        wf_dims s = { 1 + (int32_t)random_below(4), { 0 } };
        for (int d = 0; d < s.n; d++) {
            s.d[d] = 1 + random_below(s.n > 2 ? 6 : 40);
        }
        check_maxgrad(all_types[turn % 4], s, random_bits() & ((1u << s.n) - 1), (enum layout)(turn % LAYOUTS),
                      turn % 2);
    }
    check_maxgrad(WF_F32, WF_DIMS(700, 3), 1, ROWS, false);
    check_maxgrad(WF_F32, WF_DIMS(9, 300), 1, ROWS, false);
}

/* C21: 70000 ties in f16. */
static void test_many_ties(void **state)
{
    (void)state;
    tensor x = tensor_new(WF_F16, WF_DIMS(70000), ROWS), dx = tensor_new(WF_F16, WF_DIMS(70000), ROWS);
    tensor y = tensor_new(WF_F16, WF_NO_DIMS, ROWS), dy = tensor_new(WF_F16, WF_NO_DIMS, ROWS);
    for (int64_t i = 0; i < 70000; i++) {
        set(&x, i, 1);
    }
    set(&y, 0, 1), set(&dy, 0, 1);
    for (int isa = 0; isa < ISAS; isa++) {
        if (has_isa(isa)) {
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            assert_null(tables[isa]->maxgrad_prepare(&dx.v, &x.v, 1, &y.v, &dy.v, 2, params, &scratch));
            run_kernel(tables[isa]->maxgrad_run, params, (void *[]){ dx.at, x.at, y.at, dy.at }, scratch, 2);
            for (int64_t i = 0; i < 70000; i++) {
                assert_true(get(&dx, i) == 1.430511474609375e-05);
            }
        }
    }
    tensor_free(&x), tensor_free(&dx), tensor_free(&y), tensor_free(&dy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_shapes),    cmocka_unit_test(test_lengths),   cmocka_unit_test(test_channels),
        cmocka_unit_test(test_blocks),           cmocka_unit_test(test_strides),   cmocka_unit_test(test_arg_cases),
        cmocka_unit_test(test_wide_accumulator), cmocka_unit_test(test_empty),     cmocka_unit_test(test_declines),
        cmocka_unit_test(test_maxgrad),          cmocka_unit_test(test_many_ties),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
