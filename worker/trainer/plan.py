"""How long a training is: its steps, and how many of them make an epoch."""

import math
from dataclasses import dataclass

from redkiln.spec.job_spec import Training


@dataclass(frozen=True)
class Plan:
    """How long training is. An epoch is `steps_per_epoch` full batches."""

    steps_per_epoch: int
    steps: int

    @property
    def epochs(self) -> int:
        """Epochs begun, the last one perhaps not finished."""
        return math.ceil(self.steps / self.steps_per_epoch)


def plan_training(training: Training, *, num_train: int) -> Plan:
    """The number of steps of a resolved spec."""
    assert training.batch_size != "auto"
    steps_per_epoch = num_train // training.batch_size
    if training.steps is not None:
        return Plan(steps_per_epoch, training.steps)
    assert training.epochs is not None
    return Plan(steps_per_epoch, training.epochs * steps_per_epoch)


def count_samples(training: Training, *, num_train: int, batch_size: int) -> int:
    """Samples that training will see, before its batch is settled.

    Args:
        training: whose length is wanted.
        num_train: samples in the training split.
        batch_size: that it is likely to come to.
    """
    if training.steps is not None:
        return training.steps * batch_size
    return (training.epochs or training.default_epochs) * num_train
