/* contiguous(x): x with its elements in row-major order in memory: a copy where they are not. The value is the same. */
#include "ops/op.h"

static void grad(const wf_vjp *v)
{
    v->gin[0] = v->g;
}

const wf_op_def wf_op_contiguous = {
    .call = "x",
    .axes = "x[..] -> y[..]",
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "Identity 16",
    .samples = "f32[3,5]; i64[2,1,3]; bool[4]",
};
