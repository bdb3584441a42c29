/* narrow.h - bf16 and f16 to and from f32: exact one way, round to nearest even the other. NaN stays NaN. */
#ifndef WFI_KERNEL_CONV_NARROW_H
#define WFI_KERNEL_CONV_NARROW_H
#include <stdint.h>
#include <string.h>
#include "kernel/isa.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

WFI_INLINE uint32_t narrow_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

WFI_INLINE float narrow_float(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}

WFI_INLINE float widen_bf16(uint16_t h)
{
    return narrow_float((uint32_t)h << 16);
}

WFI_INLINE uint16_t narrow_bf16(float f)
{
    uint32_t u = narrow_bits(f);
    uint32_t r = (u + 0x7fff + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16 | 0x40) : r);
}

WFI_INLINE float widen_f16(uint16_t h)
{
#ifdef __F16C__
    return _cvtsh_ss(h);
#else
    uint32_t u = (uint32_t)(h & 0x7fff) << 13, e = u & 0x0f800000;
    u += 112u << 23;
    if (e == 0x0f800000) {
        u += 112u << 23; /* infinity and NaN */
    } else if (e == 0) {
        u = narrow_bits(narrow_float(u + (1u << 23)) - narrow_float(113u << 23)); /* subnormal */
    }
    return narrow_float(u | (uint32_t)(h & 0x8000) << 16);
#endif
}

WFI_INLINE uint16_t narrow_f16(float f)
{
#ifdef __F16C__
    return _cvtss_sh(f, 0);
#else
    uint32_t u = narrow_bits(f), s = u >> 16 & 0x8000;
    u &= 0x7fffffff;
    if (u >= 0x47800000) {
        u = u > 0x7f800000 ? 0x7e00 : 0x7c00;
    } else if (u < 0x38800000) {
        u = narrow_bits(narrow_float(u) + 0.5f) - narrow_bits(0.5f); /* the sum rounds to f16's subnormal grid */
    } else {
        u = (u - (112u << 23) + 0xfff + (u >> 13 & 1)) >> 13;
    }
    return (uint16_t)(u | s);
#endif
}

#endif
