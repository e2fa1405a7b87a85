"""Decides whether training goes back after diverging, and with which learning rate."""

from redkiln.failure import FailureCode, JobFailure
from redkiln.spec.job_spec import Training

FACTOR = 0.5
"""Factor for the learning rate at each rollback."""
MAX_ROLLBACKS = 3
"""After this many the rate is an eighth of the original, and an even lower one would not help."""


def may_roll_back(failure: JobFailure, training: Training, *, num_rollbacks: int) -> bool:
    """Return whether training goes back to its last good checkpoint instead of failing.

    Args:
        failure: Failure that would end the run.
        training: Training section of its spec.
        num_rollbacks: Number of rollbacks so far.
    """
    return (
        failure.code is FailureCode.DIVERGED
        and training.on_divergence == "rollback"
        and num_rollbacks < MAX_ROLLBACKS
    )


def describe_rollback(failure: JobFailure, *, step: int, lr: float, num_rollbacks: int) -> str:
    """Describe the rollback, as a message to the user."""
    return (
        f"{failure.message} Training went back to step {step} and continues from there with half "
        f"the learning rate, {lr:g} (rollback {num_rollbacks} of at most {MAX_ROLLBACKS})"
    )
