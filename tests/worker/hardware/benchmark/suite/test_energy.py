import time

import pytest

from worker.hardware.benchmark.suite.energy import PowerMeter, cpu_power


def test_power_adds_up_to_energy():
    with PowerMeter(lambda: 10.0) as meter:
        time.sleep(0.25)
    assert meter.joules == pytest.approx(10.0 * meter.seconds)
    assert meter.seconds > 0


def test_a_block_shorter_than_the_period_has_energy():
    with PowerMeter(lambda: 10.0) as meter:
        pass
    assert meter.joules == pytest.approx(10.0 * meter.seconds)
    assert meter.seconds > 0


def test_without_power_there_is_no_energy():
    with PowerMeter(lambda: None) as meter:
        time.sleep(0.15)
    assert meter.joules is None


def test_the_processors_counter_becomes_power(tmp_path):
    path = tmp_path / "energy_uj"
    assert cpu_power(path) is None
    path.write_text("1000000\n")
    read = cpu_power(path)
    path.write_text("3000000\n")
    assert read() > 0
    path.write_text("5\n")  # it has wrapped
    assert read() is None
