/* max(x, axes): the largest element along the given axes, of all of them if none are given (WF_NO_DIMS).
 * .keep leaves those axes in place with size 1. A NaN anywhere gives NaN; an axis without elements is an error.
 * Elements that share the extreme share its gradient equally. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    const wfi_attr_max *a = &v->a->max;
    wf_dims axes = wfi_axes(a->axes, wfi_shape(v->in[0]).n);
    v->gin[0] = wf_extreme_grad_(v->in[0], v->y, v->g, axes, WF_OPTS(wf_extreme_grad_opts, .keep = a->keep), v->site);
}

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    return wfi_op_needs_some(c, c->a->max.axes, "max", err, bytes);
}

const wf_op_def wf_op_max = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r@axes] -> y[..a 1@axes&keep]",
    .primitive = "y = max(y, x)",
    .reduce = "max",
    .grad = grad,
    .check = check,
    .ref = wfi_ref_max,
    .onnx = "ReduceMax 18",
    .samples = "f32[4,7] axes=1; f32[2,3,5] axes=0,2 keep=true; f32[3,4]; f64[70] axes=0; i32[5,4] axes=0",
};
