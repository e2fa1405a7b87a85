"""Tries whether a GPU works with `HSA_OVERRIDE_GFX_VERSION`, in a child that may crash.

An override makes the runtime load another target's kernels. If they are wrong, the process crashes,
hangs or computes wrong numbers. An override is accepted only if a child returned right numbers for
this target and these versions.
"""

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from worker.hardware.facts.kfd import name_gfx

SOURCE_DIR = Path(__file__).resolve().parents[2]
"""The folder that contains the package `worker`, of which the probe is a part."""
PROBE_SECONDS = 300.0
"""A cold import of torch from a slow disk, and the first kernels, take minutes."""
RETRY_AFTER = timedelta(days=1)
"""How long a failure is remembered: it may have had another cause than the override."""
ALLOWED_ERROR = 1e-3
"""Relative to the root mean square; float32 rounding errors are some hundred times smaller, and
errors of wrong kernels are far larger."""


class ProbeOutput(BaseModel):
    """The output of `python -m worker.hardware.selftest.probe`.

    Attributes:
        gfx: Target that the runtime reports under the override.
        errors: Largest difference from the CPU's float64 by operation, relative to the root mean
            square; None if a number is not finite.
        error: Why nothing was computed.
    """

    gfx: str | None = None
    errors: dict[str, float | None] = {}
    error: str = ""


class ProbeResult(BaseModel):
    """The verdict on one override."""

    verdict: Literal["passed", "failed"]
    detail: str


class ProbeKey(BaseModel):
    """Everything that a verdict depends on.

    Attributes:
        gpu: Key of the card, if the verdict is on it and not on its kind.
    """

    gfx: str
    value: str
    torch: str | None
    rocm: str | None
    gpu: str | None = None

    @property
    def file_name(self) -> str:
        """Unique file name of the verdict."""
        digest = hashlib.sha256(self.model_dump_json(exclude_none=True).encode()).hexdigest()[:16]
        return f"override-{self.gfx}-{digest}.json"


class _KeptResult(BaseModel):
    key: ProbeKey
    result: ProbeResult
    at: datetime


def variable_of(node: int) -> str:
    """Return the variable that overrides one GPU without affecting the others.

    Source: libhsakmt topology.c: the suffix is the number of the KFD node.
    """
    return f"HSA_OVERRIDE_GFX_VERSION_{node}"


def name_lent(candidate: Mapping[str, str]) -> str | None:
    """Return the target that a GPU must report under an override: gfx1030 under 10.3.0."""
    (value,) = candidate.values()
    major, minor, stepping = (int(part) for part in value.split("."))
    return name_gfx(major * 10000 + minor * 100 + stepping)


def judge_probe(*, status: int | None, stdout: bytes, lent: str | None) -> ProbeResult:
    """Judge the outcome of a probe's child.

    Args:
        status: Exit status; negative: the signal that ended it; None if it timed out.
        stdout: Output of the child.
        lent: Target that the GPU must report.
    """
    if status is None:
        return _failed(f"the probe hung and was killed after {PROBE_SECONDS:.0f} s")
    if status != 0:
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return _failed(f"the probe crashed ({how})")
    try:
        output = ProbeOutput.model_validate_json(stdout)
    except ValidationError:
        return _failed(f"the probe's output cannot be parsed: {stdout[:100]!r}")
    if output.error or not output.errors:
        return _failed(output.error or "the probe computed nothing")
    if output.gfx not in (None, lent):
        return _failed(
            f"the probe ran on {output.gfx} instead of {lent}: it saw another GPU, or the runtime "
            "ignores the variable"
        )
    wrong = {name: e for name, e in output.errors.items() if e is None or not e <= ALLOWED_ERROR}
    if wrong:
        numbers = ", ".join(f"{name} {_number(error)}" for name, error in wrong.items())
        return _failed(f"it computes wrong numbers: error of {numbers}, allowed {ALLOWED_ERROR}")
    worst = max(error for error in output.errors.values() if error is not None)
    names = " and ".join(output.errors)
    return ProbeResult(verdict="passed", detail=f"{names} correct in a probe, error {worst:.1e}")


def run_probe(
    command: Sequence[str], *, environment: Mapping[str, str], lent: str | None
) -> ProbeResult:
    """Run a probe's child, with a time limit.

    Args:
        command: Command that prints a `ProbeOutput`.
        environment: Environment that shows the child only this GPU, with what is tried.
        lent: Target that the GPU must report; None if it keeps its own.
    """
    try:
        done = subprocess.run(
            command,
            env=dict(environment),
            cwd=SOURCE_DIR,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return judge_probe(status=None, stdout=b"", lent=lent)
    except OSError as error:
        return _failed(f"the probe could not be started: {error}")
    return judge_probe(status=done.returncode, stdout=done.stdout, lent=lent)


def prove_override(
    gfx: str,
    candidate: Mapping[str, str],
    *,
    versions: tuple[str | None, str | None],
    command: Sequence[str],
    environment: Mapping[str, str],
    cache_dir: Path,
    now: datetime,
) -> ProbeResult:
    """Return the stored verdict on an override, or probe it now.

    Args:
        gfx: The GPU's own target.
        candidate: The variable and its value.
        versions: Versions of torch and of ROCm.
        command: Command of the probe.
        environment: Environment that shows the child only this GPU.
        cache_dir: Folder of stored verdicts.
        now: The current time.
    """
    value = " ".join(sorted(candidate.values()))
    key = ProbeKey(gfx=gfx, value=value, torch=versions[0], rocm=versions[1])
    known = find_result(cache_dir, key, now=now)
    if known is not None:
        return known
    result = run_probe(command, environment={**environment, **candidate}, lent=name_lent(candidate))
    with suppress(OSError):  # the verdict is still valid; the next call probes again
        save_result(cache_dir, key, result, now=now)
    return result


def find_result(folder: Path, key: ProbeKey, *, now: datetime) -> ProbeResult | None:
    """Return a stored verdict; None if the override has to be probed."""
    try:
        kept = _KeptResult.model_validate_json((folder / key.file_name).read_bytes())
    except (OSError, ValidationError):
        return None
    if kept.result.verdict == "failed" and now - kept.at > RETRY_AFTER:
        return None
    return kept.result


def save_result(folder: Path, key: ProbeKey, result: ProbeResult, *, now: datetime) -> None:
    """Store a verdict.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / key.file_name
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(_KeptResult(key=key, result=result, at=now).model_dump_json(indent=1))
    partial.replace(path)


def _failed(detail: str) -> ProbeResult:
    return ProbeResult(verdict="failed", detail=detail)


def _number(error: float | None) -> str:
    return "not finite" if error is None else f"{error:.1e}"
