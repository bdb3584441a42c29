/* weft info */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/env.h"
#include "base/process.h"
#include "cli/cli.h"
#include "device/cpu/cpu.h"
#include "passes/passes.h"
#include "weft/weft.h"

static const char help[] =
    "usage: weft info [--json] [--measure]\n\n"
    "Prints the version, what the processor can do and which of it is used, caches, passes, the compiler for kernels "
    "of\n"
    "plans, and every environment variable that Weft reads, with its value.\n\n"
    "  --json     one JSON object\n"
    "  --measure  also what the machine can do at most: operations and bytes a second (some 20 ms)\n\n"
    "examples:\n"
    "  weft info\n"
    "  WEFT_ISA=avx2 weft info --measure\n"
    "  weft info --json | jq .environment\n\n"
    "exit status: 0 done, 2 wrong usage, 3 it could not be done\n";

enum { FEATURES = 10, CACHES = 3 };

typedef struct facts {
    const char *feature[FEATURES + 1]; /* NULL at the end */
    const char *isa;
    int processors;
    long cache[CACHES]; /* bytes; 0: not known */
    char compiler[512];
    bool measured;
    wfi_roofs roofs;
} facts;

static void find_features(facts *f)
{
    int n = 0;
#if defined __x86_64__
#define HAS(name)                                                                                                      \
    if (__builtin_cpu_supports(name))                                                                                  \
    f->feature[n++] = name
    __builtin_cpu_init();
    HAS("sse4.2");
    HAS("avx2");
    HAS("fma");
    HAS("bmi2");
    HAS("avx512f");
    HAS("avx512bw");
    HAS("avx512vl");
    HAS("avx512dq");
    HAS("avx512bf16");
#undef HAS
#endif
    f->feature[n] = NULL;
}

static void find(facts *f)
{
    static const int names[CACHES] = { _SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE };
    const char *cc = wfi_env_get("WEFT_CC"), *one[] = { cc, NULL }, *usual[] = { "cc", "gcc", "clang", NULL };
    cpu_set_t set;
    CPU_ZERO(&set);
    find_features(f);
    f->isa = wfi_isa_name(wfi_isa_best());
    f->processors = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    for (int i = 0; i < CACHES; i++) {
        long n = sysconf(names[i]);
        f->cache[i] = n > 0 ? n : 0;
    }
    if (wfi_env_empty("WEFT_CC") || !wfi_process_find(cc ? one : usual, f->compiler, sizeof f->compiler))
        f->compiler[0] = 0;
}

static bool measure(wfi_mem *mem, facts *f)
{
    int threads = (int)wfi_env_int("WEFT_THREADS", 1, 1024, f->processors, NULL);
    wfi_device *d = wfi_device_cpu.open(mem, 0, threads);
    f->measured = d && d->api->roofs(d, &f->roofs);
    if (d)
        d->api->close(d);
    return f->measured;
}

/* ---- text ---- */

static void rates(const wfi_roofs *r, wfi_text *t)
{
    wfi_text_addf(t, "at most     %d thread%s: ", r->threads, r->threads > 1 ? "s" : "");
    wfi_text_fixed(t, r->flops[WF_F32] / 1e9, 1);
    wfi_text_add(t, " Gflop/s of f32\n");
    for (int i = 0; i < r->levels; i++) {
        wfi_text_addf(t, "            %-8s read ", r->level[i].name);
        wfi_text_fixed(t, r->level[i].read / 1e9, 1);
        wfi_text_add(t, " GB/s, write ");
        wfi_text_fixed(t, r->level[i].write / 1e9, 1);
        wfi_text_add(t, " GB/s\n");
    }
}

static void write_text(const facts *f, wfi_text *t)
{
    wfi_text_addf(t, "weft        %d.%d.%d\n", WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH);
    wfi_text_addf(t, "processor   %d may be used; kernels for %s\n", f->processors, f->isa);
    wfi_text_add(t, "features   ");
    for (int i = 0; f->feature[i]; i++)
        wfi_text_addf(t, " %s", f->feature[i]);
    wfi_text_add(t, f->feature[0] ? "\ncaches     " : " none that Weft uses\ncaches     ");
    for (int i = 0; i < CACHES; i++)
        if (f->cache[i])
            wfi_text_addf(t, " L%d %ld KiB", i + 1, f->cache[i] >> 10);
    if (f->measured) {
        wfi_text_addc(t, '\n');
        rates(&f->roofs, t);
        wfi_text_add(t, "passes     ");
    } else
        wfi_text_add(t, "\npasses     ");
    for (size_t i = 0; wfi_passes_name(i); i++)
        wfi_text_addf(t, " %s", wfi_passes_name(i));
    wfi_text_addf(t, "\noperators   %d\ncompiler    %s\n\n%-18s %-18s %-43s %s\n", WFI_OP_COUNT,
                  f->compiler[0] ? f->compiler : "none", "variable", "value", "values", "what it does");
    for (const wfi_env_variable *v = wfi_env_list; v->name; v++) {
        const char *value = wfi_env_get(v->name);
        wfi_text_addf(t, "%-18s %-18s %-43s %s", v->name,
                      value                    ? value
                      : wfi_env_empty(v->name) ? "\"\""
                                               : "-",
                      v->values, v->what);
        if (*v->otherwise)
            wfi_text_addf(t, " (else: %s)", v->otherwise);
        wfi_text_addc(t, '\n');
    }
}

/* ---- JSON ---- */

static void write_rates(const wfi_roofs *r, wfi_text *t)
{
    wfi_text_addf(t, ",\"at_most\":{\"threads\":%d,\"flops_f32\":", r->threads);
    wfi_text_f64(t, r->flops[WF_F32]);
    wfi_text_add(t, ",\"levels\":[");
    for (int i = 0; i < r->levels; i++) {
        wfi_text_addf(t, "%s{\"name\":\"%s\",\"read\":", i ? "," : "", r->level[i].name);
        wfi_text_f64(t, r->level[i].read);
        wfi_text_add(t, ",\"write\":");
        wfi_text_f64(t, r->level[i].write);
        wfi_text_addc(t, '}');
    }
    wfi_text_add(t, "]}");
}

static void write_json(const facts *f, wfi_text *t)
{
    wfi_text_addf(t, "{\"version\":\"%d.%d.%d\",\"processors\":%d,\"isa\":\"%s\",\"features\":[", WEFT_VERSION_MAJOR,
                  WEFT_VERSION_MINOR, WEFT_VERSION_PATCH, f->processors, f->isa);
    for (int i = 0; f->feature[i]; i++)
        wfi_text_addf(t, "%s\"%s\"", i ? "," : "", f->feature[i]);
    wfi_text_addf(t, "],\"caches\":[%ld,%ld,%ld],\"operators\":%d,\"passes\":[", f->cache[0], f->cache[1], f->cache[2],
                  WFI_OP_COUNT);
    for (size_t i = 0; wfi_passes_name(i); i++)
        wfi_text_addf(t, "%s\"%s\"", i ? "," : "", wfi_passes_name(i));
    wfi_text_add(t, "],\"compiler\":");
    wfi_text_json(t, f->compiler[0] ? f->compiler : NULL);
    if (f->measured)
        write_rates(&f->roofs, t);
    wfi_text_add(t, ",\"environment\":{");
    for (const wfi_env_variable *v = wfi_env_list; v->name; v++) {
        wfi_text_addf(t, "%s\"%s\":", v == wfi_env_list ? "" : ",", v->name);
        wfi_text_json(t, wfi_env_empty(v->name) ? "" : wfi_env_get(v->name));
    }
    wfi_text_add(t, "}}\n");
}

static int run(wfi_mem *mem, int argc, char **argv)
{
    bool json = false, measured = false;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--json"))
            json = true;
        else if (!strcmp(argv[i], "--measure"))
            measured = true;
        else
            return cli_error(CLI_USAGE, "info", "\"%.60s\" was not expected; weft info --help", argv[i]);
    facts f = { .isa = NULL };
    wfi_text t = { .mem = mem };
    find(&f);
    if (measured && !measure(mem, &f))
        return cli_error(CLI_FAILED, "info", "out of memory");
    (json ? write_json : write_text)(&f, &t);
    return cli_write(&t, "info");
}

const cli_command cli_info = { "info", "the version, the machine, the environment", help, run };
