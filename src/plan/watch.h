/* watch.h - what can be seen of the passes while a plan is made: WEFT_DUMP, WEFT_CHECK=ref, and the topics passes and
 * fusion of the log. */
#ifndef WFI_PLAN_WATCH_H
#define WFI_PLAN_WATCH_H
#include "passes/passes.h"
#include "plan/reference.h"

typedef struct wfi_watch {
    wf_ctx *c;
    const wfi_plan *p;
    const char *dump;      /* WEFT_DUMP: passes, or "all"; NULL: nothing */
    const char *folder;    /* WEFT_DUMP_DIR; NULL: the dump goes to the log */
    bool reference;        /* WEFT_CHECK=ref */
    bool lost;             /* there was nothing to compare with: no more is compared */
    wfi_reference_run was; /* the graph before the pass */
    size_t freedoms;       /* that had been taken then; a pass that takes one may change values */
} wfi_watch;

/* Reads the environment; true if anything is to be watched. Ends with wfi_watch_end in either case. */
bool wfi_watch_begin(wfi_watch *w, wf_ctx *c, const wfi_plan *p);
/* For wfi_passes_opts.watch; user: the wfi_watch. */
bool wfi_watch_pass(void *user, const char *pass, const wfi_graph *before, const wfi_graph *after, char *err,
                    size_t err_bytes);
void wfi_watch_end(wfi_watch *w);

/* Tells the log what the passes did, by topic, when the plan is finished. */
void wfi_watch_tell(wf_ctx *c, const wfi_plan *p);

#endif
