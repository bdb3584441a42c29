/* Networks for pictures: ResNet-18 in training, ResNet-8 and ResNet-18 in inference. The shapes are those of
 * peers/torch_models.py. */
#include "weft_bench.h"

typedef struct net net;

struct net {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
    wf_tensor *x, *y;
    wf_tensor *(*forward)(net *, wf_tensor *x);
    bool small; /* the stem for pictures of 32 x 32 */
};

/* A convolution and its batch norm. */
static wf_tensor *unit(wf_model *m, const char *conv, const char *norm, wf_tensor *x, int64_t out, int kernel,
                       int stride)
{
    x = wf_nn_conv2d(m, conv, x, out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .no_bias = true);
    return wf_nn_batch_norm(m, norm, x);
}

static wf_tensor *residual(wf_model *m, wf_tensor *x, int64_t out, int stride)
{
    wf_tensor *y = wf_relu(unit(m, "a", "na", x, out, 3, stride));
    y = unit(m, "b", "nb", y, out, 3, 1);
    if (stride != 1 || wf_tensor_dims(x).d[1] != out)
        x = unit(m, "short", "ns", x, out, 1, stride);
    return wf_relu(wf_add(y, x));
}

static const struct stage {
    const char *name;
    int64_t out;
    int stride;
} eight[] = { { "block0", 16, 1 }, { "block1", 32, 2 }, { "block2", 64, 2 } },
  eighteen[] = { { "block0", 64, 1 },  { "block1", 64, 1 },  { "block2", 128, 2 }, { "block3", 128, 1 },
                 { "block4", 256, 2 }, { "block5", 256, 1 }, { "block6", 512, 2 }, { "block7", 512, 1 } };

static wf_tensor *tail(wf_model *m, wf_tensor *x, const struct stage *stage, int stages, int64_t classes)
{
    for (int i = 0; i < stages; i++)
        x = residual(wf_model_sub(m, stage[i].name), x, stage[i].out, stage[i].stride);
    return wf_nn_linear(m, "fc", wf_flatten(wf_adaptive_avg_pool2d(x, 1, 1), 1), classes);
}

static wf_tensor *resnet8(net *n, wf_tensor *x)
{
    x = wf_nn_conv2d(n->m, "stem", x, 16, .kernel = 3, .pad = 1);
    return tail(n->m, wf_relu(wf_nn_batch_norm(n->m, "norm", x)), eight, 3, 10);
}

static wf_tensor *resnet18(net *n, wf_tensor *x)
{
    x = wf_relu(unit(n->m, "stem", "norm", x, 64, n->small ? 3 : 7, n->small ? 1 : 2));
    if (!n->small)
        x = wf_max_pool2d(x, .kernel = 3, .stride = 2, .pad = 1);
    return tail(n->m, x, eighteen, 8, n->small ? 10 : 1000);
}

static void train(void *state)
{
    net *n = (net *)state;
    wf_scope s = wf_scope_begin(n->c, "step");
    wf_optim_step(n->opt, wf_cross_entropy(n->forward(n, n->x), n->y));
    wf_scope_end(n->c, s);
}

static void infer(void *state)
{
    net *n = (net *)state;
    wf_scope s = wf_scope_begin(n->c, "infer", .no_grad = true);
    wfb_finish(n->c, s, n->forward(n, n->x));
}

static void *make(const bench_case *b, int threads, wf_tensor *(*forward)(net *, wf_tensor *), int64_t batch,
                  int64_t size)
{
    net *n = (net *)wfb_new(b, threads, sizeof *n);
    if (!n)
        return NULL;
    n->m = wf_model_new(n->c);
    n->forward = forward;
    n->small = size == 32;
    n->x = wfb_random(n->c, WF_F32, WF_DIMS(batch, 3, size, size), 1);
    return n;
}

static void *make_train(const bench_case *b, int threads)
{
    net *n = (net *)make(b, threads, resnet18, 32, 32);
    if (!n)
        return NULL;
    n->opt = wf_sgd(n->m, .lr = 0.1, .momentum = 0.9);
    n->y = wfb_labels(n->c, WF_DIMS(32), 10);
    return wfb_made(n);
}

static void *make_resnet8(const bench_case *b, int threads)
{
    void *n = make(b, threads, resnet8, 1, 32);
    return n ? wfb_made(n) : NULL;
}

/* b->arg: the batch. */
static void *make_resnet18(const bench_case *b, int threads)
{
    void *n = make(b, threads, resnet18, b->arg, 224);
    return n ? wfb_made(n) : NULL;
}

static const bench_case cases[] = {
    WFB_BOTH(.work = "resnet18_cifar_b32", .make = make_train, .run = train),
    WFB_BOTH(.work = "resnet8_b1", .make = make_resnet8, .run = infer),
    WFB_BOTH(.work = "resnet18_224_b1", .make = make_resnet18, .run = infer, .arg = 1, .flops = 3.6e9),
    WFB_BOTH(.work = "resnet18_224_b8", .make = make_resnet18, .run = infer, .arg = 8, .flops = 8 * 3.6e9),
};

const wfb_table wfb_image = WFB_TABLE(cases);
