/* What recording costs: a call alone, a step that branches, many traces, handles that are kept, long steps. All tensors
 * have one element, so that the kernels are next to nothing. Times are for one call. */
#include "weft_bench.h"

#include <string.h>

enum { ADDS = 256, CALLS = 1000, BRANCHES = 100, TRACES = 1000, KEPT = 84, LONG = 10000 };

typedef struct rec {
    wf_ctx *c;
    wf_tensor *x, *y;
    wf_tensor *y2; /* y with another shape */
    wf_tensor *kept;
    uint64_t n; /* steps so far */
} rec;

static void *make(const bench_case *b, int threads)
{
    rec *r = (rec *)wfb_new(b, threads, sizeof *r);
    float one = 1;
    if (!r)
        return NULL;
    r->x = wf_tensor_from(r->c, WF_F32, WF_DIMS(1), &one);
    r->y = wf_tensor_from(r->c, WF_F32, WF_DIMS(1), &one);
    r->y2 = wf_tensor_from(r->c, WF_F32, WF_DIMS(1, 1), &one);
    return wfb_made(r);
}

static void run_add(void *state)
{
    rec *r = (rec *)state;
    wf_scope s = wf_scope_begin(r->c, "adds");
    for (int i = 0; i < ADDS; i++)
        wf_add(r->x, r->y);
    wf_scope_end(r->c, s);
}

/* Ends the step with t computed, and frees it. */
static void finish(rec *r, wf_scope s, wf_tensor *t)
{
    wf_retain(r->c, t);
    wf_scope_end(r->c, s);
    wf_release(r->c, t);
}

static wf_tensor *chain(rec *r, int n)
{
    wf_tensor *t = r->x;
    for (int i = 0; i < n; i++)
        t = wf_add(t, r->y);
    return t;
}

/* A chain whose operators do not become one kernel: each runs over other axes than the one before. */
static wf_tensor *commands(rec *r, int n)
{
    wf_tensor *t = r->x;
    for (int i = 0; i < n; i += 2) {
        t = wf_add(t, r->y);
        t = wf_add(wf_reshape(t, WF_DIMS(1, 1)), r->y2);
        t = wf_reshape(t, WF_DIMS(1));
    }
    return t;
}

/* A chain whose calls are chosen by the bits of a counter: each step differs from those before. */
static wf_tensor *mixed(rec *r, int n, uint64_t seed)
{
    wf_tensor *t = r->x;
    for (int i = 0; i < n; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        t = seed >> 63 ? wf_add(t, r->y) : wf_maximum(t, r->y);
    }
    return t;
}

/* The builder calls of a step that is the same every time; what follows them is not counted. */
static double clock_call(void *state)
{
    rec *r = (rec *)state;
    wf_scope s = wf_scope_begin(r->c, "calls");
    double start = bench_now();
    wf_tensor *t = chain(r, CALLS);
    double took = bench_now() - start;
    finish(r, s, t);
    return took;
}

/* The builder calls of a step that was never seen before. */
static double clock_record(void *state)
{
    rec *r = (rec *)state;
    wf_scope s = wf_scope_begin(r->c, "new");
    double start = bench_now();
    wf_tensor *t = mixed(r, CALLS, ++r->n);
    double took = bench_now() - start;
    finish(r, s, t);
    return took;
}

/* The end of a step that is the same every time: replay of its commands, one kernel on one element each. The peer
 * `hand` calls the same kernel as often: what is above that is replay. */
static double clock_replay(void *state)
{
    rec *r = (rec *)state;
    wf_scope s = wf_scope_begin(r->c, "commands");
    wf_tensor *t = wf_retain(r->c, commands(r, CALLS));
    double start = bench_now();
    wf_scope_end(r->c, s);
    double took = bench_now() - start;
    wf_release(r->c, t);
    return took;
}

/* A different way at one of ten places in every step. */
static void run_branches(void *state)
{
    rec *r = (rec *)state;
    uint64_t way = ++r->n * 0x9e3779b97f4a7c15ULL >> 54;
    wf_scope s = wf_scope_begin(r->c, "branches");
    wf_tensor *t = r->x;
    for (int i = 0; i < BRANCHES; i++) {
        bool turn = i % 10 == 0 && (way >> (i / 10) & 1);
        t = turn ? wf_mul(t, r->y) : wf_add(t, r->y);
    }
    finish(r, s, t);
}

/* One of 1,000 traces of 84 calls, in turn. */
static void run_traces(void *state)
{
    rec *r = (rec *)state;
    wf_scope s = wf_scope_begin(r->c, "traces");
    finish(r, s, mixed(r, KEPT, ++r->n % TRACES));
}

/* The result of each step is an operand of the next. */
static void run_kept(void *state)
{
    rec *r = (rec *)state;
    wf_tensor *last = r->kept;
    wf_scope s = wf_scope_begin(r->c, "kept");
    wf_tensor *t = chain(r, KEPT - 1);
    t = wf_maximum(t, last ? last : r->x);
    r->kept = wf_retain(r->c, t);
    wf_scope_end(r->c, s);
    if (last)
        wf_release(r->c, last);
}

static void run_long(void *state)
{
    rec *r = (rec *)state;
    wf_scope s = wf_scope_begin(r->c, "long");
    finish(r, s, chain(r, LONG));
}

#define ONE .dtype = "f32", .make = make, .drop = wfb_drop
static const bench_case cases[] = {
    /* eager alone: a lazy step would see that nobody uses the sums */
    { ONE, .mode = "eager", .work = "add1", .run = run_add, .per = ADDS },
    { ONE, .mode = "lazy", .work = "rec_call", .clocked = clock_call, .per = CALLS },
    { ONE, .mode = "lazy", .work = "rec_record", .clocked = clock_record, .per = CALLS },
    { ONE, .mode = "lazy", .work = "rec_replay", .clocked = clock_replay, .per = CALLS },
    { ONE, .mode = "lazy", .work = "rec_branches", .run = run_branches, .per = BRANCHES },
    { ONE, .mode = "lazy", .work = "rec_1000_traces", .run = run_traces, .per = KEPT },
    { ONE, .mode = "lazy", .work = "rec_kept", .run = run_kept, .per = KEPT },
    { ONE, .mode = "lazy", .work = "rec_10000_ops", .run = run_long, .per = LONG },
};

const wfb_table wfb_record = WFB_TABLE(cases);
