/* Which commands can really fail. A look-up with indices that an earlier one of the same step took, in as many rows,
 * cannot: the gradient of an embedding behind the embedding. Variables may be written in place in front of it. */
#include "ops/op.h"
#include "passes/views.h"
#include "plan/builder.h"

/* The value whose elements v shows. all: every one of them, else some will do. */
static uint32_t behind(const wfi_graph *g, uint32_t v, bool all)
{
    for (;;) {
        const wfi_node *n = &g->node[g->value[v].node];
        if (n->op >= WFI_OP_COUNT || !(all ? wfi_op_renames(n->op) : wfi_op_views(n->op)))
            return v;
        v = g->in[n->in0];
    }
}

static bool is_known(const wfi_plan_builder *b, uint32_t value, int64_t rows)
{
    for (size_t i = 0; i < b->nlooked; i++)
        if (b->looked[i].value == value && b->looked[i].rows == rows)
            return true;
    return false;
}

bool wfi_plan_may_fail(wfi_plan_builder *b, uint32_t k)
{
    const wfi_graph *g = b->g;
    const wfi_node *n = &g->node[k];
    wfi_axis_shape shape[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    wfi_axis_inst x;
    char err[WFI_AXIS_ERR];
    bool looks = false, known = true;
    if (n->op >= WFI_OP_COUNT)
        return true;
    wfi_graph_operands(g, n, shape, dtype);
    if (!wfi_op_bind(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), n->nin, shape, dtype, NULL, &x, err,
                     sizeof err))
        return true;
    for (int slot = 0; slot < x.nslot; slot++)
        for (int i = 0; i < x.nd[slot]; i++) {
            const wfi_axis_dim *d = &x.d[slot][i];
            if (d->look < 0)
                continue;
            const int look = d->look;
            const uint32_t v = g->in[n->in0 + (uint32_t)look];
            looks = true;
            known = known && is_known(b, behind(g, v, false), d->size);
            if (wfi_mem_grow(b->c->mem, &b->looked, &b->cap_looked, b->nlooked + 1, sizeof *b->looked))
                b->looked[b->nlooked++] = (wfi_looked){ behind(g, v, true), d->size };
        }
    return !looks || !known;
}
