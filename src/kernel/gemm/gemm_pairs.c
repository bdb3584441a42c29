/* gemm_pairs.c - products of bf16 with the dot products of AVX512_BF16: two values of k in one instruction.
 *
 * Order class `bf16 chain`. VDPBF16PS adds a pair's two products to the accumulator one after the other, the one of the
 * high halves first, each as a fused multiply-add rounded to nearest even in which operands and results below 2^-126
 * count as zero, whatever MXCSR says (Intel's manual; Zen 5 was found to do the same). So the earlier of two values of
 * k is packed into the high half, and an element is
 *
 *     c = fma(a[k-1], b[k-1], .. fma(a[1], b[1], fma(a[0], b[0], +0)))         (k odd: and + 0 * 0 at the end)
 *
 * which has the bits of class `chain` wherever nothing is smaller than 2^-126 on the way.
 *
 * The tiles, packing and loops are those of every other type: a step takes a pair. With WFI_PAIRS_EMULATED the
 * instruction is plain C, so that a test can hold the two against each other and run without the hardware. */
#include "kernel/gemm/gemm_choice.h"
#include "kernel/gemm/gemm_vec.h"

/* The earlier of two values goes into the high half: here they lie along k, the earlier one in the low half. */
WFI_INLINE wfi_vu4 turn(wfi_vu4 v)
{
    return v << 16 | v >> 16;
}
WFI_INLINE wfi_vu4 pairs_ld(const uint16_t *p)
{
    wfi_vu4 v;
    memcpy(&v, p, sizeof v);
    return turn(v);
}
WFI_INLINE wfi_vu4 pairs_ldm(const uint16_t *p, int64_t n)
{
#ifdef __AVX512BW__
    __mmask32 m = n >= 32 ? 0xffffffff : (1u << n) - 1;
    return turn((wfi_vu4)_mm512_maskz_loadu_epi16(m, p));
#else
    uint16_t t[2 * WFI_LANES] = { 0 };
    for (int i = 0; i < 2 * WFI_LANES && i < n; i++)
        t[i] = p[i];
    return pairs_ld(t);
#endif
}
#ifdef __AVX2__
WFI_INLINE __m128 pairs_ld4(const uint16_t *p)
{
    __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
    return _mm_castsi128_ps(_mm_or_si128(_mm_slli_epi32(v, 16), _mm_srli_epi32(v, 16)));
}
#endif

/* The instruction makes values below 2^-126 zero; chains have none. */
WFI_INLINE void narrow_st(uint16_t *p, wfi_vf4 v)
{
#ifdef __AVX512BF16__
    __m256bh h = _mm512_cvtneps_pbh((__m512)v);
    memcpy(p, &h, sizeof h);
#else
    wfi_bf16_st(p, v);
#endif
}

#if defined WFI_PAIRS_EMULATED
static float flushed(float f)
{
    uint32_t u = wfi_f32_bits(f);
    return u & 0x7f800000 ? f : wfi_bits_f32(u & 0x80000000);
}
static float fma_flushed(uint32_t a, uint32_t b, float c) /* a, b: bf16 in the high halves */
{
    return flushed(__builtin_fmaf(flushed(wfi_bits_f32(a)), flushed(wfi_bits_f32(b)), flushed(c)));
}
static void dot(wfi_vf4 *c, wfi_vu4 a, wfi_vu4 b)
{
    for (int i = 0; i < WFI_LANES; i++)
        (*c)[i] = fma_flushed(a[i] << 16, b[i] << 16, fma_flushed(a[i] & 0xffff0000, b[i] & 0xffff0000, (*c)[i]));
}
#define DOT(c, a, b) dot(&(c), a, b)
#define NAME         wfi_gemm_pairs_emulated
#elif defined __clang__
#define DOT(c, a, b) ((c) = (wfi_vf4)_mm512_dpbf16_ps((__m512)(c), (__m512bh)(a), (__m512bh)(b)))
#define NAME         wfi_gemm_pairs
#else /* see WFI_FMA_F32 */
#define DOT(c, a, b) __asm__("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b))
#define NAME         wfi_gemm_pairs
#endif

#define T    float
#define V    wfi_vf4
#define S    uint32_t
#define SV   wfi_vu4
#define LANE 4
#define FMA  DOT
#include "kernel/gemm/gemm_tile.h"

#define E                 uint16_t
#define PER               2
#define STEP(p, ld, q)    ((uint32_t) * (p) << 16 | ((q) > 1 ? (p)[ld] : 0u))
#define LDK(p)            pairs_ld(p)
#define LDKM(p, n)        pairs_ldm(p, n)
#define LDL(p, ld)        (wfi_u16_ld(p) << 16 | wfi_u16_ld((p) + (ld)))
#define LDLM(p, ld, q, n) (wfi_u16_ldm(p, n) << 16 | ((q) > 1 ? wfi_u16_ldm((p) + (ld), n) : (SV){ 0 }))
#ifdef __AVX2__
#define LDK4(p) pairs_ld4(p)
#endif
#define NARROW(x)       wfi_bf16_narrow(x)
#define NARROW_ST(p, v) narrow_st(p, v)
#define IN_PLACE        0
#define TYPE            wfi_gemm_bf16_pairs
#define TILE_TABLE      WFI_K(tiles)
#include "kernel/gemm/gemm_loops.h"

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch)
{
    if (a->dtype != WF_BF16)
        return "no product of this element type in pairs";
    const char *why = fits(a, b, c);
    if (why)
        return why;
    /* by the logical shape alone: the other class has other bits */
    const int d = c->ndim - 2;
    if (c->dim[d] < 8 || c->dim[d + 1] < 8 || a->dim[d + 1] < 16)
        return "too small for pairs";
    wfi_gemm g;
    size_t all = 0;
    if (describe(&g, a, b, c) && !choose(&WFI_K(TYPE), &g, threads, &by_rule, &all))
        return "too large";
    *out = g, *scratch = all;
    return NULL;
}
static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    if (g->tier != WFI_GEMM_NOTHING)
        run_all(g, across_packed, args, (wfi_kept_b){ NULL, NULL }, r);
}

/* ... with b packed before */
static size_t keep_bytes(const wfi_gemm *g)
{
    return kept_size(&WFI_K(TYPE), g);
}
static void keep(const void *params, void *const *args, const wfi_run *r)
{
    (void)r;
    fill_kept(&WFI_K(TYPE), params, args[2], args[3]);
}
static void run_kept(const void *params, void *const *args, const wfi_run *r)
{
    run_with_kept(&WFI_K(TYPE), params, args, r);
}

/* ... in other ways */
static int knobs(const void *params, int threads, wfi_knob *knob)
{
    return ways(&WFI_K(TYPE), params, threads, knob);
}
static const char *choose_way(void *params, const wfi_choice *way, int threads, size_t *scratch)
{
    return take_way(&WFI_K(TYPE), params, way, threads, scratch);
}
static void traits(const void *params, wfi_traits *t)
{
    describe_way(&WFI_K(TYPE), params, t);
}
static const wfi_choices choices = { knobs, choose_way, traits };

extern const wfi_gemm_kernels NAME;
const wfi_gemm_kernels NAME = { .name = "gemm bf16 pairs",
                                .order = "bf16 chain",
                                .prepare = prepare,
                                .run = run,
                                .keep_bytes = keep_bytes,
                                .keep = keep,
                                .run_kept = run_kept,
                                .choices = &choices };
