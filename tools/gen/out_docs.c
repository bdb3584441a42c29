/* out_docs.c - the manual: one page an operator, an index with the coverage matrix. */
#include "gen.h"
#include "ops/op_types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *class_name(uint8_t t)
{
    static const char *const names[] = { "",
                                         "f64 f32 bf16 f16",
                                         "f64 f32 bf16 f16 i64 i32 u8",
                                         "i64 i32 u8",
                                         "bool",
                                         "f64 f32 bf16 f16 i64 i32 u8 bool",
                                         "every type",
                                         "f64 beside f64, else f32" };
    static const char *const exact[] = { "none", "f32", "f64", "f16", "bf16", "i64", "i32",    "u8",
                                         "bool", "i8",  "i16", "u16", "u32",  "u64", "f8e4m3", "f8e5m2" };
    return t < 8 ? names[t] : t == WFI_T_ATTR ? "as .dtype says" : t >= WFI_T_EXACT ? exact[t - WFI_T_EXACT] : "";
}
static void usage(buf *b, const op *o)
{
    const char *comma = "";
    put(b, "`wf_%s(", o->name);
    for (int i = 0; i < o->np; i++) {
        const param *p = &o->p[i];
        put(b, "%s%s%s%s", comma, p->named ? "." : "", p->kind == TENSOR_MANY ? "n, " : "", p->name);
        comma = ", ";
    }
    for (int r = 1; r < o->nout; r++)
        put(b, ", .%s", o->out[r]);
    put(b, ")`\n\n");
}
static void table(buf *b, const op *o)
{
    bool any = false;
    for (int i = 0; i < o->np; i++) {
        const param *p = &o->p[i];
        if (p->kind != ATTR && p->kind != TENSOR_OPT)
            continue;
        if (!any)
            put(b, "| parameter | type | default |\n|---|---|---|\n");
        any = true;
        put(b, "| `%s%s` | %s | ", p->named ? "." : "", p->name,
            p->kind == TENSOR_OPT ? "wf_tensor *" : attr_type[p->type]);
        if (p->kind == TENSOR_OPT)
            put(b, "none |\n");
        else if (p->from >= 0)
            put(b, "as `.%s` |\n", o->p[p->from].name);
        else if (!p->named && !*p->def)
            put(b, "must be given |\n");
        else
            put(b, "%s |\n", *p->def ? p->def : p->type == WFI_ATTR_BOOL ? "false" : "0");
    }
    if (any)
        put(b, "\n");
}
static void gradient(buf *b, const op *o)
{
    const char *nograd = get(o, "nograd");
    if (by_lowering(o))
        put(b, "- gradient: by lowering\n");
    else if (nograd)
        put(b, "- gradient: none, %s\n", nograd);
    else if (o->flags & WFI_OP_NOGRAD)
        put(b, "- gradient: none, %s\n", get(o, "grad") + 6);
    else if (o->row && !o->composite)
        put(b, "- gradient: `%s`\n", get(o, "grad"));
    else
        put(b, "- gradient: yes\n");
}
void out_page(buf *b, const op *o)
{
    put(b, "# %s\n\n%s\n\n", o->name, o->doc);
    usage(b, o);
    table(b, o);
    if (o->row)
        put(b, "- %s: `%s`\n", o->composite ? "means" : "computes", get(o, "body") + (o->composite ? 2 : 0));
    else if (get(o, "axes"))
        put(b, "- axes: `%s`\n", get(o, "axes"));
    put(b, "- element types:");
    for (int i = 0; i < 8 && o->tin[i]; i++)
        put(b, "%s %s", i ? ";" : "", class_name(o->tin[i]));
    if (o->tout[0] != o->tin[0])
        put(b, "; result %s", class_name(o->tout[0]));
    put(b, "\n");
    gradient(b, o);
    if (get(o, "onnx") && *get(o, "onnx"))
        put(b, "- ONNX: %s\n", get(o, "onnx"));
    put(b, "- kind: %s\n- defined in `src/ops/%s`\n", o->composite ? "composite" : "primitive", o->file);
}
void out_index(buf *b)
{
    static const char *const types[] = { "f64", "f32", "bf16", "f16", "i64", "i32", "u8", "bool" };
    const char *section = "";
    put(b, "# Operators\n\nGenerated from `src/ops`. Types are those of the operands that carry data.\n");
    for (int i = 0; i < nops; i++) {
        const op *o = &ops[i];
        if (strcmp(section, o->section) != 0) {
            put(b, "\n## %s\n\n| operator | | kind | gradient | ONNX |", section = o->section);
            for (int t = 0; t < 8; t++)
                put(b, " %s |", types[t]);
            put(b, "\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
        }
        char *brief = copy(o->doc, strcspn(o->doc, "\n"));
        for (char *c = brief; *c; c++)
            if (*c == '|')
                *c = '/';
        const char *onnx = get(o, "onnx") && *get(o, "onnx") ? get(o, "onnx") : "";
        put(b, "| [%s](ops/%s.md) | %s | %s | %s | %s |", o->name, o->name, brief,
            o->composite ? "composite" : "primitive",
            o->flags & WFI_OP_NOGRAD ? "none"
            : by_lowering(o)         ? "by lowering"
                                     : "yes",
            onnx);
        uint8_t data = o->tin[1] && o->tin[0] == WFI_T_BOOL ? o->tin[1] : o->tin[0];
        for (int t = 0; t < 8; t++) {
            bool has = data == WFI_T_FLOAT  ? t < 4
                       : data == WFI_T_NUM  ? t < 7
                       : data == WFI_T_INT  ? t >= 4 && t < 7
                       : data == WFI_T_BOOL ? t == 7
                                            : data == WFI_T_ALL || data == WFI_T_ANY ||
                                                  (data >= WFI_T_EXACT && strcmp(class_name(data), types[t]) == 0);
            put(b, " %s |", has ? "x" : "");
        }
        put(b, "\n");
        free(brief);
    }
}
