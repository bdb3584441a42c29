/* cross_entropy_rows_grad(x, t, g; ignore, has_ignore, smoothing): the gradient of cross_entropy_rows by its logits:
 * g * (softmax(x) - (1 - a) * onehot(t) - a / V) in each row, 0 in ignored rows and where g is 0. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    const wfi_attr_cross_entropy_rows_grad *a = &v->a->cross_entropy_rows_grad;
    wf_dims x = wfi_shape(v->in[0]), last = WF_DIMS(-1);
    wf_tensor *t = v->in[1], *g = wf_unsqueeze_(v->in[2], last, v->site), *p = wf_softmax_(v->in[0], -1, v->site);
    wf_tensor *hot = wf_cast_(wf_one_hot_(t, x.d[x.n - 1], v->site), wfi_dtype(v->in[0]), v->site);
    p = wf_sub_(p, wf_mul_(hot, wfi_like(hot, 1 - a->smoothing), v->site), v->site);
    if (a->smoothing > 0)
        p = wf_sub_(p, wfi_like(p, a->smoothing / (double)x.d[x.n - 1]), v->site);
    if (a->has_ignore) {
        wf_tensor *skip = wf_unsqueeze_(wf_eq_(t, wfi_like(t, (double)a->ignore), v->site), last, v->site);
        g = wf_where_(skip, wfi_like(g, 0), g, v->site);
    }
    return wf_zmul_(g, p, v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* exp, maximum, sum */
{
    (void)c;
    wfi_op_cost_each(x, 0, 22, cost);
}

const wf_op_def wf_op_cross_entropy_rows_grad = {
    .call = "x, t, g; ignore:i64=0, has_ignore:bool, smoothing=0.0",
    .axes = "x[.. v!] t[..] g[..] -> dx[.. v!]",
    .types = "float, int, float -> float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .cost = cost,
    .onnx = "",
    .samples = "f32[5,7] i64[5]%7 f32[5]; f64[2,3,4] i64[2,3]%4 f64[2,3] smoothing=0.1; "
               "f32[6,5] i32[6]%5 f32[6] ignore=2 has_ignore=true",
};
