/* Out of memory everywhere: each scenario runs again and again while the first, second, third ... allocation fails,
 * once alone and once with all that follow. No crash, an ordinary error, nothing leaks, and after wf_error_clear the
 * same context does the work. */
#include <stdatomic.h>
#include <unistd.h>
#include "refeval.h"

/* An allocator that counts and fails. */
typedef struct broken {
    _Atomic long calls, live;
    long fail_at; /* -1: never */
    bool all_after;
    _Atomic bool failed;
} broken;

static void *give(void *user, void *p, size_t old_bytes, size_t new_bytes)
{
    broken *b = user;
    if (!new_bytes) {
        if (p)
            atomic_fetch_sub(&b->live, (long)old_bytes);
        free(p);
        return NULL;
    }
    long n = atomic_fetch_add(&b->calls, 1);
    if (b->fail_at >= 0 && (n == b->fail_at || (b->all_after && n >= b->fail_at))) {
        atomic_store(&b->failed, true);
        return NULL;
    }
    void *q = aligned_alloc(64, (new_bytes + 63) & ~(size_t)63);
    if (!q)
        return NULL;
    if (p)
        memcpy(q, p, old_bytes < new_bytes ? old_bytes : new_bytes);
    atomic_fetch_add(&b->live, (long)new_bytes - (p ? (long)old_bytes : 0));
    free(p);
    return q;
}

typedef struct work {
    wf_ctx *c;
    wf_mode mode;
    wf_var *v[2];
    wf_model *m;
    wf_optim *opt;
    wf_fn *f;
    double result;
    bool done; /* ran to its end without an error */
} work;

static const float numbers[64] = { 1, -2, 3, 0.5f, 2, 1, -1, 4, 0.25f, 3, 1, 2, -3, 1, 0.125f, 2 };

static wf_tensor *floats(work *w, wf_dims d)
{
    return wf_tensor_from(w->c, WF_F32, d, numbers);
}

/* Each scenario leaves a number in w->result. They may be cut short by an error at any call. */
static void a_sum(work *w)
{
    w->result = wf_item(w->c, wf_sum(wf_mul(floats(w, WF_DIMS(8, 8)), wf_scalar(w->c, 2)), WF_NO_DIMS));
}
static void in_step(work *w, wf_tensor *(*build)(work *))
{
    wf_scope around = wf_scope_begin(w->c, "around", .group = true), s = wf_scope_begin(w->c, "step");
    wf_tensor *y = wf_scope_return(w->c, s, build(w));
    wf_status st = wf_scope_end(w->c, s);
    w->result = y && st == WF_OK ? wf_item(w->c, wf_sum(y, WF_NO_DIMS)) : NAN;
    wf_scope_end(w->c, around);
}
static wf_tensor *mixed(work *w)
{
    wf_tensor *x = floats(w, WF_DIMS(4, 8)), *y = wf_softmax(wf_matmul(x, wf_transpose(x)), -1);
    return wf_layer_norm(wf_concat(2, ((wf_tensor *[]){ y, wf_flip(y, WF_DIMS(0)) }), 1));
}
static void a_step(work *w)
{
    in_step(w, mixed);
}
static wf_tensor *rows(work *w)
{
    int64_t at[3] = { 1, 0, 3 };
    wf_tensor *i = wf_tensor_from(w->c, WF_I64, WF_DIMS(3), at), *x = floats(w, WF_DIMS(4, 8));
    return wf_gather(x, i);
}
static void look_ups(work *w)
{
    in_step(w, rows);
}
static wf_tensor *second_order(work *w)
{
    wf_tensor *x = floats(w, WF_DIMS(6)), *g = NULL, *h = NULL;
    if (wf_grad(wf_sum(wf_tanh(wf_mul(x, x)), WF_NO_DIMS), 1, &x, &g) != WF_OK ||
        wf_grad(wf_sum(wf_square(g), WF_NO_DIMS), 1, &x, &h) != WF_OK)
        return NULL;
    return h;
}
static void gradients(work *w)
{
    in_step(w, second_order);
}
static wf_tensor *see(work *w)
{
    wf_tensor *x = floats(w, WF_DIMS(1, 1, 8, 8)), *k = floats(w, WF_DIMS(2, 1, 3, 3));
    return wf_max_pool2d(wf_relu(wf_conv2d(x, k, .pad = 1)), .kernel = 2);
}
static void pictures(work *w)
{
    in_step(w, see);
}
static wf_tensor *heads(work *w)
{
    wf_tensor *x = floats(w, WF_DIMS(2, 4, 8)), *g = NULL;
    wf_tensor *y = wf_attention(x, x, x, .causal = true);
    return wf_grad(wf_sum(wf_square(y), WF_NO_DIMS), 1, &x, &g) == WF_OK ? g : NULL;
}
static void attends(work *w)
{
    in_step(w, heads);
}

static bool one_step(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    out[0] = wf_tanh(wf_add(wf_matmul(in[0], user), in[1]));
    out[1] = wf_mul(out[0], wf_scalar(c, 2));
    return true;
}
static bool keeps_it(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = in[0];
    return true;
}
static bool squares_it(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = wf_square(in[0]);
    return true;
}
static bool still_small(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = wf_lt(wf_sum(wf_square(in[0]), WF_NO_DIMS), wf_scalar(c, 50));
    return true;
}
static wf_tensor *loops(work *w)
{
    wf_tensor *m = floats(w, WF_DIMS(4, 4)), *h = floats(w, WF_DIMS(2, 4)), *x = floats(w, WF_DIMS(3, 2, 4)), *y = NULL;
    wf_tensor *wrt[2] = { m, h }, *g[2];
    if (wf_scan(w->c, one_step, m, .carry = &h, .ncarry = 1, .xs = &x, .nxs = 1, .ys = &y, .nys = 1) != WF_OK ||
        wf_cond(w->c, wf_lt(wf_sum(y, WF_NO_DIMS), wf_scalar(w->c, 0)), keeps_it, squares_it, NULL, 1, &y, 1, &y) !=
            WF_OK ||
        wf_while(w->c, still_small, squares_it, NULL, .carry = &h, .ncarry = 1, .max = 2) != WF_OK)
        return NULL;
    wf_tensor *loss = wf_add(wf_sum(y, WF_NO_DIMS), wf_sum(h, WF_NO_DIMS));
    return wf_grad(loss, 2, wrt, g) == WF_OK ? wf_add(wf_matmul(g[1], g[0]), h) : NULL;
}
static void control_flow(work *w)
{
    in_step(w, loops);
}

static bool variables(work *w)
{
    for (int i = 0; i < 2; i++)
        if (!w->v[i] && !(w->v[i] = wf_var_new(w->c, i ? "b" : "a", WF_F32, WF_DIMS(8), numbers)))
            return false;
    return true;
}
static void assigned(work *w)
{
    if (!variables(w))
        return;
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_assign(w->v[0], floats(w, WF_DIMS(8)));
    wf_assign(w->v[1], wf_add(wf_value(w->v[0]), wf_scalar(w->c, 1)));
    wf_assign(w->v[0], wf_flip(wf_value(w->v[1]), WF_DIMS(0)));
    if (wf_scope_end(w->c, s) == WF_OK)
        w->result = wf_item(w->c, wf_sum(wf_value(w->v[0]), WF_NO_DIMS));
}
static void swapped(work *w)
{
    if (!variables(w))
        return;
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_assign(w->v[0], wf_value(w->v[1]));
    wf_assign(w->v[1], wf_value(w->v[0]));
    if (wf_scope_end(w->c, s) == WF_OK)
        w->result = wf_item(w->c, wf_sum(wf_value(w->v[0]), WF_NO_DIMS));
}
static void kept(work *w)
{
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_tensor *k = wf_retain(w->c, wf_exp(floats(w, WF_DIMS(8))));
    if (wf_scope_end(w->c, s) == WF_OK && k)
        w->result = wf_item(w->c, wf_sum(k, WF_NO_DIMS));
    if (k && wf_error_status(w->c) == WF_OK)
        wf_release(w->c, k);
}
static void read_in_the_middle(work *w)
{
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_tensor *x = floats(w, WF_DIMS(8)), *y = wf_mul(x, x);
    double a = wf_item(w->c, wf_sum(y, WF_NO_DIMS)), b = wf_item(w->c, wf_max(wf_add(y, x), WF_NO_DIMS));
    if (wf_scope_end(w->c, s) == WF_OK)
        w->result = a + b;
}
static void branching(work *w)
{
    double sum = 0;
    for (int i = 0; i < 5; i++) {
        wf_scope around = wf_scope_begin(w->c, "around", .group = true), s = wf_scope_begin(w->c, "step");
        wf_tensor *x = floats(w, WF_DIMS(8));
        x = i % 2 ? wf_tanh(x) : wf_neg(x);
        x = wf_scope_return(w->c, s, i % 3 ? wf_exp(x) : wf_relu(x));
        if (wf_scope_end(w->c, s) == WF_OK)
            sum += wf_item(w->c, wf_sum(x, WF_NO_DIMS));
        wf_scope_end(w->c, around);
    }
    w->result = sum;
}
static void nested(work *w)
{
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_tensor *x = floats(w, WF_DIMS(8));
    for (int i = 0; i < 20; i++) {
        wf_scope in = wf_scope_begin(w->c, "inner");
        x = wf_scope_return(w->c, in, wf_mul(x, wf_scalar(w->c, 0.5)));
        wf_scope_end(w->c, in);
    }
    x = wf_scope_return(w->c, s, x);
    if (wf_scope_end(w->c, s) == WF_OK)
        w->result = wf_item(w->c, wf_sum(x, WF_NO_DIMS));
}
static void many_calls(work *w)
{
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_tensor *x = floats(w, WF_DIMS(8));
    for (int i = 0; i < 400; i++)
        x = wf_tanh(x);
    x = wf_scope_return(w->c, s, x);
    if (wf_scope_end(w->c, s) == WF_OK)
        w->result = wf_item(w->c, wf_sum(x, WF_NO_DIMS));
}
static bool body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_tanh(wf_add(in[0], wf_value(((work *)user)->v[0])));
    return out[0] != NULL;
}
static void captured(work *w)
{
    if (!variables(w))
        return;
    wf_scope around = wf_scope_begin(w->c, "around", .group = true);
    wf_tensor *x = floats(w, WF_DIMS(8)), *y = NULL;
    if (!w->f && x)
        w->f = wf_capture(w->c, body, w, 1, &x, 1);
    if (w->f && wf_fn_call(w->f, &x, &y) == WF_OK)
        w->result = wf_item(w->c, wf_sum(y, WF_NO_DIMS));
    wf_scope_end(w->c, around);
}
static wf_loss net(work *w)
{
    int64_t labels[4] = { 0, 2, 1, 2 };
    wf_tensor *h = wf_relu(wf_nn_linear(w->m, "a", floats(w, WF_DIMS(4, 8)), 6));
    wf_tensor *y = wf_nn_linear(w->m, "b", h, 3);
    return wf_cross_entropy(y, wf_tensor_from(w->c, WF_I64, WF_DIMS(4), labels));
}
static void one_update(work *w)
{
    wf_scope around = wf_scope_begin(w->c, "around", .group = true), s = wf_scope_begin(w->c, "train");
    wf_loss loss = net(w);
    if (w->opt)
        (void)wf_optim_step(w->opt, loss);
    wf_tensor *mean = wf_scope_return(w->c, s, wf_loss_mean(loss));
    if (wf_scope_end(w->c, s) == WF_OK && w->opt && mean)
        w->result = wf_item(w->c, mean) > 0;
    wf_scope_end(w->c, around);
}
static void adamw(work *w)
{
    if (!w->m)
        w->m = wf_model_new(w->c);
    if (w->m && !w->opt)
        w->opt = wf_adamw(w->m, .lr = 0.01);
    if (w->m && w->opt)
        one_update(w);
}
static void sgd(work *w)
{
    if (!w->m)
        w->m = wf_model_new(w->c);
    if (w->m && !w->opt)
        w->opt = wf_sgd(w->m, .lr = 0.01, .momentum = 0.9);
    if (w->m && w->opt)
        one_update(w);
}
static void accumulates(work *w)
{
    if (!w->m)
        w->m = wf_model_new(w->c);
    if (w->m && !w->opt)
        w->opt = wf_sgd(w->m, .lr = 0.01);
    if (!w->m || !w->opt)
        return;
    wf_scope s = wf_scope_begin(w->c, "micro");
    (void)wf_optim_accumulate(w->opt, net(w));
    if (wf_scope_end(w->c, s) != WF_OK)
        return;
    wf_scope t = wf_scope_begin(w->c, "update");
    (void)wf_optim_step_accumulated(w->opt);
    if (wf_scope_end(w->c, t) == WF_OK)
        w->result = 1;
}
static void block(work *w)
{
    if (!w->m)
        w->m = wf_model_new(w->c);
    if (!w->m)
        return;
    wf_scope s = wf_scope_begin(w->c, "step");
    wf_tensor *y = wf_nn_transformer_block(w->m, "block", floats(w, WF_DIMS(1, 4, 8)), .heads = 2, .causal = true);
    y = wf_scope_return(w->c, s, y);
    if (wf_scope_end(w->c, s) == WF_OK && y)
        w->result = isfinite(wf_item(w->c, wf_sum(y, WF_NO_DIMS)));
}
static void saves(work *w)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/weft-alloc-%d.safetensors", (int)getpid());
    block(w);
    if (!w->m || wf_error_status(w->c) != WF_OK)
        return;
    if (wf_model_save(w->m, path) == WF_OK && wf_model_load(w->m, path) == WF_OK)
        w->result = 7;
    unlink(path);
}
static void frozen(work *w)
{
    block(w);
    if (!w->m || wf_error_status(w->c) != WF_OK)
        return;
    wf_frozen *f = wf_model_freeze(w->m);
    if (!f)
        return;
    wf_model *m = wf_model_thawed(w->c, f);
    if (m)
        w->result = wf_model_param_count(m);
    wf_frozen_free(f);
}
static void explained(work *w)
{
    for (int i = 0; i < 2; i++)
        in_step(w, mixed);
    w->c->rt->roofs =
        (wfi_roofs){ .name = "none", .threads = 1, .levels = 1, .level = { { "memory", SIZE_MAX, 1, 1 } } };
    w->c->rt->roofs_known = 2;   /* not measured here: that would be done for every allocation there is */
    (void)wf_explain_plan(w->c); /* NULL where no trace could be learnt */
    (void)wf_explain_plan(w->c, .json = true);
    (void)wf_explain_plan(w->c, .buffers = true);
}

static const struct {
    const char *name;
    void (*run)(work *);
} scenario[] = { { "sum", a_sum },
                 { "step", a_step },
                 { "look-ups", look_ups },
                 { "second order", gradients },
                 { "convolution", pictures },
                 { "attention", attends },
                 { "control flow", control_flow },
                 { "assignments", assigned },
                 { "swap", swapped },
                 { "retained", kept },
                 { "reads", read_in_the_middle },
                 { "branches", branching },
                 { "nested scopes", nested },
                 { "many calls", many_calls },
                 { "captured", captured },
                 { "adamw", adamw },
                 { "sgd", sgd },
                 { "accumulate", accumulates },
                 { "transformer block", block },
                 { "save and load", saves },
                 { "freeze", frozen },
                 { "explain", explained } };

/* Opens, works twice (the second time on a known trace), closes. */
static long once(size_t k, wf_mode mode, long fail_at, bool all_after, double *want)
{
    broken b = { .fail_at = fail_at, .all_after = all_after };
    wf_runtime *rt = wf_runtime_new(&(wf_runtime_opts){ .threads = 1, .alloc = give, .alloc_user = &b });
    wf_ctx *c = rt ? wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .runtime = rt }) : NULL;
    if (!c) { /* too early for an error to be kept */
        assert_true(b.failed);
        wf_runtime_free(rt);
        if (b.live)
            fail_msg("%s: %ld bytes leak where no context could be made (allocation %ld fails)", scenario[k].name,
                     b.live, fail_at);
        return b.calls;
    }
    work w = { .c = c, .mode = mode };
    for (int round = 0; round < 3; round++) {
        w.result = -1;
        scenario[k].run(&w);
        wf_status st = wf_error_status(c);
        if (st != WF_OK && (st != WF_ERR_MEMORY || !b.failed))
            fail_msg("%s, %s, allocation %ld%s fails, round %d: status %d: %s", scenario[k].name,
                     mode == WF_LAZY ? "lazy" : "eager", fail_at, all_after ? " and later ones" : "", round, (int)st,
                     wf_error(c));
        if (st == WF_OK) {
            if (fail_at < 0 && round == 0)
                *want = w.result;
            assert_true(*want != -1);
            if (!(w.result == *want))
                fail_msg("%s, allocation %ld fails, round %d: no error, but the result is %.9g, %.9g was right",
                         scenario[k].name, fail_at, round, w.result, *want);
        } else {
            assert_non_null(wf_error(c));
            wf_error_clear(c);
        }
    }
    b.fail_at = -1; /* there is memory again */
    w.result = -1;
    scenario[k].run(&w);
    if (wf_error_status(c) != WF_OK)
        fail_msg("%s, %s, allocation %ld%s failed: the context does not recover: %s", scenario[k].name,
                 mode == WF_LAZY ? "lazy" : "eager", fail_at, all_after ? " and later ones" : "", wf_error(c));
    if (!(w.result == *want))
        fail_msg("%s, %s, allocation %ld%s failed: afterwards the result is %.9g, %.9g was right", scenario[k].name,
                 mode == WF_LAZY ? "lazy" : "eager", fail_at, all_after ? " and later ones" : "", w.result, *want);
    (void)wf_ctx_close(c);
    wf_runtime_free(rt);
    if (b.live)
        fail_msg("%s, %s, allocation %ld%s fails: %ld bytes leak", scenario[k].name, mode == WF_LAZY ? "lazy" : "eager",
                 fail_at, all_after ? " and later ones" : "", b.live);
    return b.calls;
}

static const char *only = "";

static void every_allocation(void **state)
{
    (void)state;
    long failures = 0;
    assert_true(sizeof scenario / sizeof *scenario >= 20);
    for (size_t k = 0; k < sizeof scenario / sizeof *scenario; k++)
        for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
            double want = 0;
            if (!strstr(scenario[k].name, only))
                continue;
            long n = once(k, (wf_mode)mode, -1, false, &want);
            for (long at = 0; at < n; at++, failures++) {
                once(k, (wf_mode)mode, at, false, &want);
                if (at % 5 == 0)
                    once(k, (wf_mode)mode, at, true, &want);
            }
        }
    print_message("%ld allocations failed\n", failures);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        only = argv[1];
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_allocation) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
