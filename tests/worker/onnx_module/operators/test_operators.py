"""Operators against ONNX Runtime, and their gradients; `python -m bench onnx_in` runs all tests."""

import numpy as np
import onnx.parser
import onnxruntime
import pytest
import torch

from worker.onnx_module.call import State
from worker.onnx_module.read import read_graph
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.run import run_graph

X4 = (2, 4, 6, 6)

ONE_INPUT = {
    "AveragePool <kernel_shape=[3,3], pads=[1,1,0,0], ceil_mode=1, strides=[2,2]> (x)": X4,
    'MaxPool <kernel_shape=[2,2], strides=[2,2], auto_pad="SAME_LOWER"> (x)': X4,
    "MaxPool <kernel_shape=[3,3], strides=[2,2]> (x)": X4,
    "GlobalAveragePool (x)": X4,
    "LRN <size=3> (x)": X4,
    "Softmax <axis=1> (x)": X4,
    "LogSoftmax (x)": X4,
    "Gelu (x)": X4,
    "HardSwish (x)": X4,
    "Selu (x)": X4,
    "Flatten <axis=2> (x)": X4,
    "Transpose (x)": X4,
    'DepthToSpace <blocksize=2, mode="CRD"> (x)': X4,
    "ReduceMean <keepdims=0> (x)": X4,
    "ReduceLogSumExp (x)": X4,
    "Cast <to=6> (x)": X4,
    "Trilu (x)": X4,
    'Einsum <equation="bchw->bhc"> (x)': X4,
}


def build(lines, shape, opset=20):
    body = "\n".join(lines)
    size = ",".join(map(str, shape))
    text = f'<ir_version: 9, opset_import: ["": {opset}]> g (float[{size}] x) => (y) {{{body}}}'
    return onnx.parser.parse_model(text)


def run_ours(model, x):
    graph = read_graph(model)
    values = {graph.inputs[0]: torch.as_tensor(x)}
    return run_graph(graph, values, State(torch.device("cpu"), run_graph))[0]


def run_theirs(model, x):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return session.run(None, {"x": x})[0]


def numbers(shape):
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def check(lines, shape):
    model, x = build(lines, shape), numbers(shape)
    ours, theirs = run_ours(model, x).numpy(), run_theirs(model, x)
    assert ours.dtype == theirs.dtype
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("line", ONE_INPUT)
def test_an_operator_computes_what_onnx_runtime_computes(line):
    check([f"y = {line}"], ONE_INPUT[line])


RESIZED = "s = Constant <value_floats=[1.0,1.0,1.5,2.0]> ()\n"


@pytest.mark.parametrize(
    "options",
    [
        'mode="nearest"',
        'mode="nearest", nearest_mode="ceil", coordinate_transformation_mode="asymmetric"',
        'mode="linear"',
        'mode="linear", coordinate_transformation_mode="align_corners"',
        'mode="cubic", coordinate_transformation_mode="pytorch_half_pixel"',
        'mode="cubic", exclude_outside=1',
    ],
)
def test_resize_follows_its_coordinate_transformation(options):
    check([RESIZED, f"y = Resize <{options}> (x, , s)"], X4)


def test_shapes_are_computed_from_the_input_and_stay_python_numbers():
    lines = [
        "s = Shape (x)",
        "zero = Constant <value_ints=[0]> ()",
        "one = Constant <value_ints=[1]> ()",
        "batch = Slice (s, zero, one)",
        "rest = Constant <value_ints=[-1]> ()",
        "shape = Concat <axis=0> (batch, rest)",
        "y = Reshape (x, shape)",
    ]
    for batch in (1, 3):
        check(lines, (batch, 4, 5))


def test_a_branch_and_a_loop_run():
    lines = [
        "n = Constant <value_int=3> ()",
        "yes = Constant <value_int=1> ()",
        "go = Cast <to=9> (yes)",
        (
            "z = Loop (n, go, x) <body = b (int64 i, bool c, float[2,3] v) "
            "=> (bool d, float[2,3] w) { d = Identity (c)  w = Add (v, v) }>"
        ),
        (
            "y = If (go) <then_branch = t () => (float[2,3] p) { p = Neg (z) }, "
            "else_branch = e () => (float[2,3] q) { q = Identity (z) }>"
        ),
    ]
    check(lines, (2, 3))


def test_softmax_normalised_all_later_axes_before_operator_set_13():
    x = numbers((2, 3, 4))
    model = build(["y = Softmax <axis=1> (x)"], x.shape, opset=11)
    np.testing.assert_allclose(run_ours(model, x).numpy().sum(axis=(1, 2)), [1, 1], rtol=1e-5)
    np.testing.assert_allclose(run_ours(model, x).numpy(), run_theirs(model, x), rtol=1e-4)


DIFFERENTIABLE = [
    "Gelu (x)",
    "LogSoftmax (x)",
    "AveragePool <kernel_shape=[2,2], pads=[1,0,0,1]> (x)",
    "MaxPool <kernel_shape=[2,2]> (x)",
    "ReduceL2 <keepdims=0> (x)",
    "HardSwish (x)",
    "LpPool <kernel_shape=[2,2]> (x)",
    "LRN <size=3> (x)",
    "CumSum (x, a)",
    'Resize <mode="cubic"> (x, , s)',
    "Trilu (x)",
    "Cast <to=11> (x)",
    "CastLike (x, x)",
    "Slice (x, one, two, one)",
    "Erf (x)",
    "Mish (x)",
    "If (yes) <then_branch = t () => (p) {p = Exp (x)}, else_branch = e () => (q) {q = Neg (x)}>",
]


@pytest.mark.parametrize("line", DIFFERENTIABLE)
def test_gradients_agree_with_differences(line):
    constants = [
        "a = Constant <value_int=1> ()",
        "s = Constant <value_floats=[1.0,1.0,2.0,1.5]> ()",
        "one = Constant <value_ints=[1]> ()",
        "two = Constant <value_ints=[2]> ()",
        "yes = Cast <to=9> (a)",
    ]
    graph = read_graph(build([*constants, f"y = {line}"], (1, 2, 3, 3)))
    x = torch.from_numpy(numbers((1, 2, 3, 3))).double().requires_grad_()

    def compute(given):
        return run_graph(graph, {"x": given}, State(torch.device("cpu"), run_graph))[0]

    assert torch.autograd.gradcheck(compute, x, fast_mode=True)


def test_a_window_far_larger_than_the_image_costs_no_memory():
    x = numbers((1, 2, 3, 3))
    line = "y = AveragePool <kernel_shape=[2560,2560], strides=[2560,2560], ceil_mode=1> (x)"
    ours = run_ours(build([line], x.shape), x)
    np.testing.assert_allclose(ours[..., 0, 0], x.mean((2, 3)), rtol=1e-5)


@pytest.mark.parametrize(
    "line",
    [
        "y = MaxPool <kernel_shape=[9999,9999], pads=[9998,9998,9998,9998]> (x)",
        "y = LpPool <kernel_shape=[9999,9999], pads=[9998,9998,9998,9998]> (x)",
    ],
)
def test_windows_that_would_fill_the_memory_are_refused(line):
    with pytest.raises(OnnxRefused, match="at most"):
        run_ours(build([line], (1, 2, 3, 3)), numbers((1, 2, 3, 3)))
