/* Products of f32 as they are asked for (.f32_products, WEFT_F32_PRODUCTS): the same bits eager, recorded, replayed and
 * with kept weights, for any number of threads; chains where numbers cannot be split; which kernel runs, and what is
 * wrong in a call. On machines without a tile unit both are chains. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "device/cpu/cpu.h"
#include "weft/weft.h"
#include "contexts.h"

enum { ROWS = 200, WIDTH = 128, HIDDEN = 160, STEPS = 4 };

static bool told_split;
static void listen(void *user, const char *topic, const char *text)
{
    (void)user, (void)topic;
    const char *taken = strstr(text, "-> "); /* -> cpu.gemm.bf16x3, not cpu.other: why */
    size_t n = taken ? strcspn(taken, ",\n") : 0;
    told_split |= n > 7 && !strncmp(taken + n - 7, ".bf16x3", 7);
}
static bool machine_splits(void)
{
#if defined __x86_64__
    return wfi_isa_best() == WFI_ISA_AMX;
#else
    return false;
#endif
}
static wf_ctx *open_ctx(wf_mode mode, int threads, wf_f32_products products)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){
        .mode = mode, .seed = 3, .threads = threads, .f32_products = products, .log = "dispatch", .log_fn = listen });
    assert_non_null(c);
    told_split = false;
    return c;
}
static float data[ROWS * WIDTH];
static void fill(void)
{
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = (float)((i * 7919 + 13) % 1009) / 505.0f - 1;
}

typedef wf_tensor *net_fn(wf_model *m, wf_ctx *c); /* a result as large as data */

static wf_tensor *products(wf_model *m, wf_ctx *c)
{
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, WIDTH), data);
    return wf_nn_linear(m, "out", wf_tanh(wf_nn_linear(m, "in", x, HIDDEN)), WIDTH);
}
static wf_tensor *convolutions(wf_model *m, wf_ctx *c)
{
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS * WIDTH / (32 * 10 * 16), 32, 10, 16), data);
    x = wf_tanh(wf_nn_conv2d(m, "in", x, 64, .kernel = 3, .pad = 1));
    return wf_nn_conv2d(m, "out", x, 32, .kernel = 3, .pad = 1);
}
/* Training steps, then the same net without gradients: what it gives each time. */
static void run(net_fn *net, wf_mode mode, int threads, wf_f32_products how, float *out)
{
    wf_ctx *c = open_ctx(mode, threads, how);
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 0.01);
    for (int i = 0; i < 2 * STEPS; i++) {
        wf_scope around = wf_scope_begin(c, "around", .group = true);
        wf_scope s = wf_scope_begin(c, i < STEPS ? "train" : "infer", .no_grad = i >= STEPS);
        wf_tensor *y = net(m, c);
        if (i < STEPS)
            wf_optim_step(opt, wf_mse(y, wf_mul(y, wf_scalar(c, 0.5))));
        wf_scope_return(c, s, y);
        if (wf_scope_end(c, s) != WF_OK)
            fail_msg("%s", wf_error(c));
        assert_int_equal(wf_read(c, y, out, sizeof data), WF_OK);
        out += ROWS * WIDTH;
        wf_scope_end(c, around);
    }
    assert_int_equal(told_split, how == WF_F32_BF16X3 && machine_splits());
    close_ctx(c);
}
static void same_bits(net_fn *net)
{
    static float want[2 * STEPS * ROWS * WIDTH], got[2 * STEPS * ROWS * WIDTH], chain[2 * STEPS * ROWS * WIDTH];
    fill();
    run(net, WF_EAGER, 1, WF_F32_BF16X3, want);
    for (int threads = 1; threads <= 3; threads++)
        for (int lazy = 0; lazy < 2; lazy++) {
            run(net, lazy ? WF_LAZY : WF_EAGER, threads, WF_F32_BF16X3, got);
            assert_memory_equal(got, want, sizeof want);
        }
    run(net, WF_EAGER, 1, WF_F32_FMA, chain);
    assert_int_equal(memcmp(chain, want, sizeof want) != 0, machine_splits());
}
static void same_bits_of_products(void **state)
{
    (void)state;
    same_bits(products);
}
static void same_bits_of_convolutions(void **state)
{
    (void)state;
    same_bits(convolutions);
}

static void product(wf_mode mode, wf_f32_products products, float *out)
{
    wf_ctx *c = open_ctx(mode, 2, products);
    wf_scope s = wf_scope_begin(c, "step");
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, WIDTH), data);
    assert_int_equal(wf_read(c, wf_matmul(a, wf_transpose(a)), out, ROWS * ROWS * sizeof *out), WF_OK);
    wf_scope_end(c, s);
    close_ctx(c);
}
static void chains_where_it_must(void **state)
{
    (void)state;
    static float want[ROWS * ROWS], got[ROWS * ROWS];
    static const float odd[] = { INFINITY, -0x1.8p100f, 0x1p-140f };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        fill();
        data[ROWS * WIDTH - 1] = odd[i];
        product(WF_EAGER, WF_F32_FMA, want);
        for (int lazy = 0; lazy < 2; lazy++) {
            product(lazy ? WF_LAZY : WF_EAGER, WF_F32_BF16X3, got);
            for (int k = 0; k < ROWS * ROWS; k++) /* all NaNs are one value */
                assert_true(!memcmp(&got[k], &want[k], sizeof *got) || (isnan(got[k]) && isnan(want[k])));
        }
    }
}

static void by_environment(void **state)
{
    (void)state;
    static float want[ROWS * ROWS], got[ROWS * ROWS];
    fill();
    product(WF_EAGER, WF_F32_BF16X3, want);
    assert_int_equal(setenv("WEFT_F32_PRODUCTS", "bf16x3", 1), 0);
    product(WF_EAGER, WF_F32_DEFAULT, got);
    assert_memory_equal(got, want, sizeof want);
    product(WF_EAGER, WF_F32_FMA, got);
    assert_int_equal(memcmp(got, want, sizeof want) != 0, machine_splits());
    setenv("WEFT_F32_PRODUCTS", "bf16", 1);
    wf_ctx *c = wf_ctx_new(NULL);
    assert_non_null(strstr(wf_error(c), "WEFT_F32_PRODUCTS is \"bf16\": fma or bf16x3 was expected"));
    wf_ctx_close(c);
    unsetenv("WEFT_F32_PRODUCTS");
    c = wf_ctx_new(&(wf_ctx_opts){ .f32_products = (wf_f32_products)7 });
    assert_non_null(strstr(wf_error(c), ".f32_products is 7"));
    wf_ctx_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits_of_products),
                                        cmocka_unit_test(same_bits_of_convolutions),
                                        cmocka_unit_test(chains_where_it_must), cmocka_unit_test(by_environment) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
