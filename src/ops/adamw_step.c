/* adamw_step(w, m, v, g, h; decay): one step of AdamW for one parameter: its new value and moments.
 * h: f64[8] = lr, beta1, beta2, eps, weight decay, 1 - beta1^t, 1 - beta2^t, weight. g: gradient of a sum, divided by
 * the weight first; a weight of 0 changes nothing. m, v: moments, f32[...] (f64[...] for f64). decay: does the weight
 * decay? w -= lr*wd*w;  m = beta1*m + (1-beta1)*g;  v = beta2*v + (1-beta2)*g*g; w -= lr/(1-beta1^t) * m /
 * (sqrt(v)/sqrt(1-beta2^t) + eps) Loshchilov and Hutter, arXiv:1711.05101, as in PyTorch. */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    wf_dtype want = c->dtype[0] == WF_F64 ? WF_F64 : WF_F32;
    if (c->dtype[1] != want) {
        snprintf(err, bytes, "adamw_step: the moments of %s are %s, got %s", wf_dtype_name(c->dtype[0]),
                 wf_dtype_name(want), wf_dtype_name(c->dtype[1]));
        return false;
    }
    if (c->in[4].dim[0] != 8) {
        snprintf(err, bytes, "adamw_step: h has %lld numbers, 8 were expected", (long long)c->in[4].dim[0]);
        return false;
    }
    return true;
}

/* h[i] as a number of type t */
static wf_tensor *number(const wf_args *v, int64_t i, wf_dtype t)
{
    wf_tensor *x = wf_reshape_(wf_slice_(v->in[4], 0, i, 1, NULL, v->site), WF_NO_DIMS, v->site);
    return t == WF_F64 ? x : wf_cast_(x, t, v->site);
}

static wf_tensor *rest(wf_tensor *beta, const char *site) /* 1 - beta */
{
    return wf_sub_(wfi_like(beta, 1), beta, site);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    wf_dtype t = wfi_dtype(v->in[1]), narrow = wfi_dtype(v->in[0]);
    wf_tensor *w = wf_cast_(v->in[0], t, s), *m = v->in[1], *v0 = v->in[2];
    wf_tensor *lr = number(v, 0, t), *weight = number(v, 7, t), *none = wf_eq_(weight, wfi_like(weight, 0), s);
    wf_tensor *g = wf_div_(wf_cast_(v->in[3], t, s), wf_where_(none, wfi_like(weight, 1), weight, s), s);
    wf_tensor *m2 = wf_add_(m, wf_mul_(rest(number(v, 1, t), s), wf_sub_(g, m, s), s), s), *beta2 = number(v, 2, t);
    wf_tensor *v2 = wf_add_(wf_mul_(beta2, v0, s), wf_mul_(rest(beta2, s), wf_mul_(g, g, s), s), s), *w2 = w;
    if (v->a->adamw_step.decay)
        w2 = wf_mul_(w, rest(wf_mul_(lr, number(v, 4, t), s), s), s);
    wf_tensor *root = wf_div_(wf_sqrt_(v2, s), wf_sqrt_(number(v, 6, t), s), s);
    wf_tensor *step = wf_div_(m2, wf_add_(root, number(v, 3, t), s), s);
    w2 = wf_sub_(w2, wf_mul_(wf_div_(lr, number(v, 5, t), s), step, s), s);
    v->out[1] = wf_where_(none, m, m2, s);
    v->out[2] = wf_where_(none, v0, v2, s);
    return wf_cast_(wf_where_(none, w, w2, s), narrow, s);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* of these, two divisions and a root */
{
    (void)c;
    wfi_op_cost_each(x, 0, 16, cost);
}

const wf_op_def wf_op_adamw_step = {
    .call = "w, m, v, g, h; decay:bool",
    .axes = "w[..a] m[..a] v[..a] g[..a] h[k!] -> w2[..a] m2[..a] v2[..a]",
    .outputs = "w2, m2, v2",
    .types = "float, num, num, float, f64 -> float, num, num",
    .lower = lower,
    .check = check,
    .nograd = "an update has no history",
    .cost = cost,
    .onnx = "",
    .samples = "f32[5] f32[5] f32[5]=0..1 f32[5] f64[8]=0.1..0.9; "
               "f64[3,4] f64[3,4] f64[3,4]=0..1 f64[3,4] f64[8]=0.1..0.9 decay=true",
};
