/* cases.h - what the files of cases with right values share: one step at a time, numbers in and out, all modes. */
#ifndef WEFT_TEST_CASES_H
#define WEFT_TEST_CASES_H
#include "refeval.h"

typedef struct run {
    wf_ctx *c;
    int rep; /* 0, 1, 2: the same step again */
    bool lazy;
    int threads;
    const char *name;
    wf_var *v[4];
    wf_scope s;
    wf_fn *f;
    wf_tensor *kept;
} run;

static inline void begin(run *r)
{
    r->s = wf_scope_begin(r->c, "case");
}
static void bad(const run *r, const char *format, ...) __attribute__((format(printf, 2, 3), noreturn));
static inline void bad(const run *r, const char *format, ...)
{
    char text[1200];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    fail_msg("%s, %s, %d thread%s, step %d: %s", r->name, r->lazy ? "lazy" : "eager", r->threads,
             r->threads > 1 ? "s" : "", r->rep + 1, text);
    abort();
}
static inline void end(run *r)
{
    if (wf_scope_end(r->c, r->s) != WF_OK)
        bad(r, "%s", wf_error(r->c));
}
static inline wf_tensor *ret(run *r, wf_tensor *t)
{
    return wf_scope_return(r->c, r->s, t);
}

static inline wf_tensor *f32s(run *r, wf_dims d, const float *x)
{
    return wf_tensor_from(r->c, WF_F32, d, x);
}
static inline int64_t count(wf_dims d)
{
    int64_t n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= d.d[i];
    return n;
}

/* n numbers x0, x0 + 1, ... as dtype */
static inline wf_tensor *range(run *r, wf_dtype t, wf_dims d, double x0)
{
    int64_t n = count(d);
    char *p = calloc((size_t)n + 1, 8);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        wfi_dtype_store(t, p, i, x0 + (double)i);
    wf_tensor *x = wf_tensor_from(r->c, t, d, p);
    free(p);
    return x;
}
static inline wf_tensor *filled(run *r, wf_dtype t, wf_dims d, double v)
{
    int64_t n = count(d);
    char *p = calloc((size_t)n + 1, 8);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++)
        wfi_dtype_store(t, p, i, v);
    wf_tensor *x = wf_tensor_from(r->c, t, d, p);
    free(p);
    return x;
}

/* All elements of t as doubles; freed by the caller. */
static inline double *values(run *r, wf_tensor *t, int64_t *n)
{
    if (!t)
        bad(r, "a result is NULL: %s", wf_error(r->c) ? wf_error(r->c) : "no error");
    wf_dtype type = wf_tensor_dtype(t);
    *n = count(wf_tensor_dims(t));
    size_t bytes = (size_t)*n * wf_dtype_bytes(type);
    char *p = malloc(bytes + 1);
    double *d = malloc(((size_t)*n + 1) * sizeof *d);
    assert_true(p && d);
    if (wf_read(r->c, t, p, bytes) != WF_OK)
        bad(r, "%s", wf_error(r->c));
    for (int64_t i = 0; i < *n; i++)
        d[i] = wfi_dtype_load(type, p, i);
    free(p);
    return d;
}

static inline void check(run *r, const char *what, wf_tensor *t, int64_t n, const double *want, double tol)
{
    int64_t have;
    double *d = values(r, t, &have);
    if (have != n)
        bad(r, "%s has %lld elements, %lld were expected", what, (long long)have, (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (!(d[i] == want[i] || (isnan(d[i]) && isnan(want[i])) || fabs(d[i] - want[i]) <= tol))
            bad(r, "%s[%lld] is %.17g, %.17g is right", what, (long long)i, d[i], want[i]);
    free(d);
}
#define CHECK(r, t, tol, ...)                                                                                          \
    do {                                                                                                               \
        const double want_[] = { __VA_ARGS__ };                                                                        \
        check(r, #t, t, (int64_t)(sizeof want_ / sizeof *want_), want_, tol);                                          \
    } while (0)

static inline void check_all(run *r, const char *what, wf_tensor *t, int64_t n, double want, double tol)
{
    double *w = malloc(((size_t)n + 1) * sizeof *w);
    assert_non_null(w);
    for (int64_t i = 0; i < n; i++)
        w[i] = want;
    check(r, what, t, n, w, tol);
    free(w);
}
/* The step must fail with this status and all of these words; afterwards the context works. */
static inline void must_fail(run *r, wf_status status, const char *const *words)
{
    wf_status got = wf_scope_end(r->c, r->s);
    const char *text = wf_error(r->c);
    if (got != status)
        bad(r, "the status is %d, %d was expected: %s", (int)got, (int)status, text ? text : "no error");
    for (; *words; words++)
        if (!strstr(text, *words))
            bad(r, "the error does not say '%s': %s", *words, text);
    wf_error_clear(r->c);
    begin(r);
    const float two[2] = { 1, 2 };
    wf_tensor *y = ret(r, wf_add(f32s(r, WF_DIMS(2), two), f32s(r, WF_DIMS(2), two)));
    end(r);
    CHECK(r, y, 0, 2, 4);
}
#define MUST_FAIL(r, status, ...) must_fail(r, status, (const char *const[]){ __VA_ARGS__, NULL })

static inline wf_tensor *grad1(run *r, wf_tensor *loss, wf_tensor *x)
{
    wf_tensor *g = NULL;
    if (wf_grad(loss, 1, &x, &g) != WF_OK)
        bad(r, "%s", wf_error(r->c));
    return g;
}

static inline void in_all_modes(const char *name, void (*one)(run *), int max_threads)
{
    for (int mode = 0; mode < 2; mode++)
        for (int threads = 1; threads <= max_threads; threads++) {
            run r = { .name = name, .lazy = mode == 1, .threads = threads };
            r.c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode ? WF_LAZY : WF_EAGER, .threads = threads });
            assert_non_null(r.c);
            for (r.rep = 0; r.rep < 3; r.rep++) {
                wf_scope around = wf_scope_begin(r.c, "around", .group = true);
                one(&r);
                wf_scope_end(r.c, around);
                if (wf_error(r.c))
                    bad(&r, "an error is left: %s", wf_error(r.c));
            }
            assert_int_equal(wf_ctx_close(r.c), WF_OK);
        }
}
#define CASE(name)                                                                                                     \
    static void name##_test(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        in_all_modes(#name, name, 2);                                                                                  \
    }

#endif
