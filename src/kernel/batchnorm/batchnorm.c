/* batchnorm.c - checks, parameters and the sharing of work; batchnorm_rows.h computes.
 *
 * Three passes, each over blocks of rows and tiles of channels: sums of every block, sums of every channel (these small
 * vectors: hi, scale, shift), and the results. */
#include "kernel/batchnorm/batchnorm.h"
#include "kernel/reduce/lines.h"

enum { ROWS = 128, GROUP = 4, TILE = 128, OP_X = 0, OP_DY = 1, OP_OUT = 2, OPS = 3 };
enum { OUT = 0, X = 3, TRAIN_GAMMA = 4, TRAIN_BETA = 5, DY = 4, GRAD_MEAN = 5, GRAD_VAR = 6, GRAD_GAMMA = 7 };

typedef struct params {
    wfi_batchnorm_kind kind;
    int32_t threads;
    compute as;
    nest rows; /* operands: x, dy, the result */
    int64_t nrows, n, blocks, tiles;
    int64_t step[WFI_BATCHNORM_SLOTS];  /* bytes from channel to channel */
    wf_dtype type[WFI_BATCHNORM_SLOTS]; /* NONE: not given */
    double eps;
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

typedef struct job {
    const params *p;
    void *const *args;
    double *part;         /* [blocks][2][n]: what each block says about each channel */
    char *coef, *workers; /* coef: FT[3][n] */
    int64_t items, per;
} job;

/* Lines that a worker needs beside the rows: zeros, means, two sums. */
enum { LINES = 4 };

static size_t worker_bytes(const params *p)
{
    size_t es = p->as == AS_F32 ? 4 : 8;
    return (3 * ROWS + LINES) * TILE * es;
}

/* Channels c0 .. c0 + w of block b, rows r0 .. r0 + n. */
typedef struct piece {
    int64_t b, r0, n, c0, w;
} piece;

static piece piece_of(const params *p, int64_t item)
{
    piece q = { .b = item / p->tiles, .c0 = item % p->tiles * TILE };
    q.r0 = q.b * ROWS;
    q.n = least(ROWS, p->nrows - q.r0);
    q.w = least(TILE, p->n - q.c0);
    return q;
}

#define FT    float
#define FN(x) x##_f32
#define FMA   WFI_FMAF
#include "kernel/batchnorm/batchnorm_rows.h"
#undef FT
#undef FN
#undef FMA
#define FT    double
#define FN(x) x##_f64
#define FMA   WFI_FMA
#include "kernel/batchnorm/batchnorm_rows.h"
#undef FT
#undef FN
#undef FMA

/* ---- prepare ---- */

static const char *check_rows(const wfi_view *x, const wfi_view *v)
{
    const char *why = view_fault(v);
    if (why) {
        return why;
    }
    return same_dims(x, v) && v->dtype == x->dtype ? NULL : "operands with rows differ in type or sizes";
}

static const char *check(const wfi_batchnorm_spec *s)
{
    const wfi_view *x = s->v[X];
    const char *why = view_fault(x);
    if (why || (why = check_rows(x, s->v[OUT])) || (s->kind == WFI_BATCHNORM_GRAD && (why = check_rows(x, s->v[DY])))) {
        return why;
    }
    if (!is_float(x->dtype) || x->ndim < 2) {
        return "batch norm is computed for floats of two axes or more";
    }
    wf_dtype wide = x->dtype == WF_F64 ? WF_F64 : WF_F32;
    for (int i = 0; i < WFI_BATCHNORM_SLOTS; i++) {
        bool stat = s->kind == WFI_BATCHNORM_TRAIN ? i == 1 || i == 2 : i == GRAD_MEAN || i == GRAD_VAR;
        bool rows = i == OUT || i == X || (s->kind == WFI_BATCHNORM_GRAD && i == DY);
        const wfi_view *v = s->v[i];
        if (rows || (!v && !stat)) {
            continue;
        }
        if (!v || v->ndim != 1 || v->dim[0] != x->dim[1] || v->dtype != (stat ? wide : x->dtype)) {
            return "a vector of the channels has another type or length";
        }
    }
    return NULL;
}

static size_t part_bytes(const params *p)
{
    return round64((size_t)p->blocks * 2 * (size_t)p->n * sizeof(double));
}
static size_t coef_bytes(const params *p)
{
    return round64(3 * (size_t)p->n * sizeof(double));
}

static const char *prepare(const wfi_batchnorm_spec *s, void *out, size_t *scratch)
{
    const char *why = check(s);
    if (why) {
        return why;
    }
    const wfi_view *x = s->v[X], *ops[NEST_OPS] = { x, s->kind == WFI_BATCHNORM_GRAD ? s->v[DY] : NULL, s->v[OUT] };
    params p;
    memset(&p, 0, sizeof p);
    p.kind = s->kind, p.eps = s->eps, p.as = compute_of(x->dtype), p.threads = s->threads > 0 ? s->threads : 1;
    p.n = x->dim[1], p.nrows = 1;
    for (int i = 0; i < WFI_BATCHNORM_SLOTS; i++) {
        const wfi_view *v = s->v[i];
        p.type[i] = v ? v->dtype : WF_DTYPE_NONE;
        p.step[i] = v ? bytes_of(v->dtype) * v->stride[v->ndim > 1] : 0;
    }
    for (int d = 0; d < x->ndim; d++) {
        if (d != 1) {
            nest_push(&p.rows, x->dim[d], ops, (int[NEST_OPS]){ d, d, d, d });
            p.nrows *= x->dim[d];
        }
    }
    nest_close(&p.rows);
    p.blocks = (p.nrows + ROWS - 1) / ROWS;
    p.tiles = (p.n + TILE - 1) / TILE;
    *scratch = part_bytes(&p) + coef_bytes(&p) + (size_t)p.threads * worker_bytes(&p);
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

static void sums_chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    char *desk = j->workers + (size_t)worker * worker_bytes(j->p);
    for (int64_t i = number * j->per, end = least(j->items, i + j->per); i < end; i++) {
        piece q = piece_of(j->p, i);
        if (j->p->as == AS_F32) {
            block_sums_f32(j, &q, desk);
        } else {
            block_sums_f64(j, &q, desk);
        }
    }
}

static void join_chunk(void *arg, int64_t tile, int worker)
{
    const job *j = arg;
    (void)worker;
    if (j->p->as == AS_F32) {
        join_f32(j, tile * TILE, least(TILE, j->p->n - tile * TILE));
    } else {
        join_f64(j, tile * TILE, least(TILE, j->p->n - tile * TILE));
    }
}

static void result_chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    char *desk = j->workers + (size_t)worker * worker_bytes(j->p);
    for (int64_t i = number * j->per, end = least(j->items, i + j->per); i < end; i++) {
        piece q = piece_of(j->p, i);
        if (j->p->as == AS_F32) {
            block_result_f32(j, &q, desk);
        } else {
            block_result_f64(j, &q, desk);
        }
    }
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    job j = { .p = p, .args = args, .part = r->scratch, .items = p->tiles * p->blocks };
    j.coef = (char *)r->scratch + part_bytes(p);
    j.workers = j.coef + coef_bytes(p);
    j.per = items_a_chunk(j.items, ROWS * least(TILE, p->n), p->threads);
    wfi_pool *pool = pool_for(r, p->threads);
    int64_t chunks = (j.items + j.per - 1) / j.per;
    wfi_pool_run(pool, chunks, sums_chunk, &j);
    wfi_pool_run(p->nrows * p->n > 65536 ? pool : NULL, p->tiles, join_chunk, &j);
    wfi_pool_run(pool, chunks, result_chunk, &j);
}

const wfi_batchnorm_kernels WFI_K(wfi_batchnorm) = { prepare, run };
