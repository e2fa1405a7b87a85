"""One step: a batch, its loss and gradients, and the next weights. Nothing here waits for a device.

Shapes
    B        samples of the batch; of several ranks, each has its share
    inputs   (B, ...): images (B, C, H, W), table rows (B, F), or a tuple such as tokens and mask
    targets  (B,) labels or values, (B, K) 0 or 1 for each of K labels, or (B, M, 5) boxes
    loss     () float32: the mean over the whole batch; of several ranks, a part of it

The batch is a function of the step's number alone, and so is the learning rate (with the losses of
earlier epochs), so a resumed run takes the same steps. `Gradients` splits a batch that does not fit
into memory.
"""

from collections.abc import Callable
from typing import Any

import torch

from worker.trainer.guard.guard import Guard
from worker.trainer.loop.trainer_process import TrainerProcess
from worker.trainer.optim.ema import Ema
from worker.trainer.optim.gradients import Gradients
from worker.trainer.optim.optimizer import admit_thawed, build_optimizer, set_rate
from worker.trainer.optim.scaling import LossScaling
from worker.trainer.setup import TrainingSetup


class Stepper:
    """Updates the weights, one batch after the other.

    Args:
        setup: The prepared job.
        process: The process that trains it.
        on_change: Called with a message about what changed when memory ran out.
        guard: Checks that the device does the work; None on a CPU.
        may_recompute: Whether gradient checkpointing is allowed as the last resort.
        forward: Called with a micro step's inputs, for a compiled model; None for the model itself.

    Attributes:
        optimizer: Optimiser of the model.
        scaling: Scaling of the loss for fp16; it also updates the weights.
        ema: Average of the weights; None if the job has none.
        gradients: Computes the gradients of a batch.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        process: TrainerProcess,
        *,
        on_change: Callable[[str], None],
        guard: Guard | None = None,
        may_recompute: bool = False,
        forward: Callable[..., Any] | None = None,
    ) -> None:
        training = setup.spec.training
        self.optimizer = build_optimizer(
            setup.model, training.optimizer, backbone_lr=setup.backbone_lr
        )
        self.scaling = LossScaling(setup.model, self.optimizer, is_on=training.precision == "fp16")
        self.ema = None if training.ema is None else Ema(setup.model, decay=training.ema)
        self.gradients = Gradients(
            setup,
            training,
            scaling=self.scaling,
            device=process.device,
            on_change=on_change,
            may_recompute=may_recompute,
            forward=forward,
            ranks=process.ranks,
        )
        self._setup, self._plan = setup, setup.plan
        self._parameters = list(setup.model.parameters())  # listing them takes 0.5 ms
        self._training = training
        self._guard = guard
        self._ranks = process.ranks

    def run(self, step: int, *, lr: float) -> torch.Tensor:
        """Update the weights once.

        Args:
            step: Number of the step, from 0.
            lr: Learning rate of the step.

        Returns:
            The loss before the update, () float32, still on the device.
        """
        epoch, place = divmod(step, self._plan.steps_per_epoch)
        inputs, targets = self._setup.batches.get(epoch, place)  # (B, ...), (B, ...)
        if self._guard is not None:
            self._guard.check_batch(inputs, targets)
        if self._setup.freezer is not None:
            self._setup.freezer.apply(epoch)
        set_rate(self.optimizer, lr)

        self._ranks.begin_step(seed=self._training.seed, step=step)  # the seed of dropout
        loss = self.gradients.compute(inputs, targets)  # forward and backward pass; ()
        if self._training.clip_norm is not None:
            self.scaling.clip(self._parameters, most=self._training.clip_norm)

        if self._setup.freezer is not None:
            admit_thawed(self.optimizer)
        self.scaling.step()  # the optimiser's step, unless an fp16 gradient overflowed
        self.optimizer.zero_grad(set_to_none=True)
        if self.ema is not None:
            is_last = place + 1 == self._plan.steps_per_epoch or step + 1 == self._plan.steps
            self.ema.update(step, place=place, is_last=is_last)
        return loss

    def make_bare(self, step: int) -> Callable[[], None]:
        """Return a function that repeats a step on its batch alone, for measurements."""
        epoch, place = divmod(step, self._plan.steps_per_epoch)
        inputs, targets = self._setup.batches.get(epoch, place)

        def bare_step() -> None:
            self.gradients.compute_as_it_is(inputs, targets)
            self.scaling.step()
            self.optimizer.zero_grad(set_to_none=True)

        return bare_step
