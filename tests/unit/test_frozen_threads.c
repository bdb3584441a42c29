/* Frozen weights: four threads, each with a context of its own, answer from the same memory at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "record/record.h"

enum { THREADS = 4, ROWS = 6, IN = 20, HIDDEN = 33, OUT = 5, ROUNDS = 40 };

static wf_ctx *open_ctx(wf_runtime *rt, int mode)
{
    return wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = (wf_mode)mode, .seed = 4, .runtime = rt });
}

static wf_tensor *net(void *user, wf_model *m, wf_tensor *const *in)
{
    (void)user;
    return wf_nn_linear(m, "fc2", wf_relu(wf_nn_linear(m, "fc1", in[0], HIDDEN)), OUT);
}

static void input(int round, float x[ROWS * IN])
{
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = (float)((i * 37 + round * 11) % 101) / 50.0f - 1;
}

static bool answer(wf_ctx *c, wf_model *m, int round, float y[ROWS * OUT])
{
    float x[ROWS * IN];
    input(round, x);
    wf_scope s = wf_scope_begin(c, "answer", .no_grad = true);
    wf_tensor *in = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, IN), x);
    wf_tensor *out = wf_scope_return(c, s, net(NULL, m, &in));
    return wf_scope_end(c, s) == WF_OK && wf_read(c, out, y, sizeof(float) * ROWS * OUT) == WF_OK;
}

typedef struct client {
    wf_runtime *rt;
    wf_frozen *f;
    int mode;
    float y[ROUNDS][ROWS * OUT];
    const char *failed;
} client;

static void *serve(void *arg)
{
    client *k = arg;
    wf_ctx *c = open_ctx(k->rt, k->mode);
    wf_model *m = wf_model_thawed(c, k->f);
    if (!c || !m)
        k->failed = "cannot begin";
    for (int i = 0; i < ROUNDS && !k->failed; i++) {
        wf_scope g = wf_scope_begin(c, "round", .group = true);
        if (!answer(c, m, i, k->y[i]))
            k->failed = "cannot answer";
        wf_scope_end(c, g);
    }
    if (wf_ctx_close(c) != WF_OK && !k->failed)
        k->failed = "an error is pending";
    return NULL;
}

static wf_frozen *make(wf_runtime *rt, float want[ROUNDS][ROWS * OUT])
{
    wf_ctx *c = open_ctx(rt, WF_LAZY);
    wf_model *m = wf_model_new(c);
    wf_dtype t = WF_F32;
    wf_dims d = WF_DIMS(ROWS, IN);
    assert_int_equal(wf_model_init(m, net, NULL, 1, &t, &d), WF_OK);
    for (int i = 0; i < ROUNDS; i++)
        assert_true(answer(c, m, i, want[i]));
    wf_frozen *f = wf_model_freeze(m);
    assert_non_null(f);
    /* what the model does later does not reach the frozen weights */
    wf_scope s = wf_scope_begin(c, "change");
    wf_tensor *w = wf_value(wf_model_find(m, "fc1.weight"));
    wf_assign(wf_model_find(m, "fc1.weight"), wf_mul(w, w));
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    assert_int_equal(wf_ctx_close(c), WF_OK);
    return f;
}

static void four_at_once(void **unused)
{
    (void)unused;
    static float want[ROUNDS][ROWS * OUT];
    static client k[THREADS];
    wf_runtime *rt = wf_runtime_new(&(wf_runtime_opts){ .size = sizeof(wf_runtime_opts), .threads = 2 });
    assert_non_null(rt);
    wf_frozen *f = make(rt, want);
    pthread_t id[THREADS];
    for (int i = 0; i < THREADS; i++) {
        k[i] = (client){ .rt = rt, .f = f, .mode = i % 2 ? WF_EAGER : WF_LAZY };
        assert_int_equal(pthread_create(&id[i], NULL, serve, &k[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        if (k[i].failed)
            fail_msg("thread %d: %s", i, k[i].failed);
        assert_memory_equal(k[i].y, want, sizeof want);
    }
    /* contexts keep what they use: the program's own references may go first */
    wf_ctx *c = open_ctx(rt, WF_LAZY);
    wf_model *m = wf_model_thawed(c, f);
    wf_frozen_free(f);
    wf_runtime_free(rt);
    float y[ROWS * OUT];
    assert_true(answer(c, m, 3, y));
    assert_memory_equal(y, want[3], sizeof y);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static void wrong(wf_ctx *c, wf_status status, const char *what)
{
    if (!wf_error(c) || !strstr(wf_error(c), what))
        fail_msg("\"%s\" is not in: %s", what, wf_error(c) ? wf_error(c) : "nothing");
    assert_int_equal(wf_error_status(c), status);
    wf_error_clear(c);
}

static void not_allowed(void **unused)
{
    (void)unused;
    static float want[ROUNDS][ROWS * OUT];
    wf_runtime *rt = wf_runtime_new(NULL);
    wf_frozen *f = make(rt, want);
    wf_ctx *c = open_ctx(rt, WF_LAZY), *other = open_ctx(NULL, WF_LAZY);
    wf_model *m = wf_model_thawed(c, f);
    assert_int_equal(wf_model_param_count(m), 4);
    assert_null(wf_adamw(m));
    wrong(c, WF_ERR_ARG, "frozen weights");
    assert_null(wf_nn_param(m, "more", WF_DIMS(2)));
    wrong(c, WF_ERR_ARG, "have no more");
    assert_int_equal(wf_model_load(m, "x"), WF_ERR_ARG);
    wrong(c, WF_ERR_ARG, "do not change");
    assert_null(wf_model_thawed(other, f));
    wrong(other, WF_ERR_ARG, "another runtime");
    assert_null(wf_model_thawed(c, NULL));
    wrong(c, WF_ERR_ARG, "NULL");
    wf_scope s = wf_scope_begin(c, "step");
    assert_null(wf_model_freeze(m));
    wrong(c, WF_ERR_STATE, "a step is open");
    wf_scope_end(c, s);
    /* a gradient by a frozen value can be asked for, and a variable that is assigned leaves the shared memory */
    for (int i = 0; i < 3; i++) {
        s = wf_scope_begin(c, "step");
        wf_var *v = wf_model_find(m, "fc2.bias");
        wf_tensor *b = wf_value(v), *g;
        assert_int_equal(wf_grad(wf_sum(wf_mul(b, b), WF_NO_DIMS), 1, &b, &g), WF_OK);
        wf_assign(v, wf_add(b, g));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    wf_model *again = wf_model_thawed(c, f);
    float y[ROWS * OUT];
    assert_true(answer(c, again, 2, y));
    assert_memory_equal(y, want[2], sizeof y);
    wf_frozen_free(f);
    wf_frozen_free(NULL);
    wf_runtime_free(rt);
    assert_int_equal(wf_ctx_close(c), WF_OK);
    assert_int_equal(wf_ctx_close(other), WF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(four_at_once), cmocka_unit_test(not_allowed) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
