/* gemm_plan.h - what every implementation of products decides in the same way: whether the shapes fit, which batch
 * dimensions are one, how the work is cut, and the run over the pieces. Included by gemm.c and gemm_amx.c. */
#ifndef WFI_KERNEL_GEMM_PLAN_H
#define WFI_KERNEL_GEMM_PLAN_H
#include "base/ck.h"
#include "kernel/gemm/gemm_part.h"

static inline int64_t bytes_of(wf_dtype dtype) /* of the types that have products */
{
    return dtype == WF_F64 || dtype == WF_I64 ? 8 : dtype == WF_BF16 || dtype == WF_F16 ? 2 : 4;
}

static const char *fits(const wfi_view *a, const wfi_view *b, const wfi_view *c)
{
    const int d = c->ndim - 2;
    if (b->dtype != a->dtype)
        return "operands of different element types";
    if (c->dtype != a->dtype && !(bytes_of(a->dtype) == 2 && c->dtype == WF_F32))
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
static void swap_operands(wfi_gemm *g)
{
    g->swapped = !g->swapped;
    swap64(&g->m, &g->n);
    swap64(&g->a_m, &g->b_n);
    swap64(&g->a_k, &g->b_k);
    swap64(&g->c_m, &g->c_n);
    for (int i = 0; i < g->nbatch; i++)
        swap64(&g->a_batch[i], &g->b_batch[i]);
}
/* The transposed product has the same chains; it is run where c lies in columns, or n is tiny and a is not. */
static void maybe_swap(wfi_gemm *g)
{
    bool columns = g->c_n != 1 && g->c_m == 1, thin = g->n <= 4 && g->m * g->k >= 1024;
    if (g->m > 4 && (columns || thin))
        swap_operands(g);
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

/* Everything but tier, parts and blocks. False: there is no element to compute. */
static bool describe(wfi_gemm *g, const wfi_view *a, const wfi_view *b, const wfi_view *c)
{
    const int d = c->ndim - 2;
    *g = (wfi_gemm){ .dtype = a->dtype,
                     .out_dtype = c->dtype,
                     .m = c->dim[d],
                     .n = c->dim[d + 1],
                     .k = a->dim[d + 1],
                     .a_m = a->stride[d],
                     .a_k = a->stride[d + 1],
                     .b_k = b->stride[d],
                     .b_n = b->stride[d + 1],
                     .c_m = c->stride[d],
                     .c_n = c->stride[d + 1] };
    batch_dims(g, a, b, c);
    if (!g->m || !g->n || !g->batches)
        return false;
    plain_strides(g);
    maybe_swap(g);
    plain_strides(g);
    g->plain = g->c_n == 1 && (g->out_dtype == WF_F32 || bytes_of(g->dtype) > 2);
    return true;
}

/* Below this much work a second thread costs more than it brings. */
#define PARALLEL_FLOPS 4e6
#define PARALLEL_BYTES 1e6 /* for products that wait for memory */

static bool worth_splitting(const wfi_gemm *g)
{
    double flops = 2.0 * (double)g->m * (double)g->n * (double)g->k * (double)g->batches;
    double bytes = (double)g->k * (double)g->n * (double)bytes_of(g->dtype) * (double)(g->b_batch[0] ? g->batches : 1);
    return flops >= PARALLEL_FLOPS || (g->m <= 4 && bytes >= PARALLEL_BYTES);
}
/* mr, nr: the tile that parts are whole multiples of. pieces: parts of n for each thread, where they cost nothing: then
 * a thread that is held up leaves its share to the others. */
static void choose_parts(wfi_gemm *g, int threads, int64_t mr, int64_t nr, int64_t pieces)
{
    g->nr = nr;
    g->threads = 1, g->parts_m = g->parts_n = 1, g->chunks = 1;
    if (threads <= 1 || !worth_splitting(g))
        return;
    g->threads = threads;
    if (g->batches >= 4 * threads || g->batches % threads == 0) {
        g->chunks = min64(g->batches, 8 * (int64_t)threads);
        return;
    }
    /* columns by choice: each thread packs its own b; rows where there are not enough columns or many more rows */
    int64_t cols = ceil_div(g->n, nr), rows = ceil_div(g->m, mr);
    if (g->m <= 4 || (cols >= 2 * threads && g->m <= 4 * g->n))
        g->parts_n = min64(threads * pieces, max64(cols / 2, min64(threads, cols)));
    else
        g->parts_m = min64(threads, rows);
    g->chunks = g->batches * g->parts_m * g->parts_n;
    if (g->chunks == 1)
        g->threads = 1;
}

/* The largest part. */
static void part_size(const wfi_gemm *g, int64_t *m, int64_t *n)
{
    *m = ceil_div(g->m, g->parts_m);
    *n = min64(g->n, ceil_div(ceil_div(g->n, g->nr), g->parts_n) * g->nr);
}

/* The columns of part `part` of n: how many; *at: those before. */
static int64_t part_columns(const wfi_gemm *g, int64_t part, int64_t *at)
{
    const int64_t cols = ceil_div(g->n, g->nr);
    *at = cols * part / g->parts_n * g->nr;
    return min64(cols * (part + 1) / g->parts_n * g->nr, g->n) - *at;
}

/* Packed columns that are kept from run to run. */
typedef struct wfi_kept_b {
    char *room; /* NULL: none */
    wfi_gemm_keep_fn *fn;
} wfi_kept_b;

/* Where those of part `part` of n begin (part = parts_n: their whole size). */
static size_t kept_at(const wfi_gemm *g, wfi_gemm_keep_fn *fn, int64_t part)
{
    size_t at = 0;
    for (int64_t i = 0, skip; i < part; i++)
        at += (size_t)fn(g, NULL, part_columns(g, i, &skip), NULL);
    return at;
}

/* Part `part` of product `batch`. */
static inline void run_part(const wfi_gemm *g, wfi_gemm_part_fn *fn, void *const *args, wfi_kept_b kept, int64_t batch,
                            int64_t part, char *scratch)
{
    const int64_t in = bytes_of(g->dtype), out = bytes_of(g->out_dtype);
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
    if (kept.room)
        p.kept = kept.room + kept_at(g, kept.fn, g->parts_n > 1 ? part : 0);
    if (g->parts_n > 1) {
        int64_t at;
        p.n = part_columns(g, part, &at);
        p.b += at * g->b_n * in;
        p.c += at * g->c_n * out;
    }
    if (p.m > 0 && p.n > 0)
        fn(g, &p);
}

typedef struct job {
    const wfi_gemm *g;
    wfi_gemm_part_fn *fn;
    void *const *args;
    wfi_kept_b kept;
    char *scratch;
} job;
static void chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const wfi_gemm *g = j->g;
    char *scratch = j->scratch + worker * g->each;
    int64_t parts = g->parts_m * g->parts_n;
    if (parts > 1) {
        run_part(g, j->fn, j->args, j->kept, number / parts, number % parts, scratch);
        return;
    }
    int64_t from = g->batches * number / g->chunks, to = g->batches * (number + 1) / g->chunks;
    for (int64_t batch = from; batch < to; batch++)
        run_part(g, j->fn, j->args, j->kept, batch, 0, scratch);
}
static inline void run_all(const wfi_gemm *g, wfi_gemm_part_fn *fn, void *const *args, wfi_kept_b kept,
                           const wfi_run *r)
{
    if (g->batches == 1 && g->chunks == 1) {
        run_part(g, fn, args, kept, 0, 0, r->scratch);
        return;
    }
    job j = { g, fn, args, kept, r->scratch };
    /* a pool larger than prepare was told has workers without scratch */
    wfi_pool *pool = g->threads > 1 && wfi_pool_threads(r->pool) <= g->threads ? r->pool : NULL;
    wfi_pool_run(pool, g->chunks, chunk, &j);
}

#endif
