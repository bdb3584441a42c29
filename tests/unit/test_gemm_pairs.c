/* The bf16 product with dot products of pairs. Its instruction in plain C, compiled here with the compiler's own
 * vectors: bit for bit the order stated in gemm_pairs.c, on every machine. The real one against the same reference
 * where the CPU has AVX512_BF16, so that hardware which rounds in another way is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#define WFI_PAIRS_EMULATED 1
#include "kernel/gemm/gemm_pairs.c"

#include "gemm_bf16.h"

static float reference(const uint16_t *a, int64_t sa, const uint16_t *b, int64_t sb, int64_t k)
{
    float c = 0;
    for (int64_t p = 0; p < k; p++)
        c = zeroed(__builtin_fmaf(up(a[p * sa]), up(b[p * sb]), c));
    return k % 2 ? c + 0.0f : c;
}

static const wfi_gemm_kernels *real(void) /* NULL: not on this CPU */
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16"))
        return &wfi_gemm_pairs;
#endif
    return NULL;
}
static const wfi_gemm_kernels *real_or_skip(void)
{
    if (!real()) {
        print_message("no AVX512_BF16 on this CPU: skipped\n");
        skip();
    }
    return real();
}

static void emulated(void **state)
{
    (void)state;
    all_shapes(&wfi_gemm_pairs_emulated, reference);
}
static void hardware(void **state)
{
    (void)state;
    all_shapes(real_or_skip(), reference);
    /* tiles of every height and width, masked ones too; k around whole vectors of pairs */
    for (int64_t m = 8; m <= 24; m++) {
        int64_t n = 8 + m * 7 % 100, k = 16 + 3 * m;
        check(real(), reference, true, m, n, k, (layout){ k, 1, n, 1, n, 1 }, WF_BF16, 1, 1);
    }
    for (int64_t k = 16; k <= 100; k++)
        check(real(), reference, true, 16, 8 + k, k, (layout){ 1, 16, 1, k, 8 + k, 1 }, WF_F32, 1, 1);
}

/* c[3, m, n] = a[3, m, k] b[k, n], b repeated; an infinity and a NaN in a. */
static void batch_of(const wfi_gemm_kernels *gemm)
{
    enum { B = 3, M = 19, N = 53, K = 77 };
    static uint16_t a[B * M * K], b[K * N];
    static float c[B * M * N];
    for (int i = 0; i < B * M * K; i++)
        a[i] = value(0);
    for (int i = 0; i < K * N; i++)
        b[i] = value(0) | 1; /* never 0 */
    a[5 * K + K - 1] = 0x7f80, a[7 * K + 3] = 0x7fc0;
    wfi_view va = { WF_BF16, 3, { B, M, K }, { M * K, K, 1 } }, vb = { WF_BF16, 3, { B, K, N }, { 0, N, 1 } };
    wfi_view vc = { WF_F32, 3, { B, M, N }, { M * N, N, 1 } };
    for (int threads = 1; threads <= 3; threads++) {
        run_product(gemm, &va, &vb, &vc, threads, (void *[]){ c, a, b });
        for (int i = 0; i < B * M * N; i++) {
            float want = reference(a + i / N * K, 1, b + i % N, N, K);
            if (want != want)
                assert_true(c[i] != c[i]);
            else
                assert_memory_equal(&c[i], &want, 4);
        }
    }
}
static void batches(void **state)
{
    (void)state;
    batch_of(&wfi_gemm_pairs_emulated);
    if (real())
        batch_of(real());
}

/* |c - exact| <= (k + 1) 2^-24 sum |a b| + (k + 1) 2^-126: one rounding a product, tiny values dropped. */
static void near_f64_of(const wfi_gemm_kernels *gemm, int kind)
{
    enum { M = 33, N = 70, K = 301 };
    static uint16_t a[M * K], b[K * N];
    static float c[M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = value(kind);
    for (int i = 0; i < K * N; i++)
        b[i] = value(kind);
    wfi_view va = { WF_BF16, 2, { M, K }, { K, 1 } }, vb = { WF_BF16, 2, { K, N }, { N, 1 } };
    wfi_view vc = { WF_F32, 2, { M, N }, { N, 1 } };
    run_product(gemm, &va, &vb, &vc, 1, (void *[]){ c, a, b });
    for (int i = 0; i < M * N; i++) {
        double sum = 0, size = 0;
        for (int p = 0; p < K; p++) {
            double x = (double)wfi_bf16_wide(a[i / N * K + p]) * (double)wfi_bf16_wide(b[p * N + i % N]);
            sum += x, size += fabs(x);
        }
        assert_true(fabs((double)c[i] - sum) <= (K + 1) * (0x1p-24 * size + 0x1p-126));
    }
}
static void near_f64(void **state)
{
    (void)state;
    near_f64_of(&wfi_gemm_pairs_emulated, 0);
    if (real())
        near_f64_of(real(), 0);
}

/* Where nothing is tiny the bits are those of the chain of the other instruction sets. */
static void same_as_chain(void **state)
{
    (void)state;
    const wfi_gemm_kernels *pairs = real_or_skip();
#if defined __x86_64__
    enum { M = 50, N = 130, K = 333 };
    static uint16_t a[M * K], b[K * N];
    static float c[2][M * N];
    for (int i = 0; i < M * K; i++)
        a[i] = value(0);
    for (int i = 0; i < K * N; i++)
        b[i] = value(0);
    wfi_view va = { WF_BF16, 2, { M, K }, { K, 1 } }, vb = { WF_BF16, 2, { K, N }, { N, 1 } };
    wfi_view vc = { WF_F32, 2, { M, N }, { N, 1 } };
    run_product(pairs, &va, &vb, &vc, 1, (void *[]){ c[0], a, b });
    run_product(&wfi_gemm_avx512, &va, &vb, &vc, 1, (void *[]){ c[1], a, b });
    assert_memory_equal(c[0], c[1], sizeof c[0]);
#else
    (void)pairs;
#endif
}
static void declines(void **state)
{
    (void)state;
    wfi_view a = { WF_BF16, 2, { 64, 64 }, { 64, 1 } }, b = { WF_BF16, 2, { 64, 64 }, { 64, 1 } };
    wfi_view c = { WF_F32, 2, { 64, 64 }, { 64, 1 } };
    const wfi_gemm_kernels *pairs = &wfi_gemm_pairs_emulated;
    wfi_gemm g;
    size_t scratch;
    assert_null(pairs->prepare(&a, &b, &c, 1, &g, &scratch));
    a.dim[0] = c.dim[0] = 7;
    assert_string_equal(pairs->prepare(&a, &b, &c, 1, &g, &scratch), "too small for pairs");
    a.dim[0] = c.dim[0] = 8, a.dim[1] = b.dim[0] = 15;
    assert_string_equal(pairs->prepare(&a, &b, &c, 1, &g, &scratch), "too small for pairs");
    a.dtype = b.dtype = WF_F16;
    assert_non_null(pairs->prepare(&a, &b, &c, 1, &g, &scratch));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(emulated), cmocka_unit_test(hardware),      cmocka_unit_test(batches),
        cmocka_unit_test(near_f64), cmocka_unit_test(same_as_chain), cmocka_unit_test(declines),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
