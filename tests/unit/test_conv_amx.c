/* Convolution on the tile unit, its instructions emulated: with the vectors of the library (where the CPU has AVX-512),
 * and compiled here without them; on a machine with AMX the real one as well. Forward and input gradient bit for bit in
 * the documented order, the weight gradient against f64 and itself: every layout and thread count gives the same bits.
 * What cannot be split has the bits of the plain kernel. */
#include "windows.h"
#define WFI_AMX_EMULATED 1
#define OTHERWISE        wfi_conv_f32_portable
#define NAME             plain_emulated
#include "kernel/conv/conv_amx.c"
#include "kernel/gemm/gemm.h"

typedef struct engine {
    const char *name;
    const wfi_conv_kernels *k, *otherwise;
} engine;

static int engines(engine *out)
{
    int n = 0;
    out[n++] = (engine){ "emulated", &plain_emulated, &wfi_conv_portable };
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        out[n++] = (engine){ "emulated, vectors", &wfi_conv_amx_emulated, &wfi_conv_avx512 };
    }
    if (wfi_gemm_amx_permit()) {
        out[n++] = (engine){ "amx", &wfi_conv_amx, &wfi_conv_avx512 };
    }
#endif
    return n;
}

/* Emulated tiles are slow, many times so under a sanitizer, which finds what it finds in a part of the cases. */
#ifdef __SANITIZE_ADDRESS__
enum { STRIDE = 5 };
#else
enum { STRIDE = 1 };
#endif

typedef struct shape {
    int64_t n, c, h, w, o, kh, kw;
    wfi_conv_attrs at; /* strides, pads top left bottom right, dilations, groups */
} shape;

static const shape shapes[] = {
    { 1, 32, 5, 9, 64, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, /* along the rows */
    { 2, 64, 3, 19, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
    { 2, 32, 9, 11, 64, 3, 3, { 2, 2, 1, 1, 1, 1, 1, 1, 1 } },
    { 1, 64, 12, 9, 64, 2, 3, { 1, 2, 0, 2, 1, 0, 2, 1, 1 } },
    { 2, 64, 9, 10, 64, 3, 2, { 2, 3, 2, 1, 0, 1, 1, 2, 1 } },
    { 1, 32, 8, 8, 256, 1, 1, { 1, 1, 0, 0, 0, 0, 1, 1, 1 } },
    { 1, 256, 7, 13, 32, 1, 1, { 1, 2, 0, 0, 0, 0, 1, 1, 1 } },
    { 1, 32, 3, 36, 32, 5, 5, { 1, 1, 2, 2, 2, 2, 1, 1, 1 } },
    { 1, 32, 2, 7, 64, 3, 3, { 1, 1, 3, 3, 3, 3, 1, 1, 1 } },  /* windows that see nothing */
    { 33, 64, 2, 3, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, /* across images: a last group of one */
    { 17, 32, 3, 2, 64, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
    { 32, 32, 3, 4, 64, 3, 3, { 2, 2, 1, 1, 1, 1, 1, 1, 1 } },
    { 48, 64, 3, 3, 64, 2, 2, { 1, 1, 1, 0, 0, 1, 2, 1, 1 } },
};

typedef struct problem {
    wfi_conv_attrs at;
    tensor x, w, y; /* y serves as dy */
} problem;

/* Numbers of the size that networks have, of all signs, some zero. */
static double usual(wf_dtype t)
{
    return pick(0, 9) == 0 ? 0 : round_to((double)(int64_t)rng() * 0x1p-63, t);
}

static void make_problem(problem *p, const shape *s, wf_dtype t, bool usual_layout)
{
    int64_t oh = 0, ow = 0;
    assert_null(wfi_window_out(
        &(wfi_window){ s->h, s->kh, s->at.stride_h, s->at.pad_top, s->at.pad_bottom, s->at.dilation_h, false }, &oh));
    assert_null(wfi_window_out(
        &(wfi_window){ s->w, s->kw, s->at.stride_w, s->at.pad_left, s->at.pad_right, s->at.dilation_w, false }, &ow));
    *p = (problem){ .at = s->at };
    p->x.v = (wfi_view){ t, 4, { s->n, s->c, s->h, s->w }, { 0 } };
    p->w.v = (wfi_view){ t, 4, { s->o, s->c, s->kh, s->kw }, { 0 } };
    p->y.v = (wfi_view){ t, 4, { s->n, s->o, oh, ow }, { 0 } };
    make(&p->x, usual_layout ? NHWC : (enum layout)pick(0, LAYOUTS - 1));
    make(&p->w, usual_layout ? NCHW : (enum layout)pick(0, LAYOUTS - 1));
    make(&p->y, usual_layout ? NHWC : (enum layout)pick(0, LAYOUTS - 1));
    fill(&p->x, usual);
    fill(&p->w, usual);
    fill(&p->y, usual);
}

static void drop_problem(problem *p)
{
    drop(&p->x);
    drop(&p->w);
    drop(&p->y);
}

/* ---- the documented order ---- */

static float zeroed(float f)
{
    return fabsf(f) < FLT_MIN ? copysignf(0, f) : f;
}

/* One product of tiles: 32 values. */
static float products(float sum, const float *a, const float *b)
{
    float part[2] = { 0, 0 };
    for (int i = 0; i < 32; i++) {
        part[i & 1] = zeroed(fmaf(zeroed(a[i]), zeroed(b[i]), part[i & 1]));
    }
    return zeroed(sum + zeroed(part[0] + part[1]));
}

/* x = the sum of three numbers of eight bits, each the nearest to what is left; scaled. */
static void split(float x, float part[3][32], int i)
{
    double left = ldexp((double)x, 30);
    for (int q = 0; q < 3; q++) {
        part[q][i] = (float)round_bits(left, 8, -126, 127);
        left -= (double)part[q][i];
    }
}

static float step(float sum, const float *a, const float *b, wf_dtype t)
{
    static const int order[6][2] = { { 2, 0 }, { 1, 0 }, { 1, 1 }, { 0, 1 }, { 0, 2 }, { 0, 0 } };
    float x[3][32], y[3][32];
    if (t == WF_BF16) {
        return products(sum, a, b);
    }
    for (int i = 0; i < 32; i++) {
        split(a[i], x, i);
        split(b[i], y, i);
    }
    for (int q = 0; q < 6; q++) {
        sum = products(sum, x[order[q][0]], y[order[q][1]]);
    }
    return sum;
}

/* Element i of dy or y from the other two, by the chain of sums over taps in the order in which they are walked (back:
 * descending) and channels. */
static double *reference(const problem *p, bool back)
{
    const tensor *in = back ? &p->y : &p->x, *out = back ? &p->x : &p->y;
    const wfi_view *w = &p->w.v, *v = &out->v, *u = &in->v;
    const wfi_conv_attrs *a = &p->at;
    double *want = calloc((size_t)elements(v) + 1, sizeof(double));
    const int64_t taps = w->dim[2] * w->dim[3], chan = u->dim[1];
    for (int64_t e = 0; e < elements(v); e++) {
        int64_t ox = e % v->dim[3], oy = e / v->dim[3] % v->dim[2], j = e / v->dim[3] / v->dim[2] % v->dim[1];
        int64_t n = e / v->dim[3] / v->dim[2] / v->dim[1];
        float sum = 0;
        for (int64_t k = 0; k < taps; k++) {
            int64_t ky = (back ? taps - 1 - k : k) / w->dim[3], kx = (back ? taps - 1 - k : k) % w->dim[3];
            int64_t iy = oy * a->stride_h - a->pad_top + ky * a->dilation_h;
            int64_t ix = ox * a->stride_w - a->pad_left + kx * a->dilation_w;
            if (back) {
                int64_t ty = oy + a->pad_top - ky * a->dilation_h, tx = ox + a->pad_left - kx * a->dilation_w;
                if (ty % a->stride_h != 0 || tx % a->stride_w != 0) {
                    continue;
                }
                iy = ty / a->stride_h;
                ix = tx / a->stride_w;
            }
            bool inside = iy >= 0 && iy < u->dim[2] && ix >= 0 && ix < u->dim[3];
            for (int64_t c = 0; inside && c < chan; c += 32) {
                float x[32], y[32];
                for (int64_t i = 0; i < 32; i++) {
                    int64_t o = back ? c + i : j, ci = back ? j : c + i;
                    x[i] = (float)in->dense[((n * chan + c + i) * u->dim[2] + iy) * u->dim[3] + ix];
                    y[i] = (float)p->w.dense[((o * w->dim[1] + ci) * w->dim[2] + ky) * w->dim[3] + kx];
                }
                sum = step(sum, x, y, u->dtype);
            }
        }
        want[e] = round_to(u->dtype == WF_BF16 ? (double)sum : ldexp((double)sum, -60), v->dtype);
    }
    return want;
}

/* dw in f64, and what its error is measured by: the sum of the magnitudes. */
static double *weight_in_f64(const problem *p, double **size)
{
    const wfi_view *x = &p->x.v, *w = &p->w.v, *y = &p->y.v;
    const wfi_conv_attrs *a = &p->at;
    double *want = calloc((size_t)elements(w) + 1, sizeof(double));
    *size = calloc((size_t)elements(w) + 1, sizeof(double));
    for (int64_t e = 0; e < elements(w); e++) {
        int64_t kx = e % w->dim[3], ky = e / w->dim[3] % w->dim[2], c = e / w->dim[3] / w->dim[2] % w->dim[1];
        int64_t o = e / w->dim[3] / w->dim[2] / w->dim[1];
        for (int64_t i = 0; i < y->dim[0] * y->dim[2] * y->dim[3]; i++) {
            int64_t ox = i % y->dim[3], oy = i / y->dim[3] % y->dim[2], n = i / y->dim[3] / y->dim[2];
            int64_t iy = oy * a->stride_h - a->pad_top + ky * a->dilation_h;
            int64_t ix = ox * a->stride_w - a->pad_left + kx * a->dilation_w;
            if (iy >= 0 && iy < x->dim[2] && ix >= 0 && ix < x->dim[3]) {
                double v = p->x.dense[((n * x->dim[1] + c) * x->dim[2] + iy) * x->dim[3] + ix] *
                           p->y.dense[((n * y->dim[1] + o) * y->dim[2] + oy) * y->dim[3] + ox];
                want[e] += v;
                (*size)[e] += fabs(v);
            }
        }
    }
    return want;
}

/* ---- runs ---- */

static wfi_mem mem;
static wfi_pool *pools[4];

/* One run into `out`, whose values are read back; kept: with weights that were packed before. False: declined. */
static bool run_once(const wfi_conv_kernels *k, const wfi_conv_family *f, const problem *p, tensor *out,
                     const tensor *a, const tensor *b, int threads, bool kept)
{
    _Alignas(8) char params[WFI_PARAMS_MAX];
    size_t used = 0, scratch = 0;
    if (f->prepare(&p->at, &a->v, &b->v, &out->v, threads, params, &used, &scratch) != NULL) {
        return false;
    }
    assert_true(used <= WFI_PARAMS_MAX);
    wfi_fault fault = { 0 };
    wfi_run run = { .pool = pools[threads], .scratch = wfi_mem_alloc(&mem, scratch + 64), .fault = &fault };
    assert_non_null(run.scratch);
    memset(run.scratch, 0xff, scratch);
    memset((char *)run.scratch + scratch, 0x55, 64);
    if (kept) {
        const size_t bytes = k->keep_bytes(params);
        char *room = wfi_mem_alloc(&mem, bytes + 64);
        assert_non_null(room);
        memset(room, 0xff, bytes);
        memset(room + bytes, 0x55, 64);
        k->keep(params, (void *[]){ NULL, NULL, origin(b), room }, &run);
        memset(run.scratch, 0xff, scratch);
        k->run_kept(params, (void *[]){ origin(out), origin(a), NULL, room }, &run);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(room[bytes + (size_t)i], 0x55);
        }
        wfi_mem_free(&mem, room);
    } else {
        f->run(params, (void *[]){ origin(out), origin(a), origin(b) }, &run);
    }
    for (int i = 0; i < 64; i++) {
        assert_int_equal(((char *)run.scratch)[scratch + (size_t)i], 0x55);
    }
    wfi_mem_free(&mem, run.scratch);
    gather(out);
    return true;
}

/* Equal numbers; zeros of either sign are, and NaNs. */
static void equal_numbers(const double *got, const double *want, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        if (!(got[i] == want[i]) && !(isnan(got[i]) && isnan(want[i]))) {
            fail_msg("%s: element %d is %a, %a was expected", what, (int)i, got[i], want[i]);
        }
    }
}

typedef enum part { FORWARD, INPUT, WEIGHT } part;
static const char *const part_names[] = { "forward", "input gradient", "weight gradient" };

static const wfi_conv_family *family(const wfi_conv_kernels *k, part q)
{
    return q == FORWARD ? &k->forward : q == INPUT ? &k->input_grad : &k->weight_grad;
}

/* Every part that is not declined, in two layouts of the result and by one and three threads, against what check()
 * makes of it. */
typedef void check_fn(const tensor *out, part q, const void *arg, const char *what);

static int taken[3]; /* runs of each part */

static void run_all(const engine *e, const problem *p, const char *name, check_fn *check, const void *arg)
{
    for (part q = FORWARD; q <= WEIGHT; q++) {
        const tensor *a = q == INPUT ? &p->y : &p->x, *b = q == WEIGHT ? &p->y : &p->w;
        for (int threads = 1; threads <= 3; threads += 2) {
            for (int kept = 0; kept < (q == FORWARD ? 2 : 1); kept++) {
                char what[300];
                tensor out = { .v = q == FORWARD ? p->y.v : q == INPUT ? p->x.v : p->w.v };
                make(&out, threads == 1 ? (q == WEIGHT ? NCHW : NHWC) : pick(0, 1) ? SLICED : BACKWARDS);
                snprintf(what, sizeof what, "%s %s %s, %d threads%s", e->name, part_names[q], name, threads,
                         kept ? ", kept" : "");
                if (run_once(e->k, family(e->k, q), p, &out, a, b, threads, kept)) {
                    check(&out, q, arg, what);
                    taken[q]++;
                }
                drop(&out);
            }
        }
    }
}

typedef struct expected {
    wf_dtype type;
    double *want[3], *size; /* forward, input gradient; weight gradient in f64 */
    double *bits;           /* of the weight gradient as it came first */
} expected;

static void as_documented(const tensor *out, part q, const void *arg, const char *what)
{
    const expected *x = arg;
    const int64_t n = elements(&out->v);
    if (q != WEIGHT) {
        equal_numbers(out->dense, x->want[q], n, what);
        return;
    }
    /* a rounding for each step of 32 and for each of its halves, less where most of them are of small parts; the result
     * rounded once */
    const double unit = x->type == WF_F32 ? 0x1p-22 : 0x1p-8;
    for (int64_t i = 0; i < n; i++) {
        if (!(fabs(out->dense[i] - x->want[q][i]) <= unit * x->size[i])) {
            fail_msg("%s: element %d is %a, %a was expected", what, (int)i, out->dense[i], x->want[q][i]);
        }
    }
    if (isnan(x->bits[0])) {
        memcpy(x->bits, out->dense, (size_t)n * sizeof(double));
    }
    equal_numbers(out->dense, x->bits, n, what);
}

static void orders(void **state)
{
    engine set[3];
    int n = engines(set);
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i += STRIDE) {
        for (int t = 0; t < 3; t++) { /* usual layouts, any, bf16 */
            const shape *s = &shapes[i];
            problem p;
            char name[120];
            rng_state = 1000 + i * 3 + (uint64_t)t;
            make_problem(&p, s, t == 2 ? WF_BF16 : WF_F32, t == 0);
            expected x = { .type = p.x.v.dtype, .want = { reference(&p, false), reference(&p, true) } };
            x.want[WEIGHT] = weight_in_f64(&p, &x.size);
            x.bits = malloc((size_t)(elements(&p.w.v) + 1) * sizeof(double));
            x.bits[0] = NAN;
            snprintf(name, sizeof name, "%s shape %d", wf_dtype_name(p.x.v.dtype), (int)i);
            for (int k = 0; k < n; k++) { /* tiles in scalar C are slow: each shape in one of the three ways */
                if (!strcmp(set[k].name, "amx") || (i + (size_t)k) % 3 == (size_t)t) {
                    run_all(&set[k], &p, name, as_documented, &x);
                }
            }
            free(x.want[0]);
            free(x.want[1]);
            free(x.want[2]);
            free(x.size);
            free(x.bits);
            drop_problem(&p);
        }
    }
    for (part q = FORWARD; q <= WEIGHT; q++) { /* no more than a few are declined */
        assert_true(taken[q] >= n * 16 / (STRIDE * STRIDE));
    }
}

/* ---- what cannot be split ---- */

typedef struct plain {
    const engine *e;
    const problem *p;
} plain;

static void as_otherwise(const tensor *out, part q, const void *arg, const char *what)
{
    const plain *x = arg;
    const problem *p = x->p;
    const wfi_conv_kernels *k = x->e->otherwise;
    tensor want = { .v = out->v };
    make(&want, NHWC);
    assert_true(run_once(k, family(k, q), p, &want, q == INPUT ? &p->y : &p->x, q == WEIGHT ? &p->y : &p->w, 1, false));
    for (int64_t i = 0; i < elements(&out->v); i++) {
        if (memcmp(&out->dense[i], &want.dense[i], 8) != 0 && !(isnan(out->dense[i]) && isnan(want.dense[i]))) {
            fail_msg("%s: element %d is %a, %a was expected", what, (int)i, out->dense[i], want.dense[i]);
        }
    }
    drop(&want);
}

static void cannot_be_split(void **state)
{
    static const double odd[] = { INFINITY, NAN, 0x1p127, -0x1.8p-140 };
    engine set[3];
    int n = engines(set);
    (void)state;
    rng_state = 5;
    for (size_t v = 0; v < sizeof odd / sizeof *odd; v += (STRIDE + 1) / 2) {
        for (int where_it_is = 0; where_it_is < 3; where_it_is++) { /* of tiny ones it takes two */
            const shape *s = &shapes[v % 2 == 0 ? 0 : 10];
            problem p;
            char name[100];
            make_problem(&p, s, WF_F32, true);
            /* all three operands: each part sees one of them at least */
            tensor *t[3] = { &p.x, &p.w, &p.y };
            for (int k = 0; k < 3; k++) {
                if (k != where_it_is || fabs(odd[v]) < 1) {
                    int64_t at_element = pick(0, elements(&t[k]->v) - 1);
                    put(origin(t[k]) + where(&t[k]->v, at_element) * 4, odd[v], WF_F32);
                    gather(t[k]);
                }
            }
            snprintf(name, sizeof name, "%a not in operand %d", odd[v], where_it_is);
            for (int k = 0; k < n; k++) {
                run_all(&set[k], &p, name, as_otherwise, &(plain){ &set[k], &p });
            }
            drop_problem(&p);
        }
    }
}

/* The error against f64 is not above that of the plain kernel, over numbers of several kinds. */
static double wide_exponents(wf_dtype t)
{
    return round_to(ldexp((double)(int64_t)rng() * 0x1p-63, (int)pick(-12, 12)), t);
}

static double worst(const double *got, const double *want, int64_t n)
{
    double w = 0, most = 0;
    for (int64_t i = 0; i < n; i++) {
        w = fmax(w, fabs(got[i] - want[i]));
        most = fmax(most, fabs(want[i]));
    }
    return w / most;
}

static void errors(void **state)
{
    static const shape s = { 2, 32, 12, 14, 64, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } };
    double (*const kinds[])(wf_dtype) = { usual, wide_exponents };
    engine set[3];
    int n = engines(set);
    (void)state;
    rng_state = 31;
    for (size_t v = 0; v < sizeof kinds / sizeof *kinds; v++) {
        problem p;
        double *size, *want;
        make_problem(&p, &s, WF_F32, true);
        fill(&p.x, kinds[v]);
        fill(&p.y, kinds[v]);
        want = weight_in_f64(&p, &size);
        for (int k = 0; k < n; k++) {
            double error[2];
            for (int plain_one = 0; plain_one < 2; plain_one++) {
                const wfi_conv_kernels *f = plain_one ? set[k].otherwise : set[k].k;
                tensor out = { .v = p.w.v };
                make(&out, NCHW);
                assert_true(run_once(f, &f->weight_grad, &p, &out, &p.x, &p.y, 1, false));
                error[plain_one] = worst(out.dense, want, elements(&out.v));
                drop(&out);
            }
            if (error[0] > error[1]) {
                fail_msg("%s, numbers %d: the error is %g, of the plain kernel %g", set[k].name, (int)v, error[0],
                         error[1]);
            }
        }
        free(want);
        free(size);
        drop_problem(&p);
    }
}

/* By the logical shape and the type alone. */
static void declines(void **state)
{
    static const struct {
        shape s;
        wf_dtype t;
        bool taken;
    } rows[] = {
        { { 1, 32, 8, 8, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, WF_F32, true },
        { { 1, 32, 8, 8, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, WF_BF16, true },
        { { 1, 32, 8, 8, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, WF_F16, false },
        { { 1, 32, 8, 8, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, WF_F64, false },
        { { 1, 3, 8, 8, 32, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, WF_F32, false },
        { { 1, 32, 8, 8, 40, 3, 3, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } }, WF_F32, false },
        { { 1, 32, 3, 3, 32, 3, 3, { 1, 1, 0, 0, 0, 0, 1, 1, 1 } }, WF_F32, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        problem p;
        make_problem(&p, &rows[i].s, rows[i].t, true);
        bool accepted = run_once(&plain_emulated, &plain_emulated.forward, &p, &p.y, &p.x, &p.w, 1, false);
        assert_int_equal(accepted, rows[i].taken);
        drop_problem(&p);
    }
}

static int begin(void **state)
{
    (void)state;
    wfi_mem_init(&mem, NULL, NULL, 0);
    for (int i = 1; i <= 3; i++) {
        pools[i] = wfi_pool_new(&mem, i);
    }
    return pools[1] && pools[2] && pools[3] ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    for (int i = 1; i <= 3; i++) {
        wfi_pool_free(pools[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(orders), cmocka_unit_test(cannot_be_split),
                                        cmocka_unit_test(errors), cmocka_unit_test(declines) };
    return cmocka_run_group_tests(tests, begin, end);
}
