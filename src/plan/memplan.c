/* Offsets in one arena, greedy by size: Pisarchyk and Lee, arXiv:2001.03288. */
#include <stdlib.h>
#include <string.h>
#include "base/ck.h"
#include "plan/plan.h"

typedef struct order {
    size_t bytes;
    uint32_t i;
} order;

static int by_size(const void *p, const void *q)
{
    const order *a = p, *b = q;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->i < b->i ? -1 : a->i > b->i;
}

static bool live_bound(wfi_mem *mem, const wfi_memplan_item *item, uint32_t n, size_t *bound)
{
    uint32_t end = 0;
    for (uint32_t i = 0; i < n; i++)
        end = item[i].last > end ? item[i].last : end;
    size_t *delta = wfi_mem_zalloc(mem, ((size_t)end + 2) * 2 * sizeof *delta);
    if (!delta)
        return false;
    size_t *born = delta, *dead = delta + end + 2, live = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        born[item[i].first] += item[i].bytes;
        dead[item[i].last + 1] += item[i].bytes;
    }
    for (uint32_t t = 0; t <= end; t++) {
        live = live + born[t] - dead[t];
        most = live > most ? live : most;
    }
    wfi_mem_free(mem, delta);
    *bound = most;
    return true;
}

/* Places item k among those placed before, which stand in order of offset. Returns its place in that order. */
static uint32_t place(wfi_memplan_item *item, wfi_memplan_item *k, const uint32_t *placed, uint32_t n)
{
    size_t at = 0;
    for (uint32_t j = 0; j < n; j++) {
        const wfi_memplan_item *p = &item[placed[j]];
        if (p->last < k->first || p->first > k->last)
            continue;
        if (p->offset >= at + k->bytes)
            break; /* the gap before p is large enough */
        if (p->offset + p->bytes > at)
            at = p->offset + p->bytes;
    }
    k->offset = at;
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (item[placed[mid]].offset <= at)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

size_t wfi_memplan(wfi_mem *mem, wfi_memplan_item *item, uint32_t n, size_t *bound)
{
    size_t top = 0, sum = 0;
    *bound = 0;
    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!wfi_ck_align(item[i].bytes, 64, &item[i].bytes) || !wfi_ck_add(sum, item[i].bytes, &sum))
            return SIZE_MAX;
    order *o = wfi_mem_array(mem, n, sizeof *o);
    uint32_t *placed = wfi_mem_array(mem, n, sizeof *placed);
    bool ok = o && placed && live_bound(mem, item, n, bound);
    if (ok) {
        for (uint32_t i = 0; i < n; i++)
            o[i] = (order){ item[i].bytes, i };
        qsort(o, n, sizeof *o, by_size);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t at = place(item, &item[o[i].i], placed, i);
            memmove(placed + at + 1, placed + at, (i - at) * sizeof *placed);
            placed[at] = o[i].i;
            size_t end = item[o[i].i].offset + item[o[i].i].bytes;
            top = end > top ? end : top;
        }
    }
    wfi_mem_free(mem, o);
    wfi_mem_free(mem, placed);
    return ok ? top : SIZE_MAX;
}
