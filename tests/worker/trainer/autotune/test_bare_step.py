import pytest

from worker.trainer.autotune.bare_step import measure, plan_steps


@pytest.mark.parametrize(
    ("step_seconds", "training_seconds", "num"),
    [
        (0.01, 1.0, 0),
        (0.01, 10.0, 7),
        (0.01, 30.0, 27),
        (0.001, 3600.0, 2000),
        # Where steps are slow a few of them are enough, still within the hundredth.
        (1.0, 3600.0, 3),
        (1.0, 500.0, 0),
    ],
)
def test_measuring_takes_a_hundredth_of_the_time_and_two_seconds_at_most(
    step_seconds, training_seconds, num
):
    assert plan_steps(step_seconds=step_seconds, training_seconds=training_seconds) == num
    assert (num + 3) * step_seconds <= 0.01 * training_seconds or num == 0


def test_a_bare_step_is_the_median_of_its_chunks():
    now = [0.0]
    costs = iter([5.0, 5.0, *[1.0] * 4, *[9.0] * 2, *[1.0] * 4])

    def step():
        now[0] += next(costs)

    found = measure(step, num_steps=10, synchronize=lambda: None, clock=lambda: now[0])
    assert (found.seconds, found.num_steps, found.flops) == (1.0, 10, None)
