/* model.h - the inside of models: parameters by path, and views of them under a prefix.
 *
 * A path is hashed byte by byte, so that a layer finds PREFIX.NAME.weight without writing it down. */
#ifndef WFI_NN_MODEL_H
#define WFI_NN_MODEL_H
#include "record/record.h"

#define WFI_PATH_MAX 1000 /* bytes of a path */

typedef struct wfi_path {
    char *text; /* "block3.fc1.weight" */
    size_t n;
    uint64_t hash;
} wfi_path;

/* A table of things that begin with a wfi_path. */
typedef struct wfi_paths {
    wfi_path **slot; /* open addressing */
    uint32_t mask, n;
} wfi_paths;

typedef struct wfi_param {
    wfi_path path; /* first */
    wf_var *var;
    const char *kind; /* "linear weight": what a layer made it for; NULL: anything (read from a file, wf_nn_param) */
    const char *site; /* of the call that made it */
    bool frozen;
    /* How it was asked for last: NAME.part of model; NAME is path.text[at .. end). */
    const wf_model *model;
    const char *part;
    uint32_t at, end;
} wfi_param;

enum { WFI_NEAR = 256 };

typedef struct wfi_root {
    wfi_owned owned;
    wf_ctx *ctx;
    wfi_paths params, views;
    wfi_param **sorted; /* by path */
    size_t cap_sorted;
    wfi_param *near[WFI_NEAR]; /* found last under such addresses of names: most programs use the same literals */
    bool thawed;               /* of frozen weights: no optimiser takes it */
} wfi_root;

struct wf_model {
    wfi_path path; /* first; "" for the whole */
    wfi_root *root;
    uint64_t running; /* hash of the path and the dot behind it, to go on from */
    uint32_t id;
};

/* Once a context: numbers that are never used twice, and the optimisers by number. */
typedef struct wfi_nn {
    wfi_owned owned;
    wf_ctx *ctx;
    uint32_t views;
    wf_optim **opt;
    size_t nopt, cap_opt;
} wfi_nn;
wfi_nn *wfi_nn_of(wf_ctx *c); /* NULL and a pending error: out of memory */

wfi_root *wfi_root_new(wf_ctx *c, wf_model **m);

/* The parameter m.NAME.part (part NULL: m.NAME): found and checked, or made; NULL and a pending error. */
wfi_param *wfi_param_get(wf_model *m, const char *name, const char *part, const char *kind, const wf_dims *dims,
                         const wf_param_opts *o, const char *site);
/* The value of m.NAME.part, if it is there already, was asked for as this kind, and is dtype[d0, d1] (one axis: d1 <
 * 0); else NULL, without an error. What a layer does on every step but its first. */
wf_tensor *wfi_param_known(wf_model *m, const char *name, const char *part, const char *kind, wf_dtype dtype,
                           int64_t d0, int64_t d1, const char *site);
/* m.NAME.part, if it was asked for before; NULL. */
const wfi_param *wfi_param_seen(wf_model *m, const char *name, const char *part);
/* Its value. */
wf_tensor *wfi_param_value(wf_model *m, const char *name, const char *part, const char *kind, const wf_dims *dims,
                           const wf_param_opts *o, const char *site);
/* A parameter that is not in the table yet, without contents; wfi_param_add cannot fail after wfi_params_reserve. */
wfi_param *wfi_param_new(wfi_root *r, const wf_model *m, const char *name, uint32_t type, const char *site);
void wfi_param_free(wfi_root *r, wfi_param *p);
bool wfi_params_reserve(wfi_root *r, size_t more);
void wfi_param_add(wfi_root *r, wfi_param *p);
/* m's parameters: sorted[first .. first + n). */
uint32_t wfi_params_of(const wf_model *m, uint32_t *first);
/* The path below m. */
const char *wfi_param_below(const wf_model *m, const wfi_param *p);
wfi_param *wfi_param_find(const wf_model *m, const char *name);
/* True if `name` can be (a part of) a path; else a pending error. */
bool wfi_path_check(wf_ctx *c, const wf_model *m, const char *name, const char *call, const char *site);
/* No step may be open, nothing pending: for calls that read or write all variables. */
bool wfi_model_quiet(const wf_model *m, const char *call);

/* layers.c: what every layer checks first; false with a pending error, or because one is pending. x: of the model's
 * context and of a rank from rank_min to rank_max. unnamed: o->unnamed. */
bool wfi_layers_ready(wf_model *m, wf_tensor *x, const char *call, int32_t rank_min, int32_t rank_max,
                      const char *site);
bool wfi_layers_options(wf_model *m, const void *unnamed, const char *call, const char *site);
bool wfi_layers_positive(wf_model *m, int64_t v, const char *what, const char *call, const char *site);
/* The type of the parameters of a layer that is given x: that of x; f32 where 16-bit ones come from autocast. */
wf_dtype wfi_layers_dtype(wf_tensor *x);
/* y + b; b is a parameter, which autocast casts with the product that it belongs to. b NULL: y. */
wf_tensor *wfi_layers_bias(wf_tensor *y, wf_tensor *b, const char *site);

/* Is what is built now a step of training? A layer that differs asks this: history is recorded (inside a step, in no
 * scope that is .no_grad), and the weights can change. */
static inline bool wfi_model_trains(const wf_model *m)
{
    const wf_ctx *c = m->root->ctx;
    return c->in_step && !c->notape && !m->root->thawed;
}

/* init.c: the initial values of a parameter, a function of seed, path, shape and options alone. data: dims of dtype. */
void wfi_init_fill(uint64_t seed, const char *path, wf_dtype dtype, wf_dims dims, const wf_param_opts *o, void *data);

#endif
