#include "base/env.h"
#include <stdlib.h>
#include <string.h>
#include "base/text.h"

const char *wfi_env_get(const char *name)
{
    const char *v = secure_getenv(name);
    return v && *v ? v : NULL;
}

bool wfi_env_empty(const char *name)
{
    const char *v = secure_getenv(name);
    return v && !*v;
}

int64_t wfi_env_int(const char *name, int64_t lo, int64_t hi, int64_t otherwise, const char **bad)
{
    const char *v = wfi_env_get(name);
    int64_t n = otherwise;
    bool right = !v || (wfi_str_int64(v, strlen(v), &n) && n >= lo && n <= hi);
    if (bad)
        *bad = right ? NULL : v;
    return right ? n : otherwise;
}

bool wfi_env_flag(const char *name)
{
    const char *v = wfi_env_get(name);
    return v && !wfi_str_eq(v, "0") && !wfi_str_eq(v, "no") && !wfi_str_eq(v, "off") && !wfi_str_eq(v, "false");
}

const wfi_env_variable wfi_env_list[] = {
    { "WEFT_MODE", "lazy, eager", "lazy", "how calls run" },
    { "WEFT_AUTOCAST", "bf16, f16, f32", "f32", "type of products in scopes that do not say it" },
    { "WEFT_F32_PRODUCTS", "fma, bf16x3", "fma", "how products of f32 are summed" },
    { "WEFT_THREADS", "1 ... 1024", "the processors", "threads that work on one operator" },
    { "WEFT_SEED", "1 ...", "1", "initial values, shuffling, dropout" },
    { "WEFT_ISA", "portable, avx2, avx512, avx512bf16, amx", "the largest", "the largest instruction set to use" },
    { "WEFT_DATA", "a folder", "Debian's", "where data sets are looked for" },
    { "WEFT_MEMORY_BUDGET", "MiB", "", "what a step's intermediate values should take" },
    { "WEFT_CC", "a compiler, or nothing", "cc, gcc, clang", "compiles kernels of plans in the background" },
    { "WEFT_TUNE", "use, off", "use", "whether records of weft tune choose between kernels' ways" },
    { "WEFT_SKIP", "passes, fuse:NUMBER", "", "what the compiler of plans leaves out" },
    { "WEFT_REUSE", "0, 1", "1", "0: no two values of a plan share memory" },
    { "WEFT_CHECK", "0, 1, ref", "0", "verify graphs and plans; run the reference around each pass" },
    { "WEFT_DUMP", "passes, recording, all", "", "graphs before and after passes" },
    { "WEFT_DUMP_DIR", "a folder", "the log", "where dumps go" },
    { "WEFT_LOG", "plan, passes, fusion, dispatch, tune, all", "", "what the library tells" },
    { "WEFT_LOG_FILE", "a file", "standard error", "where it tells it" },
    { NULL, NULL, NULL, NULL },
};
