/* random.c - numbers that depend on their place alone: counting, and random ones from counters.
 *
 * Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. */
#include <string.h>
#include "kernel/copy/cast.h"
#include "kernel/copy/copy_parts.h"
#include "kernel/vmath.h"

enum {
    WIDE = 16,    /* blocks that are made side by side */
    MADE = 256,   /* elements that are made at a time, a multiple of 4 * WIDE */
    CHUNK = 16384 /* elements that a worker claims */
};

/* c[word][block], in place */
WFI_INLINE void philox(uint32_t c[4][WIDE], uint32_t k0, uint32_t k1)
{
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < WIDE; l++) {
            uint64_t p = (uint64_t)c[0][l] * 0xD2511F53u, q = (uint64_t)c[2][l] * 0xCD9E8D57u;
            uint32_t x = (uint32_t)(q >> 32) ^ c[1][l] ^ k0, y = (uint32_t)(p >> 32) ^ c[3][l] ^ k1;
            c[0][l] = x;
            c[1][l] = (uint32_t)q;
            c[2][l] = y;
            c[3][l] = (uint32_t)p;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

void WFI_K(wfi_random_block)(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c[4][WIDE] = { { counter[0] }, { counter[1] }, { counter[2] }, { counter[3] } };
    philox(c, key[0], key[1]);
    for (int w = 0; w < 4; w++)
        out[w] = c[w][0];
}

/* The words of the blocks first .. first + WIDE - 1, block after block. */
static void words(uint32_t *out, uint64_t first, const uint64_t *key, uint32_t salt)
{
    uint32_t c[4][WIDE];
    for (int l = 0; l < WIDE; l++) {
        uint64_t b = first + (uint64_t)l;
        c[0][l] = (uint32_t)b;
        c[1][l] = (uint32_t)(b >> 32);
        c[2][l] = (uint32_t)key[1];
        c[3][l] = salt;
    }
    philox(c, (uint32_t)key[0], (uint32_t)(key[0] >> 32));
    for (int l = 0; l < WIDE; l++) {
        for (int w = 0; w < 4; w++)
            out[4 * l + w] = c[w][l];
    }
}

/* ---- from words to numbers ---- */

/* Bits that a number in [0, 1) may have so that its type holds it: no rounding makes it 1. */
static int unit_bits(wf_dtype t)
{
    return t == WF_BF16 ? 8 : t == WF_F16 ? 11 : t == WF_F8E4M3 ? 4 : t == WF_F8E5M2 ? 3 : 24;
}

static void uniform(float *y, const uint32_t *w, int bits, float a, float b)
{
    float unit = wfi_of_bits_f32((uint32_t)(127 - bits) << 23), span = b - a;
    for (int i = 0; i < MADE; i++)
        y[i] = (float)(int32_t)(w[i] >> (32 - bits)) * unit * span + a;
}

/* Box and Muller: words 2i and 2i + 1 give two numbers, r cos t and r sin t; r from (0, 1], so the logarithm is finite.
 * t in quarter turns, reduced exactly. */
static void normal(float *y, const uint32_t *w, float a, float b)
{
    float u[MADE / 2], c[MADE / 2], s[MADE / 2];
    for (int i = 0; i < MADE / 2; i++)
        u[i] = (float)(int32_t)((w[2 * i] >> 8) + 1u) * 0x1p-24f;
    for (int i = 0; i < MADE / 2; i++)
        u[i] = wfi_sqrt_f32(-2.f * wfi_log_f32(u[i]));
    for (int i = 0; i < MADE / 2; i++) {
        uint32_t turn = w[2 * i + 1] >> 8, q = (turn + 0x200000u) >> 22;
        float t = (float)((int32_t)turn - (int32_t)(q << 22)) * (0x1p-22f * 1.57079633f);
        c[i] = wfi_trig_poly_f32(t, q + 1u);
        s[i] = wfi_trig_poly_f32(t, q);
    }
    for (int i = 0; i < MADE / 2; i++) {
        y[2 * i] = u[i] * c[i] * b + a;
        y[2 * i + 1] = u[i] * s[i] * b + a;
    }
}

/* 1 where the word is below the threshold: 2^32 times the probability. */
static void keep(int32_t *y, const uint32_t *w, uint64_t threshold)
{
    for (int i = 0; i < MADE; i++)
        y[i] = w[i] < threshold;
}

/* low .. low + span - 1: the upper half of a product; span < 2^32 */
static void whole(int64_t *y, const uint32_t *w, int64_t low, uint64_t span)
{
    for (int i = 0; i < MADE; i++)
        y[i] = low + (int64_t)((uint64_t)w[i] * span >> 32);
}

/* ---- runs of elements by their row-major number ---- */

/* Stores m elements from number `first` on. */
static void place(const wfi_view *v, char *y, int64_t first, const char *made, int64_t m)
{
    int64_t at[WF_RANK_MAX], rest = first, bytes = (int64_t)wf_dtype_bytes(v->dtype);
    if (v->ndim == 0) {
        memcpy(y, made, (size_t)bytes);
        return;
    }
    for (int d = v->ndim - 1; d >= 0; d--) {
        at[d] = rest % v->dim[d];
        rest /= v->dim[d];
    }
    int in = v->ndim - 1;
    while (m > 0) {
        int64_t part = v->dim[in] - at[in] < m ? v->dim[in] - at[in] : m, off = 0;
        for (int d = 0; d <= in; d++)
            off += at[d] * v->stride[d];
        if (v->stride[in] == 1)
            memcpy(y + off * bytes, made, (size_t)(part * bytes));
        else
            wfi_walk_move(y + off * bytes, v->stride[in] * bytes, made, bytes, part, (int)bytes);
        made += part * bytes;
        m -= part;
        at[in] += part;
        for (int d = in; d > 0 && at[d] == v->dim[d]; d--) {
            at[d] = 0;
            at[d - 1]++;
        }
    }
}

static int64_t elements(const wfi_view *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->ndim; d++)
        n *= v->dim[d];
    return n;
}

typedef struct place_job {
    const void *p;
    char *y;
    const uint64_t *key;
    int64_t n;
} place_job;

static void convert(wf_dtype to, char *y, wf_dtype from, const void *x)
{
    if (to == from)
        memcpy(y, x, MADE * wf_dtype_bytes(to));
    else
        cast_run(to, y, from, x, MADE);
}

static void random_chunk(void *arg, int64_t i, int worker)
{
    const place_job *j = arg;
    const wfi_random *p = j->p;
    int64_t lo = i * CHUNK, hi = lo + CHUNK < j->n ? lo + CHUNK : j->n;
    _Alignas(64) uint32_t w[MADE];
    _Alignas(64) char made[MADE * 8], out[MADE * 8];
    wf_dtype t = p->y.dtype, from = WF_F32;
    (void)worker;
    for (; lo < hi; lo += MADE) {
        for (int b = 0; b < MADE; b += 4 * WIDE)
            words(w + b, (uint64_t)(lo + b) / 4, j->key, p->salt);
        if (p->kind == WFI_RANDOM_KEEP) {
            from = WF_I32;
            keep((int32_t *)(void *)made, w, (uint64_t)(p->a * 0x1p32));
        } else if (p->kind == WFI_RANDOM_NORMAL) {
            normal((float *)(void *)made, w, (float)p->a, (float)p->b);
        } else if (cast_from[t].mid == MID_F32 || cast_from[t].mid == MID_F64) {
            uniform((float *)(void *)made, w, unit_bits(t), (float)p->a, (float)p->b);
        } else {
            from = WF_I64;
            whole((int64_t *)(void *)made, w, (int64_t)p->a, (uint64_t)(p->b - p->a));
        }
        convert(t, out, from, made);
        place(&p->y, j->y, lo, out, hi - lo < MADE ? hi - lo : MADE);
    }
}

const char *WFI_K(wfi_random_prepare)(wfi_random_kind kind, const wfi_view *y, uint32_t salt, double a, double b,
                                      void *params, size_t *scratch)
{
    wfi_random p = { .kind = kind, .salt = salt, .a = a, .b = b, .y = *y };
    bool real = cast_from[y->dtype].mid == MID_F32 || cast_from[y->dtype].mid == MID_F64;
    if (kind == WFI_RANDOM_NORMAL && !real)
        return "normal numbers need a float type";
    if (kind == WFI_RANDOM_UNIFORM && !real && !(b - a >= 1 && b - a < 0x1p32 && a >= -0x1p62 && a <= 0x1p62))
        return "no whole numbers in the range, or too many";
    if (kind == WFI_RANDOM_KEEP && !(a >= 0 && a <= 1))
        return "a probability lies in 0 .. 1";
    memcpy(params, &p, sizeof p);
    *scratch = 0;
    return NULL;
}

void WFI_K(wfi_random_run)(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_random *p = params;
    place_job j = { .p = p, .y = args[0], .key = args[1], .n = elements(&p->y) };
    wfi_pool_run(r->pool, (j.n + CHUNK - 1) / CHUNK, random_chunk, &j);
}

/* ---- counting ---- */

static void iota_chunk(void *arg, int64_t i, int worker)
{
    const place_job *j = arg;
    const wfi_iota *p = j->p;
    int64_t lo = i * CHUNK, hi = lo + CHUNK < j->n ? lo + CHUNK : j->n, after = 1;
    bool real = cast_from[p->dtype].mid == MID_F32 || cast_from[p->dtype].mid == MID_F64;
    _Alignas(64) char made[MADE * 8], out[MADE * 8];
    (void)worker;
    for (int d = p->axis + 1; d < p->y.ndim; d++)
        after *= p->y.dim[d];
    for (; lo < hi; lo += MADE) {
        for (int64_t k = 0; k < MADE; k++) {
            int64_t at = (lo + k) / after % p->y.dim[p->axis];
            double real_value = p->start + p->step * (double)at;
            int64_t value = (int64_t)((uint64_t)(int64_t)p->start + (uint64_t)(int64_t)p->step * (uint64_t)at);
            memcpy(made + 8 * k, real ? (const void *)&real_value : (const void *)&value, 8);
        }
        convert(p->dtype, out, real ? WF_F64 : WF_I64, made);
        place(&p->y, j->y, lo, out, hi - lo < MADE ? hi - lo : MADE);
    }
}

const char *WFI_K(wfi_iota_prepare)(const wfi_view *y, int axis, double start, double step, void *params,
                                    size_t *scratch)
{
    wfi_iota p = { .dtype = y->dtype, .start = start, .step = step, .y = *y, .axis = axis };
    bool real = cast_from[y->dtype].mid == MID_F32 || cast_from[y->dtype].mid == MID_F64;
    if (axis < 0 || axis >= y->ndim)
        return "no such axis";
    if (!real && !(start >= -0x1p62 && start <= 0x1p62 && step >= -0x1p62 && step <= 0x1p62))
        return "start or step is too large";
    memcpy(params, &p, sizeof p);
    *scratch = 0;
    return NULL;
}

void WFI_K(wfi_iota_run)(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_iota *p = params;
    place_job j = { .p = p, .y = args[0], .n = elements(&p->y) };
    wfi_pool_run(r->pool, (j.n + CHUNK - 1) / CHUNK, iota_chunk, &j);
}
