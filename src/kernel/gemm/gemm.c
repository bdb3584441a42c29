/* gemm.c - which tier and which blocks a product gets, and its run. */
#include "kernel/gemm/gemm_plan.h"

static const wfi_gemm_type *const kinds[] = {
    &WFI_K(wfi_gemm_f32), &WFI_K(wfi_gemm_f64),  &WFI_K(wfi_gemm_i32),
    &WFI_K(wfi_gemm_i64), &WFI_K(wfi_gemm_bf16), &WFI_K(wfi_gemm_f16),
};
enum { F32, F64, I32, I64, BF16, F16 };

static int kind_of(wf_dtype t)
{
    switch (t) {
    case WF_F32: return F32;
    case WF_F64: return F64;
    case WF_I32: return I32;
    case WF_I64: return I64;
    case WF_BF16: return BF16;
    case WF_F16: return F16;
    default: return -1;
    }
}

#define L1_BYTES   (24 * 1024)
#define KEEP_BYTES ((int64_t)32 << 20)

static int choose_tier(const wfi_gemm *g, int64_t m, int64_t n)
{
    const wfi_gemm_type *t = kinds[g->kind];
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

/* Blocks and scratch for parts of at most m x n. */
static void choose_blocks(wfi_gemm *g, int64_t m, int64_t n)
{
    const wfi_gemm_type *t = kinds[g->kind];
    int64_t pa = 0, pb = 0, cs = 0; /* elements */
    g->tier = choose_tier(g, m, n);
    switch (g->tier) {
    case WFI_GEMM_SMALL: g->ahead = g->k * n * t->bytes > L1_BYTES ? 8 : 0; break;
    case WFI_GEMM_ROWS: pa = g->plain ? 0 : WFI_GEMM_COLUMNS; break;
    case WFI_GEMM_PLACE:
    case WFI_GEMM_ACROSS:
        g->kb = block(g->k, WFI_GEMM_KC2, 8);
        g->nb = block(n, max64(WFI_GEMM_BLOCK_BYTES / (g->kb * t->bytes) / t->nr, 1) * t->nr, t->nr);
        g->sb = block(m, WFI_GEMM_SB2, t->mr);
        g->ns = min64(n, WFI_GEMM_NS_BYTES / t->bytes / g->nb * g->nb);
        pa = g->tier == WFI_GEMM_ACROSS ? g->kb * g->sb + 4 * t->lanes : 0;
        pb = g->kb * (g->nb + t->nr);
        cs = g->k > g->kb ? (g->sb + t->mr) * (ceil_div(g->ns, g->nb) * (g->nb + t->nr)) : 0;
        break;
    case WFI_GEMM_PACKED:
        g->kb = block(g->k, WFI_GEMM_KC, 8);
        g->mb = block(m, WFI_GEMM_MC_BYTES / t->bytes / WFI_GEMM_KC, t->mr);
        g->nb = block(n, WFI_GEMM_NC_BYTES / t->bytes, t->nr);
        g->sb = max64(WFI_GEMM_SB / g->mb, 1) * g->mb;
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

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch)
{
    const int kind = kind_of(a->dtype);
    const char *why = kind < 0 ? "no product of this element type" : fits(a, b, c);
    if (why)
        return why;
    wfi_gemm g;
    size_t all = 0;
    int64_t m, n;
    if (describe(&g, a, b, c)) {
        g.kind = kind;
        int tier = choose_tier(&g, g.m, g.n); /* these pack a again in every part of n: */
        int pieces = tier == WFI_GEMM_PACKED || tier == WFI_GEMM_ACROSS ? 1 : 4;
        choose_parts(&g, threads, kinds[kind]->mr, kinds[kind]->nr, pieces);
        part_size(&g, &m, &n);
        choose_blocks(&g, m, n);
        if (!wfi_ck_mul((size_t)g.each, (size_t)g.threads, &all))
            return "too large";
    }
    *out = g, *scratch = all;
    return NULL;
}

static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    if (g->tier != WFI_GEMM_NOTHING)
        run_all(g, kinds[g->kind]->tier[g->tier], args, r);
}

#define WFI_GEMM_TEXT_(x) #x
#define WFI_GEMM_TEXT(x)  WFI_GEMM_TEXT_(x)
const wfi_gemm_kernels WFI_K(wfi_gemm) = {
    .name = "gemm " WFI_GEMM_TEXT(WFI_ISA),
    .order = "chain",
    .prepare = prepare,
    .run = run,
};
