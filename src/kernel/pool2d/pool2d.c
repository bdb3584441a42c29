#include "kernel/pool2d/pool2d.h"
#include <string.h>
#include "base/dtype.h"
#include "kernel/isa.h"

typedef struct pool {
    wfi_pool2d_attrs at;
    int64_t n, c, h, w, oh, ow;
    int64_t x_n, x_c, x_h, x_w, y_n, y_c, y_h, y_w, d_n, d_c, d_h, d_w; /* strides: of x, of y or dy, of dx */
    int64_t chunks;
    int32_t type;
    bool side; /* channels lie side by side in all operands */
} pool;

typedef struct job {
    const pool *p;
    const void *x;
    void *y, *dx;
} job;

#define T        float
#define A        float
#define I        int32_t
#define LOAD(v)  (v)
#define STORE(v) (v)
#define NAME(x)  x##_f32
#include "kernel/pool2d/pool2d_type.h"
#define T        double
#define A        double
#define I        int64_t
#define LOAD(v)  (v)
#define STORE(v) (v)
#define NAME(x)  x##_f64
#include "kernel/pool2d/pool2d_type.h"
#define T        uint16_t
#define A        float
#define I        int32_t
#define LOAD(v)  wfi_bf16_to_f32(v)
#define STORE(v) wfi_f32_to_bf16(v)
#define NAME(x)  x##_bf16
#include "kernel/pool2d/pool2d_type.h"
#define T        uint16_t
#define A        float
#define I        int32_t
#define LOAD(v)  wfi_f16_to_f32(v)
#define STORE(v) wfi_f32_to_f16(v)
#define NAME(x)  x##_f16
#include "kernel/pool2d/pool2d_type.h"

typedef void chunk_fn(const job *j, int64_t chunk);
static chunk_fn *const forward_fn[] = { forward_f32, forward_f64, forward_bf16, forward_f16 };
static chunk_fn *const backward_fn[] = { backward_f32, backward_f64, backward_bf16, backward_f16 };

static chunk_fn *const pick_fn[] = { pick_f32, pick_f64, pick_bf16, pick_f16 };

static int type_of(wf_dtype t)
{
    return t == WF_F32 ? 0 : t == WF_F64 ? 1 : t == WF_BF16 ? 2 : t == WF_F16 ? 3 : -1;
}

static const char *prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *y, pool *p)
{
    if (x->ndim != 4 || y->ndim != 4)
        return "images have four axes";
    if (type_of(x->dtype) < 0 || y->dtype != x->dtype)
        return "only floats are pooled";
    *p = (pool){ .at = *at, .n = x->dim[0], .c = x->dim[1], .h = x->dim[2], .w = x->dim[3], .oh = y->dim[2],
                 .ow = y->dim[3], .x_n = x->stride[0], .x_c = x->stride[1], .x_h = x->stride[2], .x_w = x->stride[3],
                 .y_n = y->stride[0], .y_c = y->stride[1], .y_h = y->stride[2], .y_w = y->stride[3],
                 .type = type_of(x->dtype) };
    p->side = p->c > 1 && p->x_c == 1 && p->y_c == 1;
    p->chunks = p->n * p->oh;
    return NULL;
}

static const char *max_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *y, void *params,
                               size_t *params_bytes, size_t *scratch)
{
    *params_bytes = sizeof(pool);
    *scratch = 0;
    return prepare(at, x, y, params);
}

static const char *max_grad_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *dy,
                                    const wfi_view *dx, void *params, size_t *params_bytes, size_t *scratch)
{
    pool *p = params;
    *params_bytes = sizeof *p;
    *scratch = 0;
    const char *why = prepare(at, x, dy, p);
    if (why)
        return why;
    p->d_n = dx->stride[0], p->d_c = dx->stride[1], p->d_h = dx->stride[2], p->d_w = dx->stride[3];
    bool narrow = p->type >= 2; /* must be rounded once: element by element where windows overlap */
    bool apart = at->stride_h >= (at->kernel_h - 1) * at->dilation_h + 1 &&
                 at->stride_w >= (at->kernel_w - 1) * at->dilation_w + 1;
    p->side = p->side && p->d_c == 1 && (!narrow || apart);
    p->chunks = p->n * (p->side ? (p->c + block_f32 - 1) / block_f32 : p->c);
    return NULL;
}

static const char *max_pick_prepare(const wfi_pool2d_attrs *at, const wfi_view *x, const wfi_view *g,
                                    const wfi_view *y, void *params, size_t *params_bytes, size_t *scratch)
{
    pool *p = params;
    *params_bytes = sizeof *p;
    *scratch = 0;
    const char *why = prepare(at, x, y, p);
    p->d_n = g->stride[0], p->d_c = g->stride[1], p->d_h = g->stride[2], p->d_w = g->stride[3];
    return why;
}

/* Several chunks are one piece of work for the pool, so that claiming costs nothing. */
typedef struct batch_of {
    job j;
    chunk_fn *fn;
    int64_t each;
} batch_of;

static void piece(void *arg, int64_t chunk, int worker)
{
    const batch_of *b = arg;
    (void)worker;
    int64_t end = (chunk + 1) * b->each < b->j.p->chunks ? (chunk + 1) * b->each : b->j.p->chunks;
    for (int64_t i = chunk * b->each; i < end; i++)
        b->fn(&b->j, i);
}

static void run_all(const pool *p, const job *j, chunk_fn *fn, const wfi_run *run)
{
    int64_t work = p->c * p->h * p->w * p->n;
    int64_t pieces = work < 65536 ? 1 : p->chunks < 64 ? p->chunks : 64;
    if (!p->chunks)
        return;
    batch_of b = { *j, fn, (p->chunks + pieces - 1) / pieces };
    wfi_pool_run(run->pool, (p->chunks + b.each - 1) / b.each, piece, &b);
}

static void max_run(const void *params, void *const *args, const wfi_run *run)
{
    const pool *p = params;
    const job j = { p, args[1], args[0], NULL };
    run_all(p, &j, forward_fn[p->type], run);
}

static void max_grad_run(const void *params, void *const *args, const wfi_run *run)
{
    const pool *p = params;
    const job j = { p, args[1], args[2], args[0] };
    run_all(p, &j, backward_fn[p->type], run);
}

static void max_pick_run(const void *params, void *const *args, const wfi_run *run)
{
    const pool *p = params;
    const job j = { p, args[1], args[0], args[2] };
    run_all(p, &j, pick_fn[p->type], run);
}

const wfi_pool2d_kernels WFI_K(wfi_pool2d) = { max_prepare,      max_run,          max_grad_prepare,
                                               max_grad_run, max_pick_prepare, max_pick_run };
