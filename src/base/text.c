#include "base/text.h"
#include <stdio.h>
#include <string.h>
#include "base/ck.h"

#define TEXT_MAX ((size_t)1 << 30)

/* Makes room for n more characters and the NUL. */
static bool room(wfi_text *t, size_t n)
{
    size_t max = t->max ? t->max : TEXT_MAX;
    if (t->oom || n > max || t->n > max - n || !wfi_mem_grow(t->mem, &t->p, &t->cap, t->n + n + 1, 1))
        t->oom = true;
    return !t->oom;
}

void wfi_text_addn(wfi_text *t, const char *s, size_t n)
{
    if (!room(t, n))
        return;
    if (n)
        memcpy(t->p + t->n, s, n);
    t->n += n;
    t->p[t->n] = 0;
}

void wfi_text_add(wfi_text *t, const char *s)
{
    wfi_text_addn(t, s, strlen(s));
}

void wfi_text_addc(wfi_text *t, char c)
{
    wfi_text_addn(t, &c, 1);
}

void wfi_text_fill(wfi_text *t, char c, size_t n)
{
    if (!room(t, n))
        return;
    memset(t->p + t->n, c, n);
    t->n += n;
    t->p[t->n] = 0;
}

void wfi_text_addv(wfi_text *t, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    /* Most additions fit into what is there: printed once. */
    size_t have = t->oom ? 0 : t->cap - t->n;
    int n = vsnprintf(have ? t->p + t->n : NULL, have, fmt, args);
    bool fits = n >= 0 && (size_t)n < have && (!t->max || t->n + (size_t)n <= t->max);
    if (n < 0) {
        t->oom = true;
    } else if (!fits && room(t, (size_t)n)) {
        (void)vsnprintf(t->p + t->n, (size_t)n + 1, fmt, again);
        fits = true;
    }
    va_end(again);
    if (fits)
        t->n += (size_t)n;
    else if (t->p)
        t->p[t->n] = 0;
}

void wfi_text_addf(wfi_text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    wfi_text_addv(t, fmt, args);
    va_end(args);
}

void wfi_text_f64(wfi_text *t, double v)
{
    char out[WFI_STR_NUMBER];
    wfi_text_addn(t, out, wfi_str_f64(out, v));
}

void wfi_text_f32(wfi_text *t, float v)
{
    char out[WFI_STR_NUMBER];
    wfi_text_addn(t, out, wfi_str_f32(out, v));
}

void wfi_text_quote(wfi_text *t, const char *s)
{
    wfi_text_addc(t, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            wfi_text_addf(t, "\\%c", c);
        else if (c == '\n')
            wfi_text_add(t, "\\n");
        else if (c == '\t')
            wfi_text_add(t, "\\t");
        else if (c < 32 || c == 127)
            wfi_text_addf(t, "\\x%02x", c);
        else
            wfi_text_addc(t, *s);
    }
    wfi_text_addc(t, '"');
}

void wfi_text_json(wfi_text *t, const char *s)
{
    if (!s) {
        wfi_text_add(t, "null");
        return;
    }
    wfi_text_addc(t, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            wfi_text_addf(t, "\\%c", c);
        else if (c < 32 || c == 127)
            wfi_text_addf(t, "\\u%04x", c);
        else
            wfi_text_addc(t, *s);
    }
    wfi_text_addc(t, '"');
}

void wfi_text_fixed(wfi_text *t, double v, int decimals)
{
    int64_t scale = 1;
    for (int i = 0; i < decimals; i++)
        scale *= 10;
    double scaled = v < 0 ? 0.5 - v * (double)scale : v * (double)scale + 0.5;
    int64_t n = scaled < 9e18 ? (int64_t)scaled : 0; /* NaN is 0, too */
    wfi_text_addf(t, "%s%lld", v < 0 && n ? "-" : "", (long long)(n / scale));
    if (decimals)
        wfi_text_addf(t, ".%0*lld", decimals, (long long)(n % scale));
}

const char *wfi_text_str(const wfi_text *t)
{
    return t->p ? t->p : "";
}

void wfi_text_cut(wfi_text *t, size_t n)
{
    if (n < t->n) {
        t->n = n;
        t->p[n] = 0;
    }
}

void wfi_text_free(wfi_text *t)
{
    wfi_mem_free(t->mem, t->p);
    t->p = NULL;
    t->n = t->cap = 0;
    t->oom = false;
}

/* The end of a text that was cut: "..." or as many dots as there is room for. */
static void dots(char *dst, size_t cap)
{
    size_t n = cap - 1, k = n < 3 ? n : 3;
    memset(dst + n - k, '.', k);
    dst[n] = 0;
}

bool wfi_str_copy(char *dst, size_t cap, const char *src)
{
    src = src ? src : "";
    size_t n = strlen(src), k = n < cap ? n : cap - 1;
    memcpy(dst, src, k);
    dst[k] = 0;
    if (n >= cap)
        dots(dst, cap);
    return n < cap;
}

bool wfi_str_print(char *dst, size_t cap, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(dst, cap, fmt, args);
    va_end(args);
    if (n < 0)
        dst[0] = 0;
    else if ((size_t)n >= cap)
        dots(dst, cap);
    return n >= 0 && (size_t)n < cap;
}

bool wfi_str_eq(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool wfi_str_starts(const char *s, const char *prefix)
{
    return strncmp(s, prefix, strlen(prefix)) == 0;
}
