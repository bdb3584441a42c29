/* prod(x, axes): the product along the given axes, of all of them if none are given (WF_NO_DIMS). .keep leaves those
 * axes in place with size 1. The product of nothing is 1. */
#include "ops/op.h"

/* dy times the product of the others: y / x where no element of the group is 0, else by hand: with one zero only that
 * element has a gradient, the product of the rest; with more, none has. */
static void grad(const wf_vjp *v)
{
    const wfi_attr_prod *a = &v->a->prod;
    const char *s = v->site;
    wf_dims shape = wfi_shape(v->in[0]), axes = wfi_axes(a->axes, shape.n);
    wf_tensor *x = v->in[0], *g = a->keep ? v->g : wf_unsqueeze_(v->g, axes, s);
    wf_tensor *zero = wf_eq_(x, wfi_like(x, 0), s), *count = wf_cast_(zero, wfi_dtype(x), s);
    count = wf_sum_(count, axes, WF_OPTS(wf_sum_opts, .keep = true), s);
    wf_tensor *filled = wf_where_(zero, wfi_like(x, 1), x, s);
    wf_tensor *rest = wf_prod_(filled, axes, WF_OPTS(wf_prod_opts, .keep = true), s); /* of what is not 0 */
    wf_tensor *none = wf_eq_(count, wfi_like(count, 0), s), *one = wf_eq_(count, wfi_like(count, 1), s);
    wf_tensor *plain = wf_where_(none, wf_div_(rest, filled, s), wfi_like(x, 0), s);
    wf_tensor *single = wf_where_(wf_logical_and_(zero, one, s), rest, wfi_like(x, 0), s);
    v->gin[0] = wf_zmul_(g, wf_add_(plain, single, s), s);
}

const wf_op_def wf_op_prod = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r@axes] -> y[..a 1@axes&keep]",
    .types = "float",
    .primitive = "y *= x",
    .reduce = "prod",
    .grad = grad,
    .ref = wfi_ref_prod,
    .onnx = "ReduceProd 18",
    .samples = "f32[4,5] axes=1; f64[2,3,4] axes=0,2 keep=true; f64[6]",
};
