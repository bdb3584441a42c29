/* What this processor can do at most, with the threads of its pool: measured once, when somebody asks. Other processes
 * only ever make it slower, so the best of many short tries counts, and only of those in which all threads ran side by
 * side. Some 20 ms on an idle machine, ten times that on a busy one. */
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "device/cpu/cpu.h"
#include "kernel/roof/roof.h"

enum { L1 = 32 << 10, L2 = 1 << 20, L3 = 16 << 20, MEMORY_MAX = 128 << 20 };
enum { CALM = 12, MET = 4, MEET_NS = 200000, LIMIT_NS = 20000000 };

typedef struct job {
    const wfi_roof_kernels *k;
    int kind; /* 0 multiply-adds, 1 reads, 2 writes */
    float *buffer;
    int64_t part; /* floats of one thread */
    int64_t rounds;
    double flops;
    int threads;
    bool own;              /* each core has what is measured for itself */
    _Atomic int here;      /* threads that have begun */
    _Atomic bool alone;    /* one of them began without the others */
    uint64_t *start, *end; /* of each thread, ns */
    float sink[64];
} job;

/* Waits for the other threads, but not for long: on a busy machine they may not run at all. */
static void meet(job *j)
{
    const uint64_t until = wfi_clock_ns() + MEET_NS;
    (void)atomic_fetch_add(&j->here, 1);
    while (atomic_load(&j->here) < j->threads)
        if (wfi_clock_ns() > until) {
            atomic_store(&j->alone, true);
            return;
        }
}

static void work(void *arg, int64_t chunk, int worker)
{
    job *j = arg;
    float *part = j->buffer + chunk * j->part, *sink = &j->sink[worker % 64];
    meet(j);
    j->start[chunk] = wfi_clock_ns();
    if (j->kind == 0) {
        double flops = j->k->fma(j->rounds, sink);
        if (chunk == 0)
            j->flops = flops;
    }
    for (int64_t i = 0; j->kind && i < j->rounds; i++)
        if (j->kind == 1)
            j->k->read(part, j->part, sink);
        else
            j->k->write(part, j->part, (float)i);
    j->end[chunk] = wfi_clock_ns();
}

/* Seconds of one try, from the first start to the last end; 0: the threads did not run side by side. *single: the
 * best that a thread alone took so far. */
static double one_try(const wfi_cpu *d, job *j, double *single)
{
    uint64_t first = UINT64_MAX, last = 0;
    atomic_store(&j->here, 0);
    atomic_store(&j->alone, false);
    wfi_pool_run(d->base.pool, j->threads, work, j);
    for (int i = 0; i < j->threads; i++) {
        const double one = (double)(j->end[i] - j->start[i]) * 1e-9;
        *single = one > 0 && one < *single ? one : *single;
        first = j->start[i] < first ? j->start[i] : first;
        last = j->end[i] > last ? j->end[i] : last;
    }
    return atomic_load(&j->alone) ? 0 : (double)(last - first) * 1e-9;
}

/* The best try, when a dozen more were no better; what a thread took alone, where they hardly ever met. */
static double best_of(const wfi_cpu *d, job *j)
{
    const uint64_t begin = wfi_clock_ns();
    double best = 1e9, single = 1e9;
    (void)one_try(d, j, &single); /* fills the caches */
    single = 1e9;
    int met = 0, tries = 0;
    for (int calm = 0; calm < CALM && (wfi_clock_ns() - begin < LIMIT_NS || !tries); tries++) {
        const double s = one_try(d, j, &single);
        met += s > 0;
        calm = s > 0 && s < 0.98 * best ? 0 : calm + (s > 0);
        best = s > 0 && s < best ? s : best;
    }
    /* Two threads of one core halve each other at most; more is noise. What they share may be slower by any factor. */
    return met >= MET && (!j->own || best < 2.2 * single) ? best : single;
}

static size_t cache(int name, size_t otherwise)
{
    long n = sysconf(name);
    return n > 0 ? (size_t)n : otherwise;
}

/* Bytes that one thread walks over to be served by a level: well inside it, and well outside the one before. */
static size_t part_of(const wfi_roofs *r, int level, int threads)
{
    const size_t before = level ? r->level[level - 1].bytes : 0;
    size_t n = level == r->levels - 1 ? before * 3 : r->level[level].bytes / 2;
    n = level && n > before * 4 ? before * 4 : n;
    n = (n > MEMORY_MAX ? MEMORY_MAX : n) / (size_t)threads;
    return n < 4096 ? 4096 : n / 4096 * 4096;
}

static void measure_level(const wfi_cpu *d, wfi_roofs *r, int level, job *j)
{
    size_t part = part_of(r, level, d->base.threads);
    const double bytes = (double)part * d->base.threads;
    j->part = (int64_t)(part / sizeof(float));
    j->own = level < 2;
    j->rounds = part < (1 << 21) ? (1 << 21) / (int64_t)part : 1;
    for (j->kind = 1; j->kind <= 2; j->kind++) {
        double rate = bytes * (double)j->rounds / best_of(d, j);
        *(j->kind == 1 ? &r->level[level].read : &r->level[level].write) = rate;
    }
}

static void measure_flops(const wfi_cpu *d, wfi_roofs *r, job *j)
{
    j->kind = 0;
    j->own = true;
    j->rounds = 10000;
    double f32 = best_of(d, j);
    f32 = j->flops * d->base.threads / f32;
    for (int t = 0; t < WF_DTYPE_COUNT; t++)
        r->flops[t] = f32; /* 16-bit floats and whole numbers are widened to, or done in, 32 bits */
    r->flops[WF_F64] = r->flops[WF_I64] = f32 / 2;
    /* Stated: products of bf16 pairs do twice what those of f32 do, the tile unit 1,024 operations a cycle against 64.
     */
    if (d->gemm_amx || d->gemm_pairs)
        r->flops[WF_BF16] = f32 * (d->gemm_amx ? 16 : 2);
}

bool wfi_cpu_roofs(wfi_device *device, wfi_roofs *r)
{
    const wfi_cpu *d = (const wfi_cpu *)device;
    const size_t n = (size_t)d->base.threads;
    const struct {
        const char *name;
        size_t bytes;
    } levels[] = { { "L1", cache(_SC_LEVEL1_DCACHE_SIZE, L1) * n },
                   { "L2", cache(_SC_LEVEL2_CACHE_SIZE, L2) * n },
                   { "L3", cache(_SC_LEVEL3_CACHE_SIZE, L3) },
                   { "memory", SIZE_MAX } };
    *r = (wfi_roofs){ .name = wfi_isa_name(d->isa), .threads = d->base.threads };
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        if (!r->levels || levels[i].bytes > r->level[r->levels - 1].bytes)
            r->level[r->levels++] = (wfi_roof_level){ .name = levels[i].name, .bytes = levels[i].bytes };
    const size_t largest = part_of(r, r->levels - 1, d->base.threads) * n;
    job j = { .k = d->roof,
              .threads = d->base.threads,
              .buffer = wfi_mem_alloc(d->base.mem, largest),
              .start = wfi_mem_array(d->base.mem, 2 * n, sizeof *j.start) };
    if (!j.buffer || !j.start) {
        wfi_mem_free(d->base.mem, j.buffer);
        wfi_mem_free(d->base.mem, j.start);
        return false;
    }
    j.end = j.start + n;
    memset(j.buffer, 0, largest);
    measure_flops(d, r, &j);
    for (int i = 0; i < r->levels; i++)
        measure_level(d, r, i, &j);
    wfi_mem_free(d->base.mem, j.buffer);
    wfi_mem_free(d->base.mem, j.start);
    for (int i = 1; i < r->levels; i++) { /* a level is no faster than the one before; noise may say so */
        wfi_roof_level *a = &r->level[i - 1], *b = &r->level[i];
        b->read = b->read > a->read ? a->read : b->read;
        b->write = b->write > a->write ? a->write : b->write;
    }
    return true;
}
