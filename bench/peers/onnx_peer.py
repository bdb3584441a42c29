#!/usr/bin/env python3
"""ONNX Runtime and OpenVINO as peers of bench/run.py, for inference. serve.py has the protocol.

usage: onnx_peer.py ort|openvino

The models are written here with random weights. An engine sizes its pool when it loads: one process a number of threads.
"""
import sys
from functools import partial

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import serve
from serve import Case, Skip

rng = np.random.default_rng(0)
N = 4 << 20


class Net:
    """A thin writer of ONNX graphs: call an operator by its name, get the name of its result."""

    def __init__(self, **inputs):
        self.nodes, self.weights, self.inputs = [], [], inputs

    def weight(self, *shape, scale=0.1):
        return self.const((rng.standard_normal(shape) * scale).astype(np.float32))

    def const(self, value):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def number(self, value):
        return self.const(np.float32(value))

    def __getattr__(self, op):
        def add(*operands, **attributes):
            out = f"t{len(self.nodes)}"
            self.nodes.append(helper.make_node(op, list(operands), [out], **attributes))
            return out
        return add

    def model(self, out):
        def info(name, shape):
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        inputs = [info(name, shape) for name, shape in self.inputs.items()]
        graph = helper.make_graph(self.nodes, "bench", inputs, [info(out, None)], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def add1():
    n = Net(x=[1], y=[1])
    return n.model(n.Add("x", "y"))


def ew_silu():
    n = Net(x=[N], z=[N], q=[N])
    return n.model(n.Abs(n.Sub(n.Add(n.Mul(n.Mul("x", n.Sigmoid("x")), "z"), "q"), "x")))


def ew_gelu8():
    n = Net(x=[N])
    cube = n.Mul(n.Mul("x", "x"), "x")
    t = n.Tanh(n.Mul(n.number(0.79788456), n.Add("x", n.Mul(n.number(0.044715), cube))))
    return n.model(n.Mul(n.Mul(n.number(0.5), "x"), n.Add(n.number(1), t)))


def softmax():
    n = Net(x=[4096, 1024])
    return n.model(n.Softmax("x", axis=-1))


def layernorm():
    n = Net(x=[4096, 1024])
    return n.model(n.LayerNormalization("x", n.weight(1024), n.weight(1024), axis=-1))


def product(rows, size):
    """Both operands are given at run time: nothing is packed beforehand."""
    n = Net(a=[rows, size], b=[size, size])
    return n.model(n.MatMul("a", "b"))


def attention():
    n = Net(q=[8, 1024, 64], k=[8, 1024, 64], v=[8, 1024, 64])
    scores = n.Mul(n.MatMul("q", n.Transpose("k", perm=[0, 2, 1])), n.number(0.125))
    return n.model(n.MatMul(n.Softmax(scores, axis=-1), "v"))


def conv():
    n = Net(x=[8, 64, 56, 56])
    return n.model(n.Conv("x", n.weight(64, 64, 3, 3), pads=[1] * 4))


def resnet(first, stages, size, batch, classes, small):
    n = Net(x=[batch, 3, size, size])

    def unit(y, cin, cout, kernel, stride):
        w = n.weight(cout, cin, kernel, kernel, scale=(cin * kernel * kernel) ** -0.5)
        y = n.Conv(y, w, pads=[kernel // 2] * 4, strides=[stride, stride])
        return n.BatchNormalization(y, *(n.const(np.full(cout, v, np.float32)) for v in (1, 0, 0, 1)))
    y = n.Relu(unit("x", 3, first, 3 if small else 7, 1 if small else 2))
    if not small:
        y = n.MaxPool(y, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    cin = first
    for cout, stride in stages:
        short = unit(y, cin, cout, 1, stride) if stride != 1 or cin != cout else y
        y = n.Relu(n.Add(unit(n.Relu(unit(y, cin, cout, 3, stride)), cout, cout, 3, 1), short))
        cin = cout
    y = n.Flatten(n.GlobalAveragePool(y))
    return n.model(n.Gemm(y, n.weight(cin, classes), n.weight(classes)))


def encoder(batch, layers=6, width=384, heads=12, positions=128):
    """An encoder of MiniLM's shape on hidden states."""
    n, depth = Net(x=[batch, positions, width]), width // heads
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    split, join = n.const(np.array([batch, positions, heads, depth])), n.const(np.array([batch, positions, width]))

    def norm(y):
        return n.LayerNormalization(y, n.const(ones), n.const(zeros), axis=-1)

    def linear(y, cin, cout):
        return n.Add(n.MatMul(y, n.weight(cin, cout, scale=cin**-0.5)), n.weight(cout))
    y = "x"
    for _ in range(layers):
        q, k, v = (n.Transpose(n.Reshape(linear(y, width, width), split), perm=p)
                   for p in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
        s = n.Softmax(n.Mul(n.MatMul(q, k), n.number(depth**-0.5)), axis=-1)
        y = norm(n.Add(y, linear(n.Reshape(n.Transpose(n.MatMul(s, v), perm=[0, 2, 1, 3]), join), width, width)))
        u = linear(y, width, 4 * width)
        gelu = n.Mul(n.Mul(u, n.number(0.5)), n.Add(n.Erf(n.Div(u, n.number(2**0.5))), n.number(1)))
        y = norm(n.Add(y, linear(gelu, 4 * width, width)))
    return n.model(y)


R8 = [(16, 1), (32, 2), (64, 2)]
R18 = [(64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)]
CONV = 2 * 8 * 64 * 64 * 9 * 56 * 56
MODELS = {  # work: model, operations, bytes
    "add1": (add1, 0, 0), "ew_silu": (ew_silu, 0, 16 * N), "ew_gelu8": (ew_gelu8, 0, 8 * N),
    "softmax_4096x1024": (softmax, 0, 8 * N), "layernorm_4096x1024": (layernorm, 0, 8 * N),
    **{f"gemm_{n}": (partial(product, n, n), 2 * n**3, 0) for n in (8, 512, 1024, 2048)},
    "gemv_4096": (partial(product, 1, 4096), 0, 4 * 4096**2),
    "attn_fwd": (attention, 4 * 8 * 1024 * 1024 * 64, 0), "conv_fwd": (conv, CONV, 0),
    "resnet8_b1": (partial(resnet, 16, R8, 32, 1, 10, True), 0, 0),
    "resnet18_224_b1": (partial(resnet, 64, R18, 224, 1, 1000, False), 3.6e9, 0),
    "resnet18_224_b8": (partial(resnet, 64, R18, 224, 8, 1000, False), 8 * 3.6e9, 0),
    "encoder_b1": (partial(encoder, 1), 0, 0), "encoder_b32": (partial(encoder, 32), 0, 0),
}


def ort_run(model, threads):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feed = {i.name: rng.standard_normal(i.shape).astype(np.float32) for i in session.get_inputs()}
    return partial(session.run, None, feed)


def openvino_run(model, threads):
    import openvino as ov
    core = ov.Core()
    config = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(core.read_model(model), "CPU", config)
    infer = request.create_infer_request()
    for i in request.inputs:
        infer.set_tensor(i.any_name, ov.Tensor(rng.standard_normal(list(i.shape)).astype(np.float32)))
    return infer.infer


def cases(run, name, dtype, threads, comp):
    if dtype != "f32":
        raise Skip("only f32 here")
    build, flops, nbytes = MODELS[name]
    return [Case("session", run(build().SerializeToString(), threads), flops, nbytes)]


def main(engine):
    serve.start()
    if engine == "ort":
        import onnxruntime
        version, run = onnxruntime.__version__, ort_run
    else:
        import openvino
        version, run = openvino.__version__.split("-")[0], openvino_run
    serve.Server(engine, version, {name: partial(cases, run, name) for name in MODELS}).run()


main(sys.argv[1] if len(sys.argv) > 1 else "ort")
