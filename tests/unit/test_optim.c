/* Optimiser steps: three steps as PyTorch takes them, bits against plain loops, all layouts, types and threads. */
#include "layouts.h"
#include "kernel/optim/optim.h"

static const wfi_optim_kernels *const tables[ISAS] = ISA_TABLES(wfi_optim);
static const wfi_view scalars_view = { WF_F64, 1, { 8 }, { 1 } };
enum { SLOTS = WFI_OPTIM_SLOTS };

/* args: one for each slot */
static void run_step(int isa, wfi_optim_spec s, void *const *args, int threads)
{
    char params[WFI_PARAMS_MAX];
    void *given[SLOTS];
    size_t scratch;
    for (int i = 0, n = 0; i < SLOTS; i++) {
        if (s.v[i]) {
            given[n++] = args[i];
        }
    }
    s.threads = threads;
    assert_null(tables[isa]->prepare(&s, params, &scratch));
    run_kernel(tables[isa]->run, params, given, scratch, threads);
}

/* Values from torch 2.15, float64: w, gradient of step t (from 0) = (0.1 * (t + 1), -0.2, 0, 3 - t). */
static const double start[4] = { 0.5, -1.25, 2.0, 1e-3 };
static const double torch_adamw[4] = { 0.46950611419062671, -1.2162837402485007, 1.994005998, -0.027791217861833174 };
static const double torch_momentum[4] = { 0.40215538949999996, -1.1308894787500001, 1.9887895980000001,
                                          -1.2906659052010003 };
static const double torch_nesterov[4] = { 0.35056756198049993, -1.07925414924625, 1.983929802282, -1.7588986927988592 };
static const double torch_sgd[4] = { 0.43999999999999995, -1.1899999999999999, 2, -0.59900000000000009 };

static void three_steps(int isa, wfi_optim_kind kind, bool momentum, bool nesterov, const double *lr8,
                        const double *want)
{
    double w[4], m[4] = { 0 }, v[4] = { 0 }, g[4], weight = 2, s[8];
    wfi_view line = { WF_F64, 1, { 4 }, { 1 } }, one = { WF_F64, 0, { 0 }, { 0 } };
    memcpy(w, start, sizeof w);
    for (int t = 0; t < 3; t++) {
        double step[4] = { 0.1 * (t + 1), -0.2, 0, 3.0 - t };
        for (int i = 0; i < 4; i++) {
            g[i] = 2 * step[i]; /* a sum over weight 2 */
        }
        memcpy(s, lr8, sizeof s);
        s[5] = 1 - pow(s[1], t + 1), s[6] = 1 - pow(s[2], t + 1);
        if (kind == WFI_OPTIM_ADAMW) {
            wfi_optim_spec spec = { .kind = kind,
                                    .v = { &line, &line, &line, &line, &line, &line, &line, &one, &scalars_view } };
            run_step(isa, spec, (void *[SLOTS]){ w, m, v, w, m, v, g, &weight, s }, 1);
        } else {
            const wfi_view *b = momentum ? &line : NULL;
            wfi_optim_spec spec = { .kind = kind,
                                    .nesterov = nesterov,
                                    .v = { &line, b, &line, b, &line, &one, &scalars_view } };
            run_step(isa, spec, (void *[SLOTS]){ w, m, w, m, g, &weight, s }, 1);
        }
    }
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(w[i] - want[i]) <= 1e-14);
    }
}

static void test_torch(void **state)
{
    (void)state;
    const double adamw[8] = { 1e-2, 0.9, 0.95, 1e-8, 0.1 }, sgd[8] = { 0.1, 0.9, 0.01 }, plain[8] = { 0.1 };
    for (int isa = 0; isa < ISAS; isa++) {
        if (has_isa(isa)) {
            three_steps(isa, WFI_OPTIM_ADAMW, true, false, adamw, torch_adamw);
            three_steps(isa, WFI_OPTIM_SGD, true, false, sgd, torch_momentum);
            three_steps(isa, WFI_OPTIM_SGD, true, true, sgd, torch_nesterov);
            three_steps(isa, WFI_OPTIM_SGD, false, false, plain, torch_sgd);
        }
    }
}

/* ---- plain loops in f32 ---- */

static float fused(int isa, float a, float b, float c)
{
    return isa ? fmaf(a, b, c) : a * b + c;
}

typedef struct element {
    float w, m, v, g;
} element;

static element expected(int isa, wfi_optim_kind kind, bool momentum, bool nesterov, element e, const double *s,
                        float weight)
{
    float g = e.g / weight;
    if (kind == WFI_OPTIM_ADAMW) {
        float root = (float)(1 / sqrt(s[6])), step = (float)(-s[0] / s[5]);
        e.m = fused(isa, g - e.m, (float)(1 - s[1]), e.m);
        e.v = fused(isa, e.v, (float)s[2], (float)(1 - s[2]) * (g * g));
        e.w = fused(isa, e.m / fused(isa, sqrtf(e.v), root, (float)s[3]), step, e.w * (float)(1 - s[0] * s[4]));
        return e;
    }
    float d = fused(isa, e.w, (float)s[2], g);
    if (momentum) {
        e.m = fused(isa, e.m, (float)s[1], d);
        d = nesterov ? fused(isa, e.m, (float)s[1], d) : e.m;
    }
    e.w = fused(isa, d, (float)-s[0], e.w);
    return e;
}

static double sample(int operand)
{
    double x = random_real();
    return operand == 2 ? x * x : x;
}

/* Operands w, m, v, g with types by tw (w, g) and ts (state); in place or not. */
static void check(wfi_optim_kind kind, bool momentum, bool nesterov, wf_dtype tw, wf_dtype ts, wf_dims dims,
                  enum layout l, bool in_place, double weight_value)
{
    const double s[8] = { 0.01, 0.9, kind == WFI_OPTIM_ADAMW ? 0.999 : 0.05, 1e-8, 0.02, 1 - 0.9, 1 - 0.999 };
    for (int isa = 0; isa < ISAS; isa++) {
        for (int threads = 1; threads <= 3 && has_isa(isa); threads++) {
            tensor t[4], r[3], *out[3];
            random_state = 17;
            for (int k = 0; k < 4; k++) {
                t[k] = tensor_new(k == 0 || k == 3 ? tw : ts, dims, k == 3 ? (enum layout)((l + 1) % LAYOUTS) : l);
                for (int64_t i = 0; i < elements(&t[k].v); i++) {
                    set(&t[k], i, sample(k));
                }
            }
            for (int k = 0; k < 3; k++) {
                r[k] = tensor_new(t[k].v.dtype, dims, l);
                out[k] = in_place ? &t[k] : &r[k];
            }
            int64_t n = elements(&t[0].v);
            element *want = malloc((size_t)n * sizeof *want);
            for (int64_t i = 0; i < n; i++) {
                want[i] =
                    (element){ (float)get(&t[0], i), (float)get(&t[1], i), (float)get(&t[2], i), (float)get(&t[3], i) };
                want[i] = weight_value == 0 ? want[i]
                                            : expected(isa, kind, momentum, nesterov, want[i], s, (float)weight_value);
            }
            float weight = (float)weight_value;
            wfi_view one = { WF_F32, 1, { 1 }, { 1 } };
            if (kind == WFI_OPTIM_ADAMW) {
                wfi_optim_spec spec = { .kind = kind,
                                        .v = { &out[0]->v, &out[1]->v, &out[2]->v, &t[0].v, &t[1].v, &t[2].v, &t[3].v,
                                               &one, &scalars_view } };
                run_step(isa, spec,
                         (void *[SLOTS]){ out[0]->at, out[1]->at, out[2]->at, t[0].at, t[1].at, t[2].at, t[3].at,
                                          &weight, (void *)(uintptr_t)s },
                         threads);
            } else {
                wfi_optim_spec spec = { .kind = kind,
                                        .nesterov = nesterov,
                                        .v = { &out[0]->v, momentum ? &out[1]->v : NULL, &t[0].v,
                                               momentum ? &t[1].v : NULL, &t[3].v, &one, &scalars_view } };
                run_step(isa, spec,
                         (void *[SLOTS]){ out[0]->at, momentum ? out[1]->at : NULL, t[0].at, momentum ? t[1].at : NULL,
                                          t[3].at, &weight, (void *)(uintptr_t)s },
                         threads);
            }
            for (int64_t i = 0; i < n; i++) {
                assert_true(same(get(out[0], i), as_type(tw, (double)want[i].w)));
                assert_true(!momentum || same(get(out[1], i), as_type(ts, (double)want[i].m)));
                assert_true(kind != WFI_OPTIM_ADAMW || same(get(out[2], i), as_type(ts, (double)want[i].v)));
            }
            for (int k = 0; k < 4; k++) {
                check_guard(&t[k]);
                tensor_free(&t[k]);
                if (k < 3) {
                    tensor_free(&r[k]);
                }
            }
            free(want);
        }
    }
}

static void test_bits(void **state)
{
    (void)state;
    static const wf_dtype types[][2] = {
        { WF_F32, WF_F32 }, { WF_BF16, WF_F32 }, { WF_F16, WF_F32 }, { WF_BF16, WF_BF16 }
    };
    static const double weights[] = { 1, 3, 0 };
    for (int mode = 0; mode < 4; mode++) {
        for (int t = 0; t < 4; t++) {
            for (int l = 0; l < LAYOUTS; l++) {
                check(mode == 0 ? WFI_OPTIM_ADAMW : WFI_OPTIM_SGD, mode < 3, mode == 2, types[t][0], types[t][1],
                      l % 2 ? WF_DIMS(3, 5, 7) : WF_DIMS(37, 41), (enum layout)l, t % 2, weights[(l + t) % 3]);
            }
        }
        for (int64_t n = 1; n < 70; n += 3) {
            check(mode == 0 ? WFI_OPTIM_ADAMW : WFI_OPTIM_SGD, mode < 3, mode == 2, WF_F32, WF_F32, WF_DIMS(n), ROWS,
                  n % 2, 1.5);
        }
    }
    check(WFI_OPTIM_ADAMW, true, false, WF_F32, WF_F32, WF_DIMS(90001), ROWS, true, 64);
    check(WFI_OPTIM_SGD, true, false, WF_BF16, WF_F32, WF_DIMS(300, 301), LAST, false, 64);
}

/* ---- lists ---- */

/* One list of parameters of many sizes, types and optimisers gives the bits that each gives alone. */
static void test_list(void **state)
{
    (void)state;
    static const int64_t sizes[] = { 33, 0, 1, 16383, 16384, 70001, 5, 4096, 16000, 2000, 16 };
    enum { N = sizeof sizes / sizeof *sizes };
    const double s[8] = { 0.01, 0.9, 0.999, 1e-8, 0.02, 1 - 0.9, 1 - 0.999, 3 };
    for (int isa = 0; isa < ISAS; isa++) {
        for (int threads = 1; threads <= 3 && has_isa(isa); threads++) {
            static char params[N][WFI_PARAMS_MAX];
            tensor t[N][2][4];
            void *args[N][2][SLOTS];
            wfi_kernel_item item[N];
            size_t scratch = 0, most = 0;
            random_state = 99;
            for (int i = 0; i < N; i++) {
                const bool adamw = i % 2;
                for (int k = 0; k < 4; k++) { /* w, m, v, g */
                    wf_dtype type = i % 3 == 2 && (k == 0 || k == 3) ? WF_BF16 : WF_F32;
                    for (int copy = 0; copy < 2; copy++) {
                        t[i][copy][k] = tensor_new(type, WF_DIMS(sizes[i]), ROWS);
                    }
                    for (int64_t e = 0; e < sizes[i]; e++) {
                        double x = sample(k);
                        set(&t[i][0][k], e, x);
                        set(&t[i][1][k], e, x);
                    }
                }
                const wfi_view *w = &t[i][0][0].v, *m = &t[i][0][1].v, *v = &t[i][0][2].v, *g = &t[i][0][3].v;
                wfi_optim_spec spec = { .kind = WFI_OPTIM_SGD,
                                        .threads = threads,
                                        .no_decay = i % 4 < 2,
                                        .v = { w, NULL, w, NULL, g, NULL, &scalars_view } };
                const wfi_view *const all[SLOTS] = { w, m, v, w, m, v, g, NULL, &scalars_view };
                if (adamw) {
                    spec.kind = WFI_OPTIM_ADAMW;
                    memcpy(spec.v, all, sizeof all);
                }
                assert_null(tables[isa]->prepare(&spec, params[i], &scratch));
                most = scratch > most ? scratch : most;
                for (int copy = 0; copy < 2; copy++) {
                    const tensor *x = t[i][copy];
                    void *const a[SLOTS] = { x[0].at, x[1].at, x[2].at, x[0].at,
                                             x[1].at, x[2].at, x[3].at, (void *)(uintptr_t)s };
                    void *const b[SLOTS] = { x[0].at, x[0].at, x[3].at, (void *)(uintptr_t)s };
                    memcpy(args[i][copy], adamw ? a : b, sizeof a);
                }
                item[i] = (wfi_kernel_item){ params[i], args[i][0] };
                run_kernel(tables[isa]->run, params[i], args[i][1], scratch, 1);
            }
            run_kernel(tables[isa]->run_list, &(wfi_kernel_list){ item, N }, NULL, most, threads);
            for (int i = 0; i < N; i++) {
                for (int k = 0; k < 4; k++) {
                    for (int64_t e = 0; e < sizes[i]; e++) {
                        assert_true(same(get(&t[i][0][k], e), get(&t[i][1][k], e)));
                    }
                    for (int copy = 0; copy < 2; copy++) {
                        check_guard(&t[i][copy][k]);
                        tensor_free(&t[i][copy][k]);
                    }
                }
            }
        }
    }
}

static void test_edges(void **state)
{
    (void)state;
    wfi_view f = { WF_F32, 1, { 4 }, { 1 } }, i = { WF_I64, 1, { 4 }, { 1 } }, n = { WF_F32, 1, { 0 }, { 1 } };
    wfi_view one = { WF_I64, 0, { 0 }, { 0 } };
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    wfi_optim_spec s = { .kind = WFI_OPTIM_SGD, .threads = 1, .v = { &f, NULL, &f, NULL, &i, &one, &scalars_view } };
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* an integer gradient */
    s.v[4] = &n;
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* sizes */
    s.v[4] = &f, s.v[5] = &f;
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* four weights */
    s.v[5] = &one, s.v[1] = &f;
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* half a momentum */
    s.v[1] = NULL, s.v[0] = s.v[2] = s.v[4] = &n;
    assert_null(tables[0]->prepare(&s, params, &scratch));
    int64_t weight = 1;
    double s8[8] = { 0 };
    run_kernel(tables[0]->run, params, (void *[SLOTS]){ NULL, NULL, NULL, &weight, s8 }, scratch, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_torch), cmocka_unit_test(test_bits),
                                        cmocka_unit_test(test_list), cmocka_unit_test(test_edges) };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
