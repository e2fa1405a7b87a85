import pytest
import torch

from redkiln.spec.job_spec import Training
from redkiln.spec.schedule import count_plateaus, learning_rate, warmup_fraction


def schedule_of(**fields):
    return Training(schedule=fields or "cosine").schedule


def rates(schedule, *, steps=100, start=0.4, losses=()):
    return [
        learning_rate(schedule, start=start, step=s, steps=steps, steps_per_epoch=10, losses=losses)
        for s in range(steps + 1)
    ]


def test_cosine_falls_from_the_rate_to_zero():
    values = rates(schedule_of())
    assert [values[0], values[50], values[100]] == pytest.approx([0.4, 0.2, 0.0])


def test_linear_falls_evenly_to_zero():
    values = rates(schedule_of(name="linear"))
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
    assert warmup_fraction(schedule_of(**schedule), falling=0.1) == share


def test_a_constant_schedule_keeps_the_rate():
    assert set(rates(schedule_of(name="constant"))) == {0.4}


@pytest.mark.parametrize("name", ["constant", "cosine", "linear"])
def test_a_warm_up_rises_to_the_rate_and_never_starts_at_zero(name):
    values = rates(schedule_of(name=name, warmup_fraction=0.1))
    assert values[0] > 0
    assert values[:11] == sorted(values[:11])
    assert values[10] == pytest.approx(0.4)
    assert max(values) == pytest.approx(0.4)


@pytest.mark.parametrize("fraction", ["auto", 0.2, 0.5])
@pytest.mark.parametrize("steps", [10, 37, 100])
def test_one_cycle_equals_that_of_torch(steps, fraction):
    schedule = schedule_of(name="one-cycle", warmup_fraction=fraction)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    share = 0.3 if fraction == "auto" else fraction
    torchs = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.4, total_steps=steps, pct_start=share
    )
    for step in range(steps):
        mine = learning_rate(schedule, start=0.4, step=step, steps=steps, steps_per_epoch=10)
        assert mine == pytest.approx(optimizer.param_groups[0]["lr"])
        optimizer.step()
        if step + 1 < steps:
            torchs.step()


def torchs_rates(make, *, epochs=10):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4)
    scheduler = make(optimizer)
    for _ in range(epochs):
        yield optimizer.param_groups[0]["lr"]
        optimizer.step()
        scheduler.step()


@pytest.mark.parametrize("every", [1, 3])
def test_stepwise_equals_that_of_torch(every):
    mine = rates(schedule_of(name="step", every=every, gamma=0.7))
    torchs = torchs_rates(lambda o: torch.optim.lr_scheduler.StepLR(o, every, gamma=0.7))
    assert mine[:100:10] == pytest.approx(list(torchs))
    assert mine[9] == mine[0]


def test_stepwise_falls_twice_in_a_run_by_default():
    values = rates(schedule_of(name="step"))
    assert sorted(set(values), reverse=True) == pytest.approx([0.4, 0.04, 0.004])
    assert [values.index(value) for value in sorted(set(values), reverse=True)] == [0, 40, 80]


def test_exponential_equals_that_of_torch():
    torchs = torchs_rates(lambda o: torch.optim.lr_scheduler.ExponentialLR(o, gamma=0.7))
    mine = rates(schedule_of(name="exponential", gamma=0.7))
    assert mine[:100:10] == pytest.approx(list(torchs))


@pytest.mark.parametrize("patience", [0, 1, 2])
def test_plateau_equals_that_of_torch(patience):
    losses = [1.0, 0.9, 0.95, 0.91, 0.89995, 0.8, 0.81, 0.82, 0.7, 0.75]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.4)
    torchs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=patience, factor=0.5)
    wanted = [0.4]
    for loss in losses:
        torchs.step(loss)
        wanted.append(optimizer.param_groups[0]["lr"])
    curve = [(10 * (epoch + 1), loss) for epoch, loss in enumerate(losses)]
    mine = rates(schedule_of(name="plateau", patience=patience, gamma=0.5), losses=curve)
    assert mine[::10] == pytest.approx(wanted)
    assert count_plateaus(losses, patience=patience) > 0


def test_plateau_needs_a_validation_split():
    with pytest.raises(ValueError, match="needs a validation split"):
        Training(schedule="plateau", validation_fraction=0.0)


def test_a_field_of_another_schedule_is_refused():
    with pytest.raises(ValueError, match="gamma"):
        schedule_of(name="cosine", gamma=0.5)
