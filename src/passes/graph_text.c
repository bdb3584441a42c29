#include "passes/graph_text.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/dtype.h"
#include "ops/op.h"

static const char *const leaf_name[] = { "input", "scalar", "host", "const", "var", "assign", "result" };

/* ---- printing ---- */

static void print_type(const wfi_graph *g, uint32_t type, wfi_text *t)
{
    char text[192];
    wfi_text_add(t, wfi_type_text(g->ids, type, text, sizeof text));
}

static void print_node(const wfi_graph *g, const wfi_node *n, wfi_text *t)
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
        wfi_text_add(t, wfi_op_table[n->op].name);
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
    for (uint32_t i = 0; i < n->nout; i++) {
        wfi_text_add(t, i ? " " : " : ");
        print_type(g, g->value[n->out0 + i].type, t);
    }
    wfi_text_addc(t, '\n');
}

void wfi_graph_print(const wfi_graph *g, wfi_text *t)
{
    for (size_t i = 0; i < g->nnode; i++)
        print_node(g, &g->node[i], t);
}

/* ---- parsing ---- */

enum { WORDS = 96, LINE = 2048 };

typedef struct parser {
    wfi_graph *g;
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
        if (!strcmp(name, leaf_name[k]))
            return parse_leaf(p, WFI_NODE_INPUT + k, at, type, nout);
    int op = wfi_op_find(name);
    if (op < 0)
        return fail(p, "no operator of this name", name);
    for (; at < p->n && !strchr(p->word[at], '='); at++)
        if (nin == WFI_NODE_INS || !parse_value(p, p->word[at], &in[nin++]))
            return nin == WFI_NODE_INS ? fail(p, "too many operands", name) : false;
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

bool wfi_graph_parse(const char *text, wfi_graph *g, char *err, size_t err_bytes)
{
    parser p = { .g = g, .err = err, .err_bytes = err_bytes };
    char line[LINE];
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t n = end ? (size_t)(end - text) : strlen(text);
        p.line++;
        if (n >= sizeof line)
            return fail(&p, "the line is too long", "");
        memcpy(line, text, n);
        line[n] = 0;
        text += n + (end != NULL);
        if (!split(&p, line) || (p.n && !parse_node(&p)))
            return false;
    }
    return true;
}
