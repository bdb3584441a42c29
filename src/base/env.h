/* env.h - the environment variables; nothing else in the library asks for them. Each stands in the table below and in
 * docs/environment.md (tools/house.sh compares). */
#ifndef WFI_BASE_ENV_H
#define WFI_BASE_ENV_H
#include <stdbool.h>
#include <stdint.h>

/* The value, borrowed from the environment; NULL if it is unset, empty, or the program runs with raised rights. */
const char *wfi_env_get(const char *name);

/* Is it set, and to nothing? */
bool wfi_env_empty(const char *name);

/* The value as a whole number in lo .. hi, or `otherwise` if it is unset. *bad (may be NULL) is set to the text of a
 * value that is no such number, and to NULL if all is well; `otherwise` is returned then, too. */
int64_t wfi_env_int(const char *name, int64_t lo, int64_t hi, int64_t otherwise, const char **bad);

/* True if it is set to anything but 0, no, off or false. */
bool wfi_env_flag(const char *name);

/* Variables of Weft's own, for `weft info`; the last one has no name. */
typedef struct wfi_env_variable {
    const char *name, *values, *otherwise; /* otherwise: where it is not set */
    const char *what;
} wfi_env_variable;
extern const wfi_env_variable wfi_env_list[];

#endif
