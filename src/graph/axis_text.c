/* axis_text.c - axis maps from text to packed bytes and back. The generator uses it at build time, custom operators and
 * einsum at run time. */
#include "graph/axis_tmpl.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct parser {
    const char *at, *s; /* the text and where we are */
    axis_tmpl t;
    char names[WFI_AXIS_NAMES][AXIS_NAME];
    char *err;
    size_t err_bytes;
    bool failed;
} parser;

static bool fail_at(parser *p, const char *where, const char *what)
{
    if (!p->failed)
        snprintf(p->err, p->err_bytes, "%s at column %d: %s%.16s", what, (int)(where - p->at) + 1,
                 *where ? "" : "end of the text", where);
    p->failed = true;
    return false;
}
static bool fail(parser *p, const char *what)
{
    return fail_at(p, p->s, what);
}
static void space(parser *p)
{
    while (isspace((unsigned char)*p->s))
        p->s++;
}
static bool take(parser *p, const char *token)
{
    size_t n = strlen(token);
    return strncmp(p->s, token, n) == 0 && (p->s += n, true);
}
static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}
static int intern(parser *p, const char *s, size_t n)
{
    axis_tmpl *t = &p->t;
    for (int i = 0; i < t->nname; i++)
        if (strlen(p->names[i]) == n && memcmp(p->names[i], s, n) == 0)
            return i;
    if (n >= AXIS_NAME || t->nname == WFI_AXIS_NAMES)
        return -1;
    memcpy(p->names[t->nname], s, n);
    t->name[t->nname] = p->names[t->nname];
    return t->nname++;
}
/* Names are at most 15 letters, at most 32 different ones. */
static int name(parser *p)
{
    const char *b = p->s;
    while (is_word(*p->s))
        p->s++;
    int id = p->s > b && !isdigit((unsigned char)*b) ? intern(p, b, (size_t)(p->s - b)) : -1;
    if (id < 0)
        fail_at(p, b, p->s == b || isdigit((unsigned char)*b) ? "a name was expected" : "too many or too long names");
    return id;
}
static bool number(parser *p, int32_t *v)
{
    int64_t n = 0;
    for (; isdigit((unsigned char)*p->s); p->s++)
        if ((n = n * 10 + (*p->s - '0')) > INT32_MAX)
            return fail(p, "the number is too large");
    *v = (int32_t)n;
    return true;
}

static bool index_term(parser *p, axis_item *it, int sign)
{
    if (it->n == WFI_AXIS_TERMS + 4 || p->t.nterm == AXIS_ALL_TERMS)
        return fail(p, "too many terms");
    axis_term *t = &p->t.term[p->t.nterm++];
    *t = (axis_term){ .name = -1, .coef = -1, .sign = (int8_t)sign, .num = 1 };
    it->n++;
    if (isdigit((unsigned char)*p->s))
        return number(p, &t->num);
    int id = name(p);
    if (id < 0)
        return false;
    if (id < p->t.nattr || id == it->dim)
        t->coef = (int8_t)id;
    else
        t->name = (int8_t)id;
    if (t->name < 0 || !take(p, "*"))
        return true;
    if (isdigit((unsigned char)*p->s))
        return number(p, &t->num);
    return (t->coef = (int8_t)name(p)) >= 0;
}
static uint8_t marks(parser *p)
{
    static const char mark[] = "!>#?%";
    uint8_t m = 0;
    for (const char *k; *p->s && (k = strchr(mark, *p->s)); p->s++)
        m |= (uint8_t)(1u << (k - mark));
    return m;
}
static bool merged(parser *p, axis_item *it)
{
    it->merged = true;
    for (space(p); !take(p, ")"); space(p)) {
        if (!index_term(p, it, 1))
            return false;
        axis_term *t = &p->t.term[p->t.nterm - 1];
        if (t->name < 0)
            return fail(p, "only factors stand in ( )");
        t->marks = marks(p);
    }
    return it->n >= 2 || fail(p, "( ) wants at least two factors");
}
static bool index_expr(parser *p, axis_item *it)
{
    int sign = take(p, "-") ? -1 : 1;
    for (bool more = true; more;) {
        if (!index_term(p, it, sign))
            return false;
        more = *p->s == '+' || *p->s == '-';
        sign = take(p, "+") ? 1 : take(p, "-") ? -1 : sign;
    }
    return true;
}
static bool attribute(parser *p, int8_t *id)
{
    const char *b = p->s;
    *id = (int8_t)name(p);
    return *id >= 0 && (*id < p->t.nattr || fail_at(p, b, "this names no attribute"));
}
/* An index that is more than one factor has a size of its own, which must have a name. */
static bool check_item(parser *p, const axis_item *it, const char *b)
{
    int factors = 0;
    for (int j = 0; j < it->n; j++)
        factors += p->t.term[it->first + j].name >= 0;
    const axis_term *t = &p->t.term[it->first];
    if (factors > WFI_AXIS_TERMS)
        return fail_at(p, b, "more than four factors in one dimension");
    if (it->n > 0 && factors == 0)
        return fail_at(p, b, "no factor in this dimension");
    if (it->run && it->merged)
        return fail_at(p, b, "a run cannot be a product");
    if (!it->merged && it->dim < 0 && it->n > 0 && (it->n > 1 || t->sign < 0 || t->coef >= 0 || t->num != 1))
        return fail_at(p, b, "an index that is not one factor needs a name for its size (h:...)");
    return true;
}
static bool item(parser *p, axis_item *it)
{
    const char *b = p->s;
    *it = (axis_item){ .dim = -1, .at = -1, .when = -1, .look = -1, .first = p->t.nterm };
    it->run = take(p, "..");
    const char *colon = p->s;
    while (is_word(*colon))
        colon++;
    if (*colon == ':' && colon > p->s) {
        if ((it->dim = (int8_t)name(p)) < 0)
            return false;
        if (it->dim < p->t.nattr)
            return fail_at(p, b, "this name is an attribute");
        p->s++;
    }
    if (take(p, "(")) {
        if (!merged(p, it))
            return false;
    } else if (it->run && it->dim < 0 && !is_word(*p->s)) {
        p->t.term[p->t.nterm++] = (axis_term){ .name = (int8_t)intern(p, "", 0), .coef = -1, .sign = 1, .num = 1 };
        it->n = 1;
    } else if (*p->s == '1' && !it->run && it->dim < 0 && !is_word(p->s[1])) {
        p->s++;
    } else if (!index_expr(p, it))
        return false;
    it->marks = marks(p);
    if (take(p, "<") && ((it->look = (int8_t)name(p)) < 0 || !take(p, ">")))
        return fail(p, "<operand> was expected");
    if (take(p, "@") && !attribute(p, &it->at))
        return false;
    if (take(p, "&") && !attribute(p, &it->when))
        return false;
    if (*p->s && *p->s != ']' && !isspace((unsigned char)*p->s))
        return fail(p, "not understood");
    return check_item(p, it, b);
}

static bool code(parser *p, axis_rule *r, char op, int32_t arg)
{
    if (p->t.ncode == AXIS_CODES)
        return fail(p, "the size rules are too long");
    p->t.code[p->t.ncode++] = (axis_code){ op, arg };
    r->n++;
    return true;
}
static bool size_expr(parser *p, axis_rule *r, int level, int depth);
static bool size_atom(parser *p, axis_rule *r, int depth)
{
    int32_t v;
    if (depth > 8)
        return fail(p, "nested too deep");
    if (take(p, "min(")) {
        if (!size_expr(p, r, 0, depth + 1) || !take(p, ",") || !size_expr(p, r, 0, depth + 1) || !take(p, ")"))
            return fail(p, "min(a,b) was expected");
        return code(p, r, 'm', 0);
    }
    if (take(p, "("))
        return size_expr(p, r, 0, depth + 1) && (take(p, ")") || fail(p, ") was expected"));
    if (isdigit((unsigned char)*p->s))
        return number(p, &v) && code(p, r, 'n', v);
    return (v = name(p)) >= 0 && code(p, r, 'v', v);
}
static bool size_expr(parser *p, axis_rule *r, int level, int depth) /* level 0: + -, 1: * /, 2: atom */
{
    if (level == 2)
        return size_atom(p, r, depth);
    space(p);
    if (!size_expr(p, r, level + 1, depth))
        return false;
    space(p);
    for (char op; (op = *p->s) && strchr(level ? "*/" : "+-", op);) {
        p->s++;
        space(p);
        if (!size_expr(p, r, level + 1, depth) || !code(p, r, op, 0))
            return false;
        space(p);
    }
    return true;
}

static bool operand(parser *p)
{
    axis_tmpl *t = &p->t;
    const char *b = p->s;
    if (t->nslot == WFI_AXIS_OPERANDS)
        return fail(p, "more than 8 operands and results");
    axis_operand *o = &t->op[t->nslot];
    *o = (axis_operand){ .name = (int8_t)name(p), .first = t->nitem };
    if (o->name < 0)
        return false;
    for (int i = 0; i < t->nslot; i++)
        if (t->op[i].name == o->name)
            return fail_at(p, b, "this operand stands here twice");
    t->nslot++;
    o->many = take(p, "*");
    for (int i = 0; o->many && i < t->nslot - 1; i++)
        if (t->op[i].many)
            return fail_at(p, b, "only one operand can be variadic");
    if (!take(p, "["))
        return fail(p, "[ was expected");
    for (space(p); !take(p, "]"); space(p)) {
        if (!*p->s || *p->s == ';' || (*p->s == '-' && p->s[1] == '>'))
            return fail(p, "] was expected");
        if (t->nitem == AXIS_ITEMS || o->n == WF_RANK_MAX + 1)
            return fail(p, "too many dimensions");
        o->n++;
        if (!item(p, &t->item[t->nitem++]))
            return false;
    }
    return true;
}
static bool operands(parser *p)
{
    bool arrow = false;
    for (space(p); *p->s && *p->s != ';'; space(p)) {
        if (take(p, "->")) {
            if (arrow)
                return fail(p, "a second ->");
            arrow = true;
            p->t.nin = p->t.nslot;
        } else if (!operand(p))
            return false;
    }
    if (!arrow || p->t.nin == p->t.nslot)
        return fail(p, "-> and a result were expected");
    for (int o = p->t.nin; o < p->t.nslot; o++)
        if (p->t.op[o].many)
            return fail(p, "a result cannot be variadic");
    return true;
}
static bool rules(parser *p)
{
    while (*p->s == ';' || *p->s == ',') {
        p->s++;
        space(p);
        const char *b = p->s;
        if (p->t.nrule == AXIS_RULES)
            return fail(p, "more than 8 size rules");
        axis_rule *r = &p->t.rule[p->t.nrule];
        *r = (axis_rule){ .name = (int8_t)name(p), .first = p->t.ncode };
        if (r->name < 0)
            return false;
        if (r->name < p->t.nattr)
            return fail_at(p, b, "this name is an attribute");
        if (!take(p, "="))
            return fail(p, "name=size was expected");
        if (!size_expr(p, r, 0, 0))
            return false;
        p->t.nrule++;
        space(p);
    }
    return *p->s == 0 || fail(p, "not understood");
}
/* Every name that is used must be something: a factor, a dimension, an attribute; <i> an operand that is an input. */
static bool check_names(parser *p)
{
    axis_tmpl *t = &p->t;
    uint32_t known = 0;
    p->s = p->at;
    for (int i = 0; i < t->nattr; i++)
        known |= 1u << i;
    for (int i = 0; i < t->nitem; i++) {
        if (t->item[i].dim >= 0)
            known |= 1u << t->item[i].dim;
        for (int j = 0; j < t->item[i].n; j++)
            if (t->term[t->item[i].first + j].name >= 0)
                known |= 1u << t->term[t->item[i].first + j].name;
    }
    for (int i = 0; i < t->nslot; i++)
        for (int k = 0; t->op[i].many && k < t->nname; k++)
            if (strcmp(t->name[k], "count") == 0)
                known |= 1u << k;
    for (int r = 0; r < t->nrule; r++)
        if (!(known >> t->rule[r].name & 1))
            return fail(p, "a size rule names no axis of the map");
    for (int c = 0; c < t->ncode; c++)
        if (t->code[c].op == 'v' && !(known >> t->code[c].arg & 1))
            return fail(p, "a size rule uses a name that is neither axis nor attribute");
    for (int i = 0; i < t->nterm; i++)
        if (t->term[i].coef >= 0 && !(known >> t->term[i].coef & 1))
            return fail(p, "an index uses a coefficient that is neither axis nor attribute");
    for (int i = 0; i < t->nitem; i++) {
        bool found = t->item[i].look < 0;
        for (int o = 0; o < t->nin; o++)
            found |= t->op[o].name == t->item[i].look;
        if (!found)
            return fail(p, "<> names no operand");
    }
    return true;
}

/* ---- packed form ---- */

typedef struct writer {
    wfi_axis_map *m;
    bool full;
} writer;
static void put(writer *w, int v)
{
    if (w->m->bytes == WFI_AXIS_BYTES)
        w->full = true;
    else
        w->m->b[w->m->bytes++] = (uint8_t)v;
}
static void put_number(writer *w, int32_t v) /* zero or more bytes of 7 bits, low first */
{
    uint32_t u = (uint32_t)v;
    for (; u >= 128; u >>= 7)
        put(w, (int)(u & 127) | 128);
    put(w, (int)u);
}
static bool pack(parser *p, wfi_axis_map *m)
{
    writer w = { m, false };
    const axis_tmpl *t = &p->t;
    m->bytes = 0;
    put(&w, t->nattr), put(&w, t->nname), put(&w, t->nslot), put(&w, t->nin), put(&w, t->nrule);
    for (int i = 0; i < t->nname; i++)
        for (const char *s = t->name[i];; s++) {
            put(&w, *s);
            if (!*s)
                break;
        }
    for (int o = 0; o < t->nslot; o++) {
        put(&w, t->op[o].name), put(&w, t->op[o].many), put(&w, t->op[o].n);
        for (int i = 0; i < t->op[o].n; i++) {
            const axis_item *it = &t->item[t->op[o].first + i];
            put(&w, it->run | it->merged << 1), put(&w, it->marks), put(&w, it->dim), put(&w, it->at);
            put(&w, it->when), put(&w, it->look), put(&w, it->n);
            for (int j = 0; j < it->n; j++) {
                const axis_term *e = &t->term[it->first + j];
                put(&w, e->name), put(&w, e->coef), put(&w, (e->sign < 0) | e->marks << 1), put_number(&w, e->num);
            }
        }
    }
    for (int r = 0; r < t->nrule; r++) {
        put(&w, t->rule[r].name), put(&w, t->rule[r].n);
        for (int c = 0; c < t->rule[r].n; c++) {
            const axis_code *k = &t->code[t->rule[r].first + c];
            put(&w, k->op), put_number(&w, k->arg);
        }
    }
    return !w.full || fail(p, "the map is too long");
}

static int32_t get_number(const uint8_t **b)
{
    uint32_t u = 0;
    for (int shift = 0;; shift += 7) {
        uint8_t v = *(*b)++;
        u |= (uint32_t)(v & 127) << shift;
        if (v < 128 || shift > 21)
            return (int32_t)u;
    }
}
static void unpack_item(const uint8_t **pb, axis_tmpl *t)
{
    const uint8_t *b = *pb;
    axis_item *it = &t->item[t->nitem++];
    *it = (axis_item){ .run = b[0] & 1,
                       .merged = b[0] >> 1 & 1,
                       .marks = b[1],
                       .dim = (int8_t)b[2],
                       .at = (int8_t)b[3],
                       .when = (int8_t)b[4],
                       .look = (int8_t)b[5],
                       .n = b[6],
                       .first = t->nterm };
    b += 7;
    for (int j = 0; j < it->n; j++) {
        axis_term *e = &t->term[t->nterm++];
        *e = (axis_term){
            .name = (int8_t)b[0], .coef = (int8_t)b[1], .sign = b[2] & 1 ? -1 : 1, .marks = (uint8_t)(b[2] >> 1)
        };
        b += 3;
        e->num = get_number(&b);
    }
    *pb = b;
}
void wfi_axis_tmpl_unpack(const uint8_t *b, axis_tmpl *t)
{
    t->nattr = b[0], t->nname = b[1], t->nslot = b[2], t->nin = b[3], t->nrule = b[4];
    t->nitem = t->nterm = t->ncode = 0;
    b += 5;
    for (int i = 0; i < t->nname; i++) {
        t->name[i] = (const char *)b;
        b += strlen((const char *)b) + 1;
    }
    for (int o = 0; o < t->nslot; o++) {
        t->op[o] = (axis_operand){ .name = (int8_t)b[0], .many = b[1], .n = b[2], .first = t->nitem };
        b += 3;
        for (int i = 0; i < t->op[o].n; i++)
            unpack_item(&b, t);
    }
    for (int r = 0; r < t->nrule; r++) {
        t->rule[r] = (axis_rule){ .name = (int8_t)b[0], .n = b[1], .first = t->ncode };
        b += 2;
        for (int c = 0; c < t->rule[r].n; c++) {
            axis_code *k = &t->code[t->ncode++];
            k->op = (char)*b++;
            k->arg = get_number(&b);
        }
    }
}

bool wfi_axis_parse(const char *text, const char *attrs, wfi_axis_map *m, char *err, size_t err_bytes)
{
    parser p = { .at = attrs, .s = attrs, .err = err, .err_bytes = err_bytes };
    if (err_bytes)
        *err = 0;
    for (space(&p); *p.s; space(&p))
        if (name(&p) < 0)
            return false;
    if (p.t.nname > WFI_AXIS_ATTRS)
        return fail(&p, "more than 16 attributes");
    p.t.nattr = p.t.nname;
    p.at = p.s = text;
    return operands(&p) && rules(&p) && check_names(&p) && pack(&p, m);
}

/* ---- names, straight from the packed form ---- */

static const char *name_at(const uint8_t *b, int id)
{
    const char *s = (const char *)b + 5;
    while (id-- > 0)
        s += strlen(s) + 1;
    return s;
}
static const uint8_t *operand_at(const uint8_t *b, int slot)
{
    const uint8_t *o = (const uint8_t *)name_at(b, b[1]);
    for (; slot > 0; slot--) {
        int n = o[2];
        o += 3;
        for (int i = 0; i < n; i++) {
            int terms = o[6];
            o += 7;
            for (int j = 0; j < terms; j++) {
                o += 3;
                (void)get_number(&o);
            }
        }
    }
    return o;
}
const char *wfi_axis_operand_name(const uint8_t *map, int slot)
{
    return name_at(map, operand_at(map, slot)[0]);
}
int wfi_axis_operand_find(const uint8_t *map, const char *s)
{
    for (int o = 0; o < map[2]; o++)
        if (strcmp(wfi_axis_operand_name(map, o), s) == 0)
            return o;
    return -1;
}
int wfi_axis_inputs(const uint8_t *map)
{
    return map[3];
}
int wfi_axis_results(const uint8_t *map)
{
    return map[2] - map[3];
}
bool wfi_axis_many(const uint8_t *map, int slot)
{
    return operand_at(map, slot)[1];
}
bool wfi_axis_leading_run(const uint8_t *map, int slot)
{
    const uint8_t *o = operand_at(map, slot);
    return o[2] > 0 && o[3] & 1 && (int8_t)o[6] < 0; /* a run that no attribute places */
}
bool wfi_axis_mentions(const uint8_t *map, const char *s)
{
    axis_tmpl t;
    int id = -1;
    wfi_axis_tmpl_unpack(map, &t);
    for (int i = 0; i < t.nname; i++)
        if (strcmp(t.name[i], s) == 0)
            id = i;
    bool hit = false;
    for (int i = 0; i < t.nitem; i++)
        hit |= t.item[i].dim == id || t.item[i].at == id || t.item[i].when == id;
    for (int i = 0; i < t.nterm; i++)
        hit |= t.term[i].name == id || t.term[i].coef == id;
    for (int i = 0; i < t.ncode; i++)
        hit |= t.code[i].op == 'v' && t.code[i].arg == id;
    return id >= 0 && hit;
}
const char *wfi_axis_factor_name(const wfi_axis_inst *x, int f, char *text, size_t bytes)
{
    const char *s = name_at(wfi_axis_map_of(x), x->f[f].name);
    if (x->f[f].k < 0)
        snprintf(text, bytes, "%s", s);
    else if (*s)
        snprintf(text, bytes, "%s%d", s, x->f[f].k);
    else { /* a broadcast run is counted from its right end */
        int last = 0;
        for (int i = 0; i < x->nf; i++)
            if (x->f[i].name == x->f[f].name && x->f[i].k > last)
                last = x->f[i].k;
        snprintf(text, bytes, "..%d", x->f[f].k - last - 1);
    }
    return text;
}
