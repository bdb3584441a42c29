/* pass_text.h - for tests of passes: graph text in, graph text out. */
#ifndef WEFT_TEST_PASS_TEXT_H
#define WEFT_TEST_PASS_TEXT_H
#include "refeval.h"
#include "passes/graph_text.h"

typedef struct pass_text {
    const char *what, *in, *out;
} pass_text;

/* The pass makes `out` of `in`; what it wrote is verified, and its text parses back to the same graph. */
static void check_pass(const pass_text *c, bool (*pass)(const wfi_graph *g, wfi_graph *out))
{
    wfi_mem mem;
    wfi_ids ids;
    wfi_graph in, out, again;
    char err[256] = "";
    wfi_mem_init(&mem, NULL, NULL, 0);
    assert_true(wfi_ids_init(&ids, &mem));
    wfi_graph_init(&in, &mem, &ids);
    wfi_graph_init(&out, &mem, &ids);
    wfi_graph_init(&again, &mem, &ids);
    if (!wfi_graph_parse(c->in, &in, err, sizeof err) || !pass(&in, &out) || !wfi_graph_verify(&out, err, sizeof err))
        fail_msg("%s: %s", c->what, err);
    wfi_text t = { .mem = &mem };
    wfi_graph_print(&out, &t);
    if (strcmp(wfi_text_str(&t), c->out) != 0)
        fail_msg("%s:\n%s", c->what, wfi_text_str(&t));
    if (!wfi_graph_parse(c->out, &again, err, sizeof err))
        fail_msg("%s: %s", c->what, err);
    assert_int_equal(again.nnode, out.nnode);
    for (size_t k = 0; k < out.nnode; k++)
        assert_int_equal(again.node[k].hash, out.node[k].hash);
    wfi_text_free(&t);
    wfi_graph_free(&in);
    wfi_graph_free(&out);
    wfi_graph_free(&again);
    wfi_ids_free(&ids);
    assert_int_equal(atomic_load(&mem.live), 0);
}

#endif
