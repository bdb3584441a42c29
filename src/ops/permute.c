/* permute(x, perm): the axes in another order: y[..., i_perm[0], i_perm[1], ...].
 * perm lists axes of x; they become the last axes of y in that order, axes that it leaves out stay before them. A view:
 * nothing is copied. */
#include "ops/op.h"

static void grad(const wf_vjp *v) /* the inverse order */
{
    wf_dims perm = v->a->permute.perm, inverse = { 0, { 0 } };
    int32_t n = wfi_shape(v->in[0]).n, at = 0;
    int64_t from[WF_RANK_MAX];
    for (int32_t i = 0; i < n; i++) { /* from[k]: the axis of x that is axis k of y */
        bool moved = false;
        for (int32_t k = 0; k < perm.n; k++)
            moved |= (perm.d[k] < 0 ? perm.d[k] + n : perm.d[k]) == i;
        if (!moved)
            from[at++] = i;
    }
    for (int32_t k = 0; k < perm.n; k++)
        from[at++] = perm.d[k] < 0 ? perm.d[k] + n : perm.d[k];
    inverse.n = n;
    for (int32_t k = 0; k < n; k++)
        inverse.d[from[k]] = k;
    v->gin[0] = wf_permute_(v->g, inverse, v->site);
}

const wf_op_def wf_op_permute = {
    .call = "x, perm:dims",
    .axes = "x[..a ..r@perm] -> y[..a ..r]",
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "Transpose 13",
    .samples = "f32[2,3,4] perm=[2,0,1]; f64[5,2] perm=[1,0]; i32[2,3,4,2] perm=[-1,1]; f16[3,1,2] perm=[0,1,2]",
};
