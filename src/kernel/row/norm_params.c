/* The gradients of gamma and beta of a layer norm: sums over rows, in the order of fold.h by row number.
 *
 * First the moments of every row, then tiles of columns with 32 lanes for each column. */
#include "kernel/row/row.h"
#include "kernel/reduce/lines.h"

const char *WFI_K(wfi_norm_params_prepare)(const wfi_row_spec *s, void *params, size_t *scratch);
wfi_kernel_fn WFI_K(wfi_norm_params_run);

enum { TILE = 256, OP_X = 0, OP_DY = 1, SLOT_DGAMMA = 0, SLOT_DBETA = 1, SLOT_X = 2, SLOT_DY = 3 };

typedef struct params {
    wfi_row_kind kind; /* first, as in row.c */
    nest rows;         /* operands: x, dy */
    int64_t nrows, n, pitch, part_room, blocks, tiles;
    int64_t step[4]; /* bytes along the axis, by slot */
    double eps;
    wf_dtype type[4];
    compute as;
    int32_t threads;
    bool wanted[2];
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

typedef struct job {
    const params *p;
    char *const *args;
    char *moments, *part, *workers;
    size_t worker_bytes;
    int64_t items, per;
} job;

#define FT    float
#define FI    int32_t
#define FN(x) x##_f32
#include "kernel/reduce/fold.h"
#include "kernel/row/row_math.h"
#include "kernel/row/norm_math.h"
#include "kernel/row/norm_params_kernels.h"
#undef FT
#undef FI
#undef FN
#define FT    double
#define FI    int64_t
#define FN(x) x##_f64
#include "kernel/reduce/fold.h"
#include "kernel/row/row_math.h"
#include "kernel/row/norm_math.h"
#include "kernel/row/norm_params_kernels.h"
#undef FT
#undef FI
#undef FN

/* ---- prepare ---- */

static const char *check(const wfi_row_spec *s)
{
    const char *why;
    const wfi_view *x = s->v[SLOT_X], *dy = s->v[SLOT_DY];
    if ((why = view_fault(x)) || (why = view_fault(dy))) {
        return why;
    }
    if (s->axis < 0 || s->axis >= x->ndim || !same_dims(x, dy)) {
        return "the axis or the sizes do not fit";
    }
    for (int i = 0; i < 4; i++) {
        const wfi_view *v = s->v[i];
        if (v && (!is_float(v->dtype) || (v->dtype == WF_F64) != (x->dtype == WF_F64))) {
            return "only floats have this operator, and f64 is not mixed with narrower types";
        }
        if (i < SLOT_X && v && (v->ndim != 1 || v->dim[0] != x->dim[s->axis])) {
            return "gamma and beta must have the length of the axis";
        }
    }
    return NULL;
}

static size_t worker_bytes(const params *p)
{
    size_t es = p->as == AS_F32 ? 4 : 8;
    return (2 * LANES + 3) * TILE * es + (size_t)p->pitch * es + 2 * round64((size_t)p->part_room * es);
}

const char *WFI_K(wfi_norm_params_prepare)(const wfi_row_spec *s, void *out, size_t *scratch)
{
    const char *why = check(s);
    if (why) {
        return why;
    }
    const wfi_view *x = s->v[SLOT_X], *ops[NEST_OPS] = { x, s->v[SLOT_DY] };
    params p;
    memset(&p, 0, sizeof p);
    p.kind = s->kind, p.eps = s->eps, p.as = compute_of(x->dtype), p.threads = s->threads > 0 ? s->threads : 1;
    p.n = x->dim[s->axis], p.nrows = 1;
    p.pitch = (p.n + LANES - 1) / LANES * LANES;
    p.part_room = (p.n + BLOCK - 1) / BLOCK + 1;
    for (int i = 0; i < 4; i++) {
        if (s->v[i]) {
            p.type[i] = s->v[i]->dtype;
            p.step[i] = bytes_of(p.type[i]) * s->v[i]->stride[i < SLOT_X ? 0 : s->axis];
        }
    }
    p.wanted[0] = s->v[SLOT_DGAMMA], p.wanted[1] = s->v[SLOT_DBETA];
    for (int d = 0; d < x->ndim; d++) {
        if (d != s->axis) {
            nest_push(&p.rows, x->dim[d], ops, (int[NEST_OPS]){ d, d });
            p.nrows *= x->dim[d];
        }
    }
    nest_close(&p.rows);
    p.blocks = p.nrows > 0 ? (p.nrows + BLOCK - 1) / BLOCK : 1;
    p.tiles = (p.n + TILE - 1) / TILE;
    *scratch = round64((size_t)p.nrows * sizeof(moments_f64)) + round64(2 * (size_t)(p.n * p.blocks) * 8) +
               (size_t)p.threads * worker_bytes(&p);
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

static void moments_chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    char *desk = j->workers + (size_t)worker * j->worker_bytes;
    int64_t first = number * j->per, end = least(j->items, first + j->per);
    if (j->p->as == AS_F32) {
        moments_rows_f32(j, desk, first, end);
    } else {
        moments_rows_f64(j, desk, first, end);
    }
}

static void tile_chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    char *desk = j->workers + (size_t)worker * j->worker_bytes;
    int64_t end = least(j->items, (number + 1) * j->per);
    for (int64_t i = number * j->per; i < end; i++) {
        if (j->p->as == AS_F32) {
            tile_block_f32(j, desk, i / j->p->blocks, i % j->p->blocks);
        } else {
            tile_block_f64(j, desk, i / j->p->blocks, i % j->p->blocks);
        }
    }
}

static void share(job *j, const wfi_run *r, int64_t items, int64_t each, wfi_chunk_fn *fn)
{
    j->items = items;
    j->per = items_a_chunk(items, each, j->p->threads);
    wfi_pool_run(pool_for(r, j->p->threads), (items + j->per - 1) / j->per, fn, j);
}

void WFI_K(wfi_norm_params_run)(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    char *addresses[4] = { p->wanted[0] ? args[0] : NULL, p->wanted[1] ? args[1] : NULL, args[2], args[3] };
    job j = { .p = p, .args = addresses, .moments = r->scratch, .worker_bytes = worker_bytes(p) };
    j.part = j.moments + round64((size_t)p->nrows * sizeof(moments_f64));
    j.workers = j.part + round64(2 * (size_t)(p->n * p->blocks) * 8);
    if (p->wanted[0]) {
        share(&j, r, p->nrows, p->n, moments_chunk);
    }
    share(&j, r, p->tiles * p->blocks, TILE * least(BLOCK, p->nrows), tile_chunk);
    for (int which = 0; which < 2 && p->n; which++) {
        if (p->wanted[which]) {
            char *sums = p->as == AS_F32 ? columns_of_f32(&j, which) : columns_of_f64(&j, which);
            store_line(p->as, addresses[which], sums, p->type[which], p->n, p->step[which]);
        }
    }
}
