/* vmath_f32.h - vector mathematics in f32; see vmath.h. */
#ifndef WFI_KERNEL_VMATH_F32_H
#define WFI_KERNEL_VMATH_F32_H
#include <stdint.h>
#include "kernel/isa.h"

WFI_INLINE uint32_t wfi_bits_f32(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, 4);
    return u;
}
WFI_INLINE float wfi_of_bits_f32(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, 4);
    return x;
}

#define WFI_INF_F32  __builtin_inff()
#define WFI_NAN_F32  __builtin_nanf("")
#define WFI_SIGN_F32 0x80000000u
#define WFI_ONE_F32  0x3f800000u

/* c ? a : b by masks. A plain ?: may be turned into a branch around the arithmetic of a, and then no loop vectorises.
 */
WFI_INLINE float wfi_sel_f32(int c, float a, float b)
{
    uint32_t m = 0u - (uint32_t)(c != 0);
    return wfi_of_bits_f32((m & wfi_bits_f32(a)) | (~m & wfi_bits_f32(b)));
}
WFI_INLINE float wfi_abs_f32(float x)
{
    return wfi_of_bits_f32(wfi_bits_f32(x) & ~WFI_SIGN_F32);
}
/* |mag| with the sign of s */
WFI_INLINE float wfi_signed_f32(float mag, float s)
{
    return wfi_of_bits_f32((wfi_bits_f32(mag) & ~WFI_SIGN_F32) | (wfi_bits_f32(s) & WFI_SIGN_F32));
}
/* x held between lo and hi; NaN stays NaN */
WFI_INLINE float wfi_clip_f32(float x, float lo, float hi)
{
    x = lo > x ? lo : x;
    return hi < x ? hi : x;
}

/* NaN wins; +0 is above -0 */
WFI_INLINE float wfi_max_f32(float a, float b)
{
    uint32_t r = wfi_bits_f32(wfi_sel_f32((a > b) | (a != a), a, b));
    return wfi_sel_f32(a == b, wfi_of_bits_f32(wfi_bits_f32(a) & wfi_bits_f32(b)), wfi_of_bits_f32(r));
}
WFI_INLINE float wfi_min_f32(float a, float b)
{
    uint32_t r = wfi_bits_f32(wfi_sel_f32((a < b) | (a != a), a, b));
    return wfi_sel_f32(a == b, wfi_of_bits_f32(wfi_bits_f32(a) | wfi_bits_f32(b)), wfi_of_bits_f32(r));
}
WFI_INLINE float wfi_sqrt_f32(float x)
{
    return __builtin_sqrtf(x);
}

/* To whole numbers: adding and taking away 2^23 drops the fraction. */
WFI_INLINE float wfi_round_f32(float x)
{
    float a = wfi_abs_f32(x), r = (a + 8388608.f) - 8388608.f;
    return wfi_signed_f32(wfi_sel_f32(a < 8388608.f, r, a), x);
}
WFI_INLINE float wfi_floor_f32(float x)
{
    float r = wfi_round_f32(x);
    return wfi_signed_f32(r - wfi_sel_f32(r > x, 1.f, 0.f), x);
}
WFI_INLINE float wfi_ceil_f32(float x)
{
    float r = wfi_round_f32(x);
    return wfi_signed_f32(r + wfi_sel_f32(r < x, 1.f, 0.f), x);
}

/* ---- exp and what is made of it ---- */

#define WFI_LOG2E_F32 1.44269504f
#define WFI_LN2HI_F32 0.693145752f /* 15 bits, then zeros: n * hi is exact for |n| < 512, also without FMA */
#define WFI_LN2LO_F32 1.42860677e-6f
#define WFI_MAGIC_F32 12582912.f /* 1.5 * 2^23: adding it leaves the nearest whole number in the low bits */

/* x = n ln 2 + r, |r| <= ln2/2; *t = n + magic. Returns r. */
WFI_INLINE float wfi_exp_reduce_f32(float x, float *t)
{
    *t = WFI_FMAF(x, WFI_LOG2E_F32, WFI_MAGIC_F32);
    float n = *t - WFI_MAGIC_F32;
    return WFI_FMAF(n, -WFI_LN2LO_F32, WFI_FMAF(n, -WFI_LN2HI_F32, x));
}
/* (exp(r) - 1 - r) / r^2: degree 4, so exp has degree 6, 2^-28.3 */
WFI_INLINE float wfi_exp_poly_f32(float r)
{
    float q = WFI_FMAF(0.00138147804f, r, 0.00836874638f);
    q = WFI_FMAF(q, r, 0.0416683853f);
    q = WFI_FMAF(q, r, 0.166665211f);
    return WFI_FMAF(q, r, 0.5f);
}
/* p * 2^n in two factors: overflow gives inf, subnormals round once. Products and not an integer added to the exponent:
 * that turns some NaNs into numbers. */
WFI_INLINE float wfi_exp_scale_f32(float p, float t)
{
    uint32_t b = wfi_bits_f32(t), h = b >> 1, d = b - h; /* low 9 bits: n >> 1 and n - (n >> 1) */
    return p * wfi_of_bits_f32((h << 23) + WFI_ONE_F32) * wfi_of_bits_f32((d << 23) + WFI_ONE_F32);
}
/* Both ends are chosen afterwards, whatever came out: cheaper than to clip x, and what attention masks (-inf) makes no
 * product that underflows, which would be slow. Below 2^-150: 0. */
WFI_INLINE float wfi_exp_f32(float x)
{
    float t, r = wfi_exp_reduce_f32(x, &t);
    float y = wfi_exp_scale_f32(WFI_FMAF(WFI_FMAF(wfi_exp_poly_f32(r), r, 1.f), r, 1.f), t);
    uint32_t keep = 0u - (uint32_t) !(x < -103.972084f);
    return wfi_sel_f32(x > 88.7228394f, WFI_INF_F32, wfi_of_bits_f32(wfi_bits_f32(y) & keep));
}
WFI_INLINE float wfi_expm1_f32(float x)
{
    float t, r = wfi_exp_reduce_f32(wfi_clip_f32(x, -18.f, 89.f), &t);
    float q = WFI_FMAF(wfi_exp_poly_f32(r) * r, r, r);
    float s = wfi_of_bits_f32((wfi_bits_f32(t) << 23) + (WFI_ONE_F32 - 0x00800000u)); /* 2^(n-1) */
    float e = WFI_FMAF(q, s, s - 0.5f);
    return wfi_signed_f32(e + e, x);
}
/* e = exp(-|x|) <= 1; x < 0 ? e / (1 + e) : 1 / (1 + e): no overflow, both tails exact */
WFI_INLINE float wfi_sigmoid_f32(float x)
{
    float e = wfi_exp_f32(wfi_of_bits_f32(wfi_bits_f32(x) | WFI_SIGN_F32));
    return wfi_sel_f32(x < 0.f, e, 1.f) / (1.f + e);
}
/* x P(x^2) / Q(x^2), degrees 4/4, 2^-25.5 on |x| <= 9.02, where tanh rounds to 1; rounding would reach 1 + 2 ulp */
WFI_INLINE float wfi_tanh_f32(float x)
{
    float a = wfi_abs_f32(x);
    a = 9.02f < a ? 9.02f : a;
    float u = a * a;
    float p = WFI_FMAF(1.33190392e-08f, u, 2.05834549e-05f);
    p = WFI_FMAF(p, u, 0.00349403266f);
    p = WFI_FMAF(p, u, 0.133797169f);
    p = WFI_FMAF(p, u, 1.f);
    float q = WFI_FMAF(7.76200466e-07f, u, 0.00032830899f);
    q = WFI_FMAF(q, u, 0.0258710664f);
    q = WFI_FMAF(q, u, 0.467130303f);
    q = WFI_FMAF(q, u, 1.f);
    float y = a * p / q;
    return wfi_signed_f32(1.f < y ? 1.f : y, x);
}
/* 4 e / (1 + e)^2, e = exp(-2|x|) */
WFI_INLINE float wfi_sech2_f32(float x)
{
    float a = wfi_abs_f32(x), e = wfi_exp_f32(-(a + a)), d = 1.f + e;
    return 4.f * e / (d * d);
}

/* ---- log ---- */

/* m in [sqrt(1/2), sqrt(2)), f = m - 1: log = e ln 2 + f - f^2/2 + f^3 R(f) */
WFI_INLINE float wfi_log_f32(float x)
{
    int small = x < 1.17549435e-38f; /* subnormal, zero or negative: scale by 2^23 */
    float y = wfi_sel_f32(small, x * 8388608.f, x);
    int32_t i = (int32_t)(wfi_bits_f32(y) - 0x3f3504f3u);
    float f = wfi_of_bits_f32(((uint32_t)i & 0x7fffffu) + 0x3f3504f3u) - 1.f, f2 = f * f;
    float e = (float)((i >> 23) - (small ? 23 : 0));
    float r = WFI_FMAF(-0.0763604641f, f, 0.127624512f);
    r = WFI_FMAF(r, f, -0.131599829f);
    r = WFI_FMAF(r, f, 0.142016158f);
    r = WFI_FMAF(r, f, -0.166233644f);
    r = WFI_FMAF(r, f, 0.200012326f);
    r = WFI_FMAF(r, f, -0.250008196f);
    r = WFI_FMAF(r, f, 0.333333313f);
    float s = WFI_FMAF(f2 * f, r, e * WFI_LN2LO_F32);
    s = WFI_FMAF(f2, -0.5f, s) + f;
    s = WFI_FMAF(e, WFI_LN2HI_F32, s);
    s = wfi_sel_f32(x == WFI_INF_F32, x, s);
    s = wfi_sel_f32(x == 0.f, -WFI_INF_F32, s);
    return wfi_sel_f32(!(x >= 0.f), WFI_NAN_F32, s);
}
/* log(u) x / (u - 1), u = 1 + x rounded: the quotient repairs what rounding took from x (Kahan) */
WFI_INLINE float wfi_log1p_f32(float x)
{
    float u = 1.f + x, d = u - 1.f;
    float y = wfi_log_f32(u) * (x / wfi_sel_f32(d == 0.f, 1.f, d));
    y = wfi_sel_f32(x == WFI_INF_F32, x, y);
    return wfi_sel_f32(d == 0.f, x, y);
}
WFI_INLINE float wfi_softplus_f32(float x)
{
    float e = wfi_exp_f32(wfi_of_bits_f32(wfi_bits_f32(x) | WFI_SIGN_F32));
    return (0.f > x ? 0.f : x) + wfi_log1p_f32(e);
}

/* ---- erf and gelu ---- */

/* x P(x^2) / Q(x^2), degrees 5/5, 2^-25.6 on |x| <= 3.93, where erf rounds to 1 */
WFI_INLINE float wfi_erf_f32(float x)
{
    float a = wfi_abs_f32(x);
    a = 3.93f < a ? 3.93f : a;
    float u = a * a;
    float p = WFI_FMAF(2.04179833e-06f, u, 0.000284796726f);
    p = WFI_FMAF(p, u, 0.00377963553f);
    p = WFI_FMAF(p, u, 0.0527903549f);
    p = WFI_FMAF(p, u, 0.190786257f);
    p = WFI_FMAF(p, u, 1.12837911f);
    float q = WFI_FMAF(3.8001639e-05f, u, 0.00116519502f);
    q = WFI_FMAF(q, u, 0.0149975112f);
    q = WFI_FMAF(q, u, 0.114258297f);
    q = WFI_FMAF(q, u, 0.502412617f);
    q = WFI_FMAF(q, u, 1.f);
    float y = a * p / q;
    return wfi_signed_f32(1.f < y ? 1.f : y, x);
}
/* -inf * 0 is NaN, so the factor stops at -40, where the other one has long been 0. */
WFI_INLINE float wfi_gelu_f32(float x)
{
    return 0.5f * (-40.f > x ? -40.f : x) * (1.f + wfi_erf_f32(x * 0.707106781f));
}
WFI_INLINE float wfi_gelu_grad_f32(float x)
{
    float a = wfi_clip_f32(x, -40.f, 40.f), d = wfi_exp_f32(-0.5f * a * a) * 0.398942280f;
    return WFI_FMAF(a, d, WFI_FMAF(0.5f, wfi_erf_f32(x * 0.707106781f), 0.5f));
}
/* (1 + tanh t) / 2 = sigmoid(2t), which keeps the lower tail. */
#define WFI_GELU_K_F32 1.59576912f   /* 2 sqrt(2/pi) */
#define WFI_GELU_C_F32 0.0713548163f /* the same times 0.044715 */
WFI_INLINE float wfi_gelu_tanh_f32(float x)
{
    float a = -40.f > x ? -40.f : x;
    return a * wfi_sigmoid_f32(a * WFI_FMAF(a * a, WFI_GELU_C_F32, WFI_GELU_K_F32));
}
WFI_INLINE float wfi_gelu_tanh_grad_f32(float x)
{
    float a = wfi_clip_f32(x, -40.f, 40.f), u = a * a, t = a * WFI_FMAF(u, WFI_GELU_C_F32, WFI_GELU_K_F32);
    float e = wfi_exp_f32(wfi_of_bits_f32(wfi_bits_f32(t) | WFI_SIGN_F32)), d = 1.f + e;
    float dt = WFI_FMAF(u, 3.f * WFI_GELU_C_F32, WFI_GELU_K_F32);
    return WFI_FMAF(a * dt, e / (d * d), wfi_sel_f32(t < 0.f, e, 1.f) / d);
}

/* ---- sin, cos ---- */

/* x 2/pi modulo 4 for every f32, as quadrant + remainder in [-1/2, 1/2]. In f64, where a product of x (24 bits) and 29
 * bits of 2/pi is exact. Of 2/pi only the bits count that do not make multiples of 4 with x, so each quarter of the
 * exponent range has its own 111 bits. Returns the remainder in radians, *quadrant modulo 4. */
WFI_INLINE float wfi_trig_reduce_f32(float x, uint32_t *quadrant)
{
    double v = (double)x, a = 0x1.45f306dp-1, b = 0x1.9391054p-30, c = 0x1.4fe13abe8fa9ap-59;
    float m = wfi_abs_f32(x);
    a = m >= 0x1p50f ? 0x1.b939105p-26 : a;
    b = m >= 0x1p50f ? 0x1.29fc274p-56 : b;
    c = m >= 0x1p50f ? 0x1.7d1f534ddc0dbp-84 : c;
    a = m >= 0x1p75f ? 0x1.529fc26p-52 : a;
    b = m >= 0x1p75f ? 0x1.57d1f53p-80 : b;
    c = m >= 0x1p75f ? 0x1.377036d8a5664p-110 : c;
    a = m >= 0x1p100f ? 0x1.d5f47d4p-78 : a;
    b = m >= 0x1p100f ? 0x1.a6ee06cp-107 : b;
    c = m >= 0x1p100f ? 0x1.b14acc9e21c82p-135 : c;
    const double magic = 0x1.8p52;
    double h = v * a, four = (h * 0.25 + magic) - magic;
    h = h - 4. * four; /* exact, |h| <= 2 */
    double l = v * b;
    double n = (h + l) + magic;
    double r = (h - (n - magic)) + l + v * c;
    uint64_t q;
    __builtin_memcpy(&q, &n, 8);
    *quadrant = (uint32_t)q;
    return (float)(r * 1.57079632679489662);
}
/* |r| <= pi/4: sine for an even quadrant, cosine for an odd one, minus in the upper two */
WFI_INLINE float wfi_trig_poly_f32(float r, uint32_t quadrant)
{
    float u = r * r;
    float s = WFI_FMAF(WFI_FMAF(-0.000195146321f, u, 0.00833215606f), u, -0.166666545f);
    float c = WFI_FMAF(WFI_FMAF(2.44324123e-5f, u, -0.00138873099f), u, 0.0416666456f);
    s = WFI_FMAF(r * u, s, r);
    c = WFI_FMAF(u * u, c, WFI_FMAF(u, -0.5f, 1.f));
    float y = wfi_sel_f32((int)(quadrant & 1u), c, s);
    return wfi_of_bits_f32(wfi_bits_f32(y) ^ ((quadrant & 2u) << 30));
}
WFI_INLINE float wfi_sin_f32(float x)
{
    uint32_t q;
    float r = wfi_trig_reduce_f32(x, &q);
    return wfi_sel_f32(x == 0.f, x, wfi_trig_poly_f32(r, q));
}
WFI_INLINE float wfi_cos_f32(float x)
{
    uint32_t q;
    float r = wfi_trig_reduce_f32(x, &q);
    return wfi_trig_poly_f32(r, q + 1u);
}

/* ---- pow ---- */

/* 2^(y log2|x|) in f64 with 2^-35 of error in each step, rounded once; then the signs and the ends of C11 F.10.4.4. */
WFI_INLINE float wfi_pow_f32(float x, float y)
{
    double ax = (double)wfi_abs_f32(x), yc = (double)wfi_clip_f32(y, -0x1p40f, 0x1p40f);
    uint64_t b, scale;
    __builtin_memcpy(&b, &ax, 8);
    b += (1024ull << 52) - 0x3fe6a09e00000000ull; /* the bias keeps the exponent's shift logical */
    uint64_t kb = (b >> 52) + 0x4338000000000000ull, mb = (b & 0xfffffffffffffull) + 0x3fe6a09e00000000ull;
    double k, m;
    __builtin_memcpy(&k, &kb, 8);
    __builtin_memcpy(&m, &mb, 8);
    k = k - (0x1.8p52 + 1024.);
    double f = m - 1., s = f / (2. + f), z = s * s;
    double p = WFI_FMA(0x1.21be06aeaf09ap-2, z, 0x1.479473397cb54p-2);
    p = WFI_FMA(p, z, 0x1.a61a341e37ff3p-2);
    p = WFI_FMA(p, z, 0x1.2776c28cc4e82p-1);
    p = WFI_FMA(p, z, 0x1.ec709dc541d7fp-1);
    p = WFI_FMA(p, z, 0x1.71547652b824ep+1);
    double t = yc * (k + s * p);
    t = -200. > t ? -200. : t;
    t = 200. < t ? 200. : t;
    double n = t + 0x1.8p52, r = t - (n - 0x1.8p52);
    double e = WFI_FMA(0x1.00f8ce501c73fp-16, r, 0x1.446de9f614d9ep-13);
    e = WFI_FMA(e, r, 0x1.5d8713cd2d74bp-10);
    e = WFI_FMA(e, r, 0x1.3b29d6ed7fbacp-7);
    e = WFI_FMA(e, r, 0x1.c6b08e08ca1cap-5);
    e = WFI_FMA(e, r, 0x1.ebfbe0ac2fda7p-3);
    e = WFI_FMA(e, r, 0x1.62e42fef6bef1p-1);
    e = WFI_FMA(e, r, 1.);
    __builtin_memcpy(&scale, &n, 8);
    scale = (scale << 52) + 0x3ff0000000000000ull;
    double two;
    __builtin_memcpy(&two, &scale, 8);
    float v = (float)(e * two), a = wfi_abs_f32(x);
    int whole = wfi_round_f32(y) == y, odd = whole & (wfi_round_f32(0.5f * y) != 0.5f * y);
    v = wfi_sel_f32(((a == 0.f) | (a == WFI_INF_F32)), wfi_sel_f32((a == 0.f) == (y > 0.f), 0.f, WFI_INF_F32), v);
    v = wfi_sel_f32((x < 0.f) & !whole & (a != WFI_INF_F32), WFI_NAN_F32, v);
    v = wfi_sel_f32((x != x) | (y != y), WFI_NAN_F32, v);
    uint32_t sign = wfi_bits_f32(x) & (odd ? WFI_SIGN_F32 : 0u);
    v = wfi_of_bits_f32(wfi_bits_f32(v) | sign);
    return wfi_sel_f32((y == 0.f) | (x == 1.f), 1.f, v);
}

#endif
