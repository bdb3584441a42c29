/* Random valid graphs: values of several types and shapes, variables that are assigned, gradients, results. Each graph
 * runs eager, lazy (recorded, planned, replayed) on one, two and three threads and with the reuse of memory off, and
 * all must agree bit for bit; every operator's result must agree with the reference; every plan is checked; the graph's
 * text must parse back to the same graph.
 *
 *     test_random_graphs [--count N] [--seed S] [--compile-every N] */
#include "refeval.h"
#include "passes/graph_text.h"
#include "plan/plan.h"

enum { NODES = 24, VALUES = 96, LEAVES = 40, STEPS = 3, ELEMENTS = 3000 };

typedef struct leaf {
    operand o;
    void *data[STEPS]; /* variables: only data[0] */
    bool var;
} leaf;
typedef struct node {
    uint32_t op;
    wfi_attrs a;
    int nin, nout;
    int in[8], out; /* values; outputs are out .. out + nout */
} node;
typedef struct value {
    operand o;
    int leaf; /* -1: of a node */
    bool var; /* as it is when the step begins */
} value;
typedef struct graph {
    leaf leaf[LEAVES];
    node node[NODES];
    value value[VALUES];
    int nleaf, nnode, nvalue;
    int result[4], nresult;
    int assign_var[4], assign_value[4], nassign;
    int loss, wrt[2]; /* loss < 0: none */
    uint64_t seed;
} graph;

static uint64_t first_seed = 1;
static int count = 500, compile_every = 8;
static int checked_nodes, texts;
static bool compiling; /* steps wait for generated kernels, so that the third one runs them */

/* ---- making ---- */

static bool is_real(wf_dtype t)
{
    return t == WF_F64 || t == WF_F32 || t == WF_BF16 || t == WF_F16;
}

static int new_leaf(graph *g, rng *r, wf_dtype t, int32_t ndim, const int64_t *dim, int64_t modulo, bool var)
{
    if (g->nleaf == LEAVES || g->nvalue == VALUES)
        return -1;
    leaf *l = &g->leaf[g->nleaf];
    *l = (leaf){ .o = { .dtype = t, .ndim = ndim, .modulo = modulo }, .var = var };
    memcpy(l->o.dim, dim, (size_t)ndim * sizeof *dim);
    for (int s = 0; s < (var ? 1 : STEPS); s++)
        l->data[s] = operand_fill(&l->o, r);
    g->value[g->nvalue] = (value){ .o = l->o, .leaf = g->nleaf++, .var = var };
    return g->nvalue++;
}

static int some(const graph *g, rng *r, bool real, int rank_min)
{
    for (int tries = 0; tries < 20; tries++) {
        int v = (int)rng_below(r, g->nvalue);
        if ((!real || is_real(g->value[v].o.dtype)) && g->value[v].o.ndim >= rank_min && !g->value[v].o.modulo)
            return v;
    }
    return 0;
}

/* Adds op(in) if that is valid and not too large. */
static bool try_node(graph *g, const char *name, int nin, const int *in, const char *attrs)
{
    int id = wfi_op_find(name);
    assert_true(id >= 0);
    const wfi_op_info *op = &wfi_op_table[id];
    wfi_axis_shape shape[8];
    wf_dtype dtype[8], result[REF_OUT];
    char err[WFI_AXIS_ERR];
    wfi_axis_inst x;
    node *n = &g->node[g->nnode];
    if (g->nnode == NODES || g->nvalue + op->nout > VALUES)
        return false;
    *n = (node){ .op = (uint32_t)id, .nin = nin, .nout = op->nout, .out = g->nvalue };
    for (int i = 0; i < 8; i++) {
        bool given = i < nin && in[i] >= 0;
        n->in[i] = given ? in[i] : -1;
        const operand *o = given ? &g->value[in[i]].o : NULL;
        dtype[i] = given ? o->dtype : WF_DTYPE_NONE;
        shape[i] = (wfi_axis_shape){ .dtype = wf_dtype_name(dtype[i]), .ndim = given ? o->ndim : -1 };
        if (given)
            memcpy(shape[i].dim, o->dim, sizeof shape[i].dim);
    }
    if (!(op->flags & WFI_OP_MANY) && nin < op->nin_max)
        n->nin = op->nin_max;
    if (!wfi_op_attr_parse(op, attrs, &n->a, NULL, 0, err, sizeof err))
        fail_msg("%s: %s", attrs, err);
    if (!wfi_op_types(op, &n->a, n->nin, dtype, result, err, sizeof err) ||
        !wfi_op_bind(op, &n->a, n->nin, shape, dtype, NULL, &x, err, sizeof err))
        return false;
    operand out[REF_OUT];
    for (int k = 0; k < op->nout; k++) {
        wf_dims d = wfi_axis_result(&x, k);
        out[k] = (operand){ .dtype = result[k], .ndim = d.n };
        memcpy(out[k].dim, d.d, sizeof out[k].dim);
        if (operand_elements(&out[k]) > ELEMENTS)
            return false;
    }
    for (int k = 0; k < op->nout; k++)
        g->value[g->nvalue++] = (value){ .o = out[k], .leaf = -1 };
    g->nnode++;
    return true;
}

static void one_node(graph *g, rng *r)
{
    static const char *const unary[] = { "tanh",     "sigmoid", "relu", "neg",  "abs",  "gelu",  "erf",       "square",
                                         "softplus", "sin",     "exp",  "silu", "sign", "floor", "gelu_tanh", "log1p" };
    static const char *const binary[] = { "add", "sub", "mul", "maximum", "minimum", "div", "gate", "zmul" };
    static const char *const reduce[] = { "sum", "mean", "max", "min", "logsumexp" };
    static const char *const types[] = { "f32", "f64", "bf16", "f16", "f32", "i32" };
    char text[160] = "";
    int v = some(g, r, true, 0), in[3] = { v, -1, -1 };
    const operand *o = &g->value[v].o;
    int64_t last = o->ndim ? o->dim[o->ndim - 1] : 0;
    int axis = o->ndim ? (int)rng_below(r, o->ndim) : 0;
    switch (rng_below(r, 18)) {
    case 0:
    case 1: try_node(g, unary[rng_below(r, 16)], 1, in, ""); break;
    case 2:
    case 3:
    case 4:
        for (int tries = 0; tries < 12; tries++) {
            in[1] = some(g, r, true, 0);
            if (try_node(g, binary[rng_below(r, 8)], 2, in, ""))
                return;
        }
        in[1] = v;
        try_node(g, "mul", 2, in, "");
        break;
    case 5:
        snprintf(text, sizeof text, "axes=%s%d keep=%s", "", axis, rng_below(r, 2) ? "true" : "false");
        if (!o->ndim || rng_below(r, 4) == 0)
            snprintf(text, sizeof text, "keep=false");
        try_node(g, reduce[rng_below(r, 5)], 1, in, text);
        break;
    case 6:
    case 7:
        if (o->ndim < 1)
            return;
        in[1] = new_leaf(g, r, o->dtype, 2, (int64_t[]){ last, 1 + rng_below(r, 20) }, 0, rng_below(r, 3) == 0);
        if (in[1] >= 0)
            try_node(g, "matmul", 2, in, "");
        break;
    case 8:
        if (o->ndim) {
            snprintf(text, sizeof text, "axis=%d", axis);
            try_node(g, rng_below(r, 2) ? "softmax" : "log_softmax", 1, in, text);
        }
        break;
    case 9:
        if (!o->ndim)
            return;
        in[1] = rng_below(r, 2) ? new_leaf(g, r, o->dtype, 1, &last, 0, true) : -1;
        in[2] = in[1] >= 0 && rng_below(r, 2) ? new_leaf(g, r, o->dtype, 1, &last, 0, false) : -1;
        try_node(g, "layer_norm", 3, in, "");
        break;
    case 10:
        snprintf(text, sizeof text, "shape=%lld", (long long)operand_elements(o));
        if (o->ndim >= 2 && rng_below(r, 2))
            snprintf(text, sizeof text, "shape=-1,%lld", (long long)last);
        try_node(g, "reshape", 1, in, text);
        break;
    case 11:
        if (o->ndim >= 2 && rng_below(r, 2))
            try_node(g, "transpose", 1, in, "");
        else if (o->ndim) {
            snprintf(text, sizeof text, "axes=%d", axis);
            try_node(g, "flip", 1, in, text);
        }
        break;
    case 12:
        if (o->ndim && o->dim[axis] > 1) {
            int64_t start = rng_below(r, o->dim[axis] - 1), step = 1 + rng_below(r, 2);
            snprintf(text, sizeof text, "axis=%d start=%lld len=%lld step=%lld", axis, (long long)start,
                     (long long)((o->dim[axis] - 1 - start) / step + 1), (long long)step);
            try_node(g, "slice", 1, in, text);
        }
        break;
    case 13:
        if (o->ndim) {
            snprintf(text, sizeof text, "axis=%d lo=%d hi=%d value=%d", axis, (int)rng_below(r, 3),
                     (int)rng_below(r, 3), (int)rng_below(r, 3));
            if (rng_below(r, 2))
                try_node(g, "pad", 1, in, text);
            else {
                in[1] = in[2] = v;
                snprintf(text, sizeof text, "axis=%d", axis);
                try_node(g, "concat", 3, in, text);
            }
        }
        break;
    case 14: /* a table looked up */
        if (o->ndim == 2) {
            in[1] = new_leaf(g, r, rng_below(r, 2) ? WF_I64 : WF_I32, 1, (int64_t[]){ 1 + rng_below(r, 12) }, o->dim[0],
                             false);
            if (in[1] >= 0)
                try_node(g, "gather", 2, in, "");
        }
        break;
    case 15:
        snprintf(text, sizeof text, "dtype=%s", types[rng_below(r, 6)]);
        try_node(g, "cast", 1, in, text);
        break;
    case 16: /* a choice */
        if (try_node(g, rng_below(r, 2) ? "lt" : "ge", 2, (int[]){ v, v }, "")) {
            int c = g->nvalue - 1;
            in[0] = c;
            in[1] = v;
            in[2] = v;
            try_node(g, "where", 3, in, "");
        }
        break;
    default:
        if (o->ndim && rng_below(r, 2)) {
            snprintf(text, sizeof text, "axis=%d", axis);
            try_node(g, "argmax", 1, in, text);
        } else if (o->ndim < 4) {
            char shape[96] = "shape=3";
            for (int32_t i = 0; i < o->ndim; i++)
                snprintf(shape + strlen(shape), sizeof shape - strlen(shape), ",%lld", (long long)o->dim[i]);
            try_node(g, "broadcast_to", 1, in, shape);
        }
        break;
    }
}

static bool same_type(const operand *a, const operand *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim);
}

static void effects(graph *g, rng *r)
{
    int first = 0;
    while (first < g->nvalue && g->value[first].leaf >= 0)
        first++;
    g->nresult = 1 + (int)rng_below(r, 4);
    for (int i = 0; i < g->nresult; i++)
        g->result[i] = i == 0 ? g->nvalue - 1 : (int)rng_below(r, g->nvalue);
    for (int v = 0; v < g->nvalue && g->nassign < 4; v++) {
        if (!g->value[v].var || rng_below(r, 3) == 0)
            continue;
        for (int tries = 0; tries < 40; tries++) {
            int w = (int)rng_below(r, g->nvalue);
            if (same_type(&g->value[w].o, &g->value[v].o)) {
                g->assign_var[g->nassign] = v;
                g->assign_value[g->nassign++] = w;
                break;
            }
        }
    }
    g->loss = -1;
    int wrt[VALUES], n = 0;
    for (int v = 0; v < g->nvalue; v++)
        if (g->value[v].leaf >= 0 && is_real(g->value[v].o.dtype))
            wrt[n++] = v;
    int v = some(g, r, true, 0);
    if (n && rng_below(r, 2)) {
        g->loss = v;
        g->wrt[0] = wrt[rng_below(r, n)];
        g->wrt[1] = wrt[rng_below(r, n)];
    }
}

static graph *make(uint64_t seed)
{
    static const int64_t sizes[] = { 1, 2, 3, 4, 5, 7, 8, 16, 17, 33 };
    graph *g = calloc(1, sizeof *g);
    rng r = { seed * 0x9e3779b97f4a7c15u };
    assert_non_null(g);
    g->seed = seed;
    int64_t shared[4];
    for (int i = 0; i < 4; i++)
        shared[i] = sizes[rng_below(&r, 10)];
    for (int i = 0; i < 4; i++) {
        int64_t dim[3];
        int32_t ndim = (int32_t)rng_below(&r, 4);
        for (int32_t k = 0; k < ndim; k++)
            dim[k] = shared[rng_below(&r, 4)];
        wf_dtype t = rng_below(&r, 5) ? WF_F32 : rng_below(&r, 2) ? WF_F64 : WF_BF16;
        new_leaf(g, &r, t, ndim, dim, 0, i % 2 == 0);
        if (i < 2) /* some of one type, so that they meet */
            new_leaf(g, &r, t, ndim, dim, 0, rng_below(&r, 2) == 0);
    }
    int want = 4 + (int)rng_below(&r, NODES - 6);
    for (int tries = 0; g->nnode < want && tries < 400; tries++)
        one_node(g, &r);
    effects(g, &r);
    return g;
}
static void graph_free(graph *g)
{
    for (int i = 0; i < g->nleaf; i++)
        for (int s = 0; s < STEPS; s++)
            free(g->leaf[i].data[s]);
    free(g);
}

static void die(const graph *g, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static void die(const graph *g, const char *format, ...)
{
    char text[1500];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    for (int i = 0; i < g->nnode; i++) {
        char attrs[200];
        const node *n = &g->node[i];
        wfi_op_attr_print(&wfi_op_table[n->op], &n->a, attrs, sizeof attrs);
        print_error("  v%d = %s", n->out, wfi_op_table[n->op].name);
        for (int k = 0; k < n->nin && k < 8; k++)
            print_error(" v%d", n->in[k]);
        print_error(" %s : %s[", attrs, wf_dtype_name(g->value[n->out].o.dtype));
        for (int32_t k = 0; k < g->value[n->out].o.ndim; k++)
            print_error("%s%lld", k ? "," : "", (long long)g->value[n->out].o.dim[k]);
        print_error("]\n");
    }
    fail_msg("graph of seed %llu: %s", (unsigned long long)g->seed, text);
    abort();
}

/* ---- running ---- */

typedef struct outcome {
    char *bytes; /* results of all steps, then the variables */
    size_t n, cap;
} outcome;

static void put(outcome *o, const void *p, size_t n)
{
    if (o->n + n > o->cap) {
        o->cap = (o->n + n) * 2 + 1024;
        o->bytes = realloc(o->bytes, o->cap);
        assert_non_null(o->bytes);
    }
    memcpy(o->bytes + o->n, p, n);
    o->n += n;
}
static void fetch(const graph *g, wf_ctx *c, wf_tensor *t, outcome *o)
{
    wf_dims d = wf_tensor_dims(t);
    wf_dtype type = wf_tensor_dtype(t);
    int64_t n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= d.d[i];
    size_t each = wf_dtype_bytes(type), bytes = (size_t)n * each;
    char *p = malloc(bytes + 1);
    assert_non_null(p);
    if (wf_read(c, t, p, bytes) != WF_OK)
        die(g, "reading: %s", wf_error(c));
    for (int64_t i = 0; i < n; i++) /* all NaNs are one */
        if (is_real(type) && isnan(wfi_dtype_load(type, p, i)))
            memset(p + (size_t)i * each, 0xff, each);
    put(o, p, bytes);
    free(p);
}

/* Compares one node's results, as the library has just computed them, with the reference on the same operands. */
static void compare_node(const graph *g, wf_ctx *c, ref_env *e, const node *n, wf_tensor *const *v)
{
    wf_ref_tensor in[8], out[REF_OUT];
    double big = 1;
    for (int i = 0; i < n->nin && i < 8; i++) {
        in[i] = (wf_ref_tensor){ .d = NULL };
        if (n->in[i] < 0)
            continue;
        const operand *o = &g->value[n->in[i]].o;
        in[i] = ref_new(&e->pool, o->dtype, o->ndim, o->dim);
        size_t bytes = (size_t)in[i].n * wf_dtype_bytes(o->dtype);
        char *p = malloc(bytes + 1);
        assert_true(p && wf_read(c, v[n->in[i]], p, bytes) == WF_OK);
        ref_load(&in[i], p);
        free(p);
        for (int64_t k = 0; k < in[i].n; k++)
            big = fabs(in[i].d[k]) > big || isnan(in[i].d[k]) ? fabs(in[i].d[k]) : big;
    }
    if (!(big < 1e4)) { /* infinities and what is near them are not compared */
        ref_cut(&e->pool, NULL);
        return;
    }
    e->rounded = true;
    if (!ref_op(e, n->op, &n->a, n->nin, in, out))
        die(g, "reference of %s: %s", wfi_op_table[n->op].name, e->err);
    for (int k = 0; k < n->nout; k++) {
        size_t bytes = (size_t)out[k].n * wf_dtype_bytes(out[k].dtype);
        char *p = malloc(bytes + 1);
        assert_true(p && wf_read(c, v[n->out + k], p, bytes) == WF_OK);
        wf_dtype t = out[k].dtype;
        double tol = !is_real(t) ? 0 : t == WF_F64 ? 1e-9 : t == WF_F32 ? 2e-4 : t == WF_F16 ? 2e-2 : 6e-2;
        int64_t at = first_outside(&out[k], p, tol * big);
        if (at >= 0)
            die(g, "%s (v%d), element %lld is %.9g, the reference gives %.9g", wfi_op_table[n->op].name, n->out + k,
                (long long)at, wfi_dtype_load(t, p, at), out[k].d[at]);
        free(p);
    }
    checked_nodes++;
    ref_cut(&e->pool, NULL);
}

static void one_step(const graph *g, wf_ctx *c, wf_var **var, int step, ref_env *e, outcome *o)
{
    wf_tensor *v[VALUES] = { NULL }, *grad[2] = { NULL }, *res[4];
    wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
    for (int i = 0; i < g->nvalue; i++) {
        const leaf *l = g->value[i].leaf < 0 ? NULL : &g->leaf[g->value[i].leaf];
        if (!l)
            continue;
        wf_dims d = { .n = l->o.ndim, .d = { 0 } };
        memcpy(d.d, l->o.dim, (size_t)d.n * sizeof *d.d);
        v[i] = l->var ? wf_value(var[g->value[i].leaf]) : wf_tensor_from(c, l->o.dtype, d, l->data[step]);
    }
    for (int i = 0; i < g->nnode; i++) {
        const node *n = &g->node[i];
        wf_tensor *in[8];
        size_t bytes = wfi_op_table[n->op].attr_bytes;
        for (int k = 0; k < 8; k++)
            in[k] = n->in[k] < 0 ? NULL : v[n->in[k]];
        wfi_emit_n(c, (wfi_op)n->op, bytes ? &n->a : NULL, bytes, n->nin, in, n->nout, v + n->out, WF_SITE);
        if (wf_error(c))
            die(g, "%s", wf_error(c));
        if (e)
            compare_node(g, c, e, n, v);
    }
    if (g->loss >= 0) {
        wf_tensor *wrt[2] = { v[g->wrt[0]], v[g->wrt[1]] };
        if (wf_grad(wf_sum(wf_tanh(v[g->loss]), WF_NO_DIMS), 2, wrt, grad) != WF_OK)
            die(g, "%s", wf_error(c));
    }
    for (int i = 0; i < g->nassign; i++)
        wf_assign(var[g->value[g->assign_var[i]].leaf], v[g->assign_value[i]]);
    for (int i = 0; i < g->nresult; i++)
        res[i] = wf_scope_return(c, s, v[g->result[i]]);
    for (int i = 0; i < 2; i++)
        grad[i] = grad[i] ? wf_scope_return(c, s, grad[i]) : NULL;
    if (wf_scope_end(c, s) != WF_OK)
        die(g, "step %d: %s", step, wf_error(c));
    for (int i = 0; i < g->nresult; i++)
        fetch(g, c, res[i], o);
    for (int i = 0; i < 2; i++)
        if (grad[i])
            fetch(g, c, grad[i], o);
    wf_scope_end(c, around);
    if (compiling)
        wf_compile_wait(c);
}

/* The text of the plan's graph parses back to the same graph. */
static void text_round(const graph *g, wf_ctx *c)
{
    char err[256];
    wfi_ids ids;
    wfi_graph back;
    if (!c->last_plan)
        return;
    const wfi_graph *was = &c->last_plan->graph;
    wfi_text a = { .mem = c->mem }, b = { .mem = c->mem };
    wfi_graph_print(was, &a);
    assert_true(!a.oom && wfi_ids_init(&ids, c->mem));
    wfi_graph_init(&back, c->mem, &ids);
    if (!wfi_graph_parse(wfi_text_str(&a), &back, err, sizeof err))
        die(g, "its text does not parse: %s\n%s", err, wfi_text_str(&a));
    if (!wfi_graph_verify(&back, err, sizeof err))
        die(g, "its text gives a wrong graph: %s", err);
    wfi_graph_print(&back, &b);
    if (strcmp(wfi_text_str(&a), wfi_text_str(&b)))
        die(g, "its text changes:\n%s\n%s", wfi_text_str(&a), wfi_text_str(&b));
    assert_int_equal(was->nnode, back.nnode);
    for (size_t k = 0; k < was->nnode; k++)
        if (was->node[k].hash != back.node[k].hash)
            die(g, "node %zu has another hash after its text was parsed", k);
    wfi_graph_free(&back);
    wfi_ids_free(&ids);
    wfi_text_free(&a);
    wfi_text_free(&b);
    texts++;
}

static outcome run(const graph *g, wf_mode mode, int threads, ref_env *e)
{
    outcome o = { 0 };
    wf_var *var[LEAVES] = { NULL };
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = threads });
    assert_non_null(c);
    for (int i = 0; i < g->nleaf; i++) {
        const leaf *l = &g->leaf[i];
        wf_dims d = { .n = l->o.ndim, .d = { 0 } };
        memcpy(d.d, l->o.dim, (size_t)d.n * sizeof *d.d);
        if (l->var)
            var[i] = wf_var_new(c, "v", l->o.dtype, d, l->data[0]);
    }
    for (int step = 0; step < STEPS; step++)
        one_step(g, c, var, step, e, &o);
    wf_scope around = wf_scope_begin(c, "look", .group = true);
    for (int i = 0; i < g->nleaf; i++)
        if (var[i])
            fetch(g, c, wf_value(var[i]), &o);
    wf_scope_end(c, around);
    if (compiling)
        assert_int_equal(wf_ctx_stats(c).failed, 0);
    if (mode == WF_LAZY && threads == 1) {
        assert_int_equal(wf_ctx_stats(c).replayed, STEPS - 1);
        text_round(g, c);
    }
    assert_int_equal(wf_ctx_close(c), WF_OK);
    return o;
}

static void must_equal(const graph *g, const outcome *want, outcome got, const char *what)
{
    if (want->n != got.n)
        die(g, "%s: %zu bytes of results, %zu were wanted", what, got.n, want->n);
    for (size_t i = 0; i < want->n; i++)
        if (want->bytes[i] != got.bytes[i])
            die(g, "%s: byte %zu of %zu differs from eager", what, i, want->n);
    free(got.bytes);
}

/* With kernels of the system's compiler, by each that there is. */
static void compiled(const graph *g, const outcome *eager)
{
    static const char *const names[] = { "gcc", "clang" };
    compiling = true;
    for (int i = 0; i < 2; i++) {
        setenv("WEFT_CC", names[i], 1);
        must_equal(g, eager, run(g, WF_LAZY, 1, NULL), names[i]);
        must_equal(g, eager, run(g, WF_LAZY, 3, NULL), names[i]);
    }
    setenv("WEFT_CC", "", 1);
    compiling = false;
}

static void graphs(void **state)
{
    (void)state;
    ref_env env = { .ctx = wf_ctx_new(&(wf_ctx_opts){ .threads = 1 }) };
    for (int i = 0; i < count; i++) {
        graph *g = make(first_seed + (uint64_t)i);
        outcome eager = run(g, WF_EAGER, 1, &env);
        must_equal(g, &eager, run(g, WF_LAZY, 1, NULL), "lazy");
        must_equal(g, &eager, run(g, i % 2 ? WF_LAZY : WF_EAGER, 2, NULL), "two threads");
        must_equal(g, &eager, run(g, i % 2 ? WF_EAGER : WF_LAZY, 3, NULL), "three threads");
        setenv("WEFT_REUSE", "0", 1);
        must_equal(g, &eager, run(g, WF_LAZY, 1, NULL), "lazy, without reuse of memory");
        unsetenv("WEFT_REUSE");
        if (i % compile_every == 0)
            compiled(g, &eager);
        free(eager.bytes);
        graph_free(g);
    }
    print_message("%d operators compared with the reference\n", checked_nodes);
    assert_true(checked_nodes > 10 * count && texts >= 2 * count);
    assert_int_equal(wf_ctx_close(env.ctx), WF_OK);
}

int main(int argc, char **argv)
{
    setenv("WEFT_CHECK", "1", 1);
    setenv("WEFT_CC", "", 1);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--count"))
            count = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--compile-every"))
            compile_every = atoi(argv[i + 1]);
        if (!strcmp(argv[i], "--seed"))
            first_seed = strtoull(argv[i + 1], NULL, 10);
    }
    print_message("%d graphs from seed %llu\n", count, (unsigned long long)first_seed);
    const struct CMUnitTest tests[] = { cmocka_unit_test(graphs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
