import threading

import pytest

from redkiln.cli.view.sensors import MAX_POINTS, SensorFeed, Sensors
from redkiln.errors import ConnectionFailed, NotFound, Problem
from redkiln.views.metrics import TelemetrySeries


def series(name, points):
    return TelemetrySeries(
        name=name,
        at_ms=[at for at, _ in points],
        values=[value for _, value in points],
        num_points=len(points),
        downsampled=False,
    )


def test_courses_grow_and_stay_short():
    sensors = Sensors(clock=lambda: 0.0)
    for start in range(0, 200, 10):
        sensors.take([series("a", [(n, float(n)) for n in range(start, start + 10)])])
    assert sensors.courses["a"] == [float(n) for n in range(200 - MAX_POINTS, 200)]
    assert (sensors.newest_ms, sensors.current()) == (199, {"a": 199.0})


@pytest.mark.parametrize(
    ("error", "asks"),
    [(ConnectionFailed("http://127.0.0.1", "gone"), 3), (NotFound(Problem(status=404)), 2)],
)
def test_the_feed_survives_an_outage_but_not_a_refusal(error, asks):
    asked, done = [], threading.Event()

    def ask(after_ms):
        asked.append(after_ms)
        if len(asked) == 2:
            raise error
        if len(asked) == 3:
            done.set()
        return [series("a", [(1000 * len(asked), 1.0)])]

    feed = SensorFeed(Sensors(), ask, pause_seconds=0.001)
    with feed:
        assert done.wait(0.5 if asks == 2 else 5) is (asks == 3)
    assert asked[:2] == [None, 1000]
    assert len(asked) >= asks
