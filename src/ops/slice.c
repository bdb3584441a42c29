/* slice(x, axis, start, len; step=1): elements start, start + step, ... of one axis, len of them.
 * A view: nothing is copied. */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const wfi_attr_slice *a = &c->a->slice;
    int64_t axis = a->axis < 0 ? a->axis + c->in[0].ndim : a->axis, n = c->in[0].dim[axis];
    if (a->step < 1 || a->len < 0 || a->start < 0 || a->start > n ||
        (a->len && (a->start >= n || (a->len - 1) > (n - 1 - a->start) / a->step))) {
        snprintf(err, bytes, "slice: elements %lld to %lld by %lld of axis %d, which has %lld", (long long)a->start,
                 (long long)(a->start + (a->len - 1) * a->step), (long long)a->step, (int)a->axis, (long long)n);
        return false;
    }
    return true;
}

static void grad(const wf_vjp *v) /* g into zeros */
{
    const wfi_attr_slice *a = &v->a->slice;
    wf_tensor *zeros = wf_broadcast_to_(wfi_like(v->g, 0), wfi_shape(v->in[0]), v->site);
    v->gin[0] =
        wf_slice_update_(zeros, v->g, a->axis, a->start, WF_OPTS(wf_slice_update_opts, .step = a->step), v->site);
}

const wf_op_def wf_op_slice = {
    .call = "x, axis, start:i64, len:i64; step:i64=1",
    .axes = "x[..a n:i*step+start@axis] -> y[..a i@axis]; i=len",
    .types = "any",
    .primitive = "y = x",
    .check = check,
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "",
    .samples = "f32[5,4] axis=0 start=1 len=3; f64[2,7] axis=-1 start=0 len=4 step=2; i32[6] axis=0 start=5 len=1; "
               "bf16[3,5,2] axis=1 start=1 len=2 step=3; f32[4,3] axis=0 start=2 len=0",
};
