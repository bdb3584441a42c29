/* The arena against its lower bound, the largest sum of values alive at once in the plan's order, over real networks in
 * training and inference. Every plan stays within 2 % of it. */
#include "refeval.h"
#include "plan/plan.h"

typedef struct net {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
    wf_tensor *x, *y;
} net;

typedef struct work {
    const char *name;
    wf_tensor *(*forward)(net *n); /* f32[N, classes] or f32[N, T, classes] */
    wf_dims x;                     /* i64: symbols, where `symbols` is set */
    wf_dims y;                     /* labels; n 0: inference */
    int32_t symbols, classes;
    size_t budget;
} work;

/* ---- networks ---- */

static const char *const part[] = { "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7" };

static wf_tensor *mlp(net *n)
{
    wf_tensor *x = n->x;
    for (int i = 0; i < 3; i++)
        x = wf_tanh(wf_nn_linear(n->m, part[i], x, 96 >> i));
    return wf_nn_linear(n->m, "out", x, 10);
}

static wf_tensor *cnn(net *n)
{
    wf_tensor *x = n->x;
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(n->m, "conv1", x, 32, .kernel = 3, .pad = 1)), .kernel = 2);
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(n->m, "conv2", x, 64, .kernel = 3, .pad = 1)), .kernel = 2);
    return wf_nn_linear(n->m, "fc2", wf_relu(wf_nn_linear(n->m, "fc1", wf_flatten(x, 1), 128)), 10);
}

static wf_tensor *gpt(net *n)
{
    wf_tensor *x = wf_nn_embedding(n->m, "tok", n->x, WF_DIMS(200, 48));
    for (int i = 0; i < 4; i++)
        x = wf_nn_transformer_block(n->m, part[i], x, .heads = 4, .causal = true);
    return wf_nn_linear(n->m, "head", wf_nn_layer_norm(n->m, "norm", x), 200, .no_bias = true);
}

static wf_tensor *encoder(net *n)
{
    wf_tensor *x = n->x;
    for (int i = 0; i < 3; i++) {
        wf_model *b = wf_model_sub(n->m, part[i]);
        x = wf_nn_layer_norm(b, "ln1", wf_add(x, wf_nn_attention(b, "attn", x, .heads = 4)));
        x = wf_nn_layer_norm(b, "ln2", wf_add(x, wf_nn_linear(b, "fc2", wf_gelu(wf_nn_linear(b, "fc1", x, 192)), 48)));
    }
    return wf_nn_linear(n->m, "out", x, 7);
}

static wf_tensor *unit(wf_model *m, const char *conv, const char *norm, wf_tensor *x, int64_t out, int stride,
                       int kernel)
{
    x = wf_nn_conv2d(m, conv, x, out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .no_bias = true);
    return wf_nn_batch_norm(m, norm, x);
}

static wf_tensor *resnet(net *n)
{
    wf_tensor *x = wf_relu(unit(n->m, "conv1", "bn1", n->x, 16, 1, 3));
    for (int i = 0; i < 8; i++) {
        wf_model *b = wf_model_sub(n->m, part[i]);
        const int64_t out = 16 << i / 2;
        const int stride = i && i % 2 == 0 ? 2 : 1;
        wf_tensor *y = wf_relu(unit(b, "conv1", "bn1", x, out, stride, 3));
        y = unit(b, "conv2", "bn2", y, out, 1, 3);
        x = stride == 1 ? x : unit(b, "down", "bn3", x, out, stride, 1);
        x = wf_relu(wf_add(x, y));
    }
    return wf_nn_linear(n->m, "fc", wf_flatten(wf_adaptive_avg_pool2d(x, 1, 1), 1), 10);
}

/* Every level's result waits for its counterpart on the way up. */
static wf_tensor *unet(net *n)
{
    wf_tensor *kept[3], *x = n->x;
    for (int i = 0; i < 3; i++) {
        kept[i] = x = wf_relu(wf_nn_conv2d(n->m, part[i], x, 8 << i, .kernel = 3, .pad = 1));
        x = wf_max_pool2d(x, .kernel = 2);
    }
    for (int i = 2; i >= 0; i--) {
        wf_dims d = wf_tensor_dims(x);
        wf_tensor *up = wf_reshape(x, WF_DIMS(d.d[0], d.d[1], d.d[2], 1, d.d[3], 1));
        up = wf_broadcast_to(up, WF_DIMS(d.d[0], d.d[1], d.d[2], 2, d.d[3], 2));
        up = wf_reshape(up, WF_DIMS(d.d[0], d.d[1], 2 * d.d[2], 2 * d.d[3]));
        x = wf_relu(wf_nn_conv2d(n->m, part[3 + i], wf_concat(2, ((wf_tensor *[]){ kept[i], up }), 1), 8 << i,
                                 .kernel = 3, .pad = 1));
    }
    return wf_nn_linear(n->m, "out", wf_flatten(wf_avg_pool2d(x, .kernel = 4), 1), 10);
}

static wf_tensor *lstm(net *n)
{
    wf_tensor *x = wf_nn_embedding(n->m, "tok", n->x, WF_DIMS(50, 24));
    return wf_nn_linear(n->m, "out", wf_nn_lstm(n->m, "lstm", x, 32), 50);
}

#define IMAGES(n, c, s)                                                                                                \
    {                                                                                                                  \
        4,                                                                                                             \
        {                                                                                                              \
            n, c, s, s                                                                                                 \
        }                                                                                                              \
    }
static const work works[] = {
    { "mlp, training", mlp, { 2, { 64, 40 } }, { 1, { 64 } }, 0, 10, 0 },
    { "mlp, inference", mlp, { 2, { 64, 40 } }, { 0, { 0 } }, 0, 10, 0 },
    { "cnn, training", cnn, IMAGES(16, 1, 28), { 1, { 16 } }, 0, 10, 0 },
    { "cnn, inference", cnn, IMAGES(16, 1, 28), { 0, { 0 } }, 0, 10, 0 },
    { "gpt, training", gpt, { 2, { 4, 33 } }, { 2, { 4, 33 } }, 200, 200, 0 },
    { "gpt, training, half the memory", gpt, { 2, { 4, 33 } }, { 2, { 4, 33 } }, 200, 200, 700 << 10 },
    { "gpt, inference", gpt, { 2, { 4, 33 } }, { 0, { 0 } }, 200, 200, 0 },
    { "encoder, training", encoder, { 3, { 3, 20, 48 } }, { 2, { 3, 20 } }, 0, 7, 0 },
    { "encoder, inference", encoder, { 3, { 3, 20, 48 } }, { 0, { 0 } }, 0, 7, 0 },
    { "resnet-18, training", resnet, IMAGES(4, 3, 24), { 1, { 4 } }, 0, 10, 0 },
    { "resnet-18, inference", resnet, IMAGES(4, 3, 24), { 0, { 0 } }, 0, 10, 0 },
    { "u-net, training", unet, IMAGES(4, 3, 32), { 1, { 4 } }, 0, 10, 0 },
    { "u-net, inference", unet, IMAGES(4, 3, 32), { 0, { 0 } }, 0, 10, 0 },
    { "lstm, training", lstm, { 2, { 3, 12 } }, { 2, { 3, 12 } }, 50, 50, 0 },
    { "lstm, inference", lstm, { 2, { 3, 12 } }, { 0, { 0 } }, 50, 50, 0 },
};

/* ---- one of them ---- */

static wf_tensor *numbers(wf_ctx *c, wf_dims d, int32_t below)
{
    int64_t count = 1;
    for (int32_t i = 0; i < d.n; i++)
        count *= d.d[i];
    int64_t *whole = malloc((size_t)count * sizeof *whole);
    float *real = malloc((size_t)count * sizeof *real);
    assert_true(whole && real);
    for (int64_t i = 0; i < count; i++) {
        whole[i] = below ? i * 7919 % below : 0;
        real[i] = (float)(i * 7919 % 2001) / 1000 - 1;
    }
    wf_tensor *t = below ? wf_tensor_from(c, WF_I64, d, whole) : wf_tensor_from(c, WF_F32, d, real);
    free(whole);
    free(real);
    return t;
}

static void step(net *n, const work *w)
{
    wf_scope s = wf_scope_begin(n->c, "step", .no_grad = !w->y.n);
    n->x = numbers(n->c, w->x, w->symbols);
    wf_tensor *y = w->forward(n);
    if (w->y.n) {
        const wf_dims d = wf_tensor_dims(y), rows = { 2, { d.n == 3 ? d.d[0] * d.d[1] : d.d[0], w->classes } };
        wf_tensor *labels = wf_flatten(numbers(n->c, w->y, w->classes), 0);
        wf_optim_step(n->opt, wf_cross_entropy(wf_reshape(y, rows), labels));
    } else
        wf_scope_return(n->c, s, y);
    if (wf_scope_end(n->c, s) != WF_OK)
        fail_msg("%s: %s", w->name, wf_error(n->c));
}

static void suite(void **state)
{
    (void)state;
    double worst = 1;
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) {
        const work *w = &works[i];
        net n = { .c = wf_ctx_new(&(wf_ctx_opts){ .threads = 1, .memory_budget = w->budget }) };
        n.m = wf_model_new(n.c);
        n.opt = w->y.n ? wf_adamw(n.m, .lr = 1e-3) : NULL;
        wf_scope around = wf_scope_begin(n.c, "around", .group = true);
        for (int k = 0; k < 3; k++)
            step(&n, w);
        wf_scope_end(n.c, around);
        const wf_stats s = wf_ctx_stats(n.c);
        const double ratio = s.arena_bound ? (double)s.arena_bytes / (double)s.arena_bound : 1;
        print_message("%-32s arena %8zu, bound %8zu: %.3f\n", w->name, s.arena_bytes, s.arena_bound, ratio);
        assert_true(s.arena_bound > 0);
        worst = ratio > worst ? ratio : worst;
        assert_int_equal(wf_ctx_close(n.c), WF_OK);
    }
    assert_true(worst <= 1.02);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(suite) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
