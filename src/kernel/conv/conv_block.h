/* conv_block.h - 32 x 32 of a result on the tile unit: four accumulators, two tiles of each operand. */
enum { SIDE = WFI_AMX_SIDE, TILE = WFI_AMX_TILE };

/* A run of steps of 32 values of the sum: the left operand's tiles are `next` elements apart, those of the right one
 * follow each other. a, b: where the run begins. */
typedef struct tile_run {
    ptrdiff_t a, b;
    int64_t steps;
} tile_run;

/* The left operand: rows `stride` bytes apart in a tile. */
typedef struct tile_left {
    ptrdiff_t stride, part, next; /* bytes; elements from part to part, from step to step */
} tile_left;

/* The right operand: tiles of 16 pairs by 16 columns, 64 bytes a row; elements from columns 0-15 to 16-31, from part to
 * part, from step to step. */
typedef struct tile_right {
    ptrdiff_t half, part, next;
} tile_right;

/* Parts (i, j) of the operands in the order in which they are added, small products first; each differs from the one
 * before in one operand only, so that half of the tiles stay. 14 loads for 24 products. */
#define PRODUCT(i, j, fresh_a, fresh_b)                                                                                \
    do {                                                                                                               \
        if (fresh_a) {                                                                                                 \
            WFI_TILE_LOAD(f, 4, a0 + (i)*l->part, l->stride);                                                          \
        }                                                                                                              \
        if (fresh_b) {                                                                                                 \
            WFI_TILE_LOAD(f, 6, b + (j)*r->part, 64);                                                                  \
            WFI_TILE_LOAD(f, 7, b + (j)*r->part + r->half, 64);                                                        \
        }                                                                                                              \
        WFI_TILE_DOT(f, 0, 4, 6);                                                                                      \
        if (fresh_a && !half) {                                                                                        \
            WFI_TILE_LOAD(f, 5, a1 + (i)*l->part, l->stride);                                                          \
        }                                                                                                              \
        WFI_TILE_DOT(f, 1, 4, 7);                                                                                      \
        if (!half) {                                                                                                   \
            WFI_TILE_DOT(f, 2, 5, 6);                                                                                  \
            WFI_TILE_DOT(f, 3, 5, 7);                                                                                  \
        }                                                                                                              \
    } while (0)

/* Walks the runs and does `what` at each step. */
#define EACH_STEP(what)                                                                                                \
    for (int64_t q = 0; q < runs; q++) {                                                                               \
        const uint16_t *a0 = left0 + run[q].a, *a1 = left1 + run[q].a, *b = right + run[q].b;                          \
        for (int64_t k = run[q].steps; k > 0; k--, a0 += l->next, a1 += l->next, b += r->next) {                       \
            what                                                                                                       \
        }                                                                                                              \
    }
#define SMALL_PRODUCTS                                                                                                 \
    PRODUCT(2, 0, 1, 1);                                                                                               \
    PRODUCT(1, 0, 1, 0);                                                                                               \
    PRODUCT(1, 1, 0, 1);                                                                                               \
    PRODUCT(0, 1, 1, 0);                                                                                               \
    PRODUCT(0, 2, 0, 1);

/* How the products of a block are done. */
typedef enum block_kind {
    BLOCK_WHOLE = 0, /* bf16 */
    BLOCK_STEPS = 1, /* parts: all six at each step */
    BLOCK_PASSES = 2 /* parts: the small ones of all steps, then the large ones: as few roundings of large sums as can
                        be, for sums that the plain kernel makes of short chains */
} block_kind;

/* left0, left1: rows 0-15 and 16-31 (half: only the former count); out: the sums, from +0, 32 a row. */
WFI_INLINE void block_of(wfi_tile_file *f, const block_kind kind, const int half, const tile_left *l,
                         const uint16_t *left0, const uint16_t *left1, const tile_right *r, const uint16_t *right,
                         const tile_run *run, int64_t runs, float *out)
{
    (void)f;
    wfi_amx_zero(f);
    if (kind == BLOCK_STEPS) {
        EACH_STEP(SMALL_PRODUCTS PRODUCT(0, 0, 0, 1);)
    } else {
        if (kind == BLOCK_PASSES) {
            EACH_STEP(SMALL_PRODUCTS)
        }
        EACH_STEP(PRODUCT(0, 0, 1, 1);)
    }
    wfi_amx_store(f, out, SIDE * 4); /* half: of what tiles 2 and 3 hold nothing is used */
}

typedef void block_fn(wfi_tile_file *f, const tile_left *l, const uint16_t *left0, const uint16_t *left1,
                      const tile_right *r, const uint16_t *right, const tile_run *run, int64_t runs, float *out);
#define BLOCK(name, kind, half)                                                                                        \
    static void name(wfi_tile_file *f, const tile_left *l, const uint16_t *left0, const uint16_t *left1,               \
                     const tile_right *r, const uint16_t *right, const tile_run *run, int64_t runs, float *out)        \
    {                                                                                                                  \
        block_of(f, kind, half, l, left0, left1, r, right, run, runs, out);                                            \
    }
BLOCK(block_whole, BLOCK_WHOLE, 0)
BLOCK(half_whole, BLOCK_WHOLE, 1)
BLOCK(block_steps, BLOCK_STEPS, 0)
BLOCK(half_steps, BLOCK_STEPS, 1)
BLOCK(block_passes, BLOCK_PASSES, 0)
/* of a result's pixels, by parts, by whether only rows 0-15 count */
static block_fn *const blocks[2][2] = { { block_whole, half_whole }, { block_steps, half_steps } };
