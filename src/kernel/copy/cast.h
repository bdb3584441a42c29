/* cast.h - runs of contiguous elements from any type to any other, by way of a middle type that holds the source
 * exactly: i32, i64, u64, f32 or f64. Rules: base/dtype.h. Each way rounds at most once: where two steps narrow, the
 * first rounds to odd, which the second cannot tell from the exact value. */
#ifndef WFI_KERNEL_COPY_CAST_H
#define WFI_KERNEL_COPY_CAST_H
#include "kernel/ew/half.h"
#include "kernel/vmath.h"
#include "weft/types.h"

/* y, x: n elements; none of the functions works in place. */
typedef void cast_fn(void *restrict y, const void *restrict x, int64_t n);

/* ---- single values ---- */

WFI_INLINE float of_e4m3(uint8_t b)
{
    uint32_t u = (uint32_t)(b & 0x7f) << 20, sign = (uint32_t)(b & 0x80) << 24;
    uint32_t sub = wfi_bits_f32(wfi_of_bits_f32(u + (121u << 23)) - wfi_of_bits_f32(121u << 23));
    uint32_t r = u < (1u << 23) ? sub : u + (120u << 23);
    r = (b & 0x7f) == 0x7f ? 0x7fc00000u : r;
    return wfi_of_bits_f32(r | sign);
}
WFI_INLINE uint8_t to_e4m3(float f)
{
    uint32_t u = wfi_bits_f32(f), sign = u >> 24 & 0x80u;
    u &= 0x7fffffffu;
    uint32_t sub = wfi_bits_f32(wfi_of_bits_f32(u) + 16384.f) - 0x46800000u;
    uint32_t r = (u - (120u << 23) + 0x7ffffu + (u >> 20 & 1u)) >> 20;
    r = u < (121u << 23) ? sub : r;
    r = u > 0x43e80000u ? 0x7fu : r; /* above 464: no number */
    return (uint8_t)(sign | r);
}
WFI_INLINE float of_e5m2(uint8_t b)
{
    return wfi_half_of_f16((uint16_t)(b << 8));
}
WFI_INLINE uint8_t to_e5m2(float f)
{
    uint32_t u = wfi_bits_f32(f), sign = u >> 24 & 0x80u;
    u &= 0x7fffffffu;
    uint32_t sub = wfi_bits_f32(wfi_of_bits_f32(u) + 128.f) - 0x43000000u;
    uint32_t r = (u - (112u << 23) + 0xfffffu + (u >> 21 & 1u)) >> 21;
    r = u < (113u << 23) ? sub : r;
    r = u >= 0x47700000u ? 0x7cu : r; /* from 61440, half way above the largest */
    r = u > 0x7f800000u ? 0x7eu : r;
    return (uint8_t)(sign | r);
}
/* To f32, rounded to odd: cut off, with the last bit set where something was lost. */
WFI_INLINE float odd_f64(double x)
{
    float f = (float)x;
    uint32_t lost = (uint32_t)((double)f != x) & (uint32_t)(x == x);
    uint32_t up = (uint32_t)((double)wfi_abs_f32(f) > wfi_abs_f64(x));
    return wfi_of_bits_f32((wfi_bits_f32(f) - up) | lost);
}
WFI_INLINE double odd_u64(uint64_t m)
{
    uint64_t big = m >> 53 != 0, cut = m >> 11 | (uint64_t)((m & 0x7ffu) != 0);
    return (double)(int64_t)(big ? cut : m) * (big ? 2048. : 1.);
}
WFI_INLINE double odd_i64(int64_t i)
{
    double r = odd_u64(i < 0 ? 0u - (uint64_t)i : (uint64_t)i);
    return i < 0 ? -r : r;
}
/* To f32 as a stage before a 16- or 8-bit float. */
WFI_INLINE float stage_i32(int32_t x)
{
    return odd_f64((double)x);
}
WFI_INLINE float stage_i64(int64_t x)
{
    return odd_f64(odd_i64(x));
}
WFI_INLINE float stage_u64(uint64_t x)
{
    return odd_f64(odd_u64(x));
}
WFI_INLINE float stage_f32(float x)
{
    return x;
}
WFI_INLINE float stage_f64(double x)
{
    return odd_f64(x);
}

/* A float to an integer of type T, lo <= T < end, both exact in the float; by way of W, which holds T. */
#define WFI_TRUNCATE(F, s)                                                                                             \
    WFI_INLINE int64_t whole_##s(F x, F lo, F end, int64_t max)                                                        \
    {                                                                                                                  \
        F t = wfi_sel_##s(x == x, x, 0);                                                                               \
        int over = t >= end;                                                                                           \
        t = wfi_sel_##s(over, 0, t);                                                                                   \
        t = lo > t ? lo : t;                                                                                           \
        return over ? max : (int64_t)t;                                                                                \
    }                                                                                                                  \
    WFI_INLINE int32_t small_##s(F x, F lo, F end, int32_t max)                                                        \
    {                                                                                                                  \
        F t = wfi_sel_##s(x == x, x, 0);                                                                               \
        int over = t >= end;                                                                                           \
        t = wfi_sel_##s(over, 0, t);                                                                                   \
        t = lo > t ? lo : t;                                                                                           \
        return over ? max : (int32_t)t;                                                                                \
    }                                                                                                                  \
    WFI_INLINE uint64_t unsigned_##s(F x)                                                                              \
    {                                                                                                                  \
        F t = x > 0 ? x : 0;                                                                                           \
        return t >= (F)0x1p64 ? UINT64_MAX : (uint64_t)t;                                                              \
    }
WFI_TRUNCATE(float, f32)
WFI_TRUNCATE(double, f64)
#undef WFI_TRUNCATE

/* ---- runs ---- */

#define RUN(name, Y, X, ...)                                                                                           \
    static void name(void *restrict to, const void *restrict from, int64_t n)                                          \
    {                                                                                                                  \
        Y *restrict y = to;                                                                                            \
        const X *restrict p = from;                                                                                    \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            X x = p[i];                                                                                                \
            y[i] = (Y)(__VA_ARGS__);                                                                                   \
        }                                                                                                              \
    }

/* source -> middle */
RUN(load_u8, int32_t, uint8_t, x)
RUN(load_i8, int32_t, int8_t, x)
RUN(load_u16, int32_t, uint16_t, x)
RUN(load_i16, int32_t, int16_t, x)
RUN(load_u32, int64_t, uint32_t, x)
RUN(load_bf16, float, uint16_t, wfi_half_of_bf16(x))
RUN(load_e4m3, float, uint8_t, of_e4m3(x))
RUN(load_e5m2, float, uint8_t, of_e5m2(x))
static void load_f16(void *restrict y, const void *restrict x, int64_t n)
{
    wfi_half_widen_f16(y, x, n);
}

/* middle -> target, from integers: to integers the low bits */
#define STORES_INT(s, X)                                                                                               \
    RUN(s##_i8, uint8_t, X, (uint8_t)x)                                                                                \
    RUN(s##_i16, uint16_t, X, (uint16_t)x)                                                                             \
    RUN(s##_i32, uint32_t, X, (uint32_t)x)                                                                             \
    RUN(s##_i64, uint64_t, X, (uint64_t)x)                                                                             \
    RUN(s##_bool, uint8_t, X, x != 0)                                                                                  \
    RUN(s##_f32, float, X, x)                                                                                          \
    RUN(s##_f64, double, X, x)
#define STORES_NARROW(s, X)                                                                                            \
    RUN(s##_bf16, uint16_t, X, wfi_half_to_bf16(stage_##s(x)))                                                         \
    RUN(s##_f16, uint16_t, X, wfi_half_to_f16(stage_##s(x)))                                                           \
    RUN(s##_e4m3, uint8_t, X, to_e4m3(stage_##s(x)))                                                                   \
    RUN(s##_e5m2, uint8_t, X, to_e5m2(stage_##s(x)))
#define STORES_FLOAT(s, X)                                                                                             \
    RUN(s##_i8, int8_t, X, small_##s(x, -128, 128, 127))                                                               \
    RUN(s##_u8, uint8_t, X, small_##s(x, 0, 256, 255))                                                                 \
    RUN(s##_i16, int16_t, X, small_##s(x, -32768, 32768, 32767))                                                       \
    RUN(s##_u16, uint16_t, X, small_##s(x, 0, 65536, 65535))                                                           \
    RUN(s##_i32, int32_t, X, small_##s(x, -(X)0x1p31, (X)0x1p31, INT32_MAX))                                           \
    RUN(s##_u32, uint32_t, X, whole_##s(x, 0, (X)0x1p32, UINT32_MAX))                                                  \
    RUN(s##_i64, int64_t, X, whole_##s(x, -(X)0x1p63, (X)0x1p63, INT64_MAX))                                           \
    RUN(s##_u64, uint64_t, X, unsigned_##s(x))                                                                         \
    RUN(s##_bool, uint8_t, X, x != 0)
STORES_INT(i32, int32_t)
STORES_INT(i64, int64_t)
STORES_INT(u64, uint64_t)
STORES_FLOAT(f32, float)
STORES_FLOAT(f64, double)
STORES_NARROW(i32, int32_t)
STORES_NARROW(i64, int64_t)
STORES_NARROW(u64, uint64_t)
STORES_NARROW(f64, double)
RUN(f32_bf16, uint16_t, float, wfi_half_to_bf16(x))
RUN(f32_e4m3, uint8_t, float, to_e4m3(x))
RUN(f32_e5m2, uint8_t, float, to_e5m2(x))
RUN(f32_f64, double, float, x)
RUN(f64_f32, float, double, x)
static void f32_f16(void *restrict y, const void *restrict x, int64_t n)
{
    wfi_half_narrow_f16(y, x, n);
}

enum { MID_I32, MID_I64, MID_U64, MID_F32, MID_F64, MIDS };

/* NULL: the source is its own middle */
static const struct {
    uint8_t mid;
    cast_fn *load;
} cast_from[WF_DTYPE_COUNT] = {
    [WF_F32] = { MID_F32, NULL },       [WF_F64] = { MID_F64, NULL },         [WF_F16] = { MID_F32, load_f16 },
    [WF_BF16] = { MID_F32, load_bf16 }, [WF_F8E4M3] = { MID_F32, load_e4m3 }, [WF_F8E5M2] = { MID_F32, load_e5m2 },
    [WF_I64] = { MID_I64, NULL },       [WF_U64] = { MID_U64, NULL },         [WF_I32] = { MID_I32, NULL },
    [WF_U32] = { MID_I64, load_u32 },   [WF_I16] = { MID_I32, load_i16 },     [WF_U16] = { MID_I32, load_u16 },
    [WF_I8] = { MID_I32, load_i8 },     [WF_U8] = { MID_I32, load_u8 },       [WF_BOOL] = { MID_I32, load_u8 },
};

#define TO_INT(s)                                                                                                      \
    [WF_I8] = s##_i8, [WF_U8] = s##_i8, [WF_I16] = s##_i16, [WF_U16] = s##_i16, [WF_I32] = s##_i32,                    \
    [WF_U32] = s##_i32, [WF_I64] = s##_i64, [WF_U64] = s##_i64, [WF_BOOL] = s##_bool, [WF_F32] = s##_f32,              \
    [WF_F64] = s##_f64
#define TO_NARROW(s) [WF_BF16] = s##_bf16, [WF_F16] = s##_f16, [WF_F8E4M3] = s##_e4m3, [WF_F8E5M2] = s##_e5m2
#define TO_WHOLE(s)                                                                                                    \
    [WF_I8] = s##_i8, [WF_U8] = s##_u8, [WF_I16] = s##_i16, [WF_U16] = s##_u16, [WF_I32] = s##_i32,                    \
    [WF_U32] = s##_u32, [WF_I64] = s##_i64, [WF_U64] = s##_u64, [WF_BOOL] = s##_bool
/* NULL: the middle is the target */
static cast_fn *const cast_to[MIDS][WF_DTYPE_COUNT] = {
    [MID_I32] = { TO_INT(i32), TO_NARROW(i32) },
    [MID_I64] = { TO_INT(i64), TO_NARROW(i64) },
    [MID_U64] = { TO_INT(u64), TO_NARROW(u64) },
    [MID_F32] = { TO_WHOLE(f32), TO_NARROW(f32), [WF_F64] = f32_f64 },
    [MID_F64] = { TO_WHOLE(f64), TO_NARROW(f64), [WF_F32] = f64_f32 },
};
enum { CAST_TILE = 256 };

/* n <= CAST_TILE elements, contiguous, to != from */
static void cast_run(wf_dtype to, void *restrict y, wf_dtype from, const void *restrict x, int64_t n)
{
    _Alignas(64) char middle[CAST_TILE * 8];
    int mid = cast_from[from].mid;
    cast_fn *load = cast_from[from].load, *store = cast_to[mid][to];
    if (load && store) {
        load(middle, x, n);
        store(y, middle, n);
    } else if (load) {
        load(y, x, n);
    } else {
        store(y, x, n);
    }
}

#endif
