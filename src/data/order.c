/* order.c - a permutation of 0 .. n-1 as a function: see order.h.
 *
 * Feistel networks permute 2^b numbers whatever their round function is; walking along the cycle until the value is
 * below n keeps it a permutation (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Less than
 * two steps on average, as 2^b < 2n; tiny n use 16 numbers, because halves of one bit mix badly. */
#include "data/order.h"
#include <string.h>

enum { MIN_BITS = 4 };
#define SALT_ORDER 0x6f726465u /* "orde", "draw": two uses of one seed never share a counter */
#define SALT_DRAW  0x64726177u

void wfi_order_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static uint32_t bits_for(int64_t n)
{
    uint32_t bits = MIN_BITS;
    while (bits < 62 && ((int64_t)1 << bits) < n)
        bits++;
    return bits;
}

wfi_order wfi_order_make(uint64_t seed, uint64_t epoch, int64_t n)
{
    wfi_order o = { .n = n };
    uint32_t bits = bits_for(n);
    o.left_bits = bits / 2;
    o.right_bits = bits - o.left_bits;
    for (uint32_t i = 0; i < WFI_ORDER_ROUNDS / 4; i++) {
        uint32_t counter[4] = { (uint32_t)epoch, (uint32_t)(epoch >> 32), i, SALT_ORDER };
        wfi_order_philox(seed, counter, o.key + 4 * i);
    }
    return o;
}

/* 32 well mixed bits of x under a round's key. (The finaliser is that of MurmurHash3.) */
static uint32_t mix(uint32_t x, uint32_t key)
{
    x = (x + key) * 0xD2511F53u;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

static uint64_t step(const wfi_order *o, uint64_t v)
{
    uint32_t left_mask = (1u << o->left_bits) - 1, right_mask = (1u << o->right_bits) - 1;
    uint32_t l = (uint32_t)(v >> o->right_bits), r = (uint32_t)v & right_mask;
    for (int i = 0; i < WFI_ORDER_ROUNDS; i += 2) {
        l ^= mix(r, o->key[i]) & left_mask;
        r ^= mix(l, o->key[i + 1]) & right_mask;
    }
    return (uint64_t)l << o->right_bits | r;
}

int64_t wfi_order_at(const wfi_order *o, int64_t position)
{
    uint64_t v = (uint64_t)position;
    if (v >= (uint64_t)o->n)
        return -1;
    do
        v = step(o, v);
    while (v >= (uint64_t)o->n);
    return (int64_t)v;
}

int64_t wfi_order_draw(uint64_t seed, uint64_t epoch, int64_t position, int64_t n)
{
    uint32_t w[4],
        counter[4] = { (uint32_t)epoch, (uint32_t)position, (uint32_t)((uint64_t)position >> 32), SALT_DRAW };
    wfi_order_philox(seed ^ (epoch >> 32) * 0x9E3779B97F4A7C15u, counter, w);
    uint64_t bits = (uint64_t)w[1] << 32 | w[0];
    /* high word of bits * n: the bias is below n / 2^64 */
    __extension__ typedef unsigned __int128 wide;
    return (int64_t)((wide)bits * (uint64_t)n >> 64);
}
