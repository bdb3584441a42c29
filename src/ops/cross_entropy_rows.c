/* cross_entropy_rows(x, t; ignore, has_ignore, smoothing): the cross entropy of each row of logits with its label.
 * x: float[..., V], t: i64 or i32[...] in 0 .. V-1 -> loss[...], weight[...]. loss = logsumexp(x) - x[t]; with
 * smoothing a: (1 - a) of that and a times the mean over all labels. Rows whose label is `ignore` (with has_ignore)
 * have loss and weight 0, the others weight 1. wf_cross_entropy makes the (sum, weight) pair of it. */
#include "ops/op.h"

/* 1 where the label counts, 0 where it is ignored; float[...]. */
static wf_tensor *counts(const wf_args *v, const wfi_attr_cross_entropy_rows *a)
{
    wf_tensor *t = v->in[1], *one = wfi_like(v->in[0], 1);
    if (!a->has_ignore)
        return wf_broadcast_to_(one, wfi_shape(t), v->site);
    wf_tensor *same = wf_eq_(t, wfi_like(t, (double)a->ignore), v->site);
    return wf_where_(same, wfi_like(v->in[0], 0), one, v->site);
}

static wf_tensor *lower(const wf_args *v)
{
    const wfi_attr_cross_entropy_rows *a = &v->a->cross_entropy_rows;
    wf_tensor *w = counts(v, a), *logp = wf_log_softmax_(v->in[0], -1, v->site);
    wf_dims x = wfi_shape(v->in[0]), last = WF_DIMS(-1);
    wf_tensor *t = v->in[1];
    if (a->has_ignore) /* an ignored label may lie outside: look at class 0 instead */
        t = wf_where_(wf_eq_(t, wfi_like(t, (double)a->ignore), v->site), wfi_like(t, 0), t, v->site);
    wf_tensor *at = wf_squeeze_(wf_take_along_(logp, wf_unsqueeze_(t, last, v->site), -1, v->site), last, v->site);
    wf_tensor *l = wf_neg_(at, v->site);
    if (a->smoothing > 0) {
        wf_tensor *all = wf_sum_(logp, last, WF_OPTS(wf_sum_opts, .keep = false), v->site);
        l = wf_sub_(wf_mul_(l, wfi_like(l, 1 - a->smoothing), v->site),
                    wf_mul_(all, wfi_like(all, a->smoothing / (double)x.d[x.n - 1]), v->site), v->site);
    }
    v->out[1] = w;
    return wf_zmul_(w, l, v->site);
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_cross_entropy_rows *a = &v->a->cross_entropy_rows;
    if (v->want[0] && v->g)
        v->gin[0] = wf_cross_entropy_rows_grad_(v->in[0], v->in[1], v->g,
                                                WF_OPTS(wf_cross_entropy_rows_grad_opts, .ignore = a->ignore,
                                                        .has_ignore = a->has_ignore, .smoothing = a->smoothing),
                                                v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* exp, maximum, sum */
{
    (void)c;
    wfi_op_cost_each(x, 0, 21, cost);
}

const wf_op_def wf_op_cross_entropy_rows = {
    .call = "x, t; ignore:i64=0, has_ignore:bool, smoothing=0.0",
    .axes = "x[.. v!] t[..] -> loss[..] weight[..]",
    .outputs = "loss, weight",
    .types = "float, int -> float, float",
    .lower = lower,
    .grad = grad,
    .cost = cost,
    .autocast = "full",
    .onnx = "",
    .samples = "f32[5,7] i64[5]%7; f64[2,3,4] i64[2,3]%4 smoothing=0.1; f32[6,5] i32[6]%5 ignore=2 has_ignore=true; "
               "f32[0,5] i64[0]",
};
