/* Eager calls remember what the call at their place did in the step before. Here the steps differ: by operator,
 * operands, types, layouts, attributes and numbers, so that every way in which the memory may be wrong is met; a
 * context that remembers nothing gives the expected bits. */
#include "refeval.h"

enum { STEPS = 400, CALLS = 12, SOURCES = 5, BYTES = 4 * 6 * 8 };

typedef struct result {
    wf_dtype dtype;
    wf_dims dims;
    unsigned char data[BYTES];
} result;

/* Views and types of the same few numbers. */
static wf_tensor *source(wf_ctx *c, int64_t which)
{
    static const float f[24] = { 1, -2, 3, 0.5f, 2, 1, -1, 4, 7, -3, 0.25f, 5, 1.5f, -8, 6, 2, 9, -1.25f, 3, 3 };
    static const double d[24] = { 3, 1, -4, 1, 5, -9, 2, 6, -5, 3, 5, 8, 9, -7, 9, 3, 2, 3, -8, 4, 6, 2, 6, 4 };
    switch (which) {
    case 0: return wf_tensor_from(c, WF_F32, WF_DIMS(4, 6), f);
    case 1: return wf_transpose(wf_tensor_from(c, WF_F32, WF_DIMS(6, 4), f));
    case 2: return wf_tensor_from(c, WF_F64, WF_DIMS(4, 6), d);
    case 3: return wf_slice(wf_tensor_from(c, WF_F32, WF_DIMS(6, 4), f), 0, 1, 4);
    default: return wf_tensor_from(c, WF_F32, WF_DIMS(4, 4), f + 8);
    }
}

static wf_tensor *one_call(wf_ctx *c, rng *r, wf_tensor *a, wf_tensor *b)
{
    const int64_t what = rng_below(r, 12), axis = rng_below(r, 2);
    wf_tensor *const twice[2] = { a, a };
    wf_dims da = wf_tensor_dims(a), db = wf_tensor_dims(b);
    const bool alike =
        wf_tensor_dtype(a) == wf_tensor_dtype(b) && da.n == db.n && !memcmp(da.d, db.d, sizeof da.d[0] * (size_t)da.n);
    switch (what) {
    case 0: return alike ? wf_add(a, b) : wf_neg(a);
    case 1: return alike ? wf_mul(a, b) : wf_relu(a);
    case 2: return wf_mul(a, wf_scalar(c, (double)rng_below(r, 3)));
    case 3: return wf_sum(a, WF_DIMS((int64_t)axis), .keep = true);
    case 4: return wf_sum(a, WF_DIMS(0, 1), .keep = true);
    case 5: return wf_transpose(a);
    case 6: return wf_slice(a, (int32_t)axis, rng_below(r, da.d[axis] < 2 ? da.d[axis] : 2), 1);
    case 7: return wf_concat(2, twice, (int32_t)axis);
    case 8: return wf_softmax(a, (int32_t)axis);
    case 9: return wf_layer_norm(a);
    case 10: return wf_cast(a, rng_below(r, 2) ? WF_F32 : WF_F64);
    default: return alike ? wf_where(wf_gt(a, b), a, b) : wf_exp(wf_neg(wf_abs(a)));
    }
}

/* One step: each call takes what a call before made, or a source. */
static void step(wf_ctx *c, uint64_t seed, result *out)
{
    rng r = { seed };
    wf_scope s = wf_scope_begin(c, "step", .no_grad = seed % 3 == 0);
    wf_tensor *t[CALLS + 1] = { source(c, rng_below(&r, SOURCES)) };
    for (int i = 0; i < CALLS; i++) {
        wf_tensor *a = rng_below(&r, 4) ? t[i] : source(c, rng_below(&r, SOURCES));
        t[i + 1] = one_call(c, &r, a, t[rng_below(&r, i + 1)]);
        wf_dims d = wf_tensor_dims(t[i + 1]);
        if (d.d[0] > 4 || d.d[1] > 6)
            t[i + 1] = source(c, 0);
    }
    out->dtype = wf_tensor_dtype(t[CALLS]);
    out->dims = wf_tensor_dims(t[CALLS]);
    size_t bytes = wf_dtype_bytes(out->dtype);
    for (int32_t i = 0; i < out->dims.n; i++)
        bytes *= (size_t)out->dims.d[i];
    assert_true(bytes <= BYTES);
    if (wf_read(c, t[CALLS], out->data, bytes) != WF_OK)
        fail_msg("seed %llu: %s", (unsigned long long)seed, wf_error(c));
    assert_int_equal(wf_scope_end(c, s), WF_OK);
}

static wf_ctx *eager(void)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_EAGER, .threads = 1 });
    assert_non_null(c);
    return c;
}

static void steps_that_differ(void **state)
{
    (void)state;
    wf_ctx *c = eager();
    for (uint64_t i = 0; i < STEPS; i++) {
        static result got, want;
        const uint64_t seed = i / 5 % 2 ? i / 10 : i; /* now and then the same step several times */
        memset(&got, 0, sizeof got);
        memset(&want, 0, sizeof want);
        step(c, seed, &got);
        wf_ctx *fresh = eager();
        step(fresh, seed, &want);
        assert_int_equal(wf_ctx_close(fresh), WF_OK);
        if (memcmp(&got, &want, sizeof got) != 0)
            fail_msg("step %llu of seed %llu differs from a fresh context's", (unsigned long long)i,
                     (unsigned long long)seed);
    }
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* What is remembered must not let a wrong operand through. */
static void wrong_operands(void **state)
{
    (void)state;
    static const float f[4] = { 1, 2, 3, 4 };
    wf_ctx *c = eager(), *other = eager();
    wf_tensor *stranger = wf_tensor_from(other, WF_F32, WF_DIMS(4), f);
    for (int i = 0; i < 5; i++) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(4), f);
        wf_tensor *y = i == 2 ? NULL : i == 4 ? stranger : x;
        wf_tensor *z = wf_mul(x, y), *p = wf_pad(z, 0, i == 3 ? -1 : 1, 1);
        const bool wrong = i == 2 || i >= 3;
        assert_true(wrong == (p == NULL));
        if (wrong)
            assert_non_null(strstr(wf_error(c), "test_eager.c:"));
        wf_error_clear(c);
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    assert_int_equal(wf_ctx_close(c), WF_OK);
    assert_int_equal(wf_ctx_close(other), WF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(steps_that_differ), cmocka_unit_test(wrong_operands) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
