/* sites.h - taking the program's lines from the recording that a plan is made from. */
#ifndef WFI_PLAN_SITES_H
#define WFI_PLAN_SITES_H
#include "plan/plan.h"
#include "record/record.h"

/* The lines of the step that stands in c now, which is one of t. False: out of memory. */
bool wfi_plan_take_sites(wf_ctx *c, wfi_plan *p, const wfi_trace *t);

#endif
