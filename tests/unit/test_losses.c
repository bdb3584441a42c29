/* Losses and layers against plain C in double; C17; labels that count nothing. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "record/record.h"
#include "contexts.h"

static wf_ctx *open_ctx(int mode)
{
    wf_ctx *c =
        wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = (wf_mode)mode, .threads = 1, .seed = 5 });
    assert_non_null(c);
    return c;
}

static float number(int i)
{
    return (float)((i * 7919 + 13) % 1009) / 250.0f - 2;
}

static void near(double got, double want, double most)
{
    if (!(fabs(got - want) <= most * (1 + fabs(want))))
        fail_msg("%.9g, want %.9g", got, want);
}

/* ---- cross entropy ---- */

enum { N = 9, V = 37 };

static double plain_rows(const float *x, const int64_t *t, int64_t ignore, double smooth, double *weight, double *grad)
{
    double sum = 0;
    *weight = 0;
    for (int r = 0; r < N; r++) {
        double most = -INFINITY, z = 0, all = 0;
        for (int v = 0; v < V; v++)
            most = fmax(most, x[r * V + v]);
        for (int v = 0; v < V; v++)
            z += exp(x[r * V + v] - most);
        double lse = most + log(z);
        bool count = t[r] != ignore;
        for (int v = 0; v < V; v++) {
            double p = exp(x[r * V + v] - lse), want = (v == t[r] ? 1 - smooth : 0) + smooth / V;
            grad[r * V + v] = count ? p - want : 0;
            all += lse - x[r * V + v];
        }
        if (count) {
            *weight += 1;
            sum += (1 - smooth) * (lse - x[r * V + t[r]]) + smooth * all / V;
        }
    }
    return sum;
}

static void cross_entropy(void **unused)
{
    (void)unused;
    float bits[2][4][N * V + 2];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        for (int kind = 0; kind < 8; kind++) {
            float x[N * V], g[N * V];
            int64_t t[N];
            double grad[N * V], weight, smooth = kind & 1 ? 0.1 : 0;
            bool ignore = kind & 2;
            for (int i = 0; i < N * V; i++)
                x[i] = 3 * number(i + kind);
            for (int i = 0; i < N; i++)
                t[i] = ignore && i % 3 == 1 ? -100 : (i * 5 + kind) % V;
            double want = plain_rows(x, t, ignore ? -100 : INT64_MIN, smooth, &weight, grad);
            for (int again = 0; again < 3; again++) {
                wf_scope s = wf_scope_begin(c, "step");
                wf_tensor *in = wf_tensor_from(c, WF_F32, kind & 4 ? WF_DIMS(3, 3, V) : WF_DIMS(N, V), x), *dx;
                wf_tensor *labels = wf_tensor_from(c, WF_I64, kind & 4 ? WF_DIMS(3, 3) : WF_DIMS(N), t);
                wf_loss l = wf_cross_entropy(in, labels, .ignore = -100, .has_ignore = ignore,
                                             .smoothing = smooth > 0 ? smooth : WF_ZERO);
                assert_int_equal(wf_grad(l.sum, 1, &in, &dx), WF_OK);
                dx = wf_scope_return(c, s, dx);
                wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(l));
                l.sum = wf_scope_return(c, s, l.sum);
                l.weight = wf_scope_return(c, s, l.weight);
                assert_int_equal(wf_scope_end(c, s), WF_OK);
                near(wf_item(c, l.sum), want, 1e-5);
                assert_true(wf_item(c, l.weight) == weight);
                near(wf_item(c, mean), want / weight, 1e-5);
                assert_int_equal(wf_read(c, dx, g, sizeof g), WF_OK);
                for (int i = 0; i < N * V; i++)
                    near(g[i], grad[i], 1e-5);
            }
            if (kind < 4) {
                memcpy(bits[mode - 1][kind], g, sizeof g);
                bits[mode - 1][kind][N * V] = bits[mode - 1][kind][N * V + 1] = 0;
            }
        }
        close_ctx(c);
    }
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

static void nothing_counts(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c);
        wf_optim *opt = wf_adamw(m);
        for (int i = 0; i < 3; i++) {
            float x[4] = { 1, -1, 2, 0 }, before[8], after[8];
            int64_t t[2] = { 3, 3 };
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *y = wf_nn_linear(m, "fc", wf_tensor_from(c, WF_F32, WF_DIMS(2, 2), x), 4, .no_bias = true), *g;
            wf_loss l = wf_cross_entropy(y, wf_tensor_from(c, WF_I64, WF_DIMS(2), t), .ignore = 3, .has_ignore = true);
            wf_tensor *mean = wf_loss_mean(l);
            assert_int_equal(wf_grad(mean, 1, &y, &g), WF_OK);
            if (i == 1)
                wf_optim_step(opt, l);
            mean = wf_scope_return(c, s, mean);
            l.sum = wf_scope_return(c, s, l.sum);
            l.weight = wf_scope_return(c, s, l.weight);
            g = wf_scope_return(c, s, g);
            if (i)
                memcpy(before, after, sizeof before);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            assert_true(wf_item(c, l.sum) == 0 && wf_item(c, l.weight) == 0 && wf_item(c, mean) == 0);
            float gg[8];
            assert_int_equal(wf_read(c, g, gg, sizeof gg), WF_OK);
            for (int k = 0; k < 8; k++)
                assert_true(gg[k] == 0);
            wf_read(c, wf_value(wf_model_find(m, "fc.weight")), after, sizeof after);
            if (i)
                assert_memory_equal(before, after, sizeof before);
        }
        close_ctx(c);
    }
}

static void mse(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        float p[2] = { 1, 2 }, t[2] = { 0, 1 };
        for (int i = 0; i < 3; i++) { /* C17 */
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 1), p), *b = wf_tensor_from(c, WF_F32, WF_DIMS(2), t),
                      *g;
            if (i == 1) {
                assert_null(wf_mse(a, b).sum);
                wrong(c, WF_ERR_SHAPE, "a is f32[2,1], b is f32[2]");
            }
            wf_loss l = wf_mse(a, wf_reshape(b, WF_DIMS(2, 1)));
            wf_tensor *mean = wf_loss_mean(l);
            assert_int_equal(wf_grad(mean, 1, &a, &g), WF_OK);
            wf_tensor *out[4] = { l.sum, l.weight, mean, g };
            for (int k = 0; k < 4; k++)
                out[k] = wf_scope_return(c, s, out[k]);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            assert_true(wf_item(c, out[0]) == 2 && wf_item(c, out[1]) == 2 && wf_item(c, out[2]) == 1);
            assert_int_equal(wf_read(c, out[3], p, sizeof p), WF_OK);
            assert_true(p[0] == 1 && p[1] == 1);
            p[0] = 1, p[1] = 2;
        }
        close_ctx(c);
    }
}

static void bad_losses(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_EAGER);
    float x[6] = { 0 };
    int64_t t[3] = { 0, 1, 0 };
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(3, 2), x), *l = wf_tensor_from(c, WF_I64, WF_DIMS(3), t);
    assert_null(wf_cross_entropy(a, NULL).sum);
    wrong(c, WF_ERR_ARG, "wf_cross_entropy: labels is NULL");
    assert_null(wf_cross_entropy(a, l, .smoothing = 2).sum);
    wrong(c, WF_ERR_ARG, ".smoothing is 2");
    t[1] = 2; /* C18 */
    wf_tensor *bad = wf_tensor_from(c, WF_I64, WF_DIMS(3), t);
    wf_loss loss = wf_cross_entropy(a, bad);
    assert_null(loss.sum);
    wrong(c, WF_ERR_INDEX, "index 2 at position 1");
    near(wf_item(c, wf_cross_entropy(a, l).sum), 3 * log(2), 1e-6); /* usable again */
    assert_null(wf_loss_mean(((wf_loss){ NULL, a })));
    wrong(c, WF_ERR_ARG, "loss.sum is NULL");
    close_ctx(c);
}

/* ---- layers ---- */

static void fetch(wf_ctx *c, wf_model *m, const char *path, float *to, size_t n)
{
    wf_var *v = wf_model_find(m, path);
    if (!v)
        fail_msg("there is no %s", path);
    assert_int_equal(wf_read(c, wf_value(v), to, n * sizeof *to), WF_OK);
}

static void linear(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++)
        for (int rank = 1; rank <= 3; rank++) {
            wf_ctx *c = open_ctx(mode);
            wf_model *m = wf_model_new(c);
            wf_dims d = rank == 1 ? WF_DIMS(7) : rank == 2 ? WF_DIMS(5, 7) : WF_DIMS(2, 3, 7);
            int rows = rank == 1 ? 1 : rank == 2 ? 5 : 6;
            float x[42], w[21], b[3], y[18], g[42];
            for (int i = 0; i < 42; i++)
                x[i] = number(i);
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *in = wf_tensor_from(c, WF_F32, d, x), *out = wf_nn_linear(m, "fc", in, 3), *dx;
            assert_int_equal(wf_tensor_dims(out).n, rank);
            assert_int_equal(wf_tensor_dims(out).d[rank - 1], 3);
            assert_int_equal(wf_grad(wf_sum(wf_mul(out, out), WF_NO_DIMS), 1, &in, &dx), WF_OK);
            out = wf_scope_return(c, s, out);
            dx = wf_scope_return(c, s, dx);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            fetch(c, m, "fc.weight", w, 21);
            fetch(c, m, "fc.bias", b, 3);
            assert_int_equal(wf_read(c, out, y, (size_t)rows * 3 * 4), WF_OK);
            assert_int_equal(wf_read(c, dx, g, (size_t)rows * 7 * 4), WF_OK);
            for (int r = 0; r < rows; r++) {
                double back[7] = { 0 };
                for (int o = 0; o < 3; o++) {
                    double e = b[o];
                    for (int i = 0; i < 7; i++)
                        e += (double)w[o * 7 + i] * x[r * 7 + i];
                    near(y[r * 3 + o], e, 1e-5);
                    for (int i = 0; i < 7; i++)
                        back[i] += 2 * e * w[o * 7 + i];
                }
                for (int i = 0; i < 7; i++)
                    near(g[r * 7 + i], back[i], 1e-5);
            }
            close_ctx(c);
        }
}

static void conv(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c);
        float x[2 * 4 * 5 * 6], w[6 * 2 * 3 * 2], b[6], y[2 * 6 * 3 * 5];
        for (int i = 0; i < 240; i++)
            x[i] = number(i);
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *out = wf_nn_conv2d(m, "conv", wf_tensor_from(c, WF_F32, WF_DIMS(2, 4, 5, 6), x), 6, .kernel_h = 3,
                                      .kernel_w = 2, .stride_h = 2, .stride_w = 1, .pad_h = 1, .groups = 2);
        out = wf_scope_return(c, s, out);
        assert_int_equal(wf_scope_end(c, s), WF_OK);
        assert_int_equal(wf_tensor_dims(out).d[2], 3);
        assert_int_equal(wf_tensor_dims(out).d[3], 5);
        fetch(c, m, "conv.weight", w, 72);
        fetch(c, m, "conv.bias", b, 6);
        assert_int_equal(wf_read(c, out, y, sizeof y), WF_OK);
        for (int n = 0; n < 2; n++)
            for (int o = 0; o < 6; o++)
                for (int i = 0; i < 3; i++)
                    for (int j = 0; j < 5; j++) {
                        double e = b[o];
                        for (int k = 0; k < 2; k++)
                            for (int p = 0; p < 3; p++)
                                for (int q = 0; q < 2; q++) {
                                    int h = 2 * i + p - 1, ch = o / 3 * 2 + k;
                                    if (h >= 0 && h < 5)
                                        e += (double)x[((n * 4 + ch) * 5 + h) * 6 + j + q] *
                                             w[((o * 2 + k) * 3 + p) * 2 + q];
                                }
                        near(y[((n * 6 + o) * 3 + i) * 5 + j], e, 1e-5);
                    }
        close_ctx(c);
    }
}

static double gelu_tanh(double x)
{
    return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

enum { B = 2, T = 5, E = 6, H = 2 };

static void plain_norm(const double *x, const float *w, const float *b, double *y)
{
    for (int r = 0; r < B * T; r++) {
        double mean = 0, var = 0;
        for (int i = 0; i < E; i++)
            mean += x[r * E + i] / E;
        for (int i = 0; i < E; i++)
            var += (x[r * E + i] - mean) * (x[r * E + i] - mean) / E;
        for (int i = 0; i < E; i++)
            y[r * E + i] = (x[r * E + i] - mean) / sqrt(var + 1e-5) * w[i] + b[i];
    }
}

static void plain_linear(const double *x, int in, const float *w, const float *b, int out, double *y)
{
    for (int r = 0; r < B * T; r++)
        for (int o = 0; o < out; o++) {
            y[r * out + o] = b[o];
            for (int i = 0; i < in; i++)
                y[r * out + o] += x[r * in + i] * w[o * in + i];
        }
}

static void plain_attention(const double *qkv, double *y)
{
    int d = E / H;
    for (int b = 0; b < B; b++)
        for (int h = 0; h < H; h++)
            for (int t = 0; t < T; t++) {
                double p[T], z = 0;
                for (int u = 0; u <= t; u++) {
                    double s = 0;
                    for (int i = 0; i < d; i++)
                        s += qkv[(b * T + t) * 3 * E + h * d + i] * qkv[(b * T + u) * 3 * E + E + h * d + i];
                    z += p[u] = exp(s / sqrt(d));
                }
                for (int i = 0; i < d; i++) {
                    double s = 0;
                    for (int u = 0; u <= t; u++)
                        s += p[u] / z * qkv[(b * T + u) * 3 * E + 2 * E + h * d + i];
                    y[(b * T + t) * E + h * d + i] = s;
                }
            }
}

static void block(void **unused)
{
    (void)unused;
    float bits[2][B * T * E];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c);
        float table[11 * E], n1[2][E], n2[2][E], wqkv[3 * E * E], bqkv[3 * E], wp[E * E], bp[E], w1[24 * E], b1[24],
            w2[E * 24], b2[E];
        int64_t ids[B * T];
        wf_tensor *y = NULL;
        for (int i = 0; i < B * T; i++)
            ids[i] = (i * 7 + 3) % 11;
        for (int again = 0; again < 3; again++) {
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *x = wf_nn_embedding(m, "wte", wf_tensor_from(c, WF_I64, WF_DIMS(B, T), ids), WF_DIMS(11, E));
            y = wf_nn_transformer_block(m, "h0", x, .heads = H, .causal = true, .init_scale = 2);
            y = wf_scope_return(c, s, y);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
        }
        assert_int_equal(wf_model_param_count(m), 13);
        fetch(c, m, "wte.weight", table, 11 * E);
        fetch(c, m, "h0.ln1.weight", n1[0], E);
        fetch(c, m, "h0.ln1.bias", n1[1], E);
        fetch(c, m, "h0.ln2.weight", n2[0], E);
        fetch(c, m, "h0.ln2.bias", n2[1], E);
        fetch(c, m, "h0.attn.qkv.weight", wqkv, 3 * E * E);
        fetch(c, m, "h0.attn.qkv.bias", bqkv, 3 * E);
        fetch(c, m, "h0.attn.proj.weight", wp, E * E);
        fetch(c, m, "h0.attn.proj.bias", bp, E);
        fetch(c, m, "h0.fc1.weight", w1, 24 * E);
        fetch(c, m, "h0.fc1.bias", b1, 24);
        fetch(c, m, "h0.fc2.weight", w2, E * 24);
        fetch(c, m, "h0.fc2.bias", b2, E);
        double x[B * T * E], a[B * T * E], qkv[B * T * 3 * E], p[B * T * E], f[B * T * 24];
        for (int i = 0; i < B * T * E; i++)
            x[i] = table[ids[i / E] * E + i % E];
        plain_norm(x, n1[0], n1[1], a);
        plain_linear(a, E, wqkv, bqkv, 3 * E, qkv);
        plain_attention(qkv, a);
        plain_linear(a, E, wp, bp, E, p);
        for (int i = 0; i < B * T * E; i++)
            x[i] += p[i];
        plain_norm(x, n2[0], n2[1], a);
        plain_linear(a, E, w1, b1, 24, f);
        for (int i = 0; i < B * T * 24; i++)
            f[i] = gelu_tanh(f[i]);
        plain_linear(f, 24, w2, b2, E, p);
        assert_int_equal(wf_read(c, y, bits[mode - 1], sizeof bits[0]), WF_OK);
        for (int i = 0; i < B * T * E; i++)
            near(bits[mode - 1][i], x[i] + p[i], 3e-5);
        close_ctx(c);
    }
    assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

/* A block learns: gradients reach every parameter, and eager and lazy stay bit-equal through training. */
static void block_trains(void **unused)
{
    (void)unused;
    double last[2] = { 0 };
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c);
        wf_optim *opt = wf_adamw(m, .lr = 0.01);
        double first = 0;
        for (int step = 0; step < 40; step++) {
            int64_t ids[B * T], next[B * T];
            for (int i = 0; i < B * T; i++) {
                ids[i] = (i * 3 + step) % 7;
                next[i] = (ids[i] + 3) % 7;
            }
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *x = wf_nn_embedding(m, "wte", wf_tensor_from(c, WF_I64, WF_DIMS(B, T), ids), WF_DIMS(7, E));
            x = wf_nn_transformer_block(m, "h0", x, .heads = H, .causal = true);
            wf_loss l = wf_cross_entropy(wf_nn_linear(m, "head", x, 7), wf_tensor_from(c, WF_I64, WF_DIMS(B, T), next));
            wf_optim_step(opt, l);
            wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(l));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            last[mode - 1] = wf_item(c, mean);
            first = step ? first : last[mode - 1];
        }
        assert_string_equal(wf_optim_unreached(opt), "");
        assert_true(last[mode - 1] < 0.5 * first);
        close_ctx(c);
    }
    assert_true(last[0] == last[1]);
}

static void bad_layers(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY);
    wf_model *m = wf_model_new(c);
    float x[12] = { 0 };
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(3, 4), x);
    assert_non_null(wf_nn_linear(m, "fc", a, 2));
    assert_null(wf_nn_linear(m, "fc", wf_tensor_from(c, WF_F32, WF_DIMS(4, 3), x), 2));
    assert_non_null(strstr(wf_error(c), "fc.weight is f32[2,4], asked for as f32[2,3]"));
    wrong(c, WF_ERR_SHAPE, "fc.weight: made at");
    assert_null(wf_nn_layer_norm(m, "fc", a));
    wrong(c, WF_ERR_SHAPE, "fc.weight");
    assert_null(wf_nn_linear(m, "ln", NULL, 2));
    wrong(c, WF_ERR_ARG, "wf_nn_linear: x is NULL");
    assert_null(wf_nn_linear(m, "q", a, 0));
    wrong(c, WF_ERR_ARG, "the number of outputs is 0");
    assert_null(wf_nn_conv2d(m, "conv", a, 2));
    wrong(c, WF_ERR_SHAPE, "x is f32[3,4]: 4 axes were expected");
    assert_null(wf_nn_attention(m, "attn", wf_tensor_from(c, WF_F32, WF_DIMS(1, 3, 4), x), .heads = 3));
    wrong(c, WF_ERR_SHAPE, "3 heads do not divide the width 4");
    assert_int_equal(wf_model_param_count(m), 2);
    close_ctx(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cross_entropy), cmocka_unit_test(nothing_counts), cmocka_unit_test(mse),
        cmocka_unit_test(bad_losses),    cmocka_unit_test(linear),         cmocka_unit_test(conv),
        cmocka_unit_test(block),         cmocka_unit_test(block_trains),   cmocka_unit_test(bad_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
