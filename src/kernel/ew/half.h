/* half.h - arrays of bf16 and f16 to and from f32. Widening is exact, narrowing rounds to the nearest, ties to even;
 * what is too large becomes an infinity, NaN stays NaN. */
#ifndef WFI_KERNEL_EW_HALF_H
#define WFI_KERNEL_EW_HALF_H
#include <stdint.h>
#include "kernel/isa.h"
#ifdef __F16C__
#include <immintrin.h>
#endif
#include "kernel/vmath_f32.h"

WFI_INLINE float wfi_half_of_bf16(uint16_t h)
{
    return wfi_of_bits_f32((uint32_t)h << 16);
}
/* The bits of f rounded to bf16 are the upper half of these. */
WFI_INLINE uint32_t wfi_half_bits_bf16(float f)
{
    uint32_t u = wfi_bits_f32(f), r = u + 0x7fffu + (u >> 16 & 1u);
    uint32_t nan = 0u - (uint32_t)((u & 0x7fffffffu) > 0x7f800000u);
    return (nan & (u | 0x400000u)) | (~nan & r);
}
WFI_INLINE uint16_t wfi_half_to_bf16(float f)
{
    return (uint16_t)(wfi_half_bits_bf16(f) >> 16);
}

/* In integers and one float addition or subtraction, which makes and normalises the subnormals. */
WFI_INLINE float wfi_half_of_f16(uint16_t h)
{
    uint32_t u = (uint32_t)(h & 0x7fffu) << 13, e = u & 0x0f800000u, sign = (uint32_t)(h & 0x8000u) << 16;
    uint32_t big = 0u - (uint32_t)(e == 0x0f800000u), small = 0u - (uint32_t)(e == 0);
    uint32_t normal = u + (112u << 23) + (big & (112u << 23));
    uint32_t sub = wfi_bits_f32(wfi_of_bits_f32(u + (113u << 23)) - wfi_of_bits_f32(113u << 23));
    return wfi_of_bits_f32((small & sub) | (~small & normal) | sign);
}
WFI_INLINE uint16_t wfi_half_to_f16(float f)
{
    uint32_t u = wfi_bits_f32(f), sign = u >> 16 & 0x8000u;
    u &= 0x7fffffffu;
    uint32_t r = (u - (112u << 23) + 0xfffu + (u >> 13 & 1u)) >> 13;
    uint32_t sub = wfi_bits_f32(wfi_of_bits_f32(u) + 0.5f) - 0x3f000000u;
    uint32_t small = 0u - (uint32_t)(u < (113u << 23)), big = 0u - (uint32_t)(u >= 0x477ff000u);
    r = (small & sub) | (~small & r);
    r = (big & (u > 0x7f800000u ? 0x7e00u : 0x7c00u)) | (~big & r);
    return (uint16_t)(sign | r);
}

WFI_INLINE void wfi_half_widen_bf16(float *restrict y, const uint16_t *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = wfi_half_of_bf16(x[i]);
    }
}
WFI_INLINE void wfi_half_narrow_bf16(uint16_t *restrict y, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        y[i] = wfi_half_to_bf16(x[i]);
    }
}
WFI_INLINE void wfi_half_widen_f16(float *restrict y, const uint16_t *restrict x, int64_t n)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(x + i))));
    }
#endif
    for (; i < n; i++) {
        y[i] = wfi_half_of_f16(x[i]);
    }
}
WFI_INLINE void wfi_half_narrow_f16(uint16_t *restrict y, const float *restrict x, int64_t n)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128((__m128i *)(void *)(y + i), _mm256_cvtps_ph(_mm256_loadu_ps(x + i), 0));
    }
#endif
    for (; i < n; i++) {
        y[i] = wfi_half_to_f16(x[i]);
    }
}

#endif
