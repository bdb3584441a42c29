/* Cases with right values: each is a fault that frameworks have had, with the answer that is right. Every case runs
 * eager and lazy (three steps, so that the plan is replayed), with one and two threads. Those about plans are in
 * test_cases_plan.c. The numbers are those of the project's list of cases.
 *
 * Rules that arithmetic alone does not decide: the first NaN and the first of equal elements win in argmax and argmin;
 * ties share the gradient of a maximum; a row that attention masks as a whole is 0; a loss whose labels are all ignored
 * is the pair (0, 0) with mean 0; the gradient of a norm at 0 is 0. */
#include "cases.h"

/* ---- values ---- */

static void c01(run *r) /* no window without an element of the input */
{
    begin(r);
    wf_tensor *a =
        ret(r, wf_max_pool2d(range(r, WF_F32, WF_DIMS(1, 1, 6, 7), 0), .kernel = 1, .stride = 2, .ceil = true));
    wf_tensor *b =
        ret(r, wf_max_pool2d(range(r, WF_F32, WF_DIMS(1, 1, 32, 32), 0), .kernel = 1, .stride = 2, .ceil = true));
    wf_tensor *x = range(r, WF_F32, WF_DIMS(1, 1, 8, 10), 0),
              *d = wf_max_pool2d(x, .kernel = 3, .stride = 4, .ceil = true);
    wf_tensor *g = NULL;
    assert_int_equal(wf_grad(wf_sum(wf_mul(d, d), WF_NO_DIMS), 1, &x, &g), WF_OK);
    wf_tensor *total = ret(r, wf_sum(g, WF_NO_DIMS));
    d = ret(r, d);
    end(r);
    wf_dims shape = wf_tensor_dims(b);
    assert_true(shape.n == 4 && shape.d[2] == 16 && shape.d[3] == 16);
    CHECK(r, a, 0, 0, 2, 4, 6, 14, 16, 18, 20, 28, 30, 32, 34);
    CHECK(r, d, 0, 22, 26, 29, 62, 66, 69);
    CHECK(r, total, 0, 2 * (22 + 26 + 29 + 62 + 66 + 69));
}

static void c02(run *r)
{
    begin(r);
    wf_tensor *x = range(r, WF_F32, WF_DIMS(1, 1, 5, 5), 0);
    wf_tensor *a = ret(r, wf_max_pool2d(x, .kernel = 3, .stride = 3, .pad = 1, .ceil = true));
    end(r);
    CHECK(r, a, 0, 6, 9, 21, 24);
}

static void c03(run *r) /* averages: no element, no window */
{
    begin(r);
    wf_tensor *x = wf_add(range(r, WF_F32, WF_DIMS(1, 1, 1, 6), 0), wf_scalar(r->c, 1));
    wf_tensor *a = ret(r, wf_avg_pool2d(x, .kernel = 1, .stride = 2, .ceil = true));
    /* a 5 x 5 image of ones stays one without the pad, and shows it with it: what lies over the end never counts */
    wf_tensor *one = filled(r, WF_F32, WF_DIMS(1, 1, 5, 5), 1);
    wf_tensor *b = ret(r, wf_avg_pool2d(one, .kernel = 3, .stride = 2, .pad = 1, .exclude_pad = true));
    wf_tensor *d = ret(r, wf_avg_pool2d(one, .kernel = 2, .stride = 4, .pad = 1, .ceil = true));
    wf_tensor *e = ret(r, wf_adaptive_avg_pool2d(range(r, WF_F32, WF_DIMS(1, 1, 3, 5), 0), 2, 2));
    end(r);
    CHECK(r, a, 0, 1, 3, 5);
    check_all(r, "b", b, 9, 1, 0);
    CHECK(r, d, 0, 0.25, 0.5, 0.5, 1);
    CHECK(r, e, 1e-6, 3.5, 5.5, 8.5, 10.5);
    assert_null(wf_avg_pool2d(filled(r, WF_F32, WF_DIMS(1, 1, 1, 1), 1), .kernel = 4, .stride = 1));
    const char *why = wf_error(r->c);
    assert_true(why && strstr(why, "avg_pool2d") && strchr(why, '1') && strchr(why, '4'));
    wf_error_clear(r->c);
}

static void c04(run *r) /* the first NaN wins */
{
    begin(r);
    wf_tensor *a = f32s(r, WF_DIMS(4), (const float[]){ 3, NAN, 1, 5 });
    wf_tensor *b = f32s(r, WF_DIMS(3), (const float[]){ 1, 2, NAN });
    wf_tensor *e = f32s(r, WF_DIMS(3), (const float[]){ -1, -2, NAN });
    wf_tensor *d = filled(r, WF_F32, WF_DIMS(61), NAN);
    wf_tensor *amax = ret(r, wf_argmax(a, 0)), *amin = ret(r, wf_argmin(a, 0));
    wf_tensor *bmax = ret(r, wf_argmax(b, 0)), *bmin = ret(r, wf_argmin(b, 0));
    wf_tensor *emax = ret(r, wf_argmax(e, 0)), *emin = ret(r, wf_argmin(e, 0));
    wf_tensor *dmax = ret(r, wf_argmax(d, 0)), *dmin = ret(r, wf_argmin(d, 0));
    wf_tensor *top = ret(r, wf_max(a, WF_DIMS(0))), *low = ret(r, wf_min(a, WF_NO_DIMS));
    end(r);
    CHECK(r, amax, 0, 1);
    CHECK(r, amin, 0, 1);
    CHECK(r, bmax, 0, 2);
    CHECK(r, bmin, 0, 2);
    CHECK(r, emax, 0, 2);
    CHECK(r, emin, 0, 2);
    CHECK(r, dmax, 0, 0);
    CHECK(r, dmin, 0, 0);
    CHECK(r, top, 0, NAN);
    CHECK(r, low, 0, NAN);
    static const int64_t sizes[] = { 8, 33, 1000 };
    static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16 };
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 4; k++)
            for (int turned = 0; turned < 2; turned++) {
                int64_t n = sizes[i];
                char *p = calloc((size_t)n, 8);
                assert_non_null(p);
                for (int64_t j = 0; j < n; j++)
                    wfi_dtype_store(types[k], p, j, j == n / 2 ? (double)NAN : (double)j);
                begin(r);
                wf_tensor *x = wf_tensor_from(r->c, types[k], turned ? WF_DIMS(n, 1) : WF_DIMS(1, n), p);
                wf_tensor *hi = ret(r, wf_argmax(x, turned ? 0 : 1)), *lo = ret(r, wf_argmin(x, turned ? 0 : 1));
                end(r);
                free(p);
                CHECK(r, hi, 0, (double)(n / 2));
                CHECK(r, lo, 0, (double)(n / 2));
            }
}

static void c05(run *r) /* the first of equal ones */
{
    begin(r);
    wf_tensor *a = ret(r, wf_argmax(filled(r, WF_F32, WF_DIMS(16), 2.5), 0));
    wf_tensor *b = ret(r, wf_argmax(f32s(r, WF_DIMS(5), (const float[]){ 2, 3, 0, 3, 3 }), 0));
    wf_tensor *d = ret(r, wf_argmax(f32s(r, WF_DIMS(5), (const float[]){ 1, 3, 1, 3, 1 }), 0));
    wf_tensor *long_tie = ret(r, wf_argmax(filled(r, WF_F32, WF_DIMS(70001), 1), 0));
    wf_tensor *zeros = ret(r, wf_argmax(f32s(r, WF_DIMS(3), (const float[]){ -1, -0.0f, 0 }), 0));
    wf_tensor *whole = ret(r, wf_argmin(filled(r, WF_I32, WF_DIMS(40, 3), 7), 0));
    end(r);
    CHECK(r, a, 0, 0);
    CHECK(r, b, 0, 1);
    CHECK(r, d, 0, 1);
    CHECK(r, long_tie, 0, 0);
    CHECK(r, zeros, 0, 1);
    CHECK(r, whole, 0, 0, 0, 0);
}

static void c07(run *r) /* f32 -> bf16 rounds to nearest even; a NaN stays one */
{
    uint32_t nan = 0x7F800001u;
    float x[3] = { 0.2691408770292272f, 3.14f, 0 };
    memcpy(&x[2], &nan, sizeof nan);
    begin(r);
    wf_tensor *y = ret(r, wf_cast(f32s(r, WF_DIMS(3), x), WF_BF16));
    float many[35];
    for (int i = 0; i < 35; i++)
        many[i] = x[i % 3];
    wf_tensor *z = ret(r, wf_cast(f32s(r, WF_DIMS(35), many), WF_BF16));
    end(r);
    CHECK(r, y, 0, 0.26953125, 3.140625, NAN);
    int64_t n;
    double *d = values(r, z, &n);
    for (int i = 0; i < 35; i++)
        assert_true(i % 3 == 2 ? isnan(d[i]) : d[i] == (i % 3 ? 3.140625 : 0.26953125));
    free(d);
}

static void c08(run *r) /* a large offset */
{
    float c16[16];
    for (int i = 0; i < 16; i++)
        c16[i] = (float)(1000 + i * 0.001);
    begin(r);
    wf_tensor *a = ret(r, wf_layer_norm(f32s(r, WF_DIMS(1, 4), (const float[]){ 40000, 40001, 40002, 40003 })));
    wf_tensor *b = ret(r, wf_layer_norm(filled(r, WF_F32, WF_DIMS(1, 256), 1234)));
    wf_tensor *d = ret(r, wf_layer_norm(f32s(r, WF_DIMS(16), c16)));
    end(r);
    CHECK(r, a, 1e-5, -1.341635, -0.447212, 0.447212, 1.341635);
    check_all(r, "b", b, 256, 0, 0);
    int64_t n;
    double *v = values(r, d, &n);
    if (fabs(v[0] + 1.34151) > 2e-3 || fabs(v[15] - 1.34424) > 2e-3)
        bad(r, "the ends are %.6g and %.6g", v[0], v[15]);
    free(v);
}

static void c09(run *r) /* the variance leaves the range of f32 */
{
    begin(r);
    wf_tensor *y = ret(r, wf_layer_norm(f32s(r, WF_DIMS(1, 2), (const float[]){ 1e30f, -1e30f })));
    float wide[40];
    for (int i = 0; i < 40; i++)
        wide[i] = i % 2 ? -3e37f : 3e37f;
    wf_tensor *z = ret(r, wf_layer_norm(f32s(r, WF_DIMS(1, 40), wide)));
    end(r);
    CHECK(r, y, 1e-6, 1, -1);
    int64_t n;
    double *v = values(r, z, &n);
    for (int i = 0; i < 40; i++)
        if (fabs(v[i] - (i % 2 ? -1 : 1)) > 1e-6)
            bad(r, "element %d is %.9g", i, v[i]);
    free(v);
}

static void c10(run *r) /* long sums of narrow types */
{
    begin(r);
    wf_tensor *a = ret(r, wf_mean(filled(r, WF_F16, WF_DIMS(70000), 1), WF_NO_DIMS));
    wf_tensor *b = ret(r, wf_sum(filled(r, WF_F16, WF_DIMS(3000), 1), WF_NO_DIMS));
    wf_tensor *d = ret(r, wf_sum(filled(r, WF_BF16, WF_DIMS(1000), 1), WF_NO_DIMS));
    wf_tensor *columns = ret(r, wf_sum(filled(r, WF_BF16, WF_DIMS(1000, 3), 1), WF_DIMS(0)));
    wf_tensor *means = ret(r, wf_mean(filled(r, WF_F16, WF_DIMS(70000, 2), 1), WF_DIMS(0)));
    wf_tensor *u8 = ret(r, wf_sum(wf_cast(filled(r, WF_U8, WF_DIMS(1000), 200), WF_I64), WF_NO_DIMS));
    end(r);
    CHECK(r, a, 0, 1);
    CHECK(r, b, 0, 3000);
    CHECK(r, d, 0, 1000);
    CHECK(r, columns, 0, 1000, 1000, 1000);
    CHECK(r, means, 0, 1, 1);
    CHECK(r, u8, 0, 200000);
}

static void c11(run *r)
{
    begin(r);
    wf_tensor *x = range(r, WF_F32, WF_DIMS(3, 4), 0);
    wf_tensor *a = ret(r, wf_sum(wf_transpose(x), WF_NO_DIMS));
    wf_tensor *b = ret(r, wf_sum(wf_slice(x, 1, 1, 2), WF_NO_DIMS));
    wf_tensor *d = ret(r, wf_sum(wf_slice(wf_transpose(x), 1, 1, 1), WF_NO_DIMS));
    end(r);
    CHECK(r, a, 0, 66);
    CHECK(r, b, 0, 33);
    CHECK(r, d, 0, 22);
}

static void c12(run *r) /* every way out to the host */
{
    begin(r);
    wf_tensor *x = range(r, WF_F32, WF_DIMS(10), 0);
    wf_tensor *a = ret(r, wf_slice(x, 0, 0, 5, .step = 2));
    wf_tensor *pending = wf_mul(x, x);
    CHECK(r, pending, 0, 0, 1, 4, 9, 16, 25, 36, 49, 64, 81); /* read in the middle: computed first */
    wf_tensor *y = range(r, WF_F32, WF_DIMS(17, 3), 0);
    for (int i = 0; i < 4; i++)
        y = wf_flip(y, WF_DIMS(0));
    y = ret(r, y);
    wf_tensor *once = ret(r, wf_flip(range(r, WF_I32, WF_DIMS(3, 2), 0), WF_DIMS(0)));
    end(r);
    CHECK(r, a, 0, 0, 2, 4, 6, 8);
    CHECK(r, once, 0, 4, 5, 2, 3, 0, 1);
    int64_t n;
    double *v = values(r, y, &n);
    for (int i = 0; i < 51; i++)
        assert_true(v[i] == i);
    free(v);
}

static void c13(run *r) /* rank 6; the subset [0,0,...] set to 0 */
{
    begin(r);
    wf_dims six = WF_DIMS(2, 2, 2, 2, 2, 2), head = WF_DIMS(1, 1, 2, 2, 2, 2);
    wf_tensor *x = filled(r, WF_F32, six, 1), *rows = wf_slice(x, 0, 0, 1);
    rows = wf_slice_update(rows, filled(r, WF_F32, head, 0), 1, 0);
    wf_tensor *y = wf_slice_update(x, rows, 0, 0);
    wf_tensor *sum = ret(r, wf_sum(y, WF_NO_DIMS));
    end(r);
    CHECK(r, sum, 0, 48);
}

static void c14(run *r) /* zero in a dimension */
{
    begin(r);
    wf_tensor *x = wf_tensor_from(r->c, WF_F32, WF_DIMS(10, 0), NULL);
    wf_tensor *a = ret(r, wf_log_softmax(x, 1));
    wf_tensor *logits = wf_tensor_from(r->c, WF_F32, WF_DIMS(0, 5), NULL);
    wf_tensor *labels = wf_tensor_from(r->c, WF_I64, WF_DIMS(0), NULL);
    wf_tensor *rows = ret(r, wf_cross_entropy_rows(logits, labels));
    wf_loss loss = wf_cross_entropy(logits, labels);
    wf_tensor *sum = ret(r, loss.sum), *weight = ret(r, loss.weight), *mean = ret(r, wf_loss_mean(loss));
    wf_tensor *zeros = ret(r, wf_sum(wf_tensor_from(r->c, WF_F32, WF_DIMS(0, 10), NULL), WF_DIMS(0)));
    end(r);
    wf_dims d = wf_tensor_dims(a);
    assert_true(d.n == 2 && d.d[0] == 10 && d.d[1] == 0);
    d = wf_tensor_dims(rows);
    assert_true(d.n == 1 && d.d[0] == 0);
    check(r, "a", a, 0, NULL, 0);
    CHECK(r, sum, 0, 0);
    CHECK(r, weight, 0, 0);
    CHECK(r, mean, 0, 0);
    check_all(r, "zeros", zeros, 10, 0, 0);
    begin(r);
    (void)ret(r, wf_max(wf_tensor_from(r->c, WF_F32, WF_DIMS(0, 10), NULL), WF_DIMS(0)));
    MUST_FAIL(r, WF_ERR_SHAPE, "max: ", "axis 0");
}

static void c16(run *r) /* masks that leave nothing */
{
    enum { V = 100000 };
    float *x = malloc(V * sizeof *x);
    assert_non_null(x);
    for (int i = 0; i < V; i++)
        x[i] = i == V / 2 ? 10 : -INFINITY;
    int64_t label = V / 2, all[3] = { 7, 7, 7 };
    begin(r);
    wf_tensor *logits = f32s(r, WF_DIMS(1, V), x), *g = NULL;
    wf_loss loss = wf_cross_entropy(logits, wf_tensor_from(r->c, WF_I64, WF_DIMS(1), &label));
    assert_int_equal(wf_grad(loss.sum, 1, &logits, &g), WF_OK);
    wf_tensor *sum = ret(r, loss.sum);
    g = ret(r, g);
    end(r);
    free(x);
    CHECK(r, sum, 0, 0);
    check_all(r, "gradient", g, V, 0, 0);

    begin(r); /* query 1 sees no key */
    const unsigned char see[6] = { 1, 1, 0, 0, 0, 0 };
    wf_tensor *in[3] = { range(r, WF_F32, WF_DIMS(2, 4), 1), range(r, WF_F32, WF_DIMS(3, 4), -2),
                         range(r, WF_F32, WF_DIMS(3, 2), 1) };
    wf_tensor *mask = wf_tensor_from(r->c, WF_BOOL, WF_DIMS(2, 3), see), *gin[3] = { NULL };
    wf_tensor *y = wf_attention(in[0], in[1], in[2], .mask = mask);
    assert_int_equal(wf_grad(wf_sum(y, WF_NO_DIMS), 3, in, gin), WF_OK);
    wf_tensor *row = ret(r, wf_slice(y, 0, 1, 1)), *dq = ret(r, wf_slice(gin[0], 0, 1, 1));
    wf_tensor *finite = ret(r, wf_all(wf_isfinite(gin[1]), WF_NO_DIMS)), *last = ret(r, wf_slice(gin[2], 0, 2, 1));
    end(r);
    CHECK(r, row, 0, 0, 0);
    CHECK(r, dq, 0, 0, 0, 0, 0);
    CHECK(r, finite, 0, 1);
    CHECK(r, last, 0, 0, 0);

    begin(r);
    logits = range(r, WF_F32, WF_DIMS(3, 8), -3);
    loss = wf_cross_entropy(logits, wf_tensor_from(r->c, WF_I64, WF_DIMS(3), all), .ignore = 7, .has_ignore = true);
    wf_tensor *mean = wf_loss_mean(loss), *gm = NULL;
    assert_int_equal(wf_grad(mean, 1, &logits, &gm), WF_OK);
    sum = ret(r, loss.sum);
    wf_tensor *weight = ret(r, loss.weight);
    mean = ret(r, mean);
    gm = ret(r, gm);
    end(r);
    CHECK(r, sum, 0, 0);
    CHECK(r, weight, 0, 0);
    CHECK(r, mean, 0, 0);
    check_all(r, "gradient", gm, 24, 0, 0);
}

static void c17(run *r)
{
    begin(r);
    wf_tensor *p = f32s(r, WF_DIMS(2, 1), (const float[]){ 1, 2 }), *t = f32s(r, WF_DIMS(2), (const float[]){ 0, 1 });
    wf_loss l = wf_mse(p, wf_reshape(t, WF_DIMS(2, 1)));
    wf_tensor *sum = ret(r, l.sum), *weight = ret(r, l.weight), *mean = ret(r, wf_loss_mean(l));
    end(r);
    CHECK(r, sum, 0, 2);
    CHECK(r, weight, 0, 2);
    CHECK(r, mean, 0, 1);
    begin(r);
    p = f32s(r, WF_DIMS(2, 1), (const float[]){ 1, 2 });
    t = f32s(r, WF_DIMS(2), (const float[]){ 0, 1 });
    (void)wf_mse(p, t);
    MUST_FAIL(r, WF_ERR_SHAPE, "f32[2,1]", "f32[2]");
}

static void c18(run *r) /* an index that is outside */
{
    static const char *const words[] = { "index 6", "position 2", "0..4", NULL };
    int64_t at[4] = { 0, 4, 6, 1 };
    begin(r);
    wf_tensor *w = range(r, WF_F32, WF_DIMS(5, 3), 0), *i = wf_tensor_from(r->c, WF_I64, WF_DIMS(4), at);
    wf_tensor *y = ret(r, wf_gather(w, i));
    (void)y;
    must_fail(r, WF_ERR_INDEX, words);
    begin(r);
    at[2] = -1;
    (void)ret(r, wf_gather(range(r, WF_F32, WF_DIMS(5, 3), 0), wf_tensor_from(r->c, WF_I64, WF_DIMS(4), at)));
    MUST_FAIL(r, WF_ERR_INDEX, "index -1", "position 2", "0..4");
    begin(r);
    int32_t at32[2] = { 1, 6 };
    (void)ret(r, wf_take_along(range(r, WF_F32, WF_DIMS(5), 0), wf_tensor_from(r->c, WF_I32, WF_DIMS(2), at32), 0));
    MUST_FAIL(r, WF_ERR_INDEX, "index 6", "position 1", "0..4");
    begin(r);
    int64_t label[2] = { 1, 6 };
    (void)ret(
        r, wf_cross_entropy(range(r, WF_F32, WF_DIMS(2, 5), 0), wf_tensor_from(r->c, WF_I64, WF_DIMS(2), label)).sum);
    MUST_FAIL(r, WF_ERR_INDEX, "index 6", "position 1", "0..4");
    begin(r); /* and a good one on the same trace */
    at[2] = 2;
    y = ret(r, wf_gather(range(r, WF_F32, WF_DIMS(5, 3), 0), wf_tensor_from(r->c, WF_I64, WF_DIMS(4), at)));
    end(r);
    CHECK(r, y, 0, 0, 1, 2, 12, 13, 14, 6, 7, 8, 3, 4, 5);
}

/* ---- gradients ---- */

static void c21(run *r)
{
    begin(r);
    wf_tensor *x = filled(r, WF_F16, WF_DIMS(70000), 1);
    wf_tensor *g = ret(r, grad1(r, wf_max(x, WF_NO_DIMS), x));
    wf_tensor *z = f32s(r, WF_DIMS(5), (const float[]){ 2, 7, 7, 1, 7 });
    wf_tensor *h = ret(r, grad1(r, wf_min(wf_neg(z), WF_DIMS(0)), z));
    end(r);
    check_all(r, "gradient", g, 70000, 1.430511474609375e-05, 0);
    CHECK(r, h, 1e-7, 0, -1.0 / 3, -1.0 / 3, 0, -1.0 / 3);
}

static void c22(run *r) /* the branch that was not taken */
{
    begin(r);
    wf_tensor *x = f32s(r, WF_DIMS(2), (const float[]){ 1e10f, -1 });
    wf_tensor *y = wf_where(wf_gt(x, wf_scalar(r->c, 0)), wf_scalar(r->c, 0), wf_exp(x));
    wf_tensor *a = ret(r, grad1(r, wf_sum(y, WF_NO_DIMS), x));
    wf_tensor *p[2] = { f32s(r, WF_DIMS(1), (const float[]){ 0 }), f32s(r, WF_DIMS(1), (const float[]){ 0 }) }, *g[2];
    wf_tensor *root = wf_sqrt(wf_add(wf_square(p[0]), wf_square(p[1])));
    wf_tensor *top = wf_maximum(root, wf_scalar(r->c, 1e-10));
    assert_int_equal(wf_grad(wf_sum(top, WF_NO_DIMS), 2, p, g), WF_OK);
    wf_tensor *gx = ret(r, g[0]), *gy = ret(r, g[1]);
    end(r);
    CHECK(r, a, 1e-7, 0, 0.36787944117144233);
    CHECK(r, gx, 0, 0);
    CHECK(r, gy, 0, 0);
}

static void c23(run *r) /* a norm at 0 */
{
    begin(r);
    wf_tensor *x = f32s(r, WF_DIMS(3), (const float[]){ 0, 0, 0 });
    wf_tensor *norm = wf_sqrt(wf_sum(wf_square(x), WF_NO_DIMS));
    wf_tensor *a = ret(r, grad1(r, norm, x));
    wf_tensor *b = ret(r, grad1(r, wf_square(norm), x));
    wf_tensor *y = f32s(r, WF_DIMS(2), (const float[]){ 3, 4 });
    wf_tensor *d = ret(r, grad1(r, wf_sqrt(wf_sum(wf_square(y), WF_NO_DIMS)), y));
    end(r);
    CHECK(r, b, 0, 0, 0, 0);
    CHECK(r, a, 0, 0, 0, 0);
    CHECK(r, d, 1e-6, 0.6, 0.8);
}

static void c25(run *r)
{
    begin(r);
    wf_tensor *x = f32s(r, WF_DIMS(1), (const float[]){ -2 }), *z = f32s(r, WF_DIMS(1), (const float[]){ 0 });
    wf_tensor *a = ret(r, grad1(r, wf_sum(wf_pow(x, wf_scalar(r->c, 2)), WF_NO_DIMS), x));
    wf_tensor *b = ret(r, grad1(r, wf_sum(wf_pow(z, wf_scalar(r->c, 0)), WF_NO_DIMS), z));
    wf_tensor *y = wf_pow(z, wf_scalar(r->c, 2));
    wf_tensor *g = ret(r, grad1(r, wf_sum(y, WF_NO_DIMS), z));
    y = ret(r, y);
    end(r);
    CHECK(r, a, 1e-6, -4);
    CHECK(r, b, 0, 0);
    CHECK(r, y, 0, 0);
    CHECK(r, g, 0, 0);
}

static void c26(run *r) /* second derivative where tanh saturates */
{
    const double one = 1;
    begin(r);
    wf_tensor *v = wf_tensor_from(r->c, WF_F64, WF_NO_DIMS, &one), *u = wf_mul(v, wf_scalar(r->c, -1e8));
    wf_tensor *f = wf_mul(wf_mul(wf_tanh(u), u), u);
    wf_tensor *g = grad1(r, f, v), *h = ret(r, grad1(r, g, v));
    end(r);
    CHECK(r, h, 1, -2e16);
}

static void c27(run *r) /* an assignment between the reading and the gradient */
{
    wf_ctx *c = r->c;
    const float three = 3, five = 5;
    if (!r->rep) {
        r->v[0] = wf_var_new(c, "x", WF_F32, WF_NO_DIMS, &three);
        r->v[1] = wf_var_new(c, "w", WF_F32, WF_NO_DIMS, &five);
    }
    begin(r);
    wf_tensor *x = wf_value(r->v[0]), *w = wf_value(r->v[1]), *y = wf_mul(x, w);
    assert_int_equal(wf_assign(r->v[0], wf_add(x, wf_scalar(c, 1))), WF_OK);
    wf_tensor *dw = ret(r, grad1(r, y, w));
    wf_tensor *now = ret(r, wf_value(r->v[0]));
    wf_tensor *snapshot = ret(r, x);
    end(r);
    CHECK(r, dw, 0, 3 + r->rep);
    CHECK(r, now, 0, 4 + r->rep);
    CHECK(r, snapshot, 0, 3 + r->rep);
    wf_tensor *after = wf_value(r->v[0]);
    CHECK(r, after, 0, 4 + r->rep);
}

/* Memory that was lent and is written before the step runs: debug builds find it and name both lines. */
static void c27_lent(run *r)
{
#ifdef WEFT_DEBUG
    if (r->lazy) {
        float lent[4] = { 1, 2, 3, 4 };
        const char *at;
        begin(r);
        wf_tensor *x = (at = WF_SITE, wf_tensor_from(r->c, WF_F32, WF_DIMS(4), lent, .borrow = true));
        (void)ret(r, wf_mul(x, x));
        lent[2] = 7;
        MUST_FAIL(r, WF_ERR_STATE, "borrowed memory was changed", at, "test_cases.c:");
    }
#endif
    float kept[4] = { 1, 2, 3, 4 };
    begin(r);
    wf_tensor *y = wf_tensor_from(r->c, WF_F32, WF_DIMS(4), kept, .borrow = true);
    wf_tensor *sum = ret(r, wf_sum(wf_mul(y, y), WF_NO_DIMS));
    end(r);
    CHECK(r, sum, 0, 30);
}

static void c28(run *r) /* views of views */
{
    begin(r);
    wf_tensor *root = range(r, WF_F32, WF_DIMS(3, 3), 0);
    wf_tensor *v = wf_squeeze(wf_slice(root, 0, 0, 1), WF_DIMS(0));
    wf_tensor *u = wf_mul(wf_slice(v, 0, 0, 2), wf_scalar(r->c, 2));
    wf_tensor *g = ret(r, grad1(r, wf_sum(u, WF_NO_DIMS), root));
    u = ret(r, u);
    v = ret(r, v);
    root = ret(r, root);
    end(r);
    CHECK(r, u, 0, 0, 2);
    CHECK(r, g, 0, 2, 2, 0, 0, 0, 0, 0, 0, 0);
    CHECK(r, v, 0, 0, 1, 2);
    CHECK(r, root, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8);
}

static void c29(run *r) /* an expanded scalar */
{
    begin(r);
    wf_tensor *s = f32s(r, WF_NO_DIMS, (const float[]){ 1 }), *wide = wf_broadcast_to(s, WF_DIMS(4));
    wf_tensor *y = ret(r, wf_add(wide, range(r, WF_F32, WF_DIMS(4), 1)));
    wf_tensor *part = ret(r, wf_slice_update(wide, f32s(r, WF_DIMS(1), (const float[]){ 9 }), 0, 2));
    s = ret(r, s);
    wide = ret(r, wide);
    end(r);
    CHECK(r, y, 0, 2, 3, 4, 5);
    CHECK(r, part, 0, 1, 1, 9, 1);
    CHECK(r, s, 0, 1);
    CHECK(r, wide, 0, 1, 1, 1, 1);
}

/* ---- the runs ---- */

CASE(c01)
CASE(c02)
CASE(c03)
CASE(c04)
CASE(c05)
CASE(c07)
CASE(c08)
CASE(c09)
CASE(c10)
CASE(c11)
CASE(c12)
CASE(c13)
CASE(c14)
CASE(c16)
CASE(c17)
CASE(c18)
CASE(c21)
CASE(c22)
CASE(c23)
CASE(c25)
CASE(c26)
CASE(c27)
CASE(c27_lent)
CASE(c28)
CASE(c29)

int main(void)
{
    setenv("WEFT_CHECK", "1", 1);
#define T(name) cmocka_unit_test(name##_test)
    const struct CMUnitTest tests[] = { T(c01), T(c02), T(c03), T(c04), T(c05),      T(c07), T(c08), T(c09), T(c10),
                                        T(c11), T(c12), T(c13), T(c14), T(c16),      T(c17), T(c18), T(c21), T(c22),
                                        T(c23), T(c25), T(c26), T(c27), T(c27_lent), T(c28), T(c29) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
