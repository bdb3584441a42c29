/* call.c - .call, .types and .outputs. */
#include "gen.h"
#include "ops/op_types.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const attr_type[6] = { "int32_t", "int64_t", "double", "bool", "wf_dtype", "wf_dims" };
const char *const attr_enum[6] = { "I32", "I64", "F64", "BOOL", "DTYPE", "DIMS" };

static const char *const dtypes[] = { "none", "f32", "f64", "f16", "bf16", "i64", "i32",    "u8",
                                      "bool", "i8",  "i16", "u16", "u32",  "u64", "f8e4m3", "f8e5m2" };
static int dtype_of(const char *s)
{
    for (int i = 0; i < (int)(sizeof dtypes / sizeof *dtypes); i++)
        if (strcmp(dtypes[i], s) == 0)
            return i;
    return -1;
}

static bool bad(const op *o, const char *key, const char *what, const char *which)
{
    char text[200];
    snprintf(text, sizeof text, ".%s: %s%s%s", key, which, *which ? ": " : "", what);
    error(o->file, line_of(o, key), o->name, text, "tools/gen/README.md has the grammar");
    return false;
}
static bool operand_in_axes(const op *o, const char *name)
{
    const char *axes = get(o, "axes"), *arrow = axes ? strstr(axes, "->") : NULL;
    for (const char *s = axes; s && (s = strstr(s, name)) != NULL && s < arrow; s++) {
        const char *e = s + strlen(name);
        if ((s == axes || isspace((unsigned char)s[-1]) || s[-1] == ']') && (*e == '[' || (*e == '*' && e[1] == '[')))
            return true;
    }
    return false;
}
static size_t word(const char **s, char *to, size_t cap)
{
    size_t n = 0;
    for (; isalnum((unsigned char)**s) || **s == '_' || **s == '.' || **s == '-' || **s == '+'; ++*s)
        if (n + 1 < cap)
            to[n++] = **s;
    to[n] = 0;
    return n;
}
static void blank(const char **s)
{
    while (isspace((unsigned char)**s))
        ++*s;
}
static bool set_type(op *o, param *p, const char *type, bool optional)
{
    static const char *const names[] = { "i32", "i64", "f64", "bool", "dtype", "dims" };
    if (strcmp(type, "tensor") == 0) {
        p->kind = optional ? TENSOR_OPT : TENSOR;
        return true;
    }
    for (int i = 0; i < 6; i++)
        if (strcmp(type, names[i]) == 0) {
            p->type = i;
            return !optional || bad(o, "call", "only tensors are optional", p->name);
        }
    return bad(o, "call", "the types are i32 i64 f64 bool dtype dims tensor tensor?", p->name);
}
/* The default: of a type, or an earlier option. */
static bool set_default(op *o, param *p, bool typed)
{
    char *end;
    double v = strtod(p->def, &end);
    (void)v;
    if (p->kind != ATTR)
        return bad(o, "call", "a tensor has no default", p->name);
    bool number = end != p->def && !*end;
    if (number && !typed && strpbrk(p->def, ".eE"))
        p->type = 2;
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == ATTR && strcmp(o->p[i].name, p->def) == 0) {
            p->from = i;
            if (!typed)
                p->type = o->p[i].type;
            return p->type == o->p[i].type || bad(o, "call", "its default has another type", p->name);
        }
    if (number && p->type <= 2)
        return true;
    if (p->type == 3 && strcmp(p->def, "false") == 0)
        return true;
    if (p->type == 3 && strcmp(p->def, "true") == 0)
        return bad(o, "call", "a flag that is on by default cannot be put off; call it no_...", p->name);
    if (p->type == 4 && dtype_of(p->def) >= 0)
        return true;
    if (p->type == 5 && strcmp(p->def, "all") == 0)
        return true;
    return bad(o, "call", "this default is neither a value nor an earlier option", p->name);
}
static bool entry(op *o, const char **s, bool named)
{
    param *p = &o->p[o->np];
    char type[32] = "";
    bool typed = false;
    *p = (param){ .kind = ATTR, .named = named, .from = -1 };
    if (o->np == PARAMS)
        return bad(o, "call", "too many parameters", "");
    if (!word(s, p->name, sizeof p->name) || isdigit((unsigned char)*p->name))
        return bad(o, "call", "a name was expected", *s);
    static const char *const taken[] = { "o", "in", "out", "site", "attr", "none", "copy", "n", "NIN" };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        if (strcmp(taken[i], p->name) == 0 && (*p->name != 'n' || p->name[1] || o->many))
            return bad(o, "call", "the generated code uses this name itself", p->name);
    if (named && (strcmp(p->name, "size") == 0 || strcmp(p->name, "unnamed") == 0))
        return bad(o, "call", "every option struct has this member already", p->name);
    for (int i = 0; i < o->np; i++)
        if (strcmp(o->p[i].name, p->name) == 0)
            return bad(o, "call", "stands here twice", p->name);
    bool tensor = operand_in_axes(o, p->name);
    if (strcmp(p->name, "ctx") == 0 && o->np == 0)
        p->kind = CTX;
    else if (tensor)
        p->kind = TENSOR;
    if (**s == '*') {
        ++*s;
        p->kind = TENSOR_MANY;
        o->many = true;
    }
    if (**s == ':') {
        ++*s;
        typed = true;
        word(s, type, sizeof type);
        bool optional = **s == '?';
        *s += optional;
        if (!set_type(o, p, type, optional))
            return false;
    }
    if (p->kind == TENSOR && named)
        return bad(o, "call", "a tensor among the options is optional: write tensor?", p->name);
    if (p->kind == TENSOR_OPT && !named)
        return bad(o, "call", "an optional tensor is a named option", p->name);
    if (**s == '=') {
        ++*s;
        word(s, p->def, sizeof p->def);
        if (!set_default(o, p, typed))
            return false;
        if (!named && strcmp(p->def, "all") != 0)
            return bad(o, "call", "what has a default is a named option: put it after ;", p->name);
    }
    o->np++;
    return true;
}
static void find_shorthands(op *o)
{
    char attrs[600] = "", err[WFI_AXIS_ERR];
    wfi_axis_map m;
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == ATTR)
            snprintf(attrs + strlen(attrs), sizeof attrs - strlen(attrs), "%s ", o->p[i].name);
    bool map = get(o, "axes") && wfi_axis_parse(get(o, "axes"), attrs, &m, err, sizeof err);
    for (int i = 0; i < o->np; i++)
        for (int j = 0; j < o->np; j++)
            if (o->p[j].from == i && map && !wfi_axis_mentions(m.b, o->p[i].name))
                o->p[i].shorthand = true;
}
bool read_call(op *o)
{
    const char *s = get(o, "call");
    bool named = false, ok = true;
    if (o->row) {
        for (int i = 0; i < o->arity; i++)
            o->p[o->np++] = (param){ .name = { (char)('a' + i) }, .kind = TENSOR, .from = -1 };
        o->nin = o->nin_min = o->arity;
        return true;
    }
    for (blank(&s); ok && *s;) {
        if (*s == ';') {
            ok = !named || bad(o, "call", "a second ;", "");
            named = true;
            s++;
        } else
            ok = entry(o, &s, named);
        blank(&s);
        if (ok && *s == ',') {
            s++;
            blank(&s);
        } else if (ok && *s && *s != ';' && s[-1] != ';' && !isspace((unsigned char)s[-1]))
            ok = bad(o, "call", "not understood", s);
    }
    for (int i = 0; i < o->np; i++) {
        o->nin += o->p[i].kind <= TENSOR_MANY;
        o->nin_min += o->p[i].kind == TENSOR || o->p[i].kind == TENSOR_MANY;
    }
    if (ok && o->nin > 8)
        ok = bad(o, "call", "more than 8 operands", "");
    int positional = 0;
    for (int i = 0; i < o->np; i++)
        positional += !o->p[i].named;
    if (ok && !positional)
        ok = bad(o, "call", "at least one parameter stands before the options", "");
    if (ok)
        find_shorthands(o);
    return ok;
}
void read_outputs(op *o)
{
    const char *s = get(o, "outputs");
    o->nout = 0;
    for (const char *t = s ? s : "y"; *t;) {
        blank(&t);
        if (o->nout == RESULTS || !word(&t, o->out[o->nout], sizeof o->out[0])) {
            bad(o, "outputs", "names with commas, at most 4", "");
            return;
        }
        o->nout++;
        blank(&t);
        if (*t == ',')
            t++;
    }
}
bool has_attrs(const op *o)
{
    for (int i = 0; i < o->np; i++)
        if (o->p[i].kind == ATTR && !o->p[i].shorthand)
            return true;
    return false;
}
bool has_opts(const op *o)
{
    for (int i = 0; i < o->np; i++)
        if (o->p[i].named)
            return true;
    return o->nout > 1;
}

/* ---- types ---- */

static int type_code(const char *s)
{
    static const char *const names[] = { "", "float", "num", "int", "bool", "all", "any", "wide" };
    for (int i = 1; i < 8; i++)
        if (strcmp(s, names[i]) == 0)
            return i;
    if (strcmp(s, "@dtype") == 0 || strcmp(s, "attr") == 0)
        return WFI_T_ATTR;
    int d = dtype_of(s);
    return d > 0 ? WFI_T_EXACT + d : -1;
}
static bool codes(const char **s, uint8_t *to, int cap, const char *stop)
{
    for (int n = 0;;) {
        char w[32];
        while (isspace((unsigned char)**s) || **s == ',')
            ++*s;
        if (!**s || strncmp(*s, stop, 2) == 0)
            return true;
        size_t k = strcspn(*s, " ,-");
        snprintf(w, sizeof w, "%.*s", (int)k, *s);
        *s += k;
        int c = type_code(w);
        if (c < 0 || n == cap || k == 0)
            return false;
        to[n++] = (uint8_t)c;
    }
}
void read_types(op *o)
{
    const char *t = get(o, "types") ? get(o, "types") : "num";
    if (o->row && strcmp(t, "cond") == 0)
        t = "bool all all -> all";
    const char *s = t;
    bool good = codes(&s, o->tin, 8, "->");
    if (good && *s) {
        s += 2;
        good = codes(&s, o->tout, 4, "\n");
    }
    int n = 0, m = 0;
    while (n < 8 && o->tin[n])
        n++;
    while (m < 4 && o->tout[m])
        m++;
    good &= n == 1 || n == o->nin || (n == 0 && o->nin == 0);
    good &= m <= o->nout && (n > 0 || m > 0);
    if (!good) {
        bad(o, "types", "one class for all operands, or one for each, then -> and one for each result", "");
        return;
    }
    for (; m < o->nout; m++) /* what is not said is like the first */
        o->tout[m] = m ? o->tout[m - 1] : o->tin[0];
    for (m = 0; m < o->nout; m++)
        if (o->tout[m] == WFI_T_ATTR) {
            bool dtype = false;
            for (int i = 0; i < o->np; i++)
                dtype |= o->p[i].kind == ATTR && strcmp(o->p[i].name, "dtype") == 0 && o->p[i].type == 4;
            if (!dtype)
                bad(o, "types", "@dtype wants an attribute dtype:dtype", "");
        }
}
