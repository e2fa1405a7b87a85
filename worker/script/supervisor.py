"""Runs a script's program and watches it until all of its processes have ended."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from redkiln.failure import FailureCode, JobFailure
from worker.jobdir import LEASES_VARIABLE
from worker.process.event_log import EventLog
from worker.process.lifetime import StopSignal
from worker.process.oom import count_oom_kills
from worker.script.bounds.bounds import Bounds
from worker.script.bounds.first_process import FirstProcessPipe
from worker.script.bounds.gpu_guard import GpuGuard
from worker.script.bounds.limits import LimitWatch
from worker.script.bounds.processes import end_descendants, find_descendants
from worker.script.ending import explain_exit
from worker.script.metrics.output import OutputPump
from worker.script.metrics.sources import MetricSources
from worker.script.program.program import Program
from worker.script.results.results import Results
from worker.script.results.snapshots import Snapshots

TICK_SECONDS = 0.05
LISTEN_SECONDS = 0.5
LOOK_SECONDS = 1.0
LEFTOVER_SECONDS = 2.0
"""Grace period for processes that a script leaves running when it ends."""


@dataclass
class Supervisor:
    """Runs one program to its end.

    Attributes:
        grace_seconds: Time from SIGTERM until the program is killed.
        sources: Sources of its metrics.
        limits: Whether it keeps to its limits.
        guard: Whether it uses its GPU; None if nobody asked.
        results: Its output files.
        snapshots: Its checkpoints.
        has_gpu: Whether a GPU was leased for it.
    """

    event_log: EventLog
    stop: StopSignal
    bounds: Bounds
    grace_seconds: float
    sources: MetricSources
    limits: LimitWatch
    guard: GpuGuard | None
    results: Results
    snapshots: Snapshots
    has_gpu: bool = False
    clock: Callable[[], float] = time.monotonic
    _report: FirstProcessPipe | None = None
    _kill_at: float | None = None
    _listened_at: float = 0.0
    _looked_at: float = 0.0

    def run(self, program: Program) -> JobFailure | None:
        """Start the program and wait until all of its processes have ended.

        Returns:
            Why it failed; None if it did not.
        """
        oom_kills = count_oom_kills()
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
            end = self._report.read_end() if self._report else None
            self.limits.remove_shared()
            pump.finish(timeout_seconds=LEFTOVER_SECONDS)
        if end is not None:
            status, num_left = end.status, end.left
        if num_left and failure is None and not self.stop.requested:
            text = f"the script left {num_left} processes running; they were ended"
            self.event_log.warning("processes_left", text)
        self._collect(is_over=True)
        self.sources.report_dropped()
        return failure or explain_exit(
            status,
            tail=pump.tail(),
            oom_kills=count_oom_kills() - oom_kills,
            has_gpu=self.has_gpu,
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
            return self.grace_seconds
        return max(0.0, min(self._kill_at - self.clock(), self.grace_seconds))

    def _start(self, program: Program) -> tuple["subprocess.Popen[bytes]", OutputPump]:
        source, target = os.pipe()
        report = self._report = FirstProcessPipe() if self.bounds.has_sandbox else None
        report_fds = [report.target] if report else []
        leases = [int(n) for n in os.environ.get(LEASES_VARIABLE, "").split(",") if n]
        command = self.bounds.command(program.words, report=report.target if report else None)
        try:
            child = subprocess.Popen(
                command,
                cwd=self.bounds.paths.code_dir,
                env=program.environ,
                stdin=subprocess.DEVNULL,
                stdout=target,
                stderr=target,
                pass_fds=[*leases, *report_fds, *self.bounds.descriptors],
            )
        finally:
            os.close(target)
            if report:
                report.close_target()
        if self.stop.requested:
            # The job was asked to stop before the child existed, so the child missed the signal.
            child.kill()
        return child, OutputPump(source, sys.stdout.fileno(), on_line=self.sources.on_line)

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
            has_begun = self._report is None or self._report.has_begun()
            self._kill_at = now + self.grace_seconds if has_begun else now
            self._pass_on_sigterm(child.pid)
        if self._kill_at is not None and now >= self._kill_at:
            child.kill()
        if now >= self._listened_at + LISTEN_SECONDS:
            self._listened_at = now
            self.sources.read_logged()
        if now >= self._looked_at + LOOK_SECONDS:
            self._looked_at = now
            failure = self._look()
            if failure is not None:
                return failure
        if self.event_log.is_progress_due():
            self.sources.report_progress()
        return None

    def _look(self) -> JobFailure | None:
        found = find_descendants(os.getpid())
        self._collect(pids=found.pids)
        return self.limits.check(found) or self._check_gpu()

    def _check_gpu(self) -> JobFailure | None:
        if self.guard is None:
            return None
        problem = self.guard.look(torch_bytes=self.sources.gpu_bytes)
        if problem is None:
            return None
        if self.guard.guard.action == "warn" or not self.guard.is_sure:
            self.event_log.warning("gpu_unused", problem)
            return None
        return JobFailure.of(FailureCode.GPU_UNUSED, problem)

    def _collect(self, *, pids: tuple[int, ...] = (), is_over: bool = False) -> None:
        """Read what the script has logged and written since the last time."""
        self.sources.read_all()
        self.results.look(pids, is_over=is_over)
        self.snapshots.look(pids, step=self.sources.metrics.last_step, is_over=is_over)
        if is_over:
            self.sources.report_progress()

    def _pass_on_sigterm(self, child_pid: int) -> None:
        """Send SIGTERM to descendants outside this process group; the group has received it."""
        group = os.getpgrp()
        for pid in {child_pid, *find_descendants(os.getpid()).pids}:
            try:
                if os.getpgid(pid) != group:
                    os.kill(pid, signal.SIGTERM)
            except ProcessLookupError:
                continue  # it has ended meanwhile
