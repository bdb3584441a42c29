/* roofline.h - the work of each command of a plan, and the least time that the device needs for it. */
#ifndef WFI_EXPLAIN_ROOFLINE_H
#define WFI_EXPLAIN_ROOFLINE_H
#include "plan/plan.h"

typedef struct wfi_work {
    double flops;         /* a multiply-add counts as two */
    double read, written; /* bytes, each counted once */
    double ns;            /* at least: the longer of the two below */
    double flops_ns, bytes_ns;
    const char *by; /* what that time goes into: "flops", or the level of memory that takes longest: "L2" */
} wfi_work;

/* Work of commands [run0[i], run0[i + 1]) for each run i of the plan, into work[nrun]. A value comes from the level of
 * memory that holds what the plan has touched since it touched that value last (reuse distance: Mattson and others, IBM
 * Systems Journal 9, 1970); plans are thought to run again and again. False: out of memory. */
bool wfi_roofline(wfi_mem *mem, const wfi_plan *p, const wfi_roofs *r, wfi_work *work);

#endif
