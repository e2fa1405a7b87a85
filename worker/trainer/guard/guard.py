"""The guard of a run on a GPU: detects work that falls back to the CPU.

Before the first step everything must be on the device, and after it the optimiser's state too. The
operators of the next steps are inspected, and after the first few steps there must be evidence that
the device did the work. Then the guard is done; it costs one wait for the device.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from redkiln.failure import FailureCode
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.results.evidence import DeviceWork, describe_work, find_idleness
from worker.results.findings import Finding, FirstSteps, Kind, describe_finding
from worker.trainer.guard import placement
from worker.trainer.guard.audit import OperatorAudit
from worker.trainer.guard.device_layer import DeviceLayer, Mark, TorchDevice
from worker.trainer.inputs import Inputs
from worker.trainer.optim.optimizer import AnyOptimizer

WATCHED_STEPS = 3
"""The first step builds caches and state; the others are like all that follow."""
MAX_TOLD = 5
EFFECTS: dict[Kind, tuple[str, str]] = {
    "cpu_operation": (
        "cpu_operations",
        "operators worked on large tensors on the CPU while the GPU waited",
    ),
    "host_synchronisation": (
        "host_synchronisations",
        "operators made the host wait for the GPU, which then runs out of queued work",
    ),
}


class Guard:
    """Watches the first steps of a process on a device.

    Attributes:
        found: The findings, after the last watched step; None before.
    """

    def __init__(
        self,
        layer: DeviceLayer,
        *,
        model: nn.Module,
        event_log: EventLog,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.found: FirstSteps | None = None
        self._layer = layer
        self._model = model
        self._event_log = event_log
        self._clock = clock
        self._audit = OperatorAudit(layer.device)
        self._step = 0
        self._start: Mark = None
        self._started_at = 0.0
        self._allocated_before: int | None = None

    @contextlib.contextmanager
    def step(self, optimizer: AnyOptimizer, *, is_last: bool) -> Iterator[None]:
        """Watch one step inside the block: its batch, forward and backward pass, and update.

        Raises:
            TrainingFailed: a tensor is on another device, or the device did nothing.
        """
        if self.found is not None:
            yield
            return
        self._step += 1
        if self._step == 1:
            self._begin()
        with contextlib.nullcontext() if self._step == 1 else self._audit:
            yield
        if self._step == 1:
            placement.check_optimizer(self._model, optimizer, self._layer.device)
        if self._step == WATCHED_STEPS or is_last:
            self._end()

    def check_batch(self, inputs: Inputs, targets: torch.Tensor) -> None:
        """Check that a watched step's batch is on the device.

        Raises:
            TrainingFailed: the batch is on another device.
        """
        if self.found is None:
            placement.check_batch(inputs, targets, self._layer.device)

    def _begin(self) -> None:
        placement.check_model(self._model, self._layer.device)
        self._layer.synchronize()
        self._allocated_before = self._layer.allocated_bytes()
        self._started_at = self._clock()
        self._start = self._layer.mark()

    def _end(self) -> None:
        end = self._layer.mark()
        self._layer.synchronize()
        work = self._measure(end)
        if (why := find_idleness(work)) is not None:
            raise _idle(work, why)
        self.found = FirstSteps(
            work=work, audited_steps=self._audit.steps, findings=self._audit.findings()
        )
        self._event_log.message(describe_work(work))
        for kind in EFFECTS:
            self._warn(kind, [f for f in self.found.findings if f.kind == kind])

    def _measure(self, end: Mark) -> DeviceWork:
        layer, audit = self._layer, self._audit
        allocated = layer.allocated_bytes()
        trained = [p for p in self._model.parameters() if p.requires_grad]
        return DeviceWork(
            device=str(layer.device),
            steps=self._step,
            wall_seconds=self._clock() - self._started_at,
            device_seconds=layer.seconds_between(self._start, end),
            gradient_bytes=sum(p.numel() * p.element_size() for p in trained),
            allocated_bytes=None
            if allocated is None
            else allocated - (self._allocated_before or 0),
            peak_bytes=layer.peak_bytes(),
            used_bytes=layer.used_bytes(),
            device_operators=audit.device_operators if audit.steps else None,
            cpu_operators=audit.cpu_operators if audit.steps else None,
        )

    def _warn(self, kind: Kind, findings: Sequence[Finding]) -> None:
        if not findings:
            return
        code, effect = EFFECTS[kind]
        total = sum(finding.count for finding in findings)
        listed = "; ".join(map(describe_finding, findings[:MAX_TOLD]))
        more = f"; and {len(findings) - MAX_TOLD} more" if len(findings) > MAX_TOLD else ""
        self._event_log.warning(code, f"{total} {effect}: {listed}{more}")


def build_guard(device: torch.device, *, model: nn.Module, event_log: EventLog) -> Guard | None:
    """Build the guard of a run on a GPU; None on a CPU, which has nothing to fall back to."""
    if device.type == "cpu":
        return None
    return Guard(TorchDevice(device), model=model, event_log=event_log)


def _idle(work: DeviceWork, why: str) -> TrainingFailed:
    message = (
        f"the job should train on {work.device}, but the GPU did nothing in the first "
        f"{work.steps} steps: {why}. Run `redkiln doctor` on the worker; "
        "`python -m worker.hardware.selftest` shows whether the GPU computes at all."
    )
    return TrainingFailed(FailureCode.CPU_FALLBACK, message, evidence=work.model_dump())
