/* weft_bench.h - what the files of Weft's own worker share. Each offers a table of cases; weft_bench.c joins them. */
#ifndef WEFT_BENCH_WEFT_BENCH_H
#define WEFT_BENCH_WEFT_BENCH_H
#include "harness.h"
#include "weft/weft.h"

typedef struct wfb_table {
    const bench_case *cases;
    size_t n;
} wfb_table;

extern const wfb_table wfb_tensor, wfb_net, wfb_image, wfb_record, wfb_hand;

/* A context of the case's mode; every state that make returns begins with one of these. */
typedef struct wfb_base {
    wf_ctx *c;
} wfb_base;

/* A zeroed state of `bytes` bytes with its context; NULL and the reason if it cannot be had. */
void *wfb_new(const bench_case *c, int threads, size_t bytes);
/* state if no error is pending in its context, otherwise it is dropped with the error as the reason: the last line of
 * make. */
void *wfb_made(void *state);
void wfb_drop(void *state);

/* Ends the step with t computed, and frees it. */
void wfb_finish(wf_ctx *c, wf_scope s, wf_tensor *t);

/* A tensor that lives as long as the context: uniform in -1..1, times scale. */
wf_tensor *wfb_random(wf_ctx *c, wf_dtype dtype, wf_dims dims, double scale);
/* i64 labels below `below`. */
wf_tensor *wfb_labels(wf_ctx *c, wf_dims dims, int64_t below);

/* A case in both modes: eager and lazy. */
#define WFB_BOTH(...)                                                                                                  \
    { .mode = "lazy", .dtype = "f32", .drop = wfb_drop, __VA_ARGS__ },                                                 \
    {                                                                                                                  \
        .mode = "eager", .dtype = "f32", .drop = wfb_drop, __VA_ARGS__                                                 \
    }
#define WFB_TABLE(cases)                                                                                               \
    {                                                                                                                  \
        cases, sizeof cases / sizeof *cases                                                                            \
    }

#endif
