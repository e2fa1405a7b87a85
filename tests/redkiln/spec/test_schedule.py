import pytest
import torch

from redkiln.spec.job_spec import Schedule
from redkiln.spec.schedule import learning_rate, warmup_fraction


def rates(schedule, *, steps=100, start=0.4):
    return [learning_rate(schedule, start=start, step=s, steps=steps) for s in range(steps + 1)]


def test_cosine_falls_from_the_rate_to_zero():
    values = rates(Schedule())
    assert [values[0], values[50], values[100]] == pytest.approx([0.4, 0.2, 0.0])


def test_linear_falls_evenly_to_zero():
    values = rates(Schedule(name="linear"))
    assert [values[0], values[25], values[100]] == pytest.approx([0.4, 0.3, 0.0])


@pytest.mark.parametrize(
    ("schedule", "share"),
    [
        ({"name": "cosine"}, 0.1),
        ({"name": "linear"}, 0.1),
        ({"name": "cosine", "warmup_fraction": 0.0}, 0.0),
        ({"name": "linear", "warmup_fraction": 0.3}, 0.3),
        ({"name": "constant"}, 0.0),
        ({"name": "one-cycle"}, 0.3),
    ],
)
def test_falling_schedules_warm_up_by_default_if_the_task_says_so(schedule, share):
    assert warmup_fraction(Schedule(**schedule), falling=0.1) == share


def test_a_constant_schedule_keeps_the_rate():
    assert set(rates(Schedule(name="constant"))) == {0.4}


@pytest.mark.parametrize("name", ["constant", "cosine", "linear"])
def test_a_warm_up_rises_to_the_rate_and_never_starts_at_zero(name):
    values = rates(Schedule(name=name, warmup_fraction=0.1))
    assert values[0] > 0
    assert values[:11] == sorted(values[:11])
    assert values[10] == pytest.approx(0.4)
    assert max(values) == pytest.approx(0.4)


@pytest.mark.parametrize("fraction", ["auto", 0.2, 0.5])
@pytest.mark.parametrize("steps", [10, 37, 100])
def test_one_cycle_equals_that_of_torch(steps, fraction):
    schedule = Schedule(name="one-cycle", warmup_fraction=fraction)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    share = 0.3 if fraction == "auto" else fraction
    torchs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.4, total_steps=steps, pct_start=share
    )
    for step in range(steps):
        mine = learning_rate(schedule, start=0.4, step=step, steps=steps)
        assert mine == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < steps:
            torchs.step()
