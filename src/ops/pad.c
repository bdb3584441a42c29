/* pad(x, axis, lo, hi; value): lo elements of `value` before and hi after x along one axis. */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    const wfi_attr_pad *a = &c->a->pad;
    if (a->lo >= 0 && a->hi >= 0)
        return true;
    snprintf(err, bytes, "pad: lo is %lld, hi is %lld; both must be 0 or more (slice takes elements away)",
             (long long)a->lo, (long long)a->hi);
    return false;
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_pad *a = &v->a->pad;
    wf_dims x = wfi_shape(v->in[0]);
    int32_t axis = a->axis < 0 ? a->axis + x.n : a->axis;
    v->gin[0] = wf_slice_(v->g, a->axis, a->lo, x.d[axis], WF_OPTS(wf_slice_opts, .step = 1), v->site);
}

static void ref(const wf_ref *r)
{
    const wfi_attr_pad *a = &r->a->pad;
    const wf_ref_tensor *x = &r->in[0];
    wf_ref_tensor *y = &r->out[0];
    int32_t axis = a->axis < 0 ? a->axis + x->ndim : a->axis;
    int64_t inner = 1;
    for (int32_t k = axis + 1; k < x->ndim; k++)
        inner *= x->dim[k];
    for (int64_t k = 0; k < y->n; k++) {
        int64_t at = k / inner % y->dim[axis] - a->lo, outer = k / inner / y->dim[axis];
        y->d[k] = at < 0 || at >= x->dim[axis] ? a->value : x->d[(outer * x->dim[axis] + at) * inner + k % inner];
    }
}

const wf_op_def wf_op_pad = {
    .call = "x, axis, lo:i64, hi:i64; value=0.0",
    .axes = "x[..a n:i-lo?@axis] -> y[..a i@axis]; i=n+lo+hi",
    .types = "all",
    .primitive = "kernel",
    .linear = "x",
    .check = check,
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples = "f32[4,5] axis=1 lo=1 hi=2; f64[3,2] axis=0 lo=0 hi=1 value=2.5; i32[2,3,2] axis=-2 lo=2 hi=0; bf16[5] "
               "axis=0 lo=1 hi=1",
};
