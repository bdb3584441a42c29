/* profile.h - how long the commands of a plan take: the same commands with a STAMP between them, submitted instead
 * where timing was asked for. Without that nothing of this exists, and a replay only asks one flag. */
#ifndef WFI_EXEC_PROFILE_H
#define WFI_EXEC_PROFILE_H
#include "plan/plan.h"
#include "record/record.h"

typedef struct wfi_spent {
    double best, sum; /* ns, over the runs that count */
} wfi_spent;

typedef struct wfi_profile {
    wfi_cmd *cmd; /* stamp, run 0, stamp, run 1, ... stamp */
    uint32_t n;
    uint64_t *stamp;  /* nrun + 1 */
    void **stamp_arg; /* where each stamp goes */
    wfi_spent *spent; /* of each run of the plan */
    wfi_spent whole;  /* of a replay, with everything around its kernels */
    uint64_t runs;    /* that count: the first one does not, unless it is the only one */
    double stamp_ns;  /* what a stamp takes; it is taken off */
} wfi_profile;

/* NULL: out of memory, or nobody asked; the plan then runs untimed. */
wfi_profile *wfi_profile_of(wf_ctx *c, wfi_plan *p);
/* After a run that began at start_ns. */
void wfi_profile_add(wfi_profile *f, const wfi_plan *p, uint64_t start_ns);

#endif
