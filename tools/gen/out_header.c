/* out_header.c - weft/ops.h, the public builders, and ops_enum.h, the numbers and attribute structs. */
#include "gen.h"
#include "ops/op_types.h"
#include <stdio.h>
#include <string.h>

static void doc_comment(buf *b, const op *o)
{
    put(b, "/* ");
    for (const char *s = o->doc; *s; s++)
        if (*s == '\n')
            put(b, s[1] == '\n' || !s[1] ? "\n *" : "\n * ");
        else if (s[0] == '*' && s[1] == '/')
            put(b, "* ");
        else
            put(b, "%c", *s);
    put(b, " */\n");
}
/* "wf_tensor *x, wf_dims axes" */
static void params(buf *b, const op *o)
{
    const char *comma = "";
    for (int i = 0; i < o->np; i++) {
        const param *p = &o->p[i];
        if (p->named)
            continue;
        put(b, "%s", comma);
        comma = ", ";
        if (p->kind == CTX)
            put(b, "wf_ctx *ctx");
        else if (p->kind == TENSOR)
            put(b, "wf_tensor *%s", p->name);
        else if (p->kind == TENSOR_MANY)
            put(b, "int32_t n, wf_tensor *const *%s", p->name);
        else
            put(b, "%s %s", attr_type[p->type], p->name);
    }
}
/* The same as words, for macro parameters: all, or all but the last. */
static void words(buf *b, const op *o, bool last)
{
    const char *list[2 * PARAMS];
    int n = 0;
    for (int i = 0; i < o->np; i++)
        if (!o->p[i].named) {
            if (o->p[i].kind == TENSOR_MANY)
                list[n++] = "n";
            list[n++] = o->p[i].name;
        }
    for (int i = 0; i < n - !last; i++)
        put(b, "%s%s", i ? ", " : "", list[i]);
}
static void option(buf *b, const param *p, const op *o)
{
    if (p->kind == TENSOR_OPT)
        put(b, "    wf_tensor *%s WF_Z; /* NULL: none */\n", p->name);
    else {
        put(b, "    %s %s WF_Z;", attr_type[p->type], p->name);
        if (p->type == WFI_ATTR_DIMS && strcmp(p->def, "all") == 0)
            put(b, " /* none given: all */\n");
        else if (p->from >= 0)
            put(b, " /* 0: as .%s */\n", o->p[p->from].name);
        else if (*p->def && strcmp(p->def, "0") != 0 && strcmp(p->def, "false") != 0)
            put(b, " /* 0: %s%s */\n", p->def, p->type == WFI_ATTR_F64 ? "; WF_ZERO: 0" : "");
        else
            put(b, "\n");
    }
}
static void options(buf *b, const op *o)
{
    put(b, "typedef struct wf_%s_opts {\n    WF_HEAD;\n", o->name);
    for (int i = 0; i < o->np; i++)
        if (o->p[i].named)
            option(b, &o->p[i], o);
    for (int r = 1; r < o->nout; r++)
        put(b, "    wf_tensor **%s WF_Z; /* receives that result, where it is not NULL */\n", o->out[r]);
    put(b, "} wf_%s_opts;\n", o->name);
}
static void with_options(buf *b, const op *o)
{
    options(b, o);
    put(b, "WF_API wf_tensor *wf_%s_(", o->name);
    params(b, o);
    put(b, ", const wf_%s_opts *o, const char *site);\n", o->name);
    buf but = { 0 }, all = { 0 };
    put(&but, "%s", "");
    words(&but, o, false);
    words(&all, o, true);
    put(b, "#define wf_%s(%s%s...) wf_%s_o(%s%s__VA_ARGS__, )\n", o->name, but.s, but.n ? ", " : "", o->name, but.s,
        but.n ? ", " : "");
    put(b, "#define wf_%s_o(%s, ...) wf_%s_(%s, WF_OPTS(wf_%s_opts, __VA_ARGS__), WF_SITE)\n", o->name, all.s, o->name,
        all.s, o->name);
    put(b, "static inline wf_tensor *(wf_%s)(", o->name);
    params(b, o);
    put(b, ")\n{\n    return wf_%s_(%s, 0, \"by pointer\");\n}\n", o->name, all.s);
}
static void without_options(buf *b, const op *o)
{
    buf all = { 0 };
    words(&all, o, true);
    put(b, "WF_API wf_tensor *wf_%s_(", o->name);
    params(b, o);
    put(b, ", const char *site);\n#define wf_%s(%s) wf_%s_(%s, WF_SITE)\n", o->name, all.s, o->name, all.s);
    put(b, "static inline wf_tensor *(wf_%s)(", o->name);
    params(b, o);
    put(b, ")\n{\n    return wf_%s_(%s, \"by pointer\");\n}\n", o->name, all.s);
}
void out_header(buf *b)
{
    const char *section = "";
    put(b,
        "/* ops.h - every operator. Generated from src/ops: do not edit.\n *\n"
        " *     y = wf_add(wf_matmul(x, w), bias);\n"
        " *     p = wf_softmax(y, -1);\n *\n"
        " * A builder returns a tensor of the innermost scope, or NULL and a pending error. A NULL operand gives NULL, "
        "and no\n * second error. Options are named, .stride = 2; zero is their default. The forms wf_NAME_ take the "
        "caller's place\n * as a string; bindings use those. */\n"
        "#ifndef WEFT_OPS_H\n#define WEFT_OPS_H\n#include \"weft/ctx.h\"\n#ifdef __cplusplus\nextern \"C\" {\n"
        "#endif\n");
    for (int i = 0; i < nops; i++) {
        const op *o = &ops[i];
        if (strcmp(section, o->section) != 0)
            put(b, "\n/* ---- %s ---- */\n", section = o->section);
        put(b, "\n");
        doc_comment(b, o);
        if (has_opts(o))
            with_options(b, o);
        else
            without_options(b, o);
    }
    put(b, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

void out_enum(buf *b)
{
    put(b, "/* ops_enum.h - numbers of operators and their attributes. Generated from src/ops: do not edit. */\n"
           "#ifndef WFI_OPS_ENUM_H\n#define WFI_OPS_ENUM_H\n#include \"weft/types.h\"\n\n"
           "/* Not stable: files name operators. */\ntypedef enum wfi_op {\n");
    for (int i = 0; i < nops; i++)
        put(b, "    WFI_OP_%s,\n", ops[i].name);
    put(b, "    WFI_OP_COUNT\n} wfi_op;\n\n/* Rows with scalar code: index of their kernels. */\ntypedef enum "
           "wfi_ew_row {\n");
    for (int i = 0; i < nops; i++)
        if (ops[i].flags & WFI_OP_EW)
            put(b, "    WFI_EW_%s,\n", ops[i].name);
    put(b, "    WFI_EW_COUNT\n} wfi_ew_row;\n\n/* Attributes with their defaults resolved; padding is zero, so memcmp "
           "compares them. */\n");
    for (int i = 0; i < nops; i++) {
        if (!has_attrs(&ops[i]))
            continue;
        put(b, "typedef struct wfi_attr_%s {\n", ops[i].name);
        for (int k = 0; k < ops[i].np; k++)
            if (ops[i].p[k].kind == ATTR && !ops[i].p[k].shorthand)
                put(b, "    %s %s;\n", attr_type[ops[i].p[k].type], ops[i].p[k].name);
        put(b, "} wfi_attr_%s;\n", ops[i].name);
    }
    put(b, "\ntypedef union wfi_attrs {\n    char none[8];\n");
    for (int i = 0; i < nops; i++)
        if (has_attrs(&ops[i]))
            put(b, "    wfi_attr_%s %s;\n", ops[i].name, ops[i].name);
    put(b, "} wfi_attrs;\n\n#endif\n");
}
