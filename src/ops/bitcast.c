/* bitcast(x, dtype): the same bytes read as another type. Types of one size keep the shape; to a narrower type the last
 * axis grows (i64[4] as i32 is [8], little-endian), to a wider one it shrinks. */
#include <stdio.h>
#include "base/dtype.h"
#include "ops/op.h"

static bool map(const wf_op_case *c, char *text, size_t bytes, char *err, size_t err_bytes)
{
    size_t from = wf_dtype_bytes(c->dtype[0]), to = wf_dtype_bytes(c->a->bitcast.dtype);
    int32_t n = c->in[0].ndim;
    if (!to || !from || (from != to && n == 0) || (to > from && c->in[0].dim[n - 1] % (int64_t)(to / from))) {
        snprintf(err, err_bytes, "bitcast: %s cannot be read as %s%s", c->in[0].dtype,
                 wf_dtype_name(c->a->bitcast.dtype),
                 n ? ": the last axis does not divide" : ": rank 0 has no axis to change");
        return false;
    }
    size_t k = (size_t)snprintf(text, bytes, "x[");
    for (int32_t i = 0; i < n; i++)
        k +=
            (size_t)snprintf(text + k, bytes - k, "%sf%d%s", i ? " " : "", (int)i, i == n - 1 && from != to ? "!" : "");
    k += (size_t)snprintf(text + k, bytes - k, "] -> y[");
    for (int32_t i = 0; i < n; i++)
        k += (size_t)snprintf(text + k, bytes - k, i == n - 1 && from != to ? "%so!" : "%sf%d", i ? " " : "", (int)i);
    k += (size_t)snprintf(text + k, bytes - k, "]");
    if (n && from != to)
        snprintf(text + k, bytes - k, "; o=%lld", (long long)(c->in[0].dim[n - 1] * (int64_t)from / (int64_t)to));
    return true;
}

static void ref(const wf_ref *r) /* by way of the bytes, which are exact for what samples hold */
{
    const wf_ref_tensor *x = &r->in[0];
    size_t from = wf_dtype_bytes(x->dtype), to = wf_dtype_bytes(r->out[0].dtype);
    unsigned char window[16] = { 0 };
    size_t have = 0;
    int64_t o = 0;
    for (int64_t i = 0; i < x->n; i++) {
        wfi_dtype_store(x->dtype, window + have, 0, x->d[i]);
        have += from;
        size_t at = 0;
        for (; have - at >= to; at += to)
            r->out[0].d[o++] = wfi_dtype_load(r->out[0].dtype, window + at, 0);
        for (size_t k = at; k < have; k++)
            window[k - at] = window[k];
        have -= at;
    }
}

const wf_op_def wf_op_bitcast = {
    .call = "x, dtype:dtype",
    .axes = "x[..a] -> y[..b]",
    .map = map,
    .types = "any -> attr",
    .primitive = "kernel",
    .nograd = "bits are no numbers",
    .ref = ref,
    .onnx = "",
    .samples = "i64[2,3] dtype=i32; i32[2,6] dtype=i64; f32[5] dtype=i32; u8[8] dtype=i32",
};
