/* concat(n, x, axis): the n tensors x[0], x[1], ... one behind the other along axis; other sizes must agree. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    int64_t at = 0;
    for (int32_t i = 0; i < v->nin; i++) {
        wf_dims x = wfi_shape(v->in[i]);
        int32_t axis = v->a->concat.axis < 0 ? v->a->concat.axis + x.n : v->a->concat.axis;
        if (v->want[i])
            v->gin[i] = wf_slice_(v->g, v->a->concat.axis, at, x.d[axis], WF_OPTS(wf_slice_opts, .step = 1), v->site);
        at += x.d[axis];
    }
}

static void ref(const wf_ref *r)
{
    wf_ref_tensor *y = &r->out[0];
    int32_t axis = r->a->concat.axis < 0 ? r->a->concat.axis + y->ndim : r->a->concat.axis;
    int64_t inner = 1, base = 0;
    for (int32_t k = axis + 1; k < y->ndim; k++)
        inner *= y->dim[k];
    for (int32_t j = 0; j < r->nin; j++) {
        const wf_ref_tensor *x = &r->in[j];
        int64_t n = x->dim[axis];
        for (int64_t k = 0; k < x->n; k++) {
            int64_t at = k / inner % n, outer = k / inner / n;
            y->d[(outer * y->dim[axis] + base + at) * inner + k % inner] = x->d[k];
        }
        base += n;
    }
}

const wf_op_def wf_op_concat = {
    .call = "x*, axis",
    .axes = "x*[..a n:i?@axis] -> y[..a i@axis]; i=n",
    .types = "any",
    .primitive = "kernel",
    .linear = "x",
    .grad = grad,
    .ref = ref,
    .onnx = "Concat 13",
    .samples =
        "f32[2,3] f32[2,4] axis=1; f64[1,3] f64[4,3] f64[2,3] axis=0; i32[2] i32[3] axis=-1; f32[2,0] f32[2,3] axis=1",
};
