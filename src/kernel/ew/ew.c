/* ew.c - from views to runs of contiguous elements: rows as they are, tiles on the stack for what is strided, chunks
 * for the pool. */
#include <string.h>
#include "kernel/ew/ew.h"
#include "kernel/ew/stream.h"
#include "kernel/isa.h"

extern wfi_ew_fn *const WFI_K(wfi_ew_fns)[WFI_ROWOF_COUNT][WF_DTYPE_COUNT];

enum {
    TILE = 256,        /* elements that are gathered at a time */
    SHORT_ROW = 32,    /* rows shorter than this are gathered into tiles */
    SMALL = 4096,      /* elements of one row that are done at once */
    SERIAL = 32768,    /* elements that one thread does alone */
    CHUNK = 16384,     /* elements that a worker claims, at least */
    STREAM_TILE = 4096 /* bytes between a function and streaming stores */
};

static const wfi_ew_about rows[WFI_ROWOF_COUNT] = {
#define FLOAT                                    0
#define NUM                                      0
#define BOOL                                     0
#define ALL                                      0
#define COND                                     1
#define WFI_EW(name, arity, class, to_bool, ...) { #name, arity, to_bool, class },
#include "ew_rows.inc"
#undef WFI_EW
};

/* ---- prepare ---- */

static const char *check(int row, const wfi_view *y, const wfi_view *in)
{
    if ((unsigned)row >= WFI_ROWOF_COUNT)
        return "no such row";
    wf_dtype t = in[rows[row].arity - 1].dtype;
    if ((unsigned)t >= WF_DTYPE_COUNT || !WFI_K(wfi_ew_fns)[row][t])
        return "the row does not have this type";
    if (y->dtype != (rows[row].to_bool ? WF_BOOL : t))
        return "the result has another type";
    for (int k = 0; k < rows[row].arity; k++) {
        if (in[k].dtype != (rows[row].cond && k == 0 ? WF_BOOL : t))
            return "the operands differ in type";
        if (in[k].ndim != y->ndim || memcmp(in[k].dim, y->dim, (size_t)y->ndim * sizeof *y->dim) != 0)
            return "an operand is not of the result's shape";
    }
    if (wfi_walk_overlaps(y))
        return "the result overlaps itself";
    return NULL;
}

static void classify(wfi_ew *p)
{
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    int in = w->ndim - 1;
    p->rows = true;
    for (int k = 0; k < w->lanes; k++) {
        bool single = k > 0 && lane[k].stride[in] == 0 && w->dim[in] > 1;
        p->splat |= single ? 1u << (k - 1) : 0u;
        p->flat |= wfi_lane_flat(w, &lane[k]) || (k > 0 && wfi_lane_still(w, &lane[k])) ? 1u << k : 0u;
        p->rows = p->rows && (single || lane[k].stride[in] == lane[k].bytes);
    }
    if (w->ndim > 1 && w->dim[in] < SHORT_ROW)
        p->rows = false;
    p->small = p->rows && w->ndim == 1 && w->n <= SMALL;
}

/* Rows that compute for longer than their stores take: those overlap by themselves. */
static bool heavy(int row)
{
    return row >= WFI_ROWOF_exp && row <= WFI_ROWOF_cos && row != WFI_ROWOF_relu && row != WFI_ROWOF_step;
}

static const char *prepare(int row, const wfi_view *y, const wfi_view *in, void *params, size_t *scratch)
{
    _Static_assert(sizeof(wfi_ew) <= WFI_PARAMS_MAX, "params too large");
    const char *why = check(row, y, in);
    if (why)
        return why;
    int arity = rows[row].arity;
    const wfi_view *v[4] = { y, in, arity > 1 ? in + 1 : in, arity > 2 ? in + 2 : in };
    wfi_ew p = { .fn = WFI_K(wfi_ew_fns)[row][in[arity - 1].dtype] };
    p.walk = wfi_walk_of(v, arity + 1, p.lane);
    classify(&p);
    int64_t moved = 0, written = p.walk.n * p.lane[0].bytes;
    for (int k = 0; k <= arity; k++)
        moved += k > 0 && p.splat >> (k - 1) & 1u ? 0 : p.walk.n * p.lane[k].bytes;
    p.streams = !heavy(row) && written >= WFI_STREAM_RESULT && moved >= WFI_STREAM_ALL;
    memcpy(params, &p, sizeof p);
    *scratch = 0;
    return NULL;
}

/* ---- run ---- */

typedef struct ew_job {
    const wfi_ew *p;
    char *base[4]; /* where the walk of each operand starts */
    int64_t each;  /* elements of a chunk */
} ew_job;

/* x: the result, then the operands, NULL for those that the row does not have */
static void call(const wfi_ew *p, char *const *x, int64_t n, unsigned splat)
{
    p->fn(x[0], x[1], x[2], x[3], n, splat);
}

/* A long run by way of a tile, from which the results go past the caches. */
static void call_streaming(const wfi_ew *p, char *const *x, int64_t n)
{
    _Alignas(64) char tile[STREAM_TILE];
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    int64_t step = STREAM_TILE / lane[0].bytes;
    for (int64_t i = 0; i < n; i += step) {
        int64_t m = n - i < step ? n - i : step;
        char *part[4] = { tile };
        for (int k = 1; k < w->lanes; k++)
            part[k] = x[k] + (p->splat >> (k - 1) & 1u ? 0 : i * lane[k].bytes);
        call(p, part, m, p->splat);
        wfi_stream_out(x[0] + i * lane[0].bytes, tile, m * lane[0].bytes);
    }
    wfi_stream_end();
}

/* In place there is nothing to gain: the line of the result has been read. */
static bool may_stream(const wfi_ew *p, char *const *x, int64_t n)
{
    return p->streams && n * p->lane[0].bytes >= STREAM_TILE && wfi_stream_aligned(x[0]) && x[0] != x[1] &&
           x[0] != x[2] && x[0] != x[3];
}

static void run_rows(const ew_job *j, int64_t lo, int64_t hi)
{
    const wfi_walk *w = &j->p->walk;
    int64_t at[WF_RANK_MAX], width = w->dim[w->ndim - 1];
    wfi_walk_locate(w, lo, at);
    while (lo < hi) {
        char *x[4] = { NULL };
        int64_t m = width - at[w->ndim - 1];
        m = m < hi - lo ? m : hi - lo;
        for (int k = 0; k < w->lanes; k++)
            x[k] = wfi_walk_address(w, j->base[k], &j->p->lane[k], at);
        if (may_stream(j->p, x, m))
            call_streaming(j->p, x, m);
        else
            call(j->p, x, m, j->p->splat);
        lo += m;
        wfi_walk_next_row(w, at);
    }
}

/* What is not contiguous goes through tiles, in and out. */
static void run_tiles(const ew_job *j, int64_t lo, int64_t hi)
{
    const wfi_walk *w = &j->p->walk;
    const wfi_lane *lane = j->p->lane;
    _Alignas(64) char tile[4][TILE * 8];
    for (; lo < hi; lo += TILE) {
        int64_t m = hi - lo < TILE ? hi - lo : TILE, at[WF_RANK_MAX] = { 0 };
        char *x[4] = { NULL };
        unsigned splat = 0;
        wfi_walk_locate(w, lo, at);
        for (int k = 0; k < w->lanes; k++) {
            bool flat = j->p->flat >> k & 1u, single = flat && k > 0 && lane[k].stride[w->ndim - 1] == 0;
            splat |= single ? 1u << (k - 1) : 0u;
            x[k] = single ? j->base[k] : flat ? j->base[k] + lo * lane[k].bytes : tile[k];
            if (k > 0 && !flat)
                wfi_walk_gather(w, j->base[k], &lane[k], tile[k], at, m, true);
        }
        call(j->p, x, m, splat);
        if (x[0] == tile[0])
            wfi_walk_gather(w, j->base[0], &lane[0], tile[0], at, m, false);
    }
}

static void chunk(void *arg, int64_t i, int worker)
{
    const ew_job *j = arg;
    int64_t lo = i * j->each, hi = lo + j->each < j->p->walk.n ? lo + j->each : j->p->walk.n;
    (void)worker;
    if (j->p->rows)
        run_rows(j, lo, hi);
    else
        run_tiles(j, lo, hi);
}

static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_ew *p = params;
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    if (w->n == 0)
        return;
    if (p->small) {
        p->fn((char *)args[0] + lane[0].start, (char *)args[1] + lane[1].start,
              w->lanes > 2 ? (char *)args[2] + lane[2].start : NULL,
              w->lanes > 3 ? (char *)args[3] + lane[3].start : NULL, w->n, p->splat);
        return;
    }
    ew_job j = { .p = p, .each = w->n };
    for (int k = 0; k < w->lanes; k++)
        j.base[k] = (char *)args[k] + lane[k].start;
    int threads = wfi_pool_threads(r->pool);
    if (w->n < SERIAL || threads == 1) {
        chunk(&j, 0, 0);
        return;
    }
    int64_t share = w->n / (threads * 4);
    j.each = (share < CHUNK ? CHUNK : share + 1023) & ~(int64_t)1023;
    wfi_pool_run(r->pool, (w->n + j.each - 1) / j.each, chunk, &j);
}

const wfi_ew_kernels WFI_K(wfi_ew) = { prepare, run, WFI_K(wfi_ew_fns), rows };
