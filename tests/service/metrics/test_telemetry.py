"""A job's telemetry: sent with reports, stored in small chunks, shown over time."""

import numpy as np
import pytest
from sqlmodel import select

from service.metrics.models import TelemetryChunk
from service.metrics.series import join_times

WATTS = "gpu/0/power_watts"


def read(client, job_id, **query):
    response = client.get(f"/v1/jobs/{job_id}/telemetry", params=query)
    assert response.status_code == 200, response.text
    return {series["name"]: series for series in response.json()["series"]}


@pytest.fixture
def attempt(worker, submit):
    submit()
    return worker.claim()


def test_series_are_shown_over_time(client, attempt):
    attempt.report(telemetry={WATTS: [[1000, 200.0], [2000, 210.5]], "host/cpu_ratio": [[1000, 1]]})
    series = read(client, attempt.job_id)
    assert set(series) == {WATTS, "host/cpu_ratio"}
    assert series[WATTS] == {
        "name": WATTS,
        "at_ms": [1000, 2000],
        "values": [200.0, 210.5],
        "num_points": 2,
        "downsampled": False,
    }
    assert read(client, attempt.job_id, names=WATTS, after_ms=1000)[WATTS]["at_ms"] == [2000]


def test_a_repeated_report_adds_nothing(client, attempt):
    for points in ([[1000, 1.0]], [[1000, 9.0], [2000, 2.0]], [[500, 9.0]]):
        attempt.report(telemetry={WATTS: points})
    assert read(client, attempt.job_id)[WATTS]["values"] == [1.0, 2.0]


@pytest.mark.parametrize(
    "telemetry",
    [{WATTS: [[1000]]}, {WATTS: "much"}, {"": [[1, 2]]}, [1], {WATTS: [[-1, 2.0]]}, None],
)
def test_invalid_telemetry_does_not_fail_the_report(client, attempt, telemetry):
    response = attempt.report(("message", {"text": "hello"}), telemetry=telemetry)
    assert (response.status_code, response.json()["acked_seq"]) == (200, 1)
    assert read(client, attempt.job_id) == {}


def test_metrics_and_telemetry_may_have_the_same_name(client, attempt):
    attempt.report(("metrics", {"points": {"lr": [[1, 0.5]]}}), telemetry={"lr": [[1000, 7.0]]})
    metrics = client.get(f"/v1/jobs/{attempt.job_id}/metrics").json()["series"]
    assert [series["values"] for series in metrics] == [[0.5]]
    assert read(client, attempt.job_id)["lr"]["values"] == [7.0]


def test_a_long_series_is_thinned_and_stored_in_small_chunks(client, attempt, services):
    points = [[1000 * n, float(n % 7)] for n in range(1500)]
    for start in range(0, 1500, 100):
        attempt.report(telemetry={WATTS: points[start : start + 100]})
    shown = read(client, attempt.job_id, max_points=50)[WATTS]
    assert (shown["num_points"], shown["downsampled"]) == (1500, True)
    assert len(shown["at_ms"]) <= 50
    rows = services.database.read(lambda s: s.exec(select(TelemetryChunk)).all())
    assert sorted(row.num_points for row in rows) == [476, 512, 512]


def test_the_attempts_of_a_job_follow_each_other(client, attempt, worker):
    attempt.report(telemetry={WATTS: [[1000, 1.0], [2000, 2.0]]})
    attempt.fail()
    again = worker.claim()
    again.report(telemetry={WATTS: [[9000, 3.0]]})
    assert read(client, attempt.job_id)[WATTS]["values"] == [1.0, 2.0, 3.0]


def test_a_clock_that_was_set_back_does_not_make_a_curve_run_backwards():
    first = np.array([[1.0, 10], [5.0, 11], [9.0, 12]])
    second = np.array([[5.0, 20], [6.0, 21]])
    assert join_times([first, np.empty((0, 2)), second])[:, 0].tolist() == [1, 5, 6]


def test_telemetry_is_deleted_with_its_job(client, attempt, services):
    attempt.report(telemetry={WATTS: [[1000, 1.0]]})
    attempt.fail(retryable=False)
    assert client.delete(f"/v1/jobs/{attempt.job_id}").status_code == 204
    assert services.database.read(lambda s: s.exec(select(TelemetryChunk)).all()) == []
