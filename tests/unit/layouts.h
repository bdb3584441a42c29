/* layouts.h - for tests of kernels: tensors of any type in many layouts, and the instruction sets of this machine.
 *
 * Elements are set and read as doubles by their row-major number, through slow and plain code, so that what a kernel
 * sees is checked from outside. */
#ifndef WEFT_TEST_LAYOUTS_H
#define WEFT_TEST_LAYOUTS_H
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <cmocka.h>
#include "kernel/kernel.h"

enum layout { ROWS, REVERSED, LAST, SLICED, BACKWARD, LAYOUTS };

typedef struct tensor {
    wfi_view v;
    unsigned char *memory; /* guarded: everything that is no element holds 0xa5 */
    size_t bytes;
    char *at; /* element [0, 0, ...] */
} tensor;

/* ---- numbers ---- */

static uint64_t random_state;
static inline uint32_t random_bits(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) ^ (uint32_t)(random_state >> 13);
}
static inline int64_t random_below(int64_t n)
{
    return (int64_t)(random_bits() % (uint32_t)n);
}
static inline double random_real(void) /* -1 .. 1 */
{
    return (double)(int32_t)random_bits() * 0x1p-31;
}

/* x rounded to `mant` fraction bits, smallest normal 2^emin, infinite from 2^(emax+1). */
static inline double round_to(double x, int mant, int emin, int emax)
{
    if (x == 0 || !isfinite(x)) {
        return x;
    }
    int e = ilogb(x);
    double unit = ldexp(1, (e < emin ? emin : e) - mant), r = nearbyint(x / unit) * unit;
    return fabs(r) >= ldexp(1, emax + 1) ? copysign(INFINITY, x) : r;
}
/* x as dtype t holds it. */
static inline double as_type(wf_dtype t, double x)
{
    switch (t) {
    case WF_F32: return (double)(float)x;
    case WF_BF16: return round_to((double)(float)x, 7, -126, 127);
    case WF_F16: return round_to((double)(float)x, 10, -14, 15);
    default: return x;
    }
}
static inline uint16_t encode16(double x, int mant, int emin)
{
    uint16_t s = signbit(x) ? 0x8000 : 0;
    uint16_t top = (uint16_t)(0x7fff & ~((1 << mant) - 1));
    x = fabs(x);
    if (isnan(x)) {
        return (uint16_t)(top | 1 << (mant - 1));
    }
    if (isinf(x)) {
        return s | top;
    }
    if (x < ldexp(1, emin)) {
        return (uint16_t)(s | (int)ldexp(x, mant - emin));
    }
    int e = ilogb(x);
    return (uint16_t)(s | (e - emin + 1) << mant | (int)((ldexp(x, -e) - 1) * ldexp(1, mant)));
}
static inline double decode16(uint16_t h, int mant, int emin)
{
    int e = (h & 0x7fff) >> mant, f = h & ((1 << mant) - 1), top = 0x7fff >> mant;
    double x = e == top ? (f ? NAN : INFINITY) : e ? ldexp(1 + ldexp(f, -mant), e - 1 + emin) : ldexp(f, emin - mant);
    return h & 0x8000 ? -x : x;
}

static inline size_t type_bytes(wf_dtype t)
{
    return t == WF_F64 || t == WF_I64 ? 8 : t == WF_F32 || t == WF_I32 ? 4 : t == WF_BF16 || t == WF_F16 ? 2 : 1;
}
static inline void put(wf_dtype t, void *p, double x)
{
    float f = (float)x;
    int64_t i = t == WF_I64 || t == WF_I32 || t == WF_U8 || t == WF_BOOL ? (int64_t)x : 0;
    int32_t j = (int32_t)i;
    uint8_t b = (uint8_t)i;
    uint16_t h = 0;
    switch (t) {
    case WF_F64: memcpy(p, &x, 8); break;
    case WF_F32: memcpy(p, &f, 4); break;
    case WF_I64: memcpy(p, &i, 8); break;
    case WF_I32: memcpy(p, &j, 4); break;
    case WF_BF16:
        h = encode16(as_type(t, x), 7, -126);
        memcpy(p, &h, 2);
        break;
    case WF_F16:
        h = encode16(as_type(t, x), 10, -14);
        memcpy(p, &h, 2);
        break;
    default: memcpy(p, &b, 1);
    }
}
static inline double got(wf_dtype t, const void *p)
{
    double x;
    float f;
    int64_t i;
    int32_t j;
    uint8_t b;
    uint16_t h;
    switch (t) {
    case WF_F64: memcpy(&x, p, 8); return x;
    case WF_F32: memcpy(&f, p, 4); return (double)f;
    case WF_I64: memcpy(&i, p, 8); return (double)i;
    case WF_I32: memcpy(&j, p, 4); return j;
    case WF_BF16: memcpy(&h, p, 2); return decode16(h, 7, -126);
    case WF_F16: memcpy(&h, p, 2); return decode16(h, 10, -14);
    default: memcpy(&b, p, 1); return b;
    }
}
/* The same number, NaN equal to NaN, 0 and -0 apart. */
static inline bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* ---- tensors ---- */

static inline int64_t elements(const wfi_view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++) {
        n *= v->dim[d];
    }
    return n;
}

static inline tensor tensor_new(wf_dtype t, wf_dims s, enum layout l)
{
    tensor r = { .v = { .dtype = t, .ndim = s.n } };
    int64_t order[WF_RANK_MAX] = { 0 }, n = 1, start = 0;
    for (int d = 0; d < s.n; d++) {
        r.v.dim[d] = s.d[d];
        order[d] = l == REVERSED ? d : s.n - 1 - d; /* order[0]: the axis that is innermost in memory */
    }
    if (l == LAST && s.n > 2) { /* axis 1 innermost, as in channels-last images */
        order[0] = 1;
        for (int k = 1, d = s.n - 1; d >= 0; d--) {
            if (d != 1) {
                order[k++] = d;
            }
        }
    }
    for (int k = 0; k < s.n; k++) {
        int64_t d = order[k], room = l == SLICED ? 2 * s.d[d] + 1 : s.d[d];
        r.v.stride[d] = l == SLICED ? 2 * n : n;
        start += l == SLICED ? n : 0;
        if (l == BACKWARD && d % 2 == 0 && s.d[d] > 0) {
            start += (s.d[d] - 1) * n;
            r.v.stride[d] = -n;
        }
        n *= room;
    }
    int64_t b = (int64_t)type_bytes(t);
    r.bytes = (size_t)((n + 32) * b);
    r.memory = aligned_alloc(64, (r.bytes + 63) / 64 * 64);
    assert_non_null(r.memory);
    memset(r.memory, 0xa5, r.bytes);
    r.at = (char *)r.memory + (16 + start) * b;
    return r;
}
static inline void tensor_free(tensor *t)
{
    free(t->memory);
    t->memory = NULL;
}
static inline char *place(const tensor *t, int64_t i)
{
    int64_t off = 0;
    for (int d = t->v.ndim - 1; d >= 0; d--) {
        off += i % t->v.dim[d] * t->v.stride[d];
        i /= t->v.dim[d];
    }
    return t->at + off * (int64_t)type_bytes(t->v.dtype);
}
static inline void set(tensor *t, int64_t i, double x)
{
    put(t->v.dtype, place(t, i), x);
}
static inline double get(const tensor *t, int64_t i)
{
    return got(t->v.dtype, place(t, i));
}
/* Fails if anything but elements was written. Destroys the elements. */
static inline void check_guard(tensor *t)
{
    int64_t n = elements(&t->v);
    for (int64_t i = 0; i < n; i++) {
        memset(place(t, i), 0xa5, type_bytes(t->v.dtype));
    }
    for (size_t i = 0; i < t->bytes; i++) {
        assert_int_equal(t->memory[i], 0xa5);
    }
}

/* ---- running ---- */

static wfi_mem test_mem;
static wfi_pool *test_pool[4]; /* by number of threads */

static int pools_up(void **state)
{
    (void)state;
    wfi_mem_init(&test_mem, NULL, NULL, 0);
    for (int t = 1; t <= 3; t++) {
        test_pool[t] = wfi_pool_new(&test_mem, t);
        assert_non_null(test_pool[t]);
    }
    return 0;
}
static int pools_down(void **state)
{
    (void)state;
    for (int t = 1; t <= 3; t++) {
        wfi_pool_free(test_pool[t]);
    }
    return 0;
}

/* Runs with scratch of exactly the bytes asked for, filled with NaNs before; returns the fault. */
static inline wfi_fault run_kernel(wfi_kernel_fn *fn, const void *params, void *const *args, size_t scratch,
                                   int threads)
{
    wfi_fault fault;
    memset(&fault, 0, sizeof fault);
    size_t bytes = (scratch + 63) / 64 * 64 + 64;
    unsigned char *s = aligned_alloc(64, bytes);
    assert_non_null(s);
    memset(s, 0xff, bytes);
    fn(params, args, &(wfi_run){ test_pool[threads], s, &fault });
    for (size_t i = scratch; i < bytes; i++) {
        assert_int_equal(s[i], 0xff);
    }
    free(s);
    return fault;
}

/* Instruction sets of this machine: 0 portable, 1 avx2, 2 avx512. */
static inline bool has_isa(int isa)
{
#if defined __x86_64__
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return isa == 0 || (isa == 1 && avx2) ||
           (isa == 2 && avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"));
#else
    return isa == 0;
#endif
}
#if defined __x86_64__
#define ISA_TABLES(family)                                                                                             \
    {                                                                                                                  \
        &family##_portable, &family##_avx2, &family##_avx512                                                           \
    }
#else
#define ISA_TABLES(family)                                                                                             \
    {                                                                                                                  \
        &family##_portable, NULL, NULL                                                                                 \
    }
#endif
enum { ISAS = 3 };

#endif
