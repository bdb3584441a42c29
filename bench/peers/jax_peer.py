#!/usr/bin/env python3
"""JAX (XLA on the CPU, jit) as a peer of bench/run.py. serve.py has the protocol.

usage: jax_peer.py [import | memory THREADS]

XLA sizes its pool by the cores that the process may use when it starts: run.py keeps one process a number of threads.
"""
import sys
import time
from functools import partial

START = time.perf_counter()
import jax
import jax.numpy as jnp

import serve
from serve import Case, Skip

MEMORY = "memory_gpt6_d256_t256_b8_v8192"
TYPES = {"f32": jnp.float32, "bf16": jnp.bfloat16}
N = 4 << 20


def rnd(*shape, seed=0, dtype=jnp.float32):
    return jax.random.normal(jax.random.PRNGKey(seed), shape, jnp.float32).astype(dtype)


def call(fn, *args):
    """A function without arguments that waits for the result."""
    return lambda: fn(*args).block_until_ready()


def wait(fn, *args):
    """The same for results that are trees."""
    return lambda: jax.block_until_ready(fn(*args))


def dense(cin, cout):
    return {"w": rnd(cin, cout) * cin**-0.5, "b": jnp.zeros(cout)}


def linear(p, x):
    return x @ p["w"] + p["b"]


def add1(dtype, threads, comp):
    x, y = jnp.ones(1), jnp.ones(1)
    return [Case("eager", call(jnp.add, x, y)), Case("jit", call(jax.jit(jnp.add), x, y))]


def mlp(dtype, threads, comp):
    params, x, y = [dense(16, 32), dense(32, 32), dense(32, 4)], rnd(8, 16), rnd(8, 4)

    def loss(p):
        h = jax.nn.relu(linear(p[1], jax.nn.relu(linear(p[0], x))))
        return jnp.mean((linear(p[2], h) - y) ** 2)
    step = jax.jit(lambda p: jax.tree.map(lambda w, g: w - 0.01 * g, p, jax.grad(loss)(p)))
    return [Case("jit", wait(step, params))]


def ew_silu(dtype, threads, comp):
    fn = jax.jit(lambda x, z, q: jnp.abs(jax.nn.silu(x) * z + q - x))
    return [Case("jit", call(fn, rnd(N), rnd(N, seed=1), rnd(N, seed=2)), nbytes=16 * N)]


def ew_gelu8(dtype, threads, comp):
    fn = jax.jit(lambda x: 0.5 * x * (1 + jnp.tanh(0.79788456 * (x + 0.044715 * x * x * x))))
    return [Case("jit", call(fn, rnd(N)), nbytes=8 * N)]


def softmax(dtype, threads, comp):
    return [Case("jit", call(jax.jit(lambda x: jax.nn.softmax(x, 1)), rnd(4096, 1024)), nbytes=8 * N)]


def norm(x, g, b):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * g + b


def layernorm(dtype, threads, comp):
    return [Case("jit", call(jax.jit(norm), rnd(4096, 1024), rnd(1024, seed=1), rnd(1024, seed=2)), nbytes=8 * N)]


def gemm(n, dtype, threads, comp):
    a, b = rnd(n, n, dtype=TYPES[dtype]), rnd(n, n, seed=1, dtype=TYPES[dtype])
    return [Case("jit", call(jax.jit(jnp.matmul), a, b), flops=2 * n**3)]


def gemv(dtype, threads, comp):
    return [Case("jit", call(jax.jit(jnp.matmul), rnd(1, 4096), rnd(4096, 4096, seed=1)), nbytes=4 * 4096**2)]


def attention(train, causal, dtype, threads, comp):
    q, k, v = (rnd(8, 1024, 64, seed=s, dtype=TYPES[dtype]) for s in (1, 2, 3))
    mask = jnp.tril(jnp.ones((1024, 1024), bool))

    def attend(q, k, v):
        scores = q @ k.swapaxes(-1, -2) * 0.125
        return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf) if causal else scores, -1) @ v
    flops = 4 * 8 * 1024 * 1024 * 64 * (3 if train else 1) // (2 if causal else 1)
    if not train:
        return [Case("jit", call(jax.jit(attend), q, k, v), flops)]
    total = jax.grad(lambda q, k, v: attend(q, k, v).astype(jnp.float32).sum(), (0, 1, 2))
    return [Case("jit", wait(jax.jit(total), q, k, v), flops)]


def convolve(x, w, form="NHWC", kernel="HWIO"):
    pad = w.shape[0 if kernel == "HWIO" else 2] // 2
    return jax.lax.conv_general_dilated(x, w, (1, 1), [(pad, pad)] * 2, dimension_numbers=(form, kernel, form))


def conv(train, dtype, threads, comp):
    flops, cases = 2 * 8 * 64 * 64 * 9 * 56 * 56 * (3 if train else 1), []
    for form, kernel, xs, ws in (("NHWC", "HWIO", (8, 56, 56, 64), (3, 3, 64, 64)),
                                 ("NCHW", "OIHW", (8, 64, 56, 56), (64, 64, 3, 3))):
        f = partial(convolve, form=form, kernel=kernel)

        def both(x, w, f=f):
            """The result as well: gradients of its sum do not need it, and XLA would leave it out."""
            y = f(x, w)
            return y.sum(), y
        fn = jax.grad(both, (0, 1), has_aux=True) if train else f
        cases.append(Case(f"jit-{form.lower()}", wait(jax.jit(fn), rnd(*xs), rnd(*ws, seed=1)), flops))
    return cases


def adamw(p, grads, moments, t, lr=1e-4):
    """One AdamW update of a tree of parameters, as PyTorch does it: decay 0.01."""
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, moments[0], grads)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, moments[1], grads)

    def move(p, m, v):
        return p - lr * (m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8) + 0.01 * p)
    return jax.tree.map(move, p, m, v), (m, v)


def training(loss, params, flops=0):
    """A step that gives its parameters and moments away and gets the new ones."""
    @partial(jax.jit, donate_argnums=(0, 1))
    def step(p, moments, t):
        value, grads = jax.value_and_grad(loss)(p)
        p, moments = adamw(p, grads, moments, t)
        return p, moments, t + 1, value
    zero = lambda: jax.tree.map(jnp.zeros_like, params)
    state = [params, (zero(), zero()), jnp.float32(1)]

    def run():
        *state[:], value = step(*state)
        jax.block_until_ready((state, value))
    return [Case("jit", run, flops)]


def xent(logits, y):
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1))


def fashion(dtype, threads, comp):
    def pool(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    p = {"c1": rnd(3, 3, 1, 32) * 0.3, "b1": jnp.zeros(32), "c2": rnd(3, 3, 32, 64) * 0.06, "b2": jnp.zeros(64),
         "f1": dense(3136, 128), "f2": dense(128, 10)}
    x, y = rnd(128, 28, 28, 1), jax.random.randint(jax.random.PRNGKey(1), (128,), 0, 10)

    def loss(p):
        h = pool(jax.nn.relu(convolve(x, p["c1"]) + p["b1"]))
        h = pool(jax.nn.relu(convolve(h, p["c2"]) + p["b2"]))
        return xent(linear(p["f2"], jax.nn.relu(linear(p["f1"], h.reshape(128, -1)))), y)
    return training(loss, p)


def gpt(layers, width, heads, positions, batch, symbols, dtype, threads, comp):
    if dtype != "f32":
        raise Skip("only f32 here")
    scale = lambda: {"g": jnp.ones(width), "b": jnp.zeros(width)}
    block = lambda: {"n1": scale(), "n2": scale(), "qkv": dense(width, 3 * width), "out": dense(width, width),
                     "up": dense(width, 4 * width), "down": dense(4 * width, width)}
    p = {"tok": rnd(symbols, width), "pos": rnd(positions, width), "head": rnd(width, symbols) * width**-0.5,
         "norm": scale(), "blocks": [block() for _ in range(layers)]}
    ids, y = (jax.random.randint(jax.random.PRNGKey(i), (batch, positions), 0, symbols) for i in (1, 2))
    mask, depth = jnp.tril(jnp.ones((positions, positions), bool)), width // heads

    def attend(b, x):
        q, k, v = linear(b["qkv"], norm(x, **b["n1"])).reshape(batch, positions, 3, heads, depth).transpose(2, 0, 3, 1, 4)
        scores = jnp.where(mask, q @ k.swapaxes(-1, -2) * depth**-0.5, -jnp.inf)
        return linear(b["out"], (jax.nn.softmax(scores, -1) @ v).transpose(0, 2, 1, 3).reshape(batch, positions, width))

    def loss(p):
        x = p["tok"][ids] + p["pos"]
        for b in p["blocks"]:
            x = x + attend(b, x)
            x = x + linear(b["down"], jax.nn.gelu(linear(b["up"], norm(x, **b["n2"]))))
        return xent(norm(x, **p["norm"]) @ p["head"], y)
    size = sum(leaf.size for leaf in jax.tree.leaves([p["head"], p["norm"], p["blocks"]]))
    flops = 6 * size * batch * positions + 12 * layers * width * positions * batch * positions // 2
    return training(loss, p, flops)


def lstm(dtype, threads, comp):
    w, u, b, x = rnd(128, 512) * 0.1, rnd(128, 512, seed=1) * 0.1, jnp.zeros(512), rnd(64, 1, 128)

    def cell(state, g):
        h, c = state
        i, f, o, n = jnp.split(g + h @ u, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(n)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h
    zero = jnp.zeros((1, 128))
    return [Case("jit", call(jax.jit(lambda x: jax.lax.scan(cell, (zero, zero), x @ w + b)[1]), x))]


WORKS = {
    "add1": add1, "mlp": mlp, "ew_silu": ew_silu, "ew_gelu8": ew_gelu8, "softmax_4096x1024": softmax,
    "layernorm_4096x1024": layernorm, "gemv_4096": gemv, "fashion_b128": fashion, "lstm_h128_t64_b1": lstm,
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
        float((jnp.ones(1) + jnp.ones(1))[0])
        return serve.imported("jax", jax.__version__, "jit", START)
    if args[:1] == ["memory"]:
        return serve.alone("jax", jax.__version__, MEMORY, WORKS[MEMORY], "f32", int(args[1]))
    serve.Server("jax", jax.__version__, WORKS).run()


main(sys.argv[1:])
