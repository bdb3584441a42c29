/* conv_span.h - moves pixels between a tensor of any strides and the packed rows that the tiles read. */
#include "kernel/conv/narrow.h"

WFI_INLINE T widen(const void *p, int64_t i, wf_dtype t)
{
#if T_IS_FLOAT
    if (t == WF_BF16) {
        return widen_bf16(((const uint16_t *)p)[i]);
    }
    if (t == WF_F16) {
        return widen_f16(((const uint16_t *)p)[i]);
    }
#else
    (void)t;
#endif
    return ((const T *)p)[i];
}

WFI_INLINE void narrow(void *p, int64_t i, T v, wf_dtype t)
{
#if T_IS_FLOAT
    if (t == WF_BF16) {
        ((uint16_t *)p)[i] = narrow_bf16(v);
        return;
    }
    if (t == WF_F16) {
        ((uint16_t *)p)[i] = narrow_f16(v);
        return;
    }
#else
    (void)t;
#endif
    ((T *)p)[i] = v;
}

WFI_INLINE bool is_native(wf_dtype t)
{
    return t == (T_IS_FLOAT ? WF_F32 : WF_F64);
}

WFI_INLINE const void *at(const void *p, int64_t i, wf_dtype t)
{
    return (const char *)p + i * (int64_t)(is_native(t) ? sizeof(T) : 2);
}

WFI_INLINE void *at_mut(void *p, int64_t i, wf_dtype t)
{
    return (char *)p + i * (int64_t)(is_native(t) ? sizeof(T) : 2);
}

/* dst[i * dp + j] = src[i * sp + j * sc], i < n, j < c */
WFI_INLINE void copy_as(T *dst, int64_t dp, const void *src, int64_t sp, int64_t sc, int64_t n, int64_t c, wf_dtype t)
{
    if (sc == 1 && c > 1) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < c; j++) {
                dst[i * dp + j] = widen(src, i * sp + j, t);
            }
        }
        return;
    }
    for (int64_t j = 0; j < c; j++) {
        for (int64_t i = 0; i < n; i++) {
            dst[i * dp + j] = widen(src, i * sp + j * sc, t);
        }
    }
}

#if T_IS_FLOAT
/* The same for f32 with the pixels side by side (NCHW): tiles of L x L turned in registers. */
static __attribute__((noinline, unused)) void copy_planar(T *dst, int64_t dp, const T *src, int64_t sc, int64_t n,
                                                          int64_t c)
{
    int64_t cl = c / L * L, nl = n / L * L;
    for (int64_t j = 0; j < cl; j += L) {
        for (int64_t i = 0; i < nl; i += L) {
            V r[L];
            UNROLL for (int k = 0; k < L; k++)
            {
                r[k] = load(src + (j + k) * sc + i);
            }
            transpose(r);
            UNROLL for (int k = 0; k < L; k++)
            {
                store(dst + (i + k) * dp + j, r[k]);
            }
        }
        copy_as(dst + nl * dp + j, dp, src + j * sc + nl, 1, sc, n - nl, L, WF_F32);
    }
    copy_as(dst + cl, dp, src + cl * sc, 1, sc, n, c - cl, WF_F32);
}
#endif

static inline void copy_pixels(T *dst, int64_t dp, const void *src, int64_t sp, int64_t sc, int64_t n, int64_t c,
                               wf_dtype t)
{
    if (is_native(t)) {
        if ((sc == 1 || c == 1) && sp == c && dp == c) {
            memcpy(dst, src, (size_t)(n * c) * sizeof(T));
        } else if (sc == 1 && c % L == 0) {
            for (int64_t i = 0; i < n; i++) {
                for (int64_t j = 0; j < c; j += L) {
                    store(dst + i * dp + j, load((const T *)src + i * sp + j));
                }
            }
        } else if (sc == 1 && c >= L) {
            for (int64_t i = 0; i < n; i++) {
                memcpy(dst + i * dp, (const T *)src + i * sp, (size_t)c * sizeof(T));
            }
#if T_IS_FLOAT
        } else if (sp == 1 && c >= L) {
            copy_planar(dst, dp, src, sc, n, c);
#endif
        } else {
            copy_as(dst, dp, src, sp, sc, n, c, T_IS_FLOAT ? WF_F32 : WF_F64);
        }
    } else if (t == WF_BF16) {
        copy_as(dst, dp, src, sp, sc, n, c, WF_BF16);
    } else {
        copy_as(dst, dp, src, sp, sc, n, c, WF_F16);
    }
}

/* One row with its zero borders: pw pixels of dp >= c values, of which the first is pixel -pl of the w in src. */
static inline void fill_row(T *dst, int64_t pw, int64_t dp, const void *src, const conv_plane *x, int64_t w, int64_t c,
                            int64_t pl)
{
    int64_t lo = pl < 0 ? 0 : pl < pw ? pl : pw;
    int64_t hi = pl + w < lo ? lo : pl + w < pw ? pl + w : pw;
    if (dp > c) {
        memset(dst, 0, (size_t)(pw * dp) * sizeof(T));
    } else {
        memset(dst, 0, (size_t)(lo * dp) * sizeof(T));
        memset(dst + hi * dp, 0, (size_t)((pw - hi) * dp) * sizeof(T));
    }
    if (hi > lo) {
        copy_pixels(dst + lo * dp, dp, at(src, (lo - pl) * x->s[3], x->dtype), x->s[3], x->s[1], hi - lo, c, x->dtype);
    }
}

WFI_INLINE void put_as(void *dst, int64_t dp, int64_t dc, const T *src, int64_t sp, int64_t n, int64_t c, wf_dtype t)
{
    if (dc == 1) {
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < c; j++) {
                narrow(dst, i * dp + j, src[i * sp + j], t);
            }
        }
        return;
    }
    for (int64_t j = 0; j < c; j++) {
        for (int64_t i = 0; i < n; i++) {
            narrow(dst, i * dp + j * dc, src[i * sp + j], t);
        }
    }
}

#if T_IS_FLOAT
/* f32 into planes (NCHW): the reverse of copy_planar. */
static __attribute__((noinline, unused)) void put_planar(T *dst, int64_t dc, const T *src, int64_t sp, int64_t n,
                                                         int64_t c)
{
    int64_t cl = c / L * L, nl = n / L * L;
    for (int64_t j = 0; j < cl; j += L) {
        for (int64_t i = 0; i < nl; i += L) {
            V r[L];
            UNROLL for (int k = 0; k < L; k++)
            {
                r[k] = load(src + (i + k) * sp + j);
            }
            transpose(r);
            UNROLL for (int k = 0; k < L; k++)
            {
                store(dst + (j + k) * dc + i, r[k]);
            }
        }
        put_as(dst + j * dc + nl, 1, dc, src + nl * sp + j, sp, n - nl, L, WF_F32);
    }
    put_as(dst + cl * dc, 1, dc, src + cl, sp, n, c - cl, WF_F32);
}
#endif

/* dst[i * dp + j * dc] = src[i * sp + j], i < n pixels, j < c channels, rounded to t */
static inline void put_pixels(void *dst, int64_t dp, int64_t dc, const T *src, int64_t sp, int64_t n, int64_t c,
                              wf_dtype t)
{
    if (is_native(t)) {
#if T_IS_FLOAT
        if (dp == 1 && dc != 1 && n >= L && c >= L) {
            put_planar(dst, dc, src, sp, n, c);
            return;
        }
#endif
        put_as(dst, dp, dc, src, sp, n, c, T_IS_FLOAT ? WF_F32 : WF_F64);
    } else if (t == WF_BF16) {
        put_as(dst, dp, dc, src, sp, n, c, WF_BF16);
    } else {
        put_as(dst, dp, dc, src, sp, n, c, WF_F16);
    }
}
