/* resnet18.c - trains ResNet-18 in its form for small pictures on Fashion-MNIST, tests it after every epoch and saves
 * the weights: batch norm, residual blocks, gradient descent with momentum and weight decay, a rate that rises and
 * falls.
 *
 * He, Zhang, Ren and Sun, arXiv:1512.03385; a 3 x 3 stem and no pooling in front, as is usual for pictures this small.
 * Ctrl-C saves what there is and exits 130. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "weft/weft.h"
#include "progress.h"

enum { PATH = 1024, QUICK_STEPS = 20, QUICK_TESTS = 4 };

typedef struct options {
    int epochs, threads, batch;
    wf_mode mode;
    bool quiet, quick;
    const char *out, *data, *test;
} options;

static wf_ctx *running; /* for the signal handler */
static volatile sig_atomic_t stopped;

static void on_interrupt(int number)
{
    (void)number;
    stopped = 1;
    wf_interrupt(running);
}

/* ---- options ---- */

static void help(void)
{
    puts("usage: resnet18 [--epochs N] [--batch N] [--threads N] [--mode eager|lazy] [--out DIR] [--quick] [--quiet]\n"
         "                [--data NAME] [--test NAME]\n"
         "\n"
         "Trains ResNet-18 on Fashion-MNIST (WEFT_DATA, else Debian's dataset-fashion-mnist).\n"
         "\n"
         "  --epochs N    times through the training images; default 5\n"
         "  --batch N     images a step; default 128\n"
         "  --threads N   default: WEFT_THREADS, else the processors there are\n"
         "  --mode M      lazy (default) or eager: the saved weights are the same bytes\n"
         "  --out DIR     where weights go; default out\n"
         "  --quick       20 steps and 4 batches of the test, for a look\n"
         "  --quiet       no progress\n"
         "  --data NAME   default fashion-mnist:train; idx:IMAGES:LABELS for files of that kind\n"
         "  --test NAME   default fashion-mnist:test\n"
         "\n"
         "example: resnet18 --quick --batch 32 --out /tmp/resnet");
}

static int number(const char *name, const char *s)
{
    char *end;
    errno = 0;
    long n = s ? strtol(s, &end, 10) : 0;
    if (!s || errno || *end || n < 1 || n > 100000) {
        fprintf(stderr, "resnet18: %s needs a whole number from 1, got \"%s\"\n", name, s ? s : "");
        exit(2);
    }
    return (int)n;
}

static bool with_value(options *o, const char *a, const char *v)
{
    if (!strcmp(a, "--epochs"))
        o->epochs = number(a, v);
    else if (!strcmp(a, "--batch"))
        o->batch = number(a, v);
    else if (!strcmp(a, "--threads"))
        o->threads = number(a, v);
    else if (!strcmp(a, "--mode") && v && (!strcmp(v, "eager") || !strcmp(v, "lazy")))
        o->mode = v[0] == 'e' ? WF_EAGER : WF_LAZY;
    else if (!strcmp(a, "--out") && v && *v)
        o->out = v;
    else if (!strcmp(a, "--data") && v && *v)
        o->data = v;
    else if (!strcmp(a, "--test") && v && *v)
        o->test = v;
    else
        return false;
    return true;
}

static options parse(int argc, char **argv)
{
    options o = {
        .epochs = 5, .batch = 128, .out = "out", .data = "fashion-mnist:train", .test = "fashion-mnist:test"
    };
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            help();
            exit(0);
        } else if (!strcmp(a, "--quiet"))
            o.quiet = true;
        else if (!strcmp(a, "--quick"))
            o.quick = true;
        else if (with_value(&o, a, v))
            i++;
        else {
            fprintf(stderr, "resnet18: \"%s%s%s\" is no option; --help lists them\n", a, v ? " " : "", v ? v : "");
            exit(2);
        }
    }
    return o;
}

/* ---- the network ---- */

/* A convolution without bias, which the batch norm behind it has. */
static wf_tensor *conv_norm(wf_model *m, const char *conv, const char *norm, wf_tensor *x, int64_t out, int kernel,
                            int stride)
{
    x = wf_nn_conv2d(m, conv, x, out, .kernel = kernel, .stride = stride, .pad = kernel / 2, .no_bias = true);
    return wf_nn_batch_norm(m, norm, x);
}

/* relu(x + two convolutions of x); a stride or more channels need a 1 x 1 convolution on the short way, too. */
static wf_tensor *residual(wf_model *m, wf_tensor *x, int64_t out, int stride)
{
    wf_tensor *y = wf_relu(conv_norm(m, "conv1", "bn1", x, out, 3, stride));
    y = conv_norm(m, "conv2", "bn2", y, out, 3, 1);
    if (stride != 1 || wf_tensor_dims(x).d[1] != out)
        x = conv_norm(m, "downsample.0", "downsample.1", x, out, 1, stride);
    return wf_relu(wf_add(y, x));
}

/* f32[N,1,28,28] -> f32[N,10]; parameters are named as in torchvision's ResNet. */
static wf_tensor *resnet18(wf_model *m, wf_tensor *x)
{
    static const char *const block[4][2] = {
        { "layer1.0", "layer1.1" }, { "layer2.0", "layer2.1" }, { "layer3.0", "layer3.1" }, { "layer4.0", "layer4.1" }
    };
    x = wf_relu(conv_norm(m, "conv1", "bn1", x, 64, 3, 1));
    for (int stage = 0; stage < 4; stage++)
        for (int i = 0; i < 2; i++)
            x = residual(wf_model_sub(m, block[stage][i]), x, 64 << stage, stage && !i ? 2 : 1);
    return wf_nn_linear(m, "fc", wf_flatten(wf_adaptive_avg_pool2d(x, 1, 1), 1), 10);
}

/* ---- training ---- */

typedef struct run {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
    options o;
    double accuracy;
} run;

/* How many of the batch are right: f32[] */
static wf_tensor *right(wf_tensor *logits, wf_tensor *labels)
{
    return wf_sum(wf_cast(wf_eq(wf_argmax(logits, 1), labels), WF_F32), WF_NO_DIMS);
}

/* Up along a line for a fifth of the steps, then down to 0. done: share of the steps, 0..1 */
static double rate(double done)
{
    return 0.05 * (done < 0.2 ? 0.1 + 0.9 * done / 0.2 : (1 - done) / 0.8);
}

static bool train_step(run *r, const wf_batch *b, double *loss_out, double *right_out)
{
    wf_scope s = wf_scope_begin(r->c, "step");
    wf_tensor *logits = resnet18(r->m, b->x);
    wf_loss loss = wf_cross_entropy(logits, b->y);
    wf_tensor *mean = wf_scope_return(r->c, s, wf_loss_mean(loss));
    wf_tensor *hits = wf_scope_return(r->c, s, right(logits, b->y));
    wf_optim_step(r->opt, loss);
    if (wf_scope_end(r->c, s) != WF_OK)
        return false;
    *loss_out = wf_item(r->c, mean);
    *right_out = wf_item(r->c, hits) / (double)b->count;
    return true;
}

/* In a .no_grad scope batch norm goes by its running statistics. */
static bool evaluate(run *r, wf_data *test)
{
    double hits = 0, count = 0;
    int left = r->o.quick ? QUICK_TESTS : INT32_MAX;
    for (wf_batch b; !stopped && left && wf_data_next(test, &b); left--, count += (double)b.count) {
        wf_scope around = wf_scope_begin(r->c, "test", .group = true);
        wf_scope s = wf_scope_begin(r->c, "test step", .no_grad = true);
        wf_tensor *n = wf_scope_return(r->c, s, right(resnet18(r->m, b.x), b.y));
        wf_scope_end(r->c, s);
        hits += wf_item(r->c, n);
        wf_scope_end(r->c, around);
    }
    r->accuracy = count > 0 ? hits / count : 0;
    return wf_error_status(r->c) == WF_OK;
}

static bool train_epoch(run *r, wf_data *d, progress *p, int epoch, int64_t steps, int64_t *done)
{
    wf_scope around = wf_scope_begin(r->c, "epoch", .group = true);
    int64_t left = steps;
    for (wf_batch b; !stopped && left && wf_data_next(d, &b); left--, ++*done) {
        double loss, hits;
        wf_optim_set_lr(r->opt, rate((double)*done / (double)(steps * r->o.epochs)));
        wf_scope one = wf_scope_begin(r->c, "batch", .group = true);
        if (!train_step(r, &b, &loss, &hits))
            break;
        wf_scope_end(r->c, one);
        progress_step(p, epoch, steps - left, b.count, loss, hits);
    }
    wf_scope_end(r->c, around);
    return !stopped && wf_error_status(r->c) == WF_OK;
}

static bool train(run *r)
{
    wf_data *d = wf_data_open(r->c, r->o.data, .batch = r->o.batch, .shuffle = true, .drop_last = true);
    wf_data *test = d ? wf_data_open(r->c, r->o.test, .batch = 250) : NULL;
    if (!test)
        return false;
    int64_t steps = wf_data_batches(d), done = 0;
    if (r->o.quick && steps > QUICK_STEPS)
        steps = QUICK_STEPS;
    if (r->o.quick)
        r->o.epochs = 1;
    progress p = progress_begin(stdout, r->o.quiet, r->o.epochs, steps);
    for (int epoch = 0; epoch < r->o.epochs; epoch++) {
        if (!train_epoch(r, d, &p, epoch, steps, &done) || !evaluate(r, test))
            break;
        progress_epoch(&p, epoch, r->accuracy);
    }
    progress_end(&p);
    return wf_error_status(r->c) == WF_OK;
}

static int finish(run *r)
{
    char weights[PATH];
    snprintf(weights, sizeof weights, "%s/resnet18.safetensors", r->o.out);
    if (stopped)
        wf_error_clear(r->c); /* the interruption; what was trained so far is worth keeping */
    if (wf_model_save(r->m, weights) != WF_OK)
        return 1;
    if (stopped) {
        printf("interrupted; weights: %s\n", weights);
        return 130;
    }
    printf("parameters: %lld\ntest accuracy: %.4f\nweights: %s\n", (long long)wf_model_elements(r->m), r->accuracy,
           weights);
    return 0;
}

int main(int argc, char **argv)
{
    run r = { .o = parse(argc, argv) };
    if (mkdir(r.o.out, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "resnet18: %s: %s\n", r.o.out, strerror(errno));
        return 1;
    }
    running = r.c = wf_ctx_new(WF_OPTS(wf_ctx_opts, .mode = r.o.mode, .threads = r.o.threads));
    if (!r.c) {
        fprintf(stderr, "resnet18: out of memory\n");
        return 1;
    }
    sigaction(SIGINT, &(struct sigaction){ .sa_handler = on_interrupt }, NULL);
    r.m = wf_model_new(r.c);
    r.opt = wf_sgd(r.m, .lr = 0.05, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true);
    int rc = train(&r) || stopped ? finish(&r) : 1;
    sigaction(SIGINT, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
    int status = wf_ctx_close(r.c); /* says what went wrong */
    return rc ? rc : status;
}
