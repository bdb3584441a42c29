/* frame.h - what a generated kernel stands on, behind the vector mathematics. Part of its text (tools/gen), of no
 * object of the library. */
#define OP static inline __attribute__((always_inline))
#ifdef __clang__
#define LANES                   _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#define STREAM_VECTOR(to, from) __builtin_nontemporal_store(*(const vector *)(from), (vector *)(to))
#else
#define LANES _Pragma("GCC ivdep") _Pragma("GCC unroll 1") /* unrolled too early it would stay scalar */
#if defined __AVX512F__
#define STREAM_VECTOR(to, from) __builtin_ia32_movntps512((float *)(to), *(const vector *)(from))
#elif defined __AVX__
#define STREAM_VECTOR(to, from) __builtin_ia32_movntps256((float *)(to), *(const vector *)(from))
#elif defined __SSE2__
#define STREAM_VECTOR(to, from) __builtin_ia32_movntps((float *)(to), *(const vector *)(from))
#else
#define STREAM_VECTOR(to, from) *(vector *)(to) = *(const vector *)(from)
#endif
#endif
#ifdef __SSE2__
#define STREAM_END                                                                                                     \
    if (streams)                                                                                                       \
        __builtin_ia32_sfence();
#else
#define STREAM_END
#endif
typedef float vector __attribute__((vector_size(WFI_LANES * 4), may_alias));

enum {
    /* Elements of a block. With one register of f32 exps wait for each other; four leave small runs padded. */
    L = WFI_LANES * 2,
    AHEAD = 4096 /* bytes: a page, where the hardware's own prefetch stops */
};

/* wfi_half_of_bf16(wfi_half_to_bf16(x)), without leaving lanes of 32 bits. */
OP float as_bf16(float x)
{
    return wfi_of_bits_f32(wfi_half_bits_bf16(x) & 0xffff0000u);
}
OP float as_f16(float x)
{
    return wfi_half_of_f16(wfi_half_to_f16(x));
}

/* Less than a block, without a call or a loop. */
OP void copy_tail(char *y, const char *x, int64_t bytes)
{
#define PIECE(k)                                                                                                       \
    if (bytes & (k)) {                                                                                                 \
        __builtin_memcpy(y, x, (k));                                                                                   \
        y += (k), x += (k);                                                                                            \
    }
    PIECE(128)
    PIECE(64) PIECE(32) PIECE(16) PIECE(8) PIECE(4) PIECE(2) PIECE(1)
}

/* The next block of an input: where it lies, or padded with zeros if it is the last and shorter. */
#define INPUT(T, q, in, pad)                                                                                           \
    const T *q = in + i;                                                                                               \
    if (m < L) {                                                                                                       \
        __builtin_memset(pad, 0, sizeof pad);                                                                          \
        copy_tail((char *)pad, (const char *)q, m *(int64_t)sizeof(T));                                                \
        q = pad;                                                                                                       \
    } else if (streams)                                                                                                \
        __builtin_prefetch((const char *)q + AHEAD);

_Static_assert(L * 8 <= 256, "copy_tail");

/* Types that fill no register with a block do not stream. */
#define RESULT(y, r)                                                                                                   \
    if (m < L)                                                                                                         \
        copy_tail((char *)(y + i), (const char *)r, m *(int64_t)sizeof *r);                                            \
    else if (streams && sizeof r % sizeof(vector) == 0)                                                                \
        for (int k = 0; k < (int)sizeof r; k += (int)sizeof(vector))                                                   \
            STREAM_VECTOR((char *)(y + i) + k, (const char *)r + k);                                                   \
    else                                                                                                               \
        __builtin_memcpy(y + i, r, sizeof r);
