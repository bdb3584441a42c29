/* gemm_amx_block.h - 32 x 32 sums of one block of k, and where they go: part of gemm_amx.c.
 *
 * The last sums leave the tiles while the next ones begin: a store into a tile's worth of spare memory among the first
 * products, then a few rows between the others. */
#ifndef WFI_KERNEL_GEMM_AMX_BLOCK_H
#define WFI_KERNEL_GEMM_AMX_BLOCK_H
#include "kernel/gemm/amx_pack.h"
#include "kernel/gemm/gemm_plan.h"

#define SIDE WFI_AMX_SIDE

/* ---- 32 x 32 sums on their way out ---- */

typedef enum where { NOWHERE, WAIT, TO_F32, TO_BF16, TO_ANY, WHERES } where;

typedef struct sums {
    float *wait; /* 32 floats a row: what was summed before, or what is to wait */
    char *c;
    int64_t c_m, c_n;   /* strides, bytes */
    int32_t rows, cols; /* of c that there are */
    int32_t more;       /* there is something in `wait` to add */
    int32_t to;
} sums;

typedef struct work {
    const wfi_gemm *g;
    wfi_tile_file *f;
    float *spare;     /* four tiles of 16 x 16 */
    sums last;        /* what the tiles hold */
    const char *next; /* read ahead, so many lines among the products of each block */
    int64_t lines;
} work;

#define HALF (SIDE / 2)
WFI_INLINE wfi_vf4 sum_at(const float *spare, const sums *s, int64_t r, int64_t j, bool more)
{
    wfi_vf4 v, w;
    memcpy(&v, spare + (r / HALF * 2 + j / HALF) * HALF * HALF + r % HALF * HALF + j % HALF, sizeof v);
    if (more) {
        memcpy(&w, s->wait + r * SIDE + j, sizeof w);
        v = w + v;
    }
    return v;
}
WFI_INLINE void put_any(const sums *s, char *c, int64_t j, wfi_vf4 v, int64_t out)
{
    for (int64_t l = 0; l < WFI_LANES && j + l < s->cols; l++) {
        const uint16_t h = wfi_bf16_narrow(v[l]);
        const float f = v[l];
        memcpy(c + (j + l) * s->c_n, out == 2 ? (const void *)&h : (const void *)&f, (size_t)out);
    }
}
WFI_INLINE void put_row(const float *spare, const sums *s, int64_t r, bool more, where to, bool scaled, int64_t out)
{
    char *c = s->c + r * s->c_m;
    if (to != WAIT && r >= s->rows)
        return;
    for (int64_t j = 0; j < SIDE; j += WFI_LANES) {
        wfi_vf4 v = sum_at(spare, s, r, j, more);
        if (to != WAIT && scaled)
            v *= WFI_AMX_UNSCALE;
        if (to == WAIT)
            memcpy(s->wait + r * SIDE + j, &v, sizeof v);
        else if (to == TO_F32)
            wfi_stm4(c + 4 * j, wfi_lanes4(s->cols - j), v);
        else if (to == TO_BF16)
            wfi_bf16_st((uint16_t *)(void *)c + j, v);
        else
            put_any(s, c, j, v, out);
    }
}

/* ---- 32 x 32 sums of one block of k ---- */

#define AHEAD(n)                                                                                                       \
    for (int q = 0; q < (n) && w->lines > 0; q++, w->lines--, w->next += 64)                                           \
    __builtin_prefetch(w->next, 0, 2)
#define PUT(rows)                                                                                                      \
    for (int q = 0; to != NOWHERE && q < (rows) && r < SIDE; q++, r++)                                                 \
    put_row(spare, &w->last, r, more, to, parts > 1, out)

/* steps times 32 of k; between the products the sums of the block before go where they belong. */
WFI_INLINE void block(work *w, const uint16_t *a, const uint16_t *b, int64_t steps, bool more, where to, int parts)
{
    wfi_tile_file *f = w->f;
    float *spare = w->spare;
    const int64_t out = w->g->out_dtype == WF_F32 ? 4 : 2;
    const uint16_t *first = parts > 1 ? WFI_AMX_PART(a, 2) : a;
    int64_t r = 0;
    (void)f;
    /* four tiles change hands one by one */
    WFI_TILE_LOAD(f, 4, first, 64);
    WFI_TILE_LOAD(f, 6, b, 64);
    if (to != NOWHERE)
        WFI_TILE_STORE(f, 0, spare, 64);
    WFI_TILE_ZERO(f, 0);
    WFI_TILE_DOT(f, 0, 4, 6);
    WFI_TILE_LOAD(f, 7, b + WFI_AMX_TILE, 64);
    if (to != NOWHERE)
        WFI_TILE_STORE(f, 1, spare + HALF * HALF, 64);
    WFI_TILE_ZERO(f, 1);
    WFI_TILE_DOT(f, 1, 4, 7);
    WFI_TILE_LOAD(f, 5, first + WFI_AMX_TILE, 64);
    if (to != NOWHERE)
        WFI_TILE_STORE(f, 2, spare + 2 * HALF * HALF, 64);
    WFI_TILE_ZERO(f, 2);
    WFI_TILE_DOT(f, 2, 5, 6);
    if (to != NOWHERE)
        WFI_TILE_STORE(f, 3, spare + 3 * HALF * HALF, 64);
    WFI_TILE_ZERO(f, 3);
    WFI_TILE_DOT(f, 3, 5, 7);
    if (parts > 1) {
        const uint16_t *small_a = a, *small_b = b;
        for (int64_t i = 0; i < steps; i++, small_a += parts * WFI_AMX_STEP, small_b += parts * WFI_AMX_STEP) {
            if (i) /* as wfi_amx_step_small */
                wfi_amx_dots(f, WFI_AMX_PART(small_a, 2), small_b);
            PUT(2);
            wfi_amx_dots_a(f, WFI_AMX_PART(small_a, 1));
            PUT(2);
            AHEAD(4);
            wfi_amx_dots_b(f, WFI_AMX_PART(small_b, 1));
            PUT(2);
            wfi_amx_dots_a(f, small_a);
            PUT(2);
            AHEAD(4);
            wfi_amx_dots_b(f, WFI_AMX_PART(small_b, 2));
            PUT(2);
        }
    }
    for (int64_t i = parts > 1 ? 0 : 1; i < steps; i++) {
        wfi_amx_step(f, a + i * parts * WFI_AMX_STEP, b + i * parts * WFI_AMX_STEP);
        PUT(5);
        AHEAD(2);
    }
    PUT(SIDE);
}
typedef void block_fn(work *w, const uint16_t *a, const uint16_t *b, int64_t steps);
#define BLOCK(name, more, to, parts)                                                                                   \
    static __attribute__((noinline)) void name(work *w, const uint16_t *a, const uint16_t *b, int64_t steps)           \
    {                                                                                                                  \
        block(w, a, b, steps, more, to, parts);                                                                        \
    }
#define BLOCKS(kind, parts)                                                                                            \
    BLOCK(kind##_begin, false, NOWHERE, parts)                                                                         \
    BLOCK(kind##_wait, false, WAIT, parts)                                                                             \
    BLOCK(kind##_add, true, WAIT, parts)                                                                               \
    BLOCK(kind##_f32, false, TO_F32, parts)                                                                            \
    BLOCK(kind##_add_f32, true, TO_F32, parts)                                                                         \
    BLOCK(kind##_any, false, TO_ANY, parts)                                                                            \
    BLOCK(kind##_add_any, true, TO_ANY, parts)
BLOCKS(bf16, 1)
BLOCK(bf16_bf16, false, TO_BF16, 1)
BLOCK(bf16_add_bf16, true, TO_BF16, 1)
BLOCKS(split, 3)
static block_fn *const table[2][2][WHERES] = {
    { { bf16_begin, bf16_wait, bf16_f32, bf16_bf16, bf16_any },
      { bf16_begin, bf16_add, bf16_add_f32, bf16_add_bf16, bf16_add_any } },
    { { split_begin, split_wait, split_f32, NULL, split_any },
      { split_begin, split_add, split_add_f32, NULL, split_add_any } },
};
/* What is still in the tiles goes out. */
static void finish(work *w)
{
    const sums *s = &w->last;
    const int64_t out = w->g->out_dtype == WF_F32 ? 4 : 2;
    if (s->to == NOWHERE)
        return;
    for (int i = 0; i < 2; i++) /* rows 0-15, 16-31; tiles must be named by constants */
        for (int j = 0; j < 2; j++) {
            float *at = w->spare + (2 * i + j) * HALF * HALF;
            switch (2 * i + j) {
            case 0: WFI_TILE_STORE(w->f, 0, at, 64); break;
            case 1: WFI_TILE_STORE(w->f, 1, at, 64); break;
            case 2: WFI_TILE_STORE(w->f, 2, at, 64); break;
            default: WFI_TILE_STORE(w->f, 3, at, 64); break;
            }
        }
    for (int64_t r = 0; r < SIDE; r++)
        put_row(w->spare, s, r, s->more, (where)s->to, w->g->dtype == WF_F32, out);
    w->last.to = NOWHERE;
}

#endif
