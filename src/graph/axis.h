/* axis.h - one axis map per operator: what its dimensions do. Text -> template (build time) -> instance (per shapes).
 *
 *     wfi_axis_map m;                                              the generator does this for every operator
 *     wfi_axis_parse("a[.. m k] b[.. k n] -> y[.. m n]", "", &m, err, sizeof err);
 *     wfi_axis_bind(m.b, "matmul", 2, in, NULL, NULL, &x, err, sizeof err)   -> x.d[x.nin][..].size: shape of y
 *
 * map    := operand+ "->" operand+ [";" name "=" size {"," name "=" size}]
 * operand:= name ["*"] "[" item* "]"              * = any number of operands (one such operand at most)
 * item   := "1" placed | [".."] [dim ":"] index mark* placed
 *                                                 ".." alone broadcasts as NumPy does; "..a" is a run that must agree
 * index  := ["-"] term {("+"|"-") term} | "(" (factor mark*)+ ")"       (major .. minor) in one dimension
 * term   := factor ["*" coef] | coef              coef: attribute, the item's own dim, or a number
 * mark   := "!" whole  ">" ordered  "#" its value depends on the position  "?" guarded (outside reads the fill)
 *           "%" wraps  "<"operand">" looked up by that operand
 * placed := ["@"attr] ["&"attr]                   @ stands where the attribute says; & is there only if attr is not 0
 * size   := + - * / (floor) min(,) over dims, factors, attributes and numbers; count is the number of copies of the
 *           variadic operand
 *
 * A factor that stands in an output is parallel; in inputs only, reduced; in outputs only, new. */
#ifndef WFI_GRAPH_AXIS_H
#define WFI_GRAPH_AXIS_H
#include "graph/sym.h"
#include "weft/types.h"

enum { WFI_WHOLE = 1, WFI_ORDERED = 2, WFI_POSITION = 4, WFI_GUARD = 8, WFI_WRAP = 16, WFI_LOOKED = 32 };
enum {
    WFI_AXIS_OPERANDS = 8, /* operands and results of a map; a variadic one counts once */
    WFI_AXIS_NAMES = 32,   /* different names in a map, attributes included */
    WFI_AXIS_ATTRS = 16,   /* attributes */
    WFI_AXIS_TERMS = 4,    /* factors in one dimension */
    WFI_AXIS_FACTORS = 24,
    WFI_AXIS_BYTES = 640, /* a packed template */
    WFI_AXIS_ERR = 512    /* room for every error text */
};

/* A parsed map, packed: no pointers, so that generated tables are const without relocations. */
typedef struct wfi_axis_map {
    uint16_t bytes;
    uint8_t b[WFI_AXIS_BYTES];
} wfi_axis_map;

/* attrs: names separated by spaces, in the order in which bind receives their values. False: an error text that gives
 * the column (from 1) in `text`. */
bool wfi_axis_parse(const char *text, const char *attrs, wfi_axis_map *m, char *err, size_t err_bytes);

/* A shape as binding and its errors see it. */
typedef struct wfi_axis_shape {
    const char *dtype; /* "f32" */
    int32_t ndim;      /* < 0: an optional operand that was not given */
    int64_t dim[WF_RANK_MAX];
} wfi_axis_shape;

typedef struct wfi_axis_factor {
    int64_t size;        /* a number or a symbol */
    int8_t name;         /* index into the names of the map */
    int8_t k;            /* place in its run; -1: no run */
    int8_t operand, dim; /* which dimension gave the size; -1: a rule did */
    uint8_t marks;       /* WFI_WHOLE | WFI_ORDERED | WFI_POSITION | WFI_LOOKED */
    bool in, out;        /* stands in an operand, in a result */
} wfi_axis_factor;

/* One dimension: index = sum of c[j] * f[j] + off. */
typedef struct wfi_axis_dim {
    int64_t size;
    int64_t off;
    int64_t c[WFI_AXIS_TERMS];
    int8_t f[WFI_AXIS_TERMS]; /* factors */
    int8_t n;                 /* terms; 0: size 1, or broadcast */
    int8_t look;              /* slot of the operand that holds the index, or -1 */
    int8_t item;              /* item of the template */
    uint8_t marks;
} wfi_axis_dim;

/* An operand takes one slot, the copies of a variadic operand share one (its sizes are those of the first copy). */
typedef struct wfi_axis_inst {
    const uint8_t *map; /* the packed template, borrowed; NULL: it is `own` (written for these shapes) */
    int32_t operands;   /* given to bind */
    int8_t nin, nslot, nf;
    int8_t many;                  /* the variadic slot, or -1 */
    int8_t nd[WFI_AXIS_OPERANDS]; /* -1: not given */
    wfi_axis_factor f[WFI_AXIS_FACTORS];
    wfi_axis_dim d[WFI_AXIS_OPERANDS][WF_RANK_MAX]; /* slots: nin inputs, then results */
    wfi_axis_map own;
} wfi_axis_inst;

/* in[nin] shapes of all operands (variadic ones one by one); attr[] in the order given to parse, a scalar is a list of
 * one, a list with n = -1 means all dimensions that no other item takes. syms may be NULL where no size is a symbol.
 * No allocation. False: one error text such as
 *   matmul: sizes of axis k differ: a[-1] is 784, b[-2] is 10; a is f32[32,784], b is f32[10,784] */
bool wfi_axis_bind(const uint8_t *map, const char *op, int nin, const wfi_axis_shape *in, const wf_dims *attr,
                   wfi_syms *syms, wfi_axis_inst *x, char *err, size_t err_bytes);
/* Drops factors of size 1 from every dimension, so that they stand in nobody's way when nodes are compared (groups = 1
 * before fusion). Bind leaves them, because output shapes and vmap want them. */
void wfi_axis_drop_ones(wfi_axis_inst *x);

static inline const uint8_t *wfi_axis_map_of(const wfi_axis_inst *x)
{
    return x->map ? x->map : x->own.b;
}
static inline int wfi_axis_slot(const wfi_axis_inst *x, int operand)
{
    int copies = x->operands - x->nin + 1;
    if (x->many < 0 || operand < x->many)
        return operand;
    return operand < x->many + copies ? x->many : operand - copies + 1;
}
/* The index is just one factor: no window, offset, step or look-up. */
static inline bool wfi_axis_plain(const wfi_axis_dim *d)
{
    return d->n == 1 && d->c[0] == 1 && d->off == 0 && d->look < 0 && !(d->marks & WFI_WRAP);
}
/* The factor that dimension i of a slot is, and neither is marked; -1: it is anything else. */
static inline int wfi_axis_alone(const wfi_axis_inst *x, int slot, int i)
{
    const wfi_axis_dim *d = &x->d[slot][i];
    return wfi_axis_plain(d) && !d->marks && !x->f[d->f[0]].marks ? d->f[0] : -1;
}
/* Names: of a factor ("k", "-1" of a broadcast run counted from the right is "..-1"), of an operand's slot. */
const char *wfi_axis_factor_name(const wfi_axis_inst *x, int f, char *text, size_t bytes);
const char *wfi_axis_operand_name(const uint8_t *map, int slot);
int wfi_axis_operand_find(const uint8_t *map, const char *name); /* slot, or -1 */
int wfi_axis_inputs(const uint8_t *map);                         /* operands in the template, a variadic one as one */
int wfi_axis_results(const uint8_t *map);
bool wfi_axis_many(const uint8_t *map, int slot);             /* a variadic operand */
bool wfi_axis_leading_run(const uint8_t *map, int slot);      /* begins with a run: the batch of vmap */
bool wfi_axis_mentions(const uint8_t *map, const char *name); /* attribute, factor or dim with that name */
/* "a is f32[32,784], b is f32[10,784]", as error texts end; returns text. */
const char *wfi_axis_shapes_text(const uint8_t *map, int nin, const wfi_axis_shape *in, const wfi_syms *syms,
                                 char *text, size_t bytes);

#endif
