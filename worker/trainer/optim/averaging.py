"""Averages the gradients of one batch over the ranks that share it.

The first steps of a process work sequentially: every rank computes its gradients, all report
whether they had enough memory, and then the gradients are averaged. So a batch that does not fit is
split on all ranks at once. After that, torch's DistributedDataParallel averages a layer's gradients
while those of the next one are computed. A rank that runs out of memory then ends the whole
attempt, and the job resumes from its last checkpoint, again with sequential first steps.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from redkiln.failure import FailureCode
from worker.process.event_log import EventLog
from worker.process.failed import TrainingFailed
from worker.trainer.ranks.distributed import Ranks
from worker.trainer.setup import TrainingSetup

CAREFUL_STEPS = 3
"""The first step creates the optimiser's state, the second is the first to use it; one more to be
safe."""


class Averaging:
    """Averages over ranks what a model's backward passes compute; does nothing in a single process.

    Args:
        model: Model whose parameters are trained.
        ranks: Ranks that share its batches.
        device: Device of the model.
    """

    def __init__(self, model: nn.Module, ranks: Ranks, *, device: torch.device) -> None:
        self._model = model
        self._ranks = ranks
        self._device = device
        self._parallel: DistributedDataParallel | None = None
        self._forward: Callable[..., Any] | None = None
        self._num_careful = 0
        self._has_unused = False
        self._trained = self._list_trained()

    @property
    def is_careful(self) -> bool:
        """Whether ranks agree on memory before they average."""
        return not self._ranks.is_alone and self._parallel is None

    def begin(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that a batch's micro steps must call.

        Args:
            forward: The model, or its compiled version.
        """
        if self._ranks.is_alone:
            return forward
        if self._forward is not forward or self._has_changed():
            self._forward = forward
            self.start_over()
        if self._num_careful < CAREFUL_STEPS:
            return forward
        if self._parallel is None:
            self._parallel = self._wrap(forward)
        return self._parallel

    def start_over(self) -> None:
        """Work sequentially again, because memory is used differently from now on."""
        self._parallel = None
        self._num_careful = 0

    def micro_step(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Return the context of a micro step: only the last one of a batch exchanges gradients."""
        if self._parallel is None or is_last:
            return nullcontext()
        held: AbstractContextManager[None] = self._parallel.no_sync()
        return held

    def finish(self) -> None:
        """Average the gradients after the last micro step, so they are those of the whole batch."""
        if not self.is_careful:
            return
        self._num_careful += 1
        trained = self._list_trained()
        # Which layers are used may differ between ranks, but all ranks must sum the same ones.
        taking_part = [0.0 if parameter.grad is None else 1.0 for parameter in trained]
        counts = self._ranks.sum(torch.tensor(taking_part, device=self._device)).tolist()
        self._has_unused = self._has_unused or min(counts) < self._ranks.size
        for parameter, count in zip(trained, counts, strict=True):
            if count and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if parameter.grad is not None:
                self._ranks.sum(parameter.grad).div_(self._ranks.size)

    def _wrap(self, forward: Callable[..., Any]) -> DistributedDataParallel:
        module = forward if isinstance(forward, nn.Module) else self._model
        return DistributedDataParallel(
            module,
            device_ids=[self._device.index] if self._device.type == "cuda" else None,
            # On GPUs batch norm synchronises itself; only the first rank's buffers are kept.
            broadcast_buffers=False,
            gradient_as_bucket_view=True,
            find_unused_parameters=self._has_unused,
        )

    def _has_changed(self) -> bool:
        trained = self._list_trained()
        has_changed = len(trained) != len(self._trained)
        self._trained = trained
        return has_changed

    def _list_trained(self) -> list[nn.Parameter]:
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]


def share_work(
    setup: TrainingSetup, ranks: Ranks, *, device: torch.device, event_log: EventLog
) -> None:
    """Make each rank compute its part of each batch, with batch norm over all parts on GPUs.

    Raises:
        TrainingFailed: a batch has fewer samples than there are ranks.
    """
    if ranks.is_alone:
        return
    training = setup.spec.training
    assert training.batch_size != "auto"
    share = training.batch_size // ranks.size
    if share < 1:
        message = (
            f"a batch of {training.batch_size} has fewer samples than {ranks.size} GPUs; "
            "raise training.batch_size or lower resources.gpus"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/training/batch_size")
    training.accumulation = min(training.accumulation, share)
    setup.batches.ranks = ranks
    text = f"{ranks.size} ranks share each batch of {training.batch_size}"
    if has_batch_norm(setup.model) and device.type == "cuda":
        nn.SyncBatchNorm.convert_sync_batchnorm(setup.model)  # type: ignore[no-untyped-call]
        text += "; batch norm uses the whole batch, over all ranks"
    elif has_batch_norm(setup.model):
        text += "; on a CPU batch norm uses one rank's part, so results differ slightly"
    event_log.message(text)


def share_weights(model: nn.Module, ranks: Ranks) -> None:
    """Copy the first rank's weights to all, because only that rank may have loaded them."""
    if ranks.is_alone:
        return
    with torch.no_grad():
        for tensor in model.state_dict().values():
            # Not every backend can send other memory layouts.
            packed = tensor.contiguous()
            ranks.copy_first(packed)
            tensor.copy_(packed)


def has_batch_norm(model: nn.Module) -> bool:
    """Return whether a layer of the model depends on the other samples of a batch."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    return any(isinstance(module, kinds) for module in model.modules())
