#!/usr/bin/env python3
"""PyTorch, eager and compiled, as a peer of bench/run.py. serve.py has the protocol.

usage: torch_peer.py [import | memory THREADS]
"""
import sys
import time
from functools import partial

START = time.perf_counter()
import torch
import torch.nn as nn
import torch.nn.functional as F
import warnings

import serve
from serve import Case, Skip

warnings.filterwarnings("ignore")
MEMORY = "memory_gpt6_d256_t256_b8_v8192"
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
quiet = torch.inference_mode  # no gradients: PyTorch's best setting for inference


def fast_bf16():
    """Without these instructions PyTorch's bf16 product is a plain loop of about 1 GFLOP/s: not a peer, left out."""
    return any("avx512_bf16" in line or "amx_bf16" in line for line in open("/proc/cpuinfo"))


def need_bf16(dtype):
    if dtype == "bf16" and not fast_bf16():
        raise Skip("PyTorch's bf16 product is a plain loop on a CPU without AVX512_BF16")


def compiled(fn):
    return torch.compile(fn, dynamic=False)


def both(fn, comp, flops=0, nbytes=0, within=quiet):
    """Eager and compiled."""
    cases = [Case("eager", fn, flops, nbytes, within)]
    return cases + [Case("compile", compiled(fn), flops, nbytes, within)] if comp else cases


def add1(dtype, threads, comp):
    return [Case("eager", partial(torch.add, torch.ones(1), torch.ones(1)), within=quiet)]


def mlp(dtype, threads, comp):
    from torch_models import mlp as build
    net, x, y = build(), torch.randn(8, 16), torch.randn(8, 4)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)

    def loss():
        return F.mse_loss(net(x), y)

    def step(loss=loss, update=opt.step):
        opt.zero_grad()
        loss().backward()
        update()
    cases = [Case("eager", step)]
    return cases + [Case("compile", partial(step, compiled(loss), compiled(opt.step)))] if comp else cases


N = 4 << 20


def ew_silu(dtype, threads, comp):
    x, z, q = torch.randn(N), torch.randn(N), torch.randn(N)
    return both(lambda: torch.abs(F.silu(x) * z + q - x), comp, nbytes=16 * N)


def ew_gelu8(dtype, threads, comp):
    x = torch.randn(N)
    cases = both(lambda: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))), comp, nbytes=8 * N)
    return cases + [Case("builtin", lambda: F.gelu(x, approximate="tanh"), nbytes=8 * N, within=quiet)]


def softmax(dtype, threads, comp):
    x = torch.randn(4096, 1024)
    return both(lambda: torch.softmax(x, 1), comp, nbytes=8 * x.numel())


def layernorm(dtype, threads, comp):
    x, g, b = torch.randn(4096, 1024), torch.randn(1024), torch.randn(1024)
    return both(lambda: F.layer_norm(x, (1024,), g, b), comp, nbytes=8 * x.numel())


def gemm(n, dtype, threads, comp):
    need_bf16(dtype)
    a, b = torch.randn(n, n).to(TYPES[dtype]), torch.randn(n, n).to(TYPES[dtype])
    return [Case("eager", lambda: a @ b, flops=2 * n**3, within=quiet)]


def gemv(dtype, threads, comp):
    a, b = torch.randn(1, 4096), torch.randn(4096, 4096)
    return [Case("eager", lambda: a @ b, nbytes=4 * 4096**2, within=quiet)]


def attention(train, causal, dtype, threads, comp):
    need_bf16(dtype)
    q, k, v = (torch.randn(1, 8, 1024, 64, dtype=TYPES[dtype], requires_grad=train) for _ in range(3))
    flops = 4 * 8 * 1024 * 1024 * 64 * (3 if train else 1) // (2 if causal else 1)
    mask = torch.full((1024, 1024), float("-inf"), dtype=TYPES[dtype]).triu(1)

    def plain(q, k, v):
        scores = q @ k.transpose(-1, -2) * 0.125
        return torch.softmax(scores + mask if causal else scores, -1) @ v
    fused = partial(F.scaled_dot_product_attention, is_causal=causal)
    if not train:
        return [Case("sdpa", lambda: fused(q, k, v), flops, within=quiet),
                *([Case("compile", partial(compiled(plain), q, k, v), flops, within=quiet)] if comp else [])]

    def step():
        q.grad = k.grad = v.grad = None
        fused(q, k, v).sum().backward()
    return [Case("sdpa", step, flops)]


def conv(train, dtype, threads, comp):
    flops = 2 * 8 * 64 * 64 * 9 * 56 * 56 * (3 if train else 1)
    cases = []
    for fmt, tag in ((torch.contiguous_format, "nchw"), (torch.channels_last, "nhwc")):
        x = torch.randn(8, 64, 56, 56).contiguous(memory_format=fmt).requires_grad_(train)
        w = torch.randn(64, 64, 3, 3).contiguous(memory_format=fmt).requires_grad_(train)

        def step(x=x, w=w):
            x.grad = w.grad = None
            F.conv2d(x, w, padding=1).sum().backward()
        cases.append(Case(f"eager-{tag}", step, flops) if train else
                     Case(f"eager-{tag}", partial(F.conv2d, x, w, padding=1), flops, within=quiet))
    return cases


def training(net, loss, make, dtype, comp, flops=0):
    """A whole step: gradients cleared, loss (under autocast for bf16), backward, update."""
    need_bf16(dtype)
    opt = make(net)

    def step(loss):
        opt.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            value = loss()
        value.backward()
        opt.step()
    cases = [Case("eager", partial(step, loss), flops)]
    return cases + [Case("compile", partial(step, compiled(loss)), flops)] if comp else cases


def fashion(dtype, threads, comp):
    from torch_models import FashionCNN, adamw
    y, cases = torch.randint(10, (128,)), []
    for fmt, tag in ((torch.contiguous_format, ""), (torch.channels_last, "-nhwc")):
        net = FashionCNN().to(memory_format=fmt)
        x = torch.randn(128, 1, 28, 28).contiguous(memory_format=fmt)
        for case in training(net, lambda net=net, x=x: F.cross_entropy(net(x), y), adamw, dtype, comp and not tag):
            case.mode += tag
            cases.append(case)
    return cases


def lstm(dtype, threads, comp):
    net, x = nn.LSTM(128, 128), torch.randn(64, 1, 128)
    return both(lambda: net(x)[0], comp)


def gpt(layers, width, heads, positions, batch, symbols, dtype, threads, comp):
    from torch_models import GPT, adamw
    net = GPT(layers, width, heads, positions, symbols)
    ids, y = torch.randint(symbols, (batch, positions)), torch.randint(symbols, (batch, positions))
    flops = net.step_flops(batch, positions, width, layers)
    return training(net, lambda: F.cross_entropy(net(ids).view(-1, symbols), y.view(-1)), adamw, dtype, comp, flops)


def resnet8(dtype, threads, comp):
    from torch_models import resnet8 as build
    net, x = build().eval(), torch.randn(1, 3, 32, 32)
    return both(lambda: net(x), comp)


def resnet18(batch, dtype, threads, comp):
    from torch_models import resnet18 as build
    net, x = build(1000, small=False).eval(), torch.randn(batch, 3, 224, 224)
    cases = both(lambda: net(x), comp, flops=3.6e9 * batch)
    last = build(1000, small=False).eval().to(memory_format=torch.channels_last)
    xl = x.contiguous(memory_format=torch.channels_last)
    return cases + [Case("eager-nhwc", lambda: last(xl), 3.6e9 * batch, within=quiet)]


def resnet_train(dtype, threads, comp):
    from torch_models import momentum, resnet18 as build
    x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
    net = build(10, small=True)
    cases = training(net, lambda: F.cross_entropy(net(x), y), momentum, dtype, comp)
    last, xl = build(10, small=True).to(memory_format=torch.channels_last), x.contiguous(memory_format=torch.channels_last)
    more = training(last, lambda: F.cross_entropy(last(xl), y), momentum, dtype, False)
    more[0].mode = "eager-nhwc"
    return cases + more


WORKS = {
    "add1": add1, "mlp": mlp, "ew_silu": ew_silu, "ew_gelu8": ew_gelu8, "softmax_4096x1024": softmax,
    "layernorm_4096x1024": layernorm, "gemv_4096": gemv, "fashion_b128": fashion, "lstm_h128_t64_b1": lstm,
    "resnet8_b1": resnet8, "resnet18_224_b1": partial(resnet18, 1), "resnet18_224_b8": partial(resnet18, 8),
    "resnet18_cifar_b32": resnet_train,
    "conv_fwd": partial(conv, False), "conv_fwdbwd": partial(conv, True),
    "attn_fwd": partial(attention, False, False), "attn_fwdbwd": partial(attention, True, False),
    "attn_fwd_causal": partial(attention, False, True), "attn_fwdbwd_causal": partial(attention, True, True),
    "gpt4_d256_t128_b8": partial(gpt, 4, 256, 4, 128, 8, 256), "gpt6_d384_t256_b8": partial(gpt, 6, 384, 6, 256, 8, 256),
    MEMORY: partial(gpt, 6, 256, 4, 256, 8, 8192),
    **{f"gemm_{n}": partial(gemm, n) for n in (8, 512, 1024, 2048, 4096)},
}


def main(args):
    serve.start()
    if args[:1] == ["import"]:
        (torch.ones(1) + torch.ones(1)).item()
        return serve.imported("torch", torch.__version__, "eager", START)
    torch.manual_seed(0)
    if args[:1] == ["memory"]:
        torch.set_num_threads(int(args[1]))
        return serve.alone("torch", torch.__version__, MEMORY, WORKS[MEMORY], "f32", int(args[1]))
    torch._dynamo.config.automatic_dynamic_shapes = False  # every prepared work has one shape: compiled for that
    for name in ("recompile_limit", "accumulated_recompile_limit"):
        setattr(torch._dynamo.config, name, 512)
    serve.Server("torch", torch.__version__, WORKS, torch.set_num_threads).run()


main(sys.argv[1:])
