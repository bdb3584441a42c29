/* Copies and casts: every pair of types over every bit pattern of the small ones and hard values of the large ones
 * against base/dtype.h; layouts, fills, padding, joining, counting; Philox against its published vectors. */
#include "layouts.h"
#include "base/dtype.h"
#include "kernel/copy/copy.h"

static const wfi_copy_kernels *const tables[ISAS] = ISA_TABLES(wfi_copy);

static void check_same_bytes(wf_dtype t, const void *a, const void *b, int64_t n, const char *what)
{
    int64_t each = (int64_t)wf_dtype_bytes(t);
    for (int64_t i = 0; i < n; i++) {
        const char *p = (const char *)a + i * each, *q = (const char *)b + i * each;
        if (memcmp(p, q, (size_t)each) == 0)
            continue;
        if (isnan(wfi_dtype_load(t, a, i)) && isnan(wfi_dtype_load(t, b, i)) && wfi_dtype_is_float(t))
            continue;
        fail_msg("%s: element %lld is %.17g, should be %.17g", what, (long long)i, wfi_dtype_load(t, a, i),
                 wfi_dtype_load(t, b, i));
    }
}

static wfi_view flat(wf_dtype t, int64_t n)
{
    return (wfi_view){ .dtype = t, .ndim = 1, .dim = { n }, .stride = { 1 } };
}

static void copy_flat(const wfi_copy_kernels *k, wf_dtype to, void *y, wf_dtype from, const void *x, int64_t n)
{
    wfi_copy p;
    size_t scratch = 1;
    wfi_view vx = flat(from, n), vy = flat(to, n);
    assert_null(k->prepare(&vx, &vy, 1, &p, &scratch));
    assert_int_equal(scratch, 0);
    union {
        const void *in;
        void *out;
    } u = { x };
    run_kernel(k->run, &p, (void *[]){ y, u.out }, 0, 1);
}

/* ---- casts ---- */

/* Fills x with hard bit patterns of type t: all of them where there are few. */
static int64_t patterns(wf_dtype t, unsigned char *x)
{
    size_t bytes = wf_dtype_bytes(t);
    if (t == WF_BOOL) {
        x[0] = 0;
        x[1] = 1;
        return 2;
    }
    if (bytes <= 2) {
        int64_t n = bytes == 1 ? 256 : 65536;
        for (int64_t i = 0; i < n; i++)
            memcpy(x + i * (int64_t)bytes, &(uint16_t){ (uint16_t)i }, bytes);
        return n;
    }
    int64_t n = 0;
    for (int sign = 0; sign < 2; sign++) { /* around every power of two, halves and ties of the narrow types */
        for (int e = -160; e < 66; e++) {
            for (int k = 0; k < 40; k++) {
                double m = 1 + (double)random_below(1 << 13) * 0x1p-12 * (k & 1 ? 1 : 0.5);
                m += k % 5 == 0 ? 0x1p-30 : k % 7 == 0 ? -0x1p-40 : k % 11 == 0 ? 0x1p-52 : 0;
                double v = ldexp(sign ? -m : m, e);
                wfi_dtype_store(t, x, n++, v);
            }
        }
    }
    static const double special[] = { 0,       -0.,   INFINITY,  -INFINITY, NAN,    255,    256,    127,    128,
                                      -128,    -129,  65535,     65536,     448,    464,    465,    480,    57344,
                                      61440,   65504, 65519.996, 65520,     0x1p31, 0x1p32, 0x1p63, 0x1p64, -0x1p31,
                                      -0x1p63, 0.5,   1.5,       2.5,       -0.5,   -1.5,   1e300,  -1e300, 3.4e38 };
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        wfi_dtype_store(t, x, n++, special[i]);
    for (int i = 0; i < 4000; i++) { /* any bits */
        uint64_t u = (uint64_t)random_bits() << 32 | random_bits();
        u = i % 3 == 0 ? u >> (i % 64) : u;
        memcpy(x + n++ * (int64_t)bytes, &u, bytes);
    }
    return n;
}

static void test_casts(void **state)
{
    (void)state;
    unsigned char *x = calloc(1, 65536 * 8), *y = malloc(65536 * 8), *want = malloc(65536 * 8);
    for (wf_dtype from = 1; from < WF_DTYPE_COUNT; from++) {
        int64_t n = patterns(from, x);
        for (wf_dtype to = 1; to < WF_DTYPE_COUNT; to++) {
            wfi_dtype_cast(to, want, from, x, n);
            for (int isa = 0; isa < ISAS; isa++) {
                if (!has_isa(isa))
                    continue;
                char what[64];
                snprintf(what, sizeof what, "%s -> %s, set %d", wf_dtype_name(from), wf_dtype_name(to), isa);
                memset(y, 0xee, (size_t)n * wf_dtype_bytes(to));
                copy_flat(tables[isa], to, y, from, x, n);
                check_same_bytes(to, y, want, n, what);
            }
        }
    }
    free(x);
    free(y);
    free(want);
}

/* ---- layouts ---- */

static const wf_dtype kinds[] = { WF_F32, WF_U8, WF_BF16, WF_F64, WF_I32 };

static wf_dims shape(int i)
{
    switch (i) {
    case 0: return WF_DIMS(1);
    case 1: return WF_DIMS(67);
    case 2: return WF_DIMS(37, 41);
    case 3: return WF_DIMS(2, 3, 17, 19);
    case 4: return WF_DIMS(3, 64, 72);
    case 5: return WF_DIMS(2, 1, 5, 1, 9);
    case 6: return WF_DIMS(130, 131);
    case 7: return WF_DIMS(2, 16, 33, 35);
    default: return WF_DIMS(5, 0, 3);
    }
}

static void one_layout(const wfi_copy_kernels *k, wf_dtype from, wf_dtype to, wf_dims s, int lx, int ly, int threads)
{
    tensor x = tensor_new(from, s, (enum layout)lx), y = tensor_new(to, s, (enum layout)ly);
    int64_t n = elements(&x.v);
    for (int64_t i = 0; i < n; i++)
        set(&x, i, (double)(i % 251) - (from == WF_U8 ? 0 : 100));
    wfi_copy p;
    size_t scratch;
    assert_null(k->prepare(&x.v, &y.v, threads, &p, &scratch));
    run_kernel(k->run, &p, (void *[]){ y.at, x.at }, scratch, threads);
    for (int64_t i = 0; i < n; i++) {
        double v = get(&x, i), w = get(&y, i);
        double want = to == WF_U8 && from != WF_U8 ? (from == WF_I32 ? (double)(uint8_t)(int)v : v < 0 ? 0 : v) : v;
        if (!same(w, want))
            fail_msg("%s -> %s, layouts %d %d: element %lld is %g, not %g", wf_dtype_name(from), wf_dtype_name(to), lx,
                     ly, (long long)i, w, want);
    }
    check_guard(&y);
    tensor_free(&x);
    tensor_free(&y);
}

static void test_layouts(void **state)
{
    (void)state;
    int count = 0;
    for (int isa = 0; isa < ISAS; isa++) {
        for (int s = 0; has_isa(isa) && s < 9; s++) {
            for (int lx = 0; lx < LAYOUTS; lx++) {
                for (int ly = 0; ly < LAYOUTS; ly++) {
                    for (int t = 0; t < 5; t++, count++) {
                        one_layout(tables[isa], kinds[t], kinds[t], shape(s), lx, ly, 1 + count % 3);
                        one_layout(tables[isa], kinds[t], kinds[(t + 1) % 5], shape(s), lx, ly, 1 + count % 2);
                    }
                }
            }
        }
    }
}

/* Stride 0 repeats: rows, columns, all. */
static void test_repeats(void **state)
{
    (void)state;
    static float x[64], y[3 * 50 * 64];
    for (int i = 0; i < 64; i++)
        x[i] = (float)i + 1;
    const int64_t strides[4][3] = { { 0, 0, 1 }, { 0, 1, 0 }, { 1, 0, 0 }, { 0, 0, 0 } };
    for (int isa = 0; isa < ISAS; isa++) {
        for (int c = 0; has_isa(isa) && c < 4; c++) {
            wfi_view vy = { WF_F32, 3, { 3, 50, 64 }, { 3200, 64, 1 } }, vx = vy;
            memcpy(vx.stride, strides[c], sizeof strides[c]);
            wfi_copy p;
            size_t scratch;
            assert_null(tables[isa]->prepare(&vx, &vy, 1, &p, &scratch));
            run_kernel(tables[isa]->run, &p, (void *[]){ y, x }, 0, 1 + c % 3);
            for (int i = 0; i < 3 * 50 * 64; i++) {
                int64_t at = strides[c][0] * (i / 3200) + strides[c][1] * (i / 64 % 50) + strides[c][2] * (i % 64);
                assert_true(y[i] == x[at]);
            }
        }
    }
}

/* Results larger than the caches go another way. */
static void test_large(void **state)
{
    (void)state;
    int64_t n = 4 * 1024 * 1024 + 7;
    float *x = aligned_alloc(64, (size_t)(n + 79) / 16 * 64), *y = aligned_alloc(64, (size_t)(n + 79) / 16 * 64);
    assert_non_null(x);
    assert_non_null(y);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i % 99991);
    for (int isa = 0; isa < ISAS; isa++) {
        for (int off = 0; has_isa(isa) && off < 2; off++) {
            wfi_copy p;
            size_t scratch;
            wfi_view v = flat(WF_F32, n);
            memset(y, 0, (size_t)n * 4 + 256);
            assert_null(tables[isa]->prepare(&v, &v, 2, &p, &scratch));
            run_kernel(tables[isa]->run, &p, (void *[]){ y + off, x }, 0, 2);
            assert_memory_equal(y + off, x, (size_t)n * 4);
            assert_true(y[n + off] == 0);
        }
    }
    free(x);
    free(y);
}

static void test_declined(void **state)
{
    (void)state;
    wfi_copy p;
    size_t scratch;
    wfi_view a = flat(WF_F32, 3), b = flat(WF_F32, 4), c = a;
    c.stride[0] = 0;
    assert_non_null(tables[0]->prepare(&a, &b, 1, &p, &scratch));
    assert_non_null(tables[0]->prepare(&a, &c, 1, &p, &scratch));
    a.dtype = WF_DTYPE_NONE;
    assert_non_null(tables[0]->prepare(&a, &b, 1, &p, &scratch));
}

/* ---- fill, pad, concat, iota ---- */

static void test_fill_pad(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS; isa++) {
        for (int l = 0; has_isa(isa) && l < LAYOUTS; l++) {
            for (int c = 0; c < 5; c++) {
                const int64_t low[5][3] = { { 1, 2, 3 }, { 0, 0, 0 }, { -1, 2, -2 }, { 5, 0, 0 }, { 0, -9, 0 } };
                tensor x = tensor_new(WF_F32, WF_DIMS(3, 4, 5), (enum layout)((l + c) % LAYOUTS));
                tensor y = tensor_new(WF_F32, WF_DIMS(4, 7, 9), (enum layout)l);
                for (int64_t i = 0; i < 60; i++)
                    set(&x, i, (double)i + 1);
                wfi_pad p;
                size_t scratch;
                assert_null(tables[isa]->pad_prepare(&x.v, &y.v, low[c], &(float){ -7 }, &p, &scratch));
                run_kernel(tables[isa]->pad_run, &p, (void *[]){ y.at, x.at }, 0, 1);
                for (int64_t i = 0; i < 4 * 7 * 9; i++) {
                    int64_t a = i / 63 - low[c][0], b = i / 9 % 7 - low[c][1], d = i % 9 - low[c][2];
                    bool in = a >= 0 && a < 3 && b >= 0 && b < 4 && d >= 0 && d < 5;
                    assert_true(get(&y, i) == (in ? (double)(a * 20 + b * 5 + d + 1) : -7.));
                }
                check_guard(&y);
                wfi_copy f;
                assert_null(tables[isa]->fill_prepare(&y.v, &(float){ 3.5f }, &f, &scratch));
                run_kernel(tables[isa]->fill_run, &f, (void *[]){ y.at }, 0, 1);
                for (int64_t i = 0; i < 4 * 7 * 9; i++)
                    assert_true(get(&y, i) == 3.5);
                check_guard(&y);
                tensor_free(&x);
                tensor_free(&y);
            }
        }
    }
}

static void test_concat(void **state)
{
    (void)state;
    static int32_t a[6 * 5 * 4], b[6 * 1 * 4], c[6 * 300 * 4], y[6 * 306 * 4];
    for (int i = 0; i < 7200; i++) {
        c[i] = i + 2000;
        a[i % 120] = i % 120;
        b[i % 24] = 1000 + i % 24;
    }
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        wfi_view va = { WF_I32, 3, { 6, 5, 4 }, { 20, 4, 1 } }, vb = { WF_I32, 3, { 6, 1, 4 }, { 4, 99, 1 } };
        wfi_view vc = { WF_I32, 3, { 6, 300, 4 }, { 1200, 4, 1 } }, vy = { WF_I32, 3, { 6, 306, 4 }, { 1224, 4, 1 } };
        wfi_concat p;
        size_t scratch;
        const wfi_view *in[] = { &va, &vb, &vc };
        memset(y, 0, sizeof y);
        assert_null(tables[isa]->concat_prepare(in, 3, 1, &vy, &p, &scratch));
        run_kernel(tables[isa]->concat_run, &p, (void *[]){ y, a, b, c }, 0, 2);
        for (int i = 0; i < 6; i++) {
            assert_memory_equal(y + i * 1224, a + i * 20, 80);
            assert_memory_equal(y + i * 1224 + 20, b + i * 4, 16);
            assert_memory_equal(y + i * 1224 + 24, c + i * 1200, 4800);
        }
        va.stride[0] = 40;
        assert_non_null(tables[isa]->concat_prepare(in, 3, 1, &vy, &p, &scratch));
    }
}

static void test_iota(void **state)
{
    (void)state;
    const wf_dtype types[] = { WF_F32, WF_F64, WF_I64, WF_U8, WF_BF16 };
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int l = 0; l < LAYOUTS; l++) {
            for (int t = 0; t < 5; t++) {
                for (int axis = 0; axis < 2; axis++) {
                    tensor y = tensor_new(types[t], WF_DIMS(30, 11), (enum layout)l);
                    wfi_iota p;
                    size_t scratch;
                    assert_null(tables[isa]->iota_prepare(&y.v, axis, 5, 3, &p, &scratch));
                    run_kernel(tables[isa]->iota_run, &p, (void *[]){ y.at }, 0, 1 + l % 3);
                    for (int64_t i = 0; i < 330; i++)
                        assert_true(get(&y, i) == (double)(5 + 3 * (axis ? i % 11 : i / 11)));
                    check_guard(&y);
                    tensor_free(&y);
                }
            }
        }
    }
}

/* ---- random numbers ---- */

/* Known answers of Random123 (kat_vectors, philox4x32 10). */
static void test_philox(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } kat[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { ~0u, ~0u, ~0u, ~0u }, { ~0u, ~0u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int i = 0; i < 3; i++) {
            uint32_t out[4];
            tables[isa]->philox(kat[i].counter, kat[i].key, out);
            assert_memory_equal(out, kat[i].out, sizeof out);
        }
    }
}

static void draw(const wfi_copy_kernels *k, wfi_random_kind kind, const tensor *y, double a, double b, int threads)
{
    wfi_random p;
    size_t scratch;
    assert_null(k->random_prepare(kind, &y->v, 77, a, b, &p, &scratch));
    run_kernel(k->random_run, &p, (void *[]){ y->at, (uint64_t[]){ 0x123456789abcdef0u, 3 } }, 0, threads);
}

/* An element is what its number says: in any layout, with any number of threads. */
static void test_random_places(void **state)
{
    (void)state;
    const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16, WF_I64, WF_BOOL };
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        for (int t = 0; t < 6; t++) {
            for (int kind = 0; kind < 3; kind++) {
                if ((kind == WFI_RANDOM_NORMAL && t > 3) || (kind == WFI_RANDOM_UNIFORM && t == 5))
                    continue;
                double a = kind == WFI_RANDOM_KEEP ? 0.25 : t == 4 ? -5 : 0, b = t == 4 ? 12 : 1;
                tensor one = tensor_new(types[t], WF_DIMS(53, 71, 19), ROWS);
                draw(tables[isa], (wfi_random_kind)kind, &one, a, b, 1);
                double sum = 0, n = 53 * 71 * 19;
                for (int64_t i = 0; i < 53 * 71 * 19; i++) {
                    double v = get(&one, i);
                    sum += v;
                    if (kind == WFI_RANDOM_UNIFORM)
                        assert_true(v >= a && v < b);
                }
                double mean = kind == WFI_RANDOM_KEEP ? 0.25 : kind == WFI_RANDOM_NORMAL ? 0 : t == 4 ? 3 : 0.5;
                double spread = t == 4 && kind == 0 ? 5 : 1;
                assert_true(fabs(sum / n - mean) < 6 * spread / sqrt(n) + 0.003);
                for (int l = 0; l < LAYOUTS; l++) {
                    tensor y = tensor_new(types[t], WF_DIMS(53, 71, 19), (enum layout)l);
                    draw(tables[isa], (wfi_random_kind)kind, &y, a, b, 1 + l % 3);
                    for (int64_t i = 0; i < 53 * 71 * 19; i++)
                        assert_true(get(&y, i) == get(&one, i));
                    check_guard(&y);
                    tensor_free(&y);
                }
                tensor_free(&one);
            }
        }
    }
}

static void test_random_numbers(void **state)
{
    (void)state;
    for (int isa = 0; isa < ISAS && has_isa(isa); isa++) {
        enum { N = 200000 };
        tensor y = tensor_new(WF_F32, WF_DIMS(N), ROWS);
        draw(tables[isa], WFI_RANDOM_UNIFORM, &y, 0, 1, 1);
        for (int i = 0; i < 100; i++) { /* word i % 4 of block i / 4, its upper 24 bits */
            uint32_t out[4];
            tables[isa]->philox((uint32_t[]){ (uint32_t)i / 4, 0, 3, 77 }, (uint32_t[]){ 0x9abcdef0u, 0x12345678u },
                                out);
            assert_true(get(&y, i) == (double)(out[i % 4] >> 8) * 0x1p-24);
        }
        draw(tables[isa], WFI_RANDOM_NORMAL, &y, 0, 1, 1);
        double m1 = 0, m2 = 0, m3 = 0, m4 = 0, far = 0;
        for (int i = 0; i < N; i++) {
            double v = get(&y, i);
            m1 += v, m2 += v * v, m3 += v * v * v, m4 += v * v * v * v, far += fabs(v) > 3;
        }
        assert_true(fabs(m1 / N) < 0.012 && fabs(m2 / N - 1) < 0.02 && fabs(m3 / N) < 0.05 && fabs(m4 / N - 3) < 0.15);
        assert_true(fabs(far / N - 0.0027) < 0.0008);
        for (int i = 0; i < 64; i += 2) { /* Box and Muller */
            uint32_t out[4];
            tables[isa]->philox((uint32_t[]){ (uint32_t)i / 4, 0, 3, 77 }, (uint32_t[]){ 0x9abcdef0u, 0x12345678u },
                                out);
            double r = sqrt(-2 * log((double)((out[i % 4] >> 8) + 1) * 0x1p-24));
            double t = 2 * acos(-1) * (double)(out[i % 4 + 1] >> 8) * 0x1p-24;
            assert_true(fabs(get(&y, i) - r * cos(t)) < 1e-6 && fabs(get(&y, i + 1) - r * sin(t)) < 1e-6);
        }
        tensor_free(&y);
    }
}

int main(void)
{
    random_state = 20250807;
    printf("seed %llu\n", (unsigned long long)random_state);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_casts),         cmocka_unit_test(test_layouts),        cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_large),         cmocka_unit_test(test_declined),       cmocka_unit_test(test_fill_pad),
        cmocka_unit_test(test_concat),        cmocka_unit_test(test_iota),           cmocka_unit_test(test_philox),
        cmocka_unit_test(test_random_places), cmocka_unit_test(test_random_numbers),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
