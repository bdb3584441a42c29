/* attention(q, k, v; mask, scale, causal): softmax(scale * q k^T + mask) v, without storing the scores.
 * q[..., s, e], k[..., t, e], v[..., t, d] -> y[..., s, d], and lse[..., s] = log(sum(exp(scores))) in f32. scale is
 * 1/sqrt(e) if not given. With .causal query i sees the keys 0 .. i + t - s, so that the last query sees all. The mask
 * [..., s, t] is bool (true: seen) or float (added). A query that sees no key gives zeros and no gradient. Streams over
 * the keys: Milakov and Gimelshein, arXiv:1805.02867; Dao and others, arXiv:2205.14135. */
#include "ops/attention_parts.h"

static attn parts(wf_tensor *const *in, int32_t nin, const wfi_attr_attention *a, const char *site)
{
    return (attn){ .q = attn_wide(in[0], site),
                   .k = attn_wide(in[1], site),
                   .v = attn_wide(in[2], site),
                   .mask = nin > 3 ? in[3] : NULL,
                   .scale = attn_scale(a->scale, in[0]),
                   .causal = a->causal,
                   .site = site };
}

static wf_tensor *lower(const wf_args *v)
{
    attn a = parts(v->in, v->nin, &v->a->attention, v->site);
    wf_tensor *lse, *y = wf_matmul_(attn_weights(&a, &lse), a.v, v->site);
    v->out[1] = wf_cast_(wf_squeeze_(lse, WF_DIMS(-1), v->site), WF_F32, v->site);
    return wf_cast_(y, wfi_dtype(v->in[0]), v->site);
}

/* Where the fused gradient does not reach: with a mask, or with a gradient that comes in through lse. */
static void grad_apart(const wf_vjp *v)
{
    const char *s = v->site;
    attn a = parts(v->in, v->nin, &v->a->attention, s);
    wf_tensor *p, *dy = attn_wide(v->g, s), *ds = attn_scores_grad(&a, dy, v->gout[1], &p);
    wf_dtype type = wfi_dtype(v->in[0]);
    if (v->want[0])
        v->gin[0] = wf_cast_(attn_dq(&a, ds), type, s);
    if (v->want[1])
        v->gin[1] = wf_cast_(attn_dk(&a, ds), type, s);
    if (v->want[2] && dy)
        v->gin[2] = wf_cast_(wf_matmul_(wf_transpose_(p, s), dy, s), type, s);
    if (v->nin > 3 && v->want[3])
        v->gin[3] = wf_cast_(ds, wfi_dtype(v->in[3]), s);
}

/* lse and sum(dy * y) for each query: f32[.., s, 2] */
static wf_tensor *stats(const wf_vjp *v)
{
    const char *s = v->site;
    wf_tensor *both = wf_mul_(attn_wide(v->y, s), attn_wide(v->g, s), s);
    wf_tensor *delta = wf_sum_(both, WF_DIMS(-1), WF_OPTS(wf_sum_opts, .keep = true), s);
    return wf_concat_(2, (wf_tensor *[]){ wf_unsqueeze_(v->out[1], WF_DIMS(-1), s), wf_cast_(delta, WF_F32, s) }, -1,
                      s);
}

static void grad(const wf_vjp *v)
{
    const wfi_attr_attention *a = &v->a->attention;
    if (v->gout[1] || (v->nin > 3 && v->in[3])) {
        grad_apart(v);
        return;
    }
    wf_tensor *all[3] = { NULL, NULL, NULL };
    all[0] = wf_attention_grad_(
        v->in[0], v->in[1], v->in[2], stats(v), v->g,
        WF_OPTS(wf_attention_grad_opts, .scale = a->scale, .causal = a->causal, .dk = &all[1], .dv = &all[2]), v->site);
    for (int i = 0; i < 3; i++)
        if (v->want[i])
            v->gin[i] = all[i];
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    attn_cost(c, x, c->a->attention.causal, 2, cost); /* q k^T and p v */
}

const wf_op_def wf_op_attention = {
    .call = "q, k, v; mask:tensor?, scale=0.0, causal:bool",
    .axes = "q[.. s# e] k[.. t!# e] v[.. t!# d] mask[.. s# t!#] -> y[.. s# d] lse[.. s#]",
    .outputs = "y, lse",
    .types = "float float float all -> float f32",
    .lower = lower,
    .grad = grad,
    .cost = cost,
    .autocast = "low",
    .onnx = "Attention 23",
    .samples = "f32[2,3,5,8] f32[2,3,7,8] f32[2,3,7,4]; f32[2,6,5] f32[2,6,5] f32[2,6,3] causal=true; "
               "f64[5,4] f64[9,4] f64[9,6] scale=0.3; f32[3,4,8] f32[3,5,8] f32[3,5,8] f32[4,5]; "
               "f32[2,4,3] f32[2,2,3] f32[2,2,3] causal=true; bf16[2,7,16] bf16[2,7,16] bf16[2,7,16] tol=4e-2; "
               "f64[2,3,8] f64[2,5,8] f64[2,5,4] bool[3,5]",
};
