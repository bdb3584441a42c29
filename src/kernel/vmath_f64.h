/* vmath_f64.h - vector mathematics in f64; see vmath.h. sin and cos are the exception that no loop vectorises: they
 * look bits of 2/pi up. */
#ifndef WFI_KERNEL_VMATH_F64_H
#define WFI_KERNEL_VMATH_F64_H
#include <stdint.h>
#include "kernel/isa.h"

WFI_INLINE uint64_t wfi_bits_f64(double x)
{
    uint64_t u;
    __builtin_memcpy(&u, &x, 8);
    return u;
}
WFI_INLINE double wfi_of_bits_f64(uint64_t u)
{
    double x;
    __builtin_memcpy(&x, &u, 8);
    return x;
}

#define WFI_INF_F64   __builtin_inf()
#define WFI_NAN_F64   __builtin_nan("")
#define WFI_SIGN_F64  0x8000000000000000u
#define WFI_ONE_F64   0x3ff0000000000000u
#define WFI_MAGIC_F64 0x1.8p52 /* adding it leaves the nearest whole number in the low bits */

WFI_INLINE double wfi_sel_f64(int c, double a, double b)
{
    uint64_t m = 0u - (uint64_t)(c != 0);
    return wfi_of_bits_f64((m & wfi_bits_f64(a)) | (~m & wfi_bits_f64(b)));
}
WFI_INLINE double wfi_abs_f64(double x)
{
    return wfi_of_bits_f64(wfi_bits_f64(x) & ~WFI_SIGN_F64);
}
WFI_INLINE double wfi_signed_f64(double mag, double s)
{
    return wfi_of_bits_f64((wfi_bits_f64(mag) & ~WFI_SIGN_F64) | (wfi_bits_f64(s) & WFI_SIGN_F64));
}
WFI_INLINE double wfi_clip_f64(double x, double lo, double hi)
{
    x = lo > x ? lo : x;
    return hi < x ? hi : x;
}
WFI_INLINE double wfi_max_f64(double a, double b)
{
    uint64_t r = wfi_bits_f64(wfi_sel_f64((a > b) | (a != a), a, b));
    return wfi_sel_f64(a == b, wfi_of_bits_f64(wfi_bits_f64(a) & wfi_bits_f64(b)), wfi_of_bits_f64(r));
}
WFI_INLINE double wfi_min_f64(double a, double b)
{
    uint64_t r = wfi_bits_f64(wfi_sel_f64((a < b) | (a != a), a, b));
    return wfi_sel_f64(a == b, wfi_of_bits_f64(wfi_bits_f64(a) | wfi_bits_f64(b)), wfi_of_bits_f64(r));
}
WFI_INLINE double wfi_sqrt_f64(double x)
{
    return __builtin_sqrt(x);
}
WFI_INLINE double wfi_round_f64(double x)
{
    double a = wfi_abs_f64(x), r = (a + 0x1p52) - 0x1p52;
    return wfi_signed_f64(wfi_sel_f64(a < 0x1p52, r, a), x);
}
WFI_INLINE double wfi_floor_f64(double x)
{
    double r = wfi_round_f64(x);
    return wfi_signed_f64(r - wfi_sel_f64(r > x, 1., 0.), x);
}
WFI_INLINE double wfi_ceil_f64(double x)
{
    double r = wfi_round_f64(x);
    return wfi_signed_f64(r + wfi_sel_f64(r < x, 1., 0.), x);
}

/* ---- exp and what is made of it ---- */

#define WFI_LN2HI_F64 0x1.62e42feep-1 /* 32 bits: n * hi is exact for every n that occurs, also without FMA */
#define WFI_LN2LO_F64 0x1.a39ef35793c76p-33

WFI_INLINE double wfi_exp_reduce_f64(double x, double *t)
{
    *t = WFI_FMA(x, 0x1.71547652b82fep+0, WFI_MAGIC_F64);
    double n = *t - WFI_MAGIC_F64;
    return WFI_FMA(n, -WFI_LN2LO_F64, WFI_FMA(n, -WFI_LN2HI_F64, x));
}
/* (exp(r) - 1 - r) / r^2 for |r| <= ln2/2: degree 10, 2^-64 */
WFI_INLINE double wfi_exp_poly_f64(double r)
{
    double q = WFI_FMA(0x1.1f9dc4f9ce2cap-29, r, 0x1.af6e5d678fe75p-26);
    q = WFI_FMA(q, r, 0x1.27e4bf3c39ba8p-22);
    q = WFI_FMA(q, r, 0x1.71ddeeb0c6316p-19);
    q = WFI_FMA(q, r, 0x1.a01a01b458d7fp-16);
    q = WFI_FMA(q, r, 0x1.a01a01b414c98p-13);
    q = WFI_FMA(q, r, 0x1.6c16c16c1355ap-10);
    q = WFI_FMA(q, r, 0x1.111111110eacep-7);
    q = WFI_FMA(q, r, 0x1.555555555555ep-5);
    q = WFI_FMA(q, r, 0x1.555555555555cp-3);
    return WFI_FMA(q, r, 0.5);
}
WFI_INLINE double wfi_exp_scale_f64(double p, double t)
{
    uint64_t b = wfi_bits_f64(t), h = b >> 1, d = b - h;
    return p * wfi_of_bits_f64((h << 52) + WFI_ONE_F64) * wfi_of_bits_f64((d << 52) + WFI_ONE_F64);
}
WFI_INLINE double wfi_exp_f64(double x)
{
    double t, r = wfi_exp_reduce_f64(wfi_clip_f64(x, -746., 710.), &t);
    double p = 1. + WFI_FMA(wfi_exp_poly_f64(r) * r, r, r);
    uint64_t keep = 0u - (uint64_t) !(x < -745.1332191019412);
    return wfi_exp_scale_f64(wfi_of_bits_f64(wfi_bits_f64(p) & keep), t);
}
WFI_INLINE double wfi_expm1_f64(double x)
{
    double t, r = wfi_exp_reduce_f64(wfi_clip_f64(x, -40., 710.), &t);
    double q = WFI_FMA(wfi_exp_poly_f64(r) * r, r, r);
    double s = wfi_of_bits_f64((wfi_bits_f64(t) << 52) + (WFI_ONE_F64 - 0x0010000000000000u)); /* 2^(n-1) */
    double e = WFI_FMA(q, s, s - 0.5);
    return wfi_signed_f64(e + e, x);
}
WFI_INLINE double wfi_sigmoid_f64(double x)
{
    double e = wfi_exp_f64(wfi_of_bits_f64(wfi_bits_f64(x) | WFI_SIGN_F64));
    return wfi_sel_f64(x < 0., e, 1.) / (1. + e);
}
/* e / (e + 2), e = exp(2x) - 1 */
WFI_INLINE double wfi_tanh_f64(double x)
{
    double a = wfi_clip_f64(x, -20., 20.), e = wfi_expm1_f64(a + a);
    return e / (e + 2.);
}
WFI_INLINE double wfi_sech2_f64(double x)
{
    double a = wfi_abs_f64(x), e = wfi_exp_f64(-(a + a)), d = 1. + e;
    return 4. * e / (d * d);
}

/* ---- log ---- */

/* y = 2^*k m, m in [sqrt(1/2), sqrt(2)); y > 0 and normal. Returns m - 1. */
WFI_INLINE double wfi_log_reduce_f64(double y, double *k)
{
    uint64_t b = wfi_bits_f64(y) + (1024ull << 52) - 0x3fe6a09e00000000u; /* the bias keeps the shift logical */
    *k = wfi_of_bits_f64((b >> 52) + 0x4338000000000000u) - (WFI_MAGIC_F64 + 1024.);
    return wfi_of_bits_f64((b & 0xfffffffffffffu) + 0x3fe6a09e00000000u) - 1.;
}
/* s = f / (2 + f), z = s^2: log(1 + f) = 2s + s z R(z) = f - f^2/2 + s (f^2/2 + z R), R of degree 7, 2^-66 */
WFI_INLINE double wfi_log_f64(double x)
{
    int small = x < 0x1p-1022;
    double y = wfi_sel_f64(small, x * 0x1p54, x), k, f = wfi_log_reduce_f64(y, &k);
    k = k - wfi_sel_f64(small, 54., 0.);
    double s = f / (2. + f), z = s * s, h = 0.5 * f * f;
    double r = WFI_FMA(0x1.0f72f7e047349p-3, z, 0x1.0f5b0b7e7bed0p-3);
    r = WFI_FMA(r, z, 0x1.3b20bf39e27a9p-3);
    r = WFI_FMA(r, z, 0x1.745cddc30b559p-3);
    r = WFI_FMA(r, z, 0x1.c71c725a6a5f7p-3);
    r = WFI_FMA(r, z, 0x1.249249242a0d0p-2);
    r = WFI_FMA(r, z, 0x1.9999999999e0ep-2);
    r = WFI_FMA(r, z, 0x1.5555555555555p-1);
    double v = WFI_FMA(s, WFI_FMA(r, z, h), k * WFI_LN2LO_F64) - h + f;
    v = WFI_FMA(k, WFI_LN2HI_F64, v);
    v = wfi_sel_f64(x == WFI_INF_F64, x, v);
    v = wfi_sel_f64(x == 0., -WFI_INF_F64, v);
    return wfi_sel_f64(!(x >= 0.), WFI_NAN_F64, v);
}
WFI_INLINE double wfi_log1p_f64(double x)
{
    double u = 1. + x, d = u - 1.;
    double y = wfi_log_f64(u) * (x / wfi_sel_f64(d == 0., 1., d));
    y = wfi_sel_f64(x == WFI_INF_F64, x, y);
    return wfi_sel_f64(d == 0., x, y);
}
WFI_INLINE double wfi_softplus_f64(double x)
{
    double e = wfi_exp_f64(wfi_of_bits_f64(wfi_bits_f64(x) | WFI_SIGN_F64));
    return (0. > x ? 0. : x) + wfi_log1p_f64(e);
}

/* ---- erf and gelu ---- */

/* |x| < 1: x + x P(x^2), degree 11, 2^-57; above: 1 - exp(-x^2) E((x - 4) / (x + 4)), degree 12, 2^-60 up to 6 */
WFI_INLINE double wfi_erf_f64(double x)
{
    double u = wfi_clip_f64(wfi_abs_f64(x), 0., 6.), z = u * u, t = (u - 4.) / (u + 4.);
    double p = WFI_FMA(-0x1.abae3f2b28261p-31, z, 0x1.d71b0bbe2722cp-27);
    p = WFI_FMA(p, z, -0x1.5c0726720bc97p-23);
    p = WFI_FMA(p, z, 0x1.b97fd3c481b99p-20);
    p = WFI_FMA(p, z, -0x1.f4ca4d6d09df1p-17);
    p = WFI_FMA(p, z, 0x1.f9a2baa8d85d8p-14);
    p = WFI_FMA(p, z, -0x1.c02db03dd563ap-11);
    p = WFI_FMA(p, z, 0x1.565bccf92b22cp-8);
    p = WFI_FMA(p, z, -0x1.b82ce311fa936p-6);
    p = WFI_FMA(p, z, 0x1.ce2f21a040d16p-4);
    p = WFI_FMA(p, z, -0x1.812746b0379bdp-2);
    p = WFI_FMA(p, z, 0x1.06eba8214db68p-3);
    double e = WFI_FMA(0x1.81447a71e4068p-16, t, 0x1.ac521a8dac11ap-13);
    e = WFI_FMA(e, t, 0x1.508bfab266524p-13);
    e = WFI_FMA(e, t, -0x1.4984a91777621p-11);
    e = WFI_FMA(e, t, 0x1.1159bd212f311p-8);
    e = WFI_FMA(e, t, -0x1.a32ea15ecdddap-7);
    e = WFI_FMA(e, t, 0x1.008b60437d5f0p-5);
    e = WFI_FMA(e, t, -0x1.0278e05607940p-4);
    e = WFI_FMA(e, t, 0x1.be50f369ba8ffp-4);
    e = WFI_FMA(e, t, -0x1.50665b042c50cp-3);
    e = WFI_FMA(e, t, 0x1.bff01b4c90d7dp-3);
    e = WFI_FMA(e, t, -0x1.0949226e34b8ap-2);
    e = WFI_FMA(e, t, 0x1.18932bf0c05fdp-3);
    return wfi_signed_f64(wfi_sel_f64(u < 1., WFI_FMA(u, p, u), WFI_FMA(-e, wfi_exp_f64(-z), 1.)), x);
}
WFI_INLINE double wfi_gelu_f64(double x)
{
    return 0.5 * (-40. > x ? -40. : x) * (1. + wfi_erf_f64(x * 0.70710678118654752));
}
WFI_INLINE double wfi_gelu_grad_f64(double x)
{
    double a = wfi_clip_f64(x, -40., 40.), d = wfi_exp_f64(-0.5 * a * a) * 0.39894228040143268;
    return WFI_FMA(a, d, WFI_FMA(0.5, wfi_erf_f64(x * 0.70710678118654752), 0.5));
}
#define WFI_GELU_K_F64 1.5957691216057308   /* 2 sqrt(2/pi) */
#define WFI_GELU_C_F64 0.071354816272600254 /* the same times 0.044715 */
WFI_INLINE double wfi_gelu_tanh_f64(double x)
{
    double a = -40. > x ? -40. : x;
    return a * wfi_sigmoid_f64(a * WFI_FMA(a * a, WFI_GELU_C_F64, WFI_GELU_K_F64));
}
WFI_INLINE double wfi_gelu_tanh_grad_f64(double x)
{
    double a = wfi_clip_f64(x, -40., 40.), u = a * a, t = a * WFI_FMA(u, WFI_GELU_C_F64, WFI_GELU_K_F64);
    double e = wfi_exp_f64(wfi_of_bits_f64(wfi_bits_f64(t) | WFI_SIGN_F64)), d = 1. + e;
    double dt = WFI_FMA(u, 3. * WFI_GELU_C_F64, WFI_GELU_K_F64);
    return WFI_FMA(a * dt, e / (d * d), wfi_sel_f64(t < 0., e, 1.) / d);
}

/* ---- sin, cos ---- */

__extension__ typedef unsigned __int128 wfi_u128;
__extension__ typedef __int128 wfi_i128;

/* x 2/pi modulo 4 (Payne and Hanek): 192 bits of 2/pi, chosen by the exponent of x, times the 53 bits of x. Returns the
 * remainder in radians, |r| <= pi/4, and *quadrant modulo 4. Small x is its own remainder. */
WFI_INLINE double wfi_trig_reduce_f64(double x, uint32_t *quadrant)
{
    static const uint64_t two_over_pi[22] = { 0, /* weights 2^63 .. 2^0, for small x */
                                              0xa2f9836e4e441529u,
                                              0xfc2757d1f534ddc0u,
                                              0xdb6295993c439041u,
                                              0xfe5163abdebbc561u,
                                              0xb7246e3a424dd2e0u,
                                              0x06492eea09d1921cu,
                                              0xfe1deb1cb129a73eu,
                                              0xe88235f52ebb4484u,
                                              0xe99c7026b45f7e41u,
                                              0x3991d639835339f4u,
                                              0x9c845f8bbdf9283bu,
                                              0x1ff897ffde05980fu,
                                              0xef2f118b5a0a6d1fu,
                                              0x6d367ecf27cb09b7u,
                                              0x4f463f669e5fea2du,
                                              0x7527bac7ebe5f17bu,
                                              0x3d0739f78a5292eau,
                                              0x6bfb5fb11f8d5d08u,
                                              0x56033046fc7b6babu,
                                              0xf0cfbc209af4361du,
                                              0 };
    uint64_t b = wfi_bits_f64(x), man = (b & 0xfffffffffffffu) | 0x10000000000000u;
    int e = (int)(b >> 52 & 0x7ff) - 1023;
    *quadrant = 0;
    if (wfi_abs_f64(x) < 0.78539816) {
        return x;
    }
    if (e == 1024) {
        return WFI_NAN_F64;
    }
    int at = e - 54 + 64, word = at >> 6, bit = at & 63; /* the first bit of 2/pi that is no multiple of 4 with x */
    const uint64_t *w = two_over_pi + word;
    uint64_t w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
    if (bit) {
        w0 = w0 << bit | w1 >> (64 - bit);
        w1 = w1 << bit | w2 >> (64 - bit);
        w2 = w2 << bit | w3 >> (64 - bit);
    }
    wfi_u128 low = (wfi_u128)man * w2, mid = (wfi_u128)man * w1 + (uint64_t)(low >> 64);
    wfi_u128 top = mid + ((wfi_u128)(man * w0) << 64); /* modulo 2^128: x 2/pi modulo 4, times 2^126 */
    uint32_t q = (uint32_t)((top + ((wfi_u128)1 << 125)) >> 126);
    wfi_i128 frac = (wfi_i128)(top - ((wfi_u128)q << 126));
    double hi = (double)(int64_t)(frac >> 64), lo = (double)(uint64_t)frac * 0x1p-64;
    double r = (hi + lo) * (0x1.921fb54442d18p+0 * 0x1p-62);
    *quadrant = b >> 63 ? 0u - q : q;
    return b >> 63 ? -r : r;
}
WFI_INLINE double wfi_trig_poly_f64(double r, uint32_t quadrant)
{
    double u = r * r;
    double s = WFI_FMA(-0x1.aaa04be7cb767p-41, u, 0x1.61208856d4683p-33);
    s = WFI_FMA(s, u, -0x1.ae64528764f98p-26);
    s = WFI_FMA(s, u, 0x1.71de3a532bee3p-19);
    s = WFI_FMA(s, u, -0x1.a01a01a018a35p-13);
    s = WFI_FMA(s, u, 0x1.111111111110bp-7);
    s = WFI_FMA(s, u, -0x1.5555555555555p-3);
    double c = WFI_FMA(0x1.aabb287306ed6p-45, u, -0x1.93931fd3f9364p-37);
    c = WFI_FMA(c, u, 0x1.1eed8c8d02db2p-29);
    c = WFI_FMA(c, u, -0x1.27e4fb75e82f8p-22);
    c = WFI_FMA(c, u, 0x1.a01a01a018c98p-16);
    c = WFI_FMA(c, u, -0x1.6c16c16c16c0fp-10);
    c = WFI_FMA(c, u, 0x1.5555555555555p-5);
    s = WFI_FMA(r * u, s, r);
    c = WFI_FMA(u * u, c, WFI_FMA(u, -0.5, 1.));
    double y = wfi_sel_f64((int)(quadrant & 1u), c, s);
    return wfi_of_bits_f64(wfi_bits_f64(y) ^ ((uint64_t)(quadrant & 2u) << 62));
}
WFI_INLINE double wfi_sin_f64(double x)
{
    uint32_t q;
    double r = wfi_trig_reduce_f64(x, &q);
    return wfi_sel_f64(x == 0., x, wfi_trig_poly_f64(r, q));
}
WFI_INLINE double wfi_cos_f64(double x)
{
    uint32_t q;
    double r = wfi_trig_reduce_f64(x, &q);
    return wfi_trig_poly_f64(r, q + 1u);
}

/* ---- pow ---- */

/* The rounding error of p = a * b (Dekker, where there is no FMA). */
WFI_INLINE double wfi_mul_err_f64(double a, double b, double p)
{
#ifdef __FMA__
    return __builtin_fma(a, b, -p);
#else
    double c = 134217729. * a, ah = c - (c - a), al = a - ah, d = 134217729. * b, bh = d - (d - b), bl = b - bh;
    return ((ah * bh - p) + ah * bl + al * bh) + al * bl;
#endif
}
/* log x as *lo + result to 2^-66: 2s + 2/3 s^3 in two doubles, the rest in one. x > 0, finite. */
WFI_INLINE double wfi_log_twice_f64(double x, double *lo)
{
    int small = x < 0x1p-1022;
    double k, f = wfi_log_reduce_f64(wfi_sel_f64(small, x * 0x1p54, x), &k);
    k = k - wfi_sel_f64(small, 54., 0.);
    double d = 2. + f, dl = f - (d - 2.), s = f / d, p = s * d;
    double sl = ((f - p) - wfi_mul_err_f64(s, d, p) - s * dl) / d;
    double z = s * s, zl = wfi_mul_err_f64(s, s, z) + 2. * s * sl;
    double c = s * z, cl = wfi_mul_err_f64(s, z, c) + s * zl + sl * z;
    double u = 0x1.5555555555555p-1 * c;
    double ul = wfi_mul_err_f64(0x1.5555555555555p-1, c, u) + 0x1.5555555555555p-1 * cl + 0x1.5555555555555p-55 * c;
    double r = WFI_FMA(0x1.0e523ea3ba822p-3, z, 0x1.0f7e48d2224e0p-3);
    r = WFI_FMA(r, z, 0x1.3b1efd5b3db46p-3);
    r = WFI_FMA(r, z, 0x1.745ce986a2086p-3);
    r = WFI_FMA(r, z, 0x1.c71c722e6aab0p-3);
    r = WFI_FMA(r, z, 0x1.249249245723ap-2);
    r = WFI_FMA(r, z, 0x1.9999999999b36p-2);
    double a = k * WFI_LN2HI_F64, h = a + 2. * s, e1 = 2. * s - (h - a), g = h + u, e2 = u - (g - h);
    double rest = (((c * z) * r + ul) + 2. * sl) + k * WFI_LN2LO_F64 + (e1 + e2);
    double hi = g + rest;
    *lo = rest - (hi - g);
    return hi;
}
WFI_INLINE double wfi_pow_f64(double x, double y)
{
    double a = wfi_abs_f64(x), yc = wfi_clip_f64(y, -0x1p70, 0x1p70);
    int end = (a == 0.) | (a == WFI_INF_F64);
    double ll, lh = wfi_log_twice_f64(wfi_sel_f64(end, 1., a), &ll);
    double th = yc * lh, tl = wfi_mul_err_f64(yc, lh, th) + yc * ll, t;
    double r = wfi_exp_reduce_f64(wfi_clip_f64(th, -760., 720.), &t);
    r += wfi_sel_f64(wfi_abs_f64(th) < 800., tl, 0.);
    double v = wfi_exp_scale_f64(1. + WFI_FMA(wfi_exp_poly_f64(r) * r, r, r), t);
    int whole = wfi_round_f64(y) == y, odd = whole & (wfi_round_f64(0.5 * y) != 0.5 * y);
    v = wfi_sel_f64(end, wfi_sel_f64((a == 0.) == (y > 0.), 0., WFI_INF_F64), v);
    v = wfi_sel_f64((x < 0.) & !whole & (a != WFI_INF_F64), WFI_NAN_F64, v);
    v = wfi_sel_f64((x != x) | (y != y), WFI_NAN_F64, v);
    v = wfi_of_bits_f64(wfi_bits_f64(v) | (wfi_bits_f64(x) & (odd ? WFI_SIGN_F64 : 0u)));
    return wfi_sel_f64((y == 0.) | (x == 1.), 1., v);
}

#endif
