/* transpose.h - one block of a transposed copy: y[a][b] = x[b][a] for a < h, b < v. Squares of 8 x 8 words go through
 * registers; other sizes and the edges element by element. Rows of both stay in L1 while a block is worked on. */
#ifndef WFI_KERNEL_COPY_TRANSPOSE_H
#define WFI_KERNEL_COPY_TRANSPOSE_H
#include <stdint.h>
#include <string.h>
#include "kernel/isa.h"

#ifdef __AVX2__
typedef uint32_t word8 __attribute__((vector_size(32)));
typedef uint32_t word8_loose __attribute__((vector_size(32), aligned(1), may_alias));

#define LOW32(a, b)   __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13)
#define HIGH32(a, b)  __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15)
#define LOW64(a, b)   __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13)
#define HIGH64(a, b)  __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15)
#define LOW128(a, b)  __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11)
#define HIGH128(a, b) __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15)

WFI_INLINE word8 word8_load(const char *p)
{
    return *(const word8_loose *)(const void *)p;
}
WFI_INLINE void word8_store(char *p, word8 v)
{
    *(word8_loose *)(void *)p = v;
}

WFI_INLINE void transpose_8x8(char *y, int64_t sy, const char *x, int64_t sx)
{
    word8 r[8], s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
        word8 a = word8_load(x + i * sx), b = word8_load(x + (i + 1) * sx);
        r[i] = LOW32(a, b);
        r[i + 1] = HIGH32(a, b);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 4) {
        s[i] = LOW64(r[i], r[i + 2]);
        s[i + 1] = HIGH64(r[i], r[i + 2]);
        s[i + 2] = LOW64(r[i + 1], r[i + 3]);
        s[i + 3] = HIGH64(r[i + 1], r[i + 3]);
    }
#pragma GCC unroll 8
    for (int i = 0; i < 4; i++) {
        word8_store(y + i * sy, LOW128(s[i], s[i + 4]));
        word8_store(y + (i + 4) * sy, HIGH128(s[i], s[i + 4]));
    }
}
#endif

/* x: rows of h contiguous elements, sx bytes apart, v of them; y: rows of v contiguous elements, sy bytes apart */
#define PLAIN(b)                                                                                                       \
    for (int64_t i = a0; i < h; i++) {                                                                                 \
        for (int64_t k = b0; k < v; k++)                                                                               \
            memcpy(y + i * sy + k * b, x + k * sx + i * b, b);                                                         \
    }
static inline void transpose_plain(char *y, int64_t sy, const char *x, int64_t sx, int64_t a0, int64_t h, int64_t b0,
                                   int64_t v, int bytes)
{
    switch (bytes) {
    case 1: PLAIN(1) break;
    case 2: PLAIN(2) break;
    case 4: PLAIN(4) break;
    case 8: PLAIN(8) break;
    }
}
#undef PLAIN

static void transpose_block(char *y, int64_t sy, const char *x, int64_t sx, int64_t h, int64_t v, int bytes)
{
    int64_t h8 = 0, v8 = 0;
#ifdef __AVX2__
    if (bytes == 4) { /* in squares of 16 x 16, so that whole lines are read and written */
        h8 = h & ~(int64_t)15;
        v8 = v & ~(int64_t)15;
        for (int64_t k = 0; k < v8; k += 16) {
            for (int64_t i = 0; i < h8; i += 16) {
                for (int64_t q = 0; q < 4; q++) {
                    int64_t ii = i + (q >> 1) * 8, kk = k + (q & 1) * 8;
                    transpose_8x8(y + ii * sy + kk * 4, sy, x + kk * sx + ii * 4, sx);
                }
            }
        }
    }
#endif
    transpose_plain(y, sy, x, sx, h8, h, 0, v8, bytes);
    transpose_plain(y, sy, x, sx, 0, h, v8, v, bytes);
}

#endif
