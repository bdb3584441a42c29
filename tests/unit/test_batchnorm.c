/* Batch norm: the kernels against plain loops in the stated order, bit for bit, in every layout, type, number of
 * threads and instruction set; the statistics against long doubles. */
#include "layouts.h"
#include "kernel/batchnorm/batchnorm.h"

static const wfi_batchnorm_kernels *const tables[ISAS] = ISA_TABLES(wfi_batchnorm);
enum { SLOTS = WFI_BATCHNORM_SLOTS, BLOCK_ROWS = 128 };

/* ---- the stated order, one channel at a time ---- */

typedef struct channel {
    wf_dtype t;
    bool fma; /* of the instruction set */
    int64_t n;
    double *x, *dy, *out; /* values of type t */
    double gamma, beta, eps, mean, var, dgamma, dbeta;
} channel;

/* r: rounds to the compute type */
static double r(const channel *c, double v)
{
    if (c->t == WF_F64)
        return v;
    volatile float narrow = (float)v; /* gcc 12 was seen to leave the rounding out, once inlined */
    return (double)narrow;
}
static double fma_of(const channel *c, double a, double b, double d)
{
    if (!c->fma)
        return r(c, r(c, a * b) + d);
    return c->t == WF_F64 ? fma(a, b, d) : (double)fmaf((float)a, (float)b, (float)d);
}
static double add4(const channel *c, const double *v)
{
    return r(c, r(c, v[0] + v[1]) + r(c, v[2] + v[3]));
}
/* a[0] * b[0] + ... + a[3] * b[3] */
static double dot4(const channel *c, const double *a, const double *b)
{
    return r(c, fma_of(c, a[0], b[0], r(c, a[1] * b[1])) + fma_of(c, a[2], b[2], r(c, a[3] * b[3])));
}

/* Four of a, those behind the end as `none`, minus m. */
static void four(const channel *c, const double *a, int64_t i, int64_t end, double none, double m, double *v)
{
    for (int64_t k = 0; k < 4; k++)
        v[k] = r(c, (i + k < end ? a[i + k] : none) - m);
}

static void block_moments(const channel *c, int64_t at, int64_t end, double *mean, double *squares)
{
    double s = 0, d1 = 0, d2 = 0, v[4], n = (double)(end - at);
    for (int64_t i = at; i < end; i += 4) {
        four(c, c->x, i, end, 0, 0, v);
        s = r(c, s + add4(c, v));
    }
    double m = r(c, s / n);
    for (int64_t i = at; i < end; i += 4) {
        four(c, c->x, i, end, m, m, v);
        d1 = r(c, d1 + add4(c, v));
        d2 = r(c, d2 + dot4(c, v, v));
    }
    *mean = m + d1 / n;
    *squares = d2 - d1 * (d1 / n);
}

static void plain_train(channel *c)
{
    double mean = 0, squares = 0, m, q;
    for (int64_t at = 0; at < c->n; at += BLOCK_ROWS) {
        int64_t end = at + BLOCK_ROWS < c->n ? at + BLOCK_ROWS : c->n;
        block_moments(c, at, end, &m, &q);
        mean += (double)(end - at) * m;
    }
    mean /= (double)c->n;
    for (int64_t at = 0; at < c->n; at += BLOCK_ROWS) {
        int64_t end = at + BLOCK_ROWS < c->n ? at + BLOCK_ROWS : c->n;
        block_moments(c, at, end, &m, &q);
        squares += q + (double)(end - at) * (m - mean) * (m - mean);
    }
    double var = squares / (double)c->n, full = c->gamma / sqrt(var + c->eps), hi = r(c, mean);
    double scale = r(c, full), shift = r(c, c->beta + (hi - mean) * full);
    c->mean = hi, c->var = r(c, var);
    for (int64_t i = 0; i < c->n; i++)
        c->out[i] = as_type(c->t, fma_of(c, r(c, c->x[i] - hi), scale, shift));
}

static void plain_grad(channel *c)
{
    double s1 = 0, s2 = 0, n = (double)c->n;
    for (int64_t at = 0; at < c->n; at += BLOCK_ROWS) {
        int64_t end = at + BLOCK_ROWS < c->n ? at + BLOCK_ROWS : c->n;
        double a = 0, b = 0, g[4], d[4];
        for (int64_t i = at; i < end; i += 4) {
            four(c, c->dy, i, end, 0, 0, g);
            four(c, c->x, i, end, c->mean, c->mean, d);
            a = r(c, a + add4(c, g));
            b = r(c, b + dot4(c, g, d));
        }
        s1 += a;
        s2 += b;
    }
    double rstd = 1 / sqrt(c->var + c->eps), full = c->gamma * rstd;
    double scale = r(c, full), slope = r(c, -(full * rstd * rstd * (s2 / n))), shift = r(c, -(full * (s1 / n)));
    c->dgamma = as_type(c->t, r(c, s2 * rstd)), c->dbeta = as_type(c->t, r(c, s1));
    for (int64_t i = 0; i < c->n; i++) {
        double low = fma_of(c, r(c, c->x[i] - c->mean), slope, shift);
        c->out[i] = as_type(c->t, fma_of(c, c->dy[i], scale, low));
    }
}

/* ---- one call ---- */

typedef struct call {
    wfi_batchnorm_kind kind;
    wf_dtype t;
    wf_dims s;
    bool gamma, beta;
    uint64_t seed;
} call;

/* R: rows; s: statistics; v: a vector of the type of x; lower case o: an output */
static const char *const roles[] = { "RssRvv", "RvvRRssv" };
static const char *const outputs[] = { "ooo   ", "ooo     " };

static void build(const call *c, tensor v[SLOTS], bool there[SLOTS], enum layout l)
{
    random_state = c->seed;
    const char *role = roles[c->kind];
    int gamma = c->kind == WFI_BATCHNORM_TRAIN ? 4 : 7, beta = c->kind == WFI_BATCHNORM_TRAIN ? 5 : -1;
    for (int i = 0; i < SLOTS; i++)
        there[i] = false;
    for (int i = 0; role[i]; i++) {
        if ((i == gamma && !c->gamma) || (i == beta && !c->beta))
            continue;
        there[i] = true;
        wf_dtype wide = c->t == WF_F64 ? WF_F64 : WF_F32;
        v[i] = role[i] == 'R'
                   ? tensor_new(c->t, c->s, l)
                   : tensor_new(role[i] == 's' ? wide : c->t, WF_DIMS(c->s.d[1]), l == SLICED ? SLICED : ROWS);
        int64_t n = elements(&v[i].v);
        for (int64_t j = 0; j < n; j++) {
            double x = random_real() * 3;
            set(&v[i], j, role[i] == 's' ? fabs(x) + 0.5 : i == 3 ? x + 7 : x);
        }
    }
}

/* Row-major number of element i of channel k. */
static int64_t element(wf_dims s, int64_t k, int64_t i)
{
    int64_t inner = 1;
    for (int d = 2; d < s.n; d++)
        inner *= s.d[d];
    return (i / inner * s.d[1] + k) * inner + i % inner;
}

static void equal(double is, double want, const char *what)
{
    if (!same(is, want)) {
        print_error("%s is %.17g, expected %.17g\n", what, is, want);
        fail();
    }
}

static void check_channel(const call *c, const tensor v[SLOTS], const bool there[SLOTS], int64_t k, channel *h)
{
    for (int64_t i = 0; i < h->n; i++) {
        h->x[i] = get(&v[3], element(c->s, k, i));
        h->dy[i] = c->kind == WFI_BATCHNORM_GRAD ? get(&v[4], element(c->s, k, i)) : 0;
    }
    if (c->kind == WFI_BATCHNORM_TRAIN) {
        h->gamma = there[4] ? get(&v[4], k) : 1, h->beta = there[5] ? get(&v[5], k) : 0;
        plain_train(h);
        equal(get(&v[1], k), h->mean, "the mean");
        equal(get(&v[2], k), h->var, "the variance");
    } else {
        h->mean = get(&v[5], k), h->var = get(&v[6], k), h->gamma = there[7] ? get(&v[7], k) : 1;
        plain_grad(h);
        equal(get(&v[1], k), h->dgamma, "the gradient of gamma");
        equal(get(&v[2], k), h->dbeta, "the gradient of beta");
    }
    for (int64_t i = 0; i < h->n; i++)
        equal(get(&v[0], element(c->s, k, i)), h->out[i], "an element");
}

static bool fma_in(int isa)
{
#ifdef __FMA__
    (void)isa;
    return true;
#else
    return isa > 0;
#endif
}

static void check(call c)
{
    int64_t rows = 1;
    for (int d = 0; d < c.s.n; d++)
        rows *= d == 1 ? 1 : c.s.d[d];
    double *room = malloc((size_t)(3 * rows + 1) * sizeof *room);
    for (int isa = 0; isa < ISAS; isa++)
        for (int l = 0; l < LAYOUTS && has_isa(isa); l++) {
            tensor v[SLOTS];
            bool there[SLOTS];
            build(&c, v, there, (enum layout)l);
            wfi_batchnorm_spec s = { .kind = c.kind, .threads = 1 + (l + isa) % 3, .eps = 1e-5 };
            void *args[SLOTS] = { NULL };
            for (int i = 0; i < SLOTS; i++) {
                s.v[i] = there[i] ? &v[i].v : NULL;
                args[i] = there[i] ? v[i].at : NULL;
            }
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            run_kernel(tables[isa]->run, params, args, scratch, s.threads);
            channel h = { .t = c.t, .fma = fma_in(isa), .n = rows, .eps = 1e-5 };
            h.x = room, h.dy = room + rows, h.out = room + 2 * rows;
            for (int64_t k = 0; k < c.s.d[1]; k++)
                check_channel(&c, v, there, k, &h);
            for (int i = 0; i < SLOTS; i++) {
                if (there[i] && outputs[c.kind][i] == 'o')
                    check_guard(&v[i]);
                if (there[i])
                    tensor_free(&v[i]);
            }
        }
    free(room);
}

static void shapes(void **state)
{
    (void)state;
    static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16 };
    const wf_dims sizes[] = { WF_DIMS(2, 3),          WF_DIMS(5, 33),        WF_DIMS(131, 7),       WF_DIMS(3, 19, 50),
                              WF_DIMS(3, 130, 9, 10), WF_DIMS(1, 5, 17, 16), WF_DIMS(2, 3, 4, 5, 7) };
    uint64_t seed = 2026;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int t = 0; t < 4; t++)
            for (int kind = 0; kind < 2; kind++)
                check((call){ .kind = (wfi_batchnorm_kind)kind,
                              .t = types[t],
                              .s = sizes[i],
                              .gamma = i % 3 != 1,
                              .beta = i % 2,
                              .seed = seed++ });
}

/* ---- plain arrays of f32 [n, c] ---- */

static void train(int isa, int64_t n, int64_t c, const float *x, double eps, float *y, float *mean, float *var)
{
    wfi_view rows = { WF_F32, 2, { n, c }, { c, 1 } }, line = { WF_F32, 1, { c }, { 1 } };
    wfi_batchnorm_spec s = { .threads = 2, .eps = eps, .v = { &rows, &line, &line, &rows } };
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    assert_null(tables[isa]->prepare(&s, params, &scratch));
    union {
        const float *in;
        float *out;
    } u = { x };
    run_kernel(tables[isa]->run, params, (void *[SLOTS]){ y, mean, var, u.out }, scratch, 2);
}

/* A large offset costs no digits; squares may leave the range of f32; y may lie on x. */
static void hard_numbers(void **state)
{
    (void)state;
    enum { N = 1000 };
    float x[N][3], y[N][3], mean[3], var[3];
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int i = 0; i < N; i++) {
            x[i][0] = (float)(1000 + (i * 37 % N) * 1e-5);
            x[i][1] = i % 2 ? 1e30f : -1e30f;
            x[i][2] = 1234;
        }
        long double m = 0, v = 0;
        for (int i = 0; i < N; i++)
            m += (long double)x[i][0] / N;
        for (int i = 0; i < N; i++)
            v += ((long double)x[i][0] - m) * ((long double)x[i][0] - m) / N;
        train(isa, N, 3, &x[0][0], 0, &y[0][0], mean, var);
        assert_true(fabsl((long double)mean[0] - m) < 4e-5L && fabsl((long double)var[0] / v - 1) < 1e-5L);
        for (int i = 0; i < N; i++) {
            assert_true(fabsl((long double)y[i][0] - ((long double)x[i][0] - m) / sqrtl(v)) < 1e-4L);
            assert_true(fabsf(y[i][1] - (i % 2 ? 1.0f : -1.0f)) < 1e-6f);
        }
        assert_true(mean[2] == 1234 && var[2] == 0);
        train(isa, N, 3, &x[0][0], 1e-5, &x[0][0], mean, var);
        assert_true(x[0][2] == 0 && x[N - 1][2] == 0);
    }
}

static void no_rows(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        float x[1] = { 3 }, mean[2] = { 0 }, var[2] = { 0 };
        train(isa, 0, 2, x, 1e-5, x, mean, var);
        assert_true(isnan(mean[0]) && isnan(mean[1]) && isnan(var[0]) && x[0] == 3);
        train(isa, 4, 0, x, 1e-5, x, mean, var);
        assert_true(x[0] == 3);
    }
}

static void declined(void **state)
{
    (void)state;
    wfi_view x = { WF_F32, 2, { 4, 3 }, { 3, 1 } }, c = { WF_F32, 1, { 3 }, { 1 } }, d = c, i = x, y = x;
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    wfi_batchnorm_spec s = { .threads = 1, .eps = 1e-5, .v = { &y, &c, &c, &x } };
    assert_null(tables[0]->prepare(&s, params, &scratch));
    d.dim[0] = 4;
    s.v[1] = &d;
    assert_non_null(tables[0]->prepare(&s, params, &scratch));
    s.v[1] = NULL;
    assert_non_null(tables[0]->prepare(&s, params, &scratch));
    s.v[1] = &c;
    i.dtype = WF_I32;
    s.v[3] = s.v[0] = &i;
    assert_non_null(tables[0]->prepare(&s, params, &scratch));
    s.v[3] = &x;
    assert_non_null(tables[0]->prepare(&s, params, &scratch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(hard_numbers),
        cmocka_unit_test(no_rows),
        cmocka_unit_test(declined),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
