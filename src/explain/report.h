/* report.h - what is known of a plan that ran: for each thing that was submitted its kernel, lines, work, least time
 * and, if asked for, the time that it took. */
#ifndef WFI_EXPLAIN_REPORT_H
#define WFI_EXPLAIN_REPORT_H
#include "exec/profile.h"
#include "explain/roofline.h"
#include "passes/graph_text.h"

typedef struct wfi_report {
    wf_ctx *c;
    const wfi_plan *p;
    const wfi_roofs *roofs;
    wfi_work *work;          /* of each run of the plan */
    wfi_work all;            /* their sum; `by` is not set */
    const wfi_profile *time; /* NULL: nothing was timed */
    double best, mean;       /* ns: sums over all commands, 0 if nothing was timed */
    size_t folder;           /* characters of the folder that all lines of the program share */
} wfi_report;

/* False: out of memory. Ends with wfi_report_free in either case. */
bool wfi_report_make(wf_ctx *c, const wfi_plan *p, wfi_report *r);
void wfi_report_free(wfi_report *r);

void wfi_report_text(const wfi_report *r, wfi_text *t);
void wfi_report_json(const wfi_report *r, wfi_text *t);

/* The device's roofs, measured when the first context of a runtime asks. NULL: out of memory. */
const wfi_roofs *wfi_report_roofs(wf_ctx *c);

/* "matmul", "add, relu" of a fused node; "sgd_step x4" of several commands that run as
 * one, "mul; mean; sub" of those that run strip by strip. */
void wfi_report_what(const wfi_plan *p, uint32_t run, wfi_text *t);

#endif
