/* A program outside the tree: builds against the installed library, as C and as C++. */
#include <stdio.h>
#include <weft/weft.h>

static wf_tensor *net(wf_model *m, wf_tensor *x)
{
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(m, "conv1", x, 4, .kernel = 3, .pad = 1)), .kernel = 2);
    return wf_nn_linear(m, "fc", wf_flatten(x, 1), 3);
}

int main(void)
{
    wf_ctx *c = wf_ctx_new(NULL);
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 1e-2);
    static float pixels[6 * 8 * 8];
    const int64_t labels[6] = { 0, 1, 2, 0, 1, 2 };
    double first = 0, last = 0;
    for (int i = 0; i < 6 * 64; i++)
        pixels[i] = (float)((i * 37 + i / 64 % 3 * 11) % 17) / 17;
    for (int step = 0; step < 60; step++) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_tensor *x = wf_tensor_from(c, WF_F32, WF_DIMS(6, 1, 8, 8), pixels);
        wf_loss loss = wf_cross_entropy(net(m, x), wf_tensor_from(c, WF_I64, WF_DIMS(6), labels));
        wf_tensor *mean = wf_scope_return(c, s, wf_loss_mean(loss));
        wf_optim_step(opt, loss);
        wf_scope_end(c, s);
        last = wf_item(c, mean);
        first = step ? first : last;
    }
    printf("loss %s\n", first > 0.5 && last < first / 2 ? "falls" : "does not fall");
    return wf_ctx_close(c);
}
