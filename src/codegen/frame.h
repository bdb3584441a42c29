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
    L = WFI_LANES * 4, /* elements of a block: a register of bytes, four of f32 */
    AHEAD = 4096       /* bytes: a page, where the hardware's own prefetch stops */
};

OP float as_bf16(float x)
{
    return wfi_half_of_bf16(wfi_half_to_bf16(x));
}
OP float as_f16(float x)
{
    return wfi_half_of_f16(wfi_half_to_f16(x));
}

/* The next block of an input: where it lies, or padded with its first element if it is the last and shorter. */
#define INPUT(T, q, in, pad)                                                                                           \
    const T *q = in + i;                                                                                               \
    if (m < L) {                                                                                                       \
        for (int l = 0; l < L; l++)                                                                                    \
            pad[l] = q[l < m ? l : 0];                                                                                 \
        q = pad;                                                                                                       \
    } else if (streams)                                                                                                \
        for (int k = 0; k < (int)sizeof pad; k += 64)                                                                  \
            __builtin_prefetch((const char *)q + AHEAD + k);

#define RESULT(y, r)                                                                                                   \
    if (m < L)                                                                                                         \
        for (int l = 0; l < m; l++)                                                                                    \
            y[i + l] = r[l];                                                                                           \
    else if (streams)                                                                                                  \
        for (int k = 0; k < (int)sizeof r; k += (int)sizeof(vector))                                                   \
            STREAM_VECTOR((char *)(y + i) + k, (const char *)r + k);                                                   \
    else                                                                                                               \
        __builtin_memcpy(y + i, r, sizeof r);
