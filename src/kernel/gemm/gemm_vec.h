/* gemm_vec.h - the few vector operations that products need, for each instruction set, by the width of a lane.
 *
 * A vector is WFI_VB bytes. Loads and stores go through unaligned GNU vector types; what those cannot say (masks, fma,
 * transposes, widening) is written with intrinsics here and nowhere else. */
#ifndef WFI_KERNEL_GEMM_VEC_H
#define WFI_KERNEL_GEMM_VEC_H
#include <stdint.h>
#include <string.h>
#include "kernel/isa.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define WFI_VB (WFI_LANES * 4)

/* Emits nothing; pins v in a register here. Without it gcc 12 folds each load of b into all its fmas and moves
 * accumulators through the stack: 80 % of the roof, not 95. clang would spill because of it. */
#if defined __clang__ || !defined __x86_64__ || defined WFI_ROLLED
#define WFI_PIN(v) (void)0
#elif defined __AVX512F__
#define WFI_PIN(v) __asm__("" : "+v"(v))
#else
#define WFI_PIN(v) __asm__("" : "+x"(v))
#endif

/* Hides where x comes from: gcc would make a version of the loop for a stride of one. */
#define WFI_OPAQUE(x) __asm__("" : "+r"(x))

typedef int32_t wfi_vi4 __attribute__((vector_size(WFI_VB)));
typedef int64_t wfi_vi8 __attribute__((vector_size(WFI_VB)));
typedef float wfi_vf4 __attribute__((vector_size(WFI_VB)));
typedef double wfi_vf8 __attribute__((vector_size(WFI_VB)));
typedef uint32_t wfi_vu4 __attribute__((vector_size(WFI_VB)));
typedef uint64_t wfi_vu8 __attribute__((vector_size(WFI_VB)));

/* -- masks: the first n lanes; n may be <= 0 or beyond the last lane ------------------------------------------------
 */
#if defined __AVX512F__
typedef __mmask16 wfi_mask4;
typedef __mmask8 wfi_mask8;
WFI_INLINE wfi_mask4 wfi_lanes4(int64_t n)
{
    return n >= 16 ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}
WFI_INLINE wfi_mask8 wfi_lanes8(int64_t n)
{
    return n >= 8 ? 0xff : n <= 0 ? 0 : (__mmask8)((1u << n) - 1);
}
WFI_INLINE wfi_vf4 wfi_ldm4(const void *p, wfi_mask4 m)
{
    return (wfi_vf4)_mm512_maskz_loadu_ps(m, p);
}
WFI_INLINE wfi_vf8 wfi_ldm8(const void *p, wfi_mask8 m)
{
    return (wfi_vf8)_mm512_maskz_loadu_pd(m, p);
}
WFI_INLINE void wfi_stm4(void *p, wfi_mask4 m, wfi_vf4 v)
{
    _mm512_mask_storeu_ps(p, m, (__m512)v);
}
WFI_INLINE void wfi_stm8(void *p, wfi_mask8 m, wfi_vf8 v)
{
    _mm512_mask_storeu_pd(p, m, (__m512d)v);
}
#elif defined __AVX2__
typedef __m256i wfi_mask4;
typedef __m256i wfi_mask8;
WFI_INLINE wfi_mask4 wfi_lanes4(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8   ? 8
                                                : n < 0 ? 0
                                                        : (int)n),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
WFI_INLINE wfi_mask8 wfi_lanes8(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
WFI_INLINE wfi_vf4 wfi_ldm4(const void *p, wfi_mask4 m)
{
    return (wfi_vf4)_mm256_maskload_ps(p, m);
}
WFI_INLINE wfi_vf8 wfi_ldm8(const void *p, wfi_mask8 m)
{
    return (wfi_vf8)_mm256_maskload_pd(p, m);
}
WFI_INLINE void wfi_stm4(void *p, wfi_mask4 m, wfi_vf4 v)
{
    _mm256_maskstore_ps(p, m, (__m256)v);
}
WFI_INLINE void wfi_stm8(void *p, wfi_mask8 m, wfi_vf8 v)
{
    _mm256_maskstore_pd(p, m, (__m256d)v);
}
#else
typedef size_t wfi_mask4; /* bytes */
typedef size_t wfi_mask8;
WFI_INLINE wfi_mask4 wfi_lanes4(int64_t n)
{
    return n <= 0 ? 0 : n >= WFI_LANES ? WFI_VB : 4 * (size_t)n;
}
WFI_INLINE wfi_mask8 wfi_lanes8(int64_t n)
{
    return n <= 0 ? 0 : n >= WFI_LANES / 2 ? WFI_VB : 8 * (size_t)n;
}
WFI_INLINE wfi_vf4 wfi_ldm4(const void *p, wfi_mask4 m)
{
    wfi_vf4 v = { 0 };
    memcpy(&v, p, m);
    return v;
}
WFI_INLINE wfi_vf8 wfi_ldm8(const void *p, wfi_mask8 m)
{
    wfi_vf8 v = { 0 };
    memcpy(&v, p, m);
    return v;
}
WFI_INLINE void wfi_stm4(void *p, wfi_mask4 m, wfi_vf4 v)
{
    memcpy(p, &v, m);
}
WFI_INLINE void wfi_stm8(void *p, wfi_mask8 m, wfi_vf8 v)
{
    memcpy(p, &v, m);
}
#endif

/* -- fma: c += a * b ---------------------------------------------------------------------------------------------- */
/* Told by intrinsics, gcc 12 writes some products over an operand and moves accumulators about for it. */
#if defined __GNUC__ && !defined __clang__ && defined __AVX512F__
#define WFI_FMA_F32(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#define WFI_FMA_F64(c, a, b) __asm__("vfmadd231pd %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#elif defined __AVX512F__
#define WFI_FMA_F32(c, a, b) ((c) = (wfi_vf4)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define WFI_FMA_F64(c, a, b) ((c) = (wfi_vf8)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined __GNUC__ && !defined __clang__ && defined __AVX2__
#define WFI_FMA_F32(c, a, b) __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#define WFI_FMA_F64(c, a, b) __asm__("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b))
#elif defined __AVX2__
#define WFI_FMA_F32(c, a, b) ((c) = (wfi_vf4)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define WFI_FMA_F64(c, a, b) ((c) = (wfi_vf8)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define WFI_FMA_F32(c, a, b) ((c) = (a) * (b) + (c))
#define WFI_FMA_F64(c, a, b) ((c) = (a) * (b) + (c))
#endif

/* -- 16-bit floats ----------------------------------------------------------------------------------------------- */
WFI_INLINE float wfi_bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
WFI_INLINE uint32_t wfi_f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
WFI_INLINE float wfi_bf16_wide(uint16_t h)
{
    return wfi_bits_f32((uint32_t)h << 16);
}
WFI_INLINE float wfi_f16_wide(uint16_t h)
{
#ifdef __F16C__
    return _cvtsh_ss(h);
#else
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
    if (e == 31)
        return wfi_bits_f32(sign | 0x7f800000 | m << 13);
    if (e)
        return wfi_bits_f32(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
#endif
}
WFI_INLINE uint16_t wfi_bf16_narrow(float f) /* to nearest, ties to even */
{
    uint32_t u = wfi_f32_bits(f);
    if ((u & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
WFI_INLINE uint16_t wfi_f16_narrow(float f)
{
#ifdef __F16C__
    return _cvtss_sh(f, 0);
#else
    uint32_t u = wfi_f32_bits(f), s = u >> 16 & 0x8000, a = u & 0x7fffffff;
    if (a > 0x7f800000)
        return (uint16_t)(s | 0x7e00);
    if (a >= 0x477ff000) /* 65520 and above round to infinity */
        return (uint16_t)(s | 0x7c00);
    if (a < 0x38800000) /* subnormal: adding 0.5 leaves the rounded multiple of 2^-24 in the low bits */
        return (uint16_t)(s | (wfi_f32_bits(wfi_bits_f32(a) + 0.5f) - 0x3f000000));
    return (uint16_t)(s | (a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13);
#endif
}

/* WFI_LANES of them, widened (as numbers, or their bits: u16); or the first n, the rest 0. */
#if defined __AVX512F__
WFI_INLINE wfi_vu4 wfi_u16_ld(const uint16_t *p)
{
    return (wfi_vu4)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
WFI_INLINE wfi_vu4 wfi_u16_ldm(const uint16_t *p, int64_t n)
{
    return (wfi_vu4)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(wfi_lanes4(n), p));
}
WFI_INLINE wfi_vf4 wfi_f16_ld(const uint16_t *p)
{
    return (wfi_vf4)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
WFI_INLINE wfi_vf4 wfi_f16_ldm(const uint16_t *p, int64_t n)
{
    return (wfi_vf4)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(wfi_lanes4(n), p));
}
#else
#if defined __AVX2__
WFI_INLINE wfi_vu4 wfi_u16_ld(const uint16_t *p)
{
    return (wfi_vu4)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
WFI_INLINE wfi_vf4 wfi_f16_ld(const uint16_t *p)
{
    return (wfi_vf4)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
#else
WFI_INLINE wfi_vu4 wfi_u16_ld(const uint16_t *p)
{
    wfi_vu4 v = { 0 };
    for (int i = 0; i < WFI_LANES; i++)
        v[i] = p[i];
    return v;
}
WFI_INLINE wfi_vf4 wfi_f16_ld(const uint16_t *p)
{
    wfi_vf4 v = { 0 };
    for (int i = 0; i < WFI_LANES; i++)
        v[i] = wfi_f16_wide(p[i]);
    return v;
}
#endif
WFI_INLINE wfi_vu4 wfi_u16_ldm(const uint16_t *p, int64_t n)
{
    uint16_t t[WFI_LANES] = { 0 };
    for (int i = 0; i < WFI_LANES && i < n; i++)
        t[i] = p[i];
    return wfi_u16_ld(t);
}
WFI_INLINE wfi_vf4 wfi_f16_ldm(const uint16_t *p, int64_t n)
{
    uint16_t t[WFI_LANES] = { 0 };
    for (int i = 0; i < WFI_LANES && i < n; i++)
        t[i] = p[i];
    return wfi_f16_ld(t);
}
#endif

WFI_INLINE wfi_vf4 wfi_bf16_ld(const uint16_t *p)
{
    return (wfi_vf4)(wfi_u16_ld(p) << 16);
}
WFI_INLINE wfi_vf4 wfi_bf16_ldm(const uint16_t *p, int64_t n)
{
    return (wfi_vf4)(wfi_u16_ldm(p, n) << 16);
}

#ifdef __AVX2__ /* four */
WFI_INLINE __m128 wfi_f32_ld4(const void *p)
{
    return _mm_loadu_ps(p);
}
WFI_INLINE __m128 wfi_bf16_ld4(const void *p)
{
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64(p)), 16));
}
WFI_INLINE __m128 wfi_f16_ld4(const void *p)
{
    return _mm_cvtph_ps(_mm_loadl_epi64(p));
}
#endif

/* WFI_LANES of them, narrowed. */
typedef uint16_t wfi_vh4 __attribute__((vector_size(WFI_LANES * 2)));
WFI_INLINE void wfi_bf16_st(uint16_t *p, wfi_vf4 v)
{
    wfi_vu4 u = (wfi_vu4)v, nan = (wfi_vu4)((u & 0x7fffffff) > 0x7f800000);
    u = (nan & (u | 0x400000)) | (~nan & (u + 0x7fff + (u >> 16 & 1)));
    wfi_vh4 h = __builtin_convertvector(u >> 16, wfi_vh4);
    memcpy(p, &h, sizeof h);
}
WFI_INLINE void wfi_f16_st(uint16_t *p, wfi_vf4 v)
{
#if defined __AVX512F__
    _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph((__m512)v, 0));
#elif defined __F16C__
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph((__m256)v, 0));
#else
    for (int i = 0; i < WFI_LANES; i++)
        p[i] = wfi_f16_narrow(v[i]);
#endif
}

/* -- square transposes in registers: lane j of r[i] and lane i of r[j] change places ----------------------------- */
#if defined __AVX512F__
/* Four rows of 16: r[q] becomes columns q, 4 + q, 8 + q, 12 + q, one in each 128-bit lane. */
WFI_INLINE void wfi_columns4(__m512 *r)
{
    __m512 a = _mm512_unpacklo_ps(r[0], r[1]), b = _mm512_unpackhi_ps(r[0], r[1]);
    __m512 c = _mm512_unpacklo_ps(r[2], r[3]), d = _mm512_unpackhi_ps(r[2], r[3]);
    r[0] = _mm512_shuffle_ps(a, c, 0x44);
    r[1] = _mm512_shuffle_ps(a, c, 0xee);
    r[2] = _mm512_shuffle_ps(b, d, 0x44);
    r[3] = _mm512_shuffle_ps(b, d, 0xee);
}
/* 128-bit lane l of out[i * step] is lane i of the l-th argument. */
WFI_INLINE void wfi_lanes_across(__m512 p, __m512 q, __m512 r, __m512 s, wfi_vi4 *out, int step)
{
    __m512 a = _mm512_shuffle_f32x4(p, q, 0x88), b = _mm512_shuffle_f32x4(p, q, 0xdd);
    __m512 c = _mm512_shuffle_f32x4(r, s, 0x88), d = _mm512_shuffle_f32x4(r, s, 0xdd);
    out[0] = (wfi_vi4)_mm512_shuffle_f32x4(a, c, 0x88);
    out[step] = (wfi_vi4)_mm512_shuffle_f32x4(b, d, 0x88);
    out[2 * step] = (wfi_vi4)_mm512_shuffle_f32x4(a, c, 0xdd);
    out[3 * step] = (wfi_vi4)_mm512_shuffle_f32x4(b, d, 0xdd);
}
WFI_INLINE void wfi_transpose4(wfi_vi4 *v) /* v[16] */
{
    __m512 r[16];
    WFI_UNROLL for (int i = 0; i < 16; i++) r[i] = (__m512)v[i];
    WFI_UNROLL for (int i = 0; i < 16; i += 4) wfi_columns4(r + i);
    WFI_UNROLL for (int q = 0; q < 4; q++) wfi_lanes_across(r[q], r[q + 4], r[q + 8], r[q + 12], v + q, 4);
}
/* Eight rows of 16: v becomes their columns one after the other, two in a vector. */
WFI_INLINE void wfi_transpose4_eight(wfi_vi4 *v)
{
    __m512 r[8];
    WFI_UNROLL for (int i = 0; i < 8; i++) r[i] = (__m512)v[i];
    WFI_UNROLL for (int i = 0; i < 8; i += 4) wfi_columns4(r + i);
    WFI_UNROLL for (int q = 0; q < 2; q++)
        wfi_lanes_across(r[2 * q], r[2 * q + 4], r[2 * q + 1], r[2 * q + 5], v + q, 2);
}
WFI_INLINE void wfi_transpose8(wfi_vi8 *v) /* v[8] */
{
    __m512d t[8];
    WFI_UNROLL for (int i = 0; i < 8; i += 2) /* t[i + q]: column 2 l + q of rows i, i + 1, in 128-bit lane l */
    {
        t[i] = _mm512_unpacklo_pd((__m512d)v[i], (__m512d)v[i + 1]);
        t[i + 1] = _mm512_unpackhi_pd((__m512d)v[i], (__m512d)v[i + 1]);
    }
    WFI_UNROLL for (int q = 0; q < 2; q++)
    {
        __m512d a = _mm512_shuffle_f64x2(t[q], t[q + 2], 0x88), b = _mm512_shuffle_f64x2(t[q], t[q + 2], 0xdd);
        __m512d c = _mm512_shuffle_f64x2(t[q + 4], t[q + 6], 0x88), d = _mm512_shuffle_f64x2(t[q + 4], t[q + 6], 0xdd);
        v[q] = (wfi_vi8)_mm512_shuffle_f64x2(a, c, 0x88);
        v[q + 2] = (wfi_vi8)_mm512_shuffle_f64x2(b, d, 0x88);
        v[q + 4] = (wfi_vi8)_mm512_shuffle_f64x2(a, c, 0xdd);
        v[q + 6] = (wfi_vi8)_mm512_shuffle_f64x2(b, d, 0xdd);
    }
}
#elif defined __AVX2__
WFI_INLINE void wfi_transpose4(wfi_vi4 *v) /* v[8] */
{
    __m256 t[8], u[8];
    WFI_UNROLL for (int i = 0; i < 8; i += 2)
    {
        t[i] = _mm256_unpacklo_ps((__m256)v[i], (__m256)v[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps((__m256)v[i], (__m256)v[i + 1]);
    }
    WFI_UNROLL for (int i = 0; i < 8; i += 4)
    {
        u[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
        u[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
        u[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
        u[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    WFI_UNROLL for (int i = 0; i < 4; i++)
    {
        v[i] = (wfi_vi4)_mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        v[i + 4] = (wfi_vi4)_mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
WFI_INLINE void wfi_transpose8(wfi_vi8 *v) /* v[4] */
{
    __m256d t[4];
    WFI_UNROLL for (int i = 0; i < 4; i += 2)
    {
        t[i] = _mm256_unpacklo_pd((__m256d)v[i], (__m256d)v[i + 1]);
        t[i + 1] = _mm256_unpackhi_pd((__m256d)v[i], (__m256d)v[i + 1]);
    }
    WFI_UNROLL for (int i = 0; i < 2; i++)
    {
        v[i] = (wfi_vi8)_mm256_permute2f128_pd(t[i], t[i + 2], 0x20);
        v[i + 2] = (wfi_vi8)_mm256_permute2f128_pd(t[i], t[i + 2], 0x31);
    }
}
#else
WFI_INLINE void wfi_transpose4(wfi_vi4 *v)
{
    WFI_UNROLL for (int i = 0; i < WFI_LANES; i++) WFI_UNROLL for (int j = 0; j < i; j++)
    {
        int32_t t = v[i][j];
        v[i][j] = v[j][i];
        v[j][i] = t;
    }
}
WFI_INLINE void wfi_transpose8(wfi_vi8 *v)
{
    WFI_UNROLL for (int i = 0; i < WFI_LANES / 2; i++) WFI_UNROLL for (int j = 0; j < i; j++)
    {
        int64_t t = v[i][j];
        v[i][j] = v[j][i];
        v[j][i] = t;
    }
}
#endif

#endif
