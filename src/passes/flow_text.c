#include "passes/flow_text.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t at;
} word_of[] = {
    { "carry", offsetof(wfi_flow, ncarry) },    { "seq", offsetof(wfi_flow, nseq) },
    { "res", offsetof(wfi_flow, nres) },        { "reverse", offsetof(wfi_flow, reverse) },
    { "counted", offsetof(wfi_flow, counted) }, { "bounded", offsetof(wfi_flow, bounded) },
};
enum { WORDS = sizeof word_of / sizeof *word_of };

static uint32_t *field(wfi_flow *f, int k)
{
    return (uint32_t *)(void *)((char *)f + word_of[k].at);
}

/* ---- names ---- */

static uint32_t name_of(const wfi_flow_names *names, uint32_t id)
{
    uint32_t i = 0;
    while (i < names->n && names->id[i] != id)
        i++;
    return i;
}

bool wfi_flow_name_add(wfi_flow_names *names, uint32_t id)
{
    if (!wfi_mem_grow(names->mem, &names->id, &names->cap, (size_t)names->n + 1, sizeof *names->id))
        return false;
    names->id[names->n++] = id;
    return true;
}

/* Functions do not call themselves, and nest as deep as the program's bodies do. */
static bool name_func(const wfi_ids *ids, uint32_t id, wfi_flow_names *names)
{
    if (!id || name_of(names, id) < names->n)
        return true;
    const wfi_func *f = wfi_func_at(ids, id);
    for (uint32_t k = 0; k < f->nnode; k++)
        if (wfi_func_nodes(f)[k].op == WFI_NODE_FLOW &&
            !wfi_flow_name_all(ids, wfi_attr_data(ids, wfi_func_nodes(f)[k].attr), names))
            return false;
    return wfi_flow_name_add(names, id);
}

bool wfi_flow_name_all(const wfi_ids *ids, const wfi_flow *f, wfi_flow_names *names)
{
    return name_func(ids, f->func, names) && name_func(ids, f->other, names);
}

/* ---- attributes ---- */

void wfi_flow_print(const wfi_flow *f, const wfi_flow_names *names, wfi_text *t)
{
    wfi_flow plain = *f;
    wfi_text_addf(t, " func=f%u", name_of(names, f->func));
    if (f->other)
        wfi_text_addf(t, " other=f%u", name_of(names, f->other));
    for (int k = 0; k < WORDS; k++)
        if (*field(&plain, k))
            wfi_text_addf(t, " %s=%u", word_of[k].name, *field(&plain, k));
    if (wfi_flow_stacks(f))
        wfi_text_addf(t, " count=%lld", (long long)f->count);
}

int wfi_flow_kind_of(const char *name)
{
    for (uint32_t k = 0; k <= WFI_FLOW_WHILE; k++)
        if (!strcmp(name, wfi_flow_name(&(wfi_flow){ .kind = k })))
            return (int)k;
    return -1;
}

static bool read_func(const wfi_flow_names *names, const char *s, uint32_t *id)
{
    int64_t i;
    if (*s != 'f' || !wfi_str_int64(s + 1, strlen(s + 1), &i) || i < 0 || i >= names->n)
        return false;
    *id = names->id[i];
    return true;
}

static bool read_word(wfi_flow *f, const char *s, const wfi_flow_names *names)
{
    const size_t n = strcspn(s, "=");
    const char *value = s + n + (s[n] != 0);
    int64_t x;
    if (n == 4 && !memcmp(s, "func", n))
        return read_func(names, value, &f->func);
    if (n == 5 && !memcmp(s, "other", n))
        return read_func(names, value, &f->other);
    if (!wfi_str_int64(value, strlen(value), &x) || x < 0)
        return false;
    if (n == 5 && !memcmp(s, "count", n))
        return f->count = x, true;
    for (int k = 0; k < WORDS; k++)
        if (strlen(word_of[k].name) == n && !memcmp(s, word_of[k].name, n) && x < WFI_NODE_INS)
            return *field(f, k) = (uint32_t)x, true;
    return false;
}

bool wfi_flow_parse(const char *kind, int n, char *const *word, const wfi_flow_names *names, uint32_t nin,
                    uint32_t nout, wfi_flow *f, char *err, size_t err_bytes)
{
    *f = (wfi_flow){ .kind = (uint32_t)wfi_flow_kind_of(kind) };
    f->count = !wfi_flow_stacks(f);
    for (int i = 0; i < n; i++)
        if (!read_word(f, word[i], names)) {
            snprintf(err, err_bytes, "\"%.60s\" is no word of control flow, or its value is none", word[i]);
            return false;
        }
    const uint32_t given = wfi_flow_lead(f) + f->ncarry + f->nseq, trips = f->kind == WFI_FLOW_WHILE;
    if (!f->func || given > nin || f->ncarry + trips > nout) {
        snprintf(err, err_bytes, "%s", f->func ? "too few operands or results" : "func=f0 is missing");
        return false;
    }
    f->nfree = nin - given;
    f->nstack = nout - f->ncarry - trips;
    return true;
}
