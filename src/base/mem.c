/* Host memory: one header before each block, the accounts, and arenas on top.
 *
 *     raw ........ | head | block ....................... |
 *                         ^ aligned to 64 bytes, or to 2 MiB from 2 MiB on
 */
#include "base/mem.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/ck.h"

#define ALIGN     ((size_t)64)
#define HUGE_PAGE ((size_t)2 << 20)
#define RAW_ALIGN ((size_t)16) /* what malloc and the user's allocator give */

typedef struct head {
    void *raw; /* what the allocator returned */
    size_t raw_bytes;
    size_t bytes; /* what was asked for: the accounts count these */
    size_t room;  /* bytes from the block to the end of raw */
} head;

static head *head_of(void *p)
{
    return (head *)p - 1;
}

void wfi_mem_init(wfi_mem *m, wfi_realloc_fn *fn, void *user, size_t limit)
{
    m->fn = fn;
    m->user = user;
    m->limit = limit;
    m->fail_on = false;
    atomic_init(&m->live, 0);
    atomic_init(&m->peak, 0);
    atomic_init(&m->calls, 0);
    atomic_init(&m->fail_at, -1);
}

/* True if a test wants this call to fail. */
static bool told_to_fail(wfi_mem *m)
{
    int64_t left = atomic_load_explicit(&m->fail_at, memory_order_relaxed);
    while (left >= 0) {
        int64_t next = left > 0 ? left - 1 : m->fail_on ? 0 : -1;
        if (atomic_compare_exchange_weak(&m->fail_at, &left, next))
            return left == 0;
    }
    return false;
}

/* Enters bytes into the accounts, unless that would break the limit. */
static bool take(wfi_mem *m, size_t bytes)
{
    size_t live = atomic_load_explicit(&m->live, memory_order_relaxed), sum;
    do {
        if (!wfi_ck_add(live, bytes, &sum) || (m->limit && sum > m->limit))
            return false;
    } while (!atomic_compare_exchange_weak(&m->live, &live, sum));
    size_t peak = atomic_load_explicit(&m->peak, memory_order_relaxed);
    while (peak < sum && !atomic_compare_exchange_weak(&m->peak, &peak, sum))
        ;
    return true;
}

static void give(wfi_mem *m, size_t bytes)
{
    atomic_fetch_sub(&m->live, bytes);
}

static void *raw_alloc(wfi_mem *m, size_t bytes, bool zero)
{
    if (!m->fn)
        return zero ? calloc(1, bytes) : malloc(bytes);
    void *p = m->fn(m->user, NULL, 0, bytes);
    if (p && zero)
        memset(p, 0, bytes);
    return p;
}

static void raw_free(wfi_mem *m, void *raw, size_t bytes)
{
    if (m->fn)
        m->fn(m->user, raw, bytes, 0);
    else
        free(raw);
}

/* The part of a block that is worth huge pages: the whole ones in it, so that none is touched for its beginning only.
 */
static size_t huge_part(size_t bytes)
{
    return bytes & ~(HUGE_PAGE - 1);
}

static void *alloc(wfi_mem *m, size_t bytes, bool zero)
{
    size_t huge = huge_part(bytes), align = huge ? HUGE_PAGE : ALIGN, raw_bytes;
    atomic_fetch_add_explicit(&m->calls, 1, memory_order_relaxed);
    if (told_to_fail(m) || !wfi_ck_add(bytes, sizeof(head) + align - RAW_ALIGN, &raw_bytes) || !take(m, bytes))
        return NULL;
    char *raw = raw_alloc(m, raw_bytes, zero);
    if (!raw) {
        give(m, bytes);
        return NULL;
    }
    size_t before = sizeof(head) + (size_t)(-((uintptr_t)raw + sizeof(head)) & (align - 1));
    char *p = raw + before;
    *head_of(p) = (head){ .raw = raw, .raw_bytes = raw_bytes, .bytes = bytes, .room = raw_bytes - before };
    if (huge)
        (void)madvise(p, huge, MADV_HUGEPAGE); /* advice: it may be refused */
#ifdef WEFT_DEBUG
    if (!zero)
        memset(p, 0xAA, bytes);
#endif
    return p;
}

void *wfi_mem_alloc(wfi_mem *m, size_t bytes)
{
    return alloc(m, bytes, false);
}

void *wfi_mem_zalloc(wfi_mem *m, size_t bytes)
{
    return alloc(m, bytes, true);
}

void *wfi_mem_array(wfi_mem *m, size_t n, size_t each)
{
    size_t bytes;
    return wfi_ck_mul(n, each, &bytes) ? alloc(m, bytes, false) : NULL;
}

/* True if the block can stay where it is. Debug builds always move it, to bring stale pointers to light. */
static bool stays(const head *h, size_t bytes)
{
#ifdef WEFT_DEBUG
    return bytes == h->bytes;
#else
    return bytes <= h->room && bytes >= h->room / 4;
#endif
}

void *wfi_mem_resize(wfi_mem *m, void *p, size_t bytes)
{
    if (!p)
        return alloc(m, bytes, false);
    head *h = head_of(p);
    if (stays(h, bytes)) {
        atomic_fetch_add_explicit(&m->calls, 1, memory_order_relaxed);
        if (told_to_fail(m) || (bytes > h->bytes && !take(m, bytes - h->bytes)))
            return NULL;
        if (bytes < h->bytes)
            give(m, h->bytes - bytes);
        h->bytes = bytes;
        return p;
    }
    void *q = alloc(m, bytes, false);
    if (!q)
        return NULL;
    memcpy(q, p, bytes < h->bytes ? bytes : h->bytes);
    wfi_mem_free(m, p);
    return q;
}

void wfi_mem_free(wfi_mem *m, void *p)
{
    if (!p)
        return;
    head h = *head_of(p);
    give(m, h.bytes);
#ifdef WEFT_DEBUG
    memset(p, 0xDD, h.bytes);
#endif
    raw_free(m, h.raw, h.raw_bytes);
}

bool wfi_mem_grow(wfi_mem *m, void *pp, size_t *cap, size_t need, size_t each)
{
    if (need <= *cap)
        return true;
    size_t n = *cap < 16 ? 16 : *cap, bytes;
    while (n < need) {
        if (!wfi_ck_mul(n, 2, &n))
            return false;
    }
    if (!wfi_ck_mul(n, each, &bytes))
        return false;
    void *old, *p;
    memcpy(&old, pp, sizeof old); /* pp points to a pointer of any type */
    if (!(p = wfi_mem_resize(m, old, bytes)))
        return false;
    memcpy(pp, &p, sizeof p);
    *cap = n;
    return true;
}

/* Arenas. Blocks double from 4 KiB to 1 MiB less a page; what is larger has a block of its own, kept behind the head
 * so that the room left there is not lost. */
#define ARENA_FIRST ((size_t)4096)
#define ARENA_LAST  ((size_t)1 << 19)

typedef struct wfi_arena_block {
    struct wfi_arena_block *next;
    size_t used, cap; /* bytes of data */
    size_t pad;       /* data begins at a multiple of 16 */
} block;

_Static_assert(sizeof(block) % 16 == 0, "arena data is aligned to 16 bytes");

static char *data_of(block *b)
{
    return (char *)(b + 1);
}

void wfi_arena_init(wfi_arena *a, wfi_mem *m)
{
    *a = (wfi_arena){ .mem = m };
}

/* A block with room for at least `bytes`, linked in; NULL: out of memory. */
static block *arena_block(wfi_arena *a, size_t bytes)
{
    size_t cap = a->head ? 2 * a->head->cap : ARENA_FIRST, total;
    cap = cap > ARENA_LAST ? ARENA_LAST : cap;
    bool own = a->head && bytes > cap;
    cap = bytes > cap ? bytes : cap;
    block *b = wfi_ck_add(cap, sizeof *b, &total) ? wfi_mem_alloc(a->mem, total) : NULL;
    if (!b)
        return NULL;
    *b = (block){ .next = own ? a->head->next : a->head, .cap = cap };
    *(own ? &a->head->next : &a->head) = b;
    return b;
}

void *wfi_arena_alloc(wfi_arena *a, size_t bytes)
{
    size_t n;
    if (!wfi_ck_align(bytes ? bytes : 1, 16, &n))
        return NULL;
    block *b = a->head;
    if ((!b || n > b->cap - b->used) && !(b = arena_block(a, n)))
        return NULL;
    void *p = data_of(b) + b->used;
    b->used += n;
    a->used += n;
    return memset(p, 0, n);
}

void *wfi_arena_copy(wfi_arena *a, const void *p, size_t bytes)
{
    void *q = wfi_arena_alloc(a, bytes);
    if (q && bytes)
        memcpy(q, p, bytes);
    return q;
}

char *wfi_arena_str(wfi_arena *a, const char *s)
{
    return wfi_arena_copy(a, s, strlen(s) + 1);
}

static void free_from(wfi_mem *m, block *b)
{
    while (b) {
        block *next = b->next;
        wfi_mem_free(m, b);
        b = next;
    }
}

void wfi_arena_reset(wfi_arena *a)
{
    a->used = 0;
    if (!a->head)
        return;
    free_from(a->mem, a->head->next);
    a->head->next = NULL;
#ifdef WEFT_DEBUG
    memset(data_of(a->head), 0xDD, a->head->used);
#endif
    a->head->used = 0;
}

void wfi_arena_free(wfi_arena *a)
{
    free_from(a->mem, a->head);
    a->head = NULL;
    a->used = 0;
}
