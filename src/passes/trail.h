/* trail.h - what passes leave behind besides graphs: why things were not done, how long each pass took; and what they
 * are asked to leave out. A graph points to the trail of its step (graph.h), NULL: nobody asks.
 *
 *     static const wfi_reason shape = { "shape", "they run over different index spaces" };
 *     wfi_trail_note(out->trail, &shape, g, producer, consumer);
 */
#ifndef WFI_PASSES_TRAIL_H
#define WFI_PASSES_TRAIL_H
#include "graph/graph.h"

/* Why a pass refused something. Each pass has its own, as constants. */
typedef struct wfi_reason {
    const char *code; /* one word */
    const char *text; /* what is in the way, to be read behind "A -> B: " */
    const char *pass; /* NULL: a kernel of both */
} wfi_reason;

typedef struct wfi_note {
    const wfi_reason *why;
    uint32_t op[2];   /* wfi_op or WFI_NODE_...: of the node that makes the value, of the one that uses it */
    uint32_t prov[2]; /* their records */
} wfi_note;

/* A freedom that was taken with a node recorded under `fast`. */
typedef struct wfi_freedom {
    const wfi_reason *what;
    uint32_t op, prov;
} wfi_freedom;

typedef struct wfi_pass_time {
    const char *pass;
    uint64_t ns;
    uint32_t before, after; /* nodes; records before the first, commands after the last */
} wfi_pass_time;

enum { WFI_TRAIL_PASSES = 32 };

typedef struct wfi_trail {
    wfi_mem *mem;
    const char *skip; /* WEFT_SKIP: "simplify,fuse:1a2b3c4d", or NULL */
    wfi_note *note;
    size_t nnote, cap_note;
    wfi_freedom *freedom; /* that were taken, in order */
    size_t nfreedom, cap_freedom;
    wfi_pass_time time[WFI_TRAIL_PASSES]; /* of the passes that ran, in order */
    uint32_t ntime;
} wfi_trail;

/* Is `pass` (item 0), or one item of what it does, named to be left out? */
bool wfi_trail_skips(const wfi_trail *t, const char *pass, uint32_t item);
/* Node `use` of g was not joined with node `make`, for this reason. t may be NULL. Out of memory: the note is lost. */
void wfi_trail_note(wfi_trail *t, const wfi_reason *why, const wfi_graph *g, uint32_t make, uint32_t use);
/* Node n is not computed as strict would have it. t may be NULL. Out of memory: that is not told. */
void wfi_trail_freedom(wfi_trail *t, const wfi_reason *what, const wfi_node *n);
/* A pass, or another piece of making a plan, took so long. t may be NULL. */
void wfi_trail_time(wfi_trail *t, const char *pass, uint64_t ns, size_t before, size_t after);
void wfi_trail_free(wfi_trail *t);

#endif
