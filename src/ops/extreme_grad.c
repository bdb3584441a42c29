/* extreme_grad(x, y, dy, axes; keep): the gradient of max and min: dy where x equals the extreme y, divided by how many
 * elements of the group do. Ties are counted in whole numbers, however many there are and whatever the type. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    const wfi_attr_extreme_grad *a = &v->a->extreme_grad;
    wf_dims shape = wfi_shape(v->in[0]), axes = wfi_axes(a->axes, shape.n);
    wf_tensor *y = a->keep ? v->in[1] : wf_unsqueeze_(v->in[1], axes, v->site);
    wf_tensor *dy = a->keep ? v->in[2] : wf_unsqueeze_(v->in[2], axes, v->site);
    wf_tensor *hit = wf_detach_(wf_eq_(v->in[0], y, v->site), v->site);
    wf_tensor *ones = wf_cast_(hit, WF_F64, v->site);
    wf_tensor *share = wf_div_(ones, wf_sum_(ones, axes, WF_OPTS(wf_sum_opts, .keep = true), v->site), v->site);
    return wf_zmul_(dy, wf_cast_(share, wfi_dtype(dy), v->site), v->site);
}

const wf_op_def wf_op_extreme_grad = {
    .call = "x, y, dy, axes:dims=all; keep:bool",
    .axes = "x[..a ..r!@axes] y[..a 1@axes&keep] dy[..a 1@axes&keep] -> dx[..a ..r!@axes]",
    .types = "float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .onnx = "",
    .samples = "f32[4,7] f32[4] f32[4] axes=1; f64[2,3] f64[] f64[]",
};
