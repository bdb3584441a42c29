/* ctx.h - runtimes, contexts, scopes and errors: where a program begins.
 *
 *     wf_ctx *c = wf_ctx_new(NULL);              lazy, all threads, fixed seed
 *     wf_scope s = wf_scope_begin(c, "step");
 *     ... builders ...
 *     wf_scope_end(c, s);                        the step runs here
 *     return wf_ctx_close(c);                    prints an error that nobody read, returns its status
 *
 * A context is used by one thread at a time; contexts of one runtime may be used side by side.
 */
#ifndef WEFT_CTX_H
#define WEFT_CTX_H
#include "weft/types.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct wf_runtime wf_runtime;
typedef struct wf_ctx wf_ctx;
typedef struct wf_tensor wf_tensor;

/* How calls run. The result bits are the same. */
typedef enum wf_mode {
    WF_MODE_DEFAULT = 0, /* WEFT_MODE, else lazy */
    WF_LAZY = 1,         /* a step is recorded, compared with the last one and replayed as one plan */
    WF_EAGER = 2         /* every call runs at once */
} wf_mode;

/* What the arithmetic promises. strict: the same bits in every mode and for any number of threads. */
typedef enum wf_contract { WF_STRICT = 0, WF_FAST = 1 } wf_contract;

/* How products of f32 are summed (docs/numerics.md). Either way the same bits in every mode and for any number of
 * threads. */
typedef enum wf_f32_products {
    WF_F32_DEFAULT = 0, /* WEFT_F32_PRODUCTS (fma or bf16x3), else fma */
    WF_F32_FMA = 1,     /* one ascending chain of fused multiply-adds */
    WF_F32_BF16X3 = 2   /* large ones on the processor's tile unit, if it has one, each number as three bf16: faster,
                         * with smaller errors. Products whose numbers are too large, too small or not finite stay
                         * chains */
} wf_f32_products;

/* ---- runtime: devices, worker threads, memory accounts; shared by contexts ---- */

typedef struct wf_runtime_opts {
    WF_HEAD;
    int32_t threads WF_Z;     /* worker threads, the caller counted; 0: WEFT_THREADS, else the processors we may use */
    size_t memory_limit WF_Z; /* bytes of host memory at most; 0: no limit */
    /* An allocator of the program's own: realloc semantics with the old size, new_bytes 0 frees; 16-byte aligned,
     * thread-safe. NULL: libc's. */
    void *(*alloc)(void *user, void *p, size_t old_bytes, size_t new_bytes)WF_Z;
    void *alloc_user WF_Z;
    bool no_tuning WF_Z; /* records of `weft tune` are not looked at; so is WEFT_TUNE=off */
} wf_runtime_opts;

/* NULL options: all defaults. Returns NULL when memory or threads are not to be had. */
WF_API wf_runtime *wf_runtime_new(const wf_runtime_opts *o);
/* Gives the caller's reference back; contexts hold their own. NULL is accepted. */
WF_API void wf_runtime_free(wf_runtime *rt);

/* ---- context ---- */

/* Gets what the context tells (WEFT_LOG): whole lines of text about a topic, valid during the call. */
typedef void wf_log_fn(void *user, const char *topic, const char *text);

typedef struct wf_ctx_opts {
    WF_HEAD;
    wf_mode mode WF_Z;        /* 0: WEFT_MODE (eager or lazy), else lazy */
    int32_t threads WF_Z;     /* 0: WEFT_THREADS, else the processors we may use; ignored with a runtime */
    uint64_t seed WF_Z;       /* of initial values, shuffling and dropout; 0: WEFT_SEED, else 1 */
    const char *device WF_Z;  /* "cpu"; NULL: the best there is */
    wf_runtime *runtime WF_Z; /* NULL: a private one */
    const char *log WF_Z;     /* topics that are told of, "plan,passes" (docs/environment.md); NULL: WEFT_LOG */
    wf_log_fn *log_fn WF_Z;   /* who is told; NULL: WEFT_LOG_FILE, else standard error */
    void *log_user WF_Z;      /* its first argument */
    bool profile WF_Z;        /* commands of plans are timed; topic plan does so, too */
    /* Bytes that the intermediate values of a step should take at most: plans compute values again rather than keep
     * them, cheapest first, until they fit; what they take and what it costs is told by wf_explain_plan. A step that
     * cannot fit runs as small as it can be made. 0: WEFT_MEMORY_BUDGET (MiB), else only what is next to free. */
    size_t memory_budget WF_Z;
    wf_f32_products f32_products WF_Z;
    /* Arithmetic of scopes that do not say it themselves (wf_scope_opts). 0: WEFT_AUTOCAST (bf16, f16, f32), else f32.
     */
    wf_dtype autocast WF_Z;
} wf_ctx_opts;

/* NULL options: all defaults. Returns NULL when memory is out; a wrong option is a pending error of the context. */
WF_API wf_ctx *wf_ctx_new(const wf_ctx_opts *o);

/* Frees the context and everything that belongs to it. An error that is pending and was never read is written to
 * standard error, the only thing the library prints unasked. Returns the status of the pending error, WF_OK if none:
 * fit for main's return. NULL gives WF_ERR_ARG. */
WF_API int wf_ctx_close(wf_ctx *c);

WF_API int32_t wf_ctx_threads(const wf_ctx *c);
WF_API wf_mode wf_ctx_mode(const wf_ctx *c);
WF_API uint64_t wf_ctx_seed(const wf_ctx *c);

/* The pending error's text, several lines, or NULL. Valid until wf_error_clear or wf_ctx_close. Reading it counts. */
WF_API const char *wf_error(wf_ctx *c);
WF_API wf_status wf_error_status(const wf_ctx *c);
/* Forgets the pending error; the context works again. */
WF_API void wf_error_clear(wf_ctx *c);

/* Asks the context to stop at its next flush: that call and every later one fails with WF_ERR_INTERRUPTED until
 * wf_error_clear. Async-signal-safe and callable from any thread. */
WF_API void wf_interrupt(wf_ctx *c);
/* True once after wf_interrupt, for loops that want to leave before the error arises; then the request is forgotten. */
WF_API bool wf_interrupted(wf_ctx *c);

/* For the calls that follow in the scope that is open, and inner ones. WF_STRICT (the default): the same bits in every
 * mode. WF_FAST: plans may compute what is called here in another way where that is faster; docs/numerics.md has the
 * freedoms and their bounds, wf_explain_plan lists those that were taken. */
WF_API wf_status wf_set_contract(wf_ctx *c, wf_contract contract);

/* Figures of the context so far. */
typedef struct wf_stats {
    uint64_t steps;        /* steps that ended */
    uint64_t replayed;     /* ... of these, by a plan made before */
    uint64_t plans;        /* plans made */
    uint64_t traces;       /* traces kept now */
    uint64_t side_exits;   /* calls at which a step left its predicted trace */
    uint64_t commands;     /* kernels run */
    uint64_t allocations;  /* host allocations of the runtime */
    size_t live_bytes;     /* host memory of the runtime now */
    size_t peak_bytes;     /* ... at most */
    size_t foreseen_bytes; /* ... as foreseen when the last plan was made, before it ran */
    size_t arena_bytes;    /* the last plan's arena ... */
    size_t arena_bound;    /* ... and the least that any order-keeping plan needs */
    uint64_t codes;        /* kernels that plans of the runtime asked the system's compiler for, ... */
    uint64_t compiled;     /* ... that it compiled, ... */
    uint64_t loaded;       /* ... that were on the disk already, ... */
    uint64_t failed;       /* ... and that it could not compile: they run without it, slower */
} wf_stats;
WF_API wf_stats wf_ctx_stats(const wf_ctx *c);

/* Plans run at once on kernels of the library; kernels of their own are compiled in the background and used as soon as
 * they are there, with the same bits. This waits until all that were asked for are there or have failed: for
 * measurements, which would otherwise see both. WEFT_CC names the compiler, and says with nothing that there is none.
 */
WF_API void wf_compile_wait(wf_ctx *c);

typedef struct wf_explain_opts {
    WF_HEAD;
    bool json WF_Z;    /* for programs; nanoseconds, bytes, operations */
    bool buffers WF_Z; /* instead: where every value lies in memory, one line a command */
    /* Instead: what was proved of the plan, to be kept beside its text (.buffers) and proved again by `weft verify`. If
     * the proof fails, which is a fault of Weft, that is a pending error. */
    bool certificate WF_Z;
    const char *scope WF_Z; /* the plan that ran last for a step of this name; NULL: the last of all */
} wf_explain_opts;

/* The last plan that ran: what was run, from which of your lines, bytes and operations, the least time that this
 * machine needs for them, and the time they took if the context was made with .profile (docs/plans.md). NULL: there is
 * none yet, or memory is out. Valid until the next call on c. The first call of a runtime measures the machine, which
 * takes some 20 ms. */
WF_API const char *wf_explain_plan_(wf_ctx *c, const wf_explain_opts *o);
#define wf_explain_plan(...)      wf_explain_plan_o(__VA_ARGS__, )
#define wf_explain_plan_o(c, ...) wf_explain_plan_(c, WF_OPTS(wf_explain_opts, __VA_ARGS__))

/* ---- scopes ---- */

typedef struct wf_scope {
    uint32_t depth, serial;
} wf_scope;

typedef struct wf_scope_opts {
    WF_HEAD;
    bool group WF_Z;   /* a frame around steps (an epoch): is no step itself */
    bool no_grad WF_Z; /* record no history: no gradient can be asked for what is built here */
    /* WF_BF16 or WF_F16: products, convolutions and attention are computed in that type, their f32 operands being cast;
     * softmax, norms, losses and sums in f32; other operators in the widest type of their operands. Variables stay as
     * they are, and their gradients have their types (docs/numerics.md). WF_F32: nothing is cast in here. 0: as around.
     */
    wf_dtype autocast WF_Z;
} wf_scope_opts;

/* Opens a scope. The outermost one that is not a group is a step. name is kept by pointer: a literal. */
WF_API wf_scope wf_scope_begin_(wf_ctx *c, const char *name, const wf_scope_opts *o, const char *site);
#define wf_scope_begin(c, ...)         wf_scope_begin_o(c, __VA_ARGS__, )
#define wf_scope_begin_o(c, name, ...) wf_scope_begin_(c, name, WF_OPTS(wf_scope_opts, __VA_ARGS__), WF_SITE)

/* Ends the scope and inner ones that an early return or break left open; a step runs here. Tensors of the scope die
 * unless they were returned or retained. The status of the pending error, if any. */
WF_API wf_status wf_scope_end(wf_ctx *c, wf_scope s);

/* t will belong to the scope around s. Returns t. */
WF_API wf_tensor *wf_scope_return(wf_ctx *c, wf_scope s, wf_tensor *t);

/* A tensor that outlives its scope; give it back with wf_release. Returns t. */
WF_API wf_tensor *wf_retain(wf_ctx *c, wf_tensor *t);
WF_API void wf_release(wf_ctx *c, wf_tensor *t);

#if defined __GNUC__
/* A scope that ends with its block: WF_SCOPE_AUTO(c, "step"); */
typedef struct wf_scope_auto_ {
    wf_ctx *c;
    wf_scope s;
} wf_scope_auto_;
static inline void wf_scope_auto_end_(wf_scope_auto_ *a)
{
    (void)wf_scope_end(a->c, a->s);
}
#define WF_CAT_(a, b) a##b
#define WF_CAT(a, b)  WF_CAT_(a, b)
#define WF_SCOPE_AUTO(c, name)                                                                                         \
    __attribute__((cleanup(wf_scope_auto_end_), unused)) wf_scope_auto_ WF_CAT(                                        \
        wf_auto_, __LINE__) = { c, wf_scope_begin_(c, name, NULL, WF_SITE) }
#endif

#ifdef __cplusplus
}
#endif
#endif
