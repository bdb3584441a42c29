/* weft show, for graphs as text. */
#include <string.h>
#include "cli/show.h"
#include "graph/body.h"
#include "ops/cost.h"
#include "passes/graph_text.h"
#include "passes/passes.h"

typedef struct shower {
    const cli_show_job *j;
    wfi_text t;
    uint32_t shown; /* graphs */
} shower;

/* ---- the work of a node ---- */

typedef struct work {
    double flops, bytes;
} work;

static double bytes_of(const wfi_graph *g, uint32_t v, double elements)
{
    return elements * (double)wf_dtype_bytes(wfi_type_at(g->ids, g->value[v].type)->dtype);
}

static work work_of(const wfi_graph *g, const wfi_node *n)
{
    work w = { 0, 0 };
    wfi_axis_shape shape[WFI_NODE_INS];
    wf_dtype dtype[WFI_NODE_INS];
    double read[WFI_NODE_INS];
    wfi_cost cost = { .flops = 0 };
    if (n->op >= WFI_NODE_INPUT)
        return w;
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        const wfi_type *t = v == WFI_NO_VALUE ? NULL : wfi_type_at(g->ids, g->value[v].type);
        shape[i] = (wfi_axis_shape){ .ndim = t ? t->ndim : -1, .dtype = t ? wf_dtype_name(t->dtype) : NULL };
        dtype[i] = t ? t->dtype : WF_DTYPE_NONE;
        read[i] = t ? (double)t->elements : 0;
        if (t)
            memcpy(shape[i].dim, t->dim, sizeof shape[i].dim);
    }
    if (n->op == WFI_NODE_FUSED) {
        const wfi_body *b = wfi_attr_data(g->ids, n->payload);
        for (uint32_t q = 0; q < b->nop; q++)
            cost.flops += wfi_cost_of_code(wfi_op_table[b->op[q].op].def->primitive);
        cost.flops *= (double)wfi_type_at(g->ids, g->value[n->out0].type)->elements;
    } else if (n->op == WFI_NODE_FLOW)
        cost.flops = wfi_cost_of_flow(g->ids, wfi_attr_data(g->ids, n->payload));
    else {
        (void)wfi_op_cost(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), n->nin, shape, dtype, &cost);
        memcpy(read, cost.read, (n->nin < WFI_COST_OPERANDS ? n->nin : WFI_COST_OPERANDS) * sizeof *read);
    }
    w.flops = cost.flops;
    for (uint32_t i = 0; i < n->nin; i++)
        if (g->in[n->in0 + i] != WFI_NO_VALUE)
            w.bytes += bytes_of(g, g->in[n->in0 + i], read[i]);
    for (uint32_t i = 0; i < n->nout; i++)
        w.bytes += bytes_of(g, n->out0 + i, (double)wfi_type_at(g->ids, g->value[n->out0 + i].type)->elements);
    return w;
}

/* ---- text ---- */

static void note_work(void *user, const wfi_node *n, wfi_text *t)
{
    const wfi_graph *g = user;
    if (n->op >= WFI_NODE_INPUT)
        return;
    const work w = work_of(g, n);
    wfi_text_fixed(t, w.flops, 0);
    wfi_text_add(t, " flop, ");
    wfi_text_fixed(t, w.bytes, 0);
    wfi_text_add(t, " bytes");
    if (n->op == WFI_NODE_FUSED)
        wfi_text_addf(t, ", group %08x", (unsigned)wfi_body_node_id(g, n));
}

static void graph_text(shower *s, const char *pass, const wfi_graph *g)
{
    union {
        const wfi_graph *in;
        void *out;
    } user = { g };
    work all = { 0, 0 };
    uint32_t operators = 0;
    for (size_t k = 0; k < g->nnode; k++) {
        const work w = work_of(g, &g->node[k]);
        operators += g->node[k].op < WFI_NODE_INPUT;
        all.flops += w.flops;
        all.bytes += w.bytes;
    }
    wfi_text_addf(&s->t, "%s# %s%s: %zu nodes, %u of them operators; ", s->shown ? "\n" : "", s->shown ? "after " : "",
                  s->shown ? pass : s->j->path, g->nnode, (unsigned)operators);
    wfi_text_fixed(&s->t, all.flops, 0);
    wfi_text_add(&s->t, " flop, ");
    wfi_text_fixed(&s->t, all.bytes, 0);
    wfi_text_add(&s->t, " bytes\n");
    wfi_graph_print_noted(g, note_work, user.out, &s->t);
}

static void notes_text(const wfi_trail *trail, wfi_text *t)
{
    for (size_t i = 0; i < trail->nnote; i++) {
        const wfi_note *n = &trail->note[i];
        wfi_text_addf(t, "%s# apart, %s: %s -> %s: %s\n", i ? "" : "\n", n->why->code, wfi_op_table[n->op[0]].name,
                      wfi_op_table[n->op[1]].name, n->why->text);
    }
}

/* ---- JSON ---- */

static void node_json(const wfi_graph *g, const wfi_node *n, wfi_text *t)
{
    static const char *const leaf[] = { "input", "scalar", "host", "const", "var", "assign", "result" };
    const work w = work_of(g, n);
    wfi_text op = { .mem = t->mem };
    char type[192];
    if (n->op < WFI_NODE_INPUT)
        wfi_graph_print_op(g, n, &op);
    wfi_text_add(t, "{\"op\":");
    wfi_text_json(t, n->op < WFI_NODE_INPUT ? wfi_text_str(&op) : leaf[n->op - WFI_NODE_INPUT]);
    t->oom |= op.oom;
    wfi_text_free(&op);
    if (n->op >= WFI_NODE_INPUT && n->op != WFI_NODE_CONST)
        wfi_text_addf(t, ",\"number\":%u", (unsigned)n->payload);
    if (n->op < WFI_OP_COUNT && n->payload) {
        char attr[512];
        wfi_op_attr_print(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), attr, sizeof attr);
        wfi_text_add(t, ",\"attributes\":");
        wfi_text_json(t, attr);
    }
    wfi_text_add(t, ",\"operands\":[");
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t v = g->in[n->in0 + i];
        wfi_text_add(t, i ? "," : "");
        if (v == WFI_NO_VALUE)
            wfi_text_add(t, "null");
        else
            wfi_text_addf(t, "%u", (unsigned)v);
    }
    wfi_text_add(t, "],\"results\":[");
    for (uint32_t i = 0; i < n->nout; i++)
        wfi_text_addf(t, "%s{\"value\":%u,\"type\":\"%s\"}", i ? "," : "", (unsigned)(n->out0 + i),
                      wfi_type_text(g->ids, g->value[n->out0 + i].type, type, sizeof type));
    wfi_text_add(t, "],\"flop\":");
    wfi_text_f64(t, w.flops);
    wfi_text_add(t, ",\"bytes\":");
    wfi_text_f64(t, w.bytes);
    wfi_text_addc(t, '}');
}

static void graph_json(shower *s, const char *pass, const wfi_graph *g)
{
    wfi_text_addf(&s->t, "%s{\"after\":\"%s\",\"nodes\":[", s->shown ? "," : "", pass);
    for (size_t k = 0; k < g->nnode; k++) {
        wfi_text_add(&s->t, k ? ",\n " : "\n ");
        node_json(g, &g->node[k], &s->t);
    }
    wfi_text_add(&s->t, "]}");
}

static void notes_json(const wfi_trail *trail, wfi_text *t)
{
    for (size_t i = 0; i < trail->nnote; i++) {
        const wfi_note *n = &trail->note[i];
        wfi_text_addf(t, "%s{\"why\":\"%s\",\"make\":\"%s\",\"use\":\"%s\"}", i ? "," : "", n->why->code,
                      wfi_op_table[n->op[0]].name, wfi_op_table[n->op[1]].name);
    }
}

/* ---- both ---- */

static bool see(void *user, const char *pass, const wfi_graph *before, const wfi_graph *after, char *err,
                size_t err_bytes)
{
    shower *s = user;
    (void)before, (void)err, (void)err_bytes;
    (s->j->json ? graph_json : graph_text)(s, pass, after);
    s->shown++;
    return true;
}

static int write_all(shower *s, wfi_graph *g)
{
    char err[512] = "";
    const wfi_passes_opts o = { .check = true, .watch = see, .user = s };
    if (!wfi_graph_verify(g, err, sizeof err))
        return cli_error(CLI_NO, "show", "%s: %s", s->j->path, err);
    if (s->j->json) {
        wfi_text_add(&s->t, "{\"file\":");
        wfi_text_json(&s->t, s->j->path);
        wfi_text_add(&s->t, ",\"kind\":\"graph\",\"graphs\":[");
    }
    if (!s->j->passes)
        (void)see(s, "recording", NULL, g, err, sizeof err);
    else if (!wfi_passes(g, &o, err, sizeof err))
        return cli_error(CLI_FAILED, "show", "%s: %s", s->j->path, err);
    if (s->j->json)
        wfi_text_add(&s->t, "],\"apart\":[");
    (s->j->json ? notes_json : notes_text)(g->trail, &s->t);
    if (s->j->json)
        wfi_text_add(&s->t, "]}\n");
    return cli_write(&s->t, "show");
}

int cli_show_graph(const cli_show_job *j, const char *text)
{
    shower s = { .j = j, .t = { .mem = j->mem } };
    wfi_ids ids;
    wfi_graph g;
    wfi_trail trail = { .mem = j->mem };
    char err[512] = "";
    if (!wfi_ids_init(&ids, j->mem))
        return cli_error(CLI_FAILED, "show", "out of memory");
    wfi_graph_init(&g, j->mem, &ids);
    g.trail = &trail;
    int status;
    if (!wfi_graph_parse(text, &g, err, sizeof err))
        status = cli_error(CLI_NO, "show", "%s: %s", j->path, err);
    else if (!g.nnode)
        status = cli_error(CLI_NO, "show", "%s: no graph and no tensors are in it", j->path);
    else
        status = write_all(&s, &g);
    wfi_text_free(&s.t);
    wfi_graph_free(&g);
    wfi_trail_free(&trail);
    wfi_ids_free(&ids);
    return status;
}
