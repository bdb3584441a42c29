/* lines.h - how the row-wise kernels walk strided operands, and how they bring lines of elements of any type into a
 * compute type (f32 for f32, bf16, f16; f64; i64 for integers and bool) and back.
 *
 * A nest is a list of loops over several operands at once; loops that can be one are merged. Element i of a nest,
 * counted row-major, lies at base + off for each operand, in bytes. */
#ifndef WFI_KERNEL_LINES_H
#define WFI_KERNEL_LINES_H
#include <string.h>
#include "kernel/isa.h"
#include "kernel/kernel.h"
#if defined __x86_64__
#include <immintrin.h>
#endif

#ifndef NEST_OPS
#define NEST_OPS 4 /* operands that a nest walks over; a file may want more */
#endif

typedef struct nest {
    int64_t nd; /* >= 1 after nest_close */
    int64_t dim[WF_RANK_MAX];
    int64_t step[NEST_OPS][WF_RANK_MAX]; /* bytes */
} nest;

typedef struct cursor {
    int64_t i[WF_RANK_MAX];
    int64_t off[NEST_OPS];
} cursor;

typedef enum compute { AS_F32 = 0, AS_F64 = 1, AS_I64 = 2, AS_NONE = 3 } compute;

WFI_INLINE int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The type in which elements of t are computed. */
WFI_INLINE compute compute_of(wf_dtype t)
{
    switch (t) {
    case WF_F32:
    case WF_BF16:
    case WF_F16: return AS_F32;
    case WF_F64: return AS_F64;
    case WF_I64:
    case WF_I32:
    case WF_U8:
    case WF_BOOL: return AS_I64;
    default: return AS_NONE;
    }
}

WFI_INLINE int64_t bytes_of(wf_dtype t)
{
    switch (t) {
    case WF_F64:
    case WF_I64:
    case WF_U64: return 8;
    case WF_F32:
    case WF_I32:
    case WF_U32: return 4;
    case WF_BF16:
    case WF_F16:
    case WF_I16:
    case WF_U16: return 2;
    case WF_U8:
    case WF_BOOL:
    case WF_I8:
    case WF_F8E4M3:
    case WF_F8E5M2: return 1;
    default: return 0;
    }
}

WFI_INLINE bool is_float(wf_dtype t)
{
    return t == WF_F32 || t == WF_F64 || t == WF_BF16 || t == WF_F16;
}
WFI_INLINE bool is_index(wf_dtype t)
{
    return t == WF_I64 || t == WF_I32;
}
/* Elements of t are stored just as they are computed. */
WFI_INLINE bool is_native(wf_dtype t)
{
    return t == WF_F32 || t == WF_F64 || t == WF_I64;
}

/* ---- nests ---- */

/* Appends an inner loop; a loop of one turn is left out. v[k] == NULL: operand k does not move. */
static inline void nest_push(nest *n, int64_t dim, const wfi_view *const v[NEST_OPS], const int axis[NEST_OPS])
{
    if (dim == 1) {
        return;
    }
    n->dim[n->nd] = dim;
    for (int k = 0; k < NEST_OPS; k++) {
        bool moves = v[k] && axis[k] >= 0 && v[k]->dim[axis[k]] != 1;
        n->step[k][n->nd] = moves ? v[k]->stride[axis[k]] * bytes_of(v[k]->dtype) : 0;
    }
    n->nd++;
}

static inline bool nest_can_merge(const nest *n, int64_t outer, int64_t inner)
{
    for (int k = 0; k < NEST_OPS; k++) {
        if (n->step[k][outer] != n->step[k][inner] * n->dim[inner]) {
            return false;
        }
    }
    return true;
}

/* Merges neighbouring loops; the order of elements stays. */
static inline void nest_close(nest *n)
{
    int64_t at = 0;
    for (int64_t d = 1; d < n->nd; d++) {
        if (nest_can_merge(n, at, d)) {
            n->dim[at] *= n->dim[d];
        } else {
            at++;
            n->dim[at] = n->dim[d];
        }
        for (int k = 0; k < NEST_OPS; k++) {
            n->step[k][at] = n->step[k][d];
        }
    }
    n->nd = n->nd ? at + 1 : 1;
    if (at == 0 && n->dim[0] == 0) {
        n->dim[0] = 1; /* no loop at all: one element */
    }
}

/* Sorts loops by the distance that operand k moves, the largest outside. For loops whose order is free. */
static inline void nest_sort(nest *n, int k)
{
    for (int64_t i = 1; i < n->nd; i++) {
        for (int64_t d = i; d > 0; d--) {
            int64_t a = n->step[k][d - 1], b = n->step[k][d];
            a = a < 0 ? -a : a, b = b < 0 ? -b : b;
            bool swap = a != 0 && (b == 0 || b > a);
            if (!swap) {
                break;
            }
            int64_t t = n->dim[d];
            n->dim[d] = n->dim[d - 1], n->dim[d - 1] = t;
            for (int o = 0; o < NEST_OPS; o++) {
                t = n->step[o][d], n->step[o][d] = n->step[o][d - 1], n->step[o][d - 1] = t;
            }
        }
    }
}

static inline void nest_at(const nest *n, int64_t i, cursor *c)
{
    for (int k = 0; k < NEST_OPS; k++) {
        c->off[k] = 0;
    }
    for (int64_t d = n->nd - 1; d >= 0; d--) {
        int64_t q = d && n->dim[d] ? i / n->dim[d] : 0; /* a size of 0: nothing is walked */
        c->i[d] = i - q * n->dim[d];
        i = q;
        for (int k = 0; k < NEST_OPS; k++) {
            c->off[k] += c->i[d] * n->step[k][d];
        }
    }
}

/* Moves on by `by` elements of the innermost loop, at most to its end; there the outer loops step on. */
static inline void nest_next(const nest *n, cursor *c, int64_t by)
{
    int64_t d = n->nd - 1;
    c->i[d] += by;
    for (int k = 0; k < NEST_OPS; k++) {
        c->off[k] += by * n->step[k][d];
    }
    while (d > 0 && c->i[d] == n->dim[d]) {
        for (int k = 0; k < NEST_OPS; k++) {
            c->off[k] += n->step[k][d - 1] - n->dim[d] * n->step[k][d];
        }
        c->i[d] = 0;
        c->i[--d]++;
    }
}

/* Elements left in the innermost loop. */
WFI_INLINE int64_t nest_left(const nest *n, const cursor *c)
{
    return n->dim[n->nd - 1] - c->i[n->nd - 1];
}
WFI_INLINE int64_t nest_step(const nest *n, int k)
{
    return n->step[k][n->nd - 1];
}

/* ---- single elements ---- */

WFI_INLINE float bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
WFI_INLINE uint32_t f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
WFI_INLINE float f32_of_bf16(uint16_t h)
{
    return bits_f32((uint32_t)h << 16);
}
/* To nearest, ties to even; NaN stays NaN. */
WFI_INLINE uint16_t bf16_of_f32(float f)
{
    uint32_t u = f32_bits(f), r = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? (u >> 16) | 0x40 : r);
}
WFI_INLINE float f32_of_f16(uint16_t h)
{
#ifdef __F16C__
    return _cvtsh_ss(h);
#else
    uint32_t m = ((uint32_t)h & 0x7fff) << 13, inf = m >= 0x0f800000u ? 0x7f800000u : 0;
    return bits_f32(f32_bits(bits_f32(m) * 0x1p112f) | inf | ((uint32_t)h & 0x8000) << 16);
#endif
}
WFI_INLINE uint16_t f16_of_f32(float f)
{
#ifdef __F16C__
    return (uint16_t)_cvtss_sh(f, 0);
#else
    uint32_t u = f32_bits(f), s = u >> 16 & 0x8000, a = u & 0x7fffffff, r;
    if (a > 0x7f800000) {
        r = 0x7e00;
    } else if (a >= 0x477ff000) {
        r = 0x7c00;
    } else if (a < 0x38800000) {
        r = f32_bits(bits_f32(a) + 0.5f) - 0x3f000000; /* the sum rounds to multiples of 2^-24 */
    } else {
        r = ((a + 0xfff + ((a >> 13) & 1)) >> 13) - (112u << 10);
    }
    return (uint16_t)(r | s);
#endif
}

/* ---- lines: n elements, `step` bytes apart ---- */

#define LINE_LOOP(T, expr)                                                                                             \
    if (step == (int64_t)sizeof(T)) {                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v;                                                                                                       \
            memcpy(&v, p + i * (int64_t)sizeof(T), sizeof v);                                                          \
            d[i] = (expr);                                                                                             \
        }                                                                                                              \
    } else {                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v;                                                                                                       \
            memcpy(&v, p + i * step, sizeof v);                                                                        \
            d[i] = (expr);                                                                                             \
        }                                                                                                              \
    }                                                                                                                  \
    break

static inline void load_f16(float *restrict d, const char *restrict p, int64_t n, int64_t step)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; step == 2 && i + 8 <= n; i += 8) {
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(p + 2 * i))));
    }
#endif
    for (; i < n; i++) {
        uint16_t v;
        memcpy(&v, p + i * step, 2);
        d[i] = f32_of_f16(v);
    }
}

static inline void load_f32(float *restrict d, const char *restrict p, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_F32: LINE_LOOP(float, v);
    case WF_BF16: LINE_LOOP(uint16_t, f32_of_bf16(v));
    case WF_F16: load_f16(d, p, n, step); break;
    default: LINE_LOOP(double, (float)v);
    }
}

static inline void load_f64(double *restrict d, const char *restrict p, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_F32: LINE_LOOP(float, (double)v);
    case WF_BF16: LINE_LOOP(uint16_t, (double)f32_of_bf16(v));
    case WF_F16: LINE_LOOP(uint16_t, (double)f32_of_f16(v));
    default: LINE_LOOP(double, v);
    }
}

static inline void load_i64(int64_t *restrict d, const char *restrict p, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_I32: LINE_LOOP(int32_t, v);
    case WF_U8: LINE_LOOP(uint8_t, v);
    case WF_BOOL: LINE_LOOP(uint8_t, v != 0);
    default: LINE_LOOP(int64_t, v);
    }
}

/* 1 where the element is not zero (NaN is not), else 0. */
static inline void load_truth(int64_t *restrict d, const char *restrict p, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_F32: LINE_LOOP(float, v != 0);
    case WF_F64: LINE_LOOP(double, v != 0);
    case WF_BF16:
    case WF_F16: LINE_LOOP(uint16_t, (v & 0x7fff) != 0);
    case WF_I32: LINE_LOOP(int32_t, v != 0);
    case WF_U8:
    case WF_BOOL: LINE_LOOP(uint8_t, v != 0);
    default: LINE_LOOP(int64_t, v != 0);
    }
}
#undef LINE_LOOP

#define LINE_LOOP(T, expr)                                                                                             \
    if (step == (int64_t)sizeof(T)) {                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = (expr);                                                                                              \
            memcpy(p + i * (int64_t)sizeof(T), &v, sizeof v);                                                          \
        }                                                                                                              \
    } else {                                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = (expr);                                                                                              \
            memcpy(p + i * step, &v, sizeof v);                                                                        \
        }                                                                                                              \
    }                                                                                                                  \
    break

static inline void store_f16(char *restrict p, const float *restrict d, int64_t n, int64_t step)
{
    int64_t i = 0;
#ifdef __F16C__
    for (; step == 2 && i + 8 <= n; i += 8) {
        _mm_storeu_si128((__m128i *)(void *)(p + 2 * i), _mm256_cvtps_ph(_mm256_loadu_ps(d + i), 0));
    }
#endif
    for (; i < n; i++) {
        uint16_t v = f16_of_f32(d[i]);
        memcpy(p + i * step, &v, 2);
    }
}

static inline void store_f32(char *restrict p, const float *restrict d, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_F32: LINE_LOOP(float, d[i]);
    case WF_BF16: LINE_LOOP(uint16_t, bf16_of_f32(d[i]));
    case WF_F16: store_f16(p, d, n, step); break;
    default: LINE_LOOP(double, (double)d[i]);
    }
}

/* f64 to a 16-bit type rounds through f32. */
static inline void store_f64(char *restrict p, const double *restrict d, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_F32: LINE_LOOP(float, (float)d[i]);
    case WF_BF16: LINE_LOOP(uint16_t, bf16_of_f32((float)d[i]));
    case WF_F16: LINE_LOOP(uint16_t, f16_of_f32((float)d[i]));
    default: LINE_LOOP(double, d[i]);
    }
}

static inline void store_i64(char *restrict p, const int64_t *restrict d, wf_dtype t, int64_t n, int64_t step)
{
    switch (t) {
    case WF_I32: LINE_LOOP(int32_t, (int32_t)d[i]);
    case WF_U8: LINE_LOOP(uint8_t, (uint8_t)d[i]);
    case WF_BOOL: LINE_LOOP(uint8_t, d[i] != 0);
    default: LINE_LOOP(int64_t, d[i]);
    }
}
#undef LINE_LOOP

static inline void load_line(compute c, void *d, const char *p, wf_dtype t, int64_t n, int64_t step)
{
    switch (c) {
    case AS_F32: load_f32(d, p, t, n, step); break;
    case AS_F64: load_f64(d, p, t, n, step); break;
    default: load_i64(d, p, t, n, step); break;
    }
}
static inline void store_line(compute c, char *p, const void *d, wf_dtype t, int64_t n, int64_t step)
{
    switch (c) {
    case AS_F32: store_f32(p, d, t, n, step); break;
    case AS_F64: store_f64(p, d, t, n, step); break;
    default: store_i64(p, d, t, n, step); break;
    }
}

/* ---- views ---- */

/* A reason to decline, or NULL. */
static inline const char *view_fault(const wfi_view *v)
{
    if (!v || v->ndim < 0 || v->ndim > WF_RANK_MAX) {
        return "an operand is missing or its rank is over 8";
    }
    return NULL;
}
static inline int64_t view_elements(const wfi_view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++) {
        n *= v->dim[d];
    }
    return n;
}
static inline bool same_dims(const wfi_view *a, const wfi_view *b)
{
    if (a->ndim != b->ndim) {
        return false;
    }
    for (int d = 0; d < a->ndim; d++) {
        if (a->dim[d] != b->dim[d]) {
            return false;
        }
    }
    return true;
}

/* ---- sharing work ---- */

/* How many threads a run may use: scratch was sized for `threads`. */
static inline wfi_pool *pool_for(const wfi_run *run, int threads)
{
    return wfi_pool_threads(run->pool) <= threads ? run->pool : NULL;
}
/* Items a chunk, so that a chunk is about 64 Ki elements but there are at least four chunks a thread if items allow. */
static inline int64_t items_a_chunk(int64_t items, int64_t each, int threads)
{
    int64_t per = 65536 / (each > 0 ? each : 1), fair = items / (4 * (int64_t)threads);
    if (per > fair && fair * each >= 8192) {
        per = fair;
    }
    return per > 1 ? per : 1;
}
static inline size_t round64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

#endif
