/* Buffers in size classes with free lists, handles in slabs: nothing is allocated once a step has been seen. */
#include <string.h>
#include "base/ck.h"
#include "record/record.h"

enum { HEAD = 64 }; /* a buffer's header stands before its data and keeps it aligned */

/* Classes: 64, 128, ... 4096 by doubling, then four steps a doubling. */
static uint32_t size_class(size_t bytes, size_t *rounded)
{
    if (bytes <= 4096) {
        uint32_t k = bytes <= 64 ? 0 : 58 - (uint32_t)__builtin_clzll((unsigned long long)bytes - 1);
        *rounded = (size_t)64 << k;
        return k;
    }
    uint32_t top = 63 - (uint32_t)__builtin_clzll((unsigned long long)bytes - 1); /* 2^top <= bytes-1 */
    size_t step = (size_t)1 << (top - 2);
    size_t quarter = ((bytes - 1) >> (top - 2)) & 3;
    *rounded = ((size_t)1 << top) + (quarter + 1) * step;
    return 7 + (top - 12) * 4 + (uint32_t)quarter;
}

uint32_t wfi_buf_class(size_t bytes)
{
    size_t rounded;
    return size_class(bytes, &rounded);
}

wfi_buf *wfi_buf_new(wf_ctx *c, size_t bytes)
{
    size_t rounded, total;
    uint32_t cls = size_class(bytes, &rounded);
    wfi_buf *b = cls < WFI_BUF_CLASSES ? c->free_buf[cls] : NULL;
    if (WFI_LIKELY(b != NULL)) {
        c->free_buf[cls] = b->next;
        c->free_bytes -= b->bytes;
        b->refs = 1;
#ifdef WEFT_DEBUG
        memset(b->data, 0xAA, b->bytes);
#endif
        return b;
    }
    if (cls >= WFI_BUF_CLASSES || !wfi_ck_add(rounded, HEAD, &total))
        return wfi_error_memory(c, "a buffer", NULL), NULL;
    b = wfi_mem_alloc(c->mem, total);
    if (!b && c->free_bytes) {
        wfi_buf_trim(c);
        b = wfi_mem_alloc(c->mem, total);
    }
    if (!b)
        return wfi_error_memory(c, "a buffer", NULL), NULL;
    *b = (wfi_buf){ .refs = 1, .cls = cls, .data = (char *)b + HEAD, .bytes = rounded };
    return b;
}

void wfi_frozen_unref(void *keep); /* nn/freeze.c */

void wfi_buf_drop(wf_ctx *c, wfi_buf *b)
{
    if (WFI_BUF_BORROWED(b)) {
        b->keep = NULL;
        b->data = (char *)b + HEAD;
        b->bytes = 64;
    } else if (WFI_UNLIKELY(b->keep != NULL)) { /* the memory is a frozen model's: only the header is ours */
        wfi_frozen_unref(b->keep);
        wfi_mem_free(c->mem, b);
        return;
    }
#ifdef WEFT_DEBUG
    memset(b->data, 0xDD, b->bytes);
#endif
    b->next = c->free_buf[b->cls];
    c->free_buf[b->cls] = b;
    c->free_bytes += b->bytes;
}

void wfi_buf_trim(wf_ctx *c)
{
    for (size_t i = 0; i < sizeof c->free_buf / sizeof *c->free_buf; i++)
        while (c->free_buf[i]) {
            wfi_buf *b = c->free_buf[i];
            c->free_buf[i] = b->next;
            wfi_mem_free(c->mem, b);
        }
    c->free_bytes = 0;
}

wf_tensor *wfi_handle_more(wf_ctx *c)
{
    enum { N = 256 };
    if (!wfi_mem_grow(c->mem, &c->hchunk, &c->cap_hchunk, c->nhchunk + 1, sizeof *c->hchunk))
        return wfi_error_memory(c, "handles", NULL), NULL;
    wf_tensor *h = wfi_mem_alloc(c->mem, N * sizeof *h);
    if (!h)
        return wfi_error_memory(c, "handles", NULL), NULL;
    memset(h, 0, N * sizeof *h);
    c->hchunk[c->nhchunk++] = h;
    for (int i = 0; i < N; i++) {
        h[i].ctx = c;
        h[i].u.next = i + 1 < N ? h + i + 1 : NULL;
    }
    c->hfree = h;
    return h;
}

void wfi_handle_drop(wf_ctx *c, wf_tensor *h)
{
    wfi_buf_unref(c, h->buf);
    h->buf = NULL;
    h->tag = WFI_NONE;
    h->flags = WFI_H_DEAD;
    h->spare = 0;
    h->u.next = c->hfree;
    c->hfree = h;
}

bool wfi_handle_own_more(wf_ctx *c, wf_tensor *h)
{
    if (!wfi_mem_grow(c->mem, &c->own, &c->cap_own, c->nown + 1, sizeof *c->own)) {
        wfi_error_memory(c, "the scope's list", h->site);
        return false;
    }
    return wfi_handle_own(c, h);
}
