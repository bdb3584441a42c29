/* fuse.h - element-wise operators over one index space become one node. */
#ifndef WFI_PASSES_FUSE_H
#define WFI_PASSES_FUSE_H
#include "graph/body.h"

/* Writes g to out (initialised, empty) with groups of element-wise operators fused. An operator joins a group that one
 * of its operands comes from, if their results have one shape, nothing outside uses a result of the group before it
 * runs, and the group stays within what a kernel can hold. Nothing is computed twice. False: out of memory. */
bool wfi_fuse(const wfi_graph *g, wfi_graph *out);

#endif
