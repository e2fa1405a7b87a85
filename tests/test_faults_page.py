"""docs/faults.md names tests that exist, and says where a test is missing."""

import difflib
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGE = TESTS.parent / "docs" / "faults.md"
NUM_FAULTS = 46
PROOFS = ("**processes**", "**in process**", "**in part**", "**none yet**")
ROWS = re.findall(r"^\| (\d+) \|(.*)\|$", PAGE.read_text(), re.M)
NAMED = re.compile(r"`(test_\w+)\.py::(\w+)`")


@cache
def find_tests():
    """File stems by the names of the tests in them; folders do not matter."""
    found = {}
    for path in TESTS.rglob("test_*.py"):
        for pair in re.findall(r"^(?:def (test_\w+)|(Test\w+) =)", path.read_text(), re.M):
            found.setdefault("".join(pair), set()).add(path.stem)
    return found


def find_similar(name):
    return difflib.get_close_matches(name, find_tests(), n=1)


def test_every_fault_has_its_row():
    assert [int(number) for number, _ in ROWS] == list(range(1, NUM_FAULTS + 1))


@pytest.mark.parametrize(("number", "row"), ROWS, ids=[number for number, _ in ROWS])
def test_a_row_names_tests_that_exist_or_says_that_there_is_none(number, row):
    fault, seen, guaranteed, proof = (cell.strip() for cell in row.split(" | "))
    assert fault
    assert seen
    assert guaranteed
    assert proof.startswith(PROOFS)
    named = NAMED.findall(proof)
    assert bool(named) != proof.startswith("**none yet**")
    for stem, name in named:
        elsewhere = find_tests().get(name, set())
        assert stem in elsewhere, f"no {name} in {stem}.py; see {elsewhere or find_similar(name)}"
