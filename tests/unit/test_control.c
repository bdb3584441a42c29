/* Control flow: call, cond, scan and while give the same bits eager, lazy and captured, with any number of threads, and
 * the values and gradients of the same program written out with C's own loops. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "passes/graph_text.h"
#include "passes/prune.h"
#include "record/record.h"
#include "weft/weft.h"
#include "contexts.h"

enum { OUTS = 12, BYTES = 1 << 14, T = 5, N = 4 };

static wf_ctx *open_ctx(wf_mode mode, int threads)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = mode, .threads = threads, .seed = 3 });
    assert_non_null(c);
    return c;
}

static wf_tensor *numbers(wf_ctx *c, wf_dims d, int salt)
{
    float x[4096];
    int n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= (int)d.d[i];
    assert_true(n <= 4096);
    for (int i = 0; i < n; i++)
        x[i] = (float)((i * 7919 + salt * 131 + 13) % 1009) / 700.0f - 0.7f;
    return wf_tensor_from(c, WF_F32, d, x);
}

static wf_tensor *loss_of(wf_tensor **y, int n)
{
    wf_tensor *sum = NULL;
    for (int i = 0; i < n; i++) {
        wf_tensor *s = wf_sum(wf_mul(y[i], wf_sin(y[i])), WF_NO_DIMS);
        sum = sum ? wf_add(sum, s) : s;
    }
    return sum;
}

/* ---- what is computed: results, and gradients if asked for ---- */

typedef struct unrolled { /* the program with C's own loops */
    bool yes;
} unrolled;

typedef int scenario(wf_ctx *c, bool plain, bool grad, wf_tensor **out);

/* gradients of the results y[ny] by x[nx], behind them */
static int with_grads(wf_tensor **y, int ny, wf_tensor **x, int nx, bool grad)
{
    if (grad && y[0] && wf_grad(loss_of(y, ny), nx, x, y + ny) != WF_OK)
        return 0;
    return ny + (grad ? nx : 0);
}

/* h = tanh(h W + x): carry [2,N], x [2,N] */
static bool rnn(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_tanh(wf_add(wf_matmul(in[0], user), in[1]));
    out[1] = wf_mul(out[0], in[1]);
    return true;
}

static wf_tensor *row(wf_tensor *x, int64_t t)
{
    wf_dims d = wf_tensor_dims(x);
    wf_dims r = { d.n - 1, { 0 } };
    for (int32_t i = 1; i < d.n; i++)
        r.d[i - 1] = d.d[i];
    return wf_reshape(wf_slice(x, 0, t, 1), r);
}

static int a_scan(wf_ctx *c, bool plain, bool grad, bool reverse, wf_tensor **out)
{
    wf_tensor *w = numbers(c, WF_DIMS(N, N), 1), *xs = numbers(c, WF_DIMS(T, 2, N), 2),
              *h = numbers(c, WF_DIMS(2, N), 3);
    wf_tensor *wrt[3] = { w, xs, h }, *ys[T];
    if (!plain) {
        out[0] = h;
        wf_scan(c, rnn, w, .carry = out, .ncarry = 1, .xs = &xs, .nxs = 1, .ys = &out[1], .nys = 1, .reverse = reverse);
        return with_grads(out, 2, wrt, 3, grad);
    }
    for (int i = 0; i < T; i++) {
        int t = reverse ? T - 1 - i : i;
        wf_tensor *in[2] = { h, row(xs, t) }, *o[2];
        rnn(w, c, in, o);
        h = o[0];
        ys[t] = o[1];
    }
    out[0] = h;
    out[1] = wf_stack(T, ys, 0);
    return with_grads(out, 2, wrt, 3, grad);
}

static int scans(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_scan(c, plain, grad, false, out);
}

static int scans_back(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_scan(c, plain, grad, true, out);
}

typedef struct layer {
    wf_tensor *w, *b;
} layer;

static bool dense(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    const layer *l = user;
    (void)c;
    out[0] = wf_add(in[0], wf_gelu(wf_add(wf_matmul(wf_layer_norm(in[0]), l->w), l->b)));
    return true;
}

static int calls(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    layer l[3];
    wf_tensor *x = numbers(c, WF_DIMS(3, N), 1), *wrt[7] = { x };
    for (int i = 0; i < 3; i++) {
        wrt[1 + 2 * i] = l[i].w = numbers(c, WF_DIMS(N, N), 10 + i);
        wrt[2 + 2 * i] = l[i].b = numbers(c, WF_DIMS(N), 20 + i);
    }
    for (int i = 0; i < 3 && x; i++) {
        wf_tensor *y = NULL;
        if (plain)
            dense(&l[i], c, &x, &y);
        else
            wf_call(c, dense, &l[i], 1, &x, 1, &y);
        x = y;
    }
    out[0] = x;
    return with_grads(out, 1, wrt, 7, grad);
}

static bool then(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_mul(in[0], ((wf_tensor **)user)[0]);
    out[1] = wf_exp(in[0]);
    return true;
}

static bool otherwise(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_sub(in[0], ((wf_tensor **)user)[1]);
    out[1] = in[0];
    return true;
}

static int a_cond(wf_ctx *c, bool plain, bool grad, bool yes, wf_tensor **out)
{
    wf_tensor *x = numbers(c, WF_DIMS(N), 1), *u[2] = { numbers(c, WF_DIMS(N), 2), numbers(c, WF_DIMS(N), 3) };
    wf_tensor *zero = wf_tensor_from(c, WF_F32, WF_NO_DIMS, &(float){ yes ? -1 : 1 });
    wf_tensor *p = wf_lt(zero, wf_scalar(c, 0)), *wrt[3] = { x, u[0], u[1] };
    if (plain)
        (yes ? then : otherwise)(u, c, &x, out);
    else
        wf_cond(c, p, then, otherwise, u, 1, &x, 2, out);
    return with_grads(out, 2, wrt, 3, grad);
}

static int conds_yes(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_cond(c, plain, grad, true, out);
}

static int conds_no(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_cond(c, plain, grad, false, out);
}

/* i, x -> i + 1, x * w + 1 */
static bool round_body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    out[0] = wf_add(in[0], wf_scalar(c, 1));
    out[1] = wf_add(wf_mul(in[1], user), wf_scalar(c, 1));
    return true;
}

static bool below(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = wf_lt(in[0], wf_scalar(c, 6));
    return true;
}

static int a_while(wf_ctx *c, bool plain, bool grad, int64_t from, int64_t max, wf_tensor **out)
{
    wf_tensor *i = wf_tensor_from(c, WF_I64, WF_NO_DIMS, &from), *w = numbers(c, WF_DIMS(N), 5);
    wf_tensor *x = numbers(c, WF_DIMS(2, N), 6), *wrt[2] = { w, x }, *in[2] = { i, x }, *trips = NULL;
    int64_t n = 0;
    if (plain) {
        for (int64_t k = from; k < 6 && (!max || n < max); k++, n++) {
            wf_tensor *o[2];
            round_body(w, c, in, o);
            in[0] = o[0], in[1] = o[1];
        }
        trips = wf_tensor_from(c, WF_I64, WF_NO_DIMS, &n);
    } else
        wf_while(c, below, round_body, w, .carry = in, .ncarry = 2, .max = max, .trips = &trips);
    out[0] = in[1];
    int m = with_grads(out, 1, wrt, 2, grad && max);
    out[m] = in[0];
    out[m + 1] = trips;
    return m + 2;
}

static int whiles(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_while(c, plain, grad, 2, 9, out);
}

static int whiles_cut_off(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_while(c, plain, grad, 2, 3, out);
}

static int whiles_never(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_while(c, plain, grad, 8, 9, out);
}

static int whiles_free(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    return a_while(c, plain, grad, 1, 0, out);
}

/* ---- bodies in bodies ---- */

typedef struct nest {
    wf_tensor *w, *v;
    bool plain;
} nest;

static bool damp(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_mul(in[0], ((nest *)user)->v);
    return true;
}

static bool grow(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    out[0] = wf_add(wf_matmul(in[0], ((nest *)user)->w), wf_scalar(c, 0.5));
    return true;
}

/* a scan whose body has a cond: it damps what has become large */
static bool choose_step(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    nest *n = user;
    wf_tensor *x = wf_add(in[0], in[1]), *p = wf_lt(wf_scalar(c, 1), wf_mean(wf_square(x), WF_NO_DIMS));
    wf_cond(c, p, damp, grow, n, 1, &x, 1, out);
    out[1] = wf_sum(out[0], WF_DIMS(0));
    return true;
}

static bool choose_step_plain(nest *n, wf_ctx *c, bool large, wf_tensor *const *in, wf_tensor **out)
{
    wf_tensor *x = wf_add(in[0], in[1]);
    (large ? damp : grow)(n, c, &x, out);
    out[1] = wf_sum(out[0], WF_DIMS(0));
    return true;
}

static int cond_in_scan(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    static const bool large[T] = { false, false, true, false, true }; /* what comes out with these numbers */
    nest n = { numbers(c, WF_DIMS(N, N), 4), numbers(c, WF_DIMS(N), 5), plain };
    wf_tensor *h = numbers(c, WF_DIMS(2, N), 3), *xs = wf_mul(numbers(c, WF_DIMS(T, 2, N), 2), wf_scalar(c, 2));
    wf_tensor *wrt[4] = { n.w, n.v, h, xs }, *ys[T];
    out[0] = h;
    if (!plain)
        wf_scan(c, choose_step, &n, .carry = out, .ncarry = 1, .xs = &xs, .nxs = 1, .ys = &out[1], .nys = 1);
    else {
        for (int t = 0; t < T; t++) {
            wf_tensor *in[2] = { out[0], row(xs, t) };
            choose_step_plain(&n, c, large[t], in, out);
            ys[t] = out[1];
        }
        out[1] = wf_stack(T, ys, 0);
    }
    return with_grads(out, 2, wrt, 4, grad);
}

static bool inner_scan(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    nest *n = user;
    out[0] = in[0];
    if (!n->plain)
        return wf_scan(c, rnn, n->w, .carry = out, .ncarry = 1, .xs = &in[1], .nxs = 1, .ys = &out[1], .nys = 1) ==
               WF_OK;
    wf_tensor *ys[T];
    for (int t = 0; t < T; t++) {
        wf_tensor *i[2] = { out[0], row(in[1], t) };
        rnn(n->w, c, i, out);
        ys[t] = out[1];
    }
    out[1] = wf_stack(T, ys, 0);
    return true;
}

static bool no_scan(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = in[0];
    out[1] = wf_neg(in[1]);
    return true;
}

static int scan_in_cond(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    nest n = { numbers(c, WF_DIMS(N, N), 1), NULL, plain };
    wf_tensor *in[2] = { numbers(c, WF_DIMS(2, N), 3), numbers(c, WF_DIMS(T, 2, N), 2) },
              *wrt[3] = { n.w, in[0], in[1] };
    wf_tensor *p = wf_lt(wf_sum(in[0], WF_NO_DIMS), wf_scalar(c, 1000));
    if (plain)
        inner_scan(&n, c, in, out);
    else
        wf_cond(c, p, inner_scan, no_scan, &n, 2, in, 2, out);
    return with_grads(out, 2, wrt, 3, grad);
}

static bool over_words(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    nest *n = user;
    wf_tensor *i[2] = { wf_mul(in[0], n->v), in[1] };
    return inner_scan(n, c, i, out);
}

static int scan_in_scan(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    nest n = { numbers(c, WF_DIMS(N, N), 1), numbers(c, WF_DIMS(N), 7), plain };
    wf_tensor *h = numbers(c, WF_DIMS(2, N), 3), *xs = numbers(c, WF_DIMS(3, T, 2, N), 2);
    wf_tensor *wrt[4] = { n.w, n.v, h, xs }, *ys[3];
    out[0] = h;
    if (!plain)
        wf_scan(c, over_words, &n, .carry = out, .ncarry = 1, .xs = &xs, .nxs = 1, .ys = &out[1], .nys = 1);
    else {
        for (int t = 0; t < 3; t++) {
            wf_tensor *in[2] = { out[0], row(xs, t) };
            over_words(&n, c, in, out);
            ys[t] = out[1];
        }
        out[1] = wf_stack(3, ys, 0);
    }
    return with_grads(out, 2, wrt, 4, grad);
}

/* ---- carries and results of every kind ---- */

/* They change places; results are an input, a view, a number and one twice. */
static bool odd(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = in[1];
    out[1] = wf_add(in[0], in[1]);
    out[2] = in[0];
    out[3] = wf_transpose(wf_mul(out[1], in[2]));
    out[4] = wf_scalar(c, 3);
    out[5] = out[1];
    out[6] = wf_flip(in[0], WF_DIMS(1));
    return true;
}

static int odd_results(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    wf_tensor *a = wf_broadcast_to(numbers(c, WF_DIMS(1, 3), 1), WF_DIMS(2, 3)),
              *b = wf_transpose(numbers(c, WF_DIMS(3, 2), 2));
    wf_tensor *xs = wf_flip(numbers(c, WF_DIMS(4, 2, 3), 3), WF_DIMS(0, 2)), *wrt[3] = { a, b, xs }, *ys[5][4];
    out[0] = a, out[1] = b;
    if (!plain)
        wf_scan(c, odd, NULL, .carry = out, .ncarry = 2, .xs = &xs, .nxs = 1, .ys = out + 2, .nys = 5);
    else {
        for (int t = 0; t < 4; t++) {
            wf_tensor *in[3] = { out[0], out[1], row(xs, t) };
            odd(NULL, c, in, out);
            for (int k = 0; k < 5; k++)
                ys[k][t] = k == 2 ? wf_tensor_from(c, WF_F32, WF_NO_DIMS, &(float){ 3 }) : out[2 + k];
        }
        for (int k = 0; k < 5; k++)
            out[2 + k] = wf_stack(4, ys[k], 0);
    }
    return with_grads(out, 7, wrt, 3, grad);
}

static bool count_up(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = wf_add(in[0], wf_scalar(c, 2));
    out[1] = wf_mul(in[0], in[0]);
    return true;
}

static int counts(wf_ctx *c, bool plain, bool grad, wf_tensor **out)
{
    wf_tensor *ys[T];
    out[0] = wf_tensor_from(c, WF_I64, WF_NO_DIMS, &(int64_t){ 1 });
    (void)grad;
    if (!plain)
        wf_scan(c, count_up, NULL, .carry = out, .ncarry = 1, .ys = out + 1, .nys = 1, .length = T);
    else {
        for (int t = 0; t < T; t++) {
            wf_tensor *in[1] = { out[0] };
            count_up(NULL, c, in, out);
            ys[t] = out[1];
        }
        out[1] = wf_stack(T, ys, 0);
    }
    return 2;
}

/* ---- every mode ---- */

typedef struct result {
    size_t n;
    unsigned char bytes[BYTES];
} result;

static void keep(wf_ctx *c, wf_tensor **t, int n, result *r)
{
    r->n = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes = wf_dtype_bytes(wf_tensor_dtype(t[i]));
        wf_dims d = wf_tensor_dims(t[i]);
        for (int32_t k = 0; k < d.n; k++)
            bytes *= (size_t)d.d[k];
        assert_true(r->n + bytes <= BYTES);
        assert_int_equal(wf_read(c, t[i], r->bytes + r->n, bytes), WF_OK);
        r->n += bytes;
    }
}

typedef struct made {
    scenario *build;
    bool plain, grad;
    int n;
} made;

static bool build_body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    made *m = user;
    wf_tensor *t[OUTS];
    (void)in;
    int n = m->build(c, m->plain, m->grad, t);
    if (!m->n)
        m->n = n;
    memcpy(out, t, (size_t)m->n * sizeof *t);
    return wf_error_status(c) == WF_OK;
}

static int count_of(scenario *build, bool grad)
{
    wf_ctx *c = open_ctx(WF_EAGER, 1);
    wf_tensor *t[OUTS];
    wf_scope s = wf_scope_begin(c, "count");
    int n = build(c, false, grad, t);
    ok(c);
    wf_scope_end(c, s);
    close_ctx(c);
    return n;
}

static void in_steps(wf_mode mode, int threads, scenario *build, bool plain, bool grad, bool history, result *r)
{
    wf_ctx *c = open_ctx(mode, threads);
    for (int k = 0; k < 3; k++) {
        wf_tensor *t[OUTS];
        wf_scope around = wf_scope_begin(c, "around", .group = true);
        wf_scope s = wf_scope_begin(c, "step", .no_grad = !history);
        int n = build(c, plain, grad, t);
        ok(c);
        for (int i = 0; i < n; i++)
            t[i] = wf_scope_return(c, s, t[i]);
        wf_scope_end(c, s);
        ok(c);
        keep(c, t, n, r);
        wf_scope_end(c, around);
    }
    close_ctx(c);
}

static void captured(wf_mode mode, scenario *build, bool grad, result *r)
{
    wf_ctx *c = open_ctx(mode, 2);
    made m = { build, false, grad, count_of(build, grad) };
    wf_fn *f = wf_capture(c, build_body, &m, 0, NULL, m.n);
    ok(c);
    for (int k = 0; k < 3; k++) {
        wf_tensor *t[OUTS];
        wf_scope around = wf_scope_begin(c, "around", .group = true);
        (void)wf_fn_call(f, NULL, t);
        ok(c);
        keep(c, t, m.n, r);
        wf_scope_end(c, around);
    }
    close_ctx(c);
}

static void same(const result *a, const result *b, const char *what)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        if (a->bytes[i] != b->bytes[i])
            fail_msg("%s: byte %zu differs: float %zu is %.9g, was %.9g", what, i, i / 4,
                     (double)((const float *)(const void *)a->bytes)[i / 4],
                     (double)((const float *)(const void *)b->bytes)[i / 4]);
}

/* As numbers: of two zeros the sign may differ. */
static void near(const result *a, const result *b, double by)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n / 4; i++) {
        float x = ((const float *)(const void *)a->bytes)[i], y = ((const float *)(const void *)b->bytes)[i];
        if (!(x == y || fabs((double)x - (double)y) <= by * (1 + fabs((double)y))))
            fail_msg("float %zu is %.9g, written out it is %.9g", i, (double)x, (double)y);
    }
}

/* Values of bodies are those of the same program written out to the bit; so are gradients where one operator's
 * contribution after the other is added up in that order. */
static void every_mode(scenario *build, double by)
{
    static result eager, now, plain;
    for (int grad = 0; grad < 2; grad++) {
        in_steps(WF_EAGER, 1, build, false, grad, true, &eager);
        in_steps(WF_EAGER, 1, build, true, grad, true, &plain);
        near(&eager, &plain, grad ? by : 0);
        for (int threads = 1; threads <= 3; threads++) {
            in_steps(WF_LAZY, threads, build, false, grad, true, &now);
            same(&now, &eager, "lazy");
        }
        captured(WF_LAZY, build, grad, &now);
        same(&now, &eager, "captured");
        captured(WF_EAGER, build, grad, &now);
        same(&now, &eager, "captured, eager");
    }
    in_steps(WF_EAGER, 1, build, false, false, true, &eager);
    in_steps(WF_EAGER, 3, build, false, false, false, &now);
    same(&now, &eager, "callbacks that run");
    in_steps(WF_LAZY, 2, build, false, false, false, &now);
    same(&now, &eager, "lazy without history");
}

static const struct {
    const char *name;
    scenario *build;
    double by;
} table[] = {
    { "scan", scans, 1e-5 }, /* the gradient of the matrix is one product over all rounds */
    { "scan, reversed", scans_back, 1e-5 },
    { "call", calls, 0 },
    { "cond, true", conds_yes, 0 },
    { "cond, false", conds_no, 0 },
    { "while", whiles, 0 },
    { "while, cut off", whiles_cut_off, 0 },
    { "while, never", whiles_never, 0 },
    { "while, not bounded", whiles_free, 0 },
    { "cond in scan", cond_in_scan, 0 },
    { "scan in cond", scan_in_cond, 1e-5 },
    { "scan in scan", scan_in_scan, 1e-5 }, /* a sum over the inner steps is added as a whole */
    { "odd results", odd_results, 1e-5 },   /* five results of one value are added up in another order */
    { "counters", counts, 0 },
};

static void all_modes(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        print_message("  %s\n", table[i].name);
        every_mode(table[i].build, table[i].by);
    }
}

/* ---- gradients against differences, second gradients against first ones ---- */

static double loss_at(wf_ctx *c, const double *w, const double *h, double *gw, double *gh);

static bool rnn64(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_tanh(wf_add(wf_mul(in[0], user), in[1]));
    out[1] = wf_square(out[0]);
    return true;
}

enum { D = 3 };

static double loss_at(wf_ctx *c, const double *w, const double *h, double *gw, double *gh)
{
    wf_scope s = wf_scope_begin(c, "step");
    double x[T * D];
    for (int i = 0; i < T * D; i++)
        x[i] = 0.1 * i - 0.6;
    wf_tensor *wt = wf_tensor_from(c, WF_F64, WF_DIMS(D), w), *ht = wf_tensor_from(c, WF_F64, WF_DIMS(D), h);
    wf_tensor *xs = wf_tensor_from(c, WF_F64, WF_DIMS(T, D), x), *carry = ht, *ys, *g[2], *wrt[2] = { wt, ht };
    wf_scan(c, rnn64, wt, .carry = &carry, .ncarry = 1, .xs = &xs, .nxs = 1, .ys = &ys, .nys = 1);
    wf_tensor *l = wf_add(wf_sum(wf_mul(ys, xs), WF_NO_DIMS), wf_sum(wf_square(carry), WF_NO_DIMS));
    if (gw && gh) { /* of the sum of the squared gradient: a second gradient */
        assert_int_equal(wf_grad(l, 2, wrt, g), WF_OK);
        l = wf_add(wf_sum(wf_square(g[0]), WF_NO_DIMS), wf_sum(wf_sin(g[1]), WF_NO_DIMS));
        assert_int_equal(wf_grad(l, 2, wrt, g), WF_OK);
        assert_int_equal(wf_read(c, g[0], gw, D * sizeof *gw), WF_OK);
        assert_int_equal(wf_read(c, g[1], gh, D * sizeof *gh), WF_OK);
    } else if (gw) {
        assert_int_equal(wf_grad(l, 2, wrt, g), WF_OK);
        assert_int_equal(wf_read(c, g[0], gw, D * sizeof *gw), WF_OK);
        l = wf_add(wf_sum(wf_square(g[0]), WF_NO_DIMS), wf_sum(wf_sin(g[1]), WF_NO_DIMS));
    }
    double value = wf_item(c, l);
    wf_scope_end(c, s);
    ok(c);
    return value;
}

/* Central differences: of order eps^2, so 1e-6 relative is asked for. */
static void differences(void **unused)
{
    (void)unused;
    for (int mode = 0; mode < 2; mode++) {
        wf_ctx *c = open_ctx(mode ? WF_LAZY : WF_EAGER, 1);
        double w[D] = { 0.9, -0.4, 1.1 }, h[D] = { 0.2, 0.5, -0.3 }, g1[D], g2[D], g2h[D], skip[D];
        loss_at(c, w, h, g1, NULL);
        loss_at(c, w, h, g2, g2h);
        for (int i = 0; i < 2 * D; i++) {
            double *at = i < D ? &w[i] : &h[i - D], was = *at, eps = 1e-5, up[2], down[2];
            *at = was + eps, up[0] = loss_at(c, w, h, NULL, NULL), up[1] = loss_at(c, w, h, skip, NULL);
            *at = was - eps, down[0] = loss_at(c, w, h, NULL, NULL), down[1] = loss_at(c, w, h, skip, NULL);
            *at = was;
            if (i < D && fabs((up[0] - down[0]) / (2 * eps) - g1[i]) > 1e-6 * (1 + fabs(g1[i])))
                fail_msg("gradient %d: %.12g, differences say %.12g", i, g1[i], (up[0] - down[0]) / (2 * eps));
            double want = i < D ? g2[i] : g2h[i - D], is = (up[1] - down[1]) / (2 * eps);
            if (fabs(is - want) > 1e-6 * (1 + fabs(want)))
                fail_msg("second gradient %d: %.12g, differences say %.12g", i, want, is);
        }
        close_ctx(c);
    }
}

/* ---- variables, and bodies that are one ---- */

static bool layer_of(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_add(in[0], wf_tanh(wf_matmul(in[0], wf_value(user))));
    return true;
}

/* Trains layers over variables: they become what they become when the layers are written out, in every mode; one plan
 * and one gradient serve all layers. */
static void train(wf_mode mode, bool plain, float *after, bool *once)
{
    enum { LAYERS = 6 };
    wf_ctx *c = open_ctx(mode, 1);
    wf_var *v[LAYERS];
    float x[N * N];
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < N * N; k++)
            x[k] = (float)((k * 31 + i * 7) % 19) / 19 - 0.5f;
        v[i] = wf_var_new(c, "w", WF_F32, WF_DIMS(N, N), x);
    }
    for (int step = 0; step < 4; step++) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *h = numbers(c, WF_DIMS(2, N), 1), *w[LAYERS], *g[LAYERS];
        for (int i = 0; i < LAYERS; i++) {
            wf_tensor *y = NULL;
            w[i] = wf_value(v[i]);
            if (plain)
                layer_of(v[i], c, &h, &y);
            else
                wf_call(c, layer_of, v[i], 1, &h, 1, &y);
            h = y;
        }
        wf_grad(wf_sum(wf_square(h), WF_NO_DIMS), LAYERS, w, g);
        for (int i = 0; i < LAYERS; i++)
            wf_assign(v[i], wf_sub(w[i], wf_mul(g[i], wf_scalar(c, 0.05))));
        wf_scope_end(c, s);
        ok(c);
    }
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(wf_read(c, wf_value(v[i]), after + i * N * N, sizeof x), WF_OK);
    uint32_t flows = 0;
    for (uint32_t i = 1; i <= c->ids.attrs.n; i++)
        flows += wfi_attr_at(&c->ids, i)->op == WFI_NODE_FLOW;
    *once = flows <= 5 || plain; /* the layer, its gradient with and without that of its input, all of them as they
                                  * could be differentiated once more and as they are here; not six of each */
    close_ctx(c);
}

static void layers_are_one(void **unused)
{
    (void)unused;
    static float a[6 * N * N], b[6 * N * N];
    bool once;
    train(WF_EAGER, true, a, &once);
    for (int mode = 0; mode < 2; mode++) {
        train(mode ? WF_LAZY : WF_EAGER, false, b, &once);
        assert_memory_equal(a, b, sizeof a);
        assert_true(once || !mode);
    }
}

static bool rnn_of(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    return rnn(wf_transpose(wf_value(user)), c, in, out);
}

/* Weights that a scan multiplies by are kept in panels from run to run, and made again when they have changed. */
static void weights_change(void **unused)
{
    (void)unused;
    enum { K = 64 };
    float y[2][6][T * 2 * K], x[K * K];
    for (int mode = 0; mode < 2; mode++) {
        wf_ctx *c = open_ctx(mode ? WF_LAZY : WF_EAGER, 1);
        for (int k = 0; k < K * K; k++)
            x[k] = (float)(k % 7) / 7 - 0.4f;
        wf_var *w = wf_var_new(c, "w", WF_F32, WF_DIMS(K, K), x);
        for (int step = 0; step < 6; step++) {
            wf_scope around = wf_scope_begin(c, "around", .group = true);
            wf_scope s = wf_scope_begin(c, "infer", .no_grad = true);
            wf_tensor *h = numbers(c, WF_DIMS(2, K), 3), *xs = numbers(c, WF_DIMS(T, 2, K), 2), *ys;
            wf_scan(c, rnn_of, w, .carry = &h, .ncarry = 1, .xs = &xs, .nxs = 1, .ys = &ys, .nys = 1);
            ys = wf_scope_return(c, s, ys);
            wf_scope_end(c, s);
            ok(c);
            assert_int_equal(wf_read(c, ys, y[mode][step], sizeof y[0][0]), WF_OK);
            wf_scope_end(c, around);
            if (mode && step == 3)
                assert_non_null(strstr(wf_explain_plan(c, .buffers = true), "are kept in panels"));
            if (step == 3)
                wf_assign(w, numbers(c, WF_DIMS(K, K), 9));
        }
        close_ctx(c);
    }
    assert_memory_equal(y[0], y[1], sizeof y[0]);
    assert_memory_not_equal(y[1][3], y[1][4], sizeof y[1][0]);
}

/* ---- text ---- */

static const char *const text_ok = "func f0 : f32[2] f32[2] f32[2]\n"
                                   "  v3 = mul v0 v2 : f32[2]\n"
                                   "  v4 = add v3 v1 : f32[2] !\n"
                                   "  return v4 v3\n"
                                   "func f1 : f32[2] f32[2]\n"
                                   "  v2 = add v0 v1 : f32[2]\n"
                                   "  return v2\n"
                                   "func f2 : f32[2] f32[2]\n"
                                   "  v2 = const 3 : f32[]\n"
                                   "  v3 = sum v0 axes=all keep=false : f32[]\n"
                                   "  v4 = lt v3 v2 : bool[]\n"
                                   "  return v4\n"
                                   "v0 = input 0 : f32[2]\n"
                                   "v1 = input 1 : f32[7,2]\n"
                                   "v2 v3 = scan v0 v1 v0 func=f0 carry=1 seq=1 reverse=1 count=7 : f32[2] f32[7,2]\n"
                                   "v4 v5 = while v2 v0 func=f1 other=f2 carry=1 bounded=1 count=9 : f32[2] i64[]\n"
                                   "v6 = call v4 v2 func=f1 : f32[2]\n"
                                   "result 6 v6\n"
                                   "result 3 v3\n";

/* {in the text above, what stands there instead, what the verifier says} */
static const char *const text_wrong[][3] = {
    { "return v4 v3", "return v4", "the number of operands or results is not the function's" },
    { "seq=1 ", "", "the type of an operand is not what the function takes" },
    { "scan v0 v1 v0", "scan v0 v1", "the number of operands or results is not the function's" },
    { "f32[7,2]\nv2", "f32[6,2]\nv2", "the type of an operand is not what the function takes" },
    { ": f32[2] f32[7,2]\nv4", ": f32[2] f32[8,2]\nv4", "the type of a result is not what the function gives" },
    { "bounded=1 count=9 : f32[2] i64[]", "bounded=1 count=9 : f32[2] f32[]", "the type of a result is not" },
    { "other=f2", "other=f1", "its predicate does not give one bool" },
    { "other=f2 ", "", "it has no function" },
    { "return v4\nv0", "return v3\nv0", "its predicate does not give one bool" },
    { "count=7", "count=7 res=2", "its attribute contradicts itself" },
    { "v3 = mul v0 v2 : f32[2]", "v3 = mul v0 v2 : f32[3]", "in its function: node" },
    { "= call v4 v2", "= cond v4 v2", "it has no function" },
};

/* {as above, what the parser says} */
static const char *const text_bad[][3] = {
    { "func=f0", "func=f3", "is no word of control flow" },
    { "func f1", "func f2", "numbered in order" },
    { "return v4 v3\n", "", "numbered in order" },
    { "return v4 v3", "return v4 v9", "a value that stands above" },
    { "carry=1 seq", "carrys=1 seq", "is no word of control flow" },
    { "  v3 = mul v0 v2", "  v3 = input 0 v2", "no operator of this name" },
};

static char *replaced(const char *from, const char *to)
{
    static char text[4096];
    const char *at = strstr(text_ok, from);
    assert_non_null(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - text_ok), text_ok, to, at + strlen(from));
    return text;
}

static void texts(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    for (size_t i = 0; i <= sizeof text_wrong / sizeof *text_wrong; i++) {
        const char *const *w = i ? text_wrong[i - 1] : NULL;
        char err[512] = "";
        wfi_graph g;
        wfi_text t = { .mem = c->mem };
        wfi_graph_init(&g, c->mem, &c->ids);
        if (!wfi_graph_parse(w ? replaced(w[0], w[1]) : text_ok, &g, err, sizeof err))
            fail_msg("%zu: %s", i, err);
        const bool right = wfi_graph_verify(&g, err, sizeof err);
        if (w && (right || !strstr(err, w[2])))
            fail_msg("%zu: \"%s\" is not in: %s", i, w[2], right ? "(accepted)" : err);
        if (!w && !right)
            fail_msg("%s", err);
        wfi_graph_print(&g, &t);
        if (!w)
            assert_string_equal(wfi_text_str(&t), text_ok);
        wfi_text_free(&t);
        wfi_graph_free(&g);
    }
    for (size_t i = 0; i < sizeof text_bad / sizeof *text_bad; i++) {
        char err[512] = "";
        wfi_graph g;
        wfi_graph_init(&g, c->mem, &c->ids);
        if (wfi_graph_parse(replaced(text_bad[i][0], text_bad[i][1]), &g, err, sizeof err) ||
            !strstr(err, text_bad[i][2]))
            fail_msg("%zu: \"%s\" is not in: %s", i, text_bad[i][2], err);
        wfi_graph_free(&g);
    }
    close_ctx(c);
}

/* The pass that leaves out what is not needed: a stack, the node inside that made it, and the sequence that only that
 * read. */
static void prunes(void **unused)
{
    (void)unused;
    static const char *const before = "func f0 : f32[2] f32[2] f32[2]\n"
                                      "  v3 = add v0 v2 : f32[2]\n"
                                      "  v4 = mul v1 v3 : f32[2]\n"
                                      "  return v3 v4\n"
                                      "v0 = input 0 : f32[2]\n"
                                      "v1 = input 1 : f32[7,2]\n"
                                      "v2 = exp v1 : f32[7,2]\n"
                                      "v3 v4 = scan v0 v2 v0 func=f0 carry=1 seq=1 res=1 count=7 : f32[2] f32[7,2]\n"
                                      "result 3 v3\n",
                             *const after = "func f0 : f32[2] f32[2]\n"
                                            "  v2 = add v0 v1 : f32[2]\n"
                                            "  return v2\n"
                                            "v0 = input 0 : f32[2]\n"
                                            "v1 = scan v0 v0 func=f0 carry=1 count=7 : f32[2]\n"
                                            "result 3 v1\n";
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    char err[512] = "";
    wfi_graph g, out;
    wfi_text t = { .mem = c->mem };
    wfi_graph_init(&g, c->mem, &c->ids);
    wfi_graph_init(&out, c->mem, &c->ids);
    if (!wfi_graph_parse(before, &g, err, sizeof err) || !wfi_graph_verify(&g, err, sizeof err))
        fail_msg("%s", err);
    assert_true(wfi_prune(&g, &out));
    if (!wfi_graph_verify(&out, err, sizeof err))
        fail_msg("%s", err);
    wfi_graph_print(&out, &t);
    assert_string_equal(wfi_text_str(&t), after);
    wfi_text_free(&t);
    wfi_graph_free(&g);
    wfi_graph_free(&out);
    close_ctx(c);
}

/* ---- what goes wrong ---- */

static void wrong_with(wf_ctx *c, wf_status status, const char *what, const char *more)
{
    if (wf_error(c) && !strstr(wf_error(c), more))
        fail_msg("\"%s\" is not in: %s", more, wf_error(c));
    wrong(c, status, what);
}

static bool grows(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = wf_concat(2, ((wf_tensor *[]){ in[0], in[0] }), 0);
    return true;
}
static bool half(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c, (void)in, (void)out;
    return true;
}
static bool fails(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = in[0];
    return false;
}
static bool misfit(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = wf_add(in[0], numbers(c, WF_DIMS(N + 1), 1));
    return true;
}
static bool assigns(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    wf_assign(user, in[0]);
    out[0] = in[0];
    return true;
}
static bool looks(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user;
    out[0] = wf_item(c, wf_sum(in[0], WF_NO_DIMS)) > 0 ? in[0] : wf_neg(in[0]);
    return true;
}
static bool same_out(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = wf_mul(in[0], in[0]);
    return true;
}
static bool as_number(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)user, (void)c;
    out[0] = wf_sum(in[0], WF_NO_DIMS);
    return true;
}
static bool out_of_range(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)
{
    (void)c;
    out[0] = wf_add(in[0], wf_reshape(wf_gather(wf_reshape(in[0], WF_DIMS(N, 1)), user), WF_DIMS(N)));
    return true;
}

static void bad_calls(void **unused)
{
    (void)unused;
    for (int lazy = 0; lazy < 2; lazy++) {
        wf_ctx *c = open_ctx(lazy ? WF_LAZY : WF_EAGER, 1);
        wf_var *v = wf_var_new(c, "v", WF_F32, WF_DIMS(N), NULL);
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *x = numbers(c, WF_DIMS(N), 1), *h = x, *y, *p = wf_lt(wf_sum(x, WF_NO_DIMS), wf_scalar(c, 0));
        wf_tensor *flag = wf_lt(x, wf_scalar(c, 0)), *xs = numbers(c, WF_DIMS(3, N), 1),
                  *few = numbers(c, WF_DIMS(2, N), 1);
        wf_tensor *both[2] = { xs, few };
        wf_scan(c, grows, NULL, .carry = &h, .ncarry = 1, .length = 3);
        wrong_with(c, WF_ERR_SHAPE, "wf_scan: carry 0 goes in as f32[4] and comes out as f32[8]", "comes out: made at");
        assert_null(h);
        h = x;
        wf_call(c, half, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_ARG, "wf_call: the body left output 0 at NULL", "test_control.c:");
        wf_call(c, fails, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_ARG, "the body reported a failure", "");
        wf_call(c, misfit, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_SHAPE, "add: ", "in a body of wf_call, ");
        wf_call(c, assigns, v, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_STATE, "a body cannot assign", "");
        wf_call(c, looks, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_STATE, "cannot be read", "in a body of wf_call");
        wf_call(c, NULL, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_ARG, "a body is NULL", "");
        y = NULL;
        wf_call(c, same_out, NULL, 1, &y, 1, &y);
        wrong_with(c, WF_ERR_ARG, "input 0 is NULL", "");
        wf_cond(c, x, same_out, same_out, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_DTYPE, "wf_cond: the predicate is f32[4], bool[] was expected", "made at");
        wf_cond(c, flag, same_out, same_out, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_SHAPE, "the predicate is bool[4]", "");
        wf_cond(c, p, same_out, as_number, NULL, 1, &x, 1, &y);
        wrong_with(c, WF_ERR_SHAPE, "result 0 is f32[4] where the predicate is true, f32[] where it is false",
                   "false: made");
        wf_while(c, same_out, same_out, NULL, .carry = &h, .ncarry = 1);
        wrong_with(c, WF_ERR_DTYPE, "wf_while: the predicate is f32[4]", "");
        wf_while(c, same_out, same_out, NULL, .carry = &h, .ncarry = 0);
        wrong_with(c, WF_ERR_ARG, "0 carries", "");
        h = x;
        wf_scan(c, rnn, NULL, .carry = &h, .ncarry = 1, .xs = both, .nxs = 2);
        wrong_with(c, WF_ERR_SHAPE, "x 1 is f32[2,4], a first axis of 3 was expected", "");
        h = x;
        wf_scan(c, same_out, NULL, .carry = &h, .ncarry = 1, .xs = both, .nxs = 1, .length = 2);
        wrong_with(c, WF_ERR_SHAPE, "x 0 is f32[3,4], a first axis of 2 was expected", "");
        wf_scope_end(c, s);
        close_ctx(c);
    }
}

/* No bound: values, but no gradient. A fault inside a body has its operator. */
static void late_errors(void **unused)
{
    (void)unused;
    for (int lazy = 0; lazy < 2; lazy++) {
        wf_ctx *c = open_ctx(lazy ? WF_LAZY : WF_EAGER, 1);
        int64_t zero = 0, at[N] = { 0, 1, N, 2 };
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *w = numbers(c, WF_DIMS(N), 5), *g;
        wf_tensor *in[2] = { wf_tensor_from(c, WF_I64, WF_NO_DIMS, &zero), numbers(c, WF_DIMS(2, N), 6) };
        wf_while(c, below, round_body, w, .carry = in, .ncarry = 2);
        wf_grad(wf_sum(in[1], WF_NO_DIMS), 1, &w, &g);
        wrong_with(c, WF_ERR_UNSUPPORTED, "while: its gradient needs to know how often", "test_control.c:");
        wf_scope_end(c, s);
        for (int k = 0; k < 3; k++) {
            s = wf_scope_begin(c, "step");
            wf_tensor *i = wf_tensor_from(c, WF_I64, WF_DIMS(N), at), *h = numbers(c, WF_DIMS(N), 1);
            wf_scan(c, out_of_range, i, .carry = &h, .ncarry = 1, .length = 3);
            h = wf_scope_return(c, s, h);
            wf_scope_end(c, s);
            wrong_with(c, WF_ERR_INDEX, "gather: index 4 at position 2", "in a body");
        }
        close_ctx(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_modes), cmocka_unit_test(differences), cmocka_unit_test(layers_are_one),
        cmocka_unit_test(texts),     cmocka_unit_test(prunes),      cmocka_unit_test(weights_change),
        cmocka_unit_test(bad_calls), cmocka_unit_test(late_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
