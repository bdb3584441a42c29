/* amx_tile.h - the tile unit of AMX: its operations, and 32 x 32 sums of products made of them. For kernels in files
 * that are named *_amx.c (compiled with AMX) and *_amx_emulated.c (which define WFI_AMX_EMULATED and include them).
 *
 * There are eight tiles of 16 rows of 64 bytes. 0 to 3 hold 32 x 32 sums in f32 (rows 0-15 in 0 and 1, columns 0-15 in
 * 0 and 2), 4 and 5 operand a, 6 and 7 operand b: four loads for four products. A product takes 16 cycles and depends
 * on the last one into the same tile only, so the loads hide behind the products.
 *
 * Operands lie in panels (amx_pack.h). For each 32 of k a panel of 32 rows of a is two tiles of [16 rows][32], a panel
 * of 32 columns of b two tiles of [16 pairs of k][16 columns][2]. Split operands (f32 as three bf16) have three such
 * pairs of tiles, the largest part first.
 *
 *     WFI_TILES_ON();                                        declares what holds emulated tiles
 *     wfi_amx_zero(WFI_TILE_FILE);
 *     for (int64_t p = 0; p < k; p += 32, a += WFI_AMX_STEP, b += WFI_AMX_STEP)
 *         wfi_amx_step(WFI_TILE_FILE, a, b);
 *     wfi_amx_store(WFI_TILE_FILE, c, ld);
 *     WFI_TILES_OFF();
 *
 * One product of tiles adds to each sum
 *     even = fma(a[30], b[30], .. fma(a[2], b[2], fma(a[0], b[0], +0)))      odd = the same over a[1], a[3], .. a[31]
 *     sum = sum + (even + odd)
 * with f32 roundings to nearest even, where inputs and results below 2^-126 count as zero. That is what the manual says
 * of TDPBF16PS (16 pairs a row). With WFI_AMX_EMULATED the operations are scalar C that does the same, bit for bit. */
#ifndef WFI_KERNEL_GEMM_AMX_TILE_H
#define WFI_KERNEL_GEMM_AMX_TILE_H
#include <string.h>
#include "kernel/gemm/gemm_vec.h"

#define WFI_AMX_SIDE 32  /* of the block of sums */
#define WFI_AMX_TILE 512 /* bf16 in a tile */
#define WFI_AMX_STEP                                                                                                   \
    ((int64_t)2 * WFI_AMX_TILE) /* bf16 of a panel for each 32 of k; split operands: three times that */

#ifdef WFI_AMX_EMULATED
typedef struct wfi_tile_file {
    union {
        float f[16][16];
        uint16_t h[16][32];
    } t[8];
} wfi_tile_file;

static inline float wfi_tile_flushed(float f)
{
    uint32_t u = wfi_f32_bits(f);
    return u & 0x7f800000 ? f : wfi_bits_f32(u & 0x80000000);
}
static inline float wfi_tile_add(float a, float b)
{
    return wfi_tile_flushed(wfi_tile_flushed(a) + wfi_tile_flushed(b));
}
static inline float wfi_tile_fma(uint16_t a, uint16_t b, float c)
{
    float x = wfi_tile_flushed(wfi_bf16_wide(a)), y = wfi_tile_flushed(wfi_bf16_wide(b));
    return wfi_tile_flushed(__builtin_fmaf(x, y, c));
}
static inline void wfi_tile_dot(wfi_tile_file *f, int c, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float even = 0, odd = 0;
            for (int p = 0; p < 16; p++) {
                even = wfi_tile_fma(f->t[a].h[i][2 * p], f->t[b].h[p][2 * j], even);
                odd = wfi_tile_fma(f->t[a].h[i][2 * p + 1], f->t[b].h[p][2 * j + 1], odd);
            }
            f->t[c].f[i][j] = wfi_tile_add(f->t[c].f[i][j], wfi_tile_add(even, odd));
        }
}
static inline void wfi_tile_in(wfi_tile_file *f, int t, const void *p, int64_t stride)
{
    for (int i = 0; i < 16; i++)
        memcpy(f->t[t].f[i], (const char *)p + i * stride, 64);
}
static inline void wfi_tile_out(const wfi_tile_file *f, int t, void *p, int64_t stride)
{
    for (int i = 0; i < 16; i++)
        memcpy((char *)p + i * stride, f->t[t].f[i], 64);
}
#define WFI_TILES_ON()                  wfi_tile_file file_
#define WFI_TILES_OFF()                 (void)file_
#define WFI_TILE_FILE                   (&file_)
#define WFI_TILE_ZERO(f, x)             memset(&(f)->t[x], 0, sizeof(f)->t[x])
#define WFI_TILE_LOAD(f, x, p, stride)  wfi_tile_in(f, x, p, stride)
#define WFI_TILE_STORE(f, x, p, stride) wfi_tile_out(f, x, p, stride)
#define WFI_TILE_DOT(f, c, a, b)        wfi_tile_dot(f, c, a, b)
#else
#include <immintrin.h>
typedef struct wfi_tile_file wfi_tile_file; /* the tiles are the processor's */
typedef struct wfi_tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} wfi_tile_config;

static inline void wfi_tiles_on(void)
{
    wfi_tile_config c = { .palette = 1 };
    for (int i = 0; i < 8; i++)
        c.row_bytes[i] = 64, c.rows[i] = 16;
    /* gcc 12 thinks that only eight bytes of it are read, and may leave the others out */
    __asm__ volatile("" : : "r"(&c) : "memory");
    _tile_loadconfig(&c);
}
#define WFI_TILES_ON()                  wfi_tiles_on()
#define WFI_TILES_OFF()                 _tile_release()
#define WFI_TILE_FILE                   ((wfi_tile_file *)NULL)
#define WFI_TILE_ZERO(f, x)             _tile_zero(x)
#define WFI_TILE_LOAD(f, x, p, stride)  _tile_loadd(x, p, stride)
#define WFI_TILE_STORE(f, x, p, stride) _tile_stored(x, p, stride)
#define WFI_TILE_DOT(f, c, a, b)        _tile_dpbf16ps(c, a, b)
#endif

/* ---- 32 x 32 sums ---- */

WFI_INLINE void wfi_amx_zero(wfi_tile_file *f)
{
    (void)f;
    WFI_TILE_ZERO(f, 0);
    WFI_TILE_ZERO(f, 1);
    WFI_TILE_ZERO(f, 2);
    WFI_TILE_ZERO(f, 3);
}
/* Rows are ld bytes apart. */
WFI_INLINE void wfi_amx_load(wfi_tile_file *f, const float *from, int64_t ld)
{
    const char *p = (const char *)from;
    (void)f;
    WFI_TILE_LOAD(f, 0, p, ld);
    WFI_TILE_LOAD(f, 1, p + 64, ld);
    WFI_TILE_LOAD(f, 2, p + 16 * ld, ld);
    WFI_TILE_LOAD(f, 3, p + 16 * ld + 64, ld);
}
WFI_INLINE void wfi_amx_store(wfi_tile_file *f, float *to, int64_t ld)
{
    char *p = (char *)to;
    (void)f;
    WFI_TILE_STORE(f, 0, p, ld);
    WFI_TILE_STORE(f, 1, p + 64, ld);
    WFI_TILE_STORE(f, 2, p + 16 * ld, ld);
    WFI_TILE_STORE(f, 3, p + 16 * ld + 64, ld);
}
/* Two tiles of a, two of b, both new; only a is new; only b is. */
WFI_INLINE void wfi_amx_dots(wfi_tile_file *f, const uint16_t *a, const uint16_t *b)
{
    (void)f;
    WFI_TILE_LOAD(f, 4, a, 64);
    WFI_TILE_LOAD(f, 6, b, 64);
    WFI_TILE_LOAD(f, 7, b + WFI_AMX_TILE, 64);
    WFI_TILE_DOT(f, 0, 4, 6);
    WFI_TILE_LOAD(f, 5, a + WFI_AMX_TILE, 64);
    WFI_TILE_DOT(f, 1, 4, 7);
    WFI_TILE_DOT(f, 2, 5, 6);
    WFI_TILE_DOT(f, 3, 5, 7);
}
WFI_INLINE void wfi_amx_dots_a(wfi_tile_file *f, const uint16_t *a)
{
    (void)f;
    WFI_TILE_LOAD(f, 4, a, 64);
    WFI_TILE_DOT(f, 0, 4, 6);
    WFI_TILE_DOT(f, 1, 4, 7);
    WFI_TILE_LOAD(f, 5, a + WFI_AMX_TILE, 64);
    WFI_TILE_DOT(f, 2, 5, 6);
    WFI_TILE_DOT(f, 3, 5, 7);
}
WFI_INLINE void wfi_amx_dots_b(wfi_tile_file *f, const uint16_t *b)
{
    (void)f;
    WFI_TILE_LOAD(f, 6, b, 64);
    WFI_TILE_DOT(f, 0, 4, 6);
    WFI_TILE_DOT(f, 2, 5, 6);
    WFI_TILE_LOAD(f, 7, b + WFI_AMX_TILE, 64);
    WFI_TILE_DOT(f, 1, 4, 7);
    WFI_TILE_DOT(f, 3, 5, 7);
}

/* 32 of k; of split operands: the product of their largest parts. */
WFI_INLINE void wfi_amx_step(wfi_tile_file *f, const uint16_t *a, const uint16_t *b)
{
    wfi_amx_dots(f, a, b);
}
/* 32 of k of split operands: five of the eight products with smaller parts; tiles are loaded 12 times for 20 products.
 * What is left out is below 2^-26 of |a| |b|. Sum these over some of k first and the largest products on top, then
 * the sums are rounded as often as if there were one product. */
#define WFI_AMX_PART(p, number) ((p) + (number)*WFI_AMX_STEP)
WFI_INLINE void wfi_amx_step_small(wfi_tile_file *f, const uint16_t *a, const uint16_t *b)
{
    wfi_amx_dots(f, WFI_AMX_PART(a, 2), b);
    wfi_amx_dots_a(f, WFI_AMX_PART(a, 1));
    wfi_amx_dots_b(f, WFI_AMX_PART(b, 1));
    wfi_amx_dots_a(f, a);
    wfi_amx_dots_b(f, WFI_AMX_PART(b, 2));
}

#endif
