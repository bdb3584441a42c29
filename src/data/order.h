/* order.h - the order of samples, without a list of it.
 *
 * The order of an epoch is a permutation of 0 .. n-1 that can be asked at any position at once: a Feistel network over
 * the smallest power of two that holds n, walked until it lands below n. So a run that is stopped and taken up again,
 * or split over ranks, needs a position, not a list of 60,000 numbers, and threads cannot change it.
 *
 *     wfi_order o = wfi_order_make(seed, epoch, n);
 *     for (int64_t i = 0; i < n; i++)
 *         use(wfi_order_at(&o, i));
 *
 * The values are part of what a saved run means: they never change. */
#ifndef WFI_DATA_ORDER_H
#define WFI_DATA_ORDER_H
#include <stdint.h>

#define WFI_ORDER_ROUNDS 12

typedef struct wfi_order {
    int64_t n;
    uint32_t left_bits, right_bits; /* 2^(left_bits + right_bits) >= n */
    uint32_t key[WFI_ORDER_ROUNDS];
} wfi_order;

/* n in 0 .. 2^47. */
wfi_order wfi_order_make(uint64_t seed, uint64_t epoch, int64_t n);

/* position in 0 .. n-1; a bijection onto 0 .. n-1. Other positions give -1. */
int64_t wfi_order_at(const wfi_order *o, int64_t position);

/* An even draw from 0 .. n-1 (with repeats, unlike the above) that depends on these three numbers alone. n >= 1. */
int64_t wfi_order_draw(uint64_t seed, uint64_t epoch, int64_t position, int64_t n);

/* Philox4x32-10 (Salmon et al., SC 2011): four words from a key and a counter. */
void wfi_order_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

#endif
