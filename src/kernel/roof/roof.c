#include "kernel/roof/roof.h"
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(WFI_LANES * 4)));
enum { CHAINS = 12 }; /* enough to hide the latency of a multiply-add, few enough for 16 registers */

WFI_INLINE vec multiply_add(vec a, vec b, vec c)
{
#if defined __AVX512F__
    return _mm512_fmadd_ps(a, b, c);
#elif defined __FMA__
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

WFI_INLINE vec all(float x)
{
    vec v;
    for (int i = 0; i < WFI_LANES; i++)
        v[i] = x;
    return v;
}

/* Hides what the compiler knows of v, so that no two rounds become one. */
#if defined __AVX512F__
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#elif defined __x86_64__
#define HIDE(v) __asm__ volatile("" : "+x"(v))
#else
#define HIDE(v) __asm__ volatile("" : "+m"(v))
#endif

#define EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)

static double fma_roof(int64_t n, float *sink)
{
    vec m = all(0.999f), a = all(0.001f), s = all(0);
#define BEGIN(i) vec c##i = all((float)i);
#define ROUND(i) c##i = multiply_add(c##i, m, a);
#define ADD(i)   s += c##i;
    EACH(BEGIN)
    for (int64_t k = 0; k < n; k++) {
        EACH(ROUND)
        HIDE(m);
    }
    EACH(ADD)
    *sink = s[0];
    return (double)n * CHAINS * WFI_LANES * 2;
}

static void read_roof(const float *p, int64_t n, float *sink)
{
    vec s[8], v;
    for (int i = 0; i < 8; i++)
        s[i] = all(0);
    for (int64_t k = 0; k < n; k += 8 * WFI_LANES)
        for (int i = 0; i < 8; i++) {
            memcpy(&v, p + k + i * WFI_LANES, sizeof v);
            s[i] += v;
        }
    *sink = (s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7])[0];
}

static void write_roof(float *p, int64_t n, float value)
{
    vec v = all(value);
    for (int64_t k = 0; k < n; k += WFI_LANES) {
        HIDE(v);
        memcpy(p + k, &v, sizeof v);
    }
}

const wfi_roof_kernels WFI_K(wfi_roof) = { fma_roof, read_roof, write_roof };
