/* sgd_momentum_step(w, m, g, weight, h; nesterov): one step of gradient descent with momentum for one parameter.
 * g: gradient of a sum, divided by weight f32[] first; a weight of 0 changes nothing. m: velocity, f32[...] (f64[...]
 * for f64). h: f64[8] = lr, momentum, weight decay, the rest unused. d = g + wd*w;  m = momentum*m + d;  w -= lr *
 * (nesterov ? d + momentum*m : m)      as in PyTorch */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    wf_dtype want = c->dtype[0] == WF_F64 ? WF_F64 : WF_F32;
    if (c->dtype[1] != want) {
        snprintf(err, bytes, "sgd_momentum_step: the velocity of %s is %s, got %s", wf_dtype_name(c->dtype[0]),
                 wf_dtype_name(want), wf_dtype_name(c->dtype[1]));
        return false;
    }
    if (c->in[4].dim[0] == 8)
        return true;
    snprintf(err, bytes, "sgd_momentum_step: h has %lld numbers, 8 were expected", (long long)c->in[4].dim[0]);
    return false;
}

/* h[i] as a number of type t */
static wf_tensor *number(const wf_args *v, int64_t i, wf_dtype t)
{
    return wf_cast_(wf_reshape_(wf_slice_(v->in[4], 0, i, 1, NULL, v->site), WF_NO_DIMS, v->site), t, v->site);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_dtype narrow = wfi_dtype(v->in[0]), t = wfi_dtype(v->in[1]);
    wf_tensor *w = wf_cast_(v->in[0], t, s), *m0 = v->in[1], *weight = wf_cast_(v->in[3], t, s);
    wf_tensor *none = wf_eq_(weight, wfi_like(weight, 0), s), *momentum = number(v, 1, t);
    wf_tensor *g = wf_div_(wf_cast_(v->in[2], t, s), wf_where_(none, wfi_like(weight, 1), weight, s), s);
    wf_tensor *d = wf_add_(g, wf_mul_(number(v, 2, t), w, s), s);
    wf_tensor *m = wf_add_(wf_mul_(momentum, m0, s), d, s);
    wf_tensor *by = v->a->sgd_momentum_step.nesterov ? wf_add_(d, wf_mul_(momentum, m, s), s) : m;
    v->out[1] = wf_where_(none, m0, m, s);
    return wf_cast_(wf_where_(none, w, wf_sub_(w, wf_mul_(number(v, 0, t), by, s), s), s), narrow, s);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    (void)c;
    wfi_op_cost_each(x, 0, 5, cost);
}

const wf_op_def wf_op_sgd_momentum_step = {
    .call = "w, m, g, weight, h; nesterov:bool",
    .axes = "w[..a] m[..a] g[..a] weight[] h[k!] -> w2[..a] m2[..a]",
    .outputs = "w2, m2",
    .types = "float, num, float, f32, f64 -> float, num",
    .lower = lower,
    .check = check,
    .nograd = "an update has no history",
    .cost = cost,
    .onnx = "",
    .samples = "f32[5] f32[5] f32[5] f32[] f64[8]; f64[3,4] f64[3,4] f64[3,4] f32[] f64[8] nesterov=true",
};
