/* IDX files: right values for every element type, one clear line for everything that is wrong, no leak. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "data/dataset.h"
#include "data/idx.h"

static wfi_mem mem;

static int setup(void **state)
{
    (void)state;
    wfi_mem_init(&mem, NULL, NULL, 0);
    return 0;
}

static int no_leak(void **state)
{
    (void)state;
    return mem.live == 0 ? 0 : -1;
}

/* The header of type `code` with 32-bit dims, into out; returns its length. */
static size_t header(uint8_t *out, uint8_t code, int ndim, const uint32_t *dims)
{
    out[0] = out[1] = 0;
    out[2] = code;
    out[3] = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++)
        for (int k = 0; k < 4; k++)
            out[4 + 4 * i + k] = (uint8_t)(dims[i] >> (24 - 8 * k));
    return 4 + 4 * (size_t)ndim;
}

static wf_status parse(const void *bytes, size_t n, wfi_idx *x, wfi_problem *p)
{
    /* an exact copy on the heap, so that AddressSanitizer sees a read past the end */
    uint8_t *copy = malloc(n ? n : 1);
    if (n)
        memcpy(copy, bytes, n);
    *p = (wfi_problem){ 0 };
    wf_status st = wfi_idx_parse(&mem, "t.idx", copy, n, x, p);
    free(copy);
    assert_int_equal(st, p->status);
    assert_true(st == WF_OK || (x->data == NULL && x->elements == 0));
    return st;
}

static void types(void **state)
{
    static const struct {
        uint8_t code;
        wf_dtype dtype;
        uint8_t bytes[16];
        double want[2];
    } rows[] = {
        { 0x08, WF_U8, { 7, 255 }, { 7, 255 } },
        { 0x09, WF_I8, { 7, 255 }, { 7, -1 } },
        { 0x0B, WF_I16, { 0x01, 0x02, 0xFF, 0xFE }, { 258, -2 } },
        { 0x0C, WF_I32, { 0, 1, 0, 2, 0x80, 0, 0, 0 }, { 65538, -2147483648.0 } },
        { 0x0D, WF_F32, { 0x3F, 0xC0, 0, 0, 0xC2, 0x28, 0, 0 }, { 1.5, -42 } },
        { 0x0E, WF_F64, { 0x40, 0x09, 0x21, 0xFB, 0x54, 0x44, 0x2D, 0x18, 0xBF, 0xF0 }, { 3.141592653589793, -1 } },
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        uint8_t file[64];
        uint32_t dims[2] = { 1, 2 };
        size_t n = header(file, rows[r].code, 2, dims), each = wf_dtype_bytes(rows[r].dtype);
        memcpy(file + n, rows[r].bytes, 2 * each);
        wfi_idx x;
        wfi_problem p;
        assert_int_equal(parse(file, n + 2 * each, &x, &p), WF_OK);
        assert_int_equal(x.dtype, rows[r].dtype);
        assert_int_equal(x.ndim, 2);
        assert_int_equal(x.dims[0], 1);
        assert_int_equal(x.dims[1], 2);
        assert_int_equal(x.bytes, 2 * each);
        for (int i = 0; i < 2; i++) {
            double got = x.dtype == WF_U8    ? ((uint8_t *)x.data)[i]
                         : x.dtype == WF_I8  ? ((int8_t *)x.data)[i]
                         : x.dtype == WF_I16 ? ((int16_t *)x.data)[i]
                         : x.dtype == WF_I32 ? ((int32_t *)x.data)[i]
                         : x.dtype == WF_F32 ? (double)((float *)x.data)[i]
                                             : ((double *)x.data)[i];
            assert_true(got == rows[r].want[i]);
        }
        wfi_idx_free(&mem, &x);
    }
    wfi_idx_free(&mem, NULL);
}

/* Bytes -> the line that must come out. */
static void messages(void **state)
{
    static const struct {
        const char *bytes;
        size_t n;
        const char *want;
    } rows[] = {
        { "", 0, "t.idx: at byte 0: magic number: got 0 bytes, want 4" },
        { "\0\0\x08", 3, "t.idx: at byte 0: magic number: got 3 bytes, want 4" },
        { "\x89PNG", 4, "t.idx: at byte 0: magic number: got 89 50, want 00 00 (no IDX file)" },
        { "\0\0\x0a\x01", 4, "t.idx: at byte 2: element type: got 0a, want 08, 09, 0b, 0c, 0d or 0e" },
        { "\0\0\x08\0", 4, "t.idx: at byte 3: number of dimensions: got 0, want 1 to 8" },
        { "\0\0\x08\x09", 4, "t.idx: at byte 3: number of dimensions: got 9, want 1 to 8" },
        { "\0\0\x08\x03\0\0\0\1\0\0", 10, "t.idx: at byte 4: dimensions: got 6 bytes, want 12" },
        { "\0\0\x08\x01\0\0\0\3ab", 10, "t.idx: at byte 8: elements: got 2 bytes, want 3" },
        { "\0\0\x08\x01\0\0\0\3abcd", 12, "t.idx: at byte 8: elements: got 4 bytes, want 3" },
        { "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\2", 16,
          "t.idx: at byte 4: dimensions: got a product over 2^47, want less" },
        { "\0\0\x0e\x02\0\1\0\0\xff\xff\xff\xff", 12,
          "t.idx: at byte 4: dimensions: got a product over 2^47, want less" },
        { "\0\0\x08\x01\xff\xff\xff\xff", 8, "t.idx: at byte 8: elements: got 0 bytes, want 4294967295" },
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        wfi_idx x;
        wfi_problem p;
        assert_int_equal(parse(rows[r].bytes, rows[r].n, &x, &p), WF_ERR_FORMAT);
        assert_string_equal(p.text, rows[r].want);
    }
}

static void empty(void **state)
{
    uint8_t file[32];
    wfi_idx x;
    wfi_problem p;
    (void)state;
    size_t n = header(file, 0x0D, 3, (uint32_t[]){ 0, 28, 28 });
    assert_int_equal(parse(file, n, &x, &p), WF_OK);
    assert_int_equal(x.elements, 0);
    assert_int_equal(x.bytes, 0);
    assert_non_null(x.data);
    wfi_idx_free(&mem, &x);
}

static void missing(void **state)
{
    wfi_idx x;
    wfi_problem p = { 0 };
    (void)state;
    assert_int_equal(wfi_idx_read(&mem, "/nonexistent/a.idx", &x, &p), WF_ERR_IO);
    assert_string_equal(p.text, "/nonexistent/a.idx: cannot open: No such file or directory");
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_idx_read(&mem, "/", &x, &p), WF_ERR_IO);
    assert_string_equal(p.text, "/: not a regular file");
}

/* ---- gzip ---- */

static uint32_t crc32_of(const uint8_t *b, size_t n)
{
    uint32_t c = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        c ^= b[i];
        for (int k = 0; k < 8; k++)
            c = c >> 1 ^ (c & 1 ? 0xEDB88320u : 0);
    }
    return ~c;
}

static size_t little(uint8_t *out, size_t bytes, uint32_t v)
{
    for (size_t i = 0; i < bytes; i++)
        out[i] = (uint8_t)(v >> 8 * i);
    return bytes;
}

/* A gzip member with one stored block (RFC 1951, 3.2.4), so that the test needs no zlib. n < 65536. */
static size_t gzip(const uint8_t *in, size_t n, uint8_t *out)
{
    static const uint8_t head[11] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1 };
    size_t o = sizeof head;
    memcpy(out, head, o);
    o += little(out + o, 2, (uint32_t)n);
    o += little(out + o, 2, ~(uint32_t)n);
    if (n)
        memcpy(out + o, in, n);
    o += n;
    o += little(out + o, 4, crc32_of(in, n));
    return o + little(out + o, 4, (uint32_t)n);
}

/* False: this build has no zlib, and says so. */
static bool have_zlib(void)
{
    uint8_t b[64];
    wfi_idx x;
    wfi_problem p;
    wf_status st = parse(b, gzip(NULL, 0, b), &x, &p);
    if (st == WF_ERR_UNSUPPORTED)
        assert_string_equal(p.text, "t.idx: gzipped, and this build has no zlib; unpack it first");
    return st != WF_ERR_UNSUPPORTED;
}

#define NEEDS_ZLIB                                                                                                     \
    do {                                                                                                               \
        if (!have_zlib())                                                                                              \
            skip();                                                                                                    \
    } while (0)

/* 40 x 25 bytes of i % 251, plain; and gzipped. */
static size_t sample(uint8_t *plain, uint8_t *packed, size_t *npacked)
{
    size_t n = header(plain, 0x08, 2, (uint32_t[]){ 40, 25 });
    for (size_t i = 0; i < 1000; i++)
        plain[n + i] = (uint8_t)(i * i % 251);
    *npacked = gzip(plain, n + 1000, packed);
    return n + 1000;
}

static void check_sample(const uint8_t *file, size_t n)
{
    wfi_idx x;
    wfi_problem p;
    assert_int_equal(parse(file, n, &x, &p), WF_OK);
    assert_int_equal(x.elements, 1000);
    for (size_t i = 0; i < 1000; i++)
        assert_int_equal(((uint8_t *)x.data)[i], i * i % 251);
    wfi_idx_free(&mem, &x);
}

static void packed(void **state)
{
    uint8_t plain[1100], gz[2048], two[4096];
    size_t ngz, n = sample(plain, gz, &ngz);
    (void)state;
    NEEDS_ZLIB;
    check_sample(plain, n);
    check_sample(gz, ngz);
    /* two members, cut anywhere, are one file (RFC 1952, 2.2) */
    for (size_t k = 0; k <= n; k += 7) {
        size_t a = gzip(plain, k, two);
        size_t b = gzip(plain + k, n - k, two + a);
        check_sample(two, a + b);
    }
}

/* Every prefix and every flipped bit of a gzipped file is seen, but for the few header bytes that carry no data. */
static void damaged(void **state)
{
    uint8_t plain[1100], gz[2048];
    size_t ngz;
    wfi_idx x;
    wfi_problem p;
    (void)state;
    NEEDS_ZLIB;
    (void)sample(plain, gz, &ngz);
    for (size_t n = 0; n < ngz; n++)
        assert_int_equal(parse(gz, n, &x, &p), WF_ERR_FORMAT);
    for (size_t i = 0; i < ngz; i++)
        for (int bit = 0; bit < 8; bit++) {
            gz[i] ^= (uint8_t)(1 << bit);
            wf_status st = parse(gz, ngz, &x, &p);
            gz[i] ^= (uint8_t)(1 << bit);
            if (i >= 3 && i <= 10) /* flags such as "text", time, system, padding before the block */
                wfi_idx_free(&mem, &x);
            else
                assert_int_equal(st, WF_ERR_FORMAT);
        }
}

static void gzip_messages(void **state)
{
    uint8_t plain[1100], gz[2048];
    size_t ngz, n = sample(plain, gz, &ngz);
    wfi_idx x;
    wfi_problem p;
    (void)state;
    NEEDS_ZLIB;
    assert_int_equal(parse(gz, 200, &x, &p), WF_ERR_FORMAT);
    assert_non_null(strstr(p.text, "gzip data: got damaged data (it is cut), want a whole stream"));
    gz[ngz - 6] ^= 1;
    assert_int_equal(parse(gz, ngz, &x, &p), WF_ERR_FORMAT);
    assert_string_equal(p.text, "t.idx: at byte 1012: gzip data: got damaged data (incorrect data check), want a whole "
                                "stream");
    gz[ngz - 6] ^= 1;
    memcpy(gz + ngz, "junk", 4);
    assert_int_equal(parse(gz, ngz + 4, &x, &p), WF_ERR_FORMAT);
    assert_string_equal(p.text, "t.idx: at byte 1012: end of file: got 4 bytes after the gzip data, want none");
    plain[n] = 1;
    ngz = gzip(plain, n + 1, gz);
    assert_int_equal(parse(gz, ngz, &x, &p), WF_ERR_FORMAT);
    assert_string_equal(p.text, "t.idx: at byte 1012: end of file: got bytes after the last element, want none");
    ngz = gzip(plain, n - 1, gz);
    assert_int_equal(parse(gz, ngz, &x, &p), WF_ERR_FORMAT);
    assert_string_equal(p.text, "t.idx: at byte 1011: elements: got 999 bytes, want 1000");
    /* a small file that asks for much memory: 2^31 elements, 64 x 2^31 */
    header(plain, 0x08, 1, (uint32_t[]){ 0x80000000u });
    ngz = gzip(plain, 1012, gz);
    assert_int_equal(parse(gz, ngz, &x, &p), WF_ERR_FORMAT);
    assert_non_null(strstr(p.text, "at byte 4: dimensions: got 2147483648 bytes of elements out of a gzip file of"));
}

/* Each allocation fails once: an error, nothing lost, and the next try succeeds. */
static void memory(void **state)
{
    uint8_t plain[1100];
    size_t n = header(plain, 0x08, 1, (uint32_t[]){ 1000 }) + 1000, size = n;
    const uint8_t *file = plain;
    memset(plain + 8, 3, 1000);
    (void)state;
    uint8_t gz[2048];
    if (have_zlib()) {
        size = gzip(plain, n, gz);
        file = gz;
    }
    int failures = 0;
    for (int64_t k = 0;; k++) {
        wfi_idx x;
        wfi_problem p = { 0 };
        mem.fail_at = k;
        wf_status st = wfi_idx_parse(&mem, "t.idx", file, size, &x, &p);
        bool failed = mem.fail_at < 0;
        mem.fail_at = -1;
        wfi_idx_free(&mem, &x);
        assert_int_equal(mem.live, 0);
        if (!failed)
            break;
        assert_int_equal(st, WF_ERR_MEMORY);
        assert_non_null(strstr(p.text, "out of memory"));
        failures++;
    }
    assert_true(failures >= 1);
}

/* ---- data sets on top ---- */

static char folder[64];

static void put(const char *name, const void *bytes, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

static void drop(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

/* Three images of 2 x 2 and their labels. */
static void put_images(const char *images, const char *labels, uint32_t nlabels)
{
    uint8_t b[64];
    size_t n = header(b, 0x08, 3, (uint32_t[]){ 3, 2, 2 });
    for (int i = 0; i < 12; i++)
        b[n + (size_t)i] = (uint8_t)(i * 23);
    put(images, b, n + 12);
    n = header(b, 0x08, 1, &nlabels);
    memcpy(b + n, "\x09\x00\x05\x07", 4);
    put(labels, b, n + nlabels);
}

static void images(void **state)
{
    wfi_dataset d;
    wfi_problem p = { 0 };
    float x[4];
    int64_t y;
    (void)state;
    strcpy(folder, "/tmp/weft-idx-XXXXXX");
    assert_non_null(mkdtemp(folder));
    put_images("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 3);
    wfi_dataset_opts o = { .folder = folder };
    assert_int_equal(wfi_dataset_open(&mem, "fashion-mnist:test", &o, &d, &p), WF_OK);
    assert_int_equal(d.n, 3);
    assert_int_equal(d.x.dtype, WF_F32);
    assert_int_equal(d.x.ndim, 3);
    assert_true(d.x.dims[0] == 1 && d.x.dims[1] == 2 && d.x.dims[2] == 2);
    assert_int_equal(d.y.dtype, WF_I64);
    assert_int_equal(d.y.ndim, 0);
    assert_int_equal(d.y.bytes, 8);
    assert_int_equal(d.fill(d.self, &(wfi_pick){ .index = 2 }, x, &y, &p), WF_OK);
    for (int i = 0; i < 4; i++)
        assert_true(x[i] == (float)((8 + i) * 23) / 255.0f);
    assert_int_equal(y, 5);
    wfi_dataset_close(&d);
    wfi_dataset_close(&d);

    char name[200], want[400];
    snprintf(name, sizeof name, "idx:%s/t10k-images-idx3-ubyte:%s/t10k-labels-idx1-ubyte", folder, folder);
    assert_int_equal(wfi_dataset_open(&mem, name, NULL, &d, &p), WF_OK);
    wfi_dataset_close(&d);

    assert_int_equal(wfi_dataset_open(&mem, "fashion-mnist:train", &o, &d, &p), WF_ERR_IO);
    snprintf(
        want, sizeof want,
        "data set fashion-mnist: no file train-images-idx3-ubyte or train-images-idx3-ubyte.gz in %s/fashion-mnist or "
        "%s (the folder that WEFT_DATA names)",
        folder, folder);
    assert_string_equal(p.text, want);

    put_images("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", 4);
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_dataset_open(&mem, "mnist:test", &o, &d, &p), WF_ERR_FORMAT);
    assert_non_null(strstr(p.text, "/t10k-labels-idx1-ubyte: at byte 4: number of labels: got 4, want 3 as in "));
    p = (wfi_problem){ 0 };
    snprintf(name, sizeof name, "idx:%s/t10k-labels-idx1-ubyte:%s/t10k-labels-idx1-ubyte", folder, folder);
    assert_int_equal(wfi_dataset_open(&mem, name, NULL, &d, &p), WF_ERR_FORMAT);
    assert_non_null(strstr(p.text, "at byte 3: number of dimensions: got 1, want 3"));
    drop("t10k-images-idx3-ubyte");
    drop("t10k-labels-idx1-ubyte");
    rmdir(folder);
}

static void names(void **state)
{
    static const char *const bad[] = { "fashion-mnist", "fashion-mnist:validation", "cifar:train", "", ":train", NULL };
    wfi_dataset d;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wfi_problem p = { 0 };
        assert_int_equal(wfi_dataset_open(&mem, bad[i], NULL, &d, &p), WF_ERR_ARG);
        assert_non_null(strstr(p.text, "there are fashion-mnist:train"));
        assert_null(d.self);
    }
    wfi_problem p = { 0 };
    assert_int_equal(wfi_dataset_open(&mem, "mnist:test", NULL, &d, &p), WF_ERR_IO);
    assert_string_equal(p.text, "data set mnist: no file t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz in "
                                "/usr/share/datasets/mnist; set WEFT_DATA to the folder that holds it");
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_dataset_open(&mem, "idx:one", NULL, &d, &p), WF_ERR_ARG);
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_dataset_open(&mem, "text::train", NULL, &d, &p), WF_ERR_ARG);
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_dataset_open(&mem, "te\033\n:train", NULL, &d, &p), WF_ERR_ARG);
    assert_non_null(strstr(p.text, "no data set \"te\\x1b\\x0a:train\""));
}

static void text(void **state)
{
    char path[128], name[160], bytes[1000];
    wfi_dataset d;
    wfi_problem p = { 0 };
    int64_t x[9], y[8];
    (void)state;
    strcpy(folder, "/tmp/weft-idx-XXXXXX");
    assert_non_null(mkdtemp(folder));
    for (int i = 0; i < 1000; i++)
        bytes[i] = (char)(i % 256);
    put("a.txt", bytes, 1000);
    snprintf(path, sizeof path, "%s/a.txt", folder);
    snprintf(name, sizeof name, "text:%s:train", path);
    assert_int_equal(wfi_dataset_open(&mem, name, &(wfi_dataset_opts){ .window = 8 }, &d, &p), WF_OK);
    assert_int_equal(d.n, (950 - 1) / 8);
    assert_true(d.x.ndim == 1 && d.x.dims[0] == 8 && d.x.dtype == WF_I64 && d.y.bytes == 64);
    /* in order: the windows share one byte, the last one stays in the training part */
    for (int64_t k = 0; k < d.n; k++) {
        assert_int_equal(d.fill(d.self, &(wfi_pick){ .position = k, .index = k }, x, y, &p), WF_OK);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(x[i], (k * 8 + i) % 256);
            assert_int_equal(y[i], (k * 8 + i + 1) % 256);
        }
    }
    /* drawn: a function of (seed, epoch, position), over all of the part */
    int64_t lowest = 1000, highest = 0;
    for (int64_t k = 0; k < 20000; k++) {
        wfi_pick pick = { .seed = 9, .epoch = (uint64_t)k / 100, .position = k % 100, .index = 1, .shuffle = true };
        assert_int_equal(d.fill(d.self, &pick, x, y, &p), WF_OK);
        int64_t first = x[0], again;
        for (int i = 0; i < 8; i++)
            assert_int_equal(y[i], (first + i + 1) % 256);
        assert_int_equal(d.fill(d.self, &pick, x, y, &p), WF_OK);
        again = x[0];
        assert_int_equal(first, again);
        lowest = first < lowest ? first : lowest;
        highest = first > highest ? first : highest;
    }
    assert_true(lowest == 0 && highest == 255);
    wfi_dataset_close(&d);

    snprintf(name, sizeof name, "text:%s:test", path);
    assert_int_equal(wfi_dataset_open(&mem, name, &(wfi_dataset_opts){ .window = 8, .whole = true }, &d, &p), WF_OK);
    assert_int_equal(d.n, 49 / 8);
    assert_true(d.x.dims[0] == 9 && d.y.bytes == 0);
    assert_int_equal(d.fill(d.self, &(wfi_pick){ 0 }, x, NULL, &p), WF_OK);
    for (int i = 0; i < 9; i++)
        assert_int_equal(x[i], (950 + i) % 256);
    wfi_dataset_close(&d);

    assert_int_equal(wfi_dataset_open(&mem, name, &(wfi_dataset_opts){ .window = 50 }, &d, &p), WF_ERR_FORMAT);
    assert_non_null(strstr(p.text, "a.txt: the test part has 50 bytes, want at least 51"));
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_dataset_open(&mem, name, &(wfi_dataset_opts){ .window = -1 }, &d, &p), WF_ERR_ARG);
    drop("a.txt");
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_dataset_open(&mem, name, NULL, &d, &p), WF_ERR_IO);
    rmdir(folder);
}

/* The real files, where they are installed. */
static void fashion(void **state)
{
    wfi_dataset d;
    wfi_problem p = { 0 };
    static const int64_t first[] = { 9, 2, 1, 1, 6, 1, 4, 6, 5, 7 };
    float x[784];
    int64_t y, count[10] = { 0 };
    (void)state;
    NEEDS_ZLIB;
    if (access("/usr/share/datasets/fashion-mnist", F_OK))
        skip();
    assert_int_equal(wfi_dataset_open(&mem, "fashion-mnist:test", NULL, &d, &p), WF_OK);
    assert_int_equal(d.n, 10000);
    for (int64_t i = 0; i < d.n; i++) {
        assert_int_equal(d.fill(d.self, &(wfi_pick){ .index = i }, x, &y, &p), WF_OK);
        assert_true(y >= 0 && y < 10);
        count[y]++;
        assert_true(i >= 10 || y == first[i]);
    }
    for (int i = 0; i < 10; i++)
        assert_int_equal(count[i], 1000);
    wfi_dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(types, setup, no_leak),
        cmocka_unit_test_setup_teardown(messages, setup, no_leak),
        cmocka_unit_test_setup_teardown(empty, setup, no_leak),
        cmocka_unit_test_setup_teardown(missing, setup, no_leak),
        cmocka_unit_test_setup_teardown(packed, setup, no_leak),
        cmocka_unit_test_setup_teardown(damaged, setup, no_leak),
        cmocka_unit_test_setup_teardown(gzip_messages, setup, no_leak),
        cmocka_unit_test_setup_teardown(fashion, setup, no_leak),
        cmocka_unit_test_setup_teardown(memory, setup, no_leak),
        cmocka_unit_test_setup_teardown(images, setup, no_leak),
        cmocka_unit_test_setup_teardown(names, setup, no_leak),
        cmocka_unit_test_setup_teardown(text, setup, no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
