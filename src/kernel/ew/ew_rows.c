/* ew_rows.c - a function for each row of elementwise.def and each type that it has.
 *
 * A function works on blocks of one vector register, so that its loop has a known length and becomes straight vector
 * code, once: a single operand is spread over a block that stands still, and the last elements go through padded
 * blocks. */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* division of whole numbers stays scalar */
#endif
#include "kernel/ew/ew.h"
#include "kernel/ew/half.h"
#include "kernel/vmath.h"
#ifdef __AVX2__
#include <immintrin.h>
#endif

enum { BLOCK = WFI_LANES * 4 }; /* bytes */

#if defined __AVX512BW__
/* Between the last elements, fewer than a block, and a padded block: each `bytes` long and made of elements of `each`.
 */
WFI_INLINE void tail_in(void *pad, const void *from, int64_t bytes, size_t each)
{
    (void)each;
    _mm512_store_si512(pad, _mm512_maskz_loadu_epi8(((__mmask64)1 << bytes) - 1, from));
}
WFI_INLINE void tail_out(void *to, const void *pad, int64_t bytes, size_t each)
{
    (void)each;
    _mm512_mask_storeu_epi8(to, ((__mmask64)1 << bytes) - 1, _mm512_load_si512(pad));
}
#else
/* Fewer than 64 bytes, without a call. */
WFI_INLINE void copy_tail(void *to, const void *from, int64_t bytes)
{
    char *y = to;
    const char *x = from;
#define PIECE(k)                                                                                                       \
    if (bytes & (k)) {                                                                                                 \
        __builtin_memcpy(y, x, (k));                                                                                   \
        y += (k), x += (k);                                                                                            \
    }
    PIECE(32)
    PIECE(16)
    PIECE(8)
    PIECE(4)
    PIECE(2)
    PIECE(1)
#undef PIECE
}
#ifdef __AVX2__
/* A window of it selects the first `bytes / 4` words. */
static const int32_t first_words[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
WFI_INLINE __m256i first(int64_t bytes)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(first_words + 8 - bytes / 4));
}
#endif
WFI_INLINE void tail_in(void *pad, const void *from, int64_t bytes, size_t each)
{
#ifdef __AVX2__
    if (each >= 4) {
        _mm256_store_si256(pad, _mm256_maskload_epi32(from, first(bytes)));
        return;
    }
#endif
    (void)each;
    __builtin_memset(pad, 0, BLOCK);
    copy_tail(pad, from, bytes);
}
WFI_INLINE void tail_out(void *to, const void *pad, int64_t bytes, size_t each)
{
#ifdef __AVX2__
    if (each >= 4) {
        _mm256_maskstore_epi32(to, first(bytes), _mm256_load_si256(pad));
        return;
    }
#endif
    (void)each;
    copy_tail(to, pad, bytes);
}
#endif

#if defined __clang__
#define LANES_LOOP _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define LANES_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 1") /* unrolled too early it would stay scalar */
#endif

/* For each operand: its element type S, a padded block, the place p and the step d from block to block. */
#define OPERAND(k, S, x)                                                                                               \
    _Alignas(64) S pad_##x[64 / sizeof(S)];                                                                            \
    const S *p_##x = in_##x;                                                                                           \
    int64_t d_##x = L;                                                                                                 \
    if (splat >> k & 1u) {                                                                                             \
        for (int l = 0; l < L; l++)                                                                                    \
            pad_##x[l] = *p_##x;                                                                                       \
        p_##x = pad_##x;                                                                                               \
        d_##x = 0;                                                                                                     \
    }
#define TAIL(S, x)                                                                                                     \
    if (d_##x) {                                                                                                       \
        tail_in(pad_##x, p_##x, n *(int64_t)sizeof(S), sizeof(S));                                                     \
        p_##x = pad_##x;                                                                                               \
    }

#define OPERANDS_1(A, S) OPERAND(0, A, a)
#define OPERANDS_2(A, S) OPERANDS_1(A, S) OPERAND(1, S, b)
#define OPERANDS_3(A, S) OPERANDS_2(A, S) OPERAND(2, S, c)
#define TAILS_1(A, S)    TAIL(A, a)
#define TAILS_2(A, S)    TAILS_1(A, S) TAIL(S, b)
#define TAILS_3(A, S)    TAILS_2(A, S) TAIL(S, c)
#define STEPS_1          p_a += d_a;
#define STEPS_2          STEPS_1 p_b += d_b;
#define STEPS_3          STEPS_2 p_c += d_c;
#define VALUES_1(A, C)   A a = (A)p_a[l];
#define VALUES_2(A, C)   VALUES_1(A, C) C b = (C)p_b[l];
#define VALUES_3(A, C)   VALUES_2(A, C) C c = (C)p_c[l];
#define UNUSED_1         (void)in_b, (void)in_c;
#define UNUSED_2         (void)in_c;
#define UNUSED_3

/* Whole numbers wrap, as the vector instructions do; the bodies are read by more than C, so they say a + b. */
#define WRAPS __attribute__((no_sanitize("signed-integer-overflow")))

#define ONE_BLOCK(arity, R, CA, C, q, ...)                                                                             \
    LANES_LOOP for (int l = 0; l < L; l++)                                                                             \
    {                                                                                                                  \
        VALUES_##arity(CA, C)(q)[l] = (R)(__VA_ARGS__);                                                                \
    }
/* y: R[n]; a: A[n], computed in CA; b, c: S[n], computed in C. The body reads a, b and c. wide: four blocks a round,
 * for the types that are used most; the loop costs as much as a light row. */
#define FUNCTION(name, arity, R, A, CA, S, C, count, wide, ...)                                                        \
    WRAPS static void name(void *y, const void *in_a, const void *in_b, const void *in_c, int64_t n, unsigned splat)   \
    {                                                                                                                  \
        enum { L = count };                                                                                            \
        _Alignas(64) R pad_y[64 / sizeof(R)];                                                                          \
        R *p_y = y;                                                                                                    \
        UNUSED_##arity OPERANDS_##arity(A, S) for (; (wide) && n >= 4 * L; n -= 4 * L)                                 \
        {                                                                                                              \
            ONE_BLOCK(arity, R, CA, C, p_y, __VA_ARGS__)                                                               \
            STEPS_##arity ONE_BLOCK(arity, R, CA, C, p_y + L, __VA_ARGS__)                                             \
                STEPS_##arity ONE_BLOCK(arity, R, CA, C, p_y + 2 * L, __VA_ARGS__)                                     \
                    STEPS_##arity ONE_BLOCK(arity, R, CA, C, p_y + 3 * L, __VA_ARGS__) STEPS_##arity p_y += 4 * L;     \
        }                                                                                                              \
        for (;; n -= L) {                                                                                              \
            R *q = p_y;                                                                                                \
            if (n < L) {                                                                                               \
                if (n <= 0)                                                                                            \
                    return;                                                                                            \
                TAILS_##arity(A, S) q = pad_y;                                                                         \
            }                                                                                                          \
            ONE_BLOCK(arity, R, CA, C, q, __VA_ARGS__)                                                                 \
            if (n < L) {                                                                                               \
                tail_out(p_y, pad_y, n *(int64_t)sizeof(R), sizeof(R));                                                \
                return;                                                                                                \
            }                                                                                                          \
            STEPS_##arity p_y += L;                                                                                    \
        }                                                                                                              \
    }

/* 16-bit floats: widened, computed in f32, rounded once; 256 at a time. */
enum { CHUNK = 256 };
#define HALF(type)                                                                                                     \
    static void half_##type(wfi_ew_fn *f32, int arity, int to_bool, uint16_t *y, const uint16_t *const *in, int64_t n, \
                            unsigned splat)                                                                            \
    {                                                                                                                  \
        _Alignas(64) float w[3][CHUNK], r[CHUNK];                                                                      \
        for (int64_t i = 0; i < n; i += CHUNK) {                                                                       \
            int64_t m = n - i < CHUNK ? n - i : CHUNK;                                                                 \
            for (int k = 0; k < arity; k++) {                                                                          \
                int one = (int)(splat >> k & 1u);                                                                      \
                if (i == 0 || !one)                                                                                    \
                    wfi_half_widen_##type(w[k], in[k] + (one ? 0 : i), one ? 1 : m);                                   \
            }                                                                                                          \
            if (to_bool) {                                                                                             \
                f32((uint8_t *)y + i, w[0], w[1], w[2], m, splat);                                                     \
            } else {                                                                                                   \
                f32(r, w[0], w[1], w[2], m, splat);                                                                    \
                wfi_half_narrow_##type(y + i, r, m);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    }
HALF(bf16)
HALF(f16)
#define HALF_FUNCTION(name, type, arity, to_bool)                                                                      \
    static void name##_##type(void *y, const void *a, const void *b, const void *c, int64_t n, unsigned splat)         \
    {                                                                                                                  \
        half_##type(name##_f32, arity, to_bool, y, (const uint16_t *const[]){ a, b, c }, n, splat);                    \
    }

#define RESULT_0(T) T
#define RESULT_1(T) uint8_t
#define PLAIN(name, suffix, arity, to_bool, T, C, count, ...)                                                          \
    FUNCTION(name##_##suffix, arity, RESULT_##to_bool(T), T, C, T, C, count,                                           \
             sizeof(RESULT_##to_bool(T)) == 4 && (C)0.5 != 0, __VA_ARGS__)

#define DEFINE_FLOAT(name, arity, to_bool, ...)                                                                        \
    PLAIN(name, f32, arity, to_bool, float, float, BLOCK / 4, __VA_ARGS__)                                             \
    PLAIN(name, f64, arity, to_bool, double, double, BLOCK / 8, __VA_ARGS__)                                           \
    HALF_FUNCTION(name, bf16, arity, to_bool)                                                                          \
    HALF_FUNCTION(name, f16, arity, to_bool)
#define DEFINE_NUM(name, arity, to_bool, ...)                                                                          \
    DEFINE_FLOAT(name, arity, to_bool, __VA_ARGS__)                                                                    \
    PLAIN(name, i64, arity, to_bool, int64_t, int64_t, BLOCK / 8, __VA_ARGS__)                                         \
    PLAIN(name, i32, arity, to_bool, int32_t, int32_t, BLOCK / 4, __VA_ARGS__)                                         \
    PLAIN(name, u8, arity, to_bool, uint8_t, int32_t, BLOCK, __VA_ARGS__)
#define DEFINE_BOOL(name, arity, to_bool, ...) PLAIN(name, bool, arity, to_bool, uint8_t, int32_t, BLOCK, __VA_ARGS__)
#define DEFINE_ALL(name, arity, to_bool, ...)                                                                          \
    DEFINE_NUM(name, arity, to_bool, __VA_ARGS__)                                                                      \
    DEFINE_BOOL(name, arity, to_bool, __VA_ARGS__)
/* a chooses and b and c only move: the size of their type decides */
#define DEFINE_COND(name, arity, to_bool, ...)                                                                         \
    FUNCTION(name##_1, arity, uint8_t, uint8_t, uint8_t, uint8_t, uint8_t, BLOCK, 0, __VA_ARGS__)                      \
    FUNCTION(name##_2, arity, uint16_t, uint8_t, uint8_t, uint16_t, uint16_t, BLOCK / 2, 0, __VA_ARGS__)               \
    FUNCTION(name##_4, arity, uint32_t, uint8_t, uint8_t, uint32_t, uint32_t, BLOCK / 4, 1, __VA_ARGS__)               \
    FUNCTION(name##_8, arity, uint64_t, uint8_t, uint8_t, uint64_t, uint64_t, BLOCK / 8, 0, __VA_ARGS__)

#define WFI_EW(name, arity, class, to_bool, ...) DEFINE_##class(ew_##name, arity, to_bool, __VA_ARGS__)
#include "ew_rows.inc"
#undef WFI_EW

#define ENTRY_FLOAT(n) [WF_F32] = n##_f32, [WF_F64] = n##_f64, [WF_BF16] = n##_bf16, [WF_F16] = n##_f16
#define ENTRY_NUM(n)   ENTRY_FLOAT(n), [WF_I64] = n##_i64, [WF_I32] = n##_i32, [WF_U8] = n##_u8
#define ENTRY_BOOL(n)  [WF_BOOL] = n##_bool
#define ENTRY_ALL(n)   ENTRY_NUM(n), ENTRY_BOOL(n)
#define ENTRY_COND(n)                                                                                                  \
    [WF_F32] = n##_4, [WF_F64] = n##_8, [WF_BF16] = n##_2, [WF_F16] = n##_2, [WF_I64] = n##_8, [WF_I32] = n##_4,       \
    [WF_U8] = n##_1, [WF_BOOL] = n##_1

extern wfi_ew_fn *const WFI_K(wfi_ew_fns)[WFI_ROWOF_COUNT][WF_DTYPE_COUNT];
wfi_ew_fn *const WFI_K(wfi_ew_fns)[WFI_ROWOF_COUNT][WF_DTYPE_COUNT] = {
#define WFI_EW(name, arity, class, to_bool, ...) [WFI_ROWOF_##name] = { ENTRY_##class(ew_##name) },
#include "ew_rows.inc"
#undef WFI_EW
};
