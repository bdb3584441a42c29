/* file.h - whole files: read with a limit, written so that the old content or the new is there, never half of it.
 *
 *     wfi_file f = { .mem = m };
 *     void *data;
 *     size_t bytes;
 *     if (wfi_file_read(&f, "model.safetensors", limit, &data, &bytes) != WF_OK)
 *         ... f.why says "model.safetensors: cannot open: No such file or directory"
 *
 *     if (wfi_file_begin(&f, path, total) == WF_OK && wfi_file_put(&f, data, bytes) == WF_OK)
 *         status = wfi_file_commit(&f);
 */
#ifndef WFI_BASE_FILE_H
#define WFI_BASE_FILE_H
#include <stddef.h>
#include <stdint.h>
#include "base/mem.h"
#include "weft/types.h"

#define WFI_FILE_WHY 512

/* One reader or writer: a few calls in a row by one thread. Everything but mem may start as zero. */
typedef struct wfi_file {
    wfi_mem *mem;
    char why[WFI_FILE_WHY]; /* of the last failure: path, what, and the system's word for it */
    /* Tests: the call to the system with this number (from 1; 0: none) fails with this errno. WFI_FILE_SHORT makes it
     * a read or write that moves one byte only. */
    int fail_at;
    int fail_with;
    int calls; /* calls to the system so far, with the failed ones */
    /* A file being written. */
    char *path;    /* copy; NULL: none */
    char temp[32]; /* name of the temporary file in the folder of path */
    int dir, fd;
    unsigned mode;    /* permissions that the finished file gets */
    wf_status status; /* the first failure; later calls only repeat it */
} wfi_file;

#define WFI_FILE_SHORT (-1)

#if defined __GNUC__
#define WFI_USE __attribute__((warn_unused_result))
#else
#define WFI_USE
#endif

/* The whole content of a regular file (links are followed) of at most max bytes: *data, from f->mem, belongs to the
 * caller; a NUL follows it, not counted in *bytes. WF_ERR_IO, WF_ERR_MEMORY, or WF_ERR_FORMAT if it is too large. */
WFI_USE wf_status wfi_file_read(wfi_file *f, const char *path, size_t max, void **data, size_t *bytes);

/* Replaces path in one step. begin opens a temporary file of a random name in the same folder and reserves `bytes`
 * (0: unknown), put appends, commit makes it durable and gives it the name. After a failure nothing of it is left and
 * the old file is as it was; only if the very last step fails, flushing the folder, is the new file there already.
 * A new file's permissions follow the umask, a replaced one keeps its own. What exists and is no regular file is
 * refused. */
WFI_USE wf_status wfi_file_begin(wfi_file *f, const char *path, uint64_t bytes);
WFI_USE wf_status wfi_file_put(wfi_file *f, const void *data, size_t bytes);
WFI_USE wf_status wfi_file_commit(wfi_file *f);
void wfi_file_abandon(wfi_file *f); /* instead of commit; harmless after it, and after a failure */

/* Adds to the end of a file, which is made if it is not there; one write, so that lines of several processes stay
 * whole. No promise that it survives a crash of the machine: for logs. */
WFI_USE wf_status wfi_file_append(wfi_file *f, const char *path, const void *data, size_t bytes);

bool wfi_file_remove(const char *path); /* true: there is no such file any more */

/* begin, put and commit. */
WFI_USE wf_status wfi_file_write(wfi_file *f, const char *path, const void *data, size_t bytes);

#endif
