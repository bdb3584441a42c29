/* gemm_amx.c - products of bf16, and of f32 made of bf16, on the tile unit of AMX (amx_tile.h).
 *
 * Order class `amx pairs` (bf16): the sums over each 256 values of k, made as amx_tile.h says, from +0 (zeros are added
 * behind the last value), are added in f32 in ascending order, and the total is rounded once to its type.
 *
 * Order class `f32_bf16x3`: every f32 is split into three bf16 whose sum it is (amx_pack.h). Over each 128 values of k
 * five products with smaller parts are summed, for 32 values of k after each other (amx_tile.h), and then those of the
 * largest parts on top; these sums are added in ascending order. A product whose operands hold an infinity, a NaN, or
 * numbers so large or so small that a part or a product of parts would be lost, is run in class `chain` as a whole: all
 * elements of all its batches, by the range of the numbers alone.
 *
 * Blocks of m, n and deeper k are whole multiples of these, so they change nothing. Loops: superblock of n > of m >
 * block of k > rows of a (packed, in L2) > columns of b > 256 (128) of k > panel of b (in L1) > panel of a. Sums that
 * wait for the next 256 of k lie in L2. */
#include "kernel/gemm/gemm_amx_block.h"
#ifndef WFI_AMX_EMULATED
#include <sys/syscall.h>
#include <unistd.h>
#endif

#define ACROSS 2048 /* rows and columns of a superblock */

#ifdef WFI_AMX_EMULATED
#ifndef NAME /* a test compiles this file once more, without vectors */
#define NAME       wfi_gemm_amx_emulated
#define NAME_SPLIT wfi_gemm_split_emulated
#endif
#define NAME_TEXT " emulated"
#else
#define NAME       wfi_gemm_amx
#define NAME_SPLIT wfi_gemm_split
#define NAME_TEXT  ""
#endif
#ifndef CHAIN /* where products of f32 go that cannot be split */
#define CHAIN      wfi_gemm_avx512
#define CHAIN_PLAN wfi_gemm_plan_avx512
#endif
bool CHAIN_PLAN(wfi_gemm *g, size_t *scratch);

/* What the two have in their own way: values of k in one sum, parts of a number; bytes of packed rows of a, which are
 * to stay in L2; k of a block. */
typedef struct recipe {
    int64_t sum, parts, rows_bytes, deep;
} recipe;
static const recipe bf16 = { 256, 1, 1 << 16, 256 }, split = { 128, 3, 400 * 1024, 256 };

static const recipe *recipe_of(const wfi_gemm *g)
{
    return g->dtype == WF_F32 ? &split : &bf16;
}

/* ---- one part ---- */

/* Bytes of k values of `lines` packed lines. */
static int64_t panel_bytes(const wfi_gemm *g, int64_t lines, int64_t k)
{
    return round_up(lines, SIDE) * round_up(k, SIDE) * 2 * recipe_of(g)->parts;
}
static void pack_rows(const wfi_gemm *g, const char *a, int64_t m, int64_t k, char *to, wfi_amx_range *seen)
{
    wfi_amx_lines s = { .dtype = g->dtype, .line = g->a_m, .k = g->a_k };
    for (int64_t i = 0; i < m; i += SIDE) {
        s.src = a + i * g->a_m * bytes_of(g->dtype);
        wfi_amx_pack(&s, min64(m - i, SIDE), k, false, (uint16_t *)(void *)(to + panel_bytes(g, i, k)), seen);
    }
}
static void pack_columns(const wfi_gemm *g, const char *b, int64_t n, int64_t k, char *to, wfi_amx_range *seen)
{
    wfi_amx_lines s = { .dtype = g->dtype, .line = g->b_n, .k = g->b_k };
    for (int64_t j = 0; j < n; j += SIDE) {
        s.src = b + j * g->b_n * bytes_of(g->dtype);
        wfi_amx_pack(&s, min64(n - j, SIDE), k, true, (uint16_t *)(void *)(to + panel_bytes(g, j, k)), seen);
    }
}

/* m rows times n columns, both packed, `k` deep, of a product whose k values before `from` are summed already. wait:
 * room for the sums. */
static void rectangle(work *w, const char *pa, const char *pb, int64_t m, int64_t n, int64_t from, int64_t k,
                      float *wait, char *c)
{
    const wfi_gemm *g = w->g;
    const recipe *t = recipe_of(g);
    const int64_t out = bytes_of(g->out_dtype), deep = panel_bytes(g, 1, k);
    for (int64_t p = 0; p < k; p += t->sum) {
        const int64_t steps = ceil_div(min64(t->sum, k - p), SIDE), at = panel_bytes(g, 1, p);
        const bool more = from + p > 0, last = from + p + t->sum >= g->k;
        for (int64_t j = 0; j < n; j += SIDE) {
            w->next = pb + (j + SIDE < n ? (j / SIDE + 1) * deep + at : at + steps * SIDE * SIDE * 2 * t->parts);
            w->lines = j + SIDE < n || p + t->sum < k ? steps * SIDE * t->parts : 0;
            for (int64_t i = 0; i < m; i += SIDE) {
                const int64_t rows = min64(SIDE, m - i), cols = min64(SIDE, n - j);
                const where to = !last                                     ? WAIT
                                 : g->c_n != 1                             ? TO_ANY
                                 : out == 4                                ? TO_F32
                                 : cols == SIDE && g->out_dtype == WF_BF16 ? TO_BF16
                                                                           : TO_ANY;
                table[t->parts > 1][w->last.more][w->last.to](
                    w, (const uint16_t *)(const void *)(pa + i / SIDE * deep + at),
                    (const uint16_t *)(const void *)(pb + j / SIDE * deep + at), steps);
                w->last = (sums){ .wait = wait + (j * round_up(m, SIDE) + i * SIDE),
                                  .c = c + (i * g->c_m + j * g->c_n) * out,
                                  .c_m = g->c_m * out,
                                  .c_n = g->c_n * out,
                                  .rows = (int32_t)rows,
                                  .cols = (int32_t)cols,
                                  .more = more,
                                  .to = to };
            }
        }
    }
}

/* Ranges of a and b as far as a worker saw them: at the head of its scratch, and of a kept b. */
typedef struct ranges {
    wfi_amx_range a, b;
    char fill[64 - 2 * sizeof(wfi_amx_range)];
} ranges;

static void tiles(const wfi_gemm *g, const wfi_gemm_part *p)
{
    _Alignas(64) float spare[SIDE * SIDE];
    ranges *seen = (ranges *)(void *)p->scratch;
    char *pa = p->scratch + sizeof *seen, *pb = p->scratch + g->pb_at;
    float *cs = (float *)(void *)(p->scratch + g->cs_at);
    const int64_t in = bytes_of(g->dtype), out = bytes_of(g->out_dtype);
    const char *kept = p->kept;
    WFI_TILES_ON();
    work w = { .g = g, .f = WFI_TILE_FILE, .spare = spare };
    for (int64_t js = 0, n; js < p->n; js += n) {
        n = min64(g->ns, p->n - js);
        const char *columns = kept; /* of this superblock */
        for (int64_t is = 0, m; is < p->m; is += m) {
            m = min64(g->sb, p->m - is);
            kept = columns;
            for (int64_t pc = 0, k; pc < g->k; pc += k) {
                k = min64(g->kb, g->k - pc);
                const char *b = kept ? kept : pb;
                kept = kept ? kept + panel_bytes(g, n, k) : NULL;
                for (int64_t ic = 0, mc; ic < m; ic += mc) {
                    mc = min64(g->mb, m - ic);
                    pack_rows(g, p->a + ((is + ic) * g->a_m + pc * g->a_k) * in, mc, k, pa, &seen->a);
                    for (int64_t jc = 0, nc; jc < n; jc += nc) {
                        nc = min64(g->nb, n - jc);
                        if (!kept && !ic)
                            pack_columns(g, p->b + (pc * g->b_k + (js + jc) * g->b_n) * in, nc, k,
                                         pb + panel_bytes(g, jc, k), &seen->b);
                        float *wait = g->k > g->kb ? cs + ic * round_up(n, SIDE) + jc * round_up(mc, SIDE) : cs;
                        rectangle(&w, pa, b + panel_bytes(g, jc, k), mc, nc, pc, k, wait,
                                  p->c + ((is + ic) * g->c_m + (js + jc) * g->c_n) * out);
                    }
                }
            }
        }
    }
    finish(&w);
    WFI_TILES_OFF();
}

/* ---- plan and run ---- */

static const char *plan(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                        size_t *scratch)
{
    wfi_gemm g;
    size_t all = 0;
    int64_t m, n;
    if (describe(&g, a, b, c)) {
        const recipe *t = recipe_of(&g);
        if (t->parts > 1 && g.swapped) { /* the products of parts have an order that knows a from b */
            swap_operands(&g);
            g.plain = g.c_n == 1;
        }
        g.pool = threads;
        choose_parts(&g, threads, SIDE, SIDE, 1);
        part_size(&g, &m, &n);
        g.tier = WFI_GEMM_PACKED;
        g.kb = g.k <= t->deep ? g.k : round_up(ceil_div(g.k, ceil_div(g.k, t->deep)), t->sum);
        g.mb = max64(min64(t->rows_bytes / panel_bytes(&g, SIDE, g.kb), 16), 1) * SIDE;
        g.nb = 128;
        g.sb = g.k > g.kb ? ACROSS : round_up(m, SIDE);
        g.ns = min64(ACROSS, round_up(n, SIDE));
        g.mb = min64(g.mb, round_up(m, SIDE));
        g.pb_at = (int64_t)sizeof(ranges) + panel_bytes(&g, g.mb, g.kb);
        g.cs_at = g.pb_at + panel_bytes(&g, g.ns, g.kb);
        const int64_t rows = min64(g.sb, round_up(m, SIDE));
        g.each = g.cs_at + (g.k > g.kb ? rows * g.ns * 4 : g.k > t->sum ? g.mb * min64(g.nb, g.ns) * 4 : 0);
        if (!wfi_ck_mul((size_t)g.each, (size_t)g.threads, &all))
            return "too large";
    }
    *out = g, *scratch = all;
    return NULL;
}

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch)
{
    if (a->dtype != WF_BF16)
        return "not bf16";
    const char *why = fits(a, b, c);
    if (why)
        return why;
    /* by the logical shape alone: the other class has other bits */
    const int d = c->ndim - 2;
    if (c->dim[d] < 8 || c->dim[d + 1] < 8 || a->dim[d + 1] < 16)
        return "too small for tiles";
    return plan(a, b, c, threads, out, scratch);
}

/* Packs n columns in the order in which they are used, or only counts the bytes. */
static int64_t keep_columns(const wfi_gemm *g, const char *b, int64_t n, char *to, wfi_amx_range *seen)
{
    const int64_t in = bytes_of(g->dtype);
    int64_t done = 0;
    for (int64_t js = 0, ns; js < n; js += ns) {
        ns = min64(g->ns, n - js);
        for (int64_t pc = 0, k; pc < g->k; pc += k) {
            k = min64(g->kb, g->k - pc);
            if (to)
                pack_columns(g, b + (pc * g->b_k + js * g->b_n) * in, ns, k, to + done, seen);
            done += panel_bytes(g, ns, k);
        }
    }
    return done;
}
static int64_t keep_count(const wfi_gemm *g, const char *b, int64_t n, char *to)
{
    (void)b, (void)to;
    return keep_columns(g, NULL, n, NULL, NULL);
}
static size_t keep_bytes(const wfi_gemm *g)
{
    bool one = g->tier != WFI_GEMM_NOTHING && !g->swapped && g->k > 0;
    for (int i = 0; i < g->nbatch; i++)
        one &= g->b_batch[i] == 0;
    return one ? sizeof(ranges) + kept_at(g, keep_count, g->parts_n) : 0;
}
static void keep(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    ranges *seen = args[3];
    char *to = (char *)args[3] + sizeof *seen;
    (void)r;
    seen->b = wfi_amx_range_none;
    for (int64_t part = 0, at; part < g->parts_n; part++) {
        const int64_t n = part_columns(g, part, &at);
        to += keep_columns(g, (const char *)args[2] + at * g->b_n * bytes_of(g->dtype), n, to, &seen->b);
    }
}

static ranges *seen_by(const wfi_gemm *g, const wfi_run *r, int worker)
{
    return (ranges *)(void *)((char *)r->scratch + worker * g->each);
}
static void run_any(const void *params, void *const *args, const wfi_run *r, ranges *room)
{
    const wfi_gemm *g = params;
    if (g->tier == WFI_GEMM_NOTHING)
        return;
    for (int i = 0; i < g->threads; i++)
        *seen_by(g, r, i) = (ranges){ .a = wfi_amx_range_none, .b = wfi_amx_range_none };
    run_all(g, tiles, args, (wfi_kept_b){ room ? (char *)(room + 1) : NULL, keep_count }, r);
    if (g->dtype != WF_F32)
        return;
    ranges all = { .a = wfi_amx_range_none, .b = room ? room->b : wfi_amx_range_none };
    for (int i = 0; i < g->threads; i++) {
        wfi_amx_range_join(&all.a, &seen_by(g, r, i)->a);
        wfi_amx_range_join(&all.b, &seen_by(g, r, i)->b);
    }
    if (wfi_amx_range_fits(&all.a, &all.b, g->k))
        return;
    wfi_gemm chain = *g;
    size_t scratch;
    if (CHAIN_PLAN(&chain, &scratch))
        CHAIN.run(&chain, args, r);
}
static void run(const void *params, void *const *args, const wfi_run *r)
{
    run_any(params, args, r, NULL);
}
static void run_kept(const void *params, void *const *args, const wfi_run *r)
{
    run_any(params, args, r, args[3]);
}

extern const wfi_gemm_kernels NAME, NAME_SPLIT;
const wfi_gemm_kernels NAME = { .name = "gemm amx" NAME_TEXT,
                                .order = "amx pairs",
                                .prepare = prepare,
                                .run = run,
                                .keep_bytes = keep_bytes,
                                .keep = keep,
                                .run_kept = run_kept };

static const char *prepare_split(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                                 size_t *scratch)
{
    if (a->dtype != WF_F32)
        return "not f32";
    const char *why = fits(a, b, c);
    if (why)
        return why;
    const int d = c->ndim - 2;
    if (!wfi_gemm_splits(c->dim[d], c->dim[d + 1], a->dim[d + 1]))
        return "too little work for each number that is split";
    why = plan(a, b, c, threads, out, scratch);
    if (why || out->tier == WFI_GEMM_NOTHING)
        return why;
    wfi_gemm chain = *out;
    size_t others;
    if (!CHAIN_PLAN(&chain, &others))
        return "too large";
    *scratch = others > *scratch ? others : *scratch;
    return NULL;
}
const wfi_gemm_kernels NAME_SPLIT = { .name = "gemm split" NAME_TEXT,
                                      .order = "f32_bf16x3",
                                      .prepare = prepare_split,
                                      .run = run,
                                      .keep_bytes = keep_bytes,
                                      .keep = keep,
                                      .run_kept = run_kept };

#ifndef WFI_AMX_EMULATED
/* -- permission: no instruction of this file's set may run before it is known to be there ------------------------ */
#define BASELINE __attribute__((target("no-avx,no-avx2,no-avx512f")))
BASELINE static void cpuid(uint32_t leaf, uint32_t r[4])
{
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "0"(leaf), "2"(0));
}
BASELINE bool wfi_gemm_amx_permit(void)
{
    uint32_t r[4], low, high;
    cpuid(0, r);
    if (r[0] < 7)
        return false;
    cpuid(1, r);
    if (!(r[2] >> 27 & 1)) /* OSXSAVE */
        return false;
    cpuid(7, r);
    if (!(r[3] >> 22 & 1) || !(r[3] >> 24 & 1)) /* AMX-BF16, AMX-TILE */
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 0x600e6) != 0x600e6) /* SSE, AVX, AVX-512, tiles: saved by the kernel */
        return false;
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
}
#endif
