/* conv_tile.h - the register tiles: mr rows by nv vectors, one fma chain per element.
 *
 * The forward tiles have pixels as rows and take (kernel row, kernel column, channel) as steps; those of the weight
 * gradient have (kernel column, channel) as rows and take pixels as steps. Flat tiles have segments of one step, for
 * windows too short for two loops. */

/* Row i of a tile from two pointers and three strides (bytes): what x86 can address without a register a row. Opaque
 * to the compiler, which would make that register of each. */
typedef struct row_base {
    const char *x0, *x7; /* rows 0 and 7 */
    ptrdiff_t s1, s3, s5;
} row_base;

WFI_INLINE T row_value(const row_base *b, const int i)
{
    const char *x = i < 7 ? b->x0 : b->x7;
    const int k = i % 7;
    ptrdiff_t o = k == 0 ? 0 : k == 3 ? b->s3 : k == 5 ? b->s5 : k == 6 ? 2 * b->s3 : k * b->s1;
    return *(const T *)(const void *)(x + o);
}

/* One step: r[i][j] += row i * b[j]. unit: rows are neighbours, so that row i lies i elements behind x0. one: the only
 * step of its round. */
WFI_INLINE void tile_step(const int mr, const int nv, const int unit, const int one, const row_base *x, const T *b,
                          V r[MR_MAX][2])
{
    V b0 = load(b), b1 = nv > 1 ? load(b + L) : b0;
    PIN(b0);
    if (nv > 1) {
        PIN(b1);
    }
    UNROLL for (int i = 0; i < mr; i++)
    {
        V y = splat(unit ? ((const T *)(const void *)x->x0)[i] : row_value(x, i));
        PIN(y);
        r[i][0] = one ? fma_(y, b0, r[i][0]) : fma_many(y, b0, r[i][0]);
        if (nv > 1) {
            r[i][1] = one ? fma_(y, b1, r[i][1]) : fma_many(y, b1, r[i][1]);
        }
    }
    UNROLL for (int i = 0; i < mr; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            PIN(r[i][j]);
        }
    }
}

/* Memory that will be needed soon, touched a few bytes a step: in bursts it would hold up the tile's own loads. Two
 * streams, one to be read, one to be read or written, which take turns by segment. */
typedef struct ahead {
    const char *p[2];
    ptrdiff_t step[2]; /* bytes a step; 0: nothing */
    unsigned turn;
} ahead;

/* Row i, step p of segment s reads a[seg[s] + i * ai + p * ap], p < len (>= 1; flat: 1); the right operand runs on
 * through all segments, bp apart, gap more after each. add: the result is added to c. One of ai and ap is 1. */
WFI_INLINE void tile(const int mr, const int nv, const int flat, const int add, const T *a, ptrdiff_t ai, ptrdiff_t ap,
                     const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, ptrdiff_t bp, ptrdiff_t gap, T *c,
                     ptrdiff_t ldc, const int fetch, ahead *next)
{
    const bool unroll = STEPS > 1 && !flat && !add; /* steps a pixel apart (add) were a tenth slower unrolled */
    V r[MR_MAX][2];
    row_base x = { NULL, NULL, ai * (ptrdiff_t)sizeof(T), 3 * ai * (ptrdiff_t)sizeof(T),
                   5 * ai * (ptrdiff_t)sizeof(T) };
    const ptrdiff_t ab = ap * (ptrdiff_t)sizeof(T), rounds = len / STEPS * STEPS * bp;
    OPAQUE(x.s1);
    OPAQUE(x.s3);
    OPAQUE(x.s5);
    UNROLL for (int i = 0; i < mr; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            r[i][j] = (V){ 0 };
        }
    }
    for (int64_t s = 0; s < nseg; s++) {
        x.x0 = (const char *)(a + seg[s]);
        x.x7 = x.x0 + 7 * x.s1;
        OPAQUE(x.x7);
        const T *end = b + len * bp;
        const char *soon = fetch ? next->p[next->turn] : NULL;
        const ptrdiff_t soon_step = fetch ? next->step[next->turn] : 0;
        if (unroll) { /* a line fetched every second step is enough: most bring `soon` a few bytes on */
            const T *whole = b + rounds;
            KLOOP while (b != whole)
            {
                UNROLL for (int u = 0; u < STEPS; u++)
                {
                    if (fetch && u % 2 == 0) {
                        __builtin_prefetch(soon + u * soon_step);
                    }
                    tile_step(mr, nv, add, 0, &x, b, r);
                    x.x0 += ab;
                    x.x7 += ab;
                    b += bp;
                }
                if (fetch) {
                    soon += STEPS * soon_step;
                    OPAQUE(soon);
                }
            }
        }
        if (!unroll || b != end) {
            KLOOP for (;;)
            {
                if (fetch) {
                    __builtin_prefetch(soon);
                    soon += soon_step;
                    OPAQUE(soon);
                }
                tile_step(mr, nv, add, 1, &x, b, r);
                x.x0 += ab;
                x.x7 += ab;
                b += bp;
                if (flat || b == end) {
                    break;
                }
            }
        }
        b += gap;
        if (fetch) {
            next->p[next->turn] = soon;
            next->turn ^= 1;
        }
    }
    UNROLL for (int i = 0; i < mr; i++)
    {
        UNROLL for (int j = 0; j < nv; j++)
        {
            T *p = c + i * ldc + j * L;
            store(p, add ? load(p) + r[i][j] : r[i][j]);
        }
    }
}

/* forward: rows are pixels ai apart, steps are neighbours */
typedef void fwd_fn(const T *a, ptrdiff_t ai, const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, T *c,
                    ptrdiff_t ldc, ahead *next);
/* weight gradient: rows are neighbours, steps are pixels ap apart, those of the right operand bp apart and gap more
 * after each segment; the result is added to c. near: without fetching ahead, for which a segment of a few pixels has
 * no time */
typedef struct wgt_steps {
    ptrdiff_t ap;
    const ptrdiff_t *seg;
    int64_t nseg, len;
    const T *b;
    ptrdiff_t bp, gap;
} wgt_steps;

typedef void wgt_fn(const wgt_steps *s, const T *a, T *c, ptrdiff_t ldc, ahead *next);

#define TILES(mr, nv)                                                                                                  \
    static void fwd_##mr##_##nv(const T *a, ptrdiff_t ai, const ptrdiff_t *seg, int64_t nseg, int64_t len, const T *b, \
                                T *c, ptrdiff_t ldc, ahead *next)                                                      \
    {                                                                                                                  \
        tile(mr, nv, 0, 0, a, ai, 1, seg, nseg, len, b, (nv)*L, 0, c, ldc, 1, next);                                   \
    }                                                                                                                  \
    static void flat_##mr##_##nv(const T *a, ptrdiff_t ai, const ptrdiff_t *seg, int64_t nseg, int64_t len,            \
                                 const T *b, T *c, ptrdiff_t ldc, ahead *next)                                         \
    {                                                                                                                  \
        (void)len, (void)next;                                                                                         \
        tile(mr, nv, 1, 0, a, ai, 1, seg, nseg, 1, b, (nv)*L, 0, c, ldc, 0, NULL);                                     \
    }                                                                                                                  \
    static void wgt_##mr##_##nv(const wgt_steps *s, const T *a, T *c, ptrdiff_t ldc, ahead *next)                      \
    {                                                                                                                  \
        tile(mr, nv, 0, 1, a, 1, s->ap, s->seg, s->nseg, s->len, s->b, s->bp, s->gap, c, ldc, 1, next);                \
    }                                                                                                                  \
    static void near_##mr##_##nv(const wgt_steps *s, const T *a, T *c, ptrdiff_t ldc, ahead *next)                     \
    {                                                                                                                  \
        (void)next;                                                                                                    \
        tile(mr, nv, 0, 1, a, 1, s->ap, s->seg, s->nseg, s->len, s->b, s->bp, s->gap, c, ldc, 0, NULL);                \
    }

#if WFI_LANES == 16
#define ROWS1(X, s)                                                                                                    \
    X(1, s) X(2, s) X(3, s) X(4, s) X(5, s) X(6, s) X(7, s) X(8, s) X(9, s) X(10, s) X(11, s) X(12, s) X(13, s) X(14, s)
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
#define NEAR_NAME(mr, nv) near_##mr##_##nv,
static fwd_fn *const fwd_tiles[2][MR_MAX] = { { ROWS1(FWD_NAME, 1) }, { ROWS2(FWD_NAME, 2) } };
static fwd_fn *const flat_tiles[2][MR_MAX] = { { ROWS1(FLAT_NAME, 1) }, { ROWS2(FLAT_NAME, 2) } };
static wgt_fn *const wgt_tiles[2][MR_MAX] = { { ROWS1(WGT_NAME, 1) }, { ROWS2(WGT_NAME, 2) } };
static wgt_fn *const near_tiles[2][MR_MAX] = { { ROWS1(NEAR_NAME, 1) }, { ROWS2(NEAR_NAME, 2) } };

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
