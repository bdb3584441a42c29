/* Graphs as data: text in; the text that comes out again, or the parser's or the verifier's verdict. */
#include "refeval.h"
#include "passes/graph_text.h"

typedef struct bench { /* a graph with everything around it */
    wfi_mem mem;
    wfi_ids ids;
    wfi_graph g;
    char err[512];
} bench;

static void begin(bench *b)
{
    memset(b, 0, sizeof *b);
    wfi_mem_init(&b->mem, NULL, NULL, 0);
    assert_true(wfi_ids_init(&b->ids, &b->mem));
    wfi_graph_init(&b->g, &b->mem, &b->ids);
}
static void end(bench *b)
{
    wfi_graph_free(&b->g);
    wfi_ids_free(&b->ids);
    assert_int_equal(atomic_load(&b->mem.live), 0);
}

/* Texts that are right and come out as they went in. */
static const char *const right[] = {
    "",
    "v0 = input 0 : f32[8,16]\n"
    "v1 = var 3 : f32[16,32]\n"
    "v2 = const 0.5 : f32[]\n"
    "v3 = matmul v0 v1 : f32[8,32]\n"
    "v4 = softmax v3 axis=-1 : f32[8,32]\n"
    "v5 = mul v4 v2 : f32[8,32]\n"
    "result 12 v5\n",
    "v0 = input 0 : f32[8,5]\n"
    "v1 = input 1 : i64[8]\n"
    "v2 v3 = cross_entropy_rows v0 v1 ignore=0 has_ignore=false smoothing=0.25 : f32[8] f32[8]\n"
    "v4 = sum v2 axes=all keep=false : f32[]\n"
    "result 9 v4\n",
    "v0 = input 0 : bf16[3,7]\n"
    "v1 = input 1 : bf16[7]\n"
    "v2 = layer_norm v0 _ v1 eps=1e-5 : bf16[3,7]\n"
    "v3 = cast v2 dtype=f64 : f64[3,7]\n"
    "v4 = slice v3 axis=1 start=1 len=3 step=2 : f64[3,3]\n"
    "v5 = concat v4 v4 v4 axis=0 : f64[9,3]\n"
    "assign 2 v5\n",
    "v0 = scalar 4 : f32[]\n"
    "v1 = host 0 : f64[8]\n"
    "v2 = const -1e-7 : f64[]\n"
    "v3 = const inf : f32[]\n"
    "v4 = var 0 : i32[0,3]\n"
    "v5 = permute v4 perm=[1,0] : i32[3,0]\n"
    "v6 = reshape v5 shape=[0,9] : i32[0,9]\n"
    "v7 = var 0 : i32[0,3]\n"
    "assign 0 v7\n"
    "result 3 v6\n",
};

static void right_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        bench b;
        begin(&b);
        wfi_text t = { .mem = &b.mem };
        if (!wfi_graph_parse(right[i], &b.g, b.err, sizeof b.err) || !wfi_graph_verify(&b.g, b.err, sizeof b.err))
            fail_msg("%s\n%s", right[i], b.err);
        wfi_graph_print(&b.g, &t);
        assert_string_equal(wfi_text_str(&t), right[i]);
        wfi_text_free(&t);
        end(&b);
    }
}

/* Blanks and comments mean nothing. */
static void loose_text(void **state)
{
    (void)state;
    bench b;
    begin(&b);
    wfi_text t = { .mem = &b.mem };
    assert_true(wfi_graph_parse("# a comment\n\n   v0 =  input 7 : f32[2]   # why\r\n\tv1 = relu v0 : f32[2]", &b.g,
                                b.err, sizeof b.err));
    wfi_graph_print(&b.g, &t);
    assert_string_equal(wfi_text_str(&t), "v0 = input 7 : f32[2]\nv1 = relu v0 : f32[2]\n");
    wfi_text_free(&t);
    end(&b);
}

/* Texts that do not parse, and what is said of them. */
static const char *const unreadable[][2] = {
    { "v0 = input 0 : f32[2]\nv1 = relu v5 : f32[2]\n", "line 2: a value that stands above was expected: \"v5\"" },
    { "v0 = input 0 : f32[2]\nv1 = relu v1 : f32[2]\n", "line 2: a value that stands above was expected: \"v1\"" },
    { "v1 = input 0 : f32[2]\n", "line 1: results are numbered in order: \"v1\"" },
    { "v0 input 0 : f32[2]\n", "line 1: = was expected: \"input\"" },
    { "v0 = input x : f32[2]\n", "line 1: a number was expected: \"x\"" },
    { "v0 = input 0 : f33[2]\n", "line 1: a type like f32[2,3] was expected: \"f33[2]\"" },
    { "v0 = input 0 : f32[2\n", "line 1: a type like f32[2,3] was expected: \"f32[2\"" },
    { "v0 = input 0 : f32[1,1,1,1,1,1,1,1,1]\n",
      "line 1: a type like f32[2,3] was expected: \"f32[1,1,1,1,1,1,1,1,1]\"" },
    { "v0 = input 0 : f32[-1]\n", "line 1: a type like f32[2,3] was expected: \"f32[-1]\"" },
    { "v0 = input 0 : f32[99999999999999,99999999999999]\n",
      "line 1: a type like f32[2,3] was expected: \"f32[99999999999999,99999999999999]\"" },
    { "v0 = input 0\n", "line 1: as many types as results were expected: \"input\"" },
    { "v0 = input 0 : f32[2]\nv1 = frobnicate v0 : f32[2]\n", "line 2: no operator of this name: \"frobnicate\"" },
    { "v0 = input 0 : f32[2]\nv1 = relu v0 axis=1 : f32[2]\n", "line 2: this operator has no attributes: \"axis=1\"" },
    { "v0 = input 0 : f32[2]\nv1 = softmax v0 : f32[2]\n", "line 2: softmax: axis is missing: \"\"" },
    { "v0 = input 0 : f32[2]\nv1 = softmax v0 axis=x : f32[2]\n",
      "line 2: softmax: x is no value of axis: \"axis=x\"" },
    { "v0 = const x : f32[]\n", "line 1: a number was expected: \"x\"" },
    { "result 3\n", "line 1: too many or too few words for: \"result\"" },
    { "v0 = input 0 1 : f32[2]\n", "line 1: too many or too few words for: \"input\"" },
};

static void unreadable_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        bench b;
        begin(&b);
        if (wfi_graph_parse(unreadable[i][0], &b.g, b.err, sizeof b.err))
            fail_msg("this was read:\n%s", unreadable[i][0]);
        assert_string_equal(b.err, unreadable[i][1]);
        end(&b);
    }
}

/* Every prefix of a text, and every text with one byte changed, is read or refused: nothing worse. */
static void damaged_texts(void **state)
{
    (void)state;
    static const char odd[] = "v=:[], \n_9-x\377";
    for (size_t i = 1; i < sizeof right / sizeof *right; i++)
        for (size_t n = 0; n < strlen(right[i]); n++) {
            bench b;
            begin(&b);
            char *cut = strndup(right[i], n);
            assert_non_null(cut);
            if (wfi_graph_parse(cut, &b.g, b.err, sizeof b.err))
                (void)wfi_graph_verify(&b.g, b.err, sizeof b.err);
            free(cut);
            end(&b);
            for (size_t k = 0; k + 1 < sizeof odd; k++) {
                begin(&b);
                cut = strdup(right[i]);
                assert_non_null(cut);
                cut[n] = odd[k];
                if (wfi_graph_parse(cut, &b.g, b.err, sizeof b.err))
                    (void)wfi_graph_verify(&b.g, b.err, sizeof b.err);
                free(cut);
                end(&b);
            }
        }
}

/* Graphs that can be read and are wrong. */
static const char *const refused[][2] = {
    { "v0 = input 0 : f32[2,3]\nv1 = relu v0 : f32[3,2]\n",
      "node 1 (relu): the type of a result is not what the operator gives" },
    { "v0 = input 0 : f32[2,3]\nv1 = relu v0 : f64[2,3]\n",
      "node 1 (relu): the type of a result is not what the operator gives" },
    { "v0 = input 0 : f32[2,3]\nv1 = matmul v0 v0 : f32[2,3]\n",
      "node 1 (matmul): matmul: sizes of axis k differ: a[-1] is 3, b[-2] is 2; a is f32[2,3], b is f32[2,3]" },
    { "v0 = input 0 : f32[2]\nv1 = input 1 : i64[2]\nv2 = add v0 v1 : f32[2]\n",
      "node 2 (add): add: element types differ: a is f32, b is i64" },
    { "v0 = input 0 : f32[2]\nv1 = add v0 : f32[2]\n",
      "node 1 (add): the number of operands or results is not the operator's" },
    { "v0 = input 0 : f32[2]\nv1 v2 = relu v0 : f32[2] f32[2]\n",
      "node 1 (relu): the number of operands or results is not the operator's" },
    { "v0 = var 1 : f32[2]\nv1 = input 0 : f32[3]\nassign 1 v1\n",
      "node 2 (leaf): the value assigned has not the variable's type" },
    { "v0 = input 0 : f32[2]\nv1 = softmax v0 axis=4 : f32[2]\n",
      "node 1 (softmax): softmax: axis is 4, which is out of range; x has 1 dimensions; x is f32[2]" },
};

static void refused_graphs(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        bench b;
        begin(&b);
        if (!wfi_graph_parse(refused[i][0], &b.g, b.err, sizeof b.err))
            fail_msg("%s%s", refused[i][0], b.err);
        if (wfi_graph_verify(&b.g, b.err, sizeof b.err))
            fail_msg("this was accepted:\n%s", refused[i][0]);
        assert_string_equal(b.err, refused[i][1]);
        end(&b);
    }
}

/* A graph that was right and is changed behind the builder's back. */
static void broken_graphs(void **state)
{
    (void)state;
    for (int how = 0; how < 8; how++) {
        bench b;
        begin(&b);
        assert_true(wfi_graph_parse(right[1], &b.g, b.err, sizeof b.err));
        assert_true(wfi_graph_verify(&b.g, b.err, sizeof b.err));
        wfi_node *n = &b.g.node[3]; /* the product */
        switch (how) {
        case 0: b.g.in[n->in0] = n->out0; break; /* itself */
        case 1: b.g.in[n->in0 + 1] = 4; break;   /* what comes later */
        case 2: n->hash ^= 1; break;
        case 3: n->payload = b.g.node[4].payload; break;
        case 4: n->nin = 1; break;
        case 5: n->op = WFI_NODE_RESULT + 7; break;
        case 6: b.g.value[n->out0].node = 0; break;
        default: n->in0 = (uint32_t)b.g.nin; break;
        }
        if (wfi_graph_verify(&b.g, b.err, sizeof b.err))
            fail_msg("change %d was not found", how);
        assert_non_null(strstr(b.err, "node 3"));
        end(&b);
    }
}

/* The hash is one of contents: it does not depend on numbers of types and attributes, and differs where graphs do. */
static void hashes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "v0 = input 0 : f32[2,3]\nv1 = sum v0 axes=[0] keep=false : f32[3]\n",
        "v0 = input 0 : f32[2,3]\nv1 = sum v0 axes=[1] keep=false : f32[2]\n",
        "v0 = input 0 : f64[2,3]\nv1 = sum v0 axes=[0] keep=false : f64[3]\n",
        "v0 = input 1 : f32[2,3]\nv1 = sum v0 axes=[0] keep=false : f32[3]\n",
        "v0 = input 0 : f32[2,3]\nv1 = max v0 axes=[0] keep=false : f32[3]\n",
    };
    uint64_t hash[5];
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 5; i++) {
            bench b;
            begin(&b);
            if (round) /* other numbers are taken first */
                for (int64_t k = 1; k < 40; k++) {
                    (void)wfi_ids_type(&b.ids, WF_BF16, 1, &k);
                    (void)wfi_ids_attr(&b.ids, WFI_OP_softmax, &(wfi_attr_softmax){ .axis = (int32_t)k },
                                       sizeof(wfi_attr_softmax));
                }
            assert_true(wfi_graph_parse(texts[i], &b.g, b.err, sizeof b.err));
            if (round)
                assert_true(b.g.node[1].hash == hash[i]);
            hash[i] = b.g.node[1].hash;
            end(&b);
        }
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < i; j++)
            assert_true(hash[i] != hash[j]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_texts),   cmocka_unit_test(loose_text),     cmocka_unit_test(unreadable_texts),
        cmocka_unit_test(damaged_texts), cmocka_unit_test(refused_graphs), cmocka_unit_test(broken_graphs),
        cmocka_unit_test(hashes)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
