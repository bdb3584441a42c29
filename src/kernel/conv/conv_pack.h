/* conv_pack.h - weights into panels: [group][panel][ky][kx][k][width], the order in which a tile walks them. */
#if T_IS_FLOAT
enum { PACK_TAPS = 64 };

/* n <= L values; whole: all L may be read. */
WFI_INLINE V load_some(const T *p, bool whole, int64_t n)
{
    T part[L] = { 0 };
    if (whole) {
        return load(p);
    }
    for (int64_t i = 0; i < n; i++) {
        part[i] = p[i];
    }
    return load(part);
}

/* A run of `cols` neighbouring weights for each of nj output channels, wj apart. Column f (kernel tap f % taps of
 * reduction channel k + f / taps) goes to panel row map[f % taps] * ci + k; map -1: not a tap of this phase. */
static void pack_run(const T *src, int64_t wj, int64_t nj, int64_t cols, const int16_t *map, int64_t taps, int64_t ci,
                     int64_t k, T *dst, int64_t nr)
{
    int64_t end = wj > 0 ? (nj - 1) * wj + cols : cols; /* whole vectors may be read up to here */
    int64_t tap = 0;
    for (int64_t f = 0; f < cols; f += L) {
        int64_t row[L], left = cols - f < L ? cols - f : L;
        for (int64_t t = 0; t < left; t++) {
            row[t] = map[tap] < 0 ? -1 : (map[tap] * ci + k) * nr;
            if (++tap == taps) {
                tap = 0;
                k++;
            }
        }
        for (int64_t j = 0; j < nr; j += L) {
            V r[L];
            UNROLL for (int i = 0; i < L; i++)
            {
                r[i] = (V){ 0 };
                if (j + i < nj) {
                    r[i] =
                        load_some(src + (j + i) * wj + f, left == L || (wj > 0 && (j + i) * wj + f + L <= end), left);
                }
            }
            transpose(r);
            UNROLL for (int t = 0; t < L; t++)
            {
                if (t < left && row[t] >= 0) {
                    store(dst + row[t] + j, r[t]);
                }
            }
        }
    }
}

/* Weights whose kernel taps lie side by side (OIHW), or whose reduction channels do: by transposed tiles. */
static bool pack_fast(const conv_core *c, const T *w, int64_t nj, T *dst, int64_t nr)
{
    int16_t map[PACK_TAPS];
    int64_t taps = c->fh * c->fw;
    if (c->wtype != WF_F32 || taps > PACK_TAPS) {
        return false;
    }
    if ((taps == 1 || ((c->ww == 1 || c->fw == 1) && (c->wh == c->fw || c->fh == 1))) && c->wj != 1) {
        for (int64_t t = 0; t < taps; t++) {
            map[t] = -1;
        }
        for (int64_t y = 0; y < c->kh; y++) {
            for (int64_t x = 0; x < c->kw; x++) {
                map[(c->k0h + y * c->kdh) * c->fw + c->k0w + x * c->kdw] = (int16_t)(y * c->kw + x);
            }
        }
        if (c->wk == taps) {
            pack_run(w, c->wj, nj, c->ci * taps, map, taps, c->ci, 0, dst, nr);
            return true;
        }
        if (taps > 2) {
            for (int64_t k = 0; k < c->ci; k++) {
                pack_run(w + k * c->wk, c->wj, nj, taps, map, taps, c->ci, k, dst, nr);
            }
            return true;
        }
    }
    if (c->wk == 1 && c->ci > 2) {
        map[0] = 0;
        for (int64_t y = 0; y < c->kh; y++) {
            for (int64_t x = 0; x < c->kw; x++) {
                const T *p = w + (c->k0h + y * c->kdh) * c->wh + (c->k0w + x * c->kdw) * c->ww;
                pack_run(p, c->wj, nj, c->ci, map, 1, c->ci, 0, dst + (y * c->kw + x) * c->ci * nr, nr);
            }
        }
        return true;
    }
    return false;
}
#endif

/* A panel: nr channels of output of which nj exist, the first at element `base` of w. */
static void pack_panel(const conv_core *c, const void *w, int64_t base, int64_t nj, T *dst, int64_t nr)
{
#if T_IS_FLOAT
    if (pack_fast(c, (const T *)w + base, nj, dst, nr)) {
        return;
    }
#endif
    for (int64_t y = 0; y < c->kh; y++) {
        for (int64_t x = 0; x < c->kw; x++) {
            int64_t o = base + (c->k0h + y * c->kdh) * c->wh + (c->k0w + x * c->kdw) * c->ww;
            for (int64_t k = 0; k < c->ci; k++, dst += nr) {
                copy_pixels(dst, 1, at(w, o + k * c->wk, c->wtype), c->wj, 1, nj, 1, c->wtype);
                memset(dst + nj, 0, (size_t)(nr - nj) * sizeof(T));
            }
        }
    }
}
