/* max(x, axes): the largest element along the given axes, of all of them if none are given (WF_NO_DIMS).
 * .keep leaves those axes in place with size 1. A NaN anywhere gives NaN; of nothing it is -inf. Elements that share
 * the maximum share its gradient equally. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    wf_dims shape = wfi_shape(v->in[0]), axes = wfi_axes(v->a->max.axes, shape.n), ones = { axes.n, { 0 } };
    for (int32_t i = 0; i < axes.n; i++)
        ones.d[i] = 1;
    bool keep = v->a->max.keep;
    wf_tensor *y = keep ? v->y : wf_broadcast(v->y, axes, ones), *g = keep ? v->g : wf_broadcast(v->g, axes, ones);
    wf_tensor *hit = wf_where(wf_eq(v->in[0], y), wfi_like(v->g, 1), wfi_like(v->g, 0));
    v->gin[0] = wf_zmul(wf_zdiv(g, wf_sum(hit, axes, .keep = true)), hit);
}

const wf_op_def wf_op_max = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r@axes] -> y[..a 1@axes&keep]",
    .primitive = "y = max(y, x)",
    .reduce = "max",
    .grad = grad,
    .ref = wfi_ref_max,
    .onnx = "ReduceMax 18",
    .samples = "f32[4,7] axes=1; f32[2,3,5] axes=0,2 keep=true; f32[3,4]; f64[70] axes=0; i32[5,4] axes=0",
};
