"""Seconds from POST to the first optimiser step, overhead of a job, and idle memory.

Runs the real stack on this machine with one worker: short jobs of amdnet on CIFAR-10 (12k;
generated JPEGs if it is missing), after a job that filled the caches (decoded data set, rehearsal
verdict). All times are from one clock; the trainer records the time of its first step.

`latency/short_job` and `latency/first_job` measure default jobs on the digits: how long a user
waits in addition to training and evaluation, on a warm worker and on one that has just started.
"""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from bench.image_archives import CIFAR, generate_archive
from bench.result import Result, at_most, info, spread
from native.stack import Stack
from redkiln.client import Client
from redkiln.status import JobStatus
from redkiln.views.job import JobView

JOBS = 5
STEPS = 100
FIRST_STEP_SECONDS = 0.5
OVERHEAD_SECONDS = 1.5
SETTLE_SECONDS = 12.0
"""Pause between jobs: the next spare imports torch, the next exporter traces a small model."""
SHORT_SPEC: dict[str, Any] = {"dataset": "builtin:digits"}
SHORT_JOBS = 5
FRESH_WORKERS = 3
SHORT_JOB_SECONDS = 2.5
FIRST_JOB_SECONDS = 8.0
WORK = ("training", "evaluating")


def run() -> list[Result]:
    """Measure on an idle worker, one job at a time."""
    with tempfile.TemporaryDirectory(prefix="bench-latency-") as name:
        root = Path(name)
        with Stack(root / "state") as stack, Client(stack.url, stack.admin_key) as client:
            time.sleep(SETTLE_SECONDS)
            idle = _idle_memory(stack)
            dataset = _push(client, root)
            first = _run_job(client, dataset)
            jobs = [_run_job(client, dataset) for _ in range(JOBS)]
        first_jobs, short_jobs = _run_short_jobs(root)
    return [
        _first_step(jobs),
        _overhead(jobs, first),
        _wait("latency/short_job", short_jobs, SHORT_JOB_SECONDS, "warm worker"),
        _wait("latency/first_job", first_jobs, FIRST_JOB_SECONDS, "first job of a fresh worker"),
        *idle,
    ]


def _push(client: Client, root: Path) -> str:
    archive = CIFAR if CIFAR.exists() else generate_archive(root / "generated.zip")
    return client.wait_dataset(client.push_dataset(archive, "bench").id).id


def _run_short_jobs(root: Path) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Run a default job on the digits on each fresh worker, then more on the last worker."""
    first, short = [], []
    for number in range(FRESH_WORKERS):
        with Stack(root / f"fresh-{number}") as stack, Client(stack.url, stack.admin_key) as client:
            first.append(_measure(client, SHORT_SPEC))
            if number == FRESH_WORKERS - 1:
                short = [_measure(client, SHORT_SPEC) for _ in range(SHORT_JOBS)]
    return first, short


def _run_job(client: Client, dataset: str) -> dict[str, float]:
    """Run a job and return its seconds to the first step, in total, and by phase."""
    training = {"steps": STEPS, "batch_size": 64}
    return _measure(client, {"dataset": dataset, "model": "amdnet", "training": training})


def _measure(client: Client, spec: dict[str, Any]) -> dict[str, float]:
    posted_at = datetime.now(UTC)
    job = client.wait(client.submit(spec).id)
    assert job.status is JobStatus.SUCCEEDED, job.reason
    assert job.finished_at is not None
    result = _result_of(job)
    first_step_at = datetime.fromisoformat(result["first_step_at"])
    time.sleep(SETTLE_SECONDS)
    return {
        "first_step": (first_step_at - posted_at).total_seconds(),
        "turnaround": (job.finished_at - posted_at).total_seconds(),
        **result["timings"],
    }


def _result_of(job: JobView) -> dict[str, Any]:
    result: dict[str, Any] = job.attempts[-1].details["result"]
    return result


def _first_step(jobs: list[dict[str, float]]) -> Result:
    seconds = [job["first_step"] for job in jobs]
    detail = f"warm worker, data set decoded, rehearsal remembered; {spread(seconds)}"
    value = statistics.median(seconds)
    return at_most("latency/post_to_first_step", value, "s", FIRST_STEP_SECONDS, detail)


def _overhead(jobs: list[dict[str, float]], first: dict[str, float]) -> Result:
    work = ("training", "evaluating", "rehearsing", "exporting", "verifying")
    seconds = [job["turnaround"] - sum(job.get(name, 0.0) for name in work) for job in jobs]
    median = {name: statistics.median(job.get(name, 0.0) for job in jobs) for name in work}
    parts = ", ".join(f"{name} {value:.2f}" for name, value in median.items())
    detail = (
        f"turnaround minus {parts} s (a first rehearsal takes {first.get('rehearsing', 0):.1f} s); "
        f"{spread(seconds)}"
    )
    value = statistics.median(seconds)
    return at_most("latency/job_overhead", value, "s", OVERHEAD_SECONDS, detail)


def _wait(name: str, jobs: list[dict[str, float]], limit_seconds: float, worker: str) -> Result:
    """Report the turnaround of default jobs on the digits without their training, by phase."""
    phases = [phase for phase in jobs[0] if phase not in {"first_step", "turnaround", *WORK}]
    splits = [{phase: job.get(phase, 0.0) for phase in phases} for job in jobs]
    seconds = [job["turnaround"] - sum(job.get(phase, 0.0) for phase in WORK) for job in jobs]
    for split, total in zip(splits, seconds, strict=True):
        split["other"] = total - sum(split.values())
    parts = ", ".join(
        f"{phase} {statistics.median(split[phase] for split in splits):.2f}" for phase in splits[0]
    )
    work = statistics.median(job["turnaround"] for job in jobs) - statistics.median(seconds)
    detail = f"{worker}: {parts} s (training and evaluating {work:.1f} s); {spread(seconds)}"
    return at_most(name, statistics.median(seconds), "s", limit_seconds, detail)


def _idle_memory(stack: Stack) -> list[Result]:
    agent = psutil.Process(stack.workers[0].pid)
    children = agent.children(recursive=True)
    spares = [child for child in children if "worker.trainer" in _line(child)]
    exporters = [child for child in children if "worker.export" in _line(child)]
    return [
        info("memory/idle_agent", _mib(agent), "MiB", "resident"),
        info("memory/warm_spare", sum(map(_mib, spares)), "MiB", f"resident, {len(spares)} spare"),
        info(
            "memory/warm_exporter",
            sum(map(_mib, exporters)),
            "MiB",
            f"resident, {len(exporters)} spare",
        ),
    ]


def _line(process: psutil.Process) -> str:
    return " ".join(process.cmdline())


def _mib(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20
