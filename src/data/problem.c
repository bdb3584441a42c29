/* problem.c - see problem.h. */
#include "data/problem.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/file.h"
#include "base/ck.h"

__attribute__((format(printf, 3, 0))) static void append(char *text, size_t cap, const char *format, va_list args)
{
    size_t used = strlen(text);
    if (vsnprintf(text + used, cap - used, format, args) < 0)
        text[used] = 0;
}

wf_status wfi_problem_set(wfi_problem *p, wf_status status, const char *format, ...)
{
    if (!p)
        return status;
    if (p->status)
        return p->status;
    p->status = status;
    p->text[0] = 0;
    va_list args;
    va_start(args, format);
    append(p->text, sizeof p->text, format, args);
    va_end(args);
    return status;
}

wf_status wfi_problem_at(wfi_problem *p, wf_status status, const char *file, uint64_t byte, const char *field,
                         const char *format, ...)
{
    if (!p)
        return status;
    if (p->status)
        return p->status;
    p->status = status;
    (void)snprintf(p->text, sizeof p->text, "%.200s: at byte %llu: %.120s: ", file, (unsigned long long)byte, field);
    va_list args;
    va_start(args, format);
    append(p->text, sizeof p->text, format, args);
    va_end(args);
    return status;
}

wf_status wfi_problem_memory(wfi_problem *p, const char *file, const char *what, uint64_t bytes)
{
    return wfi_problem_set(p, WF_ERR_MEMORY, "%.200s: out of memory (%llu bytes for %s)", file,
                           (unsigned long long)bytes, what);
}

wf_status wfi_problem_read(wfi_mem *mem, const char *path, void **data, size_t *bytes, wfi_problem *p)
{
    wfi_file f = { .mem = mem };
    wf_status st = wfi_file_read(&f, path, (size_t)WFI_DIM_MAX, data, bytes);
    return st ? wfi_problem_set(p, st, "%s", f.why) : WF_OK;
}

const char *wfi_problem_quote(char out[WFI_QUOTED], const char *s, size_t bytes)
{
    static const char hex[] = "0123456789abcdef";
    size_t o = 0, i = 0;
    out[o++] = '"';
    for (; i < bytes && o + 4 + sizeof "...\"" <= WFI_QUOTED; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
            out[o++] = (char)c;
            continue;
        }
        out[o++] = '\\';
        out[o++] = 'x';
        out[o++] = hex[c >> 4];
        out[o++] = hex[c & 15];
    }
    memcpy(out + o, i < bytes ? "...\"" : "\"", i < bytes ? 5 : 2);
    return out;
}
