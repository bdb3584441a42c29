/* views.h - operators that compute nothing, as passes see them: whether one really moves nothing is known only when it
 * is bound to layouts. */
#ifndef WFI_PASSES_VIEWS_H
#define WFI_PASSES_VIEWS_H
#include <stdbool.h>
#include "ops_enum.h"

/* Gives the elements of its operand, in their order, another shape. */
static inline bool wfi_op_renames(uint32_t op)
{
    return op == WFI_OP_reshape || op == WFI_OP_flatten || op == WFI_OP_squeeze || op == WFI_OP_unsqueeze;
}

/* Looks at the memory of its operand in another way. */
static inline bool wfi_op_views(uint32_t op)
{
    return wfi_op_renames(op) || op == WFI_OP_transpose || op == WFI_OP_permute || op == WFI_OP_slice ||
           op == WFI_OP_flip || op == WFI_OP_detach || op == WFI_OP_broadcast_to;
}

#endif
