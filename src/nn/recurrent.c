/* Recurrent layers: the products with the input over all positions at once, then a scan of one small product and one
 * cell a position. */
#include "nn/model.h"
#include "ops/op.h"
#include "record/again.h"

typedef struct lstm {
    wf_tensor *w_ih, *w_hh, *b_ih, *b_hh; /* [4n,in], [4n,n], [4n], [4n] */
    wf_tensor *h, *c;                     /* [B,n] */
} lstm;

typedef struct step {
    wf_tensor *w; /* [n,4n] */
    const char *site;
} step;

static bool parameters(wf_model *m, const char *name, int64_t in, int64_t n, wf_dtype dtype, bool bias, lstm *l,
                       const char *site)
{
    const wf_param_opts o = { .size = sizeof o, .fan_in = n, .dtype = dtype };
    l->w_ih = wfi_param_value(m, name, "weight_ih_l0", "lstm weight", &WF_DIMS(4 * n, in), &o, site);
    l->w_hh = l->w_ih ? wfi_param_value(m, name, "weight_hh_l0", "lstm weight", &WF_DIMS(4 * n, n), &o, site) : NULL;
    if (!l->w_hh || !bias)
        return l->w_hh != NULL;
    l->b_ih = wfi_param_value(m, name, "bias_ih_l0", "lstm bias", &WF_DIMS(4 * n), &o, site);
    l->b_hh = l->b_ih ? wfi_param_value(m, name, "bias_hh_l0", "lstm bias", &WF_DIMS(4 * n), &o, site) : NULL;
    return l->b_hh != NULL;
}

/* The state that was given, or zeros. */
static wf_tensor *state(wf_model *m, wf_tensor *given, wf_tensor *x, wf_dims dims, const char *what, const char *site)
{
    static const char call[] = "wf_nn_lstm";
    if (!given)
        return wf_broadcast_to_(wfi_like(x, 0), dims, site);
    if (!wfi_layers_ready(m, given, call, 2, 2, site))
        return NULL;
    wf_dims d = wfi_shape(given);
    if (d.d[0] == dims.d[0] && d.d[1] == dims.d[1])
        return given;
    wfi_error_set(m->root->ctx, WF_ERR_SHAPE, call, site, "%s is [%lld,%lld], [%lld,%lld] was expected", what,
                  (long long)d.d[0], (long long)d.d[1], (long long)dims.d[0], (long long)dims.d[1]);
    return NULL;
}

/* One position. h, c: [B,n], gates: [B,4n], the part of them that comes from x -> h, c, h. user: w_hh, transposed. */
static bool position(void *user, wf_ctx *ctx, wf_tensor *const *in, wf_tensor **out)
{
    const step *s = user;
    wf_tensor *from_h = wf_matmul_(in[0], s->w, s->site);
    (void)ctx;
    out[1] = NULL;
    out[0] = out[2] = wf_lstm_cell_(in[2], from_h, in[1], WF_OPTS(wf_lstm_cell_opts, .cell = &out[1]), s->site);
    return out[0] != NULL;
}

static wf_tensor *run(wf_model *m, lstm *l, wf_tensor *x, const char *site)
{
    const wf_dims d = wfi_shape(x);
    wf_tensor *gates = wf_reshape_(x, WF_DIMS(d.d[0] * d.d[1], d.d[2]), site), *y = NULL, *carry[2] = { l->h, l->c };
    gates = wf_matmul_(gates, wf_transpose_(l->w_ih, site), site);
    if (l->b_ih)
        gates = wfi_layers_bias(gates, wf_add_(l->b_ih, l->b_hh, site), site);
    gates = wf_reshape_(gates, WF_DIMS(d.d[0], d.d[1], wfi_shape(gates).d[1]), site);
    step s = { wf_transpose_(l->w_hh, site), site };
    wf_scan_(m->root->ctx, position, &s,
             WF_OPTS(wf_scan_opts, .carry = carry, .ncarry = 2, .xs = &gates, .nxs = 1, .ys = &y, .nys = 1), site);
    l->h = carry[0];
    l->c = carry[1];
    return y;
}

static wf_tensor *lstm_of(wf_model *m, const char *name, wf_tensor *x, int64_t hidden, const wf_nn_lstm_opts *o,
                          const char *site)
{
    const wf_dims d = wfi_shape(x);
    lstm l = { .w_ih = NULL };
    if (!wfi_layers_positive(m, d.d[0], "the number of positions", "wf_nn_lstm", site) ||
        !parameters(m, name, d.d[2], hidden, wfi_layers_dtype(x), !o->no_bias, &l, site))
        return NULL;
    l.h = state(m, o->h0, x, WF_DIMS(d.d[1], hidden), "h0", site);
    l.c = l.h ? state(m, o->c0, x, WF_DIMS(d.d[1], hidden), "c0", site) : NULL;
    wf_tensor *y = l.c ? run(m, &l, x, site) : NULL;
    if (y && o->h_n)
        *o->h_n = l.h;
    if (y && o->c_n)
        *o->c_n = l.c;
    return y;
}

wf_tensor *wf_nn_lstm_(wf_model *m, const char *name, wf_tensor *x, int64_t hidden, const wf_nn_lstm_opts *o,
                       const char *site)
{
    static const wf_nn_lstm_opts plain;
    static const char call[] = "wf_nn_lstm";
    o = o ? o : &plain;
    if (!wfi_layers_options(m, o->unnamed, call, site) || !wfi_layers_ready(m, x, call, 3, 3, site) ||
        !wfi_layers_positive(m, hidden, "the number of outputs", call, site))
        return NULL;
    const bool plain_call = !o->h0 && !o->c0 && !o->h_n && !o->c_n && name;
    wfi_call k = {
        .what = "lstm", .name = name, .args = { hidden, (int64_t)((uint64_t)m->id << 1 | o->no_bias) }, .in = { x }
    };
    wf_ctx *c = m->root->ctx;
    wf_tensor *y = NULL;
    if (plain_call && (!wfi_again_enter(c, x, site) || wfi_again(c, &k, 1, &y, site)))
        return c->status == WF_OK ? y : NULL;
    y = lstm_of(m, name, x, hidden, o, site);
    const wfi_param *p = y && plain_call && k.trace ? wfi_param_seen(m, name, "weight_ih_l0") : NULL;
    if (p)
        wfi_again_keep(c, &k, p->path.text + p->at, p->end - p->at, 1, &y);
    return y;
}
