/* The operator generator: broken definitions give one line with the author's file and line, and change no output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char generator[600], in[40], out[60];

static int setup(void **state)
{
    (void)state;
    ssize_t n = readlink("/proc/self/exe", generator, sizeof generator - 40);
    if (n <= 0)
        return -1;
    generator[n] = 0;
    char *slash = strrchr(generator, '/');
    strcpy(slash, "/../src/weft_gen");
    if (getenv("WEFT_GEN"))
        snprintf(generator, sizeof generator, "%s", getenv("WEFT_GEN"));
    snprintf(in, sizeof in, "/tmp/weft_gen_test.XXXXXX");
    if (!mkdtemp(in))
        return -1;
    snprintf(out, sizeof out, "%s/out", in);
    return mkdir(out, 0700);
}
static int teardown(void **state)
{
    (void)state;
    char command[400];
    snprintf(command, sizeof command, "rm -rf %s", in);
    return system(command);
}
static void put(const char *name, const char *text)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", in, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
/* Runs the generator; its standard error into text. Returns the exit status. */
static int run(char *text, size_t bytes)
{
    char command[1600];
    snprintf(command, sizeof command, "%s %s %s 2>&1", generator, out, in);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    size_t n = fread(text, 1, bytes - 1, p);
    text[n] = 0;
    int status = pclose(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static char *result(const char *name)
{
    static char text[60000];
    char path[400];
    snprintf(path, sizeof path, "%s/%s", out, name);
    FILE *f = fopen(path, "r");
    if (!f)
        fail_msg("no %s", path);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

#define ROW(name, body, grad, samples, ref)                                                                            \
    "WF_ROW(" name ", \"float\", \"" body "\",\n  \"" grad "\", \"\", \"" samples "\", \"" ref "\", \"doc\")\n"
static const char rows[] =
    "/* elementwise.def */\n\n/* First group. */\n" ROW("add", "a + b", "g; g", "-3..3; -3..3", "a + b")
        ROW("mul", "a * b", "g * b; g * a", "-3..3; -3..3", "a * b") ROW("neg", "-a", "-g", "-3..3", "-a")
            ROW("sub", "a - b", "g; -g", "-3..3; -3..3", "a - b")
                ROW("zmul", "vsel(a == 0, 0, a * b)", "g * b; g * a", "-3..3; -3..3", "a == 0 ? 0 : a * b")
                    ROW("tanh", "vtanh(a)", "g * (1 - y * y)", "-3..3", "tanh(a)")
                        ROW("gate", "b <= 0 ? 0 : a", "gate(g, b); none: flat", "-3..3; -3..3", "b <= 0 ? 0 : a")
                            ROW("twice", "= add(a, a) * 0.5", "", "-3..3", "");

static const char good[] =
    "/* twist(x, w, axis): an operator of the test.\n"
    " * Second line. */\n"
    "#include \"ops/op.h\"\n"
    "\n"
    "static void grad(const wf_vjp *v)\n"
    "{\n"
    "    v->gin[0] = v->g; /* = { .axes = 1 } */\n"
    "}\n"
    "\n"
    "const wf_op_def wf_op_twist = {\n"
    "    .call    = \"x, w, axis; stride=1, stride_h=stride, eps=1e-5, wide:bool, size2:dims, \"\n"
    "               \"to:dtype=f32, bias:tensor?\",\n"
    "    .axes    = \"x[..a n@axis] w[..a k@axis] bias[..a k@axis] \"\n"
    "               \"-> y[..a m@axis] z[..a]; m=n*stride_h\",\n"
    "    .outputs = \"y, z\",\n"
    "    .types   = \"float float float -> float i64\",\n"
    "    .primitive = \"kernel\",\n"
    "    .ref     = wfi_ref_sum,\n"
    "    .grad    = grad,\n"
    "    .onnx    = \"\",\n"
    "    .samples = \"f32[2,3] f32[2,4] axis=1; f32[5] f32[5] axis=0 eps=2\",\n"
    "};\n";

static void whole(void)
{
    put("elementwise.def", rows);
    put("ops.def", "# Twisted\ntwist\n");
    put("twist.c", good);
}
static void accepts(void **state)
{
    (void)state;
    char text[4000];
    whole();
    int status = run(text, sizeof text);
    assert_string_equal(text, "");
    assert_int_equal(status, 0);
    const char *h = result("weft/ops.h");
    assert_non_null(strstr(h, "/* twist(x, w, axis): an operator of the test.\n * Second line. */"));
    assert_non_null(strstr(h, "/* ---- First group ---- */"));
    assert_non_null(strstr(h, "/* ---- Twisted ---- */"));
    assert_non_null(
        strstr(h, "    int32_t stride_h WF_Z; /* 0: as .stride */\n    double eps WF_Z; /* 0: 1e-5; WF_ZERO: 0 */\n"
                  "    bool wide WF_Z;\n    wf_dims size2 WF_Z;\n    wf_dtype to WF_Z; /* 0: f32 */\n"
                  "    wf_tensor *bias WF_Z; /* NULL: none */\n    wf_tensor **z WF_Z;"));
    assert_non_null(strstr(h, "#define wf_twist(x, w, ...) wf_twist_o(x, w, __VA_ARGS__, )"));
    const char *e = result("ops_enum.h");
    assert_non_null(
        strstr(e, "typedef struct wfi_attr_twist {\n    int32_t axis;\n    int32_t stride_h;\n    double eps;\n"
                  "    bool wide;\n    wf_dims size2;\n    wf_dtype to;\n} wfi_attr_twist;"));
    assert_non_null(strstr(e, "    WFI_EW_gate,\n    WFI_EW_COUNT"));
    const char *r = result("ops_rows.c");
    assert_non_null(strstr(r, "v->gin[0] = wf_zmul_(g, wf_sub_(wfi_like(g, 1), wf_mul_(y, y, s), s), s);"));
    assert_non_null(strstr(r, "return wf_mul_(wf_add_(a, a, s), wfi_like(a, 0.5), s);"));
    assert_non_null(strstr(r, "v->gin[1] = wf_neg_(g, s);"));
    const char *t = result("ops_table.c");
    const char *mul = strstr(t, "[WFI_OP_mul] ="), *add = strstr(t, "[WFI_OP_add] ="),
               *th = strstr(t, "[WFI_OP_tanh] =");
    const char *gate = strstr(t, "[WFI_OP_gate] =");
    assert_true(strstr(mul, ".linear = 3, .joint = 0,") == strstr(mul, ".linear"));
    assert_true(strstr(add, ".linear = 3, .joint = 3,") == strstr(add, ".linear"));
    assert_true(strstr(th, ".linear = 0, .joint = 0,") == strstr(th, ".linear"));
    assert_true(strstr(gate, ".linear = 1, .joint = 0,") == strstr(gate, ".linear"));
    assert_non_null(strstr(t, ".nin_min = 2, .nin_max = 3, .nout = 2"));
    assert_non_null(strstr(result("samples.inc"), "WFI_SAMPLE(twist, \"f32[5] f32[5] axis=0 eps=2\")"));
    assert_non_null(strstr(result("ew_rows.inc"), "WFI_EW(gate, 2, FLOAT, 0, b <= 0 ? 0 : a)"));
    assert_non_null(strstr(result("docs/ops/twist.md"), "| `.eps` | double | 1e-5 |"));
    assert_non_null(strstr(result("docs/ops.md"), "## Twisted"));
}
/* The definition with one piece replaced. */
static const char *with(const char *from, const char *to)
{
    static char text[4000];
    const char *at = strstr(good, from);
    if (!at)
        fail_msg("the test's definition has no %s", from);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, to, at + strlen(from));
    return text;
}
static void refuses(const char *file, const char *text, const char *want)
{
    char got[4000], line[400];
    whole();
    put(file, text);
    if (run(got, sizeof got) != 1)
        fail_msg("accepted, wanted %s", want);
    snprintf(line, sizeof line, "%s\n", want);
    if (!strstr(got, line))
        fail_msg("wanted %s\ngot %s", want, got);
}
static void definitions(void **state)
{
    (void)state;
    refuses("twist.c", with("    .grad    = grad,\n", ""),
            "twist.c:10: error: operator twist: no gradient; give .grad, or .nograd = \"why there is none\"");
    refuses("twist.c", with("    .samples = \"f32[2,3] f32[2,4] axis=1; f32[5] f32[5] axis=0 eps=2\",\n", ""),
            "twist.c:10: error: operator twist: no samples; give .samples = \"f32[2,3] ...\"; every mode is tested on "
            "them");
    refuses("twist.c", with("    .primitive = \"kernel\",\n", ""),
            "twist.c:10: error: operator twist: no lowering; give .lower (a composite) or .primitive (scalar code)");
    refuses(
        "twist.c", with("    .ref     = wfi_ref_sum,\n", ""),
        "twist.c:10: error: operator twist: no reference; give .ref; wfi_ref_sum serves products, sums and movement");
    refuses("twist.c", with("/* twist(x, w, axis): an operator of the test.\n * Second line. */\n", "\n\n"),
            "twist.c:10: error: operator twist: no comment above it; it is the manual page");
    refuses("twist.c", with(".onnx    =", ".onnxx   ="),
            "twist.c:20: error: operator twist: there is no field .onnxx; src/ops/op.h has the list");
    refuses("twist.c", with(".onnx    = \"\"", ".onnx    = grad"),
            "twist.c:20: error: operator twist: a string literal was expected; onnx");
    refuses("twist.c", with("x[..a n@axis]", "x[..a n@axes]"),
            "twist.c:13: error: operator twist: axis map: this names no attribute at column 9: axes] w[..a k@ax; "
            "src/graph/axis.h has the grammar");
    refuses("twist.c", with("m=n*stride_h", "m=n*(stride_h"),
            "twist.c:14: error: operator twist: axis map: ) was expected at column 84: end of the text; "
            "src/graph/axis.h has the grammar");
    refuses(
        "twist.c", with("x[..a n@axis]", "x[n@axis]"),
        "twist.c:13: error: operator twist: operand x of a primitive must begin with a run; write x[.. ...], it is the "
        "batch of vmap");
    refuses("twist.c", with("w[..a k@axis] bias", "v[..a k@axis] bias"),
            "twist.c:13: error: operator twist: operand bias of .call is v in .axes; both name the operands in the "
            "same order");
    refuses("twist.c", with("\"y, z\"", "\"y\""),
            "twist.c:13: error: operator twist: .axes has 2 results, .outputs 1; give .outputs = \"y, ...\"");
    refuses(
        "twist.c", with("stride_h=stride", "stride_h=strid"),
        "twist.c:11: error: operator twist: .call: stride_h: this default is neither a value nor an earlier option; "
        "tools/gen/README.md has the grammar");
    refuses("twist.c", with("wide:bool", "wide:boolean"),
            "twist.c:11: error: operator twist: .call: wide: the types are i32 i64 f64 bool dtype dims tensor tensor?; "
            "tools/gen/README.md has the grammar");
    refuses("twist.c", with("float float float -> float i64", "float -> float i46"),
            "twist.c:16: error: operator twist: .types: one class for all operands, or one for each, then -> and one "
            "for each "
            "result; tools/gen/README.md has the grammar");
    refuses("twist.c", with("const wf_op_def wf_op_twist", "const wf_op_def wf_op_add"),
            "twist.c:10: error: operator add: defined twice");
    refuses("ops.def", "twist\nmissing\n", "ops.def:2: error: operator missing: there is no such file in src/ops");
    refuses(
        "twist.c", "/* nothing */\n",
        "twist.c:1: error: operator twist: the file defines no operator; write const wf_op_def wf_op_NAME = { ... };");
    refuses("twist.c", with(".onnx    = \"\"", ".onnx    = \"open"), "twist.c:20: error: a string does not end");
    refuses("twist.c", with("\"kernel\",", "\"y += x * w\", .reduce = \"sum\","),
            "twist.c:13: error: operator twist: operand w lacks the reduced axis n; it would be added once for every "
            "shard");
}
static void row(const char *text, const char *want)
{
    char all[4000];
    snprintf(all, sizeof all, "%s%s", rows, text);
    refuses("elementwise.def", all, want);
}
static void broken_rows(void **state)
{
    (void)state;
    row(ROW("f", "a + a", "", "-3..3", "a + a"),
        "elementwise.def:20: error: operator f: no gradient; give one expression for each operand, or \"none: why\"");
    row(ROW("f", "a + b", "g", "-3..3; 1..2", "a + b"), "elementwise.def:21: error: operator f: as many gradients as "
                                                        "operands, with ; between them; \"none: why\" where there "
                                                        "is none; nothing for a composite");
    row(ROW("f", "a + a", "g * hat(a)", "-3..3", "a + a"),
        "elementwise.def:21: error: operator f: there is no element-wise operator of that name: hat");
    row(ROW("f", "a + a", "g * mul(a)", "-3..3", "a + a"),
        "elementwise.def:21: error: operator f: wrong number of operands: mul");
    row(ROW("f", "a + a", "g * q", "-3..3", "a + a"),
        "elementwise.def:21: error: operator f: an expression is over a, b, c, and in gradients g and y: q");
    row(ROW("f", "= a * (a", "", "-3..3", ""), "elementwise.def:20: error: operator f: ) was expected");
    row(ROW("f", "a + a", "g", "", "a + a"),
        "elementwise.def:20: error: operator f: no samples; give a range for each operand, \"-3..3; 1..3\"");
    row(ROW("f", "a + a", "g", "1..2", ""),
        "elementwise.def:20: error: operator f: no reference; give it in doubles, with the names of libm");
    row("WF_ROW(f, \"num\", \"a\")\n",
        "elementwise.def:20: error: operator f: a row has eight columns; name, types, body, grad, "
        "onnx, samples, ref, doc");
}
/* After an error nothing is touched; without changes nothing is written again. */
static void outputs_stay(void **state)
{
    (void)state;
    char text[4000], path[400];
    struct stat before, after;
    whole();
    assert_int_equal(run(text, sizeof text), 0);
    snprintf(path, sizeof path, "%s/weft/ops.h", out);
    assert_int_equal(stat(path, &before), 0);
    refuses("twist.c", with("    .grad    = grad,\n", ""),
            "twist.c:10: error: operator twist: no gradient; give .grad, or .nograd = \"why there is none\"");
    whole();
    assert_int_equal(run(text, sizeof text), 0);
    assert_int_equal(stat(path, &after), 0);
    assert_true(before.st_ino == after.st_ino && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
    put("loose.c", "/* loose */\nconst wf_op_def wf_op_loose = { .call = \"x\" };\n");
    assert_int_equal(run(text, sizeof text), 0);
    assert_string_equal(text, "loose.c: warning: defines an operator, but ops.def does not list it\n");
    snprintf(path, sizeof path, "%s/loose.c", in);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(accepts), cmocka_unit_test(definitions),
                                        cmocka_unit_test(broken_rows), cmocka_unit_test(outputs_stay) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
