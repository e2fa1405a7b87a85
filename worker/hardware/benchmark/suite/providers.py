"""ONNX Runtime's execution providers on the same network and batch, for inference."""

import logging
import tempfile
import warnings
from collections.abc import Callable
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


def time_providers(model: nn.Module, workload: Workload, *, seconds: float) -> dict[str, float]:
    """Return the samples a second of each provider that runs the network here.

    A provider that would hand the whole network to the CPU is left out.
    """
    import onnxruntime

    names = [n for n in onnxruntime.get_available_providers() if n not in NOT_MEASURED]
    batch = workload.make_inputs(torch.device("cpu"))
    with tempfile.TemporaryDirectory(prefix="redkiln-suite-") as folder:
        path = Path(folder) / "model.onnx"
        _export(model, batch, path)
        calls: dict[str, Callable[[], object]] = {}
        for name in names:
            session = onnxruntime.InferenceSession(str(path), providers=[name])
            if session.get_providers()[0] == name:
                calls[name] = _build_call(session, batch)
        for call in calls.values():
            call()
        samples = time_by_turns(calls, synchronize=lambda: None, budget=Budget(seconds, ROUNDS))
    return {name: workload.batch_size / sorted(each)[len(each) // 2]
            for name, each in samples.items()}  # fmt: skip


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
