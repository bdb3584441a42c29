/* roof.c - what this machine can do, measured as a peer of every run.
 *
 * fma       f32 fused multiply-adds from registers, two operations each
 * read      64 MiB read, as in gemv_4096
 * stream31  three arrays of 16 MiB read, one written, as in ew_silu; the bytes of all four count
 * stream11  one read, one written, as in a row kernel
 * amx_bf16  bf16 products of tiles
 *
 * A roof of bandwidth is the best of ordinary and streaming stores, with and without prefetching, at the widest vectors
 * of the CPU, over arrays of the size that the work has: a machine with a very large L3 gets its own, higher roof. The
 * modes are printed one by one; the best of them is the roof. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"

#include <cpuid.h>
#include <immintrin.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    MAX_THREADS = 64,
    ARRAY = 4 << 20, /* floats */
    READ = 16 << 20,
    AHEAD = 1024,         /* floats: 4 KB, about the next row or tile of a kernel */
    LOOP_AVX2 = 384,      /* operations of one loop: 12 chains of 8 lanes, twice */
    LOOP_AVX512 = 768,    /* 12 chains of 16 lanes, twice */
    LOOP_AMX = 4 * 16384, /* four products of 16x32 by 32x16 */
    LOOPS = 3 << 20       /* loops at AVX-512; about 10 ms */
};
#define FMA_TOTAL  ((double)LOOPS * LOOP_AVX512)
#define AMX_TOTAL  ((double)LOOPS / 4 * LOOP_AMX)
#define WFB_INLINE static inline __attribute__((always_inline))

typedef struct part {
    const float *x, *y, *z;
    float *out;
    size_t n; /* floats, a multiple of 64; or loops */
} part;

/* More chains than the latency times the number of units: acc = acc * 0.999 + 1e-6, which goes to 0.001. Written as one
 * block, because compilers differ in whether they keep so many accumulators in registers. */
#define CHAIN(r, i)                 "vfmadd213ps %%" r "15, %%" r "14, %%" r i "\n\t"
#define CHAIN6(r, a, b, c, d, e, f) CHAIN(r, a) CHAIN(r, b) CHAIN(r, c) CHAIN(r, d) CHAIN(r, e) CHAIN(r, f)
#define CHAINS(r)                   CHAIN6(r, "0", "1", "2", "3", "4", "5") CHAIN6(r, "6", "7", "8", "9", "10", "11")
#define CLEAR(i)                    "vxorps %%xmm" i ", %%xmm" i ", %%xmm" i "\n\t"
#define CLEARS                                                                                                         \
    CLEAR("0")                                                                                                         \
    CLEAR("1")                                                                                                         \
    CLEAR("2") CLEAR("3") CLEAR("4") CLEAR("5") CLEAR("6") CLEAR("7") CLEAR("8") CLEAR("9") CLEAR("10") CLEAR("11")
#define FMA_PEAK(r, n)                                                                                                 \
    __asm__ volatile("vbroadcastss %1, %%" r "14\n\tvbroadcastss %2, %%" r "15\n\t" CLEARS "1:\n\t" CHAINS(r)          \
                         CHAINS(r) "dec %0\n\tjnz 1b\n\t"                                                              \
                     : "+r"(n)                                                                                         \
                     : "m"(scale), "m"(shift)                                                                          \
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",        \
                       "xmm11", "xmm14", "xmm15", "cc")

static const float scale = 0.999f, shift = 1e-6f;

__attribute__((target("avx2,fma"))) static void fma_avx2(const part *p)
{
    size_t n = p->n;
    FMA_PEAK("ymm", n);
}

__attribute__((target("avx512f"))) static void fma_avx512(const part *p)
{
    size_t n = p->n;
    FMA_PEAK("zmm", n);
}

#define ISA     __attribute__((target("avx2")))
#define NAME(n) n##_avx2
#define LANES   8
#define VEC     __m256
#define LOAD    _mm256_load_ps
#define STORE   _mm256_store_ps
#define PAST    _mm256_stream_ps
#define ADD     _mm256_add_ps
#define FIRST   _mm256_cvtss_f32
#include "roof_loops.h"

#define ISA     __attribute__((target("avx512f")))
#define NAME(n) n##_avx512
#define LANES   16
#define VEC     __m512
#define LOAD    _mm512_load_ps
#define STORE   _mm512_store_ps
#define PAST    _mm512_stream_ps
#define ADD     _mm512_add_ps
#define FIRST   _mm512_cvtss_f32
#include "roof_loops.h"

/* Four accumulators and two tiles for each operand, as in a product. */
__attribute__((target("amx-tile,amx-bf16"))) static void amx_bf16(const part *p)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    for (int i = 0; i < 8; i++)
        config.row_bytes[i] = 64, config.rows[i] = 16;
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    _tile_zero(6);
    _tile_zero(7);
    for (size_t i = 0; i < p->n; i++) {
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, p->out, 64);
    _tile_release();
}

/* The CPU has the tiles, and Linux lets this process use them. */
static bool amx_usable(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d >> 22 & 1) || !(d >> 24 & 1))
        return false;
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0; /* ARCH_REQ_XCOMP_PERM, tile data */
}

typedef struct kind {
    void (*avx2)(const part *), (*avx512)(const part *);
    size_t floats; /* of each array that is walked over; 0: loops are counted instead */
    int arrays;
    size_t loops_avx2, loops_avx512;
} kind;

#define WIDTHS(name) .avx2 = name##_avx2, .avx512 = name##_avx512
static const kind kinds[] = {
    { WIDTHS(fma), .loops_avx2 = (size_t)LOOPS * LOOP_AVX512 / LOOP_AVX2, .loops_avx512 = LOOPS },
    { WIDTHS(read_plain), .floats = READ, .arrays = 1 },
    { WIDTHS(read_ahead), .floats = READ, .arrays = 1 },
    { WIDTHS(s31_plain), .floats = ARRAY, .arrays = 4 },
    { WIDTHS(s31_ahead), .floats = ARRAY, .arrays = 4 },
    { WIDTHS(s31_past), .floats = ARRAY, .arrays = 4 },
    { WIDTHS(s31_past_ahead), .floats = ARRAY, .arrays = 4 },
    { WIDTHS(s11_plain), .floats = ARRAY, .arrays = 2 },
    { WIDTHS(s11_ahead), .floats = ARRAY, .arrays = 2 },
    { WIDTHS(s11_past), .floats = ARRAY, .arrays = 2 },
    { WIDTHS(s11_past_ahead), .floats = ARRAY, .arrays = 2 },
    { .avx512 = amx_bf16, .loops_avx512 = LOOPS / 4 },
};
enum { AMX = sizeof kinds / sizeof *kinds - 1 };

typedef struct roof {
    void (*kernel)(const part *);
    part parts[MAX_THREADS];
    int threads;
    float *mem;
} roof;

typedef struct job {
    const roof *r;
    int id;
} job;

static void *work(void *arg)
{
    const job *j = (const job *)arg;
    j->r->kernel(&j->r->parts[j->id]);
    return NULL;
}

/* The first part runs here, the others on threads of this run: starting them costs some 30 us of its 5 ms or more. */
static void run(void *state)
{
    const roof *r = (const roof *)state;
    pthread_t ids[MAX_THREADS];
    job jobs[MAX_THREADS];
    int started = 1;
    for (int i = 0; i < r->threads; i++)
        jobs[i] = (job){ .r = r, .id = i };
    while (started < r->threads && !pthread_create(&ids[started], NULL, work, &jobs[started]))
        started++;
    for (int i = 0; i < r->threads; i++)
        if (i == 0 || i >= started)
            work(&jobs[i]);
    for (int i = 1; i < started; i++)
        pthread_join(ids[i], NULL);
}

/* The arrays in one block, with 4 KB + 256 B between them so that their lines do not fall into the same sets; the last
 * one is written. Reading alone has one array and leaves its sum behind it. */
static bool place(roof *r, size_t floats, int arrays, int threads)
{
    size_t each = floats + 1024 + 64, per = floats / (size_t)threads / 64 * 64, count = (size_t)arrays;
    r->mem = bench_floats(count * each + AHEAD);
    if (!r->mem)
        return false;
    for (int i = 0; i < threads; i++) {
        float *x = r->mem + per * (size_t)i;
        float *out = arrays > 1 ? x + (count - 1) * each : r->mem + each + 16 * i;
        r->parts[i] = (part){ .x = x, .y = x + each, .z = x + 2 * each, .out = out, .n = per };
    }
    return true;
}

/* Loops over registers store one tile of 1 KB at most. */
static bool count(roof *r, size_t loops, int threads)
{
    r->mem = bench_floats((size_t)threads * 1024);
    if (!r->mem)
        return false;
    for (int i = 0; i < threads; i++)
        r->parts[i] = (part){ .out = r->mem + 1024 * i, .n = loops / (size_t)threads };
    return true;
}

static void *make(const bench_case *c, int threads)
{
    const kind *k = &kinds[c->arg];
    __builtin_cpu_init();
    bool wide = __builtin_cpu_supports("avx512f");
    if (c->arg == AMX && !amx_usable())
        return bench_skip("no AMX on this machine"), NULL;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return bench_skip("no AVX2 on this machine"), NULL;
    if (threads < 1 || threads > MAX_THREADS)
        return bench_fail("too many threads"), NULL;
    roof *r = (roof *)calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->threads = threads;
    r->kernel = wide || !k->avx2 ? k->avx512 : k->avx2;
    size_t loops = r->kernel == k->avx2 ? k->loops_avx2 : k->loops_avx512;
    if (k->floats ? place(r, k->floats, k->arrays, threads) : count(r, loops, threads))
        return r;
    free(r);
    return NULL;
}

static void drop(void *state)
{
    free(((roof *)state)->mem);
    free(state);
}

#define ROOF(w, m, n) .work = w, .mode = m, .dtype = "f32", .make = make, .run = run, .drop = drop, .arg = n
static const bench_case cases[] = {
    { ROOF("fma", "peak", 0), .flops = FMA_TOTAL },
    { ROOF("read", "plain", 1), .bytes = 4.0 * READ },
    { ROOF("read", "ahead", 2), .bytes = 4.0 * READ },
    { ROOF("stream31", "plain", 3), .bytes = 16.0 * ARRAY },
    { ROOF("stream31", "ahead", 4), .bytes = 16.0 * ARRAY },
    { ROOF("stream31", "past", 5), .bytes = 16.0 * ARRAY },
    { ROOF("stream31", "past-ahead", 6), .bytes = 16.0 * ARRAY },
    { ROOF("stream11", "plain", 7), .bytes = 8.0 * ARRAY },
    { ROOF("stream11", "ahead", 8), .bytes = 8.0 * ARRAY },
    { ROOF("stream11", "past", 9), .bytes = 8.0 * ARRAY },
    { ROOF("stream11", "past-ahead", 10), .bytes = 8.0 * ARRAY },
    { ROOF("amx_bf16", "peak", AMX), .flops = AMX_TOTAL },
};

int main(void)
{
    return bench_serve("roof", "1", cases, sizeof cases / sizeof *cases);
}
