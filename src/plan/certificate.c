#include "plan/certificate.h"
#include <string.h>
#include "base/dtype.h"
#include "base/sha256.h"

/* ---- the hash of a plan's text ---- */

/* Lines from the second on, each up to two blanks and a #. */
void wfi_certificate_plan_hash(const char *text, char hex[2 * WFI_SHA256_BYTES + 1])
{
    wfi_sha256 s = wfi_sha256_start();
    uint8_t digest[WFI_SHA256_BYTES];
    const char *line = strchr(text, '\n');
    while (line && *++line) {
        const char *end = strchr(line, '\n'), *note = strstr(line, "  # ");
        const size_t n = end ? (size_t)(end - line) : strlen(line);
        wfi_sha256_add(&s, line, note && note < line + n ? (size_t)(note - line) : n);
        wfi_sha256_add(&s, "\n", 1);
        line = end;
    }
    wfi_sha256_end(&s, digest);
    wfi_sha256_hex(digest, hex);
}

static void hash_of(const char *text, size_t n, char hex[2 * WFI_SHA256_BYTES + 1])
{
    wfi_sha256 s = wfi_sha256_start();
    uint8_t digest[WFI_SHA256_BYTES];
    wfi_sha256_add(&s, text, n);
    wfi_sha256_end(&s, digest);
    wfi_sha256_hex(digest, hex);
}

/* ---- writing ---- */

typedef struct writer {
    const wfi_plan *p;
    wfi_text *t;
    uint32_t *root; /* of each value: the computed value or leaf that it shows */
} writer;

/* Bytes of its storage that a value touches. */
static void extent(const wfi_graph *g, uint32_t layout, int64_t *lo, int64_t *hi)
{
    const wfi_layout *l = wfi_layout_at(g->ids, layout);
    const wfi_type *t = wfi_type_at(g->ids, l->type);
    const int64_t size = (int64_t)wf_dtype_bytes(t->dtype);
    *lo = *hi = t->elements ? l->offset * size : 0;
    for (int32_t i = 0; t->elements && i < t->ndim; i++) {
        const int64_t reach = (t->dim[i] - 1) * l->stride[i] * size;
        *(reach < 0 ? lo : hi) += reach;
    }
    *hi += t->elements ? size : 0;
}

static void access(const writer *w, uint32_t v)
{
    int64_t lo, hi;
    if (v == WFI_NO_VALUE)
        return;
    extent(&w->p->graph, w->p->value_layout[v], &lo, &hi);
    wfi_text_addf(w->t, " v%u@%u[%lld,%lld)", w->root[v], w->p->value_storage[v], (long long)lo, (long long)hi);
}

static void storages(const writer *w)
{
    for (uint32_t s = 0; s < w->p->nstorage; s++) {
        const wfi_storage *a = &w->p->storage[s];
        if (a->place == WFI_PLACE_NONE)
            continue;
        wfi_text_addf(w->t, "storage %u %s ", s, wfi_plan_place_name(a->place));
        if (a->place == WFI_PLACE_ARENA)
            wfi_text_addf(w->t, "%zu %zu\n", a->offset, a->bytes);
        else
            wfi_text_addf(w->t, "%u %zu\n", a->id, a->bytes);
    }
}

/* Leaves and views: what each value shows, and what is there when the step begins. */
static void leaves(const writer *w)
{
    const wfi_graph *g = &w->p->graph;
    uint32_t cmd = 0;
    for (uint32_t k = 0; k < g->nnode; k++) {
        const wfi_node *n = &g->node[k];
        const bool computes = cmd < w->p->ncmd && w->p->cmd_node[cmd] == k;
        cmd += computes;
        for (uint32_t o = n->out0; o < n->out0 + n->nout; o++) {
            const uint32_t s = w->p->value_storage[o];
            w->root[o] = o;
            for (uint32_t i = 0; i < n->nin && !computes; i++) {
                const uint32_t v = g->in[n->in0 + i];
                if (v != WFI_NO_VALUE && w->p->value_storage[v] == s)
                    w->root[o] = w->root[v];
            }
            for (uint32_t v = 0; v < o && n->op == WFI_NODE_VAR; v++) /* asked for twice, it is one value */
                if (w->p->value_storage[v] == s && w->root[v] == v && g->node[g->value[v].node].op == WFI_NODE_VAR)
                    w->root[o] = v;
            if (n->op >= WFI_NODE_INPUT && w->root[o] == o)
                wfi_text_addf(w->t, "leaf v%u %u\n", o, s);
        }
    }
}

static void commands(const writer *w)
{
    const wfi_plan *p = w->p;
    for (uint32_t q = 0; q < p->ncmd; q++) {
        const wfi_node *n = &p->graph.node[p->cmd_node[q]];
        wfi_text_addf(w->t, "command %u %s writes", q, p->cmd_impl[q]);
        for (uint32_t o = 0; o < n->nout; o++)
            access(w, n->out0 + o);
        wfi_text_add(w->t, " reads");
        for (uint32_t i = 0; i < n->nin; i++)
            access(w, p->graph.in[n->in0 + i]);
        wfi_text_addc(w->t, '\n');
    }
    for (uint32_t r = 0; r < p->nrun; r++)
        if (p->run0[r + 1] - p->run0[r] > 1)
            wfi_text_addf(w->t, "%s %u %u\n", wfi_plan_strip_of(p, p->run0[r]) ? "strips" : "run", p->run0[r],
                          p->run0[r + 1]);
    for (uint32_t k = 0; k < p->graph.nnode; k++)
        if (p->graph.node[k].op == WFI_NODE_ASSIGN || p->graph.node[k].op == WFI_NODE_RESULT) {
            wfi_text_add(w->t, "out");
            access(w, p->graph.in[p->graph.node[k].in0]);
            wfi_text_addc(w->t, '\n');
        }
}

bool wfi_certificate_write(const wfi_plan *p, wfi_text *t, char *err, size_t err_bytes)
{
    char hex[2 * WFI_SHA256_BYTES + 1];
    const size_t from = t->n;
    wfi_text plan = { .mem = t->mem };
    if (!wfi_plan_check(t->mem, p, err, err_bytes))
        return false;
    writer w = { p, t, wfi_mem_array(t->mem, p->graph.nvalue + 1, sizeof *w.root) };
    wfi_plan_print(p, false, &plan);
    const bool room = w.root && !plan.oom;
    if (room) {
        wfi_certificate_plan_hash(wfi_text_str(&plan), hex);
        wfi_text_addf(t, "weft plan certificate 1\nplan %s\narena %zu\n", hex, p->arena);
        storages(&w);
        leaves(&w);
        commands(&w);
        hash_of(wfi_text_str(t) + from, t->n - from, hex);
        wfi_text_addf(t, "end %s\n", hex);
    }
    const bool ok = room && !t->oom;
    if (!ok) {
        (void)wfi_str_copy(err, err_bytes, "out of memory");
        wfi_text_cut(t, from);
    }
    wfi_text_free(&plan);
    wfi_mem_free(t->mem, w.root);
    return ok;
}
