"""Another job's `checkpoint.safetensors` as initial weights.

Its metadata belong to the weights: `task`, `model` (from the resolved spec) and `reading`, which is
how samples become the network's inputs if the model alone does not say: a text's tokenizer, or a
table's columns with their categories and scales.
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
        """Return the value of `model.initial_weights` in a resolved spec.

        Args:
            pinned: The value in the spec before it is resolved.

        Raises:
            TrainingFailed: `pinned` names other weights.
        """
        origin = f"sha256 {hash_files((self.path,))}"
        check_pinned(pinned, origin, name=f"the checkpoint of {self.job_id}")
        return origin

    @property
    def reading(self) -> str:
        """How samples become the network's inputs, as the task stored it.

        Raises:
            TrainingFailed: the checkpoint does not contain it.
        """
        if "reading" not in self.metadata:
            message = (
                f"the checkpoint of {self.job_id} does not describe how its samples are read. If "
                "that job has a warning about this, no job can start from it. Otherwise it is of "
                "an earlier release: train it again"
            )
            raise refuse_start(message)
        return self.metadata["reading"]

    def parse_model(self, model_class: type[M]) -> M:
        """Return the model that was trained.

        Raises:
            TrainingFailed: the checkpoint is of another kind of model.
        """
        try:
            return model_class.model_validate_json(self.metadata["model"])
        except (KeyError, ValidationError) as error:
            message = f"the checkpoint of {self.job_id} is of an unknown model: {error}"
            raise refuse_start(message) from error


def open_job_checkpoint(
    pretrained: str, order: Order, *, others: frozenset[str] = frozenset()
) -> JobCheckpoint:
    """Open the checkpoint that `job:<id>` names; the agent has downloaded it.

    Args:
        pretrained: The name in the spec.
        order: The job's order.
        others: Further tasks whose weights the job's own task can start from.

    Raises:
        TrainingFailed: it no longer exists, is broken, or is of another task.
    """
    job_id = pretrained.removeprefix(JOB_PREFIX)
    if order.initial is None:
        message = (
            f"the checkpoint of {job_id} no longer exists because its job was deleted; choose "
            "another model.pretrained"
        )
        raise refuse_start(message)
    path = Path(order.initial)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
    except (OSError, safetensors.SafetensorError) as error:
        message = f"the checkpoint of {job_id} cannot be read: {error}"
        raise refuse_start(message) from error
    wanted = order.spec["task"]
    # Checkpoints of earlier releases do not name their task.
    if metadata.get("task", wanted) not in {wanted, *others}:
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
    """Load a job's weights, except those of a head for something else.

    Args:
        network: Network that receives the weights.
        checkpoint: The other job's checkpoint.
        head: Part of the network that may have another shape, or None.
        is_head_new: Whether to keep the network's own head even if the shapes match.
        remedy: Advice in case other weights do not fit.
        pointer: Place in the spec that is wrong in that case.

    Returns:
        Names of the tensors that were not loaded.

    Raises:
        TrainingFailed: weights outside the head do not fit.
    """
    theirs = safetensors.torch.load_file(checkpoint.path)
    own = network.state_dict()
    in_head = set() if head is None else _names_of(head, network)
    misfits = [k for k, v in own.items() if k not in theirs or theirs[k].shape != v.shape]
    new = [name for name in own if name in in_head and (is_head_new or name in misfits)]
    wrong = [name for name in misfits if name not in in_head]
    if wrong:
        message = (
            f"{len(wrong)} weights of {checkpoint.job_id} do not fit the model, the first is "
            f"{wrong[0]}; {remedy}"
        )
        raise refuse_start(message, pointer)
    network.load_state_dict({**own, **{name: theirs[name] for name in own if name not in new}})
    return new


def describe_initial_weights(pretrained: str | None, new: list[str]) -> str:
    """Return the message that says where training starts from, and which tensors are new."""
    what_is_new = f"; new weights: {', '.join(sorted(new))}" if new else ""
    return f"training starts from {pretrained}{what_is_new}"


def refuse_start(message: str, pointer: str = POINTER) -> TrainingFailed:
    """Return the failure of a job that cannot start from the weights it names."""
    return TrainingFailed(FailureCode.BAD_INPUT, message, pointer=pointer)


def _names_of(part: nn.Module, network: nn.Module) -> set[str]:
    tensors = {id(tensor) for tensor in part.state_dict(keep_vars=True).values()}
    return {k for k, v in network.state_dict(keep_vars=True).items() if id(v) in tensors}
