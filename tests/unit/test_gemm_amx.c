/* The AMX product, its tile instructions emulated: bit for bit the order that the manual states. Twice: with the vector
 * packing of the library (where the CPU has AVX-512), and compiled here without it. On a machine with AMX the real one
 * is held against the same reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#define WFI_AMX_EMULATED 1
#define NAME             plain_emulated
#include "kernel/gemm/gemm_amx.c"

#include "gemm_bf16.h"

#if defined __x86_64__
extern const wfi_gemm_kernels wfi_gemm_amx_emulated;
#endif

/* -- the manual, once more and without tiles ----------------------------------------------------------------------- */
static float reference(const uint16_t *a, int64_t sa, const uint16_t *b, int64_t sb, int64_t k)
{
    float total = 0;
    for (int64_t from = 0; from < k; from += 256) {
        float c = 0;
        for (int64_t p = from; p < k && p < from + 256; p += 32) {
            float sum[2] = { 0, 0 };
            for (int64_t q = p; q < p + 32; q++) {
                float x = q < k ? up(a[q * sa]) : 0, y = q < k ? up(b[q * sb]) : 0;
                sum[q & 1] = zeroed(__builtin_fmaf(x, y, sum[q & 1]));
            }
            c = zeroed(c + zeroed(sum[0] + sum[1]));
        }
        total = from ? total + c : c;
    }
    return total;
}

static void without_vectors(void **state)
{
    (void)state;
    all_shapes(&plain_emulated, reference);
}
static void with_vectors(void **state)
{
    (void)state;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        all_shapes(&wfi_gemm_amx_emulated, reference);
        return;
    }
#endif
    print_message("no avx512 on this CPU: skipped\n");
    skip();
}
static void real_tiles(void **state)
{
    (void)state;
#if defined __x86_64__
    if (wfi_gemm_amx_permit()) {
        check(&wfi_gemm_amx, reference, false, 70, 90, 200, (layout){ 200, 1, 90, 1, 90, 1 }, WF_F32, 1, 0);
        check(&wfi_gemm_amx, reference, false, 300, 1100, 2100, (layout){ 1, 300, 1, 2100, 1100, 1 }, WF_F32, 2, 0);
        return;
    }
#endif
    print_message("no AMX on this machine: skipped\n");
    skip();
}
static void declines(void **state)
{
    (void)state;
    wfi_view a = { WF_BF16, 2, { 4, 64 }, { 64, 1 } }, b = { WF_BF16, 2, { 64, 64 }, { 64, 1 } };
    wfi_view c = { WF_F32, 2, { 4, 64 }, { 64, 1 } };
    wfi_gemm g;
    size_t scratch;
    assert_non_null(plain_emulated.prepare(&a, &b, &c, 1, &g, &scratch));
    a.dim[0] = c.dim[0] = 16;
    assert_null(plain_emulated.prepare(&a, &b, &c, 1, &g, &scratch));
    a.dtype = b.dtype = WF_F16;
    assert_non_null(plain_emulated.prepare(&a, &b, &c, 1, &g, &scratch));
    assert_string_equal(plain_emulated.order, "amx pairs");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_vectors),
        cmocka_unit_test(with_vectors),
        cmocka_unit_test(real_tiles),
        cmocka_unit_test(declines),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
