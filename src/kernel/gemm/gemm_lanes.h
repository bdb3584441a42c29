/* gemm_lanes.h - vectors of T, and of S, by name, for the templates gemm_tile.h and gemm_loops.h (see there). S, as
 * wide as T, is what a step of the tiles takes from each operand: T itself, or several narrower values of k side by
 * side. */
#ifndef S
#define S  T
#define SV V
#endif
#define MR WFI_GEMM_MR
#define NV WFI_GEMM_NV
#define VL ((int)(WFI_VB / sizeof(T)))
#define NR (NV * VL)
#if LANE == 4
#define MASK         wfi_mask4
#define LANES(n)     wfi_lanes4(n)
#define LDM(p, m)    ((V)wfi_ldm4(p, m))
#define STM(p, m, v) wfi_stm4(p, m, (wfi_vf4)(v))
#define TRANSPOSE(v) wfi_transpose4((wfi_vi4 *)(v))
#else
#define MASK         wfi_mask8
#define LANES(n)     wfi_lanes8(n)
#define LDM(p, m)    ((V)wfi_ldm8(p, m))
#define STM(p, m, v) wfi_stm8(p, m, (wfi_vf8)(v))
#define TRANSPOSE(v) wfi_transpose8((wfi_vi8 *)(v))
#endif
typedef T unaligned __attribute__((vector_size(WFI_VB), aligned(LANE), may_alias));
typedef S unaligned_s __attribute__((vector_size(WFI_VB), aligned(LANE), may_alias));

WFI_INLINE V ld(const T *p)
{
    return (V) * (const unaligned *)p;
}
WFI_INLINE void st(T *p, V v)
{
    *(unaligned *)p = (unaligned)v;
}
WFI_INLINE SV lds(const S *p)
{
    return (SV) * (const unaligned_s *)p;
}
WFI_INLINE void sts(S *p, SV v)
{
    *(unaligned_s *)p = (unaligned_s)v;
}
WFI_INLINE SV set1(S x)
{
    return x - (SV){ 0 }; /* exact, -0 and NaN too; one broadcast */
}
