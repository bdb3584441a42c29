/* What can be seen of the passes: a pass that is broken on purpose is named with operator, line and values; dumps; the
 * log by topic; wrong names in lists. */
#include <unistd.h>
#include "refeval.h"
#include "graph/body.h"
#include "passes/passes.h"
#include "plan/plan.h"

/* ---- a pass that is wrong: a - b becomes b - a ---- */

static bool turn_sub(const wfi_graph *g, wfi_graph *out)
{
    uint32_t *value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *value);
    bool ok = value != NULL;
    for (uint32_t k = 0; ok && k < g->nnode; k++) {
        ok = wfi_graph_copy(out, g, k, value);
        wfi_node *n = &out->node[k];
        if (ok && n->op == WFI_OP_sub) {
            uint32_t *in = out->in + n->in0, first = in[0];
            in[0] = in[1];
            in[1] = first;
        }
        if (ok)
            n->hash = wfi_graph_hash(out, k);
    }
    wfi_mem_free(g->mem, value);
    return ok;
}
static const wfi_pass broken = { "broken", turn_sub };

/* ... and one that makes another operator of a member of a group: relu becomes abs */
static bool turn_relu(const wfi_graph *g, wfi_graph *out)
{
    uint32_t *value = wfi_mem_array(g->mem, g->nvalue + 1, sizeof *value);
    bool ok = value != NULL;
    for (uint32_t k = 0; ok && k < g->nnode; k++) {
        ok = wfi_graph_copy(out, g, k, value);
        wfi_node *n = &out->node[k];
        if (!ok || n->op != WFI_NODE_FUSED)
            continue;
        wfi_body b = { .nin = 0 };
        const wfi_attr_item *item = wfi_attr_at(g->ids, n->payload);
        memcpy(&b, item->data, item->bytes);
        for (uint32_t q = 0; q < b.nop; q++)
            b.op[q].op = b.op[q].op == WFI_OP_relu ? WFI_OP_abs : b.op[q].op;
        n->payload = wfi_ids_attr(g->ids, WFI_NODE_FUSED, &b, wfi_body_bytes(&b));
        ok = n->payload != 0;
        n->hash = wfi_graph_hash(out, k);
    }
    wfi_mem_free(g->mem, value);
    return ok;
}
static const wfi_pass broken_body = { "broken", turn_relu };

typedef struct heard {
    char text[16384];
    char topics[256];
} heard;

static void hear(void *user, const char *topic, const char *text)
{
    heard *h = user;
    size_t n = strlen(h->text), m = strlen(h->topics);
    snprintf(h->text + n, sizeof h->text - n, "%s", text);
    snprintf(h->topics + m, sizeof h->topics - m, "%s ", topic);
}

static const float numbers[16] = { 1, -2, 3, 0.5f, 2, 1, -1, 4, 7, -3, 2, 0.25f, 1, 1, 2, 3 };
enum { SUB_LINE = __LINE__ + 9 };

/* Two products whose difference goes into a third: the subtraction stays a node of its own. */
static wf_status step(wf_ctx *c, float *y)
{
    wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "a step");
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(4, 4), numbers);
    wf_tensor *p = wf_matmul(x, x);
    wf_tensor *q = wf_matmul(wf_relu(wf_neg(x)), x);
    wf_tensor *d = wf_sub(p, q);
    wf_tensor *r = wf_scope_return(c, s, wf_matmul(d, x));
    wf_status status = wf_scope_end(c, s);
    if (status == WF_OK)
        status = wf_read(c, r, y, 16 * sizeof *y);
    wf_scope_end(c, around);
    return status;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(value ? setenv(name, value, 1) : unsetenv(name), 0);
}

static void plain_environment(void)
{
    static const char *const all[] = { "WEFT_SKIP",     "WEFT_DUMP", "WEFT_DUMP_DIR",
                                       "WEFT_LOG_FILE", "WEFT_LOG",  "WEFT_CHECK" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        set(all[i], NULL);
}

static void broken_pass(void **state)
{
    (void)state;
    char line[512];
    float right[16], y[16];
    snprintf(line, sizeof line, "it comes from %s:%d", __FILE__, SUB_LINE);
    plain_environment();
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY });
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(c, right), WF_OK);
    assert_int_equal(wf_ctx_close(c), WF_OK);
    for (int how = 0; how < 4; how++) { /* nobody looks; the verifier; the reference; the pass is left out */
        set("WEFT_CHECK", how == 0 ? NULL : how == 1 ? "1" : "ref");
        set("WEFT_SKIP", how == 3 ? "broken" : NULL);
        c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY });
        c->more_pass = &broken;
        assert_int_equal(step(c, y), WF_OK);
        assert_memory_equal(y, right, sizeof y);
        assert_int_equal(step(c, y), how == 2 ? WF_ERR_STATE : WF_OK);
        if (how == 2) {
            const char *e = wf_error(c);
            assert_non_null(strstr(e, "pass broken changes values: sub gives f32[4,4] at [0,0]: "));
            assert_non_null(strstr(e, " before, "));
            if (!strstr(e, line))
                fail_msg("%s: no \"%s\"", e, line);
            wf_error_clear(c);
        } else
            assert_true(!memcmp(y, right, sizeof y) == (how == 3));
        assert_int_equal(wf_ctx_close(c), WF_OK);
    }
    plain_environment();
}

static void broken_group(void **state)
{
    (void)state;
    char line[512];
    float y[16];
    snprintf(line, sizeof line, "it comes from %s:%d", __FILE__, SUB_LINE - 1);
    plain_environment();
    set("WEFT_CHECK", "ref");
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY });
    c->more_pass = &broken_body;
    assert_int_equal(step(c, y), WF_OK);
    assert_int_equal(step(c, y), WF_ERR_STATE);
    const char *e = wf_error(c);
    assert_non_null(
        strstr(e, "pass broken changes values: fused(neg i0; abs t0) gives f32[4,4] at [0,0]: 0 before, 1 after"));
    if (!strstr(e, line))
        fail_msg("%s: no \"%s\"", e, line);
    assert_int_equal(wf_ctx_close(c), WF_ERR_STATE);
    plain_environment();
}

static void all_steps(wf_ctx *c)
{
    float y[16];
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(c, y), WF_OK);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static void topics(void **state)
{
    (void)state;
    heard h = { "", "" };
    plain_environment();
    all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .log_fn = hear, .log_user = &h })); /* nobody asked */
    assert_string_equal(h.text, "");
    all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .log = "fusion,passes", .log_fn = hear, .log_user = &h }));
    assert_string_equal(h.topics, "passes fusion ");
    static const char *const told[] = { "passes of step a step\n",
                                        "  lower ",
                                        "  simplify ",
                                        "  fuse ",
                                        "  memory ",
                                        "fused(neg i0; relu t0) at ",
                                        "apart kind matmul at ",
                                        "only element-wise operators run as one kernel\n" };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        if (!strstr(h.text, told[i]))
            fail_msg("no \"%s\" in\n%s", told[i], h.text);
    /* the number of a group is what WEFT_SKIP takes */
    const char *id = strstr(h.text, "\nfused ");
    char skip[32];
    snprintf(skip, sizeof skip, "fuse:%.8s", id ? id + 7 : "");
    set("WEFT_SKIP", skip);
    h = (heard){ "", "" };
    all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .log = "all", .log_fn = hear, .log_user = &h }));
    assert_null(strstr(h.text, "\nfused "));
    plain_environment();
}

/* Each implementation is told of once for each kind of operands, with those that declined before it. */
static void dispatch(void **state)
{
    (void)state;
    heard h = { "", "" };
    plain_environment();
    all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .log = "dispatch", .log_fn = hear, .log_user = &h }));
    static const char product[] = "bound matmul f32[4,4] f32[4,4] -> cpu.gemm, not cpu.gemm.";
    const char *line = strstr(h.text, product);
    assert_non_null(line);
    assert_null(strstr(line + 1, product));
    assert_non_null(strstr(h.text, "bound relu f32[4,4] -> cpu.ew\n"));
    assert_non_null(strstr(h.text, "bound fused f32[4,4] -> cpu.fused\n"));
    h = (heard){ "", "" };
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_EAGER, .log = "dispatch", .log_fn = hear, .log_user = &h });
    wf_scope s = wf_scope_begin(c, "s");
    (void)wf_flatten(wf_transpose(wf_tensor_from(c, WF_F32, WF_DIMS(4, 4), numbers)), 0);
    wf_scope_end(c, s);
    assert_non_null(strstr(h.text, "bound flatten f32[4,4] -> taken apart\n"));
    assert_non_null(strstr(h.text, "bound contiguous f32[4,4]~ -> cpu.copy\n"));
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static void to_a_file(void **state)
{
    (void)state;
    char path[] = "/tmp/weft_watch_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    plain_environment();
    set("WEFT_LOG", "passes");
    set("WEFT_LOG_FILE", path);
    for (int i = 0; i < 2; i++) /* added to, not replaced */
        all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY }));
    plain_environment();
    char text[4096] = "";
    assert_true(read(fd, text, sizeof text - 1) > 0);
    char *first = strstr(text, "passes of step");
    assert_non_null(first);
    assert_non_null(strstr(first + 1, "passes of step"));
    close(fd);
    unlink(path);
}

static void dumps(void **state)
{
    (void)state;
    heard h = { "", "" };
    plain_environment();
    set("WEFT_DUMP", "fuse,recording");
    all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .log_fn = hear, .log_user = &h }));
    assert_string_equal(h.topics, "dump dump dump ");
    assert_non_null(strstr(h.text, "# step a step, plan 1, after recording: "));
    assert_non_null(strstr(h.text, "# step a step, plan 1, before fuse: "));
    const char *after = strstr(h.text, "# step a step, plan 1, after fuse: ");
    assert_true(after && strstr(after, "fused(neg i0; relu t0)") && strstr(after, "test_watch.c:"));

    char folder[] = "/tmp/weft_watch_XXXXXX", name[512];
    assert_non_null(mkdtemp(folder));
    set("WEFT_DUMP", "all");
    set("WEFT_DUMP_DIR", folder);
    all_steps(wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY }));
    snprintf(name, sizeof name, "%s/a_step-1-recording-after.txt", folder);
    assert_int_equal(unlink(name), 0);
    for (const wfi_pass *p = wfi_pass_list; p->name; p++)
        for (int i = 0; i < 2; i++) {
            snprintf(name, sizeof name, "%s/a_step-1-%s-%s.txt", folder, p->name, i ? "after" : "before");
            if (unlink(name) != 0)
                fail_msg("no %s", name);
        }
    assert_int_equal(rmdir(folder), 0); /* nothing else is in it */
    plain_environment();
}

static void wrong_names(void **state)
{
    (void)state;
    float y[16];
    plain_environment();
    set("WEFT_LOG", "plan,plans");
    wf_ctx *c = wf_ctx_new(NULL);
    assert_non_null(strstr(
        wf_error(c), "WEFT_LOG names \"plans\": plan, passes, fusion, dispatch, memory, tune or all was expected"));
    assert_int_equal(wf_ctx_close(c), WF_ERR_ARG);
    for (int i = 0; i < 2; i++) {
        plain_environment();
        set(i ? "WEFT_DUMP" : "WEFT_SKIP", i ? "fuse,fus" : "fuse:0011aabb,fus");
        c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY });
        assert_int_equal(step(c, y), WF_OK);
        assert_int_equal(step(c, y), WF_ERR_ARG);
        assert_non_null(strstr(wf_error(c), i ? "WEFT_DUMP names \"fus\"" : "WEFT_SKIP names \"fus\""));
        assert_int_equal(wf_ctx_close(c), WF_ERR_ARG);
    }
    plain_environment();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(broken_pass), cmocka_unit_test(broken_group),
                                        cmocka_unit_test(topics),      cmocka_unit_test(dispatch),
                                        cmocka_unit_test(to_a_file),   cmocka_unit_test(dumps),
                                        cmocka_unit_test(wrong_names) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
