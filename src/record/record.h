/* record.h - the inside of a context: where a call enters.
 *
 * A step is a linear array of 32-byte records: operators, and every event that can change a plan (values of variables,
 * leaves, assignments, scopes, returns, reads, composites). In lazy mode a builder compares its call with the record
 * that the predicted trace has next; while they are equal the call stores its site and hands out the handle of that
 * ordinal, nothing else. At the first difference the step takes an exact side exit to another trace, or copies the
 * prefix and records. In eager mode the call runs at once and the same records are its tape.
 *
 *   emit.h, emit.c   a call: compare, leave, record, infer        step.c     scopes, steps, returns
 *   eager.c          a call that runs at once: bind, run, tape    memory.c   buffers, handles
 *   trace.c          learnt traces, side exits, eviction          run.c      records run one by one
 *   bound.c          operator + layouts -> kernel + parameters    tensor.c   leaves, reads, variables
 *   composite.c      one event and a body that a known trace skips   error.c   the pending error
 *   again.c          calls of several records, handed out at once    autocast.c   casts that a scope asks for
 */
#ifndef WFI_RECORD_RECORD_H
#define WFI_RECORD_RECORD_H
#include <stdarg.h>
#include "base/log.h"
#include "base/mem.h"
#include "device/device.h"
#include "graph/flow.h"
#include "ops/op.h"
#include "weft/weft.h"

#define WFI_LIKELY(x)   __builtin_expect(!!(x), 1)
#define WFI_UNLIKELY(x) __builtin_expect(!!(x), 0)

#define WFI_NONE        0xffffffu /* no operand; also the largest number of records in a step */
#define WFI_TAG_STEP    (~(uint64_t)WFI_NONE)
#define WFI_SCOPE_MAX   256
#define WFI_BUF_CLASSES 128
#define WFI_SITE_MAX    64   /* one call site may be open so often */
#define WFI_KNOWN_CALLS 256  /* calls of several records that are remembered */
#define WFI_NEAR_CALLS  2048 /* calls of an eager step that are remembered; more than there are operators */

/* Events. They share the number space of operators, above it. */
enum {
    WFI_EV_FLOW = WFI_NODE_FLOW, /* runs as operators do; payload: attribute wfi_flow */
    WFI_EV_VALUE = 0x8000,       /* payload: variable; in[0]: the record it was assigned from in this step, or NONE */
    WFI_EV_INPUT,                /* a leaf; payload: layout */
    WFI_EV_SCALAR,               /* a host number; payload: type of rank 0 */
    WFI_EV_HOST,                 /* host numbers of a composite: f64[n]; payload: type */
    WFI_EV_CONST,                /* payload: attribute {dtype, value} */
    WFI_EV_ARG,                  /* three more operands of the operator record that follows */
    WFI_EV_PART,                 /* result number `payload` of record in[0] */
    WFI_EV_ASSIGN,               /* payload: variable; in[0] */
    WFI_EV_RETURN,               /* in[0] outlives the step; payload: and so many scopes around it */
    WFI_EV_RETAIN,
    WFI_EV_READ, /* what in[0] needs was computed here */
    WFI_EV_BEGIN,
    WFI_EV_END,
    WFI_EV_GRAD, /* composites */
    WFI_EV_OPTIM,
    WFI_EV_AUTOCAST, /* payload: the 16-bit type that calls are cast to from here on, 0: none */
    WFI_EV_CONTRACT, /* payload: the contract from here on */
    WFI_EV_OUT,      /* in[0] is a result of the composite around */
    WFI_EV_STEP      /* the end */
};

/* key = operator or event : 16 | payload (attribute id, variable, type) : 32 | operands : 15 | no history : 1 */
#define WFI_KEY(op, payload, nin) ((uint64_t)(op) | (uint64_t)(payload) << 16 | (uint64_t)(nin) << 48)
#define WFI_KEY_OP(key)           ((uint32_t)((key)&0xffff))
#define WFI_KEY_PAYLOAD(key)      ((uint32_t)((key) >> 16))
#define WFI_KEY_NIN(key)          ((uint32_t)((key) >> 48 & 0x7fff))
#define WFI_KEY_NOGRAD            ((uint64_t)1 << 63)

typedef struct wfi_rec {
    uint64_t key;
    uint32_t in[3]; /* ordinals in this step; WFI_NONE: none. Operands beyond three stand in ARG records before */
    uint32_t type;  /* of the result, 0 if there is none */
    uint32_t skip;  /* composites: the record behind the body; operators of a gradient: the record whose gradient it is,
                     * + 1; 0: not known, or neither */
    uint32_t owner; /* the composite that this record belongs to, WFI_NONE: the program */
} wfi_rec;

/* Does a record compute something? */
static inline bool wfi_rec_runs(uint32_t op)
{
    return op < WFI_OP_COUNT || op == WFI_EV_FLOW;
}
/* How many results it has: the first is the record's own, the others are PART records behind it. */
static inline uint32_t wfi_rec_nout(const wfi_ids *ids, uint64_t key)
{
    const uint32_t op = WFI_KEY_OP(key);
    return op < WFI_OP_COUNT ? wfi_op_table[op].nout : wfi_flow_nout(wfi_attr_data(ids, WFI_KEY_PAYLOAD(key)));
}

/* A counted buffer. One context owns it, except for the memory of frozen weights. */
typedef struct wfi_buf {
    uint32_t refs;
    uint32_t cls; /* free list */
    struct wfi_buf *next;
    void *data;
    size_t bytes;
    void *keep; /* a frozen model that owns data, or NULL */
} wfi_buf;

#define WFI_BUF_BORROWED(b) ((b)->keep == (void *)(b)) /* data is the caller's; the header is a small buffer */

enum { WFI_H_RETURNED = 1, WFI_H_WEAK = 2, WFI_H_BORROWED = 4, WFI_H_DEAD = 8, WFI_H_HELD = 16 };

/* A handle: 64 bytes. tag = step : 40 | ordinal : 24; steps are unique over all contexts, so one compare proves
 * context, step and operand. */
struct wf_tensor {
    wf_ctx *ctx;
    uint64_t tag;
    const char *site;
    wfi_buf *buf; /* NULL: not computed */
    union {
        uint64_t imm; /* SCALAR: the number's bits; weak: a double */
        double weak;
        wf_tensor *next; /* in the free list */
        uint64_t hash;   /* borrowed: of the memory, in debug builds */
    } u;
    uint32_t type, layout;
    uint32_t refs;
    uint32_t own; /* place in the list of its scope, WFI_NONE */
    uint16_t op;  /* what made it, for messages */
    uint16_t flags;
    uint32_t spare; /* lazy: how often it was released in this step; eager: returned to the scope around this depth */
};

struct wf_var {
    wf_ctx *ctx;
    char *name;
    const char *site;
    wfi_buf *buf;
    uint64_t cur;        /* tag of the record assigned in this step */
    uint64_t val;        /* tag of the last VALUE record ... */
    uint32_t val_serial; /* ... valid while the context's is the same */
    uint32_t id, type;
    uint64_t version;     /* another number whenever its contents change */
    uint32_t mark;        /* of the sweep that wants its gradient ... */
    uint32_t slot;        /* ... and where it goes */
    wfi_buf *low;         /* eager: its contents cast to 16 bits (autocast.c), or NULL ... */
    uint64_t low_version; /* ... of this version */
    uint32_t low_type;
    bool trainable;
};

typedef struct wfi_bound_out { /* a result */
    uint32_t type, layout;
    uint32_t cls;     /* free list of its buffer */
    uint32_t inplace; /* bit i: may take the buffer of operand i */
    size_t bytes;
} wfi_bound_out;

/* How an operator is done for certain layouts: found once, used by every mode. */
typedef struct wfi_bound {
    struct wfi_bound *next;
    uint64_t key;
    wfi_kernel_fn *fn, *list; /* list: several such nodes at once, or NULL */
    const void *params;
    size_t scratch;
    uint32_t nin, nout;
    int32_t alias; /* the result is a view of this operand; -1 */
    struct wfi_bound_out *out;
    const void *attr;
    const int64_t *in_offset; /* [nin] bytes from operand i's buffer to its first element */
    bool faults, lower;       /* lower: a composite that this device takes apart */
    const char *impl, *order;
    const _Atomic(const char *) *how; /* as in wfi_bind */
    wfi_keep keep;
    uint32_t in[]; /* layouts of the operands, 0: not given */
} wfi_bound;

/* Types only: what recording needs. */
typedef struct wfi_infer {
    struct wfi_infer *next;
    uint64_t key;
    uint32_t nin, nout;
    uint32_t type[WFI_BIND_OUT];
    bool lower;
    uint32_t in[];
} wfi_infer;

typedef struct wfi_live { /* host numbers inside a composite */
    uint32_t slot;        /* record */
    uint32_t at, n;       /* in the composite's list of numbers */
} wfi_live;

typedef struct wfi_plan wfi_plan;

typedef struct wfi_trace {
    uint32_t id, fork, n, nlive;
    struct wfi_trace *parent, *succ; /* parent: the trace that it left at record `fork` */
    struct wfi_trace *newer, *older; /* by last use */
    wfi_rec *rec;
    wfi_live *live;
    wfi_plan *plan;
    uint64_t hash[2]; /* of the contents: the same in every process */
    uint32_t children, seen;
    size_t bytes;
    uint32_t *leaf; /* records that are INPUTs: whose handles hold a buffer */
    uint32_t nleaf;
    bool reads; /* holds a READ: runs record by record */
    bool keeps; /* holds a RETURN or RETAIN */
} wfi_trace;

typedef struct wfi_known { /* a call of several records on a known trace (again.h) */
    const char *what, *name;
    int64_t args[2];
    uint64_t keybits;
    uint32_t name_n, trace, from, to; /* records [from, to) of that trace */
    uint32_t in[2], out[2];           /* ordinals */
} wfi_known;

typedef struct wfi_frame {
    const char *name, *site;
    uint32_t serial, own0;
    bool group, no_grad;
    wf_dtype around;      /* what was cast outside of it */
    wf_contract contract; /* outside of it */
} wfi_frame;

/* What a step in the making is. A capture puts the open one aside and begins its own. */
typedef struct wfi_steprec {
    const wfi_rec *cursor; /* the fast path's line: what the predicted trace has next ... */
    uint64_t stag;         /* step << 24 */
    wf_tensor **H;         /* handle of each ordinal */
    const wfi_rec *base;   /* the trace's records, or scratch */
    wfi_trace *tr;         /* NULL: recording */
    wfi_rec *scratch;
    size_t cap; /* of H and scratch */
    size_t cap_rec;
    uint32_t n;      /* records in scratch */
    uint32_t done;   /* > 0: a read has flushed */
    uint32_t owner;  /* composite that is open */
    wfi_trace *from; /* the trace that was left ... */
    uint32_t at;     /* ... at this record */
    wfi_live *live;
    size_t nlive, cap_live;
    double (*host)[8]; /* numbers of live[i] */
    size_t cap_host;
    bool recording_only;  /* a capture: nothing runs */
    wf_dtype autocast;    /* what the AUTOCAST records so far say */
    wf_contract contract; /* the same of CONTRACT records */
} wfi_steprec;

struct wf_runtime {
    wfi_mem mem;
    wfi_device *device;
    _Atomic uint64_t step;    /* tags differ between contexts, which take numbers by the block */
    const volatile int *ours; /* a page that a forked child finds wiped: 0 there. NULL: ask for the process id */
    size_t page;
    _Atomic uint32_t refs;
    int threads;
    _Atomic int roofs_known; /* 0: nobody asked, 1: being measured, 2: they stand */
    wfi_roofs roofs;
};

struct wf_ctx {
    wfi_steprec r;
    wfi_steprec captured;       /* eager mode: the steps of captured calls; their handles stay from call to call */
    struct wfi_recording *body; /* the innermost control-flow body that is being recorded (flow_rec.h), or NULL */
    bool run_now;               /* eager mode, or outside a step */
    bool in_step, notape, in_child_check;
    wf_mode mode;
    uint64_t keybits; /* WFI_KEY_NOGRAD inside a no_grad scope */
    wf_runtime *rt;
    wfi_mem *mem;
    wfi_ids ids;
    wfi_queue *queue;
    uint64_t seed;
    size_t budget; /* bytes of a plan's arena that are asked for; 0: none */
    int32_t pid;
    wf_contract contract;
    bool split;              /* products of f32 may be made of parts (WF_F32_BF16X3) */
    wf_dtype autocast;       /* the 16-bit type that calls are cast to, WF_DTYPE_NONE: none */
    uint64_t step, step_end; /* numbers of steps that this context may still use: step + 1 .. step_end */
    uint32_t vserial;        /* remembered VALUE records are valid while this is the same */
    uint64_t salt;           /* randomness: of the scope path and ordinal */
    /* errors */
    wf_status status;
    bool error_read;
    char error[2048];
    _Atomic int interrupted;
    uint32_t error_n; /* records that stand before the error */
    /* handles and buffers */
    wf_tensor *hfree;
    void **hchunk;
    size_t nhchunk, cap_hchunk;
    wfi_buf *free_buf[WFI_BUF_CLASSES];
    size_t free_bytes;
    wf_tensor **own;
    size_t nown, cap_own;
    wfi_frame frame[WFI_SCOPE_MAX];
    uint32_t depth, step_depth, serial;
    /* variables */
    wf_var **var;
    size_t nvar, cap_var;
    /* inference and binding */
    wfi_arena bound_data;
    void *bind_params; /* WFI_BIND_PARAMS bytes: where a device writes what it decides */
    wfi_bound **bound;
    wfi_infer **infer;
    uint32_t bound_mask, nbound, infer_mask, ninfer;
    const wfi_bound *near[WFI_NEAR_CALLS];   /* eager: what the calls of a step were bound to, last time */
    uint32_t call;                           /* eager: calls of this step so far */
    const wfi_infer *inferred[WFI_OP_COUNT]; /* recording: which types small operators had, last time */
    /* traces */
    wfi_trace **exit_tab;
    uint32_t exit_mask, ntrace, next_trace;
    wfi_trace *last, *newest, *oldest;
    size_t trace_bytes;
    wfi_known known[WFI_KNOWN_CALLS];
    /* plans */
    void *arena;
    size_t arena_cap;
    wfi_plan *last_plan;
    wfi_log log;
    bool profile;                     /* commands are timed */
    const struct wfi_pass *more_pass; /* tests: runs behind the other passes */
    char *explain;
    wf_tensor **adj; /* the reverse sweep's */
    size_t cap_adj;
    wf_tensor **kept; /* handles that outlive the step that ends */
    size_t nkept, cap_kept;
    uint32_t *mark; /* scratch of passes over a step's records */
    size_t cap_mark;
    uint32_t sweep;
    uint32_t scalar[WF_DTYPE_COUNT]; /* types of rank 0, 0: not asked for yet */
    struct wfi_flow_back *back;      /* gradients of functions that were asked for (grad/flow_grad.c) */
    struct wfi_flow_prog *prog;      /* functions as they were planned (exec/flow_run.c) */
    void *extra[4]; /* lists of what belongs to the context: models, optimisers, data, captures (drop on close) */
    struct wfi_owned *owned;
    wf_stats st;
};

extern const wfi_rec wfi_record_sentinel; /* matches no call */

/* Something that dies with the context. */
typedef struct wfi_owned {
    struct wfi_owned *next;
    void (*drop)(struct wfi_owned *self);
    int order; /* lower numbers go first */
} wfi_owned;
void wfi_ctx_own(wf_ctx *c, wfi_owned *o);
void wfi_ctx_disown(wf_ctx *c, wfi_owned *o);

/* ---- error.c ---- */
/* Keeps the first error; false if one is pending already. format: one line, without the operator's name ("" for none);
 * site: the user's line. */
bool wfi_error_set(wf_ctx *c, wf_status status, const char *op, const char *site, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Adds a line: "  a: result of flatten, train.c:38". */
void wfi_error_add(wf_ctx *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Describes operands of a failed call. */
void wfi_error_operands(wf_ctx *c, const wfi_op_info *op, int32_t nin, wf_tensor *const *in);
wf_status wfi_error_memory(wf_ctx *c, const char *what, const char *site);
/* What made t, for messages: "result of relu" */
const char *wfi_error_maker(wf_ctx *c, const wf_tensor *t, char *text, size_t bytes);

/* ---- memory.c: buffers and handles ---- */
wfi_buf *wfi_buf_new(wf_ctx *c, size_t bytes); /* refs 1; NULL and a pending error: out of memory */
uint32_t wfi_buf_class(size_t bytes);          /* its free list */
void wfi_buf_drop(wf_ctx *c, wfi_buf *b);      /* refs are 0 */
void wfi_buf_trim(wf_ctx *c);                  /* gives unused buffers back to the allocator */
static inline void wfi_buf_unref(wf_ctx *c, wfi_buf *b)
{
    if (b && --b->refs == 0)
        wfi_buf_drop(c, b);
}
/* As wfi_buf_new, where the class is known. */
static inline wfi_buf *wfi_buf_take(wf_ctx *c, uint32_t cls, size_t bytes)
{
#ifndef WEFT_DEBUG
    wfi_buf *b = cls < WFI_BUF_CLASSES ? c->free_buf[cls] : NULL;
    if (WFI_LIKELY(b != NULL)) {
        c->free_buf[cls] = b->next;
        c->free_bytes -= b->bytes;
        b->refs = 1;
        return b;
    }
#endif
    (void)cls;
    return wfi_buf_new(c, bytes);
}
wf_tensor *wfi_handle_more(wf_ctx *c);
static inline wf_tensor *wfi_handle_new(wf_ctx *c)
{
    wf_tensor *h = c->hfree;
    if (WFI_UNLIKELY(!h) && !(h = wfi_handle_more(c)))
        return NULL;
    c->hfree = h->u.next;
    h->buf = NULL;
    h->tag = WFI_NONE;
    h->refs = 1;
    h->own = WFI_NONE;
    h->flags = 0;
    h->layout = 0;
    return h;
}
void wfi_handle_drop(wf_ctx *c, wf_tensor *h); /* refs are 0 */
static inline void wfi_handle_unref(wf_ctx *c, wf_tensor *h)
{
    if (h && --h->refs == 0)
        wfi_handle_drop(c, h);
}
bool wfi_handle_own_more(wf_ctx *c, wf_tensor *h);
static inline bool wfi_handle_own(wf_ctx *c, wf_tensor *h) /* by the innermost scope */
{
    if (WFI_UNLIKELY(c->nown == c->cap_own))
        return wfi_handle_own_more(c, h);
    h->own = (uint32_t)c->nown;
    c->own[c->nown++] = h;
    return true;
}

/* ---- bound.c ---- */
/* How `key` is done for these layouts; NULL and a pending error if it cannot be. */
const wfi_bound *wfi_bound_get(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *layout, const char *site,
                               wf_tensor *const *in);
const wfi_infer *wfi_infer_get(wf_ctx *c, uint64_t key, uint32_t nin, const uint32_t *type, const char *site,
                               wf_tensor *const *in);

/* ---- emit.c ---- */
bool wfi_steprec_grow(wf_ctx *c, size_t need);
/* Compares with the prediction, leaves it, or records. type: of the result, 0: none or to be taken from the prediction.
 */
wf_tensor *wfi_emit_record(wf_ctx *c, uint64_t key, uint32_t a, uint32_t b, uint32_t d, uint32_t type,
                           const char *site);
/* The ordinal of t in this step; leaves are taken in. WFI_NONE and a pending error on failure. */
uint32_t wfi_emit_bind(wf_ctx *c, wf_tensor *t, wf_dtype weak, const char *site);
uint32_t wfi_tensor_type(const wf_tensor *t); /* also before it is computed */
static inline bool wfi_in_step(const wf_ctx *c, const wf_tensor *t)
{
    return (t->tag & WFI_TAG_STEP) == c->r.stag;
}
/* ---- flow_rec.c: bodies that are being recorded ---- */
/* The record of t in a step around the body; NULL: it is in none. */
const wfi_rec *wfi_flow_outer(const wf_ctx *c, const wf_tensor *t);
/* t, of a step around or computed, becomes an input of the body: its record. WFI_NONE and a pending error. */
uint32_t wfi_flow_lift(wf_ctx *c, wf_tensor *t, const char *site);

/* A handle whose scope has ended. */
static inline bool wfi_stale(const wf_ctx *c, const wf_tensor *t)
{
    return (t->flags & WFI_H_DEAD) || (!t->layout && !(t->flags & WFI_H_WEAK) &&
                                       (c->run_now || (!wfi_in_step(c, t) && !(c->body && wfi_flow_outer(c, t)))));
}
/* Appends to the tape of an eager step. */
wf_tensor *wfi_emit_track(wf_ctx *c, wf_tensor *h, uint64_t key, const uint32_t in[3]);
wf_tensor *wfi_emit_const(wf_ctx *c, wf_dtype dtype, double value, const char *site);
/* A new leaf with a buffer of its own (not cleared), owned by the scope; lazy: an INPUT of the step. */
wf_tensor *wfi_emit_leaf(wf_ctx *c, uint32_t type, wfi_buf *buf, uint32_t layout, const char *site);

/* ---- trace.c ---- */
wfi_trace *wfi_trace_exit(wf_ctx *c, uint32_t k, const wfi_rec *want);
void wfi_trace_leave(wf_ctx *c, uint32_t k); /* the prefix becomes our own recording */
wfi_trace *wfi_trace_learn(wf_ctx *c);       /* NULL: no memory; the step still runs */
void wfi_trace_used(wf_ctx *c, wfi_trace *t);
void wfi_trace_free_all(wf_ctx *c);

/* ---- run.c ---- */
/* Runs what record `want` needs (WFI_NONE: only assignments) among 0 .. n-1, and all assignments. last: nothing is
 * kept that no handle outlives. */
wf_status wfi_run_records(wf_ctx *c, uint32_t n, uint32_t want, bool last);
wf_status wfi_run_bound(wf_ctx *c, const wfi_bound *b, void **args, const char *site, uint32_t op);
void wfi_run_fault(wf_ctx *c, uint32_t op, const char *site);
uint32_t wfi_run_operands(const wfi_rec *base, uint32_t i, uint32_t *in);          /* in[WFI_BIND_IN]; how many */
wf_status wfi_run_copy(wf_ctx *c, const wf_tensor *t, void *to, const char *site); /* row-major */
wf_status wfi_run_assign(wf_ctx *c, wf_var *v, const wf_tensor *t);                /* now */
/* A pointer to logical element 0. */
static inline void *wfi_tensor_at(const wf_ctx *c, const wfi_buf *buf, uint32_t layout)
{
    return (char *)buf->data + wfi_layout_at(&c->ids, layout)->start;
}

/* ---- composite.c ---- */
typedef struct wfi_composite {
    uint32_t at;       /* its record */
    uint32_t owner;    /* the one around */
    wf_dtype autocast; /* what was cast around */
    bool open, known;  /* known: the body is skipped */
} wfi_composite;
/* Begins a library composite. numbers: host scalars of the body. If `known`, the body must not be called. */
wfi_composite wfi_composite_begin(wf_ctx *c, uint32_t event, uint32_t payload, uint32_t a, uint32_t b,
                                  const double *numbers, const char *site);
/* host numbers [at, at + n) of the composite as a f64[n] tensor */
wf_tensor *wfi_composite_host(wf_ctx *c, const double *numbers, uint32_t at, uint32_t n, const char *site);
void wfi_composite_out(wf_ctx *c, wf_tensor *t, const char *site);
/* Results of a skipped composite, in order; returns how many there are. */
uint32_t wfi_composite_outs(wf_ctx *c, const wfi_composite *k, uint32_t n, wf_tensor **out);
wf_status wfi_composite_end(wf_ctx *c, wfi_composite *k);

/* Is there a trace to be told of what holds for the calls to come? */
static inline bool wfi_step_tells(const wf_ctx *c)
{
    return c->in_step && !c->run_now && !c->r.recording_only && c->status == WF_OK;
}
void wfi_contract_note(wf_ctx *c); /* ctx.c: tells the trace of the contract, if it does not know */

/* ---- autocast.c ---- */
bool wfi_autocast_allows(wf_dtype dtype); /* as an option */
/* What is cast in a scope with this option: none as around it, f32 nothing. */
wf_dtype wfi_autocast_of(wf_dtype asked, wf_dtype around);
wf_dtype wfi_autocast_set(wf_ctx *c, wf_dtype dtype); /* from here on; what was before */
void wfi_autocast_note(wf_ctx *c);                    /* tells the trace, if it does not know */
void wfi_autocast_forget(wf_var *v);                  /* lets the copy of its contents go */
/* made[nin]: the operands, those cast that the operator's policy says. False: an error. */
bool wfi_autocast(wf_ctx *c, wfi_op op, uint32_t nin, wf_tensor *const *in, wf_tensor **made, const char *site);
static inline bool wfi_autocasts(const wf_ctx *c, wfi_op op)
{
    return WFI_UNLIKELY(c->autocast) && wfi_op_table[op].autocast;
}

/* ---- step.c ---- */
void wfi_step_tag(wf_ctx *c); /* a number that no step had yet */
void wfi_step_start(wf_ctx *c);
bool wfi_step_check(wf_ctx *c); /* fork, interrupt */

/* ---- tensor.c ---- */
uint64_t wfi_tensor_hash(wf_ctx *c, const wf_tensor *t); /* of the contents */
void wfi_var_pending(wf_ctx *c, uint32_t from, uint32_t to);
/* h is the variable's value for now; inside a composite, whose body may be skipped, and in a body of control flow
 * nothing is remembered. */
static inline void wfi_value_remember(const wf_ctx *c, wf_var *v, const wf_tensor *h)
{
    if (c->r.owner == WFI_NONE && !c->body) {
        v->val = h->tag;
        v->val_serial = c->vserial;
    }
}
wf_var *wfi_var_make(wf_ctx *c, const char *name, uint32_t type, const char *site); /* without contents */
wf_status wfi_tensor_compute(wf_ctx *c, wf_tensor *t, const char *site);            /* t->buf and layout stand */

/* ---- grad/sweep.c ---- */
/* Gradients of record `loss` (one element). out[i] NULL: not reached (vars), zeros (records). */
wf_status wfi_sweep_vars(wf_ctx *c, uint32_t loss, uint32_t n, wf_var *const *var, wf_tensor **out, const char *site);
wf_status wfi_sweep_records(wf_ctx *c, uint32_t loss, uint32_t n, wf_tensor *const *wrt, wf_tensor **out,
                            const char *site);

/* ---- grad/flow_grad.c ---- */
/* Adds the results that the gradient of f reads (f->nres); leaves it as it is where there is none. False: an error. */
bool wfi_flow_extend(wf_ctx *c, wfi_flow *f, const char *site);
/* The reverse rule of a FLOW record. */
void wfi_flow_rule(wf_ctx *c, const wfi_flow *f, const wf_vjp *v);
void wfi_flow_forget(wf_ctx *c); /* frees c->back */
/* From given adjoints gout[i] of records out[i] (NULL: none) those of wrt[n]; begin[i]: what is there already, or NULL.
 * g[i] NULL: not reached. Everything stands in the recording on the side that is open. */
bool wfi_sweep_given(wf_ctx *c, uint32_t nout, wf_tensor *const *out, wf_tensor *const *gout, uint32_t n,
                     wf_tensor *const *wrt, wf_tensor *const *begin, wf_tensor **g, const char *site);

/* ---- exec/flow_run.c ---- */
/* Plans the functions of a FLOW node for these layouts of its operands. False: an error. */
bool wfi_flow_bind(wf_ctx *c, wfi_bound *e, const uint32_t *layout, const char *site);
void wfi_flow_drop(wf_ctx *c); /* frees c->prog */

/* ---- plan and replay (src/plan, src/exec) ---- */
wfi_plan *wfi_plan_new(wf_ctx *c, wfi_trace *t); /* NULL and no error: cannot be planned now; run record by record */
void wfi_plan_free(wf_ctx *c, wfi_plan *p);
/* Lines of what would make the arena of a plan smaller, each with what it saves and costs (plan/remedies.c); while its
 * step runs. */
void wfi_plan_print_remedies(wf_ctx *c, const wfi_plan *p, wfi_text *t);
wf_status wfi_replay(wf_ctx *c, wfi_trace *t);
struct wfi_profile;
void wfi_profile_free(wf_ctx *c, struct wfi_profile *f); /* NULL is accepted */
/* Tells topic `plan` of the log about a plan that goes; when nobody asked, nothing. */
void wfi_explain_last(wf_ctx *c, wfi_plan *p);

#endif
