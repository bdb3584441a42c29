/* matmul_add(c, a, b): c and the product of the last two axes of a and b, for every element of the leading ones.
 * a[..., m, k] and b[..., k, n] are added to c[..., m, n]. Where the machine has a kernel (f32, f64), each element is
 * one ascending chain of fused multiply-adds over k that begins at c: a product whose k was cut in two, the second part
 * added to the first, has the bits of the whole one. Other types add the product. */
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    return wf_add_(v->in[0], wf_matmul_(v->in[1], v->in[2], v->site), v->site);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost) /* a multiply-add at every point */
{
    (void)c;
    cost->flops = 2 * (double)wfi_axis_points(x, NULL);
}

const wf_op_def wf_op_matmul_add = {
    .call = "c, a, b",
    .axes = "c[.. m n] a[.. m k] b[.. k n] -> y[.. m n]",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .cost = cost,
    .onnx = "",
    .samples = "f32[3,5] f32[3,4] f32[4,5]; f64[2,3,7] f64[2,3,4] f64[2,4,7]; f32[1,40] f32[1,9] f32[9,40]; "
               "f64[5,2] f64[5,33] f64[33,2]; f32[4,5] f32[2,4,3] f32[3,5]; f32[2,3] f32[2,0] f32[0,3]; "
               "i32[2,3] i32[2,4] i32[4,3]",
};
