/* flatten(x, axis): all axes from `axis` on as one. x: [a, b, c] with axis 1 -> [a, b*c], in row-major order. */
#include <stdio.h>
#include "ops/op.h"

static wf_tensor *lower(const wf_args *v)
{
    wf_dims x = wfi_shape(v->in[0]), y = { 0, { 0 } };
    int32_t axis = v->a->flatten.axis;
    axis += axis < 0 ? x.n : 0;
    for (int32_t i = 0; i < axis; i++)
        y.d[y.n++] = x.d[i];
    int64_t rest = 1;
    for (int32_t i = axis; i < x.n; i++)
        rest *= x.d[i];
    y.d[y.n++] = rest;
    return wf_reshape_(wf_contiguous_(v->in[0], v->site), y, v->site);
}

static bool map(const wf_op_case *c, char *text, size_t bytes, char *err, size_t err_bytes)
{
    int32_t n = c->in[0].ndim, axis = c->a->flatten.axis;
    axis += axis < 0 ? n : 0;
    if (axis < 0 || axis > n) {
        snprintf(err, err_bytes, "flatten: axis %d, x has %d axes", (int)c->a->flatten.axis, (int)n);
        return false;
    }
    int64_t rest = 1;
    for (int32_t i = axis; i < n; i++)
        rest *= c->in[0].dim[i];
    size_t k = (size_t)snprintf(text, bytes, "x[");
    for (int32_t i = 0; i < n; i++)
        k += (size_t)snprintf(text + k, bytes - k, i < axis ? "%sf%d" : "%si%d!", i ? " " : "", (int)i);
    k += (size_t)snprintf(text + k, bytes - k, "] -> y[");
    for (int32_t i = 0; i < axis; i++)
        k += (size_t)snprintf(text + k, bytes - k, "f%d ", (int)i);
    snprintf(text + k, bytes - k, "o!]; o=%lld", (long long)rest);
    return true;
}

const wf_op_def wf_op_flatten = {
    .call = "x, axis",
    .axes = "x[..a] -> y[..b]",
    .map = map,
    .types = "any",
    .lower = lower,
    .nograd = "by its lowering",
    .onnx = "Flatten 13",
    .samples = "f32[2,3,4] axis=1; f64[2,3,4] axis=-2; i32[5] axis=0",
};
