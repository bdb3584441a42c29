/* Simplification: graph text in, graph text out. What is not exact for every operand must stay. */
#include "pass_text.h"
#include "passes/simplify.h"

#define X "v0 = var 0 : f32[4,8]\n"

static const pass_text texts[] = {
    { "equal nodes are one",
      X "v1 = exp v0 : f32[4,8]\nv2 = exp v0 : f32[4,8]\nv3 = add v1 v2 : f32[4,8]\nresult 1 v3\n",
      X "v1 = exp v0 : f32[4,8]\nv2 = add v1 v1 : f32[4,8]\nresult 1 v2\n" },
    { "equal attributes decide",
      X "v1 = sum v0 axes=[0] keep=false : f32[8]\nv2 = sum v0 axes=[0] keep=false : f32[8]\n"
        "v3 = sum v0 axes=[0] keep=true : f32[1,8]\nv4 = add v1 v2 : f32[8]\nresult 1 v4\nresult 2 v3\n",
      X "v1 = sum v0 axes=[0] keep=false : f32[8]\nv2 = sum v0 axes=[0] keep=true : f32[1,8]\n"
        "v3 = add v1 v1 : f32[8]\nresult 1 v3\nresult 2 v2\n" },
    { "times one, over one, minus nothing, twice negative",
      X "v1 = const 1 : f32[]\nv2 = const 0 : f32[]\nv3 = mul v1 v0 : f32[4,8]\nv4 = div v3 v1 : f32[4,8]\n"
        "v5 = sub v4 v2 : f32[4,8]\nv6 = neg v5 : f32[4,8]\nv7 = neg v6 : f32[4,8]\nv8 = exp v7 : f32[4,8]\nresult 1 "
        "v8\n",
      X "v1 = exp v0 : f32[4,8]\nresult 1 v1\n" },
    { "a number that was spread",
      X "v1 = const 1 : f32[]\nv2 = broadcast_to v1 shape=[4,8] : f32[4,8]\nv3 = zmul v2 v0 : f32[4,8]\n"
        "v4 = exp v3 : f32[4,8]\nresult 1 v4\n",
      X "v1 = exp v0 : f32[4,8]\nresult 1 v1\n" },
    { "x + 0 makes +0 of -0, and zmul(x, 1) as well: both stay",
      X "v1 = const 0 : f32[]\nv2 = const 1 : f32[]\nv3 = add v0 v1 : f32[4,8]\nv4 = zmul v0 v2 : f32[4,8]\n"
        "v5 = sub v3 v4 : f32[4,8]\nresult 1 v5\n",
      X "v1 = const 0 : f32[]\nv2 = const 1 : f32[]\nv3 = add v0 v1 : f32[4,8]\nv4 = zmul v0 v2 : f32[4,8]\n"
        "v5 = sub v3 v4 : f32[4,8]\nresult 1 v5\n" },
    { "1 * x of another shape stays",
      "v0 = var 0 : f32[8]\nv1 = const 1 : f32[]\nv2 = broadcast_to v1 shape=[4,8] : f32[4,8]\n"
      "v3 = mul v2 v0 : f32[4,8]\nresult 1 v3\n",
      "v0 = var 0 : f32[8]\nv1 = const 1 : f32[]\nv2 = broadcast_to v1 shape=[4,8] : f32[4,8]\n"
      "v3 = mul v2 v0 : f32[4,8]\nresult 1 v3\n" },
    { "the caller's memory does not become a result",
      "v0 = input 0 : f32[8]\nv1 = const 1 : f32[]\nv2 = mul v0 v1 : f32[8]\nresult 1 v2\n",
      "v0 = input 0 : f32[8]\nv1 = const 1 : f32[]\nv2 = mul v0 v1 : f32[8]\nresult 1 v2\n" },
    { "names only",
      X "v1 = detach v0 : f32[4,8]\nv2 = reshape v1 shape=[4,8] : f32[4,8]\nv3 = reshape v2 shape=[8,4] : f32[8,4]\n"
        "v4 = exp v3 : f32[8,4]\nresult 1 v4\n",
      X "v1 = reshape v0 shape=[8,4] : f32[8,4]\nv2 = exp v1 : f32[8,4]\nresult 1 v2\n" },
    { "nobody needs it", X "v1 = exp v0 : f32[4,8]\nv2 = neg v1 : f32[4,8]\nresult 1 v1\n",
      X "v1 = exp v0 : f32[4,8]\nresult 1 v1\n" },
};

static void text_in_text_out(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        check_pass(&texts[i], wfi_simplify);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(text_in_text_out) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
