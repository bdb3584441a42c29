/* The tile kernel, its instructions emulated: packing, edges, batches and threads against the order that gemm_amx.c
 * states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/dtype.h"
#include "kernel/gemm/gemm.h"

#if defined __x86_64__
static uint64_t seed = 20261130;

static float draw(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (float)((double)(seed >> 33) / (1u << 30) - 1.0);
}

static float flush(float x)
{
    return x < 0x1p-126f && x > -0x1p-126f ? 0.0f : x;
}

/* One element in the order class `amx pairs`. */
static float element(const uint16_t *a, int64_t ak, const uint16_t *b, int64_t bk, int64_t k)
{
    float c = 0;
    for (int64_t at = 0; at < k; at += 32) {
        float part[2] = { 0, 0 };
        for (int64_t q = at; q < at + 32 && q < k; q++)
            part[q % 2] = flush(
                __builtin_fmaf(flush(wfi_bf16_to_f32(a[q * ak])), flush(wfi_bf16_to_f32(b[q * bk])), part[q % 2]));
        c = flush(c + flush(part[0] + part[1]));
    }
    return c;
}

static void one(int64_t m, int64_t n, int64_t k, bool ta, bool tb, int threads)
{
    enum { BATCH = 2 };
    uint16_t *a = malloc((size_t)(BATCH * m * k) * 2), *b = malloc((size_t)(k * n) * 2);
    float *c = malloc((size_t)(BATCH * m * n) * 4);
    for (int64_t i = 0; i < BATCH * m * k; i++)
        a[i] = wfi_f32_to_bf16(draw());
    for (int64_t i = 0; i < k * n; i++)
        b[i] = wfi_f32_to_bf16(draw());
    wfi_view va = { WF_BF16, 3, { BATCH, m, k }, { m * k, ta ? 1 : k, ta ? m : 1 } };
    wfi_view vb = { WF_BF16, 3, { BATCH, k, n }, { 0, tb ? 1 : n, tb ? k : 1 } };
    wfi_view vc = { WF_F32, 3, { BATCH, m, n }, { m * n, n, 1 } };
    wfi_gemm g;
    size_t bytes;
    assert_null(wfi_gemm_amx_emulated.prepare(&va, &vb, &vc, threads, &g, &bytes));
    wfi_mem mem;
    wfi_mem_init(&mem, NULL, NULL, 0);
    wfi_fault fault = { 0 };
    wfi_pool *pool = wfi_pool_new(&mem, threads);
    void *scratch = wfi_mem_alloc(&mem, bytes);
    wfi_run run = { .pool = pool, .scratch = scratch, .fault = &fault };
    wfi_gemm_amx_emulated.run(&g, (void *[]){ c, a, b }, &run);
    for (int64_t i = 0; i < BATCH * m * n; i++) {
        int64_t col = i % n, row = i / n % m, at = i / n / m;
        float want =
            element(a + at * m * k + row * va.stride[1], va.stride[2], b + col * vb.stride[2], vb.stride[1], k);
        assert_memory_equal(&want, &c[i], sizeof want);
    }
    wfi_mem_free(&mem, scratch);
    wfi_pool_free(pool);
    assert_int_equal(atomic_load(&mem.live), 0);
    free(a);
    free(b);
    free(c);
}

static void edges(void **state)
{
    static const int64_t size[][3] = {
        { 16, 16, 32 }, { 33, 17, 33 }, { 47, 65, 70 }, { 300, 40, 64 }, { 31, 100, 129 }
    };
    (void)state;
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (int t = 0; t < 4; t++)
            one(size[i][0], size[i][1], size[i][2], t & 1, t & 2, 1 + (int)(i % 3));
}

static void declines(void **state)
{
    (void)state;
    wfi_view v = { WF_F32, 2, { 32, 32 }, { 32, 1 } }, h = { WF_BF16, 2, { 8, 8 }, { 8, 1 } };
    wfi_gemm g;
    size_t bytes;
    assert_non_null(wfi_gemm_amx_emulated.prepare(&v, &v, &v, 1, &g, &bytes));
    assert_non_null(wfi_gemm_amx_emulated.prepare(&h, &h, &h, 1, &g, &bytes));
}
#endif

int main(void)
{
#if defined __x86_64__
    const struct CMUnitTest tests[] = { cmocka_unit_test(edges), cmocka_unit_test(declines) };
    return cmocka_run_group_tests(tests, NULL, NULL);
#else
    return 0;
#endif
}
