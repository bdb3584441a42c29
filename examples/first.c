/* first.c - the first program of the README: a network, a step, and nothing else. */
#include <weft/weft.h>

static wf_tensor *net(wf_model *m, wf_tensor *x) /* f32[N,1,28,28] -> f32[N,10] */
{
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(m, "conv1", x, 32, .kernel = 3, .pad = 1)), .kernel = 2);
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(m, "conv2", x, 64, .kernel = 3, .pad = 1)), .kernel = 2);
    return wf_nn_linear(m, "fc2", wf_relu(wf_nn_linear(m, "fc1", wf_flatten(x, 1), 128)), 10);
}

int main(void)
{
    wf_ctx *c = wf_ctx_new(NULL); /* best device, lazy, fixed seed */
    wf_model *m = wf_model_new(c);
    wf_optim *opt = wf_adamw(m, .lr = 1e-3);
    wf_data *d = wf_data_open(c, "fashion-mnist:train", .batch = 128, .shuffle = true);

    for (wf_batch b; wf_data_next(d, &b);) {
        wf_scope s = wf_scope_begin(c, "step");
        wf_loss loss = wf_cross_entropy(net(m, b.x), b.y); /* a (sum, weight) pair */
        wf_optim_step(opt, loss);                          /* gradients and update */
        wf_scope_end(c, s);                                /* the step runs here, as one plan */
    }
    return wf_ctx_close(c); /* prints a pending error, returns its status */
}
