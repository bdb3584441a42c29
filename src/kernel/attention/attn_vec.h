/* attn_vec.h - vectors of f32 for attention: loads and stores, maxima, powers of two. */
#ifndef WFI_KERNEL_ATTENTION_VEC_H
#define WFI_KERNEL_ATTENTION_VEC_H
#include "kernel/gemm/gemm_vec.h"

typedef wfi_vf4 V;
typedef wfi_vi4 VI;
typedef float loose __attribute__((vector_size(WFI_VB), aligned(4), may_alias));

enum { VL = WFI_LANES, NV = 2, NR = NV * VL }; /* columns of a register tile: two vectors */
#if defined __AVX512F__
#define WFI_ATTN_MR 8 /* rows of a register tile */
enum { GROUP = 8 };   /* vectors that an exponential keeps in flight */
#elif defined __AVX2__
#define WFI_ATTN_MR 6
enum { GROUP = 4 };
#else
#define WFI_ATTN_MR 4
enum { GROUP = 2 };
#endif
enum { MR = WFI_ATTN_MR };
#define INF (__builtin_inff())

WFI_INLINE V ld(const float *p)
{
    return (V) * (const loose *)p;
}
WFI_INLINE void st(float *p, V v)
{
    *(loose *)p = (loose)v;
}
WFI_INLINE V set1(float x)
{
    return x - (V){ 0 };
}
WFI_INLINE V muladd(V a, V b, V c)
{
#if defined __AVX512F__
    return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined __AVX2__
    return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}
/* a where m is set, else b */
WFI_INLINE V pick(VI m, V a, V b)
{
    return (V)(((VI)a & m) | ((VI)b & ~m));
}
/* The larger; b if one of them is NaN. */
WFI_INLINE V larger(V a, V b)
{
#if defined __AVX512F__
    return (V)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined __AVX2__
    return (V)_mm256_max_ps((__m256)a, (__m256)b);
#else
    return pick((VI)(a > b), a, b);
#endif
}
WFI_INLINE V ceiling(V x)
{
#if defined __AVX512F__
    return (V)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
#elif defined __AVX2__
    return (V)_mm256_ceil_ps((__m256)x);
#else
    for (int i = 0; i < VL; i++)
        if (x[i] > -8388608.f && x[i] < 8388608.f) {
            float n = (float)(int32_t)x[i];
            x[i] = n < x[i] ? n + 1 : n;
        }
    return x;
#endif
}
WFI_INLINE V iota(void)
{
    V v = { 0 };
    for (int i = 0; i < VL; i++)
        v[i] = (float)i;
    return v;
}

#define MAGIC 12582912.f /* 1.5 * 2^23: added, it leaves the nearest whole number in the low bits */
#define EACH  WFI_UNROLL for (int i = 0; i < g; i++)

/* x[i] = 2^x[i] * 2^-m, for m127 = m - 127 of a whole m and |x| < 2^22; 0 below 2^-127. The fraction of x is exact, so
 * that the value for one m is exactly a power of two times that for another. g vectors, m127 of column i % NV. */
WFI_INLINE void exp2_less(int g, V *x, const V *m127)
{
    V t[GROUP], q[GROUP];
    EACH x[i] = larger(m127[i % NV], x[i]); /* NaN stays */
    EACH t[i] = x[i] + set1(MAGIC);
    EACH x[i] = x[i] - (t[i] - set1(MAGIC));
    EACH q[i] = muladd(set1(0.0001532134f), x[i], set1(0.001339022f));
    EACH t[i] = (V)((VI)(t[i] - m127[i % NV]) << 23);
    EACH q[i] = muladd(q[i], x[i], set1(0.0096185258f));
    EACH q[i] = muladd(q[i], x[i], set1(0.055503624f));
    EACH q[i] = muladd(q[i], x[i], set1(0.24022651f));
    EACH q[i] = muladd(q[i], x[i], set1(0.69314718f));
    EACH q[i] = muladd(q[i], x[i], set1(1.f));
    EACH x[i] = q[i] * t[i];
}
/* 2^d for whole d <= 0; 0 below 2^-126 */
WFI_INLINE V pow2(V d)
{
    return (V)((VI)(larger(d, set1(-127.f)) + set1(MAGIC + 127.f)) << 23);
}

/* ---- what both fast paths reckon with ---- */

#define LOG2E 1.44269504088896340736f
#define FLOOR (-2097152.f) /* -2^21: the least maximum */

WFI_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
WFI_INLINE int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
WFI_INLINE int64_t round_up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

#endif
