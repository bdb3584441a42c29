/* Data sets as tensors: batches, epochs, short last batches, steps that keep theirs, resuming, nothing allocated. */
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

enum { N = 23, H = 4, W = 5 };

static char folder[64], name[256], text_name[256];

static const char *file(const char *what)
{
    static char path[2][128];
    static int k;
    k = !k;
    snprintf(path[k], sizeof path[k], "%s/%s", folder, what);
    return path[k];
}

/* Image i has all pixels i + position, label i % 10. */
static int write_files(void **unused)
{
    (void)unused;
    strcpy(folder, "/tmp/weft-data-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    FILE *x = fopen(file("x"), "wb"), *y = fopen(file("y"), "wb"), *t = fopen(file("t"), "wb");
    if (!x || !y || !t)
        return -1;
    const unsigned char hx[16] = { 0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, H, 0, 0, 0, W }, hy[8] = { 0, 0, 8, 1, 0, 0, 0, N };
    fwrite(hx, 1, sizeof hx, x);
    fwrite(hy, 1, sizeof hy, y);
    for (int i = 0; i < N; i++) {
        for (int k = 0; k < H * W; k++)
            fputc(i + k, x);
        fputc(i % 10, y);
    }
    for (int i = 0; i < 2000; i++)
        fputc(i % 251, t);
    fclose(x);
    fclose(y);
    fclose(t);
    snprintf(name, sizeof name, "idx:%s:%s", file("x"), file("y"));
    snprintf(text_name, sizeof text_name, "text:%s:train", file("t"));
    return 0;
}

static int remove_files(void **unused)
{
    (void)unused;
    unlink(file("x"));
    unlink(file("y"));
    unlink(file("t"));
    return rmdir(folder);
}

static wf_ctx *open_ctx(int mode)
{
    wf_ctx *c =
        wf_ctx_new(&(wf_ctx_opts){ .size = sizeof(wf_ctx_opts), .mode = (wf_mode)mode, .threads = 1, .seed = 9 });
    assert_non_null(c);
    return c;
}

static int64_t first_image(wf_ctx *c, wf_tensor *x)
{
    float p[N * H * W];
    wf_dims d = wf_tensor_dims(x);
    assert_int_equal(d.n, 4);
    assert_true(d.d[1] == 1 && d.d[2] == H && d.d[3] == W);
    assert_int_equal(wf_read(c, x, p, (size_t)d.d[0] * H * W * 4), WF_OK);
    return (int64_t)(p[0] * 255 + 0.5f);
}

static void epochs(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_data *d = wf_data_open(c, name, .batch = 10);
        ok(c);
        assert_int_equal(wf_data_count(d), N);
        assert_int_equal(wf_data_batches(d), 3);
        for (int epoch = 0; epoch < 3; epoch++) {
            int at = 0;
            for (wf_batch b; wf_data_next(d, &b); at += (int)b.count) {
                int64_t label[10];
                assert_int_equal(b.count, at == 20 ? 3 : 10);
                assert_int_equal(b.epoch, epoch);
                assert_int_equal(b.position, at);
                assert_int_equal(wf_tensor_dtype(b.x), WF_F32);
                assert_int_equal(wf_tensor_dtype(b.y), WF_I64);
                assert_int_equal(first_image(c, b.x), at);
                assert_int_equal(wf_read(c, b.y, label, (size_t)b.count * 8), WF_OK);
                for (int i = 0; i < b.count; i++)
                    assert_int_equal(label[i], (at + i) % 10);
            }
            assert_int_equal(at, N);
        }
        wf_data *drop = wf_data_open(c, name, .batch = 10, .drop_last = true);
        assert_int_equal(wf_data_count(drop), 20);
        assert_int_equal(wf_data_batches(drop), 2);
        int n = 0;
        for (wf_batch b; wf_data_next(drop, &b);)
            n += (int)b.count;
        assert_int_equal(n, 20);
        wf_data_close(drop);
        wf_data_close(NULL);
        close_ctx(c); /* closes d */
    }
}

/* A step holds its batch while the next ones are taken; a retained one lives on. */
static void steps_keep_theirs(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_data *d = wf_data_open(c, name, .batch = 4);
        wf_tensor *kept = NULL;
        for (int round = 0; round < 4; round++) {
            wf_batch b;
            wf_tensor *sum = NULL;
            wf_data_seek(d, round, 0);
            wf_scope s = wf_scope_begin(c, "step");
            for (int i = 0; i < 5; i++) { /* five batches in one step */
                assert_true(wf_data_next(d, &b));
                if (round == 0 && i == 1)
                    kept = wf_retain(c, b.x);
                wf_tensor *one = wf_sum(b.x, WF_NO_DIMS);
                sum = sum ? wf_add(sum, one) : one;
            }
            sum = wf_scope_return(c, s, sum);
            assert_int_equal(wf_scope_end(c, s), WF_OK);
            double want = 0;
            for (int i = 0; i < 20; i++)
                for (int k = 0; k < H * W; k++)
                    want += (i + k) / 255.0;
            double got = wf_item(c, sum);
            ok(c);
            assert_true(got > want - 1e-3 && got < want + 1e-3);
        }
        assert_int_equal(first_image(c, kept), 4);
        wf_release(c, kept);
        close_ctx(c);
    }
}

static void allocates_nothing(void **unused)
{
    (void)unused;
    for (int mode = WF_LAZY; mode <= WF_EAGER; mode++) {
        wf_ctx *c = open_ctx(mode);
        wf_data *d = wf_data_open(c, name, .batch = 5, .shuffle = true);
        uint64_t after = 0;
        for (int epoch = 0; epoch < 6; epoch++) {
            if (epoch == 3)
                after = wf_ctx_stats(c).allocations;
            for (wf_batch b; wf_data_next(d, &b);) {
                wf_scope s = wf_scope_begin(c, "step");
                wf_mul(b.x, b.x);
                assert_int_equal(wf_scope_end(c, s), WF_OK);
            }
        }
        assert_int_equal(wf_ctx_stats(c).allocations, after);
        close_ctx(c);
    }
}

/* The order is a function of seed and epoch; a run goes on where another stopped. */
static void resumes(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY), *e = open_ctx(WF_EAGER);
    wf_data *a = wf_data_open(c, name, .batch = 3, .shuffle = true),
            *b = wf_data_open(e, name, .batch = 3, .shuffle = true);
    wf_data *other = wf_data_open(c, name, .batch = 3, .shuffle = true, .seed = 10);
    int64_t order[2][8];
    wf_batch x;
    bool differs = false, again = false;
    for (int epoch = 0; epoch < 2; epoch++)
        for (int i = 0; i < 9; i++) {
            bool more = wf_data_next(a, &x);
            assert_int_equal(more, i < 8);
            if (more)
                order[epoch][i] = first_image(c, x.x);
        }
    for (int i = 0; i < 8; i++) {
        again |= order[0][i] != order[1][i];
        assert_true(wf_data_next(other, &x));
        differs |= first_image(c, x.x) != order[0][i];
    }
    assert_true(differs && again);
    assert_int_equal(wf_data_seek(b, 1, 12), WF_OK);
    for (int i = 4; i < 8; i++) {
        assert_true(wf_data_next(b, &x));
        assert_int_equal(x.epoch, 1);
        assert_int_equal(x.position, 3 * i);
        assert_int_equal(first_image(e, x.x), order[1][i]);
    }
    assert_int_equal(wf_data_seek(b, 0, N + 1), WF_ERR_ARG);
    wrong(e, WF_ERR_ARG, "position 24 is outside");
    assert_int_equal(wf_data_seek(b, -1, 0), WF_ERR_ARG);
    wrong(e, WF_ERR_ARG, "epoch -1");
    close_ctx(c);
    close_ctx(e);
}

static void text(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY);
    wf_data *d = wf_data_open(c, text_name, .batch = 4, .window = 16);
    ok(c);
    wf_batch b;
    assert_true(wf_data_next(d, &b));
    int64_t x[64], y[64];
    assert_int_equal(wf_tensor_dims(b.x).n, 2);
    assert_int_equal(wf_tensor_dims(b.x).d[1], 16);
    assert_int_equal(wf_read(c, b.x, x, sizeof x), WF_OK);
    assert_int_equal(wf_read(c, b.y, y, sizeof y), WF_OK);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(x[i], i % 251);
        assert_int_equal(y[i], (i + 1) % 251);
    }
    close_ctx(c);
}

static void bad_names(void **unused)
{
    (void)unused;
    wf_ctx *c = open_ctx(WF_LAZY);
    assert_null(wf_data_open(c, "no-such-set"));
    wrong(c, WF_ERR_ARG, "no-such-set");
    assert_null(wf_data_open(c, "idx:/nowhere/x:/nowhere/y"));
    wrong(c, WF_ERR_IO, "/nowhere/x");
    assert_null(wf_data_open(c, NULL));
    wrong(c, WF_ERR_ARG, "the name is NULL");
    assert_null(wf_data_open(c, name, .batch = -1));
    wrong(c, WF_ERR_ARG, "batch is -1");
    assert_null(wf_data_open(NULL, name));
    wf_batch b;
    assert_false(wf_data_next(NULL, &b));
    /* a pending error stops the loop, and the data set goes on behind it */
    wf_data *d = wf_data_open(c, name, .batch = 2);
    wf_neg(NULL);
    float x = 0;
    wf_add(wf_tensor_from(c, WF_F32, WF_NO_DIMS, &x), NULL);
    assert_false(wf_data_next(d, &b));
    assert_null(b.x);
    wrong(c, WF_ERR_ARG, "NULL");
    assert_true(wf_data_next(d, &b));
    assert_int_equal(b.position, 0);
    close_ctx(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(epochs),
        cmocka_unit_test(steps_keep_theirs),
        cmocka_unit_test(allocates_nothing),
        cmocka_unit_test(resumes),
        cmocka_unit_test(text),
        cmocka_unit_test(bad_names),
    };
    return cmocka_run_group_tests(tests, write_files, remove_files);
}
