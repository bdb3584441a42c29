/* problem.h - the one line that says what is wrong with a file or a data set.
 *
 *     return wfi_problem_at(p, WF_ERR_FORMAT, path, 4, "count", "got %lld, want %lld", got, want);
 *
 * gives "images.gz: at byte 4: count: got 3, want 4". The first problem stays: a later one of the same call does not
 * hide it. What comes out of a file is quoted first, so that no control character reaches a terminal. */
#ifndef WFI_DATA_PROBLEM_H
#define WFI_DATA_PROBLEM_H
#include <stddef.h>
#include <stdint.h>
#include "base/mem.h"
#include "weft/types.h"

typedef struct wfi_problem {
    wf_status status; /* WF_OK: none */
    char text[512];
} wfi_problem;

/* Keeps status and text unless a problem is there already; returns the status that is kept. p may be NULL. */
__attribute__((format(printf, 3, 4))) wf_status wfi_problem_set(wfi_problem *p, wf_status status, const char *format,
                                                                ...);
/* The same with "FILE: at byte N: FIELD: " before the text. A folder before the file's name is kept. */
__attribute__((format(printf, 6, 7))) wf_status wfi_problem_at(wfi_problem *p, wf_status status, const char *file,
                                                               uint64_t byte, const char *field, const char *format,
                                                               ...);
/* "FILE: out of memory (N bytes for WHAT)" */
wf_status wfi_problem_memory(wfi_problem *p, const char *file, const char *what, uint64_t bytes);

/* The whole content of a regular file, from mem; belongs to the caller. */
wf_status wfi_problem_read(wfi_mem *mem, const char *path, void **data, size_t *bytes, wfi_problem *p);

/* The first bytes of a string that is not to be trusted, in double quotes, with control characters, quotes, backslashes
 * and bytes above 126 as \xNN, cut with "..." where it is long. Returns out. */
#define WFI_QUOTED 96
const char *wfi_problem_quote(char out[WFI_QUOTED], const char *s, size_t bytes);

#endif
