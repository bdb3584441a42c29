/* Whole training steps: the small MLP, the network of the demo, a GPT. Inference of an encoder and of an LSTM. */
#include "weft_bench.h"

#include <string.h>

typedef struct net net;

struct net {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
    wf_tensor *x, *y;
    wf_loss (*loss)(net *);
    wf_dtype autocast;
    int32_t layers, heads;
    int64_t width, positions, batch, symbols;
};

static void run(void *state)
{
    net *n = (net *)state;
    wf_scope s = wf_scope_begin(n->c, "step", .autocast = n->autocast);
    wf_optim_step(n->opt, n->loss(n));
    wf_scope_end(n->c, s);
}

static net *new_net(const bench_case *b, int threads, wf_loss (*loss)(net *))
{
    net *n = (net *)wfb_new(b, threads, sizeof *n);
    if (!n)
        return NULL;
    n->m = wf_model_new(n->c);
    n->loss = loss;
    n->autocast = strcmp(b->dtype, "bf16") ? WF_F32 : WF_BF16;
    return n;
}

/* 16-32-32-4 with ReLU, mean squared error, SGD. */
static wf_loss mlp_loss(net *n)
{
    wf_tensor *h = wf_relu(wf_nn_linear(n->m, "fc1", n->x, 32));
    h = wf_relu(wf_nn_linear(n->m, "fc2", h, 32));
    return wf_mse(wf_nn_linear(n->m, "fc3", h, 4), n->y);
}

static void *make_mlp(const bench_case *b, int threads)
{
    net *n = new_net(b, threads, mlp_loss);
    if (!n)
        return NULL;
    n->opt = wf_sgd(n->m, .lr = 0.01);
    n->x = wfb_random(n->c, WF_F32, WF_DIMS(8, 16), 1);
    n->y = wfb_random(n->c, WF_F32, WF_DIMS(8, 4), 1);
    return wfb_made(n);
}

static wf_loss fashion_loss(net *n)
{
    wf_tensor *x = wf_max_pool2d(wf_relu(wf_nn_conv2d(n->m, "conv1", n->x, 32, .kernel = 3, .pad = 1)), .kernel = 2);
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(n->m, "conv2", x, 64, .kernel = 3, .pad = 1)), .kernel = 2);
    x = wf_relu(wf_nn_linear(n->m, "fc1", wf_flatten(x, 1), 128));
    return wf_cross_entropy(wf_nn_linear(n->m, "fc2", x, 10), n->y);
}

static void *make_fashion(const bench_case *b, int threads)
{
    net *n = new_net(b, threads, fashion_loss);
    if (!n)
        return NULL;
    n->opt = wf_adamw(n->m, .lr = 1e-4);
    n->x = wfb_random(n->c, WF_F32, WF_DIMS(128, 1, 28, 28), 1);
    n->y = wfb_labels(n->c, WF_DIMS(128), 10);
    return wfb_made(n);
}

static const char *const blocks[] = { "block0", "block1", "block2", "block3", "block4", "block5" };

static wf_loss gpt_loss(net *n)
{
    wf_tensor *x = wf_nn_embedding(n->m, "tok", n->x, WF_DIMS(n->symbols, n->width));
    x = wf_add(x, wf_nn_param(n->m, "pos", WF_DIMS(n->positions, n->width), .init = WF_INIT_NORMAL));
    for (int32_t i = 0; i < n->layers; i++)
        x = wf_nn_transformer_block(n->m, blocks[i], x, .heads = n->heads, .causal = true);
    x = wf_nn_linear(n->m, "head", wf_nn_layer_norm(n->m, "norm", x), n->symbols, .no_bias = true);
    return wf_cross_entropy(x, n->y);
}

static const struct gpt {
    const char *work;
    int32_t layers, heads;
    int64_t width, positions, symbols;
} gpts[] = {
    { "gpt4_d256_t128_b8", 4, 4, 256, 128, 256 },
    { "gpt6_d384_t256_b8", 6, 6, 384, 256, 256 },
    { "memory_gpt6_d256_t256_b8_v8192", 6, 4, 256, 256, 8192 },
};

/* b->arg: the row of gpts. */
static void *make_gpt(const bench_case *b, int threads)
{
    const struct gpt *g = &gpts[b->arg];
    net *n = new_net(b, threads, gpt_loss);
    if (!n)
        return NULL;
    n->layers = g->layers, n->heads = g->heads, n->width = g->width, n->positions = g->positions;
    n->symbols = g->symbols;
    n->opt = wf_adamw(n->m, .lr = 1e-4);
    n->x = wfb_labels(n->c, WF_DIMS(8, n->positions), n->symbols);
    n->y = wfb_labels(n->c, WF_DIMS(8, n->positions), n->symbols);
    return wfb_made(n);
}

/* ---- inference ---- */

/* An encoder of MiniLM's shape on hidden states: post-norm blocks, gelu by erf. */
static wf_tensor *encoder_block(wf_model *m, wf_tensor *x)
{
    x = wf_nn_layer_norm(m, "ln1", wf_add(x, wf_nn_attention(m, "attn", x, .heads = 12)));
    wf_tensor *u = wf_gelu(wf_nn_linear(m, "fc1", x, 4 * 384));
    return wf_nn_layer_norm(m, "ln2", wf_add(x, wf_nn_linear(m, "fc2", u, 384)));
}

static void run_encoder(void *state)
{
    net *n = (net *)state;
    wf_scope s = wf_scope_begin(n->c, "infer", .no_grad = true);
    wf_tensor *x = n->x;
    for (int32_t i = 0; i < 6; i++)
        x = encoder_block(wf_model_sub(n->m, blocks[i]), x);
    wfb_finish(n->c, s, x);
}

/* b->arg: the batch. */
static void *make_encoder(const bench_case *b, int threads)
{
    net *n = new_net(b, threads, NULL);
    if (!n)
        return NULL;
    n->x = wfb_random(n->c, WF_F32, WF_DIMS(b->arg, 128, 384), 1);
    return wfb_made(n);
}

/* One layer, 64 positions. */
static void run_lstm(void *state)
{
    net *n = (net *)state;
    wf_scope s = wf_scope_begin(n->c, "infer", .no_grad = true);
    wfb_finish(n->c, s, wf_nn_lstm(n->m, "lstm", n->x, 128));
}

static void *make_lstm(const bench_case *b, int threads)
{
    net *n = new_net(b, threads, NULL);
    if (!n)
        return NULL;
    n->x = wfb_random(n->c, WF_F32, WF_DIMS(64, 1, 128), 1);
    return wfb_made(n);
}

/* Six operations per parameter (but for the embeddings) and symbol, and the causal half of attention. */
#define GPT_FLOPS(layers, d, t, v)                                                                                     \
    (6.0 * (layers * (12.0 * d * d + 13.0 * d) + 2.0 * d + 1.0 * d * v) * 8 * t + 6.0 * layers * d * t * 8.0 * t)

static const bench_case cases[] = {
    WFB_BOTH(.work = "mlp", .make = make_mlp, .run = run),
    WFB_BOTH(.work = "fashion_b128", .make = make_fashion, .run = run),
    WFB_BOTH(.work = "gpt4_d256_t128_b8", .make = make_gpt, .run = run, .flops = GPT_FLOPS(4, 256, 128, 256)),
    WFB_BOTH(.work = "gpt6_d384_t256_b8", .make = make_gpt, .run = run, .arg = 1, .flops = GPT_FLOPS(6, 384, 256, 256)),
    { .mode = "lazy",
      .dtype = "bf16",
      .drop = wfb_drop,
      .work = "gpt6_d384_t256_b8",
      .make = make_gpt,
      .run = run,
      .arg = 1,
      .flops = GPT_FLOPS(6, 384, 256, 256) },
    WFB_BOTH(.work = "memory_gpt6_d256_t256_b8_v8192", .make = make_gpt, .run = run, .arg = 2),
    WFB_BOTH(.work = "lstm_h128_t64_b1", .make = make_lstm, .run = run_lstm),
    WFB_BOTH(.work = "encoder_b1", .make = make_encoder, .run = run_encoder, .arg = 1),
    WFB_BOTH(.work = "encoder_b32", .make = make_encoder, .run = run_encoder, .arg = 32),
};

const wfb_table wfb_net = WFB_TABLE(cases);
