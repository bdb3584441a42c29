/* Work by hand on Weft's own kernels. The MLP step: the same network, gradients and update as `mlp` of works_net.c, as
 * a list of calls that was prepared once; the value of the loss is asked for on neither side, so it is not computed.
 * And the one kernel of `rec_replay`, called as often as there. What Weft's steps cost beyond these is the price of the
 * framework.
 */
#include "weft_bench.h"

#include <stdlib.h>
#include <string.h>

#include "device/cpu/cpu.h"
#include "kernel/ew/ew.h"
#include "kernel/gemm/gemm.h"
#include "kernel/optim/optim.h"
#include "kernel/reduce/reduce.h"

enum { BATCH = 8, IN = 16, HIDDEN = 32, OUT = 4, MAX_CALLS = 48, SCRATCH = 1 << 20, FLOATS = 1 << 14 };

typedef struct call {
    wfi_kernel_fn *run;
    void *args[WFI_OPTIM_SLOTS];
    _Alignas(16) char params[WFI_PARAMS_MAX];
} call;

/* A matrix or a row (rows = 1) of floats; a transposed one shares its data. */
typedef struct mat {
    float *data;
    wfi_view view;
} mat;

typedef struct hand {
    wfi_cpu cpu;
    call calls[MAX_CALLS];
    int n;
    float *floats;
    size_t used;
    void *scratch;
    mat one;
    double rate[8];  /* the scalars of sgd: the rate and no more */
    const char *why; /* the first kernel that declined */
} hand;

static const wfi_view scalars = { .dtype = WF_F64, .ndim = 1, .dim = { 8 }, .stride = { 1 } };

static mat matrix(hand *h, int64_t rows, int64_t cols)
{
    mat m = { h->floats + h->used, { .dtype = WF_F32, .ndim = 2, .dim = { rows, cols }, .stride = { cols, 1 } } };
    h->used += (size_t)((rows * cols + 15) / 16 * 16);
    return m;
}

static mat transposed(mat m)
{
    wfi_view v = m.view;
    m.view.dim[0] = v.dim[1], m.view.dim[1] = v.dim[0];
    m.view.stride[0] = v.stride[1], m.view.stride[1] = v.stride[0];
    return m;
}

static mat like(mat m, mat shape)
{
    for (int i = 0; i < 2; i++)
        if (m.view.dim[i] != shape.view.dim[i])
            m.view.dim[i] = shape.view.dim[i], m.view.stride[i] = 0;
    return m;
}

static call *next(hand *h)
{
    return &h->calls[h->n < MAX_CALLS - 1 ? h->n++ : MAX_CALLS - 1];
}

static void declined(hand *h, const char *why, size_t scratch)
{
    if (!h->why)
        h->why = scratch > SCRATCH ? "too little scratch" : why;
}

static mat product(hand *h, mat a, mat b)
{
    mat y = matrix(h, a.view.dim[0], b.view.dim[1]);
    call *c = next(h);
    size_t scratch = 0;
    _Static_assert(sizeof(wfi_gemm) <= WFI_PARAMS_MAX, "parameters of a product fit");
    declined(h, h->cpu.gemm->prepare(&a.view, &b.view, &y.view, 1, (wfi_gemm *)(void *)c->params, &scratch), scratch);
    c->run = h->cpu.gemm->run;
    c->args[0] = y.data, c->args[1] = a.data, c->args[2] = b.data;
    return y;
}

/* y = row(a, b), b broadcast to a's shape; in place where y is a or b. */
static mat each(hand *h, wfi_ew_row row, mat y, mat a, mat b)
{
    wfi_view in[2] = { a.view, like(b, a).view };
    call *c = next(h);
    size_t scratch = 0;
    declined(h, h->cpu.ew->prepare(row, &y.view, in, c->params, &scratch), scratch);
    c->run = h->cpu.ew->run;
    c->args[0] = y.data, c->args[1] = a.data, c->args[2] = b.data;
    return y;
}

static mat column_sums(hand *h, mat x)
{
    mat y = matrix(h, 1, x.view.dim[1]);
    call *c = next(h);
    size_t scratch = 0;
    declined(h, h->cpu.reduce->prepare(WFI_REDUCE_SUM, &x.view, 1, &y.view, 1, c->params, &scratch), scratch);
    c->run = h->cpu.reduce->run;
    c->args[0] = y.data, c->args[1] = x.data;
    return y;
}

static mat number(hand *h, float value)
{
    mat m = matrix(h, 1, 1);
    m.data[0] = value;
    return m;
}

/* x W^T + b */
static mat linear(hand *h, mat x, mat w, mat b)
{
    mat y = product(h, x, transposed(w));
    return each(h, WFI_EW_add, y, y, b);
}

/* p - rate g */
static void update(hand *h, mat p, mat g)
{
    call *c = next(h);
    size_t scratch = 0;
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD, .threads = 1 };
    const wfi_view *v[WFI_OPTIM_SLOTS] = { &p.view, NULL, &p.view, NULL, &g.view, &h->one.view, &scalars };
    memcpy(s.v, v, sizeof v);
    declined(h, h->cpu.optim->prepare(&s, c->params, &scratch), scratch);
    c->run = h->cpu.optim->run;
    c->args[0] = c->args[1] = p.data, c->args[2] = g.data, c->args[3] = h->one.data, c->args[4] = h->rate;
}

/* Gradients of a linear layer and its update; returns the gradient of its input, which is not wanted at the first. */
static mat backward(hand *h, mat x, mat w, mat b, mat gy, bool first)
{
    mat gx = gy;
    if (!first)
        gx = product(h, gy, w);
    mat gw = product(h, transposed(gy), x), gb = column_sums(h, gy);
    update(h, w, gw);
    update(h, b, gb);
    return gx;
}

static void build(hand *h)
{
    mat x = matrix(h, BATCH, IN), target = matrix(h, BATCH, OUT);
    mat w1 = matrix(h, HIDDEN, IN), w2 = matrix(h, HIDDEN, HIDDEN), w3 = matrix(h, OUT, HIDDEN);
    mat b1 = matrix(h, 1, HIDDEN), b2 = matrix(h, 1, HIDDEN), b3 = matrix(h, 1, OUT);
    for (size_t i = 0; i < h->used; i++)
        h->floats[i] *= 0.2f;
    h->one = number(h, 1);
    h->rate[0] = 0.01;
    mat scale = number(h, 2.0f / (BATCH * OUT));

    mat z1 = linear(h, x, w1, b1), h1 = each(h, WFI_EW_relu, matrix(h, BATCH, HIDDEN), z1, z1);
    mat z2 = linear(h, h1, w2, b2), h2 = each(h, WFI_EW_relu, matrix(h, BATCH, HIDDEN), z2, z2);
    mat y = linear(h, h2, w3, b3), d = each(h, WFI_EW_sub, y, y, target);

    mat g = each(h, WFI_EW_mul, d, d, scale);
    g = backward(h, h2, w3, b3, g, false);
    g = backward(h, h1, w2, b2, each(h, WFI_EW_gate, g, g, h2), false);
    backward(h, x, w1, b1, each(h, WFI_EW_gate, g, g, h1), true);
}

static void drop(void *state)
{
    hand *h = (hand *)state;
    free(h->floats);
    free(h->scratch);
    free(h);
}

static void *make(const bench_case *c, int threads)
{
    hand *h = (hand *)calloc(1, sizeof *h);
    (void)c, (void)threads;
    if (!h)
        return NULL;
    wfi_cpu_choose(&h->cpu, wfi_isa_best());
    h->floats = bench_floats(FLOATS);
    h->scratch = aligned_alloc(64, SCRATCH);
    if (h->floats && h->scratch)
        build(h);
    if (!h->why && h->floats && h->scratch)
        return h;
    bench_fail(h->why ? h->why : "out of memory");
    drop(h);
    return NULL;
}

static void run(void *state)
{
    const hand *h = (const hand *)state;
    wfi_fault fault = { .set = 0 };
    wfi_run r = { .pool = NULL, .scratch = h->scratch, .fault = &fault };
    for (int i = 0; i < h->n; i++)
        h->calls[i].run(h->calls[i].params, h->calls[i].args, &r);
}

/* ---- the commands of rec_replay (works_record.c): one addition of one element, again and again ---- */

enum { COMMANDS = 1000 };

typedef struct adds {
    hand h;
    void *args[COMMANDS][3];
} adds;

static void *make_adds(const bench_case *c, int threads)
{
    adds *a = (adds *)calloc(1, sizeof *a);
    (void)c, (void)threads;
    if (!a)
        return NULL;
    wfi_cpu_choose(&a->h.cpu, wfi_isa_best());
    a->h.floats = bench_floats(FLOATS);
    if (a->h.floats) {
        mat x = matrix(&a->h, 1, 1), y = matrix(&a->h, 1, 1);
        (void)each(&a->h, WFI_EW_add, x, x, y);
        for (int i = 0; i < COMMANDS; i++)
            a->args[i][0] = a->args[i][1] = x.data, a->args[i][2] = y.data;
    }
    if (!a->h.why && a->h.floats)
        return a;
    bench_fail(a->h.why ? a->h.why : "out of memory");
    drop(a);
    return NULL;
}

static void run_adds(void *state)
{
    adds *a = (adds *)state;
    wfi_fault fault = { .set = 0 };
    wfi_run r = { .pool = NULL, .scratch = NULL, .fault = &fault };
    for (int i = 0; i < COMMANDS; i++)
        a->h.calls[0].run(a->h.calls[0].params, a->args[i], &r);
}

static const bench_case cases[] = {
    { .work = "rec_replay",
      .mode = "hand",
      .dtype = "f32",
      .make = make_adds,
      .run = run_adds,
      .drop = drop,
      .per = COMMANDS },
    { .work = "mlp", .mode = "hand", .dtype = "f32", .make = make, .run = run, .drop = drop },
};

const wfb_table wfb_hand = WFB_TABLE(cases);
