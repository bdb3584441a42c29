/* lstm.c - trains a long short-term memory on bytes of text (the King James Bible, from Debian's bible-kjv) and prints
 * a sample. Sampling carries the state from byte to byte, so that each costs one position however long the text is.
 *
 * Graves, arXiv:1308.0850. Held-out loss is in bits per byte: cross entropy over log 2. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <weft/weft.h>
#include "letters.h"
#include "progress.h"

enum { PATH = 1024, LAYERS_MAX = 8, EMBEDDED = 64 };

typedef struct options {
    int layers, width, window, batch, steps, threads, sample;
    double lr;
    wf_mode mode;
    bool quiet;
    const char *text, *out;
} options;

typedef struct state { /* of all layers, f32[1,width] each */
    wf_tensor *h[LAYERS_MAX], *c[LAYERS_MAX];
} state;

/* ---- the network ---- */

/* ids: i64[T,B] -> logits f32[T,B,256]. s: the state before, replaced by that behind; NULL: it begins and ends with
 * zeros. */
static wf_tensor *net(wf_model *m, const options *o, wf_tensor *ids, state *s)
{
    static const char *const name[LAYERS_MAX] = { "rnn0", "rnn1", "rnn2", "rnn3", "rnn4", "rnn5", "rnn6", "rnn7" };
    wf_tensor *x = wf_nn_embedding(m, "embed", ids, WF_DIMS(SYMBOLS, EMBEDDED));
    for (int i = 0; i < o->layers; i++)
        x = s ? wf_nn_lstm(m, name[i], x, o->width, .h0 = s->h[i], .c0 = s->c[i], .h_n = &s->h[i], .c_n = &s->c[i])
              : wf_nn_lstm(m, name[i], x, o->width);
    return wf_nn_linear(m, "head", x, SYMBOLS);
}

/* Batches come as i64[B,T]; the layers walk over the first axis. */
static wf_loss loss_of(wf_model *m, const options *o, const wf_batch *b)
{
    return wf_cross_entropy(net(m, o, wf_transpose(b->x), NULL), wf_transpose(b->y));
}

/* ---- training ---- */

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
        wf_loss l = loss_of(m, o, &b);
        wf_tensor *ls = wf_scope_return(c, s, l.sum), *lw = wf_scope_return(c, s, l.weight);
        wf_scope_end(c, s);
        sum += wf_item(c, ls);
        weight += wf_item(c, lw);
        wf_scope_end(c, around);
    }
    wf_data_close(d);
    return weight > 0 ? sum / weight / log(2.0) : NAN;
}

static bool train(wf_ctx *c, wf_model *m, const options *o, const char *text)
{
    char name[PATH + 16];
    snprintf(name, sizeof name, "text:%s:train", text);
    wf_data *d = wf_data_open(c, name, .batch = o->batch, .window = o->window, .shuffle = true, .drop_last = true);
    wf_optim *opt = wf_adamw(m, .lr = o->lr);
    progress p = progress_begin(stdout, o->quiet, 1, o->steps);
    p.unit = "bytes";
    wf_batch b;
    for (int step = 0; d && step < o->steps; step++) {
        if (!wf_data_next(d, &b) && !wf_data_next(d, &b))
            break;
        double left = 1 - (double)step / o->steps;
        wf_optim_set_lr(opt, o->lr * (step < 50 ? (step + 1) / 50.0 : left));
        wf_scope around = wf_scope_begin(c, "batch", .group = true);
        wf_scope s = wf_scope_begin(c, "step");
        wf_loss loss = loss_of(m, o, &b);
        wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(loss));
        wf_optim_step(opt, loss);
        if (wf_scope_end(c, s) != WF_OK)
            break;
        progress_step(&p, 0, step, b.count * o->window, wf_item(c, mean), -1);
        wf_scope_end(c, around);
    }
    progress_end(&p);
    return wf_error_status(c) == WF_OK;
}

/* ---- a sample ---- */

/* Reads byte `id`: logits for the next one; `memory` f32[2][layers][width] is the state before and then behind. */
static bool read_byte(wf_ctx *c, wf_model *m, const options *o, int64_t id, float *memory, float *logits)
{
    state st;
    const size_t line = (size_t)o->width, bytes = line * sizeof *memory;
    wf_scope s = wf_scope_begin(c, "sample", .no_grad = true);
    for (int i = 0; i < o->layers; i++) {
        st.h[i] = wf_tensor_from(c, WF_F32, WF_DIMS(1, o->width), memory + (size_t)i * line);
        st.c[i] = wf_tensor_from(c, WF_F32, WF_DIMS(1, o->width), memory + (size_t)(o->layers + i) * line);
    }
    wf_tensor *y = net(m, o, wf_tensor_from(c, WF_I64, WF_DIMS(1, 1), &id), &st);
    wf_read(c, y, logits, SYMBOLS * sizeof *logits);
    for (int i = 0; i < o->layers; i++) {
        wf_read(c, st.h[i], memory + (size_t)i * line, bytes);
        wf_read(c, st.c[i], memory + (size_t)(o->layers + i) * line, bytes);
    }
    return wf_scope_end(c, s) == WF_OK;
}

static void sample(wf_ctx *c, wf_model *m, const options *o)
{
    const char start[] = "In the beginning";
    float *memory = calloc(2 * (size_t)o->layers * (size_t)o->width, sizeof *memory), logits[SYMBOLS];
    uint64_t random = 1;
    bool ok = memory != NULL;
    printf("sample: %s", start);
    for (int i = 0; ok && start[i]; i++)
        ok = read_byte(c, m, o, start[i], memory, logits);
    for (int k = 0; ok && k < o->sample; k++) {
        int next = letters_draw(logits, 0.8, &random);
        letters_put(next);
        ok = read_byte(c, m, o, next, memory, logits);
    }
    putchar('\n');
    free(memory);
}

/* ---- the program ---- */

static void help(void)
{
    puts("usage: lstm [--steps N] [--layers N] [--width N] [--window N] [--batch N] [--lr X] [--threads N]\n"
         "            [--mode eager|lazy] [--text FILE] [--out DIR] [--sample N] [--quiet]\n"
         "\n"
         "Trains a long short-term memory on the bytes of FILE (default: the King James Bible by Debian's command\n"
         "bible), prints the held-out loss in bits per byte and a sample, and saves the weights.\n"
         "\n"
         "example: lstm --steps 1000");
}

static bool take(options *o, const char *a, const char *v)
{
    static const char *const whole[] = { "--steps",   "--width",  "--window", "--batch",
                                         "--threads", "--layers", "--sample" };
    int *const to[] = { &o->steps, &o->width, &o->window, &o->batch, &o->threads, &o->layers, &o->sample };
    char *end;
    if (!v)
        return false;
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (!strcmp(a, whole[i])) {
            long n = strtol(v, &end, 10);
            *to[i] = (int)n;
            return *v && !*end && n >= (i == 6 ? 0 : 1) && n <= (i == 5 ? LAYERS_MAX : 1000000);
        }
    if (!strcmp(a, "--lr")) {
        o->lr = strtod(v, &end);
        return *v && !*end && o->lr > 0;
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
    snprintf(text, sizeof text, "%s/kjv.txt", o->out);
    snprintf(weights, sizeof weights, "%s/lstm.safetensors", o->out);
    struct stat st;
    if (mkdir(o->out, 0777) != 0 && errno != EEXIST) {
        fprintf(stderr, "lstm: %s: %s\n", o->out, strerror(errno));
        return 1;
    }
    if (!o->text && stat(text, &st) != 0 && !letters_fetch("lstm", text))
        return 1;
    wf_ctx *c = wf_ctx_new(WF_OPTS(wf_ctx_opts, .mode = o->mode, .threads = o->threads));
    wf_model *m = wf_model_new(c);
    const char *path = o->text ? o->text : text;
    if (train(c, m, o, path)) {
        double bits = held_out(c, m, o, path);
        if (wf_model_save(m, weights) == WF_OK) {
            if (o->sample)
                sample(c, m, o);
            printf("parameters: %lld\nheld-out bits per byte: %.4f\nweights: %s\n", (long long)wf_model_elements(m),
                   bits, weights);
        }
    }
    return wf_ctx_close(c);
}

int main(int argc, char **argv)
{
    options o = {
        .layers = 2, .width = 256, .window = 64, .batch = 32, .steps = 1000, .sample = 300, .lr = 3e-3, .out = "out"
    };
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return help(), 0;
        if (!strcmp(argv[i], "--quiet"))
            o.quiet = true;
        else if (take(&o, argv[i], i + 1 < argc ? argv[i + 1] : NULL))
            i++;
        else {
            fprintf(stderr, "lstm: \"%s\" is no option, or its value is missing or wrong; --help lists them\n",
                    argv[i]);
            return 2;
        }
    }
    return run(&o);
}
