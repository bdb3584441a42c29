/* Recurrent layers: the products with the input over all positions at once, then one small product and one cell a
 * position. */
#include "nn/model.h"
#include "ops/op.h"

typedef struct lstm {
    wf_tensor *w_ih, *w_hh, *b_ih, *b_hh; /* [4n,in], [4n,n], [4n], [4n] */
    wf_tensor *h, *c;                     /* [B,n] */
} lstm;

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

/* The states of all positions, out[t]: h[B,n]. gates: [T B,4n], the part that comes from x. */
static bool walk(lstm *l, wf_tensor *gates, int64_t positions, wf_tensor **out, const char *site)
{
    wf_tensor *w = wf_transpose_(l->w_hh, site);
    for (int64_t t = 0, batch = wfi_shape(l->h).d[0]; t < positions; t++) {
        wf_tensor *from_x = wf_slice_(gates, 0, t * batch, batch, NULL, site), *cell = NULL;
        wf_tensor *from_h = wf_matmul_(l->h, w, site);
        l->h = wf_lstm_cell_(from_x, from_h, l->c, WF_OPTS(wf_lstm_cell_opts, .cell = &cell), site);
        l->c = cell;
        if (!(out[t] = l->h))
            return false;
    }
    return true;
}

/* x[0] .. x[n-1] one behind the other along the first axis, as many at a time as an operator takes. Overwrites x. */
static wf_tensor *join(wf_tensor **x, int64_t n, const char *site)
{
    for (int64_t made; n > 1; n = made) {
        made = 0;
        for (int64_t i = 0; i < n; i += WFI_BIND_IN) {
            int32_t k = (int32_t)(n - i < WFI_BIND_IN ? n - i : WFI_BIND_IN);
            wf_tensor *t = k > 1 ? wf_concat_(k, x + i, 0, site) : x[i];
            if (!t)
                return NULL;
            x[made++] = t;
        }
    }
    return x[0];
}

static wf_tensor *run(wf_model *m, lstm *l, wf_tensor *x, const char *site)
{
    wf_ctx *c = m->root->ctx;
    wf_dims d = wfi_shape(x);
    wf_tensor *gates = wf_reshape_(x, WF_DIMS(d.d[0] * d.d[1], d.d[2]), site);
    gates = wf_matmul_(gates, wf_transpose_(l->w_ih, site), site);
    if (l->b_ih)
        gates = wfi_layers_bias(gates, wf_add_(l->b_ih, l->b_hh, site), site);
    wf_tensor **out = wfi_mem_array(c->mem, (size_t)d.d[0], sizeof *out), *y = NULL;
    if (!out)
        return wfi_error_memory(c, "wf_nn_lstm", site), NULL;
    if (walk(l, gates, d.d[0], out, site))
        y = join(out, d.d[0], site);
    wfi_mem_free(c->mem, out);
    d.d[2] = wfi_shape(l->h).d[1];
    return y ? wf_reshape_(y, d, site) : NULL;
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
    wf_dims d = wfi_shape(x);
    lstm l = { .w_ih = NULL };
    if (!wfi_layers_positive(m, d.d[0], "the number of positions", call, site) ||
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
