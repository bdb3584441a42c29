/* Layers and losses on known traces, where their records are handed out at once: steps that differ in name, width,
 * bias, sharing, history and place, whose bits must be those of an eager run; and the lines that messages show. */
#include "refeval.h"

enum { STEPS = 900, KINDS = 10, WIDTH = 6, ROWS = 5 };

typedef struct run {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
    char name[16]; /* one buffer for all names: its address says nothing */
} run;

static run run_open(wf_mode mode)
{
    run r = { .c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = 1, .seed = 7 }) };
    assert_non_null(r.c);
    assert_non_null(r.m = wf_model_new(r.c));
    assert_non_null(r.opt = wf_sgd(r.m, .lr = 0.05));
    return r;
}

static wf_tensor *layer(run *r, int which, wf_tensor *x, int64_t out, bool no_bias)
{
    snprintf(r->name, sizeof r->name, "fc%d", which);
    return wf_nn_linear(r->m, r->name, x, out, .no_bias = no_bias);
}

/* The network of one kind of step: they begin alike and differ somewhere. */
static wf_tensor *net(run *r, int kind, wf_tensor *x)
{
    wf_tensor *h = layer(r, kind == 1 ? 8 : 1, x, WIDTH, false);
    switch (kind) {
    case 2: h = layer(r, 2, h, WIDTH, true); break; /* no bias */
    case 3:
        h = layer(r, 3, layer(r, 3, h, WIDTH, false), WIDTH, false);
        break;                                                              /* shared: its value is asked for once */
    case 4: h = layer(r, 4, layer(r, 1, h, WIDTH, false), 3, false); break; /* another width */
    case 5: h = wf_mul(h, wf_nn_param(r->m, "fc1.bias", WF_DIMS(WIDTH))); break; /* remembered from the layer */
    case 6: h = layer(r, 2, wf_relu(h), WIDTH, true); break;
    case 7: h = layer(r, 5, wf_reshape(h, WF_DIMS(1, ROWS, WIDTH)), WIDTH, false); break; /* rank 3 */
    case 8: h = layer(r, 2, h, WIDTH, false); break;                                      /* as kind 2, with a bias */
    default: h = layer(r, 6, h, WIDTH, false); break;
    }
    return h;
}

static double step(run *r, int kind, uint64_t number, bool no_grad)
{
    float x[ROWS * WIDTH], y[ROWS * WIDTH];
    rng g = { number };
    for (int i = 0; i < ROWS * WIDTH; i++) {
        x[i] = (float)(rng_unit(&g) - 0.5);
        y[i] = (float)rng_unit(&g);
    }
    wf_scope around = wf_scope_begin(r->c, "around", .group = true);
    wf_scope s = wf_scope_begin(r->c, "step", .no_grad = no_grad);
    wf_tensor *h = net(r, kind, wf_tensor_from(r->c, WF_F32, WF_DIMS(ROWS, WIDTH), x));
    wf_dims d = wf_tensor_dims(h);
    wf_loss loss = wf_mse(h, wf_tensor_from(r->c, WF_F32, d, y));
    if (number % 4 == 1) /* the same loss again is another one */
        loss.sum = wf_add(loss.sum, wf_mse(h, wf_mul(h, h)).sum);
    wf_tensor *mean = wf_scope_return(r->c, s, wf_loss_mean(loss));
    if (!no_grad)
        assert_int_equal(wf_optim_step(r->opt, loss), WF_OK);
    if (wf_scope_end(r->c, s) != WF_OK)
        fail_msg("step %llu, kind %d: %s", (unsigned long long)number, kind, wf_error(r->c));
    double value = wf_item(r->c, mean);
    wf_scope_end(r->c, around);
    return value;
}

static void same_bits(void **state)
{
    (void)state;
    run lazy = run_open(WF_LAZY), eager = run_open(WF_EAGER);
    rng g = { 11 };
    int kind = 0;
    bool no_grad = false;
    for (uint64_t i = 0; i < STEPS; i++) {
        if (i % 4 == 0) { /* so that each is known before another one comes where it was expected */
            kind = (int)rng_below(&g, KINDS);
            no_grad = rng_below(&g, 3) == 0;
        }
        const double a = step(&lazy, kind, i / 2, no_grad), b = step(&eager, kind, i / 2, no_grad);
        if (memcmp(&a, &b, sizeof a) != 0)
            fail_msg("step %llu, kind %d: the loss is %.9g lazily, %.9g eagerly", (unsigned long long)i, kind, a, b);
    }
    assert_int_equal(wf_model_param_count(lazy.m), wf_model_param_count(eager.m));
    for (int32_t i = 0; i < wf_model_param_count(lazy.m); i++) {
        float a[64], b[64];
        wf_var *v = wf_model_param(lazy.m, i), *w = wf_model_param(eager.m, i);
        size_t n = 4;
        for (int32_t k = 0; k < wf_var_dims(v).n; k++)
            n *= (size_t)wf_var_dims(v).d[k];
        assert_int_equal(wf_read(lazy.c, wf_value(v), a, n), WF_OK);
        assert_int_equal(wf_read(eager.c, wf_value(w), b, n), WF_OK);
        assert_memory_equal(a, b, n);
    }
    wf_stats st = wf_ctx_stats(lazy.c);
    assert_true(st.replayed > STEPS / 3); /* else nothing was tested */
    assert_int_equal(wf_ctx_close(lazy.c), WF_OK);
    assert_int_equal(wf_ctx_close(eager.c), WF_OK);
}

/* The same step again and again is one trace, also where it asks for a value that a layer has asked for. */
static void one_trace(void **state)
{
    (void)state;
    run r = run_open(WF_LAZY);
    for (int kind = 0; kind < KINDS; kind++) {
        wf_stats was = { 0 }, first = wf_ctx_stats(r.c);
        for (int i = 0; i < 8; i++) {
            if (i == 4)
                was = wf_ctx_stats(r.c);
            (void)step(&r, kind, 0, false);
        }
        wf_stats now = wf_ctx_stats(r.c);
        assert_true(now.plans <= first.plans + 1);
        assert_int_equal(now.side_exits, was.side_exits);
        assert_int_equal(now.replayed, was.replayed + 4);
    }
    assert_int_equal(wf_ctx_close(r.c), WF_OK);
}

/* The same trace from two places of the program: messages name the one of this step. */
static void lines(void **state)
{
    (void)state;
    run r = run_open(WF_LAZY);
    const float x[ROWS * WIDTH] = { 1 };
    for (int i = 0; i < 9; i++) {
        wf_scope s = wf_scope_begin(r.c, "step");
        wf_tensor *in = wf_tensor_from(r.c, WF_F32, WF_DIMS(ROWS, WIDTH), x), *y;
        int line;
        if (i % 2) {
            y = wf_nn_linear(r.m, "fc", in, 3), line = __LINE__;
        } else {
            y = wf_nn_linear(r.m, "fc", in, 3), line = __LINE__;
        }
        if (i == 8) { /* before that the other line was the last to be compared */
            char want[40];
            assert_null(wf_matmul(y, y));
            snprintf(want, sizeof want, "a: result of add, f32[5,3], ");
            assert_non_null(strstr(wf_error(r.c), want));
            snprintf(want, sizeof want, "test_again.c:%d\n", line);
            assert_non_null(strstr(wf_error(r.c), want));
            wf_error_clear(r.c);
        }
        assert_int_equal(wf_scope_end(r.c, s), WF_OK);
    }
    assert_int_equal(wf_ctx_close(r.c), WF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits), cmocka_unit_test(one_trace),
                                        cmocka_unit_test(lines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
