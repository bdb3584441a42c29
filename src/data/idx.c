/* idx.c - see idx.h.
 *
 * The header is read and checked before memory for the elements is asked for. A plain file's size must equal what the
 * header says. A gzipped one is refused when the header asks for more than 64 MiB and 100 times the file's size, so a
 * small file cannot cost gigabytes. */
#include "data/idx.h"
#include <string.h>
#include "base/ck.h"

#ifdef WEFT_HAVE_ZLIB
#include <limits.h>
#define ZLIB_CONST /* next_in points to const */
#include <zlib.h>
#endif

enum { HEADER_MAX = 4 + 4 * WF_RANK_MAX, RATIO_MAX = 100, PLAIN_MAX = 64 << 20 };

/* Where bytes come from: memory, or memory through inflate. */
typedef struct source {
    wfi_mem *mem;
    const char *name;
    const uint8_t *next;
    size_t left;
    uint64_t at; /* bytes taken so far, after inflating */
    bool gzip;
    bool ended; /* gzip: the last member is complete and checked */
    wfi_problem *problem;
#ifdef WEFT_HAVE_ZLIB
    z_stream z;
#endif
} source;

static bool is_gzip(const uint8_t *b, size_t size)
{
    return size >= 2 && b[0] == 0x1f && b[1] == 0x8b;
}

static wf_status cut(source *s, const char *field, size_t want, size_t got)
{
    return wfi_problem_at(s->problem, WF_ERR_FORMAT, s->name, s->at, field, "got %zu bytes, want %zu", got, want);
}

static wf_status take_plain(source *s, void *out, size_t bytes, const char *field)
{
    if (bytes > s->left)
        return cut(s, field, bytes, s->left);
    if (bytes)
        memcpy(out, s->next, bytes);
    s->next += bytes;
    s->left -= bytes;
    s->at += bytes;
    return WF_OK;
}

#ifdef WEFT_HAVE_ZLIB
static void *z_alloc(void *user, unsigned n, unsigned each)
{
    return wfi_mem_array(user, n, each);
}

static void z_free(void *user, void *p)
{
    wfi_mem_free(user, p);
}

static wf_status gzip_open(source *s)
{
    s->z = (z_stream){ .zalloc = z_alloc, .zfree = z_free, .opaque = s->mem };
    int rc = inflateInit2(&s->z, 15 + 16); /* the gzip wrapper, whose checksum zlib verifies */
    return rc == Z_OK ? WF_OK : wfi_problem_memory(s->problem, s->name, "inflating", 0);
}

static void gzip_close(source *s)
{
    if (s->gzip)
        (void)inflateEnd(&s->z);
}

static wf_status gzip_bad(source *s, int rc)
{
    if (rc == Z_MEM_ERROR)
        return wfi_problem_memory(s->problem, s->name, "inflating", 0);
    return wfi_problem_at(s->problem, WF_ERR_FORMAT, s->name, s->at, "gzip data",
                          "got damaged data (%s), want a whole stream", s->z.msg ? s->z.msg : "it is cut");
}

/* Up to *bytes bytes into out; *bytes becomes what there was. A member that ends is followed by the next one. */
static wf_status inflate_some(source *s, uint8_t *out, size_t *bytes)
{
    size_t done = 0;
    while (!s->ended) {
        size_t in = s->left < INT_MAX ? s->left : INT_MAX, room = *bytes - done;
        room = room < INT_MAX ? room : INT_MAX;
        s->z.next_in = s->next;
        s->z.avail_in = (uInt)in;
        s->z.next_out = out + done;
        s->z.avail_out = (uInt)room;
        int rc = inflate(&s->z, Z_NO_FLUSH);
        size_t used = in - s->z.avail_in, made = room - s->z.avail_out;
        s->next += used;
        s->left -= used;
        s->at += made;
        done += made;
        if (rc == Z_STREAM_END) {
            if (!s->left)
                s->ended = true;
            else if (!is_gzip(s->next, s->left))
                return wfi_problem_at(s->problem, WF_ERR_FORMAT, s->name, s->at, "end of file",
                                      "got %zu bytes after the gzip data, want none", s->left);
            else if (inflateReset(&s->z) != Z_OK)
                return gzip_bad(s, Z_DATA_ERROR);
            continue;
        }
        if (rc == Z_BUF_ERROR && done == *bytes)
            break; /* out is full; whether the stream ends here is asked for later */
        if (rc != Z_OK)
            return gzip_bad(s, rc);
        if (done == *bytes && made)
            break;
    }
    *bytes = done;
    return WF_OK;
}

static wf_status take_gzip(source *s, void *out, size_t bytes, const char *field)
{
    size_t got = bytes;
    wf_status st = inflate_some(s, out, &got);
    if (!st && got < bytes)
        return cut(s, field, bytes, got);
    return st;
}
#else
static wf_status gzip_open(source *s)
{
    return wfi_problem_set(s->problem, WF_ERR_UNSUPPORTED,
                           "%.200s: gzipped, and this build has no zlib; unpack it first", s->name);
}
static void gzip_close(source *s)
{
    (void)s;
}
static wf_status take_gzip(source *s, void *out, size_t bytes, const char *field)
{
    (void)out;
    return cut(s, field, bytes, 0);
}
#endif

static wf_status take(source *s, void *out, size_t bytes, const char *field)
{
    return s->gzip ? take_gzip(s, out, bytes, field) : take_plain(s, out, bytes, field);
}

/* Nothing may follow the elements, and a gzip stream must have come to its checked end. */
static wf_status expect_end(source *s)
{
    size_t more = s->left;
#ifdef WEFT_HAVE_ZLIB
    if (s->gzip) {
        uint8_t byte;
        more = 1;
        wf_status st = inflate_some(s, &byte, &more);
        if (st)
            return st;
        s->at -= more;
    }
#endif
    return more ? wfi_problem_at(s->problem, WF_ERR_FORMAT, s->name, s->at, "end of file",
                                 "got bytes after the last element, want none")
                : WF_OK;
}

static wf_dtype dtype_of(uint8_t code)
{
    switch (code) {
    case 0x08: return WF_U8;
    case 0x09: return WF_I8;
    case 0x0B: return WF_I16;
    case 0x0C: return WF_I32;
    case 0x0D: return WF_F32;
    case 0x0E: return WF_F64;
    default: return WF_DTYPE_NONE;
    }
}

static int64_t big_u32(const uint8_t *b)
{
    return (int64_t)b[0] << 24 | (int64_t)b[1] << 16 | (int64_t)b[2] << 8 | b[3];
}

static wf_status read_header(source *s, wfi_idx *x)
{
    uint8_t h[HEADER_MAX];
    wfi_problem *p = s->problem;
    wf_status st = take(s, h, 4, "magic number");
    if (st)
        return st;
    if (h[0] || h[1])
        return wfi_problem_at(p, WF_ERR_FORMAT, s->name, 0, "magic number", "got %02x %02x, want 00 00 (no IDX file)",
                              h[0], h[1]);
    x->dtype = dtype_of(h[2]);
    if (!x->dtype)
        return wfi_problem_at(p, WF_ERR_FORMAT, s->name, 2, "element type", "got %02x, want 08, 09, 0b, 0c, 0d or 0e",
                              h[2]);
    if (h[3] < 1 || h[3] > WF_RANK_MAX)
        return wfi_problem_at(p, WF_ERR_FORMAT, s->name, 3, "number of dimensions", "got %d, want 1 to %d", h[3],
                              WF_RANK_MAX);
    x->ndim = h[3];
    st = take(s, h + 4, 4 * (size_t)x->ndim, "dimensions");
    if (st)
        return st;
    for (int32_t i = 0; i < x->ndim; i++)
        x->dims[i] = big_u32(h + 4 + 4 * i);
    if (!wfi_ck_elements(x->dims, x->ndim, &x->elements) ||
        !wfi_ck_mul((size_t)x->elements, wf_dtype_bytes(x->dtype), &x->bytes))
        return wfi_problem_at(p, WF_ERR_FORMAT, s->name, 4, "dimensions", "got a product over 2^47, want less");
    return WF_OK;
}

/* Refuses what cannot be there before any memory is asked for. */
static wf_status check_size(const source *s, const wfi_idx *x, size_t file_bytes)
{
    if (!s->gzip && x->bytes != s->left)
        return wfi_problem_at(s->problem, WF_ERR_FORMAT, s->name, s->at, "elements", "got %zu bytes, want %zu", s->left,
                              x->bytes);
    if (s->gzip && x->bytes > PLAIN_MAX && x->bytes / RATIO_MAX > file_bytes)
        return wfi_problem_at(s->problem, WF_ERR_FORMAT, s->name, 4, "dimensions",
                              "got %zu bytes of elements out of a gzip file of %zu, want at most %d times as many",
                              x->bytes, file_bytes, RATIO_MAX);
    return WF_OK;
}

static void to_host_order(void *data, int64_t elements, size_t each)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint8_t *b = data;
    for (int64_t i = 0; each > 1 && i < elements; i++, b += each)
        for (size_t lo = 0, hi = each - 1; lo < hi; lo++, hi--) {
            uint8_t t = b[lo];
            b[lo] = b[hi];
            b[hi] = t;
        }
#else
    (void)data, (void)elements, (void)each;
#endif
}

static wf_status read_all(source *s, wfi_idx *x, size_t file_bytes)
{
    wf_status st = read_header(s, x);
    if (!st)
        st = check_size(s, x, file_bytes);
    if (st)
        return st;
    x->data = wfi_mem_alloc(s->mem, x->bytes ? x->bytes : 1);
    if (!x->data)
        return wfi_problem_memory(s->problem, s->name, "the elements", x->bytes);
    st = take(s, x->data, x->bytes, "elements");
    if (!st)
        st = expect_end(s);
    if (!st)
        to_host_order(x->data, x->elements, wf_dtype_bytes(x->dtype));
    return st;
}

wf_status wfi_idx_parse(wfi_mem *mem, const char *name, const void *bytes, size_t size, wfi_idx *out,
                        wfi_problem *problem)
{
    source s = { .mem = mem, .name = name, .next = bytes, .left = size, .problem = problem };
    wf_status st = WF_OK;
    *out = (wfi_idx){ 0 };
    if (is_gzip(bytes, size)) {
        st = gzip_open(&s);
        s.gzip = !st;
    }
    if (!st)
        st = read_all(&s, out, size);
    gzip_close(&s);
    if (st)
        wfi_idx_free(mem, out);
    return st;
}

wf_status wfi_idx_read(wfi_mem *mem, const char *path, wfi_idx *out, wfi_problem *problem)
{
    void *file;
    size_t bytes;
    *out = (wfi_idx){ 0 };
    wf_status st = wfi_problem_read(mem, path, &file, &bytes, problem);
    if (!st)
        st = wfi_idx_parse(mem, path, file, bytes, out, problem);
    wfi_mem_free(mem, file);
    return st;
}

void wfi_idx_free(wfi_mem *mem, wfi_idx *x)
{
    if (!x)
        return;
    wfi_mem_free(mem, x->data);
    *x = (wfi_idx){ 0 };
}
