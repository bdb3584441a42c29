/* weft tune: finds the fastest way of doing something on this machine, and keeps a record of it. */
#include <math.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/env.h"
#include "base/file.h"
#include "cli/cli.h"
#include "device/tuner.h"
#include "tune/records.h"
#include "cli/tune_suite.h"

static const char help[] =
    "usage: weft tune [OPTION...] OPERATOR TYPE... [ATTRIBUTE=VALUE...]\n"
    "       weft tune [OPTION...] matmul MxKxN TYPE\n"
    "       weft tune [OPTION...] --log FILE | --suite\n\n"
    "Measures other block sizes, tiers and numbers of threads for products, convolutions and row kernels of these "
    "sizes "
    "than\n"
    "those that Weft's rules choose, at most a fifth of them, and keeps the fastest in $XDG_CACHE_HOME/weft/tuning. "
    "Every "
    "program\n"
    "of this user on this machine takes them from there when it starts. They change no bit of any result.\n\n"
    "  --budget SECONDS  in all (default 60)\n"
    "  --threads N       as the program will use (default WEFT_THREADS, else the processors)\n"
    "  --log FILE        everything in the log of a program that ran with WEFT_LOG=tune WEFT_LOG_FILE=FILE\n"
    "  --suite           sizes of usual networks\n"
    "  --compare         keeps nothing; measures all ways as well, to tell what the search for the fastest missed\n"
    "  --json            one JSON object a line\n"
    "  --quiet           no progress\n\n"
    "examples:\n"
    "  weft tune matmul 512x4096x4096 f32\n"
    "  weft tune softmax 'f32[4096,1024]' axis=-1\n"
    "  weft tune conv2d 'f32[8,64,56,56]' 'f32[64,64,3,3]' pad=1 --threads 1\n"
    "  WEFT_LOG=tune WEFT_LOG_FILE=/tmp/log ./train --steps 5; weft tune --log /tmp/log\n\n"
    "exit status: 0 done, 1 --compare: less than 95 % of the best was found somewhere, 2 wrong usage,\n"
    "             3 it could not be done: no such operator, records cannot be written\n";

enum { LINES_MAX = 512, TRIALS_LEAST = 8, ROUNDS = 5, TURNS = 12, LOG_MAX = 64 << 20, LINE_MAX = 1024 };
#define TRIAL_SECONDS 0.01
#define TURN_SECONDS  0.003
#define WORTH         0.98 /* of the rule's time: what is hardly faster is not worth a record */
#define SHARE         0.95

typedef struct options {
    double budget;
    int threads;
    bool json, quiet, compare, suite, terminal;
    const char *log;
} options;

typedef struct job {
    wfi_mem *mem;
    options o;
    wfi_device *d;
    wfi_roofs roofs;
    uint64_t begin;
    char (*line)[LINE_MAX];
    uint32_t nline;
    wfi_record *record;
    uint32_t nrecord;
    double least_share, shares; /* of --compare: the smallest, sum of logarithms */
    uint32_t compared;
} job;

/* What came of one problem. */
typedef struct outcome {
    const char *why; /* NULL, or why nothing was tuned */
    uint32_t ways, trials, best;
    double rule_ns, best_ns, exhaustive_ns; /* 0: not known */
} outcome;

/* ---- what is to be tuned ---- */

static bool add_line(job *j, const char *text, size_t n)
{
    while (n && (text[n - 1] == ' ' || text[n - 1] == '\r'))
        n--;
    if (n >= LINE_MAX)
        return false;
    for (uint32_t i = 0; i < j->nline; i++)
        if (strlen(j->line[i]) == n && !memcmp(j->line[i], text, n))
            return true;
    if (j->nline == LINES_MAX)
        return false;
    memcpy(j->line[j->nline], text, n);
    j->line[j->nline++][n] = 0;
    return true;
}

/* Lines "tune OPERATOR ..." of a log. */
static int add_log(job *j)
{
    wfi_file f = { .mem = j->mem };
    void *data;
    size_t bytes;
    uint32_t left = 0;
    if (wfi_file_read(&f, j->o.log, LOG_MAX, &data, &bytes) != WF_OK)
        return cli_error(CLI_FAILED, "tune", "%s", f.why);
    for (const char *p = data, *end = p + bytes; p < end;) {
        const size_t n = strcspn(p, "\n");
        const char *at = strstr(p, "tune: ");
        if (at && at < p + n)
            left += !add_line(j, at + 6, n - (size_t)(at + 6 - p));
        p += n + 1;
    }
    wfi_mem_free(j->mem, data);
    if (!j->nline)
        return cli_error(CLI_FAILED, "tune", "%s has no lines of WEFT_LOG=tune", j->o.log);
    if (left && !j->o.quiet)
        cli_say("weft tune: %u lines were left out", left);
    return CLI_OK;
}

/* "matmul 512x4096x1024 f32" is short for its operands. */
static bool short_matmul(int argc, char **argv, char *out, size_t bytes)
{
    int64_t n[3];
    const char *p = argc == 3 ? argv[1] : "";
    if (argc != 3 || strcmp(argv[0], "matmul") != 0 || !wf_dtype_of(argv[2]))
        return false;
    for (int i = 0; i < 3; i++) {
        const size_t len = strcspn(p, "x");
        if (!wfi_str_int64(p, len, &n[i]) || n[i] < 1 || (p[len] == 'x') != (i < 2))
            return false;
        p += len + (i < 2);
    }
    return wfi_str_print(out, bytes, "matmul %s[%lld,%lld] %s[%lld,%lld]", argv[2], (long long)n[0], (long long)n[1],
                         argv[2], (long long)n[1], (long long)n[2]);
}

static int add_words(job *j, int argc, char **argv)
{
    char line[LINE_MAX] = "";
    if (!short_matmul(argc, argv, line, sizeof line)) {
        size_t n = 0;
        for (int i = 0; i < argc; i++) {
            const size_t len = strlen(argv[i]);
            if (n + len + 2 > sizeof line)
                return cli_error(CLI_USAGE, "tune", "too many words");
            memcpy(line + n, argv[i], len);
            n += len;
            line[n++] = ' ', line[n] = 0;
        }
    }
    (void)add_line(j, line, strlen(line));
    return CLI_OK;
}

static double seconds(const job *j)
{
    return (double)(wfi_clock_ns() - j->begin) * 1e-9;
}

/* ---- progress ---- */

static void progress(const job *j, uint32_t line, uint32_t trial, uint32_t trials)
{
    enum { WIDTH = 24 };
    char bar[WIDTH + 1];
    if (!j->o.terminal)
        return;
    const double part = ((double)line + (double)trial / (double)(trials ? trials : 1)) / (double)j->nline;
    for (int i = 0; i < WIDTH; i++)
        bar[i] = part * WIDTH > i ? '#' : '.';
    bar[WIDTH] = 0;
    cli_progress("\r[%s] %u of %u, %.0f s: %.60s\033[K", bar, line + 1, j->nline, seconds(j), j->line[line]);
}

static void progress_end(const job *j)
{
    if (j->o.terminal)
        cli_progress("\r\033[K");
}

/* ---- one problem ---- */

static uint32_t trials_of(const wfi_tuner *t)
{
    const uint32_t fifth = t->n / 5;
    return fifth > TRIALS_LEAST ? fifth : t->n < TRIALS_LEAST ? t->n : TRIALS_LEAST;
}

/* The winner against the rule once more, in turns: the best of many measurements is partly luck. */
static void confirm(wfi_tuner *t, outcome *r)
{
    double rule = t->item[0].ns, best = t->item[r->best].ns;
    for (int i = 0; i < TURNS && r->best; i++) {
        rule = fmin(rule, wfi_tuner_time(t, 0, TURN_SECONDS));
        best = fmin(best, wfi_tuner_time(t, r->best, TURN_SECONDS));
    }
    r->rule_ns = rule, r->best_ns = best;
    if (r->best && !(best < WORTH * rule))
        r->best = 0, r->best_ns = rule;
}

static void search(job *j, wfi_tuner *t, uint32_t line, double until, outcome *r)
{
    const uint32_t trials = trials_of(t);
    for (uint32_t i; r->trials < trials && (i = wfi_search_next(&t->search)) < t->n; r->trials++) {
        if (r->trials > 1 && seconds(j) > until)
            break;
        progress(j, line, r->trials, trials);
        wfi_search_tell(&t->search, i, wfi_tuner_time(t, i, TRIAL_SECONDS));
    }
    r->best = wfi_search_best(&t->search);
    confirm(t, r);
}

/* All ways, in rounds; then the search, on what was measured. */
static bool compare(job *j, wfi_tuner *t, uint32_t line, outcome *r)
{
    double *ns = wfi_mem_zalloc(j->mem, t->n * sizeof *ns);
    for (int round = 0; ns && round < ROUNDS; round++)
        for (uint32_t i = 0; i < t->n; i++) {
            progress(j, line, (uint32_t)round * t->n + i, ROUNDS * t->n);
            const double v = wfi_tuner_time(t, i, TRIAL_SECONDS / ROUNDS);
            ns[i] = ns[i] > 0 && ns[i] < v ? ns[i] : v;
        }
    if (!ns)
        return false;
    const uint32_t trials = t->n / 5 ? t->n / 5 : 1;
    for (; r->trials < trials; r->trials++) {
        const uint32_t i = wfi_search_next(&t->search);
        wfi_search_tell(&t->search, i, ns[i]);
    }
    r->best = wfi_search_best(&t->search);
    r->best = ns[r->best] < WORTH * ns[0] ? r->best : 0;
    uint32_t of_all = 0;
    for (uint32_t i = 1; i < t->n; i++)
        of_all = ns[i] < ns[of_all] ? i : of_all;
    wfi_mem_free(j->mem, ns);
    r->rule_ns = r->best_ns = r->exhaustive_ns = INFINITY;
    for (int i = 0; i < TURNS; i++) { /* the least of many measurements is partly luck */
        r->rule_ns = fmin(r->rule_ns, wfi_tuner_time(t, 0, TURN_SECONDS));
        r->best_ns = fmin(r->best_ns, wfi_tuner_time(t, r->best, TURN_SECONDS));
        r->exhaustive_ns = fmin(r->exhaustive_ns, wfi_tuner_time(t, of_all, TURN_SECONDS));
    }
    if (!r->best)
        r->best_ns = r->rule_ns = fmin(r->best_ns, r->rule_ns);
    if (r->best == of_all)
        r->exhaustive_ns = r->best_ns;
    return true;
}

static void keep(job *j, const wfi_tuner *t, const outcome *r)
{
    wfi_text name = { .mem = j->mem };
    char params[WFI_BIND_PARAMS];
    wfi_workload p = t->problem;
    const wfi_bind b = wfi_workload_bind(&p, params);
    wfi_record *to = &j->record[j->nrecord];
    wfi_workload_print(&b, &name);
    *to = (wfi_record){ .choice = t->item[r->best].choice, .ns = (float)r->best_ns, .rule_ns = (float)r->rule_ns };
    wfi_records_name(wfi_text_str(&name), to->problem);
    j->nrecord += !name.oom;
    wfi_text_free(&name);
}

/* ---- output ---- */

static void print_time(wfi_text *t, double ns)
{
    wfi_text_fixed(t, ns / 1e3, ns < 1e5 ? 2 : 0);
}

static void write_line(const job *j, uint32_t line, const wfi_tuner *t, const outcome *r, wfi_text *out)
{
    wfi_text_addf(out, "%s\n  ", j->line[line]);
    if (r->why) {
        wfi_text_addf(out, "%s\n", r->why);
        return;
    }
    wfi_text_addf(out, "%u of %u ways: by rule ", r->trials, r->ways);
    print_time(out, r->rule_ns);
    wfi_text_add(out, " us, best ");
    print_time(out, r->best_ns);
    wfi_text_addf(out, " us (");
    wfi_text_fixed(out, r->rule_ns / r->best_ns, 2);
    wfi_text_addf(out, " x): ");
    wfi_tuner_print(t, r->best, out);
    if (r->exhaustive_ns > 0) {
        wfi_text_add(out, "; of the best of all ");
        wfi_text_fixed(out, 100 * r->exhaustive_ns / r->best_ns, 1);
        wfi_text_add(out, " %");
    }
    wfi_text_addc(out, '\n');
}

static void write_json(const job *j, uint32_t line, const wfi_tuner *t, const outcome *r, wfi_text *out)
{
    wfi_text_add(out, "{\"problem\":");
    wfi_text_json(out, j->line[line]);
    if (r->why) {
        wfi_text_add(out, ",\"why\":");
        wfi_text_json(out, r->why);
    } else {
        wfi_text_addf(out, ",\"ways\":%u,\"trials\":%u,\"rule_ns\":", r->ways, r->trials);
        wfi_text_f64(out, r->rule_ns);
        wfi_text_add(out, ",\"best_ns\":");
        wfi_text_f64(out, r->best_ns);
        if (r->exhaustive_ns > 0) {
            wfi_text_add(out, ",\"exhaustive_ns\":");
            wfi_text_f64(out, r->exhaustive_ns);
        }
        wfi_text_add(out, ",\"choice\":\"");
        wfi_tuner_print(t, r->best, out);
        wfi_text_addc(out, '"');
    }
    wfi_text_add(out, "}\n");
}

static int tune_line(job *j, uint32_t line)
{
    wfi_workload p;
    wfi_tuner t;
    char err[256] = "";
    outcome r = { .why = NULL };
    if (!wfi_workload_parse(j->line[line], j->o.threads, &p, err, sizeof err))
        return cli_error(j->o.log ? CLI_FAILED : CLI_USAGE, "tune", "%s", err);
    if (p.threads > j->o.threads) /* the pool has no more */
        return cli_error(CLI_USAGE, "tune", "threads=%d, but --threads is %d", p.threads, j->o.threads);
    const double left = j->o.budget - seconds(j), share = left / (double)(j->nline - line);
    r.why = left > 0 ? wfi_tuner_open(&t, j->d, &j->roofs, &p) : "the budget is used up";
    if (!r.why) {
        r.ways = t.n;
        if (j->o.compare)
            r.why = compare(j, &t, line, &r) ? NULL : "out of memory";
        else
            search(j, &t, line, seconds(j) + share, &r);
    }
    progress_end(j);
    if (!r.why && j->o.compare) {
        const double part = r.exhaustive_ns / r.best_ns;
        j->least_share = j->compared++ && j->least_share < part ? j->least_share : part;
        j->shares += log(part);
    } else if (!r.why)
        keep(j, &t, &r);
    wfi_text out = { .mem = j->mem };
    (j->o.json ? write_json : write_line)(j, line, &t, &r, &out);
    if (left > 0)
        wfi_tuner_close(&t);
    return cli_write(&out, "tune");
}

static int finish(job *j)
{
    const char *why;
    wfi_text out = { .mem = j->mem };
    if (j->nrecord && !wfi_records_keep(j->d->records, j->record, j->nrecord, &why))
        return cli_error(CLI_FAILED, "tune", "the records cannot be kept: %s", why);
    if (!j->o.compare || !j->compared)
        return CLI_OK;
    if (!j->o.json) {
        wfi_text_addf(&out, "%u problems: with a fifth of the trials ", j->compared);
        wfi_text_fixed(&out, 100 * exp(j->shares / j->compared), 1);
        wfi_text_add(&out, " % of the best (geometric mean), at least ");
        wfi_text_fixed(&out, 100 * j->least_share, 1);
        wfi_text_add(&out, " %\n");
    }
    const int status = cli_write(&out, "tune");
    return status ? status : j->least_share < SHARE ? CLI_NO : CLI_OK;
}

/* ---- the command ---- */

static int run_all(job *j)
{
    int status = CLI_OK;
    j->d = wfi_device_cpu.open(j->mem, 0, j->o.threads);
    j->record = wfi_mem_array(j->mem, LINES_MAX, sizeof *j->record);
    if (!j->d || !j->record || !j->d->api->roofs(j->d, &j->roofs))
        status = cli_error(CLI_FAILED, "tune", "out of memory");
    j->begin = wfi_clock_ns();
    for (uint32_t i = 0; i < j->nline && status == CLI_OK; i++)
        status = tune_line(j, i);
    status = status == CLI_OK ? finish(j) : status;
    wfi_mem_free(j->mem, j->record);
    if (j->d)
        j->d->api->close(j->d);
    return status;
}

static int processors(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* The value of option argv[*i]; NULL: it has none. */
static const char *value_of(int argc, char **argv, int *i)
{
    return *i + 1 < argc ? argv[++*i] : NULL;
}

static int read_options(int argc, char **argv, options *o, int *words)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *v = "";
        int64_t threads;
        if (!strcmp(a, "--json"))
            o->json = true;
        else if (!strcmp(a, "--quiet"))
            o->quiet = true;
        else if (!strcmp(a, "--compare"))
            o->compare = true;
        else if (!strcmp(a, "--suite"))
            o->suite = true;
        else if (!strcmp(a, "--log"))
            o->log = v = value_of(argc, argv, &i);
        else if (!strcmp(a, "--budget")) {
            v = value_of(argc, argv, &i);
            if (v && (!wfi_str_double(v, strlen(v), &o->budget) || !(o->budget > 0 && o->budget <= 1e6)))
                return cli_error(CLI_USAGE, "tune", "--budget takes seconds, not \"%.60s\"", v);
        } else if (!strcmp(a, "--threads")) {
            v = value_of(argc, argv, &i);
            if (v && (!wfi_str_int64(v, strlen(v), &threads) || threads < 1 || threads > 1024))
                return cli_error(CLI_USAGE, "tune", "--threads takes 1 ... 1024, not \"%.60s\"", v);
            o->threads = v ? (int)threads : 1;
        } else if (a[0] == '-')
            return cli_error(CLI_USAGE, "tune", "\"%.60s\" was not expected; weft tune --help", a);
        else
            argv[n++] = argv[i];
        if (!v)
            return cli_error(CLI_USAGE, "tune", "%s needs a value", a);
    }
    *words = n;
    if ((n > 0) + o->suite + (o->log != NULL) != 1)
        return cli_error(CLI_USAGE, "tune", "one operator, --log FILE or --suite was expected; weft tune --help");
    return CLI_OK;
}

static int run(wfi_mem *mem, int argc, char **argv)
{
    job j = { .mem = mem,
              .o = { .budget = 60, .threads = (int)wfi_env_int("WEFT_THREADS", 1, 1024, processors(), NULL) } };
    int words = 0, status = read_options(argc, argv, &j.o, &words);
    if (status != CLI_OK)
        return status;
    j.o.terminal = !j.o.quiet && isatty(STDERR_FILENO);
    if (!(j.line = wfi_mem_zalloc(mem, LINES_MAX * sizeof *j.line)))
        return cli_error(CLI_FAILED, "tune", "out of memory");
    for (size_t i = 0; j.o.suite && i < sizeof suite / sizeof *suite; i++)
        (void)add_line(&j, suite[i], strlen(suite[i]));
    status = j.o.log ? add_log(&j) : words ? add_words(&j, words, argv) : CLI_OK;
    status = status == CLI_OK ? run_all(&j) : status;
    wfi_mem_free(mem, j.line);
    return status;
}

const cli_command cli_tune = { "tune", "finds and records the fastest kernels for given sizes", help, run };
