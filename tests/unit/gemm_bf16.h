/* gemm_bf16.h - what the tests of the bf16 products with instructions of their own share: numbers, the run of one
 * product in any layout against a reference of its order class, and the shapes. Include after the emulated kernel. */
#include "base/pool.h"
#include "kernel/gemm/gemm.h"
#include "kernel/gemm/gemm_vec.h"

#define FIRST_SEED 0x853c49e6748fea9bu
#include "seeded.h"

static uint16_t value(int kind) /* mostly ordinary numbers; kind 1: now and then a subnormal, a tiny or a large one */
{
    uint16_t h = wfi_bf16_narrow((float)(int32_t)rnd() * 0x1p-31f);
    if (kind == 1 && rnd() % 7 == 0) {
        static const uint16_t odd[] = { 0x0001, 0x807f, 0x0080, 0x1f80, 0x9f90, 0x5f00, 0xdf10, 0x8000 };
        h = odd[rnd() % 8];
    }
    return h;
}

/* What both instructions do to numbers below 2^-126. */
static float zeroed(float f)
{
    return f > -0x1p-126f && f < 0x1p-126f ? (f < 0 || 1 / f < 0 ? -0.0f : 0.0f) : f;
}
static float up(uint16_t h)
{
    return zeroed(wfi_bits_f32((uint32_t)h << 16));
}
/* An element: the product of k values of a, sa apart, and of b, sb apart. */
typedef float reference_fn(const uint16_t *a, int64_t sa, const uint16_t *b, int64_t sb, int64_t k);

typedef struct layout {
    int64_t a_m, a_k, b_k, b_n, c_m, c_n;
} layout;

static void run_product(const wfi_gemm_kernels *gemm, const wfi_view *a, const wfi_view *b, const wfi_view *c,
                        int threads, void *const *args)
{
    wfi_gemm g;
    size_t scratch;
    assert_null(gemm->prepare(a, b, c, threads, &g, &scratch));
    char *room = aligned_alloc(64, (scratch + 63) / 64 * 64 + 64);
    assert_non_null(room);
    memset(room, 0xff, scratch);
    wfi_fault fault = { 0 };
    const wfi_run r = { pool[threads], room, &fault };
    const size_t keeps = gemm->keep_bytes ? gemm->keep_bytes(&g) : 0;
    static int turn;
    if (keeps && turn++ % 2) { /* with b packed before */
        char *kept = aligned_alloc(64, (keeps + 63) / 64 * 64);
        assert_non_null(kept);
        gemm->keep(&g, (void *[]){ args[0], args[1], args[2], kept }, &r);
        gemm->run_kept(&g, (void *[]){ args[0], args[1], NULL, kept }, &r);
        free(kept);
    } else
        gemm->run(&g, args, &r);
    free(room);
}
static void check(const wfi_gemm_kernels *gemm, reference_fn *reference, bool exact, int64_t m, int64_t n, int64_t k,
                  layout s, wf_dtype out, int threads, int kind)
{
    const size_t in_elements = (size_t)(m + 5) * (size_t)(k + 5) * 2,
                 b_elements = (size_t)(n + 5) * (size_t)(k + 5) * 2;
    const size_t c_elements = (size_t)(m + 5) * (size_t)(n + 5) * 2, e = out == WF_F32 ? 4 : 2;
    uint16_t *a = malloc(in_elements * 2), *b = malloc(b_elements * 2);
    char *c = malloc(c_elements * e), *want = malloc(c_elements * e);
    assert_true(a && b && c && want);
    for (size_t i = 0; i < in_elements; i++)
        a[i] = value(kind);
    for (size_t i = 0; i < b_elements; i++)
        b[i] = value(kind);
    for (size_t i = 0; i < c_elements * e; i++)
        c[i] = want[i] = (char)rnd();
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float f = reference(a + i * s.a_m, s.a_k, b + j * s.b_n, s.b_k, k);
            uint16_t h = wfi_bf16_narrow(f);
            memcpy(want + (i * s.c_m + j * s.c_n) * (int64_t)e, e == 4 ? (const void *)&f : (const void *)&h, e);
        }
    wfi_view va = { WF_BF16, 2, { m, k }, { s.a_m, s.a_k } }, vb = { WF_BF16, 2, { k, n }, { s.b_k, s.b_n } };
    wfi_view vc = { out, 2, { m, n }, { s.c_m, s.c_n } };
    run_product(gemm, &va, &vb, &vc, threads, (void *[]){ c, a, b });
    if (exact) {
        if (memcmp(c, want, c_elements * e))
            fail_msg("%s: %lld x %lld x %lld, %d threads", gemm->name, (long long)m, (long long)n, (long long)k,
                     threads);
    } else {
        for (int64_t i = 0; i < m * n; i++) {
            float x, y;
            memcpy(&x, c + (i / n * s.c_m + i % n * s.c_n) * 4, 4);
            memcpy(&y, want + (i / n * s.c_m + i % n * s.c_n) * 4, 4);
            assert_true(x - y <= 1e-3f && y - x <= 1e-3f);
        }
    }
    free(a), free(b), free(c), free(want);
}

static void all_shapes(const wfi_gemm_kernels *gemm, reference_fn *reference)
{
    static const int64_t sizes[] = { 8, 9, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 100 };
    for (int q = 0; q < 80; q++) {
        int64_t m = sizes[rnd() % 13], n = sizes[rnd() % 13], k = 16 + sizes[rnd() % 13];
        bool ta = rnd() & 1, tb = rnd() & 1, tc = rnd() % 4 == 0, wide = rnd() % 4 == 0;
        int64_t lda = (ta ? m : k) + (wide ? 3 : 0), ldb = (tb ? k : n) + (wide ? 5 : 0);
        layout s = { ta ? 1 : lda, ta ? lda : 1, tb ? 1 : ldb, tb ? ldb : 1, tc ? 1 : n, tc ? m : 1 };
        if (wide && rnd() % 2)
            s.a_m = 2 * (k + 1), s.a_k = 2;
        check(gemm, reference, true, m, n, k, s, rnd() & 1 ? WF_F32 : WF_BF16, 1, q & 1);
    }
    /* several blocks of k, of m and of n; several threads */
    for (int t = 1; t <= 3; t++) {
        check(gemm, reference, true, 33, 70, 2100, (layout){ 2100, 1, 70, 1, 70, 1 }, WF_F32, t, 0);
        check(gemm, reference, true, 40, 34, 4130, (layout){ 4130, 1, 1, 4130, 34, 1 }, WF_BF16, t, 0);
        check(gemm, reference, true, 1060, 40, 48, (layout){ 1, 1060, 40, 1, 40, 1 }, WF_BF16, t, 1);
        check(gemm, reference, true, 40, 1060, 64, (layout){ 64, 1, 1060, 1, 1060, 1 }, WF_F32, t, 0);
        check(gemm, reference, true, 9, 9000, 17, (layout){ 17, 1, 9000, 1, 9000, 1 }, WF_BF16, t, 0);
        check(gemm, reference, true, 300, 200, 100, (layout){ 100, 1, 200, 1, 1, 300 }, WF_F32, t, 0);
    }
}
