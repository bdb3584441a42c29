/* Schedule: graph text in, graph text out; a network with an embedding whose updates run inside the backward part, with
 * less and less memory, against the same steps run eagerly, bit for bit; and a step that fails and changes nothing. */
#include "pass_text.h"
#include "passes/schedule.h"

static const pass_text texts[] = {
    { "a parameter is updated behind its gradient and the last use of its old value",
      "v0 = var 0 : f32[2048,4096]\nv1 = var 1 : f32[2048,2048]\nv2 = var 2 : f32[4096,2048]\n"
      "v3 = matmul v0 v2 : f32[2048,2048]\nv4 = matmul v1 v3 : f32[2048,2048]\n"
      "v5 = transpose v3 : f32[2048,2048]\nv6 = matmul v4 v5 : f32[2048,2048]\n"
      "v7 = transpose v1 : f32[2048,2048]\nv8 = matmul v7 v4 : f32[2048,2048]\n"
      "v9 = transpose v0 : f32[4096,2048]\nv10 = matmul v9 v8 : f32[4096,2048]\nv11 = host 0 : f64[8]\n"
      "v12 = slice v11 axis=0 start=0 len=1 step=1 : f64[1]\nv13 = reshape v12 shape=[] : f64[]\n"
      "v14 = cast v13 dtype=f32 : f32[]\nv15 = sgd_step v1 v6 v14 v11 : f32[2048,2048]\n"
      "v16 = sgd_step v2 v10 v14 v11 : f32[4096,2048]\nassign 1 v15\nassign 2 v16\n",
      "v0 = var 0 : f32[2048,4096]\nv1 = var 1 : f32[2048,2048]\nv2 = var 2 : f32[4096,2048]\n"
      "v3 = matmul v0 v2 : f32[2048,2048]\nv4 = matmul v1 v3 : f32[2048,2048]\n"
      "v5 = transpose v3 : f32[2048,2048]\nv6 = matmul v4 v5 : f32[2048,2048]\n"
      "v7 = transpose v1 : f32[2048,2048]\nv8 = matmul v7 v4 : f32[2048,2048]\nv9 = host 0 : f64[8]\n"
      "v10 = slice v9 axis=0 start=0 len=1 step=1 : f64[1]\nv11 = reshape v10 shape=[] : f64[]\n"
      "v12 = cast v11 dtype=f32 : f32[]\nv13 = sgd_step v1 v6 v12 v9 : f32[2048,2048]\n"
      "v14 = transpose v0 : f32[4096,2048]\nv15 = matmul v14 v8 : f32[4096,2048]\n"
      "v16 = sgd_step v2 v15 v12 v9 : f32[4096,2048]\nassign 1 v13\nassign 2 v16\n" },
    { "where a gradient is needed later as well, or the old value is, nothing is gained",
      "v0 = var 0 : f32[2048,2048]\nv1 = var 1 : f32[2048,2048]\nv2 = var 2 : f32[2048,2048]\n"
      "v3 = const 1 : f32[]\nv4 = host 0 : f64[8]\nv5 = matmul v0 v1 : f32[2048,2048]\n"
      "v6 = matmul v5 v2 : f32[2048,2048]\nv7 = matmul v6 v5 : f32[2048,2048]\n"
      "v8 = matmul v7 v6 : f32[2048,2048]\nv9 = matmul v8 v7 : f32[2048,2048]\n"
      "v10 = sgd_step v1 v7 v3 v4 : f32[2048,2048]\nv11 = sgd_step v2 v9 v3 v4 : f32[2048,2048]\n"
      "assign 1 v10\nassign 2 v11\n",
      "v0 = var 0 : f32[2048,2048]\nv1 = var 1 : f32[2048,2048]\nv2 = var 2 : f32[2048,2048]\n"
      "v3 = const 1 : f32[]\nv4 = host 0 : f64[8]\nv5 = matmul v0 v1 : f32[2048,2048]\n"
      "v6 = matmul v5 v2 : f32[2048,2048]\nv7 = matmul v6 v5 : f32[2048,2048]\n"
      "v8 = matmul v7 v6 : f32[2048,2048]\nv9 = matmul v8 v7 : f32[2048,2048]\n"
      "v10 = sgd_step v1 v7 v3 v4 : f32[2048,2048]\nv11 = sgd_step v2 v9 v3 v4 : f32[2048,2048]\n"
      "assign 1 v10\nassign 2 v11\n" },
    { "where the peak is elsewhere, everything stays in its place",
      "v0 = var 0 : f32[2048,2048]\nv1 = var 1 : f32[2048,2048]\nv2 = const 1 : f32[]\n"
      "v3 = host 0 : f64[8]\nv4 = matmul v0 v1 : f32[2048,2048]\nv5 = matmul v4 v0 : f32[2048,2048]\n"
      "v6 = matmul v5 v0 : f32[2048,2048]\nv7 = matmul v6 v1 : f32[2048,2048]\n"
      "v8 = matmul v7 v5 : f32[2048,2048]\nv9 = matmul v8 v7 : f32[2048,2048]\n"
      "v10 = sum v9 axes=[0,1] keep=false : f32[]\nv11 = sgd_step v1 v4 v2 v3 : f32[2048,2048]\n"
      "assign 1 v11\nresult 10 v10\n",
      "v0 = var 0 : f32[2048,2048]\nv1 = var 1 : f32[2048,2048]\nv2 = const 1 : f32[]\n"
      "v3 = host 0 : f64[8]\nv4 = matmul v0 v1 : f32[2048,2048]\nv5 = matmul v4 v0 : f32[2048,2048]\n"
      "v6 = matmul v5 v0 : f32[2048,2048]\nv7 = matmul v6 v1 : f32[2048,2048]\n"
      "v8 = matmul v7 v5 : f32[2048,2048]\nv9 = matmul v8 v7 : f32[2048,2048]\n"
      "v10 = sum v9 axes=[0,1] keep=false : f32[]\nv11 = sgd_step v1 v4 v2 v3 : f32[2048,2048]\n"
      "assign 1 v11\nresult 10 v10\n" },
    { "a small step stays as it is",
      "v0 = var 0 : f32[64,64]\nv1 = const 1 : f32[]\nv2 = host 0 : f64[8]\nv3 = matmul v0 v0 : f32[64,64]\n"
      "v4 = exp v0 : f32[64,64]\nv5 = sgd_step v0 v3 v1 v2 : f32[64,64]\nassign 0 v5\nresult 4 v4\n",
      "v0 = var 0 : f32[64,64]\nv1 = const 1 : f32[]\nv2 = host 0 : f64[8]\nv3 = matmul v0 v0 : f32[64,64]\n"
      "v4 = exp v0 : f32[64,64]\nv5 = sgd_step v0 v3 v1 v2 : f32[64,64]\nassign 0 v5\nresult 4 v4\n" },
};

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pass(&texts[i], wfi_schedule);
}

/* ---- a network ---- */

enum { ROWS = 32, WIDTH = 48, SYMBOLS = 200, LAYERS = 5, STEPS = 3 };
static const char *const name[LAYERS] = { "l0", "l1", "l2", "l3", "l4" };

typedef struct net {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
} net;

static net new_net(wf_mode mode, size_t budget)
{
    net n = { .c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = 2, .memory_budget = budget }) };
    assert_non_null(n.c);
    n.m = wf_model_new(n.c);
    n.opt = wf_adamw(n.m, .lr = 0.01);
    return n;
}

/* shift: added to one index. */
static wf_status step(const net *n, int64_t shift)
{
    int64_t index[ROWS], label[ROWS];
    for (int i = 0; i < ROWS; i++) {
        index[i] = i * 7919 % SYMBOLS;
        label[i] = i * 104729 % SYMBOLS;
    }
    index[ROWS / 2] += shift;
    wf_scope s = wf_scope_begin(n->c, "step");
    wf_tensor *x = wf_tensor_from(n->c, WF_I64, WF_DIMS(2, ROWS / 2), index);
    wf_tensor *y = wf_tensor_from(n->c, WF_I64, WF_DIMS(ROWS), label);
    wf_tensor *h = wf_reshape(wf_nn_embedding(n->m, "table", x, WF_DIMS(SYMBOLS, WIDTH)), WF_DIMS(ROWS, WIDTH));
    for (int l = 0; l < LAYERS; l++)
        h = wf_tanh(wf_nn_linear(n->m, name[l], h, WIDTH));
    wf_optim_step(n->opt, wf_cross_entropy(wf_nn_linear(n->m, "head", h, SYMBOLS), y));
    return wf_scope_end(n->c, s);
}

enum { OUT = SYMBOLS * WIDTH + WIDTH * WIDTH };

static void weights(const net *n, float *out)
{
    wf_scope s = wf_scope_begin(n->c, "read", .group = true);
    wf_tensor *table = wf_value(wf_model_find(n->m, "table.weight")),
              *first = wf_value(wf_model_find(n->m, "l0.weight"));
    assert_int_equal(wf_read(n->c, table, out, SYMBOLS * WIDTH * sizeof *out), WF_OK);
    assert_int_equal(wf_read(n->c, first, out + SYMBOLS * WIDTH, WIDTH * WIDTH * sizeof *out), WF_OK);
    wf_scope_end(n->c, s);
}

static size_t train(wf_mode mode, size_t budget, float *out)
{
    net n = new_net(mode, budget);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(step(&n, 0), WF_OK);
    weights(&n, out);
    const size_t arena = wf_ctx_stats(n.c).arena_bytes;
    assert_int_equal(wf_ctx_close(n.c), WF_OK);
    return arena;
}

static float want[OUT], got[OUT];

static void less_and_less(void **state)
{
    (void)state;
    (void)train(WF_EAGER, 0, want);
    const size_t whole = train(WF_LAZY, 0, got);
    size_t least = whole;
    assert_memory_equal(want, got, sizeof want);
    for (size_t tenth = 9; tenth >= 2; tenth--) {
        const size_t arena = train(WF_LAZY, whole * tenth / 10, got);
        assert_memory_equal(want, got, sizeof want);
        least = arena < least ? arena : least;
    }
    print_message("arena: %zu bytes, down to %zu\n", whole, least);
    assert_true(least < whole * 2 / 3);
}

/* Updates stand in front of the gradient of the embedding, which looks up what was looked up before: it cannot fail,
 * and all variables are written in place. */
static void in_place(void **state)
{
    (void)state;
    net n = new_net(WF_LAZY, 60 << 10);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(step(&n, 0), WF_OK);
    const char *text = wf_explain_plan(n.c, .buffers = true);
    const char *add = text ? strstr(text, " = scatter_add ") : NULL,
               *first = text ? strstr(text, " = adamw_step ") : NULL;
    assert_true(add && first && first < add);
    assert_null(strstr(text, "@fresh"));
    assert_int_equal(wf_ctx_close(n.c), WF_OK);
}

static void nothing_changes_when_a_step_fails(void **state)
{
    (void)state;
    net n = new_net(WF_LAZY, 60 << 10);
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(step(&n, 0), WF_OK);
    weights(&n, want);
    assert_int_not_equal(step(&n, SYMBOLS), WF_OK);
    wf_error_clear(n.c);
    weights(&n, got);
    assert_memory_equal(want, got, sizeof want);
    assert_int_equal(step(&n, 0), WF_OK);
    weights(&n, got);
    assert_memory_not_equal(want, got, sizeof want);
    assert_int_equal(wf_ctx_close(n.c), WF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_in_text_out),
        cmocka_unit_test(less_and_less),
        cmocka_unit_test(in_place),
        cmocka_unit_test(nothing_changes_when_a_step_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
