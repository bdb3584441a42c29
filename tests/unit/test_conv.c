/* Convolution against plain loops in the documented order, bit for bit: every layout, thread count and instruction set.
 */
#include "windows.h"
#include "kernel/conv/conv.h"
#include "kernel/conv/window.h"

typedef struct isa {
    const char *name;
    const wfi_conv_kernels *k;
    int fma; /* one rounding a step */
} isa;

static int isas(isa *out)
{
    int n = 0;
    out[n++] = (isa){ "portable", &wfi_conv_portable, 0 };
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        out[n++] = (isa){ "avx2", &wfi_conv_avx2, 1 };
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        out[n++] = (isa){ "avx512", &wfi_conv_avx512, 1 };
    }
#endif
    return n;
}

/* One step of a chain in the type that t computes in. */
static double step(double a, double b, double c, wf_dtype t, int use_fma)
{
    if (t == WF_F64) {
        return use_fma ? fma(a, b, c) : a * b + c;
    }
    float x = (float)a, y = (float)b, z = (float)c, xy = x * y;
    return (double)(use_fma ? fmaf(x, y, z) : xy + z);
}

typedef struct problem {
    wfi_conv_attrs at;
    tensor x, w, y, dw; /* dw has w's sizes, y serves as dy */
} problem;

static double *ref_forward(const problem *p, int use_fma)
{
    const wfi_view *x = &p->x.v, *w = &p->w.v, *y = &p->y.v;
    const wfi_conv_attrs *a = &p->at;
    double *out = calloc((size_t)elements(y) + 1, sizeof(double));
    int64_t i = 0, C = x->dim[1], cg = w->dim[1], og = w->dim[0] / a->groups;
    for (int64_t n = 0; n < y->dim[0]; n++)
        for (int64_t o = 0; o < y->dim[1]; o++)
            for (int64_t oy = 0; oy < y->dim[2]; oy++)
                for (int64_t ox = 0; ox < y->dim[3]; ox++) {
                    double acc = 0;
                    for (int64_t ky = 0; ky < w->dim[2]; ky++) {
                        int64_t iy = oy * a->stride_h - a->pad_top + ky * a->dilation_h;
                        if (iy < 0 || iy >= x->dim[2]) {
                            continue;
                        }
                        for (int64_t kx = 0; kx < w->dim[3]; kx++) {
                            int64_t ix = ox * a->stride_w - a->pad_left + kx * a->dilation_w;
                            for (int64_t c = 0; c < cg; c++) {
                                double v =
                                    ix < 0 || ix >= x->dim[3]
                                        ? 0
                                        : p->x.dense[((n * C + o / og * cg + c) * x->dim[2] + iy) * x->dim[3] + ix];
                                acc = step(v, p->w.dense[((o * cg + c) * w->dim[2] + ky) * w->dim[3] + kx], acc,
                                           x->dtype, use_fma);
                            }
                        }
                    }
                    out[i++] = round_to(acc, y->dtype);
                }
    return out;
}

static double *ref_input(const problem *p, int use_fma)
{
    const wfi_view *x = &p->x.v, *w = &p->w.v, *y = &p->y.v;
    const wfi_conv_attrs *a = &p->at;
    double *out = calloc((size_t)elements(x) + 1, sizeof(double));
    int64_t i = 0, cg = w->dim[1], og = w->dim[0] / a->groups;
    for (int64_t n = 0; n < x->dim[0]; n++)
        for (int64_t c = 0; c < x->dim[1]; c++)
            for (int64_t iy = 0; iy < x->dim[2]; iy++)
                for (int64_t ix = 0; ix < x->dim[3]; ix++) {
                    double acc = 0;
                    for (int64_t ky = w->dim[2] - 1; ky >= 0; ky--) {
                        int64_t ty = iy + a->pad_top - ky * a->dilation_h, oy = ty / a->stride_h;
                        if (ty % a->stride_h != 0 || ty < 0 || oy >= y->dim[2]) {
                            continue;
                        }
                        for (int64_t kx = w->dim[3] - 1; kx >= 0; kx--) {
                            int64_t tx = ix + a->pad_left - kx * a->dilation_w, ox = tx / a->stride_w;
                            if (tx % a->stride_w != 0) {
                                continue;
                            }
                            for (int64_t k = 0; k < og; k++) {
                                int64_t o = c / cg * og + k;
                                double v = tx < 0 || ox >= y->dim[3]
                                               ? 0
                                               : p->y.dense[((n * y->dim[1] + o) * y->dim[2] + oy) * y->dim[3] + ox];
                                acc = step(v, p->w.dense[((o * cg + c % cg) * w->dim[2] + ky) * w->dim[3] + kx], acc,
                                           x->dtype, use_fma);
                            }
                        }
                    }
                    out[i++] = round_to(acc, x->dtype);
                }
    return out;
}

static double *ref_weight(const problem *p, int use_fma)
{
    const wfi_view *x = &p->x.v, *w = &p->w.v, *y = &p->y.v;
    const wfi_conv_attrs *a = &p->at;
    double *out = calloc((size_t)elements(w) + 1, sizeof(double));
    int64_t i = 0, C = x->dim[1], cg = w->dim[1], og = w->dim[0] / a->groups;
    for (int64_t o = 0; o < w->dim[0]; o++)
        for (int64_t c = 0; c < cg; c++)
            for (int64_t ky = 0; ky < w->dim[2]; ky++)
                for (int64_t kx = 0; kx < w->dim[3]; kx++) {
                    double sum = 0;
                    for (int64_t n = 0; n < x->dim[0]; n++)
                        for (int64_t b = 0; b < y->dim[2]; b += WFI_CONV_ROWS) {
                            double acc = 0;
                            for (int64_t oy = b; oy < y->dim[2] && oy < b + WFI_CONV_ROWS; oy++) {
                                int64_t iy = oy * a->stride_h - a->pad_top + ky * a->dilation_h;
                                if (iy < 0 || iy >= x->dim[2]) {
                                    continue;
                                }
                                for (int64_t ox = 0; ox < y->dim[3]; ox++) {
                                    int64_t ix = ox * a->stride_w - a->pad_left + kx * a->dilation_w;
                                    int outside = ix < 0 || ix >= x->dim[3];
                                    if (outside && cg >= WFI_CONV_SKIP) {
                                        continue;
                                    }
                                    double v =
                                        outside
                                            ? 0
                                            : p->x.dense[((n * C + o / og * cg + c) * x->dim[2] + iy) * x->dim[3] + ix];
                                    acc = step(v, p->y.dense[((n * y->dim[1] + o) * y->dim[2] + oy) * y->dim[3] + ox],
                                               acc, x->dtype, use_fma);
                                }
                            }
                            sum = x->dtype == WF_F64 ? sum + acc : (double)((float)sum + (float)acc);
                        }
                    out[i++] = round_to(sum, w->dtype);
                }
    return out;
}

/* The forward run once more, with weights packed before. */
static void run_kept(const wfi_conv_kernels *k, const void *params, tensor *out, const tensor *a, const tensor *b,
                     const wfi_run *run, const double *want, const char *what, uint64_t seed)
{
    const size_t bytes = k->keep_bytes(params);
    if (bytes == 0) {
        return;
    }
    char *room = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    assert_non_null(room);
    memset(room, 0xff, bytes);
    memset(room + bytes, 0x55, 64);
    k->keep(params, (void *[]){ NULL, NULL, origin(b), room }, run);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(room[bytes + (size_t)i], 0x55);
    }
    k->run_kept(params, (void *[]){ origin(out), origin(a), NULL, room }, run);
    free(room);
    check_bits(out, want, what, seed);
}

/* Runs one family on out, a, b with 1, 2 and 3 threads and compares. */
static void run_all(const wfi_conv_kernels *k, const wfi_conv_family *f, const problem *p, tensor *out, const tensor *a,
                    const tensor *b, const double *want, const char *what, uint64_t seed)
{
    wfi_mem mem;
    wfi_mem_init(&mem, NULL, NULL, 0);
    for (int threads = 1; threads <= 3; threads++) {
        _Alignas(8) char params[WFI_PARAMS_MAX];
        size_t used = 0, scratch = 0;
        const char *why = f->prepare(&p->at, &a->v, &b->v, &out->v, threads, params, &used, &scratch);
        if (why != NULL) {
            fail_msg("%s: %s (seed %llu)", what, why, (unsigned long long)seed);
        }
        assert_true(used <= WFI_PARAMS_MAX);
        wfi_fault fault = { 0 };
        wfi_run run = { .pool = wfi_pool_new(&mem, threads),
                        .scratch = wfi_mem_alloc(&mem, scratch + 64),
                        .fault = &fault };
        memset(run.scratch, 0xff, scratch);
        memset((char *)run.scratch + scratch, 0x55, 64);
        f->run(params, (void *[]){ origin(out), origin(a), origin(b) }, &run);
        for (int i = 0; i < 64; i++) {
            assert_int_equal(((char *)run.scratch)[scratch + (size_t)i], 0x55);
        }
        check_bits(out, want, what, seed);
        if (f == &k->forward) {
            run_kept(k, params, out, a, b, &run, want, what, seed);
        }
        wfi_pool_free(run.pool);
        wfi_mem_free(&mem, run.scratch);
    }
}

static void run_problem(problem *p, uint64_t seed)
{
    isa set[3];
    int n = isas(set);
    for (int i = 0; i < n; i++) {
        const wfi_conv_kernels *k = set[i].k;
        double *y = ref_forward(p, set[i].fma), *dx = ref_input(p, set[i].fma), *dw = ref_weight(p, set[i].fma);
        char what[400];
        snprintf(
            what, sizeof what, "%s %s x[%d %d %d %d] w[%d %d %d %d] stride %d %d pad %d %d %d %d dil %d %d groups %d",
            set[i].name, wf_dtype_name(p->x.v.dtype), (int)p->x.v.dim[0], (int)p->x.v.dim[1], (int)p->x.v.dim[2],
            (int)p->x.v.dim[3], (int)p->w.v.dim[0], (int)p->w.v.dim[1], (int)p->w.v.dim[2], (int)p->w.v.dim[3],
            (int)p->at.stride_h, (int)p->at.stride_w, (int)p->at.pad_top, (int)p->at.pad_left, (int)p->at.pad_bottom,
            (int)p->at.pad_right, (int)p->at.dilation_h, (int)p->at.dilation_w, (int)p->at.groups);
        tensor out = { .v = p->y.v };
        wfi_view chosen;
        assert_null(k->forward.layout(&p->at, &p->x.v, &p->w.v, &chosen));
        for (int d = 0; d < 4; d++) {
            assert_int_equal(chosen.dim[d], p->y.v.dim[d]);
        }
        for (int l = 0; l < 2; l++) { /* the layout that prepare likes, and some other */
            char name[450];
            enum layout lay = l == 0 ? NHWC : pick(0, 1) ? NCHW : pick(0, 1) ? SLICED : BACKWARDS;
            snprintf(name, sizeof name, "forward %s layout %d", what, lay);
            out.v = p->y.v;
            make(&out, lay);
            run_all(k, &k->forward, p, &out, &p->x, &p->w, y, name, seed);
            drop(&out);
            snprintf(name, sizeof name, "input gradient %s layout %d", what, lay);
            out.v = p->x.v;
            make(&out, lay);
            run_all(k, &k->input_grad, p, &out, &p->y, &p->w, dx, name, seed);
            drop(&out);
            snprintf(name, sizeof name, "weight gradient %s layout %d", what, lay);
            out.v = p->w.v;
            make(&out, lay);
            run_all(k, &k->weight_grad, p, &out, &p->x, &p->y, dw, name, seed);
            drop(&out);
        }
        free(y);
        free(dx);
        free(dw);
    }
}

static double special_value(wf_dtype t)
{
    switch (pick(0, 40)) {
    case 0: return INFINITY;
    case 1: return NAN;
    case 2: return -INFINITY;
    case 3: return round_to(ldexp(any_value(t), t == WF_F64 ? -1060 : t == WF_F16 ? -20 : -140), t);
    default: return any_value(t);
    }
}

static void make_problem(problem *p, const int64_t *s, const wfi_conv_attrs *at, wf_dtype t, int layout,
                         double (*value)(wf_dtype))
{
    int64_t oh = 0, ow = 0; /* s: n, c, h, w, o, kh, kw */
    p->at = *at;
    assert_null(wfi_window_out(
        &(wfi_window){ s[2], s[5], at->stride_h, at->pad_top, at->pad_bottom, at->dilation_h, false }, &oh));
    assert_null(wfi_window_out(
        &(wfi_window){ s[3], s[6], at->stride_w, at->pad_left, at->pad_right, at->dilation_w, false }, &ow));
    p->x.v = (wfi_view){ t, 4, { s[0], s[1], s[2], s[3] }, { 0 } };
    p->w.v = (wfi_view){ t, 4, { s[4], s[1] / at->groups, s[5], s[6] }, { 0 } };
    p->y.v = (wfi_view){ t, 4, { s[0], s[4], oh, ow }, { 0 } };
    make(&p->x, layout < 0 ? (enum layout)pick(0, LAYOUTS - 1) : (enum layout)layout);
    make(&p->w, layout < 0 ? (enum layout)pick(0, LAYOUTS - 1) : NCHW);
    make(&p->y, layout < 0 ? (enum layout)pick(0, LAYOUTS - 1) : NHWC);
    fill(&p->x, value);
    fill(&p->w, value);
    fill(&p->y, value);
}

static void drop_problem(problem *p)
{
    drop(&p->x);
    drop(&p->w);
    drop(&p->y);
}

static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16 };

static void one(int64_t n, int64_t c, int64_t h, int64_t w, int64_t o, int64_t kh, int64_t kw, wfi_conv_attrs at,
                int layout)
{
    problem p;
    make_problem(&p, (int64_t[]){ n, c, h, w, o, kh, kw }, &at, WF_F32, layout, any_value);
    run_problem(&p, 0);
    drop_problem(&p);
}

/* The sizes that networks use, on both sides of the register tiles. */
static void usual_sizes(void **state)
{
    (void)state;
    wfi_conv_attrs same = { 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    for (int layout = NCHW; layout <= NHWC; layout++) {
        one(2, 1, 28, 28, 32, 3, 3, same, layout);
        one(1, 3, 20, 33, 16, 3, 3, same, layout);
        one(1, 32, 14, 14, 64, 3, 3, same, layout);
        one(1, 17, 9, 57, 33, 3, 3, same, layout);
        one(1, 16, 7, 7, 40, 1, 1, (wfi_conv_attrs){ 1, 1, 0, 0, 0, 0, 1, 1, 1 }, layout);
        one(1, 16, 7, 8, 40, 1, 1, (wfi_conv_attrs){ 2, 2, 0, 0, 0, 0, 1, 1, 1 }, layout);
        one(1, 3, 30, 31, 16, 7, 7, (wfi_conv_attrs){ 2, 2, 3, 3, 3, 3, 1, 1, 1 }, layout);
        one(2, 24, 12, 13, 24, 3, 3, (wfi_conv_attrs){ 2, 2, 1, 1, 1, 1, 1, 1, 24 }, layout);
        one(1, 40, 9, 10, 40, 5, 3, (wfi_conv_attrs){ 1, 1, 2, 1, 2, 1, 1, 1, 40 }, layout);
        one(1, 32, 6, 7, 32, 2, 3, (wfi_conv_attrs){ 1, 2, 0, 0, 0, 0, 1, 1, 32 }, layout);
        one(1, 8, 9, 10, 12, 3, 3, (wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 4 }, layout);
        one(3, 4, 1, 50, 6, 1, 5, (wfi_conv_attrs){ 1, 2, 0, 2, 0, 2, 1, 1, 1 }, layout);
        one(1, 2, 3, 600, 3, 1, 1, (wfi_conv_attrs){ 1, 1, 0, 0, 0, 0, 1, 1, 1 }, layout);
        /* images so small that a tile has one pixel of each of several */
        one(17, 20, 4, 4, 40, 3, 3, same, layout);
        one(9, 3, 2, 3, 18, 3, 3, same, layout);
        one(30, 6, 8, 7, 9, 3, 3, (wfi_conv_attrs){ 2, 2, 1, 1, 1, 1, 1, 1, 3 }, layout);
        one(15, 1, 5, 1, 33, 2, 1, same, layout);
    }
    one(1, 1024, 3, 4, 5, 1, 1, (wfi_conv_attrs){ 1, 1, 0, 0, 0, 0, 1, 1, 1 }, NHWC); /* pixels 4 KiB apart */
    one(1, 64, 3, 1100, 2, 2, 3, same, NHWC);                                         /* one row fills a block */
}

/* Weight gradients that are cut among threads: by channels, with a remainder, and by kernel rows. */
static void cut_weight_gradients(void **state)
{
    static const struct {
        int64_t sizes[7];
        wfi_conv_attrs at;
    } cases[] = {
        { { 2, 130, 4, 5, 70, 3, 3 }, { 1, 1, 1, 1, 1, 1, 1, 1, 1 } },
        { { 2, 130, 7, 6, 70, 3, 3 }, { 2, 2, 1, 1, 1, 1, 1, 1, 1 } },
        { { 1, 264, 9, 4, 72, 3, 3 }, { 1, 2, 2, 0, 1, 3, 1, 2, 2 } },
        { { 2, 8, 9, 10, 40, 15, 15 }, { 1, 1, 7, 7, 7, 7, 1, 1, 1 } },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            problem p;
            rng_state = 90 + i * 4 + t;
            make_problem(&p, cases[i].sizes, &cases[i].at, types[t], t == 0 ? NHWC : -1,
                         t == 0 ? any_value : special_value);
            run_problem(&p, rng_state);
            drop_problem(&p);
        }
    }
}

/* dy as it comes from the gradient of a sum or a mean: one pixel again and again. */
static void repeated_dy(void **state)
{
    static const int64_t sizes[][7] = { { 2, 64, 9, 11, 64, 3, 3 },
                                        { 1, 16, 14, 14, 48, 1, 1 },
                                        { 2, 5, 8, 9, 32, 3, 2 } };
    (void)state;
    rng_state = 4;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        problem p;
        make_problem(&p, sizes[i], &(wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, WF_F32, NHWC, any_value);
        wfi_view *y = &p.y.v;
        int64_t pixels = y->dim[2] * y->dim[3];
        for (int64_t k = 0; k < elements(y); k++)
            p.y.dense[k] = p.y.dense[k / pixels % y->dim[1] * pixels];
        y->stride[0] = y->stride[2] = y->stride[3] = 0;
        run_problem(&p, 4);
        drop_problem(&p);
    }
}

static void edge_sizes(void **state)
{
    (void)state;
    one(0, 3, 5, 6, 4, 3, 3, (wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, NHWC); /* no image */
    one(2, 0, 5, 6, 4, 3, 3, (wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, NCHW); /* no channel */
    one(2, 3, 5, 6, 0, 3, 3, (wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, NCHW); /* no output channel */
    one(1, 2, 2, 1, 3, 5, 7, (wfi_conv_attrs){ 1, 1, 2, 3, 2, 3, 1, 1, 1 }, NCHW); /* kernel larger than the input */
    one(1, 2, 0, 3, 3, 2, 2, (wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, NCHW); /* nothing but padding */
    one(1, 2, 3, 0, 3, 2, 2, (wfi_conv_attrs){ 1, 1, 1, 1, 1, 1, 1, 1, 1 }, NHWC);
    one(1, 2, 4, 4, 3, 2, 2, (wfi_conv_attrs){ 5, 5, 3, 3, 4, 4, 1, 1, 1 }, NCHW); /* windows far apart, far outside */
    one(1, 2, 9, 9, 3, 2, 3, (wfi_conv_attrs){ 4, 6, 3, 2, 4, 1, 2, 4, 1 },
        NHWC); /* stride and dilation share factors */
}

static void random_problems(void **state)
{
    uint64_t seed0 = getenv("WEFT_TEST_SEED") ? strtoull(getenv("WEFT_TEST_SEED"), NULL, 10) : 20260801;
    int count = getenv("WEFT_TEST_COUNT") ? atoi(getenv("WEFT_TEST_COUNT")) : 250;
    (void)state;
    printf("seed %llu, %d problems\n", (unsigned long long)seed0, count);
    for (int i = 0; i < count; i++) {
        problem p;
        rng_state = seed0 + (uint64_t)i;
        int64_t groups = pick(0, 2) == 0 ? pick(1, 5) : 1, cg = pick(1, pick(0, 3) ? 6 : 40),
                og = pick(1, pick(0, 3) ? 9 : 70);
        if (pick(0, 7) == 0) {
            groups = pick(2, 40);
            cg = og = 1;
        }
        int64_t kh = pick(1, 4), kw = pick(1, 4), dh = pick(1, pick(1, 3)), dw = pick(1, pick(1, 3));
        wfi_conv_attrs at = {
            pick(1, pick(1, 4)), pick(1, pick(1, 4)), pick(0, 3), pick(0, 3), pick(0, 3), pick(0, 3), dh, dw, groups
        };
        int64_t h = pick(1, 12), w = pick(1, pick(0, 3) ? 12 : 40);
        h = h + at.pad_top + at.pad_bottom < (kh - 1) * dh + 1 ? (kh - 1) * dh + 1 : h;
        w = w + at.pad_left + at.pad_right < (kw - 1) * dw + 1 ? (kw - 1) * dw + 1 : w;
        make_problem(&p, (int64_t[]){ pick(0, 3), groups * cg, h, w, groups * og, kh, kw }, &at, types[pick(0, 5) % 4],
                     -1, pick(0, 3) ? any_value : special_value);
        run_problem(&p, seed0 + (uint64_t)i);
        drop_problem(&p);
    }
}

/* Both gradients against the forward definition turned round, in f64 and any order. */
static void gradients_are_adjoint(void **state)
{
    (void)state;
    for (int i = 0; i < 30; i++) {
        problem p;
        rng_state = 77 + (uint64_t)i;
        int64_t g = pick(1, 3), kh = pick(1, 3), kw = pick(1, 3);
        wfi_conv_attrs at = { pick(1, 3), pick(1, 3), pick(0, 2), pick(0, 2), pick(0, 2),
                              pick(0, 2), pick(1, 2), pick(1, 2), g };
        make_problem(&p, (int64_t[]){ 2, g * 2, pick(5, 9), pick(5, 9), g * 3, kh, kw }, &at, WF_F64, NCHW, any_value);
        const wfi_view *x = &p.x.v, *w = &p.w.v, *y = &p.y.v;
        double *dx = ref_input(&p, 1), *dw = ref_weight(&p, 1), *out = ref_forward(&p, 1), *got[2] = { dx, dw };
        double yy = 0, xx = 0, ww = 0;
        for (int64_t e = 0; e < elements(y); e++) {
            yy += out[e] * p.y.dense[e];
        }
        for (int64_t e = 0; e < elements(x); e++) {
            xx += got[0][e] * p.x.dense[e];
        }
        for (int64_t e = 0; e < elements(w); e++) {
            ww += got[1][e] * p.w.dense[e];
        }
        assert_true(fabs(yy - xx) <= 1e-11 * (1 + fabs(yy))); /* <dy, conv(x, w)> = <dx, x> = <dw, w> */
        assert_true(fabs(yy - ww) <= 1e-11 * (1 + fabs(yy)));
        free(dx);
        free(dw);
        free(out);
        drop_problem(&p);
    }
}

static void bad_operands(void **state)
{
    (void)state;
    wfi_conv_attrs at = { 1, 1, 0, 0, 0, 0, 1, 1, 1 };
    wfi_view x = { WF_F32, 4, { 1, 4, 5, 6 }, { 120, 30, 6, 1 } }, w = { WF_F32, 4, { 8, 4, 3, 3 }, { 36, 9, 3, 1 } },
             y;
    wfi_conv_layout_fn *layout = wfi_conv_portable.forward.layout;
    assert_null(layout(&at, &x, &w, &y));
    assert_int_equal(y.dim[2], 3);
    assert_int_equal(y.dim[3], 4);
    assert_int_equal(y.stride[1], 1);
    w.dim[2] = 6;
    assert_string_equal(layout(&at, &x, &w, &y), WFI_WINDOW_BELOW_1);
    w.dim[2] = 3;
    at.groups = 3;
    assert_non_null(layout(&at, &x, &w, &y));
    at.groups = 1;
    w.dtype = WF_F64;
    assert_non_null(layout(&at, &x, &w, &y));
    w.dtype = WF_F32;
    at.stride_h = 0;
    assert_non_null(layout(&at, &x, &w, &y));
    at.stride_h = 1;
    at.pad_top = INT64_MAX;
    assert_non_null(layout(&at, &x, &w, &y));
    at.pad_top = -1;
    assert_non_null(layout(&at, &x, &w, &y));
    at.pad_top = 0;
    at.dilation_w = INT64_MAX;
    assert_non_null(layout(&at, &x, &w, &y));
}

static void window_sizes(void **state)
{
    static const struct {
        wfi_window w;
        int64_t out; /* 0: an error */
    } rows[] = {
        { { 6, 1, 2, 0, 0, 1, true }, 3 },    { { 7, 1, 2, 0, 0, 1, true }, 4 },
        { { 32, 1, 2, 0, 0, 1, true }, 16 },  { { 8, 3, 4, 0, 0, 1, true }, 2 },
        { { 10, 3, 4, 0, 0, 1, true }, 3 },   { { 5, 3, 3, 1, 1, 1, true }, 2 },
        { { 1, 4, 1, 0, 0, 1, true }, 0 },    { { 1, 4, 1, 0, 0, 1, false }, 0 },
        { { 28, 2, 2, 0, 0, 1, false }, 14 }, { { 0, 1, 1, 0, 0, 1, false }, 0 },
        { { 2, 3, 2, 0, 0, 1, true }, 1 },    { { 5, 2, 1, 0, 0, 4, false }, 1 },
        { { 5, 2, 1, 0, 0, 5, false }, 0 },   { { INT64_MAX, 1, 1, 1, 1, 1, false }, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t out = 0;
        const char *why = wfi_window_out(&rows[i].w, &out);
        assert_int_equal(out, rows[i].out);
        assert_true((why == NULL) == (rows[i].out > 0));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_sizes), cmocka_unit_test(bad_operands),          cmocka_unit_test(repeated_dy),
        cmocka_unit_test(edge_sizes),   cmocka_unit_test(gradients_are_adjoint), cmocka_unit_test(random_problems),
        cmocka_unit_test(usual_sizes),  cmocka_unit_test(cut_weight_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
