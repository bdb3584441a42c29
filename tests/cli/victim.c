/* victim WHAT [--print]: a program that goes wrong exactly where something was done to its plan, for `weft bisect`:
 * group (exp and neg are one kernel), simplify (two equal calls are one), reuse (a variable is written in place),
 * compiled (a kernel was compiled), always, never. Wrong: exit status 1, or with --print another line. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static const float numbers[64 * 64];

static const char *plan_of(wf_ctx *c, wf_var *w)
{
    for (int i = 0; i < 4; i++) {
        wf_scope around = wf_scope_begin(c, "around", .group = true), s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(64, 64), numbers);
        wf_tensor *a = wf_relu(wf_add(x, wf_scalar(c, 1)));                        /* a group */
        wf_tensor *b = wf_neg(wf_exp(wf_matmul(a, a)));                            /* another one */
        wf_tensor *d = wf_add(wf_tanh(wf_matmul(b, x)), wf_tanh(wf_matmul(b, x))); /* equal calls */
        (void)wf_scope_return(c, s, wf_sqrt(wf_abs(wf_matmul(d, a))));             /* a third group */
        wf_assign(w, wf_mul(wf_value(w), wf_scalar(c, 0.5)));
        wf_scope_end(c, s);
        wf_scope_end(c, around);
        wf_compile_wait(c);
    }
    return wf_explain_plan(c, .buffers = true);
}

static int count(const char *text, const char *part)
{
    int n = 0;
    for (const char *at = text; at && (at = strstr(at, part)); at++)
        n++;
    return n;
}

static bool wrong(wf_ctx *c, const char *plan, const char *what)
{
    wf_stats s = wf_ctx_stats(c);
    if (!strcmp(what, "group"))
        return count(plan, "fused(exp i0; neg t0)") > 0;
    if (!strcmp(what, "simplify"))
        return plan && count(plan, "matmul ") < 4;
    if (!strcmp(what, "reuse"))
        return count(plan, ", in place") > 0;
    if (!strcmp(what, "compiled"))
        return s.compiled + s.loaded > 0;
    return !strcmp(what, "always");
}

int main(int argc, char **argv)
{
    wf_ctx *c = wf_ctx_new(NULL);
    wf_var *w = wf_var_new(c, "w", WF_F32, WF_DIMS(4), numbers);
    const char *plan = plan_of(c, w);
    bool is_wrong = argc > 1 && wrong(c, plan, argv[1]);
    if (argc > 2) {
        printf("%s\n", is_wrong ? "a wrong line" : "a line");
        is_wrong = false;
    }
    return wf_ctx_close(c) || is_wrong;
}
