/* Layers: parameters of a model and a few operators. */
#include <math.h>
#include "nn/model.h"
#include "ops/op.h"
#include "record/again.h"

/* The checks that need the shape of x before any operator sees it. */
bool wfi_layers_ready(wf_model *m, wf_tensor *x, const char *call, int32_t rank_min, int32_t rank_max, const char *site)
{
    if (!m)
        return false;
    wf_ctx *c = m->root->ctx;
    if (c->status != WF_OK)
        return false;
    char text[96] = "a number";
    if (!x)
        wfi_error_set(c, WF_ERR_ARG, call, site, "x is NULL");
    else if (x->ctx != c)
        wfi_error_set(c, WF_ERR_ARG, call, site, "x belongs to another context than the model");
    else if (x->flags & WFI_H_DEAD)
        wfi_error_set(c, WF_ERR_STATE, call, site, "x belongs to a scope that has ended");
    else {
        uint32_t type = x->flags & WFI_H_WEAK ? 0 : wfi_tensor_type(x);
        int32_t n = type ? wfi_type_at(&c->ids, type)->ndim : 0;
        if (n >= rank_min && n <= rank_max)
            return true;
        if (type)
            wfi_type_text(&c->ids, type, text, sizeof text);
        wfi_error_set(c, WF_ERR_SHAPE, call, site, "x is %s: %d axes%s were expected", text, (int)rank_min,
                      rank_max > rank_min ? " or more" : "");
        wfi_error_operands(c, NULL, 1, &x);
    }
    return false;
}

bool wfi_layers_options(wf_model *m, const void *unnamed, const char *call, const char *site)
{
    if (m && unnamed)
        wfi_error_set(m->root->ctx, WF_ERR_ARG, call, site, "options need names: .no_bias = true");
    return m && m->root->ctx->status == WF_OK;
}

wf_dtype wfi_layers_dtype(wf_tensor *x)
{
    const wf_dtype d = wfi_dtype(x);
    return x->ctx->autocast && (d == WF_BF16 || d == WF_F16) ? WF_F32 : d;
}

wf_tensor *wfi_layers_bias(wf_tensor *y, wf_tensor *b, const char *site)
{
    if (!y || !b)
        return y;
    return wf_add_(y, wfi_dtype(b) == wfi_dtype(y) ? b : wf_cast_(b, wfi_dtype(y), site), site);
}

/* x[m, in] -> [m, out], with w[out, in] and b[out] or NULL */
static wf_tensor *affine_rows(wf_tensor *x, wf_tensor *w, wf_tensor *b, const char *site)
{
    return wfi_layers_bias(wf_matmul_(x, wf_transpose_(w, site), site), b, site);
}

/* x[..., in] -> [..., out]: one product over all rows. */
static wf_tensor *affine(wf_tensor *x, wf_tensor *w, wf_tensor *b, const char *site)
{
    wf_dims d = wfi_shape(x), rows = { 2, { 1, d.d[d.n - 1] } };
    for (int32_t i = 0; i + 1 < d.n; i++)
        rows.d[0] *= d.d[i];
    wf_tensor *y = affine_rows(d.n == 2 ? x : wf_reshape_(x, rows, site), w, b, site);
    if (d.n == 2 || !y)
        return y;
    d.d[d.n - 1] = wfi_shape(w).d[0];
    return wf_reshape_(y, d, site);
}

static wf_param_opts weight_opts(wf_init_kind init, double scale, wf_dtype dtype)
{
    return (wf_param_opts){ .size = sizeof(wf_param_opts), .init = init, .scale = scale, .dtype = dtype };
}

static wf_param_opts bias_opts(wf_init_kind init, int64_t fan_in, wf_dtype dtype)
{
    /* PyTorch's default goes with its default weight; any other choice of weight with zeros */
    return (wf_param_opts){ .size = sizeof(wf_param_opts),
                            .dtype = dtype,
                            .fan_in = fan_in > 0 ? fan_in : 1,
                            .init = init == WF_INIT_UNIFORM_FAN_IN ? WF_INIT_UNIFORM_FAN_IN : WF_INIT_ZEROS };
}

bool wfi_layers_positive(wf_model *m, int64_t v, const char *what, const char *call, const char *site)
{
    if (v < 1)
        wfi_error_set(m->root->ctx, WF_ERR_ARG, call, site, "%s is %lld: 1 or more was expected", what, (long long)v);
    return v >= 1;
}

/* ---- layers that do on a known trace what they did there before (record/again.h) ---- */

static int64_t layer_key(const wf_model *m, bool flag)
{
    return (int64_t)((uint64_t)m->id << 1 | flag);
}

static bool layer_again(wf_model *m, wfi_call *k, wf_tensor **y, const char *site)
{
    wf_ctx *c = m->root->ctx;
    return k->in[0] && k->name && wfi_in_step(c, k->in[0]) && wfi_again(c, k, 1, y, site);
}

/* A leaf is taken in first. True: the call is done, or there is an error, and *y NULL. */
static bool layer_enter(wf_model *m, wfi_call *k, wf_tensor **y, const char *site)
{
    wf_ctx *c = m->root->ctx;
    if (wfi_in_step(c, k->in[0]))
        return false;
    return !wfi_again_enter(c, k->in[0], site) || layer_again(m, k, y, site);
}

static void layer_keep(wf_model *m, const wfi_call *k, wf_tensor *y)
{
    const wfi_param *p = y && k->trace ? wfi_param_seen(m, k->name, "weight") : NULL;
    if (p)
        wfi_again_keep(m->root->ctx, k, p->path.text + p->at, p->end - p->at, 1, &y);
}

wf_tensor *wf_nn_linear_(wf_model *m, const char *name, wf_tensor *x, int64_t out, const wf_nn_linear_opts *o,
                         const char *site)
{
    static const wf_nn_linear_opts plain;
    wf_tensor *y = NULL;
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, "wf_nn_linear", site))
        return NULL;
    wfi_call call = { .what = "linear", .name = name, .args = { out, layer_key(m, o->no_bias) }, .in = { x } };
    if (layer_again(m, &call, &y, site))
        return y;
    if (!wfi_layers_ready(m, x, "wf_nn_linear", 1, WF_RANK_MAX, site) ||
        !wfi_layers_positive(m, out, "the number of outputs", "wf_nn_linear", site))
        return NULL;
    if (layer_enter(m, &call, &y, site))
        return y;
    const wfi_type *t = wfi_type_at(&m->root->ctx->ids, wfi_tensor_type(x));
    const wf_dtype dtype = wfi_layers_dtype(x);
    int64_t in = t->dim[t->ndim - 1];
    static const char weight[] = "linear weight", bias[] = "linear bias";
    wf_tensor *w = wfi_param_known(m, name, "weight", weight, dtype, out, in, site), *b = NULL;
    if (!w) {
        wf_param_opts wo = weight_opts(o->init, o->init_scale, dtype);
        w = wfi_param_value(m, name, "weight", weight, &WF_DIMS(out, in), &wo, site);
    }
    if (w && !o->no_bias && !(b = wfi_param_known(m, name, "bias", bias, dtype, out, -1, site))) {
        wf_param_opts bo = bias_opts(o->init, in, dtype);
        b = wfi_param_value(m, name, "bias", bias, &WF_DIMS(out), &bo, site);
    }
    if (!w || (!b && !o->no_bias))
        return NULL;
    y = t->ndim == 2 ? affine_rows(x, w, b, site) : affine(x, w, b, site);
    layer_keep(m, &call, y);
    return y;
}

static int32_t either(int32_t own, int32_t both)
{
    return own ? own : both ? both : 1;
}

wf_tensor *wf_nn_conv2d_(wf_model *m, const char *name, wf_tensor *x, int64_t out, const wf_nn_conv2d_opts *o,
                         const char *site)
{
    static const wf_nn_conv2d_opts plain;
    static const char call[] = "wf_nn_conv2d";
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, call, site) || !wfi_layers_ready(m, x, call, 4, 4, site) ||
        !wfi_layers_positive(m, out, "the number of outputs", call, site))
        return NULL;
    int32_t groups = either(o->groups, 0), kh = either(o->kernel_h, o->kernel), kw = either(o->kernel_w, o->kernel);
    int64_t channels = wfi_shape(x).d[1];
    if (!wfi_layers_positive(m, groups, ".groups", call, site) || !wfi_layers_positive(m, kh, ".kernel", call, site) ||
        !wfi_layers_positive(m, kw, ".kernel", call, site))
        return NULL;
    if (channels % groups || out % groups) {
        wfi_error_set(m->root->ctx, WF_ERR_SHAPE, call, site,
                      "%d groups do not divide both %lld channels and %lld outputs", (int)groups, (long long)channels,
                      (long long)out);
        return NULL;
    }
    wf_dtype dtype = wfi_layers_dtype(x);
    int64_t in = channels / groups;
    wf_param_opts wo = weight_opts(WF_INIT_UNIFORM_FAN_IN, 0, dtype), bo = bias_opts(wo.init, in * kh * kw, dtype);
    wf_tensor *w = wfi_param_value(m, name, "weight", "conv2d weight", &WF_DIMS(out, in, kh, kw), &wo, site);
    wf_tensor *b = o->no_bias || !w ? NULL : wfi_param_value(m, name, "bias", "conv2d bias", &WF_DIMS(out), &bo, site);
    if (!w || (!b && !o->no_bias))
        return NULL;
    wf_tensor *y = wf_conv2d_(x, w,
                              WF_OPTS(wf_conv2d_opts, .stride = o->stride, .stride_h = o->stride_h,
                                      .stride_w = o->stride_w, .pad = o->pad, .pad_h = o->pad_h, .pad_w = o->pad_w,
                                      .dilation = o->dilation, .groups = groups),
                              site);
    return wfi_layers_bias(y, b ? wf_reshape_(b, WF_DIMS(out, 1, 1), site) : NULL, site);
}

wf_tensor *wf_nn_layer_norm_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_layer_norm_opts *o,
                             const char *site)
{
    static const wf_nn_layer_norm_opts plain;
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, "wf_nn_layer_norm", site) ||
        !wfi_layers_ready(m, x, "wf_nn_layer_norm", 1, WF_RANK_MAX, site))
        return NULL;
    wf_dims d = wfi_shape(x), n = WF_DIMS(d.d[d.n - 1]);
    wf_dtype dtype = wfi_layers_dtype(x);
    wf_param_opts wo = weight_opts(WF_INIT_ONES, 0, dtype), bo = weight_opts(WF_INIT_ZEROS, 0, dtype);
    wf_tensor *w = wfi_param_value(m, name, "weight", "layer_norm weight", &n, &wo, site);
    wf_tensor *b = o->no_bias || !w ? NULL : wfi_param_value(m, name, "bias", "layer_norm bias", &n, &bo, site);
    if (!w || (!b && !o->no_bias))
        return NULL;
    return wf_layer_norm_(x, WF_OPTS(wf_layer_norm_opts, .weight = w, .bias = b, .eps = o->eps), site);
}

/* ---- batch norm ---- */

/* What a batch norm keeps from batch to batch, in the type of statistics. */
typedef struct running {
    wf_var *mean, *var, *batches;
} running;

static bool running_get(wf_model *m, const char *name, int64_t channels, wf_dtype dtype, running *r, const char *site)
{
    wf_param_opts mean = weight_opts(WF_INIT_ZEROS, 0, dtype == WF_F64 ? WF_F64 : WF_F32), var = mean, batches = mean;
    mean.frozen = var.frozen = batches.frozen = true;
    var.init = WF_INIT_ONES;
    batches.dtype = WF_I64;
    wf_dims n = WF_DIMS(channels), one = WF_NO_DIMS;
    const wfi_param *p = wfi_param_get(m, name, "running_mean", "batch_norm mean", &n, &mean, site);
    const wfi_param *q = p ? wfi_param_get(m, name, "running_var", "batch_norm var", &n, &var, site) : NULL;
    if (!q)
        return false;
    *r = (running){ p->var, q->var, NULL };
    if (m->root->thawed) /* nothing is counted there, and other programs' files need not have it */
        return true;
    const wfi_param *b = wfi_param_get(m, name, "num_batches_tracked", "batch_norm batches", &one, &batches, site);
    r->batches = b ? b->var : NULL;
    return b;
}

/* old + momentum * (seen - old), with `seen` scaled */
static bool update(wf_var *old, wf_tensor *seen, double momentum, double scale, const char *site)
{
    wf_tensor *keep = wf_mul_(wf_value_(old, site), wfi_like(seen, 1 - momentum), site);
    wf_tensor *t = wf_add_(keep, wf_mul_(seen, wfi_like(seen, momentum * scale), site), site);
    return t && wf_assign_(old, t, site) == WF_OK;
}

/* y by the statistics of the batch, which the running ones follow. */
static wf_tensor *norm_batch(wf_tensor *x, wf_tensor *w, wf_tensor *b, const running *r, const wf_nn_batch_norm_opts *o,
                             const char *site)
{
    wf_dims d = wfi_shape(x);
    double n = 1, momentum = o->momentum == 0 ? 0.1 : o->momentum > 0 ? o->momentum : 0;
    for (int32_t i = 0; i < d.n; i++)
        n *= i == 1 ? 1 : (double)d.d[i];
    if (n == 1) {
        wfi_error_set(x->ctx, WF_ERR_SHAPE, "wf_nn_batch_norm", site,
                      "x has one element a channel, which is its own mean: a larger batch was expected in training");
        return NULL;
    }
    wf_tensor *mean = NULL, *var = NULL;
    wf_tensor *y = wf_batch_norm_train_(
        x, WF_OPTS(wf_batch_norm_train_opts, .weight = w, .bias = b, .eps = o->eps, .mean = &mean, .var = &var), site);
    if (!y || n == 0)
        return y;
    wf_tensor *batches = wf_add_(wf_value_(r->batches, site), wf_scalar_(x->ctx, 1, site), site);
    bool ok = update(r->mean, mean, momentum, 1, site) && update(r->var, var, momentum, n / (n - 1), site) && batches &&
              wf_assign_(r->batches, batches, site) == WF_OK;
    return ok ? y : NULL;
}

wf_tensor *wf_nn_batch_norm_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_batch_norm_opts *o,
                             const char *site)
{
    static const wf_nn_batch_norm_opts plain;
    static const char call[] = "wf_nn_batch_norm";
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, call, site) || !wfi_layers_ready(m, x, call, 2, WF_RANK_MAX, site))
        return NULL;
    wf_dims n = WF_DIMS(wfi_shape(x).d[1]);
    wf_dtype dtype = wfi_layers_dtype(x);
    wf_param_opts wo = weight_opts(WF_INIT_ONES, 0, dtype), bo = weight_opts(WF_INIT_ZEROS, 0, dtype);
    wf_tensor *w = NULL, *b = NULL;
    running r;
    if (!o->no_affine && (!(w = wfi_param_value(m, name, "weight", "batch_norm weight", &n, &wo, site)) ||
                          !(b = wfi_param_value(m, name, "bias", "batch_norm bias", &n, &bo, site))))
        return NULL;
    if (!running_get(m, name, n.d[0], dtype, &r, site))
        return NULL;
    if (wfi_model_trains(m) && !o->running)
        return norm_batch(x, w, b, &r, o, site);
    return wf_batch_norm_(x, wf_value_(r.mean, site), wf_value_(r.var, site),
                          WF_OPTS(wf_batch_norm_opts, .weight = w, .bias = b, .eps = o->eps), site);
}

wf_tensor *wf_nn_embedding_(wf_model *m, const char *name, wf_tensor *ids, wf_dims count_width,
                            const wf_nn_embedding_opts *o, const char *site)
{
    static const wf_nn_embedding_opts plain;
    static const char call[] = "wf_nn_embedding";
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, call, site) || !wfi_layers_ready(m, ids, call, 0, WF_RANK_MAX - 1, site))
        return NULL;
    if (count_width.n != 2) {
        wfi_error_set(m->root->ctx, WF_ERR_SHAPE, call, site, "two sizes were expected, WF_DIMS(count, width), got %d",
                      (int)count_width.n);
        return NULL;
    }
    if (!wfi_layers_positive(m, count_width.d[0], "the count", call, site) ||
        !wfi_layers_positive(m, count_width.d[1], "the width", call, site))
        return NULL;
    wf_param_opts wo = weight_opts(WF_INIT_NORMAL, o->scale, WF_F32);
    wf_tensor *w = wfi_param_value(m, name, "weight", "embedding weight", &count_width, &wo, site);
    return w ? wf_gather_(w, ids, site) : NULL;
}

/* ---- attention ---- */

/* Part `i` of three of the joint weight [3E, E] and bias [3E]: slicing weights is cheaper than slicing activations,
 * forward and back. x[B,T,E] -> [B,H,T,E/H] */
static wf_tensor *head_input(wf_tensor *x, wf_tensor *w, wf_tensor *b, int64_t i, int64_t heads, const char *site)
{
    wf_dims d = wfi_shape(x);
    int64_t e = d.d[2];
    wf_tensor *y =
        affine(x, wf_slice_(w, 0, i * e, e, NULL, site), b ? wf_slice_(b, 0, i * e, e, NULL, site) : NULL, site);
    y = wf_reshape_(y, WF_DIMS(d.d[0], d.d[1], heads, e / heads), site);
    return wf_permute_(y, WF_DIMS(0, 2, 1, 3), site);
}

wf_tensor *wf_nn_attention_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_attention_opts *o,
                            const char *site)
{
    static const wf_nn_attention_opts plain;
    static const char call[] = "wf_nn_attention";
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, call, site) || !wfi_layers_ready(m, x, call, 3, 3, site))
        return NULL;
    wf_dims d = wfi_shape(x);
    int64_t e = d.d[2], heads = o->heads ? o->heads : 1;
    if (!wfi_layers_positive(m, heads, ".heads", call, site))
        return NULL;
    if (e % heads) {
        wfi_error_set(m->root->ctx, WF_ERR_SHAPE, call, site, "%lld heads do not divide the width %lld",
                      (long long)heads, (long long)e);
        return NULL;
    }
    wf_model *sub = wf_model_sub(m, name);
    wf_dtype dtype = wfi_layers_dtype(x);
    wf_param_opts wo = weight_opts(WF_INIT_UNIFORM_FAN_IN, 0, dtype), bo = bias_opts(wo.init, e, dtype);
    wf_tensor *w = wfi_param_value(sub, "qkv", "weight", "linear weight", &WF_DIMS(3 * e, e), &wo, site);
    wf_tensor *b =
        o->no_bias || !w ? NULL : wfi_param_value(sub, "qkv", "bias", "linear bias", &WF_DIMS(3 * e), &bo, site);
    if (!w || (!b && !o->no_bias))
        return NULL;
    wf_tensor *q = head_input(x, w, b, 0, heads, site), *k = head_input(x, w, b, 1, heads, site);
    wf_tensor *v = head_input(x, w, b, 2, heads, site);
    wf_tensor *y = wf_attention_(q, k, v, WF_OPTS(wf_attention_opts, .causal = o->causal), site);
    y = wf_reshape_(wf_permute_(y, WF_DIMS(0, 2, 1, 3), site), d, site);
    return y ? wf_nn_linear_(sub, "proj", y, e,
                             WF_OPTS(wf_nn_linear_opts, .no_bias = o->no_bias, .init_scale = o->init_scale), site)
             : NULL;
}

wf_tensor *wf_nn_transformer_block_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_block_opts *o,
                                    const char *site)
{
    static const wf_nn_block_opts plain;
    static const char call[] = "wf_nn_transformer_block";
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, call, site) || !wfi_layers_ready(m, x, call, 3, 3, site))
        return NULL;
    int64_t e = wfi_shape(x).d[2], hidden = o->hidden ? o->hidden : 4 * e;
    wf_model *s = wf_model_sub(m, name);
    if (!s)
        return NULL;
    wf_tensor *y = wf_nn_layer_norm_(s, "ln1", x, NULL, site);
    if (y)
        y = wf_nn_attention_(
            s, "attn", y,
            WF_OPTS(wf_nn_attention_opts, .heads = o->heads, .causal = o->causal, .init_scale = o->init_scale), site);
    if (!y || !(x = wf_add_(x, y, site)) || !(y = wf_nn_layer_norm_(s, "ln2", x, NULL, site)))
        return NULL;
    if (!(y = wf_nn_linear_(s, "fc1", y, hidden, NULL, site)) || !(y = wf_gelu_tanh_(y, site)))
        return NULL;
    y = wf_nn_linear_(s, "fc2", y, e, WF_OPTS(wf_nn_linear_opts, .init_scale = o->init_scale), site);
    return y ? wf_add_(x, y, site) : NULL;
}
