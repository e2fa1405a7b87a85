"""Starts an attempt's child processes, warm or cold: trainer, exporter, script supervisor."""

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
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
from worker.agent.children.own_code import OwnCode
from worker.agent.children.spare import Spare
from worker.agent.gpus.host_gpus import HostGpu, show_gpus
from worker.agent.gpus.patching import Patching
from worker.agent.gpus.pool import GpuAllocation
from worker.agent.inventory import SlotPlan
from worker.hardware.masks import HIDE_GPUS
from worker.hardware.patches import merge_environment
from worker.jobdir import EXPORTER_VARIABLE, LEASES_VARIABLE, JobDir, OrderPaths
from worker.settings import WorkerSettings

log = structlog.get_logger(__name__)

SOURCE_DIR = Path(__file__).resolve().parents[3]
"""The folder that contains the package `worker`, and in which children run."""
WARM_EXPORT_SECONDS = 20.0
"""How long before the estimated end of training a warm export child must wait. Warming it takes
5 to 7 s of one core."""
LONG_TRAINING_SECONDS = 300.0
"""A training that has more than this left gets the memory of the waiting export child."""


class ExportSpare(StrEnum):
    """What to do with the warm export child while a job trains."""

    KEEP = "keep"
    START = "start"
    END = "end"


def decide_export_spare(progress: Mapping[str, Any]) -> ExportSpare:
    """Decide from a training's progress whether its export child should wait, warm."""
    eta_seconds = progress.get("eta_seconds")
    if eta_seconds is None:
        is_late = progress.get("fraction", 0.0) >= 0.5
        return ExportSpare.START if is_late else ExportSpare.KEEP
    if eta_seconds <= WARM_EXPORT_SECONDS:
        return ExportSpare.START
    return ExportSpare.END if eta_seconds > LONG_TRAINING_SECONDS else ExportSpare.KEEP


class Launcher:
    """Starts the children of one slot and keeps a warm trainer and exporter for the next job."""

    def __init__(
        self, settings: WorkerSettings, spawner: Spawner, *, slot: SlotPlan, patching: Patching
    ) -> None:
        self._settings = settings
        self._spawner = spawner
        self._slot = slot
        self._patching = patching
        self._trainer = self._spare("spare", settings.trainer_command)
        self._export = self._spare("export-spare", settings.export_command, is_asked=True)
        self._script = self._spare("script-spare", settings.script_command)

    @property
    def spare_pid(self) -> int | None:
        """PID of the waiting trainer, if there is one."""
        return self._trainer.pid

    def start_spare(self) -> None:
        """Start a warm trainer for the next job, unless one waits or spares are switched off."""
        if self._settings.spare:
            self._trainer.start(self.trainer_environment())

    def start_export_spare(self) -> None:
        """Start a warm export child, unless one waits or spares are switched off.

        It rehearses the export of a job whose architecture is new, and exports the job's model.
        """
        if self._settings.spare:
            self._export.start(self._export_environment())

    def end_export_spare(self) -> None:
        """End the waiting export child."""
        self._export.drop()

    def start_script_spare(self) -> None:
        """Start a warm script supervisor for the next script.

        It is started only after a first script has run: a worker that never runs scripts saves its
        40 MB.
        """
        if self._settings.spare:
            self._script.start(self.trainer_environment())

    def start_trainer(
        self,
        jobdir: JobDir,
        allocation: GpuAllocation,
        *,
        on_cold: Callable[[str], None],
        is_exported: bool = True,
    ) -> Child:
        """Start training in a job directory: in the spare if it fits, otherwise in a new process.

        Args:
            jobdir: Job directory that already contains its order.
            allocation: GPUs of the attempt; the process holds their leases for as long as it lives.
            on_cold: Called with the reason before a new process is started.
            is_exported: Whether the process may ask the waiting export child to rehearse.

        Raises:
            OSError: No process could be started.
        """
        with ExitStack() as held:
            exporter: int | None = None
            if is_exported and (requests := self._export.connect(self._export_environment())):
                exporter = held.enter_context(requests).fileno()
            return self._start_trainer(jobdir, allocation, exporter, on_cold=on_cold)

    def start_script(self, jobdir: JobDir, allocation: GpuAllocation) -> Child:
        """Start a script's supervisor, which does not import torch.

        Raises:
            OSError: No process could be started.
        """
        environment = self.trainer_environment(allocation.gpus if len(allocation.gpus) > 1 else ())
        given = self._script.give(jobdir, environment, descriptors=allocation.descriptors)
        if isinstance(given, Child):
            return given
        command = self._settings.script_command
        return self._start(command, jobdir, environment, leases=allocation.descriptors)

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

    def start_confined_trainer(
        self,
        jobdir: JobDir,
        own: OwnCode,
        environment: Mapping[str, str],
        *,
        leases: Sequence[int],
    ) -> Child:
        """Start the training of a user's own code, without a warm process.

        Raises:
            OSError: No process could be started.
        """
        command = own.command(self._settings.trainer_command)
        return self._start(command, jobdir, own.environment(environment), leases=leases)

    def start_confined_export(self, jobdir: JobDir, own: OwnCode) -> Child:
        """Start the export of a user's own code, in a process that sees no GPU.

        Raises:
            OSError: No process could be started.
        """
        command = own.command(self._settings.export_command)
        return self._start(command, jobdir, own.environment(self._export_environment()))

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
            cache_dir=self.kernel_cache_dir,
            has_fixed_shapes=has_fixed_shapes,
        )

    def trainer_environment(self, gpus: Sequence[HostGpu] = ()) -> dict[str, str]:
        """Build the environment of this slot's trainer.

        Args:
            gpus: GPUs of a job that uses several; by default the slot's own.
        """
        folder = self.kernel_cache_dir
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
        return self._settings.resolved_kernel_cache_dir.resolve() / self._slot.cache_key

    @property
    def order_paths(self) -> OrderPaths:
        """Folders that a job of this slot shares with others."""
        return OrderPaths(
            cache_dir=self._settings.trainer_cache_dir.resolve(),
            models_dir=self._settings.resolved_models_dir.resolve(),
            kernel_cache_dir=self.kernel_cache_dir,
        )

    def close(self) -> None:
        """End all waiting processes and start no more."""
        self._trainer.close()
        self._export.close()
        self._script.close()

    @property
    def _own_gpus(self) -> Sequence[HostGpu]:
        return () if self._slot.gpu is None else (self._slot.gpu,)

    def _spare(self, name: str, command: list[str], *, is_asked: bool = False) -> Spare:
        return Spare(
            command,
            spawner=self._spawner,
            working_dir=SOURCE_DIR,
            log_path=self._settings.worker_dir / f"{name}-{self._slot.index}.log",
            is_asked=is_asked,
        )

    def _start_trainer(
        self,
        jobdir: JobDir,
        allocation: GpuAllocation,
        exporter: int | None,
        *,
        on_cold: Callable[[str], None],
    ) -> Child:
        command, leases = self._settings.trainer_command, allocation.descriptors
        if len(allocation.gpus) > 1:
            on_cold("the job uses several GPUs")
            environment = self.trainer_environment(allocation.gpus)
            return self._start(command, jobdir, environment, leases=leases, exporter=exporter)
        environment = self.trainer_environment()
        descriptors = [*leases] if exporter is None else [*leases, exporter]
        given = self._trainer.give(jobdir, environment, descriptors=descriptors)
        if isinstance(given, Child):
            return given
        on_cold(given if self._settings.spare else "spares are switched off")
        return self._start(command, jobdir, environment, leases=leases, exporter=exporter)

    def _export_environment(self) -> dict[str, str]:
        environment = build_child_environment(
            os.environ, device=HIDE_GPUS, threads=self._slot.threads
        )
        # Here a spare finds the list of fonts before it knows its job.
        fonts = self._settings.trainer_cache_dir.resolve() / "matplotlib"
        return {"MPLCONFIGDIR": str(fonts), **environment}

    def _start(
        self,
        command: list[str],
        jobdir: JobDir,
        environment: Mapping[str, str],
        *,
        leases: Sequence[int] = (),
        exporter: int | None = None,
    ) -> Child:
        named = {LEASES_VARIABLE: ",".join(map(str, leases))} if leases else {}
        if exporter is not None:
            named[EXPORTER_VARIABLE] = str(exporter)
        with jobdir.log_path.open("ab") as output:
            return self._spawner.spawn(
                [*command, str(jobdir.root)],
                environment={**environment, **named},
                inherited=leases if exporter is None else [*leases, exporter],
                working_dir=SOURCE_DIR,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
