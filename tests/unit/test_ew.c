/* Element-wise kernels: every row for every type against its reference in double, tails, single operands, layouts, in
 * place, threads, and the values where operators go wrong: NaN, infinities, signed zeros, ends of the whole numbers. */
#include "layouts.h"
#include "kernel/ew/ew.h"

static const wfi_ew_kernels *const tables[ISAS] = ISA_TABLES(wfi_ew);

/* ---- references: the ref column of elementwise.def ---- */

#define WFI_EW_REF(name, arity, ...)                                                                                   \
    static double ref_##name(double a, double b, double c)                                                             \
    {                                                                                                                  \
        (void)a, (void)b, (void)c;                                                                                     \
        return __VA_ARGS__;                                                                                            \
    }
#include "ew_ref.inc"
#undef WFI_EW_REF
static double (*const refs[WFI_ROWOF_COUNT])(double, double, double) = {
#define WFI_EW_REF(name, arity, ...) [WFI_ROWOF_##name] = ref_##name,
#include "ew_ref.inc"
#undef WFI_EW_REF
};

static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16, WF_I64, WF_I32, WF_U8, WF_BOOL };
enum { TYPES = sizeof types / sizeof *types };

static wf_dtype in_type(int row, int k, wf_dtype t)
{
    return tables[0]->row[row].cond && k == 0 ? WF_BOOL : t;
}
static wf_dtype out_type(int row, wf_dtype t)
{
    return tables[0]->row[row].to_bool ? WF_BOOL : t;
}

/* A value that operand k of the row makes sense for, exact in bf16. */
static double sample(int row, int k, wf_dtype t)
{
    double v = (double)(random_below(97) - 48) / 16;
    if (t == WF_BOOL)
        return (double)random_below(2);
    if (row == WFI_ROWOF_log || row == WFI_ROWOF_sqrt || row == WFI_ROWOF_rsqrt || row == WFI_ROWOF_log1p ||
        row == WFI_ROWOF_reciprocal || (row == WFI_ROWOF_pow && k == 0) || (row == WFI_ROWOF_div && k == 1) ||
        (row == WFI_ROWOF_zdiv && k == 1))
        v = fabs(v) + 0.5;
    if (t == WF_I64 || t == WF_I32)
        return (double)(row == WFI_ROWOF_div && k == 1 ? 1 + random_below(9) : random_below(201) - 100);
    if (t == WF_U8)
        return (double)(row == WFI_ROWOF_div && k == 1 ? 1 + random_below(9) : random_below(12));
    return v;
}

/* Whole numbers wrap. */
static double wrapped(wf_dtype t, double v)
{
    return t == WF_U8 ? (double)(uint8_t)(int64_t)v : t == WF_I32 || t == WF_I64 ? trunc(v) : v;
}

static bool close_to(int row, wf_dtype t, double got_value, double want)
{
    if (isnan(want) || isinf(want) || wf_dtype_bytes(t) == 1 || t == WF_I32 || t == WF_I64)
        return same(got_value, want) || (want == 0 && got_value == 0);
    double eps = t == WF_F64 ? 0x1p-53 : t == WF_F32 ? 0x1p-24 : t == WF_BF16 ? 0x1p-8 : 0x1p-11;
    double slack = row >= WFI_ROWOF_gelu && row <= WFI_ROWOF_gelu_tanh_grad ? 8 * eps : t == WF_F16 ? 0x1p-24 : 0;
    return fabs(got_value - want) <= (t == WF_F64 || t == WF_F32 ? 12 : 1.01) * eps * fabs(want) + slack;
}

typedef struct call {
    int row, arity;
    wf_dtype t;
    wfi_view in[3], y;
} call;

static void run_row(const wfi_ew_kernels *k, const call *c, void *y, void *const *in, int threads)
{
    wfi_ew p;
    size_t scratch = 1;
    const char *why = k->prepare(c->row, &c->y, c->in, &p, &scratch);
    if (why)
        fail_msg("%s, %s: %s", k->row[c->row].name, wf_dtype_name(c->t), why);
    assert_int_equal(scratch, 0);
    void *args[4] = { y, in[0], c->arity > 1 ? in[1] : NULL, c->arity > 2 ? in[2] : NULL };
    run_kernel(k->run, &p, args, 0, threads);
}

static void mismatch(const call *c, int isa, int64_t i, double is, double want)
{
    fail_msg("%s, %s, set %d: element %lld is %.17g, should be %.17g", tables[0]->row[c->row].name, wf_dtype_name(c->t),
             isa, (long long)i, is, want);
}

#define EVERY_ROW(c)                                                                                                   \
    for (int row_ = 0; row_ < WFI_ROWOF_COUNT; row_++)                                                                 \
        for (int t_ = 0; t_ < TYPES; t_++)                                                                             \
            if (tables[0]->fn[row_][types[t_]])                                                                        \
                for (call c = { .row = row_, .arity = tables[0]->row[row_].arity, .t = types[t_] }; c.t; c.t = 0)

/* ---- contiguous: every length around the vector widths, every set of single operands ---- */

enum { MOST = 300 };

static void fill_in(const call *c, unsigned char in[3][MOST * 8], int64_t n)
{
    for (int k = 0; k < c->arity; k++) {
        wf_dtype t = in_type(c->row, k, c->t);
        for (int64_t i = 0; i < n; i++)
            put(t, in[k] + i * (int64_t)type_bytes(t), sample(c->row, k, t));
    }
}
static double in_value(const call *c, unsigned char in[3][MOST * 8], int k, int64_t i, unsigned splat)
{
    wf_dtype t = in_type(c->row, k, c->t);
    return k < c->arity ? got(t, in[k] + (splat >> k & 1u ? 0 : i) * (int64_t)type_bytes(t)) : 0;
}

static void test_lengths(void **state)
{
    (void)state;
    static unsigned char in[3][MOST * 8], y[MOST * 8 + 64];
    EVERY_ROW(c)
    {
        wf_dtype ty = out_type(c.row, c.t);
        int64_t each = (int64_t)type_bytes(ty);
        for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
            for (int64_t n = 0; n <= 67; n += n == 67 ? 200 : 1) {
                for (unsigned splat = 0; splat < 1u << c.arity; splat++) {
                    if (n > 40 && n != 64 && n != 67 && splat)
                        continue;
                    int64_t m = n == 67 && isa != 0 ? MOST : n;
                    fill_in(&c, in, m > 0 ? m : 1);
                    memset(y, 0xa5, sizeof y);
                    tables[isa]->fn[c.row][c.t](y, in[0], in[1], in[2], m, splat);
                    for (int64_t i = 0; i < m; i++) {
                        double want =
                            wrapped(ty, refs[c.row](in_value(&c, in, 0, i, splat), in_value(&c, in, 1, i, splat),
                                                    in_value(&c, in, 2, i, splat)));
                        double is = got(ty, y + i * each);
                        if (!close_to(c.row, ty, is, want))
                            mismatch(&c, isa, i, is, want);
                    }
                    for (int64_t i = m * each; i < m * each + 32; i++)
                        assert_int_equal(y[i], 0xa5);
                }
            }
        }
    }
}

/* The place of an element in its vector changes no bit, nor do neighbours and being in place. */
static void test_same_bits(void **state)
{
    (void)state;
    static unsigned char in[3][MOST * 8], y[MOST * 8], one[8], z[MOST * 8];
    EVERY_ROW(c)
    {
        size_t each = type_bytes(out_type(c.row, c.t));
        for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
            wfi_ew_fn *fn = tables[isa]->fn[c.row][c.t];
            fill_in(&c, in, MOST);
            fn(y, in[0], in[1], in[2], MOST, 0);
            for (int64_t i = 0; i < MOST; i++) {
                unsigned char *p[3];
                for (int k = 0; k < 3; k++)
                    p[k] = in[k] + i * (int64_t)type_bytes(in_type(c.row, k, c.t));
                fn(one, p[0], p[1], p[2], 1, 0);
                if (memcmp(one, y + (size_t)i * each, each) != 0)
                    mismatch(&c, isa, i, got(out_type(c.row, c.t), one),
                             got(out_type(c.row, c.t), y + (size_t)i * each));
            }
            for (int k = 0; k < c.arity; k++) { /* onto operand k */
                if (in_type(c.row, k, c.t) != out_type(c.row, c.t))
                    continue;
                void *p[3] = { in[0], in[1], in[2] };
                memcpy(z, in[k], sizeof z);
                p[k] = z;
                fn(z, p[0], p[1], p[2], MOST, 0);
                assert_memory_equal(z, y, MOST * each);
            }
        }
    }
}

/* ---- layouts, broadcasting, threads ---- */

static wf_dims shape(int i)
{
    switch (i) {
    case 0: return WF_DIMS(2, 3, 5, 7);
    case 1: return WF_DIMS(3, 40, 33);
    case 2: return WF_DIMS(130, 3);
    case 3: return WF_DIMS(1, 17, 1, 40);
    case 4: return WF_DIMS(4, 0, 2);
    case 5: return WF_DIMS(600);
    default: return WF_NO_DIMS;
    }
}

/* Operand k repeats along the axes of the mask. */
static tensor operand(wf_dtype t, wf_dims s, enum layout l, unsigned mask)
{
    wf_dims small = s;
    for (int d = 0; d < s.n; d++)
        small.d[d] = mask >> d & 1u && s.d[d] > 0 ? 1 : s.d[d];
    tensor x = tensor_new(t, small, l);
    for (int d = 0; d < s.n; d++) {
        x.v.stride[d] = mask >> d & 1u ? 0 : x.v.stride[d];
        x.v.dim[d] = s.d[d];
    }
    return x;
}

static void test_layouts(void **state)
{
    (void)state;
    const int rows_tried[] = { WFI_ROWOF_add,   WFI_ROWOF_relu,  WFI_ROWOF_lt,
                               WFI_ROWOF_where, WFI_ROWOF_clamp, WFI_ROWOF_exp };
    const wf_dtype kinds[] = { WF_F32, WF_BF16, WF_F64, WF_U8 };
    const unsigned masks[] = { 0, 1, 2, 5, 8, 15, 6 };
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int trial = 0; trial < 3000; trial++) {
            call c = { .row = rows_tried[random_below(6)], .t = kinds[random_below(4)] };
            if (!tables[isa]->fn[c.row][c.t])
                continue;
            c.arity = tables[isa]->row[c.row].arity;
            wf_dims s = shape((int)random_below(7));
            tensor x[3] = { { .at = NULL } },
                   y = tensor_new(out_type(c.row, c.t), s, (enum layout)random_below(LAYOUTS));
            int64_t n = elements(&y.v);
            for (int k = 0; k < c.arity; k++) {
                wf_dtype t = in_type(c.row, k, c.t);
                x[k] = operand(t, s, (enum layout)random_below(LAYOUTS), masks[random_below(7)]);
                for (int64_t i = 0; i < n; i++)
                    set(&x[k], i, sample(c.row, k, t));
                c.in[k] = x[k].v;
            }
            c.y = y.v;
            run_row(tables[isa], &c, y.at, (void *[]){ x[0].at, x[1].at, x[2].at }, 1);
            for (int64_t i = 0; i < n; i++) {
                double a = get(&x[0], i), b = c.arity > 1 ? get(&x[1], i) : 0, d = c.arity > 2 ? get(&x[2], i) : 0;
                double want = wrapped(y.v.dtype, refs[c.row](a, b, d));
                if (!close_to(c.row, y.v.dtype, get(&y, i), want))
                    mismatch(&c, isa, i, get(&y, i), want);
            }
            check_guard(&y);
            tensor_free(&y);
            for (int k = 0; k < c.arity; k++)
                tensor_free(&x[k]);
        }
    }
}

/* The same bits for any number of threads, and on results that are too large for the caches. */
static void test_threads(void **state)
{
    (void)state;
    const int64_t sizes[][3] = { { 1, 1, 100003 }, { 37, 40, 70 }, { 500, 130, 3 }, { 3, 1024, 1100 } };
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int s = 0; s < 4; s++) {
            for (int l = 0; l < LAYOUTS; l++) {
                wf_dims d = WF_DIMS(sizes[s][0], sizes[s][1], sizes[s][2]);
                tensor a = tensor_new(WF_F32, d, (enum layout)l), b = operand(WF_F32, d, ROWS, 5u);
                tensor y = tensor_new(WF_F32, d, ROWS);
                int64_t n = elements(&y.v);
                for (int64_t i = 0; i < n; i++)
                    set(&a, i, (double)(i % 1013) * 0.01 - 5);
                for (int64_t i = 0; i < sizes[s][1]; i++)
                    set(&b, i * sizes[s][2], (double)i);
                call c = { WFI_ROWOF_mul, 2, WF_F32, { a.v, b.v }, y.v };
                for (int t = 1; t <= 3; t++) {
                    memset(y.at, 0, (size_t)n * 4);
                    run_row(tables[isa], &c, y.at, (void *[]){ a.at, b.at, NULL }, t);
                    for (int64_t i = 0; i < n; i++) {
                        if (get(&y, i) != (double)((float)get(&a, i) * (float)get(&b, i)))
                            mismatch(&c, isa, i, get(&y, i), get(&a, i) * get(&b, i));
                    }
                }
                check_guard(&y);
                tensor_free(&a);
                tensor_free(&b);
                tensor_free(&y);
            }
        }
    }
}

static void test_streaming(void **state)
{
    (void)state;
    enum { N = 3 * 1024 * 1024 + 5 };
    float *a = aligned_alloc(64, (N * 4 + 127) / 64 * 64), *b = aligned_alloc(64, (N * 4 + 127) / 64 * 64),
          *y = aligned_alloc(64, (N * 4 + 127) / 64 * 64);
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 997);
        b[i] = (float)(i % 13);
    }
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        wfi_view v = { WF_F32, 1, { N }, { 1 } };
        call c = { WFI_ROWOF_add, 2, WF_F32, { v, v }, v };
        y[N] = -1;
        run_row(tables[isa], &c, y, (void *[]){ a, b, NULL }, 1 + isa);
        for (int i = 0; i < N; i++)
            assert_true(y[i] == a[i] + b[i]);
        assert_true(y[N] == -1);
        run_row(tables[isa], &c, y, (void *[]){ y, b, NULL }, 2); /* in place */
        for (int i = 0; i < N; i++)
            assert_true(y[i] == a[i] + b[i] + b[i]);
    }
    free(a);
    free(b);
    free(y);
}

/* ---- values ---- */

typedef struct fact {
    int row;
    wf_dtype t;
    double a, b, c, y;
} fact;

static void test_values(void **state)
{
    (void)state;
    const double inf = INFINITY, nan_ = NAN, big = 9007199254740992.;
    const fact facts[] = {
        { WFI_ROWOF_zmul, WF_F32, 0, inf, 0, 0 },
        { WFI_ROWOF_zmul, WF_F64, 0, nan_, 0, 0 },
        { WFI_ROWOF_zmul, WF_F32, nan_, 0, 0, nan_ },
        { WFI_ROWOF_zdiv, WF_F32, 0, 0, 0, 0 },
        { WFI_ROWOF_zdiv, WF_F64, 2, 0, 0, inf },
        { WFI_ROWOF_gate, WF_F32, 3, 0, 0, 0 },
        { WFI_ROWOF_gate, WF_F32, inf, -1, 0, 0 },
        { WFI_ROWOF_gate, WF_F32, 3, nan_, 0, 3 },
        { WFI_ROWOF_relu, WF_F32, nan_, 0, 0, nan_ },
        { WFI_ROWOF_relu, WF_F32, -inf, 0, 0, 0 },
        { WFI_ROWOF_sign, WF_F32, nan_, 0, 0, nan_ },
        { WFI_ROWOF_sign, WF_F64, -0., 0, 0, -0. },
        { WFI_ROWOF_maximum, WF_F32, nan_, 1, 0, nan_ },
        { WFI_ROWOF_maximum, WF_F32, 1, nan_, 0, nan_ },
        { WFI_ROWOF_minimum, WF_F64, nan_, 1, 0, nan_ },
        { WFI_ROWOF_minimum, WF_F64, 1, nan_, 0, nan_ },
        { WFI_ROWOF_maximum, WF_F32, -0., 0, 0, 0 },
        { WFI_ROWOF_maximum, WF_F32, 0, -0., 0, 0 },
        { WFI_ROWOF_minimum, WF_F32, -0., 0, 0, -0. },
        { WFI_ROWOF_minimum, WF_F64, 0, -0., 0, -0. },
        { WFI_ROWOF_clamp, WF_F32, nan_, 0, 1, nan_ },
        { WFI_ROWOF_clamp, WF_F32, 5, 3, 1, 1 },
        { WFI_ROWOF_eq, WF_F32, nan_, nan_, 0, 0 },
        { WFI_ROWOF_ne, WF_F32, nan_, nan_, 0, 1 },
        { WFI_ROWOF_lt, WF_F32, nan_, 1, 0, 0 },
        { WFI_ROWOF_eq, WF_F32, 0, -0., 0, 1 },
        { WFI_ROWOF_isnan, WF_BF16, nan_, 0, 0, 1 },
        { WFI_ROWOF_isinf, WF_F16, -inf, 0, 0, 1 },
        { WFI_ROWOF_isinf, WF_F32, nan_, 0, 0, 0 },
        { WFI_ROWOF_isfinite, WF_F64, inf, 0, 0, 0 },
        { WFI_ROWOF_isfinite, WF_F32, 3e38, 0, 0, 1 },
        { WFI_ROWOF_round, WF_F32, 2.5, 0, 0, 2 },
        { WFI_ROWOF_round, WF_F64, -0.5, 0, 0, -0. },
        { WFI_ROWOF_ceil, WF_F32, -0.25, 0, 0, -0. },
        { WFI_ROWOF_floor, WF_F64, -1.5, 0, 0, -2 },
        { WFI_ROWOF_div, WF_I32, 7, 0, 0, 0 },
        { WFI_ROWOF_div, WF_I32, -7, 2, 0, -3 },
        { WFI_ROWOF_div, WF_I32, -0x1p31, -1, 0, -0x1p31 },
        { WFI_ROWOF_div, WF_I64, big, 0, 0, 0 },
        { WFI_ROWOF_div, WF_U8, 200, 0, 0, 0 },
        { WFI_ROWOF_add, WF_I32, 0x1p31 - 1, 1, 0, -0x1p31 },
        { WFI_ROWOF_mul, WF_I64, 0x1p62, 4, 0, 0 },
        { WFI_ROWOF_add, WF_U8, 250, 10, 0, 4 },
        { WFI_ROWOF_sub, WF_U8, 3, 5, 0, 254 },
        { WFI_ROWOF_neg, WF_I32, -0x1p31, 0, 0, -0x1p31 },
        { WFI_ROWOF_abs, WF_I32, -0x1p31, 0, 0, -0x1p31 },
        { WFI_ROWOF_abs, WF_F32, -0., 0, 0, 0 },
        { WFI_ROWOF_exp, WF_F32, -inf, 0, 0, 0 },
        { WFI_ROWOF_exp, WF_F32, 1000, 0, 0, inf },
        { WFI_ROWOF_log, WF_F32, 0, 0, 0, -inf },
        { WFI_ROWOF_log, WF_F64, -1, 0, 0, nan_ },
        { WFI_ROWOF_softplus, WF_F32, 1000, 0, 0, 1000 },
        { WFI_ROWOF_softplus, WF_F64, -1000, 0, 0, 0 },
        { WFI_ROWOF_tanh, WF_F32, -inf, 0, 0, -1 },
        { WFI_ROWOF_sech2, WF_F64, -1e8, 0, 0, 0 },
        { WFI_ROWOF_sigmoid, WF_F32, -inf, 0, 0, 0 },
        { WFI_ROWOF_gelu, WF_F32, -inf, 0, 0, -0. },
        { WFI_ROWOF_gelu, WF_F32, inf, 0, 0, inf },
        { WFI_ROWOF_gelu_tanh, WF_F32, -inf, 0, 0, -0. },
        { WFI_ROWOF_gelu_grad, WF_F64, inf, 0, 0, 1 },
        { WFI_ROWOF_gelu_tanh_grad, WF_F32, -inf, 0, 0, 0 },
        { WFI_ROWOF_pow, WF_F32, -2, 3, 0, -8 },
        { WFI_ROWOF_pow, WF_F32, 0, 0, 0, 1 },
        { WFI_ROWOF_pow, WF_F64, -2, 0.5, 0, nan_ },
        { WFI_ROWOF_pow, WF_F64, -0., -3, 0, -inf },
        { WFI_ROWOF_pow, WF_F32, nan_, 0, 0, 1 },
        { WFI_ROWOF_exp, WF_F16, 12, 0, 0, inf },
        { WFI_ROWOF_mul, WF_BF16, 0x1p127, 4, 0, inf },
        { WFI_ROWOF_add, WF_BF16, 1, 0x1p-8, 0, 1 },
        { WFI_ROWOF_add, WF_BF16, 1 + 0x1p-7, 0x1p-8, 0, 1 + 0x1p-6 },
        { WFI_ROWOF_where, WF_F32, 0, nan_, 3, 3 },
        { WFI_ROWOF_where, WF_I64, 1, -0x1p62, 3, -0x1p62 },
        { WFI_ROWOF_logical_not, WF_BOOL, 1, 0, 0, 0 },
        { WFI_ROWOF_logical_xor, WF_BOOL, 1, 1, 0, 0 },
        { WFI_ROWOF_logical_or, WF_BOOL, 1, 1, 0, 1 },
        { WFI_ROWOF_logical_and, WF_BOOL, 1, 0, 0, 0 },
    };
    for (size_t f = 0; f < sizeof facts / sizeof *facts; f++) {
        for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
            unsigned char in[3][33 * 8], y[33 * 8];
            const double v[3] = { facts[f].a, facts[f].b, facts[f].c };
            call c = { .row = facts[f].row, .t = facts[f].t };
            wf_dtype ty = out_type(c.row, c.t);
            for (int i = 0; i < 33; i++) {
                for (int k = 0; k < 3; k++)
                    put(in_type(c.row, k, c.t), in[k] + (size_t)i * type_bytes(in_type(c.row, k, c.t)), v[k]);
            }
            tables[isa]->fn[c.row][c.t](y, in[0], in[1], in[2], 33, 0);
            for (int i = 0; i < 33; i++) {
                double is = got(ty, y + (size_t)i * type_bytes(ty));
                if (!same(is, facts[f].y))
                    mismatch(&c, isa, (int64_t)f, is, facts[f].y);
            }
        }
    }
}

static void test_declined(void **state)
{
    (void)state;
    wfi_ew p;
    size_t scratch;
    wfi_view a = { WF_F32, 1, { 4 }, { 1 } }, b = { WF_F32, 1, { 5 }, { 1 } }, i = { WF_I32, 1, { 4 }, { 1 } }, z = a;
    z.stride[0] = 0;
    const wfi_ew_kernels *k = tables[0];
    assert_non_null(k->prepare(WFI_ROWOF_add, &a, (wfi_view[]){ a, b }, &p, &scratch));
    assert_non_null(k->prepare(WFI_ROWOF_add, &a, (wfi_view[]){ a, i }, &p, &scratch));
    assert_non_null(k->prepare(WFI_ROWOF_add, &z, (wfi_view[]){ a, a }, &p, &scratch));
    assert_non_null(k->prepare(WFI_ROWOF_exp, &i, (wfi_view[]){ i }, &p, &scratch));
    assert_non_null(k->prepare(WFI_ROWOF_lt, &a, (wfi_view[]){ a, a }, &p, &scratch));
    assert_non_null(k->prepare(WFI_ROWOF_where, &a, (wfi_view[]){ a, a, a }, &p, &scratch));
    assert_non_null(k->prepare(-1, &a, (wfi_view[]){ a, a }, &p, &scratch));
    assert_null(k->prepare(WFI_ROWOF_add, &a, (wfi_view[]){ z, z }, &p, &scratch));
}

int main(void)
{
    random_state = 20250808;
    printf("seed %llu\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),   cmocka_unit_test(test_lengths), cmocka_unit_test(test_same_bits),
        cmocka_unit_test(test_layouts),  cmocka_unit_test(test_threads), cmocka_unit_test(test_streaming),
        cmocka_unit_test(test_declined),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
