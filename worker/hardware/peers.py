"""Whether GPUs that share a job exchange data correctly: tried once on the real links, remembered.

On consumer cards the first all-reduce is known to hang, or to return wrong sums, if an IOMMU
translates the transfers. A job would wait until it counts as stalled, so the exchange is tried
first: with the machine's setup and, if that fails, through main memory.
"""

import hashlib
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from redkiln.views.hardware import GpuFacts
from worker.hardware.children import start_child
from worker.hardware.facts.discover import discover_gpus
from worker.hardware.facts.driver import read_driver_version
from worker.hardware.masks import list_offered, pick_visible
from worker.hardware.patches import peer_to_peer
from worker.hardware.patches.facts import PatchFacts

FORMAT = 1
"""Increased when the test itself changes, so that older verdicts are ignored."""
EXCHANGE_SECONDS = 60.0
"""Time limit for all exchanges; RCCL needs about ten seconds to find its routes."""
START_SECONDS = 300.0
BELIEVED_FOR = timedelta(hours=1)
"""A failed trial is repeated after this time, or after a reboot, which the usual fix requires.
Retries of one job do not wait for it again and again."""
NO_P2P = "NCCL_P2P_DISABLE"
THROUGH_MEMORY: Mapping[str, str] = {NO_P2P: "1"}
"""RCCL reads NCCL's names. Source: ROCm/rccl#1129, ROCm/ROCm#6074."""
SETTINGS_PREFIXES = ("NCCL_", "RCCL_", "HSA_")
REMEDY = (
    "put iommu=pt on the kernel's command line and reboot the machine, or set "
    f"{NO_P2P}=1 (and, if that is not enough, NCCL_SHM_DISABLE=1) in the worker's environment; "
    "NCCL_DEBUG=INFO there shows details, and resources.gpus: 1 trains on one GPU"
)
LOST = "closed by peer"
BOOT_PATH = Path("/proc/sys/kernel/random/boot_id")


class PeerVerdict(BaseModel):
    """The result of a trial.

    Attributes:
        gpus: Keys of the GPUs, or `cpu`.
        has_passed: Whether every sum came back in time and was right.
        environment: Variables that are necessary; every rank of a job gets them.
        problem: Fault of the machine's setup; empty without one.
        bytes_per_second: Best rate of the large buffer.
        boot_id: Id of the machine's boot.
    """

    model_config = ConfigDict(frozen=True)

    at: datetime
    gpus: tuple[str, ...]
    torch: str | None
    driver: str | None
    has_passed: bool
    environment: dict[str, str] = {}
    problem: str = ""
    bytes_per_second: float | None = None
    boot_id: str = ""


class TrialStopped(Exception):  # noqa: N818  # the stop was requested
    """The verdict is no longer needed."""


def judge_peers(
    gpus: Sequence[str],
    *,
    num_ranks: int,
    device_type: str,
    environ: Mapping[str, str],
    cache_dir: Path,
    should_stop: Callable[[], bool] = lambda: False,
    exchange_seconds: float = EXCHANGE_SECONDS,
) -> PeerVerdict:
    """Return the verdict on these GPUs: the stored one, or a new one.

    Args:
        gpus: Keys of the GPUs; empty on a CPU.
        num_ranks: Number of processes, one for each GPU.
        device_type: Torch's device type, `cuda` or `cpu`.
        environ: Environment of the processes, which shows them the GPUs.
        cache_dir: Folder of stored verdicts.
        should_stop: Asked repeatedly whether to stop.
        exchange_seconds: Time limit for the exchanges.

    Raises:
        TrialStopped: `should_stop` returned true.
    """
    names = tuple(sorted(gpus)) or (f"{device_type} x{num_ranks}",)
    verdict = PeerVerdict(
        at=datetime.now(UTC),
        gpus=names,
        torch=read_torch_version(),
        driver=read_driver_version(),
        has_passed=False,
        boot_id=_read_boot_id(),
    )
    path = cache_dir / f"peers-{_digest(verdict, environ)}.json"
    if (known := _load(path)) is not None and is_believed(known, now=verdict):
        return known
    tried = [{}] if environ.get(NO_P2P) or device_type == "cpu" else [{}, dict(THROUGH_MEMORY)]
    problem = ""
    for changes in tried:
        rate, trouble = _try(
            num_ranks,
            device_type=device_type,
            environ={**environ, **changes},
            should_stop=should_stop,
            exchange_seconds=exchange_seconds,
        )
        problem = problem or trouble
        if not trouble:
            found = {"has_passed": True, "environment": changes, "bytes_per_second": rate}
            verdict = verdict.model_copy(update=found)
            break
    verdict = verdict.model_copy(update={"problem": problem})
    with suppress(OSError):  # the next job tries again
        _save(verdict, path)
    return verdict


def guard_links(gpus: Sequence[GpuFacts], environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a trial cannot hang the host.

    The trial itself is the call that has hung hosts with several RDNA4 cards, so it starts with
    what the patch sets for jobs. A value that the user has set is kept.

    Args:
        gpus: GPUs that exchange data.
        environ: Environment of the processes.
    """
    decision = peer_to_peer.decide(PatchFacts("rocm", tuple(gpus), user=environ))
    return {**decision.environment, **environ}


def is_believed(known: PeerVerdict, *, now: PeerVerdict) -> bool:
    """Return whether an earlier verdict with the same key still counts.

    Args:
        known: The earlier verdict.
        now: A verdict with the current time and boot id.
    """
    is_fresh = now.at - known.at < BELIEVED_FOR and known.boot_id == now.boot_id
    # A verdict that needed a workaround is tried without it after a reboot.
    needs_no_cure = known.has_passed and not known.environment
    return needs_no_cure or (known.has_passed and known.boot_id == now.boot_id) or is_fresh


def describe_failure(verdict: PeerVerdict) -> str:
    """Explain why several GPUs cannot share a job here, and what to do."""
    names = ", ".join(verdict.gpus)
    return f"GPUs {names} cannot exchange their results: {verdict.problem}; {REMEDY}"


def load_verdicts(cache_dir: Path | None) -> list[PeerVerdict]:
    """Load all stored verdicts, the oldest first."""
    paths = sorted(cache_dir.glob("peers-*.json")) if cache_dir is not None else []
    found = [verdict for path in paths if (verdict := _load(path)) is not None]
    return sorted(found, key=lambda verdict: verdict.at)


def read_torch_version() -> str | None:
    """Return the installed torch's version without importing it; it contains ROCm's release."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def _try(
    num_ranks: int,
    *,
    device_type: str,
    environ: Mapping[str, str],
    should_stop: Callable[[], bool],
    exchange_seconds: float,
) -> tuple[float | None, str]:
    """Return the rate, or what was wrong."""
    with ExitStack() as held:
        folder = held.enter_context(tempfile.TemporaryDirectory(prefix="redkiln-peers-"))
        own = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo", **environ}
        children = [
            held.enter_context(
                start_child(
                    "worker.hardware.selftest.peer_rank",
                    ["--device-type", device_type, "--rank", str(rank), "--ranks", str(num_ranks),
                     "--seconds", str(exchange_seconds), "--meeting", f"{folder}/meeting"],
                    environ=own,
                )
            )
            for rank in range(num_ranks)
        ]  # fmt: skip
        _wait(children, should_stop=should_stop, seconds=START_SECONDS + exchange_seconds)
        outputs = [_read(child) for child in children]
    ends = [(rank, end[0], end[2]) for rank, end in enumerate(outputs) if end[0] != 0]
    if ends:
        # A rank that only lost its peers knows least about the cause.
        rank, status, errors = min(ends, key=lambda end: (end[1] is None, LOST in end[2]))
        return None, describe_end(rank, status, errors, exchange_seconds=exchange_seconds)
    return float(json.loads(outputs[0][1])["bytes_per_second"]), ""


def describe_end(rank: int, status: int | None, errors: str, *, exchange_seconds: float) -> str:
    """Describe how a process of a trial ended.

    Args:
        rank: Rank of the process.
        status: Exit status; None if it was killed because it, or another one, never ended.
        errors: Text that it wrote to stderr.
        exchange_seconds: Time limit of the exchanges.
    """
    if "Timeout (" in errors:
        return f"they waited for each other for {exchange_seconds:.0f} s (a hang)"
    if status is None:
        return "the trial did not finish and was killed"
    last = (errors.strip().splitlines() or ["it printed nothing"])[-1][:300]
    return f"rank {rank} exited with status {status}: {last}"


def _wait(
    children: "Sequence[subprocess.Popen[str]]",
    *,
    should_stop: Callable[[], bool],
    seconds: float,
) -> None:
    """Wait until all have ended, or one has failed and the others would wait for it forever."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        statuses = [child.poll() for child in children]
        if all(status == 0 for status in statuses) or any(statuses):
            return
        if should_stop():
            raise TrialStopped
        time.sleep(0.02)


def _read(child: "subprocess.Popen[str]") -> tuple[int | None, str, str]:
    try:
        # A rank that lost its peer ends by itself, and its message does not matter.
        output, errors = child.communicate(timeout=1.0)
    except subprocess.TimeoutExpired:
        child.kill()
        output, errors = child.communicate()
        return None, output, errors
    return child.returncode, output, errors


def _digest(verdict: PeerVerdict, environ: Mapping[str, str]) -> str:
    settings = {
        name: value for name, value in environ.items() if name.startswith(SETTINGS_PREFIXES)
    }
    key = [FORMAT, verdict.gpus, verdict.torch, verdict.driver, sorted(settings.items())]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:24]


def _load(path: Path) -> PeerVerdict | None:
    try:
        return PeerVerdict.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def _save(verdict: PeerVerdict, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    partial.write_text(verdict.model_dump_json(indent=1))
    partial.replace(path)


def _read_boot_id() -> str:
    try:
        return BOOT_PATH.read_text().strip()
    except OSError:
        return ""


def main(arguments: Sequence[str]) -> int:
    """`python -m worker.hardware.peers NUM_GPUS`: try the GPUs that this process sees."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m worker.hardware.peers")
    parser.add_argument("num_gpus", type=int)
    parser.add_argument("--device-type", default="cuda")
    parser.add_argument("--cache-dir", type=Path)
    options = parser.parse_args(arguments)
    seen = pick_visible(list_offered(discover_gpus()), os.environ)
    with tempfile.TemporaryDirectory() as scratch:
        verdict = judge_peers(
            [],
            num_ranks=options.num_gpus,
            device_type=options.device_type,
            environ=guard_links(seen, os.environ),
            cache_dir=options.cache_dir or Path(scratch),
        )
    sys.stdout.write(verdict.model_dump_json(indent=1) + "\n")
    return 0 if verdict.has_passed else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
