/* flip(x, axes): the given axes run backwards. A view: nothing is copied. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_flip_(v->g, v->a->flip.axes, v->site);
}

static void ref(const wf_ref *r)
{
    const wf_ref_tensor *x = &r->in[0];
    wf_dims axes = wfi_axes(r->a->flip.axes, x->ndim);
    for (int64_t i = 0; i < x->n; i++) {
        int64_t rest = i, to = 0, step = 1;
        for (int32_t d = x->ndim; d-- > 0;) {
            int64_t k = rest % x->dim[d];
            rest /= x->dim[d];
            for (int32_t j = 0; j < axes.n; j++)
                if (axes.d[j] == d) {
                    k = x->dim[d] - 1 - k;
                    break;
                }
            to += k * step;
            step *= x->dim[d];
        }
        r->out[0].d[to] = x->d[i];
    }
}

const wf_op_def wf_op_flip = {
    .call = "x, axes:dims",
    .axes = "x[..a ..n:n-1-i@axes] -> y[..a ..i@axes]; i=n",
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples = "f32[5,4] axes=[0]; f64[2,3,4] axes=[0,-1]; i32[17,3] axes=[0]; bf16[6] axes=[0]",
};
