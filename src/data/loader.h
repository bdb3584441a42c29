/* loader.h - batches of a data set, prepared ahead by one thread.
 *
 *     wfi_loader *l = wfi_loader_open(mem, &dataset, &(wfi_loader_opts){ .batch = 128, .shuffle = true }, &problem);
 *     for (wfi_batch b; !wfi_loader_next(l, &b, &problem) && b.n; )    one epoch; the next call begins the next one
 *         use(b.x, b.y, b.n);
 *     wfi_loader_close(l);
 *
 * Which samples stand in which batch is a function of (seed, epoch, position) alone. The place in the data is a cursor
 * of two numbers: a run that saves wfi_loader_tell and later seeks there gets the same batches as one that never
 * stopped, also from the middle of an epoch.
 *
 * Three buffers: the consumer holds one, two are full or being filled. Both sides sleep when they must wait. */
#ifndef WFI_DATA_LOADER_H
#define WFI_DATA_LOADER_H
#include "data/dataset.h"

typedef struct wfi_loader wfi_loader;

typedef struct wfi_loader_opts {
    int64_t batch; /* samples; 0: 1 */
    bool shuffle;
    bool drop_last;  /* leave out an epoch's last batch where it would be short */
    bool no_thread;  /* prepare each batch in wfi_loader_next (for tests, and where no thread is to be had) */
    uint64_t seed;   /* of the order */
    uint64_t epochs; /* after so many epochs there are no more batches; 0: no end */
} wfi_loader_opts;

/* The place of the next batch. position == samples of the epoch: its end is what comes next. */
typedef struct wfi_cursor {
    uint64_t epoch;
    int64_t position;
} wfi_cursor;

/* A batch. x: [n, ...x.dims] of the data set, y the same (NULL if absent), both row-major, aligned to 64 bytes.
 * They belong to the loader until the next call of next, seek or close. n == 0: the epoch is over. */
typedef struct wfi_batch {
    void *x, *y;
    int64_t n;
    wfi_cursor at; /* where it came from */
} wfi_batch;

/* Takes the data set over: it is closed with the loader, and also when opening fails. NULL: see problem. The buffers
 * are allocated here, the thread starts here; nothing is allocated later. */
wfi_loader *wfi_loader_open(wfi_mem *mem, const wfi_dataset *data, const wfi_loader_opts *opts, wfi_problem *problem);

/* The next batch, or n == 0 once at the end of each epoch (for ever after the last one). A failure to make a batch
 * comes where that batch would have come, and again at each call until a seek; before it all batches come. */
wf_status wfi_loader_next(wfi_loader *l, wfi_batch *b, wfi_problem *problem);

/* Where the next call of next will read. */
wfi_cursor wfi_loader_tell(const wfi_loader *l);

/* WF_ERR_ARG: position outside 0 .. samples of an epoch (the place stays). It also clears a failure. */
wf_status wfi_loader_seek(wfi_loader *l, wfi_cursor to, wfi_problem *problem);

int64_t wfi_loader_samples(const wfi_loader *l); /* of an epoch, without those that drop_last leaves out */
int64_t wfi_loader_batches(const wfi_loader *l); /* of an epoch */
const wfi_dataset *wfi_loader_data(const wfi_loader *l);

/* At any moment; waits for at most one sample to be written. NULL is accepted. */
void wfi_loader_close(wfi_loader *l);

#endif
