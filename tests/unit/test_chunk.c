/* Chunks: graph text in, graph text out; heads with many classes in less and less memory, against the same steps run
 * eagerly, bit for bit; and that every operator gives the bits of its result's parts for parts of its operands, where
 * its axis map says that it can be cut. */
#include "pass_text.h"
#include "passes/chunk.h"
#include "passes/chunk_region.h"
#include "ops/op.h"

/* ---- text ---- */

/* 32 MiB each, in four parts */
#define LEAVES "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\n"

static const pass_text texts[] = {
    { "rows are made, used and forgotten",
      LEAVES "v2 = matmul v0 v1 : f32[2048,4096]\nv3 = exp v2 : f32[2048,4096]\n"
             "v4 = sum v3 axes=[1] keep=false : f32[2048]\nresult 4 v4\n",
      LEAVES "v2 = slice v0 axis=0 start=0 len=512 step=1 : f32[512,64]\nv3 = matmul v2 v1 : f32[512,4096]\n"
             "v4 = exp v3 : f32[512,4096]\nv5 = sum v4 axes=[1] keep=false : f32[512]\n"
             "v6 = slice v0 axis=0 start=512 len=512 step=1 : f32[512,64]\nv7 = matmul v6 v1 : f32[512,4096]\n"
             "v8 = exp v7 : f32[512,4096]\nv9 = sum v8 axes=[1] keep=false : f32[512]\n"
             "v10 = slice v0 axis=0 start=1024 len=512 step=1 : f32[512,64]\nv11 = matmul v10 v1 : f32[512,4096]\n"
             "v12 = exp v11 : f32[512,4096]\nv13 = sum v12 axes=[1] keep=false : f32[512]\n"
             "v14 = slice v0 axis=0 start=1536 len=512 step=1 : f32[512,64]\nv15 = matmul v14 v1 : f32[512,4096]\n"
             "v16 = exp v15 : f32[512,4096]\nv17 = sum v16 axes=[1] keep=false : f32[512]\n"
             "v18 = concat v5 v9 v13 v17 axis=0 : f32[2048]\nresult 4 v18\n" },
    { "columns, where rows are summed; what needs the sums comes behind",
      "v0 = var 0 : f32[2,2048]\nv1 = var 1 : f32[2048,64]\nv2 = var 2 : f32[64,4096]\n"
      "v3 = matmul v1 v2 : f32[2048,4096]\nv4 = sum v3 axes=[0] keep=false : f32[4096]\n"
      "v5 = neg v4 : f32[4096]\nv6 = matmul v0 v3 : f32[2,4096]\nresult 5 v5\nresult 6 v6\n",
      "v0 = var 0 : f32[2,2048]\nv1 = var 1 : f32[2048,64]\nv2 = var 2 : f32[64,4096]\n"
      "v3 = slice v2 axis=1 start=0 len=1024 step=1 : f32[64,1024]\n"
      "v4 = matmul v1 v3 : f32[2048,1024]\nv5 = sum v4 axes=[0] keep=false : f32[1024]\n"
      "v6 = matmul v0 v4 : f32[2,1024]\n"
      "v7 = slice v2 axis=1 start=1024 len=1024 step=1 : f32[64,1024]\n"
      "v8 = matmul v1 v7 : f32[2048,1024]\nv9 = sum v8 axes=[0] keep=false : f32[1024]\n"
      "v10 = matmul v0 v8 : f32[2,1024]\n"
      "v11 = slice v2 axis=1 start=2048 len=1024 step=1 : f32[64,1024]\n"
      "v12 = matmul v1 v11 : f32[2048,1024]\nv13 = sum v12 axes=[0] keep=false : f32[1024]\n"
      "v14 = matmul v0 v12 : f32[2,1024]\n"
      "v15 = slice v2 axis=1 start=3072 len=1024 step=1 : f32[64,1024]\n"
      "v16 = matmul v1 v15 : f32[2048,1024]\nv17 = sum v16 axes=[0] keep=false : f32[1024]\n"
      "v18 = matmul v0 v16 : f32[2,1024]\nv19 = concat v5 v9 v13 v17 axis=0 : f32[4096]\n"
      "v20 = concat v6 v10 v14 v18 axis=1 : f32[2,4096]\nv21 = neg v19 : f32[4096]\nresult 5 v21\n"
      "result 6 v20\n" },
    { "the axis goes through changes of shape and view, and a product's sum goes on from part to part",
      "v0 = var 0 : f32[4,512,8]\nv1 = var 1 : f32[8,4096]\nv2 = matmul v0 v1 : f32[4,512,4096]\n"
      "v3 = exp v2 : f32[4,512,4096]\nv4 = reshape v3 shape=[2048,4096] : f32[2048,4096]\n"
      "v5 = transpose v4 : f32[4096,2048]\nv6 = reshape v0 shape=[2048,8] : f32[2048,8]\n"
      "v7 = matmul v5 v6 : f32[4096,8]\nresult 7 v7\n",
      "v0 = var 0 : f32[4,512,8]\nv1 = var 1 : f32[8,4096]\n"
      "v2 = reshape v0 shape=[2048,8] : f32[2048,8]\n"
      "v3 = slice v0 axis=0 start=0 len=1 step=1 : f32[1,512,8]\nv4 = matmul v3 v1 : f32[1,512,4096]\n"
      "v5 = exp v4 : f32[1,512,4096]\nv6 = reshape v5 shape=[512,4096] : f32[512,4096]\n"
      "v7 = transpose v6 : f32[4096,512]\nv8 = slice v2 axis=0 start=0 len=512 step=1 : f32[512,8]\n"
      "v9 = matmul v7 v8 : f32[4096,8]\nv10 = slice v0 axis=0 start=1 len=1 step=1 : f32[1,512,8]\n"
      "v11 = matmul v10 v1 : f32[1,512,4096]\nv12 = exp v11 : f32[1,512,4096]\n"
      "v13 = reshape v12 shape=[512,4096] : f32[512,4096]\nv14 = transpose v13 : f32[4096,512]\n"
      "v15 = slice v2 axis=0 start=512 len=512 step=1 : f32[512,8]\n"
      "v16 = matmul_add v9 v14 v15 : f32[4096,8]\n"
      "v17 = slice v0 axis=0 start=2 len=1 step=1 : f32[1,512,8]\n"
      "v18 = matmul v17 v1 : f32[1,512,4096]\nv19 = exp v18 : f32[1,512,4096]\n"
      "v20 = reshape v19 shape=[512,4096] : f32[512,4096]\nv21 = transpose v20 : f32[4096,512]\n"
      "v22 = slice v2 axis=0 start=1024 len=512 step=1 : f32[512,8]\n"
      "v23 = matmul_add v16 v21 v22 : f32[4096,8]\n"
      "v24 = slice v0 axis=0 start=3 len=1 step=1 : f32[1,512,8]\n"
      "v25 = matmul v24 v1 : f32[1,512,4096]\nv26 = exp v25 : f32[1,512,4096]\n"
      "v27 = reshape v26 shape=[512,4096] : f32[512,4096]\nv28 = transpose v27 : f32[4096,512]\n"
      "v29 = slice v2 axis=0 start=1536 len=512 step=1 : f32[512,8]\n"
      "v30 = matmul_add v23 v28 v29 : f32[4096,8]\nresult 7 v30\n" },
    { "a value that leaves the step stays, what is made of it does not",
      "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\nv2 = matmul v0 v1 : f32[2048,4096]\n"
      "result 2 v2\nv3 = exp v2 : f32[2048,4096]\nv4 = sum v3 axes=[1] keep=false : f32[2048]\n"
      "result 4 v4\n",
      "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\nv2 = matmul v0 v1 : f32[2048,4096]\n"
      "result 2 v2\nv3 = slice v2 axis=0 start=0 len=512 step=1 : f32[512,4096]\n"
      "v4 = exp v3 : f32[512,4096]\nv5 = sum v4 axes=[1] keep=false : f32[512]\n"
      "v6 = slice v2 axis=0 start=512 len=512 step=1 : f32[512,4096]\nv7 = exp v6 : f32[512,4096]\n"
      "v8 = sum v7 axes=[1] keep=false : f32[512]\n"
      "v9 = slice v2 axis=0 start=1024 len=512 step=1 : f32[512,4096]\nv10 = exp v9 : f32[512,4096]\n"
      "v11 = sum v10 axes=[1] keep=false : f32[512]\n"
      "v12 = slice v2 axis=0 start=1536 len=512 step=1 : f32[512,4096]\nv13 = exp v12 : f32[512,4096]\n"
      "v14 = sum v13 axes=[1] keep=false : f32[512]\nv15 = concat v5 v8 v11 v14 axis=0 : f32[2048]\n"
      "result 4 v15\n" },
    { "both axes at once: nothing",
      "v0 = var 0 : f32[3072,64]\nv1 = var 1 : f32[64,3072]\nv2 = matmul v0 v1 : f32[3072,3072]\n"
      "v3 = matmul v2 v2 : f32[3072,3072]\nv4 = sum v3 axes=[0,1] keep=false : f32[]\nresult 4 v4\n",
      "v0 = var 0 : f32[3072,64]\nv1 = var 1 : f32[64,3072]\nv2 = matmul v0 v1 : f32[3072,3072]\n"
      "v3 = matmul v2 v2 : f32[3072,3072]\nv4 = sum v3 axes=[0,1] keep=false : f32[]\nresult 4 v4\n" },
    { "out of the region and back: nothing",
      "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\nv2 = matmul v0 v1 : f32[2048,4096]\n"
      "v3 = exp v2 : f32[2048,4096]\nv4 = sum v3 axes=[1] keep=true : f32[2048,1]\n"
      "v5 = max v4 axes=[0,1] keep=true : f32[1,1]\nv6 = div v3 v5 : f32[2048,4096]\n"
      "v7 = sum v6 axes=[1] keep=false : f32[2048]\nresult 7 v7\n",
      "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\nv2 = matmul v0 v1 : f32[2048,4096]\n"
      "v3 = exp v2 : f32[2048,4096]\nv4 = sum v3 axes=[1] keep=true : f32[2048,1]\n"
      "v5 = max v4 axes=[0,1] keep=true : f32[1,1]\nv6 = div v3 v5 : f32[2048,4096]\n"
      "v7 = sum v6 axes=[1] keep=false : f32[2048]\nresult 7 v7\n" },
    { "rows in between become part of it",
      "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\nv2 = matmul v0 v1 : f32[2048,4096]\n"
      "v3 = exp v2 : f32[2048,4096]\nv4 = sum v3 axes=[1] keep=true : f32[2048,1]\n"
      "v5 = log v4 : f32[2048,1]\nv6 = div v3 v5 : f32[2048,4096]\n"
      "v7 = sum v6 axes=[1] keep=false : f32[2048]\nresult 7 v7\n",
      "v0 = var 0 : f32[2048,64]\nv1 = var 1 : f32[64,4096]\n"
      "v2 = slice v0 axis=0 start=0 len=512 step=1 : f32[512,64]\nv3 = matmul v2 v1 : f32[512,4096]\n"
      "v4 = exp v3 : f32[512,4096]\nv5 = sum v4 axes=[1] keep=true : f32[512,1]\n"
      "v6 = log v5 : f32[512,1]\nv7 = div v4 v6 : f32[512,4096]\n"
      "v8 = sum v7 axes=[1] keep=false : f32[512]\n"
      "v9 = slice v0 axis=0 start=512 len=512 step=1 : f32[512,64]\n"
      "v10 = matmul v9 v1 : f32[512,4096]\nv11 = exp v10 : f32[512,4096]\n"
      "v12 = sum v11 axes=[1] keep=true : f32[512,1]\nv13 = log v12 : f32[512,1]\n"
      "v14 = div v11 v13 : f32[512,4096]\nv15 = sum v14 axes=[1] keep=false : f32[512]\n"
      "v16 = slice v0 axis=0 start=1024 len=512 step=1 : f32[512,64]\n"
      "v17 = matmul v16 v1 : f32[512,4096]\nv18 = exp v17 : f32[512,4096]\n"
      "v19 = sum v18 axes=[1] keep=true : f32[512,1]\nv20 = log v19 : f32[512,1]\n"
      "v21 = div v18 v20 : f32[512,4096]\nv22 = sum v21 axes=[1] keep=false : f32[512]\n"
      "v23 = slice v0 axis=0 start=1536 len=512 step=1 : f32[512,64]\n"
      "v24 = matmul v23 v1 : f32[512,4096]\nv25 = exp v24 : f32[512,4096]\n"
      "v26 = sum v25 axes=[1] keep=true : f32[512,1]\nv27 = log v26 : f32[512,1]\n"
      "v28 = div v25 v27 : f32[512,4096]\nv29 = sum v28 axes=[1] keep=false : f32[512]\n"
      "v30 = concat v8 v15 v22 v29 axis=0 : f32[2048]\nresult 7 v30\n" },
};

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pass(&texts[i], wfi_chunk);
}

static bool chunk_split(const wfi_graph *g, wfi_graph *out)
{
    wfi_graph split = *g;
    split.split = true;
    return wfi_chunk(&split, out);
}
/* Where the numbers of products are split, a product stays whole: its bits are a matter of all its numbers. */
static void split_products_stay(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        pass_text t = texts[i];
        if (i < 2) /* k = 64; the third has less, and is cut as ever */
            t.out = t.in;
        check_pass(&t, chunk_split);
    }
}

/* ---- every operator, along every axis that its map gives away ---- */

static const struct {
    const char *op, *text;
    bool large;
} samples[] = {
#define WFI_SAMPLE(op, text) { #op, text, false },
#include "samples.inc"
#undef WFI_SAMPLE
#include "large_samples.inc"
};

typedef struct cell {
    wf_ctx *c;
    const char *text;
    uint32_t op;
    int nin, nout;
    wf_tensor *in[REF_IN], *out[REF_OUT];
    wfi_graph g; /* leaves, and the operator as its last node */
} cell;

static void whole(cell *k, uint32_t sample, rng *r)
{
    const wfi_op_info *o = &wfi_op_table[k->op];
    char rest[256], unknown[128], err[WFI_AXIS_ERR];
    operand in[REF_IN];
    uint32_t value[REF_IN], type[REF_OUT];
    wfi_attrs a;
    memset(&a, 0, sizeof a);
    k->text = samples[sample].text;
    k->nin = sample_operands(k->text, in, rest, sizeof rest);
    k->nout = o->nout;
    for (int i = k->nin; i < o->nin_max && !(o->flags & WFI_OP_MANY); i++)
        in[k->nin++] = (operand){ .dtype = WF_DTYPE_NONE };
    if (!wfi_op_attr_parse(o, rest, &a, unknown, sizeof unknown, err, sizeof err))
        fail_msg("%s: %s", o->name, err);
    wfi_graph_init(&k->g, k->c->mem, &k->c->ids);
    for (int i = 0; i < k->nin; i++) {
        value[i] = WFI_NO_VALUE;
        if (!in[i].dtype)
            continue;
        void *data = operand_fill(&in[i], r);
        wf_dims d = { .n = in[i].ndim };
        memcpy(d.d, in[i].dim, sizeof d.d);
        k->in[i] = wf_tensor_from(k->c, in[i].dtype, d, data);
        free(data);
        type[0] = wfi_tensor_type(k->in[i]);
        value[i] = wfi_graph_add(&k->g, WFI_NODE_VAR, (uint32_t)i, 0, NULL, 1, type, 0);
    }
    wfi_emit_n(k->c, (wfi_op)k->op, &a, o->attr_bytes, k->nin, k->in, k->nout, k->out, "test_chunk.c:1");
    if (!k->out[0])
        fail_msg("%s %s: %s", o->name, k->text, wf_error(k->c));
    for (int i = 0; i < k->nout; i++)
        type[i] = wfi_tensor_type(k->out[i]);
    const uint32_t attr = o->attr_bytes ? wfi_ids_attr(&k->c->ids, k->op, &a, o->attr_bytes) : 0;
    assert_int_not_equal(wfi_graph_add(&k->g, k->op, attr, (uint32_t)k->nin, value, (uint32_t)k->nout, type, 0),
                         WFI_NO_VALUE);
}

static wf_tensor *part_of(wf_tensor *t, int axis, int64_t part, int64_t parts)
{
    const int64_t len = axis < 0 ? 0 : wfi_shape(t).d[axis] / parts;
    return axis < 0 ? t : wf_slice(t, axis, part * len, len);
}

static void same(const cell *k, wf_tensor *want, wf_tensor *got, int axis)
{
    const wfi_type *t = wfi_type_at(&k->c->ids, wfi_tensor_type(want));
    assert_int_equal(wfi_tensor_type(want), wfi_tensor_type(got));
    char *a = malloc(t->bytes + 1), *b = malloc(t->bytes + 1);
    assert_true(a && b);
    assert_int_equal(wf_read(k->c, want, a, t->bytes), WF_OK);
    assert_int_equal(wf_read(k->c, got, b, t->bytes), WF_OK);
    for (int64_t i = 0; i < t->elements; i++)
        if (!same_element(t->dtype, a, b, i))
            fail_msg("%s %s: element %lld of a part along axis %d differs", wfi_op_table[k->op].name, k->text,
                     (long long)i, axis);
    free(a);
    free(b);
}

/* The operator on parts of its operands. */
static void in_parts(const cell *k, const wfi_member *m, int64_t parts, int axis)
{
    uint32_t attr;
    assert_true(wfi_region_attr(&k->g, m, parts, &attr));
    wf_tensor *sum = NULL;
    for (int64_t p = 0; p < parts; p++) {
        wf_tensor *in[REF_IN], *out[REF_OUT];
        for (int i = 0; i < k->nin; i++)
            in[i] = !k->in[i] ? NULL : part_of(k->in[i], m->in[i], p, parts);
        if (m->chain) {
            sum = sum ? wf_matmul_add(sum, in[0], in[1]) : wf_matmul(in[0], in[1]);
            continue;
        }
        wfi_emit_n(k->c, (wfi_op)k->op, wfi_attr_data(&k->c->ids, attr), wfi_op_table[k->op].attr_bytes, k->nin, in,
                   k->nout, out, "test_chunk.c:2");
        for (int i = 0; i < k->nout; i++)
            same(k, part_of(k->out[i], m->out[i], p, parts), out[i], axis);
    }
    if (m->chain)
        same(k, k->out[0], sum, axis);
}

static uint32_t along_every_axis(const cell *k)
{
    uint32_t cuts = 0;
    const uint32_t node = (uint32_t)k->g.nnode - 1;
    for (int place = 0; place < k->nin + k->nout; place++) {
        const bool out = place >= k->nin;
        if (!out && !k->in[place])
            continue;
        const wf_dims d = wfi_shape(out ? k->out[place - k->nin] : k->in[place]);
        for (int axis = 0; axis < d.n; axis++) {
            wfi_region r = { .g = &k->g, .n = 1 };
            int64_t parts = 2;
            while (parts < d.d[axis] && d.d[axis] % parts)
                parts++;
            if (d.d[axis] < 2 ||
                wfi_region_axes(&k->g, node, out, (uint32_t)(out ? place - k->nin : place), axis, &r.m[0]))
                continue;
            for (int i = 0; i < k->nin; i++)
                if (k->in[i] && r.m[0].in[i] >= 0 && wfi_shape(k->in[i]).d[r.m[0].in[i]] % parts)
                    parts = 0;
            if (!parts || !wfi_region_fits(&r, parts))
                continue;
            in_parts(k, &r.m[0], parts, axis);
            cuts++;
        }
    }
    return cuts;
}

static void operators_give_parts(void **state)
{
    (void)state;
    uint32_t cuts = 0, operators = 0;
    rng r = { 20261201 };
    print_message("seed 20261201\n");
    for (int threads = 1; threads <= 2; threads++)
        for (uint32_t i = 0; i < sizeof samples / sizeof *samples; i++) {
            cell k = { .c = wf_ctx_new(&(wf_ctx_opts){ .mode = WF_EAGER, .threads = threads }),
                       .op = (uint32_t)wfi_op_find(samples[i].op) };
            assert_non_null(k.c);
            wf_scope s = wf_scope_begin(k.c, "parts", .no_grad = true);
            whole(&k, i, &r);
            uint32_t n = along_every_axis(&k);
            cuts += n;
            operators += n > 0;
            wfi_graph_free(&k.g);
            wf_scope_end(k.c, s);
            if (wf_ctx_close(k.c) != WF_OK)
                fail_msg("%s %s", samples[i].op, samples[i].text);
        }
    print_message("%u samples cut, along %u axes\n", operators, cuts);
    assert_true(operators > 200);
}

/* ---- heads ---- */

enum { ROWS = 64, WIDTH = 24, CLASSES = 640, STEPS = 3 };

typedef wf_loss loss_fn(wf_model *m, wf_tensor *h, wf_tensor *y);

static wf_loss plain(wf_model *m, wf_tensor *h, wf_tensor *y)
{
    return wf_cross_entropy(wf_nn_linear(m, "head", h, CLASSES, .no_bias = true), y);
}

static wf_loss with_options(wf_model *m, wf_tensor *h, wf_tensor *y)
{
    wf_tensor *x = wf_nn_linear(m, "head", wf_reshape(h, WF_DIMS(4, ROWS / 4, WIDTH)), CLASSES, .no_bias = true);
    return wf_cross_entropy(x, wf_reshape(y, WF_DIMS(4, ROWS / 4)), .has_ignore = true, .ignore = 3, .smoothing = 0.1);
}

/* The weights of the rows of `t` are those of the embedding. */
static wf_loss tied(wf_model *m, wf_tensor *h, wf_tensor *y)
{
    wf_tensor *t = wf_nn_param(m, "table", WF_DIMS(CLASSES, WIDTH), .init = WF_INIT_NORMAL);
    return wf_cross_entropy(wf_matmul(wf_add(h, wf_gather(t, y)), wf_transpose(t)), y);
}

/* By hand, from element-wise operators and sums. */
static wf_loss by_hand(wf_model *m, wf_tensor *h, wf_tensor *y)
{
    wf_tensor *x = wf_nn_linear(m, "head", h, CLASSES, .no_bias = true);
    wf_tensor *p = wf_sub(x, wf_log(wf_sum(wf_exp(x), WF_DIMS(1), .keep = true)));
    wf_tensor *hot = wf_cast(wf_one_hot(y, CLASSES), WF_F32);
    return (wf_loss){ wf_neg(wf_sum(wf_sum(wf_mul(p, hot), WF_DIMS(1)), WF_DIMS(0))), wfi_like(h, ROWS) };
}

/* The bias has its gradient summed over the rows, so that stays as it is. */
static wf_loss biased(wf_model *m, wf_tensor *h, wf_tensor *y)
{
    return wf_cross_entropy(wf_nn_linear(m, "head", h, CLASSES), y);
}

static const struct {
    const char *name;
    loss_fn *loss;
    double least; /* of the whole arena that is left */
} heads[] = {
    { "plain", plain, 0.35 }, { "with options", with_options, 0.5 }, { "tied", tied, 0.6 }, { "by hand", by_hand, 0.5 },
    { "biased", biased, 1 },
};

/* Steps; the losses and the weights behind them. Returns the plan's arena. */
static size_t train(loss_fn *loss, wf_mode mode, int threads, size_t budget, float *out)
{
    wf_ctx *c = wf_ctx_new(&(wf_ctx_opts){ .mode = mode, .threads = threads, .memory_budget = budget });
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 0.05);
    static float data[ROWS * WIDTH];
    int64_t label[ROWS];
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = (float)(i * 7919 % 1000) / 500 - 1;
    for (int i = 0; i < ROWS; i++)
        label[i] = i * 7919 % CLASSES;
    for (int i = 0; i < STEPS; i++) {
        wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(ROWS, WIDTH), data);
        wf_tensor *y = wf_tensor_from(c, WF_I64, WF_DIMS(ROWS), label);
        wf_tensor *h = wf_tanh(wf_nn_linear(m, "body", x, WIDTH));
        wf_loss l = loss(m, h, y);
        wf_optim_step(opt, l);
        wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(l));
        h = wf_scope_return(c, s, h);
        if (wf_scope_end(c, s) != WF_OK)
            fail_msg("%s", wf_error(c));
        assert_int_equal(wf_read(c, mean, out, sizeof *out), WF_OK);
        assert_int_equal(wf_read(c, h, out + 1, sizeof data), WF_OK);
        out += 1 + ROWS * WIDTH;
        wf_scope_end(c, around);
    }
    const size_t arena = wf_ctx_stats(c).arena_bytes;
    assert_int_equal(wf_ctx_close(c), WF_OK);
    return arena;
}

static void heads_in_parts(void **state)
{
    enum { OUT = STEPS * (1 + ROWS * WIDTH) };
    static float want[OUT], got[OUT];
    (void)state;
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++) {
        (void)train(heads[i].loss, WF_EAGER, 1, 0, want);
        const size_t whole_arena = train(heads[i].loss, WF_LAZY, 1, 0, got);
        size_t least = whole_arena;
        assert_memory_equal(want, got, sizeof want);
        for (size_t tenth = 9; tenth >= 2; tenth--) {
            const size_t arena = train(heads[i].loss, WF_LAZY, 1 + (int)(tenth % 3), whole_arena * tenth / 10, got);
            if (memcmp(want, got, sizeof want))
                fail_msg("%s, %zu tenths of memory: other bits", heads[i].name, tenth);
            least = arena < least ? arena : least;
        }
        print_message("%s: %zu bytes, down to %zu\n", heads[i].name, whole_arena, least);
        assert_true((double)least <= heads[i].least * (double)whole_arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_in_text_out),
        cmocka_unit_test(split_products_stay),
        cmocka_unit_test(operators_give_parts),
        cmocka_unit_test(heads_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
