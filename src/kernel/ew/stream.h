/* stream.h - stores that go past the caches: for results that are larger than the caches and not read soon. They save
 * the read that an ordinary store does first, a third of the traffic of a copy. */
#ifndef WFI_KERNEL_EW_STREAM_H
#define WFI_KERNEL_EW_STREAM_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif
#include "kernel/isa.h"

#define WFI_STREAM_RESULT ((int64_t)8 << 20)  /* bytes of a result from which on it may stream, and ... */
#define WFI_STREAM_ALL    ((int64_t)24 << 20) /* ... of all operands together */

WFI_INLINE bool wfi_stream_aligned(const void *p)
{
    return ((uintptr_t)p & 63) == 0;
}

/* y aligned to 64 bytes */
WFI_INLINE void wfi_stream_out(void *y, const void *x, int64_t bytes)
{
    char *to = y;
    const char *from = x;
    int64_t i = 0;
#if defined __AVX512F__
    for (; i + 64 <= bytes; i += 64)
        _mm512_stream_si512((__m512i *)(void *)(to + i), _mm512_loadu_si512(from + i));
#elif defined __AVX2__
    for (; i + 32 <= bytes; i += 32)
        _mm256_stream_si256((__m256i *)(void *)(to + i), _mm256_loadu_si256((const __m256i *)(const void *)(from + i)));
#elif defined __SSE2__
    for (; i + 16 <= bytes; i += 16)
        _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
#endif
    if (i < bytes)
        memcpy(to + i, from + i, (size_t)(bytes - i));
}

/* Before another thread may read what was streamed. */
WFI_INLINE void wfi_stream_end(void)
{
#ifdef __SSE2__
    _mm_sfence();
#endif
}

#endif
