/* Optimisers against plain C, eager and lazy bit for bit; micro-batches, weights of 0, what is not reached; variables
 * that change between forward and backward. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "record/record.h"
#include "contexts.h"

enum { IN = 5, OUT = 3, ROWS = 7 };

static wf_ctx *open_ctx(wf_mode mode)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = mode, .threads = 1, .seed = 7 });
    assert_non_null(c);
    return c;
}

static void read_var(wf_var *v, void *to, size_t bytes)
{
    wf_ctx *c = v->ctx;
    assert_non_null(v);
    wf_scope s = wf_scope_begin(c, "read", .group = true);
    assert_int_equal(wf_read(c, wf_value(v), to, bytes), WF_OK);
    wf_scope_end(c, s);
}

static uint32_t lcg(uint32_t *s)
{
    return *s = *s * 1664525u + 1013904223u;
}
static float uniform(uint32_t *s)
{
    return (float)(lcg(s) >> 8) / 8388608.0f - 1;
}

/* ---- linear regression in plain C: the reference of a training run ---- */

typedef struct state {
    double w[OUT * IN], b[OUT];
} state;

static void data_at(int step, float x[ROWS * IN], float y[ROWS * OUT])
{
    uint32_t s = 12345u + (uint32_t)step;
    for (int i = 0; i < ROWS * IN; i++)
        x[i] = uniform(&s);
    for (int i = 0; i < ROWS * OUT; i++)
        y[i] = uniform(&s);
}

/* gradient of sum((xw^T + b - y)^2) */
static void plain_grad(const state *p, const float *x, const float *y, state *g)
{
    memset(g, 0, sizeof *g);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < OUT; o++) {
            double e = p->b[o] - y[r * OUT + o];
            for (int i = 0; i < IN; i++)
                e += p->w[o * IN + i] * x[r * IN + i];
            g->b[o] += 2 * e;
            for (int i = 0; i < IN; i++)
                g->w[o * IN + i] += 2 * e * x[r * IN + i];
        }
}

typedef struct adam {
    double lr, b1, b2, eps, wd;
    int t;
    state m, v;
} adam;

static void adam_part(adam *a, double *w, const double *g, double *m, double *v, int n, bool decay, double weight)
{
    double c1 = 1 - pow(a->b1, a->t), c2 = 1 - pow(a->b2, a->t);
    for (int i = 0; i < n; i++) {
        double gi = g[i] / weight;
        if (decay)
            w[i] -= a->lr * a->wd * w[i];
        m[i] = a->b1 * m[i] + (1 - a->b1) * gi;
        v[i] = a->b2 * v[i] + (1 - a->b2) * gi * gi;
        w[i] -= a->lr / c1 * m[i] / (sqrt(v[i]) / sqrt(c2) + a->eps);
    }
}

static void adam_step(adam *a, state *p, const state *g, double weight)
{
    a->t++;
    adam_part(a, p->w, g->w, a->m.w, a->v.w, OUT * IN, true, weight);
    adam_part(a, p->b, g->b, a->m.b, a->v.b, OUT, false, weight);
}

typedef struct sgd {
    double lr, mom, wd;
    bool nesterov;
    state m;
} sgd;

static void sgd_part(const sgd *a, double *w, const double *g, double *m, int n, double weight)
{
    for (int i = 0; i < n; i++) {
        double d = g[i] / weight + a->wd * w[i];
        m[i] = a->mom * m[i] + d;
        w[i] -= a->lr * (a->nesterov ? d + a->mom * m[i] : m[i]);
    }
}

static void start(wf_model *m, state *p)
{
    float w[OUT * IN], b[OUT];
    read_var(wf_model_find(m, "fc.weight"), w, sizeof w);
    read_var(wf_model_find(m, "fc.bias"), b, sizeof b);
    for (int i = 0; i < OUT * IN; i++)
        p->w[i] = w[i];
    for (int i = 0; i < OUT; i++)
        p->b[i] = b[i];
}

static void near(wf_model *m, const state *p, double most, int step)
{
    state q;
    double far = 0;
    start(m, &q);
    for (int i = 0; i < OUT * IN; i++)
        far = fmax(far, fabs(q.w[i] - p->w[i]));
    for (int i = 0; i < OUT; i++)
        far = fmax(far, fabs(q.b[i] - p->b[i]));
    if (!(far <= most))
        fail_msg("step %d, mode %d: off by %g", step, (int)wf_ctx_mode(wf_model_ctx(m)), far);
}

static wf_tensor *net(void *user, wf_model *m, wf_tensor *const *in)
{
    (void)user;
    return wf_nn_linear(m, "fc", in[0], OUT);
}

static wf_model *model(wf_ctx *c)
{
    wf_model *m = wf_model_new(c);
    wf_dtype t = WF_F32;
    wf_dims d = WF_DIMS(ROWS, IN);
    assert_int_equal(wf_model_init(m, net, NULL, 1, &t, &d), WF_OK);
    assert_int_equal(wf_model_param_count(m), 2);
    return m;
}

static wf_loss loss_at(wf_ctx *c, wf_model *m, int step)
{
    float x[ROWS * IN], y[ROWS * OUT];
    data_at(step, x, y);
    wf_tensor *in = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, IN), x);
    return wf_mse(net(NULL, m, &in), wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, OUT), y));
}

static void train(wf_ctx *c, wf_model *m, wf_optim *opt, int step)
{
    wf_scope s = wf_scope_begin(c, "step");
    assert_int_equal(wf_optim_step(opt, loss_at(c, m, step)), WF_OK);
    assert_int_equal(wf_scope_end(c, s), WF_OK);
}

static void bits(wf_model *m, float out[OUT * IN + OUT])
{
    read_var(wf_model_find(m, "fc.weight"), out, sizeof(float) * OUT * IN);
    read_var(wf_model_find(m, "fc.bias"), out + OUT * IN, sizeof(float) * OUT);
}

static void adamw_follows(void **unused)
{
    (void)unused;
    float got[2][OUT * IN + OUT];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        wf_model *m = model(c);
        wf_optim *opt = wf_adamw(m, .lr = 0.05, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1);
        adam a = { .lr = 0.05, .b1 = 0.8, .b2 = 0.95, .eps = 1e-8, .wd = 0.1 };
        state p, g;
        start(m, &p);
        for (int step = 0; step < 12; step++) {
            float x[ROWS * IN], y[ROWS * OUT];
            if (step == 6) {
                wf_optim_set_lr(opt, 0.01);
                a.lr = 0.01;
            }
            data_at(step, x, y);
            plain_grad(&p, x, y, &g);
            adam_step(&a, &p, &g, ROWS * OUT);
            train(c, m, opt, step);
            near(m, &p, 2e-5, step);
        }
        assert_string_equal(wf_optim_unreached(opt), "");
        bits(m, got[mode - WF_LAZY]);
        wf_stats st = wf_ctx_stats(c);
        if (mode == WF_LAZY)
            assert_true(st.replayed >= 10); /* the step number is in no record */
        close_ctx(c);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

static void sgd_follows(void **unused)
{
    (void)unused;
    for (int kind = 0; kind < 3; kind++) {
        float got[2][OUT * IN + OUT];
        for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
            sgd a = { .lr = 0.1, .mom = kind ? 0.9 : 0, .wd = kind == 2 ? 0.05 : 0, .nesterov = kind == 2 };
            wf_ctx *c = open_ctx((wf_mode)mode);
            wf_model *m = model(c);
            wf_optim *opt = wf_sgd(m, .lr = a.lr, .momentum = a.mom, .weight_decay = a.wd, .nesterov = a.nesterov);
            state p, g;
            start(m, &p);
            for (int step = 0; step < 6; step++) {
                float x[ROWS * IN], y[ROWS * OUT];
                data_at(step, x, y);
                plain_grad(&p, x, y, &g);
                sgd_part(&a, p.w, g.w, a.m.w, OUT * IN, ROWS * OUT);
                sgd_part(&a, p.b, g.b, a.m.b, OUT, ROWS * OUT);
                train(c, m, opt, step);
                near(m, &p, 1e-5, step);
            }
            bits(m, got[mode - WF_LAZY]);
            close_ctx(c);
        }
        assert_memory_equal(got[0], got[1], sizeof got[0]);
    }
}

/* A weight of 0 changes nothing, the bias corrections included: the run goes on as if the step had not been. */
static void weight_zero(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++)
        for (int kind = 0; kind < 3; kind++) {
            float got[2][OUT * IN + OUT];
            for (int empty = 0; empty < 2; empty++) {
                wf_ctx *c = open_ctx((wf_mode)mode);
                wf_model *m = model(c);
                wf_optim *opt =
                    kind == 0 ? wf_adamw(m, .lr = 0.05) : wf_sgd(m, .lr = 0.05, .momentum = kind == 1 ? 0.9 : 0);
                for (int step = 0; step < 8; step++) {
                    wf_scope s = wf_scope_begin(c, "step");
                    wf_loss l = loss_at(c, m, step);
                    float w = step % 3 == 1 ? 0 : 21;
                    l.weight = wf_tensor_from(c, WF_F32, WF_NO_DIMS, &w);
                    if (w > 0 || empty)
                        wf_optim_step(opt, l);
                    assert_int_equal(wf_scope_end(c, s), WF_OK);
                }
                bits(m, got[empty]);
                close_ctx(c);
            }
            assert_memory_equal(got[0], got[1], sizeof got[0]);
        }
}

/* Micro-batches as steps of their own give the step of the whole batch. */
static void micro_batches(void **unused)
{
    (void)unused;
    float got[2][OUT * IN + OUT];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        wf_model *m = model(c);
        wf_optim *opt = wf_adamw(m, .lr = 0.05);
        adam a = { .lr = 0.05, .b1 = 0.9, .b2 = 0.999, .eps = 1e-8, .wd = 0.01 };
        state p, g, sum;
        start(m, &p);
        for (int step = 0; step < 5; step++) {
            memset(&sum, 0, sizeof sum);
            for (int micro = 0; micro < 3; micro++) {
                float x[ROWS * IN], y[ROWS * OUT];
                data_at(10 * step + micro, x, y);
                plain_grad(&p, x, y, &g);
                for (int i = 0; i < OUT * IN; i++)
                    sum.w[i] += g.w[i];
                for (int i = 0; i < OUT; i++)
                    sum.b[i] += g.b[i];
                wf_scope s = wf_scope_begin(c, "micro");
                assert_int_equal(wf_optim_accumulate(opt, loss_at(c, m, 10 * step + micro)), WF_OK);
                if (micro == 2)
                    assert_int_equal(wf_optim_step_accumulated(opt), WF_OK);
                assert_int_equal(wf_scope_end(c, s), WF_OK);
            }
            adam_step(&a, &p, &sum, 3 * ROWS * OUT);
            near(m, &p, 2e-5, step);
        }
        wf_scope s = wf_scope_begin(c, "nothing");
        assert_int_equal(wf_optim_step_accumulated(opt), WF_ERR_STATE);
        assert_non_null(strstr(wf_error(c), "wf_optim_accumulate"));
        wf_scope_end(c, s);
        wf_error_clear(c);
        bits(m, got[mode - WF_LAZY]);
        close_ctx(c);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
}

/* C44: one token with loss 4, three tokens with loss 0: the mean is 1, not the mean of the means. */
static void weighted_mean(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        float one = 1;
        wf_model *m = wf_model_new(c);
        wf_optim *opt = wf_sgd(m, .lr = 1);
        for (int micro = 0; micro < 2; micro++) {
            float slope[3] = { micro ? 0.0f : 4.0f, 0, 0 };
            int64_t n = micro ? 3 : 1;
            wf_scope s = wf_scope_begin(c, "micro");
            wf_tensor *w = wf_nn_param(m, "w", WF_NO_DIMS, .init = WF_INIT_ONES);
            wf_tensor *each = wf_mul(w, wf_tensor_from(c, WF_F32, WF_DIMS(n), slope));
            wf_loss l = { wf_sum(each, WF_NO_DIMS), wf_scalar(c, (double)n) };
            double mean = wf_item(c, wf_loss_mean(l));
            assert_true(mean == (micro ? 0 : 4));
            assert_int_equal(wf_optim_accumulate(opt, l), WF_OK);
            wf_scope_end(c, s);
        }
        wf_scope s = wf_scope_begin(c, "step");
        wf_optim_step_accumulated(opt);
        wf_scope_end(c, s);
        ok(c);
        read_var(wf_model_find(m, "w"), &one, sizeof one);
        assert_true(one == 1 - 4.0f / 4); /* gradient 4 over weight 4 */
        close_ctx(c);
    }
}

static void not_reached(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        wf_model *m = wf_model_new(c);
        wf_optim *all = wf_adamw(m, .lr = 0.1), *head = wf_sgd(m, .lr = 0.1, .only = "head.*");
        float before[2], after[2];
        for (int round = 0; round < 4; round++) {
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *a = wf_nn_param(m, "body.a", WF_DIMS(2)), *b = wf_nn_param(m, "head.b", WF_DIMS(2));
            wf_nn_param(m, "idle", WF_DIMS(3));
            wf_nn_param(m, "still", WF_DIMS(3), .frozen = true);
            wf_loss l = { wf_sum(wf_mul(a, b), WF_NO_DIMS), wf_scalar(c, 2) };
            if (round == 0)
                assert_int_equal(wf_optim_step(all, l), WF_OK);
            else
                assert_int_equal(wf_optim_step(head, l), WF_OK);
            wf_scope_end(c, s);
            ok(c);
            assert_string_equal(wf_optim_unreached(round ? head : all), round ? "" : "idle");
            read_var(wf_model_find(m, "body.a"), after, sizeof after);
            if (round > 0)
                assert_memory_equal(before, after, sizeof after);
            memcpy(before, after, sizeof after);
        }
        /* nothing at all is an error that names the call, and changes nothing */
        wf_scope s = wf_scope_begin(c, "step");
        float x = 1;
        wf_tensor *t = wf_tensor_from(c, WF_F32, WF_NO_DIMS, &x);
        wf_loss l = { wf_mul(t, t), wf_scalar(c, 1) };
        assert_int_equal(wf_optim_step(all, l), WF_ERR_ARG);
        assert_non_null(strstr(wf_error(c), "wf_optim_step: the loss depends on none"));
        wf_scope_end(c, s);
        wf_error_clear(c);
        read_var(wf_model_find(m, "body.a"), after, sizeof after);
        assert_memory_equal(before, after, sizeof after);
        /* outside a step there is no history */
        wf_loss free_loss = { wf_sum(wf_nn_param(m, "idle", WF_DIMS(3)), WF_NO_DIMS), wf_scalar(c, 1) };
        assert_int_equal(wf_optim_step(all, free_loss), WF_ERR_STATE);
        assert_non_null(strstr(wf_error(c), "no step is open"));
        wf_error_clear(c);
        close_ctx(c);
    }
}

/* Gradients by themselves, changed, and applied: the same as a step when they are not changed. */
static void parts(void **unused)
{
    (void)unused;
    float got[2][2][OUT * IN + OUT];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++)
        for (int apart = 0; apart < 2; apart++) {
            wf_ctx *c = open_ctx((wf_mode)mode);
            wf_model *m = model(c);
            wf_optim *opt = wf_adamw(m, .lr = 0.05);
            for (int step = 0; step < 5; step++) {
                wf_scope s = wf_scope_begin(c, "step");
                wf_loss l = loss_at(c, m, step);
                wf_tensor *g[2];
                if (apart) {
                    assert_int_equal(wf_grads_of(l, m, g), WF_OK);
                    assert_non_null(g[0]);
                    assert_non_null(g[1]);
                    assert_int_equal(wf_tensor_dims(g[1]).d[0], OUT); /* sorted: bias, weight */
                    assert_int_equal(wf_tensor_dims(g[1]).n, 2);
                    wf_optim_apply(opt, g, l.weight);
                } else
                    wf_optim_step(opt, l);
                assert_int_equal(wf_scope_end(c, s), WF_OK);
            }
            bits(m, got[mode - WF_LAZY][apart]);
            close_ctx(c);
        }
    assert_memory_equal(got[0][0], got[0][1], sizeof got[0][0]);
    assert_memory_equal(got[0][0], got[1][0], sizeof got[0][0]);
    assert_memory_equal(got[0][0], got[1][1], sizeof got[0][0]);
}

/* Different steps in turn: each has its trace, and what they reach is told of the last one. */
static void turns(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY);
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 0.1);
    for (int i = 0; i < 12; i++) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *a = wf_nn_param(m, "a", WF_DIMS(2)), *b = wf_nn_param(m, "b", WF_DIMS(2));
        wf_tensor *x = i % 3 == 0 ? a : i % 3 == 1 ? b : wf_mul(a, b);
        wf_loss l = { wf_sum(wf_mul(x, x), WF_NO_DIMS), wf_scalar(c, 2) };
        wf_optim_step(opt, l);
        assert_int_equal(wf_scope_end(c, s), WF_OK);
        assert_string_equal(wf_optim_unreached(opt), i % 3 == 0 ? "b" : i % 3 == 1 ? "a" : "");
    }
    close_ctx(c);
}

/* C27: the gradient sees the x that y saw. */
static void assigned_between(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        float three = 3, five = 5, got;
        wf_var *x = wf_var_new(c, "x", WF_F32, WF_NO_DIMS, &three), *w = wf_var_new(c, "w", WF_F32, WF_NO_DIMS, &five);
        for (int round = 0; round < 4; round++) {
            wf_scope s = wf_scope_begin(c, "step");
            wf_tensor *wv = wf_value(w), *xv = wf_value(x), *y = wf_mul(xv, wv), *g;
            wf_assign(x, wf_add(xv, wf_scalar(c, 1)));
            assert_int_equal(wf_grad(y, 1, &wv, &g), WF_OK);
            g = wf_scope_return(c, s, g);
            y = wf_scope_return(c, s, y);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            assert_true(wf_item(c, g) == 3 + round);
            assert_true(wf_item(c, y) == 5 * (3 + round));
            read_var(x, &got, sizeof got);
            assert_true(got == (float)(4 + round));
        }
        close_ctx(c);
    }
}

/* Two optimisers in one step, and one whose step follows the other's: the second sees what the first did. */
static void two_optimisers(void **unused)
{
    (void)unused;
    float got[2];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        wf_model *m = wf_model_new(c);
        wf_optim *a = wf_sgd(m, .lr = 0.5), *b = wf_sgd(m, .lr = 0.25);
        float w = 1;
        for (int round = 0; round < 4; round++) {
            wf_scope s = wf_scope_begin(c, "step");
            for (int k = 0; k < 2; k++) {
                wf_tensor *v = wf_nn_param(m, "w", WF_NO_DIMS, .init = WF_INIT_ONES);
                wf_loss l = { wf_mul(v, v), wf_scalar(c, 1) };
                wf_optim_step(k ? b : a, l);
            }
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            w -= 0.5f * 2 * w;
            w -= 0.25f * 2 * w;
        }
        read_var(wf_model_find(m, "w"), &got[mode - WF_LAZY], sizeof(float));
        assert_true(got[mode - WF_LAZY] == w);
        close_ctx(c);
    }
}

static void bad_options(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY);
    wf_model *m = wf_model_new(c);
    assert_null(wf_adamw(m, .beta1 = 1.5));
    assert_non_null(strstr(wf_error(c), ".beta1 is 1.5"));
    wf_error_clear(c);
    assert_null(wf_adamw(m, .only = "a.*.b"));
    assert_non_null(strstr(wf_error(c), ".only"));
    wf_error_clear(c);
    assert_null(wf_sgd(m, .nesterov = true));
    wf_error_clear(c);
    assert_true(wf_optim_lr(wf_adamw(m)) == 1e-3);
    assert_true(wf_optim_lr(wf_sgd(m)) == 1e-2);
    assert_null(wf_adamw(NULL));
    close_ctx(c);
}

/* After the second sight of a step nothing is allocated any more. */
static void allocates_nothing(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx((wf_mode)mode);
        wf_model *m = model(c);
        wf_optim *opt = wf_adamw(m, .lr = 0.05), *sum = wf_sgd(m, .momentum = 0.5);
        uint64_t before = 0;
        for (int step = 0; step < 9; step++) {
            if (step == 4)
                before = wf_ctx_stats(c).allocations;
            train(c, m, opt, step);
            wf_scope s = wf_scope_begin(c, "micro");
            wf_optim_accumulate(sum, loss_at(c, m, step));
            wf_optim_step_accumulated(sum);
            wf_scope_end(c, s);
        }
        assert_int_equal(wf_ctx_stats(c).allocations, before);
        close_ctx(c);
    }
}

/* Every allocation of three steps fails once: all parameters are those before or after some step, and the context
 * works again. */
static void memory_out(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        float legal[4][OUT * IN + OUT], got[OUT * IN + OUT];
        bool done = false;
        for (int64_t k = -1; !done && k < 3000; k++) {
            wf_ctx *c = open_ctx((wf_mode)mode);
            wf_model *m = model(c);
            wf_optim *opt = wf_adamw(m, .lr = 0.05);
            if (k < 0)
                bits(m, legal[0]);
            atomic_store(&c->mem->fail_at, k);
            for (int step = 0; step < 3; step++) {
                wf_scope s = wf_scope_begin(c, "step");
                wf_optim_step(opt, loss_at(c, m, 0));
                wf_scope_end(c, s);
                if (k < 0)
                    bits(m, legal[step + 1]);
            }
            done = k >= 0 && wf_error_status(c) == WF_OK && atomic_load(&c->mem->fail_at) >= 0;
            atomic_store(&c->mem->fail_at, -1);
            if (wf_error_status(c) != WF_OK && wf_error_status(c) != WF_ERR_MEMORY)
                fail_msg("mode %d, allocation %lld: %s", mode, (long long)k, wf_error(c));
            wf_error_clear(c);
            bits(m, got);
            bool known = false;
            for (int i = 0; i < 4; i++)
                known |= !memcmp(got, legal[i], sizeof got);
            if (!known)
                fail_msg("mode %d, allocation %lld: neither old nor new", mode, (long long)k);
            wf_scope s = wf_scope_begin(c, "step");
            wf_optim_step(opt, loss_at(c, m, 0));
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            close_ctx(c);
        }
        assert_true(done);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_follows),  cmocka_unit_test(sgd_follows),   cmocka_unit_test(weight_zero),
        cmocka_unit_test(micro_batches),  cmocka_unit_test(weighted_mean), cmocka_unit_test(not_reached),
        cmocka_unit_test(parts),          cmocka_unit_test(turns),         cmocka_unit_test(assigned_between),
        cmocka_unit_test(two_optimisers), cmocka_unit_test(bad_options),   cmocka_unit_test(allocates_nothing),
        cmocka_unit_test(memory_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
