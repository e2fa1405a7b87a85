"""ONNX Runtime's execution providers on the same network and batch, for inference."""

import logging
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from worker.hardware.benchmark.suite.workloads import Workload
from worker.hardware.benchmark.timing import Budget, time_by_turns

NOT_MEASURED = frozenset({"AzureExecutionProvider"})
"""It sends the inputs to another machine."""
OPSET = 20
ROUNDS = 20
EXPORT = "export"


@dataclass(frozen=True)
class ProviderTimes:
    """What ONNX Runtime's providers reached.

    Attributes:
        rates: Samples a second of each provider that ran the network.
        errors: First line of the error of each provider that failed; of the export under `export`.
    """

    rates: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


def time_providers(model: nn.Module, workload: Workload, *, seconds: float) -> ProviderTimes:
    """Measure each provider that runs the network here; one that fails carries its reason.

    A provider that would hand the whole network to the CPU is left out.
    """
    import onnxruntime

    names = [n for n in onnxruntime.get_available_providers() if n not in NOT_MEASURED]
    batch = workload.make_inputs(torch.device("cpu"))
    errors: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="redkiln-suite-") as folder:
        path = Path(folder) / "model.onnx"
        calls: dict[str, Callable[[], object]] = {}
        with _noting(errors, EXPORT):
            _export(model, batch, path)
        for name in names if path.exists() else ():
            with _noting(errors, name):
                session = onnxruntime.InferenceSession(str(path), providers=[name])
                if session.get_providers()[0] == name:
                    call = _build_call(session, batch)
                    call()
                    calls[name] = call
        samples: dict[str, list[float]] = {}
        with _noting(errors, ", ".join(calls)):
            samples = time_by_turns(calls, synchronize=lambda: None, budget=Budget(seconds, ROUNDS))
    rates = {name: workload.batch_size / sorted(each)[len(each) // 2]
             for name, each in samples.items()}  # fmt: skip
    return ProviderTimes(rates, errors)


@contextmanager
def _noting(errors: dict[str, str], name: str) -> Iterator[None]:
    """Note an error under a name instead of raising it; those of ONNX Runtime share no class."""
    try:
        yield
    except Exception as error:  # noqa: BLE001
        errors[name] = f"{type(error).__name__}: {str(error).partition(chr(10))[0][:300]}"


def _build_call(session: Any, batch: torch.Tensor) -> Callable[[], object]:
    feed = {session.get_inputs()[0].name: batch.numpy()}
    return lambda: session.run(None, feed)


def _export(model: nn.Module, batch: torch.Tensor, path: Path) -> None:
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns of what is not installed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model.cpu().eval(), (batch,), str(path), dynamo=True, opset_version=OPSET, verbose=False
        )
