#include "passes/passes.h"
#include <stdio.h>
#include <string.h>
#include "base/env.h"
#include "passes/fuse.h"
#include "passes/graph_text.h"
#include "passes/simplify.h"

static const struct pass {
    const char *name;
    bool (*run)(const wfi_graph *g, wfi_graph *out);
} passes[] = { { "simplify", wfi_simplify }, { "fuse", wfi_fuse } };

/* Is `name` in the list "a,b,c"? */
static bool listed(const char *list, const char *name)
{
    const size_t n = strlen(name);
    for (const char *s = list; s && (s = strstr(s, name)); s += n)
        if ((s == list || s[-1] == ',') && (!s[n] || s[n] == ','))
            return true;
    return false;
}

static bool verified(const wfi_graph *g, const char *after, char *err, size_t err_bytes)
{
    char why[256];
    if (wfi_graph_verify(g, why, sizeof why))
        return true;
    snprintf(err, err_bytes, "after %s: %s", after, why);
    return false;
}

bool wfi_passes(wfi_graph *g, bool check, char *err, size_t err_bytes)
{
    const char *skip = wfi_env_get("WEFT_SKIP");
    if (check && !verified(g, "recording", err, err_bytes))
        return false;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        wfi_graph out;
        if (listed(skip, passes[i].name))
            continue;
        wfi_graph_init(&out, g->mem, g->ids);
        bool ok = passes[i].run(g, &out);
        wfi_graph_free(g);
        *g = out;
        if (!ok) {
            snprintf(err, err_bytes, "out of memory");
            return false;
        }
        if (check && !verified(g, passes[i].name, err, err_bytes))
            return false;
    }
    return true;
}
