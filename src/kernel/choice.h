/* choice.h - what a kernel decides for speed alone: tiers, blocks, threads. All ways give the same bits.
 *
 * prepare decides by rules. A family with a wfi_choices can be asked afterwards which of its decisions there are other
 * answers to, be told other answers, and describe how it would run then; who tunes needs to know nothing else of it:
 *
 *     k->prepare(..., params, &scratch);
 *     int n = k->choices->knobs(params, threads, knob);               knob[0] "tier": 2 or 6; knob[1] "k": 256 ...
 *     if (!k->choices->choose(params, &(wfi_choice){ { 6, 256 } }, threads, &scratch))
 *         k->choices->traits(params, &traits);
 *
 * A choice outlives the process and the version that made it, so choose believes nothing: what it cannot do it
 * declines, and then params and scratch are as they were. */
#ifndef WFI_KERNEL_CHOICE_H
#define WFI_KERNEL_CHOICE_H
#include <stddef.h>
#include <stdint.h>

enum { WFI_KNOBS = 6, WFI_KNOB_VALUES = 8 };

typedef struct wfi_choice {
    int32_t of[WFI_KNOBS]; /* 0: as the rule says */
} wfi_choice;

typedef struct wfi_knob {
    const char *name;
    int32_t n, value[WFI_KNOB_VALUES]; /* beside 0 */
} wfi_knob;

/* How a prepared kernel will run: what a time can be estimated from. Bytes and operations of the whole run. */
typedef struct wfi_traits {
    uint64_t alike; /* equal for choices that come to the same */
    double flops;   /* those for padding's sake included; */
    double useful;  /* not included */
    double moved;   /* operands and results, each once */
    double packed;  /* rearranged into scratch before they are used */
    double again;   /* read or written again, from L2 or further away */
    double near;    /* are to stay in L1, of one thread */
    double block;   /* are to stay in L2, of one thread */
    double loads;   /* vector loads for each multiply-add */
    double pieces;  /* of work, which the threads share */
    double threads;
    int32_t kind; /* 0 .. 7: ways of doing it that differ in more than sizes */
} wfi_traits;

typedef struct wfi_choices {
    int (*knobs)(const void *params, int threads, wfi_knob knob[WFI_KNOBS]); /* how many; 0: nothing to be chosen */
    const char *(*choose)(void *params, const wfi_choice *c, int threads, size_t *scratch);
    void (*traits)(const void *params, wfi_traits *t);
} wfi_choices;

#endif
