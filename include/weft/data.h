/* data.h - data sets in batches, prepared by a thread of their own.
 *
 *     wf_data *d = wf_data_open(c, "fashion-mnist:train", .batch = 128, .shuffle = true);
 *     for (wf_batch b; wf_data_next(d, &b); ) { ... b.x, b.y ... }
 */
#ifndef WEFT_DATA_H
#define WEFT_DATA_H
#include "weft/tensor.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_data wf_data;

typedef struct wf_batch {
    wf_tensor *x;     /* images: f32[B,1,28,28] in 0..1; text: i64[B,T] */
    wf_tensor *y;     /* labels: i64[B]; text: i64[B,T], x one further */
    int64_t count;    /* B: the last batch of an epoch may be smaller */
    int64_t epoch;    /* 0, 1, ... */
    int64_t position; /* of the first sample in its epoch */
} wf_batch;

typedef struct wf_data_opts {
    WF_HEAD;
    int64_t batch WF_Z;  /* samples in a batch; 0: 1 */
    bool shuffle WF_Z;   /* another order in every epoch, a function of (seed, epoch, position) alone */
    bool drop_last WF_Z; /* leave a smaller last batch out */
    uint64_t seed WF_Z;  /* 0: the context's */
    int64_t window WF_Z; /* text: positions in a sample; 0: 128 */
} wf_data_opts;

/* "fashion-mnist:train", "fashion-mnist:test": IDX files in WEFT_DATA, else where Debian puts them.
 * "idx:IMAGES:LABELS": two IDX files, gzipped or not. "text:FILE:train", "text:FILE:test": windows of bytes of FILE,
 * whose last twentieth is the test part. The context owns the result; NULL and a pending error if it fails. */
WF_API wf_data *wf_data_open_(wf_ctx *c, const char *name, const wf_data_opts *o, const char *site);
#define wf_data_open(c, ...)         wf_data_open_o(c, __VA_ARGS__, )
#define wf_data_open_o(c, name, ...) wf_data_open_(c, name, WF_OPTS(wf_data_opts, __VA_ARGS__), WF_SITE)
/* The next batch; false at the end of an epoch (the next call starts the next one) or when an error is pending.
 * The tensors live until the next call, longer for steps that use them. */
WF_API bool wf_data_next(wf_data *d, wf_batch *b);
WF_API int64_t wf_data_count(const wf_data *d);   /* samples in an epoch */
WF_API int64_t wf_data_batches(const wf_data *d); /* batches in an epoch */
/* Goes to a place, for resuming: the next batch begins there. */
WF_API wf_status wf_data_seek(wf_data *d, int64_t epoch, int64_t position);
WF_API void wf_data_close(wf_data *d); /* NULL is accepted; closing the context does it as well */

#ifdef __cplusplus
}
#endif
#endif
