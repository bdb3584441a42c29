/* The gradient of max and min over any axes: dx = x == y ? dy / count : 0, count the ties of each group.
 *
 * Two walks over a group: count the ties (exactly, in i64), then write. Without a sum there is no order to keep. */
#include "kernel/reduce/lines.h"

const char *WFI_K(wfi_maxgrad_prepare)(const wfi_view *dx, const wfi_view *x, uint32_t axes, const wfi_view *y,
                                       const wfi_view *dy, int threads, void *params, size_t *scratch);
wfi_kernel_fn WFI_K(wfi_maxgrad_run);

enum { PIECE = 256, OP_DX = 0, OP_X = 1, OP_Y = 2, OP_DY = 3 };

typedef struct params {
    nest kept; /* operands: dx, x, y, dy */
    nest red;  /* operands: dx, x */
    int64_t outputs, count;
    int64_t inner, tile, tiles; /* as in reduce.c */
    compute as;
    wf_dtype type[NEST_OPS];
    int32_t threads;
    bool columns;
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

/* ---- prepare ---- */

static int axis_in(const wfi_view *x, uint32_t axes, const wfi_view *v, int d)
{
    bool keep = v->ndim == x->ndim;
    int at = 0;
    for (int i = 0; i < d; i++) {
        at += keep || !(axes >> i & 1);
    }
    return axes >> d & 1 ? -1 : at;
}

static const char *check(const wfi_view *const v[NEST_OPS], uint32_t axes)
{
    const wfi_view *x = v[OP_X];
    for (int k = 0; k < NEST_OPS; k++) {
        const char *why = view_fault(v[k]);
        if (why) {
            return why;
        }
        if (!is_float(v[k]->dtype) || (v[k]->dtype == WF_F64) != (x->dtype == WF_F64)) {
            return "only floats have gradients, and f64 is not mixed with narrower ones";
        }
    }
    if (!same_dims(v[OP_DX], x)) {
        return "the sizes of the gradient do not fit";
    }
    for (int k = OP_Y; k < NEST_OPS; k++) {
        for (int d = 0; d < x->ndim; d++) {
            int at = axis_in(x, axes, v[k], d);
            if (at >= v[k]->ndim || (at >= 0 && v[k]->dim[at] != x->dim[d])) {
                return "the sizes of the result do not fit";
            }
        }
    }
    return NULL;
}

const char *WFI_K(wfi_maxgrad_prepare)(const wfi_view *dx, const wfi_view *x, uint32_t axes, const wfi_view *y,
                                       const wfi_view *dy, int threads, void *out, size_t *scratch)
{
    const wfi_view *v[NEST_OPS] = { dx, x, y, dy };
    const char *why = check(v, axes);
    if (why) {
        return why;
    }
    params p;
    memset(&p, 0, sizeof p);
    p.as = compute_of(x->dtype), p.threads = threads > 0 ? threads : 1;
    p.outputs = p.count = 1;
    for (int k = 0; k < NEST_OPS; k++) {
        p.type[k] = v[k]->dtype;
    }
    for (int d = 0; d < x->ndim; d++) {
        bool gone = axes >> d & 1;
        nest_push(gone ? &p.red : &p.kept, x->dim[d], v,
                  (int[NEST_OPS]){ d, d, axis_in(x, axes, y, d), axis_in(x, axes, dy, d) });
        *(gone ? &p.count : &p.outputs) *= x->dim[d];
    }
    nest_sort(&p.kept, OP_X);
    nest_sort(&p.red, OP_X);
    nest_close(&p.kept);
    nest_close(&p.red);
    int64_t last = p.kept.nd - 1;
    p.columns = nest_step(&p.red, OP_X) != bytes_of(x->dtype) && p.kept.step[OP_X][last] == bytes_of(x->dtype);
    p.inner = p.columns ? p.kept.dim[last] : 1;
    p.tile = p.columns ? least(p.inner, PIECE) : 1;
    p.tiles = p.inner ? (p.inner + p.tile - 1) / p.tile : 0;
    *scratch = (size_t)p.threads * 5 * PIECE * 8;
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    char *const *args;
    char *scratch;
    int64_t items, per;
} job;

/* Scratch of one worker: PIECE elements each. */
typedef struct desk {
    char *x, *y, *share, *dx;
    int64_t *ties;
} desk;

/* Lines of n elements of x; y and share move by `step` elements (0: one group). */
#define TYPED(S, T)                                                                                                    \
    static void count_##S(int64_t *restrict ties, const T *restrict x, const T *restrict y, int64_t n)                 \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            ties[i] += (x[i] == y[i]) | ((x[i] != x[i]) & (y[i] != y[i]));                                             \
        }                                                                                                              \
    }                                                                                                                  \
    static int64_t count_line_##S(const T *x, T y, int64_t n)                                                          \
    {                                                                                                                  \
        int64_t ties = 0;                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            ties += (x[i] == y) | ((x[i] != x[i]) & (y != y));                                                         \
        }                                                                                                              \
        return ties;                                                                                                   \
    }                                                                                                                  \
    static void divide_##S(T *restrict share, const int64_t *restrict ties, int64_t n)                                 \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            share[i] = share[i] / (T)ties[i];                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void write_##S(T *restrict dx, const T *restrict x, const T *restrict y, const T *restrict share,           \
                          int64_t step, int64_t n)                                                                     \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T m = y[i * step], g = share[i * step];                                                                    \
            dx[i] = (x[i] == m) | ((x[i] != x[i]) & (m != m)) ? g : 0;                                                 \
        }                                                                                                              \
    }
TYPED(f32, float)
TYPED(f64, double)

static void count_ties(const params *p, desk *d, int64_t n)
{
    if (p->as == AS_F32) {
        if (p->columns) {
            count_f32(d->ties, (float *)(void *)d->x, (float *)(void *)d->y, n);
        } else {
            d->ties[0] += count_line_f32((float *)(void *)d->x, *(float *)(void *)d->y, n);
        }
    } else if (p->columns) {
        count_f64(d->ties, (double *)(void *)d->x, (double *)(void *)d->y, n);
    } else {
        d->ties[0] += count_line_f64((double *)(void *)d->x, *(double *)(void *)d->y, n);
    }
}

static void write_line(const params *p, desk *d, int64_t n)
{
    if (p->as == AS_F32) {
        write_f32((float *)(void *)d->dx, (float *)(void *)d->x, (float *)(void *)d->y, (float *)(void *)d->share,
                  p->columns, n);
    } else {
        write_f64((double *)(void *)d->dx, (double *)(void *)d->x, (double *)(void *)d->y, (double *)(void *)d->share,
                  p->columns, n);
    }
}

/* One walk over the group(s) of a tile: count, or write. */
static void walk(const job *j, desk *d, const cursor *at, int64_t w, bool write)
{
    const params *p = j->p;
    const nest *in = p->columns ? &p->kept : &p->red;
    cursor c;
    nest_at(&p->red, 0, &c);
    for (int64_t r = 0; r < p->count;) {
        int64_t by = p->columns ? 1 : least(PIECE, nest_left(&p->red, &c)), n = p->columns ? w : by;
        load_line(p->as, d->x, j->args[OP_X] + at->off[OP_X] + c.off[OP_X], p->type[OP_X], n, nest_step(in, OP_X));
        if (write) {
            write_line(p, d, n);
            store_line(p->as, j->args[OP_DX] + at->off[OP_DX] + c.off[OP_DX], d->dx, p->type[OP_DX], n,
                       nest_step(in, OP_DX));
        } else {
            count_ties(p, d, n);
        }
        r += by;
        nest_next(&p->red, &c, by);
    }
}

static void item(const job *j, desk *d, int64_t i)
{
    const params *p = j->p;
    int64_t first = i / p->tiles * p->inner + i % p->tiles * p->tile;
    int64_t w = least(p->tile, p->inner - i % p->tiles * p->tile);
    cursor at;
    nest_at(&p->kept, first, &at);
    load_line(p->as, d->y, j->args[OP_Y] + at.off[OP_Y], p->type[OP_Y], w, nest_step(&p->kept, OP_Y));
    load_line(p->as, d->share, j->args[OP_DY] + at.off[OP_DY], p->type[OP_DY], w, nest_step(&p->kept, OP_DY));
    memset(d->ties, 0, (size_t)w * sizeof d->ties[0]);
    walk(j, d, &at, w, false);
    if (p->as == AS_F32) {
        divide_f32((float *)(void *)d->share, d->ties, w);
    } else {
        divide_f64((double *)(void *)d->share, d->ties, w);
    }
    walk(j, d, &at, w, true);
}

static void chunk(void *arg, int64_t c, int worker)
{
    const job *j = arg;
    char *s = j->scratch + (size_t)worker * 5 * PIECE * 8;
    desk d = { s, s + PIECE * 8, s + 2 * PIECE * 8, s + 3 * PIECE * 8, (int64_t *)(void *)(s + 4 * PIECE * 8) };
    int64_t end = least(j->items, (c + 1) * j->per);
    for (int64_t i = c * j->per; i < end; i++) {
        item(j, &d, i);
    }
}

void WFI_K(wfi_maxgrad_run)(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    if (p->outputs == 0 || p->count == 0) {
        return;
    }
    char *addresses[NEST_OPS] = { args[0], args[1], args[2], args[3] };
    job j = { p, addresses, r->scratch, p->outputs / p->inner * p->tiles, 1 };
    j.per = items_a_chunk(j.items, p->count * p->tile, p->threads);
    wfi_pool_run(pool_for(r, p->threads), (j.items + j.per - 1) / j.per, chunk, &j);
}
