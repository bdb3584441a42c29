/* reshape(x, shape): the same elements in row-major order under another shape. One size may be -1: it is what is left.
 * A view where the memory allows it, else a copy. */
#include <stdio.h>
#include "base/ck.h"
#include "ops/op.h"

static bool fail(char *err, size_t bytes, const wf_op_case *c, const wf_dims *to, const char *what)
{
    int n = snprintf(err, bytes, "reshape: %s; x is [", what);
    for (int32_t i = 0; i < c->in[0].ndim && n > 0 && (size_t)n < bytes; i++)
        n += snprintf(err + n, bytes - (size_t)n, "%s%lld", i ? "," : "", (long long)c->in[0].dim[i]);
    if (n > 0 && (size_t)n < bytes)
        n += snprintf(err + n, bytes - (size_t)n, "], the shape [");
    for (int32_t i = 0; i < to->n && n > 0 && (size_t)n < bytes; i++)
        n += snprintf(err + n, bytes - (size_t)n, "%s%lld", i ? "," : "", (long long)to->d[i]);
    if (n > 0 && (size_t)n < bytes)
        snprintf(err + n, bytes - (size_t)n, "]");
    return false;
}

/* Replaces -1 by what is left. */
static bool resolve(const wf_op_case *c, wf_dims *to, char *err, size_t bytes)
{
    int64_t have = 1, want = 1;
    int32_t open = -1;
    const wf_dims given = *to;
    if (!wfi_ck_elements(c->in[0].dim, c->in[0].ndim, &have))
        return fail(err, bytes, c, &given, "x is too large");
    for (int32_t i = 0; i < to->n; i++) {
        if (to->d[i] == -1 && open < 0)
            open = i;
        else if (to->d[i] < 0)
            return fail(err, bytes, c, &given, to->d[i] == -1 ? "only one size can be -1" : "a size is below -1");
    }
    wf_dims rest = *to;
    if (open >= 0)
        rest.d[open] = 1;
    if (!wfi_ck_elements(rest.d, rest.n, &want))
        return fail(err, bytes, c, &given, "the product of the sizes is too large");
    if (open >= 0 && (!want || have % want))
        return fail(err, bytes, c, &given, "no size fits in place of -1");
    if (open >= 0)
        to->d[open] = have / want;
    else if (have != want)
        return fail(err, bytes, c, &given, "the number of elements differs");
    return true;
}

/* Axes that both shapes have in common, from the left and from the right, keep their factors; the rest is whole. */
static bool map(const wf_op_case *c, char *text, size_t bytes, char *err, size_t err_bytes)
{
    wf_dims to = c->a->reshape.shape;
    const wfi_axis_shape *x = &c->in[0];
    if (!resolve(c, &to, err, err_bytes))
        return false;
    int32_t head = 0, tail = 0, most = x->ndim < to.n ? x->ndim : to.n;
    while (head < most && x->dim[head] == to.d[head])
        head++;
    while (tail < most - head && x->dim[x->ndim - 1 - tail] == to.d[to.n - 1 - tail])
        tail++;
    size_t n = (size_t)snprintf(text, bytes, "x[");
    for (int32_t i = 0; i < x->ndim; i++)
        n += (size_t)snprintf(text + n, bytes - n, i < head || i >= x->ndim - tail ? "%sf%d" : "%si%d!", i ? " " : "",
                              (int)(i < x->ndim - tail ? i : i - x->ndim + 40));
    n += (size_t)snprintf(text + n, bytes - n, "] -> y[");
    for (int32_t i = 0; i < to.n; i++)
        n += (size_t)snprintf(text + n, bytes - n, i < head || i >= to.n - tail ? "%sf%d" : "%so%d!", i ? " " : "",
                              (int)(i < to.n - tail ? i : i - to.n + 40));
    n += (size_t)snprintf(text + n, bytes - n, "]");
    const char *sep = "; ";
    for (int32_t i = head; i < to.n - tail; i++) {
        n += (size_t)snprintf(text + n, bytes - n, "%so%d=%lld", sep, (int)i, (long long)to.d[i]);
        sep = ", ";
    }
    return true;
}

static void grad(const wf_vjp *v)
{
    v->gin[0] = wf_reshape_(v->g, wfi_shape(v->in[0]), v->site);
}

static void ref(const wf_ref *r)
{
    for (int64_t i = 0; i < r->out[0].n; i++)
        r->out[0].d[i] = r->in[0].d[i];
}

const wf_op_def wf_op_reshape = {
    .call = "x, shape:dims",
    .axes = "x[..a] -> y[..b]",
    .map = map,
    .types = "any",
    .primitive = "kernel",
    .linear = "x",
    .grad = grad,
    .ref = ref,
    .onnx = "Reshape 14",
    .samples =
        "f32[2,3,4] shape=[6,4]; f64[6,4] shape=[8,-1]; i32[4] shape=[2,1,2]; bf16[2,3] shape=[6]; f32[1] shape=[]",
};
