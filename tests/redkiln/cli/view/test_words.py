from datetime import UTC, datetime, timedelta

import pytest

from redkiln.cli.view import words

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "0.0 s"),
        (0.84, "0.8 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (3600, "1 h 00 min"),
        (7500, "2 h 05 min"),
        (100_000, "1 d 3 h"),
    ],
)
def test_durations(seconds, expected):
    assert words.duration(seconds) == expected


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (1234567, "1.2 MB"),
        (123_456_789, "123 MB"),
        (999_999_999, "1.0 GB"),
        (5 * 10**15, "5000 TB"),
    ],
)
def test_sizes(num_bytes, expected):
    assert words.size(num_bytes) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (0.12345, "0.1235"),
        (12.345, "12.35"),
        (3.2e-5, "3.20e-05"),
        (12345.6, "12,346"),
        (146_999.4, "146,999"),
        (2.5e7, "2.50e+07"),
    ],
)
def test_numbers(value, expected):
    assert words.number(value) == expected


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-5, "just now"),
        (3, "just now"),
        (30, "30 s ago"),
        (300, "5 min ago"),
        (7200, "2 h ago"),
        (200_000, "2 d ago"),
        (5_000_000, "2026-09-24"),
    ],
)
def test_moments(seconds, expected):
    assert words.ago(NOW - timedelta(seconds=seconds), NOW) == expected


def test_a_sparkline_goes_from_the_lowest_to_the_highest_bar():
    assert words.sparkline([0, 1, 2, 3, 4, 5, 6, 7], 8) == "▁▂▃▄▅▆▇█"
    assert words.sparkline(list(range(1000)), 8) == "▁▂▃▄▅▆▇█"
    assert words.sparkline([1, float("nan"), 1, float("inf")], 8) == "▁▁"
    assert words.sparkline([1], 8) == ""


@pytest.mark.parametrize(
    ("amount", "noun", "expected"),
    [(1, "file", "1 file"), (2, "class", "2 classes"), (1797, "image", "1,797 images")],
)
def test_plurals(amount, noun, expected):
    assert words.plural(amount, noun) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("gpu/0/busy_ratio", 0.974, "97 %"),
        ("host/memory_used_bytes", 3 * 2**30, "3.0 GiB"),
        ("host/memory_used_bytes", 310 * 2**20, "310 MiB"),
        ("host/memory_used_bytes", 34 * 2**10, "34 KiB"),
        ("host/memory_used_bytes", 0, "0 MiB"),
        ("gpu/0/power_watts", 211.6, "212 W"),
        ("gpu/0/junction_celsius", 71.2, "71 °C"),
        ("gpu/0/core_clock_hz", 2_480_000_000, "2.48 GHz"),
        ("gpu/0/fan_rpm", 1200.0, "1200"),
    ],
)
def test_readings_have_the_unit_of_their_name(name, value, expected):
    assert words.reading(name, value) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("test/accuracy", "100.0 %"),
        ("test/macro_f1", "1.000"),
        ("test/auc_onnx", "1.000"),
        ("val/loss", "1"),
    ],
)
def test_a_metric_has_the_same_digits_whatever_its_value(name, expected):
    assert words.metric(name, 1.0) == expected
