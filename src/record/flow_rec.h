/* flow_rec.h - recording the body of a control-flow call as a function, and emitting the node.
 *
 *     wfi_recording b;
 *     if (wfi_flow_begin(c, &b, "wf_scan", site)) {
 *         in[i] = wfi_capture_input(c, type, site);            the inputs, in order, first
 *         ... builders ...
 *         id = wfi_flow_finish(c, &b, nin, nout, out);          what leads to out[] as an interned function
 *     }
 *     wfi_flow_end(c, &b);                                      the step around goes on
 *     operand = wfi_flow_leaf(c, &b, i, site);                  what the body used from outside, one more input each
 *     wfi_flow_free(c, &b);
 */
#ifndef WFI_RECORD_FLOW_REC_H
#define WFI_RECORD_FLOW_REC_H
#include "record/capture.h"

typedef struct wfi_lift { /* a tensor from outside that the body uses */
    wf_tensor *t;
    uint64_t tag; /* its place in the step around */
    uint32_t record;
} wfi_lift;

typedef struct wfi_leaf { /* a further input of the function: where its value comes from */
    uint32_t op;          /* VALUE, INPUT or SCALAR */
    uint32_t type, layout;
    wf_var *var;
    wf_tensor *t; /* INPUT: a tensor of the step around; NULL: made in the body, buf holds it */
    wfi_buf *buf;
    uint64_t bits; /* SCALAR */
} wfi_leaf;

typedef struct wfi_recording {
    wfi_aside aside;
    struct wfi_recording *around;
    uint32_t vserial; /* values of variables that the step around remembers */
    wfi_lift *lift;
    size_t nlift, cap_lift;
    wfi_leaf *leaf;
    size_t nleaf, cap_leaf;
} wfi_recording;

bool wfi_flow_begin(wf_ctx *c, wfi_recording *b, const char *name, const char *site);
/* Makes an interned function of what leads from in[nin] to out[nout]; any tensors of the recording may be its inputs.
 * Leaves that are none of them become further inputs, b->leaf. 0 and a pending error: it cannot be one. */
uint32_t wfi_flow_finish(wf_ctx *c, wfi_recording *b, uint32_t nin, wf_tensor *const *in, uint32_t nout,
                         wf_tensor *const *out, const char *name, const char *site);
void wfi_flow_end(wf_ctx *c, wfi_recording *b);
wf_tensor *wfi_flow_leaf(wf_ctx *c, const wfi_recording *b, size_t i, const char *site);
void wfi_flow_free(wf_ctx *c, wfi_recording *b);

/* The node itself: in[wfi_flow_nin(f)] -> out[wfi_flow_nout(f)]. The operands' types are right. */
bool wfi_flow_emit(wf_ctx *c, const wfi_flow *f, wf_tensor *const *in, wf_tensor **out, const char *site);
/* The same; where history is kept, a node that gives what its gradient will read as well. out as above, without that.
 */
bool wfi_flow_call(wf_ctx *c, wfi_flow f, wf_tensor *const *in, wf_tensor **out, const char *site);
/* Emits the nodes of a function over in[nin]; value[nvalue] is set. */
bool wfi_flow_inline(wf_ctx *c, const wfi_func *f, wf_tensor *const *in, wf_tensor **value, const char *site);
bool wfi_flow_history(const wf_ctx *c); /* is it kept here? */

#endif
