import pytest

from worker.hardware.benchmark.timing import (
    MAX_REPEATS,
    Budget,
    count_repeats,
    time_by_turns,
    time_once,
)


class Clock:
    """Rises only by what the calls take."""

    def __init__(self):
        self.now = 0.0
        self.called = []

    def __call__(self):
        return self.now

    def work(self, name, seconds):
        def call():
            self.called.append(name)
            self.now += seconds

        return call


def run(clock, calls, *, seconds=100.0, rounds=15):
    return time_by_turns(
        {name: clock.work(name, each) for name, each in calls.items()},
        synchronize=lambda: None,
        budget=Budget(seconds, rounds),
        clock=clock,
    )


def test_every_call_gets_as_many_samples_as_there_are_rounds():
    samples = run(Clock(), {"a": 0.5, "b": 0.25}, rounds=7)
    assert samples == {"a": [0.5] * 7, "b": pytest.approx([0.25] * 7)}


def test_compared_calls_alternate_in_changing_order():
    clock = Clock()
    run(clock, {"a": 0.5, "b": 0.5}, rounds=4)
    assert "".join(clock.called[2:]) == "abbaabba"


def test_at_least_three_rounds_run_and_none_begins_after_the_time():
    assert len(run(Clock(), {"a": 1.0}, seconds=6.5, rounds=100)["a"]) == 6
    assert len(run(Clock(), {"a": 1.0}, seconds=3.0, rounds=100)["a"]) == 3


def test_a_call_slower_than_its_share_is_sampled_once():
    samples = run(Clock(), {"slow": 10.0, "fast": 0.1}, seconds=20.0)
    assert samples["slow"] == [10.0]
    assert len(samples["fast"]) == 15


@pytest.mark.parametrize(
    ("seconds", "repeats"), [(1.0, 1), (0.02, 1), (0.01, 2), (0.003, 7), (0.0, MAX_REPEATS)]
)
def test_short_calls_are_repeated_until_a_sample_is_long_enough(seconds, repeats):
    assert count_repeats(seconds) == repeats


def test_the_device_is_synchronised_around_each_sample():
    story = []
    clock_values = iter([0.0, 6.0])

    def clock():
        story.append("clock")
        return next(clock_values)

    seconds = time_once(
        lambda: story.append("call"), 2, synchronize=lambda: story.append("wait"), clock=clock
    )
    assert story == ["wait", "clock", "call", "call", "wait", "clock"]
    assert seconds == 3.0
