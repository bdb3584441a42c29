/* Commands that run strip by strip: the plan's text, the same bits as eager and as one command after the other, for
 * any number of threads, random programs over rows, and a checker that finds every kind of damage.
 *
 *     test_strip [--count N] [--seed S] */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "record/record.h"
#include "plan/plan.h"

enum { ELEMENTS = 400 << 10, SIZES = 5, POOL = 24 };

static float *numbers;
static uint64_t first_seed = 1;
static int count = 40;

static wf_ctx *open_ctx(wf_mode mode, int threads)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = mode, .threads = threads });
    assert_non_null(c);
    return c;
}

/* ---- the text ---- */

/* A root mean square norm, as somebody writes it who has none. */
static wf_tensor *rms_norm(wf_ctx *c, wf_tensor *x, wf_tensor *g)
{
    wf_tensor *m = wf_mean(wf_mul(x, x), WF_DIMS(-1), .keep = true);
    return wf_mul(wf_mul(x, wf_rsqrt(wf_add(m, wf_scalar(c, 1e-5)))), g);
}

static void golden(void **state)
{
    (void)state;
    wf_ctx *c = open_ctx(WF_LAZY, 1);
    wf_var *x = wf_var_new(c, "x", WF_F32, WF_DIMS(512, 256), numbers);
    wf_var *g = wf_var_new(c, "g", WF_F32, WF_DIMS(256), numbers);
    for (int i = 0; i < 3; i++) {
        wf_scope s = wf_scope_begin(c, "norm");
        wf_tensor *value = wf_value(x);
        wf_retain(c, rms_norm(c, value, wf_value(g)));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    wfi_text t = { .mem = c->mem };
    wfi_plan_print(c->last_plan, false, &t);
    assert_string_equal(
        wfi_text_str(&t),
        "plan: 4 commands, 8 nodes; arena 0 bytes, at most 0 are live at once; ran 3 times\n"
        "   0  cpu.ew                   v2@strip+0 = mul v0@var.0 v0@var.0 : f32[512,256]\n"
        "   1+ cpu.mean                 v3@strip+16384 = mean v2@strip+0 : f32[512,1]\n"
        "   2+ cpu.fused                v5@strip+16384 = fused(add i0 i1; rsqrt t0) v3@strip+16384 v4@scalar.4 : "
        "f32[512,1]\n"
        "   3+ cpu.fused                v6@fresh.0 = fused(mul i0 i1; mul t0 i2) v0@var.0 v5@strip+16384 v1@var.1 : "
        "f32[512,256]\n"
        "result 8 from fresh.0\n");
    wfi_text_free(&t);
    const char *report = wf_explain_plan(c);
    assert_non_null(strstr(report, "in 32 strips"));
    assert_non_null(strstr(report, "mul; mean; add, rsqrt; mu"));
    assert_null(strstr(report, "through memory"));
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* ---- random programs ---- */

static uint64_t rng;
static int below(int n)
{
    rng ^= rng << 13, rng ^= rng >> 7, rng ^= rng << 17;
    return (int)(rng >> 33) % n;
}

/* One program over values [b, r, n], [b * r, n], [b, r, 1]: the same calls for the same seed. */
static wf_tensor *program(wf_ctx *c, uint64_t seed, wf_var *v, wf_var *row, wf_tensor **grad)
{
    wf_tensor *pool[POOL] = { wf_value(v) };
    wf_tensor *one = wf_value(row);
    int n = 1;
    rng = seed * 0x9e3779b97f4a7c15u | 1;
    const int steps = 4 + below(12);
    while (n < steps) {
        wf_tensor *a = pool[below(2) ? n - 1 : below(n)], *b = pool[below(n)], *y = NULL;
        const wf_dims d = wf_tensor_dims(a), e = wf_tensor_dims(b);
        const bool same = d.n == e.n && !memcmp(d.d, e.d, sizeof d.d);
        switch (below(14)) {
        case 0: y = wf_mul(a, wf_scalar(c, 0.5)); break;
        case 1: y = wf_tanh(a); break;
        case 2: y = same ? wf_add(a, b) : wf_neg(a); break;
        case 3: y = same ? wf_mul(a, wf_sigmoid(b)) : wf_relu(a); break;
        case 4: y = wf_sub(a, wf_mean(a, WF_DIMS(-1), .keep = true)); break;
        case 5:
            y = wf_mul(a, wf_rsqrt(wf_add(wf_mean(wf_mul(a, a), WF_DIMS(-1), .keep = true), wf_scalar(c, 1))));
            break;
        case 6: y = wf_softmax(a, -1); break;
        case 7: y = wf_layer_norm(a); break;
        case 8: y = wf_add(a, one); break;
        case 9: y = wf_exp(wf_sub(a, wf_max(a, WF_DIMS(-1), .keep = true))); break;
        case 10: y = d.n == 3 ? wf_reshape(a, WF_DIMS(-1, d.d[2])) : wf_abs(a); break;
        case 11: y = wf_cast(wf_cast(a, WF_BF16), WF_F32); break;
        case 12: y = wf_add(a, wf_logsumexp(a, WF_DIMS(-1), .keep = true)); break;
        default: y = wf_flip(a, WF_DIMS(0)); break; /* no strip is the strip of another value */
        }
        pool[n++] = y;
    }
    wf_tensor *loss =
        wf_add(wf_sum(pool[n - 1], WF_NO_DIMS), wf_mean(wf_square(pool[n - 2 - below(n - 2)]), WF_NO_DIMS));
    wf_tensor *x = pool[0];
    if (below(2) && wf_grad(loss, 1, &x, grad) == WF_OK)
        *grad = wf_add(*grad, x);
    else
        *grad = pool[n - 1];
    return loss;
}

typedef struct result {
    float loss, *grad;
    int strips;
} result;

static void run_program(uint64_t seed, const int64_t *size, wf_mode mode, int threads, result *r)
{
    wf_ctx *c = open_ctx(mode, threads);
    wf_var *v = wf_var_new(c, "v", WF_F32, WF_DIMS(size[0], size[1], size[2]), numbers);
    wf_var *row = wf_var_new(c, "row", WF_F32, WF_DIMS(size[2]), numbers + 99);
    const size_t bytes = (size_t)(size[0] * size[1] * size[2]) * sizeof(float);
    for (int i = 0; i < 3; i++) {
        wf_tensor *g = NULL;
        wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "program");
        wf_tensor *loss = program(c, seed, v, row, &g);
        wf_scope_return(c, s, loss);
        wf_scope_return(c, s, g);
        if (wf_scope_end(c, s) != WF_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, wf_error(c));
        assert_int_equal(wf_read(c, loss, &r->loss, sizeof r->loss), WF_OK);
        assert_int_equal(wf_read(c, g, r->grad, bytes), WF_OK);
        wf_scope_end(c, around);
    }
    r->strips = mode == WF_LAZY && c->last_plan ? (int)c->last_plan->nstrip : 0;
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static void random_programs(void **state)
{
    (void)state;
    static const int64_t sizes[SIZES][3] = {
        { 8, 64, 257 }, { 6, 100, 128 }, { 1, 1024, 96 }, { 40, 30, 75 }, { 2, 512, 260 }
    };
    result r[2] = { { .grad = malloc(ELEMENTS * sizeof(float)) }, { .grad = malloc(ELEMENTS * sizeof(float)) } };
    int strips = 0;
    for (uint64_t seed = first_seed; seed < first_seed + (uint64_t)count; seed++) {
        const int64_t *size = sizes[seed % SIZES];
        const size_t bytes = (size_t)(size[0] * size[1] * size[2]) * sizeof(float);
        run_program(seed, size, WF_EAGER, 1, &r[0]);
        for (int threads = 0; threads <= 3; threads++) { /* 0: one thread, command by command */
            if (!threads)
                setenv("WEFT_SKIP", "strip", 1);
            run_program(seed, size, WF_LAZY, threads ? threads : 1, &r[1]);
            unsetenv("WEFT_SKIP");
            assert_true(threads || !r[1].strips);
            strips += r[1].strips > 0;
            if (memcmp(&r[0].loss, &r[1].loss, sizeof(float)) || memcmp(r[0].grad, r[1].grad, bytes))
                fail_msg("seed %llu, %d threads: other bits than eager", (unsigned long long)seed, threads);
        }
    }
    printf("random programs over rows: %d, from seed %llu; %d plans with strips\n", count,
           (unsigned long long)first_seed, strips);
    assert_true(count < 20 || strips > count);
    free(r[0].grad);
    free(r[1].grad);
}

/* ---- damage ---- */

static void must_find(wf_ctx *c, wfi_plan *p, const char *what)
{
    char err[256] = "";
    if (wfi_plan_check(c->mem, p, err, sizeof err))
        fail_msg("the checker did not find: %s", what);
    assert_non_null(strstr(err, "command "));
}

static void damaged(void **state)
{
    (void)state;
    wf_ctx *c = open_ctx(WF_LAZY, 2);
    wf_var *x = wf_var_new(c, "x", WF_F32, WF_DIMS(512, 256), numbers);
    wf_var *g = wf_var_new(c, "g", WF_F32, WF_DIMS(256), numbers);
    for (int i = 0; i < 2; i++) {
        wf_scope s = wf_scope_begin(c, "norm");
        wf_tensor *y = rms_norm(c, wf_value(x), wf_value(g));
        wf_assign(x, wf_add(wf_value(x), wf_mul(y, wf_sum(y, WF_DIMS(-1), .keep = true))));
        wf_assign(g, wf_sum(y, WF_DIMS(0)));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    wfi_plan *p = c->last_plan;
    assert_int_equal(p->nstrip, 1);
    wfi_plan_strip *t = &p->strip[0];
    char err[256];
    assert_true(wfi_plan_check(c->mem, p, err, sizeof err));
    int steps = 0, locals = 0;
    for (uint32_t k = 0; k < t->s.n; k++)
        for (uint32_t i = 0; i < t->kernel[k].nargs; i++) {
            wfi_strip_arg *a = &t->arg[t->kernel[k].arg0 + i], was = *a;
            const bool made = i < p->graph.node[p->cmd_node[t->from + k]].nout;
            if (a->local != WFI_STRIP_SHARED) {
                a->local += 64;
                must_find(c, p, "a value at another place of the scratch");
                locals++;
            } else if (made) {
                a->step -= 4;
                must_find(c, p, "strips that overlap by one element");
                a->step = 0;
                must_find(c, p, "all strips at one place");
                steps++;
            }
            *a = was;
        }
    t->s.scratch_at -= 64;
    must_find(c, p, "values that reach into the scratch of the kernels");
    t->s.scratch_at += 64;
    t->to--;
    must_find(c, p, "a command that no strip runs");
    t->to++;
    for (uint32_t s = 0; s < p->nstorage; s++)
        if (p->storage[s].place == WFI_PLACE_STRIP) {
            p->storage[s].last = t->to;
            must_find(c, p, "a value that is read behind its strips");
            p->storage[s].last = t->to - 1;
        }
    assert_true(wfi_plan_check(c->mem, p, err, sizeof err));
    assert_true(steps > 0 && locals > 2);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--count"))
            count = atoi(argv[i + 1]);
        else
            first_seed = strtoull(argv[i + 1], NULL, 10);
    numbers = malloc((ELEMENTS + 1000) * sizeof *numbers);
    for (int i = 0; numbers && i < ELEMENTS + 1000; i++)
        numbers[i] = (float)((uint32_t)i * 2654435761u >> 8 & 0xfff) / 1024 - 2;
    const struct CMUnitTest tests[] = { cmocka_unit_test(golden), cmocka_unit_test(random_programs),
                                        cmocka_unit_test(damaged) };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(numbers);
    return failed;
}
