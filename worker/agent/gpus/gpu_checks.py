"""A thread that watches excluded and untested GPUs until they can be used."""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic import ValidationError

from redkiln.views.self_test import SelfTestReport
from worker.agent.attempt.spool import read_tail
from worker.agent.children.children import Spawner
from worker.agent.gpus.pool import GpuPool
from worker.hardware.facts.driver import read_driver_version
from worker.hardware.health.health import GpuRecord, is_due, is_held, name_versions
from worker.hardware.health.selftest_cache import select_settings
from worker.hardware.health.selftest_words import find_last_test, is_fused_attention
from worker.hardware.health.verdicts import SelfTestVerdict, avoids_hipblaslt, judge_report
from worker.hardware.kernel_cache import LONGEST_SEARCH_SECONDS, list_files
from worker.hardware.leases import GpuLease
from worker.hardware.patches.kernel_caches import find_folders
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

ROUND_SECONDS = 1.0
QUIET_SECONDS = 900.0
"""A test that compiles nothing for this long hangs. Kernels that this machine has never used are
compiled first: without a stored result MIOpen searches for each shape.

Source: pytorch/pytorch#145294 (read 2026-11-24).
"""
UNASKED = ""
"""Versions of a GPU that was never leased; no self-test has passed with them."""


class TimeLimit:
    """How long a self-test may run: longer while files of kernels appear or change.

    Args:
        folders: Folders of compiled kernels, which may not exist yet.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._seen = list_files(self._folders)
        self._quiet_seconds = 0.0
        self._seconds = 0.0

    def is_over(self, waited_seconds: float) -> bool:
        """Add time, and return whether the test hangs."""
        self._seconds += waited_seconds
        self._quiet_seconds += waited_seconds
        if self._quiet_seconds < QUIET_SECONDS:
            return False
        before, self._seen = self._seen, list_files(self._folders)
        if self._seen == before or self._seconds >= LONGEST_SEARCH_SECONDS:
            return True
        self._quiet_seconds = 0.0
        return False

    def announce(self) -> str:
        """Describe before the test how long it may take."""
        num, quiet, longest = len(self._seen), QUIET_SECONDS / 60, LONGEST_SEARCH_SECONDS / 60
        return (
            f"It first compiles the kernels that are missing; {num} file{'' if num == 1 else 's'} "
            f"of kernels exist{'s' if num == 1 else ''}. It is ended if no such file changes for "
            f"{quiet:.0f} minutes, and after {longest:.0f} minutes at the latest."
        )

    def describe(self) -> str:
        """Describe why the test was ended."""
        return f"it did not finish within {self._seconds:.0f} s and was ended"


@dataclass(frozen=True)
class SelfTest:
    """Runs the self-test of one GPU in a child that sees only that GPU.

    Attributes:
        environment: Builds the environment of the GPU's trainers, so that the test uses the same
            kernels.
    """

    settings: WorkerSettings
    spawner: Spawner
    working_dir: Path
    environment: Callable[[], Mapping[str, str]]
    torch_version: str | None = None
    rocm_version: str | None = None

    @property
    def versions(self) -> str:
        """The versions and settings for which a result is valid."""
        settings = sorted(select_settings(self.environment()).items())
        named = ",".join(f"{name}={value}" for name, value in settings)
        return name_versions(self.torch_version, self.rocm_version, read_driver_version(), named)

    def announce(self) -> str:
        """Describe before the test how long it may take, with the number of files of kernels."""
        return TimeLimit(find_folders(self.environment())).announce()

    def judge(self, lease: GpuLease, *, again: bool, stopping: threading.Event) -> SelfTestVerdict:
        """Test the GPU and judge the report.

        A patch that avoids a library reads the report, so the trainers' environment may differ
        after the first test; then the test is repeated once.

        Raises:
            OSError: No process could be started.
        """
        verdict = judge_report(self.run(lease, again=again, stopping=stopping))
        if verdict.action == "switch_blas" and avoids_hipblaslt(self.environment()):
            verdict = judge_report(self.run(lease, again=again, stopping=stopping))
        return verdict

    def run(self, lease: GpuLease, *, again: bool, stopping: threading.Event) -> SelfTestReport:
        """Test the GPU, and test it again without fused attention if that was its end.

        The kernels of fused attention are experimental on some GPUs, and jobs do without them.

        Args:
            lease: Lease of the GPU.
            again: Ignore cached results.
            stopping: Ends the test early when set.

        Raises:
            OSError: No process could be started.
        """
        more = ["--again"] if again else []
        report = self._run_child(lease, more, stopping)
        if report.status != "error" or stopping.is_set():
            return report
        last = find_last_test(read_tail(self._log_path(lease)))
        if last is None or not is_fused_attention(last):
            return report
        log.warning("testing a gpu again without fused attention", gpu=lease.key, died=last)
        death = f"{last.strip()}: {report.cause}"
        return self._run_child(lease, ["--again", "--without-fused-attention", death], stopping)

    def _log_path(self, lease: GpuLease) -> Path:
        return self.settings.worker_dir / f"selftest-{lease.key}.log"

    def _run_child(
        self, lease: GpuLease, more: Sequence[str], stopping: threading.Event
    ) -> SelfTestReport:
        """Test the GPU in a child that holds its lease for as long as it lives."""
        report_path = self.settings.worker_dir / f"selftest-{lease.key}.json"
        log_path = self._log_path(lease)
        options = ["--json", "--device", "cuda:0", "--cache-dir", str(self.settings.selftest_dir)]
        environment = self.environment()
        limit = TimeLimit(find_folders(environment))
        with report_path.open("wb") as report, log_path.open("wb") as output:
            child = self.spawner.spawn(
                [*self.settings.selftest_command, *options, *more],
                environment=environment,
                working_dir=self.working_dir,
                stdout=report,
                stderr=output,
                inherited=[lease.fileno()],
            )
        is_over = False
        while not child.wait(ROUND_SECONDS) and not stopping.is_set() and not is_over:
            is_over = limit.is_over(ROUND_SECONDS)
        status = child.reap()
        try:
            return SelfTestReport.model_validate_json(report_path.read_bytes())
        except ValidationError:
            last = read_tail(log_path).strip().splitlines()[-1:]
            end = limit.describe() if is_over else f"it exited with status {status}"
            cause = f"{end}; last output: {' '.join(last)[:500] or 'none'}"
            at = datetime.now(UTC)
            return SelfTestReport(at=at, device="cuda:0", status="error", cause=cause)


class GpuChecks:
    """Tests GPUs with new versions, and checks whether excluded GPUs can be used again.

    Args:
        pool: The host's GPUs.
        tests: Self-tests of the GPUs that this worker may use, by key; others are never tested.
        on_change: Called when a GPU was included or excluded.
    """

    def __init__(
        self, pool: GpuPool, tests: Mapping[str, SelfTest], *, on_change: Callable[[], None]
    ) -> None:
        self._pool = pool
        self._tests = tests
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-checks", daemon=True)
        pool.versions.update(dict.fromkeys(tests, UNASKED))

    def start(self) -> None:
        """Start checking the GPUs."""
        self._thread.start()

    def stop(self) -> None:
        """Stop checking; ends a test that is running."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Check each GPU that needs it once.

        Raises:
            OSError: A record could not be written.
        """
        for key, gpu in self._pool.gpus.items():
            record = self._pool.health.load(key)
            if gpu.excluded is not None or self._stopping.is_set():
                continue
            if record.needs == "memory" and is_due(record, now=datetime.now(UTC)):
                self._check_memory(key, record)
            elif key in self._tests and self._needs_test(key, record):
                self._test(key)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.look()
            except Exception:  # a full disk, for instance; the next round may succeed
                log.exception("checking the gpus failed")
            self._stopping.wait(ROUND_SECONDS)

    def _needs_test(self, key: str, record: GpuRecord) -> bool:
        if record.excluded is not None:
            return record.needs == "self_test" and is_due(record, now=datetime.now(UTC))
        return self._pool.versions[key] not in record.tested

    def _check_memory(self, key: str, record: GpuRecord) -> None:
        if is_held(self._pool.measure(key), limit_bytes=record.limit_bytes):
            checked = record.model_copy(update={"checked_at": datetime.now(UTC)})
            self._pool.health.save(key, checked)
            return
        log.info("gpu included again: its memory is free", gpu=key)
        self._pool.health.save(key, record.readmit())
        self._on_change()

    def _test(self, key: str) -> None:
        lease = self._pool.take_any(key)
        if lease is None:
            return  # another process uses or tests it
        try:
            self._test_leased(key, lease)
        finally:
            lease.close()
        self._on_change()  # the lease is released, so the GPU can be claimed

    def _test_leased(self, key: str, lease: GpuLease) -> None:
        if self._pool.versions[key] == UNASKED:
            # Computing the versions may start a child that tries an override on this GPU.
            self._pool.versions[key] = self._tests[key].versions
        record = self._pool.health.load(key)
        if not self._needs_test(key, record):
            return  # it has passed before, or another worker has tested it meanwhile
        again = record.excluded is not None
        self._pool.announced[key] = self._tests[key].announce()
        log.info("testing a gpu", gpu=key, limits=self._pool.announced[key])
        verdict = self._tests[key].judge(lease, again=again, stopping=self._stopping)
        if not self._stopping.is_set():
            self._on_event(key, record, verdict)

    def _on_event(self, key: str, record: GpuRecord, verdict: SelfTestVerdict) -> None:
        if verdict.exclusion is None:
            log.info("gpu passed its self-test", gpu=key, without=verdict.reason or None)
            versions = self._pool.versions[key]
            self._pool.health.save(key, record.admit(versions, denied=verdict.denied))
        else:
            self._pool.exclude(key, verdict.exclusion, needs="self_test")
