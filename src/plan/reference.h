/* reference.h - WEFT_CHECK=ref: a graph run by the kernels of its single nodes, over the leaves of the step that stands
 * in the context, and its values compared with those of the graph before a pass. Nothing of the step is changed. */
#ifndef WFI_PLAN_REFERENCE_H
#define WFI_PLAN_REFERENCE_H
#include "plan/plan.h"
#include "record/record.h"

/* A value as it lies in memory. */
typedef struct wfi_reference_value {
    void *data; /* of the buffer; NULL: not computed */
    uint32_t layout;
    bool own;
} wfi_reference_value;

/* The values of one graph, found by the record that they come from. */
typedef struct wfi_reference_run {
    wfi_reference_value *value; /* of each value of the graph */
    uint32_t *of_record; /* value of each record, WFI_NO_VALUE: none; a record that leaves the step: what it leaves */
    size_t nvalue, nrecord;
} wfi_reference_run;

/* Runs g. False: out of memory, or a kernel failed (an index out of range): then there is nothing to compare. */
bool wfi_reference_eval(wf_ctx *c, const wfi_graph *g, uint32_t nrecord, wfi_reference_run *r);
/* The first node of g, in order, that gives other bits than the same record did in `was` (all NaNs are one value): true
 * and a text of type, place and both numbers. */
bool wfi_reference_differs(const wfi_graph *g, const wfi_reference_run *r, const wfi_reference_run *was, uint32_t *node,
                           char *what, size_t bytes);
void wfi_reference_free(wfi_mem *mem, wfi_reference_run *r);

#endif
