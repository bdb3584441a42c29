/* Products of f32 as products of three bf16 each (order class f32_bf16x3), the tile instructions emulated: bit for bit
 * the order that gemm_amx.c states, never a larger error than the fma chain's, and the fma chain itself where numbers
 * cannot be split. With the vector packing of the library, without it, and on a machine with AMX the real unit, whose
 * bits are those of the emulated one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
#include <cmocka.h>
#define WFI_AMX_EMULATED 1
#define NAME             plain_bf16
#define NAME_SPLIT       plain_split
#define CHAIN            wfi_gemm_portable
#define CHAIN_PLAN       wfi_gemm_plan_portable
#include "kernel/gemm/gemm_amx.c"
#include "base/mem.h"
#include "base/pool.h"

#define FIRST_SEED 0x2545f4914f6cdd1du
#include "seeded.h"

static float uniform(void)
{
    return (float)(int32_t)rnd() * 0x1p-31f;
}

/* The kernels that can run here, and whose chain each falls back to. */
typedef struct pair {
    const wfi_gemm_kernels *split, *chain;
} pair;
static pair pairs_here[3];
static int npairs;

/* Emulated tiles are slow, many times so under a sanitizer, which finds what it finds in a part of the cases. */
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 3 };
#else
enum { STRIDE = 1 };
#endif

/* ---- one product in any layout ---- */

typedef struct product {
    int64_t batch, m, n, k;
    bool turn_a, turn_b, turn_c, one_b; /* a, b, c lie column by column; all of the batch share b */
    int64_t gap;                        /* between rows */
    float *a, *b;
    wfi_view va, vb, vc;
} product;

static wfi_view view_of(int64_t batch, int64_t rows, int64_t cols, bool turn, int64_t gap, bool one)
{
    const int64_t ld = (turn ? rows : cols) + gap, all = (turn ? cols : rows) * ld;
    return (wfi_view){ WF_F32, 3, { batch, rows, cols }, { one ? 0 : all, turn ? 1 : ld, turn ? ld : 1 } };
}
static int64_t span_of(const wfi_view *v)
{
    const int64_t long_one = v->stride[1] > v->stride[2] ? v->stride[1] * v->dim[1] : v->stride[2] * v->dim[2];
    return v->stride[0] * v->dim[0] + long_one;
}
static product product_new(int64_t batch, int64_t m, int64_t n, int64_t k, int how)
{
    product p = { .batch = batch,
                  .m = m,
                  .n = n,
                  .k = k,
                  .turn_a = how & 1,
                  .turn_b = how >> 1 & 1,
                  .turn_c = how >> 2 & 1,
                  .one_b = how >> 3 & 1,
                  .gap = how >> 4 & 1 ? 3 : 0 };
    p.va = view_of(batch, m, k, p.turn_a, p.gap, false);
    p.vb = view_of(batch, k, n, p.turn_b, p.gap, p.one_b);
    p.vc = view_of(batch, m, n, p.turn_c, p.gap, false);
    p.a = malloc((size_t)span_of(&p.va) * 4);
    p.b = malloc((size_t)span_of(&p.vb) * 4);
    assert_true(p.a && p.b);
    for (int64_t i = 0; i < span_of(&p.va); i++)
        p.a[i] = uniform();
    for (int64_t i = 0; i < span_of(&p.vb); i++)
        p.b[i] = uniform();
    return p;
}
static void product_free(product *p)
{
    free(p->a), free(p->b);
}
static float *at(const wfi_view *v, float *x, int64_t t, int64_t i, int64_t j)
{
    return x + t * v->stride[0] + i * v->stride[1] + j * v->stride[2];
}

/* c, malloced; what lies between its rows is 77. */
static float *run_with(const wfi_gemm_kernels *gemm, const product *p, int threads, bool kept)
{
    const size_t elements = (size_t)span_of(&p->vc);
    float *c = malloc(elements * 4);
    assert_non_null(c);
    for (size_t i = 0; i < elements; i++)
        c[i] = 77;
    wfi_gemm g;
    size_t scratch;
    assert_null(gemm->prepare(&p->va, &p->vb, &p->vc, threads, &g, &scratch));
    char *room = aligned_alloc(64, scratch + 64 - scratch % 64);
    assert_non_null(room);
    memset(room, 0xff, scratch);
    wfi_fault fault = { 0 };
    const wfi_run r = { pool[threads], room, &fault };
    const size_t bytes = kept ? gemm->keep_bytes(&g) : 0;
    if (bytes) {
        char *keep = aligned_alloc(64, bytes + 64 - bytes % 64);
        assert_non_null(keep);
        void *args[] = { c, p->a, p->b, keep };
        gemm->keep(&g, args, &r);
        gemm->run_kept(&g, args, &r);
        free(keep);
    } else
        gemm->run(&g, (void *[]){ c, p->a, p->b }, &r);
    free(room);
    return c;
}
static void same(const product *p, const float *x, const float *y, const char *what)
{
    if (memcmp(x, y, (size_t)span_of(&p->vc) * 4))
        fail_msg("%s: %lld x [%lld x %lld x %lld]%s%s%s", what, (long long)p->batch, (long long)p->m, (long long)p->n,
                 (long long)p->k, p->turn_a ? " a turned" : "", p->turn_b ? " b turned" : "",
                 p->turn_c ? " c turned" : "");
}

/* ---- the order, once more and without tiles ---- */

static void parts_of(float x, float part[3])
{
    x *= 0x1p30f;
    float rest = x;
    for (int i = 0; i < 3; i++) {
        volatile float g = rest * 65537.0f, d = g - rest;
        part[i] = i < 2 ? g - d : rest;
        rest -= part[i];
        assert_int_equal(wfi_f32_bits(part[i]) & 0xffff, 0); /* a bf16 */
    }
    assert_true((double)part[0] + part[1] + part[2] == (double)x);
    assert_true(fabsf(part[1]) <= 0x1p-8f * fabsf(part[0]) && fabsf(part[2]) <= 0x1p-8f * fabsf(part[1]));
}
typedef struct split_number {
    float part[3];
} split_number;
/* k values, `step` apart */
static void split_of(const float *x, int64_t step, int64_t k, split_number *to)
{
    for (int64_t p = 0; p < k; p++)
        parts_of(x[p * step], to[p].part);
}
static float element(const split_number *x, const split_number *y, int64_t k)
{
    static const int order[6][2] = { { 2, 0 }, { 1, 0 }, { 1, 1 }, { 0, 1 }, { 0, 2 }, { 0, 0 } };
    float total = 0;
    for (int64_t from = 0; from < k; from += 128) {
        float c = 0;
        for (int pass = 0; pass < 2; pass++) /* the small products, the largest ones */
            for (int64_t p = from; p < k && p < from + 128; p += 32)
                for (int s = pass ? 5 : 0; s < (pass ? 6 : 5); s++) {
                    float sum[2] = { 0, 0 };
                    for (int64_t q = p; q < p + 32 && q < k; q++)
                        sum[q & 1] = fmaf(x[q].part[order[s][0]], y[q].part[order[s][1]], sum[q & 1]);
                    c += sum[0] + sum[1];
                }
        total = from ? total + c : c;
    }
    return total * 0x1p-60f;
}
static float *in_order(const product *p)
{
    float *c = malloc((size_t)span_of(&p->vc) * 4);
    split_number *x = malloc((size_t)p->k * sizeof *x), *y = malloc((size_t)(p->n * p->k) * sizeof *y);
    assert_true(c && x && y);
    for (int64_t i = 0; i < span_of(&p->vc); i++)
        c[i] = 77;
    for (int64_t t = 0; t < p->batch; t++) {
        for (int64_t j = 0; j < p->n; j++)
            split_of(at(&p->vb, p->b, t, 0, j), p->vb.stride[1], p->k, y + j * p->k);
        for (int64_t i = 0; i < p->m; i++) {
            split_of(at(&p->va, p->a, t, i, 0), p->va.stride[2], p->k, x);
            for (int64_t j = 0; j < p->n; j++)
                *at(&p->vc, c, t, i, j) = element(x, y + j * p->k, p->k);
        }
    }
    free(x), free(y);
    return c;
}

static void the_order(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = { { 1, 128, 128, 64 },  { 1, 130, 131, 67 },  { 1, 97, 190, 160 },
                                         { 2, 128, 129, 100 }, { 1, 200, 100, 300 }, { 1, 70, 1000, 70 } };
    for (int q = 0; q < 12; q += STRIDE) {
        const int64_t *s = shapes[q % 6];
        product p = product_new(s[0], s[1], s[2], s[3], (int)(rnd() & 31));
        float *want = in_order(&p);
        for (int i = 0; i < npairs; i++) {
            float *c = run_with(pairs_here[i].split, &p, 1 + q % 3, q & 1);
            same(&p, c, want, pairs_here[i].split->name);
            free(c);
        }
        free(want);
        product_free(&p);
    }
}
/* Several blocks of everything; all have the bits of the first. */
static void all_the_same(void **state)
{
    (void)state;
    static const int64_t shapes[][4] = { { 1, 300, 140, 600 }, { 3, 129, 160, 257 }, { 1, 128, 260, 1030 } };
    for (int q = 0; q < 3; q += STRIDE) {
        const int64_t *s = shapes[q];
        product p = product_new(s[0], s[1], s[2], s[3], q == 1 ? 8 : 1 + q);
        float *want = run_with(pairs_here[0].split, &p, 1, false);
        for (int i = 1; i < npairs; i++)
            for (int threads = 1; threads <= 3; threads++) {
                float *c = run_with(pairs_here[i].split, &p, threads, threads == 2);
                same(&p, c, want, pairs_here[i].split->name);
                free(c);
            }
        free(want);
        product_free(&p);
    }
}

/* ---- the error ---- */

static float normal(void)
{
    float s = -6;
    for (int i = 0; i < 12; i++)
        s += (float)(rnd() >> 8) * 0x1p-24f;
    return s;
}
static float of_kind(int kind, int64_t p)
{
    switch (kind) {
    case 0: return (float)(rnd() >> 8) * 0x1p-24f;                    /* uniform, positive */
    case 1: return normal();                                          /* normal */
    case 2: return ldexpf(normal(), (int)(rnd() % 41) - 20);          /* wide exponents */
    default: return (p & 1 ? -1.0f : 1.0f) * (1 + 1e-3f * uniform()); /* sums that cancel */
    }
}
static double largest_error(const product *p, const float *c)
{
    double most = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            double sum = 0;
            for (int64_t q = 0; q < p->k; q++)
                sum += (double)p->a[i * p->k + q] * p->b[q * p->n + j];
            const double e = fabs(sum - c[i * p->n + j]);
            most = e > most ? e : most;
        }
    return most;
}
static void the_error(void **state)
{
    (void)state;
    static const int64_t depths[] = { 64, 128, 512, 1100 };
    for (int kind = 0; kind < 4; kind++)
        for (int d = 0; d < 4; d += STRIDE) {
            product p = product_new(1, 128, 128, depths[d], 0);
            for (int64_t i = 0; i < p.m * p.k; i++)
                p.a[i] = of_kind(kind, i % p.k);
            for (int64_t i = 0; i < p.k * p.n; i++)
                p.b[i] = kind == 3 ? 1 + 1e-3f * uniform() : of_kind(kind, i);
            const pair *last = &pairs_here[npairs - 1];
            float *split_c = run_with(last->split, &p, 1, false), *chain_c = run_with(last->chain, &p, 1, false);
            const double mine = largest_error(&p, split_c), theirs = largest_error(&p, chain_c);
            if (!(mine <= theirs))
                fail_msg("data %d, k = %lld: error %g, of the chain %g", kind, (long long)p.k, mine, theirs);
            free(split_c), free(chain_c);
            product_free(&p);
        }
}

/* ---- numbers that cannot be split ---- */

static void falls_back(const pair *who, product *p, float *place, float x, float *other, float y)
{
    const float was = *place, had = other ? *other : 0;
    *place = x;
    if (other)
        *other = y;
    float *want = run_with(who->chain, p, 1, false);
    for (int i = 0; i < 4; i++) {
        float *c = run_with(who->split, p, 1 + i % 3, i & 1);
        same(p, c, want, "the chain");
        free(c);
    }
    free(want);
    *place = was;
    if (other)
        *other = had;
}
static void what_cannot_be_split(void **state)
{
    (void)state;
    const float inf = INFINITY, tiny = 0x1p-130f;
    for (int how = 0; how < 2; how++)
        for (int q = 0; q < npairs; q++) {
            const pair *who = &pairs_here[q];
            product p = product_new(2, 130, 140, 70, how ? 1 + 2 + 8 + 16 : 0);
            float *a = at(&p.va, p.a, 1, 129, 69), *b = at(&p.vb, p.b, how ? 0 : 1, 3, 139);
            falls_back(who, &p, a, inf, NULL, 0);
            falls_back(who, &p, a, -NAN, NULL, 0);
            falls_back(who, &p, b, -inf, NULL, 0);
            falls_back(who, &p, b, 0x1p127f, NULL, 0);
            falls_back(who, &p, a, 0x1.fep79f, NULL, 0); /* alone it could be split, but not multiplied */
            falls_back(who, &p, a, tiny, b, 0x1p-20f);
            falls_back(who, &p, a, 0x1p-70f, b, -0x1p-80f);
            /* at the limit */
            float *plain = run_with(who->split, &p, 1, false), *chain_c = run_with(who->chain, &p, 1, false);
            assert_true(memcmp(plain, chain_c, (size_t)span_of(&p.vc) * 4)); /* another order */
            free(plain), free(chain_c);
            *a = 0x1p-90f, *at(&p.va, p.a, 0, 0, 0) = 0, *b = 0x1p40f;
            float *x = run_with(who->split, &p, 2, false), *y = in_order(&p);
            same(&p, x, y, "large and small numbers that can be split");
            free(x), free(y);
            product_free(&p);
        }
}
static void ranges_decide(void **state)
{
    (void)state;
    wfi_amx_range one = wfi_amx_range_none, r = wfi_amx_range_none;
    wfi_amx_range_see(&one, -1.0f);
    wfi_amx_range_see(&one, 0.0f);
    assert_int_equal(wfi_amx_range_top(&one), 127);
    assert_int_equal(wfi_amx_range_bottom(&one), 127);
    assert_true(wfi_amx_range_fits(&one, &one, 1 << 20));
    assert_true(wfi_amx_range_fits(&r, &r, 5)); /* nothing but zeros */
    wfi_amx_range_see(&r, 0x1p-126f);
    assert_true(wfi_amx_range_fits(&one, &r, 64) && wfi_amx_range_fits(&r, &one, 64));
    assert_false(wfi_amx_range_fits(&r, &r, 64));
    wfi_amx_range_see(&r, -0x1p-149f);
    assert_int_equal(wfi_amx_range_bottom(&r), 1);
    wfi_amx_range_see(&r, INFINITY);
    assert_false(wfi_amx_range_fits(&one, &r, 64));
    wfi_amx_range big = wfi_amx_range_none;
    wfi_amx_range_see(&big, 0x1p56f);
    assert_true(wfi_amx_range_fits(&big, &one, 255));
    assert_false(wfi_amx_range_fits(&big, &one, 256));
}

static void declines(void **state)
{
    (void)state;
    static const struct {
        int64_t m, n, k;
        bool yes;
    } t[] = { { 128, 128, 64, true }, { 127, 128, 64, false }, { 128, 128, 63, false },       { 31, 5000, 64, false },
              { 66, 2112, 64, true }, { 66, 2111, 64, false }, { 1 << 24, 1 << 24, 64, true } };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        wfi_view a = { WF_F32, 2, { t[i].m, t[i].k }, { t[i].k, 1 } },
                 b = { WF_F32, 2, { t[i].k, t[i].n }, { t[i].n, 1 } };
        wfi_view c = { WF_F32, 2, { t[i].m, t[i].n }, { t[i].n, 1 } };
        wfi_gemm g;
        size_t scratch;
        assert_int_equal(!plain_split.prepare(&a, &b, &c, 2, &g, &scratch), t[i].yes);
        a.dtype = b.dtype = c.dtype = WF_BF16;
        assert_non_null(plain_split.prepare(&a, &b, &c, 2, &g, &scratch));
    }
    assert_string_equal(plain_split.order, "f32_bf16x3");
}

static int start_pairs(void **state)
{
    pairs_here[npairs++] = (pair){ &plain_split, &wfi_gemm_portable };
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        pairs_here[npairs++] = (pair){ &wfi_gemm_split_emulated, &wfi_gemm_avx512 };
    if (wfi_gemm_amx_permit())
        pairs_here[npairs++] = (pair){ &wfi_gemm_split, &wfi_gemm_avx512 };
#endif
    for (int i = 0; i < npairs; i++)
        print_message("%s\n", pairs_here[i].split->name);
    return start(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order),     cmocka_unit_test(all_the_same),
        cmocka_unit_test(the_error),     cmocka_unit_test(what_cannot_be_split),
        cmocka_unit_test(ranges_decide), cmocka_unit_test(declines),
    };
    return cmocka_run_group_tests(tests, start_pairs, stop);
}
