"""What another job left to start from: its `checkpoint.safetensors`.

Its metadata say what belongs to the weights: `task`, `model` (the resolved spec's) and `reading`,
which is how samples become the network's inputs where that does not follow from the model alone: a
text's tokenizer, a table's columns with their categories and scales.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import safetensors
import safetensors.torch
from pydantic import BaseModel, ValidationError
from torch import nn

from redkiln.failure import FailureCode
from redkiln.spec.job_weights import JOB_PREFIX
from worker.jobdir import Order
from worker.process.failed import TrainingFailed
from worker.trainer.models.hub import POINTER, check_pinned, hash_files

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class JobCheckpoint:
    """Another job's checkpoint on this host."""

    job_id: str
    path: Path
    metadata: Mapping[str, str]

    def find_origin(self, pinned: str | None) -> str:
        """What a resolved spec has as `model.initial_weights`.

        Args:
            pinned: what it has before it is resolved.

        Raises:
            TrainingFailed: that names other weights.
        """
        origin = f"sha256 {hash_files((self.path,))}"
        check_pinned(pinned, origin, name=f"the checkpoint of {self.job_id}")
        return origin

    @property
    def reading(self) -> str:
        """How samples become the network's inputs, as the task wrote it down.

        Raises:
            TrainingFailed: it is of a release that did not.
        """
        if "reading" not in self.metadata:
            message = (
                f"the checkpoint of {self.job_id} does not say how its samples are read: it was "
                "made by an earlier release (train that job again with this one, and start from "
                "the new one), or that was too large (a warning of the job says so)"
            )
            raise refuse_start(message)
        return self.metadata["reading"]

    def parse_model(self, model_class: type[M]) -> M:
        """The model that was trained.

        Raises:
            TrainingFailed: it is none of this class.
        """
        try:
            return model_class.model_validate_json(self.metadata["model"])
        except (KeyError, ValidationError) as error:
            message = f"the checkpoint of {self.job_id} is of a model that is not known: {error}"
            raise refuse_start(message) from error


def open_job_checkpoint(pretrained: str, order: Order) -> JobCheckpoint:
    """Open what `job:<id>` names; the agent has brought it along.

    Raises:
        TrainingFailed: it is gone, broken, or another task's.
    """
    job_id = pretrained.removeprefix(JOB_PREFIX)
    if order.initial is None:
        message = f"the checkpoint of {job_id} is not there any more; its job was deleted"
        raise refuse_start(message)
    path = Path(order.initial)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        message = f"the checkpoint of {job_id} cannot be read: {error}"
        raise refuse_start(message) from error
    wanted = order.spec["task"]
    # Checkpoints of earlier releases do not say.
    if metadata.get("task", wanted) != wanted:
        raise refuse_start(f"{job_id} trained for {metadata['task']}, not for {wanted}")
    return JobCheckpoint(job_id, path, metadata)


def take_weights(
    network: nn.Module,
    checkpoint: JobCheckpoint,
    *,
    head: nn.Module | None,
    is_head_new: bool = False,
    remedy: str,
    pointer: str,
) -> list[str]:
    """Take a job's weights over, all but those of a head that is for something else.

    Args:
        network: that takes them.
        checkpoint: that has them.
        head: part of the network that may have another shape; None where there is none.
        is_head_new: the head stays as it is even where its shape is the same.
        remedy: what to do where the rest does not fit.
        pointer: to the place in the spec that is then at fault.

    Returns:
        Names of the tensors that were not taken.

    Raises:
        TrainingFailed: the rest of them does not fit.
    """
    theirs = safetensors.torch.load_file(checkpoint.path)
    own = network.state_dict()
    in_head = set() if head is None else _names_of(head, network)
    misfits = [k for k, v in own.items() if k not in theirs or theirs[k].shape != v.shape]
    new = [name for name in own if name in in_head and (is_head_new or name in misfits)]
    wrong = [name for name in misfits if name not in in_head]
    if wrong:
        message = (
            f"the weights of {checkpoint.job_id} do not fit in {len(wrong)} places, {wrong[0]} the "
            f"first; {remedy}"
        )
        raise refuse_start(message, pointer)
    network.load_state_dict({**own, **{name: theirs[name] for name in own if name not in new}})
    return new


def tell_start(pretrained: str | None, new: list[str]) -> str:
    """What the job's owner is told: where training starts, and which tensors do not."""
    what_is_new = f"; new are {', '.join(sorted(new))}" if new else ""
    return f"training starts from {pretrained}{what_is_new}"


def refuse_start(message: str, pointer: str = POINTER) -> TrainingFailed:
    """The failure of a job that cannot start from what it names."""
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)


def _names_of(part: nn.Module, network: nn.Module) -> set[str]:
    tensors = {id(tensor) for tensor in part.state_dict(keep_vars=True).values()}
    return {k for k, v in network.state_dict(keep_vars=True).items() if id(v) in tensors}
