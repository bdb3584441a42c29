/* device.h - what a device is: a table of sixteen functions, and how it is asked to carry out a node.
 *
 * Work is submitted to a queue as an array of commands that waits for, and signals, points on timelines: an event is
 * {queue, value}, reached when the queue's counter is at least value. The runtime, not the device, makes sure that
 * inputs are resident and reuses memory by timeline. */
#ifndef WFI_DEVICE_DEVICE_H
#define WFI_DEVICE_DEVICE_H
#include "base/mem.h"
#include "base/pool.h"
#include "base/text.h"
#include "kernel/choice.h"
#include "kernel/kernel.h"
#include "ops_enum.h"

typedef struct wfi_device wfi_device;
typedef struct wfi_queue wfi_queue;

typedef struct wfi_event {
    wfi_queue *queue;
    uint64_t value;
} wfi_event;

typedef enum wfi_cmd_kind {
    WFI_CMD_KERNEL = 0,
    WFI_CMD_COPY = 1,    /* args {to, from}, bytes */
    WFI_CMD_FILL = 2,    /* args {to}, bytes of zeros */
    WFI_CMD_HOST = 3,    /* fn on the host, in order */
    WFI_CMD_STAMP = 4,   /* writes the clock (ns) to args[0] */
    WFI_CMD_EXEC = 5,    /* params is a wfi_cmd_batch of commands recorded before */
    WFI_CMD_BARRIER = 6, /* later commands see what earlier ones wrote */
    WFI_CMD_COLLECTIVE = 7
} wfi_cmd_kind;

typedef struct wfi_cmd {
    wfi_kernel_fn *fn;
    const void *params;
    void *const *args;
    size_t bytes; /* COPY, FILL; KERNEL: scratch that it needs */
    uint32_t node;
    uint8_t kind;
    bool faults; /* may fail: the queue stops behind it if it did */
} wfi_cmd;

typedef struct wfi_cmd_batch {
    uint32_t n;
    const wfi_cmd *cmd;
} wfi_cmd_batch;

/* ---- one node asked of a device ---- */

#define WFI_BIND_IN     32 /* operands at most (concat); more are joined in steps */
#define WFI_BIND_OUT    4
#define WFI_BIND_PARAMS 16384 /* several kernels' parameters may stand together */

/* Some kernels first rearrange an operand: weights into panels, say. Where it is the same in every run, a variable that
 * nobody changes, that is done once. */
typedef struct wfi_keep {
    int32_t operand;
    size_t bytes;        /* of the room for the rearranged operand; 0: there is nothing to keep */
    wfi_kernel_fn *fill; /* writes the room. Its args are those of the node and, behind them, the room */
    wfi_kernel_fn *fn;   /* does the node with such args; the room stands for the operand */
} wfi_keep;

/* What there is to be chosen about a node (kernel/choice.h), and how it will run as it is bound. */
typedef struct wfi_offer {
    int nknob; /* 0: nothing */
    wfi_knob knob[WFI_KNOBS];
    wfi_traits traits;
} wfi_offer;

/* In: what is asked. Out, filled by the implementation that accepts: how it is done. */
typedef struct wfi_bind {
    uint32_t op; /* wfi_op */
    const wfi_attrs *attr;
    int32_t nin, nout;
    const wfi_view *in; /* in[nin]; dtype WF_DTYPE_NONE: operand not given */
    wfi_view *out;      /* out[nout]: dtype and shape stand, strides are row-major and may be changed */
    int32_t threads;
    const wfi_choice *choice; /* how it is to be done; NULL: as was found best before, else by rule */
    wfi_offer *offer;         /* NULL, or is filled, too */
    bool split;               /* products of f32 may be made of parts: order class f32_bf16x3 */

    wfi_kernel_fn *fn;   /* NULL with alias >= 0: no work at all */
    wfi_kernel_fn *list; /* may run several such nodes at once (a wfi_kernel_list); NULL: there is no such function */
    void *params;        /* WFI_BIND_PARAMS bytes, aligned to 64 */
    size_t params_bytes;
    size_t scratch;
    int32_t alias;                     /* out[0] is a view of operand `alias` (-1: it is not) ... */
    int64_t alias_offset;              /* ... which begins so many elements after the operand's first */
    uint32_t inplace;                  /* bit i: out[0] may take the buffer of operand i, if their layouts are equal */
    uint32_t inplace_of[WFI_BIND_OUT]; /* the same for the further outputs */
    wfi_keep keep;
    bool faults;
    bool tunable, tuned;              /* something could be chosen; it was done as was found best before */
    const char *impl;                 /* "cpu.gemm" */
    const char *order;                /* the order class of its sums, "" if it has none */
    const _Atomic(const char *) *how; /* NULL, or what carries it out at this moment, which may change */
    wfi_text *declined;               /* NULL, or takes ", not NAME: why" of each implementation that declined */
} wfi_bind;

/* ---- what a device can do at most ---- */

enum { WFI_ROOF_LEVELS = 4 };

typedef struct wfi_roof_level {
    const char *name;   /* "L2" */
    size_t bytes;       /* that it holds, of all threads together; the last one holds everything */
    double read, write; /* bytes a second, all threads together */
} wfi_roof_level;

typedef struct wfi_roofs {
    const char *name; /* "avx2" */
    int threads;
    double flops[WF_DTYPE_COUNT]; /* operations a second by element type; a multiply-add counts as two */
    wfi_roof_level level[WFI_ROOF_LEVELS];
    int levels;
} wfi_roofs;

typedef struct wfi_device_api {
    uint32_t version; /* of this table: 2 */
    const char *name;
    int (*probe)(void);                                        /* devices there are */
    wfi_device *(*open)(wfi_mem *mem, int index, int threads); /* NULL: no memory, no thread */
    void (*close)(wfi_device *d);
    void *(*alloc)(wfi_device *d, size_t bytes);
    void (*free)(wfi_device *d, void *p);
    void *(*map)(wfi_device *d, void *p); /* where the host sees it; NULL: it does not */
    wfi_queue *(*queue_new)(wfi_device *d);
    void (*queue_del)(wfi_queue *q);
    /* Runs the commands in order after all waits; then the queue's counter is `signal` (0: the next number). */
    wf_status (*submit)(wfi_queue *q, const wfi_cmd *cmd, uint32_t n, const wfi_event *waits, uint32_t nwaits,
                        uint64_t signal);
    wf_status (*wait)(wfi_queue *q, uint64_t value);
    uint64_t (*poll)(const wfi_queue *q); /* the counter now */
    /* Why a node cannot be done (a const string; all reasons in b->declined), or NULL: bound. */
    const char *(*module_load)(wfi_device *d, wfi_bind *b);
    wfi_kernel_fn *(*kernel)(wfi_device *d, const wfi_bind *b);
    void (*module_free)(wfi_device *d, wfi_bind *b);
    const wfi_cmd_batch *(*record)(wfi_queue *q, const wfi_cmd *cmd, uint32_t n); /* optional */
    /* States or measures what it can do at most; may take some 20 ms. False: out of memory. */
    bool (*roofs)(wfi_device *d, wfi_roofs *r);
} wfi_device_api;

/* Devices embed this first. */
struct wfi_device {
    const wfi_device_api *api;
    wfi_mem *mem;
    wfi_pool *pool;
    int threads;
    struct wfi_generator *generator; /* of kernels that are compiled at run time; NULL: there is none */
    struct wfi_records *records;     /* of what was found best; NULL: not asked */
};
struct wfi_queue {
    wfi_device *device;
    _Atomic uint64_t value; /* the timeline */
    wfi_fault fault;        /* of the last submit */
    void *scratch;
    size_t scratch_bytes;
};

extern const wfi_device_api wfi_device_cpu;

/* Room for at least `bytes` of scratch; only between submits. False: out of memory. */
bool wfi_queue_reserve(wfi_queue *q, size_t bytes);

#endif
