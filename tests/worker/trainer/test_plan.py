import pytest

from redkiln.spec.job_spec import Training
from worker.trainer.plan import plan_training


@pytest.mark.parametrize(
    ("training", "steps", "epochs"),
    [({"epochs": 3}, 36, 3), ({"steps": 30}, 30, 3), ({"steps": 24}, 24, 2), ({}, 120, 10)],
)
def test_a_plan_counts_full_batches(training, steps, epochs):
    plan = plan_training(Training(batch_size=8, **training), num_train=100)
    assert (plan.steps_per_epoch, plan.steps, plan.epochs) == (12, steps, epochs)
