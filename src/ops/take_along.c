/* take_along(x, i, axis): y[..., k, ...] = x[..., i[..., k, ...], ...] along axis: one element for each index.
 * i: i64 or i32 with the sizes of x but for axis, values in 0 .. n-1. An index outside is an error. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    const wf_dims x = wfi_shape(v->in[0]);
    int32_t axis = v->a->take_along.axis < 0 ? v->a->take_along.axis + x.n : v->a->take_along.axis;
    v->gin[0] = wf_put_along_(v->in[1], v->g, v->a->take_along.axis, x.d[axis], v->site);
}

static void ref(const wf_ref *r)
{
    const wf_ref_tensor *x = &r->in[0], *i = &r->in[1];
    int32_t axis = r->a->take_along.axis < 0 ? r->a->take_along.axis + x->ndim : r->a->take_along.axis;
    int64_t inner = 1;
    for (int32_t k = axis + 1; k < x->ndim; k++)
        inner *= x->dim[k];
    for (int64_t k = 0; k < i->n; k++) {
        int64_t outer = k / inner / i->dim[axis];
        r->out[0].d[k] = x->d[(outer * x->dim[axis] + (int64_t)i->d[k]) * inner + k % inner];
    }
}

const wf_op_def wf_op_take_along = {
    .call = "x, i, axis",
    .axes = "x[..a v<i>@axis] i[..a n@axis] -> y[..a n@axis]",
    .types = "all, int -> all",
    .primitive = "kernel",
    .linear = "x",
    .grad = grad,
    .ref = ref,
    .onnx = "GatherElements 13",
    .samples = "f32[4,5] i64[4,2]%5 axis=1; f64[3,2,4] i32[2,2,4]%3 axis=0; bf16[2,6] i64[2,1]%6 axis=-1",
};
