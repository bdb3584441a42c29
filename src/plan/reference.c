#include "plan/reference.h"
#include <math.h>
#include <string.h>
#include "base/dtype.h"
#include "graph/body.h"

/* ---- running ---- */

static bool leaf(wf_ctx *c, const wfi_graph *g, const wfi_node *n, wfi_reference_value *v)
{
    const wfi_type *t = wfi_type_at(g->ids, g->value[n->out0].type);
    v->layout = wfi_ids_dense(g->ids, g->value[n->out0].type);
    switch (n->op) {
    case WFI_NODE_INPUT:
        v->data = c->r.H[n->payload]->buf->data;
        v->layout = c->r.H[n->payload]->layout;
        return true;
    case WFI_NODE_SCALAR: v->data = &c->r.H[n->payload]->u.imm; return v->layout != 0;
    case WFI_NODE_HOST: v->data = c->r.host[n->payload]; return v->layout != 0;
    case WFI_NODE_VAR: v->data = c->var[n->payload]->buf->data; return v->layout != 0;
    default: break;
    }
    v->own = true;
    if (!v->layout || !(v->data = wfi_mem_zalloc(c->mem, 8)))
        return false;
    wfi_dtype_store(t->dtype, v->data, 0, *(const double *)wfi_attr_data(g->ids, n->payload));
    return true;
}

static char *element0(const wfi_graph *g, const wfi_reference_value *v)
{
    const wfi_layout *l = wfi_layout_at(g->ids, v->layout);
    return (char *)v->data + l->offset * (int64_t)wf_dtype_bytes(wfi_type_at(g->ids, l->type)->dtype);
}

static bool results(wf_ctx *c, const wfi_graph *g, const wfi_node *n, const wfi_bound *b, wfi_reference_run *r)
{
    for (uint32_t k = 0; k < n->nout; k++) {
        wfi_reference_value *v = &r->value[n->out0 + k];
        size_t bytes = b->out[k].bytes;
        v->layout = b->out[k].layout;
        v->own = b->alias < 0;
        v->data = v->own ? wfi_mem_alloc(c->mem, bytes + 64) : r->value[g->in[n->in0 + (uint32_t)b->alias]].data;
        if (!v->data)
            return false;
        if (v->own) /* what a kernel leaves out is seen, too */
            memset(v->data, 0xa5, bytes);
    }
    return true;
}

static bool operator_(wf_ctx *c, const wfi_graph *g, const wfi_node *n, wfi_reference_run *r)
{
    uint32_t layout[WFI_NODE_INS];
    void *args[WFI_NODE_OUTS + WFI_NODE_INS];
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = g->in[n->in0 + i];
        layout[i] = v == WFI_NO_VALUE ? 0 : r->value[v].layout;
    }
    const wfi_bound *b = wfi_bound_get(c, WFI_KEY(n->op, n->payload, n->nin), n->nin, layout, NULL, NULL);
    if (!b || !results(c, g, n, b, r))
        return false;
    for (uint32_t k = 0; k < n->nout; k++)
        args[k] = r->value[n->out0 + k].data;
    for (uint32_t i = 0; i < n->nin; i++) {
        uint32_t v = g->in[n->in0 + i];
        args[n->nout + i] = v == WFI_NO_VALUE ? NULL : element0(g, &r->value[v]);
    }
    wfi_cmd cmd = { .fn = b->fn, .params = b->params, .args = args, .bytes = b->scratch, .faults = b->faults };
    if (!b->fn || c->rt->device->api->submit(c->queue, &cmd, 1, NULL, 0, 0) == WF_OK)
        return true;
    atomic_store(&c->queue->fault.set, 0); /* the step itself will tell */
    return false;
}

/* Where the records of node n's results stand: single nodes have theirs in a row, members of a group each its own. */
static uint32_t record_of(const wfi_graph *g, const wfi_node *n, uint32_t result)
{
    if (n->op == WFI_NODE_FLOW && n->nmember)
        return g->member[n->member0 + result];
    if (n->op != WFI_NODE_FUSED)
        return n->prov + result;
    const wfi_body *b = wfi_attr_data(g->ids, n->payload);
    return b->out[result] < n->nmember ? g->member[n->member0 + b->out[result]] : WFI_NO_VALUE;
}

bool wfi_reference_eval(wf_ctx *c, const wfi_graph *g, uint32_t nrecord, wfi_reference_run *r)
{
    *r = (wfi_reference_run){ .value = wfi_mem_zalloc(c->mem, (g->nvalue + 1) * sizeof *r->value),
                              .of_record = wfi_mem_array(c->mem, (size_t)nrecord + 1, sizeof *r->of_record),
                              .nvalue = g->nvalue,
                              .nrecord = nrecord };
    if (!r->value || !r->of_record)
        return false;
    memset(r->of_record, 0xff, ((size_t)nrecord + 1) * sizeof *r->of_record);
    for (size_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        if (n->op < WFI_NODE_INPUT ? !operator_(c, g, n, r) : n->nout && !leaf(c, g, n, &r->value[n->out0]))
            return false;
        if (!n->nout && n->prov < nrecord)
            r->of_record[n->prov] = g->in[n->in0];
        for (uint32_t i = 0; i < n->nout; i++)
            if (record_of(g, n, i) < nrecord && !(n->flags & WFI_NODE_PART))
                r->of_record[record_of(g, n, i)] = n->out0 + i;
    }
    return true;
}

void wfi_reference_free(wfi_mem *mem, wfi_reference_run *r)
{
    for (size_t v = 0; r->value && v < r->nvalue; v++)
        if (r->value[v].own)
            wfi_mem_free(mem, r->value[v].data);
    wfi_mem_free(mem, r->value);
    wfi_mem_free(mem, r->of_record);
    *r = (wfi_reference_run){ .value = NULL };
}

/* ---- comparing ---- */

/* Row-major element number i of a type, as an element of a layout. */
static int64_t place(const wfi_type *t, const wfi_layout *l, int64_t i)
{
    int64_t at = l->offset;
    for (int32_t d = t->ndim; d-- > 0; i /= t->dim[d])
        at += i % t->dim[d] * l->stride[d];
    return at;
}

static bool same_element(wf_dtype dtype, const char *a, const char *b, size_t bytes)
{
    if (!memcmp(a, b, bytes))
        return true;
    return wfi_dtype_is_float(dtype) && isnan(wfi_dtype_load(dtype, a, 0)) && isnan(wfi_dtype_load(dtype, b, 0));
}

static void describe(const wfi_graph *g, uint32_t type, int64_t i, double was, double is, char *what, size_t bytes)
{
    const wfi_type *t = wfi_type_at(g->ids, type);
    char name[192], at[160] = "", a[WFI_STR_NUMBER], b[WFI_STR_NUMBER];
    int64_t index[WF_RANK_MAX];
    for (int32_t d = t->ndim; d-- > 0; i /= t->dim[d])
        index[d] = i % t->dim[d];
    for (int32_t d = 0; d < t->ndim; d++) {
        size_t n = strlen(at);
        (void)wfi_str_print(at + n, sizeof at - n, "%s%lld", d ? "," : "", (long long)index[d]);
    }
    wfi_str_f64(a, was);
    wfi_str_f64(b, is);
    (void)wfi_str_print(what, bytes, "%s at [%s]: %s before, %s after", wfi_type_text(g->ids, type, name, sizeof name),
                        at, a, b);
}

static bool differ(const wfi_graph *g, const wfi_reference_value *was, const wfi_reference_value *is, char *what,
                   size_t bytes)
{
    const wfi_layout *lw = wfi_layout_at(g->ids, was->layout), *li = wfi_layout_at(g->ids, is->layout);
    const wfi_type *tw = wfi_type_at(g->ids, lw->type), *t = wfi_type_at(g->ids, li->type);
    const size_t size = wf_dtype_bytes(t->dtype);
    if (tw->dtype != t->dtype || tw->elements != t->elements) { /* a pass may give the same elements another shape */
        char a[192], b[192];
        (void)wfi_str_print(what, bytes, "the type is %s, was %s", wfi_type_text(g->ids, li->type, a, sizeof a),
                            wfi_type_text(g->ids, lw->type, b, sizeof b));
        return true;
    }
    if (lw->contiguous && li->contiguous && !memcmp(element0(g, was), element0(g, is), t->bytes))
        return false;
    for (int64_t i = 0; i < t->elements; i++) {
        const char *a = (const char *)was->data + place(tw, lw, i) * (int64_t)size,
                   *b = (const char *)is->data + place(t, li, i) * (int64_t)size;
        if (!same_element(t->dtype, a, b, size)) {
            describe(g, li->type, i, wfi_dtype_load(t->dtype, a, 0), wfi_dtype_load(t->dtype, b, 0), what, bytes);
            return true;
        }
    }
    return false;
}

bool wfi_reference_differs(const wfi_graph *g, const wfi_reference_run *r, const wfi_reference_run *was, uint32_t *node,
                           char *what, size_t bytes)
{
    for (uint32_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        for (uint32_t i = 0; i < (n->nout ? n->nout : 1u); i++) {
            uint32_t record = n->nout ? record_of(g, n, i) : n->prov;
            if (n->flags & WFI_NODE_PART)
                continue;
            uint32_t before = record < was->nrecord ? was->of_record[record] : WFI_NO_VALUE;
            uint32_t after = record < r->nrecord ? r->of_record[record] : WFI_NO_VALUE;
            if (before == WFI_NO_VALUE || after == WFI_NO_VALUE)
                continue;
            if (differ(g, &was->value[before], &r->value[after], what, bytes)) {
                *node = n->nout ? k : g->value[g->in[n->in0]].node;
                return true;
            }
        }
    }
    return false;
}
