/* The table of operators: names, attributes as text, element types, binding of every sample, references by map. */
#include "ops/op.h"
#include "graph/axis_use.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

typedef struct sample {
    const char *op, *text;
} sample;
static const sample samples[] = {
#define WFI_SAMPLE(op, text) { #op, text },
#include "samples.inc"
#undef WFI_SAMPLE
};
enum { SAMPLES = sizeof samples / sizeof *samples };

/* "f32[2,3]=-1..1 i64[4]%5 axis=1" -> operands, and the words after them. */
static int operands(const char *text, wfi_axis_shape *shape, wf_dtype *dtype, char *rest, size_t bytes)
{
    char copy[512], *save = NULL;
    int n = 0;
    snprintf(copy, sizeof copy, "%s", text);
    *rest = 0;
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *b = strchr(w, '['), *eq = strchr(w, '=');
        if (!b || (eq && eq < b)) {
            snprintf(rest + strlen(rest), bytes - strlen(rest), "%s ", w);
            continue;
        }
        *b++ = 0;
        dtype[n] = wf_dtype_of(w);
        assert_int_not_equal(dtype[n], WF_DTYPE_NONE);
        shape[n] = (wfi_axis_shape){ .dtype = wf_dtype_name(dtype[n]) };
        for (char *e; *b && *b != ']'; b = *e == ',' ? e + 1 : e)
            shape[n].dim[shape[n].ndim++] = strtoll(b, &e, 10);
        n++;
    }
    return n;
}

static void names(void **state)
{
    (void)state;
    for (int i = 0; i < WFI_OP_COUNT; i++) {
        const wfi_op_info *op = &wfi_op_table[i];
        assert_int_equal(wfi_op_find(op->name), i);
        assert_non_null(op->def);
        assert_non_null(op->brief);
        assert_non_null(op->operand[0]);
        assert_true((op->flags & WFI_OP_EW) == 0 || (op->ew >= 0 && op->ew < WFI_EW_COUNT));
        assert_true(!(op->flags & WFI_OP_COMPOSITE) == !op->def->lower);
        assert_true(!(op->flags & WFI_OP_COMPOSITE) != !(op->flags & WFI_OP_PRIMITIVE));
        assert_true(op->def->grad || op->def->nograd);
        assert_true(op->def->lower || op->def->ref);
        assert_true(op->map || op->def->map);
        assert_true(op->nin_min <= op->nin_max && op->nout >= 1);
        assert_int_equal(op->joint & ~op->linear, 0);
    }
    assert_int_equal(wfi_op_find("no_such"), -1);
}

/* Every sample: attributes survive print and parse, types and shapes come out, or the sample says what is wrong. */
static void bind_samples(void **state)
{
    (void)state;
    assert_true(SAMPLES > 60);
    for (int i = 0; i < SAMPLES; i++) {
        const wfi_op_info *op = &wfi_op_table[wfi_op_find(samples[i].op)];
        wfi_axis_shape shape[40];
        wf_dtype dtype[40], result[8];
        wfi_attrs a, back;
        char rest[256], unknown[128], err[WFI_AXIS_ERR], text[512];
        wfi_axis_inst x;
        int nin = operands(samples[i].text, shape, dtype, rest, sizeof rest);
        for (int k = nin; k < op->nin_max && !(op->flags & WFI_OP_MANY) && k < 40; k++, nin++) {
            shape[k].ndim = -1;
            dtype[k] = WF_DTYPE_NONE;
        }
        memset(&a, 0xee, sizeof a);
        memset(&back, 0x11, sizeof back);
        if (!wfi_op_attr_parse(op, rest, &a, unknown, sizeof unknown, err, sizeof err))
            fail_msg("%s %s: %s", samples[i].op, samples[i].text, err);
        assert_true(wfi_op_attr_print(op, &a, text, sizeof text) < (int)sizeof text);
        if (!wfi_op_attr_parse(op, text, &back, NULL, 0, err, sizeof err))
            fail_msg("%s", err);
        assert_memory_equal(&a, &back, op->attr_bytes);
        if (!wfi_op_types(op, &a, nin, dtype, result, err, sizeof err))
            fail_msg("%s: %s", samples[i].text, err);
        if (!wfi_op_bind(op, &a, nin, shape, dtype, NULL, &x, err, sizeof err))
            fail_msg("%s: %s", samples[i].text, err);
        assert_int_equal(x.nslot - x.nin, op->nout);
    }
}

/* A sample, bound. */
typedef struct bound {
    const wfi_op_info *op;
    wfi_axis_shape shape[40];
    wf_dtype dtype[40];
    int nin;
    wfi_attrs a;
    wfi_axis_inst x;
} bound;
static void bind(int i, bound *b)
{
    char rest[256], unknown[128], err[WFI_AXIS_ERR];
    b->op = &wfi_op_table[wfi_op_find(samples[i].op)];
    b->nin = operands(samples[i].text, b->shape, b->dtype, rest, sizeof rest);
    for (int k = b->nin; k < b->op->nin_max && !(b->op->flags & WFI_OP_MANY) && k < 40; k++, b->nin++) {
        b->shape[k].ndim = -1;
        b->dtype[k] = WF_DTYPE_NONE;
    }
    if (!wfi_op_attr_parse(b->op, rest, &b->a, unknown, sizeof unknown, err, sizeof err) ||
        !wfi_op_bind(b->op, &b->a, b->nin, b->shape, b->dtype, NULL, &b->x, err, sizeof err))
        fail_msg("%s %s: %s", samples[i].op, samples[i].text, err);
}
/* vmap of every operator over every set of batched operands: each result gets the batch in front, or there is a reason
 * that follows from the map. Element-wise operators, products, reductions and movement are never refused. */
static void vmap(void **state)
{
    (void)state;
    static bound b;
    int mapped = 0;
    for (int i = 0; i < SAMPLES; i++) {
        bind(i, &b);
        for (unsigned mask = 1; b.op->map && b.nin <= 8 && mask < 1u << b.nin; mask++) {
            bool batched[8], expand[8], skip = false;
            wfi_axis_shape out[8];
            wf_dims attr[WFI_AXIS_ATTRS];
            char err[WFI_AXIS_ERR];
            wfi_axis_inst y;
            for (int k = 0; k < b.nin; k++) {
                batched[k] = mask >> k & 1;
                skip |= batched[k] && b.shape[k].ndim < 0;
            }
            if (skip)
                continue;
            wfi_op_axis_attrs(b.op, &b.a, attr);
            if (!wfi_axis_vmap(b.op->map, b.op->name, b.nin, b.shape, batched, 7, attr, NULL, out, expand, err,
                               sizeof err)) {
                if (strstr(err, "batch") == NULL || (b.op->flags & (WFI_OP_EW | WFI_OP_REDUCE)))
                    fail_msg("%s", err);
                continue;
            }
            if (!wfi_axis_bind(b.op->map, b.op->name, b.nin, out, attr, NULL, &y, err, sizeof err))
                fail_msg("%s", err);
            for (int r = 0; r < b.op->nout; r++) {
                wf_dims was = wfi_axis_result(&b.x, r), now = wfi_axis_result(&y, r);
                assert_true(now.n == was.n + 1 && now.d[0] == 7);
                assert_memory_equal(now.d + 1, was.d, (size_t)was.n * sizeof was.d[0]);
            }
            mapped++;
        }
    }
    assert_true(mapped > 100);
}
/* Gradients back to operands, cost, fusion with what follows, and the lint, on every sample. */
static void consumers(void **state)
{
    (void)state;
    static bound b;
    static uint64_t scratch[1024];
    char err[WFI_AXIS_ERR], why[160], text[32];
    wfi_axis_map relu;
    wfi_axis_inst y;
    assert_true(wfi_axis_fuse_bytes(2) <= sizeof scratch);
    assert_true(wfi_axis_parse("x[..] -> y[..]", "", &relu, err, sizeof err));
    for (int i = 0; i < SAMPLES; i++) {
        bind(i, &b);
        for (int k = 0; k < b.nin; k++) {
            wf_dims own = { b.shape[k].ndim < 0 ? 0 : b.shape[k].ndim, { 0 } }, full = wfi_axis_result(&b.x, 0);
            wfi_axis_undo u;
            memcpy(own.d, b.shape[k].dim, sizeof own.d);
            if (b.shape[k].ndim < 0)
                continue;
            assert_true(wfi_axis_undo_of(&b.x, k, own, own, &u));
            assert_true(u.sum.n == 0 && !u.expand && !u.reshape);
            if (b.op->flags & WFI_OP_EW) { /* the gradient is as large as the result */
                assert_true(wfi_axis_undo_of(&b.x, k, own, full, &u));
                int64_t left = 1, have = 1;
                for (int d = 0; d < full.n; d++)
                    have *= full.d[d];
                for (int d = 0; d < own.n; d++)
                    left *= own.d[d];
                assert_true(u.sum.n > 0 || left == have);
                assert_false(u.expand);
            }
        }
        int64_t elements = wfi_axis_elements(&b.x, b.x.nin, NULL);
        assert_true(wfi_axis_points(&b.x, NULL) >= 0);
        if (b.op->flags & (WFI_OP_EW | WFI_OP_REDUCE)) {
            assert_true(wfi_axis_points(&b.x, NULL) >= elements || elements <= 1 || wfi_axis_points(&b.x, NULL) == 0);
            assert_null(wfi_axis_lint(&b.x, text, sizeof text));
        }
        wf_dims r = wfi_axis_result(&b.x, 0);
        wfi_axis_shape in = { .dtype = "f32", .ndim = r.n };
        memcpy(in.dim, r.d, sizeof in.dim);
        assert_true(wfi_axis_bind(relu.b, "relu", 1, &in, NULL, NULL, &y, err, sizeof err));
        int32_t first[40] = { 0 }, made[4] = { 100, 101, 102, 103 }, second[1] = { 104 };
        for (int k = 0; k < 40; k++)
            first[k] = k;
        wfi_axis_drop_ones(&b.x);
        wfi_axis_drop_ones(&y);
        wfi_axis_member pair[2] = { { &b.x, first, made, b.op->name, (b.op->flags & WFI_OP_PRIMITIVE) != 0 },
                                    { &y, made, second, "relu", true } };
        const char *no = wfi_axis_fusable(pair, 2, scratch, why, sizeof why);
        if ((b.op->flags & WFI_OP_EW) && no)
            fail_msg("%s: %s", samples[i].text, no);
        if (b.op->flags & WFI_OP_COMPOSITE)
            assert_non_null(no);
    }
}

static bool types(const char *name, int nin, const wf_dtype *in, wf_dtype *out, char *err)
{
    return wfi_op_types(&wfi_op_table[wfi_op_find(name)], NULL, nin, in, out, err, WFI_AXIS_ERR);
}
static void element_types(void **state)
{
    (void)state;
    char err[WFI_AXIS_ERR];
    wf_dtype out[4];
    assert_true(types("add", 2, (wf_dtype[]){ WF_F16, WF_F16 }, out, err) && out[0] == WF_F16);
    assert_true(types("lt", 2, (wf_dtype[]){ WF_I64, WF_I64 }, out, err) && out[0] == WF_BOOL);
    assert_true(types("where", 3, (wf_dtype[]){ WF_BOOL, WF_BF16, WF_BF16 }, out, err) && out[0] == WF_BF16);
    assert_true(types("where", 3, (wf_dtype[]){ WF_BOOL, WF_BOOL, WF_BOOL }, out, err) && out[0] == WF_BOOL);
    assert_false(types("add", 2, (wf_dtype[]){ WF_F32, WF_I64 }, out, err));
    assert_string_equal(err, "add: element types differ: a is f32, b is i64");
    assert_false(types("exp", 1, (wf_dtype[]){ WF_I32 }, out, err));
    assert_string_equal(err, "exp: a is i32; needed a floating-point type");
    assert_false(types("where", 3, (wf_dtype[]){ WF_F32, WF_F32, WF_F32 }, out, err));
    assert_string_equal(err, "where: a is f32; needed bool");
    assert_false(types("where", 3, (wf_dtype[]){ WF_BOOL, WF_F32, WF_F64 }, out, err));
    assert_string_equal(err, "where: element types differ: b is f32, c is f64");
    assert_false(types("add", 2, (wf_dtype[]){ WF_U16, WF_U16 }, out, err));
    assert_string_equal(err, "add: a is u16; needed a number type");
    assert_false(types("add", 3, (wf_dtype[]){ WF_F32, WF_F32, WF_F32 }, out, err));
    assert_string_equal(err, "add: 3 operands given; it takes 2");
}

static void attributes(void **state)
{
    (void)state;
    const wfi_op_info *sum = &wfi_op_table[WFI_OP_sum];
    wfi_attr_sum a;
    char text[120], err[WFI_AXIS_ERR], unknown[64];
    assert_true(wfi_op_attr_parse(sum, "axes=0,-1 keep=true tol=2e-3", &a, unknown, sizeof unknown, err, sizeof err));
    assert_string_equal(unknown, "tol=2e-3");
    assert_true(a.axes.n == 2 && a.axes.d[1] == -1 && a.keep);
    wfi_op_attr_print(sum, &a, text, sizeof text);
    assert_string_equal(text, "axes=[0,-1] keep=true");
    assert_true(wfi_op_attr_parse(sum, "", &a, NULL, 0, err, sizeof err));
    wfi_op_attr_print(sum, &a, text, sizeof text);
    assert_string_equal(text, "axes=all keep=false");
    char small[8];
    assert_int_equal(wfi_op_attr_print(sum, &a, small, sizeof small), (int)strlen(text));
    assert_string_equal(small, "axes=al");
    static const char *const bad[][2] = { { "axis=1", "sum has no attribute axis" },
                                          { "axes=x", "sum: x is no value of axes" },
                                          { "axes=1, keep=1", "sum: 1, is no value of axes" },
                                          { "axes=1 axes=2", "sum: axes is given twice" },
                                          { "keep=maybe", "sum: maybe is no value of keep" } };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_false(wfi_op_attr_parse(sum, bad[i][0], &a, NULL, 0, err, sizeof err));
        assert_string_equal(err, bad[i][1]);
    }
    wfi_attr_softmax s;
    assert_false(wfi_op_attr_parse(&wfi_op_table[WFI_OP_softmax], "", &s, NULL, 0, err, sizeof err));
    assert_string_equal(err, "softmax: axis is missing");
}

/* ---- references ---- */

static double in_data[3][512], out_data[512];
static int64_t reference(const char *name, const char *text)
{
    const wfi_op_info *op = &wfi_op_table[wfi_op_find(name)];
    wfi_axis_shape shape[3];
    wf_dtype dtype[3];
    wfi_attrs a;
    char rest[256], err[WFI_AXIS_ERR];
    wfi_axis_inst x;
    int nin = operands(text, shape, dtype, rest, sizeof rest);
    assert_true(wfi_op_attr_parse(op, rest, &a, NULL, 0, err, sizeof err));
    if (!wfi_op_bind(op, &a, nin, shape, dtype, NULL, &x, err, sizeof err))
        fail_msg("%s", err);
    wf_ref_tensor in[3], out = { .d = out_data, .n = 1, .ndim = x.nd[x.nin] };
    for (int i = 0; i < nin; i++) {
        in[i] = (wf_ref_tensor){ .d = in_data[i], .n = 1, .ndim = shape[i].ndim, .dtype = dtype[i] };
        memcpy(in[i].dim, shape[i].dim, sizeof in[i].dim);
        for (int k = 0; k < in[i].ndim; k++)
            in[i].n *= in[i].dim[k];
        assert_true(in[i].n <= 512);
    }
    for (int k = 0; k < out.ndim; k++)
        out.n *= out.dim[k] = x.d[x.nin][k].size;
    wf_ref r = { .in = in, .out = &out, .nin = nin, .nout = 1, .a = &a, .x = &x };
    op->def->ref(&r);
    return out.n;
}
static void references(void **state)
{
    (void)state;
    for (int i = 0; i < 512; i++) {
        in_data[0][i] = (i * 7) % 11 - 5;
        in_data[1][i] = (i * 5) % 13 - 6;
        in_data[2][i] = i % 3;
    }
    const double *a = in_data[0], *b = in_data[1];
    assert_int_equal(reference("matmul", "f64[2,1,3,4] f64[5,4,6]"), 2 * 5 * 3 * 6);
    for (int e = 0; e < 180; e++) {
        int n = e % 6, m = e / 6 % 3, j = e / 18 % 5, i = e / 90;
        double want = 0;
        for (int k = 0; k < 4; k++)
            want += a[(i * 3 + m) * 4 + k] * b[(j * 4 + k) * 6 + n];
        assert_true(out_data[e] == want);
    }
    assert_int_equal(reference("sum", "f64[3,4,5] axes=0,2"), 4);
    for (int j = 0; j < 4; j++) {
        double want = 0;
        for (int i = 0; i < 3; i++)
            for (int k = 0; k < 5; k++)
                want += a[(i * 4 + j) * 5 + k];
        assert_true(out_data[j] == want);
    }
    assert_int_equal(reference("sum", "f64[3,0]"), 1);
    assert_true(out_data[0] == 0);
    in_data[0][7] = NAN;
    assert_int_equal(reference("max", "f64[2,6] axes=1"), 2);
    assert_true(out_data[0] == 5 && isnan(out_data[1]));
    in_data[0][7] = 49 % 11 - 5;
    assert_int_equal(reference("permute", "f64[2,3,4] perm=2,0,1"), 24);
    for (int e = 0; e < 24; e++)
        assert_true(out_data[e] == a[(e / 3 % 2 * 3 + e % 3) * 4 + e / 6]);
    assert_int_equal(reference("broadcast", "f64[3] axes=0,2 sizes=2,4"), 24);
    for (int e = 0; e < 24; e++)
        assert_true(out_data[e] == a[e / 4 % 3]);
    assert_int_equal(reference("sub", "f64[3,1] f64[4]"), 12);
    for (int e = 0; e < 12; e++)
        assert_true(out_data[e] == a[e / 4] - b[e % 4]);
    assert_int_equal(reference("tanh", "f64[9]"), 9);
    for (int e = 0; e < 9; e++)
        assert_true(out_data[e] == tanh(a[e]));
}

/* A mistake of the call reaches the caller's words. */
static void refused(void **state)
{
    (void)state;
    char err[WFI_AXIS_ERR];
    wfi_axis_shape in[2] = { { "f32", 2, { 32, 784 } }, { "f32", 2, { 10, 784 } } };
    wf_dtype t[2] = { WF_F32, WF_F32 };
    wfi_axis_inst x;
    assert_false(wfi_op_bind(&wfi_op_table[WFI_OP_matmul], NULL, 2, in, t, NULL, &x, err, sizeof err));
    assert_string_equal(
        err, "matmul: sizes of axis k differ: a[-1] is 784, b[-2] is 10; a is f32[32,784], b is f32[10,784]");
    wfi_attr_broadcast a;
    assert_true(wfi_op_attr_parse(&wfi_op_table[WFI_OP_broadcast], "axes=0,1 sizes=3", &a, NULL, 0, err, sizeof err));
    assert_false(wfi_op_bind(&wfi_op_table[WFI_OP_broadcast], &a, 1, in, t, NULL, &x, err, sizeof err));
    assert_string_equal(err, "broadcast: axes has 2 entries, sizes 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names),         cmocka_unit_test(bind_samples),
                                        cmocka_unit_test(vmap),          cmocka_unit_test(consumers),
                                        cmocka_unit_test(element_types), cmocka_unit_test(attributes),
                                        cmocka_unit_test(references),    cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
