"""What a run spent its time and memory on, from its first step to its last.

`worker.results.efficiency` judges these facts. A bare step, measured at the end, is the yardstick.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator

import torch

from redkiln.status import Phase
from worker.hardware.facts.compilers import find_compiler_obstacle
from worker.jobdir import Order
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.results.efficiency import Efficiency, EfficiencyFacts, judge
from worker.trainer.autotune import bare_step
from worker.trainer.devices import device_facts, synchronize
from worker.trainer.insight.pace import reads_images
from worker.trainer.insight.peak import find_peak_tflops
from worker.trainer.insight.preview import PreviewBudget
from worker.trainer.insight.vitals import WaitMeter, read_host_peak_bytes, read_memory
from worker.trainer.setup import TrainingSetup

BareStep = Callable[[], object]


class MachineUsage:
    """Measures one process's part of a training.

    Args:
        setup: The job in training.
        order: Order of the job.
        event_log: Event log of the run, which has the seconds of each phase.
        device: Device that trains.
        budget: Time spent on sample predictions.
        is_alone: Whether no other process trains this job.

    Attributes:
        num_steps: Ordinary steps done: neither first ones nor profiled ones.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        order: Order,
        *,
        event_log: EventLog,
        device: torch.device,
        budget: PreviewBudget,
        is_alone: bool,
    ) -> None:
        self.num_steps = 0
        self._setup = setup
        self._training = setup.spec.training
        self._event_log = event_log
        self._device = device
        self._budget = budget
        self._is_alone = is_alone
        self._limit_bytes = order.memory_limit_bytes
        self._facts = device_facts(device, patches=order.patches)
        asked = order.spec.get("training") or {}
        self._is_precision_measured = asked.get("precision", "auto") == "auto"
        self._start_seconds = sum(event_log.settle().values())
        self._built_at = time.perf_counter()
        self._before: dict[str, float] | None = None
        self._saving_seconds = 0.0
        self._waiting = WaitMeter(setup.batches.pace)

    @property
    def has_begun(self) -> bool:
        """Whether a step was started."""
        return self._before is not None

    def begin(self) -> None:
        """Start the measurements at the first step; the time until now was preparation."""
        if self._before is not None:
            return
        # By the clock, because the phases' seconds now include those of earlier processes.
        self._start_seconds += time.perf_counter() - self._built_at
        self._before = dict(self._event_log.settle())
        self._saving_seconds = 0.0
        self._waiting = WaitMeter(self._setup.batches.pace)

    @contextlib.contextmanager
    def checkpointing(self) -> Iterator[None]:
        """Measure the time of the checkpoint written inside the block."""
        began = self.training_seconds()
        yield
        self._saving_seconds += self.training_seconds() - began

    def training_seconds(self) -> float:
        """Return the seconds spent in the training phase so far."""
        return self._event_log.settle().get(Phase.TRAINING, 0.0)

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

    def _gather(self) -> EfficiencyFacts:
        assert self._before is not None
        now, before = self._event_log.settle(), self._before
        spent = {name: value - before.get(name, 0.0) for name, value in now.items()}
        training = max(0.0, spent.get(Phase.TRAINING, 0.0))
        stepping = training - self._saving_seconds
        waited = min(stepping, training * (self._waiting.read(training) or 0.0))
        seconds = {
            "start": self._start_seconds,
            "first steps": spent.get(Phase.WARMING, 0.0),
            "steps": stepping - waited,
            "data": waited,
            "checkpoints": self._saving_seconds,
            "evaluation": spent.get(Phase.EVALUATING, 0.0),
            "previews": self._budget.spent_seconds,
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
            num_steps=self.num_steps,
            peak_tflops=peak,
            why_no_peak=why_no_peak,
            memory_share=memory.peak_bytes / memory.total_bytes
            if memory and memory.total_bytes
            else None,
            can_bf16=self._facts.has_bf16,
            may_compile=self._training.compile != "default"
            and find_compiler_obstacle(self._device.type, os.environ) is None,
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
