/* put_along(i, u, axis, length): elements of u added into zeros along axis: y[..., i[..., k, ...], ...] += u[..., k,
 * ...], in ascending order of k. i: i64 or i32 in 0 .. length-1. The gradient of take_along. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[1] = wf_take_along_(v->g, v->in[0], v->a->put_along.axis, v->site);
}

static void ref(const wf_ref *r)
{
    const wf_ref_tensor *i = &r->in[0], *u = &r->in[1];
    wf_ref_tensor *y = &r->out[0];
    int32_t axis = r->a->put_along.axis < 0 ? r->a->put_along.axis + i->ndim : r->a->put_along.axis;
    int64_t inner = 1;
    for (int32_t k = axis + 1; k < i->ndim; k++)
        inner *= i->dim[k];
    for (int64_t k = 0; k < y->n; k++)
        y->d[k] = 0;
    for (int64_t k = 0; k < i->n; k++) {
        int64_t outer = k / inner / i->dim[axis];
        y->d[(outer * y->dim[axis] + (int64_t)i->d[k]) * inner + k % inner] += u->d[k];
    }
}

const wf_op_def wf_op_put_along = {
    .call = "i, u, axis, length:i64",
    .axes = "i[..a n@axis] u[..a n@axis] -> y[..a v<i>@axis]; v=length",
    .types = "int, num -> num",
    .primitive = "kernel",
    .linear = "u",
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples = "i64[4,2]%5 f32[4,2] axis=1 length=5; i32[2,2,4]%3 f64[2,2,4] axis=0 length=3",
};
