"""The length of a training: its steps, and how many of them make an epoch."""

import math
from dataclasses import dataclass

from redkiln.spec.job_spec import Training


@dataclass(frozen=True)
class Plan:
    """The length of a training. An epoch is `steps_per_epoch` full batches."""

    steps_per_epoch: int
    steps: int

    @property
    def epochs(self) -> int:
        """Number of epochs, counting an unfinished last one."""
        return math.ceil(self.steps / self.steps_per_epoch)


def plan_training(training: Training, *, num_train: int) -> Plan:
    """Return the number of steps of a resolved spec."""
    assert training.batch_size != "auto"
    steps_per_epoch = num_train // training.batch_size
    if training.steps is not None:
        return Plan(steps_per_epoch, training.steps)
    assert training.epochs is not None
    return Plan(steps_per_epoch, training.epochs * steps_per_epoch)


def count_samples(training: Training, *, num_train: int, batch_size: int) -> int:
    """Return how many samples training will process, before its batch size is chosen.

    Args:
        training: The spec's training section.
        num_train: Samples in the training split.
        batch_size: Expected batch size.
    """
    if training.steps is not None:
        return training.steps * batch_size
    return (training.epochs or training.default_epochs) * num_train
