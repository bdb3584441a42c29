/* Lazy recording against eager running: programs that branch, a thousand traces, handles that are kept, reads in the
 * middle of a step, scopes that are left early, errors in mid-step, composites on known traces, assignments in every
 * order. Each program runs in an eager and in a lazy context, step by step, and what it notes must agree bit for bit.
 * After the second identical step nothing is allocated, planned or recorded any more. */
#include <unistd.h>
#include "refeval.h"

enum { VARS = 4, NOTES = 4096 };

/* One program in one context. */
typedef struct side {
    wf_ctx *c;
    wf_var *v[VARS];
    wf_tensor *kept[4];
    wf_model *m;
    wf_optim *opt;
    wf_fn *f;
    double note[NOTES];
    int n;
    const char *name;
} side;

static void note_number(side *s, double v)
{
    assert_true(s->n < NOTES);
    s->note[s->n++] = v;
}
static void note(side *s, wf_tensor *t)
{
    wf_dims d = wf_tensor_dims(t);
    int64_t n = 1;
    wf_dtype type = wf_tensor_dtype(t);
    for (int32_t i = 0; i < d.n; i++)
        n *= d.d[i];
    char *p = malloc((size_t)n * 8 + 1);
    assert_non_null(p);
    if (wf_read(s->c, t, p, (size_t)n * wf_dtype_bytes(type)) != WF_OK)
        fail_msg("%s: %s", s->name, wf_error(s->c));
    for (int64_t i = 0; i < n; i++)
        note_number(s, wfi_dtype_load(type, p, i));
    free(p);
}
static wf_tensor *numbers(side *s, wf_dims d, double x0, double by)
{
    float x[256];
    int64_t n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= d.d[i];
    assert_true(n <= 256);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(x0 + (double)i * by);
    return wf_tensor_from(s->c, WF_F32, d, x);
}
static void ended(side *s, wf_scope scope)
{
    if (wf_scope_end(s->c, scope) != WF_OK)
        fail_msg("%s: %s", s->name, wf_error(s->c));
}

typedef void program(side *s, int step);

static side *side_new(const char *name, wf_mode mode, int threads)
{
    side *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->name = name;
    s->c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = threads });
    assert_non_null(s->c);
    for (int i = 0; i < VARS; i++) {
        float x[4];
        char label[8];
        for (int j = 0; j < 4; j++)
            x[j] = (float)(0.25 * (i + 1) - 0.125 * j);
        snprintf(label, sizeof label, "v%d", i);
        assert_non_null(s->v[i] = wf_var_new(s->c, label, WF_F32, WF_DIMS(4), x));
    }
    return s;
}
static void side_free(side *s)
{
    if (wf_error(s->c))
        fail_msg("%s: an error is left: %s", s->name, wf_error(s->c));
    assert_int_equal(wf_ctx_close(s->c), WF_OK);
    free(s);
}

static void twins(const char *name, program *p, int steps)
{
    for (int threads = 1; threads <= 2; threads++) {
        side *e = side_new(name, WF_EAGER, threads), *l = side_new(name, WF_LAZY, threads);
        for (int step = 0; step < steps; step++) {
            side *both[2] = { e, l };
            for (int k = 0; k < 2; k++) {
                both[k]->n = 0;
                p(both[k], step);
                for (int i = 0; i < VARS; i++) {
                    wf_scope around = wf_scope_begin(both[k]->c, "look", .group = true);
                    note(both[k], wf_value(both[k]->v[i]));
                    wf_scope_end(both[k]->c, around);
                }
            }
            if (e->n != l->n)
                fail_msg("%s, step %d: eager noted %d numbers, lazy %d", name, step, e->n, l->n);
            for (int i = 0; i < e->n; i++)
                if (memcmp(&e->note[i], &l->note[i], sizeof(double)) && !(isnan(e->note[i]) && isnan(l->note[i])))
                    fail_msg("%s, step %d, number %d of %d: eager %.9g, lazy %.9g", name, step, i, e->n, e->note[i],
                             l->note[i]);
        }
        side_free(e);
        side_free(l);
    }
}
#define TWINS(name, steps)                                                                                             \
    static void name##_test(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        twins(#name, name, steps);                                                                                     \
    }

/* ---- branching ---- */

/* A random walk over operators, variables, assignments, scopes and reads: another trace nearly every time, with common
 * beginnings. */
static void branches(side *s, int step)
{
    wf_ctx *c = s->c;
    rng r = { (uint64_t)(step % 60) * 7919 + (uint64_t)(step / 120) };
    wf_scope around = wf_scope_begin(c, "around", .group = true), scope = wf_scope_begin(c, "walk"), inner;
    wf_tensor *x = wf_value(s->v[0]), *y = numbers(s, WF_DIMS(4), step % 5, 0.5), *keep = NULL;
    int calls = 3 + (int)rng_below(&r, 12);
    for (int i = 0; i < calls; i++)
        switch (rng_below(&r, 12)) {
        case 0: x = wf_add(x, y); break;
        case 1: x = wf_mul(x, wf_scalar(c, 0.5 + step)); break;
        case 2: y = wf_relu(wf_sub(y, x)); break;
        case 3: x = wf_tanh(x); break;
        case 4: wf_assign(s->v[1], wf_add(x, wf_value(s->v[1]))); break;
        case 5: y = wf_value(s->v[1 + rng_below(&r, 3)]); break;
        case 6: x = wf_softmax(x, 0); break;
        case 7: wf_assign(s->v[2], y); break;
        case 8: keep = wf_sum(x, WF_NO_DIMS); break;
        case 9:
            if (rng_below(&r, 4) == 0)
                note_number(s, wf_item(c, wf_sum(y, WF_NO_DIMS)));
            break;
        case 10:
            inner = wf_scope_begin(c, "inner");
            x = wf_scope_return(c, inner, wf_flip(wf_add(x, wf_scalar(c, 1)), WF_DIMS(0)));
            wf_scope_end(c, inner);
            break;
        default: wf_assign(s->v[3], wf_tanh(wf_value(s->v[3]))); break;
        }
    keep = keep ? wf_scope_return(c, scope, keep) : NULL;
    x = wf_scope_return(c, scope, x);
    y = wf_scope_return(c, scope, y);
    if (step % 9 == 0) /* keeps the numbers small */
        for (int i = 0; i < VARS; i++)
            wf_assign(s->v[i], numbers(s, WF_DIMS(4), 0.1 * i, 0.25));
    ended(s, scope);
    note(s, x);
    note(s, y);
    if (keep)
        note(s, keep);
    wf_scope_end(c, around);
}
TWINS(branches, 400)

/* Ten choices a step: 1,024 traces with common beginnings, each seen twice. */
static void thousand(side *s, int step)
{
    wf_ctx *c = s->c;
    int bits = step % 1024;
    wf_scope around = wf_scope_begin(c, "around", .group = true), scope = wf_scope_begin(c, "choices");
    wf_tensor *x = numbers(s, WF_DIMS(2, 3), bits * 0.001, 0.1);
    for (int i = 0; i < 10; i++)
        x = bits >> i & 1 ? wf_tanh(x) : wf_mul(x, wf_scalar(c, 0.9));
    x = wf_scope_return(c, scope, x);
    ended(s, scope);
    note(s, x);
    wf_scope_end(c, around);
}
TWINS(thousand, 2048)

static void thousand_are_bounded(void **state)
{
    (void)state;
    side *s = side_new("thousand", WF_LAZY, 1);
    wf_stats half = { 0 }, full;
    for (int step = 0; step < 6 * 1024; step++) {
        s->n = 0;
        thousand(s, step);
        if (step == 3 * 1024)
            half = wf_ctx_stats(s->c);
    }
    full = wf_ctx_stats(s->c);
    assert_int_equal(full.steps, 6 * 1024);
    assert_true(full.traces <= 1024);
    assert_true(full.live_bytes <= half.live_bytes + half.live_bytes / 4);
    side_free(s);
}

/* ---- handles that live longer ---- */

static void kept_across(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "first");
    wf_tensor *x = numbers(s, WF_DIMS(4), step, 0.5);
    for (int i = 0; i < 4; i++)
        if (s->kept[i])
            x = wf_add(x, wf_mul(s->kept[i], wf_scalar(c, 0.5)));
    wf_tensor *mine = wf_retain(c, wf_mul(x, x)), *back = wf_scope_return(c, a, x);
    wf_tensor *leaf = wf_scope_return(c, a, numbers(s, WF_DIMS(2), 7, 1));
    wf_tensor *value = wf_scope_return(c, a, wf_value(s->v[0])),
              *number = wf_scope_return(c, a, wf_scalar(c, step + 0.5));
    wf_tensor *twice = wf_scope_return(c, a, back);
    ended(s, a);
    wf_scope b = wf_scope_begin(c, "second");
    wf_tensor *y = wf_scope_return(c, b, wf_add(back, wf_mul(value, number)));
    wf_assign(s->v[0], wf_mul(y, wf_scalar(c, 0.01)));
    ended(s, b);
    note(s, y);
    note(s, back);
    note(s, twice);
    note(s, leaf);
    note(s, value);
    note(s, mine);
    wf_release(c, s->kept[step % 4]);
    s->kept[step % 4] = mine;
    wf_scope_end(c, around);
    if (step == 39)
        for (int i = 0; i < 4; i++) {
            note(s, s->kept[i]);
            wf_release(c, s->kept[i]);
            s->kept[i] = NULL;
        }
}
TWINS(kept_across, 40)

/* Retained and released within one step; a kept snapshot of a variable that is written in place later. */
static void snapshots(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "step");
    wf_tensor *w = wf_value(s->v[0]), *old = wf_retain(c, w), *gone = wf_retain(c, wf_neg(w));
    wf_release(c, gone);
    wf_assign(s->v[0], wf_add(w, wf_scalar(c, 1)));
    ended(s, a);
    note(s, old);
    if (s->kept[0]) {
        note(s, s->kept[0]); /* three steps old */
        wf_release(c, s->kept[0]);
    }
    for (int i = 0; i < 2; i++)
        s->kept[i] = s->kept[i + 1];
    s->kept[2] = old;
    wf_scope_end(c, around);
    if (step == 19)
        for (int i = 0; i < 3; i++)
            wf_release(c, s->kept[i]);
}
TWINS(snapshots, 20)

/* ---- reads in mid-step ---- */

static void reads(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "newton");
    wf_tensor *x = numbers(s, WF_DIMS(4), 1 + step % 3, 1), *y = x;
    for (int i = 0; i < 20; i++) { /* square roots by Newton's method, until they stand */
        wf_tensor *z = wf_mul(wf_add(y, wf_div(x, y)), wf_scalar(c, 0.5));
        double change = wf_item(c, wf_max(wf_abs(wf_sub(z, y)), WF_NO_DIMS));
        note_number(s, change);
        y = z;
        if (change < 1e-4)
            break;
    }
    wf_assign(s->v[1], wf_add(wf_value(s->v[1]), y));
    note_number(s, wf_item(c, wf_sum(wf_value(s->v[1]), WF_NO_DIMS))); /* reads a pending assignment */
    wf_assign(s->v[1], wf_mul(wf_value(s->v[1]), wf_scalar(c, 0.5)));
    assert_int_equal(wf_eval(c, y), WF_OK);
    y = wf_scope_return(c, a, wf_neg(y));
    ended(s, a);
    note(s, y);
    wf_scope_end(c, around);
}
TWINS(reads, 12)

/* The same reads in every step: the trace is known and still right. */
static void steady_reads(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "step");
    wf_tensor *x = wf_value(s->v[0]), *y = wf_mul(x, numbers(s, WF_DIMS(4), step, 0.25));
    note_number(s, wf_item(c, wf_sum(y, WF_NO_DIMS)));
    wf_assign(s->v[0], wf_tanh(wf_add(y, x)));
    note(s, wf_value(s->v[0]));
    wf_assign(s->v[0], wf_mul(wf_value(s->v[0]), wf_scalar(c, 0.5)));
    y = wf_scope_return(c, a, wf_add(y, x));
    ended(s, a);
    note(s, y);
    wf_scope_end(c, around);
}
TWINS(steady_reads, 8)

/* ---- scopes left early ---- */

static wf_tensor *left_open(side *s, int step)
{
    wf_scope_begin(s->c, "inner");
    wf_tensor *x = wf_exp(wf_mul(wf_value(s->v[0]), wf_scalar(s->c, 0.1)));
    if (step % 3 == 1)
        return x; /* an early return: nobody ends "inner" */
    wf_scope_begin(s->c, "innermost");
    return wf_neg(x);
}
static void scopes(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true);
    for (int i = 0; i < 3; i++) {
        wf_scope a = wf_scope_begin(c, "step");
        WF_SCOPE_AUTO(c, "auto");
        wf_tensor *x = left_open(s, step + i);
        wf_assign(s->v[0], wf_mul(x, wf_scalar(c, 0.5)));
        if (i == 2 && step % 2)
            break; /* "step" is left open: the group repairs it */
        wf_tensor *back = wf_scope_return(c, a, x);
        ended(s, a);
        note(s, back);
        wf_scope_end(c, a); /* ended before: nothing happens */
    }
    ended(s, around);
}
TWINS(scopes, 12)

/* A value that outlives its step and the groups around it. */
static void returned_far(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope home = wf_scope_begin(c, "home", .group = true), outer = wf_scope_begin(c, "outer", .group = true);
    wf_scope middle = wf_scope_begin(c, "middle", .group = true), in = wf_scope_begin(c, "step");
    wf_tensor *x = wf_add(wf_value(s->v[0]), wf_scalar(c, step % 3)), *y = wf_neg(x), *z = wf_square(x);
    wf_tensor *far = wf_scope_return(c, outer, x), *near = wf_scope_return(c, in, y);
    wf_tensor *both = wf_scope_return(c, middle, wf_scope_return(c, in, z));
    ended(s, in);
    note(s, near);
    ended(s, middle);
    note(s, both);
    ended(s, outer);
    note(s, far);
    note(s, wf_mul(far, far));
    wf_scope_end(c, home);
}
TWINS(returned_far, 12)

static void too_deep(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = (wf_mode)mode, .threads = 1 });
        wf_scope outer = wf_scope_begin(c, "outer", .group = true);
        for (int i = 0; i < 100; i++)
            wf_scope_begin(c, "again");
        assert_int_equal(wf_error_status(c), WF_ERR_STATE);
        assert_non_null(strstr(wf_error(c), "scope again is open 64 times"));
        wf_error_clear(c);
        assert_int_equal(wf_scope_end(c, outer), WF_OK);
        assert_int_equal(wf_ctx_close(c), WF_OK);
    }
}

/* ---- errors in mid-step ---- */

static void errors(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "step");
    wf_tensor *x = wf_value(s->v[0]);
    wf_assign(s->v[0], wf_add(x, wf_scalar(c, 1)));
    wf_assign(s->v[1], wf_mul(wf_value(s->v[1]), wf_scalar(c, 0.5)));
    bool wrong = step % 4 == 3 || step == 1;
    wf_tensor *y = wf_add(x, wrong ? numbers(s, WF_DIMS(3), 0, 1) : numbers(s, WF_DIMS(4), 0, 1));
    assert_true(wrong == !y);
    wf_status assigned = wf_assign(s->v[2], y);
    assert_true(wrong == (assigned != WF_OK));
    wf_assign(s->v[3], wf_neg(wf_value(s->v[3])));
    note_number(s, wf_scope_end(c, a));
    note_number(s, wf_error_status(c));
    assert_true(wrong == (wf_error(c) != NULL));
    wf_error_clear(c);
    wf_scope_end(c, around);
}
TWINS(errors, 16)

/* An error inside a composite drops all of it; what was before stands. */
static void composite_errors(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "step");
    wf_tensor *x = wf_value(s->v[0]), *g = NULL, *loss = wf_sum(wf_mul(x, x), WF_NO_DIMS);
    wf_assign(s->v[1], wf_add(x, wf_scalar(c, step)));
    if (step % 3 == 2)
        loss = x; /* not one element */
    wf_status st = wf_grad(loss, 1, &x, &g);
    note_number(s, st);
    assert_true((step % 3 == 2) == (st != WF_OK));
    wf_assign(s->v[0], wf_sub(x, g ? wf_mul(g, wf_scalar(c, 0.1)) : NULL));
    wf_scope_end(c, a);
    wf_error_clear(c);
    wf_scope_end(c, around);
}
TWINS(composite_errors, 12)

/* ---- composites ---- */

static void gradients(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "step");
    wf_tensor *w[2] = { wf_value(s->v[0]), wf_value(s->v[1]) }, *g[2], *h[2];
    wf_tensor *x = numbers(s, WF_DIMS(4), 0.1 * step, 0.3);
    wf_tensor *y = wf_tanh(wf_add(wf_mul(w[0], x), w[1]));
    if (step % 5 == 4) /* another branch now and then */
        y = wf_exp(y);
    assert_int_equal(wf_grad(wf_sum(wf_mul(y, y), WF_NO_DIMS), 2, w, g), WF_OK);
    assert_int_equal(wf_grad(wf_sum(wf_mul(g[0], g[1]), WF_NO_DIMS), 2, w, h), WF_OK);
    for (int i = 0; i < 2; i++)
        wf_assign(s->v[i], wf_sub(w[i], wf_mul(g[i], wf_scalar(c, 0.01 * (step + 1)))));
    wf_tensor *r0 = wf_scope_return(c, a, h[0]), *r1 = wf_scope_return(c, a, g[1]);
    ended(s, a);
    note(s, r0);
    note(s, r1);
    wf_scope_end(c, around);
}
TWINS(gradients, 15)

static wf_loss net(side *s, int64_t batch, int step)
{
    float x[16 * 8];
    int64_t label[16];
    rng r = { (uint64_t)step * 31 + 5 };
    assert_true(batch <= 16);
    for (int i = 0; i < 16 * 8; i++)
        x[i] = (float)(rng_unit(&r) - 0.5);
    for (int i = 0; i < 16; i++)
        label[i] = rng_below(&r, 3);
    wf_tensor *h = wf_relu(wf_nn_linear(s->m, "a", wf_tensor_from(s->c, WF_F32, WF_DIMS(batch, 8), x), 12));
    wf_tensor *y = wf_nn_linear(s->m, "b", h, 3);
    return wf_cross_entropy(y, wf_tensor_from(s->c, WF_I64, WF_DIMS(batch), label));
}
static void one_update(side *s, int64_t batch, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "train");
    wf_loss loss = net(s, batch, step);
    if (wf_optim_step(s->opt, loss) != WF_OK)
        fail_msg("%s, step %d: %s", s->name, step, wf_error(c));
    wf_tensor *mean = wf_scope_return(c, a, wf_loss_mean(loss));
    ended(s, a);
    note(s, mean);
    for (int32_t i = 0; i < wf_model_param_count(s->m); i++)
        note(s, wf_value(wf_model_param(s->m, i)));
    wf_scope_end(c, around);
}
static void training(side *s, int step)
{
    if (!s->m) {
        s->m = wf_model_new(s->c);
        s->opt = wf_adamw(s->m, .lr = 0.01);
    }
    if (step % 7 == 6)
        wf_optim_set_lr(s->opt, 0.001 * step);   /* a host number: no new trace */
    one_update(s, step % 6 == 5 ? 5 : 16, step); /* a short last batch */
}
TWINS(training, 30)
static void momentum(side *s, int step)
{
    if (!s->m) {
        s->m = wf_model_new(s->c);
        s->opt = wf_sgd(s->m, .lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01);
    }
    one_update(s, 16, step);
}
TWINS(momentum, 8)

/* Gradients added up over steps, then one update. */
static void accumulated(side *s, int step)
{
    if (!s->m) {
        s->m = wf_model_new(s->c);
        s->opt = wf_sgd(s->m, .lr = 0.1);
    }
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true);
    for (int i = 0; i < 3; i++) {
        wf_scope a = wf_scope_begin(c, "micro");
        assert_int_equal(wf_optim_accumulate(s->opt, net(s, 2 + i, step * 3 + i)), WF_OK);
        ended(s, a);
    }
    wf_scope b = wf_scope_begin(c, "update");
    assert_int_equal(wf_optim_step_accumulated(s->opt), WF_OK);
    ended(s, b);
    for (int32_t i = 0; i < wf_model_param_count(s->m); i++)
        note(s, wf_value(wf_model_param(s->m, i)));
    wf_scope_end(c, around);
}
TWINS(accumulated, 6)

/* ---- assignments ---- */

static void assignments(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true), a = wf_scope_begin(c, "step");
    wf_tensor *x = wf_value(s->v[0]), *y = wf_value(s->v[1]);
    switch (step / 3 % 6) {
    case 0: /* swapped */
        wf_assign(s->v[0], y);
        wf_assign(s->v[1], x);
        break;
    case 1: /* one value in two variables */
        wf_assign(s->v[0], wf_add(x, y));
        wf_assign(s->v[2], wf_value(s->v[0]));
        wf_assign(s->v[3], wf_value(s->v[0]));
        break;
    case 2: /* those are now written one by one */
        wf_assign(s->v[2], wf_mul(wf_value(s->v[2]), wf_scalar(c, 0.5)));
        wf_assign(s->v[0], wf_sub(x, wf_scalar(c, 0.125)));
        break;
    case 3: /* a view, a number, a chain */
        wf_assign(s->v[1], wf_flip(y, WF_DIMS(0)));
        wf_assign(s->v[2], wf_broadcast_to(wf_sum(x, WF_NO_DIMS), WF_DIMS(4)));
        wf_assign(s->v[3], wf_value(s->v[2]));
        wf_assign(s->v[2], wf_value(s->v[1]));
        break;
    case 4: /* twice in one step; the first value is used in between */
        wf_assign(s->v[0], wf_add(x, wf_scalar(c, 1)));
        wf_assign(s->v[1], wf_mul(wf_value(s->v[0]), wf_scalar(c, 0.25)));
        wf_assign(s->v[0], wf_neg(wf_value(s->v[0])));
        note(s, x);
        break;
    default: /* turned round */
        wf_assign(s->v[0], y);
        wf_assign(s->v[1], wf_value(s->v[2]));
        wf_assign(s->v[2], wf_value(s->v[3]));
        wf_assign(s->v[3], x);
        break;
    }
    x = wf_scope_return(c, a, x);
    ended(s, a);
    note(s, x);
    wf_scope_end(c, around);
}
TWINS(assignments, 36)

/* Outside of steps everything runs at once, and steps see it. */
static void outside(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true);
    wf_tensor *x = wf_add(wf_value(s->v[0]), wf_scalar(c, step));
    wf_assign(s->v[0], wf_tanh(x));
    wf_scope a = wf_scope_begin(c, "step");
    wf_assign(s->v[1], wf_add(wf_value(s->v[0]), x));
    ended(s, a);
    note(s, x);
    wf_scope_end(c, around);
}
TWINS(outside, 6)

static bool body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    wf_var *v = user;
    out[0] = wf_tanh(wf_add(in[0], wf_value(v)));
    (void)c;
    return wf_assign(v, wf_mul(out[0], wf_value(v))) == WF_OK;
}
/* A captured function inside steps, differentiated, and outside. */
static void captured(side *s, int step)
{
    wf_ctx *c = s->c;
    wf_scope around = wf_scope_begin(c, "around", .group = true);
    wf_tensor *like = numbers(s, WF_DIMS(4), 0, 1), *y = NULL, *g = NULL;
    if (!s->f)
        assert_non_null(s->f = wf_capture(c, body, s->v[0], 1, &like, 1));
    assert_int_equal(wf_fn_call(s->f, &like, &y), WF_OK);
    note(s, y);
    wf_scope a = wf_scope_begin(c, "step");
    wf_tensor *x = numbers(s, WF_DIMS(4), step, 0.5);
    assert_int_equal(wf_fn_call(s->f, &x, &y), WF_OK);
    assert_int_equal(wf_grad(wf_sum(wf_mul(y, y), WF_NO_DIMS), 1, &x, &g), WF_OK);
    g = wf_scope_return(c, a, g);
    ended(s, a);
    note(s, g);
    wf_scope_end(c, around);
}
TWINS(captured, 8)

/* ---- nothing grows ---- */

static void nothing_grows(void **state)
{
    (void)state;
    side *s = side_new("steady", WF_LAZY, 2);
    s->m = wf_model_new(s->c);
    s->opt = wf_adamw(s->m, .lr = 0.01);
    wf_stats was = { 0 }, now;
    uint64_t commands = 0;
    for (int step = 0; step < 20; step++) {
        wf_scope a = wf_scope_begin(s->c, "train");
        wf_loss loss = net(s, 16, step);
        assert_int_equal(wf_optim_step(s->opt, loss), WF_OK);
        ended(s, a);
        now = wf_ctx_stats(s->c);
        if (step == 4)
            commands = now.commands - was.commands;
        if (step > 4) {
            assert_int_equal(now.allocations, was.allocations);
            assert_int_equal(now.live_bytes, was.live_bytes);
            assert_int_equal(now.plans, was.plans);
            assert_int_equal(now.traces, was.traces);
            assert_int_equal(now.side_exits, was.side_exits);
            assert_int_equal(now.replayed, was.replayed + 1);
            assert_int_equal(now.commands, was.commands + commands);
        }
        was = now;
    }
    assert_true(commands > 0 && was.arena_bytes >= was.arena_bound && was.arena_bound > 0);
    assert_non_null(wf_explain_plan(s->c));
    side_free(s);
}

/* Two shapes that take turns: both plans are kept. */
static void short_batches(void **state)
{
    (void)state;
    side *s = side_new("short batches", WF_LAZY, 1);
    s->m = wf_model_new(s->c);
    s->opt = wf_adamw(s->m, .lr = 0.01);
    wf_stats was = { 0 }, now;
    for (int step = 0; step < 40; step++) {
        wf_scope a = wf_scope_begin(s->c, "train");
        assert_int_equal(wf_optim_step(s->opt, net(s, step % 4 == 3 ? 5 : 16, step)), WF_OK);
        ended(s, a);
        now = wf_ctx_stats(s->c);
        if (step > 16) {
            assert_int_equal(now.plans, was.plans);
            assert_int_equal(now.allocations, was.allocations);
        }
        was = now;
    }
    side_free(s);
}

/* A step of 10,000 calls. */
static void long_step(void **state)
{
    (void)state;
    double last[2] = { 0, 0 };
    for (int mode = 0; mode < 2; mode++) {
        side *s = side_new("10,000 calls", mode ? WF_LAZY : WF_EAGER, 1);
        for (int step = 0; step < 3; step++) {
            wf_scope around = wf_scope_begin(s->c, "around", .group = true), a = wf_scope_begin(s->c, "long");
            wf_tensor *x = wf_value(s->v[0]), *g = NULL, *y = x;
            for (int i = 0; i < 5000; i++)
                y = wf_mul(wf_add(y, x), wf_scalar(s->c, 0.5));
            assert_int_equal(wf_grad(wf_sum(y, WF_NO_DIMS), 1, &x, &g), WF_OK);
            g = wf_scope_return(s->c, a, g);
            ended(s, a);
            s->n = 0;
            note(s, g);
            if (mode)
                assert_true(s->note[0] == last[0]);
            last[0] = s->note[0];
            wf_scope_end(s->c, around);
        }
        side_free(s);
    }
}

static void interrupts(void **state)
{
    (void)state;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        side *s = side_new("interrupt", (wf_mode)mode, 1);
        for (int step = 0; step < 3; step++) {
            wf_scope a = wf_scope_begin(s->c, "step");
            wf_assign(s->v[0], wf_add(wf_value(s->v[0]), wf_scalar(s->c, 1)));
            if (step == 1)
                wf_interrupt(s->c);
            wf_status st = wf_scope_end(s->c, a);
            assert_int_equal(st, step == 1 ? WF_ERR_INTERRUPTED : WF_OK);
            if (step == 1) {
                assert_non_null(strstr(wf_error(s->c), "interrupted"));
                assert_null(wf_value(s->v[0]) ? NULL : NULL);
                wf_error_clear(s->c);
            }
        }
        assert_false(wf_interrupted(s->c));
        wf_interrupt(s->c);
        assert_true(wf_interrupted(s->c));
        assert_false(wf_interrupted(s->c));
        side_free(s);
    }
}

int main(void)
{
    setenv("WEFT_CHECK", "1", 1);
#define T(name) cmocka_unit_test(name##_test)
    const struct CMUnitTest tests[] = { T(branches),
                                        T(thousand),
                                        cmocka_unit_test(thousand_are_bounded),
                                        T(kept_across),
                                        T(snapshots),
                                        T(reads),
                                        T(steady_reads),
                                        T(scopes),
                                        T(returned_far),
                                        cmocka_unit_test(too_deep),
                                        T(errors),
                                        T(composite_errors),
                                        T(gradients),
                                        T(training),
                                        T(momentum),
                                        T(accumulated),
                                        T(assignments),
                                        T(outside),
                                        T(captured),
                                        cmocka_unit_test(nothing_grows),
                                        cmocka_unit_test(short_batches),
                                        cmocka_unit_test(long_step),
                                        cmocka_unit_test(interrupts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
