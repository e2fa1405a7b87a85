"""Every operator of the engine tinygrad against torch, with its gradient."""

import numpy as np
import pytest
import torch

from redkiln.onnx_rules.tinygrad import SUPPORTED
from tests.worker.onnx_module.graphs import build
from worker.engines.graph import build_graph
from worker.engines.network import EngineNetwork
from worker.engines.operators import refuse_unsupported
from worker.engines.tinygrad_engine import TinygradEngine
from worker.onnx_module.module import OnnxModule
from worker.onnx_module.refused import OnnxRefused
from worker.trainer.models.builtin.resnet18 import Block

HEAD = '<ir_version: 10, opset_import: ["": 20]> g (float[N,3,6,6] x) => (y)'
CHAINS = {
    "convolution": """
      a = Conv <pads=[1,1,1,1]> (x, w, b)  c = BatchNormalization (a, s, z, m, v)  d = Relu (c)
      e = MaxPool <kernel_shape=[2,2], strides=[2,2]> (d)  f = Dropout (e)
      g = AveragePool <kernel_shape=[2,2]> (f)  i = GlobalAveragePool (g)  j = Flatten (i)
      y = Gemm <transB=1> (j, h, hb)
    """,
    "activations": """
      a = Conv (x, w, b)  c = LeakyRelu (a)  d = Elu (c)  e = HardSigmoid (d)  f = HardSwish (e)
      g = Gelu (f)  i = Sigmoid (g)  j = Tanh (i)  k = Clip (j, low, high)  l = Erf (k)
      n = Exp (l)  o = Log (n)  p = Sqrt (n)  q = Neg (p)  r = Add (o, q)  y = ReduceMean (r, axes)
    """,
    "arithmetic": """
      a = Conv (x, w, b)  c = Mul (a, factor)  d = Sub (c, factor)  e = Div (d, factor)
      f = Pow (e, two)  g = ReduceSum <keepdims=0> (f, axes)  i = Softmax (g)  j = LogSoftmax (g)
      k = Concat <axis=1> (i, j)  l = Identity (k)
      n = Gather <axis=1> (l, picks)  y = MatMul (n, h8)
    """,
    "shapes": """
      a = Conv (x, w, b)  s1 = Shape <start=0, end=1> (a)  s2 = Concat <axis=0> (s1, rest)
      c = Reshape (a, s2)  d = Transpose <perm=[0,2,1]> (c)  e = Unsqueeze (d, last)
      f = Squeeze (e, last)  g = ReduceMax <keepdims=0> (f, one)  t = CastLike (zero, g)
      o = Expand (t, four)  p = Add (g, o)  q = GlobalMaxPool (a)  r = Flatten (q)
      y = Add (p, r)
    """,
}
CONSTANTS = {
    "b": (4,), "s": np.linspace(0.5, 2, 4, dtype=np.float32), "z": (4,), "m": (4,),
    "v": np.linspace(0.5, 2, 4, dtype=np.float32), "h": (5, 4), "hb": (5,), "h8": (8, 5),
    "low": np.float32(-0.5), "high": np.float32(0.55), "axes": np.array([2, 3]),
    "factor": np.linspace(0.5, 2, 4, dtype=np.float32).reshape(4, 1, 1), "two": np.float32(2),
    "rest": np.array([4, -1]), "last": np.array([3]), "one": np.array([1]),
    "picks": np.array([7, 0, 0, 3, 2, 5, 6, 1]), "zero": np.array(0.0, np.float32),
    "four": np.array([4]), "w": (4, 3, 3, 3),
}  # fmt: skip


def make(name):
    text = CHAINS[name]
    used = {key: value for key, value in CONSTANTS.items() if f"{key}" in text.replace(",", " ")}
    return OnnxModule(build(text, head=HEAD, **used))


@pytest.mark.parametrize("name", CHAINS)
def test_outputs_and_gradients_equal_those_of_torch(opened, name):
    module = make(name)
    engine = TinygradEngine(build_graph(module, (torch.rand(2, 3, 6, 6),)), opened)
    network = EngineNetwork(module, build_graph(module, (torch.rand(2, 3, 6, 6),)), engine, size=2)
    x = torch.rand(2, 3, 6, 6)
    found = []
    for forward in (network, module):
        module.zero_grad()
        torch.manual_seed(0)
        outputs = forward(x)
        (outputs * torch.arange(outputs.numel()).reshape(outputs.shape)).sum().backward()
        found.append([outputs, *(parameter.grad for parameter in module.parameters())])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_the_engine_has_all_that_a_block_of_resnet18_needs():
    block = Block(3, 4, stride=2)
    graph = build_graph(block, (torch.rand(2, 3, 4, 4),))
    refuse_unsupported(graph)
    assert len(graph.weights) == len(list(block.parameters()))
    assert len(graph.norms) == 3


def test_every_operator_has_its_comparison():
    used = {node.op for name in CHAINS for node in make(name).graph.nodes}
    assert {node for node in SUPPORTED if node not in used} == set()


def test_operators_that_the_engine_lacks_are_named(opened):
    module = OnnxModule(
        build('a = Conv (x, w)  y = Einsum <equation="bchw->bc"> (a)', head=HEAD, w=(4, 3, 3, 3))
    )
    with pytest.raises(OnnxRefused, match=r"does not support the operator Einsum \(y\)"):
        TinygradEngine(build_graph(module, (torch.rand(2, 3, 6, 6),)), opened)
