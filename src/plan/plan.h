/* plan.h - a plan: one step as a flat array of commands over planned memory. Data only: printable, checkable,
 * replayable.
 *
 * A storage is a piece of memory that values live in: a range of the arena, or something outside it (a variable, a
 * leaf, a number, a fresh buffer that outlives the step). Several values may share one storage: views, and results
 * that took the buffer of an operand which died (donation). Every argument of every command is a storage and a byte
 * offset; addresses are patched when they change, which for most is never. */
#ifndef WFI_PLAN_PLAN_H
#define WFI_PLAN_PLAN_H
#include "base/text.h"
#include "device/device.h"
#include "graph/graph.h"
#include "passes/trail.h"
#include "plan/strip_run.h"

typedef enum wfi_place {
    WFI_PLACE_NONE = 0,
    WFI_PLACE_ARENA = 1,
    WFI_PLACE_VAR = 2,    /* id: variable; written in place where `written` is set */
    WFI_PLACE_INPUT = 3,  /* id: record */
    WFI_PLACE_SCALAR = 4, /* id: record */
    WFI_PLACE_HOST = 5,   /* id: index of the composite's numbers */
    WFI_PLACE_CONST = 6,  /* offset into the plan's constants */
    WFI_PLACE_FRESH = 7,  /* a new buffer in every run: results and assigned values */
    WFI_PLACE_STRIP = 8   /* one strip of it at a time, in a worker's scratch; offset: there */
} wfi_place;

typedef struct wfi_storage {
    uint8_t place;
    bool written; /* VAR: the step writes into the variable's own buffer */
    uint32_t id;
    size_t bytes, offset;
    uint32_t first, last; /* commands between which it is alive, inclusive; first: the one that writes it */
} wfi_storage;

typedef struct wfi_plan_arg {
    uint32_t storage;
    int64_t offset; /* bytes */
} wfi_plan_arg;

typedef struct wfi_plan_out { /* what leaves the step: a result, or a variable's new value */
    uint32_t storage, layout;
    uint32_t id;  /* record, or variable */
    uint32_t ext; /* index of the storage among ext; 0 if it is none of them */
    bool assign;
    bool settled; /* a variable that holds its new value already */
} wfi_plan_out;

/* An operand that is kept as a kernel rearranged it: weights of an inference, in panels. */
typedef struct wfi_kept {
    uint32_t cmd, var;
    const wfi_keep *how;
    void *room;       /* NULL: not yet, or there was no memory: the command rearranges it itself */
    uint64_t version; /* of the variable that the room was filled from */
} wfi_kept;

/* Commands [from, to) run strip by strip (strip.c). */
typedef struct wfi_plan_strip {
    uint32_t from, to;
    wfi_strips s; /* the params of its run; its parts are: */
    wfi_strip_kernel *kernel;
    wfi_strip_arg *arg;
    void **own;   /* parameters of each kernel */
    size_t bytes; /* of scratch */
} wfi_plan_strip;

struct wfi_plan {
    wfi_cmd *cmd;
    uint32_t ncmd;
    void **args;         /* of all commands, one after the other */
    wfi_plan_arg *where; /* the same places, symbolically */
    uint32_t nargs;
    wfi_storage *storage;
    uint32_t nstorage;
    uint32_t *ext; /* storages outside the arena and the constants ... */
    uint32_t next;
    uint32_t *ext_arg0; /* ... and their arguments: ext_args[ext_arg0[i] .. ext_arg0[i + 1]) */
    uint32_t *ext_args;
    void **ext_ptr;         /* what was patched last */
    struct wfi_buf **fresh; /* of ext that are FRESH, during a run */
    wfi_plan_out *out;
    uint32_t nout;
    bool settled; /* all of out are */
    uint64_t *konst;
    uint32_t nkonst;
    void *base;                             /* the arena that addresses were patched for */
    size_t arena, bound;                    /* bytes: planned, and the largest sum of live storages */
    size_t there, renewed;                  /* foreseen besides the arena: bytes that were there, of new buffers */
    size_t taken;                           /* bytes of the runtime in the first run */
    bool reuse;                             /* storages share memory (WEFT_REUSE=0 turns it off) */
    uint32_t *cmd_node;                     /* node of each command, for texts */
    wfi_graph graph;                        /* what it was made from */
    wfi_trail trail;                        /* what the passes left behind */
    uint32_t *value_storage, *value_layout; /* of each value of the graph */
    const char **cmd_impl;                  /* "cpu.gemm" */
    const _Atomic(const char *) **cmd_how;  /* NULL, or what carries it out at this moment */
    wfi_kernel_fn **cmd_list;               /* of commands that may run with others like them; NULL */
    const wfi_keep **cmd_keep;              /* of commands that may keep an operand; NULL */
    wfi_kept *kept;
    uint32_t nkept;
    wfi_plan_strip *strip; /* in the order of the commands */
    uint32_t nstrip;
    wfi_cmd *run; /* what is submitted: run i are the commands run0[i] .. run0[i + 1) */
    uint32_t *run0, nrun;
    wfi_kernel_list *list; /* of runs of several commands, whose ... */
    wfi_kernel_item *item; /* ... parameters and arguments these are */
    uint64_t runs;
    /* where it comes from, for texts */
    const struct wfi_trace *trace; /* NULL: it is the plan of a function */
    const char *scope;             /* name of the step's scope, borrowed from the program; may be NULL */
    const char **site;             /* of each record: the program's line, or NULL; borrowed */
    uint32_t nsite;
    struct wfi_profile *profile; /* how long its commands took (exec/profile.h); NULL: nobody asked */
};
typedef struct wfi_plan wfi_plan;

/* The plan of a function, for these layouts of its inputs: its inputs are INPUT storages by number, its results FRESH
 * ones where a command writes them whole and row-major; out[i].id is a result's number. It is not replayed by itself
 * (exec/flow_run.c). NULL and a pending error. */
struct wf_ctx;
struct wfi_func;
wfi_plan *wfi_plan_func(struct wf_ctx *c, const struct wfi_func *f, const uint32_t *layout);

/* Offsets for items that are alive in [first, last], largest first, each at the lowest place that is free all the
 * time; offset[i] is set. Returns the arena's bytes; *bound: the largest sum of bytes alive at once. Sizes are rounded
 * to 64 bytes. SIZE_MAX: out of memory or overflow. */
typedef struct wfi_memplan_item {
    size_t bytes;
    uint32_t first, last;
    size_t offset;
} wfi_memplan_item;
size_t wfi_memplan(wfi_mem *mem, wfi_memplan_item *item, uint32_t n, size_t *bound);

/* Makes p->run of p->cmd: neighbours of one kernel that do not touch each other's memory are one. WEFT_SKIP=join leaves
 * each alone. False: out of memory. */
bool wfi_plan_join(wfi_mem *mem, wfi_plan *p);

void wfi_plan_strip_free(wfi_mem *mem, wfi_plan_strip *t);
/* The group that command q runs in strip by strip, NULL: none. */
static inline const wfi_plan_strip *wfi_plan_strip_of(const wfi_plan *p, uint32_t q)
{
    for (uint32_t i = 0; i < p->nstrip; i++)
        if (p->strip[i].from <= q && q < p->strip[i].to)
            return &p->strip[i];
    return NULL;
}

/* Finds p->kept: operands that only depend on a variable which the step does not change. WEFT_SKIP=keep finds none.
 * False: out of memory. */
bool wfi_plan_keep(wfi_mem *mem, wfi_plan *p);
/* Before the first run, when all other memory has been had: makes room for them. */
void wfi_plan_keep_room(wfi_mem *mem, wfi_plan *p);

/* The command at which most of the arena is alive; live[ncmd + 2], cleared: bytes at each. */
uint32_t wfi_plan_peak_of(const wfi_plan *p, size_t *live);
/* Is it in the arena, and alive at the command? */
bool wfi_plan_holds(const wfi_storage *s, uint32_t cmd);
void wfi_plan_print_mib(wfi_text *t, size_t bytes); /* "8.00 MiB", "4.50 KiB" */

/* Writes what holds the arena where the plan needs most of it: the command, then at most `most` values, largest first,
 * one line each with its bytes, what makes it and where. False: out of memory, and nothing was written. */
bool wfi_plan_print_peak(const wfi_plan *p, uint32_t most, wfi_text *t);

/* Proves from the plan alone that every command finds in memory what it was promised: each value is computed before it
 * is read, lies within its storage and the arena, and nothing that shares a byte with it is written in between. False:
 * one text that names the command. */
bool wfi_plan_check(wfi_mem *mem, const wfi_plan *p, char *err, size_t err_bytes);

const char *wfi_plan_place_name(uint8_t place); /* "arena" */

/* The text form: memory, commands with their kernels, values, places, and what leaves the step. lines: the program's
 * lines behind each command. */
void wfi_plan_print(const wfi_plan *p, bool lines, wfi_text *t);

/* ---- the lines of the program that nodes come from (sites.c) ---- */

typedef struct wfi_line {
    const char *site; /* "step.c:16"; NULL: not known */
    bool grad;        /* it is part of the gradient of what stands there */
} wfi_line;
wfi_line wfi_plan_line(const wfi_plan *p, uint32_t record);
/* Line number i (from 0) of a node of g, each once: false behind the last. g: the plan's graph, or one on the way. */
bool wfi_plan_node_line(const wfi_plan *p, const wfi_graph *g, const wfi_node *n, uint32_t i, wfi_line *line);
/* "step.c:16, step.c:17, gradient of step.c:16" */
void wfi_plan_print_lines(const wfi_plan *p, const wfi_graph *g, const wfi_node *n, wfi_text *t);

#endif
