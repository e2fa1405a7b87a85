"""Looking after GPUs that are excluded or untested, in a thread of its own, until they are well."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from pydantic import ValidationError

from redkiln.hardware import SelfTestReport
from worker.agent.children import Spawner
from worker.agent.grants import GpuPark
from worker.agent.spool import read_tail
from worker.hardware.driver import read_driver_version
from worker.hardware.health import (
    GpuRecord,
    is_due,
    is_held,
    name_versions,
)
from worker.hardware.leases import GpuLease
from worker.hardware.selftest_cache import select_settings
from worker.hardware.verdicts import Verdict, avoids_hipblaslt, judge_report
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

ROUND_SECONDS = 1.0
TEST_SECONDS = 900.0
"""Kernels that were never used on this machine are compiled first, which takes minutes."""
UNASKED = ""
"""Versions of a GPU that was not leased yet; nothing has passed its self-test under them."""


@dataclass(frozen=True)
class SelfTest:
    """Runs the self-test of one GPU in a child that sees it alone.

    Attributes:
        environment: that of the GPU's trainers, so that the same kernels are tested.
    """

    settings: WorkerSettings
    spawner: Spawner
    working_dir: Path
    environment: Callable[[], Mapping[str, str]]
    torch_version: str | None = None
    hip_version: str | None = None

    @property
    def versions(self) -> str:
        """Under what its result counts."""
        settings = sorted(select_settings(self.environment()).items())
        named = ",".join(f"{name}={value}" for name, value in settings)
        return name_versions(self.torch_version, self.hip_version, read_driver_version(), named)

    def judge(self, lease: GpuLease, *, again: bool, stopping: threading.Event) -> Verdict:
        """Test the GPU, and decide; once more if its trainers get other variables since.

        A patch that avoids a library reads what the test found, so that the environment may be
        another one after it.

        Raises:
            OSError: no process could be started.
        """
        verdict = judge_report(self.run(lease, again=again, stopping=stopping))
        if verdict.action == "switch_blas" and avoids_hipblaslt(self.environment()):
            verdict = judge_report(self.run(lease, again=again, stopping=stopping))
        return verdict

    def run(self, lease: GpuLease, *, again: bool, stopping: threading.Event) -> SelfTestReport:
        """Test the GPU, which the child holds as long as it lives.

        Args:
            lease: of the GPU.
            again: whatever was found before.
            stopping: ends the test early.

        Raises:
            OSError: no process could be started.
        """
        report_path = self.settings.worker_dir / f"selftest-{lease.key}.json"
        log_path = self.settings.worker_dir / f"selftest-{lease.key}.log"
        options = ["--json", "--device", "cuda:0", "--cache-dir", str(self.settings.selftest_dir)]
        with report_path.open("wb") as report, log_path.open("wb") as output:
            child = self.spawner.spawn(
                [*self.settings.selftest_command, *options, *(["--again"] if again else [])],
                environment=self.environment(),
                working_dir=self.working_dir,
                stdout=report,
                stderr=output,
                inherited=[lease.fileno()],
            )
        waited = 0.0
        while not child.wait(ROUND_SECONDS) and waited < TEST_SECONDS and not stopping.is_set():
            waited += ROUND_SECONDS
        status = child.reap()
        try:
            return SelfTestReport.model_validate_json(report_path.read_bytes())
        except ValidationError:
            last = read_tail(log_path).strip().splitlines()[-1:]
            cause = f"it ended with status {status} and said: {' '.join(last)[:500] or 'nothing'}"
            at = datetime.now(UTC)
            return SelfTestReport(at=at, device="cuda:0", status="error", cause=cause)


class GpuChecks:
    """Brings GPUs in, and back: a self-test for new versions, another look at what is excluded.

    Args:
        park: the host's GPUs.
        tests: of those that this worker may use, by key; without one a GPU is never tested.
        on_change: called when a GPU was taken in or out.
    """

    def __init__(
        self, park: GpuPark, tests: Mapping[str, SelfTest], *, on_change: Callable[[], None]
    ) -> None:
        self._park = park
        self._tests = tests
        self._on_change = on_change
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gpu-checks", daemon=True)
        park.versions.update(dict.fromkeys(tests, UNASKED))

    def start(self) -> None:
        """Look at the GPUs from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; a test that runs is ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> None:
        """Look once at each GPU that needs it.

        Raises:
            OSError: a record could not be written.
        """
        for key, gpu in self._park.gpus.items():
            record = self._park.health.load(key)
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
            except Exception:  # a full disk, say: the next round may do better
                log.exception("looking after the GPUs broke off")
            self._stopping.wait(ROUND_SECONDS)

    def _needs_test(self, key: str, record: GpuRecord) -> bool:
        if record.excluded is not None:
            return record.needs == "self_test" and is_due(record, now=datetime.now(UTC))
        return self._park.versions[key] not in record.tested

    def _check_memory(self, key: str, record: GpuRecord) -> None:
        if is_held(self._park.measure(key), limit_bytes=record.limit_bytes):
            checked = record.model_copy(update={"checked_at": datetime.now(UTC)})
            self._park.health.save(key, checked)
            return
        log.info("gpu taken in again: its memory is free", gpu=key)
        self._park.health.save(key, record.readmit())
        self._on_change()

    def _test(self, key: str) -> None:
        lease = self._park.take_any(key)
        if lease is None:
            return  # somebody uses it, or tests it
        try:
            self._test_leased(key, lease)
        finally:
            lease.close()
        self._on_change()  # now that it can be taken

    def _test_leased(self, key: str, lease: GpuLease) -> None:
        if self._park.versions[key] == UNASKED:
            # The answer may take a child that tries an override on this GPU.
            self._park.versions[key] = self._tests[key].versions
        record = self._park.health.load(key)
        if not self._needs_test(key, record):
            return  # it has passed before, or another worker was faster
        again = record.excluded is not None
        verdict = self._tests[key].judge(lease, again=again, stopping=self._stopping)
        if not self._stopping.is_set():
            self._heed(key, record, verdict)

    def _heed(self, key: str, record: GpuRecord, verdict: Verdict) -> None:
        if verdict.exclusion is None:
            log.info("gpu passed its self-test", gpu=key, without=verdict.reason or None)
            versions = self._park.versions[key]
            self._park.health.save(key, record.admit(versions, denied=verdict.denied))
        else:
            self._park.exclude(key, verdict.exclusion, needs="self_test")
