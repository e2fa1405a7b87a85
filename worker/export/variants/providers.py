"""Runs a file on the other execution providers of ONNX Runtime that this machine has.

Each runs in a separate process, because a driver may crash. The result is listed; the verdict on a
file is that of the CPU.
"""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from pydantic import BaseModel

from redkiln.predict.compare import is_finite
from redkiln.predict.session import CPU, name_input, open_session
from worker.export.evaluate import Evaluation
from worker.export.parity import compare_outputs
from worker.export.target import ExportTarget
from worker.export.variants.loading import TIMEOUT_SECONDS

NOT_LOCAL = ("AzureExecutionProvider",)
"""Providers that compute nothing on this machine."""
SAMPLES = 64
PROGRAM = """
import sys
import numpy
import onnxruntime
path, name, given, result, *outputs = sys.argv[1:]
options = onnxruntime.SessionOptions()
options.log_severity_level = 3
session = onnxruntime.InferenceSession(path, options, providers=[name, "CPUExecutionProvider"])
if name not in session.get_providers():
    sys.exit("ONNX Runtime cannot load its libraries or finds no device")
with numpy.load(given) as file:
    numpy.savez(result, *session.run(outputs or None, {key: file[key] for key in file.files}))
"""


class ProviderResult(BaseModel):
    """A file on one execution provider, compared with the trained model.

    Attributes:
        name: Name of the provider, such as `CUDAExecutionProvider`.
        num_samples: Test samples that were run; 0 if it does not run.
        relative: Largest difference of an output, relative to the largest output.
        agreement: Share of equal answers.
        reason: Why it does not run; empty if it does.
    """

    name: str
    num_samples: int = 0
    relative: float | None = None
    agreement: float | None = None
    reason: str = ""


def list_providers() -> list[str]:
    """Return the execution providers of this machine other than the CPU."""
    known: list[str] = onnxruntime.get_available_providers()
    return [name for name in known if name not in (CPU, *NOT_LOCAL)]


def run_providers(path: Path, target: ExportTarget, evaluation: Evaluation) -> list[ProviderResult]:
    """Run test samples on each provider that is present.

    Args:
        path: The file.
        target: The task's samples and scoring.
        evaluation: Outputs of the trained model.
    """
    return [_run(path, name, target, evaluation) for name in list_providers()]


def _run(path: Path, name: str, target: ExportTarget, evaluation: Evaluation) -> ProviderResult:
    num = min(SAMPLES, evaluation.num_test)
    feed = target.samples.feed(target.samples.get(evaluation.rows[:num]))
    answers = target.exportable.answers
    names = () if answers is None else answers.names
    found = _run_alone(path, name, name_input(open_session(path, threads=1), feed), names)
    if isinstance(found, str):
        return ProviderResult(name=name, reason=found)
    outputs = found[0].astype(np.float32) if answers is None else answers.join(found)
    reference = evaluation.outputs[:num]
    if not is_finite(outputs):
        return ProviderResult(name=name, reason="some of its outputs are not finite numbers")
    return ProviderResult(
        name=name,
        num_samples=num,
        relative=compare_outputs(outputs, reference).relative,
        agreement=target.scoring.find_agreement(outputs, reference),
    )


def _run_alone(
    path: Path, name: str, feed: dict[str, Any], outputs: Sequence[str]
) -> list[Any] | str:
    """Return outputs of the file on a provider (all if none is named), or why it does not run."""
    with tempfile.TemporaryDirectory(prefix="provider-") as folder:
        given, result = Path(folder) / "given.npz", Path(folder) / "result.npz"
        # Texts are saved without pickling.
        plain = {key: a.astype(str) if a.dtype == object else a for key, a in feed.items()}
        np.savez(given, **plain)
        command = [sys.executable, "-I", "-c", PROGRAM, str(path), name, str(given), str(result)]
        command += outputs
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"it does not answer within {TIMEOUT_SECONDS:.0f} s"
        if done.returncode < 0:
            return f"it crashes (signal {-done.returncode})"
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["it fails without a message"])[-1][:300]
        with np.load(result) as file:
            return [file[key] for key in file.files]


def describe_providers(results: Sequence[ProviderResult]) -> str:
    """Return the lines of the report, Markdown."""
    return "\n".join(f"- {_describe(one)}" for one in results)


def _describe(one: ProviderResult) -> str:
    if one.reason:
        return f"{one.name} does not run here: {one.reason}"
    same = "" if one.agreement is None else f", {one.agreement:.2%} equal answers"
    return (
        f"{one.name}: outputs differ by up to {one.relative:.1e} of the largest output{same}, on "
        f"{one.num_samples} test samples"
    )
