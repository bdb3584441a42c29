/* conv_tile.h - the register tiles: mr rows by nv vectors, one fma chain per element.
 *
 * Row i, step p of segment s reads a[seg[s] + i * ai + p * ap]; the right operand runs on through all segments, bp
 * apart. FLAT tiles have segments of one step, for windows too short for two loops. */
WFI_INLINE void tile(const int mr, const int nv, const int flat, const int add, const T *a, ptrdiff_t ai, ptrdiff_t ap,
                     const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, ptrdiff_t bp, T *c, ptrdiff_t ldc)
{
    V r[MR_MAX][2];
    UNROLL for (int i = 0; i < mr; i++) {
        UNROLL for (int j = 0; j < nv; j++) {
            r[i][j] = (V){ 0 };
        }
    }
    for (int64_t s = 0; s < nseg; s++) {
        const T *x = a + seg[s];
        KLOOP for (int64_t p = 0; p < (flat ? 1 : len); p++) {
            V b0 = load(b), b1 = nv > 1 ? load(b + L) : b0;
            PIN(b0);
            if (nv > 1) {
                PIN(b1);
            }
            UNROLL for (int i = 0; i < mr; i++) {
                V y = splat(x[i * ai]);
                PIN(y);
                r[i][0] = fma_(y, b0, r[i][0]);
                if (nv > 1) {
                    r[i][1] = fma_(y, b1, r[i][1]);
                }
            }
            UNROLL for (int i = 0; i < mr; i++) {
                UNROLL for (int j = 0; j < nv; j++) {
                    PIN(r[i][j]);
                }
            }
            x += ap;
            b += bp;
        }
    }
    UNROLL for (int i = 0; i < mr; i++) {
        UNROLL for (int j = 0; j < nv; j++) {
            T *p = c + i * ldc + j * L;
            store(p, add ? load(p) + r[i][j] : r[i][j]);
        }
    }
}

/* forward: rows are pixels ai apart, steps are neighbours */
typedef void fwd_fn(const T *a, ptrdiff_t ai, const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, T *c,
                    ptrdiff_t ldc);
/* weight gradient: rows are neighbours, steps are pixels ap apart; the result is added to c */
typedef void wgt_fn(const T *a, ptrdiff_t ap, const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, ptrdiff_t bp,
                    T *c, ptrdiff_t ldc);

#define TILES(mr, nv)                                                                                                  \
    static void fwd_##mr##_##nv(const T *a, ptrdiff_t ai, const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, \
                                T *c, ptrdiff_t ldc)                                                                   \
    {                                                                                                                  \
        tile(mr, nv, 0, 0, a, ai, 1, seg, nseg, len, b, nv * L, c, ldc);                                               \
    }                                                                                                                  \
    static void flat_##mr##_##nv(const T *a, ptrdiff_t ai, const ptrdiff_t *seg, int64_t nseg, int64_t len,            \
                                 const T *b, T *c, ptrdiff_t ldc)                                                      \
    {                                                                                                                  \
        (void)len;                                                                                                     \
        tile(mr, nv, 1, 0, a, ai, 1, seg, nseg, 1, b, nv * L, c, ldc);                                                 \
    }                                                                                                                  \
    static void wgt_##mr##_##nv(const T *a, ptrdiff_t ap, const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, \
                                ptrdiff_t bp, T *c, ptrdiff_t ldc)                                                     \
    {                                                                                                                  \
        tile(mr, nv, 0, 1, a, 1, ap, seg, nseg, len, b, bp, c, ldc);                                                   \
    }

#if WFI_LANES == 16
#define ROWS1(X, s) X(1, s) X(2, s) X(3, s) X(4, s) X(5, s) X(6, s) X(7, s) X(8, s) X(9, s) X(10, s) X(11, s) X(12, s) X(13, s) X(14, s)
#define ROWS2(X, s) ROWS1(X, s)
#elif WFI_LANES == 8
#define ROWS1(X, s) X(1, s) X(2, s) X(3, s) X(4, s) X(5, s) X(6, s) X(7, s) X(8, s) X(9, s) X(10, s) X(11, s) X(12, s)
#define ROWS2(X, s) X(1, s) X(2, s) X(3, s) X(4, s) X(5, s) X(6, s)
#else
#define ROWS1(X, s) X(1, s) X(2, s) X(3, s) X(4, s) X(5, s) X(6, s) X(7, s) X(8, s)
#define ROWS2(X, s) X(1, s) X(2, s) X(3, s) X(4, s) X(5, s) X(6, s)
#endif
ROWS1(TILES, 1)
ROWS2(TILES, 2)

#define FWD_NAME(mr, nv)  fwd_##mr##_##nv,
#define FLAT_NAME(mr, nv) flat_##mr##_##nv,
#define WGT_NAME(mr, nv)  wgt_##mr##_##nv,
static fwd_fn *const fwd_tiles[2][MR_MAX] = { { ROWS1(FWD_NAME, 1) }, { ROWS2(FWD_NAME, 2) } };
static fwd_fn *const flat_tiles[2][MR_MAX] = { { ROWS1(FLAT_NAME, 1) }, { ROWS2(FLAT_NAME, 2) } };
static wgt_fn *const wgt_tiles[2][MR_MAX] = { { ROWS1(WGT_NAME, 1) }, { ROWS2(WGT_NAME, 2) } };

/* n rows in tiles as even as can be, so that no tile of one or two rows waits for its own latency: `more` tiles of
 * rows + 1, then tiles of `rows`. */
typedef struct even {
    int64_t tiles, rows, more;
} even;

WFI_INLINE even even_split(int64_t n, int64_t most)
{
    uint32_t tiles = ((uint32_t)n + (uint32_t)most - 1) / (uint32_t)most;
    return tiles == 0 ? (even){ 0, 0, 0 } : (even){ tiles, (uint32_t)n / tiles, (uint32_t)n % tiles };
}

/* The panels of co output channels: NR wide, the last one L wide where that is enough. */
WFI_INLINE int64_t panels(int64_t co)
{
    return (co + NR - 1) / NR;
}

WFI_INLINE int64_t panel_width(int64_t co, int64_t panel)
{
    return co - panel * NR > L ? NR : L;
}

WFI_INLINE int64_t padded(int64_t co)
{
    int64_t last = co % NR;
    return last == 0 ? co : co - last + (last > L ? NR : L);
}
