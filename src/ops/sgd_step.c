/* sgd_step(w, g, weight, h): one step of gradient descent for one parameter: its new value.
 * g: gradient of a sum, divided by weight f32[] first; a weight of 0 changes nothing. h: f64[8] = lr, momentum (not
 * used here), weight decay, the rest unused.   w -= lr * (g + wd*w) */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    if (c->in[3].dim[0] == 8)
        return true;
    snprintf(err, bytes, "sgd_step: h has %lld numbers, 8 were expected", (long long)c->in[3].dim[0]);
    return false;
}

/* h[i] as a number of type t */
static wf_tensor *number(const wf_args *v, int64_t i, wf_dtype t)
{
    return wf_cast_(wf_reshape_(wf_slice_(v->in[3], 0, i, 1, NULL, v->site), WF_NO_DIMS, v->site), t, v->site);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_dtype narrow = wfi_dtype(v->in[0]), t = narrow == WF_F64 ? WF_F64 : WF_F32;
    wf_tensor *w = wf_cast_(v->in[0], t, s), *weight = wf_cast_(v->in[2], t, s);
    wf_tensor *none = wf_eq_(weight, wfi_like(weight, 0), s);
    wf_tensor *g = wf_div_(wf_cast_(v->in[1], t, s), wf_where_(none, wfi_like(weight, 1), weight, s), s);
    wf_tensor *d = wf_add_(g, wf_mul_(number(v, 2, t), w, s), s);
    return wf_cast_(wf_where_(none, w, wf_sub_(w, wf_mul_(number(v, 0, t), d, s), s), s), narrow, s);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    (void)c;
    wfi_op_cost_each(x, 0, 3, cost);
}

const wf_op_def wf_op_sgd_step = {
    .call = "w, g, weight, h",
    .axes = "w[..a] g[..a] weight[] h[k!] -> w2[..a]",
    .outputs = "w2",
    .types = "float, float, f32, f64 -> float",
    .lower = lower,
    .check = check,
    .nograd = "an update has no history",
    .cost = cost,
    .onnx = "",
    .samples = "f32[5] f32[5] f32[] f64[8]; f64[3,4] f64[3,4] f32[] f64[8]; bf16[7] bf16[7] f32[] f64[8] tol=4e-2",
};
