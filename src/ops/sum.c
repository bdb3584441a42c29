/* sum(x, axes): the sum over the given axes, over all of them if none are given (WF_NO_DIMS).
 * .keep leaves the summed axes in place with size 1. An empty sum is 0. */
#include "ops/op.h"

static void grad(const wf_vjp *v) /* every summand gets the gradient of its sum */
{
    wf_dims shape = wfi_shape(v->in[0]), axes = wfi_axes(v->a->sum.axes, shape.n);
    wf_tensor *g = v->a->sum.keep || !axes.n ? v->g : wf_unsqueeze_(v->g, axes, v->site);
    v->gin[0] = wf_broadcast_to_(g, shape, v->site);
}

const wf_op_def wf_op_sum = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r@axes] -> y[..a 1@axes&keep]",
    .primitive = "y += x",
    .reduce = "sum",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "ReduceSum 13",
    .samples = "f32[4,7] axes=1; f32[2,3,5] axes=0,2 keep=true; f32[3,4]; f32[2,3] axes=-2; f64[70] axes=0; "
               "i32[5,4] axes=0; f32[0,3] axes=0; f32[]",
};
