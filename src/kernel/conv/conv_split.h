/* conv_split.h - pixels into operands of the tile unit: f32 in three bf16 parts (kernel/gemm/amx_pack.h), bf16 as it
 * is.
 *
 * parts: 3 (values are f32) or 1 (they are bf16). A part lies `part` elements behind the one before. What was seen of
 * f32 values goes to `s`, for the guard. */
enum { CHAN = 32 }; /* of which operands have multiples */

/* Element i of values of a type with `parts` parts. */
WFI_INLINE const void *value_at(const void *p, int64_t i, const int parts)
{
    return (const char *)p + i * (parts == 1 ? 2 : 4);
}

/* What sums of products of parts are to be multiplied by. */
WFI_INLINE float unscale(const int parts)
{
    return parts == 1 ? 1 : WFI_AMX_UNSCALE;
}

#if WFI_LANES == 16
typedef wfi_amx_seen seen;

WFI_INLINE seen seen_none(void)
{
    return (seen){ _mm512_setzero_si512(), _mm512_set1_epi32(-1) };
}

WFI_INLINE void seen_end(const seen *s, wfi_amx_range *r)
{
    wfi_amx_range_join(r, &(wfi_amx_range){ _mm512_reduce_max_epu32(s->high), _mm512_reduce_min_epu32(s->low) });
}

/* 16 channels of one pixel: each part in the upper half of a lane, zeros in the lower. */
typedef struct split_pixel {
    __m512 part[3];
} split_pixel;

/* 16 pixels by 16 channels, not yet turned. */
typedef struct turned_16 {
    V row[16];
} turned_16;

WFI_INLINE __m512i wide_bf16(const void *p)
{
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

WFI_INLINE split_pixel split_nothing(void)
{
    return (split_pixel){ { _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps() } };
}

WFI_INLINE split_pixel split_16(const void *p, const int parts, seen *s)
{
    split_pixel r = split_nothing();
    if (parts == 1) {
        r.part[0] = (__m512)_mm512_slli_epi32(wide_bf16(p), 16);
        return r;
    }
    __m512 v = wfi_amx_fetch(p, s);
    r.part[0] = wfi_amx_take(&v);
    r.part[1] = wfi_amx_take(&v);
    r.part[2] = v;
    return r;
}

/* bf16 that were widened. */
WFI_INLINE split_pixel wide_16(const float *p)
{
    split_pixel r = split_nothing();
    r.part[0] = _mm512_loadu_ps(p);
    return r;
}

/* Two pixels -> dst[16][2] */
WFI_INLINE void put_pair(const split_pixel *even, const split_pixel *odd, const int parts, uint16_t *dst,
                         ptrdiff_t part)
{
    UNROLL for (int i = 0; i < parts; i++)
    {
        _mm512_storeu_si512(dst + i * part, (__m512i)wfi_amx_word(even->part[i], odd->part[i]));
    }
}

/* 32 neighbours -> dst[32] */
WFI_INLINE void split_32(const void *src, const int parts, uint16_t *dst, ptrdiff_t part, seen *s)
{
    if (parts == 1) {
        _mm512_storeu_si512(dst, _mm512_loadu_si512(src));
        return;
    }
    split_pixel lo = split_16(src, 3, s), hi = split_16((const float *)src + 16, 3, s);
    UNROLL for (int i = 0; i < 3; i++)
    {
        _mm512_storeu_si512(dst + i * part, (__m512i)wfi_amx_row(lo.part[i], hi.part[i]));
    }
}

WFI_INLINE turned_16 turned_nothing(void)
{
    turned_16 v;
    UNROLL for (int i = 0; i < 16; i++)
    {
        v.row[i] = (V){ 0 };
    }
    return v;
}

/* Pixels lo .. hi-1 of v; p: pixel lo, the others `step` values apart. */
WFI_INLINE void turned_load(turned_16 *v, const void *p, ptrdiff_t step, int lo, int hi, const int parts)
{
    for (int i = lo; i < hi; i++, p = value_at(p, step, parts)) {
        v->row[i] = parts == 1 ? (V)wide_bf16(p) : load(p);
    }
}

/* -> dst[channel * 32 + pixel] */
WFI_INLINE void turned_put(const turned_16 *v, const int parts, uint16_t *dst, ptrdiff_t part, seen *s)
{
    V r[16];
    UNROLL for (int i = 0; i < 16; i++)
    {
        r[i] = v->row[i];
    }
    transpose(r);
    UNROLL for (int i = 0; i < 16; i++)
    {
        if (parts == 1) {
            _mm256_storeu_si256((__m256i *)(dst + i * 32), _mm512_cvtepi32_epi16((__m512i)r[i]));
            continue;
        }
        split_pixel x = split_16(&r[i], 3, s);
        UNROLL for (int q = 0; q < 3; q++)
        {
            _mm256_storeu_si256((__m256i *)(dst + i * 32 + q * part),
                                _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)x.part[q], 16)));
        }
    }
}

#else
typedef wfi_amx_range seen;

WFI_INLINE seen seen_none(void)
{
    return wfi_amx_range_none;
}

WFI_INLINE void seen_end(const seen *s, wfi_amx_range *r)
{
    wfi_amx_range_join(r, s);
}

typedef struct split_pixel {
    uint16_t part[3][16];
} split_pixel;

typedef struct turned_16 {
    float row[16][16];
} turned_16;

/* Value i of p: its parts. */
WFI_INLINE void split_1(const void *p, int64_t i, const int parts, uint16_t part[3], seen *s)
{
    float v = widen(p, i, parts == 1 ? WF_BF16 : WF_F32);
    if (parts == 1) {
        part[0] = narrow_bf16(v);
        return;
    }
    wfi_amx_range_see(s, v);
    wfi_amx_split(v, part);
}

WFI_INLINE split_pixel split_nothing(void)
{
    return (split_pixel){ { { 0 } } };
}

WFI_INLINE split_pixel split_16(const void *p, const int parts, seen *s)
{
    split_pixel r = split_nothing();
    for (int i = 0; i < 16; i++) {
        uint16_t part[3] = { 0 };
        split_1(p, i, parts, part, s);
        for (int q = 0; q < 3; q++) {
            r.part[q][i] = part[q];
        }
    }
    return r;
}

WFI_INLINE split_pixel wide_16(const float *p)
{
    split_pixel r = split_nothing();
    for (int i = 0; i < 16; i++) {
        r.part[0][i] = narrow_bf16(p[i]);
    }
    return r;
}

WFI_INLINE void put_pair(const split_pixel *even, const split_pixel *odd, const int parts, uint16_t *dst,
                         ptrdiff_t part)
{
    for (int i = 0; i < parts; i++) {
        for (int j = 0; j < 16; j++) {
            dst[i * part + 2 * j] = even->part[i][j];
            dst[i * part + 2 * j + 1] = odd->part[i][j];
        }
    }
}

WFI_INLINE void split_32(const void *src, const int parts, uint16_t *dst, ptrdiff_t part, seen *s)
{
    for (int h = 0; h < 2; h++) {
        split_pixel x = split_16(value_at(src, 16 * h, parts), parts, s);
        for (int i = 0; i < parts; i++) {
            memcpy(dst + i * part + 16 * h, x.part[i], sizeof x.part[i]);
        }
    }
}

WFI_INLINE turned_16 turned_nothing(void)
{
    return (turned_16){ { { 0 } } };
}

WFI_INLINE void turned_load(turned_16 *v, const void *p, ptrdiff_t step, int lo, int hi, const int parts)
{
    for (int i = lo; i < hi; i++, p = value_at(p, step, parts)) {
        for (int c = 0; c < 16; c++) {
            v->row[i][c] = widen(p, c, parts == 1 ? WF_BF16 : WF_F32);
        }
    }
}

WFI_INLINE void turned_put(const turned_16 *v, const int parts, uint16_t *dst, ptrdiff_t part, seen *s)
{
    for (int i = 0; i < 16; i++) {
        split_pixel x = parts == 3 ? split_16(v->row[i], 3, s) : wide_16(v->row[i]);
        for (int q = 0; q < parts; q++) {
            for (int c = 0; c < 16; c++) {
                dst[c * 32 + i + q * part] = x.part[q][c];
            }
        }
    }
}
#endif

/* n values `step` apart -> side by side */
WFI_INLINE const void *side_by_side(const void *p, int64_t step, int64_t n, const int parts, void *room)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)room + i * (parts == 1 ? 2 : 4), value_at(p, i * step, parts), parts == 1 ? 2 : 4);
    }
    return room;
}

/* 16 channels of a pixel whose channels may lie anyhow. */
WFI_INLINE split_pixel split_any(const conv_plane *p, const void *pixel, const int parts, seen *s)
{
    float room[16];
    return split_16(p->s[1] == 1 ? pixel : side_by_side(pixel, p->s[1], 16, parts, room), parts, s);
}

/* The same pixel of n images, as pixels 0 .. n-1 of v. */
WFI_INLINE void turned_any(turned_16 *v, const conv_plane *p, const void *pixel, int n, const int parts)
{
    float room[16];
    if (p->s[1] == 1) {
        turned_load(v, pixel, p->s[0], 0, n, parts);
        return;
    }
    for (int i = 0; i < n; i++) {
        turned_load(v, side_by_side(value_at(pixel, i * p->s[0], parts), p->s[1], 16, parts, room), 0, i, i + 1, parts);
    }
}

/* Row y of the pixels of one image: channels side by side, *step elements from pixel to pixel. Where they do not lie so
 * they are gathered in `room` (w * chan values); a repeated pixel only once. */
static const void *pixel_row(const conv_plane *p, const void *image, int64_t y, int64_t w, int64_t chan,
                             const int parts, void *room, ptrdiff_t *step)
{
    const void *row = value_at(image, y * p->s[2], parts);
    *step = p->s[3];
    if (p->s[1] == 1) {
        return row;
    }
    *step = p->s[3] == 0 ? 0 : chan;
    w = p->s[3] == 0 ? 1 : w;
    if (parts == 3) {
        copy_pixels(room, chan, row, p->s[3], p->s[1], w, chan, WF_F32);
        return room;
    }
    for (int64_t i = 0; i < w; i++) {
        side_by_side(value_at(row, i * p->s[3], parts), p->s[1], chan, parts, (uint16_t *)room + i * chan);
    }
    return room;
}
