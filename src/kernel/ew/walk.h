/* walk.h - how several views of one shape are walked together: sizes of 1 dropped, dimensions in the order of the first
 * view's strides, neighbours joined where every view allows it. Views in the same layout become one flat run. */
#ifndef WFI_KERNEL_EW_WALK_H
#define WFI_KERNEL_EW_WALK_H
#include "kernel/isa.h"
#include "kernel/kernel.h"

typedef struct wfi_walk {
    int64_t n;     /* elements */
    int32_t lanes; /* the first is the result */
    int32_t ndim;  /* at least 1; the last is the innermost */
    int64_t dim[WF_RANK_MAX];
} wfi_walk;

/* One view in a walk. Whoever walks keeps an array of them beside the walk. */
typedef struct wfi_lane {
    int64_t start;               /* bytes from the address of element [0, 0, ...] to the first of the walk */
    int64_t stride[WF_RANK_MAX]; /* bytes; the result's are positive */
    int32_t bytes;               /* of an element */
} wfi_lane;

WFI_INLINE void wfi_walk_insert(wfi_walk *w, wfi_lane *lane, const wfi_view *const *v, int d)
{
    int64_t size = v[0]->dim[d], first = v[0]->stride[d];
    bool down = first < 0;
    int at = w->ndim++;
    int64_t mine = (down ? -first : first) * lane[0].bytes;
    for (; at > 0 && lane[0].stride[at - 1] < mine; at--) {
        w->dim[at] = w->dim[at - 1];
        for (int k = 0; k < w->lanes; k++)
            lane[k].stride[at] = lane[k].stride[at - 1];
    }
    w->dim[at] = size;
    for (int k = 0; k < w->lanes; k++) {
        int64_t s = v[k]->stride[d] * lane[k].bytes;
        lane[k].start += down ? s * (size - 1) : 0;
        lane[k].stride[at] = down ? -s : s;
    }
}

WFI_INLINE void wfi_walk_join(wfi_walk *w, wfi_lane *lane)
{
    int last = 0;
    for (int d = 1; d < w->ndim; d++) {
        bool one = true;
        for (int k = 0; k < w->lanes; k++)
            one = one && lane[k].stride[last] == lane[k].stride[d] * w->dim[d];
        if (!one)
            last++;
        w->dim[last] = one ? w->dim[last] * w->dim[d] : w->dim[d];
        for (int k = 0; k < w->lanes; k++)
            lane[k].stride[last] = lane[k].stride[d];
    }
    w->ndim = last + 1;
}

/* Two indices that name the same element: no result looks so. */
static inline bool wfi_walk_overlaps(const wfi_view *v)
{
    bool repeats = false, empty = false;
    for (int d = 0; d < v->ndim; d++) {
        repeats = repeats || (v->dim[d] > 1 && v->stride[d] == 0);
        empty = empty || v->dim[d] == 0;
    }
    return repeats && !empty;
}

/* v: the result, then the others; all of one shape. lane[lanes] is set. */
static inline wfi_walk wfi_walk_of(const wfi_view *const *v, int lanes, wfi_lane *lane)
{
    wfi_walk w = { .n = 1, .lanes = lanes };
    for (int k = 0; k < lanes; k++)
        lane[k] = (wfi_lane){ .bytes = (int32_t)wf_dtype_bytes(v[k]->dtype) };
    for (int d = 0; d < v[0]->ndim; d++) {
        w.n *= v[0]->dim[d];
        if (v[0]->dim[d] > 1)
            wfi_walk_insert(&w, lane, v, d);
    }
    if (w.ndim == 0) { /* one element, or none */
        w.ndim = 1;
        w.dim[0] = 1;
        for (int k = 0; k < lanes; k++)
            lane[k].stride[0] = lane[k].bytes;
    }
    wfi_walk_join(&w, lane);
    return w;
}

/* Is the lane contiguous in the order of the walk? Is it one element for all? */
static inline bool wfi_lane_flat(const wfi_walk *w, const wfi_lane *lane)
{
    int64_t run = lane->bytes;
    for (int d = w->ndim - 1; d >= 0; d--) {
        if (lane->stride[d] != run)
            return false;
        run *= w->dim[d];
    }
    return true;
}
static inline bool wfi_lane_still(const wfi_walk *w, const wfi_lane *lane)
{
    for (int d = 0; d < w->ndim; d++)
        if (lane->stride[d] != 0)
            return false;
    return true;
}

/* Element `lo` of the walk: the index of each dimension. */
WFI_INLINE void wfi_walk_locate(const wfi_walk *w, int64_t lo, int64_t *at)
{
    for (int d = w->ndim - 1; d > 0; d--) {
        at[d] = lo % w->dim[d];
        lo /= w->dim[d];
    }
    at[0] = lo;
}

/* To the start of the next row: one step in dimension ndim - 2 and outwards. */
WFI_INLINE void wfi_walk_next_row(const wfi_walk *w, int64_t *at)
{
    at[w->ndim - 1] = 0;
    for (int d = w->ndim - 2; d >= 0; d--) {
        if (++at[d] < w->dim[d] || d == 0)
            return;
        at[d] = 0;
    }
}

WFI_INLINE char *wfi_walk_address(const wfi_walk *w, char *base, const wfi_lane *lane, const int64_t *at)
{
    for (int d = 0; d < w->ndim; d++)
        base += at[d] * lane->stride[d];
    return base;
}

/* Elements, one by one unless they lie together; y and x move by sy and sx bytes. */
static inline void wfi_walk_move(char *y, int64_t sy, const char *x, int64_t sx, int64_t n, int bytes)
{
    if (sy == bytes && sx == bytes) {
        __builtin_memcpy(y, x, (size_t)(n * bytes));
        return;
    }
#define MOVE(b)                                                                                                        \
    if (sy == (b) && sx == 0) { /* one element again and again: vectors of it */                                       \
        char v[b];                                                                                                     \
        __builtin_memcpy(v, x, b);                                                                                     \
        for (int64_t i = 0; i < n; i++)                                                                                \
            __builtin_memcpy(y + i * (b), v, b);                                                                       \
        break;                                                                                                         \
    }                                                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                                    \
        __builtin_memcpy(y + i * sy, x + i * sx, b);                                                                   \
    break;
    switch (bytes) {
    case 1: MOVE(1)
    case 2: MOVE(2)
    case 4: MOVE(4)
    case 8: MOVE(8)
    }
#undef MOVE
}

/* Between a contiguous tile and m elements of a lane, whose walk begins at base, from index `first` on. */
static inline void wfi_walk_gather(const wfi_walk *w, char *base, const wfi_lane *lane, char *tile,
                                   const int64_t *first, int64_t m, bool in)
{
    int64_t at[WF_RANK_MAX], width = w->dim[w->ndim - 1], step = lane->stride[w->ndim - 1], bytes = lane->bytes;
    __builtin_memcpy(at, first, sizeof at);
    while (m > 0) {
        int64_t part = width - at[w->ndim - 1];
        part = part < m ? part : m;
        char *x = wfi_walk_address(w, base, lane, at);
        if (in)
            wfi_walk_move(tile, bytes, x, step, part, lane->bytes);
        else
            wfi_walk_move(x, step, tile, bytes, part, lane->bytes);
        tile += part * bytes;
        m -= part;
        wfi_walk_next_row(w, at);
    }
}

#endif
