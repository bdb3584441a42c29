/* buffer.c - buffers, files, errors. */
#include "gen.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int errors;

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "weft_gen: out of memory\n");
        exit(2);
    }
    return p;
}
static void room(buf *b, size_t more)
{
    if (b->n + more + 1 <= b->cap)
        return;
    b->cap = (b->n + more + 1) * 2;
    b->s = must(realloc(b->s, b->cap));
}
void put(buf *b, const char *format, ...)
{
    va_list v;
    room(b, 256);
    va_start(v, format);
    int n = vsnprintf(b->s + b->n, b->cap - b->n, format, v);
    va_end(v);
    if (n < 0)
        exit(2);
    room(b, (size_t)n);
    va_start(v, format);
    vsnprintf(b->s + b->n, (size_t)n + 1, format, v);
    va_end(v);
    b->n += (size_t)n;
}
void put_quoted(buf *b, const char *s)
{
    put(b, "\"");
    for (; *s; s++)
        if (*s == '"' || *s == '\\')
            put(b, "\\%c", *s);
        else if (*s == '\n')
            put(b, "\\n");
        else
            put(b, "%c", *s);
    put(b, "\"");
}
char *copy(const char *s, size_t n)
{
    char *r = must(malloc(n + 1));
    memcpy(r, s, n);
    r[n] = 0;
    return r;
}
char *slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    buf b = { 0 };
    if (!f)
        return NULL;
    for (size_t got = 1; got;) {
        room(&b, 65536);
        got = fread(b.s + b.n, 1, 65536, f);
        b.n += got;
    }
    b.s[b.n] = 0;
    fclose(f);
    return b.s;
}
bool write_if_changed(const char *dir, const char *name, const buf *b)
{
    char path[1024], temp[1040];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(temp, sizeof temp, "%s.new", path);
    char *old = slurp(path);
    bool same = old && strlen(old) == b->n && memcmp(old, b->s, b->n) == 0;
    free(old);
    if (same)
        return true;
    FILE *f = fopen(temp, "wb");
    bool good = f && fwrite(b->s, 1, b->n, f) == b->n;
    good = f && fclose(f) == 0 && good && rename(temp, path) == 0;
    if (!good)
        fprintf(stderr, "weft_gen: cannot write %s\n", path);
    return good;
}
void error(const char *file, int line, const char *name, const char *what, const char *cure)
{
    fprintf(stderr, "%s:%d: error: %s%s%s%s%s%s\n", file, line, *name ? "operator " : "", name, *name ? ": " : "", what,
            *cure ? "; " : "", cure);
    errors++;
}
