/* strip_run.h - several kernels over the same rows, run strip by strip: what one makes for the next is still in the
 * caches, and what nobody else needs never leaves a worker's scratch. Each kernel was prepared for one strip; strips
 * are of one size and are what threads share.
 *
 *     for each strip:   x = a + b (64 rows)   m = mean(x)   y = x - m        instead of three walks over all rows
 */
#ifndef WFI_PLAN_STRIP_RUN_H
#define WFI_PLAN_STRIP_RUN_H
#include "kernel/kernel.h"

enum { WFI_STRIP_ARGS = 36 }; /* of a kernel, at most */
#define WFI_STRIP_SHARED ((size_t)-1)

/* Where an operand of a kernel lies for strip number i. */
typedef struct wfi_strip_arg {
    int64_t step; /* bytes behind its address, i times; 0: the same for every strip */
    size_t local; /* ... or so many bytes into the worker's scratch; WFI_STRIP_SHARED: it is not local */
} wfi_strip_arg;

typedef struct wfi_strip_kernel {
    wfi_kernel_fn *fn;
    const void *params;
    uint32_t arg0, nargs; /* its operands: [arg0, arg0 + nargs) of the arguments of the run and of `arg` */
} wfi_strip_kernel;

/* The params of a run. */
typedef struct wfi_strips {
    int64_t count; /* strips */
    uint32_t n;    /* kernels */
    int32_t threads;
    const wfi_strip_kernel *kernel;
    const wfi_strip_arg *arg;
    size_t scratch_at, each; /* bytes of scratch a worker; where that of the kernels begins */
} wfi_strips;

/* params: a wfi_strips; args: those of all kernels, one after the other; scratch: threads * each bytes. */
wfi_kernel_fn wfi_strips_run;

#endif
