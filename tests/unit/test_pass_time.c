/* What the passes cost: graphs of 1,250 to 20,000 nodes become plans that give the bits of single calls, and the time
 * of each pass is printed beside that of half the graph. Nothing here fails for being slow. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "weft/weft.h"

enum { SIDE = 4, PASSES = 24, LAYER = 8, STEPS = 3 };

typedef struct report {
    char name[PASSES][16];
    double us[PASSES];
    unsigned before[PASSES];
    int n;
} report;

/* Lines "  NAME  BEFORE -> AFTER  TIME us" of the last plan that was told of. */
static void tell(void *user, const char *topic, const char *text)
{
    report *r = user;
    if (strcmp(topic, "passes") != 0)
        return;
    r->n = 0;
    for (const char *p = strchr(text, '\n'); p && p[1] && r->n < PASSES; p = strchr(p + 1, '\n')) {
        unsigned after;
        r->n += sscanf(p + 1, " %15s %u -> %u %lf us", r->name[r->n], &r->before[r->n], &after, &r->us[r->n]) == 4;
    }
}

/* Layers of LAYER operators: product, bias, activation, residual, norm of a sort. */
static wf_tensor *network(wf_ctx *c, wf_tensor *x, wf_tensor *w, int layers)
{
    for (int i = 0; i < layers; i++) {
        wf_tensor *h = wf_tanh(wf_add(wf_matmul(x, w), x));
        wf_tensor *s = wf_softmax(h, -1);
        x = wf_sub(wf_mul(wf_add(s, h), wf_scalar(c, 0.5)), wf_abs(s));
    }
    return x;
}

static void run(wf_mode mode, int layers, float *out, report *r)
{
    static float numbers[SIDE * SIDE];
    const wf_ctx_opts o = {
        .size = sizeof o, .mode = mode, .threads = 1, .log = "passes", .log_fn = tell, .log_user = r
    };
    for (int i = 0; i < SIDE * SIDE; i++)
        numbers[i] = (float)(i % 7 - 3) / 4;
    wf_ctx *c = wf_ctx_new(&o);
    for (int step = 0; step < STEPS; step++) {
        wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(SIDE, SIDE), numbers);
        wf_tensor *y = wf_scope_return(c, s, network(c, x, x, layers));
        wf_scope_end(c, s);
        if (wf_read(c, y, out, SIDE * SIDE * sizeof *out) != WF_OK)
            fail_msg("%s", wf_error(c));
        wf_scope_end(c, around);
    }
    assert_true(mode == WF_EAGER || wf_ctx_stats(c).replayed > 0);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static double total(const report *r)
{
    double us = 0;
    for (int i = 0; i < r->n; i++)
        us += r->us[i];
    return us;
}

static void large_graphs(void **state)
{
    (void)state;
    static report half, r;
    float eager[SIDE * SIDE], lazy[SIDE * SIDE];
    for (int nodes = 1250; nodes <= 20000; nodes *= 2) {
        run(WF_EAGER, nodes / LAYER, eager, &r);
        r.n = 0;
        run(WF_LAZY, nodes / LAYER, lazy, &r);
        assert_memory_equal(eager, lazy, sizeof eager);
        assert_true(r.n > 3 && r.before[0] >= (unsigned)nodes);
        print_message("%5d nodes: passes take %.1f ms", nodes, total(&r) / 1e3);
        if (half.n)
            print_message(", %.2f x those of half", total(&r) / total(&half));
        print_message("\n");
        for (int i = 0; i < r.n && nodes == 5000; i++)
            print_message("    %-12s %8.2f ms\n", r.name[i], r.us[i] / 1e3);
        half = r;
    }
}

int main(void)
{
    unsetenv("WEFT_CHECK"); /* the reference around every pass is not what is to be seen here */
    unsetenv("WEFT_SKIP");
    const struct CMUnitTest tests[] = { cmocka_unit_test(large_graphs) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
