#include "plan/cut.h"
#include <string.h>
#include "ops/op.h"

/* What each dimension of each slot is: the number of its factor, NONE (size 1, broadcast), or OTHER (a window, a
 * look-up, a factor that pieces must not cut). */
enum { NONE = -1, OTHER = -2 };

typedef struct slots {
    int32_t n, nout;
    int32_t nd[WFI_CUT_SLOTS];
    int16_t factor[WFI_CUT_SLOTS][WF_RANK_MAX];
    int64_t size[WFI_CUT_SLOTS][WF_RANK_MAX];
} slots;

static void sizes(slots *s, const wfi_graph *g, uint32_t v, int32_t slot)
{
    const wfi_type *t = v == WFI_NO_VALUE ? NULL : wfi_type_at(g->ids, g->value[v].type);
    s->nd[slot] = t ? t->ndim : 0;
    for (int32_t i = 0; t && i < t->ndim; i++)
        s->size[slot][i] = t->dim[i];
}

/* Element-wise: operands are aligned at the right. */
static void element_wise(slots *s)
{
    for (int32_t k = 0; k < s->n; k++)
        for (int32_t i = 0; i < s->nd[k]; i++)
            s->factor[k][i] = (int16_t)(s->size[k][i] == 1 ? NONE : s->nd[0] - s->nd[k] + i);
}

static bool by_map(slots *s, const wfi_graph *g, const wfi_node *n)
{
    const wfi_op_info *op = &wfi_op_table[n->op];
    wfi_axis_shape shape[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    wfi_axis_inst x;
    char err[WFI_AXIS_ERR];
    wfi_graph_operands(g, n, shape, dtype);
    if (!wfi_op_bind(op, wfi_attr_data(g->ids, n->payload), (int)n->nin, shape, dtype, NULL, &x, err, sizeof err) ||
        x.many >= 0 || x.nslot - x.nin != n->nout)
        return false;
    for (int32_t k = 0; k < s->n; k++) {
        const int slot = k < s->nout ? x.nin + k : k - s->nout;
        for (int32_t i = 0; i < s->nd[k]; i++) {
            const int f = wfi_axis_alone(&x, slot, i);
            s->factor[k][i] = s->size[k][i] == 1 ? NONE : f >= 0 && x.f[f].in && x.f[f].out ? (int16_t)f : OTHER;
        }
    }
    return true;
}

static bool has(const slots *s, int32_t k, int factor)
{
    for (int32_t i = 0; i < s->nd[k]; i++)
        if (s->factor[k][i] == factor)
            return true;
    return false;
}

/* Slot k has all of the first n axes, as its own first ones, or (*none) none of them. */
static bool leads(const slots *s, int32_t k, int32_t n, bool *none)
{
    bool all = s->nd[k] >= n;
    *none = true;
    for (int32_t i = 0; i < n; i++) {
        const int f = s->factor[0][i];
        all = all && s->size[k][i] == s->size[0][i] && s->factor[k][i] == f;
        *none = *none && (f == NONE || !has(s, k, f));
    }
    return all;
}

static bool cuts(const slots *s, int32_t n, uint64_t *sliced)
{
    *sliced = 0;
    for (int32_t k = 0; k < s->n; k++) {
        bool none, all = leads(s, k, n, &none);
        if (!all && (!none || k < s->nout))
            return false;
        *sliced |= all && !none ? (uint64_t)1 << k : 0;
    }
    return true;
}

wfi_cut wfi_cut_of(const wfi_graph *g, const wfi_node *n)
{
    wfi_cut c = { .axes = 0 };
    if (n->nout + n->nin > WFI_CUT_SLOTS || (n->op >= WFI_OP_COUNT && n->op != WFI_NODE_FUSED))
        return c;
    slots s = { .n = (int32_t)(n->nout + n->nin), .nout = n->nout };
    for (int32_t k = 0; k < s.n; k++)
        sizes(&s, g, k < s.nout ? n->out0 + (uint32_t)k : g->in[n->in0 + (uint32_t)(k - s.nout)], k);
    if (n->op == WFI_NODE_FUSED || wfi_op_pointwise(n->op))
        element_wise(&s);
    else if (!by_map(&s, g, n))
        return c;
    while (c.axes < s.nd[0] && s.size[0][c.axes] > 0 && s.factor[0][c.axes] != OTHER &&
           cuts(&s, c.axes + 1, &c.sliced[c.axes + 1])) {
        c.dim[c.axes] = s.size[0][c.axes];
        c.axes++;
    }
    return c;
}
