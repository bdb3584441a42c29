/* vec_ops.h - single instructions that the vectors of fold.h (vec_f32, vec_f64) have no operator for. */
#ifndef WFI_KERNEL_VEC_OPS_H
#define WFI_KERNEL_VEC_OPS_H
#if defined __x86_64__
#include <immintrin.h>
#endif

/* FAST_MAX: the larger of two; what it does with NaN and with 0 against -0 is not defined here.
 * STREAM: a store past the caches, the address aligned to the vector. FMA: one rounding where the set has it. */
#if defined __AVX512F__
#define FAST_MAX_f32(a, b) ((vec_f32)_mm512_max_ps((__m512)(a), (__m512)(b)))
#define FAST_MAX_f64(a, b) ((vec_f64)_mm512_max_pd((__m512d)(a), (__m512d)(b)))
#define STREAM_f32(p, v)   _mm512_stream_ps(p, (__m512)(v))
#define STREAM_f64(p, v)   _mm512_stream_pd(p, (__m512d)(v))
#define SQRT_f32(a)        ((vec_f32)_mm512_sqrt_ps((__m512)(a)))
#define SQRT_f64(a)        ((vec_f64)_mm512_sqrt_pd((__m512d)(a)))
#define FMA_f32(a, b, c)   ((vec_f32)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define FMA_f64(a, b, c)   ((vec_f64)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined __AVX2__ && defined __FMA__
#define FAST_MAX_f32(a, b) ((vec_f32)_mm256_max_ps((__m256)(a), (__m256)(b)))
#define FAST_MAX_f64(a, b) ((vec_f64)_mm256_max_pd((__m256d)(a), (__m256d)(b)))
#define STREAM_f32(p, v)   _mm256_stream_ps(p, (__m256)(v))
#define STREAM_f64(p, v)   _mm256_stream_pd(p, (__m256d)(v))
#define SQRT_f32(a)        ((vec_f32)_mm256_sqrt_ps((__m256)(a)))
#define SQRT_f64(a)        ((vec_f64)_mm256_sqrt_pd((__m256d)(a)))
#define FMA_f32(a, b, c)   ((vec_f32)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define FMA_f64(a, b, c)   ((vec_f64)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define FAST_MAX_f32(a, b) pick_f32((b) > (a), b, a)
#define FAST_MAX_f64(a, b) pick_f64((b) > (a), b, a)
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

/* The same on single elements, for the ends of lines. */
#define SCALAR_FMA_f32 WFI_FMAF
#define SCALAR_FMA_f64 WFI_FMA

#endif
