/* oneDNN as a peer of bench/run.py: products of plain row-major matrices, and the convolution with both gradients.
 *
 * A convolution runs in every layout: the one that oneDNN likes best ("blocked"), channels last and channels first;
 * only in the first are inputs and weights given in its own order beforehand. Results are allocated once. */
#include "../harness.h"

#include <dnnl.h>
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, CHANNELS = 64, SIDE = 56, KERNEL = 3, MAX_STEPS = 4, MAX_ARGS = 4 };

typedef struct step {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[MAX_ARGS];
    int nargs;
} step;

/* What a case runs: some primitives, one after the other. Memory and descriptors live as long as the process. */
typedef struct program {
    step steps[MAX_STEPS];
    int nsteps, threads;
    float *a, *b, *c; /* for dnnl_sgemm */
    int n;
} program;

static dnnl_engine_t engine;
static dnnl_stream_t stream;
static bool broken; /* a call failed while the program was made */

static void need(dnnl_status_t s, const char *what)
{
    char words[64];
    if (s == dnnl_success || broken)
        return;
    broken = true;
    snprintf(words, sizeof words, "%s: dnnl_status %d", what, (int)s);
    bench_fail(words);
}

static program *new_program(int threads)
{
    broken = false;
    program *p = (program *)calloc(1, sizeof *p);
    if (p)
        p->threads = threads;
    omp_set_num_threads(threads);
    return p;
}

static void run(void *state)
{
    program *p = (program *)state;
    omp_set_num_threads(p->threads);
    for (int i = 0; i < p->nsteps; i++)
        dnnl_primitive_execute(p->steps[i].primitive, stream, p->steps[i].nargs, p->steps[i].args);
    dnnl_stream_wait(stream);
}

static void sgemm(void *state)
{
    const program *p = (const program *)state;
    omp_set_num_threads(p->threads);
    dnnl_sgemm('N', 'N', p->n, p->n, p->n, 1.0f, p->a, p->n, p->b, p->n, 0.0f, p->c, p->n);
}

static dnnl_memory_desc_t describe(int ndims, const dnnl_dim_t *dims, dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t d;
    memset(&d, 0, sizeof d);
    need(dnnl_memory_desc_init_by_tag(&d, ndims, dims, type, tag), "memory descriptor");
    return d;
}

/* Memory with small values in it: for 16-bit types the upper halves of floats. */
static dnnl_memory_t memory(const dnnl_memory_desc_t *d)
{
    dnnl_memory_t m = NULL;
    size_t bytes = dnnl_memory_desc_get_size(d), n = bytes / 4 + 1;
    float *data = bench_floats(n);
    if (d->data_type == dnnl_bf16 && data) {
        unsigned *u = (unsigned *)(void *)data;
        for (size_t i = 0; i < n; i++)
            u[i] = (u[i] & 0xffff0000u) | u[i] >> 16;
    }
    need(data ? dnnl_memory_create(&m, d, engine, data) : dnnl_out_of_memory, "memory");
    return m;
}

static dnnl_primitive_desc_t primitive_desc(const void *op, const_dnnl_primitive_desc_t hint)
{
    dnnl_primitive_desc_t pd = NULL;
    if (!broken)
        need(dnnl_primitive_desc_create(&pd, op, NULL, engine, hint), "primitive descriptor");
    return pd;
}

static const dnnl_memory_desc_t *wanted(const_dnnl_primitive_desc_t pd, dnnl_query_t what)
{
    return dnnl_primitive_desc_query_md(pd, what, 0);
}

static step *add_step(program *p, const_dnnl_primitive_desc_t pd)
{
    step *s = &p->steps[p->nsteps++];
    need(dnnl_primitive_create(&s->primitive, pd), "primitive");
    return s;
}

static void arg(step *s, int index, dnnl_memory_t m)
{
    s->args[s->nargs++] = (dnnl_exec_arg_t){ .arg = index, .memory = m };
}

/* c->arg: n. Both operands and the result plain row-major. */
static void *make_matmul(const bench_case *c, int threads)
{
    program *p = new_program(threads);
    bool row = !strncmp(c->work, "gemv", 4);
    dnnl_data_type_t type = strcmp(c->dtype, "bf16") ? dnnl_f32 : dnnl_bf16;
    dnnl_dim_t a[2] = { row ? 1 : c->arg, c->arg }, b[2] = { c->arg, c->arg };
    dnnl_memory_desc_t ad = describe(2, a, type, dnnl_ab), bd = describe(2, b, type, dnnl_ab);
    dnnl_matmul_desc_t op;
    need(dnnl_matmul_desc_init(&op, &ad, &bd, NULL, &ad), "matmul");
    dnnl_primitive_desc_t pd = primitive_desc(&op, NULL);
    if (!p || broken)
        return NULL;
    step *s = add_step(p, pd);
    arg(s, DNNL_ARG_SRC, memory(&ad));
    arg(s, DNNL_ARG_WEIGHTS, memory(&bd));
    arg(s, DNNL_ARG_DST, memory(&ad));
    return broken ? NULL : p;
}

static void *make_sgemm(const bench_case *c, int threads)
{
    program *p = new_program(threads);
    size_t n = (size_t)c->arg;
    if (!p)
        return NULL;
    p->n = c->arg;
    p->a = bench_floats(n * n);
    p->b = bench_floats(n * n);
    p->c = bench_floats(n * n);
    return p->a && p->b && p->c ? p : NULL;
}

/* The three memories of a convolution in the order of the forward pass. */
typedef struct tensors {
    dnnl_memory_t src, weights, dst;
    dnnl_memory_desc_t ws; /* the layout of the weights forward */
} tensors;

static const dnnl_dim_t SRC[4] = { BATCH, CHANNELS, SIDE, SIDE }, WEIGHTS[4] = { CHANNELS, CHANNELS, KERNEL, KERNEL };
static const dnnl_dims_t ONE = { 1, 1 }; /* stride, and padding on each side */

static dnnl_primitive_desc_t forward(program *p, dnnl_format_tag_t tag, dnnl_prop_kind_t kind, tensors *t)
{
    dnnl_memory_desc_t x = describe(4, SRC, dnnl_f32, tag), w = describe(4, WEIGHTS, dnnl_f32, dnnl_format_tag_any);
    dnnl_convolution_desc_t op;
    need(dnnl_convolution_forward_desc_init(&op, kind, dnnl_convolution_direct, &x, &w, NULL, &x, ONE, ONE, ONE),
         "convolution");
    dnnl_primitive_desc_t pd = primitive_desc(&op, NULL);
    if (broken)
        return NULL;
    t->src = memory(wanted(pd, dnnl_query_src_md));
    t->weights = memory(wanted(pd, dnnl_query_weights_md));
    t->dst = memory(wanted(pd, dnnl_query_dst_md));
    t->ws = *wanted(pd, dnnl_query_weights_md);
    step *s = add_step(p, pd);
    arg(s, DNNL_ARG_SRC, t->src);
    arg(s, DNNL_ARG_WEIGHTS, t->weights);
    arg(s, DNNL_ARG_DST, t->dst);
    return pd;
}

/* The weights in another layout: a step of its own where that layout differs, as training would have to do it. */
static dnnl_memory_t relaid(program *p, const tensors *t, const dnnl_memory_desc_t *to)
{
    dnnl_primitive_desc_t pd = NULL;
    if (dnnl_memory_desc_equal(&t->ws, to))
        return t->weights;
    dnnl_memory_t m = memory(to);
    need(dnnl_reorder_primitive_desc_create(&pd, &t->ws, engine, to, engine, NULL), "reorder");
    if (broken)
        return m;
    step *s = add_step(p, pd);
    arg(s, DNNL_ARG_FROM, t->weights);
    arg(s, DNNL_ARG_TO, m);
    return m;
}

/* Gradients of input and weights; the cotangent lies as the result of the forward pass does. */
static void backward(program *p, const_dnnl_primitive_desc_t fwd, const tensors *t)
{
    dnnl_memory_desc_t x = *wanted(fwd, dnnl_query_src_md), y = *wanted(fwd, dnnl_query_dst_md);
    dnnl_memory_desc_t w = describe(4, WEIGHTS, dnnl_f32, dnnl_format_tag_any);
    dnnl_convolution_desc_t dop, wop;
    need(dnnl_convolution_backward_data_desc_init(&dop, dnnl_convolution_direct, &x, &w, &y, ONE, ONE, ONE), "data");
    need(dnnl_convolution_backward_weights_desc_init(&wop, dnnl_convolution_direct, &x, &w, NULL, &y, ONE, ONE, ONE),
         "weights");
    dnnl_primitive_desc_t dpd = primitive_desc(&dop, fwd), wpd = primitive_desc(&wop, fwd);
    if (broken)
        return;
    dnnl_memory_t dy = memory(&y), weights = relaid(p, t, wanted(dpd, dnnl_query_weights_md));
    if (broken)
        return;
    step *s = add_step(p, dpd);
    arg(s, DNNL_ARG_DIFF_DST, dy);
    arg(s, DNNL_ARG_WEIGHTS, weights);
    arg(s, DNNL_ARG_DIFF_SRC, memory(wanted(dpd, dnnl_query_diff_src_md)));
    s = add_step(p, wpd);
    arg(s, DNNL_ARG_SRC, t->src);
    arg(s, DNNL_ARG_DIFF_DST, dy);
    arg(s, DNNL_ARG_DIFF_WEIGHTS, memory(wanted(wpd, dnnl_query_diff_weights_md)));
}

/* c->arg: the format tag of input and result. */
static void *make_conv(const bench_case *c, int threads)
{
    program *p = new_program(threads);
    bool train = !strcmp(c->work, "conv_fwdbwd");
    tensors t;
    if (!p)
        return NULL;
    dnnl_primitive_desc_t fwd =
        forward(p, (dnnl_format_tag_t)c->arg, train ? dnnl_forward_training : dnnl_forward_inference, &t);
    if (!broken && train)
        backward(p, fwd, &t);
    return broken ? NULL : p;
}

#define CONV_FLOPS (2.0 * BATCH * CHANNELS * CHANNELS * KERNEL * KERNEL * SIDE * SIDE)
#define MATMUL(N, type)                                                                                                \
    .work = "gemm_" #N, .mode = "matmul", .dtype = type, .make = make_matmul, .run = run, .arg = N,                    \
    .flops = 2.0 * N * N * N
#define SGEMM(N)                                                                                                       \
    .work = "gemm_" #N, .mode = "sgemm", .dtype = "f32", .make = make_sgemm, .run = sgemm, .arg = N,                   \
    .flops = 2.0 * N * N * N
#define CONV(name, layout, tag, times)                                                                                 \
    .work = name, .mode = layout, .dtype = "f32", .make = make_conv, .run = run, .arg = tag, .flops = CONV_FLOPS * times

static const bench_case cases[] = {
    { MATMUL(8, "f32") },
    { SGEMM(8) },
    { MATMUL(512, "f32") },
    { SGEMM(512) },
    { MATMUL(1024, "f32") },
    { SGEMM(1024) },
    { MATMUL(2048, "f32") },
    { SGEMM(2048) },
    { MATMUL(512, "bf16") },
    { MATMUL(1024, "bf16") },
    { MATMUL(2048, "bf16") },
    { MATMUL(4096, "bf16") },
    { .work = "gemv_4096",
      .mode = "matmul",
      .dtype = "f32",
      .make = make_matmul,
      .run = run,
      .arg = 4096,
      .bytes = 4.0 * 4096 * 4096 },
    { CONV("conv_fwd", "blocked", dnnl_format_tag_any, 1) },
    { CONV("conv_fwd", "nhwc", dnnl_nhwc, 1) },
    { CONV("conv_fwd", "nchw", dnnl_nchw, 1) },
    { CONV("conv_fwdbwd", "blocked", dnnl_format_tag_any, 3) },
    { CONV("conv_fwdbwd", "nhwc", dnnl_nhwc, 3) },
    { CONV("conv_fwdbwd", "nchw", dnnl_nchw, 3) },
};

int main(void)
{
    char version[32];
    const dnnl_version_t *v = dnnl_version();
    snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
    if (dnnl_engine_create(&engine, dnnl_cpu, 0) || dnnl_stream_create(&stream, engine, dnnl_stream_default_flags))
        return 1;
    return bench_serve("onednn", version, cases, sizeof cases / sizeof *cases);
}
