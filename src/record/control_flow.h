/* control_flow.h - what the calls of weft/control.h share. */
#ifndef WFI_RECORD_CONTROL_FLOW_H
#define WFI_RECORD_CONTROL_FLOW_H
#include "record/flow_rec.h"
#include "weft/control.h"

typedef struct wfi_control { /* a call, for messages and callbacks */
    const char *call, *site;
    void *user;
} wfi_control;

/* Do callbacks simply run here? In eager mode and outside steps, where no history is kept. */
static inline bool wfi_control_runs(const wf_ctx *c)
{
    return c->run_now && !wfi_flow_history(c);
}

/* Each false: a pending error. */
bool wfi_control_ready(wf_ctx *c, const char *call, bool bodies, int32_t nin, const void *in, int32_t nout,
                       const void *out, const char *site);
/* An operand, a number as a tensor. */
bool wfi_control_operand(wf_ctx *c, const char *call, const char *what, int32_t i, wf_tensor *t, wf_tensor **made,
                         const char *site);
bool wfi_control_carry(wf_ctx *c, const char *call, int32_t i, uint32_t was, const char *was_site, uint32_t is,
                       const char *is_site, const char *site);
bool wfi_control_bool(wf_ctx *c, const wfi_control *k, uint32_t type, const char *made);
/* Calls the body; out[nout] is all there. */
bool wfi_control_body(wf_ctx *c, const wfi_control *k, wf_body *body, wf_tensor *const *in, uint32_t nout,
                      wf_tensor **out);
/* The end of a call: its results are NULL unless ok. */
wf_status wfi_control_done(wf_ctx *c, bool ok, int32_t n, wf_tensor **out);

/* ---- control_run.c: by running the callbacks ---- */
bool wfi_control_scan(wf_ctx *c, const wfi_control *k, wf_body *body, const wf_scan_opts *o, int64_t steps,
                      const uint32_t *type, wf_tensor *const *in, wf_tensor **out);
bool wfi_control_while(wf_ctx *c, const wfi_control *k, wf_body *more, wf_body *body, const wf_while_opts *o,
                       wf_tensor *const *in, wf_tensor **out);

#endif
