"""Starts the processes of one attempt: warm ones, a script's supervisor, or a user's own code."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redkiln.failure import FailureCode
from redkiln.spec.job_spec import JobSpec
from redkiln.spec.own_code import runs_own_code
from redkiln.tasks.script import ScriptSpec
from worker.agent.children.children import Child
from worker.agent.children.launch import ExportSpare, Launcher, decide_export_spare
from worker.agent.children.own_code import OwnCode, own_paths
from worker.agent.gpus.pool import GpuAllocation
from worker.jobdir import JobDir, OrderPaths, ScriptConfinement, ScriptIsolation
from worker.process.failed import TrainingFailed
from worker.script.bounds.bounds import find_gap, refuse_gap
from worker.script.bounds.control_group import ControlGroup
from worker.script.bounds.processes import end_strays

NO_NAMESPACES = (
    "this worker runs users' code only in namespaces (REDKILN_SCRIPT_ISOLATION=required), and "
    "model.source code does not use them; train your network as a script (redkiln run)"
)


@dataclass
class Processes:
    """The processes of one attempt, and the warm exporter that may wait for its end.

    Attributes:
        allocation: GPUs of the attempt; its trainer holds their leases.
        confinement: Resources that the kernel must be able to protect from a user's code.
        isolation: Whether a user's code needs separate namespaces.
        say: Receives messages to the user.
        warn: Receives a warning's code and message.
    """

    spec: JobSpec
    jobdir: JobDir
    launcher: Launcher
    allocation: GpuAllocation
    confinement: ScriptConfinement
    isolation: ScriptIsolation
    say: Callable[[str], None]
    warn: Callable[[str, str], None]
    _own: OwnCode | None = None
    _export_spare: ExportSpare = field(default=ExportSpare.KEEP)
    _group: ControlGroup | None = None

    def __post_init__(self) -> None:
        if self.is_script or self._is_own_code:
            self._group = ControlGroup.of(self.jobdir.root)

    @property
    def is_script(self) -> bool:
        """Whether the job is a script."""
        return isinstance(self.spec, ScriptSpec)

    @property
    def control_group(self) -> Path | None:
        """Folder of the control group in which users' code runs; None without a group."""
        return None if self._group is None else self._group.path

    @property
    def order_paths(self) -> OrderPaths:
        """Folders that the job shares with others; users' code shares none with other jobs."""
        paths = self.launcher.order_paths
        return own_paths(paths, self.jobdir) if self._is_own_code else paths

    def start_trainer(self) -> Child:
        """Start the training, or the script.

        Raises:
            OSError: No process could be started.
            TrainingFailed: The kernel cannot confine the user's code as the owner requires.
        """
        if self._group is not None:
            self._group.make()
        if self.is_script:
            child = self.launcher.start_script(self.jobdir, self.allocation)
            self.launcher.start_script_spare()  # the next script may come soon
            return child
        if self._is_own_code:
            return self._start_own()
        return self.launcher.start_trainer(
            self.jobdir,
            self.allocation,
            on_cold=lambda why: self.say(f"the trainer starts cold: {why}"),
            is_exported=self.spec.exports,
        )

    def start_export(self) -> Child:
        """Start the export.

        Raises:
            OSError: No process could be started.
        """
        if self._own is not None:
            if self._group is not None:
                self._group.make()
            return self.launcher.start_confined_export(self.jobdir, self._own)
        return self.launcher.start_export(self.jobdir)

    def end_trainer(self) -> None:
        """Warm the next trainer, and end what a user's code has left running."""
        self.launcher.start_spare()
        self.end_strays()

    def end_strays(self) -> None:
        """End what a user's code has left running."""
        if self.is_script or self._is_own_code:
            if self._group is not None:
                self._group.end()
            end_strays(self.jobdir.root)

    def follow(self, progress: dict[str, Any]) -> None:
        """Start or end the waiting exporter according to a training's progress."""
        if not self.spec.exports or self._is_own_code:
            return
        wanted = decide_export_spare(progress)
        # Only when the decision changes: a child that cannot run is not started every second.
        if wanted != self._export_spare:
            self._export_spare = wanted
            if wanted is ExportSpare.START:
                self.launcher.start_export_spare()
            elif wanted is ExportSpare.END:
                self.launcher.end_export_spare()

    @property
    def _is_own_code(self) -> bool:
        return runs_own_code(self.spec)

    def _start_own(self) -> Child:
        refuse_gap(self.confinement)
        if self.isolation == "required":
            raise TrainingFailed(FailureCode.BAD_INPUT, NO_NAMESPACES)
        gap = find_gap()
        if gap is not None:
            self.warn("no_landlock", gap)
        environment = self.launcher.trainer_environment(
            self.allocation.gpus if len(self.allocation.gpus) > 1 else ()
        )
        self._own = OwnCode.prepare(self.jobdir, environment)
        return self.launcher.start_confined_trainer(
            self.jobdir, self._own, environment, leases=self.allocation.descriptors
        )
