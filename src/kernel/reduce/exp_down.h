/* exp_down.h - exp of what is never above 0, as in a row minus its maximum. The bits of wfi_exp_f32 in half the
 * instructions: nothing is clipped, since what lies below the smallest result is masked to 0, and the power of two is
 * multiplied in one or two steps of which only the last rounds. Included after fold.h for f32 and vec_ops.h. */
#ifndef WFI_KERNEL_EXP_DOWN_H
#define WFI_KERNEL_EXP_DOWN_H

#define EXP_TINY (-103.972084f) /* below: exp < 2^-150, 0 in f32 */

/* x <= 0 or NaN */
WFI_INLINE vec_f32 exp_down(vec_f32 x)
{
#ifndef __AVX512F__
    mask_f32 keep = ~(x < splat_f32(EXP_TINY));
    x = (vec_f32)((mask_f32)x & keep); /* no infinity, no n out of range */
#endif
    vec_f32 t = FMA_f32(x, splat_f32(WFI_LOG2E_F32), splat_f32(WFI_MAGIC_F32)), n = t - splat_f32(WFI_MAGIC_F32);
    vec_f32 r = FMA_f32(n, splat_f32(-WFI_LN2LO_F32), FMA_f32(n, splat_f32(-WFI_LN2HI_F32), x));
    vec_f32 p = FMA_f32(splat_f32(0.00138147804f), r, splat_f32(0.00836874638f));
    p = FMA_f32(p, r, splat_f32(0.0416683853f));
    p = FMA_f32(p, r, splat_f32(0.166665211f));
    p = FMA_f32(p, r, splat_f32(0.5f));
    p = FMA_f32(p, r, splat_f32(1.f));
    p = FMA_f32(p, r, splat_f32(1.f));
#ifdef __AVX512F__
    __mmask16 keep = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(EXP_TINY), _CMP_NLT_UQ);
    return (vec_f32)_mm512_maskz_scalef_ps(keep, (__m512)p, (__m512)n);
#else
    /* n >= -150: 2^(n + 64) is normal and its product exact, the second rounds once. */
    vec_f32 two_n = (vec_f32)(((mask_f32)t << 23) + ((127 + 64) << 23));
    return (vec_f32)((mask_f32)p & keep) * two_n * splat_f32(0x1p-64f);
#endif
}
#endif
