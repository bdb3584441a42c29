/* What a step will need is foreseen before it runs, and what would make it less has a price that holds: budgets, a
 * smaller batch; topic "memory" of the log, and the error where a limit is too low. */
#include <inttypes.h>
#include "refeval.h"
#include "plan/plan.h"

enum { LAYERS = 4, WIDTH = 64, ROWS = 256 };
static const char *const name[LAYERS][2] = { { "u0", "d0" }, { "u1", "d1" }, { "u2", "d2" }, { "u3", "d3" } };

typedef struct heard {
    char text[8192];
    int n;
} heard;

static void hear(void *user, const char *topic, const char *text)
{
    heard *h = user;
    assert_string_equal(topic, "memory");
    snprintf(h->text, sizeof h->text, "%s", text);
    h->n++;
}

static wf_status step(wf_ctx *c, wf_model *m, wf_optim *opt, int64_t rows)
{
    static float data[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = (float)(i * 7919 % 1000) / 500 - 1;
    wf_scope s = wf_scope_begin(c, "deep");
    wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(rows, WIDTH), data), *y = x;
    for (int l = 0; l < LAYERS; l++)
        y = wf_add(y, wf_nn_linear(m, name[l][1], wf_gelu(wf_nn_linear(m, name[l][0], y, 4 * WIDTH)), WIDTH));
    wf_optim_step(opt, wf_mse(y, wf_neg(x)));
    return wf_scope_end(c, s);
}

/* Three steps. Returns the arena. */
static size_t train(int64_t rows, size_t budget, heard *h)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){
        .mode = WF_LAZY, .threads = 2, .memory_budget = budget, .log = "memory", .log_fn = hear, .log_user = h });
    assert_non_null(c);
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 0.01);
    for (int i = 0; i < 3; i++)
        assert_int_equal(step(c, m, opt, rows), WF_OK);
    const wfi_plan *p = c->last_plan;
    const size_t foreseen = wf_ctx_stats(c).foreseen_bytes;
    assert_int_equal(foreseen, p->there + p->arena + p->renewed);
    assert_true(p->taken <= foreseen + foreseen / 50 && p->taken >= foreseen - foreseen / 50);
    const size_t arena = p->arena;
    assert_int_equal(wf_ctx_close(c), WF_OK);
    return arena;
}

static void prices_hold(void **state)
{
    (void)state;
    static heard h, other;
    const size_t whole = train(ROWS, 0, &h);
    double mib, less, more;
    int64_t batch;
    assert_int_equal(h.n, 1); /* one plan */
    assert_non_null(strstr(h.text, "memory of step deep: "));
    assert_non_null(strstr(h.text, " foreseen: "));
    assert_non_null(strstr(h.text, "test_remedies.c:"));
    const char *at = strstr(h.text, "  .memory_budget of ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "  .memory_budget of %lf MiB: %lf MiB less, about %lf %% more", &mib, &less, &more), 3);
    const size_t budget = (size_t)((mib + 0.01) * (1 << 20));
    assert_true(train(ROWS, budget, &other) <= budget && budget < whole * 2 / 3);
    assert_true(more > 0 && more < 100 && less > 0);
    assert_null(strstr(other.text, "  .memory_budget of ")); /* it has one */
    at = strstr(h.text, "  a smaller batch: ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "  a smaller batch: %lf KiB less for each of the %" SCNd64, &less, &batch), 2);
    less /= 1024;
    assert_int_equal(batch, ROWS);
    const double saved = (double)(whole - train(ROWS / 2, 0, &other)) / (1 << 20);
    assert_true(saved > 0.8 * less * ROWS / 2 && saved < 1.25 * less * ROWS / 2);
}

/* Where a limit is too low, the error says what there is to do. */
static void told_with_the_error(void **state)
{
    (void)state;
    int refused = 0;
    for (size_t limit = 8 << 20; limit > 1 << 20; limit -= 1 << 17) {
        wf_runtime *rt = wf_runtime_new(&(wf_runtime_opts){ .threads = 2, .memory_limit = limit });
        wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .runtime = rt });
        if (!rt || !c)
            break;
        wf_model *m = wf_model_new(c);
        wf_optim *opt = wf_adamw(m, .lr = 0.01);
        wf_status s = WF_OK;
        for (int i = 0; i < 3 && s == WF_OK; i++)
            s = step(c, m, opt, ROWS);
        if (s != WF_OK && wf_error(c) && strstr(wf_error(c), "intermediate values")) {
            assert_non_null(strstr(wf_error(c), "a smaller batch: "));
            assert_non_null(strstr(wf_error(c), "what can be computed again is not kept already"));
            refused++;
        }
        wf_error_clear(c);
        wf_ctx_close(c);
        wf_runtime_free(rt);
    }
    print_message("%d limits refused\n", refused);
    assert_true(refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prices_hold),
        cmocka_unit_test(told_with_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
