/* The worker pool: every chunk once, workers apart, nested and concurrent jobs, floating-point state. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <fenv.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/pool.h"

#define CHUNKS 257

typedef struct job {
    wfi_pool *pool;
    int threads;
    int64_t chunks;
    int times[CHUNKS]; /* plain: one worker touches each, and the pool orders it before the caller's look */
    atomic_int in[16]; /* 1 while that worker runs a chunk */
    atomic_int wrong;  /* a worker number out of range or in use twice */
    volatile double sink;
} job;

static void once(void *arg, int64_t chunk, int worker)
{
    job *j = arg;
    if (worker < 0 || worker >= j->threads || atomic_exchange(&j->in[worker], 1))
        atomic_fetch_add(&j->wrong, 1);
    if (chunk >= 0 && chunk < j->chunks)
        j->times[chunk]++;
    else
        atomic_fetch_add(&j->wrong, 1);
    atomic_store(&j->in[worker], 0);
}

static void check(job *j, int64_t chunks, int want)
{
    for (int64_t c = 0; c < chunks; c++)
        assert_int_equal(j->times[c], want);
    assert_int_equal(atomic_load(&j->wrong), 0);
}

static void every_chunk_once(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    static const int64_t counts[] = { 0, 1, 2, 3, 8, 64, CHUNKS };
    for (int threads = 0; threads <= 5; threads++) {
        wfi_pool *p = threads ? wfi_pool_new(&m, threads) : NULL;
        assert_int_equal(wfi_pool_threads(p), threads ? threads : 1);
        for (int round = 0; round < 300; round++) {
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
                job j = { .pool = p, .threads = wfi_pool_threads(p), .chunks = counts[k] };
                wfi_pool_run(p, counts[k], once, &j);
                check(&j, counts[k], 1);
            }
            if (round % 100 == 99)
                usleep(3000); /* let the workers fall asleep */
        }
        wfi_pool_free(p);
    }
    assert_int_equal(atomic_load(&m.live), 0);
}

/* Many rounds that follow each other at once: a worker that comes late finds another job. */
static void storm(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_pool *p = wfi_pool_new(&m, 4);
    assert_non_null(p);
    job a = { .threads = 4, .chunks = 5 }, b = { .threads = 4, .chunks = 9 };
    for (int i = 0; i < 20000; i++) {
        wfi_pool_run(p, 5, once, &a);
        wfi_pool_run(p, 9, once, &b);
    }
    check(&a, 5, 20000);
    check(&b, 9, 20000);
    wfi_pool_free(p);
}

static void slow_chunk(void *arg, int64_t chunk, int worker)
{
    (void)worker;
    int *sum = arg;
    usleep(chunk == 1 ? 20000 : 100);
    sum[chunk]++;
}

/* The caller has to sleep until a worker's long chunk is done. */
static void slow_worker(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_pool *p = wfi_pool_new(&m, 3);
    int done[3] = { 0 };
    for (int i = 0; i < 10; i++)
        wfi_pool_run(p, 3, slow_chunk, done);
    for (int i = 0; i < 3; i++)
        assert_int_equal(done[i], 10);
    wfi_pool_free(p);
}

static void *other_thread(void *arg)
{
    job *shared = arg;
    for (int i = 0; i < 5000; i++) {
        job j = { .threads = shared->threads, .chunks = 1 + i % 40 };
        wfi_pool_run(shared->pool, j.chunks, once, &j);
        for (int64_t c = 0; c < j.chunks; c++) {
            if (j.times[c] != 1)
                atomic_fetch_add(&shared->wrong, 1);
        }
        if (atomic_load(&j.wrong))
            atomic_fetch_add(&shared->wrong, 1);
    }
    return NULL;
}

/* Two contexts on one runtime: whoever finds the pool busy works alone. */
static void two_threads(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_pool *p = wfi_pool_new(&m, 3);
    job shared = { .pool = p, .threads = 3 };
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, other_thread, &shared), 0);
    other_thread(&shared);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(atomic_load(&shared.wrong), 0);
    wfi_pool_free(p);
}

static void outer(void *arg, int64_t chunk, int worker)
{
    job *j = arg;
    (void)worker;
    job inner = { .threads = 1, .chunks = 7 };
    wfi_pool_run(j->pool, 7, once, &inner);
    for (int c = 0; c < 7; c++)
        j->times[chunk] += inner.times[c];
    if (atomic_load(&inner.wrong))
        atomic_fetch_add(&j->wrong, 1);
}

static void nested(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_pool *p = wfi_pool_new(&m, 3);
    for (int i = 0; i < 200; i++) {
        job j = { .pool = p, .threads = 3 };
        wfi_pool_run(p, 50, outer, &j);
        check(&j, 50, 7);
    }
    wfi_pool_free(p);
}

typedef struct modes {
    atomic_int bad, seen[4];
} modes;

static void look_at_rounding(void *arg, int64_t chunk, int worker)
{
    modes *f = arg;
    (void)chunk;
    volatile double third = 1.0, tiny = 0x1p-1022;
    third /= 3;
    tiny /= 2; /* subnormal: 0 if flushed */
    if (worker > 0 && (fegetround() != FE_TONEAREST || third != 0x1.5555555555555p-2 || tiny == 0))
        atomic_fetch_add(&f->bad, 1);
    atomic_fetch_add(&f->seen[worker], 1);
    usleep(200);
}

/* A thread inherits its creator's rounding; workers must not. */
static void float_environment(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    fenv_t old;
    fegetenv(&old);
    fesetround(FE_UPWARD);
#if defined __SSE2__
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040); /* FTZ and DAZ */
#endif
    wfi_pool *p = wfi_pool_new(&m, 4);
    modes f = { 0 };
    wfi_pool_run(p, 64, look_at_rounding, &f);
    fesetenv(&old);
    assert_int_equal(atomic_load(&f.bad), 0);
    int sum = 0;
    for (int i = 0; i < 4; i++)
        sum += atomic_load(&f.seen[i]);
    assert_int_equal(sum, 64);
    wfi_pool_free(p);
}

static void failures(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    for (int k = 0; k < 2; k++) {
        atomic_store(&m.fail_at, k);
        assert_null(wfi_pool_new(&m, 3));
        assert_int_equal(atomic_load(&m.live), 0);
    }
    atomic_store(&m.fail_at, -1);
    wfi_pool *p = wfi_pool_new(&m, -5);
    assert_int_equal(wfi_pool_threads(p), 1);
    wfi_pool_free(p);
    wfi_pool_free(NULL);
}

#if !defined __SANITIZE_THREAD__ /* TSan does not like a fork with threads */
/* In the child there are no workers: the caller does all, and free does not wait for them. */
static void after_fork(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_pool *p = wfi_pool_new(&m, 3);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        job j = { .threads = 3, .chunks = 20 };
        wfi_pool_run(p, 20, once, &j);
        int wrong = atomic_load(&j.wrong);
        for (int c = 0; c < 20; c++)
            wrong += j.times[c] != 1;
        wfi_pool_free(p);
        _exit(wrong != 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    wfi_pool_free(p);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_chunk_once),
        cmocka_unit_test(storm),
        cmocka_unit_test(slow_worker),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(nested),
        cmocka_unit_test(float_environment),
        cmocka_unit_test(failures),
#if !defined __SANITIZE_THREAD__
        cmocka_unit_test(after_fork),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
