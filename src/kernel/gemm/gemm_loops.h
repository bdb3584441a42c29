/* gemm_loops.h - packing and the tiers of one operand type. A template, included after gemm_tile.h (or, for an operand
 * type that shares another's tiles, after gemm_lanes.h) and
 *
 *     #define E          float            operand element
 *     #define WIDE(x)    (x)              ... widened to T
 *     #define LDE(p)     ld(p)            VL of them, widened
 *     #define LDEM(p, n) LDM(p, LANES(n)) the first n of them, the rest 0
 *     #define LDE4(p)                         (perhaps) four of them, widened, as __m128
 *     #define TYPE       wfi_gemm_f32     the table to define
 *     #define TILE_TABLE WFI_K(wfi_gemm_tiles_f32)
 *     #define IN_PLACE   1                operands can be read where they lie (E is T)
 */
#define ROW_GROUPS ((MR + VL - 1) / VL) /* vectors that hold a column of a packed panel of a */

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
/* The rows from i on that go into the next tile: all tiles of m rows are equally high, give or take one. */
static inline int64_t tile_rows(int64_t m, int64_t i)
{
    int64_t left = m - i, tiles = (left + MR - 1) / MR;
    return (left + tiles - 1) / tiles;
}

/* The columns from j on that go into the next panel: full width, but two halves rather than a full one and a sliver. */
static inline int64_t tile_cols(int64_t n, int64_t j)
{
    int64_t left = n - j;
    return left > NR && left <= 4 * VL && NV == 3 ? 2 * VL : least(left, NR);
}

/* -- packing: panels [k][lines], lines of a or columns of b ------------------------------------------------------ */

/* dst[p*step + q] = src[q*ld + p], q < lines <= VL * groups. Lanes from `lines` on get copies of the last line: of a
 * panel of a the next column overwrites them (dst has VL elements of slack), of b nobody stores what they become. */
WFI_SPECIAL void pack_across(int groups, int64_t step, const E *src, int64_t ld_, int64_t lines, int64_t k, T *dst)
{
    const E *line[3 * VL];
    for (int64_t q = 0; q < groups * VL; q++)
        line[q] = src + least(q, lines - 1) * ld_;
    for (int64_t p = 0; p < k; p += VL) {
        V v[3][VL];
        WFI_UNROLL for (int g = 0; g < groups; g++)
        {
            if (k - p >= VL) {
                WFI_UNROLL for (int q = 0; q < VL; q++) v[g][q] = LDE(line[g * VL + q] + p);
            } else {
                WFI_UNROLL for (int q = 0; q < VL; q++) v[g][q] = LDEM(line[g * VL + q] + p, k - p);
            }
            TRANSPOSE(v[g]);
        }
        if (k - p >= VL) {
            WFI_UNROLL for (int q = 0; q < VL; q++) WFI_UNROLL for (int g = 0; g < groups; g++)
                st(dst + (p + q) * step + g * VL, v[g][q]);
        } else {
            for (int64_t q = 0; q < k - p; q++)
                for (int g = 0; g < groups; g++)
                    st(dst + (p + q) * step + g * VL, v[g][q]);
        }
    }
}
#define PACK_AHEAD 8 /* rows: they are far apart, so that the hardware does not read ahead */
/* dst[p*step + q] = src[p*ld + q], q < lines <= VL * groups. `room` elements of a row may be read. */
WFI_SPECIAL void pack_along(int groups, int64_t step, const E *src, int64_t ld_, int64_t lines, int64_t room, int64_t k,
                            T *dst)
{
    if (room >= groups * VL) {
        for (int64_t p = 0; p < k; p++) {
            WFI_UNROLL for (int g = 0; g < groups; g++)
            {
                __builtin_prefetch(src + (p + PACK_AHEAD) * ld_ + g * VL);
                st(dst + p * step + g * VL, LDE(src + p * ld_ + g * VL));
            }
        }
        return;
    }
    for (int64_t p = 0; p < k; p++)
        for (int g = 0; g < groups; g++)
            st(dst + p * step + g * VL, LDEM(src + p * ld_ + g * VL, lines - g * VL));
}
#if defined LDE4 && WFI_GEMM_MR == 8 && LANE == 4
/* Eight lines: dst[p*8 + q] = src[q*ld + p]. Four columns of four lines make a quarter of the 4 x 4 transposes. */
WFI_INLINE void pack_eight(const E *src, int64_t ld_, int64_t k, T *dst)
{
    const E *low = src, *high = src + 4 * ld_;
    int64_t p = 0;
    for (; p + 4 <= k; p += 4, low += 4, high += 4, dst += 32) {
        __m256 y[4], t[4];
        WFI_UNROLL for (int q = 0; q < 4; q++) y[q] = _mm256_set_m128(LDE4(high + q * ld_), LDE4(low + q * ld_));
        WFI_UNROLL for (int q = 0; q < 4; q += 2)
        {
            t[q] = _mm256_unpacklo_ps(y[q], y[q + 1]);
            t[q + 1] = _mm256_unpackhi_ps(y[q], y[q + 1]);
        }
        _mm256_storeu_ps((float *)(void *)dst, _mm256_shuffle_ps(t[0], t[2], 0x44));
        _mm256_storeu_ps((float *)(void *)(dst + 8), _mm256_shuffle_ps(t[0], t[2], 0xee));
        _mm256_storeu_ps((float *)(void *)(dst + 16), _mm256_shuffle_ps(t[1], t[3], 0x44));
        _mm256_storeu_ps((float *)(void *)(dst + 24), _mm256_shuffle_ps(t[1], t[3], 0xee));
    }
    for (; p < k; p++, low++, high++, dst += 8)
        for (int q = 0; q < 4; q++)
            dst[q] = WIDE(low[q * ld_]), dst[q + 4] = WIDE(high[q * ld_]);
}
#define EIGHT 1
#endif
WFI_INLINE void pack_any(int64_t step, const E *src, int64_t sl, int64_t sk, int64_t lines, int64_t k, T *dst)
{
    for (int64_t p = 0; p < k; p++)
        for (int64_t q = 0; q < lines; q++)
            dst[p * step + q] = WIDE(src[p * sk + q * sl]);
}
static __attribute__((noinline)) void pack_a(const wfi_gemm *g, const E *a, int64_t rows, int64_t room, int64_t k,
                                             T *dst)
{
#ifdef EIGHT
    if (g->a_k == 1 && rows == 8) {
        pack_eight(a, g->a_m, k, dst);
        return;
    }
#endif
    if (g->a_k == 1)
        pack_across(ROW_GROUPS, rows, a, g->a_m, rows, k, dst);
    else if (g->a_m == 1)
        pack_along(ROW_GROUPS, rows, a, g->a_k, rows, room, k, dst);
    else
        pack_any(rows, a, g->a_m, g->a_k, rows, k, dst);
}
static __attribute__((noinline)) void pack_b(const wfi_gemm *g, const E *b, int64_t cols, int64_t room, int64_t k,
                                             T *dst)
{
    if (g->b_n == 1)
        pack_along(NV, NR, b, g->b_k, cols, room, k, dst);
    else if (g->b_k == 1)
        for (int j = 0; j < NV && cols > j * VL; j++)
            pack_across(1, NR, b + j * VL * g->b_n, g->b_n, least(cols - j * VL, VL), k, dst + j * VL);
    else
        pack_any(NR, b, g->b_n, g->b_k, cols, k, dst);
}

/* -- results that are no plain rows of T -------------------------------------------------------------------------- */

static void put_row(const wfi_gemm *g, const T *src, int64_t n, char *dst)
{
#ifdef NARROW
    if (g->out_dtype != WF_F32) {
        uint16_t *h = (uint16_t *)(void *)dst;
        int64_t j = 0;
        for (; g->c_n == 1 && j + VL <= n; j += VL)
            NARROW_ST(h + j, ld(src + j));
        for (; j < n; j++)
            h[j * g->c_n] = NARROW(src[j]);
        return;
    }
#endif
    T *d = (T *)(void *)dst;
    if (g->c_n == 1)
        memcpy(d, src, (size_t)n * sizeof(T));
    else
        for (int64_t j = 0; j < n; j++)
            d[j * g->c_n] = src[j];
}
static inline int64_t out_bytes(const wfi_gemm *g)
{
    return sizeof(E) < sizeof(T) && g->out_dtype != WF_F32 ? (int64_t)sizeof(E) : (int64_t)sizeof(T);
}
static __attribute__((noinline)) void put(const wfi_gemm *g, const T *src, int64_t ld_, int64_t m, int64_t n, char *c)
{
    for (int64_t i = 0; i < m; i++)
        put_row(g, src + i * ld_, n, c + i * g->c_m * out_bytes(g));
}

/* -- tiers ------------------------------------------------------------------------------------------------------- */

WFI_INLINE wfi_tile_fn *pick(int64_t rows, int64_t cols)
{
    int nv = (int)((cols + VL - 1) / VL);
    return TILE_TABLE.any[cols != nv * VL][nv - 1][rows - 1];
}
/* Runs a tile whose chains wait in `wait` between blocks of k; the last block goes to c, through `spare` where c is no
 * plain rows of T. */
WFI_INLINE void tile_run(const wfi_gemm *g, wfi_tile *t, wfi_tile_fn *fn, int64_t rows, int64_t cols, T *wait,
                         bool first, bool last, char *c, T *spare)
{
    t->in = first ? NULL : wait;
    t->ldi = NR;
    t->n = cols;
    t->out = !last ? wait : g->plain ? (T *)(void *)c : spare;
    t->ldo = last && g->plain ? g->c_m : NR;
    fn(t);
    if (last && !g->plain)
        put(g, spare, NR, rows, cols, c);
}

#if IN_PLACE
/* Nothing packed. b_n == 1; b is small, or m so small that each row of b is read once or twice. */
static void small(const wfi_gemm *g, const wfi_gemm_part *p)
{
    _Alignas(64) T spare[MR * NR];
    wfi_tile t = { .k = g->k, .ai = g->a_m, .ap = g->a_k, .bs = g->b_k, .ahead = g->ahead };
    wfi_tile_fn *const *full = g->a_k == 1 && !g->ahead ? TILE_TABLE.along : TILE_TABLE.any[0][NV - 1];
    for (int64_t j = 0, cols; j < p->n; j += cols) {
        cols = tile_cols(p->n, j);
        for (int64_t i = 0, rows; i < p->m; i += rows) {
            rows = tile_rows(p->m, i);
            t.a = p->a + i * g->a_m * LANE;
            t.b = t.next_b = p->b + j * LANE;
            tile_run(g, &t, cols == NR ? full[rows - 1] : pick(rows, cols), rows, cols, NULL, true, true,
                     p->c + (i * g->c_m + j * g->c_n) * LANE, spare);
        }
    }
}

#endif

/* The next block of b, as it lies, comes to L2 while this one is used: line by line, and down the rows of each. */
typedef struct next_block {
    const char *line;
    int64_t stride, k, at, lines, per;
} next_block;
static next_block next_of(const wfi_gemm *g, const E *b, int64_t k, int64_t n, int64_t kc)
{
    if (g->b_n != 1 || n <= 0 || k <= 0)
        return (next_block){ .lines = 0 };
    return (next_block){ .line = (const char *)b,
                         .stride = g->b_k * (int64_t)sizeof(E),
                         .k = least(k, g->kb),
                         .lines = (least(n, g->nb) * (int64_t)sizeof(E) + 63) / 64,
                         .per = (kc - 1) / WFI_GEMM_STEPS };
}
static inline void next_step(next_block *s, wfi_tile *t)
{
    if (s->lines <= 0) {
        t->next_b = t->b, t->next_bs = 0;
        return;
    }
    t->next_b = s->line + s->at * s->stride, t->next_bs = s->stride;
    s->at += s->per;
    if (s->at >= s->k)
        s->at = 0, s->line += 64, s->lines--;
}

/* Eight (or six) rows of a stay in L1 while the panels of a packed block of b (kb x nb) come from L2, and c is written
 * along its rows. Loops: superblock of n > of m > block of k > block of n > tile of m > panel of b. Rows of a are read
 * where they lie, or are packed for the first block of n and kept for the others. */
static void across(const wfi_gemm *g, const wfi_gemm_part *p, bool pack)
{
    _Alignas(64) T spare[MR * NR];
    T *pa = (T *)(void *)p->scratch, *pb = (T *)(void *)(p->scratch + g->pb_at);
    T *cs = (T *)(void *)(p->scratch + g->cs_at);
    wfi_tile_fn *const *full = pack ? TILE_TABLE.packed : g->a_k == 1 ? TILE_TABLE.along : TILE_TABLE.any[0][NV - 1];
    const int64_t k = g->k;
    const E *b = (const E *)(const void *)p->b, *a = (const E *)(const void *)p->a;
    for (int64_t js = 0; js < p->n; js += g->ns)
        for (int64_t is = 0; is < p->m; is += g->sb)
            for (int64_t pc = 0; pc < k || !pc; pc += g->kb) { /* k = 0: once, for the zeros */
                int64_t n = least(p->n - js, g->ns), m = least(p->m - is, g->sb), kc = least(k - pc, g->kb);
                for (int64_t jc = 0; jc < n; jc += g->nb) {
                    int64_t nc = least(n - jc, g->nb);
                    T *bp = pb, *wait = cs + jc * (g->sb + MR);
                    for (int64_t j = 0, cols; j < nc; j += cols, bp += NR * kc) {
                        cols = tile_cols(nc, j);
                        pack_b(g, b + pc * g->b_k + (js + jc + j) * g->b_n, cols, p->n - js - jc - j, kc, bp);
                    }
                    wfi_tile t = { .k = kc, .ai = g->a_m, .ap = g->a_k, .bs = NR };
                    bool more = jc + nc < n;
                    int64_t jn = js + (more ? jc + nc : 0), pn = more ? pc : pc + kc;
                    next_block next = next_of(g, b + pn * g->b_k + jn * g->b_n, k - pn, js + n - jn, kc);
                    for (int64_t i = 0, rows; i < m; i += rows) {
                        rows = tile_rows(m, i);
                        t.a = a + (is + i) * g->a_m + pc * g->a_k;
                        if (pack) {
                            if (!jc)
                                pack_a(g, t.a, rows, p->m - is - i, kc, pa + i * kc);
                            t.a = pa + i * kc, t.ai = 1, t.ap = rows;
                        }
                        bp = pb;
                        for (int64_t j = 0, cols; j < nc; j += cols, bp += NR * kc, wait += rows * NR) {
                            cols = tile_cols(nc, j);
                            t.b = bp;
                            next_step(&next, &t);
                            tile_run(g, &t, cols == NR ? full[rows - 1] : pick(rows, cols), rows, cols, wait, !pc,
                                     pc + kc >= k, p->c + ((is + i) * g->c_m + (js + jc + j) * g->c_n) * out_bytes(g),
                                     spare);
                        }
                    }
                }
            }
}
#if IN_PLACE
static void place(const wfi_gemm *g, const wfi_gemm_part *p)
{
    across(g, p, false);
}
#endif
static void across_packed(const wfi_gemm *g, const wfi_gemm_part *p)
{
    across(g, p, true);
}

/* Both packed. Loops: block of n > superblock of m > block of k > block of m > panel of b > panel of a: the panel of b
 * stays in L1, the block of a in L2. b is packed when the first block of m comes by, where it is used at once. Between
 * blocks of k the chains wait in scratch, one contiguous tile each: rows of c are too far apart to be read back. */
static void packed(const wfi_gemm *g, const wfi_gemm_part *p)
{
    _Alignas(64) T spare[MR * NR];
    T *pa = (T *)(void *)p->scratch, *pb = (T *)(void *)(p->scratch + g->pb_at);
    T *cs = (T *)(void *)(p->scratch + g->cs_at);
    const int64_t m = p->m, n = p->n, k = g->k, kb = g->kb, mb = g->mb, nb = g->nb, sb = g->sb;
    for (int64_t jc = 0; jc < n; jc += nb)
        for (int64_t is = 0; is < m; is += sb)
            for (int64_t pc = 0; pc < k || !pc; pc += kb) /* k = 0: once, for the zeros */
                for (int64_t ic = is; ic < m && ic < is + sb; ic += mb) {
                    int64_t nc = least(n - jc, nb), kc = least(k - pc, kb), mc = least(m - ic, mb);
                    for (int64_t i = 0, rows; i < mc; i += rows) {
                        rows = tile_rows(mc, i);
                        pack_a(g, (const E *)(const void *)p->a + (ic + i) * g->a_m + pc * g->a_k, rows, m - ic - i, kc,
                               pa + i * kc);
                    }
                    bool fresh = g->keep ? !ic : ic == is;
                    int64_t lines = kc / ((mc + MR - 1) / MR) + 1;
                    T *bp = pb + (g->keep ? pc * (nb + NR) : 0), *column = cs + (ic - is) * NR;
                    for (int64_t j = 0, cols; j < nc; j += cols, bp += NR * kc, column += sb * NR) {
                        T *ct = column;
                        const E *from = (const E *)(const void *)p->b + pc * g->b_k + (jc + j) * g->b_n;
                        int64_t at = 0;
                        cols = tile_cols(nc, j);
                        if (fresh)
                            pack_b(g, from, cols, n - jc - j, kc, bp);
                        wfi_tile t = { .k = kc, .ai = 1, .b = bp, .bs = NR, .next_b = (const char *)bp };
                        t.pfs = fresh ? g->b_k * (int64_t)sizeof(E) : NR * LANE;
                        const char *pf = fresh ? (const char *)(from + cols) : (const char *)(bp + NR * kc);
                        bool read = nc - j > cols && (!fresh || g->b_n == 1);
                        for (int64_t i = 0, rows; i < mc; i += rows) {
                            rows = tile_rows(mc, i);
                            t.a = pa + i * kc, t.ap = rows;
                            t.pf = pf + at * t.pfs, t.npf = read ? least(lines, kc - at) : 0;
                            t.next = pc ? (const char *)(ct + rows * NR) : NULL;
                            tile_run(g, &t, cols == NR ? TILE_TABLE.packed[rows - 1] : pick(rows, cols), rows, cols, ct,
                                     !pc, pc + kc >= k, p->c + ((ic + i) * g->c_m + (jc + j) * g->c_n) * out_bytes(g),
                                     spare);
                            ct += rows * NR;
                            at += lines;
                        }
                    }
                }
}

/* q rows of b, m <= 4 of a: c[i][j] goes on with x[i + 4*s] * b[s][j], s < q. */
WFI_SPECIAL void rows_step(int m, int q, bool first, const T *x, const E *b, int64_t bs, int64_t n, T *c, int64_t ldc)
{
    int64_t j = 0;
    for (; j + 2 * VL <= n; j += 2 * VL) {
        V r[4][2];
        WFI_UNROLL for (int i = 0; i < m; i++) WFI_UNROLL for (int v = 0; v < 2; v++) r[i][v] =
            first ? (V){ 0 } : ld(c + i * ldc + j + VL * v);
        WFI_UNROLL for (int s = 0; s < q; s++)
        {
            V y = LDE(b + s * bs + j), z = LDE(b + s * bs + j + VL);
            WFI_PIN(y);
            WFI_PIN(z);
            WFI_UNROLL for (int i = 0; i < m; i++)
            {
                V w = set1(x[i + 4 * s]);
                WFI_PIN(w);
                FMA(r[i][0], w, y);
                FMA(r[i][1], w, z);
            }
        }
        WFI_UNROLL for (int i = 0; i < m; i++) WFI_UNROLL for (int v = 0; v < 2; v++)
            st(c + i * ldc + j + VL * v, r[i][v]);
    }
    for (; j < n; j += VL)
        for (int i = 0; i < m; i++) {
            V r = first ? (V){ 0 } : LDM(c + i * ldc + j, LANES(n - j));
            for (int s = 0; s < q; s++)
                FMA(r, set1(x[i + 4 * s]), LDEM(b + s * bs + j, n - j));
            STM(c + i * ldc + j, LANES(n - j), r);
        }
}
#define ROWS_AT_ONCE                                                                                                   \
    8 /* so many streams for the hardware's read-ahead; c is read and written once for so many rows                    \
       */
WFI_SPECIAL void rows_all(const wfi_gemm *g, int m, const E *a, const E *b, int64_t n, T *c, int64_t ldc)
{
    T x[4 * ROWS_AT_ONCE];
    for (int64_t p = 0; p < g->k; p += ROWS_AT_ONCE, b += ROWS_AT_ONCE * g->b_k) {
        int q = (int)least(ROWS_AT_ONCE, g->k - p);
        for (int s = 0; s < q; s++)
            for (int i = 0; i < m; i++)
                x[i + 4 * s] = WIDE(a[i * g->a_m + (p + s) * g->a_k]);
        if (q == ROWS_AT_ONCE)
            rows_step(m, ROWS_AT_ONCE, !p, x, b, g->b_k, n, c, ldc);
        else
            for (int s = 0; s < q; s++)
                rows_step(m, 1, !(p + s), x + 4 * s, b + s * g->b_k, g->b_k, n, c, ldc);
    }
}
/* m <= 4, b_n == 1, k > 0: b is read once. */
static void rows(const wfi_gemm *g, const wfi_gemm_part *p)
{
    const E *a = (const E *)(const void *)p->a, *b = (const E *)(const void *)p->b;
    for (int64_t j = 0, n; j < p->n; j += n) {
        n = least(WFI_GEMM_COLUMNS / p->m / (2 * VL) * (2 * VL), p->n - j);
        char *c = p->c + j * g->c_n * out_bytes(g);
        T *d = g->plain ? (T *)(void *)c : (T *)(void *)p->scratch;
        int64_t ldc = g->plain ? g->c_m : n;
        switch (p->m) {
        case 1: rows_all(g, 1, a, b + j, n, d, ldc); break;
        case 2: rows_all(g, 2, a, b + j, n, d, ldc); break;
        case 3: rows_all(g, 3, a, b + j, n, d, ldc); break;
        default: rows_all(g, 4, a, b + j, n, d, ldc); break;
        }
        if (!g->plain)
            put(g, d, ldc, p->m, n, c);
    }
}

/* VL columns of b, which lie along k: transposed in registers, so that each lane is one ascending chain. */
WFI_SPECIAL void cols_all(const wfi_gemm *g, int m, const E *a, const E *b, int64_t n, T *c, int64_t ldc)
{
    const E *line[VL];
    _Alignas(64) T x[4][VL]; /* a, widened */
    V r[4];
    for (int q = 0; q < VL; q++)
        line[q] = b + least(q, n - 1) * g->b_n;
    WFI_UNROLL for (int i = 0; i < m; i++) r[i] = (V){ 0 };
    for (int64_t p = 0; p < g->k; p += VL) {
        V v[VL];
        const int64_t steps = least(g->k - p, VL);
        const E *from = a + p * g->a_k;
        if (steps == VL) {
            WFI_UNROLL for (int q = 0; q < VL; q++)
            {
                v[q] = LDE(line[q] + p);
                __builtin_prefetch(line[q] + p + 256 / sizeof(E));
            }
        } else {
            WFI_UNROLL for (int q = 0; q < VL; q++) v[q] = LDEM(line[q] + p, steps);
        }
        TRANSPOSE(v);
        if (steps == VL && g->a_k == 1) {
            WFI_UNROLL for (int i = 0; i < m; i++) st(x[i], LDE(from + i * g->a_m));
        } else {
            for (int i = 0; i < m; i++)
                for (int64_t q = 0; q < steps; q++)
                    x[i][q] = WIDE(from[i * g->a_m + q * g->a_k]);
        }
        if (steps == VL) {
            WFI_UNROLL for (int q = 0; q < VL; q++) WFI_UNROLL for (int i = 0; i < m; i++)
                FMA(r[i], set1(x[i][q]), v[q]);
        } else {
            for (int q = 0; q < steps; q++)
                for (int i = 0; i < m; i++)
                    FMA(r[i], set1(x[i][q]), v[q]);
        }
    }
    WFI_UNROLL for (int i = 0; i < m; i++) STM(c + i * ldc, LANES(n), r[i]);
}
static void cols(const wfi_gemm *g, const wfi_gemm_part *p)
{
    const E *a = (const E *)(const void *)p->a;
    _Alignas(64) T spare[4 * VL];
    for (int64_t j = 0; j < p->n; j += VL) {
        const E *b = (const E *)(const void *)p->b + j * g->b_n;
        char *c = p->c + j * g->c_n * out_bytes(g);
        int64_t n = least(VL, p->n - j), ldc = g->plain ? g->c_m : VL;
        T *d = g->plain ? (T *)(void *)c : spare;
        switch (p->m) {
        case 1: cols_all(g, 1, a, b, n, d, ldc); break;
        case 2: cols_all(g, 2, a, b, n, d, ldc); break;
        case 3: cols_all(g, 3, a, b, n, d, ldc); break;
        default: cols_all(g, 4, a, b, n, d, ldc); break;
        }
        if (!g->plain)
            put(g, d, ldc, p->m, n, c);
    }
}

const wfi_gemm_type WFI_K(TYPE) = {
    .mr = MR,
    .nr = NR,
    .lanes = VL,
    .bytes = LANE,
    .tier = {
#if IN_PLACE
        [WFI_GEMM_SMALL] = small,
        [WFI_GEMM_PLACE] = place,
#endif
        [WFI_GEMM_ACROSS] = across_packed,
        [WFI_GEMM_PACKED] = packed,
        [WFI_GEMM_ROWS] = rows,
        [WFI_GEMM_COLS] = cols,
    },
};
