/* Numbers as text. The C library converts exactly but with the locale's decimal point: it is given the C locale where
 * it reads, and its digits are picked out where it prints. */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/text.h"

#define DIGITS_MAX 800 /* a longer text is not taken for a number */

bool wfi_str_uint64(const char *s, size_t n, uint64_t *v)
{
    uint64_t u = 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9' || __builtin_mul_overflow(u, (uint64_t)10, &u) ||
            __builtin_add_overflow(u, (uint64_t)(s[i] - '0'), &u))
            return false;
    }
    if (n)
        *v = u;
    return n > 0;
}

bool wfi_str_int64(const char *s, size_t n, int64_t *v)
{
    bool sign = n && (*s == '-' || *s == '+'), minus = n && *s == '-';
    uint64_t u;
    if (!wfi_str_uint64(s + sign, n - sign, &u) || u > (uint64_t)INT64_MAX + minus)
        return false;
    *v = minus ? (int64_t)(0 - u) : (int64_t)u;
    return true;
}

static size_t skip_digits(const char *s, size_t i, size_t n)
{
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

/* [+-] digits [. digits] [e [+-] digits], with a digit before or after the point. */
static bool is_decimal(const char *s, size_t n)
{
    size_t i = n && (*s == '-' || *s == '+'), from = i;
    i = skip_digits(s, i, n);
    size_t digits = i - from;
    if (i < n && s[i] == '.') {
        from = i + 1;
        i = skip_digits(s, from, n);
        digits += i - from;
    }
    if (!digits)
        return false;
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        i += i < n && (s[i] == '-' || s[i] == '+');
        from = i;
        i = skip_digits(s, i, n);
        if (i == from)
            return false;
    }
    return i == n;
}

static bool is_word(const char *s, size_t n, const char *word)
{
    size_t sign = n && (*s == '-' || *s == '+');
    return n - sign == strlen(word) && strncasecmp(s + sign, word, n - sign) == 0;
}

/* The locale "C": in glibc and musl a constant that costs nothing and is never freed. */
static locale_t c_locale(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

bool wfi_str_double(const char *s, size_t n, double *v)
{
    char copy[DIGITS_MAX + 1];
    bool inf = is_word(s, n, "inf") || is_word(s, n, "infinity"), nan = is_word(s, n, "nan");
    if (n > DIGITS_MAX || !(inf || nan || is_decimal(s, n)))
        return false;
    if (inf || nan) {
        double d = inf ? (double)INFINITY : (double)NAN;
        *v = *s == '-' ? -d : d;
        return true;
    }
    memcpy(copy, s, n);
    copy[n] = 0;
    locale_t c = c_locale();
    if (!c)
        return false;
    double d = strtod_l(copy, NULL, c);
    if (isinf(d))
        return false;
    *v = d;
    return true;
}

/* A finite number's decimal form: digits d of d.ddd times ten to the power e10. */
typedef struct decimal {
    char d[20];
    int n;
    int e10;
} decimal;

/* The n significant digits of |v|, without zeros at the end. */
static void digits_of(decimal *x, double v, int n)
{
    char text[48];
    (void)snprintf(text, sizeof text, "%.*e", n - 1, fabs(v));
    const char *s = text;
    for (x->n = 0; *s && *s != 'e'; s++) { /* whatever the decimal point is, it is no digit */
        if (*s >= '0' && *s <= '9' && x->n < n)
            x->d[x->n++] = *s;
    }
    x->e10 = 0;
    for (const char *p = s + 2; s[0] && s[1] && *p >= '0' && *p <= '9'; p++)
        x->e10 = x->e10 * 10 + (*p - '0');
    if (s[0] && s[1] == '-')
        x->e10 = -x->e10;
    while (x->n > 1 && x->d[x->n - 1] == '0')
        x->n--;
}

/* Prints a few characters; returns how many. */
static size_t WFI_PRINTF(2, 3) put(char *out, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(out, 8, fmt, args);
    va_end(args);
    return n < 0 ? 0 : (size_t)n;
}

/* Integers and common fractions plainly, the rest with an exponent. */
static size_t layout(char *out, const decimal *x, bool minus)
{
    char *p = out;
    if (minus)
        *p++ = '-';
    if (x->e10 >= -4 && x->e10 < 17) {
        for (int k = x->e10 < 0 ? x->e10 : 0; k < x->n || k <= x->e10; k++) {
            *p++ = k >= 0 && k < x->n ? x->d[k] : '0';
            if (k == x->e10 && k + 1 < x->n)
                *p++ = '.';
        }
        *p = 0;
        return (size_t)(p - out);
    }
    *p++ = x->d[0];
    if (x->n > 1) {
        *p++ = '.';
        memcpy(p, x->d + 1, (size_t)x->n - 1);
        p += x->n - 1;
    }
    return (size_t)(p - out) + put(p, "e%d", x->e10);
}

static bool reads_back(const decimal *x, double v, bool single, locale_t c)
{
    char text[48];
    int n = snprintf(text, sizeof text, "%.*se%d", x->n, x->d, x->e10 - (x->n - 1));
    if (n < 0)
        return true;
    return single ? strtof_l(text, NULL, c) == (float)fabs(v) : strtod_l(text, NULL, c) == fabs(v);
}

/* Up to `sure` digits every decimal survives the way through the type, so fewer need no trial; a subnormal has less
 * precision, and all are tried. */
static size_t shortest(char *out, double v, bool single)
{
    if (isnan(v))
        return put(out, "nan");
    if (isinf(v))
        return put(out, v < 0 ? "-inf" : "inf");
    int sure = single ? 6 : 15, last = single ? 9 : 17;
    bool subnormal = fabs(v) < (single ? 0x1p-126 : 0x1p-1022);
    locale_t c = c_locale();
    decimal x;
    for (int n = subnormal ? 1 : sure;; n++) {
        digits_of(&x, v, n);
        if (n >= last || !c || reads_back(&x, v, single, c))
            return layout(out, &x, signbit(v) != 0);
    }
}

size_t wfi_str_f64(char out[WFI_STR_NUMBER], double v)
{
    return shortest(out, v, false);
}

size_t wfi_str_f32(char out[WFI_STR_NUMBER], float v)
{
    return shortest(out, (double)v, true);
}
