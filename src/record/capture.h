/* capture.h - recording on the side: the open step is put away while something else is recorded and not run.
 *
 *     wfi_aside a;
 *     if (wfi_capture_begin(c, &a, "capture", site)) {
 *         in = wfi_capture_input(c, type, site);
 *         ... builders ...; c->r.scratch[0 .. c->r.n) is what they recorded
 *     }
 *     wfi_capture_end(c, &a);      nothing is left of it; the open step goes on
 */
#ifndef WFI_RECORD_CAPTURE_H
#define WFI_RECORD_CAPTURE_H
#include "record/record.h"

typedef struct wfi_aside { /* the step that waits */
    wfi_steprec r;
    uint64_t keybits;
    struct wfi_recording *body;
    uint32_t step_depth, depth;
    bool run_now, in_step, notape;
    wf_dtype autocast;
    bool open; /* begun */
} wfi_aside;

/* False and a pending error: not begun. end is called in either case. */
bool wfi_capture_begin(wf_ctx *c, wfi_aside *a, const char *name, const char *site);
void wfi_capture_end(wf_ctx *c, wfi_aside *a);
/* A leaf without contents. */
wf_tensor *wfi_capture_input(wf_ctx *c, uint32_t type, const char *site);

/* The OPTIM composite rec[at] of a captured function is called again: its numbers, as they are now. nn/optimiser.c */
enum { WFI_OPTIM_NUMBERS = 8 };
void wfi_optim_again(wf_ctx *c, const wfi_rec *rec, uint32_t at, double number[WFI_OPTIM_NUMBERS]);

#endif
