/* out_build.c - ops_build.c: the bodies of the public builders. */
#include "gen.h"
#include "ops/op_types.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void head(buf *b, const op *o)
{
    put(b, "\nwf_tensor *wf_%s_(", o->name);
    for (int i = 0; i < o->np; i++) {
        const param *p = &o->p[i];
        if (p->named)
            continue;
        if (p->kind == CTX)
            put(b, "wf_ctx *ctx, ");
        else if (p->kind == TENSOR)
            put(b, "wf_tensor *%s, ", p->name);
        else if (p->kind == TENSOR_MANY)
            put(b, "int32_t n, wf_tensor *const *%s, ", p->name);
        else
            put(b, "%s %s, ", attr_type[p->type], p->name);
    }
    if (has_opts(o))
        put(b, "const wf_%s_opts *o, ", o->name);
    put(b, "const char *site)\n{\n");
}
/* The value of an option with its default, as an expression over o and earlier results. */
static void resolved(buf *b, const op *o, const param *p)
{
    char from[80];
    if (p->from >= 0)
        snprintf(from, sizeof from, "%s%s", o->p[p->from].shorthand ? "" : "attr.", o->p[p->from].name);
    else
        snprintf(from, sizeof from, "%s", *p->def ? p->def : "0");
    if (p->type == WFI_ATTR_F64)
        put(b, p->from >= 0 || strtod(p->def, NULL) != 0 ? "real(o->%s, %s)" : "real(o->%s, 0)", p->name, from);
    else if (p->type == WFI_ATTR_BOOL)
        put(b, p->from >= 0 ? "o->%s || %s" : "o->%s", p->name, from);
    else if (p->type == WFI_ATTR_DTYPE && p->from < 0) {
        put(b, "o->%s", p->name);
        if (*p->def && strcmp(p->def, "none") != 0) {
            put(b, " ? o->%s : WF_", p->name);
            for (const char *s = p->def; *s; s++)
                put(b, "%c", *s >= 'a' && *s <= 'z' ? *s - 'a' + 'A' : *s);
        }
    } else if (p->from >= 0 || (strcmp(from, "0") != 0))
        put(b, "o->%s ? o->%s : %s", p->name, p->name, from);
    else
        put(b, "o->%s", p->name);
}
static void attribute(buf *b, const op *o, const param *p)
{
    if (p->type == WFI_ATTR_DIMS) {
        bool all = strcmp(p->def, "all") == 0;
        put(b, "    dims(&%s%s, %s%s, %s);\n", p->shorthand ? "" : "attr.", p->name, p->named ? "o->" : "", p->name,
            all ? "true" : "false");
        if (p->from >= 0)
            put(b, "    if (%s.n == 0)\n        dims(&%s%s, %s%s, false);\n", p->named ? "o->" : "",
                p->shorthand ? "" : "attr.", p->name, o->p[p->from].shorthand ? "" : "attr.", o->p[p->from].name);
        return;
    }
    if (p->shorthand)
        put(b, "    %s %s = ", attr_type[p->type], p->name);
    else
        put(b, "    attr.%s = ", p->name);
    if (p->named)
        resolved(b, o, p);
    else
        put(b, "%s", p->name);
    put(b, ";\n");
}
static void options(buf *b, const op *o)
{
    put(b,
        "    static const wf_%s_opts none;\n    wf_%s_opts copy;\n    if (!o)\n        o = &none;\n"
        "    else if (o->unnamed || o->size != sizeof copy) {\n"
        "        if (!adopt(o, &copy, sizeof copy))\n"
        "            return wfi_emit_refuse(%s, WFI_OP_%s, %s, %s, site, UNNAMED);\n"
        "        o = &copy;\n    }\n",
        o->name, o->name, o->p[0].kind == CTX ? "ctx" : "NULL", o->name,
        o->many  ? "n"
        : o->nin ? "NIN"
                 : "0",
        o->many || o->nin ? "in" : "NULL");
}
static void operands(buf *b, const op *o, bool optional)
{
    int n = 0;
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == TENSOR_MANY) {
            put(b, "    wf_tensor *const *in = %s;\n", o->p[i].name);
            return;
        }
    put(b, "    enum { NIN = %d };\n    wf_tensor *in[NIN] = {", o->nin);
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == TENSOR)
            put(b, "%s %s", n++ ? "," : "", o->p[i].name);
        else if (o->p[i].kind == TENSOR_OPT)
            put(b, "%s NULL", n++ ? "," : "");
    put(b, " };\n");
    (void)optional;
}
static void optional_operands(buf *b, const op *o)
{
    int n = 0;
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind <= TENSOR_MANY) {
            if (o->p[i].kind == TENSOR_OPT)
                put(b, "    in[%d] = o->%s;\n", n, o->p[i].name);
            n++;
        }
}
static void emit(buf *b, const op *o)
{
    const char *n = o->many ? "n" : o->nin ? "NIN" : "0", *in = o->many || o->nin ? "in" : "NULL";
    const char *attr = has_attrs(o) ? "&attr, sizeof attr" : "NULL, 0", *ctx = o->p[0].kind == CTX ? "ctx" : "NULL";
    if (o->nout == 1) {
        put(b, "    return wfi_emit(%s, WFI_OP_%s, %s, %s, %s, site);\n", ctx, o->name, attr, n, in);
        return;
    }
    put(b, "    wf_tensor *out[%d];\n    wfi_emit_n(%s, WFI_OP_%s, %s, %s, %s, %d, out, site);\n", o->nout, ctx,
        o->name, attr, n, in, o->nout);
    for (int r = 1; r < o->nout; r++)
        put(b, "    if (o->%s)\n        *o->%s = out[%d];\n", o->out[r], o->out[r], r);
    put(b, "    return out[0];\n");
}
static void build(buf *b, const op *o)
{
    head(b, o);
    if (o->np == o->nin && o->nout == 1 && !o->many && o->nin <= 2 && !has_opts(o)) {
        put(b, "    return wfi_emit%d(WFI_OP_%s, %s%s%s, site);\n}\n", o->nin, o->name, o->p[0].name,
            o->nin == 2 ? ", " : "", o->nin == 2 ? o->p[1].name : "");
        return;
    }
    if (o->nin)
        operands(b, o, true);
    if (has_opts(o))
        options(b, o);
    optional_operands(b, o);
    if (has_attrs(o))
        put(b, "    wfi_attr_%s attr;\n    memset(&attr, 0, sizeof attr);\n", o->name);
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == ATTR) {
            if (o->p[i].shorthand && o->p[i].type == WFI_ATTR_DIMS)
                put(b, "    wf_dims %s;\n", o->p[i].name);
            attribute(b, o, &o->p[i]);
        }
    emit(b, o);
    put(b, "}\n");
}
void out_build(buf *b)
{
    bool opts = false, real = false, dims = false;
    for (int i = 0; i < nops; i++) {
        opts |= has_opts(&ops[i]);
        for (int k = 0; k < ops[i].np; k++) {
            real |= ops[i].p[k].kind == ATTR && ops[i].p[k].named && ops[i].p[k].type == WFI_ATTR_F64;
            dims |= ops[i].p[k].kind == ATTR && ops[i].p[k].type == WFI_ATTR_DIMS;
        }
    }
    put(b, "/* ops_build.c - the public builders: options to attributes, then one call. Generated from src/ops: do not "
           "edit. */\n#include \"ops/op.h\"\n#include \"record/emit.h\"\n#include <string.h>\n");
    if (opts)
        put(b,
            "\n#define UNNAMED \"options need their names, for example .stride = 2\"\n\n"
            "/* Options of a program that was built with an older header are shorter. False: not options at all. */\n"
            "static bool adopt(const void *from, void *to, size_t bytes)\n{\n    struct {\n        uint32_t size;\n"
            "        const void *unnamed;\n    } head;\n    memcpy(&head, from, sizeof head);\n"
            "    if (head.unnamed || head.size < sizeof head || head.size > bytes)\n        return false;\n"
            "    memset(to, 0, bytes);\n    memcpy(to, from, head.size);\n    return true;\n}\n");
    if (real)
        put(b, "static double real(double v, double otherwise)\n{\n    return v == 0 ? otherwise : v == WF_ZERO ? 0 : "
               "v;\n}\n");
    if (dims)
        put(b, "/* Member by member, so that padding and unused entries stay zero. A bad length is left for the axis "
               "map to "
               "refuse. */\nstatic void dims(wf_dims *to, wf_dims v, bool all)\n{\n"
               "    memset(to, 0, sizeof *to);\n    to->n = v.n < 0 || v.n > WF_RANK_MAX ? WF_RANK_MAX + 1 : v.n;\n"
               "    for (int32_t i = 0; i < to->n && i < WF_RANK_MAX; i++)\n        to->d[i] = v.d[i];\n"
               "    if (all && to->n == 0)\n        to->n = -1;\n}\n");
    for (int i = 0; i < nops; i++)
        build(b, &ops[i]);
}
