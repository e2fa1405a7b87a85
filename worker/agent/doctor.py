"""Runs the doctor in a child at regular intervals and reports what it found.

It runs in a child because opening /dev/kfd ties a process to the driver for as long as it lives.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import structlog
from pydantic import ValidationError

from redkiln.redaction import SECRET_NAME
from redkiln.views.doctor import DoctorReport
from worker.agent.children.children import Spawner
from worker.agent.inventory import Inventory
from worker.hardware.health.death_book import NAME as DEATHS
from worker.hardware.health.fault_book import NAME as FAULTS

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-m", "worker.hardware", "doctor")
FIRST_SECONDS = 10.0
"""Delay after the start, so that a user who waits for the first job is not slowed down."""
PERIOD_SECONDS = 600.0
CHANGE_SECONDS = 30.0
"""How often to check whether a trainer has died or a part has failed, which is a reason to run the
doctor at once."""
LOOK_SECONDS = 120.0


class DoctorRounds:
    """A thread that runs the doctor and passes on its reports.

    Args:
        worker_dir: Folder with the record of trainers' deaths.
        inventory: Torch's version and devices, so that the doctor need not import torch.
        report: Receives each report.
        command: Command that prints a report as JSON.
    """

    def __init__(
        self,
        spawner: Spawner,
        *,
        worker_dir: Path,
        inventory: Inventory,
        report: Callable[[DoctorReport], None],
        source_dir: Path,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._spawner = spawner
        self._worker_dir = worker_dir
        self._inventory = inventory
        self._report = report
        self._source_dir = source_dir
        self._command = tuple(command)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doctor", daemon=True)

    def start(self) -> None:
        """Start the rounds."""
        self._thread.start()

    def halt(self) -> None:
        """Stop the rounds."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> DoctorReport | None:
        """Run the doctor once; None if the child's output cannot be parsed."""
        with tempfile.TemporaryDirectory(dir=self._worker_dir, prefix="doctor-") as folder:
            inventory = Path(folder) / "inventory.json"
            inventory.write_text(self._inventory.model_dump_json())
            output = self._ask(Path(folder) / "report.json", inventory)
        try:
            return None if output is None else DoctorReport.model_validate_json(output)
        except ValidationError as error:
            log.warning("cannot parse the doctor's report", error=str(error))
            return None

    def _run(self) -> None:
        pause, known = FIRST_SECONDS, self._read_change()
        while not self._wait(pause, known=known):
            known = self._read_change()  # what changes while the doctor runs is a reason, too
            try:
                report = self.look()
            except Exception:  # a failed look must not disturb the worker
                log.exception("running the doctor failed")
                report = None
            if report is not None and not self._stop.is_set():
                self._report(report)
            pause = PERIOD_SECONDS

    def _wait(self, seconds: float, *, known: tuple[int, ...]) -> bool:
        """Wait until the next run is due or a trainer has died; return True once halted."""
        end_at = time.monotonic() + seconds
        while (left := end_at - time.monotonic()) > 0 and self._read_change() == known:
            if self._stop.wait(min(left, CHANGE_SECONDS)):
                return True
        return self._stop.is_set()

    def _read_change(self) -> tuple[int, ...]:
        return tuple(_read_time(self._worker_dir / name) for name in (DEATHS, FAULTS))

    def _ask(self, report: Path, inventory: Path) -> bytes | None:
        with report.open("wb") as output:
            child = self._spawner.spawn(
                [*self._command, "--json", "--inventory", str(inventory)],
                environment=drop_secrets(os.environ)
                | {"REDKILN_WORKER_DIR": str(self._worker_dir)},
                working_dir=self._source_dir,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )
        end_at = time.monotonic() + LOOK_SECONDS
        try:
            while not child.wait(1.0):
                if self._stop.is_set() or time.monotonic() > end_at:
                    return None
        finally:
            child.reap()
        return report.read_bytes()


def _read_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def drop_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without secrets."""
    return {name: value for name, value in environment.items() if not SECRET_NAME.search(name)}
