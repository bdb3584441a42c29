/* weft_bench.c - Weft's own worker in the benchmark, written against the public headers as a user would.
 *
 *     weft_bench              answers requests (harness.h) as peer "weft"
 *     weft_bench hand         as peer "hand": the MLP step by hand on Weft's kernels
 *     weft_bench import T     one addition, then one row: seconds since T on the monotonic clock
 *     weft_bench memory N [budget]
 *                             trains the GPT of memory_... on N threads, then one row with the memory that it added */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "weft_bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_CASES = 256, BUDGET_BYTES = 64 << 20 };

void *wfb_new(const bench_case *c, int threads, size_t bytes)
{
    wfb_base *b = (wfb_base *)calloc(1, bytes);
    if (!b)
        return NULL;
    b->c = wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts),
                                      .mode = strcmp(c->mode, "eager") ? WF_LAZY : WF_EAGER,
                                      .threads = threads,
                                      .memory_budget = strcmp(c->mode, "budget") ? 0 : BUDGET_BYTES,
                                      .seed = 1 });
    if (b->c)
        return b;
    free(b);
    return NULL;
}

void wfb_drop(void *state)
{
    wfb_base *b = (wfb_base *)state;
    wf_error(b->c); /* read, so that closing does not print it */
    (void)wf_ctx_close(b->c);
    free(b);
}

void *wfb_made(void *state)
{
    wfb_base *b = (wfb_base *)state;
    const char *error = wf_error(b->c);
    if (!error)
        return state;
    bench_fail(error);
    wfb_drop(state);
    return NULL;
}

void wfb_finish(wf_ctx *c, wf_scope s, wf_tensor *t)
{
    wf_retain(c, t);
    wf_scope_end(c, s);
    wf_release(c, t);
}

/* The upper half of a float, rounded to nearest even; no NaN comes here. */
static uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static size_t count(wf_dims dims)
{
    size_t n = 1;
    for (int32_t i = 0; i < dims.n; i++)
        n *= (size_t)dims.d[i];
    return n;
}

wf_tensor *wfb_random(wf_ctx *c, wf_dtype dtype, wf_dims dims, double scale)
{
    size_t n = count(dims);
    float *data = bench_floats(n);
    if (!data)
        return NULL;
    for (size_t i = 0; i < n; i++)
        data[i] *= (float)scale;
    uint16_t *half = (uint16_t *)(void *)data; /* in place: the halves never overtake the floats */
    for (size_t i = 0; dtype == WF_BF16 && i < n; i++) {
        uint16_t h = to_bf16(data[i]);
        memcpy(&half[i], &h, sizeof h);
    }
    wf_tensor *t = wf_tensor_from(c, dtype, dims, data);
    free(data);
    return t;
}

wf_tensor *wfb_labels(wf_ctx *c, wf_dims dims, int64_t below)
{
    size_t n = count(dims);
    int64_t *data = (int64_t *)malloc(n * sizeof *data);
    if (!data)
        return NULL;
    uint64_t x = 1;
    for (size_t i = 0; i < n; i++) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        data[i] = (int64_t)((x >> 33) % (uint64_t)below);
    }
    wf_tensor *t = wf_tensor_from(c, WF_I64, dims, data);
    free(data);
    return t;
}

static int first_result(const char *since)
{
    float one = 1;
    wf_ctx *c = wf_ctx_new(NULL);
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(1), &one);
    double sum = wf_item(c, wf_add(x, x));
    double took = bench_now() - atof(since);
    bench_case row = { .work = "import", .mode = "lazy", .dtype = "f32" };
    bench_row_alone("weft", "0.1.0", &row, 1, took, 0);
    return sum == 2 ? wf_ctx_close(c) : 1;
}

static double resident_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

/* The steps of serve.py: three to warm up, then the best of some. mode: "lazy", or "budget": lazy with one. */
static int memory(int threads, const char *mode)
{
    double before = resident_mib(), best = 1e9;
    for (size_t i = 0; i < wfb_net.n; i++) {
        bench_case c = wfb_net.cases[i];
        if (strncmp(c.work, "memory", 6) || strcmp(c.mode, "lazy"))
            continue;
        c.mode = mode;
        void *state = c.make(&c, threads);
        for (int k = 0; state && k < 6; k++) {
            double start = bench_now();
            c.run(state);
            double took = bench_now() - start;
            if (k > 2 && took < best)
                best = took;
        }
        if (state)
            bench_row_alone("weft", "0.1.0", &c, threads, best, resident_mib() - before);
        return !state;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static bench_case cases[MAX_CASES];
    const wfb_table *tables[] = { &wfb_record, &wfb_tensor, &wfb_net, &wfb_image };
    size_t n = 0;
    if (argc > 2 && !strcmp(argv[1], "import"))
        return first_result(argv[2]);
    if (argc > 2 && !strcmp(argv[1], "memory"))
        return memory(atoi(argv[2]), argc > 3 ? argv[3] : "lazy");
    if (argc > 1 && !strcmp(argv[1], "hand"))
        return bench_serve("hand", "0.1.0", wfb_hand.cases, wfb_hand.n);
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (size_t i = 0; i < tables[t]->n && n < MAX_CASES; i++)
            cases[n++] = tables[t]->cases[i];
    return bench_serve("weft", "0.1.0", cases, n);
}
