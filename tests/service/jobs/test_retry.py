import pytest

from redkiln.failure import FailureCode, JobFailure
from service.jobs.retry import POISON_DEATHS, Budgets, judge_failure, judge_loss

CRASH = JobFailure.of(FailureCode.CRASHED, "segfault")
BAD_INPUT = JobFailure.of(FailureCode.BAD_INPUT, "no such class")


@pytest.mark.parametrize(
    ("failure", "used", "allowed", "again"),
    [
        (CRASH, 0, 2, True),
        (CRASH, 1, 2, True),
        (CRASH, 2, 2, False),
        (CRASH, 0, 0, False),
        (BAD_INPUT, 0, 2, False),
    ],
)
def test_a_failure_is_retried_if_that_can_help_and_the_budget_allows_it(
    failure, used, allowed, again
):
    budgets = Budgets(max_failures=allowed, max_losses=0, failures_used=used)
    verdict = judge_failure(budgets, failure)
    assert verdict.should_requeue is again
    assert verdict.reason.code == failure.code
    assert verdict.budgets.failures_used == used + again
    assert verdict.budgets.losses_used == 0


@pytest.mark.parametrize(("used", "again"), [(0, True), (9, True), (10, False)])
def test_a_lost_worker_is_charged_to_its_own_budget(used, again):
    budgets = Budgets(max_failures=0, max_losses=10, losses_used=used)
    verdict = judge_loss(budgets, last_step=used * 100, message="gone")
    assert verdict.should_requeue is again
    assert verdict.reason.code == FailureCode.WORKER_LOST
    assert verdict.budgets.losses_used == used + again
    assert verdict.budgets.failures_used == 0


@pytest.mark.parametrize("step", [None, 0, 250])
def test_the_third_worker_dying_at_the_same_step_quarantines_the_job(step):
    budgets = Budgets(max_failures=2, max_losses=10)
    for _ in range(POISON_DEATHS - 1):
        verdict = judge_loss(budgets, last_step=step, message="gone")
        assert verdict.should_requeue
        budgets = verdict.budgets
    verdict = judge_loss(budgets, last_step=step, message="gone")
    assert not verdict.should_requeue
    assert verdict.reason.code == FailureCode.QUARANTINED


def test_workers_dying_at_different_steps_do_not_quarantine_the_job():
    budgets = Budgets(max_failures=2, max_losses=10)
    for step in (5, 5, 6, 6, 5, 5, None, None):
        verdict = judge_loss(budgets, last_step=step, message="gone")
        assert verdict.should_requeue
        budgets = verdict.budgets
