/* cost.h - what one node does: arithmetic operations, and elements that it must read and write once. From the axis map,
 * the element types and the attributes alone, so the same on every device and however it is done there. */
#ifndef WFI_OPS_COST_H
#define WFI_OPS_COST_H
#include "graph/flow.h"
#include "ops/op.h"

/* in[nin], dtype[nin]: of the operands (ndim < 0: not given). A multiply-add counts as two operations; moving elements
 * as none. False, and all zero, where the operands do not fit the operator. */
bool wfi_op_cost(const wfi_op_info *op, const void *attr, int nin, const wfi_axis_shape *in, const wf_dtype *dtype,
                 wfi_cost *cost);

/* Operations of a node of control flow: of its function as often as it runs, as far as that is known (a while that is
 * not bounded: once; a cond: of the larger of its two). */
double wfi_cost_of_flow(const wfi_ids *ids, const wfi_flow *f);

/* Operations in a piece of scalar code, "a * b + vexp(c)"; functions count with what their polynomials take. */
double wfi_cost_of_code(const char *code);

#endif
