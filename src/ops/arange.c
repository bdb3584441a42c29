/* arange(c, dtype, n): 0, 1, ..., n-1 as dtype. */
#include "ops/op.h"

static void ref(const wf_ref *r)
{
    for (int64_t i = 0; i < r->out[0].n; i++)
        r->out[0].d[i] = (double)i;
}

const wf_op_def wf_op_arange = {
    .call = "ctx, dtype:dtype, n:i64",
    .axes = "-> y[i#]; i=n",
    .types = "-> attr",
    .primitive = "kernel",
    .nograd = "it has no operand",
    .ref = ref,
    .onnx = "",
    .samples = "dtype=f32 n=7; dtype=i64 n=33; dtype=bf16 n=5",
};
