/* control.h - control flow that stays in the graph: functions that are called, chosen between, repeated.
 *
 *     static bool step(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out)     h: [n], x: [n] -> h, y
 *     {
 *         wf_tensor *w = wf_value(((net *)user)->w);
 *         out[0] = wf_tanh(wf_add(wf_matmul(w, in[0]), in[1]));
 *         out[1] = out[0];
 *         return true;
 *     }
 *
 *     wf_tensor *h[1] = { h0 }, *x[1] = { xs }, *y[1];                                   xs: [T,n] -> y: [T,n]
 *     wf_scan(c, step, &net, .carry = h, .ncarry = 1, .xs = x, .nxs = 1, .ys = y, .nys = 1);
 *
 * Plain `if` and `for` of C are recorded as they run; these calls are for what a plan is to decide or repeat by itself:
 * the trip count and the branch may hang on values, and a body that is repeated is planned once, however often.
 *
 * A body is a callback of ordinary calls. It may use tensors, numbers and variables from outside, and other control
 * flow; it has no effects: assigning, retaining, reading a value in it is an error. It is called once and recorded,
 * wherever history is kept or a step is recorded; in eager mode where no history is kept, each time that it is run.
 * Bodies that do the same over tensors of the same types are one function, planned and differentiated once: the layers
 * of a transformer, say. Results are the same bits in every mode.
 *
 * Each call returns the status; on an error all results are NULL. A message about something in a body has its line and
 * that of the call. */
#ifndef WEFT_CONTROL_H
#define WEFT_CONTROL_H
#include "weft/tensor.h"
#ifdef __cplusplus
extern "C" {
#endif

/* out[nout] = body(in[nin]): as if the body were called, but one node. */
WF_API wf_status wf_call_(wf_ctx *c, wf_body *body, void *user, int32_t nin, wf_tensor *const *in, int32_t nout,
                          wf_tensor **out, const char *site);
#define wf_call(c, body, user, nin, in, nout, out) wf_call_(c, body, user, nin, in, nout, out, WF_SITE)

/* out[nout] = then(in[nin]) where pred, a bool[], is true, otherwise(in[nin]) where it is false: only that one is
 * computed. Both give the same dtypes and shapes. Both are differentiated: what the one that was taken does not depend
 * on gets zeros. */
WF_API wf_status wf_cond_(wf_ctx *c, wf_tensor *pred, wf_body *then, wf_body *otherwise, void *user, int32_t nin,
                          wf_tensor *const *in, int32_t nout, wf_tensor **out, const char *site);
#define wf_cond(c, pred, then, otherwise, user, nin, in, nout, out)                                                    \
    wf_cond_(c, pred, then, otherwise, user, nin, in, nout, out, WF_SITE)

typedef struct wf_scan_opts {
    WF_HEAD;
    wf_tensor **carry WF_Z; /* [ncarry] what goes from step to step: initial values; behind the call the last ones */
    int32_t ncarry WF_Z;
    wf_tensor *const *xs WF_Z; /* [nxs] walked over along their first axes, which are equally long */
    int32_t nxs WF_Z;
    wf_tensor **ys WF_Z; /* [nys] what each step gives, stacked along a new first axis */
    int32_t nys WF_Z;
    int64_t length WF_Z; /* how many steps; default: what the first axis of xs says */
    bool reverse WF_Z;   /* from the last slice to the first; ys lie as xs do */
} wf_scan_opts;

/* For each slice: carry, y = body(carry, x). The body's inputs are the carries, then one slice of each x; its outputs
 * the new carries, of the dtypes and shapes of the old ones, then the ys. No steps: the carries stay, ys have no rows.
 * It is differentiated by a scan the other way round, over what the body's gradient reads of each step, stacked. */
WF_API wf_status wf_scan_(wf_ctx *c, wf_body *body, void *user, const wf_scan_opts *o, const char *site);
#define wf_scan(c, body, ...)         wf_scan_o(c, body, __VA_ARGS__, )
#define wf_scan_o(c, body, user, ...) wf_scan_(c, body, user, WF_OPTS(wf_scan_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_while_opts {
    WF_HEAD;
    wf_tensor **carry WF_Z; /* [ncarry], at least one: as for wf_scan */
    int32_t ncarry WF_Z;
    int64_t max WF_Z;       /* go round so often at most; 0: as often as it takes, and there is no gradient */
    wf_tensor **trips WF_Z; /* NULL, or where i64[] goes: how often it went round */
} wf_while_opts;

/* While more(carry) gives a bool[] that is true: carry = body(carry). Asking for a gradient through it without .max is
 * an error. With .max memory for so many steps is taken where a gradient is asked for. */
WF_API wf_status wf_while_(wf_ctx *c, wf_body *more, wf_body *body, void *user, const wf_while_opts *o,
                           const char *site);
#define wf_while(c, more, body, ...) wf_while_o(c, more, body, __VA_ARGS__, )
#define wf_while_o(c, more, body, user, ...)                                                                           \
    wf_while_(c, more, body, user, WF_OPTS(wf_while_opts, __VA_ARGS__), WF_SITE)

#ifdef __cplusplus
}
#endif
#endif
