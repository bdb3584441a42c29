/* Gather, scatter-add and one-hot against plain loops: all layouts, types, threads; wrong indices. */
#include "layouts.h"
#include "kernel/index/index.h"

static const wfi_index_kernels *const tables[ISAS] = ISA_TABLES(wfi_index);
static const wf_dtype types[] = { WF_F32, WF_F64, WF_BF16, WF_F16, WF_I64, WF_I32, WF_U8, WF_BOOL };

static double sample(wf_dtype t)
{
    switch (t) {
    case WF_I64:
    case WF_I32: return (double)(random_below(2000) - 1000);
    case WF_U8: return (double)random_below(256);
    case WF_BOOL: return (double)random_below(2);
    default: return random_real();
    }
}

/* a + b as type t adds; 16-bit floats are rounded at the end only. */
static double plus(wf_dtype t, double a, double b)
{
    switch (t) {
    case WF_U8: return (double)(((int)a + (int)b) & 255);
    case WF_BOOL: return a != 0 || b != 0;
    case WF_F32:
    case WF_BF16:
    case WF_F16: return (double)(float)(a + b);
    default: return a + b;
    }
}

static tensor filled(wf_dtype t, wf_dims s, enum layout l)
{
    tensor r = tensor_new(t, s, l);
    for (int64_t i = 0; i < elements(&r.v); i++) {
        set(&r, i, sample(t));
    }
    return r;
}

static tensor indices(wf_dims s, enum layout l, int64_t size)
{
    tensor r = tensor_new(random_below(2) ? WF_I64 : WF_I32, s, l);
    for (int64_t i = 0; i < elements(&r.v); i++) {
        set(&r, i, (double)random_below(size));
    }
    return r;
}

/* Runs on every instruction set and number of threads and compares with want. */
static void compare(wfi_index_spec s, void *const *args, tensor *y, const double *want)
{
    for (int isa = 0; isa < ISAS; isa++) {
        for (int threads = 1; threads <= 3 && has_isa(isa); threads++) {
            char params[WFI_PARAMS_MAX];
            size_t scratch;
            s.threads = threads;
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            wfi_fault f = run_kernel(tables[isa]->run, params, args, scratch, threads);
            assert_int_equal(f.set, 0);
            for (int64_t i = 0; i < elements(&y->v); i++) {
                assert_true(same(get(y, i), want[i]));
            }
            check_guard(y);
        }
    }
}

static wf_dims joined(wf_dims a, wf_dims b, int from)
{
    for (int d = from; d < b.n; d++) {
        a.d[a.n++] = b.d[d];
    }
    return a;
}

static void check_rows(wf_dtype t, wf_dims places, wf_dims table, enum layout l)
{
    wf_dims s = joined(places, table, 1);
    tensor w = filled(t, table, l), index = indices(places, (enum layout)random_below(LAYOUTS), table.d[0]);
    tensor y = tensor_new(t, s, (enum layout)random_below(LAYOUTS)), dy = filled(t, s, l);
    int64_t n = elements(&y.v), inner = elements(&w.v) / table.d[0];
    double *want = malloc((size_t)n * sizeof *want), *sums = calloc((size_t)elements(&w.v), sizeof *sums);
    for (int64_t i = 0; i < n; i++) {
        want[i] = get(&w, (int64_t)get(&index, i / inner) * inner + i % inner);
    }
    compare((wfi_index_spec){ .kind = WFI_INDEX_ROWS, .v = { &y.v, &w.v, &index.v } },
            (void *[]){ y.at, w.at, index.at }, &y, want);
    tensor dw = tensor_new(t, table, (enum layout)random_below(LAYOUTS));
    for (int base = 0; base < 2; base++) {
        for (int64_t i = 0; i < elements(&w.v); i++) {
            sums[i] = base ? get(&w, i) : 0;
        }
        for (int64_t i = 0; i < n; i++) {
            double *at = &sums[(int64_t)get(&index, i / inner) * inner + i % inner];
            *at = plus(t, *at, get(&dy, i));
        }
        for (int64_t i = 0; i < elements(&w.v); i++) {
            sums[i] = as_type(t, sums[i]);
        }
        compare((wfi_index_spec){ .kind = WFI_INDEX_ADD_ROWS, .v = { &dw.v, base ? &w.v : NULL, &dy.v, &index.v } },
                (void *[]){ dw.at, base ? w.at : NULL, dy.at, index.at }, &dw, sums);
    }
    tensor_free(&w), tensor_free(&index), tensor_free(&y), tensor_free(&dy), tensor_free(&dw);
    free(want), free(sums);
}

static void test_rows(void **state)
{
    (void)state;
    random_state = 31337;
    print_message("seed %llu\n", (unsigned long long)random_state);
    for (int t = 0; t < 8; t++) {
        for (int l = 0; l < LAYOUTS; l++) {
            check_rows(types[t], WF_DIMS(5, 9), WF_DIMS(11, 33), (enum layout)l);
            check_rows(types[t], WF_DIMS(40), WF_DIMS(7, 3, 2), (enum layout)l);
            check_rows(types[t], WF_DIMS(2, 3, 4), WF_DIMS(13), (enum layout)l);
            check_rows(types[t], WF_NO_DIMS, WF_DIMS(3, 5), (enum layout)l);
        }
    }
    check_rows(WF_F32, WF_DIMS(300), WF_DIMS(50, 700), ROWS); /* more than a piece a row, more than a chunk */
    check_rows(WF_BF16, WF_DIMS(200), WF_DIMS(3, 513), ROWS);
}

static void check_lines(wf_dtype t, wf_dims s, int axis, int64_t size, enum layout l)
{
    wf_dims table = s;
    table.d[axis] = size;
    tensor x = filled(t, table, l), index = indices(s, (enum layout)random_below(LAYOUTS), size);
    tensor y = tensor_new(t, s, (enum layout)random_below(LAYOUTS)), dy = filled(t, s, l);
    tensor dx = tensor_new(t, table, (enum layout)random_below(LAYOUTS));
    int64_t n = elements(&y.v), after = 1;
    for (int d = axis + 1; d < s.n; d++) {
        after *= s.d[d];
    }
    double *want = malloc((size_t)n * sizeof *want), *sums = malloc((size_t)elements(&x.v) * sizeof *sums);
    for (int64_t i = 0; i < n; i++) {
        want[i] = get(&x, (i / after / s.d[axis] * size + (int64_t)get(&index, i)) * after + i % after);
    }
    compare((wfi_index_spec){ .kind = WFI_INDEX_TAKE, .axis = axis, .v = { &y.v, &x.v, &index.v } },
            (void *[]){ y.at, x.at, index.at }, &y, want);
    for (int base = 0; base < 2; base++) {
        for (int64_t i = 0; i < elements(&x.v); i++) {
            sums[i] = base ? get(&x, i) : 0;
        }
        for (int64_t i = 0; i < n; i++) {
            double *at = &sums[(i / after / s.d[axis] * size + (int64_t)get(&index, i)) * after + i % after];
            *at = plus(t, *at, get(&dy, i));
        }
        for (int64_t i = 0; i < elements(&x.v); i++) {
            sums[i] = as_type(t, sums[i]);
        }
        compare((wfi_index_spec){ .kind = WFI_INDEX_ADD_TAKEN,
                                  .axis = axis,
                                  .v = { &dx.v, base ? &x.v : NULL, &dy.v, &index.v } },
                (void *[]){ dx.at, base ? x.at : NULL, dy.at, index.at }, &dx, sums);
    }
    tensor_free(&x), tensor_free(&index), tensor_free(&y), tensor_free(&dy), tensor_free(&dx);
    free(want), free(sums);
}

static void test_lines(void **state)
{
    (void)state;
    random_state = 4242;
    for (int t = 0; t < 8; t++) {
        for (int l = 0; l < LAYOUTS; l++) {
            check_lines(types[t], WF_DIMS(6, 10), 1, 17, (enum layout)l);
            check_lines(types[t], WF_DIMS(9, 6), 0, 4, (enum layout)l);
            check_lines(types[t], WF_DIMS(3, 5, 2, 4), 1, 3, (enum layout)l);
        }
    }
    check_lines(WF_F32, WF_DIMS(5000), 0, 3, ROWS);
    check_lines(WF_F16, WF_DIMS(300, 40), 1, 100, ROWS);
}

static void test_one_hot(void **state)
{
    (void)state;
    random_state = 7;
    for (int t = 0; t < 8; t++) {
        for (int l = 0; l < LAYOUTS; l++) {
            tensor index = indices(WF_DIMS(7, 5), (enum layout)l, 10);
            tensor y = tensor_new(types[t], WF_DIMS(7, 5, 10), (enum layout)l);
            double want[350];
            for (int i = 0; i < 350; i++) {
                want[i] = get(&index, i / 10) == i % 10;
            }
            compare((wfi_index_spec){ .kind = WFI_INDEX_ONE_HOT, .v = { &y.v, &index.v } },
                    (void *[]){ y.at, index.at }, &y, want);
            tensor_free(&index), tensor_free(&y);
        }
    }
}

/* C18: index 6 of 5, and -1: the fault says what and where, the element is skipped, nothing else is touched. */
static void test_faults(void **state)
{
    (void)state;
    static const double bad[] = { 6, 5, -1, -4e9, 9e15 };
    for (int isa = 0; isa < ISAS; isa++) {
        for (int k = 0; k < WFI_INDEX_COUNT && has_isa(isa); k++) {
            for (int b = 0; b < 5; b++) {
                random_state = 5;
                bool rows = k == WFI_INDEX_ROWS || k == WFI_INDEX_ADD_ROWS,
                     adds = k == WFI_INDEX_ADD_ROWS || k == WFI_INDEX_ADD_TAKEN;
                wf_dims s = k == WFI_INDEX_ONE_HOT ? WF_DIMS(4, 5) : rows ? WF_DIMS(4, 3) : WF_DIMS(4);
                wf_dims table = rows ? WF_DIMS(5, 3) : WF_DIMS(5);
                tensor index = tensor_new(WF_I64, WF_DIMS(4), ROWS), x = filled(WF_F32, adds ? s : table, ROWS);
                tensor y = tensor_new(WF_F32, adds ? table : s, ROWS);
                for (int i = 0; i < 4; i++) {
                    set(&index, i, i == 2 ? bad[b] : i);
                }
                wfi_index_spec spec = { .kind = (wfi_index_kind)k, .threads = 2, .v = { &y.v, &x.v, &index.v } };
                void *args[4] = { y.at, x.at, index.at };
                if (adds) {
                    spec = (wfi_index_spec){ .kind = (wfi_index_kind)k,
                                             .threads = 2,
                                             .v = { &y.v, NULL, &x.v, &index.v } };
                    args[1] = NULL, args[2] = x.at, args[3] = index.at;
                } else if (k == WFI_INDEX_ONE_HOT) {
                    spec.v[1] = &index.v, spec.v[2] = NULL;
                    args[1] = index.at;
                }
                char params[WFI_PARAMS_MAX];
                size_t scratch;
                assert_null(tables[isa]->prepare(&spec, params, &scratch));
                wfi_fault f = run_kernel(tables[isa]->run, params, args, scratch, 2);
                assert_true(f.set && f.status == WF_ERR_INDEX && f.position == 2 && f.size == 5);
                assert_true((double)f.value == bad[b]);
                int64_t width = elements(&y.v) / (adds ? 5 : 4);
                for (int64_t i = 0; i < elements(&y.v); i++) {
                    double want = k == WFI_INDEX_ONE_HOT ? i / 5 == i % 5 : i / width == 4 ? 0 : get(&x, i);
                    assert_true(get(&y, i) == (i / width == 2 ? 0 : want));
                }
                check_guard(&y);
                tensor_free(&index), tensor_free(&x), tensor_free(&y);
            }
        }
    }
}

/* Moving works for any type, also those that are stored only; nothing to do is no error. */
static void test_edges(void **state)
{
    (void)state;
    uint16_t w[6] = { 10, 11, 20, 21, 30, 31 }, y[4] = { 0 };
    int32_t index[2] = { 2, 0 };
    wfi_view vw = { WF_U16, 2, { 3, 2 }, { 2, 1 } }, vi = { WF_I32, 1, { 2 }, { 1 } },
             vy = { WF_U16, 2, { 2, 2 }, { 2, 1 } };
    wfi_view none = { WF_I32, 1, { 0 }, { 1 } }, vy0 = { WF_U16, 2, { 0, 2 }, { 2, 1 } };
    wfi_view dw = { WF_F32, 2, { 3, 2 }, { 2, 1 } }, dy0 = { WF_F32, 2, { 0, 2 }, { 2, 1 } };
    float sums[6] = { 1, 1, 1, 1, 1, 1 };
    char params[WFI_PARAMS_MAX];
    size_t scratch;
    for (int isa = 0; isa < ISAS; isa++) {
        if (has_isa(isa)) {
            wfi_index_spec s = { .kind = WFI_INDEX_ROWS, .threads = 1, .v = { &vy, &vw, &vi } };
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            run_kernel(tables[isa]->run, params, (void *[]){ y, w, index }, scratch, 1);
            assert_true(y[0] == 30 && y[1] == 31 && y[2] == 10 && y[3] == 11);
            s.v[0] = &vy0, s.v[2] = &none;
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            run_kernel(tables[isa]->run, params, (void *[]){ y, w, index }, scratch, 1);
            s = (wfi_index_spec){ .kind = WFI_INDEX_ADD_ROWS, .threads = 1, .v = { &dw, NULL, &dy0, &none } };
            assert_null(tables[isa]->prepare(&s, params, &scratch));
            run_kernel(tables[isa]->run, params, (void *[]){ sums, NULL, w, index }, scratch, 1);
            assert_true(sums[0] == 0 && sums[5] == 0);
        }
    }
    wfi_index_spec s = { .kind = WFI_INDEX_ADD_ROWS, .threads = 1, .v = { &vw, NULL, &vy, &vi } };
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* u16 cannot be added */
    s = (wfi_index_spec){ .kind = WFI_INDEX_ROWS, .threads = 1, .v = { &vy, &vw, &vw } };
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* no index type */
    s.v[2] = &none;
    assert_non_null(tables[0]->prepare(&s, params, &scratch)); /* sizes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),   cmocka_unit_test(test_lines), cmocka_unit_test(test_one_hot),
        cmocka_unit_test(test_faults), cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, pools_up, pools_down);
}
