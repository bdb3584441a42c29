/* ids.h - interned types, layouts and attributes: equal things have equal 32-bit numbers, so comparing is one compare.
 *
 * A type is what the program sees of a value (dtype and shape). A layout adds where its elements lie in a buffer
 * (strides and offset); nothing that the program can see depends on it. An attribute is the option struct of one
 * operator. Items never move and are never freed before the whole table: pointers stay valid. Id 0 is no item. */
#ifndef WFI_GRAPH_IDS_H
#define WFI_GRAPH_IDS_H
#include "base/mem.h"
#include "kernel/kernel.h"
#include "weft/types.h"

typedef struct wfi_type {
    wf_dtype dtype;
    int32_t ndim;
    int64_t dim[WF_RANK_MAX]; /* a number, or a symbol (graph/sym.h) in graphs that are not bound to sizes yet */
    int64_t elements;         /* -1: depends on a symbol */
    size_t bytes;             /* of a contiguous buffer */
    uint32_t dense;           /* its row-major layout at offset 0, once that was asked for; else 0 */
} wfi_type;

typedef struct wfi_layout {
    uint32_t type;
    int64_t stride[WF_RANK_MAX]; /* elements */
    int64_t offset;              /* elements: where [0, 0, ...] lies in the buffer */
    int64_t start;               /* the same in bytes */
    bool contiguous;             /* row-major without holes, from offset on */
    bool dense;                  /* some order of the axes is row-major without holes, offset 0: covers its buffer */
} wfi_layout;

typedef struct wfi_attr_item {
    uint32_t op, bytes;
    const void *data;
} wfi_attr_item;

/* A table of items of one size, found by content. */
typedef struct wfi_intern {
    wfi_mem *mem;
    char **chunk; /* of 256 items */
    size_t nchunk;
    uint32_t n; /* items; ids are 1 .. n */
    size_t bytes;
    uint32_t *slot; /* open addressing, 0: free */
    uint32_t mask;
} wfi_intern;

typedef struct wfi_ids {
    wfi_mem *mem;
    wfi_intern types, layouts, attrs;
    wfi_arena data; /* attribute contents */
} wfi_ids;

bool wfi_ids_init(wfi_ids *ids, wfi_mem *mem);
void wfi_ids_free(wfi_ids *ids);

/* Each returns 0 when memory is out (or, for a type, when its size overflows). */
uint32_t wfi_ids_type(wfi_ids *ids, wf_dtype dtype, int32_t ndim, const int64_t *dim);
bool wfi_ids_fits(wf_dtype dtype, int32_t ndim, const int64_t *dim); /* or: the size overflows */
uint32_t wfi_ids_layout(wfi_ids *ids, uint32_t type, const int64_t *stride, int64_t offset);
uint32_t wfi_ids_attr(wfi_ids *ids, uint32_t op, const void *data, size_t bytes);

static inline const void *wfi_intern_at(const wfi_intern *t, uint32_t id)
{
    return t->chunk[(id - 1) >> 8] + ((id - 1) & 255) * t->bytes;
}
static inline const wfi_type *wfi_type_at(const wfi_ids *ids, uint32_t id)
{
    return (const wfi_type *)wfi_intern_at(&ids->types, id);
}
static inline const wfi_layout *wfi_layout_at(const wfi_ids *ids, uint32_t id)
{
    return (const wfi_layout *)wfi_intern_at(&ids->layouts, id);
}
static inline const wfi_attr_item *wfi_attr_at(const wfi_ids *ids, uint32_t id)
{
    return (const wfi_attr_item *)wfi_intern_at(&ids->attrs, id);
}
/* The attribute's struct; NULL for id 0. */
static inline const void *wfi_attr_data(const wfi_ids *ids, uint32_t id)
{
    return id ? wfi_attr_at(ids, id)->data : NULL;
}

uint32_t wfi_ids_dense_new(wfi_ids *ids, uint32_t type);
/* The row-major layout at offset 0; 0 when memory is out. */
static inline uint32_t wfi_ids_dense(wfi_ids *ids, uint32_t type)
{
    uint32_t known = wfi_type_at(ids, type)->dense;
    return known ? known : wfi_ids_dense_new(ids, type);
}

/* What a kernel wants to know. */
void wfi_layout_view(const wfi_ids *ids, uint32_t layout, wfi_view *v);

/* "f32[2,3]" into text; returns text. */
char *wfi_type_text(const wfi_ids *ids, uint32_t type, char *text, size_t bytes);

#endif
