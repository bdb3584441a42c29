/* broadcast_to(x, shape): x repeated to a larger shape by the rules of NumPy: axes are matched from the right, an axis
 * of size 1 is repeated, missing ones are added on the left. A view: nothing is copied. */
#include <stdio.h>
#include "base/ck.h"
#include "ops/op.h"

static bool map(const wf_op_case *c, char *text, size_t bytes, char *err, size_t err_bytes)
{
    const wf_dims *to = &c->a->broadcast_to.shape;
    int32_t have = c->in[0].ndim, extra = to->n - have;
    size_t n = 0;
    if (extra < 0) {
        snprintf(err, err_bytes, "broadcast_to: x has %d axes, the shape only %d", (int)have, (int)to->n);
        return false;
    }
    int64_t elements;
    if (!wfi_ck_elements(to->d, to->n, &elements)) {
        snprintf(err, err_bytes, "broadcast_to: a size is below 0, or the product of the sizes is too large");
        return false;
    }
    n += (size_t)snprintf(text + n, bytes - n, "x[");
    for (int32_t i = 0; i < have; i++) {
        int64_t x = c->in[0].dim[i], y = to->d[i + extra];
        if (x != y && x != 1) {
            snprintf(err, err_bytes,
                     "broadcast_to: axis %d of x is %lld and cannot become %lld; only 1 can be repeated", (int)i,
                     (long long)x, (long long)y);
            return false;
        }
        n += (size_t)snprintf(text + n, bytes - n, x == y ? "%sf%d" : "%s1", i ? " " : "", (int)i);
    }
    n += (size_t)snprintf(text + n, bytes - n, "] -> y[");
    for (int32_t i = 0; i < to->n; i++)
        n +=
            (size_t)snprintf(text + n, bytes - n, i >= extra && c->in[0].dim[i - extra] == to->d[i] ? "%sf%d" : "%sj%d",
                             i ? " " : "", (int)(i >= extra && c->in[0].dim[i - extra] == to->d[i] ? i - extra : i));
    n += (size_t)snprintf(text + n, bytes - n, "]");
    const char *sep = "; ";
    for (int32_t i = 0; i < to->n; i++)
        if (i < extra || c->in[0].dim[i - extra] != to->d[i]) {
            n += (size_t)snprintf(text + n, bytes - n, "%sj%d=%lld", sep, (int)i, (long long)to->d[i]);
            sep = ", ";
        }
    return true;
}

static void grad(const wf_vjp *v) /* the sweep sums over what was repeated */
{
    v->gin[0] = v->g;
}

const wf_op_def wf_op_broadcast_to = {
    .call = "x, shape:dims",
    .axes = "x[..a] -> y[..b]",
    .map = map,
    .types = "any",
    .primitive = "y = x",
    .grad = grad,
    .ref = wfi_ref_sum,
    .onnx = "Expand 13",
    .samples = "f32[3,1] shape=[2,3,4]; f64[] shape=[5]; i32[4] shape=[3,4]; bf16[1,1,3] shape=[2,2,3]",
};
