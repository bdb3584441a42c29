/* one_hot(i, depth): true where the last axis is i: i64 or i32[...] in 0 .. depth-1 -> bool[..., depth]. Cast it to the
 * type that is wanted. An index outside has no true element. */
#include "ops/op.h"
#include "weft/tensor.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_tensor *i = v->in[0], *k = wf_arange_(wf_tensor_ctx(i), wfi_dtype(i), v->a->one_hot.depth, v->site);
    return wf_eq_(wf_unsqueeze_(i, WF_DIMS(-1), v->site), k, v->site);
}

const wf_op_def wf_op_one_hot = {
    .call = "i, depth:i64",
    .axes = "i[..] -> y[.. v#]; v=depth",
    .types = "int -> bool",
    .lower = lower,
    .nograd = "the result is a truth value",
    .onnx = "",
    .samples = "i64[4]%5 depth=5; i32[2,3]%7 depth=4",
};
