/* pool.h - a worker pool for parallelism inside one operator.
 *
 * A job is cut into chunks that are claimed by compare-and-swap; the caller works too and never waits for a worker
 * that has not started, so a busy machine costs throughput, not a stall. Workers spin for at most 2,000 pauses and
 * then sleep on a futex. A chunk is always the same piece of work: which worker runs it must never change a result.
 *
 *     static void half(void *arg, int64_t chunk, int worker) { ... }
 *     wfi_pool_run(pool, 2, half, &job);
 */
#ifndef WFI_BASE_POOL_H
#define WFI_BASE_POOL_H
#include <stdint.h>
#include "base/mem.h"

typedef struct wfi_pool wfi_pool;

/* Called once for every chunk in 0 .. chunks-1. worker is in 0 .. wfi_pool_threads()-1; two chunks that run at the
 * same time have different workers, so it indexes scratch memory. */
typedef void wfi_chunk_fn(void *arg, int64_t chunk, int worker);

/* threads counts the caller; 1 makes a pool that runs everything inline. NULL: out of memory or no thread to be had. */
wfi_pool *wfi_pool_new(wfi_mem *mem, int threads);
void wfi_pool_free(wfi_pool *p); /* NULL is accepted; no job may be running */

/* NULL counts as one thread. */
int wfi_pool_threads(const wfi_pool *p);

/* Runs fn for every chunk and returns when all are done. p may be NULL. Called while another thread's job is running
 * (two contexts that share a runtime) or from inside a chunk, it runs inline on worker 0's terms: the caller gets
 * exclusive use of its own scratch in both cases, since scratch belongs to the job and not to the pool. */
void wfi_pool_run(wfi_pool *p, int64_t chunks, wfi_chunk_fn *fn, void *arg);

#endif
