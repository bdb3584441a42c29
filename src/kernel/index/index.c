/* Gather, scatter-add and one-hot.
 *
 * Additions to rows are turned round: the places of the index tensor are sorted by the row that they name (a counting
 * sort keeps their order), then each row is made by one thread from its places, in registers and cache, and written
 * once. So nothing is added twice, nothing is locked, and 16-bit types need no wide copy of the whole table. */
#include "kernel/index/index.h"
#include "kernel/reduce/lines.h"

enum { PIECE = 512 }; /* elements of a row made at a time */

typedef struct params {
    nest places; /* places of the index tensor, or lines beside the axis; operands by slot */
    nest inner;  /* the elements of a row; operands by slot */
    int64_t nplaces, ninner;
    int64_t size;    /* indices must stay below */
    int64_t along;   /* take: indices in a line */
    int64_t after;   /* take: lines in a row-major stretch, that is the product of the sizes after the axis */
    int64_t step[4]; /* bytes along the indexed axis, by slot */
    int64_t es;
    wfi_index_kind kind;
    wf_dtype type, index_type;
    compute as;
    int32_t threads;
    bool lined; /* rows are plain bytes in both operands */
} params;
_Static_assert(sizeof(params) <= WFI_PARAMS_MAX, "params");

static const char *const slots[WFI_INDEX_COUNT] = { "YXI", "YBXI", "YXI", "YBXI", "YI" };

/* ---- prepare ---- */

static int slot_of(wfi_index_kind k, char role)
{
    const char *at = strchr(slots[k], role);
    return at ? (int)(at - slots[k]) : -1;
}

static const char *check_types(const wfi_index_spec *s)
{
    wf_dtype t = WF_DTYPE_NONE;
    for (int i = 0; slots[s->kind][i]; i++) {
        char role = slots[s->kind][i];
        if (role == 'B' && !s->v[i]) {
            continue;
        }
        const char *why = view_fault(s->v[i]);
        if (why) {
            return why;
        }
        if (role == 'I') {
            if (!is_index(s->v[i]->dtype)) {
                return "indices must be i64 or i32";
            }
            continue;
        }
        t = t ? t : s->v[i]->dtype;
        if (s->v[i]->dtype != t) {
            return "the element types of the operands differ";
        }
    }
    bool moves = s->kind == WFI_INDEX_ROWS || s->kind == WFI_INDEX_TAKE;
    return bytes_of(t) && (moves || compute_of(t) != AS_NONE) ? NULL : "this element type is stored and cast only";
}

/* table: [size, inner...]; rows: [places..., inner...] */
static const char *check_rows(const wfi_view *table, const wfi_view *rows, const wfi_view *index)
{
    if (table->ndim < 1 || rows->ndim != index->ndim + table->ndim - 1) {
        return "the ranks do not fit";
    }
    for (int d = 0; d < rows->ndim; d++) {
        if (rows->dim[d] != (d < index->ndim ? index->dim[d] : table->dim[d - index->ndim + 1])) {
            return "the sizes do not fit";
        }
    }
    return NULL;
}

static const char *check_lines(const wfi_view *table, const wfi_view *lines, const wfi_view *index, int axis)
{
    if (axis < 0 || axis >= index->ndim || !same_dims(lines, index) || table->ndim != index->ndim) {
        return "the axis, the ranks or the sizes do not fit";
    }
    for (int d = 0; d < index->ndim; d++) {
        if (d != axis && table->dim[d] != index->dim[d]) {
            return "the sizes do not fit";
        }
    }
    return NULL;
}

static const char *check_sizes(const wfi_index_spec *s)
{
    const wfi_view *y = s->v[0], *b = s->v[1], *index = s->v[slot_of(s->kind, 'I')];
    const wfi_view *x = s->kind == WFI_INDEX_ONE_HOT ? NULL : s->v[slot_of(s->kind, 'X')];
    bool adds = s->kind == WFI_INDEX_ADD_ROWS || s->kind == WFI_INDEX_ADD_TAKEN;
    if (adds && b && !same_dims(b, y)) {
        return "base must have the sizes of the result";
    }
    switch (s->kind) {
    case WFI_INDEX_ROWS: return check_rows(x, y, index);
    case WFI_INDEX_ADD_ROWS: return check_rows(y, x, index);
    case WFI_INDEX_TAKE: return check_lines(x, y, index, s->axis);
    case WFI_INDEX_ADD_TAKEN: return check_lines(y, x, index, s->axis);
    default:
        for (int d = 0; d < index->ndim; d++) {
            if (y->ndim != index->ndim + 1 || y->dim[d] != index->dim[d]) {
                return "the sizes do not fit";
            }
        }
        return y->ndim == index->ndim + 1 ? NULL : "the ranks do not fit";
    }
}

/* rows, add_rows, one_hot: table is indexed along its axis 0, rows has the places in front. */
static void lay_rows(params *p, const wfi_index_spec *s, int table, int rows, int index)
{
    const wfi_view *v[NEST_OPS] = { NULL }, *in[NEST_OPS] = { NULL };
    int front = s->v[index]->ndim;
    v[rows] = s->v[rows], v[index] = s->v[index], in[rows] = s->v[rows];
    for (int d = 0; d < front; d++) {
        int axis[NEST_OPS] = { d, d, d, d };
        nest_push(&p->places, s->v[index]->dim[d], v, axis);
        p->nplaces *= s->v[index]->dim[d];
    }
    if (table >= 0) {
        in[table] = s->v[table];
        in[1] = s->kind == WFI_INDEX_ADD_ROWS ? s->v[1] : in[1];
        p->size = s->v[table]->dim[0];
        for (int k = 0; k < NEST_OPS; k++) {
            p->step[k] = in[k] && k != rows ? in[k]->stride[0] * p->es : 0;
        }
    } else {
        p->size = s->v[rows]->dim[front];
        p->step[rows] = s->v[rows]->stride[front] * p->es;
    }
    for (int d = front; table >= 0 && d < s->v[rows]->ndim; d++) {
        int axis[NEST_OPS] = { d - front + 1, d - front + 1, d - front + 1, d - front + 1 };
        axis[rows] = d;
        nest_push(&p->inner, s->v[rows]->dim[d], in, axis);
        p->ninner *= s->v[rows]->dim[d];
    }
}

/* take, add_taken */
static void lay_lines(params *p, const wfi_index_spec *s, int table)
{
    const wfi_view *index = s->v[slot_of(s->kind, 'I')];
    p->size = s->v[table]->dim[s->axis];
    p->along = index->dim[s->axis];
    for (int d = 0; d < index->ndim; d++) {
        int axis[NEST_OPS] = { d, d, d, d };
        if (d != s->axis) {
            nest_push(&p->places, index->dim[d], s->v, axis);
            p->nplaces *= index->dim[d];
            p->after *= d > s->axis ? index->dim[d] : 1;
        }
    }
    for (int k = 0; k < NEST_OPS; k++) {
        p->step[k] = s->v[k] ? s->v[k]->stride[s->axis] * bytes_of(s->v[k]->dtype) : 0;
    }
}

static size_t worker_bytes(const params *p)
{
    return p->kind == WFI_INDEX_ADD_TAKEN  ? round64((size_t)p->size * 8)
           : p->kind == WFI_INDEX_ADD_ROWS ? 2 * PIECE * 8
                                           : 0;
}

static const char *prepare(const wfi_index_spec *given, void *out, size_t *scratch)
{
    wfi_index_spec s = *given;
    const char *why;
    if (s.kind < 0 || s.kind >= WFI_INDEX_COUNT) {
        return "no such index kernel";
    }
    for (int i = (int)strlen(slots[s.kind]); i < NEST_OPS; i++) {
        s.v[i] = NULL;
    }
    if ((why = check_types(&s)) || (why = check_sizes(&s))) {
        return why;
    }
    params p;
    memset(&p, 0, sizeof p);
    p.kind = s.kind, p.threads = s.threads > 0 ? s.threads : 1;
    p.type = s.v[0]->dtype, p.index_type = s.v[slot_of(s.kind, 'I')]->dtype;
    p.as = compute_of(p.type), p.es = bytes_of(p.type);
    p.nplaces = p.ninner = p.after = 1;
    switch (s.kind) {
    case WFI_INDEX_ROWS: lay_rows(&p, &s, 1, 0, 2); break;
    case WFI_INDEX_ADD_ROWS: lay_rows(&p, &s, 0, 2, 3); break;
    case WFI_INDEX_TAKE: lay_lines(&p, &s, 1); break;
    case WFI_INDEX_ADD_TAKEN: lay_lines(&p, &s, 0); break;
    default: lay_rows(&p, &s, -1, 0, 1); break;
    }
    nest_close(&p.places);
    nest_close(&p.inner);
    p.lined = p.inner.nd == 1;
    for (int k = 0; k < NEST_OPS && p.inner.dim[0] > 1; k++) {
        p.lined &= !s.v[k] || slots[s.kind][k] == 'I' || p.inner.step[k][0] == p.es;
    }
    *scratch = (size_t)p.threads * worker_bytes(&p);
    if (s.kind == WFI_INDEX_ADD_ROWS) {
        *scratch += round64((size_t)(p.size + 1) * 8) + round64((size_t)p.nplaces * 8);
    }
    memcpy(out, &p, sizeof p);
    return NULL;
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    char *args[4];
    char *workers;
    int64_t *start, *order; /* add_rows: places order[start[r]] .. order[start[r + 1] - 1] name row r */
    wfi_fault *fault;
    int64_t items, per;
} job;

WFI_INLINE int64_t index_at(const params *p, const char *at)
{
    int64_t v;
    int32_t w;
    if (p->index_type == WF_I64) {
        memcpy(&v, at, 8);
        return v;
    }
    memcpy(&w, at, 4);
    return w;
}

/* False, and a fault, if v is out of range; place: its row-major number. */
WFI_INLINE bool good(const job *j, int64_t v, int64_t place)
{
    if ((uint64_t)v < (uint64_t)j->p->size) {
        return true;
    }
    wfi_fault_index(j->fault, v, place, j->p->size);
    return false;
}

WFI_INLINE void copy_one(char *y, const char *x, int64_t es)
{
    switch (es) {
    case 8: memcpy(y, x, 8); break;
    case 4: memcpy(y, x, 4); break;
    case 2: memcpy(y, x, 2); break;
    default: *y = *x; break;
    }
}

/* One row, element by element; x NULL: zeros. */
static void copy_row(const params *p, char *y, const char *x)
{
    static const char zero[8] = { 0 };
    cursor c;
    nest_at(&p->inner, 0, &c);
    for (int64_t i = 0; i < p->ninner; i++) {
        copy_one(y + c.off[0], x ? x + c.off[1] : zero, p->es);
        nest_next(&p->inner, &c, 1);
    }
}

static void rows_chunk(void *arg, int64_t number, int worker)
{
    (void)worker;
    const job *j = arg;
    const params *p = j->p;
    int64_t i = number * j->per, end = least(j->items, i + j->per);
    size_t bytes = (size_t)(p->ninner * p->es);
    cursor c;
    nest_at(&p->places, i, &c);
    for (; i < end; i++) {
        int64_t v = index_at(p, j->args[2] + c.off[2]);
        bool ok = good(j, v, i);
        const char *x = ok ? j->args[1] + v * p->step[1] : NULL;
        char *y = j->args[0] + c.off[0];
        if (!p->lined) {
            copy_row(p, y, x);
        } else if (ok) {
            memcpy(y, x, bytes);
        } else {
            memset(y, 0, bytes);
        }
        nest_next(&p->places, &c, 1);
    }
}

/* The row-major number of index k in line number l. */
static int64_t place_of(const params *p, int64_t l, int64_t k)
{
    return (l / p->after * p->along + k) * p->after + l % p->after;
}

static void take_chunk(void *arg, int64_t number, int worker)
{
    (void)worker;
    static const char zero[8] = { 0 };
    const job *j = arg;
    const params *p = j->p;
    int64_t l = number * j->per, end = least(j->items, l + j->per);
    cursor c;
    nest_at(&p->places, l, &c);
    for (; l < end; l++) {
        char *y = j->args[0] + c.off[0];
        const char *x = j->args[1] + c.off[1], *index = j->args[2] + c.off[2];
        for (int64_t k = 0; k < p->along; k++, y += p->step[0], index += p->step[2]) {
            int64_t v = index_at(p, index);
            copy_one(y, good(j, v, place_of(p, l, k)) ? x + v * p->step[1] : zero, p->es);
        }
        nest_next(&p->places, &c, 1);
    }
}

static void add_line(compute as, void *sum, const void *x, int64_t n)
{
    if (as == AS_F32) {
        float *restrict s = sum;
        const float *restrict a = x;
        for (int64_t i = 0; i < n; i++) {
            s[i] += a[i];
        }
    } else if (as == AS_F64) {
        double *restrict s = sum;
        const double *restrict a = x;
        for (int64_t i = 0; i < n; i++) {
            s[i] += a[i];
        }
    } else {
        uint64_t *restrict s = sum;
        const uint64_t *restrict a = x;
        for (int64_t i = 0; i < n; i++) {
            s[i] += a[i];
        }
    }
}

static void taken_chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    char *sum = j->workers + (size_t)worker * worker_bytes(p);
    int64_t l = number * j->per, end = least(j->items, l + j->per), es = p->as == AS_F32 ? 4 : 8;
    cursor c;
    nest_at(&p->places, l, &c);
    for (; l < end; l++) {
        const char *x = j->args[2] + c.off[2], *index = j->args[3] + c.off[3];
        memset(sum, 0, (size_t)(p->size * es));
        if (j->args[1]) {
            load_line(p->as, sum, j->args[1] + c.off[1], p->type, p->size, p->step[1]);
        }
        for (int64_t k = 0; k < p->along; k++, x += p->step[2], index += p->step[3]) {
            int64_t v = index_at(p, index), one;
            if (good(j, v, place_of(p, l, k))) {
                load_line(p->as, &one, x, p->type, 1, 0);
                add_line(p->as, sum + v * es, &one, 1);
            }
        }
        store_line(p->as, j->args[0] + c.off[0], sum, p->type, p->size, p->step[0]);
        nest_next(&p->places, &c, 1);
    }
}

/* Sorts places by the row that they name, each row's in ascending order. */
static void sort_places(job *j)
{
    const params *p = j->p;
    memset(j->start, 0, (size_t)(p->size + 1) * sizeof j->start[0]);
    for (int turn = 0; turn < 2; turn++) {
        cursor c;
        nest_at(&p->places, 0, &c);
        for (int64_t i = 0; i < p->nplaces; i++) {
            int64_t v = index_at(p, j->args[3] + c.off[3]);
            if (turn == 0 && good(j, v, i)) {
                j->start[v]++;
            } else if (turn == 1 && (uint64_t)v < (uint64_t)p->size) {
                j->order[j->start[v]++] = i;
            }
            nest_next(&p->places, &c, 1);
        }
        int64_t at = 0; /* turn 0: counts to starts; turn 1: ends to starts */
        for (int64_t r = 0; r <= p->size; r++) {
            int64_t n = j->start[r];
            j->start[r] = at;
            at = turn == 0 ? at + (r < p->size ? n : 0) : n;
        }
    }
}

/* Elements c .. c + n - 1 of a row: base or 0, then the row's places in order. */
static void make_piece(const job *j, char *sum, char *line, int64_t row, const cursor *in, int64_t n)
{
    const params *p = j->p;
    int64_t es = p->as == AS_F32 ? 4 : 8, step = nest_step(&p->inner, 2);
    if (j->args[1]) {
        load_line(p->as, sum, j->args[1] + row * p->step[1] + in->off[1], p->type, n, nest_step(&p->inner, 1));
    } else {
        memset(sum, 0, (size_t)(n * es));
    }
    for (int64_t i = j->start[row]; i < j->start[row + 1]; i++) {
        cursor c;
        nest_at(&p->places, j->order[i], &c);
        const char *x = j->args[2] + c.off[2] + in->off[2];
        if (is_native(p->type) && (step == es || n == 1)) {
            add_line(p->as, sum, x, n);
        } else {
            load_line(p->as, line, x, p->type, n, step);
            add_line(p->as, sum, line, n);
        }
    }
    store_line(p->as, j->args[0] + row * p->step[0] + in->off[0], sum, p->type, n, nest_step(&p->inner, 0));
}

static void add_rows_chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    char *sum = j->workers + (size_t)worker * worker_bytes(p), *line = sum + PIECE * 8;
    int64_t end = least(j->items, (number + 1) * j->per);
    for (int64_t row = number * j->per; row < end; row++) {
        cursor in;
        nest_at(&p->inner, 0, &in);
        for (int64_t i = 0; i < p->ninner;) {
            int64_t n = least(PIECE, nest_left(&p->inner, &in));
            make_piece(j, sum, line, row, &in, n);
            nest_next(&p->inner, &in, n);
            i += n;
        }
    }
}

static void one_hot_chunk(void *arg, int64_t number, int worker)
{
    (void)worker;
    static const char zero[8] = { 0 };
    const job *j = arg;
    const params *p = j->p;
    char one[8];
    float f = 1;
    double d = 1;
    int64_t n = 1, i = number * j->per, end = least(j->items, i + j->per);
    store_line(p->as, one, p->as == AS_F32 ? (const void *)&f : p->as == AS_F64 ? (const void *)&d : &n, p->type, 1, 0);
    cursor c;
    nest_at(&p->places, i, &c);
    for (; i < end; i++) {
        int64_t v = index_at(p, j->args[1] + c.off[1]);
        char *y = j->args[0] + c.off[0];
        if (p->step[0] == p->es) {
            memset(y, 0, (size_t)(p->size * p->es));
        } else {
            for (int64_t k = 0; k < p->size; k++) {
                copy_one(y + k * p->step[0], zero, p->es);
            }
        }
        if (good(j, v, i)) {
            copy_one(y + v * p->step[0], one, p->es);
        }
        nest_next(&p->places, &c, 1);
    }
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    static wfi_chunk_fn *const fn[WFI_INDEX_COUNT] = { rows_chunk, add_rows_chunk, take_chunk, taken_chunk,
                                                       one_hot_chunk };
    job j = { .p = p, .workers = r->scratch, .fault = r->fault, .items = p->nplaces };
    int64_t each[WFI_INDEX_COUNT] = { p->ninner, p->ninner, p->along, p->along + p->size, p->size };
    for (int i = 0; slots[p->kind][i]; i++) {
        j.args[i] = args[i];
    }
    if (p->kind == WFI_INDEX_ADD_ROWS) {
        j.start = (int64_t *)(void *)(j.workers + (size_t)p->threads * worker_bytes(p));
        j.order = j.start + round64((size_t)(p->size + 1) * 8) / 8;
        j.items = p->size;
        sort_places(&j);
    }
    j.per = items_a_chunk(j.items, each[p->kind], p->threads);
    wfi_pool_run(pool_for(r, p->threads), (j.items + j.per - 1) / j.per, fn[p->kind], &j);
}

extern const wfi_index_kernels WFI_K(wfi_index);
const wfi_index_kernels WFI_K(wfi_index) = { prepare, run };
