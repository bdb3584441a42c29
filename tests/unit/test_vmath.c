/* Vector mathematics against libm in the next wider type and against NumPy's validation sets: the bounds that vmath.h
 * states, for every instruction set. WEFT_TEST_LONG=1 takes every 67th float instead of every 8191st. */
#include <float.h>
#include "layouts.h"
#include "kernel/ew/ew.h"

static const wfi_ew_kernels *const tables[ISAS] = ISA_TABLES(wfi_ew);

typedef long double wide;

static wide w_sigmoid(wide x)
{
    return x >= 0 ? 1 / (1 + expl(-x)) : expl(x) / (1 + expl(x));
}
static wide w_sech2(wide x)
{
    wide e = expl(-2 * fabsl(x));
    return 4 * e / ((1 + e) * (1 + e));
}
static wide w_softplus(wide x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}

/* row; reference; largest error in units of the last place, f32 and f64; how far subnormal results may be off */
typedef struct function {
    const char *name;
    int row;
    wide (*ref)(wide);
    double ulp32, ulp64, tiny;
} function;
static const function functions[] = {
    { "exp", WFI_ROWOF_exp, expl, 1.2, 1.0, 1 },
    { "expm1", WFI_ROWOF_expm1, expm1l, 1.9, 2.0, 1 },
    { "log", WFI_ROWOF_log, logl, 0.9, 1.0, 1 },
    { "log1p", WFI_ROWOF_log1p, log1pl, 2.5, 2.5, 1 },
    { "tanh", WFI_ROWOF_tanh, tanhl, 5.2, 3.0, 1 },
    { "sech2", WFI_ROWOF_sech2, w_sech2, 3.7, 4.0, 3 },
    { "sigmoid", WFI_ROWOF_sigmoid, w_sigmoid, 2.5, 2.5, 1 },
    { "softplus", WFI_ROWOF_softplus, w_softplus, 3.0, 3.0, 1 },
    { "erf", WFI_ROWOF_erf, erfl, 5.6, 2.0, 1 },
    { "sin", WFI_ROWOF_sin, sinl, 1.6, 2.8, 1 },
    { "cos", WFI_ROWOF_cos, cosl, 1.6, 2.8, 1 },
    { "sqrt", WFI_ROWOF_sqrt, sqrtl, 0.5, 0.501, 1 },
    { "floor", WFI_ROWOF_floor, floorl, 0, 0, 0 },
    { "ceil", WFI_ROWOF_ceil, ceill, 0, 0, 0 },
    { "round", WFI_ROWOF_round, nearbyintl, 0, 0, 0 },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions, BATCH = 512 };

/* The distance of y from r in units of the last place of a type with `bits` of mantissa and exponents from emin on;
 * -1 where their kinds differ: NaN, infinity, sign. */
static double ulps(wide y, wide r, int bits, int emin, wide largest)
{
    if (isnan(r) || isnan(y))
        return isnan(r) && isnan(y) ? 0 : -1;
    if (fabsl(r) > largest || isinf(y)) {
        wide unit = ldexpl(1, ilogbl(largest) + 1 - bits);
        return (isinf(y) && signbit(y) == signbit(r) && fabsl(r) > largest - 2 * unit) ||
                       (!isinf(y) && !isinf(r) && fabsl(r) <= largest + 2 * unit)
                   ? 0
                   : -1;
    }
    if (signbit(y) != signbit(r))
        return -1;
    int e = r == 0 ? emin : ilogbl(r);
    return (double)(fabsl(y - r) / ldexpl(1, (e < emin ? emin : e) - bits + 1));
}

static void check32(const function *f, int isa, const float *x, const float *y, int n)
{
    for (int i = 0; i < n; i++) {
        wide r = f->ref((wide)x[i]);
        double u = ulps((wide)y[i], r, 24, -126, (wide)FLT_MAX);
        double most = fabsl(r) < (wide)FLT_MIN ? fmax(f->tiny, f->ulp32) : f->ulp32;
        if (u < 0 || u > most)
            fail_msg("%s f32, set %d: at %.9g (%a) %.9g, exact %.12Lg: %.3f ulp", f->name, isa, (double)x[i],
                     (double)x[i], (double)y[i], r, u);
    }
}
static void check64(const function *f, int isa, const double *x, const double *y, int n)
{
    for (int i = 0; i < n; i++) {
        wide r = f->ref((wide)x[i]);
        double u = ulps((wide)y[i], r, 53, -1022, (wide)DBL_MAX);
        double most = fabsl(r) < (wide)DBL_MIN ? fmax(f->tiny, f->ulp64) : f->ulp64;
        if (u < 0 || u > most + 0x1p-9) /* the reference has 64 bits */
            fail_msg("%s f64, set %d: at %.17g (%a) %.17g, exact %.20Lg: %.3f ulp", f->name, isa, x[i], x[i], y[i], r,
                     u);
    }
}

static const double specials[] = { 0,        -0.,      INFINITY, -INFINITY, NAN,        1,       -1,     0.5,
                                   -0.5,     2,        3,        -3,        5e-324,     -5e-324, 1e-45,  -1e-45,
                                   88.72283, 88.7229,  -87.34,   -103.97,   -103.98,    -104,    709.78, 709.79,
                                   -708.4,   -745.1,   -745.2,   1e38,      -1e38,      3.4e38,  1e300,  -1e300,
                                   0x1p23,   0x1.8p22, 0x1p52,   9.01,      9.02,       3.92,    3.94,   20,
                                   -20,      1.5,      -1.5,     2.5,       0.49999997, 0x1p50,  0x1p75, 0x1p100 };

static void test_f32(void **state)
{
    (void)state;
    static float x[BATCH], y[BATCH];
    uint64_t step = getenv("WEFT_TEST_LONG") ? 67 : 8191;
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int f = 0; f < FUNCTIONS; f++) {
            for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += BATCH * step) {
                for (uint64_t i = 0; i < BATCH; i++)
                    memcpy(x + i, &(uint32_t){ (uint32_t)(bits + step * i) }, 4);
                for (size_t i = 0; bits == 0 && i < sizeof specials / sizeof *specials; i++)
                    x[i] = (float)specials[i];
                tables[isa]->fn[functions[f].row][WF_F32](y, x, NULL, NULL, BATCH, 0);
                check32(functions + f, isa, x, y, BATCH);
            }
        }
    }
}

static double random_double(int kind)
{
    uint64_t u = (uint64_t)random_bits() << 32 | random_bits();
    double x;
    if (kind == 1)
        return random_real() * (double)(1 << random_below(10));
    if (kind == 2) /* exponents from -52 to 11 */
        u = (u & 0x800fffffffffffffu) | (uint64_t)(971 + random_below(64)) << 52;
    memcpy(&x, &u, 8);
    return x;
}

static void test_f64(void **state)
{
    (void)state;
    static double x[BATCH], y[BATCH];
    int batches = getenv("WEFT_TEST_LONG") ? 4000 : 60;
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int f = 0; f < FUNCTIONS; f++) {
            for (int b = 0; b < batches; b++) {
                for (int i = 0; i < BATCH; i++)
                    x[i] = random_double(i % 3);
                for (size_t i = 0; b == 0 && i < sizeof specials / sizeof *specials; i++)
                    x[i] = specials[i];
                tables[isa]->fn[functions[f].row][WF_F64](y, x, NULL, NULL, BATCH, 0);
                check64(functions + f, isa, x, y, BATCH);
            }
        }
    }
}

/* ---- pow ---- */

static void test_pow(void **state)
{
    (void)state;
    static float x[BATCH], y[BATCH], z[BATCH];
    static double dx[BATCH], dy[BATCH], dz[BATCH];
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int b = 0; b < 200; b++) {
            for (int i = 0; i < BATCH; i++) {
                dx[i] = random_double(i % 3);
                dy[i] = i % 4 == 0 ? (double)(random_below(41) - 20) : random_double(1 + i % 2) * (i % 5 ? 1 : 0.01);
                x[i] = (float)(i % 4 ? fabs(dx[i]) : dx[i]);
                y[i] = (float)dy[i];
                dx[i] = i % 4 ? fabs(dx[i]) : dx[i];
            }
            tables[isa]->fn[WFI_ROWOF_pow][WF_F32](z, x, y, NULL, BATCH, 0);
            tables[isa]->fn[WFI_ROWOF_pow][WF_F64](dz, dx, dy, NULL, BATCH, 0);
            for (int i = 0; i < BATCH; i++) {
                double u = ulps((wide)z[i], powl((wide)x[i], (wide)y[i]), 24, -126, (wide)FLT_MAX);
                if (u < 0 || u > 0.51)
                    fail_msg("pow f32, set %d: %a ^ %a = %a, %.3f ulp", isa, (double)x[i], (double)y[i], (double)z[i],
                             u);
                u = ulps((wide)dz[i], powl((wide)dx[i], (wide)dy[i]), 53, -1022, (wide)DBL_MAX);
                if (u < 0 || u > 1.3)
                    fail_msg("pow f64, set %d: %a ^ %a = %a, %.3f ulp", isa, dx[i], dy[i], dz[i], u);
            }
        }
    }
}

/* The table of C11 F.10.4.4, which libm keeps. */
static void test_pow_ends(void **state)
{
    (void)state;
    static const double v[] = { 0, -0., INFINITY, -INFINITY, NAN,  1,     -1,    0.5,    -0.5, 2,    -2,
                                3, -3,  0x1p24,   16777217,  1e20, -1e20, 1e-40, -1e-40, 2.5,  -2.5, 1e-300 };
    enum { N = sizeof v / sizeof *v };
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                double z;
                float s, a = (float)v[i], b = (float)v[j];
                tables[isa]->fn[WFI_ROWOF_pow][WF_F64](&z, v + i, v + j, NULL, 1, 0);
                tables[isa]->fn[WFI_ROWOF_pow][WF_F32](&s, &a, &b, NULL, 1, 0);
                double want = pow(v[i], v[j]), want32 = (double)(float)pow((double)a, (double)b);
                if (!same(z, want) && !(fabs(z - want) <= 2e-16 * fabs(want)))
                    fail_msg("pow(%g, %g) f64 is %g, not %g", v[i], v[j], z, want);
                if (!same((double)s, want32) && !(fabs((double)s - want32) <= 1e-7 * fabs(want32)))
                    fail_msg("pow(%g, %g) f32 is %g, not %g", v[i], v[j], (double)s, want32);
            }
        }
    }
}

/* ---- gelu: an absolute bound ---- */

static void test_gelu(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (double v = -12; v < 12; v += 1. / 256) {
            const wide k = sqrtl(2 / acosl(-1)), phi = expl(-(wide)v * v / 2) * k / 2,
                       t = k * (v + 0.044715L * v * v * v);
            const wide s = w_sigmoid(2 * t), ct = 1 + 3 * 0.044715L * v * v, cdf = erfcl(-v / sqrtl(2)) / 2;
            const struct {
                int row;
                wide y;
            } g[] = { { WFI_ROWOF_gelu, v * cdf },
                      { WFI_ROWOF_gelu_grad, cdf + v * phi },
                      { WFI_ROWOF_gelu_tanh, v * s },
                      { WFI_ROWOF_gelu_tanh_grad, s + v * w_sech2(t) / 2 * k * ct } };
            for (int i = 0; i < 4; i++) {
                float x = (float)v, y;
                double z;
                tables[isa]->fn[g[i].row][WF_F32](&y, &x, NULL, NULL, 1, 0);
                tables[isa]->fn[g[i].row][WF_F64](&z, &v, NULL, NULL, 1, 0);
                assert_true(fabsl((wide)y - g[i].y) < 4e-7L * fmaxl(1, fabsl(v)));
                assert_true(fabsl((wide)z - g[i].y) < 6e-16L * fmaxl(1, fabsl(v)));
            }
        }
    }
}

/* ---- NumPy's sets ---- */

static void numpy_line(const function *f, int isa, const char *type, uint64_t in, uint64_t out)
{
    if (strcmp(type, "np.float32") == 0) {
        uint32_t a = (uint32_t)in, b = (uint32_t)out;
        float x, r, y;
        memcpy(&x, &a, 4);
        memcpy(&r, &b, 4);
        tables[isa]->fn[f->row][WF_F32](&y, &x, NULL, NULL, 1, 0);
        double u = ulps((wide)y, (wide)r, 24, -126, (wide)FLT_MAX); /* r is rounded: half a unit more */
        if (u < 0 || u > f->ulp32 + 0.5)
            fail_msg("%s(%a) is %a, NumPy says %a", f->name, (double)x, (double)y, (double)r);
    } else {
        double x, r, y;
        memcpy(&x, &in, 8);
        memcpy(&r, &out, 8);
        tables[isa]->fn[f->row][WF_F64](&y, &x, NULL, NULL, 1, 0);
        double u = ulps((wide)y, (wide)r, 53, -1022, (wide)DBL_MAX);
        if (u < 0 || u > f->ulp64 + 0.5)
            fail_msg("%s(%a) is %a, NumPy says %a", f->name, x, y, r);
    }
}

static void test_numpy(void **state)
{
    (void)state;
    int lines = 0;
    for (int f = 0; f < FUNCTIONS; f++) {
        char path[512], line[256];
        snprintf(path, sizeof path, WEFT_TEST_DATA "/numpy/%s.csv", functions[f].name);
        FILE *file = fopen(path, "r");
        if (!file)
            continue;
        while (fgets(line, sizeof line, file)) {
            char type[32];
            unsigned long long in, out;
            if (sscanf(line, "%31[^,],%llx,%llx", type, &in, &out) != 3)
                continue;
            for (int isa = 0; isa < ISAS && has_isa(isa); isa++)
                numpy_line(functions + f, isa, type, in, out);
            lines++;
        }
        fclose(file);
    }
    assert_true(lines > 1500);
}

int main(void)
{
    random_state = 20250809;
    printf("seed %llu\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f32),      cmocka_unit_test(test_f64),  cmocka_unit_test(test_pow),
        cmocka_unit_test(test_pow_ends), cmocka_unit_test(test_gelu), cmocka_unit_test(test_numpy),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
