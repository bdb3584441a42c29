/* Shapes of element-wise operators that reshapes part: graph text in, graph text out. Bits are compared by every test
 * that runs steps (WEFT_CHECK=ref). */
#include "pass_text.h"
#include "passes/align.h"

#define LEAVES "v0 = var 0 : f32[4,8]\nv1 = var 1 : f32[4]\nv2 = var 2 : f32[6,4]\n"

static const pass_text texts[] = {
    { "a linear layer's bias, and what follows in another shape",
      LEAVES "v3 = add v2 v1 : f32[6,4]\nv4 = reshape v3 shape=[2,3,4] : f32[2,3,4]\nv5 = relu v4 : f32[2,3,4]\n"
             "v6 = reshape v5 shape=[6,4] : f32[6,4]\nv7 = matmul v6 v0 : f32[6,8]\nresult 9 v7\n",
      LEAVES "v3 = reshape v2 shape=[2,3,4] : f32[2,3,4]\nv4 = add v3 v1 : f32[2,3,4]\nv5 = relu v4 : f32[2,3,4]\n"
             "v6 = reshape v5 shape=[6,4] : f32[6,4]\nv7 = matmul v6 v0 : f32[6,8]\nresult 9 v7\n" },
    { "a residual, whose other operand has the finer shape already",
      LEAVES "v3 = var 3 : f32[2,3,4]\nv4 = add v2 v1 : f32[6,4]\nv5 = reshape v4 shape=[2,3,4] : f32[2,3,4]\n"
             "v6 = add v3 v5 : f32[2,3,4]\nresult 9 v6\nresult 8 v4\n",
      LEAVES "v3 = var 3 : f32[2,3,4]\nv4 = reshape v2 shape=[2,3,4] : f32[2,3,4]\nv5 = add v4 v1 : f32[2,3,4]\n"
             "v6 = add v3 v5 : f32[2,3,4]\nresult 9 v6\nv7 = reshape v5 shape=[6,4] : f32[6,4]\nresult 8 v7\n" },
    { "one number a row is one number a row of the finer shape",
      LEAVES "v3 = var 3 : f32[6,1]\nv4 = mul v2 v3 : f32[6,4]\nv5 = reshape v4 shape=[2,3,4] : f32[2,3,4]\n"
             "v6 = exp v5 : f32[2,3,4]\nresult 9 v6\n",
      LEAVES "v3 = var 3 : f32[6,1]\nv4 = reshape v2 shape=[2,3,4] : f32[2,3,4]\nv5 = reshape v3 shape=[2,3,1] : "
             "f32[2,3,1]\nv6 = mul v4 v5 : f32[2,3,4]\nv7 = exp v6 : f32[2,3,4]\nresult 9 v7\n" },
    { "what repeats over an axis that the finer shape does not have stays where it is",
      "v0 = var 0 : f32[6,4]\nv1 = var 1 : f32[3,1,4]\nv2 = reshape v0 shape=[3,2,4] : f32[3,2,4]\n"
      "v3 = mul v2 v1 : f32[3,2,4]\nv4 = reshape v3 shape=[2,3,1,4] : f32[2,3,1,4]\nv5 = exp v4 : f32[2,3,1,4]\n"
      "result 9 v5\n",
      "v0 = var 0 : f32[6,4]\nv1 = var 1 : f32[3,1,4]\nv2 = reshape v0 shape=[3,2,4] : f32[3,2,4]\n"
      "v3 = mul v2 v1 : f32[3,2,4]\nv4 = reshape v3 shape=[2,3,1,4] : f32[2,3,1,4]\nv5 = exp v4 : f32[2,3,1,4]\n"
      "result 9 v5\n" },
    { "a reshape that changes the last axis may be a copy",
      LEAVES "v3 = exp v2 : f32[6,4]\nv4 = reshape v3 shape=[24] : f32[24]\nv5 = neg v4 : f32[24]\nresult 9 v5\n",
      LEAVES "v3 = exp v2 : f32[6,4]\nv4 = reshape v3 shape=[24] : f32[24]\nv5 = neg v4 : f32[24]\nresult 9 v5\n" },
};

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pass(&texts[i], wfi_align);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text_in_text_out) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
