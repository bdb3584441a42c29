/* axis_use.h - what is read off a bound axis map: broadcasting undone, batching, fusion, cost, halo. */
#ifndef WFI_GRAPH_AXIS_USE_H
#define WFI_GRAPH_AXIS_USE_H
#include "graph/axis.h"

/* The shape of result r (0 is the first). */
wf_dims wfi_axis_result(const wfi_axis_inst *x, int r);

/* How a gradient of shape g becomes one of operand `operand`, which the map may have broadcast. In this order: g is
 * summed over sum (keeping those axes as 1), is reshaped to `kept` (the same elements, extra leading ones dropped or
 * put in front), and is broadcast to `shape` if expand is set. */
typedef struct wfi_axis_undo {
    wf_dims sum; /* axes of g; n 0: none */
    wf_dims kept;
    wf_dims shape; /* of the operand */
    bool reshape, expand;
} wfi_axis_undo;
/* operand_dims: the operand's own shape (copies of a variadic operand differ). False: g has another shape altogether.
 */
bool wfi_axis_undo_of(const wfi_axis_inst *x, int operand, wf_dims operand_dims, wf_dims g, wfi_axis_undo *u);

/* vmap: the same operator over a batch of `size`. in[] are the shapes of one example; where batched[i] is set operand i
 * gets a leading dimension, the others are read by every example. out[] are shapes for a plain call that does the
 * whole batch: padded, so that [3] with [4,3] becomes [B,1,3] with [1,4,3] and nothing aligns with the batch;
 * expand[i]: operand i must be broadcast to out[i] first (its map wants dimensions that agree). attr[] are the
 * attributes of one example and become those of the batch (axes move by one). Results get a leading dimension. */
bool wfi_axis_vmap(const uint8_t *map, const char *op, int nin, const wfi_axis_shape *in, const bool *batched,
                   int64_t size, wf_dims *attr, wfi_syms *syms, wfi_axis_shape *out, bool *expand, char *err,
                   size_t err_bytes);

/* A member of a candidate for fusion: a bound node, the values that it reads and makes (any numbers, equal = the same
 * value; copies of a variadic operand one by one), and whether it has scalar code. */
typedef struct wfi_axis_member {
    const wfi_axis_inst *x;
    const int32_t *in;  /* in[x->operands] */
    const int32_t *out; /* out[x->nslot - x->nin] */
    const char *name;   /* for the reason */
    bool scalar;
} wfi_axis_member;
size_t wfi_axis_fuse_bytes(int n); /* scratch for n members; n <= 64 */
/* Whether the members, in an order of execution, are one loop nest: NULL, or the reason against it (in `why`).
 * Factors are joined through every value, shared inputs too, but never two factors of one node. R = axes parallel in
 * all members, S = all axes: R is not empty, every member iterates over R or S, nothing is whole or ordered, and no
 * inner value is read through a window or a look-up. That no value leaves the group and comes back is the caller's
 * business. */
const char *wfi_axis_fusable(const wfi_axis_member *m, int n, void *scratch, char *why, size_t why_bytes);

/* Points of the iteration: the product of all factors that are not looked up; saturates at INT64_MAX. Symbols count
 * with their largest value. */
int64_t wfi_axis_points(const wfi_axis_inst *x, const wfi_syms *syms);
/* Elements of a slot. */
int64_t wfi_axis_elements(const wfi_axis_inst *x, int slot, const wfi_syms *syms);
bool wfi_axis_reduces(const wfi_axis_inst *x); /* some factor larger than 1 is in no result */

/* If dimension i of the slot is read through a window: how many elements before and after its own part a shard needs,
 * where its leading factor is cut. False: no window. */
bool wfi_axis_halo(const wfi_axis_inst *x, int slot, int i, int64_t *low, int64_t *high);

/* A reduced factor that an operand lacks would be added once for every shard: the name of such an operand, or NULL. */
const char *wfi_axis_lint(const wfi_axis_inst *x, char *factor, size_t bytes);

#endif
