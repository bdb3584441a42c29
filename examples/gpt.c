/* gpt.c - trains a small GPT on bytes of text (the King James Bible, from Debian's bible-kjv) and prints a sample.
 *
 * Pre-norm blocks, learned positions, tied to nothing: the model of Radford et al. 2019 on 256 symbols. Held-out loss
 * is in bits per byte: cross entropy over log 2. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <weft/weft.h>
#include "letters.h"
#include "progress.h"

enum { PATH = 1024 };

typedef struct options {
    int layers, width, heads, window, batch, steps, threads, sample;
    double minutes, lr;
    wf_mode mode;
    bool quiet;
    const char *text, *out;
} options;

/* ---- the network ---- */

/* ids: i64[B,T] -> logits f32[B,T,256] */
static wf_tensor *gpt(wf_model *m, const options *o, wf_tensor *ids)
{
    int64_t t = wf_tensor_dims(ids).d[1];
    wf_tensor *place = wf_arange(wf_tensor_ctx(ids), WF_I64, t);
    wf_tensor *x = wf_add(wf_nn_embedding(m, "wte", ids, WF_DIMS(SYMBOLS, o->width), .scale = 0.02),
                          wf_nn_embedding(m, "wpe", place, WF_DIMS(o->window, o->width), .scale = 0.02));
    for (int i = 0; i < o->layers; i++) {
        char name[16];
        snprintf(name, sizeof name, "h.%d", i);
        x = wf_nn_transformer_block(m, name, x, .heads = o->heads, .causal = true,
                                    .init_scale = 1 / sqrt(2.0 * o->layers));
    }
    return wf_nn_linear(m, "head", wf_nn_layer_norm(m, "ln_f", x), SYMBOLS, .no_bias = true);
}

/* ---- training ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Warm-up over the first 100 steps, then down to a tenth along a cosine. done: 0..1 of the whole run. */
static double rate(const options *o, int step, double done)
{
    double warm = step < 100 ? (step + 1) / 100.0 : 1;
    return o->lr * warm * (0.1 + 0.45 * (1 + cos(3.14159265358979 * (done < 1 ? done : 1))));
}

static double held_out(wf_ctx *c, wf_model *m, const options *o, const char *text)
{
    char name[PATH + 16];
    snprintf(name, sizeof name, "text:%s:test", text);
    wf_data *d = wf_data_open(c, name, .batch = o->batch, .window = o->window, .shuffle = true);
    double sum = 0, weight = 0;
    wf_batch b;
    for (int i = 0; i < 40 && wf_data_next(d, &b); i++) {
        wf_scope around = wf_scope_begin(c, "test", .group = true);
        wf_scope s = wf_scope_begin(c, "test step", .no_grad = true);
        wf_loss l = wf_cross_entropy(gpt(m, o, b.x), b.y);
        wf_tensor *ls = wf_scope_return(c, s, l.sum), *lw = wf_scope_return(c, s, l.weight);
        wf_scope_end(c, s);
        sum += wf_item(c, ls);
        weight += wf_item(c, lw);
        wf_scope_end(c, around);
    }
    wf_data_close(d);
    return weight > 0 ? sum / weight / log(2.0) : NAN;
}

static bool train(wf_ctx *c, wf_model *m, const options *o, const char *text, int *steps_done)
{
    char name[PATH + 16];
    snprintf(name, sizeof name, "text:%s:train", text);
    wf_data *d = wf_data_open(c, name, .batch = o->batch, .window = o->window, .shuffle = true, .drop_last = true);
    wf_optim *opt = wf_adamw(m, .lr = o->lr, .beta2 = 0.99, .weight_decay = 0.1);
    double start = seconds(), limit = o->minutes * 60;
    progress p = progress_begin(stdout, o->quiet, 1, o->steps);
    p.unit = "bytes";
    p.limit = limit;
    wf_batch b;
    for (int step = 0; d && step < o->steps && seconds() - start < limit; step++) {
        if (!wf_data_next(d, &b) && !wf_data_next(d, &b))
            break;
        double by_time = (seconds() - start) / limit, by_step = (double)step / o->steps;
        wf_optim_set_lr(opt, rate(o, step, by_time > by_step ? by_time : by_step));
        wf_scope around = wf_scope_begin(c, "batch", .group = true);
        wf_scope s = wf_scope_begin(c, "step");
        wf_loss loss = wf_cross_entropy(gpt(m, o, b.x), b.y);
        wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(loss));
        wf_optim_step(opt, loss);
        if (wf_scope_end(c, s) != WF_OK)
            break;
        progress_step(&p, 0, step, b.count * o->window, wf_item(c, mean), -1);
        wf_scope_end(c, around);
        *steps_done = step + 1;
    }
    progress_end(&p);
    return wf_error_status(c) == WF_OK;
}

/* ---- a sample ---- */

static void sample(wf_ctx *c, wf_model *m, const options *o)
{
    const char start[] = "In the beginning";
    int64_t *ids = calloc((size_t)o->window, sizeof *ids);
    float *logits = malloc((size_t)o->window * SYMBOLS * sizeof *logits);
    int n = 0;
    uint64_t state = 1;
    for (; ids && start[n] && n < o->window; n++)
        ids[n] = start[n];
    printf("sample: %s", start);
    for (int k = 0; ids && logits && k < o->sample; k++) {
        wf_scope around = wf_scope_begin(c, "sample", .group = true);
        wf_scope s = wf_scope_begin(c, "sample step", .no_grad = true);
        wf_tensor *y = wf_scope_return(c, s, gpt(m, o, wf_tensor_from(c, WF_I64, WF_DIMS(1, o->window), ids)));
        wf_scope_end(c, s);
        if (wf_read(c, y, logits, (size_t)o->window * SYMBOLS * sizeof *logits) != WF_OK)
            break;
        wf_scope_end(c, around);
        int next = letters_draw(logits + (size_t)(n - 1) * SYMBOLS, 0.8, &state);
        letters_put(next);
        if (n == o->window) {
            memmove(ids, ids + 1, (size_t)(n - 1) * sizeof *ids);
            n--;
        }
        ids[n++] = next;
    }
    putchar('\n');
    free(ids);
    free(logits);
}

/* ---- the program ---- */

static void help(void)
{
    puts("usage: gpt [--steps N] [--minutes M] [--layers N] [--width N] [--heads N] [--window N] [--batch N]\n"
         "           [--lr X] [--threads N] [--mode eager|lazy] [--text FILE] [--out DIR] [--sample N] [--quiet]\n"
         "\n"
         "Trains a GPT on the bytes of FILE (default: the King James Bible by Debian's command bible), prints the\n"
         "held-out loss in bits per byte and a sample, and saves the weights.\n"
         "\n"
         "example: gpt --minutes 9");
}

static bool take(options *o, const char *a, const char *v)
{
    static const char *const whole[] = { "--steps",  "--layers", "--width",   "--heads",
                                         "--window", "--batch",  "--threads", "--sample" };
    int *const to[] = { &o->steps, &o->layers, &o->width, &o->heads, &o->window, &o->batch, &o->threads, &o->sample };
    char *end;
    if (!v)
        return false;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!strcmp(a, whole[i])) {
            long n = strtol(v, &end, 10);
            *to[i] = (int)n;
            return *v && !*end && n >= (i == 7 ? 0 : 1) && n <= 1000000;
        }
    if (!strcmp(a, "--minutes") || !strcmp(a, "--lr")) {
        double x = strtod(v, &end);
        *(a[2] == 'm' ? &o->minutes : &o->lr) = x;
        return *v && !*end && x > 0;
    }
    if (!strcmp(a, "--mode")) {
        o->mode = !strcmp(v, "eager") ? WF_EAGER : WF_LAZY;
        return !strcmp(v, "eager") || !strcmp(v, "lazy");
    }
    if (!strcmp(a, "--text"))
        o->text = v;
    else if (!strcmp(a, "--out"))
        o->out = v;
    else
        return false;
    return *v != 0;
}

static int run(const options *o)
{
    char text[PATH], weights[PATH];
    int steps = 0;
    snprintf(text, sizeof text, "%s/kjv.txt", o->out);
    snprintf(weights, sizeof weights, "%s/gpt.safetensors", o->out);
    struct stat st;
    if ((mkdir(o->out, 0777) != 0 && errno != EEXIST)) {
        fprintf(stderr, "gpt: %s: %s\n", o->out, strerror(errno));
        return 1;
    }
    if (!o->text && stat(text, &st) != 0 && !letters_fetch("gpt", text))
        return 1;
    wf_ctx *c = wf_ctx_new(WF_OPTS(wf_ctx_opts, .mode = o->mode, .threads = o->threads));
    wf_model *m = wf_model_new(c);
    const char *path = o->text ? o->text : text;
    if (train(c, m, o, path, &steps)) {
        double bits = held_out(c, m, o, path);
        if (wf_model_save(m, weights) == WF_OK) {
            if (o->sample)
                sample(c, m, o);
            printf("steps: %d\nparameters: %lld\nheld-out bits per byte: %.4f\nweights: %s\n", steps,
                   (long long)wf_model_elements(m), bits, weights);
        }
    }
    return wf_ctx_close(c);
}

int main(int argc, char **argv)
{
    options o = { .layers = 4,
                  .width = 256,
                  .heads = 4,
                  .window = 128,
                  .batch = 16,
                  .steps = 100000,
                  .sample = 300,
                  .minutes = 9,
                  .lr = 1e-3,
                  .out = "out" };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return help(), 0;
        if (!strcmp(argv[i], "--quiet"))
            o.quiet = true;
        else if (take(&o, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            i++;
        else {
            fprintf(stderr, "gpt: \"%s\" is no option, or its value is missing or wrong; --help lists them\n", argv[i]);
            return 2;
        }
    }
    return run(&o);
}
