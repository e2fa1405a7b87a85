"""The operators that exist, by domain, name and the operator set in which a form appeared."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import onnx

from worker.onnx_module.refused import OnnxRefused

NEWEST_OPSET = 28
"""Newest operator set that the operators here were written for."""

Operation = Callable[..., Any]


@dataclass(frozen=True)
class Operator:
    """A form of an operator.

    Attributes:
        run: Called with the `Call` and the inputs; returns a value, or a tuple of them.
        sizes: Positions of inputs that `run` gets as lists of Python numbers.
        host: Computes the same from `Sizes` alone; None if it has no such form.
        is_random: Whether the result differs from call to call, so it is never computed ahead.
    """

    name: str
    since: int
    run: Operation
    sizes: Collection[int] = ()
    host: Operation | None = None
    is_random: bool = False


_OPERATORS: dict[tuple[str, str], list[Operator]] = {}


def operator(
    *names: str,
    since: int = 1,
    sizes: Collection[int] = (),
    host: Operation | None = None,
    domain: str = "",
    is_random: bool = False,
) -> Callable[[Operation], Operation]:
    """Register a function for operators from an operator set on, until a newer form."""

    def register(run: Operation) -> Operation:
        for name in names:
            forms = _OPERATORS.setdefault((domain, name), [])
            forms.append(Operator(name, since, run, sizes, host, is_random))
            forms.sort(key=lambda form: -form.since)
        return run

    return register


def find_operator(domain: str, name: str, version: int) -> Operator | None:
    """Return the form of an operator that applies to a version, or None."""
    forms = _OPERATORS.get((domain, name), ())
    return next((form for form in forms if form.since <= version), None)


def list_operators() -> dict[tuple[str, str], int]:
    """Return each operator's domain and name with the oldest version that is supported."""
    return {key: min(form.since for form in forms) for key, forms in _OPERATORS.items()}


def version_of(domain: str, name: str, opset: int) -> int:
    """Return the operator set in which the form appeared that applies in an operator set.

    Raises:
        OnnxRefused: ONNX has no such operator.
    """
    try:
        return int(onnx.defs.get_schema(name, opset, domain).since_version)
    except onnx.defs.SchemaError:
        title = f"{domain}:{name}" if domain else name
        raise OnnxRefused(f"operator set {opset} has no operator {title}") from None
