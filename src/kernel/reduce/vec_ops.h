/* vec_ops.h - single instructions that the vectors of fold.h (vec_f32, vec_f64) have no operator for. */
#ifndef WFI_KERNEL_VEC_OPS_H
#define WFI_KERNEL_VEC_OPS_H
#if defined __x86_64__
#include <immintrin.h>
#endif

/* FAST_MAX: the larger of two; what it does with NaN and with 0 against -0 is not defined here.
 * AT_LEAST: a, or c where a is below it; NaN stays.
 * STREAM: a store past the caches, the address aligned to the vector. FMA: one rounding where the set has it.
 * PART: the first n elements of a vector at p, the others are those of v; n may be anything. */
#if defined __AVX512F__
WFI_INLINE __mmask16 first_lanes(int64_t n, int all)
{
    return (__mmask16)(n >= all ? (1 << all) - 1 : n <= 0 ? 0 : (1 << n) - 1);
}
#define FAST_MAX_f32(a, b) ((vec_f32)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define FAST_MAX_f64(a, b) ((vec_f64)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define AT_LEAST_f32(a, c) ((vec_f32)_mm512_max_ps((__m512)(c), (__m512)(a)))
#define STREAM_f32(p, v)   _mm512_stream_ps(p, (__m512)(v))
#define STREAM_f64(p, v)   _mm512_stream_pd(p, (__m512d)(v))
#define PART_f32(p, n, v)  ((vec_f32)_mm512_mask_loadu_ps((__m512)(v), first_lanes(n, 16), p))
#define PART_f64(p, n, v)  ((vec_f64)_mm512_mask_loadu_pd((__m512d)(v), (__mmask8)first_lanes(n, 8), p))
#define SQRT_f32(a)        ((vec_f32)_mm512_sqrt_ps((__m512)(a)))
#define SQRT_f64(a)        ((vec_f64)_mm512_sqrt_pd((__m512d)(a)))
#define FMA_f32(a, b, c)   ((vec_f32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define FMA_f64(a, b, c)   ((vec_f64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined __AVX2__ && defined __FMA__
WFI_INLINE __m256i first_lanes(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)(n > 8   ? 8
                                                      : n < 0 ? 0
                                                              : n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
WFI_INLINE __m256i first_pairs(int64_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
}
WFI_INLINE __m256 part_f32(const float *p, int64_t n, __m256 v)
{
    __m256i m = first_lanes(n);
    return _mm256_blendv_ps(v, _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m));
}
WFI_INLINE __m256d part_f64(const double *p, int64_t n, __m256d v)
{
    __m256i m = first_pairs(n);
    return _mm256_blendv_pd(v, _mm256_maskload_pd(p, m), _mm256_castsi256_pd(m));
}
#define PART_f32(p, n, v)  ((vec_f32)part_f32(p, n, (__m256)(v)))
#define PART_f64(p, n, v)  ((vec_f64)part_f64(p, n, (__m256d)(v)))
#define FAST_MAX_f32(a, b) ((vec_f32)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define FAST_MAX_f64(a, b) ((vec_f64)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define AT_LEAST_f32(a, c) ((vec_f32)_mm256_max_ps((__m256)(c), (__m256)(a)))
#define ANY_f32(m)         (!_mm256_testz_si256((__m256i)(m), (__m256i)(m)))
#define STREAM_f32(p, v)   _mm256_stream_ps(p, (__m256)(v))
#define STREAM_f64(p, v)   _mm256_stream_pd(p, (__m256d)(v))
#define SQRT_f32(a)        ((vec_f32)_mm256_sqrt_ps((__m256)(a)))
#define SQRT_f64(a)        ((vec_f64)_mm256_sqrt_pd((__m256d)(a)))
#define FMA_f32(a, b, c)   ((vec_f32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define FMA_f64(a, b, c)   ((vec_f64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define PART_f32(p, n, v)  part_of_f32(p, n, v)
#define PART_f64(p, n, v)  part_of_f64(p, n, v)
#define FAST_MAX_f32(a, b) pick_f32((b) > (a), b, a)
#define FAST_MAX_f64(a, b) pick_f64((b) > (a), b, a)
#define AT_LEAST_f32(a, c) pick_f32((a) < (c), c, a)
#define STREAM_f32(p, v)   st_f32(p, v)
#define STREAM_f64(p, v)   st_f64(p, v)
#define FMA_f32(a, b, c)   ((a) * (b) + (c))
#define FMA_f64(a, b, c)   ((a) * (b) + (c))
#if defined __SSE2__
#define SQRT_f32(a) ((vec_f32)_mm_sqrt_ps((__m128)(a)))
#define SQRT_f64(a) ((vec_f64)_mm_sqrt_pd((__m128d)(a)))
#else
#define SQRT_f32(a)                                                                                                    \
    ((vec_f32){ __builtin_sqrtf((a)[0]), __builtin_sqrtf((a)[1]), __builtin_sqrtf((a)[2]), __builtin_sqrtf((a)[3]) })
#define SQRT_f64(a) ((vec_f64){ __builtin_sqrt((a)[0]), __builtin_sqrt((a)[1]) })
#endif
#endif

#define PART_i64(p, n, v) part_of_i64(p, n, v)

/* The same on single elements, for the ends of lines. */
#define SCALAR_FMA_f32 WFI_FMAF
#define SCALAR_FMA_f64 WFI_FMA

#endif
