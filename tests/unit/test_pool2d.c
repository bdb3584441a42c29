/* Pooling against plain loops, bit for bit: every layout, type, thread count and instruction set. */
#include "windows.h"
#include "kernel/conv/window.h"
#include "kernel/pool2d/pool2d.h"

static int isas(const wfi_pool2d_kernels **out, const char **names)
{
    int n = 0;
    names[n] = "portable";
    out[n++] = &wfi_pool2d_portable;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        names[n] = "avx2";
        out[n++] = &wfi_pool2d_avx2;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        names[n] = "avx512";
        out[n++] = &wfi_pool2d_avx512;
    }
#endif
    return n;
}

typedef struct problem {
    wfi_pool2d_attrs at;
    tensor x, dy;
} problem;

/* Rounds to what the type t computes in. */
static double wide(double v, wf_dtype t)
{
    return t == WF_F64 ? v : (double)(float)v;
}

/* Calls see(arg, iy, ix) for the elements of window (oy, ox) in order; returns how many count with padding. */
typedef void see_fn(void *arg, int64_t i);
static int64_t window(const problem *p, int64_t oy, int64_t ox, see_fn *see, void *arg)
{
    const wfi_pool2d_attrs *a = &p->at;
    const wfi_view *x = &p->x.v;
    int64_t counted = 0;
    for (int64_t ky = 0; ky < a->kernel_h; ky++) {
        for (int64_t kx = 0; kx < a->kernel_w; kx++) {
            int64_t iy = oy * a->stride_h - a->pad_top + ky * a->dilation_h;
            int64_t ix = ox * a->stride_w - a->pad_left + kx * a->dilation_w;
            counted += iy < x->dim[2] + a->pad_bottom && ix < x->dim[3] + a->pad_right;
            if (iy >= 0 && iy < x->dim[2] && ix >= 0 && ix < x->dim[3]) {
                see(arg, iy * x->dim[3] + ix);
            }
        }
    }
    return counted;
}

typedef struct seen {
    const double *x;
    double *dx, value, g;
    int64_t best, count;
    wf_dtype t;
} seen;

static void see_max(void *arg, int64_t i)
{
    seen *s = arg;
    if (s->best < 0 || s->x[i] > s->x[s->best] || (isnan(s->x[i]) && !isnan(s->x[s->best]))) {
        s->best = i;
    }
}

static void see_sum(void *arg, int64_t i)
{
    seen *s = arg;
    s->value = wide(s->value + s->x[i], s->t);
    s->count++;
}

static void see_share(void *arg, int64_t i)
{
    seen *s = arg;
    s->dx[i] = wide(s->dx[i] + s->g, s->t);
}

/* y or dx, as max and backward say. */
static double *reference(const problem *p, int max, int backward)
{
    const wfi_view *x = &p->x.v, *y = &p->dy.v;
    int64_t plane = x->dim[2] * x->dim[3], i = 0;
    double *out = calloc((size_t)elements(backward ? x : y) + 1, sizeof(double));
    for (int64_t nc = 0; nc < x->dim[0] * x->dim[1]; nc++) {
        for (int64_t oy = 0; oy < y->dim[2]; oy++) {
            for (int64_t ox = 0; ox < y->dim[3]; ox++, i++) {
                seen s = { p->x.dense + nc * plane, out + nc * plane, 0, 0, -1, 0, x->dtype };
                int64_t counted = window(p, oy, ox, max ? see_max : see_sum, &s);
                counted = p->at.count_pad ? counted : s.count;
                if (!backward) {
                    out[i] = max ? s.x[s.best] : round_to(wide(s.value / (double)counted, s.t), s.t);
                } else if (max) {
                    s.dx[s.best] = wide(s.dx[s.best] + p->dy.dense[i], s.t);
                } else {
                    s.g = wide(p->dy.dense[i] / (double)counted, s.t);
                    window(p, oy, ox, see_share, &s);
                }
            }
        }
    }
    for (i = 0; backward && i < elements(x); i++) {
        out[i] = round_to(out[i], x->dtype);
    }
    return out;
}

static void run_all(const wfi_pool2d_family *f, const problem *p, tensor *out, const tensor *a, const tensor *b,
                    const double *want, const char *what, uint64_t seed)
{
    wfi_mem mem;
    wfi_mem_init(&mem, NULL, NULL, 0);
    for (int threads = 1; threads <= 3; threads++) {
        _Alignas(8) char params[WFI_PARAMS_MAX];
        size_t used = 0, scratch = 0;
        const char *why =
            f->prepare(&p->at, &a->v, b != NULL ? &b->v : NULL, &out->v, threads, params, &used, &scratch);
        if (why != NULL) {
            fail_msg("%s: %s (seed %llu)", what, why, (unsigned long long)seed);
        }
        wfi_fault fault = { 0 };
        wfi_run run = { .pool = wfi_pool_new(&mem, threads),
                        .scratch = wfi_mem_alloc(&mem, scratch + 64),
                        .fault = &fault };
        memset(run.scratch, 0xff, scratch);
        memset((char *)run.scratch + scratch, 0x55, 64);
        f->run(params, (void *[]){ origin(out), origin(a), b != NULL ? origin(b) : NULL }, &run);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(((char *)run.scratch)[scratch + (size_t)i], 0x55);
        }
        wfi_pool_free(run.pool);
        wfi_mem_free(&mem, run.scratch);
        check_bits(out, want, what, seed);
    }
}

static void run_problem(problem *p, uint64_t seed)
{
    const wfi_pool2d_kernels *set[3];
    const char *names[3];
    int n = isas(set, names);
    double *want[4] = { reference(p, 1, 0), reference(p, 1, 1), reference(p, 0, 0), reference(p, 0, 1) };
    for (int i = 0; i < n; i++) {
        const wfi_pool2d_family *f[4] = { &set[i]->max_forward, &set[i]->max_backward, &set[i]->avg_forward,
                                          &set[i]->avg_backward };
        static const char *const ops[4] = { "max", "max gradient", "average", "average gradient" };
        for (int op = 0; op < 4; op++) {
            for (int l = 0; l < 3; l++) {
                char what[400];
                enum layout lay = l == 0 ? NHWC : l == 1 ? NCHW : pick(0, 1) ? SLICED : BACKWARDS;
                snprintf(
                    what, sizeof what,
                    "%s %s %s x[%d %d %d %d] k %d %d s %d %d pad %d %d %d %d dil %d %d ceil %d count_pad %d layout %d",
                    names[i], ops[op], wf_dtype_name(p->x.v.dtype), (int)p->x.v.dim[0], (int)p->x.v.dim[1],
                    (int)p->x.v.dim[2], (int)p->x.v.dim[3], (int)p->at.kernel_h, (int)p->at.kernel_w,
                    (int)p->at.stride_h, (int)p->at.stride_w, (int)p->at.pad_top, (int)p->at.pad_left,
                    (int)p->at.pad_bottom, (int)p->at.pad_right, (int)p->at.dilation_h, (int)p->at.dilation_w,
                    p->at.ceil, p->at.count_pad, lay);
                tensor out = { .v = op % 2 ? p->x.v : p->dy.v };
                make(&out, lay);
                run_all(f[op], p, &out, op == 3 ? &p->dy : &p->x, op == 1 ? &p->dy : NULL, want[op], what, seed);
                drop(&out);
            }
        }
    }
    for (int op = 0; op < 4; op++) {
        free(want[op]);
    }
}

static double few_values(wf_dtype t) /* many ties, zeros of both signs, NaN, infinities */
{
    switch (pick(0, 9)) {
    case 0: return NAN;
    case 1: return -INFINITY;
    case 2: return INFINITY;
    case 3: return 0.0;
    case 4: return -0.0;
    case 5: return any_value(t);
    default: return (double)pick(-2, 2);
    }
}

/* False: there is no such pooling. s: n, c, h, w */
static int make_problem(problem *p, const int64_t *s, const wfi_pool2d_attrs *at, wf_dtype t, int layout,
                        double (*value)(wf_dtype))
{
    wfi_view y;
    p->at = *at;
    p->x.v = (wfi_view){ t, 4, { s[0], s[1], s[2], s[3] }, { 1, 1, 1, 1 } };
    if (wfi_pool2d_portable.max_forward.layout(at, &p->x.v, NULL, &y) != NULL) {
        return 0;
    }
    p->dy.v = y;
    make(&p->x, layout < 0 ? (enum layout)pick(0, LAYOUTS - 1) : (enum layout)layout);
    make(&p->dy, layout < 0 ? (enum layout)pick(0, LAYOUTS - 1) : (enum layout)layout);
    fill(&p->x, value);
    fill(&p->dy, any_value);
    return 1;
}

static void drop_problem(problem *p)
{
    drop(&p->x);
    drop(&p->dy);
}

static void random_problems(void **state)
{
    static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16 };
    uint64_t seed0 = getenv("WEFT_TEST_SEED") ? strtoull(getenv("WEFT_TEST_SEED"), NULL, 10) : 20260802;
    int count = getenv("WEFT_TEST_COUNT") ? atoi(getenv("WEFT_TEST_COUNT")) : 300, run = 0;
    (void)state;
    printf("seed %llu, %d problems\n", (unsigned long long)seed0, count);
    for (int i = 0; i < count; i++) {
        problem p;
        rng_state = seed0 + (uint64_t)i;
        wfi_pool2d_attrs at = {
            pick(1, 4), pick(1, 4), pick(1, 4),          pick(1, 4),          0,          0,
            0,          0,          pick(1, pick(1, 3)), pick(1, pick(1, 3)), pick(0, 1), pick(0, 1)
        };
        if (pick(0, 2) == 0) {
            at.kernel_h = at.kernel_w = at.stride_h = at.stride_w = pick(2, 3);
            at.dilation_h = at.dilation_w = 1;
        } else {
            at.pad_top = pick(0, 2), at.pad_left = pick(0, 2), at.pad_bottom = pick(0, 2), at.pad_right = pick(0, 2);
        }
        int64_t s[4] = { pick(0, 3), pick(0, pick(0, 2) ? 6 : 70), pick(1, 14), pick(1, pick(0, 3) ? 14 : 50) };
        if (make_problem(&p, s, &at, types[pick(0, 5) % 4], -1, pick(0, 1) ? any_value : few_values)) {
            run_problem(&p, seed0 + (uint64_t)i);
            drop_problem(&p);
            run++;
        }
    }
    assert_true(run > count / 3);
}

static void usual_sizes(void **state)
{
    (void)state;
    for (int layout = NCHW; layout <= NHWC; layout++) {
        static const int64_t rows[][4] = {
            { 2, 32, 28, 28 }, { 3, 64, 14, 14 }, { 1, 1, 33, 47 }, { 1, 17, 9, 70 }, { 2, 33, 8, 6 }
        };
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            problem p;
            wfi_pool2d_attrs two = { 2, 2, 2, 2, 0, 0, 0, 0, 1, 1, false, false };
            wfi_pool2d_attrs three = { 3, 3, 2, 2, 1, 1, 1, 1, 1, 1, false, true };
            assert_true(make_problem(&p, rows[i], &two, WF_F32, layout, any_value));
            run_problem(&p, 0);
            drop_problem(&p);
            assert_true(make_problem(&p, rows[i], &three, i % 2 ? WF_F32 : WF_BF16, layout, few_values));
            run_problem(&p, 0);
            drop_problem(&p);
        }
    }
}

/* x counts up from 0; the wanted values are row-major. */
static void counting(int64_t h, int64_t w, wfi_pool2d_attrs at, int64_t oh, int64_t ow, const double *want)
{
    const wfi_pool2d_kernels *set[3];
    const char *names[3];
    int n = isas(set, names);
    float x[1024], y[1024];
    for (int64_t i = 0; i < h * w; i++) {
        x[i] = (float)i;
    }
    for (int i = 0; i < n; i++) {
        wfi_view vx = { WF_F32, 4, { 1, 1, h, w }, { h * w, h * w, w, 1 } }, vy;
        _Alignas(64) char params[WFI_PARAMS_MAX], scratch[65536];
        size_t used, bytes;
        wfi_fault fault = { 0 };
        const wfi_pool2d_family *f = &set[i]->max_forward;
        assert_null(f->layout(&at, &vx, NULL, &vy));
        assert_int_equal(vy.dim[2], oh);
        assert_int_equal(vy.dim[3], ow);
        assert_null(f->prepare(&at, &vx, NULL, &vy, 1, params, &used, &bytes));
        assert_true(bytes <= sizeof scratch);
        f->run(params, (void *[]){ y, x }, &(wfi_run){ .scratch = scratch, .fault = &fault });
        for (int64_t j = 0; want != NULL && j < oh * ow; j++) {
            assert_true((double)y[j] == want[j]);
        }
    }
}

static void ceil_mode(void **state)
{
    (void)state;
    counting(6, 7, (wfi_pool2d_attrs){ 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, true, false }, 3, 4,
             (const double[]){ 0, 2, 4, 6, 14, 16, 18, 20, 28, 30, 32, 34 });
    counting(32, 32, (wfi_pool2d_attrs){ 1, 1, 2, 2, 0, 0, 0, 0, 1, 1, true, false }, 16, 16, NULL);
    counting(8, 10, (wfi_pool2d_attrs){ 3, 3, 4, 4, 0, 0, 0, 0, 1, 1, true, false }, 2, 3,
             (const double[]){ 22, 26, 29, 62, 66, 69 });
    counting(5, 5, (wfi_pool2d_attrs){ 3, 3, 3, 3, 1, 1, 1, 1, 1, 1, true, false }, 2, 2,
             (const double[]){ 6, 9, 21, 24 });
}

static void errors(void **state)
{
    (void)state;
    const wfi_pool2d_family *f = &wfi_pool2d_portable.max_forward;
    wfi_view x = { WF_F32, 4, { 1, 2, 1, 1 }, { 2, 1, 1, 1 } }, y;
    wfi_pool2d_attrs at = { 4, 4, 1, 1, 0, 0, 0, 0, 1, 1, false, false };
    assert_string_equal(f->layout(&at, &x, NULL, &y), WFI_WINDOW_BELOW_1);
    at = (wfi_pool2d_attrs){ 1, 1, 1, 1, 1, 0, 0, 0, 1, 1, false, false };
    assert_non_null(f->layout(&at, &x, NULL, &y)); /* a window in the leading padding alone */
    at = (wfi_pool2d_attrs){ 1, 1, 1, 1, 0, 0, 0, 1, 1, 1, false, false };
    assert_non_null(f->layout(&at, &x, NULL, &y)); /* ... in the trailing padding */
    at = (wfi_pool2d_attrs){ 2, 2, 1, 1, 2, 0, 2, 0, 3, 1, false, false };
    assert_non_null(f->layout(&at, &x, NULL, &y)); /* ... on both sides of the input */
    x.dtype = WF_I32;
    at = (wfi_pool2d_attrs){ 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, false, false };
    assert_non_null(f->layout(&at, &x, NULL, &y));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ceil_mode),
        cmocka_unit_test(errors),
        cmocka_unit_test(random_problems),
        cmocka_unit_test(usual_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
