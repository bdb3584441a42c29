/* safetensors_write.c - the writer: see safetensors.h.
 *
 * The header is built in memory, with eight zeros where the checksum goes; the checksum is taken over it and the data,
 * put in place, and then header and tensors are written through wfi_file, which makes the change atomic. */
#include <string.h>
#include "base/ck.h"
#include "base/text.h"
#include "io/crc32c.h"
#include "io/safetensors.h"

typedef struct writer {
    wfi_mem *mem;
    const char *path;
    const wfi_named *tensors;
    const wfi_meta *meta;
    size_t n, nmeta;
    uint32_t *order; /* tensors by name, then metadata by key */
    wfi_text header;
    size_t data_bytes;
    wfi_problem *problem;
} writer;

#define REFUSE(w, status, ...) wfi_problem_set((w)->problem, status, __VA_ARGS__)

static bool by_name(const void *ctx, uint32_t a, uint32_t b)
{
    return strcmp(((const wfi_named *)ctx)[a].name, ((const wfi_named *)ctx)[b].name) < 0;
}

static bool by_key(const void *ctx, uint32_t a, uint32_t b)
{
    return strcmp(((const wfi_meta *)ctx)[a].key, ((const wfi_meta *)ctx)[b].key) < 0;
}

static wf_status check_text(const writer *w, const char *what, const char *s)
{
    char quoted[WFI_QUOTED];
    size_t n = s ? strlen(s) : 0;
    if (!s || wfi_safetensors_utf8((const uint8_t *)s, n) != n)
        return REFUSE(w, WF_ERR_ARG, "%.200s: %s %s is not UTF-8", w->path, what,
                      wfi_problem_quote(quoted, s ? s : "", n));
    return WF_OK;
}

/* Whole, and what its shape says. */
static wf_status check_tensor(const writer *w, const wfi_named *t)
{
    char name[WFI_QUOTED];
    int64_t elements;
    size_t bytes;
    wf_status st = check_text(w, "tensor", t->name);
    if (st)
        return st;
    (void)wfi_problem_quote(name, t->name, strlen(t->name));
    if (!strcmp(t->name, "__metadata__"))
        return REFUSE(w, WF_ERR_ARG, "%.200s: tensor %s: the name is taken by the format", w->path, name);
    if (!wfi_safetensors_dtype_name(t->dtype))
        return REFUSE(w, WF_ERR_UNSUPPORTED, "%.200s: tensor %s: the format has no type %s", w->path, name,
                      wf_dtype_name(t->dtype));
    if (t->ndim < 0 || t->ndim > WF_RANK_MAX || !wfi_ck_elements(t->dims, t->ndim, &elements) ||
        !wfi_ck_mul((size_t)elements, wf_dtype_bytes(t->dtype), &bytes))
        return REFUSE(w, WF_ERR_SHAPE, "%.200s: tensor %s: the shape is not valid", w->path, name);
    if (bytes != t->bytes || (bytes && !t->data))
        return REFUSE(w, WF_ERR_ARG, "%.200s: tensor %s: got %zu bytes, want %zu for its shape", w->path, name,
                      t->data ? t->bytes : (size_t)0, bytes);
    return WF_OK;
}

static wf_status check_meta(const writer *w, const wfi_meta *m)
{
    char key[WFI_QUOTED];
    wf_status st = check_text(w, "metadata key", m->key);
    if (!st)
        st = check_text(w, "metadata value", m->value);
    if (!st && (!strcmp(m->key, "weft.crc32c") || !strcmp(m->key, "weft.format")))
        return REFUSE(w, WF_ERR_ARG, "%.200s: metadata key %s is written by Weft itself", w->path,
                      wfi_problem_quote(key, m->key, strlen(m->key)));
    return st;
}

/* Checks everything, sorts, and adds up the bytes. */
static wf_status prepare(writer *w)
{
    char quoted[WFI_QUOTED];
    wf_status st = WF_OK;
    size_t slots;
    if (w->n > WFI_SAFETENSORS_TENSORS_MAX || w->nmeta > WFI_SAFETENSORS_TENSORS_MAX)
        return REFUSE(w, WF_ERR_ARG, "%.200s: got %zu tensors and %zu lines of metadata, want at most %d each", w->path,
                      w->n, w->nmeta, WFI_SAFETENSORS_TENSORS_MAX);
    slots = w->n + w->nmeta;
    w->order = wfi_mem_array(w->mem, slots + 1, sizeof *w->order);
    if (!w->order)
        return wfi_problem_memory(w->problem, w->path, "the header", slots * sizeof *w->order);
    for (size_t i = 0; !st && i < w->n; i++) {
        st = check_tensor(w, &w->tensors[i]);
        w->order[i] = (uint32_t)i;
        if (!st && !wfi_ck_add(w->data_bytes, w->tensors[i].bytes, &w->data_bytes))
            st = REFUSE(w, WF_ERR_ARG, "%.200s: the tensors together are too large", w->path);
    }
    for (size_t i = 0; !st && i < w->nmeta; i++) {
        st = check_meta(w, &w->meta[i]);
        w->order[w->n + i] = (uint32_t)i;
    }
    if (st)
        return st;
    wfi_safetensors_sort(w->order, w->n, by_name, w->tensors);
    wfi_safetensors_sort(w->order + w->n, w->nmeta, by_key, w->meta);
    for (size_t i = 1; i < w->n; i++) {
        const char *name = w->tensors[w->order[i]].name;
        if (!strcmp(name, w->tensors[w->order[i - 1]].name))
            return REFUSE(w, WF_ERR_ARG, "%.200s: tensor %s: given twice", w->path,
                          wfi_problem_quote(quoted, name, strlen(name)));
    }
    for (size_t i = w->n + 1; i < slots; i++) {
        const char *key = w->meta[w->order[i]].key;
        if (!strcmp(key, w->meta[w->order[i - 1]].key))
            return REFUSE(w, WF_ERR_ARG, "%.200s: metadata key %s: given twice", w->path,
                          wfi_problem_quote(quoted, key, strlen(key)));
    }
    return WF_OK;
}

static void add_string(wfi_text *t, const char *s)
{
    wfi_text_addc(t, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < ' ')
            wfi_text_addf(t, "\\u%04x", c);
        else if (c == '"' || c == '\\')
            wfi_text_addf(t, "\\%c", c);
        else
            wfi_text_addc(t, (char)c);
    }
    wfi_text_addc(t, '"');
}

static void add_pair(wfi_text *t, const char *key, const char *value, bool *first)
{
    if (!*first)
        wfi_text_addc(t, ',');
    *first = false;
    add_string(t, key);
    wfi_text_addc(t, ':');
    add_string(t, value);
}

/* Keys in order, Weft's own where they belong. Returns where the checksum's digits go. */
static size_t add_meta(writer *w)
{
    static const wfi_meta own[] = { { .key = "weft.crc32c", .value = "00000000" },
                                    { .key = "weft.format", .value = "1" } };
    wfi_text *t = &w->header;
    size_t digits = 0, o = 0, i = 0;
    bool first = true;
    wfi_text_add(t, "\"__metadata__\":{");
    while (o < 2 || i < w->nmeta) {
        const wfi_meta *m = i < w->nmeta ? &w->meta[w->order[w->n + i]] : NULL;
        bool mine = o < 2 && (!m || strcmp(own[o].key, m->key) < 0);
        m = mine ? &own[o++] : m;
        i += !mine;
        add_pair(t, m->key, m->value, &first);
        if (m == &own[0])
            digits = t->n - 9; /* the value's 8 characters and the quote */
    }
    wfi_text_addc(t, '}');
    return digits;
}

static void add_tensor(wfi_text *t, const wfi_named *x, size_t begin)
{
    wfi_text_addc(t, ',');
    add_string(t, x->name);
    wfi_text_addf(t, ":{\"dtype\":\"%s\",\"shape\":[", wfi_safetensors_dtype_name(x->dtype));
    for (int32_t i = 0; i < x->ndim; i++)
        wfi_text_addf(t, "%s%lld", i ? "," : "", (long long)x->dims[i]);
    wfi_text_addf(t, "],\"data_offsets\":[%zu,%zu]}", begin, begin + x->bytes);
}

/* The length's 8 bytes and the JSON, padded so that the data begins at a multiple of 8, with the checksum in it. */
static wf_status build(writer *w)
{
    wfi_text *t = &w->header;
    static const char hex[] = "0123456789abcdef";
    size_t begin = 0;
    wfi_text_fill(t, 0, 8);
    wfi_text_addc(t, '{');
    size_t digits = add_meta(w);
    for (size_t i = 0; i < w->n; i++) {
        const wfi_named *x = &w->tensors[w->order[i]];
        add_tensor(t, x, begin);
        begin += x->bytes;
    }
    wfi_text_addc(t, '}');
    wfi_text_fill(t, ' ', (8 - t->n % 8) % 8);
    if (t->oom)
        return wfi_problem_memory(w->problem, w->path, "the header", t->n);
    uint64_t length = t->n - 8;
    if (length > WFI_SAFETENSORS_HEADER_MAX)
        return REFUSE(w, WF_ERR_ARG, "%.200s: the header has %zu bytes, want at most %d", w->path, (size_t)length,
                      WFI_SAFETENSORS_HEADER_MAX);
    for (int i = 0; i < 8; i++)
        t->p[i] = (char)(length >> 8 * i & 255);
    uint32_t crc = wfi_crc32c(0, t->p, t->n);
    for (size_t i = 0; i < w->n; i++)
        crc = wfi_crc32c(crc, w->tensors[w->order[i]].data, w->tensors[w->order[i]].bytes);
    for (int i = 0; i < 8; i++)
        t->p[digits + (size_t)i] = hex[crc >> (28 - 4 * i) & 15];
    return WF_OK;
}

static wf_status put_all(writer *w, wfi_file *f)
{
    size_t total;
    if (!wfi_ck_add(w->header.n, w->data_bytes, &total))
        return REFUSE(w, WF_ERR_ARG, "%.200s: the tensors together are too large", w->path);
    wf_status st = wfi_file_begin(f, w->path, total);
    if (!st)
        st = wfi_file_put(f, w->header.p, w->header.n);
    for (size_t i = 0; !st && i < w->n; i++)
        st = wfi_file_put(f, w->tensors[w->order[i]].data, w->tensors[w->order[i]].bytes);
    if (!st)
        st = wfi_file_commit(f);
    if (!st)
        return WF_OK;
    wfi_file_abandon(f);
    return REFUSE(w, st, "%s", f->why);
}

wf_status wfi_safetensors_write_by(wfi_file *f, const char *path, const wfi_named *tensors, size_t n,
                                   const wfi_meta *meta, size_t nmeta, wfi_problem *problem)
{
    writer w = { .mem = f->mem,
                 .path = path,
                 .tensors = tensors,
                 .meta = meta,
                 .n = n,
                 .nmeta = nmeta,
                 .header = { .mem = f->mem },
                 .problem = problem };
    wf_status st = prepare(&w);
    if (!st)
        st = build(&w);
    if (!st)
        st = put_all(&w, f);
    wfi_text_free(&w.header);
    wfi_mem_free(w.mem, w.order);
    return st;
}

wf_status wfi_safetensors_write(wfi_mem *mem, const char *path, const wfi_named *tensors, size_t n,
                                const wfi_meta *meta, size_t nmeta, wfi_problem *problem)
{
    wfi_file f = { .mem = mem };
    return wfi_safetensors_write_by(&f, path, tensors, n, meta, nmeta, problem);
}
