/* kernel.h - what a kernel is given and how it is called. Kernels know nothing of operators, graphs or contexts.
 *
 * A family (gemm, conv, ew, reduce, row, ...) offers two functions for each thing that it can do:
 *   prepare  is called once for a combination of types, shapes and strides. It fills a parameter struct (plain data,
 *            copied with memcpy, at most WFI_PARAMS_MAX bytes), says how many bytes of scratch a run needs, and
 *            declines what it cannot do by returning a reason (a const string; NULL: accepted).
 *   run      has the type wfi_kernel_fn and is called many times. It allocates nothing, takes no lock, and finds its
 *            operands in args: outputs first, then inputs, each the address of logical element [0, 0, ...].
 *
 * The order of every sum is a function of the logical shape, the dtype, the attributes and the instruction set alone.
 */
#ifndef WFI_KERNEL_KERNEL_H
#define WFI_KERNEL_KERNEL_H
#include <stdatomic.h>
#include "base/pool.h"
#include "weft/types.h"

#define WFI_PARAMS_MAX 1024

/* A tensor as a kernel sees it. Strides are in elements; 0 repeats, negative runs backwards. Dimensions of size 1 may
 * have any stride. Element i of dimension d lies at args[k] + i * stride[d] * bytes. */
typedef struct wfi_view {
    wf_dtype dtype;
    int32_t ndim;
    int64_t dim[WF_RANK_MAX];
    int64_t stride[WF_RANK_MAX];
} wfi_view;

/* The first fault of a run, for instance an index out of range; the plan goes on, its results are dropped. */
typedef struct wfi_fault {
    _Atomic int set; /* claimed by the first that fails */
    wf_status status;
    int64_t value;    /* the wrong index ... */
    int64_t position; /* ... where it stands (row-major element number of the index tensor) ... */
    int64_t size;     /* ... and the size that it must stay below */
    uint32_t node;    /* filled in by who runs the command */
    uint32_t op;      /* the same, where it stands in a body of control flow: operator + 1; 0: it does not */
} wfi_fault;

typedef struct wfi_run {
    wfi_pool *pool;   /* NULL: one thread */
    void *scratch;    /* at least the bytes that prepare asked for, aligned to 64 */
    wfi_fault *fault; /* never NULL */
} wfi_run;

typedef void wfi_kernel_fn(const void *params, void *const *args, const wfi_run *run);

/* Several runs of one kernel, none of which touches what another one writes. A family may have a function for them: its
 * `params` is such a list, its args are not used, its scratch the largest of theirs. */
typedef struct wfi_kernel_item {
    const void *params;
    void *const *args;
} wfi_kernel_item;

typedef struct wfi_kernel_list {
    const wfi_kernel_item *item;
    uint32_t n;
} wfi_kernel_list;

static inline void wfi_fault_index(wfi_fault *f, int64_t value, int64_t position, int64_t size)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&f->set, &none, 1)) {
        f->status = WF_ERR_INDEX;
        f->value = value;
        f->position = position;
        f->size = size;
    }
}

#endif
