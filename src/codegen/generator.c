/* One thread makes the kernels, in the order in which they were asked for. It allocates nothing: texts are made by who
 * asks, so that memory runs out in a place where that can be said. */
#include "codegen/generator.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/cache.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/process.h"

enum { BUCKETS = 256, ISA_FLAGS = 20, COMPILER_SECONDS = 60, PATH_BYTES = 1024 };

typedef struct kernel {
    wfi_code code; /* first: what is handed out */
    wfi_code_spec spec;
    char *text;
    void *library;
    char how[WFI_PROCESS_WHY + 32];
    struct kernel *next, *after; /* of the bucket, of the queue */
} kernel;

struct wfi_generator {
    wfi_mem *mem;
    const char *const *flags;
    char compiler[PATH_BYTES]; /* "": none; set before the thread starts */
    char identity[160];        /* of the compiler, part of every key */
    char *prelude;
    char search[2 * PATH_BYTES];
    const char *why;
    pid_t pid;
    _Atomic bool stop;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t work, done;
    pthread_t thread;
    bool looked, started, busy;
    kernel *bucket[BUCKETS], *first, *last;
    wfi_generator_stats n;
    /* Of the thread alone. */
    wfi_cache cache;
    bool open, broken;
};

/* What every kernel is compiled with, as the library's own are; then the flags of the instruction set. */
static const char *const flags[] = { "-x",
                                     "c",
                                     "-",
                                     "-o",
                                     "new",
                                     "-std=gnu11",
                                     "-O3",
                                     "-w",
                                     "-shared",
                                     "-fPIC",
                                     "-nostdlib",
                                     "-ffp-contract=off",
                                     "-fno-strict-aliasing",
                                     "-fwrapv",
                                     "-fno-math-errno",
                                     "-fno-trapping-math",
                                     "-fno-stack-protector",
                                     "-s",
                                     "-Wl,-z,noexecstack,-z,relro,-z,now,-z,noseparate-code" };
static const struct {
    const char *isa, *flag[ISA_FLAGS]; /* NULL behind the last */
} isa_flags[] = {
#include "code_flags.inc"
};

/* ---- the compiler ---- */

/* A driver that was exchanged is another compiler. */
static bool identify(wfi_generator *g)
{
    struct stat st;
    if (stat(g->compiler, &st) < 0)
        return false;
    return wfi_str_print(g->identity, sizeof g->identity, "%lld %lld.%09ld %llu", (long long)st.st_size,
                         (long long)st.st_mtim.tv_sec, (long)st.st_mtim.tv_nsec, (unsigned long long)st.st_ino);
}

/* When the first kernel is asked for: most programs' start needs none. */
static void find_compiler(wfi_generator *g)
{
    if (g->looked)
        return;
    g->looked = true;
    const char *named = wfi_env_get("WEFT_CC"), *one[] = { named, NULL }, *usual[] = { "cc", "gcc", "clang", NULL };
    if (wfi_env_empty("WEFT_CC"))
        g->why = "WEFT_CC is empty";
    else if (!g->flags)
        g->why = "not compiled for this instruction set";
    else if (!wfi_process_find(named ? one : usual, g->compiler, sizeof g->compiler) || !identify(g))
        g->why = named ? "WEFT_CC names no compiler" : "no compiler in PATH";
    if (g->why)
        g->compiler[0] = 0;
}

wfi_generator *wfi_generator_new(wfi_mem *mem, const char *isa)
{
    wfi_generator *g = wfi_mem_zalloc(mem, sizeof *g);
    if (!g)
        return NULL;
    g->mem = mem;
    g->pid = getpid();
    g->cache.dir = -1;
    for (size_t i = 0; i < sizeof isa_flags / sizeof *isa_flags; i++)
        if (wfi_str_eq(isa_flags[i].isa, isa))
            g->flags = isa_flags[i].flag;
    (void)pthread_mutex_init(&g->lock, NULL);
    (void)pthread_cond_init(&g->work, NULL);
    (void)pthread_cond_init(&g->done, NULL);
    return g;
}

const char *wfi_generator_why(wfi_generator *g)
{
    (void)pthread_mutex_lock(&g->lock);
    find_compiler(g);
    (void)pthread_mutex_unlock(&g->lock);
    return g->why;
}

/* ---- one kernel ---- */

static void key_of(const wfi_generator *g, const kernel *k, wfi_cache_key key)
{
    wfi_sha256 s = wfi_sha256_start();
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        wfi_sha256_add(&s, flags[i], strlen(flags[i]) + 1);
    for (const char *const *f = g->flags; *f; f++)
        wfi_sha256_add(&s, *f, strlen(*f) + 1);
    wfi_sha256_add(&s, g->compiler, strlen(g->compiler) + 1);
    wfi_sha256_add(&s, g->identity, strlen(g->identity) + 1);
    wfi_sha256_add(&s, g->prelude, strlen(g->prelude) + 1);
    wfi_sha256_add(&s, k->text, strlen(k->text));
    wfi_sha256_end(&s, key);
}

static bool load(wfi_generator *g, kernel *k, const wfi_cache_key key)
{
    char path[WFI_CACHE_PATH];
    wfi_cache_path(&g->cache, key, path);
    if (!(k->library = dlopen(path, RTLD_NOW | RTLD_LOCAL))) {
        const char *why = dlerror();
        (void)wfi_str_print(k->how, sizeof k->how, "tile machine: cannot be loaded: %s", why ? why : "");
        return false;
    }
    /* POSIX: what dlsym returns may be used as a function */
    void *at = dlsym(k->library, WFI_CODE_SYMBOL);
    wfi_fused_fn *fn = NULL;
    memcpy(&fn, &at, sizeof at);
    atomic_store_explicit(&k->code.how, "generated C", memory_order_release);
    atomic_store_explicit(&k->code.fn, fn, memory_order_release);
    return fn != NULL;
}

static bool compile(wfi_generator *g, kernel *k)
{
    char *argv[sizeof flags / sizeof *flags + ISA_FLAGS + 1], *env[] = { g->search, "LC_ALL=C", "TMPDIR=.", NULL };
    size_t n = 0;
    union { /* argv is not written to, but says so nowhere */
        const char *in;
        char *out;
    } a;
    a.in = g->compiler, argv[n++] = a.out;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        a.in = flags[i], argv[n++] = a.out;
    for (const char *const *f = g->flags; *f; f++)
        if (**f)
            a.in = *f, argv[n++] = a.out;
    argv[n] = NULL;
    wfi_process p = { .path = g->compiler,
                      .argv = argv,
                      .env = env,
                      .dir = g->cache.work,
                      .input = { g->prelude, k->text },
                      .seconds = COMPILER_SECONDS,
                      .stop = &g->stop };
    bool good = wfi_process_run(&p);
    if (!good)
        (void)wfi_str_print(k->how, sizeof k->how, "tile machine: %s", p.why);
    return good;
}

/* Found, made meanwhile by another process, or made now. */
static bool have(wfi_generator *g, kernel *k, const wfi_cache_key key, uint32_t *count)
{
    *count = 0;
    if (wfi_cache_find(&g->cache, key))
        return true;
    if (!wfi_cache_begin(&g->cache, key, &g->stop)) {
        (void)wfi_str_print(k->how, sizeof k->how, "tile machine: %s", g->cache.why);
        return false;
    }
    if (wfi_cache_find(&g->cache, key))
        return (void)wfi_cache_end(&g->cache, key, false), true;
    *count = 1;
    bool good = compile(g, k);
    if (!wfi_cache_end(&g->cache, key, good) && good) {
        (void)wfi_str_print(k->how, sizeof k->how, "tile machine: %s", g->cache.why);
        good = false;
    }
    return good;
}

static void make(wfi_generator *g, kernel *k)
{
    wfi_cache_key key;
    uint32_t compiled = 0;
    if (!g->open && !g->broken)
        g->broken = !(g->open = wfi_cache_open(&g->cache, "kernels"));
    bool good = !g->broken;
    if (!good)
        (void)wfi_str_print(k->how, sizeof k->how, "tile machine: %s", g->cache.why);
    else {
        key_of(g, k, key);
        good = have(g, k, key, &compiled) && load(g, k, key);
        /* A folder that is full or cannot be written is left once; a compiler that fails fails there as well. */
        if (!good && !atomic_load(&g->stop) && wfi_cache_leave(&g->cache))
            good = have(g, k, key, &compiled) && load(g, k, key);
    }
    if (!good)
        atomic_store_explicit(&k->code.how, k->how, memory_order_release);
    (void)pthread_mutex_lock(&g->lock);
    g->n.failed += !good;
    g->n.compiled += good ? compiled : 0;
    g->n.loaded += good ? !compiled : 0;
    (void)pthread_mutex_unlock(&g->lock);
}

/* ---- the thread ---- */

static void *run(void *arg)
{
    wfi_generator *g = arg;
    (void)pthread_mutex_lock(&g->lock);
    while (!atomic_load(&g->stop)) {
        kernel *k = g->first;
        if (!k) {
            g->busy = false;
            (void)pthread_cond_broadcast(&g->done);
            (void)pthread_cond_wait(&g->work, &g->lock);
            continue;
        }
        if (!(g->first = k->after))
            g->last = NULL;
        (void)pthread_mutex_unlock(&g->lock);
        make(g, k);
        (void)pthread_mutex_lock(&g->lock);
    }
    g->busy = false;
    (void)pthread_cond_broadcast(&g->done);
    (void)pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* Signals are the program's own business: its handlers must not run on a thread that it does not know. */
static bool start(wfi_generator *g)
{
    sigset_t all, before;
    const char *path = wfi_env_get("PATH");
    if (g->started)
        return true;
    (void)wfi_str_print(g->search, sizeof g->search, "PATH=%s", path ? path : "/usr/bin:/bin");
    sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &before);
    g->started = pthread_create(&g->thread, NULL, run, g) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return g->started;
}

/* ---- asking ---- */

/* NULL: out of memory. */
static char *finish(wfi_text *t)
{
    if (t->oom)
        wfi_text_free(t);
    return t->p;
}

/* Once, before the thread that reads it is there. */
static bool write_prelude(wfi_generator *g)
{
    wfi_text t = { .mem = g->mem };
    for (const char *const *piece = wfi_code_prelude; *piece && !g->prelude; piece++)
        wfi_text_add(&t, *piece);
    if (!g->prelude)
        g->prelude = finish(&t);
    return g->prelude != NULL;
}

static bool write_text(wfi_generator *g, kernel *k)
{
    wfi_text t = { .mem = g->mem };
    wfi_code_render(&k->spec, &t);
    k->text = finish(&t);
    return k->text != NULL;
}

static kernel *add(wfi_generator *g, const wfi_code_spec *s, kernel **bucket)
{
    kernel *k = wfi_mem_zalloc(g->mem, sizeof *k);
    if (!k)
        return NULL;
    k->spec = *s;
    if (!write_prelude(g) || !write_text(g, k) || !start(g)) {
        wfi_mem_free(g->mem, k->text);
        wfi_mem_free(g->mem, k);
        return NULL;
    }
    atomic_init(&k->code.how, "tile machine: the compiler is at work");
    k->next = *bucket;
    *bucket = k;
    *(g->last ? &g->last->after : &g->first) = k;
    g->last = k;
    g->n.asked++;
    g->busy = true;
    (void)pthread_cond_signal(&g->work);
    return k;
}

wfi_code *wfi_generator_ask(wfi_generator *g, const wfi_code_spec *s)
{
    (void)pthread_mutex_lock(&g->lock);
    find_compiler(g);
    kernel **bucket = &g->bucket[wfi_hash64(s, sizeof *s, 0) % BUCKETS], *k = *bucket;
    while (k && memcmp(&k->spec, s, sizeof *s) != 0)
        k = k->next;
    if (!k && g->compiler[0])
        k = add(g, s, bucket);
    (void)pthread_mutex_unlock(&g->lock);
    return k ? &k->code : NULL;
}

void wfi_generator_wait(wfi_generator *g)
{
    (void)pthread_mutex_lock(&g->lock);
    while (g->busy && !atomic_load(&g->stop))
        (void)pthread_cond_wait(&g->done, &g->lock);
    (void)pthread_mutex_unlock(&g->lock);
}

wfi_generator_stats wfi_generator_counts(wfi_generator *g)
{
    (void)pthread_mutex_lock(&g->lock);
    wfi_generator_stats n = g->n;
    (void)pthread_mutex_unlock(&g->lock);
    return n;
}

void wfi_generator_free(wfi_generator *g)
{
    if (!g)
        return;
    const bool ours = g->pid == getpid(); /* a forked child has no thread to join, and the folder is not its own */
    atomic_store(&g->stop, true);
    if (g->started && ours) {
        (void)pthread_mutex_lock(&g->lock);
        (void)pthread_cond_signal(&g->work);
        (void)pthread_mutex_unlock(&g->lock);
        (void)pthread_join(g->thread, NULL);
    }
    if (ours)
        wfi_cache_close(&g->cache);
    for (int i = 0; i < BUCKETS; i++)
        for (kernel *k = g->bucket[i], *next; k; k = next) {
            next = k->next;
            if (k->library)
                (void)dlclose(k->library);
            wfi_mem_free(g->mem, k->text);
            wfi_mem_free(g->mem, k);
        }
    if (ours) {
        (void)pthread_cond_destroy(&g->work);
        (void)pthread_cond_destroy(&g->done);
        (void)pthread_mutex_destroy(&g->lock);
    }
    wfi_mem_free(g->mem, g->prelude);
    wfi_mem_free(g->mem, g);
}
