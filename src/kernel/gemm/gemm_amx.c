/* bf16 products on the tile unit (AMX).
 *
 * Order class `amx pairs`: k is cut into blocks of 32. Within a block the even and the odd elements of k are two chains
 * of fused multiply-adds from +0, whose sum is added to the element; subnormal operands and results count as 0, as the
 * instruction has it (Intel SDM, TDPBF16PS). So blocking over m, n and threads changes no bit.
 *
 * Four accumulators (32 x 32 of c), two tiles of a and two of b: four loads for four products. a is packed in blocks of
 * MB rows that stay in L2, b in panels of 32 columns in the pair order that the instruction wants.
 *
 * The same source with WFI_AMX_EMULATED runs on every machine, so that packing and edges are tested everywhere. */
#include <string.h>
#include "base/dtype.h"
#include "kernel/gemm/gemm.h"
#if defined __x86_64__
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { KB = 32, NB = 32, MB = 256 };

/* ---- the tile unit, or the same in plain C ---- */

#ifdef WFI_AMX_EMULATED
typedef struct tiles {
    float c[4][16][16];
    uint16_t a[2][16][32], b[2][16][32];
} tiles;

static float flush(float x)
{
    return x < 0x1p-126f && x > -0x1p-126f ? 0.0f : x;
}

static float widen(uint16_t h)
{
    return flush(wfi_bf16_to_f32(h));
}

static void dot(float c[16][16], uint16_t a[16][32], uint16_t b[16][32])
{
    for (int m = 0; m < 16; m++)
        for (int n = 0; n < 16; n++) {
            float even = 0, odd = 0;
            for (int k = 0; k < 16; k++) {
                even = flush(__builtin_fmaf(widen(a[m][2 * k]), widen(b[k][2 * n]), even));
                odd = flush(__builtin_fmaf(widen(a[m][2 * k + 1]), widen(b[k][2 * n + 1]), odd));
            }
            c[m][n] = flush(c[m][n] + flush(even + odd));
        }
}

/* The block of c from panels of a [K/32][2][16][32] and b [K/32][2][16][32]. */
static void block(const uint16_t *a, const uint16_t *b, int64_t steps, float *c)
{
    tiles t;
    memset(&t, 0, sizeof t);
    for (int64_t s = 0; s < steps; s++, a += 1024, b += 1024) {
        memcpy(t.a, a, 2048);
        memcpy(t.b, b, 2048);
        for (int i = 0; i < 4; i++)
            dot(t.c[i], t.a[i / 2], t.b[i % 2]);
    }
    for (int i = 0; i < 4; i++)
        for (int m = 0; m < 16; m++)
            memcpy(c + (i / 2 * 16 + m) * NB + i % 2 * 16, t.c[i][m], 64);
}

static void begin(void)
{
}
static void end(void)
{
}
#define TABLE wfi_gemm_amx_emulated
#else
#include <immintrin.h>

static void begin(void)
{
    struct {
        uint8_t palette, start, rest[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config __attribute__((aligned(64)));
    memset(&config, 0, sizeof config);
    config.palette = 1;
    for (int i = 0; i < 8; i++) {
        config.bytes[i] = 64;
        config.rows[i] = 16;
    }
    _tile_loadconfig(&config);
}

static void end(void)
{
    _tile_release();
}

static void block(const uint16_t *a, const uint16_t *b, int64_t steps, float *c)
{
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int64_t s = 0; s < steps; s++, a += 1024, b += 1024) {
        _tile_loadd(4, a, 64);
        _tile_loadd(6, b, 64);
        _tile_loadd(7, b + 512, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, a + 512, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, c, NB * 4);
    _tile_stored(1, c + 16, NB * 4);
    _tile_stored(2, c + 16 * NB, NB * 4);
    _tile_stored(3, c + 16 * NB + 16, NB * 4);
}
#define TABLE wfi_gemm_amx

bool wfi_gemm_amx_permit(void)
{
    unsigned a, b, c, d;
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(7), "c"(0));
    bool there = d >> 22 & 1 && d >> 24 & 1;                  /* AMX-BF16, AMX-TILE */
    return there && syscall(SYS_arch_prctl, 0x1023, 18) == 0; /* ARCH_REQ_XCOMP_PERM, tile data */
}
#endif

/* ---- packing ---- */

/* Rows i .. i + 32 of a: [K/32][2][16 rows][32], rows and columns that are not there are zeros. */
static void pack_a(const wfi_gemm *g, const uint16_t *a, int64_t i, int64_t steps, uint16_t *to)
{
    memset(to, 0, (size_t)steps * 2048);
    for (int64_t r = 0; r < 32 && i + r < g->m; r++)
        for (int64_t k = 0; k < g->k; k += KB) {
            uint16_t *row = to + k / KB * 1024 + r * 32;
            int64_t n = g->k - k < KB ? g->k - k : KB;
            const uint16_t *from = a + (i + r) * g->a_m + k * g->a_k;
            if (g->a_k == 1)
                memcpy(row, from, (size_t)n * 2);
            else
                for (int64_t q = 0; q < n; q++)
                    row[q] = from[q * g->a_k];
        }
}

/* Columns j .. j + 32 of b: [K/32][2][16 pairs of k][16 columns x 2]. */
static void pack_b(const wfi_gemm *g, const uint16_t *b, int64_t j, int64_t steps, uint16_t *to)
{
    memset(to, 0, (size_t)steps * 2048);
    int64_t n = g->n - j < NB ? g->n - j : NB;
    for (int64_t k = 0; k < g->k; k++) {
        const uint16_t *from = b + k * g->b_k + j * g->b_n;
        uint16_t *row = to + k / KB * 1024 + k % KB / 2 * 32 + k % 2;
        for (int64_t q = 0; q < n; q++)
            row[q / 16 * 512 + q % 16 * 2] = from[q * g->b_n];
    }
}

static void put(const wfi_gemm *g, const float *from, char *c, int64_t i, int64_t j)
{
    int64_t m = g->m - i < 32 ? g->m - i : 32, n = g->n - j < NB ? g->n - j : NB;
    for (int64_t r = 0; r < m; r++)
        for (int64_t q = 0; q < n; q++) {
            int64_t at = (i + r) * g->c_m + (j + q) * g->c_n;
            if (g->out_dtype == WF_F32)
                ((float *)c)[at] = from[r * NB + q];
            else
                ((uint16_t *)c)[at] = wfi_f32_to_bf16(from[r * NB + q]);
        }
}

/* ---- the product ---- */

typedef struct job {
    const wfi_gemm *g;
    char *c;
    const uint16_t *a, *b;
    char *scratch;
} job;

/* Chunk: one block of MB rows of one product of the batch. */
static void rows(void *arg, int64_t chunk, int worker)
{
    const job *w = arg;
    const wfi_gemm *g = w->g;
    int64_t steps = (g->k + KB - 1) / KB, part = chunk % g->parts_m, at = chunk / g->parts_m;
    char *c = w->c;
    const uint16_t *a = w->a, *b = w->b;
    for (int32_t d = g->nbatch; d-- > 0; at /= g->batch[d]) {
        int64_t i = at % g->batch[d];
        c += i * g->c_batch[d] * (g->out_dtype == WF_F32 ? 4 : 2);
        a += i * g->a_batch[d];
        b += i * g->b_batch[d];
    }
    char *mine = w->scratch + worker * g->each;
    uint16_t *pa = (uint16_t *)(void *)mine, *pb = (uint16_t *)(void *)(mine + g->pb_at);
    float *cs = (float *)(void *)(mine + g->cs_at);
    int64_t i0 = part * MB, i1 = i0 + MB < g->m ? i0 + MB : g->m;
    for (int64_t i = i0; i < i1; i += 32)
        pack_a(g, a, i, steps, pa + (i - i0) / 32 * steps * 1024);
    begin();
    for (int64_t j = 0; j < g->n; j += NB) {
        pack_b(g, b, j, steps, pb);
        for (int64_t i = i0; i < i1; i += 32) {
            block(pa + (i - i0) / 32 * steps * 1024, pb, steps, cs);
            put(g, cs, c, i, j);
        }
    }
    end();
}

static const char *prepare(const wfi_view *a, const wfi_view *b, const wfi_view *c, int threads, wfi_gemm *g,
                           size_t *scratch)
{
    int d = c->ndim - 2;
    *scratch = 0;
    if (a->dtype != WF_BF16 || b->dtype != WF_BF16 || (c->dtype != WF_BF16 && c->dtype != WF_F32))
        return "the tile unit multiplies bf16";
    if (d < 0 || d > WFI_GEMM_BATCH_MAX || a->ndim != c->ndim || b->ndim != c->ndim)
        return "ranks differ";
    *g = (wfi_gemm){ .dtype = WF_BF16,
                     .out_dtype = (int32_t)c->dtype,
                     .m = c->dim[d],
                     .n = c->dim[d + 1],
                     .k = a->dim[d + 1],
                     .a_m = a->stride[d],
                     .a_k = a->stride[d + 1],
                     .b_k = b->stride[d],
                     .b_n = b->stride[d + 1],
                     .c_m = c->stride[d],
                     .c_n = c->stride[d + 1],
                     .nbatch = d,
                     .threads = threads,
                     .batches = 1 };
    if (g->m < 16 || g->n < 16 || g->k < 32)
        return "too small for tiles";
    for (int i = 0; i < d; i++) {
        g->batch[i] = c->dim[i];
        g->a_batch[i] = a->stride[i];
        g->b_batch[i] = b->stride[i];
        g->c_batch[i] = c->stride[i];
        g->batches *= c->dim[i];
    }
    int64_t panel = (g->k + KB - 1) / KB * 2048;
    g->parts_m = (g->m + MB - 1) / MB;
    g->chunks = g->batches * g->parts_m;
    g->pb_at = panel * (MB / 32);
    g->cs_at = g->pb_at + panel;
    g->each = g->cs_at + 32 * NB * 4;
    *scratch = (size_t)g->each * (size_t)(threads > 1 ? threads : 1);
    return NULL;
}

static void run(const void *params, void *const *args, const wfi_run *r)
{
    const wfi_gemm *g = params;
    job w = { g, args[0], args[1], args[2], r->scratch };
    if (g->chunks)
        wfi_pool_run(r->pool, g->chunks, rows, &w);
}

extern const wfi_gemm_kernels TABLE;
const wfi_gemm_kernels TABLE = { "gemm amx", "amx pairs", prepare, run };
