"""Starting what an attempt runs in: the trainer, warm or cold, and the export child."""

import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from worker.agent.children import Child, Spawner
from worker.agent.environment import HIDE_GPUS, build_child_environment, digest_environment
from worker.agent.inventory import SlotPlan
from worker.agent.kernel_cache import build_cache_environment
from worker.jobdir import JobDir
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

SOURCE_DIR = Path(__file__).resolve().parents[2]
"""Where the package `worker` lies: the folder that children run in."""


class Launcher:
    """Starts the children of one slot, and keeps its warm spare."""

    def __init__(self, settings: WorkerSettings, spawner: Spawner, *, slot: SlotPlan) -> None:
        self._settings = settings
        self._spawner = spawner
        self._slot = slot
        self._is_closed = False
        self._spare: Child | None = None
        self._spare_digest = ""
        self._lock = threading.Lock()

    @property
    def spare_pid(self) -> int | None:
        """Number of the waiting spare, if there is one."""
        with self._lock:
            return self._spare.pid if self._spare and _is_alive(self._spare) else None

    def start_spare(self) -> None:
        """Have a warm trainer wait for the next job, unless one does or none is wanted."""
        with self._lock:
            if self._is_closed or not self._settings.spare or _is_alive(self._spare):
                return
            self._drop_spare()
            environment = self._build_environment()
            log_path = self._settings.worker_dir / f"spare-{self._slot.index}.log"
            try:
                with log_path.open("wb") as output:
                    self._spare = self._spawner.spawn(
                        [*self._settings.trainer_command, "--spare"],
                        environment=environment,
                        working_dir=SOURCE_DIR,
                        stdin=subprocess.PIPE,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
            except OSError as error:
                log.warning("no spare", slot=self._slot.index, error=str(error))
                return
            self._spare_digest = digest_environment(environment)

    def start_trainer(self, jobdir: JobDir, *, on_cold: Callable[[str], None]) -> Child:
        """Start training in a job directory: in the spare if it fits, else in a new process.

        Args:
            jobdir: with its order written.
            on_cold: told why, before a new process is started.

        Raises:
            OSError: no process could be started.
        """
        environment = self._build_environment()
        with self._lock:
            spare, self._spare = self._spare, None
        reason = self._reject(spare, environment)
        if spare is not None:
            if reason is None and _hand_over(spare, jobdir):
                return spare
            spare.reap()
        on_cold(reason or "the spare had just ended")
        return self._start([*self._settings.trainer_command, str(jobdir.root)], jobdir, environment)

    def start_export(self, jobdir: JobDir) -> Child:
        """Start the export of what was trained; it sees no GPU.

        Raises:
            OSError: no process could be started.
        """
        environment = build_child_environment(
            os.environ, device=HIDE_GPUS, threads=self._slot.threads
        )
        return self._start([*self._settings.export_command, str(jobdir.root)], jobdir, environment)

    def close(self) -> None:
        """End the spare."""
        with self._lock:
            self._is_closed = True
            self._drop_spare()

    def _build_environment(self) -> dict[str, str]:
        folder = self._settings.resolved_kernel_cache_dir / self._slot.cache_key
        folder.mkdir(parents=True, exist_ok=True)
        device = {**self._slot.device_environment, **build_cache_environment(folder, os.environ)}
        return build_child_environment(os.environ, device=device, threads=self._slot.threads)

    def _reject(self, spare: Child | None, environment: Mapping[str, str]) -> str | None:
        if spare is None:
            return "no spare was waiting" if self._settings.spare else "spares are switched off"
        if not _is_alive(spare):
            return "the spare had ended; its log is in the worker's folder"
        if self._spare_digest != digest_environment(environment):
            return "the spare was started in another environment"
        return None

    def _start(self, command: list[str], jobdir: JobDir, environment: Mapping[str, str]) -> Child:
        with jobdir.log_path.open("ab") as output:
            return self._spawner.spawn(
                command,
                environment=environment,
                working_dir=SOURCE_DIR,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _drop_spare(self) -> None:
        if self._spare is not None:
            self._spare.reap()
        self._spare = None


def _is_alive(child: Child | None) -> bool:
    return child is not None and not child.has_exited


def _hand_over(spare: Child, jobdir: JobDir) -> bool:
    assert spare.stdin is not None, "spares are started with a pipe"
    try:
        spare.stdin.write(f"{jobdir.root}\n".encode())
        spare.stdin.flush()
        spare.stdin.close()
    except BrokenPipeError:
        return False
    return True
