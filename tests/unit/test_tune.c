/* Tuning: all ways of doing something give the same bits; the search finds a good one without trying many; records are
 * kept, found, and believed only as far as they make sense. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "device/cpu/cpu.h"
#include "device/tuner.h"
#include "tune/records.h"
#include "weft/weft.h"

static wfi_mem mem;
static char folder[64]; /* for everything that this test writes */

static uint64_t random_state = 20261201; /* the same numbers in every run */
static double random_unit(void)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) * 0x1p-53;
}

/* ---- the search, on times that are made up ---- */

/* A machine that a surface of times is made of; each is hidden from the search, whose prior knows the roofs only. */
typedef struct machine {
    double l1, l2;         /* where its caches really end */
    double spill1, spill2; /* what leaving them costs */
    double pack, again;    /* by how much the prior is wrong about these */
    double start;          /* of a piece of work */
    double kind[4];
    double noise;
} machine;

static double time_of(const wfi_traits *t, const machine *m)
{
    const double pieces = ceil(t->pieces / t->threads) * t->threads / t->pieces;
    double ns = t->flops / 100 * pieces * m->kind[t->kind % 4];
    if (t->near > m->l1)
        ns *= 1 + m->spill1 * log2(t->near / m->l1);
    if (t->block > m->l2)
        ns *= 1 + m->spill2 * log2(t->block / m->l2);
    ns += m->pack * t->packed + m->again * t->again + m->start * t->pieces / t->threads;
    return ns * (1 + m->noise * random_unit());
}

/* Blocks of k, of n and of m, two orders, pieces: 5 * 6 * 4 * 2 * 2 ways of a product of 1024 x 1024 x 1024. */
static uint32_t made_up_ways(wfi_traits *t)
{
    const double n = 1024;
    uint32_t count = 0;
    for (double k = 64; k <= 1024; k *= 2)
        for (double block = 32; block <= 1024; block *= 2)
            for (double rows = 64; rows <= 512; rows *= 2)
                for (int kind = 0; kind < 2; kind++)
                    for (double pieces = 2; pieces <= 8; pieces *= 4)
                        t[count++] = (wfi_traits){ .useful = 2 * n * n * n,
                                                   .flops = 2 * n * n * n * (1 + 8 / rows),
                                                   .moved = 12 * n * n,
                                                   .packed = 4 * n * n * (kind ? 1 : n / rows),
                                                   .again = 8 * n * n * (n / k - 1) + 4 * n * n * n / block,
                                                   .near = k * 224,
                                                   .block = k * block * 4,
                                                   .loads = 0.5,
                                                   .pieces = pieces,
                                                   .threads = 2,
                                                   .kind = kind };
    return count;
}

static double prior_of(const wfi_traits *t)
{
    return t->flops / 100 + 0.05 * t->packed + 0.02 * t->again;
}

static double search_made_up(const machine *m, double *share_of_prior)
{
    static wfi_traits t[1024];
    static wfi_search_item item[1024];
    static double ns[1024];
    wfi_search s;
    const uint32_t n = made_up_ways(t);
    uint32_t first = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        item[i] = (wfi_search_item){ .prior = prior_of(&t[i]) };
        wfi_search_features(&t[i], 32 << 10, 1 << 20, item[i].x);
        ns[i] = time_of(&t[i], m);
        least = fmin(least, ns[i]);
        first = item[i].prior < item[first].prior ? i : first;
    }
    *share_of_prior = least / ns[first];
    wfi_search_begin(&s, item, n);
    for (uint32_t trial = 0; trial < n / 5; trial++) {
        const uint32_t i = wfi_search_next(&s);
        assert_in_range(i, 0, n - 1);
        assert_true(item[i].ns == 0); /* nothing is measured twice */
        assert_true(trial > 0 || i == 0);
        wfi_search_tell(&s, i, ns[i]);
    }
    return least / item[wfi_search_best(&s)].ns;
}

static void search_finds(void **state)
{
    (void)state;
    static const machine machines[] = {
        { 48e3, 2e6, 0.1, 0.3, 0.1, 0.05, 500, { 1, 1.3 }, 0.03 },   /* much as the prior thinks */
        { 16e3, 3e5, 0.8, 0.8, 0.01, 0.01, 500, { 1, 1 }, 0.05 },    /* small caches */
        { 1e6, 1e8, 0, 0, 1, 0.01, 100, { 1.5, 1 }, 0.05 },          /* huge ones; packing is dear */
        { 32e3, 1e6, 0.3, 0.1, 0.02, 0.3, 20000, { 1, 1.1 }, 0.05 }, /* reading again is dear, and so are pieces */
        { 48e3, 2e6, 0.2, 0.4, 0.2, 0.02, 2000, { 2, 1 }, 0.1 },     /* noise */
    };
    double worst = 1;
    bool prior_is_enough = true;
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        double of_prior, share = search_made_up(&machines[i], &of_prior);
        print_message("machine %zu: with a fifth of the trials %.1f %% of the best; the prior's first choice %.1f %%\n",
                      i, 100 * share, 100 * of_prior);
        worst = fmin(worst, share);
        prior_is_enough &= of_prior >= 0.95;
    }
    assert_true(worst >= 0.95);
    assert_false(prior_is_enough); /* else this would show nothing */
}

static void search_ends(void **state)
{
    (void)state;
    wfi_search_item item[3] = { { .prior = 1 }, { .prior = 2 }, { .prior = 3 } };
    wfi_search s;
    for (int i = 0; i < 3; i++)
        item[i].x[0] = 1;
    wfi_search_begin(&s, item, 3);
    assert_int_equal(wfi_search_best(&s), 0);
    for (uint32_t trial = 0; trial < 3; trial++) {
        const uint32_t i = wfi_search_next(&s);
        assert_in_range(i, 0, 2);
        wfi_search_tell(&s, i, i == 1 ? 5 : 9);
    }
    assert_int_equal(wfi_search_next(&s), 3);
    assert_int_equal(wfi_search_best(&s), 1);
}

/* ---- all ways, the same bits ---- */

static const char *const problems[] = {
    "matmul f32[70,300] f32[300,90]",
    "matmul f32[33,520]@1,33 f32[520,130]",
    "matmul f32[130,700] f32[700,100]@1,700",
    "matmul f32[3,130] f32[130,300]",
    "matmul f32[2,600] f32[600,70]@1,600",
    "matmul f64[61,300] f64[300,77]",
    "matmul f16[40,300] f16[300,70]",
    "matmul bf16[40,300] bf16[300,70]",
    "matmul i32[40,70] i32[70,50]",
    "matmul f32[5,40,33] f32[5,33,50]",
    "matmul f32[1100,140] f32[140,260]",
    "conv2d f32[2,16,13,11]@2288,1,176,16 f32[40,16,3,3] pad=1",
    "conv2d f32[2,16,40,40] f32[24,16,3,3]",
    "conv2d f32[1,40,30,30]@36000,1,1200,40 f32[100,40,1,1]",
    "conv2d f32[2,5,20,17] f32[33,5,5,3] pad=2 stride=2",
    "conv2d f32[2,24,16,16]@6144,1,384,24 f32[24,1,3,3] pad=1 groups=24",
    "conv2d bf16[2,16,13,11] bf16[40,16,3,3] pad=1 dilation=2",
    "conv2d f64[1,6,9,9] f64[10,3,3,3] groups=2",
    "conv2d_input_grad f32[2,24,13,11] f32[24,16,3,3] height=13 width=11 pad=1",
    "conv2d_input_grad f32[2,24,7,6] f32[24,16,3,3] height=14 width=11 pad=1 stride=2",
    "conv2d_weight_grad f32[3,16,13,11] f32[3,40,13,11] kernel_h=3 kernel_w=3 pad=1",
    "conv2d_weight_grad f32[3,48,20,20]@19200,1,960,48 f32[3,96,20,20]@38400,1,1920,96 kernel_h=3 kernel_w=3 pad=1",
    "conv2d_weight_grad f32[3,2,20,20] f32[3,8,18,18] kernel_h=3 kernel_w=3",
    "softmax f32[300,77] axis=-1",
    "softmax f32[130,8192] axis=-1", /* large enough to be written past the caches */
    "softmax f32[30,77,9] axis=1",
    "softmax bf16[60,200] axis=-1",
    "softmax_grad f32[100,129] f32[100,129] axis=-1",
    "log_softmax f64[50,100] axis=-1",
    "layer_norm f32[300,64] f32[64] f32[64]",
    "layer_norm f32[203,1600] f32[1600] _",
    "layer_norm f16[50,96] f16[96] f16[96]",
    "layer_norm_grad f32[100,192] f32[100,192] f32[192]",
    "cross_entropy_rows f32[200,70] i64[200]",
};

static wfi_roofs roofs_of(int threads)
{
    return (wfi_roofs){
        .name = "made up",
        .threads = threads,
        .flops = { [WF_F32] = 1e11, [WF_F64] = 5e10 },
        .level = { { "L1", 32 << 10, 1e11, 1e11 }, { "L2", 1 << 20, 5e10, 5e10 }, { "memory", 1u << 30, 1e10, 1e10 } },
        .levels = 3
    };
}

static size_t result_bytes(const wfi_view *v)
{
    size_t n = wf_dtype_bytes(v->dtype);
    for (int32_t i = 0; i < v->ndim; i++)
        n *= (size_t)v->dim[i];
    return n;
}

static uint32_t compare_ways(wfi_device *d, const char *line, int threads)
{
    wfi_workload p;
    wfi_tuner t;
    char err[256];
    const wfi_roofs roofs = roofs_of(threads);
    if (!wfi_workload_parse(line, threads, &p, err, sizeof err))
        fail_msg("%s: %s", line, err);
    const char *why = wfi_tuner_open(&t, d, &roofs, &p);
    const uint32_t n = t.n;
    char *first[WFI_BIND_OUT] = { NULL };
    for (uint32_t i = 0; i < n && !why; i++) {
        for (int k = 0; k < p.nout; k++) {
            memset(t.arg[k], 0x55, result_bytes(&p.out[k]));
        }
        assert_true(wfi_tuner_run(&t, i));
        for (int k = 0; k < p.nout; k++) {
            const size_t bytes = result_bytes(&p.out[k]);
            if (!i) {
                assert_non_null(first[k] = malloc(bytes));
                memcpy(first[k], t.arg[k], bytes);
            } else if (memcmp(first[k], t.arg[k], bytes) != 0) {
                wfi_text way = { .mem = &mem };
                wfi_tuner_print(&t, i, &way);
                fail_msg("%s, %d threads, %s: other bits", line, threads, way.p);
            }
        }
    }
    for (int k = 0; k < WFI_BIND_OUT; k++)
        free(first[k]);
    wfi_tuner_close(&t);
    return why ? 0 : n;
}

static void same_bits(void **state)
{
    (void)state;
    static const char *const sets[] = { "portable", "avx2", "avx512", "amx" };
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        uint32_t ways = 0, tuned = 0;
        setenv("WEFT_ISA", sets[s], 1);
        for (int threads = 1; threads <= 3; threads += 2) {
            wfi_device *d = wfi_device_cpu.open(&mem, 0, threads);
            assert_non_null(d);
            for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
                const uint32_t n = compare_ways(d, problems[i], threads);
                ways += n, tuned += n > 0;
            }
            d->api->close(d);
        }
        print_message("%s: %u problems, %u ways\n", sets[s], tuned, ways);
        assert_true(ways > 300);
    }
    unsetenv("WEFT_ISA");
}

/* ---- problems as text ---- */

static void problems_as_text(void **state)
{
    (void)state;
    static const struct {
        const char *line, *printed;
    } good[] = {
        { "matmul f32[8,16] f32[16,4]", "matmul f32[8,16] f32[16,4] threads=3" },
        { "matmul f32[8,16]@1,8 f32[16,4] threads=2", "matmul f32[8,16]@1,8 f32[16,4] threads=2" },
        { " softmax  f32[4,7]@7,1 axis=1 \n", "softmax f32[4,7] axis=1 threads=3" },
        { "layer_norm f32[4,7] _ f32[7]", "layer_norm f32[4,7] _ f32[7] eps=1e-5 threads=3" },
        { "neg f32[]", "neg f32[] threads=3" },
    };
    static const char *const bad[] = { "",
                                       "nothing f32[1]",
                                       "matmul f32[8,16]",
                                       "matmul f32[8,16] f32[17,4]",
                                       "matmul f32[8,16] f32[16,4] f32[1]",
                                       "matmul f32[8,16] g32[16,4]",
                                       "matmul f32[8,16 f32[16,4]",
                                       "matmul f32[8,x] f32[16,4]",
                                       "matmul f32[8,-1] f32[16,4]",
                                       "matmul f32[8,16]@1 f32[16,4]",
                                       "matmul f32[8,99999999999999999999] f32[16,4]",
                                       "matmul f32[1,1,1,1,1,1,1,1,1,1,1,1,1] f32[16,4]",
                                       "matmul f32[8,16] f32[16,4] threads=0",
                                       "softmax f32[4,7]",
                                       "softmax f32[4,7] axis=1 other=2",
                                       "conv2d f32[1,1,3,3] f32[1,1,3,3] stride=0",
                                       "]@[ f32" };
    wfi_workload p;
    char err[256], params[64];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        wfi_text t = { .mem = &mem };
        if (!wfi_workload_parse(good[i].line, 3, &p, err, sizeof err))
            fail_msg("%s: %s", good[i].line, err);
        const wfi_bind b = wfi_workload_bind(&p, params);
        wfi_workload_print(&b, &t);
        assert_string_equal(t.p, good[i].printed);
        wfi_text_free(&t);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        err[0] = 0;
        if (wfi_workload_parse(bad[i], 3, &p, err, sizeof err))
            fail_msg("\"%s\" was accepted", bad[i]);
        assert_true(err[0]);
    }
}

/* ---- records ---- */

static void use_cache(const char *name)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    setenv("XDG_CACHE_HOME", path, 1);
}

static wfi_record record_of(const char *problem, int32_t value)
{
    wfi_record r = { .choice = { { value, value + 1 } }, .ns = 1, .rule_ns = 2 };
    wfi_records_name(problem, r.problem);
    return r;
}

static void named(const void *user, char *text, size_t bytes)
{
    snprintf(text, bytes, "%s", (const char *)user);
}

static bool found(const char *where, const char *problem, int32_t value)
{
    wfi_choice c = { { 0 } };
    wfi_records *r = wfi_records_new(&mem, named, where);
    const bool is = wfi_records_find(r, problem, &c);
    wfi_records_free(r);
    if (is)
        assert_int_equal(c.of[0], value);
    return is;
}

static void keep(const char *where, const char *problem, int32_t value)
{
    const char *why;
    const wfi_record one = record_of(problem, value);
    wfi_records *r = wfi_records_new(&mem, named, where);
    if (!wfi_records_keep(r, &one, 1, &why))
        fail_msg("%s", why);
    wfi_records_free(r);
}

static void records_are_kept(void **state)
{
    (void)state;
    char path[200];
    struct stat st;
    use_cache("kept");
    assert_false(found("m", "a", 1));
    snprintf(path, sizeof path, "%s/kept", folder);
    assert_true(stat(path, &st) < 0); /* looking makes nothing */
    for (int32_t i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", (int)i);
        keep("m", name, i);
    }
    keep("m", "p7", 77);
    keep("other", "p7", 9);
    for (int32_t i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", (int)i);
        assert_true(found("m", name, i == 7 ? 77 : i));
    }
    assert_true(found("other", "p7", 9));
    assert_false(found("other", "p8", 0));
    assert_false(found("m", "q", 0));
    setenv("WEFT_TUNE", "off", 1);
    assert_false(found("m", "p7", 77));
    setenv("WEFT_TUNE", "use", 1);
    assert_true(found("m", "p7", 77));
    unsetenv("WEFT_TUNE");
}

/* The one file of records, opened. */
static int open_file(const char *name, char *path, size_t cap)
{
    char dir[200];
    snprintf(dir, sizeof dir, "%s/%s/weft/tuning", folder, name);
    DIR *d = opendir(dir);
    assert_non_null(d);
    path[0] = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strlen(e->d_name) > 60)
            snprintf(path, cap, "%s/%s", dir, e->d_name);
    closedir(d);
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    return fd;
}

static void damaged_records_are_ignored(void **state)
{
    (void)state;
    char path[500], c;
    use_cache("damaged");
    for (int kind = 0; kind < 4; kind++) {
        keep("m", "a", 3);
        assert_true(found("m", "a", 3));
        int fd = open_file("damaged", path, sizeof path);
        switch (kind) {
        case 0: /* a byte */
            assert_int_equal(pread(fd, &c, 1, 30), 1);
            c ^= 1;
            assert_int_equal(pwrite(fd, &c, 1, 30), 1);
            break;
        case 1: assert_int_equal(ftruncate(fd, 20), 0); break;
        case 2: assert_int_equal(fchmod(fd, 0666), 0); break; /* others could have written it */
        default: assert_int_equal(ftruncate(fd, 1 << 20), 0); break;
        }
        close(fd);
        assert_false(found("m", "a", 3));
    }
    keep("m", "a", 4); /* in its place */
    assert_true(found("m", "a", 4));
}

static void processes_keep_records_side_by_side(void **state)
{
    (void)state;
    enum { PROCESSES = 8 };
    pid_t child[PROCESSES];
    char name[16];
    use_cache("many");
    for (int i = 0; i < PROCESSES; i++) {
        snprintf(name, sizeof name, "p%d", i);
        if (!(child[i] = fork())) {
            const char *why;
            const wfi_record one = record_of(name, i);
            wfi_records *r = wfi_records_new(&mem, named, "m");
            _exit(wfi_records_keep(r, &one, 1, &why) ? 0 : 1);
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status = -1;
        assert_int_equal(waitpid(child[i], &status, 0), child[i]);
        assert_int_equal(status, 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        snprintf(name, sizeof name, "p%d", i);
        assert_true(found("m", name, i));
    }
}

/* A record for `line` with this choice; what the device makes of it. */
static bool bound_with(const char *line, wfi_choice choice, wfi_traits *traits)
{
    wfi_workload p;
    char err[256];
    const char *why;
    _Alignas(64) static char params[WFI_BIND_PARAMS];
    wfi_offer offer;
    assert_true(wfi_workload_parse(line, 2, &p, err, sizeof err));
    wfi_device *d = wfi_device_cpu.open(&mem, 0, 2);
    wfi_bind b = wfi_workload_bind(&p, params);
    wfi_text t = { .mem = &mem };
    wfi_workload_print(&b, &t);
    wfi_record one = { .choice = choice };
    wfi_records_name(t.p, one.problem);
    assert_true(wfi_records_keep(d->records, &one, 1, &why));
    wfi_text_free(&t);
    b.offer = &offer;
    if ((why = d->api->module_load(d, &b)))
        fail_msg("%s: %s", line, why);
    *traits = offer.traits;
    d->api->close(d);
    return b.tuned;
}

static void devices_use_records(void **state)
{
    (void)state;
    static const char *const lines[] = { "matmul f32[300,400] f32[400,500]",
                                         "conv2d f32[2,16,32,32] f32[32,16,3,3] pad=1",
                                         "conv2d_weight_grad f32[2,16,32,32] f32[2,32,30,30] kernel_h=3 kernel_w=3",
                                         "layer_norm f32[600,512] f32[512] _" };
    static const wfi_choice senseless[] = { { { -1, 0 } },
                                            { { 0, -5, 0, 0, 0, 0 } },
                                            { { INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX } },
                                            { { 0, 0, INT32_MIN, 0, 0, 0 } },
                                            { { 0, 0, 0, INT32_MIN, 0, 0 } },
                                            { { 0, 0, 0, 0, INT32_MIN, 0 } },
                                            { { 0, 0, 0, 0, INT32_MAX, -1 } } };
    wfi_traits rule, other;
    use_cache("device");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        assert_true(bound_with(lines[i], (wfi_choice){ { 0 } }, &rule));
        const int threads = i == 3 ? 4 : 5; /* number of the knob */
        wfi_choice one = { { 0 } };
        one.of[threads] = 1;
        assert_true(bound_with(lines[i], one, &other));
        assert_true(rule.threads == 2 && other.threads == 1);
        for (size_t k = 0; k < sizeof senseless / sizeof *senseless; k++) {
            (void)bound_with(lines[i], senseless[k], &other);
            if (k < 3 && bound_with(lines[i], senseless[k], &other))
                fail_msg("%s: senseless choice %zu was taken", lines[i], k);
        }
        assert_false(bound_with(lines[i], senseless[2], &other));
        assert_true(rule.alike == other.alike); /* declined: by rule */
    }
}

/* ---- whole programs ---- */

typedef struct told {
    char text[4000];
} told;

static void tell(void *user, const char *topic, const char *text)
{
    told *t = user;
    (void)topic;
    strncat(t->text, text, sizeof t->text - strlen(t->text) - 1);
}

static void product(const wf_ctx_opts *o, float *out, bool *tuned)
{
    static float x[300 * 70];
    told t = { "" };
    for (int i = 0; i < 300 * 70; i++)
        x[i] = (float)sin(i);
    wf_ctx_opts with = *o;
    with.log = "dispatch,tune", with.log_fn = tell, with.log_user = &t;
    wf_ctx *c = wf_ctx_new(&with);
    wf_scope s = wf_scope_begin(c, "step");
    wf_tensor *a = wf_tensor_from(c, WF_F32, WF_DIMS(60, 300), x), *b = wf_tensor_from(c, WF_F32, WF_DIMS(300, 70), x);
    assert_int_equal(wf_read(c, wf_matmul(a, b), out, 60 * 70 * sizeof *out), WF_OK);
    wf_scope_end(c, s);
    wf_ctx_close(c);
    *tuned = strstr(t.text, "(tuned)") != NULL;
    if (!strstr(t.text, "tune: matmul f32[60,300] f32[300,70] threads=2\n"))
        fail_msg("%s", t.text);
}

static void programs_use_records(void **state)
{
    (void)state;
    static float before[60 * 70], after[60 * 70];
    const wf_ctx_opts o = { .size = sizeof o, .threads = 2, .seed = 3 };
    bool tuned;
    wfi_traits traits;
    use_cache("program");
    product(&o, before, &tuned);
    assert_false(tuned);
    assert_true(bound_with("matmul f32[60,300] f32[300,70]", (wfi_choice){ { 0, 64 } }, &traits));
    product(&o, after, &tuned);
    assert_true(tuned);
    assert_memory_equal(before, after, sizeof before);
}

static int make_folder(void **state)
{
    (void)state;
    wfi_mem_init(&mem, NULL, NULL, 0);
    snprintf(folder, sizeof folder, "/tmp/weft-tune-XXXXXX");
    unsetenv("WEFT_TUNE");
    unsetenv("WEFT_ISA");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(search_finds),
        cmocka_unit_test(search_ends),
        cmocka_unit_test(same_bits),
        cmocka_unit_test(problems_as_text),
        cmocka_unit_test(records_are_kept),
        cmocka_unit_test(damaged_records_are_ignored),
        cmocka_unit_test(processes_keep_records_side_by_side),
        cmocka_unit_test(devices_use_records),
        cmocka_unit_test(programs_use_records),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
