/* safetensors_read.c - the strict reader: see safetensors.h.
 *
 * Three steps. scan() walks the header once and stops at bytes that are no UTF-8, at nesting over 64 and at tensors
 * over a million. The parser then knows that depth and counts are bounded; its grammar has two levels only, so it has
 * one function a level and no recursion. At last the tensors are sorted by offset, which must cover the data exactly,
 * and by name, which must differ.
 *
 * Positions in messages are bytes of the file. */
#include "io/safetensors.h"
#include <string.h>
#include "base/ck.h"
#include "io/crc32c.h"

enum { LENGTH_BYTES = 8, DEPTH_MAX = 64, FIELD_BYTES = WFI_QUOTED + 32 };

/* A bounded place in the header; the first problem sticks in `problem`. */
typedef struct cursor {
    const char *file;
    const uint8_t *p; /* the whole file */
    size_t i, end;    /* in p: the next byte, and the end of the header */
    size_t size;      /* of the file */
    wfi_problem *problem;
    wfi_safetensors *out;
    size_t cap_tensors, cap_meta;
} cursor;

#define BAD(c, at, field, ...) wfi_problem_at((c)->problem, WF_ERR_FORMAT, (c)->file, at, field, __VA_ARGS__)

static wf_status no_memory(const cursor *c, size_t bytes)
{
    return wfi_problem_memory(c->problem, c->file, "the header", bytes);
}

/* ---- the scan before ---- */

static wf_status scan(cursor *c, size_t *objects)
{
    size_t good = c->i + wfi_safetensors_utf8(c->p + c->i, c->end - c->i), depth = 0;
    bool in_string = false;
    if (good < c->end)
        return BAD(c, good, "header", "got byte %02x, want UTF-8", c->p[good]);
    for (size_t i = c->i; i < c->end; i++) {
        uint8_t b = c->p[i];
        if (in_string) {
            if (b == '\\')
                i++;
            in_string = b != '"';
        } else if (b == '"') {
            in_string = true;
        } else if (b == '{' || b == '[') {
            *objects += b == '{';
            if (++depth > DEPTH_MAX)
                return BAD(c, i, "header", "got nesting over %d, want at most %d", DEPTH_MAX, DEPTH_MAX);
        } else if ((b == '}' || b == ']') && depth) {
            depth--;
        }
    }
    if (*objects > WFI_SAFETENSORS_TENSORS_MAX + 2)
        return BAD(c, c->i, "header", "got %zu objects, want at most %d tensors", *objects,
                   WFI_SAFETENSORS_TENSORS_MAX);
    return WF_OK;
}

/* ---- tokens ---- */

static void skip_space(cursor *c)
{
    while (c->i < c->end && (c->p[c->i] == ' ' || c->p[c->i] == '\t' || c->p[c->i] == '\n' || c->p[c->i] == '\r'))
        c->i++;
}

static bool is_token_end(uint8_t b)
{
    return b == ',' || b == ']' || b == '}' || b == ':' || b <= ' ';
}

/* What stands at the cursor, for messages. */
static const char *token(const cursor *c, char out[WFI_QUOTED])
{
    size_t n = 0;
    if (c->i >= c->end)
        return "the end of the header";
    while (c->i + n < c->end && n < WFI_QUOTED && !is_token_end(c->p[c->i + n]))
        n++;
    n += n == 0;
    return wfi_problem_quote(out, (const char *)c->p + c->i, n);
}

/* Skips white space and takes the byte `want`. */
static wf_status expect(cursor *c, const char *field, char want)
{
    char got[WFI_QUOTED];
    skip_space(c);
    if (c->i < c->end && c->p[c->i] == (uint8_t)want) {
        c->i++;
        return WF_OK;
    }
    return BAD(c, c->i, field, "got %s, want '%c'", token(c, got), want);
}

static bool take_if(cursor *c, char want)
{
    skip_space(c);
    bool is = c->i < c->end && c->p[c->i] == (uint8_t)want;
    c->i += is;
    return is;
}

static int hex_digit(uint8_t b)
{
    if (b >= '0' && b <= '9')
        return b - '0';
    if (b >= 'a' && b <= 'f')
        return b - 'a' + 10;
    return b >= 'A' && b <= 'F' ? b - 'A' + 10 : -1;
}

/* Four hex digits at p[i..]; -1 if they are not there. */
static int32_t hex4(const cursor *c, size_t i)
{
    int32_t v = 0;
    if (c->end - i < 4)
        return -1;
    for (size_t k = 0; k < 4; k++) {
        int d = hex_digit(c->p[i + k]);
        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

static size_t put_utf8(char *out, uint32_t u)
{
    if (u < 0x80) {
        out[0] = (char)u;
        return 1;
    }
    size_t n = u < 0x800 ? 2 : u < 0x10000 ? 3 : 4;
    for (size_t k = n; k-- > 1; u >>= 6)
        out[k] = (char)(0x80 | (u & 63));
    out[0] = (char)((n == 2 ? 0xC0u : n == 3 ? 0xE0u : 0xF0u) | u);
    return n;
}

/* \uXXXX, or a pair of them, with the cursor behind the 'u'. */
static wf_status unicode_escape(cursor *c, const char *field, char *out, size_t *n)
{
    int32_t u = hex4(c, c->i), low;
    if (u < 0)
        return BAD(c, c->i, field, "got a bad \\u, want four hex digits");
    c->i += 4;
    if (u >= 0xD800 && u < 0xDC00 && c->end - c->i >= 6 && c->p[c->i] == '\\' && c->p[c->i + 1] == 'u' &&
        (low = hex4(c, c->i + 2)) >= 0xDC00 && low < 0xE000) {
        u = 0x10000 + ((u - 0xD800) << 10) + (low - 0xDC00);
        c->i += 6;
    }
    if (u == 0 || (u >= 0xD800 && u < 0xE000))
        return BAD(c, c->i, field, "got \\u%04x, want a character other than NUL or half a pair", (unsigned)u);
    *n += put_utf8(out + *n, (uint32_t)u);
    return WF_OK;
}

static wf_status escape(cursor *c, const char *field, char *out, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    uint8_t b = c->p[c->i]; /* the scan saw the closing quote, so a byte is there */
    const char *hit = b ? strchr(from, b) : NULL;
    if (b == 'u') {
        c->i++;
        return unicode_escape(c, field, out, n);
    }
    if (!hit)
        return BAD(c, c->i, field, "got an unknown escape, want one of JSON");
    out[(*n)++] = to[hit - from];
    c->i++;
    return WF_OK;
}

/* A string at the cursor: decoded, ended by NUL, in the file's arena. */
static wf_status read_string(cursor *c, const char *field, const char **out)
{
    wf_status st = expect(c, field, '"');
    if (st)
        return st;
    size_t stop = c->i;
    while (stop < c->end && c->p[stop] != '"')
        stop += c->p[stop] == '\\' ? 2 : 1;
    if (stop >= c->end)
        return BAD(c, c->i - 1, field, "got a string without end, want '\"'");
    char *s = wfi_arena_alloc(&c->out->names, stop - c->i + 1); /* decoding never makes it longer */
    size_t n = 0;
    if (!s)
        return no_memory(c, stop - c->i + 1);
    while (!st && c->i < stop) {
        uint8_t b = c->p[c->i];
        if (b < ' ')
            return BAD(c, c->i, field, "got control character %02x, want none", b);
        c->i++;
        if (b == '\\')
            st = escape(c, field, s, &n);
        else
            s[n++] = (char)b;
    }
    c->i = stop + 1;
    *out = s;
    return st;
}

/* A whole number without sign, fraction or exponent, below 2^64. */
static wf_status read_number(cursor *c, const char *field, uint64_t *out)
{
    char got[WFI_QUOTED];
    skip_space(c);
    size_t i = c->i;
    uint64_t v = 0;
    bool fits = true;
    for (; i < c->end && c->p[i] >= '0' && c->p[i] <= '9'; i++)
        fits = fits && !__builtin_mul_overflow(v, 10u, &v) && !__builtin_add_overflow(v, c->p[i] - (uint64_t)'0', &v);
    bool whole = i > c->i && (i >= c->end || is_token_end(c->p[i])) && (c->p[c->i] != '0' || i == c->i + 1);
    if (!whole || !fits)
        return BAD(c, c->i, field, "got %s, want a whole number%s", token(c, got), whole ? " below 2^64" : "");
    c->i = i;
    *out = v;
    return WF_OK;
}

/* ---- a tensor's entry ---- */

/* `"fc1.bias" shape`, for messages. */
static const char *field_of(char out[FIELD_BYTES], const char *name, const char *part)
{
    (void)wfi_problem_quote(out, name, strlen(name));
    size_t n = strlen(out), m = strlen(part);
    if (!m)
        return out;
    if (m > FIELD_BYTES - n - 2)
        m = FIELD_BYTES - n - 2;
    out[n] = ' ';
    memcpy(out + n + 1, part, m);
    out[n + 1 + m] = 0;
    return out;
}

/* Types of the format that Weft has no room for are told from nonsense. */
static wf_status read_dtype(cursor *c, wfi_named *t)
{
    static const char *const others[] = { "F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "C64" };
    char field[FIELD_BYTES], got[WFI_QUOTED];
    const char *s;
    skip_space(c);
    size_t at = c->i;
    wf_status st = read_string(c, field_of(field, t->name, "dtype"), &s);
    if (st)
        return st;
    t->dtype = wfi_safetensors_dtype_of(s, strlen(s));
    if (t->dtype)
        return WF_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(s, others[i]))
            return wfi_problem_at(c->problem, WF_ERR_UNSUPPORTED, c->file, at, field,
                                  "got %s, which Weft does not have", s);
    return BAD(c, at, field, "got %s, want a type such as \"F32\"", wfi_problem_quote(got, s, strlen(s)));
}

static wf_status read_shape(cursor *c, wfi_named *t)
{
    char field[FIELD_BYTES];
    uint64_t d;
    wf_status st = expect(c, field_of(field, t->name, "shape"), '[');
    if (st || take_if(c, ']'))
        return st;
    do {
        skip_space(c);
        size_t at = c->i;
        st = read_number(c, field, &d);
        if (st)
            return st;
        if (d > (uint64_t)WFI_DIM_MAX)
            return BAD(c, at, field, "got dimension %llu, want at most 2^47", (unsigned long long)d);
        if (t->ndim == WF_RANK_MAX)
            return wfi_problem_at(c->problem, WF_ERR_UNSUPPORTED, c->file, at, field,
                                  "got more than %d dimensions, want at most %d", WF_RANK_MAX, WF_RANK_MAX);
        t->dims[t->ndim++] = (int64_t)d;
    } while (take_if(c, ','));
    return expect(c, field, ']');
}

static wf_status read_offsets(cursor *c, wfi_named *t, uint64_t range[2])
{
    char field[FIELD_BYTES];
    wf_status st = expect(c, field_of(field, t->name, "data_offsets"), '[');
    if (!st)
        st = read_number(c, field, &range[0]);
    if (!st)
        st = expect(c, field, ',');
    if (!st)
        st = read_number(c, field, &range[1]);
    return st ? st : expect(c, field, ']');
}

/* bool is one byte, 0 or 1; the rest of the library counts on it. */
static wf_status check_bools(const cursor *c, const wfi_named *t)
{
    char field[FIELD_BYTES];
    const uint8_t *b = t->data;
    for (size_t i = 0; i < t->bytes; i++)
        if (b[i] > 1)
            return BAD(c, (size_t)(b - c->p) + i, field_of(field, t->name, "data"),
                       "got %02x in a BOOL tensor, want 0 or 1", b[i]);
    return WF_OK;
}

static wf_status check_tensor(const cursor *c, wfi_named *t, const uint64_t range[2], size_t shape_at, size_t range_at)
{
    char field[FIELD_BYTES];
    int64_t elements;
    size_t data = c->size - c->end;
    if (!wfi_ck_elements(t->dims, t->ndim, &elements) ||
        !wfi_ck_mul((size_t)elements, wf_dtype_bytes(t->dtype), &t->bytes))
        return BAD(c, shape_at, field_of(field, t->name, "shape"), "got a product that overflows, want at most 2^47");
    field_of(field, t->name, "data_offsets");
    if (range[0] > range[1])
        return BAD(c, range_at, field, "got begin %llu after end %llu, want begin <= end", (unsigned long long)range[0],
                   (unsigned long long)range[1]);
    if (range[1] > data)
        return BAD(c, range_at, field, "got end %llu, which leaves the buffer, want at most %zu",
                   (unsigned long long)range[1], data);
    if (range[1] - range[0] != t->bytes)
        return BAD(c, range_at, field, "got %llu bytes, want %zu for the shape",
                   (unsigned long long)(range[1] - range[0]), t->bytes);
    t->offset = (size_t)range[0];
    t->data = c->p + c->end + t->offset;
    return t->dtype == WF_BOOL ? check_bools(c, t) : WF_OK;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [a, b]}, each once, in any order. */
static wf_status read_tensor(cursor *c, wfi_named *t)
{
    enum { DTYPE, SHAPE, OFFSETS, PARTS };
    static const char *const parts[PARTS] = { "dtype", "shape", "data_offsets" };
    char field[FIELD_BYTES], got[WFI_QUOTED];
    size_t at[PARTS] = { 0 };
    uint64_t range[2] = { 0 };
    wf_status st = expect(c, field_of(field, t->name, ""), '{');
    bool first = true;
    while (!st && !(first && take_if(c, '}'))) {
        const char *key;
        skip_space(c);
        size_t key_at = c->i;
        st = read_string(c, field, &key);
        int part = 0;
        while (!st && part < PARTS && strcmp(key, parts[part]) != 0)
            part++;
        if (!st && (part == PARTS || at[part]))
            return BAD(c, key_at, field, "got %s%s, want dtype, shape, data_offsets once each",
                       wfi_problem_quote(got, key, strlen(key)), part == PARTS ? "" : " twice");
        if (!st)
            st = expect(c, field, ':');
        if (st)
            return st;
        skip_space(c);
        at[part] = c->i;
        st = part == DTYPE ? read_dtype(c, t) : part == SHAPE ? read_shape(c, t) : read_offsets(c, t, range);
        first = false;
        if (!st && !take_if(c, ',')) {
            st = expect(c, field, '}');
            break;
        }
    }
    for (int part = 0; !st && part < PARTS; part++)
        if (!at[part])
            return BAD(c, t->at, field, "got no %s, want one", parts[part]);
    return st ? st : check_tensor(c, t, range, at[SHAPE], at[OFFSETS]);
}

/* ---- the header ---- */

static wf_status read_meta(cursor *c)
{
    wfi_safetensors *f = c->out;
    wf_status st = expect(c, "__metadata__", '{');
    if (st || take_if(c, '}'))
        return st;
    do {
        if (!wfi_mem_grow(f->mem, &f->meta, &c->cap_meta, f->nmeta + 1, sizeof *f->meta))
            return no_memory(c, (f->nmeta + 1) * sizeof *f->meta);
        wfi_meta *m = &f->meta[f->nmeta];
        skip_space(c);
        m->key_at = c->i;
        st = read_string(c, "__metadata__", &m->key);
        if (!st)
            st = expect(c, "__metadata__", ':');
        skip_space(c);
        m->value_at = c->i;
        if (!st)
            st = read_string(c, "__metadata__", &m->value);
        if (st)
            return st;
        f->nmeta++;
    } while (take_if(c, ','));
    return expect(c, "__metadata__", '}');
}

static wf_status read_entry(cursor *c, bool *had_meta)
{
    wfi_safetensors *f = c->out;
    const char *name;
    skip_space(c);
    size_t at = c->i;
    wf_status st = read_string(c, "header", &name);
    if (!st)
        st = expect(c, "header", ':');
    if (st)
        return st;
    if (!strcmp(name, "__metadata__")) {
        if (*had_meta)
            return BAD(c, at, "header", "got \"__metadata__\" twice, want it once");
        *had_meta = true;
        return read_meta(c);
    }
    if (f->n == c->cap_tensors)
        return BAD(c, at, "header", "got more tensors than objects"); /* each tensor is an object: never */
    wfi_named *t = &f->tensors[f->n];
    *t = (wfi_named){ .name = name, .at = at };
    st = read_tensor(c, t);
    f->n += !st;
    return st;
}

static wf_status read_header(cursor *c)
{
    wfi_safetensors *f = c->out;
    size_t objects = 0;
    bool had_meta = false;
    char got[WFI_QUOTED];
    if (c->i == c->end || c->p[c->i] != '{')
        return BAD(c, c->i, "header", "got %s, want '{'", token(c, got));
    wf_status st = scan(c, &objects);
    if (st)
        return st;
    c->cap_tensors = objects; /* one more than are needed */
    f->tensors = wfi_mem_array(f->mem, objects, sizeof *f->tensors);
    f->by_name = wfi_mem_array(f->mem, objects, sizeof *f->by_name);
    if (!f->tensors || !f->by_name)
        return no_memory(c, objects * sizeof *f->tensors);
    c->i++;
    if (!take_if(c, '}')) {
        do
            st = read_entry(c, &had_meta);
        while (!st && take_if(c, ','));
        if (!st)
            st = expect(c, "header", '}');
    }
    skip_space(c);
    if (!st && c->i < c->end)
        return BAD(c, c->i, "header", "got %s after the last '}', want spaces", token(c, got));
    return st;
}

/* ---- checks over all tensors ---- */

static bool by_offset(const void *ctx, uint32_t a, uint32_t b)
{
    const wfi_named *x = (const wfi_named *)ctx + a, *y = (const wfi_named *)ctx + b;
    if (x->offset != y->offset)
        return x->offset < y->offset;
    if (x->bytes != y->bytes && (!x->bytes || !y->bytes))
        return x->bytes < y->bytes; /* what has no bytes stands before what has */
    return a < b;
}

static bool by_name(const void *ctx, uint32_t a, uint32_t b)
{
    const wfi_named *x = (const wfi_named *)ctx + a, *y = (const wfi_named *)ctx + b;
    int d = strcmp(x->name, y->name);
    return d ? d < 0 : a < b;
}

static bool by_key(const void *ctx, uint32_t a, uint32_t b)
{
    const wfi_meta *x = (const wfi_meta *)ctx + a, *y = (const wfi_meta *)ctx + b;
    int d = strcmp(x->key, y->key);
    return d ? d < 0 : a < b;
}

/* The tensors cover the data exactly; by_name serves as scratch. */
static wf_status check_cover(const cursor *c)
{
    const wfi_safetensors *f = c->out;
    char x[WFI_QUOTED], y[FIELD_BYTES];
    size_t end = 0;
    const wfi_named *before = NULL;
    wfi_safetensors_sort(f->by_name, f->n, by_offset, f->tensors);
    for (size_t i = 0; i < f->n; i++) {
        const wfi_named *t = &f->tensors[f->by_name[i]];
        if (t->offset < end)
            return BAD(c, c->end + t->offset, field_of(y, t->name, "data_offsets"),
                       "got data that overlaps %s, want none",
                       wfi_problem_quote(x, before->name, strlen(before->name)));
        if (t->offset > end)
            return BAD(c, c->end + end, "data", "got %zu bytes that belong to no tensor, want none", t->offset - end);
        end += t->bytes;
        before = t;
    }
    if (c->size - c->end > end)
        return BAD(c, c->end + end, "data", "got %zu bytes that belong to no tensor, want none",
                   c->size - c->end - end);
    return WF_OK;
}

static wf_status check_names(const cursor *c)
{
    const wfi_safetensors *f = c->out;
    char name[WFI_QUOTED];
    wfi_safetensors_sort(f->by_name, f->n, by_name, f->tensors);
    for (size_t i = 1; i < f->n; i++) {
        const wfi_named *t = &f->tensors[f->by_name[i]], *before = &f->tensors[f->by_name[i - 1]];
        if (!strcmp(t->name, before->name))
            return BAD(c, t->at, "header", "got tensor %s twice, want it once",
                       wfi_problem_quote(name, t->name, strlen(t->name)));
    }
    return WF_OK;
}

static wf_status check_keys(const cursor *c)
{
    const wfi_safetensors *f = c->out;
    char name[WFI_QUOTED];
    uint32_t *order = wfi_mem_array(f->mem, f->nmeta + 1, sizeof *order);
    if (!order)
        return no_memory(c, f->nmeta * sizeof *order);
    for (size_t i = 0; i < f->nmeta; i++)
        order[i] = (uint32_t)i;
    wfi_safetensors_sort(order, f->nmeta, by_key, f->meta);
    wf_status st = WF_OK;
    for (size_t i = 1; !st && i < f->nmeta; i++) {
        const wfi_meta *m = &f->meta[order[i]];
        if (!strcmp(m->key, f->meta[order[i - 1]].key))
            st = BAD(c, m->key_at, "__metadata__", "got key %s twice, want it once",
                     wfi_problem_quote(name, m->key, strlen(m->key)));
    }
    wfi_mem_free(f->mem, order);
    return st;
}

static const wfi_meta *find_meta(const wfi_safetensors *f, const char *key)
{
    for (size_t i = 0; i < f->nmeta; i++)
        if (!strcmp(f->meta[i].key, key))
            return &f->meta[i];
    return NULL;
}

/* The checksum is over header and data, with its own eight digits as zeros. */
static wf_status check_sum(const cursor *c)
{
    wfi_safetensors *f = c->out;
    const wfi_meta *sum = find_meta(f, "weft.crc32c"), *format = find_meta(f, "weft.format");
    if (!sum && !format)
        return WF_OK;
    if (!sum || !format)
        return BAD(c, sum ? sum->key_at : format->key_at, "__metadata__", "got no %s, want it beside %s",
                   sum ? "weft.format" : "weft.crc32c", sum ? "weft.crc32c" : "weft.format");
    if (strcmp(format->value, "1") != 0)
        return BAD(c, format->value_at, "weft.format", "got another version, want \"1\"");
    const uint8_t *digits = c->p + sum->value_at + 1;
    uint32_t want = 0;
    for (int i = 0; i < 8; i++) { /* the string ends with a quote, so that a short one stops there */
        int d = hex_digit(digits[i]);
        if (d < 0 || (digits[i] >= 'A' && digits[i] <= 'F'))
            return BAD(c, sum->value_at, "weft.crc32c", "got no checksum, want 8 small hex digits");
        want = want << 4 | (uint32_t)d;
    }
    if (digits[8] != '"')
        return BAD(c, sum->value_at, "weft.crc32c", "got no checksum, want 8 small hex digits");
    uint32_t got = wfi_crc32c(0, c->p, (size_t)(digits - c->p));
    got = wfi_crc32c(got, "00000000", 8);
    got = wfi_crc32c(got, digits + 8, (size_t)(c->p + c->size - digits) - 8);
    if (got != want)
        return BAD(
            c, sum->value_at, "weft.crc32c",
            "got %08x of header and data, want %08x: the file is damaged, or was changed by a program that left the "
            "old checksum in",
            got, want);
    f->checked = true;
    return WF_OK;
}

/* ---- calls ---- */

static wf_status read_length(cursor *c)
{
    uint64_t n = 0;
    if (c->size < LENGTH_BYTES)
        return BAD(c, 0, "header length", "got %zu bytes, want the 8 of the length", c->size);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        n = n << 8 | c->p[i];
    if (n > WFI_SAFETENSORS_HEADER_MAX)
        return BAD(c, 0, "header length", "got %llu, want at most %d", (unsigned long long)n,
                   WFI_SAFETENSORS_HEADER_MAX);
    if (n > c->size - LENGTH_BYTES)
        return BAD(c, 0, "header length", "got %llu, want at most the %zu bytes left", (unsigned long long)n,
                   c->size - LENGTH_BYTES);
    c->i = LENGTH_BYTES;
    c->end = LENGTH_BYTES + (size_t)n;
    return WF_OK;
}

/* Names before offsets: two entries of one name on one range are one tensor twice, not an overlap. */
static wf_status parse(cursor *c)
{
    wf_status st = read_length(c);
    if (!st)
        st = read_header(c);
    for (size_t i = 0; !st && i < c->out->n; i++)
        c->out->by_name[i] = (uint32_t)i;
    if (!st)
        st = check_names(c);
    if (!st)
        st = check_keys(c);
    if (!st)
        st = check_cover(c);
    if (!st)
        st = check_sum(c);
    if (!st)
        st = check_names(c); /* check_cover left them sorted by offset */
    return st;
}

wf_status wfi_safetensors_parse(wfi_mem *mem, const char *name, const void *bytes, size_t size, wfi_safetensors *out,
                                wfi_problem *problem)
{
    *out = (wfi_safetensors){ .mem = mem };
    wfi_arena_init(&out->names, mem);
    cursor c = { .file = name, .p = bytes, .size = size, .problem = problem, .out = out };
    wf_status st = parse(&c);
    if (st)
        wfi_safetensors_free(out);
    return st;
}

wf_status wfi_safetensors_read(wfi_mem *mem, const char *path, wfi_safetensors *out, wfi_problem *problem)
{
    void *file;
    size_t bytes;
    *out = (wfi_safetensors){ 0 };
    wf_status st = wfi_problem_read(mem, path, &file, &bytes, problem);
    if (!st)
        st = wfi_safetensors_parse(mem, path, file, bytes, out, problem);
    if (st)
        wfi_mem_free(mem, file);
    else
        out->file = file;
    return st;
}

const wfi_named *wfi_safetensors_find(const wfi_safetensors *f, const char *name)
{
    size_t lo = 0, hi = f->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const wfi_named *t = &f->tensors[f->by_name[mid]];
        int d = strcmp(name, t->name);
        if (!d)
            return t;
        if (d < 0)
            hi = mid;
        else
            lo = mid + 1;
    }
    return NULL;
}

const char *wfi_safetensors_meta(const wfi_safetensors *f, const char *key)
{
    const wfi_meta *m = find_meta(f, key);
    return m ? m->value : NULL;
}

void wfi_safetensors_free(wfi_safetensors *f)
{
    if (!f || !f->mem)
        return;
    wfi_mem_free(f->mem, f->tensors);
    wfi_mem_free(f->mem, f->by_name);
    wfi_mem_free(f->mem, f->meta);
    wfi_mem_free(f->mem, f->file);
    wfi_arena_free(&f->names);
    *f = (wfi_safetensors){ 0 };
}
