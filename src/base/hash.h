/* hash.h - hashing for tables (64 bits) and for content that names things (128 bits).
 *
 * Both read bytes in little-endian order, so that a hash on disk means the same everywhere. Neither resists an
 * attacker: what is loaded from outside is verified, not trusted by its hash. */
#ifndef WFI_BASE_HASH_H
#define WFI_BASE_HASH_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Odd constants: fractional bits of the square roots of small primes. */
#define WFI_HASH_A 0x6a09e667f3bcc909u /* 2 */
#define WFI_HASH_B 0xbb67ae8584caa73bu /* 3 */
#define WFI_HASH_C 0x3c6ef372fe94f82bu /* 5 */
#define WFI_HASH_D 0xa54ff53a5f1d36f1u /* 7 */

static inline uint64_t wfi_hash_rotate(uint64_t x, int k)
{
    return x << k | x >> (64 - k);
}

/* The two halves of a * b, folded. */
static inline uint64_t wfi_hash_mum(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 p = (unsigned __int128)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* n <= 8 bytes as a number. */
static inline uint64_t wfi_hash_read(const unsigned char *p, size_t n)
{
    uint64_t v = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    memcpy(&v, p, n);
#else
    for (size_t i = 0; i < n; i++)
        v |= (uint64_t)p[i] << 8 * i;
#endif
    return v;
}

/* Mixes one number into a running hash. */
static inline uint64_t wfi_hash_mix(uint64_t h, uint64_t v)
{
    return wfi_hash_mum(h ^ WFI_HASH_A, v ^ WFI_HASH_B) + wfi_hash_rotate(h, 23);
}

static inline uint64_t wfi_hash64(const void *data, size_t bytes, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = wfi_hash_mum(seed ^ WFI_HASH_C, (uint64_t)bytes ^ WFI_HASH_D);
    size_t n = bytes;
    for (; n > 16; n -= 16, p += 16)
        h = wfi_hash_mum(wfi_hash_read(p, 8) ^ WFI_HASH_A, wfi_hash_read(p + 8, 8) ^ h) + WFI_HASH_C;
    size_t low = n < 8 ? n : 8;
    if (n) /* data may be NULL otherwise */
        h = wfi_hash_mum(wfi_hash_read(p, low) ^ WFI_HASH_B, wfi_hash_read(p + low, n - low) ^ h);
    return wfi_hash_mum(h ^ WFI_HASH_D, WFI_HASH_A);
}

static inline uint64_t wfi_hash_str(const char *s, uint64_t seed)
{
    return wfi_hash64(s, strlen(s), seed);
}

/* 128 bits, fed piece by piece:
 *
 *     wfi_hash128 h = wfi_hash128_start(0);
 *     wfi_hash128_u64(&h, rank);
 *     wfi_hash128_bytes(&h, name, strlen(name));
 *     h = wfi_hash128_end(h);
 *
 * For every v the step is a bijection of the state, so equal states come only from equal histories or by chance. */
typedef struct wfi_hash128 {
    uint64_t a, b;
} wfi_hash128;

static inline wfi_hash128 wfi_hash128_start(uint64_t seed)
{
    return (wfi_hash128){ seed ^ WFI_HASH_A, wfi_hash_rotate(seed, 32) ^ WFI_HASH_B };
}

static inline void wfi_hash128_u64(wfi_hash128 *h, uint64_t v)
{
    h->a ^= wfi_hash_rotate(v * WFI_HASH_C, 31);
    h->a = wfi_hash_rotate(h->a, 27) * WFI_HASH_D + h->b;
    h->b ^= wfi_hash_rotate(v * WFI_HASH_B, 33);
    h->b = wfi_hash_rotate(h->b, 31) * WFI_HASH_A + h->a;
}

/* The length goes in first, so that "ab" "c" and "a" "bc" differ. */
static inline void wfi_hash128_bytes(wfi_hash128 *h, const void *data, size_t bytes)
{
    const unsigned char *p = data;
    wfi_hash128_u64(h, bytes);
    for (size_t n; bytes; bytes -= n, p += n) {
        n = bytes < 8 ? bytes : 8;
        wfi_hash128_u64(h, wfi_hash_read(p, n));
    }
}

static inline uint64_t wfi_hash_avalanche(uint64_t x)
{
    x ^= x >> 32;
    x *= WFI_HASH_B;
    x ^= x >> 29;
    x *= WFI_HASH_D;
    return x ^ x >> 32;
}

static inline wfi_hash128 wfi_hash128_end(wfi_hash128 h)
{
    h.a += h.b;
    h.b += h.a;
    h.a = wfi_hash_avalanche(h.a);
    h.b = wfi_hash_avalanche(h.b);
    h.a += h.b;
    h.b += h.a;
    return h;
}

static inline bool wfi_hash128_same(wfi_hash128 x, wfi_hash128 y)
{
    return x.a == y.a && x.b == y.b;
}

#endif
