"""Which operators of ONNX are right: every test of the onnx wheel, and gradients by differences.

An operator counts as supported if at least one test of it alone is right and none is wrong.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from bench.onnx_in.speed import measure_speed
from bench.onnx_in.suite import Case, CaseOutcome, judge, list_cases, read_inputs
from bench.result import Result, at_least, at_most, info
from worker.onnx_module.call import State
from worker.onnx_module.graph import Graph
from worker.onnx_module.read import read_graph
from worker.onnx_module.refused import OnnxRefused
from worker.onnx_module.run import run_graph

GOAL = 150
"""Operators that should be supported."""
MOST_CHECKED = (400, 20_000)
"""Most input elements of a test whose gradients are checked; larger ones where no test is small."""

LARGEST = 1e6
"""Largest numbers of a test whose gradients are checked."""


def run() -> list[Result]:
    """Run all tests of the wheel, print a row for each operator, and count them."""
    verdicts = [judge(case, with_runtime=True) for case in list_cases()]
    rows = group_by_operator(verdicts)
    gradients = {name: check_gradients([v.case for v in found]) for name, found in rows.items()}
    Console().print(_table(rows, gradients))
    kinds = Counter(verdict.kind for verdict in verdicts)
    supported = [name for name, found in rows.items() if _is_supported(found)]
    wrong_gradients = [name for name, text in gradients.items() if text == "wrong"]
    checked = [name for name, text in gradients.items() if text == "right"]
    infinite = [name for name, text in gradients.items() if text == "not finite"]
    none = [name for name in supported if gradients[name] == "none"]
    differs = [v for v in verdicts if v.kind == "right" and v.onnxruntime == "differs"]
    cannot = [v for v in verdicts if v.kind == "right" and v.onnxruntime.startswith("cannot")]
    refused = f"{kinds['refused']} of them refused by name"
    return [
        info("tests of the onnx wheel", len(verdicts), "tests", refused),
        info("right", kinds["right"], "tests", "type, shape and values as expected"),
        at_most("wrong", kinds["wrong"], "tests", 0, _names(verdicts, "wrong")),
        at_least("operators", len(supported), "operators", GOAL, f"of {len(rows)} with tests"),
        info("gradients right", len(checked), "operators", "gradcheck in float64"),
        info("gradients not finite", len(infinite), "operators", ", ".join(infinite)),
        at_most(
            "gradients wrong", len(wrong_gradients), "operators", 0, ", ".join(wrong_gradients)
        ),
        info("without a gradient", len(none), "supported operators", ", ".join(none)),
        info("ONNX Runtime differs", len(differs), "tests", _join(differs)),
        info("ONNX Runtime lacks", len(cannot), "tests", "of those that are right here"),
        *measure_speed(),
    ]


def group_by_operator(verdicts: Sequence[CaseOutcome]) -> dict[str, list[CaseOutcome]]:
    """Return the verdicts of each operator's own tests, by its name with its domain."""
    rows: dict[str, list[CaseOutcome]] = defaultdict(list)
    for verdict in verdicts:
        if len(verdict.case.operators) == 1:
            ((domain, name),) = verdict.case.operators
            rows[f"{domain}:{name}" if domain else name].append(verdict)
    return dict(sorted(rows.items()))


def check_gradients(cases: Sequence[Case]) -> str:
    """Compare gradients with differences in float64; `none` if no test has a gradient."""
    for most in MOST_CHECKED:
        outcomes = set()
        for case in cases:
            try:
                outcomes.add(_check_case(case, most=most))
            except OnnxRefused:
                continue
        for kind in ("wrong", "not finite", "right"):
            if kind in outcomes:
                return kind
    return "none"


def _check_case(case: Case, *, most: int) -> str:
    graph = read_graph(case.model)
    values = read_inputs(case, graph)
    floats = [k for k, v in values.items() if isinstance(v, torch.Tensor) and v.is_floating_point()]
    total = sum(values[name].numel() for name in floats)
    if not 0 < total <= most or any(not values[name].numel() for name in floats):
        return "none"
    generator = torch.Generator().manual_seed(0)
    for name in floats:
        point = values[name].double()
        # Tests like whole numbers, where functions such as Relu and Floor have no gradient.
        noise = 0.02 * torch.rand(point.shape, generator=generator, dtype=torch.float64)
        values[name] = (point + 0.01 + noise).requires_grad_()
    try:
        used = _find_used(graph, values, floats)
    except NotImplementedError:
        return "none"
    if not used:
        return "none"

    def compute(*given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _run(graph, {**values, **dict(zip(used, given, strict=True))})

    points = [values[name] for name in used]
    return _compare_gradients(compute, points)


def _compare_gradients(
    compute: Callable[..., tuple[torch.Tensor, ...]], points: list[torch.Tensor]
) -> str:
    outputs = compute(*points)
    # Some tests have uninitialised numbers as inputs, others expect NaN.
    if not all((tensor.abs() < LARGEST).all() for tensor in (*points, *outputs)):
        return "none"
    # Definitions of ONNX such as LayerNormalization compute in float32, which needs larger steps.
    is_rounded = any(output.dtype != torch.float64 for output in outputs) or _is_rough(
        compute, points
    )
    options = {"eps": 1e-3, "atol": 2e-2, "rtol": 2e-2} if is_rounded else {"atol": 1e-4}
    try:
        torch.autograd.gradcheck(compute, points, fast_mode=True, **options)
    except RuntimeError as error:
        return "not finite" if "analytical:nan" in str(error) else "wrong"
    return "right"


def _is_rough(compute: Callable[..., tuple[torch.Tensor, ...]], points: list[torch.Tensor]) -> bool:
    """Return whether an input is rounded to float32 on the way to the outputs."""
    # With gradients: `_run` returns the outputs that have one.
    here = compute(*points)
    for place, point in enumerate(points):
        near = [*points[:place], point * (1 + 1e-12), *points[place + 1 :]]
        if all(torch.equal(a, b) for a, b in zip(compute(*near), here, strict=True)):
            return True
    return False


def _find_used(graph: Graph, values: dict[str, Any], names: list[str]) -> list[str]:
    """Return the inputs with a gradient: scales of a shape, for example, have none."""
    outputs = _run(graph, values)
    if not outputs:
        return []
    total = sum((output.abs().sum() for output in outputs), torch.tensor(0.0))
    found = torch.autograd.grad(total, [values[name] for name in names], allow_unused=True)
    return [name for name, gradient in zip(names, found, strict=True) if gradient is not None]


def _run(graph: Graph, values: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    # The comparison draws random directions, which must not begin again with each run.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        outputs = run_graph(graph, dict(values), State(torch.device("cpu"), run_graph))
    return tuple(o for o in outputs if isinstance(o, torch.Tensor) and o.requires_grad)


def _is_supported(verdicts: Sequence[CaseOutcome]) -> bool:
    kinds = {verdict.kind for verdict in verdicts}
    return "right" in kinds and "wrong" not in kinds


def _table(rows: dict[str, list[CaseOutcome]], gradients: dict[str, str]) -> Table:
    table = Table(
        "operator", "right", "refused", "wrong", "gradient", "ONNX Runtime differs", "why refused"
    )
    for name, found in rows.items():
        kinds = Counter(verdict.kind for verdict in found)
        why = next((verdict.reason for verdict in found if verdict.kind == "refused"), "")
        counts = (str(kinds[kind]) for kind in ("right", "refused", "wrong"))
        differs = sum(verdict.onnxruntime == "differs" for verdict in found)
        table.add_row(name, *counts, gradients[name], str(differs), why[:70])
    return table


def _names(verdicts: Sequence[CaseOutcome], kind: str) -> str:
    return _join(verdict for verdict in verdicts if verdict.kind == kind)


def _join(verdicts: Iterable[CaseOutcome]) -> str:
    return ", ".join(verdict.case.name for verdict in verdicts)
