/* chunk_region.h - which operators make and use a large value in parts (chunk.c writes them). */
#ifndef WFI_PASSES_CHUNK_REGION_H
#define WFI_PASSES_CHUNK_REGION_H
#include "passes/trail.h"

enum { WFI_REGION_MEMBERS = 48 };

typedef struct wfi_member {
    uint32_t node;
    bool chain;              /* it sums over the axis that is cut, and each part goes on where the one before ended */
    int8_t in[WFI_NODE_INS]; /* of each operand: the axis that is cut, -1: none, each part sees all of it */
    int8_t out[WFI_NODE_OUTS];
} wfi_member;

typedef struct wfi_region {
    const wfi_graph *g;
    size_t large; /* bytes of the values that are not to exist as a whole */
    wfi_member m[WFI_REGION_MEMBERS];
    uint32_t n;
    uint8_t *member;  /* of each node: its number among them + 1, 0: it is none */
    uint8_t *whole;   /* of each value: somebody needs it whole */
    uint32_t *leaves; /* of each value: its number from 1 among those that are cut and used by others as well */
    uint32_t nleave;
    size_t largest; /* bytes of a value that does not exist as a whole */
    int64_t common; /* every axis that is cut can be cut into so many parts, and into what divides that */
    uint32_t *user0, *user;
    uint8_t *up, *down; /* of each node: a member needs it, it needs a member */
    struct {
        const wfi_reason *why;
        uint32_t make, use;
    } blame; /* of what went wrong last */
} wfi_region;

/* False: out of memory. */
bool wfi_region_new(wfi_region *r, const wfi_graph *g, size_t large);
void wfi_region_free(wfi_region *r);

/* The region around value `seed`; members in the order of the graph. False: there is none that saves anything, and a
 * note says why. trail may be NULL. */
bool wfi_region_grow(wfi_region *r, uint32_t seed, wfi_trail *trail);

/* Node k, of which operand (or, `out`, result) number `place` is cut along `axis`: which axes of its other operands and
 * results that cuts. Why it cannot be cut there, or NULL. */
const wfi_reason *wfi_region_axes(const wfi_graph *g, uint32_t k, bool out, uint32_t place, int32_t axis,
                                  wfi_member *m);

/* The attribute of each part of a member. False: out of memory. */
bool wfi_region_attr(const wfi_graph *g, const wfi_member *m, int64_t parts, uint32_t *attr);

/* Does each operator, when it is asked, give parts of its results for parts of its operands? */
bool wfi_region_fits(const wfi_region *r, int64_t parts);

#endif
