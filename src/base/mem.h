/* mem.h - every byte of host memory goes through here.
 *
 * A wfi_mem is the caller's allocator (or libc's), a limit and the accounts of one runtime. Tests make it fail at
 * every n-th call; debug builds fill what is freed. It is thread-safe. */
#ifndef WFI_BASE_MEM_H
#define WFI_BASE_MEM_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The user's allocator, as wf_ctx_opts hands it in: realloc semantics with the old size; new_bytes 0 frees and returns
 * NULL. Memory must be aligned to 16 bytes. */
typedef void *wfi_realloc_fn(void *user, void *p, size_t old_bytes, size_t new_bytes);

typedef struct wfi_mem {
    wfi_realloc_fn *fn; /* NULL: libc */
    void *user;
    size_t limit;            /* bytes that may be live at once; 0: no limit */
    _Atomic size_t live;     /* bytes */
    _Atomic size_t peak;     /* bytes */
    _Atomic uint64_t calls;  /* allocations so far */
    _Atomic int64_t fail_at; /* tests: the call with this number (counted down to 0) fails; < 0: none */
    bool fail_on;            /* ... and every later one, too */
} wfi_mem;

void wfi_mem_init(wfi_mem *m, wfi_realloc_fn *fn, void *user, size_t limit);

/* All return NULL when memory is out, the limit is reached or bytes overflow; a failed resize keeps the old block.
 * Blocks are aligned to 64 bytes (bytes >= 2 MiB: to 2 MiB, the whole huge pages in them advised to be such). free
 * wants no size. */
void *wfi_mem_alloc(wfi_mem *m, size_t bytes);
void *wfi_mem_zalloc(wfi_mem *m, size_t bytes);
void *wfi_mem_array(wfi_mem *m, size_t n, size_t each);  /* n * each, checked; not cleared */
void *wfi_mem_resize(wfi_mem *m, void *p, size_t bytes); /* p may be NULL */
void wfi_mem_free(wfi_mem *m, void *p);                  /* NULL is accepted */

/* Grows an array to hold at least `need` items of `each` bytes: *cap items doubles (at least 16). False: out of memory,
 * nothing changed. */
bool wfi_mem_grow(wfi_mem *m, void *pp, size_t *cap, size_t need, size_t each);

/* An arena: many small objects that die together. Pointers stay valid until reset. */
typedef struct wfi_arena {
    wfi_mem *mem;
    struct wfi_arena_block *head;
    size_t used; /* bytes handed out since the last reset */
} wfi_arena;
void wfi_arena_init(wfi_arena *a, wfi_mem *m);
void *wfi_arena_alloc(wfi_arena *a, size_t bytes); /* 16-byte aligned, cleared; NULL: out of memory */
void *wfi_arena_copy(wfi_arena *a, const void *p, size_t bytes);
char *wfi_arena_str(wfi_arena *a, const char *s);
void wfi_arena_reset(wfi_arena *a); /* frees all blocks but one */
void wfi_arena_free(wfi_arena *a);

#endif
