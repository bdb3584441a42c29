/* Fusion: graph text in, graph text out; and fused steps against eager ones, bit for bit, over shapes that make every
 * way through the tile machine: flat, rows, repeated rows, what is brought into tiles, streamed results, threads; on
 * the tile machine and as generated C. */
#include "pass_text.h"
#include "graph/body.h"
#include "passes/fuse.h"
#include "passes/trail.h"

#define LEAVES "v0 = input 0 : f32[8,32]\nv1 = input 1 : f32[32]\nv2 = var 0 : f32[8,32]\n"

static const pass_text texts[] = {
    { "a chain, with a row that repeats", LEAVES "v3 = add v0 v1 : f32[8,32]\nv4 = relu v3 : f32[8,32]\nresult 4 v4\n",
      LEAVES "v3 = fused(add i0 i1; relu t0) v0 v1 : f32[8,32]\nresult 4 v3\n" },
    { "a value that is used twice inside, and one that leaves as well",
      LEAVES
      "v3 = exp v0 : f32[8,32]\nv4 = mul v3 v3 : f32[8,32]\nv5 = sub v4 v3 : f32[8,32]\nresult 4 v5\nresult 5 v4\n",
      LEAVES "v3 v4 = fused(exp i0; out mul t0 t0; sub t1 t0) v0 : f32[8,32] f32[8,32]\nresult 4 v4\nresult 5 v3\n" },
    { "what a product between them needs stays outside",
      LEAVES "v3 = exp v0 : f32[8,32]\nv4 = permute v3 perm=[1,0] : f32[32,8]\nv5 = matmul v3 v4 : f32[8,8]\n"
             "v6 = relu v3 : f32[8,32]\nresult 4 v5\nresult 5 v6\n",
      LEAVES "v3 = exp v0 : f32[8,32]\nv4 = permute v3 perm=[1,0] : f32[32,8]\nv5 = matmul v3 v4 : f32[8,8]\n"
             "v6 = relu v3 : f32[8,32]\nresult 4 v5\nresult 5 v6\n" },
    { "another shape is another index space",
      LEAVES "v3 = exp v1 : f32[32]\nv4 = add v0 v3 : f32[8,32]\nv5 = neg v4 : f32[8,32]\nresult 4 v5\n",
      LEAVES "v3 = exp v1 : f32[32]\nv4 = fused(add i0 i1; neg t0) v0 v3 : f32[8,32]\nresult 4 v4\n" },
    { "two branches that meet",
      LEAVES "v3 = exp v0 : f32[8,32]\nv4 = neg v2 : f32[8,32]\nv5 = lt v3 v4 : bool[8,32]\n"
             "v6 = where v5 v3 v4 : f32[8,32]\nassign 0 v6\n",
      LEAVES "v3 = fused(exp i0; neg i1; lt t0 t1; where t2 t0 t1) v0 v2 : f32[8,32]\nassign 0 v3\n" },
    { "casts are told by the type that they give",
      LEAVES "v3 = cast v0 dtype=bf16 : bf16[8,32]\nv4 = square v3 : bf16[8,32]\nv5 = cast v4 dtype=f32 : f32[8,32]\n"
             "v6 = add v5 v1 : f32[8,32]\nresult 4 v6\nresult 5 v4\n",
      LEAVES "v3 v4 = fused(cast:bf16 i0; out square t0; cast:f32 t1; add t2 i1) v0 v1 : bf16[8,32] f32[8,32]\n"
             "result 4 v4\nresult 5 v3\n" },
    { "nothing to fuse", LEAVES "v3 = exp v0 : f32[8,32]\nresult 4 v3\n",
      LEAVES "v3 = exp v0 : f32[8,32]\nresult 4 v3\n" },
};

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pass(&texts[i], wfi_fuse);
}

/* ---- reasons, and groups that are left out ---- */

typedef struct given { /* a parsed graph and what the pass makes of it */
    wfi_mem mem;
    wfi_ids ids;
    wfi_graph in, out;
    wfi_trail trail;
} given;

static void fuse_text(given *t, const char *text, const char *skip)
{
    char err[256] = "";
    memset(t, 0, sizeof *t);
    wfi_mem_init(&t->mem, NULL, NULL, 0);
    assert_true(wfi_ids_init(&t->ids, &t->mem));
    wfi_graph_init(&t->in, &t->mem, &t->ids);
    wfi_graph_init(&t->out, &t->mem, &t->ids);
    t->trail = (wfi_trail){ .mem = &t->mem, .skip = skip };
    t->out.trail = &t->trail;
    if (!wfi_graph_parse(text, &t->in, err, sizeof err) || !wfi_fuse(&t->in, &t->out) ||
        !wfi_graph_verify(&t->out, err, sizeof err))
        fail_msg("%s", err);
}

static void drop(given *t)
{
    wfi_graph_free(&t->in);
    wfi_graph_free(&t->out);
    wfi_trail_free(&t->trail);
    wfi_ids_free(&t->ids);
    assert_int_equal(atomic_load(&t->mem.live), 0);
}

/* "exp neg kind, ...": what makes a value, what uses it, why they are not one kernel. */
static const struct {
    const char *in, *notes;
} refused[] = {
    { LEAVES "v3 = add v0 v1 : f32[8,32]\nv4 = relu v3 : f32[8,32]\nresult 4 v4\n", "" },
    { LEAVES "v3 = exp v1 : f32[32]\nv4 = add v0 v3 : f32[8,32]\nresult 4 v4\n", "exp add shape\n" },
    { LEAVES "v3 = exp v0 : f32[8,32]\nv4 = permute v3 perm=[1,0] : f32[32,8]\nv5 = neg v4 : f32[32,8]\nresult 4 v5\n",
      "exp permute kind\npermute neg kind\n" },
    { LEAVES "v3 = exp v0 : f32[8,32]\nv4 = flip v3 axes=0 : f32[8,32]\nv5 = add v3 v4 : f32[8,32]\nresult 4 v5\n",
      "exp flip kind\nexp add order\nflip add kind\n" },
};

static void reasons(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        given t;
        char text[512] = "";
        fuse_text(&t, refused[i].in, NULL);
        for (size_t k = 0; k < t.trail.nnote; k++) {
            const wfi_note *n = &t.trail.note[k];
            size_t at = strlen(text);
            snprintf(text + at, sizeof text - at, "%s %s %s\n", wfi_op_table[n->op[0]].name,
                     wfi_op_table[n->op[1]].name, n->why->code);
        }
        assert_string_equal(text, refused[i].notes);
        drop(&t);
    }
}

/* Two groups; each is left out by its number, which does not depend on the other. */
static void one_group_less(void **state)
{
    (void)state;
    static const char text[] =
        LEAVES "v3 = add v0 v1 : f32[8,32]\nv4 = relu v3 : f32[8,32]\nv5 = permute v4 perm=[1,0] : f32[32,8]\n"
               "v6 = exp v5 : f32[32,8]\nv7 = neg v6 : f32[32,8]\nresult 4 v7\n";
    given t;
    uint32_t id[2], n = 0;
    fuse_text(&t, text, NULL);
    for (size_t k = 0; k < t.out.nnode; k++)
        if (t.out.node[k].op == WFI_NODE_FUSED) {
            assert_true(n < 2);
            id[n++] = wfi_body_node_id(&t.out, &t.out.node[k]);
        }
    assert_int_equal(n, 2);
    drop(&t);
    for (int i = 0; i < 3; i++) { /* the first, the second, both */
        char skip[64];
        snprintf(skip, sizeof skip, "nothing,fuse:%08x,fuse:%08x", id[i == 1], id[i > 0]);
        fuse_text(&t, text, skip);
        uint32_t fused = 0, single = 0;
        for (size_t k = 0; k < t.out.nnode; k++) {
            fused += t.out.node[k].op == WFI_NODE_FUSED;
            single += t.out.node[k].op == WFI_OP_relu || t.out.node[k].op == WFI_OP_neg;
        }
        assert_int_equal(fused, i == 2 ? 0 : 1);
        assert_int_equal(single, i == 2 ? 2 : 1);
        assert_int_equal(t.out.nnode, 3 + 6 - fused);
        drop(&t);
    }
}

/* ---- bits ---- */

typedef struct shape {
    wf_dims x, b; /* b spreads over x */
    bool turned;  /* x is a transposed view */
} shape;

static const shape shapes[] = {
    { { 1, { 7 } }, { 1, { 7 } }, false },
    { { 1, { 4099 } }, { 0, { 0 } }, false },
    { { 2, { 8, 32 } }, { 1, { 32 } }, false },
    { { 2, { 517, 33 } }, { 1, { 33 } }, false },
    { { 2, { 61, 700 } }, { 1, { 700 } }, false },
    { { 2, { 61, 700 } }, { 2, { 61, 1 } }, false },
    { { 3, { 5, 123, 9 } }, { 3, { 5, 1, 9 } }, false },
    { { 4, { 3, 5, 40, 41 } }, { 3, { 5, 1, 1 } }, false },
    { { 2, { 300, 211 } }, { 2, { 300, 211 } }, true },
    { { 2, { 1700, 1500 } }, { 1, { 1500 } }, false }, /* large enough to be streamed */
};
enum { SHAPES = sizeof shapes / sizeof *shapes, RESULTS = 3 };

static int64_t count(wf_dims d)
{
    int64_t n = 1;
    for (int32_t i = 0; i < d.n; i++)
        n *= d.d[i];
    return n;
}

static float *numbers(int64_t n, uint32_t seed)
{
    float *p = malloc((size_t)(n + 1) * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        p[i] = (float)(int32_t)seed * 0x1p-29f;
    }
    return p;
}

/* Three results of one group over x and b, one of which takes x's place in a variable. */
static void step(wf_ctx *c, wf_var *v, const shape *s, const float *x, const float *b, char **out)
{
    wf_dims d = s->x;
    if (s->turned)
        d.d[0] = s->x.d[1], d.d[1] = s->x.d[0];
    wf_scope around = wf_scope_begin(c, "around", .group = true), in = wf_scope_begin(c, "step");
    wf_tensor *p = wf_tensor_from(c, WF_F32, d, x), *q = wf_tensor_from(c, WF_F32, s->b, b), *w = wf_value(v);
    if (s->turned)
        p = wf_transpose(p);
    wf_tensor *r[RESULTS];
    r[0] = wf_add(wf_mul(p, q), w);
    r[1] = wf_where(wf_lt(r[0], p), wf_sigmoid(p), wf_neg(r[0]));
    r[2] = wf_sub(wf_cast(wf_relu(wf_cast(wf_mul(r[1], wf_scalar(c, 0.3)), WF_F16)), WF_F32), w);
    wf_assign(v, wf_add(r[2], wf_cast(wf_square(wf_cast(w, WF_F64)), WF_F32)));
    for (int i = 0; i < RESULTS; i++)
        r[i] = wf_scope_return(c, in, r[i]);
    assert_int_equal(wf_scope_end(c, in), WF_OK);
    size_t bytes = (size_t)count(s->x) * sizeof(float);
    for (int i = 0; i < RESULTS; i++)
        assert_int_equal(wf_read(c, r[i], out[i], bytes), WF_OK);
    assert_int_equal(wf_read(c, wf_value(v), out[RESULTS], bytes), WF_OK);
    wf_scope_end(c, around);
}

static void run(const shape *s, wf_mode mode, int threads, const char *compiler, char **out)
{
    setenv("WEFT_CC", compiler, 1);
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = threads });
    float *x = numbers(count(s->x), 1), *b = numbers(count(s->b), 2), *start = numbers(count(s->x), 3);
    wf_var *v = wf_var_new(c, "v", WF_F32, s->x, start);
    assert_non_null(v);
    for (int i = 0; i < 4; i++) {
        step(c, v, s, x, b, out);
        wf_compile_wait(c); /* so that the last steps run what was compiled, if there is a compiler */
    }
    assert_int_equal(wf_ctx_stats(c).failed, 0);
    if (mode == WF_LAZY)
        assert_non_null(strstr(wf_explain_plan(c, .buffers = true), "fused("));
    free(x), free(b), free(start);
    assert_int_equal(wf_ctx_close(c), WF_OK);
}

/* Those that are missing are none. */
static const char *const compilers[] = { "", "gcc", "clang" };

static void same_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < SHAPES; i++) {
        char *want[RESULTS + 1], *got[RESULTS + 1];
        size_t bytes = (size_t)count(shapes[i].x) * sizeof(float);
        for (int k = 0; k <= RESULTS; k++)
            assert_true((want[k] = malloc(bytes)) && (got[k] = malloc(bytes)));
        run(&shapes[i], WF_EAGER, 1, "", want);
        for (size_t cc = 0; cc < sizeof compilers / sizeof *compilers; cc++)
            for (int threads = 1; threads <= 3; threads++) {
                run(&shapes[i], WF_LAZY, threads, compilers[cc], got);
                for (int k = 0; k <= RESULTS; k++)
                    if (memcmp(want[k], got[k], bytes) != 0)
                        fail_msg("shape %zu, result %d, %d threads, \"%s\": other bits", i, k, threads, compilers[cc]);
            }
        for (int k = 0; k <= RESULTS; k++)
            free(want[k]), free(got[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text_in_text_out), cmocka_unit_test(reasons),
                                        cmocka_unit_test(one_group_less), cmocka_unit_test(same_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
