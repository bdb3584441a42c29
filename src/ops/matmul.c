/* matmul(a, b): the product of the last two axes, for every element of the leading ones, which broadcast.
 * a[..., m, k] and b[..., k, n] give [..., m, n]. Each element is one ascending chain of fused multiply-adds over k. */
#include "ops/op.h"

/* ga = g b^T, gb = a^T g. Where b is the transpose of something (the weight of a linear layer), gb is made as the
 * transpose of g^T a: the same chains, but what comes out on the other side of the transpose lies row-major. */
static void grad(const wf_vjp *v)
{
    wf_tensor *a = v->in[0], *b = v->in[1], *g = v->g;
    if (v->want[0])
        v->gin[0] = wf_matmul_(g, wf_transpose_(b, v->site), v->site);
    if (!v->want[1])
        return;
    if (wfi_made_by(b, WFI_OP_transpose))
        v->gin[1] = wf_transpose_(wf_matmul_(wf_transpose_(g, v->site), a, v->site), v->site);
    else
        v->gin[1] = wf_matmul_(wf_transpose_(a, v->site), g, v->site);
}

const wf_op_def wf_op_matmul = {
    .call = "a, b",
    .axes = "a[.. m k] b[.. k n] -> y[.. m n]",
    .primitive = "y += a * b",
    .reduce = "sum",
    .grad = grad,
    .ref = wfi_ref_sum,
    .autocast = "low",
    .onnx = "MatMul 13",
    .samples =
        "f32[3,4] f32[4,5]; f32[2,1,3,7] f32[4,7,2]; f32[1,33] f32[33,1]; f32[2,3,4] f32[4,2]; f64[5,6] f64[6,7]; "
        "f32[3,0] f32[0,2]",
};
