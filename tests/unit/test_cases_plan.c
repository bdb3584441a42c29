/* Cases with right values, about plans, weighted means and thread counts: eager and lazy, with one and two threads;
 * those about plans also with the reuse of memory off. See test_cases.c. */
#include "cases.h"

/* ---- plans ---- */

static void c31(run *r) /* a value read before a part of its variable is written */
{
    int64_t x0[24];
    for (int i = 0; i < 24; i++)
        x0[i] = i - 12;
    if (!r->rep)
        r->v[0] = wf_var_new(r->c, "x", WF_I64, WF_DIMS(4, 6), x0);
    begin(r); /* the same start in every step */
    assert_int_equal(wf_assign(r->v[0], wf_tensor_from(r->c, WF_I64, WF_DIMS(4, 6), x0)), WF_OK);
    end(r);
    begin(r);
    wf_tensor *x = wf_value(r->v[0]);
    wf_tensor *y = wf_add(wf_mul(x, wf_scalar(r->c, 2)), wf_scalar(r->c, 4));
    wf_tensor *two = wf_broadcast_to(filled(r, WF_I64, WF_NO_DIMS, 2), WF_DIMS(4, 3));
    assert_int_equal(wf_assign(r->v[0], wf_slice_update(x, two, 1, 2)), WF_OK);
    y = ret(r, y);
    wf_tensor *row = ret(r, wf_slice(y, 0, 0, 1)), *xrow = ret(r, wf_slice(wf_value(r->v[0]), 0, 0, 1));
    end(r);
    CHECK(r, row, 0, -20, -18, -16, -14, -12, -10);
    CHECK(r, xrow, 0, -12, -11, 2, 2, 2, -7);
    begin(r);
    wf_tensor *pairs = wf_bitcast(wf_tensor_from(r->c, WF_I64, WF_DIMS(4, 6), x0), WF_I32);
    wf_tensor *twice = wf_add(wf_mul(pairs, wf_scalar(r->c, 2)), wf_scalar(r->c, 4));
    wf_tensor *b = ret(r, wf_slice(wf_bitcast(twice, WF_I64), 0, 0, 1));
    end(r);
    CHECK(r, b, 0, 12884901868, 12884901870, 12884901872, 12884901874, 12884901876, 12884901878);
}

static void c32(run *r) /* temporaries whose size is not their consumer's */
{
    begin(r);
    wf_tensor *x = filled(r, WF_F32, WF_DIMS(5, 1, 32, 32), 1), *s = filled(r, WF_F32, WF_DIMS(5), 1);
    wf_tensor *e = wf_exp(wf_neg(wf_mul(x, wf_reshape(s, WF_DIMS(5, 1, 1, 1)))));
    wf_tensor *sum = wf_sum(e, WF_DIMS(1, 2, 3), .keep = true);
    wf_tensor *y = ret(r, wf_div(e, sum));
    const double third = 0.3;
    const int64_t zero = 0;
    wf_tensor *t = wf_mul(wf_tensor_from(r->c, WF_F64, WF_DIMS(1, 1), &third), wf_scalar(r->c, 2));
    wf_tensor *add = wf_scatter_add(wf_tensor_from(r->c, WF_I64, WF_DIMS(1), &zero), t, 1);
    wf_tensor *b = ret(r, wf_div(wf_add(filled(r, WF_F64, WF_DIMS(1, 1), 0), add), wf_scalar(r->c, 2)));
    end(r);
    check_all(r, "y", y, 5 * 1024, 1.0 / 1024, 1e-5 / 1024);
    CHECK(r, b, 0, 0.3);
}

static void c33(run *r) /* strict: every node rounds */
{
    begin(r);
    wf_tensor *x = filled(r, WF_BF16, WF_DIMS(1), 0.166015625), *y = filled(r, WF_BF16, WF_DIMS(1), 1.7578125);
    wf_tensor *a = ret(r, wf_add(wf_mul(x, y), filled(r, WF_BF16, WF_DIMS(1), -0.474609375)));
    wf_tensor *m = wf_matmul(f32s(r, WF_DIMS(1, 1), (const float[]){ 1.001953125f }),
                             f32s(r, WF_DIMS(1, 1), (const float[]){ 1 }));
    wf_tensor *b = ret(r, wf_sub(wf_cast(wf_cast(m, WF_BF16), WF_F32), wf_scalar(r->c, 1)));
    wf_tensor *q = f32s(r, WF_DIMS(2), (const float[]){ 0.1f, 0.7f }), *tiny = wf_scalar(r->c, 1e-6);
    wf_tensor *d = ret(r, wf_add(wf_div(q, tiny), wf_div(wf_neg(q), tiny)));
    end(r);
    CHECK(r, a, 0, -0.18359375);
    CHECK(r, b, 0, 0);
    CHECK(r, d, 0, 0, 0);
}

static bool c34_body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    wf_var *w = user;
    (void)in;
    wf_tensor *x = wf_value(w), *loss = wf_square(wf_sub(x, wf_scalar(c, 3))), *g = NULL;
    if (wf_grad(loss, 1, &x, &g) != WF_OK)
        return false;
    out[0] = loss;
    return wf_assign(w, wf_sub(x, wf_mul(g, wf_scalar(c, 0.25)))) == WF_OK;
}
static void c34(run *r) /* an effect that is not a result */
{
    const float zero = 0;
    if (!r->rep) {
        r->v[0] = wf_var_new(r->c, "w", WF_F32, WF_NO_DIMS, &zero);
        r->f = wf_capture(r->c, c34_body, r->v[0], 0, NULL, 1);
        if (!r->f)
            bad(r, "%s", wf_error(r->c));
    }
    begin(r);
    assert_int_equal(wf_assign(r->v[0], filled(r, WF_F32, WF_NO_DIMS, 0)), WF_OK);
    end(r);
    static const double want[4] = { 1.5, 2.25, 2.625, 2.8125 };
    for (int i = 0; i < 4; i++) {
        wf_tensor *loss = NULL;
        if (wf_fn_call(r->f, NULL, &loss) != WF_OK)
            bad(r, "%s", wf_error(r->c));
        wf_tensor *w = wf_value(r->v[0]);
        CHECK(r, w, 0, want[i]);
    }
}

static void c35(run *r) /* lifetimes: branches, a result nobody wants, a handle that is kept */
{
    wf_ctx *c = r->c;
    begin(r);
    wf_tensor *x = range(r, WF_F32, WF_DIMS(8, 16), -64),
              *w = wf_mul(range(r, WF_F32, WF_DIMS(16, 16), -128), wf_scalar(c, 1.0 / 4096));
    wf_tensor *a = wf_matmul(x, w), *y = wf_add(wf_relu(a), wf_exp(wf_mul(a, wf_scalar(c, 0.01))));
    wf_tensor *m2 = NULL, *v2 = NULL;
    float ones[4] = { 1, 1, 1, 1 };
    double h[8] = { 0.1, 0.9, 0.99, 1e-8, 0, 0.1, 0.01, 1 };
    wf_tensor *p = f32s(r, WF_DIMS(4), ones), *z = filled(r, WF_F32, WF_DIMS(4), 0);
    wf_tensor *stepped = wf_adamw_step(p, z, z, p, wf_tensor_from(c, WF_F64, WF_DIMS(8), h), .m2 = &m2, .v2 = &v2);
    wf_tensor *flat = wf_reshape(y, WF_DIMS(4, 32));
    wf_tensor *norm = wf_matmul(wf_layer_norm(flat), range(r, WF_F32, WF_DIMS(32, 3), 0));
    wf_tensor *g = grad1(r, wf_sum(norm, WF_NO_DIMS), x);
    wf_tensor *kept = wf_retain(c, g);
    y = ret(r, y);
    m2 = ret(r, m2);
    stepped = ret(r, stepped);
    norm = ret(r, norm);
    end(r);
    check_all(r, "m2", m2, 4, 0.1, 1e-7);
    check_all(r, "stepped", stepped, 4, 0.9, 1e-6);
    int64_t n, k;
    double *now = values(r, kept, &n);
    if (r->kept) {
        double *was = values(r, r->kept, &k);
        for (int64_t i = 0; i < n; i++)
            if (was[i] != now[i])
                bad(r, "the gradient that was kept is %.9g now, %.9g was right", was[i], now[i]);
        free(was);
        wf_release(c, r->kept);
    }
    free(now);
    r->kept = kept;
    /* the values themselves: by hand */
    double *got = values(r, y, &n);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 16; j++) {
            double s = 0;
            for (int q = 0; q < 16; q++)
                s += (i * 16 + q - 64.0) * ((q * 16 + j - 128) / 4096.0);
            double want = (s > 0 ? s : 0) + exp(s * 0.01);
            if (fabs(got[i * 16 + j] - want) > 1e-4 * (1 + fabs(want)))
                bad(r, "y[%d,%d] is %.9g, %.9g is right", i, j, got[i * 16 + j], want);
        }
    free(got);
    if (r->rep == 2)
        wf_release(c, r->kept);
}

/* ---- weighted means and thread counts ---- */

static void c44(run *r) /* one token with loss 4, three with 0, as two micro-batches: the mean is 1 */
{
    wf_ctx *c = r->c;
    const float two = 2;
    if (!r->rep)
        r->v[0] = wf_var_new(c, "p", WF_F32, WF_NO_DIMS, &two);
    begin(r);
    wf_tensor *p = wf_value(r->v[0]);
    wf_loss a = wf_mse(wf_broadcast_to(p, WF_DIMS(1)), filled(r, WF_F32, WF_DIMS(1), 0));
    wf_loss b = wf_mse(wf_broadcast_to(p, WF_DIMS(3)), filled(r, WF_F32, WF_DIMS(3), 2));
    wf_loss both = { wf_add(a.sum, b.sum), wf_add(a.weight, b.weight) };
    wf_tensor *mean = wf_loss_mean(both), *g = ret(r, grad1(r, mean, p));
    mean = ret(r, mean);
    end(r);
    CHECK(r, mean, 0, 1);
    CHECK(r, g, 0, 1);
}

static void fill_unit(float *x, int n, uint64_t seed)
{
    rng g = { seed };
    for (int i = 0; i < n; i++)
        x[i] = (float)(rng_unit(&g) * 2 - 1);
}
static void c45(run *r) /* thread counts and batches do not change a bit */
{
    static float x[3 * 56], w[444 * 56], first[3 * 444], y[3 * 444];
    static double a[2 * 90], m[90 * 128], alone[128], batch[256];
    fill_unit(x, 3 * 56, 1);
    fill_unit(w, 444 * 56, 2);
    rng g = { 3 };
    for (int i = 0; i < 180; i++)
        a[i] = rng_unit(&g) - 0.5;
    for (int i = 0; i < 90 * 128; i++)
        m[i] = rng_unit(&g) - 0.5;
    begin(r);
    wf_tensor *lin = ret(r, wf_matmul(f32s(r, WF_DIMS(3, 56), x), wf_transpose(f32s(r, WF_DIMS(444, 56), w))));
    wf_tensor *rhs = wf_tensor_from(r->c, WF_F64, WF_DIMS(90, 128), m);
    wf_tensor *one = ret(r, wf_matmul(wf_tensor_from(r->c, WF_F64, WF_DIMS(1, 90), a), rhs));
    wf_tensor *two = ret(r, wf_matmul(wf_tensor_from(r->c, WF_F64, WF_DIMS(2, 90), a), rhs));
    end(r);
    assert_int_equal(wf_read(r->c, lin, y, sizeof y), WF_OK);
    assert_int_equal(wf_read(r->c, one, alone, sizeof alone), WF_OK);
    assert_int_equal(wf_read(r->c, two, batch, sizeof batch), WF_OK);
    assert_memory_equal(alone, batch, sizeof alone);
    static bool have;
    if (!have)
        memcpy(first, y, sizeof y);
    have = true;
    assert_memory_equal(first, y, sizeof y);
}

/* ---- the runs ---- */

#define PLAN_CASE(name)                                                                                                \
    static void name##_test(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        in_all_modes(#name, name, 2);                                                                                  \
        setenv("WEFT_REUSE", "0", 1);                                                                                  \
        in_all_modes(#name " without reuse of memory", name, 2);                                                       \
        unsetenv("WEFT_REUSE");                                                                                        \
    }
CASE(c44)
PLAN_CASE(c31)
PLAN_CASE(c32)
PLAN_CASE(c33)
PLAN_CASE(c34)
PLAN_CASE(c35)
static void c45_test(void **state)
{
    (void)state;
    in_all_modes("c45", c45, 3);
    in_all_modes("c45", c45, 6);
}

int main(void)
{
    setenv("WEFT_CHECK", "1", 1);
#define T(name) cmocka_unit_test(name##_test)
    const struct CMUnitTest tests[] = { T(c31), T(c32), T(c33), T(c34), T(c35), T(c44), T(c45) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
