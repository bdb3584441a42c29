/* Recompute: graph text in, graph text out, with and without a budget; and steps of a network that is given less and
 * less memory, against the same steps run eagerly, bit for bit. */
#include "pass_text.h"
#include "passes/recompute.h"

/* 16 MiB each; v3 is the peak's */
#define LEAVES "v0 = var 0 : f32[2048,2048]\nv1 = var 1 : f32[2048,2048]\n"

static const pass_text without[] = {
    { "what is cheap does not wait behind the peak",
      LEAVES "v2 = tanh v0 : f32[2048,2048]\nv3 = matmul v2 v1 : f32[2048,2048]\nv4 = matmul v3 v1 : f32[2048,2048]\n"
             "v5 = matmul v4 v3 : f32[2048,2048]\nv6 = mul v5 v2 : f32[2048,2048]\nassign 0 v6\n",
      LEAVES "v2 = tanh v0 : f32[2048,2048]\nv3 = matmul v2 v1 : f32[2048,2048]\nv4 = matmul v3 v1 : f32[2048,2048]\n"
             "v5 = matmul v4 v3 : f32[2048,2048]\nv6 = tanh v0 : f32[2048,2048]\nv7 = mul v5 v6 : f32[2048,2048]\n"
             "assign 0 v7\n" },
    { "a product is not cheap",
      LEAVES
      "v2 = matmul v0 v1 : f32[2048,2048]\nv3 = matmul v2 v1 : f32[2048,2048]\nv4 = matmul v3 v1 : f32[2048,2048]\n"
      "v5 = matmul v4 v3 : f32[2048,2048]\nv6 = mul v5 v2 : f32[2048,2048]\nassign 0 v6\n",
      LEAVES
      "v2 = matmul v0 v1 : f32[2048,2048]\nv3 = matmul v2 v1 : f32[2048,2048]\nv4 = matmul v3 v1 : f32[2048,2048]\n"
      "v5 = matmul v4 v3 : f32[2048,2048]\nv6 = mul v5 v2 : f32[2048,2048]\nassign 0 v6\n" },
    { "a small step stays as it is",
      "v0 = var 0 : f32[64,64]\nv1 = exp v0 : f32[64,64]\nv2 = matmul v1 v0 : f32[64,64]\nv3 = mul v2 v1 : f32[64,64]\n"
      "assign 0 v3\n",
      "v0 = var 0 : f32[64,64]\nv1 = exp v0 : f32[64,64]\nv2 = matmul v1 v0 : f32[64,64]\nv3 = mul v2 v1 : f32[64,64]\n"
      "assign 0 v3\n" },
};

/* 16 KiB each, of which three must be there at once */
#define SMALL "v0 = var 0 : f32[64,64]\nv1 = var 1 : f32[64,64]\n"

static const pass_text within[] = {
    { "with a budget products are computed again, and views and what they are made from with them",
      SMALL
      "v2 = matmul v0 v1 : f32[64,64]\nv3 = transpose v2 : f32[64,64]\nv4 = matmul v3 v1 : f32[64,64]\n"
      "v5 = matmul v4 v1 : f32[64,64]\nv6 = matmul v5 v4 : f32[64,64]\nv7 = mul v6 v3 : f32[64,64]\nassign 0 v7\n",
      SMALL "v2 = matmul v0 v1 : f32[64,64]\nv3 = transpose v2 : f32[64,64]\nv4 = matmul v3 v1 : f32[64,64]\n"
            "v5 = matmul v4 v1 : f32[64,64]\nv6 = matmul v5 v4 : f32[64,64]\nv7 = matmul v0 v1 : f32[64,64]\n"
            "v8 = transpose v7 : f32[64,64]\nv9 = mul v6 v8 : f32[64,64]\nassign 0 v9\n" },
    { "what fits stays as it is",
      SMALL "v2 = exp v0 : f32[64,64]\nv3 = matmul v2 v1 : f32[64,64]\nv4 = mul v3 v2 : f32[64,64]\nassign 0 v4\n",
      SMALL "v2 = exp v0 : f32[64,64]\nv3 = matmul v2 v1 : f32[64,64]\nv4 = mul v3 v2 : f32[64,64]\nassign 0 v4\n" },
};

static bool with_budget(const wfi_graph *g, wfi_graph *out)
{
    wfi_graph h = *g;
    h.budget = 48 << 10;
    return wfi_recompute(&h, out);
}

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        check_pass(&without[i], wfi_recompute);
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        check_pass(&within[i], with_budget);
}

/* ---- a network ---- */

enum { LAYERS = 4, WIDTH = 48, ROWS = 96, STEPS = 4, OUT = STEPS * ROWS * WIDTH };

static const char *const name[LAYERS][2] = { { "u0", "d0" }, { "u1", "d1" }, { "u2", "d2" }, { "u3", "d3" } };

static wf_tensor *residual(wf_model *m, wf_tensor *y, int l)
{
    wf_tensor *h = wf_gelu(wf_nn_linear(m, name[l][0], y, 4 * WIDTH, .no_bias = true));
    return wf_add(y, wf_nn_linear(m, name[l][1], h, WIDTH, .no_bias = true));
}

static wf_tensor *transformer(wf_model *m, wf_tensor *y, int l)
{
    y = wf_reshape(y, WF_DIMS(2, ROWS / 2, WIDTH));
    return wf_reshape(wf_nn_transformer_block(m, name[l][0], y, .heads = 4, .causal = true), WF_DIMS(ROWS, WIDTH));
}

typedef wf_tensor *block_fn(wf_model *m, wf_tensor *y, int l);

/* Gradient steps of a chain of blocks; what they give goes to `out`. False: a step failed. */
static bool steps(wf_ctx *c, block_fn *block, float *out)
{
    static float data[ROWS * WIDTH];
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_sgd(m, .lr = 0.05);
    bool good = true;
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = (float)(i * 7919 % 1000) / 500 - 1;
    for (int step = 0; good && step < STEPS; step++) {
        wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, WIDTH), data), *y = x;
        for (int l = 0; l < LAYERS; l++)
            y = block(m, y, l);
        wf_optim_step(opt, wf_mse(y, wf_neg(x)));
        y = wf_scope_return(c, s, y);
        good = wf_scope_end(c, s) == WF_OK && wf_read(c, y, out + step * ROWS * WIDTH, sizeof data) == WF_OK;
        wf_scope_end(c, around);
    }
    return good;
}

/* Returns the last plan's arena. */
static size_t train(block_fn *block, wf_mode mode, size_t budget, float *out)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = 2, .memory_budget = budget });
    assert_true(steps(c, block, out));
    size_t arena = wf_ctx_stats(c).arena_bytes;
    assert_int_equal(wf_ctx_close(c), WF_OK);
    return arena;
}

static void less_and_less(void **state)
{
    static float want[OUT], got[OUT];
    block_fn *block = *state ? transformer : residual;
    (void)train(block, WF_EAGER, 0, want);
    size_t whole = train(block, WF_LAZY, 0, got), least = whole;
    assert_memory_equal(want, got, sizeof want);
    for (size_t tenth = 9; tenth >= 2; tenth--) {
        size_t budget = whole * tenth / 10, arena = train(block, WF_LAZY, budget, got);
        assert_memory_equal(want, got, sizeof want);
        assert_true(arena <= budget || tenth < 7);
        least = arena < least ? arena : least;
    }
    print_message("arena: %zu bytes, down to %zu\n", whole, least);
    assert_true(least < whole * 2 / 3);
}

/* A runtime's limit is a budget: what it leaves is what steps have. Where that is not enough the error says what needs
 * the memory, and the context goes on. */
static void limited(void **state)
{
    (void)state;
    static float want[OUT], got[OUT];
    size_t whole = train(residual, WF_LAZY, 0, want), fitted = 0, refused = 0;
    for (size_t limit = 6 << 20; limit > 1 << 20; limit -= whole / 8) {
        wf_runtime *rt = wf_runtime_new(&(wf_runtime_opts){ .threads = 2, .memory_limit = limit });
        wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .runtime = rt });
        if (!rt || !c)
            break;
        if (steps(c, residual, got)) {
            assert_memory_equal(want, got, sizeof want);
            fitted += wf_ctx_stats(c).arena_bytes < whole;
        } else if (strstr(wf_error(c), "intermediate values")) {
            assert_int_equal(wf_error_status(c), WF_ERR_MEMORY);
            assert_non_null(strstr(wf_error(c), "the arena's peak, "));
            assert_non_null(strstr(wf_error(c), "test_recompute.c:"));
            refused++;
        }
        wf_error_clear(c);
        assert_int_equal(wf_ctx_close(c), WF_OK);
        wf_runtime_free(rt);
    }
    print_message("%zu limits met by computing again, %zu refused\n", fitted, refused);
    assert_true(fitted > 0 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text_in_text_out),
                                        cmocka_unit_test_prestate(less_and_less, NULL),
                                        cmocka_unit_test_prestate(less_and_less, "transformer"),
                                        cmocka_unit_test(limited) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
