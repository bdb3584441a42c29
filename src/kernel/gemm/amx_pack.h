/* amx_pack.h - panels for the tile unit (amx_tile.h): 32 lines (rows of a, columns of b) of bf16 or of f32 split into
 * three bf16, any strides, zeros behind the last line and the last of k.
 *
 *     wfi_amx_lines l = { .src = b, .dtype = WF_F32, .line = 1, .k = ldb };            columns of a row-major b
 *     wfi_amx_range seen = wfi_amx_range_none;
 *     wfi_amx_pack(&l, columns, k, true, panel, &seen);
 *
 * Splitting. An f32 is the exact sum of three bf16 (8 + 8 + 8 bits), each the nearest to what the ones before it left:
 * Veltkamp's splitting, T. J. Dekker, A floating-point technique for extending the available precision (1971), with
 * 2^16 + 1. Numbers are first multiplied by 2^WFI_AMX_SCALE, which is exact, so that the products of small parts stay
 * above 2^-126, where the unit would take them for zero: the sums are to be multiplied by 2^-(2 WFI_AMX_SCALE). Whether
 * that suffices, and nothing overflows on the way, is seen from the largest and the smallest number of each operand
 * (wfi_amx_range_fits); packing finds them on its way. */
#ifndef WFI_KERNEL_GEMM_AMX_PACK_H
#define WFI_KERNEL_GEMM_AMX_PACK_H
#include "kernel/gemm/amx_tile.h"
#include "weft/types.h"

#define WFI_AMX_SCALE   30
#define WFI_AMX_UNSCALE 0x1p-60f

typedef struct wfi_amx_lines {
    const void *src;
    wf_dtype dtype;  /* WF_BF16, or WF_F32: split */
    int64_t line, k; /* strides, elements */
} wfi_amx_lines;

/* Of the bits of |x|: the largest, and the smallest beside 0, less 1. */
typedef struct wfi_amx_range {
    uint32_t high, low;
} wfi_amx_range;
static const wfi_amx_range wfi_amx_range_none = { 0, UINT32_MAX };

static inline void wfi_amx_range_join(wfi_amx_range *r, const wfi_amx_range *s)
{
    r->high = r->high > s->high ? r->high : s->high;
    r->low = r->low < s->low ? r->low : s->low;
}
/* Biased exponents. */
static inline int wfi_amx_range_top(const wfi_amx_range *r)
{
    return (int)(r->high >> 23);
}
static inline int wfi_amx_range_bottom(const wfi_amx_range *r) /* subnormal numbers have the last place of exponent 1 */
{
    const int e = (int)((r->low + 1) >> 23);
    return r->low == UINT32_MAX ? 255 : e ? e : 1;
}
/* May k products of numbers of these ranges be made of parts? Every part and every product of parts is a multiple of
 * 2^-126 or more, and no sum reaches 2^127. */
static inline bool wfi_amx_range_fits(const wfi_amx_range *a, const wfi_amx_range *b, int64_t k)
{
    int bits = 0; /* of k */
    while (bits < 63 && k >> bits)
        bits++;
    const int top_a = wfi_amx_range_top(a), top_b = wfi_amx_range_top(b);
    /* numbers are below 2^(top - 126), times 2^16 when they are split, and last places 2^(bottom - 150) */
    return top_a <= 236 - WFI_AMX_SCALE && top_b <= 236 - WFI_AMX_SCALE &&
           top_a + top_b - 252 + 2 * WFI_AMX_SCALE + bits <= 126 &&
           wfi_amx_range_bottom(a) + wfi_amx_range_bottom(b) - 300 + 2 * WFI_AMX_SCALE >= -126;
}

/* ---- scalars: edges and odd strides ---- */

static inline float wfi_amx_high_part(float x) /* the eight leading bits */
{
    const float g = x * 65537.0f;
    return g - (g - x);
}
static inline void wfi_amx_split(float x, uint16_t part[3])
{
    x *= (float)(1 << WFI_AMX_SCALE);
    for (int i = 0; i < 3; i++) {
        const float h = i < 2 ? wfi_amx_high_part(x) : x;
        part[i] = (uint16_t)(wfi_f32_bits(h) >> 16);
        x -= h;
    }
}
static inline void wfi_amx_range_see(wfi_amx_range *r, float x)
{
    const uint32_t u = wfi_f32_bits(x) & 0x7fffffff;
    wfi_amx_range_join(r, &(wfi_amx_range){ u, u - 1 });
}

/* Where value p of line l of a tile goes. */
static inline int64_t wfi_amx_place(bool pairs, int64_t l, int64_t p)
{
    return pairs ? p / 2 * 32 + 2 * l + p % 2 : l * 32 + p;
}
/* One tile (of a split operand one tile of each part): 16 lines, 32 of k. */
static inline void wfi_amx_tile_any(const wfi_amx_lines *s, const char *src, int64_t lines, int64_t k, bool pairs,
                                    uint16_t *dst, wfi_amx_range *seen)
{
    const int parts = s->dtype == WF_F32 ? 3 : 1;
    for (int i = 0; i < parts; i++)
        memset(WFI_AMX_PART(dst, i), 0, WFI_AMX_TILE * sizeof *dst);
    for (int64_t l = 0; l < lines && l < 16; l++)
        for (int64_t p = 0; p < k && p < 32; p++) {
            const int64_t from = l * s->line + p * s->k, to = wfi_amx_place(pairs, l, p);
            if (parts == 1) {
                memcpy(dst + to, src + 2 * from, 2);
                continue;
            }
            float x;
            uint16_t part[3];
            memcpy(&x, src + 4 * from, 4);
            wfi_amx_range_see(seen, x);
            wfi_amx_split(x, part);
            for (int i = 0; i < 3; i++)
                WFI_AMX_PART(dst, i)[to] = part[i];
        }
}

/* ---- whole tiles ---- */

#if defined __AVX512F__ && defined __AVX512BW__
/* A tile as 16 vectors of 16 words of two values: by line (word q: values 2q and 2q + 1), or by pair (word l: line l).
 */
WFI_INLINE void wfi_amx_words_put(wfi_vi4 *w, bool turn, uint16_t *dst)
{
    if (turn)
        wfi_transpose4(w);
    WFI_UNROLL for (int i = 0; i < 16; i++) _mm512_store_si512(dst + i * 32, (__m512i)w[i]);
}
WFI_INLINE void wfi_amx_tile_bf16(const uint16_t *src, int64_t line, int64_t k, bool pairs, uint16_t *dst)
{
    wfi_vi4 w[16];
    if (k == 1) {
        WFI_UNROLL for (int l = 0; l < 16; l++) w[l] = (wfi_vi4)_mm512_loadu_si512(src + l * line);
    } else {
        WFI_UNROLL for (int q = 0; q < 16; q++)
        {
            __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * q * k));
            __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)(src + (2 * q + 1) * k));
            w[q] = (wfi_vi4)_mm512_or_si512(_mm512_cvtepu16_epi32(x), _mm512_slli_epi32(_mm512_cvtepu16_epi32(y), 16));
        }
    }
    wfi_amx_words_put(w, (k == 1) == pairs, dst);
}
/* Two tiles of pairs at once, 32 lines side by side. */
WFI_INLINE void wfi_amx_two_of_pairs(const uint16_t *src, int64_t k, uint16_t *dst)
{
    const __m512i first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0),
                  second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
    for (int q = 0; q < 16; q++, src += 2 * k, dst += 32) {
        __m512i x = _mm512_loadu_si512(src), y = _mm512_loadu_si512(src + k);
        __m512i low = _mm512_unpacklo_epi16(x, y), high = _mm512_unpackhi_epi16(x, y);
        _mm512_store_si512(dst, _mm512_permutex2var_epi64(low, first, high));
        _mm512_store_si512(dst + WFI_AMX_TILE, _mm512_permutex2var_epi64(low, second, high));
    }
}
typedef struct wfi_amx_seen {
    __m512i high, low;
} wfi_amx_seen;
/* The next part of v, which becomes what is left. */
WFI_INLINE __m512 wfi_amx_take(__m512 *v)
{
    const __m512 g = _mm512_mul_ps(*v, _mm512_set1_ps(65537.0f));
    const __m512 h = _mm512_sub_ps(g, _mm512_sub_ps(g, *v));
    *v = _mm512_sub_ps(*v, h);
    return h;
}
WFI_INLINE __m512 wfi_amx_fetch(const float *p, wfi_amx_seen *s)
{
    const __m512 v = _mm512_loadu_ps(p);
    const __m512i u = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff));
    s->high = _mm512_max_epu32(s->high, u);
    s->low = _mm512_min_epu32(s->low, _mm512_add_epi32(u, _mm512_set1_epi32(-1)));
    return _mm512_mul_ps(v, _mm512_set1_ps((float)(1 << WFI_AMX_SCALE)));
}
/* Words of numbers that are bf16 already: x in the low half, y in the high one; or 32 numbers that follow each other.
 */
WFI_INLINE wfi_vi4 wfi_amx_word(__m512 x, __m512 y)
{
    return (wfi_vi4)_mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(x), 16), _mm512_castps_si512(y));
}
WFI_INLINE wfi_vi4 wfi_amx_row(__m512 x, __m512 y)
{
    const __m512i odd =
        _mm512_add_epi16(_mm512_set1_epi16(1),
                         _mm512_slli_epi16(_mm512_set_epi16(31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17,
                                                            16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
                                           1));
    return (wfi_vi4)_mm512_permutex2var_epi16(_mm512_castps_si512(x), odd, _mm512_castps_si512(y));
}
/* along: the numbers of a line follow each other, else those of a step of k do. Where the words come by line and pairs
 * are wanted, or the other way round, they are turned. */
WFI_SPECIAL void wfi_amx_tile_split(const float *src, int64_t line, int64_t k, bool along, bool turn, uint16_t *dst,
                                    wfi_amx_range *seen)
{
    wfi_vi4 w[3][16];
    wfi_amx_seen s = { _mm512_setzero_si512(), _mm512_set1_epi32(-1) };
    for (int i = 0; i < 16; i++) {
        const float *at = src + i * (along ? line : 2 * k);
        __m512 x = wfi_amx_fetch(at, &s), y = wfi_amx_fetch(at + (along ? 16 : k), &s);
        for (int part = 0; part < 3; part++) {
            const __m512 u = part < 2 ? wfi_amx_take(&x) : x, v = part < 2 ? wfi_amx_take(&y) : y;
            const wfi_vi4 word = along ? wfi_amx_row(u, v) : wfi_amx_word(u, v);
            if (turn)
                w[part][i] = word;
            else
                _mm512_store_si512(WFI_AMX_PART(dst, part) + i * 32, (__m512i)word);
        }
    }
    for (int part = 0; turn && part < 3; part++)
        wfi_amx_words_put(w[part], true, WFI_AMX_PART(dst, part));
    wfi_amx_range_join(seen, &(wfi_amx_range){ _mm512_reduce_max_epu32(s.high), _mm512_reduce_min_epu32(s.low) });
}
static __attribute__((noinline)) void wfi_amx_tile_f32(const float *src, int64_t line, int64_t k, bool pairs,
                                                       uint16_t *dst, wfi_amx_range *seen)
{
    if (k == 1 && pairs)
        wfi_amx_tile_split(src, line, k, true, true, dst, seen);
    else if (k == 1)
        wfi_amx_tile_split(src, line, k, true, false, dst, seen);
    else if (pairs)
        wfi_amx_tile_split(src, line, k, false, false, dst, seen);
    else
        wfi_amx_tile_split(src, line, k, false, true, dst, seen);
}
/* True: done. */
WFI_INLINE bool wfi_amx_tile_whole(const wfi_amx_lines *s, const char *src, bool pairs, uint16_t *dst,
                                   wfi_amx_range *seen)
{
    if (s->k != 1 && s->line != 1)
        return false;
    if (s->dtype == WF_F32)
        wfi_amx_tile_f32((const float *)(const void *)src, s->line, s->k, pairs, dst, seen);
    else
        wfi_amx_tile_bf16((const uint16_t *)(const void *)src, s->line, s->k, pairs, dst);
    return true;
}
WFI_INLINE bool wfi_amx_tiles_whole(const wfi_amx_lines *s, const char *src, bool pairs, uint16_t *dst)
{
    if (!pairs || s->line != 1 || s->k == 1 || s->dtype != WF_BF16)
        return false;
    wfi_amx_two_of_pairs((const uint16_t *)(const void *)src, s->k, dst);
    return true;
}
#else
WFI_INLINE bool wfi_amx_tile_whole(const wfi_amx_lines *s, const char *src, bool pairs, uint16_t *dst,
                                   wfi_amx_range *seen)
{
    (void)s, (void)src, (void)pairs, (void)dst, (void)seen;
    return false;
}
WFI_INLINE bool wfi_amx_tiles_whole(const wfi_amx_lines *s, const char *src, bool pairs, uint16_t *dst)
{
    (void)s, (void)src, (void)pairs, (void)dst;
    return false;
}
#endif

/* A panel: lines <= 32 of them, k deep (padded to a multiple of 32). pairs: of columns of b, else of rows of a. dst is
 * aligned to 64. seen is joined with the range of the numbers (of bf16: not looked at, may be NULL). */
static inline void wfi_amx_pack(const wfi_amx_lines *s, int64_t lines, int64_t k, bool pairs, uint16_t *dst,
                                wfi_amx_range *seen)
{
    const int64_t size = s->dtype == WF_F32 ? 4 : 2, step = s->dtype == WF_F32 ? 3 * WFI_AMX_STEP : WFI_AMX_STEP;
    const char *src = s->src;
    for (int64_t p = 0; p < k; p += 32, src += 32 * s->k * size, dst += step) {
        if (lines >= 32 && k - p >= 32 && wfi_amx_tiles_whole(s, src, pairs, dst))
            continue;
        for (int half = 0; half < 2; half++) {
            const char *at = src + 16 * half * s->line * size;
            uint16_t *to = dst + half * WFI_AMX_TILE;
            if (lines - 16 * half < 16 || k - p < 32 || !wfi_amx_tile_whole(s, at, pairs, to, seen))
                wfi_amx_tile_any(s, at, lines - 16 * half, k - p, pairs, to, seen);
        }
    }
}

#endif
