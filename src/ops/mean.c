/* mean(x, axes): the mean along the given axes, of all of them if none are given (WF_NO_DIMS): the sum divided by how
 * many there are, rounded once. .keep leaves those axes in place with size 1. The mean of nothing is NaN. */
#include "ops/op.h"

/* y or g with the reduced axes as 1, so that it broadcasts to x. */
static wf_tensor *kept(wf_tensor *t, const wf_vjp *v, wf_dims axes, bool keep)
{
    return keep || !t ? t : wf_unsqueeze_(t, wfi_axes(axes, wfi_shape(v->in[0]).n), v->site);
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_mean *a = &v->a->mean;
    wf_dims shape = wfi_shape(v->in[0]), axes = wfi_axes(a->axes, shape.n);
    double n = 1;
    for (int32_t i = 0; i < axes.n; i++)
        n *= (double)shape.d[axes.d[i]];
    wf_tensor *g = wf_div_(kept(v->g, v, a->axes, a->keep), wfi_like(v->g, n), v->site);
    v->gin[0] = wf_broadcast_to_(g, shape, v->site);
}

static void ref(const wf_ref *r)
{
    wfi_ref_sum(r);
    for (int64_t i = 0; i < r->out[0].n; i++)
        r->out[0].d[i] /= (double)(r->in[0].n / r->out[0].n);
}

const wf_op_def wf_op_mean = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r@axes] -> y[..a 1@axes&keep]",
    .types = "float",
    .primitive = "kernel",
    .linear = "x",
    .grad = grad,
    .ref = ref,
    .autocast = "full",
    .onnx = "ReduceMean 18",
    .samples = "f32[4,7] axes=1; f32[2,3,5] axes=0,2 keep=true; f32[3,4]; f64[70] axes=0; bf16[3,40] axes=1 tol=2e-2",
};
