/* Captured functions: calls inside and outside steps, eager and lazy; what they hold; gradients through them; what goes
 * wrong. */
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
        wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = (wf_mode)mode, .threads = 1, .seed = 3 });
    assert_non_null(c);
    return c;
}

static float value(wf_var *v)
{
    float f = NAN;
    assert_int_equal(wf_read(v->ctx, wf_value(v), &f, sizeof f), WF_OK);
    return f;
}

static wf_tensor *vec(wf_ctx *c, float a, float b, float d)
{
    float x[3] = { a, b, d };
    return wf_tensor_from(c, WF_F32, WF_DIMS(3), x);
}

static void equal3(wf_ctx *c, wf_tensor *t, float a, float b, float d)
{
    float x[3];
    ok(c);
    assert_int_equal(wf_read(c, t, x, sizeof x), WF_OK);
    if (x[0] != a || x[1] != b || x[2] != d)
        fail_msg("%g %g %g, want %g %g %g", (double)x[0], (double)x[1], (double)x[2], (double)a, (double)b, (double)d);
}

/* ---- C34: a step that is captured ---- */

static bool descent(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    wf_var *w = user;
    wf_tensor *v = wf_value(w), *d = wf_sub(v, wf_scalar(c, 3)), *loss = wf_mul(d, d), *g;
    (void)in;
    if (wf_grad(loss, 1, &v, &g) != WF_OK)
        return false;
    wf_assign(w, wf_sub(v, wf_mul(g, wf_scalar(c, 0.25))));
    out[0] = loss;
    return true;
}

static void assignments(void **unused)
{
    (void)unused;
    static const float want[4] = { 1.5f, 2.25f, 2.625f, 2.8125f };
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++)
        for (int inside = 0; inside < 2; inside++) {
            wf_ctx *c = open_ctx(mode);
            wf_var *w = wf_var_new(c, "w", WF_F32, WF_NO_DIMS, NULL);
            wf_fn *f = wf_capture(c, descent, w, 0, NULL, 1);
            ok(c);
            assert_true(value(w) == 0); /* nothing ran */
            for (int i = 0; i < 4; i++) {
                wf_tensor *loss;
                wf_scope s = wf_scope_begin(c, "step", .group = !inside);
                assert_int_equal(wf_fn_call(f, NULL, &loss), WF_OK);
                loss = wf_scope_return(c, s, loss);
                assert_int_equal(wf_scope_end(c, s), WF_OK);
                float was = i ? want[i - 1] : 0;
                assert_true(wf_item(c, loss) == (double)((was - 3) * (was - 3)));
                assert_true(value(w) == want[i]);
            }
            if (!inside) { /* the calls ran as a plan, in eager mode as well */
                wf_stats st = wf_ctx_stats(c);
                assert_true(st.plans >= 1 && st.replayed >= 2);
            }
            close_ctx(c);
        }
}

/* ---- inputs, outputs, constants, gradients ---- */

typedef struct affine {
    wf_tensor *scale; /* from outside */
    int calls;
} affine;

static bool body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    affine *a = user;
    a->calls++;
    wf_tensor *shift = vec(c, 1, 2, 3);
    wf_tensor *y = wf_add(wf_mul(in[0], a->scale), wf_mul(in[1], shift));
    out[0] = y;
    out[1] = wf_sum(y, WF_NO_DIMS);
    out[2] = in[1];
    return true;
}

static void calls(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        affine a = { vec(c, 2, 3, 4), 0 };
        wf_tensor *x = vec(c, 1, 1, 1), *like[2] = { x, x }, *out[3];
        wf_fn *f = wf_capture(c, body, &a, 2, like, 3);
        ok(c);
        for (int i = 0; i < 5; i++) {
            wf_tensor *in[2] = { vec(c, (float)i, 1, 0), vec(c, 1, 1, (float)i) };
            assert_int_equal(wf_fn_call(f, in, out), WF_OK);
            equal3(c, out[0], 2 * (float)i + 1, 5, 3 * (float)i);
            assert_true(wf_item(c, out[1]) == 5 * i + 6);
            equal3(c, out[2], 1, 1, (float)i);
        }
        assert_int_equal(a.calls, 1);
        /* inside a step, twice, the second on results of the first; and differentiated */
        for (int i = 0; i < 4; i++) {
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *p = vec(c, (float)i, 1, 2), *in[2] = { p, p }, *two[3], *g;
            assert_int_equal(wf_fn_call(f, in, out), WF_OK);
            wf_tensor *again[2] = { out[0], p };
            assert_int_equal(wf_fn_call(f, again, two), WF_OK);
            assert_int_equal(wf_grad(two[1], 1, &p, &g), WF_OK);
            /* y = p*(s + t); z = y*s + p*t; dz/dp = (s + t)*s + t */
            g = wf_scope_return(c, s, g);
            wf_tensor *z = wf_scope_return(c, s, two[0]);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            equal3(c, g, 7, 17, 31);
            equal3(c, z, 7 * (float)i, 17, 62);
        }
        /* scalars as inputs of rank 0 are numbers: not so here */
        wf_tensor *bad[2] = { wf_tensor_from(c, WF_F32, WF_DIMS(2), ((float[]){ 1, 2 })), x };
        assert_int_equal(wf_fn_call(f, bad, out), WF_ERR_SHAPE);
        assert_null(out[0]);
        wrong(c, WF_ERR_SHAPE, "input 0 is f32[2], the function was captured for f32[3]");
        bad[0] = wf_tensor_from(c, WF_F64, WF_DIMS(3), ((double[]){ 1, 2, 3 }));
        assert_int_equal(wf_fn_call(f, bad, out), WF_ERR_DTYPE);
        wrong(c, WF_ERR_DTYPE, "input 0 is f64[3]");
        bad[0] = NULL;
        assert_int_equal(wf_fn_call(f, bad, out), WF_ERR_ARG);
        wrong(c, WF_ERR_ARG, "input 0 is NULL");
        bad[0] = x;
        assert_int_equal(wf_fn_call(f, bad, out), WF_OK); /* usable again */
        close_ctx(c);
    }
}

/* ---- a step that waits while something is captured ---- */

static void in_the_middle(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        affine a = { vec(c, 2, 3, 4), 0 };
        wf_fn *f = NULL;
        for (int i = 0; i < 4; i++) {
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *h = wf_mul(a.scale, a.scale), *out[3], *g;
            if (i == 1) {
                wf_tensor *like[2] = { h, h }; /* not computed yet */
                f = wf_capture(c, body, &a, 2, like, 3);
                ok(c);
            }
            wf_tensor *y = wf_add(h, a.scale), *in[2] = { y, y }, *z = y;
            if (f) {
                assert_int_equal(wf_fn_call(f, in, out), WF_OK);
                z = out[0];
            }
            assert_int_equal(wf_grad(wf_sum(wf_add(z, h), WF_NO_DIMS), 1, &a.scale, &g), WF_OK);
            g = wf_scope_return(c, s, g);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            /* y = s*s + s; before: d(y + s*s) = 4s + 1; then z = y*s' + y*t with s' a constant of the function */
            if (!f)
                equal3(c, g, 9, 13, 17);
            else
                equal3(c, g, 5 * 3 + 4, 7 * 5 + 6, 9 * 7 + 8);
        }
        close_ctx(c);
    }
}

/* ---- an optimiser inside ---- */

typedef struct training {
    wf_model *m;
    wf_optim *opt;
} training;

static bool step(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    training *t = user;
    (void)c;
    wf_loss l = wf_mse(wf_nn_linear(t->m, "fc", in[0], 2), in[1]);
    out[0] = wf_loss_mean(l);
    return wf_optim_step(t->opt, l) == WF_OK;
}

static void optimiser_inside(void **unused)
{
    (void)unused;
    float got[2][2][8];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++)
        for (int captured = 0; captured < 2; captured++) {
            wf_ctx *c = open_ctx(mode);
            training t = { .m = wf_model_new(c) };
            t.opt = wf_adamw(t.m, .lr = 0.1);
            wf_fn *f = NULL;
            for (int i = 0; i < 8; i++) {
                float x[12], y[8];
                for (int k = 0; k < 12; k++)
                    x[k] = sinf((float)(k + i));
                for (int k = 0; k < 8; k++)
                    y[k] = cosf((float)(k * i));
                wf_scope g = wf_scope_begin(c, "round", .group = true);
                wf_tensor *in[2] = { wf_tensor_from(c, WF_F32, WF_DIMS(4, 3), x),
                                     wf_tensor_from(c, WF_F32, WF_DIMS(4, 2), y) };
                wf_tensor *out;
                if (captured && !f) {
                    f = wf_capture(c, step, &t, 2, in, 1);
                    ok(c);
                }
                wf_optim_set_lr(t.opt, 0.1 / (i + 1)); /* numbers are fresh at every call */
                if (captured)
                    assert_int_equal(wf_fn_call(f, in, &out), WF_OK);
                else {
                    wf_scope s = wf_scope_begin(c, "step");
                    assert_true(step(&t, c, in, &out));
                    assert_int_equal(wf_scope_end(c, s), WF_OK);
                }
                wf_scope_end(c, g);
                ok(c);
            }
            assert_string_equal(wf_optim_unreached(t.opt), "");
            assert_int_equal(wf_read(c, wf_value(wf_model_find(t.m, "fc.weight")), got[mode - 1][captured], 24), WF_OK);
            assert_int_equal(wf_read(c, wf_value(wf_model_find(t.m, "fc.bias")), got[mode - 1][captured] + 6, 8),
                             WF_OK);
            close_ctx(c);
        }
    assert_memory_equal(got[0][0], got[0][1], sizeof got[0][0]);
    assert_memory_equal(got[0][0], got[1][0], sizeof got[0][0]);
    assert_memory_equal(got[0][0], got[1][1], sizeof got[0][0]);
}

static bool sums(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    training *t = user;
    (void)c;
    (void)out;
    return wf_optim_accumulate(t->opt, wf_mse(wf_nn_linear(t->m, "fc", in[0], 2), in[1])) == WF_OK;
}

static void micro_batches_inside(void **unused)
{
    (void)unused;
    float got[2][6];
    for (int captured = 0; captured < 2; captured++) {
        wf_ctx *c = open_ctx(WF_LAZY);
        training t = { .m = wf_model_new(c) };
        t.opt = wf_sgd(t.m, .lr = 0.1);
        float x[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3 }, y[8] = { 0, 1, 0, 1, 1, 1, 0, 0 };
        wf_tensor *in[2] = { wf_tensor_from(c, WF_F32, WF_DIMS(4, 3), x), wf_tensor_from(c, WF_F32, WF_DIMS(4, 2), y) };
        wf_fn *f = captured ? wf_capture(c, sums, &t, 2, in, 0) : NULL;
        for (int i = 0; i < 6; i++) {
            wf_scope s = wf_scope_begin(c, "micro");
            if (captured)
                wf_fn_call(f, in, NULL);
            else
                sums(&t, c, in, NULL);
            if (i % 2)
                wf_optim_step_accumulated(t.opt);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
        }
        assert_int_equal(wf_read(c, wf_value(wf_model_find(t.m, "fc.weight")), got[captured], 24), WF_OK);
        close_ctx(c);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

/* ---- what goes wrong in a body ---- */

static bool reads(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = in[0];
    return wf_item(c, wf_sum(in[0], WF_NO_DIMS)) > 0;
}
static bool fails(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    (void)c;
    out[0] = in[0];
    return false;
}
static bool forgets(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    (void)c;
    (void)in;
    (void)out;
    return true;
}
static bool retains(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = wf_retain(c, wf_neg(in[0]));
    return true;
}
static bool ends(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    out[0] = in[0];
    wf_scope_end(c, *(wf_scope *)user);
    return true;
}
static bool leaves_open(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    wf_scope_begin(c, "inner");
    wf_scope_begin(c, "innermost", .no_grad = true);
    out[0] = wf_neg(in[0]);
    return true;
}

static void bad_bodies(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        float three = 3;
        wf_var *v = wf_var_new(c, "v", WF_F32, WF_NO_DIMS, &three);
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *x = vec(c, 1, 2, 3), *out[1], *y = wf_neg(x);
        wf_assign(v, wf_add(wf_value(v), wf_scalar(c, 1)));
        assert_null(wf_capture(c, reads, NULL, 1, &x, 1));
        wrong(c, WF_ERR_STATE, "a value cannot be read while a function is captured");
        assert_null(wf_capture(c, fails, NULL, 1, &x, 1));
        wrong(c, WF_ERR_ARG, "the body reported a failure");
        assert_null(wf_capture(c, forgets, NULL, 1, &x, 1));
        wrong(c, WF_ERR_ARG, "the body left output 0 at NULL");
        assert_null(wf_capture(c, retains, NULL, 1, &x, 1));
        wrong(c, WF_ERR_STATE, "a captured body cannot retain");
        assert_null(wf_capture(c, ends, &s, 1, &x, 1));
        wrong(c, WF_ERR_STATE, "cannot end a scope around it");
        wf_fn *f = wf_capture(c, leaves_open, NULL, 1, &x, 1);
        ok(c);
        assert_int_equal(wf_fn_call(f, &x, out), WF_OK);
        y = wf_scope_return(c, s, wf_add(y, out[0])); /* the step is as it was */
        assert_int_equal(wf_scope_end(c, s), WF_OK);
        equal3(c, y, -2, -4, -6);
        assert_true(value(v) == 4);
        assert_null(wf_capture(c, NULL, NULL, 0, NULL, 0));
        wrong(c, WF_ERR_ARG, "the body is NULL");
        close_ctx(c);
    }
}

/* A function inside a function, and one called in turns with steps. */
static bool outer(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    wf_tensor *twice[2] = { in[0], in[0] };
    return wf_fn_call(user, twice, out) == WF_OK;
}

static void nested(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        affine a = { vec(c, 2, 3, 4), 0 };
        wf_tensor *x = vec(c, 1, 1, 1), *like[2] = { x, x }, *out[3];
        wf_fn *f = wf_capture(c, body, &a, 2, like, 3), *g = wf_capture(c, outer, f, 1, &x, 3);
        ok(c);
        for (int i = 0; i < 6; i++) {
            wf_tensor *in = vec(c, (float)i, 1, 1);
            assert_int_equal(wf_fn_call(g, &in, out), WF_OK);
            equal3(c, out[0], 3 * (float)i, 5, 7);
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *y = wf_scope_return(c, s, wf_mul(in, in));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            equal3(c, y, (float)(i * i), 1, 1);
        }
        close_ctx(c);
    }
}

/* Every allocation of a capture and its first calls fails once. */
static void memory_out(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        bool done = false;
        for (int64_t k = 0; !done && k < 3000; k++) {
            wf_ctx *c = open_ctx(mode);
            affine a = { vec(c, 2, 3, 4), 0 };
            wf_tensor *x = vec(c, 1, 1, 1), *like[2] = { x, x }, *out[3];
            atomic_store(&c->mem->fail_at, k);
            wf_fn *f = wf_capture(c, body, &a, 2, like, 3);
            for (int i = 0; i < 3 && f; i++)
                (void)wf_fn_call(f, like, out);
            done = wf_error_status(c) == WF_OK && atomic_load(&c->mem->fail_at) >= 0;
            atomic_store(&c->mem->fail_at, -1);
            if (wf_error_status(c) != WF_OK && wf_error_status(c) != WF_ERR_MEMORY)
                fail_msg("mode %d, allocation %lld: %s", mode, (long long)k, wf_error(c));
            wf_error_clear(c);
            f = wf_capture(c, body, &a, 2, like, 3);
            assert_int_equal(wf_fn_call(f, like, out), WF_OK);
            equal3(c, out[0], 3, 5, 7);
            close_ctx(c);
        }
        assert_true(done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(assignments),      cmocka_unit_test(calls),      cmocka_unit_test(in_the_middle),
        cmocka_unit_test(optimiser_inside), cmocka_unit_test(bad_bodies), cmocka_unit_test(micro_batches_inside),
        cmocka_unit_test(nested),           cmocka_unit_test(memory_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
