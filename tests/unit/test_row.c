/* Softmax, cross entropy and layer norm: against doubles within stated bounds, the bits equal for every layout and
 * number of threads; what needs no exp also against plain loops in the stated order. */
#include "layouts.h"
#include "kernel/row/row.h"

static const wfi_row_kernels *const tables[ISAS] = ISA_TABLES(wfi_row);
enum { SLOTS = WFI_ROW_SLOTS };

/* Relative error allowed for results of size 1: a few roundings of the type. */
static double eps_of(wf_dtype t)
{
    return t == WF_F64 ? 1e-14 : t == WF_F32 ? 4e-6 : t == WF_F16 ? 1.5e-3 : 1.2e-2;
}

/* ---- references in double: one row ---- */

typedef struct given {
    int64_t n, label;
    bool counts;
    double x[400], y[400], dy[400], gamma[400], beta[400], g, smoothing, eps;
    double out[400], mean, rstd, loss;
} given;

static double log_sum(const given *r, double *m)
{
    double s = 0;
    *m = -INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        *m = fmax(*m, r->x[i]);
    }
    for (int64_t i = 0; i < r->n; i++) {
        s += exp(r->x[i] - *m);
    }
    return log(s);
}

static void moments(given *r)
{
    double mean = 0, v = 0;
    for (int64_t i = 0; i < r->n; i++) {
        mean += r->x[i] / (double)r->n;
    }
    for (int64_t i = 0; i < r->n; i++) {
        v += (r->x[i] - mean) * (r->x[i] - mean) / (double)r->n;
    }
    r->mean = mean, r->rstd = 1 / sqrt(v + r->eps);
}

static void reference(wfi_row_kind k, given *r)
{
    double m = 0, l = 0, s = 0, t = 0, a = r->smoothing, n = (double)r->n;
    if (k == WFI_ROW_SOFTMAX || k == WFI_ROW_LOG_SOFTMAX || k == WFI_ROW_XENT || k == WFI_ROW_XENT_GRAD) {
        l = log_sum(r, &m);
    }
    if (k == WFI_ROW_NORM || k == WFI_ROW_NORM_GRAD) {
        moments(r);
    }
    for (int64_t i = 0; i < r->n; i++) {
        double g = r->dy[i] * r->gamma[i];
        s += k == WFI_ROW_SOFTMAX_GRAD ? r->y[i] * r->dy[i] : k == WFI_ROW_LOG_SOFTMAX_GRAD ? r->dy[i] : g;
        t += k == WFI_ROW_XENT ? r->x[i] - m : g * (r->x[i] - r->mean) * r->rstd;
    }
    for (int64_t i = 0; i < r->n; i++) {
        double h = (r->x[i] - r->mean) * r->rstd;
        switch (k) {
        case WFI_ROW_SOFTMAX: r->out[i] = exp(r->x[i] - m - l); break;
        case WFI_ROW_LOG_SOFTMAX: r->out[i] = r->x[i] - m - l; break;
        case WFI_ROW_SOFTMAX_GRAD: r->out[i] = r->y[i] * (r->dy[i] - s); break;
        case WFI_ROW_LOG_SOFTMAX_GRAD: r->out[i] = r->dy[i] - exp(r->y[i]) * s; break;
        case WFI_ROW_XENT_GRAD:
            r->out[i] = r->counts ? r->g * (exp(r->x[i] - m - l) - (i == r->label) * (1 - a) - a / n) : 0;
            break;
        case WFI_ROW_NORM: r->out[i] = h * r->gamma[i] + r->beta[i]; break;
        default: r->out[i] = r->rstd * (r->dy[i] * r->gamma[i] - s / n - h * t / n); break;
        }
    }
    if (k == WFI_ROW_XENT) {
        r->loss = r->counts ? (1 - a) * (l - (r->x[r->label] - m)) + a * (l - t / n) : 0;
    }
}

/* ---- one call over all rows ---- */

typedef struct call {
    wfi_row_kind kind;
    wf_dtype t;
    wf_dims s;
    int axis;
    bool gamma, beta, stats, smooth;
    uint64_t seed;
} call;

/* A row of which operand is where: see row.h. */
static const char *const roles[WFI_ROW_COUNT] = { "YX", "YXX", "YX", "YXX", "yyXL", "YXLx", "YyyXvv", "YXvX", "ggXX" };

static wf_dims without(wf_dims s, int axis, bool keep)
{
    wf_dims r = { 0, { 0 } };
    for (int d = 0; d < s.n; d++) {
        if (d != axis || keep) {
            r.d[r.n++] = d == axis ? 1 : s.d[d];
        }
    }
    return r;
}

static void build(const call *c, tensor v[SLOTS], bool there[SLOTS], enum layout l, bool keep)
{
    random_state = c->seed;
    for (int i = 0; i < SLOTS; i++) {
        there[i] = false;
        v[i].memory = NULL;
    }
    for (int i = 0; roles[c->kind][i]; i++) {
        char role = roles[c->kind][i];
        if ((role == 'v' && !(i == 5 ? c->beta : c->gamma)) || (role == 'y' && i > 0 && !c->stats)) {
            continue;
        }
        bool column = role == 'v' || role == 'g', line = role == 'X' || role == 'Y';
        there[i] = true;
        v[i] = tensor_new(role == 'L' ? (c->s.n % 2 ? WF_I32 : WF_I64) : c->t,
                          column ? WF_DIMS(c->s.d[c->axis])
                          : line ? c->s
                                 : without(c->s, c->axis, keep),
                          column ? (l == SLICED ? SLICED : ROWS) : l);
        int64_t n = elements(&v[i].v);
        for (int64_t j = 0; j < n; j++) {
            double x = role == 'L' ? (double)(random_below(8) ? random_below(c->s.d[c->axis]) : -100) : random_real();
            if (role == 'X') {
                x *= c->kind == WFI_ROW_LOG_SOFTMAX_GRAD ? 3 : 6;
                x += c->kind >= WFI_ROW_NORM ? 3 : 0;
            }
            set(&v[i], j, role == 'x' && random_below(5) == 0 ? 0 : x);
        }
    }
}

/* Row-major number of element i of row r. */
static int64_t element(wf_dims s, int axis, int64_t r, int64_t i)
{
    int64_t inner = 1;
    for (int d = axis + 1; d < s.n; d++) {
        inner *= s.d[d];
    }
    return (r / inner * s.d[axis] + i) * inner + r % inner;
}

static void gather(const call *c, const tensor v[SLOTS], int64_t r, given *g)
{
    const char *role = roles[c->kind];
    int first = c->kind == WFI_ROW_XENT ? 2 : c->kind == WFI_ROW_NORM ? 3 : 1;
    int second = c->kind == WFI_ROW_NORM_GRAD ? 3 : 2;
    g->n = c->s.d[c->axis], g->smoothing = c->smooth ? 0.1 : 0, g->eps = 1e-5, g->counts = true;
    for (int64_t i = 0; i < g->n; i++) {
        int64_t e = element(c->s, c->axis, r, i);
        g->x[i] = g->y[i] = get(&v[first], e);
        g->dy[i] = role[second] == 'X' ? get(&v[second], e) : 0;
        int gi = c->kind == WFI_ROW_NORM ? 4 : 2;
        g->gamma[i] = (c->kind == WFI_ROW_NORM || c->kind == WFI_ROW_NORM_GRAD) && c->gamma ? get(&v[gi], i) : 1;
        g->beta[i] = c->kind == WFI_ROW_NORM && c->beta ? get(&v[5], i) : 0;
    }
    for (int i = 0; role[i]; i++) {
        if (role[i] == 'L') {
            g->label = (int64_t)get(&v[i], r);
            g->counts = g->label >= 0;
        } else if (role[i] == 'x') {
            g->g = get(&v[i], r);
        }
    }
}

static void near(double is, double want, double eps, double size)
{
    if (!(same(is, want) || fabs(is - want) <= eps * (size + fabs(want)))) {
        print_error("%.17g, expected %.17g\n", is, want);
        fail();
    }
}

static void check_rows(const call *c, const tensor v[SLOTS], const bool there[SLOTS])
{
    int64_t rows = 1, n = c->s.d[c->axis];
    for (int d = 0; d < c->s.n; d++) {
        rows *= d == c->axis ? 1 : c->s.d[d];
    }
    double eps = eps_of(c->t);
    given *g = calloc(1, sizeof *g);
    for (int64_t r = 0; r < rows; r++) {
        gather(c, v, r, g);
        reference(c->kind, g);
        if (c->kind == WFI_ROW_XENT) {
            near(get(&v[0], r), g->loss, eps, 1);
            assert_true(!there[1] || get(&v[1], r) == g->counts);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            double size = c->kind == WFI_ROW_NORM ? 8 : c->kind == WFI_ROW_NORM_GRAD ? 8 + 8 * g->rstd : 2;
            size = c->kind == WFI_ROW_SOFTMAX_GRAD || c->kind == WFI_ROW_LOG_SOFTMAX_GRAD ? 30 : size; /* long sums */
            if (c->kind == WFI_ROW_SOFTMAX) {
                size = c->t == WF_F16 ? 1e-4 : 1e-30; /* f16 has subnormal results here */
            }
            near(get(&v[0], element(c->s, c->axis, r, i)), g->out[i], eps, size);
        }
        if (c->kind == WFI_ROW_NORM && c->stats) {
            near(get(&v[1], r), g->mean, eps, 1);
            near(get(&v[2], r), g->rstd, eps, 1);
        }
    }
    free(g);
}

/* All layouts, threads and instruction sets; in one set the bits must agree. */
static void check(call c)
{
    if (c.s.d[c.axis] == 0) {
        return;
    }
    for (int isa = 0; isa < ISAS; isa++) {
        double *bits[3] = { NULL, NULL, NULL };
        for (int l = 0; l < LAYOUTS && has_isa(isa); l++) {
            tensor v[SLOTS];
            bool there[SLOTS];
            build(&c, v, there, (enum layout)l, l % 2);
            wfi_row_spec s = { .kind = c.kind,
                               .axis = c.axis,
                               .threads = 1 + l % 3,
                               .ignore = -100,
                               .eps = 1e-5,
                               .smoothing = c.smooth ? 0.1 : 0 };
            void *args[SLOTS] = { NULL };
            for (int i = 0; i < SLOTS; i++) {
                s.v[i] = there[i] ? &v[i].v : NULL;
                args[i] = there[i] ? v[i].at : NULL;
            }
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            wfi_fault f = run_kernel(tables[isa]->run, params, args, scratch, s.threads);
            assert_int_equal(f.set, 0);
            check_rows(&c, v, there);
            for (int o = 0; o < 3; o++) {
                if (!there[o] || strchr("Yyg", roles[c.kind][o]) == NULL) {
                    continue;
                }
                int64_t n = elements(&v[o].v);
                bits[o] = bits[o] ? bits[o] : NULL;
                if (!bits[o]) {
                    bits[o] = malloc((size_t)n * sizeof(double));
                    for (int64_t i = 0; i < n; i++) {
                        bits[o][i] = get(&v[o], i);
                    }
                }
                for (int64_t i = 0; i < n; i++) {
                    assert_true(same(get(&v[o], i), bits[o][i]));
                }
                check_guard(&v[o]);
            }
            for (int i = 0; i < SLOTS; i++) {
                free(v[i].memory);
            }
        }
        free(bits[0]), free(bits[1]), free(bits[2]);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16 };
    uint64_t seed = 4711;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int k = 0; k < WFI_ROW_NORM_PARAM_GRAD; k++) {
        for (int t = 0; t < 4; t++) {
            call c = {
                .kind = (wfi_row_kind)k, .t = types[t], .seed = seed++, .gamma = true, .beta = true, .stats = true
            };
            c.s = WF_DIMS(37, 70), c.axis = 1;
            check(c);
            c.s = WF_DIMS(19, 35), c.axis = 0, c.gamma = false;
            check(c);
            c.s = WF_DIMS(3, 33, 5, 4), c.axis = 1, c.smooth = true, c.gamma = true, c.beta = false;
            check(c);
            c.s = WF_DIMS(2, 3, 100), c.axis = 2, c.stats = false, c.gamma = false;
            check(c);
        }
    }
}

static void test_lengths(void **state)
{
    (void)state;
    static const int64_t n[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300 };
    for (size_t i = 0; i < sizeof n / sizeof n[0]; i++) {
        for (int k = 0; k < WFI_ROW_NORM_PARAM_GRAD; k++) {
            if (n[i] == 1 && k >= WFI_ROW_NORM) {
                continue; /* one element has no deviation: nothing but rounding left to compare */
            }
            check((call){ .kind = (wfi_row_kind)k,
                          .t = i % 2 ? WF_F32 : WF_F64,
                          .s = WF_DIMS(4, n[i]),
                          .axis = 1,
                          .seed = i,
                          .gamma = i % 3,
                          .beta = i % 3 > 1,
                          .stats = true });
        }
    }
}

/* ---- plain arrays ---- */

static wfi_fault plain(int isa, wfi_row_spec s, int64_t rows, int64_t n, void *const *args)
{
    static const wf_dtype t = WF_F32;
    wfi_view line = { t, 2, { rows, n }, { n, 1 } }, side = { t, 1, { rows }, { 1 } }, column = { t, 1, { n }, { 1 } };
    wfi_view label = { WF_I64, 1, { rows }, { 1 } };
    for (int i = 0; roles[s.kind][i]; i++) {
        char role = roles[s.kind][i];
        s.v[i] = !args[i]                     ? NULL
                 : role == 'X' || role == 'Y' ? &line
                 : role == 'v' || role == 'g' ? &column
                 : role == 'L'                ? &label
                                              : &side;
    }
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    s.axis = 1;
    s.threads = 2;
    assert_null(tables[isa]->prepare(&s, params, &scratch));
    return run_kernel(tables[isa]->run, params, args, scratch, 2);
}

/* exp of a row minus its maximum has the bits of the general exp: softmax of (0, x) is e * (1 / (1 + e)), and the
 * gradient of log softmax at y = x, dy = (-1, 0) is exp(x). */
static void test_exp_bits(void **state)
{
    (void)state;
    enum { N = 20000 };
    float *x = malloc(2 * N * sizeof *x), *dy = malloc(2 * N * sizeof *dy), *y = malloc(2 * N * sizeof *y),
          *e = malloc(2 * N * sizeof *e);
    for (int i = 0; i < N; i++) {
        x[2 * i] = 0, x[2 * i + 1] = -110.f * (float)i / N;
        dy[2 * i] = -1, dy[2 * i + 1] = 0;
    }
    x[1] = -0.f, x[3] = -INFINITY, x[5] = -1e30f, x[7] = -103.972084f, x[9] = -103.97209f, x[11] = -104.5f,
    x[13] = -1e-30f;
    for (int isa = 0; isa < ISAS; isa++) {
        if (has_isa(isa)) {
            plain(isa, (wfi_row_spec){ .kind = WFI_ROW_SOFTMAX }, N, 2, (void *[SLOTS]){ y, x });
            plain(isa, (wfi_row_spec){ .kind = WFI_ROW_LOG_SOFTMAX_GRAD }, N, 2, (void *[SLOTS]){ e, x, dy });
            for (int i = 0; i < N; i++) {
                float v = e[2 * i + 1], s = 1.f / (1.f + v);
                assert_true(y[2 * i + 1] == v * s && y[2 * i] == s);
            }
        }
    }
    free(x), free(dy), free(y), free(e);
}

/* Plain loops in the stated order; the fused product is one rounding where the instruction set has it. */
static float fused(int isa, float a, float b, float c)
{
    return isa ? fmaf(a, b, c) : a * b + c;
}
static float tree(float *lane)
{
    for (int s = 16; s >= 1; s /= 2) {
        for (int i = 0; i < s; i++) {
            lane[i] += lane[i + s];
        }
    }
    return lane[0];
}
/* sum over n <= 65536 of a, or of a * b, or of a * a fused (b == a) */
static float sum(int isa, const float *a, const float *b, int64_t n)
{
    float lane[32] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        lane[i % 32] = b == a ? fused(isa, a[i], a[i], lane[i % 32]) : lane[i % 32] + (b ? a[i] * b[i] : a[i]);
    }
    return tree(lane);
}

static void test_order(void **state)
{
    (void)state;
    enum { N = 1500, ROWS_ = 3 };
    float x[ROWS_ * N], dy[ROWS_ * N], gamma[N], beta[N], y[ROWS_ * N], dx[ROWS_ * N], d[N], g[N], h[N];
    random_state = 99;
    for (int i = 0; i < ROWS_ * N; i++) {
        x[i] = (float)random_real() * 3 + 100, dy[i] = (float)random_real();
        gamma[i % N] = (float)random_real(), beta[i % N] = (float)random_real();
    }
    for (int isa = 0; isa < ISAS; isa++) {
        if (!has_isa(isa)) {
            continue;
        }
        wfi_row_spec s = { .kind = WFI_ROW_SOFTMAX_GRAD, .eps = 1e-5 };
        plain(isa, s, ROWS_, N, (void *[SLOTS]){ dx, x, dy });
        for (int i = 0; i < ROWS_ * N; i++) {
            const float *p = x + i / N * N, *q = dy + i / N * N;
            assert_true(i % 97 || dx[i] == x[i] * (dy[i] - sum(isa, q, p, N)));
        }
        s.kind = WFI_ROW_NORM;
        plain(isa, s, ROWS_, N, (void *[SLOTS]){ y, NULL, NULL, x, gamma, beta });
        s.kind = WFI_ROW_NORM_GRAD;
        plain(isa, s, ROWS_, N, (void *[SLOTS]){ dx, x, gamma, dy });
        for (int r = 0; r < ROWS_; r++) {
            const float *p = x + r * N;
            float first = sum(isa, p, NULL, N) / N;
            for (int i = 0; i < N; i++) {
                d[i] = p[i] - first, g[i] = dy[r * N + i] * gamma[i];
            }
            float off = sum(isa, d, NULL, N) / N, variance = (sum(isa, d, d, N) - sum(isa, d, NULL, N) * off) / N;
            float rstd = 1 / sqrtf(variance + 1e-5f), shift = -(off * rstd);
            for (int i = 0; i < N; i++) {
                h[i] = fused(isa, d[i], rstd, shift);
                assert_true(y[r * N + i] == fused(isa, h[i], gamma[i], beta[i]));
            }
            float a = sum(isa, g, NULL, N) / N, b = sum(isa, g, h, N) / N;
            for (int i = 0; i < N; i++) {
                assert_true(dx[r * N + i] == fused(isa, h[i], -b, g[i] - a) * rstd);
            }
        }
    }
}

/* dgamma and dbeta: sums over rows, blocks of 65,536 rows, 32 lanes by row number. */
static void test_norm_params(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = { { 5, 7 }, { 100, 130 }, { 33, 300 }, { 65540, 3 }, { 1, 40 } };
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        int64_t rows = sizes[k][0], n = sizes[k][1], total = rows * n;
        float *x = malloc((size_t)total * 4), *dy = malloc((size_t)total * 4), *h = malloc((size_t)total * 4);
        float *dg = malloc((size_t)n * 4), *db = malloc((size_t)n * 4), *only = malloc((size_t)n * 4);
        for (int64_t i = 0; i < total; i++) {
            x[i] = (float)random_real(), dy[i] = (float)random_real();
        }
        for (int isa = 0; isa < ISAS; isa++) {
            if (!has_isa(isa)) {
                continue;
            }
            wfi_row_spec s = { .kind = WFI_ROW_NORM, .eps = 1e-5 };
            plain(isa, s, rows, n, (void *[SLOTS]){ h, NULL, NULL, x });
            s.kind = WFI_ROW_NORM_PARAM_GRAD;
            plain(isa, s, rows, n, (void *[SLOTS]){ dg, db, x, dy });
            plain(isa, s, rows, n, (void *[SLOTS]){ NULL, only, x, dy });
            assert_memory_equal(db, only, (size_t)n * 4);
            for (int64_t c = 0; c < n; c++) {
                float part[2][32] = { { 0 } };
                for (int64_t b = 0; b * 65536 < rows; b++) {
                    float lane[2][32] = { { 0 } };
                    for (int64_t r = b * 65536; r < rows && r < (b + 1) * 65536; r++) {
                        float v = dy[r * n + c];
                        lane[0][r % 32] = fused(isa, v, h[r * n + c], lane[0][r % 32]);
                        lane[1][r % 32] += v;
                    }
                    part[0][b] = 0 + tree(lane[0]), part[1][b] = 0 + tree(lane[1]);
                }
                assert_true(dg[c] == tree(part[0]) && db[c] == tree(part[1]));
            }
        }
        free(x), free(dy), free(h), free(dg), free(db), free(only);
    }
}

/* ---- cases ---- */

/* C08, C09 */
static void test_norm_cases(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS; isa++) {
        if (!has_isa(isa)) {
            continue;
        }
        wfi_row_spec s = { .kind = WFI_ROW_NORM, .eps = 1e-5 };
        float a[4] = { 40000, 40001, 40002, 40003 }, b[256], c[16], d[2] = { 1e30f, -1e30f }, y[256], mean, rstd;
        static const double want[4] = { -1.341635, -0.447212, 0.447212, 1.341635 };
        plain(isa, s, 1, 4, (void *[SLOTS]){ y, NULL, NULL, a });
        for (int i = 0; i < 4; i++) {
            assert_true(fabs((double)y[i] - want[i]) < 1e-5);
        }
        for (int i = 0; i < 256; i++) {
            b[i] = 1234;
        }
        plain(isa, s, 1, 256, (void *[SLOTS]){ y, NULL, NULL, b });
        for (int i = 0; i < 256; i++) {
            assert_true(y[i] == 0);
        }
        for (int i = 0; i < 16; i++) {
            c[i] = (float)(1000 + i * 0.001);
        }
        plain(isa, s, 1, 16, (void *[SLOTS]){ y, NULL, NULL, c });
        assert_true(fabs((double)y[0] + 1.34151) < 2e-3 && fabs((double)y[15] - 1.34424) < 2e-3);
        plain(isa, s, 1, 2, (void *[SLOTS]){ y, &mean, &rstd, d });
        assert_true(y[0] == 1 && y[1] == -1 && mean == 0);
        float dy[2] = { 1, 2 }, big[3] = { 3e38f, 3e38f, -3e38f };
        s.kind = WFI_ROW_NORM_GRAD;
        plain(isa, s, 1, 2, (void *[SLOTS]){ y, d, NULL, dy });
        assert_true(y[0] == 0 && y[1] == 0); /* 1e-30 * (dy - mean - h * mean): no NaN */
        s.kind = WFI_ROW_NORM;
        plain(isa, s, 1, 3, (void *[SLOTS]){ y, &mean, NULL, big });
        assert_true(fabs((double)y[0] - 0.70710678) < 1e-6 && fabs((double)mean - 1e38) < 1e32);
    }
}

/* C16 and a wrong label */
static void test_xent_cases(void **state)
{
    (void)state;
    enum { V = 100000 };
    float *x = malloc(V * sizeof *x), *dx = malloc(V * sizeof *dx), loss, weight, g = 1;
    for (int isa = 0; isa < ISAS; isa++) {
        if (!has_isa(isa)) {
            continue;
        }
        int64_t label = 50000;
        for (int i = 0; i < V; i++) {
            x[i] = -INFINITY, dx[i] = 7;
        }
        x[label] = 10;
        wfi_row_spec s = { .kind = WFI_ROW_XENT, .ignore = -100 };
        plain(isa, s, 1, V, (void *[SLOTS]){ &loss, &weight, x, &label });
        assert_true(loss == 0 && weight == 1);
        s.kind = WFI_ROW_XENT_GRAD;
        plain(isa, s, 1, V, (void *[SLOTS]){ dx, x, &label, &g });
        for (int i = 0; i < V; i++) {
            assert_true(dx[i] == 0);
        }
        float p[6] = { 1, 2, 3, NAN, NAN, NAN }, dp[6], l2[2], w2[2];
        int64_t labels[2] = { 1, -100 };
        s.kind = WFI_ROW_XENT;
        plain(isa, s, 2, 3, (void *[SLOTS]){ l2, w2, p, labels });
        assert_true(fabs((double)l2[0] - 1.40760596) < 1e-6 && l2[1] == 0 && w2[0] == 1 && w2[1] == 0);
        s.kind = WFI_ROW_XENT_GRAD;
        float g2[2] = { 0, 1 };
        plain(isa, s, 2, 3, (void *[SLOTS]){ dp, p, labels, g2 });
        for (int i = 0; i < 6; i++) {
            assert_true(dp[i] == 0);
        }
        for (int k = WFI_ROW_XENT; k <= WFI_ROW_XENT_GRAD; k++) {
            labels[1] = 3;
            s.kind = (wfi_row_kind)k;
            wfi_fault f = plain(isa, s, 2, 3,
                                k == WFI_ROW_XENT ? (void *[SLOTS]){ l2, NULL, p, labels }
                                                  : (void *[SLOTS]){ dp, p, labels, g2 });
            assert_true(f.set && f.status == WF_ERR_INDEX && f.value == 3 && f.position == 1 && f.size == 3);
            assert_true(l2[1] == 0 && dp[3] == 0);
        }
    }
    free(x), free(dx);
}

/* A masked row; rows longer than a block; in place; a result that is streamed. */
static void test_softmax_cases(void **state)
{
    (void)state;
    enum { N = 70000, R = 1100, C = 1024 };
    float *x = aligned_alloc(64, R * C * sizeof *x), *y = aligned_alloc(64, R * C * sizeof *y);
    for (int isa = 0; isa < ISAS; isa++) {
        if (!has_isa(isa)) {
            continue;
        }
        float m[3] = { -INFINITY, -INFINITY, -INFINITY }, out[3];
        plain(isa, (wfi_row_spec){ .kind = WFI_ROW_SOFTMAX }, 1, 3, (void *[SLOTS]){ out, m });
        assert_true(isnan(out[0]) && isnan(out[2]));
        for (int i = 0; i < N; i++) {
            x[i] = 5;
        }
        plain(isa, (wfi_row_spec){ .kind = WFI_ROW_SOFTMAX }, 1, N, (void *[SLOTS]){ y, x });
        for (int i = 0; i < N; i++) {
            assert_true(y[i] == 1.f / (float)N);
        }
        for (int i = 0; i < R * C; i++) {
            x[i] = (float)(i % 1013) * 0.01f;
        }
        for (int k = WFI_ROW_SOFTMAX; k <= WFI_ROW_NORM; k += WFI_ROW_NORM) {
            wfi_row_spec s = { .kind = (wfi_row_kind)k, .eps = 1e-5 };
            int in = k == WFI_ROW_NORM ? 3 : 1;
            void *all[SLOTS] = { y }, *part[SLOTS];
            all[in] = x;
            plain(isa, s, R, C, all);
            for (int r = 0; r < R; r += 100) {
                float line[C];
                memcpy(line, x + r * C, sizeof line);
                memset(part, 0, sizeof part);
                part[0] = line, part[in] = line;
                plain(isa, s, 1, C, part);
                assert_memory_equal(line, y + r * C, sizeof line);
            }
        }
    }
    free(x), free(y);
}

static void store_number(wf_dtype t, char *at, int64_t i, double v)
{
    float f = (float)v;
    memcpy(at + i * (t == WF_F64 ? 8 : 4), t == WF_F64 ? (const void *)&v : (const void *)&f, t == WF_F64 ? 8 : 4);
}
/* Rows of [rows / 5][5][n], a line of room after each five: of many sizes, with infinities, a NaN, and some that layer
 * norm computes in f64. */
static int64_t company_at(int64_t r, int64_t n)
{
    return r / 5 * 6 * n + r % 5 * n;
}
static void fill_company(wf_dtype t, char *x, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < n; i++) {
            double v = 3 * random_real() + (double)(r % 7) * 40 - 100;
            v = r % 11 == 5 ? v * 1e34 : v;
            store_number(t, x, company_at(r, n) + i, r % 13 == 7 && i % 5 ? -INFINITY : v);
        }
        if (r % 17 == 3) {
            store_number(t, x, company_at(r, n) + n / 2, r % 2 ? NAN : INFINITY);
        }
    }
}
static void same_rows(wf_dtype t, const char *a, const char *b, int64_t n, wfi_row_kind k, int64_t r)
{
    for (int64_t i = 0; i < n; i++) {
        const size_t e = t == WF_F64 ? 8 : 4;
        double x = t == WF_F64 ? ((const double *)(const void *)a)[i] : (double)((const float *)(const void *)a)[i];
        if (x != x ? isnan(t == WF_F64 ? ((const double *)(const void *)b)[i]
                                       : (double)((const float *)(const void *)b)[i])
                   : !memcmp(a + i * (int64_t)e, b + i * (int64_t)e, e)) {
            continue;
        }
        fail_msg("kind %d, row %lld of %lld, column %lld", (int)k, (long long)r, (long long)n, (long long)i);
    }
}
/* What a row becomes among others, whose results wait for it, has the bits that it has alone; in place too. */
static void company(int isa, wfi_row_kind kind, wf_dtype t, int64_t rows, int64_t n, bool in_place)
{
    const size_t e = t == WF_F64 ? 8 : 4, bytes = ((size_t)(rows / 5 * 6 * n) * e + 63) / 64 * 64;
    char *x = aligned_alloc(64, bytes), *y = aligned_alloc(64, bytes), *one = malloc((size_t)n * e);
    char *columns = aligned_alloc(64, ((size_t)n * e + 63) / 64 * 64);
    assert_true(x && y && one && columns);
    memset(x, 0, bytes);
    fill_company(t, x, rows, n);
    for (int64_t i = 0; i < n; i++) {
        store_number(t, columns, i, random_real());
    }
    wfi_view lines = { t, 3, { rows / 5, 5, n }, { 6 * n, n, 1 } }, line = { t, 3, { 1, 1, n }, { n, n, 1 } };
    wfi_view column = { t, 1, { n }, { 1 } };
    const int in = kind == WFI_ROW_NORM ? 3 : 1;
    memcpy(y, x, bytes);
    for (int64_t r = -1; /* all of them, then each */ r < rows; r++) {
        wfi_row_spec s = { .kind = kind, .axis = 2, .threads = 2, .eps = 1e-5 };
        void *args[SLOTS] = { r < 0 ? y : one };
        s.v[0] = s.v[in] = r < 0 ? &lines : &line;
        args[in] = r < 0 ? (in_place ? y : x) : x + company_at(r, n) * (int64_t)e;
        if (kind == WFI_ROW_NORM) {
            s.v[4] = s.v[5] = &column, args[4] = args[5] = columns;
        }
        char params[WFI_PARAMS_MAX];
        size_t scratch;
        assert_null(tables[isa]->prepare(&s, params, &scratch));
        run_kernel(tables[isa]->run, params, args, scratch, 2);
        if (r >= 0) {
            same_rows(t, y + company_at(r, n) * (int64_t)e, one, n, kind, r);
        }
    }
    free(x), free(y), free(one), free(columns);
}
static void test_company(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, n;
    } s[] = { { 1110, 1008 }, { 2100, 528 }, { 520, 2048 }, { 35, 77 }, { 10, 70000 } }; /* most of them streamed */
    static const wfi_row_kind kinds[] = { WFI_ROW_SOFTMAX, WFI_ROW_LOG_SOFTMAX, WFI_ROW_NORM };
    for (int isa = 0; isa < ISAS; isa++) {
        for (int q = 0; q < 5 && has_isa(isa); q++) {
            for (int k = 0; k < 3; k++) {
                company(isa, kinds[k], WF_F32, s[q].rows, s[q].n, k == 1);
                company(isa, kinds[k], WF_F64, s[q].rows / 10 * 5 + 5, s[q].n, k != 1);
            }
        }
    }
}

/* C14: no rows, and rows of nothing. */
static void test_empty(void **state)
{
    (void)state;
    float one = 3, side10[10], nan10[3][10];
    int64_t label = 0, labels10[10];
    for (int i = 0; i < 10; i++) {
        labels10[i] = -100, nan10[0][i] = nan10[1][i] = nan10[2][i] = side10[i] = 1;
    }
    for (int isa = 0; isa < ISAS; isa++) {
        for (int k = 0; k < WFI_ROW_COUNT && has_isa(isa); k++) {
            void *args[SLOTS] = { &one, &one, &one, &one, &one, &one };
            for (int i = 0; roles[k][i]; i++) {
                args[i] = roles[k][i] == 'L' ? (void *)&label : &one;
            }
            void *rows[SLOTS];
            for (int i = 0; roles[k][i]; i++) {
                rows[i] = roles[k][i] == 'L' ? (void *)labels10 : roles[k][i] == 'y' ? nan10[i] : side10;
            }
            plain(isa, (wfi_row_spec){ .kind = (wfi_row_kind)k, .ignore = -100 }, 10, 0, rows);
            assert_true(side10[0] == 1 && (k != WFI_ROW_XENT || (nan10[0][9] == 0 && nan10[1][9] == 0)));
            assert_true(k != WFI_ROW_NORM || (isnan(nan10[1][0]) && isnan(nan10[2][9])));
            wfi_view line = { WF_F32, 2, { 0, 5 }, { 5, 1 } }, side = { WF_F32, 1, { 0 }, { 1 } };
            wfi_view column = { WF_F32, 1, { 5 }, { 1 } }, labels = { WF_I64, 1, { 0 }, { 1 } };
            float sums[5] = { 1, 1, 1, 1, 1 };
            wfi_row_spec s = { .kind = (wfi_row_kind)k, .axis = 1, .threads = 1 };
            for (int i = 0; roles[k][i]; i++) {
                char r = roles[k][i];
                s.v[i] = r == 'X' || r == 'Y' ? &line : r == 'v' || r == 'g' ? &column : r == 'L' ? &labels : &side;
                args[i] = r == 'g' ? (void *)sums : args[i];
            }
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            run_kernel(tables[isa]->run, params, args, scratch, 1);
            assert_true(one == 3 && (k != WFI_ROW_NORM_PARAM_GRAD || (sums[0] == 0 && sums[4] == 0)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),      cmocka_unit_test(test_lengths),       cmocka_unit_test(test_exp_bits),
        cmocka_unit_test(test_order),      cmocka_unit_test(test_norm_params),   cmocka_unit_test(test_norm_cases),
        cmocka_unit_test(test_xent_cases), cmocka_unit_test(test_softmax_cases), cmocka_unit_test(test_company),
        cmocka_unit_test(test_empty),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
