/* dtype.h - exact conversions between the element types.
 *
 * Narrowing rounds to the nearest, ties to even. NaN stays NaN (made quiet, sign kept). Too large: infinity, or NaN in
 * f8e4m3, which has none. Widening is exact. These are the slow, right ones; kernels have vector code of their own. */
#ifndef WFI_BASE_DTYPE_H
#define WFI_BASE_DTYPE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "weft/types.h"

static inline uint32_t wfi_f32_bits(float v)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    return u;
}
static inline float wfi_f32_of_bits(uint32_t u)
{
    float v;
    memcpy(&v, &u, sizeof v);
    return v;
}

static inline float wfi_bf16_to_f32(uint16_t h)
{
    return wfi_f32_of_bits((uint32_t)h << 16);
}
static inline uint16_t wfi_f32_to_bf16(float v)
{
    uint32_t u = wfi_f32_bits(v);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

float wfi_f16_to_f32(uint16_t h);
float wfi_f8e4m3_to_f32(uint8_t b);
float wfi_f8e5m2_to_f32(uint8_t b);

uint16_t wfi_f32_to_f16(float v);
uint8_t wfi_f32_to_f8e4m3(float v);
uint8_t wfi_f32_to_f8e5m2(float v);

/* Rounded once, not by way of f32. */
uint16_t wfi_f64_to_bf16(double v);
uint16_t wfi_f64_to_f16(double v);
uint8_t wfi_f64_to_f8e4m3(double v);
uint8_t wfi_f64_to_f8e5m2(double v);

/* True for f64, f32, f16, bf16 and the 8-bit floats. */
bool wfi_dtype_is_float(wf_dtype t);
/* True for i8 .. i64 and u8 .. u64; bool is neither. */
bool wfi_dtype_is_int(wf_dtype t);

/* A double as an integer: towards zero; NaN gives 0, what does not fit the nearest that does. Never undefined. */
int64_t wfi_f64_to_i64(double v);
uint64_t wfi_f64_to_u64(double v);

/* Element i of p[]; p needs no alignment. load rounds i64 and u64 beyond 2^53 to the nearest double. store rounds
 * once to a float type; to an integer type it behaves like wfi_f64_to_i64, within that type's range; to bool it gives
 * v != 0, so NaN gives true. No type: load gives 0, store does nothing. */
double wfi_dtype_load(wf_dtype t, const void *p, int64_t i);
void wfi_dtype_store(wf_dtype t, void *p, int64_t i, double v);

/* The same with integers, exact for i64. A u64 is taken modulo 2^64, so it survives the way through both; storing to
 * a narrower integer type keeps its low bits, as casts in C and NumPy do. Storing to a float type rounds once. */
int64_t wfi_dtype_load_i64(wf_dtype t, const void *p, int64_t i);
void wfi_dtype_store_i64(wf_dtype t, void *p, int64_t i, int64_t v);

/* Converts n elements between any two types by the rules above; every pair is exact where the target can hold the
 * value. dst and src do not overlap. */
void wfi_dtype_cast(wf_dtype to, void *dst, wf_dtype from, const void *src, int64_t n);

#endif
