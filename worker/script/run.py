"""Supervises a script from its code to its results.

The program is a child in this process's group, so SIGTERM reaches both. Everything that it starts
stays a descendant of this process and ends with it. While it runs, the supervisor reads its
metrics and files, and checks its limits and whether it uses the GPU that it asked for.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redkiln.events import EventKind
from redkiln.failure import FailureCode, JobFailure
from redkiln.status import Phase
from redkiln.tasks.script import ScriptSpec
from redkiln.version import __version__
from worker.hardware.patches import merge_settings
from worker.jobdir import LEASES_VARIABLE, JobDir, Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.process.lifetime import Stopped, StopSignal
from worker.script.bounds.bounds import Bounds, find_gap, refuse_gap
from worker.script.bounds.gpu_guard import GpuGuard, read_sensors
from worker.script.bounds.processes import (
    adopt_orphans,
    end_descendants,
    find_descendants,
    hide_memory,
)
from worker.script.bounds.shared_memory import SharedFiles
from worker.script.bounds.usage import DiskUse
from worker.script.ending import explain_exit
from worker.script.heartbeat import Heartbeat
from worker.script.metrics.lines import MetricLines, ScriptMetrics, line_reader
from worker.script.metrics.output import OutputPump
from worker.script.metrics.tensorboard import EventFiles
from worker.script.program.caches import build_caches
from worker.script.program.packages import build_environment
from worker.script.program.paths import ScriptPaths
from worker.script.program.program import Program, build_program, open_data
from worker.script.program.unpack import MAX_CODE_BYTES, unpack
from worker.script.results.models import check_models
from worker.script.results.results import Results
from worker.script.results.snapshots import Snapshots, restore
from worker.script.results.verdict import ModelCheck

TICK_SECONDS = 0.05
LISTEN_SECONDS = 0.5
LOOK_SECONDS = 1.0
MAX_LINES = 100_000
"""Most lines of output that wait to be searched for metrics; the oldest are skipped."""
LEFTOVER_SECONDS = 2.0
"""Grace period for processes that a script leaves running when it ends."""


def run_script(
    job_dir: JobDir, order: Order, spec: ScriptSpec, *, stop: StopSignal, event_log: EventLog
) -> None:
    """Run a job's script; leave its files, their list and a RESULT event in the job directory.

    Raises:
        TrainingFailed: The script could not be prepared, failed, or exceeded its limits.
        Stopped: The job was asked to stop; the script's checkpoints are saved.
    """
    hide_memory()
    adopt_orphans()
    try:
        _run(job_dir, order, spec, stop=stop, event_log=event_log)
    finally:
        # Also what an installer or a check of files has left running.
        end_descendants(grace_seconds=0.0)


def _run(
    job_dir: JobDir, order: Order, spec: ScriptSpec, *, stop: StopSignal, event_log: EventLog
) -> None:
    refuse_gap(order.script_confinement)
    places = ScriptPaths(job_dir.root / "script")
    places.prepare()
    event_log.enter(Phase.PREPARING)
    event_log.write(
        EventKind.RESOLVED, spec=spec.model_dump(mode="json"), environment=_describe(order)
    )
    snapshots = Snapshots(places.checkpoints_dir, job_dir.checkpoints_dir, event_log)
    program, bounds = _prepare(job_dir, order, spec, places=places, event_log=event_log)
    snapshots.begin(after=order.resume)
    gap = find_gap()
    if gap is not None:
        event_log.warning("no_landlock", gap)
    results = Results(job_dir, places.out_dir, event_log)
    supervisor = Supervisor(
        spec,
        places,
        event_log,
        stop,
        bounds=bounds,
        snapshots=snapshots,
        results=results,
        num_gpus=order.num_gpus,
        sensor_dirs=order.sensor_dirs,
    )
    event_log.enter(Phase.RUNNING)
    with stop.deferred():
        try:
            failure = supervisor.run(program)
        finally:
            verdicts: dict[str, ModelCheck] = {}
            if not stop.requested and results.models():
                bounds.places.prepare_tools()
                event_log.enter(Phase.VERIFYING)
                verdicts = check_models(results, bounds, event_log)
            results.close(verdicts)
    if stop.requested:
        raise Stopped
    if failure is not None:
        raise TrainingFailed.from_failure(failure)
    event_log.write(
        EventKind.RESULT,
        metrics=supervisor.told.metrics,
        timings={name: round(value, 3) for name, value in event_log.settle().items()},
    )


@dataclass
class Supervisor:
    """Runs one program to its end.

    Attributes:
        num_gpus: Number of GPUs that were leased for it.
        sensor_dirs: Folders of the driver's files for its GPUs.
        told: Metrics and progress that it reported.
    """

    spec: ScriptSpec
    places: ScriptPaths
    event_log: EventLog
    stop: StopSignal
    bounds: Bounds
    snapshots: Snapshots
    results: Results
    num_gpus: int = 0
    sensor_dirs: Sequence[str] = ()
    clock: Callable[[], float] = time.monotonic
    told: ScriptMetrics = field(init=False)
    _said: MetricLines = field(init=False)
    _events: EventFiles = field(init=False)
    _guard: GpuGuard | None = field(init=False)
    _disk: DiskUse = field(init=False)
    _shared: SharedFiles = field(default_factory=SharedFiles)
    _read_line: Callable[[str], None] | None = field(init=False)
    _lines: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_LINES))
    _kill_at: float | None = None
    _listened_at: float = 0.0
    _looked_at: float = 0.0

    def __post_init__(self) -> None:
        self.told = ScriptMetrics(self.event_log)
        self._said = MetricLines(self.places.events_path, self.told)
        self._events = EventFiles(self.places.out_dir)
        self._disk = DiskUse(self.places.root)
        pattern = self.spec.script.metrics_pattern
        self._read_line = None if pattern is None else line_reader(pattern, self.told)
        guard = self.spec.script.guard
        is_guarded = self.spec.resources.device == "gpu" and guard.action != "off"
        self._guard = GpuGuard(guard, read_sensors(self.sensor_dirs)) if is_guarded else None

    def run(self, program: Program) -> JobFailure | None:
        """Start the program and wait until all of its processes have ended.

        Returns:
            Why it failed; None if it did not.
        """
        oom_kills = _count_oom_kills()
        child, pump = self._start(program)
        failure = None
        try:
            failure = self._stay(child)
        finally:
            # A process that outlives the script, or a failure, does not belong to the job.
            num_left = end_descendants(
                grace_seconds=self._grace_left(failure),
                waited_for=child.pid,
                is_told=self.stop.requested,
            )
            status = child.wait()
            self._shared.remove()
            pump.finish(timeout_seconds=LEFTOVER_SECONDS)
        if num_left and failure is None and not self.stop.requested:
            text = f"the script left {num_left} processes running; they were ended"
            self.event_log.warning("processes_left", text)
        self._collect(is_over=True)
        self._report_dropped_metrics()
        return failure or explain_exit(
            status,
            tail=pump.tail(),
            oom_kills=_count_oom_kills() - oom_kills,
            has_gpu=self.num_gpus > 0,
        )

    def _grace_left(self, failure: JobFailure | None) -> float:
        """Return the remaining grace period of the program's processes.

        A shell that exits first must not cost its child's grace period.
        """
        if failure is not None:
            return 0.0
        if not self.stop.requested:
            return LEFTOVER_SECONDS
        if self._kill_at is None:
            return self.spec.script.grace_seconds
        return max(0.0, min(self._kill_at - self.clock(), self.spec.script.grace_seconds))

    def _start(self, program: Program) -> tuple["subprocess.Popen[bytes]", OutputPump]:
        pattern = self.spec.script.metrics_pattern
        source, target = os.pipe()
        leases = [int(n) for n in os.environ.get(LEASES_VARIABLE, "").split(",") if n]
        command = self.bounds.command(program.words)
        try:
            child = subprocess.Popen(
                command,
                cwd=self.places.code_dir,
                env=program.environ,
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=target,
                pass_fds=leases,
            )
        finally:
            os.close(target)
        if self.stop.requested:
            # The job was asked to stop before the child existed, so the child missed the signal.
            child.send_signal(signal.SIGTERM)
        on_line = None if pattern is None else self._lines.append
        return child, OutputPump(source, sys.stdout.fileno(), on_line=on_line)

    def _stay(self, child: "subprocess.Popen[bytes]") -> JobFailure | None:
        handle = os.pidfd_open(child.pid)
        try:
            while not select.select([handle], [], [], TICK_SECONDS)[0]:
                failure = self._tick(child)
                if failure is not None:
                    return failure
        finally:
            os.close(handle)
        return None

    def _tick(self, child: "subprocess.Popen[bytes]") -> JobFailure | None:
        now = self.clock()
        if self.stop.requested and self._kill_at is None:
            self._kill_at = now + self.spec.script.grace_seconds
            self._pass_on_sigterm(child.pid)
        if self._kill_at is not None and now >= self._kill_at:
            child.kill()
        if now >= self._listened_at + LISTEN_SECONDS:
            self._listened_at = now
            self._listen()
        if now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            failure = self._look()
            if failure is not None:
                return failure
        if self.event_log.is_progress_due():
            self.event_log.progress(self.told.progress())
        return None

    def _look(self) -> JobFailure | None:
        found = find_descendants(os.getpid())
        self._collect(pids=found.pids)
        limits = self.spec.script.limits
        used = self._disk.look() + self._shared.look(found.pids)
        problem = None
        if limits.memory_bytes is not None and found.memory_bytes > limits.memory_bytes:
            problem = (
                f"used {found.memory_bytes} bytes of main memory, but script.limits.memory_bytes "
                f"is {limits.memory_bytes}"
            )
        elif found.num_threads > limits.processes:
            problem = (
                f"had {found.num_threads} processes and threads, but script.limits.processes is "
                f"{limits.processes}"
            )
        elif used > limits.disk_bytes:
            problem = (
                f"used {used} bytes of disk space, but script.limits.disk_bytes is "
                f"{limits.disk_bytes}"
            )
        if problem is not None:
            message = f"the script was ended because it {problem}"
            return JobFailure.of(FailureCode.OVER_LIMIT, message)
        return self._check_gpu()

    def _check_gpu(self) -> JobFailure | None:
        if self._guard is None:
            return None
        problem = self._guard.look(torch_bytes=self._said.gpu_bytes)
        if problem is None:
            return None
        if self._guard.guard.action == "warn" or not self._guard.is_sure:
            self.event_log.warning("gpu_unused", problem)
            return None
        return JobFailure.of(FailureCode.GPU_UNUSED, problem)

    def _collect(self, *, pids: tuple[int, ...] = (), is_over: bool = False) -> None:
        """Read what the script has logged and written since the last time."""
        self._listen()
        for name, step, value in self._events.read():
            # Such a file is written minutes after what is logged in other ways.
            at = max(step, self.told.step)
            self.told.say({name: value}, places={"step": at}, of_step=step)
        self.results.look(pids, is_over=is_over)
        self.snapshots.look(pids, step=self.told.step, is_over=is_over)
        if is_over:
            self.event_log.progress(self.told.progress())

    def _listen(self) -> None:
        self._said.read()
        if self._read_line is not None:
            while self._lines:
                self._read_line(self._lines.popleft())

    def _pass_on_sigterm(self, child_pid: int) -> None:
        """Send SIGTERM to descendants outside this process group; the group has received it."""
        group = os.getpgrp()
        for pid in {child_pid, *find_descendants(os.getpid()).pids}:
            try:
                if os.getpgid(pid) != group:
                    os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue  # it has ended meanwhile

    def _report_dropped_metrics(self) -> None:
        if self.told.num_dropped:
            text = (
                f"{self.told.num_dropped} metrics were dropped: they were not finite numbers, or "
                "there were too many series"
            )
            self.event_log.message(text)


def _prepare(
    job_dir: JobDir, order: Order, spec: ScriptSpec, *, places: ScriptPaths, event_log: EventLog
) -> tuple[Program, Bounds]:
    cache_dir = order.paths.cache_dir
    # First: no code of the user has run yet that could have left links in these folders.
    caches = build_caches(os.environ, places=places, cache_dir=cache_dir)
    if order.bundle_path is not None:
        bundle = Path(order.bundle_path)
        beat = Heartbeat(event_log.message, "unpacking the code").beat
        unpack(bundle, places.code_dir, what="code bundle", max_bytes=MAX_CODE_BYTES, beat=beat)
    data = open_data(
        order.dataset,
        cache_dir=cache_dir,
        max_bytes=order.limits.script_cache_bytes,
        say=event_log.message,
    )
    if order.resume is not None:
        beat = Heartbeat(event_log.message, "restoring the script's checkpoints").beat
        restore(job_dir.checkpoints_dir / order.resume, places.checkpoints_dir, beat=beat)
        event_log.message(f"the script's checkpoints are restored ({order.resume})")
    environment = build_environment(
        spec.script.requirements,
        cache_dir=cache_dir,
        places=places,
        say=event_log.message,
        max_bytes=order.limits.script_cache_bytes,
        code_digest=spec.script.bundle or "",
        confine=lambda command, folder: Bounds(
            places, spec.script.limits, writable=[folder]
        ).command(command),
    )
    settings = merge_settings(order.patches)
    program = build_program(
        spec,
        places=places,
        environment=environment,
        data=data,
        is_resumed=order.resume is not None,
        num_gpus=order.num_gpus,
        torch_settings=json.dumps(settings) if settings else None,
        environ={**os.environ, **caches.environ},
    )
    readable = [path for path in (data, environment.folder) if path is not None]
    bounds = Bounds(
        places,
        spec.script.limits,
        readable=[*readable, *caches.readable],
        writable=caches.writable,
    )
    return program, bounds


def _describe(order: Order) -> dict[str, object]:
    """Describe what the script runs on, without opening a device."""
    return {
        "redkiln": __version__,
        "device": order.device,
        "gpus": order.num_gpus,
        "threads": order.threads,
        "patches": [outcome.model_dump(exclude_defaults=True) for outcome in order.patches],
    }


def _count_oom_kills(path: Path = Path("/proc/vmstat")) -> int:
    for line in path.read_text().splitlines():
        name, _, count = line.partition(" ")
        if name == "oom_kill":
            return int(count)
    return 0
