/* safetensors: the malformed files of the reliability page (S1-S11) and their messages, every prefix and every flipped
 * bit, values of files by other programs, writing that is deterministic and atomic, memory and disks that give out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "io/crc32c.h"
#include "io/safetensors.h"

static wfi_mem mem;
static char folder[64];

static int setup(void **state)
{
    (void)state;
    wfi_mem_init(&mem, NULL, NULL, 0);
    strcpy(folder, "/tmp/weft-st-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Also: no temporary file is left in the folder. */
static int clean(void **state)
{
    char path[400];
    int wrong = mem.live != 0;
    (void)state;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
            continue;
        wrong |= strncmp(e->d_name, ".weft-", 6) == 0;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    closedir(d);
    rmdir(folder);
    return wrong ? -1 : 0;
}

static const char *path_to(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static wf_status parse(const void *bytes, size_t n, wfi_safetensors *f, wfi_problem *p)
{
    *p = (wfi_problem){ 0 };
    wf_status st = wfi_safetensors_parse(&mem, "t", bytes, n, f, p);
    assert_int_equal(st, p->status);
    assert_true(st == WF_OK || (!f->tensors && !f->meta && !f->n));
    assert_true(!strchr(p->text, '\n'));
    return st;
}

/* ---- recipes ---- */

typedef struct file {
    uint8_t *p;
    size_t n;
} file;

/* Length (n, or that of the JSON), JSON and `data` bytes; on the heap at its exact size, for AddressSanitizer. */
static file build(const char *json, size_t json_bytes, uint64_t n, const void *data, size_t data_bytes)
{
    file f = { malloc(8 + json_bytes + data_bytes), 8 + json_bytes + data_bytes };
    n = n == UINT64_MAX - 1 ? json_bytes : n;
    for (int i = 0; i < 8; i++)
        f.p[i] = (uint8_t)(n >> 8 * i);
    memcpy(f.p + 8, json, json_bytes);
    if (data)
        memcpy(f.p + 8 + json_bytes, data, data_bytes);
    else
        memset(f.p + 8 + json_bytes, 0, data_bytes);
    return f;
}
#define AUTO (UINT64_MAX - 1)

static void refuse(file f, wf_status want, const char *text)
{
    wfi_safetensors s;
    wfi_problem p;
    wf_status st = parse(f.p, f.n, &s, &p);
    free(f.p);
    assert_string_equal(p.text, text);
    assert_int_equal(st, want);
}

#define W(shape, a, b) "{\"w\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" a "," b "]}}"

static void recipes(void **state)
{
    static const struct {
        const char *json;
        size_t data;
        const char *want;
    } rows[] = {
        /* S4 */
        { " " W("[4]", "0", "16"), 16, "t: at byte 8: header: got \" \", want '{'" },
        { "{\"\xff\":1}", 0, "t: at byte 10: header: got byte ff, want UTF-8" },
        /* S5 */
        { "{\"w\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
          4, "t: at byte 61: header: got tensor \"w\" twice, want it once" },
        /* S6 */
        { W("[4]", "0", "8"), 8, "t: at byte 55: \"w\" data_offsets: got 8 bytes, want 16 for the shape" },
        /* S7 */
        { W("[4]", "0", "9223372036854775808"), 16,
          "t: at byte 55: \"w\" data_offsets: got end 9223372036854775808, which leaves the buffer, want at most 16" },
        { W("[4]", "16", "0"), 16, "t: at byte 55: \"w\" data_offsets: got begin 16 after end 0, want begin <= end" },
        { W("[4]", "-16", "0"), 16, "t: at byte 56: \"w\" data_offsets: got \"-16\", want a whole number" },
        /* S9 */
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]}}",
          12, "t: at byte 120: data: got 4 bytes that belong to no tensor, want none" },
        { W("[4]", "0", "16"), 38, "t: at byte 79: data: got 22 bytes that belong to no tensor, want none" },
        /* S10 */
        { W("[4294967296,4294967296]", "0", "0"), 0,
          "t: at byte 36: \"w\" shape: got a product that overflows, want at most 2^47" },
        { W("[18446744073709551615,18446744073709551615,0]", "0", "0"), 0,
          "t: at byte 37: \"w\" shape: got dimension 18446744073709551615, want at most 2^47" },
        { W("[4398046511105,4194304]", "0", "0"), 0, /* 2^64 + 2^22: a product that would wrap */
          "t: at byte 36: \"w\" shape: got a product that overflows, want at most 2^47" },
        { W("[18446744073709551616]", "0", "0"), 0,
          "t: at byte 37: \"w\" shape: got \"18446744073709551616\", want a whole number below 2^64" },
        /* S11 */
        { "{\"__metadata__\":{\"a\":1}}", 0, "t: at byte 29: __metadata__: got \"1\", want '\"'" },
        { "{\"w\":{\"dtype\":\"F7\",\"shape\":[4],\"data_offsets\":[0,16]}}", 16,
          "t: at byte 22: \"w\" dtype: got \"F7\", want a type such as \"F32\"" },
        { W("[4.0]", "0", "16"), 16, "t: at byte 37: \"w\" shape: got \"4.0\", want a whole number" },
        { W("[4e0]", "0", "16"), 16, "t: at byte 37: \"w\" shape: got \"4e0\", want a whole number" },
        /* the grammar */
        { "", 0, "t: at byte 8: header: got the end of the header, want '{'" },
        { "{", 0, "t: at byte 9: header: got the end of the header, want '\"'" },
        { "{}x", 0, "t: at byte 10: header: got \"x\" after the last '}', want spaces" },
        { "{,}", 0, "t: at byte 9: header: got \",\", want '\"'" },
        { "{\"w\":1}", 0, "t: at byte 13: \"w\": got \"1\", want '{'" },
        { "{\"w\":{}}", 0, "t: at byte 9: \"w\": got no dtype, want one" },
        { "{\"w\":{\"dtype\":\"U8\",\"shape\":[0]}}", 0, "t: at byte 9: \"w\": got no data_offsets, want one" },
        { "{\"w\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0,
          "t: at byte 27: \"w\": got \"dtype\" twice, want dtype, shape, data_offsets once each" },
        { "{\"w\":{\"color\":1}}", 0,
          "t: at byte 14: \"w\": got \"color\", want dtype, shape, data_offsets once each" },
        { W("[04]", "0", "16"), 16, "t: at byte 37: \"w\" shape: got \"04\", want a whole number" },
        { W("[4,]", "0", "16"), 16, "t: at byte 39: \"w\" shape: got \"]\", want a whole number" },
        { W("[4", "0", "16"), 16, "t: at byte 39: \"w\" shape: got \"\\x22data_offsets\\x22\", want a whole number" },
        { "{\"a\\u00\":1}", 0, "t: at byte 13: header: got a bad \\u, want four hex digits" },
        { "{\"a\\ud800\":1}", 0, "t: at byte 17: header: got \\ud800, want a character other than NUL or half a pair" },
        { "{\"a\\u0000\":1}", 0, "t: at byte 17: header: got \\u0000, want a character other than NUL or half a pair" },
        { "{\"a\\x41\":1}", 0, "t: at byte 12: header: got an unknown escape, want one of JSON" },
        { "{\"a\nb\":1}", 0, "t: at byte 11: header: got control character 0a, want none" },
        { "{\"a", 0, "t: at byte 9: header: got a string without end, want '\"'" },
        { "{\"a\\\"", 0, "t: at byte 9: header: got a string without end, want '\"'" },
        { "{\"a\\", 0, "t: at byte 9: header: got a string without end, want '\"'" },
        { "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0,
          "t: at byte 33: __metadata__: got key \"k\" twice, want it once" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0,
          "t: at byte 27: header: got \"__metadata__\" twice, want it once" },
        { "{\"\xc0\xaf\":1}", 0, "t: at byte 10: header: got byte c0, want UTF-8" },
        { "{\"\xed\xa0\x80\":1}", 0, "t: at byte 10: header: got byte ed, want UTF-8" },
        { "{\"\xf4\x90\x80\x80\":1}", 0, "t: at byte 10: header: got byte f4, want UTF-8" },
        { "{\"ab\xe2\x82\":1}", 0, "t: at byte 12: header: got byte e2, want UTF-8" },
    };
    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        refuse(build(rows[r].json, strlen(rows[r].json), AUTO, NULL, rows[r].data), WF_ERR_FORMAT, rows[r].want);
    /* S1, S2, S3 */
    file f = { calloc(7, 1), 7 };
    refuse(f, WF_ERR_FORMAT, "t: at byte 0: header length: got 7 bytes, want the 8 of the length");
    refuse(build("", 0, UINT64_MAX, NULL, 0), WF_ERR_FORMAT,
           "t: at byte 0: header length: got 18446744073709551615, want at most 100000000");
    refuse(build("{}", 2, 100000001, NULL, 0), WF_ERR_FORMAT,
           "t: at byte 0: header length: got 100000001, want at most 100000000");
    refuse(build("{}", 2, 3, NULL, 0), WF_ERR_FORMAT,
           "t: at byte 0: header length: got 3, want at most the 2 bytes left");
}

/* What is right in the format, but not in Weft. */
static void unsupported(void **state)
{
    static const char f4[] = "{\"w\":{\"dtype\":\"F8_E8M0\",\"shape\":[1],\"data_offsets\":[0,1]}}";
    static const char rank[] = W("[1,1,1,1,1,1,1,1,1]", "0", "4");
    (void)state;
    refuse(build(f4, strlen(f4), AUTO, NULL, 1), WF_ERR_UNSUPPORTED,
           "t: at byte 22: \"w\" dtype: got F8_E8M0, which Weft does not have");
    refuse(build(rank, strlen(rank), AUTO, NULL, 4), WF_ERR_UNSUPPORTED,
           "t: at byte 53: \"w\" shape: got more than 8 dimensions, want at most 8");
}

/* S8: a thousand tensors on one range; S11a: a depth bomb. Both in no time and little memory. */
static void bombs(void **state)
{
    size_t n = 0, cap = 100 * 1000;
    char *json = malloc(cap);
    (void)state;
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(json + n, cap - n,
                              "%c\"t%d\":{\"dtype\":\"U8\",\"shape\":[65536],\"data_offsets\":[0,65536]}",
                              i ? ',' : '{', i);
    json[n++] = '}';
    file f = build(json, n, AUTO, NULL, 65536);
    char want[200];
    snprintf(want, sizeof want, "t: at byte %zu: \"t1\" data_offsets: got data that overlaps \"t0\", want none", n + 8);
    refuse(f, WF_ERR_FORMAT, want);

    n = (size_t)snprintf(json, cap, "{\"__metadata__\":");
    memset(json + n, '[', 40000);
    memset(json + n + 40000, ']', 40000);
    n += 80000;
    json[n++] = '}';
    refuse(build(json, n, AUTO, NULL, 0), WF_ERR_FORMAT, "t: at byte 87: header: got nesting over 64, want at most 64");
    assert_true(mem.peak < 1 << 20);
    free(json);
}

/* C38: every integer of the format at the values that break size arithmetic. */
static void integers(void **state)
{
    static const uint64_t values[] = { 0,
                                       1,
                                       INT32_MAX,
                                       UINT64_C(1) << 31,
                                       UINT32_MAX,
                                       UINT64_C(1) << 32,
                                       UINT64_C(1) << 47,
                                       UINT64_C(1) << 62,
                                       INT64_MAX,
                                       UINT64_C(1) << 63,
                                       UINT64_MAX - 31,
                                       UINT64_MAX };
    enum { VALUES = sizeof values / sizeof *values };
    char json[300];
    (void)state;
    for (int a = 0; a < VALUES; a++)
        for (int b = 0; b < VALUES; b++)
            for (int c = 0; c < VALUES; c++)
                for (int d = 0; d < VALUES; d++) {
                    uint64_t v[4] = { values[a], values[b], values[c], values[d] };
                    int n = snprintf(json, sizeof json,
                                     "{\"w\":{\"dtype\":\"I64\",\"shape\":[%llu,%llu],\"data_offsets\":[%llu,%llu]}}",
                                     (unsigned long long)v[0], (unsigned long long)v[1], (unsigned long long)v[2],
                                     (unsigned long long)v[3]);
                    wfi_safetensors s;
                    wfi_problem p;
                    file f = build(json, (size_t)n, AUTO, NULL, 8);
                    wf_status st = parse(f.p, f.n, &s, &p);
                    /* 8 bytes of data: only one element at [0, 8] fits */
                    assert_int_equal(st, v[0] == 1 && v[1] == 1 && v[2] == 0 && v[3] == 8 ? WF_OK : WF_ERR_FORMAT);
                    wfi_safetensors_free(&s);
                    free(f.p);
                }
}

/* ---- right files ---- */

static void legal(void **state)
{
    static const char json[] =
        "{ \"b\" : {\"data_offsets\":[4 , 4],\"shape\":[ 0 , 7 ],\"dtype\":\"F64\"} ,\n"
        "\"a\\u00e9\\ud83d\\ude00\\/\\\"\\\\\": {\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
        "\"\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[0,0]},"
        "\"__metadata__\":{\"z\":\"1\",\"a\":\"\"},"
        "\"c\":{\"dtype\":\"BOOL\",\"shape\":[1,3],\"data_offsets\":[4,7]}}   \t\n";
    uint8_t data[7] = { 0, 0, 0x80, 0x3f, 1, 0, 1 };
    wfi_safetensors s;
    wfi_problem p;
    (void)state;
    file f = build(json, strlen(json), AUTO, data, 7);
    assert_int_equal(parse(f.p, f.n, &s, &p), WF_OK);
    assert_int_equal(s.n, 4);
    assert_false(s.checked);
    const wfi_named *t = wfi_safetensors_find(&s, "a\xc3\xa9\xf0\x9f\x98\x80/\"\\");
    assert_non_null(t);
    assert_true(t->ndim == 0 && t->bytes == 4 && t->dtype == WF_F32);
    assert_memory_equal(t->data, data, 4);
    t = wfi_safetensors_find(&s, "b");
    assert_true(t && t->ndim == 2 && t->dims[0] == 0 && t->dims[1] == 7 && t->bytes == 0 && t->dtype == WF_F64);
    assert_non_null(wfi_safetensors_find(&s, ""));
    assert_null(wfi_safetensors_find(&s, "d"));
    for (size_t i = 1; i < s.n; i++)
        assert_true(strcmp(s.tensors[s.by_name[i - 1]].name, s.tensors[s.by_name[i]].name) < 0);
    assert_string_equal(wfi_safetensors_meta(&s, "z"), "1");
    assert_string_equal(wfi_safetensors_meta(&s, "a"), "");
    assert_null(wfi_safetensors_meta(&s, "b"));
    wfi_safetensors_free(&s);
    wfi_safetensors_free(&s);
    assert_int_equal(f.n - 2, 303);
    f.p[f.n - 2] = 2;
    refuse(f, WF_ERR_FORMAT, "t: at byte 303: \"c\" data: got 02 in a BOOL tensor, want 0 or 1");
    refuse(build("{}", 2, AUTO, NULL, 1), WF_ERR_FORMAT,
           "t: at byte 10: data: got 1 bytes that belong to no tensor, want none");
    f = build("{}", 2, AUTO, NULL, 0);
    assert_int_equal(parse(f.p, f.n, &s, &p), WF_OK);
    assert_int_equal(s.n, 0);
    wfi_safetensors_free(&s);
    free(f.p);
}

/* A file that the Python package safetensors 0.8.0 wrote. */
static void from_python(void **state)
{
    wfi_safetensors s;
    wfi_problem p = { 0 };
    (void)state;
    assert_int_equal(wfi_safetensors_read(&mem, WEFT_TEST_DATA "/pypi.safetensors", &s, &p), WF_OK);
    assert_int_equal(s.n, 11);
    assert_string_equal(wfi_safetensors_meta(&s, "made by"), "safetensors for Python");
    const wfi_named *t = wfi_safetensors_find(&s, "conv1.weight");
    assert_true(t && t->dtype == WF_F32 && t->ndim == 4 && t->dims[0] == 2 && t->dims[1] == 1 && t->dims[3] == 3);
    for (int i = 0; i < 18; i++) {
        float v;
        memcpy(&v, (const char *)t->data + 4 * i, 4);
        assert_true(v == (float)i / 4 - 2);
    }
    static const struct {
        const char *name;
        wf_dtype dtype;
        int ndim;
        size_t bytes;
        const char *data;
    } rows[] = {
        { "conv1.bias", WF_F32, 1, 8, "\0\0\0\x3f\0\0\x80\xbe" },
        { "step", WF_I64, 0, 8, "\x35\x1c\xdc\xdf\x02\0\0\0" },
        { "half", WF_F16, 2, 6, "\0\x3e\0\xc0\xff\x7b" },
        { "wide", WF_F64, 1, 16, "\x18\x2d\x44\x54\xfb\x21\x09\x40\0\0\0\0\0\0\xf0\xff" },
        { "mask", WF_BOOL, 1, 3, "\1\0\1" },
        { "bytes", WF_U8, 1, 3, "\0\x7f\xff" },
        { "small", WF_I8, 1, 2, "\x80\x7f" },
        { "ids", WF_I32, 2, 16, "\1\0\0\0\xfe\xff\xff\xff\3\0\0\0\xfc\xff\xff\xff" },
        { "none", WF_F32, 2, 0, "" },
        { "nam\xc3\xa9 \"q\"", WF_U16, 1, 2, "\7\0" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        t = wfi_safetensors_find(&s, rows[r].name);
        assert_true(t && t->dtype == rows[r].dtype && t->ndim == rows[r].ndim && t->bytes == rows[r].bytes);
        assert_memory_equal(t->data, rows[r].data, t->bytes);
    }
    wfi_safetensors_free(&s);
}

/* ---- writing ---- */

static float weight[6] = { 1, -2, 3.5f, 0, 1e-40f, 65504 };
static float bias[3] = { 0.25f, -0.5f, 7 };
static int64_t steps = 4711;
static uint8_t mask[3] = { 1, 0, 1 };

/* One of each kind; deliberately not in the order of names. */
static size_t tensors(wfi_named out[5])
{
    out[0] = (wfi_named){ "fc1.weight", WF_F32, 2, { 3, 2 }, weight, 24, 0, 0 };
    out[1] = (wfi_named){ "step", WF_I64, 0, { 0 }, &steps, 8, 0, 0 };
    out[2] = (wfi_named){ "fc1.bias", WF_F32, 1, { 3 }, bias, 12, 0, 0 };
    out[3] = (wfi_named){ "a mask \"\\\t\xc3\xa9", WF_BOOL, 1, { 3 }, mask, 3, 0, 0 };
    out[4] = (wfi_named){ "none", WF_BF16, 3, { 2, 0, 5 }, NULL, 0, 0, 0 };
    return 5;
}
static const wfi_meta meta[] = { { "zeta", "1", 0, 0 }, { "alpha", "line 1\nline 2", 0, 0 } };

static void check_tensors(const wfi_safetensors *s)
{
    wfi_named want[5];
    size_t n = tensors(want);
    assert_int_equal(s->n, n);
    for (size_t i = 0; i < n; i++) {
        const wfi_named *t = wfi_safetensors_find(s, want[i].name);
        assert_true(t && t->dtype == want[i].dtype && t->ndim == want[i].ndim && t->bytes == want[i].bytes);
        assert_memory_equal(t->dims, want[i].dims, sizeof(int64_t) * (size_t)t->ndim);
        if (t->bytes)
            assert_memory_equal(t->data, want[i].data, t->bytes);
    }
    assert_true(s->checked);
    assert_string_equal(wfi_safetensors_meta(s, "alpha"), "line 1\nline 2");
    assert_string_equal(wfi_safetensors_meta(s, "zeta"), "1");
}

static void *slurp(const char *path, size_t *n)
{
    wfi_file f = { .mem = &mem };
    void *bytes;
    assert_int_equal(wfi_file_read(&f, path, 1 << 20, &bytes, n), WF_OK);
    return bytes;
}

static void round_trip(void **state)
{
    wfi_named t[5], r[5];
    size_t n = tensors(t), na, nb;
    wfi_problem p = { 0 };
    wfi_safetensors s;
    char a[200];
    (void)state;
    strcpy(a, path_to("a"));
    assert_int_equal(wfi_safetensors_write(&mem, a, t, n, meta, 2, &p), WF_OK);
    assert_int_equal(wfi_safetensors_read(&mem, a, &s, &p), WF_OK);
    check_tensors(&s);
    wfi_safetensors_free(&s);
    /* the same bytes whatever the order in which things are handed in */
    for (size_t i = 0; i < n; i++)
        r[i] = t[n - 1 - i];
    wfi_meta m[2] = { meta[1], meta[0] };
    assert_int_equal(wfi_safetensors_write(&mem, path_to("b"), r, n, m, 2, &p), WF_OK);
    void *x = slurp(a, &na), *y = slurp(path_to("b"), &nb);
    assert_int_equal(na, nb);
    assert_memory_equal(x, y, na);
    /* known bytes: a saved file looks like this for ever */
    static const char head[] =
        "{\"__metadata__\":{\"alpha\":\"line 1\\u000aline "
        "2\",\"weft.crc32c\":\"CRCSUM00\",\"weft.format\":\"1\",\"zeta\":\"1\"},"
        "\"a mask \\\"\\\\\\u0009\xc3\xa9\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"fc1.bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[3,15]},"
        "\"fc1.weight\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[15,39]},"
        "\"none\":{\"dtype\":\"BF16\",\"shape\":[2,0,5],\"data_offsets\":[39,39]},"
        "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[39,47]}}";
    size_t nh = (sizeof head - 1 + 7) / 8 * 8;
    assert_int_equal(na, 8 + nh + 47);
    assert_int_equal(((uint8_t *)x)[0] | ((uint8_t *)x)[1] << 8, nh);
    char *sum = strstr(head, "CRCSUM00");
    assert_memory_equal((char *)x + 8, head, (size_t)(sum - head));
    assert_memory_equal((char *)x + 8 + (sum - head) + 8, sum + 8, strlen(sum) - 8);
    wfi_mem_free(&mem, x);
    wfi_mem_free(&mem, y);
    /* nothing at all is a file, too */
    assert_int_equal(wfi_safetensors_write(&mem, a, NULL, 0, NULL, 0, &p), WF_OK);
    assert_int_equal(wfi_safetensors_read(&mem, a, &s, &p), WF_OK);
    assert_true(s.n == 0 && s.checked);
    wfi_safetensors_free(&s);
}

/* C39c: every bit of a saved file is under the checksum or the grammar. Every prefix is cut. */
static void damage(void **state)
{
    wfi_named t[5];
    size_t n = tensors(t), size;
    wfi_problem p = { 0 };
    wfi_safetensors s;
    (void)state;
    assert_int_equal(wfi_safetensors_write(&mem, path_to("a"), t, n, meta, 2, &p), WF_OK);
    uint8_t *b = slurp(path_to("a"), &size);
    for (size_t k = 0; k < size; k++) {
        uint8_t *copy = malloc(k + !k);
        memcpy(copy, b, k);
        assert_int_equal(parse(copy, k, &s, &p), WF_ERR_FORMAT);
        free(copy);
    }
    for (size_t i = 0; i < size; i++) {
        uint8_t old = b[i];
        for (int bit = 0; bit < 8; bit++) {
            b[i] = old ^ (uint8_t)(1 << bit);
            wf_status st = parse(b, size, &s, &p);
            if (st == WF_OK)
                print_message("byte %zu bit %d was not seen\n", i, bit);
            assert_true(st == WF_ERR_FORMAT || st == WF_ERR_UNSUPPORTED);
        }
        for (int v = 0; v < 4; v++) {
            b[i] = (uint8_t[]){ 0, 255, 0x7f, 0x80 }[v];
            if (b[i] != old)
                assert_int_not_equal(parse(b, size, &s, &p), WF_OK);
        }
        b[i] = old;
    }
    assert_int_equal(parse(b, size, &s, &p), WF_OK);
    wfi_safetensors_free(&s);
    b[size - 1] ^= 1;
    assert_int_equal(parse(b, size, &s, &p), WF_ERR_FORMAT);
    assert_non_null(strstr(p.text, "weft.crc32c: got "));
    assert_non_null(strstr(p.text, "the file is damaged"));
    wfi_mem_free(&mem, b);
    /* the file of another program: no bit may crash the reader, whatever it makes of it */
    b = slurp(WEFT_TEST_DATA "/pypi.safetensors", &size);
    for (size_t i = 0; i < size; i++)
        for (int bit = 0; bit < 8; bit++) {
            b[i] ^= (uint8_t)(1 << bit);
            (void)parse(b, size, &s, &p);
            wfi_safetensors_free(&s);
            b[i] ^= (uint8_t)(1 << bit);
        }
    for (size_t k = 0; k < size; k++)
        assert_int_equal(parse(b, k, &s, &p), WF_ERR_FORMAT);
    wfi_mem_free(&mem, b);
}

static void missing(void **state)
{
    wfi_safetensors s;
    wfi_problem p = { 0 };
    char want[300];
    (void)state;
    assert_int_equal(wfi_safetensors_read(&mem, path_to("no"), &s, &p), WF_ERR_IO);
    snprintf(want, sizeof want, "%s: cannot open: No such file or directory", path_to("no"));
    assert_string_equal(p.text, want);
    p = (wfi_problem){ 0 };
    assert_int_equal(mkfifo(path_to("fifo"), 0600), 0);
    assert_int_equal(wfi_safetensors_read(&mem, path_to("fifo"), &s, &p), WF_ERR_IO);
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_safetensors_write(&mem, path_to("no/such/folder"), NULL, 0, NULL, 0, &p), WF_ERR_IO);
    assert_non_null(strstr(p.text, "No such file or directory"));
}

static void refused(void **state)
{
    static const int64_t big[2] = { INT64_C(1) << 40, INT64_C(1) << 40 };
    wfi_named good = { "w", WF_F32, 1, { 3 }, bias, 12, 0, 0 };
    wfi_named t[2];
    (void)state;
    static const struct {
        int what;
        wf_status status;
        const char *want;
    } rows[] = {
        { 0, WF_ERR_ARG, "x: tensor \"w\": given twice" },
        { 1, WF_ERR_ARG, "x: tensor \"__metadata__\": the name is taken by the format" },
        { 2, WF_ERR_ARG, "x: tensor \"a\\xff\" is not UTF-8" },
        { 3, WF_ERR_ARG, "x: tensor \"v\": got 8 bytes, want 12 for its shape" },
        { 4, WF_ERR_SHAPE, "x: tensor \"v\": the shape is not valid" },
        { 5, WF_ERR_UNSUPPORTED, "x: tensor \"v\": the format has no type ?" },
        { 6, WF_ERR_ARG, "x: tensor \"v\": got 0 bytes, want 12 for its shape" },
        { 7, WF_ERR_SHAPE, "x: tensor \"v\": the shape is not valid" },
        { 8, WF_ERR_ARG, "x: tensor \"\" is not UTF-8" },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        t[0] = t[1] = good;
        t[1].name = rows[r].what == 0   ? "w"
                    : rows[r].what == 1 ? "__metadata__"
                    : rows[r].what == 2 ? "a\xff"
                    : rows[r].what == 8 ? NULL
                                        : "v";
        switch (rows[r].what) {
        case 3: t[1].bytes = 8; break;
        case 4:
            t[1].ndim = 2;
            memcpy(t[1].dims, big, sizeof big);
            break;
        case 5: t[1].dtype = (wf_dtype)99; break;
        case 6: t[1].data = NULL; break;
        case 7: t[1].dims[0] = -1; break;
        default: break;
        }
        wfi_problem p = { 0 };
        assert_int_equal(wfi_safetensors_write(&mem, "x", t, 2, NULL, 0, &p), rows[r].status);
        assert_string_equal(p.text, rows[r].want);
        assert_int_equal(access("x", F_OK), -1);
    }
    wfi_problem p = { 0 };
    wfi_meta own = { .key = "weft.crc32c", .value = "0" }, twice[2] = { meta[0], meta[0] };
    assert_int_equal(wfi_safetensors_write(&mem, "x", NULL, 0, &own, 1, &p), WF_ERR_ARG);
    assert_string_equal(p.text, "x: metadata key \"weft.crc32c\" is written by Weft itself");
    p = (wfi_problem){ 0 };
    assert_int_equal(wfi_safetensors_write(&mem, "x", NULL, 0, twice, 2, &p), WF_ERR_ARG);
    assert_string_equal(p.text, "x: metadata key \"zeta\": given twice");
}

/* ---- when memory and disks give out ---- */

static void memory(void **state)
{
    wfi_named t[5];
    size_t n = tensors(t), size;
    (void)state;
    int failed[2] = { 0 };
    for (int64_t k = 0, more = 1; more; k++) {
        wfi_problem p = { 0 };
        mem.fail_at = k;
        wf_status st = wfi_safetensors_write(&mem, path_to("a"), t, n, meta, 2, &p);
        more = mem.fail_at < 0;
        mem.fail_at = -1;
        assert_int_equal(mem.live, 0);
        if (more && st) {
            assert_int_equal(st, WF_ERR_MEMORY);
            failed[0]++;
            assert_int_equal(access(path_to("a"), F_OK), -1);
        } else if (more) {
            unlink(path_to("a")); /* reading the umask failed: stricter permissions, no error */
        } else {
            assert_int_equal(st, WF_OK);
        }
    }
    uint8_t *b = slurp(path_to("a"), &size);
    for (int64_t k = 0, more = 1; more; k++) {
        wfi_safetensors s;
        wfi_problem p = { 0 };
        mem.fail_at = k;
        wf_status st = wfi_safetensors_read(&mem, path_to("a"), &s, &p);
        more = mem.fail_at < 0;
        mem.fail_at = -1;
        assert_int_equal(st, more ? WF_ERR_MEMORY : WF_OK);
        failed[1] += more;
        wfi_safetensors_free(&s);
    }
    wfi_mem_free(&mem, b);
    assert_true(failed[0] >= 3 && failed[1] >= 5);
}

/* C39: each call to the system fails once, with several errors, or moves one byte only: the old file is whole. Only
 * the flush of the folder, the last call, comes after the new file is in place. */
static void disk(void **state)
{
    static const int errors[] = { ENOSPC, EIO, EINTR, EDQUOT, WFI_FILE_SHORT };
    wfi_named t[5], old = { "old", WF_I64, 0, { 0 }, &steps, 8, 0, 0 };
    size_t n = tensors(t);
    (void)state;
    for (size_t e = 0; e < sizeof errors / sizeof *errors; e++)
        for (int k = 1;; k++) {
            wfi_problem p = { 0 };
            wfi_safetensors s;
            assert_int_equal(wfi_safetensors_write(&mem, path_to("a"), &old, 1, NULL, 0, &p), WF_OK);
            wfi_file f = { .mem = &mem, .fail_at = k, .fail_with = errors[e] };
            wf_status st = wfi_safetensors_write_by(&f, path_to("a"), t, n, meta, 2, &p);
            assert_true(st == WF_OK || st == WF_ERR_IO);
            if (st)
                assert_true(strstr(p.text, path_to("a")) && strstr(p.text, "cannot"));
            if (errors[e] == EINTR || errors[e] == WFI_FILE_SHORT)
                assert_int_equal(st, WF_OK);
            p = (wfi_problem){ 0 };
            assert_int_equal(wfi_safetensors_read(&mem, path_to("a"), &s, &p), WF_OK);
            assert_true(s.checked);
            if (st == WF_OK || s.n != 1)
                check_tensors(&s);
            else
                assert_non_null(wfi_safetensors_find(&s, "old"));
            if (s.n != 1 && st != WF_OK)
                assert_int_equal(f.calls, k); /* it was the last call */
            wfi_safetensors_free(&s);
            if (f.calls < k) {
                assert_true(k > 8);
                break;
            }
        }
}

/* A save of `value`s, large enough to take a while. */
static wf_status save_large(float *large, int count, float value, wfi_problem *p)
{
    for (int i = 0; i < count; i++)
        large[i] = value;
    wfi_named t = { "large", WF_F32, 1, { count }, large, 4 * (size_t)count, 0, 0 };
    return wfi_safetensors_write(&mem, path_to("a"), &t, 1, NULL, 0, p);
}

static void check_large(int count, float a, float b)
{
    wfi_safetensors s;
    wfi_problem p = { 0 };
    assert_int_equal(wfi_safetensors_read(&mem, path_to("a"), &s, &p), WF_OK);
    assert_true(s.n == 1 && s.checked && s.tensors[0].dims[0] == count);
    const char *d = s.tensors[0].data;
    float first, last;
    memcpy(&first, d, 4);
    memcpy(&last, d + 4 * (count - 1), 4);
    assert_true(first == last && (first == a || first == b));
    wfi_safetensors_free(&s);
}

/* C39b: the disk is full at every 4 KiB (a limit on file sizes acts like it). */
static void full(void **state)
{
    enum { COUNT = 10000 };
    static float large[COUNT];
    struct rlimit old, now;
    wfi_problem p = { 0 };
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*before)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(save_large(large, COUNT, 1, &p), WF_OK);
    for (rlim_t k = 0; k <= 11; k++) {
        now = (struct rlimit){ k * 4096, old.rlim_max };
        p = (wfi_problem){ 0 };
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &now), 0);
        wf_status st = save_large(large, COUNT, 2, &p);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
        assert_int_equal(st, k * 4096 < COUNT * 4 + 100 ? WF_ERR_IO : WF_OK);
        check_large(COUNT, st ? 1 : 2, st ? 1 : 2);
        assert_true(!st || strstr(p.text, "File too large"));
    }
    signal(SIGXFSZ, before);
}

/* C39a: killed at any moment of a save, the old file or the new one is there. */
static void killed(void **state)
{
    enum { COUNT = 100000 };
    static float large[COUNT];
    char path[400];
    wfi_problem p = { 0 };
    (void)state;
    assert_int_equal(save_large(large, COUNT, 1, &p), WF_OK);
    for (int t = 0; t < 25; t++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (!child)
            for (int i = 0;; i++)
                if (save_large(large, COUNT, (float)(1 + i % 2), &p))
                    _exit(1);
        usleep(500 + (useconds_t)(t * 613 % 9000));
        kill(child, SIGKILL);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        check_large(COUNT, 1, 2);
    }
    DIR *d = opendir(folder); /* what the killed ones left */
    for (struct dirent *e; (e = readdir(d));)
        if (!strncmp(e->d_name, ".weft-", 6)) {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            unlink(path);
        }
    closedir(d);
}

static void checksum(void **state)
{
    uint8_t b[1000];
    (void)state;
    assert_int_equal(wfi_crc32c(0, "123456789", 9), 0xE3069283u); /* the check value of the catalogue */
    assert_int_equal(wfi_crc32c(0, NULL, 0), 0);
    memset(b, 0, 32);
    assert_int_equal(wfi_crc32c(0, b, 32), 0x8A9136AAu); /* RFC 3720, B.4 */
    memset(b, 255, 32);
    assert_int_equal(wfi_crc32c(0, b, 32), 0x62A8AB43u);
    for (size_t i = 0; i < sizeof b; i++)
        b[i] = (uint8_t)(i * 7 + i / 13);
    for (size_t n = 0; n < 100; n++)
        for (size_t from = 0; from < 9; from++) {
            uint32_t whole = wfi_crc32c_table(0, b + from, n);
            assert_int_equal(wfi_crc32c(0, b + from, n), whole);
            assert_int_equal(wfi_crc32c(wfi_crc32c(0, b + from, n / 3), b + from + n / 3, n - n / 3), whole);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(recipes, setup, clean),
        cmocka_unit_test_setup_teardown(unsupported, setup, clean),
        cmocka_unit_test_setup_teardown(bombs, setup, clean),
        cmocka_unit_test_setup_teardown(integers, setup, clean),
        cmocka_unit_test_setup_teardown(legal, setup, clean),
        cmocka_unit_test_setup_teardown(from_python, setup, clean),
        cmocka_unit_test_setup_teardown(round_trip, setup, clean),
        cmocka_unit_test_setup_teardown(damage, setup, clean),
        cmocka_unit_test_setup_teardown(missing, setup, clean),
        cmocka_unit_test_setup_teardown(refused, setup, clean),
        cmocka_unit_test_setup_teardown(memory, setup, clean),
        cmocka_unit_test_setup_teardown(disk, setup, clean),
        cmocka_unit_test_setup_teardown(full, setup, clean),
        cmocka_unit_test_setup_teardown(killed, setup, clean),
        cmocka_unit_test_setup_teardown(checksum, setup, clean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
