from datetime import UTC

import pytest

from tests.worker.hardware.trees import RAPHAEL, RX_7900_XTX, put, write_machine
from worker.hardware.facts.telemetry import parse_active_level, read_telemetry


@pytest.fixture
def device_dir(tmp_path):
    return write_machine(tmp_path, [RX_7900_XTX]).device_dir(0)


def values(reading):
    return reading.model_dump(exclude={"at", "read_seconds"}, exclude_none=True)


def test_every_sensor_of_a_discrete_card_is_read(device_dir):
    reading = read_telemetry(device_dir)
    assert values(reading) == {
        "busy_ratio": 0.05,
        "vram_total_bytes": RX_7900_XTX.vram_bytes,
        "vram_used_bytes": RX_7900_XTX.vram_used_bytes,
        "gtt_total_bytes": RX_7900_XTX.gtt_bytes,
        "gtt_used_bytes": 52428800,
        "edge_celsius": 48.0,
        "junction_celsius": 61.0,
        "memory_celsius": 68.0,
        "power_watts": 68.0,
        "power_cap_watts": 290.0,
        "fan_rpm": 1200,
        "core_clock_hz": 1_200_000_000,
        "memory_clock_hz": 1_249_000_000,
    }
    assert reading.at.tzinfo is UTC
    assert reading.read_seconds > 0


def test_an_apu_has_fewer_sensors(tmp_path):
    reading = read_telemetry(write_machine(tmp_path, [RAPHAEL]).device_dir(1))
    assert (reading.power_cap_watts, reading.fan_rpm, reading.junction_celsius) == (None,) * 3
    assert reading.memory_clock_hz == 1_249_000_000


def test_a_folder_without_sensors_is_a_reading_without_values(tmp_path):
    assert values(read_telemetry(tmp_path / "missing")) == {}


@pytest.mark.parametrize(
    ("levels", "hertz"),
    [
        ("0: 300Mhz\n1: 1900Mhz *\n", 1_900_000_000),
        ("S: 500Mhz *\n1: 2070Mhz\n", 500_000_000),
        ("0: 300Mhz \n1: 0Mhz *\n2: 1900Mhz \n", 0),
        ("0: 300Mhz *\n1: 1900Mhz *\n", None),
        ("0: 300Mhz\n1: 1900Mhz\n", None),
        ("nonsense *\n", None),
        ("", None),
    ],
)
def test_the_clock_is_that_of_the_single_active_level(levels, hertz):
    assert parse_active_level(levels) == hertz


def test_without_a_sensor_clocks_come_from_the_levels(device_dir):
    for name in ("freq1_input", "freq2_input"):
        (device_dir / "hwmon/hwmon3" / name).unlink()
    reading = read_telemetry(device_dir)
    assert (reading.core_clock_hz, reading.memory_clock_hz) == (1_200_000_000, 1_249_000_000)


def test_without_an_average_the_current_power_is_used(device_dir):
    (device_dir / "hwmon/hwmon3/power1_average").rename(device_dir / "hwmon/hwmon3/power1_input")
    assert read_telemetry(device_dir).power_watts == 68.0


def test_sensors_are_found_by_name_among_several(device_dir):
    put(device_dir / "hwmon/hwmon1/name", "nvme\n")
    put(device_dir / "hwmon/hwmon1/temp1_label", "edge\n")
    put(device_dir / "hwmon/hwmon1/temp1_input", "99000\n")
    assert read_telemetry(device_dir).edge_celsius == 48.0


@pytest.mark.parametrize(
    ("file", "content", "field"),
    [
        ("gpu_busy_percent", "65535\n", "busy_ratio"),
        ("gpu_busy_percent", "-1\n", "busy_ratio"),
        ("mem_info_vram_used", "-5\n", "vram_used_bytes"),
        ("mem_info_vram_total", "many\n", "vram_total_bytes"),
        ("mem_info_gtt_used", f"{2**64 - 1}\n", "gtt_used_bytes"),
        ("hwmon/hwmon3/temp3_input", "0\n", "memory_celsius"),
        ("hwmon/hwmon3/temp2_input", "-300000\n", "junction_celsius"),
        ("hwmon/hwmon3/power1_cap", "\n", "power_cap_watts"),
        ("hwmon/hwmon3/fan1_input", "\ufffd\n", "fan_rpm"),
    ],
)
def test_an_impossible_value_is_none_and_the_others_are_kept(device_dir, file, content, field):
    whole = values(read_telemetry(device_dir))
    put(device_dir / file, content)
    assert values(read_telemetry(device_dir)) == {k: v for k, v in whole.items() if k != field}


def test_a_truncated_sensor_file_is_a_missing_value(device_dir):
    put(device_dir / "hwmon/hwmon3/temp1_input", "48")
    reading = read_telemetry(device_dir)
    assert (reading.edge_celsius, reading.junction_celsius) == (None, 61.0)
