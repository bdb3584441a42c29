/* The order of samples: a permutation for every n, the same for ever, and well mixed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "data/order.h"

static void check_bijection(uint64_t seed, uint64_t epoch, int64_t n)
{
    wfi_order o = wfi_order_make(seed, epoch, n);
    uint8_t *seen = calloc((size_t)n + 1, 1);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = wfi_order_at(&o, i);
        assert_true(k >= 0 && k < n);
        assert_int_equal(seen[k]++, 0);
    }
    assert_int_equal(wfi_order_at(&o, n), -1);
    assert_int_equal(wfi_order_at(&o, -1), -1);
    free(seen);
}

static void bijection(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 300; n++)
        check_bijection(7, (uint64_t)n, n);
    for (int bits = 9; bits <= 17; bits++)
        for (int64_t d = -1; d <= 1; d++)
            check_bijection(0, 3, ((int64_t)1 << bits) + d);
    check_bijection(UINT64_MAX, UINT64_MAX, 60000);
    check_bijection(1, 0, 1000003);
}

/* Philox4x32-10, the known answers of Random123's kat_vectors. */
static void philox(void **state)
{
    static const struct {
        uint64_t key;
        uint32_t counter[4], want[4];
    } known[] = {
        { 0, { 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { UINT64_MAX,
          { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { 0x299f31d0a4093822,
          { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t out[4];
        wfi_order_philox(known[i].key, known[i].counter, out);
        assert_memory_equal(out, known[i].want, sizeof out);
    }
}

/* A saved run names its place by these numbers: they must never change. */
static void golden(void **state)
{
    static const int64_t shuffled[8] = { 14393, 1927, 17539, 56073, 57097, 39764, 26260, 17907 };
    static const int64_t next_epoch[8] = { 14296, 47773, 39235, 23195, 47843, 36652, 5146, 43898 };
    static const int64_t drawn[4] = { 2968569, 2916871, 3956050, 3097668 };
    wfi_order a = wfi_order_make(0, 0, 60000), b = wfi_order_make(0, 1, 60000);
    (void)state;
    for (int64_t i = 0; i < 8; i++) {
        assert_int_equal(wfi_order_at(&a, i), shuffled[i]);
        assert_int_equal(wfi_order_at(&b, i), next_epoch[i]);
    }
    for (int64_t i = 0; i < 4; i++)
        assert_int_equal(wfi_order_draw(1, 2, i, 4000000), drawn[i]);
}

/* Where sample 0..n-1 stands is even over positions, for many seeds: chi-square over n*n cells, whose mean is n(n-1)
 * and whose deviation is sqrt(2) n, at 6 sigma. */
static void check_even(int64_t n, int trials)
{
    int *count = calloc((size_t)(n * n), sizeof *count);
    for (int t = 0; t < trials; t++) {
        wfi_order o = wfi_order_make((uint64_t)t, (uint64_t)t * 3, n);
        for (int64_t i = 0; i < n; i++)
            count[i * n + wfi_order_at(&o, i)]++;
    }
    double want = (double)trials / (double)n, chi = 0;
    for (int64_t i = 0; i < n * n; i++)
        chi += ((double)count[i] - want) * ((double)count[i] - want) / want;
    free(count);
    assert_true(chi < (double)(n * (n - 1)) + 6 * 1.4143 * (double)n);
}

/* All 24 orders of four samples are about as frequent. */
static void all_orders(void **state)
{
    int count[256] = { 0 };
    (void)state;
    for (uint64_t seed = 0; seed < 24000; seed++) {
        wfi_order o = wfi_order_make(seed, 0, 4);
        int64_t code = 0;
        for (int64_t i = 0; i < 4; i++)
            code = code * 4 + wfi_order_at(&o, i);
        count[code]++;
    }
    for (int i = 0; i < 256; i++)
        assert_true(count[i] == 0 || abs(count[i] - 1000) < 190);
}

static void even(void **state)
{
    (void)state;
    for (int64_t n = 2; n <= 20; n++)
        check_even(n, 4000);
    check_even(100, 20000);
}

/* Neighbours are torn apart: the mean distance of successive samples is n/3, as in a random order, and few stay
 * neighbours. Orders of two epochs, and of two seeds, have about one position in common. */
static void mixing(void **state)
{
    enum { N = 60000 };
    wfi_order a = wfi_order_make(5, 0, N), b = wfi_order_make(5, 1, N), c = wfi_order_make(6, 0, N);
    double distance = 0;
    int neighbours = 0, same_b = 0, same_c = 0, rises = 0;
    (void)state;
    for (int64_t i = 0; i + 1 < N; i++) {
        int64_t k = wfi_order_at(&a, i), next = wfi_order_at(&a, i + 1);
        distance += (double)llabs(next - k);
        neighbours += llabs(next - k) == 1;
        rises += next > k;
        same_b += k == wfi_order_at(&b, i);
        same_c += k == wfi_order_at(&c, i);
    }
    distance /= N - 1;
    assert_true(distance > N / 3.0 * 0.98 && distance < N / 3.0 * 1.02);
    assert_true(neighbours < 12 && same_b < 12 && same_c < 12);
    assert_true(abs(rises - N / 2) < 600);
}

/* Every batch has about as many samples of each tenth of the data as chance gives. */
static void batches(void **state)
{
    enum { N = 60000, B = 128 };
    wfi_order o = wfi_order_make(0, 0, N);
    int worst = 0;
    (void)state;
    for (int64_t first = 0; first + B <= N; first += B) {
        int tenth[10] = { 0 };
        for (int64_t i = 0; i < B; i++)
            tenth[wfi_order_at(&o, first + i) / (N / 10)]++;
        for (int t = 0; t < 10; t++)
            worst = tenth[t] > worst ? tenth[t] : worst;
    }
    assert_true(worst < 12.8 + 6 * 3.4);
}

static void draws(void **state)
{
    int count[10] = { 0 };
    (void)state;
    for (int64_t i = 0; i < 10000; i++) {
        int64_t k = wfi_order_draw(3, (uint64_t)i % 5, i, 10);
        assert_true(k >= 0 && k < 10);
        count[k]++;
        assert_int_equal(wfi_order_draw(3, 0, i, 1), 0);
    }
    for (int t = 0; t < 10; t++)
        assert_true(abs(count[t] - 1000) < 180);
    assert_true(wfi_order_draw(1, 0, 0, INT64_C(1) << 46) != wfi_order_draw(1, UINT64_C(1) << 32, 0, INT64_C(1) << 46));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bijection),  cmocka_unit_test(philox), cmocka_unit_test(golden),  cmocka_unit_test(even),
        cmocka_unit_test(all_orders), cmocka_unit_test(mixing), cmocka_unit_test(batches), cmocka_unit_test(draws),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
