/* The protocol of harness.h. Only the few fields that run.py sends are read; no JSON library is needed for them. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { SLOTS = 256, MAX_SAMPLES = 4096 };

typedef struct slot {
    const bench_case *c;
    void *state; /* NULL where make could not */
    int threads;
    double first_s; /* the first call; below 0 once it has been printed */
} slot;

typedef struct server {
    const char *peer, *version;
    const bench_case *cases;
    size_t ncases;
    slot slots[SLOTS];
    size_t nslots;
} server;

typedef struct request {
    bool time, list;
    char work[64], dtype[8];
    int threads;
    double seconds;
} request;

static char reason[161];
static bool skipped;
static double samples[MAX_SAMPLES];

static void say(bool skip, const char *why)
{
    skipped = skip;
    snprintf(reason, sizeof reason, "%s", why);
    for (char *p = reason; *p; p++) /* what would not stand in a JSON string */
        if (*p == '"' || *p == '\\' || (unsigned char)*p < 32)
            *p = ' ';
}

void bench_skip(const char *why)
{
    say(true, why);
}

void bench_fail(const char *why)
{
    say(false, why);
}

double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

float *bench_floats(size_t n)
{
    const size_t page = (size_t)2 << 20;
    size_t bytes = (n * sizeof(float) + page - 1) / page * page;
    float *p = (float *)aligned_alloc(page, bytes);
    if (!p)
        return NULL;
    madvise(p, bytes, MADV_HUGEPAGE);
    unsigned long long x = 88172645463325252ULL; /* xorshift64: Marsaglia 2003 */
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        p[i] = (float)(x >> 40) * 0x1p-23f - 1.0f;
    }
    return p;
}

/* The text after "key": in a flat object; NULL where it is not there. */
static const char *field(const char *line, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\"", key);
    const char *p = strstr(line, quoted);
    if (!p)
        return NULL;
    p += strlen(quoted);
    return p + strspn(p, " :");
}

static void text(const char *line, const char *key, const char *otherwise, char *out, size_t size)
{
    const char *p = field(line, key);
    if (!p || *p != '"') {
        snprintf(out, size, "%s", otherwise);
        return;
    }
    size_t n = strcspn(++p, "\"");
    if (n >= size)
        n = size - 1;
    memcpy(out, p, n);
    out[n] = 0;
}

static request parse(const char *line)
{
    request r = {
        .time = field(line, "time") != NULL, .list = field(line, "list") != NULL, .threads = 1, .seconds = 0.3
    };
    const char *p;
    text(line, r.time ? "time" : "prepare", "", r.work, sizeof r.work);
    text(line, "dtype", "f32", r.dtype, sizeof r.dtype);
    if ((p = field(line, "threads")))
        r.threads = atoi(p);
    if ((p = field(line, "seconds")))
        r.seconds = atof(p);
    return r;
}

static void head(const server *s, const bench_case *c, int threads)
{
    printf("{\"peer\": \"%s\", \"version\": \"%s\", \"work\": \"%s\", \"mode\": \"%s\", \"dtype\": \"%s\", "
           "\"threads\": %d",
           s->peer, s->version, c->work, c->mode, c->dtype, threads);
}

/* Seconds of one run. */
static double once(const bench_case *c, void *state)
{
    if (c->clocked)
        return c->clocked(state);
    double start = bench_now();
    c->run(state);
    return bench_now() - start;
}

/* Seconds of a run, averaged over several. */
static double several(const bench_case *c, void *state, int inner)
{
    double sum = 0, start = bench_now();
    for (int i = 0; i < inner; i++)
        if (c->clocked)
            sum += c->clocked(state);
        else
            c->run(state);
    return (c->clocked ? sum : bench_now() - start) / inner;
}

/* The slot of a case at a number of threads, made and warmed up by three calls when it is asked for the first time. */
static slot *prepared(server *s, const bench_case *c, int threads)
{
    for (size_t i = 0; i < s->nslots; i++)
        if (s->slots[i].c == c && s->slots[i].threads == threads)
            return &s->slots[i];
    if (s->nslots == SLOTS)
        return NULL;
    slot *n = &s->slots[s->nslots++];
    *n = (slot){ .c = c, .threads = threads };
    say(false, "out of memory");
    n->state = c->make(c, threads);
    if (!n->state) {
        head(s, c, threads);
        printf(", \"%s\": \"%s\"}\n", skipped ? "skipped" : "error", reason);
        return n;
    }
    n->first_s = once(c, n->state);
    once(c, n->state);
    once(c, n->state);
    return n;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Samples of about 10 ms each over `seconds`, at least three (two where one run takes a second); sorted. */
static size_t sample(const bench_case *c, void *state, double seconds)
{
    double start = bench_now();
    once(c, state);
    double one = bench_now() - start;
    int inner = one > 0.005 ? 1 : (int)(0.01 / (one > 1e-7 ? one : 1e-7));
    size_t n = 0, least = one > 1 ? 2 : 3;
    double end = bench_now() + seconds;
    while (n < MAX_SAMPLES && (n < least || bench_now() < end)) {
        samples[n++] = several(c, state, inner) / (c->per ? c->per : 1);
    }
    qsort(samples, n, sizeof *samples, ascending);
    return n;
}

static void timed(server *s, slot *p, double seconds)
{
    const bench_case *c = p->c;
    size_t n = sample(c, p->state, seconds);
    head(s, c, p->threads);
    printf(", \"min_s\": %.6g, \"median_s\": %.6g, \"samples\": %zu", samples[0], samples[n / 2], n);
    if (p->first_s >= 0)
        printf(", \"first_s\": %.6g", p->first_s);
    p->first_s = -1;
    if (c->flops > 0)
        printf(", \"gflops\": %.6g", c->flops / samples[0] / 1e9);
    if (c->bytes > 0)
        printf(", \"gbytes_s\": %.6g", c->bytes / samples[0] / 1e9);
    printf("}\n");
}

static void list(const server *s)
{
    for (size_t i = 0; i < s->ncases; i++)
        printf("{\"work\": \"%s\", \"mode\": \"%s\", \"dtype\": \"%s\"}\n", s->cases[i].work, s->cases[i].mode,
               s->cases[i].dtype);
}

static void answer(server *s, const request *r)
{
    for (size_t i = 0; i < s->ncases; i++) {
        const bench_case *c = &s->cases[i];
        if (strcmp(c->work, r->work) || strcmp(c->dtype, r->dtype))
            continue;
        slot *p = prepared(s, c, r->threads);
        if (p && p->state && r->time)
            timed(s, p, r->seconds);
    }
}

int bench_serve(const char *peer, const char *version, const bench_case *cases, size_t n)
{
    static server s;
    char line[512];
    s = (server){ .peer = peer, .version = version, .cases = cases, .ncases = n };
    while (fgets(line, sizeof line, stdin)) {
        request r = parse(line);
        if (r.list)
            list(&s);
        else
            answer(&s, &r);
        printf("{\"done\": true}\n");
        fflush(stdout);
    }
    for (size_t i = 0; i < s.nslots; i++)
        if (s.slots[i].state && s.slots[i].c->drop)
            s.slots[i].c->drop(s.slots[i].state);
    return 0;
}

void bench_row_alone(const char *peer, const char *version, const bench_case *c, int threads, double min_s,
                     double added_mib)
{
    server s = { .peer = peer, .version = version };
    head(&s, c, threads);
    printf(", \"min_s\": %.6g", min_s);
    if (added_mib > 0)
        printf(", \"added_mib\": %.6g", added_mib);
    printf("}\n{\"done\": true}\n");
    fflush(stdout);
}
