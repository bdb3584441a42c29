/* Row kernels: what they accept, and how rows of any layout and type reach them as plain arrays of f32 or f64.
 *
 * A row that lies in memory as it is computed is used in place: no copy, the next row is fetched meanwhile, and a large
 * result is written past the caches, while the rows after it are computed: memory is never idle, and softmax runs at
 * the speed of its exponentials, layer norm at that of memory. Else a row is brought into scratch; when neighbours in
 * memory belong to different rows, 16 rows at a time. */
#include "kernel/row/row.h"
#include "base/hash.h"
#include "kernel/reduce/lines.h"

/* norm_params.c */
const char *WFI_K(wfi_norm_params_prepare)(const wfi_row_spec *s, void *params, size_t *scratch);
wfi_kernel_fn WFI_K(wfi_norm_params_run);

enum { TURN = 16 };                     /* rows brought in together */
#define STREAM_BYTES ((int64_t)4 << 20) /* results from this size on are written past the caches */
#ifdef __AVX512F__
enum { MOST_TOGETHER = 4 }; /* rows that one call of a kernel may take */
#else
enum { MOST_TOGETHER = 1 };
#endif

typedef struct params {
    wfi_row_kind kind; /* first, as in norm_params.c */
    nest rows;         /* per-row operands and those with rows, in order of their slots */
    int64_t nrows, n, pitch, part_room;
    int64_t per;                 /* rows of a chunk */
    int64_t step[WFI_ROW_SLOTS]; /* bytes along the axis */
    int64_t ignore;
    double smoothing, eps;
    wf_dtype type[WFI_ROW_SLOTS];
    int8_t op[WFI_ROW_SLOTS]; /* operand in `rows`, or -1 */
    char role[WFI_ROW_SLOTS];
    compute as;
    int32_t threads, turn;
    int32_t together; /* rows that one call of the kernel takes, and */
    int32_t several;  /* ... which of its functions for several rows */
    bool direct[WFI_ROW_SLOTS];
    bool in_place; /* all rows are direct */
    bool can_stream, stream;
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

/* A result that is computed but for its last step and not written yet: y = (from - first) * scale + shift, or what the
 * kernel makes of these. y NULL: nothing. */
typedef struct owed {
    void *y;
    const void *from;
    double first, scale, shift;
} owed;

/* What rows leave to those that follow. */
typedef struct carry {
    const void *of; /* the next row, if something is known about it: */
    double max;     /* its largest element */
    owed owed[MOST_TOGETHER];
} carry;

/* One row as the kernels see it. */
typedef struct row {
    const params *p;
    void *at[WFI_ROW_SLOTS]; /* arrays of the compute type; a single element for per-row operands */
    int64_t n, pitch, part_room, label;
    void *e, *part;
    const void *next[WFI_ROW_SLOTS]; /* the same operand of the next row, or NULL */
    carry *carry;
    bool stream;
} row;

#define FT    float
#define FI    int32_t
#define FN(x) x##_f32
#include "kernel/reduce/fold.h"
#include "kernel/row/row_math.h"
#include "kernel/row/norm_math.h"
#ifdef __AVX512F__
#include "kernel/row/norm_together.h"
#endif
#include "kernel/row/row_kernels.h"
#undef FT
#undef FI
#undef FN
#define FT    double
#define FI    int64_t
#define FN(x) x##_f64
#include "kernel/reduce/fold.h"
#include "kernel/row/row_math.h"
#include "kernel/row/norm_math.h"
#ifdef __AVX512F__
#include "kernel/row/norm_together.h"
#endif
#include "kernel/row/row_kernels.h"
#undef FT
#undef FI
#undef FN

/* Roles of the slots. Y: output with rows, X: input with rows, y: output per row, x: input per row, L: labels,
 * v: per column. Small letters after ? may be absent. main: the slot with rows that gives the sizes. */
static const struct kind {
    const char *roles;
    uint8_t optional, main;
    uint8_t lines; /* rows of scratch beside those that are brought in */
    void (*fn[2])(const row *);
} kinds[WFI_ROW_COUNT] = {
    [WFI_ROW_SOFTMAX] = { "YX", 0, 1, 2, { softmax_f32, softmax_f64 } },
    [WFI_ROW_SOFTMAX_GRAD] = { "YXX", 0, 1, 0, { softmax_grad_f32, softmax_grad_f64 } },
    [WFI_ROW_LOG_SOFTMAX] = { "YX", 0, 1, 0, { log_softmax_f32, log_softmax_f64 } },
    [WFI_ROW_LOG_SOFTMAX_GRAD] = { "YXX", 0, 1, 0, { log_softmax_grad_f32, log_softmax_grad_f64 } },
    [WFI_ROW_XENT] = { "yyXL", 1 << 1, 2, 0, { xent_f32, xent_f64 } },
    [WFI_ROW_XENT_GRAD] = { "YXLx", 0, 1, 1, { xent_grad_f32, xent_grad_f64 } },
    [WFI_ROW_NORM] = { "YyyXvv", 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5, 3, 0, { norm_f32, norm_f64 } },
    [WFI_ROW_NORM_GRAD] = { "YXvX", 1 << 2, 1, 2, { norm_grad_f32, norm_grad_f64 } },
};

/* A function that takes several rows at once, each as the plain one would, if they have at most `most` bytes each. All
 * that is in use at a time, the rows written late and those fetched among it, is to fit L1. */
typedef struct several {
    int32_t rows, most;
    void (*fn[2])(const row *);
} several;

static const struct company {
    void (*settle[2])(const row *, const owed *); /* writes what is owed */
    several several[2];                           /* the best first; rows 0: none */
} company[WFI_ROW_COUNT] = {
    [WFI_ROW_SOFTMAX] = { .settle = { softmax_settle_f32, softmax_settle_f64 } },
#ifdef __AVX512F__
    [WFI_ROW_NORM] = { .settle = { norm_settle_f32, norm_settle_f64 },
                       .several = { { 4, 3072, { norm_four_f32, NULL } },
                                    { 2, 8192, { norm_two_f32, norm_two_f64 } } } },
#endif
};

/* ---- prepare ---- */

/* The axis of a per-row operand that belongs to axis d of x, or -1 for the axis of the rows. */
static int axis_beside(const wfi_view *x, int axis, const wfi_view *v, int d)
{
    if (d == axis) {
        return -1;
    }
    return v->ndim == x->ndim || d < axis ? d : d - 1;
}

static const char *check_slot(const wfi_row_spec *s, char role, const wfi_view *v, const wfi_view *x)
{
    const char *why = view_fault(v);
    if (why) {
        return why;
    }
    if (role == 'L' ? !is_index(v->dtype) : !is_float(v->dtype)) {
        return role == 'L' ? "labels must be i64 or i32" : "only floats have this operator";
    }
    if (role != 'L' && (v->dtype == WF_F64) != (x->dtype == WF_F64)) {
        return "f64 is not mixed with narrower types";
    }
    if (role == 'v') {
        return v->ndim == 1 && v->dim[0] == x->dim[s->axis] ? NULL : "gamma and beta must have the length of the axis";
    }
    if (role == 'X' || role == 'Y') {
        return same_dims(v, x) ? NULL : "the sizes of the operands differ";
    }
    if (v->ndim != x->ndim && v->ndim != x->ndim - 1) {
        return "the rank of a per-row operand does not fit";
    }
    for (int d = 0; d < x->ndim; d++) {
        int at = axis_beside(x, s->axis, v, d);
        if (at >= 0 ? v->dim[at] != x->dim[d] : v->ndim == x->ndim && v->dim[d] != 1) {
            return "the sizes of a per-row operand do not fit";
        }
    }
    return NULL;
}

static const char *check(const wfi_row_spec *s)
{
    const struct kind *k = &kinds[s->kind];
    const wfi_view *x = s->v[k->main];
    const char *why = view_fault(x);
    if (why) {
        return why;
    }
    if (s->axis < 0 || s->axis >= x->ndim) {
        return "the axis is out of range";
    }
    for (int i = 0; k->roles[i]; i++) {
        if (!s->v[i] && (k->optional >> i & 1)) {
            continue;
        }
        if ((why = check_slot(s, k->roles[i], s->v[i], x))) {
            return why;
        }
    }
    return NULL;
}

static size_t worker_bytes(const params *p)
{
    size_t line = (size_t)p->pitch * 8, lines = kinds[p->kind].lines;
    for (int i = 0; kinds[p->kind].roles[i]; i++) {
        lines += (p->role[i] == 'X' || p->role[i] == 'Y') && !p->direct[i] ? (size_t)p->turn : 0;
    }
    return lines * line + 2 * round64((size_t)p->part_room * 8) + WFI_ROW_SLOTS * 64;
}

static size_t scratch_bytes(const params *p)
{
    return (size_t)p->threads * worker_bytes(p) + 2 * (size_t)p->pitch * 8;
}

static void fill_slots(params *p, const wfi_row_spec *s)
{
    const struct kind *k = &kinds[s->kind];
    const wfi_view *x = s->v[k->main], *v[NEST_OPS] = { NULL };
    int axis[WF_RANK_MAX][NEST_OPS], ops = 0;
    for (int i = 0; k->roles[i]; i++) {
        p->op[i] = -1;
        if (!s->v[i]) {
            continue;
        }
        p->role[i] = k->roles[i];
        p->type[i] = s->v[i]->dtype;
        bool rows = p->role[i] == 'X' || p->role[i] == 'Y';
        p->step[i] = bytes_of(p->type[i]) * (rows                ? s->v[i]->stride[s->axis]
                                             : p->role[i] == 'v' ? s->v[i]->stride[0]
                                                                 : 0);
        p->direct[i] = is_native(p->type[i]) && (p->step[i] == bytes_of(p->type[i]) || (rows && p->n == 1));
        if (p->role[i] != 'v') {
            v[ops] = s->v[i];
            for (int d = 0; d < x->ndim; d++) {
                axis[d][ops] = rows ? d : axis_beside(x, s->axis, s->v[i], d);
            }
            p->op[i] = (int8_t)ops++;
        }
    }
    for (int d = 0; d < x->ndim; d++) {
        if (d != s->axis) {
            nest_push(&p->rows, x->dim[d], v, axis[d]);
            p->nrows *= x->dim[d];
        }
    }
    nest_close(&p->rows);
}

static const char *prepare(const wfi_row_spec *s, void *out, size_t *scratch)
{
    if (s->kind == WFI_ROW_NORM_PARAM_GRAD) {
        return WFI_K(wfi_norm_params_prepare)(s, out, scratch);
    }
    if (s->kind < 0 || s->kind >= WFI_ROW_COUNT) {
        return "no such row kernel";
    }
    const char *why = check(s);
    if (why) {
        return why;
    }
    const wfi_view *x = s->v[kinds[s->kind].main];
    params p;
    memset(&p, 0, sizeof p);
    p.kind = s->kind, p.threads = s->threads > 0 ? s->threads : 1, p.as = compute_of(x->dtype);
    p.ignore = s->ignore, p.smoothing = s->smoothing, p.eps = s->eps;
    p.n = x->dim[s->axis], p.nrows = 1;
    p.pitch = (p.n + LANES - 1) / LANES * LANES + LANES; /* + LANES: rows not all in the same cache sets */
    p.part_room = (p.n + BLOCK - 1) / BLOCK + 1;
    fill_slots(&p, s);
    p.in_place = true;
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        p.in_place &= (p.role[i] != 'X' && p.role[i] != 'Y') || p.direct[i];
    }
    int64_t row_bytes = p.n * bytes_of(p.type[0]);
    p.together = 1;
    for (int i = 1; i >= 0 && p.in_place && p.n > 0; i--) {
        const several *f = &company[p.kind].several[i];
        if (f->fn[p.as == AS_F64] && row_bytes <= f->most) {
            p.together = f->rows, p.several = i;
        }
    }
    p.turn = p.in_place ? p.together : TURN;
    p.can_stream = p.role[0] == 'Y' && p.direct[0] && row_bytes % 64 == 0;
    p.stream = p.can_stream && row_bytes * p.nrows >= STREAM_BYTES;
    p.per = items_a_chunk(p.nrows, p.n, p.threads);
    *scratch = scratch_bytes(&p);
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    char *args[WFI_ROW_SLOTS];
    void *columns[WFI_ROW_SLOTS]; /* gamma, beta as they are computed */
    char *workers;
    size_t worker_bytes;
    wfi_fault *fault;
} job;

/* Scratch of one worker. */
typedef struct desk {
    char *lines[WFI_ROW_SLOTS]; /* [turn][pitch] for operands that are brought in */
    double single[MOST_TOGETHER][WFI_ROW_SLOTS];
    carry carry;
    row row[MOST_TOGETHER];
} desk;

static void lay_out(const job *j, desk *d, int worker)
{
    const params *p = j->p;
    char *at = j->workers + (size_t)worker * j->worker_bytes;
    memset(d, 0, sizeof *d);
    row r = { .p = p, .n = p->n, .pitch = p->pitch, .part_room = p->part_room, .carry = &d->carry };
    r.part = at, at += 2 * round64((size_t)p->part_room * 8);
    r.e = at, at += (size_t)kinds[p->kind].lines * (size_t)p->pitch * 8;
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        if ((p->role[i] == 'X' || p->role[i] == 'Y') && !p->direct[i]) {
            d->lines[i] = at;
            at += (size_t)p->turn * (size_t)p->pitch * 8;
        }
    }
    for (int q = 0; q < p->together; q++) {
        d->row[q] = r;
        for (int i = 0; i < WFI_ROW_SLOTS; i++) {
            d->row[q].at[i] = &d->single[q][i];
        }
        for (int i = 0; kinds[p->kind].roles[i]; i++) {
            if (kinds[p->kind].roles[i] == 'v') {
                d->row[q].at[i] = j->columns[i]; /* NULL: absent */
            }
        }
    }
}

static int64_t element_bytes(const params *p)
{
    return p->as == AS_F32 ? 4 : 8;
}

/* Column c of some rows: side by side in `side`, `pitch` apart in `lines`. */
static void turn_f32(float *side, float *lines, int64_t pitch, int64_t count, bool out)
{
    for (int64_t k = 0; k < count; k++) {
        *(out ? side + k : lines + k * pitch) = out ? lines[k * pitch] : side[k];
    }
}
static void turn_f64(double *side, double *lines, int64_t pitch, int64_t count, bool out)
{
    for (int64_t k = 0; k < count; k++) {
        *(out ? side + k : lines + k * pitch) = out ? lines[k * pitch] : side[k];
    }
}

/* Rows of slot i, `count` of them from address x on, into lines or out of them. */
static void move_rows(const params *p, int i, char *lines, char *x, int64_t count, bool out)
{
    int64_t across = nest_step(&p->rows, p->op[i]), es = element_bytes(p), far = p->step[i];
    bool turned = count > 1 && (across < 0 ? -across : across) < (far < 0 ? -far : far);
    if (!turned) {
        for (int64_t k = 0; k < count; k++) {
            if (out) {
                store_line(p->as, x + k * across, lines + k * p->pitch * es, p->type[i], p->n, far);
            } else {
                load_line(p->as, lines + k * p->pitch * es, x + k * across, p->type[i], p->n, far);
            }
        }
        return;
    }
    double group[TURN];
    bool plain = is_native(p->type[i]) && across == es;
    for (int64_t c = 0; c < p->n; c++) {
        char *at = x + c * far, *side = plain ? at : (char *)group;
        if (!out && !plain) {
            load_line(p->as, group, at, p->type[i], count, across);
        }
        if (es == 4) {
            turn_f32((float *)(void *)side, (float *)(void *)lines + c, p->pitch, count, out);
        } else {
            turn_f64((double *)(void *)side, (double *)(void *)lines + c, p->pitch, count, out);
        }
        if (out && !plain) {
            store_line(p->as, at, group, p->type[i], count, across);
        }
    }
}

/* The label of row number r; false if it does not count. */
static bool label_of(const job *j, const char *at, wf_dtype t, int64_t r, int64_t *label)
{
    load_i64(label, at, t, 1, 0);
    if (*label == j->p->ignore) {
        return false;
    }
    if (*label < 0 || *label >= j->p->n) {
        wfi_fault_index(j->fault, *label, r, j->p->n);
        return false;
    }
    return true;
}

/* A row whose label does not count. */
static void skip_row(const params *p, row *r)
{
    if (p->role[0] == 'Y') {
        memset(r->at[0], 0, (size_t)(p->n * element_bytes(p)));
    } else {
        memset(r->at[0], 0, 8);
        memset(r->at[1], 0, 8);
    }
}

static void set_one(const params *p, void *at)
{
    if (p->as == AS_F32) {
        *(float *)at = 1;
    } else {
        *(double *)at = 1;
    }
}

/* Row number r, line k of those brought in, is put before the kernel; off: byte offsets of its operands. False: its
 * label does not count. */
static bool open_row(const job *j, const desk *d, row *one, int64_t r, int64_t k, const int64_t *off,
                     const int64_t *next)
{
    const params *p = j->p;
    bool counts = true;
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        if (p->op[i] < 0 || !p->role[i]) {
            continue;
        }
        char *at = j->args[i] + off[p->op[i]];
        switch (p->role[i]) {
        case 'X':
        case 'Y':
            one->at[i] = p->direct[i] ? at : d->lines[i] + k * p->pitch * element_bytes(p);
            one->next[i] = p->role[i] == 'X' && p->direct[i] && next ? j->args[i] + next[p->op[i]] : NULL;
            break;
        case 'x': load_line(p->as, one->at[i], at, p->type[i], 1, 0); break;
        case 'L': counts = label_of(j, at, p->type[i], r, &one->label); break;
        default: break;
        }
    }
    one->stream = p->stream && ((uintptr_t)one->at[0] & 63) == 0;
    if (p->kind == WFI_ROW_XENT) {
        set_one(p, one->at[1]);
    }
    return counts;
}
/* What a row has beside its line. */
static void close_row(const job *j, const row *one, const int64_t *off)
{
    const params *p = j->p;
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        if (p->role[i] == 'y') {
            store_line(p->as, j->args[i] + off[p->op[i]], one->at[i], p->type[i], 1, 0);
        }
    }
}

/* `count` rows from number r on, which lie one after the other from c on; those after them are there until `end`. */
static void some_rows(const job *j, desk *d, cursor *c, int64_t r, int64_t count, int64_t end)
{
    const params *p = j->p;
    int64_t off[MOST_TOGETHER][NEST_OPS];
    bool together = p->together > 1 && count == p->together;
    for (int64_t k = 0; k < count; k++) {
        int q = together ? (int)k : 0;
        memcpy(off[q], c->off, sizeof off[q]);
        nest_next(&p->rows, c, 1);
        bool counts = open_row(j, d, &d->row[q], r + k, k, off[q], r + k + 1 < end ? c->off : NULL);
        if (together) {
            continue;
        }
        if (counts) {
            kinds[p->kind].fn[p->as == AS_F64](&d->row[q]);
        } else {
            skip_row(p, &d->row[q]);
        }
        close_row(j, &d->row[q], off[q]);
    }
    if (together) {
        company[p->kind].several[p->several].fn[p->as == AS_F64](d->row);
        for (int q = 0; q < p->together; q++) {
            close_row(j, &d->row[q], off[q]);
        }
    }
}

static void bring_rows(const job *j, desk *d, const cursor *c, int64_t count, char role)
{
    const params *p = j->p;
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        if (p->role[i] == role && d->lines[i]) {
            move_rows(p, i, d->lines[i], j->args[i] + c->off[p->op[i]], count, role == 'Y');
        }
    }
}

static void chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    desk d;
    lay_out(j, &d, worker);
    int64_t r = number * p->per, end = least(p->nrows, r + p->per);
    cursor c;
    nest_at(&p->rows, r, &c);
    while (r < end) {
        int64_t count = least(least(p->turn, end - r), nest_left(&p->rows, &c));
        cursor first = c;
        bring_rows(j, &d, &first, count, 'X');
        some_rows(j, &d, &c, r, count, end);
        bring_rows(j, &d, &first, count, 'Y');
        r += count;
    }
    for (int q = 0; q < MOST_TOGETHER && d.carry.owed[q].y; q++) {
        company[p->kind].settle[p->as == AS_F64](d.row, &d.carry.owed[q]);
    }
#if defined __x86_64__
    if (p->stream) {
        _mm_sfence();
    }
#endif
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    if (p->kind == WFI_ROW_NORM_PARAM_GRAD) {
        WFI_K(wfi_norm_params_run)(params_, args, r);
        return;
    }
    job j = { .p = p, .worker_bytes = worker_bytes(p), .fault = r->fault };
    char *at = r->scratch;
    for (int i = 0; i < WFI_ROW_SLOTS; i++) {
        if (p->role[i]) {
            j.args[i] = args[i];
        }
        if (p->role[i] == 'v') {
            j.columns[i] = args[i];
            if (!p->direct[i]) {
                load_line(p->as, at, args[i], p->type[i], p->n, p->step[i]);
                j.columns[i] = at;
                at += (size_t)p->pitch * 8;
            }
        }
    }
    j.workers = (char *)r->scratch + 2 * (size_t)p->pitch * 8;
    wfi_pool_run(pool_for(r, p->threads), (p->nrows + p->per - 1) / p->per, chunk, &j);
}

#include "kernel/row/row_choice.h"

extern const wfi_row_kernels WFI_K(wfi_row);
const wfi_row_kernels WFI_K(wfi_row) = { prepare, run, &choices };
