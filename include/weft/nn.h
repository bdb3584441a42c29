/* nn.h - models (parameters by name path), layers, losses, optimisers.
 *
 *     wf_model *m = wf_model_new(c);
 *     wf_optim *opt = wf_adamw(m, .lr = 1e-3);
 *     wf_tensor *y = wf_nn_linear(m, "fc1", x, 128);     creates fc1.weight f32[128,in] and fc1.bias at first use
 *     wf_optim_step(opt, wf_cross_entropy(y, labels));
 */
#ifndef WEFT_NN_H
#define WEFT_NN_H
#include "weft/tensor.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_model wf_model;
typedef struct wf_optim wf_optim;

/* A loss is a sum and the weight that it is divided by: means are right over micro-batches and ranks. */
typedef struct wf_loss {
    wf_tensor *sum;    /* f32[] */
    wf_tensor *weight; /* f32[], carries no gradient */
} wf_loss;

/* ---- models ---- */

WF_API wf_model *wf_model_new(wf_ctx *c);
/* A view of m under a prefix: "block3" makes block3.NAME. Paths read as in PyTorch. NULL and a pending error on bad
 * names. */
WF_API wf_model *wf_model_sub(wf_model *m, const char *name);
WF_API wf_ctx *wf_model_ctx(const wf_model *m);

/* How a parameter begins; a function of (seed, path, element) alone. */
typedef enum wf_init_kind {
    WF_INIT_UNIFORM_FAN_IN = 0, /* uniform in +-1/sqrt(fan_in): PyTorch's default of linear and conv layers */
    WF_INIT_ZEROS = 1,
    WF_INIT_ONES = 2,
    WF_INIT_NORMAL = 3,         /* mean 0, standard deviation `scale` (0: 1) */
    WF_INIT_XAVIER_UNIFORM = 4, /* Glorot and Bengio 2010 */
    WF_INIT_KAIMING_NORMAL = 5  /* He et al. 2015, fan in, gain sqrt(2) */
} wf_init_kind;

typedef struct wf_param_opts {
    WF_HEAD;
    wf_init_kind init WF_Z;
    double scale WF_Z;   /* multiplies the initial value; 0: 1 */
    int64_t fan_in WF_Z; /* 0: the product of all dimensions but the first */
    wf_dtype dtype WF_Z; /* 0: f32 */
    bool frozen WF_Z;    /* no optimiser touches it */
} wf_param_opts;

/* The parameter m's prefix + name, created on first use. Another shape, dtype or kind under the same path is an error
 * that names both lines. Returns its value. */
WF_API wf_tensor *wf_nn_param_(wf_model *m, const char *name, wf_dims dims, const wf_param_opts *o, const char *site);
#define wf_nn_param(m, name, ...)         wf_nn_param_o(m, name, __VA_ARGS__, )
#define wf_nn_param_o(m, name, dims, ...) wf_nn_param_(m, name, dims, WF_OPTS(wf_param_opts, __VA_ARGS__), WF_SITE)

/* Parameters of m and below, sorted by path. */
WF_API int32_t wf_model_param_count(const wf_model *m);
WF_API wf_var *wf_model_param(const wf_model *m, int32_t i);
WF_API wf_var *wf_model_find(const wf_model *m, const char *path); /* NULL: none of that name */
WF_API int64_t wf_model_elements(const wf_model *m);

/* Runs `net` on shapes only (nothing is computed), so that every parameter exists. in: tensors of the wanted shapes. */
typedef wf_tensor *wf_net(void *user, wf_model *m, wf_tensor *const *in);
WF_API wf_status wf_model_init(wf_model *m, wf_net *net, void *user, int32_t nin, const wf_dtype *dtypes,
                               const wf_dims *dims);

/* Writes all parameters as safetensors, sorted by name, atomically: the old file is whole until the new one is. */
WF_API wf_status wf_model_save(wf_model *m, const char *path);
/* Reads parameters by name. All are read and checked before any changes. Parameters that exist must be in the file with
 * their shape and dtype; names in the file that m lacks are created. */
WF_API wf_status wf_model_load(wf_model *m, const char *path);

/* Immutable weights that any context of the runtime may use, from any thread. */
typedef struct wf_frozen wf_frozen;
WF_API wf_frozen *wf_model_freeze(wf_model *m);
WF_API void wf_frozen_free(wf_frozen *f);                  /* contexts that use it keep it alive */
WF_API wf_model *wf_model_thawed(wf_ctx *c, wf_frozen *f); /* a model of c with these weights; no optimiser takes it */

/* ---- layers; x is f32[N, ...] ---- */

typedef struct wf_nn_linear_opts {
    WF_HEAD;
    bool no_bias WF_Z;
    double init_scale WF_Z; /* 0: 1 */
    wf_init_kind init WF_Z;
} wf_nn_linear_opts;
/* x[..., in] -> [..., out]: x W^T + b with NAME.weight[out,in], NAME.bias[out]. */
WF_API wf_tensor *wf_nn_linear_(wf_model *m, const char *name, wf_tensor *x, int64_t out, const wf_nn_linear_opts *o,
                                const char *site);
#define wf_nn_linear(m, name, x, ...) wf_nn_linear_o(m, name, x, __VA_ARGS__, )
#define wf_nn_linear_o(m, name, x, out, ...)                                                                           \
    wf_nn_linear_(m, name, x, out, WF_OPTS(wf_nn_linear_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_nn_conv2d_opts {
    WF_HEAD;
    int32_t kernel WF_Z, kernel_h WF_Z, kernel_w WF_Z; /* kernel sets both; default 1 */
    int32_t stride WF_Z, stride_h WF_Z, stride_w WF_Z; /* default 1 */
    int32_t pad WF_Z, pad_h WF_Z, pad_w WF_Z;          /* both sides; default 0 */
    int32_t dilation WF_Z;                             /* default 1 */
    int32_t groups WF_Z;                               /* default 1 */
    bool no_bias WF_Z;
} wf_nn_conv2d_opts;
/* x[N,C,H,W] -> [N,out,OH,OW] with NAME.weight[out,C/groups,KH,KW], NAME.bias[out]. */
WF_API wf_tensor *wf_nn_conv2d_(wf_model *m, const char *name, wf_tensor *x, int64_t out, const wf_nn_conv2d_opts *o,
                                const char *site);
#define wf_nn_conv2d(m, name, x, ...) wf_nn_conv2d_o(m, name, x, __VA_ARGS__, )
#define wf_nn_conv2d_o(m, name, x, out, ...)                                                                           \
    wf_nn_conv2d_(m, name, x, out, WF_OPTS(wf_nn_conv2d_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_nn_layer_norm_opts {
    WF_HEAD;
    double eps WF_Z; /* 0: 1e-5; WF_ZERO: 0 */
    bool no_bias WF_Z;
} wf_nn_layer_norm_opts;
/* Over the last axis, with NAME.weight[n] (ones) and NAME.bias[n] (zeros). */
WF_API wf_tensor *wf_nn_layer_norm_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_layer_norm_opts *o,
                                    const char *site);
#define wf_nn_layer_norm(m, name, ...) wf_nn_layer_norm_o(m, name, __VA_ARGS__, )
#define wf_nn_layer_norm_o(m, name, x, ...)                                                                            \
    wf_nn_layer_norm_(m, name, x, WF_OPTS(wf_nn_layer_norm_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_nn_batch_norm_opts {
    WF_HEAD;
    double eps WF_Z;      /* 0: 1e-5; WF_ZERO: 0 */
    double momentum WF_Z; /* share of the batch in the running statistics; 0: 0.1; WF_ZERO: they stay */
    bool no_affine WF_Z;  /* without weight and bias */
    bool running WF_Z;    /* the running statistics in training, too: a frozen batch norm */
} wf_nn_batch_norm_opts;
/* x[N,C,...] with every channel normalised, and NAME.weight[C] (ones), NAME.bias[C] (zeros), NAME.running_mean[C] (0),
 * NAME.running_var[C] (1), NAME.num_batches_tracked i64[]: the names of PyTorch's files. No optimiser changes the last
 * three; the first two of these are f64 for f64, else f32.
 * In training, which is a step outside of .no_grad scopes, by mean and variance of the batch, which the running ones
 * then follow: running += momentum * (batch - running), with the unbiased variance. One element a channel is an error
 * there, and an empty batch changes nothing. Everywhere else (a .no_grad scope, outside of steps, wf_model_thawed) by
 * the running statistics. A captured function keeps what its body was when it was recorded. */
WF_API wf_tensor *wf_nn_batch_norm_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_batch_norm_opts *o,
                                    const char *site);
#define wf_nn_batch_norm(m, name, ...) wf_nn_batch_norm_o(m, name, __VA_ARGS__, )
#define wf_nn_batch_norm_o(m, name, x, ...)                                                                            \
    wf_nn_batch_norm_(m, name, x, WF_OPTS(wf_nn_batch_norm_opts, __VA_ARGS__), WF_SITE)

/* ids: i64[...] -> f32[..., width] with NAME.weight[count,width], normal(0, 1) times scale (0: 1). */
typedef struct wf_nn_embedding_opts {
    WF_HEAD;
    double scale WF_Z;
} wf_nn_embedding_opts;
WF_API wf_tensor *wf_nn_embedding_(wf_model *m, const char *name, wf_tensor *ids, wf_dims count_width,
                                   const wf_nn_embedding_opts *o, const char *site);
#define wf_nn_embedding(m, name, ids, ...) wf_nn_embedding_o(m, name, ids, __VA_ARGS__, )
#define wf_nn_embedding_o(m, name, ids, count_width, ...)                                                              \
    wf_nn_embedding_(m, name, ids, count_width, WF_OPTS(wf_nn_embedding_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_nn_lstm_opts {
    WF_HEAD;
    wf_tensor *h0 WF_Z, *c0 WF_Z;     /* [B,hidden], the state before the first position; NULL: zeros */
    wf_tensor **h_n WF_Z, **c_n WF_Z; /* where the state behind the last one goes; NULL: nowhere */
    bool no_bias WF_Z;
} wf_nn_lstm_opts;
/* A long short-term memory over the first axis: x[T,B,in] -> [T,B,hidden], T >= 1, one layer in one direction. With
 * NAME.weight_ih_l0[4 hidden,in], NAME.weight_hh_l0[4 hidden,hidden], NAME.bias_ih_l0 and NAME.bias_hh_l0[4 hidden],
 * uniform in +-1/sqrt(hidden), gates in the order i, f, g, o: as in PyTorch and its files. */
WF_API wf_tensor *wf_nn_lstm_(wf_model *m, const char *name, wf_tensor *x, int64_t hidden, const wf_nn_lstm_opts *o,
                              const char *site);
#define wf_nn_lstm(m, name, x, ...) wf_nn_lstm_o(m, name, x, __VA_ARGS__, )
#define wf_nn_lstm_o(m, name, x, hidden, ...)                                                                          \
    wf_nn_lstm_(m, name, x, hidden, WF_OPTS(wf_nn_lstm_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_nn_attention_opts {
    WF_HEAD;
    int32_t heads WF_Z; /* must divide the width */
    bool causal WF_Z;
    bool no_bias WF_Z;
    double init_scale WF_Z; /* of the output projection; 0: 1 */
} wf_nn_attention_opts;
/* Self-attention x[B,T,E] -> [B,T,E]: NAME.qkv (3E), NAME.proj (E). */
WF_API wf_tensor *wf_nn_attention_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_attention_opts *o,
                                   const char *site);
#define wf_nn_attention(m, name, ...) wf_nn_attention_o(m, name, __VA_ARGS__, )
#define wf_nn_attention_o(m, name, x, ...)                                                                             \
    wf_nn_attention_(m, name, x, WF_OPTS(wf_nn_attention_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_nn_block_opts {
    WF_HEAD;
    int32_t heads WF_Z;
    bool causal WF_Z;
    int32_t hidden WF_Z; /* width of the feed-forward part; 0: 4E */
    double init_scale WF_Z;
} wf_nn_block_opts;
/* A pre-norm transformer block x[B,T,E] -> [B,T,E]: x + attn(ln1(x)), then x + fc2(gelu_tanh(fc1(ln2(x)))).
 * Parameters NAME.ln1, NAME.attn.qkv, NAME.attn.proj, NAME.ln2, NAME.fc1, NAME.fc2. */
WF_API wf_tensor *wf_nn_transformer_block_(wf_model *m, const char *name, wf_tensor *x, const wf_nn_block_opts *o,
                                           const char *site);
#define wf_nn_transformer_block(m, name, ...) wf_nn_transformer_block_o(m, name, __VA_ARGS__, )
#define wf_nn_transformer_block_o(m, name, x, ...)                                                                     \
    wf_nn_transformer_block_(m, name, x, WF_OPTS(wf_nn_block_opts, __VA_ARGS__), WF_SITE)

/* ---- losses ---- */

typedef struct wf_cross_entropy_opts {
    WF_HEAD;
    int64_t ignore WF_Z; /* with has_ignore: this label counts nothing */
    bool has_ignore WF_Z;
    double smoothing WF_Z; /* label smoothing in 0..1 */
} wf_cross_entropy_opts;
/* logits f32[..., V], labels i64[...]: (sum of -log softmax at the label, number of labels that count). */
WF_API wf_loss wf_cross_entropy_(wf_tensor *logits, wf_tensor *labels, const wf_cross_entropy_opts *o,
                                 const char *site);
#define wf_cross_entropy(logits, ...) wf_cross_entropy_o(logits, __VA_ARGS__, )
#define wf_cross_entropy_o(logits, labels, ...)                                                                        \
    wf_cross_entropy_(logits, labels, WF_OPTS(wf_cross_entropy_opts, __VA_ARGS__), WF_SITE)

/* Sum of (a - b)^2 and the number of elements. Shapes must be equal: nothing is broadcast. */
WF_API wf_loss wf_mse_(wf_tensor *a, wf_tensor *b, const char *site);
#define wf_mse(a, b) wf_mse_(a, b, WF_SITE)

/* sum / weight, or 0 where the weight is 0. */
WF_API wf_tensor *wf_loss_mean_(wf_loss loss, const char *site);
#define wf_loss_mean(loss) wf_loss_mean_(loss, WF_SITE)

/* ---- optimisers ---- */

typedef struct wf_adamw_opts {
    WF_HEAD;
    double lr WF_Z;           /* 0: 1e-3 */
    double beta1 WF_Z;        /* 0: 0.9 */
    double beta2 WF_Z;        /* 0: 0.999 */
    double eps WF_Z;          /* 0: 1e-8 */
    double weight_decay WF_Z; /* 0: 0.01; WF_ZERO: none. Decoupled, on tensors of two dimensions or more */
    const char *only WF_Z;    /* a path with one * at its end, as in "head.*": the others are left alone */
} wf_adamw_opts;
/* Loshchilov and Hutter, arXiv:1711.05101, as in PyTorch. */
WF_API wf_optim *wf_adamw_(wf_model *m, const wf_adamw_opts *o, const char *site);
#define wf_adamw(...)      wf_adamw_o(__VA_ARGS__, )
#define wf_adamw_o(m, ...) wf_adamw_(m, WF_OPTS(wf_adamw_opts, __VA_ARGS__), WF_SITE)

typedef struct wf_sgd_opts {
    WF_HEAD;
    double lr WF_Z; /* 0: 1e-2 */
    double momentum WF_Z;
    double weight_decay WF_Z;
    bool nesterov WF_Z;
    const char *only WF_Z;
} wf_sgd_opts;
WF_API wf_optim *wf_sgd_(wf_model *m, const wf_sgd_opts *o, const char *site);
#define wf_sgd(...)      wf_sgd_o(__VA_ARGS__, )
#define wf_sgd_o(m, ...) wf_sgd_(m, WF_OPTS(wf_sgd_opts, __VA_ARGS__), WF_SITE)

WF_API void wf_optim_set_lr(wf_optim *opt, double lr); /* from the next step on */
WF_API double wf_optim_lr(const wf_optim *opt);

/* Gradients of loss.sum, divided by loss.weight, and the update of every parameter that the loss reaches. Parameters
 * that it does not reach are left alone (wf_optim_unreached lists them); none reached is an error. Weight 0 changes
 * nothing. Takes effect when the step runs. */
WF_API wf_status wf_optim_step_(wf_optim *opt, wf_loss loss, const char *site);
#define wf_optim_step(opt, loss) wf_optim_step_(opt, loss, WF_SITE)

/* The parts: gradients of loss.sum for the parameters of m in the order of wf_model_param (NULL where not reached) ...
 */
WF_API wf_status wf_grads_of_(wf_loss loss, wf_model *m, wf_tensor **out, const char *site);
#define wf_grads_of(loss, m, out) wf_grads_of_(loss, m, out, WF_SITE)
/* ... and the update from gradients of the sum, which are divided by weight (NULL: 1). */
WF_API wf_status wf_optim_apply_(wf_optim *opt, wf_tensor *const *grads, wf_tensor *weight, const char *site);
#define wf_optim_apply(opt, grads, weight) wf_optim_apply_(opt, grads, weight, WF_SITE)

/* Adds gradients of the sum and the weight to what is held in variables; every micro-batch may be a step of its own.
 * wf_optim_step_accumulated updates from the totals and clears them. */
WF_API wf_status wf_optim_accumulate_(wf_optim *opt, wf_loss loss, const char *site);
#define wf_optim_accumulate(opt, loss) wf_optim_accumulate_(opt, loss, WF_SITE)
WF_API wf_status wf_optim_step_accumulated_(wf_optim *opt, const char *site);
#define wf_optim_step_accumulated(opt) wf_optim_step_accumulated_(opt, WF_SITE)

/* Paths that the last step did not reach, one a line; "" if none. Valid until the next step. */
WF_API const char *wf_optim_unreached(const wf_optim *opt);

#ifdef __cplusplus
}
#endif
#endif
