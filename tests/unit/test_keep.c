/* Weights that are kept in panels between runs: whatever changes a variable (an assignment, a step of an optimiser, a
 * file), the next inference sees it; the bits are those of eager calls. */
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
#include "plan/plan.h"

enum { N = 3, CH = 5, SIDE = 9, OUT = 7 };

typedef struct pair { /* the same program, lazy and eager */
    wf_ctx *c[2];
    wf_model *m[2];
    wf_optim *opt[2];
    float x[N * CH * SIDE * SIDE];
} pair;

static void open_pair(pair *p, int threads)
{
    static const wf_mode mode[2] = { WF_LAZY, WF_EAGER };
    for (int i = 0; i < N * CH * SIDE * SIDE; i++)
        p->x[i] = (float)((i * 7919 + 13) % 1009) / 250.0f - 2;
    for (int k = 0; k < 2; k++) {
        p->c[k] =
            wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = mode[k], .threads = threads, .seed = 5 });
        assert_non_null(p->c[k]);
        p->m[k] = wf_model_new(p->c[k]);
        p->opt[k] = wf_sgd(p->m[k], .lr = 0.1);
    }
}

static void close_pair(pair *p)
{
    for (int k = 0; k < 2; k++) {
        if (wf_error(p->c[k]))
            fail_msg("%s", wf_error(p->c[k]));
        assert_int_equal(wf_ctx_close(p->c[k]), WF_OK);
    }
}

/* Convolutions with groups and strides, and products whose weights are wide enough to be packed. */
static wf_tensor *net(wf_model *m, wf_tensor *x)
{
    x = wf_relu(wf_nn_conv2d(m, "a", x, 20, .kernel = 3, .pad = 1));
    x = wf_nn_conv2d(m, "b", x, 40, .kernel = 3, .stride = 2, .groups = 2);
    x = wf_nn_conv2d(m, "c", x, 40, .kernel = 3, .groups = 40);
    x = wf_nn_linear(m, "d", wf_reshape(x, WF_DIMS(N * 40, 4)), 300);
    return wf_nn_linear(m, "e", wf_reshape(x, WF_DIMS(N * 10, 1200)), OUT);
}

static void infer(pair *p)
{
    static float y[2][N * 10 * OUT];
    for (int k = 0; k < 2; k++) {
        wf_ctx *c = p->c[k];
        wf_scope around = wf_scope_begin(c, "around", .group = true);
        wf_scope s = wf_scope_begin(c, "infer", .no_grad = true);
        wf_tensor *t = net(p->m[k], wf_tensor_from(c, WF_F32, WF_DIMS(N, CH, SIDE, SIDE), p->x));
        wf_scope_return(c, s, t);
        assert_int_equal(wf_scope_end(c, s), WF_OK);
        assert_int_equal(wf_read(c, t, y[k], sizeof y[k]), WF_OK);
        wf_scope_end(c, around);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
}

static void train(pair *p)
{
    for (int k = 0; k < 2; k++) {
        wf_ctx *c = p->c[k];
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *t = net(p->m[k], wf_tensor_from(c, WF_F32, WF_DIMS(N, CH, SIDE, SIDE), p->x));
        wf_optim_step(p->opt[k], wf_mse(t, wf_mul(t, wf_scalar(c, 0.5))));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
}

static void assign(pair *p, const char *path)
{
    for (int k = 0; k < 2; k++) {
        wf_var *v = wf_model_find(p->m[k], path);
        wf_scope s = wf_scope_begin(p->c[k], "assign");
        wf_assign(v, wf_neg(wf_value(v)));
        assert_int_equal(wf_scope_end(p->c[k], s), WF_OK);
    }
}

/* How many operands the last plan keeps. */
static uint32_t kept(const pair *p)
{
    const wfi_plan *plan = p->c[0]->last_plan;
    uint32_t n = 0;
    for (uint32_t i = 0; plan && i < plan->nkept; i++)
        n += plan->kept[i].room != NULL;
    return n;
}

static void changes_are_seen(void **unused)
{
    (void)unused;
    for (int threads = 1; threads <= 3; threads++) {
        pair *p = calloc(1, sizeof *p);
        assert_non_null(p);
        open_pair(p, threads);
        for (int i = 0; i < 4; i++)
            infer(p);
        assert_true(kept(p) >= 2); /* the depthwise one is none of them */
        for (int i = 0; i < 4; i++) {
            assign(p, i % 2 ? "a.weight" : "b.weight");
            infer(p);
            assign(p, "d.weight");
            infer(p);
            infer(p);
        }
        for (int i = 0; i < 5; i++) {
            train(p);
            assert_true(i < 2 || kept(p) == 0); /* from the third step on it is a plan; its weights change */
            infer(p);
            assert_true(kept(p) >= 2);
        }
        close_pair(p);
        free(p);
    }
}

static void files_are_seen(void **unused)
{
    (void)unused;
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-keep-%ld.safetensors", (long)getpid());
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    open_pair(p, 2);
    infer(p);
    assert_int_equal(wf_model_save(p->m[0], path), WF_OK);
    train(p);
    for (int i = 0; i < 3; i++)
        infer(p);
    for (int k = 0; k < 2; k++)
        assert_int_equal(wf_model_load(p->m[k], path), WF_OK);
    infer(p);
    assert_true(kept(p) >= 2);
    unlink(path);
    close_pair(p);
    free(p);
}

/* A known step allocates nothing. */
static void no_allocation(void **unused)
{
    (void)unused;
    pair *p = calloc(1, sizeof *p);
    assert_non_null(p);
    open_pair(p, 1);
    for (int i = 0; i < 4; i++)
        infer(p);
    uint64_t before = wf_ctx_stats(p->c[0]).allocations;
    for (int i = 0; i < 4; i++)
        infer(p);
    assert_true(wf_ctx_stats(p->c[0]).allocations == before);
    close_pair(p);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_seen),
        cmocka_unit_test(files_are_seen),
        cmocka_unit_test(no_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
