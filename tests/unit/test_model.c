/* Models: paths, sharing, errors that name both lines, initial values, shapes only, saving and loading. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>
#include "record/record.h"
#include "contexts.h"

static wf_ctx *open_seed(int mode, uint64_t seed)
{
    wf_ctx *c =
        wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = (wf_mode)mode, .threads = 1, .seed = seed });
    assert_non_null(c);
    return c;
}

static wf_ctx *open_ctx(int mode)
{
    return open_seed(mode, 11);
}

static const float *data(wf_model *m, const char *path)
{
    wf_var *v = wf_model_find(m, path);
    if (!v)
        fail_msg("there is no %s", path);
    return v->buf->data;
}

static void paths(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c), *block = wf_model_sub(m, "block3"), *attn = wf_model_sub(block, "attn");
        assert_ptr_equal(wf_model_sub(m, "block3"), block);
        assert_ptr_equal(wf_model_sub(m, "block3.attn"), attn);
        assert_ptr_equal(wf_model_ctx(attn), c);
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *a = wf_nn_param(attn, "weight", WF_DIMS(2, 3));
        assert_ptr_equal(wf_nn_param(m, "block3.attn.weight", WF_DIMS(2, 3)), a); /* the same value */
        wf_nn_param(m, "block30", WF_DIMS(1));
        wf_nn_param(m, "block3.bias", WF_DIMS(4));
        wf_nn_param(m, "a", WF_NO_DIMS);
        wf_scope_end(c, s);
        ok(c);
        assert_int_equal(wf_model_param_count(m), 4);
        static const char *const want[4] = { "a", "block3.attn.weight", "block3.bias", "block30" };
        for (int i = 0; i < 4; i++)
            assert_string_equal(wf_var_name(wf_model_param(m, i)), want[i]);
        assert_null(wf_model_param(m, 4));
        assert_null(wf_model_param(m, -1));
        assert_int_equal(wf_model_elements(m), 1 + 6 + 4 + 1);
        assert_int_equal(wf_model_param_count(block), 2);
        assert_int_equal(wf_model_elements(block), 10);
        assert_string_equal(wf_var_name(wf_model_param(block, 1)), "block3.bias");
        assert_int_equal(wf_model_param_count(attn), 1);
        assert_ptr_equal(wf_model_find(block, "attn.weight"), wf_model_find(m, "block3.attn.weight"));
        assert_null(wf_model_find(m, "block3"));
        assert_null(wf_model_find(m, "block3.attn.weigh"));
        assert_int_equal(wf_model_param_count(NULL), 0);
        close_ctx(c);
    }
}

/* Thousands of paths: found again, sorted. */
static void many(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_EAGER);
    wf_model *m = wf_model_new(c);
    char name[32];
    for (int i = 0; i < 3000; i++) {
        wf_scope s = wf_scope_begin(c, "make", .group = true);
        snprintf(name, sizeof name, "h%d.w%d", i * 7919 % 3000, i);
        assert_non_null(wf_nn_param(m, name, WF_DIMS(1), .init = WF_INIT_ZEROS));
        wf_scope_end(c, s);
    }
    assert_int_equal(wf_model_param_count(m), 3000);
    for (int i = 1; i < 3000; i++)
        assert_true(strcmp(wf_var_name(wf_model_param(m, i - 1)), wf_var_name(wf_model_param(m, i))) < 0);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "h%d.w%d", i * 7919 % 3000, i);
        assert_non_null(wf_model_find(m, name));
        snprintf(name, sizeof name, "h%d", i);
        assert_int_equal(wf_model_param_count(wf_model_sub(m, name)), 1);
    }
    close_ctx(c);
}

static void mismatches(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c);
        wf_scope s = wf_scope_begin(c, "step");
        wf_nn_param(m, "w", WF_DIMS(2, 3));
        assert_null(wf_nn_param(m, "w", WF_DIMS(3, 2)));
        assert_non_null(strstr(wf_error(c), "w is f32[2,3], asked for as f32[3,2]"));
        assert_non_null(strstr(wf_error(c), "w: made at"));
        wrong(c, WF_ERR_SHAPE, "test_model.c:");
        assert_null(wf_nn_param(m, "w", WF_DIMS(2, 3), .dtype = WF_F64));
        wrong(c, WF_ERR_DTYPE, "asked for as f64[2,3]");
        float x[6] = { 0 };
        wf_nn_linear(m, "fc", wf_tensor_from(c, WF_F32, WF_DIMS(2, 3), x), 3);
        assert_null(wf_nn_embedding(m, "fc", wf_tensor_from(c, WF_I64, WF_DIMS(1), ((int64_t[]){ 0 })), WF_DIMS(3, 3)));
        wrong(c, WF_ERR_ARG, "fc.weight was made as linear weight, asked for as embedding weight");
        assert_non_null(wf_nn_param(m, "fc.weight", WF_DIMS(3, 3))); /* tied by hand */
        static const char *const bad[] = { "", ".a", "a.", "a..b", "a b", "a\n", NULL };
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_null(wf_nn_param(m, bad[i], WF_DIMS(1)));
            assert_int_equal(wf_error_status(c), WF_ERR_ARG);
            wf_error_clear(c);
            assert_null(wf_model_sub(m, bad[i]));
            assert_int_equal(wf_error_status(c), WF_ERR_ARG);
            wf_error_clear(c);
        }
        assert_null(wf_nn_param(m, "neg", WF_DIMS(-1)));
        wrong(c, WF_ERR_SHAPE, "neg");
        assert_null(wf_nn_param(m, "huge", WF_DIMS(INT64_MAX / 2, 4)));
        wrong(c, WF_ERR_SHAPE, "huge");
        assert_null(wf_nn_param(NULL, "x", WF_DIMS(1)));
        wf_scope_end(c, s);
        assert_int_equal(wf_model_param_count(m), 3);
        close_ctx(c);
    }
}

/* ---- initial values ---- */

static void moments(const float *x, int n, double *mean, double *sd, double *most)
{
    *mean = *sd = *most = 0;
    for (int i = 0; i < n; i++) {
        *mean += x[i] / (double)n;
        *most = fmax(*most, fabs((double)x[i]));
    }
    for (int i = 0; i < n; i++)
        *sd += (x[i] - *mean) * (x[i] - *mean) / n;
    *sd = sqrt(*sd);
}

static void initial_values(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_EAGER);
    wf_model *m = wf_model_new(c);
    double mean, sd, most;
    wf_dims d = WF_DIMS(200, 100);
    wf_nn_param(m, "u", d);
    moments(data(m, "u"), 20000, &mean, &sd, &most);
    assert_true(most <= 0.1 && most > 0.0999 && fabs(mean) < 0.002 && fabs(sd - 0.1 / sqrt(3)) < 0.001);
    wf_nn_param(m, "n", d, .init = WF_INIT_NORMAL, .scale = 0.02);
    moments(data(m, "n"), 20000, &mean, &sd, &most);
    assert_true(fabs(mean) < 0.0006 && fabs(sd - 0.02) < 0.0004 && most > 0.07 && most < 0.12);
    wf_nn_param(m, "x", d, .init = WF_INIT_XAVIER_UNIFORM);
    moments(data(m, "x"), 20000, &mean, &sd, &most);
    assert_true(fabs(most - sqrt(6.0 / 300)) < 1e-4);
    wf_nn_param(m, "k", WF_DIMS(200, 4, 5, 5), .init = WF_INIT_KAIMING_NORMAL);
    moments(data(m, "k"), 20000, &mean, &sd, &most);
    assert_true(fabs(sd - sqrt(2.0 / 100)) < 0.002);
    wf_nn_param(m, "f", d, .fan_in = 4, .scale = 3);
    moments(data(m, "f"), 20000, &mean, &sd, &most);
    assert_true(most <= 1.5 && most > 1.499);
    wf_nn_param(m, "o", WF_DIMS(3), .init = WF_INIT_ONES, .scale = 2);
    assert_true(data(m, "o")[0] == 2 && data(m, "o")[2] == 2);
    wf_nn_param(m, "z", WF_DIMS(3), .init = WF_INIT_ZEROS);
    assert_true(data(m, "z")[1] == 0);
    wf_nn_param(m, "d", WF_DIMS(50), .dtype = WF_F64);
    wf_nn_param(m, "h", WF_DIMS(50), .dtype = WF_BF16);
    wf_nn_param(m, "empty", WF_DIMS(0, 3));
    ok(c);
    assert_int_equal(wf_model_elements(m), 4 * 20000 + 20000 + 6 + 100);
    close_ctx(c);
}

/* The same seed and path give the same values, whatever else there is; another seed or path gives others. */
static void initial_values_alone(void **unused)
{
    (void)unused;
    float a[12], b[12];
    wf_ctx *c = open_seed(WF_EAGER, 5), *d = open_seed(WF_LAZY, 5), *e = open_seed(WF_LAZY, 6);
    wf_model *m = wf_model_new(c), *n = wf_model_new(d), *o = wf_model_new(e);
    wf_nn_param(m, "fc.weight", WF_DIMS(3, 4));
    wf_nn_param(n, "other", WF_DIMS(9));
    wf_nn_param(wf_model_sub(n, "fc"), "weight", WF_DIMS(3, 4));
    wf_nn_param(n, "fd.weight", WF_DIMS(3, 4));
    wf_nn_param(o, "fc.weight", WF_DIMS(3, 4));
    memcpy(a, data(m, "fc.weight"), sizeof a);
    memcpy(b, data(n, "fc.weight"), sizeof b);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, data(n, "fd.weight"), sizeof a);
    assert_memory_not_equal(a, data(o, "fc.weight"), sizeof a);
    /* a longer one begins alike: element i depends on i, the bound on the fan */
    wf_nn_param(wf_model_new(c), "x", WF_DIMS(3, 4));
    wf_model *p = wf_model_new(d);
    wf_nn_param(p, "fc.weight", WF_DIMS(6, 4));
    assert_memory_equal(a, data(p, "fc.weight"), sizeof a);
    close_ctx(c);
    close_ctx(d);
    close_ctx(e);
}

/* ---- shapes only ---- */

static wf_tensor *net(void *user, wf_model *m, wf_tensor *const *in)
{
    wf_ctx *c = wf_model_ctx(m);
    wf_scope s = wf_scope_begin(c, "inner");
    wf_tensor *x = wf_relu(wf_nn_linear(m, "fc1", in[0], 1000));
    ++*(int *)user;
    x = wf_scope_return(c, s, wf_nn_linear(m, "fc2", x, 2));
    wf_scope_end(c, s);
    return x;
}

static wf_tensor *reads(void *user, wf_model *m, wf_tensor *const *in)
{
    (void)user;
    (void)wf_item(wf_model_ctx(m), wf_sum(in[0], WF_NO_DIMS));
    return in[0];
}

static void shapes_only(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_model *m = wf_model_new(c);
        wf_dtype t = WF_F32;
        wf_dims d = WF_DIMS(1000000, 30);
        int calls = 0;
        assert_int_equal(wf_model_init(m, net, &calls, 1, &t, &d), WF_OK);
        assert_int_equal(calls, 1);
        assert_int_equal(wf_model_elements(m), 30 * 1000 + 1000 + 2000 + 2);
        wf_stats st = wf_ctx_stats(c);
        assert_int_equal(st.commands, 0);
        assert_int_equal(st.steps, 0);
        assert_true(st.peak_bytes < 8000000);
        /* in an open step, which goes on as if nothing had been */
        float one = 1, two = 2;
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_NO_DIMS, &one), *y = wf_add(x, x);
        assert_int_equal(wf_model_init(m, net, &calls, 1, &t, &d), WF_OK);
        y = wf_scope_return(c, s, wf_mul(y, wf_tensor_from(c, WF_F32, WF_NO_DIMS, &two)));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
        assert_true(wf_item(c, y) == 4);
        assert_int_equal(wf_model_init(m, reads, NULL, 1, &t, &d), WF_ERR_STATE);
        wrong(c, WF_ERR_STATE, "a value cannot be read");
        d.d[1] = 31;
        assert_int_equal(wf_model_init(m, net, &calls, 1, &t, &d), WF_ERR_SHAPE);
        wrong(c, WF_ERR_SHAPE, "fc1.weight is f32[1000,30], asked for as f32[1000,31]");
        close_ctx(c);
    }
}

/* ---- files ---- */

static char folder[64];

static const char *file(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static int make_folder(void **unused)
{
    (void)unused;
    strcpy(folder, "/tmp/weft-model-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **unused)
{
    (void)unused;
    static const char *const names[] = { "m.safetensors", "n.safetensors", "sub.safetensors", "bad.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unlink(file(names[i]));
    return rmdir(folder);
}

static wf_model *filled(wf_ctx *c)
{
    wf_model *m = wf_model_new(c);
    wf_nn_param(m, "b.weight", WF_DIMS(3, 4));
    wf_nn_param(m, "a.weight", WF_DIMS(5), .dtype = WF_F64, .init = WF_INIT_NORMAL);
    wf_nn_param(m, "b.h", WF_DIMS(3), .dtype = WF_BF16, .init = WF_INIT_NORMAL);
    wf_nn_param(m, "none", WF_DIMS(0, 2));
    ok(c);
    return m;
}

static void same_bytes(const char *a, const char *b)
{
    char x[4096], y[4096];
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    assert_non_null(f);
    assert_non_null(g);
    size_t n = fread(x, 1, sizeof x, f), k = fread(y, 1, sizeof y, g);
    fclose(f);
    fclose(g);
    assert_int_equal(n, k);
    assert_memory_equal(x, y, n);
}

static void files(void **unused)
{
    (void)unused;
    char first[128];
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_seed(mode, 5), *d = open_seed(mode, 77);
        wf_model *m = filled(c), *n = filled(d), *empty = wf_model_new(d);
        strcpy(first, file("m.safetensors"));
        assert_int_equal(wf_model_save(m, first), WF_OK);
        assert_memory_not_equal(data(m, "b.weight"), data(n, "b.weight"), 48);
        wf_tensor *was = wf_retain(d, wf_value(wf_model_find(n, "b.weight")));
        float before[12], after[12];
        assert_int_equal(wf_read(d, was, before, sizeof before), WF_OK);
        assert_int_equal(wf_model_load(n, first), WF_OK);
        assert_memory_equal(data(m, "b.weight"), data(n, "b.weight"), 48);
        assert_memory_equal(data(m, "a.weight"), data(n, "a.weight"), 40);
        assert_memory_equal(data(m, "b.h"), data(n, "b.h"), 6);
        assert_int_equal(wf_read(d, was, after, sizeof after), WF_OK); /* a value is a snapshot */
        assert_memory_equal(before, after, sizeof after);
        wf_release(d, was);
        assert_int_equal(wf_model_load(empty, first), WF_OK); /* creates what is missing */
        assert_int_equal(wf_model_param_count(empty), 4);
        assert_string_equal(wf_var_name(wf_model_param(empty, 0)), "a.weight");
        assert_int_equal(wf_model_save(empty, file("n.safetensors")), WF_OK);
        same_bytes(first, file("n.safetensors"));
        /* and layers take it for what they are */
        float x[8] = { 0 };
        assert_non_null(wf_nn_linear(empty, "b", wf_tensor_from(d, WF_F32, WF_DIMS(2, 4), x), 3, .no_bias = true));
        /* a part by itself */
        assert_int_equal(wf_model_save(wf_model_sub(m, "b"), file("sub.safetensors")), WF_OK);
        assert_int_equal(wf_model_load(wf_model_sub(empty, "c"), file("sub.safetensors")), WF_OK);
        assert_memory_equal(data(m, "b.weight"), data(empty, "c.weight"), 48);
        close_ctx(c);
        close_ctx(d);
    }
}

static void bad_files(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_seed(mode, 5), *d = open_seed(mode, 77);
        wf_model *m = filled(c), *n = wf_model_new(d);
        assert_int_equal(wf_model_save(m, file("m.safetensors")), WF_OK);
        wf_nn_param(n, "b.weight", WF_DIMS(3, 4));
        wf_nn_param(n, "a.weight", WF_DIMS(6), .dtype = WF_F64);
        float before[12];
        memcpy(before, data(n, "b.weight"), sizeof before);
        assert_int_equal(wf_model_load(n, file("m.safetensors")), WF_ERR_SHAPE);
        assert_non_null(strstr(wf_error(d), "m.safetensors: a.weight: got f64[5], want f64[6]"));
        wrong(d, WF_ERR_SHAPE, "a.weight: made at");
        assert_memory_equal(before, data(n, "b.weight"), sizeof before); /* all or nothing */
        assert_int_equal(wf_model_param_count(n), 2);
        wf_model *o = wf_model_new(d);
        wf_nn_param(o, "a.weight", WF_DIMS(5));
        assert_int_equal(wf_model_load(o, file("m.safetensors")), WF_ERR_DTYPE);
        wrong(d, WF_ERR_DTYPE, "got f64[5], want f32[5]");
        wf_model *p = wf_model_new(d);
        wf_nn_param(p, "zzz", WF_DIMS(5));
        assert_int_equal(wf_model_load(p, file("m.safetensors")), WF_ERR_FORMAT);
        wrong(d, WF_ERR_FORMAT, "zzz: got no such tensor, want f32[5]");
        assert_int_equal(wf_model_load(p, file("missing.safetensors")), WF_ERR_IO);
        wrong(d, WF_ERR_IO, "missing.safetensors");
        FILE *f = fopen(file("bad.safetensors"), "wb");
        fputs("this is no such file at all", f);
        fclose(f);
        assert_int_equal(wf_model_load(p, file("bad.safetensors")), WF_ERR_FORMAT);
        wrong(d, WF_ERR_FORMAT, "bad.safetensors");
        assert_int_equal(wf_model_save(p, "/no/such/folder/m.safetensors"), WF_ERR_IO);
        wrong(d, WF_ERR_IO, "/no/such/folder");
        wf_scope s = wf_scope_begin(d, "step");
        assert_int_equal(wf_model_load(p, file("m.safetensors")), WF_ERR_STATE);
        wrong(d, WF_ERR_STATE, "a step is open");
        assert_int_equal(wf_model_save(p, file("n.safetensors")), WF_ERR_STATE);
        wrong(d, WF_ERR_STATE, "a step is open");
        wf_scope_end(d, s);
        close_ctx(c);
        close_ctx(d);
    }
}

/* Every allocation of loading fails once: the model is as it was, or whole. */
static void memory_out(void **unused)
{
    (void)unused;
    wf_ctx *c = open_seed(WF_LAZY, 5);
    assert_int_equal(wf_model_save(filled(c), file("m.safetensors")), WF_OK);
    bool done = false;
    for (int64_t k = 0; !done && k < 500; k++) {
        wf_model *m = wf_model_new(c);
        wf_nn_param(m, "b.weight", WF_DIMS(3, 4), .init = WF_INIT_ZEROS);
        ok(c);
        wfi_buf_trim(c);
        atomic_store(&c->mem->fail_at, k);
        wf_status st = wf_model_load(m, file("m.safetensors"));
        atomic_store(&c->mem->fail_at, -1);
        done = st == WF_OK;
        assert_int_equal(wf_model_param_count(m), done ? 4 : 1);
        assert_true((data(m, "b.weight")[0] != 0) == done);
        if (!done)
            assert_int_equal(wf_error_status(c), WF_ERR_MEMORY);
        wf_error_clear(c);
    }
    assert_true(done);
    close_ctx(c);
}

/* Names are text, wherever it lies: the same address holds another one the next time. */
static void names_in_a_buffer(void **state)
{
    (void)state;
    static const char *const names[] = { "fc.x", "fc", "fc.x", "fcs", "f", "fc.weight", "fc" };
    wf_ctx *c = open_ctx(WF_LAZY);
    wf_model *m = wf_model_new(c), *sub = wf_model_sub(m, "fc");
    char name[16];
    float x[2] = { 1, 2 };
    wf_scope s = wf_scope_begin(c, "step");
    wf_tensor *in = wf_tensor_from(c, WF_F32, WF_DIMS(1, 2), x);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(name, sizeof name, "%s", names[i]);
        wf_nn_linear(m, name, in, 10 + (int64_t)strlen(name));
        ok(c);
    }
    snprintf(name, sizeof name, "x"); /* below a prefix it is fc.x */
    wf_nn_linear(sub, name, in, 14);
    wf_scope_end(c, s);
    assert_int_equal(wf_model_param_count(m), 10);
    assert_int_equal(wf_var_dims(wf_model_find(m, "fc.weight.weight")).d[0], 19);
    assert_int_equal(wf_var_dims(wf_model_find(m, "fc.bias")).d[0], 12);
    close_ctx(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths),       cmocka_unit_test(many),
        cmocka_unit_test(mismatches),  cmocka_unit_test(initial_values),
        cmocka_unit_test(shapes_only), cmocka_unit_test(initial_values_alone),
        cmocka_unit_test(files),       cmocka_unit_test(bad_files),
        cmocka_unit_test(memory_out),  cmocka_unit_test(names_in_a_buffer),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
