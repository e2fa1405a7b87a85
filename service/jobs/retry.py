"""Decides, as values, what happens to a job whose attempt ended without success."""

from dataclasses import dataclass, replace

from redkiln.failure import FailureCode, JobFailure
from redkiln.views.job import Reason

POISON_DEATHS = 3
"""Workers that may die at the same step before the job is quarantined."""


@dataclass(frozen=True)
class Budgets:
    """How often a job has been restarted, and how often it may be restarted.

    Attributes:
        failures_used: Number of restarts after its trainer failed.
        losses_used: Number of restarts after its worker was lost.
        deaths_step: Step at which a worker died last; -1 before the first step, None if none has.
        deaths_at_step: Number of workers in a row that died at that step.
    """

    max_failures: int
    max_losses: int
    failures_used: int = 0
    losses_used: int = 0
    deaths_step: int | None = None
    deaths_at_step: int = 0


@dataclass(frozen=True)
class RetryDecision:
    """Whether to run the job again, why, and the budgets after this decision."""

    should_requeue: bool
    reason: Reason
    budgets: Budgets


def judge_failure(budgets: Budgets, failure: JobFailure) -> RetryDecision:
    """Decide after the trainer failed: requeue if a retry can help and the budget allows it."""
    reason = Reason(code=failure.code, message=failure.message, retryable=failure.retryable)
    if not failure.retryable or budgets.failures_used >= budgets.max_failures:
        return RetryDecision(False, reason, budgets)
    return RetryDecision(True, reason, replace(budgets, failures_used=budgets.failures_used + 1))


def judge_loss(budgets: Budgets, *, last_step: int | None, message: str) -> RetryDecision:
    """Decide after the worker was lost: requeue unless the job seems to kill its workers."""
    step = -1 if last_step is None else last_step
    deaths = budgets.deaths_at_step + 1 if budgets.deaths_step == step else 1
    budgets = replace(budgets, deaths_step=step, deaths_at_step=deaths)
    if deaths >= POISON_DEATHS:
        where = "before its first step" if step < 0 else f"at step {step}"
        text = f"{deaths} workers in a row died {where}, so the job is not given to another worker"
        return RetryDecision(False, Reason(code=FailureCode.QUARANTINED, message=text), budgets)
    reason = Reason(code=FailureCode.WORKER_LOST, message=message, retryable=True)
    if budgets.losses_used >= budgets.max_losses:
        return RetryDecision(False, reason, budgets)
    return RetryDecision(True, reason, replace(budgets, losses_used=budgets.losses_used + 1))
