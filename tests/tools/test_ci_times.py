"""What `.ci/run` says at its end."""

import csv
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
REPORT = """<testsuites><testsuite tests="4" failures="1" errors="0" skipped="1">
<testcase classname="tests.test_a" name="test_slow" time="12.5"/>
<testcase classname="tests.test_a" name="test_quick" time="0.1"/>
</testsuite></testsuites>"""


def run(folder, csv_path):
    command = [sys.executable, ROOT / "tools/ci_times.py", folder, csv_path]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_parts_and_slowest_tests_are_printed_appended_and_counted(tmp_path):
    (tmp_path / "parts.tsv").write_text("lint\t0\t60.0\t58.5\nunit\t2\t200.4\t380.0\n")
    (tmp_path / "unit.xml").write_text(REPORT)
    for _ in range(2):
        lines = run(tmp_path, tmp_path / "out" / "ci.csv").splitlines()
    assert lines[-1] == "2 passed, 1 failed, 1 skipped"
    assert "failed with status 2" in next(line for line in lines if line.startswith("unit"))
    slowest = [line.split()[-1] for line in lines if " s  unit " in line]
    assert slowest == ["tests.test_a::test_slow", "tests.test_a::test_quick"]
    rows = list(csv.DictReader((tmp_path / "out" / "ci.csv").read_text().splitlines()))
    assert len(rows) == 8
    assert (rows[0]["part"], rows[0]["cpu_seconds"]) == ("lint", "58.5")
    assert (rows[2]["test"], rows[2]["seconds"]) == ("tests.test_a::test_slow", "12.50")


def test_a_part_that_fails_without_a_failed_test_counts(tmp_path):
    (tmp_path / "parts.tsv").write_text("lint\t2\t60.0\t58.5\n")
    assert run(tmp_path, tmp_path / "ci.csv").endswith("0 passed, 1 failed, 0 skipped\n")
