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
