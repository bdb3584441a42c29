/* sym.c - sizes that are not known yet: an interned table of expressions with ranges. */
#include "graph/sym.h"
#include "weft/types.h"
#include "base/ck.h"
#include <stdio.h>
#include <string.h>

static bool number_op(char op, int64_t a, int64_t b, int64_t *r)
{
    int64_t t;
    switch (op) {
    case '+': return wfi_ck_add64(a, b, r);
    case '-': return !__builtin_sub_overflow(a, b, &t) && !wfi_sym_is(t) && (*r = t, true);
    case '*': return wfi_ck_mul64(a, b, r) && !wfi_sym_is(*r);
    case 'm': return *r = a < b ? a : b, true;
    case '/':
        if (b == 0)
            return false;
        t = a / b - (a % b != 0 && (a < 0) != (b < 0)); /* floor */
        return *r = t, true;
    default: return false;
    }
}

static int64_t encode(int32_t i)
{
    return WFI_SYM_BASE + 1 + i;
}
static const wfi_sym *look(const wfi_syms *t, int64_t size)
{
    if (!t || !wfi_sym_is(size) || size == WFI_SYM_BASE)
        return NULL;
    int64_t i = size - WFI_SYM_BASE - 1;
    return i < t->n ? &t->s[i] : NULL;
}

int64_t wfi_sym_lo(const wfi_syms *t, int64_t size)
{
    const wfi_sym *s = look(t, size);
    return s ? s->lo : wfi_sym_is(size) ? 0 : size;
}
int64_t wfi_sym_hi(const wfi_syms *t, int64_t size)
{
    const wfi_sym *s = look(t, size);
    return s ? s->hi : wfi_sym_is(size) ? WFI_DIM_MAX : size;
}

bool wfi_sym_new(wfi_syms *t, const char *name, int64_t lo, int64_t hi, int64_t *size)
{
    if (!t || lo > hi || lo < 0 || hi > WFI_DIM_MAX || !*name || strlen(name) >= sizeof t->s[0].name)
        return false;
    for (int32_t i = 0; i < t->n; i++)
        if (t->s[i].op == 0 && strcmp(t->s[i].name, name) == 0)
            return t->s[i].lo == lo && t->s[i].hi == hi && (*size = encode(i), true);
    if (t->n == WFI_SYM_MAX)
        return false;
    wfi_sym *s = &t->s[t->n];
    *s = (wfi_sym){ .lo = lo, .hi = hi };
    memcpy(s->name, name, strlen(name) + 1);
    *size = encode(t->n++);
    return true;
}

/* The range of a op b from the corners: every one of the operations is monotone in each operand where the other is
 * fixed (division by a range that holds 0 is refused). */
static bool range(const wfi_syms *t, wfi_sym *s)
{
    const int64_t a[2] = { wfi_sym_lo(t, s->a), wfi_sym_hi(t, s->a) };
    const int64_t b[2] = { wfi_sym_lo(t, s->b), wfi_sym_hi(t, s->b) };
    if (s->op == '/' && b[0] <= 0 && b[1] >= 0)
        return false;
    for (int i = 0; i < 4; i++) {
        int64_t v;
        if (!number_op(s->op, a[i >> 1], b[i & 1], &v))
            return false;
        if (i == 0 || v < s->lo)
            s->lo = v;
        if (i == 0 || v > s->hi)
            s->hi = v;
    }
    return true;
}

/* What needs no new symbol: neutral elements, (n*k)/k, (n+k)-k, equal operands. */
static bool simple(const wfi_syms *t, char op, int64_t a, int64_t b, int64_t *r)
{
    const wfi_sym *s = look(t, a);
    if ((b == 0 && (op == '+' || op == '-')) || (b == 1 && (op == '*' || op == '/')) || (op == 'm' && a == b))
        return *r = a, true;
    if (op == '*' && b == 0)
        return *r = 0, true;
    if (op == '-' && a == b)
        return *r = 0, true;
    if (op == '/' && a == b && wfi_sym_lo(t, a) > 0)
        return *r = 1, true;
    if (op == '/' && s && s->op == '*' && wfi_sym_lo(t, b) > 0 && (s->a == b || s->b == b))
        return *r = s->a == b ? s->b : s->a, true;
    if (op == '-' && s && s->op == '+' && (s->a == b || s->b == b))
        return *r = s->a == b ? s->b : s->a, true;
    if (op == '+' && s && s->op == '-' && s->b == b)
        return *r = s->a, true;
    if (op == 'm' && wfi_sym_hi(t, a) <= wfi_sym_lo(t, b))
        return *r = a, true;
    if (op == 'm' && wfi_sym_hi(t, b) <= wfi_sym_lo(t, a))
        return *r = b, true;
    return false;
}

bool wfi_sym_op(wfi_syms *t, char op, int64_t a, int64_t b, int64_t *r)
{
    if (!wfi_sym_is(a) && !wfi_sym_is(b))
        return number_op(op, a, b, r);
    if (!t)
        return false;
    bool swap = (op == '+' || op == '*' || op == 'm') && (wfi_sym_is(a) == wfi_sym_is(b) ? a > b : wfi_sym_is(b));
    if (swap) { /* commutative: symbols first, then by number, so that n+1 and 1+n are one */
        int64_t c = a;
        a = b;
        b = c;
    }
    const wfi_sym *s = look(t, a);
    int64_t c;
    if ((op == '+' || op == '-') && s && (s->op == '+' || s->op == '-') && !wfi_sym_is(s->b) && !wfi_sym_is(b)) {
        if (!number_op(s->op == op ? '+' : '-', s->b, b, &c)) /* (n+2)-1 -> n+1 */
            return false;
        return c >= 0 ? wfi_sym_op(t, s->op, s->a, c, r) : wfi_sym_op(t, s->op == '+' ? '-' : '+', s->a, -c, r);
    }
    if (simple(t, op, a, b, r))
        return true;
    wfi_sym n = { .op = op, .a = a, .b = b };
    for (int32_t i = 0; i < t->n; i++)
        if (t->s[i].op == op && t->s[i].a == a && t->s[i].b == b)
            return *r = encode(i), true;
    if (t->n == WFI_SYM_MAX || !range(t, &n))
        return false;
    if (n.lo == n.hi)
        return *r = n.lo, true;
    t->s[t->n] = n;
    *r = encode(t->n++);
    return true;
}

bool wfi_sym_value(const wfi_syms *t, const int64_t *value, int64_t size, int64_t *r)
{
    if (!wfi_sym_is(size))
        return *r = size, true;
    int64_t v[WFI_SYM_MAX];
    if (!look(t, size))
        return false;
    int64_t last = size - WFI_SYM_BASE - 1;
    for (int32_t i = 0; i <= last; i++) { /* a symbol's operands come before it */
        const wfi_sym *s = &t->s[i];
        if (s->op == 0)
            v[i] = value[i];
        else {
            int64_t a = wfi_sym_is(s->a) ? v[s->a - WFI_SYM_BASE - 1] : s->a;
            int64_t b = wfi_sym_is(s->b) ? v[s->b - WFI_SYM_BASE - 1] : s->b;
            if (!number_op(s->op, a, b, &v[i]))
                return false;
        }
        if (i == last && (v[i] < s->lo || v[i] > s->hi))
            return false;
    }
    *r = v[last];
    return true;
}

static size_t put(const wfi_syms *t, int64_t size, char *o, size_t cap, bool inner)
{
    const wfi_sym *s = look(t, size);
    size_t n = 0;
    char op[2] = { s && s->op ? s->op : '?', 0 };
    if (cap < 8) /* no room for anything that makes sense: end here */
        return (size_t)snprintf(o, cap, "~");
    if (!s)
        return (size_t)snprintf(o, cap, wfi_sym_is(size) ? "?" : "%lld", (long long)size);
    if (!s->op)
        return (size_t)snprintf(o, cap, "%s", s->name);
    n += (size_t)snprintf(o, cap, "%s", s->op == 'm' ? "min(" : inner ? "(" : "");
    n += put(t, s->a, o + n, cap - n, true);
    if (n + 8 < cap) {
        n += (size_t)snprintf(o + n, cap - n, "%s", s->op == 'm' ? "," : op);
        n += put(t, s->b, o + n, cap - n, true);
        if (n + 2 < cap && (s->op == 'm' || inner))
            n += (size_t)snprintf(o + n, cap - n, ")");
    }
    return n < cap ? n : cap - 1;
}
const char *wfi_sym_text(const wfi_syms *t, int64_t size, char *text, size_t bytes)
{
    if (bytes)
        put(t, size, text, bytes, false);
    return text;
}
