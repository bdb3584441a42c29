/* out_table.c - ops_table.c, the table of all operators; ops_rows.c, definitions for the rows; the lists of rows for
 * the kernels. */
#include "gen.h"
#include "ops/op_types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const dtype_word[] = { "none", "f32", "f64", "f16", "bf16", "i64", "i32",    "u8",
                                          "bool", "i8",  "i16", "u16", "u32",  "u64", "f8e4m3", "f8e5m2" };
static double default_value(const param *p)
{
    if (p->type == WFI_ATTR_DIMS)
        return strcmp(p->def, "all") == 0 ? -1 : 0;
    for (int i = 0; p->type == WFI_ATTR_DTYPE && i < 16; i++)
        if (strcmp(dtype_word[i], p->def) == 0)
            return i;
    return strtod(p->def, NULL);
}
static void fields(buf *b, const op *o)
{
    put(b, "static const wfi_op_field field_%s[] = {\n", o->name);
    for (int i = 0; i < o->np; i++) {
        const param *p = &o->p[i];
        if (p->kind != ATTR)
            continue;
        put(b, "    { .name = \"%s\", .type = WFI_ATTR_%s, ", p->name, attr_enum[p->type]);
        if (p->shorthand)
            put(b, ".offset = WFI_ATTR_SHORTHAND");
        else
            put(b, ".offset = offsetof(wfi_attr_%s, %s)", o->name, p->name);
        if (!p->named && !*p->def)
            put(b, ", .required = true");
        if (p->from >= 0)
            put(b, ", .from = \"%s\"", o->p[p->from].name);
        else if (*p->def)
            put(b, ", .value = %.17g", default_value(p));
        put(b, " },\n");
    }
    put(b, "};\n");
}
static void names(buf *b, const op *o)
{
    put(b, "static const char *const operand_%s[] = {", o->name);
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind <= TENSOR_MANY)
            put(b, " \"%s\",", o->p[i].name);
    for (int r = 0; r < o->nout; r++)
        put(b, " \"%s\",", o->out[r]);
    put(b, " };\n");
}
static int nfields(const op *o)
{
    int n = 0;
    for (int i = 0; i < o->np; i++)
        n += o->p[i].kind == ATTR;
    return n;
}
static void entry(buf *b, const op *o)
{
    static const struct {
        unsigned bit;
        const char *name;
    } flag[] = { { WFI_OP_EW, "EW" },        { WFI_OP_COMPOSITE, "COMPOSITE" }, { WFI_OP_PRIMITIVE, "PRIMITIVE" },
                 { WFI_OP_MOVE, "MOVE" },    { WFI_OP_REDUCE, "REDUCE" },       { WFI_OP_MANY, "MANY" },
                 { WFI_OP_NOGRAD, "NOGRAD" } };
    put(b, "    [WFI_OP_%s] = { .name = \"%s\", .brief = ", o->name, o->name);
    char *brief = copy(o->doc, strcspn(o->doc, "\n"));
    put_quoted(b, brief);
    free(brief);
    put(b, ",\n        .def = &wf_op_%s, .operand = operand_%s,\n        ", o->name, o->name);
    if (o->has_map)
        put(b, ".map = map_%s, ", o->row ? o->arity == 1 ? "ew1" : o->arity == 2 ? "ew2" : "ew3" : o->name);
    if (nfields(o))
        put(b, ".field = field_%s, .nfield = %d, ", o->name, nfields(o));
    if (has_attrs(o))
        put(b, ".attr_bytes = sizeof(wfi_attr_%s), ", o->name);
    put(b, ".nin_min = %d, .nin_max = %d, .nout = %d,\n        .flags = 0", o->many ? 1 : o->nin_min,
        o->many ? 255 : o->nin, o->nout);
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (o->flags & flag[i].bit)
            put(b, " | WFI_OP_%s", flag[i].name);
    put(b, ", .linear = %u, .joint = %u, .autocast = %u, .ew = ", o->linear, o->joint, o->autocast);
    if (o->flags & WFI_OP_EW)
        put(b, "WFI_EW_%s", o->name);
    else
        put(b, "-1");
    put(b, ", .tin = {");
    for (int i = 0; i < 8 && (i == 0 || o->tin[i]); i++)
        put(b, " %d,", o->tin[i]);
    put(b, " }, .tout = {");
    for (int i = 0; i < o->nout; i++)
        put(b, " %d,", o->tout[i]);
    put(b, " } },\n");
}
static void map_bytes(buf *b, const char *name, const wfi_axis_map *m)
{
    put(b, "static const uint8_t map_%s[%d] = {", name, m->bytes);
    for (int i = 0; i < m->bytes; i++)
        put(b, "%s%d,", i % 24 ? "" : "\n    ", m->b[i]);
    put(b, "\n};\n");
}
void out_table(buf *b)
{
    static const char *const ew[] = { "a[..] -> y[..]", "a[..] b[..] -> y[..]", "a[..] b[..] c[..] -> y[..]" };
    put(b, "/* ops_table.c - the table of all operators. Generated from src/ops: do not edit. */\n"
           "#include \"ops/op.h\"\n#include <stddef.h>\n\n");
    for (int i = 0; i < 3; i++) {
        wfi_axis_map m;
        char err[WFI_AXIS_ERR], name[16];
        snprintf(name, sizeof name, "ew%d", i + 1);
        if (wfi_axis_parse(ew[i], "", &m, err, sizeof err))
            map_bytes(b, name, &m);
    }
    for (int i = 0; i < nops; i++) {
        put(b, "extern const wf_op_def wf_op_%s;\n", ops[i].name);
        if (!ops[i].row && ops[i].has_map)
            map_bytes(b, ops[i].name, &ops[i].map);
        if (nfields(&ops[i]))
            fields(b, &ops[i]);
        names(b, &ops[i]);
    }
    put(b, "\nconst wfi_op_info wfi_op_table[WFI_OP_COUNT] = {\n");
    for (int i = 0; i < nops; i++)
        entry(b, &ops[i]);
    put(b, "};\n");
}

/* ---- rows ---- */

static void grad(buf *b, const op *o)
{
    const char *g = get(o, "grad");
    put(b, "static void grad_%s(const wf_vjp *v)\n{\n    wf_tensor *g = v->g, *y = v->y", o->name);
    for (int i = 0; i < o->arity; i++)
        put(b, ", *%c = v->in[%d]", 'a' + i, i);
    put(b, ";\n    const char *s = v->site;\n    (void)g, (void)y, (void)s");
    for (int i = 0; i < o->arity; i++)
        put(b, ", (void)%c", 'a' + i);
    put(b, ";\n");
    for (int i = 0; i < o->arity; i++) {
        char *e = part(g, i);
        if (e && strncmp(e, "none", 4) != 0) {
            put(b, "    if (v->want[%d])\n        v->gin[%d] = ", i, i);
            expr(b, o, line_of(o, "grad"), e, "g", true);
            put(b, ";\n");
        }
        free(e);
    }
    put(b, "}\n");
}
static void lower(buf *b, const op *o)
{
    put(b, "static wf_tensor *lower_%s(const wf_args *v)\n{\n    wf_tensor *a = v->in[0]", o->name);
    for (int i = 1; i < o->arity; i++)
        put(b, ", *%c = v->in[%d]", 'a' + i, i);
    put(b, ";\n    const char *s = v->site;\n    (void)a, (void)s;\n    return ");
    expr(b, o, line_of(o, "body"), get(o, "body") + 1, "a", false);
    put(b, ";\n}\n");
}
static void reference(buf *b, const op *o)
{
    put(b,
        "static double value_%s(double a, double b, double c)\n{\n    (void)a, (void)b, (void)c;\n    return "
        "(double)(%s);"
        "\n}\nstatic void ref_%s(const wf_ref *r)\n{\n    wfi_ref_ew(r, value_%s);\n}\n",
        o->name, get(o, "ref"), o->name, o->name);
}
static void text_field(buf *b, const char *key, const char *v)
{
    if (!v || !*v)
        return;
    put(b, "    .%s = ", key);
    put_quoted(b, v);
    put(b, ",\n");
}
/* Ranges become shapes: equal ones with a tail for every vector width, then broadcasting. */
static void row_samples(buf *b, const op *o)
{
    static const char *const shapes[3][3] = { { "[3,37]", "[3,37]", "[3,37]" },
                                              { "[2,1,5]", "[4,1]", "[5]" },
                                              { "[]", "[2,3]", "[1,3]" } };
    for (int k = 0; k < (o->arity > 1 ? 3 : 2); k++) {
        put(b, "%s", k ? "; " : "");
        for (int i = 0; i < o->arity; i++) {
            char *range = part(get(o, "samples"), i);
            static const char *const word[] = { "", "f32", "f32", "i64", "bool", "f32", "f32" };
            uint8_t t = o->tin[1] ? o->tin[i] : o->tin[0];
            put(b, "%s%s%s=%s", i ? " " : "", word[t < 7 ? t : 1], shapes[k][i], range ? range : "-3..3");
            free(range);
        }
    }
}
static void row(buf *b, const op *o)
{
    char call[] = "a, b, c";
    call[o->arity * 3 - 2] = 0;
    put(b, "\n/* %s */\n", o->name);
    bool diff = !(o->flags & WFI_OP_NOGRAD) && !o->composite;
    if (diff)
        grad(b, o);
    if (o->composite)
        lower(b, o);
    else
        reference(b, o);
    put(b, "extern const wf_op_def wf_op_%s;\nconst wf_op_def wf_op_%s = {\n    .call = \"%s\",\n", o->name, o->name,
        call);
    text_field(b, "axes",
               o->arity == 1   ? "a[..] -> y[..]"
               : o->arity == 2 ? "a[..] b[..] -> y[..]"
                               : "a[..] b[..] c[..] -> y[..]");
    text_field(b, "types", get(o, "types"));
    if (o->composite)
        put(b, "    .lower = lower_%s,\n    .grad = wfi_grad_lowered,\n", o->name);
    else {
        text_field(b, "primitive", get(o, "body"));
        put(b, "    .ref = ref_%s,\n", o->name);
    }
    if (diff)
        put(b, "    .grad = grad_%s,\n", o->name);
    else if (!o->composite)
        text_field(b, "nograd", get(o, "grad") + 6);
    text_field(b, "onnx", get(o, "onnx"));
    put(b, "    .samples = \"");
    row_samples(b, o);
    put(b, "\",\n};\n");
}
void out_rows(buf *b)
{
    put(b, "/* ops_rows.c - definitions of the element-wise operators. Generated from src/ops/elementwise.def: do not "
           "edit. */\n#include \"ops/op.h\"\n#include <math.h>\n");
    for (int i = 0; i < nops; i++)
        if (ops[i].row)
            row(b, &ops[i]);
}

/* ---- lists for the kernels ---- */

void out_ew(buf *rows, buf *ref)
{
    put(rows,
        "/* ew_rows.inc - WFI_EW(name, arity, CLASS, to_bool, body). Generated from src/ops/elementwise.def. */\n");
    put(ref, "/* ew_ref.inc - WFI_EW_REF(name, arity, value of a, b, c in double). Generated from "
             "src/ops/elementwise.def. */\n");
    for (int i = 0; i < nops; i++) {
        const op *o = &ops[i];
        if (!(o->flags & WFI_OP_EW))
            continue;
        const char *t = get(o, "types");
        char class[16];
        snprintf(class, sizeof class, "%.*s", (int)strcspn(t, "-> "), t);
        for (char *c = class; *c; c++)
            *c = (char)(*c - 'a' + 'A');
        put(rows, "WFI_EW(%s, %d, %s, %d, %s)\n", o->name, o->arity, class, strstr(t, "->bool") != NULL,
            get(o, "body"));
        put(ref, "WFI_EW_REF(%s, %d, %s)\n", o->name, o->arity, get(o, "ref"));
    }
}
void out_samples(buf *b)
{
    put(b, "/* samples.inc - WFI_SAMPLE(operator, \"operands and attributes\"). Generated from src/ops. */\n");
    for (int i = 0; i < nops; i++) {
        buf s = { 0 };
        if (ops[i].row)
            row_samples(&s, &ops[i]);
        else
            put(&s, "%s", get(&ops[i], "samples"));
        char *one;
        for (int k = 0; (one = part(s.s, k)) != NULL; k++) {
            if (*one) {
                put(b, "WFI_SAMPLE(%s, ", ops[i].name);
                put_quoted(b, one);
                put(b, ")\n");
            }
            free(one);
        }
        free(s.s);
    }
}
