/* conv_simd.h - vectors of T (float or double) for the instruction set at hand. Included once a source, T defined. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined __AVX2__
#include <immintrin.h>
#endif

typedef T V __attribute__((vector_size(4 * WFI_LANES)));
typedef T VU __attribute__((vector_size(4 * WFI_LANES), aligned(sizeof(T)), may_alias)); /* anywhere in memory */

/* Register tiles: MR1 pixels by one vector of channels, MR2 pixels by two; STEPS of them in a round of the loop. On
 * AVX2 a round of one would be 25 instructions for 12 fmas, and a thread whose core has another one to serve starts
 * three a cycle. */
#if WFI_LANES == 16
enum { L = 64 / sizeof(T), MR1 = 14, MR2 = 14, STEPS = 1 };
#elif WFI_LANES == 8
enum { L = 32 / sizeof(T), MR1 = 12, MR2 = 6, STEPS = 4 };
#else
enum { L = 16 / sizeof(T), MR1 = 8, MR2 = 6, STEPS = 1 };
#endif
enum { NR = 2 * L, MR_MAX = 14 };

/* gcc folds loads into the multiply-adds and then spills; an empty asm keeps a value in its register. clang needs the
 * opposite: no pins, and the loop over k left alone. */
#define OPAQUE(x) __asm__("" : "+r"(x))
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#define KLOOP  _Pragma("clang loop unroll(disable)")
#define PIN(v) (void)0
#else
#define UNROLL _Pragma("GCC unroll 16")
#define KLOOP
#if WFI_LANES == 16
#define PIN(v) __asm__("" : "+v"(v))
#elif defined __x86_64__
#define PIN(v) __asm__("" : "+x"(v))
#else
#define PIN(v) (void)0
#endif
#endif

WFI_INLINE V load(const T *p)
{
    return *(const VU *)p;
}

WFI_INLINE void store(T *p, V v)
{
    *(VU *)p = v;
}

WFI_INLINE V splat(T x)
{
#if WFI_LANES == 16
    return sizeof(T) == 4 ? (V)_mm512_set1_ps((float)x) : (V)_mm512_set1_pd((double)x);
#elif WFI_LANES == 8
    return sizeof(T) == 4 ? (V)_mm256_set1_ps((float)x) : (V)_mm256_set1_pd((double)x);
#else
    V v = { 0 };
    UNROLL for (int i = 0; i < L; i++)
    {
        v[i] = x;
    }
    return v;
#endif
}

WFI_INLINE V fma_(V a, V b, V c)
{
#if WFI_LANES == 16
    return sizeof(T) == 4 ? (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c)
                          : (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif WFI_LANES == 8
    return sizeof(T) == 4 ? (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c)
                          : (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
}

/* The same where several steps are unrolled: told by intrinsics, gcc 12 writes some products over an operand there, and
 * spills. (In a rolled loop it is this that costs: accumulators are moved about.) */
WFI_INLINE V fma_many(V a, V b, V c)
{
#if WFI_LANES == 8 && !defined __clang__
    if (sizeof(T) == 4) {
        __asm__("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    } else {
        __asm__("vfmadd231pd %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
    }
    return c;
#else
    return fma_(a, b, c);
#endif
}

/* One step of an in-register transpose: rows i and i + d exchange the lanes whose numbers differ in bit d. */
#if T_IS_FLOAT
#define SWAP(d, lo, hi)                                                                                                \
    UNROLL for (int i = 0; i < L; i++) if (!(i & d))                                                                   \
    {                                                                                                                  \
        V a = r[i], b = r[i + d];                                                                                      \
        r[i] = __builtin_shufflevector(a, b, lo);                                                                      \
        r[i + d] = __builtin_shufflevector(a, b, hi);                                                                  \
    }
#define LIST(...) __VA_ARGS__
/* r: L vectors, transposed in place */
WFI_INLINE void transpose(V *r)
{
#define SWAP_(d, lo, hi) SWAP(d, LIST lo, LIST hi)
#if WFI_LANES == 16
    SWAP_(8, (0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
          (8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
    SWAP_(4, (0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
          (4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
    SWAP_(2, (0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
          (2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
    SWAP_(1, (0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
          (1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
#elif WFI_LANES == 8
    SWAP_(4, (0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15))
    SWAP_(2, (0, 1, 8, 9, 4, 5, 12, 13), (2, 3, 10, 11, 6, 7, 14, 15))
    SWAP_(1, (0, 8, 2, 10, 4, 12, 6, 14), (1, 9, 3, 11, 5, 13, 7, 15))
#else
    SWAP_(2, (0, 1, 4, 5), (2, 3, 6, 7))
    SWAP_(1, (0, 4, 2, 6), (1, 5, 3, 7))
#endif
}
#undef SWAP_
#endif
