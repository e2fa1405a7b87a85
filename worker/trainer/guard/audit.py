"""Finds operators of a training step that make a GPU wait: large work on the CPU, and reads.

A dispatch mode sees every operator below autograd, forward and backward. It runs each one unchanged
and inspects its arguments, so it does not change results. It is on for only a few steps, in which
an operator takes up to 0.1 ms longer (188 operators per step, 2 busy cores, torch 2.13, medians of
200 interleaved steps, November 2026).

It cannot see waits inside a kernel's own code (`torch.cuda.synchronize`, or a library's), nor what
a compiled function does inside.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from worker.results.findings import BACKWARD, Finding, Kind

LARGE_BYTES = 1 << 20
"""Least size of a CPU tensor to report: a GPU would not be faster on smaller ones."""
WAITING_READS = frozenset(
    {
        "_local_scalar_dense",
        "equal",
        "is_nonzero",
        "masked_select",
        "nonzero",
        "unique_consecutive",
        "unique_dim",
        "_unique",
        "_unique2",
        "bincount",
    }
)
"""Operators whose result, or its size, the host needs before it can continue.

Source: pytorch aten/src/ATen/native/cuda (each copies to the host and synchronises).
"""
INDEXING = frozenset({"index", "index_put", "index_put_", "_index_put_impl_"})
"""Operators that call `nonzero` when given a mask."""
COPIES = frozenset({"_to_copy", "copy_", "copy"})
SELECTIONS = frozenset({"index_select", "index", "gather", "embedding"})
"""Operators that read only as much as their result, however large their source is."""
NO_WORK = frozenset({"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"})

SOURCE_DIR = Path(__file__).resolve().parents[3]
TORCH_DIR = str(Path(torch.__file__).parent)


class OperatorAudit:
    """Inspects the operators of some steps.

    Attributes:
        steps: Number of steps inspected.
        device_operators: Number of operators with a result on the device.
        cpu_operators: Number of operators with a result on the CPU.
    """

    def __init__(self, device: torch.device, *, large_bytes: int = LARGE_BYTES) -> None:
        self.steps = 0
        self.device_operators = 0
        self.cpu_operators = 0
        self._device = device
        self._large_bytes = large_bytes
        self._found: dict[tuple[Kind, str, str], Finding] = {}
        self._mode: _Watch | None = None

    def __enter__(self) -> Self:
        """Begin a step."""
        self._mode = _Watch(self)
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End a step."""
        assert self._mode is not None, "the audit was not entered"
        self._mode.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self.steps += 1

    def findings(self) -> list[Finding]:
        """Return the findings, most frequent first."""
        return sorted(self._found.values(), key=lambda f: (-f.count, -f.bytes, f.where))

    def look(self, name: str, inputs: Sequence[torch.Tensor], outputs: Any, options: Any) -> None:
        """Inspect one operator that has run."""
        results = list(_tensors(outputs))
        if any(self._is_there(tensor) for tensor in results):
            self.device_operators += 1
        elif results:
            self.cpu_operators += 1
        wait = self._find_wait(name, inputs, results, options)
        if wait is not None:
            source = max(inputs, key=_num_bytes, default=None)
            self._note("host_synchronisation", wait, 0 if source is None else _num_bytes(source))
        elif num_bytes := self._host_bytes(name, inputs, results):
            self._note("cpu_operation", name, num_bytes)

    def _find_wait(
        self,
        name: str,
        inputs: Sequence[torch.Tensor],
        results: Sequence[torch.Tensor],
        options: Any,
    ) -> str | None:
        if name in COPIES:
            return self._find_blocking_copy(inputs, results, options)
        is_there = any(self._is_there(tensor) for tensor in inputs)
        if is_there and name in WAITING_READS:
            return name
        has_mask = any(tensor.dtype in (torch.bool, torch.uint8) for tensor in inputs[1:])
        return f"{name} by a mask" if is_there and name in INDEXING and has_mask else None

    def _find_blocking_copy(
        self, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor], options: Any
    ) -> str | None:
        source, target = inputs[-1], results[0]
        if self._is_there(source) == self._is_there(target):
            return None
        if self._is_there(source):
            return None if options else "copy to the CPU"
        if source.is_pinned():
            return None if options else "blocking copy from the CPU"
        return "copy from pageable memory of the CPU"

    def _host_bytes(
        self, name: str, inputs: Sequence[torch.Tensor], results: Sequence[torch.Tensor]
    ) -> int:
        if name in NO_WORK or any(self._is_there(tensor) for tensor in results):
            return 0
        worked_on = results if name in SELECTIONS else [*inputs, *results]
        largest = max(map(_num_bytes, worked_on), default=0)
        return largest if largest >= self._large_bytes else 0

    def _is_there(self, tensor: torch.Tensor) -> bool:
        return tensor.device.type == self._device.type

    def _note(self, kind: Kind, what: str, num_bytes: int) -> None:
        where = _find_line()
        found = self._found.setdefault(
            (kind, what, where), Finding(kind=kind, what=what, where=where)
        )
        found.count += 1
        found.bytes = max(found.bytes, num_bytes)


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, audit: OperatorAudit) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._audit = audit

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = kwargs or {}
        outputs = func(*args, **options)
        if not func.is_view:
            name = func.overloadpacket.__name__
            inputs = list(_tensors([*args, *options.values()]))
            self._audit.look(name, inputs, outputs, _is_non_blocking(args, options))
        return outputs


def _is_non_blocking(args: Sequence[Any], options: dict[str, Any]) -> bool:
    # copy_(self, src, non_blocking) takes it as the third argument, _to_copy by name.
    return bool(options.get("non_blocking", args[2] if len(args) > 2 else False) is True)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _num_bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _find_line() -> str:
    """Return the innermost line outside torch and this file; autograd's own threads have none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if path != __file__ and not path.startswith((TORCH_DIR, "<")):
            return f"{_shorten(path)}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return BACKWARD


def _shorten(path: str) -> str:
    return path.removeprefix(f"{SOURCE_DIR}/")
