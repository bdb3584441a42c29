/* generator.h - kernels as C, compiled by the system's compiler in the background and kept on disk.
 *
 *     wfi_generator *g = wfi_generator_new(mem, "avx2");
 *     wfi_code *k = wfi_generator_ask(g, &spec);      NULL: no compiler (wfi_generator_why), or out of memory
 *     wfi_fused_fn *fn = atomic_load(&k->fn);         NULL until it is there; then the same bits, faster
 *
 * WEFT_CC names the compiler: a name to be found in PATH or an absolute path; set to nothing, there is none. Unset: cc,
 * gcc or clang, whichever is found first. Kernels are kept in $XDG_CACHE_HOME/weft/kernels (base/cache.h), named by
 * the SHA-256 of their text, the flags and the compiler. A compiler that fails or takes too long costs nothing but
 * speed: kernel->how says what runs and why. Thread-safe. */
#ifndef WFI_CODEGEN_GENERATOR_H
#define WFI_CODEGEN_GENERATOR_H
#include "base/mem.h"
#include "codegen/render.h"

typedef struct wfi_generator wfi_generator;

/* isa: of kernel/isa.h. NULL: out of memory. */
wfi_generator *wfi_generator_new(wfi_mem *mem, const char *isa);
/* Stops a compiler that runs. No kernel may be running or be used afterwards. NULL is accepted. */
void wfi_generator_free(wfi_generator *g);

/* The kernel for this spec, asked for if it is new. It lives as long as g. */
wfi_code *wfi_generator_ask(wfi_generator *g, const wfi_code_spec *s);
/* Why there is no compiler; NULL: there is one. */
const char *wfi_generator_why(wfi_generator *g);

/* Until everything that was asked for is there or has failed. */
void wfi_generator_wait(wfi_generator *g);

typedef struct wfi_generator_stats {
    uint32_t asked, compiled, loaded, failed; /* loaded: from the disk, not compiled by us */
} wfi_generator_stats;
wfi_generator_stats wfi_generator_counts(wfi_generator *g);

#endif
