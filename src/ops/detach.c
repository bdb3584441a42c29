/* detach(x): x without its history: no gradient flows back through it. A view: nothing is copied. */
#include "ops/op.h"

const wf_op_def wf_op_detach = {
    .call = "x",
    .axes = "x[..] -> y[..]",
    .types = "any",
    .primitive = "y = x",
    .nograd = "that is what it is for",
    .ref = wfi_ref_sum,
    .onnx = "Identity 16",
    .samples = "f32[3,5]; i64[2]",
};
