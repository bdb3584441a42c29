/* The report of a plan: word for word on a machine that is made up; work and levels of memory against counts by hand;
 * times only where they were asked for, and the same bits with them. */
#include "refeval.h"
#include "exec/profile.h"
#include "explain/report.h"

/* A machine of round numbers: a flop and a byte of L1 take a nanosecond each, a byte of memory ten. */
static const wfi_roofs made_up = { .name = "made-up",
                                   .threads = 1,
                                   .levels = 2,
                                   .level = { { "L1", 6000, 1e9, 1e9 }, { "memory", SIZE_MAX, 1e8, 1e8 } } };

static wf_ctx *context(bool profile)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 1, .profile = profile, .log = "" });
    assert_non_null(c);
    c->rt->roofs = made_up;
    for (int t = 0; t < WF_DTYPE_COUNT; t++)
        c->rt->roofs.flops[t] = 1e9;
    c->rt->roofs_known = 2;
    return c;
}

static const float numbers[512] = { 1, -2, 3, 0.5f, 2, 1, -1, 4, 7, -3 };

enum { STEP_LINE = __LINE__ + 5 };
static void step(wf_ctx *c, wf_var *w, float *y)
{
    wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "a step");
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(8, 16), numbers);
    wf_tensor *p = wf_matmul(x, wf_value(w));
    wf_tensor *r = wf_relu(wf_add(p, wf_scalar(c, 0.5)));
    wf_tensor *loss = wf_sum(wf_mul(r, r), WF_NO_DIMS);
    wf_tensor *g, *wrt[1] = { p };
    assert_int_equal(wf_grad(loss, 1, wrt, &g), WF_OK);
    g = wf_scope_return(c, s, g);
    assert_int_equal(wf_scope_end(c, s), WF_OK);
    assert_int_equal(wf_read(c, g, y, 32 * sizeof *y), WF_OK);
    wf_scope_end(c, around);
}

static wf_var *run(wf_ctx *c, int steps, float *y)
{
    wf_var *w = wf_var_new(c, "w", WF_F32, WF_DIMS(16, 4), numbers);
    for (int i = 0; i < steps; i++)
        step(c, w, y);
    return w;
}

static void has(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("no \"%s\" in\n%s", part, text ? text : "(null)");
}

static void json(void **state)
{
    (void)state;
    float y[32];
    char line[1024];
    wf_ctx *c = context(false);
    assert_null(wf_explain_plan(c));
    wf_var *w = run(c, 3, y);
    const char *t = wf_explain_plan(c, .json = true);
    has(t, "{\"step\":\"a step\",\"runs\":2,");
    has(t, "\"kernel\":\"cpu.gemm\",\"read\":768,\"written\":128,\"flop\":1024,\"least_ns\":");
    has(t, "\"why\":\"kind\"");
    has(t, "\"make\":\"matmul\",\"use\":\"add\"");
    has(t, "{\"pass\":\"fuse\",\"ns\":");
    snprintf(line, sizeof line,
             "\"op\":\"matmul\",\"results\":[\"f32[8,4]\"],\"lines\":[{\"line\":\"%s:%d\",\"gradient\":false}]",
             __FILE__, STEP_LINE);
    has(t, line);
    snprintf(line, sizeof line, "{\"line\":\"%s:%d\",\"gradient\":true}", __FILE__, STEP_LINE + 1);
    has(t, line);
    assert_null(strstr(t, "best_ns")); /* nobody asked for times */
    assert_null(c->last_plan->profile);
    has(wf_explain_plan(c), "not timed: ");
    has(wf_explain_plan(c, .buffers = true), "plan: ");
    for (int i = 0; i < 3; i++) { /* another step: the first one is found by its name */
        wf_scope s = wf_scope_begin(c, "another");
        wf_assign(w, wf_mul(wf_value(w), wf_scalar(c, 0.5)));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    has(wf_explain_plan(c), "step another: ");
    has(wf_explain_plan(c, .scope = "a step"), "step a step: ");
    assert_null(wf_explain_plan(c, .scope = "no such step"));
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static void times(void **state)
{
    (void)state;
    float without[32], with[32];
    wf_ctx *c = context(false);
    run(c, 3, without);
    assert_int_equal(wf_ctx_close(c), WF_OK);
    c = context(true);
    run(c, 6, with);
    assert_memory_equal(with, without, sizeof with);
    const wfi_profile *f = c->last_plan->profile;
    assert_non_null(f);
    assert_int_equal(f->runs, 4); /* six steps: one recorded, five replayed, the first of which met cold memory */
    assert_int_equal(f->n, 2 * c->last_plan->nrun + 1);
    double sum = 0;
    for (uint32_t i = 0; i < c->last_plan->nrun; i++) {
        assert_true(f->spent[i].best >= 0 && f->spent[i].best * 4 <= f->spent[i].sum + 1);
        sum += f->spent[i].sum;
    }
    assert_true(sum > 0 && sum <= f->whole.sum + 1000);
    has(wf_explain_plan(c, .json = true), "\"timed_runs\":4,");
    const char *t = wf_explain_plan(c);
    has(t, "us on average of 4; commands take ");
    has(t, " best us   mean us  share  least us of roof ");
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* Kernels whose weights are kept rearranged are chosen at the first run: what is timed is what runs without timing. */
static void kept_weights(void **state)
{
    (void)state;
    static float zeros[4096];
    wf_ctx *c = context(true);
    wf_var *v = wf_var_new(c, "w", WF_F32, WF_DIMS(20, 8, 3, 3), zeros);
    for (int i = 0; i < 4; i++) {
        wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "inference");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(2, 8, 9, 9), zeros);
        (void)wf_scope_return(c, s, wf_conv2d(x, wf_value(v)));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
        wf_scope_end(c, around);
    }
    const wfi_plan *p = c->last_plan;
    assert_int_equal(p->nkept, 1);
    for (uint32_t i = 0; i < p->nrun; i++)
        assert_true(p->profile->cmd[2 * i + 1].fn == p->run[i].fn);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* x, so many copies of copies, and then y from x again; 2,000 bytes each, in a first level of 6,000. y was written one
 * replay ago, when everything was touched since. */
static void levels(void **state)
{
    (void)state;
    static const double ns[4] = { 4000, 22000, 22000, 40000 }; /* both in L1; y from memory; both */
    for (int between = 0; between < 4; between++) {
        float y[512];
        wf_ctx *c = context(false);
        for (int i = 0; i < 3; i++) {
            wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "chain");
            wf_tensor *x = wf_contiguous(wf_flip(wf_tensor_from(c, WF_F32, WF_DIMS(500), numbers), WF_DIMS(0)));
            wf_tensor *z = x;
            for (int k = 0; k < between; k++)
                z = wf_contiguous(wf_flip(z, WF_DIMS(0)));
            (void)wf_scope_return(c, s, z);
            z = wf_scope_return(c, s, wf_neg(x));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            assert_int_equal(wf_read(c, z, y, 2000), WF_OK);
            wf_scope_end(c, around);
        }
        const wfi_plan *p = c->last_plan;
        wfi_work work[16];
        assert_true(p->nrun <= 16 && wfi_roofline(c->mem, p, &c->rt->roofs, work));
        const wfi_work *w = &work[p->nrun - 1];
        assert_true(w->read == 2000 && w->written == 2000);
        if (w->ns < ns[between] - 1 || w->ns > ns[between] + 1)
            fail_msg("%d between: %g ns, %g were expected", between, w->ns, ns[between]);
        assert_string_equal(w->by, between ? "memory" : "L1");
        wf_ctx_close(c);
    }
}

typedef struct heard {
    char text[16384];
    int n;
} heard;

static void hear(void *user, const char *topic, const char *text)
{
    heard *h = user;
    size_t n = strlen(h->text);
    assert_string_equal(topic, "plan");
    snprintf(h->text + n, sizeof h->text - n, "%s", text);
    h->n++;
}

/* WEFT_LOG=plan tells of each plan when the context is closed, and times for it. */
static void told_at_the_end(void **state)
{
    (void)state;
    heard h = { "", 0 };
    float y[32];
    wf_ctx *c =
        wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 1, .log = "plan", .log_fn = hear, .log_user = &h });
    c->rt->roofs = made_up;
    c->rt->roofs_known = 2;
    run(c, 4, y);
    assert_int_equal(h.n, 0);
    assert_int_equal(wf_ctx_close(c), WF_OK);
    assert_int_equal(h.n, 1);
    has(h.text, "step a step: ");
    has(h.text, "; ran 3 times\n");
    has(h.text, " best us ");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(json), cmocka_unit_test(times), cmocka_unit_test(levels),
                                        cmocka_unit_test(kept_weights), cmocka_unit_test(told_at_the_end) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
