/* The worker pool.
 *
 * A job is published by one store to `claim`: a generation in the upper half, the number of chunks that nobody has
 * taken yet in the lower. A chunk is taken by compare-and-swap, so a worker that comes late, even one that slept
 * through several jobs, either takes a chunk of the job that runs now or nothing. The job's fields are plain memory:
 * they are written before that store, read only after a successful claim, and the caller does not return before every
 * claimed chunk is done. A fixed split with a barrier is as fast on an idle machine, and many times slower as soon as
 * another process wants one of the cores. */
#include "base/pool.h"
#include <errno.h>
#include <fenv.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SPINS       2000 /* pauses before a thread sleeps */
#define THREADS_MAX 1024
#define STACK_BYTES ((size_t)2 << 20)
#define CHUNKS_MAX  ((int64_t)1 << 30) /* of one round; more chunks take several rounds */

typedef struct worker {
    wfi_pool *pool;
    int id; /* 1 .. threads-1; the caller is 0 */
    pthread_t thread;
} worker;

struct wfi_pool {
    /* Set once. */
    wfi_mem *mem;
    int threads;
    int started; /* workers with a thread */
    pid_t pid;   /* a child of fork has no workers to join */
    worker *workers;
    /* The job: written by the caller alone, read after a claim. */
    wfi_chunk_fn *fn;
    void *arg;
    int64_t first; /* chunk number of this round's first chunk */
    uint32_t chunks;
    _Alignas(64) _Atomic uint64_t claim; /* generation << 32 | chunks not yet taken */
    _Alignas(64) _Atomic uint32_t round; /* futex of the workers: changes with every round and at the end */
    _Atomic uint32_t sleeping;           /* workers that sleep there, or are about to */
    _Atomic bool quit;
    _Alignas(64) _Atomic uint32_t done; /* futex of the caller: chunks finished in this round */
    _Atomic bool waiting;               /* the caller sleeps there, or is about to */
    _Alignas(64) _Atomic bool busy;     /* some thread's job is running */
};

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static void sleep_while(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* A new thread inherits its creator's rounding mode and flush-to-zero; results must not depend on them. */
static void default_float_environment(void)
{
    fesetenv(FE_DFL_ENV);
#if defined __SSE2__
    __builtin_ia32_ldmxcsr(0x1f80);
#endif
}

/* Takes a chunk of the running round: its number within the round, or -1. */
static int64_t take(wfi_pool *p)
{
    uint64_t v = atomic_load_explicit(&p->claim, memory_order_relaxed);
    while ((uint32_t)v != 0) {
        if (atomic_compare_exchange_weak_explicit(&p->claim, &v, v - 1, memory_order_acq_rel, memory_order_relaxed))
            return (int64_t)p->chunks - (int64_t)(uint32_t)v;
    }
    return -1;
}

/* Runs chunks until none is left to take; returns how many. */
static uint32_t drain(wfi_pool *p, int id)
{
    uint32_t n = 0;
    for (int64_t c; (c = take(p)) >= 0; n++) {
        p->fn(p->arg, p->first + c, id);
        atomic_fetch_add(&p->done, 1);
    }
    return n;
}

/* Waits for a round other than `seen`; returns it. */
static uint32_t next_round(wfi_pool *p, uint32_t seen)
{
    for (;;) {
        for (int i = 0; i < SPINS; i++) {
            uint32_t now = atomic_load_explicit(&p->round, memory_order_acquire);
            if (now != seen)
                return now;
            relax();
        }
        atomic_fetch_add(&p->sleeping, 1);
        sleep_while(&p->round, seen); /* returns at once if the round has changed */
        atomic_fetch_sub(&p->sleeping, 1);
    }
}

static void *work(void *arg)
{
    worker *w = arg;
    wfi_pool *p = w->pool;
    uint32_t seen = 0;
    default_float_environment();
    while (!atomic_load(&p->quit)) {
        /* The caller may sleep until the last chunk is done: whoever finished one looks whether it does. */
        if (drain(p, w->id) && atomic_load(&p->waiting))
            wake(&p->done, 1);
        seen = next_round(p, seen);
    }
    return NULL;
}

static void wait_done(wfi_pool *p)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&p->done, memory_order_acquire) == p->chunks)
            return;
        relax();
    }
    atomic_store(&p->waiting, true);
    for (uint32_t n; (n = atomic_load(&p->done)) != p->chunks;)
        sleep_while(&p->done, n);
    atomic_store(&p->waiting, false);
}

static void run_round(wfi_pool *p, int64_t first, uint32_t chunks, wfi_chunk_fn *fn, void *arg)
{
    uint32_t round = atomic_load_explicit(&p->round, memory_order_relaxed) + 1;
    p->fn = fn;
    p->arg = arg;
    p->first = first;
    p->chunks = chunks;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    atomic_store_explicit(&p->claim, (uint64_t)round << 32 | chunks, memory_order_release);
    atomic_store(&p->round, round);
    if (atomic_load(&p->sleeping))
        wake(&p->round, chunks - 1 < THREADS_MAX ? (int)chunks - 1 : THREADS_MAX);
    drain(p, 0);
    wait_done(p);
}

void wfi_pool_run(wfi_pool *p, int64_t chunks, wfi_chunk_fn *fn, void *arg)
{
    if (!p || p->threads == 1 || chunks <= 1 || atomic_exchange(&p->busy, true)) {
        for (int64_t c = 0; c < chunks; c++)
            fn(arg, c, 0);
        return;
    }
    for (int64_t first = 0; first < chunks; first += CHUNKS_MAX)
        run_round(p, first, (uint32_t)(chunks - first < CHUNKS_MAX ? chunks - first : CHUNKS_MAX), fn, arg);
    atomic_store(&p->busy, false);
}

int wfi_pool_threads(const wfi_pool *p)
{
    return p ? p->threads : 1;
}

/* Starts the workers with all signals blocked, so that a program's handlers run on its own threads. */
static bool start(wfi_pool *p)
{
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr))
        return false;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigfillset(&all);
    bool masked = pthread_sigmask(SIG_SETMASK, &all, &old) == 0;
    while (p->started < p->threads - 1) {
        worker *w = &p->workers[p->started];
        *w = (worker){ .pool = p, .id = p->started + 1 };
        if (pthread_create(&w->thread, &attr, work, w))
            break;
        p->started++;
    }
    if (masked)
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_attr_destroy(&attr);
    return p->started == p->threads - 1;
}

wfi_pool *wfi_pool_new(wfi_mem *mem, int threads)
{
    wfi_pool *p = wfi_mem_zalloc(mem, sizeof *p);
    if (!p)
        return NULL;
    p->mem = mem;
    p->threads = threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads;
    p->pid = getpid();
    if (p->threads == 1)
        return p;
    p->workers = wfi_mem_array(mem, (size_t)p->threads - 1, sizeof *p->workers);
    if (!p->workers || !start(p)) {
        wfi_pool_free(p);
        return NULL;
    }
    return p;
}

void wfi_pool_free(wfi_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->quit, true);
    atomic_fetch_add(&p->round, 1);
    wake(&p->round, INT_MAX);
    for (int i = 0; i < p->started && p->pid == getpid(); i++)
        pthread_join(p->workers[i].thread, NULL);
    wfi_mem_free(p->mem, p->workers);
    wfi_mem_free(p->mem, p);
}
