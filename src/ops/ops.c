/* ops.c - what follows from the table of operators: attributes as lists and as text, element types, binding. */
#include "ops/op.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

int wfi_op_find(const char *name)
{
    for (int i = 0; i < WFI_OP_COUNT; i++)
        if (strcmp(wfi_op_table[i].name, name) == 0)
            return i;
    return -1;
}

/* ---- attributes ---- */

static const wfi_op_field *field(const wfi_op_info *op, const char *name, size_t n)
{
    for (int i = 0; i < op->nfield; i++)
        if (strlen(op->field[i].name) == n && memcmp(op->field[i].name, name, n) == 0)
            return &op->field[i];
    return NULL;
}
/* One attribute, whatever its type: a list, or a number. */
typedef struct any {
    wf_dims list;
    double real;
    int64_t whole;
} any;
static void load(const wfi_op_field *f, const void *attr, any *v)
{
    const char *p = (const char *)attr + f->offset;
    int32_t i32;
    bool flag;
    *v = (any){ .real = f->value, .whole = (int64_t)f->value };
    if (!attr || f->offset == WFI_ATTR_SHORTHAND) {
        v->list.n = f->type == WFI_ATTR_DIMS ? (int32_t)f->value : 1;
        v->list.d[0] = v->whole;
        return;
    }
    switch ((wfi_attr_type)f->type) {
    case WFI_ATTR_DIMS: memcpy(&v->list, p, sizeof v->list); return;
    case WFI_ATTR_F64: memcpy(&v->real, p, sizeof v->real); break;
    case WFI_ATTR_I64: memcpy(&v->whole, p, sizeof v->whole); break;
    case WFI_ATTR_BOOL:
        memcpy(&flag, p, sizeof flag);
        v->whole = flag;
        break;
    case WFI_ATTR_I32:
    case WFI_ATTR_DTYPE:
        memcpy(&i32, p, sizeof i32);
        v->whole = i32;
        break;
    }
    v->list = (wf_dims){ 1, { f->type == WFI_ATTR_F64 ? v->real != 0 : v->whole } };
}
static void store(const wfi_op_field *f, void *attr, const any *v)
{
    char *p = (char *)attr + f->offset;
    int32_t i32 = (int32_t)v->whole;
    bool flag = v->whole != 0;
    switch ((wfi_attr_type)f->type) {
    case WFI_ATTR_DIMS: /* unused entries and padding stay zero, so that memcmp compares attributes */
        memset(p, 0, sizeof v->list);
        memcpy(p, &v->list.n, sizeof v->list.n);
        for (int32_t i = 0; i < v->list.n; i++)
            memcpy(p + offsetof(wf_dims, d) + (size_t)i * sizeof(int64_t), &v->list.d[i], sizeof(int64_t));
        break;
    case WFI_ATTR_F64: memcpy(p, &v->real, sizeof v->real); break;
    case WFI_ATTR_I64: memcpy(p, &v->whole, sizeof v->whole); break;
    case WFI_ATTR_BOOL: memcpy(p, &flag, sizeof flag); break;
    case WFI_ATTR_I32:
    case WFI_ATTR_DTYPE: memcpy(p, &i32, sizeof i32); break;
    }
}

int wfi_op_axis_attrs(const wfi_op_info *op, const void *attr, wf_dims *out)
{
    any v;
    for (int i = 0; i < op->nfield && i < WFI_AXIS_ATTRS; i++) {
        load(&op->field[i], attr, &v);
        out[i] = v.list;
    }
    return op->nfield;
}

static size_t room(size_t n, size_t bytes)
{
    return n < bytes ? bytes - n : 0;
}
static char *at(char *text, size_t n, size_t bytes)
{
    return n < bytes ? text + n : NULL;
}

int wfi_op_attr_print(const wfi_op_info *op, const void *attr, char *text, size_t bytes)
{
    size_t n = 0;
    any v;
    if (bytes)
        *text = 0;
    for (int i = 0; i < op->nfield; i++) {
        const wfi_op_field *f = &op->field[i];
        if (f->offset == WFI_ATTR_SHORTHAND)
            continue;
        load(f, attr, &v);
#define PUT(...) n += (size_t)snprintf(at(text, n, bytes), room(n, bytes), __VA_ARGS__)
        PUT("%s%s=", n ? " " : "", f->name);
        if (f->type == WFI_ATTR_DIMS && v.list.n < 0)
            PUT("all");
        else if (f->type == WFI_ATTR_DIMS) {
            PUT("[");
            for (int32_t k = 0; k < v.list.n && k < WF_RANK_MAX; k++)
                PUT("%s%lld", k ? "," : "", (long long)v.list.d[k]);
            PUT("]");
        } else if (f->type == WFI_ATTR_F64) {
            char number[WFI_STR_NUMBER];
            wfi_str_f64(number, v.real);
            PUT("%s", number);
        } else if (f->type == WFI_ATTR_BOOL)
            PUT("%s", v.whole ? "true" : "false");
        else if (f->type == WFI_ATTR_DTYPE)
            PUT("%s", v.whole ? wf_dtype_name((wf_dtype)v.whole) : "none");
        else
            PUT("%lld", (long long)v.whole);
#undef PUT
    }
    return (int)n;
}

/* "[0,1]", "0,1", "all", "3", "1e-5", "true", "f32" */
static bool read_value(const wfi_op_field *f, const char *s, size_t n, any *v)
{
    char word[160];
    if (n == 0 || n >= sizeof word)
        return false;
    memcpy(word, s, n);
    word[n] = 0;
    *v = (any){ .whole = 0 };
    switch ((wfi_attr_type)f->type) {
    case WFI_ATTR_DIMS: {
        if (strcmp(word, "all") == 0)
            return v->list.n = -1, true;
        char *w = word + (*word == '[');
        if (*word == '[' && word[n - 1] == ']')
            word[n - 1] = 0;
        while (*w) {
            if (v->list.n == WF_RANK_MAX)
                return false;
            size_t digits = strcspn(w, ",");
            if (!wfi_str_int64(w, digits, &v->list.d[v->list.n++]) || (w[digits] && !w[digits + 1]))
                return false;
            w += digits + (w[digits] != 0);
        }
        return true;
    }
    case WFI_ATTR_F64: return wfi_str_double(word, n, &v->real);
    case WFI_ATTR_BOOL:
        v->whole = strcmp(word, "true") == 0 || strcmp(word, "1") == 0;
        return v->whole || strcmp(word, "false") == 0 || strcmp(word, "0") == 0;
    case WFI_ATTR_DTYPE: v->whole = wf_dtype_of(word); return v->whole || strcmp(word, "none") == 0;
    case WFI_ATTR_I32:
    case WFI_ATTR_I64:
        return wfi_str_int64(word, n, &v->whole) &&
               (f->type == WFI_ATTR_I64 || (v->whole >= INT32_MIN && v->whole <= INT32_MAX));
    }
    return false;
}
typedef struct attr_reader {
    any v[32];
    uint32_t given;
} attr_reader;
static bool read_word(const wfi_op_info *op, const char *s, size_t n, attr_reader *r, char *unknown, size_t bytes,
                      char *err, size_t err_bytes)
{
    const char *eq = memchr(s, '=', n);
    const wfi_op_field *f = eq ? field(op, s, (size_t)(eq - s)) : NULL;
    if (!f && unknown) {
        size_t have = strlen(unknown);
        if (have + n + 2 > bytes)
            return snprintf(err, err_bytes, "%s: too many words", op->name), false;
        if (have)
            unknown[have++] = ' ';
        memcpy(unknown + have, s, n);
        unknown[have + n] = 0;
        return true;
    }
    if (!f)
        return snprintf(err, err_bytes, "%s has no attribute %.*s", op->name, (int)(eq ? eq - s : (ptrdiff_t)n), s),
               false;
    int i = (int)(f - op->field);
    if (r->given >> i & 1)
        return snprintf(err, err_bytes, "%s: %s is given twice", op->name, f->name), false;
    if (!read_value(f, eq + 1, n - (size_t)(eq + 1 - s), &r->v[i]))
        return snprintf(err, err_bytes, "%s: %.*s is no value of %s", op->name, (int)(n - (size_t)(eq + 1 - s)), eq + 1,
                        f->name),
               false;
    r->given |= 1u << i;
    return true;
}
bool wfi_op_attr_parse(const wfi_op_info *op, const char *text, void *attr, char *unknown, size_t unknown_bytes,
                       char *err, size_t err_bytes)
{
    attr_reader r = { .given = 0 };
    if (unknown && unknown_bytes)
        *unknown = 0;
    for (const char *s = text; *s;) {
        size_t n = strcspn(s, " ");
        if (n && !read_word(op, s, n, &r, unknown, unknown_bytes, err, err_bytes))
            return false;
        s += n + (s[n] == ' ');
    }
    if (op->attr_bytes)
        memset(attr, 0, op->attr_bytes);
    for (int i = 0; i < op->nfield; i++) {
        const wfi_op_field *f = &op->field[i], *from = f->from ? field(op, f->from, strlen(f->from)) : NULL;
        if (!(r.given >> i & 1)) {
            if (f->required)
                return snprintf(err, err_bytes, "%s: %s is missing", op->name, f->name), false;
            if (from)
                r.v[i] = r.v[from - op->field];
            else
                load(f, NULL, &r.v[i]);
        }
        if (f->offset != WFI_ATTR_SHORTHAND)
            store(f, attr, &r.v[i]);
    }
    return true;
}

/* ---- element types ---- */

static bool in_class(uint8_t code, wf_dtype t)
{
    bool real = t == WF_F64 || t == WF_F32 || t == WF_BF16 || t == WF_F16;
    bool whole = t == WF_I64 || t == WF_I32 || t == WF_U8;
    switch (code) {
    case WFI_T_FLOAT: return real;
    case WFI_T_NUM: return real || whole;
    case WFI_T_INT: return whole;
    case WFI_T_BOOL: return t == WF_BOOL;
    case WFI_T_ALL: return real || whole || t == WF_BOOL;
    case WFI_T_ANY: return t > WF_DTYPE_NONE && t < WF_DTYPE_COUNT;
    case WFI_T_WIDE: return t == WF_F64 || t == WF_F32;
    default: return code >= WFI_T_EXACT && code - WFI_T_EXACT == (int)t;
    }
}
static const char *class_text(uint8_t code)
{
    static const char *const text[] = { "",     "a floating-point type", "a number type",   "i64, i32 or u8",
                                        "bool", "a number type or bool", "an element type", "f32 or f64" };
    return code < 8 ? text[code] : code >= WFI_T_EXACT ? wf_dtype_name((wf_dtype)(code - WFI_T_EXACT)) : "";
}
static void operand_name(const wfi_op_info *op, int i, char *text, size_t bytes)
{
    if (op->flags & WFI_OP_MANY)
        snprintf(text, bytes, "%s%d", op->operand[0], i);
    else
        snprintf(text, bytes, "%s", op->operand[i]);
}
/* The type that the operands of this class share; NONE if no such operand was given. */
static wf_dtype class_type(const wfi_op_info *op, uint8_t code, int nin, const wf_dtype *in)
{
    for (int i = 0; i < nin; i++)
        if (in[i] != WF_DTYPE_NONE && (op->tin[1] ? op->tin[i] : op->tin[0]) == code)
            return in[i];
    return WF_DTYPE_NONE;
}
/* The type of class `wide`: f64 beside f64, else f32; NONE if no operand is of class float. */
static wf_dtype wide_type(const wfi_op_info *op, int nin, const wf_dtype *in)
{
    wf_dtype t = class_type(op, WFI_T_FLOAT, nin, in);
    return t == WF_DTYPE_NONE || t == WF_F64 ? t : WF_F32;
}
static wf_dtype dtype_attr(const wfi_op_info *op, const void *attr)
{
    const wfi_op_field *f = field(op, "dtype", 5);
    any v = { .whole = 0 };
    if (f)
        load(f, attr, &v);
    return (wf_dtype)v.whole;
}
bool wfi_op_pointwise_type(uint32_t op, int nin, const wf_dtype *in, wf_dtype *made, char *err, size_t err_bytes)
{
    if (op != WFI_OP_cast)
        return wfi_op_types(&wfi_op_table[op], NULL, nin, in, made, err, err_bytes);
    if (nin == 1 && *made > WF_DTYPE_NONE && *made < WF_DTYPE_COUNT)
        return true;
    (void)snprintf(err, err_bytes, "cast: one operand and a type were expected");
    return false;
}
bool wfi_op_types(const wfi_op_info *op, const void *attr, int nin, const wf_dtype *in, wf_dtype *out, char *err,
                  size_t err_bytes)
{
    char mine[40], other[40];
    if (!(op->flags & WFI_OP_MANY) && nin > op->nin_max)
        return snprintf(err, err_bytes, "%s: %d operands given; it takes %d", op->name, nin, op->nin_max), false;
    for (int i = 0; i < nin; i++) {
        uint8_t code = op->tin[1] ? op->tin[i] : op->tin[0];
        if (in[i] == WF_DTYPE_NONE)
            continue;
        operand_name(op, i, mine, sizeof mine);
        if (!in_class(code, in[i]))
            return snprintf(err, err_bytes, "%s: %s is %s; needed %s", op->name, mine, wf_dtype_name(in[i]),
                            class_text(code)),
                   false;
        wf_dtype wide = code == WFI_T_WIDE ? wide_type(op, nin, in) : in[i];
        if (in[i] != wide && wide != WF_DTYPE_NONE)
            return snprintf(err, err_bytes, "%s: %s is %s; needed %s", op->name, mine, wf_dtype_name(in[i]),
                            wf_dtype_name(wide)),
                   false;
        wf_dtype shared = class_type(op, code, nin, in);
        for (int k = 0; shared != in[i] && k < i; k++) {
            operand_name(op, k, other, sizeof other);
            if (in[k] == shared && (op->tin[1] ? op->tin[k] : op->tin[0]) == code)
                return snprintf(err, err_bytes, "%s: element types differ: %s is %s, %s is %s", op->name, other,
                                wf_dtype_name(shared), mine, wf_dtype_name(in[i])),
                       false;
        }
    }
    for (int r = 0; r < op->nout; r++) {
        uint8_t code = op->tout[r];
        out[r] = code >= WFI_T_EXACT  ? (wf_dtype)(code - WFI_T_EXACT)
                 : code == WFI_T_ATTR ? dtype_attr(op, attr)
                 : code == WFI_T_WIDE ? wide_type(op, nin, in)
                                      : class_type(op, code, nin, in);
        if (code == WFI_T_BOOL)
            out[r] = WF_BOOL;
        if (out[r] <= WF_DTYPE_NONE || out[r] >= WF_DTYPE_COUNT)
            return snprintf(err, err_bytes, "%s: nothing says the element type of %s", op->name,
                            op->operand[(op->flags & WFI_OP_MANY ? 1 : op->nin_max) + r]),
                   false;
    }
    return true;
}

/* ---- binding ---- */

static bool write_map(const wfi_op_info *op, const wf_op_case *c, wfi_axis_inst *x, char *err, size_t err_bytes)
{
    char text[512], attrs[512];
    size_t n = 0;
    attrs[0] = 0;
    for (int i = 0; i < op->nfield && n < sizeof attrs; i++)
        n += (size_t)snprintf(attrs + n, sizeof attrs - n, "%s ", op->field[i].name);
    if (!op->def->map(c, text, sizeof text, err, err_bytes))
        return false;
    char why[WFI_AXIS_ERR];
    if (wfi_axis_parse(text, attrs, &x->own, why, sizeof why))
        return true;
    snprintf(err, err_bytes, "%s: axis map: %s", op->name, why);
    return false;
}
bool wfi_op_bind(const wfi_op_info *op, const void *attr, int nin, const wfi_axis_shape *in, const wf_dtype *dtype,
                 struct wfi_syms *syms, wfi_axis_inst *x, char *err, size_t err_bytes)
{
    wf_dims list[WFI_AXIS_ATTRS];
    wfi_attrs none;
    memset(&none, 0, sizeof none);
    wf_op_case c = { .in = in, .dtype = dtype, .nin = nin, .a = attr ? attr : &none };
    wfi_op_axis_attrs(op, attr, list);
    if (!op->map && !write_map(op, &c, x, err, err_bytes))
        return false;
    if (!wfi_axis_bind(op->map ? op->map : x->own.b, op->name, nin, in, list, syms, x, err, err_bytes))
        return false;
    x->map = op->map;
    return !op->def->check || op->def->check(&c, err, err_bytes);
}

bool wfi_op_needs_some(const wf_op_case *c, wf_dims axes, const char *name, char *err, size_t err_bytes)
{
    int32_t ndim = c->in[0].ndim, none = -1;
    bool wanted = true;
    for (int32_t k = 0; k < ndim; k++) {
        bool hit = axes.n < 0;
        for (int32_t i = 0; i < axes.n; i++)
            hit |= (axes.d[i] < 0 ? axes.d[i] + ndim : axes.d[i]) == k;
        if (c->in[0].dim[k] == 0 && hit && none < 0)
            none = k;
        wanted &= hit || c->in[0].dim[k] != 0;
    }
    if (none < 0 || !wanted)
        return true;
    snprintf(err, err_bytes, "%s: axis %d of x has no elements", name, (int)none);
    return false;
}
