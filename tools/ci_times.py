"""How long the parts of a test run and its slowest tests took, next to the runs before.

    python tools/ci_times.py FOLDER CSV

The folder is what `.ci/run` leaves: `parts.tsv`, a line a part (name, exit status, seconds, seconds
of CPU time), and `<part>.xml`, pytest's report. Prints both lists, appends them to the CSV file,
and ends with the number of tests that passed, failed and were skipped.
"""

import csv
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

NUM_SLOWEST = 30
COLUMNS = ("at", "commit", "part", "test", "seconds", "cpu_seconds")


def main(folder: Path, csv_path: Path) -> None:
    """Print the times of a run and append them to the file."""
    parts = [line.split("\t") for line in (folder / "parts.tsv").read_text().splitlines()]
    tests = sorted(_tests(folder), key=lambda row: -row[2])
    print(f"{'part':<14}{'seconds':>8}{'CPU':>8}")
    for name, status, seconds, cpu_seconds in parts:
        ending = "" if status == "0" else f"  failed with status {status}"
        print(f"{name:<14}{float(seconds):8.0f}{float(cpu_seconds):8.0f}{ending}")
    print(f"\nslowest {NUM_SLOWEST} tests")
    for part, test, test_seconds in tests[:NUM_SLOWEST]:
        print(f"{test_seconds:8.1f} s  {part:<12} {test}")
    rows = [(name, "", seconds, cpu_seconds) for name, _, seconds, cpu_seconds in parts]
    rows += [(part, test, f"{each:.2f}", "") for part, test, each in tests[:NUM_SLOWEST]]
    _append(csv_path, rows)
    print(f"\nappended to {csv_path}")
    print(_count(folder, num_failed_parts=sum(status != "0" for _, status, *_ in parts)))


def _tests(folder: Path) -> Iterator[tuple[str, str, float]]:
    for path in folder.glob("*.xml"):
        for case in ET.parse(path).iter("testcase"):  # noqa: S314  pytest wrote it
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            yield path.stem, name, float(case.get("time", 0))


def _append(csv_path: Path, rows: list[tuple[str, str, str, str]]) -> None:
    at = datetime.now(UTC).isoformat(timespec="seconds")
    command = ["git", "rev-parse", "--short", "HEAD"]
    git = subprocess.run(command, capture_output=True, text=True, check=False)
    is_new = not csv_path.exists()
    csv_path.parent.mkdir(parents=True, exist_ok=True)
    with csv_path.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerows((at, git.stdout.strip(), *row) for row in rows)


def _count(folder: Path, *, num_failed_parts: int) -> str:
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for path in folder.glob("*.xml"):
        for suite in ET.parse(path).iter("testsuite"):  # noqa: S314  pytest wrote it
            for name in totals:
                totals[name] += int(suite.get(name, 0))
    failed = totals["failures"] + totals["errors"]
    passed = totals["tests"] - failed - totals["skipped"]
    # A lint, or a part that broke off, fails without a failed test.
    return f"{passed} passed, {failed or num_failed_parts} failed, {totals['skipped']} skipped"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
