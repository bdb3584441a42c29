/* Simplification: one walk that maps each value to one that is there already or writes its node, then one that leaves
 * out what became useless. Only what is exact for every operand, -0, infinities and NaN included.
 *
 *     v1 = const 1 : f32[]                v1 = exp v0 : f32[8]
 *     v2 = mul v0 v1 : f32[8]             v2 = add v1 v1 : f32[8]
 *     v3 = exp v2 : f32[8]            ->  result 5 v2
 *     v4 = exp v0 : f32[8]
 *     v5 = add v3 v4 : f32[8]             (v0 is a variable; a leaf that the caller may own stays as it is)
 *     result 5 v5
 */
#include "passes/simplify.h"
#include <string.h>
#include "base/hash.h"
#include "ops/op.h"
#include "passes/views.h"

typedef struct simplifier {
    const wfi_graph *g;
    wfi_graph *out;
    uint32_t *value; /* of each value of g: the same in out */
    uint32_t *slot;  /* nodes of out by content, open addressing; WFI_NO_VALUE: free */
    uint32_t mask;
} simplifier;

/* ---- identities ---- */

static bool only_names(uint32_t op)
{
    return wfi_op_renames(op) || op == WFI_OP_detach || op == WFI_OP_broadcast_to;
}

/* Is every element of v the number x? */
static bool is_number(const wfi_graph *g, uint32_t v, double x)
{
    const wfi_node *n = &g->node[g->value[v].node];
    while (only_names(n->op))
        n = &g->node[g->value[g->in[n->in0]].node];
    if (n->op != WFI_NODE_CONST)
        return false;
    double value = *(const double *)wfi_attr_data(g->ids, n->payload);
    return !memcmp(&value, &x, sizeof x); /* +0 is not -0 */
}

/* Operators that give operand `keep` as it is where operand `other` is the number x. */
static const struct {
    uint32_t op;
    int keep, other;
    double x;
} neutral[] = {
    { WFI_OP_mul, 0, 1, 1 }, { WFI_OP_mul, 1, 0, 1 }, { WFI_OP_zmul, 1, 0, 1 },
    { WFI_OP_div, 0, 1, 1 }, { WFI_OP_sub, 0, 1, 0 },
};

/* The operand that the result is, or WFI_NO_VALUE. in: values of out. */
static uint32_t same_as(const simplifier *s, const wfi_node *n, const uint32_t *in)
{
    const wfi_graph *g = s->out;
    const uint32_t type = s->g->value[n->out0].type;
    if (only_names(n->op))
        return g->value[in[0]].type == type ? in[0] : WFI_NO_VALUE;
    uint32_t v = WFI_NO_VALUE;
    if (n->op == WFI_OP_neg && g->node[g->value[in[0]].node].op == WFI_OP_neg)
        v = g->in[g->node[g->value[in[0]].node].in0];
    for (size_t i = 0; i < sizeof neutral / sizeof *neutral; i++)
        if (n->op == neutral[i].op && is_number(g, in[neutral[i].other], neutral[i].x))
            v = in[neutral[i].keep];
    /* A leaf may be the caller's memory, which a result must not be. */
    if (v == WFI_NO_VALUE || g->value[v].type != type || g->node[g->value[v].node].op == WFI_NODE_INPUT)
        return WFI_NO_VALUE;
    return v;
}

/* ---- equal nodes ---- */

static bool equal(const simplifier *s, uint32_t k, const wfi_node *n, const uint32_t *in)
{
    const wfi_graph *g = s->out;
    const wfi_node *m = &g->node[k];
    if (m->op != n->op || m->payload != n->payload || m->nin != n->nin || m->nout != n->nout ||
        (m->flags ^ n->flags) & WFI_NODE_FAST || (n->nin && memcmp(g->in + m->in0, in, n->nin * sizeof *in)))
        return false;
    for (uint32_t i = 0; i < n->nout; i++)
        if (g->value[m->out0 + i].type != s->g->value[n->out0 + i].type)
            return false;
    return true;
}

static uint32_t place(const wfi_node *n, const uint32_t *in)
{
    return (uint32_t)wfi_hash64(in, n->nin * sizeof *in, (uint64_t)n->op << 32 | n->payload);
}

static bool one(simplifier *s, uint32_t k)
{
    const wfi_node *n = &s->g->node[k];
    uint32_t in[WFI_NODE_INS], at, v;
    const bool merges = n->nout && !(n->flags & WFI_NODE_NO_MERGE);
    for (uint32_t i = 0; i < n->nin; i++) {
        v = s->g->in[n->in0 + i];
        in[i] = v == WFI_NO_VALUE ? v : s->value[v];
    }
    if (merges && n->op < WFI_OP_COUNT && n->nout == 1 && (v = same_as(s, n, in)) != WFI_NO_VALUE) {
        s->value[n->out0] = v;
        return true;
    }
    if (merges) {
        for (at = place(n, in) & s->mask; s->slot[at] != WFI_NO_VALUE; at = (at + 1) & s->mask)
            if (equal(s, s->slot[at], n, in)) {
                for (uint32_t i = 0; i < n->nout; i++)
                    s->value[n->out0 + i] = s->out->node[s->slot[at]].out0 + i;
                return true;
            }
        s->slot[at] = (uint32_t)s->out->nnode;
    }
    return wfi_graph_copy(s->out, s->g, k, s->value);
}

static bool rewrite(const wfi_graph *g, wfi_graph *out)
{
    simplifier s = { .g = g, .out = out, .mask = 63 };
    while (s.mask < 2 * g->nnode)
        s.mask = s.mask * 2 + 1;
    s.value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *s.value);
    s.slot = wfi_mem_array(g->mem, (size_t)s.mask + 1, sizeof *s.slot);
    bool ok = s.value && s.slot;
    if (ok)
        memset(s.slot, 0xff, ((size_t)s.mask + 1) * sizeof *s.slot);
    for (uint32_t k = 0; ok && k < g->nnode; k++)
        ok = one(&s, k);
    wfi_mem_free(g->mem, s.value);
    wfi_mem_free(g->mem, s.slot);
    return ok;
}

/* ---- what is needed ---- */

static void find_needed(const wfi_graph *g, uint8_t *need)
{
    for (size_t k = g->nnode; k-- > 0;) {
        const wfi_node *n = &g->node[k];
        need[k] |= !n->nout;
        for (uint32_t i = 0; need[k] && i < n->nin; i++)
            if (g->in[n->in0 + i] != WFI_NO_VALUE)
                need[g->value[g->in[n->in0 + i]].node] = 1;
    }
}

static bool copy_needed(const wfi_graph *g, wfi_graph *out)
{
    uint8_t *need = wfi_mem_zalloc(g->mem, g->nnode + 1);
    uint32_t *value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *value);
    bool ok = need && value;
    if (ok)
        find_needed(g, need);
    for (size_t k = 0; ok && k < g->nnode; k++)
        ok = !need[k] || wfi_graph_copy(out, g, (uint32_t)k, value);
    wfi_mem_free(g->mem, need);
    wfi_mem_free(g->mem, value);
    return ok;
}

bool wfi_simplify(const wfi_graph *g, wfi_graph *out)
{
    wfi_graph all;
    wfi_graph_init(&all, g->mem, g->ids);
    bool ok = rewrite(g, &all) && copy_needed(&all, out);
    wfi_graph_free(&all);
    return ok;
}
