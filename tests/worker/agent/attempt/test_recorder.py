import time

import pytest

from redkiln.views.hardware import GpuTelemetry
from tests.waiting import Clock
from worker.agent.attempt.group import Usage
from worker.agent.attempt.recorder import Recorder, read_gpu_sensors


@pytest.fixture
def clock():
    return Clock(100.0)


def test_sensors_are_named_by_the_index_of_their_gpu():
    gpus = [
        GpuTelemetry(busy_ratio=0.5, power_watts=200.0, junction_celsius=71.0, edge_celsius=60.0),
        None,
        GpuTelemetry(edge_celsius=55.0, core_clock_hz=2_000_000_000),
    ]
    assert read_gpu_sensors(gpus) == {
        "gpu/0/busy_ratio": 0.5,
        "gpu/0/power_watts": 200.0,
        "gpu/0/junction_celsius": 71.0,
        "gpu/2/edge_celsius": 55.0,
        "gpu/2/core_clock_hz": 2e9,
    }


def test_cpu_time_becomes_a_share_of_all_cores(clock):
    usages = iter([Usage(10.0, 500), Usage(13.0, 700)])
    recorder = Recorder(num_cores=4, read_usage=lambda _: next(usages), clock=clock)
    recorder.follow(1)
    recorder.record()
    clock.now += 1.5
    recorder.record()
    series = recorder.series.peek()
    assert [value for _, value in series["host/cpu_ratio"]] == [0.5]
    assert [value for _, value in series["host/memory_used_bytes"]] == [500, 700]


def test_the_next_process_group_does_not_inherit_the_previous_ones_time(clock):
    usages = iter([Usage(10.0, 1), Usage(0.5, 1), Usage(1.0, 1)])
    recorder = Recorder(num_cores=1, read_usage=lambda _: next(usages), clock=clock)
    recorder.follow(1)
    recorder.record()
    recorder.rest()
    recorder.record()
    recorder.follow(2)
    for _ in range(2):
        clock.now += 1.0
        recorder.record()
    assert [value for _, value in recorder.series.peek()["host/cpu_ratio"]] == [0.5]


def test_times_are_wall_times_that_never_decrease(clock):
    before_ms = time.time() * 1000
    recorder = Recorder(num_cores=1, read_usage=lambda _: Usage(0.0, 1), clock=clock)
    recorder.follow(1)
    recorder.record()
    ((at_ms, _),) = recorder.series.peek()["host/memory_used_bytes"]
    assert before_ms - 1 <= at_ms <= time.time() * 1000 + 1


def test_the_cost_of_reading_is_measured(clock):
    def slow(_group):
        clock.now += 0.25
        return Usage(0.0, 1)

    recorder = Recorder(num_cores=1, read_usage=slow, clock=clock)
    assert recorder.mean_seconds is None
    recorder.follow(1)
    assert recorder.record() == pytest.approx(0.25)
    assert recorder.mean_seconds == pytest.approx(0.25)


def test_a_failing_sensor_ends_telemetry_and_nothing_else():
    def broken(_group):
        raise ValueError("no such file")

    recorder = Recorder(num_cores=1, read_usage=broken)
    recorder.follow(1)
    recorder.start()
    recorder.halt()
    assert recorder.series.peek() == {}
