/* gemm_blocks.h - which tier and which blocks a product of one element type gets. Included by gemm.c and gemm_pairs.c.
 */
#ifndef WFI_KERNEL_GEMM_BLOCKS_H
#define WFI_KERNEL_GEMM_BLOCKS_H
#include "kernel/gemm/gemm_plan.h"

/* What may be chosen otherwise (kernel/choice.h). */
enum {
    WAY_TIER,    /* wfi_gemm_tier */
    WAY_K,       /* depth of a block of k, at most */
    WAY_BLOCK,   /* KiB of the block that is to stay in L2: of b, or of a in tier PACKED */
    WAY_ROWS,    /* rows of a superblock, at most */
    WAY_PIECES,  /* parts of n for each thread */
    WAY_THREADS, /* at most */
    WAYS
};
_Static_assert((int)WAYS <= (int)WFI_KNOBS, "WAYS");
static const wfi_choice by_rule;

#define L1_BYTES   (24 * 1024)
#define KEEP_BYTES ((int64_t)32 << 20)

static int choose_tier(const wfi_gemm_type *t, const wfi_gemm *g, int64_t m, int64_t n)
{
    if (!t->tier[WFI_GEMM_PACKED])
        return WFI_GEMM_ACROSS;
    const bool in_place = t->tier[WFI_GEMM_SMALL] != NULL;
    const int64_t b_bytes = g->k * n * t->bytes, a_bytes = m * g->k * t->bytes;
    if (!g->k)
        return in_place && g->b_n == 1 ? WFI_GEMM_SMALL : WFI_GEMM_PACKED;
    if (m <= 4 && (b_bytes >= 4096 || !in_place) && n >= t->lanes) {
        if (g->b_n == 1)
            return WFI_GEMM_ROWS;
        if (g->b_k == 1)
            return WFI_GEMM_COLS;
    }
    if (in_place && g->b_n == 1 &&
        (b_bytes <= L1_BYTES || m <= 2 * t->mr ||
         a_bytes + b_bytes <= (g->a_k == 1 ? WFI_GEMM_SMALL_BYTES : WFI_GEMM_SMALL_BYTES / 4)))
        return WFI_GEMM_SMALL;
#ifdef __AVX512F__ /* L2 feeds the tiles: along the rows of c, with few blocks of k */
    return in_place && g->a_k == 1 ? WFI_GEMM_PLACE : WFI_GEMM_ACROSS;
#else
    /* rows of a that lie a large power of two apart share sets of L1 */
    if (in_place && g->a_k == 1 && n * t->bytes <= 2048 && m <= 1024 && g->a_m * t->bytes % 4096)
        return WFI_GEMM_PLACE;
    return WFI_GEMM_PACKED;
#endif
}

/* Equal blocks of at most about max, a multiple of unit. */
static int64_t block(int64_t n, int64_t max, int64_t unit)
{
    return n <= max ? max64(n, 1) : round_up(ceil_div(n, ceil_div(n, max)), unit);
}

static int64_t otherwise(const wfi_choice *way, int which, int64_t rule)
{
    return way->of[which] > 0 ? way->of[which] : rule;
}

/* Blocks and scratch for parts of at most m x n. */
static void choose_blocks(const wfi_gemm_type *t, wfi_gemm *g, int64_t m, int64_t n, const wfi_choice *way)
{
    int64_t pa = 0, pb = 0, cs = 0, steps; /* elements of t->bytes */
    g->tier = (int32_t)otherwise(way, WAY_TIER, choose_tier(t, g, m, n));
    switch (g->tier) {
    case WFI_GEMM_SMALL: g->ahead = g->k * n * t->bytes > L1_BYTES ? 8 : 0; break;
    case WFI_GEMM_ROWS: pa = g->plain ? 0 : WFI_GEMM_COLUMNS; break;
    case WFI_GEMM_PLACE:
    case WFI_GEMM_ACROSS:
        g->kb = block(g->k, otherwise(way, WAY_K, WFI_GEMM_KC2 * t->per), 8);
        steps = ceil_div(g->kb, t->per);
        g->nb =
            block(n,
                  max64(otherwise(way, WAY_BLOCK, WFI_GEMM_BLOCK_BYTES / 1024) * 1024 / (steps * t->bytes) / t->nr, 1) *
                      t->nr,
                  t->nr);
        g->sb = block(m, otherwise(way, WAY_ROWS, WFI_GEMM_SB2), t->mr);
        g->ns = round_up(ceil_div(n, max64(n * t->bytes / WFI_GEMM_NS_BYTES, 1)),
                         g->nb); /* superblocks of much the same width */
        pa = g->tier == WFI_GEMM_ACROSS ? steps * g->sb + 4 * t->lanes : 0;
        pb = steps * (g->nb + t->nr);
        cs = g->k > g->kb ? (g->sb + t->mr) * (ceil_div(g->ns, g->nb) * (g->nb + t->nr)) : 0;
        break;
    case WFI_GEMM_PACKED:
        g->kb = block(g->k, otherwise(way, WAY_K, WFI_GEMM_KC), 8);
        g->mb = block(m,
                      max64(otherwise(way, WAY_BLOCK, WFI_GEMM_MC_BYTES / 1024) * 1024 / t->bytes /
                                otherwise(way, WAY_K, WFI_GEMM_KC),
                            t->mr),
                      t->mr);
        g->nb = block(n, WFI_GEMM_NC_BYTES / t->bytes, t->nr);
        g->sb = max64(otherwise(way, WAY_ROWS, WFI_GEMM_SB) / g->mb, 1) * g->mb;
        g->keep = m > g->sb && g->k <= KEEP_BYTES / ((g->nb + t->nr) * t->bytes);
        pa = g->kb * g->mb + 4 * t->lanes;
        pb = (g->keep ? g->k : g->kb) * (g->nb + t->nr);
        cs = g->k > g->kb ? g->sb * (g->nb + t->nr) : 0;
        break;
    default: break;
    }
    g->pb_at = round_up(pa * t->bytes, 64);
    g->cs_at = g->pb_at + round_up(pb * t->bytes, 64);
    g->each = g->cs_at + round_up(cs * t->bytes, 64);
}

/* The whole plan of a product that is described. False: it wants more scratch than there can be. */
static bool choose(const wfi_gemm_type *t, wfi_gemm *g, int threads, const wfi_choice *way, size_t *scratch)
{
    int64_t m, n,
        tier = otherwise(way, WAY_TIER, choose_tier(t, g, g->m, g->n)); /* these pack a again in every part of n: */
    int64_t pieces = tier == WFI_GEMM_PACKED || tier == WFI_GEMM_ACROSS ? 1 : 4;
    choose_parts(g, (int)min64(threads, otherwise(way, WAY_THREADS, threads)), t->mr, t->nr,
                 otherwise(way, WAY_PIECES, pieces));
    part_size(g, &m, &n);
    choose_blocks(t, g, m, n, way);
    return wfi_ck_mul((size_t)g->each, (size_t)g->threads, scratch);
}

/* ---- b packed once for many runs ---- */

/* How a product is run with a kept b: one of few rows, which would read the columns of b where they lie, by panels. */
static wfi_gemm with_kept(const wfi_gemm_type *t, const wfi_gemm *g)
{
    wfi_gemm h = *g;
    if (g->tier == WFI_GEMM_COLS && t->tier[WFI_GEMM_PLACE]) {
        h.tier = WFI_GEMM_PLACE;
        h.kb = g->k, h.nb = h.ns = round_up(g->n, g->nr), h.sb = round_up(g->m, t->mr);
    }
    return h;
}

/* Bytes of the room; 0: b is not one matrix, or it is read as it lies. */
static size_t kept_size(const wfi_gemm_type *t, const wfi_gemm *g)
{
    const wfi_gemm h = with_kept(t, g);
    bool one = !h.swapped && h.k > 0;
    for (int i = 0; i < h.nbatch; i++)
        one &= h.b_batch[i] == 0;
    one &= h.tier == WFI_GEMM_PLACE || h.tier == WFI_GEMM_ACROSS || h.tier == WFI_GEMM_PACKED;
    return one ? kept_at(&h, t->keep, h.parts_n) : 0;
}

static void fill_kept(const wfi_gemm_type *t, const wfi_gemm *g, const char *b, char *to)
{
    const wfi_gemm h = with_kept(t, g);
    for (int64_t part = 0, at; part < h.parts_n; part++) {
        const int64_t n = part_columns(&h, part, &at);
        to += t->keep(&h, b + at * h.b_n * bytes_of(h.dtype), n, to);
    }
}

static void run_with_kept(const wfi_gemm_type *t, const wfi_gemm *g, void *const *args, const wfi_run *r)
{
    const wfi_gemm h = with_kept(t, g);
    run_all(&h, t->tier[h.tier], args, (wfi_kept_b){ args[3], t->keep }, r);
}

#endif
