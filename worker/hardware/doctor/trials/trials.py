"""Runs the trials and judges how each ended."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from redkiln.views.hardware import DoctorTrial
from worker.hardware.children import SOURCE_DIR
from worker.hardware.doctor.evidence import Evidence
from worker.hardware.doctor.trials.places import Places, find_places, reserve
from worker.hardware.peers import judge_peers

NAMES = ("copy", "matmul", "convolution", "attention")
TITLES = {"copy": "first copy", "all-reduce": "all-reduce"}
LIMIT_SECONDS = 300.0
"""A cold import of a ROCm build takes over a minute, and MIOpen's first search a few more."""
MODULE = "worker.hardware.selftest.trial"


def run_trials(
    evidence: Evidence,
    *,
    environ: Mapping[str, str],
    lock_dir: Path,
    say: Callable[[str], None] = lambda _: None,
    limit_seconds: float = LIMIT_SECONDS,
) -> list[DoctorTrial]:
    """Try every operation on each discrete GPU, or on the CPU if torch opens no GPU.

    A GPU that a job uses is not tried.

    Args:
        evidence: GPUs of this machine and of torch.
        environ: Environment of the processes.
        lock_dir: Leases of this host's GPUs.
        say: Receives the name of each operation before it runs.
        limit_seconds: Time after which one is ended.
    """
    places = find_places(evidence, environ)
    found: list[DoctorTrial] = []
    for device, key in places.devices.items():
        with reserve([key], lock_dir) as trouble:
            if trouble:
                found.append(_skip("operations", device, trouble))
                continue
            for name in NAMES:
                say(f"{TITLES.get(name, name)} on {device}")
                command = [sys.executable, "-m", MODULE, name, "--device", device]
                found.append(
                    run_one(name, command, device=device, environ=environ, limit=limit_seconds)
                )
    return [*found, _try_links(places, lock_dir, say)]


def _try_links(places: Places, lock_dir: Path, say: Callable[[str], None]) -> DoctorTrial:
    if places.num_ranks == 1:
        return _skip("all-reduce", "cuda", "one GPU: nothing to exchange")
    say("all-reduce")
    with reserve(places.devices.values(), lock_dir) as trouble:
        if trouble:
            return _skip("all-reduce", "cuda", trouble)
        return _try_all_reduce(places)


def _skip(name: str, device: str, why: str) -> DoctorTrial:
    return DoctorTrial(name=name, device=device, verdict="skipped", detail=why)


def run_one(
    name: str, command: Sequence[str], *, device: str, environ: Mapping[str, str], limit: float
) -> DoctorTrial:
    """Run one operation in a process, and judge how it ended."""
    began = time.monotonic()
    title = TITLES.get(name, name)
    try:
        done = subprocess.run(
            list(command), env=dict(environ), cwd=SOURCE_DIR, capture_output=True, text=True,
            timeout=limit, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        words = f"did not end within {limit:.0f} s and was killed"
        return DoctorTrial(name=title, device=device, verdict="hung", detail=words, seconds=limit)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        detail = _describe_crash(done.returncode, done.stderr)
        return DoctorTrial(
            name=title, device=device, verdict="crashed", detail=detail, seconds=seconds
        )
    told = json.loads(done.stdout.strip().splitlines()[-1])
    error, allowed = told["error"], told["allowed"]
    is_right = error is not None and error <= allowed
    shown = "not finite" if error is None else f"{error:.1e}"
    return DoctorTrial(
        name=title,
        device=device,
        verdict="passed" if is_right else "wrong",
        detail=f"error {shown}, allowed {allowed:.1e}",
        seconds=told["seconds"],
    )


def _try_all_reduce(places: Places) -> DoctorTrial:
    device = "cpu" if "cpu" in places.devices else "cuda"
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="redkiln-doctor-") as folder:
        found = judge_peers(
            [],
            num_ranks=places.num_ranks,
            device_type=device,
            environ=places.link_environ,
            cache_dir=Path(folder),
        )
    rate = f"right sums at {(found.bytes_per_second or 0.0) / 1e9:.1f} GB/s"
    is_hang = "(a hang)" in found.problem or "was killed" in found.problem
    if found.environment:
        rate += f", only with {' '.join(f'{k}={v}' for k, v in found.environment.items())}"
    return DoctorTrial(
        name="all-reduce",
        device=f"{places.num_ranks} x {device}",
        verdict="passed" if found.has_passed else "hung" if is_hang else "crashed",
        detail=rate if found.has_passed else found.problem,
        seconds=time.monotonic() - began,
    )


def _describe_crash(status: int, errors: str) -> str:
    lines = errors.strip().splitlines() or ["it printed nothing"]
    try:
        how = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    except ValueError:
        how = f"signal {-status}"
    return f"{how}: {lines[-1][:300]}"
