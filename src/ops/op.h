/* op.h - what a file of src/ops sees: the form of an operator definition, what its functions are given, and helpers.
 *
 * An operator is one file src/ops/NAME.c (or one row of elementwise.def) and one line in ops.def. The comment that
 * opens the file is its manual page. The generator (tools/gen) reads the definition as text and writes the public
 * builder, option struct, attribute struct, table entry, documentation page and test list from it:
 *
 *     const wf_op_def wf_op_softmax = {
 *         .call    = "x, axis",                        operands and attributes; after ';' named options
 *         .axes    = "x[..a n!@axis] -> y[..a n!@axis]",
 *         .lower   = lower,                            or .primitive
 *         .grad    = grad,                             or .nograd = "why there is none"
 *         .onnx    = "Softmax 13",
 *         .samples = "f32[4,7] axis=-1; f32[2,3,5] axis=1",
 *     };
 *
 * tools/gen/README.md has the grammar of each field. */
#ifndef WFI_OPS_OP_H
#define WFI_OPS_OP_H
#include "weft/tensor.h"
#include "weft/ops.h" /* generated: the public builders */
#include "ops_enum.h" /* generated: wfi_op, wfi_ew_row, wfi_attr_NAME, wfi_attrs */
#include "graph/axis.h"
#include "graph/axis_use.h"
#include "ops/op_types.h"

/* What a lowering is given. Builders called here are recorded under the composite's site. */
typedef struct wf_args {
    wf_tensor *const *in; /* in[nin]; NULL: an optional operand that was not given */
    int32_t nin;
    const wfi_attrs *a; /* a->softmax.axis */
    const char *site;   /* the line that called the composite */
    wf_tensor **out;    /* operators with several outputs store the further ones: out[1], ... */
} wf_args;

/* What a reverse rule is given. It sets gin[i] for each operand with want[i]; NULL there means a zero gradient. The
 * caller fits shapes: where gin[i] is larger than operand i because that was broadcast, it is summed; where it is
 * smaller but broadcasts to it, it is expanded. */
typedef struct wf_vjp {
    wf_tensor *const *in; /* in[nin], as in wf_args */
    int32_t nin, nout;
    wf_tensor *y;          /* the first result ... */
    wf_tensor *g;          /* ... and its incoming gradient, NULL if only later outputs have one */
    wf_tensor *const *out; /* out[nout], gout[nout]: all results and gradients; gout[i] NULL: none came */
    wf_tensor *const *gout;
    const bool *want; /* want[nin] */
    wf_tensor **gin;  /* gin[nin], NULL at first */
    const wfi_attrs *a;
    const char *site;
} wf_vjp;

/* One operand of a reference evaluation: row-major doubles. */
typedef struct wf_ref_tensor {
    double *d;
    int64_t n; /* elements */
    int32_t ndim;
    int64_t dim[WF_RANK_MAX];
    wf_dtype dtype;
} wf_ref_tensor;

typedef struct wf_ref {
    const wf_ref_tensor *in; /* in[nin]; d NULL: not given */
    wf_ref_tensor *out;      /* out[nout], allocated, not cleared */
    int32_t nin, nout;
    const wfi_attrs *a;
    const wfi_axis_inst *x; /* the bound axis map */
} wf_ref;

/* Shapes, types and attributes, for the hooks `map` and `check`. */
typedef struct wf_op_case {
    const wfi_axis_shape *in; /* in[nin]; ndim < 0: not given */
    const wf_dtype *dtype;    /* dtype[nin] */
    int32_t nin;
    const wfi_attrs *a;
} wf_op_case;

enum { WFI_COST_OPERANDS = 32 };
typedef struct wfi_cost {
    double flops;                   /* a multiply-add counts as two */
    double read[WFI_COST_OPERANDS]; /* elements of each operand that are read; results are written whole */
} wfi_cost;

/* Text fields are read by the generator as well; it needs string literals there. */
typedef struct wf_op_def {
    const char *call;      /* "x, w; stride=1, stride_h=stride, eps=1e-5, bias:tensor?" */
    const char *axes;      /* the axis map (src/graph/axis.h) */
    const char *outputs;   /* "y, mean, rstd"; not needed for one result */
    const char *types;     /* "float", "all int -> all"; default "num": every operand of one such type */
    const char *primitive; /* scalar code, "y += a * b", or "kernel" where that does not say it */
    const char *reduce;    /* how points that fall on one result are joined: "sum", "max", "min", "prod", "or", "and" */
    const char *linear;    /* operands in which it is linear, "x" or "a b"; found from .reduce = "sum" by itself */
    const char *order;     /* the order of summation where it is not the textual one */
    const char *autocast;  /* "low", "full", "widest": src/record/autocast.c; default by .reduce */
    const char *nograd;    /* why there is no gradient */
    const char *onnx;      /* "Softmax 13" */
    const char *samples;   /* "f32[4,7] axis=-1; f32[2,3] axis=0 tol=2e-3" */
    wf_tensor *(*lower)(const wf_args *v);
    void (*grad)(const wf_vjp *v);
    void (*ref)(const wf_ref *r); /* primitives */
    /* Writes the axis map for these shapes, as text (reshape, einsum). On failure an error text, and false. */
    bool (*map)(const wf_op_case *c, char *text, size_t text_bytes, char *err, size_t err_bytes);
    /* Constraints that the map cannot say. On failure an error text, and false. */
    bool (*check)(const wf_op_case *c, char *err, size_t err_bytes);
    bool (*split)(const wfi_axis_inst *x, int factor); /* may this whole or ordered factor be cut over devices? */
    /* Changes what cost.h found: operations of scalar code at every point of the map; of a kernel and of a composite
     * one for every element of the largest operand, which is too little for most. */
    void (*cost)(const wf_op_case *c, const wfi_axis_inst *x, wfi_cost *cost);
} wf_op_def;

/* ---- the table of all operators: generated, indexed by wfi_op ---- */
typedef struct wfi_op_field {
    const char *name;
    uint8_t type;     /* wfi_attr_type */
    bool required;    /* positional: no default */
    uint16_t offset;  /* in wfi_attr_NAME; WFI_ATTR_SHORTHAND: only the default of others, not stored */
    double value;     /* the default (WFI_ATTR_DIMS: n, -1 for "all"); meaningless where required or from */
    const char *from; /* the option whose value is the default, or NULL */
} wfi_op_field;

typedef struct wfi_op_info {
    const char *name;  /* "softmax" */
    const char *brief; /* the first line of its manual */
    const wf_op_def *def;
    const uint8_t *map; /* packed axis map; NULL: the hook def->map writes one */
    const wfi_op_field *field;
    const char *const *operand; /* names of operands, then of results */
    uint8_t nfield;
    uint8_t nin_min, nin_max; /* nin_max 255: any number. Optional operands count in nin_max only */
    uint8_t nout;
    uint8_t flags;
    uint8_t linear;   /* bit i: linear in operand i, the others held ... */
    uint8_t joint;    /* ... but these only together: y(a + a', b + b') = y(a, b) + y(a', b') */
    uint8_t autocast; /* WFI_AUTOCAST_... */
    uint16_t attr_bytes;
    int16_t ew;              /* WFI_EW_..., -1 where it is none */
    uint8_t tin[8], tout[4]; /* WFI_T_...: the same class means the same type; tin[1] END: all operands alike */
} wfi_op_info;

extern const wfi_op_info wfi_op_table[WFI_OP_COUNT];

/* ops.c */
int wfi_op_find(const char *name); /* index in wfi_op_table, -1: unknown */
/* The attributes that the axis map may name, as lists in the order of info->field (reals and flags count, too: n = 1).
 * Returns their number; a NULL attr gives the defaults. out: wf_dims[WFI_AXIS_ATTRS]. */
int wfi_op_axis_attrs(const wfi_op_info *op, const void *attr, wf_dims *out);
/* Checks operand types and gives the result types. False: one error text. in[i] WF_DTYPE_NONE: operand not given. */
bool wfi_op_types(const wfi_op_info *op, const void *attr, int nin, const wf_dtype *in, wf_dtype *out, char *err,
                  size_t err_bytes);
/* "axis=-1 eps=1e-05 axes=[0,1]"; returns the length that it would need, as snprintf does. */
int wfi_op_attr_print(const wfi_op_info *op, const void *attr, char *text, size_t bytes);
/* Reads what print wrote, and samples: words NAME=VALUE; fills in defaults. Words that are no attribute are an error
 * unless `unknown` is given, which collects them ("tol=2e-3"). */
bool wfi_op_attr_parse(const wfi_op_info *op, const char *text, void *attr, char *unknown, size_t unknown_bytes,
                       char *err, size_t err_bytes);
/* What a fused group may be made of: the rows of elementwise.def, and casts, which are told by the type of the result
 * alone. */
static inline bool wfi_op_pointwise(uint32_t op)
{
    return op < WFI_OP_COUNT && (wfi_op_table[op].flags & WFI_OP_EW || op == WFI_OP_cast);
}
/* The type of the result of one in a group, *made: for a cast it is given. False: one error text. */
bool wfi_op_pointwise_type(uint32_t op, int nin, const wf_dtype *in, wf_dtype *made, char *err, size_t err_bytes);
/* Binds the operator's map: shapes of the results and everything that reads axis maps. False: one error text. */
bool wfi_op_bind(const wfi_op_info *op, const void *attr, int nin, const wfi_axis_shape *in, const wf_dtype *dtype,
                 struct wfi_syms *syms, wfi_axis_inst *x, char *err, size_t err_bytes);

/* For hooks `cost`: so many operations for every element of operand or result `slot`. */
static inline void wfi_op_cost_each(const wfi_axis_inst *x, int slot, double ops, wfi_cost *cost)
{
    cost->flops = ops * (double)wfi_axis_elements(x, slot, NULL);
}

/* The same: pairs of an output and a tap of a window that read inside the image, and not its padding. */
int64_t wfi_op_window_pairs(int64_t in, int64_t out, int64_t taps, int64_t stride, int64_t dilation, int64_t pad);

/* For hooks `check`: refuses axes of size 0 where results are wanted that nothing can be said about. */
bool wfi_op_needs_some(const wf_op_case *c, wf_dims axes, const char *name, char *err, size_t err_bytes);

/* ---- references that follow from the map alone (ref.c) ---- */
void wfi_ref_sum(const wf_ref *r); /* y += the product of the operands: contractions, sums, every movement */
void wfi_ref_max(const wf_ref *r);
void wfi_ref_min(const wf_ref *r);
void wfi_ref_prod(const wf_ref *r);
typedef double wfi_ref_value(double a, double b, double c);
void wfi_ref_ew(const wf_ref *r, wfi_ref_value *value); /* element-wise, with broadcasting */

/* .grad of a composite whose gradient is that of its lowering (grad/sweep.c). */
void wfi_grad_lowered(const wf_vjp *v);

/* ---- what rules and lowerings use besides the public builders; src/record defines these ---- */
wf_tensor *wfi_like(wf_tensor *t, double value); /* a constant of rank 0 with the element type of t */
bool wfi_made_by(wf_tensor *t, wfi_op op);       /* is t the result of that operator in this step? */
wf_dims wfi_shape(wf_tensor *t);                 /* t NULL: rank 0 */
wf_dtype wfi_dtype(wf_tensor *t);

/* Axes as numbers 0 .. ndim-1 in ascending order: negative ones counted from the end, n < 0 is all. Out-of-range ones
 * are dropped (binding has refused them before). */
static inline wf_dims wfi_axes(wf_dims axes, int32_t ndim)
{
    wf_dims r = { 0, { 0 } };
    for (int32_t k = 0; k < ndim; k++) {
        bool hit = axes.n < 0;
        for (int32_t i = 0; i < axes.n; i++)
            hit |= (axes.d[i] < 0 ? axes.d[i] + ndim : axes.d[i]) == k;
        if (hit)
            r.d[r.n++] = k;
    }
    return r;
}

/* ---- what the generated builders call; src/record defines these ---- */

/* Records one operator. ctx NULL: the context of the first operand. A NULL operand that is not optional is an error
 * unless an earlier error is pending. attr is NULL or a zero-padded wfi_attr_NAME, valid during the call. */
wf_tensor *wfi_emit(wf_ctx *ctx, wfi_op op, const void *attr, size_t attr_bytes, int32_t nin, wf_tensor *const *in,
                    const char *site);
/* The same for several results: out[nout] is filled (NULL on error); returns out[0]. */
wf_tensor *wfi_emit_n(wf_ctx *ctx, wfi_op op, const void *attr, size_t attr_bytes, int32_t nin, wf_tensor *const *in,
                      int32_t nout, wf_tensor **out, const char *site);
/* A mistake in the call itself ("options need names: .stride = 2"). Keeps the error, returns NULL. */
wf_tensor *wfi_emit_refuse(wf_ctx *ctx, wfi_op op, int32_t nin, wf_tensor *const *in, const char *site,
                           const char *what);
/* Operators of one or two operands without attributes go through the inline wfi_emit1(op, a, site) and
 * wfi_emit2(op, a, b, site) of record/emit.h. */

#endif
