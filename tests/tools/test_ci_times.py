"""What `.ci/run` says at its end."""

import csv

import pytest

from tools import ci_times

REPORT = """<testsuites><testsuite tests="4" failures="1" errors="0" skipped="1">
<testcase classname="tests.worker.export.test_a" name="test_slow" time="12.5">
<properties><property name="cpu_seconds" value="0.25"/></properties></testcase>
<testcase classname="tests.worker.export.test_a" name="test_quick" time="0.1">
<properties><property name="cpu_seconds" value="3.5"/><property name="rerun" value="1"/>
</properties></testcase></testsuite></testsuites>"""


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
    (tmp_path / "unit.xml").write_text(REPORT)
    for _ in range(2):
        lines = run()
    assert lines[-1] == "2 passed, 1 failed, 1 skipped"
    assert "failed with status 2" in next(line for line in lines if line.startswith("unit"))
    assert find_tests(lines, "slowest 30 tests") == [(12.5, "test_slow"), (0.1, "test_quick")]
    busiest = find_tests(lines, "30 tests with the most CPU time")
    assert busiest == [(3.5, "test_quick"), (0.2, "test_slow")]
    assert "     3.8 s  unit         worker.export                  2 tests" in lines
    (rerun,) = [line for line in lines if line.startswith("RERUN")]
    assert rerun.startswith("RERUN unit tests.worker.export.test_a::test_quick")
    rows = list(csv.DictReader((tmp_path / "out" / "ci.csv").read_text().splitlines()))
    assert len(rows) == 8
    assert (rows[0]["part"], rows[0]["cpu_seconds"]) == ("lint", "58.5")
    assert rows[2]["test"].endswith("::test_slow")
    assert (rows[2]["seconds"], rows[2]["cpu_seconds"]) == ("12.50", "0.25")


def test_a_part_that_fails_without_a_failed_test_counts(tmp_path, run):
    (tmp_path / "parts.tsv").write_text("lint\t2\t60.0\t58.5\n")
    assert run()[-1] == "0 passed, 1 failed, 0 skipped"
