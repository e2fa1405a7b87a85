"""Runs the tests of the onnx wheel through our operators, and says what each comes to.

Every test is a model with inputs and expected outputs. ONNX Runtime runs each of them, too.
"""

import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx import numpy_helper

from worker.onnx_module.call import State
from worker.onnx_module.dtypes import dtype_of, from_array, read_tensor
from worker.onnx_module.graph import Graph
from worker.onnx_module.read import read_graph
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.run import run_graph
from worker.onnx_module.sizes import Sizes

DATA = Path(onnx.__file__).parent / "backend/test/data"
ROUNDING = {"bfloat16": 2.0**-7, "float16": 2.0**-10}
"""Relative distance of two neighbouring numbers, here of the largest output."""
RANDOM = ("Bernoulli", "RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike")
"""Operators whose outputs are compared by type and shape alone."""


@dataclass(frozen=True)
class Case:
    """A model with inputs and expected outputs, as arrays or lists of them."""

    name: str
    model: onnx.ModelProto
    sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float = 1e-3
    atol: float = 1e-7

    @property
    def operators(self) -> set[tuple[str, str]]:
        """Domain and name of each operator."""
        return {(node.domain, node.op_type) for node in self.model.graph.node}


@dataclass(frozen=True)
class CaseOutcome:
    """What a case came to: `right`, `refused` (with the reason), or `wrong` (with the difference).

    Attributes:
        onnxruntime: The same for ONNX Runtime.
    """

    case: Case
    kind: str
    reason: str = ""
    onnxruntime: str = ""


def list_cases() -> Iterator[Case]:
    """Return the node, converted, operator and simple tests of the onnx wheel."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases

        for one in collect_testcases(None):
            yield Case(one.name, one.model, one.data_sets, one.rtol, max(one.atol, 1e-6))
    for kind in ("pytorch-converted", "pytorch-operator", "simple"):
        for folder in sorted((DATA / kind).iterdir()):
            if (folder / "model.onnx").exists():
                yield _read_case(folder)


def judge(case: Case, *, with_runtime: bool = False) -> CaseOutcome:
    """Run a case through our operators and, if asked, through ONNX Runtime."""
    runtime = _judge_runtime(case) if with_runtime else ""
    try:
        graph = read_graph(case.model)
        for place, (_, expected) in enumerate(case.sets):
            values = read_inputs(case, graph, place)
            state = State(torch.device("cpu"), run_graph)
            with torch.no_grad():
                outputs = run_graph(graph, values, state)
            difference = _compare(case, outputs, expected)
            if difference:
                return CaseOutcome(case, "wrong", difference, runtime)
    except OnnxRefused as error:
        return CaseOutcome(case, "refused", str(error), runtime)
    return CaseOutcome(case, "right", "", runtime)


def read_inputs(case: Case, graph: Graph, place: int = 0) -> dict[str, Any]:
    """Return the inputs of a case by name, as values of our operators.

    Raises:
        OnnxRefused: An input has a type that is not supported.
    """
    inputs = case.sets[place][0]
    values = dict(zip(graph.inputs, map(_to_value, inputs), strict=False))
    return {name: values.get(name) for name in graph.inputs}


def _judge_runtime(case: Case) -> str:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        content = case.model.SerializeToString()
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        for inputs, expected in case.sets:
            names = [value.name for value in session.get_inputs()]
            outputs = session.run(None, dict(zip(names, inputs, strict=False)))
            if _compare(case, outputs, expected):
                return "differs"
    except Exception as error:  # noqa: BLE001 - the runtime's errors have only this class in common
        return f"cannot: {type(error).__name__}"
    return "right"


def _to_value(array: Any) -> Any:
    if isinstance(array, list):
        return [_to_value(one) for one in array]
    if array is None:
        return None
    if isinstance(array, onnx.TensorProto):
        return read_tensor(array)
    array = np.asarray(array)
    if array.dtype == object or array.dtype.kind in "US":
        raise OnnxRefused(f"inputs of {array.dtype} are not supported")
    number = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    return from_array(array, dtype_of(number))


def _compare(case: Case, outputs: Sequence[Any], expected: Sequence[Any]) -> str:
    """Return how outputs differ from those expected; empty if they do not."""
    is_random = any(name in RANDOM for _, name in case.operators) or _drops(case)
    for place, (ours, theirs) in enumerate(zip(outputs, expected, strict=True)):
        difference = _differ(ours, theirs, case, is_random=is_random)
        if difference:
            return f"output {place}: {difference}"
    return ""


def _differ(ours: Any, theirs: Any, case: Case, *, is_random: bool) -> str:
    if isinstance(theirs, list):
        if not isinstance(ours, list) or len(ours) != len(theirs):
            return "another sequence"
        found = (
            _differ(a, b, case, is_random=is_random) for a, b in zip(ours, theirs, strict=True)
        )
        return next((text for text in found if text), "")
    if theirs is None or ours is None:
        return "" if theirs is ours else "one is empty"
    if isinstance(theirs, onnx.TensorProto):
        theirs = numpy_helper.to_array(theirs)
    ours, theirs = _to_array(ours), np.asarray(theirs)
    # Two orders of the same half-precision sums may round to neighbours.
    rounding = ROUNDING.get(str(theirs.dtype), 0.0)
    if theirs.dtype.kind not in "biufc":
        theirs = theirs.astype(np.float32)
        ours = ours.astype(np.float32)
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return f"{ours.dtype} {ours.shape} instead of {theirs.dtype} {theirs.shape}"
    if is_random:
        return ""
    atol = (
        max(case.atol, rounding * float(np.abs(theirs).max(initial=0))) if rounding else case.atol
    )
    if np.allclose(ours, theirs, rtol=case.rtol, atol=atol, equal_nan=True):
        return ""
    gap = np.abs(ours.astype(np.complex128) - theirs.astype(np.complex128))
    return f"values differ by up to {np.nanmax(gap):.3g}"


def _drops(case: Case) -> bool:
    return (
        any(node.op_type == "Dropout" and len(node.input) > 2 for node in case.model.graph.node)
        and "train" in case.name
    )


def _to_array(value: Any) -> Any:
    if isinstance(value, Sizes):
        value = value.to_tensor(torch.device("cpu"))
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return value.float().numpy() if value.dtype == torch.bfloat16 else value.numpy()
    return np.asarray(value)


def _read_case(folder: Path) -> Case:
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        number = len(list(data.glob("input_*.pb")))
        inputs = [_read_value(data / f"input_{i}.pb", model.graph.input[i]) for i in range(number)]
        outputs = [
            _read_value(data / f"output_{i}.pb", value)
            for i, value in enumerate(model.graph.output)
        ]
        sets.append((inputs, outputs))
    return Case(folder.name, model, sets, 1e-3, 1e-5)


def _read_value(path: Path, value: onnx.ValueInfoProto) -> Any:
    content = path.read_bytes()
    match value.type.WhichOneof("value"):
        case "tensor_type":
            return numpy_helper.to_array(onnx.TensorProto.FromString(content))
        case "sequence_type":
            return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))


if __name__ == "__main__":
    wanted = sys.argv[1:]
    for one in list_cases():
        if not wanted or any(text in one.name for text in wanted):
            verdict = judge(one)
            if verdict.kind != "right":
                print(verdict.kind, one.name, verdict.reason[:240])
