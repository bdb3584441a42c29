/* gemm_loops.h - packing and the tiers of one operand type. A template, included after gemm_tile.h (or, for an operand
 * type that shares another's tiles, after gemm_lanes.h) and
 *
 *     #define E          float            operand element
 *     #define WIDE(x)    (x)              ... widened to T
 *     #define LDE(p)     ld(p)            VL of them, widened
 *     #define LDEM(p, n) LDM(p, LANES(n)) the first n of them, the rest 0
 *     #define LDE4(p)                     (perhaps) four of them, widened, as __m128
 *     #define TYPE       wfi_gemm_f32     the table to define
 *     #define TILE_TABLE WFI_K(wfi_gemm_tiles_f32)
 *     #define IN_PLACE   1                operands can be read where they lie (E is T)
 *
 * An operand type whose steps S hold several values of k defines PER, how many, and in place of WIDE and LDE..
 *
 *     STEP(p, ld, q)    one step: q <= PER values, ld apart; the others 0
 *     LDK(p)            VL steps that lie along k from p on; LDKM(p, n): the first n values, the rest 0
 *     LDK4(p)           (perhaps) four of them, as __m128
 *     LDL(p, ld)        one step of VL lines, which lie side by side, its values ld apart; LDLM(p, ld, q, n): q values
 *                       of the first n lines
 */
#ifndef PER
#define PER               1
#define STEP(p, ld, q)    WIDE(*(p))
#define LDK(p)            LDE(p)
#define LDKM(p, n)        LDEM(p, n)
#define LDL(p, ld)        LDE(p)
#define LDLM(p, ld, q, n) LDEM(p, n)
#ifdef LDE4
#define LDK4(p) LDE4(p)
#endif
#endif
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

#include "kernel/gemm/gemm_pack.h"

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

/* What c holds already, where its chains are to go on. */
static __attribute__((noinline)) void get(const wfi_gemm *g, const char *c, int64_t m, int64_t n, T *dst, int64_t ld_)
{
    const T *from = (const T *)(const void *)c;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            dst[i * ld_ + j] = from[i * g->c_m + j * g->c_n];
}

/* -- tiers ------------------------------------------------------------------------------------------------------- */

WFI_INLINE wfi_tile_fn *pick(int64_t rows, int64_t cols)
{
    int nv = (int)((cols + VL - 1) / VL);
    return TILE_TABLE.any[cols != nv * VL][nv - 1][rows - 1];
}
/* Runs a tile whose chains wait in `wait` between blocks of k; the last block goes to c, through `spare` where c is no
 * plain rows of T. The first begins at zero, or at what c holds. */
WFI_INLINE void tile_run(const wfi_gemm *g, wfi_tile *t, wfi_tile_fn *fn, int64_t rows, int64_t cols, T *wait,
                         bool first, bool last, char *c, T *spare)
{
    t->in = first ? NULL : wait;
    t->ldi = NR;
    if (first && g->onto) {
        t->in = g->plain ? (const void *)c : spare;
        t->ldi = g->plain ? g->c_m : NR;
        if (!g->plain)
            get(g, c, rows, cols, spare, NR);
    }
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

/* The columns of the block of b that begins at column jc of n: no sliver at the end. */
static inline int64_t block_cols(const wfi_gemm *g, int64_t n, int64_t jc)
{
    return n - jc <= g->nb + VL ? n - jc : g->nb;
}

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
                         .per = (STEPS(kc) - 1) / WFI_GEMM_STEPS };
}
/* ... or packed, right behind this one, which is about as large; size 0: there is none. */
static next_block next_kept(const S *at, int64_t size, int64_t kc)
{
    return (next_block){ .line = (const char *)at,
                         .stride = 64,
                         .k = size * (int64_t)sizeof(S) / 64,
                         .lines = size > 0,
                         .per = (STEPS(kc) - 1) / WFI_GEMM_STEPS };
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

/* The panels of nc columns of b and kc of k, `room` columns from b on may be read. Returns their size; to NULL: only
 * that. */
static int64_t pack_block(const wfi_gemm *g, const E *b, int64_t nc, int64_t room, int64_t kc, S *to)
{
    int64_t done = 0;
    for (int64_t j = 0, cols; j < nc; j += cols, done += NR * STEPS(kc)) {
        cols = tile_cols(nc, j);
        if (to)
            pack_b(g, b + j * g->b_n, cols, room - j, kc, to + done);
    }
    return done;
}

/* Columns of b packed once for many runs: superblock of n > block of k > block of n > panel, as the tiers below walk
 * them. */
static int64_t keep_b(const wfi_gemm *g, const char *columns, int64_t n, char *to)
{
    const int64_t superblock = g->tier == WFI_GEMM_PACKED ? g->nb : g->ns;
    const E *b = (const E *)(const void *)columns;
    S *at = (S *)(void *)to;
    int64_t done = 0;
    for (int64_t js = 0; js < n; js += superblock)
        for (int64_t pc = 0; pc < g->k; pc += g->kb) {
            const int64_t ns = least(n - js, superblock), kc = least(g->k - pc, g->kb);
            for (int64_t jc = 0, nc; jc < ns; jc += nc) {
                nc = block_cols(g, ns, jc);
                done += pack_block(g, to ? b + pc * g->b_k + (js + jc) * g->b_n : b, nc, n - js - jc, kc,
                                   to ? at + done : NULL);
            }
        }
    return done * (int64_t)sizeof(S);
}

/* Eight (or six) rows of a stay in L1 while the panels of a packed block of b (kb x nb) come from L2, and c is written
 * along its rows. Loops: superblock of n > of m > block of k > block of n > tile of m > panel of b. Rows of a are read
 * where they lie, or are packed for the first block of n and kept for the others. */
static void across(const wfi_gemm *g, const wfi_gemm_part *p, bool pack)
{
    _Alignas(64) T spare[MR * NR];
    S *pa = (S *)(void *)p->scratch, *pb = (S *)(void *)(p->scratch + g->pb_at);
    T *cs = (T *)(void *)(p->scratch + g->cs_at);
    wfi_tile_fn *const *full = pack ? TILE_TABLE.packed : g->a_k == 1 ? TILE_TABLE.along : TILE_TABLE.any[0][NV - 1];
    const int64_t k = g->k;
    const E *b = (const E *)(const void *)p->b, *a = (const E *)(const void *)p->a;
    const S *kept = (const S *)(void *)p->kept, *at = kept; /* of the superblock, of the block */
    for (int64_t js = 0; js < p->n; js += g->ns, kept = at)
        for (int64_t is = 0; is < p->m; is += g->sb) {
            at = kept;
            for (int64_t pc = 0; pc < k || !pc; pc += g->kb) { /* k = 0: once, for the zeros */
                int64_t n = least(p->n - js, g->ns), m = least(p->m - is, g->sb), kc = least(k - pc, g->kb);
                const int64_t steps = STEPS(kc);
                for (int64_t jc = 0, nc; jc < n; jc += nc) {
                    nc = block_cols(g, n, jc);
                    const S *block = kept ? at : pb;
                    T *wait = cs + jc * (g->sb + MR);
                    const int64_t size =
                        pack_block(g, b + pc * g->b_k + (js + jc) * g->b_n, nc, p->n - js - jc, kc, kept ? NULL : pb);
                    at = kept ? at + size : NULL;
                    wfi_tile t = { .k = steps, .ai = g->a_m, .ap = g->a_k, .bs = NR };
                    bool more = jc + nc < n;
                    int64_t jn = js + (more ? jc + nc : 0), pn = more ? pc : pc + kc;
                    bool last = !more && pn >= k && js + n >= p->n;
                    next_block next = kept ? next_kept(at, last ? 0 : size, kc)
                                           : next_of(g, b + pn * g->b_k + jn * g->b_n, k - pn, js + n - jn, kc);
                    for (int64_t i = 0, rows; i < m; i += rows) {
                        rows = tile_rows(m, i);
                        t.a = a + (is + i) * g->a_m + pc * g->a_k;
                        if (pack) {
                            if (!jc)
                                pack_a(g, t.a, rows, p->m - is - i, kc, pa + i * steps);
                            t.a = pa + i * steps, t.ai = 1, t.ap = rows;
                        }
                        const S *bp = block;
                        for (int64_t j = 0, cols; j < nc; j += cols, bp += NR * steps, wait += rows * NR) {
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

#if PER == 1
/* Both packed. Loops: block of n > superblock of m > block of k > block of m > panel of b > panel of a: the panel of b
 * stays in L1, the block of a in L2. b is packed when the first block of m comes by, where it is used at once. Between
 * blocks of k the chains wait in scratch, one contiguous tile each: rows of c are too far apart to be read back. */
static void packed(const wfi_gemm *g, const wfi_gemm_part *p)
{
    _Alignas(64) T spare[MR * NR];
    T *pa = (T *)(void *)p->scratch, *pb = (T *)(void *)(p->scratch + g->pb_at);
    T *cs = (T *)(void *)(p->scratch + g->cs_at);
    const int64_t m = p->m, n = p->n, k = g->k, kb = g->kb, mb = g->mb, nb = g->nb, sb = g->sb;
    T *kept = (T *)(void *)p->kept;
    for (int64_t jc = 0, width; jc < n; jc += nb, kept = kept ? kept + width * k : NULL) {
        width = pack_block(g, NULL, least(n - jc, nb), 0, 1, NULL); /* of its panels, side by side */
        for (int64_t is = 0; is < m; is += sb)
            for (int64_t pc = 0; pc < k || !pc; pc += kb) /* k = 0: once, for the zeros */
                for (int64_t ic = is; ic < m && ic < is + sb; ic += mb) {
                    int64_t nc = least(n - jc, nb), kc = least(k - pc, kb), mc = least(m - ic, mb);
                    for (int64_t i = 0, rows; i < mc; i += rows) {
                        rows = tile_rows(mc, i);
                        pack_a(g, (const E *)(const void *)p->a + (ic + i) * g->a_m + pc * g->a_k, rows, m - ic - i, kc,
                               pa + i * kc);
                    }
                    bool fresh = !kept && (g->keep ? !ic : ic == is);
                    int64_t lines = kc / ((mc + MR - 1) / MR) + 1;
                    T *bp = kept ? kept + pc * width : pb + (g->keep ? pc * (nb + NR) : 0),
                      *column = cs + (ic - is) * NR;
                    for (int64_t j = 0, cols; j < nc; j += cols, bp += NR * kc, column += sb * NR) {
                        T *ct = column;
                        const E *from = fresh ? (const E *)(const void *)p->b + pc * g->b_k + (jc + j) * g->b_n : NULL;
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
}

#include "kernel/gemm/gemm_thin.h"
#endif

const wfi_gemm_type WFI_K(TYPE) = {
    .mr = MR,
    .nr = NR,
    .lanes = VL,
    .bytes = LANE,
    .per = PER,
    .tier = {
#if IN_PLACE
        [WFI_GEMM_SMALL] = small,
        [WFI_GEMM_PLACE] = place,
#endif
        [WFI_GEMM_ACROSS] = across_packed,
#if PER == 1
        [WFI_GEMM_PACKED] = packed,
        [WFI_GEMM_ROWS] = rows,
        [WFI_GEMM_COLS] = cols,
#endif
    },
    .keep = keep_b,
};
