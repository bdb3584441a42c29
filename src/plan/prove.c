/* The proof of a certificate, from its text alone. It shares nothing with the planner, nor with the plan checker. */
#include <string.h>
#include "base/sha256.h"
#include "plan/certificate.h"

typedef struct storage {
    bool given, arena, anywhere; /* anywhere: an operand that the program handed in, whose layout may begin elsewhere */
    uint64_t offset, bytes;
    uint32_t holds;       /* value + 1, 0: none */
    uint32_t first, last; /* commands that touch it, + 1 */
} storage;

typedef struct access {
    uint32_t value, storage;
} access;

typedef struct prover {
    wfi_mem *mem;
    const char *at, *end; /* of the line that is read */
    uint32_t line;
    storage *s;
    size_t ns, cap_s;
    access *a; /* of all commands, results first */
    size_t na, cap_a;
    struct command {
        uint32_t a0, nout, nin;
    } * cmd;
    size_t ncmd, cap_cmd;
    uint64_t arena;
    char *err;
    size_t err_bytes;
} prover;

static bool wrong(prover *p, const char *what)
{
    (void)wfi_str_print(p->err, p->err_bytes, "line %u: %s", p->line, what);
    return false;
}

/* ---- reading a line ---- */

static bool word(prover *p, const char *w)
{
    const size_t n = strlen(w);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, w, n) != 0)
        return false;
    p->at += n;
    return true;
}

static bool number(prover *p, uint64_t max, uint64_t *v)
{
    const char *from = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    return wfi_str_uint64(from, (size_t)(p->at - from), v) && *v <= max;
}

static bool small(prover *p, uint32_t *v)
{
    uint64_t x;
    if (!number(p, 1u << 30, &x))
        return false;
    *v = (uint32_t)x;
    return true;
}

static bool overlap(const storage *a, const storage *b)
{
    return a->arena && b->arena && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* v5@0[0,1024) */
static bool read_access(prover *p, access *a)
{
    uint64_t lo, hi;
    const bool below = word(p, " v") && small(p, &a->value) && word(p, "@") && small(p, &a->storage) && word(p, "[");
    const bool minus = below && word(p, "-"); /* an operand from outside may lie before its first element */
    if (!below || !number(p, INT64_MAX, &lo) || !word(p, ",") || !number(p, INT64_MAX, &hi) || !word(p, ")"))
        return wrong(p, "an access like v5@0[0,1024) was expected");
    if (a->storage >= p->ns || !p->s[a->storage].given)
        return wrong(p, "there is no such storage");
    const storage *s = &p->s[a->storage];
    if (!s->anywhere && hi > lo && (minus || hi > s->bytes))
        return wrong(p, "bytes outside of their storage");
    return true;
}

static bool holds(prover *p, const access *a)
{
    return p->s[a->storage].holds == a->value + 1 || wrong(p, "what is read is not there: never written, or no more");
}

static void put(prover *p, const access *a)
{
    for (size_t s = 0; s < p->ns; s++)
        if (s != a->storage && overlap(&p->s[s], &p->s[a->storage]))
            p->s[s].holds = 0;
    p->s[a->storage].holds = a->value + 1;
}

/* ---- lines ---- */

static bool read_storage(prover *p)
{
    uint32_t id;
    uint64_t where, bytes;
    storage s = { .given = true };
    const char *place;
    if (!small(p, &id) || !word(p, " "))
        return wrong(p, "a number was expected");
    for (place = p->at; p->at < p->end && *p->at != ' ';)
        p->at++;
    s.arena = p->at - place == 5 && !memcmp(place, "arena", 5);
    s.anywhere = p->at - place == 5 && !memcmp(place, "input", 5);
    if (!word(p, " ") || !number(p, INT64_MAX, &where) || !word(p, " ") || !number(p, INT64_MAX, &bytes))
        return wrong(p, "where it lies and its bytes were expected");
    s.offset = s.arena ? where : 0;
    s.bytes = bytes;
    if (s.arena && (s.offset > p->arena || s.bytes > p->arena - s.offset))
        return wrong(p, "it reaches outside of the arena");
    if (!wfi_mem_grow(p->mem, &p->s, &p->cap_s, (size_t)id + 1, sizeof *p->s))
        return wrong(p, "out of memory");
    for (; p->ns <= id; p->ns++)
        p->s[p->ns] = (storage){ .given = false };
    if (p->s[id].given)
        return wrong(p, "it was given before");
    p->s[id] = s;
    return true;
}

static bool read_leaf(prover *p)
{
    access a;
    if (!word(p, "v") || !small(p, &a.value) || !word(p, " ") || !small(p, &a.storage))
        return wrong(p, "a value and its storage were expected");
    if (a.storage >= p->ns || !p->s[a.storage].given)
        return wrong(p, "there is no such storage");
    if (p->ncmd || p->s[a.storage].arena || p->s[a.storage].holds)
        return wrong(p, "nothing can be there when the step begins");
    p->s[a.storage].holds = a.value + 1;
    return true;
}

static bool read_accesses(prover *p, uint32_t *n)
{
    for (*n = 0; p->at < p->end && p->at[0] == ' ' && p->at + 1 < p->end && p->at[1] == 'v'; ++*n) {
        if (!wfi_mem_grow(p->mem, &p->a, &p->cap_a, p->na + 1, sizeof *p->a))
            return wrong(p, "out of memory");
        if (!read_access(p, &p->a[p->na]))
            return false;
        p->na++;
    }
    return true;
}

static bool apart(prover *p, const struct command *c)
{
    const access *out = p->a + c->a0, *in = out + c->nout;
    for (uint32_t o = 0; o < c->nout; o++) {
        const storage *so = &p->s[out[o].storage];
        for (uint32_t k = 0; k < o; k++)
            if (out[k].storage == out[o].storage || overlap(&p->s[out[k].storage], so))
                return wrong(p, "two results share memory");
        for (uint32_t i = 0; i < c->nin; i++)
            if (in[i].storage != out[o].storage && overlap(&p->s[in[i].storage], so))
                return wrong(p, "a result overlaps an operand");
    }
    return true;
}

static bool read_command(prover *p)
{
    uint32_t q;
    struct command c = { .a0 = (uint32_t)p->na };
    if (!small(p, &q) || q != p->ncmd || !word(p, " "))
        return wrong(p, "the number of the next command was expected");
    while (p->at < p->end && *p->at != ' ')
        p->at++;
    if (!word(p, " writes") || !read_accesses(p, &c.nout) || !word(p, " reads") || !read_accesses(p, &c.nin))
        return *p->err ? false : wrong(p, "what it writes and reads was expected");
    for (uint32_t i = 0; i < c.nin; i++)
        if (!holds(p, &p->a[c.a0 + c.nout + i]))
            return false;
    if (!apart(p, &c))
        return false;
    for (uint32_t i = 0; i < c.nout + c.nin; i++) {
        storage *s = &p->s[p->a[c.a0 + i].storage];
        s->first = s->first ? s->first : q + 1;
        s->last = q + 1;
    }
    for (uint32_t o = 0; o < c.nout; o++)
        put(p, &p->a[c.a0 + o]);
    if (!wfi_mem_grow(p->mem, &p->cmd, &p->cap_cmd, p->ncmd + 1, sizeof *p->cmd))
        return wrong(p, "out of memory");
    p->cmd[p->ncmd++] = c;
    return true;
}

/* Does one command touch what the other writes? */
static bool meet(const prover *p, const struct command *a, const struct command *b)
{
    for (uint32_t o = 0; o < a->nout; o++)
        for (uint32_t i = 0; i < b->nout + b->nin; i++) {
            const uint32_t s = p->a[a->a0 + o].storage, t = p->a[b->a0 + i].storage;
            if (s == t || overlap(&p->s[s], &p->s[t]))
                return true;
        }
    return false;
}

static bool read_run(prover *p, bool strips)
{
    uint32_t from, to;
    if (!small(p, &from) || !word(p, " ") || !small(p, &to) || from >= to || to > p->ncmd)
        return wrong(p, "two commands were expected");
    for (uint32_t a = from; a < to && !strips; a++)
        for (uint32_t b = from; b < to; b++)
            if (a != b && meet(p, &p->cmd[a], &p->cmd[b]))
                return wrong(p, "one command of a run touches what another one writes");
    return true;
}

static bool read_out(prover *p)
{
    access a;
    return read_access(p, &a) && holds(p, &a);
}

static bool read_line(prover *p)
{
    if (word(p, "storage "))
        return read_storage(p);
    if (word(p, "leaf "))
        return read_leaf(p);
    if (word(p, "command "))
        return read_command(p);
    if (word(p, "run "))
        return read_run(p, false);
    if (word(p, "strips "))
        return read_run(p, true);
    return word(p, "out") ? read_out(p) : wrong(p, "this line is not known");
}

/* ---- all of it ---- */

static bool next_line(prover *p)
{
    p->at = p->line ? p->end + 1 : p->at;
    p->end = strchr(p->at, '\n');
    p->line++;
    return p->end || wrong(p, "the text ends too early");
}

static bool hash_line(prover *p, const char *name, const char *hex)
{
    return (word(p, name) && word(p, hex) && p->at == p->end) || wrong(p, "another hash");
}

static bool prove(prover *p, const char *text, const char *plan)
{
    char hex[2 * WFI_SHA256_BYTES + 1];
    uint8_t digest[WFI_SHA256_BYTES];
    p->at = text;
    if (!next_line(p) || !word(p, "weft plan certificate 1") || p->at != p->end)
        return *p->err ? false : wrong(p, "no certificate of a plan, or of another version");
    if (!next_line(p))
        return false;
    if (plan) {
        wfi_certificate_plan_hash(plan, hex);
        if (!hash_line(p, "plan ", hex))
            return wrong(p, "it is the certificate of another plan");
    }
    if (!next_line(p) || !word(p, "arena ") || !number(p, INT64_MAX, &p->arena) || p->at != p->end)
        return *p->err ? false : wrong(p, "the bytes of the arena were expected");
    while (next_line(p) && !(p->end - p->at > 4 && !memcmp(p->at, "end ", 4))) {
        if (!read_line(p))
            return false;
        if (p->at != p->end)
            return wrong(p, "something stands behind what was expected");
    }
    if (!p->end)
        return false;
    wfi_sha256 s = wfi_sha256_start();
    wfi_sha256_add(&s, text, (size_t)(p->at - text));
    wfi_sha256_end(&s, digest);
    wfi_sha256_hex(digest, hex);
    return hash_line(p, "end ", hex) && (!p->end[1] || wrong(p, "something stands behind the end"));
}

/* The most bytes of the arena that are alive at once. */
static size_t most_of(const prover *p)
{
    uint64_t most = 0;
    for (size_t q = 1; q <= p->ncmd; q++) {
        uint64_t live = 0;
        for (size_t s = 0; s < p->ns; s++)
            live += p->s[s].arena && p->s[s].first <= q && q <= p->s[s].last && p->s[s].first ? p->s[s].bytes : 0;
        most = live > most ? live : most;
    }
    return (size_t)most;
}

bool wfi_certificate_prove(wfi_mem *mem, const char *text, const char *plan, wfi_certificate *c, char *err,
                           size_t err_bytes)
{
    prover p = { .mem = mem, .err = err, .err_bytes = err_bytes };
    *err = 0;
    const bool ok = prove(&p, text, plan);
    *c = (wfi_certificate){ (uint32_t)p.ncmd, 0, (size_t)p.arena, ok ? most_of(&p) : 0 };
    for (size_t s = 0; s < p.ns; s++)
        c->storages += p.s[s].given;
    wfi_mem_free(mem, p.s);
    wfi_mem_free(mem, p.a);
    wfi_mem_free(mem, p.cmd);
    return ok;
}
