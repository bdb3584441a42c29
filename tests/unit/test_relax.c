/* The contract `fast`: graph text in, graph text out; which calls it holds for; results within the stated bounds of
 * the exact ones, the same for any number of threads; strict calls beside it keep their bits; a plan lists what was
 * taken. */
#include <math.h>
#include "pass_text.h"
#include "passes/relax.h"
#include "passes/simplify.h"

#define LEAVES "v0 = input 0 : bf16[8,4]\nv1 = input 1 : f32[8,4]\nv2 = input 2 : f32[8,1]\n"

static const pass_text texts[] = {
    { "a chain is rounded at its end", LEAVES "v3 = add v0 v0 : bf16[8,4]\nv4 = tanh v3 : bf16[8,4]\nresult 4 v4\n",
      "v0 = input 0 : bf16[8,4]\nv1 = cast v0 dtype=f32 : f32[8,4]\nv2 = add v1 v1 : f32[8,4]\n"
      "v3 = tanh v2 : f32[8,4]\nv4 = cast v3 dtype=bf16 : bf16[8,4]\nresult 4 v4\n" },
    { "what leaves in between is rounded, what follows is not",
      LEAVES "v3 = neg v0 : bf16[8,4]\nv4 = exp v3 : bf16[8,4]\nv5 = cast v4 dtype=f32 : f32[8,4]\nresult 4 v4\n"
             "result 5 v5\n",
      "v0 = input 0 : bf16[8,4]\nv1 = cast v0 dtype=f32 : f32[8,4]\nv2 = neg v1 : f32[8,4]\nv3 = exp v2 : f32[8,4]\n"
      "v4 = cast v3 dtype=bf16 : bf16[8,4]\nresult 4 v4\nresult 5 v3\n" },
    { "a choice, and a comparison", LEAVES "v3 = gt v0 v0 : bool[8,4]\nv4 = where v3 v0 v0 : bf16[8,4]\nresult 4 v4\n",
      "v0 = input 0 : bf16[8,4]\nv1 = cast v0 dtype=f32 : f32[8,4]\nv2 = gt v1 v1 : bool[8,4]\n"
      "v3 = where v2 v1 v1 : f32[8,4]\nv4 = cast v3 dtype=bf16 : bf16[8,4]\nresult 4 v4\n" },
    { "division by what is broadcast",
      LEAVES "v3 = div v1 v2 : f32[8,4]\nv4 = div v1 v1 : f32[8,4]\nresult 4 v3\nresult 5 v4\n",
      "v0 = input 1 : f32[8,4]\nv1 = input 2 : f32[8,1]\nv2 = reciprocal v1 : f32[8,1]\nv3 = mul v0 v2 : f32[8,4]\n"
      "v4 = div v0 v0 : f32[8,4]\nresult 4 v3\nresult 5 v4\n" },
    { "sums and f32 stay", LEAVES "v3 = exp v1 : f32[8,4]\nv4 = sum v3 axes=[1] keep=true : f32[8,1]\nresult 4 v4\n",
      "v0 = input 1 : f32[8,4]\nv1 = exp v0 : f32[8,4]\nv2 = sum v1 axes=[1] keep=true : f32[8,1]\nresult 4 v2\n" },
};

static bool relaxed(const wfi_graph *g, wfi_graph *out)
{
    wfi_graph wide, copy = *g; /* as if all of it had been recorded under fast */
    for (size_t k = 0; k < g->nnode; k++)
        copy.node[k].flags |= WFI_NODE_FAST;
    wfi_graph_init(&wide, g->mem, g->ids);
    bool ok = wfi_relax(&copy, &wide) && wfi_simplify(&wide, out);
    wfi_graph_free(&wide);
    return ok;
}

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pass(&texts[i], relaxed);
}

/* ---- whole steps ---- */

enum { N = 3000 };
static uint16_t numbers[N];

/* The numbers are exact in bf16. *size: of what is added last, which errors are measured by. */
static double exact(double x, double *size)
{
    const double a = tanh(x * 1.25 + x * x) * exp(-x), b = x * 0.375;
    *size = fabs(a) + fabs(b) + 0.05;
    return a + b;
}

/* Two results of the same calls: the first under `contract`, the second strict. */
static void step(wf_ctx *c, wf_contract contract, uint16_t *first, uint16_t *second)
{
    wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
    wf_tensor *x = wf_tensor_from(c, WF_BF16, WF_DIMS(N), numbers), *y[2];
    for (int i = 0; i < 2; i++) {
        wf_scope in = wf_scope_begin(c, "part");
        wf_set_contract(c, i ? WF_STRICT : contract);
        wf_tensor *t = wf_tanh(wf_add(wf_mul(x, wf_scalar(c, 1.25)), wf_mul(x, x)));
        y[i] = wf_add(wf_mul(t, wf_exp(wf_neg(x))), wf_mul(x, wf_scalar(c, 0.375)));
        wf_scope_return(c, in, y[i]);
        wf_scope_end(c, in);
        wf_scope_return(c, s, y[i]);
    }
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    assert_int_equal(wf_read(c, y[0], first, N * sizeof *first), WF_OK);
    assert_int_equal(wf_read(c, y[1], second, N * sizeof *second), WF_OK);
    wf_scope_end(c, around);
}

static double worst(const uint16_t *y)
{
    double most = 0;
    for (int i = 0; i < N; i++) {
        double size, want = exact(wfi_dtype_load(WF_BF16, numbers, i), &size);
        double off = fabs(wfi_dtype_load(WF_BF16, y, i) - want) / size;
        most = off > most ? off : most;
    }
    return most;
}

static void within_bounds(void **state)
{
    (void)state;
    static uint16_t strict[2][N], fast[2][N], threads[2][N];
    for (int i = 0; i < N; i++)
        wfi_dtype_store(WF_BF16, numbers, i, (i * 7919 % N) * (4.0 / N) - 2);
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 1 });
    for (int i = 0; i < 3; i++)
        step(c, WF_STRICT, strict[0], strict[1]);
    assert_null(strstr(wf_explain_plan(c), "freedoms"));
    assert_memory_equal(strict[0], strict[1], sizeof strict[0]);
    for (int i = 0; i < 3; i++)
        step(c, WF_FAST, fast[0], fast[1]);
    const char *report = wf_explain_plan(c);
    assert_non_null(strstr(report, "freedoms of the contract fast:\n  add: unrounded, 16-bit values stay f32 between"));
    assert_non_null(strstr(wf_explain_plan(c, .json = true), "\"freedoms\":[{\"what\":\"unrounded\""));
    assert_memory_equal(fast[1], strict[1], sizeof fast[1]); /* the strict part keeps its bits */
    assert_int_equal(wf_ctx_close(c), WF_OK);
    c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 3 });
    for (int i = 0; i < 3; i++)
        step(c, WF_FAST, threads[0], threads[1]);
    assert_memory_equal(threads, fast, sizeof fast);
    assert_int_equal(wf_ctx_close(c), WF_OK);
    printf("largest error of 7 operators on bf16: strict %.2g, fast %.2g\n", worst(strict[0]), worst(fast[0]));
    assert_true(worst(fast[0]) < 0x1p-8); /* one rounding */
    assert_true(worst(strict[0]) > 0x1p-8 && worst(strict[0]) < 0.05);
}

/* A scope that ends takes its contract with it; a step begins with that of its context. */
static void where_it_holds(void **state)
{
    (void)state;
    uint16_t a[N], b[N], c_[N], d[N];
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 1 });
    assert_int_equal(wf_set_contract(c, WF_FAST), WF_OK);
    for (int i = 0; i < 3; i++)
        step(c, WF_FAST, a, b);
    wf_scope s = wf_scope_begin(c, "strict", .group = true);
    assert_int_equal(wf_set_contract(c, WF_STRICT), WF_OK);
    for (int i = 0; i < 3; i++)
        step(c, WF_STRICT, c_, d);
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    assert_memory_equal(b, d, sizeof b);
    assert_memory_equal(c_, d, sizeof d);
    assert_true(memcmp(a, b, sizeof a) != 0);
    assert_int_equal(wf_set_contract(c, (wf_contract)7), WF_ERR_ARG);
    assert_string_equal(wf_error(c), "wf_set_contract: 7 is no contract");
    wf_error_clear(c);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text_in_text_out), cmocka_unit_test(within_bounds),
                                        cmocka_unit_test(where_it_holds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
