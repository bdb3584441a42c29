/* strip.h - groups of commands that run strip by strip. */
#ifndef WFI_PLAN_STRIP_H
#define WFI_PLAN_STRIP_H
#include "plan/builder.h"
#include "plan/cut.h"

/* Finds p->strip and moves values that live within one out of the arena, before offsets are chosen. WEFT_SKIP=strip
 * finds none. False: out of memory. */
bool wfi_plan_strips(wfi_plan_builder *b);

#endif
