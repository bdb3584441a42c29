#include "ops/cost.h"
#include <ctype.h>
#include <string.h>

/* Operations that the functions of src/kernel/vmath_f32.h take, counted there; others count as one. */
static const struct {
    const char *name;
    double ops;
} functions[] = {
    { "vexp", 18 },      { "vexpm1", 22 },   { "vlog", 26 }, { "vlog1p", 34 },     { "vtanh", 24 },
    { "vsigmoid", 22 },  { "vsech2", 23 },   { "verf", 28 }, { "vgelu", 32 },      { "vgelu_grad", 54 },
    { "vsoftplus", 54 }, { "vsin", 34 },     { "vcos", 34 }, { "vgelu_tanh", 28 }, { "vgelu_tanh_grad", 36 },
    { "vpow", 60 },      { "visfinite", 1 },
};

static double function_ops(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strlen(functions[i].name) == n && !memcmp(functions[i].name, name, n))
            return functions[i].ops;
    return 1;
}

double wfi_cost_of_code(const char *code)
{
    double ops = 0;
    for (const char *s = code; *s;) {
        const char *from = s;
        if (isalpha((unsigned char)*s) || *s == '_') {
            while (isalnum((unsigned char)*s) || *s == '_')
                s++;
            ops += *s == '(' ? function_ops(from, (size_t)(s - from)) : 0;
        } else if (isdigit((unsigned char)*s)) { /* 1.5e-7f */
            while (isalnum((unsigned char)*s) || *s == '.' || ((*s == '-' || *s == '+') && (s[-1] | 32) == 'e'))
                s++;
        } else {
            size_t n = strspn(s, "+-*/<>=!?&|");
            bool assigns = n == 1 && *s == '=';
            ops += n > 0 && !assigns ? 1 : 0;
            s += n ? n : 1;
        }
    }
    return ops;
}

/* Elements of an operand that are read: a table that is looked up gives one row for each index. */
static double elements_read(const wfi_axis_inst *x, int slot)
{
    double all = (double)wfi_axis_elements(x, slot, NULL), rows = all;
    for (int i = 0; i < x->nd[slot]; i++) {
        const wfi_axis_dim *d = &x->d[slot][i];
        if (d->look >= 0 && d->size > 0)
            rows *= (double)wfi_axis_elements(x, d->look, NULL) / (double)d->size;
    }
    return rows < all ? rows : all;
}

static double largest(const wfi_axis_inst *x)
{
    double most = 0;
    for (int slot = 0; slot < x->nslot; slot++) {
        double n = slot < x->nin ? elements_read(x, slot) : (double)wfi_axis_elements(x, slot, NULL);
        most = n > most ? n : most;
    }
    return most;
}

int64_t wfi_op_window_pairs(int64_t in, int64_t out, int64_t taps, int64_t stride, int64_t dilation, int64_t pad)
{
    int64_t n = 0;
    for (int64_t k = 0; k < taps; k++) /* outputs o with 0 <= o stride + k dilation - pad < in */
        for (int64_t o = 0, at = k * dilation - pad; o < out; o++, at += stride)
            n += at >= 0 && at < in;
    return n;
}

/* The part of all points at which a guarded window reads inside: the rest is padding, and nobody computes it. */
static double inside(const wfi_axis_inst *x)
{
    double part = 1;
    for (int slot = 0; slot < x->nin; slot++)
        for (int i = 0; i < x->nd[slot]; i++) {
            const wfi_axis_dim *d = &x->d[slot][i];
            if (!(d->marks & WFI_GUARD) || d->n != 2)
                continue;
            const int64_t n = x->f[d->f[0]].size, m = x->f[d->f[1]].size;
            if (n > 0 && m > 0)
                part *= (double)wfi_op_window_pairs(d->size, n, m, d->c[0], d->c[1], -d->off) / (double)(n * m);
        }
    return part;
}

static double operations(const wfi_op_info *op, const wfi_axis_inst *x)
{
    const char *code = op->def->primitive;
    if (op->flags & WFI_OP_MOVE)
        return 0;
    if (code && strcmp(code, "kernel") != 0)
        return wfi_cost_of_code(code) * inside(x) * (double)wfi_axis_points(x, NULL);
    return largest(x);
}

bool wfi_op_cost(const wfi_op_info *op, const void *attr, int nin, const wfi_axis_shape *in, const wf_dtype *dtype,
                 wfi_cost *cost)
{
    wfi_axis_inst x;
    wfi_attrs none;
    char err[WFI_AXIS_ERR];
    memset(&none, 0, sizeof none);
    *cost = (wfi_cost){ .flops = 0 };
    if (nin > WFI_COST_OPERANDS || !wfi_op_bind(op, attr, nin, in, dtype, NULL, &x, err, sizeof err))
        return false;
    for (int i = 0; i < nin; i++) {
        int64_t n = in[i].ndim < 0 ? 0 : 1;
        for (int k = 0; k < in[i].ndim; k++)
            n *= in[i].dim[k];
        double read = in[i].ndim < 0 ? 0 : elements_read(&x, wfi_axis_slot(&x, i));
        cost->read[i] = x.many >= 0 && wfi_axis_slot(&x, i) == x.many ? (double)n : read;
    }
    cost->flops = operations(op, &x);
    if (op->def->cost) {
        wf_op_case c = { .in = in, .dtype = dtype, .nin = nin, .a = attr ? attr : &none };
        op->def->cost(&c, &x, cost);
    }
    return true;
}

static double cost_of_func(const wfi_ids *ids, const wfi_func *f)
{
    const uint32_t *ref = wfi_func_refs(f), *type = wfi_func_types(f);
    double flops = 0;
    for (uint32_t k = 0; k < f->nnode; k++) {
        const wfi_func_node *n = &wfi_func_nodes(f)[k];
        const void *attr = wfi_attr_data(ids, n->attr);
        wfi_axis_shape shape[WFI_OP_INS];
        wf_dtype dtype[WFI_OP_INS];
        wfi_cost cost;
        if (n->op == WFI_NODE_FLOW)
            flops += wfi_cost_of_flow(ids, attr);
        if (n->op >= WFI_OP_COUNT || n->nin > WFI_OP_INS)
            continue;
        for (uint32_t i = 0; i < n->nin; i++) {
            const uint32_t v = ref[n->in0 + i];
            wfi_type_describe(ids, v == WFI_NO_VALUE ? 0 : type[v], &shape[i], &dtype[i]);
        }
        if (wfi_op_cost(&wfi_op_table[n->op], attr, n->nin, shape, dtype, &cost))
            flops += cost.flops;
    }
    return flops;
}

double wfi_cost_of_flow(const wfi_ids *ids, const wfi_flow *f)
{
    const double once = cost_of_func(ids, wfi_func_at(ids, f->func)),
                 other = f->other ? cost_of_func(ids, wfi_func_at(ids, f->other)) : 0;
    if (f->kind == WFI_FLOW_COND)
        return once > other ? once : other;
    return (once + other) * (f->count > 0 || f->kind == WFI_FLOW_SCAN ? (double)f->count : 1);
}
