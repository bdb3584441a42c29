/* Losses: a sum and the weight that it is divided by. The weight carries no gradient: it counts, it does not compute.
 */
#include <string.h>
#include "nn/model.h"
#include "ops/op.h"
#include "record/again.h"

static wf_ctx *ctx_of(wf_tensor *a, wf_tensor *b)
{
    return a ? a->ctx : b ? b->ctx : NULL;
}

static bool given(wf_ctx *c, wf_tensor *t, const char *call, const char *name, const char *site)
{
    if (!t && c->status == WF_OK)
        wfi_error_set(c, WF_ERR_ARG, call, site, "%s is NULL", name);
    return c->status == WF_OK;
}

static double elements(wf_tensor *t)
{
    uint32_t type = t ? wfi_tensor_type(t) : 0;
    return type ? (double)wfi_type_at(&t->ctx->ids, type)->elements : 1;
}

/* Does this loss, on a known trace, what it did there before (record/again.h)? Operands are taken in first; an error
 * is for the operators behind to find. */
static bool loss_again(wf_ctx *c, wfi_call *k, wf_loss *loss, const char *site)
{
    wf_tensor *out[2];
    for (int i = 0; i < 2; i++) {
        const wf_tensor *t = k->in[i];
        if (c->run_now || t->ctx != c || t->flags & (WFI_H_WEAK | WFI_H_DEAD) || !wfi_again_enter(c, k->in[i], site))
            return false;
    }
    if (!wfi_again(c, k, 2, out, site))
        return false;
    *loss = (wf_loss){ out[0], out[1] };
    return true;
}

static void loss_keep(wf_ctx *c, const wfi_call *k, wf_loss loss)
{
    wf_tensor *const out[2] = { loss.sum, loss.weight };
    if (k->trace)
        wfi_again_keep(c, k, NULL, 0, 2, out);
}

static bool same_shape(wf_tensor *a, wf_tensor *b)
{
    if (wfi_tensor_type(a) && wfi_tensor_type(a) == wfi_tensor_type(b))
        return true;
    wf_dims p = wfi_shape(a), q = wfi_shape(b);
    return p.n == q.n && !memcmp(p.d, q.d, (size_t)p.n * sizeof *p.d);
}

/* 16-bit numbers are summed in f32. */
static wf_tensor *wide(wf_tensor *t, const char *site)
{
    wf_dtype d = wfi_dtype(t);
    return d == WF_F16 || d == WF_BF16 ? wf_cast_(t, WF_F32, site) : t;
}

wf_loss wf_cross_entropy_(wf_tensor *logits, wf_tensor *labels, const wf_cross_entropy_opts *o, const char *site)
{
    static const wf_cross_entropy_opts plain;
    static const char call[] = "wf_cross_entropy";
    wf_loss none = { NULL, NULL };
    wf_ctx *c = ctx_of(logits, labels);
    o = o ? o : &plain;
    if (!c || !given(c, logits, call, "logits", site) || !given(c, labels, call, "labels", site))
        return none;
    double smooth = o->smoothing == WF_ZERO ? 0 : o->smoothing; /* NOLINT: exact on purpose */
    if (o->unnamed)
        wfi_error_set(c, WF_ERR_ARG, call, site, "options need names: .smoothing = 0.1");
    else if (!(smooth >= 0 && smooth <= 1))
        wfi_error_set(c, WF_ERR_ARG, call, site, ".smoothing is %g: 0 to 1 was expected", smooth);
    if (c->status != WF_OK)
        return none;
    wf_tensor *counts = NULL, *x = wide(logits, site);
    wf_tensor *rows =
        wf_cross_entropy_rows_(x, labels,
                               WF_OPTS(wf_cross_entropy_rows_opts, .ignore = o->ignore, .has_ignore = o->has_ignore,
                                       .smoothing = smooth, .weight = &counts),
                               site);
    if (!rows)
        return none;
    wf_loss loss = { .sum = wf_sum_(rows, WF_NO_DIMS, NULL, site) };
    if (o->has_ignore) /* of an operator without a gradient for it, so nothing flows back */
        loss.weight = wf_detach_(wf_sum_(counts, WF_NO_DIMS, NULL, site), site);
    else
        loss.weight = wfi_emit_const(c, wfi_dtype(rows), elements(rows), site);
    return c->status == WF_OK ? loss : none;
}

wf_loss wf_mse_(wf_tensor *a, wf_tensor *b, const char *site)
{
    wf_loss none = { NULL, NULL };
    wf_ctx *c = ctx_of(a, b);
    if (!c || !given(c, a, "wf_mse", "a", site) || !given(c, b, "wf_mse", "b", site))
        return none;
    wf_loss loss;
    wfi_call call = { .what = "mse", .in = { a, b } };
    if (loss_again(c, &call, &loss, site))
        return loss;
    if (!same_shape(a, b)) {
        char x[96] = "?", y[96] = "?";
        if (wfi_tensor_type(a) && wfi_tensor_type(b)) {
            wfi_type_text(&c->ids, wfi_tensor_type(a), x, sizeof x);
            wfi_type_text(&c->ids, wfi_tensor_type(b), y, sizeof y);
        }
        wf_tensor *const in[2] = { a, b };
        wfi_error_set(c, WF_ERR_SHAPE, "wf_mse", site,
                      "a is %s, b is %s: the shapes must be equal, nothing is broadcast", x, y);
        wfi_error_operands(c, NULL, 2, in);
        return none;
    }
    wf_tensor *d = wf_sub_(wide(a, site), wide(b, site), site), *sq = d ? wf_square_(d, site) : NULL;
    if (!sq)
        return none;
    loss = (wf_loss){ wf_sum_(sq, WF_NO_DIMS, NULL, site), wfi_emit_const(c, wfi_dtype(sq), elements(sq), site) };
    loss_keep(c, &call, loss);
    return c->status == WF_OK ? loss : none;
}

wf_tensor *wf_loss_mean_(wf_loss loss, const char *site)
{
    wf_ctx *c = ctx_of(loss.sum, loss.weight);
    if (!c || !given(c, loss.sum, "wf_loss_mean", "loss.sum", site) ||
        !given(c, loss.weight, "wf_loss_mean", "loss.weight", site))
        return NULL;
    wf_tensor *zero = wfi_like(loss.weight, 0), *none = wf_eq_(loss.weight, zero, site);
    wf_tensor *by = wf_where_(none, wfi_like(loss.weight, 1), loss.weight, site);
    return wf_where_(none, wfi_like(loss.sum, 0), wf_div_(loss.sum, by, site), site);
}
