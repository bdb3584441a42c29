/* Memory, checked arithmetic, hashing, text, numbers as text, environment. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/ck.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"

static uint64_t next_random(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return wfi_hash_mum(*s, *s ^ WFI_HASH_A);
}

/* An allocator as a user would hand it in: it checks that the old size is right. */
typedef struct bank {
    size_t live, blocks;
    bool empty, wrong;
} bank;

static void *bank_realloc(void *user, void *p, size_t old_bytes, size_t new_bytes)
{
    bank *b = user;
    size_t *raw = p ? (size_t *)p - 2 : NULL;
    if (raw && raw[0] != old_bytes)
        b->wrong = true;
    if (new_bytes && b->empty)
        return NULL;
    if (raw) {
        b->live -= old_bytes;
        b->blocks--;
    }
    if (!new_bytes) {
        free(raw);
        return NULL;
    }
    raw = realloc(raw, new_bytes + 16);
    raw[0] = new_bytes;
    b->live += new_bytes;
    b->blocks++;
    return raw + 2;
}

static void mem_blocks(void **state)
{
    (void)state;
    wfi_mem m;
    bank b = { 0 };
    for (int user = 0; user < 2; user++) {
        wfi_mem_init(&m, user ? bank_realloc : NULL, &b, 0);
        static const size_t sizes[] = { 0, 1, 63, 64, 65, 4096, (2 << 20) - 1, 2 << 20, (3 << 20) + 5 };
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            size_t n = sizes[i];
            unsigned char *p = wfi_mem_zalloc(&m, n), *q = wfi_mem_alloc(&m, n);
            assert_non_null(p);
            assert_non_null(q);
            assert_int_equal((uintptr_t)p % (n >= 2 << 20 ? 2 << 20 : 64), 0);
            assert_int_equal((uintptr_t)q % (n >= 2 << 20 ? 2 << 20 : 64), 0);
            for (size_t k = 0; k < n; k++)
                assert_int_equal(p[k], 0);
            memset(p, 1, n);
            memset(q, 2, n);
            assert_int_equal(atomic_load(&m.live), 2 * n);
            p = wfi_mem_resize(&m, p, n + 100);
            assert_non_null(p);
            for (size_t k = 0; k < n; k++)
                assert_int_equal(p[k], 1);
            memset(p, 3, n + 100);
            assert_int_equal(atomic_load(&m.live), 2 * n + 100);
            p = wfi_mem_resize(&m, p, 1);
            assert_int_equal(p[0], 3);
            assert_int_equal(atomic_load(&m.live), n + 1);
            wfi_mem_free(&m, p);
            wfi_mem_free(&m, q);
            wfi_mem_free(&m, NULL);
            assert_int_equal(atomic_load(&m.live), 0);
            assert_true(atomic_load(&m.peak) >= 2 * n + 100);
        }
    }
    assert_int_equal(b.blocks, 0);
    assert_int_equal(b.live, 0);
    assert_false(b.wrong);
    b.empty = true;
    assert_null(wfi_mem_alloc(&m, 8));
    assert_int_equal(atomic_load(&m.live), 0);
}

static void mem_limits(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 1000);
    char *p = wfi_mem_alloc(&m, 600);
    assert_non_null(p);
    memset(p, 7, 600);
    assert_null(wfi_mem_alloc(&m, 401));
    assert_null(wfi_mem_alloc(&m, SIZE_MAX));
    assert_null(wfi_mem_alloc(&m, SIZE_MAX - 100));
    assert_null(wfi_mem_array(&m, SIZE_MAX / 2, 3));
    assert_null(wfi_mem_resize(&m, p, 1001));
    assert_int_equal(p[599], 7);
    void *q = wfi_mem_alloc(&m, 400);
    assert_non_null(q);
    assert_int_equal(atomic_load(&m.live), 1000);
    wfi_mem_free(&m, p);
    wfi_mem_free(&m, q);
    assert_int_equal(atomic_load(&m.peak), 1000);
}

static void mem_failures(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    for (int on = 0; on < 2; on++) {
        m.fail_on = on;
        atomic_store(&m.fail_at, 2);
        void *p[4];
        for (int i = 0; i < 4; i++)
            p[i] = wfi_mem_alloc(&m, 10);
        assert_non_null(p[0]);
        assert_non_null(p[1]);
        assert_null(p[2]);
        assert_int_equal(p[3] != NULL, !on);
        atomic_store(&m.fail_at, 0);
        assert_null(wfi_mem_resize(&m, p[0], 11));
        atomic_store(&m.fail_at, -1);
        for (int i = 0; i < 4; i++)
            wfi_mem_free(&m, p[i]);
        assert_int_equal(atomic_load(&m.live), 0);
    }
    assert_int_equal(atomic_load(&m.calls), 10);
}

static void mem_grow_array(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    int *p = NULL;
    size_t cap = 0;
    for (size_t n = 0; n < 1000; n++) {
        assert_true(wfi_mem_grow(&m, &p, &cap, n + 1, sizeof *p));
        p[n] = (int)n;
    }
    for (size_t n = 0; n < 1000; n++)
        assert_int_equal(p[n], n);
    assert_int_equal(cap, 1024);
    assert_false(wfi_mem_grow(&m, &p, &cap, SIZE_MAX, sizeof *p));
    assert_false(wfi_mem_grow(&m, &p, &cap, SIZE_MAX / 4 + 1, sizeof *p));
    assert_int_equal(cap, 1024);
    wfi_mem_free(&m, p);
}

static void arenas(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_arena a;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_arena_init(&a, &m);
    for (int round = 0; round < 3; round++) {
        unsigned char *p[500];
        for (int i = 0; i < 500; i++) {
            size_t n = (size_t)(i % 97 == 5 ? 3000000 : i * 3);
            p[i] = wfi_arena_alloc(&a, n);
            assert_int_equal((uintptr_t)p[i] % 16, 0);
            for (size_t k = 0; k < n; k++)
                assert_int_equal(p[i][k], 0);
            memset(p[i], i, n);
        }
        for (int i = 1; i < 500; i++)
            assert_int_equal(p[i][0], i & 255);
        char *s = wfi_arena_str(&a, "text");
        assert_string_equal(s, "text");
        assert_true(a.used >= 6 * 3000000);
        wfi_arena_reset(&a);
        assert_int_equal(a.used, 0);
    }
    assert_null(wfi_arena_alloc(&a, SIZE_MAX));
    assert_null(wfi_arena_alloc(&a, SIZE_MAX - 32));
    wfi_arena_free(&a);
    assert_int_equal(atomic_load(&m.live), 0);
    atomic_store(&m.fail_at, 0);
    assert_null(wfi_arena_str(&a, "text"));
    assert_non_null(wfi_arena_str(&a, "text"));
    wfi_arena_free(&a);
}

static void checked_arithmetic(void **state)
{
    (void)state;
    size_t r = 5;
    int64_t s = 5;
    assert_true(wfi_ck_add(SIZE_MAX - 1, 1, &r) && r == SIZE_MAX);
    assert_false(wfi_ck_add(SIZE_MAX, 1, &r));
    assert_false(wfi_ck_mul(SIZE_MAX / 2 + 1, 2, &r));
    assert_int_equal(r, SIZE_MAX);
    assert_true(wfi_ck_mul64(INT64_MIN, 1, &s) && s == INT64_MIN);
    assert_false(wfi_ck_mul64(INT64_MIN, -1, &s));
    assert_false(wfi_ck_add64(INT64_MAX, 1, &s));
    assert_true(wfi_ck_align(65, 64, &r) && r == 128);
    assert_true(wfi_ck_align(0, 64, &r) && r == 0);
    assert_false(wfi_ck_align(SIZE_MAX - 62, 64, &r));

    static const struct {
        int64_t d[4];
        int n;
        int64_t want; /* -1: refused */
    } rows[] = {
        { { 0 }, 0, 1 },
        { { 7 }, 1, 7 },
        { { 2, 3, 4 }, 3, 24 },
        { { 0, WFI_DIM_MAX, WFI_DIM_MAX }, 3, 0 },
        { { WFI_DIM_MAX, WFI_DIM_MAX, 0 }, 3, 0 },
        { { WFI_DIM_MAX }, 1, WFI_DIM_MAX },
        { { WFI_DIM_MAX, 1 }, 2, WFI_DIM_MAX },
        { { WFI_DIM_MAX, 2 }, 2, -1 },
        { { WFI_DIM_MAX + 1 }, 1, -1 },
        { { WFI_DIM_MAX + 1, 0 }, 2, -1 },
        { { -1 }, 1, -1 },
        { { 0, -1 }, 2, -1 },
        { { (int64_t)1 << 32, (int64_t)1 << 32 }, 2, -1 },
        { { (int64_t)1 << 31, (int64_t)1 << 31, (int64_t)1 << 31, 1 << 30 }, 4, -1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t n = -7;
        bool fine = wfi_ck_elements(rows[i].d, rows[i].n, &n);
        assert_int_equal(fine, rows[i].want >= 0);
        assert_int_equal(n, fine ? rows[i].want : -7);
    }
}

/* Every bit of the input moves about half of the output, and the length counts. */
static void hashes(void **state)
{
    (void)state;
    unsigned char text[40] = { 0 };
    for (size_t n = 0; n <= sizeof text; n++) {
        uint64_t h = wfi_hash64(text, n, 1);
        assert_int_equal(h, wfi_hash64(text, n, 1));
        assert_int_not_equal(h, wfi_hash64(text, n, 2));
        assert_int_not_equal(h, wfi_hash64(text, n ? n - 1 : 40, 1));
        int moved = 0;
        for (size_t bit = 0; bit < n * 8; bit++) {
            text[bit / 8] ^= (unsigned char)(1u << bit % 8);
            int d = __builtin_popcountll(h ^ wfi_hash64(text, n, 1));
            assert_in_range(d, 8, 56);
            moved += d;
            text[bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
        if (n)
            assert_in_range(moved * 10 / (int)(n * 8), 290, 350);
    }
    assert_int_equal(wfi_hash64(NULL, 0, 3), wfi_hash64("x", 0, 3));
    assert_int_equal(wfi_hash_str("abc", 3), wfi_hash64("abc", 3, 3));

    wfi_hash128 seen[4096];
    for (uint64_t i = 0; i < 4096; i++) {
        wfi_hash128 h = wfi_hash128_start(0);
        wfi_hash128_u64(&h, i >> 6);
        wfi_hash128_u64(&h, i & 63);
        seen[i] = wfi_hash128_end(h);
        for (uint64_t k = 0; k < i; k++) { /* 128 bits of 4,096 inputs: not even half of them is shared */
            assert_int_not_equal(seen[k].a, seen[i].a);
            assert_int_not_equal(seen[k].b, seen[i].b);
        }
    }
    wfi_hash128 x = wfi_hash128_start(0), y = wfi_hash128_start(0);
    wfi_hash128_bytes(&x, "ab", 2);
    wfi_hash128_bytes(&x, "c", 1);
    wfi_hash128_bytes(&y, "a", 1);
    wfi_hash128_bytes(&y, "bc", 2);
    assert_false(wfi_hash128_same(wfi_hash128_end(x), wfi_hash128_end(y)));
    assert_int_not_equal(wfi_hash_mix(wfi_hash_mix(0, 1), 2), wfi_hash_mix(wfi_hash_mix(0, 2), 1));
}

/* FIPS 180-4, examples of NIST; fed in pieces of every size. */
static void sha256(void **state)
{
    static const struct {
        const char *text;
        size_t times;
        const char *digest;
    } known[] = {
        { "", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
        { "abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
        { "a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint8_t digest[WFI_SHA256_BYTES];
        char hex[2 * WFI_SHA256_BYTES + 1];
        wfi_sha256 s = wfi_sha256_start();
        for (size_t k = 0; k < known[i].times; k++)
            wfi_sha256_add(&s, known[i].text, strlen(known[i].text));
        wfi_sha256_end(&s, digest);
        wfi_sha256_hex(digest, hex);
        assert_string_equal(hex, known[i].digest);
    }
    static const char text[200] = "pieces";
    for (size_t cut = 0; cut <= sizeof text; cut++) {
        uint8_t one[WFI_SHA256_BYTES], two[WFI_SHA256_BYTES];
        wfi_sha256 s = wfi_sha256_start(), t = s;
        wfi_sha256_add(&s, text, sizeof text);
        wfi_sha256_add(&t, text, cut);
        wfi_sha256_add(&t, text + cut, sizeof text - cut);
        wfi_sha256_end(&s, one);
        wfi_sha256_end(&t, two);
        assert_memory_equal(one, two, sizeof one);
    }
}

static void texts(void **state)
{
    (void)state;
    wfi_mem m;
    wfi_mem_init(&m, NULL, NULL, 0);
    wfi_text t = { .mem = &m };
    assert_string_equal(wfi_text_str(&t), "");
    wfi_text_addf(&t, "%s is %d", "axis", -1);
    wfi_text_addc(&t, ',');
    wfi_text_fill(&t, ' ', 2);
    wfi_text_quote(&t, "a\"b\\\n\t\x01");
    assert_string_equal(wfi_text_str(&t), "axis is -1,  \"a\\\"b\\\\\\n\\t\\x01\"");
    wfi_text_cut(&t, 4);
    assert_string_equal(t.p, "axis");
    wfi_text_json(&t, "a\"b\\\n\x01");
    wfi_text_json(&t, NULL);
    assert_string_equal(t.p, "axis\"a\\\"b\\\\\\u000a\\u0001\"null");
    wfi_text_cut(&t, 0);
    static const struct {
        double v;
        int decimals;
        const char *text;
    } fixed[] = { { 1.005, 2, "1.00 " },  { 0.996, 2, "1.00 " },          { -2.5, 0, "-3 " },   { 0, 3, "0.000 " },
                  { -0.001, 2, "0.00 " }, { 123456.789, 1, "123456.8 " }, { -1.25, 1, "-1.3 " } };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        wfi_text_fixed(&t, fixed[i].v, fixed[i].decimals);
        wfi_text_addc(&t, ' ');
        assert_string_equal(t.p, fixed[i].text);
        wfi_text_cut(&t, 0);
    }
    wfi_text_add(&t, "axis");
    for (int i = 0; i < 1000; i++)
        wfi_text_addf(&t, "%d;", i);
    assert_int_equal(t.n, 4 + 10 * 2 + 90 * 3 + 900 * 4);
    assert_memory_equal(t.p + t.n - 8, "998;999;", 9);
    wfi_text_free(&t);
    assert_int_equal(atomic_load(&m.live), 0);

    wfi_text s = { .mem = &m, .max = 10 };
    wfi_text_add(&s, "12345");
    wfi_text_addf(&s, "%s", "67890");
    assert_false(s.oom);
    wfi_text_addf(&s, "%d", 1);
    assert_true(s.oom);
    wfi_text_add(&s, "");
    assert_string_equal(s.p, "1234567890");
    wfi_text_free(&s);

    for (int k = 0; k < 2; k++) {
        atomic_store(&m.fail_at, 0);
        if (k)
            wfi_text_addf(&s, "%d", 5);
        else
            wfi_text_add(&s, "5");
        assert_true(s.oom);
        assert_string_equal(wfi_text_str(&s), "");
        wfi_text_free(&s);
    }
}

static void bounded_strings(void **state)
{
    (void)state;
    char b[8];
    assert_true(wfi_str_copy(b, sizeof b, "1234567"));
    assert_string_equal(b, "1234567");
    assert_false(wfi_str_copy(b, sizeof b, "12345678"));
    assert_string_equal(b, "1234...");
    assert_false(wfi_str_copy(b, 3, "12345678"));
    assert_string_equal(b, "..");
    assert_false(wfi_str_copy(b, 1, "1"));
    assert_string_equal(b, "");
    assert_true(wfi_str_copy(b, 1, NULL));
    assert_true(wfi_str_print(b, sizeof b, "%d", 1234567));
    assert_false(wfi_str_print(b, sizeof b, "%d", 12345678));
    assert_string_equal(b, "1234...");
    assert_true(wfi_str_eq("a", "a") && wfi_str_eq(NULL, NULL));
    assert_false(wfi_str_eq("a", "b") || wfi_str_eq("a", NULL) || wfi_str_eq(NULL, "a"));
    assert_true(wfi_str_starts("abc", "ab") && wfi_str_starts("abc", "") && !wfi_str_starts("a", "ab"));
}

static bool int64_of(const char *s, int64_t *v)
{
    return wfi_str_int64(s, strlen(s), v);
}

static void whole_numbers(void **state)
{
    (void)state;
    int64_t v = 0;
    uint64_t u = 0;
    assert_true(int64_of("9223372036854775807", &v) && v == INT64_MAX);
    assert_true(int64_of("-9223372036854775808", &v) && v == INT64_MIN);
    assert_true(int64_of("+12", &v) && v == 12);
    assert_true(int64_of("-0", &v) && v == 0);
    static const char *const bad[] = { "",
                                       "-",
                                       "+",
                                       " 1",
                                       "1 ",
                                       "1.0",
                                       "0x1",
                                       "9223372036854775808",
                                       "-9223372036854775809",
                                       "--1",
                                       "99999999999999999999999" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(int64_of(bad[i], &v));
    assert_int_equal(v, 0);
    assert_true(wfi_str_int64("123456", 3, &v) && v == 123);
    assert_true(wfi_str_uint64("18446744073709551615", 20, &u) && u == UINT64_MAX);
    assert_false(wfi_str_uint64("18446744073709551616", 20, &u));
    assert_false(wfi_str_uint64("-1", 2, &u));
}

static double read_back(const char *s)
{
    double v = -12345;
    assert_true(wfi_str_double(s, strlen(s), &v));
    return v;
}

static void shortest_numbers(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } rows[] = {
        { 0, "0" },
        { -0.0, "-0" },
        { 1, "1" },
        { -1.5, "-1.5" },
        { 0.1, "0.1" },
        { 1e-3, "0.001" },
        { 1e-7, "1e-7" },
        { 123456789, "123456789" },
        { 1e16, "10000000000000000" },
        { 1e17, "1e17" },
        { 1.25e-10, "1.25e-10" },
        { 1.0 / 3, "0.3333333333333333" },
        { 0.1 + 0.2, "0.30000000000000004" },
        { 5e-324, "5e-324" },
        { DBL_MAX, "1.7976931348623157e308" },
        { DBL_MIN, "2.2250738585072014e-308" },
        { 9007199254740993.0, "9007199254740992" },
        { (double)INFINITY, "inf" },
        { -(double)INFINITY, "-inf" },
        { (double)NAN, "nan" },
    };
    char out[WFI_STR_NUMBER];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(wfi_str_f64(out, rows[i].v), strlen(rows[i].text));
        assert_string_equal(out, rows[i].text);
    }
    assert_int_equal(wfi_str_f32(out, 0.1f), 3);
    assert_string_equal(out, "0.1");
    assert_int_equal(wfi_str_f32(out, 16777216.0f), 8);
    wfi_str_f32(out, FLT_MAX);
    assert_string_equal(out, "3.4028235e38");
    wfi_str_f32(out, 0x1p-149f);
    assert_string_equal(out, "1e-45");
    wfi_str_f32(out, 1.0f / 3);
    assert_string_equal(out, "0.33333334");

    uint64_t seed = wfi_clock_ns();
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < 20000; i++) {
        uint64_t u = next_random(&seed);
        uint32_t w = (uint32_t)(u >> 32);
        double d;
        float f;
        memcpy(&d, &u, sizeof d);
        memcpy(&f, &w, sizeof f);
        if (i % 4 == 0) /* a subnormal */
            d = (double)(u >> (12 + i % 50)) * 5e-324;
        if (isfinite(d)) {
            wfi_str_f64(out, d);
            double back = read_back(out);
            assert_memory_equal(&back, &d, sizeof d);
        }
        if (isfinite(f)) {
            wfi_str_f32(out, f);
            assert_true(strtof(out, NULL) == f); /* the locale here is C */
            assert_true(strlen(out) < 19);
        }
    }
}

static void reading_doubles(void **state)
{
    (void)state;
    double v = 7;
    assert_true(read_back("1") == 1 && read_back("-1.5e2") == -150 && read_back(".5") == 0.5 && read_back("5.") == 5);
    assert_true(read_back("+1E-2") == 0.01 && read_back("1e-400") == 0);
    assert_true(isinf(read_back("-Infinity")) && read_back("-inf") < 0 && isnan(read_back("NaN")));
    assert_true(read_back("9007199254740993") == 9007199254740992.0); /* ties to even */
    static const char *const bad[] = { "",    "-",     ".",  "e5",    "1e",     "1e+",  " 1",     "1 ", "0x10",
                                       "1,5", "1.5.2", "in", "1e999", "-1e999", "nanx", "nan(1)", "1f" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(wfi_str_double(bad[i], strlen(bad[i]), &v));
    char many[2000];
    memset(many, '1', sizeof many);
    assert_false(wfi_str_double(many, sizeof many, &v));
    assert_true(v == 7);
    assert_true(wfi_str_double("123456", 3, &v) && v == 123);
}

/* With a decimal comma nothing changes, where the system has such a locale. */
static void other_locales(void **state)
{
    (void)state;
    static const char *const names[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "ps_AF.UTF-8" };
    bool any = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!setlocale(LC_ALL, names[i]))
            continue;
        any = true;
        char out[WFI_STR_NUMBER];
        wfi_str_f64(out, 1234.5);
        assert_string_equal(out, "1234.5");
        assert_true(read_back("0.25") == 0.25);
        double v;
        assert_false(wfi_str_double("0,25", 4, &v));
    }
    setlocale(LC_ALL, "C");
    if (!any)
        printf("no locale with a decimal comma here: not tried\n");
}

static void environment(void **state)
{
    (void)state;
    const char *bad;
    assert_int_equal(setenv("WEFT_TEST_VALUE", "12", 1), 0);
    assert_string_equal(wfi_env_get("WEFT_TEST_VALUE"), "12");
    assert_int_equal(wfi_env_int("WEFT_TEST_VALUE", 1, 12, 5, &bad), 12);
    assert_null(bad);
    assert_int_equal(wfi_env_int("WEFT_TEST_VALUE", 1, 11, 5, &bad), 5);
    assert_string_equal(bad, "12");
    assert_true(wfi_env_flag("WEFT_TEST_VALUE"));
    setenv("WEFT_TEST_VALUE", "two", 1);
    assert_int_equal(wfi_env_int("WEFT_TEST_VALUE", 1, 11, 5, NULL), 5);
    setenv("WEFT_TEST_VALUE", "0", 1);
    assert_false(wfi_env_flag("WEFT_TEST_VALUE"));
    setenv("WEFT_TEST_VALUE", "", 1);
    assert_null(wfi_env_get("WEFT_TEST_VALUE"));
    unsetenv("WEFT_TEST_VALUE");
    assert_int_equal(wfi_env_int("WEFT_TEST_VALUE", 1, 11, 5, &bad), 5);
    assert_null(bad);
    assert_false(wfi_env_flag("WEFT_TEST_VALUE"));
    uint64_t t = wfi_clock_ns();
    assert_true(t > 0 && wfi_clock_ns() >= t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mem_blocks),      cmocka_unit_test(mem_limits),    cmocka_unit_test(mem_failures),
        cmocka_unit_test(mem_grow_array),  cmocka_unit_test(arenas),        cmocka_unit_test(checked_arithmetic),
        cmocka_unit_test(hashes),          cmocka_unit_test(sha256),        cmocka_unit_test(texts),
        cmocka_unit_test(bounded_strings), cmocka_unit_test(whole_numbers), cmocka_unit_test(shortest_numbers),
        cmocka_unit_test(reading_doubles), cmocka_unit_test(other_locales), cmocka_unit_test(environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
