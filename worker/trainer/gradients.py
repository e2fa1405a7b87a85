"""The gradients of a batch, in as many micro steps as the device's memory asks for.

A batch that does not fit is split into twice as many parts and made again; the update that follows
is that of the whole batch all the same. Only batch norm, which sees one part at a time, differs.
Where not even the smallest part fits, activations are computed twice from then on.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from redkiln.spec import Training
from worker.trainer.devices import autocast_of
from worker.trainer.inputs import Inputs, split_inputs
from worker.trainer.recompute import recompute_activations
from worker.trainer.scaling import LossScaling
from worker.trainer.work import Work


class Gradients:
    """Makes gradients, batch after batch.

    Args:
        work: whose model and loss.
        training: of its spec; `accumulation` rises when memory runs out.
        scaling: of the loss.
        device: that it runs on.
        on_change: told what was changed when memory ran out.
        may_recompute: whether gradient checkpointing is allowed as the last resort.

    Attributes:
        forward: what is called with a micro step's inputs: the model, or it through a compiler.
    """

    def __init__(
        self,
        work: Work,
        training: Training,
        *,
        scaling: LossScaling,
        device: torch.device,
        on_change: Callable[[str], None],
        may_recompute: bool = False,
    ) -> None:
        self.forward: Callable[..., Any] = work.model
        self._work = work
        self._training = training
        self._scaling = scaling
        self._device = device
        self._on_change = on_change
        self._may_recompute = may_recompute
        self._recomputes = False

    def compute(self, inputs: Inputs, targets: torch.Tensor) -> torch.Tensor:
        """Add a batch's gradients to its model's; the mean loss, still on the device.

        Raises:
            torch.OutOfMemoryError: not even the smallest micro step fits.
        """
        if self._training.gradient_checkpointing == "on" and not self._recomputes:
            self._recompute()
        while True:
            loss = self._try(inputs, targets)
            if loss is not None:
                return loss
            # Behind the handler of the error, which keeps every tensor of the step alive.
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
            self._make_room(len(targets))

    def _try(self, inputs: Inputs, targets: torch.Tensor) -> torch.Tensor | None:
        try:
            return self._accumulate(inputs, targets)
        except torch.OutOfMemoryError:
            if not self._can_split(len(targets)) and not self._may_recompute:
                raise
            self._work.model.zero_grad(set_to_none=True)
            return None

    def _accumulate(self, inputs: Inputs, targets: torch.Tensor) -> torch.Tensor:
        parts = self._training.accumulation
        total: torch.Tensor | None = None
        for some, wanted in zip(
            split_inputs(inputs, parts), targets.tensor_split(parts), strict=True
        ):
            with autocast_of(self._device, self._training.precision):
                outputs = self.forward(*some)
            loss = self._work.loss(outputs.float(), wanted)
            if parts > 1:
                loss = loss * (len(wanted) / len(targets))
            self._scaling.scale(loss).backward()  # type: ignore[no-untyped-call]
            total = loss.detach() if total is None else total + loss.detach()
        assert total is not None
        return total

    def _can_split(self, batch_size: int) -> bool:
        return 2 * self._training.accumulation <= batch_size // self._smallest_part()

    def _make_room(self, batch_size: int) -> None:
        if self._can_split(batch_size):
            self._split(batch_size)
            return
        self._training.gradient_checkpointing = "on"
        how = self._recompute()
        self._on_change(
            "the device's memory was not enough for the smallest micro step: activations are now "
            f"computed a second time instead of being kept ({how}), which takes a third longer"
        )

    def _recompute(self) -> str:
        self._may_recompute = False
        self._recomputes = True
        # A compiled forward pass decides for itself what it keeps.
        self.forward = self._work.model
        return recompute_activations(self._work.model)

    def _split(self, batch_size: int) -> None:
        self._training.accumulation *= 2
        parts = self._training.accumulation
        text = (
            f"the device's memory was not enough: a step is now made of {parts} micro steps of "
            f"{-(-batch_size // parts)} samples, and its batch is {batch_size} as before"
        )
        if self._has_batch_norm():
            text += "; batch norm now sees one micro step at a time, so results differ a little"
        self._on_change(text)

    def _smallest_part(self) -> int:
        # Batch norm cannot normalise a single value.
        return 2 if self._has_batch_norm() else 1

    def _has_batch_norm(self) -> bool:
        kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
        return any(isinstance(module, kinds) for module in self._work.model.modules())
