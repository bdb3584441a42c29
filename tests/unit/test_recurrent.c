/* The LSTM layer against plain loops in double, with and without a state, over few and many positions; lazy, eager and
 * any number of threads agree bit for bit; it learns. */
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

enum { MOST = 70, B = 3, IN = 5, H = 6 };

static wf_ctx *open_ctx(wf_mode mode, int threads)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = mode, .threads = threads, .seed = 5 });
    assert_non_null(c);
    return c;
}

static void numbers(float *x, int n, int salt)
{
    for (int i = 0; i < n; i++)
        x[i] = (float)((i * 7919 + salt * 131 + 13) % 1009) / 250.0f - 2;
}

typedef struct weights {
    float ih[4 * H * IN], hh[4 * H * H], bih[4 * H], bhh[4 * H];
} weights;

static void read_all(wf_model *m, weights *w)
{
    static const char *const name[] = { "rnn.weight_ih_l0", "rnn.weight_hh_l0", "rnn.bias_ih_l0", "rnn.bias_hh_l0" };
    float *const to[] = { w->ih, w->hh, w->bih, w->bhh };
    const size_t bytes[] = { sizeof w->ih, sizeof w->hh, sizeof w->bih, sizeof w->bhh };
    for (int i = 0; i < 4; i++) {
        wf_var *v = wf_model_find(m, name[i]);
        assert_non_null(v);
        assert_int_equal(wf_read(wf_model_ctx(m), wf_value(v), to[i], bytes[i]), WF_OK);
    }
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* One step of one sample; h and c are replaced. */
static void plain(const weights *w, const float *x, double *h, double *c)
{
    double gate[4 * H];
    for (int g = 0; g < 4 * H; g++) {
        gate[g] = (double)w->bih[g] + (double)w->bhh[g];
        for (int i = 0; i < IN; i++)
            gate[g] += (double)w->ih[g * IN + i] * (double)x[i];
        for (int i = 0; i < H; i++)
            gate[g] += (double)w->hh[g * H + i] * h[i];
    }
    for (int j = 0; j < H; j++) {
        c[j] = sigmoid(gate[H + j]) * c[j] + sigmoid(gate[j]) * tanh(gate[2 * H + j]);
        h[j] = sigmoid(gate[3 * H + j]) * tanh(c[j]);
    }
}

static void near(double got, double want)
{
    if (!(fabs(got - want) < 2e-6))
        fail_msg("%.9g, want %.9g", got, want);
}

/* y: [T,B,H], then h and c: [B,H] */
static void forward(wf_mode mode, int threads, int T, bool given, float *y)
{
    static float x[MOST * B * IN], h0[B * H], c0[B * H];
    numbers(x, T * B * IN, 1), numbers(h0, B * H, 2), numbers(c0, B * H, 3);
    wf_ctx *c = open_ctx(mode, threads);
    wf_model *m = wf_model_new(c);
    weights w;
    for (int k = 0; k < 3; k++) {
        wf_scope s = wf_scope_begin(c, "step", .no_grad = k == 1);
        wf_tensor *h = NULL, *cell = NULL, *in = wf_tensor_from(c, WF_F32, WF_DIMS(T, B, IN), x);
        wf_tensor *hs = given ? wf_tensor_from(c, WF_F32, WF_DIMS(B, H), h0) : NULL;
        wf_tensor *cs = given ? wf_tensor_from(c, WF_F32, WF_DIMS(B, H), c0) : NULL;
        wf_tensor *t = wf_nn_lstm(m, "rnn", in, H, .h0 = hs, .c0 = cs, .h_n = &h, .c_n = &cell);
        assert_int_equal(wf_read(c, t, y, (size_t)(T * B * H) * sizeof *y), WF_OK);
        assert_int_equal(wf_read(c, h, y + T * B * H, B * H * sizeof *y), WF_OK);
        assert_int_equal(wf_read(c, cell, y + (T + 1) * B * H, B * H * sizeof *y), WF_OK);
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    read_all(m, &w);
    for (int b = 0; b < B; b++) {
        double hd[H] = { 0 }, cd[H] = { 0 };
        for (int j = 0; j < H && given; j++)
            hd[j] = (double)h0[b * H + j], cd[j] = (double)c0[b * H + j];
        for (int t = 0; t < T; t++) {
            plain(&w, x + (t * B + b) * IN, hd, cd);
            for (int j = 0; j < H; j++)
                near((double)y[(t * B + b) * H + j], hd[j]);
        }
        for (int j = 0; j < H; j++) {
            near((double)y[(T * B + b) * H + j], hd[j]);
            near((double)y[((T + 1) * B + b) * H + j], cd[j]);
        }
    }
    close_ctx(c);
}

static void as_plain_loops(void **unused)
{
    (void)unused;
    static float a[(MOST + 2) * B * H], b[(MOST + 2) * B * H];
    static const int lengths[] = { 1, 2, 33, MOST };
    for (int i = 0; i < 4; i++) {
        forward(WF_EAGER, 1, lengths[i], i % 2, a);
        for (int threads = 1; threads <= 3; threads++) {
            forward(WF_LAZY, threads, lengths[i], i % 2, b);
            assert_memory_equal(a, b, (size_t)(lengths[i] + 2) * B * H * sizeof *a);
        }
    }
}

/* The sign of the first element of a sequence, asked for at its end. */
static void learns(void **unused)
{
    (void)unused;
    double last[2], first = 0;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode, 2);
        wf_model *m = wf_model_new(c);
        wf_optim *opt = wf_adamw(m, .lr = 0.02);
        enum { T = 8, N = 16 };
        float x[T * N * IN];
        int64_t label[N];
        numbers(x, T * N * IN, 4);
        for (int i = 0; i < N; i++)
            label[i] = x[i * IN] > 0;
        for (int k = 0; k < 60; k++) {
            wf_scope around = wf_scope_begin(c, "batch", .group = true);
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *h = NULL;
            (void)wf_nn_lstm(m, "rnn", wf_tensor_from(c, WF_F32, WF_DIMS(T, N, IN), x), 8, .h_n = &h);
            wf_loss l = wf_cross_entropy(wf_nn_linear(m, "head", h, 2), wf_tensor_from(c, WF_I64, WF_DIMS(N), label));
            wf_optim_step(opt, l);
            wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(l));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            last[mode - 1] = wf_item(c, mean);
            wf_scope_end(c, around);
            first = k ? first : last[mode - 1];
        }
        assert_string_equal(wf_optim_unreached(opt), "");
        assert_true(last[mode - 1] < 0.3 * first);
        close_ctx(c);
    }
    assert_true(last[0] == last[1]);
}

static void bad_calls(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    wf_model *m = wf_model_new(c);
    float x[12] = { 0 };
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 2, 3), x);
    assert_null(wf_nn_lstm(m, "rnn", wf_tensor_from(c, WF_F32, WF_DIMS(4, 3), x), 2));
    wrong(c, WF_ERR_SHAPE, "wf_nn_lstm: x is f32[4,3]: 3 axes were expected");
    assert_null(wf_nn_lstm(m, "rnn", a, 0));
    wrong(c, WF_ERR_ARG, "the number of outputs is 0");
    assert_null(wf_nn_lstm(m, "rnn", wf_tensor_from(c, WF_F32, WF_DIMS(0, 2, 3), x), 2));
    wrong(c, WF_ERR_ARG, "the number of positions is 0");
    assert_null(wf_nn_lstm(m, "rnn", a, 2, .h0 = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), x)));
    wrong(c, WF_ERR_SHAPE, "h0 is [2,3], [2,2] was expected");
    wf_tensor *four = wf_tensor_from(c, WF_F32, WF_DIMS(1, 4), x);
    assert_null(wf_lstm_cell(four, four, four));
    wrong(c, WF_ERR_SHAPE, "lstm_cell: a[-1] is 4, needed four times c[-1], which is 4");
    close_ctx(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_plain_loops),
        cmocka_unit_test(learns),
        cmocka_unit_test(bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
