#include "passes/graph_text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "graph/body.h"
#include "graph/flow.h"
#include "ops/op.h"
#include "passes/flow_text.h"

static const char *const leaf_name[] = { "input", "scalar", "host", "const", "var", "assign", "result" };

/* ---- printing ---- */

static void print_type(const wfi_graph *g, uint32_t type, wfi_text *t)
{
    char text[192];
    wfi_text_add(t, wfi_type_text(g->ids, type, text, sizeof text));
}

static void print_body(const wfi_body *b, wfi_text *t)
{
    for (uint32_t q = 0, k = 0; q < b->nop; q++) {
        bool leaves = b->out[k] == q && q + 1 < b->nop; /* the last one always does */
        k += leaves;
        wfi_text_addf(t, "%s%s%s", q ? "; " : "", leaves ? "out " : "", wfi_op_table[b->op[q].op].name);
        if (b->op[q].op == WFI_OP_cast)
            wfi_text_addf(t, ":%s", wf_dtype_name((wf_dtype)b->op[q].dtype));
        for (int i = 0; i < b->op[q].nin; i++) {
            uint32_t in = b->op[q].in[i];
            wfi_text_addf(t, " %c%u", in < b->nin ? 'i' : 't', in < b->nin ? in : in - b->nin);
        }
    }
}

void wfi_graph_print_op(const wfi_graph *g, const wfi_node *n, wfi_text *t)
{
    if (n->op == WFI_NODE_FLOW) {
        wfi_text_add(t, wfi_flow_name(wfi_attr_data(g->ids, n->payload)));
        return;
    }
    if (n->op != WFI_NODE_FUSED) {
        wfi_text_add(t, wfi_op_table[n->op].name);
        return;
    }
    wfi_text_add(t, "fused(");
    print_body(wfi_attr_data(g->ids, n->payload), t);
    wfi_text_addc(t, ')');
}

static void print_node(const wfi_graph *g, const wfi_node *n, const wfi_flow_names *names, wfi_text *t)
{
    for (uint32_t i = 0; i < n->nout; i++)
        wfi_text_addf(t, "v%u ", n->out0 + i);
    if (n->nout)
        wfi_text_add(t, "= ");
    if (n->op >= WFI_NODE_INPUT) {
        wfi_text_add(t, leaf_name[n->op - WFI_NODE_INPUT]);
        wfi_text_addc(t, ' ');
        if (n->op == WFI_NODE_CONST)
            wfi_text_f64(t, *(const double *)wfi_attr_data(g->ids, n->payload));
        else
            wfi_text_addf(t, "%u", n->payload);
    } else
        wfi_graph_print_op(g, n, t);
    for (uint32_t i = 0; i < n->nin; i++) {
        if (g->in[n->in0 + i] == WFI_NO_VALUE)
            wfi_text_add(t, " _");
        else
            wfi_text_addf(t, " v%u", g->in[n->in0 + i]);
    }
    if (n->op < WFI_OP_COUNT && n->payload) {
        char attr[512];
        wfi_op_attr_print(&wfi_op_table[n->op], wfi_attr_data(g->ids, n->payload), attr, sizeof attr);
        wfi_text_addf(t, " %s", attr);
    }
    if (n->op == WFI_NODE_FLOW)
        wfi_flow_print(wfi_attr_data(g->ids, n->payload), names, t);
    for (uint32_t i = 0; i < n->nout; i++) {
        wfi_text_add(t, i ? " " : " : ");
        print_type(g, g->value[n->out0 + i].type, t);
    }
}

/* Functions stand above what calls them: "func f0 : types of the inputs", one node a line, "return values". */
static void print_func(const wfi_graph *around, uint32_t f, const wfi_flow_names *names, wfi_text *t)
{
    wfi_graph g;
    wfi_graph_init(&g, around->mem, around->ids);
    t->oom |= !wfi_func_graph(wfi_func_at(around->ids, names->id[f]), &g);
    wfi_text_addf(t, "func f%u :", f);
    size_t k = 0;
    for (; k < g.nnode && g.node[k].op == WFI_NODE_INPUT; k++) {
        wfi_text_addc(t, ' ');
        print_type(&g, g.value[g.node[k].out0].type, t);
    }
    for (; k < g.nnode && g.node[k].op != WFI_NODE_RESULT; k++) {
        wfi_text_add(t, "\n  ");
        print_node(&g, &g.node[k], names, t);
        wfi_text_add(t, g.node[k].flags & WFI_NODE_NO_HISTORY ? " !" : "");
    }
    wfi_text_add(t, "\n  return");
    for (; k < g.nnode; k++)
        wfi_text_addf(t, " v%u", g.in[g.node[k].in0]);
    wfi_text_addc(t, '\n');
    wfi_graph_free(&g);
}

void wfi_graph_print_noted(const wfi_graph *g, void (*note)(void *user, const wfi_node *n, wfi_text *t), void *user,
                           wfi_text *t)
{
    wfi_flow_names names = { .mem = g->mem };
    for (size_t i = 0; i < g->nnode; i++)
        if (g->node[i].op == WFI_NODE_FLOW)
            t->oom |= !wfi_flow_name_all(g->ids, wfi_attr_data(g->ids, g->node[i].payload), &names);
    for (uint32_t f = 0; f < names.n; f++)
        print_func(g, f, &names, t);
    for (size_t i = 0; i < g->nnode; i++) {
        print_node(g, &g->node[i], &names, t);
        size_t end = t->n;
        if (note) {
            wfi_text_add(t, "  # ");
            note(user, &g->node[i], t);
            if (t->n == end + 4)
                wfi_text_cut(t, end);
        }
        wfi_text_addc(t, '\n');
    }
    wfi_mem_free(g->mem, names.id);
}

void wfi_graph_print(const wfi_graph *g, wfi_text *t)
{
    wfi_graph_print_noted(g, NULL, NULL, t);
}

/* ---- parsing ---- */

enum { WORDS = 384, LINE = 4096 };

typedef struct parser {
    wfi_graph *g;         /* what is being read: the graph, or a function ... */
    wfi_graph *whole, in; /* ... which are these */
    wfi_flow_names func;
    int line;
    char *word[WORDS];
    int n;
    char *err;
    size_t err_bytes;
} parser;

static bool fail(parser *p, const char *what, const char *found)
{
    snprintf(p->err, p->err_bytes, "line %d: %s: \"%.60s\"", p->line, what, found ? found : "");
    return false;
}

static bool number(const char *s, uint32_t *v)
{
    uint64_t x;
    if (!wfi_str_uint64(s, strlen(s), &x) || x >= WFI_NO_VALUE)
        return false;
    *v = (uint32_t)x;
    return true;
}

static bool parse_value(parser *p, const char *s, uint32_t *v)
{
    *v = WFI_NO_VALUE;
    if (!strcmp(s, "_"))
        return true;
    if (s[0] != 'v' || !number(s + 1, v) || *v >= p->g->nvalue)
        return fail(p, "a value that stands above was expected", s);
    return true;
}

static bool parse_type(parser *p, const char *s, uint32_t *type)
{
    char name[16];
    const char *open = strchr(s, '[');
    int64_t dim[WF_RANK_MAX];
    int32_t n = 0;
    if (!open || (size_t)(open - s) >= sizeof name)
        return fail(p, "a type like f32[2,3] was expected", s);
    memcpy(name, s, (size_t)(open - s));
    name[open - s] = 0;
    const char *at = open + 1;
    while (*at && *at != ']') {
        const char *end = at;
        while (*end && *end != ',' && *end != ']')
            end++;
        if (n == WF_RANK_MAX || !wfi_str_int64(at, (size_t)(end - at), &dim[n]))
            return fail(p, "a type like f32[2,3] was expected", s);
        n++;
        at = *end == ',' ? end + 1 : end;
    }
    wf_dtype dtype = wf_dtype_of(name);
    if (!dtype || strcmp(at, "]") || !(*type = wfi_ids_type(p->g->ids, dtype, n, dim)))
        return fail(p, "a type like f32[2,3] was expected", s);
    return true;
}

/* Words [from, to) as the attributes of an operator. */
static bool parse_attr(parser *p, const wfi_op_info *op, int from, int to, uint32_t *id)
{
    char text[LINE] = "", err[256];
    wfi_attrs attr;
    memset(&attr, 0, sizeof attr);
    for (int i = from; i < to; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%s", i > from ? " " : "", p->word[i]);
    }
    *id = 0;
    if (!op->attr_bytes)
        return from == to || fail(p, "this operator has no attributes", p->word[from]);
    if (!wfi_op_attr_parse(op, text, &attr, NULL, 0, err, sizeof err))
        return fail(p, err, text);
    *id = wfi_ids_attr(p->g->ids, (uint32_t)(op - wfi_op_table), &attr, op->attr_bytes);
    return *id || fail(p, "out of memory", "");
}

typedef struct const_attr {
    double value;
    int64_t dtype;
} const_attr;

static bool parse_leaf(parser *p, uint32_t kind, int at, const uint32_t *type, uint32_t nout)
{
    uint32_t payload;
    double value;
    const char *s = at < p->n ? p->word[at] : "";
    if (kind == WFI_NODE_CONST) {
        if (!wfi_str_double(s, strlen(s), &value) || nout != 1)
            return fail(p, "a number was expected", s);
        const_attr a = { value, wfi_type_at(p->g->ids, type[0])->dtype };
        payload = wfi_ids_attr(p->g->ids, kind, &a, sizeof a);
    } else if (!number(s, &payload))
        return fail(p, "a number was expected", s);
    uint32_t in = WFI_NO_VALUE, nin = kind >= WFI_NODE_ASSIGN;
    if (nout != (nin ? 0u : 1u) || p->n != at + 1 + (int)nin)
        return fail(p, "too many or too few words for", leaf_name[kind - WFI_NODE_INPUT]);
    if (nin && !parse_value(p, p->word[at + 1], &in))
        return false;
    return wfi_graph_add(p->g, kind, payload, nin, &in, nout, type, 0) != WFI_NO_VALUE || fail(p, "out of memory", "");
}

/* "add"; "cast:bf16". -1: none that a group may have. */
static int pointwise(char *word, wf_dtype *type)
{
    char *colon = strchr(word, ':');
    *type = WF_DTYPE_NONE;
    if (colon) {
        *colon = 0;
        *type = wf_dtype_of(colon + 1);
    }
    int op = wfi_op_find(word);
    return op >= 0 && wfi_op_pointwise((uint32_t)op) && (op == WFI_OP_cast) == (colon != NULL) ? op : -1;
}

/* One op of a body: words from *at on, up to the one that ends with ; or ). "i3" is an operand, "t0" an earlier op. */
static bool parse_body_op(parser *p, wfi_body *b, int *at, const uint32_t *in, bool *last)
{
    wfi_body_op *o = &b->op[b->nop];
    wf_dtype dtype[3], made[WFI_BODY_OUTS];
    char err[WFI_AXIS_ERR];
    bool leaves = !strcmp(p->word[*at], "out");
    *at += leaves;
    int op = *at < p->n ? pointwise(p->word[(*at)++], &made[0]) : -1;
    if (op < 0 || b->nop == WFI_BODY_OPS)
        return fail(p, "an element-wise operator was expected, at most 64 of them", op < 0 ? p->word[*at - 1] : "");
    *o = (wfi_body_op){ .op = (uint16_t)op };
    for (bool end = false; !end; (*at)++) {
        char *s = *at < p->n ? p->word[*at] : NULL, *stop = s ? s + strlen(s) - 1 : NULL;
        uint32_t v;
        if (!s || o->nin == 3)
            return fail(p, "one to three operands and ; or ) were expected", s);
        end = *stop == ';' || *stop == ')';
        *last = *stop == ')';
        *stop = end ? 0 : *stop;
        if ((*s != 'i' && *s != 't') || !number(s + 1, &v) || v >= (*s == 'i' ? b->nin : b->nop))
            return fail(p, "an operand like i0, or t0 for an earlier op, was expected", s);
        dtype[o->nin] = *s == 'i' ? wfi_type_at(p->g->ids, p->g->value[in[v]].type)->dtype : (wf_dtype)b->op[v].dtype;
        o->in[o->nin++] = (uint16_t)(*s == 'i' ? v : b->nin + v);
    }
    if (!wfi_op_pointwise_type((uint32_t)op, o->nin, dtype, made, err, sizeof err))
        return fail(p, err, wfi_op_table[op].name);
    o->dtype = (uint16_t)made[0];
    if (leaves || *last) {
        if (b->nout == WFI_BODY_OUTS)
            return fail(p, "too many results", "");
        b->out[b->nout++] = b->nop;
    }
    b->nop++;
    return true;
}

/* fused(mul i0 i1; add t0 i2) v1 v2 v4: words from `at` on; the operator and its bracket are one word. */
static bool parse_fused(parser *p, int at, const uint32_t *type, uint32_t nout)
{
    wfi_body b = { .nin = 0 };
    uint32_t in[WFI_BODY_INS];
    int end = at;
    bool last = false;
    while (end < p->n && p->word[end][strlen(p->word[end]) - 1] != ')')
        end++;
    for (int i = end + 1; i < p->n; i++)
        if (b.nin == WFI_BODY_INS || !parse_value(p, p->word[i], &in[b.nin++]) || in[b.nin - 1] == WFI_NO_VALUE)
            return fail(p, "values were expected", p->word[i]);
    p->word[at] += strlen("fused(");
    while (!last)
        if (at >= p->n)
            return fail(p, ") was expected", "");
        else if (!parse_body_op(p, &b, &at, in, &last))
            return false;
    if (b.nout != nout)
        return fail(p, "as many types as results were expected", "fused");
    memcpy(b.type, type, nout * sizeof *type);
    uint32_t attr = wfi_ids_attr(p->g->ids, WFI_NODE_FUSED, &b, wfi_body_bytes(&b));
    return (attr && wfi_graph_add(p->g, WFI_NODE_FUSED, attr, b.nin, in, nout, type, 0) != WFI_NO_VALUE) ||
           fail(p, "out of memory", "");
}

/* ---- control flow ---- */

/* scan v0 v1 func=f0 carry=1: words from `at` on; the operator is a word of its own. */
static bool parse_flow(parser *p, const char *name, int at, const uint32_t *type, uint32_t nout)
{
    uint32_t in[WFI_NODE_INS], nin = 0;
    char err[128];
    wfi_flow f;
    for (; at < p->n && !strchr(p->word[at], '='); at++)
        if (nin == WFI_NODE_INS || !parse_value(p, p->word[at], &in[nin++]))
            return nin == WFI_NODE_INS ? fail(p, "too many operands", name) : false;
    if (!wfi_flow_parse(name, p->n - at, p->word + at, &p->func, nin, nout, &f, err, sizeof err))
        return fail(p, err, name);
    const uint32_t attr = wfi_ids_attr(p->g->ids, WFI_NODE_FLOW, &f, sizeof f);
    return (attr && wfi_graph_add(p->g, WFI_NODE_FLOW, attr, nin, in, nout, type, 0) != WFI_NO_VALUE) ||
           fail(p, "out of memory", "");
}

/* func f0 : f32[2] f32[] */
static bool begin_func(parser *p)
{
    uint32_t number_, type;
    if (p->g != p->whole || p->n < 3 || p->word[1][0] != 'f' || !number(p->word[1] + 1, &number_) ||
        number_ != p->func.n || strcmp(p->word[2], ":"))
        return fail(p, "a function was expected, numbered in order: func f0 : types", p->n > 1 ? p->word[1] : "");
    if (p->n - 3 > WFI_NODE_INS)
        return fail(p, "too many inputs", p->word[1]);
    p->g = &p->in;
    wfi_graph_init(p->g, p->whole->mem, p->whole->ids);
    for (int i = 3; i < p->n; i++)
        if (!parse_type(p, p->word[i], &type))
            return false;
        else if (wfi_graph_add(p->g, WFI_NODE_INPUT, (uint32_t)i - 3, 0, NULL, 1, &type, 0) == WFI_NO_VALUE)
            return fail(p, "out of memory", "");
    return true;
}

/* return v1 v0 */
static bool end_func(parser *p)
{
    uint32_t v;
    if (p->n < 2 || p->n - 1 > WFI_NODE_OUTS)
        return fail(p, "a function has 1 to 128 results", "return");
    for (int i = 1; i < p->n; i++)
        if (!parse_value(p, p->word[i], &v) || v == WFI_NO_VALUE)
            return v == WFI_NO_VALUE ? fail(p, "a value was expected", p->word[i]) : false;
        else if (wfi_graph_add(p->g, WFI_NODE_RESULT, (uint32_t)i - 1, 1, &v, 0, NULL, 0) == WFI_NO_VALUE)
            return fail(p, "out of memory", "");
    const uint32_t id = wfi_func_intern(p->g);
    wfi_graph_free(p->g);
    p->g = p->whole;
    return (id && wfi_flow_name_add(&p->func, id)) || fail(p, "out of memory", "");
}

static bool parse_node(parser *p)
{
    int at = 0, colon = p->n;
    uint32_t nout = 0, type[WFI_NODE_OUTS], in[WFI_NODE_INS], nin = 0, attr, v;
    while (at < p->n && p->word[at][0] == 'v' && isdigit((unsigned char)p->word[at][1]))
        at++;
    nout = (uint32_t)at;
    if (nout && (at >= p->n || strcmp(p->word[at], "=")))
        return fail(p, "= was expected", at < p->n ? p->word[at] : "");
    at += nout > 0;
    for (int i = at; i < p->n; i++)
        if (!strcmp(p->word[i], ":"))
            colon = i;
    if (nout > WFI_NODE_OUTS || (int)nout != (colon < p->n ? p->n - colon - 1 : 0))
        return fail(p, "as many types as results were expected", at < p->n ? p->word[at] : "");
    for (uint32_t i = 0; i < nout; i++)
        if (!number(p->word[i] + 1, &v) || v != p->g->nvalue + i)
            return fail(p, "results are numbered in order", p->word[i]);
        else if (!parse_type(p, p->word[colon + 1 + (int)i], &type[i]))
            return false;
    if (at >= p->n)
        return fail(p, "an operator was expected", "");
    const char *name = p->word[at++];
    p->n = colon;
    for (uint32_t k = 0; k < sizeof leaf_name / sizeof *leaf_name; k++)
        if (!strcmp(name, leaf_name[k]) && (p->g == p->whole || WFI_NODE_INPUT + k == WFI_NODE_CONST))
            return parse_leaf(p, WFI_NODE_INPUT + k, at, type, nout);
    if (!strncmp(name, "fused(", 6))
        return parse_fused(p, at - 1, type, nout);
    if (wfi_flow_kind_of(name) >= 0)
        return parse_flow(p, name, at, type, nout);
    int op = wfi_op_find(name);
    if (op < 0)
        return fail(p, "no operator of this name", name);
    for (; at < p->n && !strchr(p->word[at], '='); at++)
        if (nin == WFI_OP_INS || !parse_value(p, p->word[at], &in[nin++]))
            return nin == WFI_OP_INS ? fail(p, "too many operands", name) : false;
    if (!parse_attr(p, &wfi_op_table[op], at, p->n, &attr))
        return false;
    return wfi_graph_add(p->g, (uint32_t)op, attr, nin, in, nout, type, 0) != WFI_NO_VALUE ||
           fail(p, "out of memory", "");
}

static bool split(parser *p, char *line)
{
    p->n = 0;
    for (char *s = line; *s;) {
        while (*s == ' ' || *s == '\t' || *s == '\r')
            *s++ = 0;
        if (!*s || *s == '#')
            break;
        if (p->n == WORDS)
            return fail(p, "too many words", s);
        p->word[p->n++] = s;
        while (*s && *s != ' ' && *s != '\t' && *s != '\r')
            s++;
    }
    return true;
}

static bool parse_line(parser *p)
{
    if (!p->n)
        return true;
    if (!strcmp(p->word[0], "func"))
        return begin_func(p);
    if (p->g == p->whole)
        return parse_node(p);
    if (!strcmp(p->word[0], "return"))
        return end_func(p);
    const bool no_history = !strcmp(p->word[p->n - 1], "!");
    p->n -= no_history;
    if (!p->n || !parse_node(p))
        return p->n ? false : fail(p, "a node was expected", "!");
    p->g->node[p->g->nnode - 1].flags = no_history ? WFI_NODE_NO_HISTORY : 0;
    return true;
}

static bool parse(parser *p, const char *text)
{
    char line[LINE];
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t n = end ? (size_t)(end - text) : strlen(text);
        p->line++;
        if (n >= sizeof line)
            return fail(p, "the line is too long", "");
        memcpy(line, text, n);
        line[n] = 0;
        text += n + (end != NULL);
        if (!split(p, line) || !parse_line(p))
            return false;
    }
    return p->g == p->whole || fail(p, "the last function has no return", "");
}

bool wfi_graph_parse(const char *text, wfi_graph *g, char *err, size_t err_bytes)
{
    parser p = { .g = g, .whole = g, .func = { .mem = g->mem }, .err = err, .err_bytes = err_bytes };
    const bool ok = parse(&p, text);
    wfi_graph_free(&p.in);
    wfi_mem_free(g->mem, p.func.id);
    return ok;
}
