/* copy.c - copies and casts between any two layouts. The walk (ew/walk.h) makes most copies runs or rows; transposes go
 * through square tiles; the rest element by element, casts by way of tiles of 256. */
#include <string.h>
#include "kernel/copy/cast.h"
#include "kernel/copy/copy.h"
#include "kernel/copy/copy_parts.h"
#include "kernel/copy/transpose.h"
#include "kernel/ew/stream.h"
#include "kernel/isa.h"

enum { MODE_ROWS = 1, MODE_SPREAD = 2, MODE_TRANSPOSE = 3, MODE_STEPS = 4, MODE_CAST = 5 };
enum {
    SERIAL_BYTES = 1 << 17, /* that one thread does alone */
    CHUNK_BYTES = 1 << 16,  /* that a worker claims, at least */
    STREAM_ROW = 4096       /* bytes of a run from which on it may go past the caches */
};

/* ---- prepare ---- */

/* The dimension other than the innermost in which x is contiguous, if both are long enough for tiles; else -1. */
static int across(const wfi_walk *w, const wfi_lane *lane)
{
    int in = w->ndim - 1;
    if (lane[0].stride[in] != lane[0].bytes || lane[1].stride[in] == 0 || w->dim[in] < 4)
        return -1;
    for (int d = 0; d < in; d++) {
        if (lane[1].stride[d] == lane[1].bytes && w->dim[d] >= 4)
            return d;
    }
    return -1;
}

static int32_t mode_of(wfi_copy *p)
{
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    int in = w->ndim - 1;
    bool dense = lane[0].stride[in] == lane[0].bytes;
    p->across = -1;
    if (p->to != p->from)
        return MODE_CAST;
    if (dense && lane[1].stride[in] == 0 && w->dim[in] > 1)
        return MODE_SPREAD;
    if (dense && lane[1].stride[in] == lane[1].bytes)
        return MODE_ROWS;
    p->across = across(w, lane);
    return p->across >= 0 ? MODE_TRANSPOSE : MODE_STEPS;
}

static const char *prepare(const wfi_view *x, const wfi_view *y, int threads, void *params, size_t *scratch)
{
    _Static_assert(sizeof(wfi_copy) <= WFI_PARAMS_MAX && sizeof(wfi_pad) <= WFI_PARAMS_MAX, "params too large");
    (void)threads;
    if (wf_dtype_bytes(x->dtype) == 0 || wf_dtype_bytes(y->dtype) == 0)
        return "no such type";
    if (x->ndim != y->ndim || memcmp(x->dim, y->dim, (size_t)y->ndim * sizeof *y->dim) != 0)
        return "the shapes differ";
    if (wfi_walk_overlaps(y))
        return "the result overlaps itself";
    wfi_copy p = { .to = y->dtype, .from = x->dtype };
    p.walk = wfi_walk_of((const wfi_view *[]){ y, x }, 2, p.lane);
    p.mode = mode_of(&p);
    p.streams = p.walk.n * p.lane[0].bytes >= WFI_STREAM_RESULT &&
                p.walk.n * (p.lane[0].bytes + p.lane[1].bytes) >= WFI_STREAM_ALL;
    memcpy(params, &p, sizeof p);
    *scratch = 0;
    return NULL;
}

/* ---- run ---- */

typedef struct copy_job {
    const wfi_copy *p;
    char *y, *x;  /* where the walks start */
    int64_t each; /* elements of a chunk; blocks, for a transpose */
} copy_job;

static void spread(char *y, const char *x, int64_t n, int bytes)
{
    _Alignas(64) char block[64];
    for (int i = 0; i < 64; i += bytes)
        memcpy(block + i, x, (size_t)bytes);
    int64_t total = n * bytes, i = 0;
    for (; i + 64 <= total; i += 64)
        memcpy(y + i, block, 64);
    memcpy(y + i, block, (size_t)(total - i));
}

/* A run of bytes, by vectors: short ones must not cost a call. */
static void copy_run(const wfi_copy *p, char *y, const char *x, int64_t bytes)
{
    if (p->streams && bytes >= STREAM_ROW && wfi_stream_aligned(y)) {
        wfi_stream_out(y, x, bytes);
        wfi_stream_end();
    } else if (bytes < 64) {
        for (; bytes >= 8; bytes -= 8, y += 8, x += 8)
            memcpy(y, x, 8);
        for (; bytes > 0; bytes--)
            *y++ = *x++;
    } else {
        memcpy(y, x, (size_t)bytes);
    }
}

static void cast_row(const wfi_copy *p, char *y, const char *x, int64_t n)
{
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    int in = w->ndim - 1;
    _Alignas(64) char from[CAST_TILE * 8], to[CAST_TILE * 8];
    int64_t sy = lane[0].stride[in], sx = lane[1].stride[in];
    bool plain_y = sy == lane[0].bytes || w->dim[in] == 1, plain_x = sx == lane[1].bytes || w->dim[in] == 1;
    for (int64_t i = 0; i < n; i += CAST_TILE) {
        int64_t m = n - i < CAST_TILE ? n - i : CAST_TILE;
        const char *xi = x + i * sx;
        if (!plain_x) {
            wfi_walk_move(from, lane[1].bytes, xi, sx, m, lane[1].bytes);
            xi = from;
        }
        cast_run(p->to, plain_y ? y + i * sy : to, p->from, xi, m);
        if (!plain_y)
            wfi_walk_move(y + i * sy, sy, to, lane[0].bytes, m, lane[0].bytes);
    }
}

static void row(const wfi_copy *p, char *y, const char *x, int64_t n)
{
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    int in = w->ndim - 1;
    switch (p->mode) {
    case MODE_ROWS: copy_run(p, y, x, n * lane[0].bytes); break;
    case MODE_SPREAD: spread(y, x, n, lane[0].bytes); break;
    case MODE_CAST: cast_row(p, y, x, n); break;
    default: wfi_walk_move(y, lane[0].stride[in], x, lane[1].stride[in], n, lane[0].bytes);
    }
}

static void rows(void *arg, int64_t i, int worker)
{
    const copy_job *j = arg;
    const wfi_walk *w = &j->p->walk;
    int64_t lo = i * j->each, hi = lo + j->each < w->n ? lo + j->each : w->n;
    int64_t at[WF_RANK_MAX], width = w->dim[w->ndim - 1];
    (void)worker;
    wfi_walk_locate(w, lo, at);
    while (lo < hi) {
        int64_t m = width - at[w->ndim - 1];
        m = m < hi - lo ? m : hi - lo;
        row(j->p, wfi_walk_address(w, j->y, &j->p->lane[0], at), wfi_walk_address(w, j->x, &j->p->lane[1], at), m);
        lo += m;
        wfi_walk_next_row(w, at);
    }
}

/* Short rows of casts: gathered over several rows, so that a tile is full. */
static void cast_tiles(void *arg, int64_t i, int worker)
{
    const copy_job *j = arg;
    const wfi_walk *w = &j->p->walk;
    _Alignas(64) char from[CAST_TILE * 8], to[CAST_TILE * 8];
    int64_t lo = i * j->each, hi = lo + j->each < w->n ? lo + j->each : w->n;
    (void)worker;
    for (; lo < hi; lo += CAST_TILE) {
        int64_t m = hi - lo < CAST_TILE ? hi - lo : CAST_TILE, at[WF_RANK_MAX] = { 0 };
        wfi_walk_locate(w, lo, at);
        wfi_walk_gather(w, j->x, &j->p->lane[1], from, at, m, true);
        cast_run(j->p->to, to, j->p->from, from, m);
        wfi_walk_gather(w, j->y, &j->p->lane[0], to, at, m, false);
    }
}

/* ---- transposes: blocks of SIDE x SIDE in the plane of the two contiguous dimensions ---- */

enum { SIDE = 64 };

static int64_t blocks(int64_t n)
{
    return (n + SIDE - 1) / SIDE;
}

static int64_t transpose_blocks(const wfi_copy *p)
{
    const wfi_walk *w = &p->walk;
    int in = w->ndim - 1;
    return w->n / (w->dim[in] * w->dim[p->across]) * blocks(w->dim[in]) * blocks(w->dim[p->across]);
}

static void transposes(void *arg, int64_t i, int worker)
{
    const copy_job *j = arg;
    const wfi_walk *w = &j->p->walk;
    const wfi_lane *lane = j->p->lane;
    int in = w->ndim - 1, ac = j->p->across;
    int64_t all = transpose_blocks(j->p), hi = (i + 1) * j->each < all ? (i + 1) * j->each : all;
    (void)worker;
    for (int64_t b = i * j->each; b < hi; b++) {
        int64_t at[WF_RANK_MAX] = { 0 }, rest = b;
        at[ac] = rest % blocks(w->dim[ac]) * SIDE;
        rest /= blocks(w->dim[ac]);
        at[in] = rest % blocks(w->dim[in]) * SIDE;
        rest /= blocks(w->dim[in]);
        for (int d = in - 1; d >= 0; d--) {
            if (d != ac) {
                at[d] = rest % w->dim[d];
                rest /= w->dim[d];
            }
        }
        int64_t h = w->dim[ac] - at[ac] < SIDE ? w->dim[ac] - at[ac] : SIDE;
        int64_t v = w->dim[in] - at[in] < SIDE ? w->dim[in] - at[in] : SIDE;
        transpose_block(wfi_walk_address(w, j->y, &j->p->lane[0], at), lane[0].stride[ac],
                        wfi_walk_address(w, j->x, &j->p->lane[1], at), lane[1].stride[in], h, v, lane[0].bytes);
    }
}

static void share(const copy_job *job, int64_t items, int64_t least, wfi_chunk_fn *fn, const wfi_run *r)
{
    copy_job j = *job;
    int threads = wfi_pool_threads(r->pool);
    if (threads == 1 || j.p->walk.n * j.p->lane[0].bytes < SERIAL_BYTES) {
        j.each = items;
        fn(&j, 0, 0);
        return;
    }
    int64_t each = items / (threads * 4);
    j.each = each < least ? least : (each + 63) & ~(int64_t)63;
    wfi_pool_run(r->pool, (items + j.each - 1) / j.each, fn, &j);
}

void WFI_K(wfi_copy_run)(const wfi_copy *p, void *y, const void *x, const wfi_run *r)
{
    const wfi_walk *w = &p->walk;
    const wfi_lane *lane = p->lane;
    if (w->n == 0)
        return;
    union {
        const void *in;
        char *out; /* the walk of x is read only */
    } from = { p->fills ? p->value : x };
    copy_job j = { .p = p, .y = (char *)y + lane[0].start + p->shift, .x = from.out + lane[1].start };
    int in = w->ndim - 1;
    if (p->mode == MODE_TRANSPOSE)
        share(&j, transpose_blocks(p), 16, transposes, r);
    else if (p->mode == MODE_CAST && w->ndim > 1 && w->dim[in] < 64)
        share(&j, w->n, CHUNK_BYTES / 8, cast_tiles, r);
    else
        share(&j, w->n, CHUNK_BYTES / lane[0].bytes, rows, r);
}

static void run(const void *params, void *const *args, const wfi_run *r)
{
    WFI_K(wfi_copy_run)(params, args[0], args[1], r);
}

/* ---- fill, pad, concat ---- */

static const char *fill_prepare(const wfi_view *y, const void *value, void *params, size_t *scratch)
{
    wfi_view x = *y;
    memset(x.stride, 0, sizeof x.stride);
    const char *why = prepare(&x, y, 1, params, scratch);
    if (why)
        return why;
    wfi_copy *p = params;
    p->fills = true;
    memcpy(p->value, value, wf_dtype_bytes(y->dtype));
    return NULL;
}

static void fill_run(const void *params, void *const *args, const wfi_run *r)
{
    WFI_K(wfi_copy_run)(params, args[0], NULL, r);
}

static const char *pad_prepare(const wfi_view *x, const wfi_view *y, const int64_t *low, const void *value,
                               void *params, size_t *scratch)
{
    wfi_pad p = { .outside = false };
    wfi_view from = *x, to = *y;
    int64_t shift = 0, bytes = (int64_t)wf_dtype_bytes(y->dtype);
    if (x->ndim != y->ndim || x->dtype != y->dtype)
        return "x and y differ in rank or type";
    for (int d = 0; d < y->ndim; d++) {
        int64_t lo = low[d] > 0 ? low[d] : 0, end = low[d] + x->dim[d] < y->dim[d] ? low[d] + x->dim[d] : y->dim[d];
        from.dim[d] = to.dim[d] = end > lo ? end - lo : 0;
        p.skip += (lo - low[d]) * x->stride[d] * bytes;
        shift += lo * y->stride[d] * bytes;
        p.outside = p.outside || to.dim[d] < y->dim[d];
    }
    const char *why = fill_prepare(y, value, &p.fill, scratch);
    if (!why)
        why = prepare(&from, &to, 1, &p.inner, scratch);
    if (why)
        return why;
    if (p.inner.walk.n == 0)
        p.skip = shift = 0;
    p.inner.shift = shift;
    memcpy(params, &p, sizeof p);
    return NULL;
}

static void pad_run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_pad *p = params;
    if (p->outside)
        WFI_K(wfi_copy_run)(&p->fill, args[0], NULL, r);
    WFI_K(wfi_copy_run)(&p->inner, args[0], (const char *)args[1] + p->skip, r);
}

static bool row_major(const wfi_view *v)
{
    int64_t s = 1;
    for (int d = v->ndim - 1; d >= 0; d--) {
        if (v->dim[d] > 1 && v->stride[d] != s)
            return false;
        s *= v->dim[d];
    }
    return true;
}

static const char *concat_prepare(const wfi_view *const *x, int count, int axis, const wfi_view *y, void *params,
                                  size_t *scratch)
{
    wfi_concat p = { .count = count, .outer = 1 };
    if (count < 1 || count > WFI_CONCAT_MAX)
        return "too many operands";
    int64_t after = (int64_t)wf_dtype_bytes(y->dtype);
    for (int d = 0; d < y->ndim; d++) {
        p.outer *= d < axis ? y->dim[d] : 1;
        after *= d > axis ? y->dim[d] : 1;
    }
    p.row_bytes = after * y->dim[axis];
    for (int k = 0; k < count; k++) {
        if (x[k]->dtype != y->dtype || !row_major(x[k]) || !row_major(y))
            return "an operand is not row-major";
        p.part_bytes[k] = after * x[k]->dim[axis];
    }
    memcpy(params, &p, sizeof p);
    *scratch = 0;
    return NULL;
}

typedef struct concat_job {
    const wfi_concat *p;
    void *const *args;
    int64_t each; /* rows of a chunk */
} concat_job;

static void concat_rows(void *arg, int64_t i, int worker)
{
    const concat_job *j = arg;
    int64_t lo = i * j->each, hi = lo + j->each < j->p->outer ? lo + j->each : j->p->outer;
    char *y = (char *)j->args[0] + lo * j->p->row_bytes;
    (void)worker;
    for (; lo < hi; lo++) {
        for (int k = 0; k < j->p->count; k++) {
            int64_t m = j->p->part_bytes[k];
            if (m > 0)
                memcpy(y, (const char *)j->args[k + 1] + lo * m, (size_t)m);
            y += m;
        }
    }
}

static void concat_run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_concat *p = params;
    int threads = wfi_pool_threads(r->pool);
    concat_job j = { .p = p, .args = args, .each = p->outer };
    if (p->outer == 0 || p->row_bytes == 0)
        return;
    if (threads > 1 && p->outer * p->row_bytes >= SERIAL_BYTES)
        j.each = (p->outer + threads * 4 - 1) / (threads * 4);
    wfi_pool_run(r->pool, (p->outer + j.each - 1) / j.each, concat_rows, &j);
}

void WFI_K(wfi_copy_cast)(wf_dtype to, void *y, wf_dtype from, const void *x, int64_t n)
{
    const int64_t by = (int64_t)wf_dtype_bytes(to), bx = (int64_t)wf_dtype_bytes(from);
    if (to == from) {
        memmove(y, x, (size_t)(n * by));
        return;
    }
    for (int64_t i = 0; i < n; i += CAST_TILE)
        cast_run(to, (char *)y + i * by, from, (const char *)x + i * bx, n - i < CAST_TILE ? n - i : CAST_TILE);
}

const wfi_copy_kernels WFI_K(wfi_copy) = {
    .prepare = prepare,
    .run = run,
    .fill_prepare = fill_prepare,
    .fill_run = fill_run,
    .pad_prepare = pad_prepare,
    .pad_run = pad_run,
    .concat_prepare = concat_prepare,
    .concat_run = concat_run,
    .iota_prepare = WFI_K(wfi_iota_prepare),
    .iota_run = WFI_K(wfi_iota_run),
    .random_prepare = WFI_K(wfi_random_prepare),
    .random_run = WFI_K(wfi_random_run),
    .philox = WFI_K(wfi_random_block),
};
