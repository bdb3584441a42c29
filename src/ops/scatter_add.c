/* scatter_add(i, u, rows): rows of u added into zeros: y[i[k]] += u[k], in ascending order of k.
 * i: i64 or i32[n] in 0 .. rows-1, u: [n, e] -> [rows, e]. An index outside is an error. The gradient of gather. */
#include <stdio.h>
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[1] = wf_gather_(v->g, v->in[0], v->site);
}

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    if (c->in[0].ndim == 1 && c->in[1].ndim == 2)
        return true;
    snprintf(err, bytes, "scatter_add: i has %d axes, u %d; i[n] and u[n, e] were expected", (int)c->in[0].ndim,
             (int)c->in[1].ndim);
    return false;
}

static void ref(const wf_ref *r)
{
    const wf_ref_tensor *i = &r->in[0], *u = &r->in[1];
    int64_t row = u->dim[1];
    for (int64_t k = 0; k < r->out[0].n; k++)
        r->out[0].d[k] = 0;
    for (int64_t k = 0; k < i->n; k++)
        for (int64_t j = 0; j < row; j++)
            r->out[0].d[(int64_t)i->d[k] * row + j] += u->d[k * row + j];
}

const wf_op_def wf_op_scatter_add = {
    .call = "i, u, rows:i64",
    .axes = "i[.. n] u[.. n e] -> y[.. v<i> e]; v=rows",
    .types = "int, num -> num",
    .primitive = "kernel",
    .linear = "u",
    .check = check,
    .grad = grad,
    .ref = ref,
    .onnx = "",
    .samples = "i64[6]%4 f32[6,3] rows=4; i32[7]%5 f64[7,2] rows=5; i64[1]%1 f64[1,1] rows=1",
};
