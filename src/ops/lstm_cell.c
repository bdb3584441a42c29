/* lstm_cell(a, b, c; cell): one step of a long short-term memory. The sum of a and b holds four blocks along the last
 * axis, in PyTorch's order: input gate i, forget gate f, candidate g, output gate o, each before its sigmoid (g: tanh).
 * cell = sigmoid(f) * c + sigmoid(i) * tanh(g), h = sigmoid(o) * tanh(cell).
 * a, b: float[..., 4n], c: float[..., n] -> h, cell: float[..., n]. Hochreiter and Schmidhuber 1997; Gers, Schmidhuber
 * and Cummins 2000. */
#include <stdio.h>
#include "ops/op.h"

static bool check(const wf_op_case *c, char *err, size_t bytes)
{
    int64_t gates = c->in[0].dim[c->in[0].ndim - 1], n = c->in[2].dim[c->in[2].ndim - 1];
    if (gates == 4 * n)
        return true;
    snprintf(err, bytes, "lstm_cell: a[-1] is %lld, needed four times c[-1], which is %lld", (long long)gates,
             (long long)n);
    return false;
}

/* Block k of the gates, n wide. */
static wf_tensor *gate(const wf_args *v, int64_t k, int64_t n)
{
    const char *s = v->site;
    return wf_add_(wf_slice_(v->in[0], -1, k * n, n, NULL, s), wf_slice_(v->in[1], -1, k * n, n, NULL, s), s);
}

static wf_tensor *lower(const wf_args *v)
{
    const char *s = v->site;
    const wf_dims c = wfi_shape(v->in[2]);
    const int64_t n = c.d[c.n - 1];
    wf_tensor *in = wf_mul_(wf_sigmoid_(gate(v, 0, n), s), wf_tanh_(gate(v, 2, n), s), s);
    wf_tensor *cell = wf_add_(wf_mul_(wf_sigmoid_(gate(v, 1, n), s), v->in[2], s), in, s);
    v->out[1] = cell;
    return wf_mul_(wf_sigmoid_(gate(v, 3, n), s), wf_tanh_(cell, s), s);
}

const wf_op_def wf_op_lstm_cell = {
    .call = "a, b, c",
    .axes = "a[.. q!] b[.. q!] c[.. n!] -> h[.. n!] cell[.. n!]",
    .outputs = "h, cell",
    .types = "float",
    .lower = lower,
    .check = check,
    .grad = wfi_grad_lowered,
    .onnx = "",
    .samples = "f32[3,20] f32[3,20] f32[3,5]; f64[2,3,8] f64[2,3,8] f64[2,3,2]; f64[12] f64[12] f64[3]; "
               "bf16[2,36] bf16[2,36] bf16[2,9] tol=4e-2",
};
