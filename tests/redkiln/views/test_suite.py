"""The score is 1000 times the geometric mean of the reached TFLOP/s."""

from datetime import UTC, datetime

import pytest

from redkiln.views.benchmark import Machine, Rate
from redkiln.views.suite import SuiteResult, SuiteTest, compare_scores, load_suite


def make_test(name="a", mode="inference", rate=10.0, **changes):
    told = {
        "id": f"{name}/{mode}", "mode": mode, "batch_size": 5, "size": 8, "flop": 1e12,
        "num_bytes": 2e10, "rate": Rate(value=rate, spread=0.01, num_samples=5),
    }  # fmt: skip
    return SuiteTest.model_validate(told | changes)


def make_result(*tests, **changes):
    machine = Machine(hostname="h", kind="cpu", device="a CPU", cpu="a CPU", num_cores=1,
                      num_threads=1, versions={})  # fmt: skip
    told = {"at": datetime(2026, 11, 23, tzinfo=UTC), "sizes": "cpu", "precision": "fp32",
            "machine": machine, "tests": list(tests) or [make_test()]}  # fmt: skip
    return SuiteResult.model_validate(told | changes)


def test_the_score_is_the_geometric_mean_of_the_rates():
    result = make_result(make_test(rate=10.0), make_test("b", rate=40.0),
                         make_test("a", "training", rate=5.0))  # fmt: skip
    assert result.tests[0].tflops == 2.0
    assert result.scores["inference"] == pytest.approx(1000 * 4.0)
    assert result.scores["training"] == pytest.approx(1000 * 1.0)
    assert result.scores["total"] == pytest.approx(1000 * (2.0 * 8.0 * 1.0) ** (1 / 3))


def test_a_machine_that_is_twice_as_fast_has_twice_the_score():
    slow = make_result(make_test(rate=3.0), make_test("b", rate=7.0)).scores["total"]
    fast = make_result(make_test(rate=6.0), make_test("b", rate=14.0)).scores["total"]
    assert fast == pytest.approx(2 * slow)


def test_a_missing_workload_leaves_no_score():
    scores = make_result(make_test(), make_test("b", rate=10.0, flop=0.0)).scores
    assert scores == {"inference": None, "training": None, "total": None}


def test_samples_per_joule_need_energy():
    assert make_test(joules=2.5).samples_per_joule == 2.0
    assert make_test().samples_per_joule is None


def test_a_result_survives_its_file(tmp_path):
    path = tmp_path / "suite.json"
    path.write_text(make_result().model_dump_json())
    assert load_suite(path) == make_result()


def test_scores_are_compared_only_over_the_same_workloads():
    one, other = make_result(make_test()), make_result(make_test(rate=20.0))
    assert compare_scores(one, other) == [one.scores, other.scores]
    more = make_result(make_test(), make_test("b"))
    assert all(set(each.values()) == {None} for each in compare_scores(one, more))
