import json
from datetime import UTC, datetime

import pytest

from redkiln.views.benchmark import (
    SCHEMA_VERSION,
    BenchmarkResult,
    Machine,
    Measurement,
    Pair,
    Rate,
    compare_results,
    summarise,
)

MACHINE = Machine(
    hostname="bench", kind="cpu", device="a CPU", cpu="a CPU", num_cores=2, num_threads=2
)


def measured(measurement_id, value, *, unit="TFLOP/s", **fields):
    rate = None if value is None else Rate(value=value, spread=0.01, num_samples=15)
    title = measurement_id.replace("/", " ")
    return Measurement(
        id=measurement_id, test="matmul", title=title, unit=unit, rate=rate, **fields
    )


def result(*measurements):
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return BenchmarkResult(at=at, seconds=1.0, machine=MACHINE, measurements=list(measurements))


@pytest.mark.parametrize(
    ("samples", "value", "spread"),
    [([4.0], 4.0, 0.0), ([1.0, 2.0, 3.0, 4.0, 5.0], 3.0, 2 / 3), ([2.0, 2.0, 2.0], 2.0, 0.0)],
)
def test_samples_become_a_median_and_their_interquartile_range(samples, value, spread):
    rate = summarise(samples)
    assert (rate.value, rate.num_samples) == (value, len(samples))
    assert rate.spread == pytest.approx(spread)


def test_an_outlier_hardly_moves_median_and_spread():
    rate = summarise([10.0] * 14 + [0.1])
    assert (rate.value, rate.spread) == (10.0, 0.0)


@pytest.mark.parametrize(
    ("value", "peak", "share"), [(30.0, 60.0, 0.5), (30.0, None, None), (None, 60.0, None)]
)
def test_the_share_of_the_peak_is_unknown_unless_both_are_known(value, peak, share):
    assert measured("matmul/1024/fp32", value, peak=peak).share == share


def test_two_machines_are_compared_with_ratios():
    first = result(measured("matmul/1024/fp32", 10.0), measured("matmul/8192/fp32", 20.0))
    second = result(measured("matmul/1024/fp32", 25.0), measured("matmul/1024/bf16", 50.0))
    rows = compare_results(first, second)
    assert [(row.id, row.ratio) for row in rows] == [
        ("matmul/1024/fp32", 2.5),
        ("matmul/8192/fp32", None),
        ("matmul/1024/bf16", None),
    ]


def test_a_test_skipped_on_both_machines_has_no_row():
    skipped = measured("matmul/1024/fp16", None, skipped="not supported: no fp16")
    assert compare_results(result(skipped), result(skipped)) == []


def test_a_result_is_the_same_after_writing_and_reading():
    whole = result(measured("matmul/1024/fp32", 10.0, peak=40.0, precision="fp32", size=1024))
    text = whole.model_dump_json(by_alias=True)
    assert BenchmarkResult.model_validate_json(text) == whole


def test_the_files_schema_does_not_change():
    document = json.loads(result(measured("matmul/1024/fp32", 1.0)).model_dump_json(by_alias=True))
    assert document["schema_version"] == SCHEMA_VERSION == 1
    assert set(document) == {
        "schema_version",
        "at",
        "seconds",
        "machine",
        "notes",
        "measurements",
        "comparisons",
        "recommendations",
    }
    assert set(document["measurements"][0]) == {
        "id",
        "test",
        "title",
        "unit",
        "precision",
        "layout",
        "size",
        "rate",
        "seconds",
        "peak",
        "flop_per_byte",
        "skipped",
    }
    assert set(document["measurements"][0]["rate"]) == {"value", "spread", "num_samples"}


def test_a_file_of_a_newer_release_with_more_fields_is_read():
    document = json.loads(result(measured("matmul/1024/fp32", 1.0)).model_dump_json(by_alias=True))
    document["measurements"][0]["joules"] = 3.0
    document["weather"] = "rain"
    assert BenchmarkResult.model_validate(document).find("matmul/1024/fp32")


def test_a_pair_is_written_with_plain_keys():
    pair = Pair.model_validate(
        {"id": "a", "title": "a", "unit": "GB/s", "without": 2.0, "with": 3.0, "spread": 0.0,
         "num_samples": 5}
    )  # fmt: skip
    assert pair.ratio == 1.5
    assert json.loads(pair.model_dump_json(by_alias=True))["with"] == 3.0
