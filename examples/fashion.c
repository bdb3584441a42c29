/* fashion.c - trains a small convolutional network on Fashion-MNIST, evaluates it, saves the weights, and has label.c
 * load them and draw what it sees. This is what ./dev demo runs.
 *
 * The saved bytes are the same for any number of threads, eager and lazy. Ctrl-C saves what there is and exits 130. */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "fashion_net.h"
#include "progress.h"

extern char **environ;

enum { BATCH = 128, PATH = 1024 };

typedef struct options {
    int epochs, threads;
    wf_mode mode;
    bool quiet;
    const char *out;
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
    puts("usage: fashion [--epochs N] [--threads N] [--mode eager|lazy] [--out DIR] [--quiet]\n"
         "\n"
         "Trains a convolutional network on Fashion-MNIST (WEFT_DATA, else Debian's dataset-fashion-mnist).\n"
         "\n"
         "  --epochs N    times through the 60,000 training images; default 8\n"
         "  --threads N   default: WEFT_THREADS, else the processors there are\n"
         "  --mode M      lazy (default) or eager: the saved weights are the same bytes\n"
         "  --out DIR     where weights and picture go; default out\n"
         "  --quiet       no progress\n"
         "\n"
         "example: fashion --epochs 1 --out /tmp/fashion");
}

static int number(const char *name, const char *s)
{
    char *end;
    errno = 0;
    long n = s ? strtol(s, &end, 10) : 0;
    if (!s || errno || *end || n < 1 || n > 100000) {
        fprintf(stderr, "fashion: %s needs a whole number from 1, got \"%s\"\n", name, s ? s : "");
        exit(2);
    }
    return (int)n;
}

static options parse(int argc, char **argv)
{
    options o = { .epochs = 8, .out = "out" };
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            help();
            exit(0);
        } else if (!strcmp(a, "--quiet")) {
            o.quiet = true;
            continue;
        } else if (!strcmp(a, "--epochs"))
            o.epochs = number(a, v);
        else if (!strcmp(a, "--threads"))
            o.threads = number(a, v);
        else if (!strcmp(a, "--mode") && v && (!strcmp(v, "eager") || !strcmp(v, "lazy")))
            o.mode = v[0] == 'e' ? WF_EAGER : WF_LAZY;
        else if (!strcmp(a, "--out") && v && *v)
            o.out = v;
        else {
            fprintf(stderr, "fashion: \"%s%s%s\" is no option; --help lists them\n", a, v ? " " : "", v ? v : "");
            exit(2);
        }
        i++;
    }
    return o;
}

/* ---- training ---- */

typedef struct run {
    wf_ctx *c;
    wf_model *m;
    wf_optim *opt;
    options o;
    FILE *curves; /* "step LOSS" and "epoch ACCURACY" lines, for the picture */
    double accuracy;
} run;

/* How many of the batch are right: f32[] */
static wf_tensor *right(wf_tensor *logits, wf_tensor *labels)
{
    return wf_sum(wf_cast(wf_eq(wf_argmax(logits, 1), labels), WF_F32), WF_NO_DIMS);
}

static bool train_step(run *r, const wf_batch *b, double *loss_out, double *right_out)
{
    wf_scope s = wf_scope_begin(r->c, "step");
    wf_tensor *logits = fashion_net(r->m, b->x);
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

static bool evaluate(run *r, wf_data *test)
{
    double hits = 0, count = 0;
    for (wf_batch b; !stopped && wf_data_next(test, &b); count += (double)b.count) {
        wf_scope around = wf_scope_begin(r->c, "test", .group = true);
        wf_scope s = wf_scope_begin(r->c, "test step", .no_grad = true);
        wf_tensor *n = wf_scope_return(r->c, s, right(fashion_net(r->m, b.x), b.y));
        wf_scope_end(r->c, s);
        hits += wf_item(r->c, n);
        wf_scope_end(r->c, around);
    }
    r->accuracy = count > 0 ? hits / count : 0;
    return wf_error_status(r->c) == WF_OK;
}

static bool train(run *r)
{
    wf_data *d = wf_data_open(r->c, "fashion-mnist:train", .batch = BATCH, .shuffle = true), *test = NULL;
    int64_t steps = wf_data_batches(d), done = 0, total = steps * r->o.epochs;
    progress p = progress_begin(stdout, r->o.quiet, r->o.epochs, steps);
    for (int epoch = 0; d && epoch < r->o.epochs; epoch++) {
        wf_scope around = wf_scope_begin(r->c, "epoch", .group = true);
        for (wf_batch b; !stopped && wf_data_next(d, &b); done++) {
            double loss, hits;
            wf_optim_set_lr(r->opt, 2e-3 * (1 - (double)done / (double)total)); /* falls to 0 along a line */
            wf_scope one = wf_scope_begin(r->c, "batch", .group = true);
            if (!train_step(r, &b, &loss, &hits))
                break;
            wf_scope_end(r->c, one);
            fprintf(r->curves, "step %.9g\n", loss);
            progress_step(&p, epoch, b.position / BATCH, b.count, loss, hits);
        }
        wf_scope_end(r->c, around);
        if (stopped || wf_error_status(r->c) != WF_OK)
            break;
        if (!test)
            test = wf_data_open(r->c, "fashion-mnist:test", .batch = 500);
        if (!test || !evaluate(r, test))
            break;
        fprintf(r->curves, "epoch %.9g\n", r->accuracy);
        progress_epoch(&p, epoch, r->accuracy);
    }
    progress_end(&p);
    return wf_error_status(r->c) == WF_OK;
}

/* ---- the second program ---- */

/* label stands beside this program. */
static int run_label(const char *self, const char *weights, const char *curves, const char *picture)
{
    char path[PATH];
    const char *slash = strrchr(self, '/');
    int n = snprintf(path, sizeof path, "%.*slabel", slash ? (int)(slash - self + 1) : 0, self);
    if (n < 0 || n >= (int)sizeof path)
        return -1;
    char flag_c[] = "--curves", flag_p[] = "--picture";
    union {
        const char *in;
        char *out;
    } w = { weights }, c = { curves }, q = { picture };
    char *args[] = { path, w.out, flag_c, c.out, flag_p, q.out, NULL };
    pid_t pid;
    int status = -1;
    fflush(stdout);
    if (posix_spawnp(&pid, path, NULL, NULL, args, environ) != 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int finish(run *r, const char *self)
{
    char weights[PATH], curves[PATH], picture[PATH];
    snprintf(weights, sizeof weights, "%s/fashion.safetensors", r->o.out);
    snprintf(curves, sizeof curves, "%s/fashion.curves", r->o.out);
    snprintf(picture, sizeof picture, "%s/fashion.png", r->o.out);
    if (stopped)
        wf_error_clear(r->c); /* the interruption; what was trained so far is worth keeping */
    if (wf_model_save(r->m, weights) != WF_OK)
        return 1;
    if (stopped) {
        printf("interrupted; weights: %s\n", weights);
        return 130;
    }
    if (fclose(r->curves) != 0)
        fprintf(stderr, "fashion: %s could not be written\n", curves);
    r->curves = NULL;
    if (run_label(self, weights, curves, picture) != 0) {
        fprintf(stderr, "fashion: the program \"label\" beside this one failed\n");
        return 1;
    }
    printf("test accuracy: %.4f\nweights: %s\npicture: %s\n", r->accuracy, weights, picture);
    return 0;
}

int main(int argc, char **argv)
{
    run r = { .o = parse(argc, argv) };
    char curves[PATH];
    snprintf(curves, sizeof curves, "%s/fashion.curves", r.o.out);
    if ((mkdir(r.o.out, 0777) != 0 && errno != EEXIST) || !(r.curves = fopen(curves, "w"))) {
        fprintf(stderr, "fashion: %s: %s\n", curves, strerror(errno));
        return 1;
    }
    running = r.c = wf_ctx_new(WF_OPTS(wf_ctx_opts, .mode = r.o.mode, .threads = r.o.threads));
    if (!r.c) {
        fprintf(stderr, "fashion: out of memory\n");
        return 1;
    }
    sigaction(SIGINT, &(struct sigaction){ .sa_handler = on_interrupt }, NULL);
    r.m = wf_model_new(r.c);
    r.opt = wf_adamw(r.m, .lr = 2e-3);
    int rc = train(&r) || stopped ? finish(&r, argv[0]) : 1;
    if (r.curves)
        fclose(r.curves);
    sigaction(SIGINT, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
    int status = wf_ctx_close(r.c); /* says what went wrong */
    return rc ? rc : status;
}
