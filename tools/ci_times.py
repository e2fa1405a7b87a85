"""How long the parts of a test run, its folders and its tests took, next to the runs before.

    python tools/ci_times.py FOLDER CSV

The folder is what `.ci/run` leaves: `parts.tsv`, a line a part (name, exit status, seconds, seconds
of CPU time), and `<part>.xml`, pytest's report, to which `tests/cpu_time.py` adds each test's CPU
time. The second try of a part's failed tests is the part `<part>-again`; it replaces the first try.
Prints the tests and folders that took longest, the parts, the failed tests with the first line of
what they say, and the tests that had a second try. Appends parts and tests to the CSV file. Ends
with the number of tests that passed, failed and were skipped.
"""

import csv
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

NUM_SLOWEST = 30
MOST_REASON_CHARS = 300
AGAIN = "-again"
COLUMNS = ("at", "commit", "part", "test", "seconds", "cpu_seconds")


@dataclass(frozen=True)
class Test:
    """A test of a part; `cpu_seconds` includes its children's.

    `outcome` is `passed`, `failed` or `skipped`; a failed one has a `reason`.
    """

    part: str
    name: str
    seconds: float
    cpu_seconds: float
    outcome: str
    reason: str = ""

    @property
    def folder(self) -> str:
        """The folder below `tests`, such as `worker.export`."""
        return ".".join(self.name.split("::")[0].split(".")[1:3])


def main(folder: Path, csv_path: Path) -> None:
    """Print the times of a run and append them to the file."""
    parts = [line.split("\t") for line in (folder / "parts.tsv").read_text().splitlines()]
    tests = list(_tests(folder))
    slowest = sorted(tests, key=lambda test: -test.seconds)[:NUM_SLOWEST]
    _print_tests(f"slowest {NUM_SLOWEST} tests", ((each.seconds, each) for each in slowest))
    busiest = sorted(tests, key=lambda test: -test.cpu_seconds)[:NUM_SLOWEST]
    title = f"{NUM_SLOWEST} tests with the most CPU time"
    _print_tests(title, ((each.cpu_seconds, each) for each in busiest))
    _print_folders(tests)
    print(f"\n{'part':<20}{'seconds':>8}{'CPU':>8}")
    for name, status, seconds, cpu_seconds in parts:
        ending = "" if status == "0" else f"  failed with status {status}"
        print(f"{name:<20}{float(seconds):8.0f}{float(cpu_seconds):8.0f}{ending}")
    for test in tests:
        if test.outcome == "failed":
            print(f"FAILED {test.part} {test.name}: {test.reason}")
    for test in tests:
        if test.part.endswith(AGAIN):
            print(
                f"RERUN {test.part} {test.name}: it failed at first, then {test.outcome}; mend it"
            )
    rows = [(name, "", seconds, cpu_seconds) for name, _, seconds, cpu_seconds in parts]
    listed = slowest + [test for test in busiest if test not in slowest]
    rows += [(t.part, t.name, f"{t.seconds:.2f}", f"{t.cpu_seconds:.2f}") for t in listed]
    _append(csv_path, rows)
    print(f"\nappended to {csv_path}")
    last = {name.removesuffix(AGAIN): status for name, status, *_ in parts}
    print(_count(tests, num_failed_parts=sum(status != "0" for status in last.values())))


def _tests(folder: Path) -> Iterator[Test]:
    for path in sorted(folder.glob("*.xml")):
        for case in ET.parse(path).iter("testcase"):  # noqa: S314  pytest wrote it
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            told = {each.get("name"): each.get("value", "") for each in case.iter("property")}
            cpu_seconds = float(told.get("cpu_seconds", "0"))
            seconds = float(case.get("time", 0))
            yield Test(path.stem, name, seconds, cpu_seconds, *_outcome(case))


def _outcome(case: ET.Element) -> tuple[str, str]:
    for fault in (*case.iter("failure"), *case.iter("error")):
        message = fault.get("message", "").strip().partition("\n")[0]
        return "failed", message[:MOST_REASON_CHARS]
    return ("passed" if case.find("skipped") is None else "skipped"), ""


def _print_tests(title: str, tests: Iterable[tuple[float, Test]]) -> None:
    print(f"\n{title}")
    for seconds, test in tests:
        print(f"{seconds:8.1f} s  {test.part:<12} {test.name}")


def _print_folders(tests: list[Test]) -> None:
    """Print the CPU time of the tests of each folder; imports and collection are not in it."""
    folders = defaultdict[tuple[str, str], list[float]](list)
    for test in tests:
        folders[test.part, test.folder].append(test.cpu_seconds)
    print("\nfolders by CPU time")
    for (part, folder), spent in sorted(folders.items(), key=lambda item: -sum(item[1])):
        print(f"{sum(spent):8.1f} s  {part:<12} {folder:<30} {len(spent)} tests")


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


def _count(tests: list[Test], *, num_failed_parts: int) -> str:
    outcomes = dict[tuple[str, str], str]()
    for test in tests:
        key = test.part, test.name
        # A test whose end fails, too, is in the report twice.
        if outcomes.get(key) != "failed":
            outcomes[key] = test.outcome
    for (part, name), outcome in list(outcomes.items()):
        if part.endswith(AGAIN):
            del outcomes[part, name]
            outcomes[part.removesuffix(AGAIN), name] = outcome
    count = Counter(outcomes.values())
    # A lint, or a part that broke off, fails without a failed test.
    failed = count["failed"] or num_failed_parts
    return f"{count['passed']} passed, {failed} failed, {count['skipped']} skipped"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
