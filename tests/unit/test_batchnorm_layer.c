/* The layer of batch norm: training and inference against plain C in double, what the running statistics become, files,
 * frozen weights; eager and lazy steps must agree bit for bit. Also cases C08d and C15. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "record/record.h"
#include "contexts.h"

enum { N = 4, C = 3, H = 5, W = 2, EACH = N * H * W, ALL = N * C * H * W };

static wf_ctx *open_ctx(int mode, int threads)
{
    wf_ctx *c =
        wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = (wf_mode)mode, .threads = threads, .seed = 5 });
    assert_non_null(c);
    return c;
}

static void near(double got, double want, double most)
{
    if (!(fabs(got - want) <= most * (1 + fabs(want))))
        fail_msg("%.9g, want %.9g", got, want);
}

/* Batch `k`: no two channels alike. */
static void batch(int k, float *x)
{
    for (int i = 0; i < ALL; i++)
        x[i] = (float)((i * 7919 + k * 613 + 13) % 1009) / 250.0f - 2 + (float)(i / (H * W) % C);
}

static void read_var(wf_model *m, const char *path, void *to, size_t bytes)
{
    wf_var *v = wf_model_find(m, path);
    assert_non_null(v);
    assert_int_equal(wf_read(wf_model_ctx(m), wf_value(v), to, bytes), WF_OK);
}

typedef struct stats {
    double mean[C], var[C], running_mean[C], running_var[C];
} stats;

/* As PyTorch does it. */
static void plain(const float *x, stats *s)
{
    for (int c = 0; c < C; c++) {
        double mean = 0, var = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int n = 0; n < N; n++)
                for (int i = 0; i < H * W; i++) {
                    double v = (double)x[(n * C + c) * H * W + i];
                    mean += pass ? 0 : v / EACH;
                    var += pass ? (v - mean) * (v - mean) / EACH : 0;
                }
        s->mean[c] = mean, s->var[c] = var;
        s->running_mean[c] = 0.9 * s->running_mean[c] + 0.1 * mean;
        s->running_var[c] = 0.9 * s->running_var[c] + 0.1 * var * EACH / (EACH - 1);
    }
}

static void check_y(const float *x, const float *y, const double *mean, const double *var)
{
    for (int i = 0; i < ALL; i++) {
        int c = i / (H * W) % C;
        near((double)y[i], ((double)x[i] - mean[c]) / sqrt(var[c] + 1e-5), 1e-5);
    }
}

/* Steps of training, then inference; the bits that are left go to `last`. */
static void run_mode(int mode, int threads, float *last)
{
    wf_ctx *c = open_ctx(mode, threads);
    wf_model *m = wf_model_new(c);
    float x[ALL], y[ALL], mean[C], var[C];
    int64_t batches;
    stats s = { .running_var = { 1, 1, 1 } };
    for (int k = 0; k < 4; k++) {
        wf_scope around = wf_scope_begin(c, "batch", .group = true);
        wf_scope scope = wf_scope_begin(c, "step");
        batch(k, x);
        wf_tensor *t =
            wf_scope_return(c, scope, wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(N, C, H, W), x)));
        assert_int_equal(wf_scope_end(c, scope), WF_OK);
        assert_int_equal(wf_read(c, t, y, sizeof y), WF_OK);
        wf_scope_end(c, around);
        plain(x, &s);
        check_y(x, y, s.mean, s.var);
        read_var(m, "bn.running_mean", mean, sizeof mean);
        read_var(m, "bn.running_var", var, sizeof var);
        for (int i = 0; i < C; i++) {
            near((double)mean[i], s.running_mean[i], 1e-6);
            near((double)var[i], s.running_var[i], 1e-6);
        }
    }
    read_var(m, "bn.num_batches_tracked", &batches, sizeof batches);
    assert_int_equal(batches, 4);
    for (int k = 0; k < 3; k++) { /* running statistics, unchanged */
        wf_scope around = wf_scope_begin(c, "batch", .group = true);
        wf_scope scope = wf_scope_begin(c, "infer", .no_grad = true);
        wf_tensor *t =
            wf_scope_return(c, scope, wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(N, C, H, W), x)));
        assert_int_equal(wf_scope_end(c, scope), WF_OK);
        assert_int_equal(wf_read(c, t, y, sizeof y), WF_OK);
        wf_scope_end(c, around);
        check_y(x, y, s.running_mean, s.running_var);
    }
    read_var(m, "bn.num_batches_tracked", &batches, sizeof batches);
    assert_int_equal(batches, 4);
    memcpy(last, y, sizeof y);
    memcpy(last + ALL, mean, sizeof mean);
    memcpy(last + ALL + C, var, sizeof var);
    close_ctx(c);
}

static void train_and_infer(void **unused)
{
    (void)unused;
    float a[ALL + 2 * C], b[ALL + 2 * C];
    run_mode(WF_EAGER, 1, a);
    for (int threads = 1; threads <= 3; threads++) {
        run_mode(WF_LAZY, threads, b);
        assert_memory_equal(a, b, sizeof a);
    }
}

/* No optimiser takes the statistics, and none lists them as unreached; a small net learns with them. */
static void optimiser(void **unused)
{
    (void)unused;
    float last[2][2 * C];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode, 2);
        wf_model *m = wf_model_new(c);
        wf_optim *opt = wf_sgd(m, .lr = 0.1, .momentum = 0.9, .weight_decay = 1e-4);
        float x[ALL];
        double loss[6];
        batch(1, x);
        for (int k = 0; k < 6; k++) {
            wf_scope around = wf_scope_begin(c, "batch", .group = true);
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *h = wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(N, C, H, W), x));
            h = wf_nn_linear(m, "fc", wf_flatten(wf_adaptive_avg_pool2d(wf_relu(h), 1, 1), 1), 2);
            wf_loss l = wf_cross_entropy(h, wf_tensor_from(c, WF_I64, WF_DIMS(N), ((int64_t[]){ 0, 1, 1, 0 })));
            wf_optim_step(opt, l);
            wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(l));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            loss[k] = wf_item(c, mean);
            wf_scope_end(c, around);
            assert_string_equal(wf_optim_unreached(opt), "");
        }
        assert_true(loss[5] < loss[0]);
        read_var(m, "bn.weight", last[mode - 1], C * sizeof(float));
        read_var(m, "bn.bias", last[mode - 1] + C, C * sizeof(float));
        assert_true(last[mode - 1][0] != 1 && last[mode - 1][C] != 0);
        close_ctx(c);
    }
    assert_memory_equal(last[0], last[1], sizeof last[0]);
}

static wf_tensor *net(void *user, wf_model *m, wf_tensor *const *in)
{
    (void)user;
    return wf_nn_batch_norm(m, "bn", in[0]);
}

/* Statistics that a file brings are none that an optimiser changes; frozen weights use them. */
static void files(void **unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-bn-%ld.safetensors", (long)getpid());
    float x[ALL], a[ALL], b[ALL];
    batch(3, x);
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    wf_model *m = wf_model_new(c), *again = wf_model_new(c);
    const wf_dims dims = WF_DIMS(N, C, H, W);
    assert_int_equal(wf_model_init(m, net, NULL, 1, (const wf_dtype[]){ WF_F32 }, &dims), WF_OK);
    assert_int_equal(wf_model_param_count(m), 5);
    wf_scope s = wf_scope_begin(c, "step");
    (void)wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, dims, x));
    wf_scope_end(c, s);
    assert_int_equal(wf_model_save(m, path), WF_OK);
    assert_int_equal(wf_model_load(again, path), WF_OK);
    wf_optim *opt = wf_sgd(again, .lr = 0.1);
    s = wf_scope_begin(c, "step");
    wf_tensor *y = wf_nn_batch_norm(again, "bn", wf_tensor_from(c, WF_F32, dims, x), .running = true);
    wf_optim_step(opt,
                  wf_mse(y, wf_nn_batch_norm(again, "bn", wf_tensor_from(c, WF_F32, dims, x), .momentum = WF_ZERO)));
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    assert_string_equal(wf_optim_unreached(opt), "");
    float before[C], after[C];
    read_var(m, "bn.running_var", before, sizeof before);
    read_var(again, "bn.running_var", after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
    read_var(again, "bn.weight", after, sizeof after);
    assert_true(after[0] != 1);
    wf_frozen *f = wf_model_freeze(m);
    wf_model *thawed = wf_model_thawed(c, f);
    for (int k = 0; k < 2; k++) {
        s = wf_scope_begin(c, "infer", .no_grad = k == 0);
        y = wf_nn_batch_norm(k ? thawed : m, "bn", wf_tensor_from(c, WF_F32, dims, x));
        assert_int_equal(wf_read(c, y, k ? a : b, sizeof a), WF_OK);
        wf_scope_end(c, s);
    }
    assert_memory_equal(a, b, sizeof a);
    wf_frozen_free(f);
    unlink(path);
    close_ctx(c);
}

static void c15_empty(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    wf_model *m = wf_model_new(c);
    float none = 0, mean[9], var[9];
    wf_scope s = wf_scope_begin(c, "step");
    wf_tensor *y = wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(0, 9, 5, 9), &none));
    wf_dims d = wf_tensor_dims(y);
    assert_int_equal(d.d[0], 0);
    assert_int_equal(d.d[1], 9);
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    read_var(m, "bn.running_mean", mean, sizeof mean);
    read_var(m, "bn.running_var", var, sizeof var);
    for (int i = 0; i < 9; i++)
        assert_true(mean[i] == 0 && var[i] == 1);
    close_ctx(c);
}

static void c08d_narrow(void **unused)
{
    (void)unused;
    static const wf_dims dims = { 4, { 2, 64, 32, 32 } };
    enum { MANY = 2 * 64 * 32 * 32 };
    float *x = malloc(MANY * sizeof *x), *y = malloc(MANY * sizeof *y);
    assert_true(x && y);
    for (int i = 0; i < MANY; i++) /* uniform with deviation 0.1, cut to bf16 as PyTorch's test does */
        x[i] = 5 + 0.34641f * ((float)((i * 7919L + i / 977) % 4096) / 4096.0f - 0.5f);
    wf_ctx *c = open_ctx(WF_LAZY, 2);
    wf_model *m = wf_model_new(c);
    wf_scope s = wf_scope_begin(c, "step");
    wf_tensor *t = wf_nn_batch_norm(m, "bn", wf_cast(wf_tensor_from(c, WF_F32, dims, x), WF_BF16));
    assert_int_equal(wf_tensor_dtype(t), WF_BF16);
    assert_int_equal(wf_read(c, wf_cast(t, WF_F32), y, MANY * sizeof *y), WF_OK);
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    assert_int_equal(wf_var_dtype(wf_model_find(m, "bn.running_mean")), WF_F32);
    for (int k = 0; k < 64; k++) {
        double mean = 0, var = 0;
        for (int pass = 0; pass < 2; pass++)
            for (int i = 0; i < 2048; i++) {
                double v = (double)y[(i / 1024 * 64 + k) * 1024 + i % 1024];
                mean += pass ? 0 : v / 2048;
                var += pass ? (v - mean) * (v - mean) / 2048 : 0;
            }
        assert_true(fabs(mean) < 0.01 && fabs(sqrt(var) - 1) < 0.01);
    }
    close_ctx(c);
    free(x);
    free(y);
}

static void bad_calls(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    wf_model *m = wf_model_new(c);
    float x[6] = { 1, 2, 3, 4, 5, 6 };
    wf_scope s = wf_scope_begin(c, "step");
    assert_null(wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(6), x)));
    wrong(c, WF_ERR_SHAPE, "wf_nn_batch_norm: x is f32[6]: 2 axes or more were expected");
    assert_null(wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(1, 6), x)));
    wrong(c, WF_ERR_SHAPE, "x has one element a channel");
    assert_null(wf_nn_batch_norm(m, "bn", wf_tensor_from(c, WF_F32, WF_DIMS(3, 2), x)));
    wrong(c, WF_ERR_SHAPE, "bn.weight is f32[6], asked for as f32[2]");
    wf_tensor *two = wf_tensor_from(c, WF_F32, WF_DIMS(2), x);
    assert_null(wf_batch_norm(wf_tensor_from(c, WF_F32, WF_DIMS(3, 2), x), wf_cast(two, WF_F64), two));
    wrong(c, WF_ERR_DTYPE, "batch_norm: mean is f64; needed f32");
    wf_scope_end(c, s);
    close_ctx(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(train_and_infer), cmocka_unit_test(optimiser),   cmocka_unit_test(files),
        cmocka_unit_test(c15_empty),       cmocka_unit_test(c08d_narrow), cmocka_unit_test(bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
