/* builder.h - a plan in the making. */
#ifndef WFI_PLAN_BUILDER_H
#define WFI_PLAN_BUILDER_H
#include "plan/plan.h"
#include "record/record.h"

typedef struct wfi_plan_builder {
    wf_ctx *c;
    wfi_plan *p;
    const wfi_graph *g;
    const wfi_bound **bound; /* of each node; NULL: no operator */
    uint32_t *cmd_of;        /* of each node: its command, or WFI_NO_VALUE */
    uint32_t *of_var;        /* of each variable: its storage, or WFI_NO_VALUE */
    size_t cap_storage, cap_out;
    uint32_t last_fault; /* the last command that may fail; 0: none, else its number + 1 */
} wfi_plan_builder;

/* Storages that may be one become one: an assigned value is born in its variable's own buffer, a result takes the
 * buffer of an operand that dies (inplace.c). False: out of memory. */
bool wfi_plan_inplace(wfi_plan_builder *b);

#endif
