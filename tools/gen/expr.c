/* expr.c - expressions of element-wise rows become calls of public builders:
 *     g * (1 - y)   ->   wf_zmul_(g, wf_sub_(wfi_like(g, 1), y, s), s)
 * In gradients a product or quotient whose left factor begins with g is zero-safe: 0 where g is 0. */
#include "gen.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct value {
    buf text;
    bool number, g; /* g: begins with the incoming gradient */
    double v;
} value;

typedef struct reader {
    const char *s;
    const op *o;
    int line;
    const char *like;
    bool zero_safe, failed;
} reader;

static bool fail(reader *r, const char *what, const char *which)
{
    char text[200];
    snprintf(text, sizeof text, "%s%s%.60s", what, *which ? ": " : "", which);
    if (!r->failed)
        error(r->o->file, r->line, r->o->name, text, "");
    r->failed = true;
    return false;
}
static void blank(reader *r)
{
    while (isspace((unsigned char)*r->s))
        r->s++;
}
static const char *tensor(reader *r, value *v)
{
    if (v->number) {
        v->text.n = 0;
        put(&v->text, "wfi_like(%s, %.17g)", r->like, v->v);
        v->number = false;
    }
    return v->text.s;
}
static bool sum(reader *r, value *v);

static bool call(reader *r, const char *name, value *v)
{
    const op *f = find(name);
    int n = 0;
    r->s++;
    put(&v->text, "wf_%s_(", name);
    for (blank(r); *r->s != ')'; blank(r)) {
        value a = { 0 };
        if (!sum(r, &a))
            return false;
        put(&v->text, "%s, ", tensor(r, &a));
        free(a.text.s);
        n++;
        if (*r->s == ',')
            r->s++;
        else if (*r->s != ')')
            return fail(r, ") was expected", r->s);
    }
    r->s++;
    put(&v->text, "s)");
    if (!f || !f->row)
        return fail(r, "there is no element-wise operator of that name", name);
    return n == f->arity || fail(r, "wrong number of operands", name);
}
static bool atom(reader *r, value *v)
{
    char name[40];
    blank(r);
    if (*r->s == '-') {
        r->s++;
        if (!atom(r, v))
            return false;
        if (v->number)
            v->v = -v->v;
        else {
            buf t = { 0 };
            put(&t, "wf_neg_(%s, s)", v->text.s);
            free(v->text.s);
            v->text = t;
        }
        return true;
    }
    if (*r->s == '(') {
        r->s++;
        if (!sum(r, v))
            return false;
        if (*r->s != ')')
            return fail(r, ") was expected", r->s);
        r->s++;
        return true;
    }
    if (isdigit((unsigned char)*r->s)) {
        char *e;
        v->v = strtod(r->s, &e);
        v->number = true;
        r->s = e;
        return true;
    }
    size_t n = 0;
    while ((isalnum((unsigned char)*r->s) || *r->s == '_') && n + 1 < sizeof name)
        name[n++] = *r->s++;
    name[n] = 0;
    if (n == 0)
        return fail(r, "not understood", r->s);
    blank(r);
    if (*r->s == '(')
        return call(r, name, v);
    bool operand = n == 1 && *name >= 'a' && *name < 'a' + r->o->arity;
    bool gradient = r->zero_safe && n == 1 && (*name == 'g' || *name == 'y');
    if (!operand && !gradient)
        return fail(r, "an expression is over a, b, c, and in gradients g and y", name);
    put(&v->text, "%s", name);
    v->g = gradient && *name == 'g';
    return true;
}
static bool binary(reader *r, value *v, value *w, char sign)
{
    const char *name = sign == '*' ? "mul" : sign == '/' ? "div" : sign == '+' ? "add" : "sub";
    if (v->number && w->number) {
        v->v = sign == '*' ? v->v * w->v : sign == '/' ? v->v / w->v : sign == '+' ? v->v + w->v : v->v - w->v;
        return true;
    }
    bool product = sign == '*' || sign == '/', zero = product && v->g && r->zero_safe;
    /* where g meets a number nothing can become a NaN that was none */
    zero &= !(w->number && (sign == '*' || w->v != 0));
    buf t = { 0 };
    tensor(r, v);
    put(&t, "wf_%s%s_(%s, ", zero ? "z" : "", name, v->text.s);
    put(&t, "%s, s)", tensor(r, w));
    free(v->text.s);
    free(w->text.s);
    bool g = product && v->g;
    *v = (value){ .text = t, .g = g };
    return true;
}
static bool product(reader *r, value *v)
{
    if (!atom(r, v))
        return false;
    for (blank(r); *r->s == '*' || *r->s == '/'; blank(r)) {
        value w = { 0 };
        char sign = *r->s++;
        if (!atom(r, &w) || !binary(r, v, &w, sign))
            return false;
    }
    return true;
}
static bool sum(reader *r, value *v)
{
    if (!product(r, v))
        return false;
    for (blank(r); *r->s == '+' || *r->s == '-'; blank(r)) {
        value w = { 0 };
        char sign = *r->s++;
        if (!product(r, &w) || !binary(r, v, &w, sign))
            return false;
    }
    return true;
}
bool expr(buf *b, const op *o, int line, const char *text, const char *like, bool zero_safe)
{
    reader r = { .s = text, .o = o, .line = line, .like = like, .zero_safe = zero_safe };
    value v = { 0 };
    if (!sum(&r, &v))
        return false;
    if (*r.s)
        return fail(&r, "not understood", r.s);
    put(b, "%s", tensor(&r, &v));
    free(v.text.s);
    return true;
}

char *part(const char *list, int n)
{
    for (; n > 0; n--) {
        list = strchr(list, ';');
        if (!list)
            return NULL;
        list++;
    }
    while (*list == ' ')
        list++;
    size_t k = strcspn(list, ";");
    while (k && list[k - 1] == ' ')
        k--;
    return copy(list, k);
}
bool mentions(const char *text, const char *word)
{
    size_t n = strlen(word);
    for (const char *s = text; (s = strstr(s, word)) != NULL; s++) {
        bool before = s > text && (isalnum((unsigned char)s[-1]) || s[-1] == '_');
        bool after = isalnum((unsigned char)s[n]) || s[n] == '_';
        if (!before && !after)
            return true;
    }
    return false;
}
