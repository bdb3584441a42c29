/* records.h - what was found to be the fastest way of doing something, kept on disk.
 *
 *     wfi_records *r = wfi_records_new(mem, machine, user);      machine writes "avx512 Some CPU 49152 2097152 ..."
 *     if (wfi_records_find(r, "matmul f32[512,512] f32[512,512] threads=2", &choice)) ...
 *
 * One file for each machine in $XDG_CACHE_HOME/weft/tuning (base/cache.h: 0700, sealed, verified; a damaged or foreign
 * one is as good as none). Its name is a SHA-256 of WFI_RECORDS_VERSION and the machine, so that records of other
 * machines and of versions whose kernels offer other choices are never seen. Read when the first one is asked for; a
 * program that was not tuned makes no folder. WEFT_TUNE=off: none are read.
 *
 * A record can only make a program faster or slower: all choices give the same bits, and kernels decline those that
 * make no sense to them (kernel/choice.h). */
#ifndef WFI_TUNE_RECORDS_H
#define WFI_TUNE_RECORDS_H
#include "base/mem.h"
#include "kernel/choice.h"

enum { WFI_RECORDS_VERSION = 1 }; /* of what the numbers of a choice mean; raise it with every change to a family's */

typedef struct wfi_records wfi_records;

typedef struct wfi_record {
    uint8_t problem[16]; /* wfi_records_name */
    wfi_choice choice;
    float ns, rule_ns; /* as measured: of this choice, and of the kernel's own rule */
} wfi_record;

/* Writes what the records are good for. Asked once there are records at all: to ask a processor for its name takes a
 * virtual machine 50 us. */
typedef void wfi_records_machine(const void *user, char *text, size_t bytes);

/* user: is to live as long as the records. NULL: out of memory. */
wfi_records *wfi_records_new(wfi_mem *mem, wfi_records_machine *machine, const void *user);
void wfi_records_free(wfi_records *r); /* NULL is accepted */

void wfi_records_name(const char *problem, uint8_t name[16]);
/* Thread-safe. */
bool wfi_records_find(wfi_records *r, const char *problem, wfi_choice *c);
/* Are there any? Then a search for one is worth its words. */
bool wfi_records_any(wfi_records *r);
/* Adds to what is on disk, or replaces what is there for the same problems; other processes may do so at the same time.
 * False: *why says it (borrowed from r). Records that were read before are not read again. */
bool wfi_records_keep(wfi_records *r, const wfi_record *new, uint32_t n, const char **why);

#endif
