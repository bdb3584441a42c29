#include "base/dtype.h"

static const struct {
    uint8_t bytes;
    uint8_t kind; /* 'f', 'i', 'u', 'b' */
    char name[8];
} types[WF_DTYPE_COUNT] = {
    [WF_DTYPE_NONE] = { 0, 0, "?" },    [WF_F32] = { 4, 'f', "f32" },   [WF_F64] = { 8, 'f', "f64" },
    [WF_F16] = { 2, 'f', "f16" },       [WF_BF16] = { 2, 'f', "bf16" }, [WF_I64] = { 8, 'i', "i64" },
    [WF_I32] = { 4, 'i', "i32" },       [WF_U8] = { 1, 'u', "u8" },     [WF_BOOL] = { 1, 'b', "bool" },
    [WF_I8] = { 1, 'i', "i8" },         [WF_I16] = { 2, 'i', "i16" },   [WF_U16] = { 2, 'u', "u16" },
    [WF_U32] = { 4, 'u', "u32" },       [WF_U64] = { 8, 'u', "u64" },   [WF_F8E4M3] = { 1, 'f', "f8e4m3" },
    [WF_F8E5M2] = { 1, 'f', "f8e5m2" },
};

/* Any int may come in from outside. */
static wf_dtype known(wf_dtype t)
{
    return (unsigned)t < WF_DTYPE_COUNT ? t : WF_DTYPE_NONE;
}

size_t wf_dtype_bytes(wf_dtype t)
{
    return types[known(t)].bytes;
}

const char *wf_dtype_name(wf_dtype t)
{
    return types[known(t)].name;
}

wf_dtype wf_dtype_of(const char *name)
{
    for (int t = 1; name && t < WF_DTYPE_COUNT; t++) {
        if (strcmp(types[t].name, name) == 0)
            return (wf_dtype)t;
    }
    return WF_DTYPE_NONE;
}

bool wfi_dtype_is_float(wf_dtype t)
{
    return types[known(t)].kind == 'f';
}

bool wfi_dtype_is_int(wf_dtype t)
{
    return types[known(t)].kind == 'i' || types[known(t)].kind == 'u';
}

/* A float type of `ebits` exponent and `mbits` mantissa bits. Without infinities (f8e4m3) only the largest pattern is
 * NaN and the exponent field of all ones holds numbers, too. */
typedef struct format {
    int ebits, mbits;
    bool infinite;
} format;

static const format f16 = { 5, 10, true }, bf16 = { 8, 7, true }, e4m3 = { 4, 3, false }, e5m2 = { 5, 2, true };

static uint64_t f64_bits(double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}

static double f64_of_bits(uint64_t u)
{
    double v;
    memcpy(&v, &u, sizeof v);
    return v;
}

/* m / 2^shift, to the nearest, ties to even; 0 <= shift. m < 2^53. */
static uint64_t shift_rounded(uint64_t m, int shift)
{
    if (shift > 54)
        return 0;
    if (shift == 0)
        return m;
    uint64_t q = m >> shift, rest = m & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    return q + (rest > half || (rest == half && (q & 1)));
}

static uint32_t narrow(double v, format f)
{
    uint64_t u = f64_bits(v), mantissa = u & ((UINT64_C(1) << 52) - 1);
    int e = (int)(u >> 52 & 0x7ff), bias = (1 << (f.ebits - 1)) - 1;
    uint32_t sign = (uint32_t)(u >> 63) << (f.ebits + f.mbits);
    uint32_t top = ((UINT32_C(1) << f.ebits) - 1) << f.mbits; /* infinity, where there is one */
    uint32_t nan = top | (f.infinite ? UINT32_C(1) << (f.mbits - 1) : (UINT32_C(1) << f.mbits) - 1);
    if (e == 0x7ff && mantissa)
        return sign | nan | (uint32_t)(mantissa >> (52 - f.mbits));
    if (e == 0x7ff)
        return sign | (f.infinite ? top : nan);
    int exponent = e - 1023 + bias; /* field of the result; below 1: subnormal, e == 0: far below */
    int shift = 52 - f.mbits + (exponent < 1 ? 1 - exponent : 0);
    uint64_t q = e == 0 ? 0 : shift_rounded(mantissa | UINT64_C(1) << 52, shift);
    /* Rounding up carries into the exponent by itself; q still holds the leading 1, which counts as one there. */
    uint64_t r = exponent < 1 ? q : ((uint64_t)(exponent - 1) << f.mbits) + q;
    if (r >= (f.infinite ? top : nan))
        r = f.infinite ? top : nan;
    return sign | (uint32_t)r;
}

static double widen(uint32_t b, format f)
{
    uint32_t mantissa = b & ((UINT32_C(1) << f.mbits) - 1), all = (UINT32_C(1) << f.ebits) - 1;
    uint32_t e = b >> f.mbits & all;
    int bias = (1 << (f.ebits - 1)) - 1;
    uint64_t sign = (uint64_t)(b >> (f.ebits + f.mbits) & 1) << 63;
    uint64_t wide = (uint64_t)mantissa << (52 - f.mbits);
    bool special = e == all && (f.infinite || mantissa == (UINT32_C(1) << f.mbits) - 1);
    if (special && (mantissa || !f.infinite))
        return f64_of_bits(sign | UINT64_C(0x7ff8) << 48 | wide);
    if (special)
        return f64_of_bits(sign | UINT64_C(0x7ff) << 52);
    if (e)
        return f64_of_bits(sign | (uint64_t)((int)e - bias + 1023) << 52 | wide);
    /* Subnormal: mantissa * 2^(1 - bias - mbits), a normal double. */
    double unit = f64_of_bits((uint64_t)(1 - bias - f.mbits + 1023) << 52);
    return f64_of_bits(f64_bits((double)mantissa * unit) | sign);
}

uint16_t wfi_f64_to_bf16(double v)
{
    return (uint16_t)narrow(v, bf16);
}
uint16_t wfi_f64_to_f16(double v)
{
    return (uint16_t)narrow(v, f16);
}
uint8_t wfi_f64_to_f8e4m3(double v)
{
    return (uint8_t)narrow(v, e4m3);
}
uint8_t wfi_f64_to_f8e5m2(double v)
{
    return (uint8_t)narrow(v, e5m2);
}

/* f32 to double is exact, so there is one rounding here, too. */
uint16_t wfi_f32_to_f16(float v)
{
    return (uint16_t)narrow((double)v, f16);
}
uint8_t wfi_f32_to_f8e4m3(float v)
{
    return (uint8_t)narrow((double)v, e4m3);
}
uint8_t wfi_f32_to_f8e5m2(float v)
{
    return (uint8_t)narrow((double)v, e5m2);
}

float wfi_f16_to_f32(uint16_t h)
{
    return (float)widen(h, f16);
}
float wfi_f8e4m3_to_f32(uint8_t b)
{
    return (float)widen(b, e4m3);
}
float wfi_f8e5m2_to_f32(uint8_t b)
{
    return (float)widen(b, e5m2);
}

int64_t wfi_f64_to_i64(double v)
{
    if (v != v)
        return 0;
    if (v >= 0x1p63)
        return INT64_MAX;
    return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

uint64_t wfi_f64_to_u64(double v)
{
    if (!(v > 0))
        return 0;
    return v >= 0x1p64 ? UINT64_MAX : (uint64_t)v;
}

/* p[i] of a C type, whatever the alignment. */
#define LOAD(T, p, i)                                                                                                  \
    __extension__({                                                                                                    \
        T v_;                                                                                                          \
        memcpy(&v_, (const char *)(p) + (size_t)(i) * sizeof v_, sizeof v_);                                           \
        v_;                                                                                                            \
    })
#define STORE(T, p, i, v)                                                                                              \
    do {                                                                                                               \
        T v_ = (T)(v);                                                                                                 \
        memcpy((char *)(p) + (size_t)(i) * sizeof v_, &v_, sizeof v_);                                                 \
    } while (0)

double wfi_dtype_load(wf_dtype t, const void *p, int64_t i)
{
    switch (t) {
    case WF_F64: return LOAD(double, p, i);
    case WF_F32: return (double)LOAD(float, p, i);
    case WF_F16: return widen(LOAD(uint16_t, p, i), f16);
    case WF_BF16: return widen(LOAD(uint16_t, p, i), bf16);
    case WF_F8E4M3: return widen(LOAD(uint8_t, p, i), e4m3);
    case WF_F8E5M2: return widen(LOAD(uint8_t, p, i), e5m2);
    case WF_U64: return (double)LOAD(uint64_t, p, i);
    default: return (double)wfi_dtype_load_i64(t, p, i);
    }
}

static int64_t clamp(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

void wfi_dtype_store(wf_dtype t, void *p, int64_t i, double v)
{
    int64_t n = wfi_f64_to_i64(v);
    switch (t) {
    case WF_F64: STORE(double, p, i, v); break;
    case WF_F32: STORE(float, p, i, v); break;
    case WF_F16: STORE(uint16_t, p, i, narrow(v, f16)); break;
    case WF_BF16: STORE(uint16_t, p, i, narrow(v, bf16)); break;
    case WF_F8E4M3: STORE(uint8_t, p, i, narrow(v, e4m3)); break;
    case WF_F8E5M2: STORE(uint8_t, p, i, narrow(v, e5m2)); break;
    case WF_I64: STORE(int64_t, p, i, n); break;
    case WF_I32: STORE(int32_t, p, i, clamp(n, INT32_MIN, INT32_MAX)); break;
    case WF_I16: STORE(int16_t, p, i, clamp(n, INT16_MIN, INT16_MAX)); break;
    case WF_I8: STORE(int8_t, p, i, clamp(n, INT8_MIN, INT8_MAX)); break;
    case WF_U64: STORE(uint64_t, p, i, wfi_f64_to_u64(v)); break;
    case WF_U32: STORE(uint32_t, p, i, clamp(n, 0, UINT32_MAX)); break;
    case WF_U16: STORE(uint16_t, p, i, clamp(n, 0, UINT16_MAX)); break;
    case WF_U8: STORE(uint8_t, p, i, clamp(n, 0, UINT8_MAX)); break;
    case WF_BOOL: STORE(uint8_t, p, i, v != 0); break;
    default: break;
    }
}

int64_t wfi_dtype_load_i64(wf_dtype t, const void *p, int64_t i)
{
    switch (t) {
    case WF_I64: return LOAD(int64_t, p, i);
    case WF_I32: return LOAD(int32_t, p, i);
    case WF_I16: return LOAD(int16_t, p, i);
    case WF_I8: return LOAD(int8_t, p, i);
    case WF_U64: return (int64_t)LOAD(uint64_t, p, i);
    case WF_U32: return LOAD(uint32_t, p, i);
    case WF_U16: return LOAD(uint16_t, p, i);
    case WF_U8: return LOAD(uint8_t, p, i);
    case WF_BOOL: return LOAD(uint8_t, p, i) != 0;
    default: return wfi_dtype_is_float(t) ? wfi_f64_to_i64(wfi_dtype_load(t, p, i)) : 0;
    }
}

/* An integer as a double that rounds to any narrower float as the integer itself would: beyond 53 bits the lost ones
 * are gathered in the last bit ("round to odd"). */
static double to_odd(uint64_t m, bool minus)
{
    int lost = m >> 53 ? 11 - __builtin_clzll(m) : 0;
    uint64_t kept = m >> lost;
    if (kept << lost != m)
        kept |= 1;
    double scale = f64_of_bits((uint64_t)(1023 + lost) << 52);
    return (minus ? -(double)kept : (double)kept) * scale;
}

/* m, or -m, to any type. */
static void store_whole(wf_dtype t, void *p, int64_t i, uint64_t m, bool minus)
{
    uint64_t v = minus ? 0 - m : m;
    switch (t) {
    case WF_F64: STORE(double, p, i, minus ? -(double)m : (double)m); break;
    case WF_F32: STORE(float, p, i, minus ? -(float)m : (float)m); break;
    case WF_F16:
    case WF_BF16:
    case WF_F8E4M3:
    case WF_F8E5M2: wfi_dtype_store(t, p, i, to_odd(m, minus)); break;
    case WF_BOOL: STORE(uint8_t, p, i, m != 0); break;
    case WF_I64:
    case WF_U64: STORE(uint64_t, p, i, v); break;
    case WF_I32:
    case WF_U32: STORE(uint32_t, p, i, v); break;
    case WF_I16:
    case WF_U16: STORE(uint16_t, p, i, v); break;
    case WF_I8:
    case WF_U8: STORE(uint8_t, p, i, v); break;
    default: break;
    }
}

void wfi_dtype_store_i64(wf_dtype t, void *p, int64_t i, int64_t v)
{
    store_whole(t, p, i, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
}

void wfi_dtype_cast(wf_dtype to, void *dst, wf_dtype from, const void *src, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        if (from == WF_U64)
            store_whole(to, dst, i, LOAD(uint64_t, src, i), false);
        else if (wfi_dtype_is_float(from))
            wfi_dtype_store(to, dst, i, wfi_dtype_load(from, src, i));
        else
            wfi_dtype_store_i64(to, dst, i, wfi_dtype_load_i64(from, src, i));
    }
}
