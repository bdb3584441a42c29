/* Reductions.
 *
 * Loops over kept axes may run in any order; loops over reduced axes keep theirs, since it numbers the elements. Two
 * ways to the same bits: by rows, one output at a time, its elements brought into lines; and by columns, a tile of
 * neighbouring outputs with 32 lanes for each, when neighbours in memory belong to different outputs (the first axis of
 * a matrix, a bias gradient over N, H, W of a channels-last image). */
#include "kernel/reduce/reduce.h"
#include "kernel/reduce/lines.h"

#define FT    float
#define FI    int32_t
#define FN(x) x##_f32
#include "kernel/reduce/fold.h"
#include "kernel/reduce/exp_down.h"
#undef FT
#undef FI
#undef FN
#define FT    double
#define FI    int64_t
#define FN(x) x##_f64
#include "kernel/reduce/fold.h"
#undef FT
#undef FI
#undef FN
#define FT    int64_t
#define FI    int64_t
#define FN(x) x##_i64
#define FOLD_INT
#include "kernel/reduce/fold.h"
#undef FOLD_INT
#undef FT
#undef FI
#undef FN

enum {
    PIECE = 512,       /* elements brought in at a time */
    TILE_BYTES = 1024, /* of outputs in a column tile */
    THIN_ALL = 16384   /* elements of few rows that one thread does at once */
};

typedef struct params {
    nest kept; /* operands: x, y */
    nest red;  /* operands: x */
    int64_t outputs, count, blocks;
    int64_t inner, tile, tiles; /* outputs in the innermost kept loop, in a tile; tiles in that loop */
    wfi_reduce_kind kind;
    fold_op op, tree_op;
    compute as;
    wf_dtype xt, yt;
    int32_t threads;
    bool columns; /* by columns, else by rows */
    bool direct;  /* x holds the compute type: no need to convert */
    bool thin;    /* columns of few rows, side by side in x and y: all at once */
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

/* ---- one accumulator type ---- */

typedef struct typed {
    size_t bytes;
    void (*fill)(fold_op op, void *a, int64_t n);
    void (*line[OP_COUNT])(void *result, const void *x, int64_t n); /* n <= BLOCK elements side by side */
    void (*groups[OP_COUNT])(void *acc, const void *x, int64_t groups);
    void (*columns[OP_COUNT])(void *acc, int64_t pitch, int64_t lane, const char *x, int64_t step, int64_t w,
                              int64_t rows);
    void (*thin[OP_COUNT])(void *y, const char *x, int64_t step, int64_t w, int64_t rows);
    void (*tree)(fold_op op, void *acc);
    void (*column_tree)(fold_op op, void *acc, int64_t pitch, int64_t lanes, int64_t w);
    void (*parts)(fold_op op, void *part, int64_t n);
    int64_t (*find)(const void *x, int64_t n, const void *m); /* the first that equals *m, or -1 */
    int64_t (*find_columns)(int64_t *at, const void *x, const void *m, int64_t r, int64_t w);
    void (*exp_sub)(void *x, int64_t n, const void *shift, int64_t shift_step);
    void (*log_add)(void *v, const void *shift, int64_t n);
    void (*divide)(void *v, int64_t n, int64_t by);
} typed;

#define EACH_OP(X, T) X(SUM, T) X(SQUARES, T) X(PROD, T) X(MAX, T) X(MIN, T) X(OR, T) X(AND, T)
#define GROUPS(OP, S)                                                                                                  \
    static void groups_##OP##_##S(void *acc, const void *x, int64_t n)                                                 \
    {                                                                                                                  \
        groups_##S(OP_##OP, acc, x, n);                                                                                \
    }                                                                                                                  \
    static void line_##OP##_##S(void *result, const void *x, int64_t n)                                                \
    {                                                                                                                  \
        fold_op tree_op = OP_##OP == OP_SQUARES ? OP_SUM : OP_##OP;                                                    \
        *(__typeof__(identity_##S(OP_SUM)) *)result = block_##S(OP_##OP, tree_op, x, n);                               \
    }                                                                                                                  \
    static void columns_##OP##_##S(void *acc, int64_t pitch, int64_t lane, const char *x, int64_t step, int64_t w,     \
                                   int64_t rows)                                                                       \
    {                                                                                                                  \
        columns_##S(OP_##OP, acc, pitch, lane, x, step, w, rows);                                                      \
    }                                                                                                                  \
    static void thin_##OP##_##S(void *y, const char *x, int64_t step, int64_t w, int64_t rows)                         \
    {                                                                                                                  \
        thin_##S(OP_##OP, OP_##OP == OP_SQUARES ? OP_SUM : OP_##OP, y, x, step, w, rows);                              \
    }
#define NAME_LINE(OP, S)    line_##OP##_##S,
#define NAME_GROUPS(OP, S)  groups_##OP##_##S,
#define NAME_COLUMNS(OP, S) columns_##OP##_##S,
#define NAME_THIN(OP, S)    thin_##OP##_##S,

#define TYPED(S, T, EQ)                                                                                                \
    EACH_OP(GROUPS, S)                                                                                                 \
    static void fill_##S(fold_op op, void *a, int64_t n)                                                               \
    {                                                                                                                  \
        T id = identity_##S(op), *d = a;                                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            d[i] = id;                                                                                                 \
        }                                                                                                              \
    }                                                                                                                  \
    static void root_##S(fold_op op, void *acc)                                                                        \
    {                                                                                                                  \
        *(T *)acc = tree_##S(op, acc);                                                                                 \
    }                                                                                                                  \
    static void roots_##S(fold_op op, void *acc, int64_t pitch, int64_t lanes, int64_t w)                              \
    {                                                                                                                  \
        column_tree_##S(op, acc, pitch, lanes, w);                                                                     \
    }                                                                                                                  \
    static void fold_parts_##S(fold_op op, void *part, int64_t n)                                                      \
    {                                                                                                                  \
        parts_##S(op, part, n);                                                                                        \
    }                                                                                                                  \
    static int64_t find_##S(const void *x, int64_t n, const void *m)                                                   \
    {                                                                                                                  \
        const T *a = x, b = *(const T *)m;                                                                             \
        int64_t i = 0;                                                                                                 \
        for (; i + LANES <= n; i += LANES) {                                                                           \
            int hit = 0;                                                                                               \
            for (int k = 0; k < LANES; k++) {                                                                          \
                hit |= EQ(a[i + k], b);                                                                                \
            }                                                                                                          \
            if (hit) {                                                                                                 \
                break;                                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
        for (; i < n; i++) {                                                                                           \
            if (EQ(a[i], b)) {                                                                                         \
                return i;                                                                                              \
            }                                                                                                          \
        }                                                                                                              \
        return -1;                                                                                                     \
    }                                                                                                                  \
    static int64_t find_columns_##S(int64_t *restrict at, const void *x, const void *m, int64_t r, int64_t w)          \
    {                                                                                                                  \
        const T *restrict a = x, *restrict b = m;                                                                      \
        int64_t open = 0;                                                                                              \
        for (int64_t j = 0; j < w; j++) {                                                                              \
            int64_t hit = (at[j] < 0) & EQ(a[j], b[j]);                                                                \
            at[j] = hit ? r : at[j];                                                                                   \
            open += at[j] < 0;                                                                                         \
        }                                                                                                              \
        return open;                                                                                                   \
    }                                                                                                                  \
    static void divide_##S(void *v, int64_t n, int64_t by)                                                             \
    {                                                                                                                  \
        T *d = v, k = (T)by;                                                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            d[i] = d[i] / k;                                                                                           \
        }                                                                                                              \
    }

/* With an infinite maximum the shift is 0: exp and log then give what they must. */
#define TYPED_LOGS(S, T)                                                                                               \
    static T shift_##S(T m)                                                                                            \
    {                                                                                                                  \
        return m - m == 0 || m != m ? m : 0;                                                                           \
    }                                                                                                                  \
    static void exp_sub_##S(void *x, int64_t n, const void *shift, int64_t shift_step)                                 \
    {                                                                                                                  \
        T *d = x;                                                                                                      \
        const T *m = shift;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            d[i] = d[i] - shift_##S(m[i * shift_step]);                                                                \
        }                                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            d[i] = wfi_exp_##S(d[i]);                                                                                  \
        }                                                                                                              \
    }                                                                                                                  \
    static void log_add_##S(void *v, const void *shift, int64_t n)                                                     \
    {                                                                                                                  \
        T *d = v;                                                                                                      \
        const T *m = shift;                                                                                            \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            d[i] = shift_##S(m[i]) + wfi_log_##S(d[i]);                                                                \
        }                                                                                                              \
    }

#define EQ_FLOAT(a, b) (((a) == (b)) | (((a) != (a)) & ((b) != (b))))
#define EQ_INT(a, b)   ((a) == (b))
TYPED(f32, float, EQ_FLOAT)
TYPED_LOGS(f32, float)
TYPED(f64, double, EQ_FLOAT)
TYPED_LOGS(f64, double)
TYPED(i64, int64_t, EQ_INT)

/* One row: nothing is above its maximum, unless that is infinite. */
static void exp_row_f32(void *x, int64_t n, const void *shift, int64_t shift_step)
{
    float *d = x, m = *(const float *)shift;
    if (shift_step || !(m < __builtin_inff() && m > -__builtin_inff())) {
        exp_sub_f32(x, n, shift, shift_step);
        return;
    }
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        exp_down_group(d + i, d + i, splat_f32(m), LANES);
    }
    if (i < n) {
        exp_sub_f32(d + i, n - i, shift, 0);
    }
}

#define TABLE(S, T, EXP, LOG)                                                                                          \
    {                                                                                                                  \
        sizeof(T), fill_##S, { EACH_OP(NAME_LINE, S) }, { EACH_OP(NAME_GROUPS, S) }, { EACH_OP(NAME_COLUMNS, S) },     \
            { EACH_OP(NAME_THIN, S) }, root_##S, roots_##S, fold_parts_##S, find_##S, find_columns_##S, EXP, LOG,      \
            divide_##S                                                                                                 \
    }
static const typed types[3] = { TABLE(f32, float, exp_row_f32, log_add_f32),
                                TABLE(f64, double, exp_sub_f64, log_add_f64), TABLE(i64, int64_t, NULL, NULL) };

/* ---- prepare ---- */

static const char *check_dtypes(wfi_reduce_kind kind, wf_dtype x, wf_dtype y)
{
    if (compute_of(x) == AS_NONE) {
        return "this element type is stored and cast only";
    }
    switch (kind) {
    case WFI_REDUCE_MEAN:
    case WFI_REDUCE_LOGSUMEXP: return is_float(x) && is_float(y) ? NULL : "only floats have this reduction";
    case WFI_REDUCE_SUM:
    case WFI_REDUCE_SQUARES:
    case WFI_REDUCE_PROD:
        if (is_float(x)) {
            return is_float(y) ? NULL : "the result of floats must be a float";
        }
        return y == WF_I64 ? NULL : "the result of integers must be i64";
    case WFI_REDUCE_MAX:
    case WFI_REDUCE_MIN: return x == y ? NULL : "max and min keep the element type";
    case WFI_REDUCE_ANY:
    case WFI_REDUCE_ALL: return y == WF_BOOL ? NULL : "the result must be bool";
    case WFI_REDUCE_ARGMAX:
    case WFI_REDUCE_ARGMIN: return y == WF_I64 ? NULL : "the result must be i64";
    default: return "no such reduction";
    }
}

/* The axis of y that belongs to axis d of x, or -1; -2 if y does not fit. */
static int axis_of_y(const wfi_view *x, uint32_t axes, const wfi_view *y, int d)
{
    bool keep = y->ndim == x->ndim;
    int at = 0;
    for (int i = 0; i < d; i++) {
        at += keep || !(axes >> i & 1);
    }
    if (axes >> d & 1) {
        return keep && y->dim[at] != 1 ? -2 : -1;
    }
    return at < y->ndim && y->dim[at] == x->dim[d] ? at : -2;
}

static const char *check_dims(const wfi_view *x, uint32_t axes, const wfi_view *y)
{
    int kept = 0;
    for (int d = 0; d < x->ndim; d++) {
        kept += !(axes >> d & 1);
        if (axis_of_y(x, axes, y, d) == -2) {
            return "the sizes of the result do not fit";
        }
    }
    if ((axes >> x->ndim) != 0) {
        return "an axis is out of range";
    }
    return y->ndim == x->ndim || y->ndim == kept ? NULL : "the rank of the result does not fit";
}

static const fold_op op_of[WFI_REDUCE_COUNT] = { OP_SUM, OP_PROD, OP_SQUARES, OP_SUM, OP_MAX, OP_MIN,
                                                 OP_OR,  OP_AND,  OP_MAX,     OP_MIN, OP_MAX };

static void choose_way(params *p)
{
    int64_t es = bytes_of(p->xt), last = p->kept.nd - 1;
    int64_t dim = p->kept.dim[last];
    bool lined = nest_step(&p->red, 0) == es && p->red.dim[p->red.nd - 1] > 1;
    p->columns = !lined && dim >= 4 && p->kept.step[0][last] == es;
    p->inner = p->columns ? dim : 1;
    p->tile = p->columns ? least(dim, TILE_BYTES / (int64_t)types[p->as].bytes) : 1;
    p->tiles = (p->inner + p->tile - 1) / p->tile;
    bool plain = p->kind == WFI_REDUCE_SUM || p->kind == WFI_REDUCE_SQUARES || p->kind == WFI_REDUCE_PROD ||
                 p->kind == WFI_REDUCE_MAX || p->kind == WFI_REDUCE_MIN;
    p->thin = plain && p->columns && p->direct && p->yt == p->xt && p->kept.nd == 1 && nest_step(&p->kept, 1) == es &&
              p->red.nd == 1 && p->count >= 1 && p->count <= LANES && p->count * p->outputs <= THIN_ALL;
}

static size_t worker_bytes(const params *p)
{
    size_t es = types[p->as].bytes, acc = LANES * (p->columns ? (size_t)p->tile : 1);
    size_t line = p->columns ? (size_t)p->tile : PIECE;
    return round64(acc * es) + round64(line * es) + round64(LANES * es) + 2 * round64((size_t)p->tile * 8);
}

static size_t scratch_bytes(const params *p)
{
    size_t shared = 0;
    if (p->blocks > 1) {
        shared = 2 * round64((size_t)p->outputs * 8) + round64((size_t)(p->outputs * p->blocks) * 8);
    }
    return shared + (size_t)p->threads * worker_bytes(p);
}

static const char *prepare(wfi_reduce_kind kind, const wfi_view *x, uint32_t axes, const wfi_view *y, int threads,
                           void *out, size_t *scratch)
{
    const char *why;
    if ((why = view_fault(x)) || (why = view_fault(y)) || (why = check_dtypes(kind, x->dtype, y->dtype)) ||
        (why = check_dims(x, axes, y))) {
        return why;
    }
    bool truth = kind == WFI_REDUCE_ANY || kind == WFI_REDUCE_ALL;
    params p;
    memset(&p, 0, sizeof p);
    p.kind = kind, p.xt = x->dtype, p.yt = y->dtype, p.threads = threads > 0 ? threads : 1;
    p.op = op_of[kind], p.tree_op = kind == WFI_REDUCE_SQUARES ? OP_SUM : p.op;
    p.as = truth ? AS_I64 : compute_of(x->dtype), p.direct = !truth && is_native(x->dtype);
    p.outputs = p.count = 1;
    const wfi_view *ops[NEST_OPS] = { x, y };
    for (int d = 0; d < x->ndim; d++) {
        bool gone = axes >> d & 1;
        nest_push(gone ? &p.red : &p.kept, x->dim[d], ops, (int[NEST_OPS]){ d, gone ? -1 : axis_of_y(x, axes, y, d) });
        *(gone ? &p.count : &p.outputs) *= x->dim[d];
    }
    if (p.count == 0 && p.outputs > 0 &&
        (kind == WFI_REDUCE_MAX || kind == WFI_REDUCE_MIN || kind == WFI_REDUCE_ARGMAX || kind == WFI_REDUCE_ARGMIN)) {
        return "an axis of size 0 has no largest or smallest element";
    }
    nest_sort(&p.kept, 0);
    nest_close(&p.kept);
    nest_close(&p.red);
    p.blocks = p.count > 0 ? (p.count + BLOCK - 1) / BLOCK : 1;
    choose_way(&p);
    *scratch = scratch_bytes(&p);
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    const typed *t;
    const char *x;
    char *y;
    char *workers;
    size_t worker_bytes;
    char *part, *val, *shift; /* with several blocks: [outputs][blocks], [outputs], [outputs] */
    bool shifted;             /* second turn of logsumexp: exp(x - shift) is summed */
    int64_t items, per;
} job;

/* Scratch of one worker. */
typedef struct desk {
    char *acc;   /* [32][tile] */
    char *line;  /* elements as they are computed */
    char *stage; /* 32 elements that wait for a full group */
    char *val;   /* [tile] */
    char *aux;   /* [tile]: shifts or positions */
    int64_t staged;
} desk;

static desk desk_of(const job *j, int worker)
{
    const params *p = j->p;
    size_t es = j->t->bytes, acc = LANES * (p->columns ? (size_t)p->tile : 1);
    desk d = { .acc = j->workers + (size_t)worker * j->worker_bytes };
    d.line = d.acc + round64(acc * es);
    d.stage = d.line + round64((p->columns ? (size_t)p->tile : PIECE) * es);
    d.val = d.stage + round64(LANES * es);
    d.aux = d.val + round64((size_t)p->tile * 8);
    return d;
}

static void bring(const params *p, void *line, const char *x, int64_t n, int64_t step)
{
    if (p->kind == WFI_REDUCE_ANY || p->kind == WFI_REDUCE_ALL) {
        load_truth(line, x, p->xt, n, step);
    } else {
        load_line(p->as, line, x, p->xt, n, step);
    }
}

/* Elements in order, in any portions. */
static void take(const job *j, desk *d, fold_op op, const char *x, int64_t n)
{
    int64_t es = (int64_t)j->t->bytes;
    if (d->staged) {
        int64_t k = least(LANES - d->staged, n);
        memcpy(d->stage + d->staged * es, x, (size_t)(k * es));
        d->staged += k, x += k * es, n -= k;
        if (d->staged < LANES) {
            return;
        }
        j->t->groups[op](d->acc, d->stage, 1);
        d->staged = 0;
    }
    int64_t groups = n / LANES;
    if (groups) {
        j->t->groups[op](d->acc, x, groups);
    }
    d->staged = n - groups * LANES;
    if (d->staged) {
        memcpy(d->stage, x + groups * LANES * es, (size_t)(d->staged * es));
    }
}

/* One output, reduced elements r .. end-1; the result is the first of acc. */
static void fold_row(const job *j, desk *d, const char *x, int64_t r, int64_t end, const void *shift)
{
    const params *p = j->p;
    fold_op op = shift ? OP_SUM : p->op;
    int64_t es = (int64_t)j->t->bytes, step = nest_step(&p->red, 0);
    if (p->direct && !shift && p->red.nd == 1 && step == es) {
        j->t->line[op](d->acc, x + r * es, end - r);
        return;
    }
    j->t->fill(op, d->acc, LANES);
    d->staged = 0;
    cursor c;
    nest_at(&p->red, r, &c);
    while (r < end) {
        int64_t n = least(end - r, nest_left(&p->red, &c));
        const char *from = x + c.off[0];
        if (p->direct && !shift && (step == es || n == 1)) {
            take(j, d, op, from, n);
        } else {
            n = least(n, PIECE);
            bring(p, d->line, from, n, step);
            if (shift) {
                j->t->exp_sub(d->line, n, shift, 0);
            }
            take(j, d, op, d->line, n);
        }
        r += n;
        nest_next(&p->red, &c, n);
    }
    if (d->staged) {
        j->t->fill(op, d->stage + d->staged * es, LANES - d->staged);
        j->t->groups[op](d->acc, d->stage, 1);
    }
    j->t->tree(shift ? OP_SUM : p->tree_op, d->acc);
}

/* w neighbouring outputs; the results are the first row of acc. */
static void fold_columns(const job *j, desk *d, const char *x, int64_t w, int64_t r, int64_t end, const void *shift)
{
    const params *p = j->p;
    fold_op op = shift ? OP_SUM : p->op;
    int64_t step = nest_step(&p->red, 0), first = r, lanes = least(LANES, end - r);
    j->t->fill(op, d->acc, (lanes > 0 ? lanes : 1) * p->tile);
    cursor c;
    nest_at(&p->red, r, &c);
    while (r < end) {
        int64_t n = least(end - r, nest_left(&p->red, &c));
        const char *from = x + c.off[0];
        if (p->direct && !shift) {
            j->t->columns[op](d->acc, p->tile, r - first, from, step, w, n);
        } else {
            n = 1;
            bring(p, d->line, from, w, bytes_of(p->xt));
            if (shift) {
                j->t->exp_sub(d->line, w, shift, 1);
            }
            j->t->columns[op](d->acc, p->tile, r - first, d->line, 0, w, 1);
        }
        r += n;
        nest_next(&p->red, &c, n);
    }
    j->t->column_tree(shift ? OP_SUM : p->tree_op, d->acc, p->tile, lanes, w);
}

/* Which outputs tile number t holds: the first one's number, how many. */
static int64_t tile_first(const params *p, int64_t t, int64_t *w)
{
    if (!p->columns) {
        *w = 1;
        return t;
    }
    int64_t outer = t / p->tiles, at = t % p->tiles * p->tile;
    *w = least(p->tile, p->inner - at);
    return outer * p->inner + at;
}

/* val[0..w) = outputs first .. first+w-1 over block b. */
static void fold_tile(const job *j, desk *d, const cursor *at, int64_t w, int64_t b, const void *shift, void *val)
{
    const params *p = j->p;
    int64_t r = b * BLOCK, end = least(p->count, r + BLOCK);
    const char *x = j->x + at->off[0];
    if (p->columns) {
        fold_columns(j, d, x, w, r, end, shift);
    } else {
        fold_row(j, d, x, r, end, shift);
    }
    memcpy(val, d->acc, (size_t)w * j->t->bytes);
}

/* Positions of the extremes val[0..w), which exist. */
static void search(const job *j, desk *d, const char *x, const char *val, int64_t w, int64_t *at)
{
    const params *p = j->p;
    int64_t step = nest_step(&p->red, 0), r = 0, open = w;
    for (int64_t i = 0; i < w; i++) {
        at[i] = -1;
    }
    cursor c;
    nest_at(&p->red, 0, &c);
    while (r < p->count && open) {
        int64_t n = p->columns ? 1 : nest_left(&p->red, &c);
        const char *from = x + c.off[0];
        bool lined = p->columns || step == (int64_t)j->t->bytes;
        if (!p->direct || !lined) {
            n = least(n, PIECE);
            bring(p, d->line, from, p->columns ? w : n, p->columns ? bytes_of(p->xt) : step);
            from = d->line;
        }
        if (p->columns) {
            open = j->t->find_columns(at, from, val, r, w);
        } else {
            int64_t hit = j->t->find(from, n, val);
            at[0] = hit < 0 ? -1 : r + hit;
            open = hit < 0;
        }
        r += n;
        nest_next(&p->red, &c, n);
    }
}

/* val: the combined values of w outputs; shift: the maxima (logsumexp). */
static void finish(const job *j, desk *d, const cursor *at, int64_t w, char *val, const void *shift)
{
    const params *p = j->p;
    char *y = j->y + at->off[1];
    int64_t step = nest_step(&p->kept, 1);
    switch (p->kind) {
    case WFI_REDUCE_MEAN: j->t->divide(val, w, p->count); break;
    case WFI_REDUCE_LOGSUMEXP: j->t->log_add(val, shift, w); break;
    case WFI_REDUCE_ARGMAX:
    case WFI_REDUCE_ARGMIN:
        search(j, d, j->x + at->off[0], val, w, (int64_t *)(void *)d->aux);
        store_i64(y, (const int64_t *)(const void *)d->aux, WF_I64, w, step);
        return;
    default: break;
    }
    store_line(p->as, y, val, p->yt, w, step);
}

/* One tile with all its elements, when they are one block. */
static void whole_item(const job *j, desk *d, int64_t item)
{
    cursor at;
    int64_t w, first = tile_first(j->p, item, &w);
    nest_at(&j->p->kept, first, &at);
    fold_tile(j, d, &at, w, 0, NULL, d->val);
    if (j->p->kind == WFI_REDUCE_LOGSUMEXP) {
        memcpy(d->aux, d->val, (size_t)w * j->t->bytes);
        fold_tile(j, d, &at, w, 0, d->aux, d->val);
    }
    finish(j, d, &at, w, d->val, d->aux);
}

/* One tile, one block: the results go to part. */
static void block_item(const job *j, desk *d, int64_t item)
{
    const params *p = j->p;
    size_t es = j->t->bytes;
    int64_t b = item % p->blocks, w, first = tile_first(p, item / p->blocks, &w);
    cursor at;
    nest_at(&p->kept, first, &at);
    fold_tile(j, d, &at, w, b, j->shifted ? j->shift + (size_t)first * es : NULL, d->val);
    for (int64_t i = 0; i < w; i++) {
        memcpy(j->part + (size_t)((first + i) * p->blocks + b) * es, d->val + (size_t)i * es, es);
    }
}

static void block_chunk(void *arg, int64_t chunk, int worker)
{
    const job *j = arg;
    desk d = desk_of(j, worker);
    int64_t end = least(j->items, (chunk + 1) * j->per);
    for (int64_t i = chunk * j->per; i < end; i++) {
        block_item(j, &d, i);
    }
}

static void whole_chunk(void *arg, int64_t chunk, int worker)
{
    const job *j = arg;
    desk d = desk_of(j, worker);
    int64_t end = least(j->items, (chunk + 1) * j->per);
    for (int64_t i = chunk * j->per; i < end; i++) {
        whole_item(j, &d, i);
    }
}

static void finish_chunk(void *arg, int64_t chunk, int worker)
{
    const job *j = arg;
    desk d = desk_of(j, worker);
    size_t es = j->t->bytes;
    int64_t end = least(j->items, (chunk + 1) * j->per);
    for (int64_t i = chunk * j->per; i < end; i++) {
        cursor at;
        int64_t w, first = tile_first(j->p, i, &w);
        nest_at(&j->p->kept, first, &at);
        finish(j, &d, &at, w, j->val + (size_t)first * es, j->shift + (size_t)first * es);
    }
}

static void share(job *j, wfi_pool *pool, int64_t items, int64_t each, wfi_chunk_fn *fn)
{
    j->items = items;
    j->per = items_a_chunk(items, each, j->p->threads);
    wfi_pool_run(pool, (items + j->per - 1) / j->per, fn, j);
}

/* All blocks of all tiles, then the blocks of each output: val. */
static void turn(job *j, wfi_pool *pool, int64_t tiles)
{
    const params *p = j->p;
    size_t es = j->t->bytes;
    share(j, pool, tiles * p->blocks, BLOCK * p->tile, block_chunk);
    for (int64_t o = 0; o < p->outputs; o++) {
        char *part = j->part + (size_t)(o * p->blocks) * es;
        j->t->parts(j->shifted ? OP_SUM : p->tree_op, part, p->blocks);
        memcpy(j->val + (size_t)o * es, part, es);
    }
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    if (p->outputs == 0) {
        return;
    }
    if (p->thin) {
        types[p->as].thin[p->op](args[0], args[1], nest_step(&p->red, 0), p->outputs, p->count);
        return;
    }
    job j = { .p = p, .t = &types[p->as], .x = args[1], .y = args[0], .workers = r->scratch };
    wfi_pool *pool = pool_for(r, p->threads);
    int64_t tiles = p->outputs / p->inner * p->tiles;
    j.worker_bytes = worker_bytes(p);
    if (p->blocks == 1) {
        share(&j, pool, tiles, p->count * p->tile, whole_chunk);
        return;
    }
    char *at = j.workers + (size_t)p->threads * j.worker_bytes;
    j.val = at, at += round64((size_t)p->outputs * 8);
    j.shift = at, at += round64((size_t)p->outputs * 8);
    j.part = at;
    turn(&j, pool, tiles);
    if (p->kind == WFI_REDUCE_LOGSUMEXP) {
        memcpy(j.shift, j.val, (size_t)p->outputs * j.t->bytes);
        j.shifted = true;
        turn(&j, pool, tiles);
    }
    share(&j, pool, tiles, p->tile, finish_chunk);
}

/* maxgrad.c */
const char *WFI_K(wfi_maxgrad_prepare)(const wfi_view *dx, const wfi_view *x, uint32_t axes, const wfi_view *y,
                                       const wfi_view *dy, int threads, void *params, size_t *scratch);
wfi_kernel_fn WFI_K(wfi_maxgrad_run);

extern const wfi_reduce_kernels WFI_K(wfi_reduce);
const wfi_reduce_kernels WFI_K(wfi_reduce) = { prepare, run, WFI_K(wfi_maxgrad_prepare), WFI_K(wfi_maxgrad_run) };
