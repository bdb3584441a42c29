/* Ways of doing something that differ in nothing but time: those asked for, those recorded as best, and which there
 * are. */
#include <string.h>
#include <unistd.h>
#if defined __x86_64__
#include <cpuid.h>
#endif
#include "device/cpu/cpu.h"
#include "device/workload.h"
#include "tune/records.h"

/* Is there a record of this problem? Words are made of it only if there are any records. */
static bool recorded(const wfi_cpu *d, const wfi_bind *b, wfi_choice *c)
{
    wfi_text t = { .mem = d->base.mem };
    if (!d->base.records || !wfi_records_any(d->base.records))
        return false;
    wfi_workload_print(b, &t);
    const bool found = !t.oom && wfi_records_find(d->base.records, wfi_text_str(&t), c);
    wfi_text_free(&t);
    return found;
}

const char *wfi_impl_choose(const wfi_cpu *d, wfi_bind *b, const wfi_choices *k, void *params)
{
    const char *why = NULL;
    wfi_choice best;
    if (!k)
        return NULL;
    b->tunable = true;
    if (b->offer)
        b->offer->nknob = k->knobs(params, b->threads, b->offer->knob);
    if (b->choice)
        why = k->choose(params, b->choice, b->threads, &b->scratch);
    else if (recorded(d, b, &best))
        b->tuned = !k->choose(params, &best, b->threads, &b->scratch);
    if (b->offer && !why)
        k->traits(params, &b->offer->traits);
    return why;
}

void wfi_cpu_identity(const void *cpu, char *text, size_t bytes)
{
    const wfi_cpu *d = cpu;
    char model[49] = "";
#if defined __x86_64__
    unsigned r[12] = { 0 };
    if ((unsigned)__get_cpuid_max(0x80000000u, NULL) >= 0x80000004u) {
        for (unsigned i = 0; i < 3; i++)
            (void)__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
        memcpy(model, r, sizeof r);
    }
#endif
    (void)wfi_str_print(text, bytes, "%s %s %ld %ld %ld", wfi_isa_name(d->isa), model, sysconf(_SC_LEVEL1_DCACHE_SIZE),
                        sysconf(_SC_LEVEL2_CACHE_SIZE), sysconf(_SC_LEVEL3_CACHE_SIZE));
}
