/* weft bisect: runs a program again and again, with more and more of what makes plans fast, until it goes wrong. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/env.h"
#include "base/file.h"
#include "cli/cli.h"
#include "passes/passes.h"

static const char help[] =
    "usage: weft bisect [--output] [--verbose] -- PROGRAM [ARGUMENT...]\n\n"
    "Finds what makes a program go wrong: one of the passes that make plans, one group of fused operators, memory "
    "that\n"
    "is shared, or compiled kernels. The program is run some ten times, with parts switched off by environment "
    "variables\n"
    "(WEFT_SKIP, WEFT_REUSE, WEFT_CC). It must do the same in every run: fixed seeds, no clock.\n\n"
    "  --output   wrong is: standard output or exit status differ from the run with everything switched off\n"
    "             (without it: the exit status is not 0)\n"
    "  --verbose  shows what the program writes to standard error\n\n"
    "examples:\n"
    "  weft bisect -- ./train --steps 5          exits with 1 where the loss is not what it must be\n"
    "  weft bisect --output -- ./predict x.png\n\n"
    "exit status: 0 found, 1 there is nothing to find, or it is something else, 2 wrong usage,\n"
    "             3 it could not be done: the program cannot be started\n";

enum { STAGES_MAX = 40, SKIP_MAX = 1 << 17, GROUPS_MAX = 8192 };

typedef struct group {
    char id[9];
    const char *line; /* what the log says of it, borrowed from the log */
} group;

typedef struct bisection {
    wfi_mem *mem;
    char *const *argv;
    bool output, verbose;
    int want; /* output of the reference run; -1: none */
    int want_status;
    int runs;
    bool failed; /* it could not be started: told already */
    char *skip;  /* SKIP_MAX bytes: "WEFT_SKIP=..." */
    /* fused groups */
    char *log;
    group *groups;
    uint32_t ngroup;
    char log_file[320]; /* "WEFT_LOG_FILE=/tmp/..." */
} bisection;

/* What is switched on, in the order of stages: memory, passes, compiled kernels. */
typedef struct stage {
    const char *what; /* for people */
    const char *cure; /* the setting that switches it off */
    const char *pass; /* NULL: not a pass */
} stage;

/* ---- one run ---- */

/* Passes from number `on` (counting from 0) on are left out, and groups [from, to). */
static void list_skips(bisection *b, size_t on, uint32_t from, uint32_t to)
{
    size_t n = 0;
    (void)wfi_str_print(b->skip, SKIP_MAX, "WEFT_SKIP=");
    n = strlen(b->skip);
    const size_t empty = n;
    for (size_t i = on; wfi_passes_name(i); i++) {
        (void)wfi_str_print(b->skip + n, SKIP_MAX - n, "%s%s", n > empty ? "," : "", wfi_passes_name(i));
        n += strlen(b->skip + n);
    }
    for (uint32_t i = from; i < to; i++) {
        (void)wfi_str_print(b->skip + n, SKIP_MAX - n, "%sfuse:%s", n > empty ? "," : "", b->groups[i].id);
        n += strlen(b->skip + n);
    }
}

typedef struct how {
    bool eager, reuse, compiled;
    size_t passes; /* so many are on */
    uint32_t skip_from, skip_to;
    bool log;
} how;

/* True: right. */
static bool right(bisection *b, const how *h)
{
    const char *why = "";
    int out = b->output ? cli_child_file() : -1;
    list_skips(b, h->passes, h->skip_from, h->skip_to);
    const char *set[8] = { h->eager ? "WEFT_MODE=eager" : "WEFT_MODE=lazy", b->skip,
                           h->reuse ? "WEFT_REUSE" : "WEFT_REUSE=0" };
    int n = 3;
    if (!h->compiled)
        set[n++] = "WEFT_CC=";
    set[n++] = h->log ? "WEFT_LOG=fusion" : "WEFT_LOG";
    set[n++] = h->log ? b->log_file : "WEFT_LOG_FILE";
    set[n] = NULL;
    cli_child c = { .argv = b->argv, .set = set, .out = out, .quiet = !b->verbose };
    bool good = cli_child_run(b->mem, &c, &why);
    b->runs++;
    if (!good) {
        b->failed = true;
        (void)cli_error(CLI_FAILED, "bisect", "%.200s cannot be started: %s", b->argv[0], why);
    } else if (b->output && b->want < 0) {
        b->want = out; /* the reference */
        b->want_status = c.status;
        return true;
    } else
        good = b->output ? c.status == b->want_status && cli_child_same(out, b->want) : c.status == 0;
    if (out >= 0)
        (void)close(out);
    return good;
}

static bool tell(bisection *b, const char *what, bool good)
{
    if (!b->failed)
        cli_say("run %2d  %-44s %s", b->runs, what, good ? "right" : "wrong");
    return good;
}

/* ---- groups ---- */

/* The program's fused groups, each once, from a run that logs them. */
static bool list_groups(bisection *b, const how *wrong)
{
    char name[256];
    const char *folder = wfi_env_get("TMPDIR");
    wfi_file f = { .mem = b->mem };
    size_t bytes = 0;
    void *data = NULL;
    how h = *wrong;
    int fd = wfi_str_print(name, sizeof name, "%s/weft-bisect-XXXXXX", folder ? folder : "/tmp") ? mkstemp(name) : -1;
    if (fd < 0)
        return false;
    (void)close(fd);
    (void)wfi_str_print(b->log_file, sizeof b->log_file, "WEFT_LOG_FILE=%s", name);
    h.log = true;
    (void)tell(b, "the same, listing fused groups", right(b, &h));
    bool ok = wfi_file_read(&f, name, (size_t)1 << 30, &data, &bytes) == WF_OK;
    (void)wfi_file_remove(name);
    b->log = data;
    b->groups = wfi_mem_array(b->mem, GROUPS_MAX, sizeof *b->groups);
    for (char *line = ok && b->groups ? b->log : NULL, *next; line && *line; line = next) {
        char *end = strchr(line, '\n');
        next = end ? end + 1 : line + strlen(line);
        if (end)
            *end = 0;
        if (strncmp(line, "fused ", 6) != 0 || strlen(line) < 15 || b->ngroup == GROUPS_MAX)
            continue;
        group g = { .line = line + 15 };
        memcpy(g.id, line + 6, 8);
        uint32_t i = 0;
        while (i < b->ngroup && strcmp(b->groups[i].id, g.id) != 0)
            i++;
        if (i == b->ngroup)
            b->groups[b->ngroup++] = g;
    }
    return b->ngroup > 0;
}

/* The first group with which it goes wrong, others being switched on in order. */
static int blame_group(bisection *b, const how *wrong)
{
    how h = *wrong;
    uint32_t lo = 0, hi;
    if (!list_groups(b, wrong)) {
        cli_say("no fused group is listed: does the program set .log of its context?");
        return CLI_OK;
    }
    hi = b->ngroup;
    h.skip_to = b->ngroup;
    h.skip_from = 0;
    if (!tell(b, "no group fused", right(b, &h))) {
        cli_say("it goes wrong without any fused group, too");
        return CLI_OK;
    }
    while (hi - lo > 1) { /* right with the first lo groups on, wrong with the first hi */
        char what[64];
        uint32_t mid = (lo + hi) / 2;
        h.skip_from = mid;
        (void)wfi_str_print(what, sizeof what, "%u of %u groups fused", (unsigned)mid, (unsigned)b->ngroup);
        *(tell(b, what, right(b, &h)) ? &lo : &hi) = mid;
        if (b->failed)
            return CLI_FAILED;
    }
    h.skip_from = hi - 1;
    h.skip_to = hi;
    const bool alone = tell(b, "all but one group fused", right(b, &h));
    wfi_text t = { .mem = b->mem };
    wfi_text_addf(&t, "group: fuse:%s %s\n", b->groups[hi - 1].id, b->groups[hi - 1].line);
    wfi_text_addf(&t, "cure: WEFT_SKIP=fuse:%s%s\n", b->groups[hi - 1].id,
                  alone ? "" : " does not cure it alone: an earlier group takes part");
    return cli_write(&t, "bisect");
}

/* ---- stages ---- */

static uint32_t list_stages(stage *s)
{
    uint32_t n = 0;
    s[n++] = (stage){ "memory that values share", "WEFT_REUSE=0", NULL };
    for (size_t i = 0; wfi_passes_name(i) && n < STAGES_MAX - 1; i++)
        s[n++] = (stage){ wfi_passes_name(i), NULL, wfi_passes_name(i) };
    s[n++] = (stage){ "compiled kernels", "WEFT_CC=", NULL };
    return n;
}

/* Everything up to and including stage k (from 1) is on. */
static how upto(const stage *s, uint32_t n, uint32_t k)
{
    how h = { .reuse = k > 0, .compiled = k == n };
    for (uint32_t i = 0; i < k; i++)
        h.passes += s[i].pass != NULL;
    return h;
}

static int blame(bisection *b, const stage *s, uint32_t n)
{
    char what[96];
    for (uint32_t k = 1; k <= n; k++) {
        const how h = upto(s, n, k);
        (void)wfi_str_print(what, sizeof what, "and with %s", s[k - 1].what);
        if (k < n ? tell(b, what, right(b, &h)) : false)
            continue; /* with everything on it is wrong: that was seen before */
        if (b->failed)
            return CLI_FAILED;
        wfi_text t = { .mem = b->mem };
        if (s[k - 1].pass)
            wfi_text_addf(&t, "guilty: pass %s\n", s[k - 1].pass);
        else
            wfi_text_addf(&t, "guilty: %s\n", s[k - 1].what);
        const bool fuse = s[k - 1].pass && !strcmp(s[k - 1].pass, "fuse");
        if (!fuse && s[k - 1].pass)
            wfi_text_addf(&t, "cure: WEFT_SKIP=%s\n", s[k - 1].pass);
        else if (!fuse)
            wfi_text_addf(&t, "cure: %s\n", s[k - 1].cure);
        const int status = cli_write(&t, "bisect");
        return status != CLI_OK || !fuse ? status : blame_group(b, &h);
    }
    return CLI_OK;
}

static int bisect(bisection *b)
{
    stage s[STAGES_MAX];
    const uint32_t n = list_stages(s);
    const how plain = upto(s, n, 0), all = upto(s, n, n);
    const bool reference = tell(b, "with everything switched off", right(b, &plain));
    if (b->failed)
        return CLI_FAILED;
    if (!reference) {
        const how eager = { .eager = true };
        const bool cured = tell(b, "eager", right(b, &eager));
        return cli_error(CLI_NO, "bisect",
                         cured ? "plans are to blame, but no pass: it is right with WEFT_MODE=eager only"
                               : "it goes wrong without any plan as well");
    }
    if (b->output && !tell(b, "the same once more", right(b, &plain)))
        return b->failed
                   ? CLI_FAILED
                   : cli_error(CLI_NO, "bisect", "two equal runs differ: the output depends on more than the plan");
    if (tell(b, "as it is", right(b, &all)))
        return cli_error(CLI_NO, "bisect", "it does not go wrong: there is nothing to find");
    return b->failed ? CLI_FAILED : blame(b, s, n);
}

static int run(wfi_mem *mem, int argc, char **argv)
{
    bisection b = { .mem = mem, .want = -1 };
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (!strcmp(argv[i], "--output"))
            b.output = true;
        else if (!strcmp(argv[i], "--verbose"))
            b.verbose = true;
        else
            return cli_error(CLI_USAGE, "bisect", "\"%.60s\" was not expected before --; weft bisect --help", argv[i]);
    if (i + 1 >= argc)
        return cli_error(CLI_USAGE, "bisect", "a program was expected behind --; weft bisect --help");
    b.argv = argv + i + 1;
    if (!(b.skip = wfi_mem_alloc(mem, SKIP_MAX)))
        return cli_error(CLI_FAILED, "bisect", "out of memory");
    const int status = bisect(&b);
    if (b.want >= 0)
        (void)close(b.want);
    wfi_mem_free(mem, b.skip);
    wfi_mem_free(mem, b.groups);
    wfi_mem_free(mem, b.log);
    return status;
}

const cli_command cli_bisect = { "bisect", "which pass or fused group makes a program go wrong", help, run };
