/* Conversions between element types: every 16-bit and 8-bit pattern, ties, subnormals, NaN, and C07 of the cases. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/dtype.h"
#include "base/hash.h"

static uint64_t next_random(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return wfi_hash_mum(*s, *s ^ WFI_HASH_A);
}

static void names(void **state)
{
    (void)state;
    for (int t = 1; t < WF_DTYPE_COUNT; t++) {
        assert_int_equal(wf_dtype_of(wf_dtype_name((wf_dtype)t)), t);
        assert_in_range(wf_dtype_bytes((wf_dtype)t), 1, 8);
    }
    static const int none[] = { 0, 16, 17, 1000, -1 };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(wf_dtype_bytes((wf_dtype)none[i]), 0);
        assert_string_equal(wf_dtype_name((wf_dtype)none[i]), "?");
    }
    assert_int_equal(wf_dtype_of("?"), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_of("F32"), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_of(""), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_of(NULL), WF_DTYPE_NONE);
    assert_int_equal(wf_dtype_bytes(WF_BF16), 2);
    assert_int_equal(wf_dtype_bytes(WF_F8E4M3), 1);
    assert_true(wfi_dtype_is_float(WF_F8E5M2) && !wfi_dtype_is_float(WF_I64) && !wfi_dtype_is_float(WF_BOOL));
    assert_true(wfi_dtype_is_int(WF_U8) && !wfi_dtype_is_int(WF_BOOL) && !wfi_dtype_is_int(WF_F16));
}

/* C07 */
static void case_07(void **state)
{
    (void)state;
    assert_true(wfi_bf16_to_f32(wfi_f32_to_bf16(0.2691408770292272f)) == 0.26953125f);
    assert_true(wfi_bf16_to_f32(wfi_f32_to_bf16(3.14f)) == 3.140625f);
    assert_true(isnan(wfi_bf16_to_f32(wfi_f32_to_bf16(wfi_f32_of_bits(0x7F800001u)))));
}

static const struct {
    wf_dtype t;
    int ebits, mbits;
    double max;
    bool infinite;
} small[] = {
    { WF_F16, 5, 10, 65504, true },
    { WF_BF16, 8, 7, 0x1.FEp127, true },
    { WF_F8E4M3, 4, 3, 448, false },
    { WF_F8E5M2, 5, 2, 57344, true },
};

static uint32_t get(wf_dtype t, const void *p)
{
    uint16_t h;
    uint8_t b;
    memcpy(&b, p, 1);
    if (wf_dtype_bytes(t) == 1)
        return b;
    memcpy(&h, p, 2);
    return h;
}

static double value_of(wf_dtype t, uint32_t bits)
{
    uint16_t h = (uint16_t)bits;
    uint8_t b = (uint8_t)bits;
    return wfi_dtype_load(t, wf_dtype_bytes(t) == 1 ? (const void *)&b : &h, 0);
}

static uint32_t bits_of(wf_dtype t, double v)
{
    uint16_t h = 0;
    wfi_dtype_store(t, &h, 0, v);
    return get(t, &h);
}

/* The definition, in libm's words. */
static double plain_value(int k, uint32_t b)
{
    int e = (int)(b >> small[k].mbits) & ((1 << small[k].ebits) - 1), bias = (1 << (small[k].ebits - 1)) - 1;
    double m = b & ((1u << small[k].mbits) - 1), one = 1 << small[k].mbits;
    double v = e ? ldexp(1 + m / one, e - bias) : ldexp(m / one, 1 - bias);
    if (small[k].infinite && e == (1 << small[k].ebits) - 1)
        v = m > 0 ? (double)NAN : (double)INFINITY;
    if (!small[k].infinite && (b & 0x7f) == 0x7f)
        v = (double)NAN;
    return b >> (small[k].ebits + small[k].mbits) ? -v : v;
}

/* Each pattern means what it should, and survives the way through f64; NaN stays NaN. */
static void every_pattern(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        wf_dtype t = small[k].t;
        uint32_t n = wf_dtype_bytes(t) == 1 ? 256 : 65536;
        for (uint32_t b = 0; b < n; b++) {
            double v = value_of(t, b), want = plain_value(k, b);
            uint32_t back = bits_of(t, v);
            assert_int_equal(isnan(v) != 0, isnan(want) != 0);
            assert_int_equal(signbit(v) != 0, signbit(want) != 0);
            if (isnan(v)) {
                assert_true(isnan(value_of(t, back)));
                assert_int_equal(back >> (small[k].ebits + small[k].mbits), b >> (small[k].ebits + small[k].mbits));
                continue;
            }
            assert_true(v == want);
            assert_int_equal(back, b);
        }
    }
}

/* Between two neighbours: below the middle down, above it up, in the middle to the even one. */
static void ties(void **state)
{
    (void)state;
    for (int k = 0; k < 4; k++) {
        wf_dtype t = small[k].t;
        uint32_t last = bits_of(t, small[k].max);
        for (uint32_t b = 0; b < last; b++) {
            double lo = value_of(t, b), hi = value_of(t, b + 1), mid = lo + (hi - lo) / 2;
            assert_int_equal(bits_of(t, mid), b & 1 ? b + 1 : b);
            assert_int_equal(bits_of(t, nextafter(mid, 0)), b);
            assert_int_equal(bits_of(t, nextafter(mid, 1e300)), b + 1);
            uint32_t sign = 1u << (small[k].ebits + small[k].mbits);
            assert_int_equal(bits_of(t, -mid), sign | (b & 1 ? b + 1 : b));
        }
        /* Over the largest: up to half a step it stays, from there on infinity, or NaN. */
        double step = small[k].max - value_of(t, last - 1), mid = small[k].max + step / 2;
        assert_int_equal(bits_of(t, nextafter(mid, 0)), last);
        assert_int_equal(bits_of(t, mid), last & 1 ? last + 1 : last);
        assert_int_equal(bits_of(t, nextafter(mid, 1e300)), last + 1);
        static const double large[] = { 1e6, 1e300, (double)INFINITY };
        for (int i = t == WF_BF16; i < 3; i++) {
            double v = value_of(t, bits_of(t, large[i]));
            assert_true(small[k].infinite ? isinf(v) : isnan(v));
        }
        assert_int_equal(bits_of(t, 5e-324), 0);
        assert_true(isnan(value_of(t, bits_of(t, (double)NAN))));
    }
}

/* A value just over a tie of the narrow type, which rounding to f32 first would move onto the tie. */
static void no_double_rounding(void **state)
{
    (void)state;
    assert_int_equal(wfi_f64_to_bf16(1 + 0x1p-8 + 0x1p-40), 0x3f81);
    assert_int_equal(wfi_f32_to_bf16((float)(1 + 0x1p-8 + 0x1p-40)), 0x3f80);
    assert_int_equal(wfi_f64_to_f16(1 + 0x1p-11 + 0x1p-40), 0x3c01);
    assert_int_equal(wfi_f64_to_f8e4m3(1 + 0x1p-4 + 0x1p-40), 0x39);
    assert_int_equal(wfi_f64_to_f8e5m2(1 + 0x1p-3 + 0x1p-40), 0x3d);
    uint16_t h = 0;
    wfi_dtype_store_i64(WF_BF16, &h, 0, ((int64_t)1 << 62) + ((int64_t)1 << 54) + 1); /* just over a tie */
    assert_int_equal(h, 0x5e81);
    wfi_dtype_store_i64(WF_BF16, &h, 0, -(((int64_t)1 << 62) + ((int64_t)1 << 54)));
    assert_int_equal(h, 0xde80);
    float f = 0;
    wfi_dtype_store_i64(WF_F32, &f, 0, ((int64_t)1 << 62) + ((int64_t)1 << 38) + 1);
    assert_true(f == 0x1.000002p62f);
    double d = 0;
    wfi_dtype_store_i64(WF_F64, &d, 0, INT64_MIN);
    assert_true(d == -0x1p63);
}

/* The short way from f32 agrees with the general one. */
static void from_f32(void **state)
{
    (void)state;
    uint64_t seed = wfi_clock_ns();
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 200000; i++) {
        uint32_t u = (uint32_t)(next_random(&seed) >> 32);
        if (i % 8 == 0)
            u &= 0x807fffffu; /* a subnormal */
        if (i % 8 == 1)
            u = (u & 0xffff0000u) | 0x8000u; /* a tie */
        float f = wfi_f32_of_bits(u);
        uint16_t h = wfi_f32_to_bf16(f);
        if (isnan(f)) {
            assert_true(isnan(wfi_bf16_to_f32(h)) && isnan(wfi_f16_to_f32(wfi_f32_to_f16(f))));
            continue;
        }
        assert_int_equal(h, wfi_f64_to_bf16((double)f));
        assert_int_equal(wfi_f32_to_f16(f), wfi_f64_to_f16((double)f));
        assert_int_equal(wfi_f32_to_f8e4m3(f), wfi_f64_to_f8e4m3((double)f));
        assert_int_equal(wfi_f32_to_f8e5m2(f), wfi_f64_to_f8e5m2((double)f));
    }
    for (uint32_t b = 0; b < 65536; b++) {
        float x = wfi_bf16_to_f32((uint16_t)b), y = wfi_f16_to_f32((uint16_t)b);
        if (!isnan(x))
            assert_int_equal(wfi_f32_to_bf16(x), b);
        if (!isnan(y))
            assert_int_equal(wfi_f32_to_f16(y), b);
    }
    for (uint32_t b = 0; b < 256; b++) {
        float x = wfi_f8e4m3_to_f32((uint8_t)b), y = wfi_f8e5m2_to_f32((uint8_t)b);
        assert_true(isnan(x) || wfi_f32_to_f8e4m3(x) == b);
        assert_true(isnan(y) || wfi_f32_to_f8e5m2(y) == b);
    }
}

#if defined __x86_64__
/* The processor's own f16 conversion, where it has one. */
__attribute__((target("f16c"))) static void with_f16c(void)
{
    typedef float v4f __attribute__((vector_size(16)));
    typedef short v8s __attribute__((vector_size(16)));
    for (uint64_t u = 0; u < UINT64_C(1) << 32; u += 4093) {
        float f = wfi_f32_of_bits((uint32_t)u);
        v4f in = { f, 0, 0, 0 };
        v8s out = __builtin_ia32_vcvtps2ph(in, 0);
        assert_int_equal((uint16_t)out[0], wfi_f32_to_f16(f));
    }
}
#endif

static void hardware_agrees(void **state)
{
    (void)state;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        with_f16c();
        return;
    }
#endif
    skip();
}

static void floats_to_integers(void **state)
{
    (void)state;
    static const struct {
        double v;
        int64_t i64, i32, i16, i8;
        uint64_t u64, u32, u16, u8;
    } rows[] = {
        { (double)NAN, 0, 0, 0, 0, 0, 0, 0, 0 },
        { (double)INFINITY, INT64_MAX, INT32_MAX, INT16_MAX, INT8_MAX, UINT64_MAX, UINT32_MAX, UINT16_MAX, UINT8_MAX },
        { -(double)INFINITY, INT64_MIN, INT32_MIN, INT16_MIN, INT8_MIN, 0, 0, 0, 0 },
        { 1.9, 1, 1, 1, 1, 1, 1, 1, 1 },
        { -1.9, -1, -1, -1, -1, 0, 0, 0, 0 },
        { -0.9, 0, 0, 0, 0, 0, 0, 0, 0 },
        { 300, 300, 300, 300, INT8_MAX, 300, 300, 300, UINT8_MAX },
        { 0x1p63, INT64_MAX, INT32_MAX, INT16_MAX, INT8_MAX, UINT64_C(1) << 63, UINT32_MAX, UINT16_MAX, UINT8_MAX },
        { -0x1p63, INT64_MIN, INT32_MIN, INT16_MIN, INT8_MIN, 0, 0, 0, 0 },
        { 0x1p64, INT64_MAX, INT32_MAX, INT16_MAX, INT8_MAX, UINT64_MAX, UINT32_MAX, UINT16_MAX, UINT8_MAX },
        { 2147483648.0, INT64_C(2147483648), INT32_MAX, INT16_MAX, INT8_MAX, 2147483648u, 2147483648u, UINT16_MAX,
          UINT8_MAX },
    };
    static const wf_dtype t[] = { WF_I64, WF_I32, WF_I16, WF_I8, WF_U64, WF_U32, WF_U16, WF_U8 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t want[] = { rows[i].i64,          rows[i].i32,          rows[i].i16,          rows[i].i8,
                           (int64_t)rows[i].u64, (int64_t)rows[i].u32, (int64_t)rows[i].u16, (int64_t)rows[i].u8 };
        for (int k = 0; k < 8; k++) {
            unsigned char room[24] = { 0 };
            wfi_dtype_store(t[k], room + 1, 1, rows[i].v); /* nor does alignment matter */
            assert_int_equal(wfi_dtype_load_i64(t[k], room + 1, 1), want[k]);
        }
    }
    uint8_t b[3];
    wfi_dtype_store(WF_BOOL, b, 0, 0.5);
    wfi_dtype_store(WF_BOOL, b, 1, -0.0);
    wfi_dtype_store(WF_BOOL, b, 2, (double)NAN);
    assert_true(b[0] == 1 && b[1] == 0 && b[2] == 1);
    b[0] = 2;
    assert_true(wfi_dtype_load(WF_BOOL, b, 0) == 1);
    assert_true(wfi_dtype_load(WF_DTYPE_NONE, b, 0) == 0);
    wfi_dtype_store(WF_DTYPE_NONE, b, 0, 1);
    assert_int_equal(b[0], 2);
}

static void whole_numbers(void **state)
{
    (void)state;
    static const int64_t v[] = { 0, 1, -1, 300, -300, INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1 };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        int64_t a = 0;
        uint64_t u = 0;
        int32_t w = 0;
        uint8_t b = 0;
        wfi_dtype_store_i64(WF_I64, &a, 0, v[i]);
        wfi_dtype_store_i64(WF_U64, &u, 0, v[i]);
        wfi_dtype_store_i64(WF_I32, &w, 0, v[i]);
        wfi_dtype_store_i64(WF_U8, &b, 0, v[i]);
        assert_true(a == v[i] && u == (uint64_t)v[i] && wfi_dtype_load_i64(WF_U64, &u, 0) == v[i]);
        assert_true((uint32_t)w == (uint32_t)(uint64_t)v[i] && b == (uint8_t)(uint64_t)v[i]);
    }
    uint64_t big = UINT64_MAX;
    float f = 0;
    double d = 0;
    uint16_t h = 0;
    wfi_dtype_cast(WF_F32, &f, WF_U64, &big, 1);
    wfi_dtype_cast(WF_F64, &d, WF_U64, &big, 1);
    wfi_dtype_cast(WF_F16, &h, WF_U64, &big, 1);
    assert_true(f == 0x1p64f && d == 0x1p64 && isinf(wfi_f16_to_f32(h)));
    assert_true(wfi_dtype_load(WF_U64, &big, 0) == 0x1p64);
}

/* Every pair of types: small whole numbers get through any of them. */
static void every_pair(void **state)
{
    (void)state;
    static const int64_t some[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14 };
    enum { N = sizeof some / sizeof *some };
    for (int from = 1; from < WF_DTYPE_COUNT; from++) {
        for (int to = 1; to < WF_DTYPE_COUNT; to++) {
            unsigned char a[N * 8] = { 0 }, b[N * 8] = { 0 };
            for (int64_t i = 0; i < N; i++)
                wfi_dtype_store_i64((wf_dtype)from, a, i, some[i]);
            wfi_dtype_cast((wf_dtype)to, b, (wf_dtype)from, a, N);
            bool boolean = from == WF_BOOL || to == WF_BOOL;
            for (int64_t i = 0; i < N; i++) {
                double want = boolean ? some[i] != 0 : (double)some[i];
                assert_true(wfi_dtype_load((wf_dtype)to, b, i) == want);
                assert_int_equal(wfi_dtype_load_i64((wf_dtype)to, b, i), (int64_t)want);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(case_07),
        cmocka_unit_test(every_pattern),
        cmocka_unit_test(ties),
        cmocka_unit_test(no_double_rounding),
        cmocka_unit_test(from_f32),
        cmocka_unit_test(hardware_agrees),
        cmocka_unit_test(floats_to_integers),
        cmocka_unit_test(whole_numbers),
        cmocka_unit_test(every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
