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
from worker.process.failed import TrainingFailed
from worker.results.efficiency import Efficiency, EfficiencyFacts, judge
from worker.trainer.autotune import bare_step
from worker.trainer.devices import device_facts, synchronize
from worker.trainer.insight.pace import reads_images
from worker.trainer.insight.peak import find_peak_tflops
from worker.trainer.insight.preview import Previewer
from worker.trainer.insight.profiling import StepProfiler
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

BareStep = Callable[[], object]


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
        self._facts = device_facts(device, patches=order.patches)
        asked = order.spec.get("training") or {}
        self._is_precision_measured = asked.get("precision", "auto") == "auto"
        self._start_seconds = sum(event_log.settle().values())
        self._built_at = time.perf_counter()
        self._before: dict[str, float] | None = None
        self._saving_seconds = 0.0
        self._num_steps = 0
        self._meter, self._whole = WaitMeter(setup.batches.pace), WaitMeter(setup.batches.pace)
        self._metered_seconds = 0.0
        self._is_alone = not _is_distributed()
        is_first = self._is_alone or torch.distributed.get_rank() == 0
        self._previewer = Previewer(setup.preview if is_first else None, job_dir.preview_dir)
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
        if self._before is None:
            self._begin()
        if self._warming is not None:
            return self._warm(self._warming, number, speed)
        if self._profiler is not None:
            if self._profiler.takes(number):
                return self._profiled(self._profiler, speed)
            self._profiler.skip()
        self._num_steps += 1
        return _NOTHING

    def leave_steps(self, speed: Speed) -> None:
        """End a profile's window, because something other than a step comes next.

        Args:
            speed: Speed from which the time of this call is excluded.
        """
        if self._profiler is not None and self._profiler.is_open:
            with self._profiling(self._profiler, speed, num_steps=0):
                self._profiler.end_window()

    @contextlib.contextmanager
    def checkpointing(self) -> Iterator[None]:
        """Measure the time of the checkpoint written inside the block."""
        began = self._training_seconds()
        yield
        self._saving_seconds += self._training_seconds() - began

    def complete(self, progress: Progress) -> Progress:
        """Return progress completed with current measurements of the run.

        If there was training since the last call, they also become points of series.
        """
        seconds = self._training_seconds()
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

    def is_preview_due(self) -> bool:
        """Return whether sample predictions should be shown now."""
        return self._previewer.is_due()

    def show_samples(self, step: int) -> None:
        """Show sample predictions with the model as scored; a failure does not fail the job."""
        try:
            with self._event_log.apart():
                self._previewer.make(step)
        except Exception as error:  # noqa: BLE001 - a missing picture must not fail the job
            self._previewer = Previewer(None, Path())
            first = str(error).partition("\n")[0]
            self._event_log.warning("no_preview", f"sample predictions cannot be shown: {first}")

    def close(self) -> None:
        """Finish at the end of training."""
        if self._profiler is not None and self._before is not None:
            self._profiler.close()
        self._profiler = None

    def judge(self, make_bare: Callable[[], BareStep]) -> Efficiency | None:
        """Judge how well this process used its machine; None if it did no step.

        Args:
            make_bare: Returns a function that runs a bare step on a resident batch; the step
                changes the weights.
        """
        if self._before is None:
            return None
        facts = self._gather()
        if judge(facts) is None:
            return None
        return judge(facts.model_copy(update=self._measure_bare(facts, make_bare)))

    def _begin(self) -> None:
        """Start the measurements before the first step; the time until now was preparation."""
        # By the clock, because the phases' seconds now include those of earlier processes.
        self._start_seconds += time.perf_counter() - self._built_at
        self._before = dict(self._event_log.settle())
        self._saving_seconds = 0.0
        self._whole = WaitMeter(self._setup.batches.pace)

    def _training_seconds(self) -> float:
        return self._event_log.settle().get(Phase.TRAINING, 0.0)

    def _gather(self) -> EfficiencyFacts:
        assert self._before is not None
        now, before = self._event_log.settle(), self._before
        spent = {name: value - before.get(name, 0.0) for name, value in now.items()}
        training = max(0.0, spent.get(Phase.TRAINING, 0.0))
        stepping = training - self._saving_seconds
        waited = min(stepping, training * (self._whole.read(training) or 0.0))
        seconds = {
            "start": self._start_seconds,
            "first steps": spent.get(Phase.WARMING, 0.0),
            "steps": stepping - waited,
            "data": waited,
            "checkpoints": self._saving_seconds,
            "evaluation": spent.get(Phase.EVALUATING, 0.0),
            "previews": self._previewer.budget.spent_seconds,
            "profile": spent.get(Phase.MEASURING, 0.0),
        }
        memory = read_memory(self._device, limit_bytes=self._limit_bytes)
        peak, why_no_peak = find_peak_tflops(self._device, self._training.precision)
        assert self._training.batch_size != "auto"
        return EfficiencyFacts(
            device=self._device.type,
            precision=self._training.precision,
            batch_size=self._training.batch_size,
            seconds={name: round(value, 3) for name, value in seconds.items() if value > 0},
            num_steps=self._num_steps,
            peak_tflops=peak,
            why_no_peak=why_no_peak,
            memory_share=memory.peak_bytes / memory.total_bytes
            if memory and memory.total_bytes
            else None,
            can_bf16=self._facts.has_bf16,
            is_compiled=self._training.compile == "default",
            is_precision_measured=self._is_precision_measured,
            reads_images=reads_images(self._setup.spec),
            host_peak_bytes=read_host_peak_bytes(),
            data_bytes=self._setup.data_bytes or None,
        )

    def _measure_bare(
        self, facts: EfficiencyFacts, make_bare: Callable[[], BareStep]
    ) -> dict[str, object]:
        if not self._is_alone:
            return {"why_not_bare": "several processes trained together"}
        training = sum(facts.seconds.get(part, 0.0) for part in ("steps", "data", "checkpoints"))
        num_steps = bare_step.plan_steps(
            step_seconds=training / facts.num_steps, training_seconds=training
        )
        if not num_steps:
            return {"why_not_bare": "the training was too short to spend more time on it"}
        try:
            bare = bare_step.measure(
                make_bare(), num_steps=num_steps, synchronize=lambda: synchronize(self._device)
            )
        except torch.OutOfMemoryError:
            return {"why_not_bare": "memory ran out"}
        except (RuntimeError, OSError, TrainingFailed) as error:
            # All steps are done and saved; the job must not fail because of a missing measurement.
            first = str(error).partition("\n")[0]
            return {"why_not_bare": f"it could not be measured: {first}"}
        return {"bare_step_seconds": bare.seconds, "flops_per_step": bare.flops}

    def _add_points(self, step: int, waited: float, memory: Memory | None) -> None:
        self._event_log.add_point("data_wait_ratio", step, round(waited, 4))
        if memory is not None:
            self._event_log.add_point("memory_used_bytes", step, memory.used_bytes)

    def _build_warming(self, order: Order) -> Warming | None:
        if self._device.type == "cpu":
            return None
        folder = Path(order.kernel_cache_dir) if order.kernel_cache_dir else None
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
