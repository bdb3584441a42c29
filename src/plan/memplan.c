/* Offsets in one arena. Items are placed one after the other, each at the lowest place that is free all its life
 * (greedy by size: Pisarchyk and Lee, arXiv:2001.03288). Which order packs best depends on the graph, so several are
 * tried; while the best is above the bound, what stands highest is placed earlier and all is packed again (hill
 * climbing, as in TVM's memory planner). */
#include <stdlib.h>
#include <string.h>
#include "base/ck.h"
#include "plan/plan.h"

typedef struct rank { /* larger ones are placed first */
    double a, b;
    uint32_t i;
} rank;

static int by_rank(const void *p, const void *q)
{
    const rank *x = p, *y = q;
    if (x->a != y->a)
        return x->a < y->a ? 1 : -1;
    if (x->b != y->b)
        return x->b < y->b ? 1 : -1;
    return x->i < y->i ? -1 : x->i > y->i;
}

enum { SMALL = 32 << 10 }; /* bytes of an arena that is not worth more than the first tries */
enum { BY_SIZE, BY_LIFE, BY_AREA, BY_TIME, BY_END, ORDERS };

static rank rank_of(const wfi_memplan_item *m, uint32_t i, int order)
{
    const double bytes = (double)m->bytes, life = (double)m->last - (double)m->first + 1;
    switch (order) {
    case BY_SIZE: return (rank){ bytes, life, i };
    case BY_LIFE: return (rank){ life, bytes, i };
    case BY_AREA: return (rank){ bytes * life, bytes, i };
    case BY_TIME: return (rank){ -(double)m->first, life, i };
    default: return (rank){ (double)m->last, bytes, i };
    }
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

/* The items in the order of `r`; returns the end of the highest. */
static size_t pack(wfi_memplan_item *item, const rank *r, uint32_t n, uint32_t *placed)
{
    size_t top = 0;
    for (uint32_t i = 0; i < n; i++) {
        wfi_memplan_item *k = &item[r[i].i];
        uint32_t at = place(item, k, placed, i);
        memmove(placed + at + 1, placed + at, (i - at) * sizeof *placed);
        placed[at] = r[i].i;
        top = k->offset + k->bytes > top ? k->offset + k->bytes : top;
    }
    return top;
}

typedef struct packing {
    wfi_memplan_item *item;
    uint32_t n, *placed;
    rank *r, *before, *best_r;
    size_t *best; /* offsets of the best packing, ... */
    size_t top;   /* ... and its end */
} packing;

static size_t try(packing *p)
{
    const size_t top = pack(p->item, p->r, p->n, p->placed);
    if (top < p->top) {
        p->top = top;
        memcpy(p->best_r, p->r, p->n * sizeof *p->r);
        for (uint32_t i = 0; i < p->n; i++)
            p->best[i] = p->item[i].offset;
    }
    return top;
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)*seed * below >> 32);
}

/* What stands at the top is placed before something that is in its way: a random one of those. False: there is none. */
static bool change(packing *p, size_t top, uint32_t *seed)
{
    uint32_t k = 0, in_way = 0, at = 0;
    while (k < p->n && p->item[p->r[k].i].offset + p->item[p->r[k].i].bytes != top)
        k++;
    const wfi_memplan_item *high = k < p->n ? &p->item[p->r[k].i] : NULL;
    for (uint32_t j = 0; high && j < k; j++) {
        const wfi_memplan_item *m = &p->item[p->r[j].i];
        if (m->first <= high->last && high->first <= m->last && draw(seed, ++in_way) == 0)
            at = j;
    }
    if (!in_way)
        return false;
    const rank it = p->r[k];
    if (draw(seed, 2)) {
        p->r[k] = p->r[at]; /* they change places ... */
        p->r[at] = it;
    } else { /* ... or it goes in front */
        memmove(p->r + at + 1, p->r + at, (k - at) * sizeof *p->r);
        p->r[at] = it;
    }
    return true;
}

/* Hill climbing; steps that make it worse are taken back nine times in ten, and after a while it begins again at the
 * best. The same graph gets the same places in every run. */
static void climb(packing *p, size_t bound)
{
    const size_t enough = bound + bound / 256; /* what is left then is not worth the time */
    enum { TRIES = 3000, AGAIN = 200 };
    const double work = (double)p->n * p->n + 1;
    const int most = work * TRIES > 1e8 ? (int)(1e8 / work) : TRIES; /* some 50 ms at most */
    uint32_t seed = 1;
    size_t top = p->top;
    for (int i = 0; i < most && p->top > enough; i++) {
        if (i % AGAIN == 0) {
            memcpy(p->r, p->best_r, p->n * sizeof *p->r);
            top = pack(p->item, p->r, p->n, p->placed);
        }
        memcpy(p->before, p->r, p->n * sizeof *p->r);
        if (!change(p, top, &seed))
            return;
        const size_t now = try(p);
        if (now <= top || draw(&seed, 10) == 0)
            top = now;
        else {
            memcpy(p->r, p->before, p->n * sizeof *p->r);
            (void)pack(p->item, p->r, p->n, p->placed);
        }
    }
}

static void search(packing *p, size_t bound)
{
    for (int order = 0; order < ORDERS && p->top > bound; order++) {
        for (uint32_t i = 0; i < p->n; i++)
            p->r[i] = rank_of(&p->item[i], i, order);
        qsort(p->r, p->n, sizeof *p->r, by_rank);
        (void)try(p);
    }
    if (p->top > SMALL)
        climb(p, bound);
    for (uint32_t i = 0; i < p->n; i++)
        p->item[i].offset = p->best[i];
}

size_t wfi_memplan(wfi_mem *mem, wfi_memplan_item *item, uint32_t n, size_t *bound)
{
    size_t sum = 0;
    *bound = 0;
    if (!n)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        if (!wfi_ck_align(item[i].bytes, 64, &item[i].bytes) || !wfi_ck_add(sum, item[i].bytes, &sum))
            return SIZE_MAX;
    packing p = { .item = item,
                  .n = n,
                  .placed = wfi_mem_array(mem, n, sizeof *p.placed),
                  .r = wfi_mem_array(mem, n, sizeof *p.r),
                  .before = wfi_mem_array(mem, n, sizeof *p.r),
                  .best_r = wfi_mem_array(mem, n, sizeof *p.r),
                  .best = wfi_mem_array(mem, n, sizeof *p.best),
                  .top = SIZE_MAX };
    if (p.placed && p.r && p.before && p.best_r && p.best && live_bound(mem, item, n, bound))
        search(&p, *bound);
    wfi_mem_free(mem, p.placed);
    wfi_mem_free(mem, p.r);
    wfi_mem_free(mem, p.before);
    wfi_mem_free(mem, p.best_r);
    wfi_mem_free(mem, p.best);
    return p.top;
}
