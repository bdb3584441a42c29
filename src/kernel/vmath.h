/* vmath.h - vector mathematics: exp, log, tanh and their like as plain inline functions without branches, tables or
 * libm, so that a loop over them becomes vector code with gcc and clang.
 *
 *     for (int64_t i = 0; i < n; i++) {
 *         y[i] = wfi_exp_f32(x[i]);      in a loop, or
 *         y[i] = vexp(x[i]);             by the type of the argument: f32 or f64; vmax, vmin, vabs, vdiv also whole
 * numbers
 *     }
 *
 * Infinities, NaN, signed zeros and subnormals are right in every function; NaN has one value. FMAs are written out and
 * nothing is contracted, so gcc and clang give the same bits, and avx2 and avx512 do; portable (no FMA) has its own.
 *
 * Largest errors, in units of the last place (tests/unit/test_vmath.c holds them to it; the f32 bounds are those of the
 * portable set, with FMA they are up to a quarter smaller):
 *
 *             f32    f64                 f32    f64                  f32    f64
 *     exp     1.2    1.0      tanh       5.2    3.0       sin cos    1.6    2.8
 *     expm1   1.9    2.0      sech2      3.6    4.0       pow        0.51   1.3
 *     log     0.9    1.0      sigmoid    2.5    2.5       sqrt       0.5    0.5
 *     log1p   2.5    2.5      softplus   3.0    3.0       floor ceil round   exact
 *     erf     5.6    2.0
 *
 * gelu and its derivative lose the lower tail, as 1 + erf does: the error is below 4e-7 max(1, |x|) (f64: 4e-16);
 * gelu_tanh keeps it, with a relative error that grows as exp's argument does (200 ulp at -10). */
#ifndef WFI_KERNEL_VMATH_H
#define WFI_KERNEL_VMATH_H

/* gcc keeps a branch around arithmetic that might trap, and with it the loop scalar. Nothing here enables traps. */
#if defined __GNUC__ && !defined __clang__
#pragma GCC optimize("no-trapping-math")
#endif

#include "kernel/vmath_f32.h"
#include "kernel/vmath_f64.h"

/* Whole numbers wrap; division rounds toward zero, x / 0 is 0. */
#define WFI_VMATH_INT(T, U, s)                                                                                         \
    WFI_INLINE T wfi_max_##s(T a, T b)                                                                                 \
    {                                                                                                                  \
        return a > b ? a : b;                                                                                          \
    }                                                                                                                  \
    WFI_INLINE T wfi_min_##s(T a, T b)                                                                                 \
    {                                                                                                                  \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    WFI_INLINE T wfi_abs_##s(T a)                                                                                      \
    {                                                                                                                  \
        return a < 0 ? (T)(0 - (U)a) : a;                                                                              \
    }                                                                                                                  \
    WFI_INLINE T wfi_div_##s(T a, T b)                                                                                 \
    {                                                                                                                  \
        return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : a / b;                                                           \
    }
WFI_VMATH_INT(int32_t, uint32_t, i32)
WFI_VMATH_INT(int64_t, uint64_t, i64)
#undef WFI_VMATH_INT

WFI_INLINE float wfi_div_f32(float a, float b)
{
    return a / b;
}
WFI_INLINE double wfi_div_f64(double a, double b)
{
    return a / b;
}
WFI_INLINE int wfi_isinf_f32(float a)
{
    return wfi_abs_f32(a) == WFI_INF_F32;
}
WFI_INLINE int wfi_isinf_f64(double a)
{
    return wfi_abs_f64(a) == WFI_INF_F64;
}
WFI_INLINE int wfi_isfinite_f32(float a)
{
    return wfi_abs_f32(a) < WFI_INF_F32;
}
WFI_INLINE int wfi_isfinite_f64(double a)
{
    return wfi_abs_f64(a) < WFI_INF_F64;
}

/* By type: float and double, or those and int32_t, int64_t. */
#define WFI_VF(name, x) _Generic((x), double : wfi_##name##_f64, default : wfi_##name##_f32)
#define WFI_VFI(name, x)                                                                                               \
    _Generic((x), double                                                                                               \
             : wfi_##name##_f64, float                                                                                 \
             : wfi_##name##_f32, int64_t                                                                               \
             : wfi_##name##_i64, default                                                                               \
             : wfi_##name##_i32)

#define vmax(a, b) WFI_VFI(max, a)(a, b)
#define vmin(a, b) WFI_VFI(min, a)(a, b)
#define vdiv(a, b) WFI_VFI(div, a)(a, b)
#define vabs(a)    WFI_VFI(abs, a)(a)

#define vsel(c, a, b)      WFI_VF(sel, b)(c, a, b) /* c ? a : b, both computed */
#define vsqrt(a)           WFI_VF(sqrt, a)(a)
#define vexp(a)            WFI_VF(exp, a)(a)
#define vexpm1(a)          WFI_VF(expm1, a)(a)
#define vlog(a)            WFI_VF(log, a)(a)
#define vlog1p(a)          WFI_VF(log1p, a)(a)
#define vpow(a, b)         WFI_VF(pow, a)(a, b)
#define vtanh(a)           WFI_VF(tanh, a)(a)
#define vsech2(a)          WFI_VF(sech2, a)(a) /* 1 / cosh(a)^2 */
#define vsigmoid(a)        WFI_VF(sigmoid, a)(a)
#define vsoftplus(a)       WFI_VF(softplus, a)(a)
#define verf(a)            WFI_VF(erf, a)(a)
#define vgelu(a)           WFI_VF(gelu, a)(a)
#define vgelu_grad(a)      WFI_VF(gelu_grad, a)(a)
#define vgelu_tanh(a)      WFI_VF(gelu_tanh, a)(a)
#define vgelu_tanh_grad(a) WFI_VF(gelu_tanh_grad, a)(a)
#define vsin(a)            WFI_VF(sin, a)(a)
#define vcos(a)            WFI_VF(cos, a)(a)
#define vfloor(a)          WFI_VF(floor, a)(a)
#define vceil(a)           WFI_VF(ceil, a)(a)
#define vround(a)          WFI_VF(round, a)(a)
#define visinf(a)          WFI_VF(isinf, a)(a)
#define visfinite(a)       WFI_VF(isfinite, a)(a)

#endif
