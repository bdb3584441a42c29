/* Single operators and small chains: element-wise, rows, products, attention, convolution. Each run is one step that
 * ends with its result, which is then given back. */
#include "weft_bench.h"

#include <string.h>

enum { MANY = 4 << 20 };

typedef struct op {
    wf_ctx *c;
    wf_tensor *in[3];
    bool causal;
} op;

static void *make_many(const bench_case *b, int threads)
{
    op *o = (op *)wfb_new(b, threads, sizeof *o);
    if (!o)
        return NULL;
    for (int i = 0; i < 3; i++)
        o->in[i] = wfb_random(o->c, WF_F32, WF_DIMS(MANY), 3);
    return wfb_made(o);
}

static void run_silu(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "ew_silu");
    wf_tensor *x = o->in[0];
    wfb_finish(o->c, s, wf_abs(wf_sub(wf_add(wf_mul(wf_silu(x), o->in[1]), o->in[2]), x)));
}

static void run_gelu8(void *state)
{
    op *o = (op *)state;
    wf_ctx *c = o->c;
    wf_scope s = wf_scope_begin(c, "ew_gelu8");
    wf_tensor *x = o->in[0], *cube = wf_mul(wf_mul(wf_mul(wf_scalar(c, 0.044715), x), x), x);
    wf_tensor *t = wf_tanh(wf_mul(wf_scalar(c, 0.79788456), wf_add(x, cube)));
    wfb_finish(c, s, wf_mul(wf_mul(wf_scalar(c, 0.5), x), wf_add(wf_scalar(c, 1), t)));
}

static void *make_rows(const bench_case *b, int threads)
{
    op *o = (op *)wfb_new(b, threads, sizeof *o);
    if (!o)
        return NULL;
    o->in[0] = wfb_random(o->c, WF_F32, WF_DIMS(4096, 1024), 3);
    o->in[1] = wfb_random(o->c, WF_F32, WF_DIMS(1024), 1);
    o->in[2] = wfb_random(o->c, WF_F32, WF_DIMS(1024), 1);
    return wfb_made(o);
}

static void run_softmax(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "softmax");
    wfb_finish(o->c, s, wf_softmax(o->in[0], 1));
}

static void run_layernorm(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "layernorm");
    wfb_finish(o->c, s, wf_layer_norm(o->in[0], .weight = o->in[1], .bias = o->in[2]));
}

/* b->arg: n; a product of one row where the work is gemv. */
static void *make_product(const bench_case *b, int threads)
{
    op *o = (op *)wfb_new(b, threads, sizeof *o);
    wf_dtype type = strcmp(b->dtype, "bf16") ? WF_F32 : WF_BF16;
    if (!o)
        return NULL;
    o->in[0] = wfb_random(o->c, type, WF_DIMS(strncmp(b->work, "gemv", 4) ? b->arg : 1, b->arg), 1);
    o->in[1] = wfb_random(o->c, type, WF_DIMS(b->arg, b->arg), 1);
    return wfb_made(o);
}

static void run_product(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "product");
    wfb_finish(o->c, s, wf_matmul(o->in[0], o->in[1]));
}

/* Where gradients are asked for, every input counts as one of this step. The result is kept as well: the gradients of
 * a sum may not need it, and the peers compute it. */
static void finish_grad(op *o, wf_scope s, wf_tensor *y, int32_t n)
{
    wf_tensor *made[4] = { NULL };
    wf_grad(wf_sum(y, WF_NO_DIMS), n, o->in, made);
    made[n] = y;
    for (int32_t i = 0; i <= n; i++)
        wf_retain(o->c, made[i]);
    wf_scope_end(o->c, s);
    for (int32_t i = 0; i <= n; i++)
        wf_release(o->c, made[i]);
}

static void *make_attention(const bench_case *b, int threads)
{
    op *o = (op *)wfb_new(b, threads, sizeof *o);
    if (!o)
        return NULL;
    o->causal = b->arg;
    for (int i = 0; i < 3; i++)
        o->in[i] = wfb_random(o->c, strcmp(b->dtype, "bf16") ? WF_F32 : WF_BF16, WF_DIMS(1, 8, 1024, 64), 1);
    return wfb_made(o);
}

static wf_tensor *attend(op *o)
{
    return wf_attention(o->in[0], o->in[1], o->in[2], .causal = o->causal);
}

static void run_attention(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "attention");
    wfb_finish(o->c, s, attend(o));
}

static void run_attention_grad(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "attention");
    finish_grad(o, s, attend(o), 3);
}

static void *make_conv(const bench_case *b, int threads)
{
    op *o = (op *)wfb_new(b, threads, sizeof *o);
    if (!o)
        return NULL;
    o->in[0] = wfb_random(o->c, WF_F32, WF_DIMS(8, 64, 56, 56), 1);
    o->in[1] = wfb_random(o->c, WF_F32, WF_DIMS(64, 64, 3, 3), 0.05);
    return wfb_made(o);
}

static void run_conv(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "conv");
    wfb_finish(o->c, s, wf_conv2d(o->in[0], o->in[1], .pad = 1));
}

static void run_conv_grad(void *state)
{
    op *o = (op *)state;
    wf_scope s = wf_scope_begin(o->c, "conv");
    finish_grad(o, s, wf_conv2d(o->in[0], o->in[1], .pad = 1), 2);
}

#define MANY_BYTES(streams) .bytes = 4.0 * (streams)*MANY
#define PRODUCT(n)          .work = "gemm_" #n, .make = make_product, .run = run_product, .arg = n, .flops = 2.0 * n * n * n
#define LAZY16(...)                                                                                                    \
    {                                                                                                                  \
        .mode = "lazy", .dtype = "bf16", .drop = wfb_drop, __VA_ARGS__                                                 \
    }
#define PRODUCT16(n) LAZY16(PRODUCT(n))
#define ATTENTION(name, what, mask, times)                                                                             \
    .work = name, .make = make_attention, .run = what, .arg = mask,                                                    \
    .flops = times * 4.0 * 8 * 1024 * 1024 * 64 / (mask ? 2 : 1)
#define CONV_FLOPS (2.0 * 8 * 64 * 64 * 9 * 56 * 56)

static const bench_case cases[] = {
    WFB_BOTH(.work = "ew_silu", .make = make_many, .run = run_silu, MANY_BYTES(4)),
    WFB_BOTH(.work = "ew_gelu8", .make = make_many, .run = run_gelu8, MANY_BYTES(2)),
    WFB_BOTH(.work = "softmax_4096x1024", .make = make_rows, .run = run_softmax, MANY_BYTES(2)),
    WFB_BOTH(.work = "layernorm_4096x1024", .make = make_rows, .run = run_layernorm, MANY_BYTES(2)),
    WFB_BOTH(PRODUCT(8)),
    WFB_BOTH(PRODUCT(512)),
    WFB_BOTH(PRODUCT(1024)),
    WFB_BOTH(PRODUCT(2048)),
    PRODUCT16(512),
    PRODUCT16(1024),
    PRODUCT16(2048),
    PRODUCT16(4096),
    WFB_BOTH(.work = "gemv_4096", .make = make_product, .run = run_product, .arg = 4096, .bytes = 4.0 * 4096 * 4096),
    WFB_BOTH(ATTENTION("attn_fwd", run_attention, 0, 1)),
    WFB_BOTH(ATTENTION("attn_fwd_causal", run_attention, 1, 1)),
    WFB_BOTH(ATTENTION("attn_fwdbwd", run_attention_grad, 0, 3)),
    WFB_BOTH(ATTENTION("attn_fwdbwd_causal", run_attention_grad, 1, 3)),
    LAZY16(ATTENTION("attn_fwd", run_attention, 0, 1)),
    LAZY16(ATTENTION("attn_fwdbwd", run_attention_grad, 0, 3)),
    WFB_BOTH(.work = "conv_fwd", .make = make_conv, .run = run_conv, .flops = CONV_FLOPS),
    WFB_BOTH(.work = "conv_fwdbwd", .make = make_conv, .run = run_conv_grad, .flops = 3 * CONV_FLOPS),
};

const wfb_table wfb_tensor = WFB_TABLE(cases);
