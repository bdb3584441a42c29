/* text.h - text that grows, bounded strings, and numbers as text, whatever the locale.
 *
 *     wfi_text t = { .mem = m };
 *     wfi_text_addf(&t, "%s: axis %d is ", name, axis);
 *     wfi_text_f64(&t, 0.1);
 *     if (t.oom) ...
 *     wfi_text_free(&t);
 */
#ifndef WFI_BASE_TEXT_H
#define WFI_BASE_TEXT_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/mem.h"

#define WFI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* A growing text. When memory or max runs out, oom is set, the text keeps what was whole before, and later additions
 * do nothing: so a writer checks once, at the end. */
typedef struct wfi_text {
    wfi_mem *mem;
    char *p;    /* n characters and a NUL; NULL as long as nothing was added */
    size_t n;   /* without the NUL */
    size_t cap; /* bytes of p */
    size_t max; /* largest n; 0: 1 GiB */
    bool oom;
} wfi_text;

void wfi_text_add(wfi_text *t, const char *s);
void wfi_text_addn(wfi_text *t, const char *s, size_t n);
void wfi_text_addc(wfi_text *t, char c);
void wfi_text_fill(wfi_text *t, char c, size_t n); /* c, n times */
void wfi_text_addf(wfi_text *t, const char *fmt, ...) WFI_PRINTF(2, 3);
void wfi_text_addv(wfi_text *t, const char *fmt, va_list args) WFI_PRINTF(2, 0);
/* The shortest text that reads back as the same number: 0.1, 1e-7, 3, -0, inf, nan. For f64 %g would depend on the
 * locale and lose digits. */
void wfi_text_f64(wfi_text *t, double v);
void wfi_text_f32(wfi_text *t, float v);
/* s between quotation marks, with \" \\ \n \t and \xNN for other control characters. */
void wfi_text_quote(wfi_text *t, const char *s);
void wfi_text_json(wfi_text *t, const char *s); /* s, UTF-8, as a string of JSON; NULL: null */
/* v with so many decimals (0 .. 6), "1.50"; |v| < 1e12. */
void wfi_text_fixed(wfi_text *t, double v, int decimals);
const char *wfi_text_str(const wfi_text *t); /* never NULL; borrowed until the next addition */
void wfi_text_cut(wfi_text *t, size_t n);    /* shortens to n characters */
void wfi_text_free(wfi_text *t);             /* may be used again afterwards */

/* Copies src into dst[cap], cap >= 1; what does not fit is cut and ends in "...". False if it was cut. NULL is "". */
bool wfi_str_copy(char *dst, size_t cap, const char *src);
/* Prints into dst[cap] in the same way. */
bool wfi_str_print(char *dst, size_t cap, const char *fmt, ...) WFI_PRINTF(3, 4);
/* Equal; two NULLs are, too. */
bool wfi_str_eq(const char *a, const char *b);
bool wfi_str_starts(const char *s, const char *prefix);

/* The whole of s[n] as a number; false, with *v untouched, if it is not one or does not fit. No blanks, no hex. A
 * double may be inf or nan in any case, is rounded correctly, and overflows to inf as an error. */
bool wfi_str_int64(const char *s, size_t n, int64_t *v);
bool wfi_str_uint64(const char *s, size_t n, uint64_t *v);
bool wfi_str_double(const char *s, size_t n, double *v);

#define WFI_STR_NUMBER 32 /* bytes that the next two need */
/* The shortest text that reads back as v; returns its length. */
size_t wfi_str_f64(char out[WFI_STR_NUMBER], double v);
size_t wfi_str_f32(char out[WFI_STR_NUMBER], float v);

#endif
