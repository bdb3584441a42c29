/* What this processor can do at most, with the threads of its pool: measured once, when somebody asks (some 20 ms). */
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "device/cpu/cpu.h"
#include "kernel/roof/roof.h"

enum { TRIES = 4, L1 = 32 << 10, L2 = 1 << 20, L3 = 16 << 20, MEMORY_MAX = 128 << 20 };

typedef struct job {
    const wfi_roof_kernels *k;
    int kind; /* 0 multiply-adds, 1 reads, 2 writes */
    float *buffer;
    int64_t part; /* floats of one thread */
    int64_t rounds;
    double flops;
    float sink[64];
} job;

static void work(void *arg, int64_t chunk, int worker)
{
    job *j = arg;
    float *part = j->buffer + chunk * j->part, *sink = &j->sink[worker % 64];
    if (j->kind == 0) {
        double flops = j->k->fma(j->rounds, sink);
        if (chunk == 0)
            j->flops = flops;
        return;
    }
    for (int64_t i = 0; i < j->rounds; i++)
        if (j->kind == 1)
            j->k->read(part, j->part, sink);
        else
            j->k->write(part, j->part, (float)i);
}

/* Seconds of the best of a few tries: other processes only ever make it longer. */
static double best_of(const wfi_cpu *d, job *j)
{
    double best = 1e9;
    for (int i = 0; i <= TRIES; i++) { /* the first fills the caches */
        uint64_t start = wfi_clock_ns();
        wfi_pool_run(d->base.pool, d->base.threads, work, j);
        double s = (double)(wfi_clock_ns() - start) * 1e-9;
        best = i && s < best && s > 0 ? s : best;
    }
    return best;
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
    j->rounds = part < (1 << 20) ? (1 << 20) / (int64_t)part : 1;
    for (j->kind = 1; j->kind <= 2; j->kind++) {
        double rate = bytes * (double)j->rounds / best_of(d, j);
        *(j->kind == 1 ? &r->level[level].read : &r->level[level].write) = rate;
    }
}

static void measure_flops(const wfi_cpu *d, wfi_roofs *r, job *j)
{
    j->kind = 0;
    j->rounds = 20000;
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
    job j = { .k = d->roof };
    const size_t largest = part_of(r, r->levels - 1, d->base.threads) * n;
    if (!(j.buffer = wfi_mem_alloc(d->base.mem, largest)))
        return false;
    memset(j.buffer, 0, largest);
    measure_flops(d, r, &j);
    for (int i = 0; i < r->levels; i++)
        measure_level(d, r, i, &j);
    wfi_mem_free(d->base.mem, j.buffer);
    for (int i = 1; i < r->levels; i++) { /* a level is no faster than the one before; noise may say so */
        wfi_roof_level *a = &r->level[i - 1], *b = &r->level[i];
        b->read = b->read > a->read ? a->read : b->read;
        b->write = b->write > a->write ? a->write : b->write;
    }
    return true;
}
