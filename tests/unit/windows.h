/* windows.h - what the tests of convolution and pooling share: tensors of any layout, dense copies in f64, rounding. */
#ifndef TEST_WINDOWS_H
#define TEST_WINDOWS_H
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/mem.h"
#include "kernel/kernel.h"

/* A tensor: its view, the whole block it lies in, and a dense copy of the logical values. */
typedef struct tensor {
    wfi_view v;
    int64_t low, count; /* elements of the block before [0,0,0,0]; of the whole */
    char *block;
    double *dense;
} tensor;

enum layout { NCHW, NHWC, SHUFFLED, SLICED, BROADCAST, BACKWARDS, LAYOUTS };

static uint64_t rng_state = 1;

static inline uint64_t rng(void)
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline int64_t pick(int64_t lo, int64_t hi)
{
    return lo + (int64_t)(rng() % (uint64_t)(hi - lo + 1));
}

/* v rounded to nearest even with `bits` of significand, smallest exponent emin, largest emax. */
static inline double round_bits(double v, int bits, int emin, int emax)
{
    int e;
    if (v == 0 || isnan(v) || isinf(v)) {
        return v;
    }
    frexp(v, &e);
    e = e - 1 < emin ? emin : e - 1;
    double unit = ldexp(1, e - bits + 1), r = nearbyint(v / unit) * unit;
    return fabs(r) >= ldexp(1, emax + 1) ? copysign(INFINITY, v) : r;
}

static inline double round_to(double v, wf_dtype t)
{
    switch (t) {
    case WF_F32: return (double)(float)v;
    case WF_BF16: return round_bits(v, 8, -126, 127);
    case WF_F16: return round_bits(v, 11, -14, 15);
    default: return v;
    }
}

static inline size_t bytes_of(wf_dtype t)
{
    return t == WF_F64 ? 8 : t == WF_F32 ? 4 : 2;
}

/* Encodes a value that t can hold. */
static inline void put(void *p, double v, wf_dtype t)
{
    float f = (float)v;
    uint32_t u;
    uint16_t h;
    if (t == WF_F64) {
        memcpy(p, &v, 8);
    } else if (t == WF_F32) {
        memcpy(p, &f, 4);
    } else if (t == WF_BF16) {
        memcpy(&u, &f, 4);
        h = (uint16_t)(u >> 16);
        memcpy(p, &h, 2);
    } else {
        int e;
        double a = fabs(v);
        frexp(a, &e);
        h = (uint16_t)(signbit(v) ? 0x8000 : 0);
        if (isnan(v)) {
            h = 0x7e00;
        } else if (isinf(v)) {
            h |= 0x7c00;
        } else if (a >= 0x1p-14) {
            h = (uint16_t)(h | (e + 14) << 10 | ((int)ldexp(a, 11 - e) & 0x3ff));
        } else {
            h = (uint16_t)(h | (int)ldexp(a, 24));
        }
        memcpy(p, &h, 2);
    }
}

static inline double get(const void *p, wf_dtype t)
{
    double v;
    float f;
    uint16_t h;
    uint32_t u;
    if (t == WF_F64) {
        memcpy(&v, p, 8);
        return v;
    }
    if (t == WF_F32) {
        memcpy(&f, p, 4);
        return (double)f;
    }
    memcpy(&h, p, 2);
    if (t == WF_BF16) {
        u = (uint32_t)h << 16;
        memcpy(&f, &u, 4);
        return (double)f;
    }
    int e = h >> 10 & 31;
    v = e == 31 ? (h & 0x3ff ? NAN : INFINITY) : e == 0 ? ldexp(h & 0x3ff, -24) : ldexp((h & 0x3ff) | 0x400, e - 25);
    return h & 0x8000 ? -v : v;
}

static inline int64_t elements(const wfi_view *v)
{
    return v->dim[0] * v->dim[1] * v->dim[2] * v->dim[3];
}

static inline int64_t where(const wfi_view *v, int64_t i)
{
    int64_t w = i % v->dim[3], h = i / v->dim[3] % v->dim[2], c = i / v->dim[3] / v->dim[2] % v->dim[1];
    int64_t n = i / v->dim[3] / v->dim[2] / v->dim[1];
    return n * v->stride[0] + c * v->stride[1] + h * v->stride[2] + w * v->stride[3];
}

/* Strides of a layout for the sizes in t->v, and a block that holds them, filled with a pattern. */
static inline void make(tensor *t, enum layout layout)
{
    int order[4] = { 3, 2, 1, 0 }; /* fastest first */
    wfi_view *v = &t->v;
    int64_t step = 1, lo = 0, hi = 0;
    if (layout == NHWC) {
        order[0] = 1, order[1] = 3, order[2] = 2;
    } else if (layout == SHUFFLED || layout == BACKWARDS) {
        for (int i = 3; i > 0; i--) {
            int j = (int)pick(0, i), k = order[i];
            order[i] = order[j];
            order[j] = k;
        }
    } else if (layout == SLICED && pick(0, 1)) {
        order[0] = 1, order[1] = 3, order[2] = 2;
    }
    for (int i = 0; i < 4; i++) {
        int d = order[i];
        v->stride[d] = step;
        step *= v->dim[d] > 0 ? v->dim[d] : 1;
        step += layout == SLICED ? pick(0, 3) : 0;
        if (layout == SLICED && i == 0 && pick(0, 2) == 0) {
            v->stride[d] = 2;
            step *= 2;
        }
        if (layout == BROADCAST && pick(0, 1)) {
            v->stride[d] = 0;
        }
        if (layout == BACKWARDS && pick(0, 1)) {
            v->stride[d] = -v->stride[d];
        }
        if (v->dim[d] == 1) {
            v->stride[d] = pick(-1000, 1000);
        } else if (v->dim[d] > 0) {
            *(v->stride[d] < 0 ? &lo : &hi) += v->stride[d] * (v->dim[d] - 1);
        }
    }
    t->low = -lo;
    t->count = hi - lo + 1;
    t->block = malloc((size_t)t->count * bytes_of(v->dtype));
    t->dense = malloc((size_t)(elements(v) + 1) * sizeof(double));
    memset(t->block, 0x3a, (size_t)t->count * bytes_of(v->dtype));
}

static inline char *origin(const tensor *t)
{
    return t->block + t->low * (int64_t)bytes_of(t->v.dtype);
}

/* Reads the block into dense. */
static inline void gather(tensor *t)
{
    for (int64_t i = 0; i < elements(&t->v); i++) {
        t->dense[i] = get(origin(t) + where(&t->v, i) * (int64_t)bytes_of(t->v.dtype), t->v.dtype);
    }
}

static inline double any_value(wf_dtype t)
{
    double v = (double)(int64_t)rng() * 0x1p-63;
    if (pick(0, 30) == 0) {
        v = pick(0, 1) ? 0.0 : -0.0;
    }
    return round_to(v, t);
}

static inline void fill(tensor *t, double (*value)(wf_dtype))
{
    for (int64_t i = 0; i < elements(&t->v); i++) {
        put(origin(t) + where(&t->v, i) * (int64_t)bytes_of(t->v.dtype), value(t->v.dtype), t->v.dtype);
    }
    gather(t);
}

static inline void drop(tensor *t)
{
    free(t->block);
    free(t->dense);
}

static inline int same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

/* Compares the tensor with want[0..elements) bit for bit, and checks that nothing between its elements was written. */
static inline void check_bits(tensor *t, const double *want, const char *what, uint64_t seed)
{
    size_t each = bytes_of(t->v.dtype);
    char *used = calloc((size_t)t->count + 1, 1);
    gather(t);
    for (int64_t i = 0; i < elements(&t->v); i++) {
        used[t->low + where(&t->v, i)] = 1;
        if (!same(t->dense[i], want[i])) {
            fail_msg("%s: element %lld is %a, not %a (seed %llu)", what, (long long)i, t->dense[i], want[i],
                     (unsigned long long)seed);
        }
    }
    for (int64_t i = 0; i < t->count; i++) {
        for (size_t b = 0; !used[i] && b < each; b++) {
            if (t->block[(size_t)i * each + b] != 0x3a) {
                fail_msg("%s: wrote beside element %lld of the block (seed %llu)", what, (long long)i,
                         (unsigned long long)seed);
            }
        }
    }
    free(used);
    memset(t->block, 0x3a, (size_t)t->count * each);
}

#endif
