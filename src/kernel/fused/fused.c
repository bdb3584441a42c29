/* fused.c - the tile machine: places for what ops make for each other, and the walk over tiles. */
#include "kernel/fused/fused.h"
#include <string.h>
#include "kernel/ew/stream.h"
#include "kernel/isa.h"

enum {
    LANES_MAX = WFI_FUSED_OUT + WFI_FUSED_IN,
    L1_BYTES = 16384,    /* that the temporaries of a tile may fill: half of L1 */
    TILE_MAX = 2048,     /* elements */
    TILE_MIN = 128,      /* also: rows shorter than this are brought into tiles */
    SERIAL_COST = 65536, /* elements times ops that one thread does alone */
    NOWHERE = 255
};

typedef struct op {
    wfi_ew_fn *fn;    /* NULL: a cast */
    uint8_t y, in[3]; /* slots */
    uint8_t splat;
    uint8_t to, from; /* types of a cast */
} op;

typedef struct params {
    wfi_walk walk;
    int32_t nout, nop, ntemp, threads;
    int64_t tile, each, serial; /* elements of a tile; bytes of scratch a worker; elements that one thread does alone */
    int64_t room;               /* bytes of a temporary */
    const wfi_code *code;       /* NULL, or: may do all ops at once, ... */
    int64_t span;               /* ... for so many elements */
    bool rows;                  /* every lane moves by one element, or stands still, along a row */
    bool small;                 /* all is one tile */
    bool streams;               /* the results are too large for the caches */
    uint64_t repeats;           /* bit k: lane k is one row again and again: tiles, whole rows long, find it the same */
    uint64_t flat, still; /* bit k: lane k is contiguous in the order of the walk; is one element for all (of a row) */
    uint8_t temp[LANES_MAX]; /* of each lane: where it is brought, or a streamed result made; NOWHERE: in place */
    op op[WFI_FUSED_OPS];
    wfi_lane lane[LANES_MAX]; /* results, then inputs */
} params;
_Static_assert(sizeof(params) <= WFI_FUSED_PARAMS, "params");

/* Slots of a tile's pointers: lanes, then temporaries, of which a lane and an op have one each at most. */
enum { TEMPS_MAX = LANES_MAX + WFI_FUSED_OPS, SLOTS = LANES_MAX + TEMPS_MAX };

/* ---- prepare ---- */

static void classify(params *p)
{
    const wfi_walk *w = &p->walk;
    const int in = w->ndim - 1;
    p->rows = w->ndim == 1 || w->dim[in] >= TILE_MIN;
    for (int k = 0; k < w->lanes; k++) {
        const wfi_lane *lane = &p->lane[k];
        const uint64_t bit = (uint64_t)1 << k;
        bool input = k >= p->nout, single = input && lane->stride[in] == 0 && w->dim[in] > 1;
        bool again = input && lane->stride[in] == lane->bytes && in > 0;
        for (int d = in - 1; d >= 0; d--)
            again = again && lane->stride[d] == 0;
        p->repeats |= again ? bit : 0;
        p->flat |= wfi_lane_flat(w, lane) ? bit : 0;
        p->still |= input && w->n > 1 && wfi_lane_still(w, lane) ? bit : 0;
        p->rows = p->rows && (single || lane->stride[in] == lane->bytes);
    }
    for (int k = p->nout; p->rows && k < w->lanes; k++)
        if (p->lane[k].stride[in] == 0 && w->dim[in] > 1)
            p->still |= (uint64_t)1 << k;
}

/* A place is free again behind the last op that reads it. */
typedef struct places {
    int last[TEMPS_MAX]; /* op that reads each temporary last; -1: free */
    int n;
} places;

static uint8_t take(places *t, int last)
{
    int i = 0;
    while (i < t->n && t->last[i] >= 0)
        i++;
    t->n = i == t->n ? i + 1 : t->n;
    t->last[i] = last;
    return (uint8_t)i;
}

static int last_use(const wfi_fused_spec *s, int slot)
{
    int last = -1;
    for (int q = 0; q < s->nop; q++)
        for (int a = 0; a < s->op[q].arity; a++)
            if (s->op[q].in[a] == slot)
                last = q;
    return last;
}

static int lane_of_result(const wfi_fused_spec *s, int q)
{
    for (int k = 0; k < s->nout; k++)
        if (s->out[k] == q)
            return k;
    return -1;
}

/* Lanes that cannot be used where they lie get a temporary for the whole tile, results between ops one while it is
 * needed. */
static void assign(params *p, const wfi_fused_spec *s)
{
    places t = { .n = 0 };
    uint8_t slot[WFI_FUSED_IN + WFI_FUSED_OPS];
    for (int k = 0; k < p->walk.lanes; k++) {
        bool direct = p->rows || (p->flat | p->still) >> k & 1;
        p->temp[k] = direct && !(p->streams && k < p->nout) ? NOWHERE : take(&t, s->nop);
        if (k >= p->nout)
            slot[k - p->nout] = p->temp[k] == NOWHERE ? (uint8_t)k : (uint8_t)(LANES_MAX + p->temp[k]);
    }
    for (int q = 0; q < s->nop; q++) {
        const wfi_fused_op *o = &s->op[q];
        const int lane = lane_of_result(s, q);
        op *e = &p->op[q];
        e->fn = o->fn;
        e->to = (uint8_t)o->dtype;
        e->from = (uint8_t)(o->in[0] < s->nin ? s->view[s->nout + o->in[0]]->dtype : s->op[o->in[0] - s->nin].dtype);
        for (int a = 0; a < 3; a++) {
            const int from = o->in[a < o->arity ? a : 0];
            e->in[a] = slot[from];
            e->splat |= (uint8_t)(a < o->arity && from < s->nin && p->still >> (p->nout + from) & 1 ? 1u << a : 0u);
        }
        if (lane >= 0)
            slot[s->nin + q] = p->temp[lane] == NOWHERE ? (uint8_t)lane : (uint8_t)(LANES_MAX + p->temp[lane]);
        else
            slot[s->nin + q] = (uint8_t)(LANES_MAX + take(&t, last_use(s, s->nin + q)));
        e->y = slot[s->nin + q];
        for (int i = 0; i < t.n; i++)
            t.last[i] = t.last[i] <= q ? -1 : t.last[i];
    }
    p->ntemp = t.n;
}

static int64_t moved(const params *p)
{
    int64_t bytes = 0;
    for (int k = 0; k < p->walk.lanes; k++)
        bytes += p->still >> k & 1 ? 0 : p->walk.n * p->lane[k].bytes;
    return bytes;
}

static uint64_t lanes_mask(int lanes)
{
    return ((uint64_t)1 << lanes) - 1;
}

static const char *prepare(const wfi_fused_spec *s, void *out, size_t *scratch)
{
    params p = { .nout = s->nout, .nop = s->nop, .threads = s->threads > 1 ? s->threads : 1 };
    int64_t widest = 1;
    if (s->nin > WFI_FUSED_IN || s->nout < 1 || s->nout > WFI_FUSED_OUT || s->nop > WFI_FUSED_OPS)
        return "too many operands or operators";
    for (int k = 0; k < s->nout; k++)
        if (wfi_walk_overlaps(s->view[k]))
            return "a result overlaps itself";
    for (int q = 0; q < s->nop; q++) {
        if (!s->op[q].fn && s->op[q].row != WFI_FUSED_CAST)
            return "a row does not have this type";
        widest = wf_dtype_bytes(s->op[q].dtype) > (size_t)widest ? (int64_t)wf_dtype_bytes(s->op[q].dtype) : widest;
    }
    p.walk = wfi_walk_of(s->view, s->nout + s->nin, p.lane);
    for (int k = 0; k < p.walk.lanes; k++)
        widest = p.lane[k].bytes > widest ? p.lane[k].bytes : widest;
    classify(&p);
    p.streams = p.walk.n * p.lane[0].bytes >= WFI_STREAM_RESULT && moved(&p) >= WFI_STREAM_ALL;
    assign(&p, s);
    p.tile = L1_BYTES / (widest * (p.ntemp + 1)) / 64 * 64;
    p.tile = p.tile > TILE_MAX ? TILE_MAX : p.tile < TILE_MIN ? TILE_MIN : p.tile;
    const int64_t row = p.walk.dim[p.walk.ndim - 1];
    if (row <= p.tile)
        p.tile = p.tile / row * row;
    else
        p.repeats = 0;
    p.room = p.tile * widest;
    p.each = p.ntemp * p.room;
    p.serial = SERIAL_COST / s->nop;
    p.span = p.tile;
    if (p.rows || ((p.flat | p.still) & lanes_mask(p.walk.lanes)) == lanes_mask(p.walk.lanes))
        p.span = INT64_MAX; /* every lane is used where it lies */
    p.small = p.walk.n <= p.tile && (!p.rows || p.walk.ndim == 1);
    memcpy(out, &p, sizeof p);
    *scratch = (size_t)p.each * (size_t)p.threads;
    return NULL;
}

static uint32_t splat(const void *params_)
{
    const params *p = params_;
    return (uint32_t)(p->still >> p->nout);
}

static void attach(void *params_, const wfi_code *code)
{
    ((params *)params_)->code = code;
}

/* ---- run ---- */

typedef struct job {
    const params *p;
    wfi_fused_fn *fn;      /* NULL: row by row */
    char *base[LANES_MAX]; /* where the walk of each lane starts */
    char *scratch;
    int64_t share; /* elements of a chunk */
    bool streams;
} job;

static void cast(const op *o, char *y, const char *x, int64_t n)
{
    char one[8];
    WFI_K(wfi_copy_cast)((wf_dtype)o->to, o->splat ? one : y, (wf_dtype)o->from, x, o->splat ? 1 : n);
    if (o->splat)
        wfi_walk_move(y, (int64_t)wf_dtype_bytes((wf_dtype)o->to), one, 0, n, (int)wf_dtype_bytes((wf_dtype)o->to));
}

static void run_ops(const params *p, char *const *at, int64_t n)
{
    for (const op *o = p->op, *end = o + p->nop; o < end; o++)
        if (!o->fn)
            cast(o, at[o->y], at[o->in[0]], n);
        else
            o->fn(at[o->y], at[o->in[0]], at[o->in[1]], at[o->in[2]], n, o->splat);
}

static void temporaries(const params *p, char *scratch, char **at)
{
    for (int i = 0; i < p->ntemp; i++)
        at[LANES_MAX + i] = scratch + i * p->room;
}

/* Results that were made in a temporary go to their place. */
static void put_results(const job *j, char *const *at, const int64_t *index, int64_t m)
{
    const params *p = j->p;
    for (int k = 0; k < p->nout; k++) {
        const char *made = p->temp[k] == NOWHERE ? NULL : at[LANES_MAX + p->temp[k]];
        if (!made)
            continue;
        if (!at[k])
            wfi_walk_gather(&p->walk, j->base[k], &p->lane[k], at[LANES_MAX + p->temp[k]], index, m, false);
        else if (j->streams && wfi_stream_aligned(at[k]))
            wfi_stream_out(at[k], made, m * p->lane[k].bytes);
        else
            memcpy(at[k], made, (size_t)(m * p->lane[k].bytes));
    }
}

/* A row of `row` bytes again and again. Rows are short, so the copies are loops and not calls. */
static void repeat(char *to, const char *from, int64_t row, int64_t bytes)
{
    int64_t i = 0;
    if (row % 16 == 0)
        for (; i + row <= bytes; i += row)
            for (int64_t k = 0; k < row; k += 16)
                memcpy(to + i + k, from + k, 16);
    for (; i < bytes; i += row)
        memcpy(to + i, from, (size_t)(row < bytes - i ? row : bytes - i));
}

/* Elements of an input that are not together where they lie. */
static void bring(const job *j, int k, char *to, const int64_t *index, int64_t m, bool first)
{
    const params *p = j->p;
    const wfi_lane *lane = &p->lane[k];
    if (!(p->repeats >> k & 1))
        wfi_walk_gather(&p->walk, j->base[k], lane, to, index, m, true);
    else if (first)
        repeat(to, j->base[k], p->walk.dim[p->walk.ndim - 1] * lane->bytes, m * lane->bytes);
}

/* All at once. A lane that is not used where it lies has its temporary. */
static void run_code(const job *j, char *const *at, const int64_t *index, int64_t m)
{
    const params *p = j->p;
    void *place[LANES_MAX];
    bool streams = j->streams;
    for (int k = 0; k < p->walk.lanes; k++)
        place[k] = at[k] ? at[k] : at[LANES_MAX + p->temp[k]];
    for (int k = 0; k < p->nout; k++)
        streams = streams && wfi_stream_aligned(place[k]);
    j->fn(place, m, streams);
    for (int k = 0; k < p->nout; k++)
        if (!at[k])
            wfi_walk_gather(&p->walk, j->base[k], &p->lane[k], place[k], index, m, false);
}

/* m elements of the walk from element lo on, which has this index; within one row where lanes are used as rows. first:
 * in this chunk. */
static void tile(const job *j, char **at, int64_t lo, const int64_t *index, int64_t m, bool first)
{
    const params *p = j->p;
    const wfi_walk *w = &p->walk;
    for (int k = 0; k < w->lanes; k++) {
        if (p->rows)
            at[k] = wfi_walk_address(w, j->base[k], &p->lane[k], index);
        else if ((p->flat | p->still) >> k & 1)
            at[k] = j->base[k] + (p->still >> k & 1 ? 0 : lo * p->lane[k].bytes);
        else {
            at[k] = NULL;
            if (k >= p->nout)
                bring(j, k, at[LANES_MAX + p->temp[k]], index, m, first);
        }
    }
    if (j->fn) {
        run_code(j, at, index, m);
        return;
    }
    run_ops(p, at, m);
    put_results(j, at, index, m);
}

static void chunk(void *arg, int64_t number, int worker)
{
    const job *j = arg;
    const params *p = j->p;
    const wfi_walk *w = &p->walk;
    int64_t lo = number * j->share, hi = lo + j->share < w->n ? lo + j->share : w->n, index[WF_RANK_MAX] = { 0 };
    const int64_t most = j->fn ? p->span : p->tile;
    char *at[SLOTS];
    temporaries(p, j->scratch + worker * p->each, at);
    while (lo < hi) {
        int64_t m = hi - lo < most ? hi - lo : most;
        wfi_walk_locate(w, lo, index);
        if (p->rows && m > w->dim[w->ndim - 1] - index[w->ndim - 1])
            m = w->dim[w->ndim - 1] - index[w->ndim - 1];
        tile(j, at, lo, index, m, lo == number * j->share);
        lo += m;
    }
    if (j->streams)
        wfi_stream_end();
}

static void run(const void *params_, void *const *args, const wfi_run *r)
{
    const params *p = params_;
    const wfi_walk *w = &p->walk;
    if (w->n == 0)
        return;
    job j;
    j.fn = p->code ? atomic_load_explicit(&p->code->fn, memory_order_acquire) : NULL;
    j.p = p, j.scratch = r->scratch, j.share = w->n, j.streams = p->streams;
    for (int k = 0; k < w->lanes; k++)
        j.base[k] = (char *)args[k] + p->lane[k].start;
    if (p->small) { /* what a small step costs is the way here */
        static const int64_t first[WF_RANK_MAX];
        char *at[SLOTS];
        temporaries(p, j.scratch, at);
        tile(&j, at, 0, first, w->n, true);
        return;
    }
    for (int k = 0; k < p->nout; k++) /* in place there is nothing to gain: the line of the result has been read */
        for (int i = p->nout; i < w->lanes; i++)
            j.streams = j.streams && j.base[k] != j.base[i];
    int threads = wfi_pool_threads(r->pool);
    wfi_pool *pool = threads > 1 && threads <= p->threads && w->n > p->serial ? r->pool : NULL;
    if (pool) {
        int64_t share = w->n / (threads * 4);
        j.share = share < p->tile ? p->tile : (share + p->tile - 1) / p->tile * p->tile;
    }
    wfi_pool_run(pool, (w->n + j.share - 1) / j.share, chunk, &j);
}

const wfi_fused_kernels WFI_K(wfi_fused) = { prepare, run, splat, attach };
