"""Starts an attempt's child processes, warm or cold: trainer, exporter, script supervisor."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import structlog

from redkiln.views.hardware import PatchOutcome
from worker.agent.children.children import Child, Spawner
from worker.agent.children.environment import (
    build_child_environment,
    show_hugging_face,
    use_huge_pages,
)
from worker.agent.children.spare import Spare
from worker.agent.gpus.host_gpus import HostGpu, show_gpus
from worker.agent.gpus.patching import Patching
from worker.agent.gpus.pool import GpuAllocation
from worker.agent.inventory import SlotPlan
from worker.hardware.masks import HIDE_GPUS
from worker.hardware.patches import merge_environment
from worker.jobdir import LEASES_VARIABLE, JobDir
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

SOURCE_DIR = Path(__file__).resolve().parents[3]
"""The folder that contains the package `worker`, and in which children run."""
WARM_EXPORT_SECONDS = 20.0
"""How long before the estimated end of training the export child is started. Its imports take
about 3 s of one core and 300 MB, which need not be held during a long training."""


def is_nearly_trained(progress: Mapping[str, Any]) -> bool:
    """Return whether training will end soon, so that the export child should be started."""
    eta_seconds = progress.get("eta_seconds")
    if eta_seconds is None:
        return bool(progress.get("fraction", 0.0) >= 0.5)
    return bool(eta_seconds <= WARM_EXPORT_SECONDS)


class Launcher:
    """Starts the children of one slot and keeps a warm trainer for the next job."""

    def __init__(
        self, settings: WorkerSettings, spawner: Spawner, *, slot: SlotPlan, patching: Patching
    ) -> None:
        self._settings = settings
        self._spawner = spawner
        self._slot = slot
        self._patching = patching
        self._trainer = self._spare("spare", settings.trainer_command)
        self._export = self._spare("export-spare", settings.export_command)
        self._script = self._spare("script-spare", settings.script_command)

    @property
    def spare_pid(self) -> int | None:
        """PID of the waiting trainer, if there is one."""
        return self._trainer.pid

    def start_spare(self) -> None:
        """Start a warm trainer for the next job, unless one waits or spares are switched off."""
        if self._settings.spare:
            self._trainer.start(self.trainer_environment())

    def start_script_spare(self) -> None:
        """Start a warm script supervisor for the next script.

        It is started only after a first script has run: a worker that never runs scripts saves its
        40 MB.
        """
        if self._settings.spare:
            self._script.start(self.trainer_environment())

    def warm_export(self) -> None:
        """Start a warm export child that waits for the end of this job's training."""
        if self._settings.spare:
            self._export.start(self._export_environment())

    def drop_export(self) -> None:
        """End a warm export child that is not needed."""
        self._export.drop()

    def start_trainer(
        self, jobdir: JobDir, grant: GpuAllocation, *, on_cold: Callable[[str], None]
    ) -> Child:
        """Start training in a job directory: in the spare if it fits, otherwise in a new process.

        Args:
            jobdir: Job directory that already contains its order.
            grant: GPUs of the attempt; the process holds their leases for as long as it lives.
            on_cold: Called with the reason before a new process is started.

        Raises:
            OSError: No process could be started.
        """
        command, leases = self._settings.trainer_command, grant.descriptors
        if len(grant.gpus) > 1:
            on_cold("the job uses several GPUs")
            environment = self.trainer_environment(grant.gpus)
            return self._start(command, jobdir, environment, leases=leases)
        environment = self.trainer_environment()
        given = self._trainer.give(jobdir, environment, leases=leases)
        if isinstance(given, Child):
            return given
        on_cold(given if self._settings.spare else "spares are switched off")
        return self._start(command, jobdir, environment, leases=leases)

    def start_script(self, jobdir: JobDir, grant: GpuAllocation) -> Child:
        """Start a script's supervisor, which does not import torch.

        Raises:
            OSError: No process could be started.
        """
        environment = self.trainer_environment(grant.gpus if len(grant.gpus) > 1 else ())
        given = self._script.give(jobdir, environment, leases=grant.descriptors)
        if isinstance(given, Child):
            return given
        command = self._settings.script_command
        return self._start(command, jobdir, environment, leases=grant.descriptors)

    def start_export(self, jobdir: JobDir) -> Child:
        """Start the export of the trained model, in a process that sees no GPU.

        Raises:
            OSError: No process could be started.
        """
        environment = self._export_environment()
        given = self._export.give(jobdir, environment)
        if isinstance(given, Child):
            return given
        return self._start(self._settings.export_command, jobdir, environment)

    def decide_patches(
        self, gpus: Sequence[HostGpu] = (), *, has_fixed_shapes: bool | None = True
    ) -> list[PatchOutcome]:
        """Decide which patches a job on these GPUs gets.

        Args:
            gpus: GPUs of a job that uses several; by default the slot's own.
            has_fixed_shapes: Whether the job's inputs keep one shape; None if unknown.
        """
        return self._patching.decide(
            gpus or self._own_gpus,
            cache_dir=self._kernel_cache_dir,
            has_fixed_shapes=has_fixed_shapes,
        )

    def trainer_environment(self, gpus: Sequence[HostGpu] = ()) -> dict[str, str]:
        """Build the environment of this slot's trainer.

        Args:
            gpus: GPUs of a job that uses several; by default the slot's own.
        """
        folder = self._kernel_cache_dir
        mask = show_gpus(gpus) if gpus else self._slot.device_environment
        patches = merge_environment(self.decide_patches(gpus))
        pages = {} if gpus or self._own_gpus else use_huge_pages(os.environ)
        own = {**mask, **patches, **pages, **show_hugging_face(os.environ)}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            log.warning("compiled kernels cannot be cached", folder=str(folder), error=str(error))
        return build_child_environment(os.environ, device=own, threads=self._slot.threads)

    @property
    def kernel_cache_dir(self) -> Path:
        """Folder in which this slot's compiled and tuned kernels are kept."""
        return self._kernel_cache_dir

    def close(self) -> None:
        """End all waiting processes and start no more."""
        self._trainer.close()
        self._export.close()
        self._script.close()

    @property
    def _own_gpus(self) -> Sequence[HostGpu]:
        return () if self._slot.gpu is None else (self._slot.gpu,)

    @property
    def _kernel_cache_dir(self) -> Path:
        return self._settings.resolved_kernel_cache_dir.resolve() / self._slot.cache_key

    def _spare(self, name: str, command: list[str]) -> Spare:
        return Spare(
            command,
            spawner=self._spawner,
            working_dir=SOURCE_DIR,
            log_path=self._settings.worker_dir / f"{name}-{self._slot.index}.log",
        )

    def _export_environment(self) -> dict[str, str]:
        return build_child_environment(os.environ, device=HIDE_GPUS, threads=self._slot.threads)

    def _start(
        self,
        command: list[str],
        jobdir: JobDir,
        environment: Mapping[str, str],
        *,
        leases: Sequence[int] = (),
    ) -> Child:
        named = {LEASES_VARIABLE: ",".join(map(str, leases))} if leases else {}
        with jobdir.log_path.open("ab") as output:
            return self._spawner.spawn(
                [*command, str(jobdir.root)],
                environment={**environment, **named},
                inherited=leases,
                working_dir=SOURCE_DIR,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
