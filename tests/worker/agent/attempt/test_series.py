import pytest

from worker.agent.attempt.series import FINE_POINTS, KEPT_POINTS, SeriesBuffer, choose_period_ms

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("age_ms", "period_ms"),
    [(0, 1000), (600_000, 1000), (HOUR_MS, 6000), (24 * HOUR_MS, 60_000), (10**12, 60_000)],
)
def test_points_become_sparser_as_an_attempt_ages(age_ms, period_ms):
    assert choose_period_ms(age_ms) == period_ms


def record(buffer, *, seconds, value=lambda _second: 1.0, name="gpu/0/power_watts"):
    for second in range(seconds):
        buffer.add({name: value(second)}, at_ms=1000 * second)


def test_the_first_minutes_are_kept_second_by_second():
    buffer = SeriesBuffer()
    record(buffer, seconds=60)
    assert [at for at, _ in buffer.peek()["gpu/0/power_watts"]] == [1000 * n for n in range(60)]


def test_hours_need_few_more_points_than_minutes():
    buffer = SeriesBuffer()
    record(buffer, seconds=4 * 3600)
    num_points = len(buffer.peek(10**6)["gpu/0/power_watts"])
    assert 2 * FINE_POINTS < num_points < 5 * FINE_POINTS


def test_a_point_is_the_mean_of_its_period_but_the_maximum_for_bytes():
    buffer = SeriesBuffer()
    for at_ms, value in ((0, 0.0), (400, 2.0), (1000, 4.0)):
        buffer.add({"gpu/0/busy_ratio": value, "host/memory_used_bytes": value}, at_ms=at_ms)
    points = buffer.peek()
    assert points["gpu/0/busy_ratio"] == [(0, 0.0), (1000, 3.0)]
    assert points["host/memory_used_bytes"] == [(0, 0.0), (1000, 4.0)]


def test_unacknowledged_points_are_kept():
    buffer = SeriesBuffer()
    record(buffer, seconds=5, name="a")
    sent = buffer.peek(2)
    buffer.add({"b": 1.0}, at_ms=5000)
    assert buffer.peek(2)["a"] == sent["a"]
    buffer.drop(sent)
    assert [at for at, _ in buffer.peek()["a"]] == [2000, 3000, 4000]
    assert len(buffer.peek()["b"]) == 1


def test_while_the_service_is_unreachable_the_points_are_bounded():
    buffer = SeriesBuffer()
    record(buffer, seconds=200_000)
    points = buffer.peek(10**6)["gpu/0/power_watts"]
    assert len(points) <= KEPT_POINTS
    assert points[-1][0] > 199_000_000 - 60_000


def test_a_silent_sensor_leaves_a_gap_instead_of_zeros():
    buffer = SeriesBuffer()
    buffer.add({"a": 1.0, "b": 1.0}, at_ms=0)
    buffer.add({"b": 2.0}, at_ms=1000)
    assert {name: len(points) for name, points in buffer.peek().items()} == {"a": 1, "b": 2}
