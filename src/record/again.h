/* again.h - a call of the library that records several operators, on a known trace.
 *
 * What such a call records is a function of its arguments and of the trace so far. So the same call, at the same record
 * of the same trace, with operands of the same ordinals, takes the same records again: they are handed out at once,
 * without being compared one by one.
 *
 *     wfi_call k = { .what = "linear", .name = name, .args = { out, m->id }, .in = { x } };
 *     if (wfi_again(c, &k, 1, &y, site))
 *         return y;
 *     ... the operators ...
 *     wfi_again_keep(c, &k, "fc1", 3, 1, &y);
 *
 * Only calls whose records hold no number of the host, no leaf and no effect are kept: those are refreshed by being
 * called. */
#ifndef WFI_RECORD_AGAIN_H
#define WFI_RECORD_AGAIN_H
#include "record/record.h"

typedef struct wfi_call {
    const char *what;     /* a literal: its address says which call */
    const char *name;     /* an argument by its text, or NULL */
    int64_t args[2];      /* all others that records depend on */
    wf_tensor *in[2];     /* in the step; [1] may be NULL */
    uint32_t trace, from; /* set by wfi_again */
} wfi_call;

/* True: the call is done, out[nout] (at most two). */
bool wfi_again(wf_ctx *c, wfi_call *k, uint32_t nout, wf_tensor **out, const char *site);
/* After the call was made otherwise. name: its text for good, n characters. */
void wfi_again_keep(wf_ctx *c, const wfi_call *k, const char *name, uint32_t n, uint32_t nout, wf_tensor *const *out);
/* Takes an operand into the step first, so that a leaf stands before the records of the call. False: an error. */
bool wfi_again_enter(wf_ctx *c, wf_tensor *t, const char *site);

#endif
