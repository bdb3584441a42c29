/* idx.h - the IDX format of the MNIST family: one array, plain or gzipped.
 *
 *     bytes 0-1  zero
 *     byte  2    element type: 08 u8, 09 i8, 0B i16, 0C i32, 0D f32, 0E f64
 *     byte  3    number of dimensions
 *     then       each dimension as a big-endian u32, and the elements, big-endian, in row-major order
 *
 * The file must hold exactly that: a cut file, bytes too many, a wrong checksum of the gzip layer are errors. */
#ifndef WFI_DATA_IDX_H
#define WFI_DATA_IDX_H
#include "base/mem.h"
#include "data/problem.h"

typedef struct wfi_idx {
    wf_dtype dtype;
    int32_t ndim; /* 1 .. WF_RANK_MAX */
    int64_t dims[WF_RANK_MAX];
    int64_t elements;
    void *data; /* elements in the machine's byte order; from the wfi_mem, freed by wfi_idx_free */
    size_t bytes;
} wfi_idx;

/* Reads a file. WF_ERR_IO: it cannot be opened or read; WF_ERR_FORMAT: it is no whole IDX file; WF_ERR_UNSUPPORTED: it
 * is gzipped and this build has no zlib; WF_ERR_MEMORY. On failure *out is all zero. */
wf_status wfi_idx_read(wfi_mem *mem, const char *path, wfi_idx *out, wfi_problem *problem);

/* The same over bytes in memory, which stay the caller's; name is for messages. */
wf_status wfi_idx_parse(wfi_mem *mem, const char *name, const void *bytes, size_t size, wfi_idx *out,
                        wfi_problem *problem);

void wfi_idx_free(wfi_mem *mem, wfi_idx *x); /* NULL and all-zero are accepted */

#endif
