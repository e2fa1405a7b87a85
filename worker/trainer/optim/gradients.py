"""Computes the gradients of a batch, in as many micro steps as the device's memory requires.

A batch that does not fit is split into twice as many parts and computed again; the update remains
that of the whole batch. Only batch norm differs, because it uses one part at a time. If even the
smallest part does not fit, activations are recomputed in the backward pass from then on.

Shapes
    B        samples of the batch on this rank, computed in P = `accumulation` parts
    inputs   (B, ...), or several of them; `some` is a part, (B/P, ...)
    targets  (B, ...); `wanted` is a part, (B/P, ...)
    outputs  (B/P, ...) in the autocast's type, and float32 for the loss
    loss     () float32: the part's share of the mean over the whole batch, so that parts add up
"""

from collections.abc import Callable
from typing import Any

import torch

from redkiln.spec.job_spec import Training
from worker.process.failed import TrainingFailed, of_exception
from worker.trainer.devices import autocast_of
from worker.trainer.inputs import Inputs, split_inputs
from worker.trainer.optim.averaging import Averaging, has_batch_norm
from worker.trainer.optim.recompute import recompute_activations
from worker.trainer.optim.scaling import LossScaling
from worker.trainer.ranks.distributed import ALONE, Ranks
from worker.trainer.setup import TrainingSetup


class Gradients:
    """Computes gradients, batch after batch.

    Args:
        setup: The job whose model and loss are used.
        training: Training section of its spec; `accumulation` rises when memory runs out.
        scaling: Scaling of the loss.
        device: Device that it runs on.
        on_change: Called with a message about what changed when memory ran out.
        forward: Called with a micro step's inputs. None: the model.
        may_recompute: Whether gradient checkpointing is allowed as the last resort.
        ranks: Ranks that share each batch.

    Attributes:
        forward: Called with a micro step's inputs: the model, possibly compiled.
    """

    def __init__(
        self,
        setup: TrainingSetup,
        training: Training,
        *,
        scaling: LossScaling,
        device: torch.device,
        on_change: Callable[[str], None],
        may_recompute: bool = False,
        forward: Callable[..., Any] | None = None,
        ranks: Ranks = ALONE,
    ) -> None:
        self.forward: Callable[..., Any] = setup.model if forward is None else forward
        self._ranks = ranks
        self._averaging = Averaging(setup.model, ranks, device=device)
        self._setup = setup
        self._training = training
        self._scaling = scaling
        self._device = device
        self._on_change = on_change
        self._may_recompute = may_recompute
        self._recomputes = False

    def compute(self, inputs: Inputs, targets: torch.Tensor) -> torch.Tensor:
        """Add a batch's gradients to the model's and return the mean loss, still on the device.

        Each of several ranks passes its share of the batch and gets its part of the mean loss; the
        parts add up to it. The gradients are those of the whole batch on every rank.

        Raises:
            torch.OutOfMemoryError: even the smallest micro step does not fit.
        """
        if self._training.gradient_checkpointing == "on" and not self._recomputes:
            self._recompute()
        while True:
            loss = self._try(inputs, targets)
            if loss is not None:
                return loss
            # Outside the handler of the error, which keeps every tensor of the step alive.
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
            self._make_room(self._smallest_share(len(targets)))

    def compute_as_it_is(self, inputs: Inputs, targets: torch.Tensor) -> torch.Tensor:
        """Do the same as `compute` for measurements: nothing changes if memory runs out.

        Raises:
            torch.OutOfMemoryError: the batch does not fit with the current micro steps.
        """
        return self._accumulate(self.forward, inputs, targets)

    def _try(self, inputs: Inputs, targets: torch.Tensor) -> torch.Tensor | None:
        loss: torch.Tensor | None = None
        forward = self._averaging.begin(self.forward)
        try:
            loss = self._accumulate(forward, inputs, targets)
        except torch.OutOfMemoryError as error:
            is_last_word = not (
                self._can_split(self._smallest_share(len(targets))) or self._may_recompute
            )
            if is_last_word or not (self._ranks.is_alone or self._averaging.is_careful):
                raise self._give_up(error) from None
        if self._averaging.is_careful and self._ranks.any(loss is None):
            loss = None  # some rank ran out of memory, and all must continue in the same way
        if loss is None:
            self._setup.model.zero_grad(set_to_none=True)
            return None
        self._averaging.finish()
        return loss

    def _give_up(self, error: torch.OutOfMemoryError) -> Exception:
        if self._ranks.is_alone:
            return error
        # The other ranks wait for gradients that will not come. After resuming from the last
        # checkpoint, the first steps find again what fits.
        failure = of_exception(error, device=f"{self._device} (rank {self._ranks.rank})")
        is_worth_it = not self._averaging.is_careful
        return TrainingFailed.from_failure(failure.model_copy(update={"retryable": is_worth_it}))

    def _accumulate(
        self, forward: Callable[..., Any], inputs: Inputs, targets: torch.Tensor
    ) -> torch.Tensor:
        parts, size = self._training.accumulation, self._ranks.size
        num_global = self._num_global(len(targets))
        total: torch.Tensor | None = None
        pieces = zip(split_inputs(inputs, parts), targets.tensor_split(parts), strict=True)
        for number, (some, wanted) in enumerate(pieces, start=1):
            with self._averaging.micro_step(is_last=number == parts):
                with autocast_of(self._device, self._training.precision):
                    outputs = forward(*some)  # (B/P, ...)
                loss = self._setup.loss(outputs.float(), wanted)  # (), the mean over the part
                if len(wanted) < num_global:
                    loss = loss * (len(wanted) / num_global)
                # Averaging divides by the number of ranks.
                wide = loss if size == 1 else loss * size
                self._scaling.scale(wide).backward()  # type: ignore[no-untyped-call]
            total = loss.detach() if total is None else total + loss.detach()
        assert total is not None
        return total

    def _num_global(self, num_samples: int) -> int:
        batch_size = self._training.batch_size
        return num_samples if self._ranks.is_alone or batch_size == "auto" else batch_size

    def _smallest_share(self, num_samples: int) -> int:
        """Return the size of the smallest share of a batch, which is the same on every rank."""
        return self._num_global(num_samples) // self._ranks.size

    def _can_split(self, batch_size: int) -> bool:
        return 2 * self._training.accumulation <= batch_size // self._smallest_part()

    def _make_room(self, batch_size: int) -> None:
        if self._can_split(batch_size):
            self._split(batch_size)
            return
        self._training.gradient_checkpointing = "on"
        how = self._recompute()
        self._on_change(
            "the device ran out of memory with the smallest micro step; activations are now "
            f"recomputed instead of kept ({how}), which takes a third longer"
        )

    def _recompute(self) -> str:
        self._may_recompute = False
        self._recomputes = True
        self._averaging.start_over()
        # A compiled forward pass chooses itself which activations to keep.
        self.forward = self._setup.model
        self._training.compile = "off"
        return recompute_activations(self._setup.model)

    def _split(self, batch_size: int) -> None:
        self._averaging.start_over()
        self._training.accumulation *= 2
        parts = self._training.accumulation
        text = (
            f"the device ran out of memory; a step is now made of {parts} micro steps of "
            f"{-(-batch_size // parts)} samples{self._on_each()}, and its batch is still "
            f"{self._num_global(batch_size)}"
        )
        if has_batch_norm(self._setup.model):
            text += "; batch norm now uses one micro step at a time, so results differ slightly"
        self._on_change(text)

    def _on_each(self) -> str:
        return "" if self._ranks.is_alone else f" on each of {self._ranks.size} ranks"

    def _smallest_part(self) -> int:
        # Batch norm cannot normalise a single value.
        return 2 if has_batch_norm(self._setup.model) else 1
