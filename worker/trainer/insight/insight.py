"""Reports about a run while it trains: one object that the loop informs of its progress.

It guides the first steps, profiles a few steps on request, reads memory and waiting times for each
progress report, shows sample predictions after evaluations, and judges at the end how well the
machine was used. None of this changes any result of the training.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch

from redkiln.status import Phase
from redkiln.views.job import PreviewNote, Progress
from worker.jobdir import JobDir, Order
from worker.process.event_log import EventLog
from worker.results.efficiency import Efficiency
from worker.trainer.devices import synchronize
from worker.trainer.insight.preview import Previewer
from worker.trainer.insight.profiling import StepProfiler
from worker.trainer.insight.usage import BareStep, MachineUsage
from worker.trainer.insight.vitals import (
    Memory,
    WaitMeter,
    read_host_peak_bytes,
    read_memory,
)
from worker.trainer.loop.speed import Speed
from worker.trainer.setup import TrainingSetup
from worker.trainer.warming import FirstStepsRecord, Warming

_NOTHING: AbstractContextManager[None] = nullcontext()


class Insight:
    """Follows one process's part of a training.

    Args:
        setup: The job in training.
        job_dir: Job directory, for previews and profiles.
        order: Order of the job.
        event_log: Event log of the run.
        device: Device that trains.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        *,
        job_dir: JobDir,
        order: Order,
        event_log: EventLog,
        device: torch.device,
    ) -> None:
        self._setup = setup
        self._training = setup.spec.training
        self._event_log = event_log
        self._device = device
        self._limit_bytes = order.memory_limit_bytes
        self._meter = WaitMeter(setup.batches.pace)
        self._metered_seconds = 0.0
        is_alone = not _is_distributed()
        is_first = is_alone or torch.distributed.get_rank() == 0
        self._previewer = Previewer(setup.preview if is_first else None, job_dir.preview_dir)
        self._usage = MachineUsage(
            setup,
            order,
            event_log=event_log,
            device=device,
            budget=self._previewer.budget,
            is_alone=is_alone,
        )
        self._warming = self._build_warming(order)
        self._profiler: StepProfiler | None = None
        if self._training.profile and is_first:
            self._profiler = StepProfiler(
                job_dir.extra_dir, plan=setup.plan, device=device, say=event_log.message
            )

    def step(self, number: int, speed: Speed) -> AbstractContextManager[None]:
        """Return the context for a step, which does nothing for all but a few steps.

        Args:
            number: Number of the step, counted from 1.
            speed: Speed from which untypical steps are excluded.
        """
        self._usage.begin()
        if self._warming is not None:
            return self._warm(self._warming, number, speed)
        if self._profiler is not None:
            if self._profiler.takes(number):
                return self._profiled(self._profiler, speed)
            self._profiler.skip()
        self._usage.num_steps += 1
        return _NOTHING

    def leave_steps(self, speed: Speed) -> None:
        """End a profile's window, because something other than a step comes next.

        Args:
            speed: Speed from which the time of this call is excluded.
        """
        if self._profiler is not None and self._profiler.is_open:
            with self._profiling(self._profiler, speed, num_steps=0):
                self._profiler.end_window()

    def checkpointing(self) -> AbstractContextManager[None]:
        """Return a context that measures the time of the checkpoint written inside."""
        return self._usage.checkpointing()

    def complete(self, progress: Progress) -> Progress:
        """Return progress completed with current measurements of the run.

        If there was training since the last call, they also become points of series.
        """
        seconds = self._usage.training_seconds()
        waited = self._meter.read(seconds - self._metered_seconds)
        self._metered_seconds = seconds
        memory = read_memory(self._device, limit_bytes=self._limit_bytes)
        if progress.step and waited is not None:
            self._add_points(progress.step, waited, memory)
        return progress.model_copy(
            update={
                "data_wait_ratio": waited,
                "memory_used_bytes": memory and memory.used_bytes,
                "memory_peak_bytes": memory and memory.peak_bytes,
                "memory_total_bytes": memory and memory.total_bytes,
                "host_peak_bytes": read_host_peak_bytes(),
                "data_bytes": self._setup.data_bytes or None,
                "activity": progress.activity or (self._warming and self._warming.activity),
                "preview": self._previewer.newest,
            }
        )

    @property
    def newest_preview(self) -> PreviewNote | None:
        """The newest sample predictions."""
        return self._previewer.newest

    def is_preview_due(self, *, is_last: bool) -> bool:
        """Return whether sample predictions should be shown now; they always are at the end."""
        return self._previewer.is_due(is_last=is_last)

    def show_samples(self, step: int) -> None:
        """Show sample predictions with the model as scored; a failure does not fail the job.

        Running out of memory here is harmless, so it gives a message instead of a warning.
        """
        try:
            with self._event_log.apart():
                self._previewer.make(step)
        except torch.OutOfMemoryError:
            self._event_log.message("sample predictions are left out: not enough memory")
        except Exception as error:  # noqa: BLE001 - a missing picture must not fail the job
            self._previewer = Previewer(None, Path())
            first = str(error).partition("\n")[0]
            self._event_log.warning("no_preview", f"sample predictions cannot be shown: {first}")

    def close(self) -> None:
        """Finish at the end of training."""
        if self._profiler is not None and self._usage.has_begun:
            self._profiler.close()
        self._profiler = None

    def judge(self, make_bare: Callable[[], BareStep]) -> Efficiency | None:
        """Judge how well this process used its machine; None if it did no step.

        Args:
            make_bare: Returns a function that runs a bare step on a resident batch; the step
                changes the weights.
        """
        return self._usage.judge(make_bare)

    def _add_points(self, step: int, waited: float, memory: Memory | None) -> None:
        self._event_log.add_point("data_wait_ratio", step, round(waited, 4))
        if memory is not None:
            self._event_log.add_point("memory_used_bytes", step, memory.used_bytes)

    def _build_warming(self, order: Order) -> Warming | None:
        if self._device.type == "cpu":
            return None
        folder = order.paths.kernel_cache_dir
        spec = self._setup.spec.model_dump(mode="json")
        training = spec["training"]
        workload = {
            "task": spec["task"],
            "model": spec.get("model"),
            "batch": [training.get("batch_size"), training.get("accumulation")],
            "precision": training.get("precision"),
            "compile": training.get("compile"),
            "device": torch.cuda.get_device_name(self._device)
            if self._device.type == "cuda"
            else self._device.type,
        }
        return Warming(
            synchronize=lambda: synchronize(self._device),
            record=FirstStepsRecord(folder, workload),
            event_log=self._event_log,
            place=self._place,
        )

    def _place(self, step: int) -> Progress:
        plan = self._setup.plan
        return Progress(
            epoch=min(plan.epochs, step // plan.steps_per_epoch + 1),
            epochs=plan.epochs,
            step=step,
            steps=plan.steps,
            fraction=step / plan.steps,
        )

    @contextlib.contextmanager
    def _warm(self, warming: Warming, number: int, speed: Speed) -> Iterator[None]:
        before = warming.seconds
        with warming.step(number):
            yield
        speed.leave_out(1, seconds=warming.seconds - before)
        if warming.is_over:
            self._warming = None

    @contextlib.contextmanager
    def _profiled(self, profiler: StepProfiler, speed: Speed) -> Iterator[None]:
        with self._profiling(profiler, speed, num_steps=1), profiler.step():
            yield

    @contextlib.contextmanager
    def _profiling(self, profiler: StepProfiler, speed: Speed, *, num_steps: int) -> Iterator[None]:
        began = time.perf_counter()
        self._event_log.enter(Phase.MEASURING)
        try:
            yield
        finally:
            self._event_log.enter(Phase.TRAINING)
        speed.leave_out(num_steps, seconds=time.perf_counter() - began)
        if profiler.is_over:
            self._profiler = None


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()
