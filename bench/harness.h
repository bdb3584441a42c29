/* harness.h - the side of a peer written in C or C++ that talks to run.py.
 *
 * A peer is a table of cases and a call of bench_serve. It lives as long as its standard input: a request is a line of
 * JSON, {"prepare": WORK, "dtype": D, "threads": N} or {"time": WORK, "dtype": D, "threads": N, "seconds": S} or
 * {"list": true}; the answer is any number of rows, one JSON object a line, then {"done": true}. README.md has the form
 * of a row.
 *
 *     static const bench_case cases[] = { { .work = "add1", .mode = "eager", .dtype = "f32", .make = make_add,
 *                                           .run = run_add } };
 *     int main(void) { return bench_serve("weft", "0.1.0", cases, 1); }
 */
#ifndef WEFT_BENCH_HARNESS_H
#define WEFT_BENCH_HARNESS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bench_case bench_case;

struct bench_case {
    const char *work, *mode, *dtype;
    /* Gets everything ready, for example net, inputs and a context of `threads` threads; what it returns goes to run.
     * NULL: it cannot, and has said why with bench_skip or bench_fail. */
    void *(*make)(const bench_case *c, int threads);
    void (*run)(void *state);  /* the piece of work, once, or `per` times where one is too short to be called alone */
    void (*drop)(void *state); /* NULL: nothing to be freed */
    /* In place of run where only a part of it is to be timed: does the work and returns the seconds of that part. */
    double (*clocked)(void *state);
    double flops, bytes; /* of one piece of work; 0: not given in the row */
    int per;             /* pieces of work in one run; 0: one */
    int arg;             /* for make: a size, a variant */
};

/* Answers requests until the end of the input; returns the exit status of the program. */
int bench_serve(const char *peer, const char *version, const bench_case *cases, size_t n);

/* Why make returned NULL: not a thing of this machine; an error. Kept up to 160 bytes. */
void bench_skip(const char *why);
void bench_fail(const char *why);

/* Monotonic seconds. */
double bench_now(void);

/* n floats on a 2 MiB boundary with large pages asked for, uniform in -1..1 from a fixed seed; free with free. */
float *bench_floats(size_t n);

/* One row that bench_serve would not write: a piece of work that is run alone in its process. */
void bench_row_alone(const char *peer, const char *version, const bench_case *c, int threads, double min_s,
                     double added_mib);

#ifdef __cplusplus
}
#endif
#endif
