/* Matrix products: bit for bit the three plain loops, for every type, layout, tier, thread count and instruction set.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "base/pool.h"
#include "kernel/gemm/gemm.h"

#define FIRST_SEED 0x9e3779b97f4a7c15u
#include "seeded.h"

static int64_t below(int64_t n)
{
    return (int64_t)(rnd() % (uint64_t)n);
}

/* -- scalars ------------------------------------------------------------------------------------------------------ */
static float f32_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, 4);
    return f;
}
static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}
static float f16_wide(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float f = e == 31 ? (m ? f32_of(0x7fc00000) : f32_of(0x7f800000)) : e ? (float)(1024 + m) : (float)m;
    if (e != 31)
        f *= f32_of((uint32_t)(127 - 25 + (e ? e : 1)) << 23);
    return h & 0x8000 ? -f : f;
}
static uint16_t f16_narrow(float f) /* by search: the nearest of the two neighbours, ties to even */
{
    uint16_t s = bits_of(f) >> 31 ? 0x8000 : 0;
    float a = f < 0 ? -f : f;
    if (f != f)
        return 0x7e00;
    if (a >= 65520)
        return (uint16_t)(s | 0x7c00);
    uint16_t lo = 0, hi = 0x7c00;
    while (hi - lo > 1) {
        uint16_t mid = (uint16_t)((lo + hi) / 2);
        if (f16_wide(mid) <= a)
            lo = mid;
        else
            hi = mid;
    }
    double low = a - (double)f16_wide(lo), high = (hi == 0x7c00 ? 65536.0 : (double)f16_wide(hi)) - a;
    return (uint16_t)(s | (low < high || (low == high && !(lo & 1)) ? lo : hi));
}
static uint16_t bf16_narrow(float f)
{
    uint32_t u = bits_of(f);
    return f != f ? 0x7fc0 : (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
static float wide(wf_dtype t, const void *p)
{
    uint16_t h;
    memcpy(&h, p, 2);
    return t == WF_BF16 ? f32_of((uint32_t)h << 16) : f16_wide(h);
}

/* -- tensors: a view inside a block of memory whose other bytes must not change --------------------------------- */
typedef struct tensor {
    wfi_view view;
    char *block, *origin;
    size_t bytes;
} tensor;

static size_t size_of(wf_dtype t)
{
    return t == WF_F64 || t == WF_I64 ? 8 : t == WF_BF16 || t == WF_F16 ? 2 : 4;
}
static void put_random(wf_dtype t, char *p)
{
    float f = (float)(int32_t)rnd() * 0x1p-30f;
    double d = (double)(int32_t)rnd() * 0x1p-30 + (double)(int32_t)rnd() * 0x1p-50;
    uint64_t u = (uint64_t)rnd() << 32 | rnd();
    uint16_t h = t == WF_BF16 ? bf16_narrow(f) : (uint16_t)((rnd() & 0x83ff) | (9 + rnd() % 7) << 10);
    switch (t) {
    case WF_F64: memcpy(p, &d, 8); break;
    case WF_I64: memcpy(p, &u, 8); break;
    case WF_I32: memcpy(p, &u, 4); break;
    case WF_F32: memcpy(p, &f, 4); break;
    default: memcpy(p, &h, 2); break;
    }
}
enum { DENSE = 0, TURNED = 1, WIDE_ROWS = 2, STEPS = 3, BACKWARDS = 4, REPEATED = 5, LAYOUTS = 6 };
static tensor tensor_new(wf_dtype t, int ndim, const int64_t *dim, const bool *repeat, int layout)
{
    tensor x = { .view = { .dtype = t, .ndim = ndim } };
    int64_t span = 1, low = 0;
    for (int i = 0; i < ndim; i++)
        x.view.dim[i] = dim[i];
    for (int q = ndim - 1; q >= 0; q--) {
        int i = layout == TURNED && q >= ndim - 2 ? 2 * ndim - 3 - q : q;
        int64_t step = layout == STEPS ? 2 : 1;
        if (q == ndim - 2 && (layout == WIDE_ROWS || layout == STEPS))
            span += 5;
        if ((repeat && repeat[i]) || (layout == REPEATED && i == ndim - 1)) {
            x.view.stride[i] = 0;
            continue;
        }
        x.view.stride[i] = span * (q == ndim - 1 ? step : 1);
        span *= dim[i] * (q == ndim - 1 ? step : 1);
        if (layout == BACKWARDS && i >= ndim - 2) {
            low += x.view.stride[i] * (dim[i] - 1);
            x.view.stride[i] = -x.view.stride[i];
        }
    }
    size_t e = size_of(t);
    x.bytes = ((size_t)(span > 0 ? span : 1) + 9) * e;
    x.block = malloc(x.bytes);
    assert_non_null(x.block);
    for (size_t i = 0; i < x.bytes / e; i++)
        put_random(t, x.block + i * e);
    x.origin = x.block + (8 + (size_t)(low > 0 ? low : 0)) * e;
    return x;
}
static char *at(const tensor *x, const int64_t *index)
{
    int64_t k = 0;
    for (int i = 0; i < x->view.ndim; i++)
        k += index[i] * x->view.stride[i];
    return x->origin + k * (int64_t)size_of(x->view.dtype);
}

/* -- the oracle --------------------------------------------------------------------------------------------------- */
static bool fused;
#if defined __x86_64__
#define FUSED __attribute__((target("fma"))) /* an instruction instead of a call; only run where the CPU has it */
#else
#define FUSED
#endif
FUSED static float chain_f32(int64_t k, const float *x, const float *y)
{
    float f = 0;
    for (int64_t p = 0; p < k; p++)
        f = __builtin_fmaf(x[p], y[p], f);
    return f;
}
FUSED static double chain_f64(int64_t k, const double *x, const double *y)
{
    double f = 0;
    for (int64_t p = 0; p < k; p++)
        f = __builtin_fma(x[p], y[p], f);
    return f;
}
static float sum_f32(int64_t k, const float *x, const float *y)
{
    float f = 0;
    for (int64_t p = 0; p < k; p++)
        f = x[p] * y[p] + f;
    return f;
}
static double sum_f64(int64_t k, const double *x, const double *y)
{
    double f = 0;
    for (int64_t p = 0; p < k; p++)
        f = x[p] * y[p] + f;
    return f;
}
static uint64_t sum_int(int64_t k, const uint64_t *x, const uint64_t *y)
{
    uint64_t u = 0;
    for (int64_t p = 0; p < k; p++)
        u += x[p] * y[p];
    return u;
}
/* k elements, `step` elements apart, as f32 (16-bit types, f32), f64 or u64 */
static void line(wf_dtype t, int64_t k, const char *p, int64_t step, void *out)
{
    for (int64_t i = 0; i < k; i++, p += step * (int64_t)size_of(t)) {
        uint32_t u = 0;
        float f = 0;
        switch (t) {
        case WF_F64:
        case WF_I64: memcpy((char *)out + 8 * i, p, 8); break;
        case WF_I32:
            memcpy(&u, p, 4);
            ((uint64_t *)out)[i] = u;
            break;
        case WF_F32: memcpy((char *)out + 4 * i, p, 4); break;
        default:
            f = wide(t, p);
            memcpy((char *)out + 4 * i, &f, 4);
            break;
        }
    }
}
static void finish(wf_dtype t, float f, char *out)
{
    uint16_t h = t == WF_BF16 ? bf16_narrow(f) : t == WF_F16 ? f16_narrow(f) : 0;
    if (t == WF_F32)
        memcpy(out, &f, 4);
    else
        memcpy(out, &h, 2);
}
static void element(wf_dtype t, wf_dtype to, int64_t k, const char *x, const char *y, char *out)
{
    const void *p = x, *q = y;
    if (t == WF_F64) {
        double s = fused ? chain_f64(k, p, q) : sum_f64(k, p, q);
        memcpy(out, &s, 8);
    } else if (t == WF_I32 || t == WF_I64) {
        uint64_t s = sum_int(k, p, q);
        memcpy(out, &s, size_of(t));
    } else {
        finish(to, fused ? chain_f32(k, p, q) : sum_f32(k, p, q), out);
    }
}
/* The product of one batch, into the copy of c's block. i: the batch's index, with room for two more. */
static void product(const tensor *a, const tensor *b, const tensor *c, int64_t *i, char *want)
{
    const int d = c->view.ndim - 2;
    const wf_dtype t = a->view.dtype;
    const int64_t m = c->view.dim[d], n = c->view.dim[d + 1], k = a->view.dim[d + 1];
    char *x = malloc((size_t)(m * k) * 8 + 8), *y = malloc((size_t)(n * k) * 8 + 8);
    assert_true(x && y);
    i[d + 1] = 0;
    for (i[d] = 0; i[d] < m; i[d]++)
        line(t, k, at(a, i), a->view.stride[d + 1], x + i[d] * k * 8);
    i[d] = 0;
    for (i[d + 1] = 0; i[d + 1] < n; i[d + 1]++)
        line(t, k, at(b, i), b->view.stride[d], y + i[d + 1] * k * 8);
    for (i[d] = 0; i[d] < m; i[d]++)
        for (i[d + 1] = 0; i[d + 1] < n; i[d + 1]++)
            element(t, c->view.dtype, k, x + i[d] * k * 8, y + i[d + 1] * k * 8, want + (at(c, i) - c->block));
    i[d] = i[d + 1] = 0;
    free(x), free(y);
}
/* A copy of c's block with the product in place. */
static char *expect(const tensor *a, const tensor *b, const tensor *c)
{
    char *want = malloc(c->bytes);
    assert_non_null(want);
    memcpy(want, c->block, c->bytes);
    int64_t i[WF_RANK_MAX] = { 0 }, n = 1;
    for (int d = 0; d < c->view.ndim - 2; d++)
        n *= c->view.dim[d];
    while (n-- > 0) {
        product(a, b, c, i, want);
        for (int d = c->view.ndim - 3; d >= 0 && ++i[d] == c->view.dim[d]; d--)
            i[d] = 0;
    }
    return want;
}

/* -- one product, all thread counts ------------------------------------------------------------------------------- */
static const wfi_gemm_kernels *gemm;
static int tiers_seen[WFI_GEMM_TIERS];

/* The same with b packed before, for as many runs as one likes: two. */
static int kept_seen;
static void run_kept(const wfi_gemm *g, void *const *args, const wfi_run *r, const tensor *c, const char *before,
                     const char *want)
{
    const size_t bytes = gemm->keep_bytes(g);
    if (!bytes)
        return;
    char *room = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(room);
    memset(room, 0xff, bytes + 64);
    memset(room + bytes, 0x5a, 64);
    void *const with[4] = { args[0], args[1], args[2], room }, *const without[4] = { args[0], args[1], NULL, room };
    gemm->keep(g, with, r);
    for (int i = 0; i < 64; i++)
        assert_int_equal(room[bytes + (size_t)i], 0x5a);
    for (int i = 0; i < 2; i++) {
        memcpy(c->block, before, c->bytes);
        gemm->run_kept(g, without, r);
        assert_memory_equal(c->block, want, c->bytes);
    }
    kept_seen++;
    free(room);
}

/* The same with k cut in two: the second run goes on where the first ended. */
static int onto_seen;
static void run_in_two(const tensor *a, const tensor *b, const tensor *c, int threads, const char *before,
                       const char *want)
{
    const int d = c->view.ndim - 2;
    const int64_t k = a->view.dim[d + 1], half = k > 40 ? k * 2 / 5 : k / 2;
    if (strcmp(gemm->order, "chain") != 0 || size_of(a->view.dtype) == 2)
        return;
    memcpy(c->block, before, c->bytes);
    for (int part = 0; part < 2; part++) {
        wfi_view x = a->view, y = b->view;
        wfi_gemm g;
        size_t scratch = 1;
        const int64_t at = part ? half : 0;
        x.dim[d + 1] = y.dim[d] = part ? k - half : half;
        assert_null(gemm->prepare(&x, &y, &c->view, threads, &g, &scratch));
        assert_true(!part || wfi_gemm_onto(&g));
        char *room = aligned_alloc(64, (scratch + 63) / 64 * 64 + 64);
        assert_non_null(room);
        memset(room, 0xff, scratch + 64);
        wfi_fault fault = { 0 };
        const int64_t size = (int64_t)size_of(a->view.dtype);
        gemm->run(&g,
                  (void *[]){ c->origin, a->origin + at * a->view.stride[d + 1] * size,
                              b->origin + at * b->view.stride[d] * size },
                  &(wfi_run){ pool[threads], room, &fault });
        free(room);
    }
    assert_memory_equal(c->block, want, c->bytes);
    onto_seen++;
}

static void run_one(const tensor *a, const tensor *b, const tensor *c, int threads, const char *want)
{
    wfi_gemm g;
    size_t scratch = 1;
    const char *why = gemm->prepare(&a->view, &b->view, &c->view, threads, &g, &scratch);
    assert_null(why);
    tiers_seen[g.tier]++;
    void *copy = malloc(sizeof g); /* parameters are plain data */
    char *room = aligned_alloc(64, (scratch + 63) / 64 * 64 + 64);
    assert_non_null(copy);
    assert_non_null(room);
    memcpy(copy, &g, sizeof g);
    memset(room, 0xff, scratch + 64); /* NaNs: nothing may be read before it is written */
    memset(room + scratch, 0x5a, 64);
    wfi_fault fault = { 0 };
    wfi_run r = { pool[threads], room, &fault };
    char *before = malloc(c->bytes);
    assert_non_null(before);
    memcpy(before, c->block, c->bytes);
    gemm->run(copy, (void *[]){ c->origin, a->origin, b->origin }, &r);
    for (int i = 0; i < 64; i++)
        assert_int_equal(room[scratch + (size_t)i], 0x5a);
    if (memcmp(c->block, want, c->bytes)) {
        const int d = c->view.ndim - 2;
        size_t i = 0;
        while (c->block[i] == want[i])
            i++;
        fail_msg("%s, type %d to %d, %d threads, %lld x %lld x %lld, tier %d%s, strides %lld %lld, %lld %lld, %lld "
                 "%lld: element %lld",
                 gemm->name, a->view.dtype, c->view.dtype, threads, (long long)g.m, (long long)g.n, (long long)g.k,
                 g.tier, g.swapped ? " swapped" : "", (long long)a->view.stride[d], (long long)a->view.stride[d + 1],
                 (long long)b->view.stride[d], (long long)b->view.stride[d + 1], (long long)c->view.stride[d],
                 (long long)c->view.stride[d + 1],
                 (long long)((c->block + i - c->origin) / (int64_t)size_of(c->view.dtype)));
    }
    run_kept(copy, (void *[]){ c->origin, a->origin, b->origin }, &r, c, before, want);
    run_in_two(a, b, c, threads, before, want);
    free(room);
    free(copy);
    free(before);
}
typedef struct shape {
    int64_t m, n, k;
} shape;
static void check(wf_dtype t, wf_dtype out, shape s, int la, int lb, int lc)
{
    tensor a = tensor_new(t, 2, (int64_t[]){ s.m, s.k }, NULL, la),
           b = tensor_new(t, 2, (int64_t[]){ s.k, s.n }, NULL, lb);
    tensor c = tensor_new(out, 2, (int64_t[]){ s.m, s.n }, NULL, lc);
    char *want = expect(&a, &b, &c), *before = malloc(c.bytes);
    assert_non_null(before);
    memcpy(before, c.block, c.bytes);
    for (int threads = 1; threads <= 3; threads++) {
        memcpy(c.block, before, c.bytes);
        run_one(&a, &b, &c, threads, want);
    }
    free(want), free(before), free(a.block), free(b.block), free(c.block);
}

static const struct {
    wf_dtype in, out;
} types[] = { { WF_F32, WF_F32 },   { WF_F64, WF_F64 }, { WF_I32, WF_I32 },  { WF_I64, WF_I64 },
              { WF_BF16, WF_BF16 }, { WF_F16, WF_F16 }, { WF_BF16, WF_F32 }, { WF_F16, WF_F32 } };
#define TYPES ((int)(sizeof types / sizeof *types))

static const wfi_gemm_kernels *const all[] = { &wfi_gemm_portable, &wfi_gemm_avx2, &wfi_gemm_avx512 };
static bool use(int i)
{
    static const char *const names[] = { "portable", "avx2", "avx512" };
    bool ok = i == 0;
#if defined __x86_64__
    if (i == 1)
        ok = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (i == 2)
        ok = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
#endif
    if (!ok) {
        print_message("no %s on this CPU: skipped\n", names[i]);
        return false;
    }
    gemm = all[i];
    fused = i > 0;
    return true;
}

/* -- tests -------------------------------------------------------------------------------------------------------- */
static const int64_t sizes[] = { 1, 2, 3, 5, 6, 7, 8, 9, 15, 16, 17, 31, 33, 63, 65, 100, 129, 257 };
#define SIZES ((int64_t)(sizeof sizes / sizeof *sizes))

static void odd_sizes_and_layouts(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        for (int t = 0; t < TYPES; t++)
            for (int q = 0; q < 80; q++) {
                shape s = { sizes[below(SIZES)], sizes[below(SIZES)], sizes[below(SIZES)] };
                if (s.m * s.n * s.k > 300000)
                    s.k = 1 + s.k % 9;
                check(types[t].in, types[t].out, s, (int)below(LAYOUTS), (int)below(LAYOUTS), (int)below(REPEATED));
            }
    }
}
static void every_small_shape(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        for (int64_t m = 1; m <= 18; m++)
            for (int64_t n = 1; n <= 37; n += n > 9 ? 3 : 1)
                check(WF_F32, WF_F32, (shape){ m, n, (m * 7 + n) % 11 }, (int)below(2), (int)below(2), (int)below(2));
        check(WF_F32, WF_F32, (shape){ 8, 8, 8 }, DENSE, DENSE, DENSE);
    }
}
/* Shapes on both sides of every block size, in each tier and each orientation. */
static void large(void **state)
{
    (void)state;
    static const shape shapes[] = { { 131, 517, 300 }, { 67, 129, 800 },   { 470, 70, 270 },  { 1, 5000, 33 },
                                    { 3, 700, 130 },   { 4, 1030, 65 },    { 900, 2, 260 },   { 1100, 40, 530 },
                                    { 40, 1100, 264 }, { 29, 65, 1030 },   { 1300, 35, 300 }, { 5, 2100, 19 },
                                    { 256, 256, 256 }, { 127, 1057, 257 }, { 2, 33, 3000 },   { 9, 9000, 16 },
                                    { 9, 9000, 16 } };
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        for (size_t q = 0; q < sizeof shapes / sizeof *shapes; q++)
            for (int t = 0; t < TYPES; t++) {
                int pick = (int)(q + (size_t)t);
                if (t == 0 || pick % 3 == 0)
                    check(types[t].in, types[t].out, shapes[q], pick & 1, pick >> 1 & 1, q % 4 == 3);
            }
    }
    for (int tier = WFI_GEMM_SMALL; tier < WFI_GEMM_TIERS; tier++) /* only AVX-512 goes along the rows of c */
        assert_true(tiers_seen[tier] > 0 || (tier == WFI_GEMM_ACROSS && !use(2)));
    assert_true(kept_seen > 0 && onto_seen > 0);
}
/* f32, all four orientations of the middle and the large tier. */
static void orientations(void **state)
{
    (void)state;
    for (int i = 1; i < 3; i++)
        for (int o = 0; o < 8 && use(i); o++) {
            check(WF_F32, WF_F32, (shape){ 150, 210, 410 }, o & 1, o >> 1 & 1, o >> 2 & 1);
            check(WF_F32, WF_F32, (shape){ 200, 1090, 270 }, o & 1, o >> 1 & 1, o >> 2 & 1);
        }
}
static void batch_check(wf_dtype t, wf_dtype out, int nb, const int64_t *batch, const bool *ra, const bool *rb, shape s,
                        int la, int lb, int lc)
{
    int64_t da[WF_RANK_MAX], db[WF_RANK_MAX], dc[WF_RANK_MAX];
    bool fa[WF_RANK_MAX] = { 0 }, fb[WF_RANK_MAX] = { 0 };
    for (int i = 0; i < nb; i++) {
        da[i] = db[i] = dc[i] = batch[i];
        fa[i] = ra[i], fb[i] = rb[i];
    }
    da[nb] = s.m, da[nb + 1] = s.k, db[nb] = s.k, db[nb + 1] = s.n, dc[nb] = s.m, dc[nb + 1] = s.n;
    tensor a = tensor_new(t, nb + 2, da, fa, la), b = tensor_new(t, nb + 2, db, fb, lb);
    tensor c = tensor_new(out, nb + 2, dc, NULL, lc);
    char *want = expect(&a, &b, &c), *before = malloc(c.bytes);
    assert_non_null(before);
    memcpy(before, c.block, c.bytes);
    for (int threads = 1; threads <= 3; threads++) {
        memcpy(c.block, before, c.bytes);
        run_one(&a, &b, &c, threads, want);
    }
    free(want), free(before), free(a.block), free(b.block), free(c.block);
}
static void batches(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        for (int q = 0; q < 40; q++) {
            int nb = 1 + (int)below(WFI_GEMM_BATCH_MAX), t = (int)below(TYPES);
            int64_t batch[WFI_GEMM_BATCH_MAX];
            bool ra[WFI_GEMM_BATCH_MAX], rb[WFI_GEMM_BATCH_MAX];
            for (int d = 0; d < nb; d++) {
                batch[d] = 1 + below(nb > 3 ? 2 : 4);
                ra[d] = !below(3), rb[d] = !below(3);
            }
            shape s = { sizes[below(9)], sizes[below(12)], sizes[below(10)] };
            batch_check(types[t].in, types[t].out, nb, batch, ra, rb, s, (int)below(REPEATED), (int)below(REPEATED),
                        (int)below(REPEATED));
        }
        /* enough work for several threads: over batches, over parts, and a batch that folds into m */
        bool no[2] = { false, false }, yes[2] = { true, true };
        batch_check(WF_F32, WF_F32, 1, (int64_t[]){ 9 }, no, no, (shape){ 70, 65, 64 }, DENSE, TURNED, DENSE);
        batch_check(WF_F32, WF_F32, 1, (int64_t[]){ 5 }, no, yes, (shape){ 65, 130, 66 }, WIDE_ROWS, DENSE, DENSE);
        batch_check(WF_F32, WF_F32, 2, (int64_t[]){ 3, 5 }, no, yes, (shape){ 17, 129, 66 }, DENSE, DENSE, DENSE);
        batch_check(WF_BF16, WF_BF16, 2, (int64_t[]){ 3, 5 }, no, yes, (shape){ 1, 129, 66 }, DENSE, DENSE, DENSE);
    }
}
static void nothing_and_no_terms(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int t = 0; t < TYPES && use(i); t++) {
            check(types[t].in, types[t].out, (shape){ 5, 40, 0 }, DENSE, DENSE, DENSE);
            check(types[t].in, types[t].out, (shape){ 20, 3, 0 }, TURNED, TURNED, TURNED);
            check(types[t].in, types[t].out, (shape){ 0, 40, 6 }, DENSE, DENSE, DENSE);
            check(types[t].in, types[t].out, (shape){ 5, 0, 6 }, DENSE, DENSE, DENSE);
            check(types[t].in, types[t].out, (shape){ 1, 1, 0 }, DENSE, DENSE, DENSE);
        }
}
/* Infinities and NaNs reach exactly the elements of their row and column; tails of vectors bring none in. */
static void specials(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        for (int64_t m = 3; m < 100; m += 31) {
            const int64_t n = m + 2, k = 2 * m + 1;
            float *a = calloc((size_t)(m * k), 4), *b = calloc((size_t)(k * n), 4), *c = calloc((size_t)(m * n), 4);
            assert_true(a && b && c);
            for (int64_t q = 0; q < m * k; q++)
                a[q] = 1;
            for (int64_t q = 0; q < k * n; q++)
                b[q] = 1;
            a[(m - 1) * k + k - 1] = __builtin_inff();
            b[(k - 1) * n] = 0;
            wfi_view va = { WF_F32, 2, { m, k }, { k, 1 } }, vb = { WF_F32, 2, { k, n }, { n, 1 } };
            wfi_view vc = { WF_F32, 2, { m, n }, { n, 1 } };
            wfi_gemm g;
            size_t scratch;
            assert_null(gemm->prepare(&va, &vb, &vc, 1, &g, &scratch));
            void *room = aligned_alloc(64, scratch + 64);
            wfi_fault fault = { 0 };
            gemm->run(&g, (void *[]){ c, a, b }, &(wfi_run){ NULL, room, &fault });
            for (int64_t q = 0; q < m * n; q++) {
                bool last = q >= (m - 1) * n;
                float want = (float)(k - (q % n == 0));
                if (last && q % n == 0)
                    assert_true(c[q] != c[q]);
                else
                    assert_true(c[q] == (last ? __builtin_inff() : want));
            }
            free(room), free(a), free(b), free(c);
        }
    }
}
static void reasons(void **state)
{
    (void)state;
    wfi_view a = { WF_F32, 2, { 3, 4 }, { 4, 1 } }, b = { WF_F32, 2, { 4, 5 }, { 5, 1 } };
    wfi_view c = { WF_F32, 2, { 3, 5 }, { 5, 1 } };
    wfi_gemm g;
    size_t scratch;
    assert_true(sizeof g <= WFI_PARAMS_MAX);
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        assert_null(gemm->prepare(&a, &b, &c, 1, &g, &scratch));
        wfi_view x = a;
        x.dtype = WF_U8;
        assert_non_null(gemm->prepare(&x, &b, &c, 1, &g, &scratch));
        x = b, x.dtype = WF_F64;
        assert_non_null(gemm->prepare(&a, &x, &c, 1, &g, &scratch));
        x = c, x.dtype = WF_BF16;
        assert_non_null(gemm->prepare(&a, &b, &x, 1, &g, &scratch));
        x = b, x.dim[0] = 3;
        assert_non_null(gemm->prepare(&a, &x, &c, 1, &g, &scratch));
        x = b, x.ndim = 3;
        assert_non_null(gemm->prepare(&a, &x, &c, 1, &g, &scratch));
    }
}
/* A pool with more workers than prepare was told of is not used: there is no scratch for them. */
static void larger_pool(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        if (!use(i))
            continue;
        wfi_pool *two = pool[2];
        pool[2] = pool[3];
        check(WF_F32, WF_F32, (shape){ 130, 200, 150 }, DENSE, DENSE, DENSE);
        pool[2] = two;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(odd_sizes_and_layouts),
        cmocka_unit_test(every_small_shape),
        cmocka_unit_test(large),
        cmocka_unit_test(orientations),
        cmocka_unit_test(batches),
        cmocka_unit_test(nothing_and_no_terms),
        cmocka_unit_test(specials),
        cmocka_unit_test(reasons),
        cmocka_unit_test(larger_pool),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
