"""Going back after a divergence: whether, and to which rate."""

from redkiln.failure import FailureCode, JobFailure
from redkiln.spec.job_spec import Training

FACTOR = 0.5
"""What the learning rate is multiplied by each time."""
MAX_ROLLBACKS = 3
"""Then the rate is an eighth of what was asked for: a lower one is not what is missing."""


def may_roll_back(failure: JobFailure, training: Training, *, num_rollbacks: int) -> bool:
    """Whether training goes back to its last good checkpoint instead of failing.

    Args:
        failure: that would end the run.
        training: of its spec.
        num_rollbacks: that there were before.
    """
    return (
        failure.code is FailureCode.DIVERGED
        and training.on_divergence == "rollback"
        and num_rollbacks < MAX_ROLLBACKS
    )


def describe_rollback(failure: JobFailure, *, step: int, lr: float, num_rollbacks: int) -> str:
    """What happened and how it goes on, for people."""
    return (
        f"{failure.message} Instead of stopping, training went back to step {step} and goes on "
        f"from there with half the learning rate, {lr:g} ({num_rollbacks} of at most "
        f"{MAX_ROLLBACKS} times)"
    )
