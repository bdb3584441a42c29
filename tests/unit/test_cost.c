/* What nodes cost: operations and elements read, against counts by hand. */
#include "refeval.h"
#include "ops/cost.h"

static void code(void **state)
{
    (void)state;
    static const struct {
        const char *code;
        double ops;
    } texts[] = { { "a + b", 1 },       { "y += a * b", 2 },   { "y = x", 0 },
                  { "x", 0 },           { "1 / vsqrt(a)", 2 }, { "a > 0 ? 1 : a < 0 ? -1 : a", 5 },
                  { "1.5e-7f * a", 1 }, { "vexp(a) - 1", 19 }, { "y = y && x", 1 } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (wfi_cost_of_code(texts[i].code) != texts[i].ops)
            fail_msg("%s: %g operations, %g were expected", texts[i].code, wfi_cost_of_code(texts[i].code),
                     texts[i].ops);
}

typedef struct node {
    const char *op, *attr;
    int nin;
    wf_dims in[5];
    wf_dtype dtype[5];
    double flops, read[5];
} node;

static const node nodes[] = {
    { "add", "", 2, { { 2, { 8, 32 } }, { 1, { 32 } } }, { WF_F32, WF_F32 }, 256, { 256, 32 } },
    { "matmul", "", 2, { { 3, { 5, 3, 4 } }, { 2, { 4, 7 } } }, { WF_F32, WF_F32 }, 2.0 * 5 * 3 * 4 * 7, { 60, 28 } },
    { "permute", "perm=[1,0]", 1, { { 2, { 8, 32 } } }, { WF_F32 }, 0, { 256 } },
    { "sum", "axes=1", 1, { { 2, { 8, 32 } } }, { WF_F32 }, 256, { 256 } },
    { "conv2d",
      "pad=1",
      2,
      { { 4, { 2, 6, 9, 8 } }, { 4, { 5, 6, 3, 3 } } },
      { WF_F32, WF_F32 },
      2.0 * 2 * 5 * 6 * 25 * 22,
      { 864, 270 } },
    { "conv2d_input_grad",
      "height=9 width=8 pad=1",
      2,
      { { 4, { 2, 5, 9, 8 } }, { 4, { 5, 6, 3, 3 } } },
      { WF_F32, WF_F32 },
      2.0 * 2 * 5 * 6 * 25 * 22,
      { 720, 270 } },
    { "conv2d_weight_grad",
      "kernel_h=3 kernel_w=3 pad=1",
      2,
      { { 4, { 2, 6, 9, 8 } }, { 4, { 2, 5, 9, 8 } } },
      { WF_F32, WF_F32 },
      2.0 * 2 * 5 * 6 * 25 * 22,
      { 864, 720 } },
    /* three rows of seven that a table of a hundred has; no more than all of it */
    { "gather", "", 2, { { 2, { 100, 7 } }, { 1, { 3 } } }, { WF_F32, WF_I64 }, 21, { 21, 3 } },
    { "gather", "", 2, { { 2, { 2, 7 } }, { 1, { 30 } } }, { WF_F32, WF_I64 }, 210, { 14, 30 } },
    { "concat", "axis=0", 2, { { 2, { 3, 4 } }, { 2, { 5, 4 } } }, { WF_F32, WF_F32 }, 32, { 12, 20 } },
    { "softmax", "axis=-1", 1, { { 2, { 4, 7 } } }, { WF_F32 }, 22 * 28, { 28 } },
    { "attention",
      "",
      4,
      { { 2, { 6, 8 } }, { 2, { 9, 8 } }, { 2, { 9, 4 } }, { -1, { 0 } } },
      { WF_F32, WF_F32, WF_F32 },
      6 * 9 * (2 * 12 + 18),
      { 48, 72, 36 } },
    { "attention",
      "causal=true",
      4,
      { { 2, { 6, 8 } }, { 2, { 6, 8 } }, { 2, { 6, 4 } }, { -1, { 0 } } },
      { WF_F32, WF_F32, WF_F32 },
      21 * (2 * 12 + 18),
      { 48, 48, 24 } },
};

static void by_hand(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        const node *n = &nodes[i];
        const wfi_op_info *op = &wfi_op_table[wfi_op_find(n->op)];
        wfi_axis_shape shape[5] = { { .ndim = 0 } };
        wfi_attrs attr;
        wfi_cost cost;
        char err[256] = "";
        memset(&attr, 0, sizeof attr);
        for (int k = 0; k < n->nin; k++) {
            shape[k].dtype = wf_dtype_name(n->dtype[k]);
            shape[k].ndim = n->in[k].n;
            memcpy(shape[k].dim, n->in[k].d, sizeof shape[k].dim);
        }
        if (!wfi_op_attr_parse(op, n->attr, &attr, NULL, 0, err, sizeof err) ||
            !wfi_op_cost(op, &attr, n->nin, shape, n->dtype, &cost))
            fail_msg("%s: %s", n->op, err);
        if (cost.flops != n->flops)
            fail_msg("%s %s: %g operations, %g were expected", n->op, n->attr, cost.flops, n->flops);
        for (int k = 0; k < n->nin; k++)
            if (cost.read[k] != n->read[k])
                fail_msg("%s %s: operand %d: %g elements, %g were expected", n->op, n->attr, k, cost.read[k],
                         n->read[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(code), cmocka_unit_test(by_hand) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
