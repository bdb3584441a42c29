/* passes.h - the passes that a step's graph goes through before it is planned, in their order. */
#ifndef WFI_PASSES_PASSES_H
#define WFI_PASSES_PASSES_H
#include "passes/trail.h"

typedef struct wfi_pass {
    const char *name;
    bool (*run)(const wfi_graph *g, wfi_graph *out); /* false: out of memory */
} wfi_pass;

extern const wfi_pass wfi_pass_list[]; /* ends with a NULL name */

typedef struct wfi_passes_opts {
    bool check;           /* the verifier looks at the graph before the first pass and after each */
    const wfi_pass *more; /* tests: a pass that runs behind the others, or NULL */
    /* Called behind each pass that ran, and once before with pass "recording" and before NULL. False: err has the
     * reason, and nothing more is run. NULL: nobody watches. */
    bool (*watch)(void *user, const char *pass, const wfi_graph *before, const wfi_graph *after, char *err,
                  size_t err_bytes);
    void *user;
} wfi_passes_opts;

/* Replaces g by what the passes make of it. g->trail names what is left out and takes notes and times. False: err has
 * the reason, "out of memory" or what is wrong. */
bool wfi_passes(wfi_graph *g, const wfi_passes_opts *o, char *err, size_t err_bytes);

/* The name of pass i, and behind the passes of the steps of planning that WEFT_SKIP knows as well; NULL behind the
 * last.
 */
const char *wfi_passes_name(size_t i);

/* The first word of "simplify,fuse:1a2b3c4d" that is neither a pass, "recording" nor "all"; NULL: there is none. *n:
 * its length. */
const char *wfi_passes_unknown(const char *list, const wfi_pass *more, size_t *n);

#endif
