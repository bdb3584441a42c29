/* The texts of errors: the first line word for word, the lines of the call and of its operands, the same in eager and
 * in lazy mode; and the context works afterwards. */
#include <sys/wait.h>
#include <unistd.h>
#include "refeval.h"

static wf_ctx *c, *other;
static bool lazy;
static wf_var *w; /* of c */

/* The pending error begins with `first`; every further word stands in it. Then it is forgotten. */
static void expect(int line, wf_status status, const char *first, const char *const *words)
{
    const char *text = wf_error(c);
    if (!text)
        fail_msg("line %d: no error; \"%s\" was expected", line, first);
    size_t n = strcspn(text, "\n");
    if (strlen(first) != n || strncmp(text, first, n))
        fail_msg("line %d (%s):\n%s\nwas expected to begin\n%s", line, lazy ? "lazy" : "eager", text, first);
    if (wf_error_status(c) != status)
        fail_msg("line %d: status %d, %d was expected", line, (int)wf_error_status(c), (int)status);
    for (; *words; words++)
        if (!strstr(text, *words))
            fail_msg("line %d (%s): '%s' is missing in\n%s", line, lazy ? "lazy" : "eager", *words, text);
    wf_error_clear(c);
    assert_null(wf_error(c));
}
#define HERE WF_SITE
/* The call, on this line, must fail so. */
#define E(call, status, ...)                                                                                           \
    do {                                                                                                               \
        (void)(call);                                                                                                  \
        const char *const words_[] = { __VA_ARGS__, "at " HERE, NULL };                                                \
        expect(__LINE__, status, words_[0], words_ + 1);                                                               \
    } while (0)

static float zeros[64];
static int64_t whole[8];

static void in_both(void (*test)(void))
{
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        lazy = mode == WF_LAZY;
        c = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)mode, .threads = 1 });
        other = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)mode, .threads = 1 });
        assert_true(c && other);
        w = NULL;
        for (int step = 0; step < 3; step++) { /* also on a known trace */
            wf_scope s = wf_scope_begin(c, "train");
            test();
            if (wf_scope_end(c, s) != WF_OK)
                fail_msg("%s", wf_error(c));
        }
        assert_int_equal(wf_ctx_close(c), WF_OK);
        assert_int_equal(wf_ctx_close(other), WF_OK);
    }
}

static void shapes_body(void)
{
    const char *at_a, *at_b, *at_r;
    wf_tensor *a = (at_a = WF_SITE, wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros));
    wf_tensor *b = (at_b = WF_SITE, wf_tensor_from(c, WF_F32, WF_DIMS(4), zeros));
    wf_tensor *r = (at_r = WF_SITE, wf_relu(a));
    E(wf_add(a, b), WF_ERR_SHAPE, "add: shapes do not broadcast: a[-1] is 3, b[-1] is 4; a is f32[2,3], b is f32[4]",
      "scope train", "a: a tensor from outside the step, f32[2,3], ", "b: a tensor from outside the step, f32[4], ",
      at_a, at_b);
    E(wf_matmul(a, r), WF_ERR_SHAPE,
      "matmul: sizes of axis k differ: a[-1] is 3, b[-2] is 2; a is f32[2,3], b is f32[2,3]",
      "b: result of relu, f32[2,3], ", at_r);
    E(wf_reshape(a, WF_DIMS(4, 2)), WF_ERR_SHAPE,
      "reshape: the number of elements differs; x is [2,3], the shape [4,2]");
    E(wf_reshape(a, WF_DIMS(-1, -1)), WF_ERR_SHAPE, "reshape: only one size can be -1; x is [2,3], the shape [-1,-1]");
    E(wf_slice(a, 1, 2, 5), WF_ERR_SHAPE, "slice: reads x[-1] at 2..6; it has 3; x is f32[2,3]");
    E(wf_concat(2, ((wf_tensor *[]){ a, b }), 0), WF_ERR_SHAPE,
      "concat: x1 has 1 dimensions, x0 has 2; x0 is f32[2,3], x1 is f32[4]", "operand 0: ", "operand 1: ");
    E(wf_broadcast_to(a, WF_DIMS(2, 4)), WF_ERR_SHAPE,
      "broadcast_to: axis 1 of x is 3 and cannot become 4; only 1 can be repeated");
    E(wf_transpose(b), WF_ERR_SHAPE, "transpose: x has 1 dimensions; needed at least 2; x is f32[4]");
    E(wf_squeeze(a, WF_DIMS(0)), WF_ERR_SHAPE, "squeeze: x[-2] is 2; needed 1; x is f32[2,3]");
    E(wf_pad(a, 0, -1, 0), WF_ERR_SHAPE, "pad: lo is -1, hi is 0; both must be 0 or more (slice takes elements away)");
    E(wf_mse(a, b), WF_ERR_SHAPE, "wf_mse: a is f32[2,3], b is f32[4]: the shapes must be equal, nothing is broadcast",
      at_a, at_b);
    E(wf_max(wf_slice(a, 0, 0, 0), WF_DIMS(0)), WF_ERR_SHAPE, "max: axis 0 of x has no elements");
    E(wf_argmin(wf_slice(a, 1, 0, 0), -1), WF_ERR_SHAPE, "argmin: axis 1 of x has no elements");
}
static void shapes(void **state)
{
    (void)state;
    in_both(shapes_body);
}

static void types_body(void)
{
    const char *at_a, *at_i;
    wf_tensor *a = (at_a = WF_SITE, wf_tensor_from(c, WF_F32, WF_DIMS(3), zeros));
    wf_tensor *i = (at_i = WF_SITE, wf_tensor_from(c, WF_I64, WF_DIMS(3), whole));
    E(wf_add(a, i), WF_ERR_DTYPE, "add: element types differ: a is f32, b is i64", at_a, at_i);
    E(wf_exp(i), WF_ERR_DTYPE, "exp: a is i64; needed a floating-point type");
    E(wf_where(a, a, a), WF_ERR_DTYPE, "where: a is f32; needed bool");
    E(wf_gather(wf_reshape(a, WF_DIMS(3, 1)), a), WF_ERR_DTYPE, "gather: i is f32; needed i64, i32 or u8");
    E(wf_tensor_from(c, (wf_dtype)77, WF_DIMS(2), zeros), WF_ERR_DTYPE, "wf_tensor_from: 77 is no element type");
}
static void types(void **state)
{
    (void)state;
    in_both(types_body);
}

static void axes_body(void)
{
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros);
    E(wf_softmax(a, 2), WF_ERR_SHAPE, "softmax: axis is 2, which is out of range; x has 2 dimensions; x is f32[2,3]");
    E(wf_sum(a, WF_DIMS(-3)), WF_ERR_SHAPE,
      "sum: axes is -3, which is out of range; x has 2 dimensions; x is f32[2,3]");
    E(wf_sum(a, WF_DIMS(0, -2)), WF_ERR_SHAPE,
      "sum: axes is -2, which is given twice; x has 2 dimensions; x is f32[2,3]");
    E(wf_permute(a, WF_DIMS(0, 0)), WF_ERR_SHAPE,
      "permute: perm is 0, which is given twice; x has 2 dimensions; x is f32[2,3]");
    wf_tensor *scalar = wf_tensor_from(c, WF_F32, WF_NO_DIMS, zeros);
    E(wf_softmax(scalar, 0), WF_ERR_SHAPE, "softmax: x has 0 dimensions; needed at least 1; x is f32[]");
}
static void axes(void **state)
{
    (void)state;
    in_both(axes_body);
}

static void sizes_body(void)
{
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros);
    E(wf_tensor_from(c, WF_F32, WF_DIMS(INT64_MAX, 4), zeros), WF_ERR_SHAPE,
      "wf_tensor_from: the product of the dimensions is too large");
    E(wf_tensor_from(c, WF_F64, WF_DIMS((int64_t)1 << 32, (int64_t)1 << 31), zeros), WF_ERR_SHAPE,
      "wf_tensor_from: the product of the dimensions is too large");
    E(wf_tensor_from(c, WF_F32, WF_DIMS(-1), zeros), WF_ERR_SHAPE,
      "wf_tensor_from: dimension 0 is -1, which is below 0");
    E(wf_tensor_from(c, WF_F32, ((wf_dims){ 9, { 1 } }), zeros), WF_ERR_SHAPE,
      "wf_tensor_from: 9 dimensions, 0 to 8 can be");
    E(wf_broadcast_to(a, WF_DIMS(INT64_MAX, INT64_MAX, 2, 3)), WF_ERR_SHAPE,
      "broadcast_to: a size is below 0, or the product of the sizes is too large");
    E(wf_one_hot(wf_tensor_from(c, WF_I64, WF_DIMS(3), whole), -1), WF_ERR_SHAPE,
      "one_hot: y[-1] would be -1: depth is -1; i is i64[3]");
    E(wf_var_new(c, "v", WF_F32, WF_DIMS(-2), zeros), WF_ERR_SHAPE, "wf_var_new: dimension 0 is -2, which is below 0");
}
static void sizes(void **state)
{
    (void)state;
    in_both(sizes_body);
}

static void windows_body(void)
{
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(1, 1, 8, 6), zeros), *one = wf_reshape(x, WF_DIMS(1, 8, 6));
    E(wf_max_pool2d(one, .kernel = 2), WF_ERR_SHAPE, "max_pool2d: x has 3 axes; x[N,C,H,W] was expected");
    E(wf_avg_pool2d(x, .kernel = 2, .dilation_w = -1), WF_ERR_SHAPE,
      "avg_pool2d: kernel 2, 2, stride 2, 2 and dilation 1, -1 must all be at least 1");
    E(wf_max_pool2d(x, .kernel = 2, .pad_h = 2), WF_ERR_SHAPE,
      "max_pool2d: pad 2, 0 must be from 0 to half the kernel");
    E(wf_avg_pool2d(x, .kernel = 5, .dilation = 2), WF_ERR_SHAPE,
      "avg_pool2d: kernel 5, 5 is larger than the padded images of 8 x 6");
}
static void windows(void **state)
{
    (void)state;
    in_both(windows_body);
}

static void nulls_body(void)
{
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros), *none = NULL, *g = NULL;
    E(wf_add(a, none), WF_ERR_ARG, "add: b is NULL");
    E(wf_add(none, a), WF_ERR_ARG, "add: a is NULL");
    E(wf_stack(2, ((wf_tensor *[]){ a, NULL }), 0), WF_ERR_ARG, "stack: an operand is NULL");
    E(wf_tensor_from(c, WF_F32, WF_DIMS(2), NULL), WF_ERR_ARG, "wf_tensor_from: host memory is NULL");
    E(wf_item(c, none), WF_ERR_ARG, "wf_item: the tensor is NULL");
    E(wf_read(c, none, zeros, 4), WF_ERR_ARG, "wf_read: the tensor is NULL");
    E(wf_item(c, a), WF_ERR_SHAPE, "wf_item: the tensor is f32[2,3]: one element was expected");
    E(wf_read(c, a, zeros, 4), WF_ERR_ARG, "wf_read: f32[2,3] needs a buffer of 24 bytes, got 4");
    E(wf_grad(wf_sum(a, WF_NO_DIMS), 1, &none, &g), WF_ERR_ARG, "wf_grad: a tensor to differentiate by is NULL");
    /* nothing that could carry an error: NULL, quietly */
    assert_null(wf_relu(none));
    assert_null(wf_error(c));
    assert_int_equal(wf_assign(NULL, a), WF_ERR_ARG);
    assert_int_equal(wf_ctx_close(NULL), WF_ERR_ARG);
}
static void nulls(void **state)
{
    (void)state;
    in_both(nulls_body);
}

static void foreign_body(void)
{
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros), *g = NULL;
    const char *at_o;
    wf_tensor *o = (at_o = WF_SITE, wf_tensor_from(other, WF_F32, WF_DIMS(2, 3), zeros));
    char text[256];
    snprintf(text, sizeof text, "an operand belongs to another context; it was made at %s", at_o);
    E(wf_add(a, o), WF_ERR_ARG, text);
    E(wf_item(c, o), WF_ERR_STATE, "wf_item: the tensor belongs to another context");
    E(wf_grad(wf_sum(a, WF_NO_DIMS), 1, &o, &g), WF_ERR_ARG,
      "wf_grad: a tensor to differentiate by belongs to another context");
    assert_null(wf_error(other));
}
static void foreign(void **state)
{
    (void)state;
    in_both(foreign_body);
}

static void variables_body(void)
{
    static const char *at_w;
    const char *at_b;
    if (!w)
        w = (at_w = WF_SITE, wf_var_new(c, "w", WF_F32, WF_DIMS(2, 3), zeros));
    wf_tensor *b = (at_b = WF_SITE, wf_tensor_from(c, WF_F32, WF_DIMS(4), zeros)), *d = wf_cast(wf_value(w), WF_F64);
    E(wf_assign(w, b), WF_ERR_SHAPE, "wf_assign: variable w is f32[2,3], the value is f32[4]", "w: made at ", at_w,
      "value: ", at_b);
    E(wf_assign(w, d), WF_ERR_DTYPE, "wf_assign: variable w is f32[2,3], the value is f64[2,3]");
    E(wf_assign(w, NULL), WF_ERR_ARG, "wf_assign: the value for variable w is NULL");
    E(wf_add(wf_value(w), b), WF_ERR_SHAPE,
      "add: shapes do not broadcast: a[-1] is 3, b[-1] is 4; a is f32[2,3], b is f32[4]", "a: variable w, f32[2,3]");
}
static void variables(void **state)
{
    (void)state;
    in_both(variables_body);
}

static void gradients_body(void)
{
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros), *g = NULL,
              *i = wf_tensor_from(c, WF_I64, WF_NO_DIMS, whole);
    E(wf_grad(a, 1, &a, &g), WF_ERR_SHAPE, "wf_grad: the loss is f32[2,3]: one element of a float type was expected");
    E(wf_grad(i, 1, &a, &g), WF_ERR_SHAPE, "wf_grad: the loss is i64[]: one element of a float type was expected");
}
static void gradients(void **state)
{
    (void)state;
    in_both(gradients_body);
}

/* What an ended scope leaves behind. */
static void ended(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        lazy = mode == WF_LAZY;
        c = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)mode, .threads = 1 });
        w = wf_var_new(c, "w", WF_F32, WF_DIMS(3), zeros);
        wf_scope epoch = wf_scope_begin(c, "epoch", .group = true);
        for (int round = 0; round < 3; round++) {
            wf_scope s = wf_scope_begin(c, "one");
            wf_tensor *loss = wf_scope_return(c, s, wf_sum(wf_square(wf_value(w)), WF_NO_DIMS)),
                      *dead = wf_neg(wf_value(w));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            const char *gone = "an operand belongs to a scope that has ended; return it with wf_scope_return or keep "
                               "it with wf_retain";
            E(wf_relu(dead), WF_ERR_STATE, gone);
            E(wf_item(c, dead), WF_ERR_STATE, "wf_item: the tensor belongs to a scope that has ended");
            E(wf_assign(w, dead), WF_ERR_STATE, "wf_assign: the tensor belongs to a scope that has ended");
            assert_null(wf_retain(c, dead));
            assert_non_null(strstr(wf_error(c), "wf_retain: the tensor belongs to a scope that has ended"));
            wf_error_clear(c);
            assert_null(wf_scope_return(c, s, loss));
            assert_non_null(strstr(wf_error(c), "wf_scope_return: the scope has ended"));
            wf_error_clear(c);
            wf_tensor *g = NULL, *x = wf_value(w);
            E(wf_grad(loss, 1, &x, &g), WF_ERR_STATE,
              "wf_grad: no step is open, so no history was kept: begin a scope before the forward computation");
            wf_scope t = wf_scope_begin(c, "two");
            x = wf_value(w);
            (void)wf_grad(loss, 1, &x, &g);
            const char *text = wf_error(c);
            assert_non_null(text);
            assert_non_null(strstr(text, "wf_grad: the loss was not made in this step ("));
            assert_non_null(strstr(text, "scope epoch/two"));
            assert_null(g);
            wf_error_clear(c);
            assert_int_equal(wf_scope_end(c, t), WF_OK);
        }
        assert_int_equal(wf_scope_end(c, epoch), WF_OK);
        assert_int_equal(wf_ctx_close(c), WF_OK);
    }
}

static void no_grad_scopes(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        c = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)mode, .threads = 1 });
        const float three = 3;
        w = wf_var_new(c, "w", WF_F32, WF_NO_DIMS, &three);
        for (int round = 0; round < 3; round++) {
            wf_scope s = wf_scope_begin(c, "step");
            wf_scope quiet = wf_scope_begin(c, "quiet", .no_grad = true);
            wf_tensor *k = wf_scope_return(c, quiet, wf_square(wf_value(w)));
            wf_scope_end(c, quiet);
            wf_tensor *x = wf_value(w), *loss = wf_mul(x, k), *g = NULL;
            assert_int_equal(wf_grad(loss, 1, &x, &g), WF_OK);
            assert_true(wf_item(c, g) == 9); /* k counts as a constant */
            assert_int_equal(wf_scope_end(c, s), WF_OK);
        }
        assert_int_equal(wf_ctx_close(c), WF_OK);
    }
}

/* The first error stays; later calls give NULL; the text of close goes to standard error only if nobody read it. */
static void the_first_counts(void **state)
{
    (void)state;
    c = wf_ctx_new(&(wf_ctx_opts){ .threads = 1 });
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), zeros);
    assert_null(wf_softmax(a, 7));
    assert_null(wf_add(a, NULL));
    assert_null(wf_relu(a));
    assert_true(isnan(wf_item(c, a)));
    assert_null(wf_var_new(c, "v", WF_F32, WF_DIMS(2), zeros));
    assert_non_null(strstr(wf_error(c), "softmax: axis is 7"));
    assert_int_equal(wf_ctx_close(c), WF_ERR_SHAPE);

    c = wf_ctx_new(&(wf_ctx_opts){ .device = "abacus", .threads = 1 });
    assert_string_equal(wf_error(c), "wf_ctx_new: device \"abacus\" is not known; there is: cpu");
    assert_int_equal(wf_ctx_close(c), WF_ERR_UNSUPPORTED);
    c = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)7, .threads = 1 });
    assert_string_equal(wf_error(c), "wf_ctx_new: mode 7 is neither WF_LAZY nor WF_EAGER");
    assert_int_equal(wf_ctx_close(c), WF_ERR_ARG);
}

static void fork_is_an_error(void **state)
{
    (void)state;
    c = wf_ctx_new(&(wf_ctx_opts){ .threads = 1 });
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        wf_scope s = wf_scope_begin(c, "child");
        (void)wf_tensor_from(c, WF_F32, WF_DIMS(2), zeros);
        bool right = wf_scope_end(c, s) == WF_ERR_STATE && wf_error(c) &&
                     strstr(wf_error(c), "this context was made before fork: a child cannot use it");
        _exit(right ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* An index outside is found while running: the error names value, position, size and the operator's line. */
static void indices(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        c = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)mode, .threads = 2 });
        const float two[2] = { 1, 2 };
        wf_var *v = wf_var_new(c, "v", WF_F32, WF_DIMS(2), two), *u = wf_var_new(c, "u", WF_F32, WF_DIMS(2), two);
        for (int round = 0; round < 4; round++) {
            int64_t at[3] = { 0, round == 1 ? 0 : 9, 1 };
            wf_scope s = wf_scope_begin(c, "look up");
            wf_assign(u, wf_add(wf_value(u), wf_scalar(c, 1)));
            wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(5, 2), zeros),
                      *i = wf_tensor_from(c, WF_I64, WF_DIMS(3), at);
            const char *line;
            wf_tensor *y = (line = WF_SITE, wf_gather(x, i));
            wf_assign(v, wf_sum(y, WF_DIMS(0)));
            wf_status st = wf_scope_end(c, s);
            assert_int_equal(st, round == 1 ? WF_OK : WF_ERR_INDEX);
            if (round != 1) {
                assert_non_null(strstr(wf_error(c), "gather: index 9 at position 1 is outside 0..4"));
                assert_non_null(strstr(wf_error(c), line));
            }
            wf_error_clear(c);
            float now[2];
            assert_int_equal(wf_read(c, wf_value(u), now, sizeof now), WF_OK);
            assert_true(now[1] == now[0] + 1); /* wholly old or wholly new */
        }
        assert_int_equal(wf_ctx_close(c), WF_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(shapes),
                                        cmocka_unit_test(types),
                                        cmocka_unit_test(axes),
                                        cmocka_unit_test(sizes),
                                        cmocka_unit_test(windows),
                                        cmocka_unit_test(nulls),
                                        cmocka_unit_test(foreign),
                                        cmocka_unit_test(variables),
                                        cmocka_unit_test(gradients),
                                        cmocka_unit_test(ended),
                                        cmocka_unit_test(no_grad_scopes),
                                        cmocka_unit_test(the_first_counts),
                                        cmocka_unit_test(fork_is_an_error),
                                        cmocka_unit_test(indices) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
