"""The pieces of work of the benchmark, who can do each, and which roof it is held against."""
from dataclasses import dataclass

TORCH, LIBTORCH, JAX, ORT, OPENVINO, OPENBLAS, ONEDNN = "torch", "libtorch", "jax", "ort", "openvino", "openblas", "onednn"
PEERS = (TORCH, LIBTORCH, JAX, ORT, OPENVINO, OPENBLAS, ONEDNN)
TRAIN, INFER = (TORCH, JAX), (TORCH, JAX, ORT, OPENVINO)
PRODUCT, PRODUCT16 = (TORCH, JAX, ORT, OPENVINO, OPENBLAS, ONEDNN), (TORCH, JAX, ONEDNN)


@dataclass(frozen=True)
class Work:
    name: str
    peers: tuple
    dtype: str = "f32"
    threads: int = 1
    roof: str = ""        # the roof's work, where its share says something
    amount: float = 0     # operations or bytes of one piece of work, in the unit of that roof
    alone: bool = False   # a fresh process each time
    rounds: int = 99      # where one round is enough

    @property
    def key(self):
        return self.name, self.dtype, self.threads

    def title(self):
        return f"{self.name} {self.dtype} {self.threads}t"


MIB = 1 << 20
CONV, ATTENTION = 2 * 8 * 64 * 64 * 9 * 56 * 56, 4 * 8 * 1024 * 1024 * 64
GPT4, GPT6 = "gpt4_d256_t128_b8", "gpt6_d384_t256_b8"
MEMORY = "memory_gpt6_d256_t256_b8_v8192"


def gpt_flops(layers, width, positions, batch, symbols):
    """Six per parameter (but for the embeddings) and symbol, and the causal half of attention."""
    block = 12 * width * width + 13 * width
    params = layers * block + 2 * width + width * symbols
    return 6 * params * batch * positions + 12 * layers * width * positions * batch * positions // 2


def products():
    for n in (512, 1024, 2048):
        yield Work(f"gemm_{n}", PRODUCT, roof="fma", amount=2 * n**3)
    yield Work("gemm_1024", PRODUCT, threads=2, roof="fma", amount=2 * 1024**3)
    for n in (512, 1024, 2048, 4096):
        yield Work(f"gemm_{n}", PRODUCT16, dtype="bf16", roof="amx_bf16", amount=2 * n**3)
    yield Work("gemm_8", PRODUCT, roof="fma", amount=1024)
    yield Work("gemv_4096", PRODUCT, roof="read", amount=64 * MIB)


def attentions():
    for name, factor, peers in (("attn_fwd", 1, INFER), ("attn_fwdbwd", 3, TRAIN)):
        yield Work(name, peers, roof="fma", amount=factor * ATTENTION)
        yield Work(f"{name}_causal", TRAIN, roof="fma", amount=factor * ATTENTION / 2)
        yield Work(name, TRAIN, dtype="bf16", roof="amx_bf16", amount=factor * ATTENTION)


ALL = (
    Work("import", TRAIN, alone=True),
    Work("add1", (TORCH, LIBTORCH, JAX, ORT, OPENVINO)),
    Work("mlp", (TORCH, LIBTORCH, JAX, "hand")),
    *(Work(f"rec_{name}", ()) for name in ("call", "record", "branches", "1000_traces", "kept", "10000_ops")),
    Work("rec_replay", ("hand",)),
    Work("ew_silu", INFER, roof="stream31", amount=64 * MIB),
    Work("ew_gelu8", INFER, roof="stream11", amount=32 * MIB),
    Work("softmax_4096x1024", INFER, roof="stream11", amount=32 * MIB),
    Work("layernorm_4096x1024", INFER, roof="stream11", amount=32 * MIB),
    *products(),
    *attentions(),
    Work("conv_fwd", (TORCH, JAX, ORT, OPENVINO, ONEDNN), roof="fma", amount=CONV),
    Work("conv_fwdbwd", (TORCH, JAX, ONEDNN), roof="fma", amount=3 * CONV),
    Work("lstm_h128_t64_b1", TRAIN),
    Work("fashion_b128", TRAIN, threads=2),
    Work(GPT4, TRAIN, threads=2, roof="fma", amount=gpt_flops(4, 256, 128, 8, 256)),
    Work(GPT6, TRAIN, threads=2, roof="fma", amount=gpt_flops(6, 384, 256, 8, 256)),
    Work(GPT6, (TORCH,), dtype="bf16", threads=2),
    Work("resnet8_b1", (TORCH, ORT, OPENVINO)),
    Work("resnet18_cifar_b32", (TORCH,), threads=2),
    Work("resnet18_224_b1", (TORCH, ORT, OPENVINO), roof="fma", amount=3.6e9),
    Work("resnet18_224_b8", (TORCH, ORT, OPENVINO), roof="fma", amount=8 * 3.6e9),
    Work("encoder_b1", (ORT, OPENVINO)),
    Work("encoder_b32", (ORT, OPENVINO)),
    Work(MEMORY, TRAIN, threads=2, alone=True, rounds=1),
)


def chosen(prefixes, threads, dtypes):
    """The works whose names begin with one of the prefixes, of these numbers of threads and types; () means all."""
    return [w for w in ALL if (not prefixes or w.name.startswith(tuple(prefixes))) and (not threads or w.threads in threads)
            and (not dtypes or w.dtype in dtypes)]
