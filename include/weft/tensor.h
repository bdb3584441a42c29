/* tensor.h - making tensors, reading them, variables, gradients, captured functions.
 *
 *     float xs[6] = { 1, 2, 3, 4, 5, 6 };
 *     wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), xs);
 *     double sum = wf_item(c, wf_sum(x, WF_NO_DIMS));
 *
 * A tensor belongs to the scope that is innermost when it is made; never free it. Its value never changes.
 * The operators themselves are in weft/ops.h.
 */
#ifndef WEFT_TENSOR_H
#define WEFT_TENSOR_H
#include "weft/ctx.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_var wf_var;

/* ---- making ---- */

typedef struct wf_from_opts {
    WF_HEAD;
    bool borrow WF_Z; /* use the caller's memory, which must stay unchanged until the step that uses it has ended */
} wf_from_opts;

/* dims elements of dtype, row-major, from host memory: copied unless .borrow. */
WF_API wf_tensor *wf_tensor_from_(wf_ctx *c, wf_dtype dtype, wf_dims dims, const void *host, const wf_from_opts *o,
                                  const char *site);
#define wf_tensor_from(c, dtype, dims, ...) wf_tensor_from_o(c, dtype, dims, __VA_ARGS__, )
#define wf_tensor_from_o(c, dtype, dims, host, ...)                                                                    \
    wf_tensor_from_(c, dtype, dims, host, WF_OPTS(wf_from_opts, __VA_ARGS__), WF_SITE)

/* A number that adopts the dtype of the tensor it meets (f32 where it meets none). It is an input of the step, never
 * baked into a plan. */
WF_API wf_tensor *wf_scalar_(wf_ctx *c, double value, const char *site);
#define wf_scalar(c, value) wf_scalar_(c, value, WF_SITE)

/* ---- looking ---- */

WF_API wf_dtype wf_tensor_dtype(const wf_tensor *t); /* WF_DTYPE_NONE for NULL */
WF_API wf_dims wf_tensor_dims(const wf_tensor *t);   /* no dimensions for NULL */
WF_API wf_ctx *wf_tensor_ctx(const wf_tensor *t);

/* The single element of t as a double. Computes what is pending for it. NaN and a pending error if t is NULL, has not
 * exactly one element or cannot be computed. */
WF_API double wf_item_(wf_ctx *c, wf_tensor *t, const char *site);
#define wf_item(c, t) wf_item_(c, t, WF_SITE)

/* All elements, row-major, in t's dtype, into buffer of exactly `bytes` bytes. */
WF_API wf_status wf_read_(wf_ctx *c, wf_tensor *t, void *buffer, size_t bytes, const char *site);
#define wf_read(c, t, buffer, bytes) wf_read_(c, t, buffer, bytes, WF_SITE)

/* Computes t now. */
WF_API wf_status wf_eval_(wf_ctx *c, wf_tensor *t, const char *site);
#define wf_eval(c, t) wf_eval_(c, t, WF_SITE)

/* ---- variables: named buffers, the only state ---- */

/* host: dims elements, copied; NULL: zeros. The context owns the variable. name is copied. */
WF_API wf_var *wf_var_new_(wf_ctx *c, const char *name, wf_dtype dtype, wf_dims dims, const void *host,
                           const char *site);
#define wf_var_new(c, name, dtype, dims, host) wf_var_new_(c, name, dtype, dims, host, WF_SITE)
/* Its value as it is now: a snapshot that later assignments do not change. */
WF_API wf_tensor *wf_value_(wf_var *v, const char *site);
#define wf_value(v) wf_value_(v, WF_SITE)
/* v becomes t (same dtype and shape), for every later call; takes effect when the step runs. */
WF_API wf_status wf_assign_(wf_var *v, wf_tensor *t, const char *site);
#define wf_assign(v, t) wf_assign_(v, t, WF_SITE)
WF_API const char *wf_var_name(const wf_var *v);
WF_API wf_dtype wf_var_dtype(const wf_var *v);
WF_API wf_dims wf_var_dims(const wf_var *v);

/* ---- gradients ---- */

/* out[i] = d loss / d wrt[i], for a loss of one element. wrt are tensors of this step. A tensor that the loss does not
 * depend on gets zeros. Gradients are ordinary tensors and can be differentiated again. */
WF_API wf_status wf_grad_(wf_tensor *loss, int32_t n, wf_tensor *const *wrt, wf_tensor **out, const char *site);
#define wf_grad(loss, n, wrt, out) wf_grad_(loss, n, wrt, out, WF_SITE)

/* ---- captured functions ---- */

typedef struct wf_fn wf_fn;
/* Builds outputs from inputs with ordinary calls; false reports a failure of its own. */
typedef bool wf_body(void *user, wf_ctx *c, wf_tensor *const *in, wf_tensor **out);

/* Records body once for inputs like those of `like` (dtype and shape). Variables are held by reference. The context
 * owns the result. */
WF_API wf_fn *wf_capture_(wf_ctx *c, wf_body *body, void *user, int32_t nin, wf_tensor *const *like, int32_t nout,
                          const char *site);
#define wf_capture(c, body, user, nin, like, nout) wf_capture_(c, body, user, nin, like, nout, WF_SITE)
/* Calls it: inside a step its operators join the step (and can be differentiated), outside the plan runs at once. */
WF_API wf_status wf_fn_call_(wf_fn *f, wf_tensor *const *in, wf_tensor **out, const char *site);
#define wf_fn_call(f, in, out) wf_fn_call_(f, in, out, WF_SITE)

#ifdef __cplusplus
}
#endif
#endif
