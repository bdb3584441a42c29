/* process.h - runs another program: no shell, a clean environment, a limit on its time.
 *
 *     wfi_process p = { .path = "/usr/bin/cc", .argv = argv, .env = env, .dir = -1, .input = { text },
 *                       .seconds = 60 };
 *     if (wfi_process_run(&p)) ... it ended with status 0
 *     else ... p.why says why not, with the first line of what it wrote to standard error
 */
#ifndef WFI_BASE_PROCESS_H
#define WFI_BASE_PROCESS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define WFI_PROCESS_WHY 256

typedef struct wfi_process {
    const char *path; /* absolute */
    char *const *argv;
    char *const *env;         /* the whole environment */
    int dir;                  /* descriptor of its working folder; < 0: ours */
    const char *input[2];     /* its standard input, in two parts; NULL: not given */
    int seconds;              /* then it and its children are killed */
    const _Atomic bool *stop; /* NULL, or: kill it when this becomes true */
    char why[WFI_PROCESS_WHY];
} wfi_process;

/* Runs to the end. Its standard output goes nowhere; it has no other descriptor of ours, no blocked or ignored signals,
 * and a process group of its own. Async-signal state of the caller is not touched. */
bool wfi_process_run(wfi_process *p);

/* The first of `names` (NULL at the end) that is an executable file in an absolute folder of PATH, or that is such a
 * path itself, in out[cap]. False: none. */
bool wfi_process_find(const char *const *names, char *out, size_t cap);

#endif
