/* Autocast: which types operators have in a scope that asks for 16 bits, how far values are from f64, gradients back to
 * f32 variables, scopes within scopes, what is wrong in calls; eager, lazy, replayed and captured give the same bits;
 * a small GPT learns as it does in f32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "weft/weft.h"
#include "contexts.h"

static wf_ctx *open_ctx(wf_mode mode, wf_dtype autocast)
{
    wf_ctx *c = wf_ctx_new(
        &(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = mode, .seed = 5, .threads = 2, .autocast = autocast });
    assert_non_null(c);
    return c;
}

static float number(int i, int salt)
{
    return (float)((i * 7919 + salt * 131 + 13) % 1009) / 505.0f - 1;
}

static wf_tensor *made(wf_ctx *c, wf_dtype dtype, wf_dims dims, int salt)
{
    float x[4096];
    int n = 1;
    for (int i = 0; i < dims.n; i++)
        n *= (int)dims.d[i];
    assert_true(n <= 4096);
    for (int i = 0; i < n; i++)
        x[i] = number(i, salt);
    wf_tensor *t = wf_tensor_from(c, WF_F32, dims, x);
    return dtype == WF_F32 ? t : wf_cast(t, dtype);
}

/* ---- types ---- */

static wf_tensor *do_matmul(wf_tensor *a, wf_tensor *b)
{
    return wf_matmul(a, b);
}
static wf_tensor *do_add(wf_tensor *a, wf_tensor *b)
{
    return wf_add(a, b);
}
static wf_tensor *do_where(wf_tensor *a, wf_tensor *b)
{
    return wf_where(wf_gt(a, wf_scalar(wf_tensor_ctx(a), 0)), a, b);
}
static wf_tensor *do_concat(wf_tensor *a, wf_tensor *b)
{
    wf_tensor *const both[2] = { a, b };
    return wf_concat(2, both, 0);
}
static wf_tensor *do_half(wf_tensor *a, wf_tensor *b)
{
    return b ? wf_mul(a, wf_scalar(wf_tensor_ctx(a), 0.5)) : NULL;
}
static wf_tensor *do_attention(wf_tensor *a, wf_tensor *b)
{
    return wf_attention(a, b, b);
}
static wf_tensor *do_softmax(wf_tensor *a, wf_tensor *b)
{
    return b ? wf_softmax(a, -1) : NULL;
}
static wf_tensor *do_sum(wf_tensor *a, wf_tensor *b)
{
    return b ? wf_sum(a, WF_DIMS(0)) : NULL;
}
static wf_tensor *do_mean(wf_tensor *a, wf_tensor *b)
{
    return b ? wf_mean(a, WF_DIMS(0)) : NULL;
}
static wf_tensor *do_max(wf_tensor *a, wf_tensor *b)
{
    return b ? wf_max(a, WF_DIMS(0)) : NULL;
}
static wf_tensor *do_layer_norm(wf_tensor *a, wf_tensor *b)
{
    return wf_layer_norm(a, .weight = wf_reshape(wf_slice(b, 0, 0, 1), WF_DIMS(-1)));
}
static wf_tensor *do_relu(wf_tensor *a, wf_tensor *b)
{
    return b ? wf_relu(a) : NULL;
}

static const struct {
    const char *name;
    wf_tensor *(*call)(wf_tensor *, wf_tensor *);
    wf_dtype a, b, autocast, want;
} types[] = {
    { "matmul", do_matmul, WF_F32, WF_F32, WF_BF16, WF_BF16 },
    { "matmul f16", do_matmul, WF_F32, WF_F32, WF_F16, WF_F16 },
    { "matmul bf16 f32", do_matmul, WF_BF16, WF_F32, WF_BF16, WF_BF16 },
    { "matmul f64", do_matmul, WF_F64, WF_F64, WF_BF16, WF_F64 },
    { "matmul off", do_matmul, WF_F32, WF_F32, WF_F32, WF_F32 },
    { "matmul bf16 off", do_matmul, WF_BF16, WF_BF16, WF_F32, WF_BF16 },
    { "attention", do_attention, WF_F32, WF_F32, WF_BF16, WF_BF16 },
    { "add bf16 f32", do_add, WF_BF16, WF_F32, WF_BF16, WF_F32 },
    { "add f32 bf16", do_add, WF_F32, WF_BF16, WF_BF16, WF_F32 },
    { "add bf16", do_add, WF_BF16, WF_BF16, WF_BF16, WF_BF16 },
    { "add f32", do_add, WF_F32, WF_F32, WF_BF16, WF_F32 },
    { "add f32 f64", do_add, WF_F32, WF_F64, WF_BF16, WF_F64 },
    { "add bf16 f16", do_add, WF_BF16, WF_F16, WF_BF16, WF_F32 },
    { "where", do_where, WF_BF16, WF_F32, WF_BF16, WF_F32 },
    { "concat", do_concat, WF_BF16, WF_F32, WF_BF16, WF_F32 },
    { "a number", do_half, WF_BF16, WF_BF16, WF_BF16, WF_BF16 },
    { "softmax", do_softmax, WF_BF16, WF_BF16, WF_BF16, WF_F32 },
    { "sum", do_sum, WF_BF16, WF_BF16, WF_BF16, WF_F32 },
    { "sum off", do_sum, WF_BF16, WF_BF16, WF_F32, WF_BF16 },
    { "mean", do_mean, WF_BF16, WF_BF16, WF_BF16, WF_F32 },
    { "max", do_max, WF_BF16, WF_BF16, WF_BF16, WF_BF16 },
    { "layer_norm", do_layer_norm, WF_BF16, WF_F32, WF_BF16, WF_F32 },
    { "relu", do_relu, WF_BF16, WF_BF16, WF_BF16, WF_BF16 },
};

static void result_types(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode, WF_DTYPE_NONE);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
            wf_scope s = wf_scope_begin(c, "types", .autocast = types[i].autocast);
            wf_tensor *a = made(c, types[i].a, WF_DIMS(8, 8), 1), *b = made(c, types[i].b, WF_DIMS(8, 8), 2);
            wf_tensor *y = types[i].call(a, b);
            if (wf_error(c))
                fail_msg("%s: %s", types[i].name, wf_error(c));
            if (wf_tensor_dtype(y) != types[i].want)
                fail_msg("%s: %s, not %s", types[i].name, wf_dtype_name(wf_tensor_dtype(y)),
                         wf_dtype_name(types[i].want));
            wf_scope_end(c, s);
        }
        close_ctx(c);
    }
}

/* ---- scopes ---- */

static wf_dtype of_product(wf_ctx *c)
{
    wf_tensor *a = made(c, WF_F32, WF_DIMS(4, 4), 1);
    return wf_tensor_dtype(wf_matmul(a, a));
}

/* Scopes within scopes, and steps that differ in nothing else: each call is cast as its own scope says. */
static void scopes(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode, WF_DTYPE_NONE);
        for (int k = 0; k < 8; k++) {
            const wf_dtype outer = k % 2 ? WF_BF16 : WF_DTYPE_NONE, want = k % 2 ? WF_BF16 : WF_F32;
            wf_scope g = wf_scope_begin(c, "all", .group = true, .autocast = outer);
            wf_scope s = wf_scope_begin(c, "step");
            assert_int_equal(of_product(c), want);
            wf_scope off = wf_scope_begin(c, "off", .autocast = WF_F32);
            assert_int_equal(of_product(c), WF_F32);
            wf_scope on = wf_scope_begin(c, "on", .autocast = WF_F16);
            assert_int_equal(of_product(c), WF_F16);
            wf_scope_end(c, on);
            assert_int_equal(of_product(c), WF_F32);
            wf_scope_end(c, off);
            assert_int_equal(of_product(c), want);
            wf_scope_end(c, s);
            s = wf_scope_begin(c, "step", .autocast = k % 3 ? WF_BF16 : WF_F32);
            assert_int_equal(of_product(c), k % 3 ? WF_BF16 : WF_F32);
            wf_scope_end(c, s);
            wf_scope_end(c, g);
            assert_int_equal(of_product(c), WF_F32);
        }
        close_ctx(c);
        c = open_ctx((wf_mode)mode, WF_BF16);
        wf_scope s = wf_scope_begin(c, "step");
        assert_int_equal(of_product(c), WF_BF16);
        wf_scope_end(c, s);
        close_ctx(c);
    }
}

/* An error between scopes: what follows it in the step is cast as if it had not been. */
static void after_an_error(void **state)
{
    (void)state;
    wf_ctx *c = open_ctx(WF_LAZY, WF_DTYPE_NONE);
    for (int k = 0; k < 4; k++) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *a = made(c, WF_F32, WF_DIMS(4, 4), 1), *b = made(c, WF_F32, WF_DIMS(3, 4), 1);
        assert_null(wf_matmul(a, b));
        wf_scope on = wf_scope_begin(c, "on", .autocast = k % 2 ? WF_BF16 : WF_F32);
        wrong(c, WF_ERR_SHAPE, "matmul");
        assert_int_equal(of_product(c), k % 2 ? WF_BF16 : WF_F32);
        wf_scope_end(c, on);
        wf_scope_end(c, s);
    }
    close_ctx(c);
}

/* ---- values ---- */

enum { M = 7, K = 33, N = 9 };

/* |y - exact| <= (2 * 2^-8 + 2^-8) of the sum of |a b|: both operands and the result are rounded to 8 bits. */
static void values(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode, WF_DTYPE_NONE);
        wf_scope s = wf_scope_begin(c, "step", .autocast = WF_BF16);
        wf_tensor *y = wf_matmul(made(c, WF_F32, WF_DIMS(M, K), 1), made(c, WF_F32, WF_DIMS(K, N), 2));
        float got[M * N], soft[M * N];
        assert_int_equal(wf_read(c, wf_cast(y, WF_F32), got, sizeof got), WF_OK);
        assert_int_equal(wf_read(c, wf_softmax(y, -1), soft, sizeof soft), WF_OK);
        wf_scope_end(c, s);
        for (int i = 0; i < M; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++) {
                double exact = 0, size = 0;
                for (int k = 0; k < K; k++) {
                    const double p = (double)number(i * K + k, 1) * (double)number(k * N + j, 2);
                    exact += p;
                    size += fabs(p);
                }
                assert_true(fabs((double)got[i * N + j] - exact) <= 3 * 0x1p-8 * size);
                sum += exp((double)got[i * N + j]);
            }
            for (int j = 0; j < N; j++) /* f32 throughout: from the rounded products, but no coarser */
                assert_true(fabs((double)soft[i * N + j] - exp((double)got[i * N + j]) / sum) < 1e-6);
        }
        close_ctx(c);
    }
}

/* ---- the same bits, gradients ---- */

typedef struct task {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
} task;

/* Every policy, a weight that is used twice, a layer norm, an attention, a scope that is off. */
static wf_loss loss_of(task *t, wf_tensor *x)
{
    wf_ctx *c = t->c;
    wf_tensor *h = wf_nn_linear(t->m, "a", x, 16);
    h = wf_gelu_tanh(wf_nn_linear(t->m, "b", wf_relu(h), 16));
    h = wf_nn_layer_norm(t->m, "norm", wf_add(h, wf_nn_linear(t->m, "b", h, 16)));
    h = wf_nn_attention(t->m, "attn", wf_reshape(h, WF_DIMS(2, 4, 16)), .heads = 2, .causal = true);
    wf_scope off = wf_scope_begin(c, "off", .autocast = WF_F32);
    h = wf_nn_linear(t->m, "c", wf_cast(wf_reshape(h, WF_DIMS(8, 16)), WF_F32), 5);
    wf_scope_end(c, off);
    int64_t labels[8];
    for (int i = 0; i < 8; i++)
        labels[i] = i % 5;
    return wf_cross_entropy(h, wf_tensor_from(c, WF_I64, WF_DIMS(8), labels));
}

static bool body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    task *t = user;
    wf_scope s = wf_scope_begin(c, "inner", .autocast = WF_BF16);
    wf_loss loss = loss_of(t, in[0]);
    wf_optim_step(t->opt, loss);
    out[0] = wf_loss_mean(loss);
    wf_scope_end(c, s);
    return wf_error(c) == NULL;
}

static const char *const parameters[] = { "a.weight", "a.bias",    "b.weight",        "b.bias",
                                          "c.weight", "norm.bias", "attn.qkv.weight", "attn.proj.bias" };

/* Five steps; the losses and the parameters after them. captured: as one function, in a scope that says nothing. */
static int run_task(wf_mode mode, bool captured, float *out)
{
    task t = { .c = open_ctx(mode, WF_DTYPE_NONE) };
    t.m = wf_model_new(t.c);
    t.opt = wf_adamw(t.m, .lr = 1e-2);
    wf_tensor *x = made(t.c, WF_F32, WF_DIMS(8, 12), 3), *y = NULL;
    wf_fn *f = NULL;
    int n = 0;
    for (int k = 0; k < 5; k++) {
        wf_scope s = wf_scope_begin(t.c, "step", .autocast = captured ? WF_DTYPE_NONE : WF_BF16);
        if (captured && !f)
            f = wf_capture(t.c, body, &t, 1, &x, 1);
        if (captured)
            wf_fn_call(f, &x, &y);
        else {
            wf_loss loss = loss_of(&t, x);
            wf_optim_step(t.opt, loss);
            y = wf_loss_mean(loss);
        }
        y = wf_scope_return(t.c, s, y);
        wf_scope_end(t.c, s);
        out[n++] = (float)wf_item(t.c, y);
    }
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        wf_var *v = wf_model_find(t.m, parameters[i]);
        assert_non_null(v);
        assert_int_equal(wf_var_dtype(v), WF_F32);
        wf_dims d = wf_var_dims(v);
        int64_t count = d.d[0] * (d.n > 1 ? d.d[1] : 1);
        assert_int_equal(wf_read(t.c, wf_value(v), out + n, (size_t)count * sizeof *out), WF_OK);
        n += (int)count;
    }
    close_ctx(t.c);
    return n;
}

static void same_bits(void **state)
{
    (void)state;
    static float want[4096], got[4096];
    const int n = run_task(WF_EAGER, false, want);
    assert_true(want[4] < want[0]);
    for (int i = 0; i < 3; i++) {
        memset(got, 0, sizeof got);
        assert_int_equal(run_task(i == 2 ? WF_EAGER : WF_LAZY, i > 0, got), n);
        assert_memory_equal(got, want, (size_t)n * sizeof *want);
    }
}

/* d(sum of x w)/dw for a w that is used twice: f32, the parts added in f32, within what 8 bits allow. */
static void gradients(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        float got[2][K * N];
        for (int on = 0; on < 2; on++) {
            wf_ctx *c = open_ctx((wf_mode)mode, WF_DTYPE_NONE);
            wf_scope s = wf_scope_begin(c, "step", .autocast = on ? WF_BF16 : WF_F32);
            wf_tensor *w = made(c, WF_F32, WF_DIMS(K, N), 2), *g = NULL;
            wf_tensor *a = wf_matmul(made(c, WF_F32, WF_DIMS(M, K), 1), w);
            wf_tensor *b = wf_matmul(made(c, WF_F32, WF_DIMS(M, K), 4), w);
            wf_tensor *loss = wf_sum(wf_square(wf_add(a, b)), WF_NO_DIMS);
            assert_int_equal(wf_tensor_dtype(loss), WF_F32);
            assert_int_equal(wf_grad(loss, 1, &w, &g), WF_OK);
            assert_int_equal(wf_tensor_dtype(g), WF_F32);
            assert_int_equal(wf_read(c, g, got[on], sizeof got[on]), WF_OK);
            wf_scope_end(c, s);
            close_ctx(c);
        }
        double size = 0;
        for (int i = 0; i < K * N; i++)
            size = fmax(size, fabs((double)got[0][i]));
        for (int i = 0; i < K * N; i++)
            assert_true(fabs((double)got[1][i] - (double)got[0][i]) <= 0x1p-5 * size);
    }
}

/* Eager steps cast a variable once while its contents stay, and again when they change. */
static void one_cast_a_version(void **state)
{
    (void)state;
    wf_ctx *c = open_ctx(WF_EAGER, WF_DTYPE_NONE);
    float zero[K * N] = { 0 };
    wf_var *v = wf_var_new(c, "w", WF_F32, WF_DIMS(K, N), zero);
    wf_assign(v, made(c, WF_F32, WF_DIMS(K, N), 2));
    uint64_t commands[4];
    double sums[4];
    for (int k = 0; k < 4; k++) {
        const uint64_t before = wf_ctx_stats(c).commands;
        wf_scope s = wf_scope_begin(c, "step", .autocast = WF_BF16);
        wf_tensor *x = made(c, WF_F32, WF_DIMS(M, K), 1);
        sums[k] = wf_item(c, wf_sum(wf_add(wf_matmul(x, wf_value(v)), wf_matmul(x, wf_value(v))), WF_NO_DIMS));
        commands[k] = wf_ctx_stats(c).commands - before;
        wf_scope_end(c, s);
        if (k == 1)
            wf_assign(v, made(c, WF_F32, WF_DIMS(K, N), 7));
    }
    assert_int_equal(commands[1], commands[0] - 1);
    assert_int_equal(commands[2], commands[0]);
    assert_int_equal(commands[3], commands[0] - 1);
    assert_true(sums[0] == sums[1] && sums[1] != sums[2] && sums[2] == sums[3]);
    close_ctx(c);
}

/* ---- errors ---- */

static void bad_calls(void **state)
{
    (void)state;
    wf_ctx *c = open_ctx(WF_LAZY, WF_DTYPE_NONE);
    wf_scope s = wf_scope_begin(c, "step", .autocast = WF_I32);
    wrong(c, WF_ERR_ARG, ".autocast is i32: bf16, f16 or f32 (nothing is cast) was expected");
    wf_scope_end(c, s);
    s = wf_scope_begin(c, "step", .autocast = WF_BF16);
    wf_tensor *x = wf_relu(made(c, WF_F32, WF_DIMS(4, 5), 1));
    assert_null(wf_matmul(x, x));
    wrong(c, WF_ERR_SHAPE, "a is bf16[4,5], b is bf16[4,5]");
    assert_null(wf_matmul(x, x));
    wrong(c, WF_ERR_SHAPE, "a: cast of result of relu, bf16[4,5]");
    assert_null(wf_matmul(x, made(c, WF_F64, WF_DIMS(5, 4), 1)));
    wrong(c, WF_ERR_DTYPE, "matmul");
    assert_null(wf_add(x, wf_cast(x, WF_I32)));
    wrong(c, WF_ERR_DTYPE, "add");
    wf_scope_end(c, s);
    close_ctx(c);
    c = open_ctx(WF_LAZY, WF_I64);
    wrong(c, WF_ERR_ARG, ".autocast is i64: bf16, f16 or f32 was expected");
    close_ctx(c);
}

static void environment(void **state)
{
    (void)state;
    assert_int_equal(setenv("WEFT_AUTOCAST", "bf16", 1), 0);
    wf_ctx *c = open_ctx(WF_LAZY, WF_DTYPE_NONE);
    assert_int_equal(of_product(c), WF_BF16);
    close_ctx(c);
    c = open_ctx(WF_LAZY, WF_F32);
    assert_int_equal(of_product(c), WF_F32);
    close_ctx(c);
    assert_int_equal(setenv("WEFT_AUTOCAST", "half", 1), 0);
    c = open_ctx(WF_LAZY, WF_DTYPE_NONE);
    wrong(c, WF_ERR_ARG, "WEFT_AUTOCAST is \"half\": bf16, f16 or f32 was expected");
    close_ctx(c);
    assert_int_equal(unsetenv("WEFT_AUTOCAST"), 0);
}

/* ---- learning ---- */

/* 200 steps on a text that repeats with exceptions; the mean loss of the last 20. */
static double learnt(wf_dtype autocast)
{
    enum { BATCH = 4, T = 16, SYMBOLS = 16, STEPS = 200 };
    wf_ctx *c = open_ctx(WF_LAZY, WF_DTYPE_NONE);
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 3e-3);
    double last = 0;
    for (int k = 0; k < STEPS; k++) {
        int64_t x[BATCH * T], y[BATCH * T];
        for (int b = 0; b < BATCH; b++)
            for (int i = 0; i <= T; i++) {
                const int at = (k * 37 + b * 11) % 64 + i;
                const int64_t symbol = at % 7 == 0 ? at / 7 * 5 % 16 : at % 7;
                if (i < T)
                    x[b * T + i] = symbol;
                if (i)
                    y[b * T + i - 1] = symbol;
            }
        wf_scope s = wf_scope_begin(c, "step", .autocast = autocast);
        wf_tensor *h = wf_nn_embedding(m, "tok", wf_tensor_from(c, WF_I64, WF_DIMS(BATCH, T), x), WF_DIMS(SYMBOLS, 32));
        h = wf_add(h, wf_nn_param(m, "pos", WF_DIMS(T, 32), .init = WF_INIT_NORMAL));
        h = wf_nn_transformer_block(m, "block0", h, .heads = 2, .causal = true);
        h = wf_nn_transformer_block(m, "block1", h, .heads = 2, .causal = true);
        h = wf_nn_linear(m, "head", wf_nn_layer_norm(m, "norm", h), SYMBOLS, .no_bias = true);
        wf_loss loss = wf_cross_entropy(h, wf_tensor_from(c, WF_I64, WF_DIMS(BATCH, T), y));
        wf_optim_step(opt, loss);
        wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(loss));
        wf_scope_end(c, s);
        last += k >= STEPS - 20 ? wf_item(c, mean) / 20 : 0;
        wf_release(c, mean);
    }
    close_ctx(c);
    return last;
}

static void learns_as_f32(void **state)
{
    (void)state;
    const double full = learnt(WF_F32), low = learnt(WF_BF16);
    print_message("loss after 200 steps: f32 %.4f, bf16 %.4f\n", full, low);
    assert_true(full < 1);
    assert_true(full != low);
    assert_true(fabs(low - full) <= 0.02 * full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(result_types),       cmocka_unit_test(scopes),
        cmocka_unit_test(after_an_error),     cmocka_unit_test(values),
        cmocka_unit_test(same_bits),          cmocka_unit_test(gradients),
        cmocka_unit_test(one_cast_a_version), cmocka_unit_test(bad_calls),
        cmocka_unit_test(environment),        cmocka_unit_test(learns_as_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
