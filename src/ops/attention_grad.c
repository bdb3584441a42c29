/* attention_grad(q, k, v, stats, dy; scale, causal): the gradients of attention by q, k and v. stats: f32[..., s, 2]
 * holds lse of attention, and sum(dy * y) along its last axis. With p = exp(scores - lse) and ds = p * (dy v^T - sum(dy
 * * y)): dq = scale * ds k, dk = scale * ds^T q, dv = p^T dy. */
#include "ops/attention_parts.h"

/* What is in stats is computed again: then a second gradient has all of its paths through q, k, v and dy. */
static wf_tensor *lower(const wf_args *v)
{
    const wfi_attr_attention_grad *g = &v->a->attention_grad;
    const char *s = v->site;
    attn a = { .q = attn_wide(v->in[0], s),
               .k = attn_wide(v->in[1], s),
               .v = attn_wide(v->in[2], s),
               .scale = attn_scale(g->scale, v->in[0]),
               .causal = g->causal,
               .site = s };
    wf_tensor *p, *dy = attn_wide(v->in[4], s), *ds = attn_scores_grad(&a, dy, NULL, &p);
    wf_dtype type = wfi_dtype(v->in[0]);
    v->out[1] = wf_cast_(attn_dk(&a, ds), type, s);
    v->out[2] = wf_cast_(wf_matmul_(wf_transpose_(p, s), dy, s), type, s);
    return wf_cast_(attn_dq(&a, ds), type, s);
}

static void cost(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost)
{
    attn_cost(c, x, c->a->attention_grad.causal, 5, cost); /* the scores again, and four gradients */
}

const wf_op_def wf_op_attention_grad = {
    .call = "q, k, v, stats, dy; scale=0.0, causal:bool",
    .axes = "q[.. s# e] k[.. t!# e] v[.. t!# d] stats[.. s# w] dy[.. s# d] -> "
            "dq[.. s# e] dk[.. t# e] dv[.. t# d]; w=2",
    .outputs = "dq, dk, dv",
    .types = "float float float f32 float -> float float float",
    .lower = lower,
    .grad = wfi_grad_lowered,
    .cost = cost,
    .onnx = "",
    .samples = "f64[4,3] f64[5,3] f64[5,2] f32[4,2] f64[4,2]; "
               "f64[2,4,3] f64[2,4,3] f64[2,4,5] f32[2,4,2] f64[2,4,5] causal=true",
};
