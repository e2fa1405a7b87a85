"""What `.ci/run` says at its end."""

import csv

import pytest

from tools import ci_times

PASSED, FAILED, SKIPPED = "", '<failure message="no"/>', "<skipped/>"


def report(**tests):
    """pytest's report of tests: seconds, seconds of CPU time, and outcome by name."""
    cases = [
        f'<testcase classname="tests.worker.export.test_a" name="{name}" time="{seconds}">{outcome}'
        f'<properties><property name="cpu_seconds" value="{cpu_seconds}"/></properties></testcase>'
        for name, (seconds, cpu_seconds, outcome) in tests.items()
    ]
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>"


@pytest.fixture
def run(tmp_path, capsys):
    """Print and append the times of the run in a folder; the printed lines."""

    def run():
        ci_times.main(tmp_path, tmp_path / "out" / "ci.csv")
        return capsys.readouterr().out.splitlines()

    return run


def find_tests(lines, title):
    """The numbers and names of tests in the list below a title."""
    listed = lines[lines.index(title) + 1 :]
    words = [line.split() for line in listed[: listed.index("")]]
    return [(float(line[0]), line[-1].split("::")[1]) for line in words]


def test_parts_and_slowest_tests_are_printed_appended_and_counted(tmp_path, run):
    (tmp_path / "parts.tsv").write_text("lint\t0\t60.0\t58.5\nunit\t2\t200.4\t380.0\n")
    tests = {"test_slow": (12.5, 0.25, FAILED), "test_quick": (0.1, 3.5, PASSED)}
    (tmp_path / "unit.xml").write_text(report(**tests, test_none=(0, 0, SKIPPED)))
    for _ in range(2):
        lines = run()
    assert lines[-1] == "1 passed, 1 failed, 1 skipped"
    assert "failed with status 2" in next(line for line in lines if line.startswith("unit"))
    slowest = find_tests(lines, "slowest 30 tests")
    assert slowest == [(12.5, "test_slow"), (0.1, "test_quick"), (0, "test_none")]
    busiest = find_tests(lines, "30 tests with the most CPU time")
    assert busiest == [(3.5, "test_quick"), (0.2, "test_slow"), (0, "test_none")]
    assert "     3.8 s  unit         worker.export                  3 tests" in lines
    assert "FAILED unit tests.worker.export.test_a::test_slow: no" in lines
    assert not [line for line in lines if line.startswith("RERUN")]
    rows = list(csv.DictReader((tmp_path / "out" / "ci.csv").read_text().splitlines()))
    assert len(rows) == 10
    assert (rows[0]["part"], rows[0]["cpu_seconds"]) == ("lint", "58.5")
    assert rows[2]["test"].endswith("::test_slow")
    assert (rows[2]["seconds"], rows[2]["cpu_seconds"]) == ("12.50", "0.25")


@pytest.mark.parametrize(
    ("second", "status", "counted"),
    [(PASSED, 0, "2 passed, 0 failed"), (FAILED, 2, "1 passed, 1 failed")],
)
def test_a_second_try_replaces_the_first_and_is_named(tmp_path, run, second, status, counted):
    parts = f"unit\t2\t200.4\t380.0\nunit-again\t{status}\t9.0\t8.0\n"
    (tmp_path / "parts.tsv").write_text(parts)
    tests = {"test_weak": (12.5, 0.25, FAILED), "test_quick": (0.1, 3.5, PASSED)}
    (tmp_path / "unit.xml").write_text(report(**tests))
    (tmp_path / "unit-again.xml").write_text(report(test_weak=(2.5, 0.25, second)))
    lines = run()
    assert lines[-1] == f"{counted}, 0 skipped"
    (rerun,) = [line for line in lines if line.startswith("RERUN")]
    assert rerun.startswith("RERUN unit-again tests.worker.export.test_a::test_weak: it failed at")


def test_a_part_that_fails_without_a_failed_test_counts(tmp_path, run):
    (tmp_path / "parts.tsv").write_text("lint\t2\t60.0\t58.5\n")
    assert run()[-1] == "0 passed, 1 failed, 0 skipped"
