/* loader.c - see loader.h.
 *
 * The ring has three slots. `made` and `taken` count batches since the last seek; slot i of batch k is k mod 3. The
 * consumer holds batch taken-1 until it asks again, so the producer may run while made - taken < 2. A seek raises
 * `turn`: the producer sees that its batch is of an older turn and drops it. The consumer knows the cursor of every
 * batch by itself; the ends of epochs pass through no slot. */
#include "data/loader.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include "base/ck.h"
#include "data/order.h"

enum { SLOTS = 3, STACK_BYTES = 512 << 10 };

typedef struct slot {
    uint8_t *x, *y;
    int64_t n;
    wfi_problem problem;
} slot;

struct wfi_loader {
    wfi_mem *mem;
    wfi_dataset data;
    wfi_loader_opts opts;
    int64_t samples; /* of an epoch, after drop_last */
    slot slots[SLOTS];
    wfi_cursor read; /* the consumer's place */

    pthread_mutex_t lock;
    pthread_cond_t filled, emptied; /* batch made; slot free, seek or stop */
    pthread_t thread;
    bool threaded;
    /* under the lock: */
    wfi_cursor write; /* the producer's place */
    uint64_t made, taken;
    bool failed; /* the newest made batch is a failure: nothing is made after it */
    /* written under the lock, read by the producer between samples without it: */
    _Atomic uint64_t turn;
    atomic_bool stop;
};

static bool past_last(const wfi_loader *l, wfi_cursor c)
{
    return l->opts.epochs && c.epoch >= l->opts.epochs;
}

/* Skips an epoch's end; false: no batch comes any more. */
static bool normalise(const wfi_loader *l, wfi_cursor *c)
{
    if (!l->samples || past_last(l, *c))
        return false;
    if (c->position >= l->samples)
        *c = (wfi_cursor){ c->epoch + 1, 0 };
    return !past_last(l, *c);
}

static int64_t batch_size(const wfi_loader *l, wfi_cursor c)
{
    int64_t left = l->samples - c.position;
    return left < l->opts.batch ? left : l->opts.batch;
}

/* Writes the batch at c. Stops early when the turn is over; then the slot holds nothing of use. */
static void fill(wfi_loader *l, slot *s, wfi_cursor c, uint64_t turn)
{
    wfi_order order = wfi_order_make(l->opts.seed, c.epoch, l->data.n);
    int64_t n = batch_size(l, c);
    s->n = n;
    s->problem.status = WF_OK;
    for (int64_t i = 0; i < n; i++) {
        if (atomic_load_explicit(&l->turn, memory_order_relaxed) != turn ||
            atomic_load_explicit(&l->stop, memory_order_relaxed))
            return;
        wfi_pick pick = { .seed = l->opts.seed,
                          .epoch = c.epoch,
                          .position = c.position + i,
                          .index = l->opts.shuffle ? wfi_order_at(&order, c.position + i) : c.position + i,
                          .shuffle = l->opts.shuffle };
        wf_status st = l->data.fill(l->data.self, &pick, s->x + (size_t)i * l->data.x.bytes,
                                    s->y ? s->y + (size_t)i * l->data.y.bytes : NULL, &s->problem);
        if (st) {
            wfi_problem_set(&s->problem, st, "data: sample %lld of epoch %llu could not be read", (long long)pick.index,
                            (unsigned long long)c.epoch);
            return;
        }
    }
}

static void *producer(void *arg)
{
    wfi_loader *l = arg;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->stop && (l->failed || l->made - l->taken >= SLOTS - 1 || !normalise(l, &l->write)))
            pthread_cond_wait(&l->emptied, &l->lock);
        if (l->stop)
            break;
        uint64_t turn = l->turn;
        wfi_cursor at = l->write;
        slot *s = &l->slots[l->made % SLOTS];
        pthread_mutex_unlock(&l->lock);
        fill(l, s, at, turn);
        pthread_mutex_lock(&l->lock);
        if (l->stop || turn != l->turn)
            continue;
        l->write.position += s->n;
        l->failed = s->problem.status != WF_OK;
        l->made++;
        pthread_cond_signal(&l->filled);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* The thread takes no signals: Ctrl-C belongs to the program's own threads. */
static bool start(wfi_loader *l)
{
    pthread_attr_t attr;
    sigset_t all, before;
    if (pthread_attr_init(&attr))
        return false;
    sigfillset(&all);
    bool ok = !pthread_attr_setstacksize(&attr, STACK_BYTES) && !pthread_sigmask(SIG_SETMASK, &all, &before);
    if (ok) {
        ok = !pthread_create(&l->thread, &attr, producer, l);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attr);
    return ok;
}

static bool buffers(wfi_loader *l)
{
    size_t x, y;
    if (!wfi_ck_mul((size_t)l->opts.batch, l->data.x.bytes, &x) ||
        !wfi_ck_mul((size_t)l->opts.batch, l->data.y.bytes, &y))
        return false;
    int slots = l->opts.no_thread ? 1 : SLOTS;
    for (int i = 0; i < slots; i++) {
        slot *s = &l->slots[i];
        s->x = wfi_mem_alloc(l->mem, x ? x : 1);
        s->y = y ? wfi_mem_alloc(l->mem, y) : NULL;
        if (!s->x || (y && !s->y))
            return false;
    }
    return true;
}

static void destroy(wfi_loader *l)
{
    for (int i = 0; i < SLOTS; i++) {
        wfi_mem_free(l->mem, l->slots[i].x);
        wfi_mem_free(l->mem, l->slots[i].y);
    }
    pthread_cond_destroy(&l->emptied);
    pthread_cond_destroy(&l->filled);
    pthread_mutex_destroy(&l->lock);
    wfi_dataset_close(&l->data);
    wfi_mem_free(l->mem, l);
}

static wfi_loader *allocate(wfi_mem *mem, const wfi_dataset *data, const wfi_loader_opts *opts)
{
    wfi_loader *l = wfi_mem_zalloc(mem, sizeof *l);
    if (!l)
        return NULL;
    l->mem = mem;
    l->data = *data;
    if (opts)
        l->opts = *opts;
    if (!l->opts.batch)
        l->opts.batch = 1;
    /* no larger buffers than an epoch needs */
    if (l->opts.batch > data->n && data->n > 0 && !l->opts.drop_last)
        l->opts.batch = data->n;
    l->samples = data->n - (l->opts.drop_last ? data->n % l->opts.batch : 0);
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->filled, NULL);
    (void)pthread_cond_init(&l->emptied, NULL);
    return l;
}

wfi_loader *wfi_loader_open(wfi_mem *mem, const wfi_dataset *data, const wfi_loader_opts *opts, wfi_problem *problem)
{
    wfi_dataset own = *data;
    if (opts && opts->batch < 0) {
        wfi_problem_set(problem, WF_ERR_ARG, "data: batch is %lld, want at least 1", (long long)opts->batch);
        wfi_dataset_close(&own);
        return NULL;
    }
    wfi_loader *l = allocate(mem, data, opts);
    if (!l) {
        wfi_problem_memory(problem, "data", "the loader", sizeof *l);
        wfi_dataset_close(&own);
        return NULL;
    }
    if (l->samples && !buffers(l)) {
        wfi_problem_set(problem, WF_ERR_MEMORY, "data: out of memory (buffers for batches of %lld samples)",
                        (long long)l->opts.batch);
        destroy(l);
        return NULL;
    }
    l->threaded = !l->opts.no_thread && l->samples && start(l);
    return l;
}

/* Taking a batch gives the one before it back: made runs ahead of taken by at most SLOTS - 1. */
static slot *wait_for(wfi_loader *l)
{
    pthread_mutex_lock(&l->lock);
    while (l->made == l->taken)
        pthread_cond_wait(&l->filled, &l->lock);
    slot *s = &l->slots[l->taken % SLOTS];
    if (!s->problem.status)
        l->taken++;
    pthread_mutex_unlock(&l->lock);
    return s;
}

/* The batch at l->read, from the ring or made now. */
static slot *next_slot(wfi_loader *l)
{
    if (l->threaded) {
        slot *s = wait_for(l);
        if (!s->problem.status)
            pthread_cond_signal(&l->emptied);
        return s;
    }
    fill(l, &l->slots[0], l->read, l->turn);
    return &l->slots[0];
}

wf_status wfi_loader_next(wfi_loader *l, wfi_batch *b, wfi_problem *problem)
{
    *b = (wfi_batch){ .at = l->read };
    if (past_last(l, l->read))
        return WF_OK;
    if (l->read.position >= l->samples) {
        l->read = (wfi_cursor){ l->read.epoch + 1, 0 };
        return WF_OK;
    }
    slot *s = next_slot(l);
    if (s->problem.status)
        return wfi_problem_set(problem, s->problem.status, "%s", s->problem.text);
    b->x = s->x;
    b->y = s->y;
    b->n = s->n;
    l->read.position += s->n;
    return WF_OK;
}

wfi_cursor wfi_loader_tell(const wfi_loader *l)
{
    return l->read;
}

wf_status wfi_loader_seek(wfi_loader *l, wfi_cursor to, wfi_problem *problem)
{
    if (to.position < 0 || to.position > l->samples)
        return wfi_problem_set(problem, WF_ERR_ARG, "data: position %lld is outside the epoch's %lld samples",
                               (long long)to.position, (long long)l->samples);
    pthread_mutex_lock(&l->lock);
    l->turn++;
    l->write = l->read = to;
    l->made = l->taken = 0;
    l->failed = false;
    pthread_cond_signal(&l->emptied);
    pthread_mutex_unlock(&l->lock);
    return WF_OK;
}

int64_t wfi_loader_samples(const wfi_loader *l)
{
    return l->samples;
}

int64_t wfi_loader_batches(const wfi_loader *l)
{
    return l->samples / l->opts.batch + (l->samples % l->opts.batch != 0);
}

const wfi_dataset *wfi_loader_data(const wfi_loader *l)
{
    return &l->data;
}

void wfi_loader_close(wfi_loader *l)
{
    if (!l)
        return;
    if (l->threaded) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_signal(&l->emptied);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    destroy(l);
}
