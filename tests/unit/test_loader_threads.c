/* The loader: right batches in the right order whatever the threads do; seek, failures and closing at any moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "data/loader.h"
#include "data/order.h"

/* A data set that computes its samples: x = (index, epoch, position) as i32[3], y = index * 10. */
typedef struct probe {
    int64_t fail_index; /* this sample fails; -1: none */
    int delay_us;       /* longest random pause of a fill */
    uint64_t random;
    int closed;
    atomic_int fills;
} probe;

static void nap(int us)
{
    nanosleep(&(struct timespec){ .tv_nsec = us * 1000L }, NULL);
}

static wf_status probe_fill(void *self, const wfi_pick *pick, void *x, void *y, wfi_problem *problem)
{
    probe *s = self;
    if (s->delay_us) {
        s->random = s->random * 6364136223846793005u + 1442695040888963407u;
        nap((int)((s->random >> 33) % (unsigned)s->delay_us));
    }
    atomic_fetch_add(&s->fills, 1);
    if (pick->index == s->fail_index)
        return wfi_problem_set(problem, WF_ERR_IO, "sample %d is gone", (int)pick->index);
    int32_t *to = x;
    to[0] = (int32_t)pick->index;
    to[1] = (int32_t)pick->epoch;
    to[2] = (int32_t)pick->position;
    if (y)
        *(int64_t *)y = pick->index * 10;
    return WF_OK;
}

static void probe_close(void *self)
{
    ((probe *)self)->closed++;
}

static wfi_mem mem;

static wfi_dataset make(probe *s, int64_t n, bool labels)
{
    wfi_dataset d = { .n = n, .fill = probe_fill, .close = probe_close, .self = s };
    d.x = (wfi_part){ .dtype = WF_I32, .ndim = 1, .dims = { 3 } };
    assert_true(wfi_dataset_part(&d.x));
    d.y = (wfi_part){ .dtype = WF_I64 };
    if (labels)
        assert_true(wfi_dataset_part(&d.y));
    return d;
}

static int setup(void **state)
{
    (void)state;
    wfi_mem_init(&mem, NULL, NULL, 0);
    return 0;
}

static int no_leak(void **state)
{
    (void)state;
    return mem.live == 0 ? 0 : -1;
}

/* The batch is what (seed, epoch, position) say. */
static void check_batch(const wfi_batch *b, const wfi_loader_opts *o, int64_t n)
{
    wfi_order order = wfi_order_make(o->seed, b->at.epoch, n);
    const int32_t *x = b->x;
    const int64_t *y = b->y;
    assert_int_equal((uintptr_t)b->x % 64, 0);
    for (int64_t i = 0; i < b->n; i++) {
        int64_t position = b->at.position + i, want = o->shuffle ? wfi_order_at(&order, position) : position;
        assert_int_equal(x[3 * i], want);
        assert_int_equal(x[3 * i + 1], (int64_t)b->at.epoch);
        assert_int_equal(x[3 * i + 2], position);
        if (y)
            assert_int_equal(y[i], want * 10);
    }
}

/* Runs `epochs` epochs and checks every batch, every end and every count. */
static void run(wfi_loader *l, const wfi_loader_opts *o, int64_t n, uint64_t epochs)
{
    wfi_problem p = { 0 };
    wfi_batch b;
    int64_t batch = o->batch ? o->batch : 1, samples = o->drop_last ? n / batch * batch : n;
    assert_int_equal(wfi_loader_samples(l), samples);
    assert_int_equal(wfi_loader_batches(l), (samples + batch - 1) / batch);
    for (uint64_t e = 0; e < epochs; e++) {
        int64_t position = 0, batches = 0;
        for (;; batches++) {
            assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
            assert_int_equal(b.at.epoch, e);
            assert_int_equal(b.at.position, position);
            if (!b.n)
                break;
            assert_int_equal(b.n, samples - position < batch ? samples - position : batch);
            check_batch(&b, o, n);
            position += b.n;
        }
        assert_int_equal(position, samples);
        assert_int_equal(batches, wfi_loader_batches(l));
    }
}

static void epochs(void **state)
{
    static const struct {
        int64_t n, batch;
        bool shuffle, drop_last, labels;
    } rows[] = {
        { 100, 16, true, false, true }, { 100, 16, true, true, true }, { 96, 16, true, false, false },
        { 7, 0, false, false, true },   { 5, 100, true, false, true }, { 1, 1, true, false, true },
        { 3, 3, false, false, false },
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        for (int inline_ = 0; inline_ < 2; inline_++) {
            probe s = { .fail_index = -1 };
            wfi_dataset d = make(&s, rows[r].n, rows[r].labels);
            wfi_loader_opts o = { .batch = rows[r].batch,
                                  .shuffle = rows[r].shuffle,
                                  .drop_last = rows[r].drop_last,
                                  .no_thread = inline_,
                                  .seed = 11 };
            wfi_problem p = { 0 };
            wfi_loader *l = wfi_loader_open(&mem, &d, &o, &p);
            assert_non_null(l);
            uint64_t calls = mem.calls;
            o.batch = o.batch > rows[r].n ? rows[r].n : o.batch;
            run(l, &o, rows[r].n, 4);
            assert_int_equal(mem.calls, calls); /* nothing is allocated after opening */
            wfi_loader_close(l);
            assert_int_equal(s.closed, 1);
        }
    wfi_loader_close(NULL);
}

/* The batch that is held does not change while others are prepared, and pauses on either side change nothing. */
static void timing(void **state)
{
    (void)state;
    for (int who = 0; who < 3; who++) {
        probe s = { .fail_index = -1, .delay_us = who == 1 ? 200 : 0, .random = 5 };
        wfi_dataset d = make(&s, 50, true);
        wfi_loader_opts o = { .batch = 8, .shuffle = true, .seed = 3 };
        wfi_problem p = { 0 };
        wfi_batch b;
        wfi_loader *l = wfi_loader_open(&mem, &d, &o, &p);
        for (int i = 0; i < 70; i++) {
            assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
            check_batch(&b, &o, 50);
            if (who == 2)
                nap(500);
            check_batch(&b, &o, 50);
        }
        wfi_loader_close(l);
    }
}

/* From every place of three epochs, a seek gives what an undisturbed run gives; tell names that place. */
static void seek(void **state)
{
    probe s = { .fail_index = -1 };
    wfi_dataset d = make(&s, 23, true);
    wfi_loader_opts o = { .batch = 5, .shuffle = true, .seed = 77 };
    wfi_problem p = { 0 };
    wfi_batch b;
    wfi_cursor places[18], after[18];
    int64_t n[18];
    (void)state;
    wfi_loader *l = wfi_loader_open(&mem, &d, &o, &p);
    for (int i = 0; i < 18; i++) {
        places[i] = wfi_loader_tell(l);
        assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
        n[i] = b.n;
        after[i] = wfi_loader_tell(l);
    }
    assert_int_equal(after[4].position, 23); /* after the last batch, before the end is told */
    assert_int_equal(after[5].epoch, 1);
    uint64_t random = 1;
    for (int t = 0; t < 400; t++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int i = (int)((random >> 33) % 18);
        assert_int_equal(wfi_loader_seek(l, places[i], &p), WF_OK);
        for (int k = i; k < 18 && k < i + (int)(random >> 60); k++) {
            assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
            assert_int_equal(b.n, n[k]);
            assert_true(b.at.epoch == places[k].epoch && b.at.position == places[k].position);
            assert_true(!b.n || b.x);
            check_batch(&b, &o, 23);
            wfi_cursor c = wfi_loader_tell(l);
            assert_true(c.epoch == after[k].epoch && c.position == after[k].position);
        }
    }
    /* a place that is no multiple of the batch */
    assert_int_equal(wfi_loader_seek(l, (wfi_cursor){ 4, 21 }, &p), WF_OK);
    assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
    assert_true(b.n == 2 && b.at.position == 21);
    check_batch(&b, &o, 23);
    assert_int_equal(wfi_loader_seek(l, (wfi_cursor){ 0, 24 }, &p), WF_ERR_ARG);
    assert_string_equal(p.text, "data: position 24 is outside the epoch's 23 samples");
    assert_int_equal(wfi_loader_tell(l).epoch, 4);
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_loader_seek(l, (wfi_cursor){ 0, -1 }, &p), WF_ERR_ARG);
    wfi_loader_close(l);
}

static void limited(void **state)
{
    (void)state;
    for (int inline_ = 0; inline_ < 2; inline_++) {
        probe s = { .fail_index = -1 };
        wfi_dataset d = make(&s, 10, true);
        wfi_loader_opts o = { .batch = 4, .epochs = 2, .no_thread = inline_ };
        wfi_problem p = { 0 };
        wfi_batch b;
        wfi_loader *l = wfi_loader_open(&mem, &d, &o, &p);
        run(l, &o, 10, 2);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
            assert_int_equal(b.n, 0);
        }
        assert_int_equal(s.fills, 20);
        assert_int_equal(wfi_loader_seek(l, (wfi_cursor){ 1, 8 }, &p), WF_OK);
        assert_int_equal(wfi_loader_next(l, &b, &p), WF_OK);
        assert_int_equal(b.n, 2);
        wfi_loader_close(l);
    }
}

/* A failure comes in its place: the batches before it come whole, it repeats until a seek, and a seek cures it. */
static void failures(void **state)
{
    (void)state;
    for (int inline_ = 0; inline_ < 2; inline_++) {
        probe s = { .fail_index = 17 };
        wfi_dataset d = make(&s, 40, true);
        wfi_loader_opts o = { .batch = 4, .no_thread = inline_ };
        wfi_batch b;
        wfi_loader *l = wfi_loader_open(&mem, &d, &o, NULL);
        for (int i = 0; i < 4; i++) {
            assert_int_equal(wfi_loader_next(l, &b, NULL), WF_OK);
            check_batch(&b, &o, 40);
        }
        for (int i = 0; i < 3; i++) {
            wfi_problem p = { 0 };
            assert_int_equal(wfi_loader_next(l, &b, &p), WF_ERR_IO);
            assert_string_equal(p.text, "sample 17 is gone");
            assert_true(b.n == 0 && b.x == NULL);
            assert_int_equal(wfi_loader_tell(l).position, 16);
        }
        assert_int_equal(wfi_loader_seek(l, (wfi_cursor){ 0, 20 }, NULL), WF_OK);
        assert_int_equal(wfi_loader_next(l, &b, NULL), WF_OK);
        check_batch(&b, &o, 40);
        assert_int_equal(b.at.position, 20);
        wfi_loader_close(l);
    }
}

/* Closing while nothing, something or everything is prepared, with a fast and a slow data set. */
static void closing(void **state)
{
    (void)state;
    for (int t = 0; t < 300; t++) {
        probe s = { .fail_index = t % 11 ? -1 : 30, .delay_us = t % 3 ? 0 : 50, .random = (uint64_t)t };
        wfi_dataset d = make(&s, 40, t % 2);
        wfi_loader_opts o = { .batch = 1 + t % 7, .shuffle = true, .epochs = (uint64_t)(t % 4) };
        wfi_batch b;
        wfi_loader *l = wfi_loader_open(&mem, &d, &o, NULL);
        for (int i = 0; i < t % 5; i++)
            (void)wfi_loader_next(l, &b, NULL);
        if (t % 6 == 5)
            (void)wfi_loader_seek(l, (wfi_cursor){ (uint64_t)t % 3, t % 40 }, NULL);
        if (t % 4 == 0)
            nap(t % 200);
        wfi_loader_close(l);
        assert_int_equal(s.closed, 1);
        assert_int_equal(mem.live, 0);
    }
}

static void empty(void **state)
{
    (void)state;
    for (int drop = 0; drop < 2; drop++) {
        probe s = { .fail_index = -1 };
        wfi_dataset d = make(&s, drop ? 5 : 0, true); /* five samples, batches of eight, the short one dropped: none */
        wfi_batch b;
        wfi_loader *l = wfi_loader_open(&mem, &d, &(wfi_loader_opts){ .batch = 8, .drop_last = drop }, NULL);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(wfi_loader_next(l, &b, NULL), WF_OK);
            assert_int_equal(b.n, 0);
        }
        assert_int_equal(wfi_loader_tell(l).epoch, 3);
        assert_int_equal(wfi_loader_batches(l), 0);
        wfi_loader_close(l);
    }
}

static void opening(void **state)
{
    (void)state;
    probe s = { .fail_index = -1 };
    wfi_dataset d = make(&s, 40, true);
    wfi_problem p = { 0 };
    assert_null(wfi_loader_open(&mem, &d, &(wfi_loader_opts){ .batch = -3 }, &p));
    assert_string_equal(p.text, "data: batch is -3, want at least 1");
    assert_int_equal(s.closed, 1);
    /* each allocation fails once */
    int failed = 0;
    for (int64_t k = 0;; k++) {
        p = (wfi_problem){ 0 };
        mem.fail_at = k;
        wfi_loader *l = wfi_loader_open(&mem, &d, &(wfi_loader_opts){ .batch = 4 }, &p);
        bool hit = mem.fail_at < 0;
        mem.fail_at = -1;
        assert_true(hit == !l);
        if (l) {
            wfi_loader_close(l);
            break;
        }
        assert_int_equal(p.status, WF_ERR_MEMORY);
        assert_int_equal(mem.live, 0);
        failed++;
    }
    assert_int_equal(failed, 7);
    /* buffers whose size overflows */
    d.n = INT64_MAX;
    d.x.bytes = SIZE_MAX / 2;
    p = (wfi_problem){ 0 };
    assert_null(wfi_loader_open(&mem, &d, &(wfi_loader_opts){ .batch = 1000 }, &p));
    assert_int_equal(p.status, WF_ERR_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(epochs, setup, no_leak),
        cmocka_unit_test_setup_teardown(timing, setup, no_leak),
        cmocka_unit_test_setup_teardown(seek, setup, no_leak),
        cmocka_unit_test_setup_teardown(limited, setup, no_leak),
        cmocka_unit_test_setup_teardown(failures, setup, no_leak),
        cmocka_unit_test_setup_teardown(closing, setup, no_leak),
        cmocka_unit_test_setup_teardown(empty, setup, no_leak),
        cmocka_unit_test_setup_teardown(opening, setup, no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
