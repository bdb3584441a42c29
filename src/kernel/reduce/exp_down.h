/* exp_down.h - exp of what is never above 0, as in a row minus its maximum. The bits of wfi_exp_f32 in half the
 * instructions: only the lower end is clipped, and far from it the power of two is one product. Included after fold.h
 * for f32 and vec_ops.h. */
#ifndef WFI_KERNEL_EXP_DOWN_H
#define WFI_KERNEL_EXP_DOWN_H

#define EXP_TINY   (-103.972084f) /* below: exp < 2^-150, 0 in f32 */
#define EXP_NORMAL (-87.f)        /* from here on up 2^n is normal */

#ifndef ANY_f32
WFI_INLINE bool ANY_f32(mask_f32 m)
{
    int32_t any = 0;
    for (int i = 0; i < VN_f32; i++) {
        any |= m[i];
    }
    return any != 0;
}
#endif

/* A constant in a register: as operands from memory, these would keep the load units busier than the multipliers. With
 * 32 registers they stay there. */
#if defined __AVX512F__
#define IN_REGISTER(c) __asm__("" : "+v"(c))
#elif defined __x86_64__
#define IN_REGISTER(c) __asm__ volatile("" : "+x"(c))
#else
#define IN_REGISTER(c) ((void)0)
#endif

#define STEP(constant, ...)                                                                                            \
    c = splat_f32(constant);                                                                                           \
    IN_REGISTER(c);                                                                                                    \
    for (int i = 0; i < n; i++)                                                                                        \
        __VA_ARGS__;

/* p[i] * 2^(t[i] - magic) = exp(x[i]). All go in lock step: one alone is a chain of some 60 cycles, more than a
 * scheduler looks past. */
WFI_INLINE void exp_down_parts(const vec_f32 *x, vec_f32 *t, vec_f32 *p, int n)
{
    vec_f32 r[LANES], c;
    STEP(WFI_MAGIC_F32, t[i] = FMA_f32(x[i], splat_f32(WFI_LOG2E_F32), c))
    STEP(-WFI_LN2HI_F32, r[i] = FMA_f32(t[i] - splat_f32(WFI_MAGIC_F32), c, x[i]))
    STEP(-WFI_LN2LO_F32, r[i] = FMA_f32(t[i] - splat_f32(WFI_MAGIC_F32), c, r[i]))
    STEP(0.00138147804f, p[i] = FMA_f32(c, r[i], splat_f32(0.00836874638f)))
    STEP(0.0416683853f, p[i] = FMA_f32(p[i], r[i], c))
    STEP(0.166665211f, p[i] = FMA_f32(p[i], r[i], c))
    STEP(0.5f, p[i] = FMA_f32(p[i], r[i], c))
    STEP(1.f, p[i] = FMA_f32(FMA_f32(p[i], r[i], c), r[i], c))
}

#ifndef __AVX512F__
/* As exp_down, some of x below the normal range. What becomes 0 is made so before the powers of two, since products
 * that underflow are slow. n >= -150: 2^(n + 64) is normal and its product exact, the second rounds once. */
static __attribute__((noinline)) void exp_down_far(vec_f32 *x, int n)
{
    vec_f32 t[LANES], p[LANES], clipped[LANES], c;
    STEP(EXP_TINY, clipped[i] = AT_LEAST_f32(x[i], c))
    exp_down_parts(clipped, t, p, n);
    STEP(EXP_TINY, p[i] = (vec_f32)((mask_f32)p[i] & ~(x[i] < c)))
    STEP(0x1p-64f, x[i] = (vec_f32)(((mask_f32)t[i] << 23) + ((127 + 64) << 23)) * p[i] * c)
}
#endif

/* n vectors, each element <= 0 or NaN. */
WFI_INLINE void exp_down(vec_f32 *x, int n)
{
    vec_f32 t[LANES], p[LANES];
#ifdef __AVX512F__
    vec_f32 c;
    STEP(EXP_TINY, x[i] = AT_LEAST_f32(x[i], c))
    exp_down_parts(x, t, p, n);
    for (int i = 0; i < n; i++) {
        x[i] = (vec_f32)_mm512_scalef_ps((__m512)p[i], (__m512)(t[i] - splat_f32(WFI_MAGIC_F32)));
    }
#else
    mask_f32 far = x[0] < splat_f32(EXP_NORMAL);
    for (int i = 1; i < n; i++) {
        far |= x[i] < splat_f32(EXP_NORMAL);
    }
    if (ANY_f32(far)) {
        exp_down_far(x, n);
        return;
    }
    exp_down_parts(x, t, p, n);
    for (int i = 0; i < n; i++) {
        x[i] = (vec_f32)(((mask_f32)t[i] << 23) + (127 << 23)) * p[i];
    }
#endif
}
#undef STEP

/* exp of n elements less m, n a multiple of the vector up to 64; none is larger than m; e may be x. */
WFI_INLINE void exp_down_group(float *e, const float *x, vec_f32 m, int n)
{
    vec_f32 v[LANES];
    const int vectors = n / VN_f32;
    for (int k = 0; k < vectors; k++) {
        v[k] = ld_f32(x + k * VN_f32) - m;
    }
    exp_down(v, vectors);
    for (int k = 0; k < vectors; k++) {
        st_f32(e + k * VN_f32, v[k]);
    }
}
#endif
