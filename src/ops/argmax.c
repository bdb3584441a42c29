/* argmax(x, axis): where the largest element along axis stands: i64. The first of equal ones, and the first NaN if
 * there is one. .keep leaves the axis in place with size 1. */
#include "ops/op.h"

static void ref(const wf_ref *r)
{
    const wf_ref_tensor *x = &r->in[0];
    int32_t axis = r->a->argmax.axis < 0 ? r->a->argmax.axis + x->ndim : r->a->argmax.axis;
    int64_t inner = 1, n = x->dim[axis];
    for (int32_t i = axis + 1; i < x->ndim; i++)
        inner *= x->dim[i];
    for (int64_t k = 0; k < r->out[0].n; k++) {
        const double *at = x->d + k / inner * inner * n + k % inner;
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++) {
            double a = at[best * inner], b = at[i * inner];
            if (a == a && (b != b || b > a))
                best = i;
        }
        r->out[0].d[k] = (double)best;
    }
}

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    return wfi_op_needs_some(c, WF_DIMS(c->a->argmax.axis), "argmax", err, bytes);
}

const wf_op_def wf_op_argmax = {
    .call = "x, axis; keep:bool",
    .axes = "x[..a n!@axis] -> y[..a 1@axis&keep]",
    .types = "num -> i64",
    .primitive = "kernel",
    .nograd = "the result is a whole number",
    .ref = ref,
    .check = check,
    .onnx = "ArgMax 13",
    .samples = "f32[4,7] axis=1; f32[2,3,5] axis=0 keep=true; f64[70] axis=0; i32[5,4] axis=-1; bf16[3,33] axis=1",
};
