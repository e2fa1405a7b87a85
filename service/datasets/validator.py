"""Runs the inspections in threads that each watch one inspecting process at a time.

It inspects the data sets that are `validating` in the database, so a restarted service continues
where the previous one was killed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import structlog
from sqlmodel import Session

from redkiln.tables import TableOptions
from redkiln.views.dataset import DatasetProblem, DatasetStatus
from service.database import Database
from service.datasets.fair_queue import FairQueue, Waiting
from service.datasets.inspect.limits import Limits
from service.datasets.inspect.order import Order
from service.datasets.inspect.report import INDEX, InspectionReport, Refused, problem, refuse
from service.datasets.models import Dataset
from service.datasets.roots import locate
from service.datasets.rules import list_unsettled, settle
from service.errors import Gone, ServiceError, StorageFull, Unavailable, Unprocessable
from service.settings import Settings
from service.storage import Storage, Stored

log = structlog.get_logger()

OnSettled = Callable[[Session, Dataset], None]
"""Called in the transaction that makes a data set ready or invalid."""

_SOURCE_DIR = Path(__file__).parents[2]
_MAX_REPORT_BYTES = 32 * 1024**2
_RETRY_SECONDS = 5.0
_WALL_SECONDS = 6 * 3600.0
"""Most time of an inspection; that of an upload depends on its size, too: see `bound_seconds`."""
_LEAST_WALL_SECONDS = 900.0
_SLOWEST_BYTES_PER_SECOND = 128 * 1024
"""A hundredth of what small images take on one core of 2020."""
_LARGE_BYTES = 64 * 1024**2
_LEAST_TURN_SECONDS = 60.0
_SLOW_BYTES_PER_SECOND = 1024**2
"""A tenth of what small images take; an upload below it has not ended with its first turn."""
_LOOK_SECONDS = 1.0
_STDERR_TAIL = 4000
_GAVE_UP = "the inspection failed inside the service (see its log); register the data set again"


class _TookLong(Exception):  # noqa: N818  # it names an outcome
    """The inspection begins again later, because others of its project wait."""


class Validator:
    """Inspects registered data sets in the background.

    Args:
        database: Database with the data sets.
        storage: Storage of the archives and indexes.
        settings: Settings with the data roots.
        on_settled: Function called for every data set that became ready or invalid.
        limits: Limits of each inspection.
        num_threads: Number of parallel inspections; see `FairQueue` for how projects share them.
    """

    def __init__(
        self,
        database: Database,
        storage: Storage,
        settings: Settings,
        *,
        on_settled: OnSettled = lambda _session, _dataset: None,
        limits: Limits | None = None,
        num_threads: int = 4,
    ) -> None:
        self._database = database
        self._storage = storage
        self._settings = settings
        self._on_settled = on_settled
        self._limits = limits or Limits()
        self._waiting = FairQueue(num_threads)
        self._closing = threading.Event()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        # A child dies with the thread that started it, so the threads live as long as the service.
        self._threads = [
            threading.Thread(target=self._run, name=f"validator-{number}", daemon=True)
            for number in range(num_threads)
        ]

    def start(self) -> None:
        """Inspect all data sets that still need it, and wait for more."""
        for dataset in self._database.read(list_unsettled):
            self.submit(dataset)
        for thread in self._threads:
            thread.start()

    def submit(self, dataset: Dataset) -> None:
        """Inspect a data set soon; its row must be committed."""
        is_large = dataset.size_bytes is None or dataset.size_bytes > _LARGE_BYTES
        self._waiting.put(Waiting(dataset.id, dataset.project, is_large))

    def close(self) -> None:
        """Stop; the next start repeats the inspections in progress."""
        self._closing.set()
        with self._lock:
            for child in self._children:
                _kill(child)
        self._waiting.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(timeout=10)

    def _run(self) -> None:
        while (item := self._waiting.take()) is not None:
            with structlog.contextvars.bound_contextvars(dataset_id=item.dataset_id):
                try:
                    self._validate(item)
                except _TookLong:
                    log.info("validation_postponed")
                    self._waiting.put(Waiting(item.dataset_id, item.project, is_large=True))
                except Unavailable as error:
                    log.warning("validation_delayed", error=str(error))
                    self._closing.wait(_RETRY_SECONDS)
                    self._waiting.put(item)
                except Exception:
                    log.exception("validation_failed")
                    self._give_up(item.dataset_id)
                finally:
                    self._waiting.done(item)

    def _validate(self, item: Waiting) -> None:
        dataset_id = item.dataset_id
        dataset = self._database.read(lambda session: session.get(Dataset, dataset_id))
        if dataset is None or dataset.status != DatasetStatus.VALIDATING:
            return
        work_dir = Path(tempfile.mkdtemp(prefix="inspect-", dir=self._storage.work_dir))
        try:
            report = self._inspect(dataset, work_dir, item)
            if self._closing.is_set():
                return
            index = None if report.errors else self._storage.put_file(work_dir / INDEX)
            self._settle(dataset_id, report, index)
        finally:
            shutil.rmtree(work_dir, ignore_errors=True)

    def _inspect(self, dataset: Dataset, work_dir: Path, item: Waiting) -> InspectionReport:
        try:
            if dataset.kind == "folder":
                located = locate(str(dataset.path), self._settings.data_roots)
                below = list(located.below)
                return self._inspect_path(dataset, work_dir, item, path=located.root, below=below)
            with self._storage.local_copy(str(dataset.sha256)) as path:
                return self._inspect_path(dataset, work_dir, item, path=path.absolute(), below=[])
        except (Refused, Gone, StorageFull, Unprocessable) as error:
            return InspectionReport(errors=_as_problems(error))

    def _inspect_path(
        self, dataset: Dataset, work_dir: Path, item: Waiting, *, path: Path, below: list[str]
    ) -> InspectionReport:
        order = Order(
            kind="folder" if dataset.kind == "folder" else "archive",
            path=str(path),
            below=below,
            seed=dataset.seed,
            options=TableOptions.model_validate(dataset.options),
            num_processes=min(8, len(os.sched_getaffinity(0))),
            parent_pid=os.getpid(),
            limits=self._limits,
        )
        order_path = work_dir / "order.json"
        order_path.write_text(order.model_dump_json())
        returncode = self._run_child(order_path, item, size_bytes=dataset.size_bytes)
        report_path = work_dir / "report.json"
        if returncode == 0 and report_path.stat().st_size <= _MAX_REPORT_BYTES:
            return InspectionReport.model_validate_json(report_path.read_bytes())
        tail = (work_dir / "stderr").read_bytes()[-_STDERR_TAIL:].decode(errors="replace")
        if not self._closing.is_set():
            log.error("inspection_died", returncode=returncode, stderr=tail)
        raise explain_death(returncode)

    def _run_child(self, order_path: Path, item: Waiting, *, size_bytes: int | None) -> int:
        # A separate session, so that its decoding processes end with it; a clean environment.
        environment = {"PATH": os.defpath, "PYTHONPATH": str(_SOURCE_DIR), "LANG": "C.UTF-8"}
        command = [sys.executable, "-m", "service.datasets.inspect", str(order_path.absolute())]
        with (order_path.parent / "stderr").open("wb") as stderr:
            with self._lock:
                if self._closing.is_set():
                    return -signal.SIGTERM
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stderr,
                    stderr=stderr,
                    env=environment,
                    cwd=order_path.parent,
                    start_new_session=True,
                )
                self._children.add(child)
            try:
                return self._wait_for(child, item, size_bytes)
            finally:
                with self._lock:
                    _kill(child)
                    self._children.discard(child)

    def _wait_for(
        self, child: "subprocess.Popen[bytes]", item: Waiting, size_bytes: int | None
    ) -> int:
        deadline = time.monotonic() + bound_seconds(size_bytes)
        turn_seconds = bound_turn_seconds(size_bytes)
        while (left := deadline - time.monotonic()) > 0:
            try:
                return child.wait(timeout=min(left, turn_seconds))
            except subprocess.TimeoutExpired:
                if not self._waiting.may_continue(item):
                    raise _TookLong from None
                turn_seconds = _LOOK_SECONDS
        return -signal.SIGXCPU

    def _settle(self, dataset_id: str, report: InspectionReport, index: Stored | None) -> None:
        def write(session: Session) -> None:
            dataset = settle(session, dataset_id, report=report, index=index)
            if dataset is not None:
                self._on_settled(session, dataset)

        self._database.write(write)
        log.info("dataset_inspected", is_valid=index is not None, num_errors=len(report.errors))

    def _give_up(self, dataset_id: str) -> None:
        report = InspectionReport(errors=[problem("internal", _GAVE_UP)])
        try:
            self._settle(dataset_id, report, None)
        except ServiceError:
            log.exception("validation_left_open")


def bound_seconds(size_bytes: int | None) -> float:
    """Return how long an inspection may take.

    A hostile upload costs at most about a hundred times what an honest one of its size does.

    Args:
        size_bytes: Size of the upload; None for a folder, whose size is not known yet.
    """
    if size_bytes is None:
        return _WALL_SECONDS
    return min(_WALL_SECONDS, _LEAST_WALL_SECONDS + size_bytes / _SLOWEST_BYTES_PER_SECOND)


def bound_turn_seconds(size_bytes: int | None) -> float:
    """Return after which time an inspection counts as a long one.

    An upload that is small and slow then no longer keeps other small ones of its project waiting.
    """
    return _LEAST_TURN_SECONDS + (size_bytes or 0) / _SLOW_BYTES_PER_SECOND


def explain_death(returncode: int) -> Refused:
    """Return why an inspecting process ended without a report."""
    if returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        message = "the inspection used more time or memory than allowed; split the data set"
        return refuse("limits_exceeded", message)
    if returncode == -signal.SIGPROF:
        message = (
            "an image takes far too long to decode; look for damaged files, or save them again"
        )
        return refuse("image_bomb", message)
    if returncode < 0:
        message = "a file crashed its decoder; look for damaged files"
        return refuse("decoder_died", message)
    return refuse("internal", _GAVE_UP)


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Kill a child with all its processes; those of an ended child end by themselves."""
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def _as_problems(error: Exception) -> list[DatasetProblem]:
    if isinstance(error, Refused):
        return list(error.problems)
    code = error.code if isinstance(error, ServiceError) else "internal"
    return [problem(code, str(error))]
