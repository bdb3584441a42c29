/* broadcast(x, axes, sizes): repeats x along new axes: the result has size sizes[i] at axis axes[i].
 * With .keep those axes are there already, with size 1. Ordinary operators broadcast by themselves. */
#include "ops/op.h"
#include <stdio.h>

static void grad(const wf_vjp *v) /* what was repeated is summed */
{
    int32_t ndim = wfi_shape(v->y).n;
    v->gin[0] = wf_sum_(v->g, wfi_axes(v->a->broadcast.axes, ndim), WF_OPTS(wf_sum_opts, .keep = v->a->broadcast.keep),
                        v->site);
}

static bool check(const wf_op_case *c, char *err, size_t err_bytes)
{
    const wfi_attr_broadcast *a = &c->a->broadcast;
    if (a->axes.n == a->sizes.n)
        return true;
    (void)snprintf(err, err_bytes, "broadcast: axes has %d entries, sizes %d", (int)a->axes.n, (int)a->sizes.n);
    return false;
}

const wf_op_def wf_op_broadcast = {
    .call = "x, axes:dims, sizes:dims; keep:bool",
    .axes = "x[..a 1@axes&keep] -> y[..a ..j@axes]; j=sizes",
    .types = "all",
    .primitive = "x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .check = check,
    .samples = "f32[2] axes=0,2 sizes=3,4; f32[1,3,1] axes=0,2 sizes=4,5 keep=true; f32[] axes=0 sizes=7; "
               "i64[3] axes=-1 sizes=2",
};
