/* stack(n, x, axis): the n tensors x[0], x[1], ... of one shape along a new axis. */
#include <stdio.h>
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_tensor *x[32];
    int32_t axis = v->a->stack.axis;
    for (int32_t i = 0; i < v->nin; i++)
        x[i] = wf_unsqueeze_(v->in[i], WF_DIMS(axis), v->site);
    return wf_concat_(v->nin, x, axis, v->site);
}

static bool map(const wf_op_case *c, char *text, size_t bytes, char *err, size_t err_bytes)
{
    (void)err;
    (void)err_bytes;
    snprintf(text, bytes, "x*[..a] -> y[..a j#@axis]; j=%d", (int)c->nin);
    return true;
}

const wf_op_def wf_op_stack = {
    .call = "x*, axis",
    .axes = "x*[..a] -> y[..a j#@axis]; j=1",
    .map = map,
    .types = "any",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .onnx = "",
    .samples = "f32[2,3] f32[2,3] axis=1; f64[3] f64[3] f64[3] axis=0; i32[2] i32[2] axis=-1",
};
