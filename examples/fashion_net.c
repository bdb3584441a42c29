#include "fashion_net.h"

const char *const fashion_classes[10] = { "t-shirt", "trousers", "pullover", "dress", "coat",
                                          "sandal",  "shirt",    "sneaker",  "bag",   "boot" };

wf_tensor *fashion_net(wf_model *m, wf_tensor *x)
{
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(m, "conv1", x, 32, .kernel = 3, .pad = 1)), .kernel = 2);
    x = wf_max_pool2d(wf_relu(wf_nn_conv2d(m, "conv2", x, 64, .kernel = 3, .pad = 1)), .kernel = 2);
    return wf_nn_linear(m, "fc2", wf_relu(wf_nn_linear(m, "fc1", wf_flatten(x, 1), 128)), 10);
}
