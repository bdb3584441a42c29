/* gemm_choice.h - the other ways in which a product can be run, for kernel/choice.h. Included by gemm.c and
 * gemm_pairs.c.
 *
 * None changes a bit: an element is one chain over k in every tier, and blocks of k go on with it. */
#ifndef WFI_KERNEL_GEMM_CHOICE_H
#define WFI_KERNEL_GEMM_CHOICE_H
#include "base/hash.h"
#include "kernel/gemm/gemm_blocks.h"

enum { ROWS_LEAST = 64, K_LEAST = 64, BLOCK_MOST = 8 << 10 /* KiB */, AT_MOST = 1 << 16 };
#define SMALL_BYTES_MOST ((int64_t)4 << 20) /* of a and b where they lie */

/* May this product be run in this tier at all? */
static bool can_tier(const wfi_gemm_type *t, const wfi_gemm *g, int64_t tier)
{
    if (tier <= WFI_GEMM_NOTHING || tier >= WFI_GEMM_TIERS || !t->tier[tier])
        return false;
    switch (tier) {
    case WFI_GEMM_SMALL: return g->b_n == 1 && (g->m + g->n) * g->k * t->bytes <= SMALL_BYTES_MOST;
    case WFI_GEMM_PLACE: return g->a_k == 1;
    case WFI_GEMM_ROWS: return g->m <= 4 && g->b_n == 1 && g->n >= t->lanes;
    case WFI_GEMM_COLS: return g->m <= 4 && g->b_k == 1 && g->n >= t->lanes;
    default: return true;
    }
}

static void add_way(wfi_knob *k, int64_t value)
{
    if (k->n < WFI_KNOB_VALUES)
        k->value[k->n++] = (int32_t)value;
}

static int ways(const wfi_gemm_type *t, const wfi_gemm *g, int threads, wfi_knob *knob)
{
    if (g->tier == WFI_GEMM_NOTHING || !g->k)
        return 0;
    static const char *const name[WAYS] = { "tier", "k", "block", "rows", "pieces", "threads" };
    for (int i = 0; i < WAYS; i++)
        knob[i] = (wfi_knob){ .name = name[i] };
    for (int tier = 1; tier < WFI_GEMM_TIERS; tier++)
        if (tier != g->tier && can_tier(t, g, tier))
            add_way(&knob[WAY_TIER], tier);
    for (int64_t k = 256; k <= 2048 && k < 2 * g->k; k *= 2)
        add_way(&knob[WAY_K], k);
    for (int64_t kib = 150; kib <= 1200 && kib * 512 < g->k * g->n * t->bytes; kib *= 2)
        add_way(&knob[WAY_BLOCK], kib);
    for (int64_t rows = 128; rows <= 512 && rows < g->m; rows *= 2)
        add_way(&knob[WAY_ROWS], rows);
    if (threads > 1 && g->threads > 1) {
        add_way(&knob[WAY_PIECES], 1);
        add_way(&knob[WAY_PIECES], 2);
        add_way(&knob[WAY_THREADS], 1);
    }
    return WAYS;
}

static bool is_sound(const wfi_gemm_type *t, const wfi_gemm *g, const wfi_choice *way)
{
    const int32_t *of = way->of;
    for (int i = 0; i < WAYS; i++)
        if (of[i] < 0 || of[i] > AT_MOST)
            return false;
    return (!of[WAY_TIER] || can_tier(t, g, of[WAY_TIER])) && (!of[WAY_K] || of[WAY_K] >= K_LEAST) &&
           of[WAY_BLOCK] <= BLOCK_MOST && (!of[WAY_ROWS] || of[WAY_ROWS] >= ROWS_LEAST);
}

static const char *take_way(const wfi_gemm_type *t, wfi_gemm *g, const wfi_choice *way, int threads, size_t *scratch)
{
    if (g->tier == WFI_GEMM_NOTHING || !g->k)
        return "nothing can be chosen";
    if (!is_sound(t, g, way))
        return "no such way of doing it";
    wfi_gemm h = *g;
    size_t all;
    h.kb = h.mb = h.nb = h.sb = h.ns = h.ahead = h.keep = 0;
    if (!choose(t, &h, threads, way, &all))
        return "too large";
    *g = h, *scratch = all;
    return NULL;
}

/* ---- how it will run ---- */

static double times(int64_t n, int64_t each)
{
    return each > 0 && n > each ? (double)ceil_div(n, each) : 1;
}

static void describe_way(const wfi_gemm_type *t, const wfi_gemm *g, wfi_traits *w)
{
    int64_t m, n;
    part_size(g, &m, &n);
    const double parts = (double)(g->batches * g->parts_m * g->parts_n), k = (double)g->k, bytes = (double)t->bytes,
                 a = (double)m * k * bytes * parts, b = k * (double)n * bytes * parts,
                 c = (double)m * (double)n * bytes * parts;
    const int64_t deep = g->kb ? g->kb : g->k, wide = g->nb ? g->nb : n,
                  width = g->tier == WFI_GEMM_SMALL ? t->lanes : t->nr;
    const bool thin = g->tier == WFI_GEMM_ROWS || g->tier == WFI_GEMM_COLS;
    const double high = (double)min64(m, t->mr), columns = (double)min64(n, t->nr) / (double)t->lanes;
    *w = (wfi_traits){ .useful = 2.0 * (double)g->m * (double)g->n * k * (double)g->batches, .kind = g->tier };
    w->flops =
        thin ? w->useful
             : 2.0 * (double)round_up(m, m < t->mr ? 1 : 2) * (double)round_up(n, min64(width, t->lanes)) * k * parts;
    w->moved = a + b + c;
    w->again = 2 * c * (times(g->k, deep) - 1);
    w->loads = (columns + high) / (columns * high + 1e-9);
    w->pieces = (double)g->chunks;
    w->threads = g->threads;
    w->near = (double)deep * (double)(t->mr + t->nr) * bytes / t->per;
    switch (g->tier) {
    case WFI_GEMM_PLACE:
    case WFI_GEMM_ACROSS:
        w->packed = b * times(m, g->sb) + (g->tier == WFI_GEMM_ACROSS ? a * times(n, g->ns) : 0);
        w->again += a * times(n, wide) + b * times(m, t->mr);
        w->block = (double)deep * (double)wide * bytes / t->per;
        break;
    case WFI_GEMM_PACKED:
        w->packed = b * (g->keep ? 1 : times(m, g->sb)) + a * times(n, wide);
        w->again += a * times(n, t->nr);
        w->block = (double)deep * (double)g->mb * bytes;
        break;
    default:
        w->again += b * times(m, t->mr);
        w->block = k * (double)(m + n) * bytes;
        w->near = k * (double)t->nr * bytes;
        break;
    }
    w->alike = wfi_hash64(g, sizeof *g, 0);
}

#endif
