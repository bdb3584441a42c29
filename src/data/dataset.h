/* dataset.h - what a loader reads: n samples, and a function that writes one of them.
 *
 *     wfi_dataset d;
 *     wf_status st = wfi_dataset_open(mem, "fashion-mnist:train", NULL, &d, &problem);
 *     ...
 *     wfi_dataset_close(&d);
 *
 * A sample has a first part x and a second part y (an image and its label; y may be absent: y.bytes is 0).
 *
 * Names:
 *     fashion-mnist:train  fashion-mnist:test   60,000 / 10,000 images f32[1,28,28] in 0..1, labels i64[]
 *     mnist:train          mnist:test           the same files by the same names
 *     idx:IMAGES:LABELS                         two files of that kind, gzipped or not
 *     text:FILE:train      text:FILE:test       windows of a file's bytes: x is i64[T], y the same one byte further;
 *                                               the last twentieth of the file is the test part
 */
#ifndef WFI_DATA_DATASET_H
#define WFI_DATA_DATASET_H
#include "base/mem.h"
#include "data/problem.h"

/* One part of a sample. */
typedef struct wfi_part {
    wf_dtype dtype;
    int32_t ndim; /* of one sample, without the batch dimension; at most WF_RANK_MAX - 1 */
    int64_t dims[WF_RANK_MAX];
    size_t bytes; /* of one sample; 0: this part is absent */
} wfi_part;

/* Which sample: the loader sets all of it. */
typedef struct wfi_pick {
    uint64_t seed, epoch;
    int64_t position; /* in the epoch */
    int64_t index;    /* which sample: position, shuffled if that was asked for */
    bool shuffle;
} wfi_pick;

typedef struct wfi_dataset {
    int64_t n; /* samples of an epoch */
    wfi_part x, y;
    /* Writes sample `pick` to x and y. Called from one thread at a time; reads no clock and no random source but the
     * pick's numbers. A failure stops the loader at this sample. */
    wf_status (*fill)(void *self, const wfi_pick *pick, void *x, void *y, wfi_problem *problem);
    void (*close)(void *self); /* NULL: nothing to close */
    void *self;
} wfi_dataset;

typedef struct wfi_dataset_opts {
    const char *folder; /* WEFT_DATA of the environment; NULL or "": the system's folder, /usr/share/datasets/NAME */
    int64_t window;     /* text: T, positions in a sample; 0: 128 */
    bool whole;         /* text: x has all T + 1 bytes, and there is no y */
} wfi_dataset_opts;

/* Opens a data set by name; opts may be NULL. WF_ERR_ARG: no such name; WF_ERR_IO: a file is missing (the text says
 * which folders were looked in and what to install); others as wfi_idx_read. On failure *out is all zero. */
wf_status wfi_dataset_open(wfi_mem *mem, const char *name, const wfi_dataset_opts *opts, wfi_dataset *out,
                           wfi_problem *problem);

/* Images and labels in two IDX files, `images` of u8[n,h,w] and `labels` of u8[n]. */
wf_status wfi_dataset_images(wfi_mem *mem, const char *images, const char *labels, wfi_dataset *out,
                             wfi_problem *problem);

/* Windows of a file's bytes. An epoch has (bytes of the part - 1) / T of them. With shuffle each begins at an even draw
 * of (seed, epoch, position), without it one after the other, sharing one byte. */
wf_status wfi_dataset_text(wfi_mem *mem, const char *path, bool test, const wfi_dataset_opts *opts, wfi_dataset *out,
                           wfi_problem *problem);

/* The dims and bytes of a part: dtype and dims[0..ndim) are set by the caller, all of them >= 1. */
bool wfi_dataset_part(wfi_part *p);

void wfi_dataset_close(wfi_dataset *d); /* NULL and all-zero are accepted */

#endif
