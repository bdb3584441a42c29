/* OpenBLAS as a peer of bench/run.py: f32 products of plain row-major matrices. The result is allocated once, which is
 * in its favour. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "../harness.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct product {
    int m, n; /* a: f32[m,n], b: f32[n,n], c: f32[m,n] */
    float *a, *b, *c;
    int threads;
} product;

static void drop(void *state)
{
    product *p = (product *)state;
    free(p->a);
    free(p->b);
    free(p->c);
    free(p);
}

/* c->arg: n; a product of one row where the work is gemv. */
static void *make(const bench_case *c, int threads)
{
    product *p = (product *)calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->n = c->arg;
    p->m = strncmp(c->work, "gemv", 4) ? c->arg : 1;
    p->threads = threads;
    p->a = bench_floats((size_t)p->m * (size_t)p->n);
    p->b = bench_floats((size_t)p->n * (size_t)p->n);
    p->c = bench_floats((size_t)p->m * (size_t)p->n);
    if (p->a && p->b && p->c)
        return p;
    drop(p);
    return NULL;
}

static void sgemm(void *state)
{
    const product *p = (const product *)state;
    if (openblas_get_num_threads() != p->threads)
        openblas_set_num_threads(p->threads);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->m, p->n, p->n, 1.0f, p->a, p->n, p->b, p->n, 0.0f, p->c,
                p->n);
}

/* The same for one row as a product of a matrix and a vector, which OpenBLAS has its own kernels for. */
static void sgemv(void *state)
{
    const product *p = (const product *)state;
    if (openblas_get_num_threads() != p->threads)
        openblas_set_num_threads(p->threads);
    cblas_sgemv(CblasRowMajor, CblasTrans, p->n, p->n, 1.0f, p->b, p->n, p->a, 1, 0.0f, p->c, 1);
}

#define SQUARE(N)                                                                                                      \
    .work = "gemm_" #N, .mode = "sgemm", .dtype = "f32", .make = make, .run = sgemm, .drop = drop, .arg = N,           \
    .flops = 2.0 * N * N * N
static const bench_case cases[] = {
    { SQUARE(8) },
    { SQUARE(512) },
    { SQUARE(1024) },
    { SQUARE(2048) },
    { .work = "gemv_4096",
      .mode = "sgemm",
      .dtype = "f32",
      .make = make,
      .run = sgemm,
      .drop = drop,
      .arg = 4096,
      .bytes = 4.0 * 4096 * 4096 },
    { .work = "gemv_4096",
      .mode = "sgemv",
      .dtype = "f32",
      .make = make,
      .run = sgemv,
      .drop = drop,
      .arg = 4096,
      .bytes = 4.0 * 4096 * 4096 },
};

/* A CPU that is younger than the library is taken for a Prescott of 2004: then the kernels of the nearest relative are
 * asked for, by starting once more with the variable that chooses them. */
static void use_best_kernels(char **argv)
{
    const char *core = openblas_get_corename();
    if (getenv("OPENBLAS_CORETYPE") || (strcmp(core, "Prescott") && strcmp(core, "Generic")))
        return;
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        setenv("OPENBLAS_CORETYPE", "Haswell", 1);
    else
        return;
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    (void)argc;
    use_best_kernels(argv);
    return bench_serve("openblas", openblas_get_config(), cases, sizeof cases / sizeof *cases);
}
