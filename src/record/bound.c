/* Operators and operand types -> result types; operators and layouts -> kernel and parameters. Both are looked up once
 * for each combination and then found by content; the entries never move. */
#include <stdio.h>
#include <string.h>
#include "device/workload.h"
#include "graph/body.h"
#include "record/record.h"

static inline uint64_t hash_of(uint64_t key, uint32_t nin, const uint32_t *in)
{
    uint64_t h = key * 0x9e3779b97f4a7c15u;
    h ^= h >> 32;
    for (uint32_t i = 0; i < nin; i++)
        h = (h + in[i]) * 0xa0761d6478bd642fu, h ^= h >> 29;
    return h;
}

static inline bool same_in(const uint32_t *a, const uint32_t *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

/* Result types by the operator's axis map and types rule. */
static bool result_types(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *type, uint32_t *out, const char *site,
                         wf_tensor *const *in)
{
    const wfi_op_info *op = &wfi_op_table[WFI_KEY_OP(key)];
    const void *attr = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(key));
    wfi_axis_shape shape[WFI_BIND_IN];
    wf_dtype dtype[WFI_BIND_IN], rtype[WFI_BIND_OUT];
    wfi_axis_inst x;
    char err[480] = "";
    for (uint32_t i = 0; i < nin; i++)
        wfi_type_describe(&c->ids, type[i], &shape[i], &dtype[i]);
    bool types = wfi_op_types(op, attr, (int)nin, dtype, rtype, err, sizeof err);
    if (!types || !wfi_op_bind(op, attr, (int)nin, shape, dtype, NULL, &x, err, sizeof err)) {
        size_t n = strlen(op->name); /* both name the operator themselves */
        const char *text = !strncmp(err, op->name, n) && err[n] == ':' ? err + n + 2 : err;
        if (wfi_error_set(c, types ? WF_ERR_SHAPE : WF_ERR_DTYPE, op->name, site, "%s", text) && in)
            wfi_error_operands(c, op, (int32_t)nin, in);
        return false;
    }
    for (int i = 0; i < op->nout; i++) {
        int64_t dim[WF_RANK_MAX] = { 0 };
        int slot = x.nin + i;
        for (int k = 0; k < x.nd[slot]; k++)
            dim[k] = x.d[slot][k].size;
        out[i] = wfi_ids_type(&c->ids, rtype[i], x.nd[slot], dim);
        if (!out[i] && wfi_ids_fits(rtype[i], x.nd[slot], dim))
            return wfi_error_memory(c, "a type", site), false;
        if (!out[i]) {
            wfi_error_set(c, WF_ERR_SHAPE, op->name, site, "the result has too many elements");
            return false;
        }
    }
    return true;
}

static void *add(wf_ctx *c, size_t bytes, const char *site)
{
    void *p = wfi_arena_alloc(&c->bound_data, bytes);
    if (!p)
        wfi_error_memory(c, "the operator cache", site);
    return p;
}

/* "bound matmul f32[8,16] f32[16,4] -> cpu.gemm, not cpu.other: why": topic dispatch of the log. */
static void tell_dispatch(wf_ctx *c, const wfi_bind *b, uint32_t nin, const uint32_t *layout, const char *why,
                          const wfi_text *declined)
{
    wfi_text t = { .mem = c->mem };
    char type[192];
    const bool composite = b->op < WFI_OP_COUNT && wfi_op_table[b->op].flags & WFI_OP_COMPOSITE;
    wfi_text_addf(&t, "bound %s", b->op < WFI_OP_COUNT ? wfi_op_table[b->op].name : "fused");
    for (uint32_t i = 0; i < nin; i++) {
        const wfi_layout *l = layout[i] ? wfi_layout_at(&c->ids, layout[i]) : NULL;
        wfi_text_addf(&t, " %s%s", l ? wfi_type_text(&c->ids, l->type, type, sizeof type) : "_",
                      l && !l->contiguous ? "~" : "");
    }
    wfi_text_addf(&t, " -> %s%s%s\n",
                  !why        ? b->impl
                  : composite ? "taken apart"
                              : "none",
                  !why && b->tuned ? " (tuned)" : "", wfi_text_str(declined));
    if (!t.oom)
        wfi_log_text(&c->log, "dispatch", t.p);
    wfi_text_free(&t);
}

/* "tune: matmul f32[8,16] f32[16,4] threads=2": what `weft tune --log` can work on. */
static void tell_tunable(wf_ctx *c, const wfi_bind *b)
{
    wfi_text t = { .mem = c->mem };
    wfi_text_add(&t, "tune: ");
    wfi_workload_print(b, &t);
    wfi_text_addc(&t, '\n');
    if (!t.oom)
        wfi_log_text(&c->log, "tune", t.p);
    wfi_text_free(&t);
}

/* Asks the device. False without an error: it declines, *why says it. */
static bool ask(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *layout, uint32_t nout, const uint32_t *out_type,
                wfi_bind *b, wfi_view *view, const char **why)
{
    for (uint32_t i = 0; i < nin; i++) {
        view[i] = (wfi_view){ .dtype = WF_DTYPE_NONE };
        if (layout[i])
            wfi_layout_view(&c->ids, layout[i], &view[i]);
    }
    for (uint32_t i = 0; i < nout; i++) {
        uint32_t id = wfi_ids_dense(&c->ids, out_type[i]);
        if (!id) {
            *why = NULL; /* out of memory */
            return false;
        }
        wfi_layout_view(&c->ids, id, &view[nin + i]);
    }
    b->op = WFI_KEY_OP(key);
    b->attr = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(key));
    b->nin = (int32_t)nin;
    b->nout = (int32_t)nout;
    b->in = view;
    b->out = view + nin;
    b->threads = c->rt->threads;
    b->split = c->split;
    b->alias = -1;
    b->order = "";
    wfi_text declined = { .mem = c->mem };
    const bool told = WFI_UNLIKELY(c->log.topics != NULL) && wfi_log_on(&c->log, "dispatch");
    b->declined = told ? &declined : NULL;
    *why = c->rt->device->api->module_load(c->rt->device, b);
    if (told)
        tell_dispatch(c, b, nin, layout, *why, &declined);
    wfi_text_free(&declined);
    if (WFI_UNLIKELY(c->log.topics != NULL) && !*why && b->tunable && wfi_log_on(&c->log, "tune"))
        tell_tunable(c, b);
    return *why == NULL;
}

static bool keep_bound(wf_ctx *c, wfi_bound *e, const wfi_bind *b, const uint32_t *layout, const char *site)
{
    for (uint32_t i = 0; i < e->nout; i++)
        e->out[i].inplace = i == 0 ? b->inplace : i < WFI_BIND_OUT ? b->inplace_of[i] : 0;
    e->fn = b->fn;
    e->list = b->list;
    e->scratch = b->scratch;
    e->alias = b->alias;
    e->faults = b->faults;
    e->impl = b->impl;
    e->how = b->how;
    e->keep = b->keep;
    e->order = b->order;
    if (b->params_bytes) {
        char *p = add(c, b->params_bytes + 64, site); /* kernels may keep vectors in their parameters */
        if (!p)
            return false;
        p += (64 - (uintptr_t)p % 64) % 64;
        memcpy(p, b->params, b->params_bytes);
        e->params = p;
    }
    for (uint32_t i = 0; i < e->nout; i++) {
        int64_t offset = 0;
        if (i == 0 && b->alias >= 0)
            offset = wfi_layout_at(&c->ids, layout[b->alias])->offset + b->alias_offset;
        if (!(e->out[i].layout = wfi_ids_layout(&c->ids, e->out[i].type, b->out[i].stride, offset)))
            return wfi_error_memory(c, "a layout", site), false;
    }
    return wfi_queue_reserve(c->queue, b->scratch) || (wfi_error_memory(c, "scratch memory", site), false);
}

static bool grow_bound(wf_ctx *c)
{
    uint32_t mask = c->bound_mask ? c->bound_mask * 2 + 1 : 1023;
    wfi_bound **tab = wfi_mem_zalloc(c->mem, ((size_t)mask + 1) * sizeof(wfi_bound *));
    if (!tab)
        return false;
    for (uint32_t i = 0; c->bound && i <= c->bound_mask; i++)
        for (wfi_bound *e = c->bound[i], *next; e; e = next) {
            next = e->next;
            wfi_bound **s = &tab[hash_of(e->key, e->nin, e->in) & mask];
            e->next = *s;
            *s = e;
        }
    wfi_mem_free(c->mem, c->bound);
    c->bound = tab;
    c->bound_mask = mask;
    return true;
}

/* How many results there are, of which types, and whether the operator is to be taken apart. */
static bool results_of(wf_ctx *c, wfi_bound *e, const uint32_t *layout, uint32_t *out, const char *site,
                       wf_tensor *const *in)
{
    uint32_t type[WFI_BIND_IN];
    const void *attr = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(e->key));
    if (WFI_KEY_OP(e->key) == WFI_NODE_FUSED) {
        const wfi_body *body = attr;
        e->nout = body->nout;
        memcpy(out, body->type, sizeof body->type);
        return true;
    }
    if (WFI_KEY_OP(e->key) == WFI_NODE_FLOW) {
        e->nout = wfi_flow_nout(attr);
        for (uint32_t i = 0; i < e->nout; i++)
            if (!(out[i] = wfi_flow_out_type(&c->ids, attr, i)))
                return wfi_error_memory(c, "a type", site), false;
        return true;
    }
    for (uint32_t i = 0; i < e->nin; i++)
        type[i] = layout[i] ? wfi_layout_at(&c->ids, layout[i])->type : 0;
    const wfi_infer *inf = wfi_infer_get(c, e->key, e->nin, type, site, in);
    if (!inf)
        return false;
    e->nout = inf->nout;
    e->lower = inf->lower;
    memcpy(out, inf->type, sizeof inf->type);
    return true;
}

static __attribute__((noinline)) const wfi_bound *bind_new(wf_ctx *c, uint64_t key, uint32_t nin,
                                                           const uint32_t *layout, uint64_t hash, const char *site,
                                                           wf_tensor *const *in)
{
    wfi_bound results = { .key = key, .nin = nin, .alias = -1 };
    uint32_t type[WFI_NODE_OUTS];
    if (!results_of(c, &results, layout, type, site, in))
        return NULL;
    wfi_bound *e = add(c, sizeof *e + nin * sizeof *e->in, site);
    if (!e)
        return NULL;
    *e = results;
    memcpy(e->in, layout, nin * sizeof *layout);
    int64_t *offset = add(c, (nin + 1) * sizeof *offset, site);
    if (!offset)
        return NULL;
    for (uint32_t i = 0; i < nin; i++)
        offset[i] = layout[i] ? wfi_layout_at(&c->ids, layout[i])->start : 0;
    e->in_offset = offset;
    e->attr = wfi_attr_data(&c->ids, WFI_KEY_PAYLOAD(key));
    if (!(e->out = add(c, (e->nout + 1) * sizeof *e->out, site)))
        return NULL;
    for (uint32_t k = 0; k < e->nout; k++) {
        size_t bytes = wfi_type_at(&c->ids, type[k])->bytes;
        e->out[k] = (wfi_bound_out){ .type = type[k], .bytes = bytes, .cls = wfi_buf_class(bytes) };
    }
    if (WFI_KEY_OP(key) == WFI_NODE_FLOW) {
        if (!wfi_flow_bind(c, e, layout, site))
            return NULL;
    } else if (!e->lower) {
        wfi_view view[WFI_BIND_IN + WFI_BIND_OUT];
        wfi_bind b = { .params = c->bind_params };
        const char *why;
        if (!ask(c, key, nin, layout, e->nout, type, &b, view, &why)) {
            if (!why)
                wfi_error_memory(c, "a layout", site);
            else if (WFI_KEY_OP(key) < WFI_OP_COUNT) {
                const wfi_op_info *op = &wfi_op_table[WFI_KEY_OP(key)];
                if (wfi_error_set(c, WF_ERR_UNSUPPORTED, op->name, site, "%s cannot do this: %s",
                                  c->rt->device->api->name, why) &&
                    in)
                    wfi_error_operands(c, op, (int32_t)nin, in);
            }
            return NULL;
        }
        if (!keep_bound(c, e, &b, layout, site))
            return NULL;
    }
    if ((!c->bound || c->nbound > c->bound_mask) && !grow_bound(c) && !c->bound)
        return wfi_error_memory(c, "the operator cache", site), NULL;
    wfi_bound **s = &c->bound[hash & c->bound_mask];
    e->next = *s;
    *s = e;
    c->nbound++;
    return e;
}

const wfi_bound *wfi_bound_get(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *layout, const char *site,
                               wf_tensor *const *in)
{
    key &= ~WFI_KEY_NOGRAD;
    uint64_t h = hash_of(key, nin, layout);
    if (WFI_LIKELY(c->bound != NULL))
        for (wfi_bound *e = c->bound[h & c->bound_mask]; e; e = e->next)
            if (e->key == key && same_in(e->in, layout, nin))
                return e;
    return bind_new(c, key, nin, layout, h, site, in);
}

/* False: out of memory. A composite is kept as it is if the device can do it for plain layouts, else it is lowered, in
 * every mode alike. */
static bool must_lower(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *type, const uint32_t *out, bool *lower)
{
    const wfi_op_info *op = &wfi_op_table[WFI_KEY_OP(key)];
    *lower = false;
    if (!(op->flags & WFI_OP_COMPOSITE))
        return true;
    wfi_view view[WFI_BIND_IN + WFI_BIND_OUT];
    uint32_t layout[WFI_BIND_IN];
    wfi_bind b = { .params = c->bind_params };
    const char *why;
    for (uint32_t i = 0; i < nin; i++) {
        layout[i] = type[i] ? wfi_ids_dense(&c->ids, type[i]) : 0;
        if (type[i] && !layout[i])
            return false;
    }
    *lower = !ask(c, key, nin, layout, op->nout, out, &b, view, &why);
    return !*lower || why;
}

static bool grow_infer(wf_ctx *c)
{
    uint32_t mask = c->infer_mask ? c->infer_mask * 2 + 1 : 1023;
    wfi_infer **tab = wfi_mem_zalloc(c->mem, ((size_t)mask + 1) * sizeof(wfi_infer *));
    if (!tab)
        return false;
    for (uint32_t i = 0; c->infer && i <= c->infer_mask; i++)
        for (wfi_infer *e = c->infer[i], *next; e; e = next) {
            next = e->next;
            wfi_infer **s = &tab[hash_of(e->key, e->nin, e->in) & mask];
            e->next = *s;
            *s = e;
        }
    wfi_mem_free(c->mem, c->infer);
    c->infer = tab;
    c->infer_mask = mask;
    return true;
}

const wfi_infer *wfi_infer_get(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *type, const char *site,
                               wf_tensor *const *in)
{
    key &= ~WFI_KEY_NOGRAD;
    uint64_t h = hash_of(key, nin, type);
    if (c->infer)
        for (wfi_infer *e = c->infer[h & c->infer_mask]; e; e = e->next)
            if (e->key == key && same_in(e->in, type, nin))
                return e;
    uint32_t out[WFI_BIND_OUT] = { 0 };
    if (!result_types(c, key, nin, type, out, site, in))
        return NULL;
    wfi_infer *e = add(c, sizeof *e + nin * sizeof *e->in, site);
    if (!e || ((!c->infer || c->ninfer > c->infer_mask) && !grow_infer(c) && !c->infer))
        return e ? (wfi_error_memory(c, "the operator cache", site), NULL) : NULL;
    e->key = key;
    e->nin = nin;
    e->nout = wfi_op_table[WFI_KEY_OP(key)].nout;
    memcpy(e->type, out, sizeof out);
    memcpy(e->in, type, nin * sizeof *type);
    if (!must_lower(c, key, nin, type, out, &e->lower))
        return wfi_error_memory(c, "a layout", site), NULL;
    wfi_infer **s = &c->infer[h & c->infer_mask];
    e->next = *s;
    *s = e;
    c->ninfer++;
    return e;
}
