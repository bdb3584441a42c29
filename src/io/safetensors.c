/* safetensors.c - what reader and writer of safetensors share. */
#include "io/safetensors.h"
#include <string.h>

static const struct {
    wf_dtype dtype;
    const char *name;
} types[] = {
    { WF_F32, "F32" }, { WF_F64, "F64" }, { WF_F16, "F16" },   { WF_BF16, "BF16" },      { WF_I64, "I64" },
    { WF_I32, "I32" }, { WF_U8, "U8" },   { WF_BOOL, "BOOL" }, { WF_I8, "I8" },          { WF_I16, "I16" },
    { WF_U16, "U16" }, { WF_U32, "U32" }, { WF_U64, "U64" },   { WF_F8E4M3, "F8_E4M3" }, { WF_F8E5M2, "F8_E5M2" },
};
enum { TYPES = sizeof types / sizeof *types };

const char *wfi_safetensors_dtype_name(wf_dtype t)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == t)
            return types[i].name;
    return NULL;
}

wf_dtype wfi_safetensors_dtype_of(const char *name, size_t n)
{
    for (int i = 0; i < TYPES; i++)
        if (strlen(types[i].name) == n && !memcmp(types[i].name, name, n))
            return types[i].dtype;
    return WF_DTYPE_NONE;
}

/* The length of the UTF-8 sequence that begins p[0..n), 0 if there is none: no overlong form, no surrogate, nothing
 * above U+10FFFF (Unicode, table 3-7). */
static size_t sequence(const uint8_t *p, size_t n)
{
    uint8_t a = p[0];
    if (a < 0x80)
        return 1;
    if (a < 0xC2 || a > 0xF4)
        return 0;
    size_t len = a < 0xE0 ? 2 : a < 0xF0 ? 3 : 4;
    uint8_t lo = a == 0xE0 ? 0xA0 : a == 0xF0 ? 0x90 : 0x80, hi = a == 0xED ? 0x9F : a == 0xF4 ? 0x8F : 0xBF;
    if (n < len || p[1] < lo || p[1] > hi)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return len;
}

size_t wfi_safetensors_utf8(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        size_t len = sequence(p + i, n - i);
        if (!len)
            break;
        i += len;
    }
    return i;
}

static void sift(uint32_t *v, size_t root, size_t n, bool (*less)(const void *, uint32_t, uint32_t), const void *ctx)
{
    uint32_t moved = v[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && less(ctx, v[child], v[child + 1]))
            child++;
        if (!less(ctx, moved, v[child]))
            break;
        v[root] = v[child];
    }
    v[root] = moved;
}

/* Heap sort: libc's qsort may call malloc, which goes past the accounts of wfi_mem. */
void wfi_safetensors_sort(uint32_t *v, size_t n, bool (*less)(const void *ctx, uint32_t a, uint32_t b), const void *ctx)
{
    for (size_t i = n / 2; i-- > 0;)
        sift(v, i, n, less, ctx);
    for (size_t end = n; end-- > 1;) {
        uint32_t top = v[0];
        v[0] = v[end];
        v[end] = top;
        sift(v, 0, end, less, ctx);
    }
}
