#include "graph/ids.h"
#include <stdio.h>
#include <string.h>
#include "base/ck.h"
#include "base/hash.h"
#include "graph/sym.h"

static bool intern_init(wfi_intern *t, wfi_mem *mem, size_t bytes)
{
    *t = (wfi_intern){ .mem = mem, .bytes = bytes, .mask = 255 };
    t->slot = wfi_mem_zalloc(mem, 256 * sizeof *t->slot);
    return t->slot != NULL;
}

static void intern_free(wfi_intern *t)
{
    for (size_t i = 0; i < t->nchunk; i++)
        wfi_mem_free(t->mem, t->chunk[i]);
    if (t->mem) {
        wfi_mem_free(t->mem, t->chunk);
        wfi_mem_free(t->mem, t->slot);
    }
    *t = (wfi_intern){ 0 };
}

static bool rehash(wfi_intern *t, uint64_t (*hash)(const void *))
{
    uint32_t mask = t->mask * 2 + 1, *slot = wfi_mem_zalloc(t->mem, ((size_t)mask + 1) * sizeof *slot);
    if (!slot)
        return false;
    for (uint32_t id = 1; id <= t->n; id++) {
        uint32_t i = (uint32_t)hash(wfi_intern_at(t, id)) & mask;
        while (slot[i])
            i = (i + 1) & mask;
        slot[i] = id;
    }
    wfi_mem_free(t->mem, t->slot);
    t->slot = slot;
    t->mask = mask;
    return true;
}

static bool add_chunk(wfi_intern *t)
{
    char **chunk = wfi_mem_resize(t->mem, t->chunk, (t->nchunk + 1) * sizeof *chunk);
    if (!chunk)
        return false;
    t->chunk = chunk;
    chunk[t->nchunk] = wfi_mem_alloc(t->mem, 256 * t->bytes);
    return chunk[t->nchunk] && (t->nchunk++, true);
}

/* The id of an item equal to *item, which is added if it is new. `keep` may deepen the copy before it is stored. */
static uint32_t intern(wfi_intern *t, const void *item, uint64_t (*hash)(const void *),
                       bool (*same)(const void *, const void *), bool (*keep)(void *user, void *item), void *user)
{
    uint32_t i = (uint32_t)hash(item) & t->mask;
    for (; t->slot[i]; i = (i + 1) & t->mask)
        if (same(wfi_intern_at(t, t->slot[i]), item))
            return t->slot[i];
    if (t->n == t->nchunk * 256 && !add_chunk(t))
        return 0;
    char *at = t->chunk[t->n >> 8] + (t->n & 255) * t->bytes;
    memcpy(at, item, t->bytes);
    if (keep && !keep(user, at))
        return 0;
    if (t->n >= t->mask / 2) {
        if (!rehash(t, hash))
            return 0;
        i = (uint32_t)hash(item) & t->mask;
        while (t->slot[i])
            i = (i + 1) & t->mask;
    }
    return t->slot[i] = ++t->n;
}

static uint64_t type_hash(const void *p)
{
    const wfi_type *t = p;
    return wfi_hash64(t->dim, sizeof t->dim[0] * (size_t)t->ndim, (uint64_t)t->dtype * 64 + (uint64_t)t->ndim);
}
static bool type_same(const void *p, const void *q)
{
    const wfi_type *a = p, *b = q;
    return a->dtype == b->dtype && a->ndim == b->ndim && !memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof a->dim[0]);
}
static uint64_t layout_hash(const void *p)
{
    const wfi_layout *l = p;
    return wfi_hash64(l->stride, sizeof l->stride, (uint64_t)l->type << 32 ^ (uint64_t)l->offset);
}
static bool layout_same(const void *p, const void *q)
{
    const wfi_layout *a = p, *b = q;
    return a->type == b->type && a->offset == b->offset && !memcmp(a->stride, b->stride, sizeof a->stride);
}
static uint64_t attr_hash(const void *p)
{
    const wfi_attr_item *a = p;
    return wfi_hash64(a->data, a->bytes, a->op);
}
static bool attr_same(const void *p, const void *q)
{
    const wfi_attr_item *a = p, *b = q;
    return a->op == b->op && a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}
static bool attr_keep(void *user, void *p)
{
    wfi_attr_item *a = p;
    return (a->data = wfi_arena_copy(user, a->data, a->bytes)) != NULL;
}

bool wfi_ids_init(wfi_ids *ids, wfi_mem *mem)
{
    *ids = (wfi_ids){ .mem = mem };
    wfi_arena_init(&ids->data, mem);
    if (intern_init(&ids->types, mem, sizeof(wfi_type)) && intern_init(&ids->layouts, mem, sizeof(wfi_layout)) &&
        intern_init(&ids->attrs, mem, sizeof(wfi_attr_item)))
        return true;
    wfi_ids_free(ids);
    return false;
}

void wfi_ids_free(wfi_ids *ids)
{
    intern_free(&ids->types);
    intern_free(&ids->layouts);
    intern_free(&ids->attrs);
    if (ids->mem)
        wfi_arena_free(&ids->data);
    *ids = (wfi_ids){ 0 };
}

uint32_t wfi_ids_type(wfi_ids *ids, wf_dtype dtype, int32_t ndim, const int64_t *dim)
{
    wfi_type t = { .dtype = dtype, .ndim = ndim };
    bool symbols = false;
    for (int32_t i = 0; i < ndim; i++) {
        t.dim[i] = dim[i];
        symbols |= wfi_sym_is(dim[i]);
    }
    if (symbols)
        t.elements = -1;
    else if (!wfi_ck_elements(dim, ndim, &t.elements) ||
             !wfi_ck_mul((size_t)t.elements, wf_dtype_bytes(dtype), &t.bytes))
        return 0;
    return intern(&ids->types, &t, type_hash, type_same, NULL, NULL);
}

bool wfi_ids_fits(wf_dtype dtype, int32_t ndim, const int64_t *dim)
{
    int64_t elements;
    size_t bytes;
    for (int32_t i = 0; i < ndim; i++)
        if (wfi_sym_is(dim[i]))
            return true;
    return wfi_ck_elements(dim, ndim, &elements) && wfi_ck_mul((size_t)elements, wf_dtype_bytes(dtype), &bytes);
}

static void row_major(const wfi_type *t, int64_t *stride)
{
    int64_t s = 1;
    for (int32_t i = t->ndim; i-- > 0;) {
        stride[i] = s;
        s *= t->dim[i] ? t->dim[i] : 1;
    }
}

/* Do the strides visit 0 .. elements-1 exactly once, in some order of the axes? */
static bool covers(const wfi_type *t, const int64_t *stride)
{
    int64_t want = 1;
    bool used[WF_RANK_MAX] = { false };
    for (int32_t step = 0; step < t->ndim; step++) {
        int32_t k = -1;
        for (int32_t i = 0; i < t->ndim; i++)
            if (!used[i] && (t->dim[i] == 1 || stride[i] == want) && (k < 0 || t->dim[k] != 1))
                k = i;
        if (k < 0)
            return false;
        used[k] = true;
        want *= t->dim[k];
    }
    return true;
}

uint32_t wfi_ids_layout(wfi_ids *ids, uint32_t type, const int64_t *stride, int64_t offset)
{
    const wfi_type *t = wfi_type_at(ids, type);
    wfi_layout l = {
        .type = type, .offset = offset, .start = offset * (int64_t)wf_dtype_bytes(t->dtype), .contiguous = true
    };
    int64_t plain[WF_RANK_MAX] = { 0 };
    row_major(t, plain);
    for (int32_t i = 0; i < t->ndim; i++) {
        l.stride[i] = t->dim[i] == 1 || t->elements == 0 ? plain[i] : stride[i]; /* one form for equal layouts */
        l.contiguous &= l.stride[i] == plain[i];
    }
    l.dense = offset == 0 && (l.contiguous || covers(t, l.stride));
    return intern(&ids->layouts, &l, layout_hash, layout_same, NULL, NULL);
}

uint32_t wfi_ids_dense_new(wfi_ids *ids, uint32_t type)
{
    int64_t stride[WF_RANK_MAX] = { 0 };
    row_major(wfi_type_at(ids, type), stride);
    uint32_t id = wfi_ids_layout(ids, type, stride, 0);
    wfi_type *t = (wfi_type *)(void *)(ids->types.chunk[(type - 1) >> 8] + ((type - 1) & 255) * sizeof *t);
    t->dense = id;
    return id;
}

uint32_t wfi_ids_attr(wfi_ids *ids, uint32_t op, const void *data, size_t bytes)
{
    if (!bytes)
        return 0;
    wfi_attr_item a = { .op = op, .bytes = (uint32_t)bytes, .data = data };
    return intern(&ids->attrs, &a, attr_hash, attr_same, attr_keep, &ids->data);
}

void wfi_layout_view(const wfi_ids *ids, uint32_t layout, wfi_view *v)
{
    const wfi_layout *l = wfi_layout_at(ids, layout);
    const wfi_type *t = wfi_type_at(ids, l->type);
    v->dtype = t->dtype;
    v->ndim = t->ndim;
    memcpy(v->dim, t->dim, sizeof v->dim);
    memcpy(v->stride, l->stride, sizeof v->stride);
}

char *wfi_type_text(const wfi_ids *ids, uint32_t type, char *text, size_t bytes)
{
    const wfi_type *t = wfi_type_at(ids, type);
    int n = snprintf(text, bytes, "%s[", wf_dtype_name(t->dtype));
    for (int32_t i = 0; i < t->ndim && n > 0 && (size_t)n < bytes; i++)
        n += snprintf(text + n, bytes - (size_t)n, i ? ",%lld" : "%lld", (long long)t->dim[i]);
    if (n > 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, "]");
    return text;
}
