/* gather(w, i): rows of w by number, as in an embedding. w: [V, E], i: i64 or i32[...] in 0 .. V-1 -> [..., E].
 * An index outside is an error that names value, position and size. */
#include <stdio.h>
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    wf_dims w = wfi_shape(v->in[0]);
    wf_tensor *i = wf_reshape_(v->in[1], WF_DIMS(-1), v->site);
    wf_tensor *u = wf_reshape_(v->g, WF_DIMS(wfi_shape(i).d[0], w.d[w.n - 1]), v->site);
    v->gin[0] = wf_scatter_add_(i, u, w.d[w.n - 2], v->site);
}

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    if (c->in[0].ndim == 2)
        return true;
    snprintf(err, bytes, "gather: w has %d axes; rows are taken from a matrix [V, E]", (int)c->in[0].ndim);
    return false;
}

static void ref(const wf_ref *r)
{
    const wf_ref_tensor *w = &r->in[0], *i = &r->in[1];
    int64_t row = w->dim[1];
    for (int64_t k = 0; k < i->n; k++)
        for (int64_t j = 0; j < row; j++)
            r->out[0].d[k * row + j] = w->d[(int64_t)i->d[k] * row + j];
}

const wf_op_def wf_op_gather = {
    .call = "w, i",
    .axes = "w[.. v<i> e] i[.. n] -> y[.. n e]",
    .types = "all, int -> all",
    .primitive = "kernel",
    .linear = "w",
    .check = check,
    .grad = grad,
    .ref = ref,
    .onnx = "Gather 13",
    .samples = "f32[5,3] i64[4]%5; f64[6,2] i32[2,3]%6; bf16[7,33] i64[3]%7; i64[4,1] i64[2,1,3]%4",
};
