/* The table of operators: names, attributes as text, element types, binding of every sample, references by map. */
#include "ops/op.h"
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
    assert_string_equal(err, "matmul: sizes of axis k differ: a[-1] is 784, b[-2] is 10; a is f32[32,784], b is f32[10,784]");
    wfi_attr_broadcast a;
    assert_true(wfi_op_attr_parse(&wfi_op_table[WFI_OP_broadcast], "axes=0,1 sizes=3", &a, NULL, 0, err, sizeof err));
    assert_false(wfi_op_bind(&wfi_op_table[WFI_OP_broadcast], &a, 1, in, t, NULL, &x, err, sizeof err));
    assert_string_equal(err, "broadcast: axes has 2 entries, sizes 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(names),      cmocka_unit_test(bind_samples),
                                        cmocka_unit_test(element_types), cmocka_unit_test(attributes),
                                        cmocka_unit_test(references), cmocka_unit_test(refused) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
