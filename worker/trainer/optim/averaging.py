"""Gradients of one batch, whose parts lie on several ranks, made one.

The first steps of a process are made one thing after another: every rank makes its gradients, all
say whether they had the memory for it, and then they are averaged. So a batch that does not fit is
split on all ranks at once. After that torch's DistributedDataParallel averages a layer's gradients
while those of the next are made; a rank that runs out of memory there takes the attempt along,
which goes on from its last checkpoint, with the first steps again.
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
"""The first builds the optimiser's state, the second is the first that has it; and one to spare."""


class Averaging:
    """Averages over ranks what a model's backward passes leave; nothing for a job in one process.

    Args:
        model: whose parameters are trained.
        ranks: that share its batches.
        device: that it lies on.
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
        """What a batch's micro steps have to call.

        Args:
            forward: the model, or what stands for it (a compiler's version of it).
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
        """Be careful again: memory is used in another way from now on."""
        self._parallel = None
        self._num_careful = 0

    def micro_step(self, *, is_last: bool) -> AbstractContextManager[None]:
        """Within it a micro step is made: gradients are exchanged in the last one of a batch."""
        if self._parallel is None or is_last:
            return nullcontext()
        held: AbstractContextManager[None] = self._parallel.no_sync()
        return held

    def finish(self) -> None:
        """After the last micro step: the gradients are those of the whole batch."""
        if not self.is_careful:
            return
        self._num_careful += 1
        trained = self._list_trained()
        # Which layers take part may differ between ranks, and all must sum the same ones.
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
            # Batch norm is synchronised itself on GPUs; the first rank's buffers are the ones kept.
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
    """Have each rank make its part of each batch, and batch norm see the whole of it where it can.

    Raises:
        TrainingFailed: a batch has not a sample for each rank.
    """
    if ranks.is_alone:
        return
    training = setup.spec.training
    assert training.batch_size != "auto"
    share = training.batch_size // ranks.size
    if share < 1:
        message = (
            f"a batch of {training.batch_size} has not a sample for each of {ranks.size} GPUs; "
            "raise training.batch_size or lower resources.gpus"
        )
        raise TrainingFailed(FailureCode.BAD_INPUT, message, pointer="/training/batch_size")
    training.accumulation = min(training.accumulation, share)
    setup.batches.ranks = ranks
    text = f"{ranks.size} ranks share each batch of {training.batch_size}"
    if has_batch_norm(setup.model) and device.type == "cuda":
        nn.SyncBatchNorm.convert_sync_batchnorm(setup.model)  # type: ignore[no-untyped-call]
        text += "; batch norm sees the whole of it, over all ranks"
    elif has_batch_norm(setup.model):
        text += "; on a CPU batch norm sees one rank's part of it, so results differ a little"
    event_log.message(text)


def share_weights(model: nn.Module, ranks: Ranks) -> None:
    """Have every rank begin with the first one's weights, which alone may have been fetched."""
    if ranks.is_alone:
        return
    with torch.no_grad():
        for tensor in model.state_dict().values():
            # Other layouts of memory are not sent by every backend.
            packed = tensor.contiguous()
            ranks.copy_first(packed)
            tensor.copy_(packed)


def has_batch_norm(model: nn.Module) -> bool:
    """Whether a layer of the model depends on the other samples of a batch."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)
    return any(isinstance(module, kinds) for module in model.modules())
