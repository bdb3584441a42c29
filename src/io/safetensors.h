/* safetensors.h - named tensors in a file, as Hugging Face's safetensors format has them.
 *
 *     u64   N, little-endian: bytes of the header, at most 100,000,000
 *     JSON  {"__metadata__": {"key": "text"}, "name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...}
 *     data  the tensors, row-major, little-endian; the offsets cover it without hole or overlap
 *
 * The reader takes a whole file or nothing. It parses the header itself, without recursion, in one pass over bounded
 * bytes after a scan for UTF-8 and nesting. Every failure is one line that says where: "w.safetensors: at byte 31:
 * "fc1.bias" shape: got 4.0, want a whole number".
 *
 * The format has no checksum, so the writer adds one as metadata: "weft.crc32c", over the header (with the checksum's
 * own digits as zeros) and the data, and "weft.format": "1". The reader wants both or neither, so that no single
 * damaged bit of a file that Weft wrote goes unseen. A file without them is read as it is.
 *
 *     wfi_safetensors f;
 *     if (!wfi_safetensors_read(mem, "w.safetensors", &f, &problem)) {
 *         const wfi_named *w = wfi_safetensors_find(&f, "fc1.weight");
 *         ...
 *         wfi_safetensors_free(&f);
 *     }
 */
#ifndef WFI_IO_SAFETENSORS_H
#define WFI_IO_SAFETENSORS_H
#include "base/file.h"
#include "base/mem.h"
#include "data/problem.h"

/* A tensor with a name, in host memory: row-major, little-endian. */
typedef struct wfi_named {
    const char *name; /* UTF-8 */
    wf_dtype dtype;
    int32_t ndim; /* 0 .. WF_RANK_MAX */
    int64_t dims[WF_RANK_MAX];
    const void *data; /* read: inside the file's bytes, with no promise of alignment; NULL is legal for 0 bytes */
    size_t bytes;
    /* Set by the reader: */
    size_t at;     /* byte of the file at which its name stands */
    size_t offset; /* of the data, in the data section */
} wfi_named;

/* A line of metadata. */
typedef struct wfi_meta {
    const char *key, *value; /* UTF-8 */
    /* Set by the reader: bytes of the file at which they stand. */
    size_t key_at, value_at;
} wfi_meta;

typedef struct wfi_safetensors {
    wfi_mem *mem;
    wfi_named *tensors; /* in the header's order */
    uint32_t *by_name;  /* indices of tensors, sorted by name (bytes) */
    size_t n;
    wfi_meta *meta; /* in the header's order */
    size_t nmeta;
    bool checked; /* it had a checksum, which was right */
    /* private: */
    wfi_arena names;
    void *file; /* NULL: the bytes are the caller's */
} wfi_safetensors;

/* Reads a file whole. WF_ERR_IO: it cannot be read (the text says why, "No such file" for one that is missing);
 * WF_ERR_FORMAT: it is damaged; WF_ERR_UNSUPPORTED: a type or rank that Weft does not have; WF_ERR_MEMORY. On failure
 * *out is empty. */
wf_status wfi_safetensors_read(wfi_mem *mem, const char *path, wfi_safetensors *out, wfi_problem *problem);

/* The same over bytes in memory, which must outlive *out; name is for messages. */
wf_status wfi_safetensors_parse(wfi_mem *mem, const char *name, const void *bytes, size_t size, wfi_safetensors *out,
                                wfi_problem *problem);

const wfi_named *wfi_safetensors_find(const wfi_safetensors *f, const char *name); /* NULL: no such tensor */
const char *wfi_safetensors_meta(const wfi_safetensors *f, const char *key);       /* NULL: no such key */
void wfi_safetensors_free(wfi_safetensors *f);                                     /* NULL, empty: accepted */

/* Writes n tensors, sorted by name, and metadata, sorted by key; the same contents always give the same bytes. Names
 * and keys must be unique, UTF-8, and not "__metadata__" or "weft.crc32c", "weft.format". The file appears at once
 * and whole: when anything fails, what was at path before is untouched. */
wf_status wfi_safetensors_write(wfi_mem *mem, const char *path, const wfi_named *tensors, size_t n,
                                const wfi_meta *meta, size_t nmeta, wfi_problem *problem);

/* The same through a writer of the caller's, so that tests can make its calls to the system fail. */
wf_status wfi_safetensors_write_by(wfi_file *f, const char *path, const wfi_named *tensors, size_t n,
                                   const wfi_meta *meta, size_t nmeta, wfi_problem *problem);

/* ---- shared by reader and writer ---- */

#define WFI_SAFETENSORS_HEADER_MAX  100000000 /* bytes */
#define WFI_SAFETENSORS_TENSORS_MAX 1000000

const char *wfi_safetensors_dtype_name(wf_dtype t); /* "F32"; NULL: the format has no such type */
wf_dtype wfi_safetensors_dtype_of(const char *name, size_t n);

/* Bytes of p that are UTF-8: n if all are. */
size_t wfi_safetensors_utf8(const uint8_t *p, size_t n);

/* Sorts indices so that less(ctx, a, b) never holds for a later a and an earlier b; in place, n log n, no recursion. */
void wfi_safetensors_sort(uint32_t *v, size_t n, bool (*less)(const void *ctx, uint32_t a, uint32_t b),
                          const void *ctx);

#endif
