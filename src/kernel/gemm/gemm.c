/* gemm.c - what is decided about a product before it runs, and the run. */
#include "kernel/gemm/gemm.h"
#include "base/ck.h"
#include "kernel/gemm/gemm_part.h"

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
static int64_t bytes_in(const wfi_gemm *g)
{
    return g->kind >= BF16 ? 2 : kinds[g->kind]->bytes;
}
static int64_t bytes_out(const wfi_gemm *g)
{
    return g->kind >= BF16 && g->out_dtype != WF_F32 ? 2 : kinds[g->kind]->bytes;
}

static const char *fits(const wfi_view *a, const wfi_view *b, const wfi_view *c)
{
    int kind = kind_of(a->dtype), d = c->ndim - 2;
    if (kind < 0)
        return "no product of this element type";
    if (b->dtype != a->dtype)
        return "operands of different element types";
    if (c->dtype != a->dtype && (kind < BF16 || c->dtype != WF_F32))
        return "no such element type of the result";
    if (d < 0 || d > WFI_GEMM_BATCH_MAX || a->ndim != c->ndim || b->ndim != c->ndim)
        return "ranks differ or are below 2";
    for (int i = 0; i < d; i++)
        if (a->dim[i] != c->dim[i] || b->dim[i] != c->dim[i])
            return "batch sizes differ";
    if (a->dim[d] != c->dim[d] || b->dim[d + 1] != c->dim[d + 1] || a->dim[d + 1] != b->dim[d])
        return "sizes do not fit";
    return NULL;
}

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}
static int64_t round_up(int64_t a, int64_t unit)
{
    return ceil_div(a, unit) * unit;
}
/* Equal blocks of at most about max, a multiple of unit. */
static int64_t block(int64_t n, int64_t max, int64_t unit)
{
    return n <= max ? max64(n, 1) : round_up(ceil_div(n, ceil_div(n, max)), unit);
}

/* Batch dimensions: those of size 1 go, neighbours that lie as one become one; a last one over which b repeats and a
 * and c go on becomes part of m (x[t, m, k] w[k, n]). */
static void batch_dims(wfi_gemm *g, const wfi_view *a, const wfi_view *b, const wfi_view *c)
{
    g->batches = 1;
    for (int i = 0; i < c->ndim - 2; i++) {
        int64_t n = c->dim[i];
        g->batches *= n;
        if (n == 1)
            continue;
        int last = g->nbatch - 1;
        if (last >= 0 && g->a_batch[last] == n * a->stride[i] && g->b_batch[last] == n * b->stride[i] &&
            g->c_batch[last] == n * c->stride[i]) {
            n *= g->batch[last];
            g->nbatch--;
        }
        g->batch[g->nbatch] = n;
        g->a_batch[g->nbatch] = a->stride[i];
        g->b_batch[g->nbatch] = b->stride[i];
        g->c_batch[g->nbatch++] = c->stride[i];
    }
    int last = g->nbatch - 1;
    if (last < 0 || g->b_batch[last] || g->batches <= 0)
        return;
    if (g->m == 1)
        g->a_m = g->a_batch[last], g->c_m = g->c_batch[last];
    if (g->a_batch[last] == g->m * g->a_m && g->c_batch[last] == g->m * g->c_m) {
        g->m *= g->batch[last];
        g->batches /= g->batch[last];
        g->nbatch--;
    }
}

static void swap64(int64_t *a, int64_t *b)
{
    int64_t t = *a;
    *a = *b, *b = t;
}
/* The transposed product has the same chains; it is run where c lies in columns, or n is tiny and a is not. */
static void maybe_swap(wfi_gemm *g)
{
    bool columns = g->c_n != 1 && g->c_m == 1, thin = g->n <= 4 && g->m * g->k >= 1024;
    if (g->m <= 4 || !(columns || thin))
        return;
    g->swapped = 1;
    swap64(&g->m, &g->n);
    swap64(&g->a_m, &g->b_n);
    swap64(&g->a_k, &g->b_k);
    swap64(&g->c_m, &g->c_n);
    for (int i = 0; i < g->nbatch; i++)
        swap64(&g->a_batch[i], &g->b_batch[i]);
}

/* Strides of dimensions of size 1 mean nothing: the handiest is taken. */
static void plain_strides(wfi_gemm *g)
{
    if (g->n == 1)
        g->b_n = g->c_n = 1;
    if (g->m == 1)
        g->a_m = g->a_k == 1 ? max64(g->k, 2) : 1;
    if (g->k == 1) {
        g->a_k = g->a_m == 1 ? 2 : 1;
        g->b_k = g->b_n == 1 ? max64(g->n, 2) : 1;
    }
}

#define L1_BYTES    (24 * 1024)
#define KEEP_BYTES  ((int64_t)32 << 20)
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

/* Blocks and scratch for parts of at most m x n. */
static void choose_blocks(wfi_gemm *g, int64_t m, int64_t n)
{
    const wfi_gemm_type *t = kinds[g->kind];
    int64_t pa = 0, pb = 0, cs = 0; /* elements */
    g->tier = choose_tier(g, m, n);
    switch (g->tier) {
    case WFI_GEMM_SMALL:
        g->ahead = g->k * n * t->bytes > L1_BYTES ? 8 : 0;
        break;
    case WFI_GEMM_ROWS:
        pa = g->plain ? 0 : WFI_GEMM_COLUMNS;
        break;
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

/* Below this much work a second thread costs more than it brings. */
#define PARALLEL_FLOPS 4e6
#define PARALLEL_BYTES 1e6 /* for products that wait for memory */

static bool worth_splitting(const wfi_gemm *g)
{
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batches;
    double bytes = (double)g->k * (double)g->n * (double)bytes_in(g) * (double)(g->b_batch[0] ? g->batches : 1);
    return flops >= PARALLEL_FLOPS || (g->m <= 4 && bytes >= PARALLEL_BYTES);
}
static void choose_parts(wfi_gemm *g, int threads)
{
    const wfi_gemm_type *t = kinds[g->kind];
    g->threads = 1, g->parts_m = g->parts_n = 1, g->chunks = 1;
    if (threads <= 1 || !worth_splitting(g))
        return;
    g->threads = threads;
    if (g->batches >= 4 * threads || g->batches % threads == 0) {
        g->chunks = min64(g->batches, 8 * (int64_t)threads);
        return;
    }
    /* columns by choice: each thread packs its own b; rows where there are not enough columns or many more rows */
    int64_t cols = ceil_div(g->n, t->nr), rows = ceil_div(g->m, t->mr);
    if (g->m <= 4 || (cols >= 2 * threads && g->m <= 4 * g->n))
        g->parts_n = min64(threads, cols);
    else
        g->parts_m = min64(threads, rows);
    g->chunks = g->batches * g->parts_m * g->parts_n;
    if (g->chunks == 1)
        g->threads = 1;
}

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch)
{
    const char *why = fits(a, b, c);
    if (why)
        return why;
    const int d = c->ndim - 2;
    wfi_gemm g = { .dtype = a->dtype,
                   .out_dtype = c->dtype,
                   .kind = kind_of(a->dtype),
                   .m = c->dim[d],
                   .n = c->dim[d + 1],
                   .k = a->dim[d + 1],
                   .a_m = a->stride[d],
                   .a_k = a->stride[d + 1],
                   .b_k = b->stride[d],
                   .b_n = b->stride[d + 1],
                   .c_m = c->stride[d],
                   .c_n = c->stride[d + 1] };
    batch_dims(&g, a, b, c);
    if (!g.m || !g.n || !g.batches) {
        *out = g, *scratch = 0;
        return NULL;
    }
    plain_strides(&g);
    maybe_swap(&g);
    plain_strides(&g);
    g.plain = g.c_n == 1 && bytes_out(&g) == kinds[g.kind]->bytes;
    choose_parts(&g, threads);
    const int64_t nr = kinds[g.kind]->nr;
    choose_blocks(&g, ceil_div(g.m, g.parts_m), min64(g.n, round_up(ceil_div(g.n, g.parts_n), nr)));
    size_t all;
    if (!wfi_ck_mul((size_t)g.each, (size_t)g.threads, &all))
        return "too large";
    *out = g, *scratch = all;
    return NULL;
}

/* Part `part` of product `batch`. */
static void run_part(const wfi_gemm *g, void *const *args, int64_t batch, int64_t part, char *scratch)
{
    const wfi_gemm_type *t = kinds[g->kind];
    const int64_t in = bytes_in(g), out = bytes_out(g);
    wfi_gemm_part p = { .a = args[g->swapped ? 2 : 1],
                        .b = args[g->swapped ? 1 : 2],
                        .c = args[0],
                        .m = g->m,
                        .n = g->n,
                        .scratch = scratch };
    for (int i = g->nbatch - 1; i >= 0; i--) {
        int64_t at = batch % g->batch[i];
        batch /= g->batch[i];
        p.a += at * g->a_batch[i] * in;
        p.b += at * g->b_batch[i] * in;
        p.c += at * g->c_batch[i] * out;
    }
    if (g->parts_m > 1) {
        int64_t each = ceil_div(g->m, g->parts_m), at = part * each;
        p.m = min64(each, g->m - at);
        p.a += at * g->a_m * in;
        p.c += at * g->c_m * out;
    }
    if (g->parts_n > 1) {
        int64_t each = round_up(ceil_div(g->n, g->parts_n), t->nr), at = part * each;
        p.n = min64(each, g->n - at);
        p.b += at * g->b_n * in;
        p.c += at * g->c_n * out;
    }
    if (p.m > 0 && p.n > 0)
        t->tier[g->tier](g, &p);
}

typedef struct job {
    const wfi_gemm *g;
    void *const *args;
    char *scratch;
} job;
static void chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const wfi_gemm *g = j->g;
    char *scratch = j->scratch + worker * g->each;
    int64_t parts = g->parts_m * g->parts_n;
    if (parts > 1) {
        run_part(g, j->args, number / parts, number % parts, scratch);
        return;
    }
    int64_t from = g->batches * number / g->chunks, to = g->batches * (number + 1) / g->chunks;
    for (int64_t batch = from; batch < to; batch++)
        run_part(g, j->args, batch, 0, scratch);
}
static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    if (g->tier == WFI_GEMM_NOTHING)
        return;
    if (g->batches == 1 && g->chunks == 1) {
        run_part(g, args, 0, 0, r->scratch);
        return;
    }
    job j = { g, args, r->scratch };
    /* a pool larger than prepare was told has workers without scratch */
    wfi_pool *pool = g->threads > 1 && wfi_pool_threads(r->pool) <= g->threads ? r->pool : NULL;
    wfi_pool_run(pool, g->chunks, chunk, &j);
}

#define WFI_GEMM_TEXT_(x) #x
#define WFI_GEMM_TEXT(x)  WFI_GEMM_TEXT_(x)
const wfi_gemm_kernels WFI_K(wfi_gemm) = {
    .name = "gemm " WFI_GEMM_TEXT(WFI_ISA),
    .order = "chain",
    .prepare = prepare,
    .run = run,
};
