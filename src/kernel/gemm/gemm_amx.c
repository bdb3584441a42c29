/* gemm_amx.c - products of bf16 on the tile unit of AMX.
 *
 * Order class `amx pairs`. For every 32 values of k, ascending (zeros are added behind the last), an element gets
 *     even = fma(a[30], b[30], .. fma(a[2], b[2], fma(a[0], b[0], +0)))        odd = the same over a[1], a[3], .. a[31]
 *     c = c + (even + odd)
 * with f32 roundings to nearest even, where inputs and results below 2^-126 count as zero; c starts at +0 and is
 * rounded once to its type at the end. That is what the manual says of TDPBF16PS (16 pairs a row). Blocks are multiples
 * of 32 of k, so they change nothing.
 *
 * The kernel is written over five tile operations. With WFI_AMX_EMULATED they are scalar C that does what the manual
 * says, so that packing, edges and blocks are tested on machines without the unit (gemm_amx_emulated.c).
 *
 * Eight tiles: four accumulators (32 x 32 of c), two of a, two of b: four loads for four products. Panels of 32 rows of
 * a are [k/32][2][16 rows][32], panels of 32 columns of b [k/32][2][16 pairs][16 columns][2]. Loops: superblock of n
 * and of m > block of k > block of m (a in L2) > panel of b > panel of a. */
#include <string.h>
#include "kernel/gemm/gemm_plan.h"
#include "kernel/gemm/gemm_vec.h"

#define SIDE   32   /* of the block of c that four tiles hold */
#define ACROSS 1024 /* rows and columns within which chains wait for the next block of k */
#define DEEP   2048 /* of k in one block */
#define HIGH   256  /* rows of a packed at a time: 1 MiB when DEEP */
#define TILE   512  /* bf16 in a tile */

/* -- tile operations ---------------------------------------------------------------------------------------------- */
#ifdef WFI_AMX_EMULATED
typedef struct tile_file {
    union {
        float f[16][16];
        uint16_t h[16][32];
    } t[8];
} tile_file;

static float flushed(float f)
{
    uint32_t u = wfi_f32_bits(f);
    return u & 0x7f800000 ? f : wfi_bits_f32(u & 0x80000000);
}
static float add_flushed(float a, float b)
{
    return flushed(flushed(a) + flushed(b));
}
static float fma_flushed(uint16_t a, uint16_t b, float c)
{
    return flushed(__builtin_fmaf(flushed(wfi_bf16_wide(a)), flushed(wfi_bf16_wide(b)), c));
}
static void dot(tile_file *f, int c, int a, int b)
{
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 16; j++) {
            float even = 0, odd = 0;
            for (int p = 0; p < 16; p++) {
                even = fma_flushed(f->t[a].h[i][2 * p], f->t[b].h[p][2 * j], even);
                odd = fma_flushed(f->t[a].h[i][2 * p + 1], f->t[b].h[p][2 * j + 1], odd);
            }
            f->t[c].f[i][j] = add_flushed(f->t[c].f[i][j], add_flushed(even, odd));
        }
}
static void copy_in(tile_file *f, int t, const void *p, int64_t stride)
{
    for (int i = 0; i < 16; i++)
        memcpy(f->t[t].f[i], (const char *)p + i * stride, 64);
}
static void copy_out(const tile_file *f, int t, void *p, int64_t stride)
{
    for (int i = 0; i < 16; i++)
        memcpy((char *)p + i * stride, f->t[t].f[i], 64);
}
#define TILES_ON()               tile_file file_
#define TILES_OFF()              (void)file_
#define TILE_FILE                &file_
#define TILE_ZERO(x)             memset(&f_->t[x], 0, sizeof f_->t[x])
#define TILE_LOAD(x, p, stride)  copy_in(f_, x, p, stride)
#define TILE_STORE(x, p, stride) copy_out(f_, x, p, stride)
#define TILE_DOT(c, a, b)        dot(f_, c, a, b)
#ifndef NAME /* a test compiles this file once more, without vectors */
#define NAME wfi_gemm_amx_emulated
#endif
#define NAME_TEXT "gemm amx emulated"
#else
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
typedef struct tile_file {
    char none;
} tile_file;
typedef struct tile_config {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
} tile_config;

static void tiles_on(void)
{
    tile_config c = { .palette = 1 };
    for (int i = 0; i < 8; i++)
        c.row_bytes[i] = 64, c.rows[i] = 16;
    _tile_loadconfig(&c);
}
#define TILES_ON()               tiles_on()
#define TILES_OFF()              _tile_release()
#define TILE_FILE                NULL
#define TILE_ZERO(x)             _tile_zero(x)
#define TILE_LOAD(x, p, stride)  _tile_loadd(x, p, stride)
#define TILE_STORE(x, p, stride) _tile_stored(x, p, stride)
#define TILE_DOT(c, a, b)        _tile_dpbf16ps(c, a, b)
#define NAME                     wfi_gemm_amx
#define NAME_TEXT                "gemm amx"
#endif

/* 32 x 32 of c: `steps` times 32 of k. in: chains that go on, 32 floats a row (NULL: from +0); out: rows `ld` bytes
 * apart. */
static inline void block_32(tile_file *f_, const uint16_t *a, const uint16_t *b, int64_t steps, const float *in,
                            float *out, int64_t ld)
{
    (void)f_;
    if (in) {
        TILE_LOAD(0, in, 128);
        TILE_LOAD(1, in + 16, 128);
        TILE_LOAD(2, in + 16 * SIDE, 128);
        TILE_LOAD(3, in + 16 * SIDE + 16, 128);
    } else {
        TILE_ZERO(0);
        TILE_ZERO(1);
        TILE_ZERO(2);
        TILE_ZERO(3);
    }
    for (; steps > 0; steps--, a += 2 * TILE, b += 2 * TILE) {
        TILE_LOAD(4, a, 64);
        TILE_LOAD(6, b, 64);
        TILE_LOAD(7, b + TILE, 64);
        TILE_DOT(0, 4, 6);
        TILE_LOAD(5, a + TILE, 64);
        TILE_DOT(1, 4, 7);
        TILE_DOT(2, 5, 6);
        TILE_DOT(3, 5, 7);
    }
    char *o = (char *)out;
    TILE_STORE(0, o, ld);
    TILE_STORE(1, o + 64, ld);
    TILE_STORE(2, o + 16 * ld, ld);
    TILE_STORE(3, o + 16 * ld + 64, ld);
}

/* -- packing ------------------------------------------------------------------------------------------------------ */

/* dst[r][p] = src[r*sr + p*sp], r < 16 and p < 32; beyond rows and k zeros. Any strides. */
static void tile_rows_any(const uint16_t *src, int64_t sr, int64_t sp, int64_t rows, int64_t k, uint16_t *dst)
{
    memset(dst, 0, TILE * sizeof *dst);
    for (int64_t r = 0; r < rows && r < 16; r++)
        for (int64_t p = 0; p < k && p < 32; p++)
            dst[r * 32 + p] = src[r * sr + p * sp];
}
/* dst[p][j][2] = src[(2p or 2p+1)*sp + j*sj], p < 16 pairs, j < 16 */
static void tile_pairs_any(const uint16_t *src, int64_t sp, int64_t sj, int64_t k, int64_t cols, uint16_t *dst)
{
    memset(dst, 0, TILE * sizeof *dst);
    for (int64_t p = 0; p < k && p < 32; p++)
        for (int64_t j = 0; j < cols && j < 16; j++)
            dst[p / 2 * 32 + 2 * j + p % 2] = src[p * sp + j * sj];
}
#if defined __AVX512F__ && defined __AVX512BW__
/* dst[r][p] = src[r*ld + p], whole tiles. */
static inline void tile_copy(const uint16_t *src, int64_t ld, uint16_t *dst)
{
    for (int r = 0; r < 16; r++)
        _mm512_store_si512(dst + r * 32, _mm512_loadu_si512(src + r * ld));
}
/* v[p][j][2] = src[(2p or 2p+1)*ld + j]: rows of k made pairs */
static inline void pair_rows(const uint16_t *src, int64_t ld, wfi_vi4 *v)
{
    for (int p = 0; p < 16; p++) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(const void *)(src + 2 * p * ld));
        __m256i y = _mm256_loadu_si256((const __m256i *)(const void *)(src + (2 * p + 1) * ld));
        v[p] = (wfi_vi4)_mm512_or_si512(_mm512_cvtepu16_epi32(x), _mm512_slli_epi32(_mm512_cvtepu16_epi32(y), 16));
    }
}
static inline void store_16(const wfi_vi4 *v, uint16_t *dst)
{
    for (int p = 0; p < 16; p++)
        _mm512_store_si512(dst + p * 32, (__m512i)v[p]);
}
/* The same pairs, but each column lies along k: 16 x 16 pairs change places. */
static inline void load_16(const uint16_t *src, int64_t ld, wfi_vi4 *v)
{
    for (int j = 0; j < 16; j++)
        v[j] = (wfi_vi4)_mm512_loadu_si512(src + j * ld);
}
#define VECTORS 1
#else
#define VECTORS 0
#endif

/* One tile of a panel of a: 16 rows, 32 of k. */
static void pack_rows(const uint16_t *src, int64_t sr, int64_t sp, int64_t rows, int64_t k, uint16_t *dst)
{
#if VECTORS
    if (rows >= 16 && k >= 32 && sp == 1) {
        tile_copy(src, sr, dst);
        return;
    }
    if (rows >= 16 && k >= 32 && sr == 1) {
        wfi_vi4 v[16];
        pair_rows(src, sp, v);
        wfi_transpose4(v);
        store_16(v, dst);
        return;
    }
#endif
    tile_rows_any(src, sr, sp, rows, k, dst);
}
/* One tile of a panel of b: 16 pairs, 16 columns. */
static void pack_pairs(const uint16_t *src, int64_t sp, int64_t sj, int64_t k, int64_t cols, uint16_t *dst)
{
#if VECTORS
    if (cols >= 16 && k >= 32 && (sj == 1 || sp == 1)) {
        wfi_vi4 v[16];
        if (sj == 1) {
            pair_rows(src, sp, v);
        } else {
            load_16(src, sj, v);
            wfi_transpose4(v);
        }
        store_16(v, dst);
        return;
    }
#endif
    tile_pairs_any(src, sp, sj, k, cols, dst);
}
/* A panel of 32 rows of a, or 32 columns of b, k deep (padded to a multiple of 32). */
static void panel_a(const wfi_gemm *g, const uint16_t *a, int64_t rows, int64_t k, uint16_t *dst)
{
    for (int64_t p = 0; p < k; p += 32)
        for (int half = 0; half < 2; half++, dst += TILE)
            pack_rows(a + 16 * half * g->a_m + p * g->a_k, g->a_m, g->a_k, rows - 16 * half, k - p, dst);
}
static void panel_b(const wfi_gemm *g, const uint16_t *b, int64_t cols, int64_t k, uint16_t *dst)
{
    for (int64_t p = 0; p < k; p += 32)
        for (int half = 0; half < 2; half++, dst += TILE)
            pack_pairs(b + 16 * half * g->b_n + p * g->b_k, g->b_k, g->b_n, k - p, cols - 16 * half, dst);
}

/* -- one part ----------------------------------------------------------------------------------------------------- */

static void put_block(const wfi_gemm *g, const float *src, int64_t rows, int64_t cols, char *c)
{
    const int64_t out = bytes_of(g->out_dtype);
    for (int64_t i = 0; i < rows; i++, src += SIDE, c += g->c_m * out) {
        if (g->plain) {
            memcpy(c, src, (size_t)cols * 4);
            continue;
        }
        int64_t j = 0;
        if (out == 2 && g->c_n == 1)
            for (; j + WFI_LANES <= cols; j += WFI_LANES) {
                wfi_vf4 v;
                memcpy(&v, src + j, sizeof v);
                wfi_bf16_st((uint16_t *)(void *)c + j, v);
            }
        for (; j < cols; j++) {
            char *at = c + j * g->c_n * out;
            uint16_t h = wfi_bf16_narrow(src[j]);
            memcpy(at, out == 2 ? (const void *)&h : (const void *)(src + j), (size_t)out);
        }
    }
}
/* A block of m (a packed in pa, mc rows) against nc packed columns. */
static void block_of_m(tile_file *f, const wfi_gemm *g, const uint16_t *pa, const uint16_t *pb, int64_t mc, int64_t nc,
                       int64_t kc, float *wait, int64_t column, bool first, bool last, char *c)
{
    _Alignas(64) float spare[SIDE * SIDE];
    const int64_t steps = (kc + 31) / 32, out = bytes_of(g->out_dtype);
    for (int64_t j = 0; j < nc; j += SIDE)
        for (int64_t i = 0; i < mc; i += SIDE) {
            const uint16_t *a = pa + i * steps * 32, *b = pb + j * steps * 32;
            float *chain = wait + j / SIDE * column + i * SIDE;
            int64_t rows = min64(SIDE, mc - i), cols = min64(SIDE, nc - j);
            char *to = c + (i * g->c_m + j * g->c_n) * out;
            const float *in = first ? NULL : chain;
            if (!last) {
                block_32(f, a, b, steps, in, chain, 128);
            } else if (g->plain && rows == SIDE && cols == SIDE) {
                block_32(f, a, b, steps, in, (float *)(void *)to, g->c_m * 4);
            } else {
                block_32(f, a, b, steps, in, spare, 128);
                put_block(g, spare, rows, cols, to);
            }
        }
}
static void tiles(const wfi_gemm *g, const wfi_gemm_part *p)
{
    uint16_t *pa = (uint16_t *)(void *)p->scratch, *pb = (uint16_t *)(void *)(p->scratch + g->pb_at);
    float *cs = (float *)(void *)(p->scratch + g->cs_at);
    const uint16_t *a = (const uint16_t *)(const void *)p->a, *b = (const uint16_t *)(const void *)p->b;
    const int64_t out = bytes_of(g->out_dtype);
    TILES_ON();
    for (int64_t js = 0; js < p->n; js += g->ns)
        for (int64_t is = 0; is < p->m; is += g->sb)
            for (int64_t pc = 0; pc < g->k || !pc; pc += g->kb) {
                int64_t n = min64(g->ns, p->n - js), m = min64(g->sb, p->m - is), kc = min64(g->kb, g->k - pc);
                int64_t padded = round_up(kc, 32);
                for (int64_t j = 0; j < n; j += SIDE)
                    panel_b(g, b + pc * g->b_k + (js + j) * g->b_n, n - j, kc, pb + j * padded);
                for (int64_t ic = 0; ic < m; ic += g->mb) {
                    int64_t mc = min64(g->mb, m - ic);
                    for (int64_t i = 0; i < mc; i += SIDE)
                        panel_a(g, a + (is + ic + i) * g->a_m + pc * g->a_k, mc - i, kc, pa + i * padded);
                    block_of_m(TILE_FILE, g, pa, pb, mc, n, kc, cs + ic * SIDE, round_up(g->sb, SIDE) * SIDE, !pc,
                               pc + kc >= g->k, p->c + ((is + ic) * g->c_m + js * g->c_n) * out);
                }
            }
    TILES_OFF();
}

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *out,
                           size_t *scratch)
{
    if (a->dtype != WF_BF16)
        return "no product of this element type on AMX";
    const char *why = fits(a, b, c);
    if (why)
        return why;
    /* by the logical shape alone: the other class has other bits */
    const int d = c->ndim - 2;
    if (c->dim[d] < 8 || c->dim[d + 1] < 8 || a->dim[d + 1] < 16)
        return "too small for tiles";
    wfi_gemm g;
    size_t all = 0;
    int64_t m, n;
    if (describe(&g, a, b, c)) {
        choose_parts(&g, threads, SIDE, SIDE, 1);
        part_size(&g, &m, &n);
        g.tier = WFI_GEMM_PACKED;
        g.kb = min64(round_up(g.k, 32), DEEP);
        g.mb = min64(round_up(m, SIDE), HIGH);
        g.sb = min64(round_up(m, SIDE), ACROSS);
        g.ns = min64(round_up(n, SIDE), ACROSS);
        g.pb_at = g.kb * g.mb * 2;
        g.cs_at = g.pb_at + g.kb * g.ns * 2;
        g.each = g.cs_at + (g.k > g.kb ? g.sb * g.ns * 4 : 0);
        if (!wfi_ck_mul((size_t)g.each, (size_t)g.threads, &all))
            return "too large";
    }
    *out = g, *scratch = all;
    return NULL;
}
static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    if (g->tier != WFI_GEMM_NOTHING)
        run_all(g, tiles, args, (wfi_kept_b){ NULL, NULL }, r);
}

extern const wfi_gemm_kernels NAME;
const wfi_gemm_kernels NAME = { .name = NAME_TEXT, .order = "amx pairs", .prepare = prepare, .run = run };

#ifndef WFI_AMX_EMULATED
/* -- permission: no instruction of this file's set may run before it is known to be there ------------------------ */
#define BASELINE __attribute__((target("no-avx,no-avx2,no-avx512f")))
BASELINE static void cpuid(uint32_t leaf, uint32_t r[4])
{
    __asm__ volatile("cpuid" : "=a"(r[0]), "=b"(r[1]), "=c"(r[2]), "=d"(r[3]) : "0"(leaf), "2"(0));
}
BASELINE bool wfi_gemm_amx_permit(void)
{
    uint32_t r[4], low, high;
    cpuid(0, r);
    if (r[0] < 7)
        return false;
    cpuid(1, r);
    if (!(r[2] >> 27 & 1)) /* OSXSAVE */
        return false;
    cpuid(7, r);
    if (!(r[3] >> 22 & 1) || !(r[3] >> 24 & 1)) /* AMX-BF16, AMX-TILE */
        return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    if ((low & 0x600e6) != 0x600e6) /* SSE, AVX, AVX-512, tiles: saved by the kernel */
        return false;
    return syscall(SYS_arch_prctl, 0x1023 /* ARCH_REQ_XCOMP_PERM */, 18 /* tile data */) == 0;
}
#endif
