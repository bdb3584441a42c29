/* slice_update(x, u, axis, start; step=1): x with elements start, start + step, ... of one axis replaced by u.
 * x: [..., n, ...], u: the same with len in place of n. The value of x itself does not change. */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const wfi_attr_slice_update *a = &c->a->slice_update;
    int64_t axis = a->axis < 0 ? a->axis + c->in[0].ndim : a->axis, n = c->in[0].dim[axis], len = c->in[1].dim[axis];
    if (a->step < 1 || a->start < 0 || a->start > n ||
        (len && (a->start >= n || (len - 1) > (n - 1 - a->start) / a->step))) {
        snprintf(err, bytes, "slice_update: elements %lld to %lld by %lld of axis %d, which has %lld",
                 (long long)a->start, (long long)(a->start + (len - 1) * a->step), (long long)a->step, (int)a->axis,
                 (long long)n);
        return false;
    }
    return true;
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_slice_update *a = &v->a->slice_update;
    wf_dims u = wfi_shape(v->in[1]);
    int32_t axis = a->axis < 0 ? a->axis + u.n : a->axis;
    if (v->want[0]) {
        wf_tensor *zeros = wf_broadcast_to_(wfi_like(v->g, 0), u, v->site);
        v->gin[0] =
            wf_slice_update_(v->g, zeros, a->axis, a->start, WF_OPTS(wf_slice_update_opts, .step = a->step), v->site);
    }
    if (v->want[1])
        v->gin[1] = wf_slice_(v->g, a->axis, a->start, u.d[axis], WF_OPTS(wf_slice_opts, .step = a->step), v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_slice_update *a = &r->a->slice_update;
    const wf_ref_tensor *x = &r->in[0], *u = &r->in[1];
    int32_t axis = a->axis < 0 ? a->axis + x->ndim : a->axis;
    int64_t inner = 1, outer = 1;
    for (int32_t i = 0; i < x->ndim; i++) {
        outer *= i < axis ? x->dim[i] : 1;
        inner *= i > axis ? x->dim[i] : 1;
    }
    for (int64_t i = 0; i < x->n; i++)
        r->out[0].d[i] = x->d[i];
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < u->dim[axis]; k++)
            for (int64_t i = 0; i < inner; i++)
                r->out[0].d[(o * x->dim[axis] + a->start + k * a->step) * inner + i] =
                    u->d[(o * u->dim[axis] + k) * inner + i];
}

const wf_op_def wf_op_slice_update = {
    .call = "x, u, axis, start:i64; step:i64=1",
    .axes = "x[..a n!@axis] u[..a l!@axis] -> y[..a n!@axis]",
    .types = "any",
    .primitive = "kernel",
    .linear = "x u",
    .check = check,
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples =
        "f32[5,4] f32[2,4] axis=0 start=1; f64[2,7] f64[2,3] axis=-1 start=1 step=2; i32[6] i32[1] axis=0 start=5",
};
