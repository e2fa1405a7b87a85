"""Has the doctor look at this machine now and then, in a child, and tells what it found.

In a child, because opening /dev/kfd ties a process to the driver for as long as it lives.
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

from redkiln.hardware import DoctorReport
from redkiln.redaction import SECRET_NAME
from worker.agent.children import Spawner
from worker.agent.inventory import Inventory
from worker.hardware.death_book import NAME as DEATHS

log = structlog.get_logger(__name__)

COMMAND = (sys.executable, "-m", "worker.hardware", "doctor")
FIRST_SECONDS = 10.0
"""After the start: whoever waits for the first job comes first."""
PERIOD_SECONDS = 600.0
CHANGE_SECONDS = 30.0
"""How often is looked whether a trainer has died meanwhile, which is a reason to look at once."""
LOOK_SECONDS = 120.0


class DoctorRounds:
    """A thread that has the doctor look, and tells.

    Args:
        worker_dir: with the deaths of trainers.
        inventory: what torch says; it is not asked again.
        tell: takes each report.
        command: prints a report as JSON.
    """

    def __init__(
        self,
        spawner: Spawner,
        *,
        worker_dir: Path,
        inventory: Inventory,
        tell: Callable[[DoctorReport], None],
        source_dir: Path,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._spawner = spawner
        self._worker_dir = worker_dir
        self._inventory = inventory
        self._tell = tell
        self._source_dir = source_dir
        self._command = tuple(command)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="doctor", daemon=True)

    def start(self) -> None:
        """Look from now on."""
        self._thread.start()

    def halt(self) -> None:
        """Look no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def look(self) -> DoctorReport | None:
        """One look at the machine; None when the child did not say anything that can be read."""
        with tempfile.TemporaryDirectory(dir=self._worker_dir, prefix="doctor-") as folder:
            inventory = Path(folder) / "inventory.json"
            inventory.write_text(self._inventory.model_dump_json())
            output = self._ask(Path(folder) / "report.json", inventory)
        try:
            return None if output is None else DoctorReport.model_validate_json(output)
        except ValidationError as error:
            log.warning("the doctor's report cannot be read", error=str(error))
            return None

    def _run(self) -> None:
        pause = FIRST_SECONDS
        while not self._wait(pause):
            try:
                report = self.look()
            except Exception:  # whatever it is, the worker works
                log.exception("the doctor could not look")
                report = None
            if report is not None and not self._stop.is_set():
                self._tell(report)
            pause = PERIOD_SECONDS

    def _wait(self, seconds: float) -> bool:
        """Until it is time to look, or a trainer has died; True when it is over."""
        end_at = time.monotonic() + seconds
        known = self._read_change()
        while (left := end_at - time.monotonic()) > 0 and self._read_change() == known:
            if self._stop.wait(min(left, CHANGE_SECONDS)):
                return True
        return self._stop.is_set()

    def _read_change(self) -> int:
        try:
            return (self._worker_dir / DEATHS).stat().st_mtime_ns
        except OSError:
            return 0

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


def drop_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what a child that only looks has no need of."""
    return {name: value for name, value in environment.items() if not SECRET_NAME.search(name)}
