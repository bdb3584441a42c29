// PyTorch's C++ interface as a peer of bench/run.py, on the two works where Python's own cost would flatter us.
#include "../harness.h"

#include <torch/torch.h>

struct Add {
    at::Tensor x = torch::ones({ 1 }), y = torch::ones({ 1 });
};

static void *make_add(const bench_case *, int threads)
{
    at::set_num_threads(threads);
    return new Add;
}

static void run_add(void *state)
{
    auto *a = static_cast<Add *>(state);
    c10::InferenceMode guard;
    for (int i = 0; i < 256; i++)
        auto r = at::add(a->x, a->y);
}

struct Mlp {
    torch::nn::Sequential net{ torch::nn::Linear(16, 32), torch::nn::ReLU(), torch::nn::Linear(32, 32),
                               torch::nn::ReLU(), torch::nn::Linear(32, 4) };
    torch::optim::SGD opt{ net->parameters(), 0.01 };
    at::Tensor x = torch::randn({ 8, 16 }), y = torch::randn({ 8, 4 });
};

static void *make_mlp(const bench_case *, int threads)
{
    at::set_num_threads(threads);
    return new Mlp;
}

static void run_mlp(void *state)
{
    auto *m = static_cast<Mlp *>(state);
    m->opt.zero_grad();
    torch::mse_loss(m->net->forward(m->x), m->y).backward();
    m->opt.step();
}

int main()
{
    const bench_case cases[] = {
        { "add1", "c++", "f32", make_add, run_add, nullptr, nullptr, 0, 0, 256, 0 },
        { "mlp", "c++", "f32", make_mlp, run_mlp, nullptr, nullptr, 0, 0, 1, 0 },
    };
    return bench_serve("libtorch", TORCH_VERSION, cases, 2);
}
