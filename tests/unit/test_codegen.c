/* Generated kernels: the text; every row and type against the library's own, bit for bit, by gcc and by clang; and what
 * may go wrong around the compiler and the folder where kernels are kept: the program goes on, with the same bits. */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/cache.h"
#include "base/dtype.h"
#include "codegen/generator.h"
#include "device/cpu/cpu.h"

static wfi_mem mem;
static char folder[64]; /* of this test, for everything it writes */

static uint64_t random_state = 1; /* the same numbers in every run */
static int64_t random_below(int64_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)(random_state >> 33) % n;
}

/* ---- text ---- */

/* y = relu(a + b[0]) * a, and whether that is above a */
static const wfi_code_spec small = {
    .splat = 2,
    .nin = 2,
    .nout = 2,
    .nop = 4,
    .dtype = { WF_F32, WF_F32 },
    .out = { 2, 3 },
    .op = { { WFI_ROWOF_add, WF_F32, { 0, 1 }, 0 },
            { WFI_ROWOF_relu, WF_F32, { 2 }, 0 },
            { WFI_ROWOF_mul, WF_F32, { 3, 0 }, 0 },
            { WFI_ROWOF_gt, WF_F32, { 4, 0 }, 0 } },
};
static const char small_text[] = "OP float add_f32(float a, float b)\n{\n    return (float)(a + b);\n}\n"
                                 "OP float relu_f32(float a)\n{\n    return (float)(a < 0 ? 0 : a);\n}\n"
                                 "OP float mul_f32(float a, float b)\n{\n    return (float)(a * b);\n}\n"
                                 "OP uint8_t gt_f32(float a, float b)\n{\n    return (uint8_t)(a > b);\n}\n"
                                 "OP void block(float *r0, uint8_t *r1, const float *i0, float s1)\n{\n"
                                 "    LANES for (int l = 0; l < L; l++) {\n"
                                 "        const float x0 = (i0[l]);\n"
                                 "        const float t0 = add_f32(x0, s1);\n"
                                 "        const float t1 = relu_f32(t0);\n"
                                 "        const float t2 = mul_f32(t1, x0);\n"
                                 "        const uint8_t t3 = gt_f32(t2, x0);\n"
                                 "        r0[l] = (t2);\n"
                                 "        r1[l] = (t3);\n"
                                 "    }\n}\n"
                                 "void weft_kernel(void *const *at, int64_t n, int streams)\n{\n"
                                 "    float *y0 = at[0];\n    _Alignas(64) float r0[L];\n"
                                 "    uint8_t *y1 = at[1];\n    _Alignas(64) uint8_t r1[L];\n"
                                 "    const float *i0 = at[2];\n    _Alignas(64) float p0[L];\n"
                                 "    const float s1 = (*(const float *)at[3]);\n"
                                 "    for (int64_t i = 0; i < n; i += L) {\n"
                                 "        const int64_t m = n - i < L ? n - i : L;\n"
                                 "        INPUT(float, q0, i0, p0)\n"
                                 "        block(r0, r1, q0, s1);\n"
                                 "        RESULT(y0, r0)\n"
                                 "        RESULT(y1, r1)\n"
                                 "    }\n    STREAM_END\n}\n";

static void text(void **state)
{
    (void)state;
    wfi_text t = { .mem = &mem };
    wfi_code_render(&small, &t);
    assert_string_equal(wfi_text_str(&t), small_text);
    wfi_text_free(&t);
}

/* ---- bits ---- */

static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16, WF_I64, WF_I32, WF_U8, WF_BOOL };
enum { TYPES = sizeof types / sizeof *types, N = 331, ROOM = 64 * 44, PLACES = WFI_FUSED_OUT + 4 };
_Static_assert(ROOM >= 8 * N + 128, "room");

static const wfi_ew_kernels *rows_of_cpu(void)
{
    wfi_cpu cpu = { 0 };
    wfi_cpu_choose(&cpu, wfi_isa_best());
    return cpu.ew;
}

static wfi_generator *generator(const char *compiler)
{
    wfi_isa isa = wfi_isa_best();
    if (compiler)
        setenv("WEFT_CC", compiler, 1);
    else
        unsetenv("WEFT_CC");
    wfi_generator *g = wfi_generator_new(&mem, wfi_isa_name(isa < WFI_ISA_AVX512 ? isa : WFI_ISA_AVX512));
    assert_non_null(g);
    return g;
}

/* Inputs of a kernel of some rows: a choice, then three of the type. */
static wfi_code_spec spec_of(const int *row, int n, wf_dtype t, uint32_t splat, const wfi_ew_kernels *k)
{
    wfi_code_spec s = { .splat = splat, .nin = 4, .nout = (uint8_t)n, .nop = (uint8_t)n };
    s.dtype[0] = WF_BOOL;
    s.dtype[1] = s.dtype[2] = s.dtype[3] = (uint8_t)t;
    for (int q = 0; q < n; q++) {
        s.op[q] = (wfi_code_op){ .row = (uint8_t)row[q], .dtype = (uint8_t)t };
        for (int a = 0; a < k->row[row[q]].arity; a++)
            s.op[q].in[a] = (uint8_t)(k->row[row[q]].cond && a == 0 ? 0 : a + 1);
        s.out[q] = (uint8_t)q;
    }
    return s;
}

static double special(wf_dtype t, int64_t i)
{
    static const double real[] = { 0, -0., INFINITY, -INFINITY, NAN, 1e-40, -1e-40, 1, -1, 88.8, -104, 0.5, 3e38 };
    static const double whole[] = { 0, 1, -1, 2147483647, -2147483648., 7, -3 };
    if (t == WF_BOOL)
        return (double)random_below(2);
    if (t == WF_U8)
        return (double)random_below(256);
    if (t == WF_I32 || t == WF_I64)
        return random_below(3) ? (double)random_below(2001) - 1000 : whole[random_below(7)];
    return i % 5 == 0 ? real[random_below(13)] : ((double)random_below(1 << 20) - (1 << 19)) / 40000;
}

static void fill(wf_dtype t, void *p, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        wfi_dtype_store(t, p, i, special(t, i));
}

static bool same(wf_dtype t, const void *x, const void *y, int64_t i)
{
    size_t each = wf_dtype_bytes(t);
    bool real = t == WF_F32 || t == WF_F64 || t == WF_BF16 || t == WF_F16;
    return !memcmp((const char *)x + (size_t)i * each, (const char *)y + (size_t)i * each, each) ||
           (real && isnan(wfi_dtype_load(t, x, i)) && isnan(wfi_dtype_load(t, y, i)));
}

/* The rows of one kernel for one length: results aligned (then also streamed) or not. */
static void compare(const wfi_code_spec *s, wfi_fused_fn *fn, int64_t n, int streams, const wfi_ew_kernels *k)
{
    static _Alignas(64) char in[4][ROOM], made[WFI_FUSED_OUT][ROOM], want[ROOM];
    void *at[PLACES];
    const int64_t shift = streams ? 0 : 8;
    for (int i = 0; i < 4; i++) {
        fill((wf_dtype)s->dtype[i], in[i], n);
        at[s->nout + i] = in[i];
    }
    for (int q = 0; q < s->nout; q++) {
        memset(made[q], 0x55, sizeof made[q]);
        at[q] = made[q] + shift;
    }
    fn(at, n, streams);
    for (int q = 0; q < s->nout; q++) {
        const wfi_code_op *o = &s->op[q];
        const wfi_ew_about *about = &k->row[o->row];
        wf_dtype t = about->to_bool ? WF_BOOL : (wf_dtype)o->dtype;
        unsigned splat = 0;
        for (int a = 0; a < about->arity; a++)
            splat |= (s->splat >> o->in[a] & 1) << a;
        k->fn[o->row][o->dtype](want, in[o->in[0]], in[o->in[1]], in[o->in[2]], n, splat);
        for (int64_t i = 0; i < n; i++)
            if (!same(t, made[q] + shift, want, i))
                fail_msg("%s of %s, element %lld of %lld (%s, splat %u): %.17g, the row gives %.17g", about->name,
                         wf_dtype_name((wf_dtype)o->dtype), (long long)i, (long long)n, streams ? "streamed" : "plain",
                         splat, wfi_dtype_load(t, made[q] + shift, i), wfi_dtype_load(t, want, i));
        for (size_t i = (size_t)(n * (int64_t)wf_dtype_bytes(t) + shift); i < sizeof made[q]; i++)
            assert_int_equal(made[q][i], 0x55); /* nothing behind the results */
    }
}

typedef struct asked {
    wfi_code_spec spec;
    wfi_code *code;
} asked;

static int ask_all(wfi_generator *g, asked *out, const wfi_ew_kernels *k)
{
    int n = 0;
    for (int t = 0; t < TYPES; t++) {
        int row[WFI_FUSED_OUT], have = 0;
        for (int r = 0; r <= WFI_ROWOF_COUNT; r++) {
            if (r < WFI_ROWOF_COUNT && k->fn[r][types[t]])
                row[have++] = r;
            if (have == 0 || (have < WFI_FUSED_OUT && r < WFI_ROWOF_COUNT))
                continue;
            out[n].spec = spec_of(row, have, types[t], n % 3 == 0 ? 4 : n % 3 == 1 ? 0 : 11, k);
            out[n].code = wfi_generator_ask(g, &out[n].spec);
            if (out[n].code)
                assert_ptr_equal(wfi_generator_ask(g, &out[n].spec), out[n].code); /* asked again, found again */
            n++;
            have = 0;
        }
    }
    return n;
}

static void every_row(void **state)
{
    (void)state;
    static const char *const compilers[] = { "gcc", "clang" };
    static const int64_t lengths[] = { 1, 15, 16, 64, 100, 128, N };
    const wfi_ew_kernels *k = rows_of_cpu();
    for (int c = 0; c < 2; c++) {
        static asked a[TYPES * WFI_ROWOF_COUNT];
        wfi_generator *g = generator(compilers[c]);
        int n = ask_all(g, a, k);
        wfi_generator_wait(g);
        for (int i = 0; i < n && a[i].code; i++) {
            wfi_fused_fn *fn = atomic_load(&a[i].code->fn);
            if (!fn)
                fail_msg("%s: %s", compilers[c], atomic_load(&a[i].code->how));
            assert_string_equal(atomic_load(&a[i].code->how), "generated C");
            for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
                for (int streams = 0; streams < 2; streams++)
                    compare(&a[i].spec, fn, lengths[l], streams, k);
        }
        print_message("%s: %d kernels%s%s\n", compilers[c], n,
                      a[0].code ? "" : ", none compiled: ", a[0].code ? "" : wfi_generator_why(g));
        wfi_generator_free(g);
    }
}

/* ---- compilers that are none ---- */

static const char *write_script(const char *name, const char *body)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_true(f && fprintf(f, "#!/bin/sh\n%s\n", body) > 0 && fclose(f) == 0 && chmod(path, 0700) == 0);
    return path;
}

static void no_compiler(void **state)
{
    (void)state;
    static const char *const none[][2] = { { "", "WEFT_CC is empty" },
                                           { "/nowhere/cc", "WEFT_CC names no compiler" },
                                           { "no-such-compiler", "WEFT_CC names no compiler" },
                                           { "./cc", "WEFT_CC names no compiler" },
                                           { "/etc/passwd", "WEFT_CC names no compiler" } };
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        wfi_generator *g = generator(none[i][0]);
        assert_null(wfi_generator_ask(g, &small));
        assert_string_equal(wfi_generator_why(g), none[i][1]);
        wfi_generator_wait(g);
        wfi_generator_free(g);
    }
}

/* A compiler that does not do its work, and what `how` says. */
static void bad_compilers(void **state)
{
    (void)state;
    static const char *const bad[][3] = {
        { "fails", "echo 'k.c:1: error: no room' >&2; exit 3", "exit status 3: k.c:1: error: no room" },
        { "silent", "exit 0", "nothing was made" },
        { "killed", "kill -9 $$", "killed by signal 9" },
        { "rubbish", "echo rubbish > new", "cannot be loaded" },
        { "link", "ln -s /etc/passwd new", "nothing was made" },
        { "empty", "ulimit -f 0; exec cat > new", "" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        wfi_generator *g = generator(write_script(bad[i][0], bad[i][1]));
        wfi_code *k = wfi_generator_ask(g, &small);
        assert_non_null(k);
        wfi_generator_wait(g);
        assert_null(atomic_load(&k->fn));
        if (!strstr(atomic_load(&k->how), bad[i][2]))
            fail_msg("%s: \"%s\" does not say \"%s\"", bad[i][0], atomic_load(&k->how), bad[i][2]);
        assert_int_equal(wfi_generator_counts(g).failed, 1);
        wfi_generator_free(g);
    }
}

/* Closing does not wait for a compiler that hangs. */
static void closing(void **state)
{
    (void)state;
    wfi_generator *g = generator(write_script("hangs", "sleep 100"));
    assert_non_null(wfi_generator_ask(g, &small));
    usleep(50000);
    wfi_generator_free(g);
}

/* ---- the folder ---- */

static wfi_generator_stats counts_with(const char *cache, wfi_generator **keep)
{
    setenv("XDG_CACHE_HOME", cache, 1);
    wfi_generator *g = generator(NULL);
    wfi_code *k = wfi_generator_ask(g, &small);
    wfi_generator_wait(g);
    wfi_generator_stats n = wfi_generator_counts(g);
    if (k && n.failed)
        fail_msg("%s: %s", cache, atomic_load(&k->how));
    if (k) {
        compare(&small, atomic_load(&k->fn), 0, 0, rows_of_cpu());
        float a[100], b = 2, y[100];
        uint8_t z[100];
        for (int i = 0; i < 100; i++)
            a[i] = (float)i - 50;
        atomic_load (&k->fn)((void *[]){ y, z, a, &b }, 100, 0);
        for (int i = 0; i < 100; i++)
            assert_true(y[i] == (a[i] + b < 0 ? 0 : a[i] + b) * a[i] && z[i] == (y[i] > a[i]));
    }
    if (keep)
        *keep = g;
    else
        wfi_generator_free(g);
    return n;
}

/* The one entry of a cache, its path in out. */
static void entry_of(const char *cache, char *out, size_t cap)
{
    char dir[200];
    snprintf(dir, sizeof dir, "%s/weft/kernels", cache);
    DIR *d = opendir(dir);
    assert_non_null(d);
    *out = 0;
    for (struct dirent *e; (e = readdir(d));)
        if (strstr(e->d_name, ".so"))
            snprintf(out, cap, "%s/%.80s", dir, e->d_name);
    closedir(d);
    assert_true(*out);
}

static bool has_compiler(void)
{
    wfi_generator *g = generator(NULL);
    bool has = wfi_generator_why(g) == NULL;
    wfi_generator_free(g);
    return has;
}

static void kept(void **state)
{
    (void)state;
    char cache[100], entry[300], name[300];
    struct stat st;
    if (!has_compiler())
        skip();
    snprintf(cache, sizeof cache, "%s/kept", folder);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_int_equal(counts_with(cache, NULL).loaded, 1);
    snprintf(name, sizeof name, "%s/weft/kernels", cache);
    assert_true(stat(name, &st) == 0 && (st.st_mode & 0777) == 0700);
    entry_of(cache, entry, sizeof entry);
    assert_true(stat(entry, &st) == 0 && (st.st_mode & 0777) == 0600);

    /* one bit, anywhere: not loaded, made again */
    for (off_t at = 0; at < st.st_size; at += st.st_size / 7 + 1) {
        char byte = 0;
        int fd = open(entry, O_RDWR);
        assert_true(fd >= 0 && pread(fd, &byte, 1, at) == 1);
        byte ^= 4;
        assert_true(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
        assert_int_equal(counts_with(cache, NULL).compiled, 1);
    }
    /* cut short, others may write, a second name, a link, a pipe, another kernel's entry: not loaded either */
    assert_int_equal(truncate(entry, 100), 0);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_int_equal(chmod(entry, 0622), 0);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    snprintf(name, sizeof name, "%s/second", folder);
    assert_int_equal(link(entry, name), 0);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_true(unlink(entry) == 0 && symlink(name, entry) == 0);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_true(unlink(entry) == 0 && mkfifo(entry, 0600) == 0);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_int_equal(counts_with(cache, NULL).loaded, 1);
}

static void set_age(const char *path, time_t days)
{
    struct timespec t[2] = { { .tv_sec = time(NULL) - days * 24 * 3600 }, { .tv_sec = time(NULL) - days * 24 * 3600 } };
    assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* What is old goes, what is used stays, what killed processes left goes. */
static void old_entries(void **state)
{
    (void)state;
    char cache[100], entry[300], work[300], file[320];
    struct stat st;
    if (!has_compiler())
        skip();
    snprintf(cache, sizeof cache, "%s/old", folder);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    entry_of(cache, entry, sizeof entry);
    set_age(entry, 50);
    assert_int_equal(counts_with(cache, NULL).loaded, 1);
    assert_true(stat(entry, &st) == 0 && time(NULL) - st.st_mtime < 3600);
    set_age(entry, 61);
    snprintf(work, sizeof work, "%s/weft/kernels/work-0123", cache);
    snprintf(file, sizeof file, "%s/new", work);
    assert_int_equal(mkdir(work, 0700), 0);
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
    set_age(work, 1);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_int_not_equal(access(work, F_OK), 0);
}

static void hostile_names(void **state)
{
    (void)state;
    static const char *const names[] = { "with space", "quo'te\"", "semi;touch x", "$(touch x)",
                                         "new\nline",  "-o x",     "%s%n",         "@file" };
    char cache[300], name[400];
    if (!has_compiler())
        skip();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(cache, sizeof cache, "%s/%s", folder, names[i]);
        assert_int_equal(counts_with(cache, NULL).compiled, 1);
        assert_int_equal(counts_with(cache, NULL).loaded, 1);
        snprintf(name, sizeof name, "%s/weft/kernels", cache);
        assert_int_equal(access(name, F_OK), 0);
    }
    assert_int_not_equal(access("x", F_OK), 0);
}

/* Where kernels cannot be kept they are compiled all the same, in a folder that is gone afterwards. */
static void unusable(void **state)
{
    (void)state;
    char cache[100], name[200], long_name[5000], temporary[200];
    wfi_generator *g;
    if (!has_compiler())
        skip();
    snprintf(temporary, sizeof temporary, "%s/tmp", folder);
    assert_int_equal(mkdir(temporary, 0700), 0);
    setenv("TMPDIR", temporary, 1);
    memset(long_name, 'x', sizeof long_name);
    long_name[0] = '/';
    long_name[sizeof long_name - 1] = 0;
    assert_int_equal(counts_with(long_name, NULL).compiled, 1);
    snprintf(cache, sizeof cache, "%s/open", folder); /* a folder above that others may write */
    assert_true(mkdir(cache, 0700) == 0 && chmod(cache, 0777) == 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(counts_with(cache, NULL).compiled, 1);
    snprintf(cache, sizeof cache, "%s/file", folder); /* a file in the way */
    int fd = open(cache, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0 && close(fd) == 0);
    assert_int_equal(counts_with(cache, NULL).compiled, 1);
    assert_int_equal(counts_with("/proc/1/fdinfo", &g).compiled, 1); /* nothing can be made here */
    wfi_generator_free(g);
    assert_int_equal(counts_with("/dev/full", NULL).compiled, 1);
    if (geteuid() != 0) { /* for root nothing is read-only */
        snprintf(cache, sizeof cache, "%s/read-only", folder);
        snprintf(name, sizeof name, "%s/weft/kernels", cache);
        assert_int_equal(counts_with(cache, NULL).compiled, 1);
        char entry[300];
        entry_of(cache, entry, sizeof entry);
        assert_true(unlink(entry) == 0 && chmod(name, 0500) == 0);
        assert_int_equal(counts_with(cache, NULL).compiled, 1);
        assert_int_equal(chmod(name, 0700), 0);
    }
    assert_int_equal(rmdir(temporary), 0); /* nothing was left there */
    unsetenv("TMPDIR");
}

/* Many processes at once want the same kernels: each is compiled once, and all run it. */
static void races(void **state)
{
    (void)state;
    enum { PROCESSES = 64 };
    char cache[100];
    pid_t pid[PROCESSES];
    int compiled = 0;
    if (!has_compiler())
        skip();
    snprintf(cache, sizeof cache, "%s/races", folder);
    for (int i = 0; i < PROCESSES; i++)
        if ((pid[i] = fork()) == 0) {
            wfi_generator_stats n = counts_with(cache, NULL);
            _exit(n.failed ? 2 : (int)n.compiled);
        }
    for (int i = 0; i < PROCESSES; i++) {
        int status = 0;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) <= 1);
        compiled += WEXITSTATUS(status);
    }
    assert_int_equal(compiled, 1);
}

/* ---- the test's own folder ---- */

static int begin(void **state)
{
    (void)state;
    wfi_mem_init(&mem, NULL, NULL, 0);
    snprintf(folder, sizeof folder, "/tmp/weft-codegen-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/rm", "rm", "-rf", folder, (char *)NULL);
        _exit(1);
    }
    int status = 0;
    (void)waitpid(pid, &status, 0);
    return atomic_load(&mem.live) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text),          cmocka_unit_test(every_row),     cmocka_unit_test(no_compiler),
        cmocka_unit_test(bad_compilers), cmocka_unit_test(closing),       cmocka_unit_test(kept),
        cmocka_unit_test(old_entries),   cmocka_unit_test(hostile_names), cmocka_unit_test(unusable),
        cmocka_unit_test(races),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
