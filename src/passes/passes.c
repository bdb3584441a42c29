#include "passes/passes.h"
#include <stdio.h>
#include <string.h>
#include "base/clock.h"
#include "passes/align.h"
#include "passes/chunk.h"
#include "passes/fuse.h"
#include "passes/graph_text.h"
#include "passes/prune.h"
#include "passes/recompute.h"
#include "passes/relax.h"
#include "passes/schedule.h"
#include "passes/simplify.h"

const wfi_pass wfi_pass_list[] = {
    { "relax", wfi_relax },         { "simplify", wfi_simplify }, { "prune", wfi_prune },
    { "align", wfi_align },         { "chunk", wfi_chunk },       { "schedule", wfi_schedule },
    { "recompute", wfi_recompute }, { "fuse", wfi_fuse },         { NULL, NULL }
};

static const char *const planning[] = { "strip", "keep",
                                        "join" }; /* steps behind the passes (src/plan) that can be left out as well */

static bool is_word(const char *word, const char *name, size_t n)
{
    return strlen(word) == n && !memcmp(word, name, n);
}

const char *wfi_passes_name(size_t i)
{
    enum { PASSES = sizeof wfi_pass_list / sizeof *wfi_pass_list - 1, STEPS = sizeof planning / sizeof *planning };
    return i < PASSES ? wfi_pass_list[i].name : i < PASSES + STEPS ? planning[i - PASSES] : NULL;
}

static bool is_pass(const char *name, size_t n, const wfi_pass *more)
{
    for (size_t i = 0; wfi_passes_name(i); i++)
        if (is_word(wfi_passes_name(i), name, n))
            return true;
    return more && is_word(more->name, name, n);
}

const char *wfi_passes_unknown(const char *list, const wfi_pass *more, size_t *n)
{
    while (list && *list) {
        size_t word = strcspn(list, ","), name = strcspn(list, ",:");
        bool whole = (word == 3 && !memcmp(list, "all", 3)) || (word == 9 && !memcmp(list, "recording", 9));
        if (word && !whole && !is_pass(list, name, more)) {
            *n = word;
            return list;
        }
        list += word + (list[word] == ',');
    }
    return NULL;
}

/* Shows a graph to whoever looks: the verifier, and the caller's watch. */
static bool seen(const wfi_passes_opts *o, const char *pass, const wfi_graph *before, const wfi_graph *after, char *err,
                 size_t err_bytes)
{
    char why[256];
    if (o->check && !wfi_graph_verify(after, why, sizeof why)) {
        if (strcmp(why, "out of memory") != 0)
            snprintf(err, err_bytes, "after %s: %s", pass, why);
        else
            snprintf(err, err_bytes, "%s", why); /* functions are looked at as graphs of their own */
        return false;
    }
    return !o->watch || o->watch(o->user, pass, before, after, err, err_bytes);
}

static bool run(wfi_graph *g, const wfi_pass *pass, const wfi_passes_opts *o, char *err, size_t err_bytes)
{
    wfi_graph out;
    wfi_graph_init(&out, g->mem, g->ids);
    out.trail = g->trail;
    out.budget = g->budget;
    out.large = g->large;
    out.split = g->split;
    uint64_t start = wfi_clock_ns();
    bool ok = pass->run(g, &out);
    wfi_trail_time(g->trail, pass->name, wfi_clock_ns() - start, g->nnode, out.nnode);
    if (!ok)
        snprintf(err, err_bytes, "out of memory");
    ok = ok && seen(o, pass->name, g, &out, err, err_bytes);
    wfi_graph_free(g);
    *g = out;
    return ok;
}

bool wfi_passes(wfi_graph *g, const wfi_passes_opts *o, char *err, size_t err_bytes)
{
    if (!seen(o, "recording", NULL, g, err, err_bytes))
        return false;
    for (const wfi_pass *p = wfi_pass_list; p->name; p++)
        if (!wfi_trail_skips(g->trail, p->name, 0) && !run(g, p, o, err, err_bytes))
            return false;
    return !o->more || wfi_trail_skips(g->trail, o->more->name, 0) || run(g, o->more, o, err, err_bytes);
}
