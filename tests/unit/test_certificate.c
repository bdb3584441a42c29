/* Certificates: what is written of the plans of training steps proves again, belongs to that plan, and each single fact
 * that is changed is found out, whatever the hash at the end says. */
#include "refeval.h"
#include "plan/certificate.h"

enum { WIDTH = 32, ROWS = 48 };

static char *copy(const char *s)
{
    char *t = malloc(strlen(s) + 1);
    assert_non_null(t);
    return strcpy(t, s);
}

/* A step of a small network, its certificate and its plan's text. */
static void make(char **cert, char **plan)
{
    static float data[ROWS * WIDTH];
    int64_t index[ROWS];
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = (float)(i * 7919 % 1000) / 500 - 1;
    for (int i = 0; i < ROWS; i++)
        index[i] = i % 9;
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_LAZY, .threads = 2 });
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 0.01);
    assert_null(wf_explain_plan(c, .certificate = true)); /* nothing has run */
    for (int i = 0; i < 3; i++) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, WIDTH), data);
        wf_tensor *h = wf_softmax(wf_gelu(wf_nn_linear(m, "a", x, 2 * WIDTH)), -1);
        h = wf_add(wf_nn_linear(m, "b", h, WIDTH), wf_slice(x, 0, 0, ROWS));
        wf_optim_step(opt, wf_cross_entropy(h, wf_tensor_from(c, WF_I64, WF_DIMS(ROWS), index)));
        assert_int_equal(wf_scope_end(c, s), WF_OK);
    }
    *cert = copy(wf_explain_plan(c, .certificate = true));
    *plan = copy(wf_explain_plan(c, .buffers = true));
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

static bool proves(wfi_mem *mem, const char *cert, const char *plan, wfi_certificate *c, char *err)
{
    err[0] = 0;
    const bool ok = wfi_certificate_prove(mem, cert, plan, c, err, 256);
    assert_true(ok == !err[0]);
    return ok;
}

/* The text with its last line made right again. */
static void sign(wfi_text *t)
{
    char hex[2 * WFI_SHA256_BYTES + 1];
    uint8_t digest[WFI_SHA256_BYTES];
    const char *end = strstr(wfi_text_str(t), "\nend ");
    assert_non_null(end);
    const size_t n = (size_t)(end + 1 - wfi_text_str(t));
    wfi_sha256 s = wfi_sha256_start();
    wfi_sha256_add(&s, t->p, n);
    wfi_sha256_end(&s, digest);
    wfi_sha256_hex(digest, hex);
    wfi_text_cut(t, n);
    wfi_text_addf(t, "end %s\n", hex);
}

static void proved_again(void **state)
{
    (void)state;
    char *cert, *plan, err[256];
    wfi_certificate c;
    wfi_mem mem;
    wfi_mem_init(&mem, NULL, NULL, 0);
    make(&cert, &plan);
    if (!proves(&mem, cert, plan, &c, err))
        fail_msg("%s\n%s", err, cert);
    assert_true(c.commands > 5 && c.storages > 5 && c.most > 0 && c.most <= c.arena);
    assert_true(proves(&mem, cert, NULL, &c, err));
    char *other = strchr(plan, '\n') + 20;
    *other = *other == 'x' ? 'y' : 'x';
    assert_false(proves(&mem, cert, plan, &c, err));
    assert_string_equal(err, "line 2: it is the certificate of another plan");
    /* whatever byte is changed, the hash tells */
    for (size_t i = 0; cert[i]; i++) {
        const char was = cert[i];
        cert[i] = was == '1' ? '2' : '1';
        if (proves(&mem, cert, NULL, &c, err))
            fail_msg("byte %zu may be anything", i);
        cert[i] = 0; /* cut short */
        assert_false(proves(&mem, cert, NULL, &c, err));
        cert[i] = was;
    }
    assert_int_equal(atomic_load(&mem.live), 0);
    free(cert);
    free(plan);
}

/* What a wrong planner would have written, with a right hash. */
static void wrong_plans(void **state)
{
    static const struct {
        const char *what, *text, *why;
    } cases[] = {
        { "right",
          "arena 128\nstorage 0 arena 0 64\nstorage 1 var 0 64\nstorage 2 arena 64 64\nleaf v0 1\n"
          "command 0 k writes v1@0[0,64) reads v0@1[0,64)\ncommand 1 k writes v2@2[0,64) reads v1@0[0,64)\n"
          "out v2@2[0,64)\n",
          NULL },
        { "storages of two living values overlap",
          "arena 128\nstorage 0 arena 0 64\nstorage 1 var 0 64\nstorage 2 arena 32 64\nleaf v0 1\n"
          "command 0 k writes v1@0[0,64) reads v0@1[0,64)\ncommand 1 k writes v2@2[0,64) reads v0@1[0,64)\n"
          "command 2 k writes v3@1[0,64) reads v1@0[0,64)\n",
          "line 10: what is read is not there: never written, or no more" },
        { "a result over an operand",
          "arena 128\nstorage 0 arena 0 64\nstorage 1 var 0 64\nstorage 2 arena 32 64\nleaf v0 1\n"
          "command 0 k writes v1@0[0,64) reads v0@1[0,64)\ncommand 1 k writes v2@2[0,64) reads v1@0[0,64)\n",
          "line 9: a result overlaps an operand" },
        { "outside of the arena", "arena 100\nstorage 0 arena 64 64\n", "line 4: it reaches outside of the arena" },
        { "outside of its storage", "arena 64\nstorage 0 arena 0 64\ncommand 0 k writes v0@0[0,65) reads\n",
          "line 5: bytes outside of their storage" },
        { "never written", "arena 64\nstorage 0 arena 0 64\nout v0@0[0,64)\n",
          "line 5: what is read is not there: never written, or no more" },
        { "a leaf in the arena", "arena 64\nstorage 0 arena 0 64\nleaf v0 0\n",
          "line 5: nothing can be there when the step begins" },
        { "two results in one place",
          "arena 64\nstorage 0 arena 0 64\ncommand 0 k writes v0@0[0,64) v1@0[0,64) reads\n",
          "line 5: two results share memory" },
        { "a run whose commands depend on each other",
          "arena 128\nstorage 0 arena 0 64\nstorage 1 arena 64 64\ncommand 0 k writes v0@0[0,64) reads\n"
          "command 1 k writes v1@1[0,64) reads v0@0[0,64)\nrun 0 2\n",
          "line 8: one command of a run touches what another one writes" },
        { "no such line", "arena 0\ncomment\n", "line 4: this line is not known" },
    };
    (void)state;
    wfi_mem mem;
    wfi_certificate c;
    char err[256];
    wfi_mem_init(&mem, NULL, NULL, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wfi_text t = { .mem = &mem };
        wfi_text_addf(&t, "weft plan certificate 1\nplan 0\n%send 0\n", cases[i].text);
        sign(&t);
        const bool ok = proves(&mem, wfi_text_str(&t), NULL, &c, err);
        if (ok != !cases[i].why || (!ok && strcmp(err, cases[i].why) != 0))
            fail_msg("%s: %s", cases[i].what, err);
        wfi_text_free(&t);
    }
    assert_int_equal(atomic_load(&mem.live), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proved_again),
        cmocka_unit_test(wrong_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
