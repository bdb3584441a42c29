/* any(x, axes): whether any element is true along the given axes, of all of them if none are given (WF_NO_DIMS). x:
 * bool. .keep leaves those axes in place with size 1. Of nothing it is false. */
#include "ops/op.h"

const wf_op_def wf_op_any = {
    .call = "x, axes:dims=all; keep:bool",
    .axes = "x[..a ..r@axes] -> y[..a 1@axes&keep]",
    .types = "bool",
    .primitive = "y = y || x",
    .reduce = "or",
    .nograd = "the result is a truth value",
    .ref = wfi_ref_sum,
    .onnx = "",
    .samples = "bool[4,7] axes=1; bool[2,3,5] axes=0,2 keep=true; bool[3,4]",
};
